//! The forms in which a key may be given: one value, a tuple of values, or an array of [`ValueRef`]s.

use smallvec::SmallVec;

use crate::types::{Date, Decimal, Timestamp, Uuid, Value, ValueRef};

/// A key, or its first columns: `7` if it has one column, `(7, "a")`, `key![7, "a"]`, or values in a slice or
/// vector.
///
/// ```
/// # use heddledb::{DataType, Database, Durability, Options, TableDefinition, key, row};
/// # let db = Database::in_memory()?;
/// # let lines = db.create_table(TableDefinition::new("line").column("order", DataType::Int64)
/// #     .column("line", DataType::Int64).primary_key(["order", "line"]))?;
/// db.run(|tx| {
///     (1..=4).try_for_each(|line| tx.insert(&lines, row![7, line]))?;
///     assert!(tx.exists(&lines, (7, 1))? && tx.exists(&lines, key![7, 1])?);
///     assert_eq!(tx.scan(&lines, 7)?.count(), 4); // all keys that begin with 7
///     assert_eq!(tx.scan(&lines, (7, 2)..(7, 4))?.count(), 2);
///     Ok(())
/// })?;
/// # Ok::<(), heddledb::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a key",
    label = "give a value (`7`), a tuple of values (`(7, \"a\")`), or `key![7, \"a\"]`"
)]
pub trait IntoKey<'k> {
    /// The container of the values.
    #[doc(hidden)]
    type Values: AsRef<[ValueRef<'k>]>;

    /// The values, in the order of the key's columns.
    #[doc(hidden)]
    fn into_key(self) -> Self::Values;
}

/// Keys that are values already.
macro_rules! of_values {
    ($([$($parameter:tt)*] $source:ty;)*) => {$(
        impl<'k, $($parameter)*> IntoKey<'k> for $source {
            type Values = Self;

            #[inline]
            fn into_key(self) -> Self {
                self
            }
        }
    )*};
}

of_values! {
    [const N: usize] [ValueRef<'k>; N];
    ['r, const N: usize] &'r [ValueRef<'k>; N];
    ['r] &'r [ValueRef<'k>];
    [] Vec<ValueRef<'k>>;
    ['r] &'r Vec<ValueRef<'k>>;
    [] SmallVec<[ValueRef<'k>; 4]>;
    ['r] &'r SmallVec<[ValueRef<'k>; 4]>;
}

/// Keys of one column, given as its value.
macro_rules! of_one {
    ($($source:ty)*) => {$(
        impl<'k> IntoKey<'k> for $source {
            type Values = [ValueRef<'k>; 1];

            #[inline]
            fn into_key(self) -> [ValueRef<'k>; 1] {
                [ValueRef::from(self)]
            }
        }
    )*};
}

of_one! {
    bool i8 i16 i32 i64 isize u8 u16 u32 u64 usize f32 f64 Decimal Date Timestamp Uuid std::time::SystemTime
    jiff::Timestamp jiff::civil::Date ValueRef<'k> &'k str &'k String &'k [u8] &'k Vec<u8> &'k Value
}

/// Keys of one column, given as a reference to its value.
macro_rules! of_one_copied {
    ($($source:ty)*) => {$(
        impl<'k> IntoKey<'k> for &$source {
            type Values = [ValueRef<'k>; 1];

            #[inline]
            fn into_key(self) -> [ValueRef<'k>; 1] {
                [ValueRef::from(*self)]
            }
        }
    )*};
}

of_one_copied! { i8 i16 i32 i64 isize u8 u16 u32 u64 usize Decimal Date Timestamp Uuid }

#[cfg(feature = "chrono")]
of_one! { chrono::DateTime<chrono::Utc> chrono::NaiveDate }
#[cfg(feature = "rust_decimal")]
of_one! { rust_decimal::Decimal }
#[cfg(feature = "uuid")]
of_one! { uuid::Uuid }

/// Keys of several columns, given as a tuple.
macro_rules! of_tuple {
    ($($count:literal: $($name:ident)+;)*) => {$(
        impl<'k, $($name: Into<ValueRef<'k>>),+> IntoKey<'k> for ($($name,)+) {
            type Values = [ValueRef<'k>; $count];

            #[inline]
            fn into_key(self) -> [ValueRef<'k>; $count] {
                #[allow(non_snake_case)]
                let ($($name,)+) = self;
                [$($name.into()),+]
            }
        }
    )*};
}

for_each_tuple!(of_tuple);
