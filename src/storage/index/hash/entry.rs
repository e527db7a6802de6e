//! A bucket's entry for a record: 16 bits of the key's hash and the record's 48-bit address, in one word.
//!
//! ```text
//! hash   │ directory: the segment's `depth` bits … │ … │ bucket │
//!        │      base ├── tag: 16 bits ──┤              │ 7 bits │
//! entry  │ tag: 16 bits │ record address: 48 bits                │      0: empty
//! link   │ 0            │ overflow bucket's address, lowest bit 1│
//! ```
//!
//! The tag begins at the last multiple of eight at or before the segment's depth. So the bit that decides into
//! which half of its segment an entry goes is always in the tag, and seven splits of eight never look at a record;
//! in the eighth the tags are made again from the keys. At least nine bits of the tag tell apart the records of one
//! segment, so that fewer than one lookup in a hundred compares a key unnecessarily.

use std::ptr::NonNull;

use super::bucket::Bucket;
use crate::storage::record::RecordPointer;

/// No entry: a record's address is never zero.
pub(super) const EMPTY: u64 = 0;

/// A segment's depth is never more than this: its tag bits must not run into the bucket bits.
pub(super) const DEPTH_MAX: u32 = 40;

const ADDRESS_BITS: u32 = 48;
const ADDRESS_MASK: u64 = (1 << ADDRESS_BITS) - 1;

/// The bit that distinguishes a link from an entry: records are aligned to more than one byte.
const LINK: u64 = 1;

/// Number of splits that use the same tags.
const TAG_STRIDE: u32 = 8;

/// The first hash bit (from the top) of the tags in a segment of this depth.
fn tag_base(depth: u32) -> u32 {
    depth / TAG_STRIDE * TAG_STRIDE
}

/// The tag of this hash in a segment of this depth, in its place in an entry.
pub(super) fn tag(hash: u64, depth: u32) -> u64 {
    (hash << tag_base(depth)) & !ADDRESS_MASK
}

/// The entry for a record.
pub(super) fn entry(tag: u64, record: RecordPointer) -> u64 {
    let address = record.to_bits();
    assert!(
        address & !ADDRESS_MASK == 0,
        "a record's address has more than {ADDRESS_BITS} bits: {address:#x}"
    );
    tag | address
}

/// Returns true if the entry's tag is this one. That of an empty entry is zero: see [`record`].
pub(super) fn has_tag(entry: u64, tag: u64) -> bool {
    (entry ^ tag) <= ADDRESS_MASK
}

/// Returns true if the entry is this record's.
pub(super) fn is_of(entry: u64, record: RecordPointer) -> bool {
    entry & ADDRESS_MASK == record.to_bits()
}

/// The entry's record; `None` if it is empty.
pub(super) fn record(entry: u64) -> Option<RecordPointer> {
    if entry == EMPTY {
        return None;
    }
    // SAFETY: an entry that isn't empty was made by `entry`, whose address bits came from `to_bits`.
    Some(unsafe { RecordPointer::from_bits(entry & ADDRESS_MASK) })
}

/// The word that leads to an overflow bucket.
pub(super) fn link_to(bucket: NonNull<Bucket>) -> u64 {
    bucket.as_ptr().expose_provenance() as u64 | LINK
}

/// The overflow bucket to which a word leads; none where it is an entry or empty.
#[inline(always)]
pub(super) fn link(word: u64) -> Option<*const Bucket> {
    (word & LINK != 0).then(|| std::ptr::with_exposed_provenance((word ^ LINK) as usize))
}

/// Returns true if the entry moves to the upper half when its segment of this depth splits.
pub(super) fn goes_up(entry: u64, depth: u32) -> bool {
    let bit_from_top = depth - tag_base(depth);
    (entry >> (u64::BITS - 1 - bit_from_top)) & 1 == 1
}

/// Returns true if the entries of a segment of this depth get new tags when it splits.
pub(super) fn needs_new_tags(depth: u32) -> bool {
    tag_base(depth) != tag_base(depth + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::index::hash::hash_key;

    #[test]
    fn an_entry_keeps_record_and_tag_apart() {
        let pointer = RecordPointer::allocate(0, b"key", 1);
        for hash in [0, 1, u64::MAX, hash_key(b"key")] {
            for depth in 0..=DEPTH_MAX {
                let made = entry(tag(hash, depth), pointer);
                assert_eq!(record(made), Some(pointer));
                assert!(is_of(made, pointer));
                assert!(has_tag(made, tag(hash, depth)));
                assert!(!has_tag(made, tag(!hash, depth)));
            }
        }
        // SAFETY: it was never shared.
        unsafe { pointer.free() };
    }

    #[test]
    fn an_empty_entry_has_the_tag_zero_and_is_no_record() {
        assert!(has_tag(EMPTY, tag(0, 0)));
        assert!(!has_tag(EMPTY, tag(u64::MAX, 0)));
        assert_eq!(record(EMPTY), None);
    }

    #[test]
    fn a_link_is_no_entry_and_an_entry_no_link() {
        let pointer = RecordPointer::allocate(0, b"key", 1);
        let mut bucket = Bucket::new();
        let bucket = NonNull::from(&mut bucket);
        assert_eq!(link(link_to(bucket)), Some(bucket.as_ptr().cast_const()));
        for tag in [0, tag(u64::MAX, 0)] {
            assert_eq!(link(entry(tag, pointer)), None);
            assert!(!is_of(link_to(bucket), pointer));
        }
        assert_eq!(link(EMPTY), None);
        // SAFETY: it was never shared.
        unsafe { pointer.free() };
    }

    #[test]
    fn the_half_that_the_tag_tells_is_the_half_that_the_hash_tells() {
        let pointer = RecordPointer::allocate(0, b"key", 0);
        for number in 0..1000_u64 {
            let hash = hash_key(&number.to_be_bytes());
            for depth in 0..DEPTH_MAX {
                let from_hash = (hash >> (63 - depth)) & 1 == 1;
                assert_eq!(goes_up(entry(tag(hash, depth), pointer), depth), from_hash, "depth {depth}");
            }
        }
        // SAFETY: it was never shared.
        unsafe { pointer.free() };
    }

    #[test]
    fn tags_stay_until_a_multiple_of_the_stride() {
        let renewing: Vec<u32> = (0..DEPTH_MAX).filter(|&depth| needs_new_tags(depth)).collect();
        assert_eq!(renewing, [7, 15, 23, 31, 39]);
        let hash = hash_key(b"some key");
        for depth in 0..DEPTH_MAX {
            assert_eq!(tag(hash, depth) == tag(hash, depth + 1), !needs_new_tags(depth), "depth {depth}");
        }
    }
}
