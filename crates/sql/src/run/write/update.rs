//! UPDATE.

use std::borrow::Cow;

use crate::catalog::{Event, TriggerTime};
use crate::error::Result;
use crate::plan::commute::Commutation;
use crate::plan::scan::key_columns;
use crate::plan::statement::UpdatePlan;
use crate::run::Run;
use crate::run::operator::scan;
use crate::run::write::checks::{check, generate};
use crate::run::write::commuting::{Commuted, commute};
use crate::run::write::rows::{change, refs};
use crate::run::write::unique::{Found, find};
use crate::run::write::{Writing, Written, pick, read_and_write};

/// Runs an UPDATE.
pub(crate) fn update<'e>(run: &mut Run<'e>, plan: &'e UpdatePlan) -> Result<Written> {
    let mut writing = Writing::new(run, &plan.rules, &plan.returning);
    writing.triggers.sets(plan.sets.iter().map(|(column, _)| *column));
    // A row that another part of the statement has written is left as it is.
    if let Ok(what) = &plan.commuting
        && run.written.is_none()
        && let Some(mut done) = commuting(run, plan, what)?
    {
        writing.written.count = done.count;
        if done.count > 0 && !plan.returning.is_empty() {
            writing.written.returned.push_moved(&mut run.memory, &mut done.returned)?;
        }
        if let Some((old, new)) = done.rows {
            writing.triggers.wrote(run, Some(&old), Some(&new))?;
        }
        return Ok(writing.finish(run, vec![Event::Update]));
    }
    let table = &*plan.rules.table;
    let columns: Vec<usize> = match plan.rules.triggers.is_empty() {
        true => plan.sets.iter().chain(&plan.rules.generated).map(|(column, _)| *column).collect(),
        // A trigger may change any column.
        false => (0..table.columns.len()).collect(),
    };
    writing.triggers.statement(run, TriggerTime::Before, Event::Update)?;
    // Where the row is how what is read begins, it is not copied.
    let is_prefix = plan.row.iter().copied().eq(0..plan.row.len());
    read_and_write(run, &plan.input, |run, batch| {
        for source in batch.rows() {
            let key = pick(source, &plan.key);
            // A row that several others meet is changed by the first of them.
            if plan.is_joined && !writing.is_first(run, &key)? || !writing.is_current(run, &key)? {
                continue;
            }
            let old = match is_prefix {
                true => Cow::Borrowed(&source[..plan.row.len()]),
                false => Cow::Owned(pick(source, &plan.row)),
            };
            let mut new = old.to_vec();
            for (column, value) in &plan.sets {
                new[*column] = run.evaluate(value, source)?;
            }
            let Some(mut new) = writing.triggers.before_write(run, Some(&old), new)? else { continue };
            if !writing.triggers.is_empty() && !writing.is_current(run, &key)? {
                continue;
            }
            generate(run, &plan.rules.generated, &mut new)?;
            check(run, &plan.rules, &new)?;
            change(run, table, &key, &old, &new, &columns)?;
            writing.wrote(run, &key)?;
            writing.touched.stored(table, &new, Some(&old));
            writing.triggers.wrote(run, Some(&old), Some(&new))?;
            if plan.returning.is_empty() {
                writing.written.count += 1;
            } else {
                new.extend_from_slice(source);
                writing.count(run, &new)?;
            }
        }
        run.check_interrupt()
    })?;
    Ok(writing.finish(run, vec![Event::Update]))
}

/// Does an update without reading its row; `None` if these values need the usual way.
fn commuting<'e>(run: &mut Run<'e>, plan: &'e UpdatePlan, what: &'e Commutation) -> Result<Option<Commuted>> {
    let table = &*plan.rules.table;
    if let Some(unique) = &what.unique {
        let stored = match find(run, table, unique)? {
            Found::Row(stored) => stored,
            Found::Nothing => return Ok(Some(Commuted::nothing())),
            Found::Unknown => return Ok(None),
        };
        let key = refs(&stored);
        run.reserve_to_write((&table.engine, &key), what.only_operates())?;
        return commute(run, (table, &key), what, &[], &plan.returning);
    }
    let mut stored = Vec::with_capacity(what.key.len());
    for (column, value) in key_columns(table).into_iter().zip(&what.key) {
        let value = run.evaluate(value, &[])?;
        match scan::stored_key(table, column, &value) {
            Some(value) => stored.push(value),
            None => return Ok(None),
        }
    }
    let key = refs(&stored);
    run.reserve_to_write((&table.engine, &key), what.only_operates())?;
    commute(run, (table, &key), what, &[], &plan.returning)
}
