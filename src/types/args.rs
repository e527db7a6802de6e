//! The arguments of a call, and the macros that make keys, rows and arguments of Rust values.

use std::ops::Deref;

use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::types::{Date, Decimal, Timestamp, Uuid, Value};

/// A key: an array of [`ValueRef`](crate::ValueRef), one for each column.
#[macro_export]
macro_rules! key {
    () => { [] as [$crate::ValueRef<'static>; 0] };
    ($($value:expr),+ $(,)?) => { [$($crate::ValueRef::from($value)),+] };
}

/// A row: an array of [`ValueRef`](crate::ValueRef), one for each column.
#[macro_export]
macro_rules! row {
    () => { [] as [$crate::ValueRef<'static>; 0] };
    ($($value:expr),+ $(,)?) => { [$($crate::ValueRef::from($value)),+] };
}

/// The arguments of a call: [`Args`](crate::Args) of these values.
#[macro_export]
macro_rules! args {
    ($($value:expr),* $(,)?) => {
        [$($crate::Value::from($value)),*].into_iter().collect::<$crate::Args>()
    };
}

/// The arguments of a call, in their order.
///
/// ```
/// use heddledb::args;
/// let args = args![7, "seven", Option::<i64>::None];
/// assert_eq!(args.int(0)?, 7);
/// assert_eq!(args.text(1)?, "seven");
/// assert!(args.is_null(2)?);
/// assert!(args.int(1).is_err());
/// # Ok::<(), heddledb::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Args(SmallVec<[Value; 8]>);

impl Args {
    /// The argument at this position, counted from 0.
    pub fn get(&self, position: usize) -> Result<&Value> {
        self.0.get(position).ok_or_else(|| Error::WrongType {
            what: format!("argument {position} (counted from 0)"),
            expected: "a value".to_owned(),
            found: format!("nothing, there are {} arguments", self.0.len()),
        })
    }

    /// Whether the argument at this position is NULL.
    pub fn is_null(&self, position: usize) -> Result<bool> {
        self.get(position).map(Value::is_null)
    }

    /// The exact number at this position; an integer is one.
    pub fn decimal(&self, position: usize) -> Result<Decimal> {
        match self.get(position)? {
            Value::Decimal(value) => Ok(*value),
            Value::Int(value) => Ok(Decimal::from(*value)),
            _ => self.wrong(position, "a decimal"),
        }
    }

    fn wrong<T>(&self, position: usize, expected: &str) -> Result<T> {
        let found = self.get(position)?.as_value_ref().kind();
        Err(Error::WrongType {
            what: format!("argument {position} (counted from 0)"),
            expected: expected.to_owned(),
            found: found.to_owned(),
        })
    }
}

/// One getter for each kind of argument, which refuses every other kind and NULL.
macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident -> $result:ty, $pattern:pat => $value:expr, $expected:literal;)*) => {
        impl Args {$(
            $(#[$doc])*
            pub fn $name(&self, position: usize) -> Result<$result> {
                match self.get(position)? {
                    $pattern => Ok($value),
                    _ => self.wrong(position, $expected),
                }
            }
        )*}
    };
}

getters! {
    /// The truth value at this position.
    bool -> bool, Value::Bool(value) => *value, "a bool";
    /// The integer at this position.
    int -> i64, Value::Int(value) => *value, "an integer";
    /// The floating point number at this position.
    float -> f64, Value::Float(value) => *value, "a float";
    /// The text at this position.
    text -> &str, Value::Text(value) => value, "a text";
    /// The byte string at this position.
    bytes -> &[u8], Value::Bytes(value) => value, "bytes";
    /// The day at this position.
    date -> Date, Value::Date(value) => *value, "a date";
    /// The time at this position.
    timestamp -> Timestamp, Value::Timestamp(value) => *value, "a timestamp";
    /// The identifier at this position.
    uuid -> Uuid, Value::Uuid(value) => *value, "a uuid";
}

impl Deref for Args {
    type Target = [Value];

    fn deref(&self) -> &[Value] {
        &self.0
    }
}

impl FromIterator<Value> for Args {
    fn from_iter<I: IntoIterator<Item = Value>>(values: I) -> Args {
        Args(values.into_iter().collect())
    }
}

impl From<Vec<Value>> for Args {
    fn from(values: Vec<Value>) -> Args {
        Args(values.into())
    }
}
