//! `to_number`: the digits of a text at the positions where a template has digits.
//!
//! Invariant: the number has no more digits before the point than the template (22003).
//!
//! Source: PostgreSQL 15, `formatting.c`: `NUM_processor` and `NUM_numpart_from_char`.

use super::definition::FunctionContext;
use super::number_template::{Node, Template};
use crate::error::{Result, SqlError, SqlState};
use crate::interrupt;
use crate::types::Value;
use crate::types::numeric::Numeric;

/// A text that is read along a template.
struct Reader<'a> {
    template: &'a Template,
    text: &'a [u8],
    at: usize,
    /// `+`, `-`, or a blank as long as none was read.
    sign: u8,
    digits: String,
    digits_behind: usize,
    has_point: bool,
}

impl Reader<'_> {
    fn next(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn is_at_end(&self) -> bool {
        self.at >= self.text.len()
    }

    /// Skips a character, of however many bytes.
    fn skip_character(&mut self) {
        self.at += 1;
        while self.next().is_some_and(|byte| byte & 0xC0 == 0x80) {
            self.at += 1;
        }
    }

    /// Skips up to this many characters that belong to no number.
    fn skip_others(&mut self, count: usize) {
        for _ in 0..count {
            match self.next() {
                Some(byte) if !b"0123456789.,+-".contains(&byte) => self.skip_character(),
                _ => return,
            }
        }
    }

    /// Reads a sign that is one of `signs`, without going on.
    fn sign_here(&mut self, signs: &[u8]) -> bool {
        match self.next() {
            Some(sign) if signs.contains(&sign) => {
                self.sign = sign;
                true
            }
            _ => false,
        }
    }

    fn read(&mut self) -> Result<()> {
        for node in &self.template.nodes {
            interrupt::step()?;
            if self.is_at_end() {
                return Ok(());
            }
            match node {
                Node::Text(text) => {
                    // Past the end, where the text ends before: the loop ends there.
                    text.chars().for_each(|_| self.skip_character());
                }
                Node::Nine | Node::Zero | Node::Point => {
                    self.digit(*node != Node::Point);
                    self.at += 1;
                }
                Node::Comma | Node::Group => {
                    if !self.template.is_filled && self.next() == Some(b',') {
                        self.at += 1;
                    }
                }
                Node::Currency => self.skip_others(1),
                Node::Ordinal(_) if !self.template.has_point => self.skip_others(2),
                Node::Minus | Node::Plus | Node::SignAlways => {
                    let signs: &[u8] = match node {
                        Node::Minus => b"-",
                        Node::Plus => b"+",
                        _ => b"-+",
                    };
                    if self.sign_here(signs) {
                        self.at += 1;
                    } else {
                        self.skip_others(1);
                    }
                }
                Node::Ordinal(_) | Node::Sign | Node::Shift | Node::Roman(_) => {}
            }
        }
        Ok(())
    }

    /// A place of a digit, or of the point: a sign before the number, a digit or the point, a sign after the number.
    fn digit(&mut self, is_digit: bool) {
        if self.next() == Some(b' ') {
            self.at += 1;
        }
        if self.sign == b' ' && is_digit && !self.digits.bytes().any(|byte| byte.is_ascii_digit()) {
            if self.template.has_brackets && self.next() == Some(b'<') {
                self.sign = b'-';
                self.at += 1;
            } else if self.sign_here(b"-+") {
                self.at += 1;
            }
        }
        let is_read = match self.next() {
            None => return,
            Some(byte) if byte.is_ascii_digit() => {
                if self.has_point && self.digits_behind == self.template.behind {
                    return;
                }
                self.digits.push(char::from(byte));
                self.digits_behind += usize::from(self.has_point);
                true
            }
            Some(b'.') if self.template.has_point && !self.has_point => {
                self.digits.push('.');
                self.has_point = true;
                true
            }
            Some(_) => false,
        };
        if self.sign == b' ' && self.digits.bytes().any(|byte| byte.is_ascii_digit()) {
            self.sign_behind(is_read);
        }
    }

    /// `S` is after the last digit; `MI` and the like anywhere.
    fn sign_behind(&mut self, is_read: bool) {
        if self.template.has_sign {
            let follows = self.text.get(self.at + 1).is_some_and(|byte| !byte.is_ascii_digit());
            if is_read && follows {
                self.at += 1;
                if !self.sign_here(b"-+") {
                    self.at -= 1;
                }
            }
        } else if !is_read && self.template.has_other_sign {
            self.sign_here(b"-+");
        }
    }
}

pub(super) fn to_number(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    if v[1].str().is_empty() {
        return Ok(Value::Null);
    }
    let template = Template::parse(v[1].str())?;
    if template.is_exponential {
        return Err(SqlError::unsupported("\"EEEE\" not supported for input"));
    }
    if template.is_roman {
        return Err(SqlError::unsupported("\"RN\" not supported for input"));
    }
    let mut reader = Reader {
        template: &template,
        text: v[0].str().as_bytes(),
        at: 0,
        sign: b' ',
        digits: String::new(),
        digits_behind: 0,
        has_point: false,
    };
    reader.read()?;
    let digits = reader.digits.trim_end_matches('.');
    let text = format!("{}{digits}", char::from(reader.sign));
    if !digits.bytes().any(|byte| byte.is_ascii_digit()) {
        let message = format!("invalid input syntax for type numeric: \"{text}\"");
        return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
    }
    let whole = digits.split('.').next().unwrap_or_default().trim_start_matches('0');
    if whole.len() > template.before {
        return Err(overflow(&template, reader.digits_behind));
    }
    let number: Numeric = text.trim_start_matches([' ', '+']).parse()?;
    if !template.has_shift {
        return Ok(Value::Numeric(number));
    }
    let shift = Numeric::from(10i64).power(&Numeric::from(-(template.shift as i64)))?;
    number.multiply(&shift).map(Value::Numeric)
}

fn overflow(template: &Template, scale: usize) -> SqlError {
    let detail = format!(
        "A field with precision {}, scale {scale} must round to an absolute value less than 10^{}.",
        template.before + scale,
        template.before
    );
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").with_detail(detail)
}
