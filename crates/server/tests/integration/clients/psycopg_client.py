"""psycopg 3 against a server: types, transactions, schema changes, errors, COPY, pipelines, cursors, cancellation, notices, 40001.

Usage: psycopg_client.py CONNINFO
"""

import datetime as dt
import decimal
import sys
import threading
import time
import uuid

import psycopg
from psycopg import errors

CONNINFO = sys.argv[1]


def connect(**options):
    return psycopg.connect(CONNINFO, **options)


def prepare(*statements):
    """Runs these as one transaction."""
    with connect() as conn:
        for statement in statements:
            conn.execute(statement)


TYPES = [
    ("bool", True),
    ("int2", -7),
    ("int4", 70000),
    ("int8", 2**40),
    ("float4", 1.5),
    ("float8", -2.25),
    ("numeric", decimal.Decimal("12345678901234567890.0123")),
    ("text", "naïve ☃ 'quoted'"),
    ("varchar", "v"),
    ("bytea", b"\x00\x01\xff"),
    ("date", dt.date(2024, 2, 29)),
    ("time", dt.time(23, 59, 58, 123456)),
    ("timestamp", dt.datetime(2024, 2, 29, 1, 2, 3, 456789)),
    ("timestamptz", dt.datetime(2024, 2, 29, 1, 2, 3, tzinfo=dt.timezone.utc)),
    ("interval", dt.timedelta(days=3, seconds=5)),
    ("uuid", uuid.UUID(int=0x1234567890)),
    ("int4[]", [1, 2, None, 4]),
    ("text[]", ["a", 'b"c', None]),
]


def types():
    with connect(autocommit=True) as conn:
        conn.execute("SET timezone = 'UTC'")
        for binary in (False, True):
            for prepare in (False, True):
                cur = conn.cursor(binary=binary)
                for name, value in TYPES:
                    for placeholder in ("%s", "%t", "%b"):
                        cur.execute(f"SELECT {placeholder}::{name}", (value,), prepare=prepare)
                        assert cur.fetchone()[0] == value, (name, binary, placeholder)
                        cur.execute(f"SELECT NULL::{name}")
                        assert cur.fetchone()[0] is None
        from psycopg.types.json import Jsonb, Json
        for wrapper, name in ((Jsonb, "jsonb"), (Json, "json")):
            for binary in (False, True):
                cur = conn.cursor(binary=binary)
                cur.execute(f"SELECT %s::{name}", (wrapper({"a": [1, None, "x"]}),))
                assert cur.fetchone()[0] == {"a": [1, None, "x"]}


def transactions():
    prepare(
        "DROP TABLE IF EXISTS p_item",
        "CREATE TABLE p_item (id int PRIMARY KEY, name text NOT NULL, v int CHECK (v >= 0))",
    )
    with connect() as conn:
        with conn.transaction():
            conn.execute("INSERT INTO p_item VALUES (1, 'one', 1)")
            try:
                with conn.transaction():
                    conn.execute("INSERT INTO p_item VALUES (1, 'dup', 1)")
                raise AssertionError("a duplicate key was accepted")
            except errors.UniqueViolation as error:
                assert error.diag.constraint_name == "p_item_pkey", error.diag.constraint_name
                assert error.diag.table_name == "p_item"
            with conn.transaction() as inner:
                conn.execute("INSERT INTO p_item VALUES (2, 'two', 2)")
                raise psycopg.Rollback(inner)
        assert conn.execute("SELECT count(*) FROM p_item").fetchone() == (1,)
        conn.rollback()
        for statement, expected in [
            ("INSERT INTO p_item VALUES (3, NULL, 1)", errors.NotNullViolation),
            ("INSERT INTO p_item VALUES (3, 'x', -1)", errors.CheckViolation),
            ("SELECT 1/0", errors.DivisionByZero),
            ("SELECT nothing", errors.UndefinedColumn),
            ("SELECT * FROM nothing", errors.UndefinedTable),
            ("SELEC 1", errors.SyntaxError),
            ("SELECT 'x'::int", errors.InvalidTextRepresentation),
            ("SELECT 2147483647 + 1", errors.NumericValueOutOfRange),
        ]:
            try:
                conn.execute(statement)
                raise AssertionError(statement)
            except expected:
                pass
            assert conn.info.transaction_status == psycopg.pq.TransactionStatus.INERROR
            try:
                conn.execute("SELECT 1")
                raise AssertionError("a failed transaction goes on")
            except errors.InFailedSqlTransaction:
                conn.rollback()


def schema():
    with connect() as conn:
        with conn.transaction() as outer:
            conn.execute("CREATE TABLE p_schema (id serial PRIMARY KEY, name text)")
            conn.execute("INSERT INTO p_schema (name) VALUES ('kept')")
            with conn.transaction() as inner:
                conn.execute("ALTER TABLE p_schema ADD COLUMN extra int DEFAULT 7")
                assert conn.execute("SELECT * FROM p_schema").fetchall() == [(1, "kept", 7)]
                raise psycopg.Rollback(inner)
            assert conn.execute("SELECT * FROM p_schema").fetchall() == [(1, "kept")]
            raise psycopg.Rollback(outer)
        try:
            conn.execute("SELECT * FROM p_schema")
            raise AssertionError("a table outlived its transaction")
        except errors.UndefinedTable:
            pass


def copy():
    prepare("DROP TABLE IF EXISTS p_copy", "CREATE TABLE p_copy (id int PRIMARY KEY, t text, d date)")
    with connect() as conn:
        rows = [(i, None if i % 3 == 0 else f"text\t{i}", dt.date(2024, 1, 1)) for i in range(2000)]
        cur = conn.cursor()
        with cur.copy("COPY p_copy FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        with cur.copy("COPY (SELECT * FROM p_copy ORDER BY id) TO STDOUT") as copy:
            copy.set_types(["int4", "text", "date"])
            assert list(copy.rows()) == rows
        conn.execute("DELETE FROM p_copy")
        with cur.copy("COPY p_copy FROM STDIN (FORMAT BINARY)") as copy:
            copy.set_types(["int4", "text", "date"])
            for row in rows:
                copy.write_row(row)
        with cur.copy("COPY (SELECT * FROM p_copy ORDER BY id) TO STDOUT (FORMAT BINARY)") as copy:
            copy.set_types(["int4", "text", "date"])
            assert list(copy.rows()) == rows
        conn.commit()
        try:
            with cur.copy("COPY p_copy FROM STDIN") as copy:
                copy.write(b"5000\tx\t2024-01-01\n")
                raise ZeroDivisionError
        except ZeroDivisionError:
            conn.rollback()
        assert conn.execute("SELECT count(*) FROM p_copy").fetchone() == (2000,)


def pipelines():
    prepare("DROP TABLE IF EXISTS p_pipe", "CREATE TABLE p_pipe (id int PRIMARY KEY)")
    with connect(autocommit=True) as conn:
        with conn.pipeline() as pipeline:
            cursors = [conn.execute("INSERT INTO p_pipe VALUES (%s) RETURNING id", (i,)) for i in range(20)]
            pipeline.sync()
            assert [cursor.fetchone() for cursor in cursors] == [(i,) for i in range(20)]
        try:
            with conn.pipeline():
                conn.execute("INSERT INTO p_pipe VALUES (100)")
                conn.execute("INSERT INTO p_pipe VALUES (1)")
                conn.execute("INSERT INTO p_pipe VALUES (101)")
            raise AssertionError("a duplicate key was accepted")
        except errors.UniqueViolation:
            pass
        assert conn.execute("SELECT count(*) FROM p_pipe").fetchone() == (20,)
        conn.cursor().executemany("INSERT INTO p_pipe VALUES (%s)", [(i,) for i in range(200, 700)])
        assert conn.execute("SELECT count(*) FROM p_pipe").fetchone() == (520,)


def cursors():
    with connect() as conn:
        with conn.cursor("named") as cur:
            cur.itersize = 7
            cur.execute("SELECT g FROM generate_series(1, 100) AS g ORDER BY g")
            assert [row[0] for row in cur] == list(range(1, 101))
        with conn.cursor("scrolls", scrollable=True) as cur:
            cur.execute("SELECT g FROM generate_series(1, 100) AS g ORDER BY g")
            assert cur.fetchmany(3) == [(1,), (2,), (3,)]
            cur.scroll(50, mode="absolute")
            assert cur.fetchone() == (51,)
            cur.scroll(-2)
            assert cur.fetchone() == (50,)
        with psycopg.ServerCursor(conn, "parameters") as cur:
            cur.execute("SELECT g FROM generate_series(1, %s) AS g WHERE g > %s ORDER BY g", (20, 10))
            assert cur.fetchone() == (11,)
            assert [row[0] for row in cur] == list(range(12, 21))
        with conn.cursor(name="held", withhold=True) as cur:
            cur.execute("SELECT generate_series(1, 10)")
            conn.commit()
            assert len(cur.fetchall()) == 10
        for size in (1, 7):
            with conn.cursor() as cur:
                rows = cur.stream("SELECT g FROM generate_series(1, %s) AS g", (50,), size=size)
                assert [row[0] for row in rows] == list(range(1, 51))
        explained = conn.execute("EXPLAIN SELECT g FROM generate_series(1, %s) AS g WHERE g > %s", (20, 10)).fetchall()
        assert explained
        cur = psycopg.RawCursor(conn)
        assert cur.execute("SELECT $1::int + $2::int", [4, 3]).fetchone() == (7,)
        cur = psycopg.ClientCursor(conn)
        assert cur.execute("SELECT %s, %s, %s::date", [4, "it's", dt.date(2020, 1, 1)]).fetchone() == (4, "it's", dt.date(2020, 1, 1))
        cur = conn.execute("SELECT 1; SELECT 2")
        assert cur.fetchone() == (1,) and cur.nextset() and cur.fetchone() == (2,)


def procedures():
    prepare(
        "DROP TABLE IF EXISTS p_log",
        "CREATE TABLE p_log (n int PRIMARY KEY)",
        """CREATE OR REPLACE PROCEDURE p_fill(INOUT n int) LANGUAGE plpgsql AS $$
        BEGIN
            FOR i IN 1..n LOOP
                INSERT INTO p_log VALUES (i);
                IF i % 2 = 0 THEN COMMIT; ELSE ROLLBACK; END IF;
            END LOOP;
            SELECT count(*) INTO n FROM p_log;
        END $$""",
        "CREATE OR REPLACE PROCEDURE p_nothing() LANGUAGE plpgsql AS 'BEGIN END'",
    )
    with connect(autocommit=True) as conn:
        for prepared in (None, True):
            conn.execute("TRUNCATE p_log")
            assert conn.execute("CALL p_fill(%s)", (6,), prepare=prepared).fetchall() == [(3,)]
            assert conn.execute("CALL p_nothing()", prepare=prepared).statusmessage == "CALL"
        conn.execute("TRUNCATE p_log")
        seen = []
        conn.add_notice_handler(lambda diag: seen.append(diag.message_primary))
        conn.execute("DO $$ BEGIN INSERT INTO p_log VALUES (7); RAISE NOTICE 'one'; COMMIT; RAISE NOTICE 'two'; END $$")
        assert seen == ["one", "two"], seen
        with conn.transaction():
            try:
                with conn.transaction():
                    conn.execute("CALL p_fill(2)")
                raise AssertionError("a procedure ended its caller's transaction")
            except errors.InvalidTransactionTermination:
                pass
        assert conn.execute("SELECT * FROM p_log").fetchall() == [(7,)]


def cancel():
    with connect(autocommit=True) as conn:
        timer = threading.Timer(0.3, conn.cancel)
        timer.start()
        try:
            conn.execute("SELECT pg_sleep(60)")
            raise AssertionError("it was not canceled")
        except errors.QueryCanceled:
            pass
        timer.join()
        assert conn.execute("SELECT 1").fetchone() == (1,)
        conn.execute("SET statement_timeout = 50")
        try:
            conn.execute("SELECT count(*) FROM generate_series(1, 1000000000)")
            raise AssertionError("it did not time out")
        except errors.QueryCanceled:
            pass


def notices():
    with connect(autocommit=True) as conn:
        seen = []
        conn.add_notice_handler(lambda diag: seen.append((diag.severity_nonlocalized, diag.sqlstate)))
        conn.execute("DROP TABLE IF EXISTS there_is_no_such_table")
        conn.execute("COMMIT")
        assert seen == [("NOTICE", "00000"), ("WARNING", "25P01")], seen


def conflicts():
    prepare(
        "DROP TABLE IF EXISTS p_hot",
        "CREATE TABLE p_hot (id int PRIMARY KEY, v int)",
        "INSERT INTO p_hot VALUES (1, 0)",
    )
    with connect() as one, connect() as two:
        value = one.execute("SELECT v FROM p_hot WHERE id = 1").fetchone()[0]
        two.execute("UPDATE p_hot SET v = v + 1 WHERE id = 1")
        two.commit()
        try:
            one.execute("UPDATE p_hot SET v = %s WHERE id = 1", (value + 1,))
            one.commit()
            raise AssertionError("an update was lost")
        except errors.SerializationFailure:
            one.rollback()
        with one.transaction():
            value = one.execute("SELECT v FROM p_hot WHERE id = 1 FOR UPDATE").fetchone()[0]
            one.execute("UPDATE p_hot SET v = %s WHERE id = 1", (value + 1,))
        assert one.execute("SELECT v FROM p_hot").fetchone() == (2,)


def notify():
    with connect(autocommit=True) as listener, connect() as sender:
        listener.execute("LISTEN news")
        sender.execute("NOTIFY news, 'first'")
        sender.execute("SELECT pg_notify('news', 'second')")
        sender.execute("NOTIFY other, 'unheard'")
        sender.commit()
        heard = [n.payload for n in listener.notifies(timeout=10, stop_after=2)]
        assert heard == ["first", "second"], heard
        listener.execute("UNLISTEN *")


def main():
    for check in (types, transactions, schema, copy, pipelines, cursors, procedures, cancel, notices, conflicts, notify):
        start = time.monotonic()
        check()
        print(f"psycopg {psycopg.__version__}: {check.__name__} ok ({time.monotonic() - start:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
