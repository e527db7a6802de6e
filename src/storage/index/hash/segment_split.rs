//! The split of a segment in two. Its cost is bounded by the segment's size.
//!
//! The order of the steps is what makes it right:
//! 1. freeze the old segment: no writer changes it any more; readers go on, since what they see is the truth;
//! 2. make two halves, frozen too, and put them into the directory: readers may now use either side, and see the
//!    same entries;
//! 3. set the old buckets' moved bits: from here on every miss noted in them fails its validation;
//! 4. thaw the halves: only now can a key be inserted or removed. So no miss noted in the old segment can be
//!    validated after an insert, and no reader that reaches the old segment later trusts it.

use crossbeam_epoch::Guard;

use super::HashIndex;
use super::entry::DEPTH_MAX;
use super::hash_directory::{Directory, Located};
use super::hash_segment::{ENTRIES_AT_EASE, Segment};
use crate::base::atomics::Ordering;
use crate::storage::garbage;

/// The state of splits; its lock is what lets one split happen at a time.
pub(super) struct Structure {
    /// The number of segments.
    pub(super) segments: usize,
}

impl HashIndex {
    /// Splits the segment of this hash if it is still this one; says whether the segment is another one now.
    ///
    /// It declines when the segment has few entries, or when the directory would become too large for the number
    /// of segments.
    #[cold]
    pub(super) fn split(&self, hash: u64, crowded: &Segment, guard: &Guard) -> bool {
        let mut structure = self.structure.lock();
        let Located { segment, depth } = self.locate(hash, guard);
        if !std::ptr::eq(segment, crowded) {
            return true;
        }
        if !segment.is_worth_splitting() || !self.make_room_in_directory(depth, structure.segments, guard) {
            return false;
        }
        segment.freeze();
        self.between_steps(guard);
        let halves = segment.halves(depth, &self.pool);
        let directory = self.directory(guard);
        let old = directory.replace(hash, depth, halves);
        self.between_steps(guard);
        segment.set_moved();
        self.between_steps(guard);
        let upper_bit = 1 << (u64::BITS - 1 - depth);
        directory.locate(hash & !upper_bit).segment.thaw();
        directory.locate(hash | upper_bit).segment.thaw();
        self.between_steps(guard);
        structure.segments += 1;
        let pool = self.pool.clone();
        // SAFETY: the old segment was made with this pool and has left the directory for good; a thread that still uses it
        // found it there and is pinned since before.
        unsafe { garbage::retire(guard, move || Segment::free(old, &pool)) };
        true
    }

    /// Makes room for this many records, if none was inserted yet: then no segment splits before they are in.
    ///
    /// The one segment that is there is frozen and released as in a split, but for the order of the last steps: no
    /// thread uses the new segments before the old one's buckets have moved, since the directory leads to them only
    /// afterwards. A thread that looks between these two steps looks again until it does.
    pub(crate) fn reserve(&self, records: u64, guard: &Guard) {
        let mut structure = self.structure.lock();
        let segments = records.div_ceil(ENTRIES_AT_EASE as u64).next_power_of_two();
        let depth = segments.trailing_zeros().min(DEPTH_MAX);
        let Located { segment, .. } = self.locate(0, guard);
        if structure.segments > 1 || depth == 0 {
            return;
        }
        segment.freeze();
        if !segment.is_empty() {
            return segment.thaw();
        }
        let directory = Box::into_raw(Directory::of_segments(depth, &self.pool));
        self.between_steps(guard);
        segment.set_moved();
        self.between_steps(guard);
        // AcqRel: release pairs with the acquire in `directory`: the new places and their segments are seen.
        let old = self.directory.swap(directory, Ordering::AcqRel);
        structure.segments = 1 << depth;
        let pool = self.pool.clone();
        // SAFETY: the old directory came from a box, its segment from the pool, and both can be found no more; a thread that uses them is pinned since before. The old
        // directory leads to its one segment in all its places.
        unsafe {
            guard.defer_unchecked(move || {
                let mut old = Box::from_raw(old);
                old.free_segments(&pool);
            });
        }
    }

    /// Doubles the directory if a segment of this depth fills just one place; false if it may not grow.
    fn make_room_in_directory(&self, depth: u32, segments: usize, guard: &Guard) -> bool {
        let directory = self.directory(guard);
        if depth < directory.depth() {
            return true;
        }
        let Some(doubled) = directory.doubled(segments) else { return false };
        // AcqRel: release pairs with the acquire in `directory`: the new places are seen.
        let old: *mut Directory = self.directory.swap(Box::into_raw(doubled), Ordering::AcqRel);
        // SAFETY: it came from a box and can be found no more; a thread that uses it is pinned since before. Dropping a
        // directory leaves the segments alone.
        unsafe { guard.defer_unchecked(move || drop(Box::from_raw(old))) };
        // A directory can be large: let it go soon, not only when this thread has retired many more things.
        guard.flush();
        true
    }

    /// Under test, lets other threads have their turn between any two steps, and a test look at the state.
    #[inline]
    fn between_steps(&self, _guard: &Guard) {
        #[cfg(test)]
        super::tests::between_split_steps(self, _guard);
    }
}
