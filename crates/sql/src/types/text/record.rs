//! Rows as text: `(1,"a b",)`.
//!
//! Source: PostgreSQL 15, `record_in` in `rowtypes.c`.

use super::{from_text, write_text};
use crate::error::{Result, SqlError, SqlState};
use crate::interrupt::step;
use crate::types::cast::apply_modifier;
use crate::types::record::{RecordValue, Shape};
use crate::types::{Environment, Modifier, Type, Value};

/// The longest text of rows in a row. Each level doubles the quotes of the one in it.
const INNER_BYTES_MAX: usize = 64 << 20;

/// Appends a row as text; NULL is nothing at all.
pub(super) fn write_record(
    environment: &dyn Environment,
    record: &RecordValue,
    out: &mut String,
) -> Result<()> {
    out.push('(');
    for (at, (field, value)) in record.fields.iter().zip(&record.values).enumerate() {
        if at > 0 {
            out.push(',');
        }
        if value.is_null() {
            continue;
        }
        let mut text = String::new();
        write_text(environment, field.kind, value, &mut text)?;
        if text.len() > INNER_BYTES_MAX && matches!(value, Value::Record(_) | Value::Array(_)) {
            let message = format!("the text of what lies in a row is longer than {INNER_BYTES_MAX} bytes");
            let error = SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message);
            return Err(error.with_hint("Nest rows in fewer levels, or print them as JSON."));
        }
        let is_special =
            |c: char| matches!(c, '(' | ')' | ',' | '"' | '\\') || c.is_ascii_whitespace() || c == '\x0b';
        if !text.is_empty() && !text.contains(is_special) {
            out.push_str(&text);
            continue;
        }
        out.push('"');
        for character in text.chars() {
            if matches!(character, '"' | '\\') {
                out.push(character);
            }
            out.push(character);
        }
        out.push('"');
    }
    out.push(')');
    Ok(())
}

fn malformed(text: &str, detail: &str) -> SqlError {
    let message = format!("malformed record literal: \"{text}\"");
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).with_detail(detail)
}

/// The fields of a composite type.
///
/// # Errors
/// 42704: there is no such type.
pub(crate) fn shape_of(environment: &dyn Environment, oid: u32) -> Result<std::sync::Arc<Shape>> {
    environment.shape(oid).ok_or_else(|| {
        SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type with OID {oid} does not exist"))
    })
}

/// A text as a row of a composite type.
pub(super) fn parse_record(environment: &dyn Environment, oid: u32, text: &str) -> Result<Value> {
    let shape = shape_of(environment, oid)?;
    let is_blank = |c: char| c.is_ascii_whitespace() || c == '\x0b';
    let body = text.trim_start_matches(is_blank);
    let mut rest = body.strip_prefix('(').ok_or_else(|| malformed(text, "Missing left parenthesis."))?;
    let mut values = Vec::with_capacity(shape.fields.len());
    for (at, field) in shape.fields.iter().enumerate() {
        if at > 0 {
            rest = rest.strip_prefix(',').ok_or_else(|| malformed(text, "Too few columns."))?;
        }
        let item = field_text(text, &mut rest)?;
        let modifier = shape.modifiers[at];
        values.push(match item {
            None => Value::Null,
            Some(item) => {
                let input = if field.kind == Type::Interval { modifier } else { Modifier::NONE };
                let value = from_text(environment, field.kind, input, &item)?;
                if modifier.is_none() { value } else { apply_modifier(field.kind, modifier, value, false)? }
            }
        });
    }
    let rest = rest.strip_prefix(')').ok_or_else(|| malformed(text, "Too many columns."))?;
    if !rest.trim_matches(is_blank).is_empty() {
        return Err(malformed(text, "Junk after right parenthesis."));
    }
    RecordValue { fields: shape.fields.clone(), values: values.into() }.composed()
}

/// The text of the next field, without its quotes; `None` if there is nothing.
fn field_text(text: &str, rest: &mut &str) -> Result<Option<String>> {
    if rest.starts_with([',', ')']) {
        return Ok(None);
    }
    let (mut item, mut is_quoted) = (String::new(), false);
    loop {
        step()?;
        let mut characters = rest.chars();
        let Some(character) = characters.next() else {
            return Err(malformed(text, "Unexpected end of input."));
        };
        match character {
            ',' | ')' if !is_quoted => return Ok(Some(item)),
            '\\' => {
                let Some(next) = characters.next() else {
                    return Err(malformed(text, "Unexpected end of input."));
                };
                item.push(next);
            }
            '"' if is_quoted && characters.clone().next() == Some('"') => {
                characters.next();
                item.push('"');
            }
            '"' => is_quoted = !is_quoted,
            other => item.push(other),
        }
        *rest = characters.as_str();
    }
}
