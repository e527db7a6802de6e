//! Faults: the operations that fail, and the way in which they do.

use std::io;

/// An operation of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Reading from a file.
    Read,
    /// Writing to a file, or setting its length.
    Write,
    /// `sync_data` and `sync_all`.
    Sync,
    /// `sync_dir`.
    SyncDirectory,
    /// Making a file or a directory, or a lock file.
    Create,
    /// Opening a file that is there.
    Open,
    /// Renaming a file.
    Rename,
    /// Removing a file.
    Remove,
    /// Listing a directory, or asking whether a file is there.
    List,
}

impl Operation {
    pub(super) fn changes_something(self) -> bool {
        !matches!(self, Operation::Read | Operation::Open | Operation::List)
    }
}

/// The way in which an operation fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// EIO: the disk is broken.
    InputOutput,
    /// ENOSPC: the disk is full.
    StorageFull,
    /// EROFS: the file system is read-only.
    ReadOnly,
    /// EACCES: the user may not do that.
    PermissionDenied,
    /// EMFILE: the process has too many files open.
    TooManyFiles,
}

impl Fault {
    /// The operating system's own error, so that its kind and text are real.
    pub(super) fn error(self) -> io::Error {
        io::Error::from_raw_os_error(match self {
            Fault::InputOutput => 5,
            Fault::PermissionDenied => 13,
            Fault::TooManyFiles => 24,
            Fault::StorageFull => 28,
            Fault::ReadOnly => 30,
        })
    }
}

/// The faults that a test asked for.
#[derive(Default)]
pub(super) struct FaultPlan {
    pub(super) next: Vec<(Operation, Fault)>,
    pub(super) always: Vec<(Operation, Fault)>,
    /// Changing operations so far.
    pub(super) operations: u64,
    /// The operation after which nothing happens any more.
    pub(super) last_operation: Option<u64>,
    pub(super) capacity: Option<u64>,
    pub(super) shorten_transfers: bool,
    /// Counts transfers, to interrupt every third.
    transfers: u64,
    pub(super) lie_about_syncs: bool,
    pub(super) hold_syncs: bool,
    pub(super) held_syncs: usize,
}

impl FaultPlan {
    /// Called before every operation; an error is the result of the operation.
    pub(super) fn begin(&mut self, operation: Operation) -> Result<(), Failure> {
        if operation.changes_something() {
            self.operations += 1;
        }
        // Reads fail, too, once all operations that were allowed have happened and another was tried.
        if self.last_operation.is_some_and(|last| self.operations > last) {
            return Err(Failure::PowerGone);
        }
        if let Some(index) = self.next.iter().position(|(planned, _)| *planned == operation) {
            return Err(Failure::Planned(self.next.remove(index).1));
        }
        match self.always.iter().find(|(planned, _)| *planned == operation) {
            Some((_, fault)) => Err(Failure::Planned(*fault)),
            None => Ok(()),
        }
    }

    /// The number of `wanted` bytes that a transfer moves.
    pub(super) fn transfer(&mut self, wanted: usize) -> io::Result<usize> {
        if !self.shorten_transfers {
            return Ok(wanted);
        }
        self.transfers += 1;
        if self.transfers.is_multiple_of(3) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(wanted.div_ceil(2))
    }

    pub(super) fn heal(&mut self) {
        self.next.clear();
        self.always.clear();
        self.last_operation = None;
        self.capacity = None;
    }
}

/// The reason why an operation does not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// A test planned it.
    Planned(Fault),
    /// `crash_after`: nothing happens any more.
    PowerGone,
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> io::Error {
        match failure {
            Failure::Planned(fault) => fault.error(),
            Failure::PowerGone => Fault::InputOutput.error(),
        }
    }
}
