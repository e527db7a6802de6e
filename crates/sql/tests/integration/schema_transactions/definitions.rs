//! Definitions that change beside transactions: constraints hold for whatever was under way, changes that do not concern a
//! transaction leave it alone, and statements outside of blocks meet no conflict with a schema change.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use heddle_sql::{ConnectOptions, Connection, ResultSink, Sql, SqlError, SqlState, Value};
use heddledb::{Database, Durability, Error, Options, ProtocolKind, row};

use super::{connect, in_memory, rows, run, state};

const TABLES: &str = "create table t (id int primary key, v int, p int, check (id > 0));
    create table par (id int primary key)";

#[test]
fn an_open_block_does_not_commit_what_a_new_constraint_refuses() {
    for &protocol in ProtocolKind::ALL {
        let sql = in_memory(protocol);
        let (mut one, mut two) = (connect(&sql), connect(&sql));
        run(&mut one, TABLES);
        run(&mut two, "begin; insert into t values (1, -1, 77)");
        run(&mut one, "alter table t add constraint k check (v >= 0)");
        run(&mut one, "alter table t add constraint f foreign key (p) references par");
        assert_eq!(state(&mut two, "commit"), SqlState::SERIALIZATION_FAILURE, "{protocol}");
        assert_eq!(rows(&mut one, "select count(*) from t"), ["0"], "{protocol}");
        assert_eq!(state(&mut two, "insert into t values (1, -1, 77)"), SqlState::CHECK_VIOLATION);
        assert_eq!(state(&mut two, "insert into t values (1, 1, 77)"), SqlState::FOREIGN_KEY_VIOLATION);
    }
}

#[test]
fn sessions_of_the_engine_depend_on_the_rules_that_were_evaluated_for_them() {
    let changes = [
        "alter table t add constraint k check (v >= 0)",
        "alter table t add constraint f foreign key (p) references par",
        "create trigger fires before insert on t for each row execute function note()",
        "create or replace function positive(x int) returns bool language sql immutable as 'select x > 5'",
        "alter domain dom add check (value > 0)",
    ];
    for &protocol in ProtocolKind::ALL {
        for (number, change) in changes.iter().enumerate() {
            let sql = in_memory(protocol);
            let mut own = connect(&sql);
            run(
                &mut own,
                "create function positive(x int) returns bool language sql immutable as 'select true';
                 create domain dom as int;
                 create table par (id int primary key);
                 create function note() returns trigger language plpgsql as 'begin new.v := 7; return new; end';
                 create table t (id int primary key, v int, p int, d dom, check (positive(v)))",
            );
            let table = sql.database().table("t").expect("a table");
            let mut session = sql.database().session().expect("a session");
            session.begin().expect("begun");
            session.run(|tx| tx.insert(&table, row![1, -1, 77, -5])).expect("no rule refuses it");
            run(&mut own, change);
            assert_eq!(session.commit(), Err(Error::Conflict), "{protocol}, {change}");
            session.begin().expect("begun");
            session.run(|tx| tx.insert(&table, row![1, 9, 77, 5])).map_or_else(
                |error| assert!(number == 1 && error.sqlstate() == "23503", "{protocol}, {change}: {error}"),
                |()| assert!(number != 1, "{protocol}: an orphan"),
            );
            run(&mut own, "create view unrelated as select 1 as one");
            session.commit().expect("nothing that it depends on has changed");
        }
    }
}

/// Changes that concern no transaction that uses `t` as it was; `pg_temp` is the other session's own.
const UNRELATED: &[&str] = &[
    "create table other (id int primary key, v int)",
    "create temp table t (other int)",
    "drop table pg_temp.t",
    "create view w as select id from other",
    "create or replace view w as select id + 1 as id from other",
    "create function h(x int) returns int language sql as 'select x'",
    "create or replace function h(x int) returns int language sql as 'select x + 1'",
    "create schema side",
    "create role unrelated",
    "alter table other add column w int",
    "alter table other add check (v > 0)",
    "create index on other (v)",
    "comment on table t is 'about it'",
    "grant select on t to unrelated",
    "create domain d2 as int",
    "alter domain d2 add check (value > 0)",
    "drop table other cascade",
    "drop schema side",
    "revoke select on t from unrelated",
    "drop role unrelated",
];

#[test]
fn a_block_goes_on_beside_changes_that_do_not_concern_it() {
    for &protocol in ProtocolKind::ALL {
        let sql = in_memory(protocol);
        let (mut one, mut two) = (connect(&sql), connect(&sql));
        run(&mut one, TABLES);
        run(&mut one, "create function f(x int) returns int language plpgsql as 'begin return x + 1; end'");
        for (number, change) in UNRELATED.iter().enumerate() {
            run(&mut two, &format!("begin; insert into t values ({}, f(1), 1)", number + 1));
            run(&mut one, change);
            run(&mut two, "select * from par; select sum(f(v)) from t; commit");
        }
        run(&mut two, "begin; select count(*) from t");
        run(&mut one, "alter table par add column n int");
        run(&mut one, "create or replace function f(x int) returns int language sql as 'select x + 2'");
        assert_eq!(rows(&mut two, "select count(n), f(1) from par"), ["0 3"], "{protocol}: first used now");
        run(&mut one, "alter table t add column w int");
        assert!(two.query("commit").is_err(), "{protocol}: it has used the old table and the new function");
        run(&mut two, "begin; select count(*) from t");
        run(&mut one, "alter table t add column x int");
        assert!(two.query("commit").is_ok(), "{protocol}: what reads from a snapshot only does not fail");
    }
}

#[test]
fn a_lost_privilege_concerns_the_transactions_that_needed_one_of_its_role() {
    for &protocol in ProtocolKind::ALL {
        let sql = in_memory(protocol);
        let (mut one, mut two) = (connect(&sql), connect(&sql));
        run(&mut one, TABLES);
        run(
            &mut one,
            "create role keeper; create role other; create role reader; grant keeper to reader;
             grant insert on t to keeper, other; grant select (id) on t to reader, other",
        );
        run(&mut two, "set role reader; begin; insert into t values (1, 1, 1)");
        run(&mut one, "revoke insert on t from other; revoke select (id) on t from other");
        run(&mut two, "insert into t values (2, 1, 1); commit");
        run(&mut two, "begin; insert into t values (3, 1, 1)");
        run(&mut one, "revoke insert on t from keeper");
        assert_eq!(state(&mut two, "commit"), SqlState::SERIALIZATION_FAILURE, "{protocol}");
        assert_eq!(state(&mut two, "insert into t values (4, 1, 1)"), SqlState::INSUFFICIENT_PRIVILEGE);
        assert_eq!(rows(&mut one, "select id from t order by id"), ["1", "2"], "{protocol}");
    }
}

#[test]
fn a_lost_right_to_call_ends_the_transactions_that_called() {
    for &protocol in ProtocolKind::ALL {
        let sql = in_memory(protocol);
        let (mut one, mut two) = (connect(&sql), connect(&sql));
        run(&mut one, TABLES);
        run(
            &mut one,
            "create role reader; grant insert on t to reader;
             create function f(x int) returns int language plpgsql as 'begin return x + 1; end';
             create function g(x int) returns int language plpgsql as 'begin return f(x); end';
             revoke execute on function f(int) from public; grant execute on function f(int) to reader",
        );
        // The second transaction calls what the session has found to be callable before.
        run(&mut two, "set role reader; begin; insert into t values (g(1), 1, 1); commit");
        run(&mut two, "begin; insert into t values (g(2), 1, 1)");
        run(&mut one, "revoke execute on function f(int) from reader");
        assert_eq!(state(&mut two, "commit"), SqlState::SERIALIZATION_FAILURE, "{protocol}");
        assert_eq!(state(&mut two, "insert into t values (g(2), 1, 1)"), SqlState::INSUFFICIENT_PRIVILEGE);
    }
}

#[test]
fn what_only_reads_means_one_moment() {
    for &protocol in ProtocolKind::ALL {
        let sql = in_memory(protocol);
        let (mut one, mut two) = (connect(&sql), connect(&sql));
        run(
            &mut one,
            "create table facts (id int primary key, v int); insert into facts values (1, 1);
            create view doubled as select v * 2 as v from facts; create table other (id int primary key)",
        );
        run(&mut two, "begin; select * from facts");
        run(
            &mut one,
            "begin; create or replace view doubled as select v * 3 as v from facts;
            update facts set v = 10; commit",
        );
        assert_eq!(rows(&mut two, "select count(*) from other"), ["0"], "{protocol}");
        // Neither 2 nor 30: three times the old value.
        assert_eq!(state(&mut two, "select v from doubled"), SqlState::SERIALIZATION_FAILURE, "{protocol}");
        run(&mut two, "rollback");
        assert_eq!(rows(&mut two, "select v from doubled"), ["30"], "{protocol}");
    }
}

/// Ends the other threads also where this one panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Takes results and keeps none.
struct Ignored;

impl ResultSink for Ignored {
    fn row(&mut self, _: &[Value], _: &dyn heddle_sql::Environment) -> Result<(), SqlError> {
        Ok(())
    }
}

const CHANGES: &[&str] = &[
    "alter table t add constraint k check (v >= 0)",
    "alter table t drop constraint k",
    "create or replace function f(x int) returns int language sql as 'select x + 2'",
    "alter table t add column w int default 4",
    "alter table t drop column w",
    "create index k on t (v)",
    "drop index k",
    "create or replace view small as select id, v from t where v < 100",
    "create or replace view small as select id, v from t where v < 200",
    "create trigger k after update on t for each row execute function note()",
    "drop trigger k on t",
    "alter table t alter column x type bigint",
    "alter table t alter column x type int",
    "create temp table k (a int)",
    "drop table k",
    "grant select on t to beside; revoke select on t from beside",
];

/// One statement outside of blocks, in one of the ways in which clients run them.
fn beside(connection: &mut Connection, way: u64, number: u64) -> Result<(), SqlError> {
    let id = 1 + number % 8;
    let texts = [
        format!("update t set v = v + 1 where id = {id}"),
        format!("select id, v, x from t where id = {id}"),
        "select count(*), sum(v) from small".to_string(),
        format!("insert into t (id, v) values ({}, f(1))", 1_000 + way * 1_000_000 + number),
        format!("delete from t where id = {}", 1_000 + way * 1_000_000 + number - 1),
        "do 'begin update t set v = v + 0 where id = 1; end'".to_string(),
        "call touch()".to_string(),
    ];
    let text = &texts[(number % texts.len() as u64) as usize];
    if way.is_multiple_of(2) {
        return connection.simple_query(text, &mut Ignored);
    }
    connection.prepare("", text, &[])?;
    connection.bind("", "", Vec::new())?;
    connection.describe_portal("")?;
    connection.execute("", if number.is_multiple_of(3) { 5 } else { 0 }, &mut Ignored)
}

fn no_conflicts_beside_changes(protocol: ProtocolKind) {
    let options = Options::default().protocol(protocol).durability(Durability::None).workers(2);
    let sql = Sql::new(&Database::in_memory_with(options).expect("a database")).expect("SQL");
    let mut own = sql.connect(ConnectOptions::default()).expect("a connection");
    run(
        &mut own,
        "create role beside; create table t (id int primary key, v int, x int, check (id > 0));
         create function f(x int) returns int language sql as 'select x + 1';
         create function note() returns trigger language plpgsql as 'begin return new; end';
         create procedure touch() language plpgsql as 'begin perform f(1); update t set v = v where id = 2; end';
         create view small as select id, v from t where v < 100;
         insert into t select n, 0, n from generate_series(1, 8) n",
    );
    let (is_over, done) = (AtomicBool::new(false), [AtomicU64::new(0), AtomicU64::new(0)]);
    thread::scope(|scope| {
        for (way, done) in done.iter().enumerate() {
            let (mut connection, is_over) = (connect(&sql), &is_over);
            let way = way as u64;
            scope.spawn(move || {
                let _over = Over(is_over);
                let prepared = connection.prepared("select * from t where id = $1").expect("prepared");
                for number in 0.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let ran = beside(&mut connection, way, number);
                    let is_other_result =
                        |error: &SqlError| way % 2 == 1 && error.state() == SqlState::FEATURE_NOT_SUPPORTED;
                    let is_right = ran.as_ref().err().is_none_or(is_other_result);
                    assert!(is_right, "{protocol}, {way}, {number}: {ran:?}");
                    // Its result changes with the columns.
                    let ran = connection.run(&prepared, &[Value::Int4(1)], &mut |_| Ok(()));
                    if let Err(error) = ran {
                        assert_eq!(error.state(), SqlState::FEATURE_NOT_SUPPORTED, "{protocol}: {error}");
                    }
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let over = Over(&is_over);
        for change in CHANGES.iter().cycle().take(2 * CHANGES.len()) {
            let before = done.each_ref().map(|done| done.load(Ordering::Relaxed));
            run(&mut own, change);
            let is_waiting =
                || done.iter().zip(before).any(|(now, before)| now.load(Ordering::Relaxed) < before + 2);
            while is_waiting() && !over.0.load(Ordering::Relaxed) {
                thread::yield_now();
            }
        }
    });
    sql.database().check().expect("sound");
}

#[test]
fn statements_outside_of_blocks_meet_no_conflict_with_schema_changes() {
    ProtocolKind::ALL.iter().for_each(|&protocol| no_conflicts_beside_changes(protocol));
}

/// A closure that has written a row when a constraint comes that refuses it: either the closure is retried and refused, or the
/// change waits for it and is.
#[test]
fn a_closure_under_way_does_not_commit_what_a_new_constraint_refuses() {
    let changes = [
        "alter table t add constraint k check (v >= 0)",
        "alter table t add constraint f foreign key (p) references par",
        "create or replace function positive(x int) returns bool language sql immutable as 'select x > 0'",
    ];
    for &protocol in ProtocolKind::ALL {
        for change in changes {
            let options = Options::default().protocol(protocol).durability(Durability::None).workers(2);
            let sql = Sql::new(&Database::in_memory_with(options).expect("a database")).expect("SQL");
            let mut own = connect(&sql);
            run(
                &mut own,
                "create function positive(x int) returns bool language sql immutable as 'select true';
                 create table par (id int primary key);
                 create table t (id int primary key, v int, p int, check (positive(v)))",
            );
            let table = sql.database().table("t").expect("a table");
            let (has_begun, has_changed) = (AtomicBool::new(false), AtomicBool::new(false));
            let (written, changed) = thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    sql.database().run(|tx| {
                        let inserted = tx.insert(&table, row![1, -1, 77]);
                        has_begun.store(true, Ordering::Release);
                        // Where the change waits for the closure, the closure does not wait for long.
                        let until = Instant::now() + Duration::from_millis(200);
                        while !has_changed.load(Ordering::Acquire) && Instant::now() < until {
                            thread::yield_now();
                        }
                        inserted
                    })
                });
                while !has_begun.load(Ordering::Acquire) {
                    thread::yield_now();
                }
                let changed = own.query(change).map(|_| ());
                has_changed.store(true, Ordering::Release);
                (writer.join().expect("no panic"), changed)
            });
            let is_checked = change.starts_with("alter");
            assert!(written.is_err() || changed.is_err() || !is_checked, "{protocol}, {change}");
            // A check's function may change beneath rows; the closure that commits afterwards is refused.
            let refused = own.query("insert into t values (2, -1, 77)").map(|_| ());
            assert_eq!(refused.is_err(), changed.is_ok(), "{protocol}, {change}: {refused:?}");
        }
    }
}

#[test]
fn errors_name_the_function_that_clients_tell_them_apart_by() {
    let sql = in_memory(ProtocolKind::ALL[0]);
    let mut own = connect(&sql);
    run(&mut own, "create table t (id int primary key, v int check (v > 0)); prepare q as select * from t");
    run(&mut own, "alter table t add column w int");
    let mut routine = |text: &str| own.query(text).expect_err(text).routine();
    assert_eq!(routine("execute q"), Some("RevalidateCachedQuery"));
    assert_eq!(routine("insert into t values (1, 1), (1, 1)"), Some("_bt_check_unique"));
    assert_eq!(routine("insert into t values (1, 0)"), Some("ExecConstraints"));
    assert_eq!(routine("do 'begin raise unique_violation; end'"), Some("exec_stmt_raise"));
    assert_eq!(routine("select * from nothing"), Some("parserOpenTable"));
}
