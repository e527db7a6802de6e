//! `pgcrypto`: digests, authentication codes and random bytes.
//!
//! Source: PostgreSQL 15, `contrib/pgcrypto`.

use hmac::{Hmac, KeyInit, Mac};
use md5::{Digest, Md5};
use sha1::Sha1;
use sha2::{Sha224, Sha256, Sha384, Sha512};

use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, scalar};
use crate::interrupt::blocks;
use crate::types::Value;

/// The table.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("digest(text, text) bytea", digest),
    scalar("digest(bytea, text) bytea", digest),
    scalar("hmac(text, text, text) bytea", code),
    scalar("hmac(bytea, bytea, text) bytea", code),
    scalar("gen_random_bytes(int4) bytea", random_bytes).volatile(),
    scalar("gen_random_uuid() uuid", random_uuid).volatile(),
];

/// The most random bytes of one call.
const RANDOM_BYTES_MAX: i32 = 1024;

/// Fills a slice with bytes from the system's generator.
///
/// # Errors
/// 39000: the system has none.
pub(super) fn random(bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes).map_err(|error| {
        let message = format!("could not generate a random number: {error}");
        SqlError::new(SqlState::EXTERNAL_ROUTINE_INVOCATION, message)
    })
}

/// The bytes of a text or a `bytea`.
pub(super) fn bytes_of(value: &Value) -> &[u8] {
    match value {
        Value::Bytes(bytes) => bytes,
        text => text.str().as_bytes(),
    }
}

/// `Cannot use "x": No such hash algorithm` (22023).
pub(super) fn no_algorithm(name: &str, kind: &str) -> SqlError {
    let message = format!("Cannot use \"{}\": No such {kind} algorithm", name.to_ascii_lowercase());
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn digest(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let (bytes, name) = (bytes_of(&v[0]), v[1].str());
    match name.to_ascii_lowercase().as_str() {
        "md5" => hashed::<Md5>(bytes),
        "sha1" => hashed::<Sha1>(bytes),
        "sha224" => hashed::<Sha224>(bytes),
        "sha256" => hashed::<Sha256>(bytes),
        "sha384" => hashed::<Sha384>(bytes),
        "sha512" => hashed::<Sha512>(bytes),
        _ => Err(no_algorithm(name, "hash")),
    }
}

fn hashed<D: Digest>(bytes: &[u8]) -> Result<Value> {
    let mut digest = D::new();
    for block in blocks(bytes) {
        digest.update(block?);
    }
    Ok(Value::bytes(digest.finalize()))
}

fn code(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let (bytes, key, name) = (bytes_of(&v[0]), bytes_of(&v[1]), v[2].str());
    match name.to_ascii_lowercase().as_str() {
        "md5" => authenticated::<Hmac<Md5>>(bytes, key),
        "sha1" => authenticated::<Hmac<Sha1>>(bytes, key),
        "sha224" => authenticated::<Hmac<Sha224>>(bytes, key),
        "sha256" => authenticated::<Hmac<Sha256>>(bytes, key),
        "sha384" => authenticated::<Hmac<Sha384>>(bytes, key),
        "sha512" => authenticated::<Hmac<Sha512>>(bytes, key),
        _ => Err(no_algorithm(name, "hash")),
    }
}

fn authenticated<M: Mac + KeyInit>(bytes: &[u8], key: &[u8]) -> Result<Value> {
    let mut code = <M as KeyInit>::new_from_slice(key)
        .map_err(|_| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "the key has a wrong length"))?;
    for block in blocks(bytes) {
        code.update(block?);
    }
    Ok(Value::bytes(code.finalize().into_bytes()))
}

fn random_bytes(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let length = v[0].int4();
    if !(1..=RANDOM_BYTES_MAX).contains(&length) {
        return Err(SqlError::new(SqlState::EXTERNAL_ROUTINE_INVOCATION, "Length not in range"));
    }
    let mut bytes = vec![0; length as usize];
    random(&mut bytes)?;
    Ok(Value::bytes(bytes))
}

fn random_uuid(_: &mut FunctionContext<'_>, _: &[Value]) -> Result<Value> {
    let mut bytes = [0; 16];
    random(&mut bytes)?;
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    Ok(Value::Uuid(bytes))
}
