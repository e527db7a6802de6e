//! A checkpoint's parts: files with a header, and blocks of copies behind it.
//!
//! Invariants: a block is read only if its header and its payload are as they were written, in this part of
//! this checkpoint of this database, at this place; and a part is read only if it has the length and the number of
//! blocks that the manifest says.

use std::path::{Path, PathBuf};

use super::encoding::Fields;
use super::manifest::Part;
use crate::Result;
use crate::base::disk::{Disk, File};
use crate::durability::block::checksum;
use crate::durability::failure::{damaged, reading, what_is_wrong, writing};
use crate::durability::manifest::check_version;
use crate::durability::{CHECKPOINT_VERSION, Uuid};
use crate::error::Error;

const MAGIC: &[u8; 8] = b"HEDDLCPT";
/// Magic, version, UUID, checkpoint, part, checksum.
const HEADER_BYTES: usize = 8 + 4 + 16 + 4 + 4 + 4;
const BLOCK_MAGIC: u32 = u32::from_le_bytes(*b"HCPB");
/// Magic, checksum of the rest, checksum of the payload, payload bytes, checkpoint, part, place in the part, records.
const BLOCK_HEADER_BYTES: usize = 32;
/// Bytes of a block's header that its checksum does not cover: magic and checksum.
const UNCOVERED_BYTES: usize = 8;
/// Bytes written between two syncs: with many more, the log's own syncs would wait on the same disk.
const SYNC_BYTES: u64 = 4 << 20;

/// The identity of a part: its database, checkpoint and number.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartName {
    pub(super) uuid: Uuid,
    pub(super) checkpoint: u32,
    pub(super) part: u32,
}

impl PartName {
    /// The part's header.
    pub(super) fn header(self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(CHECKPOINT_VERSION.to_le_bytes());
        bytes.extend(self.uuid.0);
        bytes.extend(self.checkpoint.to_le_bytes());
        bytes.extend(self.part.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    fn check_header(self, bytes: &[u8; HEADER_BYTES], path: &Path) -> Result<()> {
        if !bytes.starts_with(MAGIC) {
            return Err(damaged(path, 0, "it does not begin like a part of a checkpoint"));
        }
        let (content, found) = bytes.split_at(HEADER_BYTES - 4);
        if crc32c::crc32c(content).to_le_bytes() != found {
            return Err(damaged(path, 0, "the header's checksum does not fit its content"));
        }
        let mut fields = Fields { rest: &content[MAGIC.len()..] };
        check_version(CHECKPOINT_VERSION, fields.u32().unwrap_or_default(), path)?;
        if fields.array() != Some(self.uuid.0) {
            return Err(Error::ForeignFile { path: path.display().to_string() });
        }
        if (fields.u32(), fields.u32()) != (Some(self.checkpoint), Some(self.part)) {
            return Err(damaged(path, 28, "it is another part, or another checkpoint's"));
        }
        Ok(())
    }

    fn block_header(self, index: u32, records: u32, payload: &[u8]) -> [u8; BLOCK_HEADER_BYTES] {
        let mut bytes = [0; BLOCK_HEADER_BYTES];
        let length = payload.len() as u32;
        let fields = [checksum(self.uuid, payload), length, self.checkpoint, self.part, index, records];
        bytes[..4].copy_from_slice(&BLOCK_MAGIC.to_le_bytes());
        for (place, field) in bytes[UNCOVERED_BYTES..].chunks_exact_mut(4).zip(fields) {
            place.copy_from_slice(&field.to_le_bytes());
        }
        let sum = checksum(self.uuid, &bytes[UNCOVERED_BYTES..]);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }
}

/// Writes one part.
pub(crate) struct PartWriter {
    name: PartName,
    file: Box<dyn File>,
    path: PathBuf,
    /// The part's entry for the manifest.
    part: Part,
    synced: u64,
    buffer: Vec<u8>,
}

impl PartWriter {
    pub(super) fn create(
        disk: &dyn Disk,
        path: PathBuf,
        name: PartName,
        directory: u32,
    ) -> Result<PartWriter> {
        let file = disk.create_new(&path).map_err(writing(&path))?;
        let header = name.header();
        file.write_all_at(&header, 0).map_err(writing(&path))?;
        let part = Part { number: name.part, directory, bytes: header.len() as u64, blocks: 0, records: 0 };
        Ok(PartWriter { name, file, path, part, synced: 0, buffer: Vec::new() })
    }

    /// Bytes of the file so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.part.bytes
    }

    /// Appends a block with copies of this many records; returns the number of bytes written.
    pub(crate) fn append(&mut self, records: u32, payload: &[u8]) -> Result<u64> {
        self.buffer.clear();
        self.buffer.extend_from_slice(&self.name.block_header(self.part.blocks, records, payload));
        self.buffer.extend_from_slice(payload);
        self.file.write_all_at(&self.buffer, self.part.bytes).map_err(writing(&self.path))?;
        self.part.bytes += self.buffer.len() as u64;
        self.part.blocks += 1;
        self.part.records += u64::from(records);
        if self.part.bytes - self.synced >= SYNC_BYTES {
            self.file.sync_data().map_err(writing(&self.path))?;
            self.synced = self.part.bytes;
        }
        Ok(self.buffer.len() as u64)
    }

    /// Makes the part durable; its name becomes so with the next sync of its directory.
    pub(super) fn finish(self, synced: bool) -> Result<Part> {
        if synced {
            self.file.sync_all().map_err(writing(&self.path))?;
        }
        Ok(self.part)
    }
}

/// Reads one part, block by block.
pub(crate) struct PartReader {
    name: PartName,
    file: Box<dyn File>,
    path: PathBuf,
    part: Part,
    offset: u64,
    blocks: u32,
    records: u64,
    payload: Vec<u8>,
}

/// A block of a part, as it was written.
pub(crate) struct Block<'a> {
    pub(super) offset: u64,
    pub(super) header: [u8; BLOCK_HEADER_BYTES],
    pub(super) payload: &'a [u8],
    pub(super) records: u64,
}

impl Block<'_> {
    /// Bytes that it takes in its part.
    pub(crate) fn bytes(&self) -> u64 {
        (self.header.len() + self.payload.len()) as u64
    }
}

impl PartReader {
    pub(super) fn open(disk: &dyn Disk, path: PathBuf, name: PartName, part: Part) -> Result<PartReader> {
        let file = disk.open_read(&path).map_err(reading(&path))?;
        let length = file.len().map_err(reading(&path))?;
        if length != part.bytes || length < HEADER_BYTES as u64 {
            let detail =
                format!("the file has {length} bytes, and its checkpoint's manifest says {}", part.bytes);
            return Err(damaged(&path, length.min(part.bytes), detail));
        }
        let mut header = [0; HEADER_BYTES];
        file.read_exact_at(&mut header, 0).map_err(reading(&path))?;
        name.check_header(&header, &path)?;
        let offset = HEADER_BYTES as u64;
        Ok(PartReader { name, file, path, part, offset, blocks: 0, records: 0, payload: Vec::new() })
    }

    /// The part's path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Passes the next block's payload to `load`, which returns its number of records. Returns false if there was no
    /// block.
    ///
    /// # Errors
    /// The block is not as it was written; what `load` says, as damage of this block.
    pub(super) fn next_block(&mut self, load: impl FnOnce(&[u8]) -> Result<u64>) -> Result<bool> {
        let start = self.offset;
        let Some(Block { records, .. }) = self.read_block()? else { return Ok(false) };
        let loaded = load(&self.payload).map_err(|error| self.blame(start, error))?;
        if loaded != records {
            let detail = format!("the block there says it has {records} records, and has {loaded}");
            return Err(damaged(&self.path, start, detail));
        }
        Ok(true)
    }

    /// The next block, if there is one.
    ///
    /// # Errors
    /// It is not as it was written.
    pub(crate) fn read_block(&mut self) -> Result<Option<Block<'_>>> {
        let (start, left) = (self.offset, self.part.bytes - self.offset);
        if left == 0 {
            if (self.blocks, self.records) != (self.part.blocks, self.part.records) {
                return Err(damaged(
                    &self.path,
                    start,
                    "it has not the blocks that its checkpoint's manifest says",
                ));
            }
            return Ok(None);
        }
        let mut header = [0; BLOCK_HEADER_BYTES];
        if left < BLOCK_HEADER_BYTES as u64 {
            return Err(damaged(&self.path, start, "it ends within the header of a block"));
        }
        self.file.read_exact_at(&mut header, start).map_err(reading(&self.path))?;
        let mut fields = Fields { rest: &header[UNCOVERED_BYTES + 4..] };
        let (length, mut record_count) = (fields.u32().unwrap_or_default(), Fields { rest: &header[28..] });
        // The length is trusted only to read that many bytes, if they are there.
        if left - (BLOCK_HEADER_BYTES as u64) < u64::from(length) {
            return Err(damaged(&self.path, start, "the block there is longer than the file"));
        }
        self.payload.resize(length as usize, 0);
        let place = start + BLOCK_HEADER_BYTES as u64;
        self.file.read_exact_at(&mut self.payload, place).map_err(reading(&self.path))?;
        let records = record_count.u32().unwrap_or_default();
        if header != self.name.block_header(self.blocks, records, &self.payload) {
            return Err(damaged(&self.path, start, "the block there is not as it was written"));
        }
        self.offset = place + u64::from(length);
        self.blocks += 1;
        self.records += u64::from(records);
        Ok(Some(Block { offset: start, header, payload: &self.payload, records: u64::from(records) }))
    }

    /// Copies that make no sense although their checksum fits are damage of this file.
    fn blame(&self, offset: u64, error: Error) -> Error {
        match error {
            error @ Error::Damaged { .. } => error,
            error => damaged(&self.path, offset, what_is_wrong(error)),
        }
    }
}
