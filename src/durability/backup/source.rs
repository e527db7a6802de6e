//! The files that a backup copies: the newest checkpoint, and the log behind it to the last group that is there whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::held::HeldFiles;
use crate::base::disk::Disk;
use crate::durability::checkpoint::{Checkpoints, Manifest};
use crate::durability::directory::{checkpoints_of, identity};
use crate::durability::log_place;
use crate::durability::tail::LogEnd;
use crate::durability::{GroupStart, LogReader, PAGE_BYTES, Uuid};
use crate::{Error, Result};

/// Limit on restarts because a newer checkpoint has removed a file before it was opened. Two restarts are a whole
/// checkpoint apart, while a file is opened right after it was found.
const ATTEMPTS: u32 = 100;
/// Number of times that the same damage must be found: apparent damage may be the start of the process that has the
/// database, which overwrites a torn tail.
const LOOKS: u32 = 3;

/// A database's files, all of them open.
pub(super) struct Source {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) uuid: Uuid,
    pub(super) checkpoints: Checkpoints,
    pub(super) manifest: Option<Manifest>,
    pub(super) log: LogEnd,
}

/// A segment, as far as it is copied.
pub(super) struct Piece {
    pub(super) number: u32,
    pub(super) path: PathBuf,
    /// Bytes that are copied, its header page included.
    pub(super) used: u64,
    /// Bytes of the copy: in the last segment there is always room left, so that no next one is needed.
    pub(super) bytes: u64,
}

impl Source {
    /// Opens the database in a directory, which another process may be writing to.
    pub(super) fn open(disk: &Arc<dyn Disk>, path: &Path) -> Result<Source> {
        let (mut attempts, mut looks, mut seen) = (0, 0, None);
        loop {
            match Source::try_open(disk, path) {
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

    fn try_open(disk: &Arc<dyn Disk>, path: &Path) -> Result<Source> {
        let identity = identity(&**disk, path)?;
        let (uuid, log_path) = (identity.uuid, log_place::find(&**disk, path, &identity)?);
        let held: Arc<dyn Disk> = Arc::new(HeldFiles::new(disk.clone()));
        let checkpoints = checkpoints_of(held.clone(), path, uuid);
        let manifest = match checkpoints.newest_first()?.first() {
            Some(&number) => Some(checkpoints.manifest(number)?),
            None => None,
        };
        if let Some(manifest) = &manifest {
            checkpoints.open_parts(manifest)?;
        }
        let start = manifest.as_ref().map_or(GroupStart::FIRST, |manifest| manifest.log_start);
        let log = LogReader::open_beside_a_writer(held.clone(), &log_path, uuid, start)?;
        let end = log.end()?;
        end.must_reach(manifest.as_ref().map_or(0, |manifest| manifest.log_epoch))?;
        Ok(Source { disk: held, uuid, checkpoints, manifest, log: end })
    }

    /// The segments that are needed, each as far as it is.
    pub(super) fn pieces(&self) -> Vec<Piece> {
        let end = self.log.position;
        let segments = self.log.segments[..=end.index].iter().enumerate();
        segments
            .map(|(index, segment)| {
                let (number, path) = (segment.number, segment.path.clone());
                let used = if index == end.index { end.offset } else { segment.bytes };
                let bytes = if index == end.index { end.offset + PAGE_BYTES } else { segment.bytes };
                Piece { number, path, used, bytes }
            })
            .collect()
    }

    /// The last epoch in it.
    pub(super) fn epoch(&self) -> u64 {
        self.manifest.as_ref().map_or(0, |manifest| manifest.last_epoch).max(self.log.last_epoch)
    }
}
