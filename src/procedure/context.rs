//! What an action's body works with.

use std::cell::RefCell;

use crate::error::{Error, Result};
use crate::operation::Operation;
use crate::protocol::attempt::{Attempt, Target};
use crate::protocol::footprint::Reference;
use crate::row::Row;
use crate::storage::record::Record;
use crate::storage::table::TableCore;
use crate::table::ColumnName;
use crate::transaction::{self, Tx};
use crate::types::key::{EncodedKey, encode_component};
use crate::types::{Args, Value, ValueRef};

/// Takes a key's values, in the order of the key's columns.
pub struct KeyBuilder<'k> {
    table: &'k TableCore,
    columns_of_key: &'k [usize],
    key: &'k mut EncodedKey,
    columns: usize,
    /// How many bytes the first column's value took.
    pub(crate) first: u16,
}

impl<'k> KeyBuilder<'k> {
    pub(crate) fn new(table: &'k TableCore, key: &'k mut EncodedKey) -> Self {
        KeyBuilder { table, columns_of_key: table.definition().key(), key, columns: 0, first: 0 }
    }

    /// The next column's value.
    ///
    /// # Errors
    /// More values than the key has columns; a value that does not fit its column.
    #[inline]
    pub fn push<'v>(&mut self, value: impl Into<ValueRef<'v>>) -> Result<()> {
        let Some(&position) = self.columns_of_key.get(self.columns) else { return self.too_many() };
        let value = self.table.layout().checked(position, value.into())?;
        debug_assert!(!value.is_null(), "key columns are not null");
        encode_component(self.key, value, &self.table.layout().column(position).data_type, false)?;
        self.columns += 1;
        if self.columns == 1 {
            self.first = self.key.len() as u16;
        }
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

    /// How many columns have their values.
    pub(crate) fn columns(&self) -> usize {
        self.columns
    }
}

/// What the phases before have found.
#[derive(Debug, Default)]
pub struct Values {
    /// Few, and their numbers are the caller's choice: so they are looked through.
    values: Vec<(usize, Value)>,
}

impl Values {
    /// The value that an earlier phase set under this number.
    ///
    /// # Errors
    /// None did.
    pub fn get(&self, number: usize) -> Result<&Value> {
        let found = self.values.iter().find(|(other, _)| *other == number);
        found.map(|(_, value)| value).ok_or_else(|| Error::OutsideFootprint {
            what: format!("value {number} was set by no earlier phase"),
        })
    }

    /// The integer that an earlier phase set under this number.
    ///
    /// # Errors
    /// None did, or it is none.
    pub fn int(&self, number: usize) -> Result<i64> {
        match self.get(number)? {
            Value::Int(value) => Ok(*value),
            other => Err(Error::WrongType {
                what: format!("value {number}"),
                expected: "an integer".to_string(),
                found: format!("{other:?}"),
            }),
        }
    }

    pub(crate) fn set(&mut self, number: usize, value: Value) {
        match self.values.iter_mut().find(|(other, _)| *other == number) {
            Some((_, old)) => *old = value,
            None => self.values.push((number, value)),
        }
    }
}

/// What a running call has gathered.
#[derive(Default)]
pub(crate) struct Gathered {
    /// Values set in the running phase, which the next ones will see.
    pub(crate) fresh: Vec<(usize, Value)>,
    pub(crate) rows: Vec<Vec<Value>>,
}

/// What an action's body works with: the arguments, the earlier phases' values, and the rows that it declared.
///
/// The methods that name no key work on the row of the action's key, which was found before the body ran.
pub struct ActionContext<'t, 'a> {
    pub(crate) attempt: &'t Attempt<'a>,
    pub(crate) table: &'t TableCore,
    pub(crate) reference: &'t Reference,
    pub(crate) found: Option<Record<'a>>,
    pub(crate) args: &'t Args,
    pub(crate) values: &'t Values,
    pub(crate) gathered: &'t RefCell<Gathered>,
}

impl<'t, 'a> ActionContext<'t, 'a> {
    /// The call's arguments.
    #[inline]
    pub fn args(&self) -> &'t Args {
        self.args
    }

    /// What earlier phases have set.
    pub fn values(&self) -> &'t Values {
        self.values
    }

    /// Sets a value for the phases to come.
    pub fn set_value(&self, number: usize, value: impl Into<Value>) {
        self.gathered.borrow_mut().fresh.push((number, value.into()));
    }

    /// Gives a row to the caller.
    pub fn return_row(&self, row: Vec<Value>) {
        self.gathered.borrow_mut().rows.push(row);
    }

    /// For everything inside the declared rows that the methods here don't do: other keys under a declared prefix,
    /// ranges, secondary indexes, savepoints.
    pub fn tx(&self) -> Tx<'t, 'a> {
        Tx::new(self.attempt)
    }

    #[inline]
    fn target(&self) -> Result<Target<'t, 'a>> {
        if !self.reference.whole {
            let table = self.table.definition().name();
            return Err(Error::OutsideFootprint {
                what: format!(
                    "the action on {table:?} declares no whole key, so it has no row of its own; use tx()"
                ),
            });
        }
        let Reference { key, hash, .. } = self.reference;
        Ok(Target { table: self.table, key, hash: *hash, found: self.found, declared: true })
    }

    /// The row.
    ///
    /// # Errors
    /// [`Error::Conflict`] (pass it on).
    pub fn get(&self) -> Result<Option<Row<'a>>> {
        transaction::get(self.attempt, &self.target()?)
    }

    /// Whether there is a row.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn exists(&self) -> Result<bool> {
        self.attempt.exists(&self.target()?)
    }

    /// Inserts the row.
    ///
    /// # Errors
    /// As [`Tx::insert`].
    pub fn insert<'v>(&self, row: impl AsRef<[ValueRef<'v>]>) -> Result<()> {
        transaction::insert(
            self.attempt,
            self.table,
            row.as_ref(),
            self.reference.whole.then_some(self.reference),
        )
    }

    /// Gives columns new values.
    ///
    /// # Errors
    /// As [`Tx::update`].
    pub fn update<'v, N: ColumnName>(&self, changes: &[(N, ValueRef<'v>)]) -> Result<()> {
        transaction::update(self.attempt, &self.target()?, changes)
    }

    /// Deletes the row. Whether there was one.
    ///
    /// # Errors
    /// As [`Tx::delete`].
    pub fn delete(&self) -> Result<bool> {
        self.attempt.delete(&self.target()?)
    }

    /// Adds a number to a column.
    ///
    /// # Errors
    /// As [`Tx::add`].
    pub fn add<'v>(&self, column: impl ColumnName, amount: impl Into<ValueRef<'v>>) -> Result<()> {
        transaction::operate(self.attempt, &self.target()?, column, Operation::Add, amount.into())
    }

    /// Raises a column.
    ///
    /// # Errors
    /// As [`Tx::max`].
    pub fn max<'v>(&self, column: impl ColumnName, value: impl Into<ValueRef<'v>>) -> Result<()> {
        transaction::operate(self.attempt, &self.target()?, column, Operation::Max, value.into())
    }

    /// Lowers a column.
    ///
    /// # Errors
    /// As [`Tx::min`].
    pub fn min<'v>(&self, column: impl ColumnName, value: impl Into<ValueRef<'v>>) -> Result<()> {
        transaction::operate(self.attempt, &self.target()?, column, Operation::Min, value.into())
    }

    /// Multiplies a column.
    ///
    /// # Errors
    /// As [`Tx::multiply`].
    pub fn multiply<'v>(&self, column: impl ColumnName, factor: impl Into<ValueRef<'v>>) -> Result<()> {
        transaction::operate(self.attempt, &self.target()?, column, Operation::Multiply, factor.into())
    }

    /// Puts a tuple.
    ///
    /// # Errors
    /// As [`Tx::ordered_put`].
    pub fn ordered_put(
        &self,
        column: impl ColumnName,
        order: &[ValueRef<'_>],
        payload: &[ValueRef<'_>],
    ) -> Result<()> {
        let target = self.target()?;
        transaction::put_tuple(self.attempt, &target, column, Operation::OrderedPut, order, payload)
    }

    /// Inserts an entry.
    ///
    /// # Errors
    /// As [`Tx::top_k_insert`].
    pub fn top_k_insert(
        &self,
        column: impl ColumnName,
        order: &[ValueRef<'_>],
        payload: &[ValueRef<'_>],
    ) -> Result<()> {
        let target = self.target()?;
        transaction::put_tuple(self.attempt, &target, column, Operation::TopKInsert, order, payload)
    }
}
