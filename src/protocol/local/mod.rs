//! Local locks of the partitioned protocol (DORA): what executors decide by, without their threads.
//!
//! Every table is divided into datasets by its routing columns, and each dataset belongs to one executor, a thread that
//! alone grants locks there. A local lock is therefore an entry in a map that no other thread sees: there is neither a
//! latch nor a central lock manager. [`local_lock`] says what is locked, [`lock_table`] grants and parks, [`partition_map`]
//! says which executor owns what, and [`wait_edges`] has the edges of the waits-for graph.
//!
//! # Invariants
//! This folder starts no threads and runs no transactions: the executors are in `pipeline/partition`. A thread that is no
//! executor (a closure at its commit) acquires local locks through [`ExternalLocks`] only.
//!
//! # Source
//! DORA (VLDB 2010), sections 4.1 and 4.2.

pub(crate) mod local_lock;
pub(crate) mod lock_table;
pub(crate) mod partition_map;
pub(crate) mod wait_edges;

use smallvec::SmallVec;

use self::local_lock::LocalLock;
use crate::error::Error;
pub(crate) use crate::lock::OwnerId;

/// Local locks for threads that are no executors.
pub(crate) trait ExternalLocks: Send + Sync {
    /// The start timestamp of a new transaction: of two in a deadlock the younger is the victim.
    fn start_timestamp(&self) -> u64;

    /// Acquires all of these at once, and blocks until they are granted. The caller must hold no local lock.
    ///
    /// `log_credit`: the log space that the caller has reserved, in bytes. It is returned before the wait and reserved
    /// again after it, because executors may wait for log space and must not wait for a transaction that waits for them.
    ///
    /// # Errors
    /// See [`Denied`]; then nothing is held.
    fn acquire(
        &self,
        locks: Vec<LocalLock>,
        start_timestamp: u64,
        log_credit: &mut usize,
    ) -> Result<Grant, Denied>;

    /// Releases the locks, and returns what is left of the log space that was reserved with them: kept as a portion for
    /// later, it could be all the space there is.
    fn release(&self, grant: Grant, log_credit: &mut usize);
}

/// Local locks that are held.
#[derive(Debug)]
pub(crate) struct Grant {
    /// The owner.
    pub(crate) owner: OwnerId,
    /// The executors whose lock tables have the locks.
    pub(crate) executors: SmallVec<[usize; 4]>,
    /// True if log space was reserved again when all locks were granted.
    pub(crate) reserved_log_space: bool,
}

/// The reason why nothing was locked.
#[derive(Debug)]
pub(crate) enum Denied {
    /// The request was the victim of a deadlock.
    Deadlock,
    /// The database is being closed, or the log accepts no more redo.
    Refused(Error),
}
