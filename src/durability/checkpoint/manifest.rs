//! A checkpoint's manifest: with it, under its final name, the checkpoint is there.

use std::collections::BTreeMap;
use std::path::Path;

use super::encoding::Fields;
use crate::Result;
use crate::durability::failure::damaged;
use crate::durability::manifest::check_version;
use crate::durability::{CHECKPOINT_VERSION, EPOCH_MAX, GroupStart, PAGE_BYTES, Uuid};
use crate::error::Error;
use crate::storage::redo::COPIED_BYTES_MIN;

const MAGIC: &[u8; 8] = b"HEDDLCPM";
const CHECKSUM_BYTES: usize = 4;
/// A longer one is not read: it would be of more than a hundred thousand parts.
pub(super) const MANIFEST_BYTES_MAX: u64 = 16 << 20;

/// The contents of a checkpoint, and the log that it needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    /// The checkpoint's number.
    pub(crate) number: u32,
    /// The log is needed from this epoch on.
    pub(crate) first_epoch: u64,
    /// The highest epoch of the copies, and of the deletions that a copier has met.
    pub(crate) last_epoch: u64,
    /// The epoch of the last group that was durable when the checkpoint was finished; 0: there was none.
    pub(crate) log_epoch: u64,
    /// A place in the log behind which are all groups from the first epoch on.
    pub(crate) log_start: GroupStart,
    /// Directories with parts, besides the checkpoints' own one.
    pub(crate) directories: Vec<String>,
    /// The parts; the first one's number is 1.
    pub(crate) parts: Vec<Part>,
    /// Number of records of each table.
    pub(crate) tables: BTreeMap<u32, u64>,
}

/// A part, as its checkpoint's manifest knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The part's number, from 1.
    pub(super) number: u32,
    /// 0: the checkpoints' own directory; else a place in the list of directories, from 1.
    pub(super) directory: u32,
    /// Bytes of the file.
    pub(super) bytes: u64,
    pub(super) blocks: u32,
    pub(super) records: u64,
}

/// The part of a checkpoint that was written: its parts, and the number of records of each table in them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(super) parts: Vec<Part>,
    pub(super) tables: BTreeMap<u32, u64>,
}

impl Written {
    /// Appends its fields.
    pub(crate) fn encode(&self, bytes: &mut Vec<u8>) {
        encode_written(bytes, &self.parts, &self.tables);
    }

    /// The fields in front; none, if there are too few.
    pub(crate) fn decode(fields: &mut Fields<'_>) -> Option<Written> {
        let mut parts = Vec::new();
        for _ in 0..fields.u32()? {
            let (number, directory, blocks) = (fields.u32()?, fields.u32()?, fields.u32()?);
            parts.push(Part { number, directory, blocks, bytes: fields.u64()?, records: fields.u64()? });
        }
        let mut tables = BTreeMap::new();
        for _ in 0..fields.u32()? {
            tables.insert(fields.u32()?, fields.u64()?);
        }
        Some(Written { parts, tables })
    }
}

fn encode_written(bytes: &mut Vec<u8>, parts: &[Part], tables: &BTreeMap<u32, u64>) {
    bytes.extend((parts.len() as u32).to_le_bytes());
    for Part { number, directory, bytes: length, blocks, records } in parts {
        [*number, *directory, *blocks].iter().for_each(|field| bytes.extend(field.to_le_bytes()));
        [*length, *records].iter().for_each(|field| bytes.extend(field.to_le_bytes()));
    }
    bytes.extend((tables.len() as u32).to_le_bytes());
    for (table, records) in tables {
        bytes.extend(table.to_le_bytes());
        bytes.extend(records.to_le_bytes());
    }
}

impl Default for GroupStart {
    fn default() -> GroupStart {
        GroupStart::FIRST
    }
}

impl Manifest {
    /// Copies of records in all parts.
    pub(crate) fn records(&self) -> u64 {
        self.parts.iter().map(|part| part.records).sum()
    }

    /// Bytes of all parts.
    pub(crate) fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }

    /// The part of the manifest that another process may have written.
    #[cfg(test)]
    pub(crate) fn written(&self) -> Written {
        Written { parts: self.parts.clone(), tables: self.tables.clone() }
    }

    /// Number of files of the checkpoint, its manifest included.
    pub(crate) fn files(&self) -> u64 {
        1 + self.parts.len() as u64
    }

    pub(super) fn encode(&self, uuid: Uuid) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&CHECKPOINT_VERSION.to_le_bytes());
        bytes.extend_from_slice(&uuid.0);
        let mut u64s = |numbers: &[u64]| numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        let GroupStart { epoch, segment, offset, sequence } = self.log_start;
        u64s(&[u64::from(self.number), self.first_epoch, self.last_epoch, self.log_epoch]);
        u64s(&[epoch, u64::from(segment), offset, sequence, self.directories.len() as u64]);
        for directory in &self.directories {
            bytes.extend((directory.len() as u32).to_le_bytes());
            bytes.extend(directory.as_bytes());
        }
        encode_written(&mut bytes, &self.parts, &self.tables);
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    /// The manifest of this number. `path` is for messages.
    pub(super) fn decode(bytes: &[u8], number: u32, uuid: Uuid, path: &Path) -> Result<Manifest> {
        let too_short = || damaged(path, bytes.len() as u64, "it is too short");
        let (content, checksum) = bytes.split_last_chunk::<CHECKSUM_BYTES>().ok_or_else(too_short)?;
        let mut fields = Fields { rest: content };
        if fields.take(MAGIC.len()).ok_or_else(too_short)? != MAGIC {
            return Err(damaged(path, 0, "it does not begin like a checkpoint's manifest"));
        }
        if crc32c::crc32c(content) != u32::from_le_bytes(*checksum) {
            return Err(damaged(path, 0, "its checksum does not fit its content"));
        }
        check_version(CHECKPOINT_VERSION, fields.u32().ok_or_else(too_short)?, path)?;
        if fields.array().ok_or_else(too_short)? != uuid.0 {
            return Err(Error::ForeignFile { path: path.display().to_string() });
        }
        let manifest = Self::decode_fields(&mut fields).ok_or_else(too_short)?;
        if manifest.number != number {
            let detail = format!("it is of checkpoint {} under the name of {number}", manifest.number);
            return Err(damaged(path, 28, detail));
        }
        match manifest.inconsistency() {
            None if fields.rest.is_empty() => Ok(manifest),
            None => Err(damaged(path, (content.len() - fields.rest.len()) as u64, "it is too long")),
            Some(detail) => Err(damaged(path, 28, detail)),
        }
    }

    fn decode_fields(fields: &mut Fields<'_>) -> Option<Manifest> {
        let number = u32::try_from(fields.u64()?).ok()?;
        let (first_epoch, last_epoch, log_epoch) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let (epoch, segment) = (fields.u64()?, u32::try_from(fields.u64()?).ok()?);
        let log_start = GroupStart { epoch, segment, offset: fields.u64()?, sequence: fields.u64()? };
        let mut directories = Vec::new();
        for _ in 0..fields.u64()? {
            let length = fields.u32()? as usize;
            directories.push(String::from_utf8(fields.take(length)?.to_vec()).ok()?);
        }
        let Written { parts, tables } = Written::decode(fields)?;
        Some(Manifest { number, first_epoch, last_epoch, log_epoch, log_start, directories, parts, tables })
    }

    /// The first contradiction in the manifest, which HeddleDB itself never writes; `None` if there is none.
    pub(super) fn inconsistency(&self) -> Option<&'static str> {
        let parts = self.parts.iter().enumerate();
        let directories = self.directories.len();
        if !parts.clone().all(|(at, part)| part.number as usize == at + 1) || self.parts.is_empty() {
            Some("its parts are not numbered from 1")
        } else if self.parts.iter().any(|part| part.directory as usize > directories) {
            Some("a part is in a directory that is not listed")
        } else if sum(self.parts.iter().map(|part| part.bytes)).is_none() {
            Some("its parts have more bytes than there can be")
        } else if self.parts.iter().any(|part| part.records > part.bytes / COPIED_BYTES_MIN) {
            Some("a part has more records than there can be in its bytes")
        } else if sum(self.parts.iter().map(|part| part.records))
            .is_none_or(|records| Some(records) != sum(self.tables.values().copied()))
        {
            Some("its parts and its tables have different numbers of records")
        } else if self.log_start.epoch > self.first_epoch
            || self.last_epoch < self.first_epoch.saturating_sub(1)
        {
            Some("its epochs are in no order")
        } else if self.last_epoch.max(self.first_epoch).max(self.log_epoch) > EPOCH_MAX {
            Some("it is of an epoch that no database reaches")
        } else if !self.log_start.offset.is_multiple_of(PAGE_BYTES) || self.log_start.offset < PAGE_BYTES {
            Some("no group of the log begins where it says")
        } else {
            None
        }
    }
}

/// A sum of numbers that may be anything; none if it is beyond every number.
fn sum(mut numbers: impl Iterator<Item = u64>) -> Option<u64> {
    numbers.try_fold(0_u64, |sum, number| sum.checked_add(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: Uuid = Uuid([7; 16]);

    fn manifest() -> Manifest {
        let part = |number, directory| Part { number, directory, bytes: 4_000, blocks: 3, records: 21 };
        Manifest {
            number: 3,
            first_epoch: 70,
            last_epoch: 75,
            log_epoch: 74,
            log_start: GroupStart { epoch: 61, segment: 8, offset: 8192, sequence: 900 },
            directories: vec!["elsewhere/one".to_string()],
            parts: vec![part(1, 0), part(2, 1)],
            tables: BTreeMap::from([(1, 2), (16, 40)]),
        }
    }

    fn read(bytes: &[u8]) -> Result<Manifest> {
        Manifest::decode(bytes, 3, UUID, Path::new("bank/checkpoint/00000003.manifest"))
    }

    #[test]
    fn what_was_written_is_read() {
        assert_eq!(read(&manifest().encode(UUID)), Ok(manifest()));
        assert_eq!((manifest().records(), manifest().bytes()), (42, 8_000));
    }

    #[test]
    fn every_flipped_bit_and_every_truncation_is_damage() {
        let good = manifest().encode(UUID);
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
    fn another_databases_another_number_and_a_newer_version_are_distinguished() {
        let foreign = manifest().encode(Uuid([8; 16]));
        assert!(matches!(read(&foreign), Err(Error::ForeignFile { .. })));
        let moved = Manifest { number: 4, ..manifest() }.encode(UUID);
        assert!(matches!(read(&moved), Err(Error::Damaged { .. })));
        let mut newer = manifest().encode(UUID);
        newer[8] = 9;
        let end = newer.len() - CHECKSUM_BYTES;
        let checksum = crc32c::crc32c(&newer[..end]);
        newer[end..].copy_from_slice(&checksum.to_le_bytes());
        assert!(matches!(read(&newer), Err(Error::NewerFormat { found: 9, .. })));
    }

    #[test]
    fn what_makes_no_sense_is_refused_although_its_checksum_fits() {
        let part = manifest().parts[0];
        for bad in [
            Manifest { parts: Vec::new(), tables: BTreeMap::new(), ..manifest() },
            Manifest {
                parts: vec![Part { number: 2, ..part }],
                tables: BTreeMap::from([(1, 21)]),
                ..manifest()
            },
            Manifest { directories: Vec::new(), ..manifest() },
            Manifest { tables: BTreeMap::from([(1, 41)]), ..manifest() },
            Manifest {
                parts: vec![Part { records: u64::MAX, ..part }, Part { number: 2, ..part }],
                tables: BTreeMap::from([(1, 20)]),
                ..manifest()
            },
            Manifest { parts: vec![Part { bytes: u64::MAX, ..part }, manifest().parts[1]], ..manifest() },
            Manifest {
                parts: vec![Part { records: 308, ..part }, manifest().parts[1]],
                tables: BTreeMap::from([(1, 2), (16, 327)]),
                ..manifest()
            },
            Manifest { first_epoch: 60, ..manifest() },
            Manifest { last_epoch: EPOCH_MAX + 1, ..manifest() },
            Manifest { log_epoch: u64::MAX, ..manifest() },
            Manifest { log_start: GroupStart { offset: 8191, ..manifest().log_start }, ..manifest() },
            Manifest { log_start: GroupStart { offset: 0, ..manifest().log_start }, ..manifest() },
            Manifest { last_epoch: 68, ..manifest() },
        ] {
            assert!(matches!(read(&bad.encode(UUID)), Err(Error::Damaged { .. })), "{bad:?}");
        }
        let mut longer = manifest().encode(UUID);
        let end = longer.len() - CHECKSUM_BYTES;
        longer.insert(end, 0);
        let checksum = crc32c::crc32c(&longer[..=end]);
        longer[end + 1..].copy_from_slice(&checksum.to_le_bytes());
        assert!(matches!(read(&longer), Err(Error::Damaged { .. })));
    }
}
