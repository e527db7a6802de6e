//! Snapshots where the disk fails or is full, beside checkpoints, and over a restart.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use heddledb::testing::{Fault, Operation, SimulatedDisk};
use heddledb::{Error, ProtocolKind, Range, Snapshot, args, key, row};

use crate::support::logged::*;

fn value(bank: &Bank, snapshot: &Snapshot, id: i64) -> heddledb::Result<Option<i64>> {
    snapshot.get(&bank.items, key![id])?.map(|row| row.int("value")).transpose()
}

fn protocols(what: &'static str, test: impl Fn(ProtocolKind) + Copy + Send + 'static) {
    for &protocol in ProtocolKind::ALL {
        println!("{protocol}");
        in_time(what, move || test(protocol));
    }
}

#[test]
fn after_the_log_has_failed_snapshots_show_what_is_durable() {
    protocols("a failed log", |protocol| {
        let disk = SimulatedDisk::new();
        let bank = bank_with(options(&disk).protocol(protocol));
        bank.wait_for_segments(&disk);
        bank.db.call(&bank.set, args![1, 1]).expect("durable");
        let before = bank.db.snapshot().expect("a snapshot");
        disk.fail_next(Operation::Sync, Fault::InputOutput);
        assert!(is_unknown(&bank.db.call(&bank.set, args![1, 2])));
        let after = bank.db.snapshot().expect("a snapshot after the failure");
        for _ in 0..2 {
            assert_eq!((value(&bank, &before, 1), value(&bank, &before, 9)), (Ok(Some(1)), Ok(Some(0))));
            assert_eq!(value(&bank, &after, 9), Ok(Some(0)));
            assert!(is_unknown(&value(&bank, &after, 1)));
            assert_eq!(before.scan(&bank.items, Range::all()).expect("a scan").count(), 9);
            assert!(after.scan(&bank.items, Range::all()).expect("a scan").any(|row| is_unknown(&row)));
            assert_eq!(after.exists(&bank.items, key![77]), Ok(false));
        }
        let ignored = bank.db.read(|snapshot| Ok(snapshot.scan(&bank.items, Range::all())?.count()));
        assert!(is_unknown(&ignored), "{ignored:?}");
        assert!(is_unknown(&bank.db.check()));
        assert!(is_unknown(&bank.db.clone().close()));
        assert_eq!(value(&bank, &before, 1), Ok(Some(1)), "it stays readable");
    });
}

/// A writer goes on until there is no space, where it is refused or waits for room. Snapshots are taken all the same.
#[test]
fn on_a_full_disk_snapshots_are_taken_and_read() {
    protocols("a full disk", |protocol| {
        let disk = SimulatedDisk::new();
        let bank = Arc::new(bank_with(small_options(&disk).protocol(protocol)));
        bank.wait_for_segments(&disk);
        disk.set_capacity(0);
        let (acknowledged, stop) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicBool::new(false)));
        let writer = {
            let (bank, acknowledged, stop) = (bank.clone(), acknowledged.clone(), stop.clone());
            std::thread::spawn(move || {
                let mut next = 1;
                while !stop.load(Ordering::SeqCst) {
                    match bank.db.call(&bank.set, args![1, next]) {
                        Ok(_) => {
                            acknowledged.store(next, Ordering::SeqCst);
                            next += 1;
                        }
                        Err(Error::NoLogSpace { .. } | Error::LogNotExtended { .. }) => {
                            std::thread::yield_now()
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
                next - 1
            })
        };
        let mut snapshots = Vec::new();
        for _ in 0..400 {
            let snapshot = bank.db.snapshot().expect("a snapshot");
            assert_eq!(value(&bank, &snapshot, 9), Ok(Some(0)), "what is durable is read without waiting");
            snapshots.push((snapshot, acknowledged.load(Ordering::SeqCst)));
        }
        disk.heal();
        let before = acknowledged.load(Ordering::SeqCst);
        while acknowledged.load(Ordering::SeqCst) < before + 10 {
            std::thread::yield_now();
        }
        stop.store(true, Ordering::SeqCst);
        let last = writer.join().expect("no panic");
        let mut values = Vec::new();
        for (number, (snapshot, _)) in snapshots.iter().enumerate() {
            let value = value(&bank, snapshot, 1).expect("it is durable by now").expect("a row");
            assert!(value <= snapshots[number].1 + 1, "it began after the snapshot was there");
            assert!(number == 0 || value >= snapshots[number - 1].1, "it was acknowledged before");
            values.push(value);
        }
        assert!(values.is_sorted() && values.iter().all(|&value| value <= last));
        bank.db.check().expect("consistent");
    });
}

/// Tests that nothing is released before it is durable; the snapshot itself is opened before that.
#[test]
fn a_snapshot_tells_nothing_before_it_is_durable() {
    protocols("held syncs", |protocol| {
        let disk = SimulatedDisk::new();
        let bank = Arc::new(bank_with(options(&disk).protocol(protocol).workers(2)));
        bank.wait_for_segments(&disk);
        let held = HeldSyncs::of(&disk);
        let writer = {
            let bank = bank.clone();
            std::thread::spawn(move || bank.db.call(&bank.set, args![1, 5]).map(drop))
        };
        // The write is in memory as soon as a reader meets it, and waits.
        let snapshot = {
            let bank = bank.clone();
            std::thread::spawn(move || {
                let snapshot = bank.db.snapshot().expect("a snapshot");
                let reported = value(&bank, &snapshot, 1).expect("it is released");
                (snapshot.epoch(), bank.db.durable_epoch(), reported)
            })
        };
        grace();
        held.release();
        writer.join().expect("no panic").expect("durable");
        let (_, durable, reported) = snapshot.join().expect("no panic");
        let stamped = bank.db.durable_epoch();
        assert!(matches!(reported, Some(0 | 5)), "{reported:?}");
        assert!(reported != Some(5) || durable > 0 && durable <= stamped);
        assert_eq!(bank.value(1), Ok(Some(5)));
    });
}

#[test]
fn checkpoints_and_restarts_know_nothing_of_snapshots() {
    protocols("a checkpoint", |protocol| {
        let disk = SimulatedDisk::new();
        let bank = bank_with(options(&disk).protocol(protocol));
        let old = bank.db.snapshot().expect("a snapshot");
        for id in 1..6 {
            bank.db.call(&bank.delete, args![id, 0]).expect("deleted");
        }
        bank.db
            .run(|tx| (100..300).try_for_each(|id| tx.insert(&bank.items, row![id, id, id])))
            .expect("rows");
        bank.db
            .run(|tx| (100..300).try_for_each(|id| tx.delete(&bank.items, key![id]).map(drop)))
            .expect("gone");
        bank.db.call(&bank.set, args![7, 70]).expect("set");
        bank.db.checkpoint().expect("a checkpoint");
        bank.db.call(&bank.set, args![8, 80]).expect("set");
        assert_eq!(old.scan(&bank.items, Range::all()).expect("a scan").count(), 9);
        let expected: Vec<_> = (6..10)
            .map(|id| {
                if id == 7 {
                    70
                } else if id == 8 {
                    80
                } else {
                    0
                }
            })
            .collect();
        for seed in 0..3 {
            let crashed = reopened_with(options(&disk.crash_image(seed)).protocol(protocol));
            let snapshot = crashed.db.snapshot().expect("a snapshot");
            let rows = snapshot.scan(&crashed.items, Range::all()).expect("a scan");
            let values: Vec<i64> =
                rows.map(|row| row.expect("a row").int("value").expect("a value")).collect();
            assert_eq!(values, expected);
            crashed.db.check().expect("consistent");
        }
        assert_eq!(value(&bank, &old, 3), Ok(Some(0)));
    });
}

#[test]
fn a_database_opened_for_reading_gives_snapshots() {
    protocols("reading only", |protocol| {
        let disk = SimulatedDisk::new();
        let bank = bank_with(options(&disk).protocol(protocol));
        bank.db.close().expect("closed");
        let reader = reopened_with(options(&disk).protocol(protocol).read_only(true));
        assert_eq!(reader.db.read(|snapshot| value(&reader, snapshot, 9)), Ok(Some(0)));
        let refused = reader.db.run(|tx| tx.add(&reader.items, key![9], "value", 1));
        assert_eq!(refused, Err(Error::ReadOnly));
    });
}
