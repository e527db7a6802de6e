//! The target of a backup: a new or empty directory, which becomes a database with its last file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::source::{Piece, Source};
use super::{FilesReport, Progress};
use crate::base::disk::{Disk, File, LockGuard};
use crate::durability::directory::{
    LOCK, MANIFEST, NEW_MANIFEST, checkpoints_of, ensure_directory, lock_to_write, log_of, not_a_database,
    write_manifest,
};
use crate::durability::failure::{reading, writing};
use crate::durability::segment::{encode_header, file_name};
use crate::durability::{PAGE_BYTES, Uuid};
use crate::{Error, Result};

/// The size of the pieces in which files are copied.
const PIECE_BYTES: u64 = 1 << 20;
/// Bytes written between two syncs: with many more, the log's own syncs would wait on the same disk.
const SYNC_BYTES: u64 = 4 << 20;

/// A directory that is being filled.
pub(crate) struct Target {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    /// Files and directories that were made: removed if the backup fails.
    made: Vec<PathBuf>,
    report: FilesReport,
    total: u64,
    _lock: Box<dyn LockGuard>,
}

impl Target {
    /// Makes the directory, or checks that it is empty but for the rest of an interrupted attempt.
    pub(crate) fn prepare(disk: Arc<dyn Disk>, path: &Path) -> Result<Target> {
        if disk.exists(path).map_err(reading(path))? {
            must_be_empty(&*disk, path)?;
        }
        ensure_directory(&*disk, path)?;
        let lock = lock_to_write(&*disk, path)?;
        must_be_empty(&*disk, path)?;
        let (path, made, report) = (path.to_path_buf(), Vec::new(), FilesReport::default());
        Ok(Target { disk, path, made, report, total: 0, _lock: lock })
    }

    /// Copies everything, makes it durable, and then makes it a database.
    pub(super) fn fill(&mut self, source: &Source, progress: Progress<'_>) -> Result<FilesReport> {
        let pieces = source.pieces();
        let of_parts = source.manifest.as_ref().map_or(0, |manifest| manifest.bytes());
        self.total = of_parts + pieces.iter().map(|piece| piece.bytes).sum::<u64>();
        progress(0, self.total);
        let log = log_of(&self.path);
        self.disk.create_dir_all(&log).map_err(writing(&log))?;
        for piece in &pieces {
            self.copy_segment(source, piece, &log, progress)?;
        }
        self.disk.sync_dir(&log).map_err(writing(&log))?;
        self.copy_checkpoint(source, progress)?;
        self.make_a_database(source.uuid)?;
        self.report.files += 1;
        self.report.epoch = source.epoch();
        self.report.checkpoint = source.manifest.as_ref().map_or(0, |manifest| manifest.number);
        Ok(self.report.clone())
    }

    /// Writes the manifest; all else in the directory is durable, but for the names of folders.
    ///
    /// # Errors
    /// It cannot be written.
    pub(crate) fn make_a_database(&mut self, uuid: Uuid) -> Result<()> {
        self.disk.sync_dir(&self.path).map_err(writing(&self.path))?;
        self.made.extend([NEW_MANIFEST, MANIFEST].map(|name| self.path.join(name)));
        write_manifest(&*self.disk, &self.path, uuid, None)?;
        self.disk.sync_dir(&self.path).map_err(writing(&self.path))
    }

    /// Makes a file, which is removed if nothing comes of the directory.
    ///
    /// # Errors
    /// It cannot be made, or is there.
    pub(crate) fn create(&mut self, path: PathBuf) -> Result<Box<dyn File>> {
        self.made.push(path.clone());
        self.disk.create_new(&path).map_err(writing(&path))
    }

    /// The disk that the directory is on.
    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn copy_segment(
        &mut self,
        source: &Source,
        piece: &Piece,
        log: &Path,
        progress: Progress<'_>,
    ) -> Result<()> {
        let path = log.join(file_name(piece.number));
        self.made.push(path.clone());
        let from = source.disk.open_read(&piece.path).map_err(reading(&piece.path))?;
        let to = self.disk.create_new(&path).map_err(writing(&path))?;
        let header = encode_header(piece.number, piece.bytes, source.uuid);
        to.write_all_at(&header, 0).map_err(writing(&path))?;
        let mut offset = PAGE_BYTES;
        let mut synced = 0;
        while offset < piece.used {
            let mut bytes = vec![0; (piece.used - offset).min(PIECE_BYTES) as usize];
            from.read_exact_at(&mut bytes, offset).map_err(reading(&piece.path))?;
            to.write_all_at(&bytes, offset).map_err(writing(&path))?;
            offset += bytes.len() as u64;
            if offset - synced >= SYNC_BYTES {
                to.sync_data().map_err(writing(&path))?;
                synced = offset;
            }
            progress(self.report.bytes + offset, self.total);
        }
        // What is left of it, in the last one.
        let room = vec![0; (piece.bytes - offset) as usize];
        to.write_all_at(&room, offset).map_err(writing(&path))?;
        to.sync_all().map_err(writing(&path))?;
        self.count(piece.bytes);
        Ok(())
    }

    fn copy_checkpoint(&mut self, source: &Source, progress: Progress<'_>) -> Result<()> {
        let Some(manifest) = &source.manifest else { return Ok(()) };
        let checkpoints = checkpoints_of(self.disk.clone(), &self.path, source.uuid);
        let (total, before) = (self.total, self.report.bytes);
        let mut done = 0;
        self.made.extend(checkpoints.paths_of_copy(manifest));
        let mut advance = |bytes: u64| {
            done += bytes;
            progress(before + done, total);
        };
        checkpoints.copy_of(&source.checkpoints, manifest, &mut advance)?;
        self.report.files += manifest.files();
        self.report.bytes += done;
        Ok(())
    }

    fn count(&mut self, bytes: u64) {
        self.report.files += 1;
        self.report.bytes += bytes;
    }

    /// Removes all files that were made, the manifest first and the lock last. Whatever cannot be removed is no database.
    pub(crate) fn abandon(&self) {
        for path in self.made.iter().rev().chain([&self.path.join(LOCK)]) {
            if self.disk.exists(path).map_err(reading(path)) == Ok(true) {
                let _ = self.disk.remove(path);
            }
        }
    }
}

/// Refuses a directory in which there is any file but a lock, in folders of a database's names, too.
fn must_be_empty(disk: &dyn Disk, path: &Path) -> Result<()> {
    let names = |path: &Path| disk.list(path);
    let found = match names(path) {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            return Err(not_a_database(path, "it is a file"));
        }
        Err(error) => return Err(reading(path)(error)),
    };
    for name in found.iter().filter(|name| *name != LOCK) {
        let below = path.join(name);
        // A file cannot be listed.
        if names(&below).is_ok_and(|names| names.is_empty()) && (name == "log" || name == "checkpoint") {
            continue;
        }
        return Err(Error::NotEmpty {
            path: path.display().to_string(),
            found: name.to_string_lossy().into_owned(),
        });
    }
    Ok(())
}
