//! Local locks that an attempt acquires from outside of the executors, their release, and the log space that is
//! reserved.

use std::sync::{Arc, OnceLock};

use crossbeam_epoch::pin;
use parking_lot::Mutex;
use smallvec::smallvec;

use super::super::attempt::Target;
use super::super::footprint::{Footprint, Mode, Reference};
use super::super::local::local_lock::LocalLock;
use super::super::local::{Denied, ExternalLocks, Grant, OwnerId};
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

/// Grants or denies every request, and records it.
#[derive(Default)]
struct Recorder {
    denies: Mutex<Option<Denied>>,
    requests: Mutex<Vec<Vec<LocalLock>>>,
    releases: Mutex<usize>,
}

impl ExternalLocks for Recorder {
    fn start_timestamp(&self) -> u64 {
        1
    }

    fn acquire(
        &self,
        locks: Vec<LocalLock>,
        start_timestamp: u64,
        _log_credit: &mut usize,
    ) -> Result<Grant, Denied> {
        assert_eq!(start_timestamp, 1);
        self.requests.lock().push(locks);
        match self.denies.lock().take() {
            Some(denied) => Err(denied),
            None => Ok(Grant { owner: OwnerId::new(), executors: smallvec![0], reserved_log_space: false }),
        }
    }

    fn release(&self, _grant: Grant, _log_credit: &mut usize) {
        *self.releases.lock() += 1;
    }
}

/// The outcome of an attempt, and its lock requests.
struct Outcome {
    committed: String,
    requests: Vec<Vec<LocalLock>>,
    releases: usize,
}

fn outcome(
    denies: Option<Denied>,
    footprint: Option<&Footprint>,
    number: u32,
    body: impl FnOnce(&Rig, &Attempt<'_>, &dyn Fn(i64) -> Vec<u8>),
) -> Outcome {
    let (rig, guard, recorder) = (rig(), pin(), Arc::new(Recorder::default()));
    *recorder.denies.lock() = denies;
    let protocol =
        Partitioned { external_locks: OnceLock::from(Arc::clone(&recorder) as Arc<dyn ExternalLocks>) };
    let mut slot_guard = rig.store.worker_contexts().take();
    let (worker_context, memory) = slot_guard.parts();
    let Memory { workspace, reads, arena } = memory;
    workspace.log_credit = usize::MAX / 2;
    if footprint.is_some() {
        worker_context.be_executor(0);
    }
    let mut held = Held::default();
    let attempt = Attempt::new(&rig.store, worker_context, &guard, arena, workspace, reads, &mut held, None);
    if number > 1 {
        // The first attempt takes the start timestamp.
        protocol.begin(&attempt, footprint, Try { number: 1, code: 0 });
        protocol.end(&attempt);
    }
    protocol.begin(&attempt, footprint, Try { number, code: 0 });
    let key = |id: i64| rig.table.encode_key(&[id.into()], true).expect("an integer").to_vec();
    body(&rig, &attempt, &key);
    let committed = format!("{:?}", protocol.commit(&attempt).map(|stamp| stamp.is_some()));
    protocol.end(&attempt);
    drop(attempt);
    let releases = *recorder.releases.lock();
    Outcome { committed, requests: std::mem::take(&mut *recorder.requests.lock()), releases }
}

fn target<'t, 'a>(rig: &Rig, attempt: &Attempt<'a>, key: &'t [u8]) -> Target<'t, 'a> {
    let table = attempt.hold(&rig.table).expect("a table of the rig");
    Target { table, key, hash: rig.table.hash(key), found: None, declared: false }
}

/// Reads row 0, changes row 1, deletes row 2, inserts row 9.
fn some_of_everything(rig: &Rig, attempt: &Attempt<'_>, key: &dyn Fn(i64) -> Vec<u8>) {
    attempt.exists(&target(rig, attempt, &key(0))).expect("readable");
    attempt.update(&target(rig, attempt, &key(1)), &[(1, ValueRef::Int(5))]).expect("it is there");
    attempt.delete(&target(rig, attempt, &key(2))).expect("it is there");
    attempt
        .insert(&target(rig, attempt, &key(9)), &[ValueRef::Int(9), ValueRef::Int(1)])
        .expect("it is not there");
}

fn look(rig: &Rig, attempt: &Attempt<'_>, key: &dyn Fn(i64) -> Vec<u8>) {
    assert_eq!(attempt.exists(&target(rig, attempt, &key(3))), Ok(true));
}

#[test]
fn a_closure_locks_the_rows_that_it_writes_at_its_commit_and_no_index_records() {
    let done = outcome(None, None, 1, some_of_everything);
    assert_eq!(done.committed, "Ok(true)");
    assert_eq!((done.requests.len(), done.releases), (1, 1));
    let mut locks = done.requests[0].clone();
    locks.sort_by(|one, other| one.identifier.cmp(&other.identifier));
    assert_eq!(locks.len(), 3);
    assert!(locks.iter().all(|lock| lock.whole && lock.exclusive && lock.partition_hash.is_some()));
    assert!(locks.iter().all(|lock| lock.identifier.table == Some(TABLE)));
}

#[test]
fn a_closure_that_only_reads_acquires_no_locks() {
    let done = outcome(None, None, 1, look);
    assert_eq!((&*done.committed, done.requests.len(), done.releases), ("Ok(false)", 0, 0));
}

#[test]
fn a_procedure_acquires_no_locks_because_its_executors_have_granted_them() {
    let footprint = Footprint {
        references: vec![Reference { table: TABLE, mode: Mode::Write, ..Reference::default() }],
        writes: true,
        ..Footprint::default()
    };
    let done = outcome(None, Some(&footprint), 1, some_of_everything);
    assert_eq!((&*done.committed, done.requests.len()), ("Ok(true)", 0));
}

#[test]
fn a_closure_that_has_aborted_often_locks_everything_before_it_runs() {
    let done = outcome(None, None, MAX_OPTIMISTIC_ATTEMPTS + 1, some_of_everything);
    assert_eq!(done.committed, "Ok(true)");
    assert_eq!(done.requests, [vec![LocalLock::on_everything()]]);
    assert_eq!(done.releases, 1);
}

#[test]
fn a_denied_closure_changes_nothing_and_holds_nothing() {
    let done = outcome(Some(Denied::Deadlock), None, 1, some_of_everything);
    assert_eq!(done.committed, "Err(Conflict)");
    assert_eq!(done.releases, 0);
    let done = outcome(Some(Denied::Refused(Error::Closed)), None, 1, some_of_everything);
    assert!(done.committed.starts_with("Err(Refused(Closed"), "{}", done.committed);
    assert_eq!((done.requests.len(), done.releases), (1, 0));
}

/// Executors wait for a closed gate, and a closure without its locks may still have to wait for executors.
#[test]
fn a_closure_that_is_denied_everything_leaves_the_gate_open() {
    for denied in [Denied::Deadlock, Denied::Refused(Error::Closed)] {
        let done = outcome(Some(denied), None, MAX_OPTIMISTIC_ATTEMPTS + 1, |rig, attempt, key| {
            assert!(!attempt.is_alone());
            some_of_everything(rig, attempt, key);
        });
        assert_eq!(done.committed, "Ok(true)");
        assert_eq!((&done.requests[0], done.requests[1].len()), (&vec![LocalLock::on_everything()], 3));
        assert_eq!(done.releases, 1);
    }
}

#[test]
fn reads_are_validated_where_the_table_has_secondary_indexes() {
    for has_secondary_indexes in [false, true] {
        let reference =
            Reference { table: TABLE, mode: Mode::Write, has_secondary_indexes, ..Reference::default() };
        let footprint = Footprint { references: vec![reference], writes: true, ..Footprint::default() };
        let done = outcome(None, Some(&footprint), 1, |rig, attempt, key| {
            attempt.exists(&target(rig, attempt, &key(3))).expect("readable");
            attempt.update(&target(rig, attempt, &key(1)), &[(1, ValueRef::Int(5))]).expect("it is there");
            // A writer that ignores the local locks.
            rig.commit(|writer| writer.delete(3)).expect("committed");
        });
        assert_eq!(done.committed, if has_secondary_indexes { "Err(Conflict)" } else { "Ok(true)" });
    }
}
