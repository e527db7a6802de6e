//! Recovery: restores everything that was durable, from the newest whole checkpoint and the log behind it.
//!
//! A checkpoint is loaded first, if there is one; then the log is replayed from where it says, or from its beginning.
//! Groups are replayed in the order of their epochs, for each record: several threads replay, each its share of the
//! records (`replay`). Within a group the worker contexts' transactions are put in the order of their stamps, which is
//! an order in which they can have happened: of two that touched the same record, the later has the higher stamp. Their
//! merged operations on split columns are first (see `storage::restore`). Secondary indexes are derived at the end.
//!
//! Invariants: it changes nothing on disk, so that it can be interrupted and begun again any number of times. A
//! damaged checkpoint is passed over only if an older one, or the whole log, is still there: which is so only
//! while the removal of what it replaces has not begun.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_epoch::pin;
use parking_lot::Mutex;

use crate::base::atomics::{AtomicUsize, Ordering};
use crate::base::disk::Disk;
use crate::durability::checkpoint::{self, Checkpoints, Crew, Manifest};
#[cfg(test)]
use crate::durability::log_store::LogSource;
use crate::durability::position::LogPosition;
use crate::durability::replay::replay;
use crate::durability::segment::LogFiles;
use crate::durability::tail::LogEnd;
use crate::durability::watch::{RecoveryStep, Watch};
use crate::durability::{Cut, DatabaseDirectory, GroupStart, LogReader};
use crate::error::{Error, Result};
use crate::storage::reclaim::collect_all;
use crate::storage::restore::{Overlap, derive_indexes};
use crate::storage::slab::Cutter;
use crate::storage::store::Store;
use crate::storage::table::TableCore;
use crate::types::Timestamp;

/// The result of recovery when a database is opened: the recovered data, and the time of each step.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recovery {
    /// The number of the checkpoint that was loaded; 0 if there was none.
    pub checkpoint: u32,
    /// Records in it.
    pub checkpoint_records: u64,
    /// Bytes of it.
    pub checkpoint_bytes: u64,
    /// The reason why a newer checkpoint was passed over, if one was: it was damaged, and an older one, or the whole
    /// log, was still there.
    pub passed_over: Option<String>,
    /// Log groups replayed.
    pub groups: u64,
    /// Transactions in them; the changes of a worker context to split columns in an epoch count as one.
    pub transactions: u64,
    /// Bytes of redo in them.
    pub bytes: u64,
    /// The highest epoch that was durable; 0: the database was empty.
    pub durable_epoch: u64,
    /// The position of the last group in the log; `None` if the log has no group.
    pub last_position: Option<LogPosition>,
    /// The time of the last group in the log: all transactions that were acknowledged before it are there. `None` if the log has
    /// no group, or its last group is from before log format 3.
    pub last_time: Option<Timestamp>,
    /// The data cut off at the log's end: a group that was being written when the power failed. `None` if nothing was
    /// cut off.
    pub cut: Option<String>,
    /// Time to load the checkpoint.
    pub load_time: Duration,
    /// Time to replay the log.
    pub replay_time: Duration,
    /// Time to derive the secondary indexes.
    pub index_time: Duration,
    /// Time of the whole recovery.
    pub time: Duration,
}

impl fmt::Display for Recovery {
    /// Formats it as one line, for a service's log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "recovered in {:.3} s: ", self.time.as_secs_f64())?;
        if self.checkpoint > 0 {
            let (number, records, bytes) = (self.checkpoint, self.checkpoint_records, self.checkpoint_bytes);
            let seconds = self.load_time.as_secs_f64();
            write!(f, "checkpoint {number} of {records} records and {bytes} bytes in {seconds:.3} s, ")?;
        }
        let (transactions, groups, bytes) = (self.transactions, self.groups, self.bytes);
        let seconds = self.replay_time.as_secs_f64();
        write!(f, "{transactions} transactions of {groups} log groups and {bytes} bytes in {seconds:.3} s")?;
        write!(f, ", indexes in {:.3} s", self.index_time.as_secs_f64())?;
        if let Some(why) = &self.passed_over {
            write!(f, "; a newer checkpoint was passed over: {why}")?;
        }
        if let Some(cut) = &self.cut {
            write!(f, "; {cut}")?;
        }
        Ok(())
    }
}

/// A database as it was when it was closed, or when the power went.
pub(crate) struct Recovered {
    /// All tables; the first commits' epoch is set.
    pub(crate) store: Store,
    pub(crate) recovery: Recovery,
    /// The log's end, behind which it is written on.
    pub(crate) end: LogEnd,
}

/// Recovers the database in a directory, in a store that `new_store` makes.
///
/// # Errors
/// A checkpoint or the log cannot be read, or is damaged: with file and offset.
pub(crate) fn recover(
    disk: &Arc<dyn Disk>,
    directory: &DatabaseDirectory,
    new_store: impl Fn() -> Store,
    crew: Crew<'_>,
    watch: &Watch,
) -> Result<Recovered> {
    let start = Instant::now();
    let checkpoints = directory.checkpoints(disk.clone());
    let mut first_failure = None;
    let mut loaded = None;
    for number in checkpoints.newest_first()? {
        let store = new_store();
        match load(&checkpoints, number, &store, (crew, watch)) {
            Ok((manifest, overlap)) => {
                loaded = Some((store, manifest, overlap));
                break;
            }
            Err(error @ (Error::Damaged { .. } | Error::MissingFile { .. })) => {
                first_failure.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    let (store, manifest, overlap) = match loaded {
        Some((store, manifest, overlap)) => (store, Some(manifest), overlap),
        None => (new_store(), None, Overlap::default()),
    };
    let mut recovery = Recovery { load_time: start.elapsed(), ..Recovery::default() };
    let behind =
        read_log(disk, directory, &store, (manifest.as_ref(), overlap), (crew, watch), &mut recovery);
    // Without the log that it needs, what is older than the damaged checkpoint is of no use.
    let end = behind.map_err(|error| first_failure.clone().unwrap_or(error))?;
    recovery.passed_over = first_failure.map(|failure| failure.to_string());
    store.settle_schema(&pin())?;
    let start_of_indexes = Instant::now();
    derive_all_indexes(&store, (crew, watch))?;
    recovery.index_time = start_of_indexes.elapsed();
    recovery.time = start.elapsed();
    Ok(Recovered { store, recovery, end })
}

fn load(
    checkpoints: &Checkpoints,
    number: u32,
    store: &Store,
    (crew, watch): (Crew<'_>, &Watch),
) -> Result<(Manifest, Overlap)> {
    let manifest = checkpoints.manifest(number)?;
    let overlap = checkpoint::load(checkpoints, &manifest, store, (crew, watch))?;
    Ok((manifest, overlap))
}

/// Replays the log behind a checkpoint, or the whole log, to its end.
fn read_log(
    disk: &Arc<dyn Disk>,
    directory: &DatabaseDirectory,
    store: &Store,
    (manifest, overlap): (Option<&Manifest>, Overlap),
    crew: (Crew<'_>, &Watch),
    recovery: &mut Recovery,
) -> Result<LogEnd> {
    let start = Instant::now();
    let (mut log_start, mut first_epoch, mut log_epoch) = (GroupStart::FIRST, 0, 0);
    if let Some(manifest) = manifest {
        (log_start, first_epoch, log_epoch) = (manifest.log_start, manifest.first_epoch, manifest.log_epoch);
        recovery.checkpoint = manifest.number;
        recovery.checkpoint_records = manifest.records();
        recovery.checkpoint_bytes = manifest.bytes();
        recovery.durable_epoch = manifest.last_epoch;
    }
    let opened = LogReader::open(disk.clone(), directory.log_path(), directory.uuid(), log_start);
    let mut log = match opened {
        Err(error @ Error::MissingFile { .. }) if manifest.is_none() => {
            return Err(missing_beginning(disk, directory, error));
        }
        opened => opened?,
    };
    replay(store, &mut log, first_epoch, overlap, crew, recovery)?;
    let end = log.end()?;
    end.must_reach(log_epoch)?;
    recovery.cut = end.cut.as_ref().map(Cut::to_string);
    (recovery.last_position, recovery.last_time) = (end.last_position(), end.last_time());
    recovery.replay_time = start.elapsed();
    Ok(end)
}

/// Names the missing files if the log does not begin with its first segment and no checkpoint has a manifest: the
/// manifest of the checkpoint that has replaced those segments, or the segments themselves.
fn missing_beginning(disk: &Arc<dyn Disk>, directory: &DatabaseDirectory, error: Error) -> Error {
    let (disk_of_log, path) = (disk.clone(), directory.log_path().to_path_buf());
    let log = LogFiles { disk: disk_of_log, directory: path, uuid: directory.uuid() };
    let Ok(Some(first @ 2..)) = log.first_number() else { return error };
    let before =
        if first == 2 { "segment 1 is".to_string() } else { format!("segments 1 to {} are", first - 1) };
    match directory.checkpoints(disk.clone()).manifest_of_parts() {
        Ok(Some(manifest)) => {
            let detail = format!(
                "the log begins with segment {first}, behind a checkpoint of which only parts are left"
            );
            Error::MissingFile { path: manifest.display().to_string(), detail }
        }
        _ => {
            log.missing(1, &format!("{before} neither in the log nor replaced by a checkpoint that is there"))
        }
    }
}

/// Rows were read whole, and yet make no table together: no single file is damaged.
fn of_table(table: &TableCore, error: Error) -> Error {
    match error {
        Error::Inconsistent { .. } => error,
        other => Error::Inconsistent { detail: format!("{}: {other}", table.definition().name()) },
    }
}

/// Recovers the database of a log that is in no directory and has no checkpoints.
#[cfg(test)]
pub(crate) fn recover_from(
    source: &mut dyn LogSource,
    store: Store,
    (crew, watch): (Crew<'_>, &Watch),
) -> Result<(Store, Recovery)> {
    let mut recovery = Recovery::default();
    replay(&store, source, 0, Overlap::default(), (crew, watch), &mut recovery)?;
    store.settle_schema(&pin())?;
    derive_all_indexes(&store, (crew, watch))?;
    Ok((store, recovery))
}

/// Takes absent records out of all tables, and fills their secondary indexes, several tables at once.
pub(super) fn derive_all_indexes(store: &Store, (crew, watch): (Crew<'_>, &Watch)) -> Result<()> {
    let tables = store.all_tables();
    let (next, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failure = Mutex::new(None);
    let work = || {
        let mut cutter = Cutter::default();
        // Relaxed: each number is given once, and nothing else hangs on it.
        while let Some(table) = tables.get(next.fetch_add(1, Ordering::Relaxed)) {
            let guard = pin();
            collect_all(table, &guard);
            if let Err(error) = derive_indexes(table, &mut cutter, &guard) {
                failure.lock().get_or_insert(of_table(table, error));
            }
            let done = ended.fetch_add(1, Ordering::Relaxed) + 1;
            watch.report(RecoveryStep::Indexes, done as u64, tables.len() as u64);
        }
    };
    let indexed = tables.iter().filter(|table| !table.secondary().is_empty()).count();
    if indexed > 1 {
        crew(&work)
    } else {
        work()
    }
    failure.into_inner().map_or(Ok(()), Err)
}
