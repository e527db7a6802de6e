//! Casts among dates, times, timestamps and intervals.

use super::CastContext::{Assignment, Implicit};
use super::{CastEntry, entry};
use crate::error::Result;
use crate::types::datetime::zone::{offset_at, offset_of_local};
use crate::types::datetime::{
    DATE_INFINITY, DATE_NEGATIVE_INFINITY, INFINITY, NEGATIVE_INFINITY, date_to_timestamp, is_infinite,
    local_to_utc, utc_to_local,
};
use crate::types::interval::{DAY, Interval};
use crate::types::{Environment, Type, Value};

/// The table.
pub(super) const CASTS: &[CastEntry] = &[
    entry(Type::Date, Type::Timestamp, Implicit, |_, v| date_to_timestamp(v.date()).map(Value::Timestamp)),
    entry(Type::Date, Type::Timestamptz, Implicit, |e, v| to_instant(e, date_to_timestamp(v.date())?)),
    entry(Type::Time, Type::Interval, Implicit, |_, v| Ok(Value::Interval(Interval::new(0, 0, v.time())))),
    entry(Type::Time, Type::Timetz, Implicit, time_to_timetz),
    entry(Type::Timetz, Type::Time, Assignment, |_, v| match v {
        Value::Timetz(time, _) => Ok(Value::Time(*time)),
        other => Ok(Value::Time(other.time())),
    }),
    entry(Type::Timestamp, Type::Date, Assignment, |_, v| Ok(Value::Date(timestamp_to_date(v.timestamp())))),
    entry(Type::Timestamp, Type::Time, Assignment, |_, v| Ok(timestamp_to_time(v.timestamp()))),
    entry(Type::Timestamp, Type::Timestamptz, Implicit, |e, v| to_instant(e, v.timestamp())),
    entry(Type::Timestamptz, Type::Date, Assignment, |e, v| {
        Ok(Value::Date(timestamp_to_date(to_local(e, v.timestamptz())?)))
    }),
    entry(Type::Timestamptz, Type::Time, Assignment, |e, v| {
        Ok(timestamp_to_time(to_local(e, v.timestamptz())?))
    }),
    entry(Type::Timestamptz, Type::Timestamp, Assignment, |e, v| {
        to_local(e, v.timestamptz()).map(Value::Timestamp)
    }),
    entry(Type::Timestamptz, Type::Timetz, Assignment, timestamptz_to_timetz),
    entry(Type::Interval, Type::Time, Assignment, |_, v| {
        Ok(Value::Time(v.interval().micros.rem_euclid(DAY)))
    }),
];

fn to_instant(environment: &dyn Environment, local: i64) -> Result<Value> {
    local_to_utc(local, &environment.formats().time_zone).map(Value::Timestamptz)
}

fn to_local(environment: &dyn Environment, instant: i64) -> Result<i64> {
    utc_to_local(instant, &environment.formats().time_zone)
}

/// The day of a local timestamp.
pub(crate) fn timestamp_to_date(micros: i64) -> i32 {
    match micros {
        INFINITY => DATE_INFINITY,
        NEGATIVE_INFINITY => DATE_NEGATIVE_INFINITY,
        micros => micros.div_euclid(DAY) as i32,
    }
}

fn timestamp_to_time(micros: i64) -> Value {
    if is_infinite(micros) { Value::Null } else { Value::Time(micros.rem_euclid(DAY)) }
}

/// The zone is the session's at this time of the current day.
fn time_to_timetz(environment: &mut dyn Environment, value: &Value) -> Result<Value> {
    let zone = &environment.formats().time_zone;
    let today = utc_to_local(environment.transaction_start(), zone)?.div_euclid(DAY);
    let offset = offset_of_local(today * DAY + value.time(), zone);
    Ok(Value::Timetz(value.time(), -offset))
}

fn timestamptz_to_timetz(environment: &mut dyn Environment, value: &Value) -> Result<Value> {
    let instant = value.timestamptz();
    if is_infinite(instant) {
        return Ok(Value::Null);
    }
    let time = to_local(environment, instant)?.rem_euclid(DAY);
    Ok(Value::Timetz(time, -offset_at(instant, &environment.formats().time_zone)))
}
