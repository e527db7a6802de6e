//! The result of a schema change for a table: another definition over the same records, another table, or nothing.
//!
//! A table's definition never changes in place, because transactions read it without a lock. A change makes a new
//! [`TableCore`] and names it as the old one's successor; handles follow successors, and transactions that have used the
//! old one fail their commit (see [`Store::change_schema`](crate::storage::store::Store::change_schema)).
//!
//! # Invariants
//! A successor is named once, behind the closed gate. Of several definitions over the same records only the newest frees
//! them. Nothing is installed into a table that has a successor, or is gone.

use std::sync::{Arc, OnceLock};

use super::{Secondary, TableCore};
use crate::base::atomics::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::storage::definition::TableDefinition;
use crate::storage::foreign_keys::Reach;
use crate::storage::split_policy::SplitPolicies;

/// The value of [`Change::dropped`] of a table that belongs to a session's transaction, and is no table to others yet.
const PRIVATE: u64 = u64::MAX;

/// The bits of a [`Reach`] in [`Change::reach`].
const REACH: u32 = 3;
/// A bit of [`Change::reach`]: the table's rows have rules that an evaluator knows.
const EVALUATED: u32 = 4;
/// The unit of a count in [`Change::reach`], from this bit on: transactions of sessions whose private foreign keys
/// concern it.
const PRIVATE_WATCH: u32 = 8;

/// The schema changes that have made, replaced or dropped a table.
#[derive(Default)]
pub(super) struct Change {
    /// True if it has a successor, was dropped, or is private: one look for every access.
    is_over: AtomicBool,
    successor: OnceLock<Arc<TableCore>>,
    /// The epoch of the schema change that has made it; zero: it is older than this process.
    begins: AtomicU64,
    /// The epoch in which it was dropped, above which it is no table; zero: it was not; [`PRIVATE`].
    dropped: AtomicU64,
    /// True if it has loaded rows that are not committed.
    is_loaded: AtomicBool,
    /// True if its records are another definition's to free.
    has_moved: AtomicBool,
    /// The [`Reach`] of its writes, and [`FLAGS`].
    reach: AtomicU32,
    /// The number of times that a foreign key was added which concerns it.
    foreign_keys_added: AtomicU32,
}

/// State that all definitions of the same records share.
#[derive(Default)]
pub(super) struct OfRecords {
    /// True if they are those of a table that is gone.
    pub(super) is_retired: AtomicBool,
    /// The policies of their columns for splitting.
    split_policies: SplitPolicies,
}

impl TableCore {
    /// The policies of its columns for splitting.
    #[inline]
    pub(crate) fn split_policies(&self) -> &SplitPolicies {
        &self.of_records.split_policies
    }

    /// This table's records under another definition of the same columns, or with more columns behind them. Indexes that both definitions have are shared;
    /// the others are empty, and named by position for the caller to fill. Of several indexes over the same columns, each has its own records.
    pub(crate) fn redefined(&self, definition: TableDefinition) -> (TableCore, Vec<usize>) {
        let mut empty = Vec::new();
        let mut unshared: Vec<&Secondary> = self.secondary.iter().collect();
        let secondary = definition
            .indexes
            .iter()
            .enumerate()
            .map(|(position, index)| {
                let same_keys = |column: &usize| {
                    self.definition.columns[*column].not_null == definition.columns[*column].not_null
                };
                let shared = unshared.iter().position(|own| {
                    (&own.definition.columns, own.definition.unique) == (&index.columns, index.unique)
                        && index.columns.iter().all(same_keys)
                });
                let shared = shared.map(|own| unshared.swap_remove(own).table.clone());
                let table = shared.unwrap_or_else(|| {
                    empty.push(position);
                    Arc::new(Self::index_table(self.store, &self.slabs, self.id, index))
                });
                Secondary { definition: index.clone(), table }
            })
            .collect();
        let mut table = Self::bare(self.store, &self.slabs, (self.id, self.extensions.clone()), definition);
        (table.hash, table.ordered) = (self.hash.clone(), self.ordered.clone());
        table.of_records = self.of_records.clone();
        table.words_in_force = self.record_size().words;
        // Until it supersedes this table. Relaxed: no other thread has access to it yet.
        table.change.has_moved.store(true, Ordering::Relaxed);
        (Self::with_indexes(table, secondary), empty)
    }

    /// The table that this one's handles refer to now: itself, unless a schema change has replaced it.
    #[inline]
    pub(crate) fn current(self: &Arc<Self>) -> &Arc<TableCore> {
        if self.is_current() { self } else { self.newest() }
    }

    #[cold]
    fn newest(self: &Arc<Self>) -> &Arc<TableCore> {
        let mut current = self;
        while let Some(successor) = current.change.successor.get() {
            current = successor;
        }
        current
    }

    /// Returns true if transactions may use it: it was not dropped, and nothing has replaced it.
    #[inline]
    pub(crate) fn is_current(&self) -> bool {
        // Acquire pairs with the release in `supersede` and `drop_table`: its replacement is seen. An access
        // that misses it is caught at commit.
        !self.change.is_over.load(Ordering::Acquire)
    }

    /// Returns true if it was dropped.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        // Relaxed: an access that misses it is caught at commit.
        self.change.dropped.load(Ordering::Relaxed) != 0
    }

    /// The definition in force at the end of this epoch, of this one and its successors.
    pub(crate) fn at(self: &Arc<Self>, epoch: u64) -> &Arc<TableCore> {
        let mut table = self;
        while let Some(successor) =
            table.change.successor.get().filter(|successor| successor.begins() <= epoch)
        {
            table = successor;
        }
        table
    }

    /// The newest definition of its records: it has all their columns.
    pub(crate) fn newest_of_records(&self) -> &TableCore {
        let mut table = self;
        while let Some(successor) = table.change.successor.get().filter(|successor| successor.id == self.id) {
            table = successor;
        }
        table
    }

    /// Returns true if columns were added to its records since: by definitions that have replaced it.
    pub(crate) fn is_extended(&self) -> bool {
        self.newest_of_records().row_version() != self.row_version()
    }

    /// The epoch of the schema change that has made it.
    pub(crate) fn begins(&self) -> u64 {
        // Relaxed: it is set before any thread can have the table.
        self.change.begins.load(Ordering::Relaxed)
    }

    /// The epoch in which it was dropped, or one that is never reached.
    pub(crate) fn ends(&self) -> u64 {
        // Relaxed: a snapshot of that epoch is registered behind the gate, after the drop.
        match self.change.dropped.load(Ordering::Relaxed) {
            0 => u64::MAX,
            epoch => epoch,
        }
    }

    /// Says that a schema change of this epoch makes the table, before any other thread has it.
    pub(crate) fn begin(&self, epoch: u64) {
        self.change.begins.store(epoch, Ordering::Relaxed);
        if self.is_private() {
            // Relaxed: a thread finds the table through the store's lock, or through a successor, after this.
            self.change.dropped.store(0, Ordering::Relaxed);
            self.change.is_over.store(self.change.successor.get().is_some(), Ordering::Relaxed);
        }
    }

    /// Makes it a table of one session's transaction only, until [`begin`](Self::begin).
    pub(crate) fn make_private(&self) {
        // Relaxed: no other thread has it yet.
        self.change.dropped.store(PRIVATE, Ordering::Relaxed);
        self.change.is_over.store(true, Ordering::Relaxed);
    }

    /// Publishes a table that only a session's transaction had as this definition; does nothing if it was published
    /// already.
    pub(crate) fn end_private(&self, published: &Arc<TableCore>) {
        if self.change.successor.get().is_none() {
            self.begin(published.begins());
            self.supersede(published.clone());
        }
    }

    /// Notes that it has loaded rows.
    pub(super) fn note_loaded(&self) {
        // Relaxed, as below: the session's own calls follow one another, whichever threads they run on.
        self.change.is_loaded.store(true, Ordering::Relaxed);
    }

    /// Notes that its loaded rows are committed.
    pub(crate) fn end_loading(&self) {
        self.change.is_loaded.store(false, Ordering::Relaxed);
    }

    /// Returns true if it has loaded rows that are not committed.
    pub(crate) fn is_loaded(&self) -> bool {
        self.change.is_loaded.load(Ordering::Relaxed)
    }

    /// Returns true if it belongs to a session's transaction that has not committed.
    pub(crate) fn is_private(&self) -> bool {
        // Relaxed: an access that misses the change is caught at commit.
        self.change.dropped.load(Ordering::Relaxed) == PRIVATE
    }

    /// The most that its writes do to other rows by foreign keys, in the schema in force.
    #[inline]
    pub(crate) fn reach(&self) -> Reach {
        // Relaxed: an access that misses a change is of an older generation, and does not commit.
        match self.change.reach.load(Ordering::Relaxed) & REACH {
            0 => Reach::Nothing,
            1 => Reach::Reads,
            _ => Reach::Writes,
        }
    }

    /// Returns true if it has a foreign key, or one refers to it.
    #[inline]
    pub(crate) fn is_linked(&self) -> bool {
        self.reach() != Reach::Nothing
    }

    /// Returns true if its writes are more than changes of its rows: they cause others, or an evaluator is needed.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        // Relaxed, as in `reach`.
        self.change.reach.load(Ordering::Relaxed) != 0
    }

    /// Its rows have rules that an evaluator knows: before any other thread has it.
    pub(super) fn need_evaluator(&self) {
        self.change.reach.store(EVALUATED, Ordering::Relaxed);
    }

    /// Counts the transactions of sessions that have added foreign keys which concern it, and enforce them alone: one more, or
    /// one less.
    pub(crate) fn watch_privately(&self, is_watched: bool) {
        // Relaxed, as in `reach`: only that session's accesses need to see it, and its calls follow one another.
        if is_watched {
            self.change.reach.fetch_add(PRIVATE_WATCH, Ordering::Relaxed);
        } else {
            self.change.reach.fetch_sub(PRIVATE_WATCH, Ordering::Relaxed);
        }
    }

    /// Sets what its writes lead to, and whether more foreign keys concern it than before: behind the closed gate, or before
    /// any other thread has it.
    pub(crate) fn set_reach(&self, reach: Reach, has_more: bool) {
        // Relaxed: the generation, which is published afterwards, says that they have changed. One step, because a transaction
        // that ends may take its count away meanwhile.
        let with_reach = |word: u32| Some(word & !REACH | reach as u32);
        let _ = self.change.reach.fetch_update(Ordering::Relaxed, Ordering::Relaxed, with_reach);
        self.change.foreign_keys_added.fetch_add(u32::from(has_more), Ordering::Relaxed);
    }

    /// The number of times that a foreign key was added which concerns it.
    pub(crate) fn foreign_keys_added(&self) -> u32 {
        // Relaxed: a session asks in an attempt, which does not commit if the generation changes.
        self.change.foreign_keys_added.load(Ordering::Relaxed)
    }

    /// Returns true if another table frees its records.
    pub(super) fn has_moved(&self) -> bool {
        self.change.has_moved.load(Ordering::Relaxed)
    }

    /// Names its replacement, behind the closed gate.
    pub(crate) fn supersede(&self, successor: Arc<TableCore>) {
        if successor.id == self.id {
            // Relaxed: only `drop` asks, when the table is not shared any more.
            self.change.has_moved.store(true, Ordering::Relaxed);
            successor.change.has_moved.store(false, Ordering::Relaxed);
        }
        // It has none: schema changes come one after another, and each supersedes current tables.
        let is_first = self.change.successor.set(successor).is_ok();
        debug_assert!(is_first, "table {} has two successors, which would both free its records", self.id);
        // Release: a thread that sees it sees the successor.
        self.change.is_over.store(true, Ordering::Release);
    }

    /// Drops it in this epoch, behind the closed gate.
    pub(crate) fn drop_table(&self, epoch: u64) {
        self.change.dropped.store(epoch.max(1), Ordering::Relaxed);
        // Release: as in `supersede`; it pairs with the fence of an attempt that has met it, too.
        self.change.is_over.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_epoch::pin;

    use super::*;
    use crate::storage::rig::Rig;
    use crate::storage::slab::Cutter;
    use crate::types::{DataType, Value};

    #[test]
    fn a_definition_makes_records_with_the_room_of_the_one_in_force() {
        let definition = TableDefinition::new("t").column("id", DataType::Int64).primary_key(["id"]);
        let rig = Rig::new(definition.column("n", DataType::Int64));
        let wider = |table: &TableCore, name: &str| {
            let mut definition = table.definition().clone().column(name, DataType::Int64);
            definition.added.push(Value::Int(7));
            Arc::new(table.redefined(definition).0)
        };
        let (guard, mut cutter, mut key) = (pin(), Cutter::default(), 0);
        let mut made = |table: &TableCore| {
            key += 1;
            let key = table.encode_key(&[key.into()], true).expect("an integer key");
            let placed = table.find_or_place(table.hash(&key), &key, &mut cutter, &guard);
            assert!(placed.is_new);
            placed.record.row().len()
        };
        let first = wider(&rig.table, "first");
        let second = wider(&first, "second");
        let words = [&rig.table, &first, &second].map(|table| table.layout().words());
        assert_eq!(words.map(|one| one - words[0]), [0, 1, 2]);
        assert_eq!([&rig.table, &first, &second].map(|table| made(table)), [words[0]; 3]);
        rig.table.supersede(second.clone());
        assert_eq!(made(&second), words[2]);
        assert_eq!(made(&wider(&second, "third")), words[2]);
    }
}
