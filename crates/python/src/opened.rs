//! Databases that this process has open: a path that is opened twice is one database.
//!
//! # Invariants
//! - A database is opened, and closed with its last handle, under the lock of the table of open databases: a thread that opens its
//!   path next finds it open or closed, never half closed.
//! - No thread that holds this lock asks for the GIL.
//! - A child of a fork has none of the engine's threads: it forgets the databases of its parent without touching them, and
//!   gives its copies of their lock files back, so that the parent's end releases the locks.
//! - A child of a process that had a database open opens none: the locks' table of waiting threads, which all databases of a
//!   process share, names threads of the parent, whose stacks the child's own threads would get.

use std::collections::HashMap;
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use heddle_sql::{Sql, SqlError, SqlState};
use heddledb::{Database, Options};
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::forks::Process;

/// The databases of this process.
static OPENED: Mutex<Table> = Mutex::new(Table { by_path: None, count: 0, is_inherited: false });

struct Table {
    /// The databases that have a path.
    by_path: Option<HashMap<PathBuf, Weak<Opened>>>,
    /// Number of open databases.
    count: usize,
    /// True if this process was forked from one that had a database open.
    is_inherited: bool,
}

impl Table {
    fn check(&self) -> Result<(), SqlError> {
        if self.is_inherited { Err(inherited()) } else { Ok(()) }
    }
}

/// The error of a process that inherited open databases by a fork.
pub fn inherited() -> SqlError {
    let message = "this process was forked while a database was open: it cannot use databases";
    let error = SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message);
    error.with_hint("Fork before the first database is opened, or start processes by spawn.")
}

/// The name of the file in a database's directory whose lock its process holds.
const LOCK_FILE: &str = "LOCK";

/// An open database.
struct Opened {
    sql: Sql,
    path: Option<PathBuf>,
    process: Process,
}

/// A handle of an open database; the last one closes it. Drop it without the GIL.
pub struct Handle(Option<Arc<Opened>>);

impl Handle {
    /// Opens the database in a directory, or returns the one that is open.
    pub fn open(path: &Path, options: Options) -> Result<Handle, SqlError> {
        let mut opened = OPENED.lock();
        opened.check()?;
        let by_path = opened.by_path.get_or_insert_default();
        if let Some(known) = path.canonicalize().ok().and_then(|path| by_path.get(&path)?.upgrade()) {
            return Ok(Handle(Some(known)));
        }
        let sql = Sql::new(&Database::open(path, options)?)?;
        let unreadable = |error| SqlError::new(SqlState::IO_ERROR, format!("{}: {error}", path.display()));
        let path = path.canonicalize().map_err(unreadable)?;
        let known = Arc::new(Opened { sql, path: Some(path.clone()), process: Process::current() });
        by_path.insert(path, Arc::downgrade(&known));
        opened.count += 1;
        Ok(Handle(Some(known)))
    }

    /// A database in memory, which no other call finds.
    pub fn in_memory() -> Result<Handle, SqlError> {
        let mut opened = OPENED.lock();
        opened.check()?;
        let sql = Sql::new(&Database::in_memory()?)?;
        opened.count += 1;
        Ok(Handle(Some(Arc::new(Opened { sql, path: None, process: Process::current() }))))
    }

    /// SQL on the database.
    ///
    /// # Errors
    /// 55000 in a process that inherited the database by a fork.
    pub fn sql(&self) -> Result<&Sql, SqlError> {
        match &self.0 {
            Some(opened) if opened.process.is_current() => Ok(&opened.sql),
            _ => Err(inherited()),
        }
    }

    /// Returns true if this process inherited the database by a fork.
    pub fn is_inherited(&self) -> bool {
        self.0.as_ref().is_some_and(|opened| !opened.process.is_current())
    }

    /// The directory of the database; `None` for one in memory.
    pub fn path(&self) -> Option<&Path> {
        self.0.as_ref()?.path.as_deref()
    }
}

impl Clone for Handle {
    fn clone(&self) -> Handle {
        Handle(self.0.clone())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let Some(opened) = self.0.take() else { return };
        if !opened.process.is_current() {
            // Its threads and locks are the parent's.
            std::mem::forget(opened);
            return;
        }
        let mut all = OPENED.lock();
        if Arc::strong_count(&opened) == 1 {
            all.count -= 1;
            if let (Some(path), Some(by_path)) = (&opened.path, all.by_path.as_mut()) {
                by_path.remove(path);
            }
        }
        drop(opened);
    }
}

/// Waits for opening and closing in other threads, and blocks them. Called before a fork.
#[pyfunction]
pub fn before_fork(py: Python<'_>) {
    py.detach(|| std::mem::forget(OPENED.lock()));
}

/// Releases the lock. Called after a fork, in the parent.
#[pyfunction]
pub fn after_fork_in_parent() {
    // SAFETY: `before_fork` of this thread has locked it, and forgotten the guard.
    unsafe { OPENED.force_unlock() };
}

/// Forgets all databases, and releases its copies of their lock files. Called after a fork, in the child.
#[pyfunction]
pub fn after_fork_in_child() {
    // SAFETY: `before_fork` of this thread has locked it, and forgotten the guard; the child has no other thread.
    unsafe { OPENED.force_unlock() };
    let mut table = OPENED.lock();
    table.is_inherited |= table.count > 0;
    let Some(opened) = table.by_path.take() else { return };
    for path in opened.keys() {
        if let Ok(lock) = fs::metadata(path.join(LOCK_FILE)) {
            release_descriptors((lock.dev(), lock.ino()));
        }
    }
    // Weak handles count in memory that the parent's threads may have been about to change.
    std::mem::forget(opened);
}

/// Replaces this process's descriptors of a file by descriptors of `/dev/null`: a lock that a fork has duplicated stays held
/// until all duplicates are closed.
fn release_descriptors(file: (u64, u64)) {
    let Ok(null) = fs::File::open("/dev/null") else { return };
    let Ok(descriptors) = fs::read_dir("/dev/fd") else { return };
    for descriptor in descriptors.flatten() {
        let is_file = fs::metadata(descriptor.path()).is_ok_and(|found| (found.dev(), found.ino()) == file);
        let number = descriptor.file_name().to_str().and_then(|name| name.parse().ok());
        if let (true, Some(number)) = (is_file, number) {
            // SAFETY: the descriptor belongs to a database of the parent, which this process never uses.
            unsafe { libc::dup2(null.as_raw_fd(), number) };
        }
    }
}
