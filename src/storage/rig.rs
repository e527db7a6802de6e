//! A store without a pipeline, for the unit tests of this folder: commits, and what they leave in the redo buffers.

use std::cell::Cell;
use std::sync::Arc;

use crossbeam_epoch::{Guard, pin};

use crate::base::atomics::Ordering;
use crate::error::Result;
use crate::operation::Operation;
use crate::storage::commit::{CommitFailure, Committing, Excluded, WriteLocking, commit, commit_generally};
use crate::storage::definition::TableDefinition;
use crate::storage::epoch::FIRST;
use crate::storage::index::Lookup;
use crate::storage::reconcile::{Wanted, begin_split, end_split};
use crate::storage::record::{Record, RecordPointer};
use crate::storage::redo::split_transactions;
use crate::storage::restore::{Overlap, Tools, apply_share, scatter};
use crate::storage::split_columns::SplitSet;
use crate::storage::store::Store;
use crate::storage::table::TableCore;
use crate::storage::word::{ABSENT, Stamp};
use crate::storage::worker_context::{Memory, WorkerContext};
use crate::storage::workspace::{Placeholder, Workspace};
use crate::types::{Value, ValueRef};

/// The number of the one table.
pub(crate) const TABLE: u32 = 16;

/// A store with one table, whose key is one integer column.
pub(crate) struct Rig {
    pub(crate) store: Store,
    pub(crate) table: Arc<TableCore>,
}

/// The way of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The straight line, if it is the usual commit.
    Usual,
    /// The general way.
    General,
    /// The usual way, of a generation that is over when the commit begins.
    Late,
}

/// Takes records from rivals, some of whose columns may be split.
pub(crate) struct Splitting;

impl WriteLocking for Splitting {
    const EXCLUDED: bool = false;
    const SPLITS: bool = true;
}

/// One call's writes.
pub(crate) struct Writer<'r> {
    table: &'r TableCore,
    workspace: &'r mut Workspace,
    guard: &'r Guard,
}

impl Rig {
    pub(crate) fn new(definition: TableDefinition) -> Rig {
        definition.validate().expect("a sound definition");
        let store = Store::new(FIRST, 4, true);
        let table = store.add_table(TABLE, definition);
        Rig { store, table }
    }

    /// Commits these writes; `validate` says whether what was read still holds.
    pub(crate) fn commit_if(
        &self,
        validate: impl Fn() -> bool,
        writes: impl FnOnce(&mut Writer<'_>),
    ) -> Result<Stamp, CommitFailure> {
        self.commit_as(&Excluded, |_| validate(), writes)
    }

    /// Same as [`commit_if`](Self::commit_if), with records locked in this way, and a validation by which the call may
    /// meet more.
    pub(crate) fn commit_as<T: WriteLocking>(
        &self,
        taking: &T,
        validate: impl Fn(&Cell<Stamp>) -> bool,
        writes: impl FnOnce(&mut Writer<'_>),
    ) -> Result<Stamp, CommitFailure> {
        self.commit_in(Way::Usual, taking, validate, writes).0
    }

    /// Same as [`commit_as`](Self::commit_as), in this way; also returns the room in the log that is left to the call.
    pub(crate) fn commit_in<T: WriteLocking>(
        &self,
        way: Way,
        taking: &T,
        validate: impl Fn(&Cell<Stamp>) -> bool,
        writes: impl FnOnce(&mut Writer<'_>),
    ) -> (Result<Stamp, CommitFailure>, usize) {
        let guard = pin();
        let mut slot_guard = self.store.worker_contexts().take();
        let (worker_context, memory) = slot_guard.parts();
        let Memory { workspace, arena, .. } = memory;
        arena.reset();
        workspace.reset();
        workspace.log_credit = usize::MAX / 2;
        let generation = self.store.epochs().generation();
        if way == Way::Late {
            self.store.epochs().put_in_force(1);
        }
        writes(&mut Writer { table: &self.table, workspace, guard: &guard });
        let seen = Cell::new(Stamp::ZERO);
        let call = Committing {
            store: &self.store,
            worker_context,
            workspace,
            arena,
            guard: &guard,
            seen: &seen,
            generation,
            alone: false,
        };
        let stamp = match way {
            Way::Usual | Way::Late => commit(taking, call, |_| validate(&seen)),
            Way::General => commit_generally(taking, call, |_| validate(&seen)),
        };
        crate::storage::reclaim::collect_placeholders(workspace, &guard);
        (stamp, workspace.log_credit)
    }

    /// Commits these writes.
    pub(crate) fn commit(&self, writes: impl FnOnce(&mut Writer<'_>)) -> Result<Stamp, CommitFailure> {
        self.commit_if(|| true, writes)
    }

    /// Seals the present epoch, and returns its redo as a log group has it.
    pub(crate) fn seal(&self) -> Vec<u8> {
        let worker_contexts = self.store.worker_contexts();
        let epoch = self.store.epochs().advance();
        self.store
            .epochs()
            .seal(epoch, worker_contexts.all().map(|worker_context| worker_context.published()));
        let mut group = Vec::new();
        for worker_context in worker_contexts.all() {
            group.append(&mut worker_context.redo(epoch).bytes);
            // SAFETY: the epoch is sealed, and this is all the log stage that there is.
            unsafe { worker_context.slices().drain(epoch, &mut group) };
        }
        group
    }

    /// Replays a group, as recovery does.
    pub(crate) fn replay(&self, group: &[u8]) -> Result<()> {
        self.replay_with(&mut Tools::new(Overlap::default()), group)
    }

    /// Replays a group on what a checkpoint has left.
    pub(crate) fn replay_with(&self, tools: &mut Tools, group: &[u8]) -> Result<()> {
        let epoch = split_transactions(group)?.first().map_or(0, |first| first.stamp.epoch());
        let group = scatter(&self.store, (epoch, group.to_vec()), 1, tools, &pin())?;
        apply_share(&self.store, &group, 0, tools, &pin())
    }

    /// Replays groups cut into shares, one share after the other and the last one first: as different from their own order
    /// as threads can make it.
    pub(crate) fn replay_in_shares(&self, groups: &[Vec<u8>], shares: usize) -> Result<()> {
        let mut tools = Tools::new(Overlap::default());
        let mut scattered = Vec::new();
        for group in groups {
            let epoch = split_transactions(group)?.first().map_or(0, |first| first.stamp.epoch());
            scattered.push(scatter(&self.store, (epoch, group.clone()), shares, &mut tools, &pin())?);
        }
        for share in (0..shares).rev() {
            scattered
                .iter()
                .try_for_each(|group| apply_share(&self.store, group, share, &mut tools, &pin()))?;
        }
        Ok(())
    }

    /// Begins a split phase of this number with the present epoch; each column of the one table is given with its key.
    pub(crate) fn begin_split(&self, phase: u64, columns: &[(i64, usize, Operation)]) -> Arc<SplitSet> {
        let key = |key: i64| self.table.encode_key(&[key.into()], true).expect("an integer key");
        let wanted = columns.iter().map(|&(at, column, operation)| Wanted {
            table: TABLE,
            key: key(at),
            column,
            operation,
        });
        let (wanted, epochs): (Vec<Wanted>, _) = (wanted.collect(), self.store.epochs());
        self.behind_the_gate(|guard| {
            begin_split(&self.store, (phase, epochs.current()), &wanted, |_| None, guard)
        })
        .expect("something is split")
    }

    /// Ends it within the present epoch.
    pub(crate) fn end_split(&self, set: &SplitSet) {
        let epoch = self.store.epochs().current();
        self.behind_the_gate(|guard| end_split(&self.store, set, epoch, guard)).expect("the slices fit");
    }

    fn behind_the_gate<T>(&self, change: impl FnOnce(&Guard) -> T) -> T {
        let epochs = self.store.epochs();
        epochs.close_gate();
        epochs.wait_for_all(self.store.worker_contexts().all().map(WorkerContext::published));
        let changed = change(&pin());
        // SAFETY: closed above.
        unsafe { epochs.open_gate() };
        changed
    }

    /// The record of a key, present or not.
    pub(crate) fn record<'g>(&'g self, key: i64, guard: &'g Guard) -> Option<Record<'g>> {
        let key = self.table.encode_key(&[key.into()], true).expect("an integer key");
        match self.table.find(self.table.hash(&key), &key, guard) {
            Lookup::Found(record) => Some(record),
            Lookup::Missing(_) => None,
        }
    }

    /// The row of a key.
    pub(crate) fn row(&self, key: i64) -> Option<Vec<Value>> {
        let guard = pin();
        let mut words = vec![0; self.table.layout().words()];
        let word = self.record(key, &guard)?.read(self.table.layout(), &mut words);
        // SAFETY: the row was just read, and the thread is pinned.
        (word & ABSENT == 0).then(|| unsafe { self.table.layout().values(&words) })
    }

    /// Every present record: its key, its word, and its row as text (in which one NaN is like another).
    pub(crate) fn rows(&self) -> Vec<(Vec<u8>, u64, String)> {
        let guard = pin();
        let mut rows = Vec::new();
        let mut words = vec![0; self.table.layout().words()];
        self.table.for_each_record(&guard, |record| {
            let word = record.read(self.table.layout(), &mut words);
            if word & ABSENT == 0 {
                // SAFETY: the row was just read, and the thread is pinned.
                let values = unsafe { self.table.layout().values(&words) };
                rows.push((record.key().to_vec(), word, format!("{values:?}")));
            }
        });
        rows.sort();
        rows
    }

    /// The number of records, absent ones included.
    pub(crate) fn records(&self) -> usize {
        let mut records = 0;
        self.table.for_each_record(&pin(), |_| records += 1);
        records
    }

    /// A record's word.
    pub(crate) fn word(&self, key: i64) -> Option<u64> {
        let guard = pin();
        self.record(key, &guard).map(|record| record.word().load(Ordering::Acquire))
    }
}

impl Writer<'_> {
    /// The record of a key: found, or made.
    pub(crate) fn place(&mut self, key: i64) -> RecordPointer {
        let key = self.table.encode_key(&[key.into()], true).expect("an integer key");
        let hash = self.table.hash(&key);
        let placed = self.table.find_or_place(hash, &key, &mut self.workspace.cutter, self.guard);
        let record = placed.record.pointer();
        if placed.is_new {
            self.workspace.placeholders.push(Placeholder { record, table: self.table });
        }
        record
    }

    pub(crate) fn insert(&mut self, values: &[Value]) {
        let Value::Int(key) = values[0] else { panic!("the key is an integer") };
        let record = self.place(key);
        self.workspace.writes.insert(self.table, record, values.iter().map(ValueRef::from));
    }

    pub(crate) fn set(&mut self, key: i64, column: usize, value: &Value) {
        let record = self.place(key);
        self.workspace.writes.set(self.table, record, column, value.into());
    }

    pub(crate) fn operate(&mut self, key: i64, column: usize, operation: Operation, operand: &Value) {
        let record = self.place(key);
        self.workspace.writes.operate(self.table, record, column, operation, operand.into());
    }

    pub(crate) fn delete(&mut self, key: i64) {
        let record = self.place(key);
        self.workspace.writes.delete(self.table, record);
    }

    /// The last stamp that the call's worker context has made.
    pub(crate) fn set_last_stamp(&mut self, stamp: Stamp) {
        self.workspace.last_stamp = stamp;
    }

    /// The room in the log that the call has.
    pub(crate) fn set_log_credit(&mut self, bytes: usize) {
        self.workspace.log_credit = bytes;
    }
}
