//! The owner of the parts in a directory that is not a database's own.
//!
//! ```text
//! elsewhere/00…7f-DATABASE             whose: the path of the database's directory
//! elsewhere/00…7f-LOCK                 held while that is written
//! elsewhere/00…7f-00000003-0003.part   its parts
//! ```
//!
//! A copy of a database's files has the same UUID, and its manifest names the same parts; a new checkpoint removes the
//! one before. So before a database writes or removes anything elsewhere, it claims the directory, as it does a log's
//! ([`log_place`](crate::durability)): by its path. Invariants:
//!
//! - Of databases with one UUID only that one changes parts in a directory which the mark there names, unless there is
//!   no database of this UUID any more where it says: then that was moved, and the mark follows it. It is checked
//!   before each checkpoint, and before anything is removed: what was so at the opening may not be any more.
//! - The mark is durable before the first part is begun. Parts of earlier versions have none, and go to the database
//!   that claims them first.
//! - The mark is removed when the directory is used no more: when no part is left in it, by whatever path the directory
//!   is called.
//! - A database is refused because of another one only. Where a mark cannot be written or read, nothing is removed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::files::Checkpoints;
use crate::durability::directory::{identity, not_a_database, read_small, replace};
use crate::durability::failure::{damaged, reading, writing};
use crate::durability::manifest::{LOG_ELSEWHERE, seal, unseal};
use crate::{Error, Result};

const MAGIC: &[u8; 8] = b"HEDDLCKP";
const OWNER: &str = "DATABASE";
const NEW_OWNER: &str = "DATABASE.tmp";
const LOCK: &str = "LOCK";

impl Checkpoints {
    /// Claims these directories, as far as they are there, and all that manifests name: whatever may be written to and
    /// removed from.
    ///
    /// # Errors
    /// One of them is another database's: then none is claimed.
    pub(crate) fn claim_all(&self, given: &[PathBuf]) -> Result<()> {
        let all = self.all_directories(given)?;
        all.iter().try_for_each(|directory| unless_of_disk(self.has_claimed(directory).map(drop)))?;
        all.iter().try_for_each(|directory| unless_of_disk(self.claim_if_there(directory)))
    }

    /// Claims these directories, which are there.
    ///
    /// # Errors
    /// One of them is another database's: then none is claimed; or a mark cannot be written.
    pub(super) fn claim_each(&self, directories: &[PathBuf]) -> Result<()> {
        directories.iter().try_for_each(|directory| self.has_claimed(directory).map(drop))?;
        directories.iter().try_for_each(|directory| self.claim(directory))
    }

    fn claim_if_there(&self, directory: &Path) -> Result<()> {
        if self.disk.exists(directory).map_err(reading(directory))? { self.claim(directory) } else { Ok(()) }
    }

    /// These directories, and all that manifests name which can be read.
    fn all_directories(&self, given: &[PathBuf]) -> Result<BTreeSet<PathBuf>> {
        let mut all: BTreeSet<PathBuf> = given.iter().cloned().collect();
        for number in self.newest_first()? {
            let manifest = self.manifest(number).unwrap_or_default();
            all.extend(manifest.directories.iter().map(PathBuf::from));
        }
        Ok(all)
    }

    /// Claims a directory that is there.
    fn claim(&self, directory: &Path) -> Result<()> {
        if !self.has_claimed(directory)? {
            let lock = self.mark_path(directory, LOCK);
            let Some(_lock) = self.disk.try_lock(&lock).map_err(writing(&lock))? else {
                return Err(Error::InUse { path: directory.display().to_string() });
            };
            // What counts is what is there under the lock.
            if !self.has_claimed(directory)? {
                let bytes = seal(MAGIC, LOG_ELSEWHERE, self.uuid, &self.own_path()?);
                let [owner, new] = [OWNER, NEW_OWNER].map(|name| self.mark_path(directory, name));
                replace(&*self.disk, &owner, &new, &bytes)?;
            }
        }
        // The process that made an existing mark may have been killed before its name was durable.
        self.disk.sync_dir(directory).map_err(writing(directory))
    }

    /// Makes sure that parts may be removed from this directory.
    pub(super) fn may_remove(&self, directory: &Path) -> Result<()> {
        if self.has_claimed(directory)? { Ok(()) } else { self.claim(directory) }
    }

    /// Gives a directory up in which no part is left; another database's stays its.
    pub(super) fn give_up(&self, directory: &Path) -> Result<()> {
        let marks = [OWNER, NEW_OWNER, LOCK].map(|name| self.mark_path(directory, name));
        let mut are_there = marks.iter().map(|mark| self.disk.exists(mark).map_err(reading(mark)));
        if !are_there.try_fold(false, |any, one| one.map(|one| any || one))? {
            return Ok(());
        }
        let lock = self.mark_path(directory, LOCK);
        let Some(_lock) = self.disk.try_lock(&lock).map_err(writing(&lock))? else {
            return Ok(()); // Another database is claiming it.
        };
        match self.has_claimed(directory) {
            Err(Error::ForeignCheckpoints { .. }) => Ok(()),
            Err(error) => Err(error),
            // The lock last: a process that takes it before finds nothing to refuse, and makes a mark of its own.
            Ok(_) => marks.iter().try_for_each(|mark| self.remove(mark)),
        }
    }

    /// Returns true if the directory is marked as this database's; false if it has no mark.
    fn has_claimed(&self, directory: &Path) -> Result<bool> {
        let path = self.mark_path(directory, OWNER);
        if !self.disk.exists(&path).map_err(reading(&path))? {
            return Ok(false);
        }
        let bytes = read_small(&*self.disk, &path)?;
        let (_, uuid, owner) = unseal(&bytes, MAGIC, &path)?;
        let Some(owner) = owner.filter(|_| uuid == self.uuid) else {
            return Err(damaged(&path, 12, "it names another database than its own name does"));
        };
        if owner == self.own_path()? {
            return Ok(true);
        }
        match identity(&*self.disk, Path::new(owner)) {
            Ok(other) if other.uuid == uuid => Err(Error::ForeignCheckpoints {
                path: directory.display().to_string(),
                owner: owner.to_string(),
            }),
            Ok(_) | Err(Error::NotADatabase { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// This database's name in its marks: the path of its directory.
    fn own_path(&self) -> Result<String> {
        let directory = self.home.parent().unwrap_or(&self.home);
        let resolved = self.disk.resolve(directory).map_err(reading(directory))?;
        // A lossy text would be the name of other paths, too, and there would be no database at it.
        let text = resolved.to_str().map(str::to_string);
        let detail = "its checkpoints are elsewhere, and its path is not valid UTF-8: rename its directory";
        text.ok_or_else(|| not_a_database(directory, detail))
    }

    fn mark_path(&self, directory: &Path, name: &str) -> PathBuf {
        directory.join(self.prefix_elsewhere() + name)
    }
}

/// A disk's failure is no reason to refuse a database: without a mark nothing is removed, and the next checkpoint tells.
fn unless_of_disk(claimed: Result<()>) -> Result<()> {
    match claimed {
        Err(
            Error::NotWritable { .. }
            | Error::StorageFull { .. }
            | Error::TooManyFiles { .. }
            | Error::Io { .. },
        ) => Ok(()),
        other => other,
    }
}
