//! Options of the queues through which calls reach workers.

use super::ranges::within;
use crate::error::Result;
use crate::pipeline::schedule_change::SharingRule;

/// Options of the queues, for [`Options::queues`](crate::Options::queues).
#[derive(Clone, Debug)]
pub struct QueueOptions {
    pub(crate) max_in_flight: usize,
    pub(crate) automatic_admission: bool,
    pub(crate) work_stealing: Option<bool>,
    pub(crate) capacity: usize,
}

impl Default for QueueOptions {
    fn default() -> Self {
        QueueOptions { max_in_flight: 4_096, automatic_admission: false, work_stealing: None, capacity: 256 }
    }
}

impl QueueOptions {
    /// The most calls that may be in flight through the queue. Default: 4,096.
    #[must_use]
    pub fn max_in_flight(mut self, calls: usize) -> Self {
        self.max_in_flight = calls;
        self
    }

    /// Lets the engine find the number of calls in flight that gives the highest throughput, up to
    /// [`max_in_flight`](Self::max_in_flight). Default: no.
    #[must_use]
    pub fn automatic_admission(mut self, automatic: bool) -> Self {
        self.automatic_admission = automatic;
        self
    }

    /// Lets an idle worker take calls from the others' queues, which are bounded then. Default: where the schedule is
    /// not `Random`.
    #[must_use]
    pub fn work_stealing(mut self, stealing: bool) -> Self {
        self.work_stealing = Some(stealing);
        self
    }

    /// The most calls that wait in a worker's queue, if workers steal; a caller with a further call waits.
    /// Default: 256.
    #[must_use]
    pub fn capacity(mut self, calls: usize) -> Self {
        self.capacity = calls;
        self
    }

    /// The rules by which workers share their queues.
    pub(crate) fn sharing(&self) -> SharingRule {
        SharingRule { stealing: self.work_stealing, bound: self.capacity }
    }

    /// # Errors
    /// The first option that is out of range.
    pub(super) fn validate(&self) -> Result<()> {
        within("queues.max_in_flight", self.max_in_flight as u64, 1, 1 << 24)?;
        within("queues.capacity", self.capacity as u64, 1, 1 << 24)
    }
}
