//! Builds indexes beside the transactions that write their table.
//!
//! The builder makes the table's next definition, whose new indexes no other thread can see, and begins to watch the table
//! ([`Watch`]): from then on commits note the rows that they change. It fills the indexes from the rows, page by page, and works
//! off the notes. The commit of the schema change closes the gate, works off the few notes that are left, and publishes the
//! definition. From then on writers maintain the indexes as all others.
//!
//! # Invariants
//! - A row that has been indexed, and has changed since, has a note which was not worked off. So with no notes left, and the
//!   gate closed, the indexes contain exactly the rows; a row that was not indexed is listed as unfit, with the reason.
//! - A note is worked off after the commit that made it has left its section: the row that the builder reads then is that
//!   commit's or a later one.
//! - Nothing is logged, so a crash or a rollback leaves nothing of an index that is being built.
//!
//! # Concurrency
//! One thread builds. It closes the gate only to wait until the commits that have made notes are done, which takes
//! microseconds, and where writers change rows faster than it works their notes off, for [`FEW`] notes at a time.
//!
//! # Source
//! Index construction with a side file: Mohan and Narang, "Algorithms for creating indexes for very large tables without
//! quiescing updates", SIGMOD 1992, section 3.

use std::collections::HashSet;
use std::mem;
use std::sync::Arc;
use std::thread;

use bumpalo::Bump;
use crossbeam_epoch::{Guard, pin};
use parking_lot::Mutex;

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

/// This many notes are worked off while the gate is closed: a few milliseconds.
const FEW: usize = if cfg!(test) { 8 } else { 2048 };
/// After this many pages of the table the builder looks whether notes have gathered.
const PAGES_PER_LOOK: usize = 64;
/// The most rounds of working notes off beside writers before the commit is tried.
const MAX_ROUNDS: usize = 64;
/// After this many commits that found too many notes, the next one works off all of them, however long that takes.
const MAX_COMMITS_BEHIND: usize = 4;

/// A row that the transaction which commits an index writes itself.
pub(crate) struct OwnWrite {
    pub(crate) key: Box<[u8]>,
    /// The row before; none: there was none.
    pub(crate) before: Option<Vec<u64>>,
    /// The row afterwards; none: it is deleted.
    pub(crate) after: Option<Vec<u64>>,
}

/// Indexes of one table that are being built.
pub(crate) struct IndexBuild {
    watch: Arc<Watch>,
    state: Mutex<State>,
    /// Whether the last commit found too many notes.
    is_behind: AtomicBool,
}

#[derive(Default)]
struct State {
    cutter: Cutter,
    arena: Bump,
    words: Vec<u64>,
    /// The primary keys of rows that are not in all indexes, because another row has their place, or they fit no key.
    unfit: HashSet<Box<[u8]>>,
    commits_behind: usize,
}

impl IndexBuild {
    /// Begins to build these indexes of a table, which nothing has been put into: `table` is its next definition.
    pub(crate) fn begin(store: &Store, table: Arc<TableCore>, positions: Vec<usize>) -> IndexBuild {
        let watch = Arc::new(Watch::new(table, positions));
        store.versions().watch(&watch);
        // Commits that have not seen the watch are done after this.
        store.close_commits();
        open_commits(store);
        IndexBuild { watch, state: Mutex::default(), is_behind: AtomicBool::new(false) }
    }

    /// Puts all rows into the indexes, beside writers.
    ///
    /// # Errors
    /// As [`catch_up`](Self::catch_up).
    pub(crate) fn fill(&self, store: &Store) -> Result<()> {
        let mut place = Some(ScanPlace::Start);
        let mut pages = 0;
        while let Some(from) = place {
            let guard = pin();
            let mut records = Vec::new();
            place = self.table().page_at(&from, &mut records, &guard);
            let state = &mut *self.state.lock();
            self.table().slabs().budget().admit()?;
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
            drop(guard);
            pages += 1;
            if pages % PAGES_PER_LOOK == 0 {
                self.keep_up(store, state)?;
            }
        }
        self.catch_up(store)
    }

    /// Works off the notes of commits, until there are few: before the commit of the index is tried.
    ///
    /// # Errors
    /// Rows violate an index ([`Error::NotUnique`]), or fit no key; no memory.
    pub(crate) fn catch_up(&self, store: &Store) -> Result<()> {
        let state = &mut *self.state.lock();
        self.keep_up(store, state)?;
        self.retry_unfit(state)?;
        // Each note that is left may be about the row which has an unfit one's place, or about an unfit row. If there are more
        // of these, then rows violated the index when the notes were counted.
        match state.unfit.iter().next() {
            Some(first) if state.unfit.len() > 2 * self.watch.len() => Err(self.refusal(first, None)),
            _ => Ok(()),
        }
    }

    /// Whether the last commit was refused because too many notes had gathered, which it says once.
    pub(crate) fn take_behind(&self) -> bool {
        // Relaxed: the thread that asks has waited for the commit.
        self.is_behind.swap(false, Ordering::Relaxed)
    }

    /// Makes the indexes whole, in the commit section of the transaction that adds them: the gate is closed, and the rows that
    /// it writes are held and not installed. `stamp`: that of index records for them.
    ///
    /// # Errors
    /// As [`catch_up`](Self::catch_up); or too many notes have gathered: see [`take_behind`](Self::take_behind).
    pub(crate) fn finish(&self, own: &[OwnWrite], stamp: Stamp, guard: &Guard) -> Result<()> {
        let state = &mut *self.state.lock();
        if self.watch.len() > FEW && state.commits_behind < MAX_COMMITS_BEHIND {
            state.commits_behind += 1;
            self.is_behind.store(true, Ordering::Relaxed);
            return Err(Error::Failed { message: "the index is behind the commits".to_string() });
        }
        let notes = self.watch.take(usize::MAX);
        let own_keys: HashSet<&[u8]> = own.iter().map(|own| &*own.key).collect();
        let is_own = |key: &[u8]| own_keys.contains(key);
        for own in own {
            state.unfit.remove(&own.key);
            // SAFETY: the row is that of a record which the commit holds.
            let before = own.before.as_ref().map(|row| unsafe { self.watch.index_keys(&own.key, row) });
            self.remove_all(&own.key, &before.unwrap_or_default(), guard);
        }
        self.work_off(state, &notes, &is_own, guard)?;
        self.retry_unfit(state)?;
        if let Some(first) = state.unfit.iter().next() {
            return Err(self.refusal(first, None));
        }
        own.iter().try_for_each(|own| self.put_own(state, own, stamp, guard))
    }

    /// Puts a row as the commit will write it into the indexes.
    fn put_own(&self, state: &mut State, own: &OwnWrite, stamp: Stamp, guard: &Guard) -> Result<()> {
        // SAFETY: it is a row of the table's, and its blocks are the commit's.
        let after = own.after.as_ref().map(|row| unsafe { self.watch.index_keys(&own.key, row) });
        // The commit may fail after all: then the row is another.
        self.watch.push(Note { key: own.key.clone(), before: after.unwrap_or_default() });
        let Some(row) = &own.after else { return Ok(()) };
        self.put(state, &own.key, stamp, row, guard)?;
        if state.unfit.contains(&own.key) { Err(self.refusal(&own.key, Some(row))) } else { Ok(()) }
    }

    fn table(&self) -> &TableCore {
        self.watch.table()
    }

    /// Works off notes until there are few: beside writers, and where these are faster, in turn with them.
    fn keep_up(&self, store: &Store, state: &mut State) -> Result<()> {
        for _ in 0..MAX_ROUNDS {
            let notes = self.watch.take(usize::MAX);
            let taken = notes.len();
            if taken == 0 {
                return Ok(());
            }
            store.close_commits();
            open_commits(store);
            notes.chunks(FEW).try_for_each(|notes| self.work_off(state, notes, &|_| false, &pin()))?;
            let left = self.watch.len();
            if left <= FEW / 2 {
                return Ok(());
            }
            if left >= taken {
                return self.take_turns(store, state);
            }
        }
        Ok(())
    }

    /// Works off some notes with the gate closed, lets writers in, and so on until there are few.
    fn take_turns(&self, store: &Store, state: &mut State) -> Result<()> {
        for _ in 0..MAX_ROUNDS {
            store.close_commits();
            let worked_off = self.work_off(state, &self.watch.take(FEW), &|_| false, &pin());
            open_commits(store);
            worked_off?;
            if self.watch.len() <= FEW / 2 {
                break;
            }
            thread::yield_now();
        }
        Ok(())
    }

    /// Works off notes whose commits have left their sections. Rows that are `own` are not put in again.
    fn work_off(
        &self,
        state: &mut State,
        notes: &[Note],
        own: &dyn Fn(&[u8]) -> bool,
        guard: &Guard,
    ) -> Result<()> {
        for Note { key, before } in notes {
            self.remove_all(key, before, guard);
        }
        // Rows that change often have many notes.
        let mut done = HashSet::new();
        for Note { key, .. } in notes {
            if done.insert(key) && !own(key) {
                self.put_current(state, key, guard)?;
            }
        }
        garbage::collect(guard);
        Ok(())
    }

    fn retry_unfit(&self, state: &mut State) -> Result<()> {
        mem::take(&mut state.unfit).iter().try_for_each(|unfit| self.put_current(state, unfit, &pin()))
    }

    /// Puts a row into the indexes as it is now, if there is one of this key.
    fn put_current(&self, state: &mut State, key: &[u8], guard: &Guard) -> Result<()> {
        let mut words = mem::take(&mut state.words);
        words.resize(self.table().layout().words(), 0);
        let put = match self.read(key, &mut words, guard) {
            Some(stamp) => self.put(state, key, stamp, &words, guard),
            None => Ok(()),
        };
        state.words = words;
        put
    }

    /// Reads the row of a key; its stamp.
    fn read(&self, key: &[u8], words: &mut [u64], guard: &Guard) -> Option<Stamp> {
        let Lookup::Found(record) = self.table().find(self.table().hash(key), key, guard) else {
            return None;
        };
        let word = record.read(self.table().layout(), words);
        (word & ABSENT == 0).then(|| Stamp::of(word))
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

    /// Why a row does not fit. `row`: as it will be; none: as it is.
    fn refusal(&self, key: &[u8], row: Option<&[u64]>) -> Error {
        let guard = pin();
        let table = self.table();
        let mut words = vec![0; table.layout().words()];
        match row {
            Some(row) => words.copy_from_slice(row),
            None => drop(self.read(key, &mut words, &guard)),
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

/// Builds that end with this, whatever becomes of them.
pub(crate) struct Builds<'s> {
    store: &'s Store,
    builds: Vec<Arc<IndexBuild>>,
}

impl<'s> Builds<'s> {
    /// None yet.
    pub(crate) fn new(store: &'s Store) -> Builds<'s> {
        Builds { store, builds: Vec::new() }
    }

    /// Builds these indexes of a table's next definition, unless there are none.
    ///
    /// # Errors
    /// As [`IndexBuild::catch_up`].
    pub(crate) fn add(
        &mut self,
        table: &Arc<TableCore>,
        positions: Vec<usize>,
    ) -> Result<Option<Arc<IndexBuild>>> {
        if positions.is_empty() {
            return Ok(None);
        }
        let build = Arc::new(IndexBuild::begin(self.store, table.clone(), positions));
        self.builds.push(build.clone());
        build.fill(self.store)?;
        Ok(Some(build))
    }

    /// Works off what has gathered.
    ///
    /// # Errors
    /// As [`IndexBuild::catch_up`].
    pub(crate) fn catch_up(&self) -> Result<()> {
        self.builds.iter().try_for_each(|build| build.catch_up(self.store))
    }

    /// Whether the last commit was refused because of one of them, which has too many notes: after it has caught up, the
    /// commit can be tried again.
    pub(crate) fn take_behind(&self) -> bool {
        self.builds.iter().fold(false, |behind, build| behind | build.take_behind())
    }
}

impl Drop for Builds<'_> {
    fn drop(&mut self) {
        for build in &self.builds {
            self.store.versions().unwatch(&build.watch);
            self.store.slabs().give_back(&mut build.state.lock().cutter);
        }
    }
}
