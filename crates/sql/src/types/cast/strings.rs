//! Casts among the string types, and the modifiers of every type: lengths, precisions, fields.

use super::CastContext::{Assignment, Explicit, Implicit};
use super::{CastEntry, entry, relabel};
use crate::error::{Result, SqlError, SqlState};
use crate::types::array::ArrayValue;
use crate::types::interval::round_micros;
use crate::types::text::{char_from_text, char_text, to_text};
use crate::types::{Environment, Modifier, Type, Value, bits, top_k};

/// The table.
pub(super) const CASTS: &[CastEntry] = &[
    relabel(Type::Text, Type::Varchar, Implicit, |_, v| Ok(v.clone())),
    relabel(Type::Text, Type::Bpchar, Implicit, |_, v| Ok(Value::Bpchar(v.str().into()))),
    relabel(Type::Varchar, Type::Text, Implicit, |_, v| Ok(v.clone())),
    relabel(Type::Varchar, Type::Bpchar, Implicit, |_, v| Ok(Value::Bpchar(v.str().into()))),
    entry(Type::Bpchar, Type::Text, Implicit, |_, v| Ok(Value::text(v.str().trim_end_matches(' ')))),
    entry(Type::Bpchar, Type::Varchar, Implicit, |_, v| Ok(Value::text(v.str().trim_end_matches(' ')))),
    entry(Type::Text, Type::Name, Implicit, |_, v| name(v.str())),
    entry(Type::Varchar, Type::Name, Implicit, |_, v| name(v.str())),
    entry(Type::Bpchar, Type::Name, Implicit, |_, v| name(v.str().trim_end_matches(' '))),
    entry(Type::Name, Type::Text, Implicit, |_, v| Ok(v.clone())),
    entry(Type::Name, Type::Varchar, Assignment, |_, v| Ok(v.clone())),
    entry(Type::Name, Type::Bpchar, Assignment, |_, v| Ok(Value::Bpchar(v.str().into()))),
    entry(Type::Char, Type::Text, Implicit, |_, v| Ok(Value::text(char_text(v.str())))),
    entry(Type::Char, Type::Varchar, Assignment, |_, v| Ok(Value::text(char_text(v.str())))),
    entry(Type::Char, Type::Bpchar, Assignment, |_, v| Ok(Value::Bpchar(char_text(v.str()).into()))),
    entry(Type::Text, Type::Char, Assignment, |_, v| Ok(char_from_text(v.str()))),
    entry(Type::Varchar, Type::Char, Assignment, |_, v| Ok(char_from_text(v.str()))),
    entry(Type::Bpchar, Type::Char, Assignment, |_, v| Ok(char_from_text(v.str()))),
    entry(Type::Char, Type::Int4, Explicit, |_, v| {
        Ok(Value::Int4(v.str().chars().next().map_or(0, |code| i32::from(code as u8 as i8))))
    }),
    entry(Type::Int4, Type::Char, Explicit, int4_to_char),
    entry(Type::Bool, Type::Text, Assignment, |_, v| Ok(bool_text(v))),
    entry(Type::Bool, Type::Varchar, Assignment, |_, v| Ok(bool_text(v))),
    entry(Type::Bool, Type::Bpchar, Assignment, |_, v| Ok(Value::Bpchar(bool_text(v).str().into()))),
    relabel(Type::Bit, Type::Varbit, Implicit, |_, v| Ok(v.clone())),
    relabel(Type::Varbit, Type::Bit, Implicit, |_, v| Ok(v.clone())),
    entry(Type::Bit, Type::Int4, Explicit, |_, v| {
        Ok(Value::Int4(bits::number(v.str(), 32, "integer")? as i32))
    }),
    entry(Type::Bit, Type::Int8, Explicit, |_, v| Ok(Value::Int8(bits::number(v.str(), 64, "bigint")?))),
    entry(Type::Int4, Type::Bit, Explicit, |_, v| Ok(bits::of_number(v.any_int(), Modifier::NONE))),
    entry(Type::Int8, Type::Bit, Explicit, |_, v| Ok(bits::of_number(v.any_int(), Modifier::NONE))),
    entry(Type::Text, Type::Regclass, Implicit, to_regclass),
    entry(Type::Varchar, Type::Regclass, Implicit, to_regclass),
];

fn name(text: &str) -> Result<Value> {
    let end = (0..=text.len().min(63)).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    Ok(Value::text(&text[..end]))
}

fn int4_to_char(_: &mut dyn Environment, value: &Value) -> Result<Value> {
    match value.int4() {
        0 => Ok(Value::text("")),
        code @ -128..=127 => Ok(Value::text((code as u8 as char).to_string())),
        _ => Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "\"char\" out of range")),
    }
}

/// The cast prints `true` and `false` where the output function prints `t` and `f`.
fn bool_text(value: &Value) -> Value {
    Value::text(if value.bool() { "true" } else { "false" })
}

fn to_regclass(environment: &mut dyn Environment, value: &Value) -> Result<Value> {
    let text = to_text(environment, Type::Text, value)?;
    crate::types::text::from_text(environment, Type::Regclass, Modifier::NONE, &text)
}

/// Makes a value fit its type's modifier: cuts or pads texts, rounds numbers and times. Where the cast was not explicit,
/// a text that is too long is an error unless only blanks are cut.
pub fn apply_modifier(kind: Type, modifier: Modifier, value: Value, is_explicit: bool) -> Result<Value> {
    if modifier.is_none() {
        return Ok(value);
    }
    Ok(match (kind, value) {
        (_, Value::Null) => Value::Null,
        (Type::Varchar, Value::Text(text)) => match cut(&text, modifier, is_explicit, "character varying")? {
            Some(kept) => Value::text(kept),
            None => Value::Text(text),
        },
        (Type::Bpchar, Value::Bpchar(text)) => {
            let kept = cut(&text, modifier, is_explicit, "character")?.unwrap_or(&text);
            let missing = modifier.characters().unwrap_or(0).saturating_sub(kept.chars().count());
            if missing == 0 && kept.len() == text.len() {
                Value::Bpchar(text)
            } else {
                Value::Bpchar(format!("{kept}{}", " ".repeat(missing)).into())
            }
        }
        (Type::Bit | Type::Varbit, Value::Text(text)) => bits::fit(kind, modifier, &text, is_explicit)?,
        (Type::TopK, set @ Value::Bytes(_)) => top_k::limited(set, modifier)?,
        (Type::Numeric, Value::Numeric(number)) => Value::Numeric(number.with_modifier(modifier)?),
        (Type::Time, Value::Time(time)) => Value::Time(round_micros(time, modifier.0)),
        (Type::Timetz, Value::Timetz(time, zone)) => Value::Timetz(round_micros(time, modifier.0), zone),
        (Type::Timestamp, Value::Timestamp(time)) => Value::Timestamp(round_timestamp(time, modifier)?),
        (Type::Timestamptz, Value::Timestamptz(time)) => Value::Timestamptz(round_timestamp(time, modifier)?),
        (Type::Interval, Value::Interval(interval)) => Value::Interval(interval.with_modifier(modifier)),
        (Type::Array(element), Value::Array(array)) => {
            let element = element.get();
            let fit = |value: &Value| apply_modifier(element, modifier, value.clone(), is_explicit);
            let values = array.values.iter().map(fit).collect::<Result<Vec<Value>>>()?;
            Value::array(ArrayValue { element, dimensions: array.dimensions.clone(), values })
        }
        (_, value) => value,
    })
}

fn round_timestamp(time: i64, modifier: Modifier) -> Result<i64> {
    if crate::types::datetime::is_infinite(time) {
        return Ok(time);
    }
    crate::types::datetime::check_timestamp(round_micros(time, modifier.0))
}

/// The first characters of a text, if it is longer than the modifier allows.
fn cut<'t>(text: &'t str, modifier: Modifier, is_explicit: bool, kind: &str) -> Result<Option<&'t str>> {
    let Some(most) = modifier.characters() else { return Ok(None) };
    let Some((end, _)) = text.char_indices().nth(most) else { return Ok(None) };
    if !is_explicit && text[end..].bytes().any(|byte| byte != b' ') {
        let message = format!("value too long for type {kind}({most})");
        return Err(SqlError::new(SqlState::STRING_DATA_RIGHT_TRUNCATION, message));
    }
    Ok(Some(&text[..end]))
}
