//! The context of an action's body.

use std::any::Any;
use std::cell::RefCell;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::operation::Operation;
use crate::pipeline::call::Gathered;
use crate::protocol::attempt::{Attempt, Target};
use crate::protocol::footprint::Reference;
use crate::row::Row;
use crate::storage::record::Record;
use crate::storage::table::TableCore;
use crate::storage::write_set::IntChange;
use crate::table::{ColumnName, position};
use crate::transaction::{self, Tx};
use crate::types::key::{EncodedKey, KeyKind};
use crate::types::values::PhaseValue;
pub use crate::types::values::Values;
use crate::types::{Args, Value, ValueRef};

/// Receives a key's values, in the order of the key's columns.
pub struct KeyBuilder<'k> {
    table: &'k TableCore,
    kinds: &'k [KeyKind],
    key: &'k mut EncodedKey,
    columns: usize,
    /// Bytes of the first column's value, once a second one follows.
    pub(crate) first: u16,
}

impl<'k> KeyBuilder<'k> {
    #[inline]
    pub(crate) fn new(table: &'k TableCore, key: &'k mut EncodedKey) -> Self {
        KeyBuilder { table, kinds: table.key_kinds(), key, columns: 0, first: 0 }
    }

    /// Adds the value of the next column.
    ///
    /// # Errors
    /// More values than the key has columns; a value that does not fit its column.
    #[inline]
    pub fn push<'v>(&mut self, value: impl Into<ValueRef<'v>>) -> Result<()> {
        if self.columns == 1 {
            self.first = self.key.len() as u16;
        }
        match value.into() {
            ValueRef::Int(int) => match self.kinds.get(self.columns) {
                // The usual component, without a call.
                Some(kind) if kind.encode(self.key, int) => {
                    self.columns += 1;
                    Ok(())
                }
                // Made once more: so the usual value need not be in memory.
                _ => self.push_any(ValueRef::Int(int)),
            },
            value => self.push_any(value),
        }
    }

    /// Same as [`push`](Self::push), of any value. Apart, so that the usual component needs nothing of the stack.
    #[inline(never)]
    fn push_any(&mut self, value: ValueRef<'_>) -> Result<()> {
        if self.columns == self.kinds.len() {
            return self.too_many();
        }
        self.table.encode_key_column(self.key, self.columns, value)?;
        self.columns += 1;
        Ok(())
    }

    #[cold]
    fn too_many(&self) -> Result<()> {
        let definition = self.table.definition();
        let names: Vec<_> =
            definition.key().iter().map(|&at| definition.columns()[at].name.as_str()).collect();
        Err(Error::WrongKey {
            table: definition.name().to_string(),
            expected: names.join(", "),
            given: self.columns + 1,
        })
    }

    /// Number of columns that have their values.
    #[inline]
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }
}

/// The context of an action's body: the arguments, the earlier phases' values, and the rows that it declared.
///
/// The methods that name no key work on the row of the action's key, which was found before the body ran.
pub struct ActionContext<'t, 'a> {
    pub(crate) call: &'t Running<'t, 'a>,
    pub(crate) table: &'a TableCore,
    pub(crate) reference: &'t Reference,
    pub(crate) found: Option<Record<'a>>,
}

/// A call whose bodies run: what all of them share.
pub(crate) struct Running<'t, 'a> {
    pub(crate) attempt: &'t Attempt<'a>,
    pub(crate) args: &'t Args,
    pub(crate) values: &'t Values,
    pub(crate) gathered: &'t RefCell<Gathered>,
}

impl<'t, 'a> ActionContext<'t, 'a> {
    /// The call's arguments.
    #[inline]
    pub fn args(&self) -> &'t Args {
        self.call.args
    }

    /// The values that earlier phases have set.
    pub fn values(&self) -> &'t Values {
        self.call.values
    }

    /// Sets a value for the phases to come.
    pub fn set_value(&self, number: usize, value: impl Into<Value>) {
        self.call.gathered.borrow_mut().fresh.push((number, PhaseValue::Value(value.into())));
    }

    /// Sets a value of any Rust type for the phases to come, which read it with [`Values::any`]: a vector, a map, a struct.
    ///
    /// ```
    /// # use heddledb::{Action, DataType, Database, ProcedureDefinition, TableDefinition, args, row};
    /// # let db = Database::in_memory()?;
    /// # let stock = db.create_table(TableDefinition::new("stock").column("item", DataType::Int64).column("n", DataType::Int64)
    /// #     .primary_key(["item"]))?;
    /// # db.run(|tx| (1..=9).try_for_each(|item| tx.insert(&stock, row![item, item])))?;
    /// let choose = Action::read(&stock).body(|action| {
    ///     action.set_any(0, vec![3_i64, 7]);
    ///     Ok(())
    /// });
    /// let of_sum = stock.clone();
    /// let sum = Action::read(&stock).body(move |action| {
    ///     let mut sum = 0;
    ///     for &item in action.values().any::<Vec<i64>>(0)? {
    ///         sum += action.tx().get(&of_sum, item)?.map_or(Ok(0), |row| row.int("n"))?;
    ///     }
    ///     Ok(action.return_row(vec![sum.into()]))
    /// });
    /// let sum = db.register(ProcedureDefinition::new("sum").phase([choose]).phase([sum]))?;
    /// assert_eq!(db.call(&sum, args![])?.rows_as::<(i64,)>()?, [(10,)]);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    pub fn set_any<T: Any + Send + Sync>(&self, number: usize, value: T) {
        self.call.gathered.borrow_mut().fresh.push((number, PhaseValue::Any(Arc::new(value))));
    }

    /// Returns a row to the caller.
    pub fn return_row(&self, row: Vec<Value>) {
        self.call.gathered.borrow_mut().rows.push(row);
    }

    /// Returns a row to the caller, as a tuple or a struct with `#[derive(Composite)]`; the caller reads it
    /// with [`Output::rows_as`](crate::Output::rows_as).
    pub fn return_values(&self, row: impl Into<Args>) {
        self.return_row(row.into().into_vec());
    }

    /// The transaction, for accesses within the declared rows that the methods here do not offer: other keys
    /// under a declared prefix, ranges, secondary indexes, savepoints.
    pub fn tx(&self) -> Tx<'t, 'a> {
        Tx::new(self.call.attempt)
    }

    #[inline]
    fn target(&self) -> Result<Target<'t, 'a>> {
        let table = self.call.attempt.hold(self.table)?;
        if !self.reference.whole {
            return Err(self.no_row());
        }
        let Reference { key, hash, .. } = self.reference;
        Ok(Target { table, key, hash: *hash, found: self.found, declared: true })
    }

    #[inline]
    fn operate(&self, column: impl ColumnName, operation: Operation, operand: ValueRef<'_>) -> Result<()> {
        let column = position(self.table, column)?;
        if let ValueRef::Int(operand) = operand
            && self.change_int(column, IntChange::Operate(operation, operand))
        {
            return Ok(());
        }
        self.operate_anyhow(column, operation, operand)
    }

    #[inline(never)]
    fn operate_anyhow(&self, column: usize, operation: Operation, operand: ValueRef<'_>) -> Result<()> {
        transaction::operate_at(self.call.attempt, &self.target()?, column, operation, operand)
    }

    /// Changes an integer column, if that is the usual write (see [`Attempt::change_int`]); returns true if it was.
    #[inline]
    fn change_int(&self, column: usize, change: IntChange) -> bool {
        self.call.attempt.change_int(self.table, self.found, column, change)
    }

    #[inline(never)]
    fn get_anyhow(&self) -> Result<Option<Row<'a>>> {
        transaction::get(self.call.attempt, &self.target()?)
    }

    #[cold]
    fn no_row(&self) -> Error {
        let table = self.table.definition().name();
        let what =
            format!("the action on {table:?} declares no whole key, so it has no row of its own; use tx()");
        Error::OutsideFootprint { what }
    }

    /// The row.
    ///
    /// # Errors
    /// [`Error::Conflict`] (pass it on).
    #[inline]
    pub fn get(&self) -> Result<Option<Row<'a>>> {
        if let Some(row) = self.call.attempt.row_at_once(self.table, self.found) {
            return Ok(Some(Row::new(self.table, row)));
        }
        self.get_anyhow()
    }

    /// Returns true if there is a row.
    ///
    /// # Errors
    /// Same errors as [`get`](Self::get).
    pub fn exists(&self) -> Result<bool> {
        self.call.attempt.exists(&self.target()?)
    }

    /// Inserts the row.
    ///
    /// # Errors
    /// Same errors as [`Tx::insert`].
    pub fn insert<'v>(&self, row: impl AsRef<[ValueRef<'v>]>) -> Result<()> {
        transaction::insert(
            self.call.attempt,
            self.table,
            row.as_ref(),
            self.reference.whole.then_some(self.reference),
        )
    }

    /// Sets columns to new values.
    ///
    /// # Errors
    /// Same errors as [`Tx::update`].
    #[inline]
    pub fn update<'v, N: ColumnName>(&self, changes: &[(N, ValueRef<'v>)]) -> Result<()> {
        if let [(column, ValueRef::Int(value))] = changes
            && self.change_int(position(self.table, column)?, IntChange::Set(*value))
        {
            return Ok(());
        }
        transaction::update(self.call.attempt, &self.target()?, changes)
    }

    /// Deletes the row; returns false if there was none.
    ///
    /// # Errors
    /// Same errors as [`Tx::delete`].
    pub fn delete(&self) -> Result<bool> {
        transaction::delete(self.call.attempt, &self.target()?)
    }

    /// Adds a number to a column, as [`Tx::add`] does.
    ///
    /// # Errors
    /// Same errors as [`Tx::add`].
    #[inline]
    pub fn add<'v>(&self, column: impl ColumnName, amount: impl Into<ValueRef<'v>>) -> Result<()> {
        self.operate(column, Operation::Add, amount.into())
    }

    /// Raises a column to a value, as [`Tx::max`] does.
    ///
    /// # Errors
    /// Same errors as [`Tx::max`].
    pub fn max<'v>(&self, column: impl ColumnName, value: impl Into<ValueRef<'v>>) -> Result<()> {
        self.operate(column, Operation::Max, value.into())
    }

    /// Lowers a column to a value, as [`Tx::min`] does.
    ///
    /// # Errors
    /// Same errors as [`Tx::min`].
    pub fn min<'v>(&self, column: impl ColumnName, value: impl Into<ValueRef<'v>>) -> Result<()> {
        self.operate(column, Operation::Min, value.into())
    }

    /// Multiplies a column by a number, as [`Tx::multiply`] does.
    ///
    /// # Errors
    /// Same errors as [`Tx::multiply`].
    pub fn multiply<'v>(&self, column: impl ColumnName, factor: impl Into<ValueRef<'v>>) -> Result<()> {
        self.operate(column, Operation::Multiply, factor.into())
    }

    /// Puts a tuple into an ordered-tuple column, as [`Tx::ordered_put`] does.
    ///
    /// # Errors
    /// Same errors as [`Tx::ordered_put`].
    pub fn ordered_put(
        &self,
        column: impl ColumnName,
        order: &[ValueRef<'_>],
        payload: &[ValueRef<'_>],
    ) -> Result<()> {
        let target = self.target()?;
        transaction::put_tuple(self.call.attempt, &target, column, Operation::OrderedPut, order, payload)
    }

    /// Inserts an entry into a top-K column, as [`Tx::top_k_insert`] does.
    ///
    /// # Errors
    /// Same errors as [`Tx::top_k_insert`].
    pub fn top_k_insert(
        &self,
        column: impl ColumnName,
        order: &[ValueRef<'_>],
        payload: &[ValueRef<'_>],
    ) -> Result<()> {
        let target = self.target()?;
        transaction::put_tuple(self.call.attempt, &target, column, Operation::TopKInsert, order, payload)
    }
}
