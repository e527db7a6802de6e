//! Sums and differences of dates, times, timestamps and intervals.
//!
//! Invariant: an interval is added months first, then days, then time; to a `timestamptz` months and days are added to
//! the local time of the session's zone.

use jiff::tz::TimeZone;

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, scalar};
use crate::types::Value;
use crate::types::datetime::{
    NEGATIVE_INFINITY, add_months, check_timestamp, date_out_of_range, date_to_timestamp,
    fields_of_timestamp, is_infinite, is_infinite_date, local_to_utc, timestamp_out_of_range, utc_to_local,
};
use crate::types::interval::{DAY, Interval};

/// The table.
pub(in crate::functions) const OPERATORS: &[Definition] = &[
    scalar("+(date, int4) date", |_, v| shift_date(v[0].date(), i64::from(v[1].int4()))),
    scalar("+(int4, date) date", |_, v| shift_date(v[1].date(), i64::from(v[0].int4()))),
    scalar("-(date, int4) date", |_, v| shift_date(v[0].date(), -i64::from(v[1].int4()))),
    scalar("-(date, date) int4", date_difference),
    scalar("+(date, interval) timestamp", |_, v| date_plus(v[0].date(), v[1].interval())),
    scalar("+(interval, date) timestamp", |_, v| date_plus(v[1].date(), v[0].interval())),
    scalar("-(date, interval) timestamp", |_, v| date_plus(v[0].date(), v[1].interval().negate()?)),
    scalar("+(date, time) timestamp", |_, v| date_time(v[0].date(), v[1].time())),
    scalar("+(time, date) timestamp", |_, v| date_time(v[1].date(), v[0].time())),
    scalar("+(date, timetz) timestamptz", |_, v| date_timetz(&v[0], &v[1])),
    scalar("+(timetz, date) timestamptz", |_, v| date_timetz(&v[1], &v[0])),
    scalar("+(timestamp, interval) timestamp", |_, v| {
        timestamp(add_interval(v[0].timestamp(), v[1].interval()))
    }),
    scalar("+(interval, timestamp) timestamp", |_, v| {
        timestamp(add_interval(v[1].timestamp(), v[0].interval()))
    }),
    scalar("-(timestamp, interval) timestamp", |_, v| {
        timestamp(add_interval(v[0].timestamp(), v[1].interval().negate()?))
    }),
    scalar("-(timestamp, timestamp) interval", |_, v| difference(v[0].timestamp(), v[1].timestamp())),
    scalar("+(timestamptz, interval) timestamptz", |c, v| instant(c, v[0].timestamptz(), v[1].interval()))
        .stable(),
    scalar("+(interval, timestamptz) timestamptz", |c, v| instant(c, v[1].timestamptz(), v[0].interval()))
        .stable(),
    scalar("-(timestamptz, interval) timestamptz", |c, v| {
        instant(c, v[0].timestamptz(), v[1].interval().negate()?)
    })
    .stable(),
    scalar("-(timestamptz, timestamptz) interval", |_, v| difference(v[0].timestamptz(), v[1].timestamptz())),
    scalar("+(time, interval) time", |_, v| Ok(time_plus(v[0].time(), v[1].interval().micros))),
    scalar("+(interval, time) time", |_, v| Ok(time_plus(v[1].time(), v[0].interval().micros))),
    scalar("-(time, interval) time", |_, v| Ok(time_plus(v[0].time(), -(v[1].interval().micros % DAY)))),
    scalar("-(time, time) interval", |_, v| {
        Ok(Value::Interval(Interval::new(0, 0, v[0].time() - v[1].time())))
    }),
    scalar("+(timetz, interval) timetz", |_, v| Ok(timetz_plus(&v[0], v[1].interval().micros))),
    scalar("+(interval, timetz) timetz", |_, v| Ok(timetz_plus(&v[1], v[0].interval().micros))),
    scalar("-(timetz, interval) timetz", |_, v| Ok(timetz_plus(&v[0], -(v[1].interval().micros % DAY)))),
    scalar("+(interval, interval) interval", |_, v| {
        v[0].interval().plus(v[1].interval()).map(Value::Interval)
    }),
    scalar("-(interval, interval) interval", |_, v| {
        v[0].interval().minus(v[1].interval()).map(Value::Interval)
    }),
    scalar("-(interval) interval", |_, v| v[0].interval().negate().map(Value::Interval)),
    scalar("*(interval, float8) interval", |_, v| {
        v[0].interval().multiply(v[1].float8()).map(Value::Interval)
    }),
    scalar("*(float8, interval) interval", |_, v| {
        v[1].interval().multiply(v[0].float8()).map(Value::Interval)
    }),
    scalar("/(interval, float8) interval", |_, v| v[0].interval().divide(v[1].float8()).map(Value::Interval)),
];

fn shift_date(days: i32, by: i64) -> Result<Value> {
    if is_infinite_date(days) {
        return Ok(Value::Date(days));
    }
    crate::types::datetime::date_from_days(i64::from(days) + by)
        .map(Value::Date)
        .map_err(|_| date_out_of_range())
}

fn date_difference(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let (left, right) = (v[0].date(), v[1].date());
    if is_infinite_date(left) || is_infinite_date(right) {
        let message = "cannot subtract infinite dates";
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message));
    }
    Ok(Value::Int4(left.wrapping_sub(right)))
}

fn date_plus(days: i32, interval: Interval) -> Result<Value> {
    timestamp(add_interval(date_to_timestamp(days)?, interval))
}

fn date_time(days: i32, time: i64) -> Result<Value> {
    let midnight = date_to_timestamp(days)?;
    if is_infinite(midnight) {
        return Ok(Value::Timestamp(midnight));
    }
    timestamp(midnight.checked_add(time).ok_or_else(timestamp_out_of_range).and_then(check_timestamp))
}

fn date_timetz(date: &Value, time: &Value) -> Result<Value> {
    let midnight = date_to_timestamp(date.date())?;
    let Value::Timetz(time, zone) = time else { return Ok(Value::Null) };
    if is_infinite(midnight) {
        return Ok(Value::Timestamptz(midnight));
    }
    let instant =
        midnight.checked_add(time + i64::from(*zone) * 1_000_000).ok_or_else(timestamp_out_of_range);
    instant.and_then(check_timestamp).map(Value::Timestamptz)
}

fn timestamp(result: Result<i64>) -> Result<Value> {
    result.map(Value::Timestamp)
}

/// A local timestamp moved by an interval.
pub(in crate::functions) fn add_interval(micros: i64, interval: Interval) -> Result<i64> {
    if is_infinite(micros) {
        return Ok(micros);
    }
    let moved = if interval.months == 0 { micros } else { add_months(micros, interval.months)? };
    let days = i64::from(interval.days).checked_mul(DAY);
    let moved = days
        .and_then(|days| moved.checked_add(days))
        .ok_or_else(timestamp_out_of_range)
        .and_then(check_timestamp)?;
    moved.checked_add(interval.micros).ok_or_else(timestamp_out_of_range).and_then(check_timestamp)
}

/// An instant moved by an interval, in a zone.
pub(in crate::functions) fn add_interval_in_zone(
    micros: i64,
    interval: Interval,
    zone: &TimeZone,
) -> Result<i64> {
    if is_infinite(micros) {
        return Ok(micros);
    }
    let mut moved = micros;
    if interval.months != 0 {
        moved = local_to_utc(add_months(utc_to_local(moved, zone)?, interval.months)?, zone)?;
    }
    if interval.days != 0 {
        let local = utc_to_local(moved, zone)?;
        let local = i64::from(interval.days).checked_mul(DAY).and_then(|days| local.checked_add(days));
        moved = local_to_utc(local.ok_or_else(timestamp_out_of_range).and_then(check_timestamp)?, zone)?;
    }
    moved.checked_add(interval.micros).ok_or_else(timestamp_out_of_range).and_then(check_timestamp)
}

pub(in crate::functions) fn instant(
    context: &mut FunctionContext<'_>,
    micros: i64,
    interval: Interval,
) -> Result<Value> {
    add_interval_in_zone(micros, interval, &context.formats().time_zone).map(Value::Timestamptz)
}

/// Days and time between two timestamps.
fn difference(left: i64, right: i64) -> Result<Value> {
    if is_infinite(left) || is_infinite(right) {
        let message = "cannot subtract infinite timestamps";
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message));
    }
    let micros = left.wrapping_sub(right);
    Interval::new(0, 0, micros).justify_hours().map(Value::Interval)
}

/// Times wrap around at midnight.
pub(in crate::functions) fn time_plus(time: i64, micros: i64) -> Value {
    Value::Time((time + micros % DAY).rem_euclid(DAY))
}

fn timetz_plus(time: &Value, micros: i64) -> Value {
    match time {
        Value::Timetz(time, zone) => Value::Timetz((time + micros % DAY).rem_euclid(DAY), *zone),
        _ => Value::Null,
    }
}

/// The difference of two timestamps in years, months, days and time (`age`).
pub(in crate::functions) fn age(later: i64, earlier: i64) -> Result<Interval> {
    // PostgreSQL 15 treats infinity as the last microsecond that it can count.
    if later == NEGATIVE_INFINITY || earlier == NEGATIVE_INFINITY {
        return Err(timestamp_out_of_range());
    }
    if later < earlier {
        return age(earlier, later)?.negate();
    }
    let (to, from) = (fields_of_timestamp(later), fields_of_timestamp(earlier));
    let mut months = (to.year - from.year) * 12 + to.month - from.month;
    let mut days = to.day - from.day;
    let mut micros = later.rem_euclid(DAY) - earlier.rem_euclid(DAY);
    if micros < 0 {
        micros += DAY;
        days -= 1;
    }
    if days < 0 {
        // The days of the month that the earlier one is in.
        days += crate::types::datetime::days_in_month(from.year, from.month);
        months -= 1;
    }
    Ok(Interval::new(months, days, micros))
}
