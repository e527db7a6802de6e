//! Pieces of the log: whole groups, as its segments have them.

use crate::durability::{BlockHeader, GroupStart, PAGE_BYTES, Segments};
use crate::error::{Error, Result};

/// A place in the log between two groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentPosition {
    /// All groups before this place are of earlier epochs.
    pub epoch: u64,
    /// The number of the segment.
    pub segment: u32,
    /// The offset in that segment.
    pub offset: u64,
    /// The sequence number of the block there.
    pub sequence: u64,
}

impl SegmentPosition {
    /// The beginning of a log of which nothing was removed.
    pub const FIRST: SegmentPosition =
        SegmentPosition { epoch: 0, segment: 1, offset: PAGE_BYTES, sequence: 1 };
}

impl From<GroupStart> for SegmentPosition {
    fn from(start: GroupStart) -> SegmentPosition {
        let GroupStart { epoch, segment, offset, sequence } = start;
        SegmentPosition { epoch, segment, offset, sequence }
    }
}

impl From<SegmentPosition> for GroupStart {
    fn from(position: SegmentPosition) -> GroupStart {
        let SegmentPosition { epoch, segment, offset, sequence } = position;
        GroupStart { epoch, segment, offset, sequence }
    }
}

/// Some pages of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceExtent {
    /// The number of the segment.
    pub segment: u32,
    /// Bytes of the segment's file, its header page included.
    pub segment_bytes: u64,
    /// The offset of the pages in it.
    pub offset: u64,
    /// Bytes of the pages.
    pub bytes: u64,
}

/// A group in a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArchivedGroup {
    /// The term of its writer; 0: the log has no terms.
    pub term: u64,
    /// Time at which it was written, in microseconds since 1970; 0: the log does not say.
    pub time: u64,
    /// Its epoch.
    pub epoch: u64,
    /// Its end in the piece's bytes.
    pub end: u64,
    /// The sequence number of the block behind it.
    pub next_sequence: u64,
}

/// Whole groups of the log, one behind the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPiece {
    /// The position of the first group.
    pub start: SegmentPosition,
    /// The position behind the last group.
    pub end: SegmentPosition,
    /// Its pages in the log, in order.
    pub extents: Vec<PieceExtent>,
    /// Its groups, in order; at least one.
    pub groups: Vec<ArchivedGroup>,
    /// All its pages.
    pub bytes: Vec<u8>,
}

impl LogPiece {
    fn begin(start: SegmentPosition) -> LogPiece {
        LogPiece { start, end: start, extents: Vec::new(), groups: Vec::new(), bytes: Vec::new() }
    }

    /// Cuts off all groups behind the first `count` ones.
    ///
    /// # Errors
    /// [`Error::Malformed`] if its extents do not have what its groups say.
    pub fn truncate(&mut self, count: usize) -> Result<()> {
        self.groups.truncate(count);
        let Some(last) = self.groups.last().copied() else {
            *self = LogPiece::begin(self.start);
            return Ok(());
        };
        let (mut left, mut kept) = (last.end, Vec::new());
        for extent in &self.extents {
            let bytes = extent.bytes.min(left);
            if bytes == 0 {
                break;
            }
            kept.push(PieceExtent { bytes, ..*extent });
            left -= bytes;
        }
        let end = kept.last().filter(|_| left == 0 && last.end <= self.bytes.len() as u64);
        let Some(end) = end.copied() else {
            return Err(malformed("it has fewer bytes than its groups"));
        };
        self.bytes.truncate(last.end as usize);
        self.extents = kept;
        self.end = behind(&end, last);
        Ok(())
    }

    fn add_page_run(&mut self, (segment, segment_bytes, offset): (u32, u64, u64), block: &[u8]) {
        let bytes = block.len() as u64;
        match self.extents.last_mut() {
            Some(last) if last.segment == segment && last.offset + last.bytes == offset => {
                last.bytes += bytes
            }
            _ => self.extents.push(PieceExtent { segment, segment_bytes, offset, bytes }),
        }
        self.bytes.extend_from_slice(block);
    }
}

/// The place behind the last group of an extent. A segment that is full to its end is followed by the next one.
fn behind(extent: &PieceExtent, last: ArchivedGroup) -> SegmentPosition {
    let offset = extent.offset + extent.bytes;
    let (epoch, sequence) = (last.epoch + 1, last.next_sequence);
    if offset < extent.segment_bytes {
        SegmentPosition { epoch, segment: extent.segment, offset, sequence }
    } else {
        SegmentPosition { epoch, segment: extent.segment.saturating_add(1), offset: PAGE_BYTES, sequence }
    }
}

pub(super) fn malformed(detail: &str) -> Error {
    Error::Malformed { what: "piece of a log", detail: detail.to_string() }
}

/// Reads durable groups from a place on, until they have this many bytes; `None` if no group behind it is durable.
///
/// # Errors
/// The log no longer reaches back to this place ([`Error::MissingFile`]), is not as it was written, or cannot be read.
pub(crate) fn read_piece(
    segments: &Segments,
    start: SegmentPosition,
    bytes_max: u64,
) -> Result<Option<LogPiece>> {
    let durable = segments.last_epoch();
    if durable < start.epoch {
        return Ok(None);
    }
    let mut reader = segments.block_reader(start.into());
    let mut piece = LogPiece::begin(start);
    while reader.last_epoch() < durable && (piece.bytes.len() as u64) < bytes_max {
        loop {
            let mut block = reader.next_block()?;
            let header = BlockHeader::decode(&block, segments.uuid())
                .ok_or_else(|| malformed("a block has no header of this database's"))?;
            if piece.bytes.is_empty() && (header.index != 0 || header.sequence != start.sequence) {
                return Err(malformed("another block is at the place where it begins"));
            }
            block.resize(header.disk_bytes() as usize, 0);
            piece.add_page_run(reader.block_place(), &block);
            if header.last {
                let (term, time, epoch) = (header.term, header.time, header.epoch);
                let end = piece.bytes.len() as u64;
                let next_sequence = header.sequence + 1;
                piece.groups.push(ArchivedGroup { term, time, epoch, end, next_sequence });
                break;
            }
        }
    }
    let ends = piece.extents.last().zip(piece.groups.last());
    if let Some((extent, last)) = ends {
        piece.end = behind(extent, *last);
    }
    Ok(Some(piece).filter(|piece| !piece.groups.is_empty()))
}
