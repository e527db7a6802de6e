//! Commutative operations of a transaction: they return nothing, and do not conflict with each other.

use super::Tx;
use super::accesses::{operate_by_key, put_tuple};
use crate::error::Result;
use crate::operation::Operation;
use crate::table::{ColumnName, Table, position};
use crate::types::{IntoKey, ValueRef};

impl<'t, 'a> Tx<'t, 'a> {
    /// Applies an operation to a column.
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
    /// transaction commits: the number never wraps.
    pub fn add<'k, 'v>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        column: impl ColumnName,
        amount: impl Into<ValueRef<'v>>,
    ) -> Result<()> {
        self.operate(table, key, column, Operation::Add, &amount.into())
    }

    /// Requires that a column holds a number within these bounds after the transaction's operations so far,
    /// in the column's own unit (a decimal's last digit). NULL is outside of all bounds. The transaction
    /// proves it when it commits, without reading the column: such requirements do not conflict with each
    /// other, and a split phase divides the distance between the value and the bound among all of them.
    ///
    /// ```
    /// # use heddledb::{DataType, Database, Error, TableDefinition, key, row};
    /// let db = Database::in_memory()?;
    /// let item = TableDefinition::new("item").column("id", DataType::Int64).column("stock", DataType::Int64);
    /// let item = db.create_table(item.primary_key(["id"]))?;
    /// db.run(|tx| tx.insert(&item, row![1, 2]))?;
    /// let buy = || {
    ///     db.run(|tx| {
    ///         tx.add(&item, key![1], "stock", -1)?;
    ///         tx.require_within(&item, key![1], "stock", 0..=i64::MAX)
    ///     })
    /// };
    /// assert!(buy().is_ok() && buy().is_ok());
    /// assert!(matches!(buy(), Err(Error::Overflow { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::MissingKey`](crate::Error::MissingKey); [`Error::WrongType`](crate::Error::WrongType): the column holds no
    /// integers, and no decimals of at most 18 digits; [`Error::Overflow`](crate::Error::Overflow), when the transaction
    /// commits.
    pub fn require_within<'k>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        column: impl ColumnName,
        bounds: std::ops::RangeInclusive<i64>,
    ) -> Result<()> {
        self.at(table, key, |target| {
            let column = position(target.table, column)?;
            self.attempt.require_within(target, column, (*bounds.start(), *bounds.end()))
        })
    }

    /// Returns true if it is certain, without a look at the value, that a column of integers, or of decimals of one word, holds a number
    /// outside of these bounds, in its own unit: it is split for an operation that only raises or only lowers it (`phased`), and was
    /// beyond the bound before. Otherwise only a read of the column tells, which may have to wait for the end of the split phase.
    ///
    /// # Errors
    /// Same errors as [`get`](Self::get).
    pub fn is_surely_outside<'k>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        column: impl ColumnName,
        bounds: std::ops::RangeInclusive<i64>,
    ) -> Result<bool> {
        self.at(table, key, |target| {
            let column = position(target.table, column)?;
            self.attempt.is_surely_outside(target, column, (*bounds.start(), *bounds.end()))
        })
    }

    /// Raises a column to a value, unless it is as high already.
    ///
    /// # Errors
    /// Same errors as [`add`](Self::add).
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
    /// Same errors as [`add`](Self::add).
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
    /// Same errors as [`add`](Self::add).
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
    /// Same errors as [`add`](Self::add).
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
    /// Same errors as [`add`](Self::add).
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

    /// Inserts all entries of a [`TopK`](crate::TopK) into a top-K column, as [`top_k_insert`](Self::top_k_insert) does
    /// one by one. The set has at most as many entries as the column keeps.
    ///
    /// # Errors
    /// Same errors as [`add`](Self::add).
    pub fn top_k_merge<'k, 'v>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        column: impl ColumnName,
        set: impl Into<ValueRef<'v>>,
    ) -> Result<()> {
        self.operate(table, key, column, Operation::TopKInsert, &set.into())
    }
}
