//! Reads the log's blocks for a follower, from where its checkpoint says to where the log is durable, while it is
//! written.
//!
//! Invariants: it is asked only for blocks of groups that are durable, so what it does not find as it should be is
//! damaged, or was removed because a newer checkpoint has made it useless.

use super::PAGE_BYTES;
use super::block::{BlockHeader, HEADER_BYTES};
use super::failure::{damaged, reading};
use super::segment::{LogFiles, Segment};
use super::starts::GroupStart;
use crate::Result;
use crate::base::disk::File;

/// A follower's position in the log, and the files it reads.
pub(crate) struct BlockReader {
    files: LogFiles,
    /// The number of the present segment, and where in it the next block is.
    number: u32,
    offset: u64,
    open: Option<(Segment, Box<dyn File>)>,
    /// Place of the last block: number and bytes of its segment, and the offset there.
    block_place: (u32, u64, u64),
    /// The last whole group's epoch; 0 before the first.
    last_epoch: u64,
}

impl BlockReader {
    /// Begins here.
    pub(super) fn new(files: LogFiles, start: GroupStart) -> BlockReader {
        BlockReader {
            files,
            number: start.segment,
            offset: start.offset,
            open: None,
            block_place: (0, 0, 0),
            last_epoch: 0,
        }
    }

    /// Place of the last block that was given out: number and bytes of its segment, and the offset there.
    pub(crate) fn block_place(&self) -> (u32, u64, u64) {
        self.block_place
    }

    /// The epoch of the last group of which all blocks were given out.
    pub(crate) fn last_epoch(&self) -> u64 {
        self.last_epoch
    }

    /// The next block: header and payload. There is one: a later group than the last one last_epoch is durable.
    ///
    /// # Errors
    /// It cannot be read, or is not there as it should be.
    pub(crate) fn next_block(&mut self) -> Result<Vec<u8>> {
        if self.open.as_ref().is_some_and(|(segment, _)| self.offset >= segment.bytes) {
            (self.number, self.offset, self.open) = (self.number + 1, PAGE_BYTES, None);
        }
        let (segment, file) = match &mut self.open {
            Some(open) => open,
            none => none.insert(self.files.open_read(self.number)?),
        };
        let path = &segment.path;
        let missing = || damaged(path, self.offset, "no block of a durable group is there");
        if segment.bytes - self.offset < PAGE_BYTES {
            return Err(missing());
        }
        let mut block = vec![0; HEADER_BYTES];
        file.read_exact_at(&mut block, self.offset).map_err(reading(path))?;
        let header = BlockHeader::decode(&block, self.files.uuid).ok_or_else(missing)?;
        if header.disk_bytes() > segment.bytes - self.offset {
            return Err(missing());
        }
        let header_bytes = header.bytes();
        block.resize(header_bytes + header.payload_bytes as usize, 0);
        let payload = &mut block[header_bytes..];
        file.read_exact_at(payload, self.offset + header_bytes as u64).map_err(reading(path))?;
        if !header.vouches_for(payload, self.files.uuid) {
            return Err(missing());
        }
        self.block_place = (segment.number, segment.bytes, self.offset);
        self.offset += header.disk_bytes();
        if header.last {
            self.last_epoch = header.epoch;
        }
        Ok(block)
    }
}
