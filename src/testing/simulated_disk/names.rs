//! Directories: the names that a reader sees, those that are durable, and the changes that lie between.
//!
//! A change of a directory is visible at once and durable after the next `sync_dir`. Until then it is pending, and a
//! loss of power keeps or loses each pending change independently of the others, as file systems may.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use super::{Survival, Survivors};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    File(u64),
    Directory,
}

type Names = BTreeMap<OsString, Entry>;

#[derive(Clone)]
enum Change {
    Link { name: OsString, entry: Entry },
    Unlink { name: OsString },
    Rename { from: OsString, to: OsString, entry: Entry },
}

impl Change {
    fn apply(&self, names: &mut Names) {
        match self {
            Change::Link { name, entry } => {
                names.insert(name.clone(), *entry);
            }
            Change::Unlink { name } => {
                names.remove(name);
            }
            Change::Rename { from, to, entry } => {
                names.remove(from);
                names.insert(to.clone(), *entry);
            }
        }
    }
}

#[derive(Clone, Default)]
struct Directory {
    live: Names,
    durable: Names,
    pending: Vec<Change>,
}

impl Directory {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.live);
        self.pending.push(change);
    }

    fn sync(&mut self) {
        for change in self.pending.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    fn after_crash(&self, survivors: &mut Survivors) -> Names {
        let mut found = self.durable.clone();
        for change in &self.pending {
            if survivors.choose() == Survival::Kept {
                change.apply(&mut found);
            }
        }
        found
    }
}

/// All directories by their path; the root is the empty path, and always there.
pub(super) struct Tree {
    directories: BTreeMap<PathBuf, Directory>,
}

impl Default for Tree {
    fn default() -> Self {
        Tree { directories: BTreeMap::from([(PathBuf::new(), Directory::default())]) }
    }
}

/// Paths are relative to the root; `.` and a leading `/` mean nothing.
pub(super) fn normal(path: &Path) -> PathBuf {
    path.components().filter(|part| matches!(part, Component::Normal(_))).collect()
}

fn split(path: &Path) -> io::Result<(PathBuf, OsString)> {
    let path = normal(path);
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok((parent.to_path_buf(), name.to_os_string())),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

impl Tree {
    fn directory(&mut self, path: &Path) -> io::Result<&mut Directory> {
        if !self.directories.contains_key(path) && self.file(path).is_ok() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        self.directories.get_mut(path).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn entry(&self, path: &Path) -> Option<Entry> {
        let (parent, name) = split(path).ok()?;
        self.directories.get(&parent)?.live.get(&name).copied()
    }

    /// The number of the file of this name.
    pub(super) fn file(&self, path: &Path) -> io::Result<u64> {
        match self.entry(path) {
            Some(Entry::File(number)) => Ok(number),
            Some(Entry::Directory) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn exists(&self, path: &Path) -> bool {
        self.directories.contains_key(&normal(path)) || self.entry(path).is_some()
    }

    pub(super) fn list(&mut self, path: &Path) -> io::Result<Vec<OsString>> {
        Ok(self.directory(&normal(path))?.live.keys().cloned().collect())
    }

    /// Every file that has a name.
    pub(super) fn live_files(&self) -> impl Iterator<Item = u64> {
        self.directories.values().flat_map(|directory| directory.live.values()).filter_map(
            |entry| match entry {
                Entry::File(number) => Some(*number),
                Entry::Directory => None,
            },
        )
    }

    /// Names a new file.
    pub(super) fn link(&mut self, path: &Path, number: u64) -> io::Result<()> {
        if self.exists(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let (parent, name) = split(path)?;
        self.directory(&parent)?.change(Change::Link { name, entry: Entry::File(number) });
        Ok(())
    }

    pub(super) fn unlink(&mut self, path: &Path) -> io::Result<()> {
        self.file(path)?;
        let (parent, name) = split(path)?;
        self.directory(&parent)?.change(Change::Unlink { name });
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let entry = Entry::File(self.file(from)?);
        let (from_parent, from) = split(from)?;
        let (to_parent, to) = split(to)?;
        if from_parent != to_parent {
            return Err(io::ErrorKind::CrossesDevices.into());
        }
        self.directory(&to_parent)?.change(Change::Rename { from, to, entry });
        Ok(())
    }

    pub(super) fn create_directories(&mut self, path: &Path) -> io::Result<()> {
        let mut parent = PathBuf::new();
        for name in normal(path).iter() {
            let child = parent.join(name);
            if self.file(&child).is_ok() {
                return Err(io::ErrorKind::NotADirectory.into());
            }
            if !self.directories.contains_key(&child) {
                self.add_directory(&parent, name)?;
            }
            parent = child;
        }
        Ok(())
    }

    fn add_directory(&mut self, parent: &Path, name: &OsStr) -> io::Result<()> {
        let change = Change::Link { name: name.to_os_string(), entry: Entry::Directory };
        self.directory(parent)?.change(change);
        self.directories.insert(parent.join(name), Directory::default());
        Ok(())
    }

    pub(super) fn sync(&mut self, path: &Path) -> io::Result<()> {
        self.directory(&normal(path))?.sync();
        Ok(())
    }

    pub(super) fn check_directory(&mut self, path: &Path) -> io::Result<()> {
        self.directory(&normal(path)).map(|_| ())
    }

    /// The tree that is found after the power went. A directory whose name is lost is lost with all that it holds.
    pub(super) fn after_crash(&self, survivors: &mut Survivors) -> Tree {
        let mut found = Tree { directories: BTreeMap::new() };
        let mut reachable = vec![PathBuf::new()];
        while let Some(path) = reachable.pop() {
            let names = self.directories.get(&path).map(|it| it.after_crash(survivors)).unwrap_or_default();
            let below = names.iter().filter(|(_, entry)| **entry == Entry::Directory);
            reachable.extend(below.map(|(name, _)| path.join(name)));
            found
                .directories
                .insert(path, Directory { live: names.clone(), durable: names, pending: Vec::new() });
        }
        found
    }
}
