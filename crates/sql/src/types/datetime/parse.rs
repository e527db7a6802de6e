//! Texts as dates and times, in all the forms that PostgreSQL reads.
//!
//! A text is split into fields (numbers, dates, times, zones, words), and each field fills in its part. Invariants: a
//! field that is named twice or makes no sense is 22007, a value beyond its field 22008.
//!
//! Source: PostgreSQL 15, `datetime.c`: `ParseDateTime`, `DecodeDateTime`, `DecodeTimeOnly`.

mod decoded;
mod names;
mod tokens;

use super::abbreviations::offset_in_zone;
use super::{DATE_INFINITY, DATE_NEGATIVE_INFINITY, INFINITY, NEGATIVE_INFINITY, make_date, time_of_fields};
use crate::error::{Result, SqlError, SqlState};
use crate::types::environment::{DateOrder, FormatSettings};
use crate::types::interval::DAY;

use decoded::{Decoded, Zone};
use names::Special;
use tokens::{Token, tokens};

/// A text was not understood.
enum Fault {
    Syntax,
    Field,
    Zone(String),
    Displacement,
}

type Decode<T> = std::result::Result<T, Fault>;

fn fail(fault: Fault, kind: &str, text: &str) -> SqlError {
    match fault {
        Fault::Syntax => {
            let message = format!("invalid input syntax for type {kind}: \"{text}\"");
            SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message)
        }
        Fault::Field => {
            let message = format!("date/time field value out of range: \"{text}\"");
            SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, message)
        }
        Fault::Zone(name) => {
            let message = format!("time zone \"{name}\" not recognized");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        }
        Fault::Displacement => {
            let message = format!("time zone displacement out of range: \"{text}\"");
            SqlError::new(SqlState::INVALID_TIME_ZONE_DISPLACEMENT_VALUE, message)
        }
    }
}

/// A text as a date.
pub fn parse_date(text: &str, now: i64, formats: &FormatSettings) -> Result<i32> {
    let kind = "date";
    let decoded = Decoded::read(text, formats.date_order).map_err(|fault| fail(fault, kind, text))?;
    let today = super::utc_to_local(now, &formats.time_zone)?.div_euclid(DAY);
    match decoded.special {
        Some(Special::Infinity) => return Ok(DATE_INFINITY),
        Some(Special::NegativeInfinity) => return Ok(DATE_NEGATIVE_INFINITY),
        Some(Special::Epoch) => return Ok(-super::UNIX_EPOCH_DAYS),
        Some(Special::Now | Special::Today) => return Ok(today as i32),
        Some(Special::Tomorrow) => return Ok(today as i32 + 1),
        Some(Special::Yesterday) => return Ok(today as i32 - 1),
        None => {}
    }
    let (year, month, day) = decoded.date().map_err(|fault| fail(fault, kind, text))?;
    make_date(year, month, day).map_err(|_| {
        SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("date out of range: \"{text}\""))
    })
}

/// A text as a timestamp, local or as an instant.
fn parse_moment(text: &str, kind: &str, is_instant: bool, now: i64, formats: &FormatSettings) -> Result<i64> {
    let decoded = Decoded::read(text, formats.date_order).map_err(|fault| fail(fault, kind, text))?;
    match decoded.special {
        Some(Special::Infinity) => return Ok(INFINITY),
        Some(Special::NegativeInfinity) => return Ok(NEGATIVE_INFINITY),
        Some(Special::Epoch) => return Ok(-i64::from(super::UNIX_EPOCH_DAYS) * DAY),
        Some(Special::Now) if is_instant => return Ok(now),
        Some(Special::Now) => return super::utc_to_local(now, &formats.time_zone),
        _ => {}
    }
    let out_of_range =
        |_| SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, format!("timestamp out of range: \"{text}\""));
    let local =
        decoded.moment(now, formats).map_err(out_of_range)?.map_err(|fault| fail(fault, kind, text))?;
    if !is_instant {
        return Ok(local);
    }
    match decoded.zone {
        None => super::local_to_utc(local, &formats.time_zone),
        Some(Zone::Named(zone)) => super::local_to_utc(local, &zone),
        Some(Zone::Abbreviated(zone, name)) => {
            let offset = offset_in_zone(local, &zone, &name);
            super::check_timestamp(local - i64::from(offset) * 1_000_000)
        }
        Some(Zone::Offset(offset)) => super::check_timestamp(local - i64::from(offset) * 1_000_000),
    }
    .map_err(out_of_range)
}

/// A text as a `timestamp`; a zone in it is ignored.
pub fn parse_timestamp(text: &str, now: i64, formats: &FormatSettings) -> Result<i64> {
    parse_moment(text, "timestamp", false, now, formats)
}

/// A text as a `timestamptz`.
pub fn parse_timestamptz(text: &str, now: i64, formats: &FormatSettings) -> Result<i64> {
    parse_moment(text, "timestamp with time zone", true, now, formats)
}

/// A text as a `time`; a date and an offset in it are ignored.
pub fn parse_time(text: &str, now: i64, formats: &FormatSettings) -> Result<i64> {
    Ok(parse_clock(text, "time", now, formats)?.0)
}

/// A text as a `timetz`: the time, and the zone in seconds west.
pub fn parse_timetz(text: &str, now: i64, formats: &FormatSettings) -> Result<(i64, i32)> {
    parse_clock(text, "time with time zone", now, formats)
}

fn parse_clock(text: &str, kind: &str, now: i64, formats: &FormatSettings) -> Result<(i64, i32)> {
    let decoded = read_clock(text, formats.date_order).map_err(|fault| fail(fault, kind, text))?;
    let offset_now = -super::zone::offset_at(now, &formats.time_zone);
    if decoded.special == Some(Special::Now) {
        return Ok((super::utc_to_local(now, &formats.time_zone)?.rem_euclid(DAY), offset_now));
    }
    let Some(time) = decoded.time else { return Err(fail(Fault::Syntax, kind, text)) };
    let has_date = decoded.year.is_some() || decoded.julian.is_some();
    let zone = match &decoded.zone {
        Some(Zone::Offset(offset)) => -offset,
        Some(Zone::Named(zone)) => match zone.to_fixed_offset() {
            Ok(offset) => -offset.seconds(),
            Err(_) if has_date => {
                let moment = decoded.moment(now, formats)?.map_err(|fault| fail(fault, kind, text))?;
                -super::zone::offset_of_local(moment, zone)
            }
            Err(_) => return Err(fail(Fault::Syntax, kind, text)),
        },
        Some(Zone::Abbreviated(zone, name)) => {
            let moment = match has_date {
                true => decoded.moment(now, formats)?.map_err(|fault| fail(fault, kind, text))?,
                false => super::utc_to_local(now, &formats.time_zone)?,
            };
            -offset_in_zone(moment, zone, name)
        }
        None => offset_now,
    };
    if has_date {
        decoded.date().map_err(|fault| fail(fault, kind, text))?;
    }
    Ok((time_of_fields(&time), zone))
}

/// Reads a text of a time, in which digits alone are a time: `123456`.
fn read_clock(text: &str, order: DateOrder) -> Decode<Decoded> {
    let trimmed = text.trim();
    let without_t = trimmed.strip_prefix(['T', 't']).unwrap_or(trimmed);
    let (digits, rest) = without_t
        .split_at(without_t.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(without_t.len()));
    let (whole, fraction) =
        digits.split_once('.').map_or((digits, None), |(whole, rest)| (whole, Some(rest)));
    // `040506-08` is a time and a zone.
    let is_offset =
        |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    let is_date = match rest.strip_prefix('-') {
        Some(offset) => !is_offset(offset),
        None => rest.starts_with([':', '/']),
    };
    if matches!(whole.len(), 4 | 6) && !is_date {
        let mut decoded = Decoded::default();
        decoded.take_digits_as_time(whole, fraction)?;
        if !rest.trim().is_empty() {
            for token in tokens(rest)? {
                match token {
                    Token::Zone(zone) => decoded.take_offset(&zone)?,
                    Token::Word(word) => decoded.take_word(&word)?,
                    _ => return Err(Fault::Syntax),
                }
            }
        }
        decoded.finish_time()?;
        return Ok(decoded);
    }
    if without_t.len() < trimmed.len() {
        return Decoded::read(without_t, order);
    }
    Decoded::read(trimmed, order)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::datetime::print::{date_text, timestamp_text};
    use proptest::prelude::*;

    fn date(text: &str) -> String {
        let formats = FormatSettings::default();
        match parse_date(text, 0, &formats) {
            Ok(days) => date_text(days, &formats),
            Err(error) => error.state().as_str().to_string(),
        }
    }

    #[test]
    fn dates_are_read_in_many_forms() {
        for (text, expected) in [
            ("1999-01-08", "1999-01-08"),
            ("January 8, 1999", "1999-01-08"),
            ("1/8/1999", "1999-01-08"),
            ("1999-Jan-08", "1999-01-08"),
            ("08-Jan-1999", "1999-01-08"),
            ("19990108", "1999-01-08"),
            ("990108", "1999-01-08"),
            ("1999.008", "1999-01-08"),
            ("J2451187", "1999-01-08"),
            ("January 8, 99 BC", "0099-01-08 BC"),
            ("08-Jan-99", "1999-01-08"),
            ("Jan-08-99", "1999-01-08"),
            ("1999-08-Jan", "22007"),
            ("99 Jan 08", "22007"),
            ("99-Jan-08", "22008"),
            ("1999 Jan 08", "1999-01-08"),
            ("infinity", "infinity"),
            ("epoch", "1970-01-01"),
            ("1/18/99", "1999-01-18"),
            ("2023-02-29", "22008"),
            ("13/13/2000", "22008"),
            ("nonsense", "22007"),
            ("", "22007"),
        ] {
            assert_eq!(date(text), expected, "{text}");
        }
    }

    #[test]
    fn the_order_of_dates_decides_what_a_number_is() {
        let read = |text: &str, date_order: DateOrder| {
            let formats = FormatSettings { date_order, ..FormatSettings::default() };
            match parse_date(text, 0, &formats) {
                Ok(days) => date_text(days, &FormatSettings::default()),
                Err(error) => error.state().as_str().to_string(),
            }
        };
        for (text, ymd, dmy) in [
            ("08-Jan-1999", "1999-01-08", "1999-01-08"),
            ("Jan-08-1999", "1999-01-08", "1999-01-08"),
            ("1999-Jan-08", "1999-01-08", "1999-01-08"),
            ("99-Jan-08", "1999-01-08", "22008"),
            ("08-Jan-99", "22008", "1999-01-08"),
            ("Jan-08-99", "22008", "1999-01-08"),
            ("08 Jan 1999", "1999-01-08", "1999-01-08"),
            ("99-01-08", "1999-01-08", "22008"),
            ("08-01-99", "22008", "1999-01-08"),
            ("1999-01-08", "1999-01-08", "1999-01-08"),
        ] {
            assert_eq!(read(text, DateOrder::Ymd), ymd, "YMD {text}");
            assert_eq!(read(text, DateOrder::Dmy), dmy, "DMY {text}");
        }
    }

    #[test]
    fn times_have_zones_fractions_and_halves_of_the_day() {
        let formats = FormatSettings::default();
        let read = |text: &str| match parse_timestamptz(text, 0, &formats) {
            Ok(micros) => timestamp_text(micros, &formats),
            Err(error) => error.state().as_str().to_string(),
        };
        for (text, expected) in [
            ("2024-02-29 12:34:56.789+02", "2024-02-29 10:34:56.789"),
            ("2024-02-29T12:34:56Z", "2024-02-29 12:34:56"),
            ("2024-02-29 04:05 PM America/New_York", "2024-02-29 21:05:00"),
            ("2024-01-01 00:00 PST8PDT", "2024-01-01 08:00:00"),
            ("2024-07-01 00:00 EST5EDT", "2024-07-01 04:00:00"),
            ("20240229T123456", "2024-02-29 12:34:56"),
            ("Thu Feb 29 12:34:56 2024 PST", "2024-02-29 20:34:56"),
            ("2024-02-29 24:00:00", "2024-03-01 00:00:00"),
            ("2024-02-29 25:00:00", "22008"),
            ("2024-02-29 12:00 Nowhere/Land", "22023"),
        ] {
            assert_eq!(read(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,30}") {
            let formats = FormatSettings::default();
            let _ = parse_timestamptz(&text, 0, &formats);
            let _ = parse_timetz(&text, 0, &formats);
        }

        #[test]
        fn date_like_texts_are_read_or_refused(text in "[-+0-9:./ TZajnfebPMBC]{0,24}") {
            let formats = FormatSettings::default();
            let _ = parse_date(&text, 0, &formats);
            let _ = parse_timestamp(&text, 0, &formats);
        }
    }
}
