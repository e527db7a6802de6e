//! Texts out of other values: concatenation, `format`, quoting, and arrays of texts.

mod arrays;
mod format;
mod quote;

use self::arrays::{array_to_string, string_to_array, string_to_table};
use self::format::format;
use self::quote::{quote_any, quote_nullable, quoted_literal};
use crate::error::Result;
use crate::functions::definition::{Definition, FunctionContext, scalar, set};
use crate::types::cast::{Cast, CastContext};
use crate::types::text::to_text;
use crate::types::{Modifier, Type, Value};

pub(in crate::functions) use quote::quoted_identifier;

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
