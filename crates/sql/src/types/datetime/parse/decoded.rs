//! Decoded fields of a text: each one fills in its part of a date and a time.

use jiff::tz::TimeZone;

use super::names::{Special, is_day_name, month_by_name, special};
use super::tokens::{Token, tokens};
use super::{Decode, Fault};
use crate::error::Result;
use crate::types::datetime::abbreviations::{Abbreviation, abbreviation};
use crate::types::datetime::zone::{offset_from_text, zone_by_name};
use crate::types::datetime::{Fields, JULIAN_EPOCH, civil_from_days, days_in_month, make_timestamp};
use crate::types::datetime::{days_from_civil, utc_to_local};
use crate::types::environment::{DateOrder, FormatSettings};
use crate::types::interval::DAY;

/// The meaning of a text.
#[derive(Debug, Default)]
pub(super) struct Decoded {
    pub(super) year: Option<i32>,
    month: Option<i32>,
    day: Option<i32>,
    day_of_year: Option<i32>,
    pub(super) julian: Option<i32>,
    /// True if the year was written with at most two digits.
    is_short_year: bool,
    pub(super) time: Option<Fields>,
    pub(super) zone: Option<Zone>,
    pub(super) special: Option<Special>,
    is_bc: Option<bool>,
    is_afternoon: Option<bool>,
    /// A month's name was read, so that numbers are days and years.
    has_month_name: bool,
}

#[derive(Clone, Debug)]
pub(super) enum Zone {
    /// Seconds east of Greenwich.
    Offset(i32),
    Named(TimeZone),
    /// The meaning of an abbreviation in a zone at the time.
    Abbreviated(TimeZone, String),
}

impl Decoded {
    pub(super) fn read(text: &str, order: DateOrder) -> Decode<Decoded> {
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

    /// Checks that a time follows a `T`.
    fn expect_time(&self, next: &Token) -> Decode<()> {
        let has_date = self.year.is_some() || self.julian.is_some();
        if has_date && matches!(next, Token::Time(_) | Token::Number(_)) {
            Ok(())
        } else {
            Err(Fault::Syntax)
        }
    }

    pub(super) fn take_word(&mut self, word: &str) -> Decode<()> {
        if let Some(month) = month_by_name(word) {
            self.has_month_name = true;
            // A number read as the month before was the day.
            if let (Some(other @ 1..=31), None) = (self.month, self.day) {
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
            word => match abbreviation(word) {
                Some(Abbreviation::Offset(offset)) => put(&mut self.zone, Zone::Offset(offset)),
                Some(Abbreviation::InZone(zone, name)) => put(&mut self.zone, Zone::Abbreviated(zone, name)),
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

    pub(super) fn take_offset(&mut self, text: &str) -> Decode<()> {
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
    pub(super) fn finish_time(&mut self) -> Decode<()> {
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
                return self.take_date_parts(&whole[..4], &whole[4..6], &whole[6..]);
            }
            (6, false) if is_plain && self.year.is_none() && self.month.is_none() => {
                return self.take_date_parts(&whole[..2], &whole[2..4], &whole[4..]);
            }
            (4 | 6, true) if self.time.is_none() => return self.take_digits_as_time(whole, fraction),
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

    /// A number on its own: day, month or year, by what is known and by the order of the session. Beside a month's
    /// name, a number of at most two digits is the day, or the year where that is first.
    ///
    /// Source: PostgreSQL 15, `DecodeNumber` in `datetime.c`.
    fn take_single_number(&mut self, digits: &str, order: DateOrder) -> Decode<()> {
        let value: i32 = parse(digits)?;
        let is_long = digits.len() > 2;
        if digits.len() == 3
            && self.year.is_some()
            && self.month.is_none()
            && self.day.is_none()
            && (1..=366).contains(&value)
        {
            return put(&mut self.day_of_year, value);
        }
        let is_first_year = is_long || order == DateOrder::Ymd;
        match (self.year, self.month, self.day) {
            (None, None, None) if is_first_year => {}
            (None, None, None) if order == DateOrder::Dmy => return put(&mut self.day, value),
            (None, None, None) => return put(&mut self.month, value),
            (None, Some(_), None) if self.has_month_name && is_first_year => {}
            (None, Some(_), None) => return put(&mut self.day, value),
            (None, Some(_), Some(_)) => {}
            (Some(year), Some(_), None) if self.has_month_name && is_long && self.is_short_year => {
                // The number that was read as the year is the day: 08-Jan-1999.
                self.day = Some(year);
                (self.year, self.is_short_year) = (Some(value), false);
                return Ok(());
            }
            (Some(_), Some(_), None) => return put(&mut self.day, value),
            (Some(_), None, None) | (None, None, Some(_)) => return put(&mut self.month, value),
            (Some(_), _, Some(_)) => return Err(Fault::Syntax),
        }
        self.is_short_year = !is_long;
        put(&mut self.year, value)
    }

    pub(super) fn take_digits_as_time(&mut self, digits: &str, fraction: Option<&str>) -> Decode<()> {
        let part = |from: usize| digits.get(from..from + 2).map_or(Ok(0), parse);
        let fields = Fields { hour: part(0)?, minute: part(2)?, second: part(4)?, ..Fields::default() };
        let micros = fraction_micros(fraction.unwrap_or(""))?;
        put(&mut self.time, checked_time(fields, micros)?)
    }

    fn take_date_parts(&mut self, year: &str, month: &str, day: &str) -> Decode<()> {
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
        let is_named = |part: &&str| part.starts_with(|c: char| c.is_ascii_alphabetic());
        if let Some(name) = parts.iter().copied().find(|part| is_named(part)) {
            let month = month_by_name(&name.to_ascii_lowercase()).ok_or(Fault::Syntax)?;
            self.has_month_name = true;
            put(&mut self.month, month)?;
        } else if parts.len() == 2 && parts[0].len() < 3 {
            return Err(Fault::Field);
        }
        let has_name = parts.iter().any(is_named);
        for part in parts.iter().filter(|part| !is_named(part)) {
            // PostgreSQL passes over one character behind a number, where a month is named: 2024-Jan-01Z.
            let digits = part.strip_suffix(|c: char| has_name && c.is_ascii_alphabetic()).unwrap_or(part);
            self.take_single_number(digits, order)?;
        }
        let has_day = self.month.is_some() && self.day.is_some() || self.day_of_year.is_some();
        if self.year.is_some() && has_day { Ok(()) } else { Err(Fault::Syntax) }
    }

    /// Year (0 is 1 BC), month and day, checked.
    pub(super) fn date(&self) -> Decode<(i32, i32, i32)> {
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
            return Ok(civil_from_days(days_from_civil(year, 1, 1) + i64::from(day) - 1));
        }
        let (month, day) = (self.month.ok_or(Fault::Syntax)?, self.day.ok_or(Fault::Syntax)?);
        if !(1..=12).contains(&month) || !(1..=31).contains(&day) || day > days_in_month(year, month) {
            return Err(Fault::Field);
        }
        Ok((year, month, day))
    }

    /// The date and the time as a local timestamp, with the offset if there is one.
    pub(super) fn moment(&self, now: i64, formats: &FormatSettings) -> Result<Decode<i64>> {
        let today = utc_to_local(now, &formats.time_zone)?.div_euclid(DAY);
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

/// The digits after the point of a second, rounded to microseconds.
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
