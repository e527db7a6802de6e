//! Operators beyond the memory limit: the same rows as with plenty of memory, in the same order where the plan has one.

use super::Fixture;

/// Limits in bytes: almost nothing, a few operators' least, and half of what the tables take.
const LIMITS: [usize; 3] = [0, 100_000, 400_000];

fn fixture() -> Fixture {
    let f = Fixture::new().table("big", "a int4!, b int4, c text, d int4", "a", &[]);
    f.run(
        "INSERT INTO big SELECT g, g % 7, 'text ' || (g * 7919 % 2300), CASE WHEN g % 5 > 0 THEN g * 31 % 1009 END \
         FROM generate_series(1, 3000) AS g",
    );
    f
}

/// Compares the rows at each limit with those that plenty of memory gives; `is_ordered`: their order, too.
#[track_caller]
fn assert_same(f: &Fixture, text: &str, is_ordered: bool) {
    let rows = |limit: Option<usize>| {
        let mut rows = match limit {
            Some(limit) => {
                f.run_with(text, &[], limit).unwrap_or_else(|error| panic!("{text} at {limit}: {error}"))
            }
            None => f.run(text),
        };
        if !is_ordered {
            rows.sort();
        }
        rows
    };
    let wanted = rows(None);
    assert!(!wanted.is_empty(), "{text}");
    for limit in LIMITS {
        let found = rows(Some(limit));
        let differs = found.iter().zip(&wanted).position(|(found, wanted)| found != wanted);
        assert!(
            found == wanted,
            "{text} at {limit}: {} rows for {}, from {differs:?} on",
            found.len(),
            wanted.len()
        );
    }
}

#[test]
fn distinct_rows_keep_the_order_below() {
    let f = fixture();
    assert_same(&f, "SELECT DISTINCT a, b FROM big ORDER BY a", true);
    assert_same(&f, "SELECT DISTINCT a, c FROM big ORDER BY a DESC LIMIT 2500", true);
    assert_same(&f, "SELECT DISTINCT c FROM big", false);
    assert_same(&f, "SELECT DISTINCT c, d IS NULL FROM big ORDER BY 1, 2", true);
    // Of equal rows the first one.
    let first = "SELECT string_agg(x::text, ',') FROM (SELECT DISTINCT (a % 1000)::numeric(10, 2) * 1.0 AS x FROM big) q";
    assert_eq!(f.run_with(first, &[], 0).unwrap(), f.run(first));
    assert_same(&f, "SELECT DISTINCT ON (c) c, a FROM big ORDER BY c, a DESC", true);
}

#[test]
fn rows_of_with_and_of_recursions_go_to_files() {
    let f = fixture();
    let twice = "WITH w AS MATERIALIZED (SELECT a, c FROM big) \
         SELECT l.a, r.c FROM w l JOIN w r ON l.a = r.a + 1000 WHERE r.a > (SELECT min(a) FROM w)";
    assert_same(&f, twice, false);
    let all = "WITH RECURSIVE r AS (SELECT a, c, 1 AS n FROM big UNION ALL SELECT a, c || n, n + 1 FROM r WHERE n < 4) \
         SELECT n, count(*), sum(a), max(c) FROM r GROUP BY n";
    assert_same(&f, all, false);
    // A reference that is behind another one.
    assert_same(
        &f,
        "WITH w AS MATERIALIZED (SELECT a FROM big) SELECT a, (SELECT count(*) FROM w) FROM w LIMIT 2500",
        true,
    );
}

/// The hashes of different rows are in memory.
#[test]
fn recursions_without_equal_rows_go_to_files_but_for_hashes() {
    let f = fixture();
    let text = "WITH RECURSIVE r AS (SELECT a % 50 AS n, repeat('w', 900) || a % 1500 AS w FROM big \
         UNION SELECT (n + 7) % 50, w FROM r WHERE n % 7 > 0) SELECT n, right(w, 4) FROM r";
    let wanted = sorted(f.run(text));
    assert!(wanted.len() > 10_000, "{}", wanted.len());
    let found = f.run_with(text, &[], 20_000_000).unwrap_or_else(|error| panic!("{error}"));
    assert!(sorted(found) == wanted);
    let error = f.run_with(text, &[], 10_000).map_err(|error| error.state().as_str().to_string());
    assert_eq!(error.err().as_deref(), Some("53200"));
}

#[test]
fn right_sides_of_nested_loops_go_to_files() {
    let f = fixture();
    for join in ["JOIN", "LEFT JOIN", "RIGHT JOIN"] {
        let text = format!(
            "SELECT l.a, r.a, r.c FROM (SELECT * FROM big WHERE b = 1) l {join} big r ON l.c < r.c AND l.d > r.d + 950"
        );
        assert!(f.explain(&text).contains("Nested Loop"), "{}", f.explain(&text));
        assert_same(&f, &text, false);
        assert_same(&f, &format!("SELECT l_a FROM ({text}) j (l_a, r_a, r_c) ORDER BY l_a"), true);
    }
    let in_order_of_the_left_side = "SELECT l.a FROM big l LEFT JOIN big r ON l.c < r.c AND l.d > r.d + 950 \
         WHERE l.a BETWEEN 5 AND 90 ORDER BY l.a";
    assert_same(&f, in_order_of_the_left_side, true);
    assert_same(&f, &format!("{in_order_of_the_left_side} LIMIT 30"), true);
    for is in ["EXISTS", "NOT EXISTS"] {
        let text = format!(
            "SELECT a FROM big l WHERE b = 1 AND {is} (SELECT FROM big r WHERE l.c < r.c AND l.d > r.d + 950)"
        );
        assert_same(&f, &text, false);
    }
}

#[test]
fn sets_of_in_go_to_files() {
    let f = fixture();
    for set in ["SELECT c FROM big WHERE b > 1", "SELECT CASE WHEN b > 1 THEN c END FROM big"] {
        assert_same(&f, &format!("SELECT count(*), sum(a) FROM big WHERE c NOT IN ({set})"), false);
        assert_same(&f, &format!("SELECT count(*) FROM big WHERE c NOT IN ({set}) OR b = 2"), false);
        assert_same(
            &f,
            &format!(
                "SELECT a, c IN ({set}), (c, d) IN (SELECT c, d FROM big WHERE b = 3) FROM big WHERE a < 40"
            ),
            false,
        );
        assert_same(&f, &format!("SELECT a, c < ALL ({set}) FROM big WHERE a < 40"), false);
    }
    assert_same(
        &f,
        "SELECT count(*) FROM big WHERE nullif(b, 3) NOT IN (SELECT a FROM big WHERE a > 5)",
        false,
    );
}

#[test]
fn set_operations_divide_both_sides() {
    let f = fixture();
    let left = "SELECT c, d FROM big WHERE a <= 2200";
    let right = "SELECT c, d FROM big WHERE a > 1000 AND b < 5";
    for operation in ["UNION", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"] {
        assert_same(&f, &format!("{left} {operation} {right}"), false);
        // Rows that are there several times, and NULLs.
        let twice = "SELECT c, d FROM big, generate_series(1, 1 + b % 3)";
        assert_same(&f, &format!("{twice} {operation} {left}"), false);
        assert_same(&f, &format!("{left} {operation} SELECT c, NULL FROM big"), false);
        assert_same(&f, &format!("SELECT d FROM big {operation} (SELECT NULL) ORDER BY 1"), true);
    }
}

#[test]
fn windows_are_evaluated_partition_by_partition() {
    let f = fixture();
    for call in [
        "row_number() OVER (ORDER BY d, a)",
        "rank() OVER (ORDER BY d), dense_rank() OVER (ORDER BY d), cume_dist() OVER (ORDER BY d)",
        "sum(a) OVER (PARTITION BY b ORDER BY d, a), count(*) OVER (PARTITION BY b)",
        "lag(a, 2000, -1) OVER (ORDER BY c, a), lead(c) OVER (ORDER BY c, a)",
        "ntile(11) OVER (PARTITION BY b ORDER BY a), percent_rank() OVER (PARTITION BY b ORDER BY c)",
        "sum(d) OVER (PARTITION BY c)",
        "first_value(a) OVER w, last_value(a) OVER w, nth_value(c, 5) OVER w",
        "count(*) OVER (ORDER BY d RANGE BETWEEN 50 PRECEDING AND 20 FOLLOWING)",
        "count(*) OVER (ORDER BY d DESC NULLS LAST RANGE BETWEEN 50 FOLLOWING AND 60 FOLLOWING)",
        "count(*) OVER (ORDER BY d GROUPS BETWEEN 3 PRECEDING AND 2 FOLLOWING EXCLUDE TIES)",
        "max(c) OVER (PARTITION BY b ORDER BY a ROWS BETWEEN 3 PRECEDING AND CURRENT ROW EXCLUDE CURRENT ROW)",
    ] {
        let text = format!("SELECT a, {call} FROM big WINDOW w AS (PARTITION BY b ORDER BY c, a)");
        assert_same(&f, &text, false);
    }
}

#[test]
fn frames_by_value_are_found_whichever_way_they_move() {
    let f = Fixture::new();
    for (order, frame) in [
        ("x", "x PRECEDING"),
        ("x DESC", "100 FOLLOWING"),
        ("x NULLS FIRST", "0 PRECEDING"),
        ("x DESC NULLS FIRST", "7 PRECEDING"),
    ] {
        let frame = frame.replace('x', "13");
        let text = format!(
            "SELECT x, count(*) OVER (ORDER BY {order} RANGE BETWEEN {frame} AND 9223372036854775807 FOLLOWING), \
             count(*) OVER (ORDER BY {order} RANGE BETWEEN UNBOUNDED PRECEDING AND {frame}) \
             FROM (SELECT CASE WHEN g % 9 > 0 THEN g * 37 % 211 END::int8 AS x FROM generate_series(1, 400) AS g) q"
        );
        let mut found = f.run(&text);
        // What the definition says, by a subquery for each row.
        let is_descending = order.contains("DESC");
        let nulls_first = order.contains("FIRST") || is_descending && !order.contains("NULLS");
        let (sign, amount) = match frame.split_once(' ') {
            Some((amount, "PRECEDING")) => (if is_descending { "+" } else { "-" }, amount),
            Some((amount, _)) => (if is_descending { "-" } else { "+" }, amount),
            None => panic!("{frame}"),
        };
        let (after, before) = if is_descending { ("<=", ">=") } else { (">=", "<=") };
        let is_last = if nulls_first { "FALSE" } else { "TRUE" };
        // Beyond the type is behind all values, and before NULLs.
        let text = format!(
            "WITH q AS (SELECT g, CASE WHEN g % 9 > 0 THEN g * 37 % 211 END::int8 AS x FROM generate_series(1, 400) AS g) \
             SELECT x, CASE WHEN x IS NULL THEN (SELECT count(*) FROM q o WHERE o.x IS NULL) \
             ELSE (SELECT count(*) FROM q o WHERE o.x {after} q.x {sign} {amount}) END, \
             CASE WHEN x IS NULL THEN (SELECT count(*) FROM q o WHERE o.x IS NULL OR NOT {is_last_not}) \
             ELSE (SELECT count(*) FROM q o WHERE o.x {before} q.x {sign} {amount} OR o.x IS NULL AND NOT {is_last}) END FROM q",
            is_last_not = if nulls_first { "TRUE" } else { "FALSE" },
        );
        let mut wanted = f.run(&text);
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted, "{order} {frame}");
    }
}

#[test]
fn ordered_and_distinct_aggregates_are_fed_in_order_from_files() {
    let f = fixture();
    for calls in [
        "string_agg(c, ',' ORDER BY d, a)",
        "array_agg(a ORDER BY c DESC, a)",
        "count(DISTINCT c), sum(DISTINCT d), string_agg(DISTINCT c, ',')",
        "string_agg(DISTINCT c, ',' ORDER BY c DESC), count(*)",
        "array_agg(DISTINCT d ORDER BY d DESC NULLS LAST) FILTER (WHERE b <> 3), min(a)",
        "percentile_disc(0.3) WITHIN GROUP (ORDER BY c), mode() WITHIN GROUP (ORDER BY d)",
        "count(c ORDER BY a), array_agg(d ORDER BY a), array_agg(DISTINCT b)",
    ] {
        assert_same(&f, &format!("SELECT {calls} FROM big"), true);
        assert_same(&f, &format!("SELECT b, {calls} FROM big GROUP BY b"), false);
        // Groups in files, too.
        assert_same(&f, &format!("SELECT d, {calls} FROM big GROUP BY d"), false);
    }
}

#[test]
fn grouping_sets_are_divided_set_by_set() {
    let f = fixture();
    for sets in ["ROLLUP (b, c)", "CUBE (b, d)", "GROUPING SETS ((c), (d), (), (c, d), ())"] {
        let keys = if sets.contains('c') { "c" } else { "b" };
        let text = format!(
            "SELECT {keys}, grouping({keys}), count(*), sum(a), count(DISTINCT a % 10) FROM big GROUP BY {sets}"
        );
        assert_same(&f, &text, false);
    }
    let none = "SELECT c, count(*) FROM big WHERE a < 0 GROUP BY GROUPING SETS ((), (c), ())";
    assert_eq!(f.run_with(none, &[], 0).unwrap(), ["NULL 0", "NULL 0"]);
}

#[test]
fn sorts_and_joins_make_progress_beside_operators_that_hold_the_memory() {
    let f = fixture();
    assert_same(&f, "SELECT c, a FROM big ORDER BY c, a DESC", true);
    assert_same(&f, "SELECT l.a, r.a FROM big l JOIN big r ON l.c = r.c AND l.b < r.b", false);
    assert_same(
        &f,
        "SELECT c, n, row_number() OVER (ORDER BY n, c) FROM (SELECT l.c, count(DISTINCT r.d) AS n FROM big l \
         LEFT JOIN big r ON l.d = r.d GROUP BY l.c) q ORDER BY n DESC, c",
        true,
    );
}

/// Keys that are integers are looked up in lists of places, which take memory besides the rows'.
#[test]
fn chains_of_joins_by_integers_end_at_every_limit() {
    let f = Fixture::new().table("part", "a int4!, b int4, c text", "a", &[]);
    f.run("INSERT INTO part SELECT g, g % 7, 'text ' || g FROM generate_series(1, 1000) AS g");
    let grouped = "SELECT r.c, count(*), sum(s.a) FROM part l JOIN part r ON l.a + 0 = r.a + 0 \
         JOIN part s ON r.a + 0 = s.a + 1 JOIN part t ON t.a + 0 = s.a + 0 AND t.b = l.b - 1 GROUP BY r.c";
    assert_eq!(f.explain(grouped).matches("Hash Join").count(), 3, "{}", f.explain(grouped));
    let wanted = sorted(f.run(grouped));
    for limit in (0..24).map(|step| step * step * 1_000) {
        let found = f.run_with(grouped, &[], limit).unwrap_or_else(|error| panic!("{limit}: {error}"));
        assert_eq!(sorted(found), wanted, "{limit}");
    }
    for join in ["LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
        let on = "l.a + 0 = r.a + 0 AND l.b = r.b";
        let other = "(SELECT a + 49 AS a, b, c FROM part)";
        assert_same(&f, &format!("SELECT l.a, r.a, r.c FROM part l {join} {other} r ON {on}"), false);
        // More rows with the same key, NULL, than fit.
        let nulls = "(SELECT CASE WHEN b > 9 THEN a END AS a, b, c FROM part)";
        assert_same(&f, &format!("SELECT l.a, r.c FROM part l {join} {nulls} r ON {on}"), false);
        let none = "(SELECT * FROM part WHERE a < 0 OR a > 990)";
        assert_same(&f, &format!("SELECT l.a, r.c FROM part l {join} {none} r ON {on}"), false);
        assert_same(&f, &format!("SELECT l.a, r.c FROM {none} l {join} part r ON {on}"), false);
    }
}

/// Rows with the same key cannot be divided: a part of them is joined piece by piece.
#[test]
fn joins_of_more_equal_keys_than_fit_are_made_in_pieces() {
    let f = Fixture::new().table("one", "a int4!, b int4, c text", "a", &[]);
    f.run(
        "INSERT INTO one SELECT g, CASE WHEN g % 10 > 0 THEN 7 ELSE g END, repeat('c', 100) || g \
         FROM generate_series(1, 1500) AS g",
    );
    // Rows of the left side with partners in some pieces, in all, in none, and without a key.
    let left = "(SELECT a, CASE WHEN a % 4 > 0 THEN b + a % 2 END AS b FROM one WHERE a < 60)";
    for join in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
        for on in
            ["l.b = r.b AND l.a * 20 < r.a", "l.b = r.b AND l.a + r.a > 1400", "l.b = r.b AND r.c <> 'x'"]
        {
            let text = format!("SELECT l.a, r.a FROM {left} l {join} one r ON {on}");
            assert!(f.explain(&text).contains("Hash"), "{}", f.explain(&text));
            assert_same(&f, &text, false);
        }
        let text = format!(
            "SELECT l.a, r.c FROM {left} l {join} (SELECT a, NULLIF(b, 7) AS b, c FROM one) r ON l.b = r.b"
        );
        assert_same(&f, &text, false);
    }
    for exists in ["EXISTS", "NOT EXISTS"] {
        let text = format!(
            "SELECT a FROM {left} l WHERE {exists} (SELECT 1 FROM one r WHERE l.b = r.b AND length(r.c) + l.a * 20 < r.a)"
        );
        assert!(f.explain(&text).contains("Hash"), "{}", f.explain(&text));
        assert_same(&f, &text, false);
    }
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

/// Statements whose operators are left before their end, or keep rows for a part of the statement.
const LEFT_EARLY: [&str; 12] = [
    "SELECT a, (SELECT i.c FROM big i WHERE i.a > o.a ORDER BY i.c, i.a LIMIT 1) FROM big o",
    "SELECT a, (SELECT q.a > 0 FROM (SELECT DISTINCT c, a FROM big WHERE a > o.a) q LIMIT 1 OFFSET 50) FROM big o",
    "SELECT a, (SELECT count(DISTINCT i.d) FROM big i WHERE i.a > o.a GROUP BY i.c ORDER BY 1 LIMIT 1) FROM big o",
    "SELECT o.a, q.a > 0 FROM big o, LATERAL (SELECT l.a FROM big l JOIN big r ON l.c = r.c WHERE l.a > o.a LIMIT 1) q",
    "SELECT o.a, q.a > 0 FROM big o, LATERAL (SELECT l.a FROM big l JOIN big r ON l.b + r.b < o.a LIMIT 1) q",
    "SELECT a, cardinality(ARRAY(SELECT i.c FROM big i WHERE i.a BETWEEN o.a AND o.a + 1000)) FROM big o",
    "SELECT a, o.c IN (SELECT i.c FROM big i WHERE i.a BETWEEN o.a + 1 AND o.a + 1000 AND random() >= 0) FROM big o",
    "SELECT a, (WITH q AS MATERIALIZED (SELECT c FROM big i WHERE i.a BETWEEN o.a AND o.a + 1000) \
     SELECT count(*) FROM q AS x) FROM big o",
    "SELECT a, (WITH RECURSIVE q AS (SELECT o.a AS n UNION SELECT n + 1 FROM q) SELECT n FROM q LIMIT 1 OFFSET 500) \
     FROM big o",
    "SELECT o.a, q.a > 0 FROM big o, LATERAL (SELECT a FROM big i WHERE i.a BETWEEN o.a AND o.a + 1000 \
     EXCEPT SELECT o.a + 1 LIMIT 1) q",
    "SELECT o.a, q.n FROM big o, LATERAL (SELECT sum(i.a) OVER (ORDER BY i.c, i.a) AS n FROM big i \
     WHERE i.a BETWEEN o.a AND o.a + 1000 LIMIT 1) q",
    "SELECT a, d NOT IN (SELECT i.d FROM big i WHERE i.d IS NOT NULL AND i.a > 1000) FROM big o",
];

#[test]
fn operators_that_are_left_before_their_end_give_their_memory_back() {
    let f = fixture();
    for text in LEFT_EARLY {
        let text = text.replace("FROM big o", "FROM (SELECT * FROM big WHERE a <= 12) o");
        for batches in [0, 1, usize::MAX] {
            assert_eq!(f.used_of_memory(&text, batches).1, 0, "{text} after {batches} batches");
        }
        let (mut wanted, mut found) = (f.run(&text), f.run_with(&text, &[], 500_000).expect("it is enough"));
        wanted.sort();
        found.sort();
        assert_eq!(found, wanted, "{text}");
    }
}

#[test]
fn whole_statements_hold_nothing_when_they_are_left() {
    let f = fixture();
    for text in [
        "SELECT l.a, r.a FROM big l LEFT JOIN big r ON l.c = r.c ORDER BY l.a + r.a",
        "SELECT c, count(DISTINCT d), array_agg(a ORDER BY d) FROM big GROUP BY ROLLUP (c)",
        "SELECT a, rank() OVER (PARTITION BY b ORDER BY c) FROM big",
        "SELECT c, d FROM big INTERSECT ALL SELECT c, d FROM big WHERE b < 5",
        "SELECT DISTINCT c, d FROM big UNION SELECT c, a FROM big LIMIT 2000",
        "SELECT a FROM big WHERE d NOT IN (SELECT b FROM big)",
        "(SELECT c FROM big ORDER BY a LIMIT 10) UNION ALL (SELECT c FROM big ORDER BY d LIMIT 2000)",
    ] {
        for batches in [0, 1, 2, usize::MAX] {
            assert_eq!(f.used_of_memory(text, batches).1, 0, "{text} after {batches} batches");
        }
    }
}

/// What a row of two values without a heap takes.
const PAIR: usize = 2 * size_of::<crate::types::Value>();

#[test]
fn rows_of_partitions_and_kept_right_sides_are_counted() {
    let f = fixture();
    let (windowed, _) = f.used_of_memory("SELECT a, count(*) OVER (ORDER BY d) FROM big", 1);
    assert!(windowed >= 2048 * PAIR, "{windowed}");
    let lateral =
        "SELECT o.a, q.a FROM big o, LATERAL (SELECT i.a, i.d FROM big i WHERE i.a > o.b LIMIT 500) q";
    let (kept, _) = f.used_of_memory(lateral, 1);
    assert!(kept >= 500 * size_of::<crate::types::Value>(), "{}\n{kept}", f.explain(lateral));
}

#[test]
fn a_recursion_that_has_ended_holds_no_round() {
    let f = Fixture::new();
    let first = "SELECT g FROM generate_series(1, 2000) AS g";
    let once = format!("WITH q AS MATERIALIZED ({first}) SELECT count(*) FROM q");
    let rounds =
        format!("WITH RECURSIVE q AS ({first} UNION ALL SELECT g FROM q WHERE g < 0) SELECT count(*) FROM q");
    let used = f.used_of_memory(&once, usize::MAX).0;
    assert!(used > 0);
    assert_eq!(f.used_of_memory(&rounds, usize::MAX).0, used);
}
