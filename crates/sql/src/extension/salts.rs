//! `pgcrypto`: hashes of passwords, by Blowfish (`$2a$`) and MD5 (`$1$`).
//!
//! Salts and hashes by DES are refused: eight characters of a password count in them.
//!
//! Source: PostgreSQL 15, `contrib/pgcrypto/px-crypt.c`, `crypt-md5.c`, `crypt-gensalt.c`.

use base64::Engine;
use base64::alphabet::BCRYPT;
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use md5::{Digest, Md5};

use super::digests::random;
use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, scalar};
use crate::types::Value;

/// The table.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("crypt(text, text) text", crypt),
    scalar("gen_salt(text) text", |_, v| salt(v[0].str(), None)).volatile(),
    scalar("gen_salt(text, int4) text", |_, v| salt(v[0].str(), Some(v[1].int4()))).volatile(),
];

/// The digits of salts and hashes by MD5.
const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// Default number of rounds of Blowfish salts, as a power of two.
const ROUNDS_DEFAULT: i32 = 6;
/// Number of digits of a Blowfish salt.
const BLOWFISH_SALT_DIGITS: usize = 22;

fn blowfish_digits() -> GeneralPurpose {
    let config = GeneralPurposeConfig::new()
        .with_encode_padding(false)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    GeneralPurpose::new(&BCRYPT, config)
}

fn invalid(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn refused_des() -> SqlError {
    SqlError::unsupported("hashes of passwords by DES are not supported").with_hint("Use gen_salt('bf').")
}

fn salt(kind: &str, rounds: Option<i32>) -> Result<Value> {
    let mut bytes = [0; 16];
    random(&mut bytes)?;
    match kind.to_ascii_lowercase().as_str() {
        "bf" => {
            let rounds = rounds.filter(|rounds| *rounds != 0).unwrap_or(ROUNDS_DEFAULT);
            if !(4..=31).contains(&rounds) {
                return Err(invalid("gen_salt: Incorrect number of rounds"));
            }
            Ok(Value::text(format!("$2a${rounds:02}${}", blowfish_digits().encode(bytes))))
        }
        "md5" if !matches!(rounds, None | Some(0 | 1000)) => {
            Err(invalid("gen_salt: Incorrect number of rounds"))
        }
        "md5" => {
            let digits = bytes[..8].iter().map(|byte| char::from(DIGITS[usize::from(byte & 63)]));
            Ok(Value::text(format!("$1${}", digits.collect::<String>())))
        }
        "des" | "xdes" => Err(refused_des()),
        _ => Err(invalid("gen_salt: Unknown salt algorithm")),
    }
}

fn crypt(_: &mut FunctionContext<'_>, v: &[Value]) -> Result<Value> {
    let (password, salt) = (v[0].str(), v[1].str());
    if let Some(rest) = salt.strip_prefix("$2a$") {
        return by_blowfish(password, rest).map(Value::text);
    }
    if let Some(rest) = salt.strip_prefix("$1$") {
        let digits = rest.split('$').next().unwrap_or_default();
        let digits: String = digits.chars().take(8).collect();
        return Ok(Value::text(by_md5(password.as_bytes(), digits.as_bytes())));
    }
    if salt.starts_with('$') || salt.len() < 2 {
        return Err(invalid("invalid salt"));
    }
    Err(refused_des())
}

/// The hash by Blowfish; `rest` is the salt after `$2a$`.
fn by_blowfish(password: &str, rest: &str) -> Result<String> {
    let wrong = || invalid("invalid salt");
    let (rounds, digits) = rest.split_once('$').ok_or_else(wrong)?;
    let cost: u32 = rounds.parse().ok().filter(|cost| (4..=31).contains(cost)).ok_or_else(wrong)?;
    let digits = digits.get(..BLOWFISH_SALT_DIGITS).filter(|_| rounds.len() == 2).ok_or_else(wrong)?;
    let salt: [u8; 16] =
        blowfish_digits().decode(digits).ok().and_then(|salt| salt.try_into().ok()).ok_or_else(wrong)?;
    // A password ends with a zero, and 72 bytes of it count.
    let mut key = password.as_bytes().to_vec();
    key.push(0);
    key.truncate(72);
    let hash = bcrypt::bcrypt(cost, salt, &key);
    let encoded = blowfish_digits();
    Ok(format!("$2a${cost:02}${}{}", encoded.encode(salt), encoded.encode(&hash[..23])))
}

/// The hash by MD5, as Kamp's `crypt` computes it: a thousand rounds.
fn by_md5(password: &[u8], salt: &[u8]) -> String {
    let inner = Md5::new().chain_update(password).chain_update(salt).chain_update(password).finalize();
    let mut outer = Md5::new().chain_update(password).chain_update(b"$1$").chain_update(salt);
    for at in (0..password.len()).step_by(16) {
        outer.update(&inner[..(password.len() - at).min(16)]);
    }
    let mut bits = password.len();
    while bits > 0 {
        let first = password.first().copied().unwrap_or_default();
        outer.update([if bits & 1 == 1 { 0 } else { first }]);
        bits >>= 1;
    }
    let mut hash = outer.finalize();
    for round in 0..1000 {
        let mut next = Md5::new();
        let (first, last): (&[u8], &[u8]) =
            if round % 2 == 1 { (password, &hash) } else { (&hash, password) };
        next.update(first);
        if round % 3 != 0 {
            next.update(salt);
        }
        if round % 7 != 0 {
            next.update(password);
        }
        next.update(last);
        hash = next.finalize();
    }
    let mut text = format!("$1${}$", String::from_utf8_lossy(salt));
    let mut push = |mut bits: u32, digits: usize| {
        for _ in 0..digits {
            text.push(char::from(DIGITS[(bits & 63) as usize]));
            bits >>= 6;
        }
    };
    let byte = |at: usize| u32::from(hash[at]);
    for at in 0..5 {
        let last = if at == 4 { 5 } else { at + 12 };
        push(byte(at) << 16 | byte(at + 6) << 8 | byte(last), 4);
    }
    push(byte(11), 2);
    text
}
