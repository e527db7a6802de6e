//! Options of what the engine observes about itself.

use super::ranges::within;
use crate::error::Result;

/// Options of diagnostics, for [`Options::diagnostics`](crate::Options::diagnostics).
#[derive(Clone, Debug, Default)]
pub struct DiagnosticOptions {
    pub(crate) time_samples: usize,
    pub(crate) access_trace: bool,
}

impl DiagnosticOptions {
    /// The rate, per second, at which the activity of each executing thread is sampled; 0: never. The result is
    /// [`Statistics::time`](crate::Statistics::time). Default: 0.
    #[must_use]
    pub fn time_samples(mut self, per_second: usize) -> Self {
        self.time_samples = per_second;
        self
    }

    /// Records which thread touches which record when, as samples in bounded memory, for
    /// [`Database::take_access_trace`](crate::Database::take_access_trace). Every access costs more then. Default: no.
    #[must_use]
    pub fn access_trace(mut self, traced: bool) -> Self {
        self.access_trace = traced;
        self
    }

    /// # Errors
    /// The first option that is out of range.
    pub(super) fn validate(&self) -> Result<()> {
        within("diagnostics.time_samples", self.time_samples as u64, 0, 10_000)
    }
}
