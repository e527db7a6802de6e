//! The protocol seen from inside: what an attempt holds, and that nothing is left of it.

use std::ops::Bound;
use std::sync::{Arc, mpsc};
use std::thread;

use super::{ATTEMPTS_WITHOUT_WAITING, Holding, Locking};
use crate::error::Error;
use crate::lock::{LockManager, OnConflict};
use crate::protocol::attempt::Claim;
use crate::protocol::footprint::{Footprint, Mode, Reference};
use crate::protocol::{LockConflict, SerialVariant, Settings, Try};
use crate::storage::definition::TableDefinition;
use crate::storage::rig::{Rig, TABLE};
use crate::types::DataType;

const EVERYTHING: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Unbounded, Bound::Unbounded);

fn rig() -> Rig {
    let definition = TableDefinition::new("user")
        .column("id", DataType::Int64)
        .column("name", DataType::Text)
        .column("age", DataType::Int64)
        .primary_key(["id"])
        .unique_index("by_name", ["name"])
        .index("by_age", ["age"]);
    Rig::new(definition)
}

fn begun(manager: &Arc<LockManager>, on_conflict: OnConflict) -> Holding {
    let mut holding = Holding::default();
    holding.begin(manager, None, true, on_conflict);
    holding
}

/// A footprint of one action on this key.
fn footprint(key: &[u8], mode: Mode, whole: bool) -> Footprint {
    let reference = Reference { table: TABLE, key: key.into(), whole, mode, ..Reference::default() };
    Footprint { references: vec![reference], writes: mode != Mode::Read, ..Footprint::default() }
}

#[test]
fn a_table_and_its_indexes_have_locks_of_their_own() {
    let (rig, manager) = (rig(), Arc::new(LockManager::new()));
    let mut tables = vec![&*rig.table];
    tables.extend(rig.table.secondary().iter().map(|secondary| &*secondary.table));
    let mut holders = Vec::new();
    for table in tables {
        // All of them have one id, and the key is the same.
        assert_eq!(table.id(), TABLE);
        let mut holding = begun(&manager, OnConflict::Abort);
        holding.claim_key(table, b"one key", Claim::Insert).expect("it is free");
        assert_eq!(begun(&manager, OnConflict::Abort).claim_range(table, EVERYTHING), Err(Error::Conflict));
        holders.push(holding);
    }
    assert_eq!(holders.len(), 3);
    // The database once; for each of the three a table, a record, and a point.
    assert_eq!(manager.in_use(), (1 + 3 + 3, 3, 0));
    for holding in &mut holders {
        let taken = holding.end();
        assert_eq!((taken.rows, taken.gap_locks, taken.higher), (1, 1, 2));
    }
    assert_eq!(manager.in_use(), (0, 0, 0));
}

/// A secondary index, and a table without a hash index: their keys have no hash of the table's.
#[test]
fn every_key_has_a_lock_of_its_own_where_there_is_no_hash_index() {
    let (rig, manager) = (rig(), Arc::new(LockManager::new()));
    for secondary in rig.table.secondary() {
        let mut holding = begun(&manager, OnConflict::Abort);
        (0..100_u8)
            .for_each(|key| holding.claim_key(&secondary.table, &[key], Claim::Write).expect("it is free"));
        let mut other = begun(&manager, OnConflict::Abort);
        (100..200)
            .for_each(|key| other.claim_key(&secondary.table, &[key], Claim::Write).expect("it is free"));
        assert_eq!((holding.end().rows, other.end().rows), (100, 100));
    }
}

#[test]
fn a_denied_claim_dooms_the_attempt_and_only_that() {
    let (rig, manager) = (rig(), Arc::new(LockManager::new()));
    let mut other = begun(&manager, OnConflict::Abort);
    other.claim_key(&rig.table, b"a", Claim::Write).expect("it is free");
    let mut holding = begun(&manager, OnConflict::Abort);
    holding.claim_key(&rig.table, b"b", Claim::Read).expect("it is free");
    assert!(!holding.is_marked_for_abort());
    assert_eq!(holding.claim_key(&rig.table, b"a", Claim::Read), Err(Error::Conflict));
    assert!(holding.is_marked_for_abort());
    // Free keys, and those that it has itself.
    assert_eq!(holding.claim_key(&rig.table, b"c", Claim::Read), Err(Error::Conflict));
    assert_eq!(holding.claim_key(&rig.table, b"b", Claim::Read), Err(Error::Conflict));
    assert_eq!(holding.claim_range(&rig.table, EVERYTHING), Err(Error::Conflict));
    assert!(holding.is_marked_for_abort());
    holding.end();
    other.end();
    holding.begin(&manager, None, false, OnConflict::Abort);
    assert!(!holding.is_marked_for_abort());
    holding.claim_key(&rig.table, b"a", Claim::Write).expect("it is free again");
    holding.end();
    assert_eq!(manager.in_use(), (0, 0, 0));
}

#[test]
fn what_a_thread_holds_goes_with_it() {
    let (rig, manager) = (rig(), Arc::new(LockManager::new()));
    let mut holding = begun(&manager, OnConflict::Wait);
    holding.claim_key(&rig.table, b"a", Claim::Insert).expect("it is free");
    holding.claim_range(&rig.table, EVERYTHING).expect("no other transaction is in it");
    assert_eq!(manager.in_use(), (3, 1, 0));
    drop(holding);
    assert_eq!(manager.in_use(), (0, 0, 0));
}

#[test]
fn start_timestamps_are_kept_over_attempts_and_every_transaction_has_a_later_one() {
    let manager = Arc::new(LockManager::new());
    let mut holding = Holding::default();
    let mut last = 0;
    for _ in 0..3 {
        holding.begin(&manager, None, true, OnConflict::Wait);
        let start_timestamp = holding.start_timestamp();
        assert!(start_timestamp > last);
        for _ in 0..3 {
            holding.end();
            holding.begin(&manager, None, false, OnConflict::Wait);
            assert_eq!(holding.start_timestamp(), start_timestamp);
        }
        holding.end();
        last = start_timestamp;
    }
}

#[test]
fn what_is_declared_to_be_written_is_read_alone() {
    let (rig, manager) = (rig(), Arc::new(LockManager::new()));
    // A part of a key says nothing about one key.
    let cases = [
        (Mode::Read, true, true),
        (Mode::Write, true, false),
        (Mode::Commute, true, false),
        (Mode::Write, false, true),
    ];
    for (mode, whole, is_shared) in cases {
        let mut holding = Holding::default();
        let footprint = footprint(b"a", mode, whole);
        holding.begin(&manager, Some(&footprint), true, OnConflict::Abort);
        holding.claim_key(&rig.table, b"a", Claim::Read).expect("it is free");
        holding.claim_key(&rig.table, b"b", Claim::Read).expect("it is free");
        let mut other = begun(&manager, OnConflict::Abort);
        other.claim_key(&rig.table, b"b", Claim::Read).expect("it is shared");
        assert_eq!(other.claim_key(&rig.table, b"a", Claim::Read).is_ok(), is_shared, "{mode:?} {whole}");
        other.end();
        holding.end();
        // The next call has declared nothing of that.
        holding.begin(&manager, None, true, OnConflict::Abort);
        holding.claim_key(&rig.table, b"a", Claim::Read).expect("it is free");
        let mut other = begun(&manager, OnConflict::Abort);
        other.claim_key(&rig.table, b"a", Claim::Read).expect("it is shared");
        other.end();
        holding.end();
    }
    assert_eq!(manager.in_use(), (0, 0, 0));
}

#[test]
fn inserts_claim_a_point_and_updates_and_deletes_do_not() {
    let (rig, manager) = (rig(), Arc::new(LockManager::new()));
    let mut reader = begun(&manager, OnConflict::Abort);
    reader.claim_range(&rig.table, EVERYTHING).expect("it is free");
    for (what, allowed) in [(Claim::Read, true), (Claim::Write, true), (Claim::Insert, false)] {
        let mut other = begun(&manager, OnConflict::Abort);
        assert_eq!(other.claim_key(&rig.table, b"a", what).is_ok(), allowed, "{what:?}");
        // The range is asked before the record, so nothing is held that the reader could want.
        let taken = other.end();
        assert_eq!((taken.rows, taken.gap_locks), (u64::from(allowed), 0));
    }
    reader.end();
}

#[test]
fn locks_belong_to_the_database_of_the_attempt() {
    let (rig, managers) = (rig(), [Arc::new(LockManager::new()), Arc::new(LockManager::new())]);
    let mut holding = Holding::default();
    assert_eq!(holding.claim_key(&rig.table, b"a", Claim::Read), Err(Error::Conflict), "it has not begun");
    for manager in [&managers[0], &managers[1], &managers[0]] {
        holding.begin(manager, None, true, OnConflict::Wait);
        holding.claim_key(&rig.table, b"a", Claim::Write).expect("it is free");
        let others: Vec<_> = managers.iter().filter(|other| !Arc::ptr_eq(other, manager)).collect();
        assert_eq!(manager.in_use(), (3, 0, 0));
        assert!(others.iter().all(|other| other.in_use() == (0, 0, 0)));
        holding.end();
        assert_eq!(manager.in_use(), (0, 0, 0));
    }
    assert!(format!("{holding:?}").contains("marked_for_abort: false"));
}

#[test]
fn a_waiter_is_granted_and_a_deadlock_aborts_the_younger_attempt() {
    let (rig, manager) = (rig(), Arc::new(LockManager::new()));
    let mut older = begun(&manager, OnConflict::Wait);
    older.claim_key(&rig.table, b"a", Claim::Write).expect("it is free");
    thread::scope(|scope| {
        let (tell, has_begun) = mpsc::channel();
        let (rig, manager) = (&rig, &manager);
        let younger = scope.spawn(move || {
            let mut younger = begun(manager, OnConflict::Wait);
            younger.claim_key(&rig.table, b"b", Claim::Write).expect("it is free");
            tell.send(()).expect("the other one listens");
            let denied = younger.claim_key(&rig.table, b"a", Claim::Read);
            younger.end();
            younger.begin(manager, None, false, OnConflict::Wait);
            let granted = younger.claim_key(&rig.table, b"a", Claim::Read);
            younger.end();
            (denied, granted)
        });
        has_begun.recv().expect("the younger one begins");
        older.claim_range(&rig.table, EVERYTHING).expect("the gaps are unlocked");
        older.claim_key(&rig.table, b"b", Claim::Write).expect("the older one gets it");
        older.end();
        assert_eq!(younger.join().expect("it ends"), (Err(Error::Conflict), Ok(())));
    });
    assert_eq!(manager.in_use(), (0, 0, 0));
}

#[test]
fn no_wait_becomes_wait_after_many_attempts() {
    let settings = |lock_conflict| Settings {
        partitions: 1,
        serial_variant: SerialVariant::Sp,
        lock_conflict,
        phase: std::time::Duration::from_millis(20),
        max_worker_contexts: 4,
    };
    let [waits, gives_up] =
        [LockConflict::Wait, LockConflict::NoWait].map(|option| Locking::new(&settings(option)));
    for number in [1, 2, ATTEMPTS_WITHOUT_WAITING, ATTEMPTS_WITHOUT_WAITING + 1, u32::MAX] {
        assert_eq!(waits.on_conflict(Try { number, code: 0 }), OnConflict::Wait);
        let expected = if number <= ATTEMPTS_WITHOUT_WAITING { OnConflict::Abort } else { OnConflict::Wait };
        assert_eq!(gives_up.on_conflict(Try { number, code: 0 }), expected);
    }
}
