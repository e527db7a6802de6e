//! The full scan: every record of the index, one bucket number of one hash prefix at a time.
//!
//! A page is the set of all hashes that begin with the cursor's prefix and end with its bucket number. Such sets
//! don't depend on how the segments are cut: segments only ever split, and a split keeps an entry's bucket number.
//! So the pages of a scan part the records whatever splits meanwhile, and each page is collected bucket by bucket,
//! each bucket as of one version. Hence a record that is there throughout is met exactly once, no key is met twice,
//! and a scan is repeatable while all versions that it gave are current.

use crossbeam_epoch::Guard;

use super::HashIndex;
use super::hash_segment::BUCKETS;
use crate::storage::index::NodeVersion;
use crate::storage::record::Record;

/// The place where a full scan continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HashCursor {
    /// The first hash of the prefix.
    start: u64,
    /// The prefix's length in bits: the depth that the segment had when the scan reached it.
    depth: u32,
    /// The bucket's number.
    bucket: usize,
}

impl HashCursor {
    /// The first hash with the prefix.
    pub(crate) fn start(self) -> u64 {
        self.start
    }

    /// The last hash with the prefix.
    fn last(self) -> u64 {
        self.start | last_with_prefix(self.depth)
    }
}

/// The last hash that begins with this many zero bits.
fn last_with_prefix(depth: u32) -> u64 {
    u64::MAX.checked_shr(depth).unwrap_or(0)
}

impl HashIndex {
    /// Appends the next page of a full scan: its records (absent ones too), and the versions of its buckets.
    ///
    /// `cursor` None starts, and None in the answer ends.
    pub(crate) fn page<'g>(
        &'g self,
        cursor: Option<HashCursor>,
        out: &mut Vec<Record<'g>>,
        versions: &mut Vec<NodeVersion<'g>>,
        guard: &'g Guard,
    ) -> Option<HashCursor> {
        let cursor = cursor.unwrap_or_else(|| self.cursor_at(0, guard));
        let mut at = cursor.start;
        loop {
            let located = self.locate(at, guard);
            let bucket = located.segment.bucket_at(cursor.bucket);
            let Some(observed) = bucket.collect(out, guard) else { continue };
            versions.push(bucket.node_version(observed));
            let last = at | last_with_prefix(located.depth);
            if last >= cursor.last() {
                break;
            }
            at = last + 1;
        }
        if cursor.bucket + 1 < BUCKETS {
            return Some(HashCursor { bucket: cursor.bucket + 1, ..cursor });
        }
        cursor.last().checked_add(1).map(|start| self.cursor_at(start, guard))
    }

    /// The cursor at the beginning of the segment that holds this hash.
    pub(crate) fn cursor_holding(&self, hash: u64, guard: &Guard) -> HashCursor {
        let depth = self.locate(hash, guard).depth;
        HashCursor { start: hash & !last_with_prefix(depth), depth, bucket: 0 }
    }

    /// The cursor at the beginning of the segment that begins at this hash.
    ///
    /// Where a segment has begun, one begins ever after, since segments only split.
    fn cursor_at(&self, start: u64, guard: &Guard) -> HashCursor {
        HashCursor { start, depth: self.locate(start, guard).depth, bucket: 0 }
    }
}
