//! Reading the log of a database that another process writes: a standby's source.
//!
//! A standby loads the newest checkpoint and the log behind it as recovery does, but beside the writer and without its lock; from then on it
//! reads what is appended. It opens files for reading only, and nothing in the database's directory is made, locked or changed.
//!
//! # Invariants
//! - A group is given only if it is whole, and continues the chain of those before: what another history of the same database
//!   has at its place is an error.
//! - What is not whole is read again each time, because the writer that opens the database after a crash replaces it.
//! - A group is given once it is written, which is before it is known to be durable: see `docs/standby.md`.
//!
//! # Concurrency
//! Files may be removed at any moment: see [`beside_writer`](super::beside_writer) for those that are loaded. A segment that is gone before it was
//! read is an error, and the standby is to be loaded again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crossbeam_epoch::pin;

use super::LogReader;
use super::beside_writer::{OpenFiles, read_beside_writer};
use super::checkpoint::{self, Crew, Manifest};
use super::directory::{DatabaseDirectory, identity};
use super::failure::damaged;
use super::log_place;
use super::log_reader::{Group, TermStart};
use super::position::{LogPosition, time_of_group};
use super::recovery::{Recovery, derive_all_indexes};
use super::replay::replay;
use super::starts::GroupStarts;
use super::tail::LogEnd;
use super::watch::Watch;
use crate::base::disk::Disk;
use crate::storage::restore::Overlap;
use crate::storage::store::Store;
use crate::types::Timestamp;
use crate::{Error, Result};

/// The end of a log that another process writes.
pub(crate) struct LogTail {
    reader: LogReader,
    /// The position of the last group, or of the checkpoint if no group is behind that.
    position: LogPosition,
}

/// The data of a database that another process writes, as far as it was found, and the rest of its log.
pub(crate) struct StandbyBase {
    pub(crate) store: Store,
    pub(crate) recovery: Recovery,
    pub(crate) tail: LogTail,
}

impl LogTail {
    /// The next group; `None` if the log has no other whole group now.
    ///
    /// # Errors
    /// The log cannot be read, does not continue what was read before, or was shortened before it was read.
    pub(crate) fn next_group(&mut self) -> Result<Option<Group>> {
        let group = self.reader.next_group_behind_writer()?;
        if group.is_some() {
            self.position = self.reader.last_whole().position();
        }
        Ok(group)
    }

    /// Says whether there is no further group because the log ends, or because it is damaged. Takes as long as to read two segments.
    ///
    /// # Errors
    /// It is damaged.
    pub(crate) fn check_end(&mut self) -> Result<()> {
        self.reader.check_end()
    }

    /// The position of the last group.
    pub(crate) fn position(&self) -> LogPosition {
        self.position
    }

    /// The time of the last group, if it has one.
    pub(crate) fn time(&self) -> Option<Timestamp> {
        time_of_group(self.reader.last_whole().time())
    }

    /// The changes of terms that were met, in their order.
    pub(crate) fn terms(&self) -> &[TermStart] {
        self.reader.terms()
    }

    /// What is known of the log once it was replayed to its end.
    pub(crate) fn replayed(&self) -> ReplayedLog {
        ReplayedLog {
            starts: self.reader.starts().clone(),
            last: self.reader.last_whole().position(),
            position: self.position,
        }
    }

    /// The error of the last group, whose content makes no sense.
    pub(crate) fn blame(&self, error: Error) -> Error {
        self.reader.blame(self.reader.last_place(), error)
    }
}

/// A log that was replayed to its end while it had no writer any more: what it takes to continue it.
#[derive(Clone)]
pub(crate) struct ReplayedLog {
    starts: GroupStarts,
    /// The position of the last whole group.
    last: LogPosition,
    /// The same, or that of the checkpoint if no group is behind it.
    position: LogPosition,
}

impl ReplayedLog {
    /// The position of what was replayed.
    pub(crate) fn position(&self) -> LogPosition {
        self.position
    }

    /// The end of the log, behind which it is written on. `directory` is locked; `newest` is its newest checkpoint, before which
    /// the log is of no use. Only the last groups are read again.
    ///
    /// # Errors
    /// The log cannot be read, is damaged, or does not end with what was replayed.
    pub(crate) fn end(&self, directory: &DatabaseDirectory, newest: Option<&Manifest>) -> Result<LogEnd> {
        let mut starts = self.starts.clone();
        if let Some(newest) = newest {
            starts.drop_before(newest.log_start.segment);
        }
        let (disk, log) = (directory.disk().clone(), directory.log_path());
        let reader = LogReader::open(disk, log, directory.uuid(), starts.before_last_two())?;
        let end = reader.end()?;
        end.must_reach(newest.map_or(0, |newest| newest.log_epoch))?;
        let found = end.chain.position();
        if found != self.last {
            let detail = format!("the log ends with position {found}, and was replayed to {}", self.last);
            return Err(damaged(&end.segments[end.position.index].path, end.position.offset, detail));
        }
        let first = starts.first();
        let before = end.files.bytes_of(first.segment..end.segments[end.position.index].number)?;
        starts.set_bytes((before + end.position.offset).saturating_sub(first.offset));
        Ok(LogEnd { starts, ..end })
    }
}

/// The directory of the database whose log is at this path: the log's own, or the database's.
///
/// # Errors
/// There is no database's log.
pub(crate) fn home_of_log(disk: &dyn Disk, path: &Path) -> Result<PathBuf> {
    if let Some(owner) = log_place::owner(disk, path)? {
        return Ok(owner);
    }
    let is_in_home = path.file_name().is_some_and(|name| name == "log");
    let home = path.parent().filter(|_| is_in_home).unwrap_or(path);
    // A relative path of one name has an empty parent.
    let home = if home.as_os_str().is_empty() { Path::new(".") } else { home };
    identity(disk, home).map(|_| home.to_path_buf())
}

/// Loads the database in a directory, which another process may be writing to, into a store that `new_store` makes.
///
/// # Errors
/// It is no database; a checkpoint or the log cannot be read, or is damaged.
pub(crate) fn load_beside_a_writer(
    disk: &Arc<dyn Disk>,
    home: &Path,
    new_store: impl Fn() -> Store,
    tools: (Crew<'_>, &Watch),
) -> Result<StandbyBase> {
    read_beside_writer(disk, home, |files| load(disk, files, new_store(), tools))
}

fn load(
    disk: &Arc<dyn Disk>,
    OpenFiles { log_path, checkpoints, manifest, log: mut reader, .. }: OpenFiles,
    store: Store,
    (crew, watch): (Crew<'_>, &Watch),
) -> Result<StandbyBase> {
    let begun = Instant::now();
    let (mut recovery, mut overlap) = (Recovery::default(), Overlap::default());
    if let Some(manifest) = &manifest {
        overlap = checkpoint::load(&checkpoints, manifest, &store, (crew, watch))?;
        recovery.checkpoint = manifest.number;
        recovery.checkpoint_records = manifest.records();
        recovery.checkpoint_bytes = manifest.bytes();
        recovery.durable_epoch = manifest.last_epoch;
        recovery.load_time = begun.elapsed();
    }
    let first_epoch = manifest.as_ref().map_or(0, |manifest| manifest.first_epoch);
    replay(&store, &mut reader, first_epoch, overlap, (crew, watch), &mut recovery)?;
    let (whole, log_epoch) =
        (reader.last_whole().position(), manifest.as_ref().map_or(0, |manifest| manifest.log_epoch));
    if whole.epoch() < log_epoch {
        let detail = "the checkpoint is newer than the log that is there";
        return Err(Error::MissingFile { path: log_path.display().to_string(), detail: detail.to_string() });
    }
    recovery.replay_time = begun.elapsed() - recovery.load_time;
    let indexing = Instant::now();
    store.settle_schema(&pin())?;
    derive_all_indexes(&store, (crew, watch))?;
    recovery.index_time = indexing.elapsed();
    reader.read_on_from(disk.clone())?;
    let position = LogPosition::new(whole.term(), whole.epoch().max(recovery.durable_epoch));
    let tail = LogTail { reader, position };
    (recovery.last_position, recovery.last_time) = ((whole.epoch() > 0).then_some(whole), tail.time());
    recovery.time = begun.elapsed();
    Ok(StandbyBase { store, recovery, tail })
}
