//! A segment: the buckets of all keys whose hashes begin with the same bits.
//!
//! Invariant: a record's entry is in the chain of exactly one bucket: the one that the last bits of its
//! key's hash name, in the segment that the first bits name. A split keeps the bucket's number.

use std::ptr::NonNull;

use super::bucket::Bucket;
use super::entry;
use super::key_hash::hash_key;
use crate::base::atomics::{AtomicUsize, Ordering};
use crate::storage::index::pool::Pool;

/// Few under test and in models, so that segments split early and often.
pub(super) const BUCKETS: usize = if cfg!(any(test, heddle_model)) { 4 } else { 128 };

/// The number of overflow buckets above which a segment should split: about one lookup in ten then reads a second line.
const OVERFLOWS_MAX: usize = (BUCKETS / 8).saturating_sub(1) + 1;

/// The number of entries below which overflow is an accident (or many deletes ago), and a split would not help.
const ENTRIES_TO_SPLIT_MIN: usize = 2 * BUCKETS;

/// The average number of entries with which hardly a segment is crowded.
pub(super) const ENTRIES_AT_EASE: usize = 4 * BUCKETS;

/// The average number of a segment's entries, between a split and the next one, which is due with about five in a
/// bucket.
pub(super) const ENTRIES_USUAL: usize = 7 * BUCKETS / 2;

const _: () = assert!(BUCKETS.is_power_of_two());

/// See the module's description. The buckets are first, so that their lines are the segment's.
#[repr(C)]
pub(super) struct Segment {
    buckets: [Bucket; BUCKETS],
    /// A hint for when to split; written only when an overflow bucket is added.
    overflows: AtomicUsize,
}

impl Segment {
    /// A segment without entries.
    pub(super) fn new(pool: &Pool) -> NonNull<Self> {
        pool.put(Segment { buckets: [const { Bucket::new() }; BUCKETS], overflows: AtomicUsize::new(0) })
    }

    /// Frees a segment and its overflow buckets.
    ///
    /// # Safety
    /// It was made with this pool, no thread uses it any more, and it is freed once.
    pub(super) unsafe fn free(mut segment: NonNull<Self>, pool: &Pool) {
        // SAFETY: the caller's promise.
        unsafe {
            segment.as_mut().buckets.iter_mut().for_each(|bucket| bucket.free_overflow(pool));
            pool.take_out(segment);
        }
    }

    /// The bucket of this hash.
    pub(super) fn bucket(&self, hash: u64) -> &Bucket {
        &self.buckets[bucket_number(hash)]
    }

    /// The bucket with this number.
    pub(super) fn bucket_at(&self, number: usize) -> &Bucket {
        &self.buckets[number]
    }

    /// Remembers that an overflow bucket was added.
    pub(super) fn note_overflow(&self) {
        // Relaxed: a hint, ordered with nothing.
        self.overflows.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns true if the number of overflow buckets makes a split due.
    pub(super) fn is_crowded(&self) -> bool {
        // Relaxed: as above.
        self.overflows.load(Ordering::Relaxed) >= OVERFLOWS_MAX
    }

    /// Returns true if there are enough entries for a split to help. Reads every bucket.
    pub(super) fn is_worth_splitting(&self) -> bool {
        let entries: usize = self.buckets.iter().map(|bucket| bucket.entries().count()).sum();
        entries >= ENTRIES_TO_SPLIT_MIN
    }

    /// Returns true if there is no entry. Reads every bucket.
    pub(super) fn is_empty(&self) -> bool {
        self.buckets.iter().all(|bucket| bucket.entries().next().is_none())
    }

    /// Keeps writers out of all buckets.
    pub(super) fn freeze(&self) {
        self.buckets.iter().for_each(Bucket::freeze);
    }

    /// Sends every thread that looks here back to the directory.
    pub(super) fn set_moved(&self) {
        self.buckets.iter().for_each(Bucket::set_moved);
    }

    /// Lets writers in.
    pub(super) fn thaw(&self) {
        self.buckets.iter().for_each(Bucket::thaw);
    }

    /// Two new frozen segments, with the entries of this frozen one of this depth: the lower and the upper half.
    pub(super) fn halves(&self, depth: u32, pool: &Pool) -> [NonNull<Segment>; 2] {
        let made = [Segment::new(pool), Segment::new(pool)];
        // SAFETY: they were just made, and are not shared yet.
        let mut halves = made.map(|mut half| unsafe { half.as_mut() });
        for (number, bucket) in self.buckets.iter().enumerate() {
            for old in bucket.entries() {
                let half = &mut halves[usize::from(entry::goes_up(old, depth))];
                let new = if entry::needs_new_tags(depth) { with_new_tag(old, depth + 1) } else { old };
                if half.buckets[number].put_unshared(new, pool) {
                    half.note_overflow();
                }
            }
        }
        halves.iter().for_each(|half| half.freeze());
        made
    }
}

/// The number of the bucket of this hash: its last bits.
pub(super) fn bucket_number(hash: u64) -> usize {
    hash as usize & (BUCKETS - 1)
}

/// The entry of the same record, for a segment of this depth.
fn with_new_tag(old: u64, depth: u32) -> u64 {
    let Some(pointer) = entry::record(old) else { return entry::EMPTY };
    // SAFETY: the entry is in a frozen bucket, so the record has not left the index; and the splitter is pinned.
    let record = unsafe { pointer.as_record() };
    entry::entry(entry::tag(hash_key(record.key()), depth), pointer)
}
