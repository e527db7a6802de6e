//! Rows that a group of the log has changed, as one transaction of the standby.
//!
//! The changes are applied, in the order of the log, to copies of the rows; then one write for each row is buffered, and all are
//! committed together. Rows that change the values of a unique index are deleted and inserted again, after all other
//! deletes: two rows may have exchanged their values, and no order of updates would pass through states without duplicates.

use std::collections::HashMap;
use std::sync::Arc;

use bumpalo::Bump;

use crate::error::{Error, Result};
use crate::pipeline::engine::Engine;
use crate::pipeline::execute::{Body, execute_here};
use crate::protocol::attempt::{Attempt, Target};
use crate::storage::catalog;
use crate::storage::redo::{LoggedChange, Reader};
use crate::storage::restore::operate;
use crate::storage::schema::SchemaChange;
use crate::storage::table::{TableCore, TableId};
use crate::types::ValueRef;

/// The position of a table's name in its row of the table of tables.
const NAME: usize = 1;

/// A logged change of a record.
pub(super) struct RowChange<'p> {
    /// The table, under a definition that knows all columns of the change.
    pub(super) table: Arc<TableCore>,
    /// The change from its head on.
    pub(super) bytes: &'p [u8],
    /// True for merged operations on split columns.
    pub(super) is_merged: bool,
}

/// A transaction that makes logged changes, and changes the schema with them.
#[derive(Default)]
pub(super) struct Rows<'r, 'p> {
    pub(super) changes: &'r [RowChange<'p>],
    /// Tables whose row in the table of tables is written once more, because only a transaction that writes changes the schema.
    pub(super) rewritten: &'r [TableId],
    /// Makes the changes of the schema.
    pub(super) schema: Option<&'r dyn Fn() -> Vec<SchemaChange>>,
}

impl Rows<'_, '_> {
    /// Commits them.
    ///
    /// # Errors
    /// The changes are none of this database; memory is short; the database is being closed.
    pub(super) fn commit(mut self, engine: &Engine) -> Result<()> {
        if self.changes.is_empty() && self.schema.is_none() {
            return Ok(());
        }
        let outcome = execute_here(engine, &mut self, false);
        outcome.failure.map_or(Ok(()), |error| Err(*error))
    }

    fn buffer<'a>(&self, attempt: &Attempt<'a>) -> Result<()> {
        let arena = Bump::new();
        let mut images = Images { attempt, arena: &arena, places: HashMap::new(), images: Vec::new() };
        self.changes.iter().try_for_each(|change| images.apply(change))?;
        images.write()?;
        if let Some(schema) = self.schema {
            let store = attempt.store();
            let tables = store.table(catalog::TABLES).ok_or(Error::Closed)?;
            let tables = attempt.hold(&tables)?;
            for &id in self.rewritten {
                rewrite(attempt, tables, id)?;
            }
            schema().into_iter().for_each(|change| attempt.change_schema(change));
        }
        Ok(())
    }
}

impl Body for Rows<'_, '_> {
    fn run(&mut self, attempt: &Attempt<'_>) -> Result<()> {
        self.buffer(attempt)
    }

    fn code(&self) -> usize {
        <Self as Body>::run as *const () as usize
    }

    fn reserves(&self) -> bool {
        false
    }
}

/// Writes the row of a table in the table of tables as it is.
fn rewrite<'a>(attempt: &Attempt<'a>, tables: &'a TableCore, id: TableId) -> Result<()> {
    let key = tables.encode_key(&[ValueRef::Int(i64::from(id))], true)?;
    let target = target_of(tables, &key);
    let Some(row) = attempt.replayed_row(&target)? else { return Err(no_row(tables)) };
    // SAFETY: the row is in the attempt's arena, its blocks are pinned or there too.
    let name = unsafe { tables.layout().value(row, NAME) };
    attempt.replay_columns(&target, &[(NAME, name)])
}

fn target_of<'t, 'a>(table: &'a TableCore, key: &'t [u8]) -> Target<'t, 'a> {
    Target { table, key, hash: table.hash(key), found: None, declared: false }
}

fn no_row(table: &TableCore) -> Error {
    let detail = format!("a change of a row of {:?} that is not there", table.definition().name());
    Error::Malformed { what: "redo of this database", detail }
}

/// Rows that a transaction changes.
struct Images<'r, 'a, 'p> {
    attempt: &'r Attempt<'a>,
    arena: &'r Bump,
    places: HashMap<(TableId, &'p [u8]), usize>,
    images: Vec<Image<'r, 'a, 'p>>,
}

/// A row before and after the changes.
struct Image<'r, 'a, 'p> {
    table: &'a TableCore,
    key: &'p [u8],
    before: Option<&'a [u64]>,
    now: &'r mut [u64],
    is_there: bool,
    /// True if it is deleted and inserted again.
    is_moved: bool,
}

impl<'r, 'a, 'p> Images<'r, 'a, 'p> {
    fn apply(&mut self, change: &RowChange<'p>) -> Result<()> {
        let mut reader = Reader::new(change.bytes);
        if change.is_merged {
            let Some(head) = reader.next_merged()? else { return Ok(()) };
            let arena = self.arena;
            let image = self.image(&change.table, head.key)?;
            if !image.is_there {
                return Err(no_row(image.table));
            }
            for _ in 0..head.columns {
                let (column, operation, operand) = reader.merged_column(image.table)?;
                operate(image.table.layout(), image.now, column, operation, operand, arena)?;
            }
            return Ok(());
        }
        let Some(head) = reader.next_head()? else { return Ok(()) };
        let arena = self.arena;
        let image = self.image(&change.table, head.key)?;
        if head.change == LoggedChange::Columns && !image.is_there {
            return Err(no_row(image.table));
        }
        reader.apply(head.change, image.table, image.now, arena)?;
        image.is_there = head.change != LoggedChange::Gone;
        if image.is_there && !image.table.layout().fits_key(image.now, head.key) {
            let detail = format!("a row of {:?} under another row's key", image.table.definition().name());
            return Err(Error::Malformed { what: "redo of this database", detail });
        }
        Ok(())
    }

    /// The image of the row of this key.
    fn image(&mut self, table: &TableCore, key: &'p [u8]) -> Result<&mut Image<'r, 'a, 'p>> {
        let place = match self.places.get(&(table.id(), key)) {
            Some(&place) => place,
            None => {
                let table = self.attempt.hold(table)?;
                let before = self.attempt.replayed_row(&target_of(table, key))?;
                let now = self.arena.alloc_slice_fill_copy(table.layout().words(), 0);
                before.inspect(|before| now.copy_from_slice(before));
                let is_there = before.is_some();
                self.images.push(Image { table, key, before, now, is_there, is_moved: false });
                self.places.insert((table.id(), key), self.images.len() - 1);
                self.images.len() - 1
            }
        };
        Ok(&mut self.images[place])
    }

    /// Buffers a write for each row.
    fn write(&mut self) -> Result<()> {
        for image in &mut self.images {
            if image.before.is_none() {
                continue;
            }
            image.is_moved = image.is_there && image.changes_unique_index();
            if !image.is_there || image.is_moved {
                self.attempt.replay_delete(&target_of(image.table, image.key))?;
            }
        }
        for image in self.images.iter().filter(|image| image.is_there) {
            let (target, layout) = (target_of(image.table, image.key), image.table.layout());
            // SAFETY: the image's blocks are in the arena, or in the attempt's copy of the row.
            let value = |column: usize| unsafe { layout.value(image.now, column) };
            if image.before.is_none() || image.is_moved {
                let values: Vec<_> = (0..layout.len()).map(value).collect();
                self.attempt.replay_row(&target, &values)?;
                continue;
            }
            let changes: Vec<_> = image.changed().map(|column| (column, value(column))).collect();
            if !changes.is_empty() {
                self.attempt.replay_columns(&target, &changes)?;
            }
        }
        Ok(())
    }
}

impl Image<'_, '_, '_> {
    /// The columns whose values are others than before.
    fn changed(&self) -> impl Iterator<Item = usize> + '_ {
        let layout = self.table.layout();
        (0..layout.len()).filter(move |&column| {
            let Some(before) = self.before else { return true };
            // SAFETY: blocks of both are in the arena, or in the attempt's copy of the row.
            let (old, new) = unsafe { (layout.value(before, column), layout.value(self.now, column)) };
            match (old, new) {
                // Two zeros are equal, and differ in their sign.
                (ValueRef::Float(old), ValueRef::Float(new)) => old.to_bits() != new.to_bits(),
                (old, new) => old != new,
            }
        })
    }

    fn changes_unique_index(&self) -> bool {
        let mut unique = self.table.secondary().iter().filter(|index| index.definition.unique).peekable();
        if unique.peek().is_none() {
            return false;
        }
        let changed: Vec<usize> = self.changed().collect();
        unique.any(|index| index.definition.columns.iter().any(|column| changed.contains(column)))
    }
}
