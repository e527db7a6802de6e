//! `.datetime()`: strings as moments, and how moments compare.
//!
//! Source: PostgreSQL 15, `executeDateTimeMethod` and `compareDatetime`.

use std::cmp::Ordering;

use super::evaluate::{Evaluation, Failure, Item};
use crate::error::{Result, SqlError, SqlState};
use crate::types::datetime::zone::offset_at;
use crate::types::datetime::{date_to_timestamp, local_to_utc, parse, print};
use crate::types::environment::{DateOrder, DateStyle, FormatSettings};
use crate::types::jsonb::Jsonb;

/// Microseconds of a second.
const SECOND: i64 = 1_000_000;

/// A date or time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Moment {
    Date(i32),
    Time(i64),
    /// The time, and the zone in seconds west.
    Timetz(i64, i32),
    Timestamp(i64),
    /// The instant, and the zone in seconds east in which it was written.
    Timestamptz(i64, i32),
}

impl Moment {
    pub fn type_name(&self) -> &'static str {
        match self {
            Moment::Date(_) => "date",
            Moment::Time(_) => "time without time zone",
            Moment::Timetz(..) => "time with time zone",
            Moment::Timestamp(_) => "timestamp without time zone",
            Moment::Timestamptz(..) => "timestamp with time zone",
        }
    }

    /// The name in messages about zones.
    fn short_name(&self) -> &'static str {
        match self {
            Moment::Date(_) => "date",
            Moment::Time(_) => "time",
            Moment::Timetz(..) => "timetz",
            Moment::Timestamp(_) => "timestamp",
            Moment::Timestamptz(..) => "timestamptz",
        }
    }

    /// The moment in ISO 8601.
    pub fn text(&self, formats: &FormatSettings) -> String {
        let formats = FormatSettings { date_style: DateStyle::Iso, ..formats.clone() };
        let with_t = |text: String| text.replacen(' ', "T", 1);
        let zone = |seconds: i32| {
            let text = print::offset_text(seconds);
            if text.len() == 3 { format!("{text}:00") } else { text }
        };
        match *self {
            Moment::Date(days) => print::date_text(days, &formats),
            Moment::Time(time) => print::time_text(time),
            Moment::Timetz(time, west) => format!("{}{}", print::time_text(time), zone(-west)),
            Moment::Timestamp(micros) => with_t(print::timestamp_text(micros, &formats)),
            Moment::Timestamptz(instant, east) => {
                let local = instant + i64::from(east) * SECOND;
                format!("{}{}", with_t(print::timestamp_text(local, &formats)), zone(east))
            }
        }
    }
}

impl<'d> Evaluation<'d, '_> {
    /// `.datetime()` of an item.
    pub fn datetime(&self, template: Option<&str>, item: &Item<'d>) -> Result<Moment, Failure> {
        if template.is_some() {
            return Err(SqlError::unsupported(
                "a template of the jsonpath method .datetime() is not supported",
            )
            .into());
        }
        let Some(Jsonb::String(text)) = item.document() else {
            return self.fail(SqlState::INVALID_ARGUMENT_FOR_SQL_JSON_DATETIME_FUNCTION, || {
                "jsonpath item method .datetime() can only be applied to a string".to_string()
            });
        };
        match self.read(text) {
            Some(moment) => Ok(moment),
            None if !self.throws => Err(Failure::Silent),
            None => {
                let message = format!("datetime format is not recognized: \"{text}\"");
                let state = SqlState::INVALID_ARGUMENT_FOR_SQL_JSON_DATETIME_FUNCTION;
                let hint = "Use a datetime template argument to specify the input data format.";
                Err(SqlError::new(state, message).with_hint(hint).into())
            }
        }
    }

    /// Reads one of the forms of ISO 8601 that have a date, a time, or both, and perhaps a zone in hours and minutes.
    fn read(&self, text: &str) -> Option<Moment> {
        let formats = FormatSettings { date_order: DateOrder::Ymd, ..self.formats.clone() };
        let text = text.trim_start();
        let (date, time) = match text.find(['T', ' ']) {
            Some(at) if is_date(&text[..at]) => (Some(&text[..at]), Some(text[at + 1..].trim_start())),
            _ if is_date(text) => (Some(text), None),
            _ => (None, Some(text)),
        };
        let Some(time) = time else {
            return parse::parse_date(text, self.now, &formats).ok().map(Moment::Date);
        };
        let (clock, zone) = split_zone(time)?;
        if !is_clock(clock) {
            return None;
        }
        let micros = parse::parse_time(clock, self.now, &formats).ok()?;
        let Some(date) = date else {
            return Some(zone.map_or(Moment::Time(micros), |east| Moment::Timetz(micros, -east)));
        };
        let days = parse::parse_date(date, self.now, &formats).ok()?;
        let local = date_to_timestamp(days).ok()?.checked_add(micros)?;
        Some(match zone {
            Some(east) => Moment::Timestamptz(local - i64::from(east) * SECOND, east),
            None => Moment::Timestamp(local),
        })
    }
}

/// `2020-01-31`
fn is_date(text: &str) -> bool {
    let mut parts = text.split('-');
    let is_number = |part: Option<&str>, most: usize| {
        part.is_some_and(|part| {
            (1..=most).contains(&part.len()) && part.bytes().all(|it| it.is_ascii_digit())
        })
    };
    is_number(parts.next(), 4)
        && is_number(parts.next(), 2)
        && is_number(parts.next(), 2)
        && parts.next().is_none()
}

/// `12:34:56` with a fraction.
fn is_clock(text: &str) -> bool {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |part: &str, most: usize| {
        (1..=most).contains(&part.len()) && part.bytes().all(|it| it.is_ascii_digit())
    };
    let parts: Vec<&str> = whole.split(':').collect();
    parts.len() == 3 && parts.iter().all(|part| digits(part, 2)) && digits(fraction, 6)
}

/// A time and the zone behind it, in seconds east.
fn split_zone(text: &str) -> Option<(&str, Option<i32>)> {
    let Some(at) = text.find(['+', '-']) else { return Some((text, None)) };
    let (hours, minutes) = text[at + 1..].split_once(':').unwrap_or((&text[at + 1..], "0"));
    let number = |part: &str, most: i32| {
        let is_number = (1..=2).contains(&part.len()) && part.bytes().all(|it| it.is_ascii_digit());
        part.parse::<i32>().ok().filter(|&value| is_number && value <= most)
    };
    let seconds = number(hours, 15)? * 3600 + number(minutes, 59)? * 60;
    let east = if text.as_bytes()[at] == b'-' { -seconds } else { seconds };
    Some((text[..at].trim_end(), Some(east)))
}

impl Evaluation<'_, '_> {
    /// The order of two moments; `None` if their types do not compare.
    ///
    /// # Errors
    /// 0A000: one needs the session's zone, which only the functions ending in `_tz` use.
    pub fn compare_moments(&self, left: &Moment, right: &Moment) -> Result<Option<Ordering>> {
        use Moment::{Date, Time, Timestamp, Timestamptz, Timetz};
        let zone = &self.formats.time_zone;
        Ok(Some(match (left, right) {
            (Time(left), Time(right)) => left.cmp(right),
            (Timetz(..) | Time(_), Timetz(..) | Time(_)) => {
                self.zoned_time(left, right)?.cmp(&self.zoned_time(right, left)?)
            }
            (Date(_) | Timestamp(_), Date(_) | Timestamp(_)) => local(left)?.cmp(&local(right)?),
            (Timestamptz(left, _), Timestamptz(right, _)) => left.cmp(right),
            (Timestamptz(instant, _), Date(_) | Timestamp(_)) => {
                self.check_zone(right, left)?;
                instant.cmp(&local_to_utc(local(right)?, zone)?)
            }
            (Date(_) | Timestamp(_), Timestamptz(instant, _)) => {
                self.check_zone(left, right)?;
                local_to_utc(local(left)?, zone)?.cmp(instant)
            }
            _ => return Ok(None),
        }))
    }

    /// Refuses a conversion by the session's zone where it is not used.
    fn check_zone(&self, from: &Moment, to: &Moment) -> Result<()> {
        if self.uses_zone {
            return Ok(());
        }
        let (from, to) = (from.short_name(), to.short_name());
        let message = format!("cannot convert value from {from} to {to} without time zone usage");
        Err(SqlError::unsupported(message).with_hint("Use *_tz() function for time zone support."))
    }

    /// A time at Greenwich, and its zone in seconds west, as `timetz` is ordered.
    fn zoned_time(&self, moment: &Moment, other: &Moment) -> Result<(i64, i32)> {
        let (time, west) = match *moment {
            Moment::Timetz(time, west) => (time, west),
            Moment::Time(time) => {
                self.check_zone(moment, other)?;
                (time, -offset_at(self.now, &self.formats.time_zone))
            }
            _ => return Err(SqlError::internal("a moment is no time")),
        };
        Ok((time + i64::from(west) * SECOND, west))
    }
}

fn local(moment: &Moment) -> Result<i64> {
    match *moment {
        Moment::Date(days) => date_to_timestamp(days),
        Moment::Timestamp(micros) => Ok(micros),
        _ => Err(SqlError::internal("a time has no date")),
    }
}
