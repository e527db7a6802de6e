//! `heddle serve --archive`, `heddle archive` and `heddle restore --from`, with a server that dies by kill -9.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use postgres::{Client, Config, NoTls};

use crate::common::{command, errors, heddle, setting, succeed, text};

/// A server that archives its database.
struct Serving {
    child: Child,
    port: u16,
}

impl Serving {
    fn start(database: &Path, archive: &Path) -> Serving {
        let mut child = command(&["serve", text(database), "--port", "0", "--archive", text(archive)])
            .args(["--set", "archive_interval_s=1", "--set", "archive_checkpoint_s=0"])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped"));
        let mut line = String::new();
        while !line.starts_with("ready ") {
            line.clear();
            assert!(lines.read_line(&mut line).expect("read") > 0, "the server ends");
        }
        let port = line.trim().rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        std::thread::spawn(move || _ = lines.read_to_end(&mut Vec::new()));
        Serving { child, port }
    }

    fn connect(&self) -> Client {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.port).user("ada").dbname("heddle");
        config.connect(NoTls).expect("connected")
    }

    /// Ends the server by SIGTERM: what is left is uploaded.
    fn end(mut self) {
        let process = self.child.id().to_string();
        assert!(
            Command::new("kill").args(["-s", "TERM", &process]).status().expect("kill is there").success()
        );
        assert!(self.child.wait().expect("it ends").success());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn count(database: &Path) -> i64 {
    let said = succeed(&[
        "sql",
        text(database),
        "--format",
        "csv",
        "-c",
        "SELECT count(*), coalesce(max(id), 0) FROM ledger",
    ]);
    let (rows, last) = said.lines().last().and_then(|line| line.split_once(',')).expect("two numbers");
    assert_eq!(rows, last, "rows before the last one are missing");
    rows.parse().expect("a number")
}

#[test]
fn a_server_that_is_killed_while_it_uploads_resumes_and_loses_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let [database, archive] = ["shop", "archive"].map(|name| directory.path().join(name));
    let mut random = fastrand::Rng::with_seed(setting("HEDDLE_KILL_SEED", 7));
    let mut acknowledged = 0_i64;
    for round in 0..setting("HEDDLE_KILL_ROUNDS", 3) {
        let serving = Serving::start(&database, &archive);
        let mut client = serving.connect();
        client
            .batch_execute("CREATE TABLE IF NOT EXISTS ledger (id bigint PRIMARY KEY, text text)")
            .expect("created");
        let statement = client.prepare("INSERT INTO ledger VALUES ($1, repeat('x', 500))").expect("prepared");
        for _ in 0..random.u32(200..1_500) {
            client.execute(&statement, &[&(acknowledged + 1)]).expect("inserted");
            acknowledged += 1;
        }
        drop(serving);
        // What is there of the archive is a beginning of the history.
        let restored = directory.path().join(format!("restored-{round}"));
        let output = heddle(&["restore", "--from", text(&archive), text(&restored)]);
        if !output.status.success() {
            assert!(errors(&output).contains("archived there"), "{}", errors(&output));
            continue;
        }
        // In the first second not even the table may be there.
        let has_table = "SELECT count(*) FROM pg_class WHERE relname = 'ledger'";
        let said = succeed(&["sql", text(&restored), "--format", "csv", "-c", has_table]);
        if said.trim_end().ends_with('1') {
            assert!(count(&restored) <= acknowledged);
        }
    }
    let serving = Serving::start(&database, &archive);
    let row = serving.connect().query_one("SELECT failure, alarm, timeline FROM heddle_archive", &[]);
    let row = row.expect("there is an archive");
    assert_eq!((row.get::<_, Option<String>>(0), row.get::<_, bool>(1)), (None, false));
    serving.end();
    let said = succeed(&["archive", "verify", text(&archive)]);
    assert!(said.contains("archive: ok"), "{said}");
    let restored = directory.path().join("restored");
    let said = succeed(&["restore", "--from", text(&archive), text(&restored)]);
    assert!(said.contains("restored: ") && said.contains("timeline 1 of "), "{said}");
    assert_eq!(count(&restored), acknowledged);
    succeed(&["check", text(&restored)]);
}

#[test]
fn an_archive_is_listed_pruned_and_restored_to_a_position() {
    let directory = tempfile::tempdir().expect("a directory");
    let [database, archive] = ["shop", "archive"].map(|name| directory.path().join(name));
    let serving = Serving::start(&database, &archive);
    let mut client = serving.connect();
    client.batch_execute("CREATE TABLE ledger (id bigint PRIMARY KEY)").expect("created");
    client.execute("INSERT INTO ledger VALUES (1)", &[]).expect("inserted");
    let mut epoch = -1_i64;
    while epoch < 0 {
        let found =
            "SELECT archived_epoch FROM heddle_archive WHERE archived_epoch = durable_epoch AND timeline = 1";
        epoch = client.query_opt(found, &[]).expect("read").map_or(-1, |row| row.get(0));
    }
    client.execute("INSERT INTO ledger VALUES (2)", &[]).expect("inserted");
    serving.end();
    let said = succeed(&["archive", "list", text(&archive)]);
    assert!(said.contains("timeline 1: begun") && said.contains("log: "), "{said}");
    for (arguments, rows) in [(vec![], 2), (vec!["--to-position".to_owned(), epoch.to_string()], 1)] {
        let to = directory.path().join(format!("restored-{rows}"));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        succeed(&[&["restore", "--from", text(&archive)], arguments.as_slice(), &[text(&to)]].concat());
        assert_eq!(count(&to), rows);
    }
    let said = succeed(&["archive", "prune", text(&archive), "--keep-checkpoints", "1"]);
    assert!(said.contains("timeline 1 of "), "{said}");
    let late = heddle(&["restore", "--from", text(&archive), "--to-position", "999999999", text(&database)]);
    assert!(!late.status.success() && errors(&late).contains("the archive ends with"), "{}", errors(&late));
    // A byte of one object.
    let logs =
        std::fs::read_dir(&archive).expect("listed").next().expect("a database").expect("listed").path();
    let log =
        std::fs::read_dir(logs.join("00000001/log")).expect("listed").next().expect("one").expect("listed");
    let mut bytes = std::fs::read(log.path()).expect("read");
    bytes[20] ^= 1;
    std::fs::write(log.path(), bytes).expect("written");
    let output = heddle(&["archive", "verify", text(&archive)]);
    let named = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.code() == Some(1) && named.contains(text(Path::new(&log.file_name()))), "{named}");
}

#[test]
fn mistakes_are_wrong_usage_and_no_password_is_repeated() {
    let directory = tempfile::tempdir().expect("a directory");
    let new = directory.path().join("new");
    let new = text(&new);
    for (arguments, expected) in [
        (vec!["restore", new], "or --from URL and a new directory"),
        (vec!["restore", "--from", "no-such-archive", new], "there is no such directory"),
        (vec!["restore", "a", new, "--to-position", "1"], "--from"),
        (vec!["restore", "--from", "a", "--to-position", "x", new], "3/117"),
        (vec!["archive", "list", "s3://key:hunter2@bucket/a"], "credentials"),
        (vec!["archive", "prune", new], "--keep-days"),
        (vec!["serve", new, "--archive", "ftp://somewhere"], "s3://"),
        (vec!["serve", new, "--set", "archive_interval_s=0"], "archive_interval_s"),
    ] {
        let output = heddle(&arguments);
        let said = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected) && !said.contains("hunter2"), "{arguments:?}: {said}");
    }
}
