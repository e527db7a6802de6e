//! What an attempt asks for at the desk, when it gives that up, and what it reserves.

use std::sync::{Arc, OnceLock};

use crossbeam_epoch::pin;
use parking_lot::Mutex;
use smallvec::smallvec;

use super::super::attempt::Target;
use super::super::footprint::{Footprint, Mode, Reference};
use super::super::local::claim::Want;
use super::super::local::{Denied, Desk, Grant, OwnerId};
use super::*;
use crate::error::Error;
use crate::storage::definition::TableDefinition;
use crate::storage::rig::{Rig, TABLE};
use crate::storage::worker_context::Memory;
use crate::types::{DataType, Value, ValueRef};

/// Rows 0 to 3, each with 10.
fn rig() -> Rig {
    let definition = TableDefinition::new("t").column("id", DataType::Int64).column("n", DataType::Int64);
    let rig = Rig::new(definition.primary_key(["id"]).index("by n", ["n"]));
    for key in 0..4 {
        rig.commit(|writer| writer.insert(&[Value::Int(key), Value::Int(10)])).expect("committed");
    }
    rig.seal();
    rig
}

/// Grants everything, or denies it; remembers what was asked for.
#[derive(Default)]
struct OneDesk {
    denies: Mutex<Option<Denied>>,
    asked: Mutex<Vec<Vec<Want>>>,
    given_back: Mutex<usize>,
}

impl Desk for OneDesk {
    fn start_timestamp(&self) -> u64 {
        1
    }

    fn lock(&self, wants: Vec<Want>, start_timestamp: u64, _room: &mut usize) -> Result<Grant, Denied> {
        assert_eq!(start_timestamp, 1);
        self.asked.lock().push(wants);
        match self.denies.lock().take() {
            Some(denied) => Err(denied),
            None => Ok(Grant { owner: OwnerId::new(), executors: smallvec![0], took_room: false }),
        }
    }

    fn release(&self, _grant: Grant, _room: &mut usize) {
        *self.given_back.lock() += 1;
    }
}

/// What comes of an attempt, and what it has asked for.
struct Outcome {
    committed: String,
    asked: Vec<Vec<Want>>,
    given_back: usize,
    reserved: u64,
}

fn outcome(
    denies: Option<Denied>,
    footprint: Option<&Footprint>,
    number: u32,
    body: impl FnOnce(&Rig, &Attempt<'_>, &dyn Fn(i64) -> Vec<u8>),
) -> Outcome {
    let (rig, guard, desk) = (rig(), pin(), Arc::new(OneDesk::default()));
    *desk.denies.lock() = denies;
    let protocol = Partitioned { desk: OnceLock::from(Arc::clone(&desk) as Arc<dyn Desk>) };
    let mut slot_guard = rig.store.worker_contexts().take();
    let (worker_context, memory) = slot_guard.parts();
    let Memory { workspace, reads, arena } = memory;
    workspace.log_credit = usize::MAX / 2;
    let mut held = Held::default();
    let attempt = Attempt::new(&rig.store, worker_context, &guard, arena, workspace, reads, &mut held, None);
    if number > 1 {
        // A call is born with its first attempt.
        protocol.begin(&attempt, footprint, Try { number: 1, code: 0 });
        protocol.end(&attempt);
    }
    protocol.begin(&attempt, footprint, Try { number, code: 0 });
    let key = |id: i64| rig.table.encode_key(&[id.into()], true).expect("an integer").to_vec();
    body(&rig, &attempt, &key);
    let committed = format!("{:?}", protocol.commit(&attempt).map(|stamp| stamp.is_some()));
    protocol.end(&attempt);
    drop(attempt);
    let reserved = worker_context.counters.locks_row.load(crate::base::atomics::Ordering::Relaxed);
    let given_back = *desk.given_back.lock();
    Outcome { committed, asked: std::mem::take(&mut *desk.asked.lock()), given_back, reserved }
}

fn target<'t, 'a>(rig: &'t Rig, key: &'t [u8]) -> Target<'t, 'a> {
    Target { table: &rig.table, key, hash: rig.table.hash(key), found: None, declared: false }
}

/// Reads row 0, changes row 1, deletes row 2, inserts row 9.
fn some_of_everything(rig: &Rig, attempt: &Attempt<'_>, key: &dyn Fn(i64) -> Vec<u8>) {
    attempt.exists(&target(rig, &key(0))).expect("readable");
    attempt.update(&target(rig, &key(1)), &[(1, ValueRef::Int(5))]).expect("it is there");
    attempt.delete(&target(rig, &key(2))).expect("it is there");
    attempt.insert(&target(rig, &key(9)), &[ValueRef::Int(9), ValueRef::Int(1)]).expect("it is not there");
}

fn look(rig: &Rig, attempt: &Attempt<'_>, key: &dyn Fn(i64) -> Vec<u8>) {
    assert_eq!(attempt.exists(&target(rig, &key(3))), Ok(true));
}

#[test]
fn a_closure_asks_at_its_commit_for_the_rows_that_it_writes_and_for_no_index_record() {
    let done = outcome(None, None, 1, some_of_everything);
    assert_eq!(done.committed, "Ok(true)");
    assert_eq!((done.asked.len(), done.given_back), (1, 1));
    let mut wants = done.asked[0].clone();
    wants.sort_by(|one, other| one.identifier.cmp(&other.identifier));
    assert_eq!(wants.len(), 3);
    assert!(wants.iter().all(|want| want.whole && want.exclusive && want.place.is_some()));
    assert!(wants.iter().all(|want| want.identifier.table == Some(TABLE)));
    assert_eq!(done.reserved, 2, "what goes and what comes in");
}

#[test]
fn who_only_reads_asks_for_nothing() {
    let done = outcome(None, None, 1, look);
    assert_eq!((&*done.committed, done.asked.len(), done.given_back, done.reserved), ("Ok(false)", 0, 0, 0));
}

#[test]
fn a_procedure_asks_for_nothing_because_executors_have_locked_for_it() {
    let footprint = Footprint {
        references: vec![Reference { table: TABLE, mode: Mode::Write, ..Reference::default() }],
        writes: true,
        ..Footprint::default()
    };
    let done = outcome(None, Some(&footprint), 1, some_of_everything);
    assert_eq!((&*done.committed, done.asked.len(), done.reserved), ("Ok(true)", 0, 2));
}

#[test]
fn a_closure_that_has_failed_often_asks_for_everything_before_it_runs() {
    let done = outcome(None, None, ATTEMPTS_IN_COMPANY + 1, some_of_everything);
    assert_eq!(done.committed, "Ok(true)");
    assert_eq!(done.asked, [vec![Want::of_everything()]]);
    assert_eq!(done.given_back, 1);
}

#[test]
fn who_is_denied_changes_nothing_and_holds_nothing() {
    let done = outcome(Some(Denied::Deadlock), None, 1, some_of_everything);
    assert_eq!(done.committed, "Err(Conflict)");
    assert_eq!((done.given_back, done.reserved), (0, 0));
    let done = outcome(Some(Denied::Refused(Error::Closed)), None, 1, some_of_everything);
    assert!(done.committed.starts_with("Err(Refused(Closed"), "{}", done.committed);
    assert_eq!((done.asked.len(), done.given_back, done.reserved), (1, 0, 0));
}

/// Executors wait before a closed gate, and who has not got all locks may have to wait for executors yet.
#[test]
fn who_was_refused_everything_closes_no_gate() {
    for denied in [Denied::Deadlock, Denied::Refused(Error::Closed)] {
        let done = outcome(Some(denied), None, ATTEMPTS_IN_COMPANY + 1, |rig, attempt, key| {
            assert!(!attempt.is_alone());
            some_of_everything(rig, attempt, key);
        });
        assert_eq!(done.committed, "Ok(true)");
        assert_eq!((&done.asked[0], done.asked[1].len()), (&vec![Want::of_everything()], 3));
        assert_eq!(done.given_back, 1);
    }
}

#[test]
fn what_an_index_shows_is_validated_and_what_only_the_key_shows_is_not() {
    for unrouted in [false, true] {
        let reference = Reference { table: TABLE, mode: Mode::Write, unrouted, ..Reference::default() };
        let footprint = Footprint { references: vec![reference], writes: true, ..Footprint::default() };
        let done = outcome(None, Some(&footprint), 1, |rig, attempt, key| {
            attempt.exists(&target(rig, &key(3))).expect("readable");
            attempt.update(&target(rig, &key(1)), &[(1, ValueRef::Int(5))]).expect("it is there");
            // Nobody does so who respects the local locks.
            rig.commit(|writer| writer.delete(3)).expect("committed");
        });
        assert_eq!(done.committed, if unrouted { "Err(Conflict)" } else { "Ok(true)" });
    }
}
