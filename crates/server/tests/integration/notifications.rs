//! Sessions see and reach each other: LISTEN and NOTIFY, `pg_stat_activity`, cancellation and termination.

use std::sync::mpsc;
use std::time::Duration;

use crate::support;
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

#[test]
fn notices_arrive_while_their_statement_runs_and_ahead_of_its_end() {
    let running = Running::start();
    let mut wire = Wire::connect(running.port());
    wire.send(&query("DO $$ BEGIN RAISE NOTICE 'begun'; PERFORM pg_sleep(3600); END $$"));
    let notice = wire.receive();
    assert_eq!((notice.tag, notice.field('M').as_deref()), ('N', Some("begun")));
    let mut other = Wire::connect(running.port());
    other.rows("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE query LIKE 'DO%'");
    assert_eq!(errors(&wire.until_ready()), ["57014"]);
    let answers = wire.ask(&query("DO $$ BEGIN RAISE NOTICE 'one'; END $$; SELECT 1"));
    assert_eq!(support::wire::tags(&answers), "NCTDCZ");
    for (least, heard) in
        [("debug1", "dlinw"), ("log", "linw"), ("notice", "inw"), ("warning", "iw"), ("error", "i")]
    {
        wire.rows(&format!("SET client_min_messages = {least}"));
        let body = "RAISE DEBUG 'd'; RAISE LOG 'l'; RAISE INFO 'i'; RAISE NOTICE 'n'; RAISE WARNING 'w';";
        let answers = wire.ask(&query(&format!("DO $$ BEGIN {body} END $$")));
        let texts: String =
            answers.iter().filter(|it| it.tag == 'N').filter_map(|it| it.field('M')).collect();
        assert_eq!(texts, heard, "{least}");
        let answers = wire.ask(&query("DROP TABLE IF EXISTS missing; COMMIT"));
        let count = answers.iter().filter(|it| it.tag == 'N').count();
        let expected = match least {
            "error" => 0,
            "warning" => 1,
            _ => 2,
        };
        assert_eq!(count, expected, "{least} holds for the statements' own notices");
    }
    let answers =
        wire.ask(&query("DO $$ BEGIN PERFORM set_config('client_min_messages', 'notice', false); RAISE NOTICE 'set inside'; END $$"));
    assert_eq!(support::wire::tags(&answers), "NCZ");
}

#[test]
fn what_a_session_gathers_counts_in_the_memory_of_statements() {
    let running = Running::with("work_mem_bytes = 1048576\ntotal_work_mem_bytes = 33554432");
    let mut wire = Wire::connect(running.port());
    for body in [
        "PERFORM pg_notify('c', i || repeat('x', 7000))",
        "PERFORM set_config('my.name' || i, repeat('x', 7000), false)",
        "PERFORM set_config('my.name', repeat('x', 7000), true)",
    ] {
        let text = format!("DO $$ DECLARE i int := 0; BEGIN LOOP i := i + 1; {body}; END LOOP; END $$");
        assert_eq!(errors(&wire.ask(&query(&text))), ["53200"], "{body}");
        assert_eq!(wire.value("SELECT 1"), "1");
    }
    wire.rows("SET statement_timeout = '2s'");
    let text = "DO $$ BEGIN LOOP RAISE NOTICE '%', repeat('x', 7000); END LOOP; END $$";
    assert_eq!(errors(&wire.ask(&query(text))), ["57014"], "notices leave as they arise");
}

#[test]
fn many_notifications_of_a_statement_take_no_longer_for_each_of_them() {
    let running = Running::start();
    let mut wire = Wire::connect(running.port());
    wire.rows("SET statement_timeout = '60s'");
    let count = wire
        .value("SELECT count(*) FROM (SELECT pg_notify('c', g::text) FROM generate_series(1, 80000) g) q");
    assert_eq!(count, "80000");
}

#[test]
fn notifications_arrive_in_the_order_in_which_transactions_depend_on_each_other() {
    const THREADS: usize = 4;
    const TRANSACTIONS: usize = 100;
    let running = Running::start();
    let mut listener = Wire::connect(running.port());
    listener.rows("CREATE TABLE counter (id int PRIMARY KEY, n int)");
    listener.rows("INSERT INTO counter VALUES (1, 0)");
    listener.rows(
        "CREATE FUNCTION count_up() RETURNS void LANGUAGE plpgsql AS $$ DECLARE v int; BEGIN
         UPDATE counter SET n = n + 1 WHERE id = 1 RETURNING n INTO v; PERFORM pg_notify('c', v::text); END $$",
    );
    listener.rows("LISTEN c");
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let port = running.port();
            scope.spawn(move || {
                let mut wire = Wire::connect(port);
                for round in 0..TRANSACTIONS {
                    let text = match (number + round) % 2 {
                        0 => "SELECT count_up()",
                        _ => "BEGIN; SELECT count_up(); COMMIT",
                    };
                    // In a block, a conflict is the client's to repeat.
                    while !errors(&wire.ask(&query(text))).is_empty() {
                        wire.rows("ROLLBACK");
                    }
                }
            });
        }
    });
    let heard: Vec<String> =
        (0..THREADS * TRANSACTIONS).map(|_| notification(&listener.receive()).2).collect();
    let expected: Vec<String> = (1..=THREADS * TRANSACTIONS).map(|number| number.to_string()).collect();
    assert_eq!(heard, expected);
}

#[test]
fn the_statement_of_a_client_that_is_gone_ends() {
    let running = Running::start();
    let mut wire = Wire::connect(running.port());
    let waiting = |wire: &mut Wire| {
        wire.value("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'")
    };
    for text in ["SELECT pg_sleep(3600)", "SELECT pg_sleep(3600), 'in a pipeline'"] {
        let mut leaving = Wire::connect(running.port());
        let bytes = if text.contains("pipeline") { [run(text, &[]), sync()].concat() } else { query(text) };
        leaving.send(&bytes);
        while waiting(&mut wire) == "0" {}
        drop(leaving);
        while waiting(&mut wire) != "0" {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
