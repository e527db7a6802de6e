//! UPDATE.

use heddledb::Value as Stored;

use crate::catalog::Table;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::commute::Commuting;
use crate::plan::scan::key_columns;
use crate::plan::statement::UpdatePlan;
use crate::run::Run;
use crate::run::operator::scan;
use crate::run::write::checks::{check, generate};
use crate::run::write::insert::{applies, door};
use crate::run::write::rows::{change, refs};
use crate::run::write::{Writing, Written, pick, read_all};
use crate::types::Value;

/// Runs an UPDATE.
pub(crate) fn update<'e>(run: &mut Run<'e>, plan: &'e UpdatePlan) -> Result<Written> {
    if let Some((key, operations)) = &plan.commuting
        && let Some(count) = commuting(run, plan, key, operations)?
    {
        return Ok(Written { count, returned: Vec::new() });
    }
    let mut writing = Writing::new(&plan.rules, &plan.returning);
    let table = &*plan.rules.table;
    let columns: Vec<usize> =
        plan.sets.iter().chain(&plan.rules.generated).map(|(column, _)| *column).collect();
    for batch in read_all(run, &plan.input)? {
        for source in batch.rows() {
            let key = pick(source, &plan.key);
            // A row that several others meet is changed by the first of them.
            if !writing.is_first(run, &key)? {
                continue;
            }
            let old = pick(source, &plan.row);
            let mut new = old.clone();
            for (column, value) in &plan.sets {
                new[*column] = run.evaluate(value, source)?;
            }
            generate(run, &plan.rules.generated, &mut new)?;
            check(run, &plan.rules, &new)?;
            change(run, table, &key, &old, &new, &columns)?;
            writing.touched.stored(table, &new, Some(&old));
            if plan.returning.is_empty() {
                writing.written.count += 1;
            } else {
                new.extend_from_slice(source);
                writing.count(run, &new)?;
            }
        }
        run.check_interrupt()?;
    }
    writing.finish(run)
}

/// Does an update as operations. None: with these values it has to be done in the usual way.
fn commuting<'e>(
    run: &mut Run<'e>,
    plan: &'e UpdatePlan,
    key: &'e [crate::plan::expression::Expr],
    operations: &'e [Commuting],
) -> Result<Option<u64>> {
    let table = &*plan.rules.table;
    let mut stored = Vec::with_capacity(key.len());
    for (column, value) in key_columns(table).into_iter().zip(key) {
        let value = run.evaluate(value, &[])?;
        match scan::stored_key(table, column, &value) {
            Some(value) => stored.push(value),
            None => return Ok(Some(0)),
        }
    }
    if !run.rows.exists(&table.engine, &refs(&stored))? {
        return Ok(Some(0));
    }
    Ok(commute(run, table, &stored, operations, &[])?.then_some(1))
}

/// Does operations on a row that is there. False: an operand is NULL or out of range, and nothing was done.
pub(super) fn commute<'e>(
    run: &mut Run<'e>,
    table: &Table,
    key: &[Stored],
    operations: &'e [Commuting],
    row: &[Value],
) -> Result<bool> {
    let mut operands = Vec::with_capacity(operations.len());
    for operation in operations {
        let operand = run.evaluate(&operation.operand, row)?;
        if !applies(operation.operation, &operand) {
            return Ok(false);
        }
        let operand = match operand {
            Value::Null => None,
            operand if operation.negated => match operand.any_int().checked_neg() {
                Some(negated) => Some(negated),
                None => return Ok(false),
            },
            operand => Some(operand.any_int()),
        };
        operands.push(operand);
    }
    let (door, key) = (door(run)?, refs(key));
    for (operation, operand) in operations.iter().zip(operands) {
        let Some(operand) = operand else { continue };
        let column = &table.columns[operation.column];
        let handle = table.engine.column(&table.engine.definition().columns()[column.engine].name)?;
        let done =
            door.commute(&table.engine, &key, handle, operation.operation, heddledb::ValueRef::Int(operand));
        done.map_err(|error| match error.state() {
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE => {
                SqlError::new(error.state(), format!("{} out of range", column.ty.display_name()))
            }
            _ => error,
        })?;
    }
    Ok(true)
}
