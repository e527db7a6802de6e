//! Commutative operations of a transaction: they return nothing, and do not conflict with each other.

use super::Tx;
use super::accesses::{operate_by_key, put_tuple};
use crate::error::Result;
use crate::operation::Operation;
use crate::table::{ColumnName, Table, position};
use crate::types::{IntoKey, ValueRef};

impl<'t, 'a> Tx<'t, 'a> {
    /// Has a column changed by an operation.
    #[inline]
    fn operate<'k>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        column: impl ColumnName,
        operation: Operation,
        operand: &ValueRef<'_>,
    ) -> Result<()> {
        let table = self.attempt.hold(table.core())?;
        let column = position(table, column)?;
        operate_by_key(self.attempt, (table, key.into_key().as_ref()), column, operation, operand)
    }

    /// Adds a number to a column. NULL stays NULL.
    ///
    /// # Errors
    /// [`Error::MissingKey`](crate::Error::MissingKey); [`Error::Overflow`](crate::Error::Overflow), here or when the
    /// transaction commits: never a wrap.
    pub fn add<'k, 'v>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        column: impl ColumnName,
        amount: impl Into<ValueRef<'v>>,
    ) -> Result<()> {
        self.operate(table, key, column, Operation::Add, &amount.into())
    }

    /// Raises a column to a value, unless it is as high already.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn max<'k, 'v>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        column: impl ColumnName,
        value: impl Into<ValueRef<'v>>,
    ) -> Result<()> {
        self.operate(table, key, column, Operation::Max, &value.into())
    }

    /// Lowers a column to a value, unless it is as low already.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn min<'k, 'v>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        column: impl ColumnName,
        value: impl Into<ValueRef<'v>>,
    ) -> Result<()> {
        self.operate(table, key, column, Operation::Min, &value.into())
    }

    /// Multiplies an integer column by a number. NULL stays NULL.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn multiply<'k, 'v>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        column: impl ColumnName,
        factor: impl Into<ValueRef<'v>>,
    ) -> Result<()> {
        self.operate(table, key, column, Operation::Multiply, &factor.into())
    }

    /// Puts a tuple into an ordered-tuple column, unless the one there is as high in (order, payload).
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn ordered_put<'k>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        column: impl ColumnName,
        order: &[ValueRef<'_>],
        payload: &[ValueRef<'_>],
    ) -> Result<()> {
        self.at(table, key, |target| {
            put_tuple(self.attempt, target, column, Operation::OrderedPut, order, payload)
        })
    }

    /// Inserts an entry into a top-K column: it stays if it is among the K highest in (order, payload).
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn top_k_insert<'k>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        column: impl ColumnName,
        order: &[ValueRef<'_>],
        payload: &[ValueRef<'_>],
    ) -> Result<()> {
        self.at(table, key, |target| {
            put_tuple(self.attempt, target, column, Operation::TopKInsert, order, payload)
        })
    }
}
