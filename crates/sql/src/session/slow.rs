//! Reports statements that take long.
//!
//! # Concurrency
//! Every statement compares its time with one word that is rarely written; only a slow one does more.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::parse::normalize::normalize_cut;
use crate::session::Sql;
use crate::session::sessions::Activity;

/// A statement that took long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowStatement {
    /// The time of the statement, waits included.
    pub time: Duration,
    /// The session's process ID.
    pub process_id: i32,
    /// The session's user.
    pub user: String,
    /// The statement's first kilobyte, without its constants.
    pub statement: String,
}

type Report = Box<dyn Fn(SlowStatement) + Send + Sync>;

/// The limit, and the receiver of reports about statements beyond it.
pub(crate) struct SlowStatements {
    limit: AtomicU64,
    report: OnceLock<Report>,
}

impl Default for SlowStatements {
    fn default() -> SlowStatements {
        SlowStatements { limit: AtomicU64::new(u64::MAX), report: OnceLock::new() }
    }
}

impl SlowStatements {
    /// Reports the session's statement if it took long.
    #[inline]
    pub fn look(&self, time: Duration, activity: &Activity) {
        // Relaxed: the limit guards no other data.
        if time.as_nanos() as u64 >= self.limit.load(Ordering::Relaxed) {
            self.report(time, activity);
        }
    }

    #[cold]
    fn report(&self, time: Duration, activity: &Activity) {
        let Some(report) = self.report.get() else { return };
        report(SlowStatement {
            time,
            process_id: activity.process_id(),
            user: activity.user.clone(),
            statement: normalize_cut(&activity.texts().0),
        });
    }
}

impl Sql {
    /// Reports statements that take at least this long, failed ones too, to the callback of the first call of
    /// [`on_slow_statement`](Self::on_slow_statement); `None` reports no statement.
    pub fn set_slow_statement_limit(&self, limit: Option<Duration>) {
        let limit = limit.map_or(u64::MAX, |limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX));
        self.shared.slow_statements.limit.store(limit, Ordering::Relaxed);
    }

    /// Sets what is called for each slow statement, on the thread of its session. Only the first call has an effect.
    pub fn on_slow_statement(&self, report: impl Fn(SlowStatement) + Send + Sync + 'static) {
        let _ = self.shared.slow_statements.report.set(Box::new(report));
    }
}
