//! Values as bytes that compare exactly as the values do: keys, and the members of tuples.
//!
//! ```text
//! nullable      0 = NULL, without more │ 1, then the value
//! bool          1 byte                      int32, date        4 bytes, big-endian, sign bit flipped
//! decimal       8 bytes up to precision 18, else 16, of the unscaled number, as an integer
//! float64       8 bytes: positive with the sign bit flipped, negative with all bits flipped
//! int64, timestamp   8 bytes, as int32      uuid               16 bytes
//! text, bytes   the bytes, with 0 written as 0 255; then 0 0
//! ```
//!
//! Invariants: of two keys of the same types, the bytes compare as the columns do, one after the other; no
//! key is a prefix of another. Each value has one encoding, and decoding refuses all other bytes: -0 is written as
//! 0, and there is one NaN.

use crate::error::{Error, Result};
use crate::types::memory::{Refused, reserve};
use crate::types::{DataType, Date, Decimal, Timestamp, Uuid, Value, ValueRef, assignment};

/// An encoded key: without an allocation up to 64 bytes.
pub(crate) use crate::types::encoded_key::EncodedKey;

/// The name of keys in messages.
const WHAT: &str = "a key column";

const IS_NULL: u8 = 0;
const IS_VALUE: u8 = 1;

/// Length beyond which texts, which are no keys but a tuple's, reserve their room at once, where the system may refuse
/// it.
const LONG_BYTES: usize = 4_096;
/// The byte that follows a zero byte inside a text or byte string; its end is a zero followed by another byte.
const ESCAPED: u8 = 0xFF;

/// Decimals of at most this many digits take eight bytes.
const SHORT_PRECISION_MAX: u8 = 18;

/// Appends the encoding of one column's value.
#[inline]
pub(crate) fn encode_component(
    key: &mut EncodedKey,
    value: ValueRef<'_>,
    data_type: &DataType,
    nullable: bool,
) -> Result<()> {
    // The usual component of a primary key, without a call.
    match (data_type, value, nullable) {
        (DataType::Int64, ValueRef::Int(int), false) => {
            key.append(&flip_64(int));
            return Ok(());
        }
        (DataType::Int32, ValueRef::Int(int), false) => {
            if let Ok(int) = i32::try_from(int) {
                key.append(&flip_32(int));
                return Ok(());
            }
        }
        _ => {}
    }
    encode_any_component(key, value, data_type, nullable)
}

fn encode_any_component(
    key: &mut EncodedKey,
    value: ValueRef<'_>,
    data_type: &DataType,
    nullable: bool,
) -> Result<()> {
    match (value, nullable) {
        (ValueRef::Null, true) => {
            key.push(IS_NULL);
            return Ok(());
        }
        (ValueRef::Null, false) => return Err(Error::NullValue { what: WHAT.to_owned() }),
        (_, true) => key.push(IS_VALUE),
        (_, false) => {}
    }
    encode_value(key, value, data_type)
}

fn encode_value(key: &mut EncodedKey, value: ValueRef<'_>, data_type: &DataType) -> Result<()> {
    match (data_type, value) {
        (DataType::Int64, ValueRef::Int(int)) => key.append(&flip_64(int)),
        (DataType::Int32, ValueRef::Int(int)) => {
            let int = assignment::check_int(int, data_type, WHAT)?;
            key.extend_from_slice(&flip_32(int as i32));
        }
        (DataType::Text, ValueRef::Text(text)) => {
            assignment::check_text(text, WHAT)?;
            encode_escaped(key, text.as_bytes())?;
        }
        (DataType::Bytes, ValueRef::Bytes(bytes)) => {
            assignment::check_length(bytes.len(), WHAT)?;
            encode_escaped(key, bytes)?;
        }
        (DataType::Decimal { precision, scale }, ValueRef::Decimal(decimal)) => {
            encode_decimal(key, assignment::fit_decimal(decimal, *precision, *scale, WHAT)?, *precision);
        }
        (DataType::Decimal { precision, scale }, ValueRef::Int(int)) => {
            let decimal = assignment::fit_decimal(Decimal::from(int), *precision, *scale, WHAT)?;
            encode_decimal(key, decimal, *precision);
        }
        (DataType::Bool, ValueRef::Bool(bool)) => key.push(u8::from(bool)),
        (DataType::Float64, ValueRef::Float(float)) => key.extend_from_slice(&encode_float(float)),
        (DataType::Float64, ValueRef::Int(int)) => {
            key.extend_from_slice(&encode_float(assignment::exact_float(int, WHAT)?));
        }
        (DataType::Date, ValueRef::Date(date)) => key.extend_from_slice(&flip_32(date.days())),
        (DataType::Timestamp, ValueRef::Timestamp(time)) => {
            key.extend_from_slice(&flip_64(time.microseconds()));
        }
        (DataType::Uuid, ValueRef::Uuid(uuid)) => key.extend_from_slice(&uuid.bytes()),
        _ => return Err(assignment::wrong_type(value, data_type, WHAT)),
    }
    Ok(())
}

/// Takes one column's value off the front of `key`.
pub(crate) fn decode_component(key: &mut &[u8], data_type: &DataType, nullable: bool) -> Result<Value> {
    if nullable {
        match take::<1>(key)? {
            [IS_NULL] => return Ok(Value::Null),
            [IS_VALUE] => {}
            [other] => return Err(malformed(&format!("{other} says neither NULL nor value"))),
        }
    }
    Ok(match data_type {
        DataType::Bool => match take::<1>(key)? {
            [0] => Value::Bool(false),
            [1] => Value::Bool(true),
            [other] => return Err(malformed(&format!("{other} is no bool"))),
        },
        DataType::Int32 => Value::Int(i64::from(unflip_32(take(key)?))),
        DataType::Int64 => Value::Int(unflip_64(take(key)?)),
        DataType::Float64 => Value::Float(decode_float(take(key)?)?),
        DataType::Decimal { precision, scale } => Value::Decimal(decode_decimal(key, *precision, *scale)?),
        DataType::Text => {
            let text =
                String::from_utf8(decode_escaped(key)?).map_err(|_| malformed("the text is not UTF-8"))?;
            if text.contains('\0') {
                return Err(malformed("the text has a character zero"));
            }
            Value::Text(text)
        }
        DataType::Bytes => Value::Bytes(decode_escaped(key)?),
        DataType::Date => Value::Date(
            Date::from_days(unflip_32(take(key)?)).map_err(|error| malformed(&error.to_string()))?,
        ),
        DataType::Timestamp => Value::Timestamp(
            Timestamp::from_microseconds(unflip_64(take(key)?))
                .map_err(|error| malformed(&error.to_string()))?,
        ),
        DataType::Uuid => Value::Uuid(Uuid::from_bytes(take(key)?)),
        DataType::OrderedTuple(_) | DataType::TopK { .. } => {
            return Err(malformed(&format!("a key has no column of type {data_type}")));
        }
    })
}

/// The smallest key above every key that begins with `prefix`; None if there is none.
pub(crate) fn prefix_end(prefix: &[u8]) -> Option<EncodedKey> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = EncodedKey::from(&prefix[..last]);
    end.push(prefix[last] + 1);
    Some(end)
}

fn malformed(detail: &str) -> Error {
    Error::Malformed { what: "key", detail: detail.to_owned() }
}

/// The first `N` bytes of the rest of a key.
fn take<const N: usize>(key: &mut &[u8]) -> Result<[u8; N]> {
    let (first, rest) = key.split_first_chunk().ok_or_else(|| malformed("it ends too early"))?;
    *key = rest;
    Ok(*first)
}

fn flip_32(int: i32) -> [u8; 4] {
    ((int as u32) ^ (1 << 31)).to_be_bytes()
}

fn unflip_32(bytes: [u8; 4]) -> i32 {
    (u32::from_be_bytes(bytes) ^ (1 << 31)) as i32
}

/// The kind of a primary key's component: integers are encoded without a look at the column and its name. Gain, when it
/// was introduced: 6 to 9 of a hundred instructions of a short transaction (`cargo bench --bench hot_path` counts what
/// one takes now).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    Int32,
    Int64,
    /// Anything else.
    Other,
}

impl KeyKind {
    /// The kind of a column that is not null.
    pub(crate) fn of(data_type: &DataType) -> KeyKind {
        match data_type {
            DataType::Int32 => KeyKind::Int32,
            DataType::Int64 => KeyKind::Int64,
            _ => KeyKind::Other,
        }
    }

    /// Appends an integer, as [`encode_component`] does, if it is one that the column takes and there is room for it in place.
    /// Whether it was appended.
    #[inline(always)]
    pub(crate) fn encode(self, key: &mut EncodedKey, int: i64) -> bool {
        match self {
            KeyKind::Int64 => key.append_in_place(&flip_64(int)),
            KeyKind::Int32 => i32::try_from(int).is_ok_and(|int| key.append_in_place(&flip_32(int))),
            KeyKind::Other => false,
        }
    }
}

/// An integer of a key's eight bytes, as a word that lies in memory as they do.
#[inline]
pub(crate) fn key_word_of(int: i64) -> u64 {
    u64::from_ne_bytes(flip_64(int))
}

/// The integer whose eight bytes in a key are this word.
#[inline]
pub(crate) fn int_of_key_word(word: u64) -> i64 {
    unflip_64(word.to_ne_bytes())
}

/// An integer's eight bytes in a key.
#[inline]
pub(crate) fn flip_64(int: i64) -> [u8; 8] {
    ((int as u64) ^ (1 << 63)).to_be_bytes()
}

#[inline]
fn unflip_64(bytes: [u8; 8]) -> i64 {
    (u64::from_be_bytes(bytes) ^ (1 << 63)) as i64
}

fn encode_float(float: f64) -> [u8; 8] {
    let canonical = if float.is_nan() {
        f64::NAN.abs()
    } else if float == 0.0 {
        0.0
    } else {
        float
    };
    let bits = canonical.to_bits();
    let negative = bits >> 63 == 1;
    (if negative { !bits } else { bits ^ (1 << 63) }).to_be_bytes()
}

fn decode_float(bytes: [u8; 8]) -> Result<f64> {
    let flipped = u64::from_be_bytes(bytes);
    let positive = flipped >> 63 == 1;
    let float = f64::from_bits(if positive { flipped ^ (1 << 63) } else { !flipped });
    if encode_float(float) == bytes { Ok(float) } else { Err(malformed("the float is a second zero or NaN")) }
}

/// A decimal that has the column's scale and at most its precision.
fn encode_decimal(key: &mut EncodedKey, decimal: Decimal, precision: u8) {
    if precision <= SHORT_PRECISION_MAX {
        key.extend_from_slice(&flip_64(decimal.unscaled() as i64));
    } else {
        key.extend_from_slice(&((decimal.unscaled() as u128) ^ (1 << 127)).to_be_bytes());
    }
}

fn decode_decimal(key: &mut &[u8], precision: u8, scale: u8) -> Result<Decimal> {
    let unscaled = if precision <= SHORT_PRECISION_MAX {
        i128::from(unflip_64(take(key)?))
    } else {
        (u128::from_be_bytes(take(key)?) ^ (1 << 127)) as i128
    };
    match Decimal::new(unscaled, scale) {
        Ok(decimal) if decimal.precision() <= precision => Ok(decimal),
        _ => Err(malformed(&format!("the decimal has more than {precision} digits"))),
    }
}

fn encode_escaped(key: &mut EncodedKey, bytes: &[u8]) -> Result<()> {
    if bytes.len() > LONG_BYTES {
        let zeros = bytes.iter().filter(|&&byte| byte == 0).count();
        // And for what follows before the next long text.
        key.reserve(bytes.len() + zeros + 64).map_err(Refused::error)?;
    }
    let mut pieces = bytes.split(|&byte| byte == 0);
    key.extend_from_slice(pieces.next().unwrap_or_default());
    for piece in pieces {
        key.extend_from_slice(&[0, ESCAPED]);
        key.extend_from_slice(piece);
    }
    key.extend_from_slice(&[0, 0]);
    Ok(())
}

fn decode_escaped(key: &mut &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let zero = key.iter().position(|&byte| byte == 0).ok_or_else(|| malformed("a text has no end"))?;
        reserve(&mut bytes, zero).map_err(Refused::error)?;
        bytes.extend_from_slice(&key[..zero]);
        *key = &key[zero + 1..];
        match take::<1>(key)? {
            [0] => return Ok(bytes),
            [ESCAPED] => bytes.push(0),
            [other] => return Err(malformed(&format!("a zero byte is followed by {other}"))),
        }
    }
}

#[cfg(test)]
mod tests;
