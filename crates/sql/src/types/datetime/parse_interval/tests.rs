//! Intervals as texts.

use super::*;
use crate::types::datetime::print::interval_text;
use crate::types::interval;
use proptest::prelude::*;

fn read(text: &str) -> String {
    match parse_interval(text, Modifier::NONE, IntervalStyle::Postgres) {
        Ok(interval) => interval_text(interval, IntervalStyle::Postgres),
        Err(error) => error.state().as_str().to_string(),
    }
}

#[test]
fn intervals_are_read_in_many_forms() {
    for (text, expected) in [
        ("1 year 2 months 3 days 04:05:06.789", "1 year 2 mons 3 days 04:05:06.789"),
        ("1-2 3 4:05:06", "1 year 2 mons 3 days 04:05:06"),
        ("@ 1 day ago", "-1 days"),
        ("1.5 days", "1 day 12:00:00"),
        ("1.5 months", "1 mon 15 days"),
        ("P1Y2M3DT4H5M6S", "1 year 2 mons 3 days 04:05:06"),
        ("P0001-02-03T04:05:06", "1 year 2 mons 3 days 04:05:06"),
        ("P00021015T103020", "2 years 10 mons 15 days 10:30:20"),
        ("PT10", "10:00:00"),
        ("P-2", "-2 years"),
        ("4 millenniums 2 milliseconds", "4000 years 00:00:00.002"),
        ("-9223372036854775808 microseconds", "-2562047788:00:54.775808"),
        ("5.5 seconds 3 milliseconds", "22007"),
        ("1:20:05 5 microseconds", "22007"),
        ("90", "00:01:30"),
        ("2h30m", "02:30:00"),
        ("-00:00:01", "-00:00:01"),
        ("1 day 1 day", "22007"),
        ("1 fortnight", "22007"),
        ("", "22007"),
        ("999999999999 years", "22015"),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn a_modifier_names_the_unit() {
    let years = parse_interval("5", interval::modifier(field::YEAR, None), IntervalStyle::Postgres).unwrap();
    assert_eq!(years.months, 60);
    let cut = parse_interval(
        "1 day 02:03:04",
        interval::modifier(field::DAY | field::HOUR, None),
        IntervalStyle::Postgres,
    )
    .unwrap();
    assert_eq!(cut.micros, 2 * HOUR);
}

proptest! {
    #[test]
    fn printed_text_parses_back(months in -9999i32..9999, days in -99_999i32..99_999, micros in -1i64 << 50..1 << 50) {
        let interval = Interval::new(months, days, micros);
        for style in [IntervalStyle::Postgres, IntervalStyle::PostgresVerbose, IntervalStyle::Iso8601] {
            let text = interval_text(interval, style);
            let back = parse_interval(&text, Modifier::NONE, IntervalStyle::Postgres).unwrap();
            prop_assert_eq!((back.months, back.days, back.micros), (months, days, micros), "{}", text);
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,24}") {
        let _ = parse_interval(&text, Modifier::NONE, IntervalStyle::Postgres);
    }
}

#[test]
fn a_leading_sign_is_that_of_each_field_in_the_style_of_the_standard() {
    let read = |text: &str| {
        let interval = parse_interval(text, Modifier::NONE, IntervalStyle::SqlStandard);
        interval_text(interval.unwrap_or_default(), IntervalStyle::SqlStandard)
    };
    for (text, expected) in [
        ("-23 hours 45 min 12.34 sec", "-23:45:12.34"),
        ("-1 day 23 hours 45 min 12.34 sec", "-1 23:45:12.34"),
        ("-1 year 2 months 1 day 23 hours 45 min 12.34 sec", "-1-2 -1 -23:45:12.34"),
        ("-1 year 2 months 1 day 23 hours 45 min +12.34 sec", "-0-10 +1 +23:45:12.34"),
        ("-1 1:00:00", "-1 1:00:00"),
    ] {
        assert_eq!(read(text), expected, "{text}");
    }
}

#[test]
fn the_least_interval_is_printed_in_each_style() {
    let least = Interval::new(i32::MIN, i32::MIN, i64::MIN);
    for (style, expected) in [
        (IntervalStyle::Postgres, "-178956970 years -8 mons -2147483648 days -2562047788:00:54.775808"),
        (
            IntervalStyle::PostgresVerbose,
            "@ 178956970 years 8 mons 2147483648 days 2562047788 hours 54.775808 secs ago",
        ),
        (IntervalStyle::SqlStandard, "-178956970-8 -2147483648 -2562047788:00:54.775808"),
        (IntervalStyle::Iso8601, "P-178956970Y-8M-2147483648DT-2562047788H-54.775808S"),
    ] {
        assert_eq!(interval_text(least, style), expected);
    }
}
