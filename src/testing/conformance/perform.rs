//! Steps on the engine: the table that scripts use, and the calls of the public interface for each step.

use std::collections::HashMap;

use heddledb::{
    ActionContext, DataType, Database, Error, OrderedTuple, PrimaryIndex, Range, Result, Savepoint,
    SplitOperation, Table, TableDefinition, TopK, TupleType, Tx, Value, ValueRef, key, row,
};

use super::model::{Model, Row, TOP, entries_text, rows_text, value_text};
use super::step::{Column, Key, Operation, Span, Step};

/// Makes the table of a script, with the rows that it starts from.
pub fn make_table(db: &Database, index: PrimaryIndex, start: &Model) -> Table {
    let mut definition = TableDefinition::new("item")
        .column("id", DataType::Int64)
        .column("n", DataType::Int64)
        .not_null()
        .column("tag", DataType::Int64)
        .column("code", DataType::Int64)
        .column("best", DataType::OrderedTuple(entry_type()))
        .not_null()
        .column("top", DataType::TopK { limit: TOP as u32, of: entry_type() })
        .not_null()
        .primary_key(["id"])
        .primary_index(index);
    if start.indexed {
        definition = definition.index("tag", ["tag"]).unique_index("code", ["code"]);
    }
    let table = db.create_table(definition).expect("a table");
    db.run(|tx| {
        start.rows.iter().try_for_each(|(&id, row)| {
            debug_assert_eq!((row.best, row.top.len()), Default::default());
            insert(tx, &table, id, row)
        })
    })
    .expect("rows");
    table
}

/// Labels columns to be split: each number for one of the operations, the entries for their own.
pub fn label(db: &Database, table: &Table) {
    let numbers = [SplitOperation::ADD, SplitOperation::MAX, SplitOperation::MIN];
    let entries = [("best", SplitOperation::ORDERED_PUT), ("top", SplitOperation::TOP_K_INSERT)];
    // The keys that scripts use: only this many columns can be split at once.
    for id in (1..=8).chain(24..=26) {
        let number = ("n", numbers[id as usize % numbers.len()]);
        for (column, operation) in entries.into_iter().chain([number]) {
            db.split(table, key![id], column, operation).expect("a label");
        }
    }
}

fn entry_type() -> TupleType {
    TupleType::new(vec![DataType::Int64], vec![DataType::Int64]).expect("a type")
}

/// Gives the values of a new row to whatever inserts it.
fn with_new_row<T>(id: Key, row: &Row, insert: impl FnOnce(&[ValueRef<'_>]) -> T) -> T {
    let best = OrderedTuple::new(&entry_type(), &row![0], &row![0]).expect("an entry");
    let top = TopK::of(TOP as u32, []).expect("no entries");
    let values: [Value; 6] =
        [id.into(), row.n.into(), row.tag.into(), row.code.into(), Value::Tuple(best), Value::TopK(top)];
    insert(&values.each_ref().map(ValueRef::from))
}

/// Inserts a row that has no entries yet.
///
/// # Errors
/// Same errors as [`Tx::insert`].
pub fn insert(tx: &Tx<'_, '_>, table: &Table, id: Key, row: &Row) -> Result<()> {
    with_new_row(id, row, |values| tx.insert(table, values))
}

/// The whole table, as the model would have it.
pub fn contents(db: &Database, table: &Table, indexed: bool) -> Model {
    let rows = db.run(|tx| {
        tx.scan(table, Range::all())?
            .map(|row| {
                let row = row?;
                let number = |column| number_of(&row, column);
                let best = entries_of(&row, Column::Best)?[0];
                let top = entries_of(&row, Column::Top)?;
                let (tag, code) = (number("tag")?, number("code")?);
                Ok((row.int("id")?, Row { n: row.int("n")?, tag, code, best, top }))
            })
            .collect()
    });
    Model { indexed, rows: rows.expect("the rows") }
}

fn number_of(row: &heddledb::Row<'_>, column: &str) -> Result<Option<i64>> {
    if row.is_null(column)? { Ok(None) } else { row.int(column).map(Some) }
}

fn entries_of(row: &heddledb::Row<'_>, column: Column) -> Result<Vec<(i64, i64)>> {
    let of = entry_type();
    let rows = match row.get(column.name())?.to_value() {
        Value::Tuple(tuple) => vec![tuple.row(&of)?],
        Value::TopK(entries) => entries.rows(&of)?,
        other => panic!("no entries: {other:?}"),
    };
    let entry = |row: Vec<Value>| match row[..] {
        [Value::Int(order), Value::Int(payload)] => (order, payload),
        _ => panic!("no entry: {row:?}"),
    };
    Ok(rows.into_iter().map(entry).collect())
}

/// The way of a step to its row.
pub struct Reach<'r, 't, 'a> {
    pub tx: &'r Tx<'t, 'a>,
    pub table: &'r Table,
    /// The action whose own row the step's is, if it is one: found before the body ran.
    pub own: Option<&'r ActionContext<'t, 'a>>,
}

/// Calls a method of the action on its own row, or of the transaction on the row of the key.
macro_rules! reach {
    ($reach:expr, $key:expr, $method:ident($($argument:expr),*)) => {
        match $reach.own {
            Some(action) => action.$method($($argument),*),
            None => $reach.tx.$method($reach.table, key![$key], $($argument),*),
        }
    };
}

/// Does one step, which is no end.
///
/// # Errors
/// The error that ends the transaction, or has it retried.
pub fn perform(
    reach: &Reach<'_, '_, '_>,
    step: &Step,
    savepoints: &mut HashMap<char, Savepoint>,
) -> Result<String> {
    match *step {
        Step::Get(key, column) => match reach!(reach, key, get())? {
            None => Ok("none".to_string()),
            Some(row) => match column {
                Column::Best | Column::Top => Ok(entries_text(&entries_of(&row, column)?)),
                column => Ok(value_text(number_of(&row, column.name())?)),
            },
        },
        Step::Exists(key) => reach!(reach, key, exists()).map(yes_or_no),
        Step::Delete(key) => reach!(reach, key, delete()).map(yes_or_no),
        Step::Scan(span) => scan(reach, &span),
        Step::Index(column, span) => {
            rows(reach.tx.scan_index(reach.table, column.name(), range(&span))?, false)
        }
        Step::Save(name) => {
            savepoints.insert(name, reach.tx.savepoint());
            Ok("ok".to_string())
        }
        Step::Back(name) => {
            reach.tx.rollback_to(&savepoints[&name]);
            Ok("ok".to_string())
        }
        Step::Nested | Step::Fail | Step::Panic | Step::Commit => unreachable!("the session's own: {step}"),
        Step::Insert { .. } | Step::Set(..) | Step::Operate(..) | Step::Put(..) | Step::Top(..) => {
            match write(reach, step) {
                Ok(()) => Ok("ok".to_string()),
                Err(Error::DuplicateKey { .. }) => Ok("duplicate".to_string()),
                Err(Error::MissingKey { .. }) => Ok("missing".to_string()),
                Err(error) => Err(error),
            }
        }
    }
}

fn write(reach: &Reach<'_, '_, '_>, step: &Step) -> Result<()> {
    match *step {
        Step::Insert { key, n, tag, code } => {
            let row = Row { n, tag, code, ..Row::default() };
            with_new_row(key, &row, |values| match reach.own {
                Some(action) => action.insert(values),
                None => reach.tx.insert(reach.table, values),
            })
        }
        Step::Set(key, column, value) => reach!(reach, key, update(&[(column.name(), value.into())])),
        Step::Operate(Operation::Add, key, column, value) => reach!(reach, key, add(column.name(), value)),
        Step::Operate(Operation::Max, key, column, value) => reach!(reach, key, max(column.name(), value)),
        Step::Operate(Operation::Min, key, column, value) => reach!(reach, key, min(column.name(), value)),
        Step::Put(key, order, payload) => {
            reach!(reach, key, ordered_put("best", &row![order], &row![payload]))
        }
        Step::Top(key, order, payload) => {
            reach!(reach, key, top_k_insert("top", &row![order], &row![payload]))
        }
        _ => unreachable!("no write: {step}"),
    }
}

fn yes_or_no(yes: bool) -> String {
    if yes { "yes" } else { "no" }.to_string()
}

fn range(span: &Span) -> Range {
    let mut range = match span.from {
        Some(from) => Range::from(key![from]),
        None => Range::all(),
    };
    if let Some(to) = span.to {
        range = range.to(key![to]);
    }
    if span.backward {
        range = range.reverse();
    }
    match span.limit {
        Some(limit) => range.limit(limit),
        None => range,
    }
}

fn scan(reach: &Reach<'_, '_, '_>, span: &Span) -> Result<String> {
    // Without an ordered index only everything can be read, in no order.
    let unordered = reach.table.definition().kind_of_primary_index() == PrimaryIndex::Hash;
    rows(reach.tx.scan(reach.table, range(span))?, unordered)
}

fn rows<'a>(scan: impl Iterator<Item = Result<heddledb::Row<'a>>>, unordered: bool) -> Result<String> {
    let mut rows: Vec<(Key, i64)> = Vec::new();
    for row in scan {
        let row = row?;
        rows.push((row.int("id")?, row.int("n")?));
    }
    if unordered {
        rows.sort_unstable();
    }
    Ok(rows_text(rows.into_iter()))
}
