//! Byte strings: parts, bits, encodings and digests.

use md5::{Digest, Md5};
use sha2::{Sha224, Sha256, Sha384, Sha512};

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, scalar};
use crate::interrupt::{blocks, step};
use crate::types::Value;
use crate::types::environment::ByteaStyle;
use crate::types::text::{bytea_text, parse_escaped, parse_hex, push_hex};

/// The table of functions.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("length(bytea) int4", |_, v| Ok(Value::Int4(v[0].as_bytes().len() as i32))),
    scalar("length(bytea, name) int4", |c, v| {
        convert_from(c, v).map(|text| Value::Int4(text.str().chars().count() as i32))
    })
    .stable(),
    scalar("octet_length(bytea) int4", |_, v| Ok(Value::Int4(v[0].as_bytes().len() as i32))),
    scalar("bit_length(bytea) int4", |_, v| Ok(Value::Int4(v[0].as_bytes().len() as i32 * 8))),
    scalar("substr(bytea, int4) bytea", substring),
    scalar("substr(bytea, int4, int4) bytea", substring),
    scalar("substring(bytea, int4) bytea", substring),
    scalar("substring(bytea, int4, int4) bytea", substring),
    scalar("position(bytea, bytea) int4", position),
    scalar("overlay(bytea, bytea, int4) bytea", overlay),
    scalar("overlay(bytea, bytea, int4, int4) bytea", overlay),
    scalar("ltrim(bytea, bytea) bytea", |_, v| Ok(trim(v, true, false))),
    scalar("rtrim(bytea, bytea) bytea", |_, v| Ok(trim(v, false, true))),
    scalar("btrim(bytea, bytea) bytea", |_, v| Ok(trim(v, true, true))),
    scalar("get_byte(bytea, int4) int4", get_byte),
    scalar("set_byte(bytea, int4, int4) bytea", set_byte),
    scalar("get_bit(bytea, int8) int4", get_bit),
    scalar("set_bit(bytea, int8, int4) bytea", set_bit),
    scalar("bit_count(bytea) int8", |_, v| {
        Ok(Value::Int8(v[0].as_bytes().iter().map(|byte| i64::from(byte.count_ones())).sum()))
    }),
    scalar("md5(text) text", |_, v| digest::<Md5>(v[0].str().as_bytes()).map(|hash| hex_text(&hash))),
    scalar("md5(bytea) text", |_, v| digest::<Md5>(v[0].as_bytes()).map(|hash| hex_text(&hash))),
    scalar("sha224(bytea) bytea", |_, v| digest::<Sha224>(v[0].as_bytes()).map(Value::bytes)),
    scalar("sha256(bytea) bytea", |_, v| digest::<Sha256>(v[0].as_bytes()).map(Value::bytes)),
    scalar("sha384(bytea) bytea", |_, v| digest::<Sha384>(v[0].as_bytes()).map(Value::bytes)),
    scalar("sha512(bytea) bytea", |_, v| digest::<Sha512>(v[0].as_bytes()).map(Value::bytes)),
    scalar("encode(bytea, text) text", encode),
    scalar("decode(text, text) bytea", decode),
    scalar("convert_from(bytea, name) text", convert_from).stable(),
    scalar("convert_to(text, name) bytea", convert_to).stable(),
    scalar("hashtext(text) int4", |_, v| Ok(Value::Int4(hash_bytes(v[0].str().as_bytes()) as i32))),
];

/// The table of operators.
pub(super) const OPERATORS: &[Definition] =
    &[scalar("||(bytea, bytea) bytea", |_, v| Ok(Value::bytes([v[0].as_bytes(), v[1].as_bytes()].concat())))];

/// The digest of bytes, of which there may be very many.
fn digest<D: Digest>(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut digest = D::new();
    for block in blocks(bytes) {
        digest.update(block?);
    }
    Ok(digest.finalize().to_vec())
}

fn hex_text(bytes: &[u8]) -> Value {
    let mut text = String::with_capacity(bytes.len() * 2);
    push_hex(bytes, &mut text);
    Value::text(text)
}

fn negative_length() -> SqlError {
    SqlError::new(SqlState::SUBSTRING_ERROR, "negative substring length not allowed")
}

fn part(bytes: &[u8], from: i32, length: Option<i32>) -> Result<&[u8]> {
    let size = bytes.len() as i64;
    let end = match length {
        Some(length) if length < 0 => return Err(negative_length()),
        Some(length) => i64::from(from) + i64::from(length),
        None => i64::MAX,
    };
    let start = (i64::from(from).max(1) - 1).min(size);
    let end = (end - 1).clamp(start, size);
    Ok(&bytes[start as usize..end as usize])
}

fn substring(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    part(v[0].as_bytes(), v[1].int4(), v.get(2).map(Value::int4)).map(Value::bytes)
}

fn position(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let (bytes, wanted) = (v[0].as_bytes(), v[1].as_bytes());
    if wanted.is_empty() {
        return Ok(Value::Int4(1));
    }
    for (at, part) in bytes.windows(wanted.len()).enumerate() {
        if part == wanted {
            return Ok(Value::Int4(at as i32 + 1));
        }
        step()?;
    }
    Ok(Value::Int4(0))
}

fn overlay(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let (bytes, new, from) = (v[0].as_bytes(), v[1].as_bytes(), v[2].int4());
    let length = v.get(3).map_or(new.len() as i32, Value::int4);
    if from <= 0 {
        return Err(negative_length());
    }
    let rest = from.checked_add(length);
    let rest =
        rest.ok_or_else(|| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"))?;
    Ok(Value::bytes([part(bytes, 1, Some(from - 1))?, new, part(bytes, rest, None)?].concat()))
}

fn trim(v: &[Value], at_start: bool, at_end: bool) -> Value {
    let mut bytes = v[0].as_bytes();
    let mut is_in_set = [false; 256];
    v[1].as_bytes().iter().for_each(|byte| is_in_set[usize::from(*byte)] = true);
    while let [first, rest @ ..] = bytes {
        if !at_start || !is_in_set[usize::from(*first)] {
            break;
        }
        bytes = rest;
    }
    while let [rest @ .., last] = bytes {
        if !at_end || !is_in_set[usize::from(*last)] {
            break;
        }
        bytes = rest;
    }
    Value::bytes(bytes)
}

fn index_error(index: i64, size: usize) -> SqlError {
    let message = format!("index {index} out of valid range, 0..{}", size as i64 - 1);
    SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message)
}

fn get_byte(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let (bytes, index) = (v[0].as_bytes(), v[1].int4());
    let byte = usize::try_from(index).ok().and_then(|at| bytes.get(at));
    byte.map(|byte| Value::Int4(i32::from(*byte))).ok_or_else(|| index_error(i64::from(index), bytes.len()))
}

fn set_byte(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let mut bytes = v[0].as_bytes().to_vec();
    let size = bytes.len();
    let slot = usize::try_from(v[1].int4()).ok().and_then(|at| bytes.get_mut(at));
    *slot.ok_or_else(|| index_error(i64::from(v[1].int4()), size))? = v[2].int4() as u8;
    Ok(Value::bytes(bytes))
}

/// The byte and the bit in it of a bit's number.
fn bit_place(bytes: &[u8], index: i64) -> Result<(usize, u32)> {
    let bits = bytes.len() * 8;
    match usize::try_from(index) {
        Ok(at) if at < bits => Ok((at / 8, (at % 8) as u32)),
        _ => Err(index_error(index, bits)),
    }
}

fn get_bit(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let (byte, bit) = bit_place(v[0].as_bytes(), v[1].int8())?;
    Ok(Value::Int4(i32::from(v[0].as_bytes()[byte] >> bit & 1)))
}

fn set_bit(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let (byte, bit) = bit_place(v[0].as_bytes(), v[1].int8())?;
    let mut bytes = v[0].as_bytes().to_vec();
    match v[2].int4() {
        0 => bytes[byte] &= !(1 << bit),
        1 => bytes[byte] |= 1 << bit,
        _ => return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "new bit must be 0 or 1")),
    }
    Ok(Value::bytes(bytes))
}

fn unknown_encoding(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unrecognized encoding: \"{name}\""))
}

fn encode(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let bytes = v[0].as_bytes();
    Ok(match v[1].str().to_ascii_lowercase().as_str() {
        "hex" => {
            let mut text = String::with_capacity(bytes.len() * 2);
            for block in blocks(bytes) {
                push_hex(block?, &mut text);
            }
            Value::text(text)
        }
        "base64" => Value::text(base64(bytes)?),
        "escape" => Value::text(escaped(bytes)?),
        _ => return Err(unknown_encoding(v[1].str())),
    })
}

fn decode(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let text = v[0].str();
    Ok(Value::bytes(match v[1].str().to_ascii_lowercase().as_str() {
        "hex" => parse_hex(text)?,
        "base64" => from_base64(text)?,
        "escape" => parse_escaped(text)?,
        _ => return Err(unknown_encoding(v[1].str())),
    }))
}

/// Zero bytes and bytes that are not ASCII in octal digits, the backslash doubled.
fn escaped(bytes: &[u8]) -> Result<String> {
    let mut text = String::new();
    for &byte in bytes {
        step()?;
        match byte {
            b'\\' => text.push_str("\\\\"),
            0 | 0x80.. => text.push_str(&bytea_text(&[byte], ByteaStyle::Escape)),
            _ => text.push(byte as char),
        }
    }
    Ok(text)
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Number of characters before a line break.
const BASE64_LINE: usize = 76;

fn base64(bytes: &[u8]) -> Result<String> {
    let mut text = String::new();
    let mut line = 0;
    for chunk in bytes.chunks(3) {
        step()?;
        let word =
            chunk.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..4 {
            let sextet = (word >> (18 - 6 * at) & 63) as usize;
            text.push(if at <= chunk.len() { BASE64[sextet] as char } else { '=' });
        }
        line += 4;
        if line == BASE64_LINE {
            text.push('\n');
            line = 0;
        }
    }
    Ok(text)
}

fn from_base64(text: &str) -> Result<Vec<u8>> {
    let fail = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut bytes = Vec::new();
    let (mut word, mut count, mut padding) = (0u32, 0, 0);
    for character in text.chars() {
        step()?;
        let sextet = match character {
            ' ' | '\t' | '\n' | '\r' => continue,
            '=' => {
                if count < 2 || padding == 0 && count > 3 {
                    return Err(fail("unexpected \"=\" while decoding base64 sequence".to_string()));
                }
                padding += 1;
                0
            }
            other => {
                let found = BASE64.iter().position(|it| *it as char == other);
                let found = found.filter(|_| padding == 0);
                found.ok_or_else(|| {
                    fail(format!("invalid symbol \"{other}\" found while decoding base64 sequence"))
                })?
            }
        };
        word = word << 6 | sextet as u32;
        count += 1;
        if count == 4 {
            bytes.extend_from_slice(&word.to_be_bytes()[1..4 - padding.min(2)]);
            (word, count, padding) = (0, 0, if padding > 0 { padding } else { 0 });
        }
    }
    if count != 0 {
        let error = fail("invalid base64 end sequence".to_string());
        return Err(
            error.with_hint("Input data is missing padding, is truncated, or is otherwise corrupted.")
        );
    }
    Ok(bytes)
}

/// Only UTF-8, and SQL_ASCII for texts that are ASCII, are known here.
fn check_encoding(name: &str, is_source: bool) -> Result<bool> {
    let folded: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    match folded.as_str() {
        "utf8" | "unicode" => Ok(true),
        "sqlascii" | "latin1" | "iso88591" => Ok(false),
        _ => {
            let which = if is_source { "source" } else { "destination" };
            let message = format!("invalid {which} encoding name \"{name}\"");
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message))
        }
    }
}

fn convert_from(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let bytes = v[0].as_bytes();
    let is_utf8 = check_encoding(v[1].str(), true)?;
    if !is_utf8 && !v[1].str().eq_ignore_ascii_case("sql_ascii") {
        return Ok(Value::text(bytes.iter().map(|byte| char::from(*byte)).collect::<String>()));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(Value::text(text)),
        _ => {
            let message = "invalid byte sequence for encoding \"UTF8\"";
            Err(SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message))
        }
    }
}

fn convert_to(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let text = v[0].str();
    if check_encoding(v[1].str(), false)? || text.is_ascii() || v[1].str().eq_ignore_ascii_case("sql_ascii") {
        return Ok(Value::bytes(text.as_bytes()));
    }
    let bytes: Option<Vec<u8>> = text.chars().map(|c| u8::try_from(c as u32).ok()).collect();
    bytes.map(Value::bytes).ok_or_else(|| {
        let message =
            "character with byte sequence in encoding \"UTF8\" has no equivalent in encoding \"LATIN1\"";
        SqlError::new(SqlState::UNTRANSLATABLE_CHARACTER, message)
    })
}

/// Bob Jenkins' hash of a byte string, as PostgreSQL's `hash_bytes` computes it on little-endian machines.
fn hash_bytes(key: &[u8]) -> u32 {
    let initial = 0x9e37_79b9u32.wrapping_add(key.len() as u32).wrapping_add(3_923_095);
    let (mut a, mut b, mut c) = (initial, initial, initial);
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0u32, |word, byte| word << 8 | u32::from(*byte));
    let mut rest = key;
    while rest.len() >= 12 {
        a = a.wrapping_add(word(&rest[..4]));
        b = b.wrapping_add(word(&rest[4..8]));
        c = c.wrapping_add(word(&rest[8..12]));
        for (turn, (left, right)) in
            [(4, (0, 2)), (6, (1, 0)), (8, (2, 1)), (16, (0, 2)), (19, (1, 0)), (4, (2, 1))]
        {
            let mut state = [a, b, c];
            let other = (left + 1) % 3;
            state[left] = state[left].wrapping_sub(state[right]) ^ state[right].rotate_left(turn);
            state[right] = state[right].wrapping_add(state[other]);
            [a, b, c] = state;
        }
        rest = &rest[12..];
    }
    let tail = |from: usize, to: usize| rest.get(from..to.min(rest.len())).map_or(0, word);
    a = a.wrapping_add(tail(0, 4));
    b = b.wrapping_add(tail(4, 8));
    // The lowest byte of the last word is reserved for the length.
    c = c.wrapping_add(tail(8, 12) << 8);
    for (target, source, turn) in
        [(2, 1, 14), (0, 2, 11), (1, 0, 25), (2, 1, 16), (0, 2, 4), (1, 0, 14), (2, 1, 24)]
    {
        let mut state: [u32; 3] = [a, b, c];
        state[target] = (state[target] ^ state[source]).wrapping_sub(state[source].rotate_left(turn));
        [a, b, c] = state;
    }
    c
}
