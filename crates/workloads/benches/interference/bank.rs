//! Transfers on eight threads, beside two that sum all accounts in snapshots, under every protocol.
//!
//! # Invariants
//! - Every sum is exact, and no scan is retried: a snapshot that fails ends the bench.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use heddledb::{
    DataType, Database, Durability, Error, ProtocolKind, Range, Snapshot, SplitOperation, Table,
    TableDefinition, key, row,
};

use crate::Result;
use crate::arguments::Arguments;
use crate::figures::Figures;
use crate::load::of_protocol;

const BALANCE: i64 = 100;
/// Accounts that are labelled, so that they are split where the protocol splits.
const LABELLED: i64 = 3;
const THREADS: u64 = 8;
const SUMMING_THREADS: usize = 2;

pub fn run(arguments: &mut Arguments) -> Result<Figures> {
    let seconds = arguments.get("seconds", 60.0)?;
    let accounts: i64 = arguments.get("accounts", 10_000)?;
    let protocol: String = arguments.get("protocol", "all".to_owned())?;
    arguments.finish()?;
    let chosen: Vec<ProtocolKind> = match protocol.as_str() {
        "all" => ProtocolKind::ALL.to_vec(),
        name => vec![name.parse()?],
    };
    let mut figures = Figures::default();
    for protocol in chosen {
        let done = measure(protocol, accounts.max(LABELLED), Duration::from_secs_f64(seconds))?;
        figures.add(format!("{protocol}: transfers, per second"), done.transfers as f64 / seconds);
        figures.add(format!("{protocol}: sums, all exact, per second"), done.sums as f64 / seconds);
        let taking = done.taking.as_secs_f64() / (done.sums / 2).max(1) as f64;
        figures.add(format!("{protocol}: mean time to take a snapshot, ms"), taking * 1e3);
    }
    Ok(figures)
}

/// The work of the threads of one kind, or of all.
#[derive(Default)]
struct Done {
    transfers: u64,
    sums: u64,
    /// The time in which snapshots were taken.
    taking: Duration,
}

/// Transfers and sums for this long.
fn measure(protocol: ProtocolKind, accounts: i64, time: Duration) -> Result<Done> {
    let db = Database::in_memory_with(of_protocol(protocol, 2).durability(Durability::None))?;
    let definition = TableDefinition::new("account").column("id", DataType::Int64);
    let definition = definition.column("balance", DataType::Int64).not_null().primary_key(["id"]);
    let table = db.create_table(definition)?;
    db.run(|tx| (0..accounts).try_for_each(|id| tx.insert(&table, row![id, BALANCE])))?;
    for id in 0..LABELLED {
        db.split(&table, key![id], "balance", SplitOperation::ADD)?;
    }
    let over = AtomicBool::new(false);
    let done = thread::scope(|scope| {
        let (db, table, over) = (&db, &table, &over);
        let transferring =
            (0..THREADS).map(|seed| scope.spawn(move || transfer_until(db, table, (accounts, seed), over)));
        let mut threads: Vec<_> = transferring.collect();
        let summing = (0..SUMMING_THREADS).map(|_| scope.spawn(move || sum_until(db, table, accounts, over)));
        threads.extend(summing);
        let end = Instant::now() + time;
        // A thread that has found a fault ends at once, and the others with it.
        while Instant::now() < end && !threads.iter().any(|thread| thread.is_finished()) {
            thread::sleep(Duration::from_millis(20));
        }
        // Relaxed: a late look costs one more round.
        over.store(true, Ordering::Relaxed);
        let join = |thread: thread::ScopedJoinHandle<'_, Result<Done>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect::<Result<Vec<_>>>()
    })
    .map_err(|failure| format!("{protocol}: {failure}"))?;
    let now = db.statistics();
    let left = (now.snapshots_failed, now.snapshots_open, now.snapshot_versions);
    if left != (0, 0, 0) {
        return Err(format!("{protocol}: snapshots failed, open, versions kept: {left:?}").into());
    }
    db.check()?;
    Ok(done.into_iter().fold(Done::default(), |all, one| Done {
        transfers: all.transfers + one.transfers,
        sums: all.sums + one.sums,
        taking: all.taking + one.taking,
    }))
}

/// Transfers by reading and writing, by operations, or by deleting an account and inserting it again.
fn transfer_until(
    db: &Database,
    table: &Table,
    (accounts, seed): (i64, u64),
    over: &AtomicBool,
) -> Result<Done> {
    let (mut random, mut done) = (fastrand::Rng::with_seed(seed), Done::default());
    // Relaxed: a late look costs one more transfer.
    while !over.load(Ordering::Relaxed) {
        let (from, to) = (random.i64(0..accounts), random.i64(0..LABELLED));
        let (from, to) = if random.bool() { (from, to) } else { (to, from) };
        let (amount, way) = (random.i64(1..20), random.u32(0..8));
        db.run(|tx| {
            let balance = |id: i64| -> heddledb::Result<i64> {
                tx.get(table, key![id])?.ok_or(Error::Closed)?.int("balance")
            };
            match way {
                0 => {
                    let before = balance(from)?;
                    tx.update(table, key![from], &[("balance", (before - amount).into())])?;
                    let before = balance(to)?;
                    tx.update(table, key![to], &[("balance", (before + amount).into())])
                }
                1 => {
                    let before = balance(from)?;
                    tx.delete(table, key![from])?;
                    tx.insert(table, row![from, before - amount])?;
                    tx.add(table, key![to], "balance", amount)
                }
                _ => {
                    tx.add(table, key![from], "balance", -amount)?;
                    tx.add(table, key![to], "balance", amount)
                }
            }
        })?;
        done.transfers += 1;
    }
    Ok(done)
}

/// Sums all accounts in one snapshot after the other, forward and backward.
fn sum_until(db: &Database, table: &Table, accounts: i64, over: &AtomicBool) -> Result<Done> {
    let mut done = Done::default();
    // Relaxed: as above.
    while !over.load(Ordering::Relaxed) {
        let start = Instant::now();
        let snapshot = db.snapshot()?;
        done.taking += start.elapsed();
        let forward = sum(&snapshot, table, Range::all())?;
        let backward = sum(&snapshot, table, Range::all().reverse())?;
        if forward != accounts * BALANCE || backward != forward {
            let epoch = snapshot.epoch();
            return Err(format!("epoch {epoch}: the accounts hold {forward}, and backward {backward}").into());
        }
        done.sums += 2;
    }
    Ok(done)
}

fn sum(snapshot: &Snapshot, table: &Table, range: Range) -> heddledb::Result<i64> {
    snapshot.scan(table, range)?.map(|row| row?.int("balance")).sum()
}
