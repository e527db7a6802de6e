//! `interval`: months, days and microseconds, which are kept apart because their lengths differ.
//!
//! Invariant: order, equality and hash count a month as 30 days and a day as 24 hours, as PostgreSQL does, so
//! `1 month` equals `30 days` though they print differently.

use std::cmp::Ordering;
use std::hash::{Hash, Hasher};

use crate::error::{Result, SqlError, SqlState};
use crate::types::Modifier;

/// Microseconds of a second.
pub const SECOND: i64 = 1_000_000;
/// Microseconds of a minute.
pub const MINUTE: i64 = 60 * SECOND;
/// Microseconds of an hour.
pub const HOUR: i64 = 60 * MINUTE;
/// Microseconds of a day.
pub const DAY: i64 = 24 * HOUR;

/// A span of time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    /// Months, 12 to a year.
    pub months: i32,
    /// Days of the calendar.
    pub days: i32,
    /// Microseconds.
    pub micros: i64,
}

/// `interval out of range` (22008).
pub fn out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "interval out of range")
}

impl Interval {
    /// An interval of these parts.
    pub const fn new(months: i32, days: i32, micros: i64) -> Interval {
        Interval { months, days, micros }
    }

    /// The length with 30 days to a month, in microseconds.
    pub fn total_micros(self) -> i128 {
        let days = i128::from(self.months) * 30 + i128::from(self.days);
        days * i128::from(DAY) + i128::from(self.micros)
    }

    /// The sum.
    pub fn plus(self, other: Interval) -> Result<Interval> {
        let months = self.months.checked_add(other.months);
        let days = self.days.checked_add(other.days);
        let micros = self.micros.checked_add(other.micros);
        match (months, days, micros) {
            (Some(months), Some(days), Some(micros)) => Ok(Interval { months, days, micros }),
            _ => Err(out_of_range()),
        }
    }

    /// The interval backwards.
    pub fn negate(self) -> Result<Interval> {
        match (self.months.checked_neg(), self.days.checked_neg(), self.micros.checked_neg()) {
            (Some(months), Some(days), Some(micros)) => Ok(Interval { months, days, micros }),
            _ => Err(out_of_range()),
        }
    }

    /// The difference.
    pub fn minus(self, other: Interval) -> Result<Interval> {
        let months = self.months.checked_sub(other.months);
        let days = self.days.checked_sub(other.days);
        let micros = self.micros.checked_sub(other.micros);
        match (months, days, micros) {
            (Some(months), Some(days), Some(micros)) => Ok(Interval { months, days, micros }),
            _ => Err(out_of_range()),
        }
    }

    /// The interval times a factor; fractions of months become days, fractions of days become time.
    pub fn multiply(self, factor: f64) -> Result<Interval> {
        scale(f64::from(self.months) * factor, f64::from(self.days) * factor, self.micros as f64 * factor)
    }

    /// The interval divided by a number.
    pub fn divide(self, divisor: f64) -> Result<Interval> {
        if divisor == 0.0 {
            return Err(SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero"));
        }
        scale(f64::from(self.months) / divisor, f64::from(self.days) / divisor, self.micros as f64 / divisor)
    }

    /// Every 30 days become a month.
    pub fn justify_days(self) -> Result<Interval> {
        let mut months = self.months.checked_add(self.days / 30).ok_or_else(out_of_range)?;
        let mut days = self.days % 30;
        if months > 0 && days < 0 {
            days += 30;
            months -= 1;
        } else if months < 0 && days > 0 {
            days -= 30;
            months += 1;
        }
        Ok(Interval { months, days, micros: self.micros })
    }

    /// Every 24 hours become a day.
    pub fn justify_hours(self) -> Result<Interval> {
        let whole = i32::try_from(self.micros / DAY).map_err(|_| out_of_range())?;
        let mut days = self.days.checked_add(whole).ok_or_else(out_of_range)?;
        let mut micros = self.micros % DAY;
        if days > 0 && micros < 0 {
            micros += DAY;
            days -= 1;
        } else if days < 0 && micros > 0 {
            micros -= DAY;
            days += 1;
        }
        Ok(Interval { months: self.months, days, micros })
    }

    /// Both, with one sign throughout.
    pub fn justify(self) -> Result<Interval> {
        let mut result = self;
        if (result.days > 0 && result.micros > 0) || (result.days < 0 && result.micros < 0) {
            result.months = result.months.checked_add(result.days / 30).ok_or_else(out_of_range)?;
            result.days %= 30;
        }
        let whole = i32::try_from(result.micros / DAY).map_err(|_| out_of_range())?;
        result.micros %= DAY;
        result.days = result.days.checked_add(whole).ok_or_else(out_of_range)?;
        result.months = result.months.checked_add(result.days / 30).ok_or_else(out_of_range)?;
        result.days %= 30;
        let (months, days, micros) = (result.months, result.days, result.micros);
        if months > 0 && (days < 0 || (days == 0 && micros < 0)) {
            result.days += 30;
            result.months -= 1;
        } else if months < 0 && (days > 0 || (days == 0 && micros > 0)) {
            result.days -= 30;
            result.months += 1;
        }
        if result.days > 0 && result.micros < 0 {
            result.micros += DAY;
            result.days -= 1;
        } else if result.days < 0 && result.micros > 0 {
            result.micros -= DAY;
            result.days += 1;
        }
        Ok(result)
    }
}

/// Rounds a scaled interval as PostgreSQL's `interval_mul` does: fractions of a month are added to days, then to time.
fn scale(months: f64, days: f64, micros: f64) -> Result<Interval> {
    let in_range =
        |value: f64| !value.is_nan() && value <= f64::from(i32::MAX) && value >= f64::from(i32::MIN);
    if !in_range(months) || !in_range(days) {
        return Err(out_of_range());
    }
    let mut result = Interval { months: months as i32, days: days as i32, micros: 0 };
    let month_remainder_days = round_to_micros((months - f64::from(result.months)) * 30.0);
    let mut seconds = round_to_micros(
        (days - f64::from(result.days) + month_remainder_days - month_remainder_days.trunc()) * 86400.0,
    );
    if seconds.abs() >= 86400.0 {
        result.days += (seconds / 86400.0) as i32;
        seconds -= f64::from((seconds / 86400.0) as i32) * 86400.0;
    }
    result.days = result.days.checked_add(month_remainder_days as i32).ok_or_else(out_of_range)?;
    let total = (micros + seconds * SECOND as f64).round_ties_even();
    if total.is_nan() || total >= i64::MAX as f64 || total < i64::MIN as f64 {
        return Err(out_of_range());
    }
    result.micros = total as i64;
    Ok(result)
}

fn round_to_micros(value: f64) -> f64 {
    (value * 1_000_000.0).round_ties_even() / 1_000_000.0
}

impl Ord for Interval {
    fn cmp(&self, other: &Interval) -> Ordering {
        self.total_micros().cmp(&other.total_micros())
    }
}

impl PartialOrd for Interval {
    fn partial_cmp(&self, other: &Interval) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Interval {
    fn eq(&self, other: &Interval) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Interval {}

impl Hash for Interval {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.total_micros().hash(state);
    }
}

/// The fields that an interval's modifier may name, by their bits.
pub mod field {
    /// Years.
    pub const YEAR: i32 = 1 << 2;
    /// Months.
    pub const MONTH: i32 = 1 << 1;
    /// Days.
    pub const DAY: i32 = 1 << 3;
    /// Hours.
    pub const HOUR: i32 = 1 << 10;
    /// Minutes.
    pub const MINUTE: i32 = 1 << 11;
    /// Seconds.
    pub const SECOND: i32 = 1 << 12;
    /// All of them.
    pub const ALL: i32 = 0x7fff;
}

/// The digits of a second that mean "as many as there are".
pub const FULL_PRECISION: i32 = 0xffff;

/// The modifier of `interval <fields>(digits)`.
pub fn modifier(fields: i32, digits: Option<i32>) -> Modifier {
    if fields == field::ALL && digits.is_none() {
        return Modifier::NONE;
    }
    Modifier((fields << 16) | digits.unwrap_or(FULL_PRECISION))
}

/// The names of allowed combinations of fields.
const FIELD_NAMES: &[(i32, &str)] = &[
    (field::YEAR, "year"),
    (field::MONTH, "month"),
    (field::DAY, "day"),
    (field::HOUR, "hour"),
    (field::MINUTE, "minute"),
    (field::SECOND, "second"),
    (field::YEAR | field::MONTH, "year to month"),
    (field::DAY | field::HOUR, "day to hour"),
    (field::DAY | field::HOUR | field::MINUTE, "day to minute"),
    (field::DAY | field::HOUR | field::MINUTE | field::SECOND, "day to second"),
    (field::HOUR | field::MINUTE, "hour to minute"),
    (field::HOUR | field::MINUTE | field::SECOND, "hour to second"),
    (field::MINUTE | field::SECOND, "minute to second"),
];

/// The bits of `year to month` and the like.
pub fn fields_from_name(name: &str) -> Option<i32> {
    FIELD_NAMES.iter().find(|(_, known)| *known == name).map(|(fields, _)| *fields)
}

/// The type's name with its modifier.
pub fn type_name(modifier: Modifier) -> String {
    if modifier.is_none() {
        return "interval".to_string();
    }
    let (fields, digits) = ((modifier.0 >> 16) & 0x7fff, modifier.0 & 0xffff);
    let name = FIELD_NAMES.iter().find(|(known, _)| *known == fields);
    let name = name.map_or_else(String::new, |(_, name)| format!(" {name}"));
    if digits == FULL_PRECISION { format!("interval{name}") } else { format!("interval{name}({digits})") }
}

impl Interval {
    /// Cut to the fields and digits of a modifier.
    pub fn with_modifier(self, modifier: Modifier) -> Interval {
        if modifier.is_none() {
            return self;
        }
        let (fields, digits) = ((modifier.0 >> 16) & 0x7fff, modifier.0 & 0xffff);
        let mut result = self;
        let cut = |micros: i64, unit: i64| micros / unit * unit;
        let lowest = [field::YEAR, field::MONTH, field::DAY, field::HOUR, field::MINUTE, field::SECOND];
        let lowest = lowest.into_iter().rev().find(|bit| fields & bit != 0);
        match lowest {
            _ if fields == field::ALL => {}
            Some(field::YEAR) => result = Interval::new(self.months / 12 * 12, 0, 0),
            Some(field::MONTH) => result = Interval::new(self.months, 0, 0),
            Some(field::DAY) => result.micros = 0,
            Some(field::HOUR) => result.micros = cut(self.micros, HOUR),
            Some(field::MINUTE) => result.micros = cut(self.micros, MINUTE),
            _ => {}
        }
        if digits < 6 {
            result.micros = round_micros(result.micros, digits);
        }
        result
    }
}

/// Microseconds rounded to this many digits of a second, halves away from zero.
pub fn round_micros(micros: i64, digits: i32) -> i64 {
    if !(0..6).contains(&digits) {
        return micros;
    }
    let unit = 10i64.pow((6 - digits) as u32);
    let half = unit / 2;
    if micros >= 0 {
        micros.saturating_add(half) / unit * unit
    } else {
        -(micros.saturating_neg().saturating_add(half) / unit * unit)
    }
}
