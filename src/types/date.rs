//! A day of the calendar, as the number of days since 1970-01-01.
//!
//! What it keeps true: a date lies in the years 1 to 9999 of the proleptic Gregorian calendar, so that every date
//! has a text of four, two and two digits.

use std::fmt;
use std::str::FromStr;

use jiff::civil;
use jiff::fmt::temporal::Pieces;
use jiff::{Span, Unit};

use crate::error::{Error, Result};

/// A day of the calendar, from 0001-01-01 to 9999-12-31.
///
/// ```
/// use heddledb::Date;
/// let leap_day: Date = "2024-02-29".parse()?;
/// assert_eq!(leap_day.days(), 19782);
/// # Ok::<(), heddledb::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(i32);

const EPOCH: civil::Date = civil::date(1970, 1, 1);

impl Date {
    /// 0001-01-01.
    pub const MIN: Date = Date(-719_162);
    /// 9999-12-31.
    pub const MAX: Date = Date(2_932_896);

    /// The day this many days after 1970-01-01 (before it, if negative).
    pub fn from_days(days: i32) -> Result<Date> {
        if (Self::MIN.0..=Self::MAX.0).contains(&days) {
            return Ok(Date(days));
        }
        Err(out_of_range(&format!("day {days} since {EPOCH}")))
    }

    /// A day whose number came out of a date.
    pub(crate) const fn from_stored(days: i32) -> Date {
        Date(days)
    }

    /// Days since 1970-01-01.
    pub const fn days(self) -> i32 {
        self.0
    }
}

pub(super) fn out_of_range(found: &str) -> Error {
    Error::Overflow {
        what: "a date".to_owned(),
        detail: format!("{found} is not within the years 1 to 9999"),
    }
}

/// Refuses the years of the calendar library's range that have no four-digit text.
pub(super) fn check_year(date: civil::Date) -> Result<civil::Date> {
    if date.year() < 1 { Err(out_of_range(&date.to_string())) } else { Ok(date) }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let days = self.0.clamp(Self::MIN.0, Self::MAX.0);
        // A clamped number of days is in the library's range, and saturation is never reached.
        fmt::Display::fmt(&EPOCH.saturating_add(Span::new().days(days)), f)
    }
}

impl fmt::Debug for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Date {
    type Err = Error;

    fn from_str(text: &str) -> Result<Date> {
        let unparsable =
            || Error::Unparsable { text: text.to_owned(), expected: "date", example: "2024-02-29" };
        let pieces = Pieces::parse(text).map_err(|_| unparsable())?;
        if pieces.time().is_some() || pieces.offset().is_some() || pieces.time_zone_annotation().is_some() {
            return Err(unparsable());
        }
        let date = check_year(pieces.date())?;
        let since = EPOCH.until((Unit::Day, date)).map_err(|_| out_of_range(text))?;
        Date::from_days(since.get_days())
    }
}
