//! The work on one checkpoint that several threads share: records are copied, collected in blocks, and written to parts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::base::atomics::{AtomicBool, AtomicU64, Ordering};
use crate::durability::checkpoint::{NewCheckpoint, PartWriter};
use crate::error::{Error, Result};
use crate::pipeline::engine::Engine;
use crate::pipeline::statistics::Stage;
use crate::storage::copy::{Copied, LiveScan};
use crate::storage::table::TableCore;

/// About so large are blocks.
const BLOCK_BYTES: usize = if cfg!(test) { 1 << 10 } else { 256 << 10 };
/// About so large are parts: small enough that several threads have something to load.
const PART_BYTES: u64 = if cfg!(test) { 16 << 10 } else { 64 << 20 };
/// Who waits because of the limit looks so often whether it is to end.
const LOOK: Duration = Duration::from_millis(10);

/// A part of a checkpoint's work: some tables, whose records go into parts.
pub(super) struct Job {
    new: Arc<NewCheckpoint>,
    scan: LiveScan,
    /// Whether all goes into one part, even if there is nothing.
    is_one_part: bool,
    pace: Pace,
    outcome: Mutex<Result<Copied>>,
}

impl Job {
    /// Copies these tables into as many parts as are needed.
    pub(super) fn new(new: Arc<NewCheckpoint>, tables: Vec<Arc<TableCore>>, bytes_per_second: u64) -> Job {
        let (scan, pace) = (LiveScan::new(tables), Pace::new(bytes_per_second));
        Job { new, scan, is_one_part: false, pace, outcome: Mutex::new(Ok(Copied::default())) }
    }

    /// Copies the catalog into the first part.
    pub(super) fn of_catalog(
        new: Arc<NewCheckpoint>,
        tables: Vec<Arc<TableCore>>,
        bytes_per_second: u64,
    ) -> Job {
        Job { is_one_part: true, ..Job::new(new, tables, bytes_per_second) }
    }

    /// Works on it until nothing is left, or anybody has failed.
    pub(super) fn work(&self, engine: &Engine, stop: &AtomicBool) {
        let start = Instant::now();
        let copied = self.copy(engine, stop);
        engine.clocks().add(Stage::Checkpoint, start);
        let mut outcome = self.outcome.lock();
        match (&mut *outcome, copied) {
            (Ok(all), Ok(copied)) => all.add(&copied),
            (Ok(_), Err(error)) => *outcome = Err(error),
            (Err(_), _) => {}
        }
    }

    /// Somebody has died of it: all others stop, too.
    pub(super) fn fail(&self, error: Error) {
        *self.outcome.lock() = Err(error);
    }

    /// What it has come to, when all have come back from it.
    pub(super) fn outcome(&self) -> Result<Copied> {
        self.outcome.lock().clone()
    }

    fn copy(&self, engine: &Engine, stop: &AtomicBool) -> Result<Copied> {
        let mut copier = self.scan.copier();
        let mut block = Vec::with_capacity(BLOCK_BYTES);
        let mut written = 0;
        let mut part = if self.is_one_part { Some(self.new.begin_part()?) } else { None };
        let mut more = true;
        while more {
            // Relaxed: sooner or later is enough.
            if stop.load(Ordering::Relaxed) || self.outcome.lock().is_err() {
                return Err(Error::Closed);
            }
            more = copier.copy_some(engine.store(), &mut block, BLOCK_BYTES);
            if block.len() >= BLOCK_BYTES || !more && !block.is_empty() {
                let records = copier.copied().records();
                let bytes = self.append(&mut part, (records - written) as u32, &block)?;
                written = records;
                block.clear();
                self.pace.keep(bytes, stop);
            }
        }
        part.map_or(Ok(()), |part| self.new.finish_part(part))?;
        Ok(copier.copied().clone())
    }

    /// Appends a block to the present part, and goes on in a new one when that is large enough.
    fn append(&self, part: &mut Option<PartWriter>, records: u32, block: &[u8]) -> Result<u64> {
        let mut writer = match part.take() {
            Some(writer) => writer,
            None => self.new.begin_part()?,
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

/// Keeps the writing of all threads below a limit.
struct Pace {
    bytes_per_second: u64,
    start: Instant,
    written: AtomicU64,
}

impl Pace {
    fn new(bytes_per_second: u64) -> Pace {
        Pace { bytes_per_second, start: Instant::now(), written: AtomicU64::new(0) }
    }

    /// Counts what was written, and waits until it may have been.
    fn keep(&self, bytes: u64, stop: &AtomicBool) {
        if self.bytes_per_second == 0 {
            return;
        }
        // Relaxed: a sum.
        let written = self.written.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let due = Duration::from_secs_f64(written as f64 / self.bytes_per_second as f64);
        while let Some(left) = due.checked_sub(self.start.elapsed())
            && !stop.load(Ordering::Relaxed)
        {
            std::thread::sleep(left.min(LOOK));
        }
    }
}
