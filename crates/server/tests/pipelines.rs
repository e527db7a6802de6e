//! Pipelines of the extended protocol: one transaction up to the Sync, answered at once, replayed after a conflict.

mod support;

use support::Running;
use support::wire::{Wire, bind, errors, execute, flush, parse, run, sync, tags};

const TABLE: &str = "CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL DEFAULT 0)";

fn start() -> (Running, Wire) {
    let running = Running::start();
    let mut wire = Wire::connect(running.port());
    wire.rows(TABLE);
    (running, wire)
}

fn insert(id: u32) -> Vec<u8> {
    run("INSERT INTO t (id) VALUES ($1)", &[&id.to_string()])
}

#[test]
fn all_up_to_the_sync_is_one_transaction() {
    let (running, mut wire) = start();
    let mut other = Wire::connect(running.port());
    wire.send(&[insert(1), flush()].concat());
    assert_eq!(tags(&wire.until('C')), "12C", "a flush asks for the answers so far");
    assert_eq!(other.value("SELECT count(*) FROM t"), "0", "nothing is committed before the sync");
    let answers = wire.ask(&[insert(2), sync()].concat());
    assert_eq!((tags(&answers), answers[3].text()), ("12CZ".to_owned(), "I".to_owned()));
    assert_eq!(other.value("SELECT count(*) FROM t"), "2");
}

#[test]
fn an_error_takes_the_pipeline_back_and_skips_to_the_sync() {
    let (_running, mut wire) = start();
    let pipeline = [insert(1), insert(1), insert(2), parse("", "nonsense"), sync()].concat();
    let answers = wire.ask(&pipeline);
    assert_eq!((tags(&answers), errors(&answers)), ("12C12EZ".to_owned(), vec!["23505".to_owned()]));
    assert_eq!(wire.value("SELECT count(*) FROM t"), "0");
    let answers = wire.ask(&[insert(3), sync(), insert(3), sync(), insert(4), sync()].concat());
    assert_eq!(tags(&answers), "12CZ", "the first of three pipelines");
    assert_eq!(tags(&wire.until_ready()), "12EZ");
    assert_eq!(tags(&wire.until_ready()), "12CZ");
    assert_eq!(wire.value("SELECT string_agg(id::text, ',' ORDER BY id) FROM t"), "3,4");
}

#[test]
fn an_execute_that_comes_alone_waits_for_its_sync() {
    let (running, mut wire) = start();
    let bytes = [insert(1), sync()].concat();
    for byte in &bytes {
        wire.send(std::slice::from_ref(byte));
    }
    assert_eq!(tags(&wire.until_ready()), "12CZ");
    wire.send(&insert(2));
    drop(wire);
    let mut other = Wire::connect(running.port());
    assert_eq!(
        other.value("SELECT count(*) FROM t"),
        "1",
        "a client that leaves before the sync commits nothing"
    );
}

#[test]
fn begin_and_commit_within_a_pipeline_end_its_own_transaction() {
    let (_running, mut wire) = start();
    let pipeline =
        [insert(1), run("BEGIN", &[]), insert(2), run("COMMIT", &[]), insert(3), insert(3), sync()].concat();
    assert_eq!(errors(&wire.ask(&pipeline)), ["23505"]);
    assert_eq!(wire.value("SELECT string_agg(id::text, ',' ORDER BY id) FROM t"), "1,2");
    let answers = wire.ask(&[insert(4), run("BEGIN", &[]), insert(5), sync()].concat());
    assert_eq!(answers.last().map(|ready| ready.text()), Some("T".to_owned()));
    let answers = wire.ask(&[insert(5), sync()].concat());
    assert_eq!(answers.last().map(|ready| ready.text()), Some("E".to_owned()));
    wire.rows("ROLLBACK");
    assert_eq!(wire.value("SELECT count(*) FROM t"), "2");
}

#[test]
fn a_conflict_replays_the_pipeline_of_which_nothing_was_sent() {
    let (running, mut wire) = start();
    let mut rival = Wire::connect(running.port());
    rival.rows("INSERT INTO t VALUES (1, 1)");
    rival.rows("SELECT pg_advisory_lock(7)");
    wire.send(
        &[
            run("SELECT v, pg_advisory_xact_lock(8) FROM t WHERE id = 1", &[]),
            parse("update", "UPDATE t SET v = v + $1 WHERE id = 1"),
            run("SELECT pg_advisory_xact_lock(7)", &[]),
            bind("update", &["5"]),
            execute(0),
            sync(),
        ]
        .concat(),
    );
    // The pipeline has read the row once it holds this lock, and waits for the other.
    while rival.value("SELECT pg_try_advisory_lock_shared(8)") == "t" {
        rival.rows("SELECT pg_advisory_unlock_shared(8)");
    }
    rival.rows("UPDATE t SET v = 10 WHERE id = 1");
    rival.rows("SELECT pg_advisory_unlock(7)");
    let answers = wire.until_ready();
    assert_eq!((tags(&answers), errors(&answers)), ("12DC112DC2CZ".to_owned(), vec![]));
    assert_eq!(answers[2].values()[0].as_deref(), Some("10"), "the answers are those of the last attempt");
    assert_eq!(rival.value("SELECT v FROM t WHERE id = 1"), "15");
}

#[test]
fn a_conflict_is_an_error_once_an_answer_was_sent() {
    let (running, mut wire) = start();
    let mut rival = Wire::connect(running.port());
    rival.rows("INSERT INTO t VALUES (1, 1)");
    wire.send(&[run("SELECT v FROM t WHERE id = 1", &[]), flush()].concat());
    assert_eq!(tags(&wire.until('C')), "12DC");
    rival.rows("UPDATE t SET v = 10 WHERE id = 1");
    let answers = wire.ask(&[run("UPDATE t SET v = v + 5 WHERE id = 1", &[]), sync()].concat());
    assert_eq!(errors(&answers), ["40001"]);
    assert_eq!(rival.value("SELECT v FROM t WHERE id = 1"), "10");
}

#[test]
fn pipelines_that_meet_in_opposite_order_all_commit() {
    const THREADS: u32 = 6;
    const PIPELINES: u32 = 40;
    let (running, mut wire) = start();
    wire.rows("INSERT INTO t VALUES (0), (1)");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let port = running.port();
            scope.spawn(move || {
                let mut wire = Wire::connect(port);
                for round in 0..PIPELINES {
                    let first = (thread + round) % 2;
                    let update = |id: u32| run("UPDATE t SET v = v + 1 WHERE id = $1", &[&id.to_string()]);
                    let read = run("SELECT sum(v) FROM t", &[]);
                    let answers =
                        wire.ask(&[update(first), read.clone(), update(1 - first), sync()].concat());
                    assert_eq!(errors(&answers), Vec::<String>::new());
                }
            });
        }
    });
    let expected = (THREADS * PIPELINES).to_string();
    assert_eq!(wire.rows("SELECT v FROM t ORDER BY id"), [[Some(expected.clone())], [Some(expected)]]);
}

#[test]
fn a_pipeline_larger_than_what_can_be_replayed_is_still_one_transaction() {
    let (_running, mut wire) = start();
    let rows: Vec<u8> = (0..8_000).flat_map(insert).collect();
    let mut reader = Wire { socket: wire.socket.try_clone().expect("a descriptor") };
    let receiver = std::thread::spawn(move || reader.until_ready());
    wire.send(&[rows, insert(7_999), sync()].concat());
    assert_eq!(errors(&receiver.join().expect("it reads")), ["23505"]);
    assert_eq!(wire.value("SELECT count(*) FROM t"), "0");
}

#[test]
fn a_row_limit_suspends_a_portal_within_the_pipeline() {
    let (_running, mut wire) = start();
    wire.rows("INSERT INTO t SELECT generate_series(1, 5)");
    let answers = wire.ask(
        &[
            parse("", "SELECT id FROM t ORDER BY id"),
            bind("", &[]),
            execute(2),
            execute(2),
            execute(2),
            sync(),
        ]
        .concat(),
    );
    assert_eq!(tags(&answers), "12DDsDDsDCZ");
    let gone = wire.ask(&[execute(0), sync()].concat());
    assert_eq!(errors(&gone), ["34000"], "portals end with the transaction");
}

#[test]
fn no_text_has_the_character_zero() {
    let (_running, mut wire) = start();
    for query in ["SELECT $1::text", "SELECT $1::varchar", "SELECT $1::json", "SELECT $1::text[]"] {
        let answers = wire.ask(&[run(query, &["{a\0b}"]), sync()].concat());
        assert_eq!(errors(&answers), ["22021"], "{query}");
    }
}
