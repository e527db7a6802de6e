//! Access paths: which conditions lead to which ranges of an index, that paths never change a result, that a row which
//! several of them find is returned and written once, that no protocol lets a phantom into what a path has read, and that plans
//! follow the tables' statistics.

mod converted;
mod differential;
mod joins;
mod phantoms;
mod presorted;
mod statistics;

use super::{memory, rows, run};

/// Rows with these columns: few values of `k`, NULLs in `a`, `c` and `d`.
const ROWS: &str = "select n, n % 3, case when n % 10 > 0 then n / 4 end, n % 50, case when n % 7 > 0 then 'x' || n end, \
     case when n % 9 = 0 then n end from generate_series(1, 2000) n";

const INDEXES: &str = "create index t_ab on t (a, b); create index t_c on t (c); create index t_d on t (d); \
     create index t_kb on t (k, b); create index t_low on t (lower(c)); create index t_part on t (b) where d is not null";

/// `t` with indexes, `plain` without, and the same rows in both.
fn tables(connection: &mut heddle_sql::Connection) {
    let columns = "(id int primary key, k int not null, a int, b int not null, c text, d int)";
    run(connection, &format!("create table t {columns}; {INDEXES}; insert into t {ROWS}"));
    let columns = columns.replace("primary key", "not null");
    run(connection, &format!("create table plain {columns}; insert into plain {ROWS}; analyze"));
}

/// The plan of a query in lines.
fn plan(connection: &mut heddle_sql::Connection, query: &str) -> String {
    rows(connection, &format!("explain (costs off) {query}")).join("\n")
}

/// Queries of `t`, and what their plans say.
const PATHS: &[(&str, &str)] = &[
    (
        "select * from t where (a, b) in ((1, 5), (2, 9), (1, 5))",
        "Index Cond: (((a = 1) AND (b = 5)) OR ((a = 2) AND (b = 9)) OR ((a = 1) AND (b = 5)))",
    ),
    ("select * from t where a = 5 or a = 7", "Index Cond: (a = ANY (ARRAY[5, 7]))"),
    ("select * from t where a in (5, 7) and b = 21", "Index Cond: ((a = ANY (ARRAY[5, 7])) AND (b = 21))"),
    ("select * from t where a = any('{5,7}') and b > 20", "AND (b > 20))"),
    (
        "select * from t where (a = 5 and b < 22) or (a = 7 and b > 29) or a = 9",
        "Index Cond: (((a = 5) AND (b < 22)) OR ((a = 7) AND (b > 29)) OR (a = 9))",
    ),
    ("select * from t where a = 5 or c = 'x77'", "using t_ab, t_c on t"),
    ("select * from t where id = 7 or c = 'x77' or d = 99", "using t_pkey, t_c, t_d on t"),
    ("select * from t where a between 5 and 7", "Index Cond: ((a >= 5) AND (a <= 7))"),
    ("select * from t where (a, b) > (490, 10)", "Index Cond: ((a > 490) OR ((a = 490) AND (b > 10)))"),
    ("select * from t where (a, b) <= (3, 10) and a >= 2", "using t_ab on t"),
    ("select * from t where c like 'x19%'", "Index Cond: (c ~~ 'x19%'::text)"),
    ("select * from t where c ~ '^x19'", "Index Cond: (c ~ '^x19'::text)"),
    ("select * from t where lower(c) like 'x19_'", "Index Cond: (lower(c) ~~ 'x19_'::text)"),
    ("select * from t where a is null and b = 20", "Index Cond: ((a IS NULL) AND (b = 20))"),
    ("select * from t where d is not null and b = 9", "using t_part on t"),
    ("select * from t where d > 10 and d < 40", "using t_d on t"),
    // A leading column with three values is skipped.
    ("select * from t where b = 17", "using t_kb on t"),
    ("select max(a) from t", "Index Scan Backward using t_ab on t"),
    ("select min(a), max(a), min(d) from t", "Index Scan using t_d on t"),
    ("select max(b) from t where a = 50", "Index Scan Backward using t_ab on t"),
    ("select max(id) from t where id < 1000", "Index Scan Backward using t_pkey on t"),
    ("select min(a) from t where a > 100", "Index Cond: ((a > 100) AND (a IS NOT NULL))"),
    ("select min(lower(c)), max(lower(c)) from t", "Index Scan Backward using t_low on t"),
    ("select max(lower(c)) from t where lower(c) < 'x5'", "Index Cond: ((lower(c) < 'x5'::text)"),
    ("select lower(c), id from t order by lower(c) limit 3", "Index Scan using t_low on t"),
    (
        "select lower(c), id from t order by lower(c) desc nulls last limit 3",
        "Index Scan Backward using t_low on t",
    ),
    ("select a, id from t order by a limit 3", "Index Scan using t_ab on t"),
    ("select a, id from t order by a desc limit 3", "Index Scan Backward using t_ab on t"),
    ("select a, id from t order by a nulls first limit 3", "Index Scan using t_ab on t"),
    ("select a, id from t order by a desc nulls last limit 3", "Index Scan Backward using t_ab on t"),
    ("select b, id from t where a = 50 order by b desc limit 2", "Index Cond: (a = 50)"),
    ("select a, b from t where (a, b) > (100, 7) order by a, b limit 5", "Index Scan using t_ab on t"),
    (
        "select a, b from t where a in (9, 7, 8) order by a desc, b desc limit 5",
        "Index Scan Backward using t_ab on t",
    ),
    ("select t.id from plain p join t on t.a = p.id or t.d = p.id where p.id < 9", "Lookup"),
    ("update t set b = 0 where a = 5 or a = 7", "Index Cond: (a = ANY (ARRAY[5, 7]))"),
    ("delete from t where (a, b) in ((1, 5), (2, 9))", "using t_ab on t"),
    ("select * from t where a = 5 or c = 'x77' for update", "using t_ab, t_c on t"),
    (
        "merge into t using (values (1), (2)) v (n) on t.a = v.n and t.b = 5 when matched then delete",
        "Index Cond: ((a = ",
    ),
];

#[test]
fn conditions_lead_to_ranges_of_indexes() {
    let mut connection = memory();
    tables(&mut connection);
    for (query, expected) in PATHS {
        let plan = plan(&mut connection, query);
        assert!(plan.contains(expected), "{query}\n{plan}");
        assert!(!plan.contains("Seq Scan on t\n") && !plan.ends_with("Seq Scan on t"), "{query}\n{plan}");
        let is_sorted = !query.contains("order by") || !plan.contains("Sort");
        assert!(is_sorted, "{query}\n{plan}");
    }
}

#[test]
fn paths_find_what_a_scan_finds() {
    let mut connection = memory();
    tables(&mut connection);
    for (query, _) in PATHS.iter().filter(|(query, _)| query.starts_with("select")) {
        let plain = query.replace("join t on", "join plain t on").replace("from t ", "from plain ");
        let plain = plain.strip_suffix(" t").map_or(plain.clone(), |start| format!("{start} plain"));
        let ordered = query.contains("order by");
        let [mut found, mut expected] = [*query, &plain].map(|query| rows(&mut connection, query));
        if !ordered {
            found.sort();
            expected.sort();
        } else {
            // Rows that are equal in the order may come in any.
            for rows in [&mut found, &mut expected] {
                rows.iter_mut().for_each(|row| row.truncate(row.find(' ').unwrap_or(row.len())));
            }
        }
        assert_eq!(found, expected, "{query}");
        assert!(!found.is_empty(), "{query}");
    }
}

#[test]
fn a_prepared_pattern_decides_when_it_is_run() {
    let mut connection = memory();
    tables(&mut connection);
    run(&mut connection, "prepare p (text) as select count(*) from t where c like $1");
    for pattern in ["x19%", "%9", "x1_", "x5", "", "x\\%", "%"] {
        let found = rows(&mut connection, &format!("execute p ('{pattern}')"));
        let expected = rows(&mut connection, &format!("select count(*) from plain where c like '{pattern}'"));
        assert_eq!(found, expected, "{pattern}");
    }
    assert!(connection.query("execute p ('x\\')").is_err(), "a pattern that ends with an escape");
}

#[test]
fn lists_of_any_length_find_their_rows_alone() {
    let mut connection = memory();
    tables(&mut connection);
    let long = "select array_agg(n) from generate_series(300, 100000) n";
    for column in ["a", "id"] {
        for other in ["true", "b = any(array(select n from generate_series(10, 30) n))"] {
            let query = |table: &str, condition: &str| {
                format!("select count(*), sum(id) from {table} where {condition} and {other}")
            };
            let found = rows(&mut connection, &query("t", &format!("{column} = any(({long})::int[])")));
            let between = query("plain", &format!("{column} between 300 and 100000"));
            let expected = rows(&mut connection, &between);
            assert_eq!(found, expected, "{column} {other}");
        }
    }
}

#[test]
fn a_write_that_moves_a_row_in_the_index_writes_it_once() {
    let mut connection = memory();
    run(&mut connection, "create table t (id int primary key, a int, b int); create index t_a on t (a)");
    run(
        &mut connection,
        "create index t_b on t (b); insert into t select n, n, n from generate_series(1, 3000) n; analyze",
    );
    let update =
        "update t set a = a + 1, b = b + 1 where a = 5 or b = 5 or a = 6 or b = 7 returning id, a, b";
    let plan = plan(&mut connection, update);
    assert!(plan.contains("using t_a, t_b on t"), "{plan}");
    let mut changed = rows(&mut connection, update);
    changed.sort();
    assert_eq!(changed, ["5 6 6", "6 7 7", "7 8 8"]);
    assert_eq!(rows(&mut connection, "select count(*), sum(a) from t"), ["3000 4501503"]);
}

#[test]
fn explain_in_json_has_the_shape_of_postgresql() {
    let mut connection = memory();
    tables(&mut connection);
    let query =
        "select x.id from t x join t y on y.id = x.d where (x.a = 5 or x.a = 7) and x.b > 2 order by x.b";
    let text = rows(&mut connection, &format!("explain (analyze, format json) {query}")).join("\n");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let mut nodes = vec![&json[0]["Plan"]];
    let mut kinds = Vec::new();
    while let Some(node) = nodes.pop() {
        kinds.push(node["Node Type"].as_str().expect("a node's type").to_string());
        let is_inner = node["Parent Relationship"] == "Inner" && node["Actual Loops"].is_null();
        for key in
            ["Startup Cost", "Total Cost", "Plan Rows", "Plan Width", "Actual Total Time", "Actual Rows"]
        {
            assert!(node[key].is_number() || is_inner, "{key} of {node}");
        }
        if node["Node Type"] == "Sort" {
            assert_eq!(node["Sort Key"], serde_json::json!(["x.b"]));
        }
        if node["Alias"] == "x" {
            assert_eq!(node["Relation Name"], "t");
            assert_eq!(node["Index Name"], "t_ab");
            assert!(node["Index Cond"].as_str().is_some_and(|text| text.contains("a = ANY")), "{node}");
            assert!(node["Filter"].as_str().is_some_and(|text| text.contains("OR")), "{node}");
        }
        nodes.extend(node["Plans"].as_array().into_iter().flatten());
    }
    assert!(
        kinds.contains(&"Nested Loop".to_string()) && kinds.contains(&"Index Scan".to_string()),
        "{kinds:?}"
    );
    assert!(json[0]["Planning Time"].is_number() && json[0]["Execution Time"].is_number());
}
