//! The executors that each transaction uses under `partitioned`, and its central locks.

use heddledb::{Durability, Options, PartitionedOptions, Statistics};

use super::*;
use crate::workload::next_calls;

const EXECUTORS: u64 = 4;

fn partitioned() -> Options {
    let options = Options::default().protocol(PartitionedOptions::default().executors(EXECUTORS as usize));
    options.durability(Durability::None)
}

/// Calls a transaction one by one, and passes on what each call has cost.
fn each_call_of(place: usize, probe_records: u32, mut look: impl FnMut(bool, Statistics)) {
    let settings =
        Tatp { subscribers: 300, transactions: Transactions::Only(place), probe_records, ..Tatp::default() };
    let db = Database::in_memory_with(partitioned()).unwrap();
    settings.load(&db).unwrap();
    let bound = settings.bind(&db, 1).unwrap();
    let mut generator = bound.generator(1, 0).unwrap();
    let calls = next_calls(generator.as_mut(), 100);
    for number in 0..calls.len() {
        let call = calls.get(number).unwrap();
        let before = db.statistics();
        let committed = db.call(&generator.procedures()[place], call.args.clone()).is_ok();
        look(committed, db.statistics() - before);
    }
    assert_eq!(settings.check(&db, None), Ok(()));
}

#[test]
fn each_transaction_uses_one_executor_in_each_phase() {
    for (place, name) in Tatp::TRANSACTIONS.iter().enumerate() {
        let most = if place <= transaction::UPDATE_SUBSCRIBER_DATA { 1 } else { 2 };
        let mut committed_once = false;
        each_call_of(place, 1, |committed, cost| {
            committed_once |= committed;
            assert!((1..=most).contains(&cost.execute_batches.1), "{name}: {cost:?}");
            assert_eq!(cost.aborted, 0, "{name}");
        });
        assert!(committed_once, "{name}");
    }
}

#[test]
fn records_found_by_number_are_locked_each_by_its_owner() {
    for records in [10, 100] {
        each_call_of(transaction::UPDATE_BY_NUMBER, records, |committed, cost| {
            assert!(committed);
            assert!((2..=1 + EXECUTORS).contains(&cost.execute_batches.1), "{cost:?}");
            assert_eq!((cost.lock_requests_local, cost.locks_row), (u64::from(records), 0));
        });
    }
}

#[test]
fn nothing_is_locked_centrally() {
    for (place, name) in Tatp::TRANSACTIONS.iter().enumerate() {
        each_call_of(place, 1, |_, cost| {
            assert_eq!((cost.locks_row, cost.locks_higher), (0, 0), "{name}");
        });
    }
}
