//! The engine's observations of itself: records with conflicts, and on request
//! ([`DiagnosticOptions`](crate::DiagnosticOptions)) the use of time, and accesses to records by thread.
//!
//! - `activity`: each thread shows what it is doing in one word of its slot.
//! - `time_samples`: a thread samples those words: [`Statistics::time`](crate::Statistics::time).
//! - `work_time`: how long a thread has worked, without its waits, for the stages' clocks.
//! - `access_trace`: samples of all accesses to records:
//!   [`Database::take_access_trace`](crate::Database::take_access_trace).
//! - `recent_counts`: counts of writes, conflicts and waits by row over the last minute: [`Database::hot_rows`](crate::Database::hot_rows).
//! - `conflict_counts`: counts of aborts by record: [`Database::hot_records`](crate::Database::hot_records).
//!
//! Invariant: what is not asked for costs one comparison, and no memory; conflicts are counted where an attempt has aborted.

pub(crate) mod access_trace;
pub(crate) mod activity;
pub(crate) mod conflict_counts;
pub(crate) mod recent_counts;
pub(crate) mod time_samples;
pub(crate) mod work_time;
