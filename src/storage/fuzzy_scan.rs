//! Copies all live records while commits go on: what a checkpoint is made of (TPK, 1988, section 3: a checkpoint need not
//! be of one moment, because the log is applied to it).
//!
//! Several threads share one scan. Its place, a table and a place in it, is behind a lock that is held only while the
//! addresses of some records are collected; copying and encoding them is each thread's own.
//!
//! Invariants:
//! - Every copy is a row as some commit has installed it, with that commit's stamp: an ordinary optimistic read.
//! - A record that is there from the scan's beginning to its end is copied exactly once. Pages of either index are sets
//!   of keys that do not depend on other inserts and deletes (a hash page is a bucket number under a prefix, an
//!   ordered page begins where the one before has ended), and each page is one thread's.
//! - A thread is pinned for this many records at most, and never while it writes to a disk: so a scan holds nothing back
//!   for long that is to be freed.
//! - A record that is split is copied with the first epoch of its split phase, so that recovery knows from where on its
//!   split columns lack what worker contexts' slices have.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crossbeam_epoch::{Guard, pin};
use crossbeam_utils::Backoff;
use parking_lot::Mutex;

use crate::error::Result;
use crate::storage::index::Lookup;
use crate::storage::record::Record;
use crate::storage::redo::append_copied;
use crate::storage::row::{RowLayout, prefetch_block};
use crate::storage::store::Store;
use crate::storage::table::{ScanPlace, TableCore, TableId, wait_a_little};
use crate::storage::word::{ABSENT, SPLIT, Stamp};
use crate::types::memory::{Refused, reserve};

/// About this many records are copied under one pin.
const BATCH_RECORDS: usize = if cfg!(test) { 8 } else { 256 };
/// The number of rows that are read one after the other, while the next ones' records are fetched, and before the first
/// one's long values are looked at, which are fetched meanwhile.
const AHEAD: usize = if cfg!(test) { 3 } else { 16 };

/// The first epoch of the log that is needed beside copies that are made from now on, given that everything through
/// `durable` is durable; that must have been asked before.
///
/// Commits of durable epochs have left their commit sections, so a scan that begins now meets their installs or later
/// ones. A record that is split now is copied as it was before its phase: the log is needed from the phase's first
/// epoch. A phase that begins later begins with an epoch behind `durable`.
pub(crate) fn first_epoch_needed(store: &Store, durable: u64) -> u64 {
    let split_since = store.splits().current(&pin()).map(|set| set.since());
    split_since.map_or(durable + 1, |since| since.min(durable + 1))
}

/// The progress of a copy of some tables; shared by all threads that copy.
pub(crate) struct LiveScan {
    tables: Vec<Arc<TableCore>>,
    place: Mutex<(usize, ScanPlace)>,
}

/// The most bytes that a copy takes, beside its key and its long values; and the most of a column of it.
const COPY_BYTES: usize = 64;
const COLUMN_BYTES: usize = 40;

/// The state of one copying thread.
pub(crate) struct Copier<'s> {
    scan: &'s LiveScan,
    /// Records of the last batch for which the buffer had no room: their table, and their keys.
    left: (usize, VecDeque<Box<[u8]>>),
    rows: Rows,
    copied: Copied,
}

/// Rows that were read and are not written yet.
#[derive(Default)]
struct Rows {
    words: Vec<u64>,
    /// The stamp of each record's row, and the first epoch of its split; `None` for an absent record.
    read: Vec<Option<(Stamp, u64)>>,
}

/// The counts of copied records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Copied {
    /// The number of records of each table.
    pub(crate) tables: BTreeMap<TableId, u64>,
    /// The highest epoch in which any of them was written.
    pub(crate) highest_epoch: u64,
}

impl Copied {
    /// The number of all records.
    pub(crate) fn records(&self) -> u64 {
        self.tables.values().sum()
    }

    /// Adds what another thread has copied.
    pub(crate) fn add(&mut self, other: &Copied) {
        for (&table, records) in &other.tables {
            *self.tables.entry(table).or_default() += records;
        }
        self.highest_epoch = self.highest_epoch.max(other.highest_epoch);
    }
}

impl LiveScan {
    /// A scan of these tables, one after the other.
    pub(crate) fn new(tables: Vec<Arc<TableCore>>) -> LiveScan {
        LiveScan { tables, place: Mutex::new((0, ScanPlace::Start)) }
    }

    /// A new copying thread's state.
    pub(crate) fn copier(&self) -> Copier<'_> {
        Copier { scan: self, left: Default::default(), rows: Rows::default(), copied: Copied::default() }
    }

    /// The next records, all of one table; the number of that table, or nothing at the end.
    fn collect<'g>(&'g self, records: &mut Vec<Record<'g>>, guard: &'g Guard) -> Option<usize> {
        let mut place = self.place.lock();
        loop {
            let at = place.0;
            let table = self.tables.get(at)?;
            while records.len() < BATCH_RECORDS && place.0 == at {
                *place = match table.page_at(&place.1, records, guard) {
                    Some(next) => (at, next),
                    None => (at + 1, ScanPlace::Start),
                };
            }
            if !records.is_empty() {
                return Some(at);
            }
        }
    }
}

impl Copier<'_> {
    /// Appends copies of some more records to `out`, until it has about `bytes_max` bytes at most. Returns true if
    /// there may be more, and false at the end of the scan.
    ///
    /// # Errors
    /// The system refuses the memory: the copy is of no use.
    pub(crate) fn copy_some(&mut self, store: &Store, out: &mut Vec<u8>, bytes_max: usize) -> Result<bool> {
        let guard = pin();
        let (at, keys) = &mut self.left;
        let table = self.scan.tables.get(*at);
        while let Some(table) = table
            && let Some(key) = keys.pop_front()
        {
            // Gone meanwhile: then the log has it.
            if let Lookup::Found(record) = table.find(table.hash(&key), &key, &guard) {
                self.rows.read_all(store, table, &[record], &guard)?;
                // SAFETY: the row was just read, and the thread is pinned.
                unsafe { self.rows.append(0, table, record, out, &mut self.copied)? };
            }
            if out.len() >= bytes_max {
                return Ok(true);
            }
        }
        let mut records = Vec::new();
        let Some(at) = self.scan.collect(&mut records, &guard) else { return Ok(false) };
        let done = self.copy_records(store, at, &records, (&mut *out, bytes_max), &guard)?;
        self.left = (at, records[done..].iter().map(|record| record.key().into()).collect());
        Ok(true)
    }

    /// Appends copies of these records of one table, until `out` has enough bytes; how many are done.
    fn copy_records(
        &mut self,
        store: &Store,
        table: usize,
        records: &[Record<'_>],
        (out, bytes_max): (&mut Vec<u8>, usize),
        guard: &Guard,
    ) -> Result<usize> {
        let table = &self.scan.tables[table];
        records.iter().take(AHEAD).for_each(|&record| table.prefetch_record(record));
        let mut done = 0;
        for group in records.chunks(AHEAD) {
            let next = records[done + group.len()..].iter().take(AHEAD);
            next.for_each(|&record| table.prefetch_record(record));
            self.rows.read_all(store, table, group, guard)?;
            for (place, &record) in group.iter().enumerate() {
                if out.len() >= bytes_max {
                    return Ok(done);
                }
                // SAFETY: the rows were just read, and the thread is pinned.
                unsafe { self.rows.append(place, table, record, out, &mut self.copied)? };
                done += 1;
            }
        }
        Ok(done)
    }

    /// The counts of its copied records so far.
    pub(crate) fn copied(&self) -> &Copied {
        &self.copied
    }
}

impl Rows {
    /// Reads these records' rows, and has their long values fetched.
    fn read_all(
        &mut self,
        store: &Store,
        table: &TableCore,
        records: &[Record<'_>],
        guard: &Guard,
    ) -> Result<()> {
        let layout = table.layout();
        self.words.clear();
        reserve(&mut self.words, records.len() * layout.words()).map_err(Refused::error)?;
        self.words.resize(records.len() * layout.words(), 0);
        self.read.clear();
        for (&record, row) in records.iter().zip(self.words.chunks_exact_mut(layout.words())) {
            let read = read(store, layout, record, row, guard);
            if read.is_some() {
                layout.blocks(row).for_each(prefetch_block);
            }
            self.read.push(read);
        }
        Ok(())
    }

    /// Appends a copy of the record whose row was read at this place, if it was present.
    ///
    /// # Safety
    /// The thread has been pinned since before the rows were read, which are of this table.
    unsafe fn append(
        &self,
        place: usize,
        table: &TableCore,
        record: Record<'_>,
        out: &mut Vec<u8>,
        copied: &mut Copied,
    ) -> Result<()> {
        let Some((stamp, since)) = self.read[place] else { return Ok(()) };
        let layout = table.layout();
        let row = &self.words[place * layout.words()..][..layout.words()];
        // SAFETY: the caller's promise: the row's blocks are alive.
        let long = if layout.has_blocks() { unsafe { layout.image_bytes(row) } } else { 0 };
        let room = COPY_BYTES + record.key().len() + COLUMN_BYTES * layout.len() + long;
        reserve(out, room).map_err(Refused::error)?;
        // SAFETY: the caller's promise: the row's blocks are alive.
        unsafe { append_copied(out, table, record.key(), (stamp, since), row) };
        *copied.tables.entry(table.id()).or_default() += 1;
        copied.highest_epoch = copied.highest_epoch.max(stamp.epoch());
        Ok(())
    }
}

/// Copies a present record's row; returns its stamp and, if it is split, the first epoch of the split phase.
fn read(
    store: &Store,
    layout: &RowLayout,
    record: Record<'_>,
    row: &mut [u64],
    guard: &Guard,
) -> Option<(Stamp, u64)> {
    let phase = || store.splits().current(guard).map(|set| (set.phase(), set.since()));
    let backoff = Backoff::new();
    loop {
        let before = phase();
        let word = record.read(layout, row);
        if word & ABSENT != 0 {
            return None;
        }
        if word & SPLIT == 0 {
            return Some((Stamp::of(word), 0));
        }
        // A phase has its set only between its marking and its merging of records, and no number comes again. So if
        // the set was the same before and after, the mark was of this very phase: a thread that sees a mark (acquire
        // in `read`, with the release in `begin_split`) no longer sees the set of an earlier phase. If not, a phase is
        // beginning or outcome at this moment, behind the closed gate.
        if let (Some(before), Some(after)) = (before, phase())
            && before == after
        {
            return Some((Stamp::of(word), before.1));
        }
        wait_a_little(&backoff);
    }
}

#[cfg(test)]
mod tests;
