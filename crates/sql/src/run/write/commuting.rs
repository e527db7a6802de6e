//! Updates that do not read their row, as engine operations and plain writes.
//!
//! # Invariants
//! - With values of which an operation does not do what the expression does, nothing is done, and the statement runs in the
//!   usual way.

use heddledb::{Column, Value as Stored, ValueRef};
use smallvec::SmallVec;

use crate::access::{Commute, RunsIn};
use crate::catalog::{Column as CatalogColumn, Table};
use crate::compile::lacks_a_value;
use crate::error::{Result, SqlError, SqlState};
use crate::plan::commute::{Commutation, Commuting, PlainWrite, Term};
use crate::plan::decoder::Decoder;
use crate::plan::expression::Expr;
use crate::run::Run;
use crate::run::write::bounds::bounds_of;
use crate::run::write::rows::writes;
use crate::storage;
use crate::storage::encode_ref;
use crate::types::numeric::Numeric;
use crate::types::{Type, Value, top_k};

/// Sums of operands within this are sums of any column and them, too, without an overflow in between.
const SUM_MAX: i64 = 1 << 62;

pub(super) type Operands = SmallVec<[Operand; 2]>;
type Values = SmallVec<[Value; 2]>;
/// The least and the greatest permitted numbers of the guards' columns, in their own units.
type Bounds = SmallVec<[(i64, i64); 2]>;

/// The effect of a commuting update.
pub(crate) struct Commuted {
    /// The number of rows: one or none.
    pub(crate) count: u64,
    /// The values of RETURNING for the row.
    pub(crate) returned: Vec<Value>,
    /// The row as it was and as it is, as far as triggers see it; all other columns are NULL. `None` if no trigger fires.
    pub(crate) rows: Option<(Vec<Value>, Vec<Value>)>,
}

impl Commuted {
    pub(super) fn nothing() -> Commuted {
        Commuted { count: 0, returned: Vec::new(), rows: None }
    }
}

/// Does an update on the row of a key, as it is stored. `excluded`: the row that an INSERT was to insert. Returns
/// `None`, and does nothing, if these values need the usual way, or a handler waits for the update's error.
pub(crate) fn commute<'e>(
    run: &mut Run<'e>,
    (table, key): (&Table, &[ValueRef<'_>]),
    what: &'e Commutation,
    excluded: &[Value],
    returning: &'e [Expr],
) -> Result<Option<Commuted>> {
    // In a block the session tries operations and guards; elsewhere the commit does, too late for a handler.
    if run.is_ordinary || run.runs_in != RunsIn::Block && run.environment.decides_at_once() {
        return Ok(None);
    }
    let mut row = SmallVec::<[Value; 16]>::new();
    if what.sees_row || !what.checks.is_empty() || !excluded.is_empty() {
        if !seen_row(run, (table, key), what, &mut row)? {
            return Ok(Some(Commuted::nothing()));
        }
        row.extend(excluded.iter().cloned());
    }
    if let Some(filter) = &what.filter {
        match run.holds(filter, &row) {
            Err(error) if is_moot(&error) => return Ok(None),
            Ok(false) if excluded.is_empty() => return Ok(Some(Commuted::nothing())),
            Ok(false) => return Ok(None),
            holds => holds?,
        };
    }
    let width = table.columns.len();
    let old = what.fires_triggers.then(|| row[..width].to_vec());
    let computed = match computed(run, table, what, &mut row) {
        Err(error) if is_moot(&error) => return Ok(None),
        computed => computed?,
    };
    let Some((operands, values, bounds)) = computed else { return Ok(None) };
    match write_all(run, (table, key), what, (&operands, &values, &bounds))? {
        None => return Ok(None),
        Some(false) => return Ok(Some(Commuted::nothing())),
        Some(true) => {}
    }
    let returned = returning.iter().map(|value| run.evaluate(value, &row));
    let returned = returned.collect::<Result<_>>()?;
    let rows = old.map(|old| (old, row[..width].to_vec()));
    Ok(Some(Commuted { count: 1, returned, rows }))
}

/// Makes all writes and requires all guards; returns true if there is a row. `None`, and nothing is written: in a block a guard does not
/// hold of the value as it is, so the usual way finds out what to answer. If it holds now, the COMMIT proves it again.
fn write_all(
    run: &Run<'_>,
    (table, key): (&Table, &[ValueRef<'_>]),
    what: &Commutation,
    (operands, values, bounds): (&Operands, &Values, &Bounds),
) -> Result<Option<bool>> {
    let is_tried = !what.guards.is_empty() && run.runs_in == RunsIn::Block;
    let before = if is_tried { Some(writes(run)?.savepoint()) } else { None };
    let write = || {
        if !write(run, (table, key), &what.writes, values)? || !operate(run, (table, key), what, operands)? {
            return Ok(false);
        }
        for (guard, bounds) in what.guards.iter().zip(bounds) {
            writes(run)?.require_within(&table.engine, key, guard.handle, *bounds)?;
        }
        Ok(true)
    };
    match (write(), before) {
        (Err(error), Some(before)) if is_moot(&error) => {
            writes(run)?.rollback_to(&before);
            Ok(None)
        }
        (done, _) => done.map(Some),
    }
}

/// Returns true if an expression's error matters only if there is a row: the usual way looks first.
pub(super) fn is_moot(error: &SqlError) -> bool {
    !error.is_retryable() && error.state() != SqlState::QUERY_CANCELED
}

/// The operands of operations and the values of plain writes, which are put into the row; `None` if these values need
/// the usual way.
fn computed<'e>(
    run: &mut Run<'e>,
    table: &Table,
    what: &'e Commutation,
    row: &mut [Value],
) -> Result<Option<(Operands, Values, Bounds)>> {
    let mut operands = Operands::new();
    for operation in &what.operations {
        match operand(run, operation, &table.columns[operation.column], row)? {
            Some(operand) => operands.push(operand),
            None => return Ok(None),
        }
    }
    let mut values = Values::new();
    for write in &what.writes {
        let value = run.evaluate(&write.value, row)?;
        if lacks_a_value(table, write.column, &value) {
            return Ok(None);
        }
        values.push(value);
    }
    let mut bounds = Bounds::new();
    for guard in &what.guards {
        match bounds_of(run, table, (what, guard), (&operands, row))? {
            Some(found) => bounds.push(found),
            None => return Ok(None),
        }
    }
    if !row.is_empty() {
        for (write, value) in what.writes.iter().zip(&values) {
            row[write.column] = value.clone();
        }
    }
    for check in &what.checks {
        if matches!(run.evaluate(check, row)?, Value::Bool(false)) {
            return Ok(None);
        }
    }
    Ok(Some((operands, values, bounds)))
}

/// The row as it was, as far as anything looks at it: its key, and the columns that are read. Returns true if it
/// exists; if nothing is read, that is not known.
fn seen_row(
    run: &Run<'_>,
    (table, key): (&Table, &[ValueRef<'_>]),
    what: &Commutation,
    row: &mut SmallVec<[Value; 16]>,
) -> Result<bool> {
    row.resize(table.columns.len(), Value::Null);
    for (&column, stored) in table.key.iter().zip(key) {
        let of = &table.columns[column];
        row[column] = storage::decode(of.ty, of.modifier, *stored)?;
    }
    if what.reads.is_empty() {
        return Ok(true);
    }
    let decoder = Decoder::new(table, &what.reads)?;
    let columns = Some(decoder.columns());
    run.rows.get(&table.engine, key, columns, &mut |found| decoder.decode_into(found, &what.reads, row))
}

/// Applies the operations; returns true if there is a row.
fn operate(
    run: &Run<'_>,
    (table, key): (&Table, &[ValueRef<'_>]),
    what: &Commutation,
    operands: &[Operand],
) -> Result<bool> {
    let writes = writes(run)?;
    let mut is_known = !what.writes.is_empty();
    for (operation, operand) in what.operations.iter().zip(operands) {
        let operand = match operand {
            Operand::None => continue,
            Operand::Int(operand) => ValueRef::Int(*operand),
            Operand::Stored(operand) => ValueRef::from(operand),
        };
        match writes.commute(&table.engine, key, operation.handle, operation.operation, operand) {
            Ok(()) => is_known = true,
            Err(error) if error.is_missing_key() => return Ok(false),
            Err(error) => return Err(out_of_range(&table.columns[operation.column], error)),
        }
    }
    // Where no operand changes anything, whether there is a row is still to be known.
    Ok(is_known || run.latest().exists(&table.engine, key)?)
}

/// Writes plainly; returns true if there is a row. If nothing is written, that is not known.
fn write(
    run: &Run<'_>,
    (table, key): (&Table, &[ValueRef<'_>]),
    plain: &[PlainWrite],
    values: &[Value],
) -> Result<bool> {
    if plain.is_empty() {
        return Ok(true);
    }
    let mut scratch: SmallVec<[Vec<u8>; 2]> = plain.iter().map(|_| Vec::new()).collect();
    let mut changes = SmallVec::<[(Column, ValueRef<'_>); 2]>::new();
    for ((write, value), scratch) in plain.iter().zip(values).zip(&mut scratch) {
        let column = &table.columns[write.column];
        changes.push((write.handle, encode_ref(column.ty, column.modifier, value, scratch)?));
    }
    match writes(run)?.update(&table.engine, key, &changes) {
        Ok(()) => Ok(true),
        Err(error) if error.is_missing_key() => Ok(false),
        Err(error) => Err(error.with_table(&table.schema, &table.name)),
    }
}

fn out_of_range(column: &CatalogColumn, error: SqlError) -> SqlError {
    match error.state() {
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE if column.ty == Type::Numeric => {
            let overflow = SqlError::new(error.state(), "numeric field overflow");
            match error.detail() {
                Some(detail) => overflow.with_detail(detail),
                None => overflow,
            }
        }
        SqlState::NUMERIC_VALUE_OUT_OF_RANGE => {
            SqlError::new(error.state(), format!("{} out of range", column.ty.display_name()))
        }
        _ => error,
    }
}

/// The operand of an engine operation.
pub(super) enum Operand {
    /// NULL, which changes nothing.
    None,
    Int(i64),
    /// A number or a time of another type.
    Stored(Stored),
}

/// The operand of an operation; `None` if the update needs the usual way.
fn operand<'e>(
    run: &mut Run<'e>,
    operation: &'e Commuting,
    column: &CatalogColumn,
    source: &[Value],
) -> Result<Option<Operand>> {
    let mut sum: Option<Value> = None;
    for term in &operation.terms {
        let value = run.evaluate(&term.value, source)?;
        if value.is_null() {
            return Ok(operation.skips_null.then_some(Operand::None));
        }
        sum = match added(sum, term, value)? {
            None => return Ok(None),
            sum => sum,
        };
    }
    let Some(mut value) = sum else { return Ok(None) };
    if operation.operation == Commute::TopK {
        value = top_k::limited(value, column.modifier)?;
    }
    Ok(match &value {
        Value::Int2(_) | Value::Int4(_) | Value::Int8(_) => {
            let operand = value.any_int();
            let is_within = match column.ty {
                // A number beyond the column may still lead to a sum within it.
                _ if operation.operation == Commute::Add => true,
                Type::Int2 => i16::try_from(operand).is_ok(),
                Type::Int4 => i32::try_from(operand).is_ok(),
                _ => true,
            };
            is_within.then_some(Operand::Int(operand))
        }
        // One with too many digits behind the point is rounded with the sum.
        _ => match storage::encode(column.ty, column.modifier, &value) {
            Ok(stored) if operation.operation == Commute::Add || has_room(column, &stored) => {
                Some(Operand::Stored(stored))
            }
            _ => None,
        },
    })
}

/// Returns true if a column has the digits for a number.
fn has_room(column: &CatalogColumn, stored: &Stored) -> bool {
    let (Stored::Decimal(number), Some((precision, _))) = (stored, column.modifier.numeric_parts()) else {
        return true;
    };
    let beyond = u32::try_from(precision).ok().and_then(|precision| 10_u128.checked_pow(precision));
    beyond.is_none_or(|beyond| number.unscaled().unsigned_abs() < beyond)
}

/// The sum of the terms so far and one more; `None` if it may be beyond its type.
fn added(sum: Option<Value>, term: &Term, value: Value) -> Result<Option<Value>> {
    Ok(match (sum, value) {
        (None, Value::Numeric(number)) if term.negated => Some(Value::Numeric(number.negate())),
        (None, value) if term.negated => value.any_int().checked_neg().map(Value::Int8),
        (None, value) => Some(value),
        (Some(Value::Numeric(sum)), Value::Numeric(number)) => {
            let sum: Numeric = if term.negated { sum.subtract(&number)? } else { sum.add(&number)? };
            Some(Value::Numeric(sum))
        }
        (Some(sum), value) => {
            let (sum, value) = (sum.any_int(), value.any_int());
            let sum = if term.negated { sum.checked_sub(value) } else { sum.checked_add(value) };
            sum.filter(|sum| (-SUM_MAX..=SUM_MAX).contains(sum)).map(Value::Int8)
        }
    })
}
