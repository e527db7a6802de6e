//! A microsecond in time, as the number of microseconds since 1970-01-01T00:00:00Z.
//!
//! What it keeps true: a timestamp lies in the years 1 to 9999 (short of the last day, which is not over in every
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
        // Clamped to the library's own range, the conversion never fails.
        let time = jiff::Timestamp::from_microsecond(microseconds).unwrap_or(jiff::Timestamp::MAX);
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
