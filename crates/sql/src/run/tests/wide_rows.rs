//! Rows of which a single one is larger than what an operator may hold: the same rows as with plenty of memory.

use super::Fixture;

/// Limits in bytes: less than a row, and a few rows.
const LIMITS: [usize; 3] = [0, 64 << 10, 500_000];

fn fixture() -> Fixture {
    let f = Fixture::new().table("wide", "a int4!, b int4, v text", "a", &[]);
    f.run("INSERT INTO wide SELECT g, g % 7, g % 5 || repeat('v', 70000 + g % 3) FROM generate_series(1, 24) AS g");
    f
}

/// Compares the rows at each limit with those that plenty of memory gives, in any order.
#[track_caller]
fn assert_same(f: &Fixture, columns: &str, query: &str) {
    let text = format!("SELECT {columns} FROM ({query}) AS q");
    let sorted = |mut rows: Vec<String>| {
        rows.sort();
        rows
    };
    // On a snapshot and in a transaction.
    for text in [text.clone(), format!("{text} ")] {
        let wanted = sorted(f.run(&text));
        assert!(!wanted.is_empty(), "{text}");
        for limit in LIMITS {
            let found =
                f.run_with(&text, &[], limit).unwrap_or_else(|error| panic!("{text} at {limit}: {error}"));
            assert_eq!(sorted(found), wanted, "{text} at {limit}");
        }
    }
}

#[test]
fn distinct_rows_may_be_wider_than_the_memory() {
    let f = fixture();
    assert_same(&f, "left(v, 9), length(v)", "SELECT DISTINCT v FROM wide");
    assert_same(&f, "a, left(v, 9), length(v)", "SELECT DISTINCT v, a FROM wide");
    assert_same(&f, "a, left(v, 9), length(v)", "SELECT DISTINCT ON (v) v, a FROM wide ORDER BY v, a");
}

#[test]
fn groups_may_be_wider_than_the_memory() {
    let f = fixture();
    assert_same(&f, "left(v, 9), length(v), n", "SELECT v, count(*) AS n FROM wide GROUP BY v");
    for sets in ["((v), ())", "((), (v))", "((v, b), (v), (b), (), ())"] {
        let query = format!("SELECT v, count(*) AS n, sum(a) AS s FROM wide GROUP BY GROUPING SETS {sets}");
        assert_same(&f, "left(v, 9), length(v), n, s", &query);
        assert_same(
            &f,
            "left(v, 9), length(v), n, s",
            &query.replace("FROM wide", "FROM wide WHERE a < 0 OR a = 7"),
        );
    }
    assert_same(
        &f,
        "left(v, 9), length(v), n",
        "SELECT v, count(*) AS n FROM wide WHERE a < 0 GROUP BY ROLLUP (v)",
    );
}

#[test]
fn sides_of_set_operations_may_be_wider_than_the_memory() {
    let f = fixture();
    let right = "SELECT v FROM wide WHERE a < 9";
    for operation in ["UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL", "UNION ALL"] {
        assert_same(&f, "left(v, 9), length(v)", &format!("SELECT v FROM wide {operation} {right}"));
        assert_same(
            &f,
            "left(v, 9), length(v)",
            &format!("{right} {operation} SELECT v FROM wide WHERE a = 1 OR a > 20"),
        );
    }
}

#[test]
fn sorted_rows_and_windows_may_be_wider_than_the_memory() {
    let f = fixture();
    assert_same(
        &f,
        "row_number() OVER (), left(v, 9), length(v), a",
        "SELECT v, a FROM wide ORDER BY v, a DESC",
    );
    assert_same(
        &f,
        "row_number() OVER (), left(v, 9), length(v), a",
        "SELECT v, a FROM wide ORDER BY v, a DESC LIMIT 9",
    );
    for call in [
        "rank() OVER (ORDER BY v)",
        "count(*) OVER (PARTITION BY v ORDER BY a)",
        "left(lag(v, 2) OVER (PARTITION BY b ORDER BY v, a), 9)",
        "left(max(v) OVER (ORDER BY v GROUPS BETWEEN 1 PRECEDING AND 1 FOLLOWING), 9)",
    ] {
        assert_same(&f, "a, left(v, 9), length(v), n", &format!("SELECT v, a, {call} AS n FROM wide"));
    }
}

#[test]
fn rows_of_aggregates_may_be_wider_than_the_memory() {
    let f = fixture();
    for call in [
        "string_agg(DISTINCT v, ',')",
        "string_agg(DISTINCT v, ',' ORDER BY v DESC)",
        "string_agg(v, ',' ORDER BY v, a)",
        "string_agg(v, ',' ORDER BY v, a) || count(DISTINCT v)",
    ] {
        assert_same(&f, "length(n), left(n, 9), right(n, 9)", &format!("SELECT {call} AS n FROM wide"));
        assert_same(
            &f,
            "b, length(n), left(n, 9), right(n, 9)",
            &format!("SELECT b, {call} AS n FROM wide GROUP BY b"),
        );
        assert_same(
            &f,
            "left(v, 9), length(v), length(n), left(n, 9), right(n, 9)",
            &format!("SELECT v, {call} AS n FROM wide GROUP BY v"),
        );
    }
}

#[test]
fn sides_of_joins_may_be_wider_than_the_memory() {
    let f = fixture();
    let narrow = "(SELECT a, a % 9 + 1 AS c, b FROM wide)";
    for join in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
        let on = "l.c = r.a + 0 AND l.b < 5";
        assert_same(
            &f,
            "x, left(v, 9), length(v)",
            &format!("SELECT l.a AS x, v FROM {narrow} l {join} wide r ON {on}"),
        );
        assert_same(
            &f,
            "x, left(v, 9), length(v)",
            &format!("SELECT r.a AS x, v FROM wide l {join} wide r USING (v)"),
        );
    }
}

#[test]
fn rows_of_with_may_be_wider_than_the_memory() {
    let f = fixture();
    assert_same(
        &f,
        "x, left(v, 9), length(v)",
        "SELECT p.a AS x, q.v FROM (WITH w AS MATERIALIZED (SELECT a, v FROM wide) \
         SELECT w.a, o.v FROM w JOIN w o ON o.a = w.a % 5 + 1) q, wide p WHERE p.a = q.a",
    );
    for union in ["UNION", "UNION ALL"] {
        assert_same(
            &f,
            "n, left(v, 9), length(v)",
            &format!(
                "WITH RECURSIVE r AS (SELECT 1 AS n, v FROM wide WHERE a < 9 {union} \
                 SELECT n + 1, v FROM r WHERE n < 3) SELECT n, v FROM r"
            ),
        );
    }
    let endless = "WITH RECURSIVE r AS (SELECT 1 AS n, (SELECT v FROM wide WHERE a = 1) AS v \
         UNION SELECT n % 5 + 1, v FROM r) SELECT n, v FROM r";
    assert_same(&f, "n, left(v, 9), length(v)", endless);
}

#[test]
fn right_sides_of_nested_loops_may_be_wider_than_the_memory() {
    let f = fixture();
    for join in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
        let query =
            format!("SELECT l.a AS x, r.a AS y, r.v FROM wide l {join} wide r ON l.v < r.v AND l.a > r.a");
        assert!(f.explain(&query).contains("Nested Loop"), "{}", f.explain(&query));
        if join != "FULL JOIN" {
            assert_same(&f, "x, y, left(v, 9), length(v)", &query);
        }
    }
    for is in ["EXISTS", "NOT EXISTS"] {
        let query =
            format!("SELECT a, v FROM wide l WHERE {is} (SELECT FROM wide r WHERE l.v < r.v AND l.a > r.a)");
        assert_same(&f, "a, left(v, 9), length(v)", &query);
    }
}

#[test]
fn sets_of_in_may_be_wider_than_the_memory() {
    let f = fixture();
    let sets = [
        "SELECT v FROM wide WHERE b = 3",
        "SELECT CASE WHEN b < 6 THEN v END FROM wide",
        "SELECT v FROM wide WHERE a < 0",
    ];
    for set in sets {
        for is in ["IN", "NOT IN", "= ANY", "> ALL", "<= ANY"] {
            let query = format!("SELECT a, v {is} ({set}) AS y, left(v, 1) NOT IN ({set}) AS z FROM wide");
            assert_same(&f, "a, y, z", &query);
        }
        let query = format!("SELECT count(*) AS n FROM wide WHERE v NOT IN ({set})");
        assert_same(&f, "n", &query);
    }
    let seen = "SELECT a, v IN (SELECT v FROM wide i WHERE i.b = o.b AND i.a <> o.a) AS y FROM wide o";
    assert_same(&f, "a, y", seen);
}
