//! Progress of recovery, for a caller that waits for it.

use std::fmt;
use std::sync::Arc;

/// The present step of recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecoveryStep {
    /// Loading the newest checkpoint.
    Checkpoint,
    /// Replaying the log.
    Log,
    /// Deriving secondary indexes.
    Indexes,
}

/// Progress of recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryProgress {
    /// The present step.
    pub step: RecoveryStep,
    /// Completed work of the step: bytes, or tables while indexes are derived.
    pub done: u64,
    /// Total work of the step. A log's last segment is mostly empty: its replay may end earlier.
    pub total: u64,
}

type Report = dyn Fn(RecoveryProgress) + Send + Sync;

/// The callback for progress.
#[derive(Clone, Default)]
pub(crate) struct Watch(Option<Arc<Report>>);

impl Watch {
    pub(crate) fn new(reported: impl Fn(RecoveryProgress) + Send + Sync + 'static) -> Watch {
        Watch(Some(Arc::new(reported)))
    }

    pub(super) fn report(&self, step: RecoveryStep, done: u64, total: u64) {
        if let Some(reported) = &self.0 {
            reported(RecoveryProgress { step, done, total });
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "watched" } else { "unwatched" })
    }
}

impl fmt::Display for RecoveryStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecoveryStep::Checkpoint => "loading the checkpoint",
            RecoveryStep::Log => "replaying the log",
            RecoveryStep::Indexes => "deriving indexes",
        })
    }
}
