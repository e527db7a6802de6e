//! Dates and times: the calendar, time zones, text forms.
//!
//! ```text
//! mod       days and microseconds to fields and back      zone    offsets of time zones, names and abbreviations
//! parse     text to dates, times and intervals             print   dates, times and intervals to text
//! ```
//!
//! Invariants: the calendar is the proleptic Gregorian one; year 0 is 1 BC. Days and microseconds count from
//! 2000-01-01. Timestamps are between 4713-11-24 BC and the end of 294276, dates up to 5874897.

pub mod abbreviations;
pub mod parse;
pub mod parse_interval;
pub mod print;
pub mod zone;

use crate::error::{Result, SqlError, SqlState};
use crate::types::interval::DAY;

pub use zone::{local_to_utc, utc_to_local};

/// The Julian day of 2000-01-01.
pub const JULIAN_EPOCH: i32 = 2_451_545;
/// Days from 1970-01-01 to 2000-01-01.
pub const UNIX_EPOCH_DAYS: i32 = 10_957;
/// The day after the last date.
const DATE_END: i32 = 2_147_483_494 - JULIAN_EPOCH;
/// The first timestamp.
pub const TIMESTAMP_MIN: i64 = -211_813_488_000_000_000;
/// The microsecond after the last timestamp.
pub const TIMESTAMP_END: i64 = 9_223_371_331_200_000_000;
/// `infinity` as a timestamp.
pub const INFINITY: i64 = i64::MAX;
/// `-infinity` as a timestamp.
pub const NEGATIVE_INFINITY: i64 = i64::MIN;
/// `infinity` as a date.
pub const DATE_INFINITY: i32 = i32::MAX;
/// `-infinity` as a date.
pub const DATE_NEGATIVE_INFINITY: i32 = i32::MIN;

/// Year (0 is 1 BC), month and day, and the time of the day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Year; 0 is 1 BC.
    pub year: i32,
    /// 1 to 12.
    pub month: i32,
    /// 1 to 31.
    pub day: i32,
    /// 0 to 23.
    pub hour: i32,
    /// 0 to 59.
    pub minute: i32,
    /// 0 to 59.
    pub second: i32,
    /// Microseconds of the second.
    pub micros: i32,
}

/// `timestamp out of range` (22008).
pub fn timestamp_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "timestamp out of range")
}

/// `date out of range` (22008).
pub fn date_out_of_range() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range")
}

/// Returns true if a timestamp is an infinity.
pub fn is_infinite(micros: i64) -> bool {
    micros == INFINITY || micros == NEGATIVE_INFINITY
}

/// Returns true if a date is an infinity.
pub fn is_infinite_date(days: i32) -> bool {
    days == DATE_INFINITY || days == DATE_NEGATIVE_INFINITY
}

/// Days from 2000-01-01 to a day of the calendar; months beyond 1 to 12 carry into years.
pub fn days_from_civil(year: i32, month: i32, day: i32) -> i64 {
    let months = i64::from(year) * 12 + i64::from(month) - 1;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    // Years start in March here, so that leap days are last.
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468 - i64::from(UNIX_EPOCH_DAYS)
}

/// Year, month and day of a number of days since 2000-01-01.
pub fn civil_from_days(days: i64) -> (i32, i32, i32) {
    let shifted = days + i64::from(UNIX_EPOCH_DAYS) + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year as i32, month as i32, day as i32)
}

/// Returns true if a year (0 is 1 BC) has a February 29.
pub fn is_leap_year(year: i32) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Number of days of a month.
pub fn days_in_month(year: i32, month: i32) -> i32 {
    match month {
        2 if is_leap_year(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// A date of a day of the calendar; 22008 beyond what a date holds.
pub fn make_date(year: i32, month: i32, day: i32) -> Result<i32> {
    date_from_days(days_from_civil(year, month, day))
}

/// A date of a number of days; 22008 beyond what a date holds.
pub fn date_from_days(days: i64) -> Result<i32> {
    if days < i64::from(-JULIAN_EPOCH) || days >= i64::from(DATE_END) {
        return Err(date_out_of_range());
    }
    Ok(days as i32)
}

/// A timestamp, if it is within the bounds.
pub fn check_timestamp(micros: i64) -> Result<i64> {
    if (TIMESTAMP_MIN..TIMESTAMP_END).contains(&micros) { Ok(micros) } else { Err(timestamp_out_of_range()) }
}

/// The timestamp of fields; 22008 beyond the bounds.
pub fn make_timestamp(fields: &Fields) -> Result<i64> {
    let days = i128::from(days_from_civil(fields.year, fields.month, fields.day));
    let micros = days * i128::from(DAY) + i128::from(time_of_fields(fields));
    let micros = i64::try_from(micros).map_err(|_| timestamp_out_of_range())?;
    check_timestamp(micros)
}

/// Microseconds since midnight.
pub fn time_of_fields(fields: &Fields) -> i64 {
    let seconds = i64::from(fields.hour) * 3600 + i64::from(fields.minute) * 60 + i64::from(fields.second);
    seconds * 1_000_000 + i64::from(fields.micros)
}

/// The fields of a timestamp without zone.
pub fn fields_of_timestamp(micros: i64) -> Fields {
    let (days, time) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
    let (year, month, day) = civil_from_days(days);
    Fields { year, month, day, ..fields_of_time(time) }
}

/// Hour to microsecond of a time.
pub fn fields_of_time(time: i64) -> Fields {
    let seconds = time / 1_000_000;
    Fields {
        hour: (seconds / 3600) as i32,
        minute: (seconds / 60 % 60) as i32,
        second: (seconds % 60) as i32,
        micros: (time % 1_000_000) as i32,
        ..Fields::default()
    }
}

/// Midnight of a date as a timestamp; 22008 for dates that timestamps do not reach.
pub fn date_to_timestamp(days: i32) -> Result<i64> {
    match days {
        DATE_INFINITY => Ok(INFINITY),
        DATE_NEGATIVE_INFINITY => Ok(NEGATIVE_INFINITY),
        days => i64::from(days).checked_mul(DAY).and_then(|micros| check_timestamp(micros).ok()).ok_or_else(
            || SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range for timestamp"),
        ),
    }
}

/// Midnight of a date as a timestamp, for comparisons: later dates are above every timestamp and below infinity.
pub fn date_to_timestamp_clamped(days: i32) -> i64 {
    date_to_timestamp(days).unwrap_or(TIMESTAMP_END)
}

/// The order of a timestamp in a zone and an instant.
pub fn compare_timestamp_with_timestamptz(
    local: i64,
    instant: i64,
    zone: &jiff::tz::TimeZone,
) -> std::cmp::Ordering {
    if is_infinite(local) {
        return local.cmp(&instant);
    }
    local.saturating_sub(i64::from(zone::offset_of_local(local, zone)) * 1_000_000).cmp(&instant)
}

/// The day of the week, 0 for Sunday.
pub fn day_of_week(days: i64) -> i32 {
    (days + 6).rem_euclid(7) as i32
}

/// Week and year of ISO 8601 (the year in astronomical numbering).
pub fn iso_week(year: i32, month: i32, day: i32) -> (i32, i32) {
    let days = days_from_civil(year, month, day);
    // The week belongs to the year that its Thursday is in.
    let weekday = i64::from((day_of_week(days) + 6) % 7);
    let thursday = days - weekday + 3;
    let (iso_year, _, _) = civil_from_days(thursday);
    let first = days_from_civil(iso_year, 1, 1);
    (((thursday - first) / 7 + 1) as i32, iso_year)
}

/// The Monday of a week of ISO 8601.
pub fn iso_week_start(iso_year: i32, week: i32) -> i64 {
    let fourth = days_from_civil(iso_year, 1, 4);
    let monday = fourth - i64::from((day_of_week(fourth) + 6) % 7);
    monday + (i64::from(week) - 1) * 7
}

/// The timestamp moved by months, the day cut to the month's last.
pub fn add_months(micros: i64, months: i32) -> Result<i64> {
    let mut fields = fields_of_timestamp(micros);
    let total = i64::from(fields.year) * 12 + i64::from(fields.month) - 1 + i64::from(months);
    fields.year = i32::try_from(total.div_euclid(12)).map_err(|_| timestamp_out_of_range())?;
    fields.month = total.rem_euclid(12) as i32 + 1;
    fields.day = fields.day.min(days_in_month(fields.year, fields.month));
    make_timestamp(&fields)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_epoch_is_the_first_of_january_2000_a_saturday() {
        assert_eq!(days_from_civil(2000, 1, 1), 0);
        assert_eq!(civil_from_days(0), (2000, 1, 1));
        assert_eq!(day_of_week(0), 6);
        assert_eq!(days_from_civil(1970, 1, 1), -10_957);
        assert_eq!(days_from_civil(-4713, 11, 24), i64::from(-JULIAN_EPOCH));
    }

    #[test]
    fn weeks_of_iso_8601_belong_to_their_thursdays_year() {
        assert_eq!(iso_week(2005, 1, 1), (53, 2004));
        assert_eq!(iso_week(2012, 12, 31), (1, 2013));
        assert_eq!(civil_from_days(iso_week_start(2005, 1)), (2005, 1, 3));
    }

    #[test]
    fn bounds_are_refused() {
        assert!(make_date(5_874_898, 1, 1).is_err());
        assert!(make_date(5_874_897, 12, 31).is_ok());
        assert!(date_to_timestamp(DATE_END - 1).is_err());
        assert_eq!(check_timestamp(TIMESTAMP_END).unwrap_err().state().as_str(), "22008");
    }

    proptest! {
        #[test]
        fn days_lead_to_a_date_and_back(days in -2_451_545i64..2_000_000_000) {
            let (year, month, day) = civil_from_days(days);
            prop_assert!((1..=12).contains(&month) && day >= 1 && day <= days_in_month(year, month));
            prop_assert_eq!(days_from_civil(year, month, day), days);
        }

        #[test]
        fn timestamps_lead_to_fields_and_back(micros in TIMESTAMP_MIN..TIMESTAMP_END) {
            prop_assert_eq!(make_timestamp(&fields_of_timestamp(micros)).unwrap(), micros);
        }
    }
}
