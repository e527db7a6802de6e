//! A place for each reference in a table of a fixed size: found, given and taken back by many threads at once.
//!
//! A reference has a place in one line of eight, which its number chooses: looking for it is one look at one cache line,
//! and no thread waits for another. The table never grows, so memory is bounded and no call ever pays for growth; where a
//! line is full, a reference gets no place, which its user takes for "nothing known".
//!
//! Invariants: a reference that has a slot keeps it until it is taken back. What is counted in a slot is
//! conflict counts, not data: should two threads give a reference two places, or one count at a place that another
//! takes back at that moment, a count is off by one and no decision is wrong, only a little less informed.

use crate::base::atomics::{AtomicU64, AtomicUsize, Ordering};
use crate::base::prefetch::prefetch_line;
use crate::schedule::reference::{LARGEST, Reference};

/// References of one line: a cache line.
const WAYS: usize = 8;

/// A free slot.
const FREE: Reference = 0;
/// The bit of a place that no reference uses: its user's mark.
const MARK: u64 = !LARGEST;

#[repr(align(64))]
struct Line([AtomicU64; WAYS]);

/// The places.
pub(crate) struct Slots {
    lines: Box<[Line]>,
    used: AtomicUsize,
}

impl Slots {
    /// Bytes for each place.
    pub(crate) const BYTES: usize = size_of::<Line>() / WAYS;

    /// Makes at most this many places, rounded down to whole lines; one line at least.
    pub(crate) fn new(places: usize) -> Slots {
        let lines = (places / WAYS).max(1);
        let line = || Line(std::array::from_fn(|_| AtomicU64::new(FREE)));
        Slots { lines: (0..lines).map(|_| line()).collect(), used: AtomicUsize::new(0) }
    }

    /// Number of places.
    pub(crate) fn len(&self) -> usize {
        self.lines.len() * WAYS
    }

    /// Number of references that have one.
    pub(crate) fn used(&self) -> usize {
        // Relaxed: a figure.
        self.used.load(Ordering::Relaxed)
    }

    #[inline]
    fn line(&self, reference: Reference) -> usize {
        // References are mixed well: the high bits choose one of the lines evenly.
        ((u128::from(reference) * self.lines.len() as u128) >> LARGEST.count_ones()) as usize
    }

    /// Begins to bring a reference's line into the cache.
    #[inline]
    pub(crate) fn prefetch(&self, reference: Reference) {
        prefetch_line(&raw const self.lines[self.line(reference)]);
    }

    /// The place of a reference.
    #[inline]
    pub(crate) fn find(&self, reference: Reference) -> Option<usize> {
        let line = self.line(reference);
        // Relaxed, here and below: a place says nothing about other memory; the counts that belong to it are atomics of
        // their own, which are always there.
        let equal = |way: &AtomicU64| u32::from(way.load(Ordering::Relaxed) & LARGEST == reference);
        // All eight are compared, without a branch, which could not be predicted.
        let ways = self.lines[line].0.iter().enumerate();
        let matching = ways.fold(0, |matching, (number, way)| matching | equal(way) << number);
        (matching != 0).then(|| line * WAYS + matching.trailing_zeros() as usize)
    }

    /// Returns true if a place has its user's mark.
    #[inline]
    pub(crate) fn is_marked(&self, place: usize) -> bool {
        self.word(place).load(Ordering::Relaxed) & MARK != 0
    }

    /// Marks a slot in use, or removes the mark.
    pub(crate) fn mark(&self, place: usize, marked: bool) {
        let word = self.word(place);
        if marked {
            word.fetch_or(MARK, Ordering::Relaxed);
        } else {
            word.fetch_and(LARGEST, Ordering::Relaxed);
        }
    }

    #[inline]
    fn word(&self, place: usize) -> &AtomicU64 {
        &self.lines[place / WAYS].0[place % WAYS]
    }

    /// The place of a reference, a new one if it has none; `None` if its line is full.
    #[inline]
    pub(crate) fn find_or_give(&self, reference: Reference) -> Option<usize> {
        self.find(reference).or_else(|| self.give(reference))
    }

    #[cold]
    fn give(&self, reference: Reference) -> Option<usize> {
        let line = self.line(reference);
        for (way, place) in self.lines[line].0.iter().enumerate() {
            match place.load(Ordering::Relaxed) & LARGEST {
                FREE => {}
                // Another thread gave this very reference the place meanwhile.
                present if present == reference => return Some(line * WAYS + way),
                _ => continue,
            }
            match place.compare_exchange(FREE, reference, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    self.used.fetch_add(1, Ordering::Relaxed);
                    return Some(line * WAYS + way);
                }
                // Or at this moment.
                Err(present) if present & LARGEST == reference => return Some(line * WAYS + way),
                Err(_) => {}
            }
        }
        None
    }

    /// The reference in a slot, if there is one.
    pub(crate) fn owner(&self, place: usize) -> Option<Reference> {
        let reference = self.word(place).load(Ordering::Relaxed) & LARGEST;
        (reference != FREE).then_some(reference)
    }

    /// Takes a place back.
    pub(crate) fn take_back(&self, place: usize) {
        if self.word(place).swap(FREE, Ordering::Relaxed) & LARGEST != FREE {
            self.used.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Numbers that are spread as references are.
    fn spread(number: u64) -> Reference {
        (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31).wrapping_mul(0xD1B5_4A32_D192_ED03)
            & LARGEST
    }

    #[test]
    fn every_reference_keeps_its_own_place_until_it_is_taken_back() {
        let slots = Slots::new(4_096);
        let places: Vec<usize> = (0..400).map(|number| slots.find_or_give(spread(number)).unwrap()).collect();
        assert_eq!(places.iter().collect::<HashSet<_>>().len(), 400);
        assert_eq!((slots.used(), slots.len()), (400, 4_096));
        for (number, place) in places.iter().enumerate() {
            assert_eq!(slots.find(spread(number as u64)), Some(*place));
            assert_eq!(slots.owner(*place), Some(spread(number as u64)));
        }
        slots.take_back(places[7]);
        slots.take_back(places[7]);
        assert_eq!((slots.find(spread(7)), slots.owner(places[7]), slots.used()), (None, None, 399));
        assert_eq!(slots.find_or_give(spread(7)), Some(places[7]), "the first free one");
    }

    #[test]
    fn a_mark_stays_with_a_place_until_it_is_taken_back() {
        let slots = Slots::new(64);
        let [one, other] = [7, LARGEST].map(|reference| slots.find_or_give(reference).unwrap());
        slots.mark(one, true);
        slots.mark(one, true);
        assert_eq!([one, other].map(|place| slots.is_marked(place)), [true, false]);
        assert_eq!((slots.find(7), slots.find_or_give(7), slots.owner(one)), (Some(one), Some(one), Some(7)));
        assert_eq!((slots.owner(other), slots.used()), (Some(LARGEST), 2));
        slots.mark(one, false);
        slots.mark(other, true);
        assert_eq!([one, other].map(|place| slots.is_marked(place)), [false, true]);
        slots.take_back(other);
        assert_eq!((slots.is_marked(other), slots.find(LARGEST), slots.used()), (false, None, 1));
    }

    #[test]
    fn a_full_line_gives_no_place_and_loses_none() {
        let slots = Slots::new(1);
        assert_eq!(slots.len(), WAYS);
        for number in 1..=8 {
            assert!(slots.find_or_give(number).is_some());
        }
        assert_eq!((slots.find_or_give(9), slots.used()), (None, 8));
        slots.take_back(3);
        assert_eq!(slots.find_or_give(9), Some(3));
        assert!((1..=3).chain(5..=9).all(|number| slots.find(number).is_some()));
    }

    #[test]
    fn concurrent_threads_agree_on_the_places() {
        let slots = Slots::new(1 << 12);
        let find_all = || (0..400).map(|number| slots.find_or_give(spread(number))).collect::<Vec<_>>();
        let seen: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(find_all)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert!(seen.iter().all(|places| *places == seen[0] && places.iter().all(Option::is_some)));
        assert_eq!(slots.used(), 400);
    }
}
