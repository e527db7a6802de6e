//! DELETE.

use crate::catalog::{Event, TriggerTime};
use crate::error::Result;
use crate::plan::statement::DeletePlan;
use crate::run::Run;
use crate::run::write::rows::remove;
use crate::run::write::{Writing, Written, pick, read_and_write};

/// Runs a DELETE.
pub(crate) fn delete<'e>(run: &mut Run<'e>, plan: &'e DeletePlan) -> Result<Written> {
    let mut writing = Writing::new(run, &plan.rules, &plan.returning);
    let table = &*plan.rules.table;
    writing.triggers.statement(run, TriggerTime::Before, Event::Delete)?;
    writing.deletes = true;
    read_and_write(run, &plan.input, |run, batch| {
        for source in batch.rows() {
            let key = pick(source, &plan.key);
            // A row that several others meet is deleted once.
            if plan.is_joined && !writing.is_first(run, &key)? || !writing.is_current(run, &key)? {
                continue;
            }
            let mut old = pick(source, &plan.row);
            if !writing.triggers.before_delete(run, &old)?
                || !writing.triggers.is_empty() && !writing.is_current(run, &key)?
                || !remove(run, table, &key)?
            {
                continue;
            }
            writing.wrote(run, &key)?;
            writing.touched.removed(table, &old);
            writing.triggers.wrote(run, Some(&old), None)?;
            if !plan.returning.is_empty() {
                old.extend_from_slice(source);
            }
            writing.count(run, &old)?;
        }
        run.check_interrupt()
    })?;
    Ok(writing.finish(run, vec![Event::Delete]))
}
