//! The hash of a key.
//!
//! foldhash in its quality form: one or two multiplications for a key of 8 to 16 bytes, and all 64 bits are good,
//! which the index needs (it takes the segment from the first bits, the bucket from the last, the tag from between).
//! The seed is drawn once per process, so that keys that collide cannot be computed ahead. foldhash does not claim to
//! withstand an attacker who measures; against that one, colliding keys cost long chains (slow, never wrong), and
//! the directory's growth is bounded. No hash is ever written to disk.

use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;

use foldhash::quality::SeedableRandomState;

static SEEDED: LazyLock<KeyHasher> = LazyLock::new(|| KeyHasher(SeedableRandomState::random()));

/// The process's seed, copied: a hash with it needs no look at whether it is drawn already.
pub(super) struct KeyHasher(SeedableRandomState);

impl KeyHasher {
    /// A hasher with the process's seed.
    pub(super) fn new() -> KeyHasher {
        KeyHasher(SEEDED.0.clone())
    }

    /// Same as [`hash_key`].
    #[inline(always)]
    pub(super) fn hash(&self, key: &[u8]) -> u64 {
        let mut hasher = self.0.build_hasher();
        match key.first_chunk() {
            // The usual key, one integer, without a look at its length in the hasher.
            Some(word) if key.len() == 8 => hasher.write_u64(u64::from_ne_bytes(*word)),
            _ => return hash_long(hasher, key),
        }
        hasher.finish()
    }
}

/// The hash of a key that is not eight bytes long: not compiled into each look-up.
#[inline(never)]
fn hash_long(mut hasher: impl Hasher, key: &[u8]) -> u64 {
    hasher.write(key);
    hasher.finish()
}

/// The hash of an encoded key, the same for all indexes of this process.
#[inline]
pub(crate) fn hash_key(key: &[u8]) -> u64 {
    SEEDED.hash(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn equal_keys_have_equal_hashes_and_length_counts() {
        assert_eq!(hash_key(b"warehouse"), hash_key("warehouse".as_bytes()));
        assert_ne!(hash_key(b""), hash_key(b"\0"));
        assert_ne!(hash_key(&[0; 8]), hash_key(&[0; 16]));
        assert_ne!(hash_key(&[0; 24]), hash_key(&[0; 32]));
    }

    #[test]
    fn each_index_hashes_as_all_do() {
        let hasher = KeyHasher::new();
        for length in 0..40 {
            let key: Vec<u8> = (0..length).collect();
            assert_eq!(hasher.hash(&key), hash_key(&key), "{length} bytes");
        }
    }

    #[test]
    fn successive_numbers_spread_over_first_and_last_bits() {
        for shift in [0, 20, 40, 54] {
            let mut counts = vec![0_u32; 1024];
            for number in 0..64 * 1024_u64 {
                counts[(hash_key(&number.to_be_bytes()) >> shift) as usize & 1023] += 1;
            }
            // 64 are expected, with a deviation of 8: seven deviations are not luck.
            assert!(counts.iter().all(|&count| (8..=120).contains(&count)), "bits from {shift}");
        }
    }

    #[test]
    fn short_keys_do_not_collide() {
        let hashes: HashSet<u64> = (0..100_000_u32).map(|number| hash_key(&number.to_be_bytes())).collect();
        assert_eq!(hashes.len(), 100_000);
    }
}
