//! Rows of SQL as rows of the engine: storing, changing and removing them, and their errors in SQL's words.

use heddledb::{Column, Value as Stored, ValueRef};
use smallvec::SmallVec;

use crate::access::Writes;
use crate::catalog::{ColumnOrigin, Table};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::decoder::{Decoder, handle};
use crate::plan::scan::{HIDDEN_KEY, key_columns};
use crate::run::Run;
use crate::run::write::row_number;
use crate::storage::{encode, encode_ref};
use crate::types::text::to_text;
use crate::types::{Environment, Value};

/// The limit of numbers tried for a row without a primary key.
const NUMBERS_MAX: u32 = 1_000;

/// The interface for writes; an error in a read-only transaction.
pub(super) fn writes<'e>(run: &Run<'e>) -> Result<&'e dyn Writes> {
    run.writes.ok_or_else(|| {
        SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, "cannot write rows in a read-only transaction")
    })
}

/// The values of a row's key, as they are stored.
pub(super) fn stored_key(table: &Table, key: &[Value]) -> Result<Vec<Stored>> {
    let stored = |(column, value): (usize, &Value)| match column {
        HIDDEN_KEY => Ok(Stored::Int(value.any_int())),
        column => {
            let column = &table.columns[column];
            encode(column.ty, column.modifier, value)
        }
    };
    key_columns(table).into_iter().zip(key).map(stored).collect()
}

/// Passes the values of a row's key to a step, as they are stored.
fn with_stored_key<T>(
    table: &Table,
    key: &[Value],
    step: impl FnOnce(&[ValueRef<'_>]) -> Result<T>,
) -> Result<T> {
    if table.key.is_empty() {
        let numbers: SmallVec<[ValueRef<'_>; 4]> =
            key.iter().map(|value| ValueRef::Int(value.any_int())).collect();
        return step(&numbers);
    }
    let mut scratch = SmallVec::<[Vec<u8>; 4]>::from_elem(Vec::new(), key.len());
    let mut stored = SmallVec::<[ValueRef<'_>; 4]>::new();
    for ((&column, value), scratch) in table.key.iter().zip(key).zip(&mut scratch) {
        let column = &table.columns[column];
        stored.push(encode_ref(column.ty, column.modifier, value, scratch)?);
    }
    step(&stored)
}

pub(super) fn refs(values: &[Stored]) -> Vec<ValueRef<'_>> {
    values.iter().map(ValueRef::from).collect()
}

/// A row's key.
pub(super) fn key_of(table: &Table, row: &[Value]) -> Vec<Value> {
    table.key.iter().map(|&column| row[column].clone()).collect()
}

/// Stores a row. Its hidden key, if the table has no other.
pub(super) fn store(run: &mut Run<'_>, table: &Table, row: &[Value]) -> Result<Option<i64>> {
    let writes = writes(run)?;
    let mut scratch = vec![Vec::new(); table.columns.len()];
    let mut stored = vec![ValueRef::Null; table.engine.definition().columns().len()];
    for ((column, value), scratch) in table.columns.iter().zip(row).zip(&mut scratch) {
        stored[column.engine] = encode_ref(column.ty, column.modifier, value, scratch)?;
    }
    if !table.key.is_empty() {
        return match writes.insert(&table.engine, &stored) {
            Ok(()) => Ok(None),
            Err(error) => Err(explained(run, table, row, None, error)),
        };
    }
    for _ in 0..NUMBERS_MAX {
        let number = row_number::next();
        stored[0] = ValueRef::Int(number);
        match writes.insert(&table.engine, &stored) {
            Ok(()) => return Ok(Some(number)),
            Err(error) if error.state() == SqlState::UNIQUE_VIOLATION => {
                let error = explained(run, table, row, None, error);
                // Of an index it is an error; of the hidden key, a number that is taken.
                if error.constraint().is_some() {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Err(SqlError::internal("no number was found for a row"))
}

/// Sets a row's columns to new values; `key`: the old one.
pub(super) fn change(
    run: &mut Run<'_>,
    table: &Table,
    key: &[Value],
    old: &[Value],
    new: &[Value],
    columns: &[usize],
) -> Result<()> {
    let writes = writes(run)?;
    let moves = table
        .key
        .iter()
        .any(|&column| columns.contains(&column) && is_stored_anew(&old[column], &new[column]));
    if moves {
        remove(run, table, key)?;
        store(run, table, new)?;
        return Ok(());
    }
    let mut scratch = SmallVec::<[Vec<u8>; 4]>::from_elem(Vec::new(), columns.len());
    let mut changes = SmallVec::<[(Column, ValueRef<'_>); 4]>::new();
    // A key that has not moved stays as it is written.
    for (&column, scratch) in
        columns.iter().zip(&mut scratch).filter(|(column, _)| !table.key.contains(column))
    {
        let of = &table.columns[column];
        let value = encode_ref(of.ty, of.modifier, &new[column], scratch)?;
        changes.push((handle(table, of.engine)?, value));
    }
    if changes.is_empty() {
        return Ok(());
    }
    let changed = with_stored_key(table, key, |key| writes.update(&table.engine, key, &changes));
    changed.map_err(|error| explained(run, table, new, Some(old), error))
}

/// Returns true if a column of a key is to be written: 0 and -0 are the same key, and not the same value.
fn is_stored_anew(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Float8(old), Value::Float8(new)) => old.to_bits() != new.to_bits(),
        (Value::Float4(old), Value::Float4(new)) => old.to_bits() != new.to_bits(),
        _ => old != new,
    }
}

/// Removes a row; returns true if there was one.
pub(super) fn remove(run: &mut Run<'_>, table: &Table, key: &[Value]) -> Result<bool> {
    let writes = writes(run)?;
    with_stored_key(table, key, |key| writes.delete(&table.engine, key))
}

/// The row of a key: all columns.
pub(super) fn read(run: &Run<'_>, table: &Table, key: &[Value]) -> Result<Option<Vec<Value>>> {
    let stored = stored_key(table, key)?;
    let columns: Vec<usize> = (0..table.columns.len()).collect();
    let mut row = vec![Value::Null; columns.len()];
    let decoder = Decoder::new(table, &columns)?;
    let found = run
        .latest()
        .get(&table.engine, &refs(&stored), None, &mut |found| decoder.decode(found, &mut row))?;
    Ok(found.then_some(row))
}

/// The first row of an index whose columns have these values: its key and its columns.
pub(super) fn find_by_index(
    run: &Run<'_>,
    table: &Table,
    index: usize,
    values: &[Value],
) -> Result<Option<(Vec<Value>, Vec<Value>)>> {
    let mut found = None;
    each_by_index(run, table, index, values, &mut |key, row| {
        found = Some((key, row));
        Ok(false)
    })?;
    Ok(found)
}

/// The rows of an index whose columns have these values, until `each` has enough.
pub(super) fn each_by_index(
    run: &Run<'_>,
    table: &Table,
    index: usize,
    values: &[Value],
    each: &mut dyn FnMut(Vec<Value>, Vec<Value>) -> Result<bool>,
) -> Result<()> {
    if !table.is_filled(index) {
        let columns = &table.indexes[index].columns;
        return each_row(run, table, &mut |key, row| {
            let is_it = columns.iter().zip(values).all(|(column, value)| row[column.column] == *value);
            if is_it { each(key, row) } else { Ok(true) }
        });
    }
    let columns = table.indexes[index].columns.iter().map(|column| &table.columns[column.column]);
    let stored = columns.zip(values).map(|(column, value)| encode(column.ty, column.modifier, value));
    let stored = stored.collect::<Result<Vec<_>>>()?;
    let range = heddledb::Range::prefix(refs(&stored));
    let mut scan = run.latest().scan(&table.engine, Some(&table.indexes[index].name), range, None)?;
    read_each(table, &mut *scan, each)
}

/// The rows whose primary keys begin with these values, until `each` has enough.
pub(super) fn each_by_key(
    run: &Run<'_>,
    table: &Table,
    values: &[Value],
    each: &mut dyn FnMut(Vec<Value>, Vec<Value>) -> Result<bool>,
) -> Result<()> {
    let stored = stored_key(table, values)?;
    let range = heddledb::Range::prefix(refs(&stored));
    let mut scan = run.latest().scan(&table.engine, None, range, None)?;
    read_each(table, &mut *scan, each)
}

/// All rows of a table, until `each` has enough.
pub(super) fn each_row(
    run: &Run<'_>,
    table: &Table,
    each: &mut dyn FnMut(Vec<Value>, Vec<Value>) -> Result<bool>,
) -> Result<()> {
    let mut scan = run.latest().scan(&table.engine, None, heddledb::Range::all(), None)?;
    read_each(table, &mut *scan, each)
}

fn read_each(
    table: &Table,
    scan: &mut dyn crate::access::RowScan,
    each: &mut dyn FnMut(Vec<Value>, Vec<Value>) -> Result<bool>,
) -> Result<()> {
    let columns: Vec<usize> = (0..table.columns.len()).chain(key_columns(table)).collect();
    let decoder = Decoder::new(table, &columns)?;
    scan.read(&mut |found| {
        let mut row = vec![Value::Null; columns.len()];
        decoder.decode(found, &mut row)?;
        let key = row.split_off(table.columns.len());
        each(key, row)
    })?;
    Ok(())
}

/// A constraint's columns and values, as a detail names them: `(a, b)=(1, 2)`.
pub(super) fn key_text(
    environment: &dyn Environment,
    table: &Table,
    columns: &[usize],
    row: &[Value],
) -> String {
    let is_key = |column: &&usize| !matches!(table.columns[**column].origin, ColumnOrigin::IndexPredicate(_));
    let columns: Vec<usize> = columns.iter().filter(is_key).copied().collect();
    let names: Vec<String> = columns.iter().map(|&column| shown_name(table, column)).collect();
    let values: Vec<String> =
        columns.iter().map(|&column| text_of(environment, table.columns[column].ty, &row[column])).collect();
    format!("({})=({})", names.join(", "), values.join(", "))
}

fn shown_name(table: &Table, column: usize) -> String {
    match table.columns[column].indexed() {
        Some(_) => table.column_text(column),
        None => table.columns[column].name.clone(),
    }
}

pub(super) fn text_of(environment: &dyn Environment, ty: crate::types::Type, value: &Value) -> String {
    match value {
        Value::Null => "null".to_string(),
        value => to_text(environment, ty, value).unwrap_or_default(),
    }
}

/// The SQL form of an engine error about a row: it names the constraint that was violated.
fn explained(
    run: &Run<'_>,
    table: &Table,
    row: &[Value],
    old: Option<&[Value]>,
    error: SqlError,
) -> SqlError {
    if error.state() != SqlState::UNIQUE_VIOLATION {
        return error.with_table(&table.schema, &table.name);
    }
    let by_key = (table.key_name.clone(), table.key.clone());
    let indexes = table.indexes.iter().filter(|index| index.is_unique_in_engine());
    let by_index = indexes.map(|index| {
        (Some(index.name.clone()), index.columns.iter().map(|column| column.column).collect::<Vec<_>>())
    });
    for (number, (name, columns)) in std::iter::once(by_key).chain(by_index).enumerate() {
        let unchanged = old.is_some_and(|old| columns.iter().all(|&column| old[column] == row[column]));
        if columns.is_empty() || unchanged || columns.iter().any(|&column| row[column].is_null()) {
            continue;
        }
        if is_taken(run, table, number, &columns, row) {
            let name = name.unwrap_or_else(|| format!("{}_pkey", table.name));
            return unique_violation(&*run.environment, table, &name, &columns, row);
        }
    }
    error.with_table(&table.schema, &table.name)
}

/// Returns true if another row has the same values: `number` 0 is the primary key, the others are the unique indexes in
/// order.
fn is_taken(run: &Run<'_>, table: &Table, number: usize, columns: &[usize], row: &[Value]) -> bool {
    if number == 0 {
        return stored_key(table, &key_of(table, row))
            .and_then(|key| run.latest().exists(&table.engine, &refs(&key)))
            .unwrap_or(false);
    }
    let mut unique = table.indexes.iter().enumerate().filter(|(_, index)| index.is_unique_in_engine());
    let Some((index, _)) = unique.nth(number - 1) else { return false };
    let values: Vec<Value> = columns.iter().map(|&column| row[column].clone()).collect();
    find_by_index(run, table, index, &values).is_ok_and(|found| found.is_some())
}

pub(super) fn unique_violation(
    environment: &dyn Environment,
    table: &Table,
    constraint: &str,
    columns: &[usize],
    row: &[Value],
) -> SqlError {
    SqlError::new(
        SqlState::UNIQUE_VIOLATION,
        format!("duplicate key value violates unique constraint \"{constraint}\""),
    )
    .with_detail(format!("Key {} already exists.", key_text(environment, table, columns, row)))
    .with_table(&table.schema, &table.name)
    .with_constraint(constraint)
}
