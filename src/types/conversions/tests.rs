//! Tests that a value of a Rust type is read back as it was written, and that a value that does not fit is
//! refused.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;

use super::*;
use crate::row;
use crate::types::{DataType, assignment};

fn stored(value: ValueRef<'_>, data_type: &str) -> Result<()> {
    assignment::check(value, &data_type.parse::<DataType>().unwrap(), true, "column \"n\"")
}

#[test]
fn integers_of_every_width_are_values() {
    let row = row![-1_i8, -1_i16, -1_i32, -1_i64, -1_isize];
    assert!(row.iter().all(|value| *value == ValueRef::Int(-1)));
    let row = row![1_u8, 1_u16, 1_u32, 1_u64, 1_usize, &1_u64, &&1_usize, Some(1_u64), Some(&1)];
    assert!(row.iter().all(|value| *value == ValueRef::Int(1)));
}

#[test]
fn an_integer_beyond_64_bits_with_a_sign_is_refused_by_integers_and_taken_by_decimals() {
    let beyond = row![u64::MAX, i64::MAX as u64 + 1];
    for value in beyond {
        let error = stored(value, "int64").unwrap_err();
        assert!(matches!(error, Error::Overflow { .. }), "{error}");
        assert!(error.to_string().contains("column \"n\""), "{error}");
        assert!(matches!(stored(value, "int32"), Err(Error::Overflow { .. })));
        assert_eq!(stored(value, "decimal(20,0)"), Ok(()));
        assert!(stored(value, "text").is_err());
    }
    assert_eq!(u64::try_from(beyond[0]), Ok(u64::MAX));
    assert!(i64::try_from(beyond[0]).is_err());
    assert_eq!(row![i64::MAX as u64][0], ValueRef::Int(i64::MAX));
}

#[test]
fn owned_texts_and_bytes_are_borrowed() {
    let (text, bytes) = (String::from("text"), vec![7_u8]);
    let (some, none) = (Some(text.clone()), None::<String>);
    let row = row![text, &text, some, none, bytes, &bytes[..], Some(&bytes), *"text"];
    assert_eq!(row[..3], [ValueRef::Text("text"); 3]);
    assert_eq!(row[7], ValueRef::Text("text"));
    assert!(row[3].is_null());
    assert_eq!(row[4..7], [ValueRef::Bytes(&[7]); 3]);
    assert_eq!((text, some), ("text".to_owned(), Some("text".to_owned())));
}

#[test]
fn reading_narrower_integers_is_checked() {
    assert_eq!(u8::try_from(ValueRef::Int(255)), Ok(255));
    let error = u8::try_from(ValueRef::Int(256)).unwrap_err();
    assert!(error.to_string().contains("256 is not within 0 and 255"), "{error}");
    assert!(usize::try_from(ValueRef::Int(-1)).is_err());
    assert_eq!(i32::try_from(ValueRef::Int(-1)), Ok(-1));
    assert_eq!(f32::try_from(ValueRef::Float(0.5)), Ok(0.5));
    assert!(f32::try_from(ValueRef::Float(0.1)).is_err());
    assert!(f32::try_from(ValueRef::Float(f64::NAN)).is_ok_and(f32::is_nan));
}

#[test]
fn null_is_none_and_nothing_else() {
    assert_eq!(Option::<i64>::try_from(ValueRef::Null), Ok(None));
    assert_eq!(Option::<String>::try_from(ValueRef::Text("a")), Ok(Some("a".to_owned())));
    let error = i64::try_from(ValueRef::Null).unwrap_err().to_string();
    assert!(error.contains("NULL") && error.contains("an integer"), "{error}");
    assert!(Option::<i64>::try_from(ValueRef::Text("a")).is_err());
}

#[test]
fn the_systems_times_go_in_and_come_out() {
    for offset in [0, 1, 1_700_000_000_000_000] {
        let (after, before) =
            (UNIX_EPOCH + Duration::from_micros(offset), UNIX_EPOCH - Duration::from_micros(offset));
        for time in [after, before] {
            assert_eq!(SystemTime::try_from(row![time][0]), Ok(time));
        }
    }
    // The microsecond before a time, on both sides of 1970.
    let just_before = UNIX_EPOCH - Duration::from_nanos(1);
    assert_eq!(Timestamp::try_from(just_before).unwrap().microseconds(), -1);
    let just_after = UNIX_EPOCH + Duration::from_nanos(1_999);
    assert_eq!(Timestamp::try_from(just_after).unwrap().microseconds(), 1);
    let now = SystemTime::try_from(Timestamp::now()).unwrap();
    assert!(now > UNIX_EPOCH + Duration::from_secs(1_700_000_000));
}

#[test]
fn times_and_days_beyond_the_calendar_are_refused_where_they_would_be_stored() {
    let time = UNIX_EPOCH + Duration::from_secs(400_000_000_000);
    assert!(matches!(stored(row![time][0], "timestamp"), Err(Error::Overflow { .. })));
    assert!(Timestamp::try_from(time).is_err());
    let (time, day) = (jiff::Timestamp::MIN, jiff::civil::Date::MIN);
    let error = stored(row![time][0], "timestamp").unwrap_err();
    assert!(error.to_string().contains("column \"n\""), "{error}");
    assert!(matches!(stored(row![day][0], "date"), Err(Error::Overflow { .. })));
    assert!(Timestamp::try_from(time).is_err() && Date::try_from(day).is_err());
}

#[test]
fn jiffs_times_and_days_go_in_and_come_out() {
    for text in ["0001-01-01", "1969-12-31", "1970-01-01", "2024-02-29", "9999-12-30"] {
        let day: jiff::civil::Date = text.parse().unwrap();
        assert_eq!(row![day][0], ValueRef::Date(text.parse().unwrap()), "{text}");
        assert_eq!(jiff::civil::Date::try_from(row![Some(day)][0]), Ok(day));
        let time: jiff::Timestamp = format!("{text}T12:00:00.000001Z").parse().unwrap();
        assert_eq!(jiff::Timestamp::try_from(row![time][0]), Ok(time));
        assert_eq!(Timestamp::try_from(time).and_then(jiff::Timestamp::try_from), Ok(time));
        assert_eq!(Date::try_from(day).and_then(jiff::civil::Date::try_from), Ok(day));
    }
}

proptest! {
    #[test]
    fn every_integer_comes_out_as_it_went_in(signed: i64, unsigned: u64) {
        prop_assert_eq!(i64::try_from(row![signed][0]), Ok(signed));
        prop_assert_eq!(u64::try_from(row![unsigned][0]), Ok(unsigned));
        prop_assert_eq!(Value::from(unsigned), row![unsigned][0]);
        prop_assert_eq!(i32::try_from(row![signed][0]).ok(), i32::try_from(signed).ok());
    }
}
