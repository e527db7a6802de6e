//! `heddle serve --standby` and `heddle promote` as processes, which die by kill -9.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
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

/// Reads messages of PostgreSQL's protocol up to ReadyForQuery; the parameters that were reported.
fn parameters(socket: &mut TcpStream) -> Vec<(String, String)> {
    let mut reported = Vec::new();
    loop {
        let mut head = [0; 5];
        socket.read_exact(&mut head).expect("a message");
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4;
        let mut body = vec![0; length];
        socket.read_exact(&mut body).expect("its body");
        match head[0] {
            b'S' => {
                let mut texts =
                    body.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
                reported.push((texts.next().expect("a name"), texts.next().expect("a value")));
            }
            b'E' => panic!("{}", String::from_utf8_lossy(&body)),
            b'Z' => return reported,
            _ => {}
        }
    }
}

fn send(socket: &mut TcpStream, kind: Option<u8>, body: &[u8]) {
    let mut message: Vec<u8> = kind.into_iter().collect();
    message.extend((body.len() as u32 + 4).to_be_bytes());
    message.extend(body);
    socket.write_all(&message).expect("sent");
}

#[test]
fn sessions_go_on_when_their_standby_is_promoted() {
    let directory = tempfile::tempdir().expect("a directory");
    let [shop, second] = ["shop", "second"].map(|name| directory.path().join(name));
    let primary = Serving::start(&shop, &[]);
    let mut writer = primary.connect();
    writer
        .batch_execute(
            "CREATE TABLE ledger (id bigserial PRIMARY KEY, number bigint UNIQUE);
             INSERT INTO ledger (number) VALUES (1), (2); CREATE TEMP TABLE own (id int)",
        )
        .expect("created");
    let standby = Serving::standby(&second, &shop);
    let mut session = standby.connect();
    follow(&mut writer, &mut session);
    let prepared = session.prepare("SELECT count(*) FROM ledger WHERE number < $1").expect("prepared");
    session.batch_execute("SET application_name = 'kept'").expect("set");
    let mut reader = standby.connect();
    reader
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; DECLARE numbers CURSOR FOR SELECT number FROM ledger ORDER BY id")
        .expect("begun");
    assert_eq!(reader.query("FETCH 1 FROM numbers", &[]).expect("fetched").len(), 1);
    let mut wire = TcpStream::connect(("127.0.0.1", standby.port)).expect("connected");
    send(&mut wire, None, b"\0\x03\0\0user\0ada\0database\0heddle\0\0");
    let shown = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert!(parameters(&mut wire).contains(&shown("in_hot_standby", "on")));
    drop(primary);
    succeed(&["promote", text(&second)]);
    send(&mut wire, Some(b'Q'), b"INSERT INTO ledger (number) VALUES (3)\0");
    let learned = parameters(&mut wire);
    assert!(learned.contains(&shown("in_hot_standby", "off")), "{learned:?}");
    let count: i64 = session.query_one(&prepared, &[&10_i64]).expect("it is prepared yet").get(0);
    assert_eq!(count, 3);
    session.execute("INSERT INTO ledger (number) VALUES (4)", &[]).expect("it writes");
    session.batch_execute("CREATE TEMP TABLE own (id text); INSERT INTO own VALUES ('x')").expect("its own");
    let row = session.query_one(
        "SELECT current_setting('application_name'), current_setting('transaction_read_only'), pg_is_in_recovery()",
        &[],
    );
    let row = row.expect("shown");
    let now: (String, String, bool) = (row.get(0), row.get(1), row.get(2));
    assert_eq!(now, ("kept".to_owned(), "off".to_owned(), false));
    let rest = reader.query("FETCH ALL FROM numbers", &[]).expect("its snapshot is there yet");
    assert_eq!(rest.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>(), [2]);
    let refused = reader.execute("INSERT INTO ledger (number) VALUES (5)", &[]).expect_err("it only reads");
    assert_eq!(code(&refused), "25006");
    reader.batch_execute("ROLLBACK; INSERT INTO ledger (number) VALUES (5)").expect("the next one writes");
    drop(standby);
    succeed(&["check", text(&shop)]);
    let served = Serving::start(&shop, &[]);
    let row = served.connect().query_one("SELECT count(*), count(DISTINCT id), max(number) FROM ledger", &[]);
    let row = row.expect("counted");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, i64>(2)), (5, 5, 5));
}

#[test]
fn a_standby_that_is_killed_while_it_is_promoted_loses_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let [shop, second] = ["shop", "second"].map(|name| directory.path().join(name));
    let mut random = fastrand::Rng::with_seed(setting("HEDDLE_KILL_SEED", 7));
    let mut primary = Serving::start(&shop, &[]);
    primary
        .connect()
        .batch_execute("CREATE TABLE ledger (id bigserial PRIMARY KEY, number bigint UNIQUE)")
        .expect("created");
    let mut there = 0;
    for round in 0..setting("HEDDLE_KILL_ROUNDS", 2) {
        let mut standby = Serving::standby(&second, &shop);
        let mut client = primary.connect();
        for number in there + 1..there + 100 {
            client.execute("INSERT INTO ledger (number) VALUES ($1)", &[&number]).expect("inserted");
        }
        there += 99;
        drop(primary);
        let mut promoting = command(&["promote", text(&second)])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary starts");
        thread::sleep(Duration::from_millis(random.u64(0..200)));
        standby.child.kill().expect("killed");
        standby.child.wait().expect("gone");
        promoting.wait().expect("it ends");
        // Nothing was written since, and the next one, or the database itself, has everything.
        primary = if round % 2 == 0 {
            let standby = Serving::standby(&second, &shop);
            succeed(&["promote", text(&second)]);
            standby
        } else {
            Serving::start(&shop, &[])
        };
        let row = primary.connect().query_one("SELECT count(*), max(number) FROM ledger", &[]);
        let row = row.expect("counted");
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (there, there), "round {round}");
    }
    drop(primary);
    succeed(&["check", text(&shop)]);
}

#[test]
fn a_standby_whose_log_was_shortened_before_it_was_read_is_loaded_again() {
    let directory = tempfile::tempdir().expect("a directory");
    let [shop, second] = ["shop", "second"].map(|name| directory.path().join(name));
    let primary = Serving::start(&shop, &[]);
    let mut writer = primary.connect();
    writer
        .batch_execute(
            "CREATE TABLE ledger (id bigint PRIMARY KEY, filler text);
             INSERT INTO ledger SELECT n, 'x' FROM generate_series(1, 10) AS n",
        )
        .expect("created");
    let standby = Serving::standby(&second, &shop);
    let mut reader = standby.connect();
    follow(&mut writer, &mut reader);
    let signal = |name: &str| {
        let process = standby.child.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &process]).status().expect("kill is there").success());
    };
    signal("STOP");
    let first = shop.join("log").join("00000002.log");
    let begun = Instant::now();
    // Until the checkpoint has removed the segment behind the one that the standby was reading.
    while !shop.join("log").join("00000003.log").exists() || first.exists() {
        assert!(begun.elapsed() < LONG, "the log grows, and is shortened");
        writer.execute("UPDATE ledger SET filler = repeat('y', 2000000)", &[]).expect("updated");
        if shop.join("log").join("00000004.log").exists() {
            writer.batch_execute("CHECKPOINT").expect("made");
        }
    }
    writer
        .batch_execute("UPDATE ledger SET filler = 'z'; INSERT INTO ledger VALUES (11, 'new')")
        .expect("written");
    signal("CONT");
    let closed = loop {
        match reader.simple_query("SELECT 1") {
            Ok(_) => assert!(begun.elapsed() < 2 * LONG, "its connections are closed"),
            Err(error) => break error,
        }
        thread::sleep(Duration::from_millis(20));
    };
    assert!(closed.is_closed() || code(&closed) == "57P01", "{closed}");
    let mut reader = standby.connect();
    follow(&mut writer, &mut reader);
    assert_eq!(count(&mut reader), (11, 11));
    drop(primary);
    succeed(&["promote", text(&second)]);
    reader.execute("INSERT INTO ledger VALUES (12, 'newer')", &[]).expect("it is written to");
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
