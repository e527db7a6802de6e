//! `pgcrypto`: encryption by AES and Blowfish, chained or block by block.
//!
//! Source: PostgreSQL 15, `contrib/pgcrypto/px.c` (`px_find_combo`), `openssl.c`.

use aes::cipher::generic_array::GenericArray;
use aes::cipher::{BlockDecrypt, BlockEncrypt, BlockSizeUser, KeyInit};
use aes::{Aes128, Aes192, Aes256};
use blowfish::Blowfish;

use super::digests::no_algorithm;
use crate::error::{Result, SqlError, SqlState};
use crate::functions::definition::{Definition, FunctionContext, scalar};
use crate::interrupt::step;
use crate::types::Value;

/// The table.
pub(super) const FUNCTIONS: &[Definition] = &[
    scalar("encrypt(bytea, bytea, text) bytea", |_: &mut FunctionContext<'_>, v: &[Value]| {
        run(v[0].as_bytes(), v[1].as_bytes(), &[], v[2].str(), Direction::Encrypt)
    }),
    scalar("decrypt(bytea, bytea, text) bytea", |_: &mut FunctionContext<'_>, v: &[Value]| {
        run(v[0].as_bytes(), v[1].as_bytes(), &[], v[2].str(), Direction::Decrypt)
    }),
    scalar("encrypt_iv(bytea, bytea, bytea, text) bytea", |_: &mut FunctionContext<'_>, v: &[Value]| {
        run(v[0].as_bytes(), v[1].as_bytes(), v[2].as_bytes(), v[3].str(), Direction::Encrypt)
    }),
    scalar("decrypt_iv(bytea, bytea, bytea, text) bytea", |_: &mut FunctionContext<'_>, v: &[Value]| {
        run(v[0].as_bytes(), v[1].as_bytes(), v[2].as_bytes(), v[3].str(), Direction::Decrypt)
    }),
];

/// Maximum number of bytes of a key that Blowfish uses.
const BLOWFISH_KEY_BYTES_MAX: usize = 56;

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Encrypt,
    Decrypt,
}

/// The cipher, mode and padding named by the third argument: `aes-cbc/pad:pkcs`.
struct Manner {
    is_aes: bool,
    is_chained: bool,
    is_padded: bool,
}

impl Manner {
    fn of(text: &str) -> Result<Manner> {
        let lower = text.to_ascii_lowercase();
        let (cipher, option) = lower.split_once('/').unwrap_or((&lower, "pad:pkcs"));
        let (algorithm, mode) = cipher.split_once('-').unwrap_or((cipher, "cbc"));
        let is_aes = match algorithm {
            "aes" | "rijndael" => true,
            "bf" | "blowfish" => false,
            _ => return Err(no_algorithm(text, "cipher")),
        };
        let is_chained = match mode {
            "cbc" => true,
            "ecb" => false,
            _ => return Err(no_algorithm(text, "cipher")),
        };
        let is_padded = match option {
            "pad:pkcs" => true,
            "pad:none" => false,
            _ => {
                let message = format!("Cannot use \"{lower}\": Bad option");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        };
        Ok(Manner { is_aes, is_chained, is_padded })
    }
}

fn failed(direction: Direction, reason: &str) -> SqlError {
    let what = if direction == Direction::Encrypt { "encrypt" } else { "decrypt" };
    SqlError::new(SqlState::EXTERNAL_ROUTINE_INVOCATION, format!("{what} error: {reason}"))
}

fn run(data: &[u8], key: &[u8], start: &[u8], manner: &str, direction: Direction) -> Result<Value> {
    let manner = Manner::of(manner)?;
    // Excess bytes of a key do not count.
    let mut padded = key.to_vec();
    if !manner.is_aes {
        padded.truncate(BLOWFISH_KEY_BYTES_MAX);
        let cipher: Blowfish = keyed(&cycled(&padded), direction)?;
        return through(&cipher, data, start, &manner, direction);
    }
    let size = match key.len() {
        ..=16 => 16,
        17..=24 => 24,
        _ => 32,
    };
    padded.resize(size, 0);
    match size {
        16 => through(&keyed::<Aes128>(&padded, direction)?, data, start, &manner, direction),
        24 => through(&keyed::<Aes192>(&padded, direction)?, data, start, &manner, direction),
        _ => through(&keyed::<Aes256>(&padded, direction)?, data, start, &manner, direction),
    }
}

/// A key of Blowfish with at least four bytes: it is repeated anyway, and one of no bytes is one of zeros.
fn cycled(key: &[u8]) -> Vec<u8> {
    let key = if key.is_empty() { &[0] } else { key };
    key.iter().copied().cycle().take(if key.len() < 4 { key.len() * 4 } else { key.len() }).collect()
}

fn keyed<C: KeyInit>(key: &[u8], direction: Direction) -> Result<C> {
    C::new_from_slice(key).map_err(|_| failed(direction, "Key was too big"))
}

fn through<C: BlockEncrypt + BlockDecrypt + BlockSizeUser>(
    cipher: &C,
    data: &[u8],
    start: &[u8],
    manner: &Manner,
    direction: Direction,
) -> Result<Value> {
    let size = C::block_size();
    if direction == Direction::Decrypt && manner.is_padded && !data.len().is_multiple_of(size) {
        return Err(failed(direction, "Decryption failed"));
    }
    let mut last = start.to_vec();
    last.resize(size, 0);
    let mut bytes = data.to_vec();
    if direction == Direction::Encrypt && manner.is_padded {
        let missing = size - bytes.len() % size;
        bytes.resize(bytes.len() + missing, missing as u8);
    }
    if !bytes.len().is_multiple_of(size) {
        return Err(failed(direction, "Data not a multiple of block size"));
    }
    for block in bytes.chunks_exact_mut(size) {
        step()?;
        let before = block.to_vec();
        if direction == Direction::Encrypt {
            if manner.is_chained {
                block.iter_mut().zip(&last).for_each(|(byte, last)| *byte ^= last);
            }
            cipher.encrypt_block(GenericArray::from_mut_slice(block));
            last.copy_from_slice(block);
            continue;
        }
        cipher.decrypt_block(GenericArray::from_mut_slice(block));
        if manner.is_chained {
            block.iter_mut().zip(&last).for_each(|(byte, last)| *byte ^= last);
        }
        last = before;
    }
    if direction == Direction::Decrypt && manner.is_padded {
        let padding = bytes.last().map_or(0, |last| usize::from(*last));
        let is_sound = (1..=size).contains(&padding)
            && bytes.len() >= padding
            && bytes[bytes.len() - padding..].iter().all(|byte| usize::from(*byte) == padding);
        if !is_sound {
            return Err(failed(direction, "Decryption failed"));
        }
        bytes.truncate(bytes.len() - padding);
    }
    Ok(Value::bytes(bytes))
}
