//! `MANIFEST`: what kind of directory this is, in which format, and which database.
//!
//! It is written when a database is created, and again when one of an earlier version is opened. In every format version it begins with the magic and the
//! version, and ends with a checksum of all before, so that a newer one can be told from a damaged one.

use std::fmt;
use std::path::Path;

use super::FORMAT_VERSION;
use super::failure::damaged;
use crate::{Error, Result};

const MAGIC: &[u8; 8] = b"HEDDLEDB";
const CHECKSUM_BYTES: usize = 4;
/// Magic, version, UUID, checksum.
const MANIFEST_BYTES: usize = 8 + 4 + 16 + CHECKSUM_BYTES;
/// No version will have a longer one: what is longer is not read.
pub(super) const MANIFEST_BYTES_MAX: u64 = 64 << 10;

/// A database's identity: no two databases have the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Uuid(pub(crate) [u8; 16]);

impl Uuid {
    /// Where the checksums of this database's blocks start from: another database's blocks never have the right
    /// one.
    pub(super) fn checksum_seed(self) -> u32 {
        crc32c::crc32c(&self.0)
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// The manifest's bytes.
pub(super) fn encode(uuid: Uuid) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MANIFEST_BYTES);
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes.extend_from_slice(&uuid.0);
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The UUID in a manifest, and the format version. `path` is for messages.
pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<(Uuid, u32)> {
    let Some((content, checksum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(damaged(path, 0, "it is too short"));
    };
    let Some((magic, rest)) = content.split_first_chunk::<8>() else {
        return Err(damaged(path, 0, "it is too short"));
    };
    if magic != MAGIC {
        return Err(damaged(path, 0, "it does not begin with HEDDLEDB"));
    }
    if crc32c::crc32c(content) != u32::from_le_bytes(*checksum) {
        return Err(damaged(path, 0, "its checksum does not fit its content"));
    }
    let Some((version, rest)) = rest.split_first_chunk::<4>() else {
        return Err(damaged(path, 8, "it is too short"));
    };
    let version = u32::from_le_bytes(*version);
    check_version(version, path)?;
    match rest.try_into() {
        Ok(uuid) => Ok((Uuid(uuid), version)),
        Err(_) => Err(damaged(path, 12, format!("it is {} bytes long, not {MANIFEST_BYTES}", bytes.len()))),
    }
}

/// Refuses versions that this program does not know.
pub(super) fn check_version(found: u32, path: &Path) -> Result<()> {
    match found {
        0 => Err(damaged(path, 8, "there is no format version 0")),
        1..=FORMAT_VERSION => Ok(()),
        _ => Err(Error::NewerFormat { path: path.display().to_string(), found, supported: FORMAT_VERSION }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: Uuid = Uuid(*b"0123456789abcdef");

    fn read(bytes: &[u8]) -> Result<(Uuid, u32)> {
        decode(bytes, Path::new("bank/MANIFEST"))
    }

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(read(&encode(UUID)), Ok((UUID, FORMAT_VERSION)));
        assert_eq!(UUID.to_string(), "30313233343536373839616263646566");
    }

    #[test]
    fn every_flipped_bit_and_every_truncation_is_damage() {
        let good = encode(UUID);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(read(&bad), Err(Error::Damaged { .. })), "bit {bit}");
        }
        for length in 0..good.len() {
            assert!(matches!(read(&good[..length]), Err(Error::Damaged { .. })), "length {length}");
        }
    }

    #[test]
    fn a_newer_version_is_named_whatever_else_it_holds() {
        let mut newer = Vec::new();
        newer.extend_from_slice(MAGIC);
        newer.extend_from_slice(&7u32.to_le_bytes());
        newer.extend_from_slice(b"things that only version 7 knows of");
        let checksum = crc32c::crc32c(&newer);
        newer.extend_from_slice(&checksum.to_le_bytes());
        let error = read(&newer).expect_err("a newer version");
        assert!(matches!(error, Error::NewerFormat { found: 7, supported: FORMAT_VERSION, .. }));
        assert!(error.to_string().contains("format version 7"));
    }

    #[test]
    fn version_zero_and_wrong_lengths_are_damage() {
        for (version, tail) in [(0u32, &UUID.0[..]), (1, &UUID.0[..15]), (1, b"0123456789abcdefg")] {
            let mut bytes = [&MAGIC[..], &version.to_le_bytes(), tail].concat();
            let checksum = crc32c::crc32c(&bytes);
            bytes.extend_from_slice(&checksum.to_le_bytes());
            assert!(matches!(read(&bytes), Err(Error::Damaged { .. })));
        }
    }
}
