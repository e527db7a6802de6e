//! Snapshots while columns are split, and while boundaries between executors move.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;
use std::time::Duration;

use heddledb::{
    Database, Options, PartitionedOptions, PhasedOptions, ProtocolKind, ProtocolOptions, SplitOperation,
    Table, key,
};

use crate::support::concurrent::{accounts, in_memory, on_disk, small, watched};

const ADDERS: usize = 3;
const SNAPSHOTS: usize = 150;

/// Threads add to counters; a snapshot shows each add that was acknowledged before it was asked for, and none that began later.
///
/// Snapshots are taken until `enough` holds, too: how often phases change meanwhile depends on when threads run.
fn adds_are_exact(db: &Database, table: &Table, enough: impl Fn() -> bool) {
    let (begun, acknowledged) = (AtomicI64::new(0), AtomicI64::new(0));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..ADDERS {
            scope.spawn(|| {
                while !stop.load(Ordering::SeqCst) {
                    begun.fetch_add(1, Ordering::SeqCst);
                    db.run(|tx| {
                        tx.add(table, key![0], "balance", 1)?;
                        tx.add(table, key![1], "balance", 1)
                    })
                    .expect("an add");
                    acknowledged.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let mut taken = 0;
        while taken < SNAPSHOTS || !enough() {
            taken += 1;
            let least = acknowledged.load(Ordering::SeqCst);
            let snapshot = db.snapshot().expect("a snapshot");
            let most = begun.load(Ordering::SeqCst);
            let counters = [0, 1].map(|id| {
                let row = snapshot.get(table, key![id]).expect("a look").expect("a row");
                row.int("balance").expect("a balance") - 100
            });
            assert_eq!(counters[0], counters[1], "one transaction is half in it");
            if !(least..=most).contains(&counters[0]) {
                stop.store(true, Ordering::SeqCst);
                panic!("{} is not between {least} and {most}", counters[0]);
            }
        }
        stop.store(true, Ordering::SeqCst);
    });
}

fn labelled(db: &Database) -> Table {
    let table = accounts(db, 4);
    for id in 0..2 {
        db.split(&table, key![id], "balance", SplitOperation::ADD).expect("a label");
    }
    table
}

#[test]
fn adds_in_slices_are_in_the_snapshot_and_go_on_in_slices() {
    for &protocol in ProtocolKind::ALL {
        println!("{protocol}");
        watched(move || {
            // One long phase: snapshots merge within it.
            let db = in_memory(Options::default().protocol(
                ProtocolOptions::from(protocol).phased(PhasedOptions::default().phase_milliseconds(60_000.0)),
            ));
            let table = labelled(&db);
            // Snapshots merge, and columns are split again.
            adds_are_exact(&db, &table, || {
                db.phases().is_none_or(|report| {
                    report.reconciliation > 1 && report.columns.iter().all(|column| column.now)
                })
            });
            db.check().expect("consistent");
        });
        watched(move || {
            let db = in_memory(Options::default().protocol(
                ProtocolOptions::from(protocol).phased(PhasedOptions::default().phase_milliseconds(0.3)),
            ));
            let table = labelled(&db);
            adds_are_exact(&db, &table, || true);
        });
        watched(move || {
            let (db, _disk) = on_disk(small().protocol(
                ProtocolOptions::from(protocol).phased(PhasedOptions::default().phase_milliseconds(2.0)),
            ));
            let table = labelled(&db);
            adds_are_exact(&db, &table, || true);
        });
    }
}

#[test]
fn snapshots_are_exact_while_boundaries_move() {
    for &protocol in ProtocolKind::ALL {
        let db = in_memory(Options::default().protocol(
            ProtocolOptions::from(protocol).partitioned(PartitionedOptions::default().executors(3)),
        ));
        let boundaries = db.partitions().len().saturating_sub(1);
        if boundaries == 0 {
            continue;
        }
        watched(move || {
            let table = accounts(&db, 4);
            let stop = AtomicBool::new(false);
            thread::scope(|scope| {
                scope.spawn(|| {
                    let mut random = fastrand::Rng::with_seed(3);
                    while !stop.load(Ordering::SeqCst) {
                        let mut starts: Vec<f64> = (0..boundaries).map(|_| random.f64()).collect();
                        starts.sort_unstable_by(f64::total_cmp);
                        db.repartition(&starts).expect("it moves");
                        thread::sleep(Duration::from_micros(100));
                    }
                });
                adds_are_exact(&db, &table, || true);
                stop.store(true, Ordering::SeqCst);
            });
        });
    }
}
