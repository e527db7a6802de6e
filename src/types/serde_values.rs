//! Values for serde, with the feature `serde`.
//!
//! NULL, truth values, numbers, texts and bytes are what they are to serde; a decimal, a day, a time and an identifier are their
//! texts, exact and the same in every format; the entries of tuples and top-K sets are bytes, where no column says what is in
//! them. A value is read as the kind that the format holds: so a day is read as its text, unless it is read as a
//! [`Date`].

use std::fmt;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::types::{Date, Decimal, Timestamp, Uuid, Value, ValueRef};

impl Serialize for ValueRef<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            ValueRef::Null => serializer.serialize_none(),
            ValueRef::Bool(value) => serializer.serialize_bool(value),
            ValueRef::Int(value) => serializer.serialize_i64(value),
            ValueRef::Float(value) => serializer.serialize_f64(value),
            ValueRef::Decimal(value) => value.serialize(serializer),
            ValueRef::Text(value) => serializer.serialize_str(value),
            ValueRef::Date(value) => value.serialize(serializer),
            ValueRef::Timestamp(value) => value.serialize(serializer),
            ValueRef::Uuid(value) => value.serialize(serializer),
            ValueRef::Bytes(value) | ValueRef::Tuple(value) | ValueRef::TopK(value) => {
                serializer.serialize_bytes(value)
            }
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_value_ref().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

/// Makes a value of whatever a format holds.
struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value: null, a truth value, a number, a text or bytes")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_bytes<E: de::Error>(self, value: &[u8]) -> Result<Value, E> {
        Ok(value.into())
    }

    /// Reads bytes, in formats that have none: a list of numbers from 0 to 255.
    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = sequence.next_element::<u8>()? {
            bytes.push(byte);
        }
        Ok(bytes.into())
    }
}

/// Types that are their texts.
macro_rules! as_text {
    ($($source:ident, $expected:literal;)*) => {$(
        impl Serialize for $source {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $source {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$source, D::Error> {
                struct Text;

                impl Visitor<'_> for Text {
                    type Value = $source;

                    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                        formatter.write_str($expected)
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$source, E> {
                        text.parse().map_err(E::custom)
                    }
                }

                deserializer.deserialize_str(Text)
            }
        }
    )*};
}

as_text! {
    Decimal, "a text of digits with an optional sign and point";
    Date, "the text of a day, such as \"2026-11-23\"";
    Timestamp, "the text of a time, such as \"2026-11-23 12:30:00\"";
    Uuid, "the text of an identifier, of 32 hexadecimal digits";
}
