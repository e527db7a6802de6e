//! Foreign keys as they are enforced: resolved to tables, columns and indexes, for all tables of the schema in force.
//!
//! # Invariants
//! The schema in force always has its own resolution: a schema change that adds, changes or takes away a table which has
//! foreign keys, or which one refers to, resolves all of them again while the gate is closed, and begins a generation. So an
//! attempt that was enforcing an older resolution does not commit.
//!
//! A session's transaction that changes the schema has a private resolution ([`crate::storage::private_schema`]) of the tables as it
//! has them.
//!
//! # Concurrency
//! Attempts read the resolution without a lock, as long as they are pinned; one that was replaced is freed when every
//! thread that was pinned then has unpinned.

use std::collections::HashMap;
use std::ptr;
use std::sync::Arc;

use crossbeam_epoch::Guard;
use smallvec::SmallVec;

#[cfg(test)]
use crate::base::atomics::AtomicUsize;
use crate::base::atomics::{AtomicPtr, Ordering};
use crate::error::{Error, Result};
use crate::storage::definition::{ForeignKey, KeyIndex, ReferentialAction, TableDefinition};
use crate::storage::table::{TableCore, TableId};
use crate::types::ValueRef;
use crate::types::key::{EncodedKey, encode_component};

/// The most that the writes of a table do to other rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum Reach {
    /// Nothing.
    #[default]
    Nothing = 0,
    /// Other rows are read, to look for a referenced row or a referring one.
    Reads = 1,
    /// Other rows are changed.
    Writes = 2,
}

/// A foreign key whose tables, columns and indexes are known by position.
pub(crate) struct Link<T = Arc<TableCore>> {
    pub(crate) key: ForeignKey,
    /// The table whose rows refer.
    pub(crate) child: T,
    /// The table that they refer to.
    pub(crate) parent: T,
    /// The columns of the child, in the order of the foreign key.
    pub(crate) columns: Box<[usize]>,
    /// The columns of the parent, in the same order.
    pub(crate) referenced: Box<[usize]>,
    /// The parent's index in which referenced values are unique; `None` while the transaction that adds it has not
    /// committed.
    pub(crate) parent_index: Option<LinkIndex>,
    /// The child's index that begins with the foreign key; `None` as above.
    pub(crate) child_index: Option<LinkIndex>,
}

/// An index by which rows of one side are found.
pub(crate) struct LinkIndex {
    pub(crate) index: KeyIndex,
    /// The position in the foreign key of each of its first columns.
    places: Box<[usize]>,
}

/// A table in a schema change: with the definition that it will have, where some of its indexes are still to be filled.
#[derive(Clone)]
pub(crate) struct TableView {
    pub(crate) core: Arc<TableCore>,
    pending: Option<TableDefinition>,
}

impl TableView {
    /// A table with indexes that are none of `core`'s yet.
    pub(crate) fn pending(core: Arc<TableCore>, definition: TableDefinition) -> TableView {
        TableView { core, pending: Some(definition) }
    }

    /// A table with the definition that it has.
    pub(crate) fn as_it_is(core: Arc<TableCore>) -> TableView {
        TableView { core, pending: None }
    }

    /// Tables with the definitions that they have.
    pub(crate) fn all(tables: Vec<Arc<TableCore>>) -> Vec<TableView> {
        tables.into_iter().map(TableView::as_it_is).collect()
    }

    /// The definition that it will have.
    pub(crate) fn definition(&self) -> &TableDefinition {
        self.pending.as_ref().unwrap_or_else(|| self.core.definition())
    }
}

impl Link<()> {
    /// Resolves a foreign key by the definitions of its tables.
    ///
    /// # Errors
    /// [`Error::InvalidDefinition`], [`Error::UnknownColumn`].
    pub(crate) fn of(
        key: &ForeignKey,
        child: &TableDefinition,
        parent: &TableDefinition,
    ) -> Result<Link<()>> {
        let wrong = |detail: String| {
            let detail = format!("foreign key {:?}: {detail}", key.name);
            Error::InvalidDefinition { table: child.name().to_string(), detail }
        };
        let columns = child.referring_columns(key)?;
        let referenced = match key.referenced.is_empty() {
            true => parent.key().to_vec(),
            false => key.referenced.iter().map(|name| parent.position(name)).collect::<Result<Vec<_>>>()?,
        };
        if referenced.len() != columns.len() {
            return Err(wrong(format!(
                "it has {} columns, and the primary key of {:?} has {}; name as many",
                columns.len(),
                parent.name(),
                referenced.len()
            )));
        }
        for (&column, &to) in columns.iter().zip(&referenced) {
            let (column, to) = (&child.columns()[column], &parent.columns()[to]);
            if column.data_type != to.data_type {
                return Err(wrong(format!(
                    "column {:?} is of type {}, and {:?} of {:?} of type {}; give them one type",
                    column.name,
                    column.data_type,
                    to.name,
                    parent.name(),
                    to.data_type
                )));
            }
        }
        if parent.unique_index_of(&referenced).is_none() {
            return Err(wrong(format!(
                "no two rows of {:?} may share what it refers to; refer to its primary key or add a unique index",
                parent.name()
            )));
        }
        if child.index_beginning_with(&columns).is_none() {
            return Err(wrong("its columns have no index; add one that begins with them".to_string()));
        }
        Ok(Link {
            key: key.clone(),
            child: (),
            parent: (),
            parent_index: None,
            child_index: None,
            columns: columns.into(),
            referenced: referenced.into(),
        })
    }

    /// This foreign key between these tables, by the indexes that they have.
    pub(crate) fn between(self, child: Arc<TableCore>, parent: Arc<TableCore>) -> Link {
        let Link { key, columns, referenced, .. } = self;
        let found = |table: &TableCore, index: Option<KeyIndex>, columns: &[usize]| {
            let index = index?;
            let indexed = &table.definition().columns_of(index)[..columns.len()];
            Some(LinkIndex { index, places: places(indexed, columns) })
        };
        let parent_index = found(&parent, parent.definition().unique_index_of(&referenced), &referenced);
        let child_index = found(&child, child.definition().index_beginning_with(&columns), &columns);
        Link { key, child, parent, columns, referenced, parent_index, child_index }
    }
}

impl Link {
    /// The parent's index in which referenced values are unique, and the key there of the row that has these; `None` if it
    /// has no such index yet.
    ///
    /// # Errors
    /// A value that fits no key.
    pub(crate) fn parent_key(&self, values: &[ValueRef<'_>]) -> Result<Option<(KeyIndex, EncodedKey)>> {
        let Some(LinkIndex { index, places }) = &self.parent_index else { return Ok(None) };
        let values = in_order(values, places);
        let key = match *index {
            KeyIndex::Primary => self.parent.encode_key(&values, true)?,
            KeyIndex::Secondary(position) => self.parent.encode_index_prefix(position, &values)?,
        };
        Ok(Some((*index, key)))
    }

    /// The child's index that begins with the foreign key, and the beginning there of the keys of all rows that refer to
    /// these values; `None` as above.
    ///
    /// # Errors
    /// Same errors as [`parent_key`](Self::parent_key).
    pub(crate) fn child_prefix(&self, values: &[ValueRef<'_>]) -> Result<Option<(KeyIndex, EncodedKey)>> {
        let Some(LinkIndex { index, places }) = &self.child_index else { return Ok(None) };
        let values = in_order(values, places);
        let prefix = match *index {
            KeyIndex::Primary => self.child.encode_key(&values, false)?,
            KeyIndex::Secondary(position) => self.child.encode_index_prefix(position, &values)?,
        };
        Ok(Some((*index, prefix)))
    }

    /// These columns' values of a row, comparable with those of the other side; `None` if one of them is NULL.
    ///
    /// # Errors
    /// Same errors as [`parent_key`](Self::parent_key).
    pub(crate) fn encoded(&self, columns: &[usize], row: &[ValueRef<'_>]) -> Result<Option<Box<[u8]>>> {
        let mut key = EncodedKey::new();
        for (&column, &referenced) in columns.iter().zip(&self.referenced) {
            if row[column].is_null() {
                return Ok(None);
            }
            encode_component(
                &mut key,
                row[column],
                &self.parent.layout().column(referenced).data_type,
                false,
            )?;
        }
        Ok(Some(key[..].into()))
    }
}

/// The table in which an index has its records.
pub(crate) fn index_table(table: &TableCore, index: KeyIndex) -> &TableCore {
    match index {
        KeyIndex::Primary => table,
        KeyIndex::Secondary(position) => &table.secondary()[position].table,
    }
}

fn in_order<'v>(values: &[ValueRef<'v>], places: &[usize]) -> SmallVec<[ValueRef<'v>; 4]> {
    places.iter().map(|&place| values[place]).collect()
}

/// The position of each of an index's columns among those of a foreign key.
fn places(indexed: &[usize], columns: &[usize]) -> Box<[usize]> {
    indexed.iter().filter_map(|of| columns.iter().position(|column| column == of)).collect()
}

/// The foreign keys that concern one table.
#[derive(Default)]
pub(crate) struct TableLinks {
    /// Its own.
    pub(crate) outgoing: Vec<Arc<Link>>,
    /// The foreign keys that refer to it.
    pub(crate) incoming: Vec<Arc<Link>>,
}

impl TableLinks {
    /// The most that its writes do to other rows.
    pub(crate) fn reach(&self) -> Reach {
        let changes = |action: ReferentialAction| action.changes_rows();
        let cascades =
            self.incoming.iter().any(|link| changes(link.key.on_delete) || changes(link.key.on_update));
        if cascades { Reach::Writes } else { Reach::Reads }
    }

    /// Returns true if it has foreign keys itself.
    pub(crate) fn has_own(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Returns true if this column is one of a foreign key.
    pub(crate) fn concern(&self, column: usize) -> bool {
        self.outgoing.iter().any(|link| link.columns.contains(&column))
            || self.incoming.iter().any(|link| link.referenced.contains(&column))
    }

    /// Returns true if there are foreign keys that are not among those before.
    pub(crate) fn has_more_than(&self, before: Option<&TableLinks>) -> bool {
        let all = |links: &TableLinks| {
            let all = links.outgoing.iter().chain(&links.incoming);
            all.map(|link| (link.child.definition().name().to_string(), link.key.clone())).collect::<Vec<_>>()
        };
        let before = before.map(all).unwrap_or_default();
        all(self).iter().any(|link| !before.contains(link))
    }

    /// Returns true if one of them is checked at the end of the transaction.
    pub(crate) fn are_deferred(&self) -> bool {
        self.outgoing.iter().chain(&self.incoming).any(|link| link.key.is_deferred)
    }
}

/// All foreign keys of a schema, by table.
#[derive(Default)]
pub(crate) struct SchemaLinks {
    tables: HashMap<TableId, TableLinks>,
}

impl SchemaLinks {
    /// The foreign keys of these tables.
    ///
    /// # Errors
    /// One cannot be resolved.
    pub(crate) fn of(tables: &[TableView]) -> Result<SchemaLinks> {
        let mut links = SchemaLinks::default();
        for child in tables {
            for key in child.definition().foreign_keys() {
                let parent = parent_of(tables, child.definition(), key)?;
                let link = Link::of(key, child.definition(), parent.definition())?;
                let link = Arc::new(link.between(child.core.clone(), parent.core.clone()));
                links.tables.entry(child.core.id()).or_default().outgoing.push(link.clone());
                links.tables.entry(parent.core.id()).or_default().incoming.push(link);
            }
        }
        // Rows that refer keep what a refusal would protect until all refusals are known.
        for links in links.tables.values_mut() {
            links.incoming.sort_by_key(|link| link.key.on_delete.changes_rows());
        }
        Ok(links)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// The foreign keys that concern a table.
    pub(crate) fn table(&self, id: TableId) -> Option<&TableLinks> {
        self.tables.get(&id)
    }
}

/// The table that a foreign key refers to.
///
/// # Errors
/// [`Error::InvalidDefinition`]: it does not exist.
pub(crate) fn parent_of<'t>(
    tables: &'t [TableView],
    child: &TableDefinition,
    key: &ForeignKey,
) -> Result<&'t TableView> {
    let parent = tables.iter().find(|table| table.definition().name() == key.table());
    parent.ok_or_else(|| {
        let detail = format!(
            "foreign key {:?} refers to table {:?}, which does not exist; create it first",
            key.name(),
            key.table()
        );
        Error::InvalidDefinition { table: child.name().to_string(), detail }
    })
}

/// The resolution in force.
pub(crate) struct Resolution {
    /// Null: no table has a foreign key.
    links: AtomicPtr<SchemaLinks>,
    /// The way in which it is broken on purpose.
    #[cfg(test)]
    broken: AtomicUsize,
}

/// Ways to break the enforcement on purpose: for tests of the tests.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum Break {
    /// Nothing: the control, which must pass.
    Nothing,
    /// Rows that refer are not checked.
    SkipsReferring,
    /// Rows that are referred to go without a look at those that refer.
    SkipsReferenced,
    /// The existence of a row is looked up, and not noted as read.
    ForgetsExistence,
}

#[cfg(test)]
impl Resolution {
    /// Breaks the enforcement of foreign keys in this way from here on.
    pub(crate) fn break_on_purpose(&self, how: Break) {
        self.broken.store(how as usize, Ordering::SeqCst);
    }

    /// Returns true if foreign keys are broken in this way.
    pub(crate) fn is_broken(&self, how: Break) -> bool {
        self.broken.load(Ordering::SeqCst) == how as usize
    }
}

impl Default for Resolution {
    fn default() -> Resolution {
        Resolution {
            links: AtomicPtr::new(ptr::null_mut()),
            #[cfg(test)]
            broken: AtomicUsize::new(Break::Nothing as usize),
        }
    }
}

impl Resolution {
    /// All foreign keys, if there are any.
    pub(crate) fn current<'g>(&self, _guard: &'g Guard) -> Option<&'g SchemaLinks> {
        // Acquire pairs with the release in `replace`.
        let current = self.links.load(Ordering::Acquire);
        // SAFETY: it is null or came from a box; one that is replaced is dropped only when every thread that was
        // pinned then has unpinned.
        unsafe { current.as_ref() }
    }

    /// Puts another resolution in its place: one thread at a time, that of a schema change.
    pub(crate) fn replace(&self, links: SchemaLinks, guard: &Guard) {
        let new = if links.is_empty() { ptr::null_mut() } else { Box::into_raw(Box::new(links)) };
        // AcqRel: a thread that sees the new one sees what it is made of; the old one is dropped as a whole.
        let old = self.links.swap(new, Ordering::AcqRel);
        if !old.is_null() {
            let old = Retired(old);
            // SAFETY: it came from a box, it has just been taken out, and only threads that are pinned now can use it.
            unsafe { guard.defer_unchecked(move || old.free()) };
        }
    }
}

impl Drop for Resolution {
    fn drop(&mut self) {
        // Relaxed: no other thread has the store any more.
        let current = self.links.load(Ordering::Relaxed);
        if !current.is_null() {
            Retired(current).free();
        }
    }
}

/// A resolution on its way out.
struct Retired(*mut SchemaLinks);

// SAFETY: a resolution may be dropped by any thread: it is made of what may be sent.
unsafe impl Send for Retired {}

impl Retired {
    fn free(self) {
        // SAFETY: it came from a box, and only its one owner calls this, when no other thread uses it.
        drop(unsafe { Box::from_raw(self.0) });
    }
}
