//! Parts of a `json` text, as slices of it: `json` keeps blanks, digits and repeated keys as they were written.
//!
//! Invariant: texts have been checked when they became `json`, so that scanning needs no errors but those of
//! [`unquoted`]; nesting is followed
//! without recursion.

use crate::error::Result;
use crate::types::Value;
use crate::types::jsonb::Jsonb;
use crate::types::text::parse_jsonb;

/// The shape of a document at its top.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Object,
    Array,
    String,
    Number,
    Bool,
    Null,
}

fn blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// Returns the document's shape.
pub(super) fn shape(text: &str) -> Shape {
    match text.trim_start_matches(blank).bytes().next() {
        Some(b'{') => Shape::Object,
        Some(b'[') => Shape::Array,
        Some(b'"') => Shape::String,
        Some(b't' | b'f') => Shape::Bool,
        Some(b'n') => Shape::Null,
        _ => Shape::Number,
    }
}

/// The length of the string at the start of a text, with its quotation marks.
fn string_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

/// The length of the value at the start of a text.
fn value_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (0, 0);
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at += string_length(&text[at..]),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => {
                depth -= 1;
                at += 1;
            }
            b',' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => return at,
            _ => {
                at += 1;
                continue;
            }
        }
        if depth == 0 {
            return at;
        }
    }
    at
}

/// A string without its marks and escapes.
///
/// # Errors
/// 22P05: an escape that no text can hold. 57014.
pub(super) fn unquoted(text: &str) -> Result<String> {
    Ok(match parse_jsonb(text)? {
        Jsonb::String(string) => string.to_string(),
        _ => text.to_string(),
    })
}

/// The elements of an array.
pub(super) fn elements(text: &str) -> Vec<&str> {
    let mut rest = text.trim_matches(blank);
    rest = rest.strip_prefix('[').unwrap_or(rest);
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start_matches(|c: char| blank(c) || c == ',');
        if rest.is_empty() || rest.starts_with(']') {
            return found;
        }
        let (element, after) = rest.split_at(value_length(rest).max(1));
        found.push(element);
        rest = after;
    }
}

/// The members of an object: keys without marks, values as they are written.
///
/// # Errors
/// Same errors as [`unquoted`].
pub(super) fn members(text: &str) -> Result<Vec<(String, &str)>> {
    let mut rest = text.trim_matches(blank);
    rest = rest.strip_prefix('{').unwrap_or(rest);
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start_matches(|c: char| blank(c) || c == ',');
        if !rest.starts_with('"') {
            return Ok(found);
        }
        let (key, after) = rest.split_at(string_length(rest));
        let value = after.trim_start_matches(|c: char| blank(c) || c == ':');
        let (value, after) = value.split_at(value_length(value));
        found.push((unquoted(key)?, value));
        rest = after;
    }
}

/// The member with this key; the last of several.
///
/// # Errors
/// Same errors as [`unquoted`].
pub(super) fn member<'t>(text: &'t str, key: &str) -> Result<Option<&'t str>> {
    if shape(text) != Shape::Object {
        return Ok(None);
    }
    Ok(members(text)?.into_iter().rev().find(|(name, _)| name == key).map(|(_, value)| value))
}

/// The element at this place; negative ones count from the end.
pub(super) fn element(text: &str, at: i32) -> Option<&str> {
    if shape(text) != Shape::Array {
        return None;
    }
    let all = elements(text);
    let place = if at < 0 { all.len().checked_sub(at.unsigned_abs() as usize)? } else { at as usize };
    all.get(place).copied()
}

/// A part as text: strings without their marks, `null` as nothing.
///
/// # Errors
/// Same errors as [`unquoted`].
pub(super) fn as_text(part: &str) -> Result<Value> {
    Ok(match shape(part) {
        Shape::Null => Value::Null,
        Shape::String => Value::text(unquoted(part)?),
        _ => Value::text(part),
    })
}

/// The document without members that are null, and without blanks.
///
/// # Errors
/// Same errors as [`unquoted`].
pub(super) fn without_nulls(text: &str, out: &mut String) -> Result<()> {
    match shape(text) {
        Shape::Object => {
            out.push('{');
            let mut is_first = true;
            for (key, value) in members(text)?.into_iter().filter(|(_, value)| shape(value) != Shape::Null) {
                if !is_first {
                    out.push(',');
                }
                is_first = false;
                crate::types::text::push_json_string(&key, out);
                out.push(':');
                without_nulls(value, out)?;
            }
            out.push('}');
        }
        Shape::Array => {
            out.push('[');
            for (at, element) in elements(text).into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                without_nulls(element, out)?;
            }
            out.push(']');
        }
        _ => out.push_str(text.trim_matches(blank)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::SqlState;
    use crate::interrupt::{self, Interrupt};

    #[test]
    fn parts_stay_as_they_were_written() {
        let text = r#" { "a" : 1.50 , "b\"" : [ 1, {"x": "]"} ], "a" : "\u0041" } "#;
        let member = |text, key| member(text, key).expect("no statement is interrupted");
        assert_eq!(member(text, "a"), Some(r#""\u0041""#));
        assert_eq!(member(text, "b\""), Some(r#"[ 1, {"x": "]"} ]"#));
        assert_eq!(as_text(member(text, "a").unwrap()).unwrap().str(), "A");
        let array = member(text, "b\"").unwrap();
        assert_eq!(elements(array), ["1", r#"{"x": "]"}"#]);
        assert_eq!(element(array, -1), Some(r#"{"x": "]"}"#));
        assert_eq!(element(array, 2), None);
        assert!(elements(" [ ] ").is_empty() && members("{}").unwrap().is_empty());
    }

    #[test]
    fn an_interrupted_statement_gets_an_error_or_the_string() {
        let canceled = Interrupt::new();
        canceled.cancel();
        let _entered = interrupt::enter(Some(canceled));
        let text = r#"{"k": "abc"}"#;
        let mut errors = 0;
        for _ in 0..10_000 {
            match member(text, "k").and_then(|part| as_text(part.unwrap())) {
                Ok(value) => assert_eq!(value.str(), "abc"),
                Err(error) => {
                    assert_eq!(error.state(), SqlState::QUERY_CANCELED);
                    errors += 1;
                }
            }
        }
        assert!(errors > 0);
    }

    #[test]
    fn nulls_go_out_of_objects_only() {
        let mut out = String::new();
        without_nulls(r#"{"a": null, "b": [null, {"c": null}], "d": 1}"#, &mut out).unwrap();
        assert_eq!(out, r#"{"b":[null,{}],"d":1}"#);
    }
}
