//! Templates of `to_char`, `to_date` and `to_timestamp`: keywords with their prefixes and suffixes, and literal text.
//!
//! Source: PostgreSQL 15, `formatting.c`: `DCH_keywords`, `parse_format`.

use crate::error::Result;
use crate::interrupt;

/// A part of a template.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    /// A keyword.
    Field(Field),
    /// `FX`: from here on a text has exactly the template's characters.
    Fixed,
    /// A blank, or a character that is no letter and no digit.
    Separator(char),
    /// Any other character.
    Text(char),
}

impl Node {
    /// Returns true if the text that is read for this begins with a digit.
    pub fn is_digits(&self) -> bool {
        match self {
            Node::Field(field) => !NO_DIGITS.contains(&field.keyword) && !field.keyword.starts_with("FF"),
            Node::Fixed | Node::Separator(_) => false,
            Node::Text(character) => character.is_ascii_digit(),
        }
    }
}

/// A keyword with its prefixes and suffixes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    /// The keyword in upper case.
    pub keyword: &'static str,
    /// The case in which its name is written.
    pub case: Case,
    /// `FM`: without padding.
    pub is_filled: bool,
    /// `TM`: names in the locale's spelling, without padding.
    pub is_translated: bool,
    /// `TH` or `th`: an ordinal's ending.
    pub ordinal: Option<Case>,
}

/// The case of letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    Upper,
    Capital,
    Lower,
}

/// Keywords, those before others that begin with them.
const KEYWORDS: &[&str] = &[
    "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "CC", "DAY", "DDD", "DD", "DY", "D", "FF1", "FF2", "FF3",
    "FF4", "FF5", "FF6", "HH24", "HH12", "HH", "IDDD", "ID", "IW", "IYYY", "IYY", "IY", "I", "J", "MI", "MM",
    "MONTH", "MON", "MS", "OF", "P.M.", "PM", "Q", "RM", "SSSSS", "SSSS", "SS", "TZH", "TZM", "TZ", "US",
    "WW", "W", "Y,YYY", "YYYY", "YYY", "YY", "Y",
];
/// Keywords whose letters may also be capitalized.
const NAMES: &[&str] = &["DAY", "DY", "MONTH", "MON"];

/// Keywords for text other than digits.
const NO_DIGITS: &[&str] = &[
    "A.D.", "A.M.", "AD", "AM", "B.C.", "BC", "DAY", "DY", "MONTH", "MON", "OF", "P.M.", "PM", "RM", "TZH",
    "TZ",
];

fn keyword_at(text: &str) -> Option<(&'static str, Case)> {
    KEYWORDS.iter().find_map(|keyword| {
        let written = text.get(..keyword.len())?;
        if !written.eq_ignore_ascii_case(keyword) {
            return None;
        }
        let is_lower = |text: &str| !text.bytes().any(|letter| letter.is_ascii_uppercase());
        if written == *keyword {
            Some((*keyword, Case::Upper))
        } else if is_lower(written) {
            Some((*keyword, Case::Lower))
        } else if NAMES.contains(keyword) && written.starts_with(&keyword[..1]) && is_lower(&written[1..]) {
            Some((*keyword, Case::Capital))
        } else {
            None
        }
    })
}

/// The parts of a template.
///
/// # Errors
/// 57014: the statement was canceled, or its time is up.
pub(super) fn parse(template: &str) -> Result<Vec<Node>> {
    let mut nodes = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        interrupt::step()?;
        let mut after = rest;
        let prefix = ["FM", "fm", "TM", "tm"].iter().find(|prefix| rest.starts_with(**prefix));
        after = prefix.map_or(after, |prefix| &after[prefix.len()..]);
        let (is_filled, is_translated) =
            (matches!(prefix, Some(&("FM" | "fm"))), matches!(prefix, Some(&("TM" | "tm"))));
        if let Some(next) = after.strip_prefix("FX").or_else(|| after.strip_prefix("fx")) {
            nodes.push(Node::Fixed);
            rest = next;
            continue;
        }
        if let Some((keyword, case)) = keyword_at(after) {
            after = &after[keyword.len()..];
            let mut ordinal = None;
            if let Some(next) = after.strip_prefix("TH") {
                (ordinal, after) = (Some(Case::Upper), next);
            } else if let Some(next) = after.strip_prefix("th") {
                (ordinal, after) = (Some(Case::Lower), next);
            } else {
                after = after.strip_prefix("SP").unwrap_or(after);
            }
            nodes.push(Node::Field(Field { keyword, case, is_filled, is_translated, ordinal }));
            rest = after;
            continue;
        }
        rest = if after.is_empty() { after } else { literal(after, &mut nodes) };
    }
    Ok(nodes)
}

/// Quoted text, an escaped quotation mark, or one character.
fn literal<'t>(rest: &'t str, nodes: &mut Vec<Node>) -> &'t str {
    if let Some(inside) = rest.strip_prefix('"') {
        let mut characters = inside.chars();
        while let Some(character) = characters.next() {
            match character {
                '"' => break,
                '\\' => nodes.push(Node::Text(characters.next().unwrap_or('\\'))),
                plain => nodes.push(Node::Text(plain)),
            }
        }
        return characters.as_str();
    }
    let mut characters =
        rest.strip_prefix('\\').filter(|after| after.starts_with('"')).unwrap_or(rest).chars();
    match characters.next() {
        Some(character) if is_separator(character) || is_space(character) => {
            nodes.push(Node::Separator(character));
        }
        Some(character) => nodes.push(Node::Text(character)),
        None => {}
    }
    characters.as_str()
}

/// Returns true if a character separates fields.
pub(super) fn is_separator(character: char) -> bool {
    character.is_ascii_punctuation()
}

/// Returns true if a character is blank, as C has it.
pub(super) fn is_space(character: char) -> bool {
    character.is_ascii_whitespace() || character == '\x0b'
}

/// The ending of an ordinal number.
pub(super) fn ordinal_ending(digits: &str, case: Case) -> &'static str {
    let bytes = digits.as_bytes();
    let last = bytes.last().copied().unwrap_or(b'0');
    let is_teen = bytes.len() > 1 && bytes[bytes.len() - 2] == b'1';
    let ending = match last {
        b'1' if !is_teen => ("ST", "st"),
        b'2' if !is_teen => ("ND", "nd"),
        b'3' if !is_teen => ("RD", "rd"),
        _ => ("TH", "th"),
    };
    if case == Case::Upper { ending.0 } else { ending.1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_keywords_and_text() {
        let nodes = parse("FMMonth DDth, YYYY \"at\" hh24").expect("not canceled");
        let shown = |node: &Node| match node {
            Node::Field(field) => field.keyword.to_string(),
            Node::Fixed => "FX".to_string(),
            Node::Separator(character) | Node::Text(character) => character.to_string(),
        };
        let fields: Vec<String> = nodes.iter().map(shown).collect();
        assert_eq!(fields, ["MONTH", " ", "DD", ",", " ", "YYYY", " ", "a", "t", " ", "HH24"]);
        let Node::Field(month) = &nodes[0] else { panic!() };
        assert!(month.is_filled && month.case == Case::Capital);
        assert_eq!(ordinal_ending("11", Case::Lower), "th");
        assert_eq!(ordinal_ending("22", Case::Upper), "ND");
    }
}
