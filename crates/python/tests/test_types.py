"""Types both ways: what Python gives is what SQL has, and comes back."""

import datetime
import decimal
import enum
import math
import uuid

import pytest

import heddledb

UTC = datetime.timezone.utc
ZONE = datetime.timezone(datetime.timedelta(hours=2))

ROUND_TRIPS = [
    ("boolean", True),
    ("smallint", -32768),
    ("integer", 2**31 - 1),
    ("bigint", -(2**63)),
    ("real", 0.1),
    ("double precision", 1e300),
    ("double precision", math.inf),
    ("numeric", decimal.Decimal("12345678901234567890.123456789")),
    ("numeric", decimal.Decimal("1.50")),
    ("numeric", decimal.Decimal("Infinity")),
    ("numeric(10,2)", decimal.Decimal("-0.05")),
    ("text", "naïve ☃ 'quoted' \\ \n"),
    ("text", ""),
    ("varchar(5)", "abc"),
    ("char(3)", "ab "),
    ("bytea", b"\x00\xff"),
    ("date", datetime.date(1, 1, 1)),
    ("date", datetime.date(9999, 12, 31)),
    ("date", datetime.date(2000, 2, 29)),
    ("time", datetime.time(23, 59, 59, 999999)),
    ("timetz", datetime.time(12, 30, tzinfo=ZONE)),
    ("timestamp", datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)),
    ("timestamp", datetime.datetime(9999, 12, 31, 23, 59, 59)),
    ("timestamptz", datetime.datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=UTC)),
    ("interval", datetime.timedelta(days=-3, seconds=7, microseconds=11)),
    ("uuid", uuid.UUID("12345678-1234-5678-1234-567812345678")),
    ("jsonb", {"a": [1, None, True, "x"], "b": {"c": 1.5}}),
    ("json", {"z": 1, "a": 2}),
    ("jsonb", "a text"),
    ("integer[]", [1, None, 3]),
    ("integer[]", []),
    ("integer[]", [[1, 2], [3, 4]]),
    ("bigint[]", [1, 2**40]),
    ("text[]", ["a", 'b"c', "d\\e", "", None, "NULL", "{}", "a,b"]),
    ("numeric[]", [decimal.Decimal("1.5"), None]),
    ("timestamptz[]", [datetime.datetime(2024, 1, 1, tzinfo=UTC)]),
    ("uuid[]", [uuid.UUID(int=7)]),
    ("bytea[]", [b"\x01", b""]),
    ("boolean[]", [True, False]),
]


@pytest.mark.parametrize("kind, value", ROUND_TRIPS)
def test_a_value_comes_back_from_a_column(con, kind, value):
    con.execute(f"create table t (v {kind})")
    wanted = value
    if kind == "jsonb" and isinstance(value, str):
        value = heddledb.Json(value)
    con.execute("insert into t values (%s)", (value,))
    con.execute("insert into t values (%s)", (None,))
    first, second = con.execute("select v from t").fetchall()
    assert first == (wanted,) and type(first[0]) is type(wanted)
    assert second == (None,)
    assert con.execute("select count(*) from t where v is null").fetchone() == (1,)


@pytest.mark.parametrize("kind, value", [row for row in ROUND_TRIPS if not isinstance(row[1], (str, list, dict))])
def test_a_value_says_its_own_type(con, kind, value):
    (found,) = con.execute("select %s", (value,)).fetchone()
    assert found == value and type(found) is type(value)


def test_values_without_a_type_of_their_own(con):
    assert con.execute("select %s", ("x",)).fetchone() == ("x",)
    assert con.execute("select %s", (None,)).fetchone() == (None,)
    assert con.execute("select %s", ([1, 2],)).fetchone() == ([1, 2],)
    assert con.execute("select %s", ({"a": 1},)).fetchone() == ({"a": 1},)
    assert con.execute("select %s::text[]", (["a"],)).fetchone() == (["a"],)
    assert con.execute("select 'b' = any(%s)", (["a", "b"],)).fetchone() == (True,)
    assert con.execute("select 2 = any(%s)", ([1, 2],)).fetchone() == (True,)


def test_nan(con):
    number, exact = con.execute("select %s, %s", (math.nan, decimal.Decimal("NaN"))).fetchone()
    assert math.isnan(number) and exact.is_nan()


def test_integers_have_the_type_that_holds_them(con):
    text = "select pg_typeof(%s)::text, pg_typeof(%s)::text, pg_typeof(%s)::text"
    assert con.execute(text, (1, 2**40, 2**70)).fetchone() == ("integer", "bigint", "numeric")
    con.execute("create table t (a smallint)")
    with pytest.raises(heddledb.DataError) as caught:
        con.execute("insert into t values (%s)", (40000,))
    assert caught.value.sqlstate == "22003"


def test_what_python_cannot_hold_is_an_error_with_the_way_out(con):
    for text in ["date 'infinity'", "timestamptz '-infinity'", "date '0044-03-15 BC'", "time '24:00'"]:
        cursor = con.execute(f"select {text}, ({text})::text")
        with pytest.raises(heddledb.DataError) as caught:
            cursor.fetchone()
        assert caught.value.sqlstate == "22008" and "::text" in caught.value.hint


def test_months_of_intervals(con):
    (value,) = con.execute("select interval '1 year 2 months 3 days 04:05:06.5'").fetchone()
    assert value == datetime.timedelta(days=365 + 60 + 3, hours=4, minutes=5, seconds=6, milliseconds=500)


def test_zones_of_timestamps_are_utc(con):
    con.execute("set timezone = 'America/New_York'")
    moment = datetime.datetime(2024, 7, 1, 12, tzinfo=ZONE)
    (found,) = con.execute("select %s", (moment,)).fetchone()
    assert found == moment and found.tzinfo is UTC


class Mood(enum.Enum):
    SAD = "sad"
    HAPPY = "happy"


def test_enums(con):
    con.execute("create type mood as enum ('sad', 'happy')")
    con.execute("create table person (name text, mood mood, past mood[])")
    con.execute("insert into person values (%s, %s, %s)", ("a", Mood.SAD, [Mood.HAPPY, Mood.SAD]))
    assert con.execute("select mood, past from person").fetchone() == ("sad", ["happy", "sad"])
    con.register_enum("mood", Mood)
    assert con.execute("select mood, past from person").fetchall() == [(Mood.SAD, [Mood.HAPPY, Mood.SAD])]
    assert con.execute("select name from person where mood < %s", (Mood.HAPPY,)).fetchone() == ("a",)


def test_rows_in_rows_and_other_types(con):
    assert con.execute("select row(1, 'a', row(2, null))").fetchone() == ((1, "a", (2, None)),)
    con.execute("create type point2 as (x int, y jsonb)")
    assert con.execute("select row(1, '{\"a\": 2}')::point2").fetchone() == ((1, {"a": 2}),)
    assert con.execute("select inet '10.0.0.1', 'pg_class'::regclass").fetchone() == ("10.0.0.1", "pg_class")
    assert con.execute("select array[jsonb '1', jsonb '{}']").fetchone() == ([1, {}],)


class Point:
    def __init__(self, x, y):
        self.x, self.y = x, y


def test_adapters(con):
    with pytest.raises(heddledb.ProgrammingError, match="Point") as caught:
        con.execute("select %s", (Point(1, 2),))
    assert "register_adapter" in caught.value.hint
    con.rollback()
    heddledb.register_adapter(Point, lambda point: [point.x, point.y])
    assert con.execute("select %s::int[]", (Point(1, 2),)).fetchone() == ([1, 2],)


def test_a_text_with_a_zero_character_is_refused(con):
    with pytest.raises(heddledb.DataError) as caught:
        con.execute("select %s", ("a\0b",))
    assert caught.value.sqlstate == "22021"
