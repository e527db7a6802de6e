//! Reads of split columns that need no value: whether a number can still be within some bounds.
//!
//! A column that is split for `max` only rises in a split phase, and one that is split for `min` only falls. So a number that is beyond
//! a bound when the phase begins stays beyond it, whatever the slices hold: a bid that loses against it has lost, and its transaction
//! need not wait for the end of the phase.
//!
//! Invariant: the answer `true` holds at each moment of the phase in which it was given; that the transaction commits in this phase is
//! validated with its reads.

use super::{Attempt, Target};
use crate::error::Result;
use crate::operation::Operation;
use crate::protocol::footprint::Mode;
use crate::storage::index::Lookup;
use crate::storage::word::{ABSENT, DEAD, SPLIT};

impl<'a> Attempt<'a> {
    /// Returns true if a column is split now, and its number is and stays outside of these bounds, which are in its own unit, until
    /// the phase ends. `false`: only the value tells.
    pub(crate) fn is_surely_outside(
        &self,
        target: &Target<'_, 'a>,
        column: usize,
        (low, high): (i64, i64),
    ) -> Result<bool> {
        self.check_target(target, Mode::Read)?;
        let Some(set) = self.store.splits().current(self.guard) else { return Ok(false) };
        let Some(number) = target.table.layout().number(column) else { return Ok(false) };
        let Lookup::Found(record) = self.locate(target) else { return Ok(false) };
        let (_, columns) = set.of_record(record.pointer());
        let Some(split) = columns.iter().find(|split| split.column == column) else { return Ok(false) };
        let rises = match split.operation {
            Operation::Max => true,
            Operation::Min => false,
            _ => return Ok(false),
        };
        if self.is_in_session() || self.workspace.borrow().writes.position(record.pointer()).is_some() {
            return Ok(false);
        }
        let layout = target.table.layout();
        let row = self.arena.alloc_slice_fill_copy(layout.words(), 0);
        let word = self.row_noted(layout, record, row);
        self.reads.borrow_mut().note_phase(Some(set.phase()));
        let is_null = row[column / 64] >> (column % 64) & 1 == 1;
        if word & (SPLIT | ABSENT) != SPLIT || word == DEAD || is_null {
            return Ok(false);
        }
        self.note_seen(word);
        let base = row[number.at] as i64;
        Ok(if rises { base > high } else { base < low })
    }
}
