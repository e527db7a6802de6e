//! One SQL value.
//!
//! Invariants: a value is 24 bytes and cheap to clone (shared data is behind `Arc`s); it does not distinguish `text`,
//! `varchar` and `name`, which the type beside it does. Equality, order and hash agree, and are PostgreSQL's of the
//! default B-tree operator class: NULL equals NULL and is above everything, NaN equals itself and is above every
//! number, integers of different widths compare by value, -0 equals 0, `1.0` equals `1.00`, and trailing blanks of
//! `char(n)` do not count.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::run::large_values::LARGE_BYTES;
use crate::types::array::ArrayValue;
use crate::types::interval::Interval;
use crate::types::jsonb::Jsonb;
use crate::types::numeric::Numeric;
use crate::types::record::RecordValue;

/// A value of any type.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// No value.
    #[default]
    Null,
    /// `boolean`
    Bool(bool),
    /// `smallint`
    Int2(i16),
    /// `integer`
    Int4(i32),
    /// `bigint`
    Int8(i64),
    /// `real`
    Float4(f32),
    /// `double precision`
    Float8(f64),
    /// `numeric`
    Numeric(Numeric),
    /// `text`, `varchar`, `name`, `"char"`, and literals whose type is not known yet
    Text(Arc<str>),
    /// `char(n)`, padded with blanks
    Bpchar(Arc<str>),
    /// `bytea`
    Bytes(Arc<[u8]>),
    /// `date`: days since 2000-01-01; `i32::MAX` and `i32::MIN` are the infinities
    Date(i32),
    /// `time`: microseconds since midnight
    Time(i64),
    /// `timetz`: microseconds since midnight, and the zone in seconds west of Greenwich
    Timetz(i64, i32),
    /// `timestamp`: microseconds since 2000-01-01; `i64::MAX` and `i64::MIN` are the infinities
    Timestamp(i64),
    /// `timestamptz`: microseconds since 2000-01-01 UTC, with the same infinities
    Timestamptz(i64),
    /// `interval`
    Interval(Interval),
    /// `uuid`
    Uuid([u8; 16]),
    /// `json`: the text as it was written
    Json(Arc<str>),
    /// `jsonb`
    Jsonb(Arc<Jsonb>),
    /// `oid`, the `reg…` types, `xid`
    Oid(u32),
    /// A label of an enum, by its place in the enum's order
    Enum(i32),
    /// An array
    Array(Arc<ArrayValue>),
    /// A row
    Record(Arc<RecordValue>),
    /// The result of functions that return nothing
    Void,
}

macro_rules! getters {
    ($($name:ident $variant:ident $kind:ty, $doc:literal;)*) => {
        $(
            #[doc = concat!("The value of ", $doc, "; the binder has made sure that it is one.")]
            #[inline]
            pub fn $name(&self) -> $kind {
                match self {
                    Value::$variant(value) => *value,
                    other => other.mismatch($doc),
                }
            }
        )*
    };
}

impl Value {
    getters! {
        bool Bool bool, "a `boolean`";
        int2 Int2 i16, "a `smallint`";
        int4 Int4 i32, "an `integer`";
        int8 Int8 i64, "a `bigint`";
        float4 Float4 f32, "a `real`";
        float8 Float8 f64, "a `double precision`";
        date Date i32, "a `date`";
        time Time i64, "a `time`";
        timestamp Timestamp i64, "a `timestamp`";
        timestamptz Timestamptz i64, "a `timestamptz`";
        interval Interval Interval, "an `interval`";
        uuid Uuid [u8; 16], "a `uuid`";
        oid Oid u32, "an `oid`";
        enum_order Enum i32, "an enum";
    }

    /// A text value.
    pub fn text(value: impl AsRef<str>) -> Value {
        Value::Text(Arc::from(value.as_ref()))
    }

    /// A `bytea` value.
    pub fn bytes(value: impl AsRef<[u8]>) -> Value {
        Value::Bytes(Arc::from(value.as_ref()))
    }

    /// A `jsonb` value.
    pub fn jsonb(value: Jsonb) -> Value {
        Value::Jsonb(Arc::new(value))
    }

    /// An array value.
    pub fn array(value: ArrayValue) -> Value {
        Value::Array(Arc::new(value))
    }

    /// The characters of a text of any kind, `json` among them.
    #[inline]
    pub fn str(&self) -> &str {
        match self {
            Value::Text(text) | Value::Bpchar(text) | Value::Json(text) => text,
            other => other.mismatch("a text"),
        }
    }

    /// The bytes of a `bytea`.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Value::Bytes(bytes) => bytes,
            other => other.mismatch("a `bytea`"),
        }
    }

    /// The number of a `numeric`.
    #[inline]
    pub fn as_numeric(&self) -> &Numeric {
        match self {
            Value::Numeric(value) => value,
            other => other.mismatch("a `numeric`"),
        }
    }

    /// The tree of a `jsonb`.
    pub fn as_jsonb(&self) -> &Jsonb {
        match self {
            Value::Jsonb(value) => value,
            other => other.mismatch("a `jsonb`"),
        }
    }

    /// The array.
    pub fn as_array(&self) -> &Arc<ArrayValue> {
        match self {
            Value::Array(value) => value,
            other => other.mismatch("an array"),
        }
    }

    /// The row.
    pub fn as_record(&self) -> &Arc<RecordValue> {
        match self {
            Value::Record(value) => value,
            other => other.mismatch("a record"),
        }
    }

    /// Returns true if this is NULL.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// A `smallint`, `integer` or `bigint` as a `bigint`.
    pub fn any_int(&self) -> i64 {
        match self {
            Value::Int2(value) => i64::from(*value),
            Value::Int4(value) => i64::from(*value),
            Value::Int8(value) => *value,
            Value::Oid(value) => i64::from(*value),
            other => other.mismatch("an integer"),
        }
    }

    /// An integer of any width.
    pub(crate) fn as_integer(&self) -> Option<i64> {
        match self {
            Value::Int2(value) => Some(i64::from(*value)),
            Value::Int4(value) => Some(i64::from(*value)),
            Value::Int8(value) => Some(*value),
            _ => None,
        }
    }

    /// Returns true if the value may have allocated so much that it counts in a session's memory: a quick answer before
    /// [`Value::heap_size`].
    #[inline]
    pub(crate) fn may_be_large(&self) -> bool {
        match self {
            Value::Text(text) | Value::Bpchar(text) | Value::Json(text) => text.len() >= LARGE_BYTES,
            Value::Bytes(bytes) => bytes.len() >= LARGE_BYTES,
            Value::Jsonb(_) | Value::Array(_) | Value::Record(_) => true,
            _ => false,
        }
    }

    /// Approximate number of bytes that the value has allocated besides its own 24.
    pub fn heap_size(&self) -> usize {
        match self {
            Value::Text(text) | Value::Bpchar(text) | Value::Json(text) => text.len() + 16,
            Value::Bytes(bytes) => bytes.len() + 16,
            Value::Numeric(value) => value.heap_size(),
            Value::Jsonb(value) => value.heap_size() + 16,
            Value::Array(value) => 48 + sizes(&value.values),
            Value::Record(value) => 48 + sizes(&value.values),
            _ => 0,
        }
    }

    /// A function was given a value of a type that its signature excludes: a fault in the binder.
    #[cold]
    fn mismatch(&self, wanted: &str) -> ! {
        panic!("the binder passed {self:?} where the signature asks for {wanted}")
    }

    fn rank(&self) -> u8 {
        match self {
            Value::Bool(_) => 0,
            Value::Int2(_) => 1,
            Value::Int4(_) => 2,
            Value::Int8(_) => 3,
            Value::Float4(_) => 4,
            Value::Float8(_) => 5,
            Value::Numeric(_) => 6,
            Value::Text(_) => 7,
            Value::Bpchar(_) => 8,
            Value::Bytes(_) => 9,
            Value::Date(_) => 10,
            Value::Time(_) => 11,
            Value::Timetz(..) => 12,
            Value::Timestamp(_) => 13,
            Value::Timestamptz(_) => 14,
            Value::Interval(_) => 15,
            Value::Uuid(_) => 16,
            Value::Json(_) => 17,
            Value::Jsonb(_) => 18,
            Value::Oid(_) => 19,
            Value::Enum(_) => 20,
            Value::Array(_) => 21,
            Value::Record(_) => 22,
            Value::Void => 23,
            Value::Null => 24,
        }
    }
}

fn sizes(values: &[Value]) -> usize {
    values.iter().map(|value| size_of::<Value>() + value.heap_size()).sum()
}

/// The order of floating point numbers: NaN equals itself and is above every number, -0 equals 0.
pub fn compare_floats(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
}

/// The instant of a `timetz`: its time as if on one day, in UTC.
fn timetz_instant(time: i64, zone: i32) -> i64 {
    time + i64::from(zone) * 1_000_000
}

fn without_blanks(text: &str) -> &str {
    text.trim_end_matches(' ')
}

impl Value {
    /// Like [`cmp`](Ord::cmp), for the most frequent types in place.
    #[inline]
    pub(crate) fn order(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Int4(left), Value::Int4(right)) => left.cmp(right),
            (Value::Int8(left), Value::Int8(right))
            | (Value::Timestamptz(left), Value::Timestamptz(right)) => left.cmp(right),
            _ => self.cmp(other),
        }
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        match (self, other) {
            (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
            (Value::Int2(left), Value::Int2(right)) => left.cmp(right),
            (Value::Int4(left), Value::Int4(right)) => left.cmp(right),
            (Value::Int8(left), Value::Int8(right)) => left.cmp(right),
            (Value::Float4(left), Value::Float4(right)) => compare_floats((*left).into(), (*right).into()),
            (Value::Float8(left), Value::Float8(right)) => compare_floats(*left, *right),
            (Value::Numeric(left), Value::Numeric(right)) => left.cmp(right),
            (Value::Text(left), Value::Text(right)) | (Value::Json(left), Value::Json(right)) => {
                left.cmp(right)
            }
            (Value::Bpchar(left), Value::Bpchar(right)) => without_blanks(left).cmp(without_blanks(right)),
            (Value::Bytes(left), Value::Bytes(right)) => left.cmp(right),
            (Value::Date(left), Value::Date(right)) | (Value::Enum(left), Value::Enum(right)) => {
                left.cmp(right)
            }
            (Value::Time(left), Value::Time(right))
            | (Value::Timestamp(left), Value::Timestamp(right))
            | (Value::Timestamptz(left), Value::Timestamptz(right)) => left.cmp(right),
            (Value::Timetz(left, zone), Value::Timetz(right, other_zone)) => {
                let instants = timetz_instant(*left, *zone).cmp(&timetz_instant(*right, *other_zone));
                instants.then(zone.cmp(other_zone))
            }
            (Value::Interval(left), Value::Interval(right)) => left.cmp(right),
            (Value::Uuid(left), Value::Uuid(right)) => left.cmp(right),
            (Value::Jsonb(left), Value::Jsonb(right)) => left.cmp(right),
            (Value::Oid(left), Value::Oid(right)) => left.cmp(right),
            (Value::Array(left), Value::Array(right)) => left.cmp(right),
            (Value::Record(left), Value::Record(right)) => left.values.cmp(&right.values),
            (left, right) => match (left.as_integer(), right.as_integer()) {
                (Some(left), Some(right)) => left.cmp(&right),
                _ => left.rank().cmp(&right.rank()),
            },
        }
    }
}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Value {
    #[inline]
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Int4(left), Value::Int4(right)) => left == right,
            (Value::Int8(left), Value::Int8(right)) => left == right,
            (Value::Int4(left), Value::Int8(right)) => i64::from(*left) == *right,
            (Value::Int8(left), Value::Int4(right)) => *left == i64::from(*right),
            (Value::Text(left), Value::Text(right)) => left == right,
            _ => self.cmp(other) == Ordering::Equal,
        }
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Value::Null | Value::Void => state.write_u8(self.rank()),
            Value::Bool(value) => value.hash(state),
            Value::Int2(value) => i64::from(*value).hash(state),
            Value::Int4(value) => i64::from(*value).hash(state),
            Value::Int8(value) => value.hash(state),
            Value::Date(value) | Value::Enum(value) => value.hash(state),
            Value::Float4(value) => float_bits((*value).into()).hash(state),
            Value::Float8(value) => float_bits(*value).hash(state),
            Value::Numeric(value) => value.hash(state),
            Value::Text(value) | Value::Json(value) => value.hash(state),
            Value::Bpchar(value) => without_blanks(value).hash(state),
            Value::Bytes(value) => value.hash(state),
            Value::Time(value) | Value::Timestamp(value) | Value::Timestamptz(value) => value.hash(state),
            Value::Timetz(time, zone) => (time, zone).hash(state),
            Value::Interval(value) => value.hash(state),
            Value::Uuid(value) => value.hash(state),
            Value::Jsonb(value) => value.hash(state),
            Value::Oid(value) => value.hash(state),
            Value::Array(value) => value.hash(state),
            Value::Record(value) => value.values.hash(state),
        }
    }
}

/// Bits that are equal exactly for floats that compare as equal.
fn float_bits(value: f64) -> u64 {
    if value == 0.0 {
        0
    } else if value.is_nan() {
        u64::MAX
    } else {
        value.to_bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(value: &Value) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        value.hash(&mut hasher);
        hasher.finish()
    }

    #[test]
    fn a_value_is_24_bytes() {
        assert_eq!(size_of::<Value>(), 24);
        assert_eq!(size_of::<Option<Value>>(), 24);
    }

    #[test]
    fn values_that_are_equal_hash_equally() {
        let pairs = [
            (Value::Float8(0.0), Value::Float8(-0.0)),
            (Value::Float8(f64::NAN), Value::Float8(-f64::NAN)),
            (Value::Bpchar("a ".into()), Value::Bpchar("a".into())),
            (Value::Numeric("1.0".parse().unwrap()), Value::Numeric("1.000".parse().unwrap())),
            (
                Value::Interval(Interval { months: 1, days: 0, micros: 0 }),
                Value::Interval(Interval { months: 0, days: 30, micros: 0 }),
            ),
            (Value::Null, Value::Null),
        ];
        for (left, right) in pairs {
            assert_eq!(left, right);
            assert_eq!(hash(&left), hash(&right), "{left:?} {right:?}");
        }
    }

    #[test]
    fn null_is_above_everything_and_nan_above_every_number() {
        assert!(Value::Null > Value::Int4(i32::MAX));
        assert!(Value::Float8(f64::NAN) > Value::Float8(f64::INFINITY));
        assert!(Value::text("a ") > Value::text("a"));
    }
}
