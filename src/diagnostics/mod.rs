//! What the engine observes about itself where it is asked to ([`DiagnosticOptions`](crate::DiagnosticOptions)): where time
//! goes, and which thread touches which record.
//!
//! - `activity`: each thread shows what it is doing in one word of its slot.
//! - `time_samples`: a thread samples those words: [`Statistics::time`](crate::Statistics::time).
//! - `access_trace`: samples of all accesses to records:
//!   [`Database::take_access_trace`](crate::Database::take_access_trace).
//!
//! Invariant: what is not asked for costs one comparison, and no memory.

pub(crate) mod access_trace;
pub(crate) mod activity;
pub(crate) mod time_samples;
