//! `heddle serve --standby` and `heddle promote` as processes, which die by kill -9.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use postgres::{Client, Config, NoTls};

use crate::common::{command, errors, heddle, setting, succeed, text};

/// Longer than anything takes here, so that a test which waits for it has failed.
const LONG: Duration = Duration::from_secs(120);

/// A server process; dropped, it is killed.
struct Serving {
    child: Child,
    port: u16,
}

impl Serving {
    fn start(directory: &Path, arguments: &[&str]) -> Serving {
        let mut child = Serving::spawn(directory, arguments);
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut line = String::new();
        while !line.starts_with("ready ") {
            line.clear();
            assert!(lines.read_line(&mut line).expect("read") > 0, "the server ends");
        }
        let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        thread::spawn(move || _ = lines.read_to_end(&mut Vec::new()));
        Serving { child, port }
    }

    fn spawn(directory: &Path, arguments: &[&str]) -> Child {
        command(&[&["serve", text(directory), "--port", "0"], arguments].concat())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts")
    }

    fn standby(directory: &Path, database: &Path) -> Serving {
        Serving::start(directory, &["--standby", "--log", &log_of(database)])
    }

    fn try_connect(&self) -> Result<Client, postgres::Error> {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.port).user("ada").dbname("heddle").connect(NoTls)
    }

    fn connect(&self) -> Client {
        let begun = Instant::now();
        loop {
            match self.try_connect() {
                Ok(client) => return client,
                Err(error) => assert!(begun.elapsed() < LONG, "{error}"),
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn log_of(database: &Path) -> String {
    format!("file:{}", database.join("log").display())
}

fn code(error: &postgres::Error) -> &str {
    error.code().map_or("none", |code| code.code())
}

/// Waits on the standby until it has what the primary has acknowledged.
fn follow(primary: &mut Client, standby: &mut Client) {
    let position: String = primary.query_one("SELECT heddle_position()", &[]).expect("a position").get(0);
    standby.execute("SELECT heddle_wait_for($1, '100 s')", &[&position]).expect("reached");
}

fn count(client: &mut Client) -> (i64, i64) {
    let row = client.query_one("SELECT count(*), coalesce(max(id), 0) FROM ledger", &[]).expect("counted");
    (row.get(0), row.get(1))
}

#[test]
fn a_standby_answers_what_only_reads_and_follows_the_catalog() {
    let directory = tempfile::tempdir().expect("a directory");
    let [shop, second] = ["shop", "second"].map(|name| directory.path().join(name));
    let primary = Serving::start(&shop, &[]);
    let mut writer = primary.connect();
    writer.batch_execute("CREATE TABLE item (id int PRIMARY KEY, name text)").expect("created");
    let standby = Serving::standby(&second, &shop);
    let mut reader = standby.connect();
    let shown = |reader: &mut Client, setting: &str| -> String {
        reader.query_one(&format!("SHOW {setting}"), &[]).expect("it is a setting").get(0)
    };
    assert!(reader.query_one("SELECT pg_is_in_recovery()", &[]).expect("it says so").get::<_, bool>(0));
    assert_eq!(shown(&mut reader, "in_hot_standby"), "on");
    assert_eq!(shown(&mut reader, "transaction_read_only"), "on");
    writer
        .batch_execute(
            "INSERT INTO item VALUES (1, 'one'), (2, 'two'); CREATE INDEX item_by_name ON item (name);
             ALTER TABLE item ADD COLUMN price numeric(10, 2) DEFAULT 1.50;
             CREATE VIEW named AS SELECT name, price FROM item ORDER BY id; CREATE SEQUENCE numbers;
             CREATE TEMP TABLE own (id int)",
        )
        .expect("changed");
    follow(&mut writer, &mut reader);
    let named = reader.query("SELECT name, price::text FROM named", &[]).expect("the view is there");
    let named: Vec<(String, String)> = named.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(named, [("one".to_owned(), "1.50".to_owned()), ("two".to_owned(), "1.50".to_owned())]);
    for (statement, expected) in [
        ("INSERT INTO item VALUES (3, 'three')", "25006"),
        ("UPDATE item SET name = 'x'", "25006"),
        ("DELETE FROM item", "25006"),
        ("SELECT nextval('numbers')", "25006"),
        ("CREATE TABLE other (id int)", "25006"),
        ("CREATE TEMP TABLE other (id int)", "25006"),
        ("SELECT * FROM item FOR UPDATE", "25006"),
        ("LISTEN news", "25006"),
        ("NOTIFY news", "25006"),
        ("BEGIN READ WRITE", "0A000"),
        ("SELECT * FROM own", "42P01"),
        ("SELECT heddle_wait_for('nonsense', '1 s')", "22P02"),
        ("SELECT heddle_wait_for('1000000/1', '0 s')", "57014"),
    ] {
        let refused = reader.batch_execute(statement).expect_err(statement);
        assert_eq!(code(&refused), expected, "{statement}: {refused}");
        reader.batch_execute("ROLLBACK").expect("nothing is open");
    }
    assert_eq!(heddle(&["promote", text(&second)]).status.code(), Some(1), "the primary lives");
    let mut block = reader.transaction().expect("begun");
    let before: i64 = block.query_one("SELECT count(*) FROM item", &[]).expect("counted").get(0);
    writer.batch_execute("INSERT INTO item VALUES (3, 'three')").expect("inserted");
    let after: i64 = block.query_one("SELECT count(*) FROM item", &[]).expect("counted").get(0);
    assert_eq!((before, after), (2, 2), "one snapshot");
    block.commit().expect("ended");
    follow(&mut writer, &mut reader);
    assert_eq!(reader.query("SELECT * FROM item WHERE name = 'three'", &[]).expect("found").len(), 1);
}

#[test]
fn readers_of_a_standby_see_whole_transactions() {
    let directory = tempfile::tempdir().expect("a directory");
    let [shop, second] = ["shop", "second"].map(|name| directory.path().join(name));
    let primary = Serving::start(&shop, &[]);
    let mut writer = primary.connect();
    writer
        .batch_execute(
            "CREATE TABLE account (id int PRIMARY KEY, balance bigint);
             INSERT INTO account SELECT n, 100 FROM generate_series(1, 10) AS n",
        )
        .expect("created");
    let standby = Serving::standby(&second, &shop);
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let move_money = "BEGIN; UPDATE account SET balance = balance - 7 WHERE id = 1 + $1 % 10;
                 UPDATE account SET balance = balance + 7 WHERE id = 1 + ($1 + 3) % 10; COMMIT";
            for number in 0_u32.. {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                writer.batch_execute(&move_money.replace("$1", &number.to_string())).expect("committed");
            }
        });
        let mut reader = standby.connect();
        for _ in 0..100 {
            let sum = reader.query_one("SELECT sum(balance)::bigint FROM account", &[]).expect("summed");
            assert_eq!(sum.get::<_, i64>(0), 1_000);
        }
        ended.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_primary_that_is_killed_loses_nothing_to_the_standby_that_takes_its_place() {
    let directory = tempfile::tempdir().expect("a directory");
    let [shop, second] = ["shop", "second"].map(|name| directory.path().join(name));
    let mut random = fastrand::Rng::with_seed(setting("HEDDLE_KILL_SEED", 7));
    let mut primary = Serving::start(&shop, &[]);
    primary
        .connect()
        .batch_execute("CREATE TABLE ledger (id bigserial PRIMARY KEY, number bigint UNIQUE)")
        .expect("created");
    for _ in 0..setting("HEDDLE_KILL_ROUNDS", 2) {
        let mut standby = Serving::standby(&second, &shop);
        // The standby may die, too: it has nothing to lose.
        if random.bool() {
            drop(standby);
            standby = Serving::standby(&second, &shop);
        }
        let (acknowledged, first) = (AtomicI64::new(0), count(&mut primary.connect()).0);
        acknowledged.store(first, Ordering::SeqCst);
        let most = i64::from(random.u32(50..400));
        thread::scope(|scope| {
            let mut client = primary.connect();
            let acknowledged = &acknowledged;
            let writing = scope.spawn(move || {
                for number in first + 1.. {
                    if client.execute("INSERT INTO ledger (number) VALUES ($1)", &[&number]).is_err() {
                        break;
                    }
                    acknowledged.store(number, Ordering::SeqCst);
                }
            });
            while acknowledged.load(Ordering::SeqCst) < first + most {
                thread::sleep(Duration::from_millis(1));
            }
            primary.child.kill().expect("killed");
            primary.child.wait().expect("gone");
            writing.join().expect("it has ended");
        });
        let said = succeed(&["promote", text(&second)]);
        assert!(said.contains("promoted: ") && said.contains("is served here"), "{said}");
        primary = standby;
        let mut client = primary.connect();
        let acknowledged = acknowledged.load(Ordering::SeqCst);
        let row = client.query_one("SELECT count(*), max(number), pg_is_in_recovery() FROM ledger", &[]);
        let row = row.expect("counted");
        let (rows, last): (i64, i64) = (row.get(0), row.get(1));
        assert_eq!(rows, last, "rows before the last one are missing");
        assert!(
            (acknowledged..=acknowledged + 1).contains(&rows),
            "{acknowledged} acknowledged, {rows} there"
        );
        assert!(!row.get::<_, bool>(2));
        client.execute("INSERT INTO ledger (number) VALUES ($1)", &[&(rows + 1)]).expect("it is written to");
    }
    drop(primary);
    succeed(&["check", text(&shop)]);
}

#[test]
fn a_standby_that_is_killed_while_it_loads_or_replays_changes_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let [shop, second] = ["shop", "second"].map(|name| directory.path().join(name));
    let primary = Serving::start(&shop, &[]);
    let mut writer = primary.connect();
    writer.batch_execute("CREATE TABLE ledger (id bigint PRIMARY KEY, filler text)").expect("created");
    writer
        .batch_execute("INSERT INTO ledger SELECT n, repeat('x', 200) FROM generate_series(1, 20000) AS n")
        .expect("filled");
    let mut random = fastrand::Rng::with_seed(setting("HEDDLE_KILL_SEED", 7));
    for round in 0..4 {
        let log = log_of(&shop);
        let mut child = Serving::spawn(&second, &["--standby", "--log", &log]);
        thread::sleep(Duration::from_millis(random.u64(1..60)));
        let filler = format!("INSERT INTO ledger VALUES ({}, 'more')", 20_001 + round);
        writer.batch_execute(&filler).expect("inserted");
        child.kill().expect("killed");
        child.wait().expect("gone");
    }
    let standby = Serving::standby(&second, &shop);
    let mut reader = standby.connect();
    follow(&mut writer, &mut reader);
    assert_eq!(count(&mut reader), count(&mut writer));
}

#[test]
fn wrong_usage_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let [shop, second] = ["shop", "second"].map(|name| directory.path().join(name));
    let primary = Serving::start(&shop, &[]);
    let log = log_of(&shop);
    for (arguments, words) in [
        (vec!["serve", text(&second), "--standby"], "--log"),
        (vec!["serve", text(&second), "--log", &log], "--standby"),
        (vec!["serve", text(&second), "--standby", "--log", "kafka://broker/topic"], "file:DIR/log"),
        (vec!["serve", text(&shop), "--standby", "--log", &log], "a directory of its own"),
        (
            vec!["serve", text(&second), "--port", "0", "--standby", "--log", "file:nowhere/log"],
            "not a database",
        ),
        (vec!["promote", text(&shop)], "not a standby's directory"),
    ] {
        let output = heddle(&arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", errors(&output));
        assert!(errors(&output).contains(words), "{arguments:?}: {}", errors(&output));
    }
    let standby = Serving::standby(&second, &shop);
    let twice = heddle(&["serve", text(&second), "--port", "0", "--standby", "--log", &log]);
    assert!(errors(&twice).contains("another standby"), "{}", errors(&twice));
    drop(standby);
    let ended = heddle(&["promote", text(&second)]);
    assert!(errors(&ended).contains("no server has it"), "{}", errors(&ended));
    let as_database = heddle(&["serve", text(&second), "--port", "0"]);
    assert!(errors(&as_database).contains("the directory of a standby of"), "{}", errors(&as_database));
    drop(primary);
}
