//! Templates of `to_char` and `to_number`: their parts, and the format that these mean together.
//!
//! Source: PostgreSQL 15, `formatting.c`: `NUM_keywords`, `parse_format`, `NUMDesc_prepare`.

use crate::error::{Result, SqlError, SqlState};
use crate::interrupt;

/// The patterns; one that is a prefix of others follows them.
const PATTERNS: [&str; 20] = [
    "EEEE", "FM", "MI", "PL", "PR", "RN", "SG", "SP", "TH", "S", "V", "L", "D", "G", "B", "C", ".", ",", "9",
    "0",
];

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// `9`
    Nine,
    /// `0`
    Zero,
    /// `.` or `D`
    Point,
    /// `,`
    Comma,
    /// `G`: a comma, too
    Group,
    /// `S`
    Sign,
    /// `SG`
    SignAlways,
    /// `MI`
    Minus,
    /// `PL`
    Plus,
    /// `TH` or `th`
    Ordinal(bool),
    /// `V`
    Shift,
    /// `RN` or `rn`
    Roman(bool),
    /// `L`: the currency sign is a blank
    Currency,
    /// Text that is copied.
    Text(String),
}

/// A template, and what its parts mean together.
#[derive(Default)]
pub(super) struct Template {
    pub nodes: Vec<Node>,
    pub is_filled: bool,
    pub has_brackets: bool,
    pub is_exponential: bool,
    pub is_roman: bool,
    pub has_sign: bool,
    /// `SG`, `MI` or `PL`.
    pub has_other_sign: bool,
    pub has_point: bool,
    pub has_shift: bool,
    /// `B` before any digit.
    is_blank: bool,
    /// Digits before and after the point, and those that V shifts by.
    pub before: usize,
    pub behind: usize,
    pub shift: usize,
    /// The first digit before the point that is a zero.
    pub first_zero: Option<usize>,
    /// The last zero after the point.
    pub last_zero: usize,
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::SYNTAX_ERROR, message)
}

/// A text up to the closing quote, and the rest; a backslash precedes a literal character.
fn quoted(text: &str) -> (String, &str) {
    let mut inside = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (inside, &text[at + 1..]),
            '\\' => inside.extend(characters.next().map(|(_, escaped)| escaped)),
            other => inside.push(other),
        }
    }
    (inside, "")
}

/// The pattern that a template begins with, in capitals.
fn pattern(rest: &str) -> Option<&'static str> {
    PATTERNS.into_iter().find(|pattern| {
        let written = rest.as_bytes().get(..pattern.len()).unwrap_or_default();
        written == pattern.as_bytes()
            || written.iter().copied().eq(pattern.bytes().map(|letter| letter.to_ascii_lowercase()))
    })
}

impl Template {
    pub fn parse(text: &str) -> Result<Template> {
        let mut template = Template::default();
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            interrupt::step()?;
            if let Some(pattern) = pattern(rest) {
                template.add(pattern, first.is_ascii_uppercase())?;
                rest = &rest[pattern.len()..];
            } else if first == '"' {
                let (text, after) = quoted(&rest[1..]);
                template.nodes.push(Node::Text(text));
                rest = after;
            } else {
                // A backslash before a quote makes it text.
                let rest_of_text =
                    rest.strip_prefix('\\').filter(|after| after.starts_with('"')).unwrap_or(rest);
                let length = rest_of_text.chars().next().map_or(0, char::len_utf8);
                template.nodes.push(Node::Text(rest_of_text[..length].to_string()));
                rest = &rest_of_text[length..];
            }
        }
        Ok(template)
    }

    /// Adds a pattern, if it may follow those before it.
    fn add(&mut self, pattern: &str, is_upper: bool) -> Result<()> {
        self.check(pattern)?;
        match pattern {
            "EEEE" => self.is_exponential = true,
            "FM" => self.is_filled = true,
            "PR" => self.has_brackets = true,
            "B" => self.is_blank |= self.before + self.behind == 0,
            _ => {}
        }
        let node = match pattern {
            "EEEE" | "FM" | "PR" | "B" | "SP" | "C" => return Ok(()),
            "MI" => Node::Minus,
            "PL" => Node::Plus,
            "SG" => Node::SignAlways,
            "TH" => Node::Ordinal(is_upper),
            "RN" => Node::Roman(is_upper),
            "S" => Node::Sign,
            "V" => Node::Shift,
            "L" => Node::Currency,
            "G" => Node::Group,
            "," => Node::Comma,
            "9" | "0" => self.digit(pattern == "0"),
            _ => Node::Point,
        };
        match node {
            Node::Sign => self.has_sign = true,
            Node::Minus | Node::Plus | Node::SignAlways => self.has_other_sign = true,
            Node::Point => self.has_point = true,
            Node::Shift => self.has_shift = true,
            Node::Roman(_) => self.is_roman = true,
            _ => {}
        }
        self.nodes.push(node);
        Ok(())
    }

    /// Counts a digit.
    fn digit(&mut self, is_zero: bool) -> Node {
        if self.has_point {
            self.behind += 1;
            if is_zero {
                self.last_zero = self.behind;
            }
        } else {
            if is_zero && self.first_zero.is_none() {
                self.first_zero = Some(self.before);
            }
            self.before += 1;
            self.shift += usize::from(!is_zero && self.has_shift);
        }
        if is_zero { Node::Zero } else { Node::Nine }
    }

    /// Checks that a pattern may follow those before it.
    fn check(&self, pattern: &str) -> Result<()> {
        let (sign, other_sign) = (self.has_sign, self.has_other_sign);
        let (point, shift) = (self.has_point, self.has_shift);
        let message = match pattern {
            "EEEE" if self.is_exponential => "cannot use \"EEEE\" twice".to_string(),
            _ if self.is_exponential => "\"EEEE\" must be the last pattern used".to_string(),
            "9" | "0" if self.has_brackets => format!("\"{pattern}\" must be ahead of \"PR\""),
            "." | "D" if point => "multiple decimal points".to_string(),
            "." | "D" if shift => "cannot use \"V\" and decimal point together".to_string(),
            "V" if point => "cannot use \"V\" and decimal point together".to_string(),
            "S" if sign => "cannot use \"S\" twice".to_string(),
            "S" if other_sign || self.has_brackets => {
                "cannot use \"S\" and \"PL\"/\"MI\"/\"SG\"/\"PR\" together".to_string()
            }
            "MI" | "PL" | "SG" if sign => format!("cannot use \"S\" and \"{pattern}\" together"),
            "PR" if sign || other_sign => {
                "cannot use \"PR\" and \"S\"/\"PL\"/\"MI\"/\"SG\" together".to_string()
            }
            "EEEE" => {
                let with_signs = sign || other_sign || self.has_brackets;
                if !(with_signs || self.is_blank || self.is_filled || self.is_roman || shift) {
                    return Ok(());
                }
                let detail = "\"EEEE\" may only be used together with digit and decimal point patterns.";
                return Err(invalid("\"EEEE\" is incompatible with other formats").with_detail(detail));
            }
            _ => return Ok(()),
        };
        Err(invalid(message))
    }

    /// Returns true if `S` is before the digits.
    pub fn sign_is_leading(&self) -> bool {
        let sign = self.nodes.iter().position(|node| *node == Node::Sign);
        let digit = self.nodes.iter().position(|node| matches!(node, Node::Nine | Node::Zero));
        sign < digit
    }

    /// Reads all nodes: once for a template, not once for each of its nodes.
    pub fn has(&self, wanted: &[Node]) -> bool {
        self.nodes.iter().any(|node| wanted.contains(node))
    }
}
