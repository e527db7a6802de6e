//! A value that borrows its bytes: an input of the engine, without an allocation.
//!
//! Invariants: equality and order are those of the encoded keys. NULL equals itself and is below every
//! value; values of different kinds are not ordered.

use std::cmp::Ordering;
use std::fmt;

use crate::types::{Date, Decimal, Timestamp, Uuid};
#[cfg(doc)]
use crate::types::{OrderedTuple, TopK};

/// A value of any type, with borrowed text and bytes.
///
/// Methods that take values take this type, and `key!` and `row!` convert their arguments to it.
///
/// ```
/// use heddledb::{ValueRef, row};
/// let row = row![7, "seven", Some(0.7), Option::<i64>::None];
/// assert_eq!(row[0], ValueRef::Int(7));
/// assert!(row[3].is_null());
/// ```
#[derive(Clone, Copy, Debug)]
pub enum ValueRef<'a> {
    /// NULL, which is no value.
    Null,
    /// True or false.
    Bool(bool),
    /// An integer, of a column of 32 or 64 bits.
    Int(i64),
    /// A floating point number.
    Float(f64),
    /// An exact number.
    Decimal(Decimal),
    /// A text.
    Text(&'a str),
    /// A byte string.
    Bytes(&'a [u8]),
    /// A day.
    Date(Date),
    /// A microsecond in time.
    Timestamp(Timestamp),
    /// A universally unique identifier.
    Uuid(Uuid),
    /// The bytes of an [`OrderedTuple`].
    Tuple(&'a [u8]),
    /// The bytes of a [`TopK`].
    TopK(&'a [u8]),
}

impl<'a> ValueRef<'a> {
    /// Returns true if this is NULL.
    pub const fn is_null(self) -> bool {
        matches!(self, ValueRef::Null)
    }

    /// The kind of the value, for messages.
    pub(crate) const fn kind(self) -> &'static str {
        match self {
            ValueRef::Null => "NULL",
            ValueRef::Bool(_) => "a bool",
            ValueRef::Int(_) => "an integer",
            ValueRef::Float(_) => "a float",
            ValueRef::Decimal(_) => "a decimal",
            ValueRef::Text(_) => "a text",
            ValueRef::Bytes(_) => "bytes",
            ValueRef::Date(_) => "a date",
            ValueRef::Timestamp(_) => "a timestamp",
            ValueRef::Uuid(_) => "a uuid",
            ValueRef::Tuple(_) => "an ordered tuple",
            ValueRef::TopK(_) => "a top-K set",
        }
    }
}

/// The order of floating point numbers: -0 equals 0, and NaN equals itself and is above every number.
pub(crate) fn compare_floats(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

impl PartialOrd for ValueRef<'_> {
    fn partial_cmp(&self, other: &ValueRef<'_>) -> Option<Ordering> {
        match (self, other) {
            (ValueRef::Null, ValueRef::Null) => Some(Ordering::Equal),
            (ValueRef::Null, _) => Some(Ordering::Less),
            (_, ValueRef::Null) => Some(Ordering::Greater),
            (ValueRef::Bool(left), ValueRef::Bool(right)) => Some(left.cmp(right)),
            (ValueRef::Int(left), ValueRef::Int(right)) => Some(left.cmp(right)),
            (ValueRef::Float(left), ValueRef::Float(right)) => Some(compare_floats(*left, *right)),
            (ValueRef::Decimal(left), ValueRef::Decimal(right)) => Some(left.cmp(right)),
            (ValueRef::Text(left), ValueRef::Text(right)) => Some(left.cmp(right)),
            (ValueRef::Bytes(left), ValueRef::Bytes(right)) => Some(left.cmp(right)),
            (ValueRef::Date(left), ValueRef::Date(right)) => Some(left.cmp(right)),
            (ValueRef::Timestamp(left), ValueRef::Timestamp(right)) => Some(left.cmp(right)),
            (ValueRef::Uuid(left), ValueRef::Uuid(right)) => Some(left.cmp(right)),
            // The bytes of a tuple compare as its entry: see `tuple`.
            (ValueRef::Tuple(left), ValueRef::Tuple(right)) => Some(left.cmp(right)),
            (ValueRef::TopK(left), ValueRef::TopK(right)) => (left == right).then_some(Ordering::Equal),
            _ => None,
        }
    }
}

impl PartialEq for ValueRef<'_> {
    fn eq(&self, other: &ValueRef<'_>) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl Eq for ValueRef<'_> {}

impl fmt::Display for ValueRef<'_> {
    /// Formats it as `psql` prints it; NULL as nothing. Tuples, which do not know their types, as their bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValueRef::Null => Ok(()),
            ValueRef::Bool(value) => f.write_str(if *value { "t" } else { "f" }),
            ValueRef::Int(value) => write!(f, "{value}"),
            ValueRef::Float(value) => write_float(f, *value),
            ValueRef::Decimal(value) => write!(f, "{value}"),
            ValueRef::Text(value) => f.write_str(value),
            ValueRef::Bytes(value) | ValueRef::Tuple(value) | ValueRef::TopK(value) => write_bytes(f, value),
            ValueRef::Date(value) => write!(f, "{value}"),
            ValueRef::Timestamp(value) => write!(f, "{value}"),
            ValueRef::Uuid(value) => write!(f, "{value}"),
        }
    }
}

fn write_bytes(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_str("\\x")?;
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// The shortest text that reads back as the same number, with an exponent where PostgreSQL has one.
fn write_float(f: &mut fmt::Formatter<'_>, value: f64) -> fmt::Result {
    if value.is_nan() {
        return f.write_str("NaN");
    }
    if value.is_infinite() {
        return f.write_str(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    let scientific = format!("{value:e}");
    let Some((mantissa, exponent)) = scientific.split_once('e') else { return f.write_str(&scientific) };
    let exponent: i32 = exponent.parse().map_err(|_| fmt::Error)?;
    if (-4..15).contains(&exponent) {
        return write!(f, "{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    write!(f, "{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

#[cfg(test)]
mod tests;
