//! List-append histories over the wire, under every protocol, and while protocols and schedules change: clients that vanish
//! inside transactions, and a server that is killed with -9 and started again. What clients have seen must be strictly
//! serializable, and everything that was acknowledged must be there.
//!
//! `HEDDLE_HISTORY_ROUNDS` sets how often the server is killed under each protocol, `HEDDLE_SEED` repeats what clients
//! do, but not when.

mod checker;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::common::{command, setting, text};
use checker::{Fate, Step, Transaction, check};
use heddledb::{ProtocolKind, ScheduleKind};
use postgres::{Client, Config, NoTls};

const CLIENTS: u64 = 6;
const KEYS: u32 = 5;

/// Transactions that are acknowledged between two kills.
const EACH: usize = 60;

/// State that clients share.
#[derive(Default)]
struct World {
    port: AtomicU16,
    /// The moments of a history: each event has its own.
    clock: AtomicU64,
    acknowledged: AtomicUsize,
    is_over: AtomicBool,
    /// Changes of the protocol or the schedule that the server has acknowledged.
    changes: AtomicUsize,
    history: Mutex<Vec<Transaction>>,
}

impl World {
    fn now(&self) -> u64 {
        // In one order with all other events, as seen by all threads.
        self.clock.fetch_add(1, Ordering::SeqCst) + 1
    }

    fn connect(&self) -> Option<Client> {
        let port = self.port.load(Ordering::Relaxed);
        let mut config = Config::new();
        config.host("127.0.0.1").port(port).user("ada").dbname("heddle").connect(NoTls).ok()
    }
}

/// Starts a server on a directory, under this protocol or what was saved last; returns once it accepts clients.
fn serve(directory: &Path, protocol: Option<ProtocolKind>, world: &World) -> Child {
    let mut arguments = vec!["serve", text(directory), "--port", "0", "--partition-key", "k"];
    arguments.extend(protocol.into_iter().flat_map(|protocol| ["--protocol", protocol.name()]));
    let mut child =
        command(&arguments).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stderr.take().expect("it is piped")).lines();
    let ready = lines.by_ref().map_while(Result::ok).find(|line| line.starts_with("ready "));
    let port = ready.and_then(|line| line.rsplit(':').next()?.parse().ok()).expect("it becomes ready");
    world.port.store(port, Ordering::Relaxed);
    // Nothing may fill the pipe.
    thread::spawn(move || lines.for_each(drop));
    child
}

/// The life of a client: transactions on one connection after the other.
fn client(world: &World, mut random: fastrand::Rng) {
    let mut connection = None;
    while !world.is_over.load(Ordering::Relaxed) {
        let Some(open) = connection.as_mut() else {
            connection = world.connect();
            if connection.is_none() {
                thread::sleep(Duration::from_millis(5));
            }
            continue;
        };
        let mut transaction = Transaction { began: world.now(), steps: Vec::new(), fate: Fate::Aborted };
        let vanishes = random.u32(0..12) == 0;
        let ended = run(open, world, &mut random, &mut transaction, vanishes);
        transaction.fate = match &ended {
            Ok(true) => Fate::Committed(world.now()),
            Ok(false) => Fate::Aborted,
            Err(fate) => *fate,
        };
        if matches!(transaction.fate, Fate::Committed(_)) {
            world.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        world.history.lock().expect("no panic").push(transaction);
        // A client that vanishes leaves its transaction open.
        if vanishes || open.is_closed() || ended.is_err() {
            connection = None;
        }
    }
}

/// Puts one protocol and one schedule after the other in force, on one connection after the other.
fn change_over_and_over(world: &World, mut random: fastrand::Rng) {
    let protocols: Vec<&str> = ProtocolKind::ALL
        .iter()
        .filter(|kind| **kind != ProtocolKind::Partitioned)
        .map(|kind| kind.name())
        .collect();
    let mut connection = None;
    while !world.is_over.load(Ordering::Relaxed) {
        let Some(open) = connection.as_mut() else {
            connection = world.connect();
            thread::sleep(Duration::from_millis(5));
            continue;
        };
        let (setting, value) = match random.bool() {
            true => ("protocol", protocols[random.usize(0..protocols.len())]),
            false => ("schedule", ScheduleKind::ALL[random.usize(0..ScheduleKind::ALL.len())].name()),
        };
        let text = format!("ALTER SYSTEM SET heddle.{setting} = '{value}'");
        let client: &mut Client = open;
        match client.batch_execute(&text) {
            Ok(()) => _ = world.changes.fetch_add(1, Ordering::Relaxed),
            // Only a server that is killed refuses it.
            Err(error) if error.code().is_some() && !client.is_closed() => panic!("{text}: {error:?}"),
            Err(_) => connection = None,
        }
        thread::sleep(Duration::from_micros(random.u64(0..4_000)));
    }
}

/// Runs a transaction: whether it was committed; else what became of it.
fn run(
    client: &mut Client,
    world: &World,
    random: &mut fastrand::Rng,
    transaction: &mut Transaction,
    vanishes: bool,
) -> Result<bool, Fate> {
    let count = random.usize(1..5);
    if count == 1 && !vanishes {
        // A statement of its own: if the connection is lost, it may have committed.
        let done = step(client, world, random, transaction);
        return done.map(|()| true).map_err(|error| fate(&error));
    }
    let mut body = || -> Result<(), postgres::Error> {
        client.batch_execute("BEGIN")?;
        (0..count).try_for_each(|_| step(client, world, random, transaction))
    };
    if body().is_err() {
        // The COMMIT was not sent.
        let _ = client.batch_execute("ROLLBACK");
        return Ok(false);
    }
    if vanishes {
        return Ok(false);
    }
    client.batch_execute("COMMIT").map(|()| true).map_err(|error| fate(&error))
}

/// The fate of a transaction whose last statement has failed: unknown, unless the server says that it was
/// aborted.
fn fate(error: &postgres::Error) -> Fate {
    match error.code().map(|code| &code.code()[..2]) {
        Some("40" | "55" | "25") => Fate::Aborted,
        _ => Fate::Unknown,
    }
}

/// Reads a list, or appends to one.
fn step(
    client: &mut Client,
    world: &World,
    random: &mut fastrand::Rng,
    transaction: &mut Transaction,
) -> Result<(), postgres::Error> {
    let key = random.u32(0..KEYS);
    if random.bool() {
        let row = client.query_one("SELECT val FROM la WHERE k = $1", &[&(key as i32)])?;
        transaction.steps.push(Step::Read(key, values(row.get(0))));
    } else {
        let value = world.now();
        // Noted first: it may take effect although no answer comes.
        transaction.steps.push(Step::Append(key, value));
        // A call of a function is placed by the schedule, if it is a transaction of its own.
        let append = ["UPDATE la SET val = val || ',' || $1 WHERE k = $2", "SELECT append_to($1, $2)"];
        client.execute(append[random.usize(0..2)], &[&value.to_string(), &(key as i32)])?;
    }
    Ok(())
}

fn values(list: &str) -> Vec<u64> {
    list.split(',').filter(|value| !value.is_empty()).map(|value| value.parse().expect("a value")).collect()
}

/// A function that appends to a list.
const APPEND: &str = "CREATE FUNCTION append_to(value text, key int) RETURNS void LANGUAGE plpgsql AS \
                      $$BEGIN UPDATE la SET val = val || ',' || value WHERE k = key; END$$";

/// One history under one protocol, or, without one, while protocols and schedules change.
fn history(protocol: Option<ProtocolKind>, kills: u64, seed: u64) {
    let name = protocol.map_or("changing", ProtocolKind::name);
    let directory = tempfile::tempdir().expect("a directory");
    let database = directory.path().join("d");
    let world = World::default();
    let mut server = serve(&database, protocol, &world);
    let mut first = world.connect().expect("it is ready");
    first.batch_execute("CREATE TABLE la (k int PRIMARY KEY, val text NOT NULL)").expect("created");
    first.batch_execute(APPEND).expect("created");
    for key in 0..KEYS {
        first.batch_execute(&format!("INSERT INTO la VALUES ({key}, '')")).expect("inserted");
    }
    drop(first);
    thread::scope(|scope| {
        for number in 0..CLIENTS {
            let (world, random) = (&world, fastrand::Rng::with_seed(seed ^ (number << 32)));
            scope.spawn(move || client(world, random));
        }
        if protocol.is_none() {
            scope.spawn(|| change_over_and_over(&world, fastrand::Rng::with_seed(!seed)));
        }
        for round in 1..=kills + 1 {
            let wanted = EACH * round as usize;
            let least = if protocol.is_none() { 10 * round as usize } else { 0 };
            while world.acknowledged.load(Ordering::Relaxed) < wanted
                || world.changes.load(Ordering::Relaxed) < least
            {
                thread::sleep(Duration::from_millis(2));
            }
            if round <= kills {
                server.kill().expect("it runs");
                server.wait().expect("it has ended");
                server = serve(&database, protocol, &world);
            }
        }
        world.is_over.store(true, Ordering::Relaxed);
    });
    let mut last = world.connect().expect("it is ready");
    let rows = last.query("SELECT k, val FROM la", &[]).expect("read");
    let lists: BTreeMap<u32, Vec<u64>> =
        rows.iter().map(|row| (row.get::<_, i32>(0) as u32, values(row.get(1)))).collect();
    server.kill().expect("it runs");
    server.wait().expect("it has ended");
    let history = world.history.into_inner().expect("no panic");
    let aborted = history.iter().filter(|transaction| transaction.fate == Fate::Aborted).count();
    let unknown = history.iter().filter(|transaction| transaction.fate == Fate::Unknown).count();
    println!("{name}: {} transactions, {aborted} aborted, {unknown} unknown", history.len());
    if let Err(what) = check(&history, &lists) {
        panic!("HEDDLE_SEED={seed} {name}: {what}");
    }
}

#[test]
fn what_clients_saw_is_strictly_serializable_and_survives_kills() {
    let kills = setting("HEDDLE_HISTORY_ROUNDS", 2);
    let seed = setting("HEDDLE_SEED", fastrand::u64(..));
    for protocol in ProtocolKind::ALL {
        history(Some(*protocol), kills, seed);
    }
}

#[test]
fn so_it_is_while_protocols_and_schedules_change() {
    history(None, setting("HEDDLE_HISTORY_ROUNDS", 2), setting("HEDDLE_SEED", fastrand::u64(..)));
}
