"""Snapshots and results as Arrow, read by pyarrow, Polars, pandas and DuckDB; and streams that are loaded."""

import datetime
import decimal
import gc

import duckdb
import polars
import pyarrow
import pytest

import heddledb

UTC = datetime.timezone.utc
D = decimal.Decimal

# A SQL type, its literal, Arrow's type and Python's value: the table of docs/python.md.
TYPES = [
    ("boolean", "true", pyarrow.bool_(), True),
    ("smallint", "-7", pyarrow.int16(), -7),
    ("integer", "7", pyarrow.int32(), 7),
    ("bigint", "9000000000", pyarrow.int64(), 9_000_000_000),
    ("oid", "42", pyarrow.uint32(), 42),
    ("real", "1.5", pyarrow.float32(), 1.5),
    ("double precision", "'Infinity'", pyarrow.float64(), float("inf")),
    ("numeric(10,2)", "1234.5", pyarrow.decimal128(10, 2), D("1234.50")),
    ("numeric(38,10)", "-1234567890123456789012345678.0123456789", pyarrow.decimal128(38, 10), D("-1234567890123456789012345678.0123456789")),
    ("numeric", "1e30", pyarrow.string(), "1" + "0" * 30),
    ("numeric", "'NaN'", pyarrow.string(), "NaN"),
    ("text", "'naïve ☃'", pyarrow.string(), "naïve ☃"),
    ("varchar(5)", "'abc'", pyarrow.string(), "abc"),
    ("char(3)", "'ab'", pyarrow.string(), "ab "),
    ("bytea", "'\\x00ff'", pyarrow.binary(), b"\x00\xff"),
    ("date", "'1969-12-31'", pyarrow.date32(), datetime.date(1969, 12, 31)),
    ("time", "'23:59:59.999999'", pyarrow.time64("us"), datetime.time(23, 59, 59, 999999)),
    ("timetz", "'12:00+02'", pyarrow.string(), "12:00:00+02"),
    ("timestamp", "'2024-02-29 12:00'", pyarrow.timestamp("us"), datetime.datetime(2024, 2, 29, 12)),
    ("timestamptz", "'1960-01-01 00:00+00'", pyarrow.timestamp("us", "UTC"), datetime.datetime(1960, 1, 1, tzinfo=UTC)),
    ("interval", "'1 month 2 days 3 seconds'", pyarrow.month_day_nano_interval(), pyarrow.MonthDayNano([1, 2, 3 * 10**9])),
    ("uuid", "'12345678-1234-5678-1234-567812345678'", pyarrow.string(), "12345678-1234-5678-1234-567812345678"),
    ("json", "'{\"a\": 1}'", pyarrow.string(), '{"a": 1}'),
    ("jsonb", "'{\"a\":1}'", pyarrow.string(), '{"a": 1}'),
    ("mood", "'happy'", pyarrow.string(), "happy"),
    ("integer[]", "'{1,null,3}'", pyarrow.list_(pyarrow.int32()), [1, None, 3]),
    ("numeric(6,2)[]", "'{1.5}'", pyarrow.list_(pyarrow.decimal128(6, 2)), [D("1.50")]),
    ("mood[]", "'{sad}'", pyarrow.list_(pyarrow.string()), ["sad"]),
    ("text[]", "'{}'", pyarrow.list_(pyarrow.string()), []),
    ("inet", "'10.0.0.1'", pyarrow.string(), "10.0.0.1"),
]


@pytest.fixture
def db():
    with heddledb.Database(":memory:") as database:
        with database.connect() as con:
            con.execute("create type mood as enum ('sad', 'happy')")
        con.close()
        yield database


@pytest.mark.parametrize("kind, literal, arrow, value", TYPES)
def test_types(db, kind, literal, arrow, value):
    with db.connect() as con:
        con.execute(f"create table t (v {kind})")
        con.execute(f"insert into t values ({literal}), (null)")
    for table in [
        pyarrow.table(db.snapshot().table("t")),
        pyarrow.table(con.execute("select v from t").arrow()),
    ]:
        assert table.schema == pyarrow.schema([("v", arrow)])
        assert table["v"].to_pylist() == [value, None]


@pytest.mark.parametrize("kind, literal, arrow, value", [row for row in TYPES if row[0] != "oid"])
def test_what_was_read_can_be_loaded(db, kind, literal, arrow, value):
    with db.connect() as con:
        con.execute(f"create table t (v {kind})")
        con.execute(f"create table u (v {kind})")
        con.execute(f"insert into t values ({literal}), (null)")
    assert db.load("u", db.snapshot().table("t")) == 2
    assert con.execute("select v::text from t").fetchall() == con.execute("select v::text from u").fetchall()


@pytest.mark.parametrize(
    "value",
    ["date 'infinity'", "timestamptz '-infinity'", "numeric(5,2) 'NaN'", "time '24:00'", "array[[1,2]]", "interval '300 years' + interval '9999999999 seconds'"],
)
def test_what_arrow_cannot_hold_is_an_error_that_says_so(db, value):
    with pytest.raises(Exception, match="has no form in Arrow"):
        pyarrow.table(db.snapshot().query(f"select {value} as v"))
    con = db.connect()
    with pytest.raises(Exception, match="has no form in Arrow"):
        pyarrow.table(con.execute(f"select {value} as v").arrow())


def test_a_snapshot_is_of_one_moment(db):
    with db.connect() as con:
        con.execute("create table t (a int); create table u (a int)")
        con.execute("insert into t values (1); insert into u values (1)")
    snapshot = db.snapshot()
    early = snapshot.table("t")
    with con:
        con.execute("insert into t values (2); insert into u values (2)")
    late = snapshot.table("u")
    snapshot.close()
    with pytest.raises(heddledb.InterfaceError):
        snapshot.table("t")
    with con:
        con.execute("delete from t; delete from u")
    del snapshot
    gc.collect()
    assert pyarrow.table(early)["a"].to_pylist() == [1]
    assert pyarrow.table(late)["a"].to_pylist() == [1]
    assert pyarrow.table(db.snapshot().table("t")).num_rows == 0


def test_a_stream_is_read_in_batches_and_can_be_left(db):
    with db.connect() as con:
        con.execute("create table t as select n as a, 'x' || n as b from generate_series(1, 200000) n")
    stream = db.snapshot().table("t")
    reader = pyarrow.RecordBatchReader.from_stream(stream)
    first = reader.read_next_batch()
    assert 0 < first.num_rows < 200_000
    with con:
        con.execute("update t set a = 0 where a = 200000")
    assert sum(batch.num_rows for batch in reader) + first.num_rows == 200_000
    # Each reader gets all rows, of the same moment.
    assert pyarrow.table(stream)["a"].to_pylist()[-1] == 200_000
    reader = pyarrow.RecordBatchReader.from_stream(db.snapshot().table("t"))
    reader.read_next_batch()
    del reader
    assert con.execute("select count(*) from t").fetchone() == (200_000,)


def test_duckdb_polars_and_pandas(db):
    with db.connect() as con:
        con.execute("create table item (id int primary key, name text, price numeric(10,2), sold timestamptz)")
        con.execute("insert into item select n, 'item ' || n, n * 1.5, '2024-01-01 00:00Z' from generate_series(1, 1000) n")
    items = db.snapshot().table("item")
    assert duckdb.sql("select count(*), sum(price) from items").fetchall() == [(1000, D("750750.00"))]
    frame = polars.DataFrame(items)
    assert polars.from_arrow(items).struct.unnest().equals(frame)
    assert frame.shape == (1000, 4) and frame["price"].sum() == D("750750.00")
    panda = pyarrow.table(items).to_pandas()
    assert list(panda.columns) == ["id", "name", "price", "sold"] and panda["id"].sum() == 500_500
    frame = polars.DataFrame(con.execute("select id from item where id <= %s", (10,)).arrow())
    assert frame["id"].to_list() == list(range(1, 11))


def test_loading_frames(db):
    con = db.connect(autocommit=True)
    con.execute("create table t (id bigint, name text, mood mood, at timestamptz, price numeric, tags text[])")
    frame = polars.DataFrame(
        {
            "price": [1.25, None],
            "name": ["tab\tand \\ and\nline", None],
            "id": [1, 2],
            "mood": polars.Series(["happy", "sad"], dtype=polars.Categorical),
            "at": [datetime.datetime(2024, 1, 1, tzinfo=UTC), None],
            "tags": [["a", 'b"c'], []],
        }
    )
    assert db.load("t", frame) == 2
    assert con.execute("select id, name, mood, at, price, tags from t order by id").fetchall() == [
        (1, "tab\tand \\ and\nline", "happy", datetime.datetime(2024, 1, 1, tzinfo=UTC), D("1.25"), ["a", 'b"c']),
        (2, None, "sad", None, None, []),
    ]
    with pytest.raises(heddledb.ProgrammingError):
        db.load("t", pyarrow.table({"missing": [1]}))
    with pytest.raises(heddledb.DataError):
        db.load("t", pyarrow.table({"id": [3], "mood": ["angry"]}))
    with pytest.raises(TypeError):
        db.load("t", [1, 2])
    assert con.execute("select count(*) from t").fetchone() == (2,)


def test_other_types_of_arrow_are_loaded(db):
    con = db.connect(autocommit=True)
    con.execute("create table t (a int, b numeric, c timestamp, d interval, e bytea, f time, g date)")
    table = pyarrow.table(
        {
            "a": pyarrow.array([1], pyarrow.uint8()),
            "b": pyarrow.array([2**64 - 1], pyarrow.uint64()),
            "c": pyarrow.array([1_700_000_000], pyarrow.timestamp("s")),
            "d": pyarrow.array([90_000], pyarrow.duration("ms")),
            "e": pyarrow.array([b"ab"], pyarrow.large_binary()),
            "f": pyarrow.array([3600], pyarrow.time32("s")),
            "g": pyarrow.array([0], pyarrow.date64()),
        }
    )
    assert db.load("t", table) == 1
    assert con.execute("select a, b, c::text, d::text, e, f::text, g::text from t").fetchone() == (
        1, D(2**64 - 1), "2023-11-14 22:13:20", "00:01:30", b"ab", "01:00:00", "1970-01-01",
    )
    with pytest.raises(heddledb.NotSupportedError):
        db.load("t", pyarrow.table({"a": pyarrow.array([{"x": 1}])}))


def test_queries_that_are_wrong_are_errors_at_once(db):
    with pytest.raises(heddledb.ProgrammingError) as caught:
        pyarrow.table(db.snapshot().table("missing"))
    assert caught.value.sqlstate == "42P01"
    with pytest.raises(heddledb.Error):
        pyarrow.table(db.snapshot().query("create table t (a int)"))
    with pytest.raises(Exception, match="division by zero"):
        pyarrow.table(db.snapshot().query("select 10 / (5 - n) as v from generate_series(1, 9) n"))
