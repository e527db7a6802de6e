//! Changes of the schedule while calls arrive and run.
//!
//! A schedule is advice: a call is isolated in any queue. So nothing has to stop for a change. Another schedule is put in force, by which
//! calls are placed from then on, and the calls that wait are dequeued and placed once more. Calls that are running end where they are. A
//! call that was placed by the old schedule and enqueued after the change runs in the queue that it was placed in.
//!
//! # Invariants
//! - One change at a time; none once the database is being closed.
//! - The maintenance thread is there while the schedule in force learns, or something else needs the thread.
//! - Every call that waited before a change waits after it, or runs.
//!
//! # Concurrency
//! The rules by which workers share their queues change with the schedule (`work_queues::sharing`).

use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::pipeline::choice_log::ChoiceLog;
use crate::pipeline::engine::Engine;
use crate::pipeline::input::Input;
use crate::pipeline::threads::MaintenanceThread;
use crate::pipeline::work_queues::Sharing;
use crate::schedule::ScheduleKind;

/// The rules by which workers share their queues, as the options say.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharingRule {
    /// Whether an idle worker steals; `None`: where the schedule is not `Random`.
    pub(crate) stealing: Option<bool>,
    /// The most calls in a queue that is shared.
    pub(crate) bound: usize,
}

impl SharingRule {
    /// The rules under a schedule; `None` if queues are not shared.
    pub(crate) fn under(self, schedule: ScheduleKind) -> Option<Sharing> {
        let is_shared = self.stealing.unwrap_or(schedule != ScheduleKind::Random);
        is_shared.then_some(Sharing { bound: self.bound })
    }
}

/// Changes the schedule of one database.
pub(crate) struct ScheduleChange {
    engine: Arc<Engine>,
    input: Arc<Input>,
    upkeep: Arc<MaintenanceThread>,
    sharing: SharingRule,
    choices: Arc<ChoiceLog>,
    opened_with: ScheduleKind,
    /// True once the database is being closed; locked while a change is made.
    is_closed: Mutex<bool>,
}

impl ScheduleChange {
    /// For the database of this engine.
    pub(crate) fn new(
        (engine, input): (Arc<Engine>, Arc<Input>),
        upkeep: Arc<MaintenanceThread>,
        sharing: SharingRule,
        choices: Arc<ChoiceLog>,
    ) -> ScheduleChange {
        let opened_with = input.schedule().kind();
        ScheduleChange { engine, input, upkeep, sharing, choices, opened_with, is_closed: Mutex::new(false) }
    }

    /// The schedule with which the database was opened.
    pub(crate) fn opened_with(&self) -> ScheduleKind {
        self.opened_with
    }

    /// Puts a schedule in force.
    ///
    /// # Errors
    /// The protocol has executors, which own the rows; the schedule needs a partition key, and there is none; [`Error::Closed`];
    /// [`Error::ThreadRefused`]. Then nothing has changed.
    pub(crate) fn to(&self, kind: ScheduleKind) -> Result<()> {
        let is_closed = self.is_closed.lock();
        if *is_closed {
            return Err(Error::Closed);
        }
        let before = self.input.schedule().kind();
        if before == kind {
            return Ok(());
        }
        self.check(kind)?;
        if kind.learns() {
            self.upkeep.start(&self.engine, &self.input)?;
        }
        self.engine.hot_rows().set_concerns_attempts(reserves_hot_rows(kind));
        self.input.put_in_force(&self.engine, kind, self.sharing.under(kind));
        self.choices.note("schedule", before.name(), kind.name(), "it was set");
        self.upkeep.stop_unless_needed(&self.input);
        Ok(())
    }

    fn check(&self, kind: ScheduleKind) -> Result<()> {
        let refuse = |expected: String| {
            Err(Error::InvalidOption { option: "schedule", given: kind.to_string(), expected })
        };
        if self.input.executors().is_some() {
            let protocol = self.engine.protocol_kind();
            return refuse(format!(
                "random: under the protocol {protocol} threads own the rows, and calls go to them"
            ));
        }
        if kind == ScheduleKind::Partition && self.input.partition_key().is_none() {
            return refuse(
                "a database that was opened with a partition key, by whose value calls are placed"
                    .to_string(),
            );
        }
        Ok(())
    }

    /// Has no more changes made, and waits for the one that is being made.
    pub(crate) fn close(&self) {
        *self.is_closed.lock() = true;
    }
}

/// Returns true if attempts reserve hot rows under this schedule: `predict` learns from the aborts that this would prevent.
pub(crate) fn reserves_hot_rows(kind: ScheduleKind) -> bool {
    !kind.learns()
}
