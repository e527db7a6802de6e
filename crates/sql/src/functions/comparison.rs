//! Comparison operators: `=`, `<>`, `<`, `<=`, `>`, `>=` of every pair of types that PostgreSQL compares.
//!
//! Invariant: values of one type are compared by [`Value`]'s order; pairs of different types by the wider one.

use std::cmp::Ordering;

use super::definition::{Definition, FunctionContext, scalar};
use crate::error::Result;
use crate::types::datetime::{compare_timestamp_with_timestamptz, date_to_timestamp_clamped};
use crate::types::{Value, compare_floats};

/// The six operators over one pair of types, with a function that compares.
macro_rules! comparisons {
    ($($left:literal $right:literal $compare:path $(; $stable:ident)?),* $(,)?) => {
        /// The table.
        pub(super) const OPERATORS: &[Definition] = &[$(
            scalar(concat!("=(", $left, ", ", $right, ") bool"), |c, v| Ok(Value::Bool($compare(c, v)?.is_eq()))) $(.$stable())?,
            scalar(concat!("<>(", $left, ", ", $right, ") bool"), |c, v| Ok(Value::Bool($compare(c, v)?.is_ne()))) $(.$stable())?,
            scalar(concat!("<(", $left, ", ", $right, ") bool"), |c, v| Ok(Value::Bool($compare(c, v)?.is_lt()))) $(.$stable())?,
            scalar(concat!("<=(", $left, ", ", $right, ") bool"), |c, v| Ok(Value::Bool($compare(c, v)?.is_le()))) $(.$stable())?,
            scalar(concat!(">(", $left, ", ", $right, ") bool"), |c, v| Ok(Value::Bool($compare(c, v)?.is_gt()))) $(.$stable())?,
            scalar(concat!(">=(", $left, ", ", $right, ") bool"), |c, v| Ok(Value::Bool($compare(c, v)?.is_ge()))) $(.$stable())?,
        )*];
    };
}

comparisons! {
    "bool" "bool" same,
    "int2" "int2" same,
    "int2" "int4" integers,
    "int2" "int8" integers,
    "int4" "int2" integers,
    "int4" "int4" same,
    "int4" "int8" integers,
    "int8" "int2" integers,
    "int8" "int4" integers,
    "int8" "int8" same,
    "float4" "float4" same,
    "float4" "float8" floats,
    "float8" "float4" floats,
    "float8" "float8" same,
    "numeric" "numeric" same,
    "text" "text" same,
    "name" "name" same,
    "name" "text" same,
    "text" "name" same,
    "bpchar" "bpchar" same,
    "char" "char" same,
    "bytea" "bytea" same,
    "bit" "bit" same,
    "varbit" "varbit" same,
    "date" "date" same,
    "date" "timestamp" dates_and_timestamps,
    "date" "timestamptz" dates_and_timestamps; stable,
    "timestamp" "date" dates_and_timestamps,
    "timestamp" "timestamp" same,
    "timestamp" "timestamptz" dates_and_timestamps; stable,
    "timestamptz" "date" dates_and_timestamps; stable,
    "timestamptz" "timestamp" dates_and_timestamps; stable,
    "timestamptz" "timestamptz" same,
    "time" "time" same,
    "timetz" "timetz" same,
    "interval" "interval" same,
    "uuid" "uuid" same,
    "inet" "inet" same,
    "macaddr" "macaddr" same,
    "jsonb" "jsonb" same,
    "oid" "oid" same,
    "oidvector" "oidvector" same,
    "anyarray" "anyarray" same,
    "anyenum" "anyenum" same,
    "record" "record" records,
}

/// `xid` has no order: only what clients ask of `xmax`.
pub(super) const TRANSACTION_IDS: &[Definition] = &[
    scalar("=(xid, xid) bool", |c, v| Ok(Value::Bool(same(c, v)?.is_eq()))),
    scalar("<>(xid, xid) bool", |c, v| Ok(Value::Bool(same(c, v)?.is_ne()))),
    scalar("=(xid, int4) bool", |_, v| Ok(Value::Bool(is_transaction(v)))),
    scalar("<>(xid, int4) bool", |_, v| Ok(Value::Bool(!is_transaction(v)))),
];

fn is_transaction(values: &[Value]) -> bool {
    values[0].oid() == values[1].int4().cast_unsigned()
}

fn same(_: &mut FunctionContext<'_>, values: &[Value]) -> Result<Ordering> {
    Ok(values[0].cmp(&values[1]))
}

fn integers(_: &mut FunctionContext<'_>, values: &[Value]) -> Result<Ordering> {
    Ok(values[0].any_int().cmp(&values[1].any_int()))
}

fn floats(_: &mut FunctionContext<'_>, values: &[Value]) -> Result<Ordering> {
    let float = |value: &Value| match value {
        Value::Float4(value) => f64::from(*value),
        other => other.float8(),
    };
    Ok(compare_floats(float(&values[0]), float(&values[1])))
}

fn records(_: &mut FunctionContext<'_>, values: &[Value]) -> Result<Ordering> {
    let (left, right) = (values[0].as_record(), values[1].as_record());
    if left.values.len() != right.values.len() {
        return Err(crate::error::SqlError::new(
            crate::error::SqlState::DATATYPE_MISMATCH,
            "cannot compare record types with different numbers of columns",
        ));
    }
    Ok(left.values.cmp(&right.values))
}

/// Dates count as their midnights; where a zone is in play, in the session's zone.
fn dates_and_timestamps(context: &mut FunctionContext<'_>, values: &[Value]) -> Result<Ordering> {
    let zone = &context.formats().time_zone;
    let local = |value: &Value| match value {
        Value::Date(days) => date_to_timestamp_clamped(*days),
        Value::Timestamp(micros) | Value::Timestamptz(micros) => *micros,
        other => other.timestamp(),
    };
    let (left, right) = (local(&values[0]), local(&values[1]));
    Ok(match (&values[0], &values[1]) {
        (Value::Timestamptz(_), Value::Timestamptz(_)) => left.cmp(&right),
        (_, Value::Timestamptz(_)) => compare_timestamp_with_timestamptz(left, right, zone),
        (Value::Timestamptz(_), _) => compare_timestamp_with_timestamptz(right, left, zone).reverse(),
        _ => left.cmp(&right),
    })
}
