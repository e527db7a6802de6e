//! A value that owns its bytes: a result of the engine, or an argument of a call.

use std::fmt;

use crate::types::{Date, Decimal, OrderedTuple, Timestamp, TopK, Uuid, ValueRef};

/// A value of any type.
///
/// Two values are equal when they are of one kind and their keys are equal: NULL equals NULL, NaN equals NaN, and
/// the decimal 1.5 equals 1.50.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// NULL, which is no value.
    #[default]
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
    Text(String),
    /// A byte string.
    Bytes(Vec<u8>),
    /// A day.
    Date(Date),
    /// A microsecond in time.
    Timestamp(Timestamp),
    /// A universally unique identifier.
    Uuid(Uuid),
    /// One entry of order and payload columns.
    Tuple(OrderedTuple),
    /// The greatest entries.
    TopK(TopK),
}

impl Value {
    /// Borrows the value.
    pub fn as_value_ref(&self) -> ValueRef<'_> {
        match self {
            Value::Null => ValueRef::Null,
            Value::Bool(value) => ValueRef::Bool(*value),
            Value::Int(value) => ValueRef::Int(*value),
            Value::Float(value) => ValueRef::Float(*value),
            Value::Decimal(value) => ValueRef::Decimal(*value),
            Value::Text(value) => ValueRef::Text(value),
            Value::Bytes(value) => ValueRef::Bytes(value),
            Value::Date(value) => ValueRef::Date(*value),
            Value::Timestamp(value) => ValueRef::Timestamp(*value),
            Value::Uuid(value) => ValueRef::Uuid(*value),
            Value::Tuple(value) => ValueRef::Tuple(value.as_bytes()),
            Value::TopK(value) => ValueRef::TopK(value.as_bytes()),
        }
    }

    /// Returns true if this is NULL.
    pub const fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }
}

impl ValueRef<'_> {
    /// Converts to an owned value.
    pub fn to_value(self) -> Value {
        match self {
            ValueRef::Null => Value::Null,
            ValueRef::Bool(value) => Value::Bool(value),
            ValueRef::Int(value) => Value::Int(value),
            ValueRef::Float(value) => Value::Float(value),
            ValueRef::Decimal(value) => Value::Decimal(value),
            ValueRef::Text(value) => Value::Text(value.to_owned()),
            ValueRef::Bytes(value) => Value::Bytes(value.to_owned()),
            ValueRef::Date(value) => Value::Date(value),
            ValueRef::Timestamp(value) => Value::Timestamp(value),
            ValueRef::Uuid(value) => Value::Uuid(value),
            ValueRef::Tuple(value) => Value::Tuple(OrderedTuple::from_stored(value)),
            ValueRef::TopK(value) => Value::TopK(TopK::from_stored(value)),
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.as_value_ref() == other.as_value_ref()
    }
}

impl Eq for Value {}

impl PartialEq<ValueRef<'_>> for Value {
    fn eq(&self, other: &ValueRef<'_>) -> bool {
        self.as_value_ref() == *other
    }
}

impl PartialEq<Value> for ValueRef<'_> {
    fn eq(&self, other: &Value) -> bool {
        *self == other.as_value_ref()
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.as_value_ref(), f)
    }
}

impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Self {
        value.to_value()
    }
}
