//! Tests of how SQL steers what is split, and reports the rows that are written most: `heddle.split`, `heddle_split`,
//! `heddle_hot_rows`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use heddle_sql::{Connection, Sql};
use heddledb::{Database, Options, PhasedOptions, ProtocolKind};

use super::{admin, connect, number, open, rows};

/// More statements than any decision of the engine takes.
const STATEMENTS_MAX: usize = 2_000_000;

fn run(connection: &mut Connection, text: &str) {
    connection.query(text).unwrap_or_else(|error| panic!("{text}: {error}"));
}

/// The SQLSTATE, the message and the detail of a statement that fails.
fn refused(connection: &mut Connection, text: &str) -> (String, String, String) {
    let error = connection.query(text).map(drop).expect_err(text);
    (
        error.state().as_str().to_owned(),
        error.message().to_owned(),
        error.detail().unwrap_or_default().to_owned(),
    )
}

fn phased() -> Sql {
    open(Options::default().protocol(PhasedOptions::default().phase_milliseconds(2.0)))
}

/// Runs statements until a query answers this.
fn run_until(connection: &mut Connection, statement: &str, query: &str, expected: &[&[&str]]) {
    for number in 0..STATEMENTS_MAX {
        run(connection, statement);
        if number % 64 == 0 && rows(connection, query) == expected {
            return;
        }
    }
    panic!("{query} stays {:?}", rows(connection, query));
}

const OPTIONS: &str = "SELECT attname, attoptions FROM pg_attribute WHERE attrelid = 't'::regclass AND attoptions IS NOT NULL ORDER BY 1";

#[test]
fn the_setting_of_a_column_is_kept_with_its_definition() {
    let folder = tempfile::tempdir().expect("a folder");
    let open = || {
        let options = Options::default().protocol(ProtocolKind::Phased);
        Sql::new(&Database::open(folder.path().join("db"), options).expect("it opens")).expect("a catalog")
    };
    {
        let sql = open();
        let mut connection = admin(&sql);
        run(&mut connection, "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, m int NOT NULL, k int)");
        run(&mut connection, "ALTER TABLE t ALTER COLUMN n SET (heddle.split = always, n_distinct = 5)");
        run(&mut connection, "ALTER TABLE t ALTER m SET (heddle.split = 'NEVER')");
        run(
            &mut connection,
            "ALTER TABLE t ALTER k SET (heddle.split = never), ALTER k RESET (heddle.split)",
        );
        run(&mut connection, "BEGIN; ALTER TABLE t ALTER k SET (heddle.split = always); ROLLBACK");
        run(&mut connection, "ALTER TABLE t RENAME COLUMN m TO o");
        drop(connection);
        let database = sql.database().clone();
        drop(sql);
        database.close().expect("it closes");
    }
    let sql = open();
    let mut connection = admin(&sql);
    let kept = [["n", "{n_distinct=5,heddle.split=always}"], ["o", "{heddle.split=NEVER}"]];
    let found = rows(&mut connection, OPTIONS);
    assert!(
        found == kept
            || found == [["n", "{heddle.split=always,n_distinct=5}"], ["o", "{heddle.split=NEVER}"]],
        "{found:?}"
    );
    let table = sql.database().table("t").expect("it is there");
    let policy = |column| sql.database().split_policy(&table, column).expect("a column").name();
    assert_eq!(["id", "n", "o", "k"].map(policy), ["auto", "always", "never", "auto"]);
    run(&mut connection, "ALTER TABLE t ALTER n TYPE bigint");
    let table = sql.database().table("t").expect("it is there");
    let policy = |column| sql.database().split_policy(&table, column).expect("a column").name();
    assert_eq!(["n", "o", "k"].map(policy), ["always", "never", "auto"], "the rows were copied");
    run(&mut connection, "ALTER TABLE t ALTER n RESET (heddle.split), ALTER o SET (heddle.split = auto)");
    let table = sql.database().table("t").expect("it is there");
    let policy = |column| sql.database().split_policy(&table, column).expect("a column").name();
    assert_eq!(["n", "o", "k"].map(policy), ["auto", "auto", "auto"]);
}

#[test]
fn wrong_settings_and_labels_are_refused() {
    let sql = phased();
    let mut connection = admin(&sql);
    run(
        &mut connection,
        "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, f float8 NOT NULL, name text);
         CREATE TABLE pair (a int, b text, n int NOT NULL, PRIMARY KEY (a, b)); CREATE TABLE heap (n int NOT NULL);
         CREATE VIEW v AS SELECT * FROM t; ALTER TABLE pair ALTER n SET (heddle.split = never)",
    );
    let value = refused(&mut connection, "ALTER TABLE t ALTER n SET (heddle.split = often)");
    assert_eq!(value.0, "22023");
    assert_eq!(value.1, "invalid value for enum option \"heddle.split\": often");
    assert_eq!(value.2, "Valid values are \"auto\", \"always\", and \"never\".");
    let name = refused(&mut connection, "ALTER TABLE t ALTER n SET (heddle.spilt = always)");
    assert_eq!((name.0.as_str(), name.1.as_str()), ("22023", "unrecognized parameter \"heddle.spilt\""));
    for (statement, state) in [
        ("ALTER TABLE t ALTER zz SET (heddle.split = always)", "42703"),
        ("SELECT heddle_split('t', 1, 'zz', 'add')", "42703"),
        ("SELECT heddle_split('zz', 1, 'n', 'add')", "42P01"),
        ("SELECT heddle_split('v', 1, 'n', 'add')", "42809"),
        ("SELECT heddle_split('heap', 1, 'n', 'add')", "42809"),
        ("SELECT heddle_split('t', 1, 'n', 'subtract')", "22023"),
        ("SELECT heddle_split('t', 'one', 'n', 'add')", "22P02"),
        ("SELECT heddle_split('t', ROW(1, 2), 'n', 'add')", "22023"),
        ("SELECT heddle_split('pair', 1, 'n', 'add')", "22023"),
        ("SELECT heddle_split('pair', ROW(1, NULL), 'n', 'add')", "22023"),
        ("SELECT heddle_split('pair', ROW(1, 'x'), 'n', 'add')", "55000"),
    ] {
        assert_eq!(refused(&mut connection, statement).0, state, "{statement}");
    }
    for statement in ["SELECT heddle_split('t', 1, 'f', 'add')", "SELECT heddle_split('t', 1, 'id', 'add')"] {
        let (state, ..) = refused(&mut connection, statement);
        assert!(state.starts_with("22") || state.starts_with("42"), "{statement}: {state}");
    }
    run(
        &mut connection,
        "SELECT heddle_split('t', NULL::int, 'n', 'add'), heddle_split('t', '7', 'n', 'max')",
    );
    let mut bob = connect(&sql, "bob", false);
    for statement in [
        "SELECT heddle_split('t', 1, 'n', 'add')",
        "SELECT heddle_unsplit('t', 1, 'n')",
        "ALTER TABLE t ALTER n SET (heddle.split = always)",
    ] {
        assert_eq!(refused(&mut bob, statement).0, "42501", "{statement}");
    }
}

#[test]
fn labels_of_rows_split_them_until_they_are_taken_away() {
    let sql = phased();
    let mut connection = admin(&sql);
    run(
        &mut connection,
        "CREATE TABLE pair (a int, b text, n int NOT NULL, PRIMARY KEY (a, b)); INSERT INTO pair VALUES (1, 'x', 0)",
    );
    run(&mut connection, "SELECT heddle_split('pair', ROW(1, 'x'), 'n', 'add')");
    let split = "SELECT table_name, column_name, operation, is_split OR phases > 0 FROM heddle_split_columns";
    let update = "UPDATE pair SET n = n + 1 WHERE a = 1 AND b = 'x'";
    run_until(&mut connection, update, split, &[&["pair", "n", "add", "t"]]);
    run(&mut connection, "SELECT heddle_unsplit('pair', ROW(1, 'x'), 'n')");
    let choices = "SELECT new_choice, why FROM heddle_choices WHERE what = 'pair.n' ORDER BY second";
    run_until(
        &mut connection,
        update,
        choices,
        &[&["split for add", "it was labelled"], &["joined", "its label was removed"]],
    );
    run_until(&mut connection, update, "SELECT count(*) FROM heddle_split_columns WHERE is_split", &[&["0"]]);
}

#[test]
fn rows_of_a_column_that_is_always_split_are_split_where_operations_meet_them() {
    let sql = phased();
    let mut connection = admin(&sql);
    run(
        &mut connection,
        "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, m int NOT NULL); INSERT INTO t VALUES (1, 0, 0), (2, 0, 0), (3, 0, 0);
         ALTER TABLE t ALTER n SET (heddle.split = always), ALTER m SET (heddle.split = never)",
    );
    let split =
        "SELECT row_key, column_name, operation, phases > 0 FROM heddle_split_columns ORDER BY row_key";
    let update =
        "UPDATE t SET n = n + 1, m = m + 1 WHERE id = 1; UPDATE t SET n = GREATEST(n, 5) WHERE id = 3";
    run_until(&mut connection, update, split, &[&["1", "n", "add", "t"], &["3", "n", "max", "t"]]);
    let sums = rows(&mut connection, "SELECT n = m, n > 0 FROM t WHERE id = 1");
    assert_eq!(sums, [["t", "t"]]);
    let why = "SELECT DISTINCT why FROM heddle_choices WHERE new_choice LIKE 'split%'";
    assert_eq!(rows(&mut connection, why), [["it is set to be always split"]]);
    run(&mut connection, "ALTER TABLE t ALTER n SET (heddle.split = never)");
    run_until(
        &mut connection,
        update,
        "SELECT DISTINCT new_choice FROM heddle_choices WHERE what = 't.n' AND why LIKE '%never%'",
        &[&["joined"]],
    );
    run_until(&mut connection, update, "SELECT count(*) FROM heddle_split_columns WHERE is_split", &[&["0"]]);
    assert_eq!(rows(&mut connection, "SELECT n = m FROM t WHERE id = 1"), [["t"]]);
}

/// pgbench's transaction.
fn tpc_b(connection: &mut Connection, random: &mut u64) -> bool {
    let mut next = |bound: u64| {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*random >> 33) % bound
    };
    let (account, teller, delta) = (1 + next(50), 1 + next(10), next(10_001) as i64 - 5_000);
    let block = format!(
        "BEGIN; UPDATE pgbench_accounts SET abalance = abalance + {delta} WHERE aid = {account};
         SELECT abalance FROM pgbench_accounts WHERE aid = {account};
         UPDATE pgbench_tellers SET tbalance = tbalance + {delta} WHERE tid = {teller};
         UPDATE pgbench_branches SET bbalance = bbalance + {delta} WHERE bid = 1;
         INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) VALUES ({teller}, 1, {account}, {delta}, CURRENT_TIMESTAMP); END"
    );
    match connection.query(&block) {
        Ok(_) => true,
        Err(error) => {
            assert!(error.is_retryable(), "{error}");
            run(connection, "ROLLBACK");
            false
        }
    }
}

#[test]
fn tpc_b_with_columns_that_are_always_split_is_exact() {
    let sql = phased();
    let mut connection = admin(&sql);
    run(
        &mut connection,
        "CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84));
         CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84));
         CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88));
         CREATE TABLE pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
         INSERT INTO pgbench_accounts SELECT g, 1, 0, '' FROM generate_series(1, 50) g;
         INSERT INTO pgbench_tellers SELECT g, 1, 0, '' FROM generate_series(1, 10) g;
         INSERT INTO pgbench_branches VALUES (1, 0, '');
         ALTER TABLE pgbench_branches ALTER bbalance SET (heddle.split = always);
         ALTER TABLE pgbench_tellers ALTER tbalance SET (heddle.split = always)",
    );
    let split =
        "SELECT DISTINCT table_name, column_name FROM heddle_split_columns WHERE phases > 0 ORDER BY 1";
    let expected = [["pgbench_branches", "bbalance"], ["pgbench_tellers", "tbalance"]];
    let (are_split, committed) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (sql, are_split, committed) = (&sql, &are_split, &committed);
            scope.spawn(move || {
                let (mut connection, mut random) = (admin(sql), thread);
                for number in 0..STATEMENTS_MAX {
                    if tpc_b(&mut connection, &mut random) {
                        committed.fetch_add(1, Ordering::Relaxed);
                    }
                    let is_first = thread == 0 && number % 16 == 0;
                    if is_first && rows(&mut connection, split) == expected {
                        are_split.store(true, Ordering::Relaxed);
                    }
                    if number >= 200 && are_split.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
        }
    });
    assert_eq!(rows(&mut connection, split), expected);
    let sums = rows(
        &mut connection,
        "SELECT (SELECT sum(delta) FROM pgbench_history) = sum(bbalance), (SELECT sum(tbalance) FROM pgbench_tellers) = sum(bbalance),
             (SELECT sum(abalance) FROM pgbench_accounts) = sum(bbalance), (SELECT count(*) FROM pgbench_history)
         FROM pgbench_branches",
    );
    let count = committed.into_inner().to_string();
    assert_eq!(sums, [["t", "t", "t", count.as_str()]]);
}

#[test]
fn the_rows_that_are_written_most_come_first() {
    let sql = open(Options::default().protocol(ProtocolKind::Optimistic));
    let mut connection = admin(&sql);
    run(
        &mut connection,
        "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL); INSERT INTO t SELECT g, 0 FROM generate_series(1, 40) g",
    );
    for number in 0..4_000 {
        run(&mut connection, &format!("UPDATE t SET n = n + 1 WHERE id = {}", 1 + number % 40));
        run(&mut connection, "UPDATE t SET n = n + 1 WHERE id = 17");
    }
    let hot = "SELECT table_name, row_key, sampled_writes > 2000, conflicts, waits, waiting_sessions, treatment FROM heddle_hot_rows LIMIT 1";
    assert_eq!(rows(&mut connection, hot), [["t", "17", "t", "0", "0", "0", "none"]]);
    let others =
        number(&mut connection, "SELECT max(sampled_writes) FROM heddle_hot_rows WHERE row_key <> '17'");
    assert!(others < 2_000, "{others}");
    let own = "SELECT count(*) FROM heddle_hot_rows WHERE table_name LIKE 'sql.%'";
    assert_eq!(number(&mut connection, own), 0, "definitions are not listed");
}

#[test]
fn waits_for_a_row_are_counted() {
    let sql = open(Options::default());
    let (mut holder, mut watcher) = (admin(&sql), admin(&sql));
    run(&mut holder, "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)");
    run(&mut holder, "BEGIN; SELECT * FROM t FOR UPDATE");
    let waits = "SELECT waits, waiting_sessions, treatment FROM heddle_hot_rows WHERE waits > 0";
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| admin(&sql).query("SELECT * FROM t FOR UPDATE").map(drop));
        super::wait_for(&mut watcher, waits, &[&["1", "1", "queue"]]);
        run(&mut holder, "COMMIT");
        waiting.join().expect("no panic").expect("it was its turn");
    });
    assert_eq!(rows(&mut watcher, waits), [["1", "0", "none"]]);
}

/// The number of times that transactions waited for the end of a split phase.
fn stashed(connection: &mut Connection) -> i64 {
    number(connection, "SELECT value FROM heddle_stats WHERE name = 'stashed'")
}

#[test]
fn returning_columns_that_are_not_split_waits_for_nothing() {
    // The phase ends early, when all wait for its end.
    let sql = open(Options::default().protocol(PhasedOptions::default().phase_milliseconds(10_000.0)));
    let mut connection = admin(&sql);
    run(
        &mut connection,
        "CREATE TABLE item (id int PRIMARY KEY, sold int NOT NULL, stock int NOT NULL, name text); INSERT INTO item VALUES (1, 0, 9000, 'pen');
         SELECT heddle_split('item', 1, 'sold', 'add'), heddle_split('item', 1, 'stock', 'add')",
    );
    let are_split = "SELECT count(*) FROM heddle_split_columns WHERE is_split";
    run_until(
        &mut connection,
        "UPDATE item SET sold = sold + 1, stock = stock - 1 WHERE id = 1",
        are_split,
        &[&["2"]],
    );
    let before = stashed(&mut connection);
    let returned = rows(
        &mut connection,
        "UPDATE item SET sold = sold + 1, stock = stock - 1 WHERE id = 1 RETURNING id, name",
    );
    assert_eq!(returned, [["1", "pen"]]);
    assert_eq!(
        rows(&mut connection, "SELECT name FROM item"),
        [["pen"]],
        "nor does a read of another column"
    );
    assert_eq!(
        (stashed(&mut connection), rows(&mut connection, are_split)),
        (before, vec![vec!["2".to_owned()]])
    );
    let returned =
        rows(&mut connection, "UPDATE item SET sold = sold + 1 WHERE id = 1 RETURNING sold + stock");
    assert_eq!(returned, [["9001"]]);
    assert!(stashed(&mut connection) > before, "the values are read");
}

#[test]
fn bids_that_lose_are_answered_within_the_split_phase_and_those_that_may_win_after_it() {
    // The phase ends early, when all wait for its end.
    let sql = open(Options::default().protocol(PhasedOptions::default().phase_milliseconds(10_000.0)));
    let mut connection = admin(&sql);
    run(
        &mut connection,
        "CREATE TABLE best (id int PRIMARY KEY, bid int NOT NULL, bidder text); INSERT INTO best VALUES (1, 100, 'ada');
         SELECT heddle_split('best', 1, 'bid', 'max')",
    );
    let is_split = "SELECT count(*) FROM heddle_split_columns WHERE is_split";
    run_until(&mut connection, "UPDATE best SET bid = GREATEST(bid, 90) WHERE id = 1", is_split, &[&["1"]]);
    let before = stashed(&mut connection);
    let update = "UPDATE best SET bid = 99, bidder = 'bob' WHERE id = 1 AND bid < 99";
    let upsert = |bid: i64| {
        format!(
            "INSERT INTO best VALUES (1, {bid}, 'bob') ON CONFLICT (id) DO UPDATE SET bid = excluded.bid, bidder = excluded.bidder
             WHERE best.bid < excluded.bid"
        )
    };
    for losing in [update.to_owned(), upsert(99), upsert(100)] {
        let results = connection.query(&losing).unwrap_or_else(|error| panic!("{losing}: {error}"));
        assert!(results[0].tag.ends_with(" 0"), "{losing}: {}", results[0].tag);
    }
    assert_eq!(rows(&mut connection, is_split), [["1"]], "no phase has ended");
    assert_eq!(stashed(&mut connection), before);
    let results = connection.query(&upsert(101)).expect("it wins");
    assert_eq!(results[0].tag, "INSERT 0 1");
    assert!(stashed(&mut connection) > before, "who wins waits for the value");
    assert_eq!(rows(&mut connection, "SELECT bid, bidder FROM best"), [["101", "bob"]]);
    let results = connection.query(&upsert(101)).expect("it loses");
    assert_eq!(results[0].tag, "INSERT 0 0");
}
