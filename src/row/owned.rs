//! Rows that own their memory.

use std::fmt;
use std::sync::Arc;

use super::Row;
use crate::error::{Error, Result};
use crate::storage::versions::Rows;
use crate::table::ColumnName;
use crate::types::{Date, Decimal, Timestamp, Uuid, Value, ValueRef};

/// A row that was read, which stays unchanged as long as it is kept, on any thread: the rows of snapshots.
///
/// Cheap to clone: rows that were read together share their memory, which is freed with the last of them.
#[derive(Clone)]
pub struct OwnedRow {
    rows: Arc<Rows>,
    at: usize,
}

impl OwnedRow {
    /// The row at this position of rows that were read together.
    pub(crate) fn new(rows: Arc<Rows>, at: usize) -> OwnedRow {
        OwnedRow { rows, at }
    }

    /// Borrows the row.
    #[inline]
    pub fn row(&self) -> Row<'_> {
        Row::new(self.rows.table(), self.rows.row(self.at))
    }

    /// A column's value.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`](crate::Error::UnknownColumn).
    pub fn get(&self, column: impl ColumnName) -> Result<ValueRef<'_>> {
        self.row().get(column)
    }

    /// Returns true if a column is NULL.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`](crate::Error::UnknownColumn).
    pub fn is_null(&self, column: impl ColumnName) -> Result<bool> {
        self.row().is_null(column)
    }

    /// A column's value as a Rust type, as [`Row::read`] gives it.
    ///
    /// # Errors
    /// Same errors as [`Row::read`].
    pub fn read<'r, T: TryFrom<ValueRef<'r>, Error = Error>>(&'r self, column: impl ColumnName) -> Result<T> {
        self.row().read(column)
    }

    /// The entry of an ordered-tuple column, as [`Row::ordered_tuple`] gives it.
    ///
    /// # Errors
    /// Same errors as [`Row::ordered_tuple`].
    pub fn ordered_tuple(&self, column: impl ColumnName) -> Result<Option<Vec<Value>>> {
        self.row().ordered_tuple(column)
    }

    /// The entries of a top-K column, as [`Row::top_k`] gives them.
    ///
    /// # Errors
    /// Same errors as [`Row::top_k`].
    pub fn top_k(&self, column: impl ColumnName) -> Result<Vec<Vec<Value>>> {
        self.row().top_k(column)
    }

    /// Every column's value, owned.
    pub fn to_values(&self) -> Vec<Value> {
        self.row().to_values()
    }
}

macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident, $optional:ident -> $result:ty;)*) => {
        impl OwnedRow {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// The column is unknown, is of another type, or is NULL.
            #[inline]
            pub fn $name(&self, column: impl ColumnName) -> Result<$result> {
                self.row().$name(column)
            }

            #[doc = concat!("As [`", stringify!($name), "`](Self::", stringify!($name), "); none, if it is NULL.")]
            ///
            /// # Errors
            /// The column is unknown, or is of another type.
            #[inline]
            pub fn $optional(&self, column: impl ColumnName) -> Result<Option<$result>> {
                self.row().$optional(column)
            }
        )*}
    };
}

getters! {
    /// An integer.
    int, opt_int -> i64;
    /// A truth value.
    boolean, opt_boolean -> bool;
    /// A floating point number.
    float, opt_float -> f64;
    /// An exact number.
    decimal, opt_decimal -> Decimal;
    /// A text.
    text, opt_text -> &str;
    /// Bytes.
    bytes, opt_bytes -> &[u8];
    /// A day.
    date, opt_date -> Date;
    /// A time.
    timestamp, opt_timestamp -> Timestamp;
    /// An identifier.
    uuid, opt_uuid -> Uuid;
}

impl fmt::Debug for OwnedRow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.row().fmt(formatter)
    }
}
