//! Sequences: restarts belong to their transaction, and survive a crash right behind its commit.

use std::path::Path;

use heddle_sql::{ConnectOptions, Connection, Sql};
use heddledb::{Database, Durability, Options};

fn connect(sql: &Sql) -> Connection {
    sql.connect(ConnectOptions::default()).expect("a connection")
}

fn memory() -> Sql {
    let options = Options::default().durability(Durability::None);
    Sql::new(&Database::in_memory_with(options).expect("a database")).expect("SQL on a database")
}

fn run(connection: &mut Connection, text: &str) {
    connection.query(text).unwrap_or_else(|error| panic!("{text}: {error}"));
}

/// The one value of a query.
fn value(connection: &mut Connection, text: &str) -> i64 {
    let results = connection.query(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let rows = connection.text_rows(results.last().expect("a result")).expect("values print");
    rows[0][0].as_ref().expect("a value").parse().expect("a number")
}

#[test]
fn a_restart_is_seen_by_others_when_it_is_committed() {
    let sql = memory();
    let (mut one, mut other) = (connect(&sql), connect(&sql));
    run(&mut one, "create sequence s");
    assert_eq!(value(&mut one, "select nextval('s')"), 1);
    run(&mut one, "begin; alter sequence s restart 100");
    assert_eq!(value(&mut one, "select nextval('s')"), 100);
    assert_eq!(value(&mut other, "select nextval('s')"), 2);
    assert_eq!(value(&mut one, "select nextval('s')"), 101);
    assert_eq!(value(&mut one, "select last_value from s"), 101);
    run(&mut one, "commit");
    assert_eq!(value(&mut other, "select nextval('s')"), 102);
    assert_eq!(value(&mut one, "select nextval('s')"), 103);
}

#[test]
fn a_restart_is_undone_by_a_rollback_and_by_a_savepoint() {
    let sql = memory();
    let mut connection = connect(&sql);
    run(&mut connection, "create sequence s; select nextval('s')");
    run(&mut connection, "begin; alter sequence s restart 100");
    assert_eq!(value(&mut connection, "select nextval('s')"), 100);
    run(&mut connection, "rollback");
    assert_eq!(value(&mut connection, "select nextval('s')"), 2);
    run(&mut connection, "begin; alter sequence s restart 50; savepoint p; alter sequence s restart 70");
    assert_eq!(value(&mut connection, "select nextval('s')"), 70);
    run(&mut connection, "rollback to p");
    assert_eq!(value(&mut connection, "select nextval('s')"), 50);
    run(&mut connection, "commit");
    assert_eq!(value(&mut connection, "select nextval('s')"), 51);
}

#[test]
fn truncate_restarts_identities_with_its_transaction() {
    let sql = memory();
    let mut connection = connect(&sql);
    run(&mut connection, "create table t (id int generated always as identity primary key, x int)");
    run(&mut connection, "insert into t (x) values (1), (2), (3)");
    run(&mut connection, "begin; truncate t restart identity; insert into t (x) values (4); rollback");
    assert_eq!(value(&mut connection, "insert into t (x) values (5) returning id"), 4);
    run(&mut connection, "begin; truncate t restart identity; insert into t (x) values (4); commit");
    assert_eq!(value(&mut connection, "insert into t (x) values (5) returning id"), 2);
    run(&mut connection, "begin; truncate t restart identity; select setval('t_id_seq', 40); commit");
    assert_eq!(value(&mut connection, "insert into t (x) values (5) returning id"), 41);
}

#[test]
fn another_owner_or_increment_leaves_the_values_that_others_take() {
    let sql = memory();
    let (mut one, mut other) = (connect(&sql), connect(&sql));
    run(&mut one, "create sequence s; create table t (id int)");
    assert_eq!(value(&mut one, "select nextval('s')"), 1);
    run(&mut one, "begin; alter sequence s owned by t.id");
    assert_eq!(value(&mut other, "select nextval('s')"), 2);
    run(&mut one, "commit");
    assert_eq!(value(&mut other, "select nextval('s')"), 3);
    run(&mut one, "alter sequence s increment -1 minvalue -10");
    assert_eq!(value(&mut other, "select nextval('s')"), 2);
    assert_eq!(value(&mut one, "select nextval('s')"), 1);
}

#[test]
fn restarts_beside_other_sessions_give_no_value_twice_in_between() {
    let sql = memory();
    run(&mut connect(&sql), "create sequence s");
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let mut connection = connect(&sql);
            scope.spawn(move || {
                for _ in 0..200 {
                    assert!(value(&mut connection, "select nextval('s')") > 0);
                }
            });
        }
        let mut connection = connect(&sql);
        scope.spawn(move || {
            for round in 1..20 {
                run(&mut connection, &format!("alter sequence s restart {}", round * 10_000));
            }
        });
    });
    // Whatever is given now lies behind the last restart.
    let mut connection = connect(&sql);
    let first = value(&mut connection, "select nextval('s')");
    assert!(first >= 190_000, "{first}");
    assert_eq!(value(&mut connection, "select nextval('s')"), first + 1);
}

/// The name of the variable by which the test below tells its own process where to crash.
const CRASH: &str = "HEDDLE_TEST_CRASH_IN";

#[test]
fn a_restart_survives_a_crash_right_behind_its_commit() {
    let open = |directory: &Path| {
        let database = Database::open(directory, Options::default()).expect("a database");
        Sql::new(&database).expect("SQL on a database")
    };
    if let Some(directory) = std::env::var_os(CRASH) {
        let mut connection = connect(&open(Path::new(&directory)));
        run(&mut connection, "create table t (id int generated always as identity primary key, x int)");
        run(&mut connection, "create sequence s; select nextval('s') from generate_series(1, 200)");
        run(&mut connection, "insert into t (x) select n from generate_series(1, 100) as n");
        run(&mut connection, "begin; alter sequence s restart 7; select nextval('s'); commit");
        run(&mut connection, "begin; truncate t restart identity; insert into t (x) values (1), (2); commit");
        std::process::abort();
    }
    let place = tempfile::tempdir().expect("a directory");
    let directory = place.path().join("database");
    let this = std::env::current_exe().expect("this program");
    let mut child = std::process::Command::new(this);
    child
        .args(["--exact", "sequences::a_restart_survives_a_crash_right_behind_its_commit"])
        .env(CRASH, &directory);
    let output = child.output().expect("the program starts");
    assert_eq!(output.status.code(), None, "it has crashed: {}", String::from_utf8_lossy(&output.stdout));
    let mut after = connect(&open(&directory));
    assert_eq!(value(&mut after, "select nextval('s')"), 8);
    assert_eq!(value(&mut after, "insert into t (x) values (3) returning id"), 3);
}
