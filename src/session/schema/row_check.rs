//! Checks of a table's rows before it gets another definition: NULL, and the keys of new unique indexes.

use std::collections::HashSet;
use std::sync::Arc;

use crate::database::Database;
use crate::database::schema::newly_not_null;
use crate::error::{Error, Result};
use crate::protocol::attempt::decode_primary_key;
use crate::range::Range;
use crate::row::Row;
use crate::session::Session;
use crate::storage::definition::TableDefinition;
use crate::storage::private_schema::PrivateDefinition;
use crate::storage::table::TableCore;
use crate::table::Table;
use crate::types::{Value, ValueRef};

impl Session {
    /// Refuses a definition that the rows do not fit now; the commit looks again.
    pub(super) fn check_rows_of(
        &mut self,
        old: &PrivateDefinition,
        base: &Arc<TableCore>,
        definition: &TableDefinition,
    ) -> Result<()> {
        let (full, empty) = old.core.redefined(definition.clone());
        let mut check = RowCheck::new(&full, &empty, &old.definition);
        if check.is_trivial() {
            return Ok(());
        }
        if !self.access()?.buffer.writes_table(base.id()) {
            return self.check_rows_beside(&mut check, base, HashSet::new());
        }
        if self.check_own_and_others(&mut check, &old.core, base).is_ok() {
            return Ok(());
        }
        // What it is refused for must be what the transaction sees.
        let table = Table::new(old.core.clone());
        self.run(|tx| {
            let mut check = RowCheck::new(&full, &empty, &old.definition);
            tx.scan(&table, Range::all())?.try_for_each(|row| check.row(&row?))
        })
    }

    /// Checks the rows that the transaction writes as it leaves them, and all others as they are in a snapshot: so writers of
    /// the others continue, and do not conflict with the transaction.
    fn check_own_and_others(
        &mut self,
        check: &mut RowCheck<'_>,
        core: &Arc<TableCore>,
        base: &Arc<TableCore>,
    ) -> Result<()> {
        let own: HashSet<Box<[u8]>> = self.access()?.buffer.written_keys(base.id()).map(Box::from).collect();
        let table = Table::new(core.clone());
        let rows = self.run(|tx| {
            let row = |key: &[u8]| {
                let key = decode_primary_key(core, key)?;
                let row = tx.get(&table, key.iter().map(ValueRef::from).collect::<Vec<_>>())?;
                Ok(row.map(|row| row.to_values()))
            };
            tx.search(|| own.iter().map(|key| row(key)).collect::<Result<Vec<_>>>())
        })?;
        rows.into_iter().flatten().try_for_each(|row| check.values(row))?;
        self.check_rows_beside(check, base, own)
    }

    /// Checks rows as they are in a snapshot, but those with these primary keys.
    fn check_rows_beside(
        &self,
        check: &mut RowCheck<'_>,
        base: &Arc<TableCore>,
        without: HashSet<Box<[u8]>>,
    ) -> Result<()> {
        let snapshot = Database::of(self.shared.clone()).snapshot()?;
        let key = base.definition().key();
        snapshot.scan(&Table::new(base.clone()), Range::all())?.try_for_each(|row| {
            let row = row?;
            let is_left_out = !without.is_empty() && {
                let key: Vec<_> = key.iter().map(|&column| row.row().value(column)).collect();
                without.contains(&base.encode_key(&key, true)?[..])
            };
            if is_left_out { Ok(()) } else { check.row(&row.row()) }
        })
    }
}

/// Looks at a table's rows before it gets another definition.
struct RowCheck<'c> {
    table: &'c TableCore,
    not_null: Vec<usize>,
    unique: Vec<(usize, HashSet<Box<[u8]>>)>,
}

impl<'c> RowCheck<'c> {
    fn new(table: &'c TableCore, empty: &[usize], before: &TableDefinition) -> RowCheck<'c> {
        let definition = table.definition();
        let unique = empty.iter().filter(|&&at| definition.indexes[at].unique);
        RowCheck {
            table,
            not_null: undecided_not_null(before, definition),
            unique: unique.map(|&at| (at, HashSet::new())).collect(),
        }
    }

    fn is_trivial(&self) -> bool {
        self.not_null.is_empty() && self.unique.is_empty()
    }

    fn row(&mut self, row: &Row<'_>) -> Result<()> {
        self.values(row.to_values())
    }

    fn values(&mut self, mut values: Vec<Value>) -> Result<()> {
        let definition = self.table.definition();
        let past = definition.added.values();
        let missing = definition.columns.len() - values.len();
        values.extend_from_slice(&past[past.len() - missing..]);
        if let Some(&at) = self.not_null.iter().find(|&&at| values[at].is_null()) {
            let what = format!("{}.{}", definition.name(), definition.columns[at].name);
            return Err(Error::NullValue { what });
        }
        for (at, seen) in &mut self.unique {
            let index = &definition.indexes[*at];
            if index.columns.iter().any(|&column| values[column].is_null()) {
                continue;
            }
            let key = self.table.index_key(*at, &[], |column| Ok(ValueRef::from(&values[column])))?;
            if !seen.insert(key[..].into()) {
                let table = definition.name().to_string();
                return Err(Error::NotUnique { table, index: index.name.clone() });
            }
        }
        Ok(())
    }
}

/// The columns that refuse NULL now, and did not before, but for added ones that are not NULL in the rows that there were.
pub(super) fn undecided_not_null(before: &TableDefinition, now: &TableDefinition) -> Vec<usize> {
    let first = now.columns.len() - now.added.values().len();
    let is_decided = |at: usize| at >= before.columns.len() && !now.added.values()[at - first].is_null();
    newly_not_null(before, now).into_iter().filter(|&at| !is_decided(at)).collect()
}
