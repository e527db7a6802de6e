//! A table's definition as rows of the catalog, and back.
//!
//! A definition is stored as rows of ordinary tables, so that schema changes are logged, recovered and rolled back like
//! other writes. Reading is the exact inverse of writing; rows from which no definition can be made are damage, and an
//! error.

use crossbeam_epoch::Guard;

use super::{
    ADDED_COLUMNS, CHECKS, COLUMNS, DROPPED, EVALUATORS, FOREIGN_KEYS, IDENTITIES, INDEXES, ROUTING, TABLES,
    read_rows, text,
};
use crate::error::{Error, Result};
use crate::expression::parse::parse;
use crate::storage::definition::{
    CheckDefinition, ColumnDefinition, ForeignKey, Identity, IdentitySequence, IndexDefinition, PrimaryIndex,
    ReferentialAction, TableDefinition,
};
use crate::storage::table::{TableCore, TableId};
use crate::types::key::{EncodedKey, decode_component, encode_component};
use crate::types::{DataType, Value, ValueRef};

/// The catalog rows of a table: for each, the catalog table and the values.
///
/// # Errors
/// A default that no key encoding has.
pub(crate) fn rows(id: TableId, definition: &TableDefinition) -> Result<Vec<(TableId, Vec<Value>)>> {
    let number = Value::Int(i64::from(id));
    let position = |at: usize| Value::Int(at as i64);
    let text = |text: &str| Value::Text(text.to_string());
    let optional = |value: &Option<String>| value.as_deref().map_or(Value::Null, text);
    let kind = definition.primary_index.name();
    let mut rows = vec![(TABLES, vec![number.clone(), text(&definition.name), text(kind)])];
    for (at, column) in definition.columns.iter().enumerate() {
        let key = definition.key.iter().position(|&key| key == at).map_or(Value::Null, position);
        rows.push((
            COLUMNS,
            vec![
                number.clone(),
                position(at),
                text(&column.name),
                Value::Text(column.data_type.to_string()),
                Value::Bool(column.not_null),
                default_to_bytes(column)?,
                key,
                optional(&column.references),
                optional(&column.domain),
            ],
        ));
    }
    for (at, index) in definition.indexes.iter().enumerate() {
        let columns: Vec<_> = index.columns.iter().map(usize::to_string).collect();
        let columns = Value::Text(columns.join(","));
        rows.push((
            INDEXES,
            vec![number.clone(), position(at), text(&index.name), Value::Bool(index.unique), columns],
        ));
    }
    for (at, check) in definition.checks.iter().enumerate() {
        let condition = Value::Text(check.condition.to_string());
        rows.push((CHECKS, vec![number.clone(), position(at), text(&check.name), condition]));
    }
    rows.extend(foreign_key_rows(id, definition).map(|row| (FOREIGN_KEYS, row)));
    let past = definition.added.values();
    let first = definition.columns.len() - past.len();
    for (at, (value, column)) in past.iter().zip(&definition.columns[first..]).enumerate() {
        let value = value_to_bytes(value, &column.data_type)?;
        rows.push((ADDED_COLUMNS, vec![number.clone(), position(first + at), value]));
    }
    if let Some(evaluator) = &definition.evaluator {
        rows.push((EVALUATORS, vec![number.clone(), text(evaluator)]));
    }
    if let Some(identity) = definition.identity_column() {
        let always = Value::Bool(identity.kind == Identity::Always);
        let (column, sequence) = (position(identity.position), Value::Text(identity.sequence));
        rows.push((IDENTITIES, vec![number.clone(), column, always, sequence]));
    }
    for (at, &column) in definition.routing.iter().enumerate() {
        rows.push((ROUTING, vec![number.clone(), position(at), position(column)]));
    }
    Ok(rows)
}

fn foreign_key_rows(id: TableId, definition: &TableDefinition) -> impl Iterator<Item = Vec<Value>> + '_ {
    let text = |text: &str| Value::Text(text.to_string());
    definition.foreign_keys.iter().enumerate().flat_map(move |(at, key)| {
        key.columns.iter().enumerate().map(move |(place, column)| {
            vec![
                Value::Int(i64::from(id)),
                Value::Int(at as i64),
                Value::Int(place as i64),
                text(&key.name),
                text(column),
                text(&key.table),
                key.referenced.get(place).map_or(Value::Null, |column| text(column)),
                text(key.on_delete.name()),
                text(key.on_update.name()),
                Value::Bool(key.is_deferred),
            ]
        })
    })
}

/// The inverse of `foreign_key_rows`. `None` if an action is unknown.
fn foreign_keys_of(rows: Vec<Vec<Value>>) -> Option<Vec<ForeignKey>> {
    let mut keys: Vec<ForeignKey> = Vec::new();
    for mut row in rows {
        let mut field = |index: usize| std::mem::replace(&mut row[index], Value::Null);
        if field(2) == Value::Int(0) {
            let mut key = ForeignKey::new(text(field(3)), [], text(field(5)));
            key.on_delete = ReferentialAction::from_name(&text(field(7)))?;
            key.on_update = ReferentialAction::from_name(&text(field(8)))?;
            key.is_deferred = field(9) == Value::Bool(true);
            keys.push(key);
        }
        let key = keys.last_mut()?;
        key.columns.push(text(field(4)));
        if let Value::Text(referenced) = field(6) {
            key.referenced.push(referenced);
        }
    }
    Some(keys)
}

fn default_to_bytes(column: &ColumnDefinition) -> Result<Value> {
    value_to_bytes(&column.default, &column.data_type)
}

fn value_to_bytes(value: &Value, data_type: &DataType) -> Result<Value> {
    if matches!(value, Value::Null) {
        return Ok(Value::Null);
    }
    // No key holds these, and they are bytes already.
    if let ValueRef::Tuple(bytes) | ValueRef::TopK(bytes) = value.as_value_ref() {
        return Ok(Value::Bytes(bytes.to_vec()));
    }
    let mut bytes = EncodedKey::new();
    encode_component(&mut bytes, value.into(), data_type, false)?;
    Ok(Value::Bytes(bytes.to_vec()))
}

/// The inverse of `value_to_bytes`.
fn default_from_bytes(bytes: &[u8], data_type: &DataType) -> Result<Value> {
    match data_type {
        DataType::OrderedTuple(_) => Ok(ValueRef::Tuple(bytes).to_value()),
        DataType::TopK { .. } => Ok(ValueRef::TopK(bytes).to_value()),
        _ => decode_component(&mut &*bytes, data_type, false),
    }
}

/// Reads a table's definition back from the catalog's rows.
///
/// # Errors
/// Rows that don't describe a table: the catalog is damaged.
pub(crate) fn read_definition(
    id: TableId,
    [tables, columns, indexes, routing, checks, foreign_keys, identities, evaluators, added]: [&TableCore; 9],
    guard: &Guard,
) -> Result<TableDefinition> {
    let damaged =
        |detail: &str| Error::Malformed { what: "catalog", detail: format!("table {id}: {detail}") };
    let mut head = read_rows(tables, id, guard)?;
    let Some(mut head) = head.pop() else { return Err(damaged("no row in heddle_table")) };
    let name = text(head.remove(1));
    let name = if name == DROPPED { format!("dropped table {id}") } else { name };
    let mut definition = TableDefinition::new(name);
    definition.primary_index = PrimaryIndex::from_name(&text(head.remove(1)))
        .ok_or_else(|| damaged("unknown kind of primary index"))?;
    let mut key: Vec<(i64, usize)> = Vec::new();
    for (at, mut row) in read_rows(columns, id, guard)?.into_iter().enumerate() {
        let mut field = |index: usize| std::mem::replace(&mut row[index], Value::Null);
        let data_type: DataType = text(field(3)).parse()?;
        let default = match field(5) {
            Value::Bytes(bytes) => default_from_bytes(&bytes, &data_type)?,
            _ => Value::Null,
        };
        if let Value::Int(position) = field(6) {
            key.push((position, at));
        }
        let optional = |value: Value| (!matches!(value, Value::Null)).then(|| text(value));
        definition.columns.push(ColumnDefinition {
            name: text(field(2)),
            not_null: field(4) == Value::Bool(true),
            references: optional(field(7)),
            domain: optional(field(8)),
            identity: None,
            data_type,
            default,
        });
    }
    read_added_columns(&mut definition, read_rows(added, id, guard)?)?;
    key.sort_unstable();
    definition.key = key.into_iter().map(|(_, at)| at).collect();
    for mut row in read_rows(indexes, id, guard)? {
        let columns = text(row.remove(4)).split(',').map(str::parse).collect::<Result<Vec<usize>, _>>();
        let columns = columns.map_err(|_| damaged("an index with unreadable columns"))?;
        if columns.iter().any(|&column| column >= definition.columns.len()) {
            return Err(damaged("an index on a column that is not there"));
        }
        let unique = row.remove(3) == Value::Bool(true);
        definition.indexes.push(IndexDefinition { name: text(row.remove(2)), columns, unique });
    }
    for row in read_rows(routing, id, guard)? {
        let column = if let Value::Int(column) = row[2] { usize::try_from(column).ok() } else { None };
        let column = column.filter(|column| *column < definition.columns.len());
        definition.routing.push(column.ok_or_else(|| damaged("it is routed by a column that is not there"))?);
    }
    for mut row in read_rows(checks, id, guard)? {
        let condition = parse(&text(row.remove(3)));
        let condition = condition.map_err(|_| damaged("a check that cannot be read"))?;
        definition.checks.push(CheckDefinition { name: text(row.remove(2)), condition });
    }
    definition.foreign_keys = foreign_keys_of(read_rows(foreign_keys, id, guard)?)
        .ok_or_else(|| damaged("a foreign key with an unknown action"))?;
    definition.evaluator = read_rows(evaluators, id, guard)?.pop().and_then(|mut row| row.pop()).map(text);
    if let Some(row) = read_rows(identities, id, guard)?.pop() {
        set_identity(&mut definition, row).ok_or_else(|| damaged("an identity column that is not there"))?;
    }
    definition.validate()?;
    Ok(definition)
}

/// Gives a definition what rows have in added columns that are older than these.
fn read_added_columns(definition: &mut TableDefinition, rows: Vec<Vec<Value>>) -> Result<()> {
    for mut row in rows {
        let column = if let Value::Int(column) = row[1] { usize::try_from(column).ok() } else { None };
        // A column whose own row is younger than this copy of the catalog is met when the log is replayed.
        let Some(column) = column.and_then(|column| definition.columns.get(column)) else { break };
        definition.added.push(match row.pop() {
            Some(Value::Bytes(bytes)) => default_from_bytes(&bytes, &column.data_type)?,
            _ => Value::Null,
        });
    }
    Ok(())
}

/// Gives a definition its identity column. `None` if it has no such column.
fn set_identity(definition: &mut TableDefinition, mut row: Vec<Value>) -> Option<()> {
    let position = if let Value::Int(column) = row[1] { usize::try_from(column).ok()? } else { return None };
    let is_always = row[2] == Value::Bool(true);
    let kind = if is_always { Identity::Always } else { Identity::ByDefault };
    definition.columns.get_mut(position)?.identity = Some(kind);
    definition.identity_sequence = IdentitySequence(Some(text(row.remove(3))));
    Some(())
}
