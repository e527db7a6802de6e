//! The hot-key cache: the references with the most aborts, in a table small enough to stay in the processor's cache.
//!
//! If the reference with the most aborts decides, hardly any of a call's references needs to be looked for in
//! the large tables: a reference outside the cache has fewer aborts than those in it. Therefore a
//! decision asks the cache first. Only if the cache cannot decide, because the counts that it knows of the call are
//! not clearly more than those that it omits, the decision examines all references.
//!
//! Invariants: if the cache decides, the State would have decided the same. There are two
//! tables: one is read while the other is rebuilt from a History; then they are swapped. All accesses are relaxed: a
//! decision that meets a table in the making is one of chance, and no other memory hangs on it.

use smallvec::SmallVec;

use crate::base::atomics::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::schedule::history::{History, Outcomes, may_be_chance};
use crate::schedule::reference::Reference;
use crate::schedule::slots::Slots;

/// Places in a table, at most: some 70 KiB with all that belongs to them.
const MOST_PLACES: usize = 4_096;
/// Slots for each reference: with this many to spare hardly any line is ever full.
const PLACES_FOR_EACH: usize = 4;
/// Bits for each place, so that a bit in 64 or fewer is set.
const BITS_FOR_EACH: usize = 16;

/// The counts of each of a call's references, in their order; zero for those that are not cached.
pub(crate) type AllOutcomes = SmallVec<[Outcomes; 64]>;

struct Table {
    /// A bit for each cached reference, by the lowest bits of its number, which filters most others with one load.
    present: Box<[AtomicU64]>,
    slots: Slots,
    outcomes: Box<[AtomicU64]>,
    /// The most aborts that a reference has which is left out; 0: none is.
    left_out: AtomicU32,
}

impl Table {
    const BYTES: usize = Slots::BYTES + size_of::<AtomicU64>() + BITS_FOR_EACH / 8;

    fn new(places: usize) -> Table {
        let slots = Slots::new(places);
        let outcomes = (0..slots.len()).map(|_| AtomicU64::new(0)).collect();
        let words = 1 << (slots.len() * BITS_FOR_EACH / 64).max(1).ilog2();
        let present = (0..words).map(|_| AtomicU64::new(0)).collect();
        // Nothing is known yet: it cannot say anything.
        Table { present, slots, outcomes, left_out: AtomicU32::new(u32::MAX) }
    }

    fn clear(&self) {
        self.left_out.store(u32::MAX, Ordering::Relaxed);
        for (place, outcomes) in self.outcomes.iter().enumerate() {
            self.slots.take_back(place);
            outcomes.store(0, Ordering::Relaxed);
        }
        self.present.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// The word and the bit of a reference.
    #[inline]
    fn bit(&self, reference: Reference) -> (&AtomicU64, u64) {
        // As many words as a power of two.
        let word = (reference >> 6) as usize & (self.present.len() - 1);
        (&self.present[word], 1 << (reference & 63))
    }

    /// Fills it with the first of these, which are in order; returns the most aborts of a reference that did not fit.
    fn fill(&self, all: &[(Reference, Outcomes)]) -> u32 {
        let mut left_out = 0;
        for (number, (reference, outcomes)) in all.iter().enumerate() {
            let place = if number < self.slots.len() / PLACES_FOR_EACH {
                self.slots.find_or_give(*reference)
            } else {
                None
            };
            match place {
                Some(place) => {
                    self.outcomes[place].store(outcomes.packed(), Ordering::Relaxed);
                    let (word, bit) = self.bit(*reference);
                    word.fetch_or(bit, Ordering::Relaxed);
                }
                None => left_out = left_out.max(outcomes.aborts),
            }
        }
        left_out
    }

    #[inline]
    fn get(&self, reference: Reference) -> Outcomes {
        let (word, bit) = self.bit(reference);
        if word.load(Ordering::Relaxed) & bit == 0 {
            return Outcomes::default();
        }
        self.slots.find(reference).map_or_else(Outcomes::default, |place| {
            Outcomes::unpacked(self.outcomes[place].load(Ordering::Relaxed))
        })
    }
}

/// The hot-key cache.
pub(crate) struct HotKeyCache {
    tables: [Table; 2],
    /// Index of the table that is read.
    read: AtomicUsize,
}

impl HotKeyCache {
    /// An empty one, of at most this many bytes.
    pub(crate) fn new(bytes: usize) -> HotKeyCache {
        let table = || Table::new((bytes / 2 / Table::BYTES).min(MOST_PLACES));
        HotKeyCache { tables: [table(), table()], read: AtomicUsize::new(0) }
    }

    /// Caches the references with the most aborts in a History; from one thread at a time.
    pub(crate) fn learn(&self, history: &History) {
        let unread = 1 - self.read.load(Ordering::Relaxed);
        let table = &self.tables[unread];
        table.clear();
        let mut all: Vec<_> = history.with_aborts().collect();
        all.sort_unstable_by_key(|(_, outcomes)| std::cmp::Reverse(outcomes.aborts));
        table.left_out.store(table.fill(&all), Ordering::Relaxed);
        self.read.store(unread, Ordering::Relaxed);
    }

    /// Returns the counts of these references, as far as they may be the one with the most aborts; `None` if it cannot
    /// be said.
    #[inline]
    pub(crate) fn look(&self, references: &[Reference]) -> Option<AllOutcomes> {
        let table = &self.tables[self.read.load(Ordering::Relaxed)];
        let left_out = table.left_out.load(Ordering::Relaxed);
        let all: AllOutcomes = references.iter().map(|reference| table.get(*reference)).collect();
        let most = all.iter().map(|outcomes| outcomes.aborts).max().unwrap_or(0);
        (left_out == 0 || most > left_out && !may_be_chance(most, left_out)).then_some(all)
    }

    /// Bytes of their memory.
    pub(crate) fn bytes(&self) -> usize {
        self.tables.iter().map(|table| table.slots.len() * Table::BYTES).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that are spread as references are.
    fn spread(number: u64) -> Reference {
        (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(31).wrapping_mul(0xD1B5_4A32_D192_ED03)
            >> 1
    }

    /// A History in which each reference has this many aborts.
    fn history(aborts: impl Iterator<Item = u32>) -> History {
        let history = History::new(1 << 22);
        aborts.zip(0..).for_each(|(aborts, number)| history.note(&[spread(number)], aborts));
        history
    }

    fn aborts(hot_key_cache: &HotKeyCache, numbers: &[u64]) -> Option<Vec<u32>> {
        let references: Vec<_> = numbers.iter().map(|number| spread(*number)).collect();
        hot_key_cache.look(&references).map(|all| all.iter().map(|outcomes| outcomes.aborts).collect())
    }

    #[test]
    fn where_few_have_led_to_aborts_they_say_everything() {
        let hot_key_cache = HotKeyCache::new(1 << 20);
        assert_eq!(aborts(&hot_key_cache, &[1]), None, "it has learned nothing yet");
        hot_key_cache.learn(&history([0, 7, 1].into_iter()));
        assert_eq!(aborts(&hot_key_cache, &[1, 0, 2, 9]), Some(vec![7, 0, 1, 0]));
        assert_eq!(aborts(&hot_key_cache, &[9]), Some(vec![0]));
        assert_eq!(aborts(&hot_key_cache, &[]), Some(vec![]));
    }

    #[test]
    fn where_many_have_they_speak_of_what_is_clearly_more_than_what_they_leave_out() {
        let hot_key_cache = HotKeyCache::new(1 << 20);
        // One with 500, a hundred with 12, and thousands with 10.
        let many = (0..4_000).map(|number| match number {
            0 => 500,
            1..=100 => 12,
            _ => 10,
        });
        hot_key_cache.learn(&history(many));
        assert_eq!(aborts(&hot_key_cache, &[0, 9_999]), Some(vec![500, 0]));
        assert_eq!(aborts(&hot_key_cache, &[1, 9_999]), None, "one that they leave out may have as many");
        assert_eq!(aborts(&hot_key_cache, &[9_999]), None);
    }

    #[test]
    fn the_leader_of_a_key_is_learned_anew() {
        let hot_key_cache = HotKeyCache::new(1 << 20);
        hot_key_cache.learn(&history([5, 0].into_iter()));
        hot_key_cache.learn(&history([0, 3].into_iter()));
        assert_eq!(aborts(&hot_key_cache, &[0, 1]), Some(vec![0, 3]));
        hot_key_cache.learn(&history([2].into_iter()));
        assert_eq!(aborts(&hot_key_cache, &[0, 1]), Some(vec![2, 0]));
    }

    #[test]
    fn hardly_any_leader_is_left_out_for_want_of_room() {
        let hot_key_cache = HotKeyCache::new(1 << 20);
        let number = (MOST_PLACES / PLACES_FOR_EACH) as u64;
        hot_key_cache.learn(&history((0..number).map(|number| 10_000 - number as u32)));
        let table = &hot_key_cache.tables[hot_key_cache.read.load(Ordering::Relaxed)];
        let found = (0..number).filter(|number| table.get(spread(*number)).aborts == 10_000 - *number as u32);
        assert!(found.count() > number as usize - 4);
    }

    #[test]
    fn memory_is_bounded_and_never_more_than_is_of_use() {
        assert!((1..=1 << 12).contains(&HotKeyCache::new(1 << 12).bytes()));
        assert_eq!(HotKeyCache::new(1 << 30).bytes(), HotKeyCache::new(1 << 20).bytes());
    }
}
