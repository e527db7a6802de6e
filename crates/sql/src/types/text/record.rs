//! Rows as text: `(1,"a b",)`.

use super::write_text;
use crate::error::Result;
use crate::types::Environment;
use crate::types::record::RecordValue;

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
