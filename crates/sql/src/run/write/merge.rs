//! MERGE.

use crate::catalog::{Event, TriggerTime};
use crate::error::Result;
use crate::plan::expression::Expr;
use crate::plan::statement::{MergeActionPlan, MergeArmPlan, MergePlan};
use crate::run::Run;
use crate::run::write::checks::{check, generate};
use crate::run::write::rows::{change, remove, store};
use crate::run::write::{Writing, Written, pick, read_and_write, second_time};
use crate::types::Value;

/// Runs a MERGE.
pub(crate) fn merge<'e>(run: &mut Run<'e>, plan: &'e MergePlan) -> Result<Written> {
    let mut writing = Writing::new(run, &plan.rules, &[]);
    let events = events(plan, &mut writing);
    for event in &events {
        writing.triggers.statement(run, TriggerTime::Before, *event)?;
    }
    read_and_write(run, &plan.input, |run, batch| {
        for source in batch.rows() {
            let key = pick(source, &plan.key);
            // A key is never NULL: this row of the source has met none.
            let matched = !key.iter().any(Value::is_null);
            if let Some(arm) = chosen(run, plan, source, matched)? {
                act(run, plan, &mut writing, arm, &key, source)?;
            }
        }
        run.check_interrupt()
    })?;
    Ok(writing.finish(run, events))
}

/// The events that the arms can cause.
fn events(plan: &MergePlan, writing: &mut Writing<'_>) -> Vec<Event> {
    let mut events = Vec::new();
    for arm in &plan.arms {
        let event = match &arm.action {
            MergeActionPlan::Nothing => continue,
            MergeActionPlan::Insert(_) => Event::Insert,
            MergeActionPlan::Delete => Event::Delete,
            MergeActionPlan::Update(sets) => {
                writing.triggers.sets(sets.iter().map(|(column, _)| *column));
                Event::Update
            }
        };
        if !events.contains(&event) {
            events.push(event);
        }
    }
    events
}

/// The first arm whose condition is true.
fn chosen<'e>(
    run: &mut Run<'e>,
    plan: &'e MergePlan,
    source: &[Value],
    matched: bool,
) -> Result<Option<&'e MergeArmPlan>> {
    for arm in plan.arms.iter().filter(|arm| arm.matched == matched) {
        let holds = match &arm.condition {
            Some(condition) => run.holds(condition, source)?,
            None => true,
        };
        if holds {
            return Ok(Some(arm));
        }
    }
    Ok(None)
}

fn act<'e>(
    run: &mut Run<'e>,
    plan: &'e MergePlan,
    writing: &mut Writing<'e>,
    arm: &'e MergeArmPlan,
    key: &[Value],
    source: &[Value],
) -> Result<()> {
    let table = &*plan.rules.table;
    match &arm.action {
        MergeActionPlan::Nothing => return Ok(()),
        MergeActionPlan::Insert(values) => {
            let mut row = Vec::with_capacity(values.len());
            for value in values {
                row.push(run.evaluate(value, source)?);
            }
            let Some(mut row) = writing.triggers.before_write(run, None, row)? else { return Ok(()) };
            generate(run, &plan.rules.generated, &mut row)?;
            check(run, &plan.rules, &row)?;
            store(run, table, &row)?;
            writing.touched.stored(table, &row, None);
            writing.triggers.wrote(run, None, Some(&row))?;
        }
        MergeActionPlan::Delete => {
            if !delete(run, plan, writing, key, source)? {
                return Ok(());
            }
        }
        MergeActionPlan::Update(sets) => {
            if !update(run, plan, writing, sets, key, source)? {
                return Ok(());
            }
        }
    }
    writing.written.count += 1;
    Ok(())
}

/// Deletes the matched row. Returns false if a trigger prevents that, or the row is no longer current.
fn delete<'e>(
    run: &mut Run<'e>,
    plan: &'e MergePlan,
    writing: &mut Writing<'e>,
    key: &[Value],
    source: &[Value],
) -> Result<bool> {
    let table = &*plan.rules.table;
    let old = pick(source, &plan.row);
    if !writing.is_first(run, key)? {
        return Err(second_time("MERGE"));
    }
    writing.deletes = true;
    if !writing.is_current(run, key)?
        || !writing.triggers.before_delete(run, &old)?
        || !writing.is_current(run, key)?
    {
        return Ok(false);
    }
    remove(run, table, key)?;
    writing.wrote(run, key)?;
    writing.touched.removed(table, &old);
    writing.triggers.wrote(run, Some(&old), None)?;
    Ok(true)
}

/// Updates the matched row. Returns false if a trigger prevents that, or the row is no longer current.
fn update<'e>(
    run: &mut Run<'e>,
    plan: &'e MergePlan,
    writing: &mut Writing<'e>,
    sets: &'e [(usize, Expr)],
    key: &[Value],
    source: &[Value],
) -> Result<bool> {
    let table = &*plan.rules.table;
    let old = pick(source, &plan.row);
    if !writing.is_first(run, key)? {
        return Err(second_time("MERGE"));
    }
    writing.deletes = false;
    if !writing.is_current(run, key)? {
        return Ok(false);
    }
    let mut new = old.clone();
    for (column, value) in sets {
        new[*column] = run.evaluate(value, source)?;
    }
    let Some(mut new) = writing.triggers.before_write(run, Some(&old), new)? else { return Ok(false) };
    if !writing.is_current(run, key)? {
        return Ok(false);
    }
    generate(run, &plan.rules.generated, &mut new)?;
    check(run, &plan.rules, &new)?;
    let columns: Vec<usize> = match plan.rules.triggers.is_empty() {
        true => sets.iter().chain(&plan.rules.generated).map(|(column, _)| *column).collect(),
        false => (0..table.columns.len()).collect(),
    };
    change(run, table, key, &old, &new, &columns)?;
    writing.wrote(run, key)?;
    writing.touched.stored(table, &new, Some(&old));
    writing.triggers.wrote(run, Some(&old), Some(&new))?;
    Ok(true)
}
