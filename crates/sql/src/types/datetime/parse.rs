//! Texts as dates and times, in all the forms that PostgreSQL reads.
//!
//! A text is split into fields (numbers, dates, times, zones, words), and each field fills in what it says. Invariants:
//! a field that is named twice or makes no sense is 22007, a value beyond its field 22008.
//!
//! Source: PostgreSQL 15, `datetime.c`: `ParseDateTime`, `DecodeDateTime`, `DecodeTimeOnly`.

use jiff::tz::TimeZone;

use super::zone::{abbreviation_offset, offset_from_text, zone_by_name};
use super::{
    DATE_INFINITY, DATE_NEGATIVE_INFINITY, Fields, INFINITY, JULIAN_EPOCH, NEGATIVE_INFINITY,
    civil_from_days, days_in_month, make_date, make_timestamp, time_of_fields,
};
use crate::error::{Result, SqlError, SqlState};
use crate::types::environment::{DateOrder, FormatSettings};
use crate::types::interval::DAY;

/// What a text says.
#[derive(Debug, Default)]
struct Decoded {
    year: Option<i32>,
    month: Option<i32>,
    day: Option<i32>,
    day_of_year: Option<i32>,
    julian: Option<i32>,
    /// Whether the year was written with at most two digits.
    is_short_year: bool,
    time: Option<Fields>,
    zone: Option<Zone>,
    special: Option<Special>,
    is_bc: Option<bool>,
    is_afternoon: Option<bool>,
    /// A month's name was read, so that numbers are days and years.
    has_month_name: bool,
}

#[derive(Clone, Debug)]
enum Zone {
    /// Seconds east of Greenwich.
    Offset(i32),
    Named(TimeZone),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    Infinity,
    NegativeInfinity,
    Epoch,
    Now,
    Today,
    Tomorrow,
    Yesterday,
}

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

/// A piece of the text.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// Digits, with a fraction perhaps.
    Number(String),
    /// Digits or a month's name, separated by `-`, `/` or `.`.
    Date(String),
    /// Digits with colons.
    Time(String),
    /// A sign and digits.
    Zone(String),
    /// Letters, in lower case.
    Word(String),
}

/// The end of the bytes from a place on that are allowed.
fn run(bytes: &[u8], from: usize, allowed: impl Fn(u8) -> bool) -> usize {
    bytes[from..].iter().position(|&byte| !allowed(byte)).map_or(bytes.len(), |length| from + length)
}

fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit()
}

fn tokens(text: &str) -> Decode<Vec<Token>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let (token, end) = match bytes[at] {
            byte if byte.is_ascii_whitespace() || byte == b',' => (None, at + 1),
            byte if byte.is_ascii_digit() || byte == b'.' => {
                numeric_token(text, at).map(|(it, end)| (Some(it), end))?
            }
            byte if byte.is_ascii_alphabetic() => {
                let (token, end) = word_token(text, at);
                (Some(token), end)
            }
            b'+' | b'-' => signed_token(text, at).map(|(it, end)| (Some(it), end))?,
            byte if byte.is_ascii_punctuation() => (None, at + 1),
            _ => return Err(Fault::Syntax),
        };
        found.extend(token);
        at = end;
    }
    if found.is_empty() { Err(Fault::Syntax) } else { Ok(found) }
}

/// A number, a time, or a date that starts with digits.
fn numeric_token(text: &str, start: usize) -> Decode<(Token, usize)> {
    let bytes = text.as_bytes();
    let at = run(bytes, start, is_digit);
    let piece = |end: usize| text[start..end].to_string();
    match bytes.get(at).copied() {
        Some(b':') => {
            let end = run(bytes, at, |byte| is_digit(byte) || byte == b':' || byte == b'.');
            Ok((Token::Time(piece(end)), end))
        }
        Some(separator @ (b'-' | b'/' | b'.')) if bytes[start] != b'.' => {
            date_token(text, start, at, separator)
        }
        _ => {
            let end = if bytes[start] == b'.' { run(bytes, start + 1, is_digit) } else { at };
            Ok((Token::Number(piece(end)), end))
        }
    }
}

/// Digits and a separator: a date, or a number with a fraction.
fn date_token(text: &str, start: usize, at: usize, separator: u8) -> Decode<(Token, usize)> {
    let bytes = text.as_bytes();
    let piece = |end: usize| text[start..end].to_string();
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == separator;
    let followed = bytes.get(at + 1).copied().unwrap_or(b' ');
    if followed.is_ascii_digit() {
        let end = run(bytes, at + 1, is_digit);
        if bytes.get(end) == Some(&separator) {
            let end = run(bytes, at, is_part);
            // The letter T starts the time: it belongs to no date.
            let end = text[start..end].find(['T', 't']).map_or(end, |cut| start + cut);
            Ok((Token::Date(piece(end)), end))
        } else if separator == b'.' {
            Ok((Token::Number(piece(end)), end))
        } else {
            Ok((Token::Date(piece(end)), end))
        }
    } else if followed.is_ascii_alphabetic() && separator != b'.' {
        let end = run(bytes, at, is_part);
        Ok((Token::Date(piece(end)), end))
    } else if separator == b'.' {
        Ok((Token::Number(piece(at + 1)), at + 1))
    } else {
        Err(Fault::Syntax)
    }
}

/// A word, the name of a zone, or a date that starts with a month's name.
fn word_token(text: &str, start: usize) -> (Token, usize) {
    let bytes = text.as_bytes();
    let mut end = run(bytes, start, |byte| byte.is_ascii_alphabetic());
    let is_zone_name = matches!(bytes.get(end), Some(b'/' | b'_'))
        || matches!(bytes.get(end), Some(b'+' | b'-')) && end - start >= 3;
    if is_zone_name {
        end = run(bytes, end, |byte| byte.is_ascii_alphanumeric() || b"/_+-:".contains(&byte));
        let piece = &text[start..end];
        let first = piece.split('-').next().unwrap_or("").to_ascii_lowercase();
        if piece.contains('-')
            && piece.ends_with(|c: char| c.is_ascii_digit())
            && month_by_name(&first).is_some()
        {
            return (Token::Date(piece.to_string()), end);
        }
    }
    (Token::Word(text[start..end].to_ascii_lowercase()), end)
}

/// A sign with the digits of a zone, or with a word such as `infinity`.
fn signed_token(text: &str, start: usize) -> Decode<(Token, usize)> {
    let bytes = text.as_bytes();
    let sign = char::from(bytes[start]);
    let at = run(bytes, start + 1, |byte| byte.is_ascii_whitespace());
    match bytes.get(at) {
        Some(next) if next.is_ascii_digit() => {
            let end = run(bytes, at, |byte| is_digit(byte) || matches!(byte, b':' | b'.' | b'-'));
            Ok((Token::Zone(format!("{sign}{}", &text[at..end])), end))
        }
        Some(next) if next.is_ascii_alphabetic() => {
            let end = run(bytes, at, |byte| byte.is_ascii_alphabetic());
            Ok((Token::Word(format!("{sign}{}", text[at..end].to_ascii_lowercase())), end))
        }
        _ => Err(Fault::Syntax),
    }
}

const MONTH_NAMES: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];
const DAY_NAMES: [&str; 7] = ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];

/// The month with this name, or its first three letters.
pub(super) fn month_by_name(word: &str) -> Option<i32> {
    let suits = |name: &&str| *name == word || &name[..3] == word || *name == "september" && word == "sept";
    MONTH_NAMES.iter().position(suits).map(|at| at as i32 + 1)
}

fn is_day_name(word: &str) -> bool {
    let others = ["tues", "wednes", "weds", "wed", "thurs", "thur"];
    others.contains(&word) || DAY_NAMES.iter().any(|name| *name == word || &name[..3] == word)
}

fn special(word: &str) -> Option<Special> {
    Some(match word {
        "infinity" | "+infinity" => Special::Infinity,
        "-infinity" => Special::NegativeInfinity,
        "epoch" => Special::Epoch,
        "now" => Special::Now,
        "today" => Special::Today,
        "tomorrow" => Special::Tomorrow,
        "yesterday" => Special::Yesterday,
        _ => return None,
    })
}

impl Decoded {
    fn read(text: &str, order: DateOrder) -> Decode<Decoded> {
        let mut decoded = Decoded::default();
        let tokens = tokens(text)?;
        let mut at = 0;
        while at < tokens.len() {
            let is_last = at + 1 == tokens.len();
            match &tokens[at] {
                Token::Date(date) => decoded.take_date(date, order)?,
                Token::Time(time) => decoded.take_time(time)?,
                Token::Zone(zone) => decoded.take_offset(zone)?,
                Token::Number(number) => decoded.take_number(number, order)?,
                Token::Word(word) if word == "t" && !is_last => decoded.expect_time(&tokens[at + 1])?,
                Token::Word(word) if word == "j" && !is_last => {
                    let Token::Number(days) = &tokens[at + 1] else { return Err(Fault::Syntax) };
                    decoded.julian = Some(days.parse().map_err(|_| Fault::Syntax)?);
                    at += 1;
                }
                Token::Word(word) => decoded.take_word(word)?,
            }
            at += 1;
        }
        decoded.finish_time()?;
        Ok(decoded)
    }

    /// Behind a `T` there must be a time.
    fn expect_time(&self, next: &Token) -> Decode<()> {
        let has_date = self.year.is_some() || self.julian.is_some();
        if has_date && matches!(next, Token::Time(_) | Token::Number(_)) {
            Ok(())
        } else {
            Err(Fault::Syntax)
        }
    }

    fn take_word(&mut self, word: &str) -> Decode<()> {
        if let Some(month) = month_by_name(word) {
            self.has_month_name = true;
            // A number read as the month before was the day.
            if let (Some(other), None) = (self.month, self.day) {
                self.day = Some(other);
                self.month = None;
            }
            return put(&mut self.month, month);
        }
        if let Some(special) = special(word) {
            return put(&mut self.special, special);
        }
        if is_day_name(word) {
            return Ok(());
        }
        match word {
            "am" => put(&mut self.is_afternoon, false),
            "pm" => put(&mut self.is_afternoon, true),
            "bc" => put(&mut self.is_bc, true),
            "ad" => put(&mut self.is_bc, false),
            "at" | "on" | "d" | "of" => Ok(()),
            "allballs" => {
                put(&mut self.time, Fields::default())?;
                put(&mut self.zone, Zone::Offset(0))
            }
            "dst" => Ok(()),
            word => match abbreviation_offset(word) {
                Some(offset) => put(&mut self.zone, Zone::Offset(offset)),
                None if word.len() > 2
                    && (word.contains('/') || self.time.is_some() || self.year.is_some()) =>
                {
                    match zone_by_name(word) {
                        Ok(zone) => put(&mut self.zone, Zone::Named(zone)),
                        Err(_) if word.contains('/') => Err(Fault::Zone(word.to_string())),
                        Err(_) => Err(Fault::Syntax),
                    }
                }
                None => Err(Fault::Syntax),
            },
        }
    }

    fn take_offset(&mut self, text: &str) -> Decode<()> {
        if self.time.is_none() && self.year.is_none() {
            return Err(Fault::Syntax);
        }
        match offset_from_text(text) {
            Some(offset) => put(&mut self.zone, Zone::Offset(offset)),
            None if text[1..].bytes().all(|byte| byte.is_ascii_digit() || byte == b':') => {
                Err(Fault::Displacement)
            }
            None => Err(Fault::Syntax),
        }
    }

    fn take_time(&mut self, text: &str) -> Decode<()> {
        let (clock, fraction) =
            text.split_once('.').map_or((text, None), |(clock, rest)| (clock, Some(rest)));
        let parts: Vec<&str> = clock.split(':').collect();
        let number = |part: &str| part.parse::<i32>().map_err(|_| Fault::Syntax);
        let mut fields = Fields { hour: number(parts[0])?, minute: number(parts[1])?, ..Fields::default() };
        match parts.len() {
            2 if fraction.is_some() => {
                // 12:34.5 are minutes and seconds.
                fields = Fields { minute: fields.hour, second: fields.minute, ..Fields::default() };
            }
            2 => {}
            3 => fields.second = number(parts[2])?,
            _ => return Err(Fault::Syntax),
        }
        let micros = fraction_micros(fraction.unwrap_or(""))?;
        put(&mut self.time, checked_time(fields, micros)?)
    }

    /// Settles AM and PM.
    fn finish_time(&mut self) -> Decode<()> {
        let Some(is_afternoon) = self.is_afternoon else { return Ok(()) };
        let Some(time) = &mut self.time else { return Err(Fault::Syntax) };
        if time.hour > 12 {
            return Err(Fault::Field);
        }
        match (is_afternoon, time.hour) {
            (false, 12) => time.hour = 0,
            (true, hour) if hour < 12 => time.hour += 12,
            _ => {}
        }
        Ok(())
    }

    fn take_number(&mut self, text: &str, order: DateOrder) -> Decode<()> {
        let has_date = self.year.is_some() && (self.month.is_some() || self.day_of_year.is_some());
        let (whole, fraction) =
            text.split_once('.').map_or((text, None), |(whole, rest)| (whole, Some(rest)));
        let is_plain = fraction.is_none();
        match (whole.len(), has_date && self.day.is_some() || self.julian.is_some()) {
            (8, false) if is_plain && self.year.is_none() && self.month.is_none() => {
                return self.take_date_parts(&whole[..4], &whole[4..6], &whole[6..], true);
            }
            (6, false) if is_plain && self.year.is_none() && self.month.is_none() => {
                return self.take_date_parts(&whole[..2], &whole[2..4], &whole[4..], true);
            }
            (2 | 4 | 6, true) if self.time.is_none() => return self.take_digits_as_time(whole, fraction),
            (4.., false)
                if !is_plain && self.year.is_none() && fraction.is_some_and(|rest| rest.len() == 3) =>
            {
                self.year = Some(parse(whole)?);
                self.day_of_year = Some(parse(fraction.unwrap_or(""))?);
                return Ok(());
            }
            (_, true) if !is_plain && self.julian.is_some() => return Ok(()),
            _ => {}
        }
        if !is_plain {
            return Err(Fault::Syntax);
        }
        self.take_single_number(whole, order)
    }

    /// A number on its own: day, month or year, by what is known and by the order of the session.
    fn take_single_number(&mut self, digits: &str, order: DateOrder) -> Decode<()> {
        let value: i32 = parse(digits)?;
        if digits.len() == 3 && self.year.is_some() && self.month.is_none() && (1..=366).contains(&value) {
            return put(&mut self.day_of_year, value);
        }
        let is_year = digits.len() > 2;
        match (self.year, self.month, self.day) {
            (None, _, _) if is_year => {}
            (None, Some(_), Some(_)) => {}
            (None, Some(_), None) if self.has_month_name => return put(&mut self.day, value),
            (None, Some(_), None) => return put(&mut self.day, value),
            (None, None, Some(_)) => return put(&mut self.month, value),
            (None, None, None) => match order {
                DateOrder::Mdy => return put(&mut self.month, value),
                DateOrder::Dmy => return put(&mut self.day, value),
                DateOrder::Ymd => {}
            },
            (Some(_), None, _) => return put(&mut self.month, value),
            (Some(_), Some(_), None) => return put(&mut self.day, value),
            (Some(_), Some(_), Some(_)) => return Err(Fault::Syntax),
        }
        self.is_short_year = digits.len() <= 2;
        put(&mut self.year, value)
    }

    fn take_digits_as_time(&mut self, digits: &str, fraction: Option<&str>) -> Decode<()> {
        let part = |from: usize| digits.get(from..from + 2).map_or(Ok(0), parse);
        let fields = Fields { hour: part(0)?, minute: part(2)?, second: part(4)?, ..Fields::default() };
        let micros = fraction_micros(fraction.unwrap_or(""))?;
        put(&mut self.time, checked_time(fields, micros)?)
    }

    fn take_date_parts(&mut self, year: &str, month: &str, day: &str, is_ymd: bool) -> Decode<()> {
        debug_assert!(is_ymd);
        self.is_short_year = year.len() <= 2;
        put(&mut self.year, parse(year)?)?;
        put(&mut self.month, parse(month)?)?;
        put(&mut self.day, parse(day)?)
    }

    /// A date with separators.
    fn take_date(&mut self, text: &str, order: DateOrder) -> Decode<()> {
        let parts: Vec<&str> = text.split(['-', '/', '.']).filter(|part| !part.is_empty()).collect();
        if parts.len() < 2 || parts.len() > 3 {
            return Err(Fault::Syntax);
        }
        let named = parts.iter().position(|part| part.starts_with(|c: char| c.is_ascii_alphabetic()));
        if let Some(at) = named {
            let month = month_by_name(&parts[at].to_ascii_lowercase()).ok_or(Fault::Syntax)?;
            self.has_month_name = true;
            put(&mut self.month, month)?;
            for (index, part) in parts.iter().enumerate().filter(|(index, _)| *index != at) {
                let is_year = part.len() > 2 || self.day.is_some() || order == DateOrder::Ymd && index == 0;
                if is_year && self.year.is_none() {
                    self.is_short_year = part.len() <= 2;
                    self.year = Some(parse(part)?);
                } else {
                    put(&mut self.day, parse(part)?)?;
                }
            }
            return Ok(());
        }
        if parts.len() == 2 && parts[0].len() > 2 && parts[1].len() == 3 {
            put(&mut self.year, parse(parts[0])?)?;
            return put(&mut self.day_of_year, parse(parts[1])?);
        }
        let [first, second, third] = parts[..] else { return Err(Fault::Field) };
        if first.len() > 2 || order == DateOrder::Ymd {
            self.take_date_parts(first, second, third, true)
        } else if order == DateOrder::Dmy {
            self.take_date_parts(third, second, first, true)
        } else {
            self.take_date_parts(third, first, second, true)
        }
    }

    /// Year (0 is 1 BC), month and day, checked.
    fn date(&self) -> Decode<(i32, i32, i32)> {
        if let Some(julian) = self.julian {
            return Ok(civil_from_days(i64::from(julian) - i64::from(JULIAN_EPOCH)));
        }
        let mut year = self.year.ok_or(Fault::Syntax)?;
        match self.is_bc {
            Some(true) if year > 0 => year = 1 - year,
            Some(true) => return Err(Fault::Field),
            _ if self.is_short_year && year < 70 => year += 2000,
            _ if self.is_short_year && year < 100 => year += 1900,
            _ if year <= 0 => return Err(Fault::Field),
            _ => {}
        }
        if let Some(day) = self.day_of_year {
            if !(1..=366).contains(&day) {
                return Err(Fault::Field);
            }
            return Ok(civil_from_days(super::days_from_civil(year, 1, 1) + i64::from(day) - 1));
        }
        let (month, day) = (self.month.ok_or(Fault::Syntax)?, self.day.ok_or(Fault::Syntax)?);
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) || day > days_in_month(year, month) {
            return Err(Fault::Field);
        }
        Ok((year, month, day))
    }

    /// The date and the time as a local timestamp, with the offset if there is one.
    fn moment(&self, now: i64, formats: &FormatSettings) -> Result<Decode<i64>> {
        let today = super::utc_to_local(now, &formats.time_zone)?.div_euclid(DAY);
        let date = match self.special {
            Some(Special::Today) => civil_from_days(today),
            Some(Special::Tomorrow) => civil_from_days(today + 1),
            Some(Special::Yesterday) => civil_from_days(today - 1),
            _ => match self.date() {
                Ok(date) => date,
                Err(fault) => return Ok(Err(fault)),
            },
        };
        let time = self.time.unwrap_or_default();
        let fields = Fields { year: date.0, month: date.1, day: date.2, ..time };
        Ok(Ok(make_timestamp(&fields)?))
    }
}

fn put<T>(slot: &mut Option<T>, value: T) -> Decode<()> {
    if slot.is_some() {
        return Err(Fault::Syntax);
    }
    *slot = Some(value);
    Ok(())
}

fn parse(digits: &str) -> Decode<i32> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Fault::Syntax);
    }
    digits.parse().map_err(|_| Fault::Field)
}

/// The digits behind the point of a second, rounded to microseconds.
fn fraction_micros(digits: &str) -> Decode<i32> {
    if digits.is_empty() {
        return Ok(0);
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Fault::Syntax);
    }
    let value: f64 = format!("0.{digits}").parse().map_err(|_| Fault::Syntax)?;
    Ok((value * 1_000_000.0).round_ties_even() as i32)
}

fn checked_time(mut fields: Fields, micros: i32) -> Decode<Fields> {
    fields.micros = micros;
    let is_midnight = fields.hour == 24 && fields.minute == 0 && fields.second == 0 && micros == 0;
    let is_good = (0..24).contains(&fields.hour)
        && (0..60).contains(&fields.minute)
        && (0..=60).contains(&fields.second);
    // Second 60 is allowed without a fraction, and means the next minute.
    if !(is_midnight || is_good && (fields.second < 60 || micros == 0)) {
        return Err(Fault::Field);
    }
    Ok(fields)
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
        None => offset_now,
    };
    if has_date {
        decoded.date().map_err(|fault| fail(fault, kind, text))?;
    }
    Ok((time_of_fields(&time), zone))
}

/// For times, digits alone are a time: `123456`.
fn read_clock(text: &str, order: DateOrder) -> Decode<Decoded> {
    let trimmed = text.trim();
    let without_t = trimmed.strip_prefix(['T', 't']).unwrap_or(trimmed);
    let (digits, rest) = without_t
        .split_at(without_t.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(without_t.len()));
    let (whole, fraction) =
        digits.split_once('.').map_or((digits, None), |(whole, rest)| (whole, Some(rest)));
    if matches!(whole.len(), 4 | 6) && !rest.starts_with([':', '-', '/']) {
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
