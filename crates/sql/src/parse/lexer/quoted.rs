//! Quoted tokens: names, strings and bit strings, with their escapes.

use std::borrow::Cow;

use super::{Lexer, TokenKind, continues_word};
use crate::error::{Result, SqlError, SqlState};

impl<'t> Lexer<'t> {
    pub(super) fn quoted_name(&mut self) -> Result<String> {
        let start = self.at;
        let name = self.between(b'"').ok_or_else(|| self.unterminated("quoted identifier", start))?;
        if name.is_empty() {
            return Err(self.error(start, "zero-length delimited identifier at or near \"\"\"\"".to_string()));
        }
        Ok(name.replace("\"\"", "\""))
    }

    /// Reads the text between two quotes, doubled ones inside included; moves past the closing one.
    fn between(&mut self, quote: u8) -> Option<&'t str> {
        let start = self.at + 1;
        let mut at = start;
        loop {
            at += self.bytes.get(at..)?.iter().position(|&byte| byte == quote)?;
            if self.bytes.get(at + 1) != Some(&quote) {
                self.at = at + 1;
                return Some(&self.text[start..at]);
            }
            at += 2;
        }
    }

    /// A string in single quotes without escapes, and its continuations on further lines.
    pub(super) fn plain_string(&mut self) -> Result<Cow<'t, str>> {
        let start = self.at;
        let part = self.between(b'\'').ok_or_else(|| self.unterminated("quoted string", start))?;
        let mut text =
            if part.contains('\'') { Cow::Owned(part.replace("''", "'")) } else { Cow::Borrowed(part) };
        while self.continues_string()? {
            let part = self.between(b'\'').ok_or_else(|| self.unterminated("quoted string", start))?;
            text.to_mut().push_str(&part.replace("''", "'"));
        }
        Ok(text)
    }

    /// Returns true if another string follows after a line break: then both are one. Moves to its quote. Comments up to
    /// the end of a line may be between, others may not.
    fn continues_string(&mut self) -> Result<bool> {
        let end = self.at;
        self.skip_blanks()?;
        let between = &self.text[end..self.at];
        let is_plain =
            between.lines().all(|line| line.trim_start().is_empty() || line.trim_start().starts_with("--"));
        if self.peek(0) == b'\'' && between.contains('\n') && is_plain {
            return Ok(true);
        }
        self.at = end;
        Ok(false)
    }

    pub(super) fn bits(&mut self, base: u8) -> Result<TokenKind<'t>> {
        let start = self.at;
        self.at += 1;
        let digits = self.plain_string()?;
        let radix = if base == b'b' { 2 } else { 16 };
        let mut bits = String::new();
        for digit in digits.chars() {
            let Some(value) = digit.to_digit(radix) else {
                let kind = if base == b'b' { "binary" } else { "hexadecimal" };
                let message = format!("\"{digit}\" is not a valid {kind} digit");
                return Err(
                    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).at(start as u32 + 1)
                );
            };
            bits += &if base == b'b' { format!("{value:b}") } else { format!("{value:04b}") };
        }
        Ok(TokenKind::Bits(bits))
    }

    /// A string with backslash escapes; the lexer is at its quote.
    pub(super) fn escaped_string(&mut self) -> Result<String> {
        let start = self.at - 1;
        let mut bytes = Vec::new();
        self.at += 1;
        loop {
            match self.peek(0) {
                _ if self.at >= self.bytes.len() => return Err(self.unterminated("quoted string", start)),
                b'\'' if self.peek(1) == b'\'' => {
                    bytes.push(b'\'');
                    self.at += 2;
                }
                b'\'' => {
                    self.at += 1;
                    if !self.continues_string()? {
                        break;
                    }
                    self.at += 1;
                }
                b'\\' => self.escape(&mut bytes, start)?,
                byte => {
                    bytes.push(byte);
                    self.at += 1;
                }
            }
        }
        match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => Ok(text),
            _ => Err(SqlError::new(
                SqlState::CHARACTER_NOT_IN_REPERTOIRE,
                "invalid byte sequence for encoding \"UTF8\" in an escaped string",
            )),
        }
    }

    /// One backslash escape of `E'…'`.
    fn escape(&mut self, bytes: &mut Vec<u8>, start: usize) -> Result<()> {
        let escaped = self.peek(1);
        self.at += 2;
        let plain = match escaped {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => return self.code_point(4, bytes),
            b'U' => return self.code_point(8, bytes),
            b'x' => {
                self.escaped_byte(16, 2, bytes);
                return Ok(());
            }
            b'0'..=b'7' => {
                self.at -= 1;
                self.escaped_byte(8, 3, bytes);
                return Ok(());
            }
            _ if self.at > self.bytes.len() => return Err(self.unterminated("quoted string", start)),
            byte => byte,
        };
        bytes.push(plain);
        Ok(())
    }

    /// The byte that at most this many digits write; without digits the `x` is an ordinary character.
    fn escaped_byte(&mut self, radix: u32, digits: usize, bytes: &mut Vec<u8>) {
        let (mut value, mut count) = (0_u32, 0);
        while count < digits
            && let Some(digit) = char::from(self.peek(0)).to_digit(radix)
        {
            (value, count) = (value * radix + digit, count + 1);
            self.at += 1;
        }
        bytes.push(if count == 0 { b'x' } else { value as u8 });
    }

    /// The character of this many hexadecimal digits; surrogates are pairs of escapes.
    fn code_point(&mut self, digits: usize, bytes: &mut Vec<u8>) -> Result<()> {
        let mut value = self.hexadecimal(digits)?;
        if (0xd800..0xdc00).contains(&value) {
            value = self.low_surrogate(value)?;
        }
        let character = char::from_u32(value).filter(|&character| character != '\0');
        let character =
            character.ok_or_else(|| self.error(self.at, "invalid Unicode escape value".to_string()))?;
        bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    /// The second half of a pair, written as the first one's kinds of escapes, and the character of both.
    fn low_surrogate(&mut self, high: u32) -> Result<u32> {
        let invalid = |lexer: &Self| lexer.error(lexer.at, "invalid Unicode surrogate pair".to_string());
        let digits = match (self.peek(0), self.peek(1)) {
            (b'\\', b'u') => 4,
            (b'\\', b'U') => 8,
            _ => return Err(invalid(self)),
        };
        self.at += 2;
        let low = self.hexadecimal(digits)?;
        if !(0xdc00..0xe000).contains(&low) {
            return Err(invalid(self));
        }
        Ok(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00))
    }

    fn hexadecimal(&mut self, digits: usize) -> Result<u32> {
        let text = self.text.get(self.at..self.at + digits);
        let value = text.and_then(|text| u32::from_str_radix(text, 16).ok());
        let value = value.ok_or_else(|| {
            let position = self.bytes.len().min(self.at) as u32 + 1;
            SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid Unicode escape")
                .with_hint("Unicode escapes must be \\uXXXX or \\UXXXXXXXX.")
                .at(position)
        })?;
        self.at += digits;
        Ok(value)
    }

    /// `U&'…'` and `U&"…"`: the escape character is a backslash, or that of UESCAPE after it.
    pub(super) fn unicode(&mut self) -> Result<TokenKind<'t>> {
        self.at += 2;
        let quote = self.peek(0);
        let start = self.at;
        let body = self.between(quote).ok_or_else(|| self.unterminated("quoted string", start))?;
        let doubled = if quote == b'"' { ("\"\"", "\"") } else { ("''", "'") };
        let body = body.replace(doubled.0, doubled.1);
        let escape = self.unicode_escape()?;
        let text = unescaped(&body, escape, start)?;
        Ok(if quote == b'"' { TokenKind::Quoted(text) } else { TokenKind::Text(Cow::Owned(text)) })
    }

    /// `UESCAPE '!'`, if it follows.
    fn unicode_escape(&mut self) -> Result<char> {
        let end = self.at;
        self.skip_blanks()?;
        let follows =
            self.text.get(self.at..self.at + 7).is_some_and(|it| it.eq_ignore_ascii_case("uescape"));
        if !follows || continues_word(self.peek(7)) {
            self.at = end;
            return Ok('\\');
        }
        self.at += 7;
        self.skip_blanks()?;
        if self.peek(0) != b'\'' {
            let message = "UESCAPE must be followed by a simple string literal";
            return Err(self.error(self.at, message.to_string()));
        }
        let at = self.at;
        let text = self.plain_string()?;
        let mut characters = text.chars();
        let is_refused =
            |it: &char| it.is_ascii_hexdigit() || matches!(it, '+' | '\'' | '"') || it.is_whitespace();
        match (characters.next().filter(|it| !is_refused(it)), characters.next()) {
            (Some(escape), None) => Ok(escape),
            _ => Err(self.error(at, "invalid Unicode escape character".to_string())),
        }
    }
}

/// The body of `U&'…'` with its escapes resolved: four digits, `+` and six digits, or the escape character twice.
fn unescaped(body: &str, escape: char, start: usize) -> Result<String> {
    let invalid = |message: &str| SqlError::new(SqlState::SYNTAX_ERROR, message).at(start as u32 + 1);
    let code = |digits: &str| u32::from_str_radix(digits, 16).ok();
    let mut text = String::with_capacity(body.len());
    let mut high: Option<u32> = None;
    let mut rest = body;
    while let Some(character) = rest.chars().next() {
        let after = &rest[character.len_utf8()..];
        if character != escape || after.starts_with(escape) {
            if high.is_some() {
                return Err(invalid("invalid Unicode surrogate pair"));
            }
            text.push(character);
            rest = if character == escape { &after[escape.len_utf8()..] } else { after };
            continue;
        }
        let (digits, length) = match after.strip_prefix('+') {
            Some(long) => (long.get(..6), 7),
            None => (after.get(..4), 4),
        };
        let digits = digits.filter(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let value = digits.and_then(code).ok_or_else(|| {
            invalid("invalid Unicode escape").with_hint("Unicode escapes must be \\XXXX or \\+XXXXXX.")
        })?;
        let value = match (high.take(), value) {
            (Some(high), 0xdc00..=0xdfff) => 0x10000 + ((high - 0xd800) << 10) + (value - 0xdc00),
            (Some(_), _) => return Err(invalid("invalid Unicode surrogate pair")),
            (None, value) => value,
        };
        if (0xd800..0xdc00).contains(&value) {
            high = Some(value);
        } else {
            let character = char::from_u32(value).filter(|&it| it != '\0');
            text.push(character.ok_or_else(|| invalid("invalid Unicode escape value"))?);
        }
        rest = &after[length..];
    }
    if high.is_some() {
        return Err(invalid("invalid Unicode surrogate pair"));
    }
    Ok(text)
}
