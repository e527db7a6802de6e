//! A microsecond in time, as the number of microseconds since 1970-01-01T00:00:00Z.
//!
//! Invariants: a timestamp lies in the years 1 to 9999 (short of the last day, which is not over in every
//! time zone); its text is RFC 3339 in UTC.

use std::fmt;
use std::str::FromStr;

use jiff::civil::Time;
use jiff::fmt::temporal::Pieces;
use jiff::tz::Offset;

use crate::error::{Error, Result};
use crate::types::date::check_year;

/// A microsecond in time, from the year 1 to the year 9999.
///
/// A text without an offset from UTC is taken as UTC; digits beyond the microsecond are rounded.
///
/// ```
/// use heddledb::Timestamp;
/// let noon: Timestamp = "2024-02-29 12:00:00.25+02:00".parse()?;
/// assert_eq!(noon.to_string(), "2024-02-29T10:00:00.25Z");
/// # Ok::<(), heddledb::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// 0001-01-01T00:00:00Z.
    pub const MIN: Timestamp = Timestamp(-62_135_596_800_000_000);
    /// 9999-12-30T22:00:00.999999Z.
    pub const MAX: Timestamp = Timestamp(253_402_207_200_999_999);

    /// The time this many microseconds after 1970-01-01T00:00:00Z (before it, if negative).
    pub fn from_microseconds(microseconds: i64) -> Result<Timestamp> {
        if (Self::MIN.0..=Self::MAX.0).contains(&microseconds) {
            return Ok(Timestamp(microseconds));
        }
        Err(out_of_range(&format!("microsecond {microseconds} since 1970-01-01T00:00:00Z")))
    }

    /// The present time by the system's clock, in microseconds.
    ///
    /// ```
    /// use heddledb::Timestamp;
    /// assert!(Timestamp::now() > "2024-01-01T00:00:00Z".parse()?);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    pub fn now() -> Timestamp {
        let now = jiff::Timestamp::now().as_microsecond();
        Timestamp(now.clamp(Self::MIN.0, Self::MAX.0))
    }

    /// A time whose number came out of a timestamp.
    pub(crate) const fn from_stored(microseconds: i64) -> Timestamp {
        Timestamp(microseconds)
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub const fn microseconds(self) -> i64 {
        self.0
    }
}

fn out_of_range(found: &str) -> Error {
    Error::Overflow {
        what: "a timestamp".to_owned(),
        detail: format!("{found} is not within {} and {}", Timestamp::MIN, Timestamp::MAX),
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let microseconds = self.0.clamp(Self::MIN.0, Self::MAX.0);
        let (seconds, rest) = (microseconds.div_euclid(1_000_000), microseconds.rem_euclid(1_000_000));
        // Clamped to the library's own range, the conversion never fails. (Its conversion from microseconds would,
        // within the last second.)
        let time = jiff::Timestamp::new(seconds, rest as i32 * 1000).unwrap_or(jiff::Timestamp::MAX);
        fmt::Display::fmt(&time, f)
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = Error;

    fn from_str(text: &str) -> Result<Timestamp> {
        let unparsable = || Error::Unparsable {
            text: text.to_owned(),
            expected: "timestamp",
            example: "2024-02-29T12:00:00Z",
        };
        let pieces = Pieces::parse(text).map_err(|_| unparsable())?;
        if pieces.time_zone_annotation().is_some() {
            return Err(unparsable());
        }
        let date = check_year(pieces.date())?;
        let date_time = date.to_datetime(pieces.time().unwrap_or(Time::midnight()));
        let offset = pieces.to_numeric_offset().unwrap_or(Offset::UTC);
        let time = offset.to_timestamp(date_time).map_err(|_| out_of_range(text))?;
        let microseconds = (time.as_nanosecond() + 500).div_euclid(1000);
        i64::try_from(microseconds).map_err(|_| out_of_range(text)).and_then(Timestamp::from_microseconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    use crate::types::strategies::timestamp;

    fn parse(text: &str) -> Result<Timestamp> {
        text.parse()
    }

    fn microseconds(text: &str) -> i64 {
        parse(text).unwrap().microseconds()
    }

    #[test]
    fn microseconds_count_from_1970() {
        assert_eq!(microseconds("1970-01-01T00:00:00Z"), 0);
        assert_eq!(microseconds("1970-01-01T00:00:01.5Z"), 1_500_000);
        assert_eq!(microseconds("1969-12-31T23:59:59.999999Z"), -1);
        assert_eq!(microseconds("2024-02-29T12:00:00Z"), 1_709_208_000_000_000);
    }

    #[test]
    fn an_offset_counts_and_its_absence_is_utc() {
        let noon = microseconds("2024-02-29T12:00:00Z");
        for text in [
            "2024-02-29 12:00:00",
            "2024-02-29 12:00",
            "2024-02-29T14:00:00+02:00",
            "2024-02-29 14:00:00+02",
            "2024-02-29 06:30:00-05:30",
            "2024-03-01T00:00:00+12",
            "2024-02-29t12:00:00z",
        ] {
            assert_eq!(microseconds(text), noon, "{text}");
        }
        assert_eq!(microseconds("2024-02-29"), microseconds("2024-02-29T00:00:00Z"));
    }

    #[test]
    fn digits_beyond_the_microsecond_are_rounded() {
        assert_eq!(microseconds("1970-01-01T00:00:00.0000014Z"), 1);
        assert_eq!(microseconds("1970-01-01T00:00:00.0000015Z"), 2);
        assert_eq!(microseconds("1969-12-31T23:59:59.9999999Z"), 0);
    }

    #[test]
    fn the_bounds_are_those_that_print_and_parse() {
        assert_eq!(Timestamp::MIN.to_string(), "0001-01-01T00:00:00Z");
        assert_eq!(Timestamp::MAX.to_string(), "9999-12-30T22:00:00.999999Z");
        assert_eq!(parse("0001-01-01T00:00:00Z").unwrap(), Timestamp::MIN);
        assert_eq!(parse("9999-12-30T22:00:00.999999Z").unwrap(), Timestamp::MAX);
        assert!(Timestamp::from_microseconds(Timestamp::MIN.0 - 1).is_err());
        assert!(Timestamp::from_microseconds(Timestamp::MAX.0 + 1).is_err());
        assert_eq!(Timestamp::from_stored(i64::MAX).to_string(), Timestamp::MAX.to_string());
        assert_eq!(Timestamp::from_stored(i64::MIN).to_string(), Timestamp::MIN.to_string());
    }

    #[test]
    fn times_outside_the_bounds_are_refused_with_the_range() {
        for text in [
            "0000-06-01T00:00:00Z",
            "-000044-03-15T12:00:00Z",
            "0001-01-01T00:00:00+01:00",
            "9999-12-31T23:59:59Z",
            "9999-12-30T22:00:00-01:00",
        ] {
            let error = parse(text).unwrap_err();
            assert!(matches!(error, Error::Overflow { .. }), "{text}: {error}");
        }
    }

    #[test]
    fn anything_but_a_time_is_refused() {
        for text in [
            "",
            "now",
            "12:00:00",
            "2023-02-29T00:00:00Z",
            "2024-02-29T24:00:00Z",
            "2024-02-29T12:60:00Z",
            "2024-02-29T12:00:00+99",
            "2024-02-29T12:00:00+02:00[Europe/Berlin]",
            "2024-02-29T12:00:00Z ",
        ] {
            assert!(matches!(parse(text), Err(Error::Unparsable { .. })), "{text:?}: {:?}", parse(text));
        }
    }

    proptest! {
        #[test]
        fn the_text_of_a_time_is_that_time(time in timestamp()) {
            prop_assert_eq!(parse(&time.to_string()).unwrap(), time);
            prop_assert_eq!(Timestamp::from_microseconds(time.microseconds()).unwrap(), time);
        }

        #[test]
        fn any_text_is_a_time_or_an_error(text in "[-+0-9:T.Z ]{0,30}|.{0,12}") {
            if let Ok(time) = parse(&text) {
                prop_assert!((Timestamp::MIN..=Timestamp::MAX).contains(&time));
            }
        }
    }
}
