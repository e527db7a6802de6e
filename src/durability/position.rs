//! Positions in the log: names of groups that do not depend on where the log is kept.
//!
//! A position is a term and the epoch of a group. Epochs number the groups of a log in sequence, and snapshots and change feeds
//! count in them already; the term says which writer's they are, because epochs that left no group are given again after a
//! restart. Invariant: along a log, neither goes back, so positions are ordered as their groups are.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::types::Timestamp;

/// The position of a group in the log: the term of its writer, and its epoch. Positions are ordered as the groups are.
///
/// ```
/// # use heddledb::LogPosition;
/// let position: LogPosition = "3/117".parse()?;
/// assert_eq!((position.term(), position.epoch()), (3, 117));
/// assert!(position < "4/118".parse()?);
/// # Ok::<(), heddledb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition {
    term: u64,
    epoch: u64,
}

impl LogPosition {
    /// The position of the group of an epoch, written in a term.
    pub const fn new(term: u64, epoch: u64) -> LogPosition {
        LogPosition { term, epoch }
    }

    /// The term: a number that each opening of the database for writing has larger than all before. 0: the group was written
    /// before log format 3, which has no terms.
    pub const fn term(self) -> u64 {
        self.term
    }

    /// The group's epoch; 0: the position is before all groups.
    pub const fn epoch(self) -> u64 {
        self.epoch
    }
}

/// The time of a group, as its blocks say it in microseconds; `None` for groups from before log format 3, which have 0.
pub(super) fn time_of_group(microseconds: u64) -> Option<Timestamp> {
    let time = i64::try_from(microseconds).unwrap_or(i64::MAX).min(Timestamp::MAX.microseconds());
    (time > 0).then(|| Timestamp::from_stored(time))
}

impl fmt::Display for LogPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.term, self.epoch)
    }
}

impl FromStr for LogPosition {
    type Err = Error;

    fn from_str(text: &str) -> Result<LogPosition> {
        // Digits alone: the numbers' own parser would take a sign.
        let number = |digits: &str| {
            digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
        };
        let position = text
            .split_once('/')
            .and_then(|(term, epoch)| Some(LogPosition { term: number(term)?, epoch: number(epoch)? }));
        position.ok_or_else(|| Error::Unparsable {
            text: text.to_owned(),
            expected: "log position",
            example: "3/117",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_as_it_was_written() {
        for position in [(0, 0), (0, 9), (7, 1), (u64::MAX, u64::MAX)] {
            let position = LogPosition::new(position.0, position.1);
            assert_eq!(position.to_string().parse(), Ok(position));
        }
        for text in ["", "/", "3", "3/", "/3", "+3/1", "3/-1", "3/1/1", " 3/1", "3/18446744073709551616"] {
            let refused = text.parse::<LogPosition>().expect_err("no position");
            assert!(refused.to_string().contains("log position"), "{refused}");
        }
    }

    #[test]
    fn older_groups_have_no_time_and_no_time_is_out_of_range() {
        assert_eq!(time_of_group(0), None);
        assert_eq!(time_of_group(1).expect("a time").to_string(), "1970-01-01T00:00:00.000001Z");
        assert_eq!(time_of_group(u64::MAX), Some(Timestamp::MAX));
    }

    #[test]
    fn later_terms_are_behind_all_epochs_of_earlier_ones() {
        let order = [(0, 0), (0, 5), (1, 6), (1, 7), (3, 8)];
        assert!(order.map(|(term, epoch)| LogPosition::new(term, epoch)).is_sorted());
        assert!(LogPosition::new(2, 1) > LogPosition::new(1, 100));
    }
}
