//! Buffering writes: what is wrong is said here, at the statement; nothing is changed before the commit section.
//!
//! Secondary indexes are kept by writes of their own: an insert of a row inserts its index records, an update of
//! indexed columns moves them, a delete deletes them, all in the same write set.

mod replay;

use smallvec::SmallVec;

use super::{Attempt, Claim, Target};
use crate::error::{Error, Result};
use crate::operation::Operation;
use crate::protocol::footprint::Mode;
use crate::storage::foreign_keys::TableLinks;
use crate::storage::index::Lookup;
use crate::storage::read_set::Part;
use crate::storage::record::Record;
use crate::storage::row::{INLINE_BYTES, byte_length};
use crate::storage::table::{Placed, TableCore};
use crate::storage::word::PLACEHOLDER;
use crate::storage::workspace::Placeholder;
use crate::storage::write_set::Mark;
use crate::types::key::decode_component;
use crate::types::memory::Refused;
use crate::types::{DataType, Value, ValueRef};

impl<'a> Attempt<'a> {
    /// Buffers the insert of a row. `values`: one for each column, in order.
    pub(crate) fn insert(&self, target: &Target<'_, 'a>, values: &[ValueRef<'_>]) -> Result<()> {
        self.check_target(target, Mode::Write)?;
        self.check_writable()?;
        let concerns = |links: &TableLinks| !links.outgoing.is_empty();
        self.with_foreign_keys(target, Claim::Insert, concerns, || self.insert_row(target, values))
    }

    pub(super) fn insert_row(&self, target: &Target<'_, 'a>, values: &[ValueRef<'_>]) -> Result<()> {
        let table = target.table;
        let layout = table.layout();
        if values.len() != layout.len() {
            let name = table.definition().name().to_string();
            return Err(Error::WrongRow { table: name, expected: layout.len(), given: values.len() });
        }
        if self.claims.get().is_some() && self.load(target, values)? {
            return Ok(());
        }
        table.slabs().budget().admit()?;
        let mut coerced = SmallVec::<[ValueRef<'_>; 16]>::new();
        let bytes = if layout.has_blocks() { values.iter().copied().map(byte_length).sum() } else { 0 };
        self.workspace.borrow_mut().writes.reserve(2 * layout.words(), bytes)?;
        let composed = self.workspace.borrow_mut().writes.compose(layout, values);
        // A composed row has the values unchanged.
        let checked = if composed.is_some() { values } else { layout.checked_row(values, &mut coerced)? };
        if let Some(checks) = table.checks()
            && !(composed.is_some() && checks.are_bounds())
        {
            let passed = checks.check_row(&|column| checked[column]);
            if let (Err(_), Some(composed)) = (&passed, composed) {
                self.workspace.borrow_mut().writes.discard(composed);
            }
            passed?;
        }
        let placed = match self.place_new(table, target.hash, target.key) {
            Ok(Some(placed)) => placed,
            other => {
                if let Some(composed) = composed {
                    self.workspace.borrow_mut().writes.discard(composed);
                }
                return other.and_then(|_| Err(duplicate(table, target.key)));
            }
        };
        let buffer = || {
            let writes = &mut self.workspace.borrow_mut().writes;
            let record = placed.record.pointer();
            match composed {
                Some(composed) => writes.insert_composed(table, (record, placed.is_new), composed),
                None => writes.insert(table, record, checked.iter().copied()),
            }
            // Not by a closure over the result: that is large, and would be copied.
            if let Err(error) = writes.check_size() {
                writes.take_back_last();
                return Err(error);
            }
            Ok(())
        };
        let buffered = if table.secondary().is_empty() {
            buffer()
        } else {
            self.all_or_nothing(|| {
                for position in 0..table.secondary().len() {
                    self.insert_index_record(table, position, target.key, |column| Ok(checked[column]))?;
                }
                buffer()
            })
        };
        if let Err(error) = buffered {
            if self.claims.get().is_some() {
                self.note_insert(table, target.key, false);
            }
            return Err(error);
        }
        Ok(())
    }

    /// Buffers new values of these columns.
    pub(crate) fn update(&self, target: &Target<'_, 'a>, changes: &[(usize, ValueRef<'_>)]) -> Result<()> {
        self.check_target(target, Mode::Write)?;
        self.check_writable()?;
        self.update_row(target, changes)
    }

    /// Same as `update`, but does not check what the action declares.
    pub(super) fn update_row(
        &self,
        target: &Target<'_, 'a>,
        changes: &[(usize, ValueRef<'_>)],
    ) -> Result<()> {
        let table = target.table;
        let layout = table.layout();
        let mut checked = SmallVec::<[(usize, ValueRef<'_>); 8]>::new();
        for &(column, value) in changes {
            if !table.is_plain(column) {
                check_changeable(table, column)?;
            }
            checked.push((column, layout.checked(column, value)?));
        }
        layout.check_size(checked.iter().map(|&(_, value)| value))?;
        if checked.iter().any(|&(_, value)| byte_length(value) > INLINE_BYTES) {
            table.slabs().budget().admit()?;
        }
        let concerns = |links: &TableLinks| checked.iter().any(|&(column, _)| links.concern(column));
        self.with_foreign_keys(target, Claim::Write, concerns, || self.update_checked(target, &checked))
    }

    /// Buffers values that fit their columns.
    fn update_checked(&self, target: &Target<'_, 'a>, checked: &[(usize, ValueRef<'_>)]) -> Result<()> {
        let table = target.table;
        self.claim(table, target.key, Claim::Write)?;
        let record = self.require(target)?;
        self.check_update(table, target, checked)?;
        self.all_or_nothing(|| {
            if checked.iter().any(|&(column, _)| table.is_indexed(column)) {
                self.move_index_records(table, target, checked)?;
            }
            let mut workspace = self.workspace.borrow_mut();
            for &(column, value) in checked {
                workspace.writes.reserve(0, byte_length(value))?;
                workspace.writes.set(table, record.pointer(), column, value);
            }
            workspace.writes.check_size()
        })
    }

    /// Buffers the delete of a row; returns true if there was one.
    pub(crate) fn delete(&self, target: &Target<'_, 'a>) -> Result<bool> {
        self.check_target(target, Mode::Write)?;
        self.check_writable()?;
        self.delete_row(target)
    }

    /// Same as `delete`, but does not check what the action declares.
    pub(super) fn delete_row(&self, target: &Target<'_, 'a>) -> Result<bool> {
        let concerns = |links: &TableLinks| !links.incoming.is_empty();
        self.with_foreign_keys(target, Claim::Delete, concerns, || self.delete_present(target))
    }

    pub(super) fn delete_present(&self, target: &Target<'_, 'a>) -> Result<bool> {
        let table = target.table;
        self.claim(table, target.key, Claim::Delete)?;
        let record =
            if table.secondary().is_empty() { self.find_present(target)? } else { self.find_row(target)? };
        let Some(record) = record else { return Ok(false) };
        self.all_or_nothing(|| {
            if !table.secondary().is_empty() {
                self.delete_index_records(table, target)?;
            }
            self.workspace.borrow_mut().writes.delete(table, record.pointer());
            Ok(true)
        })
    }

    /// Buffers a commutative operation on a column.
    pub(crate) fn operate(
        &self,
        target: &Target<'_, 'a>,
        column: usize,
        operation: Operation,
        operand: ValueRef<'_>,
    ) -> Result<()> {
        self.check_target(target, Mode::Commute)?;
        self.check_writable()?;
        let table = target.table;
        let layout = table.layout().column(column);
        let operand = match (operand, &layout.data_type) {
            // The usual operation: any integer will do.
            (ValueRef::Int(_), DataType::Int64) if operation.takes_every_int() => operand,
            _ => operation
                .check_operand(operand, &layout.data_type)
                .map_err(|error| error.in_column(&layout.name))?,
        };
        let is_open = table.is_open(column);
        if !is_open {
            self.check_evaluated(table)?;
        }
        self.claim(table, target.key, Claim::Write)?;
        let record = self.require(target)?;
        if is_open || table.is_plain(column) {
            let mark = self.claims.get().map(|_| self.mark());
            let mut workspace = self.workspace.borrow_mut();
            workspace.writes.reserve(0, byte_length(operand))?;
            workspace.writes.operate(table, record.pointer(), column, operation, operand);
            let checked = workspace.writes.check_size();
            drop(workspace);
            return match mark {
                Some(mark) if self.is_in_session() => self.try_or_roll_back(mark, target, record),
                _ => checked.inspect_err(|_| self.workspace.borrow_mut().writes.take_back_last()),
            };
        }
        let concerns = |links: &TableLinks| links.concern(column);
        self.with_foreign_keys(target, Claim::Write, concerns, || {
            self.operate_on_indexed(table, record, target, column, operation, operand)
        })
    }

    /// Tries what a session has buffered since the mark; where it fails it is taken back.
    #[cold]
    fn try_or_roll_back(&self, mark: Mark, target: &Target<'_, 'a>, record: Record<'a>) -> Result<()> {
        let checked = self.workspace.borrow().writes.check_size();
        let tried = checked.and_then(|()| self.try_operations(target, record));
        if tried.is_err() {
            self.roll_back(mark);
        }
        tried
    }

    /// Buffers a guard: a column of numbers in one word must hold one within these bounds after the writes so far.
    pub(crate) fn require_within(
        &self,
        target: &Target<'_, 'a>,
        column: usize,
        bounds: (i64, i64),
    ) -> Result<()> {
        self.check_target(target, Mode::Commute)?;
        self.check_writable()?;
        let table = target.table;
        let layout = table.layout().column(column);
        if table.layout().number(column).is_none() {
            let (what, expected) = (layout.name.clone(), "an integer or a decimal of one word".to_owned());
            return Err(Error::WrongType { what, expected, found: layout.data_type.to_string() });
        }
        self.claim(table, target.key, Claim::Write)?;
        let record = self.require(target)?;
        let mark = self.claims.get().map(|_| self.mark());
        let mut workspace = self.workspace.borrow_mut();
        workspace.writes.reserve(0, 0)?;
        workspace.writes.bound(table, record.pointer(), column, bounds);
        let checked = workspace.writes.check_size();
        drop(workspace);
        match mark {
            Some(mark) if self.is_in_session() => self.try_or_roll_back(mark, target, record),
            _ => checked.inspect_err(|_| self.workspace.borrow_mut().writes.take_back_last()),
        }
    }

    /// Same as `operate`, for a column that is in a key or an index.
    #[cold]
    fn operate_on_indexed(
        &self,
        table: &'a TableCore,
        record: Record<'a>,
        target: &Target<'_, 'a>,
        column: usize,
        operation: Operation,
        operand: ValueRef<'_>,
    ) -> Result<()> {
        // An indexed column's operation is a read and a write: the index record moves with the value.
        let value = self.value_after(target, column, operation, operand)?;
        self.all_or_nothing(|| {
            let change = [(column, ValueRef::from(&value))];
            self.check_update(table, target, &change)?;
            self.move_index_records(table, target, &change)?;
            self.workspace.borrow_mut().writes.set(table, record.pointer(), column, change[0].1);
            Ok(())
        })
    }

    /// The value that a column of a row has after an operation, which is not buffered.
    ///
    /// # Errors
    /// There is no row; the column is in the primary key; the operation fails on the value.
    pub(crate) fn value_after(
        &self,
        target: &Target<'_, 'a>,
        column: usize,
        operation: Operation,
        operand: ValueRef<'_>,
    ) -> Result<Value> {
        let table = target.table;
        check_changeable(table, column)?;
        let record = self.require(target)?;
        let mark = self.mark();
        self.workspace.borrow_mut().writes.operate(table, record.pointer(), column, operation, operand);
        let after = self.row_of_target(target);
        self.roll_back(mark);
        let Some(row) = after? else { return Err(missing(table, target.key)) };
        // SAFETY: the row is in the attempt's arena, its blocks are pinned or there too.
        Ok(unsafe { table.layout().value(row, column) }.to_value())
    }

    #[inline]
    pub(super) fn check_writable(&self) -> Result<()> {
        match self.updates_refused {
            None => Ok(()),
            Some(error) => refuse(error),
        }
    }

    /// Runs several buffered writes; if one fails, none of them stays.
    pub(crate) fn all_or_nothing<T>(&self, writes: impl FnOnce() -> Result<T>) -> Result<T> {
        let mark = self.mark();
        let result = writes();
        if result.is_err() {
            self.roll_back(mark);
        }
        result
    }

    /// A record for a key that has no row: `None` if it has one.
    fn place_new(&self, table: &'a TableCore, hash: u64, key: &[u8]) -> Result<Option<Placed<'a>>> {
        self.claim(table, key, Claim::Insert)?;
        loop {
            let placed = self.find_or_place(table, hash, key)?;
            if self.claims.get().is_some() {
                self.note_insert(table, key, placed.is_new);
            }
            if placed.is_new {
                return Ok(Some(placed));
            }
            match self.presence(placed.record)? {
                Some(true) => return Ok(None),
                Some(false) => return Ok(Some(placed)),
                None => {}
            }
        }
    }

    /// The record of a key, which is made if there is none.
    ///
    /// # Errors
    /// The system refuses the memory.
    #[inline]
    pub(super) fn find_or_place(&self, table: &'a TableCore, hash: u64, key: &[u8]) -> Result<Placed<'a>> {
        let (workspace, reads) = (&mut **self.workspace.borrow_mut(), &mut **self.reads.borrow_mut());
        table.slabs().admit(&mut workspace.cutter).map_err(Refused::error)?;
        let mut near = self.near.get();
        let placed =
            table.find_or_place_near(hash, key, (&mut workspace.cutter, &mut near), reads, self.guard);
        self.near.set(near);
        if placed.is_new {
            workspace.placeholders.push(Placeholder { record: placed.record.pointer(), table });
            // Noted as it was made, not as it is found at the next look: a rival may have filled it by then, and
            // what the call found missing before it made the placeholder would count as missing still.
            reads.note(placed.record, PLACEHOLDER, Part::Existence);
        }
        Ok(placed)
    }

    /// The record of a target that must be there.
    #[inline(always)]
    fn require(&self, target: &Target<'_, 'a>) -> Result<Record<'a>> {
        self.find_present(target)?.ok_or_else(|| missing(target.table, target.key))
    }

    /// The record of a target, if it is there for this call. A write must go to the very record whose presence
    /// was looked at: the one that was found beforehand may be dead, and its key have another one by now.
    #[inline(always)]
    pub(super) fn find_present(&self, target: &Target<'_, 'a>) -> Result<Option<Record<'a>>> {
        if let Some(record) = target.found
            && let Some(there) = self.presence(record)?
        {
            return Ok(there.then_some(record));
        }
        self.look_up_present(target)
    }

    fn look_up_present(&self, target: &Target<'_, 'a>) -> Result<Option<Record<'a>>> {
        let mut found = self
            .met_last(target)
            .map_or_else(|| self.look_up(target.table, target.key, target.hash), Lookup::Found);
        loop {
            let record = match found {
                Lookup::Found(record) => record,
                Lookup::Missing(version) => {
                    (self.access.get().missed)(self, version)?;
                    return Ok(None);
                }
            };
            if let Some(there) = self.presence(record)? {
                return Ok(there.then_some(record));
            }
            found = self.look_up(target.table, target.key, target.hash);
        }
    }

    /// Same as `find_present`, for an access that will read the row too.
    fn find_row(&self, target: &Target<'_, 'a>) -> Result<Option<Record<'a>>> {
        match self.row_of_target(target)? {
            None => Ok(None),
            Some(_) => self.find_present(target),
        }
    }

    fn insert_index_record<'v>(
        &self,
        table: &'a TableCore,
        position: usize,
        primary_key: &[u8],
        value_of: impl Fn(usize) -> Result<ValueRef<'v>>,
    ) -> Result<()> {
        let key = table.index_key(position, primary_key, value_of)?;
        let index = &table.secondary()[position].table;
        let Some(placed) = self.place_new(index, index.hash(&key), &key)? else {
            return Err(not_unique(table, position, &key));
        };
        let row = [ValueRef::Bytes(primary_key)];
        self.workspace.borrow_mut().writes.reserve(index.layout().words(), primary_key.len())?;
        self.workspace.borrow_mut().writes.insert(index, placed.record.pointer(), row.into_iter());
        Ok(())
    }

    fn delete_index_record<'v>(
        &self,
        table: &'a TableCore,
        position: usize,
        primary_key: &[u8],
        value_of: impl Fn(usize) -> Result<ValueRef<'v>>,
    ) -> Result<()> {
        let key = table.index_key(position, primary_key, value_of)?;
        let index: &'a TableCore = &table.secondary()[position].table;
        self.claim(index, &key, Claim::Delete)?;
        let target = Target { table: index, key: &key, hash: index.hash(&key), found: None, declared: false };
        if let Some(record) = self.find_present(&target)? {
            self.workspace.borrow_mut().writes.delete(index, record.pointer());
        }
        Ok(())
    }

    /// Moves the index records of a row whose columns change.
    fn move_index_records(
        &self,
        table: &'a TableCore,
        target: &Target<'_, 'a>,
        changes: &[(usize, ValueRef<'_>)],
    ) -> Result<()> {
        let Some(row) = self.row_of_target(target)? else { return Err(missing(table, target.key)) };
        let layout = table.layout();
        // SAFETY: the row is in the attempt's arena, its blocks are pinned or there too.
        let before = |column: usize| Ok(unsafe { layout.value(row, column) });
        let after = |column: usize| {
            let changed = changes.iter().rev().find(|&&(changed, _)| changed == column);
            changed.map_or_else(|| before(column), |&(_, value)| Ok(value))
        };
        for (position, secondary) in table.secondary().iter().enumerate() {
            let touched = |&(column, _): &(usize, _)| secondary.definition.columns.contains(&column);
            if !changes.iter().any(touched) {
                continue;
            }
            let (old, new) = (
                table.index_key(position, target.key, before)?,
                table.index_key(position, target.key, after)?,
            );
            if old != new {
                self.delete_index_record(table, position, target.key, before)?;
                self.insert_index_record(table, position, target.key, after)?;
            }
        }
        Ok(())
    }

    fn delete_index_records(&self, table: &'a TableCore, target: &Target<'_, 'a>) -> Result<()> {
        let Some(row) = self.row_of_target(target)? else { return Ok(()) };
        let layout = table.layout();
        for position in 0..table.secondary().len() {
            self.delete_index_record(table, position, target.key, |column| {
                // SAFETY: the row is in the attempt's arena, its blocks are pinned or there too.
                Ok(unsafe { layout.value(row, column) })
            })?;
        }
        Ok(())
    }
}

/// Refuses to change a column that keeps its value as long as its row is there.
fn check_changeable(table: &TableCore, column: usize) -> Result<()> {
    let name = || table.layout().column(column).name.clone();
    if table.definition().key().contains(&column) {
        let detail = "it is part of the primary key; delete the row and insert it again".to_string();
        return Err(Error::InvalidValue { what: name(), detail });
    }
    if table.is_fixed(column) {
        return Err(Error::GeneratedAlways { table: table.definition().name().to_string(), column: name() });
    }
    Ok(())
}

#[cold]
fn refuse(error: &Error) -> Result<()> {
    Err(error.clone())
}

#[cold]
pub(super) fn duplicate(table: &TableCore, key: &[u8]) -> Error {
    Error::DuplicateKey { table: table.definition().name().to_string(), key: show_key(table, key) }
}

/// The error that the unique index at this position has a row of these values.
#[cold]
pub(super) fn not_unique(table: &TableCore, position: usize, key: &[u8]) -> Error {
    let definition = &table.secondary()[position].definition;
    let shown = show_index_key(table, position, key);
    let name = format!("{} (index {})", table.definition().name(), definition.name);
    Error::DuplicateKey { table: name, key: shown }
}

#[cold]
pub(crate) fn missing(table: &TableCore, key: &[u8]) -> Error {
    Error::MissingKey { table: table.definition().name().to_string(), key: show_key(table, key) }
}

/// The values of an encoded primary key.
///
/// # Errors
/// The key is malformed.
pub(crate) fn decode_primary_key(table: &TableCore, mut key: &[u8]) -> Result<Vec<Value>> {
    let columns = table.definition().key().iter();
    columns
        .map(|&column| decode_component(&mut key, &table.layout().column(column).data_type, false))
        .collect()
}

/// An encoded primary key as a person reads it.
pub(crate) fn show_key(table: &TableCore, key: &[u8]) -> String {
    let types =
        table.definition().key().iter().map(|&column| (&table.layout().column(column).data_type, false));
    show(key, types)
}

fn show_index_key(table: &TableCore, position: usize, key: &[u8]) -> String {
    let columns = table.secondary()[position].definition.columns.iter();
    show(
        key,
        columns.map(|&column| {
            let column = table.layout().column(column);
            (&column.data_type, !column.not_null)
        }),
    )
}

fn show<'t>(mut key: &[u8], types: impl Iterator<Item = (&'t crate::types::DataType, bool)>) -> String {
    let values: Vec<String> = types
        .map_while(|(data_type, nullable)| decode_component(&mut key, data_type, nullable).ok())
        .map(|value| if value == Value::Null { "NULL".to_string() } else { value.to_string() })
        .collect();
    values.join(", ")
}
