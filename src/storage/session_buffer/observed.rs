//! A session's observation of a key, and its comparison with the present state.

use std::sync::Arc;

use super::{ColumnSet, ReadColumns};
use crate::storage::read_set::Part;
use crate::storage::word::Stamp;

/// The state that was found where a key was looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Observed {
    /// The part of the record that was read.
    pub(crate) part: Part,
    /// True if there was a row.
    pub(crate) present: bool,
    /// The stamp of the record's last writer; zero: no record, or an insert's placeholder.
    pub(crate) stamp: Stamp,
    /// True if the state is only known to be of the stamp's epoch or an earlier one: it was read from a snapshot.
    pub(crate) is_bound: bool,
    /// The split phase in which columns that count were hidden; 0: none were.
    pub(crate) phase: u64,
    /// The columns of the row that count, with their values; `None` if its stamp counts.
    pub(crate) columns: Option<Arc<ReadColumns>>,
}

/// The result of comparing an observation with an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// The part that was read is unchanged.
    Same,
    /// It has changed.
    Changed,
    /// The row's columns are split now, and were not when it was read, or others were: the joined phase tells.
    HiddenNow,
}

impl Observed {
    /// The observation that there was no row, and no trace of one.
    pub(super) const FREE: Observed = Observed::nothing(Part::Existence);

    /// The observation that there was no record.
    pub(crate) const fn nothing(part: Part) -> Observed {
        Observed { part, present: false, stamp: Stamp::ZERO, is_bound: false, phase: 0, columns: None }
    }

    /// The columns of the row that were read.
    pub(crate) fn read_columns(&self) -> ColumnSet {
        match (self.part, &self.columns) {
            (Part::Existence, _) => ColumnSet::NONE,
            (Part::Row, Some(columns)) => columns.columns(),
            (Part::Row, None) => ColumnSet::WHOLE,
        }
    }

    /// Returns true if it also says what this part of the record was, and these columns of its row.
    pub(crate) fn covers(&self, part: Part, columns: ColumnSet) -> bool {
        part == Part::Existence || self.part == Part::Row && self.read_columns().contains(columns)
    }

    /// Returns true if it is an observation of the row that has this stamp.
    pub(crate) fn is_of(&self, stamp: Stamp) -> bool {
        if self.is_bound { stamp.epoch() <= self.stamp.epoch() } else { stamp == self.stamp }
    }

    /// Compares the earlier observation with the present one, which is of the same columns.
    pub(crate) fn compare(&self, now: &Observed) -> Comparison {
        if self.present != now.present {
            return Comparison::Changed;
        }
        if !self.present || self.part == Part::Existence {
            return Comparison::Same;
        }
        if !self.is_of(now.stamp) {
            // Another column may have been written: these have the values that were read.
            let has_values = self.columns.is_some() && self.columns == now.columns;
            return if has_values { Comparison::Same } else { Comparison::Changed };
        }
        if now.phase != 0 && now.phase != self.phase {
            return Comparison::HiddenNow;
        }
        Comparison::Same
    }

    /// Returns true if it is sure that all of this was so when the global epoch was `epoch`: its writer's epoch was
    /// sealed by then, and so everything of it installed.
    pub(crate) fn is_as_old_as(&self, epoch: u64) -> bool {
        self.stamp != Stamp::ZERO && self.stamp.epoch() + 2 <= epoch
    }
}
