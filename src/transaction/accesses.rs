//! Accesses by a target or by a key's values, for transactions and for the contexts of actions alike.

use smallvec::SmallVec;

use super::identity;
use crate::error::{Error, Result};
use crate::evaluator;
use crate::operation::Operation;
use crate::protocol::attempt::{Attempt, Target};
use crate::protocol::footprint::Reference;
use crate::row::Row;
use crate::storage::table::TableCore;
use crate::storage::write_set::IntChange;
use crate::table::{ColumnName, Table, position};
use crate::types::{DataType, OrderedTuple, TupleType, ValueRef};

/// New values by their columns' positions.
pub(super) type Changes<'v> = SmallVec<[(usize, ValueRef<'v>); 8]>;

/// Runs something on the record that a key, of which these are the values, names.
#[inline(always)]
pub(super) fn at<'a, T>(
    table: &'a TableCore,
    values: &[ValueRef<'_>],
    access: impl FnOnce(&Target<'_, 'a>) -> Result<T>,
) -> Result<T> {
    let (word, encoded);
    let key = match table.key_word(values) {
        Some(usual) => {
            word = usual;
            word.as_slice()
        }
        None => {
            encoded = table.encode_key(values, true)?;
            encoded.as_slice()
        }
    };
    access(&Target { table, key, hash: table.hash(key), found: None, declared: false })
}

/// The row of the key of which these are the values. Apart from [`Tx::get`](super::Tx::get), which is generic: so the
/// compiler makes one function of all of it, here; and likewise below.
pub(super) fn get_by_key<'a>(
    attempt: &Attempt<'a>,
    table: &Table,
    values: &[ValueRef<'_>],
) -> Result<Option<Row<'a>>> {
    at(attempt.hold(table.core())?, values, |target| get(attempt, target))
}

/// Buffers an operation on a column of the row with this key.
pub(super) fn operate_by_key<'a>(
    attempt: &Attempt<'a>,
    (table, values): (&'a TableCore, &[ValueRef<'_>]),
    column: usize,
    operation: Operation,
    operand: &ValueRef<'_>,
) -> Result<()> {
    at(table, values, |target| match *operand {
        ValueRef::Int(int) if attempt.change_int_of(target, column, IntChange::Operate(operation, int)) => {
            Ok(())
        }
        // A copy: so the target need not be in memory where this is not reached.
        operand => operate_at(attempt, &{ *target }, column, operation, operand),
    })
}

/// Buffers new values of columns of the row with this key.
pub(super) fn update_by_key<'a>(
    attempt: &Attempt<'a>,
    (table, values): (&'a TableCore, &[ValueRef<'_>]),
    changes: &[(usize, ValueRef<'_>)],
) -> Result<()> {
    at(table, values, |target| update_at(attempt, target, changes))
}

#[inline(always)]
pub(crate) fn get<'a>(attempt: &Attempt<'a>, target: &Target<'_, 'a>) -> Result<Option<Row<'a>>> {
    Ok(attempt.get(target)?.map(|row| Row::new(target.table, row)))
}

/// Inserts a row; `declared`: the whole key that was declared, whose hash is known if it is the row's.
pub(crate) fn insert(
    attempt: &Attempt<'_>,
    table: &TableCore,
    row: &[ValueRef<'_>],
    declared: Option<&Reference>,
) -> Result<()> {
    match table.identity_column() {
        None => insert_as_given(attempt, table, row, declared),
        Some(identity) => identity::insert(attempt, table, identity, row, declared),
    }
}

/// Same as `insert`, whatever the table's identity column says.
pub(crate) fn insert_as_given(
    attempt: &Attempt<'_>,
    table: &TableCore,
    row: &[ValueRef<'_>],
    declared: Option<&Reference>,
) -> Result<()> {
    let table = attempt.hold(table)?;
    let key = table.encode_key_of_row(row)?;
    let (hash, declared) = match declared {
        Some(declared) if declared.key == key => (declared.hash, true),
        _ => (table.hash(&key), false),
    };
    let target = Target { table, key: &key, hash, found: None, declared };
    attempt.insert(&target, row).or_else(|refused| evaluator::insert(attempt, &target, row, refused))
}

#[inline]
pub(crate) fn update<'a, N: ColumnName>(
    attempt: &Attempt<'a>,
    target: &Target<'_, 'a>,
    changes: &[(N, ValueRef<'_>)],
) -> Result<()> {
    let mut positions = Changes::new();
    put_positions(target.table, changes, &mut positions)?;
    update_at(attempt, target, &positions)
}

/// Same as `update`, by the columns' positions.
pub(super) fn update_at<'a>(
    attempt: &Attempt<'a>,
    target: &Target<'_, 'a>,
    changes: &[(usize, ValueRef<'_>)],
) -> Result<()> {
    if attempt.set_ints(target, changes) {
        return Ok(());
    }
    attempt.update(target, changes).or_else(|refused| evaluator::update(attempt, target, changes, refused))
}

#[inline]
pub(crate) fn delete<'a>(attempt: &Attempt<'a>, target: &Target<'_, 'a>) -> Result<bool> {
    attempt.delete(target).or_else(|refused| evaluator::delete(attempt, target, refused))
}

/// Puts new values there, which is empty, by their columns' positions.
#[inline]
pub(super) fn put_positions<'v, N: ColumnName>(
    table: &TableCore,
    changes: &[(N, ValueRef<'v>)],
    into: &mut Changes<'v>,
) -> Result<()> {
    // In a loop: collecting results would move the list twice.
    for (name, value) in changes {
        into.push((position(table, name)?, *value));
    }
    Ok(())
}

/// Buffers an operation on the column at this position.
#[inline]
pub(crate) fn operate_at<'a>(
    attempt: &Attempt<'a>,
    target: &Target<'_, 'a>,
    column: usize,
    operation: Operation,
    operand: ValueRef<'_>,
) -> Result<()> {
    attempt
        .operate(target, column, operation, operand)
        .or_else(|refused| evaluator::operate(attempt, target, (column, operation, operand), refused))
}

pub(crate) fn put_tuple<'a>(
    attempt: &Attempt<'a>,
    target: &Target<'_, 'a>,
    column: impl ColumnName,
    operation: Operation,
    order: &[ValueRef<'_>],
    payload: &[ValueRef<'_>],
) -> Result<()> {
    let column = position(target.table, column)?;
    let layout = target.table.layout().column(column);
    let of: &TupleType = match &layout.data_type {
        DataType::OrderedTuple(of) | DataType::TopK { of, .. } => of,
        other => {
            operation.accepts(other)?;
            return Err(Error::InvalidValue {
                what: layout.name.clone(),
                detail: "it holds no tuples".to_string(),
            });
        }
    };
    let tuple = OrderedTuple::new(of, order, payload)?;
    operate_at(attempt, target, column, operation, ValueRef::Tuple(tuple.as_bytes()))
}
