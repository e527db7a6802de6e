//! Options of the log: the size of a group, and the directory of the log.

use std::path::PathBuf;
use std::time::Duration;

use super::Durability;
use super::ranges::{invalid, within};
use crate::error::Result;

/// Time for a group to grow where no caller waits for it, unless a time is given.
const DEFAULT_GROUP_MILLISECONDS: f64 = 10.0;

/// Options of the log, for [`Options::log`](crate::Options::log). Without durability they have no effect.
#[derive(Clone, Debug)]
pub struct LogOptions {
    pub(crate) group_size: Option<usize>,
    pub(crate) group_milliseconds: Option<f64>,
    pub(crate) segment_bytes: u64,
    pub(crate) buffer_bytes: usize,
    pub(crate) waiter_slots: usize,
    pub(crate) directory: Option<PathBuf>,
    pub(crate) archive_hold_bytes: u64,
}

impl Default for LogOptions {
    fn default() -> Self {
        LogOptions {
            group_size: None,
            group_milliseconds: None,
            segment_bytes: 64 << 20,
            buffer_bytes: 16 << 20,
            waiter_slots: 64,
            directory: None,
            archive_hold_bytes: 0,
        }
    }
}

impl LogOptions {
    /// The most transactions in one group. Default: no bound but the log buffer's.
    #[must_use]
    pub fn group_size(mut self, transactions: usize) -> Self {
        self.group_size = Some(transactions);
        self
    }

    /// The longest time, in milliseconds, from a group's first record until it is written. With
    /// [`group_size`](Self::group_size) it is one of TPK's two limits of a group, of which the one reached
    /// first counts. A larger group costs fewer writes, and each of its transactions waits longer. Default:
    /// 10 if no caller waits for the log (`Async`); otherwise none: a group is written as soon as the log is
    /// idle.
    #[must_use]
    pub fn group_milliseconds(mut self, milliseconds: f64) -> Self {
        self.group_milliseconds = Some(milliseconds);
        self
    }

    /// The size of a log segment, in bytes. Default: 64 MiB.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u64) -> Self {
        self.segment_bytes = bytes;
        self
    }

    /// The most bytes of redo that may wait to become durable. Default: 16 MiB.
    #[must_use]
    pub fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.buffer_bytes = bytes;
        self
    }

    /// The number of waiter slots in the ring for durable epochs. Default: 64.
    #[must_use]
    pub fn waiter_slots(mut self, slots: usize) -> Self {
        self.waiter_slots = slots;
        self
    }

    /// Keeps a new database's log in this directory, which must be new or empty: on a disk of its own, the log's
    /// writes wait for no others. The database's own directory records its place, so that the option can be
    /// omitted from then on. Copies of such a database are made with
    /// [`Database::backup`](crate::Database::backup): one of the files would have the same log as the
    /// original, and is refused. Default: the database's own directory.
    #[must_use]
    pub fn directory(mut self, path: impl Into<PathBuf>) -> Self {
        self.directory = Some(path.into());
        self
    }

    /// Limit of the bytes of the log, not needed by recovery, that are held for an archive that has not copied them yet: see
    /// [`Database::archive_source`](crate::Database::archive_source). Beyond that they are removed, and what is archived
    /// begins again with a checkpoint. Default: 0, there is no archive.
    #[must_use]
    pub fn archive_hold_bytes(mut self, bytes: u64) -> Self {
        self.archive_hold_bytes = bytes;
        self
    }

    /// The longest time from a group's first record until it is written; `None`: it is written as soon as the log is
    /// idle. The options have been validated.
    pub(crate) fn group_time(&self, durability: Durability) -> Option<Duration> {
        let default = (durability == Durability::Async).then_some(DEFAULT_GROUP_MILLISECONDS);
        let milliseconds = self.group_milliseconds.or(default);
        milliseconds.map(|milliseconds| Duration::from_secs_f64(milliseconds / 1_000.0))
    }

    /// # Errors
    /// The first option that is out of range.
    pub(super) fn validate(&self) -> Result<()> {
        within("log.group_size", self.group_size.unwrap_or(1) as u64, 1, (1 << 24) - 1)?;
        within("log.segment_bytes", self.segment_bytes, 64 << 10, 4 << 30)?;
        within("log.buffer_bytes", self.buffer_bytes as u64, 4 << 10, 1 << 30)?;
        within("log.waiter_slots", self.waiter_slots as u64, 2, 1 << 16)?;
        // Written so that NaN is refused, too.
        let milliseconds = self.group_milliseconds.unwrap_or(DEFAULT_GROUP_MILLISECONDS);
        if !(milliseconds > 0.0 && milliseconds <= 60_000.0) {
            return Err(invalid("log.group_milliseconds", &milliseconds, "more than 0, at most 60000"));
        }
        Ok(())
    }
}
