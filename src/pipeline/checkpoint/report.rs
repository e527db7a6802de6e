//! What is reported about checkpoints.

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
    /// Why something that it has made useless could not be removed; the next checkpoint tries again.
    pub leftover: Option<Error>,
    /// Whether a follower has written it.
    pub by_follower: bool,
    /// How long it took.
    pub time: Duration,
}

/// What has been made of checkpoints since the database was opened.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CheckpointStatus {
    /// Whether one is being made now.
    pub running: bool,
    /// How many are whole.
    pub made: u64,
    /// How many of these were asked for explicitly ([`Database::checkpoint`](crate::Database::checkpoint)).
    pub requested: u64,
    /// How many of these a follower has written.
    pub by_follower: u64,
    /// How many attempts have failed: the older checkpoint, and all of the log behind it, are in use.
    pub failed: u64,
    /// Bytes of all that were made.
    pub bytes: u64,
    /// How long the making of all that were made took.
    pub time: Duration,
    /// The last one that is whole.
    pub last: Option<CheckpointReport>,
    /// What is known of a follower; nothing, if none is waited for.
    pub follower: Option<FollowerStatus>,
    /// Why the last attempt has failed, or something useless could not be removed, if that is so.
    pub failure: Option<Error>,
}
