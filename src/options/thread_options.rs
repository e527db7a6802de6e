//! Options of threads: the assignment of stages to threads, and the number of threads inside the engine.

use super::Stages;
use super::ranges::within;
use crate::error::Result;

/// Options of threads, for [`Options::threads`](crate::Options::threads). The number of threads that execute
/// transactions is [`Options::workers`](crate::Options::workers).
#[derive(Clone, Debug)]
pub struct ThreadOptions {
    pub(crate) stages: Option<Stages>,
    pub(crate) input: usize,
    pub(crate) output: usize,
    pub(crate) max_worker_contexts: usize,
    pub(crate) most: usize,
}

impl Default for ThreadOptions {
    fn default() -> Self {
        ThreadOptions { stages: None, input: 1, output: 1, max_worker_contexts: 256, most: usize::MAX }
    }
}

impl ThreadOptions {
    /// The assignment of the stages to threads. Default: `Folded` on fewer than four processors, else `Staged`.
    #[must_use]
    pub fn stages(mut self, stages: Stages) -> Self {
        self.stages = Some(stages);
        self
    }

    /// The number of threads that prepare input, where the stages are `Staged`. Default: 1.
    #[must_use]
    pub fn input(mut self, threads: usize) -> Self {
        self.input = threads;
        self
    }

    /// The number of threads that deliver output, where the stages are `Staged`. Default: 1.
    #[must_use]
    pub fn output(mut self, threads: usize) -> Self {
        self.output = threads;
        self
    }

    /// The number of worker contexts, and thus of threads that may be inside the engine at once. Each of the database's
    /// own workers, or executors, keeps one, and so does each [`Worker`](crate::Worker) until it is dropped;
    /// [`Database::run`](crate::Database::run) has one while its transaction executes. A transaction waits
    /// for one that another transaction holds; if all are held by workers, it fails
    /// ([`Error::NoFreeSlot`](crate::Error::NoFreeSlot)). Must leave at least one to callers. Default: 256.
    #[must_use]
    pub fn max_worker_contexts(mut self, contexts: usize) -> Self {
        self.max_worker_contexts = contexts;
        self
    }

    /// Refuses to start threads beyond this number, as the operating system may: for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn most(mut self, threads: usize) -> Self {
        self.most = threads;
        self
    }

    /// # Errors
    /// The first option that is out of range. `workers`: how many threads of the database's own execute transactions.
    pub(super) fn validate(&self, workers: u64) -> Result<()> {
        within("threads.input", self.input as u64, 1, 64)?;
        within("threads.output", self.output as u64, 1, 64)?;
        within("threads.max_worker_contexts", self.max_worker_contexts as u64, workers + 1, 1 << 16)
    }
}
