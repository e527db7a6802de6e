//! The current time, dates and times of their parts, ages, time zones, and all that is neither arithmetic nor formatting.

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, scalar};
use crate::types::Value;
use crate::types::datetime::abbreviations::{Abbreviation, abbreviation, offset_at_instant, offset_in_zone};
use crate::types::datetime::{
    self, Fields, UNIX_EPOCH_DAYS, days_in_month, is_infinite, is_infinite_date, local_to_utc, make_date,
    make_timestamp, time_of_fields, utc_to_local, zone,
};
use crate::types::interval::{DAY, Interval, SECOND, out_of_range};

use super::arithmetic::{add_interval, age, instant, time_plus};

/// The table.
pub(in crate::functions) const FUNCTIONS: &[Definition] = &[
    scalar("now() timestamptz", |c, _| Ok(Value::Timestamptz(c.environment.transaction_start()))).stable(),
    scalar("transaction_timestamp() timestamptz", |c, _| {
        Ok(Value::Timestamptz(c.environment.transaction_start()))
    })
    .stable(),
    scalar("statement_timestamp() timestamptz", |c, _| {
        Ok(Value::Timestamptz(c.environment.statement_start()))
    })
    .stable(),
    scalar("clock_timestamp() timestamptz", |c, _| Ok(Value::Timestamptz(c.environment.clock()))).volatile(),
    scalar("age(timestamp, timestamp) interval", |_, v| {
        age(v[0].timestamp(), v[1].timestamp()).map(Value::Interval)
    }),
    scalar("age(timestamptz, timestamptz) interval", |c, v| {
        let zone = &c.formats().time_zone;
        age(utc_to_local(v[0].timestamptz(), zone)?, utc_to_local(v[1].timestamptz(), zone)?)
            .map(Value::Interval)
    }),
    scalar("age(timestamp) interval", |c, v| age(today(c)?, v[0].timestamp()).map(Value::Interval)).stable(),
    scalar("age(timestamptz) interval", |c, v| {
        let then = utc_to_local(v[0].timestamptz(), &c.formats().time_zone)?;
        age(today(c)?, then).map(Value::Interval)
    })
    .stable(),
    scalar("make_date(int4, int4, int4) date", |_, v| {
        date_of(v[0].int4(), v[1].int4(), v[2].int4()).map(Value::Date)
    }),
    scalar("make_time(int4, int4, float8) time", |_, v| {
        time_of(v[0].int4(), v[1].int4(), v[2].float8()).map(Value::Time)
    }),
    scalar("make_timestamp(int4, int4, int4, int4, int4, float8) timestamp", |_, v| {
        local_of(v).map(Value::Timestamp)
    }),
    scalar("make_timestamptz(int4, int4, int4, int4, int4, float8) timestamptz", |c, v| {
        local_to_utc(local_of(v)?, &c.formats().time_zone).map(Value::Timestamptz)
    })
    .stable(),
    scalar("make_timestamptz(int4, int4, int4, int4, int4, float8, text) timestamptz", |_, v| {
        let (local, name) = (local_of(v)?, v[6].str());
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            let message = format!("invalid input syntax for type numeric time zone: \"{name}\"");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                .with_hint("Numeric time zones must have \"-\" or \"+\" as first character."));
        }
        let instant = match zone::offset_from_text(name) {
            Some(offset) => local_to_utc(local, &zone::fixed(offset)),
            None => local_in_zone(local, name),
        };
        instant.map(Value::Timestamptz)
    })
    .stable(),
    scalar(
        "make_interval(years int4 = 0, months int4 = 0, weeks int4 = 0, days int4 = 0, hours int4 = 0, mins int4 = 0, secs float8 = 0.0) interval",
        make_interval,
    ),
    scalar("to_timestamp(float8) timestamptz", to_timestamp),
    scalar("justify_days(interval) interval", |_, v| v[0].interval().justify_days().map(Value::Interval)),
    scalar("justify_hours(interval) interval", |_, v| v[0].interval().justify_hours().map(Value::Interval)),
    scalar("justify_interval(interval) interval", |_, v| v[0].interval().justify().map(Value::Interval)),
    scalar("isfinite(date) bool", |_, v| Ok(Value::Bool(!is_infinite_date(v[0].date())))),
    scalar("isfinite(timestamp) bool", |_, v| Ok(Value::Bool(!is_infinite(v[0].timestamp())))),
    scalar("isfinite(timestamptz) bool", |_, v| Ok(Value::Bool(!is_infinite(v[0].timestamptz())))),
    scalar("isfinite(interval) bool", |_, _| Ok(Value::Bool(true))),
    scalar("timezone(text, timestamp) timestamptz", |_, v| {
        let local = v[1].timestamp();
        let moved = if is_infinite(local) { local } else { local_in_zone(local, v[0].str())? };
        Ok(Value::Timestamptz(moved))
    }),
    scalar("timezone(text, timestamptz) timestamp", |_, v| {
        let instant = v[1].timestamptz();
        let moved = match abbreviation(v[0].str().trim()) {
            _ if is_infinite(instant) => instant,
            Some(Abbreviation::InZone(zone, name)) => {
                utc_to_local(instant, &zone::fixed(offset_at_instant(instant, &zone, &name)))?
            }
            _ => utc_to_local(instant, &zone::zone_by_name(v[0].str())?)?,
        };
        Ok(Value::Timestamp(moved))
    }),
    scalar("timezone(interval, timestamp) timestamptz", |_, v| {
        shifted(v[1].timestamp(), v[0].interval(), -1).map(Value::Timestamptz)
    }),
    scalar("timezone(interval, timestamptz) timestamp", |_, v| {
        shifted(v[1].timestamptz(), v[0].interval(), 1).map(Value::Timestamp)
    }),
    scalar("timezone(text, timetz) timetz", |c, v| {
        let now = c.environment.statement_start();
        let offset = match abbreviation(v[0].str().trim()) {
            Some(Abbreviation::InZone(zone, name)) => offset_at_instant(now, &zone, &name),
            _ => zone::offset_at(now, &zone::zone_by_name(v[0].str())?),
        };
        Ok(rezoned(&v[1], offset))
    })
    .stable(),
    scalar("timezone(interval, timetz) timetz", |_, v| {
        // Within a day of either side of it, which the check of months and days lets through.
        let seconds = shifted(0, v[0].interval(), 1)? / SECOND;
        let east = i32::try_from(seconds).ok().filter(|east| *east != i32::MIN);
        Ok(rezoned(&v[1], east.ok_or_else(out_of_range)?))
    }),
    scalar("overlaps(timestamp, timestamp, timestamp, timestamp) bool", |_, v| Ok(overlaps(v))).nullable(),
    scalar("overlaps(timestamptz, timestamptz, timestamptz, timestamptz) bool", |_, v| Ok(overlaps(v)))
        .nullable(),
    scalar("overlaps(timestamp, interval, timestamp, interval) bool", |c, v| {
        overlaps_for(c, v, [true, true])
    })
    .nullable(),
    scalar("overlaps(timestamp, timestamp, timestamp, interval) bool", |c, v| {
        overlaps_for(c, v, [false, true])
    })
    .nullable(),
    scalar("overlaps(timestamp, interval, timestamp, timestamp) bool", |c, v| {
        overlaps_for(c, v, [true, false])
    })
    .nullable(),
    scalar("overlaps(timestamptz, interval, timestamptz, interval) bool", |c, v| {
        overlaps_for(c, v, [true, true])
    })
    .nullable()
    .stable(),
    scalar("overlaps(timestamptz, timestamptz, timestamptz, interval) bool", |c, v| {
        overlaps_for(c, v, [false, true])
    })
    .nullable()
    .stable(),
    scalar("overlaps(timestamptz, interval, timestamptz, timestamptz) bool", |c, v| {
        overlaps_for(c, v, [true, false])
    })
    .nullable()
    .stable(),
    scalar("overlaps(time, interval, time, interval) bool", |c, v| overlaps_for(c, v, [true, true]))
        .nullable(),
    scalar("overlaps(time, time, time, interval) bool", |c, v| overlaps_for(c, v, [false, true])).nullable(),
    scalar("overlaps(time, interval, time, time) bool", |c, v| overlaps_for(c, v, [true, false])).nullable(),
    scalar("overlaps(time, time, time, time) bool", |_, v| Ok(overlaps(v))).nullable(),
    scalar("overlaps(timetz, timetz, timetz, timetz) bool", |_, v| Ok(overlaps(v))).nullable(),
];

/// A local time in a zone as an instant. An abbreviation means its offset there at the time.
fn local_in_zone(local: i64, name: &str) -> Result<i64> {
    match abbreviation(name.trim()) {
        Some(Abbreviation::InZone(zone, name)) => {
            local_to_utc(local, &zone::fixed(offset_in_zone(local, &zone, &name)))
        }
        _ => local_to_utc(local, &zone::zone_by_name(name)?),
    }
}

/// Midnight of the current day, local.
fn today(context: &FunctionContext<'_>) -> Result<i64> {
    let local = utc_to_local(context.environment.transaction_start(), &context.formats().time_zone)?;
    Ok(local.div_euclid(DAY) * DAY)
}

fn field_out_of_range(what: &str, shown: String) -> SqlError {
    let message = format!("{what} field value out of range: {shown}");
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
}

/// A date of its parts; negative years are BC.
fn date_of(year: i32, month: i32, day: i32) -> Result<i32> {
    let shown = || format!("{year}-{month:02}-{day:02}");
    let astronomical = if year < 0 { year.checked_add(1) } else { Some(year) };
    let astronomical =
        astronomical.filter(|_| year != 0).ok_or_else(|| field_out_of_range("date", shown()))?;
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(astronomical, month) {
        return Err(field_out_of_range("date", shown()));
    }
    make_date(astronomical, month, day).map_err(|_| {
        SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("date out of range: {}", shown()))
    })
}

fn time_of(hour: i32, minute: i32, second: f64) -> Result<i64> {
    let micros = (second * 1_000_000.0).round_ties_even();
    let is_good =
        (0..=24).contains(&hour) && (0..60).contains(&minute) && (0.0..=60_000_000.0).contains(&micros);
    let is_late = hour == 24 && (minute > 0 || micros > 0.0);
    if !is_good || is_late {
        return Err(field_out_of_range("time", format!("{hour}:{minute:02}:{second:02}")));
    }
    Ok(time_of_fields(&Fields { hour, minute, ..Fields::default() }) + micros as i64)
}

fn local_of(v: &[Value]) -> Result<i64> {
    let days = date_of(v[0].int4(), v[1].int4(), v[2].int4())?;
    let time = time_of(v[3].int4(), v[4].int4(), v[5].float8())?;
    let (year, month, day) = datetime::civil_from_days(i64::from(days));
    let midnight = make_timestamp(&Fields { year, month, day, ..Fields::default() })?;
    midnight
        .checked_add(time)
        .ok_or_else(datetime::timestamp_out_of_range)
        .and_then(datetime::check_timestamp)
}

fn make_interval(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let part = |at: usize| i64::from(v[at].int4());
    let seconds = v[6].float8();
    if !seconds.is_finite() {
        return Err(out_of_range());
    }
    let narrow = |value: i64| i32::try_from(value).map_err(|_| out_of_range());
    let months = narrow(part(0) * 12 + part(1))?;
    let days = narrow(part(2) * 7 + part(3))?;
    let micros = part(4) * 3600 * SECOND + part(5) * 60 * SECOND;
    let rounded = (seconds * 1_000_000.0).round_ties_even();
    if rounded.abs() >= 9.2e18 {
        return Err(out_of_range());
    }
    let micros = micros.checked_add(rounded as i64).ok_or_else(out_of_range)?;
    Ok(Value::Interval(Interval { months, days, micros }))
}

fn to_timestamp(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let seconds = v[0].float8();
    if seconds.is_nan() {
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp cannot be NaN"));
    }
    if seconds.is_infinite() {
        let end = if seconds > 0.0 { datetime::INFINITY } else { datetime::NEGATIVE_INFINITY };
        return Ok(Value::Timestamptz(end));
    }
    let since = seconds - f64::from(UNIX_EPOCH_DAYS) * 86_400.0;
    let micros = (since * 1_000_000.0).round_ties_even();
    if micros.abs() >= 9.3e18 {
        let shown = crate::types::text::float8_text(seconds, 1);
        let message = format!("timestamp out of range: \"{shown}\"");
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message));
    }
    datetime::check_timestamp(micros as i64).map(Value::Timestamptz)
}

/// A timestamp moved by the offset of a zone that is given as an interval, east positive.
fn shifted(micros: i64, interval: Interval, sign: i64) -> Result<i64> {
    if is_infinite(micros) {
        return Ok(micros);
    }
    if interval.months != 0 || interval.days != 0 {
        let message = "interval time zone must not include months or days";
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    let offset = sign * (interval.micros / SECOND * SECOND);
    micros
        .checked_add(offset)
        .ok_or_else(datetime::timestamp_out_of_range)
        .and_then(datetime::check_timestamp)
}

/// A `timetz` in the zone this many seconds east of Greenwich.
fn rezoned(value: &Value, east: i32) -> Value {
    let Value::Timetz(time, west) = *value else { return Value::Null };
    let moved = time + (i64::from(west) + i64::from(east)) * SECOND;
    Value::Timetz(moved.rem_euclid(DAY), -east)
}

/// OVERLAPS of periods of which some are given by a start and a length.
fn overlaps_for(context: &mut FunctionContext<'_>, v: &[Value], are_lengths: [bool; 2]) -> Result<Value> {
    let mut ends = v.to_vec();
    for (period, is_length) in are_lengths.into_iter().enumerate() {
        let (start, end) = (&v[period * 2], &v[period * 2 + 1]);
        if is_length {
            ends[period * 2 + 1] = later(context, start, end)?;
        }
    }
    Ok(overlaps(&ends))
}

/// A moment moved by an interval; NULL if either is.
fn later(context: &mut FunctionContext<'_>, start: &Value, length: &Value) -> Result<Value> {
    let Value::Interval(length) = length else { return Ok(Value::Null) };
    match start {
        Value::Timestamp(start) => add_interval(*start, *length).map(Value::Timestamp),
        Value::Timestamptz(start) => instant(context, *start, *length),
        Value::Time(start) => Ok(time_plus(*start, length.micros)),
        _ => Ok(Value::Null),
    }
}

/// Returns true if two periods of time overlap; the ends of each may be in either order, or be NULL.
fn overlaps(v: &[Value]) -> Value {
    let ordered = |left: &Value, right: &Value| -> Option<(Value, Value)> {
        match (left.is_null(), right.is_null()) {
            (true, true) => None,
            (true, false) => Some((right.clone(), Value::Null)),
            (false, true) => Some((left.clone(), Value::Null)),
            (false, false) if left > right => Some((right.clone(), left.clone())),
            _ => Some((left.clone(), right.clone())),
        }
    };
    let (Some((start, end)), Some((other_start, other_end))) = (ordered(&v[0], &v[1]), ordered(&v[2], &v[3]))
    else {
        return Value::Null;
    };
    let (later, end_of_earlier, end_of_later) = match start.cmp(&other_start) {
        std::cmp::Ordering::Greater => (&start, &other_end, &end),
        std::cmp::Ordering::Less => (&other_start, &end, &other_end),
        std::cmp::Ordering::Equal => {
            // Equal starts always overlap, unless an end is unknown.
            return if end.is_null() || other_end.is_null() { Value::Null } else { Value::Bool(true) };
        }
    };
    if end_of_earlier.is_null() {
        return Value::Null;
    }
    if later < end_of_earlier {
        return Value::Bool(true);
    }
    if end_of_later.is_null() { Value::Null } else { Value::Bool(false) }
}
