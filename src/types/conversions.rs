//! Conversions of Rust's types to values, and back.
//!
//! A conversion into a value never fails: what no column can hold is refused where it would be stored, with the column's
//! name. An integer beyond 64 bits with a sign becomes a decimal, which columns of decimals take if it fits them, and
//! columns of integers refuse as out of range; so is a time before the year 1 or after the year 9999.
//!
//! Invariants: a value that is stored is returned as the same value; reading never rounds and never wraps.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};
use crate::types::{Date, Decimal, OrderedTuple, Timestamp, TopK, Uuid, Value, ValueRef};

/// The name of a value in messages, where no column is known.
const WHAT: &str = "a value";

/// A value for [`row!`](crate::row), [`key!`](crate::key) and [`set!`](crate::set): they borrow it.
///
/// `'s` is how long it is borrowed, `'v` how long the value may be used: as long for a `String`, and any time for an integer, so
/// that `row![a + b]` can be kept. For a type of your own:
///
/// ```
/// use heddledb::{AsValue, ValueRef, row};
/// struct OrderId(u64);
/// impl<'v> AsValue<'_, 'v> for OrderId {
///     fn as_value(&self) -> ValueRef<'v> {
///         self.0.into()
///     }
/// }
/// assert_eq!(row![OrderId(7), Some(OrderId(8))], row![7, 8]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the value of a column",
    label = "give an integer, float, bool, text, bytes, a time, a type of heddledb's, or an `Option` of one"
)]
pub trait AsValue<'s, 'v> {
    /// The value.
    fn as_value(&'s self) -> ValueRef<'v>;
}

/// Makes a value of each of these types without a borrow, owned or not, and of a reference to it.
macro_rules! from_scalar {
    ($($source:ty: $value:ident => $made:expr;)*) => {$(
        impl From<$source> for ValueRef<'_> {
            #[inline]
            fn from($value: $source) -> Self {
                $made
            }
        }

        impl<'v> AsValue<'_, 'v> for $source {
            #[inline]
            fn as_value(&self) -> ValueRef<'v> {
                ValueRef::from(*self)
            }
        }

        impl From<$source> for Value {
            #[inline]
            fn from(value: $source) -> Self {
                ValueRef::from(value).to_value()
            }
        }
    )*};
}

from_scalar! {
    bool: value => ValueRef::Bool(value);
    i8: value => ValueRef::Int(value.into());
    i16: value => ValueRef::Int(value.into());
    i32: value => ValueRef::Int(value.into());
    i64: value => ValueRef::Int(value);
    isize: value => ValueRef::Int(value as i64);
    u8: value => ValueRef::Int(value.into());
    u16: value => ValueRef::Int(value.into());
    u32: value => ValueRef::Int(value.into());
    u64: value => unsigned(value);
    usize: value => unsigned(value as u64);
    f32: value => ValueRef::Float(value.into());
    f64: value => ValueRef::Float(value);
    Decimal: value => ValueRef::Decimal(value);
    Date: value => ValueRef::Date(value);
    Timestamp: value => ValueRef::Timestamp(value);
    Uuid: value => ValueRef::Uuid(value);
    SystemTime: value => ValueRef::Timestamp(time_of_system(value));
    jiff::Timestamp: value => ValueRef::Timestamp(Timestamp::from_stored(value.as_microsecond()));
    jiff::civil::Date: value => ValueRef::Date(Date::from_stored(days(value)));
}

/// An integer, or the decimal that it is beyond the integers.
#[inline]
fn unsigned(value: u64) -> ValueRef<'static> {
    match i64::try_from(value) {
        Ok(int) => ValueRef::Int(int),
        Err(_) => ValueRef::Decimal(Decimal::from_stored(i128::from(value), 0)),
    }
}

/// The system's time, to the microsecond before; it may be out of range.
fn time_of_system(time: SystemTime) -> Timestamp {
    let microseconds = match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_micros()).unwrap_or(i64::MAX),
        Err(before) => {
            let before = before.duration().as_nanos().div_ceil(1_000);
            i64::try_from(before).map_or(i64::MIN, |before| -before)
        }
    };
    Timestamp::from_stored(microseconds)
}

/// Days since 1970-01-01.
fn days(date: jiff::civil::Date) -> i32 {
    date.duration_since(jiff::civil::date(1970, 1, 1)).as_hours().div_euclid(24) as i32
}

/// Makes a borrowed value of a reference to each of these types, and an owned one of it and of what it refers to.
macro_rules! from_reference {
    ($($source:ty, $owned:ty, $variant:ident, $borrow:ident;)*) => {$(
        impl<'a> From<&'a $source> for ValueRef<'a> {
            #[inline]
            fn from(value: &'a $source) -> Self {
                ValueRef::$variant(value.$borrow())
            }
        }

        impl<'s> AsValue<'s, 's> for $source {
            #[inline]
            fn as_value(&'s self) -> ValueRef<'s> {
                ValueRef::from(self)
            }
        }

        impl From<&$source> for Value {
            fn from(value: &$source) -> Self {
                Value::$variant(<$owned>::from(value.to_owned()))
            }
        }
    )*};
}

from_reference! {
    str, String, Text, as_ref;
    String, String, Text, as_str;
    [u8], Vec<u8>, Bytes, as_ref;
    Vec<u8>, Vec<u8>, Bytes, as_slice;
    OrderedTuple, OrderedTuple, Tuple, as_bytes;
    TopK, TopK, TopK, as_bytes;
}

macro_rules! from_owned {
    ($($source:ty, $variant:ident;)*) => {$(
        impl From<$source> for Value {
            fn from(value: $source) -> Self {
                Value::$variant(value)
            }
        }
    )*};
}

from_owned! {
    String, Text;
    Vec<u8>, Bytes;
    OrderedTuple, Tuple;
    TopK, TopK;
}

impl<'a, const LENGTH: usize> From<&'a [u8; LENGTH]> for ValueRef<'a> {
    fn from(value: &'a [u8; LENGTH]) -> Self {
        ValueRef::Bytes(value)
    }
}

impl<'s, const LENGTH: usize> AsValue<'s, 's> for [u8; LENGTH] {
    fn as_value(&'s self) -> ValueRef<'s> {
        ValueRef::Bytes(self)
    }
}

impl<'a> From<&'a Value> for ValueRef<'a> {
    fn from(value: &'a Value) -> Self {
        value.as_value_ref()
    }
}

impl<'s> AsValue<'s, 's> for Value {
    fn as_value(&'s self) -> ValueRef<'s> {
        self.as_value_ref()
    }
}

impl<'v> AsValue<'_, 'v> for ValueRef<'v> {
    #[inline]
    fn as_value(&self) -> ValueRef<'v> {
        *self
    }
}

/// Borrows from the referent of a reference.
impl<'r, 'v, T: AsValue<'r, 'v> + ?Sized> AsValue<'_, 'v> for &'r T {
    #[inline]
    fn as_value(&self) -> ValueRef<'v> {
        (**self).as_value()
    }
}

impl<'s, 'v, T: AsValue<'s, 'v>> AsValue<'s, 'v> for Option<T> {
    #[inline]
    fn as_value(&'s self) -> ValueRef<'v> {
        self.as_ref().map_or(ValueRef::Null, AsValue::as_value)
    }
}

impl<'a, T: Into<ValueRef<'a>>> From<Option<T>> for ValueRef<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(ValueRef::Null, Into::into)
    }
}

impl From<&Value> for Value {
    fn from(value: &Value) -> Self {
        value.clone()
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

#[cold]
fn wrong_read(value: ValueRef<'_>, read_as: &'static str) -> Error {
    Error::WrongRead { what: WHAT.to_owned(), holds: value.kind().to_owned(), read_as }
}

/// Reads each of these types from a value, borrowed or owned, and an `Option` of it, which NULL is none of.
macro_rules! try_from_value {
    ($($target:ty, $read_as:literal, $($pattern:pat $(if $guard:expr)? => $read:expr),+;)*) => {$(
        impl<'a> TryFrom<ValueRef<'a>> for $target {
            type Error = Error;

            #[inline]
            fn try_from(value: ValueRef<'a>) -> Result<Self> {
                match value {
                    $($pattern $(if $guard)? => $read,)+
                    _ => Err(wrong_read(value, $read_as)),
                }
            }
        }

        impl<'a> TryFrom<ValueRef<'a>> for Option<$target> {
            type Error = Error;

            #[inline]
            fn try_from(value: ValueRef<'a>) -> Result<Self> {
                if value.is_null() { Ok(None) } else { <$target>::try_from(value).map(Some) }
            }
        }

        impl<'a> TryFrom<&'a Value> for $target {
            type Error = Error;

            fn try_from(value: &'a Value) -> Result<Self> {
                value.as_value_ref().try_into()
            }
        }

        impl<'a> TryFrom<&'a Value> for Option<$target> {
            type Error = Error;

            fn try_from(value: &'a Value) -> Result<Self> {
                value.as_value_ref().try_into()
            }
        }
    )*};
}

/// Reads each of these integer types, which may be narrower than the integers of values.
macro_rules! try_from_int {
    ($($target:ident)*) => {
        try_from_value! {$(
            $target, "an integer",
            ValueRef::Int(value) => $target::try_from(value).map_err(|_| out_of_range(&value, $target::MIN, $target::MAX)),
            ValueRef::Decimal(value) if value.scale() == 0 => $target::try_from(value.unscaled())
                .map_err(|_| out_of_range(&value, $target::MIN, $target::MAX));
        )*}
    };
}

try_from_int! { i8 i16 i32 i64 isize u8 u16 u32 u64 usize }

#[cold]
fn out_of_range(
    value: &dyn std::fmt::Display,
    least: impl std::fmt::Display,
    most: impl std::fmt::Display,
) -> Error {
    Error::Overflow { what: WHAT.to_owned(), detail: format!("{value} is not within {least} and {most}") }
}

try_from_value! {
    bool, "a bool", ValueRef::Bool(value) => Ok(value);
    f64, "a float", ValueRef::Float(value) => Ok(value);
    f32, "a float", ValueRef::Float(value) => narrow(value);
    Decimal, "a decimal", ValueRef::Decimal(value) => Ok(value), ValueRef::Int(value) => Ok(Decimal::from(value));
    &'a str, "a text", ValueRef::Text(value) => Ok(value);
    String, "a text", ValueRef::Text(value) => Ok(value.to_owned());
    &'a [u8], "bytes", ValueRef::Bytes(value) => Ok(value);
    Vec<u8>, "bytes", ValueRef::Bytes(value) => Ok(value.to_owned());
    Date, "a date", ValueRef::Date(value) => Ok(value);
    Timestamp, "a timestamp", ValueRef::Timestamp(value) => Ok(value);
    Uuid, "a uuid", ValueRef::Uuid(value) => Ok(value);
    SystemTime, "a timestamp", ValueRef::Timestamp(value) => system_time(value);
    jiff::Timestamp, "a timestamp", ValueRef::Timestamp(value) => jiff_timestamp(value);
    jiff::civil::Date, "a date", ValueRef::Date(value) => jiff_date(value);
    OrderedTuple, "an ordered tuple", ValueRef::Tuple(value) => Ok(OrderedTuple::from_stored(value));
    TopK, "a top-K set", ValueRef::TopK(value) => Ok(TopK::from_stored(value));
}

/// Converts a number to half the bits, if that is exact.
fn narrow(value: f64) -> Result<f32> {
    let narrow = value as f32;
    if f64::from(narrow) == value || value.is_nan() {
        return Ok(narrow);
    }
    Err(Error::Inexact { what: WHAT.to_owned(), detail: format!("{value} is no number of 32 bits") })
}

fn system_time(value: Timestamp) -> Result<SystemTime> {
    let offset = std::time::Duration::from_micros(value.microseconds().unsigned_abs());
    let time = if value.microseconds() < 0 {
        UNIX_EPOCH.checked_sub(offset)
    } else {
        UNIX_EPOCH.checked_add(offset)
    };
    time.ok_or_else(|| not_of_the_library(&value))
}

fn jiff_timestamp(value: Timestamp) -> Result<jiff::Timestamp> {
    jiff::Timestamp::from_microsecond(value.microseconds()).map_err(|_| not_of_the_library(&value))
}

fn jiff_date(value: Date) -> Result<jiff::civil::Date> {
    let days = jiff::Span::new().days(value.days());
    jiff::civil::date(1970, 1, 1).checked_add(days).map_err(|_| not_of_the_library(&value))
}

#[cold]
fn not_of_the_library(value: &dyn std::fmt::Display) -> Error {
    Error::Overflow {
        what: WHAT.to_owned(),
        detail: format!("{value} is beyond the type that it was read as"),
    }
}

impl TryFrom<SystemTime> for Timestamp {
    type Error = Error;

    /// The microsecond at or before this time.
    fn try_from(time: SystemTime) -> Result<Timestamp> {
        Timestamp::from_microseconds(time_of_system(time).microseconds())
    }
}

impl TryFrom<Timestamp> for SystemTime {
    type Error = Error;

    fn try_from(time: Timestamp) -> Result<SystemTime> {
        system_time(time)
    }
}

impl TryFrom<jiff::Timestamp> for Timestamp {
    type Error = Error;

    /// The microsecond of this time; its nanoseconds are left out.
    fn try_from(time: jiff::Timestamp) -> Result<Timestamp> {
        Timestamp::from_microseconds(time.as_microsecond())
    }
}

impl TryFrom<Timestamp> for jiff::Timestamp {
    type Error = Error;

    fn try_from(time: Timestamp) -> Result<jiff::Timestamp> {
        jiff_timestamp(time)
    }
}

impl TryFrom<jiff::civil::Date> for Date {
    type Error = Error;

    fn try_from(date: jiff::civil::Date) -> Result<Date> {
        Date::from_days(days(date))
    }
}

impl TryFrom<Date> for jiff::civil::Date {
    type Error = Error;

    fn try_from(date: Date) -> Result<jiff::civil::Date> {
        jiff_date(date)
    }
}

macro_rules! decimal_of_integer {
    ($($source:ty)*) => {$(
        impl From<$source> for Decimal {
            fn from(value: $source) -> Decimal {
                Decimal::from_stored(value as i128, 0)
            }
        }
    )*};
}

decimal_of_integer! { i8 i16 i32 isize u8 u16 u32 u64 usize }

impl TryFrom<i128> for Decimal {
    type Error = Error;

    fn try_from(value: i128) -> Result<Decimal> {
        Decimal::new(value, 0)
    }
}

#[cfg(feature = "chrono")]
mod chrono_types;
#[cfg(feature = "rust_decimal")]
mod decimal_types;
#[cfg(feature = "uuid")]
mod uuid_types;

#[cfg(test)]
mod tests;
