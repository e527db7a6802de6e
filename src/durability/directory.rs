//! The database's directory: its lock, its contents, and how it is created.
//!
//! The manifest is made last, when all else is durable: a directory with a manifest is a whole database, one
//! without is none. Every step of opening and creating may be the last one before a power failure; then the next
//! opening starts over. A log elsewhere (`log_place`) is whole before the manifest that names it is made.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::checkpoint::Checkpoints;
use super::failure::{damaged, reading, writing};
use super::log_place::{LOG_MARKS, LogPlace};
use super::manifest::{self, Identity, MANIFEST_BYTES_MAX, MANIFEST_VERSION, Uuid};
use super::segment::LogFiles;
use super::{PAGE_BYTES, SegmentSizes};
use crate::base::disk::{Disk, LockGuard, parent_of};
use crate::base::random::unique_bytes;
use crate::{Error, Result};

pub(super) const LOCK: &str = "LOCK";
pub(super) const MANIFEST: &str = "MANIFEST";
pub(super) const NEW_MANIFEST: &str = "MANIFEST.tmp";
const LOG: &str = "log";
const CHECKPOINT: &str = "checkpoint";
/// The file that an interrupted creation may leave in the log's directory.
pub(super) const FIRST_SEGMENT: &str = "00000001.log";
pub(super) const NEW_FIRST_SEGMENT: &str = "00000001.log.tmp";

/// A database's directory, locked for as long as this lives.
pub(crate) struct DatabaseDirectory {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    uuid: Uuid,
    log: LogPlace,
    _lock: Box<dyn LockGuard>,
}

enum Content {
    /// A database, as its manifest says.
    Database(Identity),
    /// Empty, or left by an interrupted creation.
    Nothing,
}

impl DatabaseDirectory {
    /// Opens the database in `path`, or creates it if there is nothing. Whatever it refuses it does not change.
    /// `log`: the directory of a new database's log, if not in its own; of one that is there, the one that it has.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        path: &Path,
        options: &SegmentSizes,
        log: Option<&Path>,
    ) -> Result<DatabaseDirectory> {
        // Looked at before the lock is taken if taking it makes a file; else only under the lock, because another
        // process may be creating the database.
        if disk.exists(path).map_err(reading(path))? && !exists_below(&*disk, &path.join(LOCK))? {
            inspect(&*disk, path)?;
        }
        ensure_directory(&*disk, path)?;
        let lock = lock_to_write(&*disk, path)?;
        // What counts is what is there under the lock.
        let (uuid, log) = match inspect(&*disk, path)? {
            Content::Database(identity) => {
                let place = LogPlace::open(&*disk, path, &identity, log)?;
                if identity.version < MANIFEST_VERSION {
                    // Before anything of the new version is written.
                    write_manifest(&*disk, path, identity.uuid, place.elsewhere())?;
                }
                (identity.uuid, place)
            }
            Content::Nothing => create(&disk, path, options, log)?,
        };
        // The process that created the database may have been killed before the manifest's name was durable.
        disk.sync_dir(path).map_err(writing(path))?;
        Ok(DatabaseDirectory { disk, path: path.to_path_buf(), uuid, log, _lock: lock })
    }

    /// Opens the database in `path` for reading only, together with other readers: creates no file but a missing lock
    /// file. A read-only mount or missing permissions do not mean that the database is at rest, so the lock is acquired
    /// there, too.
    pub(crate) fn open_existing(
        disk: Arc<dyn Disk>,
        path: &Path,
        log: Option<&Path>,
    ) -> Result<DatabaseDirectory> {
        let identity = identity(&*disk, path)?;
        let lock = lock_to_read(&*disk, path)?;
        let log = LogPlace::open_to_read(&*disk, path, &identity, log)?;
        Ok(DatabaseDirectory { disk, path: path.to_path_buf(), uuid: identity.uuid, log, _lock: lock })
    }

    /// The directory's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The disk that the directory is on.
    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The database's identity.
    pub(crate) fn uuid(&self) -> Uuid {
        self.uuid
    }

    /// The directory of the log's segments.
    pub(crate) fn log_path(&self) -> &Path {
        self.log.path()
    }

    /// The database's checkpoints, which are on this disk.
    pub(crate) fn checkpoints(&self, disk: Arc<dyn Disk>) -> Checkpoints {
        checkpoints_of(disk, &self.path, self.uuid)
    }
}

/// Locks a directory exclusively.
pub(super) fn lock_to_write(disk: &dyn Disk, directory: &Path) -> Result<Box<dyn LockGuard>> {
    let path = directory.join(LOCK);
    let lock = disk.try_lock(&path).map_err(writing(&path))?;
    lock.ok_or_else(|| Error::InUse { path: directory.display().to_string() })
}

/// Locks a directory against writers. Needs no permission to write, unless the lock file is missing.
pub(super) fn lock_to_read(disk: &dyn Disk, directory: &Path) -> Result<Box<dyn LockGuard>> {
    let path = directory.join(LOCK);
    match disk.try_lock_shared(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => lock_to_write(disk, directory),
        Err(error) => Err(reading(&path)(error)),
        Ok(lock) => lock.ok_or_else(|| Error::InUse { path: directory.display().to_string() }),
    }
}

/// The identity of the database in a directory, by its manifest; another process may have the database open.
pub(crate) fn identity(disk: &dyn Disk, path: &Path) -> Result<Identity> {
    if !exists_below(disk, path)? {
        return Err(not_a_database(path, "there is nothing there"));
    }
    match inspect(disk, path)? {
        Content::Database(identity) => Ok(identity),
        Content::Nothing => Err(not_a_database(path, "there is no database in it")),
    }
}

/// The directory of the segments of the database in this directory, if its log is not elsewhere.
pub(super) fn log_of(path: &Path) -> PathBuf {
    path.join(LOG)
}

/// The checkpoints of the database in this directory.
pub(crate) fn checkpoints_of(disk: Arc<dyn Disk>, path: &Path, uuid: Uuid) -> Checkpoints {
    Checkpoints::new(disk, path.join(CHECKPOINT), uuid)
}

/// Returns true if there is a file; false, too, if its parent is not a directory.
fn exists_below(disk: &dyn Disk, path: &Path) -> Result<bool> {
    match disk.exists(path) {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Ok(false),
        other => other.map_err(reading(path)),
    }
}

fn inspect(disk: &dyn Disk, path: &Path) -> Result<Content> {
    let names = match disk.list(path) {
        Ok(names) => names,
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return Err(not_a_database(path, "it is a file"));
        }
        Err(error) => return Err(reading(path)(error)),
    };
    if names.iter().any(|name| name == MANIFEST) {
        let path = path.join(MANIFEST);
        return Ok(Content::Database(manifest::decode(&read_small(disk, &path)?, &path)?));
    }
    if let Some(other) = names.iter().find(|name| ![LOCK, NEW_MANIFEST, LOG].iter().any(|own| name == own)) {
        return Err(not_a_database(path, &format!("it has no {MANIFEST}, and holds {other:?}")));
    }
    if names.iter().any(|name| name == LOG) && !is_unused_log(disk, &path.join(LOG))? {
        return Err(not_a_database(
            path,
            &format!("it holds a log with data, but its {MANIFEST} is missing"),
        ));
    }
    Ok(Content::Nothing)
}

pub(super) fn not_a_database(path: &Path, detail: &str) -> Error {
    Error::NotADatabase { path: path.display().to_string(), detail: detail.to_string() }
}

/// All bytes of a file that is never long.
pub(super) fn read_small(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>> {
    let file = disk.open_read(path).map_err(reading(path))?;
    let length = file.len().map_err(reading(path))?;
    if length > MANIFEST_BYTES_MAX {
        return Err(damaged(path, MANIFEST_BYTES_MAX, "it is too long"));
    }
    let mut bytes = vec![0; length as usize];
    file.read_exact_at(&mut bytes, 0).map_err(reading(path))?;
    Ok(bytes)
}

/// Returns true if a log's directory is as an interrupted creation leaves it: at most a first segment without any
/// block.
pub(super) fn is_unused_log(disk: &dyn Disk, path: &Path) -> Result<bool> {
    let names: Vec<OsString> = disk.list(path).map_err(reading(path))?;
    let is_of_log = |name: &OsString| name.to_str().is_none_or(|name| !LOG_MARKS.contains(&name));
    if names
        .iter()
        .filter(|name| is_of_log(name))
        .any(|name| name != FIRST_SEGMENT && name != NEW_FIRST_SEGMENT)
    {
        return Ok(false);
    }
    if !names.iter().any(|name| name == FIRST_SEGMENT) {
        return Ok(true);
    }
    let path = path.join(FIRST_SEGMENT);
    let file = disk.open_read(&path).map_err(reading(&path))?;
    let length = file.len().map_err(reading(&path))?;
    let mut offset = PAGE_BYTES;
    let mut page = [0; PAGE_BYTES as usize];
    while offset < length {
        let count = (length - offset).min(PAGE_BYTES) as usize;
        file.read_exact_at(&mut page[..count], offset).map_err(reading(&path))?;
        if page[..count].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        offset += count as u64;
    }
    Ok(true)
}

/// Makes the directory and those above it, each one's name durable before the next is made. The name of the one
/// that was there is made durable, too: a thread that made it may have been interrupted before.
pub(super) fn ensure_directory(disk: &dyn Disk, path: &Path) -> Result<()> {
    let Some(parent) = parent_of(path) else {
        return Ok(());
    };
    if disk.exists(path).map_err(reading(path))? {
        return match disk.sync_dir(parent) {
            // A directory that we may not even open is not one that we made something in.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            other => other.map_err(writing(parent)),
        };
    }
    ensure_directory(disk, parent)?;
    disk.create_dir_all(path).map_err(writing(path))?;
    disk.sync_dir(parent).map_err(writing(parent))
}

/// Makes a database in a directory that holds nothing but what interrupted creations left.
fn create(
    disk: &Arc<dyn Disk>,
    path: &Path,
    options: &SegmentSizes,
    log: Option<&Path>,
) -> Result<(Uuid, LogPlace)> {
    let place = match log {
        Some(log) => LogPlace::take(&**disk, path, log)?,
        None => LogPlace::inside(path),
    };
    let log = place.path();
    disk.create_dir_all(log).map_err(writing(log))?;
    let segments = [FIRST_SEGMENT, NEW_FIRST_SEGMENT].map(|name| log.join(name));
    for leftover in segments.into_iter().chain([path.join(NEW_MANIFEST)]) {
        remove_if_there(&**disk, &leftover)?;
    }
    disk.sync_dir(path).map_err(writing(path))?;
    let uuid = Uuid(unique_bytes());
    place.mark(&**disk, path, uuid)?;
    let files = LogFiles { disk: disk.clone(), directory: log.to_path_buf(), uuid };
    files.create_segment(1, options.segment_bytes())?;
    write_manifest(&**disk, path, uuid, place.elsewhere())?;
    Ok((uuid, place))
}

pub(super) fn remove_if_there(disk: &dyn Disk, path: &Path) -> Result<()> {
    if disk.exists(path).map_err(reading(path))? {
        disk.remove(path).map_err(writing(path))?;
    }
    Ok(())
}

/// Writes the manifest; it is there whole, or as it was before. Its name becomes durable with the next sync of the
/// directory.
pub(super) fn write_manifest(disk: &dyn Disk, path: &Path, uuid: Uuid, log: Option<&str>) -> Result<()> {
    replace(disk, &path.join(MANIFEST), &path.join(NEW_MANIFEST), &manifest::encode(uuid, log))
}

/// Gives a file this content, all of it at once; `new` is what it is called until it is durable.
pub(super) fn replace(disk: &dyn Disk, path: &Path, new: &Path, content: &[u8]) -> Result<()> {
    remove_if_there(disk, new)?;
    let file = disk.create_new(new).map_err(writing(new))?;
    file.write_all_at(content, 0).map_err(writing(new))?;
    file.sync_all().map_err(writing(new))?;
    disk.rename(new, path).map_err(writing(path))
}
