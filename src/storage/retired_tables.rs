//! Tables that schema changes have dropped or put others in the place of, and how their memory is freed.
//!
//! A [`TableCore`] lives as long as its store, because deletes that wait to be collected, versions, and handles lead to it by its
//! address. What it contains, its records and index nodes, is freed much earlier: the thread that reclaims memory makes the table
//! empty once nothing can read it, and frees what it contained.
//!
//! # Invariants
//! A table is made empty when
//! 1. every thread has unpinned that was pinned when the schema change took effect: transactions that had the table then have
//!    ended, and the threads that take deleted records out see that it is retired, and leave it alone. So no thread
//!    changes its indexes any more;
//! 2. no snapshot is open that contains it, and no version is left of a record of its;
//! 3. no column of it is split: a split phase has its records by their addresses;
//! 4. no walk over tables that began before is under way: a checkpoint that met half of it could not be brought up to date
//!    by the log.
//!
//! Its content is freed when every thread has unpinned that was pinned when it was emptied: a handle of a
//! dropped table may be walked over to count its memory, and finds all or nothing. Each condition lasts once
//! it is met: epochs only rise, and the next split phase finds the records that it splits through the schema
//! in force.
//!
//! # Concurrency
//! Commits add tables behind the closed gate. One thread frees them. Its lock is held for some instructions at a time.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_epoch::pin;
use parking_lot::{Condvar, Mutex};

use crate::base::atomics::{AtomicBool, Ordering};
use crate::storage::store::Store;
use crate::storage::table::{TableCore, TableId, Vacated};

/// The number of advances of the collector in the hope that no thread is pinned for long.
const ADVANCES: usize = 4;

/// The tables that schema changes have superseded or dropped.
#[derive(Default)]
pub(crate) struct RetiredTables {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// All of them, in the order of the changes.
    tables: Vec<Arc<TableCore>>,
    /// The tables whose memory is to be freed, in this order.
    leaving: VecDeque<Leaving>,
    /// A token that walks over tables share which begin now.
    walks: Arc<()>,
    is_stopped: bool,
}

/// The remains of a schema change: a table with its indexes, or indexes alone.
struct Leaving {
    parts: Vec<Arc<TableCore>>,
    /// The epoch of the schema change.
    epoch: u64,
    /// The token that walks share which began before the schema change, and after the one before it.
    walks: Arc<()>,
    stage: Stage,
}

enum Stage {
    /// It has just been retired.
    New,
    /// Transactions may use it until these threads have unpinned.
    Used(Unpinned),
    /// It is empty; what it contained may be read until these threads have unpinned.
    Empty(Vec<Vacated>, Unpinned),
}

/// True once all threads have unpinned that were pinned when this was made.
struct Unpinned(Arc<AtomicBool>);

impl Unpinned {
    fn begin() -> Unpinned {
        let over = Arc::new(AtomicBool::new(false));
        let set = over.clone();
        let guard = pin();
        // Release pairs with the acquire in `is_over`: what those threads did while they were pinned is seen.
        guard.defer(move || set.store(true, Ordering::Release));
        guard.flush();
        Unpinned(over)
    }

    fn is_over(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A walk over all tables beside schema changes: while it lasts, tables that were in force when it began keep their records.
pub(crate) struct Walk {
    _share: Arc<()>,
}

impl RetiredTables {
    /// Retires a table that no transaction will use any more, once those that have begun end. `successor`: its
    /// replacement.
    pub(crate) fn retire(&self, table: &Arc<TableCore>, successor: Option<&TableCore>, epoch: u64) {
        let kept = successor.filter(|successor| successor.id() == table.id());
        let is_kept = |index: &Arc<TableCore>| {
            kept.is_some_and(|kept| kept.secondary().iter().any(|one| Arc::ptr_eq(&one.table, index)))
        };
        let indexes = table.secondary().iter().map(|index| &index.table).filter(|index| !is_kept(index));
        let parts: Vec<_> = indexes.chain(Some(table).filter(|_| kept.is_none())).cloned().collect();
        parts.iter().for_each(|part| part.retire());
        let mut state = self.state.lock();
        state.tables.push(table.clone());
        if !parts.is_empty() {
            let walks = mem::take(&mut state.walks);
            state.leaving.push_back(Leaving { parts, epoch, walks, stage: Stage::New });
            self.changed.notify_all();
        }
    }

    /// Same as [`retire`](Self::retire), where no other thread uses the store: recovery. The memory is freed at once.
    pub(crate) fn free_now(&self, table: &Arc<TableCore>) {
        for part in table.secondary().iter().map(|index| &index.table).chain([table]) {
            part.retire();
            // SAFETY: no other thread uses the table.
            drop(unsafe { part.vacate() });
        }
        self.state.lock().tables.push(table.clone());
    }

    /// Same as [`retire`](Self::retire), for a table whose records another definition has, with all indexes.
    pub(crate) fn keep(&self, table: Arc<TableCore>) {
        self.state.lock().tables.push(table);
    }

    /// The last table of this number.
    pub(crate) fn find(&self, id: TableId) -> Option<Arc<TableCore>> {
        self.state.lock().tables.iter().rev().find(|table| table.id() == id).cloned()
    }

    /// The highest number of a table; zero: there are none.
    pub(crate) fn highest_id(&self) -> TableId {
        self.state.lock().tables.iter().map(|table| table.id()).max().unwrap_or(0)
    }

    /// Begins a walk over tables; the caller finds out afterwards which ones there are.
    pub(crate) fn begin_walk(&self) -> Walk {
        Walk { _share: self.state.lock().walks.clone() }
    }

    /// Bytes of memory that the index nodes of tables take that have not been freed yet.
    pub(crate) fn index_bytes(&self) -> u64 {
        let state = self.state.lock();
        let parts = state.leaving.iter().flat_map(|leaving| &leaving.parts);
        parts.map(|part| part.own_node_bytes()).sum()
    }

    /// Returns true if the memory of any table is to be freed.
    pub(crate) fn is_pending(&self) -> bool {
        !self.state.lock().leaving.is_empty()
    }

    /// Frees what can be freed; returns true if anything has changed.
    pub(crate) fn free_some(&self, store: &Store) -> bool {
        (0..ADVANCES).for_each(|_| pin().flush());
        let (mut has_changed, mut is_walked, mut at) = (false, false, 0);
        while let Some(step) = self.advance(store, at, &mut is_walked) {
            has_changed |= step.has_changed;
            match step.freed {
                None => at += 1,
                Some(freed) => {
                    // Without the lock: there may be many records. Others add tables behind this one meanwhile.
                    drop(freed);
                    self.state.lock().leaving.remove(at);
                }
            }
        }
        has_changed
    }

    /// Brings one of them a step further, if that can be done. `is_walked`: whether a walk goes on that met an earlier one.
    fn advance(&self, store: &Store, at: usize, is_walked: &mut bool) -> Option<Step> {
        let mut state = self.state.lock();
        let leaving = state.leaving.get_mut(at)?;
        match &mut leaving.stage {
            Stage::New => {
                leaving.stage = Stage::Used(Unpinned::begin());
                Some(Step::made(true))
            }
            Stage::Used(unpinned) => {
                *is_walked |= Arc::strong_count(&leaving.walks) > 1;
                if *is_walked || !unpinned.is_over() || store.versions().has_snapshot_before(leaving.epoch) {
                    return Some(Step::made(false));
                }
                let parts = leaving.parts.clone();
                drop(state);
                if is_needed(store, &parts) {
                    return Some(Step::made(false));
                }
                // SAFETY: the module's first condition is met, so no thread changes the indexes, or takes records out of
                // them. What comes back is dropped when all threads that are pinned now have unpinned.
                let vacated = parts.iter().map(|part| unsafe { part.vacate() }).collect();
                let unpinned = Unpinned::begin();
                // This is the only thread that takes tables off the list.
                self.state.lock().leaving.get_mut(at)?.stage = Stage::Empty(vacated, unpinned);
                Some(Step::made(true))
            }
            Stage::Empty(vacated, unpinned) if unpinned.is_over() => {
                Some(Step { has_changed: true, freed: Some(mem::take(vacated)) })
            }
            Stage::Empty(..) => Some(Step::made(false)),
        }
    }

    /// Waits until tables are retired, or for this time where one is given. Returns true if the thread that frees memory is
    /// to end.
    pub(crate) fn wait(&self, time: Option<Duration>) -> bool {
        let mut state = self.state.lock();
        let is_new = |leaving: &Leaving| matches!(leaving.stage, Stage::New);
        while !state.is_stopped && !state.leaving.back().is_some_and(is_new) {
            match time {
                Some(time) => {
                    self.changed.wait_for(&mut state, time);
                    break;
                }
                None => self.changed.wait(&mut state),
            }
        }
        state.is_stopped
    }

    /// Ends the thread that waits.
    pub(crate) fn stop(&self) {
        self.state.lock().is_stopped = true;
        self.changed.notify_all();
    }
}

/// The outcome of one step with a table.
struct Step {
    has_changed: bool,
    /// The former content of the table, if that can be freed now.
    freed: Option<Vec<Vacated>>,
}

impl Step {
    fn made(has_changed: bool) -> Step {
        Step { has_changed, freed: None }
    }
}

/// Returns true if versions or a split phase have records of these tables.
fn is_needed(store: &Store, parts: &[Arc<TableCore>]) -> bool {
    let is_part =
        |table: &TableCore| parts.iter().any(|part| part.records_identity() == table.records_identity());
    let guard = pin();
    let split = store.splits().current(&guard);
    split.is_some_and(|set| set.columns().iter().any(|column| is_part(&column.table)))
        || store.versions().has_versions_of(is_part)
}

#[cfg(test)]
mod tests;
