//! `heddle serve` as a process: where its settings come from, its signals, its notifications to systemd, and its log.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::common::{command, errors, heddle, text};
use postgres::{Client, Config, NoTls};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Time for which a test waits for something that must happen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server process, and the lines of its standard error.
struct Serving {
    child: Child,
    lines: Receiver<String>,
    port: u16,
}

impl Serving {
    fn start(directory: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Serving {
        let mut command = command(&[&["serve", text(directory), "--port", "0"], arguments].concat());
        let mut child = command
            .envs(environment.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let (sender, lines) = channel();
        let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        thread::spawn(move || {
            for line in stderr.lines().map_while(std::result::Result::ok) {
                let _ = sender.send(line);
            }
        });
        let mut serving = Serving { child, lines, port: 0 };
        let ready = serving.wait_for("ready ");
        serving.port = ready.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port");
        serving
    }

    /// The next line of the log that has these words in it.
    fn wait_for(&self, words: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no line with {words:?}"));
            if line.contains(words) {
                return line;
            }
        }
    }

    fn connect(&self) -> Result<Client, postgres::Error> {
        Config::new().host("127.0.0.1").port(self.port).user("ada").dbname("heddle").connect(NoTls)
    }

    fn signal(&self, name: &str) {
        let process = self.child.id().to_string();
        let sent = std::process::Command::new("kill").args(["-s", name, &process]).status();
        assert!(sent.expect("kill is there").success());
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn code(error: &postgres::Error) -> String {
    error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned())
}

#[test]
fn a_flag_stands_over_the_environment_over_the_file_and_all_are_printed() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("heddle.toml");
    std::fs::write(&file, "max_connections = 1\ndrain_s = 2\nprotocol = 'locking'\ndatabase = 'file'\n")
        .expect("written");
    let output = command(&["serve", "--print-settings", "--settings", text(&file), "--set", "drain_s=7"])
        .args(["--protocol", "serial", "--schedule", "partition", "--partition-key", "branch.id"])
        .env("HEDDLE_DATABASE", "environment")
        .env("HEDDLE_DRAIN_S", "5")
        .output()
        .expect("it runs");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", errors(&output));
    for line in [
        "max_connections = 1",
        "drain_s = 7",
        "protocol = \"serial\"",
        "schedule = \"partition\"",
        "partition_key = \"branch.id\"",
        "database = \"environment\"",
        "durability = \"group\"",
    ] {
        assert!(printed.lines().any(|printed| printed == line), "{line} in {printed}");
    }
    let usual = heddle(&["serve", "--print-settings"]);
    let usual = String::from_utf8_lossy(&usual.stdout).into_owned();
    for line in ["protocol = \"auto\"", "schedule = \"random\""] {
        assert!(usual.lines().any(|usual| usual == line), "the default, too: {usual}");
    }
    std::fs::write(&file, &printed).expect("written");
    let again = heddle(&["serve", "--print-settings", "--settings", text(&file)]);
    assert_eq!(String::from_utf8_lossy(&again.stdout), printed);
}

#[test]
fn unknown_keys_and_values_are_wrong_usage_wherever_they_stand() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("heddle.toml");
    std::fs::write(&file, "max_conections = 1\n").expect("written");
    let (file, database) = (text(&file), directory.path().join("d"));
    let refused = |arguments: &[&str], environment: Option<(&str, &str)>, word: &str| {
        let mut command = command(&[&["serve", text(&database)], arguments].concat());
        let output = command.envs(environment).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", errors(&output));
        assert!(errors(&output).contains(word), "{arguments:?}: {}", errors(&output));
    };
    refused(&["--settings", file], None, "max_conections");
    refused(&["--set", "max_conections=1"], None, "max_conections");
    refused(&[], Some(("HEDDLE_MAX_CONECTIONS", "1")), "max_conections");
    refused(&["--set", "durability=sometimes"], None, "sometimes");
    refused(&["--settings", "no-such-file.toml"], None, "no-such-file.toml");
    assert!(!database.exists(), "nothing is created before the settings are right");
}

#[test]
fn systemd_learns_when_the_server_is_ready_and_when_it_stops() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("bound");
    socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let receive = || {
        let mut buffer = [0; 64];
        let length = socket.recv(&mut buffer).expect("a datagram comes");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let database = directory.path().join("d");
    let mut serving = Serving::start(&database, &[], &[("NOTIFY_SOCKET", text(&path))]);
    assert_eq!(receive(), "READY=1");
    let mut client = serving.connect().expect("it is ready");
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)").expect("made");
    serving.signal("TERM");
    assert_eq!(receive(), "STOPPING=1");
    let ended = loop {
        if let Err(error) = client.batch_execute("SELECT 1") {
            break error;
        }
    };
    // Where the statement was on its way when the connection ended, the system's error is all that comes.
    assert!(ended.as_db_error().is_none() || code(&ended) == "57P01", "{ended}");
    assert!(serving.child.wait().expect("it ends").success());
    let again = Serving::start(&database, &[], &[("NOTIFY_SOCKET", "/no/such/socket")]);
    let count: i64 =
        again.connect().expect("it serves").query_one("SELECT count(*) FROM t", &[]).expect("read").get(0);
    assert_eq!(count, 1);
}

#[test]
fn a_reload_changes_limits_keeps_what_it_cannot_change_and_survives_broken_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("heddle.toml");
    std::fs::write(&file, "max_connections = 2\n").expect("written");
    let serving = Serving::start(&directory.path().join("d"), &["--settings", text(&file)], &[]);
    let first = serving.connect().expect("one of two");
    std::fs::write(&file, "max_connections = 1\nstatement_timeout_ms = 60000\ndatabase = 'shop'\n")
        .expect("written");
    serving.signal("HUP");
    let line = serving.wait_for("need a restart");
    assert!(line.contains("database") && !line.contains("max_connections"), "{line}");
    let refused = serving.connect().map(drop).expect_err("there is one already");
    assert_eq!(code(&refused), "53300");
    drop(first);
    let mut second = loop {
        // The place of the connection that has ended becomes free when its thread has seen the end.
        match serving.connect() {
            Ok(client) => break client,
            Err(error) => assert_eq!(code(&error), "53300"),
        }
    };
    let timeout: String = second.query_one("SHOW statement_timeout", &[]).expect("read").get(0);
    assert_eq!(timeout, "1min");
    std::fs::write(&file, "max_connections = none").expect("written");
    serving.signal("HUP");
    serving.wait_for("not reloaded");
    second.batch_execute("SELECT 1").expect("the server goes on");
}

#[test]
fn connections_are_not_limited_by_the_open_files_that_a_shell_allows() {
    let directory = tempfile::tempdir().expect("a directory");
    // One less is enough to see that it is raised, and no matter to the other tests of this process.
    let maximum = getrlimit(Resource::Nofile).maximum;
    let lower = Rlimit { current: maximum.map(|files| files - 1), maximum };
    setrlimit(Resource::Nofile, lower).expect("it may be lowered");
    let serving = Serving::start(&directory.path().join("d"), &[], &[]);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", serving.child.id())).expect("Linux");
    let open_files = limits.lines().find(|line| line.starts_with("Max open files")).expect("it is there");
    let numbers: Vec<&str> = open_files.split_whitespace().skip(3).take(2).collect();
    assert_eq!(numbers[0], numbers[1], "{open_files}");
}

#[test]
fn the_log_is_text_or_json() {
    let directory = tempfile::tempdir().expect("a directory");
    let database = directory.path().join("d");
    let logged = |format: &str| {
        let set = format!("log_format={format}");
        let serving = Serving::start(&database, &["--set", &set], &[]);
        serving.signal("HUP");
        let line = serving.wait_for("were reloaded");
        serving.signal("TERM");
        serving.wait_for("ending");
        line
    };
    let line = logged("text");
    assert!(line.contains("INFO"), "{line}");
    let line = logged("json");
    let object: serde_json::Value = serde_json::from_str(&line).expect("it is JSON");
    assert_eq!(object["level"], "INFO");
    assert_eq!(object["message"], "the settings were reloaded");
}

#[test]
fn a_disk_that_fails_is_logged_at_most_once_a_second() {
    let directory = tempfile::tempdir().expect("a directory");
    let missing = directory.path().join("missing");
    let text = missing.to_str().expect("a path of ASCII");
    let serving = Serving::start(&directory.path().join("d"), &[], &[("TMPDIR", text)]);
    let mut client = serving.connect().expect("it serves");
    client.batch_execute("SET work_mem = '64kB'").expect("set");
    let started = Instant::now();
    for _ in 0..5 {
        let spilling = "SELECT g FROM generate_series(1, 20000) g ORDER BY repeat('x', 100) || g";
        let error = client.batch_execute(spilling).expect_err("there is no such directory");
        assert_eq!(error.code().expect("the server's").code(), "58030");
    }
    let seconds = started.elapsed().as_secs() as usize;
    serving.signal("HUP");
    let mut log = String::new();
    while !log.contains("were reloaded") {
        log = log + &serving.wait_for("") + "\n";
    }
    let faults: Vec<&str> = log.lines().filter(|line| line.contains("ERROR")).collect();
    assert!((1..=seconds + 1).contains(&faults.len()), "{log}");
    assert!(faults[0].contains("58030") && faults[0].contains(text), "{log}");
}

#[test]
fn errors_that_functions_raise_are_not_logged_as_faults() {
    let directory = tempfile::tempdir().expect("a directory");
    let serving = Serving::start(&directory.path().join("d"), &[], &[]);
    let mut client = serving.connect().expect("it serves");
    for (state, name) in [("53100", "disk_full"), ("XX000", "internal_error")] {
        let raise = format!("DO $$ BEGIN RAISE EXCEPTION 'a value' USING ERRCODE = '{name}'; END $$");
        let error = client.batch_execute(&raise).expect_err("it raises");
        assert_eq!(error.code().expect("the server's").code(), state);
    }
    serving.signal("HUP");
    let mut log = String::new();
    while !log.contains("were reloaded") {
        log = log + &serving.wait_for("") + "\n";
    }
    assert!(!log.contains("ERROR") && !log.contains("a value"), "{log}");
}

#[test]
fn slow_statements_are_logged_without_the_values_in_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let set = ["--set", "log_min_duration_ms=0", "--set", "log_level=debug", "--http", "127.0.0.1:0"];
    let serving = Serving::start(&directory.path().join("d"), &set, &[]);
    let mut client = serving.connect().expect("it serves");
    client.batch_execute("CREATE TABLE t (id int PRIMARY KEY, name text)").expect("made");
    client.execute("INSERT INTO t VALUES ($1, $2)", &[&1_i32, &"canary"]).expect("inserted");
    client.batch_execute("UPDATE t SET name = 'canary' WHERE id = 1").expect("updated");
    for failing in ["ALTER ROLE nobody PASSWORD 'canary'", "SELECT 'canary", "SELECT 'canary'::int"] {
        assert!(client.batch_execute(failing).is_err());
    }
    client.batch_execute("SELECT 'the end' AS finished").expect("run");
    let mut log = String::new();
    while !log.contains("AS finished") {
        log = log + &serving.wait_for("") + "\n";
    }
    for statement in
        ["INSERT INTO t VALUES ($1, $2)", "UPDATE t SET name = $1 WHERE id = $2", "slow statement"]
    {
        assert!(log.contains(statement), "{statement}: {log}");
    }
    assert!(!log.contains("canary") && !log.contains("the end"), "{log}");
}

/// Runs `heddle user` with a password on its standard input.
fn user(arguments: &[&str]) -> std::process::Output {
    let mut child = command(&[&["user"], arguments].concat());
    let mut child =
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    // A command that asks for none closes its input.
    let _ = std::io::Write::write_all(&mut child.stdin.take().expect("it is piped"), b"secret\n");
    child.wait_with_output().expect("it ends")
}

#[test]
fn a_database_with_users_keeps_a_superuser() {
    let place = tempfile::tempdir().expect("a directory");
    let directory = place.path().join("db");
    let directory = text(&directory);
    let refused = user(&["add", directory, "ada"]);
    assert_eq!(refused.status.code(), Some(2), "{}", errors(&refused));
    assert!(errors(&refused).contains("--superuser"), "{}", errors(&refused));
    let output = user(&["list", directory]);
    assert!(output.status.success() && output.stdout.is_empty(), "nobody was added");
    for arguments in [&["add", directory, "ada", "--superuser"][..], &["add", directory, "bob"]] {
        let output = user(arguments);
        assert!(output.status.success(), "{arguments:?}: {}", errors(&output));
    }
    let refused = user(&["drop", directory, "ada"]);
    assert_eq!(refused.status.code(), Some(2), "{}", errors(&refused));
    assert!(errors(&refused).contains("last superuser"), "{}", errors(&refused));
    for name in ["bob", "ada"] {
        assert!(user(&["drop", directory, name]).status.success(), "{name}");
    }
}

#[test]
fn a_database_can_be_looked_at_beside_its_server() {
    let place = tempfile::tempdir().expect("a directory");
    let directory = place.path().join("db");
    assert!(user(&["add", text(&directory), "eve", "--superuser"]).status.success());
    let serving = Serving::start(
        &directory,
        &["--set", "host=[{address = 'all', users = ['ada'], method = 'trust'}]"],
        &[],
    );
    let made = heddle(&["user", "list", text(&directory)]);
    assert!(made.status.success(), "{}", errors(&made));
    assert_eq!(String::from_utf8_lossy(&made.stdout), "eve\tsuperuser\n");
    assert!(errors(&made).contains("is open in another process"), "{}", errors(&made));
    let inspected = heddle(&["inspect", text(&directory)]);
    assert!(inspected.status.success(), "{}", errors(&inspected));
    assert!(String::from_utf8_lossy(&inspected.stdout).contains("last durable epoch"));
    drop(serving);
}
