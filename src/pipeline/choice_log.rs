//! The choices of the protocol and the schedule that were made since a database was opened, for reports.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How many choices are kept for reports.
const KEPT: usize = 1_000;

/// A choice by the engine, or by a caller: see [`Database::choices`](crate::Database::choices).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Choice {
    /// The time since the database was opened.
    pub at: Duration,
    /// The thing that was chosen: `protocol`, `schedule`, or `table.column` of a row that is split over the threads or no longer.
    pub what: String,
    /// The row's key, as text, if it is about a row.
    pub key: Option<String>,
    /// The choice before: `none`, a protocol, a schedule, `joined`, or `split for` an operation.
    pub from: String,
    /// The choice from then on.
    pub to: String,
    /// The reason.
    pub why: String,
}

/// The latest choices for a whole database.
pub(crate) struct ChoiceLog {
    opened: Instant,
    made: Mutex<Vec<Choice>>,
}

impl ChoiceLog {
    /// An empty log of a database that is opened now.
    pub(crate) fn new() -> ChoiceLog {
        ChoiceLog { opened: Instant::now(), made: Mutex::default() }
    }

    /// The moment at which the database was opened.
    pub(crate) fn opened(&self) -> Instant {
        self.opened
    }

    /// The latest choices, the oldest first.
    pub(crate) fn made(&self) -> Vec<Choice> {
        self.made.lock().clone()
    }

    /// Notes a choice that is in force now.
    pub(crate) fn note(&self, what: &str, from: impl Into<String>, to: impl Into<String>, why: &str) {
        let at = self.opened.elapsed();
        let mut made = self.made.lock();
        if made.len() >= KEPT {
            made.remove(0);
        }
        let (what, why) = (what.to_string(), why.to_string());
        made.push(Choice { at, what, key: None, from: from.into(), to: to.into(), why });
    }
}
