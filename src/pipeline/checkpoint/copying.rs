//! The work on one checkpoint that several threads share: records are copied, collected in blocks, and written to parts.
//!
//! Invariant: each thread has one open part for each directory and gives them blocks in turn, so that records are spread over all
//! directories however many threads copy, how fast each of them is, and however little there is.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::Checkpointer;
use super::pace::Pace;
use crate::diagnostics::work_time::WorkTime;
use crate::durability::checkpoint::{NewCheckpoint, PartWriter};
use crate::error::{Error, Result};
use crate::pipeline::engine::Engine;
use crate::pipeline::statistics::Stage;
use crate::storage::catalog::FIRST_USER_TABLE;
use crate::storage::fuzzy_scan::{Copied, LiveScan};
use crate::storage::store::Store;
use crate::storage::table::TableCore;

/// About so large are blocks.
const BLOCK_BYTES: usize = if cfg!(test) { 1 << 10 } else { 256 << 10 };
/// About so large are parts: small enough that several threads have something to load.
const PART_BYTES: u64 = if cfg!(test) { 16 << 10 } else { 64 << 20 };

/// Writes all parts of a checkpoint of a store that no other thread uses, as fast as it can.
pub(crate) fn write_all(
    new: &Arc<NewCheckpoint>,
    store: &Store,
    is_stopped: &dyn Fn() -> bool,
) -> Result<Copied> {
    let (catalog, others) = store.all_tables().into_iter().partition(|table| table.id() < FIRST_USER_TABLE);
    let pace = Arc::new(Pace::new(None, 0, 0));
    let catalog = Job::of_catalog(new.clone(), catalog, pace.clone());
    let mut copied = catalog.copy(store, is_stopped, &mut |_| ())?;
    copied.add(&Job::new(new.clone(), others, pace).copy(store, is_stopped, &mut |_| ())?);
    Ok(copied)
}

/// A part of a checkpoint's work: some tables, whose records go into parts.
pub(super) struct Job {
    new: Arc<NewCheckpoint>,
    scan: LiveScan,
    /// True if all records are put into one part, even if there are none.
    is_one_part: bool,
    pace: Arc<Pace>,
    outcome: Mutex<Result<Copied>>,
}

impl Job {
    /// Copies these tables into as many parts as are needed.
    pub(super) fn new(new: Arc<NewCheckpoint>, tables: Vec<Arc<TableCore>>, pace: Arc<Pace>) -> Job {
        let scan = LiveScan::new(tables);
        Job { new, scan, is_one_part: false, pace, outcome: Mutex::new(Ok(Copied::default())) }
    }

    /// Copies the catalog into the first part.
    pub(super) fn of_catalog(new: Arc<NewCheckpoint>, tables: Vec<Arc<TableCore>>, pace: Arc<Pace>) -> Job {
        Job { is_one_part: true, ..Job::new(new, tables, pace) }
    }

    /// Works on it until nothing is left, or any thread has failed.
    pub(super) fn work(&self, engine: &Engine, maker: &Checkpointer) {
        let (work, mut waited) = (WorkTime::begin(), Duration::ZERO);
        let mut wait = |is_over: &dyn Fn() -> bool| {
            waited += self.pace.wait(|| maker.log_bytes(), is_over, || maker.is_hurried());
        };
        let copied = self.copy(engine.store(), &|| maker.is_stopped(), &mut wait);
        engine.clocks().add_time(Stage::Checkpoint, work.elapsed().saturating_sub(waited));
        let mut outcome = self.outcome.lock();
        match (&mut *outcome, copied) {
            (Ok(all), Ok(copied)) => all.add(&copied),
            (Ok(_), Err(error)) => *outcome = Err(error),
            (Err(_), _) => {}
        }
    }

    /// A thread has panicked: all others stop, too.
    pub(super) fn fail(&self, error: Error) {
        *self.outcome.lock() = Err(error);
    }

    /// The outcome, when all threads have returned from it.
    pub(super) fn outcome(&self) -> Result<Copied> {
        self.outcome.lock().clone()
    }

    /// Copies what is left. `wait` waits until it is time for more, or it is over.
    fn copy(
        &self,
        store: &Store,
        is_stopped: &dyn Fn() -> bool,
        wait: &mut dyn FnMut(&dyn Fn() -> bool),
    ) -> Result<Copied> {
        let mut copier = self.scan.copier();
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        let mut written = 0;
        let mut stripes = Stripes::new(&self.new, self.is_one_part);
        if self.is_one_part {
            let (directory, part) = stripes.next();
            *part = Some(self.new.begin_part(directory)?);
        }
        let is_over = || is_stopped() || self.outcome.lock().is_err();
        let mut more = true;
        while more {
            wait(&is_over);
            if is_over() {
                return Err(Error::Closed);
            }
            let before = block.len();
            more = copier.copy_some(store, &mut block, BLOCK_BYTES)?;
            self.pace.copied((block.len() - before) as u64);
            if block.len() >= BLOCK_BYTES || !more && !block.is_empty() {
                let records = copier.copied().records();
                let bytes = self.append(&mut stripes, (records - written) as u32, &block)?;
                written = records;
                block.clear();
                self.pace.written(bytes);
            }
        }
        stripes.parts.into_iter().flatten().try_for_each(|part| self.new.finish_part(part))?;
        Ok(copier.copied().clone())
    }

    /// Appends a block to the part whose turn it is, and begins a new part when that one is large enough.
    fn append(&self, stripes: &mut Stripes, records: u32, block: &[u8]) -> Result<u64> {
        let (directory, part) = stripes.next();
        let mut writer = match part.take() {
            Some(writer) => writer,
            None => self.new.begin_part(directory)?,
        };
        let bytes = writer.append(records, block)?;
        if writer.bytes() >= PART_BYTES && !self.is_one_part {
            self.new.finish_part(writer)?;
        } else {
            *part = Some(writer);
        }
        Ok(bytes)
    }
}

/// The open parts of one thread, one for each directory.
struct Stripes {
    parts: Vec<Option<PartWriter>>,
    turn: usize,
}

impl Stripes {
    /// No part is open yet. The first block goes to the directory behind those that have a part already: the catalog's alone
    /// keeps to the first one.
    fn new(new: &NewCheckpoint, is_one_part: bool) -> Stripes {
        let count = if is_one_part { 1 } else { new.stripes() };
        Stripes { parts: (0..count).map(|_| None).collect(), turn: new.parts_begun() % count }
    }

    /// The directory whose turn it is, by its place, and its part.
    fn next(&mut self) -> (usize, &mut Option<PartWriter>) {
        let place = self.turn;
        self.turn = (place + 1) % self.parts.len();
        (place, &mut self.parts[place])
    }
}
