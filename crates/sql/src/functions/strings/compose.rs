//! Texts out of other values: concatenation, `format`, quoting, and arrays of texts.

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, Rows, RowsOf, scalar, set};
use crate::interrupt::step;
use crate::run::large_values::LARGE_BYTES;
use crate::types::array::ArrayValue;
use crate::types::cast::{Cast, CastContext};
use crate::types::text::to_text;
use crate::types::{Modifier, Type, Value};

/// The table of functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("concat(variadic any) text", concat).nullable().stable(),
    scalar("concat_ws(text, variadic any) text", concat_ws).nullable().stable(),
    scalar("format(text) text", format).nullable().stable(),
    scalar("format(text, variadic any) text", format).nullable().stable(),
    scalar("quote_ident(text) text", |_, v| Ok(Value::text(quoted_identifier(v[0].str())))),
    scalar("quote_literal(text) text", |_, v| Ok(Value::text(quoted_literal(v[0].str())))),
    scalar("quote_literal(anyelement) text", quote_any).stable(),
    scalar("quote_nullable(text) text", quote_nullable).nullable(),
    scalar("quote_nullable(anyelement) text", quote_nullable).nullable().stable(),
    scalar("string_to_array(text, text) text[]", string_to_array).nullable(),
    scalar("string_to_array(text, text, text) text[]", string_to_array).nullable(),
    set("string_to_table(text, text) setof text", string_to_table).nullable(),
    set("string_to_table(text, text, text) setof text", string_to_table).nullable(),
    scalar("array_to_string(anyarray, text) text", array_to_string).stable(),
    scalar("array_to_string(anyarray, text, text) text", array_to_string).nullable().stable(),
];

/// The table of operators.
pub(super) const OPERATORS: &[Definition] = &[
    scalar("||(text, text) text", |_, v| Ok(Value::text([v[0].str(), v[1].str()].concat()))),
    scalar("||(text, anynonarray) text", |c, v| {
        let other = cast_text(c, 1, &v[1])?;
        Ok(Value::text([v[0].str(), &other].concat()))
    })
    .stable(),
    scalar("||(anynonarray, text) text", |c, v| {
        let other = cast_text(c, 0, &v[0])?;
        Ok(Value::text([&other, v[1].str()].concat()))
    })
    .stable(),
];

/// An argument cast to text, which is not always its output.
fn cast_text(context: &mut FunctionContext<'_>, at: usize, value: &Value) -> Result<String> {
    let kind = context.argument_type(at);
    match Cast::find(kind, Type::Text, Modifier::NONE, CastContext::Explicit) {
        Some(cast) => Ok(cast.apply(context.environment, value)?.str().to_string()),
        None => to_text(context.environment, kind, value),
    }
}

/// The arguments of a variadic `any` function: one by one, or those of an array that was marked VARIADIC.
fn output(context: &FunctionContext<'_>, at: usize, value: &Value) -> Result<String> {
    to_text(context.environment, context.argument_type(at), value)
}

fn concat(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let mut text = String::new();
    for (at, value) in v.iter().enumerate().filter(|(_, value)| !value.is_null()) {
        text.push_str(&output(context, at, value)?);
    }
    Ok(Value::text(text))
}

fn concat_ws(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    if v[0].is_null() {
        return Ok(Value::Null);
    }
    let mut parts = Vec::new();
    for (at, value) in v.iter().enumerate().skip(1).filter(|(_, value)| !value.is_null()) {
        parts.push(output(context, at, value)?);
    }
    let separator = v[0].str();
    let separators = separator.len().saturating_mul(parts.len().saturating_sub(1));
    let bytes = parts.iter().fold(separators, |bytes, part| bytes.saturating_add(part.len()));
    context.environment.require_value(bytes)?;
    Ok(Value::text(parts.join(separator)))
}

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

fn format(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
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

fn argument(v: &[Value], place: usize) -> Result<&Value> {
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

/// Words that an identifier must be quoted for: all of PostgreSQL's keywords but the unreserved ones.
const KEYWORDS: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "between",
    "bigint",
    "binary",
    "bit",
    "boolean",
    "both",
    "case",
    "cast",
    "char",
    "character",
    "check",
    "coalesce",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "dec",
    "decimal",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "exists",
    "extract",
    "false",
    "fetch",
    "float",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "greatest",
    "group",
    "grouping",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "inout",
    "int",
    "integer",
    "intersect",
    "interval",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "least",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "national",
    "natural",
    "nchar",
    "none",
    "normalize",
    "not",
    "notnull",
    "null",
    "nullif",
    "numeric",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "out",
    "outer",
    "overlaps",
    "overlay",
    "placing",
    "position",
    "precision",
    "primary",
    "real",
    "references",
    "returning",
    "right",
    "row",
    "select",
    "session_user",
    "setof",
    "similar",
    "smallint",
    "some",
    "substring",
    "symmetric",
    "table",
    "tablesample",
    "then",
    "time",
    "timestamp",
    "to",
    "trailing",
    "treat",
    "trim",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "varchar",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
    "xmlattributes",
    "xmlconcat",
    "xmlelement",
    "xmlexists",
    "xmlforest",
    "xmlnamespaces",
    "xmlparse",
    "xmlpi",
    "xmlroot",
    "xmlserialize",
    "xmltable",
];

/// An identifier, quoted if need be.
pub(in crate::functions) fn quoted_identifier(name: &str) -> String {
    let is_start = |c: char| c.is_ascii_lowercase() || c == '_';
    let is_inside = |c: char| is_start(c) || c.is_ascii_digit();
    let is_plain =
        name.starts_with(is_start) && name.chars().all(is_inside) && KEYWORDS.binary_search(&name).is_err();
    if is_plain { name.to_string() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// A literal; with an `E` before it if there are backslashes in it.
fn quoted_literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if text.contains('\\') { format!("E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

fn quote_any(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let text = cast_text(context, 0, &v[0])?;
    Ok(Value::text(quoted_literal(&text)))
}

fn quote_nullable(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    if v[0].is_null() { Ok(Value::text("NULL")) } else { quote_any(context, v) }
}

/// The parts of a text: of its characters where the separator is NULL.
fn parts(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Option<Vec<Value>>> {
    let Value::Text(text) = &v[0] else { return Ok(None) };
    let count = match &v[1] {
        Value::Null => text.len(),
        separator if separator.str().is_empty() => 1,
        separator => text.matches(separator.str()).count() + 1,
    };
    // What a short part takes beside its bytes.
    let each = size_of::<Value>() + 16;
    context.environment.require_value(text.len() + count * each)?;
    let null = v.get(2).filter(|value| !value.is_null()).map(Value::str);
    let value = |part: &str| {
        step()?;
        Ok(if Some(part) == null { Value::Null } else { Value::text(part) })
    };
    if text.is_empty() {
        return Ok(Some(Vec::new()));
    }
    Ok(Some(match &v[1] {
        Value::Null => text.chars().map(|c| value(c.encode_utf8(&mut [0; 4]))).collect::<Result<_>>()?,
        separator if separator.str().is_empty() => vec![value(text)?],
        separator => text.split(separator.str()).map(value).collect::<Result<_>>()?,
    }))
}

fn string_to_array(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let parts = parts(context, v)?;
    Ok(parts.map_or(Value::Null, |parts| Value::array(ArrayValue::list(Type::Text, parts))))
}

fn string_to_table(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Box<dyn Rows>> {
    Ok(Box::new(RowsOf(parts(context, v)?.unwrap_or_default().into_iter().map(Ok))))
}

fn array_to_string(context: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    if v[0].is_null() || v[1].is_null() {
        return Ok(Value::Null);
    }
    let array = v[0].as_array();
    let null = v.get(2).filter(|value| !value.is_null()).map(Value::str);
    let delimiter = v[1].str();
    let (mut joined, mut is_first, mut required) = (String::new(), true, LARGE_BYTES);
    for value in &array.values {
        step()?;
        let text = match (value, null) {
            (Value::Null, None) => continue,
            (Value::Null, Some(null)) => null.to_string(),
            (value, _) => to_text(context.environment, array.element, value)?,
        };
        if !std::mem::take(&mut is_first) {
            joined.push_str(delimiter);
        }
        joined.push_str(&text);
        if joined.len() >= required {
            required = 2 * joined.len();
            context.environment.require_value(joined.len())?;
        }
    }
    Ok(Value::text(joined))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::PlainEnvironment;

    fn formatted(template: &str, argument: &str) -> Result<Value> {
        let mut environment = PlainEnvironment::new(0);
        let mut context = FunctionContext {
            environment: &mut environment,
            argument_types: &[Type::Text, Type::Text],
            result_type: Type::Text,
        };
        format(&mut context, &[Value::text(template), Value::text(argument)])
    }

    #[test]
    fn formats_quote_and_pad() {
        assert_eq!(
            formatted("%I=%1$L|%1$5s|%1$-5s|%%", "a'b").unwrap().str(),
            "\"a'b\"='a''b'|  a'b|a'b  |%"
        );
        assert_eq!(formatted("%s %s", "x").unwrap_err().state().as_str(), "22023");
        assert_eq!(formatted("%z", "x").unwrap_err().state().as_str(), "22023");
    }

    #[test]
    fn widths_beyond_all_bounds_are_refused_before_anything_is_allocated() {
        assert_eq!(formatted("%2000000000s", "x").unwrap_err().state().as_str(), "54000");
        assert_eq!(formatted("%99999999999s", "x").unwrap_err().state().as_str(), "22003");
    }
}
