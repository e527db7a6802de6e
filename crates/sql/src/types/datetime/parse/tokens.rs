//! The fields that a text of a date or a time consists of: numbers, dates, times, zones, words.

use super::names::{is_day_name, month_by_name, special};
use super::{Decode, Fault};

/// A piece of the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
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

pub(super) fn tokens(text: &str) -> Decode<Vec<Token>> {
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
            // After two numbers there is no name of a month: `1999-08-Jan` is no date, and the letter T starts the
            // time.
            let end = run(bytes, at, |byte| is_digit(byte) || byte == separator);
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
        || matches!(bytes.get(end), Some(b'+' | b'-')) && end - start >= 3
        || bytes.get(end).is_some_and(u8::is_ascii_digit) && is_zone(&text[start..end]);
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

/// Returns true if letters before a digit begin the name of a zone, such as `PST8PDT`.
fn is_zone(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    word.len() > 2 && month_by_name(&word).is_none() && special(&word).is_none() && !is_day_name(&word)
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
