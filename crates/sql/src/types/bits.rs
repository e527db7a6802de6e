//! Bit strings: texts of zeros and ones.
//!
//! Invariant: the order of such texts is PostgreSQL's of bit strings, bit by bit, and a prefix is first.
//!
//! Source: PostgreSQL 15, `varbit.c`.

use crate::error::{Result, SqlError, SqlState};
use crate::types::{Modifier, Type, Value};

/// A text as a bit string: digits, perhaps after `b` or `x`.
///
/// # Errors
/// 22P02.
pub(crate) fn from_text(text: &str) -> Result<Value> {
    let (digits, radix) = match text.as_bytes().first() {
        Some(b'b' | b'B') => (&text[1..], 2),
        Some(b'x' | b'X') => (&text[1..], 16),
        _ => (text, 2),
    };
    let mut bits = String::with_capacity(digits.len());
    for digit in digits.chars() {
        let Some(value) = digit.to_digit(radix) else {
            let kind = if radix == 2 { "binary" } else { "hexadecimal" };
            let message = format!("\"{digit}\" is not a valid {kind} digit");
            return Err(SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message));
        };
        bits += &if radix == 2 { format!("{value:b}") } else { format!("{value:04b}") };
    }
    Ok(Value::text(bits))
}

/// Appends the number of bits, and the bits, eight in a byte.
pub(crate) fn write_binary(bits: &str, out: &mut Vec<u8>) {
    out.extend((bits.len() as i32).to_be_bytes());
    for byte in bits.as_bytes().chunks(8) {
        let value = byte.iter().fold(0_u8, |value, bit| value << 1 | (bit & 1));
        out.push(value << (8 - byte.len()));
    }
}

/// Reads them.
///
/// # Errors
/// 22P03.
pub(crate) fn read_binary(count: i32, bytes: &[u8]) -> Result<Value> {
    let invalid = |message: &str| SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message);
    let count = usize::try_from(count).map_err(|_| invalid("invalid length in external bit string"))?;
    if bytes.len() != count.div_ceil(8) {
        return Err(invalid("incorrect binary data format"));
    }
    let bit = |at: usize| if bytes[at / 8] >> (7 - at % 8) & 1 == 1 { '1' } else { '0' };
    Ok(Value::text((0..count).map(bit).collect::<String>()))
}

/// Makes a bit string fit its type's modifier.
///
/// # Errors
/// 22026, 22001: it has another length, or is too long, and the cast is not explicit.
pub(crate) fn fit(kind: Type, modifier: Modifier, bits: &str, is_explicit: bool) -> Result<Value> {
    let wanted = modifier.0.max(0) as usize;
    if kind == Type::Varbit {
        if bits.len() > wanted && !is_explicit {
            let message = format!("bit string too long for type bit varying({wanted})");
            return Err(SqlError::new(SqlState::STRING_DATA_RIGHT_TRUNCATION, message));
        }
        return Ok(Value::text(&bits[..wanted.min(bits.len())]));
    }
    if bits.len() != wanted && !is_explicit {
        let message = format!("bit string length {} does not match type bit({wanted})", bits.len());
        return Err(SqlError::new(SqlState::STRING_DATA_LENGTH_MISMATCH, message));
    }
    Ok(Value::text(format!("{:0<wanted$}", &bits[..wanted.min(bits.len())])))
}

/// The last bits of a number, as many as the modifier requires; one without a modifier.
pub(crate) fn of_number(number: i64, modifier: Modifier) -> Value {
    let count = if modifier.is_none() { 1 } else { modifier.0.max(1) as u32 };
    let bit = |place: u32| if number >> place.min(63) & 1 == 1 { '1' } else { '0' };
    Value::text((0..count).rev().map(bit).collect::<String>())
}

/// A bit string as a number of this many bits.
///
/// # Errors
/// 22003.
pub(crate) fn number(bits: &str, size: u32, name: &str) -> Result<i64> {
    if bits.len() > size as usize {
        let message = format!("{name} out of range");
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    let value = bits.bytes().fold(0_u64, |value, bit| value << 1 | u64::from(bit & 1));
    Ok(if size == 32 { i64::from(value as u32 as i32) } else { value.cast_signed() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_lead_back_from_their_binary_format() {
        for text in ["", "1", "10101010", "101010101"] {
            let mut bytes = Vec::new();
            write_binary(text, &mut bytes);
            let count = i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            assert_eq!(read_binary(count, &bytes[4..]).unwrap().str(), text);
        }
        assert!(read_binary(9, &[0]).is_err() && read_binary(-1, &[]).is_err());
    }

    #[test]
    fn numbers_keep_their_last_bits_and_their_sign() {
        assert_eq!(of_number(5, Modifier::bits(4)).str(), "0101");
        assert_eq!(of_number(-1, Modifier::bits(70)).str(), "1".repeat(70));
        assert_eq!(number(&"1".repeat(32), 32, "integer").unwrap(), -1);
        assert_eq!(number(&"1".repeat(64), 64, "bigint").unwrap(), -1);
        assert!(number(&"1".repeat(33), 32, "integer").is_err());
    }
}
