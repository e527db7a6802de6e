//! `MANIFEST`: what kind of directory this is, in which format, and which database.
//!
//! It is written when a database is created, and again when one of an earlier version is opened. In every format
//! version it begins with the magic and the version, and ends with a checksum of all before, so that a newer one can
//! be distinguished from a damaged one.
//!
//! Of version 5 since blocks of the log say their term and time (log format 3), which a program of before would take for a torn
//! tail. Of version 4 since two groups of the log may be in flight: a program of before that would take what a crash leaves of them for
//! damage, or make only the second of them durable. Version 3 said where a log elsewhere is, and was used for nothing else.

use std::fmt;
use std::path::{Path, PathBuf};

use super::failure::damaged;
use crate::{Error, Result};

const MAGIC: &[u8; 8] = b"HEDDLEDB";
const CHECKSUM_BYTES: usize = 4;
/// Magic, version, UUID, checksum.
const MANIFEST_BYTES: usize = 8 + 4 + 16 + CHECKSUM_BYTES;
/// The version of a manifest: behind the UUID it says where the log is, if that is elsewhere. Other files have
/// versions of their own: a program that must refuse the log refuses the manifest.
pub(super) const MANIFEST_VERSION: u32 = 5;
/// The first version of a manifest that says where the log is, and of the files that say whose a directory elsewhere is.
pub(super) const LOG_ELSEWHERE: u32 = 3;
/// Longest manifest of any version: a longer one is not read.
pub(super) const MANIFEST_BYTES_MAX: u64 = 64 << 10;

/// A database's identity: no two databases have the same.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Uuid(pub(crate) [u8; 16]);

impl Uuid {
    /// The seed of this database's block checksums: blocks of another database never have the right checksum.
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

/// The content of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) uuid: Uuid,
    /// The format version of the manifest.
    pub(super) version: u32,
    /// The log's directory, if it is not in the database's own directory.
    pub(super) log: Option<PathBuf>,
}

/// The manifest's bytes.
pub(super) fn encode(uuid: Uuid, log: Option<&str>) -> Vec<u8> {
    seal(MAGIC, MANIFEST_VERSION, uuid, log.unwrap_or_default())
}

/// A file of magic, version, UUID, text and checksum.
pub(super) fn seal(magic: &[u8; 8], version: u32, uuid: Uuid, text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MANIFEST_BYTES + text.len());
    bytes.extend_from_slice(magic);
    bytes.extend_from_slice(&version.to_le_bytes());
    bytes.extend_from_slice(&uuid.0);
    bytes.extend_from_slice(text.as_bytes());
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Decodes a manifest. `path` is for messages.
pub(super) fn decode(bytes: &[u8], path: &Path) -> Result<Identity> {
    let (version, uuid, text) = unseal(bytes, MAGIC, path)?;
    let Some(text) = text else { return Ok(Identity { uuid, version, log: None }) };
    Ok(Identity { uuid, version, log: Some(PathBuf::from(text)) })
}

/// Version, UUID and text of a file that [`seal`] made; of [`LOG_ELSEWHERE`] there is text, of [`MANIFEST_VERSION`] there may be.
pub(super) fn unseal<'b>(
    bytes: &'b [u8],
    expected: &[u8; 8],
    path: &Path,
) -> Result<(u32, Uuid, Option<&'b str>)> {
    let Some((content, checksum)) = bytes.split_last_chunk::<CHECKSUM_BYTES>() else {
        return Err(damaged(path, 0, "it is too short"));
    };
    let Some((magic, rest)) = content.split_first_chunk::<8>() else {
        return Err(damaged(path, 0, "it is too short"));
    };
    if magic != expected {
        return Err(damaged(path, 0, format!("it does not begin with {}", expected.escape_ascii())));
    }
    if crc32c::crc32c(content) != u32::from_le_bytes(*checksum) {
        return Err(damaged(path, 0, "its checksum does not fit its content"));
    }
    let Some((version, rest)) = rest.split_first_chunk::<4>() else {
        return Err(damaged(path, 8, "it is too short"));
    };
    let version = u32::from_le_bytes(*version);
    check_version(MANIFEST_VERSION, version, path)?;
    let Some((uuid, text)) = rest.split_first_chunk::<16>() else {
        return Err(damaged(path, 12, "it is too short"));
    };
    let uuid = Uuid(*uuid);
    match (version >= LOG_ELSEWHERE, std::str::from_utf8(text)) {
        (_, _) if text.is_empty() && version != LOG_ELSEWHERE => Ok((version, uuid, None)),
        (true, Ok(text)) if !text.is_empty() => Ok((version, uuid, Some(text))),
        (true, _) => Err(damaged(path, 28, "it names no directory")),
        (false, _) => {
            Err(damaged(path, 12, format!("it is {} bytes long, not {MANIFEST_BYTES}", bytes.len())))
        }
    }
}

/// Refuses versions of a file that this program does not know.
pub(super) fn check_version(supported: u32, found: u32, path: &Path) -> Result<()> {
    match found {
        0 => Err(damaged(path, 8, "there is no format version 0")),
        _ if found <= supported => Ok(()),
        _ => Err(Error::NewerFormat { path: path.display().to_string(), found, supported }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: Uuid = Uuid(*b"0123456789abcdef");

    fn read(bytes: &[u8]) -> Result<Identity> {
        decode(bytes, Path::new("bank/MANIFEST"))
    }

    #[test]
    fn what_was_written_is_read() {
        let (version, log) = (MANIFEST_VERSION, None);
        assert_eq!(read(&encode(UUID, None)), Ok(Identity { uuid: UUID, version, log }));
        let log = Some(PathBuf::from("/fast/log"));
        let elsewhere = Identity { uuid: UUID, version, log };
        assert_eq!(read(&encode(UUID, Some("/fast/log"))), Ok(elsewhere.clone()));
        let version = LOG_ELSEWHERE;
        let older = Identity { version, ..elsewhere };
        assert_eq!(read(&seal(MAGIC, version, UUID, "/fast/log")), Ok(older));
        for version in [1, 2] {
            let older = Identity { uuid: UUID, version, log: None };
            assert_eq!(read(&seal(MAGIC, version, UUID, "")), Ok(older));
        }
        assert_eq!(UUID.to_string(), "30313233343536373839616263646566");
    }

    #[test]
    fn every_flipped_bit_and_every_truncation_is_damage() {
        for good in [encode(UUID, None), encode(UUID, Some("/fast/log"))] {
            for bit in 0..good.len() * 8 {
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(matches!(read(&bad), Err(Error::Damaged { .. })), "bit {bit}");
            }
            for length in 0..good.len() {
                assert!(matches!(read(&good[..length]), Err(Error::Damaged { .. })), "length {length}");
            }
        }
    }

    #[test]
    fn a_log_elsewhere_is_named_by_a_text_that_is_there() {
        for bytes in [seal(MAGIC, 3, UUID, ""), seal(MAGIC, 2, UUID, "/fast/log")] {
            assert!(matches!(read(&bytes), Err(Error::Damaged { .. })));
        }
        let mut bytes = seal(MAGIC, 3, UUID, "/fast/log");
        bytes.truncate(28);
        bytes.push(0xFF);
        bytes.extend_from_slice(&crc32c::crc32c(&bytes).to_le_bytes());
        assert!(matches!(read(&bytes), Err(Error::Damaged { offset: 28, .. })));
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
        assert!(matches!(error, Error::NewerFormat { found: 7, supported: MANIFEST_VERSION, .. }));
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
