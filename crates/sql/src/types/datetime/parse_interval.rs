//! Texts as intervals: PostgreSQL's units, SQL's `1-2 3 4:05:06`, and ISO 8601's `P1Y2M3DT4H5M6S`.
//!
//! Source: PostgreSQL 15, `datetime.c`: `DecodeInterval`, `DecodeISO8601Interval`.

#[cfg(test)]
mod tests;

use crate::error::{Result, SqlError, SqlState};
use crate::types::Modifier;
use crate::types::environment::IntervalStyle;
use crate::types::interval::{DAY, HOUR, Interval, MINUTE, SECOND, field};

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Microsecond,
    Millisecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Year,
    Decade,
    Century,
    Millennium,
}

/// The text was not understood, or a field is too large.
enum Fault {
    Syntax,
    Overflow,
}

type Decode<T> = std::result::Result<T, Fault>;

/// Number of letters of a word that are significant.
const WORD_LENGTH_MAX: usize = 10;

fn unit(word: &str) -> Option<Unit> {
    Some(match &word[..word.len().min(WORD_LENGTH_MAX)] {
        "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecon" => Unit::Microsecond,
        "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecon" => Unit::Millisecond,
        "s" | "sec" | "secs" | "second" | "seconds" => Unit::Second,
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Minute,
        "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Hour,
        "d" | "day" | "days" => Unit::Day,
        "w" | "week" | "weeks" => Unit::Week,
        "mon" | "mons" | "month" | "months" => Unit::Month,
        "y" | "yr" | "yrs" | "year" | "years" => Unit::Year,
        "dec" | "decs" | "decade" | "decades" => Unit::Decade,
        "c" | "cent" | "century" | "centuries" => Unit::Century,
        "mil" | "mils" | "millennia" | "millennium" => Unit::Millennium,
        _ => return None,
    })
}

/// The unit of a number without one, by the type's fields.
fn default_unit(modifier: Modifier) -> Unit {
    let fields = if modifier.is_none() { field::ALL } else { (modifier.0 >> 16) & 0x7fff };
    let has = |bit: i32| fields != field::ALL && fields & bit != 0;
    if has(field::SECOND) || fields == field::ALL {
        Unit::Second
    } else if has(field::MINUTE) {
        Unit::Minute
    } else if has(field::HOUR) {
        Unit::Hour
    } else if has(field::DAY) {
        Unit::Day
    } else if has(field::MONTH) {
        Unit::Month
    } else {
        Unit::Year
    }
}

/// Sums up the fields; each may be given once.
#[derive(Default)]
struct Sum {
    interval: Interval,
    seen: Vec<Unit>,
}

impl Sum {
    fn see(&mut self, unit: Unit) -> Decode<()> {
        if self.seen.contains(&unit) {
            return Err(Fault::Syntax);
        }
        self.seen.push(unit);
        Ok(())
    }

    /// Seconds with a fraction exclude milliseconds and microseconds.
    fn see_fractions(&mut self) -> Decode<()> {
        self.see(Unit::Second)?;
        self.see(Unit::Millisecond)?;
        self.see(Unit::Microsecond)
    }

    fn add_months(&mut self, whole: i64, fraction: f64, factor: i64) -> Decode<()> {
        let months =
            whole.checked_mul(factor).and_then(|months| i32::try_from(months).ok()).ok_or(Fault::Overflow)?;
        let carried = (fraction * factor as f64).round_ties_even() as i32;
        let total = self.interval.months.checked_add(months).and_then(|it| it.checked_add(carried));
        self.interval.months = total.ok_or(Fault::Overflow)?;
        Ok(())
    }

    /// Fractions of months are days, of days time.
    fn add_days(&mut self, whole: i64, fraction: f64, factor: i64) -> Decode<()> {
        let days =
            whole.checked_mul(factor).and_then(|days| i32::try_from(days).ok()).ok_or(Fault::Overflow)?;
        let carried = fraction * factor as f64;
        let total = self.interval.days.checked_add(days).and_then(|it| it.checked_add(carried as i32));
        self.interval.days = total.ok_or(Fault::Overflow)?;
        self.add_micros(0, carried.fract(), DAY)
    }

    fn add_micros(&mut self, whole: i64, fraction: f64, factor: i64) -> Decode<()> {
        let micros = whole.checked_mul(factor).ok_or(Fault::Overflow)?;
        let carried = (fraction * factor as f64).round_ties_even() as i64;
        let total = self.interval.micros.checked_add(micros).and_then(|it| it.checked_add(carried));
        self.interval.micros = total.ok_or(Fault::Overflow)?;
        Ok(())
    }

    fn add(&mut self, unit: Unit, whole: i64, fraction: f64) -> Decode<()> {
        match unit {
            Unit::Microsecond => self.add_micros(whole, fraction, 1),
            Unit::Millisecond => self.add_micros(whole, fraction, 1000),
            Unit::Second => self.add_micros(whole, fraction, SECOND),
            Unit::Minute => self.add_micros(whole, fraction, MINUTE),
            Unit::Hour => self.add_micros(whole, fraction, HOUR),
            Unit::Day => self.add_days(whole, fraction, 1),
            Unit::Week => self.add_days(whole, fraction, 7),
            Unit::Month => {
                self.add_months(whole, 0.0, 1)?;
                self.add_days(0, fraction, 30)
            }
            Unit::Year => self.add_months(whole, fraction, 12),
            Unit::Decade => self.add_months(whole, fraction, 120),
            Unit::Century => self.add_months(whole, fraction, 1200),
            Unit::Millennium => self.add_months(whole, fraction, 12_000),
        }
    }
}

/// Digits with a sign and a fraction perhaps: the whole part and the fraction, both with the sign.
fn number(text: &str) -> Decode<(i64, f64)> {
    let (is_negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !is_digits(whole) || !is_digits(fraction) {
        return Err(Fault::Syntax);
    }
    let sign = if is_negative { "-" } else { "" };
    let whole: i64 =
        if whole.is_empty() { 0 } else { format!("{sign}{whole}").parse().map_err(|_| Fault::Overflow)? };
    let fraction: f64 =
        if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse().map_err(|_| Fault::Syntax)? };
    Ok((whole, if is_negative { -fraction } else { fraction }))
}

/// The pieces of the text: signed numbers with their separators, and words.
fn pieces(text: &str) -> Decode<Vec<String>> {
    let characters: Vec<char> = text.chars().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < characters.len() {
        let first = characters[at];
        let mut piece = String::new();
        if first.is_ascii_whitespace() || matches!(first, ',' | '@') {
            at += 1;
            continue;
        }
        if matches!(first, '+' | '-') {
            piece.push(first);
            at += 1;
            while characters.get(at).is_some_and(char::is_ascii_whitespace) {
                at += 1;
            }
        }
        let is_numeric = characters.get(at).is_some_and(|c| c.is_ascii_digit() || *c == '.');
        let belongs = |c: &char| match is_numeric {
            true => c.is_ascii_digit() || matches!(c, '.' | ':' | '-'),
            false => c.is_ascii_alphabetic(),
        };
        let from = at;
        while characters.get(at).is_some_and(belongs) {
            piece.push(characters[at].to_ascii_lowercase());
            at += 1;
        }
        if at == from {
            return Err(Fault::Syntax);
        }
        found.push(piece);
    }
    Ok(found)
}

fn decode(text: &str, modifier: Modifier, style: IntervalStyle) -> Decode<Interval> {
    let pieces = pieces(text)?;
    if pieces.is_empty() {
        return Err(Fault::Syntax);
    }
    // In SQL's style a single sign in front is that of each field.
    let is_signed = |piece: &String| piece.starts_with(['+', '-']);
    let is_negative = style == IntervalStyle::SqlStandard
        && pieces[0].starts_with('-')
        && !pieces[1..].iter().any(is_signed);
    let mut sum = Sum::default();
    let mut next_unit: Option<Unit> = None;
    let mut is_before = false;
    let mut is_word_pending = false;
    // AGO follows a unit or a time.
    let mut is_ago_next = false;
    for piece in pieces.iter().rev() {
        let starts_numeric =
            piece.trim_start_matches(['+', '-']).starts_with(|c: char| c.is_ascii_digit() || c == '.');
        if !starts_numeric {
            if piece == "ago" && !is_before && sum.seen.is_empty() {
                (is_before, is_ago_next) = (true, true);
                continue;
            }
            if is_word_pending {
                return Err(Fault::Syntax);
            }
            next_unit = Some(unit(piece).ok_or(Fault::Syntax)?);
            (is_word_pending, is_ago_next) = (true, false);
            continue;
        }
        let is_plain = !piece[1..].contains([':', '-']);
        if std::mem::take(&mut is_ago_next) && is_plain {
            return Err(Fault::Syntax);
        }
        is_word_pending = false;
        next_unit = match is_negative && !piece.starts_with('-') {
            true => add_numeric(&mut sum, &format!("-{piece}"), next_unit, modifier)?,
            false => add_numeric(&mut sum, piece, next_unit, modifier)?,
        };
    }
    if is_word_pending || sum.seen.is_empty() {
        return Err(Fault::Syntax);
    }
    if is_before { sum.interval.negate().map_err(|_| Fault::Overflow) } else { Ok(sum.interval) }
}

/// Adds one number; the answer is the unit of a number before it that has none.
fn add_numeric(sum: &mut Sum, piece: &str, unit: Option<Unit>, modifier: Modifier) -> Decode<Option<Unit>> {
    if piece.contains(':') {
        sum.see(Unit::Hour)?;
        sum.see(Unit::Minute)?;
        sum.see_fractions()?;
        add_clock(sum, piece, modifier)?;
        return Ok(Some(Unit::Day));
    }
    let sign_length = usize::from(piece.starts_with(['+', '-']));
    if let Some(at) = piece[sign_length..].find('-') {
        let (years, months) = (&piece[..sign_length + at], &piece[sign_length + at + 1..]);
        let ((years, _), (months, _)) = (number(years)?, number(months)?);
        if !(0..12).contains(&months) {
            return Err(Fault::Overflow);
        }
        sum.see(Unit::Year)?;
        sum.see(Unit::Month)?;
        let months = if piece.starts_with('-') { -months } else { months };
        sum.add(Unit::Year, years, 0.0)?;
        sum.add(Unit::Month, months, 0.0)?;
        return Ok(Some(Unit::Day));
    }
    let unit = unit.unwrap_or_else(|| default_unit(modifier));
    let (whole, fraction) = number(piece)?;
    match unit {
        Unit::Second if fraction != 0.0 => sum.see_fractions()?,
        _ => sum.see(unit)?,
    }
    sum.add(unit, whole, fraction)?;
    Ok(if unit == Unit::Hour { Some(Unit::Day) } else { Some(unit) })
}

/// `04:05:06.789`, `04:05`; minutes and seconds for `interval minute to second`.
fn add_clock(sum: &mut Sum, piece: &str, modifier: Modifier) -> Decode<()> {
    let is_negative = piece.starts_with('-');
    let body = piece.trim_start_matches(['+', '-']);
    let parts: Vec<&str> = body.split(':').collect();
    let fields = if modifier.is_none() { field::ALL } else { (modifier.0 >> 16) & 0x7fff };
    let is_minutes = parts.len() == 2 && (fields == field::MINUTE | field::SECOND || parts[1].contains('.'));
    let (hours, minutes, seconds) = match parts[..] {
        [minutes, seconds] if is_minutes => ("0", minutes, seconds),
        [hours, minutes] => (hours, minutes, "0"),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return Err(Fault::Syntax),
    };
    let ((hours, _), (minutes, _)) = (number(hours)?, number(minutes)?);
    let (seconds, fraction) = number(seconds)?;
    if minutes > 59 || seconds > 60 {
        return Err(Fault::Overflow);
    }
    let sign = if is_negative { -1 } else { 1 };
    sum.add(Unit::Hour, sign * hours, 0.0)?;
    sum.add(Unit::Minute, sign * minutes, 0.0)?;
    sum.add(Unit::Second, sign * seconds, sign as f64 * fraction)
}

/// `P1Y2M3W4DT5H6M7S` and `P0001-02-03T04:05:06`.
fn decode_iso(text: &str) -> Decode<Interval> {
    let mut sum = Sum::default();
    let (date, time) =
        text[1..].split_once('T').map_or((&text[1..], None), |(date, time)| (date, Some(time)));
    let has_designators = |part: &str| part.contains(|c: char| c.is_ascii_alphabetic());
    if date.is_empty() && time.is_none() {
        return Err(Fault::Syntax);
    }
    // `P1DT`: a time of nothing.
    let time = time.filter(|time| !time.is_empty());
    if !date.is_empty() && !has_designators(date) {
        let basic = basic_parts(date, [4, 2, 2]);
        let signed = usize::from(date.starts_with(['+', '-']));
        let ends = date[signed..].find('-').map_or(date.len(), |at| at + signed);
        let (years, rest) = date.split_at(ends);
        let extended: Vec<&str> = std::iter::once(years)
            .chain(rest.strip_prefix('-').into_iter().flat_map(|it| it.split('-')))
            .collect();
        let parts = basic.unwrap_or(extended);
        for (part, unit) in parts.iter().zip([Unit::Year, Unit::Month, Unit::Day]) {
            let (whole, fraction) = number(part)?;
            sum.add(unit, whole, fraction)?;
        }
    } else {
        add_designated(&mut sum, date, |letter| match letter {
            'Y' => Some(Unit::Year),
            'M' => Some(Unit::Month),
            'W' => Some(Unit::Week),
            'D' => Some(Unit::Day),
            _ => None,
        })?;
    }
    match time {
        None => {}
        Some(time) if time.contains(':') => add_clock(&mut sum, time, Modifier::NONE)?,
        Some(time) if !has_designators(time) => {
            let parts = basic_parts(time, [2, 2, 2]).unwrap_or_else(|| vec![time]);
            for (part, unit) in parts.iter().zip([Unit::Hour, Unit::Minute, Unit::Second]) {
                let (whole, fraction) = number(part)?;
                sum.add(unit, whole, fraction)?;
            }
        }
        Some(time) => add_designated(&mut sum, time, |letter| match letter {
            'H' => Some(Unit::Hour),
            'M' => Some(Unit::Minute),
            'S' => Some(Unit::Second),
            _ => None,
        })?,
    }
    Ok(sum.interval)
}

/// The fields of the form without separators: `00021015`, `103020`.
fn basic_parts(text: &str, lengths: [usize; 3]) -> Option<Vec<&str>> {
    let fits = text.len() == lengths.iter().sum::<usize>() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (first, rest) = fits.then(|| text.split_at(lengths[0]))?;
    let (second, third) = rest.split_at(lengths[1]);
    Some(vec![first, second, third])
}

fn add_designated(sum: &mut Sum, text: &str, unit: impl Fn(char) -> Option<Unit>) -> Decode<()> {
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_ascii_alphabetic()) {
        if rest.starts_with('+') {
            return Err(Fault::Syntax);
        }
        let (whole, fraction) = number(&rest[..at])?;
        let letter = rest[at..].chars().next().unwrap_or(' ');
        sum.add(unit(letter).ok_or(Fault::Syntax)?, whole, fraction)?;
        rest = &rest[at + 1..];
    }
    if rest.is_empty() { Ok(()) } else { Err(Fault::Syntax) }
}

/// A text as an interval; the modifier decides the unit of a number without one, and cuts the result.
///
/// # Errors
/// 22007 and 22015.
pub fn parse_interval(text: &str, modifier: Modifier, style: IntervalStyle) -> Result<Interval> {
    let trimmed = text.trim();
    let decoded = match trimmed.as_bytes() {
        [b'P', _, ..] => decode_iso(trimmed),
        _ => decode(trimmed, modifier, style),
    };
    match decoded {
        Ok(interval) => Ok(interval.with_modifier(modifier)),
        Err(Fault::Syntax) => {
            let message = format!("invalid input syntax for type interval: \"{text}\"");
            Err(SqlError::new(SqlState::INVALID_DATETIME_FORMAT, message))
        }
        Err(Fault::Overflow) => {
            let message = format!("interval field value out of range: \"{text}\"");
            Err(SqlError::new(SqlState::INTERVAL_FIELD_OVERFLOW, message))
        }
    }
}
