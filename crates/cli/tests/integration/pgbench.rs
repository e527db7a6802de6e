//! pgbench against a server that is killed with -9 at random moments and started again: every transaction that was
//! acknowledged is there, and the sums of all tables agree.
//!
//! Needs pgbench (Debian: postgresql-contrib): the one in `HEDDLE_POSTGRES` (a directory), that of Debian's package of
//! version 15, or the one on the path. Where it is missing, the test is skipped with a message, unless `HEDDLE_REQUIRED`
//! names `pgbench`. `HEDDLE_KILL_ROUNDS` says how often the server is killed, `HEDDLE_SEED` repeats after how many
//! transactions.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;

use crate::common::{command, setting, text};
use crate::skips;
use postgres::{Client, Config, NoTls};

const CLIENTS: u64 = 8;
/// At most this many transactions are acknowledged between the start of pgbench and a kill, or a few more.
const EACH_MAX: u64 = 1_500;

/// pgbench, if it is installed.
fn pgbench() -> Option<PathBuf> {
    let named = std::env::var_os("HEDDLE_POSTGRES").map(|directory| Path::new(&directory).join("pgbench"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|directory| directory.join("pgbench"));
    let debian = PathBuf::from("/usr/lib/postgresql/15/bin/pgbench");
    let found = named.into_iter().chain([debian]).chain(on_path).find(|program| program.exists());
    if found.is_none() {
        skips::skip("pgbench", "pgbench is not installed");
    }
    found
}

/// A server, and the port on which it accepts clients.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(directory: &Path) -> Server {
        let arguments = ["serve", text(directory), "--port", "0"];
        let mut child =
            command(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let ready = lines.by_ref().map_while(Result::ok).find(|line| line.starts_with("ready "));
        let port = ready.and_then(|line| line.rsplit(':').next()?.parse().ok()).expect("it becomes ready");
        // Nothing may fill the pipe.
        thread::spawn(move || lines.for_each(drop));
        Server { child, port }
    }

    fn connect(&self) -> Client {
        let mut config = Config::new();
        config.host("127.0.0.1").port(self.port).user("ada").dbname("heddle");
        config.connect(NoTls).expect("a connection")
    }

    /// Ends the server as `kill -9` does.
    fn kill(mut self) {
        self.child.kill().expect("it is running");
        self.child.wait().expect("it ends");
    }

    fn pgbench(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-U", "ada"]);
        command.args(arguments).arg("heddle").stdin(Stdio::null());
        command
    }
}

/// The number of transactions that pgbench saw acknowledged.
fn acknowledged(output: &Output) -> u64 {
    let printed = String::from_utf8_lossy(&output.stdout);
    let count =
        printed.lines().find_map(|line| line.strip_prefix("number of transactions actually processed: "));
    let count = count.and_then(|rest| rest.split('/').next()?.trim().parse().ok());
    count.unwrap_or_else(|| panic!("{printed}{}", String::from_utf8_lossy(&output.stderr)))
}

fn number(client: &mut Client, query: &str) -> i64 {
    client.query_one(query, &[]).expect(query).get(0)
}

/// The transactions in the history; the sums of all tables are those of the history.
fn checked(client: &mut Client) -> u64 {
    let delta = number(client, "select coalesce(sum(delta), 0)::bigint from pgbench_history");
    for table in ["account", "teller", "branch"] {
        let column = &table[..1];
        let plural = if table == "branch" { "branches".to_string() } else { format!("{table}s") };
        let query = format!("select sum({column}balance)::bigint from pgbench_{plural}");
        assert_eq!(number(client, &query), delta, "{plural}");
    }
    number(client, "select count(*) from pgbench_history") as u64
}

#[test]
fn every_acknowledged_transaction_outlives_kill_9_under_pgbench() {
    let Some(program) = pgbench() else { return };
    let seed = setting("HEDDLE_SEED", fastrand::u64(..));
    println!("HEDDLE_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let directory = std::env::temp_dir().join(format!("heddle-pgbench-{}", std::process::id()));
    let mut server = Server::start(&directory);
    let filled = server.pgbench(&program, &["-i", "-s", "1", "-q"]).output().expect("it runs");
    assert!(filled.status.success(), "{}", String::from_utf8_lossy(&filled.stderr));
    let mut before = 0;
    for round in 0..setting("HEDDLE_KILL_ROUNDS", 4) {
        let mode = ["simple", "extended", "prepared"][round as usize % 3];
        let clients = CLIENTS.to_string();
        let mut running =
            server.pgbench(&program, &["-n", "-c", &clients, "-j", "2", "-T", "3600", "-M", mode]);
        let mut running = running.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut client = server.connect();
        let goal = before + random.u64(1..=EACH_MAX);
        while (number(&mut client, "select count(*) from pgbench_history") as u64) < goal {
            assert!(running.try_wait().expect("it can be asked").is_none(), "pgbench ended before the kill");
        }
        server.kill();
        let acknowledged = acknowledged(&running.wait_with_output().expect("pgbench ends"));
        server = Server::start(&directory);
        let there = checked(&mut server.connect());
        // Those that were committed, but not answered: one of each client.
        let (least, most) = (before + acknowledged, before + acknowledged + CLIENTS);
        assert!((least..=most).contains(&there), "round {round}: {there} of {least} to {most} transactions");
        println!(
            "round {round}: {acknowledged} transactions were acknowledged, {} are there",
            there - before
        );
        before = there;
    }
    server.kill();
    std::fs::remove_dir_all(&directory).expect("the directory can be removed");
}
