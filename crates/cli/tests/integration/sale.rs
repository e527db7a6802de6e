//! A flash sale in SQL against a server that is killed with -9 while clients sell, and started again, under one protocol after the
//! other: what was acknowledged stays sold, nothing falls below zero, and in the end everything is sold, and no more.
//!
//! The stock is guarded as people write it: in the WHERE of the UPDATE, by a CHECK, and in a transaction block; by the simple protocol
//! and by prepared statements. Where the protocol splits columns these are always split. A kill waits for a number of sales, not for a
//! time. `HEDDLE_SEED` repeats the numbers.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{command, setting, text};
use heddledb::ProtocolKind;
use postgres::error::SqlState;
use postgres::{Client, Config, Error, NoTls, SimpleQueryMessage};

/// Clients of each way to sell.
const CLIENTS_OF_WAY: u64 = 2;
/// The stock of each item at the beginning: more than all rounds before the last one sell.
const STOCK: i64 = 1_200;
/// At most this many sales are acknowledged between a start and a kill, or a few more.
const EACH_MAX: u64 = 150;

/// A way in which people write a sale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Guard,
    GuardPrepared,
    Check,
    CheckPrepared,
    Block,
}

impl Way {
    const ALL: [Way; 5] = [Way::Guard, Way::GuardPrepared, Way::Check, Way::CheckPrepared, Way::Block];

    /// The item that it sells.
    fn item(self) -> usize {
        usize::from(matches!(self, Way::Check | Way::CheckPrepared))
    }
}

const GUARDED: &str = "UPDATE item SET stock = stock - 1, orders = orders + 1 WHERE id = 1 AND stock >= 1";
const GUARDED_PREPARED: &str =
    "UPDATE item SET stock = stock - $1, orders = orders + $1 WHERE id = $2 AND stock >= $1";
const CHECKED: &str = "UPDATE checked SET stock = stock - 1, orders = orders + 1 WHERE id = 1";
const CHECKED_PREPARED: &str = "UPDATE checked SET stock = stock - $1, orders = orders + $1 WHERE id = $2";

/// The outcome of one sale.
enum Sale {
    Sold,
    SoldOut,
    /// Nothing was sold; the client tries again.
    Retry,
    /// The server is gone: whether it was sold is not known.
    Gone,
}

impl Sale {
    fn of(done: Result<u64, Error>) -> Sale {
        match done {
            Ok(0) => Sale::SoldOut,
            Ok(_) => Sale::Sold,
            Err(error) => match error.code() {
                Some(&SqlState::CHECK_VIOLATION) => Sale::SoldOut,
                Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED) => Sale::Retry,
                _ => Sale::Gone,
            },
        }
    }
}

/// The number of rows that the only command of a simple query has changed.
fn simple(client: &mut Client, statement: &str) -> Result<u64, Error> {
    let messages = client.simple_query(statement)?;
    let count = messages.iter().find_map(|message| match message {
        SimpleQueryMessage::CommandComplete(count) => Some(*count),
        _ => None,
    });
    Ok(count.expect("a command that counts rows"))
}

fn block(client: &mut Client) -> Result<u64, Error> {
    let mut transaction = client.transaction()?;
    let count = transaction.execute(GUARDED, &[])?;
    transaction.commit()?;
    Ok(count)
}

/// Sells until the item is sold out, or the server is gone. `sold` counts what was acknowledged, by item.
fn sell(server: u16, way: Way, sold: &[AtomicU64; 2]) {
    let Ok(mut client) = connect(server) else { return };
    let prepared = match way {
        Way::GuardPrepared => client.prepare(GUARDED_PREPARED).ok(),
        Way::CheckPrepared => client.prepare(CHECKED_PREPARED).ok(),
        _ => None,
    };
    loop {
        let done = match (way, &prepared) {
            (Way::Guard, _) => simple(&mut client, GUARDED),
            (Way::Check, _) => simple(&mut client, CHECKED),
            (Way::Block, _) => block(&mut client),
            (_, Some(prepared)) => client.execute(prepared, &[&1_i32, &1_i32]),
            // The server was gone before it could prepare.
            (_, None) => return,
        };
        match Sale::of(done) {
            Sale::Sold => sold[way.item()].fetch_add(1, Ordering::Relaxed),
            Sale::Retry => continue,
            Sale::SoldOut | Sale::Gone => return,
        };
    }
}

fn connect(port: u16) -> Result<Client, Error> {
    Config::new().host("127.0.0.1").port(port).user("ada").dbname("heddle").connect(NoTls)
}

/// A server, and the port on which it accepts clients.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start(directory: &Path, protocol: &str) -> Server {
        let arguments = ["serve", text(directory), "--port", "0", "--protocol", protocol];
        let mut child =
            command(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
        let ready = lines.by_ref().map_while(Result::ok).find(|line| line.starts_with("ready "));
        let port = ready.and_then(|line| line.rsplit(':').next()?.parse().ok()).expect("it becomes ready");
        // Nothing may fill the pipe.
        thread::spawn(move || lines.for_each(drop));
        Server { child, port }
    }

    /// Ends the server as `kill -9` does.
    fn kill(mut self) {
        self.child.kill().expect("it is running");
        self.child.wait().expect("it ends");
    }
}

/// The remaining stock of both items, which agrees with what was ordered.
fn left(server: &Server) -> [i64; 2] {
    let mut client = connect(server.port).expect("a connection");
    ["item", "checked"].map(|table| {
        let row = client.query_one(&format!("SELECT stock, orders FROM {table}"), &[]).expect("a row");
        let (stock, orders): (i32, i32) = (row.get(0), row.get(1));
        assert!(stock >= 0, "{table}: {stock} are left");
        assert_eq!(i64::from(stock) + i64::from(orders), STOCK, "{table}");
        stock.into()
    })
}

/// Sells from all clients; kills the server once this many sales are acknowledged, unless everything is sold before. What was
/// acknowledged, by item.
fn sell_and_kill(server: Server, goal: u64) -> [u64; 2] {
    let sold = [AtomicU64::new(0), AtomicU64::new(0)];
    thread::scope(|scope| {
        let all = Way::ALL.into_iter().flat_map(|way| (0..CLIENTS_OF_WAY).map(move |_| way));
        let port = server.port;
        let sold = &sold;
        let clients: Vec<_> = all.map(|way| scope.spawn(move || sell(port, way, sold))).collect();
        let count = || sold.iter().map(|sold| sold.load(Ordering::Relaxed)).sum::<u64>();
        while count() < goal && !clients.iter().all(thread::ScopedJoinHandle::is_finished) {
            thread::sleep(Duration::from_millis(1));
        }
        server.kill();
    });
    sold.map(AtomicU64::into_inner)
}

#[test]
fn a_sale_in_sql_is_exact_across_kills_under_every_protocol() {
    let seed = setting("HEDDLE_SEED", fastrand::u64(..));
    println!("HEDDLE_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let directory = tempfile::tempdir().expect("a directory");
    let directory = directory.path().join("sale");
    let server = Server::start(&directory, "optimistic");
    let mut client = connect(server.port).expect("a connection");
    client
        .batch_execute(&format!(
            "CREATE TABLE item (id int PRIMARY KEY, stock int NOT NULL, orders int NOT NULL);
             CREATE TABLE checked (id int PRIMARY KEY, stock int NOT NULL CHECK (stock >= 0), orders int NOT NULL);
             INSERT INTO item VALUES (1, {STOCK}, 0); INSERT INTO checked VALUES (1, {STOCK}, 0);
             ALTER TABLE item ALTER stock SET (heddle.split = always), ALTER orders SET (heddle.split = always);
             ALTER TABLE checked ALTER stock SET (heddle.split = always), ALTER orders SET (heddle.split = always)"
        ))
        .expect("made");
    drop(client);
    server.kill();
    let mut before = [STOCK; 2];
    for protocol in ProtocolKind::ALL {
        let server = Server::start(&directory, protocol.name());
        let goal = random.u64(1..=EACH_MAX);
        let acknowledged = sell_and_kill(server, goal);
        let server = Server::start(&directory, protocol.name());
        let now = left(&server);
        server.kill();
        for item in 0..2 {
            let sold = (before[item] - now[item]) as u64;
            let least = acknowledged[item];
            // Those that were committed, but not answered: one of each client.
            let most = least + CLIENTS_OF_WAY * Way::ALL.len() as u64;
            assert!((least..=most).contains(&sold), "{protocol}, item {item}: {sold} of {least} to {most}");
        }
        before = now;
    }
    // The last day: every client sells until there is nothing left.
    let server = Server::start(&directory, "phased");
    let acknowledged = sell_and_kill(server, u64::MAX);
    assert_eq!(acknowledged.map(|sold| sold as i64), before, "what was left is sold, and no more");
    let server = Server::start(&directory, "phased");
    assert_eq!(left(&server), [0, 0]);
    server.kill();
}
