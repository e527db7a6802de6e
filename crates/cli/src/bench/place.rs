//! The directory of a benchmark's database.
//!
//! A durable run without `--dir` uses a temporary directory on a real disk: on a file system in memory the cost of
//! group commit would vanish, and the figures would mean nothing. It is removed when the process ends, killed or not.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use heddledb::{Database, Options};
use tempfile::TempDir;

use super::options::CommonOptions;
use crate::failure::{Failure, Result};
use crate::recovering;

/// `f_type` of file systems that live in memory: tmpfs and ramfs.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58F6];

/// The directory of the database, and of its log if that is elsewhere.
pub struct Place {
    home: Home,
    log: Option<Home>,
}

/// A directory, or none.
enum Home {
    /// Nowhere: without a log and without a directory.
    Memory,
    /// A directory that is removed at the end, even if the process is killed.
    Temporary(TempDir, Option<Janitor>),
    /// A directory that was given.
    Kept(PathBuf),
}

impl Place {
    /// Chooses, and makes a temporary directory if one is needed.
    pub fn choose(options: &CommonOptions) -> Result<Self> {
        let home = match &options.dir {
            Some(directory) => Home::Kept(directory.clone()),
            None if !options.is_durable() => Home::Memory,
            None => temporary()?,
        };
        let log = match (&options.log_dir, &home) {
            (None, _) => None,
            (Some(_), Home::Memory) => {
                return Err(Failure::Usage(
                    "--log-dir needs a log; give --durability group or async".to_owned(),
                ));
            }
            (Some(directory), Home::Temporary(..)) => Some(temporary_in(directory)?),
            (Some(directory), Home::Kept(_)) => Some(Home::Kept(directory.clone())),
        };
        Ok(Place { home, log })
    }

    /// Opens the database; a second time, it recovers.
    pub fn open(&self, mut options: Options) -> Result<Database> {
        if let Some(path) = self.log.as_ref().and_then(Home::directory) {
            options = options.log(|log| log.directory(path));
        }
        Ok(match self.home.directory() {
            None => Database::in_memory_with(options)?,
            Some(directory) => Database::open(directory, recovering::shown(options))?,
        })
    }

    /// The directory of the database, and of its log if that is elsewhere. `None` if the database is in
    /// memory.
    pub fn directories(&self) -> Option<(&Path, Option<&Path>)> {
        Some((self.home.directory()?, self.log.as_ref().and_then(Home::directory)))
    }

    /// Describes the place in words, for the caller of the run.
    pub fn describe(&self) -> String {
        let log = self.log.as_ref().map_or_else(String::new, |log| format!(", log in {}", log.describe()));
        self.home.describe() + &log
    }

    /// Keeps a temporary directory after all, because there is something wrong in it; gives its path.
    pub fn keep(self) -> Option<PathBuf> {
        self.log.and_then(Home::keep);
        self.home.keep()
    }
}

impl Home {
    fn temporary(directory: TempDir) -> Home {
        let janitor = Janitor::of(directory.path());
        Home::Temporary(directory, janitor)
    }

    fn directory(&self) -> Option<&Path> {
        match self {
            Home::Memory => None,
            Home::Temporary(directory, _) => Some(directory.path()),
            Home::Kept(directory) => Some(directory),
        }
    }

    fn describe(&self) -> String {
        match self {
            Home::Memory => "in memory".to_owned(),
            Home::Temporary(directory, _) => format!("{} (removed at the end)", directory.path().display()),
            Home::Kept(directory) => directory.display().to_string(),
        }
    }

    fn keep(self) -> Option<PathBuf> {
        match self {
            Home::Temporary(directory, janitor) => {
                if let Some(janitor) = janitor {
                    janitor.dismiss();
                }
                Some(directory.keep())
            }
            Home::Memory | Home::Kept(_) => None,
        }
    }
}

/// A process that removes a directory when this one ends, however it ends: a signal that cannot be caught, too. It waits for the end of
/// its standard input, which only this process holds open.
struct Janitor(Child);

impl Janitor {
    /// Starts the process. Without a shell, the directory is removed only if this process ends normally.
    fn of(directory: &Path) -> Option<Janitor> {
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' HUP INT TERM; cat >/dev/null; rm -rf -- \"$1\"", "sh"]).arg(directory);
        // A group of its own: what ends this one's must not end it.
        shell.process_group(0).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        shell.spawn().ok().map(Janitor)
    }

    /// The directory stays.
    fn dismiss(mut self) {
        let _ = self.0.kill();
    }
}

impl Drop for Janitor {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// A temporary directory below this one, which is made if it is not there.
fn temporary_in(directory: &Path) -> Result<Home> {
    let made = std::fs::create_dir_all(directory)
        .and_then(|()| tempfile::Builder::new().prefix("heddle-bench-").tempdir_in(directory));
    made.map(Home::temporary)
        .map_err(|error| Failure::Usage(format!("--log-dir {}: {error}", directory.display())))
}

/// A temporary directory on the first usable disk: the system's place for temporary files, the one for large ones,
/// the present directory.
fn temporary() -> Result<Home> {
    let candidates = [std::env::temp_dir(), PathBuf::from("/var/tmp"), PathBuf::from(".")];
    for candidate in candidates.iter().filter(|candidate| is_on_disk(candidate)) {
        if let Ok(directory) = tempfile::Builder::new().prefix("heddle-bench-").tempdir_in(candidate) {
            return Ok(Home::temporary(directory));
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
    fn memory_file_systems_are_distinguished_from_disks() {
        if Path::new("/dev/shm").is_dir() {
            assert!(!is_on_disk(Path::new("/dev/shm")));
        }
        assert!(!is_on_disk(Path::new("/nonexistent")));
    }

    #[test]
    fn a_temporary_directory_is_removed_unless_it_is_kept() {
        let Home::Temporary(directory, _janitor) = temporary().unwrap() else {
            panic!("temporary is temporary")
        };
        let path = directory.path().to_owned();
        assert!(path.is_dir() && is_on_disk(&path));
        drop(directory);
        assert!(!path.exists());
        let kept = temporary().unwrap().keep().unwrap();
        assert!(kept.is_dir());
        std::fs::remove_dir(kept).unwrap();
    }
}
