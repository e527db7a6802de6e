//! Dates, times and intervals as text, in the styles of `DateStyle` and `IntervalStyle`.

use std::fmt::Write;

use super::zone::zone_info_at;
use super::{
    DATE_INFINITY, DATE_NEGATIVE_INFINITY, Fields, INFINITY, NEGATIVE_INFINITY, civil_from_days, day_of_week,
    days_from_civil, fields_of_time, fields_of_timestamp, utc_to_local,
};
use crate::error::Result;
use crate::types::environment::{DateOrder, DateStyle, FormatSettings, IntervalStyle};
use crate::types::interval::Interval;

/// Abbreviated names of the days, from Sunday.
pub const DAYS_SHORT: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
/// Abbreviated names of the months.
pub const MONTHS_SHORT: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A date as text.
pub fn date_text(days: i32, formats: &FormatSettings) -> String {
    match days {
        DATE_INFINITY => "infinity".to_string(),
        DATE_NEGATIVE_INFINITY => "-infinity".to_string(),
        days => {
            let (year, month, day) = civil_from_days(i64::from(days));
            let mut text = date_part(year, month, day, formats);
            push_era(year, &mut text);
            text
        }
    }
}

/// The year as it is printed, without its sign.
fn printed_year(year: i32) -> i32 {
    if year > 0 { year } else { 1 - year }
}

fn push_era(year: i32, text: &mut String) {
    if year <= 0 {
        text.push_str(" BC");
    }
}

fn date_part(year: i32, month: i32, day: i32, formats: &FormatSettings) -> String {
    let is_day_first = formats.date_order == DateOrder::Dmy;
    let shown = printed_year(year);
    match formats.date_style {
        DateStyle::Iso => format!("{shown:04}-{month:02}-{day:02}"),
        DateStyle::German => format!("{day:02}.{month:02}.{shown:04}"),
        DateStyle::Sql if is_day_first => format!("{day:02}/{month:02}/{shown:04}"),
        DateStyle::Sql => format!("{month:02}/{day:02}/{shown:04}"),
        DateStyle::Postgres if is_day_first => format!("{day:02}-{month:02}-{shown:04}"),
        DateStyle::Postgres => format!("{month:02}-{day:02}-{shown:04}"),
    }
}

/// A time of the day as text.
pub fn time_text(time: i64) -> String {
    let fields = fields_of_time(time);
    let mut text = String::with_capacity(15);
    push_time(&fields, &mut text);
    text
}

fn push_time(fields: &Fields, text: &mut String) {
    let _ = write!(text, "{:02}:{:02}:{:02}", fields.hour, fields.minute, fields.second);
    push_fraction(fields.micros, text);
}

/// The fraction of a second without zeros at its end.
fn push_fraction(micros: i32, text: &mut String) {
    if micros != 0 {
        let digits = format!(".{:06}", micros.abs());
        text.push_str(digits.trim_end_matches('0'));
    }
}

/// An offset in seconds east of Greenwich as text: `+02`, `-08:30`.
pub fn offset_text(seconds: i32) -> String {
    let sign = if seconds < 0 { '-' } else { '+' };
    let magnitude = seconds.abs();
    let mut text = format!("{sign}{:02}", magnitude / 3600);
    let (minutes, rest) = (magnitude / 60 % 60, magnitude % 60);
    if minutes != 0 || rest != 0 {
        let _ = write!(text, ":{minutes:02}");
    }
    if rest != 0 {
        let _ = write!(text, ":{rest:02}");
    }
    text
}

/// A `timetz` as text; the zone is in seconds west.
pub fn timetz_text(time: i64, zone: i32) -> String {
    format!("{}{}", time_text(time), offset_text(-zone))
}

/// A `timestamp` as text.
pub fn timestamp_text(micros: i64, formats: &FormatSettings) -> String {
    match micros {
        INFINITY => "infinity".to_string(),
        NEGATIVE_INFINITY => "-infinity".to_string(),
        micros => moment_text(&fields_of_timestamp(micros), None, formats),
    }
}

/// A `timestamptz` as text, in the session's zone.
pub fn timestamptz_text(micros: i64, formats: &FormatSettings) -> Result<String> {
    if micros == INFINITY || micros == NEGATIVE_INFINITY {
        return Ok(timestamp_text(micros, formats));
    }
    let (offset, abbreviation) = zone_info_at(micros, &formats.time_zone);
    let fields = fields_of_timestamp(utc_to_local(micros, &formats.time_zone)?);
    Ok(moment_text(&fields, Some((offset, &abbreviation)), formats))
}

fn moment_text(fields: &Fields, zone: Option<(i32, &str)>, formats: &FormatSettings) -> String {
    let Fields { year, month, day, .. } = *fields;
    let mut time = String::new();
    push_time(fields, &mut time);
    let named = |(offset, abbreviation): (i32, &str)| {
        let is_name = abbreviation.starts_with(|c: char| c.is_ascii_alphabetic());
        if is_name { format!(" {abbreviation}") } else { format!(" {}", offset_text(offset)) }
    };
    let mut text = match formats.date_style {
        DateStyle::Iso => {
            let zone = zone.map_or_else(String::new, |(offset, _)| offset_text(offset));
            format!("{} {time}{zone}", date_part(year, month, day, formats))
        }
        DateStyle::Sql | DateStyle::German => {
            let zone = zone.map_or_else(String::new, named);
            format!("{} {time}{zone}", date_part(year, month, day, formats))
        }
        DateStyle::Postgres => {
            let weekday = DAYS_SHORT[day_of_week(days_from_civil(year, month, day)) as usize];
            let month = MONTHS_SHORT[(month - 1) as usize];
            let date = match formats.date_order {
                DateOrder::Dmy => format!("{day:02} {month}"),
                _ => format!("{month} {day:02}"),
            };
            let zone = zone.map_or_else(String::new, named);
            format!("{weekday} {date} {time} {:04}{zone}", printed_year(year))
        }
    };
    push_era(year, &mut text);
    text
}

/// The parts of an interval as they are printed.
struct Parts {
    years: i32,
    months: i32,
    days: i32,
    hours: i64,
    minutes: i32,
    seconds: i32,
    micros: i32,
}

impl Parts {
    fn of(interval: Interval) -> Parts {
        let micros = interval.micros;
        Parts {
            years: interval.months / 12,
            months: interval.months % 12,
            days: interval.days,
            hours: micros / 3_600_000_000,
            minutes: (micros / 60_000_000 % 60) as i32,
            seconds: (micros / 1_000_000 % 60) as i32,
            micros: (micros % 1_000_000) as i32,
        }
    }

    fn has_time(&self) -> bool {
        self.hours != 0 || self.minutes != 0 || self.seconds != 0 || self.micros != 0
    }

    fn is_time_negative(&self) -> bool {
        self.hours < 0 || self.minutes < 0 || self.seconds < 0 || self.micros < 0
    }

    /// `04:05:06.789`
    fn clock(&self, hour_digits: usize) -> String {
        let hours = self.hours.unsigned_abs();
        let mut text = format!("{hours:0hour_digits$}:{:02}:{:02}", self.minutes.abs(), self.seconds.abs());
        push_fraction(self.micros, &mut text);
        text
    }

    /// `6.789`
    fn seconds_text(&self) -> String {
        let mut text = self.seconds.abs().to_string();
        push_fraction(self.micros, &mut text);
        text
    }
}

/// An interval as text.
pub fn interval_text(interval: Interval, style: IntervalStyle) -> String {
    let parts = Parts::of(interval);
    match style {
        IntervalStyle::Postgres => postgres_interval(&parts),
        IntervalStyle::PostgresVerbose => verbose_interval(&parts),
        IntervalStyle::SqlStandard => standard_interval(&parts),
        IntervalStyle::Iso8601 => iso_interval(&parts),
    }
}

fn postgres_interval(parts: &Parts) -> String {
    let mut text = String::new();
    let mut was_negative = false;
    for (value, unit) in [(parts.years, "year"), (parts.months, "mon"), (parts.days, "day")] {
        if value == 0 {
            continue;
        }
        let space = if text.is_empty() { "" } else { " " };
        let sign = if was_negative && value > 0 { "+" } else { "" };
        let plural = if value == 1 { "" } else { "s" };
        let _ = write!(text, "{space}{sign}{value} {unit}{plural}");
        was_negative = value < 0;
    }
    if text.is_empty() || parts.has_time() {
        let space = if text.is_empty() { "" } else { " " };
        let sign = if parts.is_time_negative() {
            "-"
        } else if was_negative {
            "+"
        } else {
            ""
        };
        let _ = write!(text, "{space}{sign}{}", parts.clock(2));
    }
    text
}

fn verbose_interval(parts: &Parts) -> String {
    let mut text = "@".to_string();
    let mut is_first = true;
    let mut is_before = false;
    let mut push = |value: i64, unit: &str, shown: Option<String>| {
        if value == 0 && shown.is_none() {
            return;
        }
        if is_first {
            is_before = value < 0 || shown.as_ref().is_some_and(|shown| shown.starts_with('-'));
            is_first = false;
        }
        let turned = if is_before { -value } else { value };
        let is_seconds = shown.is_some();
        let number = match shown {
            Some(shown) => {
                let magnitude = shown.trim_start_matches('-');
                let is_minus = shown.starts_with('-') != is_before;
                format!("{}{magnitude}", if is_minus { "-" } else { "" })
            }
            None => turned.to_string(),
        };
        let is_one = number == "1" || is_seconds && number == "-1";
        let plural = if is_one { "" } else { "s" };
        let _ = write!(text, " {number} {unit}{plural}");
    };
    push(i64::from(parts.years), "year", None);
    push(i64::from(parts.months), "mon", None);
    push(i64::from(parts.days), "day", None);
    push(parts.hours, "hour", None);
    push(i64::from(parts.minutes), "min", None);
    if parts.seconds != 0 || parts.micros != 0 {
        let sign = if parts.seconds < 0 || parts.micros < 0 { "-" } else { "" };
        push(i64::from(parts.seconds), "sec", Some(format!("{sign}{}", parts.seconds_text())));
    }
    if is_first {
        text.push_str(" 0");
    }
    if is_before {
        text.push_str(" ago");
    }
    text
}

fn standard_interval(parts: &Parts) -> String {
    let has_months = parts.years != 0 || parts.months != 0;
    let has_day = parts.days != 0;
    let is_negative = parts.years < 0 || parts.months < 0 || parts.days < 0 || parts.is_time_negative();
    let is_positive = parts.years > 0
        || parts.months > 0
        || parts.days > 0
        || parts.hours > 0
        || parts.minutes > 0
        || parts.seconds > 0
        || parts.micros > 0;
    if !is_negative && !is_positive {
        return "0".to_string();
    }
    let is_mixed = is_negative && is_positive || has_months && (has_day || parts.has_time());
    let (years, months) = (parts.years.abs(), parts.months.abs());
    if is_mixed {
        let sign = |is_negative: bool| if is_negative { '-' } else { '+' };
        return format!(
            "{}{years}-{months} {}{} {}{}",
            sign(parts.years < 0 || parts.months < 0),
            sign(parts.days < 0),
            parts.days.unsigned_abs(),
            sign(parts.is_time_negative()),
            parts.clock(1)
        );
    }
    let sign = if is_negative { "-" } else { "" };
    if has_months {
        format!("{sign}{years}-{months}")
    } else if has_day {
        format!("{sign}{} {}", parts.days.unsigned_abs(), parts.clock(1))
    } else {
        format!("{sign}{}", parts.clock(1))
    }
}

fn iso_interval(parts: &Parts) -> String {
    let mut text = "P".to_string();
    for (value, unit) in [(parts.years, 'Y'), (parts.months, 'M'), (parts.days, 'D')] {
        if value != 0 {
            let _ = write!(text, "{value}{unit}");
        }
    }
    if parts.has_time() {
        text.push('T');
        if parts.hours != 0 {
            let _ = write!(text, "{}H", parts.hours);
        }
        if parts.minutes != 0 {
            let _ = write!(text, "{}M", parts.minutes);
        }
        if parts.seconds != 0 || parts.micros != 0 {
            let sign = if parts.seconds < 0 || parts.micros < 0 { "-" } else { "" };
            let _ = write!(text, "{sign}{}S", parts.seconds_text());
        }
    }
    if text.len() == 1 {
        text.push_str("T0S");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_print_in_four_styles() {
        let mixed = Interval::new(-14, 3, -14_706_789_000);
        assert_eq!(interval_text(mixed, IntervalStyle::Postgres), "-1 years -2 mons +3 days -04:05:06.789");
        assert_eq!(
            interval_text(mixed, IntervalStyle::PostgresVerbose),
            "@ 1 year 2 mons -3 days 4 hours 5 mins 6.789 secs ago"
        );
        assert_eq!(interval_text(mixed, IntervalStyle::SqlStandard), "-1-2 +3 -4:05:06.789");
        assert_eq!(interval_text(mixed, IntervalStyle::Iso8601), "P-1Y-2M3DT-4H-5M-6.789S");
        let zero = Interval::default();
        assert_eq!(interval_text(zero, IntervalStyle::Postgres), "00:00:00");
        assert_eq!(interval_text(zero, IntervalStyle::PostgresVerbose), "@ 0");
        assert_eq!(interval_text(zero, IntervalStyle::Iso8601), "PT0S");
    }

    #[test]
    fn dates_print_in_every_style() {
        let mut formats = FormatSettings::default();
        let day = days_from_civil(1997, 12, 17) as i32;
        let moment = i64::from(day) * crate::types::interval::DAY + 27_436_000_000;
        for (style, date, timestamp) in [
            (DateStyle::Iso, "1997-12-17", "1997-12-17 07:37:16"),
            (DateStyle::Sql, "12/17/1997", "12/17/1997 07:37:16"),
            (DateStyle::Postgres, "12-17-1997", "Wed Dec 17 07:37:16 1997"),
            (DateStyle::German, "17.12.1997", "17.12.1997 07:37:16"),
        ] {
            formats.date_style = style;
            assert_eq!(date_text(day, &formats), date);
            assert_eq!(timestamp_text(moment, &formats), timestamp);
        }
        formats.date_style = DateStyle::Iso;
        assert_eq!(date_text(days_from_civil(-43, 3, 15) as i32, &formats), "0044-03-15 BC");
        assert_eq!(timestamptz_text(moment, &formats).unwrap(), "1997-12-17 07:37:16+00");
    }
}
