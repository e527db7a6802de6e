//! Sizes of the log's parts: segments and blocks.

use super::PAGE_BYTES;

/// Sizes of the log's parts. They may change from one opening of a database to the next: every file and block
/// says how large it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentSizes {
    segment_bytes: u64,
    block_bytes_max: u64,
}

impl SegmentSizes {
    /// Sizes of new segments and of the largest block, rounded to pages; a segment has at least one page behind
    /// its header page, a block has between one page and a segment's body.
    pub(crate) fn new(segment_bytes: u64, block_bytes_max: u64) -> SegmentSizes {
        let segment_bytes = (segment_bytes / PAGE_BYTES).clamp(2, 1 << 20) * PAGE_BYTES;
        let body_pages = segment_bytes / PAGE_BYTES - 1;
        let block_bytes_max = (block_bytes_max / PAGE_BYTES).clamp(1, body_pages) * PAGE_BYTES;
        SegmentSizes { segment_bytes, block_bytes_max }
    }

    /// Bytes of a new segment, its header included.
    pub(crate) fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Bytes of the largest block, its header and padding included.
    pub(crate) fn block_bytes_max(&self) -> u64 {
        self.block_bytes_max
    }
}

impl Default for SegmentSizes {
    fn default() -> Self {
        SegmentSizes::new(64 << 20, 8 << 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_pages_within_bounds() {
        let smallest = SegmentSizes::new(0, 0);
        assert_eq!((smallest.segment_bytes(), smallest.block_bytes_max()), (8192, 4096));
        let odd = SegmentSizes::new(20_000, 1 << 40);
        assert_eq!((odd.segment_bytes(), odd.block_bytes_max()), (16_384, 12_288));
        let largest = SegmentSizes::new(u64::MAX, u64::MAX);
        assert_eq!(largest.segment_bytes(), 4 << 30);
        assert!(u32::try_from(largest.block_bytes_max()).is_ok(), "a block's length fits its field");
        assert_eq!(SegmentSizes::default().block_bytes_max(), 8 << 20);
    }
}
