//! The input function of every type.

use super::array::parse_array;
use super::float::{parse_float4, parse_float8};
use super::invalid_syntax;
use super::json::{check_json, parse_jsonb};
use super::output::object_kind;
use super::record::parse_record;
use crate::error::{Result, SqlError, SqlState};
use crate::interrupt::step;
use crate::types::array::ArrayValue;
use crate::types::datetime::parse;
use crate::types::datetime::parse_interval::parse_interval;
use crate::types::environment::ObjectKind;
use crate::types::jsonpath::parse_jsonpath;
use crate::types::numeric::Numeric;
use crate::types::{Environment, Modifier, Type, Value, bits, mac_address, network, top_k};

/// A text as a value of a type. The modifier matters to `interval` only: lengths and precisions are the business of
/// [`crate::types::cast::apply_modifier`].
pub fn from_text(environment: &dyn Environment, kind: Type, modifier: Modifier, text: &str) -> Result<Value> {
    Ok(match kind {
        Type::Bool => Value::Bool(parse_bool(text).ok_or_else(|| invalid_syntax("boolean", text))?),
        Type::Int2 => Value::Int2(small_integer(text, "smallint")? as i16),
        Type::Int4 => Value::Int4(small_integer(text, "integer")? as i32),
        Type::Int8 => Value::Int8(parse_integer(text, "bigint", i64::MIN, i64::MAX)?),
        Type::Float4 => Value::Float4(parse_float4(text)?),
        Type::Float8 => Value::Float8(parse_float8(text)?),
        Type::Numeric => Value::Numeric(text.parse::<Numeric>()?.polled()?),
        Type::Text | Type::Varchar | Type::Refcursor | Type::Unknown | Type::Cstring => Value::text(text),
        Type::Bit | Type::Varbit => bits::from_text(text)?,
        Type::Name => Value::text(truncated_name(text)),
        Type::Bpchar => Value::Bpchar(text.into()),
        Type::Char => char_from_text(text),
        Type::Bytea => Value::bytes(parse_bytea(text)?),
        Type::Inet | Type::Cidr => network::network_from_text(text, kind == Type::Cidr)?,
        Type::Macaddr => mac_address::mac_from_text(text)?,
        Type::Uuid => Value::Uuid(parse_uuid(text).ok_or_else(|| invalid_syntax("uuid", text))?),
        Type::Oid | Type::Xid => Value::Oid(parse_oid(text, &kind.display_name())?),
        Type::Date => {
            Value::Date(parse::parse_date(text, environment.transaction_start(), environment.formats())?)
        }
        Type::Time => {
            Value::Time(parse::parse_time(text, environment.transaction_start(), environment.formats())?)
        }
        Type::Timetz => {
            let (time, zone) =
                parse::parse_timetz(text, environment.transaction_start(), environment.formats())?;
            Value::Timetz(time, zone)
        }
        Type::Timestamp => Value::Timestamp(parse::parse_timestamp(
            text,
            environment.transaction_start(),
            environment.formats(),
        )?),
        Type::Timestamptz => Value::Timestamptz(parse::parse_timestamptz(
            text,
            environment.transaction_start(),
            environment.formats(),
        )?),
        Type::Interval => {
            Value::Interval(parse_interval(text, modifier, environment.formats().interval_style)?)
        }
        Type::Json => {
            check_json(text)?;
            Value::Json(text.into())
        }
        Type::Jsonb => Value::jsonb(parse_jsonb(text)?),
        Type::Jsonpath => Value::text(parse_jsonpath(text)?.to_string()),
        Type::TopK => top_k::from_text(text)?,
        Type::Array(element) => Value::array(parse_array(environment, element.get(), modifier, text)?),
        Type::Int2Vector => vector(environment, Type::Int2, text)?,
        Type::OidVector => vector(environment, Type::Oid, text)?,
        Type::Void => Value::Void,
        Type::Enum(oid) => enum_value(environment, oid, text)?,
        Type::Composite(oid) => parse_record(environment, oid, text)?,
        Type::Record => {
            return Err(SqlError::unsupported("input of anonymous composite types is not implemented"));
        }
        reg if reg.is_reg() => Value::Oid(parse_object(environment, reg, text)?),
        other => {
            let message = format!("cannot accept a value of type {}", other.display_name());
            return Err(SqlError::unsupported(message));
        }
    })
}

/// `int2vector` and `oidvector`: numbers with blanks between; the first has subscript 0.
fn vector(environment: &dyn Environment, element: Type, text: &str) -> Result<Value> {
    let read = |item: &str| from_text(environment, element, Modifier::NONE, item);
    let values = text.split_ascii_whitespace().map(read).collect::<Result<Vec<Value>>>()?;
    Ok(Value::array(ArrayValue::list_from(element, 0, values)))
}

/// A `"char"`: one byte, kept as the character with that code. Longer texts are cut; `\\ooo` is a byte in octal digits.
pub(crate) fn char_from_text(text: &str) -> Value {
    let bytes = text.as_bytes();
    let code = match bytes {
        [b'\\', high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7'] => {
            (high - b'0') * 64 + (middle - b'0') * 8 + (low - b'0')
        }
        [first, ..] => *first,
        [] => 0,
    };
    if code == 0 { Value::text("") } else { Value::text(char::from(code).to_string()) }
}

/// A `"char"` as it is printed: bytes that are not ASCII in octal digits.
pub(crate) fn char_text(value: &str) -> String {
    match value.chars().next() {
        Some(code) if !code.is_ascii() => format!("\\{:03o}", code as u32),
        _ => value.to_string(),
    }
}

/// The longest name, in bytes.
const NAME_LENGTH_MAX: usize = 63;

/// A name cut to 63 bytes, at a character.
pub(crate) fn truncated_name(text: &str) -> &str {
    if text.len() <= NAME_LENGTH_MAX {
        return text;
    }
    let end = (0..=NAME_LENGTH_MAX).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    &text[..end]
}

/// `true`, `f`, `yes`, `0`, …: what `boolean` accepts, also cut short where it is unique.
pub fn parse_bool(text: &str) -> Option<bool> {
    let word = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b').to_ascii_lowercase();
    let is_short = |full: &str, least: usize| word.len() >= least && full.starts_with(&word);
    if is_short("true", 1) || is_short("yes", 1) || word == "on" || word == "1" {
        Some(true)
    } else if is_short("false", 1) || is_short("no", 1) || is_short("off", 2) || word == "0" {
        Some(false)
    } else {
        None
    }
}

fn small_integer(text: &str, kind: &str) -> Result<i64> {
    match kind {
        "smallint" => parse_integer(text, kind, i64::from(i16::MIN), i64::from(i16::MAX)),
        _ => parse_integer(text, kind, i64::from(i32::MIN), i64::from(i32::MAX)),
    }
}

/// A text as an integer between bounds; `kind` names its type in errors.
pub fn parse_integer(text: &str, kind: &str, least: i64, most: i64) -> Result<i64> {
    let body = text.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\x0b');
    let digits = body.strip_prefix(['+', '-']).unwrap_or(body);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(invalid_syntax(kind, text));
    }
    match body.parse::<i64>() {
        Ok(value) if (least..=most).contains(&value) => Ok(value),
        _ => {
            let message = format!("value \"{text}\" is out of range for type {kind}");
            Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message))
        }
    }
}

fn parse_oid(text: &str, kind: &str) -> Result<u32> {
    let value = parse_integer(text, kind, i64::from(i32::MIN), i64::from(u32::MAX))?;
    Ok(value as u32)
}

/// `\x0102`, or the escape format.
fn parse_bytea(text: &str) -> Result<Vec<u8>> {
    match text.strip_prefix("\\x") {
        Some(digits) => parse_hex(digits),
        None => parse_escaped(text),
    }
}

/// Hexadecimal digits, with blanks between bytes.
pub(crate) fn parse_hex(text: &str) -> Result<Vec<u8>> {
    let invalid = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut characters = text.chars();
    while let Some(first) = characters.next() {
        step()?;
        if matches!(first, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let digit =
            |c: char| c.to_digit(16).ok_or_else(|| invalid(format!("invalid hexadecimal digit: \"{c}\"")));
        let high = digit(first)?;
        let second = characters.next();
        let second =
            second.ok_or_else(|| invalid("invalid hexadecimal data: odd number of digits".to_string()))?;
        bytes.push((high * 16 + digit(second)?) as u8);
    }
    Ok(bytes)
}

/// Backslash and three octal digits, or two backslashes, for the bytes that are not printed.
pub(crate) fn parse_escaped(text: &str) -> Result<Vec<u8>> {
    let bytes = text.as_bytes();
    let mut result = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        step()?;
        if bytes[at] != b'\\' {
            result.push(bytes[at]);
            at += 1;
            continue;
        }
        let octal = bytes.get(at + 1..at + 4).filter(|digits| {
            (b'0'..=b'3').contains(&digits[0]) && digits.iter().all(|digit| (b'0'..=b'7').contains(digit))
        });
        if bytes.get(at + 1) == Some(&b'\\') {
            result.push(b'\\');
            at += 2;
        } else if let Some(digits) = octal {
            result.push((digits[0] - b'0') * 64 + (digits[1] - b'0') * 8 + (digits[2] - b'0'));
            at += 4;
        } else {
            let message = "invalid input syntax for type bytea";
            return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
        }
    }
    Ok(result)
}

/// 32 hexadecimal digits, with hyphens after any group of four, in braces or not.
fn parse_uuid(text: &str) -> Option<[u8; 16]> {
    let body = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let mut bytes = [0u8; 16];
    let mut rest = body.as_bytes();
    for (at, byte) in bytes.iter_mut().enumerate() {
        let pair = rest.get(..2)?;
        let digit = |c: u8| (c as char).to_digit(16);
        *byte = (digit(pair[0])? * 16 + digit(pair[1])?) as u8;
        rest = &rest[2..];
        if at % 2 == 1 && at < 15 && rest.first() == Some(&b'-') {
            rest = &rest[1..];
        }
    }
    rest.is_empty().then_some(bytes)
}

fn enum_value(environment: &dyn Environment, oid: u32, text: &str) -> Result<Value> {
    let labels = environment.enum_labels(oid).unwrap_or_else(|| Vec::new().into());
    match labels.iter().find(|(_, label)| &**label == text) {
        Some((number, _)) => Ok(Value::Enum(*number)),
        None => {
            let name = environment.type_name(oid).unwrap_or_else(|| oid.to_string());
            let message = format!("invalid input value for enum {name}: \"{text}\"");
            Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message))
        }
    }
}

/// A number, `-` for none, or a name that the catalog knows.
fn parse_object(environment: &dyn Environment, kind: Type, text: &str) -> Result<u32> {
    if text == "-" {
        return Ok(0);
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return parse_oid(text, "oid");
    }
    let object = object_kind(kind).unwrap_or(ObjectKind::Relation);
    let found = match object {
        ObjectKind::Type => {
            environment.check_name(object, text)?;
            let known = environment.object_by_name(object, text).ok().flatten();
            let found = known.or_else(|| environment.type_by_name(text).map(Type::oid));
            if found.is_none() && !looks_like_name(text) {
                let message = format!("syntax error at or near \"{text}\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            found
        }
        other => environment.object_by_name(other, text)?,
    };
    found.ok_or_else(|| missing_object(object, text))
}

/// Returns true if a text could be the name of a type at all.
fn looks_like_name(text: &str) -> bool {
    let is_part = |part: &str| {
        let is_quoted = part.len() > 2 && part.starts_with('"') && part.ends_with('"');
        let is_word = part.chars().all(|c| c == '_' || c == '$' || c.is_alphanumeric());
        is_quoted || is_word && part.starts_with(|c: char| c == '_' || c.is_alphabetic())
    };
    text.trim().trim_end_matches("[]").split('.').all(is_part)
}

fn missing_object(kind: ObjectKind, name: &str) -> SqlError {
    let (state, what) = match kind {
        ObjectKind::Relation => (SqlState::UNDEFINED_TABLE, "relation"),
        ObjectKind::Type => (SqlState::UNDEFINED_OBJECT, "type"),
        ObjectKind::Schema => (SqlState::INVALID_SCHEMA_NAME, "schema"),
        ObjectKind::Role => (SqlState::UNDEFINED_OBJECT, "role"),
        ObjectKind::Function | ObjectKind::FunctionSignature => (SqlState::UNDEFINED_FUNCTION, "function"),
        ObjectKind::Operator | ObjectKind::OperatorSignature => (SqlState::UNDEFINED_FUNCTION, "operator"),
        ObjectKind::Collation => (SqlState::UNDEFINED_OBJECT, "collation"),
    };
    let message = match kind {
        ObjectKind::Operator | ObjectKind::OperatorSignature => format!("operator does not exist: {name}"),
        _ => format!("{what} \"{name}\" does not exist"),
    };
    SqlError::new(state, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::PlainEnvironment;

    fn read(kind: Type, text: &str) -> Result<Value> {
        from_text(&PlainEnvironment::new(0), kind, Modifier::NONE, text)
    }

    #[test]
    fn integers_are_within_bounds() {
        assert_eq!(read(Type::Int2, " -32768 ").unwrap(), Value::Int2(i16::MIN));
        assert_eq!(read(Type::Int2, "32768").unwrap_err().state().as_str(), "22003");
        assert_eq!(read(Type::Int4, "1.0").unwrap_err().state().as_str(), "22P02");
        assert_eq!(read(Type::Oid, "-1").unwrap(), Value::Oid(u32::MAX));
    }

    #[test]
    fn booleans_may_be_cut_short() {
        for (text, value) in [("t", true), ("TRU", true), ("of", false), ("n", false), (" on ", true)] {
            assert_eq!(read(Type::Bool, text).unwrap(), Value::Bool(value), "{text}");
        }
        for text in ["o", "", "truely", "2"] {
            assert!(read(Type::Bool, text).is_err(), "{text}");
        }
    }

    #[test]
    fn uuids_and_byte_strings_have_several_forms() {
        let uuid = read(Type::Uuid, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11").unwrap();
        assert_eq!(read(Type::Uuid, "{A0EEBC999C0B4EF8BB6D6BB9BD380A11}").unwrap(), uuid);
        assert!(read(Type::Uuid, "a0eebc99").is_err());
        assert_eq!(read(Type::Bytea, "\\x00 fF").unwrap(), Value::bytes([0, 255]));
        assert_eq!(read(Type::Bytea, "a\\\\\\001").unwrap(), Value::bytes([b'a', b'\\', 1]));
        assert!(read(Type::Bytea, "\\9").is_err());
    }
}
