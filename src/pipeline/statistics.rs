//! Counters that the engine keeps about itself.

use std::ops::Sub;
use std::time::Duration;

use crate::base::atomics::{AtomicU64, Ordering};
use crate::diagnostics::time_samples::TimeSamples;
use crate::diagnostics::work_time::WorkTime;

/// The stages of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Input,
    Execute,
    Log,
    Output,
    Checkpoint,
    /// A follower, in another process, by its own report.
    Follower,
}

/// Busy time of each stage in nanoseconds, summed over its threads, and counts of groups.
#[derive(Default)]
pub(crate) struct StageClocks {
    busy: [AtomicU64; 6],
    pub(crate) groups: AtomicU64,
    pub(crate) grouped: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) flushes: AtomicU64,
}

impl StageClocks {
    /// Adds what this thread has worked for a stage. Relaxed: statistics.
    pub(crate) fn add(&self, stage: Stage, work: WorkTime) {
        self.add_time(stage, work.elapsed());
    }

    /// Adds this amount.
    pub(crate) fn add_time(&self, stage: Stage, time: Duration) {
        self.busy[stage as usize].fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Counts a group that was written with this many flushes.
    pub(crate) fn add_group(&self, transactions: u64, bytes: u64, flushes: u64) {
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.grouped.fetch_add(transactions, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.flushes.fetch_add(flushes, Ordering::Relaxed);
    }

    pub(crate) fn busy(&self, stage: Stage) -> Duration {
        Duration::from_nanos(self.busy[stage as usize].load(Ordering::Relaxed))
    }
}

/// Counts since the engine was opened. Numbers only rise, unless they describe the present: read them before
/// and after an interval, and subtract.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Calls that have committed, read-only ones included.
    pub committed: u64,
    /// Attempts that were retried.
    pub aborted: u64,
    /// Attempts that aborted because another call had locked, changed or deleted a record that they would
    /// have written.
    pub aborted_write: u64,
    /// All other aborted attempts: something that they had only read was changed, or (`locking`) locked.
    pub aborted_read: u64,
    /// Calls that ended in an error of their own.
    pub failed: u64,
    /// Calls that changed nothing and yet waited for the log, because of the values that they had read.
    pub readers_waited: u64,
    /// Locks acquired on records, key ranges and insert intentions (`locking`), those of failed attempts too.
    /// A lock that a call holds already is not counted again; an upgrade is.
    pub locks_row: u64,
    /// Locks acquired on tables and the database.
    pub locks_higher: u64,
    /// Locks for which the lock table of an executor had an entry (`partitioned`), those of aborted attempts too. A transaction at
    /// one executor that meets no lock runs without one.
    pub locks_local: u64,
    /// Locks that transactions requested from executors (`partitioned`), whether they were entered in a lock
    /// table or not: the number of requested rows and ranges.
    pub lock_requests_local: u64,
    /// Calls over several executors whose actions ran in parallel (`partitioned`).
    pub went_parallel: u64,
    /// Calls over several executors whose actions ran one after the other.
    pub went_serial: u64,
    /// Bytes of memory that rows take now, as [`MemoryOptions::limit`](crate::MemoryOptions::limit) counts them; long values are counted
    /// where there is a limit or [`MemoryOptions::count_long_values`](crate::MemoryOptions::count_long_values) says so.
    pub memory_bytes: u64,
    /// Bytes of memory that the nodes of all indexes take now; [`Table::memory`](crate::Table::memory) has
    /// those of each table.
    pub index_bytes: u64,
    /// Snapshots that were opened; concurrent requests share one.
    pub snapshots_opened: u64,
    /// Snapshots that are open now.
    pub snapshots_open: u64,
    /// Snapshots that have failed, because versions exceeded [`MemoryOptions::snapshot_limit`](crate::MemoryOptions::snapshot_limit).
    pub snapshots_failed: u64,
    /// Versions of rows that only open snapshots need now.
    pub snapshot_versions: u64,
    /// Bytes of memory that they take.
    pub snapshot_bytes: u64,
    /// Groups written to the log.
    pub log_groups: u64,
    /// Transactions in them.
    pub log_transactions: u64,
    /// Bytes of redo in them.
    pub log_bytes: u64,
    /// Flushes of the log to disk: one for each group, and one more for each segment that a group fills.
    pub log_flushes: u64,
    /// Calls that an idle worker took from another's queue.
    pub stolen: u64,
    /// Batches dequeued by the execute stage, and the calls in them.
    pub execute_batches: (u64, u64),
    /// Batches dequeued by the log stage (groups), and the transactions in them.
    pub log_batches: (u64, u64),
    /// Batches dequeued by the output stage, and the results in them.
    pub output_batches: (u64, u64),
    /// Busy time of the input stage's threads: time that they worked, not waited.
    pub input_busy: Duration,
    /// Busy time of the execute stage's threads: waits for the log, for locks and for other executors do not count.
    /// While the groups of a [`Worker`](crate::Worker) take less than 1 ms, one in sixteen is timed, and
    /// represents all.
    pub execute_busy: Duration,
    /// Busy time of the log stage's threads: waiting for the disk counts as work.
    pub log_busy: Duration,
    /// Busy time of the output stage's threads.
    pub output_busy: Duration,
    /// Copying and writing checkpoints: waiting for the disk counts as work, waiting for the pace does not.
    pub checkpoint_busy: Duration,
    /// Busy time of a follower, in its own process: loading, replaying, writing checkpoints.
    pub follower_busy: Duration,
    /// Activities of threads at the sampled moments, if time is sampled.
    pub time: TimeSamples,
}

impl Sub for Statistics {
    type Output = Statistics;

    fn sub(self, before: Statistics) -> Statistics {
        let pair = |now: (u64, u64), before: (u64, u64)| (now.0 - before.0, now.1 - before.1);
        Statistics {
            committed: self.committed - before.committed,
            aborted: self.aborted - before.aborted,
            aborted_write: self.aborted_write - before.aborted_write,
            aborted_read: self.aborted_read - before.aborted_read,
            failed: self.failed - before.failed,
            readers_waited: self.readers_waited - before.readers_waited,
            locks_row: self.locks_row - before.locks_row,
            locks_higher: self.locks_higher - before.locks_higher,
            locks_local: self.locks_local - before.locks_local,
            lock_requests_local: self.lock_requests_local - before.lock_requests_local,
            went_parallel: self.went_parallel - before.went_parallel,
            went_serial: self.went_serial - before.went_serial,
            memory_bytes: self.memory_bytes,
            index_bytes: self.index_bytes,
            snapshots_opened: self.snapshots_opened - before.snapshots_opened,
            snapshots_open: self.snapshots_open,
            snapshots_failed: self.snapshots_failed - before.snapshots_failed,
            snapshot_versions: self.snapshot_versions,
            snapshot_bytes: self.snapshot_bytes,
            log_groups: self.log_groups - before.log_groups,
            log_transactions: self.log_transactions - before.log_transactions,
            log_bytes: self.log_bytes - before.log_bytes,
            log_flushes: self.log_flushes - before.log_flushes,
            stolen: self.stolen - before.stolen,
            execute_batches: pair(self.execute_batches, before.execute_batches),
            log_batches: pair(self.log_batches, before.log_batches),
            output_batches: pair(self.output_batches, before.output_batches),
            input_busy: self.input_busy - before.input_busy,
            execute_busy: self.execute_busy - before.execute_busy,
            log_busy: self.log_busy - before.log_busy,
            output_busy: self.output_busy - before.output_busy,
            checkpoint_busy: self.checkpoint_busy - before.checkpoint_busy,
            follower_busy: self.follower_busy - before.follower_busy,
            time: self.time - before.time,
        }
    }
}
