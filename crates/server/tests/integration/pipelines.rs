//! Pipelines of the extended protocol: one transaction up to the Sync, answered at once, replayed after a conflict.

mod beside_postgres;

use crate::support;
use support::Running;
use support::wire::{Wire, bind, errors, execute, flush, message, parse, run, sync, tags};

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

fn query(text: &[u8]) -> Vec<u8> {
    message('Q', &[text, b"\0"].concat())
}

#[test]
fn answers_wait_only_for_a_unit_that_is_there_as_a_whole() {
    let (_running, mut wire) = start();
    let parsing = parse("", "SELECT 1");
    let close = message('C', b"S\0");
    for begun in [&parsing[..], &parsing[..8], &b"Q"[..], &close, &[flush(), parsing.clone()].concat()] {
        let rest = if begun == b"Q" { query(b"SELECT 2")[1..].to_vec() } else { Vec::new() };
        for unit in [query(b"SELECT 1"), [run("SELECT 1", &[]), sync()].concat(), query(b"nonsense")] {
            wire.send(&[&unit, begun].concat());
            assert!(tags(&wire.until_ready()).ends_with('Z'), "held back behind {begun:?}");
            let missing = if begun.len() == 8 { &parsing[8..] } else { &rest };
            wire.send(&[missing, &sync()].concat());
            while wire.until_ready().iter().any(|answer| answer.tag == 'T') {}
        }
    }
    assert_eq!(wire.value("SELECT 3"), "3");
}

#[test]
fn errors_and_notices_of_a_pipeline_do_not_wait_for_its_sync() {
    let (_running, mut wire) = start();
    wire.send(&run("SELECT 1 / 0", &[]));
    assert_eq!(errors(&wire.until('E')), ["22012"], "neither a Sync nor a Flush has come");
    assert_eq!(tags(&wire.ask(&sync())), "Z");
    wire.send(&run("DO $$ BEGIN RAISE NOTICE 'one'; END $$", &[]));
    assert_eq!(wire.until('N').last().and_then(|notice| notice.field('M')).as_deref(), Some("one"));
    assert_eq!(tags(&wire.ask(&sync())), "CZ");
}

#[test]
fn a_simple_query_ends_with_ready_whatever_is_wrong_with_it() {
    let (_running, mut wire) = start();
    for (body, code) in [
        (&b"SELECT '\xff'\0"[..], "22021"),
        (b"SELECT '\xc3('\0", "22021"),
        (b"SELECT 1", "08P01"),
        (b"", "08P01"),
        (b"SELECT 1\0more", "08P01"),
    ] {
        let answers = wire.ask(&message('Q', body));
        assert_eq!((tags(&answers), errors(&answers)), ("EZ".to_owned(), vec![code.to_owned()]), "{body:?}");
        wire.rows("BEGIN");
        let answers = wire.ask(&message('Q', body));
        assert_eq!(answers.last().map(|ready| ready.text()).as_deref(), Some("E"), "the block has failed");
        wire.rows("ROLLBACK");
    }
    let answers = wire.ask(&message('F', b"\0"));
    assert_eq!(tags(&answers), "EZ");
    let answers = wire.ask(&message('S', b"more"));
    assert_eq!((tags(&answers), errors(&answers)), ("EZ".to_owned(), vec!["08P01".to_owned()]));
    let answers = wire.ask(&[message('P', b"\0SELECT '\xff'\0\0\0"), query(b"SELECT 1"), sync()].concat());
    assert_eq!((tags(&answers), errors(&answers)), ("EZ".to_owned(), vec!["22021".to_owned()]));
}

#[test]
fn clients_that_ask_for_debug_messages_learn_of_implicit_indexes_and_sequences() {
    let (_running, mut wire) = start();
    wire.rows("SET client_min_messages = debug1");
    let mut messages = |statement: &str| -> Vec<String> {
        let answers = wire.ask(&query(statement.as_bytes()));
        assert!(errors(&answers).is_empty(), "{statement}");
        let notices = answers.iter().filter(|answer| answer.tag == 'N');
        notices
            .map(|it| format!("{} {}", it.field('S').unwrap_or_default(), it.field('M').unwrap_or_default()))
            .collect()
    };
    let sequence = |statement: &str, column: &str| {
        format!(
            "DEBUG {statement} will create implicit sequence \"n_{column}_seq\" for serial column \"n.{column}\""
        )
    };
    let index = |what: &str, name: &str| {
        format!("DEBUG {what} will create implicit index \"{name}\" for table \"n\"")
    };
    assert_eq!(
        messages(
            "CREATE TABLE n (id serial, b int GENERATED ALWAYS AS IDENTITY, PRIMARY KEY (id), UNIQUE (b, id))"
        ),
        [
            sequence("CREATE TABLE", "id"),
            sequence("CREATE TABLE", "b"),
            index("CREATE TABLE / PRIMARY KEY", "n_pkey"),
            index("CREATE TABLE / UNIQUE", "n_b_id_key"),
        ]
    );
    assert_eq!(messages("ALTER TABLE n ADD COLUMN c serial"), [sequence("ALTER TABLE", "c")]);
    assert_eq!(messages("ALTER TABLE n ADD UNIQUE (c)"), [index("ALTER TABLE / ADD UNIQUE", "n_c_key")]);
    assert_eq!(messages("SET client_min_messages = notice"), [""; 0]);
    assert_eq!(messages("CREATE TABLE m (id serial PRIMARY KEY)"), [""; 0]);
}

#[test]
fn errors_name_the_file_and_the_function_that_report_them_in_postgres() {
    let (_running, mut wire) = start();
    for (statement, file, routine) in [
        ("SELECT 'x'::int", "numutils.c", "pg_strtoint32"),
        ("SELECT 1 FROM missing", "parse_relation.c", "parserOpenTable"),
        ("INSERT INTO t VALUES (1), (1)", "nbtinsert.c", "_bt_check_unique"),
    ] {
        let answers = wire.ask(&query(statement.as_bytes()));
        let error = answers.iter().find(|answer| answer.tag == 'E').expect("an error");
        assert_eq!((error.field('F').as_deref(), error.field('R').as_deref()), (Some(file), Some(routine)));
    }
}

#[test]
fn the_time_of_a_statement_runs_while_its_client_is_silent_between_its_messages() {
    let (_running, mut wire) = start();
    wire.rows("SET statement_timeout = '2s'");
    let silent = std::time::Duration::from_millis(2_100);
    wire.send(&[parse("kept", "SELECT 7"), flush()].concat());
    assert_eq!(tags(&wire.until('1')), "1");
    std::thread::sleep(silent);
    let answers = wire.ask(&[message('D', b"Skept\0"), sync()].concat());
    assert_eq!((tags(&answers), errors(&answers)), ("EZ".to_owned(), vec!["57014".to_owned()]));
    // What was parsed in time is there. Between units no time runs.
    std::thread::sleep(silent);
    assert_eq!(tags(&wire.ask(&[bind("kept", &[]), execute(0), sync()].concat())), "2DCZ");
    wire.send(&[run("SELECT 8", &[]), flush()].concat());
    assert_eq!(tags(&wire.until('C')), "12DC");
    std::thread::sleep(silent);
    assert_eq!(
        tags(&wire.ask(&[run("SELECT 9", &[]), sync()].concat())),
        "12DCZ",
        "an Execute ends its unit"
    );
    assert_eq!(wire.value("SELECT 10"), "10");
}

#[test]
fn a_portal_that_has_given_all_rows_gives_none_and_its_tags_count_each_execution() {
    let (_running, mut wire) = start();
    wire.rows("INSERT INTO t SELECT generate_series(1, 3)");
    let pipeline = [
        parse("", "SELECT id FROM t ORDER BY id"),
        bind("", &[]),
        execute(2),
        execute(2),
        execute(2),
        execute(0),
        sync(),
    ];
    let answers = wire.ask(&pipeline.concat());
    assert_eq!(tags(&answers), "12DDsDCCCZ");
    let counts: Vec<String> =
        answers.iter().filter(|answer| answer.tag == 'C').map(|answer| answer.text()).collect();
    assert_eq!(counts, ["SELECT 1", "SELECT 0", "SELECT 0"]);
    let again = [parse("", "UPDATE t SET v = 1"), bind("", &[]), execute(0), execute(0), sync()];
    assert_eq!(errors(&wire.ask(&again.concat())), ["55000"], "nothing is written twice");
}

#[test]
fn an_error_in_a_constant_is_one_of_the_execution() {
    let (_running, mut wire) = start();
    let describe = message('D', b"S\0");
    let answers = wire.ask(&[parse("", "SELECT 1 / 0 AS x"), describe.clone(), sync()].concat());
    assert_eq!(tags(&answers), "1tTZ");
    let answers = wire.ask(&[bind("", &[]), execute(0), sync()].concat());
    assert_eq!(errors(&answers), ["22012"]);
    let answers =
        wire.ask(&[parse("", "SELECT CASE WHEN true THEN 1 ELSE 1 / 0 END"), describe, sync()].concat());
    assert_eq!(tags(&answers), "1tTZ");
    assert_eq!(tags(&wire.ask(&[bind("", &[]), execute(0), sync()].concat())), "2DCZ");
}

#[test]
fn texts_are_in_the_clients_encoding() {
    let (running, mut wire) = start();
    let mut other = Wire::connect(running.port());
    wire.rows("SET client_encoding = 'latin-1'");
    assert_eq!(wire.value("SHOW client_encoding"), "LATIN1");
    let answers = wire.ask(&query(b"SELECT '\xfc' AS \"\xe4\", length('\xfc\xdf')"));
    assert_eq!(answers[0].body[2..4], *b"\xe4\0");
    assert_eq!(answers[1].body, *b"\0\x02\0\0\0\x01\xfc\0\0\0\x012");
    let answers = wire.ask(&[message('P', b"\0SELECT $1 || '\xe4'::text\0\0\0"), sync()].concat());
    assert_eq!(tags(&answers), "1Z");
    let binding = message('B', b"\0\0\0\0\0\x01\0\0\0\x01\xfc\0\x01\0\x01");
    let answers = wire.ask(&[binding, execute(0), sync()].concat());
    assert_eq!(answers[1].body, *b"\0\x01\0\0\0\x02\xfc\xe4", "the binary form of a text is the text");
    let answers = wire.ask(&query("SELECT U&'\\20ac'".as_bytes()));
    assert_eq!(errors(&answers), ["22P05"]);
    let answers = wire.ask(&query(b"SELECT \xe4"));
    let message_text = answers[0].body.windows(3).any(|bytes| bytes == *b"\"\xe4\"");
    assert!(message_text, "an error's text is converted, too");
    wire.rows("CREATE TABLE texts (t text)");
    wire.send(&query(b"COPY texts FROM STDIN"));
    wire.until('G');
    let answers = wire.ask(&[message('d', b"\xfc\n"), message('c', b"")].concat());
    assert_eq!(errors(&answers), Vec::<String>::new());
    assert_eq!(other.value("SELECT t FROM texts"), "ü");
    let answers = wire.ask(&query(b"COPY texts TO STDOUT"));
    assert_eq!(answers[1].body, *b"\xfc\n");
    wire.rows("SET client_encoding = SQL_ASCII");
    assert_eq!(wire.value("SELECT t FROM texts"), "ü", "nothing is converted");
    wire.rows("SET client_encoding = SJIS");
    let answers = wire.ask(&query(b"SELECT '\x81"));
    assert_eq!(errors(&answers), ["22021"]);
    wire.rows("RESET client_encoding");
    assert_eq!(wire.value("SELECT 'ü'"), "ü");
}

#[test]
fn a_client_may_leave_before_it_has_begun() {
    let running = Running::start();
    let mut wire = Wire { socket: support::wire::open(running.port()) };
    wire.send(&message('X', b""));
    assert_eq!(wire.try_receive(), None, "no error is worth a word");
}
