//! A checkpoint as it is archived: its files in chunks, with every checksum looked at on the way.

use std::collections::VecDeque;
use std::sync::Arc;

use super::SegmentPosition;
use crate::base::disk::Disk;
use crate::durability::checkpoint::{Checkpoints, Manifest, PartCopy};
use crate::durability::held_files::HeldFiles;
use crate::error::{Error, Result};

/// Number of attempts, each of which fails because a newer checkpoint has removed what was about to be opened.
const ATTEMPTS: u32 = 100;

/// Some bytes of one of a checkpoint's files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChunk {
    /// The file's name in the directory of checkpoints.
    pub file: String,
    /// The offset of the bytes in it.
    pub offset: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
}

/// A checkpoint that is being copied: its files are open, so that it may be replaced by a newer one meanwhile.
pub struct CheckpointCopy {
    manifest: Manifest,
    parts: VecDeque<PartCopy>,
    /// The manifest's file, which is the last.
    last: Option<FileChunk>,
}

impl std::fmt::Debug for CheckpointCopy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("CheckpointCopy").field("number", &self.number()).finish_non_exhaustive()
    }
}

impl CheckpointCopy {
    /// Opens the newest checkpoint, if there is one.
    ///
    /// # Errors
    /// It is damaged, or cannot be read.
    pub(crate) fn newest(checkpoints: &Checkpoints) -> Result<Option<CheckpointCopy>> {
        let mut attempts = 0;
        loop {
            match CheckpointCopy::try_newest(checkpoints) {
                Err(Error::MissingFile { .. }) if attempts < ATTEMPTS => attempts += 1,
                other => return other,
            }
        }
    }

    fn try_newest(checkpoints: &Checkpoints) -> Result<Option<CheckpointCopy>> {
        let held: Arc<dyn Disk> = Arc::new(HeldFiles::new(checkpoints.shared_disk()));
        let checkpoints = checkpoints.on(held);
        let Some(&number) = checkpoints.newest_first()?.first() else { return Ok(None) };
        let manifest = checkpoints.manifest(number)?;
        let parts = checkpoints.part_copies(&manifest)?.into();
        let (file, bytes) = checkpoints.manifest_of_copy(&manifest);
        Ok(Some(CheckpointCopy { manifest, parts, last: Some(FileChunk { file, offset: 0, bytes }) }))
    }

    /// The checkpoint's number.
    pub fn number(&self) -> u32 {
        self.manifest.number
    }

    /// The epoch through which the log must reach for the checkpoint to be of use.
    pub fn log_epoch(&self) -> u64 {
        self.manifest.log_epoch
    }

    /// The place from which the log must be replayed.
    pub fn log_start(&self) -> SegmentPosition {
        self.manifest.log_start.into()
    }

    /// Bytes of its parts.
    pub fn bytes(&self) -> u64 {
        self.manifest.bytes()
    }

    /// The next bytes, of at least `bytes_min` unless the file ends before; `None` behind the last ones.
    ///
    /// # Errors
    /// A part is damaged, or cannot be read.
    pub fn next_chunk(&mut self, bytes_min: usize) -> Result<Option<FileChunk>> {
        while let Some(part) = self.parts.front_mut() {
            if let Some((offset, bytes)) = part.read(bytes_min)? {
                return Ok(Some(FileChunk { file: part.file_name().to_string(), offset, bytes }));
            }
            self.parts.pop_front();
        }
        Ok(self.last.take())
    }
}
