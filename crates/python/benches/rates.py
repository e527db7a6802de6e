"""Rates beside sqlite3's, and 100,000 rows to Polars beside psycopg's.

Usage, on a machine that does nothing else, with a release wheel (`pip install ./crates/python`):

    python crates/python/benches/rates.py [SECONDS]          # needs nothing else
    python crates/python/benches/rates.py 5 --postgres DSN   # also: pip install polars psycopg[binary]
"""

import argparse
import os
import sqlite3
import tempfile
import threading
import time

import heddledb


def in_threads(count, seconds, connect, text):
    """Statements a second of threads that each run one on a connection of its own."""
    totals = [0] * count
    begin = threading.Barrier(count + 1)
    end = threading.Event()

    def work(number):
        con = connect()
        begin.wait()
        while not end.is_set():
            con.execute(text)
            totals[number] += 1
        con.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    begin.wait()
    time.sleep(seconds)
    end.set()
    for thread in threads:
        thread.join()
    return sum(totals) / seconds


def increments(seconds, directory):
    """Threads that increment one row, each time durably."""
    update = "update counter set n = n + 1 where id = 1"
    db = heddledb.Database(os.path.join(directory, "heddle"))
    db.run(lambda tx: tx.execute("create table counter (id int primary key, n bigint not null)"))
    db.run(lambda tx: tx.execute("insert into counter values (1, 0)"))
    path = os.path.join(directory, "sqlite")

    def connect_sqlite():
        con = sqlite3.connect(path, isolation_level=None, timeout=60)
        con.execute("pragma journal_mode = wal")
        con.execute("pragma synchronous = full")
        return con

    con = connect_sqlite()
    con.execute("create table counter (id integer primary key, n integer not null)")
    con.execute("insert into counter values (1, 0)")
    con.close()
    for count in [1, 8, 64]:
        ours = in_threads(count, seconds, lambda: db.connect(autocommit=True), update)
        theirs = in_threads(count, seconds, connect_sqlite, update)
        print(f"durable increments, {count:2} threads: {ours:10,.0f}/s  sqlite3 {theirs:10,.0f}/s  × {ours / theirs:.1f}")
    db.close()


def point_reads(seconds):
    """One thread that reads rows by their keys."""

    def rate(read):
        done, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            for key in range(1000):
                read(key)
            done += 1000
        return done / seconds

    create = "create table t (id int primary key, name text)"
    rows = [(key, f"name {key}") for key in range(1000)]
    con = heddledb.connect(":memory:", autocommit=True)
    con.execute(create)
    con.executemany("insert into t values (%s, %s)", rows)
    statement = con.prepare("select name from t where id = %s")
    prepared = rate(statement.fetchone)
    ours = rate(lambda key: con.execute("select name from t where id = %s", (key,)).fetchone())
    lite = sqlite3.connect(":memory:", isolation_level=None)
    lite.execute(create.replace("int primary", "integer primary"))
    lite.executemany("insert into t values (?, ?)", rows)
    theirs = rate(lambda key: lite.execute("select name from t where id = ?", (key,)).fetchone())
    for name, rates in [("prepared point reads", prepared), ("point reads by cursors", ours)]:
        print(f"{name:22}, 1 thread: {rates:10,.0f}/s  sqlite3 {theirs:10,.0f}/s  × {rates / theirs:.2f}")


def to_polars(dsn):
    """100,000 rows to Polars, beside psycopg from a server."""
    import polars
    import psycopg

    create = """create table item as select n as id, 'item ' || n as name, n * 1.5::float8 as price,
                timestamptz '2024-01-01 00:00Z' + n * interval '1 second' as sold from generate_series(1, 100000) n"""
    db = heddledb.Database(":memory:")
    db.run(lambda tx: tx.execute(create))

    def ours():
        return polars.DataFrame(db.snapshot().table("item"))

    with psycopg.connect(dsn) as con:
        con.execute(create.replace("create table", "create temporary table"))

        def theirs():
            cursor = con.execute("select * from item")
            names = [column.name for column in cursor.description]
            return polars.DataFrame(cursor.fetchall(), schema=names, orient="row")

        times = []
        for read in [ours, theirs]:
            assert read().shape == (100_000, 4)
            begin = time.perf_counter()
            for _ in range(5):
                read()
            times.append((time.perf_counter() - begin) / 5 * 1000)
    print(f"100,000 rows to Polars:          {times[0]:10,.1f} ms psycopg {times[1]:10,.1f} ms × {times[1] / times[0]:.1f}")


parser = argparse.ArgumentParser()
parser.add_argument("seconds", nargs="?", type=float, default=5)
parser.add_argument("--postgres", metavar="DSN")
arguments = parser.parse_args()
point_reads(arguments.seconds)
with tempfile.TemporaryDirectory(dir=".") as place:
    increments(arguments.seconds, place)
if arguments.postgres is not None:
    to_polars(arguments.postgres)
