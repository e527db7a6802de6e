//! The bounds of a guarded column: the numbers between which it has to be after its additions.

use heddledb::Value as Stored;

use crate::catalog::{Column, Table};
use crate::error::Result;
use crate::plan::commute::{Commutation, Guard, Limit};
use crate::plan::expression::Expr;
use crate::run::Run;
use crate::run::write::commuting::{Operand, Operands};
use crate::storage;
use crate::types::{Type, Value};

/// The bounds that a guard asks for, in the column's own unit: of a decimal its last digit. `None` if only the value
/// decides.
pub(super) fn bounds_of<'e>(
    run: &mut Run<'e>,
    table: &Table,
    (what, guard): (&'e Commutation, &'e Guard),
    (operands, row): (&Operands, &[Value]),
) -> Result<Option<(i64, i64)>> {
    let column = &table.columns[guard.column];
    let mut change = 0_i128;
    for (operation, operand) in what.operations.iter().zip(operands) {
        if operation.column == guard.column {
            change += match operand {
                Operand::None => 0,
                Operand::Int(operand) => i128::from(*operand),
                Operand::Stored(Stored::Decimal(operand)) => operand.unscaled(),
                Operand::Stored(_) => return Ok(None),
            };
        }
    }
    let (mut low, mut high) = range_of(column);
    for limit in &guard.limits {
        let Some(value) = limit_of(run, column, limit, row)? else { return Ok(None) };
        let value = if limit.is_of_old { value + change } else { value };
        if limit.is_low {
            low = low.max(value);
        } else {
            high = high.min(value);
        }
    }
    let bound = |number: i128| i64::try_from(number).ok();
    Ok(if low <= high { bound(low).zip(bound(high)) } else { None })
}

/// The first number that a limit lets pass.
pub(super) fn limit_of<'e>(
    run: &mut Run<'e>,
    column: &Column,
    limit: &'e Limit<Expr>,
    row: &[Value],
) -> Result<Option<i128>> {
    let Some(value) = units(column, run.evaluate(&limit.value, row)?) else { return Ok(None) };
    let step = i128::from(limit.is_strict);
    let value = if limit.is_low { value + step } else { value - step };
    let Some((negated, addend)) = &limit.addend else { return Ok(Some(value)) };
    let Some(addend) = units(column, run.evaluate(addend, row)?) else { return Ok(None) };
    let addend = if *negated { -addend } else { addend };
    // The other way the sum could be beyond its type, which is an error.
    let is_safe = if limit.is_low { addend <= 0 } else { addend >= 0 };
    Ok(is_safe.then_some(value - addend))
}

/// A number in a column's unit; `None` for NULL, or one that the column cannot hold.
fn units(column: &Column, value: Value) -> Option<i128> {
    match value {
        Value::Null => None,
        Value::Numeric(_) => match storage::encode(column.ty, column.modifier, &value).ok()? {
            Stored::Decimal(number) => Some(number.unscaled()),
            _ => None,
        },
        value => Some(i128::from(value.any_int())),
    }
}

/// The least and the greatest number of a column.
fn range_of(column: &Column) -> (i128, i128) {
    match (column.ty, column.modifier.numeric_parts()) {
        (Type::Int2, _) => (i16::MIN.into(), i16::MAX.into()),
        (Type::Int4, _) => (i32::MIN.into(), i32::MAX.into()),
        (Type::Numeric, Some((precision, _))) => {
            let most = u32::try_from(precision).ok().and_then(|digits| 10_i128.checked_pow(digits));
            most.map_or((i64::MIN.into(), i64::MAX.into()), |beyond| (1 - beyond, beyond - 1))
        }
        _ => (i64::MIN.into(), i64::MAX.into()),
    }
}
