//! The limits of a group: how many transactions it has, and how long it waits.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use heddledb::testing::SimulatedDisk;
use heddledb::{Durability, args, key};

use super::wait_until;
use crate::support::logged::*;

#[test]
fn a_group_never_has_more_transactions_than_its_limit() {
    for (limit, durability) in [(1, Durability::Group), (3, Durability::Group), (5, Durability::Async)] {
        let disk = SimulatedDisk::new();
        let bank = bank_with(
            options(&disk)
                .log(|log| log.group_size(limit))
                .durability(durability)
                .log(|log| log.group_milliseconds(5.0)),
        );
        let shared = Arc::new(bank);
        let threads: Vec<_> = (1..7)
            .map(|id| {
                let bank = shared.clone();
                thread::spawn(move || {
                    for value in 1..=10 {
                        bank.db
                            .run(|tx| {
                                let change = tx.update(&bank.items, key![id], &[("value", value.into())]);
                                // Some bodies see groups close around them.
                                thread::sleep(Duration::from_micros(300 * (id as u64 % 3)));
                                change
                            })
                            .expect("committed");
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        let sizes = group_sizes(shared, &disk);
        assert!(sizes.iter().all(|&size| size <= limit as u64), "limit {limit}: {sizes:?}");
    }
}

/// Closes the database, and reads how many transactions each group of its log has, from a copy that is cut behind
/// one group after the other.
fn group_sizes(bank: Arc<Bank>, disk: &SimulatedDisk) -> Vec<u64> {
    let bank = Arc::into_inner(bank).expect("the threads have ended");
    bank.db.close().expect("durable");
    let log = disk.bytes(&segment(1)).expect("small enough for one segment");
    let mut sizes = Vec::new();
    let mut before = 0;
    for page in 2..log.len() / 4_096 {
        if log[page * 4_096 - 4_096..][..4] == [0; 4] {
            break;
        }
        let copy = disk.crash_image(0);
        let mut cut = log.clone();
        cut[page * 4_096..].fill(0);
        copy.put_bytes(&segment(1), cut).expect("there");
        let recovered = open(&copy).expect("a beginning of the log");
        sizes.push(recovered.recovery().transactions - before);
        before = recovered.recovery().transactions;
    }
    sizes
}

#[test]
fn a_reader_is_not_delayed_by_a_full_group() {
    let disk = SimulatedDisk::new();
    let bank = Arc::new(bank_with(options(&disk).log(|log| log.group_size(1))));
    bank.wait_for_segments(&disk);
    let held = HeldSyncs::of(&disk);
    let mut worker = bank.db.worker().expect("open");
    let first = worker.execute(&bank.set, args![1, 5]);
    disk.wait_for_held_syncs(1);
    let second = worker.execute(&bank.set, args![2, 5]);
    let (reported, hears) = std::sync::mpsc::channel();
    let reader = {
        let bank = bank.clone();
        thread::spawn(move || reported.send(bank.value(9)))
    };
    let read = hears.recv_timeout(Duration::from_secs(60));
    held.release();
    assert_eq!(read, Ok(Ok(Some(0))), "a reader of durable data waits for a group");
    reader.join().expect("no panic").expect("the receiver is open");
    assert!(first.wait().is_ok() && second.wait().is_ok());
}

#[test]
fn with_async_a_group_waits_for_its_time_and_no_longer() {
    let disk = SimulatedDisk::new();
    let options = options(&disk).durability(Durability::Async).log(|log| log.group_milliseconds(150.0));
    let bank = bank_with(options);
    wait_until("the first group", || bank.db.statistics().log_groups > 0);
    // Everything here fits into few groups; without the group's time there would be one for nearly each.
    let before = bank.db.statistics();
    let start = Instant::now();
    for value in 0..200 {
        bank.db
            .run(|tx| tx.update(&bank.items, key![1], &[("value", value.into())]))
            .expect("reported at once");
    }
    wait_until("all are written", || {
        let written = bank.db.statistics() - before;
        written.log_transactions >= 200
    });
    let written = bank.db.statistics() - before;
    let longest = start.elapsed().as_millis() as u64 / 150 + 2;
    assert!(written.log_groups <= longest, "{} groups in {:?}", written.log_groups, start.elapsed());
}
