//! `to_char` of timestamps and intervals.

use super::template::{Case, Field, Node, ordinal_ending, parse};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, scalar};
use crate::interrupt;
use crate::types::Value;
use crate::types::datetime::{
    Fields, JULIAN_EPOCH, day_of_week, days_from_civil, fields_of_timestamp, is_infinite, iso_week,
    iso_week_start, utc_to_local, zone,
};
use crate::types::interval::{HOUR, Interval, MINUTE, SECOND};

/// The table.
pub(in crate::functions) const FUNCTIONS: &[Definition] = &[
    scalar("to_char(timestamp, text) text", |_, v| {
        if is_infinite(v[0].timestamp()) || v[1].str().is_empty() {
            return Ok(Value::Null);
        }
        Moment::of_timestamp(v[0].timestamp(), None).format(v[1].str())
    })
    .stable(),
    scalar("to_char(timestamptz, text) text", timestamptz_to_char).stable(),
    scalar("timeofday() text", |c, _| {
        let now = Value::Timestamptz(c.environment.clock());
        timestamptz_to_char(c, &[now, Value::text("Dy Mon DD HH24:MI:SS.US YYYY TZ")])
    })
    .volatile(),
    scalar("to_char(interval, text) text", |_, v| {
        if v[1].str().is_empty() {
            return Ok(Value::Null);
        }
        Moment::of_interval(v[0].interval()).format(v[1].str())
    })
    .stable(),
];

/// The names as `Month` writes them; also read by `to_date` and `to_timestamp`.
pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// The names as `Day` writes them; read as well.
pub(super) const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const ROMAN_MONTHS: [&str; 12] = ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

fn timestamptz_to_char(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let instant = v[0].timestamptz();
    if is_infinite(instant) || v[1].str().is_empty() {
        return Ok(Value::Null);
    }
    let session = &context.formats().time_zone;
    let local = utc_to_local(instant, session)?;
    Moment::of_timestamp(local, Some(zone::zone_info_at(instant, session))).format(v[1].str())
}

/// The fields of a timestamp or of an interval that are formatted.
struct Moment {
    year: i64,
    month: i32,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    micros: i64,
    zone: Option<(i32, String)>,
    is_interval: bool,
}

impl Moment {
    fn of_timestamp(local: i64, zone: Option<(i32, String)>) -> Moment {
        let Fields { year, month, day, hour, minute, second, micros } = fields_of_timestamp(local);
        Moment {
            year: year.into(),
            month,
            day: day.into(),
            hour: hour.into(),
            minute: minute.into(),
            second: second.into(),
            micros: micros.into(),
            zone,
            is_interval: false,
        }
    }

    fn of_interval(interval: Interval) -> Moment {
        let time = interval.micros;
        Moment {
            year: (interval.months / 12).into(),
            month: interval.months % 12,
            day: interval.days.into(),
            hour: time / HOUR,
            minute: time % HOUR / MINUTE,
            second: time % MINUTE / SECOND,
            micros: time % SECOND,
            zone: None,
            is_interval: true,
        }
    }

    fn format(&self, template: &str) -> Result<Value> {
        let mut out = String::new();
        for node in parse(template)? {
            interrupt::step()?;
            match node {
                Node::Fixed => {}
                Node::Text(character) | Node::Separator(character) => out.push(character),
                Node::Field(field) => {
                    let text = self.field(&field)?;
                    out.push_str(&text);
                    if let (Some(case), true) = (field.ordinal, text.ends_with(|c: char| c.is_ascii_digit()))
                    {
                        out.push_str(ordinal_ending(&text, case));
                    }
                }
            }
        }
        Ok(Value::text(out))
    }

    /// Days since 2000-01-01 of the calendar's day.
    fn days(&self) -> i64 {
        days_from_civil(self.year as i32, self.month, self.day as i32)
    }

    /// The year as it is printed; years before 1 without their sign.
    fn shown(&self, year: i64) -> i64 {
        if self.is_interval || year > 0 { year } else { 1 - year }
    }

    fn day_of_year(&self) -> i64 {
        if self.is_interval {
            return (self.year * 12 + i64::from(self.month)) * 30 + self.day;
        }
        self.days() - days_from_civil(self.year as i32, 1, 1) + 1
    }

    fn iso(&self) -> (i64, i64) {
        let (week, year) = iso_week(self.year as i32, self.month, self.day as i32);
        (week.into(), year.into())
    }

    fn field(&self, field: &Field) -> Result<String> {
        let number = |value: i64, width: usize| padded(value, if field.is_filled { 0 } else { width });
        let is_named = matches!(
            field.keyword,
            "MONTH"
                | "MON"
                | "DAY"
                | "DY"
                | "D"
                | "ID"
                | "BC"
                | "AD"
                | "B.C."
                | "A.D."
                | "TZ"
                | "TZH"
                | "TZM"
                | "OF"
        );
        if self.is_interval && is_named {
            let message = "invalid format specification for an interval value";
            let hint = "Intervals are not tied to specific calendar dates.";
            return Err(SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message).with_hint(hint));
        }
        Ok(match field.keyword {
            "HH" | "HH12" if self.hour % 12 == 0 => number(12, width_of(self.hour, 2)),
            "HH" | "HH12" => number(self.hour % 12, width_of(self.hour, 2)),
            "HH24" => number(self.hour, width_of(self.hour, 2)),
            "MI" => number(self.minute, width_of(self.minute, 2)),
            "SS" => number(self.second, width_of(self.second, 2)),
            "SSSS" | "SSSSS" => (self.hour * 3600 + self.minute * 60 + self.second).to_string(),
            "MS" => padded(self.micros / 1000, 3),
            "US" => padded(self.micros, 6),
            keyword if keyword.starts_with("FF") => {
                let digits = usize::from(keyword.as_bytes()[2] - b'0');
                padded(self.micros / 10i64.pow(6 - digits as u32), digits)
            }
            "AM" | "PM" | "A.M." | "P.M." => self.half_of_day(field),
            "BC" | "AD" | "B.C." | "A.D." => {
                let word = if self.year <= 0 { "BC" } else { "AD" };
                dotted(word, field)
            }
            "MONTH" | "MON" | "DAY" | "DY" => self.name(field),
            "RM" => self.roman_month(field),
            "TZ" | "TZH" | "TZM" | "OF" => self.zone_field(field),
            _ => self.calendar_field(field),
        })
    }

    fn calendar_field(&self, field: &Field) -> String {
        let number = |value: i64, width: usize| padded(value, if field.is_filled { 0 } else { width });
        match field.keyword {
            "MM" => number(self.month.into(), width_of(self.month.into(), 2)),
            "DDD" => number(self.day_of_year(), 3),
            "IDDD" => {
                let (_, year) = self.iso();
                number(self.days() - iso_week_start(year as i32, 1) + 1, 3)
            }
            "DD" => number(self.day, 2),
            "D" => (day_of_week(self.days()) + 1).to_string(),
            "ID" => match day_of_week(self.days()) {
                0 => "7".to_string(),
                day => day.to_string(),
            },
            "WW" => number((self.day_of_year() - 1) / 7 + 1, 2),
            "IW" => number(self.iso().0, 2),
            "W" => ((self.day - 1) / 7 + 1).to_string(),
            "Q" if self.month == 0 => String::new(),
            "Q" => ((self.month - 1) / 3 + 1).to_string(),
            "CC" => self.century(field),
            "J" if self.is_interval => self.julian_of_interval().to_string(),
            "J" => (self.days() + i64::from(JULIAN_EPOCH)).to_string(),
            "Y,YYY" => {
                let year = self.shown(self.year);
                format!("{},{:03}", year / 1000, year % 1000)
            }
            keyword => {
                let year = self.shown(if keyword.starts_with('I') { self.iso().1 } else { self.year });
                let digits = keyword.len();
                let cut = if digits == 4 { year } else { year % 10i64.pow(digits as u32) };
                let width = if digits == 1 { 1 } else { width_of(self.shown(self.year), digits) };
                number(cut, width)
            }
        }
    }

    /// PostgreSQL treats years, months and days as a date, whatever they are.
    fn julian_of_interval(&self) -> i64 {
        let (month, year) = if self.month > 2 {
            (self.month + 1, self.year + 4800)
        } else {
            (self.month + 13, self.year + 4799)
        };
        let century = year / 100;
        year * 365 - 32_167 + year / 4 - century + century / 4 + i64::from(7834 * month / 256) + self.day
    }

    fn century(&self, field: &Field) -> String {
        let century = if self.is_interval {
            self.year / 100
        } else if self.year > 0 {
            (self.year - 1) / 100 + 1
        } else {
            // The century of 1 BC to 100 BC is -1.
            self.year / 100 - 1
        };
        if (-99..=99).contains(&century) {
            padded(century, if field.is_filled { 0 } else { width_of(century, 2) })
        } else {
            century.to_string()
        }
    }

    fn half_of_day(&self, field: &Field) -> String {
        dotted(if self.hour % 24 >= 12 { "PM" } else { "AM" }, field)
    }

    fn name(&self, field: &Field) -> String {
        let is_month = field.keyword.starts_with('M');
        let full = if is_month {
            MONTHS[(self.month - 1) as usize]
        } else {
            DAYS[day_of_week(self.days()) as usize]
        };
        let name = if matches!(field.keyword, "MON" | "DY") { &full[..3] } else { full };
        let written = match field.case {
            Case::Upper => name.to_uppercase(),
            Case::Capital => name.to_string(),
            Case::Lower => name.to_lowercase(),
        };
        let width = if field.is_filled || name.len() == 3 && full.len() != 3 { 0 } else { 9 };
        let width = if matches!(field.keyword, "MON" | "DY") || field.is_translated { 0 } else { width };
        format!("{written:<width$}")
    }

    fn roman_month(&self, field: &Field) -> String {
        // The month of whole years is the last, or the first of those before.
        let at = match self.month {
            0 if self.year == 0 => return String::new(),
            0 => {
                if self.year > 0 {
                    11
                } else {
                    0
                }
            }
            month if month > 0 => month - 1,
            month => 12 + month,
        };
        let name = ROMAN_MONTHS[at as usize];
        let written = if field.case == Case::Upper { name.to_string() } else { name.to_lowercase() };
        let width = if field.is_filled { 0 } else { 4 };
        format!("{written:<width$}")
    }

    fn zone_field(&self, field: &Field) -> String {
        let (offset, abbreviation) = match &self.zone {
            Some((offset, abbreviation)) => (*offset, abbreviation.as_str()),
            None => (0, ""),
        };
        let sign = if offset < 0 { '-' } else { '+' };
        let (hours, minutes) = (offset.abs() / 3600, offset.abs() / 60 % 60);
        match field.keyword {
            "TZ" if field.case == Case::Lower => abbreviation.to_lowercase(),
            "TZ" => abbreviation.to_string(),
            "TZH" => format!("{sign}{hours:02}"),
            "TZM" => format!("{minutes:02}"),
            _ if minutes != 0 => format!("{sign}{hours:02}:{minutes:02}"),
            _ => format!("{sign}{hours:02}"),
        }
    }
}

/// The value with leading zeros, after the sign.
fn padded(value: i64, width: usize) -> String {
    if value < 0 {
        format!("-{:0width$}", value.unsigned_abs(), width = width.saturating_sub(1))
    } else {
        format!("{value:0width$}")
    }
}

/// A sign has a column of its own.
fn width_of(value: i64, width: usize) -> usize {
    if value < 0 { width + 1 } else { width }
}

/// `AM` as `AM`, `am`, `A.M.` or `a.m.`.
fn dotted(word: &str, field: &Field) -> String {
    let word = if field.keyword.contains('.') {
        format!("{}.{}.", &word[..1], &word[1..])
    } else {
        word.to_string()
    };
    if field.case == Case::Lower { word.to_lowercase() } else { word }
}
