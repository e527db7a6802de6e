//! Bit strings: parts, single bits, logic, shifts.
//!
//! Source: PostgreSQL 15, `varbit.c`.

use super::definition::{Definition, FunctionContext, scalar};
use crate::error::{Result, SqlError, SqlState};
use crate::types::Value;

/// The functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("length(bit) int4", |_, v| Ok(Value::Int4(v[0].str().len() as i32))),
    scalar("bit_length(bit) int4", |_, v| Ok(Value::Int4(v[0].str().len() as i32))),
    scalar("octet_length(bit) int4", |_, v| Ok(Value::Int4(v[0].str().len().div_ceil(8) as i32))),
    scalar("substring(bit, int4) bit", |_, v| part(v[0].str(), v[1].int4(), None).map(Value::text)),
    scalar("substring(bit, int4, int4) bit", |_, v| {
        part(v[0].str(), v[1].int4(), Some(v[2].int4())).map(Value::text)
    }),
    scalar("position(bit, bit) int4", |_, v| {
        Ok(Value::Int4(v[0].str().find(v[1].str()).map_or(0, |at| at as i32 + 1)))
    }),
    scalar("overlay(bit, bit, int4) bit", |_, v| overlay(v, v[1].str().len() as i32)),
    scalar("overlay(bit, bit, int4, int4) bit", |_, v| overlay(v, v[3].int4())),
    scalar("get_bit(bit, int4) int4", |_, v| {
        let at = place(v)?;
        Ok(Value::Int4(i32::from(v[0].str().as_bytes()[at] & 1)))
    }),
    scalar("set_bit(bit, int4, int4) bit", set_bit),
    scalar("bit_count(bit) int8", |_, v| {
        Ok(Value::Int8(v[0].str().bytes().filter(|bit| *bit == b'1').count() as i64))
    }),
    scalar("bitcat(varbit, varbit) varbit", |_, v| Ok(Value::text(format!("{}{}", v[0].str(), v[1].str())))),
];

/// The operators.
pub(super) const OPERATORS: &[Definition] = &[
    scalar("||(varbit, varbit) varbit", |_, v| Ok(Value::text(format!("{}{}", v[0].str(), v[1].str())))),
    scalar("&(bit, bit) bit", |_, v| bit_and(&v[0], &v[1])),
    scalar("|(bit, bit) bit", |_, v| bit_or(&v[0], &v[1])),
    scalar("#(bit, bit) bit", |_, v| bit_xor(&v[0], &v[1])),
    scalar("~(bit) bit", |_, v| {
        Ok(Value::text(v[0].str().chars().map(|bit| if bit == '1' { '0' } else { '1' }).collect::<String>()))
    }),
    scalar("<<(bit, int4) bit", |_, v| Ok(shifted(v[0].str(), i64::from(v[1].int4())))),
    scalar(">>(bit, int4) bit", |_, v| Ok(shifted(v[0].str(), -i64::from(v[1].int4())))),
];

/// The bits that both have.
pub(super) fn bit_and(left: &Value, right: &Value) -> Result<Value> {
    bitwise(left, right, "AND", |a, b| a & b)
}

/// The bits that one has.
pub(super) fn bit_or(left: &Value, right: &Value) -> Result<Value> {
    bitwise(left, right, "OR", |a, b| a | b)
}

/// The bits in which both differ.
pub(super) fn bit_xor(left: &Value, right: &Value) -> Result<Value> {
    bitwise(left, right, "XOR", |a, b| a ^ b)
}

fn bitwise(left: &Value, right: &Value, name: &str, of: fn(u8, u8) -> u8) -> Result<Value> {
    let (left, right) = (left.str(), right.str());
    if left.len() != right.len() {
        let message = format!("cannot {name} bit strings of different sizes");
        return Err(SqlError::new(SqlState::STRING_DATA_LENGTH_MISMATCH, message));
    }
    let bit = |(a, b): (u8, u8)| if of(a & 1, b & 1) == 1 { '1' } else { '0' };
    Ok(Value::text(left.bytes().zip(right.bytes()).map(bit).collect::<String>()))
}

/// Bits moved to the left, or to the right; as many stay.
fn shifted(bits: &str, by: i64) -> Value {
    let length = bits.len();
    let moved = usize::try_from(by.unsigned_abs()).unwrap_or(length).min(length);
    let zeros = "0".repeat(moved);
    Value::text(match by >= 0 {
        true => format!("{}{zeros}", &bits[moved..]),
        false => format!("{zeros}{}", &bits[..length - moved]),
    })
}

fn part(bits: &str, from: i32, count: Option<i32>) -> Result<&str> {
    let length = bits.len() as i64;
    let end = match count {
        Some(count) if count < 0 => {
            let message = "negative substring length not allowed";
            return Err(SqlError::new(SqlState::SUBSTRING_ERROR, message));
        }
        Some(count) => i64::from(from) + i64::from(count) - 1,
        None => length,
    };
    let start = (i64::from(from) - 1).clamp(0, length);
    Ok(&bits[start as usize..end.clamp(start, length) as usize])
}

fn overlay(v: &[Value], count: i32) -> Result<Value> {
    let (bits, new, from) = (v[0].str(), v[1].str(), v[2].int4());
    if from <= 0 {
        let message = "negative substring length not allowed";
        return Err(SqlError::new(SqlState::SUBSTRING_ERROR, message));
    }
    let behind = from
        .checked_add(count)
        .ok_or_else(|| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"))?;
    Ok(Value::text(format!("{}{new}{}", part(bits, 1, Some(from - 1))?, part(bits, behind, None)?)))
}

/// The place that the second argument names.
fn place(v: &[Value]) -> Result<usize> {
    let (length, at) = (v[0].str().len(), v[1].int4());
    usize::try_from(at).ok().filter(|at| *at < length).ok_or_else(|| {
        let message = format!("bit index {at} out of valid range (0..{})", length as i64 - 1);
        SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
    })
}

fn set_bit(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let at = place(v)?;
    let bit = match v[2].int4() {
        0 => "0",
        1 => "1",
        _ => return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "new bit must be 0 or 1")),
    };
    let mut bits = v[0].str().to_string();
    bits.replace_range(at..=at, bit);
    Ok(Value::text(bits))
}
