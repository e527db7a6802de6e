//! The directory of a database's log: in the database's own directory, or one that its manifest names, perhaps on
//! another disk.
//!
//! ```text
//! /fast/bank-log/LOCK          held by the one process that has the database open
//! /fast/bank-log/DATABASE      whose log this is: the database's UUID, and the path of its directory
//! /fast/bank-log/00000001.log  segments
//! ```
//!
//! Invariants:
//! - A log elsewhere belongs to one database, which it names as the database names it. A copy of the database's own
//!   directory has the same UUID and the same manifest; so the path counts too, as long as a database of this UUID is
//!   still there. If there is none any more, the database has been moved, and the log follows it.
//! - `DATABASE` is durable before the first segment is made, and that before the manifest that says where it is: a process that
//!   finds the manifest finds all of them. A creation that was interrupted is known by its path, and begun again.
//! - Whatever is refused is not changed.

use std::path::{Path, PathBuf};

use super::directory::{
    FIRST_SEGMENT, LOCK, NEW_FIRST_SEGMENT, ensure_directory, identity, is_unused_log, lock_to_read,
    lock_to_write, log_of, not_a_database, read_small, replace,
};
use super::failure::{reading, writing};
use super::manifest::{self, Identity, LOG_ELSEWHERE, Uuid};
use crate::base::disk::{Disk, LockGuard};
use crate::{Error, Result};

const OWNER: &str = "DATABASE";
const NEW_OWNER: &str = "DATABASE.tmp";
const MAGIC: &[u8; 8] = b"HEDDLOWN";
/// Files other than segments in the directory of a log elsewhere.
pub(super) const LOG_MARKS: [&str; 3] = [LOCK, OWNER, NEW_OWNER];

/// The log's directory; if it is elsewhere, it is locked for as long as this lives.
pub(super) struct LogPlace {
    path: PathBuf,
    /// The path, if it is elsewhere.
    elsewhere: Option<String>,
    _lock: Option<Box<dyn LockGuard>>,
}

/// The owner of a log.
struct Owner {
    uuid: Uuid,
    home: PathBuf,
}

/// The relation between a log elsewhere and the database that names it, according to the log's marks.
#[derive(PartialEq, Eq)]
enum Claim {
    /// Log and database name each other.
    Mutual,
    /// The database that the log names has gone from there, and this is it.
    Moved,
}

/// Returns the directory of the log of the database in `home`, if the log is its own.
///
/// # Errors
/// It is not there, or belongs to another database.
pub(super) fn find(disk: &dyn Disk, home: &Path, identity: &Identity) -> Result<PathBuf> {
    let Some(log) = &identity.log else { return Ok(log_of(home)) };
    check_claim(disk, home, identity.uuid, log)?;
    Ok(log.clone())
}

/// The directory of the database whose log elsewhere this is; `None` if it is none.
pub(super) fn owner(disk: &dyn Disk, log: &Path) -> Result<Option<PathBuf>> {
    let mark = log.join(OWNER);
    let is_there = match disk.exists(&mark) {
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => false,
        other => other.map_err(reading(&mark))?,
    };
    if is_there { read_owner(disk, log).map(|owner| Some(owner.home)) } else { Ok(None) }
}

impl LogPlace {
    /// The place in the database's own directory.
    pub(super) fn inside(home: &Path) -> LogPlace {
        LogPlace { path: log_of(home), elsewhere: None, _lock: None }
    }

    /// The log of a database that is there, to be written. `given`: where the caller believes it to be.
    pub(super) fn open(
        disk: &dyn Disk,
        home: &Path,
        identity: &Identity,
        given: Option<&Path>,
    ) -> Result<LogPlace> {
        let place = LogPlace::open_locked(disk, home, identity, given, lock_to_write)?;
        if let Some(log) = &identity.log
            && check_claim(disk, home, identity.uuid, log)? == Claim::Moved
        {
            place.mark(disk, home, identity.uuid)?;
        }
        Ok(place)
    }

    /// Opens the log's directory to be read only, together with other readers.
    pub(super) fn open_to_read(
        disk: &dyn Disk,
        home: &Path,
        identity: &Identity,
        given: Option<&Path>,
    ) -> Result<LogPlace> {
        LogPlace::open_locked(disk, home, identity, given, lock_to_read)
    }

    fn open_locked(
        disk: &dyn Disk,
        home: &Path,
        identity: &Identity,
        given: Option<&Path>,
        lock: fn(&dyn Disk, &Path) -> Result<Box<dyn LockGuard>>,
    ) -> Result<LogPlace> {
        must_agree(disk, home, identity, given)?;
        let path = find(disk, home, identity)?;
        let Some(elsewhere) = identity.log.as_deref().and_then(Path::to_str) else {
            return Ok(LogPlace::inside(home));
        };
        let lock = lock(disk, &path)?;
        Ok(LogPlace { path, elsewhere: Some(elsewhere.to_string()), _lock: Some(lock) })
    }

    /// Takes a directory for the log of a database that is about to be made: a new one, an empty one, or one that an
    /// interrupted creation of the same database has left.
    pub(super) fn take(disk: &dyn Disk, home: &Path, given: &Path) -> Result<LogPlace> {
        let own = disk.resolve(home).map_err(reading(home))?;
        if disk.exists(given).map_err(reading(given))? {
            // Before the lock is taken, which makes a file.
            must_be_free(disk, &own, given)?;
        }
        ensure_directory(disk, given)?;
        let path = disk.resolve(given).map_err(reading(given))?;
        let Some(elsewhere) = path.to_str().map(str::to_string).filter(|_| !path.starts_with(&own)) else {
            let expected = "a directory outside of the database's own, whose path is valid UTF-8".to_string();
            return Err(invalid(given, expected));
        };
        let lock = lock_to_write(disk, &path)?;
        // What counts is what is there under the lock.
        must_be_free(disk, &own, &path)?;
        Ok(LogPlace { path, elsewhere: Some(elsewhere), _lock: Some(lock) })
    }

    /// Says in a log elsewhere whose it is, durably.
    pub(super) fn mark(&self, disk: &dyn Disk, home: &Path, uuid: Uuid) -> Result<()> {
        if self.elsewhere.is_none() {
            return Ok(());
        }
        let own = disk.resolve(home).map_err(reading(home))?;
        let Some(text) = own.to_str() else {
            return Err(not_a_database(home, "its log is elsewhere, and its path is not valid UTF-8"));
        };
        // Files of an interrupted creation were removed before: no segment of another UUID reappears.
        disk.sync_dir(&self.path).map_err(writing(&self.path))?;
        let bytes = manifest::seal(MAGIC, LOG_ELSEWHERE, uuid, text);
        replace(disk, &self.path.join(OWNER), &self.path.join(NEW_OWNER), &bytes)?;
        disk.sync_dir(&self.path).map_err(writing(&self.path))
    }

    /// The directory of the segments.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The log's path for the manifest; `None` if the log is in the database's directory.
    pub(super) fn elsewhere(&self) -> Option<&str> {
        self.elsewhere.as_deref()
    }
}

fn invalid(given: &Path, expected: String) -> Error {
    Error::InvalidOption { option: "log.directory", given: given.display().to_string(), expected }
}

/// Refuses a log's directory that is not the one that the database has: a log is not moved by an option.
fn must_agree(disk: &dyn Disk, home: &Path, identity: &Identity, given: Option<&Path>) -> Result<()> {
    let Some(given) = given else { return Ok(()) };
    let log = identity.log.clone().unwrap_or_else(|| log_of(home));
    let there = disk.exists(given).map_err(reading(given))?;
    let resolved = |path: &Path| disk.resolve(path).map_err(reading(path));
    if there && disk.exists(&log).map_err(reading(&log))? && resolved(given)? == resolved(&log)? {
        return Ok(());
    }
    let expected = format!("{}, where this database has its log; leave it out", log.display());
    Err(invalid(given, expected))
}

fn read_owner(disk: &dyn Disk, log: &Path) -> Result<Owner> {
    let path = log.join(OWNER);
    let bytes = read_small(disk, &path)?;
    let (_, uuid, text) = manifest::unseal(&bytes, MAGIC, &path)?;
    Ok(Owner { uuid, home: PathBuf::from(text.unwrap_or_default()) })
}

fn foreign(log: &Path, owner: &Owner) -> Error {
    Error::ForeignLog { path: log.display().to_string(), owner: owner.home.display().to_string() }
}

/// Checks that the log is that of the database in `home`.
fn check_claim(disk: &dyn Disk, home: &Path, uuid: Uuid, log: &Path) -> Result<Claim> {
    if !disk.exists(log).map_err(reading(log))? {
        let detail = format!("the log of the database {} is there", home.display());
        return Err(Error::MissingFile { path: log.display().to_string(), detail });
    }
    let owner = read_owner(disk, log)?;
    if owner.uuid != uuid {
        return Err(foreign(log, &owner));
    }
    if owner.home == disk.resolve(home).map_err(reading(home))? {
        return Ok(Claim::Mutual);
    }
    match identity(disk, &owner.home) {
        Ok(other) if other.uuid == uuid => Err(foreign(log, &owner)),
        Ok(_) | Err(Error::NotADatabase { .. }) => Ok(Claim::Moved),
        Err(error) => Err(error),
    }
}

/// Refuses a directory for a new log that holds anything but what an interrupted creation of the same database leaves.
fn must_be_free(disk: &dyn Disk, own: &Path, log: &Path) -> Result<()> {
    let names = match disk.list(log) {
        Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
            return Err(invalid(log, "a directory".to_string()));
        }
        other => other.map_err(reading(log))?,
    };
    let is_marked = names.iter().any(|name| name == OWNER);
    if is_marked {
        let owner = read_owner(disk, log)?;
        if owner.home != own || !is_unused_log(disk, log)? {
            return Err(foreign(log, &owner));
        }
    }
    let mut ours = vec![LOCK, NEW_OWNER];
    if is_marked {
        ours.extend([OWNER, FIRST_SEGMENT, NEW_FIRST_SEGMENT]);
    }
    match names.iter().find(|name| !ours.iter().any(|own| name == own)) {
        None => Ok(()),
        Some(found) => Err(Error::NotEmpty {
            path: log.display().to_string(),
            found: found.to_string_lossy().into_owned(),
        }),
    }
}
