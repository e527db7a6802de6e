//! Rows as bodies see them.

use std::fmt;

use crate::error::{Error, Result};
use crate::storage::table::TableCore;
use crate::table::{ColumnName, position};
use crate::types::{Date, Decimal, Timestamp, Uuid, Value, ValueRef};

mod owned;
pub use owned::OwnedRow;

/// A row that was read: a copy of its fixed part, and references to its long values. It stays as it was read,
/// whatever the transaction writes afterwards.
#[derive(Clone, Copy)]
pub struct Row<'tx> {
    table: &'tx TableCore,
    words: &'tx [u64],
}

impl<'tx> Row<'tx> {
    #[inline]
    pub(crate) fn new(table: &'tx TableCore, words: &'tx [u64]) -> Row<'tx> {
        Row { table, words }
    }

    /// A column's value.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`].
    pub fn get(&self, column: impl ColumnName) -> Result<ValueRef<'tx>> {
        Ok(self.value(position(self.table, column)?))
    }

    #[inline]
    fn value(&self, position: usize) -> ValueRef<'tx> {
        // SAFETY: rows are made by attempts of rows that they have read, whose blocks live as long as the attempt,
        // in its arena or by its pin.
        let value = unsafe { self.table.layout().value(self.words, position) };
        if value.is_null() {
            self.is_hidden(position);
        }
        value
    }

    /// Whether a column that is marked as NULL is split now: then the call is stashed, and reads it later.
    #[cold]
    fn is_hidden(&self, position: usize) -> bool {
        // SAFETY: the flag is the worker context's, which outlives the attempt, and that outlives the row.
        unsafe { self.table.layout().look_at_hidden(self.words, position) }
    }

    /// Whether a column is NULL.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`].
    pub fn is_null(&self, column: impl ColumnName) -> Result<bool> {
        let position = position(self.table, column)?;
        let is_null = self.table.layout().is_null(self.words, position);
        if is_null && self.is_hidden(position) {
            return Err(Error::Conflict);
        }
        Ok(is_null)
    }

    /// An integer.
    ///
    /// # Errors
    /// The column is unknown, is of another type, or is NULL.
    #[inline]
    pub fn int(&self, column: impl ColumnName) -> Result<i64> {
        let position = position(self.table, column)?;
        match self.table.layout().int(self.words, position) {
            Some(int) => Ok(int),
            None => Err(self.wrong(position, "an integer")),
        }
    }

    /// Every column's value, owned.
    pub fn to_values(&self) -> Vec<Value> {
        (0..self.table.layout().len()).map(|position| self.value(position).to_value()).collect()
    }

    #[cold]
    fn wrong(&self, position: usize, read_as: &'static str) -> Error {
        if self.table.layout().is_null(self.words, position) && self.is_hidden(position) {
            return Error::Conflict;
        }
        let layout = self.table.layout().column(position);
        let holds =
            if self.value(position).is_null() { "NULL".to_string() } else { layout.data_type.to_string() };
        Error::WrongRead { what: layout.name.clone(), holds, read_as }
    }
}

macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident -> $result:ty, $pattern:pat => $value:expr, $expected:literal;)*) => {
        impl<'tx> Row<'tx> {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// The column is unknown, is of another type, or is NULL.
            #[inline]
            pub fn $name(&self, column: impl ColumnName) -> Result<$result> {
                let position = position(self.table, column)?;
                match self.value(position) {
                    $pattern => Ok($value),
                    _ => Err(self.wrong(position, $expected)),
                }
            }
        )*}
    };
}

getters! {
    /// A truth value.
    boolean -> bool, ValueRef::Bool(value) => value, "a bool";
    /// A floating point number.
    float -> f64, ValueRef::Float(value) => value, "a float";
    /// An exact number.
    decimal -> Decimal, ValueRef::Decimal(value) => value, "a decimal";
    /// A text.
    text -> &'tx str, ValueRef::Text(value) => value, "a text";
    /// Bytes.
    bytes -> &'tx [u8], ValueRef::Bytes(value) => value, "bytes";
    /// A day.
    date -> Date, ValueRef::Date(value) => value, "a date";
    /// A time.
    timestamp -> Timestamp, ValueRef::Timestamp(value) => value, "a timestamp";
    /// An identifier.
    uuid -> Uuid, ValueRef::Uuid(value) => value, "a uuid";
}

impl fmt::Debug for Row<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = formatter.debug_map();
        for (position, column) in self.table.definition().columns().iter().enumerate() {
            map.entry(&column.name, &self.value(position));
        }
        map.finish()
    }
}
