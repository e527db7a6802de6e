//! Reports about checkpoints.

use std::time::Duration;

use crate::error::Error;
use crate::pipeline::follower::FollowerStatus;

/// A checkpoint that is whole.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// Its number: later ones have higher ones.
    pub number: u32,
    /// The log is needed from this epoch on.
    pub epoch: u64,
    /// Records in it, the catalog's own included.
    pub records: u64,
    /// Bytes of its parts.
    pub bytes: u64,
    /// Segments of the log that it has made useless, and that were removed.
    pub log_segments_removed: u64,
    /// The reason why a useless file could not be removed; the next checkpoint tries again.
    pub leftover: Option<Error>,
    /// True if a follower has written it.
    pub by_follower: bool,
    /// Time that it took.
    pub time: Duration,
}

/// Statistics of checkpoints since the database was opened.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CheckpointStatus {
    /// True while one is being made.
    pub running: bool,
    /// Number of complete checkpoints.
    pub made: u64,
    /// Number of these that were requested explicitly ([`Database::checkpoint`](crate::Database::checkpoint)).
    pub requested: u64,
    /// Number of these that a follower has written.
    pub by_follower: u64,
    /// Number of failed attempts: the older checkpoint, and all of the log behind it, remain in use.
    pub failed: u64,
    /// Bytes of all that were made.
    pub bytes: u64,
    /// Time that all complete checkpoints took.
    pub time: Duration,
    /// The last one that is whole.
    pub last: Option<CheckpointReport>,
    /// Status of the follower; `None` if none is awaited.
    pub follower: Option<FollowerStatus>,
    /// The reason why the last attempt has failed, or a useless file could not be removed; `None` if neither is so.
    pub failure: Option<Error>,
}
