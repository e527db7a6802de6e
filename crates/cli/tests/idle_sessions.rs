//! Sessions that are idle in a transaction with one row read: each costs the server little memory, keeps what it has
//! read, and holds up no other session.
//!
//! `HEDDLE_IDLE_SESSIONS`, `HEDDLE_BUSY_SESSIONS` and `HEDDLE_TRANSACTIONS` (of each busy session) set the numbers. In each of
//! `HEDDLE_ROUNDS` rounds the busy sessions run alone, and then beside idle ones that are opened for the round. The test prints the
//! medians of their throughput, which depends on the machine, and their ratio, and the memory of an idle session.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Instant;

use common::{command, setting, text};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The most memory of an idle session.
const BYTES_MAX: u64 = 200 * 1024;

/// A connection that speaks the protocol with as little memory as it can.
struct Session(TcpStream);

impl Session {
    fn connect(port: u16) -> Session {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        stream.set_nodelay(true).expect("an option of sockets");
        let parameters = b"user\0ada\0database\0heddle\0\0";
        let length = 8 + parameters.len() as u32;
        let mut message = length.to_be_bytes().to_vec();
        message.extend(196_608_u32.to_be_bytes());
        message.extend(parameters);
        stream.write_all(&message).expect("it reads");
        let mut session = Session(stream);
        session.answer().expect("it lets us in");
        session
    }

    /// Runs a query: the first value of its last row, if it has one; the message of an error.
    fn query(&mut self, text: &str) -> Result<Option<String>, String> {
        let mut message = vec![b'Q'];
        message.extend((5 + text.len() as u32).to_be_bytes());
        message.extend(text.as_bytes());
        message.push(0);
        self.0.write_all(&message).expect("it reads");
        self.answer()
    }

    /// Reads messages up to ReadyForQuery.
    fn answer(&mut self) -> Result<Option<String>, String> {
        let (mut value, mut failure) = (None, None);
        loop {
            let mut head = [0; 5];
            self.0.read_exact(&mut head).expect("a message");
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
            let mut body = vec![0; length as usize - 4];
            self.0.read_exact(&mut body).expect("the whole message");
            match head[0] {
                b'Z' => return failure.map_or(Ok(value), Err),
                b'E' => failure = Some(String::from_utf8_lossy(&body).replace('\0', " ")),
                b'D' => value = Some(String::from_utf8_lossy(&body[6..]).into_owned()),
                _ => {}
            }
        }
    }

    fn run(&mut self, text: &str) -> Option<String> {
        self.query(text).expect(text)
    }
}

/// A server process, and the port on which it accepts clients.
fn serve(directory: &Path, connections: u64) -> (Child, u16) {
    let limit = format!("max_connections={connections}");
    let mut child = command(&["serve", text(directory), "--port", "0", "--set", &limit])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let ready = lines.by_ref().map_while(Result::ok).find(|line| line.starts_with("ready "));
    let port = ready.and_then(|line| line.rsplit(':').next()?.parse().ok()).expect("it becomes ready");
    // Nothing may fill the pipe.
    thread::spawn(move || lines.for_each(drop));
    (child, port)
}

/// The process's resident memory in bytes, where the system tells.
fn resident(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

/// Transactions of sessions on rows of their own; how many there are in a second.
fn throughput(busy: &mut [Session], transactions: u64) -> f64 {
    let started = Instant::now();
    let total = busy.len() as u64 * transactions;
    thread::scope(|scope| {
        for (number, session) in busy.iter_mut().enumerate() {
            scope.spawn(move || {
                for _ in 0..transactions {
                    session.run(&format!(
                        "update account set balance = balance + 1 where id = {}",
                        number + 1_000
                    ));
                }
            });
        }
    });
    total as f64 / started.elapsed().as_secs_f64()
}

/// Opens sessions that are idle in a transaction, with one row read.
fn open_idle(port: u16, count: u64) -> Vec<Session> {
    let mut sessions: Vec<Session> = (0..count).map(|_| Session::connect(port)).collect();
    for (id, session) in sessions.iter_mut().enumerate() {
        session.run("begin");
        let balance = session.run(&format!("select balance from account where id = {id}"));
        assert!(balance.is_some(), "account {id}");
    }
    sessions
}

/// Allows this process, and the server that it starts, as many open files as the system lets it.
fn raise_limit_on_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    setrlimit(Resource::Nofile, raised).expect("up to its maximum a process may raise its limit");
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn sessions_idle_in_a_transaction_are_cheap_and_hold_up_no_other() {
    raise_limit_on_files();
    let (idle, busy) = (setting("HEDDLE_IDLE_SESSIONS", 200), setting("HEDDLE_BUSY_SESSIONS", 8));
    let (transactions, rounds) = (setting("HEDDLE_TRANSACTIONS", 40), setting("HEDDLE_ROUNDS", 1));
    let directory = std::env::temp_dir().join(format!("heddle-idle-{}", std::process::id()));
    let (mut child, port) = serve(&directory, idle + busy + 10);
    let mut first = Session::connect(port);
    first.run("create table account (id int primary key, balance int not null)");
    let rows = idle.max(1_000 + busy);
    first.run(&format!("insert into account select id, 0 from generate_series(0, {rows}) as id"));
    let mut others: Vec<Session> = (0..busy).map(|_| Session::connect(port)).collect();
    throughput(&mut others, transactions);

    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        alone.push(throughput(&mut others, transactions));
        let before = resident(child.id());
        let mut sessions = open_idle(port, idle);
        // Later rounds reuse memory.
        if let (0, Some(before), Some(after)) = (round, before, resident(child.id())) {
            let each = after.saturating_sub(before) / idle;
            println!("{idle} sessions idle in a transaction: {each} bytes each");
            // A debug build is just below or above the limit: only a release build is held to it.
            assert!(each < BYTES_MAX || cfg!(debug_assertions), "{each} bytes for a session");
        }
        beside.push(throughput(&mut others, transactions));
        // What they have read is as it was.
        first.run(&format!("update account set balance = {} where id < 10", round + 7));
        let expected = if round == 0 { 0 } else { round + 6 }.to_string();
        for (id, session) in sessions.iter_mut().enumerate().take(10) {
            let balance = session.run(&format!("select balance from account where id = {id}"));
            assert_eq!(balance.as_deref(), Some(expected.as_str()));
            session.run("commit");
        }
    }
    let (alone, beside) = (median(alone), median(beside));
    println!(
        "{busy} busy sessions: {alone:.0} transactions in a second alone, {beside:.0} beside {idle} idle ones, \
         {:.2} of it; {rounds} rounds",
        beside / alone
    );

    // The others' transactions are all there.
    let sum = first.run("select sum(balance) from account where id >= 1000");
    assert_eq!(sum, Some(((1 + 2 * rounds) * busy * transactions).to_string()));
    child.kill().expect("it is running");
    child.wait().expect("it ends");
    std::fs::remove_dir_all(&directory).expect("the directory can be removed");
}
