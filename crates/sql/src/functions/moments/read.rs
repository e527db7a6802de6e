//! `to_date` and `to_timestamp` with a template.
//!
//! Invariant: a text that does not follow its template is 22007, a value beyond its field 22008.

use super::format::{DAYS, MONTHS};
use super::source::{Source, invalid, narrow};
use super::template::{Field, Node, parse};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, scalar};
use crate::interrupt;
use crate::types::Value;
use crate::types::datetime::{
    Fields, JULIAN_EPOCH, check_timestamp, civil_from_days, days_from_civil, days_in_month, is_leap_year,
    iso_week_start, local_to_utc, make_date, make_timestamp,
};

/// The table.
pub(in crate::functions) const FUNCTIONS: &[Definition] = &[
    scalar("to_date(text, text) date", |_, v| {
        let fields = Parts::read(v[0].str(), v[1].str())?.fields(v[0].str())?;
        make_date(fields.year, fields.month, fields.day).map(Value::Date).map_err(|_| {
            let message = format!("date out of range: \"{}\"", v[0].str());
            SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
        })
    })
    .stable(),
    scalar("to_timestamp(text, text) timestamptz", to_timestamp).stable(),
];

fn to_timestamp(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let parts = Parts::read(v[0].str(), v[1].str())?;
    let local = make_timestamp(&parts.fields(v[0].str())?)?;
    let instant = match parts.zone {
        Some(offset) => check_timestamp(local - offset.seconds() * 1_000_000)?,
        None => local_to_utc(local, &context.formats().time_zone)?,
    };
    Ok(Value::Timestamptz(instant))
}

/// What was read.
#[derive(Default)]
struct Parts {
    year: Option<i32>,
    iso_year: Option<i32>,
    month: Option<i32>,
    day: Option<i32>,
    day_of_year: Option<i32>,
    iso_week: Option<i32>,
    iso_day: Option<i32>,
    iso_day_of_year: Option<i32>,
    julian: Option<i32>,
    century: Option<i32>,
    is_bc: bool,
    hour: Option<i32>,
    is_twelve_hours: bool,
    is_afternoon: Option<bool>,
    minute: i32,
    second: i32,
    seconds_of_day: Option<i32>,
    micros: i32,
    zone: Option<Offset>,
    /// The year's digits, where there are fewer than four.
    year_digits: usize,
}

/// The offset of a time zone: the sign stands apart, as `-00` has one, too.
#[derive(Clone, Copy, Default)]
struct Offset {
    is_west: bool,
    hours: i32,
    minutes: i32,
}

impl Offset {
    fn is_valid(&self) -> bool {
        (0..=15).contains(&self.hours) && (0..60).contains(&self.minutes)
    }

    /// East positive.
    fn seconds(&self) -> i64 {
        let seconds = i64::from(self.hours) * 3600 + i64::from(self.minutes) * 60;
        if self.is_west { -seconds } else { seconds }
    }
}

const MONTHS_SHORT: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS_SHORT: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
/// From the longest, so that none hides another.
const ROMAN_MONTHS: [&str; 12] = ["XII", "XI", "X", "IX", "VIII", "VII", "VI", "V", "IV", "III", "II", "I"];

impl Parts {
    fn read(text: &str, template: &str) -> Result<Parts> {
        let mut parts = Parts::default();
        let mut source = Source { rest: text };
        source.skip_blanks();
        let nodes = parse(template)?;
        for (at, node) in nodes.iter().enumerate() {
            interrupt::step()?;
            if source.rest.is_empty() {
                break;
            }
            match node {
                Node::Text { text, is_separator: true } => {
                    // A separator matches any separator, or nothing.
                    let is_separator = |c: char| !c.is_alphanumeric() && !c.is_control();
                    if !text.trim().is_empty() {
                        source.skip_blanks();
                    }
                    let is_sign = |c: char| matches!(c, '-' | '+') && text.trim().is_empty();
                    // The text may have ended in the blanks.
                    if let Some(after) = source.rest.strip_prefix(|c| is_separator(c) && !is_sign(c)) {
                        source.rest = after;
                        source.skip_blanks();
                    }
                }
                Node::Text { text, .. } => {
                    for _ in text.chars() {
                        let mut characters = source.rest.chars();
                        characters.next();
                        source.rest = characters.as_str();
                    }
                }
                Node::Field(field) => {
                    let is_tight = field.ordinal.is_none() && nodes.get(at + 1).is_some_and(Node::is_digits);
                    parts.read_field(field, is_tight, &mut source)?;
                    if field.ordinal.is_some() {
                        let mut characters = source.rest.chars();
                        characters.nth(1);
                        source.rest = characters.as_str();
                    }
                }
            }
        }
        Ok(parts)
    }

    fn read_field(&mut self, field: &Field, is_tight: bool, source: &mut Source<'_>) -> Result<()> {
        // Characters are counted only where digits follow at once.
        let width = |digits: usize| (is_tight && !field.is_filled).then_some(digits);
        match field.keyword {
            "HH" | "HH12" => {
                let hour = source.number(field, width(2))?;
                if !(1..=12).contains(&hour) {
                    let message = format!("hour \"{hour}\" is invalid for the 12-hour clock");
                    return Err(invalid(message)
                        .with_hint("Use the 24-hour clock, or give an hour between 1 and 12."));
                }
                self.hour = Some(hour);
                self.is_twelve_hours = true;
            }
            "HH24" => self.hour = Some(source.number(field, width(2))?),
            "MI" => self.minute = source.number(field, width(2))?,
            "SS" => self.second = source.number(field, width(2))?,
            "SSSS" | "SSSSS" => self.seconds_of_day = Some(source.number(field, width(5))?),
            "MS" => {
                let (value, read) = self.fraction(field, source, width(3))?;
                self.micros = scaled(value, 1000 * 10i64.pow(3 - read.min(3)))?;
            }
            keyword if keyword == "US" || keyword.starts_with("FF") => {
                let digits = if keyword == "US" { 6 } else { usize::from(keyword.as_bytes()[2] - b'0') };
                let (value, read) = self.fraction(field, source, width(digits))?;
                self.micros = scaled(value, 10i64.pow(6 - read.min(6)))?;
            }
            "AM" | "PM" => self.is_afternoon = Some(source.name(field, &["am", "pm"])? == 1),
            "A.M." | "P.M." => self.is_afternoon = Some(source.name(field, &["a.m.", "p.m."])? == 1),
            "BC" | "AD" => self.is_bc = source.name(field, &["ad", "bc"])? == 1,
            "B.C." | "A.D." => self.is_bc = source.name(field, &["a.d.", "b.c."])? == 1,
            "TZH" => {
                source.skip_blanks();
                let is_west = source.rest.starts_with('-');
                source.rest = source.rest.strip_prefix(['+', '-']).unwrap_or(source.rest);
                let hours = source.number(field, width(2))?;
                self.zone = Some(Offset { is_west, hours, ..self.zone.unwrap_or_default() });
            }
            "TZM" => {
                let minutes = source.number(field, width(2))?;
                self.zone = Some(Offset { minutes, ..self.zone.unwrap_or_default() });
            }
            "TZ" | "OF" => {
                let message = format!("formatting field \"{}\" is only supported in to_char", field.keyword);
                return Err(SqlError::unsupported(message));
            }
            _ => self.read_day(field, &width, source)?,
        }
        Ok(())
    }

    fn read_day(
        &mut self,
        field: &Field,
        width: &dyn Fn(usize) -> Option<usize>,
        source: &mut Source<'_>,
    ) -> Result<()> {
        match field.keyword {
            "MONTH" => self.month = Some(source.name(field, &MONTHS)? as i32 + 1),
            "MON" => self.month = Some(source.name(field, &MONTHS_SHORT)? as i32 + 1),
            "RM" => self.month = Some(12 - source.name(field, &ROMAN_MONTHS)? as i32),
            "MM" => self.month = Some(source.number(field, width(2))?),
            "DAY" => self.iso_day = Some(source.name(field, &DAYS)? as i32),
            "DY" => self.iso_day = Some(source.name(field, &DAYS_SHORT)? as i32),
            "DDD" => self.day_of_year = Some(source.number(field, width(3))?),
            "IDDD" => self.iso_day_of_year = Some(source.number(field, width(3))?),
            "DD" => self.day = Some(source.number(field, width(2))?),
            "D" => {
                let day = i64::from(source.number(field, width(1))?);
                self.iso_day = Some((day - 1).rem_euclid(7) as i32);
            }
            "ID" => self.iso_day = Some(source.number(field, width(1))?),
            "WW" => {
                let week = i64::from(source.number(field, width(2))?);
                self.day_of_year = Some(narrow(field, (week - 1) * 7 + 1)?);
            }
            "IW" => self.iso_week = Some(source.number(field, width(2))?),
            "W" => {
                let week = i64::from(source.number(field, width(1))?);
                self.day = Some(narrow(field, (week - 1) * 7 + 1)?);
            }
            "Q" => {
                source.number(field, width(1))?;
            }
            "CC" => self.century = Some(source.number(field, width(2))?),
            "J" => self.julian = Some(source.number(field, None)?),
            "Y,YYY" => {
                let thousands = i64::from(source.number(field, None)?);
                source.rest = source.rest.strip_prefix(',').unwrap_or(source.rest);
                let below = i64::from(source.number(field, Some(3))?);
                self.year = Some(narrow(field, thousands * 1000 + below)?);
                self.year_digits = 4;
            }
            keyword => {
                let digits = keyword.len();
                source.skip_blanks();
                let before = source.rest.len();
                let year = source.number(field, width(digits))?;
                let read = before - source.rest.len();
                let year = if digits < 4 && read < 4 { nearest_to_2020(year, read) } else { year };
                self.year_digits = digits;
                if keyword.starts_with('I') { self.iso_year = Some(year) } else { self.year = Some(year) }
            }
        }
        Ok(())
    }

    /// A number, and how many characters it has.
    fn fraction(&self, field: &Field, source: &mut Source<'_>, width: Option<usize>) -> Result<(i32, u32)> {
        source.skip_blanks();
        let before = source.rest.len();
        let value = source.number(field, width)?;
        Ok((value, (before - source.rest.len()) as u32))
    }

    /// The fields of a timestamp, checked.
    fn fields(&self, text: &str) -> Result<Fields> {
        let out_of_range = || {
            let message = format!("date/time field value out of range: \"{text}\"");
            SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
        };
        let (year, month, day) = self.date().ok_or_else(out_of_range)?;
        if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
            return Err(out_of_range());
        }
        let mut hour = self.hour.unwrap_or(0);
        let (mut minute, mut second) = (self.minute, self.second);
        if let Some(seconds) = self.seconds_of_day {
            (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        }
        if self.is_twelve_hours {
            hour = match self.is_afternoon {
                Some(true) if hour < 12 => hour + 12,
                Some(false) if hour == 12 => 0,
                _ => hour,
            };
        }
        if !(0..24).contains(&hour) || !(0..60).contains(&minute) || !(0..60).contains(&second) {
            return Err(out_of_range());
        }
        if self.zone.is_some_and(|zone| !zone.is_valid()) {
            let message = format!("time zone displacement out of range: \"{text}\"");
            return Err(SqlError::new(SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE, message));
        }
        Ok(Fields { year, month, day, hour, minute, second, micros: self.micros })
    }

    /// Year, month and day; nothing where the year is beyond an `i32`.
    fn date(&self) -> Option<(i32, i32, i32)> {
        if let Some(julian) = self.julian {
            return Some(civil_from_days(i64::from(julian) - i64::from(JULIAN_EPOCH)));
        }
        if let Some(year) = self.iso_year {
            let start = iso_week_start(year, self.iso_week.unwrap_or(1));
            let day = match (self.iso_day_of_year, self.iso_day) {
                (Some(day), _) => iso_week_start(year, 1) + i64::from(day) - 1,
                (None, Some(0)) => start + 6,
                (None, Some(day)) => start + i64::from(day) - 1,
                (None, None) => start,
            };
            return Some(civil_from_days(day));
        }
        let year = i32::try_from(self.astronomical_year()).ok()?;
        if let (Some(day), None) = (self.day_of_year, self.month) {
            let length = if is_leap_year(year) { 366 } else { 365 };
            if (1..=length).contains(&day) {
                return Some(civil_from_days(days_from_civil(year, 1, 1) + i64::from(day) - 1));
            }
            return Some((year, 13, day));
        }
        Some((year, self.month.unwrap_or(1), self.day.unwrap_or(1)))
    }

    /// The year of a year, a century, or both; 0 is 1 BC. Zero counts as not given.
    fn astronomical_year(&self) -> i64 {
        let sign = if self.is_bc { -1 } else { 1 };
        let year = i64::from(self.year.unwrap_or(0));
        let century = sign * i64::from(self.century.unwrap_or(0));
        if year == 0 {
            return match century {
                0 => 0,
                1.. => (century - 1) * 100 + 1,
                _ => century * 100 + 1,
            };
        }
        if century == 0 || self.year_digits > 2 {
            let year = sign * year;
            return if year < 0 { year + 1 } else { year };
        }
        match year % 100 {
            0 => century * 100 + i64::from(century < 0),
            within if century > 0 => (century - 1) * 100 + within,
            within => (century + 1) * 100 - within + 1,
        }
    }
}

/// Microseconds of a fraction of a second: beyond a second they are 22008.
fn scaled(value: i32, factor: i64) -> Result<i32> {
    let micros = i64::from(value) * factor;
    i32::try_from(micros).ok().filter(|micros| (0..1_000_000).contains(micros)).ok_or_else(|| {
        let message = "date/time field value out of range";
        SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
    })
}

/// A year of one to three digits, completed to the one nearest to 2020.
fn nearest_to_2020(year: i32, digits: usize) -> i32 {
    match (digits, year) {
        (..=2, ..70) => year + 2000,
        (..=2, 70..100) => year + 1900,
        (_, 100..520) => year + 2000,
        (_, 520..1000) => year + 1000,
        _ => year,
    }
}
