//! Checks at an access: what a statement is certain to violate is said there, as far as that needs no look at what the
//! transaction would not have read.
//!
//! The commit section evaluates every check on the row that would be installed ([`crate::storage::checks`]): that is what
//! keeps them, and what decides operations. Here an insert is checked whole, and an update by the checks of the columns that
//! it sets; if one of those needs other columns too, the row counts as read.

use super::Attempt;
use super::Target;
use super::write::missing;
use crate::error::Result;
use crate::storage::table::TableCore;
use crate::types::ValueRef;

impl<'a> Attempt<'a> {
    /// Refuses columns' new values that a check of theirs does.
    pub(super) fn check_update(
        &self,
        table: &'a TableCore,
        target: &Target<'_, 'a>,
        changes: &[(usize, ValueRef<'_>)],
    ) -> Result<()> {
        let Some(checks) = table.checks() else { return Ok(()) };
        let changed = |column: usize| changes.iter().rev().find(|&&(changed, _)| changed == column);
        let has_changed = |column: usize| changed(column).is_some();
        let alone = |column: usize| changed(column).map_or(ValueRef::Null, |&(_, value)| value);
        if !checks.need_others(has_changed) && checks.check_changed(has_changed, &alone).is_ok() {
            return Ok(());
        }
        let Some(row) = self.row_of_target(target)? else { return Err(missing(table, target.key)) };
        let layout = table.layout();
        checks.check_changed(has_changed, &|column| match changed(column) {
            Some(&(_, value)) => value,
            // SAFETY: the row is in the attempt's arena, its blocks are pinned or there too.
            None => unsafe { layout.value(row, column) },
        })
    }

    /// Refuses a row, as the call sees it after an operation, that a check does. It counts as read then.
    pub(super) fn check_tried(&self, target: &Target<'_, 'a>, tried: &[u64]) -> Result<()> {
        let Some(checks) = target.table.checks() else { return Ok(()) };
        let layout = target.table.layout();
        // SAFETY: the row is in the attempt's arena, its blocks are pinned or there too.
        let passes = checks.check_row(&|column| unsafe { layout.value(tried, column) }).is_ok();
        if passes {
            return Ok(());
        }
        match self.row_of_target(target)? {
            // SAFETY: as above.
            Some(row) => checks.check_row(&|column| unsafe { layout.value(row, column) }),
            None => Ok(()),
        }
    }
}
