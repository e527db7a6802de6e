//! SELECT: filters, groups, orders, windows, subqueries, set operations.

use super::Fixture;
use crate::types::Value;

/// `t(a, b, c)` with a from 1 to 20, b = a mod 4 and c NULL where a is a multiple of 5.
fn fixture() -> Fixture {
    let fixture = Fixture::new().table("t", "a int4!, b int4, c text", "a", &["b"]).table(
        "u",
        "x int4, y int8",
        "",
        &[],
    );
    fixture.run(
        "INSERT INTO t SELECT g, g % 4, CASE WHEN g % 5 = 0 THEN NULL ELSE 'v' END FROM generate_series(1, 20) AS g",
    );
    fixture.run("INSERT INTO u VALUES (1, 10), (2, 20), (2, 21), (NULL, 30)");
    fixture
}

#[test]
fn rows_are_filtered_sorted_and_limited() {
    let f = fixture();
    assert_eq!(f.line("SELECT a FROM t WHERE a > 17 ORDER BY a DESC"), "20 | 19 | 18");
    assert_eq!(f.line("SELECT a, b FROM t WHERE b = 3 ORDER BY a LIMIT 2 OFFSET 1"), "7 3 | 11 3");
    assert_eq!(f.line("SELECT x FROM u ORDER BY x NULLS FIRST, y"), "NULL | 1 | 2 | 2");
    assert_eq!(f.line("SELECT x FROM u ORDER BY x DESC"), "NULL | 2 | 2 | 1");
    assert_eq!(f.line("SELECT a FROM t WHERE c IS NULL ORDER BY 1"), "5 | 10 | 15 | 20");
    assert_eq!(f.line("SELECT 1 WHERE false"), "");
    assert_eq!(f.line("SELECT x FROM u ORDER BY x FETCH FIRST 2 ROWS WITH TIES"), "1 | 2 | 2");
}

#[test]
fn what_is_read_of_rows_after_the_filter_is_that_of_each_row() {
    let f = fixture();
    assert_eq!(f.line("SELECT c, a FROM t WHERE b = 1 ORDER BY a"), "v 1 | NULL 5 | v 9 | v 13 | v 17");
    assert_eq!(f.line("SELECT c FROM t WHERE a IN (4, 5, 6) AND b < 3"), "v | NULL | v");
    assert_eq!(
        f.line("SELECT a FROM t WHERE CASE c WHEN 'v' THEN b = 3 ELSE a < 11 END"),
        "3 | 5 | 7 | 10 | 11 | 19"
    );
    assert_eq!(f.line("SELECT count(*) FROM t WHERE c = 'v'"), "16");
}

#[test]
fn keys_ranges_and_lists_are_found_by_the_index() {
    let f = fixture();
    assert!(f.explain("SELECT * FROM t WHERE a = 3").contains("Key Lookup"));
    assert!(f.explain("SELECT * FROM t WHERE a IN (3, 5)").contains("Key Lookups"));
    assert!(f.explain("SELECT * FROM t WHERE a BETWEEN 3 AND 4").contains("Index Scan"));
    assert_eq!(f.line("SELECT a FROM t WHERE a = 3"), "3");
    assert_eq!(f.line("SELECT a FROM t WHERE a IN (5, 3, 99, NULL, 3)"), "3 | 5");
    assert_eq!(f.line("SELECT a FROM t WHERE a > 3 AND a < 6"), "4 | 5");
    assert_eq!(f.line("SELECT a FROM t WHERE a >= 19"), "19 | 20");
    assert_eq!(f.line("SELECT a FROM t WHERE a = 99999999999"), "");
    assert_eq!(f.line("SELECT count(*) FROM t WHERE a < 99999999999"), "20");
    assert_eq!(f.line("SELECT a FROM t WHERE a = NULL"), "");
    assert_eq!(f.line("SELECT a FROM t WHERE a = ANY (ARRAY[2, 4])"), "2 | 4");
}

#[test]
fn an_order_that_the_key_gives_is_not_sorted() {
    let f = fixture();
    let plan = f.explain("SELECT a FROM t ORDER BY a DESC LIMIT 1");
    assert!(!plan.contains("Sort") && plan.contains("Backward"), "{plan}");
    assert_eq!(f.line("SELECT a FROM t ORDER BY a DESC LIMIT 1"), "20");
    assert!(f.explain("SELECT a FROM t ORDER BY c").contains("Sort"));
}

#[test]
fn parameters_are_looked_up() {
    let f = fixture();
    let rows = f.run_with("SELECT a, b FROM t WHERE a = $1::int4", &[Value::Int4(7)], 1 << 20);
    assert_eq!(rows.unwrap(), ["7 3"]);
}

#[test]
fn rows_are_grouped() {
    let f = fixture();
    assert_eq!(
        f.line("SELECT b, count(*), sum(a), count(c) FROM t GROUP BY b ORDER BY b"),
        "0 5 60 4 | 1 5 45 4 | 2 5 50 4 | 3 5 55 4"
    );
    assert_eq!(f.line("SELECT count(*), max(a), min(c) FROM t WHERE a > 99"), "0 NULL NULL");
    assert_eq!(f.line("SELECT b FROM t WHERE a > 99 GROUP BY b"), "");
    assert_eq!(f.line("SELECT b FROM t GROUP BY b HAVING sum(a) > 50 ORDER BY 1"), "0 | 3");
    assert_eq!(f.line("SELECT count(DISTINCT b), count(*) FILTER (WHERE a > 18) FROM t"), "4 2");
    assert_eq!(f.line("SELECT string_agg(a::text, ',' ORDER BY a DESC) FROM t WHERE b = 1"), "17,13,9,5,1");
    assert_eq!(f.line("SELECT x, count(*) FROM u GROUP BY x ORDER BY x"), "1 1 | 2 2 | NULL 1");
}

#[test]
fn several_grouping_sets_are_numbered() {
    let f = fixture();
    assert_eq!(
        f.line("SELECT x, sum(y), GROUPING(x) FROM u GROUP BY ROLLUP (x) ORDER BY 3, 1"),
        "1 10 0 | 2 41 0 | NULL 30 0 | NULL 81 1"
    );
    assert_eq!(
        f.line("SELECT x, y, count(*) FROM u WHERE x = 1 GROUP BY CUBE (x, y) ORDER BY 1, 2"),
        "1 10 1 | 1 NULL 1 | NULL 10 1 | NULL NULL 1"
    );
    assert_eq!(f.line("SELECT count(*) FROM u WHERE x > 9 GROUP BY GROUPING SETS ((), ())"), "0 | 0");
}

#[test]
fn duplicates_are_left_out() {
    let f = fixture();
    assert_eq!(f.line("SELECT DISTINCT b FROM t ORDER BY b DESC"), "3 | 2 | 1 | 0");
    assert_eq!(f.line("SELECT DISTINCT ON (b) b, a FROM t ORDER BY b, a DESC"), "0 20 | 1 17 | 2 18 | 3 19");
}

#[test]
fn set_operations_count_what_they_should() {
    let f = fixture();
    assert_eq!(f.line("SELECT x FROM u UNION SELECT 2 ORDER BY 1"), "1 | 2 | NULL");
    assert_eq!(f.line("SELECT x FROM u UNION ALL SELECT 2 ORDER BY 1"), "1 | 2 | 2 | 2 | NULL");
    assert_eq!(f.line("SELECT x FROM u INTERSECT SELECT 2"), "2");
    assert_eq!(f.line("SELECT x FROM u EXCEPT SELECT 1 ORDER BY 1"), "2 | NULL");
    assert_eq!(f.line("SELECT x FROM u EXCEPT ALL SELECT 2 ORDER BY 1"), "1 | 2 | NULL");
    assert_eq!(f.line("VALUES (1), (2) INTERSECT ALL VALUES (2), (2)"), "2");
}

#[test]
fn subqueries_answer_with_sql_s_three_values() {
    let f = fixture();
    assert_eq!(f.line("SELECT (SELECT max(y) FROM u)"), "30");
    assert_eq!(
        f.line("SELECT a, (SELECT sum(y) FROM u WHERE x = a) FROM t WHERE a < 4 ORDER BY a"),
        "1 10 | 2 41 | 3 NULL"
    );
    assert_eq!(f.line("SELECT a FROM t WHERE a IN (SELECT x FROM u) ORDER BY a"), "1 | 2");
    assert_eq!(f.line("SELECT a FROM t WHERE a NOT IN (SELECT x FROM u)"), "");
    assert_eq!(
        f.line("SELECT a FROM t WHERE a NOT IN (SELECT x FROM u WHERE x > 0) AND a < 5 ORDER BY a"),
        "3 | 4"
    );
    assert_eq!(f.line("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE x = a) ORDER BY a"), "1 | 2");
    assert_eq!(
        f.line("SELECT count(*) FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE x = a AND y > 15)"),
        "19"
    );
    assert_eq!(
        f.line("SELECT 3 > ALL (SELECT x FROM u), 0 < ALL (SELECT x FROM u), 1 = ANY (SELECT x FROM u)"),
        "NULL NULL t"
    );
    assert_eq!(f.line("SELECT a FROM t WHERE a NOT IN (SELECT NULL::int4 FROM u)"), "");
    assert_eq!(f.line("SELECT count(*) FROM t WHERE a NOT IN (SELECT 3 FROM u)"), "19");
    assert_eq!(
        f.line("SELECT a FROM t WHERE a NOT IN (SELECT c FROM (SELECT NULL::int4 AS c FROM u) AS q)"),
        ""
    );
    assert_eq!(f.line("SELECT a FROM (SELECT a, 7 AS c FROM t) AS q WHERE c NOT IN (SELECT x FROM u)"), "");
    assert_eq!(f.line("SELECT ARRAY(SELECT x FROM u WHERE x = 2)"), "{2,2}");
    assert_eq!(f.state("SELECT (SELECT x FROM u)"), "21000");
    assert_eq!(f.line("SELECT a FROM t WHERE (a, b) IN (SELECT x, y - 9 FROM u)"), "1");
}

#[test]
fn a_grouped_column_is_seen_by_subqueries() {
    let f = fixture();
    assert_eq!(
        f.line("SELECT b, (SELECT sum(y) FROM u WHERE x = b) FROM t GROUP BY b HAVING b IN (SELECT x FROM u) ORDER BY b"),
        "1 10 | 2 41"
    );
}

#[test]
fn common_table_expressions_recur() {
    let f = fixture();
    assert_eq!(
        f.line("WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n WHERE i < 5) SELECT sum(i) FROM n"),
        "15"
    );
    assert_eq!(
        f.line(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION SELECT (i + 1) % 3 FROM n) SELECT i FROM n ORDER BY i"
        ),
        "0 | 1 | 2"
    );
    assert_eq!(
        f.line("WITH k AS MATERIALIZED (SELECT b, count(*) AS n FROM t GROUP BY b) SELECT l.b, r.n FROM k l, k r WHERE l.b = r.b AND l.b > 1 ORDER BY 1"),
        "2 5 | 3 5"
    );
}

#[test]
fn window_functions_see_their_frames() {
    let f = fixture();
    assert_eq!(
        f.line("SELECT a, row_number() OVER (PARTITION BY b ORDER BY a), sum(a) OVER (PARTITION BY b ORDER BY a) FROM t WHERE a < 7 ORDER BY a"),
        "1 1 1 | 2 1 2 | 3 1 3 | 4 1 4 | 5 2 6 | 6 2 8"
    );
    assert_eq!(
        f.line("SELECT a, sum(a) OVER (ORDER BY a ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) FROM t WHERE a < 5 ORDER BY a"),
        "1 3 | 2 6 | 3 9 | 4 7"
    );
    assert_eq!(
        f.line("SELECT x, rank() OVER (ORDER BY x), dense_rank() OVER (ORDER BY x), count(*) OVER () FROM u ORDER BY y"),
        "1 1 1 4 | 2 2 2 4 | 2 2 2 4 | NULL 4 3 4"
    );
    assert_eq!(
        f.line(
            "SELECT y, sum(y) OVER (ORDER BY y RANGE BETWEEN 1 PRECEDING AND CURRENT ROW) FROM u ORDER BY y"
        ),
        "10 10 | 20 20 | 21 41 | 30 30"
    );
    assert_eq!(f.line("SELECT a, lag(a, 1, 0) OVER (ORDER BY a), first_value(a) OVER (ORDER BY a DESC) FROM t WHERE a < 4 ORDER BY a"),
        "1 0 3 | 2 1 3 | 3 2 3");
}

#[test]
fn functions_return_rows() {
    let f = fixture();
    assert_eq!(f.line("SELECT * FROM generate_series(1, 3) WITH ORDINALITY"), "1 1 | 2 2 | 3 3");
    assert_eq!(f.line("SELECT generate_series(1, 2), generate_series(1, 3)"), "1 1 | 2 2 | NULL 3");
    assert_eq!(f.line("SELECT x, s FROM u, generate_series(1, x) AS s WHERE x = 2 AND y = 20"), "2 1 | 2 2");
    assert_eq!(f.line("SELECT unnest(ARRAY['a', 'b'])"), "a | b");
    assert_eq!(f.line("SELECT generate_series(1, 2) * 10"), "10 | 20");
}

#[test]
fn sorts_groupings_and_joins_larger_than_memory_spill_to_disk() {
    let f = Fixture::new().table("big", "a int4!, b int4", "a", &[]);
    f.run("INSERT INTO big SELECT g, g % 5000 FROM generate_series(1, 30000) AS g");
    let small = 700_000;
    let sorted = f.run_with("SELECT a FROM big ORDER BY b DESC, a", &[], small).unwrap();
    let all = f.run("SELECT a FROM big ORDER BY b DESC, a");
    assert!(sorted == all && all.len() == 30_000);
    let groups = "SELECT b, count(*) FROM big GROUP BY b";
    let mut grouped = f.run_with(groups, &[], small).unwrap();
    let mut wanted = f.run(groups);
    grouped.sort();
    wanted.sort();
    assert!(grouped == wanted && wanted.len() == 5_000);
    let join = "SELECT count(*), sum(l.a) FROM big l JOIN big r ON l.b = r.b + 0";
    assert_eq!(f.run_with(join, &[], small).unwrap(), f.run(join));
    let full = "SELECT count(*), count(l.a), count(r.a) FROM big l FULL JOIN big r ON l.a = r.a + 10000";
    assert_eq!(f.run_with(full, &[], small).unwrap(), ["40000 30000 30000"]);
}

#[test]
fn a_group_is_whole_where_its_input_releases_memory_between_its_rows() {
    let f = Fixture::new().table("big", "a int4!, b int4", "a", &[]);
    f.run("INSERT INTO big SELECT g, g * 7919 % 5000 FROM generate_series(1, 20000) AS g");
    // A join in parts releases the memory of each part before it reads the next one.
    let groups =
        "SELECT l.b % 4000, count(*), count(r.a) FROM big l FULL JOIN big r ON l.a = r.a + 10000 GROUP BY 1";
    let mut wanted = f.run(groups);
    wanted.sort();
    for memory in (500_000..900_000).step_by(50_000) {
        let mut grouped = f.run_with(groups, &[], memory).unwrap();
        grouped.sort();
        assert!(grouped == wanted, "{memory}: {} groups for {}", grouped.len(), wanted.len());
    }
}

#[test]
fn columns_of_rows_beyond_a_limit_are_not_computed() {
    let f = Fixture::new().table("t", "a int4!", "a", &[]);
    f.run("INSERT INTO t SELECT g FROM generate_series(1, 20) AS g");
    assert_eq!(f.line("SELECT 12 / (4 - a) FROM t LIMIT 3"), "4 | 6 | 12");
    assert_eq!(f.line("SELECT 12 / (4 - a) FROM t ORDER BY a LIMIT 2"), "4 | 6");
    assert_eq!(f.line("SELECT x FROM (SELECT 12 / (4 - a) AS x FROM t LIMIT 1) q"), "4");
    assert_eq!(f.line("SELECT 12 / (4 - a) FROM t LIMIT 0"), "");
    assert_eq!(f.state("SELECT 12 / (4 - a) FROM t LIMIT 4"), "22012");
    // Rows that OFFSET skips are.
    assert_eq!(f.state("SELECT 12 / (1 - a) FROM t LIMIT 1 OFFSET 1"), "22012");
}

#[test]
fn hashes_of_a_recursion_do_not_spill_and_fail_with_53200() {
    let f = Fixture::new();
    let text = "WITH RECURSIVE q AS (SELECT g FROM generate_series(1, 100000) AS g UNION SELECT g FROM q WHERE g < 0) SELECT count(*) FROM q";
    let error = f.run_with(text, &[], 100_000).unwrap_err();
    assert_eq!(error.state().as_str(), "53200");
}

#[test]
fn large_tables_are_grouped_and_sorted_by_several_threads_with_the_same_result() {
    let f = Fixture::new().table("big", "a int4!, b int4, c text", "a", &[]).table(
        "small",
        "k int4!, v text",
        "k",
        &[],
    );
    f.run("INSERT INTO big SELECT g, g % 1000, CASE WHEN g % 3 = 0 THEN 'x' END FROM generate_series(1, 150000) AS g");
    f.run("INSERT INTO small SELECT g, 'v' FROM generate_series(1, 500) AS g");
    // On a snapshot or in a transaction, by the length of the text: see `Fixture::run_with`.
    for text in [
        "SELECT b, count(*), sum(a), min(c), avg(a) FROM big GROUP BY b ORDER BY b",
        "SELECT count(*), sum(b), max(a) FROM big WHERE a % 7 = 3",
        "SELECT v, count(*), sum(a) FROM big JOIN small ON k = b WHERE c IS NULL GROUP BY v",
        "SELECT b % 10, count(DISTINCT b) FROM big GROUP BY ROLLUP (b % 10) ORDER BY 1, 2",
        "SELECT count(DISTINCT c), string_agg(DISTINCT (b % 5)::text, ',') FROM big",
        "SELECT b, a, c FROM big WHERE a > 100 ORDER BY b DESC, c NULLS FIRST LIMIT 300 OFFSET 5",
        "SELECT c, a FROM big ORDER BY c, b OFFSET 149900",
        "SELECT a FROM big ORDER BY b LIMIT 0",
        "SELECT b FROM big ORDER BY b FETCH FIRST 3 ROWS WITH TIES",
        "SELECT a, v FROM big JOIN small ON k = b ORDER BY v, a DESC LIMIT 7",
    ] {
        let spaced = format!("{text} ");
        assert_eq!(f.run(text), f.run(&spaced), "{text}");
    }
    // What each thread has kept is counted when it is merged.
    let (used, _) = f.used_of_memory("SELECT b, count(DISTINCT a) FROM big GROUP BY b", 1);
    assert!(used >= 150_000 * (size_of::<Value>() + 32), "{used}");
}
