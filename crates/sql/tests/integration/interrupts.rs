//! One call of a function can take long: it ends soon after its statement's timeout, or when it is canceled.

use std::time::{Duration, Instant};

use heddle_sql::{Connection, Sql};
use heddledb::{Database, Durability, Options};

fn connect() -> Connection {
    let database = Database::in_memory_with(Options::default().durability(Durability::None)).expect("opened");
    Sql::new(&database).expect("opened").connect(Default::default()).expect("connected")
}

fn state(connection: &mut Connection, text: &str) -> String {
    match connection.query(text) {
        Ok(_) => "00000".to_string(),
        Err(error) => error.state().as_str().to_string(),
    }
}

/// Calls that go on for many seconds.
const LONG: &[&str] = &[
    "SELECT gcd(7::numeric ^ 150000, 3::numeric ^ 270000)",
    "SELECT lcm(7::numeric ^ 150000, 3::numeric ^ 270000)",
    "SELECT sum((10::numeric ^ 60000 + n) * (10::numeric ^ 60000 + n)) FROM generate_series(1, 60) AS n",
    "SELECT max((10::numeric ^ 60000 + n) / 7) FROM generate_series(1, 60000) AS n",
    "SELECT repeat('a', 1000000) LIKE '%' || repeat('a', 500000) || 'b'",
    "SELECT regexp_count(repeat('a', 20000000), 'a')",
    "SELECT length(regexp_replace(repeat('a', 20000000), 'a', 'b', 'g'))",
    "SELECT array_length(regexp_split_to_array(repeat('a,', 10000000), ','), 1)",
    "SELECT array_fill(1, ARRAY[200000]) && array_fill(2, ARRAY[200000])",
    "SELECT position((repeat('a', 500000) || 'b')::bytea IN repeat('a', 4000000)::bytea)",
    "SELECT jsonb_agg(n) @> jsonb_agg(n ORDER BY n DESC) FROM generate_series(1, 60000) AS n",
    "SELECT ('[' || repeat('1,', 20000000) || '1]')::jsonb",
    "SELECT ('{' || repeat('1,', 20000000) || '1}')::int[]",
    "SELECT max(length(md5(repeat('a', 1000000) || n))) FROM generate_series(1, 100000) AS n",
];

#[test]
fn a_long_call_ends_with_its_statements_timeout() {
    let mut connection = connect();
    connection.query("SET statement_timeout = '200ms'").expect("set");
    for text in LONG {
        assert_eq!(state(&mut connection, text), "57014", "{text}");
    }
    connection.query("RESET statement_timeout").expect("reset");
    assert_eq!(state(&mut connection, "SELECT md5('a')"), "00000");
}

/// Calls that read or make megabytes, and may take no longer than a millisecond; `t`, `b`, `a` and `j` are each the column of a table.
const LARGE: &[(&str, &str)] = &[
    ("t", "md5(t)"),
    ("b", "sha256(b)"),
    ("b", "encode(b, 'hex')"),
    ("b", "encode(b, 'base64')"),
    ("b", "encode(b, 'escape')"),
    ("t", "decode(t, 'hex')"),
    ("t", "decode(t, 'escape')"),
    ("t", "decode(t, 'base64')"),
    ("t", "reverse(t)"),
    ("t", "upper(t)"),
    ("t", "initcap(t)"),
    ("t", "translate(t, 'abc', 'xyz')"),
    ("t", "replace(t, 'a', 'b')"),
    ("t", "t LIKE '%b'"),
    ("t", "lpad(t, 12000000, 'ab')"),
    ("t", "split_part(t, 'a', 4000000)"),
    ("t", "split_part(t, 'a', -4000000)"),
    ("t", "string_to_array(t, NULL)"),
    ("t", "repeat(t, 4)"),
    ("t", "to_char(1, t)"),
    ("t", "to_number(t, t)"),
    ("t", "to_char(now(), t)"),
    ("t", "to_date(t, t)"),
    ("a", "array_to_string(a, ',')"),
    ("a", "a::text"),
    ("a", "to_json(a)"),
    ("j", "j::text"),
    ("j", "jsonb_pretty(j)"),
    ("j", "j || '1'"),
];

#[test]
fn calls_with_large_values_end_with_their_statements_timeout() {
    let mut connection = connect();
    for made in [
        "CREATE TABLE t AS SELECT repeat('a', 8000000) AS t",
        "CREATE TABLE b AS SELECT repeat('a', 8000000)::bytea AS b",
        "CREATE TABLE a AS SELECT array_fill(1, ARRAY[500000]) AS a",
        "CREATE TABLE j AS SELECT ('[' || repeat('1,', 500000) || '1]')::jsonb AS j",
    ] {
        assert_eq!(state(&mut connection, made), "00000", "{made}");
    }
    connection.query("SET statement_timeout = '1ms'").expect("set");
    for (table, call) in LARGE {
        let text = format!("SELECT {call} IS NULL FROM {table}");
        assert_eq!(state(&mut connection, &text), "57014", "{call}");
    }
}

#[test]
fn a_long_call_is_canceled_from_another_thread() {
    let mut connection = connect();
    let canceller = connection.canceller();
    std::thread::scope(|scope| {
        let runs = scope.spawn(|| state(&mut connection, LONG[0]));
        while !runs.is_finished() {
            canceller.cancel();
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(runs.join().expect("no panic"), "57014");
    });
}

#[test]
fn a_long_call_in_a_declared_function_ends_with_the_timeout() {
    let mut connection = connect();
    connection
        .query("CREATE TABLE t (id int PRIMARY KEY, n numeric); INSERT INTO t VALUES (1, 0)")
        .expect("made");
    connection
        .query(
            "CREATE FUNCTION f(i int) RETURNS void LANGUAGE sql AS \
             'UPDATE t SET n = position((repeat(''a'', 500000) || ''b'')::bytea IN repeat(''a'', 4000000)::bytea) + i \
              WHERE id = i'",
        )
        .expect("made");
    connection.query("SET statement_timeout = '200ms'").expect("set");
    assert_eq!(state(&mut connection, "SELECT f(1)"), "57014");
}

#[test]
fn a_statement_that_is_canceled_during_its_last_row_changes_nothing() {
    let mut connection = connect();
    let made =
        "CREATE TABLE t (id int PRIMARY KEY, v numeric); INSERT INTO t VALUES (1, 10::numeric ^ 2000 + 1)";
    connection.query(made).expect("made");
    for (before, after) in [("", ""), ("BEGIN", "COMMIT")] {
        for text in [
            "UPDATE t SET v = -v WHERE pg_cancel_backend(pg_backend_pid())",
            "UPDATE t SET v = -v WHERE id = 1 AND pg_cancel_backend(pg_backend_pid())",
            "INSERT INTO t SELECT 2, 1 WHERE pg_cancel_backend(pg_backend_pid())",
            "SELECT pg_cancel_backend(pg_backend_pid())",
        ] {
            connection.query(before).expect("it begins");
            assert_eq!(state(&mut connection, text), "57014", "{before} {text}");
            connection.query(after).expect("it ends");
            // Fails with 22012 where that is false.
            let unchanged = "SELECT 1 / (count(*) = 1 AND max(v) = 10::numeric ^ 2000 + 1)::int FROM t";
            assert_eq!(state(&mut connection, unchanged), "00000", "{before} {text}");
        }
    }
}

#[test]
fn powers_near_one_are_bounded_as_postgresql_bounds_them() {
    let mut connection = connect();
    let (above, below) =
        ("('1.' || repeat('0', 399) || '1')::numeric", "('0.' || repeat('9', 400))::numeric");
    for (base, exponent) in [(above, "1e420"), (below, "-1e420")] {
        let text = format!("SELECT {base} ^ '{exponent}'::numeric");
        assert_eq!(state(&mut connection, &text), "22003", "{text}");
    }
    for (value, expected) in [
        (format!("{above} ^ '-1e420'::numeric"), format!("0.{}", "0".repeat(1000))),
        (format!("{below} ^ '1e420'::numeric"), format!("0.{}", "0".repeat(1000))),
        (format!("round({above} ^ '1e400'::numeric, 30)"), "2.718281828459045235360287471353".to_string()),
        ("1::numeric ^ '1e420'::numeric".to_string(), "1.0000000000000000".to_string()),
    ] {
        let text = format!("SELECT 1 / (({value})::text = '{expected}')::int");
        assert_eq!(state(&mut connection, &text), "00000", "{value}");
    }
}

/// Statements of each kind that go on for minutes, over `t (a int primary key, b int)` of 2,000 rows.
const STATEMENTS: &[&str] = &[
    "SELECT count(*) FROM t x, t y, t z",
    "SELECT count(*) FROM t x JOIN t y ON x.a <> y.a JOIN t z ON z.b <> x.b",
    "SELECT sum(g) FROM generate_series(1, 10000000000) g",
    "SELECT g, count(*) FROM generate_series(1, 10000000000) g GROUP BY g % 3, g ORDER BY g",
    "SELECT sum(x.a) OVER (ORDER BY y.a) FROM t x, t y, t z",
    "SELECT DISTINCT x.a + y.a FROM t x, t y, t z",
    "SELECT x.a FROM t x, t y, t z UNION SELECT 1",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT 1 FROM r WHERE n > 0) SELECT count(*) FROM r",
    "SELECT count(*) FROM t x WHERE EXISTS (SELECT FROM t y, t z WHERE y.a + z.a + x.a < 0)",
    "INSERT INTO t SELECT g FROM generate_series(10000, 10000000000) g",
    "UPDATE t SET b = (SELECT count(*) FROM t x, t y WHERE x.a <> t.a)",
    "DELETE FROM t WHERE (SELECT count(*) FROM t x, t y WHERE x.a <> t.a) > 0",
    "MERGE INTO t USING (SELECT x.a AS a FROM t x, t y, t z) s ON t.a = s.a + 1000000 WHEN MATCHED THEN DELETE",
    "CREATE TABLE copied AS SELECT x.a FROM t x, t y, t z",
    "COPY (SELECT x.a FROM t x, t y, t z) TO STDOUT",
    "EXPLAIN ANALYZE SELECT count(*) FROM t x, t y, t z",
    "DO $$ BEGIN LOOP END LOOP; END $$",
    "DO $$ BEGIN FOR i IN 1 .. 2000000000 LOOP PERFORM i; END LOOP; END $$",
    "DO $$ BEGIN LOOP BEGIN PERFORM 1 / 0; EXCEPTION WHEN division_by_zero THEN END; END LOOP; END $$",
    "SELECT pg_sleep(600)",
    "SELECT count(nextval('s')) FROM generate_series(1, 10000000000)",
    "SELECT count(pg_notify('c', (g % 10)::text)) FROM generate_series(1, 10000000000) g",
    "SELECT count(set_config('a.b', 'c', false)) FROM generate_series(1, 10000000000)",
    "DECLARE c CURSOR WITH HOLD FOR SELECT x.a FROM t x, t y, t z",
    "SELECT string_agg(repeat('x', 10), '') FROM generate_series(1, 10000000000)",
];

/// Time for which a statement may continue after its timeout, on a machine that has other work.
const GRACE: Duration = Duration::from_secs(60);

#[test]
fn a_statement_of_any_kind_ends_with_its_timeout() {
    let mut connection = connect();
    let made = "CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t SELECT g, g FROM generate_series(1, 2000) g; \
                CREATE SEQUENCE s; SET statement_timeout = '200ms'";
    connection.query(made).expect("made");
    for text in STATEMENTS {
        let begun = Instant::now();
        let ended = state(&mut connection, text);
        assert!(["57014", "53200"].contains(&ended.as_str()), "{text}: {ended}");
        assert!(begun.elapsed() < GRACE, "{text} went on for {:?}", begun.elapsed());
    }
}

#[test]
fn the_planning_of_many_grouping_sets_ends_with_the_timeout() {
    let mut connection = connect();
    connection.query("SET statement_timeout = '100ms'").expect("set");
    let columns: Vec<String> = (1..=12).map(|number| format!("c{number}")).collect();
    let cube = format!("CUBE ({})", columns.join(", "));
    let sets = vec![cube; 4_000].join(", ");
    let values = ["1"; 12].join(", ");
    let text = format!(
        "SELECT count(*) FROM (VALUES ({values})) v ({}) GROUP BY GROUPING SETS ({sets})",
        columns.join(", ")
    );
    let begun = Instant::now();
    assert_eq!(state(&mut connection, &text), "57014");
    assert!(begun.elapsed() < GRACE, "it went on for {:?}", begun.elapsed());
    connection.query("RESET statement_timeout").expect("reset");
    let items = vec!["1"; 5_000].join(", ");
    let text = format!("SELECT 1 GROUP BY ROLLUP ({items})");
    assert_eq!(state(&mut connection, &text), "54001", "as many sets are refused");
}
