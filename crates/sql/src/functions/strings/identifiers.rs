//! `parse_ident`: the parts of a qualified name.
//!
//! Source: PostgreSQL 15, `parse_ident` in `misc.c`.

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, scalar};
use crate::types::array::ArrayValue;
use crate::types::{Type, Value};

/// The table of functions.
pub(super) const FUNCTIONS: &[Definition] =
    &[scalar("parse_ident(str text, strict bool = true) text[]", parse_ident)];

fn parse_ident(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let is_strict = v[1].bool();
    let whole = v[0].str();
    let refused = |detail: &str| {
        let message = format!("string is not a valid identifier: \"{whole}\"");
        let error = SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
        if detail.is_empty() { error } else { error.with_detail(detail) }
    };
    let mut names = Vec::new();
    let mut rest = without_blanks(whole);
    loop {
        let (name, behind) = if let Some(quoted) = rest.strip_prefix('"') {
            let Some((name, behind)) = quoted_name(quoted) else {
                return Err(refused("String has unclosed double quotes."));
            };
            if name.is_empty() {
                return Err(refused("Quoted identifier must not be empty."));
            }
            (name, behind)
        } else if rest.starts_with(begins_name) {
            let (name, behind) = rest.split_at(rest.find(|c| !continues_name(c)).unwrap_or(rest.len()));
            (name.to_ascii_lowercase(), behind)
        } else {
            return Err(refused(match names.is_empty() {
                _ if rest.starts_with('.') => "No valid identifier before \".\".",
                false => "No valid identifier after \".\".",
                true => "",
            }));
        };
        names.push(Value::text(name));
        let behind = without_blanks(behind);
        match behind.strip_prefix('.') {
            Some(next) => rest = without_blanks(next),
            None if behind.is_empty() || !is_strict => break,
            None => return Err(refused("")),
        }
    }
    Ok(Value::array(ArrayValue::list(Type::Text, names)))
}

/// A quoted name without its quotes, and the rest of the text.
fn quoted_name(text: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut rest = text;
    loop {
        let (part, behind) = rest.split_once('"')?;
        name.push_str(part);
        match behind.strip_prefix('"') {
            Some(next) => {
                name.push('"');
                rest = next;
            }
            None => return Some((name, behind)),
        }
    }
}

fn without_blanks(text: &str) -> &str {
    text.trim_start_matches([' ', '\t', '\n', '\r', '\x0c'])
}

fn begins_name(c: char) -> bool {
    c == '_' || c.is_ascii_alphabetic() || !c.is_ascii()
}

fn continues_name(c: char) -> bool {
    begins_name(c) || c.is_ascii_digit() || c == '$'
}
