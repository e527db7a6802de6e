//! Bank: threads transfer while snapshots sum all accounts; every sum is exact, and no scan is retried.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use heddledb::{
    Database, Options, PhasedOptions, ProtocolKind, ProtocolOptions, Range, Snapshot, SplitOperation, Table,
    key, row,
};

use crate::support::concurrent::{accounts, in_memory, on_disk, small, watched};

const ACCOUNTS: i64 = 60;
const TRANSFERS: usize = 1_500;

/// `HEDDLE_ROUNDS` times as many transfers.
fn rounds() -> usize {
    std::env::var("HEDDLE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1)
}

fn sum(snapshot: &Snapshot, table: &Table, backward: bool) -> i64 {
    let range = if backward { Range::all().reverse() } else { Range::all() };
    let rows = snapshot.scan(table, range).expect("a scan");
    rows.map(|row| row.expect("a row").int("balance").expect("a balance")).sum()
}

/// One transfer, by reading and writing, by operations, or by taking an account away and opening it again.
fn transfer(db: &Database, table: &Table, random: &mut fastrand::Rng) {
    let (from, to) = (random.i64(0..ACCOUNTS), random.i64(0..ACCOUNTS));
    let amount = random.i64(1..20);
    let way = random.u32(0..4);
    db.run(|tx| match way {
        0 | 1 => {
            tx.add(table, key![from], "balance", -amount)?;
            tx.add(table, key![to], "balance", amount)
        }
        2 => {
            let balance = |id: i64| tx.get(table, key![id])?.ok_or(heddledb::Error::Closed)?.int("balance");
            let before = balance(from)?;
            tx.update(table, key![from], &[("balance", (before - amount).into())])?;
            let before = balance(to)?;
            tx.update(table, key![to], &[("balance", (before + amount).into())])
        }
        _ => {
            let before = tx.get(table, key![from])?.ok_or(heddledb::Error::Closed)?.int("balance")?;
            tx.delete(table, key![from])?;
            tx.insert(table, row![from, before - amount])?;
            tx.add(table, key![to], "balance", amount)
        }
    })
    .expect("a transfer");
}

fn transfers_and_sums(db: &Database, threads: u64) {
    let table = accounts(db, ACCOUNTS);
    if threads > 1 {
        // Some of them are split, where the protocol splits.
        for id in 0..3 {
            db.split(&table, key![id], "balance", SplitOperation::ADD).expect("a label");
        }
    }
    let (running, sums) = (AtomicU64::new(threads), AtomicU64::new(0));
    let failed = AtomicBool::new(false);
    thread::scope(|scope| {
        for thread in 0..threads {
            let (table, running) = (&table, &running);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(thread);
                (0..TRANSFERS * rounds()).for_each(|_| transfer(db, table, &mut random));
                running.fetch_sub(1, Ordering::SeqCst);
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let mut last = false;
                while !last {
                    last = running.load(Ordering::SeqCst) == 0;
                    let snapshot = db.snapshot().expect("a snapshot");
                    for backward in [false, true, false] {
                        let sum = sum(&snapshot, &table, backward);
                        if sum != 100 * ACCOUNTS && !failed.swap(true, Ordering::SeqCst) {
                            panic!("{sum} in epoch {}", snapshot.epoch());
                        }
                    }
                    sums.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    assert!(sums.load(Ordering::SeqCst) >= 2);
    let now = db.statistics();
    assert_eq!((now.snapshots_open, now.snapshot_versions, now.snapshot_bytes), (0, 0, 0));
    db.check().expect("consistent");
}

fn bank_options(protocol: ProtocolKind) -> Options {
    small().protocol(ProtocolOptions::from(protocol).phased(PhasedOptions::default().phase_milliseconds(1.0)))
}

#[test]
fn every_sum_is_exact_while_threads_transfer() {
    for &protocol in ProtocolKind::ALL {
        println!("{protocol}");
        for threads in [1, 4] {
            watched(move || transfers_and_sums(&in_memory(bank_options(protocol)), threads));
        }
    }
}

#[test]
fn every_sum_is_exact_with_group_commit() {
    for &protocol in ProtocolKind::ALL {
        println!("{protocol}");
        watched(move || transfers_and_sums(&on_disk(bank_options(protocol)).0, 4));
    }
}
