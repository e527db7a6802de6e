//! Partial indexes and indexes on expressions: when plans use them, that they never change a result, and that they survive
//! a restart; the ranges of keys that conditions lead to (`access_paths`). And tables that a program has made without an ordered index: no plan reads a range of one.

mod access_paths;

use crate::support::samples::Random;
use heddle_sql::{ConnectOptions, Connection, Sql, SqlState};
use heddledb::{DataType, Database, Durability, Options, PrimaryIndex, TableDefinition};

fn connect(database: &Database) -> Connection {
    let sql = Sql::new(database).expect("SQL on a database");
    sql.connect(ConnectOptions::default()).expect("a connection")
}

fn memory() -> Connection {
    let options = Options::default().durability(Durability::None);
    connect(&Database::in_memory_with(options).expect("a database"))
}

fn run(connection: &mut Connection, text: &str) {
    connection.query(text).unwrap_or_else(|error| panic!("{text}: {error}"));
}

/// The rows of a text's last statement, columns between blanks.
fn rows(connection: &mut Connection, text: &str) -> Vec<String> {
    let results = connection.query(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let rows = connection.text_rows(results.last().expect("a result")).expect("values print");
    let shown = |row: Vec<Option<String>>| {
        row.into_iter().map(|value| value.unwrap_or("NULL".to_string())).collect::<Vec<_>>().join(" ")
    };
    rows.into_iter().map(shown).collect()
}

/// Returns true if the plan of a query with this condition uses an index.
fn uses(connection: &mut Connection, condition: &str, index: &str) -> bool {
    let plan = rows(connection, &format!("explain (costs off) select id from t where {condition}"));
    plan.join("\n").contains(&format!("using {index} "))
}

#[test]
fn a_partial_index_is_used_where_the_conditions_imply_its_predicate() {
    let cases: [(&str, &[&str], &[&str]); 7] = [
        (
            "n > 10",
            &["n > 10", "n > 10 and k = 1", "n >= 11", "n = 11", "n in (11, 12)", "n > 20 or n = 15"],
            &["n >= 10", "n <> 5", "n in (10, 11)", "n > 20 or n = 9", "k = 1", "n < 20", "n > 5"],
        ),
        (
            "n is not null",
            &["n = 1", "n < 3", "n in (1, 2)", "n is not null", "n::bigint = 4", "n + 1 = 2"],
            &["n is null", "k = 1", "coalesce(n, 1) = 1", "n is distinct from 3"],
        ),
        ("b", &["b", "b = true", "b is true"], &["not b", "b is not false", "b is not null"]),
        ("not b", &["not b", "b = false", "b is false"], &["b", "b is not true"]),
        (
            "s in ('x', 'y')",
            &["s = 'x'", "s in ('y')", "s in ('x', 'y')", "s = 'x' and n = 3"],
            &["s = 'z'", "s in ('x', 'z')", "s <> 'z'"],
        ),
        (
            "s = 'x' and n <= 5",
            &["n = 3 and s = 'x'", "s = 'x' and n < 5 and k > 1"],
            &["s = 'x'", "n <= 5", "s = 'x' and n < 7"],
        ),
        ("n < 3 or s = 'x'", &["s = 'x'", "n = 1", "n < 3 or s = 'x'"], &["n < 4", "s = 'y'"]),
    ];
    for (predicate, implying, others) in cases {
        let mut connection = memory();
        run(&mut connection, "create table t (id int primary key, k int, n int, b bool, s text)");
        // Few rows are under the predicate, so that the index is worth its while.
        run(&mut connection, "insert into t select n, n % 7 from generate_series(1, 3000) as n");
        run(&mut connection, &format!("create index few on t (k) where {predicate}"));
        run(&mut connection, "analyze t");
        for condition in implying {
            assert!(uses(&mut connection, condition, "few"), "{predicate} of {condition}");
        }
        for condition in others {
            assert!(!uses(&mut connection, condition, "few"), "{predicate} of {condition}");
        }
    }
}

#[test]
fn statements_with_other_literals_have_plans_of_their_own() {
    let mut connection = memory();
    run(&mut connection, "create table t (id int primary key, state text, f text)");
    run(&mut connection, "create unique index open on t (f) where state = 'open'");
    run(&mut connection, "insert into t values (1, 'open', 'a'), (2, 'done', 'a'), (3, 'done', 'b')");
    for _ in 0..3 {
        assert_eq!(rows(&mut connection, "select id from t where f = 'a' and state = 'open'"), ["1"]);
        assert_eq!(rows(&mut connection, "select id from t where f = 'a' and state = 'done'"), ["2"]);
        assert_eq!(rows(&mut connection, "select id from t where f = 'b' and state = 'done'"), ["3"]);
        assert_eq!(rows(&mut connection, "select id from t where f = 'b' and state = 'open'"), [""; 0]);
    }
    let upsert = |state: &str| {
        format!("insert into t values (9, 'done', 'a') on conflict (f) where state = '{state}' do nothing")
    };
    run(&mut connection, &upsert("open"));
    let error = connection.query(&upsert("done")).expect_err("no index of this predicate");
    assert_eq!(error.state(), SqlState::INVALID_COLUMN_REFERENCE);
}

/// Two tables with the same rows, one of them with indexes: every statement does the same to both.
#[test]
fn indexes_never_change_a_result() {
    for seed in 0..8 {
        let mut random = Random(seed);
        let mut connection = memory();
        let columns = "(id int primary key, a int, b text, c bool)";
        run(&mut connection, &format!("create table t {columns}; create table plain {columns}"));
        run(
            &mut connection,
            "create index i1 on t (a) where c; create index i2 on t (lower(b), a); create index i3 on t ((a + 1)) where b > 'B';
             create index i4 on t ((case when c then a else -a end)) where a is not null",
        );
        for step in 0..400 {
            let text = statement(&mut random);
            let results = ["t", "plain"].map(|table| connection.query(&text.replace("TABLE", table)));
            let shown = results.map(|result| match result {
                Ok(results) => {
                    let mut rows = connection.text_rows(&results[0]).expect("values print");
                    rows.sort();
                    format!("{} {rows:?}", results[0].tag)
                }
                Err(error) => format!("{:?}", error.state()),
            });
            assert_eq!(shown[0], shown[1], "seed {seed}, step {step}: {text}");
        }
    }
}

fn statement(random: &mut Random) -> String {
    let number = |random: &mut Random| random.pick(&["NULL", "0", "1", "2", "3", "-1"]);
    let text = |random: &mut Random| random.pick(&["NULL", "'a'", "'A'", "'b'", "'C'", "''"]);
    let truth = |random: &mut Random| random.pick(&["true", "false", "NULL"]);
    let (a, b, c) = (number(random), text(random), truth(random));
    let id = random.below(40);
    let condition = match random.below(9) {
        0 => format!("c and a = {a}"),
        1 => format!("lower(b) = lower({b})"),
        2 => format!("lower(b) = lower({b}) and a > {a}"),
        3 => format!("a + 1 = {a} and b > 'B'"),
        4 => format!("a + 1 in (1, {a}) and b >= 'C'"),
        5 => format!("case when c then a else -a end = {a}"),
        6 => "case when c then a else -a end < 1 and a is not null".to_string(),
        7 => format!("a < {a} and c is true"),
        _ => format!("id = {id}"),
    };
    match random.below(10) {
        0..3 => format!(
            "insert into TABLE values ({id}, {a}, {b}, {c}) on conflict (id) do update set c = excluded.c"
        ),
        3 => format!("update TABLE set a = {a} where {condition}"),
        4 => format!("update TABLE set b = {b}, c = {c} where {condition} returning id, a, b, c"),
        5 => format!("delete from TABLE where id = {id}"),
        6 => format!(
            "select count(*), sum(a) from TABLE x where {condition} and exists (select from TABLE y where y.a + 1 = x.a and y.b > 'B')"
        ),
        7 => format!(
            "select x.id, y.id from TABLE x left join TABLE y on lower(y.b) = x.b and y.a = {a} where x.id < 20"
        ),
        _ => format!("select * from TABLE where {condition}"),
    }
}

#[test]
fn unique_partial_indexes_hold_between_threads() {
    let options = Options::default().durability(Durability::None);
    let database = Database::in_memory_with(options).expect("a database");
    let sql = Sql::new(&database).expect("SQL on a database");
    let connect = || sql.connect(ConnectOptions::default()).expect("a connection");
    run(
        &mut connect(),
        "create table t (id int primary key, k int, live bool); create unique index on t (k) where live",
    );
    let made: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let mut connection = connect();
                scope.spawn(move || {
                    let mut made = 0;
                    for k in 0..100 {
                        let id = thread * 1_000 + k;
                        match connection.query(&format!("insert into t values ({id}, {k}, true)")) {
                            Ok(_) => made += 1,
                            Err(error) => assert_eq!(error.state(), SqlState::UNIQUE_VIOLATION, "{error}"),
                        }
                        run(&mut connection, &format!("insert into t values ({}, {k}, false)", id + 500));
                    }
                    made
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!(made, 100);
    assert_eq!(rows(&mut connect(), "select count(*), count(distinct k) from t where live"), ["100 100"]);
    assert_eq!(rows(&mut connect(), "select count(*) from t where not live"), ["400"]);
}

#[test]
fn they_survive_a_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let open = || Database::open(directory.path(), Options::default()).expect("a database");
    {
        let mut connection = connect(&open());
        run(&mut connection, "create table t (id int primary key, k int, name text)");
        run(&mut connection, "insert into t select n, n, 'N' || n from generate_series(1, 2000) as n");
        run(&mut connection, "create unique index live on t (lower(name)) where k > 10");
    }
    let mut connection = connect(&open());
    let error = connection.query("insert into t values (0, 11, 'n11')").expect_err("it is there");
    assert_eq!(error.state(), SqlState::UNIQUE_VIOLATION);
    run(&mut connection, "insert into t values (0, 1, 'n11')");
    run(&mut connection, "analyze t");
    assert!(uses(&mut connection, "lower(name) = 'n99' and k > 10", "live"));
    assert_eq!(rows(&mut connection, "select id from t where lower(name) = 'n99' and k > 10"), ["99"]);
}

#[test]
fn a_table_with_a_hash_index_alone_is_read_by_whole_keys_or_as_a_whole() {
    let database =
        Database::in_memory_with(Options::default().durability(Durability::None)).expect("a database");
    let stock = TableDefinition::new("stock")
        .column("w", DataType::Int64)
        .column("i", DataType::Int64)
        .column("n", DataType::Int64)
        .primary_key(["w", "i"])
        .primary_index(PrimaryIndex::Hash);
    database.create_table(stock).expect("made");
    let mut connection = connect(&database);
    run(&mut connection, "insert into stock select n % 4, n, n % 7 from generate_series(0, 3999) as n");
    run(&mut connection, "create table line (id int primary key, w bigint, i bigint)");
    run(&mut connection, "insert into line select n, n % 4, n from generate_series(0, 999) as n");
    run(&mut connection, "analyze");
    let cases = [
        ("select n from stock where w = 1 and i = 5", "5"),
        ("select count(*) from stock where w = 1", "1000"),
        ("select count(*) from stock where w = 1 and i in (1, 5, 6)", "2"),
        ("select count(*) from stock where w = 1 and i between 1 and 100", "25"),
        ("select count(*) from stock where w > 1", "2000"),
        ("select i from stock order by w, i limit 1", "0"),
        ("select i from stock order by w desc, i desc limit 1", "3999"),
        ("select i from stock where w = 1 order by i limit 1", "1"),
        ("select max(i) from stock where w = 2", "3998"),
        ("select count(*) from line join stock using (w, i) where n < 3", "429"),
        ("select count(*) from line join stock on stock.w = 1 and stock.i = line.i and line.w = 1", "250"),
        ("select count(*) from line join stock using (w) where line.id < 4 and n = 0", "572"),
    ];
    for (query, expected) in cases {
        assert_eq!(rows(&mut connection, query), [expected], "{query}");
    }
    run(&mut connection, "update stock set n = 100 where w = 3 and i > 3000");
    run(&mut connection, "delete from stock where w = 0");
    assert_eq!(rows(&mut connection, "select count(*), max(n) from stock"), ["3000 100"]);
}
