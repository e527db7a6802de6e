//! Snapshots beside commits: what they contain, that nothing they need is missing, and that nothing is left behind.

use std::sync::Arc;
use std::thread;

use crossbeam_epoch::pin;
use heddle_model_doors::execution::prepare;

use super::stand::Stand;
use super::{LARGE, MIDDLE, Model};
use crate::protocol::ProtocolKind;
use crate::storage::versions::{Found, OpenSnapshot};
use crate::storage::worker_context::WorkerContext;

pub(super) const MODELS: &[Model] =
    &[Model::new("snapshots::all_or_nothing_of_a_commit", LARGE, all_or_nothing_of_a_commit)];

/// Models that touch words for the first time while threads run, as versions and registrations do: for the
/// random checker.
pub(super) const RANDOM: &[Model] = &[
    Model::new("snapshots::a_reader_beside_an_install", MIDDLE, a_reader_beside_an_install),
    Model::new("snapshots::a_reader_beside_an_operation", MIDDLE, a_reader_beside_an_operation),
    Model::new("snapshots::no_commit_misses_a_registration", LARGE, no_commit_misses_a_registration),
    Model::new(
        "snapshots::a_close_beside_a_commit_leaves_nothing",
        LARGE,
        a_close_beside_a_commit_leaves_nothing,
    ),
    Model::new("snapshots::a_deleted_row_comes_in_again", LARGE, a_deleted_row_comes_in_again),
];

const KIND: ProtocolKind = ProtocolKind::Optimistic;

impl Stand {
    /// Registers a snapshot of the present epoch.
    fn register(&self) -> Arc<OpenSnapshot> {
        self.store.versions().open(self.store.epochs().current())
    }

    /// Ends the present epoch, as the log stage does.
    fn end_epoch(&self) {
        let epoch = self.store.epochs().advance();
        self.store.epochs().seal(epoch, self.store.worker_contexts().all().map(WorkerContext::published));
    }

    fn close(&self, snapshot: &OpenSnapshot) {
        self.store.versions().close(snapshot);
    }

    /// The row of a key in a snapshot.
    fn in_snapshot(&self, snapshot: &OpenSnapshot, id: i64) -> Option<(u64, u64)> {
        let guard = pin();
        let key = self.table.encode_key(&[id.into()], true).expect("an integer key");
        let record = self.table.find_ahead(self.table.hash(&key), &key, &guard)?;
        let mut words = vec![0; self.table.layout().words()];
        match self.store.versions().read(self.table.layout(), record, snapshot.epoch(), &mut words) {
            Found::Row(_) => Some((words[2], words[3])),
            Found::Nothing(_) => None,
        }
    }

    fn is_empty(&self) -> bool {
        let counts = self.store.versions().counts();
        (counts.snapshots, counts.versions, counts.bytes) == (0, 0, 0)
    }
}

fn beside<T: Send + 'static>(
    stand: &Arc<Stand>,
    run: impl FnOnce(&Stand) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let stand = stand.clone();
    thread::spawn(move || run(&stand))
}

/// A stand with a snapshot of these rows, whose epoch has ended. Memory that threads will share was touched
/// by another snapshot.
fn with_snapshot(rows: &[(i64, i64, i64)]) -> (Arc<Stand>, Arc<OpenSnapshot>) {
    let stand = Stand::new(KIND, rows);
    let snapshot = prepare(|| {
        let first = stand.register();
        stand.end_epoch();
        for &(id, left, right) in rows {
            stand.transact(|body| body.add(id, 0));
            assert_eq!(stand.in_snapshot(&first, id), Some((left as u64, right as u64)));
        }
        stand.close(&first);
        let snapshot = stand.register();
        stand.end_epoch();
        snapshot
    });
    (stand, snapshot)
}

/// A commit changes both columns while a reader looks: the reader sees the row of its epoch, wherever the install is.
fn a_reader_beside_an_install() {
    let (stand, snapshot) = with_snapshot(&[(1, 3, 3)]);
    let writer = beside(&stand, |stand| stand.transact(|body| body.set(1, 5, 5)));
    assert_eq!(stand.in_snapshot(&snapshot, 1), Some((3, 3)));
    writer.join().expect("it commits");
    assert_eq!(stand.in_snapshot(&snapshot, 1), Some((3, 3)));
}

/// A commit in a straight line adds to a column while a reader looks: the reader sees the row of its epoch.
fn a_reader_beside_an_operation() {
    let (stand, snapshot) = with_snapshot(&[(1, 3, 3)]);
    let writer = beside(&stand, |stand| stand.transact(|body| body.add(1, 4)));
    assert_eq!(stand.in_snapshot(&snapshot, 1), Some((3, 3)));
    writer.join().expect("it commits");
    assert_eq!(stand.in_snapshot(&snapshot, 1), Some((3, 3)));
}

/// The snapshot is registered, and its epoch ends while a commit is under way: it contains all of the commit or nothing.
fn all_or_nothing_of_a_commit() {
    let stand = Stand::new(KIND, &[(1, 0, 0), (2, 0, 0)]);
    let snapshot = prepare(|| stand.register());
    let writer = beside(&stand, |stand| {
        stand.transact(|body| body.set(1, 5, 5).and_then(|()| body.set(2, 5, 5)));
    });
    stand.end_epoch();
    let rows = [1, 2].map(|id| stand.in_snapshot(&snapshot, id));
    assert!(rows[0] == rows[1], "half a commit: {rows:?}");
    writer.join().expect("it commits");
    assert_eq!([1, 2].map(|id| stand.in_snapshot(&snapshot, id)), rows, "it has changed");
}

/// The log stage registers a snapshot and ends the epoch beside two commits; afterwards it shows one moment, for good.
fn no_commit_misses_a_registration() {
    let stand = Stand::new(KIND, &[(1, 0, 0), (2, 0, 0)]);
    let other = beside(&stand, |stand| {
        stand.transact(|body| body.add(1, 1).and_then(|()| body.add(2, 1)));
        stand.transact(|body| body.add(1, 1).and_then(|()| body.add(2, 1)));
    });
    let log = beside(&stand, |stand| {
        let snapshot = stand.register();
        stand.end_epoch();
        let rows = [1, 2].map(|id| stand.in_snapshot(&snapshot, id));
        assert!(rows[0] == rows[1], "half a commit: {rows:?}");
        (snapshot, rows)
    });
    other.join().expect("it commits");
    let (snapshot, rows) = log.join().expect("no panic");
    assert_eq!([1, 2].map(|id| stand.in_snapshot(&snapshot, id)), rows, "it has changed");
    stand.close(&snapshot);
    assert!(stand.is_empty());
}

/// A snapshot is closed while a commit preserves for it, and another one is open.
fn a_close_beside_a_commit_leaves_nothing() {
    let (stand, older) = with_snapshot(&[(1, 3, 3)]);
    let newer = prepare(|| {
        let newer = stand.register();
        stand.end_epoch();
        newer
    });
    let writer = beside(&stand, |stand| stand.transact(|body| body.set(1, 5, 5)));
    let closer = beside(&stand, move |stand| stand.close(&newer));
    assert_eq!(stand.in_snapshot(&older, 1), Some((3, 3)));
    writer.join().expect("it commits");
    closer.join().expect("it is closed");
    assert_eq!(stand.in_snapshot(&older, 1), Some((3, 3)));
    stand.close(&older);
    assert!(stand.is_empty());
}

/// A row is deleted and inserted again while its snapshot is read and then closed.
fn a_deleted_row_comes_in_again() {
    let (stand, snapshot) = with_snapshot(&[(1, 3, 3)]);
    let writer = beside(&stand, |stand| {
        assert!(stand.transact(|body| body.delete(1)));
        stand.end_epoch();
        stand.transact(|body| body.insert(1, 9, 9));
    });
    assert_eq!(stand.in_snapshot(&snapshot, 1), Some((3, 3)));
    stand.close(&snapshot);
    writer.join().expect("it commits");
    assert_eq!(stand.transact(|body| body.get(1)), Some((9, 9)));
    assert!(stand.is_empty());
}
