//! History: how many transactions with a reference were aborted, and how many committed.
//!
//! Only what was placed at random is counted, so that the policy does not feed on its own effects (section 6 of the
//! paper). There are two tables: decisions read one while the other is filled from a sample; when that has seen
//! enough, they change places, and the old one is emptied. So memory is bounded, and the counts stay fresh.

use crate::base::atomics::{AtomicU32, AtomicUsize, Ordering};
use crate::schedule::policy::ConflictCounts;
use crate::schedule::reference::Reference;
use crate::schedule::slots::Slots;

/// Aborts and commits of a reference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcomes {
    pub(crate) aborts: u32,
    pub(crate) commits: u32,
}

impl Outcomes {
    /// The share of attempts that were aborted.
    pub(crate) fn fraction(self) -> f64 {
        let attempts = f64::from(self.aborts) + f64::from(self.commits);
        if attempts > 0.0 { f64::from(self.aborts) / attempts } else { 0.0 }
    }

    /// Packs both counts into one word.
    #[inline]
    pub(crate) fn packed(self) -> u64 {
        u64::from(self.aborts) << 32 | u64::from(self.commits)
    }

    /// Unpacks both counts from one word.
    #[inline]
    pub(crate) fn unpacked(word: u64) -> Outcomes {
        Outcomes { aborts: (word >> 32) as u32, commits: word as u32 }
    }

    /// The measure of conflicts by this policy.
    #[inline]
    pub(crate) fn weight(self, conflict_counts: ConflictCounts) -> f64 {
        match conflict_counts {
            ConflictCounts::Count => f64::from(self.aborts),
            ConflictCounts::Fraction => self.fraction(),
        }
    }
}

/// The probable consequence if calls with the same reference overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rivals {
    /// Calls seldom conflict: better side by side than one after the other.
    No,
    /// Calls may conflict.
    Sometimes,
    /// Calls mostly conflict, and one of two that overlap is lost: they run one after another, even if a worker is idle
    /// meanwhile.
    Mostly,
}

/// Number of aborts, for each call that it overlaps with, from which on two calls are rivals.
const RIVALS: f64 = 0.1;
/// Number of aborts from which on they are kept apart. Of two that conflict one is aborted, so this is one conflict for
/// every two that overlap: above that, two workers together do less than one of them alone.
const APART: f64 = 0.25;
/// Number of other calls with which a call with the reference overlaps, above which one worker alone hardly keeps up
/// with all that have it, and everything waits for that. Then more is required, because the aborts caused by a call's
/// other references are counted for this one as well: popular items of orders would else be kept apart because of the
/// conflicts at their warehouses.
const MANY: f64 = 1.75;
const APART_OF_MANY: f64 = 0.5;

impl Outcomes {
    /// Predicts whether two calls that both have this reference conflict if they overlap, where it was seen in `calls` calls
    /// that were distributed over this many workers. A reference that all calls have leads to many aborts because each
    /// overlaps with many, although two of them seldom conflict.
    #[inline]
    pub(crate) fn rivals(self, calls: usize, workers: usize) -> Rivals {
        // How many times a call with it has overlapped with another one.
        let overlapping = (workers.max(2) - 1) as f64 * f64::from(self.commits) / calls.max(1) as f64;
        let overlaps = overlapping * f64::from(self.commits);
        let apart = if overlapping > MANY { APART_OF_MANY } else { APART };
        match f64::from(self.aborts) {
            0.0 => Rivals::No,
            aborts if aborts >= apart * overlaps => Rivals::Mostly,
            aborts if aborts >= RIVALS * overlaps => Rivals::Sometimes,
            _ => Rivals::No,
        }
    }
}

/// A difference of fewer standard deviations than this, of two counts of chance events, is no difference.
const CHANCE: f64 = 3.0;

/// Returns true if two counts differ by no more than chance would have it.
#[inline]
pub(crate) fn may_be_chance(one: u32, other: u32) -> bool {
    let (one, other) = (f64::from(one), f64::from(other));
    (one - other) * (one - other) <= CHANCE * CHANCE * (one + other)
}

/// One table, and what has been noted in it.
struct Table {
    slots: Slots,
    outcomes: Box<[(AtomicU32, AtomicU32)]>,
    calls: AtomicUsize,
    aborts: AtomicUsize,
}

impl Table {
    const BYTES: usize = Slots::BYTES + size_of::<(AtomicU32, AtomicU32)>();

    fn new(places: usize) -> Table {
        let slots = Slots::new(places);
        let outcomes = (0..slots.len()).map(|_| Default::default()).collect();
        Table { slots, outcomes, calls: AtomicUsize::new(0), aborts: AtomicUsize::new(0) }
    }

    fn clear(&self) {
        for (place, (aborts, commits)) in self.outcomes.iter().enumerate() {
            aborts.store(0, Ordering::Relaxed);
            commits.store(0, Ordering::Relaxed);
            self.slots.take_back(place);
        }
        self.calls.store(0, Ordering::Relaxed);
        self.aborts.store(0, Ordering::Relaxed);
    }
}

/// The History. All its accesses are relaxed: counts are estimates, and no other memory hangs on them.
pub(crate) struct History {
    tables: [Table; 2],
    /// Index of the table that is read.
    read: AtomicUsize,
    /// Index of the table that is filled.
    filled: AtomicUsize,
}

impl History {
    /// An empty one of this many bytes, which is read and filled at once.
    pub(crate) fn new(bytes: usize) -> History {
        let table = || Table::new(bytes / 2 / Table::BYTES);
        History { tables: [table(), table()], read: AtomicUsize::new(0), filled: AtomicUsize::new(0) }
    }

    /// Returns the counts of a reference that has led to aborts; zero for another one.
    pub(crate) fn known(&self, reference: Reference) -> Outcomes {
        self.get(reference).filter(|outcomes| outcomes.aborts > 0).unwrap_or_default()
    }

    /// Returns the counts of a reference, if it is known.
    pub(crate) fn get(&self, reference: Reference) -> Option<Outcomes> {
        let table = &self.tables[self.read.load(Ordering::Relaxed)];
        let (aborts, commits) = &table.outcomes[table.slots.find(reference)?];
        Some(Outcomes { aborts: aborts.load(Ordering::Relaxed), commits: commits.load(Ordering::Relaxed) })
    }

    /// All references that have led to aborts, with what is known of them.
    pub(crate) fn with_aborts(&self) -> impl Iterator<Item = (Reference, Outcomes)> + '_ {
        let table = &self.tables[self.read.load(Ordering::Relaxed)];
        let of = |place: usize| {
            let (aborts, commits) = &table.outcomes[place];
            let outcomes =
                Outcomes { aborts: aborts.load(Ordering::Relaxed), commits: commits.load(Ordering::Relaxed) };
            table.slots.owner(place).filter(|_| outcomes.aborts > 0).map(|reference| (reference, outcomes))
        };
        (0..table.slots.len()).filter_map(of)
    }

    /// A transaction with these references has ended, after this many aborted attempts.
    pub(crate) fn note(&self, references: &[Reference], aborts: u32) {
        let table = &self.tables[self.filled.load(Ordering::Relaxed)];
        for place in references.iter().filter_map(|reference| table.slots.find_or_give(*reference)) {
            table.outcomes[place].0.fetch_add(aborts, Ordering::Relaxed);
            table.outcomes[place].1.fetch_add(1, Ordering::Relaxed);
        }
        table.calls.fetch_add(1, Ordering::Relaxed);
        table.aborts.fetch_add(aborts as usize, Ordering::Relaxed);
    }

    /// Makes the filled table the one that is read, and begins to fill the other one.
    pub(crate) fn complete(&self) {
        if self.filled.load(Ordering::Relaxed) == self.read.load(Ordering::Relaxed) {
            self.fill_apart();
        } else {
            self.renew();
        }
    }

    /// Forgets what the filled table has seen, if it is not the one that is read.
    pub(crate) fn refill(&self) {
        let filled = self.filled.load(Ordering::Relaxed);
        if filled != self.read.load(Ordering::Relaxed) {
            self.tables[filled].clear();
        }
    }

    /// Makes the other table the one that is filled.
    pub(crate) fn fill_apart(&self) {
        self.filled.store(1 - self.read.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Number of calls that the table has seen that is read.
    #[inline]
    pub(crate) fn calls(&self) -> usize {
        self.tables[self.read.load(Ordering::Relaxed)].calls.load(Ordering::Relaxed)
    }

    /// Number of calls that the filled table has seen, and of their aborts.
    pub(crate) fn noted(&self) -> (usize, usize) {
        let table = &self.tables[self.filled.load(Ordering::Relaxed)];
        (table.calls.load(Ordering::Relaxed), table.aborts.load(Ordering::Relaxed))
    }

    /// The filled table is read from now on; the other one is emptied and filled.
    pub(crate) fn renew(&self) {
        let filled = self.filled.load(Ordering::Relaxed);
        self.read.store(filled, Ordering::Relaxed);
        self.tables[1 - filled].clear();
        self.filled.store(1 - filled, Ordering::Relaxed);
    }

    /// References of which something is known.
    pub(crate) fn references(&self) -> usize {
        self.tables[self.read.load(Ordering::Relaxed)].slots.used()
    }

    /// The memory of both tables.
    pub(crate) fn bytes(&self) -> usize {
        self.tables.iter().map(|table| table.slots.len() * Table::BYTES).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_counted_for_each_reference() {
        let history = History::new(1 << 16);
        history.note(&[11, 12], 2);
        history.note(&[12, 13], 0);
        assert_eq!(history.get(11), Some(Outcomes { aborts: 2, commits: 1 }));
        assert_eq!(history.get(12), Some(Outcomes { aborts: 2, commits: 2 }));
        assert_eq!(history.get(13), Some(Outcomes { aborts: 0, commits: 1 }));
        assert_eq!((history.get(14), history.references(), history.noted()), (None, 3, (2, 2)));
        let mut with_aborts: Vec<_> =
            history.with_aborts().map(|(reference, outcomes)| (reference, outcomes.aborts)).collect();
        with_aborts.sort_unstable();
        assert_eq!(with_aborts, [(11, 2), (12, 2)]);
    }

    #[test]
    fn counts_of_chance_events_differ_when_it_is_unlikely() {
        for (one, other, chance) in
            [(20, 20, true), (200, 160, true), (200, 100, false), (20, 0, false), (5, 0, true)]
        {
            assert_eq!(
                (may_be_chance(one, other), may_be_chance(other, one)),
                (chance, chance),
                "{one} {other}"
            );
        }
        assert!(may_be_chance(0, 0) && !may_be_chance(u32::MAX, 0));
    }

    #[test]
    fn counts_and_fractions_are_the_papers() {
        let known = Outcomes { aborts: 20, commits: 60 };
        assert_eq!(
            (known.weight(ConflictCounts::Count), known.weight(ConflictCounts::Fraction)),
            (20.0, 0.25)
        );
        assert_eq!(Outcomes::default().weight(ConflictCounts::Fraction), 0.0);
        let huge = Outcomes { aborts: u32::MAX, commits: u32::MAX };
        assert_eq!(huge.fraction(), 0.5);
        for outcomes in [known, huge, Outcomes { aborts: u32::MAX, commits: 7 }] {
            assert_eq!(Outcomes::unpacked(outcomes.packed()), outcomes);
        }
    }

    #[test]
    fn rivals_are_those_who_conflict_where_they_overlap_and_not_those_who_overlap_with_many() {
        let known = |aborts, commits| Outcomes { aborts, commits };
        // A twentieth of 20,000 calls has it, on 20 workers: each overlaps with one of them.
        assert_eq!(known(300, 1_000).rivals(20_000, 20), Rivals::Mostly);
        assert_eq!(known(200, 1_000).rivals(20_000, 20), Rivals::Sometimes);
        assert_eq!(known(50, 1_000).rivals(20_000, 20), Rivals::No);
        // All have it: each overlaps with 19.
        assert_eq!(known(6_000, 20_000).rivals(20_000, 20), Rivals::No);
        assert_eq!(known(150_000, 20_000).rivals(20_000, 20), Rivals::Sometimes);
        assert_eq!(known(200_000, 20_000).rivals(20_000, 20), Rivals::Mostly);
        assert_eq!(known(1, 1).rivals(20_000, 1), Rivals::Mostly, "one that is rare");
        assert_eq!(known(0, 0).rivals(0, 20), Rivals::No);
    }

    #[test]
    fn what_is_filled_apart_is_read_once_it_is_renewed() {
        let history = History::new(1 << 16);
        history.note(&[1], 1);
        history.fill_apart();
        history.note(&[2], 5);
        assert_eq!((history.get(2), history.noted()), (None, (1, 5)));
        assert!(history.get(1).is_some());
        history.renew();
        assert_eq!(history.get(1), None, "what has not come up again is forgotten");
        assert_eq!(history.get(2), Some(Outcomes { aborts: 5, commits: 1 }));
        assert_eq!((history.noted(), history.references()), ((0, 0), 1));
        history.note(&[3], 1);
        history.renew();
        assert_eq!((history.get(2), history.get(3).is_some()), (None, true));
    }

    #[test]
    fn a_first_history_is_read_at_once_and_a_later_one_when_it_is_complete() {
        let history = History::new(1 << 16);
        history.note(&[1], 1);
        history.refill();
        assert!(history.get(1).is_some(), "what is read is not forgotten");
        history.complete();
        history.note(&[2], 1);
        history.refill();
        history.note(&[3], 1);
        assert_eq!((history.get(1).is_some(), history.get(3), history.noted()), (true, None, (1, 1)));
        history.complete();
        assert_eq!((history.get(1), history.get(2), history.get(3).is_some()), (None, None, true));
    }

    #[test]
    fn memory_is_bounded_however_many_references_come() {
        let history = History::new(1 << 14);
        let bytes = history.bytes();
        assert!(bytes <= 1 << 14);
        for number in 1..100_000_u64 {
            history.note(&[number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1], 1);
        }
        assert_eq!((history.bytes(), history.references() * Table::BYTES * 2), (bytes, bytes));
    }

    #[test]
    fn concurrent_notes_are_all_counted() {
        let history = History::new(1 << 16);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1_000).for_each(|_| history.note(&[5, 6], 3)));
            }
        });
        assert_eq!(history.get(6), Some(Outcomes { aborts: 12_000, commits: 4_000 }));
    }
}
