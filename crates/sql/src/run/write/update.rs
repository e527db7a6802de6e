//! UPDATE.

use std::borrow::Cow;

use heddledb::{Value as Stored, ValueRef};
use smallvec::SmallVec;

use crate::access::{Commute, RunsIn};
use crate::catalog::{Column as CatalogColumn, Event, Table, TriggerTime};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::commute::Commuting;
use crate::plan::scan::key_columns;
use crate::plan::statement::UpdatePlan;
use crate::run::Run;
use crate::run::operator::scan;
use crate::run::spill::KeptRows;
use crate::run::write::checks::{check, generate};
use crate::run::write::rows::{change, refs, writes};
use crate::run::write::{Writing, Written, pick, read_and_write};
use crate::storage;
use crate::types::{Type, Value};

/// Runs an UPDATE.
pub(crate) fn update<'e>(run: &mut Run<'e>, plan: &'e UpdatePlan) -> Result<Written> {
    if let Some((key, operations)) = &plan.commuting
        && let Some(count) = commuting(run, plan, key, operations)?
    {
        return Ok(Written { count, returned: KeptRows::of_operator() });
    }
    let mut writing = Writing::new(run, &plan.rules, &plan.returning);
    let table = &*plan.rules.table;
    let columns: Vec<usize> = match plan.rules.triggers.is_empty() {
        true => plan.sets.iter().chain(&plan.rules.generated).map(|(column, _)| *column).collect(),
        // A trigger may change any column.
        false => (0..table.columns.len()).collect(),
    };
    writing.triggers.sets(plan.sets.iter().map(|(column, _)| *column));
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
    commute(run, table, &refs(&stored), operations, &[])
}

/// Does operations on the row of a key. How many rows there are; none: an operand is NULL or does not fit the column, and
/// nothing was done; or a handler waits for its error.
pub(crate) fn commute<'e>(
    run: &mut Run<'e>,
    table: &Table,
    key: &[ValueRef<'_>],
    operations: &'e [Commuting],
    row: &[Value],
) -> Result<Option<u64>> {
    // In a block the session tries operations; elsewhere the commit does, too late for a handler.
    if run.runs_in != RunsIn::Block && run.environment.decides_at_once() {
        return Ok(None);
    }
    let mut operands = SmallVec::<[Operand; 2]>::new();
    for operation in operations {
        let value = run.evaluate(&operation.operand, row)?;
        match operand(operation, &table.columns[operation.column], value) {
            Some(operand) => operands.push(operand),
            None => return Ok(None),
        }
    }
    let writes = writes(run)?;
    let mut is_known = false;
    for (operation, operand) in operations.iter().zip(operands) {
        let operand = match operand {
            Operand::None => continue,
            Operand::Int(operand) => ValueRef::Int(operand),
            Operand::Decimal(operand) => ValueRef::Decimal(operand),
        };
        match writes.commute(&table.engine, key, operation.handle, operation.operation, operand) {
            Ok(()) => is_known = true,
            Err(error) if error.is_missing_key() => return Ok(Some(0)),
            Err(error) => return Err(out_of_range(&table.columns[operation.column], error)),
        }
    }
    // Where no operand changes anything, whether there is a row is still to be known.
    Ok(Some(u64::from(is_known || run.latest().exists(&table.engine, key)?)))
}

fn out_of_range(column: &CatalogColumn, error: SqlError) -> SqlError {
    match error.state() {
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE if column.ty == Type::Numeric => {
            SqlError::new(error.state(), "numeric field overflow")
        }
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE => {
            SqlError::new(error.state(), format!("{} out of range", column.ty.display_name()))
        }
        _ => error,
    }
}

/// What an operation of the engine's is given.
enum Operand {
    /// NULL, which changes nothing.
    None,
    Int(i64),
    Decimal(heddledb::Decimal),
}

/// A value as an operand; none: it has to be done in the usual way.
fn operand(operation: &Commuting, column: &CatalogColumn, value: Value) -> Option<Operand> {
    match value {
        // GREATEST and LEAST ignore NULL; of anything else it makes NULL.
        Value::Null => matches!(operation.operation, Commute::Max | Commute::Min).then_some(Operand::None),
        Value::Numeric(number) => {
            let number = if operation.negated { number.negate() } else { number };
            match storage::encode(column.ty, column.modifier, &Value::Numeric(number)).ok()? {
                Stored::Decimal(operand) => Some(Operand::Decimal(operand)),
                _ => None,
            }
        }
        value if operation.negated => value.any_int().checked_neg().map(Operand::Int),
        value => Some(Operand::Int(value.any_int())),
    }
}
