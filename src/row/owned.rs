//! Rows that own their memory.

use std::fmt;
use std::sync::Arc;

use super::Row;
use crate::error::Result;
use crate::storage::versions::Rows;
use crate::table::ColumnName;
use crate::types::{Date, Decimal, Timestamp, Uuid, Value, ValueRef};

/// A row that was read and stays as it was read, for as long as it is kept and on any thread: what snapshots give.
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

    /// The same row, borrowed.
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

    /// Whether a column is NULL.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`](crate::Error::UnknownColumn).
    pub fn is_null(&self, column: impl ColumnName) -> Result<bool> {
        self.row().is_null(column)
    }

    /// Every column's value, owned.
    pub fn to_values(&self) -> Vec<Value> {
        self.row().to_values()
    }
}

macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident -> $result:ty;)*) => {
        impl OwnedRow {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// The column is unknown, is of another type, or is NULL.
            #[inline]
            pub fn $name(&self, column: impl ColumnName) -> Result<$result> {
                self.row().$name(column)
            }
        )*}
    };
}

getters! {
    /// An integer.
    int -> i64;
    /// A truth value.
    boolean -> bool;
    /// A floating point number.
    float -> f64;
    /// An exact number.
    decimal -> Decimal;
    /// A text.
    text -> &str;
    /// Bytes.
    bytes -> &[u8];
    /// A day.
    date -> Date;
    /// A time.
    timestamp -> Timestamp;
    /// An identifier.
    uuid -> Uuid;
}

impl fmt::Debug for OwnedRow {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.row().fmt(formatter)
    }
}
