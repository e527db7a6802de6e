//! The directory: from the first bits of a hash to the segment that holds its keys.
//!
//! A directory of depth d has 2^d places. A segment of depth s ≤ d is in the 2^(d-s) places whose numbers begin
//! with its s bits. Segments are aligned to cache lines, so the place's low six bits hold the segment's depth: a
//! lookup learns it without a look at the segment.

use std::ptr::NonNull;

use super::entry;
use super::hash_segment::Segment;
use crate::base::atomics::{AtomicPtr, Ordering};
use crate::storage::index::pool::Pool;

const DEPTH_MASK: usize = 63;
const _: () = assert!(align_of::<Segment>() > DEPTH_MASK && entry::DEPTH_MAX as usize <= DEPTH_MASK);

/// Places per segment that a directory may have at most. Hashes that are random need two or four; keys that were
/// chosen to collide must not make the directory grow without bound.
const PLACES_PER_SEGMENT_MAX: usize = 16;

/// See the module's description.
pub(super) struct Directory {
    depth: u32,
    places: Box<[AtomicPtr<Segment>]>,
}

/// A segment, and how many bits its keys' hashes share.
#[derive(Clone, Copy)]
pub(super) struct Located<'g> {
    pub(super) segment: &'g Segment,
    pub(super) depth: u32,
}

impl Directory {
    /// A directory of depth zero.
    pub(super) fn new(segment: NonNull<Segment>) -> Box<Self> {
        Box::new(Directory { depth: 0, places: Box::new([AtomicPtr::new(place(segment, 0))]) })
    }

    /// A directory of this depth, with a new segment in each place.
    pub(super) fn of_segments(depth: u32, pool: &Pool) -> Box<Self> {
        let places = (0..1_usize << depth).map(|_| AtomicPtr::new(place(Segment::new(pool), depth)));
        Box::new(Directory { depth, places: places.collect() })
    }

    /// A directory with twice the places and the same segments; None when that would be too many, or the system has no
    /// memory for them.
    pub(super) fn doubled(&self, segments: usize) -> Option<Box<Self>> {
        if self.depth == entry::DEPTH_MAX || self.places.len() * 2 > segments * PLACES_PER_SEGMENT_MAX {
            return None;
        }
        // Relaxed: only splits change places, and the caller holds their lock.
        let twice = |old: &AtomicPtr<Segment>| [old.load(Ordering::Relaxed), old.load(Ordering::Relaxed)];
        let mut places = Vec::new();
        places.try_reserve_exact(2 * self.places.len()).ok()?;
        places.extend(self.places.iter().flat_map(twice).map(AtomicPtr::new));
        Some(Box::new(Directory { depth: self.depth + 1, places: places.into_boxed_slice() }))
    }

    /// The number of hash bits that it looks at.
    pub(super) fn depth(&self) -> u32 {
        self.depth
    }

    /// The number of the place of this hash.
    #[inline(always)]
    fn number(&self, hash: u64) -> usize {
        // In two steps, because a shift by all 64 bits is none.
        (hash >> 1 >> (u64::BITS - 1 - self.depth)) as usize
    }

    /// The segment of this hash.
    #[inline(always)]
    pub(super) fn locate(&self, hash: u64) -> Located<'_> {
        // Acquire pairs with the release in `replace`: the segment's content is seen.
        let found = self.places[self.number(hash)].load(Ordering::Acquire);
        // SAFETY: a place always holds a segment; a segment is retired after it left the directory, and a thread that
        // borrows the directory is pinned or owns the index.
        let segment = unsafe { segment_of(found).as_ref() };
        Located { segment, depth: depth_of(found) }
    }

    /// Puts the two halves into the places of the segment of this hash and depth; answers the old segment.
    ///
    /// Only for the holder of the splits' lock, and with a directory deeper than the segment.
    pub(super) fn replace(&self, hash: u64, depth: u32, halves: [NonNull<Segment>; 2]) -> NonNull<Segment> {
        let places_per_half = 1_usize << (self.depth - depth - 1);
        let first = self.number(hash) & !(2 * places_per_half - 1);
        // Relaxed: only splits change places.
        let old = segment_of(self.places[first].load(Ordering::Relaxed));
        for (half, segment) in halves.into_iter().enumerate() {
            let new = place(segment, depth + 1);
            let start = first + half * places_per_half;
            for at in &self.places[start..start + places_per_half] {
                // Release pairs with the acquire in `locate`.
                at.store(new, Ordering::Release);
            }
        }
        old
    }

    /// Frees all segments.
    ///
    /// # Safety
    /// They were made with this pool, no thread uses them any more, and the directory is only dropped afterwards.
    pub(super) unsafe fn free_segments(&mut self, pool: &Pool) {
        let mut at = 0;
        while at < self.places.len() {
            let found = *self.places[at].get_mut();
            at += 1 << (self.depth - depth_of(found));
            // SAFETY: each segment is met once: the step passes all its places. The rest is the caller's promise.
            unsafe { Segment::free(segment_of(found), pool) };
        }
    }
}

fn place(segment: NonNull<Segment>, depth: u32) -> *mut Segment {
    segment.as_ptr().map_addr(|address| address | depth as usize)
}

#[inline(always)]
fn segment_of(place: *mut Segment) -> NonNull<Segment> {
    let segment = place.map_addr(|address| address & !DEPTH_MASK);
    // SAFETY: a place holds a segment's address, which is never null.
    unsafe { NonNull::new_unchecked(segment) }
}

fn depth_of(place: *mut Segment) -> u32 {
    (place.addr() & DEPTH_MASK) as u32
}
