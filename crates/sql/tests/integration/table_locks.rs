//! LOCK TABLE: which locks wait for each other, with NOWAIT, time limits, savepoints and deadlocks.

use std::sync::mpsc;

use heddle_sql::{Connection, Sql, SqlState};
use heddledb::{Database, Durability, Options, ProtocolKind};

fn sql(protocol: ProtocolKind) -> Sql {
    let options = Options::default().protocol(protocol).durability(Durability::None);
    let sql = Sql::new(&Database::in_memory_with(options).expect("a database")).expect("SQL on a database");
    let definitions =
        "create table t (id int primary key, n int); insert into t values (1, 0); create table u (id int)";
    connect(&sql).query(definitions).expect("the definitions are right");
    sql
}

fn connect(sql: &Sql) -> Connection {
    sql.connect(Default::default()).expect("a connection")
}

fn run(connection: &mut Connection, text: &str) {
    connection.query(text).unwrap_or_else(|error| panic!("{text}: {error}"));
}

fn state(connection: &mut Connection, text: &str) -> SqlState {
    connection.query(text).expect_err(text).state()
}

#[test]
fn strong_locks_exclude_each_other_until_the_transaction_ends() {
    for &protocol in ProtocolKind::ALL {
        let sql = sql(protocol);
        let (mut one, mut other) = (connect(&sql), connect(&sql));
        run(&mut one, "begin; lock table t in share row exclusive mode");
        for mode in ["share", "share update exclusive", "exclusive", "access exclusive"] {
            let text = format!("begin; lock t in {mode} mode nowait");
            let error = other.query(&text).expect_err(&text);
            assert_eq!(error.state(), SqlState::LOCK_NOT_AVAILABLE, "{protocol:?}: {text}");
            assert_eq!(error.message(), "could not obtain lock on relation \"t\"");
            run(&mut other, "rollback");
        }
        // Another table, weak modes, and statements that read and write rows go on.
        run(&mut other, "begin; lock u; lock t in row exclusive mode; lock t in access share mode nowait");
        run(&mut other, "commit");
        run(&mut other, "update t set n = n + 1 where id = 1");
        run(&mut one, "lock t in exclusive mode; commit");
        run(&mut other, "begin; lock t nowait; commit");
    }
}

#[test]
fn a_waiting_lock_is_granted_when_the_other_transaction_ends() {
    for &protocol in ProtocolKind::ALL {
        let sql = sql(protocol);
        let mut one = connect(&sql);
        run(&mut one, "begin; lock t; update t set n = 5 where id = 1");
        let (sender, receiver) = mpsc::channel();
        std::thread::scope(|scope| {
            let mut other = connect(&sql);
            scope.spawn(move || {
                run(&mut other, "begin");
                sender.send(()).expect("it is received");
                run(&mut other, "lock t");
                // What the other transaction committed is seen, and changed without a conflict.
                run(&mut other, "update t set n = n + 1 where id = 1; commit");
            });
            receiver.recv().expect("it is sent");
            run(&mut one, "commit");
        });
        let found = one.query("select n from t where id = 1").expect("a row");
        assert_eq!(one.text_rows(&found[0]).expect("it prints"), [[Some("6".to_string())]], "{protocol:?}");
    }
}

#[test]
fn counters_under_a_lock_never_conflict() {
    let sql = sql(ProtocolKind::Optimistic);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            let mut connection = connect(&sql);
            scope.spawn(move || {
                for _ in 0..50 {
                    run(&mut connection, "begin; lock t in exclusive mode");
                    run(&mut connection, "select n from t where id = 1; update t set n = n + 1 where id = 1");
                    run(&mut connection, "commit");
                }
            });
        }
    });
    let mut connection = connect(&sql);
    let found = connection.query("select n from t").expect("a row");
    assert_eq!(connection.text_rows(&found[0]).expect("it prints"), [[Some("200".to_string())]]);
}

#[test]
fn a_locked_definition_stays() {
    let sql = sql(ProtocolKind::Optimistic);
    let (mut one, mut other) = (connect(&sql), connect(&sql));
    run(&mut one, "begin; lock t");
    run(&mut other, "set lock_timeout = '20ms'");
    assert_eq!(state(&mut other, "alter table t add column x int"), SqlState::LOCK_NOT_AVAILABLE);
    assert_eq!(state(&mut other, "begin; lock t"), SqlState::LOCK_NOT_AVAILABLE);
    run(&mut other, "rollback");
    run(&mut one, "commit");
    run(&mut other, "alter table t add column x int");
}

#[test]
fn savepoints_and_deadlocks() {
    let sql = sql(ProtocolKind::Optimistic);
    let (mut one, mut other) = (connect(&sql), connect(&sql));
    run(&mut one, "begin; lock t");
    let (sender, receiver) = mpsc::channel();
    let states: Vec<Option<SqlState>> = std::thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            run(&mut other, "begin; lock u");
            sender.send(()).expect("it is received");
            let ended = other.query("lock t").err().map(|error| error.state());
            other.query("rollback").expect("it ends");
            ended
        });
        receiver.recv().expect("it is sent");
        let ended = one.query("lock u").err().map(|error| error.state());
        one.query("rollback").expect("it ends");
        vec![ended, waiting.join().expect("no panic")]
    });
    let deadlocks = states.iter().flatten().filter(|state| **state == SqlState::DEADLOCK_DETECTED).count();
    assert_eq!((deadlocks, states.iter().flatten().count()), (1, 1), "{states:?}");
}

#[test]
fn what_cannot_be_locked_is_refused() {
    let sql = sql(ProtocolKind::Optimistic);
    let mut connection = connect(&sql);
    assert_eq!(state(&mut connection, "lock t"), SqlState::NO_ACTIVE_SQL_TRANSACTION);
    assert_eq!(state(&mut connection, "begin; lock nothing"), SqlState::UNDEFINED_TABLE);
    run(&mut connection, "rollback");
    assert_eq!(state(&mut connection, "lock t in no mode"), SqlState::SYNTAX_ERROR);
}
