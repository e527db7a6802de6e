//! Blocks: what groups are made of in the log.
//!
//! A block is a header, a payload, and zeros up to the next page boundary. The header has a checksum of its own
//! and lies within one sector, so that it is either there or not: it vouches for its fields (the payload's length
//! above all) even if the payload behind it is torn. All checksums start from the database's UUID.
//!
//! Blocks form one chain over the whole log: sequence numbers rise by one from block to block, across groups,
//! segments and restarts, and each block has the checksum of the header before it, so that one that belongs to another
//! history of the same database is found out ([`chain`](super::chain)).
//!
//! Blocks from before log format 3 have a magic of their own and a shorter header, without term, time and predecessor. They
//! are read, wherever they are; only blocks of format 3 are written.

use super::{PAGE_BYTES, Uuid};

const MAGIC: u32 = u32::from_le_bytes(*b"HBL3");
/// The magic of blocks from before log format 3.
const OLDER_MAGIC: u32 = u32::from_le_bytes(*b"HBLK");
/// The flag of a group's last block: its commit mark.
const LAST: u32 = 1;
/// Bytes of a block's header.
pub(crate) const HEADER_BYTES: usize = 68;
/// Bytes of a header from before log format 3.
const OLDER_HEADER_BYTES: usize = 48;
/// Header bytes that its checksum does not cover: magic and checksum.
const UNCOVERED_BYTES: usize = 8;

// The header is written whole or not at all only if it fits into a sector.
const _: () = assert!(HEADER_BYTES <= 512);

/// A block's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    pub(crate) payload_checksum: u32,
    pub(crate) payload_bytes: u32,
    /// The block's place in the chain; the log's first block has 1.
    pub(crate) sequence: u64,
    /// The group's epoch.
    pub(crate) epoch: u64,
    /// The number of the segment that the block lies in.
    pub(crate) segment: u32,
    /// The block's place in its group, from 0.
    pub(crate) index: u32,
    /// True for the group's last block.
    pub(crate) last: bool,
    /// Number of blocks right before the group's first one that were in flight when the group was written: all blocks
    /// before those were durable by then.
    pub(crate) in_flight: u32,
    /// The checksum of the header of the block before; 0: there is none, or it was not known.
    pub(crate) predecessor: u32,
    /// The term of the writer: larger than those of all writers before. 0: the block is from before log format 3.
    pub(crate) term: u64,
    /// The group's time in microseconds since 1970; 0: the block is from before log format 3.
    pub(crate) time: u64,
}

impl BlockHeader {
    pub(crate) fn encode(&self, uuid: Uuid) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.payload_checksum.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.epoch.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.segment.to_le_bytes());
        bytes[36..40].copy_from_slice(&self.index.to_le_bytes());
        let flags = if self.last { LAST } else { 0 };
        bytes[40..44].copy_from_slice(&flags.to_le_bytes());
        bytes[44..48].copy_from_slice(&self.in_flight.to_le_bytes());
        bytes[48..52].copy_from_slice(&self.predecessor.to_le_bytes());
        bytes[52..60].copy_from_slice(&self.term.to_le_bytes());
        bytes[60..68].copy_from_slice(&self.time.to_le_bytes());
        let checksum = checksum(uuid, &bytes[UNCOVERED_BYTES..]);
        bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// The header that `bytes` begin with, if this database's engine wrote one there.
    pub(crate) fn decode(bytes: &[u8], uuid: Uuid) -> Option<BlockHeader> {
        let magic = u32_at(bytes.first_chunk::<OLDER_HEADER_BYTES>()?, 0);
        let is_older = magic == OLDER_MAGIC;
        let bytes = bytes.get(..if is_older { OLDER_HEADER_BYTES } else { HEADER_BYTES })?;
        if !is_older && magic != MAGIC || header_checksum(bytes) != checksum(uuid, &bytes[UNCOVERED_BYTES..])
        {
            return None;
        }
        let header = BlockHeader {
            payload_checksum: u32_at(bytes, 8),
            payload_bytes: u32_at(bytes, 12),
            sequence: u64_at(bytes, 16),
            epoch: u64_at(bytes, 24),
            segment: u32_at(bytes, 32),
            index: u32_at(bytes, 36),
            last: u32_at(bytes, 40) & LAST != 0,
            in_flight: u32_at(bytes, 44),
            ..BlockHeader::default()
        };
        if is_older {
            return Some(header);
        }
        let (predecessor, term, time) = (u32_at(bytes, 48), u64_at(bytes, 52), u64_at(bytes, 60));
        // No writer has the term 0, by which older blocks are known.
        (term > 0).then_some(BlockHeader { predecessor, term, time, ..header })
    }

    /// Bytes of the header as it was written: the payload is behind them.
    pub(crate) fn bytes(&self) -> usize {
        if self.term == 0 { OLDER_HEADER_BYTES } else { HEADER_BYTES }
    }

    /// The sequence number of the first block of this block's group.
    pub(crate) fn group_start(&self) -> u64 {
        self.sequence.saturating_sub(u64::from(self.index))
    }

    /// All blocks before the one of this sequence number were durable when this block's group was written.
    pub(crate) fn durable_before(&self) -> u64 {
        self.group_start().saturating_sub(u64::from(self.in_flight))
    }

    /// Bytes that the block takes in the file.
    pub(crate) fn disk_bytes(&self) -> u64 {
        (self.bytes() as u64 + u64::from(self.payload_bytes)).next_multiple_of(PAGE_BYTES)
    }

    /// Returns true if this is the payload that the header was made for.
    pub(crate) fn vouches_for(&self, payload: &[u8], uuid: Uuid) -> bool {
        payload.len() == self.payload_bytes as usize && checksum(uuid, payload) == self.payload_checksum
    }
}

/// The checksum of an encoded header, which the next block repeats.
pub(crate) fn header_checksum(header: &[u8]) -> u32 {
    u32_at(header, 4)
}

/// The checksum of some bytes of this database's log.
pub(crate) fn checksum(uuid: Uuid, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(uuid.checksum_seed(), bytes)
}

/// Bytes that a block with this payload takes in the file.
pub(crate) fn block_bytes(payload_bytes: u64) -> u64 {
    (HEADER_BYTES as u64 + payload_bytes).next_multiple_of(PAGE_BYTES)
}

/// An upper bound of the bytes that a group with this payload takes in the log, however its blocks are cut:
/// every page but the last carries at least a page less a header of it.
pub(crate) fn group_bytes_max(payload_bytes: u64) -> u64 {
    payload_bytes.div_ceil(PAGE_BYTES - HEADER_BYTES as u64).max(1) * PAGE_BYTES
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[offset..offset + 4]);
    u32::from_le_bytes(field)
}

fn u64_at(bytes: &[u8], offset: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[offset..offset + 8]);
    u64::from_le_bytes(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: Uuid = Uuid([7; 16]);

    fn header() -> BlockHeader {
        BlockHeader {
            payload_checksum: checksum(UUID, b"payload"),
            payload_bytes: 7,
            sequence: 0x0102_0304_0506_0708,
            epoch: u64::MAX,
            segment: 0x1112_1314,
            index: 5,
            last: true,
            in_flight: 0x2122_2324,
            predecessor: 0x3132_3334,
            term: 0x4142_4344_4546_4748,
            time: 0x5152_5354_5556_5758,
        }
    }

    /// A header in the form that was written before log format 3.
    fn older() -> Vec<u8> {
        let mut bytes = header().encode(UUID)[..OLDER_HEADER_BYTES].to_vec();
        bytes[..4].copy_from_slice(b"HBLK");
        let sum = checksum(UUID, &bytes[UNCOVERED_BYTES..]);
        bytes[4..8].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    #[test]
    fn what_was_written_is_read() {
        for last in [false, true] {
            let header = BlockHeader { last, ..header() };
            assert_eq!(BlockHeader::decode(&header.encode(UUID), UUID), Some(header));
        }
        assert_eq!(header().group_start(), 0x0102_0304_0506_0703);
    }

    #[test]
    fn headers_from_before_format_3_are_read() {
        let expected = BlockHeader { predecessor: 0, term: 0, time: 0, ..header() };
        assert_eq!(BlockHeader::decode(&older(), UUID), Some(expected));
        assert_eq!((expected.bytes(), header().bytes()), (48, 68));
        let full = BlockHeader { payload_bytes: 4096 - 48, ..expected };
        assert_eq!((full.disk_bytes(), BlockHeader { term: 1, ..full }.disk_bytes()), (4096, 8192));
        let without_term = BlockHeader { term: 0, ..header() }.encode(UUID);
        assert_eq!(BlockHeader::decode(&without_term, UUID), None, "no writer has this term");
    }

    #[test]
    fn no_flipped_bit_and_no_truncation_goes_unnoticed() {
        for good in [header().encode(UUID).to_vec(), older()] {
            for bit in 0..good.len() * 8 {
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(BlockHeader::decode(&bad, UUID), None, "bit {bit}");
            }
            for length in 0..good.len() {
                assert_eq!(BlockHeader::decode(&good[..length], UUID), None);
            }
        }
        assert_eq!(BlockHeader::decode(&[0; HEADER_BYTES], UUID), None);
    }

    #[test]
    fn another_database_cannot_read_it() {
        assert_eq!(BlockHeader::decode(&header().encode(UUID), Uuid([8; 16])), None);
        assert!(header().vouches_for(b"payload", UUID));
        assert!(!header().vouches_for(b"payload", Uuid([8; 16])));
        assert!(!header().vouches_for(b"payloaD", UUID));
        assert!(!header().vouches_for(b"payloa", UUID));
    }

    #[test]
    fn a_group_never_takes_more_than_the_bound() {
        assert_eq!((group_bytes_max(0), group_bytes_max(4028), group_bytes_max(4029)), (4096, 4096, 8192));
        for payload in (0..40_000).step_by(7) {
            assert!(block_bytes(payload) <= group_bytes_max(payload));
            let one_page_blocks = payload.div_ceil(4028).max(1) * 4096;
            assert_eq!(one_page_blocks, group_bytes_max(payload));
        }
    }
}
