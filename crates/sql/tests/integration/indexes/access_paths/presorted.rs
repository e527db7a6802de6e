//! The first rows of an order whose first columns only are an index's: rows are read until the others cannot be among them.

use super::super::{memory, rows, run};
use super::plan;
use crate::support::samples::Random;

fn tables(connection: &mut heddle_sql::Connection) {
    let columns = "(id int primary key, a int, b int not null, c text)";
    let rows = "select n, case when n % 13 > 0 then n * 7 % 900 end, n * 11 % 17, 'x' || n % 29 from generate_series(1, 6000) n";
    for table in ["t", "plain"] {
        run(connection, &format!("create table {table} {columns}; insert into {table} {rows}"));
    }
    run(connection, "create index t_ab on t (a, b); create index t_ba on t (b, a); analyze");
}

/// Number of rows that the scan of a query has given.
fn rows_read(connection: &mut heddle_sql::Connection, query: &str) -> usize {
    let lines = rows(connection, &format!("explain (analyze, timing off, costs off) {query}"));
    let scan = lines.iter().find(|line| line.contains("Scan")).expect("a scan");
    let count = scan.split("actual rows=").nth(1).and_then(|rest| rest.split(' ').next());
    count.and_then(|count| count.parse().ok()).expect("a number of rows")
}

#[test]
fn only_rows_that_may_be_first_are_read() {
    let mut connection = memory();
    tables(&mut connection);
    for (query, key) in [
        ("select id from t order by a, id limit 5", "Presorted Key: a"),
        ("select id from t order by a desc nulls last, b limit 5", "Presorted Key: a DESC NULLS LAST"),
        ("select id from t order by a, b desc limit 5", "Presorted Key: a"),
        (
            "select id from t where b = 5 order by a desc nulls last, c limit 5",
            "Presorted Key: a DESC NULLS LAST",
        ),
        ("select id from t order by a, lower(c) limit 5 offset 3", "Presorted Key: a"),
        ("select id from t where (a, b) > (100, 3) order by a, b, c limit 5", "Presorted Key: a, b"),
    ] {
        let plan = plan(&mut connection, query);
        assert!(plan.contains("Incremental Sort (top N)") && plan.contains(key), "{query}\n{plan}");
        let read = rows_read(&mut connection, query);
        assert!(read < 3000, "{query} reads {read} rows");
    }
    // Without a limit nothing is saved.
    let plan = plan(&mut connection, "select id from t order by a, id");
    assert!(!plan.contains("Incremental"), "{plan}");
}

#[test]
fn the_first_rows_are_those_of_a_whole_sort() {
    let mut connection = memory();
    tables(&mut connection);
    let mut random = Random(7);
    let mut incremental = 0;
    for _ in 0..150 {
        let direction =
            |random: &mut Random| random.pick(&["", " desc", " nulls first", " desc nulls last"]).to_string();
        let keys: Vec<String> = (0..1 + random.below(3))
            .map(|_| format!("{}{}", random.pick(&["a", "b", "c"]), direction(&mut random)))
            .collect();
        let condition =
            random.pick(&["true", "b = 3", "a > 300", "a in (7, 14, 21)", "a is null", "(a, b) < (200, 4)"]);
        let limit = random.pick(&["0", "1", "3", "40", "700", "2000"]);
        let offset = random.pick(&["0", "0", "2", "300"]);
        let query = |table: &str| {
            format!(
                "select a, b, c, id from {table} where {condition} order by {}, id limit {limit} offset {offset}",
                keys.join(", ")
            )
        };
        incremental += usize::from(plan(&mut connection, &query("t")).contains("Incremental"));
        let expected = rows(&mut connection, &query("plain"));
        assert_eq!(rows(&mut connection, &query("t")), expected, "{}", query("t"));
    }
    assert!(incremental > 20, "{incremental}");
}

#[test]
fn rows_that_equal_the_last_one_are_kept_however_many_there_are() {
    let mut connection = memory();
    let query = "select count(*) from (select n % 2 from generate_series(1, 5000) n order by 1 fetch first 3 rows with ties) x";
    assert_eq!(rows(&mut connection, query), ["2500"]);
}
