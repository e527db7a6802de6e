//! Parts that another process has written: what it sends, and what the database verifies before it relies on them.
//!
//! Invariants: a part is the database's only when the database itself has read it to its end, every block as it was
//! written, and has made it durable.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::checkpoint_writer::NewCheckpoint;
use super::files::{Checkpoints, number_of};
use super::manifest::{Manifest, Written};
use crate::Result;
use crate::base::disk::has_bug;
use crate::durability::failure::writing;
use crate::error::Error;

impl NewCheckpoint {
    /// Ends the writing of parts for another process's checkpoint: they and their names are durable.
    pub(crate) fn hand_batch(&self, tables: BTreeMap<u32, u64>) -> Result<Written> {
        let mut parts = std::mem::take(&mut self.parts.lock().finished);
        parts.sort_by_key(|part| part.number);
        self.sync_directories()?;
        let home = &self.checkpoints.home;
        self.checkpoints.disk.sync_dir(home).map_err(writing(home))?;
        Ok(Written { parts, tables })
    }

    /// Adopts parts that another process has written; asks `goes_on` from time to time. Returns the number of records
    /// of each table, as that process reports it.
    ///
    /// # Errors
    /// A part is not there as it should be; it cannot be made durable; this is to end.
    pub(crate) fn adopt(&self, written: Written, goes_on: &dyn Fn() -> bool) -> Result<BTreeMap<u32, u64>> {
        let Written { parts, tables } = written;
        let NewCheckpoint { checkpoints, number, directories, .. } = self;
        let directories = directories.iter().map(|path| path.display().to_string()).collect();
        let manifest = Manifest { number: *number, directories, parts, ..Manifest::default() };
        for part in &manifest.parts {
            let mut reader = checkpoints.open_part(&manifest, *part)?;
            if has_bug!(checkpoints.disk, FollowerBelieved) {
                continue;
            }
            while reader.read_block()?.is_some() {
                if !goes_on() {
                    return Err(Error::Closed);
                }
            }
            // It has been synced by its writer, or so that one says.
            let path = reader.path();
            let file = checkpoints.disk.open_write(path).map_err(writing(path))?;
            file.sync_all().map_err(writing(path))?;
        }
        self.parts.lock().finished = manifest.parts;
        Ok(tables)
    }
}

impl Checkpoints {
    /// Removes what another process may have left of a checkpoint of this number, unless it has been named.
    ///
    /// # Errors
    /// Something could not be removed: the next checkpoint tries again.
    pub(crate) fn remove_unnamed(&self, number: u32, elsewhere: &[PathBuf]) -> Result<()> {
        if self.newest_first()?.contains(&number) {
            return Ok(());
        }
        for name in self.names(&self.home)?.iter().filter(|name| number_of(name) == Some(number)) {
            self.remove(&self.home.join(name))?;
        }
        let own = self.prefix_elsewhere();
        let is_of_it = |name: &str| name.strip_prefix(&own).and_then(number_of) == Some(number);
        for directory in elsewhere {
            for name in self.names(directory)?.iter().filter(|name| is_of_it(name)) {
                self.remove(&directory.join(name))?;
            }
        }
        Ok(())
    }
}
