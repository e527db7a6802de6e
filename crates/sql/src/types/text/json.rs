//! JSON documents as text: checked for `json`, read into a tree for `jsonb`, printed with PostgreSQL's blanks.
//!
//! Invariant: nesting beyond [`DEPTH_MAX`] is 54001, never a stack overflow.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};
use crate::interrupt::{blocks, step};
use crate::types::jsonb::{DEPTH_MAX, Jsonb, Members};
use crate::types::numeric::Numeric;

/// A text as a JSON tree.
pub fn parse_jsonb(text: &str) -> Result<Jsonb> {
    let mut parser = Parser { text, at: 0, builds: true };
    let value = parser.document("jsonb")?;
    Ok(value)
}

/// Checks that a text is a JSON document.
pub fn check_json(text: &str) -> Result<()> {
    let mut parser = Parser { text, at: 0, builds: false };
    parser.document("json").map(|_| ())
}

/// A reader of one document. With `builds` unset, it only checks.
struct Parser<'t> {
    text: &'t str,
    at: usize,
    builds: bool,
}

fn invalid(detail: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
        .with_detail(detail)
}

/// Checks that a JSON text composed of checked parts nests no deeper than the parser accepts.
pub fn check_depth(text: &str) -> Result<()> {
    let (mut levels, mut in_string, mut is_escaped) = (0_usize, false, false);
    for block in blocks(text.as_bytes()) {
        for byte in block? {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' if in_string => in_string = false,
                _ if in_string => {}
                b' ' | b'\t' | b'\n' | b'\r' => {}
                b']' | b'}' => levels = levels.saturating_sub(1),
                // An empty container may still be on the last level.
                _ if levels > DEPTH_MAX => return Err(too_deep()),
                b'[' | b'{' => levels += 1,
                b'"' => in_string = true,
                _ => {}
            }
        }
    }
    Ok(())
}

/// 54001: a document nests deeper than [`DEPTH_MAX`].
pub fn too_deep() -> SqlError {
    let error = SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded");
    error.with_detail(format!("JSON documents nest at most {DEPTH_MAX} levels deep."))
}

impl<'t> Parser<'t> {
    fn document(&mut self, _kind: &str) -> Result<Jsonb> {
        let value = self.value(0)?;
        self.blanks();
        match self.peek() {
            None => Ok(value),
            Some(_) => Err(self.unexpected("end of input")),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn unexpected(&self, expected: &str) -> SqlError {
        match self.text[self.at..].chars().next() {
            None => invalid("The input string ended unexpectedly."),
            Some(found) => invalid(format!("Expected {expected}, but found \"{found}\".")),
        }
    }

    fn value(&mut self, depth: usize) -> Result<Jsonb> {
        if depth > DEPTH_MAX {
            return Err(too_deep());
        }
        step()?;
        self.blanks();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(|text| Jsonb::String(text.into())),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<Jsonb> {
        let rest = &self.text[self.at..];
        let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let value = match &rest[..length] {
            "null" => Jsonb::Null,
            "true" => Jsonb::Bool(true),
            "false" => Jsonb::Bool(false),
            "" => return Err(self.unexpected("JSON value")),
            other => return Err(invalid(format!("Token \"{other}\" is invalid."))),
        };
        self.at += length;
        Ok(value)
    }

    fn number(&mut self) -> Result<Jsonb> {
        let bytes = self.text.as_bytes();
        let start = self.at;
        let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut at = start + usize::from(bytes[start] == b'-');
        let whole = digits(at);
        let mut is_valid = whole > 0 && !(whole > 1 && bytes[at] == b'0');
        at += whole;
        if bytes.get(at) == Some(&b'.') {
            let fraction = digits(at + 1);
            is_valid &= fraction > 0;
            at += 1 + fraction;
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            let exponent = digits(at.min(bytes.len()));
            is_valid &= exponent > 0;
            at += exponent;
        }
        let is_glued =
            self.text[at.min(bytes.len())..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
        if !is_valid || is_glued {
            return Err(invalid(format!("Token \"{}\" is invalid.", &self.text[start..at.min(bytes.len())])));
        }
        self.at = at;
        if !self.builds {
            return Ok(Jsonb::Null);
        }
        self.text[start..at].parse::<Numeric>()?.polled().map(Jsonb::Number)
    }

    fn string(&mut self) -> Result<String> {
        self.at += 1;
        let mut text = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(length) = rest.find(|c: char| c == '"' || c == '\\' || (c as u32) < 0x20) else {
                self.at = self.text.len();
                return Err(invalid("The input string ended unexpectedly."));
            };
            step()?;
            text.push_str(&rest[..length]);
            self.at += length + 1;
            match rest.as_bytes()[length] {
                b'"' => return Ok(text),
                b'\\' => self.escape(&mut text)?,
                byte => return Err(invalid(format!("Character with value 0x{byte:02x} must be escaped."))),
            }
        }
    }

    fn escape(&mut self, text: &mut String) -> Result<()> {
        let Some(byte) = self.peek() else { return Err(invalid("The input string ended unexpectedly.")) };
        let plain = match byte {
            b'"' | b'\\' | b'/' => byte as char,
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                return self.unicode_escape(text);
            }
            _ => return Err(invalid("Escape sequence is invalid.")),
        };
        self.at += 1;
        text.push(plain);
        Ok(())
    }

    fn four_digits(&mut self) -> Result<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4);
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.ok_or_else(|| invalid("\"\\u\" must be followed by four hexadecimal digits."))?;
        let code =
            digits.iter().fold(0, |code, digit| code * 16 + (*digit as char).to_digit(16).unwrap_or(0));
        self.at += 4;
        Ok(code)
    }

    fn unicode_escape(&mut self, text: &mut String) -> Result<()> {
        let mut code = self.four_digits()?;
        if (0xd800..0xdc00).contains(&code) {
            let is_escaped = self.text[self.at..].starts_with("\\u");
            if !is_escaped {
                return Err(invalid("Unicode low surrogate must follow a high surrogate."));
            }
            self.at += 2;
            let low = self.four_digits()?;
            if !(0xdc00..0xe000).contains(&low) {
                return Err(invalid("Unicode low surrogate must follow a high surrogate."));
            }
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        if code == 0 && self.builds {
            let error =
                SqlError::new(SqlState::UNTRANSLATABLE_CHARACTER, "unsupported Unicode escape sequence");
            return Err(error.with_detail("\\u0000 cannot be converted to text."));
        }
        let character = char::from_u32(code);
        text.push(character.ok_or_else(|| invalid("Unicode low surrogate must follow a high surrogate."))?);
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<Jsonb> {
        self.at += 1;
        let mut values = Vec::new();
        self.blanks();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(Jsonb::Array(values));
        }
        loop {
            let value = self.value(depth + 1)?;
            if self.builds {
                values.push(value);
            }
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(Jsonb::Array(values));
                }
                _ => return Err(self.unexpected("\",\" or \"]\"")),
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Jsonb> {
        self.at += 1;
        let mut pairs: Vec<(Arc<str>, Jsonb)> = Vec::new();
        self.blanks();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(Jsonb::Object(Members::default()));
        }
        loop {
            self.blanks();
            if self.peek() != Some(b'"') {
                return Err(self.unexpected("string"));
            }
            let key = self.string()?;
            self.blanks();
            if self.peek() != Some(b':') {
                return Err(self.unexpected("\":\""));
            }
            self.at += 1;
            let value = self.value(depth + 1)?;
            if self.builds {
                pairs.push((key.into(), value));
            }
            self.blanks();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(Jsonb::Object(Members::from_pairs(pairs)));
                }
                _ => return Err(self.unexpected("\",\" or \"}\"")),
            }
        }
    }
}

/// A tree as text, with a blank after each comma and colon.
pub fn jsonb_text(value: &Jsonb) -> Result<String> {
    let mut text = String::new();
    write_jsonb(value, &mut text)?;
    Ok(text)
}

/// Appends a tree to a text, with a blank after each comma and colon.
pub fn write_jsonb(value: &Jsonb, out: &mut String) -> Result<()> {
    step()?;
    match value {
        Jsonb::Null => out.push_str("null"),
        Jsonb::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Jsonb::Number(number) => out.push_str(&number.to_string()),
        Jsonb::String(text) => push_json_string(text, out),
        Jsonb::Array(values) => {
            out.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                write_jsonb(value, out)?;
            }
            out.push(']');
        }
        Jsonb::Object(members) => {
            out.push('{');
            for (at, (key, value)) in members.iter().enumerate() {
                if at > 0 {
                    out.push_str(", ");
                }
                push_json_string(key, out);
                out.push_str(": ");
                write_jsonb(value, out)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

/// Appends a JSON string in its quotation marks.
pub fn push_json_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            control if (control as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", control as u32)),
            plain => out.push(plain),
        }
    }
    out.push('"');
}

/// A tree with line breaks and four blanks for each level (`jsonb_pretty`).
pub fn pretty_text(value: &Jsonb) -> Result<String> {
    let mut text = String::new();
    write_pretty(value, 0, &mut text)?;
    Ok(text)
}

fn write_pretty(value: &Jsonb, depth: usize, out: &mut String) -> Result<()> {
    let line = |depth: usize, out: &mut String| {
        out.push('\n');
        out.push_str(&" ".repeat(4 * depth));
    };
    match value {
        Jsonb::Array(values) => {
            out.push('[');
            for (at, value) in values.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                line(depth + 1, out);
                write_pretty(value, depth + 1, out)?;
            }
            line(depth, out);
            out.push(']');
        }
        Jsonb::Object(members) => {
            out.push('{');
            for (at, (key, value)) in members.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                line(depth + 1, out);
                push_json_string(key, out);
                out.push_str(": ");
                write_pretty(value, depth + 1, out)?;
            }
            line(depth, out);
            out.push('}');
        }
        scalar => write_jsonb(scalar, out)?,
    }
    Ok(())
}
