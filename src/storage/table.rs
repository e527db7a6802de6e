//! A table: its records, and the indexes through which they are found.
//!
//! A secondary index is a table too, an internal one: its records' keys are the indexed values (followed by the
//! primary key, unless they are unique), its rows hold the primary key. So protocols treat index records as records.
//! It is not logged; recovery derives it.
//!
//! Invariants: a record is in every primary index of its table, or is being inserted or removed. It is inserted as an
//! absent placeholder, into the hash index first; it is removed only with the word [`DEAD`], from the hash index last. So
//! a thread that finds a dead record looks again, and at most one living record has a given key.

use std::ops::Bound;
use std::sync::Arc;

use crossbeam_epoch::Guard;
use crossbeam_utils::Backoff;

use crate::base::atomics::Ordering;
use crate::diagnostics::activity::{Activity, at};
use crate::error::{Error, Result};
use crate::storage::checks::Checks;
use crate::storage::definition::{
    ColumnLimit, Identity, IdentityColumn, IndexDefinition, PrimaryIndex, TableDefinition,
};
use crate::storage::index::hash::{HashCursor, HashIndex};
use crate::storage::index::ordered::{Near, OrderedIndex};
use crate::storage::index::{Insertion, LeafSplit, Lookup, NodeVersion};
use crate::storage::record::{Record, RowSize, record_lines};
use crate::storage::row::{Extensions, RowLayout};
use crate::storage::slab::{Cutter, Slabs};
use crate::storage::word::{ABSENT, DEAD, PLACEHOLDER};
use crate::types::key::{EncodedKey, KeyKind, encode_component, flip_64};
use crate::types::{DataType, ValueRef};

mod bulk;
mod change;
mod load;
mod range_scan;
mod table_memory;
mod vacate;
pub(crate) use bulk::{FreshRecords, FreshRow};
use change::{Change, OfRecords};
pub(crate) use load::{LoadScratch, Loaded};
pub(crate) use range_scan::{RangeScan, is_above, is_below};
pub use table_memory::TableMemory;
pub(crate) use vacate::{Vacated, free_record};

/// A table's number: never used again once given.
pub(crate) type TableId = u32;
/// The longest encoded key, in bytes.
pub(crate) const MAXIMAL_KEY_BYTES: usize = 4_096;

/// Most keys have no more bytes than this.
const USUAL_KEY_BYTES: usize = 16;

/// A table with its records.
pub(crate) struct TableCore {
    store: u64,
    id: TableId,
    definition: TableDefinition,
    layout: Arc<RowLayout>,
    /// The number of words of records that it makes while another definition of them is in force: that one's.
    words_in_force: usize,
    /// The number of lines of a record with a usual key.
    usual_lines: usize,
    slabs: Arc<Slabs>,
    hash: Option<Arc<HashIndex>>,
    ordered: Option<Arc<OrderedIndex>>,
    secondary: Vec<Secondary>,
    /// For each column, whether a secondary index contains it.
    indexed: Vec<bool>,
    /// For each column, whether it is in no key and no index, so that it can be changed alone.
    plain: Vec<bool>,
    /// For each column, whether operations on it need no look at anything else: it is plain, and no evaluator is needed.
    open: Vec<bool>,
    /// For each column, which integers it takes, and takes as operands, if it is a plain one of integers.
    plain_ints: Vec<Option<(i64, i64)>>,
    /// The checks that every row must pass, if there are any.
    checks: Option<Checks>,
    identity: Option<Box<IdentityColumn>>,
    /// For each column of the key, whether it is an integer's, and of what width.
    key_kinds: Box<[KeyKind]>,
    internal: bool,
    /// The schema changes that have made, replaced or dropped it.
    change: Change,
    /// The parts of its records for columns that were added later; all definitions of the same records share it.
    extensions: Arc<Extensions>,
    /// State that all definitions of the same records share.
    of_records: Arc<OfRecords>,
}

/// A secondary index: what it indexes, and the internal table that is it.
pub(crate) struct Secondary {
    pub(crate) definition: IndexDefinition,
    pub(crate) table: Arc<TableCore>,
}

/// The progress of a full scan of a table.
pub(crate) enum PageCursor<'g> {
    /// The beginning.
    Start,
    /// This key, in the ordered index.
    Ordered(&'g [u8]),
    /// A place in the hash index.
    Hash(HashCursor),
    /// Everything was seen.
    End,
}

/// A place in a full scan that outlives a pin.
#[derive(Clone, Debug)]
pub(crate) enum ScanPlace {
    /// The beginning.
    Start,
    /// This key, in the ordered index.
    Ordered(Box<[u8]>),
    /// A place in the hash index.
    Hash(HashCursor),
}

impl TableCore {
    /// An empty table. The definition has been validated.
    pub(crate) fn new(store: u64, slabs: &Arc<Slabs>, id: TableId, definition: TableDefinition) -> TableCore {
        let secondary = definition
            .indexes
            .iter()
            .map(|index| Secondary {
                definition: index.clone(),
                table: Arc::new(Self::index_table(store, slabs, id, index)),
            })
            .collect();
        Self::with_indexes(Self::bare(store, slabs, (id, Arc::default()), definition), secondary)
    }

    /// A table with these secondary indexes, which its definition lists.
    fn with_indexes(mut table: TableCore, secondary: Vec<Secondary>) -> TableCore {
        let mut indexed = vec![false; table.definition.columns.len()];
        for &position in table.definition.indexes.iter().flat_map(|index| &index.columns) {
            indexed[position] = true;
        }
        table.secondary = secondary;
        table.plain = (0..indexed.len())
            .map(|column| {
                !indexed[column] && !table.definition.key.contains(&column) && !table.is_fixed(column)
            })
            .collect();
        let is_evaluated = table.definition.evaluator.is_some();
        if is_evaluated {
            table.need_evaluator();
        }
        table.open = table.plain.iter().map(|plain| *plain && !is_evaluated).collect();
        table.plain_ints = (0..indexed.len())
            .map(|column| match table.definition.columns[column].data_type {
                _ if !table.open[column] => None,
                DataType::Int32 => Some((i32::MIN.into(), i32::MAX.into())),
                DataType::Int64 => Some((i64::MIN, i64::MAX)),
                _ => None,
            })
            .collect();
        table.indexed = indexed;
        table
    }

    fn bare(
        store: u64,
        slabs: &Arc<Slabs>,
        (id, extensions): (TableId, Arc<Extensions>),
        definition: TableDefinition,
    ) -> TableCore {
        let kind = definition.primary_index;
        let layout = Arc::new(RowLayout::of_records(&definition, &extensions));
        TableCore {
            store,
            id,
            usual_lines: record_lines(USUAL_KEY_BYTES, layout.size()),
            words_in_force: layout.words(),
            layout,
            slabs: slabs.clone(),
            hash: (kind != PrimaryIndex::Ordered).then(|| Arc::new(HashIndex::new())),
            ordered: (kind != PrimaryIndex::Hash).then(|| Arc::new(OrderedIndex::new())),
            secondary: Vec::new(),
            indexed: Vec::new(),
            plain: Vec::new(),
            open: Vec::new(),
            plain_ints: Vec::new(),
            checks: Checks::of(&definition),
            identity: definition.identity_column().map(Box::new),
            key_kinds: definition
                .key
                .iter()
                .map(|&at| KeyKind::of(&definition.columns[at].data_type))
                .collect(),
            internal: false,
            change: Change::default(),
            of_records: Arc::default(),
            extensions,
            definition,
        }
    }

    fn index_table(store: u64, slabs: &Arc<Slabs>, id: TableId, index: &IndexDefinition) -> TableCore {
        let definition = TableDefinition::new(index.name.clone())
            .column("primary key", DataType::Bytes)
            .primary_key(["primary key"])
            .primary_index(PrimaryIndex::Ordered);
        let mut table = Self::bare(store, slabs, (id, Arc::default()), definition);
        table.internal = true;
        table
    }

    /// The version in which it writes the redo of its rows.
    #[inline]
    pub(crate) fn row_version(&self) -> u64 {
        self.definition.row_version()
    }

    /// The identity of the store that it belongs to.
    #[inline]
    pub(crate) fn store(&self) -> u64 {
        self.store
    }

    /// Its number.
    #[inline]
    pub(crate) fn id(&self) -> TableId {
        self.id
    }

    /// The identity of the table: no other table in this process has the same.
    #[inline]
    pub(crate) fn identity(&self) -> (u64, TableId) {
        (self.store, self.id)
    }

    /// The identity of its records: all definitions of the same records share it, and no other table of the process.
    #[inline]
    pub(crate) fn records_identity(&self) -> u64 {
        let index = match (&self.hash, &self.ordered) {
            (Some(index), _) => Arc::as_ptr(index).addr(),
            (None, Some(index)) => Arc::as_ptr(index).addr(),
            (None, None) => 0,
        };
        index as u64
    }

    /// The table's definition.
    #[inline]
    pub(crate) fn definition(&self) -> &TableDefinition {
        &self.definition
    }

    /// The layout of its rows in memory.
    #[inline]
    pub(crate) fn layout(&self) -> &RowLayout {
        &self.layout
    }

    /// The layout, for a record that outlives its table.
    pub(crate) fn shared_layout(&self) -> Arc<RowLayout> {
        self.layout.clone()
    }

    /// The size of the records that it makes. Until it is in force, other transactions may fill such a record with a row of the
    /// definition that is: words behind that row would hide the values of the past of columns that are added later.
    fn record_size(&self) -> RowSize {
        let words = if self.has_moved() { self.words_in_force } else { self.layout.words() };
        RowSize { words, ..self.layout.size() }
    }

    /// The source of its records' memory.
    pub(crate) fn slabs(&self) -> &Arc<Slabs> {
        &self.slabs
    }

    /// Its secondary indexes.
    #[inline]
    pub(crate) fn secondary(&self) -> &[Secondary] {
        &self.secondary
    }

    /// Returns true if a secondary index contains this column.
    #[inline]
    pub(crate) fn is_indexed(&self, column: usize) -> bool {
        self.indexed.get(column).copied().unwrap_or(false)
    }

    /// Returns true if this column is in no key and no index.
    #[inline]
    pub(crate) fn is_plain(&self, column: usize) -> bool {
        self.plain.get(column).copied().unwrap_or(false)
    }

    /// Returns true if this column is one of integers, in no key and no index, and takes this one as an operand.
    #[inline]
    pub(crate) fn takes_plain_operand(&self, column: usize, int: i64) -> bool {
        matches!(self.plain_ints.get(column), Some(&Some((least, most))) if least <= int && int <= most)
    }

    /// Returns true if this column of integers, in no key, no index and no check but one of bounds, takes this one.
    #[inline]
    pub(crate) fn takes_plain_int(&self, column: usize, int: i64) -> bool {
        let Some(Some(_)) = self.plain_ints.get(column) else { return false };
        let layout = self.layout.column(column);
        let (least, most) = layout.bounds();
        least <= int && int <= most && layout.limit != ColumnLimit::Checked
    }

    /// The checks that every row must pass.
    #[inline]
    pub(crate) fn checks(&self) -> Option<&Checks> {
        self.checks.as_ref()
    }

    /// The identity column, if there is one.
    #[inline]
    pub(crate) fn identity_column(&self) -> Option<&IdentityColumn> {
        self.identity.as_deref()
    }

    /// Returns true if operations on this column need no look at anything else.
    #[inline]
    pub(crate) fn is_open(&self, column: usize) -> bool {
        self.open[column]
    }

    /// Returns true if this is an identity column that no update changes.
    pub(crate) fn is_fixed(&self, column: usize) -> bool {
        let fixed = self.identity_column().filter(|identity| identity.kind == Identity::Always);
        fixed.is_some_and(|identity| identity.position == column)
    }

    /// The row of this key as it is now, outside of any transaction.
    pub(crate) fn present_row(&self, key: &[u8], guard: &Guard) -> Option<Vec<u64>> {
        let Lookup::Found(record) = self.find(self.hash(key), key, guard) else { return None };
        let mut words = vec![0; self.layout.words()];
        (record.read(&self.layout, &mut words) & ABSENT == 0).then_some(words)
    }

    /// For each column of the primary key, whether it is an integer's: such a component needs no look at the column.
    #[inline]
    pub(crate) fn key_kinds(&self) -> &[KeyKind] {
        &self.key_kinds
    }

    /// Returns true if this is the inside of a secondary index: not logged, not listed.
    pub(crate) fn is_internal(&self) -> bool {
        self.internal
    }

    /// Encodes the values of the key's first columns; all of them if `whole`.
    ///
    /// # Errors
    /// The wrong number of values, a wrong type, NULL, too long.
    pub(crate) fn encode_key(&self, values: &[ValueRef<'_>], whole: bool) -> Result<EncodedKey> {
        let mut key = EncodedKey::new();
        self.append_key(&mut key, values, whole)?;
        Ok(key)
    }

    /// Same as [`encode_key`](Self::encode_key), but into an empty key: which is large, and need not be moved.
    #[inline]
    pub(crate) fn append_key(
        &self,
        key: &mut EncodedKey,
        values: &[ValueRef<'_>],
        whole: bool,
    ) -> Result<()> {
        if values.len() > self.key_kinds.len() || whole && values.len() < self.key_kinds.len() {
            return self.wrong_key(values.len());
        }
        for (place, (&value, kind)) in values.iter().zip(&self.key_kinds).enumerate() {
            // The usual component first, without a call.
            match value {
                ValueRef::Int(int) if kind.encode(key, int) => {}
                _ => self.encode_any_key_column(key, self.definition.key[place], value)?,
            }
        }
        check_key_length(key, || self.definition.name.clone())
    }

    /// The encoded key of these values, where it is one word: the usual key, of one integer.
    #[inline(always)]
    pub(crate) fn key_word(&self, values: &[ValueRef<'_>]) -> Option<[u8; 8]> {
        match (&*self.key_kinds, values) {
            ([KeyKind::Int64], &[ValueRef::Int(int)]) => Some(flip_64(int)),
            _ => None,
        }
    }

    #[cold]
    fn wrong_key(&self, given: usize) -> Result<()> {
        let columns = &self.definition.columns;
        let names: Vec<_> = self.definition.key.iter().map(|&at| columns[at].name.as_str()).collect();
        Err(Error::WrongKey { table: self.definition.name.clone(), expected: names.join(", "), given })
    }

    /// Encodes the primary key of a row: one value for each column, in order.
    ///
    /// # Errors
    /// The wrong number of values, a wrong type, NULL, too long.
    pub(crate) fn encode_key_of_row(&self, row: &[ValueRef<'_>]) -> Result<EncodedKey> {
        let mut key = EncodedKey::new();
        for (&position, kind) in self.definition.key.iter().zip(&self.key_kinds) {
            match row.get(position) {
                Some(&ValueRef::Int(int)) if kind.encode(&mut key, int) => {}
                Some(&value) => self.encode_any_key_column(&mut key, position, value)?,
                None => {
                    let table = self.definition.name.clone();
                    return Err(Error::WrongRow { table, expected: self.layout.len(), given: row.len() });
                }
            }
        }
        check_key_length(&key, || self.definition.name.clone())?;
        Ok(key)
    }

    /// Appends the value of the key's column at this place.
    ///
    /// # Errors
    /// A wrong type, NULL.
    #[inline]
    pub(crate) fn encode_key_column(
        &self,
        key: &mut EncodedKey,
        place: usize,
        value: ValueRef<'_>,
    ) -> Result<()> {
        // The usual component first, without a call.
        if let ValueRef::Int(int) = value
            && self.key_kinds[place].encode(key, int)
        {
            return Ok(());
        }
        self.encode_any_key_column(key, self.definition.key[place], value)
    }

    fn encode_any_key_column(
        &self,
        key: &mut EncodedKey,
        position: usize,
        value: ValueRef<'_>,
    ) -> Result<()> {
        let value = self.layout.checked(position, value)?;
        encode_component(key, value, &self.layout.column(position).data_type, false)
    }

    /// The name of a secondary index in messages.
    fn index_name(&self, position: usize) -> String {
        format!("{} (index {})", self.definition.name, self.secondary[position].definition.name)
    }

    /// The index record's key for a row with these values, in the secondary index at `position`.
    pub(crate) fn index_key<'v>(
        &self,
        position: usize,
        primary_key: &[u8],
        value_of: impl Fn(usize) -> Result<ValueRef<'v>>,
    ) -> Result<EncodedKey> {
        let index = &self.secondary[position].definition;
        let mut key = EncodedKey::new();
        let mut holds_null = false;
        for &column in &index.columns {
            let value = value_of(column)?;
            holds_null |= value.is_null();
            let layout = self.layout.column(column);
            encode_component(&mut key, value, &layout.data_type, !layout.not_null)?;
        }
        if !index.unique || holds_null {
            key.extend_from_slice(primary_key);
        }
        check_key_length(&key, || self.index_name(position))?;
        Ok(key)
    }

    /// Encodes the first values of a secondary index's columns, as a prefix of its records' keys.
    pub(crate) fn encode_index_prefix(&self, position: usize, values: &[ValueRef<'_>]) -> Result<EncodedKey> {
        let index = &self.secondary[position].definition;
        if values.len() > index.columns.len() {
            let names: Vec<_> =
                index.columns.iter().map(|&at| self.definition.columns[at].name.as_str()).collect();
            return Err(Error::WrongKey {
                table: self.index_name(position),
                expected: names.join(", "),
                given: values.len(),
            });
        }
        let mut key = EncodedKey::new();
        for (&value, &column) in values.iter().zip(&index.columns) {
            let layout = self.layout.column(column);
            let value =
                if matches!(value, ValueRef::Null) { value } else { self.layout.checked(column, value)? };
            encode_component(&mut key, value, &layout.data_type, !layout.not_null)?;
        }
        Ok(key)
    }

    /// The hash under which the hash index keeps a key; zero where there is none.
    #[inline]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.hash.as_ref().map_or(0, |index| index.hash(key))
    }

    /// Asks the processor to fetch the line in which the lookup of this key begins.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64, guard: &Guard) {
        if let Some(index) = &self.hash {
            index.prefetch(hash, guard);
        }
    }

    /// Begins to bring one of its records into the cache.
    #[inline]
    pub(crate) fn prefetch_record(&self, record: Record<'_>) {
        record.prefetch(self.usual_lines);
    }

    /// Finds the record of a key ahead of its use, where that is cheap: in a hash index. A descent in an ordered one
    /// costs as much ahead as it does in its time.
    // Always: it has two callers, and the usual one would pay for a call per action.
    #[inline(always)]
    pub(crate) fn find_ahead<'g>(&'g self, hash: u64, key: &[u8], guard: &'g Guard) -> Option<Record<'g>> {
        self.hash.as_ref()?.get_at_once(hash, key, guard)
    }

    /// Finds the record of a key. What is found is not dead at that moment.
    #[inline(always)]
    pub(crate) fn find<'g>(&'g self, hash: u64, key: &[u8], guard: &'g Guard) -> Lookup<'g> {
        match self.find_ahead(hash, key, guard) {
            Some(record) if !is_dead(record) => Lookup::Found(record),
            _ => self.find_for_certain(hash, key, guard),
        }
    }

    /// Same as [`find`](Self::find), where the hash index has not shown the record at the first look.
    #[inline(never)]
    fn find_for_certain<'g>(&'g self, hash: u64, key: &[u8], guard: &'g Guard) -> Lookup<'g> {
        match self.look_up(hash, key, guard) {
            Lookup::Found(record) if is_dead(record) => self.find_living(hash, key, guard),
            answer => answer,
        }
    }

    #[inline]
    fn look_up<'g>(&'g self, hash: u64, key: &[u8], guard: &'g Guard) -> Lookup<'g> {
        match (&self.hash, &self.ordered) {
            (Some(index), _) => index.get(hash, key, guard),
            (None, Some(index)) => index.get(key, guard),
            (None, None) => unreachable!("a table has at least one primary index"),
        }
    }

    #[cold]
    fn find_living<'g>(&'g self, hash: u64, key: &[u8], guard: &'g Guard) -> Lookup<'g> {
        let backoff = Backoff::new();
        loop {
            match self.look_up(hash, key, guard) {
                // A dead record is being taken out right now: the next look finds it gone, or its successor.
                Lookup::Found(record) if is_dead(record) => wait_a_little(&backoff),
                answer => return answer,
            }
        }
    }

    /// Finds the record of a key, or puts an absent placeholder for it into every primary index.
    pub(crate) fn find_or_place<'g>(
        &'g self,
        hash: u64,
        key: &[u8],
        cutter: &mut Cutter,
        guard: &'g Guard,
    ) -> Placed<'g> {
        self.find_or_place_near(hash, key, (cutter, &mut Near::nowhere()), &mut (), guard)
    }

    /// Same as [`find_or_place`](Self::find_or_place), for a thread that may have come near in the ordered index.
    /// `changes` receives every node that it changes.
    pub(crate) fn find_or_place_near<'g>(
        &'g self,
        hash: u64,
        key: &[u8],
        (cutter, near): (&mut Cutter, &mut Near<'g>),
        changes: &mut impl NodeChanges<'g>,
        guard: &'g Guard,
    ) -> Placed<'g> {
        let backoff = Backoff::new();
        loop {
            let make = || self.slabs.make(cutter, PLACEHOLDER, key, self.record_size());
            // SAFETY: it was made above, and the index did not take it.
            let discard = |record| unsafe { self.slabs.free(record) };
            let placed = match (&self.hash, &self.ordered) {
                (Some(index), _) => Placed::of(index.get_or_insert(hash, key, make, discard, guard), changes),
                (None, Some(index)) => self.place_ordered(index, key, (cutter, near), changes, guard),
                (None, None) => unreachable!("a table has at least one primary index"),
            };
            if is_dead(placed.record) {
                wait_a_little(&backoff);
                continue;
            }
            let settled = match (&self.hash, &self.ordered) {
                // Also for a record that was found: who put it into the hash index may not have got here yet.
                (Some(_), Some(ordered)) if !is_settled(&placed) => {
                    let insertion =
                        ordered.insert_near(placed.record, near, |split| changes.split(split), guard);
                    Placed::of(insertion, changes).record == placed.record
                }
                _ => true,
            };
            if settled && !is_dead(placed.record) {
                return placed;
            }
            if let (true, Some(ordered)) = (is_dead(placed.record), &self.ordered) {
                // It may have died and been unlinked between our look and our insert: then it is ours to take out
                // again, before we unpin and it is freed. If it dies after this look, `unlink` finds our entry.
                ordered.remove(placed.record, guard);
            }
            wait_a_little(&backoff);
        }
    }

    fn place_ordered<'g>(
        &'g self,
        index: &'g OrderedIndex,
        key: &[u8],
        (cutter, near): (&mut Cutter, &mut Near<'g>),
        changes: &mut impl NodeChanges<'g>,
        guard: &'g Guard,
    ) -> Placed<'g> {
        let fresh = self.slabs.make(cutter, PLACEHOLDER, key, self.record_size());
        // SAFETY: it was just made; if the key turns out to be taken it is freed below, never having been shared.
        let fresh_record = unsafe { fresh.as_record() };
        let insertion = index.insert_near(fresh_record, near, |split| changes.split(split), guard);
        let placed = Placed::of(insertion, changes);
        if placed.record.pointer() != fresh {
            // SAFETY: the index did not take it.
            unsafe { self.slabs.free(fresh) };
        }
        placed
    }

    /// Takes a dead record out of every primary index.
    pub(crate) fn unlink(&self, record: Record<'_>, guard: &Guard) {
        debug_assert!(is_dead(record));
        if let Some(index) = &self.ordered {
            index.remove(record, guard);
        }
        if let Some(index) = &self.hash {
            index.remove(self.hash(record.key()), record, guard);
        }
    }

    /// The ordered index.
    ///
    /// # Errors
    /// The table has none.
    pub(crate) fn ordered(&self) -> Result<&OrderedIndex> {
        self.ordered.as_deref().ok_or_else(|| Error::NoOrderedIndex { table: self.definition.name.clone() })
    }

    /// The next page of all records of the table, in the order of its index.
    pub(crate) fn page<'g>(
        &'g self,
        cursor: PageCursor<'g>,
        records: &mut Vec<Record<'g>>,
        versions: &mut Vec<NodeVersion<'g>>,
        guard: &'g Guard,
    ) -> PageCursor<'g> {
        if let Some(index) = &self.ordered {
            let from = match &cursor {
                PageCursor::Start => Bound::Unbounded,
                PageCursor::Ordered(key) => Bound::Included(*key),
                _ => return PageCursor::End,
            };
            let page = index.page_forward(from, records, guard);
            versions.push(page.version);
            return page.next.map_or(PageCursor::End, PageCursor::Ordered);
        }
        let Some(index) = &self.hash else { return PageCursor::End };
        let from = match cursor {
            PageCursor::Start => None,
            PageCursor::Hash(cursor) => Some(cursor),
            _ => return PageCursor::End,
        };
        index.page(from, records, versions, guard).map_or(PageCursor::End, PageCursor::Hash)
    }

    /// The next page of all records of the table, from a place that an earlier pin has reached; where the following
    /// page begins, unless everything was seen.
    ///
    /// A place stays right whatever is inserted and deleted meanwhile: hash segments only split, and a leaf's upper
    /// bound is a key, which is in some leaf.
    pub(crate) fn page_at<'g>(
        &'g self,
        place: &ScanPlace,
        records: &mut Vec<Record<'g>>,
        guard: &'g Guard,
    ) -> Option<ScanPlace> {
        let cursor = match (place, &self.ordered) {
            (ScanPlace::Ordered(key), Some(index)) => {
                let page = index.page_forward(Bound::Included(&key[..]), records, guard);
                return page.next.map(|key| ScanPlace::Ordered(key.into()));
            }
            (ScanPlace::Hash(cursor), _) => PageCursor::Hash(*cursor),
            _ => PageCursor::Start,
        };
        match self.page(cursor, records, &mut Vec::new(), guard) {
            PageCursor::Ordered(key) => Some(ScanPlace::Ordered(key.into())),
            PageCursor::Hash(cursor) => Some(ScanPlace::Hash(cursor)),
            PageCursor::Start | PageCursor::End => None,
        }
    }

    /// An estimate of the number of records; `None` if there is no index.
    pub(crate) fn estimated_len(&self) -> Option<u64> {
        let in_order = || Some(self.ordered.as_ref()?.estimated_len(&crossbeam_epoch::pin()));
        self.hash.as_deref().map(HashIndex::estimated_len).or_else(in_order)
    }

    /// Calls `visit` for every record, present or not.
    pub(crate) fn for_each_record(&self, guard: &Guard, mut visit: impl FnMut(Record<'_>)) {
        let (mut records, mut versions) = (Vec::new(), Vec::new());
        let mut cursor = PageCursor::Start;
        while !matches!(cursor, PageCursor::End) {
            records.clear();
            versions.clear();
            cursor = self.page(cursor, &mut records, &mut versions, guard);
            records.iter().for_each(|&record| visit(record));
        }
    }
}

#[inline]
fn check_key_length(key: &[u8], of: impl FnOnce() -> String) -> Result<()> {
    if key.len() > MAXIMAL_KEY_BYTES { Err(key_too_long(key.len(), &of())) } else { Ok(()) }
}

#[cold]
fn key_too_long(bytes: usize, of: &str) -> Error {
    Error::RowTooLarge { what: format!("a key of {of}"), bytes, maximum: MAXIMAL_KEY_BYTES }
}

/// The record that [`TableCore::find_or_place`] found or inserted.
pub(crate) struct Placed<'g> {
    pub(crate) record: Record<'g>,
    /// True if the record is a placeholder that this call made.
    pub(crate) is_new: bool,
}

impl<'g> Placed<'g> {
    #[inline]
    fn of(insertion: Insertion<'g>, changes: &mut impl NodeChanges<'g>) -> Self {
        match insertion {
            Insertion::Found(record) => Placed { record, is_new: false },
            Insertion::Inserted { record, before, after } => {
                changes.inserted(before, after);
                Placed { record, is_new: true }
            }
        }
    }
}

/// Receives the index nodes that a thread has changed by its inserts.
pub(crate) trait NodeChanges<'g> {
    /// Notes an insert into a node: the version right before, and the one right after.
    fn inserted(&mut self, before: u64, after: NodeVersion<'g>);

    /// Notes the split of a leaf, to make room.
    fn split(&mut self, split: LeafSplit<'g>);
}

/// The changes are ignored.
impl NodeChanges<'_> for () {
    fn inserted(&mut self, _before: u64, _after: NodeVersion<'_>) {}

    fn split(&mut self, _split: LeafSplit<'_>) {}
}

/// Returns true if the record is leaving its table, or has left it.
#[inline]
pub(crate) fn is_dead(record: Record<'_>) -> bool {
    // Acquire pairs with the CAS that made it dead; what follows is a fresh look into the index in any case.
    record.word().load(Ordering::Acquire) == DEAD
}

/// Returns true if a found record has been committed once, so that it is surely in every index.
fn is_settled(placed: &Placed<'_>) -> bool {
    !placed.is_new
        && placed.record.word().load(Ordering::Acquire) & !crate::storage::word::BUSY != PLACEHOLDER
}

/// Waits for a thread that is within a few instructions of being done.
pub(crate) fn wait_a_little(backoff: &Backoff) {
    let _latch = at(Activity::Latch);
    if backoff.is_completed() {
        // That thread may have been preempted: yield the processor.
        std::thread::yield_now();
    } else {
        backoff.snooze();
    }
}
