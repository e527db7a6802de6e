//! The types that the fields of a row may have, and the column type of each by default.

use std::time::SystemTime;

use crate::error::{Error, Result};
use crate::row::Row;
use crate::types::{DataType, Date, Decimal, OrderedTuple, Timestamp, TopK, Uuid, ValueRef};

/// A type of a field. Decimals, ordered tuples and top-K sets need `#[table(data_type = "…")]` besides: see [`ColumnType`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be a column of a table",
    label = "use an integer, float, bool, `String`, `Vec<u8>`, a time, a type of heddledb's, or an `Option` of one"
)]
pub trait StoredType: Sized {
    /// The column at this position of a row.
    ///
    /// # Errors
    /// The value does not fit the type.
    #[doc(hidden)]
    fn read(row: &Row<'_>, position: usize) -> Result<Self>;
}

/// A type of a field that determines its column's type.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say which type its column has",
    label = "add `#[table(data_type = \"decimal(12, 2)\")]`, or the type that it is, to the field"
)]
pub trait ColumnType: StoredType {
    /// The column's type.
    fn data_type() -> DataType;
}

/// A type of your own as a column: an enum, or a struct around one value. Derive it (`#[derive(ColumnValue)]`), which implements
/// [`AsValue`](crate::AsValue), [`StoredType`] and [`ColumnType`] besides.
///
/// ```
/// use heddledb::{ColumnValue, Database, Table, TableRow, key};
///
/// #[derive(ColumnValue, Clone, Copy, Debug, PartialEq)]
/// enum Status {
///     Open,
///     #[column(name = "sent out")]
///     Sent,
/// }
///
/// #[derive(ColumnValue, Clone, Copy, Debug, PartialEq)]
/// struct OrderId(i64);
///
/// #[derive(Table, Debug, PartialEq)]
/// struct Order {
///     #[table(key)]
///     id: OrderId,
///     status: Status,
///     before: Option<Status>,
/// }
///
/// let db = Database::in_memory()?;
/// let orders = db.table_of::<Order>()?;
/// let order = Order { id: OrderId(7), status: Status::Sent, before: Some(Status::Open) };
/// db.run(|tx| tx.insert(&orders, &order))?;
/// assert_eq!(db.run(|tx| tx.get(&orders, key![OrderId(7)]))?, Some(order));
/// assert_eq!(db.run(|tx| Ok(tx.get(&db.table("order")?, 7)?.map(|row| row.text("status").map(str::to_owned)).transpose()?))?, Some("sent out".into()));
/// # Ok::<(), heddledb::Error>(())
/// ```
pub trait ColumnValue: Sized {
    /// The column's type.
    fn data_type() -> DataType;

    /// The value that a column holds, which is not NULL.
    ///
    /// # Errors
    /// It is none of this type's ([`wrong_column_value`]).
    fn from_value(value: ValueRef<'_>) -> Result<Self>;
}

/// The error of a value that is not valid for a type of your own:
/// [`Error::WrongRead`](crate::Error::WrongRead), with the column's name where that is known.
#[cold]
pub fn wrong_column_value(value: ValueRef<'_>, read_as: &'static str) -> Error {
    Error::WrongRead { what: "a value".to_owned(), holds: format!("{value:?}"), read_as }
}

/// Reads a field of a type of your own: the derive implements [`StoredType`] with it.
///
/// # Errors
/// Same errors as [`ColumnValue::from_value`].
#[doc(hidden)]
#[inline]
pub fn read_column_value<T: ColumnValue>(row: &Row<'_>, position: usize) -> Result<T> {
    row.read_at_with(position, T::from_value)
}

impl<T: ColumnValue> StoredType for Option<T> {
    #[inline]
    fn read(row: &Row<'_>, position: usize) -> Result<Self> {
        row.read_at_with(
            position,
            |value| if value.is_null() { Ok(None) } else { T::from_value(value).map(Some) },
        )
    }
}

impl<T: ColumnValue> ColumnType for Option<T> {
    fn data_type() -> DataType {
        T::data_type()
    }
}

/// Fields that are read as any value is.
macro_rules! stored {
    ($($source:ty $(=> $data_type:expr)?;)*) => {$(
        impl StoredType for $source {
            #[inline]
            fn read(row: &Row<'_>, position: usize) -> Result<Self> {
                row.read_at(position)
            }
        }

        impl StoredType for Option<$source> {
            #[inline]
            fn read(row: &Row<'_>, position: usize) -> Result<Self> {
                row.read_at(position)
            }
        }

        $(
            impl ColumnType for $source {
                fn data_type() -> DataType {
                    $data_type
                }
            }

            impl ColumnType for Option<$source> {
                fn data_type() -> DataType {
                    $data_type
                }
            }
        )?
    )*};
}

stored! {
    bool => DataType::Bool;
    i8 => DataType::Int32;
    i16 => DataType::Int32;
    isize => DataType::Int64;
    u8 => DataType::Int32;
    u16 => DataType::Int32;
    u32 => DataType::Int64;
    u64 => DataType::Int64;
    usize => DataType::Int64;
    f32 => DataType::Float64;
    f64 => DataType::Float64;
    String => DataType::Text;
    Vec<u8> => DataType::Bytes;
    Date => DataType::Date;
    Timestamp => DataType::Timestamp;
    Uuid => DataType::Uuid;
    SystemTime => DataType::Timestamp;
    jiff::Timestamp => DataType::Timestamp;
    jiff::civil::Date => DataType::Date;
    Decimal;
    OrderedTuple;
    TopK;
}

#[cfg(feature = "chrono")]
stored! {
    chrono::DateTime<chrono::Utc> => DataType::Timestamp;
    chrono::NaiveDate => DataType::Date;
}

#[cfg(feature = "uuid")]
stored! {
    uuid::Uuid => DataType::Uuid;
}

#[cfg(feature = "rust_decimal")]
stored! {
    rust_decimal::Decimal;
}

/// Fields that are integers as they are stored: read without a look at the column's type.
macro_rules! integers {
    ($($source:ty => $data_type:ident;)*) => {$(
        impl StoredType for $source {
            #[inline]
            fn read(row: &Row<'_>, position: usize) -> Result<Self> {
                match row.int_at(position).and_then(|int| int.try_into().ok()) {
                    Some(int) => Ok(int),
                    None => row.read_at(position),
                }
            }
        }

        impl StoredType for Option<$source> {
            #[inline]
            fn read(row: &Row<'_>, position: usize) -> Result<Self> {
                match row.int_at(position).and_then(|int| int.try_into().ok()) {
                    Some(int) => Ok(Some(int)),
                    None => row.read_at(position),
                }
            }
        }

        impl ColumnType for $source {
            fn data_type() -> DataType {
                DataType::$data_type
            }
        }

        impl ColumnType for Option<$source> {
            fn data_type() -> DataType {
                DataType::$data_type
            }
        }
    )*};
}

integers! {
    i32 => Int32;
    i64 => Int64;
}
