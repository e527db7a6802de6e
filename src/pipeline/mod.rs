//! The pipeline that calls flow through: input, execute, log, output (TPK, 1988, section 2).
//!
//! ```text
//! caller ─ submit ─► input ─► worker's queue ─► execute ─► redo buffers ─► log ─► output ─► caller
//!            (staged: threads of its own;         │                         │ at most two groups in flight
//!             folded: the caller's)               └── results wait for their epochs ──┘
//! ```
//!
//! Stages pass on batches: a thread that takes from a queue takes all that waits. They block when there is nothing to do.
//! Threads are started here and nowhere else in the engine. What each file is for: `engine` what all share; `execute`
//! runs a call to its end; `handover_queue` the queue between stages; `call` a call under way and its handle; `input`,
//! `worker_thread`, `log`, `output` the stages; `work_queues` dequeuing and stealing; `partition` execution by executors that
//! own the data; `event_count` wakes the log stage; `hold_off` has others wait for a transaction that they starve; `snapshots` is where it is asked for snapshots. Concurrently,
//! `checkpoint` copies the records, or has `follower` do so, and `maintenance` looks after the schedule.

pub(crate) mod call;
pub(crate) mod caller_run;
pub(crate) mod checkpoint;
pub(crate) mod engine;
pub(crate) mod event_count;
pub(crate) mod execute;
pub(crate) mod follower;
pub(crate) mod group_clock;
pub(crate) mod handover_queue;
pub(crate) mod hold_off;
pub(crate) mod input;
pub(crate) mod log;
pub(crate) mod maintenance;
pub(crate) mod nesting;
pub(crate) mod output;
pub(crate) mod partition;
pub(crate) mod phase_coordinator;
pub(crate) mod reclaimer;
pub(crate) mod retry;
pub(crate) mod snapshots;
pub(crate) mod stash;
pub(crate) mod statistics;
pub(crate) mod threads;
pub(crate) mod work_queues;
pub(crate) mod worker_thread;
