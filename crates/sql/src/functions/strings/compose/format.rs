//! The function `format`: conversions, widths and arguments by number.

use super::output;
use super::quote::{quoted_identifier, quoted_literal};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::FunctionContext;
use crate::types::Value;

/// The widest column of `format`, in characters, and the longest text that it makes, in bytes.
const WIDTH_MAX: usize = 1 << 28;

const LENGTH_MAX: usize = 1 << 30;

fn invalid_format(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// A conversion of a format: `%[position$][-][width]type`.
struct Conversion {
    position: Option<usize>,
    is_left: bool,
    width: Option<i64>,
    /// The width is the argument at this place, or the next one (0).
    width_argument: Option<usize>,
    letter: char,
}

fn unterminated() -> SqlError {
    let error = invalid_format("unterminated format() type specifier");
    error.with_hint("For a single \"%\" use \"%%\".")
}

fn parse_conversion(rest: &mut &str) -> Result<Conversion> {
    let mut conversion =
        Conversion { position: None, is_left: false, width: None, width_argument: None, letter: ' ' };
    let number = |rest: &mut &str| -> Result<Option<usize>> {
        let length = rest.bytes().take_while(u8::is_ascii_digit).count();
        if length == 0 {
            return Ok(None);
        }
        let value: i32 = rest[..length]
            .parse()
            .map_err(|_| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "number is out of range"))?;
        *rest = &rest[length..];
        Ok(Some(value as usize))
    };
    let leading = number(rest)?;
    if let Some(leading) = leading {
        if let Some(after) = rest.strip_prefix('$') {
            if leading == 0 {
                return Err(invalid_format("format specifies argument 0, but arguments are numbered from 1"));
            }
            conversion.position = Some(leading);
            *rest = after;
        } else {
            conversion.width = Some(leading as i64);
        }
    }
    if conversion.width.is_none() {
        while let Some(after) = rest.strip_prefix('-') {
            conversion.is_left = true;
            *rest = after;
        }
        if let Some(after) = rest.strip_prefix('*') {
            *rest = after;
            let position = number(rest)?;
            match (position, rest.strip_prefix('$')) {
                (Some(0), Some(_)) => {
                    return Err(invalid_format(
                        "format specifies argument 0, but arguments are numbered from 1",
                    ));
                }
                (Some(position), Some(after)) => {
                    *rest = after;
                    conversion.width_argument = Some(position);
                }
                (Some(_), None) => {
                    return Err(invalid_format("width argument position must be ended by \"$\""));
                }
                (None, _) => conversion.width_argument = Some(0),
            }
        } else {
            conversion.width = number(rest)?.map(|width| width as i64);
        }
    }
    let letter = rest.chars().next().ok_or_else(unterminated)?;
    *rest = &rest[letter.len_utf8()..];
    conversion.letter = letter;
    Ok(conversion)
}

pub(super) fn format(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    if v[0].is_null() {
        return Ok(Value::Null);
    }
    let mut rest = v[0].str();
    let mut text = String::new();
    let mut next = 1;
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            text.push('%');
            rest = after;
            continue;
        }
        let conversion = parse_conversion(&mut rest)?;
        let mut width = conversion.width.unwrap_or(0);
        let mut is_left = conversion.is_left;
        if let Some(place) = conversion.width_argument {
            let place = if place == 0 { next } else { place };
            next = place + 1;
            width = width_of(argument(v, place)?)?;
            is_left |= width < 0;
        }
        let place = conversion.position.unwrap_or(next);
        if !matches!(conversion.letter, 's' | 'I' | 'L') {
            let message = format!("unrecognized format() type specifier \"{}\"", conversion.letter);
            return Err(invalid_format(message).with_hint("For a single \"%\" use \"%%\"."));
        }
        let value = argument(v, place)?;
        next = place + 1;
        let converted = convert(context, conversion.letter, place, value)?;
        let width = width.unsigned_abs() as usize;
        if width > WIDTH_MAX || text.len() + width > LENGTH_MAX {
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large"));
        }
        context.environment.require_value(text.len() + width.max(converted.len()))?;
        push_padded(&converted, width, is_left, &mut text);
    }
    text.push_str(rest);
    Ok(Value::text(text))
}

pub(super) fn argument(v: &[Value], place: usize) -> Result<&Value> {
    v.get(place).ok_or_else(|| invalid_format("too few arguments for format()"))
}

fn width_of(value: &Value) -> Result<i64> {
    match value {
        Value::Null => Ok(0),
        Value::Int2(_) | Value::Int4(_) => Ok(value.any_int()),
        other => other.str().parse::<i32>().map(i64::from).map_err(|_| {
            let message = format!("invalid input syntax for type integer: \"{}\"", other.str());
            SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
        }),
    }
}

fn convert(context: &FunctionContext<'_>, letter: char, place: usize, value: &Value) -> Result<String> {
    if value.is_null() {
        return match letter {
            's' => Ok(String::new()),
            'L' => Ok("NULL".to_string()),
            _ => {
                let message = "null values cannot be formatted as an SQL identifier";
                Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message))
            }
        };
    }
    let text = output(context, place, value)?;
    Ok(match letter {
        's' => text,
        'I' => quoted_identifier(&text),
        _ => quoted_literal(&text),
    })
}

fn push_padded(text: &str, width: usize, is_left: bool, out: &mut String) {
    let missing = width.saturating_sub(text.chars().count());
    if is_left {
        out.push_str(text);
        out.push_str(&" ".repeat(missing));
    } else {
        out.push_str(&" ".repeat(missing));
        out.push_str(text);
    }
}
