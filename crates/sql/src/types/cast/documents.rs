//! Casts between `json`, `jsonb` and `topk`, and from `jsonb` scalars.

use super::CastContext::{Assignment, Explicit};
use super::numbers::numeric_to_float8;
use super::{CastEntry, entry, numbers};
use crate::error::{Result, SqlError, SqlState};
use crate::types::jsonb::Jsonb;
use crate::types::numeric::Numeric;
use crate::types::text::{jsonb_text, parse_jsonb};
use crate::types::{Type, Value, top_k};

/// The table.
pub(super) const CASTS: &[CastEntry] = &[
    entry(Type::Json, Type::Jsonb, Assignment, |_, v| parse_jsonb(v.str()).map(Value::jsonb)),
    entry(Type::Jsonb, Type::Json, Assignment, |_, v| Ok(Value::Json(jsonb_text(v.as_jsonb())?.into()))),
    entry(Type::TopK, Type::Jsonb, Assignment, |_, v| top_k::document(v.as_bytes()).map(Value::jsonb)),
    entry(Type::Jsonb, Type::TopK, Assignment, |_, v| top_k::of_document(v.as_jsonb())),
    entry(Type::Jsonb, Type::Bool, Explicit, |_, v| match v.as_jsonb() {
        Jsonb::Bool(value) => Ok(Value::Bool(*value)),
        other => Err(no_cast(other, "boolean")),
    }),
    entry(Type::Jsonb, Type::Numeric, Explicit, |_, v| Ok(Value::Numeric(number(v, "numeric")?.clone()))),
    entry(Type::Jsonb, Type::Int2, Explicit, |_, v| {
        numbers::to_int2(number(v, "smallint")?.to_i64("smallint")?)
    }),
    entry(Type::Jsonb, Type::Int4, Explicit, |_, v| {
        numbers::to_int4(number(v, "integer")?.to_i64("integer")?)
    }),
    entry(Type::Jsonb, Type::Int8, Explicit, |_, v| Ok(Value::Int8(number(v, "bigint")?.to_i64("bigint")?))),
    entry(Type::Jsonb, Type::Float4, Explicit, |_, v| numbers::numeric_to_float4(number(v, "real")?)),
    entry(Type::Jsonb, Type::Float8, Explicit, |_, v| {
        numeric_to_float8(number(v, "double precision")?).map(Value::Float8)
    }),
];

fn number<'v>(value: &'v Value, kind: &str) -> Result<&'v Numeric> {
    match value.as_jsonb() {
        Jsonb::Number(number) => Ok(number),
        other => Err(no_cast(other, kind)),
    }
}

fn no_cast(value: &Jsonb, kind: &str) -> SqlError {
    let found = match value {
        Jsonb::Null => "null",
        Jsonb::Bool(_) => "boolean",
        Jsonb::Number(_) => "numeric",
        Jsonb::String(_) => "string",
        Jsonb::Array(_) => "array",
        Jsonb::Object(_) => "object",
    };
    let message = format!("cannot cast jsonb {found} to type {kind}");
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
