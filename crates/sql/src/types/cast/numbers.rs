//! Casts among integers, floats, `numeric`, `boolean` and object identifiers.

use super::CastContext::{Assignment, Explicit, Implicit};
use super::{CastEntry, entry, relabel};
use crate::error::{Result, SqlError, SqlState};
use crate::types::numeric::Numeric;
use crate::types::{Type, Value};

/// The table.
pub(super) const CASTS: &[CastEntry] = &[
    entry(Type::Bool, Type::Int4, Explicit, |_, v| Ok(Value::Int4(i32::from(v.bool())))),
    entry(Type::Int4, Type::Bool, Explicit, |_, v| Ok(Value::Bool(v.int4() != 0))),
    entry(Type::Int2, Type::Int4, Implicit, |_, v| Ok(Value::Int4(i32::from(v.int2())))),
    entry(Type::Int2, Type::Int8, Implicit, |_, v| Ok(Value::Int8(i64::from(v.int2())))),
    entry(Type::Int2, Type::Float4, Implicit, |_, v| Ok(Value::Float4(f32::from(v.int2())))),
    entry(Type::Int2, Type::Float8, Implicit, |_, v| Ok(Value::Float8(f64::from(v.int2())))),
    entry(Type::Int2, Type::Numeric, Implicit, |_, v| Ok(Value::Numeric(v.int2().into()))),
    entry(Type::Int4, Type::Int2, Assignment, |_, v| to_int2(i64::from(v.int4()))),
    entry(Type::Int4, Type::Int8, Implicit, |_, v| Ok(Value::Int8(i64::from(v.int4())))),
    entry(Type::Int4, Type::Float4, Implicit, |_, v| Ok(Value::Float4(v.int4() as f32))),
    entry(Type::Int4, Type::Float8, Implicit, |_, v| Ok(Value::Float8(f64::from(v.int4())))),
    entry(Type::Int4, Type::Numeric, Implicit, |_, v| Ok(Value::Numeric(v.int4().into()))),
    entry(Type::Int8, Type::Int2, Assignment, |_, v| to_int2(v.int8())),
    entry(Type::Int8, Type::Int4, Assignment, |_, v| to_int4(v.int8())),
    entry(Type::Int8, Type::Float4, Implicit, |_, v| Ok(Value::Float4(v.int8() as f32))),
    entry(Type::Int8, Type::Float8, Implicit, |_, v| Ok(Value::Float8(v.int8() as f64))),
    entry(Type::Int8, Type::Numeric, Implicit, |_, v| Ok(Value::Numeric(v.int8().into()))),
    entry(Type::Float4, Type::Int2, Assignment, |_, v| to_int2(rounded(v.float4().into(), "smallint", 16)?)),
    entry(Type::Float4, Type::Int4, Assignment, |_, v| to_int4(rounded(v.float4().into(), "integer", 32)?)),
    entry(Type::Float4, Type::Int8, Assignment, |_, v| {
        Ok(Value::Int8(rounded(v.float4().into(), "bigint", 64)?))
    }),
    entry(Type::Float4, Type::Float8, Implicit, |_, v| Ok(Value::Float8(v.float4().into()))),
    entry(Type::Float4, Type::Numeric, Assignment, |_, v| Numeric::from_f32(v.float4()).map(Value::Numeric)),
    entry(Type::Float8, Type::Int2, Assignment, |_, v| to_int2(rounded(v.float8(), "smallint", 16)?)),
    entry(Type::Float8, Type::Int4, Assignment, |_, v| to_int4(rounded(v.float8(), "integer", 32)?)),
    entry(Type::Float8, Type::Int8, Assignment, |_, v| Ok(Value::Int8(rounded(v.float8(), "bigint", 64)?))),
    entry(Type::Float8, Type::Float4, Assignment, |_, v| to_float4(v.float8())),
    entry(Type::Float8, Type::Numeric, Assignment, |_, v| Numeric::from_f64(v.float8()).map(Value::Numeric)),
    entry(Type::Numeric, Type::Int2, Assignment, |_, v| numeric_to_int(v, "smallint").and_then(to_int2)),
    entry(Type::Numeric, Type::Int4, Assignment, |_, v| numeric_to_int(v, "integer").and_then(to_int4)),
    entry(Type::Numeric, Type::Int8, Assignment, |_, v| Ok(Value::Int8(numeric_to_int(v, "bigint")?))),
    entry(Type::Numeric, Type::Float4, Implicit, |_, v| numeric_to_float4(v.as_numeric())),
    entry(Type::Numeric, Type::Float8, Implicit, |_, v| {
        Ok(Value::Float8(numeric_to_float8(v.as_numeric())?))
    }),
    entry(Type::Int2, Type::Oid, Implicit, |_, v| Ok(Value::Oid(i32::from(v.int2()) as u32))),
    relabel(Type::Int4, Type::Oid, Implicit, |_, v| Ok(Value::Oid(v.int4() as u32))),
    entry(Type::Int8, Type::Oid, Implicit, |_, v| int8_to_oid(v.int8())),
    relabel(Type::Oid, Type::Int4, Assignment, |_, v| Ok(Value::Int4(v.oid() as i32))),
    entry(Type::Oid, Type::Int8, Assignment, |_, v| Ok(Value::Int8(i64::from(v.oid())))),
    relabel(Type::Regproc, Type::Regprocedure, Implicit, |_, v| Ok(v.clone())),
    relabel(Type::Regprocedure, Type::Regproc, Implicit, |_, v| Ok(v.clone())),
    relabel(Type::Regoper, Type::Regoperator, Implicit, |_, v| Ok(v.clone())),
    relabel(Type::Regoperator, Type::Regoper, Implicit, |_, v| Ok(v.clone())),
];

/// The casts of one `reg…` type.
macro_rules! object_casts {
    ($($kind:path),*) => {
        /// Casts between object identifiers, their `reg…` types and integers.
        pub(super) const OBJECTS: &[CastEntry] = &[$(
            relabel(Type::Oid, $kind, Implicit, |_, v| Ok(v.clone())),
            relabel($kind, Type::Oid, Implicit, |_, v| Ok(v.clone())),
            entry(Type::Int2, $kind, Implicit, |_, v| Ok(Value::Oid(i32::from(v.int2()) as u32))),
            relabel(Type::Int4, $kind, Implicit, |_, v| Ok(Value::Oid(v.int4() as u32))),
            entry(Type::Int8, $kind, Implicit, |_, v| int8_to_oid(v.int8())),
            relabel($kind, Type::Int4, Assignment, |_, v| Ok(Value::Int4(v.oid() as i32))),
            entry($kind, Type::Int8, Assignment, |_, v| Ok(Value::Int8(i64::from(v.oid())))),
        )*];
    };
}

object_casts!(
    Type::Regclass,
    Type::Regtype,
    Type::Regproc,
    Type::Regprocedure,
    Type::Regoper,
    Type::Regoperator,
    Type::Regnamespace,
    Type::Regrole,
    Type::Regcollation
);

fn out_of_range(kind: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{kind} out of range"))
}

pub(super) fn to_int2(value: i64) -> Result<Value> {
    i16::try_from(value).map(Value::Int2).map_err(|_| out_of_range("smallint"))
}

pub(super) fn to_int4(value: i64) -> Result<Value> {
    i32::try_from(value).map(Value::Int4).map_err(|_| out_of_range("integer"))
}

fn int8_to_oid(value: i64) -> Result<Value> {
    u32::try_from(value).map(Value::Oid).map_err(|_| out_of_range("OID"))
}

/// Rounded half to even, as the processor does it.
fn rounded(value: f64, kind: &str, bits: u32) -> Result<i64> {
    let rounded = value.round_ties_even();
    let bound = 2f64.powi(bits as i32 - 1);
    if rounded.is_nan() || rounded < -bound || rounded >= bound {
        Err(out_of_range(kind))
    } else {
        Ok(rounded as i64)
    }
}

fn numeric_to_int(value: &Value, kind: &str) -> Result<i64> {
    value.as_numeric().to_i64(kind)
}

/// A `double precision` as a `real`; 22003 where it is too large or too small.
pub(crate) fn to_float4(value: f64) -> Result<Value> {
    let narrow = value as f32;
    if narrow.is_infinite() && value.is_finite() {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"));
    }
    if narrow == 0.0 && value != 0.0 {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow"));
    }
    Ok(Value::Float4(narrow))
}

pub(super) fn numeric_to_float4(value: &Numeric) -> Result<Value> {
    match value {
        Numeric::NaN => Ok(Value::Float4(f32::NAN)),
        Numeric::Infinity => Ok(Value::Float4(f32::INFINITY)),
        Numeric::NegativeInfinity => Ok(Value::Float4(f32::NEG_INFINITY)),
        finite => crate::types::text::parse_float4(&finite.to_string()).map(Value::Float4),
    }
}

/// The powers of ten that a `double precision` holds exactly.
const EXACT_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19, 1e20, 1e21, 1e22,
];
/// Maximum of the integers that a `double precision` holds without gaps.
const EXACT_INTEGERS: u64 = 1 << 53;

/// A `numeric` as a `double precision`; 22003 where it is too large or too small.
///
/// Source: Clinger, "How to read floating point numbers accurately", 1990: where both operands are exact, one division rounds
/// correctly.
pub(crate) fn numeric_to_float8(value: &Numeric) -> Result<f64> {
    match value {
        Numeric::Small { coefficient, scale: 0 } => Ok(*coefficient as f64),
        Numeric::Small { coefficient, scale }
            if coefficient.unsigned_abs() <= EXACT_INTEGERS && usize::from(*scale) < EXACT_POWERS.len() =>
        {
            Ok(*coefficient as f64 / EXACT_POWERS[usize::from(*scale)])
        }
        finite if finite.is_finite() => crate::types::text::parse_float8(&finite.to_string()),
        special => Ok(special.to_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_become_the_floats_that_their_texts_are() {
        let mut random = fastrand::Rng::with_seed(1);
        let edges = [0, 1, -1, 3, -7, 1 << 53, (1 << 53) + 1, -(1 << 53) - 1, i64::MAX, i64::MIN];
        let random = (0..20_000).map(|_| random.i64(..) >> random.u32(0..63));
        for coefficient in edges.into_iter().chain(random) {
            for scale in [0, 1, 2, 3, 7, 15, 18, 21, 22, 23, 40] {
                let value = Numeric::Small { coefficient, scale };
                let expected: f64 = value.to_string().parse().unwrap();
                let found = numeric_to_float8(&value).unwrap();
                assert_eq!(found.to_bits(), expected.to_bits(), "{value}");
            }
        }
    }
}
