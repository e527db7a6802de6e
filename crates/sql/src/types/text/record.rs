//! Rows as text: `(1,"a b",)`.

use super::write_text;
use crate::error::{Result, SqlError, SqlState};
use crate::types::record::RecordValue;
use crate::types::{Environment, Value};

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
