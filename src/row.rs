//! Rows as bodies read them.

use std::fmt;

use crate::error::{Error, Result};
use crate::protocol::attempt::Attempt;
use crate::storage::session_buffer::ColumnSet;
use crate::storage::table::TableCore;
use crate::table::{Column, ColumnName, position};
use crate::types::{DataType, Date, Decimal, OrderedTuple, Timestamp, TopK, Uuid, Value, ValueRef};

mod owned;
#[cfg(feature = "serde")]
mod serde_rows;
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

    /// The row for a caller that uses only these columns of it.
    pub(crate) fn only(self, attempt: &Attempt<'tx>, columns: ColumnSet) -> Row<'tx> {
        Row { words: attempt.only_columns(self.table, self.words, columns), ..self }
    }

    /// A column's value.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`].
    pub fn get(&self, column: impl ColumnName) -> Result<ValueRef<'tx>> {
        Ok(self.value(position(self.table, column)?))
    }

    /// The word of a column whose values take one word: a boolean (1: true), an integer, a time since its epoch, or the
    /// digits of a decimal of up to 18 digits. `None` if it is NULL. For columns of other types the result
    /// has no meaning.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`].
    #[doc(hidden)]
    #[inline]
    pub fn word(&self, column: &Column) -> Result<Option<i64>> {
        let position = position(self.table, column)?;
        let word = self.table.layout().first_word(self.words, position);
        if word.is_none() {
            self.is_hidden(position);
        }
        Ok(word)
    }

    #[inline]
    pub(crate) fn value(&self, position: usize) -> ValueRef<'tx> {
        // SAFETY: rows are made by attempts of rows that they have read, whose blocks live as long as the attempt,
        // in its arena or by its pin.
        let value = unsafe { self.table.layout().value(self.words, position) };
        if value.is_null() {
            self.is_hidden(position);
        }
        value
    }

    /// Returns true if a column that is marked as NULL is split now: then the call is stashed, and reads it later.
    #[cold]
    fn is_hidden(&self, position: usize) -> bool {
        // SAFETY: the flag is the worker context's, which outlives the attempt, and that outlives the row.
        unsafe { self.table.layout().look_at_hidden(self.words, position) }
    }

    /// Returns true if a column is NULL.
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
    // Inlined always: apart, handing over the column and the result would cost more than reading the word.
    #[inline(always)]
    pub fn int(&self, column: impl ColumnName) -> Result<i64> {
        let position = position(self.table, column)?;
        match self.int_at(position) {
            Some(int) => Ok(int),
            None => Err(self.wrong(position, "an integer")),
        }
    }

    /// Same as [`int`](Self::int); returns `None` if it is NULL.
    ///
    /// # Errors
    /// The column is unknown, or is of another type.
    #[inline]
    pub fn opt_int(&self, column: impl ColumnName) -> Result<Option<i64>> {
        let position = position(self.table, column)?;
        match self.value(position) {
            ValueRef::Int(value) => Ok(Some(value)),
            ValueRef::Null if !self.is_hidden(position) => Ok(None),
            _ => Err(self.wrong(position, "an integer")),
        }
    }

    /// A column's value as a Rust type: any that [`row!`](crate::row) takes, checked, and `Option` of it.
    ///
    /// # Errors
    /// The column is unknown, is of another type, is NULL, or its value does not fit the type.
    #[inline]
    pub fn read<T: TryFrom<ValueRef<'tx>, Error = Error>>(&self, column: impl ColumnName) -> Result<T> {
        self.read_at(position(self.table, column)?)
    }

    /// The table that it is of.
    #[inline]
    pub(crate) fn table(&self) -> &'tx TableCore {
        self.table
    }

    /// The integer at this position, if there is one.
    #[inline]
    pub(crate) fn int_at(&self, position: usize) -> Option<i64> {
        self.table.layout().int(self.words, position)
    }

    #[inline]
    pub(crate) fn read_at<T: TryFrom<ValueRef<'tx>, Error = Error>>(&self, position: usize) -> Result<T> {
        self.read_at_with(position, T::try_from)
    }

    /// The value at this position, read by a function.
    #[inline]
    pub(crate) fn read_at_with<T>(
        &self,
        position: usize,
        read: impl FnOnce(ValueRef<'tx>) -> Result<T>,
    ) -> Result<T> {
        let value = self.value(position);
        if value.is_null() && self.is_hidden(position) {
            return Err(Error::Conflict);
        }
        read(value).map_err(|error| self.about(position, error))
    }

    #[cold]
    fn about(&self, position: usize, error: Error) -> Error {
        let name = &self.table.layout().column(position).name;
        match error {
            Error::WrongRead { holds, read_as, .. } => {
                Error::WrongRead { what: name.clone(), holds, read_as }
            }
            other => other.in_column(name),
        }
    }

    /// The entry of an ordered-tuple column: the columns of its order, then those of its payload. `None` if it is NULL.
    ///
    /// # Errors
    /// The column is unknown, or is of another type.
    pub fn ordered_tuple(&self, column: impl ColumnName) -> Result<Option<Vec<Value>>> {
        let position = position(self.table, column)?;
        match (
            &self.table.layout().column(position).data_type,
            self.read_at::<Option<OrderedTuple>>(position)?,
        ) {
            (DataType::OrderedTuple(of), Some(tuple)) => tuple.row(of).map(Some),
            _ => Ok(None),
        }
    }

    /// The entries of a top-K column as rows, from the greatest down: each has the columns of the order, then those of
    /// the payload. NULL has no entries.
    ///
    /// ```
    /// # use heddledb::{Database, Durability, Options, TableDefinition, Value, row};
    /// # let db = Database::in_memory()?;
    /// let games = db.create_table(TableDefinition::new("game").column("id", "int64".parse()?)
    ///     .column("best", "top_k(2; int64; text)".parse()?).primary_key(["id"]))?;
    /// db.run(|tx| tx.insert(&games, row![1, None::<i64>]))?;
    /// for (score, name) in [(10, "Ada"), (12, "Bea"), (7, "Cem")] {
    ///     db.run(|tx| tx.top_k_insert(&games, 1, "best", &row![score], &row![name]))?;
    /// }
    /// let best = db.run(|tx| tx.get(&games, 1)?.map(|game| game.top_k("best")).transpose())?;
    /// assert_eq!(best, Some(vec![vec![12.into(), "Bea".into()], vec![10.into(), "Ada".into()]]));
    /// let shown = db.run(|tx| Ok(format!("{:?}", tx.get(&games, 1)?)))?;
    /// assert!(shown.contains(r#"[[12, "Bea"], [10, "Ada"]]"#), "{shown}");
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// The column is unknown, or is of another type.
    pub fn top_k(&self, column: impl ColumnName) -> Result<Vec<Vec<Value>>> {
        let position = position(self.table, column)?;
        match (&self.table.layout().column(position).data_type, self.read_at::<Option<TopK>>(position)?) {
            (DataType::TopK { of, .. }, Some(set)) => set.rows(of),
            _ => Ok(Vec::new()),
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
    ($($(#[$doc:meta])* $name:ident, $optional:ident -> $result:ty, $pattern:pat => $value:expr, $expected:literal;)*) => {
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

            #[doc = concat!("As [`", stringify!($name), "`](Self::", stringify!($name), "); none, if it is NULL.")]
            ///
            /// # Errors
            /// The column is unknown, or is of another type.
            #[inline]
            pub fn $optional(&self, column: impl ColumnName) -> Result<Option<$result>> {
                let position = position(self.table, column)?;
                match self.value(position) {
                    $pattern => Ok(Some($value)),
                    ValueRef::Null if !self.is_hidden(position) => Ok(None),
                    _ => Err(self.wrong(position, $expected)),
                }
            }
        )*}
    };
}

getters! {
    /// A truth value.
    boolean, opt_boolean -> bool, ValueRef::Bool(value) => value, "a bool";
    /// A floating point number.
    float, opt_float -> f64, ValueRef::Float(value) => value, "a float";
    /// An exact number.
    decimal, opt_decimal -> Decimal, ValueRef::Decimal(value) => value, "a decimal";
    /// A text.
    text, opt_text -> &'tx str, ValueRef::Text(value) => value, "a text";
    /// Bytes.
    bytes, opt_bytes -> &'tx [u8], ValueRef::Bytes(value) => value, "bytes";
    /// A day.
    date, opt_date -> Date, ValueRef::Date(value) => value, "a date";
    /// A time.
    timestamp, opt_timestamp -> Timestamp, ValueRef::Timestamp(value) => value, "a timestamp";
    /// An identifier.
    uuid, opt_uuid -> Uuid, ValueRef::Uuid(value) => value, "a uuid";
}

impl fmt::Debug for Row<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = formatter.debug_map();
        for (position, column) in self.table.definition().columns().iter().enumerate() {
            match (&column.data_type, self.value(position)) {
                (DataType::OrderedTuple(of), ValueRef::Tuple(entry)) => map.entry(
                    &column.name,
                    &Entries(OrderedTuple::from_stored(entry).row(of).map(|row| vec![row])),
                ),
                (DataType::TopK { of, .. }, ValueRef::TopK(set)) => {
                    map.entry(&column.name, &Entries(TopK::from_stored(set).rows(of)))
                }
                (_, value) => map.entry(&column.name, &value),
            };
        }
        map.finish()
    }
}

/// Entries of a column of tuples, as rows of values.
struct Entries(Result<Vec<Vec<Value>>>);

impl fmt::Debug for Entries {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Ok(rows) => formatter.debug_list().entries(rows.iter().map(|row| EntryValues(row))).finish(),
            Err(error) => fmt::Debug::fmt(error, formatter),
        }
    }
}

struct EntryValues<'v>(&'v [Value]);

impl fmt::Debug for EntryValues<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut list = formatter.debug_list();
        for value in self.0 {
            match value {
                Value::Text(text) => list.entry(text),
                Value::Null => list.entry(&format_args!("NULL")),
                other => list.entry(&format_args!("{other}")),
            };
        }
        list.finish()
    }
}
