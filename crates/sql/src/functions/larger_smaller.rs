//! The functions behind `max` and `min`: the larger and the smaller of two values of each type.
//!
//! Invariant: of two values that are equal, and may look different, the one that PostgreSQL returns: the second, but of
//! `character` the first.
//!
//! Source: PostgreSQL 15, `pg_aggregate.dat` (`aggtransfn`).

use super::definition::{Definition, FunctionContext, scalar};
use crate::error::Result;
use crate::types::Value;

/// The table.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("array_larger(anyarray, anyarray) anyarray", larger),
    scalar("array_smaller(anyarray, anyarray) anyarray", smaller),
    scalar("date_larger(date, date) date", larger),
    scalar("date_smaller(date, date) date", smaller),
    scalar("enum_larger(anyenum, anyenum) anyenum", larger),
    scalar("enum_smaller(anyenum, anyenum) anyenum", smaller),
    scalar("float4larger(float4, float4) float4", larger),
    scalar("float4smaller(float4, float4) float4", smaller),
    scalar("float8larger(float8, float8) float8", larger),
    scalar("float8smaller(float8, float8) float8", smaller),
    scalar("int2larger(int2, int2) int2", larger),
    scalar("int2smaller(int2, int2) int2", smaller),
    scalar("int4larger(int4, int4) int4", larger),
    scalar("int4smaller(int4, int4) int4", smaller),
    scalar("int8larger(int8, int8) int8", larger),
    scalar("int8smaller(int8, int8) int8", smaller),
    scalar("interval_larger(interval, interval) interval", larger),
    scalar("interval_smaller(interval, interval) interval", smaller),
    scalar("network_larger(inet, inet) inet", larger),
    scalar("network_smaller(inet, inet) inet", smaller),
    scalar("numeric_larger(numeric, numeric) numeric", larger),
    scalar("numeric_smaller(numeric, numeric) numeric", smaller),
    scalar("oidlarger(oid, oid) oid", larger),
    scalar("oidsmaller(oid, oid) oid", smaller),
    scalar("text_larger(text, text) text", larger),
    scalar("text_smaller(text, text) text", smaller),
    scalar("time_larger(time, time) time", larger),
    scalar("time_smaller(time, time) time", smaller),
    scalar("timestamp_larger(timestamp, timestamp) timestamp", larger),
    scalar("timestamp_smaller(timestamp, timestamp) timestamp", smaller),
    scalar("timestamptz_larger(timestamptz, timestamptz) timestamptz", larger),
    scalar("timestamptz_smaller(timestamptz, timestamptz) timestamptz", smaller),
    scalar("timetz_larger(timetz, timetz) timetz", larger),
    scalar("timetz_smaller(timetz, timetz) timetz", smaller),
    scalar("bpchar_larger(bpchar, bpchar) bpchar", |_, v| Ok(v[usize::from(v[0] < v[1])].clone())),
    scalar("bpchar_smaller(bpchar, bpchar) bpchar", |_, v| Ok(v[usize::from(v[0] > v[1])].clone())),
];

fn larger(_: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    Ok(values[usize::from(values[0] <= values[1])].clone())
}

fn smaller(_: &mut FunctionContext<'_>, values: &[Value]) -> Result<Value> {
    Ok(values[usize::from(values[0] >= values[1])].clone())
}
