//! Sessions see and reach each other: LISTEN and NOTIFY, `pg_stat_activity`, cancellation and termination.

mod support;

use std::sync::mpsc;
use std::time::Duration;

use support::Running;
use support::wire::{Answer, Wire, errors, message, run, sync};

fn query(text: &str) -> Vec<u8> {
    message('Q', &[text.as_bytes(), b"\0"].concat())
}

/// Process, channel and payload of a NotificationResponse.
fn notification(answer: &Answer) -> (u32, String, String) {
    assert_eq!(answer.tag, 'A', "{answer:?}");
    let process = u32::from_be_bytes([answer.body[0], answer.body[1], answer.body[2], answer.body[3]]);
    let mut texts =
        answer.body[4..].split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
    (process, texts.next().unwrap_or_default(), texts.next().unwrap_or_default())
}

fn payloads(answers: &[Answer]) -> Vec<String> {
    answers.iter().filter(|answer| answer.tag == 'A').map(|answer| notification(answer).2).collect()
}

#[test]
fn a_listener_that_waits_hears_what_was_committed_in_its_order() {
    let running = Running::start();
    let (mut listener, mut sender) = (Wire::connect(running.port()), Wire::connect(running.port()));
    listener.rows("LISTEN news");
    let process: u32 = sender.value("SELECT pg_backend_pid()").parse().expect("a number");
    sender.rows("BEGIN");
    sender.rows("NOTIFY news, 'one'");
    sender.rows("NOTIFY other, 'unheard'");
    sender.rows("SAVEPOINT s");
    sender.rows("NOTIFY news, 'taken back'");
    sender.rows("ROLLBACK TO s");
    sender.rows("SELECT pg_notify('news', n) FROM (VALUES ('two'), ('one'), ('three')) AS v (n)");
    sender.rows("COMMIT");
    let heard: Vec<_> = (0..3).map(|_| notification(&listener.receive())).collect();
    let expected = ["one", "two", "three"].map(|text| (process, "news".to_owned(), text.to_owned()));
    assert_eq!(heard, expected);
    sender.rows("BEGIN; NOTIFY news, 'lost'; ROLLBACK");
    sender.rows("NOTIFY news");
    assert_eq!(notification(&listener.receive()).2, "", "what was rolled back is never delivered");
}

#[test]
fn notifications_wait_until_the_listener_is_between_transactions() {
    let running = Running::start();
    let (mut listener, mut sender) = (Wire::connect(running.port()), Wire::connect(running.port()));
    listener.rows("LISTEN a");
    listener.rows("BEGIN");
    sender.rows("NOTIFY a, 'later'");
    assert_eq!(payloads(&listener.ask(&query("SELECT 1"))), Vec::<String>::new());
    assert_eq!(payloads(&listener.ask(&query("COMMIT"))), ["later"], "before the ready of the commit");
    assert_eq!(payloads(&listener.ask(&query("NOTIFY a, 'own'"))), ["own"], "a session hears itself");
    let pipelined = listener.ask(&[run("NOTIFY a, 'p'", &[]), run("SELECT 1", &[]), sync()].concat());
    assert_eq!(payloads(&pipelined), ["p"]);
}

#[test]
fn listening_begins_and_ends_with_the_commit() {
    let running = Running::start();
    let mut wire = Wire::connect(running.port());
    wire.rows("BEGIN; LISTEN a; ROLLBACK");
    wire.rows("BEGIN; LISTEN b; LISTEN \"C d\"; COMMIT");
    let channels = "SELECT string_agg(c, ',' ORDER BY c) FROM pg_listening_channels() AS c";
    assert_eq!(wire.value(channels), "C d,b");
    wire.rows("UNLISTEN b");
    assert_eq!(wire.value(channels), "C d");
    wire.rows("UNLISTEN *");
    assert_eq!(wire.rows(channels), [[None]]);
    for (refused, code) in [
        ("SELECT pg_notify('', 'x')", "22023"),
        ("SELECT pg_notify(repeat('c', 64), 'x')", "22023"),
        ("SELECT pg_notify('c', repeat('x', 8000))", "22023"),
    ] {
        assert_eq!(errors(&wire.ask(&query(refused))), [code], "{refused}");
    }
}

#[test]
fn many_senders_are_heard_in_the_order_of_their_commits() {
    const SENDERS: u32 = 4;
    const MESSAGES: u32 = 30;
    let running = Running::start();
    let mut listener = Wire::connect(running.port());
    listener.rows("CREATE TABLE counter (id int PRIMARY KEY, v int)");
    listener.rows("INSERT INTO counter VALUES (1, 0)");
    listener.rows("LISTEN count");
    std::thread::scope(|scope| {
        for _ in 0..SENDERS {
            scope.spawn(|| {
                let mut wire = Wire::connect(running.port());
                let mut sent = 0;
                while sent < MESSAGES {
                    let bytes = [
                        query("BEGIN"),
                        query("UPDATE counter SET v = v + 1 WHERE id = 1"),
                        query("SELECT pg_notify('count', v::text) FROM counter WHERE id = 1"),
                        query("COMMIT"),
                    ];
                    let failed = bytes.iter().fold(false, |failed, bytes| {
                        let answers = wire.ask(bytes);
                        failed || answers.iter().any(|answer| answer.tag == 'E')
                    });
                    sent += u32::from(!failed);
                }
            });
        }
        let heard: Vec<u32> = (0..SENDERS * MESSAGES)
            .map(|_| notification(&listener.receive()).2.parse().expect("a number"))
            .collect();
        assert_eq!(heard, (1..=SENDERS * MESSAGES).collect::<Vec<_>>());
    });
}

#[test]
fn sessions_are_listed_with_what_they_do() {
    let running = Running::start();
    let (mut one, mut two) = (Wire::connect(running.port()), Wire::connect(running.port()));
    let process = two.value("SELECT pg_backend_pid()");
    let state = format!("SELECT state || ': ' || query FROM pg_stat_activity WHERE pid = {process}");
    two.rows("SET application_name = 'second'; SELECT 42");
    assert_eq!(one.value(&state), "idle: SET application_name = 'second'; SELECT 42");
    two.rows("BEGIN");
    assert_eq!(one.value(&state), "idle in transaction: BEGIN");
    two.ask(&query("SELECT 1/0"));
    assert_eq!(one.value(&state), "idle in transaction (aborted): SELECT 1/0");
    let name = format!("SELECT application_name FROM pg_stat_activity WHERE pid = {process}");
    assert_eq!(one.value(&name), "second");
    assert_eq!(two.value(&format!("ROLLBACK; {state}")).split(':').next(), Some("active"));
    two.rows("SELECT pg_advisory_lock(3, 4)");
    let locks = "SELECT locktype || mode || classid || objid || objsubid || granted FROM pg_locks";
    assert_eq!(one.value(locks), "advisoryExclusiveLock342true");
    drop(two);
    while one.value("SELECT count(*) FROM pg_stat_activity") != "1" {}
    assert_eq!(one.rows(locks), Vec::<Vec<_>>::new(), "they end with their session");
}

#[test]
fn a_statement_is_canceled_and_a_session_ended_by_another_session() {
    let running = Running::start();
    let (mut one, mut two) = (Wire::connect(running.port()), Wire::connect(running.port()));
    let process = two.value("SELECT pg_backend_pid()");
    let (sender, receiver) = mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        sender.send(()).expect("it is awaited");
        let canceled = errors(&two.ask(&query("SELECT pg_sleep(600)")));
        sender.send(()).expect("it is awaited");
        two.send(&query("SELECT pg_sleep(600)"));
        let fatal = two.receive();
        (canceled, fatal.field('C'), two.try_receive())
    });
    let running_state = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE pid = {process} AND state = 'active' AND query LIKE '%sleep%'"
    );
    for signal in ["pg_cancel_backend", "pg_terminate_backend"] {
        receiver.recv_timeout(Duration::from_secs(60)).expect("the session sleeps next");
        while one.value(&running_state) != "1" {}
        assert_eq!(one.value(&format!("SELECT {signal}({process})")), "t");
    }
    let (canceled, fatal, end) = sleeper.join().expect("it ends");
    assert_eq!((canceled, fatal, end), (vec!["57014".to_owned()], Some("57P01".to_owned()), None));
    assert_eq!(one.value("SELECT pg_cancel_backend(999999)"), "f");
    assert_eq!(one.value("SELECT pg_sleep(0) IS NULL"), "f");
}
