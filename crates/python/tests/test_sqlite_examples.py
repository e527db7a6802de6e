"""The examples of sqlite3's documentation, with the import and the placeholders changed, and types added."""

import collections
import datetime
import sys

import pytest

import heddledb


def test_the_tutorial(path):
    con = heddledb.connect(path)
    cur = con.cursor()
    cur.execute("CREATE TABLE movie(title text, year int, score float)")
    res = cur.execute("SELECT relname FROM pg_class WHERE relname = 'movie'")
    assert res.fetchone() == ("movie",)
    res = cur.execute("SELECT relname FROM pg_class WHERE relname='spam'")
    assert res.fetchone() is None
    cur.execute("""
        INSERT INTO movie VALUES
            ('Monty Python and the Holy Grail', 1975, 8.2),
            ('And Now for Something Completely Different', 1971, 7.5)
    """)
    con.commit()
    res = cur.execute("SELECT score FROM movie")
    assert res.fetchall() == [(8.2,), (7.5,)]
    data = [
        ("Monty Python Live at the Hollywood Bowl", 1982, 7.9),
        ("Monty Python's The Meaning of Life", 1983, 7.5),
        ("Monty Python's Life of Brian", 1979, 8.0),
    ]
    cur.executemany("INSERT INTO movie VALUES(%s, %s, %s)", data)
    con.commit()
    rows = [row for row in cur.execute("SELECT year, title FROM movie ORDER BY year")]
    assert rows[0] == (1971, "And Now for Something Completely Different") and len(rows) == 5
    con.close()
    new_con = heddledb.connect(path)
    new_cur = new_con.cursor()
    res = new_cur.execute("SELECT title, year FROM movie ORDER BY score DESC")
    title, year = res.fetchone()
    assert f"The highest scoring Monty Python movie is {title!r}, released in {year}" == (
        "The highest scoring Monty Python movie is 'Monty Python and the Holy Grail', released in 1975"
    )
    new_con.close()


def test_placeholders(con):
    cur = con.cursor()
    symbol = "' OR TRUE; --"
    cur.execute("CREATE TABLE stocks(symbol text)")
    assert cur.execute("SELECT * FROM stocks WHERE symbol = %s", (symbol,)).fetchall() == []
    cur.execute("CREATE TABLE lang(name text, first_appeared int)")
    data = (
        {"name": "C", "year": 1972},
        {"name": "Fortran", "year": 1957},
        {"name": "Python", "year": 1991},
        {"name": "Go", "year": 2009},
    )
    cur.executemany("INSERT INTO lang VALUES(:name, :year)", data)
    params = (1972,)
    cur.execute("SELECT * FROM lang WHERE first_appeared = %s", params)
    assert cur.fetchall() == [("C", 1972)]


def test_adapters(con):
    class Point:
        def __init__(self, x, y):
            self.x, self.y = x, y

    def adapt_point(point):
        return f"{point.x};{point.y}"

    heddledb.register_adapter(Point, adapt_point)
    cur = con.cursor()
    cur.execute("SELECT %s", (Point(1.0, 2.5),))
    assert cur.fetchone()[0] == "1.0;2.5"


def test_dates(con):
    cur = con.cursor()
    cur.execute("create table test(d date, ts timestamp)")
    today, now = datetime.date.today(), datetime.datetime.now()
    cur.execute("insert into test(d, ts) values (%s, %s)", (today, now))
    cur.execute("select d, ts from test")
    assert cur.fetchone() == (today, now)


def test_the_connection_as_a_context_manager(con):
    con.execute("CREATE TABLE lang(id SERIAL PRIMARY KEY, name VARCHAR UNIQUE)")
    with con:
        con.execute("INSERT INTO lang(name) VALUES(%s)", ("Python",))
    with pytest.raises(heddledb.IntegrityError):
        with con:
            con.execute("INSERT INTO lang(name) VALUES(%s)", ("Python",))
    assert con.execute("SELECT name FROM lang").fetchall() == [("Python",)]


def test_row_factories(con):
    con.row_factory = heddledb.Row
    res = con.execute("SELECT 'Earth' AS name, 6378 AS radius")
    row = res.fetchone()
    assert row.keys() == ["name", "radius"]
    assert row[0] == row["name"] == "Earth"
    assert row["RADIUS"] == 6378

    def dict_factory(cursor, row):
        fields = [column[0] for column in cursor.description]
        return {key: value for key, value in zip(fields, row)}

    con.row_factory = dict_factory
    for row in con.execute("SELECT 1 AS a, 2 AS b"):
        assert row == {"a": 1, "b": 2}

    def namedtuple_factory(cursor, row):
        fields = [column[0] for column in cursor.description]
        return collections.namedtuple("Row", fields)._make(row)

    con.row_factory = namedtuple_factory
    row = con.execute("SELECT 1 AS a, 2 AS b").fetchone()
    assert (row.a, row[1]) == (1, 2)


def test_scripts_and_generators(con):
    cur = con.cursor()
    cur.executescript("""
        BEGIN;
        CREATE TABLE person(firstname text, lastname text, age int);
        CREATE TABLE book(title text, author text, published int);
        COMMIT;
    """)

    def char_generator():
        for c in "abcdefghijklmnopqrstuvwxyz":
            yield (c,)

    cur.execute("create table characters(c text)")
    cur.executemany("insert into characters(c) values (%s)", char_generator())
    cur.execute("select c from characters")
    assert "".join(c for (c,) in cur.fetchall()) == "abcdefghijklmnopqrstuvwxyz"
    assert cur.fetchmany(3) == []
    assert cur.connection is con and sys.getsizeof(cur) > 0
