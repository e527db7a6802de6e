//! Parts of dates, times and intervals: `extract`, `date_part`, `date_trunc`, `date_bin`.
//!
//! Invariant: `extract` answers exactly, as `numeric` with PostgreSQL's scales; `date_part` answers the same as a float.

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, scalar};
use crate::types::datetime::{
    self, Fields, JULIAN_EPOCH, UNIX_EPOCH_DAYS, days_from_civil, fields_of_time, fields_of_timestamp,
    is_infinite, iso_week, make_timestamp, timestamp_out_of_range, zone,
};
use crate::types::interval::{DAY, HOUR, Interval, MINUTE, SECOND};
use crate::types::numeric::Numeric;
use crate::types::{Type, Value};

/// The table.
pub(in crate::functions) const FUNCTIONS: &[Definition] = &[
    scalar("extract(text, date) numeric", extract),
    scalar("extract(text, time) numeric", extract),
    scalar("extract(text, timetz) numeric", extract),
    scalar("extract(text, timestamp) numeric", extract),
    scalar("extract(text, timestamptz) numeric", extract).stable(),
    scalar("extract(text, interval) numeric", extract),
    scalar("date_part(text, date) float8", date_part),
    scalar("date_part(text, time) float8", date_part),
    scalar("date_part(text, timetz) float8", date_part),
    scalar("date_part(text, timestamp) float8", date_part),
    scalar("date_part(text, timestamptz) float8", date_part).stable(),
    scalar("date_part(text, interval) float8", date_part),
    scalar("date_trunc(text, timestamp) timestamp", |_, v| {
        truncate(v[0].str(), v[1].timestamp(), Type::Timestamp).map(Value::Timestamp)
    }),
    scalar("date_trunc(text, timestamptz) timestamptz", |c, v| {
        let session = c.formats().time_zone.clone();
        truncate_in_zone(v[0].str(), v[1].timestamptz(), &session)
    })
    .stable(),
    scalar("date_trunc(text, timestamptz, text) timestamptz", |_, v| {
        if is_infinite(v[1].timestamptz()) {
            return Ok(v[1].clone());
        }
        truncate_in_zone(v[0].str(), v[1].timestamptz(), &zone::zone_by_name(v[2].str())?)
    })
    .stable(),
    scalar("date_trunc(text, interval) interval", |_, v| truncate_interval(v[0].str(), v[1].interval())),
    scalar("date_bin(interval, timestamp, timestamp) timestamp", |_, v| {
        bin(v[0].interval(), v[1].timestamp(), v[2].timestamp()).map(Value::Timestamp)
    }),
    scalar("date_bin(interval, timestamptz, timestamptz) timestamptz", |_, v| {
        bin(v[0].interval(), v[1].timestamptz(), v[2].timestamptz()).map(Value::Timestamptz)
    }),
];

/// The names of a field.
const UNITS: &[(&str, &[&str])] = &[
    ("microseconds", &["microsecond", "usecs", "usec", "us", "useconds", "usecond", "microsecon"]),
    ("milliseconds", &["millisecond", "msecs", "msec", "ms", "mseconds", "msecond", "millisecon"]),
    ("second", &["seconds", "secs", "sec", "s"]),
    ("minute", &["minutes", "mins", "min", "m"]),
    ("hour", &["hours", "hrs", "hr", "h"]),
    ("day", &["days", "d"]),
    ("week", &["weeks", "w"]),
    ("month", &["months", "mons", "mon"]),
    ("quarter", &["qtr"]),
    ("year", &["years", "yrs", "yr", "y"]),
    ("decade", &["decades", "decs", "dec"]),
    ("century", &["centuries", "cent", "c"]),
    ("millennium", &["millennia", "mils", "mil"]),
    ("julian", &["j", "jd"]),
    ("isoyear", &[]),
    ("isodow", &[]),
    ("dow", &[]),
    ("doy", &[]),
    ("epoch", &[]),
    ("timezone", &[]),
    ("timezone_hour", &["timezone_h"]),
    ("timezone_minute", &["timezone_m"]),
];

/// The field's plain name; none for unknown ones.
fn unit_name(text: &str) -> Option<&'static str> {
    let folded = text.to_ascii_lowercase();
    let found = UNITS.iter().find(|(name, others)| *name == folded || others.contains(&folded.as_str()));
    found.map(|(name, _)| *name)
}

fn not_recognized(unit: &str, kind: Type) -> SqlError {
    let message = format!("unit \"{unit}\" not recognized for type {}", kind.display_name());
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn not_supported(unit: &str, kind: Type) -> SqlError {
    SqlError::unsupported(format!("unit \"{unit}\" not supported for type {}", kind.display_name()))
}

fn scaled(coefficient: i64, scale: i32) -> Result<Option<Numeric>> {
    Numeric::from_small(coefficient, scale).map(Some)
}

fn whole(value: i64) -> Result<Option<Numeric>> {
    scaled(value, 0)
}

fn extract(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let kind = context.argument_type(1);
    Ok(part(context, v[0].str(), kind, &v[1])?.map_or(Value::Null, Value::Numeric))
}

fn date_part(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let (kind, unit) = (context.argument_type(1), v[0].str());
    // date_part of a date is that of its midnight, and knows its fields.
    let (kind, value) = match v[1] {
        Value::Date(days) => (Type::Timestamp, Value::Timestamp(datetime::date_to_timestamp(days)?)),
        ref value => (kind, value.clone()),
    };
    if unit_name(unit) == Some("julian")
        && let Value::Timestamp(local) | Value::Timestamptz(local) = value
        && !is_infinite(local)
    {
        let local = match kind {
            Type::Timestamptz => datetime::utc_to_local(local, &context.formats().time_zone)?,
            _ => local,
        };
        let day = (local.div_euclid(DAY) + i64::from(JULIAN_EPOCH)) as f64;
        return Ok(Value::Float8(day + local.rem_euclid(DAY) as f64 / 1_000_000.0 / 86_400.0));
    }
    let number = part(context, unit, kind, &value)?;
    Ok(number.map_or(Value::Null, |number| Value::Float8(number.to_f64())))
}

fn part(context: &FunctionContext<'_>, unit: &str, kind: Type, value: &Value) -> Result<Option<Numeric>> {
    let folded = unit.to_ascii_lowercase();
    let Some(name) = unit_name(unit) else { return Err(not_recognized(&folded, kind)) };
    match value {
        Value::Interval(interval) => interval_part(name, *interval),
        Value::Time(time) => time_part(name, *time, None, kind),
        Value::Timetz(time, zone) => time_part(name, *time, Some(*zone), kind),
        Value::Date(days) => date_field(name, *days),
        Value::Timestamp(micros) if is_infinite(*micros) => infinite_part(name, *micros > 0),
        Value::Timestamptz(micros) if is_infinite(*micros) => infinite_part(name, *micros > 0),
        Value::Timestamp(micros) => timestamp_part(name, *micros, *micros, None),
        Value::Timestamptz(micros) => {
            let session = &context.formats().time_zone;
            let local = datetime::utc_to_local(*micros, session)?;
            timestamp_part(name, local, *micros, Some(zone::offset_at(*micros, session)))
        }
        _ => Ok(None),
    }
}

/// Fields that grow forever are infinite, the others unknown.
fn infinite_part(name: &str, is_positive: bool) -> Result<Option<Numeric>> {
    match name {
        "year" | "decade" | "century" | "millennium" | "julian" | "isoyear" | "epoch" => {
            Ok(Some(if is_positive { Numeric::Infinity } else { Numeric::NegativeInfinity }))
        }
        _ => Ok(None),
    }
}

/// The fields of a day of the calendar.
fn calendar_part(name: &str, year: i32, month: i32, day: i32) -> Option<i64> {
    let shown = i64::from(if year > 0 { year } else { year - 1 });
    let group = |size: i64| if year > 0 { (shown + size - 1) / size } else { -((size - 1 - shown) / size) };
    let days = days_from_civil(year, month, day);
    let weekday = i64::from(datetime::day_of_week(days));
    Some(match name {
        "day" => i64::from(day),
        "month" => i64::from(month),
        "quarter" => i64::from((month - 1) / 3 + 1),
        "week" => i64::from(iso_week(year, month, day).0),
        "year" => shown,
        "decade" => i64::from(year).div_euclid(10),
        "century" => group(100),
        "millennium" => group(1000),
        "isoyear" => {
            let iso = i64::from(iso_week(year, month, day).1);
            if iso > 0 { iso } else { iso - 1 }
        }
        "dow" => weekday,
        "isodow" if weekday == 0 => 7,
        "isodow" => weekday,
        "doy" => days - days_from_civil(year, 1, 1) + 1,
        _ => return None,
    })
}

fn date_field(name: &str, days: i32) -> Result<Option<Numeric>> {
    if datetime::is_infinite_date(days) {
        return match name {
            "day" | "month" | "quarter" | "week" | "dow" | "isodow" | "doy" => Ok(None),
            "year" | "decade" | "century" | "millennium" | "julian" | "isoyear" | "epoch" => {
                infinite_part(name, days > 0)
            }
            _ => Err(not_supported(name, Type::Date)),
        };
    }
    let (year, month, day) = datetime::civil_from_days(i64::from(days));
    match name {
        "julian" => whole(i64::from(days) + i64::from(JULIAN_EPOCH)),
        "epoch" => whole((i64::from(days) + i64::from(UNIX_EPOCH_DAYS)) * 86_400),
        name => match calendar_part(name, year, month, day) {
            Some(value) => whole(value),
            None => Err(not_supported(name, Type::Date)),
        },
    }
}

/// The fields of a clock, from its microseconds within the minute.
fn clock_part(name: &str, fields: &Fields) -> Option<Result<Option<Numeric>>> {
    let micros = i64::from(fields.second) * SECOND + i64::from(fields.micros);
    Some(match name {
        "microseconds" => whole(micros),
        "milliseconds" => scaled(micros, 3),
        "second" => scaled(micros, 6),
        "minute" => whole(i64::from(fields.minute)),
        "hour" => whole(i64::from(fields.hour)),
        _ => return None,
    })
}

/// The fields of an offset in seconds east.
fn offset_part(name: &str, offset: i32) -> Option<i64> {
    Some(i64::from(match name {
        "timezone" => offset,
        "timezone_hour" => offset / 3600,
        "timezone_minute" => offset / 60 % 60,
        _ => return None,
    }))
}

fn time_part(name: &str, time: i64, zone: Option<i32>, kind: Type) -> Result<Option<Numeric>> {
    if let Some(result) = clock_part(name, &fields_of_time(time)) {
        return result;
    }
    if name == "epoch" {
        return scaled(time + i64::from(zone.unwrap_or(0)) * SECOND, 6);
    }
    match zone.and_then(|zone| offset_part(name, -zone)) {
        Some(value) => whole(value),
        None => Err(not_supported(name, kind)),
    }
}

fn timestamp_part(name: &str, local: i64, instant: i64, offset: Option<i32>) -> Result<Option<Numeric>> {
    let fields = fields_of_timestamp(local);
    if let Some(result) = clock_part(name, &fields) {
        return result;
    }
    if let Some(value) = calendar_part(name, fields.year, fields.month, fields.day) {
        return whole(value);
    }
    match (name, offset) {
        ("julian", _) => {
            let day = Numeric::from(local.div_euclid(DAY) + i64::from(JULIAN_EPOCH));
            let part = Numeric::from(local.rem_euclid(DAY)).divide(&Numeric::from(DAY))?;
            day.add(&part).map(Some)
        }
        ("epoch", _) => {
            let micros = i128::from(instant) + i128::from(UNIX_EPOCH_DAYS) * i128::from(DAY);
            Numeric::from_wide(micros, 6).map(Some)
        }
        (name, Some(offset)) if name.starts_with("timezone") => whole(offset_part(name, offset).unwrap_or(0)),
        (name, _) => {
            Err(not_supported(name, if offset.is_some() { Type::Timestamptz } else { Type::Timestamp }))
        }
    }
}

fn interval_part(name: &str, interval: Interval) -> Result<Option<Numeric>> {
    let (months, micros) = (i64::from(interval.months), interval.micros);
    match name {
        "microseconds" => whole(micros % MINUTE),
        "milliseconds" => scaled(micros % MINUTE, 3),
        "second" => scaled(micros % MINUTE, 6),
        "minute" => whole(micros % HOUR / MINUTE),
        "hour" => whole(micros / HOUR),
        "day" => whole(i64::from(interval.days)),
        "month" => whole(months % 12),
        "quarter" => whole(months % 12 / 3 + 1),
        "year" => whole(months / 12),
        "decade" => whole(months / 120),
        "century" => whole(months / 1200),
        "millennium" => whole(months / 12_000),
        "epoch" => {
            // A year counts 365.25 days here, a month 30.
            let days = i128::from(months / 12) * 1461
                + (i128::from(months % 12) * 30 + i128::from(interval.days)) * 4;
            let total = days * i128::from(DAY / 4) + i128::from(micros);
            Numeric::from_wide(total, 6).map(Some)
        }
        other => Err(not_supported(other, Type::Interval)),
    }
}

/// A timestamp with the fields below the unit cleared.
fn truncate(unit: &str, micros: i64, kind: Type) -> Result<i64> {
    if is_infinite(micros) {
        return Ok(micros);
    }
    let folded = unit.to_ascii_lowercase();
    let Some(name) = unit_name(unit) else { return Err(not_recognized(&folded, kind)) };
    if matches!(name, "julian" | "isoyear" | "isodow" | "dow" | "doy" | "epoch") {
        return Err(not_recognized(&folded, kind));
    }
    if name.starts_with("timezone") {
        return Err(not_supported(&folded, kind));
    }
    let mut fields = fields_of_timestamp(micros);
    let start =
        |year: i32, month: i32, day: i32| make_timestamp(&Fields { year, month, day, ..Fields::default() });
    // Years before 1 count backwards: the century of -5 starts at -99.
    let group = |year: i32, size: i32| {
        if year > 0 {
            (year + size - 1) / size * size - size + 1
        } else {
            -((size - 1 - (year - 1)) / size) * size + 1
        }
    };
    match name {
        "microseconds" => return Ok(micros),
        "milliseconds" => fields.micros = fields.micros / 1000 * 1000,
        "second" => fields.micros = 0,
        "minute" => (fields.second, fields.micros) = (0, 0),
        "hour" => (fields.minute, fields.second, fields.micros) = (0, 0, 0),
        "day" => return Ok(micros.div_euclid(DAY) * DAY),
        "week" => {
            let days = micros.div_euclid(DAY);
            let monday = days - i64::from((datetime::day_of_week(days) + 6) % 7);
            return monday
                .checked_mul(DAY)
                .ok_or_else(timestamp_out_of_range)
                .and_then(datetime::check_timestamp);
        }
        "month" => return start(fields.year, fields.month, 1),
        "quarter" => return start(fields.year, (fields.month - 1) / 3 * 3 + 1, 1),
        "year" => return start(fields.year, 1, 1),
        "decade" => return start(fields.year.div_euclid(10) * 10, 1, 1),
        "century" => return start(group(fields.year, 100), 1, 1),
        _ => return start(group(fields.year, 1000), 1, 1),
    }
    make_timestamp(&fields)
}

fn truncate_in_zone(unit: &str, micros: i64, zone: &jiff::tz::TimeZone) -> Result<Value> {
    let kind = Type::Timestamptz;
    if is_infinite(micros) {
        return truncate(unit, micros, kind).map(Value::Timestamptz);
    }
    let local = datetime::utc_to_local(micros, zone)?;
    let cut = truncate(unit, local, kind)?;
    let is_within_day =
        matches!(unit_name(unit), Some("microseconds" | "milliseconds" | "second" | "minute" | "hour"));
    // Within a day the offset stays, so that repeated hours are not confused.
    let result = if is_within_day { cut - (local - micros) } else { datetime::local_to_utc(cut, zone)? };
    Ok(Value::Timestamptz(result))
}

fn truncate_interval(unit: &str, interval: Interval) -> Result<Value> {
    let folded = unit.to_ascii_lowercase();
    let Some(name) = unit_name(unit) else { return Err(not_recognized(&folded, Type::Interval)) };
    let Interval { months, days, micros } = interval;
    let cut = |unit: i64| Interval::new(months, days, micros / unit * unit);
    let months_of = |unit: i32| Interval::new(months / unit * unit, 0, 0);
    Ok(Value::Interval(match name {
        "microseconds" => interval,
        "milliseconds" => cut(1000),
        "second" => cut(SECOND),
        "minute" => cut(MINUTE),
        "hour" => cut(HOUR),
        "day" => Interval::new(months, days, 0),
        "month" => months_of(1),
        "quarter" => months_of(3),
        "year" => months_of(12),
        "decade" => months_of(120),
        "century" => months_of(1200),
        "millennium" => months_of(12_000),
        "week" => {
            let error = not_supported(&folded, Type::Interval);
            return Err(error.with_detail("Months usually have fractional weeks."));
        }
        name if name.starts_with("timezone") => return Err(not_supported(&folded, Type::Interval)),
        _ => return Err(not_recognized(&folded, Type::Interval)),
    }))
}

/// The start of a timestamp's bin, among bins of a length that begin at an origin.
fn bin(stride: Interval, micros: i64, origin: i64) -> Result<i64> {
    if is_infinite(micros) {
        return Ok(micros);
    }
    if is_infinite(origin) {
        let message = "origin out of range";
        return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message));
    }
    if stride.months != 0 {
        return Err(SqlError::unsupported(
            "timestamps cannot be binned into intervals containing months or years",
        ));
    }
    let length = i64::from(stride.days).checked_mul(DAY).and_then(|days| days.checked_add(stride.micros));
    let length = length.filter(|length| *length > 0).ok_or_else(|| {
        SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "stride must be greater than zero")
    })?;
    let difference = micros.checked_sub(origin).ok_or_else(timestamp_out_of_range)?;
    let moved = i128::from(origin) + i128::from(difference.div_euclid(length)) * i128::from(length);
    i64::try_from(moved).map_err(|_| timestamp_out_of_range()).and_then(datetime::check_timestamp)
}
