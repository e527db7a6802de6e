//! LIKE, ILIKE, and the escapes of LIKE and SIMILAR TO.

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, scalar};
use crate::interrupt;
use crate::types::Value;

/// The table of functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("like(text, text) bool", |_, v| like(v, false)),
    scalar("like(name, text) bool", |_, v| like(v, false)),
    scalar("notlike(text, text) bool", |_, v| like(v, true)),
    scalar("notlike(name, text) bool", |_, v| like(v, true)),
    scalar("like_escape(text, text) text", like_escape),
    scalar("similar_escape(text, text) text", |_, v| similar(&v[0], &v[1])).nullable(),
    scalar("similar_to_escape(text) text", |_, v| similar(&v[0], &Value::text("\\"))),
    scalar("similar_to_escape(text, text) text", |_, v| similar(&v[0], &v[1])),
];

/// The table of operators.
pub(super) const OPERATORS: &[Definition] = &[
    scalar("~~(text, text) bool", |_, v| like(v, false)),
    scalar("~~(name, text) bool", |_, v| like(v, false)),
    scalar("~~(bpchar, text) bool", |_, v| like(v, false)),
    scalar("~~(bytea, bytea) bool", |_, v| like_bytes(v, false)),
    scalar("!~~(text, text) bool", |_, v| like(v, true)),
    scalar("!~~(name, text) bool", |_, v| like(v, true)),
    scalar("!~~(bpchar, text) bool", |_, v| like(v, true)),
    scalar("!~~(bytea, bytea) bool", |_, v| like_bytes(v, true)),
    scalar("~~*(text, text) bool", |_, v| like_folded(v, false)),
    scalar("~~*(name, text) bool", |_, v| like_folded(v, false)),
    scalar("~~*(bpchar, text) bool", |_, v| like_folded(v, false)),
    scalar("!~~*(text, text) bool", |_, v| like_folded(v, true)),
    scalar("!~~*(name, text) bool", |_, v| like_folded(v, true)),
    scalar("!~~*(bpchar, text) bool", |_, v| like_folded(v, true)),
];

fn like(v: &[Value], is_negated: bool) -> Result<Value> {
    let (text, pattern) = (v[0].str(), v[1].str());
    let found = if pattern.is_ascii() && text.is_ascii() {
        matches(text.as_bytes(), pattern.as_bytes(), |c| *c == b'%', |c| *c == b'_', |c| *c == b'\\')?
    } else {
        matches_characters(text, pattern)?
    };
    Ok(Value::Bool(found != is_negated))
}

fn matches_characters(text: &str, pattern: &str) -> Result<bool> {
    let (text, pattern): (Vec<char>, Vec<char>) = (text.chars().collect(), pattern.chars().collect());
    matches(&text, &pattern, |c| *c == '%', |c| *c == '_', |c| *c == '\\')
}

fn like_folded(v: &[Value], is_negated: bool) -> Result<Value> {
    let fold = |text: &str| text.chars().flat_map(char::to_lowercase).collect::<String>();
    Ok(Value::Bool(matches_characters(&fold(v[0].str()), &fold(v[1].str()))? != is_negated))
}

fn like_bytes(v: &[Value], is_negated: bool) -> Result<Value> {
    let (bytes, pattern) = (v[0].as_bytes(), v[1].as_bytes());
    let found = matches(bytes, pattern, |c| *c == b'%', |c| *c == b'_', |c| *c == b'\\')?;
    Ok(Value::Bool(found != is_negated))
}

/// Returns true if all of the text matches. After a mismatch it continues after the last `%`, one element later.
fn matches<T: PartialEq>(
    text: &[T],
    pattern: &[T],
    is_any: impl Fn(&T) -> bool,
    is_one: impl Fn(&T) -> bool,
    is_escape: impl Fn(&T) -> bool,
) -> Result<bool> {
    let (mut at, mut place) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    loop {
        interrupt::step()?;
        let step = match pattern.get(place) {
            None => (at == text.len()).then_some(0),
            Some(wild) if is_any(wild) => {
                place += 1;
                if place == pattern.len() {
                    return Ok(true);
                }
                retry = Some((at, place));
                continue;
            }
            Some(_) if at == text.len() => None,
            Some(one) if is_one(one) => Some(1),
            Some(escape) if is_escape(escape) => match pattern.get(place + 1) {
                None => {
                    let message = "LIKE pattern must not end with escape character";
                    return Err(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, message));
                }
                Some(literal) => (*literal == text[at]).then_some(2),
            },
            Some(literal) => (*literal == text[at]).then_some(1),
        };
        match (step, retry) {
            (Some(0), _) => return Ok(true),
            (Some(step), _) => {
                at += 1;
                place += step;
            }
            (None, Some((from, back))) if from < text.len() => {
                retry = Some((from + 1, back));
                (at, place) = (from + 1, back);
            }
            (None, _) => return Ok(false),
        }
    }
}

/// One character or nothing.
fn escape_character(escape: &str) -> Result<Option<char>> {
    let mut characters = escape.chars();
    let first = characters.next();
    if characters.next().is_some() {
        let error = SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string");
        return Err(error.with_hint("Escape string must be empty or one character."));
    }
    Ok(first)
}

/// A pattern with its own escape character as one with a backslash.
fn like_escape(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let pattern = v[0].str();
    let escape = escape_character(v[1].str())?;
    if escape == Some('\\') {
        return Ok(v[0].clone());
    }
    let mut made = String::with_capacity(pattern.len());
    let mut is_escaped = false;
    for character in pattern.chars() {
        if Some(character) == escape && !is_escaped {
            made.push('\\');
            is_escaped = true;
            continue;
        }
        if character == '\\' && !is_escaped {
            made.push('\\');
        }
        made.push(character);
        is_escaped = false;
    }
    Ok(Value::text(made))
}

/// A pattern of SIMILAR TO as a POSIX regular expression. Two escaped quotation marks delimit what SUBSTRING extracts.
pub(super) fn similar(pattern: &Value, escape: &Value) -> Result<Value> {
    if pattern.is_null() {
        return Ok(Value::Null);
    }
    // A NULL escape is the backslash, for historical reasons.
    let escape = if escape.is_null() { Some('\\') } else { escape_character(escape.str())? };
    let mut made = "^(?:".to_string();
    let (mut is_escaped, mut in_bracket, mut separators) = (false, false, 0);
    for character in pattern.str().chars() {
        if is_escaped {
            is_escaped = false;
            if character == '"' && !in_bracket {
                match separators {
                    0 => made.push_str("){1,1}?("),
                    1 => made.push_str("){1,1}(?:"),
                    _ => {
                        let message = "SQL regular expression may not contain more than two escape-double-quote separators";
                        return Err(SqlError::new(SqlState::INVALID_USE_OF_ESCAPE_CHARACTER, message));
                    }
                }
                separators += 1;
            } else {
                made.push('\\');
                made.push(character);
            }
        } else if Some(character) == escape {
            is_escaped = true;
        } else if in_bracket {
            if character == '\\' {
                made.push('\\');
            }
            made.push(character);
            in_bracket = character != ']';
        } else {
            match character {
                '[' => {
                    made.push('[');
                    in_bracket = true;
                }
                '%' => made.push_str(".*"),
                '_' => made.push('.'),
                '(' => made.push_str("(?:"),
                '\\' | '.' | '^' | '$' => {
                    made.push('\\');
                    made.push(character);
                }
                plain => made.push(plain),
            }
        }
    }
    made.push_str(")$");
    Ok(Value::text(made))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_like(text: &str, pattern: &str) -> bool {
        let Value::Bool(found) = like(&[Value::text(text), Value::text(pattern)], false).unwrap() else {
            panic!()
        };
        found
    }

    #[test]
    fn patterns_match_whole_texts() {
        for (text, pattern, expected) in [
            ("abc", "abc", true),
            ("abc", "a%", true),
            ("abc", "_b_", true),
            ("abc", "b", false),
            ("", "%", true),
            ("", "_", false),
            ("a%c", "a\\%c", true),
            ("abc", "a\\%c", false),
            ("aaab", "%ab", true),
            ("äöü", "_ö_", true),
            ("mississippi", "%iss%ip%i", true),
        ] {
            assert_eq!(is_like(text, pattern), expected, "{text} {pattern}");
        }
        let error = like(&[Value::text("a"), Value::text("a\\")], false);
        assert!(error.is_ok(), "the text ends before the escape is reached");
        assert!(like(&[Value::text("ab"), Value::text("a\\")], false).is_err());
    }

    #[test]
    fn repeated_wildcards_take_no_exponential_time() {
        let text = "a".repeat(2000);
        let pattern = "%a".repeat(200) + "%b";
        assert!(!is_like(&text, &pattern));
    }
}
