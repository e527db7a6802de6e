//! The schedule of a database that is open.

use super::Database;
use crate::error::{Error, Result, StandbyError};
use crate::pipeline::nesting;
use crate::schedule::{ScheduleKind, ScheduleReport};

impl Database {
    /// Returns the state of the schedule, if it is one that learns (`predict`).
    pub fn schedule(&self) -> Option<ScheduleReport> {
        self.shared.input().schedule().report()
    }

    /// The schedule that places calls in workers' queues now.
    pub fn schedule_kind(&self) -> ScheduleKind {
        self.shared.input().schedule().kind()
    }

    /// The schedule with which the database was opened.
    pub fn opened_schedule(&self) -> ScheduleKind {
        self.shared.schedule_change().opened_with()
    }

    /// Returns true if that schedule was given ([`Options::schedule`](crate::Options::schedule)), so that no saved setting takes its
    /// place.
    pub fn was_given_schedule(&self) -> bool {
        self.shared.given().schedule
    }

    /// Has another schedule place calls in workers' queues from now on, with the options that it was given when the database was opened
    /// ([`Options::schedule`](crate::Options::schedule)).
    ///
    /// Calls that wait are placed once more, and calls that run end where they are. `Predict` begins to learn, also if it was in force
    /// before. Under the protocol `Serial`, which runs calls one at a time, a schedule changes their order only.
    ///
    /// ```
    /// # use heddledb::{Database, ScheduleKind};
    /// let db = Database::in_memory()?;
    /// db.set_schedule(ScheduleKind::Predict)?;
    /// assert_eq!(db.schedule_kind(), ScheduleKind::Predict);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidOption`](crate::Error::InvalidOption): `Partition` without a partition key
    /// ([`ScheduleOptions::partition_key`](crate::ScheduleOptions::partition_key)), or any schedule but `Random` under the protocol
    /// `Partitioned`, under which threads own the rows; [`StandbyError::OnlyRead`] on a standby;
    /// [`Error::Nested`](crate::Error::Nested) inside a transaction; [`Error::Closed`](crate::Error::Closed);
    /// [`Error::ThreadRefused`](crate::Error::ThreadRefused). Then nothing has changed.
    pub fn set_schedule(&self, schedule: ScheduleKind) -> Result<()> {
        nesting::check("a change of the schedule")?;
        self.shared.check_open()?;
        if self.is_standby() {
            return Err(Error::Standby(StandbyError::OnlyRead));
        }
        self.shared.schedule_change().to(schedule)
    }
}
