//! A day of the calendar, as the number of days since 1970-01-01.
//!
//! Invariants: a date lies in the years 1 to 9999 of the proleptic Gregorian calendar, so that every date
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

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    use crate::types::strategies::date;

    fn parse(text: &str) -> Result<Date> {
        text.parse()
    }

    #[test]
    fn days_count_from_1970() {
        assert_eq!(parse("1970-01-01").unwrap().days(), 0);
        assert_eq!(parse("1969-12-31").unwrap().days(), -1);
        assert_eq!(parse("2000-03-01").unwrap().days(), 11_017);
        assert_eq!(parse("0001-01-01").unwrap(), Date::MIN);
        assert_eq!(parse("9999-12-31").unwrap(), Date::MAX);
        assert_eq!(Date::MIN.to_string(), "0001-01-01");
        assert_eq!(Date::MAX.to_string(), "9999-12-31");
    }

    #[test]
    fn leap_years_are_those_of_the_gregorian_calendar() {
        for leap_day in ["2024-02-29", "2000-02-29", "0004-02-29"] {
            assert_eq!(parse(leap_day).unwrap().to_string(), leap_day);
        }
        for no_day in ["2023-02-29", "1900-02-29", "2100-02-29", "2024-02-30", "2024-04-31"] {
            assert!(matches!(parse(no_day), Err(Error::Unparsable { .. })), "{no_day}");
        }
    }

    #[test]
    fn years_before_the_first_are_refused_with_the_range() {
        for text in ["0000-12-31", "-000001-01-01", "-009999-01-01"] {
            let error = parse(text).unwrap_err();
            assert!(matches!(error, Error::Overflow { .. }), "{text}: {error}");
            assert!(error.to_string().contains("years 1 to 9999"), "{error}");
        }
        assert!(Date::from_days(Date::MIN.days() - 1).is_err());
        assert!(Date::from_days(Date::MAX.days() + 1).is_err());
        assert!(Date::from_days(i32::MIN).is_err());
    }

    #[test]
    fn anything_but_a_date_is_refused() {
        for text in [
            "",
            " ",
            "today",
            "2024",
            "2024-1-1",
            "2024-02-29T12:00",
            "2024-02-29T12:00Z",
            "2024-02-29Z",
            "2024-02-29[UTC]",
            "29.2.2024",
            "2024-02-29 ",
            "10000-01-01",
        ] {
            assert!(matches!(parse(text), Err(Error::Unparsable { .. })), "{text:?}: {:?}", parse(text));
        }
    }

    #[test]
    fn a_number_of_days_that_is_no_date_still_prints() {
        assert_eq!(Date::from_stored(i32::MAX).to_string(), "9999-12-31");
        assert_eq!(Date::from_stored(i32::MIN).to_string(), "0001-01-01");
    }

    proptest! {
        #[test]
        fn the_text_of_a_date_is_that_date(date in date()) {
            prop_assert_eq!(parse(&date.to_string()).unwrap(), date);
            prop_assert_eq!(Date::from_days(date.days()).unwrap(), date);
        }

        #[test]
        fn any_text_is_a_date_or_an_error(text in "[-+0-9:T.Z ]{0,24}|.{0,12}") {
            if let Ok(date) = parse(&text) {
                prop_assert!((Date::MIN..=Date::MAX).contains(&date));
            }
        }
    }
}
