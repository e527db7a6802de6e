//! Whose parts lie in a directory that is not a database's own.
//!
//! ```text
//! elsewhere/00…7f-DATABASE             whose: the path of the database's directory
//! elsewhere/00…7f-LOCK                 held while that is written
//! elsewhere/00…7f-00000003-0003.part   its parts
//! ```
//!
//! A copy of a database's files has the same UUID, and its manifest names the same parts; whoever makes a checkpoint removes the one before. So
//! before a database writes or removes anything elsewhere, it claims the directory, as it does a log's
//! ([`log_place`](crate::durability)): by its path. What it keeps true:
//!
//! - Of databases with one UUID only that one changes parts in a directory which the mark there names, unless there is no database
//!   of this UUID any more where it says: then that was moved, and the mark follows it.
//! - The mark is durable before the first part is begun. Parts of earlier versions have none, and go to who claims them first.
//! - The mark goes when the directory is used no more.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::files::Checkpoints;
use crate::durability::directory::{identity, read_small, replace};
use crate::durability::failure::{damaged, reading, writing};
use crate::durability::manifest::{LOG_ELSEWHERE, seal, unseal};
use crate::{Error, Result};

const MAGIC: &[u8; 8] = b"HEDDLCKP";
const OWNER: &str = "DATABASE";
const NEW_OWNER: &str = "DATABASE.tmp";
const LOCK: &str = "LOCK";

impl Checkpoints {
    /// Claims these directories, as far as they are there, and all that manifests name: whatever may be written to and removed from.
    ///
    /// # Errors
    /// One of them is another database's; nothing of it was changed.
    pub(crate) fn claim_all(&self, given: &[PathBuf]) -> Result<()> {
        for directory in self.all_directories(given)? {
            if self.disk.exists(&directory).map_err(reading(&directory))? {
                match self.claim(&directory) {
                    // Who cannot write there removes nothing there either.
                    Ok(()) | Err(Error::NotWritable { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
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
    pub(super) fn claim(&self, directory: &Path) -> Result<()> {
        if self.has_claimed(directory)? {
            return Ok(());
        }
        let lock = self.mark_path(directory, LOCK);
        let Some(_lock) = self.disk.try_lock(&lock).map_err(writing(&lock))? else {
            return Err(Error::InUse { path: directory.display().to_string() });
        };
        // What counts is what is there under the lock.
        if self.has_claimed(directory)? {
            return Ok(());
        }
        let bytes = seal(MAGIC, LOG_ELSEWHERE, self.uuid, &self.database()?);
        let [owner, new] = [OWNER, NEW_OWNER].map(|name| self.mark_path(directory, name));
        replace(&*self.disk, &owner, &new, &bytes)?;
        self.disk.sync_dir(directory).map_err(writing(directory))
    }

    /// Gives a directory up in which no part is left.
    pub(super) fn give_up(&self, directory: &Path) -> Result<()> {
        // The lock last: who takes it before finds nothing to refuse, and makes a mark of its own.
        [OWNER, NEW_OWNER, LOCK].iter().try_for_each(|name| self.remove(&self.mark_path(directory, name)))
    }

    /// Whether the directory is this database's already; no, if it is nobody's.
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
        if owner == self.database()? {
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

    fn mark_path(&self, directory: &Path, name: &str) -> PathBuf {
        directory.join(self.prefix_elsewhere() + name)
    }
}
