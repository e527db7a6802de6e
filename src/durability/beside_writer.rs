//! A database's newest checkpoint and the log behind it, opened beside the process that may be writing them.
//!
//! # Concurrency
//! Files are found by name and may be removed at any moment. All that is read is opened before any of it is read, and
//! if a newer checkpoint has removed a file before that, everything is opened again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::checkpoint::{Checkpoints, Manifest};
use super::directory::{checkpoints_of, identity};
use super::held_files::HeldFiles;
use super::{GroupStart, LogReader, Uuid, log_place};
use crate::base::disk::Disk;
use crate::{Error, Result};

/// Limit on restarts because a newer checkpoint has removed a file before it was opened. Two restarts are a whole
/// checkpoint apart, while a file is opened right after it was found.
const ATTEMPTS: u32 = 100;
/// Number of times that the same damage must be found: apparent damage may be the start of the process that has the
/// database, which overwrites a torn tail.
const LOOKS: u32 = 3;

/// The files, all of them open.
pub(super) struct OpenFiles {
    /// The disk on which they stay open, and as they were found.
    pub(super) disk: Arc<dyn Disk>,
    pub(super) uuid: Uuid,
    pub(super) log_path: PathBuf,
    pub(super) checkpoints: Checkpoints,
    pub(super) manifest: Option<Manifest>,
    pub(super) log: LogReader,
}

/// Opens the database in a directory, and reads it by `read`, which may be called several times.
///
/// # Errors
/// It is no database; those of `read`.
pub(super) fn read_beside_writer<T>(
    disk: &Arc<dyn Disk>,
    home: &Path,
    read: impl Fn(OpenFiles) -> Result<T>,
) -> Result<T> {
    let (mut attempts, mut looks, mut seen) = (0, 0, None);
    loop {
        match OpenFiles::open(disk, home).and_then(&read) {
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

impl OpenFiles {
    fn open(disk: &Arc<dyn Disk>, home: &Path) -> Result<OpenFiles> {
        let identity = identity(&**disk, home)?;
        let (uuid, log_path) = (identity.uuid, log_place::find(&**disk, home, &identity)?);
        let disk: Arc<dyn Disk> = Arc::new(HeldFiles::new(disk.clone()));
        let checkpoints = checkpoints_of(disk.clone(), home, uuid);
        let manifest = match checkpoints.newest_first()?.first() {
            Some(&number) => Some(checkpoints.manifest(number)?),
            None => None,
        };
        if let Some(manifest) = &manifest {
            checkpoints.open_parts(manifest)?;
        }
        let start = manifest.as_ref().map_or(GroupStart::FIRST, |manifest| manifest.log_start);
        let log = LogReader::open_beside_a_writer(disk.clone(), &log_path, uuid, start)?;
        Ok(OpenFiles { disk, uuid, log_path, checkpoints, manifest, log })
    }
}
