//! Writing a checkpoint: its parts, by several threads, then its manifest.

use std::collections::BTreeMap;
use std::path::PathBuf;

use parking_lot::Mutex;

use super::files::Checkpoints;
use super::manifest::{Manifest, Part};
use super::part::{PartName, PartWriter};
use crate::Result;
use crate::base::disk::has_bug;
use crate::durability::GroupStart;
use crate::durability::directory::ensure_directory;
use crate::durability::failure::{reading, writing};
use crate::error::Error;

impl Checkpoints {
    /// Writes the manifest of a checkpoint whose parts are durable: with it, the checkpoint is there.
    pub(super) fn write_manifest(&self, manifest: &Manifest) -> Result<()> {
        self.write_manifest_with(manifest, || ())
    }

    /// Writes the manifest; `before_naming` is called when only its renaming is left to do.
    fn write_manifest_with(&self, manifest: &Manifest, before_naming: impl FnOnce()) -> Result<()> {
        let Checkpoints { disk, home, uuid } = self;
        let (path, new) = (self.manifest_path(manifest.number), self.new_manifest_path(manifest.number));
        let file = disk.create_new(&new).map_err(writing(&new))?;
        file.write_all_at(&manifest.encode(*uuid), 0).map_err(writing(&new))?;
        file.sync_all().map_err(writing(&new))?;
        // The parts' names before the manifest's: what is there whole must not lack a part after a power loss.
        disk.sync_dir(home).map_err(writing(home))?;
        before_naming();
        disk.rename(&new, &path).map_err(writing(&path))?;
        if has_bug!(disk, LogRemovedBeforeCheckpoint) {
            return Ok(());
        }
        disk.sync_dir(home).map_err(writing(home))
    }
}

/// A checkpoint that is being written; shared by the threads that do so.
pub(crate) struct NewCheckpoint {
    pub(super) checkpoints: Checkpoints,
    pub(super) number: u32,
    /// Directories for the parts; if there are none, all parts are written to `home`.
    pub(super) directories: Vec<PathBuf>,
    pub(super) parts: Mutex<Parts>,
}

#[derive(Default)]
pub(super) struct Parts {
    begun: u32,
    pub(super) finished: Vec<Part>,
    /// Files that exist: removed if the checkpoint fails.
    paths: Vec<PathBuf>,
}

/// The content of a checkpoint, for its manifest.
#[derive(Clone, Debug)]
pub(crate) struct Content {
    /// The log is needed from this epoch on.
    pub(crate) first_epoch: u64,
    /// The highest epoch of the copies and deletions; the log is durable through it.
    pub(crate) last_epoch: u64,
    /// The epoch of the last group of the log that is durable.
    pub(crate) log_epoch: u64,
    /// A place in the log behind which are all groups from the first epoch on.
    pub(crate) log_start: GroupStart,
    /// Number of records of each table that were copied.
    pub(crate) tables: BTreeMap<u32, u64>,
}

impl NewCheckpoint {
    /// Begins a checkpoint, whose parts are striped over these directories, or lie with the manifest if there are none. Its
    /// number is above `used`, besides those of which there are files.
    pub(crate) fn begin(
        checkpoints: &Checkpoints,
        directories: &[PathBuf],
        used: u32,
    ) -> Result<NewCheckpoint> {
        checkpoints.make_home()?;
        for directory in directories {
            ensure_directory(&*checkpoints.disk, directory)?;
        }
        checkpoints.claim_each(directories)?;
        let number = checkpoints.next_number(directories)?.max(used + 1);
        Ok(NewCheckpoint::of_number(checkpoints, number, directories))
    }

    /// The checkpoint of this number, which another process has begun.
    pub(crate) fn of_number(
        checkpoints: &Checkpoints,
        number: u32,
        directories: &[PathBuf],
    ) -> NewCheckpoint {
        let (checkpoints, directories) = (checkpoints.clone(), directories.to_vec());
        NewCheckpoint { checkpoints, number, directories, parts: Mutex::default() }
    }

    /// The absolute paths of the directories for parts, for another process.
    pub(crate) fn resolved_directories(&self) -> Result<Vec<String>> {
        let resolved = |path: &PathBuf| self.checkpoints.disk.resolve(path).map_err(reading(path));
        self.directories.iter().map(|path| Ok(resolved(path)?.display().to_string())).collect()
    }

    /// Number of directories over which its parts are striped.
    pub(crate) fn stripes(&self) -> usize {
        self.directories.len().max(1)
    }

    /// Its number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Number of parts that were begun.
    pub(crate) fn parts_begun(&self) -> usize {
        self.parts.lock().begun as usize
    }

    /// Begins a part in one of the directories, counted from 0; the first part, which is the catalog's, is begun and finished
    /// before others.
    pub(crate) fn begin_part(&self, place: usize) -> Result<PartWriter> {
        let mut parts = self.parts.lock();
        parts.begun += 1;
        let name = PartName { uuid: self.checkpoints.uuid, checkpoint: self.number, part: parts.begun };
        let elsewhere = self.directories.get(place);
        let path = self.checkpoints.part_path(elsewhere.map(PathBuf::as_path), name);
        parts.paths.push(path.clone());
        drop(parts);
        let directory = elsewhere.map_or(0, |_| place as u32 + 1);
        PartWriter::create(&*self.checkpoints.disk, path, name, directory)
    }

    /// Makes a part durable.
    pub(crate) fn finish_part(&self, part: PartWriter) -> Result<()> {
        let part = part.finish(!has_bug!(self.checkpoints.disk, PartNotSynced))?;
        self.parts.lock().finished.push(part);
        Ok(())
    }

    /// Makes the checkpoint whole: all its parts are finished, and the log is durable through its last epoch.
    ///
    /// # Errors
    /// It could not be written. If its manifest had its final name by then, it may be there all the same when the
    /// database is opened the next time; it is whole then, and its files must stay.
    pub(crate) fn finish(&self, content: Content) -> Result<Manifest> {
        let Content { first_epoch, last_epoch, log_epoch, log_start, tables } = content;
        let mut parts = std::mem::take(&mut self.parts.lock().finished);
        parts.sort_by_key(|part| part.number);
        let directories = self.directories.iter().map(|path| path.display().to_string()).collect();
        let number = self.number;
        let manifest =
            Manifest { number, first_epoch, last_epoch, log_epoch, log_start, directories, parts, tables };
        if let Some(detail) = manifest.inconsistency() {
            // No reader could read it.
            let detail = format!("the checkpoint {number}: {detail}");
            return Err(Error::Inconsistent { detail });
        }
        self.sync_directories()?;
        self.checkpoints.write_manifest_with(&manifest, || {
            // From here on another process may rely on the files: they are not removed, whatever happens.
            self.parts.lock().paths.clear();
        })?;
        Ok(manifest)
    }

    /// Makes the names durable of parts that are in other directories.
    pub(super) fn sync_directories(&self) -> Result<()> {
        let disk = &self.checkpoints.disk;
        self.directories.iter().try_for_each(|path| disk.sync_dir(path).map_err(writing(path)))
    }

    /// Removes all files that were written, as far as that is possible: the checkpoint has failed.
    pub(crate) fn abandon(&self) {
        let mut paths = std::mem::take(&mut self.parts.lock().paths);
        if paths.is_empty() {
            return;
        }
        paths.push(self.checkpoints.new_manifest_path(self.number));
        for path in paths {
            // What stays does no harm: without a manifest it is removed at the next opening.
            if self.checkpoints.disk.exists(&path).map_err(reading(&path)) == Ok(true) {
                let _ = self.checkpoints.disk.remove(&path);
            }
        }
    }
}
