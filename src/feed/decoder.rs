//! Makes changes of a log group: those of one table, in the order in which recovery would replay them.
//!
//! Invariants: merged operations are first, one change for each row, then the commits in the order of their stamps
//! (`storage::restore::group_replay` argues why). From the change on with which another table takes the table's place,
//! that one is followed.

use std::collections::HashMap;
use std::sync::Arc;

use bumpalo::Bump;

use super::change::{Change, ChangeBatch, ChangedColumns, ColumnChange};
use crate::database::SplitOperation;
use crate::error::{Error, Result};
use crate::operation::Operation;
use crate::row::OwnedRow;
use crate::storage::catalog::{self, DROPPED};
use crate::storage::redo::{
    ChangeHead, LoggedChange, LoggedColumn, Reader, SCHEMA_VERSION, split_transactions,
};
use crate::storage::store::Store;
use crate::storage::table::{TableCore, TableId};
use crate::storage::versions::{LoggedRows, Rows};
use crate::types::key::decode_component;
use crate::types::{DataType, Value, ValueRef};

/// The table that is followed, and the tables whose changes were met.
pub(super) struct Decoder {
    /// The table's number at this point of the log.
    pub(super) number: TableId,
    /// True if it was dropped before this point.
    pub(super) is_dropped: bool,
    /// The tables whose changes were met, as their rows of a version are; with the definitions in force.
    tables: HashMap<(TableId, u64), (Arc<TableCore>, Arc<TableCore>)>,
}

/// The consequence of a change of the catalog for the table that is followed.
enum Switch {
    To(TableId),
    Dropped,
}

/// The changes of one group, as they are put together.
#[derive(Default)]
struct Building {
    changes: Vec<Pending>,
    /// Inserted rows, for each of the tables that were followed.
    parts: Vec<LoggedRows>,
}

enum Pending {
    /// An inserted row: in which part, and at which place.
    Insert(Vec<Value>, usize, usize),
    Ready(Change),
}

/// Merged operations on one row.
struct Merged {
    table: Arc<TableCore>,
    key: Vec<Value>,
    columns: Vec<(usize, Operation, Value)>,
}

impl Decoder {
    pub(super) fn new(number: TableId) -> Decoder {
        Decoder { number, is_dropped: false, tables: HashMap::new() }
    }

    /// The changes of a group.
    ///
    /// # Errors
    /// The bytes are no redo of this database: then the decoder is as it was.
    pub(super) fn decode(&mut self, store: &Store, epoch: u64, payload: &[u8]) -> Result<ChangeBatch> {
        // A column may have got another name.
        self.tables.retain(|_, (now, _)| now.is_current());
        let before = (self.number, self.is_dropped);
        let decoded = self.changes(store, payload).map(|changes| ChangeBatch { epoch, changes });
        if decoded.is_err() {
            (self.number, self.is_dropped) = before;
        }
        decoded
    }

    fn changes(&mut self, store: &Store, payload: &[u8]) -> Result<Vec<Change>> {
        let mut transactions = split_transactions(payload)?;
        let mut building = Building::default();
        let merged: Vec<_> = transactions.extract_if(.., |transaction| transaction.is_merged()).collect();
        self.merged(store, merged.iter().map(|transaction| transaction.changes), &mut building)?;
        transactions.sort_by_key(|transaction| transaction.stamp);
        for transaction in transactions {
            self.commit(store, transaction.changes, &mut building)?;
        }
        building.finish()
    }

    /// The table of this number, with the columns that it had when it wrote rows of this version.
    fn table(&mut self, store: &Store, (id, version): (TableId, u64)) -> Result<Arc<TableCore>> {
        if let Some((_, table)) = self.tables.get(&(id, version)) {
            return Ok(table.clone());
        }
        let detail = || format!("changes of table {id}, which the catalog does not have");
        let now = self.table_now(store, id)?;
        let definition = now.definition().of_version(version);
        let definition = definition.ok_or_else(|| Error::Malformed { what: "redo", detail: detail() })?;
        let table = match now.row_version() == version {
            true => now.clone(),
            false => Arc::new(now.redefined(definition).0),
        };
        self.tables.insert((id, version), (now, table.clone()));
        Ok(table)
    }

    fn table_now(&self, store: &Store, id: TableId) -> Result<Arc<TableCore>> {
        let detail = || format!("changes of table {id}, which the catalog does not have");
        store.table_ever(id).ok_or_else(|| Error::Malformed { what: "redo", detail: detail() })
    }

    /// Decodes the worker contexts' operations of this epoch on split columns.
    fn merged<'p>(
        &mut self,
        store: &Store,
        transactions: impl Iterator<Item = &'p [u8]>,
        building: &mut Building,
    ) -> Result<()> {
        let (mut rows, mut places) = (Vec::<Merged>::new(), HashMap::<&[u8], usize>::new());
        for changes in transactions {
            let mut reader = Reader::new(changes);
            while let Some(head) = reader.next_merged()? {
                let table = self.table(store, (head.table, reader.version()))?;
                let is_followed = head.table == self.number && !self.is_dropped;
                let place = is_followed.then(|| *places.entry(head.key).or_insert(rows.len()));
                if place == Some(rows.len()) {
                    let key = key_of(&table, head.key)?;
                    rows.push(Merged { table: table.clone(), key, columns: Vec::new() });
                }
                for _ in 0..head.columns {
                    let (column, operation, operand) = reader.merged_column(&table)?;
                    if let Some(place) = place {
                        rows[place].add(
                            column,
                            operation,
                            operand,
                            &table.layout().column(column).data_type,
                        )?;
                    }
                }
            }
        }
        building.changes.extend(rows.into_iter().map(|row| {
            let new = |(column, operation, operand)| (column, applied(operation, operand));
            let columns = row.columns.into_iter().map(new).collect();
            Pending::Ready(Change::Update {
                key: row.key,
                columns: ChangedColumns { table: row.table, columns },
            })
        }));
        Ok(())
    }

    /// Decodes the changes of one commit. If another table takes the table's place with it, or the table is dropped,
    /// then its earlier changes of the table are left out.
    fn commit(&mut self, store: &Store, changes: &[u8], building: &mut Building) -> Result<()> {
        let begin = building.changes.len();
        while let Some(switch) = self.scan(store, changes, building)? {
            building.changes.truncate(begin);
            let change = match switch {
                Switch::To(number) => {
                    self.number = number;
                    Change::Rewrite {
                        definition: Box::new(
                            self.table(store, (number, SCHEMA_VERSION))?.definition().clone(),
                        ),
                    }
                }
                Switch::Dropped => {
                    self.is_dropped = true;
                    Change::Drop
                }
            };
            building.changes.push(Pending::Ready(change));
        }
        Ok(())
    }

    /// Takes the table's changes of one commit, up to one by which it is followed no longer.
    fn scan(&mut self, store: &Store, changes: &[u8], building: &mut Building) -> Result<Option<Switch>> {
        let mut reader = Reader::new(changes);
        let mut is_gone = false;
        while let Some(head) = reader.next_head()? {
            let table = self.table(store, (head.table, reader.version()))?;
            if self.is_dropped {
                return Ok(None);
            }
            if head.table == self.number {
                building.take(&table, &head, &mut reader)?;
            } else if head.table == catalog::SUCCESSORS && catalog::id_of_key(head.key)? == self.number {
                return successor(&table, &head, &mut reader).map(|number| Some(Switch::To(number)));
            } else if head.table == catalog::TABLES
                && head.change == LoggedChange::Columns
                && catalog::id_of_key(head.key)? == self.number
            {
                let columns = reader.changed_columns(&table)?;
                let dropped = LoggedColumn::Value(ValueRef::Text(DROPPED));
                is_gone |= columns.iter().any(|(_, new)| *new == dropped);
            } else {
                if head.table == catalog::ADDED_COLUMNS && head.change == LoggedChange::Row {
                    let added = self.added_column(store, &table, head.key)?;
                    building.changes.extend(added.map(Pending::Ready));
                }
                reader.skip(head.change, &table)?;
            }
        }
        // Not before the end: a successor may come behind.
        Ok(is_gone.then_some(Switch::Dropped))
    }
}

impl Decoder {
    /// The column that a row of this key in the table of added columns is about, if it is one of the table's.
    fn added_column(&self, store: &Store, table: &TableCore, key: &[u8]) -> Result<Option<Change>> {
        let key = key_of(table, key)?;
        let [Value::Int(id), Value::Int(position)] = key[..] else { return Ok(None) };
        if id != i64::from(self.number) {
            return Ok(None);
        }
        let now = self.table_now(store, self.number)?;
        let definition = now.definition();
        let past = definition.added.values();
        let first = definition.columns.len() - past.len();
        let position = usize::try_from(position).unwrap_or(usize::MAX);
        let value = position.checked_sub(first).and_then(|at| past.get(at));
        let column = definition.columns.get(position).zip(value);
        Ok(column
            .map(|(column, value)| Change::AddColumn { name: column.name.clone(), value: value.clone() }))
    }
}

/// The number in a row that was inserted into the table of successors.
fn successor(table: &Arc<TableCore>, head: &ChangeHead<'_>, reader: &mut Reader<'_>) -> Result<TableId> {
    let (mut row, arena) = (vec![0; table.layout().words()], Bump::new());
    reader.apply(head.change, table, &mut row, &arena)?;
    let number = table.layout().int(&row, 1).and_then(|number| TableId::try_from(number).ok());
    let detail = || "a successor without a number".to_string();
    number.ok_or_else(|| Error::Malformed { what: "catalog", detail: detail() })
}

/// The values of a key's columns.
fn key_of(table: &TableCore, mut key: &[u8]) -> Result<Vec<Value>> {
    let columns = table.definition().columns();
    let types = table.definition().key().iter().map(|&at| &columns[at].data_type);
    types.map(|data_type| decode_component(&mut key, data_type, false)).collect()
}

impl Merged {
    fn add(
        &mut self,
        column: usize,
        operation: Operation,
        operand: ValueRef<'_>,
        data_type: &DataType,
    ) -> Result<()> {
        let same = self.columns.iter_mut().find(|(at, of, _)| (*at, *of) == (column, operation));
        match same {
            Some((_, _, total)) => *total = merge(operation, total, operand, data_type)?,
            None => self.columns.push((column, operation, operand.to_value())),
        }
        Ok(())
    }
}

fn merge(operation: Operation, first: &Value, second: ValueRef<'_>, data_type: &DataType) -> Result<Value> {
    let (first, mut buffer) = (ValueRef::from(first), Vec::new());
    let merged = operation.merge(first, second, data_type, &mut buffer)?;
    Ok(merged.value(first, &buffer).to_value())
}

impl Building {
    /// Takes a change of the table.
    fn take(&mut self, table: &Arc<TableCore>, head: &ChangeHead<'_>, reader: &mut Reader<'_>) -> Result<()> {
        let key = key_of(table, head.key)?;
        let pending = match head.change {
            LoggedChange::Gone => Pending::Ready(Change::Delete { key }),
            LoggedChange::Columns => {
                let columns = reader.changed_columns(table)?.into_iter();
                let columns =
                    columns.map(|(at, new)| Ok((at, new_of(table, at, new)?))).collect::<Result<_>>()?;
                Pending::Ready(Change::Update {
                    key,
                    columns: ChangedColumns { table: table.clone(), columns },
                })
            }
            LoggedChange::Row => {
                let (part, place) = self.insert(table, reader)?;
                Pending::Insert(key, part, place)
            }
        };
        self.changes.push(pending);
        Ok(())
    }

    /// Takes a whole row: the part and the place that it gets.
    fn insert(&mut self, table: &Arc<TableCore>, reader: &mut Reader<'_>) -> Result<(usize, usize)> {
        if self.parts.last().is_none_or(|part| !Arc::ptr_eq(part.table(), table)) {
            self.parts.push(LoggedRows::new(table.clone()));
        }
        let part = self.parts.len() - 1;
        Ok((part, self.parts[part].push(reader)?))
    }

    fn finish(self) -> Result<Vec<Change>> {
        let parts = self.parts.into_iter().map(|part| part.finish().map(Arc::new));
        let parts = parts.collect::<Result<Vec<_>>>()?;
        let change = |pending| match pending {
            Pending::Ready(change) => change,
            Pending::Insert(key, part, place) => {
                let rows: &Arc<Rows> = &parts[part];
                Change::Insert { key, row: OwnedRow::new(rows.clone(), place) }
            }
        };
        Ok(self.changes.into_iter().map(change).collect())
    }
}

fn applied(operation: Operation, operand: Value) -> ColumnChange {
    ColumnChange::Apply { operation: SplitOperation::new(operation), operand }
}

/// The change of a column; entries of a top-K set are combined to one set.
fn new_of(table: &TableCore, column: usize, new: LoggedColumn<'_>) -> Result<ColumnChange> {
    let entries = match new {
        LoggedColumn::Value(value) => return Ok(ColumnChange::Set(value.to_value())),
        LoggedColumn::Entries(entries) => entries,
    };
    let (operation, data_type) = (Operation::TopKInsert, &table.layout().column(column).data_type);
    let mut total = entries.first().map_or(Value::Null, |entry| entry.to_value());
    for entry in entries.iter().skip(1) {
        total = merge(operation, &total, *entry, data_type)?;
    }
    Ok(applied(operation, total))
}
