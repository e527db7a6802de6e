//! A directory that is made of what an archive holds: a checkpoint's files, and the log behind it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::log_piece::malformed;
use super::{FileChunk, LogPiece, PieceExtent, SegmentPosition};
use crate::base::disk::{Disk, File};
use crate::durability::backup::target::Target;
use crate::durability::checkpoint::Checkpoints;
use crate::durability::directory::{checkpoints_of, log_of};
use crate::durability::failure::writing;
use crate::durability::segment::{encode_header, file_name};
use crate::durability::{PAGE_BYTES, Uuid};
use crate::error::{Error, Result};

/// Bytes that are written between two syncs: with much more, the log of another database would wait on the same disk.
const SYNC_BYTES: u64 = 4 << 20;

/// A database's directory that is being filled.
pub(crate) struct Rebuild {
    target: Target,
    uuid: Uuid,
    checkpoints: Checkpoints,
    files: BTreeMap<String, RebuiltFile>,
    /// The position of the next group of the log.
    end: SegmentPosition,
    segment: Option<RebuiltSegment>,
}

/// A file of a checkpoint.
struct RebuiltFile {
    path: PathBuf,
    file: Box<dyn File>,
    bytes: u64,
    synced: u64,
}

/// The segment that is being written.
struct RebuiltSegment {
    number: u32,
    path: PathBuf,
    file: Box<dyn File>,
    /// Bytes of the file, as its header says them.
    bytes: u64,
    /// The end of the pages that are written.
    written: u64,
    synced: u64,
}

impl Rebuild {
    /// Begins in a new or empty directory. `start` is where the first piece of the log begins.
    pub(crate) fn begin(
        disk: Arc<dyn Disk>,
        path: &Path,
        uuid: Uuid,
        start: SegmentPosition,
    ) -> Result<Rebuild> {
        let target = Target::prepare(disk.clone(), path)?;
        let log = log_of(path);
        disk.create_dir_all(&log).map_err(writing(&log))?;
        let checkpoints = checkpoints_of(disk, path, uuid);
        Ok(Rebuild { target, uuid, checkpoints, files: BTreeMap::new(), end: start, segment: None })
    }

    /// Writes some bytes of a checkpoint's file, behind those that it has.
    ///
    /// # Errors
    /// No checkpoint has a file of this name; bytes are missing before these; the file cannot be written.
    pub(crate) fn add_chunk(&mut self, chunk: &FileChunk) -> Result<()> {
        if !self.files.contains_key(&chunk.file) {
            let path = self.checkpoints.path_of_file(&chunk.file);
            let path = path.ok_or_else(|| malformed("no checkpoint has a file of its name"))?;
            self.checkpoints.make_home()?;
            let file = self.target.create(path.clone())?;
            self.files.insert(chunk.file.clone(), RebuiltFile { path, file, bytes: 0, synced: 0 });
        }
        let Some(file) = self.files.get_mut(&chunk.file).filter(|file| file.bytes == chunk.offset) else {
            return Err(malformed("bytes of a checkpoint's file are missing, or there twice"));
        };
        file.file.write_all_at(&chunk.bytes, file.bytes).map_err(writing(&file.path))?;
        file.bytes += chunk.bytes.len() as u64;
        if file.bytes - file.synced >= SYNC_BYTES {
            file.file.sync_data().map_err(writing(&file.path))?;
            file.synced = file.bytes;
        }
        Ok(())
    }

    /// Writes groups of the log, behind those that it has. What a piece has before the place that is next is left out.
    ///
    /// # Errors
    /// Groups are missing before these; the piece makes no sense; the log cannot be written.
    pub(crate) fn add_piece(&mut self, piece: &LogPiece) -> Result<()> {
        let mut at = 0;
        let mut begins = piece.start.sequence == self.end.sequence;
        for extent in &piece.extents {
            let bytes = piece.bytes.get(at as usize..(at + extent.bytes) as usize);
            let mut bytes = bytes.ok_or_else(|| malformed("it has fewer bytes than its extents"))?;
            at += extent.bytes;
            let mut extent = *extent;
            if !begins {
                // A checkpoint's log may begin within a piece.
                let before = self.end.offset.checked_sub(extent.offset);
                match before.filter(|before| extent.segment == self.end.segment && *before < extent.bytes) {
                    Some(before) => {
                        extent =
                            PieceExtent { offset: self.end.offset, bytes: extent.bytes - before, ..extent };
                        bytes = &bytes[before as usize..];
                        begins = true;
                    }
                    None => continue,
                }
            }
            self.write(&extent, bytes)?;
        }
        if !begins {
            return Err(malformed("it does not have the place behind the groups before it"));
        }
        self.end = piece.end;
        Ok(())
    }

    fn write(&mut self, extent: &PieceExtent, bytes: &[u8]) -> Result<()> {
        let fits = extent.offset >= PAGE_BYTES
            && extent.segment_bytes.is_multiple_of(PAGE_BYTES)
            && extent.offset.saturating_add(extent.bytes) <= extent.segment_bytes;
        if !fits {
            return Err(malformed("its pages are not in a segment"));
        }
        if self.segment.as_ref().is_none_or(|segment| segment.number != extent.segment) {
            self.enter(extent.segment, extent.segment_bytes)?;
        }
        let Some(segment) = self.segment.as_mut().filter(|segment| segment.written <= extent.offset) else {
            return Err(malformed("its pages are not behind those before"));
        };
        segment.file.write_all_at(bytes, extent.offset).map_err(writing(&segment.path))?;
        segment.written = extent.offset + extent.bytes;
        if segment.written - segment.synced >= SYNC_BYTES {
            segment.file.sync_data().map_err(writing(&segment.path))?;
            segment.synced = segment.written;
        }
        Ok(())
    }

    /// Goes on in another segment; the one before is full.
    fn enter(&mut self, number: u32, bytes: u64) -> Result<()> {
        if let Some(full) = self.segment.take() {
            if full.written != full.bytes || full.number.checked_add(1) != Some(number) {
                return Err(malformed("a segment before it is not full"));
            }
            full.finish(self.uuid)?;
        }
        let path = log_of(self.target.path()).join(file_name(number));
        let file = self.target.create(path.clone())?;
        let written = PAGE_BYTES;
        self.segment = Some(RebuiltSegment { number, path, file, bytes, written, synced: 0 });
        Ok(())
    }

    /// Ends the log with room for a page, makes everything durable, and then makes a database of the directory.
    ///
    /// # Errors
    /// Something cannot be written.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let end = self.end;
        if self.segment.as_ref().is_none_or(|segment| segment.number != end.segment) {
            self.enter(end.segment, end.offset + PAGE_BYTES)?;
        }
        if let Some(mut last) = self.segment.take() {
            last.bytes = end.offset + PAGE_BYTES;
            last.finish(self.uuid)?;
        }
        let disk = self.target.disk().clone();
        let log = log_of(self.target.path());
        disk.sync_dir(&log).map_err(writing(&log))?;
        for file in self.files.values() {
            file.file.sync_all().map_err(writing(&file.path))?;
        }
        if let Some(file) = self.files.values().next()
            && let Some(home) = file.path.parent()
        {
            disk.sync_dir(home).map_err(writing(home))?;
        }
        self.target.make_a_database(self.uuid)
    }

    /// Removes what was written.
    pub(crate) fn abandon(&self) {
        self.target.abandon();
    }
}

impl RebuiltSegment {
    /// Writes the header, and zeros behind the pages; makes it durable.
    fn finish(self, uuid: Uuid) -> Result<()> {
        let fail = |error| -> Error { writing(&self.path)(error) };
        self.file.write_all_at(&encode_header(self.number, self.bytes, uuid), 0).map_err(fail)?;
        self.file.set_len(self.bytes).map_err(fail)?;
        self.file.sync_all().map_err(fail)
    }
}
