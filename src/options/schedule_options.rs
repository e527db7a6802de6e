//! The schedule and its options.

use std::time::Duration;

use super::ranges::{invalid, within, within_real};
use crate::error::Result;
use crate::protocol::ProtocolKind;
use crate::schedule::{Policy, PredictSettings, ScheduleKind, StatePrune};

/// A schedule with its options, for [`Options::schedule`](crate::Options::schedule): made from a [`ScheduleKind`], from
/// [`PredictOptions`], or with [`partition_by`](Self::partition_by).
#[derive(Clone, Debug, Default)]
pub struct ScheduleOptions {
    pub(crate) kind: ScheduleKind,
    pub(crate) partition_key: Option<String>,
    predict: PredictOptions,
}

/// Options of [`ScheduleKind::Predict`].
#[derive(Clone, Copy, Debug)]
pub struct PredictOptions {
    policy: Policy,
    history_seconds: f64,
    history_renewal_seconds: f64,
    state_prune: StatePrune,
    memory_bytes: usize,
}

impl Default for PredictOptions {
    fn default() -> Self {
        PredictOptions {
            policy: Policy::default(),
            history_seconds: 5.0,
            history_renewal_seconds: 30.0,
            state_prune: StatePrune::default(),
            memory_bytes: 32 << 20,
        }
    }
}

impl PredictOptions {
    /// The policy by which the History of conflicts is weighed. Default: `count-max-canonical-single`.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// The time in seconds, from the first call on, in which the schedule places calls at random, to observe
    /// their conflicts. Default: 5.
    #[must_use]
    pub fn history_seconds(mut self, seconds: f64) -> Self {
        self.history_seconds = seconds;
        self
    }

    /// The least time in seconds for which the schedule uses what it has learned, before that is replaced by what it
    /// has learned meanwhile. Default: 30.
    #[must_use]
    pub fn history_renewal_seconds(mut self, seconds: f64) -> Self {
        self.history_renewal_seconds = seconds;
        self
    }

    /// The rule by which the schedule forgets in which queues a reference was placed. Default: `Stable`.
    #[must_use]
    pub fn state_prune(mut self, prune: StatePrune) -> Self {
        self.state_prune = prune;
        self
    }

    /// The limit on the schedule's memory, in bytes. Default: 32 MiB.
    #[must_use]
    pub fn memory_bytes(mut self, bytes: usize) -> Self {
        self.memory_bytes = bytes;
        self
    }
}

impl From<ScheduleKind> for ScheduleOptions {
    fn from(kind: ScheduleKind) -> Self {
        ScheduleOptions { kind, ..ScheduleOptions::default() }
    }
}

impl From<PredictOptions> for ScheduleOptions {
    fn from(predict: PredictOptions) -> Self {
        ScheduleOptions { predict, ..ScheduleKind::Predict.into() }
    }
}

impl ScheduleOptions {
    /// [`ScheduleKind::Partition`], by the value of this column: its name, or `table.column`. Columns that
    /// reference it are treated like it. Calls whose value is not known are placed in the queues by turns.
    #[must_use]
    pub fn partition_by(column: impl Into<String>) -> Self {
        ScheduleOptions { partition_key: Some(column.into()), ..ScheduleKind::Partition.into() }
    }

    /// The options for the case that the schedule is [`ScheduleKind::Predict`].
    #[must_use]
    pub fn predict(mut self, predict: PredictOptions) -> Self {
        self.predict = predict;
        self
    }

    /// The column by whose value calls are placed once [`Database::set_schedule`](crate::Database::set_schedule) puts
    /// [`ScheduleKind::Partition`] in force: as for [`partition_by`](Self::partition_by), for a database that is opened with another
    /// schedule.
    #[must_use]
    pub fn partition_key(mut self, column: impl Into<String>) -> Self {
        self.partition_key = Some(column.into());
        self
    }

    /// The configuration of the schedule `predict`. The options have been validated.
    pub(crate) fn predict_settings(&self) -> PredictSettings {
        let predict = &self.predict;
        PredictSettings {
            policy: predict.policy,
            history: Duration::from_secs_f64(predict.history_seconds),
            renew: Duration::from_secs_f64(predict.history_renewal_seconds),
            prune: predict.state_prune,
            memory_bytes: predict.memory_bytes,
        }
    }

    /// # Errors
    /// Schedule and protocol, or schedule and key, do not go together, or an option is out of range.
    pub(super) fn validate(&self, protocol: ProtocolKind) -> Result<()> {
        if self.kind != ScheduleKind::Random && protocol.places_calls() {
            let expected = format!(
                "random: the protocol {protocol} places calls itself; or a protocol that runs them side by side: {}",
                ProtocolKind::beside_each_other()
            );
            return Err(invalid("schedule", &self.kind, expected));
        }
        if self.kind == ScheduleKind::Partition && self.partition_key.is_none() {
            let expected = "a column by whose value calls are placed: ScheduleOptions::partition_by(column)";
            return Err(invalid("schedule", &"partition without a column", expected));
        }
        let predict = &self.predict;
        within_real("predict.history_seconds", predict.history_seconds, 0.0, 1e6)?;
        within_real("predict.history_renewal_seconds", predict.history_renewal_seconds, 0.0, 1e6)?;
        within("predict.memory_bytes", predict.memory_bytes as u64, 1 << 16, 1 << 36)
    }
}
