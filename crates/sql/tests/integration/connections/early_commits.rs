//! Commits that return before the log has answered.

use heddle_sql::{Sql, SqlState, TransactionStatus};
use heddledb::{Database, Options};

use super::{connect, in_memory, rows, state};

#[test]
fn an_early_commit_ends_the_block_and_is_there_after_a_restart_once_it_completes() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("db");
    {
        let sql = Sql::new(&Database::open(&path, Options::default()).expect("opened")).expect("sql");
        let [mut one, mut other] = [connect(&sql), connect(&sql)];
        one.query("create table t (id int primary key, n int)").expect("made");
        let mut pending = Vec::new();
        for id in 1..=20 {
            one.query(&format!("begin; insert into t values ({id}, 0)")).expect("inserted");
            pending.extend(one.commit_early().expect("committed"));
            assert_eq!(one.status(), TransactionStatus::Idle);
            assert_eq!(rows(&mut other, "select count(*) from t"), [id.to_string()]);
        }
        assert_eq!(pending.len(), 20);
        pending.into_iter().for_each(|commit| commit.wait().expect("durable"));
    }
    let sql = Sql::new(&Database::open(&path, Options::default()).expect("opened")).expect("sql");
    assert_eq!(rows(&mut connect(&sql), "select count(*) from t"), ["20"]);
}

#[test]
fn what_cannot_return_early_has_waited() {
    let sql = in_memory();
    let [mut one, mut other] = [connect(&sql), connect(&sql)];
    assert!(one.commit_early().expect("nothing to commit").is_none());
    one.query("begin; create table t (id serial primary key, n int)").expect("made");
    assert!(one.commit_early().expect("committed").is_none());
    other.query("listen news").expect("listening");
    one.query("begin; insert into t (n) values (1); notify news, 'one'").expect("notified");
    assert!(one.commit_early().expect("committed").is_none());
    assert_eq!(other.take_notifications().len(), 1);
    one.query("begin; truncate t restart identity").expect("restarted");
    assert!(one.commit_early().expect("committed").is_none());
    // The next transaction may return early again.
    one.query("begin; insert into t (n) values (1)").expect("inserted");
    assert!(one.commit_early().expect("committed").is_some());
    assert_eq!(rows(&mut other, "select id from t"), ["1"]);
}

#[test]
fn an_early_commit_fails_as_commit_does() {
    let sql = in_memory();
    let [mut one, mut other] = [connect(&sql), connect(&sql)];
    one.query("create table t (id int primary key, n int references t deferrable initially deferred)")
        .expect("made");
    one.query("insert into t values (1, null), (2, null)").expect("filled");
    one.query("begin; insert into t values (3, 7)").expect("the key is checked at the end");
    assert_eq!(
        one.commit_early().map(|_| ()).map_err(|error| error.state()),
        Err(SqlState::FOREIGN_KEY_VIOLATION)
    );
    assert_eq!(one.status(), TransactionStatus::Idle);
    assert_eq!(state(&mut one, "begin; select 1 / 0"), SqlState::DIVISION_BY_ZERO);
    assert!(one.commit_early().expect("rolled back, as COMMIT does").is_none());
    one.query("begin; select n from t where id = 1").expect("read");
    other.query("update t set n = 2 where id = 1").expect("changed");
    let written = one.query("update t set n = 1 where id = 2").map(|_| ());
    let ended = written.and_then(|()| one.commit_early().map(|_| ()));
    assert_eq!(ended.map_err(|error| error.state()), Err(SqlState::SERIALIZATION_FAILURE));
    assert_eq!(rows(&mut other, "select count(*) from t where n = 1"), ["0"]);
}
