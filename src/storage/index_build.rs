//! Builds indexes beside the transactions that write their table.
//!
//! The builder makes the table's next definition, whose new indexes no other thread can see, and begins to watch the table
//! ([`Watch`]): from then on commits note the rows that they change. It fills the indexes from the rows, page by page, and processes
//! the notes. Where more than a few have gathered, each writer processes its own, once it has committed: so the builder falls behind
//! by what the writers' last transactions have changed at most, however fast they are. The commit of the schema change closes the
//! gate, processes the few notes that are left, and publishes the definition. From then on writers maintain the indexes as all
//! others.
//!
//! # Invariants
//! - A row that has been indexed, and has changed since, has a note that was not processed. So with no notes left, and the
//!   gate closed, the indexes contain exactly the rows; a row that was not indexed is listed as unfit, with the reason.
//! - A note is worked off after the commit that made it has left its section: the row that the builder reads then is that
//!   commit's or a later one.
//! - While the gate is closed, at most [`FEW`] notes are worked off, and at most as many rows tried again that were unfit. A commit that
//!   finds more is refused, and tried again after the builder has caught up.
//! - Nothing is logged, so a crash or a rollback leaves nothing of an index that is being built.
//!
//! # Concurrency
//! One thread builds. It closes the gate to wait until the commits that have made notes are done, which takes
//! microseconds, and for the commit. Notes are worked off under the lock of [`State`], some at a time; writers take theirs under
//! this lock, so the thread that has it finds all others among the notes. A writer waits for no record that is locked: the
//! commit of the index may have locked it, and wait for the lock of the state.
//!
//! # Source
//! Index construction with a side file: Mohan and Narang, "Algorithms for creating indexes for very large tables without
//! quiescing updates", SIGMOD 1992, section 3.

mod builds;

use std::collections::HashSet;
use std::mem;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bumpalo::Bump;
use crossbeam_epoch::{Guard, pin};
use parking_lot::{Mutex, MutexGuard};

use crate::base::atomics::{AtomicBool, Ordering};
use crate::error::{Error, Result};
use crate::storage::garbage;
use crate::storage::index::Lookup;
use crate::storage::reclaim::take_out;
use crate::storage::record::Record;
use crate::storage::restore::put_index_record;
use crate::storage::slab::Cutter;
use crate::storage::store::Store;
use crate::storage::table::{ScanPlace, TableCore};
use crate::storage::versions::{IndexKey, Note, Watch};
use crate::storage::word::{ABSENT, Stamp};
use crate::types::ValueRef;
use crate::types::memory::Refused;

pub(crate) use builds::Builds;

/// The most notes that are worked off while the gate is closed: a few milliseconds, at one or two microseconds each.
pub(crate) const FEW: usize = if cfg!(test) { 8 } else { 2048 };
/// The number of notes from which on each writer processes its own.
const LEFT_TO_BUILDER: usize = FEW / 2;
/// The most notes that are worked off under one acquisition of the state's lock, for which other writers wait.
const AT_ONCE: usize = FEW / 8;
/// The number of pages of the table after which the builder looks whether notes have gathered.
const PAGES_PER_LOOK: usize = 64;
/// The most rounds of processing notes beside writers before the commit is tried.
const MAX_ROUNDS: usize = 64;
/// The longest time that a commit keeps the gate closed until the writers have processed their notes but for a few.
const MAX_STOP: Duration = Duration::from_millis(5);
/// The number of commits that found more after which each further one waits for twice as long: transactions of writers change rows
/// by the ten thousand, and each writer has to process its last transaction's notes.
const SHORT_STOPS: u32 = 8;
const MAX_DOUBLINGS: u32 = 12;

/// A row that the transaction which commits an index writes itself.
pub(crate) struct OwnWrite {
    pub(crate) key: Box<[u8]>,
    /// The row before; `None` if there was none.
    pub(crate) before: Option<Vec<u64>>,
    /// The row afterwards; `None` if it is deleted.
    pub(crate) after: Option<Vec<u64>>,
}

/// Indexes of one table that are being built.
pub(crate) struct IndexBuild {
    watch: Watch,
    state: Mutex<State>,
    /// The number of rows of the table that the transaction which adds the indexes writes itself.
    own_writes: usize,
    /// True if the last commit found too many notes.
    is_behind: AtomicBool,
}

#[derive(Default)]
struct State {
    cutter: Cutter,
    arena: Bump,
    words: Vec<u64>,
    /// The primary keys of rows that are not in all indexes, because another row has their place, or they fit no key.
    unfit: HashSet<Box<[u8]>>,
    /// The notes about the rows that a commit wrote itself, which may have failed.
    own: Vec<Note>,
    /// The number of commits that found too many notes.
    refusals: u32,
}

/// The reaction to a record that another thread has locked: wait for it, or not.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    Waits,
    GivesUp,
}

impl IndexBuild {
    /// Begins to build these indexes of a table, which nothing has been put into: `table` is its next definition. `own_writes`: how many
    /// rows of it the transaction writes itself that will add them.
    pub(crate) fn begin(
        store: &Store,
        table: Arc<TableCore>,
        positions: Vec<usize>,
        own_writes: usize,
    ) -> Arc<IndexBuild> {
        let (watch, state) = (Watch::new(table, positions), Mutex::default());
        let build = Arc::new(IndexBuild { watch, state, own_writes, is_behind: AtomicBool::new(false) });
        store.versions().watch(&build);
        // Commits that have not seen the watch are done after this.
        store.close_commits();
        open_commits(store);
        build
    }

    /// The notes of commits for it.
    pub(crate) fn watch(&self) -> &Watch {
        &self.watch
    }

    /// Puts all rows into the indexes, beside writers.
    ///
    /// # Errors
    /// Same errors as [`catch_up`](Self::catch_up).
    pub(crate) fn fill(&self, store: &Store) -> Result<()> {
        let mut place = Some(ScanPlace::Start);
        let mut pages = 0;
        while let Some(from) = place {
            place = self.fill_page(&from)?;
            pages += 1;
            if pages % PAGES_PER_LOOK == 0 {
                self.keep_up(store)?;
            }
        }
        self.catch_up(store)
    }

    /// Puts the rows of one page into the indexes. The place of the next one.
    fn fill_page(&self, from: &ScanPlace) -> Result<Option<ScanPlace>> {
        let guard = pin();
        let mut records = Vec::new();
        let next = self.table().page_at(from, &mut records, &guard);
        self.table().slabs().budget().admit()?;
        let state = &mut *self.state.lock();
        for record in records {
            state.words.resize(self.table().layout().words(), 0);
            let mut words = mem::take(&mut state.words);
            let word = record.read(self.table().layout(), &mut words);
            let put = match word & ABSENT {
                0 => self.put(state, record.key(), Stamp::of(word), &words, &guard),
                _ => Ok(()),
            };
            state.words = words;
            put?;
        }
        garbage::collect(&guard);
        Ok(next)
    }

    /// Works off the notes of commits, until there are few: before the commit of the index is tried.
    ///
    /// # Errors
    /// Rows violate an index ([`Error::NotUnique`]), or fit no key; no memory.
    pub(crate) fn catch_up(&self, store: &Store) -> Result<()> {
        self.keep_up(store)?;
        let state = &mut *self.state.lock();
        mem::take(&mut state.unfit).iter().try_for_each(|unfit| self.put_current(state, unfit, &pin()))?;
        // Each note that is left, and each row that the transaction writes itself, may be about an unfit row, or about one that has
        // unfit ones' places, of which there is one in each unique index. If there are more unfit rows, then rows violate an index.
        let is_unique = |&&position: &&usize| self.table().secondary()[position].definition.unique;
        let unique = self.watch.positions().iter().filter(is_unique).count();
        let explained = (unique + 1) * (self.watch.len() + self.own_writes);
        match state.unfit.iter().next() {
            Some(first) if state.unfit.len() > explained => Err(self.refusal(first, None)),
            _ => Ok(()),
        }
    }

    /// Returns true once if the last commit was refused because too many notes had gathered.
    pub(crate) fn take_behind(&self) -> bool {
        // Relaxed: the thread that asks has waited for the commit.
        self.is_behind.swap(false, Ordering::Relaxed)
    }

    /// Makes the indexes whole, in the commit section of the transaction that adds them: the gate is closed, and the rows that
    /// it writes are held and not installed. `stamp`: that of index records for them.
    ///
    /// # Errors
    /// Same errors as [`catch_up`](Self::catch_up); or too many notes have gathered: see
    /// [`take_behind`](Self::take_behind).
    pub(crate) fn finish(&self, own: &[OwnWrite], stamp: Stamp, guard: &Guard) -> Result<()> {
        let state = &mut *self.wait_for_few()?;
        let own_keys = own.iter().map(|own| &*own.key).collect();
        let earlier = mem::take(&mut state.own);
        for own in own {
            state.unfit.remove(&own.key);
            let keys = |row: &Vec<u64>| {
                // SAFETY: the row is one of a record which the commit holds, or makes.
                unsafe { self.watch.index_keys(&own.key, row) }
            };
            self.remove_all(&own.key, &own.before.as_ref().map(keys).unwrap_or_default(), guard);
            // The commit may fail after all: then the row is another.
            let before = own.after.as_ref().map(keys).unwrap_or_default();
            state.own.push(Note { key: own.key.clone(), before });
        }
        self.work_off(state, &earlier, (&own_keys, Patience::Waits), guard)?;
        self.work_off(state, &self.watch.take_all(), (&own_keys, Patience::Waits), guard)?;
        self.retry_some_unfit(state, guard)?;
        own.iter().try_for_each(|own| self.put_own(state, own, stamp, guard))
    }

    /// Waits until the writers have worked off their notes but for a few, with the gate closed.
    fn wait_for_few(&self) -> Result<MutexGuard<'_, State>> {
        let begun = Instant::now();
        loop {
            let mut state = self.state.lock();
            if self.watch.len() <= FEW {
                return Ok(state);
            }
            let doublings = state.refusals.saturating_sub(SHORT_STOPS).min(MAX_DOUBLINGS);
            if begun.elapsed() >= MAX_STOP * (1 << doublings) {
                return Err(self.refuse(&mut state));
            }
            drop(state);
            thread::yield_now();
        }
    }

    /// Tries unfit rows again, with no note left.
    fn retry_some_unfit(&self, state: &mut State, guard: &Guard) -> Result<()> {
        for _ in 0..FEW {
            let Some(key) = state.unfit.iter().next().cloned() else { return Ok(()) };
            state.unfit.remove(&key);
            self.put_current(state, &key, guard)?;
            if state.unfit.contains(&key) {
                return Err(self.refusal(&key, None));
            }
        }
        if state.unfit.is_empty() { Ok(()) } else { Err(self.refuse(state)) }
    }

    /// Refuses a commit that would keep the gate closed for too long.
    fn refuse(&self, state: &mut State) -> Error {
        state.refusals += 1;
        self.is_behind.store(true, Ordering::Relaxed);
        Error::Failed { message: "the index is behind the commits".to_string() }
    }

    /// Puts a row as the commit will write it into the indexes.
    fn put_own(&self, state: &mut State, own: &OwnWrite, stamp: Stamp, guard: &Guard) -> Result<()> {
        let Some(row) = &own.after else { return Ok(()) };
        self.put(state, &own.key, stamp, row, guard)?;
        if state.unfit.contains(&own.key) { Err(self.refusal(&own.key, Some(row))) } else { Ok(()) }
    }

    /// Works off what a worker context has noted, while there is more than is left to the builder. It has left its commit section, so
    /// the rows are those of its commits, or of later ones.
    pub(crate) fn work_off_own(&self, writer: usize, guard: &Guard) {
        while self.watch.len() > LEFT_TO_BUILDER {
            let state = &mut *self.state.lock();
            let notes = self.watch.take_of(Some(writer), AT_ONCE);
            if notes.is_empty() {
                return;
            }
            if self.work_off(state, &notes, (&HashSet::new(), Patience::GivesUp), guard).is_err() {
                // A record is locked, or there is no memory, which is the builder's affair and not this writer's.
                return self.watch.push(Some(writer), notes);
            }
        }
    }

    fn table(&self) -> &TableCore {
        self.watch.table()
    }

    /// Works off notes until there are few, beside writers.
    fn keep_up(&self, store: &Store) -> Result<()> {
        let mut notes = mem::take(&mut self.state.lock().own);
        for _ in 0..MAX_ROUNDS {
            notes.append(&mut self.watch.take_all());
            if notes.is_empty() {
                break;
            }
            store.close_commits();
            open_commits(store);
            for some in notes.chunks(AT_ONCE) {
                let (guard, state) = (pin(), &mut *self.state.lock());
                self.work_off(state, some, (&HashSet::new(), Patience::Waits), &guard)?;
                garbage::collect(&guard);
            }
            notes.clear();
            if self.watch.len() <= LEFT_TO_BUILDER {
                break;
            }
        }
        Ok(())
    }

    /// Works off notes whose commits have left their sections. Rows that are `own` are not put in again. They may be worked off once
    /// more.
    ///
    /// # Errors
    /// No memory; a record is locked ([`Error::Conflict`]), and the thread does not wait.
    fn work_off(
        &self,
        state: &mut State,
        notes: &[Note],
        (own, patience): (&HashSet<&[u8]>, Patience),
        guard: &Guard,
    ) -> Result<()> {
        for Note { key, before } in notes {
            self.remove_all(key, before, guard);
        }
        // Rows that change often have many notes.
        let mut done = HashSet::new();
        for Note { key, .. } in notes {
            if done.insert(key) && !own.contains(&key[..]) {
                self.put_as_it_is(state, key, patience, guard)?;
            }
        }
        Ok(())
    }

    /// Puts a row into the indexes as it is now, if there is one of this key.
    fn put_current(&self, state: &mut State, key: &[u8], guard: &Guard) -> Result<()> {
        self.put_as_it_is(state, key, Patience::Waits, guard)
    }

    fn put_as_it_is(&self, state: &mut State, key: &[u8], patience: Patience, guard: &Guard) -> Result<()> {
        let mut words = mem::take(&mut state.words);
        words.resize(self.table().layout().words(), 0);
        let put = match self.read(key, &mut words, patience, guard) {
            Ok(Some(stamp)) => self.put(state, key, stamp, &words, guard),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        state.words = words;
        put
    }

    /// Reads the row of a key; its stamp.
    fn read(
        &self,
        key: &[u8],
        words: &mut [u64],
        patience: Patience,
        guard: &Guard,
    ) -> Result<Option<Stamp>> {
        let Lookup::Found(record) = self.table().find(self.table().hash(key), key, guard) else {
            return Ok(None);
        };
        let layout = self.table().layout();
        let word = match patience {
            Patience::Waits => record.read(layout, words),
            Patience::GivesUp => record.read_unlocked(layout, words).ok_or(Error::Conflict)?,
        };
        Ok((word & ABSENT == 0).then(|| Stamp::of(word)))
    }

    /// Puts a row into the indexes, or notes that it does not fit.
    fn put(&self, state: &mut State, key: &[u8], stamp: Stamp, words: &[u64], guard: &Guard) -> Result<()> {
        state.arena.reset();
        let State { cutter, arena, unfit, .. } = state;
        let mut fits = true;
        // SAFETY: it is a row of the table's, and its blocks are pinned, or the commit's.
        let index_keys = unsafe { self.watch.index_keys(key, words) };
        for (&position, index_key) in self.watch.positions().iter().zip(&index_keys) {
            let index = &self.table().secondary()[position].table;
            index.slabs().admit(cutter).map_err(Refused::error)?;
            fits &= match index_key {
                Some(index_key) => put_index_record(index, index_key, (key, stamp), arena, cutter, guard)?,
                None => false,
            };
        }
        if !fits {
            unfit.insert(key.into());
        }
        Ok(())
    }

    /// Removes the records of a row that has changed, if the indexes have them.
    fn remove_all(&self, key: &[u8], before: &[IndexKey], guard: &Guard) {
        for (&position, before) in self.watch.positions().iter().zip(before) {
            let index = &self.table().secondary()[position].table;
            let Some(index_key) = before else { continue };
            if let Some((record, word)) = find_entry(index, index_key, |owner| owner == key, guard) {
                take_out(index, record, word, guard);
            }
        }
    }

    /// The error for a row that does not fit. `row`: the row as it will be; `None` for the present row.
    fn refusal(&self, key: &[u8], row: Option<&[u64]>) -> Error {
        let guard = pin();
        let table = self.table();
        let mut words = vec![0; table.layout().words()];
        match row {
            Some(row) => words.copy_from_slice(row),
            None => drop(self.read(key, &mut words, Patience::Waits, &guard)),
        }
        // SAFETY: the row was just read and the thread is pinned, or the caller holds it.
        let value_of = |column: usize| Ok(unsafe { table.layout().value(&words, column) });
        let mut named = None;
        for &position in self.watch.positions() {
            let index = &table.secondary()[position];
            let index_key = match table.index_key(position, key, value_of) {
                Ok(index_key) => index_key,
                Err(error) => return error,
            };
            let is_taken = find_entry(&index.table, &index_key, |owner| owner != key, &guard).is_some();
            if is_taken || named.is_none() && index.definition.unique {
                named = Some(index.definition.name.clone());
            }
        }
        Error::NotUnique { table: table.definition().name().to_string(), index: named.unwrap_or_default() }
    }
}

/// The record of a key in an index, with its word, if it is there and is that of a row whose primary key passes.
fn find_entry<'g>(
    index: &'g TableCore,
    index_key: &[u8],
    is_wanted: impl Fn(&[u8]) -> bool,
    guard: &'g Guard,
) -> Option<(Record<'g>, u64)> {
    let Lookup::Found(record) = index.find(index.hash(index_key), index_key, guard) else { return None };
    let mut words = vec![0; index.layout().words()];
    let word = record.read(index.layout(), &mut words);
    if word & ABSENT != 0 {
        return None;
    }
    // SAFETY: the row was just read, and the thread is pinned.
    let owner = unsafe { index.layout().value(&words, 0) };
    matches!(owner, ValueRef::Bytes(owner) if is_wanted(owner)).then_some((record, word))
}

fn open_commits(store: &Store) {
    // SAFETY: the caller has closed the gate.
    unsafe { store.epochs().open_gate() };
}
