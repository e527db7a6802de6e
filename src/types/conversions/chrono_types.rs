//! Conversions between [`Timestamp`], [`Date`] and the types of the crate `chrono`.

use chrono::{DateTime, NaiveDate, Utc};

use super::{AsValue, not_of_the_library, wrong_read};
use crate::error::{Error, Result};
use crate::types::{Date, Timestamp, Value, ValueRef};

/// The day 1970-01-01, counted as chrono counts: from the first day of the year 1, which is day 1.
const EPOCH_DAY: i32 = 719_163;

from_scalar! {
    DateTime<Utc>: value => ValueRef::Timestamp(Timestamp::from_stored(value.timestamp_micros()));
    NaiveDate: value => ValueRef::Date(Date::from_stored(chrono::Datelike::num_days_from_ce(&value) - EPOCH_DAY));
}

try_from_value! {
    DateTime<Utc>, "a timestamp", ValueRef::Timestamp(value) => date_time(value);
    NaiveDate, "a date", ValueRef::Date(value) => date(value);
}

fn date_time(value: Timestamp) -> Result<DateTime<Utc>> {
    DateTime::from_timestamp_micros(value.microseconds()).ok_or_else(|| not_of_the_library(&value))
}

fn date(value: Date) -> Result<NaiveDate> {
    NaiveDate::from_num_days_from_ce_opt(value.days() + EPOCH_DAY).ok_or_else(|| not_of_the_library(&value))
}

impl TryFrom<DateTime<Utc>> for Timestamp {
    type Error = Error;

    /// The microsecond of this time; its nanoseconds are left out.
    fn try_from(time: DateTime<Utc>) -> Result<Timestamp> {
        Timestamp::from_microseconds(time.timestamp_micros())
    }
}

impl TryFrom<NaiveDate> for Date {
    type Error = Error;

    fn try_from(date: NaiveDate) -> Result<Date> {
        Date::from_days(chrono::Datelike::num_days_from_ce(&date) - EPOCH_DAY)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row;

    #[test]
    fn times_and_dates_of_the_crate_chrono_go_in_and_come_out() {
        for text in ["1970-01-01T00:00:00Z", "1969-12-31T23:59:59.999999Z", "2024-02-29T10:00:00.25Z"] {
            let time: DateTime<Utc> = text.parse().unwrap();
            assert_eq!(row![time][0], ValueRef::Timestamp(text.parse().unwrap()));
            assert_eq!(DateTime::<Utc>::try_from(row![time][0]), Ok(time));
        }
        for text in ["0001-01-01", "1970-01-01", "2024-02-29", "9999-12-31"] {
            let date: NaiveDate = text.parse().unwrap();
            assert_eq!(row![date][0], ValueRef::Date(text.parse().unwrap()));
            assert_eq!(NaiveDate::try_from(row![Some(date)][0]), Ok(date));
        }
        assert!(Timestamp::try_from(DateTime::<Utc>::MIN_UTC).is_err());
        assert!(Date::try_from(NaiveDate::MAX).is_err());
    }
}
