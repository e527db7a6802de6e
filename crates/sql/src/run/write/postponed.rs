//! Writes of statements in WITH, kept from what the rest of the statement reads.
//!
//! All parts of a statement read the tables as they were when it began. A part that writes therefore writes at once, for
//! its own checks, and its writes are noted; when it has ended they are taken back ([`Postponed::take_back`]), and done
//! again before the next part writes, or when the statement ends.
//!
//! # Invariants
//! - While a part reads, no write of another part is in the tables: a part reads to its end before it writes.
//! - While a part writes, the writes of all earlier parts are.

use std::cell::{Cell, RefCell};

use heddledb::{Column, Range, Savepoint, Table, Value as Stored, ValueRef};

use crate::access::{Commute, RowScan, Rows, Writes};
use crate::error::SqlError;
use crate::run::write::rows::refs;

/// A write, to be done again.
enum Write {
    Insert(Table, Vec<Stored>),
    Update(Table, Vec<Stored>, Vec<(Column, Stored)>),
    Delete(Table, Vec<Stored>),
    Commute(Table, Vec<Stored>, Column, Commute, Stored),
}

/// Notes what is written, and takes it back.
pub(crate) struct Postponed<'w> {
    inner: &'w dyn Writes,
    start: Savepoint,
    writes: RefCell<Vec<Write>>,
    /// Whether the writes are in the tables.
    are_done: Cell<bool>,
    /// A routine has taken back some of its writes: what it left is no longer known, and stays in the tables.
    is_unknown: Cell<bool>,
}

impl<'w> Postponed<'w> {
    pub(crate) fn new(inner: &'w dyn Writes) -> Postponed<'w> {
        Postponed {
            inner,
            start: inner.savepoint(),
            writes: RefCell::new(Vec::new()),
            are_done: Cell::new(true),
            is_unknown: Cell::new(false),
        }
    }

    /// Takes all writes back until they are done again.
    pub(crate) fn take_back(&self) {
        if self.is_unknown.get() {
            self.writes.borrow_mut().clear();
            return;
        }
        self.inner.rollback_to(&self.start);
        self.are_done.set(false);
    }

    /// Does again what was taken back.
    ///
    /// # Errors
    /// The engine's.
    pub(crate) fn do_again(&self) -> Result<(), SqlError> {
        if self.are_done.replace(true) {
            return Ok(());
        }
        for write in self.writes.borrow().iter() {
            match write {
                Write::Insert(table, row) => self.inner.insert(table, &refs(row))?,
                Write::Update(table, key, changes) => {
                    let changes: Vec<(Column, ValueRef<'_>)> =
                        changes.iter().map(|(column, value)| (*column, ValueRef::from(value))).collect();
                    self.inner.update(table, &refs(key), &changes)?;
                }
                Write::Delete(table, key) => {
                    self.inner.delete(table, &refs(key))?;
                }
                Write::Commute(table, key, column, operation, operand) => {
                    self.inner.commute(table, &refs(key), *column, *operation, ValueRef::from(operand))?;
                }
            }
        }
        Ok(())
    }

    fn note(&self, write: Write) {
        self.writes.borrow_mut().push(write);
    }
}

fn owned(values: &[ValueRef<'_>]) -> Vec<Stored> {
    values.iter().map(|value| value.to_value()).collect()
}

impl Rows for Postponed<'_> {
    fn get(
        &self,
        table: &Table,
        key: &[ValueRef<'_>],
        each: &mut dyn FnMut(&heddledb::Row<'_>) -> Result<(), SqlError>,
    ) -> Result<bool, SqlError> {
        self.inner.get(table, key, each)
    }

    fn exists(&self, table: &Table, key: &[ValueRef<'_>]) -> Result<bool, SqlError> {
        self.inner.exists(table, key)
    }

    fn scan<'s>(
        &'s self,
        table: &Table,
        index: Option<&str>,
        range: Range,
        columns: Option<&[heddledb::Column]>,
    ) -> Result<Box<dyn RowScan + 's>, SqlError> {
        self.inner.scan(table, index, range, columns)
    }

    fn reserve(&self, table: &Table, key: &[ValueRef<'_>]) -> Result<(), SqlError> {
        self.inner.reserve(table, key)
    }

    fn try_reserve(&self, table: &Table, key: &[ValueRef<'_>]) -> Result<bool, SqlError> {
        self.inner.try_reserve(table, key)
    }

    fn search(&self, look: &mut dyn FnMut()) {
        self.inner.search(look);
    }
}

impl Writes for Postponed<'_> {
    fn savepoint(&self) -> Savepoint {
        self.inner.savepoint()
    }

    fn rollback_to(&self, savepoint: &Savepoint) {
        self.is_unknown.set(true);
        self.inner.rollback_to(savepoint);
    }

    fn insert(&self, table: &Table, row: &[ValueRef<'_>]) -> Result<(), SqlError> {
        self.do_again()?;
        self.inner.insert(table, row)?;
        self.note(Write::Insert(table.clone(), owned(row)));
        Ok(())
    }

    fn update(
        &self,
        table: &Table,
        key: &[ValueRef<'_>],
        changes: &[(Column, ValueRef<'_>)],
    ) -> Result<(), SqlError> {
        self.do_again()?;
        self.inner.update(table, key, changes)?;
        let changes = changes.iter().map(|(column, value)| (*column, value.to_value())).collect();
        self.note(Write::Update(table.clone(), owned(key), changes));
        Ok(())
    }

    fn delete(&self, table: &Table, key: &[ValueRef<'_>]) -> Result<bool, SqlError> {
        self.do_again()?;
        let was_there = self.inner.delete(table, key)?;
        self.note(Write::Delete(table.clone(), owned(key)));
        Ok(was_there)
    }

    fn commute(
        &self,
        table: &Table,
        key: &[ValueRef<'_>],
        column: Column,
        operation: Commute,
        operand: ValueRef<'_>,
    ) -> Result<(), SqlError> {
        self.do_again()?;
        self.inner.commute(table, key, column, operation, operand)?;
        self.note(Write::Commute(table.clone(), owned(key), column, operation, operand.to_value()));
        Ok(())
    }
}
