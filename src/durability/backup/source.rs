//! The files that a backup copies: the newest checkpoint, and the log behind it to the last group that is there whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Result;
use crate::base::disk::Disk;
use crate::durability::beside_writer::{OpenFiles, read_beside_writer};
use crate::durability::checkpoint::{Checkpoints, Manifest};
use crate::durability::tail::LogEnd;
use crate::durability::{PAGE_BYTES, Uuid};

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
        read_beside_writer(disk, path, |OpenFiles { disk, uuid, checkpoints, manifest, log, .. }| {
            let log = log.end()?;
            log.must_reach(manifest.as_ref().map_or(0, |manifest| manifest.log_epoch))?;
            Ok(Source { disk, uuid, checkpoints, manifest, log })
        })
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
