//! Limits on the time of a session's waits and transactions.

use std::fmt;

/// A part of a session's work that can take too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Timeout {
    /// The wait for a key that another session has reserved.
    Wait,
    /// The transaction as a whole.
    Transaction,
    /// The time between two accesses inside a transaction.
    Idle,
}

impl fmt::Display for Timeout {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Timeout::Wait => "the wait for another session",
            Timeout::Transaction => "the transaction",
            Timeout::Idle => "the pause inside the transaction",
        })
    }
}
