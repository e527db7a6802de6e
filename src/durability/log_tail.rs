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
//! Files are found by name and may be removed at any moment. All that the standby loads is opened before any of it is read, and
//! if a newer checkpoint has removed a file before that, everything is opened again.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crossbeam_epoch::pin;

use super::backup::HeldFiles;
use super::checkpoint::{self, Crew};
use super::directory::{checkpoints_of, identity};
use super::log_place;
use super::log_reader::{Group, TermStart};
use super::position::{LogPosition, time_of_group};
use super::recovery::{Recovery, derive_all_indexes};
use super::replay::replay;
use super::watch::Watch;
use super::{GroupStart, LogReader};
use crate::base::disk::Disk;
use crate::storage::restore::Overlap;
use crate::storage::store::Store;
use crate::types::Timestamp;
use crate::{Error, Result};

/// Limit on restarts because a newer checkpoint has removed a file before it was opened.
const ATTEMPTS: u32 = 100;
/// Number of times that the same damage must be found: apparent damage may be the start of the process that has the
/// database, which overwrites a torn tail.
const LOOKS: u32 = 3;

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

    /// The error of the last group, whose content makes no sense.
    pub(crate) fn blame(&self, error: Error) -> Error {
        self.reader.blame(self.reader.last_place(), error)
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
    let (mut attempts, mut looks, mut seen) = (0, 0, None);
    loop {
        match try_load(disk, home, new_store(), tools) {
            Err(Error::MissingFile { .. }) if attempts < ATTEMPTS => attempts += 1,
            Err(error @ Error::Damaged { .. }) if seen.as_ref() != Some(&error) || looks < LOOKS => {
                looks = if seen.as_ref() == Some(&error) { looks + 1 } else { 1 };
                attempts += 1;
                if attempts > ATTEMPTS {
                    return Err(error);
                }
                seen = Some(error);
            }
            other => return other,
        }
    }
}

fn try_load(
    disk: &Arc<dyn Disk>,
    home: &Path,
    store: Store,
    (crew, watch): (Crew<'_>, &Watch),
) -> Result<StandbyBase> {
    let begun = Instant::now();
    let identity = identity(&**disk, home)?;
    let (uuid, log_path) = (identity.uuid, log_place::find(&**disk, home, &identity)?);
    let held: Arc<dyn Disk> = Arc::new(HeldFiles::new(disk.clone()));
    let checkpoints = checkpoints_of(held.clone(), home, uuid);
    let manifest = match checkpoints.newest_first()?.first() {
        Some(&number) => Some(checkpoints.manifest(number)?),
        None => None,
    };
    if let Some(manifest) = &manifest {
        checkpoints.open_parts(manifest)?;
    }
    let start = manifest.as_ref().map_or(GroupStart::FIRST, |manifest| manifest.log_start);
    let mut reader = LogReader::open_beside_a_writer(held, &log_path, uuid, start)?;
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
