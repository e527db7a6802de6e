//! The pipeline that calls flow through: input, execute, log, output (TPK, 1988, section 2).
//!
//! ```text
//! caller ─ submit ─► input ─► worker's queue ─► execute ─► redo buffers ─► log ─► output ─► caller
//!            (staged: threads of its own;         │                         │ at most two groups in flight
//!             folded: the caller's)               └── results wait for their epochs ──┘
//! ```
//!
//! Stages pass on batches: a thread that takes from a queue takes all that waits. They block when there is nothing to do.
//! Threads are started here (`threads`) and nowhere else in the engine.
//!
//! | file | content |
//! | --- | --- |
//! | `engine`, `call` | the state that all threads share; a call under way, and its handle |
//! | `input`, `worker_thread`, `log`, `output` | the stages |
//! | `handover_queue`, `work_queues` | the queue between two stages; workers' queues, and stealing between them |
//! | `execute`, `retry`, `nesting` | a call's attempts; the pause between two; refusal of calls inside of a body |
//! | `caller_run`, `group_clock` | execution on the caller's thread; its execution time |
//! | `partition` | execution by executors that own the data |
//! | `phase_coordinator`, `stash` | when phases change; calls that wait for the end of a split phase |
//! | `hold_off` | makes others wait for a transaction that they would starve |
//! | `protocol_change`, `loads` | puts another protocol in force; what it waits for |
//! | `schedule_change`, `choice_log` | puts another schedule in force; the choices of both, for reports |
//! | `snapshots` | requests for snapshots |
//! | `checkpoint`, `follower` | copies of all records beside execution, by this process or another one |
//! | `maintenance`, `reclaimer` | the schedule's upkeep; memory of dropped tables and deleted rows |
//! | `event_count`, `statistics` | wake-ups of the log stage; counters |

pub(crate) mod call;
pub(crate) mod caller_run;
pub(crate) mod checkpoint;
pub(crate) mod choice_log;
pub(crate) mod engine;
pub(crate) mod event_count;
pub(crate) mod execute;
pub(crate) mod follower;
pub(crate) mod group_clock;
pub(crate) mod handover_queue;
pub(crate) mod hold_off;
pub(crate) mod input;
pub(crate) mod loads;
pub(crate) mod log;
pub(crate) mod maintenance;
pub(crate) mod nesting;
pub(crate) mod output;
pub(crate) mod partition;
pub(crate) mod phase_coordinator;
pub(crate) mod protocol_change;
pub(crate) mod reclaimer;
pub(crate) mod retry;
pub(crate) mod schedule_change;
pub(crate) mod snapshots;
pub(crate) mod standby;
pub(crate) mod stash;
pub(crate) mod statistics;
pub(crate) mod threads;
pub(crate) mod work_queues;
pub(crate) mod worker_thread;
