//! The files of checkpoints: their directories and names, and which of them are obsolete.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::manifest::{MANIFEST_BYTES_MAX, Manifest, Part};
use super::part::{PartName, PartReader};
use crate::Result;
use crate::base::disk::Disk;
use crate::durability::Uuid;
use crate::durability::directory::ensure_directory;
use crate::durability::failure::{damaged, reading, writing};

const MANIFEST: &str = ".manifest";
const NEW_MANIFEST: &str = ".manifest.tmp";
const PART: &str = ".part";

/// All checkpoints of a database.
#[derive(Clone)]
pub(crate) struct Checkpoints {
    pub(super) disk: Arc<dyn Disk>,
    /// Their own directory, which has the manifests.
    pub(super) home: PathBuf,
    pub(super) uuid: Uuid,
}

/// The number of the checkpoint that a file belongs to, by its name without the prefix before the number.
pub(super) fn number_of(name: &str) -> Option<u32> {
    let digits = name.get(..8)?;
    let number = digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    let rest = &name[8..];
    let is_part = rest.strip_suffix(PART).and_then(|rest| rest.strip_prefix('-'));
    let is_part =
        is_part.is_some_and(|part| part.len() >= 4 && part.bytes().all(|byte| byte.is_ascii_digit()));
    (rest == MANIFEST || rest == NEW_MANIFEST || is_part).then_some(number)
}

impl Checkpoints {
    pub(crate) fn new(disk: Arc<dyn Disk>, home: PathBuf, uuid: Uuid) -> Checkpoints {
        Checkpoints { disk, home, uuid }
    }

    /// The disk that they are on.
    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    /// The shared handle of that disk.
    pub(crate) fn shared_disk(&self) -> Arc<dyn Disk> {
        self.disk.clone()
    }

    /// These checkpoints, reached through another view of their disk.
    pub(crate) fn on(&self, disk: Arc<dyn Disk>) -> Checkpoints {
        Checkpoints { disk, ..self.clone() }
    }

    /// The UUID of their database.
    pub(crate) fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// The absolute path of the database's directory, the same for every thread and working directory.
    pub(crate) fn database(&self) -> Result<String> {
        let directory = self.home.parent().unwrap_or(&self.home);
        let resolved = self.disk.resolve(directory).map_err(reading(directory))?;
        Ok(resolved.display().to_string())
    }

    pub(super) fn manifest_path(&self, number: u32) -> PathBuf {
        self.home.join(format!("{number:08}{MANIFEST}"))
    }

    pub(super) fn new_manifest_path(&self, number: u32) -> PathBuf {
        self.home.join(format!("{number:08}{NEW_MANIFEST}"))
    }

    /// The path of a part; other directories than the checkpoints' own may have parts of several databases.
    pub(super) fn part_path(&self, elsewhere: Option<&Path>, name: PartName) -> PathBuf {
        let file = format!("{:08}-{:04}{PART}", name.checkpoint, name.part);
        match elsewhere {
            None => self.home.join(file),
            Some(directory) => directory.join(self.prefix_elsewhere() + &file),
        }
    }

    /// Opens a part of this checkpoint.
    pub(super) fn open_part(&self, manifest: &Manifest, part: Part) -> Result<PartReader> {
        let name = PartName { uuid: self.uuid, checkpoint: manifest.number, part: part.number };
        let elsewhere = part.directory.checked_sub(1).and_then(|at| manifest.directories.get(at as usize));
        let path = self.part_path(elsewhere.map(Path::new), name);
        PartReader::open(&*self.disk, path, name, part)
    }

    /// Opens every part of a checkpoint, the first one first.
    pub(crate) fn open_parts(&self, manifest: &Manifest) -> Result<Vec<PartReader>> {
        manifest.parts.iter().map(|part| self.open_part(manifest, *part)).collect()
    }

    /// The numbers of all checkpoints that have manifests, the newest first.
    pub(crate) fn newest_first(&self) -> Result<Vec<u32>> {
        let mut numbers: Vec<u32> = self
            .names(&self.home)?
            .iter()
            .filter(|name| name.ends_with(MANIFEST))
            .filter_map(|name| number_of(name))
            .collect();
        numbers.sort_unstable_by(|one, other| other.cmp(one));
        Ok(numbers)
    }

    /// The path of the manifest of the newest checkpoint that has parts in the checkpoints' own directory, if that
    /// manifest exists or not; `None` if there are no parts.
    pub(crate) fn manifest_of_parts(&self) -> Result<Option<PathBuf>> {
        let last = self.names(&self.home)?.iter().filter_map(|name| number_of(name)).max();
        Ok(last.map(|number| self.manifest_path(number)))
    }

    /// The manifest of the checkpoint of this number.
    pub(crate) fn manifest(&self, number: u32) -> Result<Manifest> {
        let path = self.manifest_path(number);
        let file = self.disk.open_read(&path).map_err(reading(&path))?;
        let length = file.len().map_err(reading(&path))?;
        if length > MANIFEST_BYTES_MAX {
            return Err(damaged(&path, MANIFEST_BYTES_MAX, "it is too long"));
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, 0).map_err(reading(&path))?;
        Manifest::decode(&bytes, number, self.uuid, &path)
    }

    /// The names of files in a directory; none if it is not there.
    pub(super) fn names(&self, directory: &Path) -> Result<Vec<String>> {
        if !self.disk.exists(directory).map_err(reading(directory))? {
            return Ok(Vec::new());
        }
        let names = self.disk.list(directory).map_err(reading(directory))?;
        Ok(names.iter().filter_map(|name| OsStr::to_str(name)).map(str::to_string).collect())
    }

    /// A number that no checkpoint has of which a file is left in the checkpoints' own directory, or in one of these.
    pub(super) fn next_number(&self, elsewhere: &[PathBuf]) -> Result<u32> {
        let mut last = self.names(&self.home)?.iter().filter_map(|name| number_of(name)).max().unwrap_or(0);
        let own = self.prefix_elsewhere();
        for directory in elsewhere {
            let names = self.names(directory)?;
            let numbers = names.iter().filter_map(|name| number_of(name.strip_prefix(&own)?));
            last = numbers.fold(last, u32::max);
        }
        Ok(last + 1)
    }

    /// The prefix of the names of parts that are not in the checkpoints' own directory.
    pub(super) fn prefix_elsewhere(&self) -> String {
        format!("{}-", self.uuid)
    }

    /// Makes the checkpoints' directory, durably.
    pub(crate) fn make_home(&self) -> Result<()> {
        ensure_directory(&*self.disk, &self.home)
    }

    /// Makes the names of manifests durable that were found, if there are any.
    ///
    /// # Errors
    /// Their directory cannot be read or synced: then nothing may be removed that one of them replaces.
    pub(crate) fn make_names_durable(&self) -> Result<()> {
        if self.newest_first()?.is_empty() {
            return Ok(());
        }
        self.disk.sync_dir(&self.home).map_err(writing(&self.home))
    }

    /// Removes every file of every checkpoint but this one: older ones, and what interruptions left. Manifests go
    /// first, so that none is there without its parts. Parts are looked for in these directories, too.
    ///
    /// # Errors
    /// Something could not be removed: it does no harm, and the next time it is tried again.
    pub(crate) fn remove_all_but(&self, kept: Option<u32>, elsewhere: &[PathBuf]) -> Result<()> {
        let mut directories: BTreeSet<PathBuf> = elsewhere.iter().cloned().collect();
        let numbers = self.newest_first()?;
        for &number in numbers.iter().filter(|&&number| Some(number) != kept) {
            // One that cannot be read says no more where its parts are.
            let manifest = self.manifest(number).unwrap_or_default();
            directories.extend(manifest.directories.iter().map(PathBuf::from));
            self.remove(&self.manifest_path(number))?;
        }
        let is_old = |name: &str| number_of(name).is_some_and(|number| Some(number) != kept);
        let mut removed = 0;
        for name in self.names(&self.home)?.iter().filter(|name| is_old(name)) {
            self.remove(&self.home.join(name))?;
            removed += 1;
        }
        if removed > 0 || numbers.len() > 1 {
            self.disk.sync_dir(&self.home).map_err(writing(&self.home))?;
        }
        let kept = kept.map(|number| self.manifest(number)).transpose();
        let is_used = |directory: &PathBuf| match &kept {
            Ok(kept) => {
                kept.iter().flat_map(|kept| &kept.directories).any(|used| Path::new(used) == directory)
            }
            // As long as it cannot be read, parts of it may be anywhere.
            Err(_) => true,
        };
        // One that cannot be cleared does not keep the others from being cleared.
        let mut all = Ok(());
        for directory in &directories {
            let is_used = elsewhere.contains(directory) || is_used(directory);
            all = all.and(self.remove_elsewhere(directory, &is_old, is_used));
        }
        all
    }

    /// Removes parts from a directory elsewhere, and its mark if it is not used and no other part is left.
    fn remove_elsewhere(&self, directory: &Path, is_old: &dyn Fn(&str) -> bool, is_used: bool) -> Result<()> {
        let own = self.prefix_elsewhere();
        let names = self.names(directory)?;
        let parts =
            names.iter().filter(|name| name.strip_prefix(&own).is_some_and(|name| number_of(name).is_some()));
        let (old, others): (Vec<_>, Vec<_>) = parts.partition(|name| is_old(&name[own.len()..]));
        if !old.is_empty() {
            self.may_remove(directory)?;
        }
        old.iter().try_for_each(|name| self.remove(&directory.join(name)))?;
        // It may have several paths, and the checkpoint that is kept may call it by another one.
        if others.is_empty() && !is_used { self.give_up(directory) } else { Ok(()) }
    }

    pub(super) fn remove(&self, path: &Path) -> Result<()> {
        if self.disk.exists(path).map_err(reading(path))? {
            self.disk.remove(path).map_err(writing(path))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_names_and_others_are_left_alone() {
        for (name, number) in [
            ("00000003.manifest", Some(3)),
            ("00000003.manifest.tmp", Some(3)),
            ("00000012-0001.part", Some(12)),
            ("00000012-12345.part", Some(12)),
            ("3.manifest", None),
            ("+0000003.manifest", None),
            ("00000003.manifest.old", None),
            ("00000012-1.part", None),
            ("00000012-00a1.part", None),
            ("00000012.part", None),
            ("notes.txt", None),
            ("", None),
            ("ééééé.manifest", None),
        ] {
            assert_eq!(number_of(name), number, "{name}");
        }
    }
}
