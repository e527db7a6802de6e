//! Tests of the reports for operators: statistics, contended rows, locks with waiters, statements by their
//! texts.

mod form_table;
mod forms;
mod hot_rounds;
mod leaderboards;
mod row_triggers;
mod split_settings;
mod system_settings;

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use heddle_sql::{ConnectOptions, Connection, Environment, ResultSink, Sql, SqlError, StatisticKind, Value};
use heddledb::{Database, Durability, Options, PartitionedOptions, ProtocolKind, SplitOperation, key};

fn open(options: Options) -> Sql {
    let db = Database::in_memory_with(options.durability(Durability::None)).expect("options are right");
    Sql::new(&db).expect("the catalog can be made")
}

/// A session of a superuser, or of a role that may read and write all tables.
fn connect(sql: &Sql, user: &str, is_superuser: bool) -> Connection {
    if !is_superuser && sql.login_role(user).is_none() {
        let role = format!("create role {user} login in role pg_read_all_data, pg_write_all_data");
        admin(sql).query(&role).expect("a new role");
    }
    let options = ConnectOptions { user: user.to_owned(), is_superuser, ..ConnectOptions::default() };
    sql.connect(options).expect("it is open")
}

fn admin(sql: &Sql) -> Connection {
    connect(sql, "admin", true)
}

/// All rows of a query, NULL as an empty text.
fn rows(connection: &mut Connection, text: &str) -> Vec<Vec<String>> {
    let results = connection.query(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let rows = connection.text_rows(results.last().expect("a result")).expect("rows");
    rows.into_iter().map(|row| row.into_iter().map(Option::unwrap_or_default).collect()).collect()
}

fn number(connection: &mut Connection, text: &str) -> i64 {
    rows(connection, text)[0][0].parse().unwrap_or_else(|_| panic!("{text} is no number"))
}

/// Repeats a query until it answers this.
fn wait_for(connection: &mut Connection, text: &str, expected: &[&[&str]]) {
    for _ in 0..60_000 {
        if rows(connection, text) == expected {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{text} stays {:?}", rows(connection, text));
}

#[test]
fn statements_are_counted_by_their_texts_without_constants() {
    let sql = open(Options::default());
    let mut connection = admin(&sql);
    connection.query("CREATE TABLE t (id int PRIMARY KEY, name text)").expect("created");
    for id in 0..5 {
        connection.query(&format!("INSERT INTO t VALUES ({id}, 'canary {id}')")).expect("inserted");
    }
    for _ in 0..3 {
        connection.query("SELECT id, upper('canary') FROM t WHERE id < 4 ORDER BY 1 LIMIT 2").expect("read");
    }
    connection.prepare("get", "SELECT name FROM t WHERE id = $1", &[]).expect("prepared");
    for id in 0..4 {
        connection.bind("", "get", vec![Value::Int4(id)]).expect("bound");
        connection.execute("", 0, &mut Discard).expect("run");
    }
    assert!(connection.query("SELECT * FROM t WHERE id = 1 / 0").is_err(), "a failed call does not count");
    connection.query("BEGIN; UPDATE t SET name = 'canary'; COMMIT").expect("run");
    let counted = rows(
        &mut connection,
        "SELECT query, calls, rows FROM pg_stat_statements WHERE query LIKE '%t%' AND query NOT LIKE '%stat%' ORDER BY 1",
    );
    let expected = [
        ["BEGIN", "1", "0"],
        ["CREATE TABLE t (id int PRIMARY KEY, name text)", "1", "0"],
        ["INSERT INTO t VALUES ($1, $2)", "5", "5"],
        ["SELECT id, upper($2) FROM t WHERE id < $1 ORDER BY $3 LIMIT $4", "3", "6"],
        ["SELECT name FROM t WHERE id = $1", "4", "4"],
        ["UPDATE t SET name = $1", "1", "5"],
    ];
    assert_eq!(counted, expected[1..].iter().map(|row| row.map(str::to_owned).to_vec()).collect::<Vec<_>>());
    assert_eq!(number(&mut connection, "SELECT calls FROM pg_stat_statements WHERE query = 'BEGIN'"), 1);
    let times = "SELECT count(*) FROM pg_stat_statements WHERE min_exec_time <= mean_exec_time \
                 AND mean_exec_time <= max_exec_time AND max_exec_time <= total_exec_time AND min_exec_time > 0";
    let all = number(&mut connection, "SELECT count(*) FROM pg_stat_statements");
    assert_eq!(number(&mut connection, times), all + 1, "by now the count is a statement, too");
    assert_eq!(
        number(&mut connection, "SELECT count(*) FROM pg_stat_statements WHERE query LIKE '%canary%'"),
        0
    );
}

/// Takes results and drops them.
struct Discard;

impl ResultSink for Discard {
    fn row(&mut self, _: &[Value], _: &dyn Environment) -> Result<(), SqlError> {
        Ok(())
    }
}

#[test]
fn other_users_see_neither_texts_nor_keys() {
    let sql = open(Options::default());
    let (mut admin, mut bob) = (admin(&sql), connect(&sql, "bob", false));
    admin.query("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)").expect("made");
    admin.query("GRANT SELECT, UPDATE ON t TO bob").expect("granted");
    bob.query("SELECT 1").expect("run");
    let seen = rows(&mut bob, "SELECT DISTINCT usename, query FROM pg_stat_statements ORDER BY 1, 2");
    assert_eq!(seen, [["admin", "<insufficient privilege>"], ["bob", "SELECT $1"]]);
    admin.query("BEGIN; SELECT * FROM t FOR UPDATE").expect("reserved");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut waiter = connect(&sql, "bob", false);
            waiter.query("SELECT * FROM t FOR UPDATE").map(drop)
        });
        wait_for(
            &mut bob,
            "SELECT table_name, row_key, waiting_sessions FROM heddle_hot_rows WHERE waiting_sessions > 0",
            &[&["t", "", "1"]],
        );
        let key = rows(&mut admin, "SELECT row_key FROM heddle_hot_rows WHERE waiting_sessions > 0");
        assert_eq!(key.len(), 1);
        assert!(key[0][0].contains('1'), "{key:?}");
        admin.query("COMMIT").expect("released");
        waiting.join().expect("no panic").expect("it was its turn");
    });
}

#[test]
fn rows_that_sessions_hold_and_wait_for_are_listed_in_order() {
    let sql = open(Options::default());
    let (mut watcher, mut holder) = (admin(&sql), admin(&sql));
    watcher.query("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)").expect("made");
    let locks = "SELECT locktype, relation::regclass, pid, granted FROM pg_locks WHERE locktype = 'tuple' ORDER BY granted DESC";
    assert!(rows(&mut watcher, locks).is_empty());
    let held = number(&mut holder, "SELECT pg_backend_pid()").to_string();
    holder.query("BEGIN; SELECT * FROM t WHERE id = 1 FOR UPDATE").expect("reserved");
    let (sender, process) = channel();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut waiter = admin(&sql);
            let _ = sender.send(number(&mut waiter, "SELECT pg_backend_pid()").to_string());
            waiter.query("UPDATE t SET n = n + 1 WHERE id = 1").map(drop)
        });
        let waits = process.recv().expect("it has started");
        wait_for(&mut watcher, locks, &[&["tuple", "t", &held, "t"], &["tuple", "t", &waits, "f"]]);
        let blocked = format!(
            "SELECT wait_event_type, wait_event, pg_blocking_pids(pid) FROM pg_stat_activity WHERE pid = {waits}"
        );
        wait_for(&mut watcher, &blocked, &[&["Lock", "tuple", &format!("{{{held}}}")]]);
        let unblocked = format!("SELECT pg_blocking_pids({held})");
        assert_eq!(rows(&mut watcher, &unblocked), [["{}"]]);
        let treatment =
            "SELECT table_name, waiting_sessions, treatment FROM heddle_hot_rows WHERE waiting_sessions > 0";
        assert_eq!(rows(&mut watcher, treatment), [["t", "1", "queue"]]);
        holder.query("COMMIT").expect("released");
        waiting.join().expect("no panic").expect("it was its turn");
    });
    assert!(rows(&mut watcher, locks).is_empty());
    holder.query("BEGIN; ALTER TABLE t ADD COLUMN extra int").expect("changed");
    let schema = "SELECT locktype, pid, granted FROM pg_locks WHERE locktype = 'object'";
    assert_eq!(rows(&mut watcher, schema), [["object", held.as_str(), "t"]]);
    holder.query("ROLLBACK").expect("rolled back");
}

#[test]
fn sessions_that_wait_for_advisory_locks_are_listed_with_their_blockers() {
    let sql = open(Options::default());
    let (mut watcher, mut first, mut second) = (admin(&sql), admin(&sql), admin(&sql));
    let [one, other] = [&mut first, &mut second].map(|holder| {
        holder.query("SELECT pg_advisory_lock_shared(7)").expect("free");
        number(holder, "SELECT pg_backend_pid()")
    });
    let (sender, process) = channel();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let mut waiter = admin(&sql);
            let _ = sender.send(number(&mut waiter, "SELECT pg_backend_pid()"));
            waiter.query("SELECT pg_advisory_lock(7)").map(drop)
        });
        let waits = process.recv().expect("it has started");
        let (low, high) = (one.min(other), one.max(other));
        let blocked = format!("SELECT pg_blocking_pids({waits})");
        wait_for(&mut watcher, &blocked, &[&[&format!("{{{low},{high}}}")]]);
        let locks = "SELECT mode, granted, count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 7 \
                     GROUP BY mode, granted ORDER BY granted";
        assert_eq!(rows(&mut watcher, locks), [["ExclusiveLock", "f", "1"], ["ShareLock", "t", "2"]]);
        first.query("SELECT pg_advisory_unlock_shared(7)").expect("held");
        wait_for(&mut watcher, &blocked, &[&[&format!("{{{other}}}")]]);
        watcher.query(&format!("SELECT pg_cancel_backend({waits})")).expect("it is there");
        let error = waiting.join().expect("no panic").expect_err("canceled");
        assert_eq!(error.state().as_str(), "57014");
    });
    let waiters = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    assert_eq!(number(&mut watcher, waiters), 0, "a canceled waiter is not listed any more");
}

#[test]
fn statistics_of_tables_follow_their_rows() {
    let sql = open(Options::default());
    let mut connection = admin(&sql);
    connection
        .query(
            "CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int); CREATE VIEW v AS SELECT 1 AS one",
        )
        .expect("made");
    connection
        .query("INSERT INTO t SELECT generate_series(1, 100); DELETE FROM t WHERE id > 60")
        .expect("run");
    let counted = "SELECT relname, n_live_tup, idx_scan, seq_scan FROM pg_stat_user_tables ORDER BY relname";
    assert_eq!(rows(&mut connection, counted), [["t", "60", "0", "0"], ["u", "0", "", "0"]]);
    let listed = "SELECT count(*) FROM pg_stat_all_tables WHERE relname IN ('t', 'pg_class', 'v')";
    assert_eq!(number(&mut connection, listed), 2, "tables, and no views");
    assert_eq!(number(&mut connection, "SELECT count(*) FROM pg_stat_sys_tables WHERE relname = 't'"), 0);
    let committed = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
    let before = number(&mut connection, committed);
    connection.query("INSERT INTO t VALUES (1000)").expect("run");
    assert!(number(&mut connection, committed) > before);
    let error = connection.query("SELECT pg_is_wal_replay_paused()").expect_err("nothing is replayed");
    assert_eq!(error.state().as_str(), "55000");
}

#[test]
fn a_superuser_resets_the_statistics_of_statements() {
    let sql = open(Options::default());
    let (mut ada, mut superuser) = (connect(&sql, "ada", false), admin(&sql));
    let error = ada.query("SELECT pg_stat_statements_reset()").expect_err("refused");
    assert_eq!(error.state().as_str(), "42501");
    for connection in [&mut ada, &mut superuser] {
        connection.query("SELECT 41 + 1").expect("run");
    }
    let calls = "SELECT r.rolname, calls FROM pg_stat_statements s JOIN pg_roles r ON r.oid = s.userid \
                 WHERE query = 'SELECT $1 + $2' ORDER BY 1";
    assert_eq!(rows(&mut superuser, calls), [["ada", "1"], ["admin", "1"]]);
    superuser.query("SELECT pg_stat_statements_reset('ada'::regrole, 0, 0)").expect("may");
    assert_eq!(rows(&mut superuser, calls), [["admin", "1"]]);
    ada.query("SELECT 41 + 1").expect("run");
    assert_eq!(rows(&mut superuser, calls), [["ada", "1"], ["admin", "1"]]);
    superuser.query("SELECT pg_stat_statements_reset()").expect("may");
    assert!(rows(&mut superuser, calls).is_empty());
}

#[test]
fn a_row_that_changes_between_read_and_write_counts_each_conflict() {
    let sql = open(Options::default().protocol(ProtocolKind::Optimistic));
    let mut connection = admin(&sql);
    connection
        .query("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0), (2, 0)")
        .expect("made");
    let db = sql.database();
    let table = db.table("t").expect("it is there");
    let mut rivals = 3;
    db.run(|tx| {
        let n = tx.get(&table, key![1])?.map(|row| row.int("n")).transpose()?.unwrap_or(0);
        if rivals > 0 {
            rivals -= 1;
            std::thread::scope(|scope| {
                let rival = || db.run(|tx| tx.update(&table, key![1], &[("n", (n + 1).into())]));
                scope.spawn(rival).join().expect("no panic")
            })?;
        }
        tx.update(&table, key![1], &[("n", (n + 10).into())])
    })
    .expect("the fourth attempt commits");
    let hot = "SELECT table_name, row_key LIKE '%1%', conflicts, treatment, split_columns FROM heddle_hot_rows WHERE conflicts > 0";
    assert_eq!(rows(&mut connection, hot), [["t", "t", "3", "reserve", "{}"]]);
    assert_eq!(number(&mut connection, "SELECT value FROM heddle_stats WHERE name = 'aborts_write'"), 3);
    connection.query("DROP TABLE t").expect("dropped");
    assert!(rows(&mut connection, hot).is_empty());
}

#[test]
fn a_row_that_blocks_read_and_then_write_is_reserved_but_not_by_read_only_ones() {
    let sql = open(Options::default());
    let (mut first, mut second) = (admin(&sql), admin(&sql));
    first
        .query("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0), (2, 0)")
        .expect("made");
    let read = "SELECT n FROM t WHERE id = 1 LIMIT 21";
    for connection in [&mut first, &mut second] {
        connection.query("BEGIN").expect("begun");
        connection.query(read).expect("read");
    }
    first.query("UPDATE t SET n = 1 WHERE id = 1").expect("it is the first");
    first.query("COMMIT").expect("committed");
    let error = second.query("UPDATE t SET n = 1 WHERE id = 1").expect_err("it has read the row before");
    assert_eq!(error.state().as_str(), "40001");
    second.query("ROLLBACK").expect("rolled back");
    let hot =
        "SELECT table_name, conflicts, waiting_sessions, treatment FROM heddle_hot_rows WHERE conflicts > 0";
    assert_eq!(rows(&mut second, hot), [["t", "1", "0", "reserve"]]);
    first.query("BEGIN").expect("begun");
    assert_eq!(rows(&mut first, read), [["1"]]);
    for begin in ["BEGIN READ ONLY", "BEGIN; SET TRANSACTION READ ONLY", "SELECT 1"] {
        second.query(begin).expect("begun");
        assert_eq!(rows(&mut second, read), [["1"]], "it does not wait: {begin}");
        second.query("ROLLBACK").expect("ended");
    }
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            second.query("BEGIN").expect("begun");
            let seen = rows(&mut second, read);
            second.query("UPDATE t SET n = 3 WHERE id = 1").expect("nothing has changed");
            second.query("COMMIT").map(|_| seen)
        });
        let mut watcher = admin(&sql);
        wait_for(&mut watcher, hot, &[&["t", "1", "1", "queue"]]);
        first.query("UPDATE t SET n = 2 WHERE id = 1").expect("it has reserved the row");
        first.query("COMMIT").expect("committed");
        assert_eq!(waiting.join().expect("no panic").expect("committed"), [["2"]]);
    });
}

#[test]
fn split_columns_partitions_and_checkpoints_have_their_views() {
    let sql = open(Options::default().protocol(ProtocolKind::Phased));
    let mut connection = admin(&sql);
    connection
        .query("CREATE TABLE t (id int PRIMARY KEY, n bigint NOT NULL); INSERT INTO t VALUES (7, 0)")
        .expect("made");
    assert!(rows(&mut connection, "SELECT * FROM heddle_split_columns").is_empty());
    let table = sql.database().table("t").expect("it is there");
    sql.database().split(&table, key![7], "n", SplitOperation::ADD).expect("it can be split");
    let splits = "SELECT table_name, column_name, operation, phases > 0 FROM heddle_split_columns";
    let mut added = 0;
    while rows(&mut connection, splits) != [["t", "n", "add", "t"]] {
        sql.database().run(|tx| tx.add(&table, key![7], "n", 1)).expect("added");
        added += 1;
        assert!(added < 1_000_000, "it is never split: {:?}", rows(&mut connection, splits));
    }
    assert!(number(&mut connection, "SELECT value FROM heddle_stats WHERE name = 'phases_split'") > 0);
    assert_eq!(
        rows(
            &mut connection,
            "SELECT what, old_choice, new_choice, why FROM heddle_choices ORDER BY second LIMIT 2"
        ),
        [
            ["protocol", "none", "phased", "the database was opened with it"],
            ["t.n", "joined", "split for add", "it was labelled"],
        ]
    );
    let keys = rows(&mut connection, "SELECT row_key IS NULL FROM heddle_choices ORDER BY second LIMIT 2");
    assert_eq!(keys, [["t"], ["f"]], "a superuser sees the key");

    let sql = open(Options::default().protocol(PartitionedOptions::default().executors(3)));
    let mut connection = admin(&sql);
    let partitions = rows(
        &mut connection,
        "SELECT executor, range_start, range_end, moves FROM heddle_partitions ORDER BY 1",
    );
    assert_eq!(partitions.len(), 3);
    assert_eq!((partitions[0][1].as_str(), partitions[2][2].as_str()), ("0", "1"));
    assert!(partitions.windows(2).all(|pair| pair[0][2] == pair[1][1]), "{partitions:?}");
    assert!(rows(&mut admin(&open(Options::default())), "SELECT * FROM heddle_schedule").is_empty());
}

#[test]
fn checkpoints_are_reported_as_they_are_made() {
    let directory = tempfile::tempdir().expect("a directory");
    let db = Database::open(directory.path(), Options::default()).expect("opened");
    let sql = Sql::new(&db).expect("the catalog can be made");
    let mut connection = admin(&sql);
    let view = "SELECT made, failed, last_number IS NULL, failure IS NULL FROM heddle_checkpoints";
    assert_eq!(rows(&mut connection, view), [["0", "0", "t", "t"]]);
    let report = db.checkpoint().expect("made");
    assert_eq!(rows(&mut connection, view), [["1", "0", "f", "t"]]);
    let last = rows(&mut connection, "SELECT last_number, last_bytes FROM heddle_checkpoints");
    assert_eq!(last, [[report.number.to_string(), report.bytes.to_string()]]);
}

#[test]
fn statistics_have_unique_names_and_counters_never_fall() {
    let sql = open(Options::default());
    let mut connection = admin(&sql);
    let before = sql.statistics();
    assert_eq!(number(&mut connection, "SELECT count(*) - count(DISTINCT name) FROM heddle_stats"), 0);
    connection.query("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)").expect("made");
    let after = sql.statistics();
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before.name, after.name);
        assert!(after.kind == StatisticKind::Gauge || after.value >= before.value, "{}", after.name);
    }
    let of = |name: &str| after.iter().find(|it| it.name == name).unwrap_or_else(|| panic!("{name}")).value;
    assert_eq!((of("statements"), of("sessions")), (3, 1));
    drop(connection);
    assert_eq!(sql.latency().count(), 3, "what a session did outlives it");
    assert!(connect(&sql, "ada", true).query("SELECT 1 / 0").is_err());
    assert_eq!(sql.errors(), [("22012".to_owned(), 1)]);
}

#[test]
fn slow_statements_are_reported_without_their_constants() {
    let sql = open(Options::default());
    let (sender, slow) = channel();
    sql.on_slow_statement(move |statement| drop(sender.send(statement)));
    let mut connection = connect(&sql, "ada", true);
    connection.query("SELECT 'not yet'").expect("run");
    sql.set_slow_statement_limit(Some(Duration::ZERO));
    connection.query("SELECT 'canary', 1").expect("run");
    assert!(connection.query("SELECT 1 / 0 AS failed").is_err());
    sql.set_slow_statement_limit(None);
    connection.query("SELECT 'no more'").expect("run");
    drop((connection, sql));
    let reported: Vec<_> = slow.iter().collect();
    let texts: Vec<&str> = reported.iter().map(|it| it.statement.as_str()).collect();
    assert_eq!(texts, ["SELECT $1, $2", "SELECT $1 / $2 AS failed"]);
    assert!(reported.iter().all(|it| it.user == "ada" && it.process_id > 0));
}

#[test]
fn sessions_are_reported_with_their_states() {
    let sql = open(Options::default());
    let mut connection = connect(&sql, "ada", false);
    connection.query("BEGIN; SELECT 'canary'").expect("run");
    let sessions = Arc::new(sql.sessions());
    assert_eq!(sessions.len(), 1);
    assert_eq!((sessions[0].user.as_str(), sessions[0].statement.as_str()), ("ada", "BEGIN; SELECT $1"));
}

#[test]
fn a_superuser_changes_the_protocol_beside_open_transactions() {
    let sql = open(Options::default().protocol(ProtocolKind::Optimistic));
    let (mut connection, mut other) = (admin(&sql), admin(&sql));
    connection
        .query("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)")
        .expect("made");
    other.query("BEGIN; UPDATE t SET n = n + 1 WHERE id = 1").expect("begun");
    let shown = |connection: &mut Connection| rows(connection, "SHOW heddle.protocol")[0][0].clone();
    assert_eq!(shown(&mut connection), "optimistic");
    for kind in ProtocolKind::ALL.iter().filter(|kind| **kind != ProtocolKind::Partitioned) {
        let text = format!("ALTER SYSTEM SET heddle.protocol = '{kind}'");
        let results = connection.query(&text).expect("it can be changed");
        assert_eq!(results[0].tag, "ALTER SYSTEM");
        assert_eq!((shown(&mut other), sql.database().protocol()), (kind.to_string(), *kind));
    }
    let everywhere =
        "SELECT current_setting('heddle.protocol'), setting FROM pg_settings WHERE name = 'heddle.protocol'";
    assert_eq!(rows(&mut connection, everywhere), [["auto", "auto"]]);
    for back in [
        "ALTER SYSTEM SET heddle.protocol TO DEFAULT",
        "ALTER SYSTEM RESET heddle.protocol",
        "ALTER SYSTEM RESET ALL",
    ] {
        connection.query("ALTER SYSTEM SET heddle.protocol TO Serial").expect("it can be changed");
        connection.query(back).expect("it can be changed back");
        assert_eq!(shown(&mut connection), "optimistic", "{back}");
    }
    other.query("COMMIT").expect("the block has not noticed");
    assert_eq!(rows(&mut connection, "SELECT n FROM t"), [["1"]]);
}

#[test]
fn a_change_of_the_system_that_cannot_be_made_is_refused_by_name() {
    let sql = open(Options::default().protocol(ProtocolKind::Serial));
    let (mut connection, mut ada) = (admin(&sql), connect(&sql, "ada", false));
    let refused = |connection: &mut Connection, text: &str, state: &str, message: &str| {
        let error = connection.query(text).expect_err(text);
        assert_eq!(error.state().as_str(), state, "{text}: {error}");
        assert!(error.to_string().contains(message), "{text}: {error}");
    };
    let set = "ALTER SYSTEM SET heddle.protocol = 'auto'";
    refused(&mut ada, set, "42501", "heddle.protocol");
    refused(&mut ada, "ALTER SYSTEM RESET ALL", "42501", "ALTER SYSTEM RESET ALL");
    refused(&mut connection, "ALTER SYSTEM SET heddle.protocol = 'magic'", "22023", "\"magic\"");
    refused(&mut connection, "ALTER SYSTEM SET heddle.protocol = 'partitioned'", "22023", "partitioned");
    refused(&mut connection, "ALTER SYSTEM SET heddle.magic = 1", "42704", "heddle.magic");
    refused(&mut connection, "ALTER SYSTEM SET work_mem = '1GB'", "0A000", "work_mem");
    refused(&mut connection, "SET heddle.protocol = 'auto'", "55P02", "heddle.protocol");
    connection.query("BEGIN").expect("begun");
    refused(&mut connection, set, "25001", "transaction block");
    connection.query("ROLLBACK").expect("ended");
    assert_eq!(rows(&mut connection, "SHOW heddle.protocol"), [["serial"]]);
}
