//! State: how often each reference was placed in each queue.
//!
//! Counts rise when a call is queued, and are never lowered: a reference is pruned as a whole, or moved as a whole to
//! another queue. The sums over all references, the row *total* of the paper's tables, follow whatever is done.
//!
//! What it keeps true: it never uses more memory than it was given. All accesses are relaxed: counts are evidence, no other
//! memory hangs on them, and a count that is lost to a race makes a decision a little less informed, not wrong.

use crossbeam_utils::CachePadded;
use smallvec::SmallVec;

use crate::base::atomics::{AtomicU32, AtomicU64, Ordering};
use crate::schedule::reference::Reference;
use crate::schedule::slots::Slots;

/// The places of a call's references: `None` has none.
pub(crate) type Places = SmallVec<[Option<usize>; 32]>;

/// From this count on, a reference's counts are halved: their proportions are what matters.
const HALVED_FROM: u32 = 1 << 30;

/// The State.
pub(crate) struct State {
    slots: Slots,
    queues: usize,
    /// For each place, a count for each queue.
    counts: Box<[AtomicU32]>,
    /// For each place, how many calls its reference has placed alone, since that was last asked.
    decided: Box<[AtomicU32]>,
    /// For each queue, the sum of all counts.
    totals: Box<[CachePadded<AtomicU64>]>,
}

impl State {
    /// An empty one for so many queues, in so many bytes.
    pub(crate) fn new(queues: usize, bytes: usize) -> State {
        let slots = Slots::new(bytes / Self::entry_bytes(queues));
        State {
            counts: (0..slots.len() * queues).map(|_| AtomicU32::new(0)).collect(),
            decided: (0..slots.len()).map(|_| AtomicU32::new(0)).collect(),
            totals: (0..queues).map(|_| CachePadded::new(AtomicU64::new(0))).collect(),
            slots,
            queues,
        }
    }

    /// What a reference takes, the memory of whoever prunes included.
    fn entry_bytes(queues: usize) -> usize {
        Slots::BYTES + size_of::<u32>() * (queues + 2)
    }

    /// The place of a reference, a new one if it has none and there is room.
    #[inline]
    pub(crate) fn place(&self, reference: Reference) -> Option<usize> {
        self.slots.find_or_give(reference)
    }

    /// How often the reference at this place was placed in each queue.
    #[inline]
    pub(crate) fn counts(&self, place: usize) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.row(place).iter().map(|count| count.load(Ordering::Relaxed))
    }

    #[inline]
    fn row(&self, place: usize) -> &[AtomicU32] {
        &self.counts[place * self.queues..(place + 1) * self.queues]
    }

    /// A call with these references was placed in this queue, because of one of them if `decider` says so.
    #[inline]
    pub(crate) fn add(&self, places: &Places, queue: usize, decider: Option<usize>) {
        let mut known = 0;
        for place in places.iter().flatten() {
            self.row(*place)[queue].fetch_add(1, Ordering::Relaxed);
            known += 1;
        }
        self.totals[queue].fetch_add(known, Ordering::Relaxed);
        if let Some(place) = decider {
            self.decided[place].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The sum of all references' counts for a queue.
    #[inline]
    pub(crate) fn total(&self, queue: usize) -> u64 {
        self.totals[queue].load(Ordering::Relaxed)
    }

    /// The reference that has this place.
    pub(crate) fn owner(&self, place: usize) -> Option<Reference> {
        self.slots.owner(place)
    }

    /// How many queues there are.
    pub(crate) fn queues(&self) -> usize {
        self.queues
    }

    /// All places that somebody has.
    pub(crate) fn owned(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.slots.len()).filter(|place| self.slots.owner(*place).is_some())
    }

    /// How many places there are.
    pub(crate) fn places(&self) -> usize {
        self.slots.len()
    }

    /// How many calls the reference at this place has placed alone since this was last asked.
    pub(crate) fn take_decided(&self, place: usize) -> u32 {
        self.decided[place].swap(0, Ordering::Relaxed)
    }

    /// Forgets the reference at this place.
    pub(crate) fn remove(&self, place: usize) {
        self.change(place, |_, _| 0);
        self.decided[place].store(0, Ordering::Relaxed);
        self.slots.take_back(place);
    }

    /// Moves the reference at this place to this queue, as if it had always been placed there.
    pub(crate) fn move_to(&self, place: usize, queue: usize) {
        let all = self.counts(place).fold(0, u32::saturating_add);
        self.change(place, |at, _| if at == queue { all } else { 0 });
    }

    /// Keeps counts that have grown very large from passing their bounds.
    pub(crate) fn keep_small(&self, place: usize) {
        if self.counts(place).any(|count| count >= HALVED_FROM) {
            self.change(place, |_, count| count / 2);
        }
    }

    /// Changes the counts at a place, and the totals with them.
    fn change(&self, place: usize, new: impl Fn(usize, u32) -> u32) {
        for (queue, count) in self.row(place).iter().enumerate() {
            let wanted = new(queue, count.load(Ordering::Relaxed));
            let before = count.swap(wanted, Ordering::Relaxed);
            // Modulo 2^64, so that a difference below zero is one as well.
            let difference = u64::from(wanted).wrapping_sub(u64::from(before));
            self.totals[queue].fetch_add(difference, Ordering::Relaxed);
        }
    }

    /// References that have a place.
    pub(crate) fn references(&self) -> usize {
        self.slots.used()
    }

    /// Its memory.
    pub(crate) fn bytes(&self) -> usize {
        self.slots.len() * Self::entry_bytes(self.queues)
    }
}

#[cfg(test)]
impl State {
    /// Puts a reference in with these counts.
    pub(crate) fn put(&self, reference: Reference, counts: &[u32]) -> usize {
        let place = self.place(reference).expect("there is room");
        self.change(place, |queue, _| counts[queue]);
        place
    }

    /// The counts of a reference.
    pub(crate) fn of(&self, reference: Reference) -> Option<Vec<u32>> {
        Some(self.counts(self.slots.find(reference)?).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(state: &State) -> Vec<u64> {
        (0..state.queues()).map(|queue| state.total(queue)).collect()
    }

    #[test]
    fn placing_counts_for_every_reference_and_for_the_totals() {
        let state = State::new(3, 1 << 16);
        let places = |references: &[u64]| references.iter().map(|one| state.place(*one)).collect::<Places>();
        state.add(&places(&[11, 12]), 1, None);
        state.add(&places(&[12, 13]), 1, state.place(12));
        state.add(&places(&[12]), 2, None);
        assert_eq!(state.of(12), Some(vec![0, 2, 1]));
        assert_eq!((state.of(11), state.of(14)), (Some(vec![0, 1, 0]), None));
        assert_eq!((totals(&state), state.references()), (vec![0, 4, 1], 3));
        let place = state.place(12).unwrap();
        assert_eq!((state.take_decided(place), state.take_decided(place)), (1, 0));
    }

    #[test]
    fn totals_follow_what_is_removed_moved_and_halved() {
        let state = State::new(3, 1 << 16);
        let (first, second) = (state.put(11, &[2, 1, 1]), state.put(12, &[0, 1, 7]));
        assert_eq!(totals(&state), [2, 2, 8]);
        state.move_to(first, 1);
        assert_eq!((state.of(11), totals(&state)), (Some(vec![0, 4, 0]), vec![0, 5, 7]));
        state.remove(second);
        assert_eq!((state.of(12), totals(&state), state.references()), (None, vec![0, 4, 0], 1));
        assert_eq!(state.owned().collect::<Vec<_>>(), [first]);
        state.put(11, &[HALVED_FROM, 0, 10]);
        state.keep_small(first);
        assert_eq!(state.of(11), Some(vec![HALVED_FROM / 2, 0, 5]));
        state.keep_small(first);
        assert_eq!(totals(&state), [u64::from(HALVED_FROM / 2), 0, 5]);
    }

    #[test]
    fn who_finds_no_room_is_not_counted_and_memory_is_bounded() {
        let state = State::new(20, 1 << 14);
        assert!(state.bytes() <= 1 << 14);
        let references = (1..10_000_u64).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let places: Places = references.map(|reference| state.place(reference)).collect();
        assert!(places.iter().any(Option::is_none));
        state.add(&places, 3, None);
        assert_eq!((state.total(3), state.references()), (state.places() as u64, state.places()));
    }

    #[test]
    fn concurrent_placing_loses_nothing() {
        let state = State::new(2, 1 << 14);
        std::thread::scope(|scope| {
            for queue in [0, 1, 0, 1] {
                let state = &state;
                scope.spawn(move || {
                    for _ in 0..1_000 {
                        state.add(&[7, 8].iter().map(|one| state.place(*one)).collect(), queue, None);
                    }
                });
            }
        });
        assert_eq!((state.of(7), totals(&state)), (Some(vec![2_000, 2_000]), vec![4_000, 4_000]));
    }
}
