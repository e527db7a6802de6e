"""PEP 249: the module, connections, cursors, and the classes of errors."""

import pytest

import heddledb


def test_the_module_says_what_pep_249_asks_for():
    assert heddledb.apilevel == "2.0"
    assert heddledb.threadsafety == 1
    assert heddledb.paramstyle == "pyformat"
    assert issubclass(heddledb.IntegrityError, heddledb.DatabaseError)
    assert issubclass(heddledb.DatabaseError, heddledb.Error)
    assert issubclass(heddledb.InterfaceError, heddledb.Error)
    assert heddledb.Connection.IntegrityError is heddledb.IntegrityError


def test_rows_are_fetched_one_by_one_in_parts_and_all(con):
    cursor = con.execute("select n, n * n as square from generate_series(1, 10) n")
    assert [column[0] for column in cursor.description] == ["n", "square"]
    assert cursor.description[0][1] == heddledb.NUMBER
    assert cursor.rowcount == 10
    assert cursor.fetchone() == (1, 1)
    assert cursor.fetchmany(2) == [(2, 4), (3, 9)]
    assert next(cursor) == (4, 16)
    assert len(cursor.fetchall()) == 6
    assert cursor.fetchone() is None
    assert cursor.fetchmany(3) == []
    assert list(cursor) == []


@pytest.mark.parametrize(
    "text, parameters",
    [
        ("select %s + %s", (40, 2)),
        ("select %(a)s::int + %(b)s::int", {"a": 40, "b": 2}),
        ("select :a::int + :b::int", {"a": 40, "b": 2}),
        ("select $1::int + $2::int", [40, 2]),
        ("select (100 %% 58)::int + %s", (0,)),
        ("select 100 %% 58", ()),
        ("select 100 %% 58", {}),
    ],
)
def test_placeholders(con, text, parameters):
    assert con.execute(text, parameters).fetchone() == (42,)


def test_what_looks_like_a_placeholder_is_none(con):
    text = """select ':a', ":b", $$ :c $$, e'\\':d', (array[1,2,3])[1:2], :e /* :f */ -- :g
              from (select 1 as ":b") t"""
    assert con.execute(text, {"e": "x"}).fetchone() == (":a", 1, " :c ", "':d", [1, 2], "x")
    assert con.execute("select 5 % 3, 'a%s'").fetchone() == (2, "a%s")


@pytest.mark.parametrize(
    "text, parameters",
    [
        ("select %s", ()),
        ("select %s", (1, 2)),
        ("select %d", (1,)),
        ("select %(a)s", (1,)),
        ("select %(a)s", {"b": 1}),
        ("select :a", {"b": 1}),
        ("select %s", {}),
        ("select %(a)s", {}),
        ("select $1", ()),
        ("select %s", "a"),
        ("select %s", (object(),)),
    ],
)
def test_wrong_parameters_are_programming_errors(con, text, parameters):
    with pytest.raises(heddledb.ProgrammingError):
        con.execute(text, parameters)


def test_a_transaction_begins_with_the_first_statement(con):
    con.execute("create table t (a int)")
    con.commit()
    assert not con.in_transaction
    con.execute("insert into t values (1)")
    assert con.in_transaction
    con.rollback()
    assert con.execute("select count(*) from t").fetchone() == (0,)
    con.execute("insert into t values (2)")
    con.commit()
    con.rollback()
    assert con.execute("select a from t").fetchall() == [(2,)]


def test_a_with_block_commits_or_rolls_back(con):
    with con:
        con.execute("create table t (a int primary key)")
        con.execute("insert into t values (1)")
    with pytest.raises(heddledb.IntegrityError):
        with con:
            con.execute("insert into t values (2)")
            con.execute("insert into t values (1)")
    assert not con.in_transaction
    assert con.execute("select a from t").fetchall() == [(1,)]


def test_autocommit(con):
    con.autocommit = True
    con.execute("create table t (a int)")
    con.execute("insert into t values (1)")
    assert not con.in_transaction
    con.rollback()
    assert con.execute("select a from t").fetchall() == [(1,)]
    con.execute("begin")
    con.execute("delete from t")
    con.rollback()
    assert con.execute("select a from t").fetchall() == [(1,)]


@pytest.mark.parametrize("autocommit", [False, True])
def test_executemany_is_one_transaction(con, autocommit):
    con.executescript("create table t (a int primary key, b text)")
    con.autocommit = autocommit
    cursor = con.executemany("insert into t values (%s, %s)", ((n, str(n)) for n in range(1200)))
    assert cursor.rowcount == 1200
    con.commit()
    with pytest.raises(heddledb.IntegrityError):
        con.executemany("insert into t values (:a, :b)", [{"a": n, "b": None} for n in [5000, 5001, 7]])
    con.rollback()
    assert con.execute("select count(*), max(a) from t").fetchone() == (1200, 1199)
    con.executemany("insert into t values (%s, 'x')", [])
    cursor = con.executemany("delete from t where a = %s returning a", [(1,), (2,)])
    assert cursor.fetchall() == [(1,)]
    assert cursor.nextset()
    assert cursor.fetchall() == [(2,)]
    assert cursor.nextset() is None


def test_parameters_of_one_statement_may_have_different_types(con):
    con.execute("create table t (a numeric, b bigint)")
    con.executemany("insert into t values (%s, %s)", [(None, 1), (1, 2**40), (1.5, None)])
    assert [(a if a is None else float(a), b) for a, b in con.execute("select * from t")] == [
        (None, 1),
        (1.0, 2**40),
        (1.5, None),
    ]


def test_several_statements_are_several_results(con):
    cursor = con.execute("select 1; select 2 as b")
    assert cursor.fetchall() == [(1,)]
    assert cursor.nextset()
    assert cursor.description[0][0] == "b"
    assert cursor.fetchall() == [(2,)]
    assert cursor.nextset() is None


def test_row_counts(con):
    con.execute("create table t (a int)")
    assert con.cursor().rowcount == -1
    assert con.execute("insert into t values (1), (2)").rowcount == 2
    assert con.execute("update t set a = a + 1 where a = 1").rowcount == 1
    assert con.execute("delete from t").rowcount == 2
    assert con.execute("create table u (a int)").rowcount == -1
    assert con.execute("create table v (a int)").description is None


def test_a_failed_transaction_must_be_rolled_back(con):
    with pytest.raises(heddledb.DataError) as caught:
        con.execute("select 1 / 0")
    assert caught.value.sqlstate == "22012"
    with pytest.raises(heddledb.InternalError) as caught:
        con.execute("select 1")
    assert caught.value.sqlstate == "25P02"
    with pytest.raises(heddledb.InternalError):
        con.commit()
    assert con.execute("select 1").fetchone() == (1,)


@pytest.mark.parametrize(
    "text, kind, state",
    [
        ("selec 1", heddledb.ProgrammingError, "42601"),
        ("select * from missing", heddledb.ProgrammingError, "42P01"),
        ("select 'x'::int", heddledb.DataError, "22P02"),
        ("insert into t values (null)", heddledb.IntegrityError, "23502"),
        ("insert into t values (1), (1)", heddledb.IntegrityError, "23505"),
        ("select pg_sleep(10)", heddledb.OperationalError, "57014"),
        ("do $$ begin raise exception 'no' using errcode = 'P0001', hint = 'try'; end $$", heddledb.DatabaseError, "P0001"),
    ],
)
def test_errors_have_the_class_of_their_sqlstate(con, text, kind, state):
    con.execute("create table t (a int primary key)")
    con.execute("set local statement_timeout = 50")
    with pytest.raises(kind) as caught:
        con.execute(text)
    assert type(caught.value) is kind
    assert caught.value.sqlstate == state


def test_errors_have_the_fields_of_postgresql(con):
    con.execute("create table t (a int constraint positive check (a > 0))")
    with pytest.raises(heddledb.IntegrityError) as caught:
        con.execute("insert into t values (%s)", (-1,))
    error = caught.value
    assert (error.table_name, error.constraint_name, error.schema_name) == ("t", "positive", "public")
    assert "Failing row" in error.detail and error.detail in str(error)
    con.rollback()
    with pytest.raises(heddledb.ProgrammingError) as caught:
        con.execute("select sum(a, b) from (select 1 as a, 2 as b) t")
    assert caught.value.hint and caught.value.position == 8


def test_what_is_closed_raises_interface_errors(con):
    cursor = con.execute("select 1")
    cursor.close()
    with pytest.raises(heddledb.InterfaceError):
        cursor.fetchone()
    other = con.database.connect()
    cursor = other.cursor()
    other.close()
    other.close()
    for call in [other.cursor, other.commit, other.rollback, lambda: cursor.execute("select 1")]:
        with pytest.raises(heddledb.InterfaceError):
            call()
    assert con.execute("select 1").fetchone() == (1,)


def test_fetching_without_rows_is_an_error(con):
    cursor = con.cursor()
    with pytest.raises(heddledb.ProgrammingError):
        cursor.fetchone()
    cursor.execute("create table t (a int)")
    with pytest.raises(heddledb.ProgrammingError):
        cursor.fetchall()


def test_row_factories(con):
    con.row_factory = heddledb.Row
    row = con.execute("select 1 as Id, 'x' as \"Name\"").fetchone()
    assert (row["id"], row["name"], row["Name"], row[1], row[-1]) == (1, "x", "x", "x", "x")
    assert row.keys() == ["id", "Name"] and tuple(row) == (1, "x") and len(row) == 2
    with pytest.raises(IndexError):
        row["missing"]
    con.row_factory = heddledb.dict_row
    assert con.execute("select 1 as a, 2 as b").fetchall() == [{"a": 1, "b": 2}]
    assert list(con.execute("select 3 as a")) == [{"a": 3}]


def test_notices(con):
    con.execute("do $$ begin raise notice 'seen'; end $$")
    assert [(severity, message) for severity, _, message in con.notices] == [("NOTICE", "seen")]
    assert con.notices == []


def test_copy(con):
    con.execute("create table t (a int, b text)")
    assert con.copy_from("copy t from stdin", b"1\tx\n2\t\\N\n") == 2
    assert con.copy_to("copy t to stdout (format csv)") == b"1,x\n2,\n"
    with pytest.raises(heddledb.DataError):
        con.copy_from("copy t from stdin", b"x\ty\n")


def test_functions_are_called(con):
    con.execute("create function twice(a int) returns int language sql as 'select a * 2'")
    cursor = con.cursor()
    assert cursor.callproc("twice", [21]) == [21]
    assert cursor.fetchone() == (42,)
    with pytest.raises(heddledb.ProgrammingError):
        cursor.callproc("twice(1); drop table t; --", [])


def test_a_prepared_text_follows_the_schema(con):
    con.autocommit = True
    con.execute("create table t (a int)")
    con.execute("insert into t values (%s)", (1,))
    con.execute("alter table t alter column a type text using a::text")
    con.execute("insert into t values (%s)", ("x",))
    con.execute("alter table t add column b int default 7")
    assert con.execute("select * from t where a = %s", ("x",)).fetchall() == [("x", 7)]


def test_prepared_statements(con):
    con.execute("create table item (id int primary key, name text)")
    insert = con.prepare("insert into item values (%s, %s)")
    assert [insert.execute(n, f"item {n}") for n in range(3)] == [1, 1, 1]
    name = con.prepare("select name from item where id = $1")
    assert (name.text, name.fetchone(1), name.fetchone(7)) == ("select name from item where id = $1", ("item 1",), None)
    assert con.prepare("select id from item where name like 'item%%' order by id").fetchall() == [(0,), (1,), (2,)]
    assert con.prepare("update item set name = null where id > %s").execute(0) == 2
    assert con.prepare("select 1 + %s").fetchone(2**40) == (2**40 + 1,)
    con.rollback()
    with pytest.raises(heddledb.ProgrammingError):
        name.fetchone(1)
    for wrong in [lambda: con.prepare("selec").execute(), lambda: con.prepare("select %(n)s"), lambda: name.fetchone()]:
        with pytest.raises(heddledb.Error):
            wrong()


def test_prepared_statements_follow_the_table_and_the_mode(con):
    con.autocommit = True
    con.execute("create table item (id int primary key, n int)")
    con.prepare("insert into item values (%s, %s)").execute(1, 10)
    read = con.prepare("select * from item where id = %s")
    assert read.fetchone(1) == (1, 10)
    con.execute("alter table item add column text text default 'new'")
    con.execute("alter table item alter column n type text")
    assert read.fetchone(1) == (1, "10", "new")
    con.autocommit = False
    con.prepare("update item set n = 'twenty' where id = %s").execute(1)
    assert con.in_transaction
    con.rollback()
    assert read.fetchone(1) == (1, "10", "new")
    con.commit()
    con.read_only = True
    with pytest.raises(heddledb.InternalError):
        con.prepare("delete from item").execute()
    con.rollback()
    con.close()
    with pytest.raises(heddledb.Error):
        read.fetchone(1)
