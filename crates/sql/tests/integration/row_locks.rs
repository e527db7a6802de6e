//! Tests of reserved rows through the public interface: FOR UPDATE and its kin, job queues, hot counters, and statements
//! that meet a row which another connection has reserved.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

use heddle_sql::{Connection, Sql, SqlState};
use heddledb::{Database, Durability, Options, ProtocolKind, SplitOperation};

fn sql(protocol: ProtocolKind) -> Sql {
    let options = Options::default().protocol(protocol).durability(Durability::None);
    Sql::new(&Database::in_memory_with(options).expect("a database in memory"))
        .expect("SQL on an empty database")
}

fn connect(sql: &Sql) -> Connection {
    sql.connect(Default::default()).expect("a connection")
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

fn state(connection: &mut Connection, text: &str) -> SqlState {
    connection.query(text).expect_err(text).state()
}

/// A table of jobs with these numbers.
fn with_jobs(sql: &Sql, count: usize) -> Connection {
    let mut connection = connect(sql);
    connection
        .query(&format!(
            "create table job (id int primary key, state text not null, n bigint not null default 0);
             insert into job select n, 'new' from generate_series(1, {count}) n"
        ))
        .expect("the definitions are right");
    connection
}

#[test]
fn rows_of_others_are_refused_or_passed_by() {
    for &protocol in ProtocolKind::ALL {
        let sql = sql(protocol);
        let (mut first, mut second) = (with_jobs(&sql, 4), connect(&sql));
        assert_eq!(rows(&mut first, "begin; select id from job where id = 1 for update"), ["1"]);
        assert_eq!(
            rows(&mut second, "begin; select id from job order by id for no key update skip locked limit 2"),
            ["2", "3"],
            "{protocol:?}"
        );
        assert_eq!(
            rows(&mut first, "select id from job order by id desc limit 2 for update skip locked"),
            ["4", "1"]
        );
        let error =
            first.query("select id from job where id = 2 for share nowait").expect_err("it is reserved");
        assert_eq!(error.state(), SqlState::LOCK_NOT_AVAILABLE);
        assert_eq!(error.message(), "could not obtain lock on row in relation \"job\"");
        first.query("rollback").expect("it ends");
        assert_eq!(rows(&mut second, "select id from job where id = 1 for update nowait"), ["1"]);
        second.query("commit").expect("it ends");
        assert_eq!(rows(&mut first, "select count(*) from job"), ["4"]);
    }
}

#[test]
fn only_as_many_rows_are_reserved_as_the_limit_asks_for() {
    let sql = sql(ProtocolKind::Optimistic);
    let (mut first, mut second) = (with_jobs(&sql, 5), connect(&sql));
    assert_eq!(rows(&mut first, "begin; select id from job order by id limit 1 offset 1 for update"), ["2"]);
    assert_eq!(rows(&mut second, "select id from job order by id for update skip locked"), ["3", "4", "5"]);
    first.query("rollback").expect("it ends");
    // Of a join, of the table that is named only; of a query in FROM, of its tables.
    let text = "begin; select j.id from job j join job k on k.id = j.id + 1 where j.id = 1 for update of k";
    assert_eq!(rows(&mut first, text), ["1"]);
    assert_eq!(
        rows(&mut second, "select id from job order by id for update skip locked"),
        ["1", "3", "4", "5"]
    );
    assert_eq!(rows(&mut first, "select id from (select id from job where id > 4) x for update"), ["5"]);
    assert_eq!(rows(&mut second, "select id from job order by id for update skip locked"), ["1", "3", "4"]);
    first.query("rollback").expect("it ends");
    // What others may do beside it is decided by the commit: FOR KEY SHARE reserves nothing.
    assert_eq!(rows(&mut first, "begin; select id from job where id = 1 for key share"), ["1"]);
    assert_eq!(rows(&mut second, "select id from job where id = 1 for update nowait"), ["1"]);
    first.query("commit").expect("it ends");
}

#[test]
fn tables_without_a_key_and_missing_sides_of_joins_work() {
    let sql = sql(ProtocolKind::Phased);
    let (mut first, mut second) = (connect(&sql), connect(&sql));
    first.query("create table t (a int); insert into t values (1), (2)").expect("the definitions are right");
    assert_eq!(rows(&mut first, "begin; select a from t where a = 1 for update"), ["1"]);
    assert_eq!(rows(&mut second, "select a from t for update skip locked"), ["2"]);
    first.query("commit").expect("it ends");
    let text = "select x.a, y.a from t x left join t y on y.a = x.a + 1 order by 1 for update of x";
    assert_eq!(rows(&mut second, text), ["1 2", "2 NULL"]);
    assert_eq!(
        state(&mut second, "begin read only; select a from t for update"),
        SqlState::READ_ONLY_SQL_TRANSACTION
    );
}

/// Has a statement run on another thread. It answers when the connection is at it, and again when it is done.
fn beside<'s>(
    scope: &'s std::thread::Scope<'s, '_>,
    mut connection: Connection,
    text: &'s str,
) -> mpsc::Receiver<Result<Connection, SqlState>> {
    let (done, receiver) = mpsc::channel();
    scope.spawn(move || {
        let ran = connection.query(text).map_err(|error| error.state());
        done.send(ran.map(|_| connection)).expect("somebody waits");
    });
    receiver
}

#[test]
fn statements_queue_behind_a_reserved_row() {
    for &protocol in ProtocolKind::ALL {
        for text in [
            "update job set n = n + 10 where id = 1",
            "update job set n = 11 where id = 1",
            "update job set n = n / 2 + 11 where id = 1",
            "begin; update job set n = 11 where id = 1; commit",
            "begin; select n from job where id = 1 for update; update job set n = n + 10 where id = 1; commit",
        ] {
            let sql = sql(protocol);
            let (mut first, second) = (with_jobs(&sql, 2), connect(&sql));
            first.query("begin; select n from job where id = 1 for update").expect("it is free");
            std::thread::scope(|scope| {
                let done = beside(scope, second, text);
                // It may not be done while the row is reserved, however long that is.
                assert!(done.recv_timeout(std::time::Duration::from_millis(30)).is_err(), "{text}");
                first
                    .query("update job set n = 1 where id = 1; commit")
                    .expect("no other can have changed it");
                done.recv().expect("it ends").expect("it only had to wait");
            });
            assert_eq!(rows(&mut first, "select n from job where id = 1"), ["11"], "{protocol:?}: {text}");
        }
    }
}

#[test]
fn an_update_reserves_its_row_to_the_end_of_the_block() {
    for &protocol in ProtocolKind::ALL {
        for text in ["update job set n = 5 where id = 1", "update job set n = n / 2 + 5 where id = 1"] {
            let sql = sql(protocol);
            let (mut first, mut second) = (with_jobs(&sql, 2), connect(&sql));
            first.query(&format!("begin; {text}")).expect("it is free");
            assert_eq!(
                rows(&mut second, "select id from job order by id for update skip locked"),
                ["2"],
                "{text}"
            );
            first.query("savepoint s; update job set n = 7 where id = 2").expect("it is free");
            assert_eq!(rows(&mut second, "select id from job for update skip locked"), [""; 0]);
            first.query("rollback to s").expect("there is one");
            assert_eq!(rows(&mut second, "select id from job for update skip locked"), ["2"], "{protocol:?}");
            first.query("commit").expect("no other has changed it");
        }
    }
}

#[test]
fn a_job_queue_hands_out_every_job_once() {
    const JOBS: usize = 400;
    const WORKERS: usize = 8;
    for protocol in [ProtocolKind::Optimistic, ProtocolKind::Phased, ProtocolKind::Serial] {
        let sql = sql(protocol);
        let mut connection = with_jobs(&sql, JOBS);
        let (given, conflicts) = (Mutex::new(Vec::new()), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..WORKERS {
                let mut worker = connect(&sql);
                let (given, conflicts) = (&given, &conflicts);
                scope.spawn(move || {
                    loop {
                        let text = "begin; select id from job where state = 'new' order by id limit 1 for update skip locked";
                        let found = rows(&mut worker, text);
                        let Some(id) = found.first() else { break };
                        let text = format!("update job set state = 'done' where id = {id}; commit");
                        match worker.query(&text) {
                            Ok(_) => given.lock().expect("no thread has panicked").push(id.clone()),
                            Err(error) => {
                                assert_eq!(error.state(), SqlState::SERIALIZATION_FAILURE, "{error}");
                                worker.query("rollback").expect("it ends");
                                conflicts.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    }
                    worker.query("rollback").expect("it ends");
                });
            }
        });
        let given = given.into_inner().expect("no thread has panicked");
        assert_eq!(
            given.iter().collect::<HashSet<_>>().len(),
            given.len(),
            "{protocol:?}: a job was given twice"
        );
        assert_eq!(rows(&mut connection, "select count(*) from job where state = 'new'"), ["0"]);
        assert_eq!(given.len(), JOBS, "{protocol:?}");
        let conflicts = conflicts.into_inner();
        assert!(conflicts <= JOBS as u64 / 20, "{protocol:?}: {conflicts} conflicts");
    }
}

#[test]
fn a_job_queue_of_single_statements_hands_out_every_job_once() {
    const JOBS: usize = 200;
    for protocol in [ProtocolKind::Optimistic, ProtocolKind::Phased] {
        let sql = sql(protocol);
        drop(with_jobs(&sql, JOBS));
        let given = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..8 {
                let (mut worker, given) = (connect(&sql), &given);
                scope.spawn(move || {
                    let text = "delete from job where id = (select id from job order by id for update skip locked limit 1)
                         returning id";
                    while let Some(id) = rows(&mut worker, text).first() {
                        given.lock().expect("no thread has panicked").push(id.clone());
                    }
                });
            }
        });
        let given = given.into_inner().expect("no thread has panicked");
        assert_eq!((given.len(), given.iter().collect::<HashSet<_>>().len()), (JOBS, JOBS), "{protocol:?}");
    }
}

#[test]
fn a_hot_counter_aborts_no_attempt() {
    const ROUNDS: i64 = 300;
    for &protocol in ProtocolKind::ALL {
        let sql = sql(protocol);
        let mut connection = connect(&sql);
        connection
            .query(
                "create table c (id int primary key, n bigint not null, d numeric(12, 2) not null, top int not null);
                 insert into c values (1, 0, 0, 0)",
            )
            .expect("the definitions are right");
        let before = sql.database().statistics();
        std::thread::scope(|scope| {
            for number in 0..8 {
                let mut worker = connect(&sql);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let text = match round % 4 {
                            0 => "update c set n = n + 1 where id = 1".to_string(),
                            1 => "update c set d = d + 0.25 where id = 1".to_string(),
                            2 => format!(
                                "update c set top = greatest(top, {}) where id = 1",
                                number * 1_000 + round
                            ),
                            _ => "insert into c values (1, 1, 0, 0)
                                  on conflict (id) do update set n = c.n + excluded.n"
                                .to_string(),
                        };
                        worker.query(&text).expect("operations never fail");
                    }
                });
            }
        });
        let after = sql.database().statistics();
        assert_eq!(after.aborted - before.aborted, 0, "{protocol:?}");
        let expected = format!("{} {}.00 {}", 8 * ROUNDS / 2, 8 * ROUNDS / 16, 7 * 1_000 + ROUNDS - 2);
        assert_eq!(rows(&mut connection, "select n, d, top from c"), [expected], "{protocol:?}");
    }
}

#[test]
fn phased_splits_a_hot_counter_of_updates() {
    let sql = sql(ProtocolKind::Phased);
    let mut connection = connect(&sql);
    connection
        .query("create table c (id int primary key, n bigint not null); insert into c values (1, 0)")
        .expect("the definitions are right");
    let database = sql.database();
    let table = database.table("c").expect("it is there");
    database.split(&table, heddledb::key![1], "n", SplitOperation::ADD).expect("a column that can be split");
    let (done, added) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            let (mut worker, done, added) = (connect(&sql), &done, &added);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    worker.query("update c set n = n + 1 where id = 1").expect("operations never fail");
                    added.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // Updates go on for as long as it takes to split the column twice.
        while !database.phases().is_some_and(|report| report.columns.iter().any(|column| column.phases >= 2))
        {
            std::thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
    });
    let added = added.into_inner();
    assert_eq!(rows(&mut connection, "select n from c"), [added.to_string()]);
    assert_eq!(database.statistics().aborted, 0, "no update conflicts");
}
