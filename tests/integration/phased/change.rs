//! Columns are split, split for another operation, and not split any more, by what calls do to them: no labels.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use heddledb::{Database, Error, PhaseReport, Result, SplitOperation, Table, Tx, key};

use crate::support::split::*;

const THREADS: i64 = 4;
/// The operation of all threads on the one key.
const ADD: u8 = 0;
const MAX: u8 = 1;
const READ: u8 = 2;
/// Every this many calls one is slow.
const SLOW: i64 = 16;
/// The least time of each kind of use.
const LEAST: Duration = Duration::from_millis(300);

/// Changes the key's row, of which it has seen another column. Some calls lose the processor in the middle: so that they
/// conflict in joined phases, whatever the machine has to do besides.
fn changed(db: &Database, table: &Table, is_slow: bool, change: impl Fn(&Tx<'_, '_>) -> Result<()>) {
    db.run(|tx| {
        tx.get(table, key![1])?.ok_or(Error::Closed)?.int("plain")?;
        if is_slow {
            thread::yield_now();
        }
        change(tx)
    })
    .expect("committed");
}

fn use_the_key(db: &Database, table: &Table, what: &AtomicU8, stop: &AtomicBool, thread: i64) -> i64 {
    let mut added = 0;
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let is_slow = number % SLOW == 0;
        match what.load(Ordering::Relaxed) {
            ADD => {
                changed(db, table, is_slow, |tx| tx.add(table, key![1], "n", 1));
                added += 1;
            }
            // Not above what has been added, so that the sum can be checked at the end.
            MAX => changed(db, table, is_slow, |tx| tx.max(table, key![1], "n", -number - thread)),
            _ => {
                let n = db.run(|tx| tx.get(table, key![1])?.ok_or(Error::Closed)?.int("n"));
                assert!(n.is_ok_and(|n| n >= added));
            }
        }
    }
    added
}

/// Returns true if the column is split now for this operation.
fn is_split_for(report: &PhaseReport, operation: SplitOperation) -> bool {
    report.columns.iter().any(|column| column.now && column.operation == operation)
}

#[test]
fn one_key_is_split_for_add_then_for_max_and_then_not_at_all() {
    in_time(|| {
        let (db, table) = in_memory(5.0);
        let (what, stop) = (AtomicU8::new(ADD), AtomicBool::new(false));
        thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|thread| {
                    let (db, table, what, stop) = (&db, &table, &what, &stop);
                    scope.spawn(move || use_the_key(db, table, what, stop, thread))
                })
                .collect();
            for (next, operation) in [(MAX, SplitOperation::ADD), (READ, SplitOperation::MAX)] {
                let begun = Instant::now();
                wait_until(&format!("the column is split for {operation}"), || {
                    is_split_for(&report(&db), operation) && begun.elapsed() >= LEAST
                });
                what.store(next, Ordering::Relaxed);
            }
            let mut seen = (report(&db).split, Instant::now());
            wait_until("no split phase comes any more", || {
                let split = report(&db).split;
                if split != seen.0 {
                    seen = (split, Instant::now());
                }
                seen.1.elapsed() >= LEAST
            });
            assert!(!is_split(&db), "{:?}", report(&db));
            stop.store(true, Ordering::Relaxed);
            let added: i64 = threads.into_iter().map(|thread| thread.join().expect("no panic")).sum();
            assert_eq!(int(&db, &table, 1, "n"), Ok(added));
        });
        let report = report(&db);
        assert!(report.columns.iter().all(|column| column.key == "1" && column.column == "n"), "{report:?}");
    });
}
