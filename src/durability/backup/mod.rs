//! Backups: a consistent copy of a database's directory, made while another process, or this one, writes to it.
//!
//! A backup is itself a database's directory: its newest checkpoint, the log from where that says to the last whole
//! group, and last of all the manifest. So it is opened, checked and restored like any other.
//!
//! The copier takes no lock of the source and stops no thread. The copy is consistent nevertheless:
//! - It reads files that never change again (parts of a checkpoint that has its manifest, whole groups of the
//!   log, headers), and recognizes by their checksums those that are still being written.
//! - Everything that it will read is opened first ([`HeldFiles`](super::held_files::HeldFiles)); what is removed after that stays readable. If something
//!   was removed before it could be opened, a newer checkpoint is there, and the copier begins again with that one.
//! - The log is read in the order in which it is written, to the first block that is not there whole. What was durable
//!   when the backup began was there whole by then, so all of it lies before; and what lies before is a beginning of the
//!   history. That a later group follows does not mean damage here, as long as the block is there when it is read
//!   again: a group says which blocks were durable when it was written ([`LogReader::open_beside_a_writer`]).
//! - The copy has no manifest until all else in it is durable: an interrupted backup is no database.

mod source;
pub(super) mod target;

use std::path::Path;
use std::sync::Arc;

use self::source::Source;
use self::target::Target;
use crate::Result;
use crate::base::disk::Disk;

/// Callback for the progress of something long: bytes done, and bytes in all.
pub(crate) type Progress<'p> = &'p mut dyn FnMut(u64, u64);

/// The files of a backup, of a restored database, or of a database that was checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FilesReport {
    /// The number of its checkpoint; 0 if it has none.
    pub checkpoint: u32,
    /// The last epoch in it: it contains everything up to that epoch, and nothing of a later one.
    pub epoch: u64,
    /// Number of files.
    pub files: u64,
    /// Their total size in bytes.
    pub bytes: u64,
}

/// Copies the database in one directory to another one, which must be new or empty.
///
/// # Errors
/// The source is no database, or damaged: with file and offset. The target is not empty, or cannot be written; then what
/// was written of it is removed as far as that is possible.
pub(crate) fn back_up(
    disk: &Arc<dyn Disk>,
    from: &Path,
    to: &Path,
    progress: Progress<'_>,
) -> Result<FilesReport> {
    // The source first: nothing is made where there is nothing to copy.
    let source = Source::open(disk, from)?;
    let mut target = Target::prepare(disk.clone(), to)?;
    target.fill(&source, progress).inspect_err(|_| target.abandon())
}

/// Reads everything that a backup would copy, and looks at every checksum.
///
/// # Errors
/// Something is damaged or missing: with file and offset.
pub(crate) fn verify(disk: &Arc<dyn Disk>, path: &Path, progress: Progress<'_>) -> Result<FilesReport> {
    // Opening it reads the manifests and the whole log.
    let source = Source::open(disk, path)?;
    let pieces = source.pieces();
    let mut bytes = pieces.iter().map(|piece| piece.used).sum::<u64>();
    let (mut files, mut checkpoint) = (1 + pieces.len() as u64, 0);
    if let Some(manifest) = &source.manifest {
        let total = bytes + manifest.bytes();
        progress(bytes, total);
        for mut part in source.checkpoints.open_parts(manifest)? {
            while let Some(block) = part.read_block()? {
                bytes += block.bytes();
                progress(bytes, total);
            }
        }
        bytes = total;
        (files, checkpoint) = (files + manifest.files(), manifest.number);
    }
    Ok(FilesReport { checkpoint, epoch: source.epoch(), files, bytes })
}
