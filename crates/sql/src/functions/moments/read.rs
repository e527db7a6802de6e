//! `to_date` and `to_timestamp` with a template.
//!
//! Invariant: a text that does not follow its template is 22007, a value beyond its field 22008.

use super::format::{DAYS, MONTHS};
use super::source::{Source, invalid, out_of_range};
use super::template::{Field, Node, is_separator, is_space, parse};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, scalar};
use crate::interrupt;
use crate::types::Value;
use crate::types::datetime::{
    JULIAN_EPOCH, check_timestamp, civil_from_days, date_from_days, days_from_civil, days_in_month,
    iso_week_start, local_to_utc,
};
use crate::types::interval::{DAY, round_micros};

/// The table.
pub(in crate::functions) const FUNCTIONS: &[Definition] = &[
    scalar("to_date(text, text) date", |_, v| {
        let moment = Parts::read(v[0].str(), v[1].str())?.moment(v[0].str())?;
        let out_of_range = || {
            let message = format!("date out of range: \"{}\"", v[0].str());
            SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
        };
        date_from_days(moment.days).map(Value::Date).map_err(|_| out_of_range())
    })
    .stable(),
    scalar("to_timestamp(text, text) timestamptz", to_timestamp).stable(),
];

fn to_timestamp(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let moment = Parts::read(v[0].str(), v[1].str())?.moment(v[0].str())?;
    let out_of_range = || SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range");
    let local = moment.days.checked_mul(DAY).and_then(|local| local.checked_add(moment.micros));
    let local = check_timestamp(local.ok_or_else(out_of_range)?)?;
    let local = moment.digits.map_or(local, |digits| round_micros(local, digits));
    let instant = match moment.offset {
        Some(seconds) => check_timestamp(local - seconds * 1_000_000)?,
        None => local_to_utc(local, &context.formats().time_zone)?,
    };
    Ok(Value::Timestamptz(instant))
}

/// A moment, as the calendar and the clock show it.
struct Moment {
    /// Days since 2000-01-01.
    days: i64,
    micros: i64,
    /// Seconds east of Greenwich.
    offset: Option<i64>,
    /// Number of digits of a second to which it is rounded.
    digits: Option<i32>,
}

/// The calendar by which a template's fields name a day.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Calendar {
    Gregorian,
    IsoWeek,
}

/// The fields that were read. As in PostgreSQL, zero means that a field is missing.
#[derive(Default)]
struct Parts {
    calendar: Option<Calendar>,
    year: i32,
    /// Number of digits of the year's keyword.
    year_digits: usize,
    century: i32,
    is_bc: i32,
    month: i32,
    week: i32,
    week_of_month: i32,
    day: i32,
    day_of_year: i32,
    /// Day of the week from Sunday, which is 1.
    day_of_week: i32,
    julian: i32,
    hour: i32,
    is_twelve_hours: bool,
    is_afternoon: i32,
    minute: i32,
    second: i32,
    seconds_of_day: i32,
    millis: i32,
    micros: i32,
    /// The digits of `FF1` to `FF6`.
    digits: Option<i32>,
    zone_sign: i32,
    zone_hour: i32,
    zone_minute: i32,
}

const MONTHS_SHORT: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS_SHORT: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
/// Roman numbers, the longest first, so that none hides another.
const ROMAN_MONTHS: [&str; 12] = ["XII", "XI", "X", "IX", "VIII", "VII", "VI", "V", "IV", "III", "II", "I"];

/// Sets a field that may have been read before.
fn set(field: &Field, part: &mut i32, value: i32) -> Result<()> {
    if *part != 0 && *part != value {
        let message = format!("conflicting values for \"{}\" field in formatting string", field.keyword);
        let detail = "This value contradicts a previous setting for the same field type.";
        return Err(invalid(message).with_detail(detail));
    }
    *part = value;
    Ok(())
}

/// Days since 2000-01-01 of a day that may be beyond its month.
fn days_of(year: i32, month: i32, day: i32) -> i64 {
    days_from_civil(year, month, 1) + i64::from(day) - 1
}

impl Parts {
    fn read(text: &str, template: &str) -> Result<Parts> {
        let mut parts = Parts::default();
        let mut source = Source { rest: text };
        let nodes = parse(template)?;
        // Number of characters skipped that the template does not ask for.
        let (mut extra, mut is_fixed) = (0i64, false);
        for (at, node) in nodes.iter().enumerate() {
            interrupt::step()?;
            if source.rest.is_empty() {
                break;
            }
            if !is_fixed && (at == 0 || matches!(node, Node::Field(_))) && *node != Node::Fixed {
                extra += source.skip_blanks() as i64;
            }
            match node {
                Node::Fixed => is_fixed = true,
                Node::Separator(_) if is_fixed => source.skip_character(),
                Node::Separator(_) => {
                    // A separator matches any separator, or nothing.
                    extra -= 1;
                    if source.rest.starts_with(|c| is_space(c) || is_separator(c)) {
                        source.skip_character();
                        extra += 1;
                    }
                    continue;
                }
                Node::Text(_) if !is_fixed && extra > 0 => extra -= 1,
                Node::Text(_) => source.skip_character(),
                Node::Field(field) => {
                    let is_tight = field.ordinal.is_none() && nodes.get(at + 1).is_some_and(Node::is_digits);
                    let is_behind_minus = extra > 0 && text[..text.len() - source.rest.len()].ends_with('-');
                    parts.read_field(field, is_tight, is_behind_minus, &mut source)?;
                }
            }
            if !is_fixed && matches!(node, Node::Field(_) | Node::Fixed) {
                extra = source.skip_blanks() as i64;
            }
        }
        Ok(parts)
    }

    /// Notes by which calendar a field tells a day.
    fn by_calendar(&mut self, keyword: &str) -> Result<()> {
        let calendar = match keyword {
            "IDDD" | "ID" | "IW" | "IYYY" | "IYY" | "IY" | "I" => Calendar::IsoWeek,
            "DDD" | "DD" | "D" | "MM" | "MONTH" | "MON" | "RM" | "WW" | "W" | "Y,YYY" | "YYYY" | "YYY"
            | "YY" | "Y" => Calendar::Gregorian,
            _ => return Ok(()),
        };
        if *self.calendar.get_or_insert(calendar) == calendar {
            return Ok(());
        }
        let hint = "Do not mix Gregorian and ISO week date conventions in a formatting template.";
        Err(invalid("invalid combination of date conventions".to_string()).with_hint(hint))
    }

    fn read_field(
        &mut self,
        field: &Field,
        is_tight: bool,
        is_behind_minus: bool,
        source: &mut Source<'_>,
    ) -> Result<()> {
        self.by_calendar(field.keyword)?;
        // Characters are counted only where digits follow at once.
        let width = |digits: usize| (is_tight && !field.is_filled).then_some(digits);
        match field.keyword {
            "AM" | "PM" | "A.M." | "P.M." => {
                let names = if field.keyword.contains('.') { ["a.m.", "p.m."] } else { ["am", "pm"] };
                let half = source.name(field, &names)? as i32;
                set(field, &mut self.is_afternoon, half)?;
                self.is_twelve_hours = true;
                return Ok(());
            }
            "BC" | "AD" | "B.C." | "A.D." => {
                let names = if field.keyword.contains('.') { ["a.d.", "b.c."] } else { ["ad", "bc"] };
                let era = source.name(field, &names)? as i32;
                return set(field, &mut self.is_bc, era);
            }
            "TZ" | "OF" => {
                let message = format!("formatting field \"{}\" is only supported in to_char", field.keyword);
                return Err(SqlError::unsupported(message));
            }
            "TZH" => {
                let sign = source.rest.chars().next().filter(|sign| matches!(sign, '+' | '-' | ' '));
                self.zone_sign = match sign {
                    Some('-') => -1,
                    None if is_behind_minus => -1,
                    _ => 1,
                };
                if sign.is_some() {
                    source.skip_character();
                }
                let hour = source.number(field, width(2))?.0;
                return set(field, &mut self.zone_hour, hour);
            }
            "TZM" => {
                self.zone_sign = if self.zone_sign == 0 { 1 } else { self.zone_sign };
                let minute = source.number(field, width(2))?.0;
                return set(field, &mut self.zone_minute, minute);
            }
            "MONTH" | "MON" | "RM" => {
                let month = match field.keyword {
                    "MONTH" => source.name(field, &MONTHS)? as i32 + 1,
                    "MON" => source.name(field, &MONTHS_SHORT)? as i32 + 1,
                    _ => 12 - source.name(field, &ROMAN_MONTHS)? as i32,
                };
                return set(field, &mut self.month, month);
            }
            "DAY" | "DY" => {
                let names = if field.keyword == "DAY" { &DAYS } else { &DAYS_SHORT };
                let day = source.name(field, names)? as i32;
                set(field, &mut self.day_of_week, day)?;
                self.day_of_week += 1;
                return Ok(());
            }
            "Y,YYY" => self.read_thousands(field, source)?,
            _ => self.read_number(field, &width, source)?,
        }
        if field.ordinal.is_some() {
            source.skip_character();
            source.skip_character();
        }
        Ok(())
    }

    /// `2,024`
    fn read_thousands(&mut self, field: &Field, source: &mut Source<'_>) -> Result<()> {
        let wrong = || invalid("invalid input string for \"Y,YYY\"".to_string());
        let (thousands, _) = source.number(field, None).map_err(|_| wrong())?;
        source.rest = source.rest.strip_prefix(',').ok_or_else(wrong)?;
        source.skip_blanks();
        let digits = source.rest.bytes().take(3).take_while(u8::is_ascii_digit).count();
        let below: i32 = source.rest[..digits].parse().map_err(|_| wrong())?;
        source.rest = &source.rest[digits..];
        let year = i64::from(thousands) * 1000 + i64::from(below);
        self.year_digits = 4;
        set(field, &mut self.year, i32::try_from(year).map_err(|_| out_of_range(field.keyword))?)
    }

    fn read_number(
        &mut self,
        field: &Field,
        width: &dyn Fn(usize) -> Option<usize>,
        source: &mut Source<'_>,
    ) -> Result<()> {
        let digits = match field.keyword {
            "HH" | "HH12" | "HH24" => 2,
            "MS" => 3,
            "US" => 6,
            "ID" => 1,
            keyword if keyword.starts_with("FF") => usize::from(keyword.as_bytes()[2] - b'0'),
            keyword => {
                if keyword == "IDDD" {
                    3
                } else {
                    keyword.len()
                }
            }
        };
        let (value, read) = source.number(field, width(digits))?;
        let fraction = |most: usize| 10i32.pow(most.saturating_sub(read) as u32);
        match field.keyword {
            "HH" | "HH12" => {
                set(field, &mut self.hour, value)?;
                self.is_twelve_hours = true;
            }
            "HH24" => set(field, &mut self.hour, value)?,
            "MI" => set(field, &mut self.minute, value)?,
            "SS" => set(field, &mut self.second, value)?,
            "SSSS" | "SSSSS" => set(field, &mut self.seconds_of_day, value)?,
            "MS" => {
                set(field, &mut self.millis, value)?;
                self.millis = value.wrapping_mul(fraction(3));
            }
            "DDD" | "IDDD" => set(field, &mut self.day_of_year, value)?,
            "MM" => set(field, &mut self.month, value)?,
            "DD" => set(field, &mut self.day, value)?,
            "D" => set(field, &mut self.day_of_week, value)?,
            "ID" => {
                set(field, &mut self.day_of_week, value)?;
                self.day_of_week = if value >= 7 { 1 } else { value + 1 };
            }
            "WW" | "IW" => set(field, &mut self.week, value)?,
            "W" => set(field, &mut self.week_of_month, value)?,
            "Q" => {}
            "CC" => set(field, &mut self.century, value)?,
            "J" => set(field, &mut self.julian, value)?,
            keyword if keyword == "US" || keyword.starts_with("FF") => {
                set(field, &mut self.micros, value)?;
                self.digits = if keyword == "US" { self.digits } else { Some(digits as i32) };
                self.micros = value.wrapping_mul(fraction(6));
            }
            keyword => {
                set(field, &mut self.year, value)?;
                self.year_digits = keyword.len();
                if keyword.len() < 4 && read < 4 {
                    self.year = nearest_to_2020(value);
                }
            }
        }
        Ok(())
    }

    /// The moment, checked.
    fn moment(mut self, text: &str) -> Result<Moment> {
        let days = self.days(text)?;
        let micros = self.time(text)?;
        let mut offset = None;
        if self.zone_sign != 0 {
            if !(0..=15).contains(&self.zone_hour) || !(0..60).contains(&self.zone_minute) {
                let message = format!("time zone displacement out of range: \"{text}\"");
                return Err(SqlError::new(SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE, message));
            }
            let seconds = self.zone_hour * 3600 + self.zone_minute * 60;
            offset = Some(i64::from(self.zone_sign * seconds));
        }
        Ok(Moment { days, micros, offset, digits: self.digits })
    }

    /// Microseconds since midnight.
    fn time(&self, text: &str) -> Result<i64> {
        let or = |part: i32, otherwise: i32| if part == 0 { otherwise } else { part };
        let seconds = self.seconds_of_day;
        let mut hour = or(self.hour, seconds / 3600);
        let (minute, second) = (or(self.minute, seconds / 60 % 60), or(self.second, seconds % 60));
        if self.is_twelve_hours {
            if !(1..=12).contains(&hour) {
                let message = format!("hour \"{hour}\" is invalid for the 12-hour clock");
                let hint = "Use the 24-hour clock, or give an hour between 1 and 12.";
                return Err(invalid(message).with_hint(hint));
            }
            hour = hour % 12 + 12 * self.is_afternoon;
        }
        let micros = i64::from(self.millis) * 1000 + i64::from(self.micros);
        let is_valid = (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..60).contains(&second)
            && (0..1_000_000).contains(&micros);
        if !is_valid {
            return Err(overflow(text));
        }
        Ok(i64::from(hour * 3600 + minute * 60 + second) * 1_000_000 + micros)
    }

    /// Days since 2000-01-01.
    fn days(&mut self, text: &str) -> Result<i64> {
        let (mut year, mut month, mut day) = (self.astronomical_year(text)?, 1, 1);
        // The known ones of year, month and day.
        let mut known = (self.year != 0 || self.century != 0, false, false);
        if self.julian != 0 {
            (year, month, day) = civil_from_days(i64::from(self.julian) - i64::from(JULIAN_EPOCH));
            known = (true, true, true);
        }
        let is_by_week = self.calendar == Some(Calendar::IsoWeek);
        if self.week != 0 && is_by_week {
            let monday = iso_week_start(year, 1) + 7 * (i64::from(self.week) - 1);
            let further = match self.day_of_week {
                0 => 0,
                1 => 6,
                other => i64::from(other) - 2,
            };
            (year, month, day) = civil_from_days(monday + further);
            known = (true, true, true);
        } else if self.week != 0 {
            self.day_of_year = first_day(self.week, "WW")?;
        }
        if self.week_of_month != 0 {
            self.day = first_day(self.week_of_month, "W")?;
        }
        if self.day != 0 {
            (day, known.2) = (self.day, true);
        }
        if self.month != 0 {
            (month, known.1) = (self.month, true);
        }
        if self.day_of_year != 0 && (month <= 1 || day <= 1) {
            if year == 0 && self.is_bc == 0 {
                let message = "cannot calculate day of year without year information";
                return Err(invalid(message.to_string()));
            }
            if is_by_week {
                let zeroth = iso_week_start(year, 1) - 1;
                (year, month, day) = civil_from_days(zeroth + i64::from(self.day_of_year));
                known = (true, true, true);
            } else {
                let (found, of_month) = month_of(year, self.day_of_year);
                month = if month <= 1 { found } else { month };
                day = if day <= 1 { of_month } else { day };
                (known.1, known.2) = (true, true);
            }
        }
        let is_wrong = (known.1 && !(1..=12).contains(&month))
            || (known.2 && !(1..=31).contains(&day))
            || (known == (true, true, true) && day > days_in_month(year, month));
        if is_wrong { Err(overflow(text)) } else { Ok(days_of(year, month, day)) }
    }

    /// The year of a year, a century, or both; 0 is 1 BC.
    fn astronomical_year(&self, text: &str) -> Result<i32> {
        let sign = if self.is_bc != 0 { -1 } else { 1 };
        let (year, century) = (i64::from(self.year), sign * i64::from(self.century));
        let found = if year == 0 {
            match century {
                0 => 0,
                1.. => (century - 1) * 100 + 1,
                _ => century * 100 + 1,
            }
        } else if century != 0 && self.year_digits <= 2 {
            match year % 100 {
                0 => century * 100 + i64::from(century < 0),
                within if century >= 0 => (century - 1) * 100 + within,
                within => (century + 1) * 100 - within + 1,
            }
        } else {
            let year = sign * year;
            if year < 0 { year + 1 } else { year }
        };
        checked(text, found).and_then(|year| match (-5_000..300_000).contains(&year) {
            true => Ok(year),
            false => Err(overflow(text)),
        })
    }
}

/// The first day of a week, counted from the first week's.
fn first_day(week: i32, keyword: &str) -> Result<i32> {
    i32::try_from((i64::from(week) - 1) * 7 + 1).map_err(|_| out_of_range(keyword))
}

/// The month and the day of a day of a year, of which those beyond the year are in a 13th month.
fn month_of(year: i32, day_of_year: i32) -> (i32, i32) {
    let (mut month, mut day) = (1, day_of_year);
    while month <= 12 && day > days_in_month(year, month) {
        day -= days_in_month(year, month);
        month += 1;
    }
    (month, day)
}

fn checked(text: &str, value: i64) -> Result<i32> {
    i32::try_from(value).map_err(|_| overflow(text))
}

fn overflow(text: &str) -> SqlError {
    let message = format!("date/time field value out of range: \"{text}\"");
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
}

/// A year of one to three digits, completed to the one nearest to 2020.
fn nearest_to_2020(year: i32) -> i32 {
    match year {
        ..70 => year + 2000,
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}
