//! Where a benchmark's database is.
//!
//! A durable run without `--dir` uses a temporary directory on a real disk: on a file system in memory the cost of
//! group commit would vanish, and the figures would mean nothing.

use std::path::{Path, PathBuf};

use heddledb::{Database, Options};
use tempfile::TempDir;

use super::options::CommonOptions;
use crate::failure::{Failure, Result};
use crate::recovering;

/// `f_type` of file systems that live in memory: tmpfs and ramfs.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58F6];

/// Where the database is.
pub enum Place {
    /// Nowhere: without a log and without a directory.
    Memory,
    /// In a directory that is removed at the end.
    Temporary(TempDir),
    /// In a directory that was given.
    Kept(PathBuf),
}

impl Place {
    /// Chooses, and makes a temporary directory if one is needed.
    pub fn choose(options: &CommonOptions) -> Result<Self> {
        match &options.dir {
            Some(directory) => Ok(Place::Kept(directory.clone())),
            None if !options.is_durable() => Ok(Place::Memory),
            None => temporary(),
        }
    }

    /// Opens the database; a second time, it recovers.
    pub fn open(&self, options: Options) -> Result<Database> {
        Ok(match self.directory() {
            None => Database::in_memory(options)?,
            Some(directory) => Database::open(directory, recovering::shown(options))?,
        })
    }

    fn directory(&self) -> Option<&Path> {
        match self {
            Place::Memory => None,
            Place::Temporary(directory) => Some(directory.path()),
            Place::Kept(directory) => Some(directory),
        }
    }

    /// Whether the database can be opened again.
    pub fn is_on_disk(&self) -> bool {
        self.directory().is_some()
    }

    /// In words, for whoever ran it.
    pub fn describe(&self) -> String {
        match self {
            Place::Memory => "in memory".to_owned(),
            Place::Temporary(directory) => format!("{} (removed at the end)", directory.path().display()),
            Place::Kept(directory) => directory.display().to_string(),
        }
    }

    /// Keeps a temporary directory after all, because there is something wrong in it; gives its path.
    pub fn keep(self) -> Option<PathBuf> {
        match self {
            Place::Temporary(directory) => Some(directory.keep()),
            Place::Memory | Place::Kept(_) => None,
        }
    }
}

/// A temporary directory on the first usable disk: the system's place for temporary files, the one for large ones,
/// the present directory.
fn temporary() -> Result<Place> {
    let candidates = [std::env::temp_dir(), PathBuf::from("/var/tmp"), PathBuf::from(".")];
    for candidate in candidates.iter().filter(|candidate| is_on_disk(candidate)) {
        if let Ok(directory) = tempfile::Builder::new().prefix("heddle-bench-").tempdir_in(candidate) {
            return Ok(Place::Temporary(directory));
        }
    }
    Err(Failure::Usage("no place on disk for a temporary database; give one with --dir".to_owned()))
}

fn is_on_disk(directory: &Path) -> bool {
    match rustix::fs::statfs(directory) {
        // The type's width and sign differ between platforms; the constants fit into 32 bits everywhere.
        Ok(status) => !IN_MEMORY.contains(&(status.f_type as u64 & 0xFFFF_FFFF)),
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_file_systems_are_told_from_disks() {
        if Path::new("/dev/shm").is_dir() {
            assert!(!is_on_disk(Path::new("/dev/shm")));
        }
        assert!(!is_on_disk(Path::new("/nonexistent")));
    }

    #[test]
    fn a_temporary_directory_is_removed_unless_it_is_kept() {
        let Place::Temporary(directory) = temporary().unwrap() else { panic!("temporary is temporary") };
        let path = directory.path().to_owned();
        assert!(path.is_dir() && is_on_disk(&path));
        drop(directory);
        assert!(!path.exists());
        let kept = temporary().unwrap().keep().unwrap();
        assert!(kept.is_dir());
        std::fs::remove_dir(kept).unwrap();
    }
}
