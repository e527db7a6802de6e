//! State: how often each reference was placed in each queue, and what it counts for.
//!
//! Counts rise when a call is queued, and are never lowered: a reference is pruned as a whole, or moved as a whole to
//! another queue. The sums over all references, the row *total* of the paper's tables, follow whatever is done; they count
//! every call, also where the references' own counts are of a sample.
//!
//! A decision looks into the State, unless the [hot-key cache](super::hot_key_cache) suffices: what the History knows
//! of a reference is copied beside it when it gets its place, and again when a fresh History is there. Most of the
//! time that a decision takes would be waiting for memory, so all lines are prefetched before the first is read
//! ([`State::prefetch`]); and of a reference without conflicts, as most are, a decision looks at one line, and counts
//! in another; once there are many, only one call in some counts there, for as many calls.
//!
//! Invariants: it never uses more memory than it was given. All accesses are relaxed: counts are statistics, no other
//! memory hangs on them, and a count that is lost to a race makes a decision a little less informed, not wrong. What has
//! conflicts, and so decides, loses none to other threads.

use crossbeam_utils::CachePadded;
use smallvec::SmallVec;

use crate::base::atomics::{AtomicU32, AtomicU64, Ordering};
use crate::base::prefetch::prefetch_line;
use crate::base::random;
use crate::schedule::history::{History, Outcomes};
use crate::schedule::reference::Reference;
use crate::schedule::slots::Slots;

/// While so few are known, their counts lie in the cache: all of them are counted.
const FEW: usize = 4_096;
/// Sampling interval: one of this many calls counts for references without conflict counts, once there are more.
const SAMPLED: u32 = 32;

/// Count from which on a reference's counts are halved: only their proportions matter.
const HALVED_FROM: u32 = 1 << 30;

/// The State's entry for one of a call's references.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// Its place; `NOWHERE`, if there is no room for it.
    place: u32,
    /// Its counts in the History; zero if it has led to no aborts.
    pub(crate) outcomes: Outcomes,
}

const NOWHERE: u32 = u32::MAX;

impl Found {
    /// The entry of a reference that was not looked up.
    pub(crate) const NOTHING: Found = Found { place: NOWHERE, outcomes: Outcomes { aborts: 0, commits: 0 } };

    /// Sets the counts, and keeps the place.
    #[inline]
    pub(crate) fn with(self, outcomes: Outcomes) -> Found {
        Found { outcomes, ..self }
    }

    /// Its place, if it has one.
    #[inline]
    pub(crate) fn place(self) -> Option<usize> {
        (self.place != NOWHERE).then_some(self.place as usize)
    }
}

/// Entries for all of a call's references, in their order.
pub(crate) type AllFound = SmallVec<[Found; 64]>;

/// Counts of a queue.
#[derive(Default)]
struct Total {
    /// The sum of all references' counts.
    references: AtomicU64,
    /// The calls that were placed there.
    calls: AtomicU64,
}

/// The State.
pub(crate) struct State {
    slots: Slots,
    queues: usize,
    /// The History's counts of each place's reference: aborts above commits.
    conflict_counts: Box<[AtomicU64]>,
    /// Counts of each place: one for each queue, and behind them the number of calls that its reference has placed
    /// alone since that was last taken.
    counts: Box<[AtomicU32]>,
    totals: Box<[CachePadded<Total>]>,
}

impl State {
    /// An empty one for this many queues, of this many bytes.
    pub(crate) fn new(queues: usize, bytes: usize) -> State {
        let slots = Slots::new((bytes / Self::entry_bytes(queues)).min(NOWHERE as usize));
        State {
            conflict_counts: (0..slots.len()).map(|_| AtomicU64::new(0)).collect(),
            counts: (0..slots.len() * (queues + 1)).map(|_| AtomicU32::new(0)).collect(),
            totals: (0..queues).map(|_| CachePadded::default()).collect(),
            slots,
            queues,
        }
    }

    /// The memory that a reference takes, with what pruning needs.
    fn entry_bytes(queues: usize) -> usize {
        Slots::BYTES + size_of::<u64>() + size_of::<u32>() * (queues + 2)
    }

    /// Begins to bring into the cache what a decision looks at for this reference.
    #[inline]
    pub(crate) fn prefetch(&self, reference: Reference) {
        self.slots.prefetch(reference);
    }

    /// Finds a reference; gives it a place, if it has none and there is room, with what the History knows of it.
    #[inline]
    pub(crate) fn find(&self, reference: Reference, history: &History) -> Found {
        let Some(place) = self.slots.find(reference) else { return self.give(reference, history) };
        // Most have no conflicts: the mark, which is in the line that has just been read, says so.
        let word =
            if self.slots.is_marked(place) { self.conflict_counts[place].load(Ordering::Relaxed) } else { 0 };
        Found { place: place as u32, outcomes: Outcomes::unpacked(word) }
    }

    #[cold]
    fn give(&self, reference: Reference, history: &History) -> Found {
        let Some(place) = self.slots.find_or_give(reference) else {
            return Found { place: NOWHERE, outcomes: Outcomes::default() };
        };
        Found { place: place as u32, outcomes: self.copy(place, reference, history) }
    }

    /// Copies what the History knows of a reference.
    fn copy(&self, place: usize, reference: Reference, history: &History) -> Outcomes {
        let outcomes = history.known(reference);
        self.conflict_counts[place].store(outcomes.packed(), Ordering::Relaxed);
        if self.slots.is_marked(place) != (outcomes.aborts > 0) {
            self.slots.mark(place, outcomes.aborts > 0);
        }
        outcomes
    }

    /// Copies what the History knows of all references. A thread that gives one its slot at this moment may copy what
    /// was known before: so it is done once more a little later.
    pub(crate) fn learn(&self, history: &History) {
        for place in 0..self.places() {
            let Some(reference) = self.slots.owner(place) else { continue };
            self.copy(place, reference, history);
        }
    }

    /// Number of placements of the reference at this place in each queue.
    #[inline]
    pub(crate) fn counts(&self, place: usize) -> impl ExactSizeIterator<Item = u32> + '_ {
        self.row(place)[..self.queues].iter().map(|count| count.load(Ordering::Relaxed))
    }

    #[inline]
    fn row(&self, place: usize) -> &[AtomicU32] {
        let width = self.queues + 1;
        &self.counts[place * width..(place + 1) * width]
    }

    /// Weight with which a call is counted for its references without conflicts: all calls with weight 1, while few
    /// references are known; later a few calls, with a higher weight.
    #[inline]
    pub(crate) fn weight_of_others(&self) -> u32 {
        match self.slots.used() {
            used if used < FEW => 1,
            _ if random::below(SAMPLED) == 0 => SAMPLED,
            _ => 0,
        }
    }

    /// A call with these references was placed in this queue, because of one of them if `decider` says so. Those without
    /// conflicts are counted `others` times.
    #[inline]
    pub(crate) fn add(&self, all: &AllFound, queue: usize, decider: Option<usize>, others: u32) {
        let counted = all.iter().filter(|found| others > 0 || found.outcomes.aborts > 0);
        let counts = counted.filter_map(|found| Some((found, &self.row(found.place()?)[queue])));
        counts.clone().for_each(|(_, count)| prefetch_line(&raw const *count));
        for (found, count) in counts {
            if found.outcomes.aborts > 0 {
                count.fetch_add(1, Ordering::Relaxed);
            } else {
                // No decision uses it at present, and hardly any other thread counts here: should one count be lost, it is
                // not worth making the processor wait for each of them.
                count.store(count.load(Ordering::Relaxed).wrapping_add(others), Ordering::Relaxed);
            }
        }
        // With every call, so that the next ones see at once that this queue is fuller now.
        self.totals[queue].references.fetch_add(all.len() as u64, Ordering::Relaxed);
        self.totals[queue].calls.fetch_add(1, Ordering::Relaxed);
        if let Some(place) = decider {
            self.decided(place).fetch_add(1, Ordering::Relaxed);
        }
    }

    fn decided(&self, place: usize) -> &AtomicU32 {
        &self.row(place)[self.queues]
    }

    /// Number of calls that were placed in a queue.
    pub(crate) fn calls(&self, queue: usize) -> u64 {
        self.totals[queue].calls.load(Ordering::Relaxed)
    }

    /// The sum of all references' counts for a queue.
    #[inline]
    pub(crate) fn total(&self, queue: usize) -> u64 {
        // Lost counts may have left it a little below zero.
        self.totals[queue].references.load(Ordering::Relaxed).cast_signed().max(0).cast_unsigned()
    }

    /// Number of queues.
    pub(crate) fn queues(&self) -> usize {
        self.queues
    }

    /// All slots in use.
    pub(crate) fn owned(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.slots.len()).filter(|place| self.slots.owner(*place).is_some())
    }

    /// Number of places.
    pub(crate) fn places(&self) -> usize {
        self.slots.len()
    }

    /// Number of calls that the reference at this place has placed alone since this was last called.
    pub(crate) fn take_decided(&self, place: usize) -> u32 {
        self.decided(place).swap(0, Ordering::Relaxed)
    }

    /// Forgets the reference at this place.
    pub(crate) fn remove(&self, place: usize) {
        self.change(place, |_, _| 0);
        self.decided(place).store(0, Ordering::Relaxed);
        self.conflict_counts[place].store(0, Ordering::Relaxed);
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
        for (queue, count) in self.row(place)[..self.queues].iter().enumerate() {
            let wanted = new(queue, count.load(Ordering::Relaxed));
            let before = count.swap(wanted, Ordering::Relaxed);
            // Modulo 2^64, so that a difference below zero is one as well.
            let difference = u64::from(wanted).wrapping_sub(u64::from(before));
            self.totals[queue].references.fetch_add(difference, Ordering::Relaxed);
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
    pub(crate) fn put(&self, reference: Reference, counts: &[u32], history: &History) -> usize {
        let place = self.find(reference, history).place().expect("there is room");
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

    fn known((aborts, commits): (u32, u32)) -> Outcomes {
        Outcomes { aborts, commits }
    }

    fn totals(state: &State) -> Vec<u64> {
        (0..state.queues()).map(|queue| state.total(queue)).collect()
    }

    #[test]
    fn placing_counts_for_every_reference_and_for_the_totals() {
        let state = State::new(3, 1 << 16);
        let history = History::new(1 << 10);
        let places = |references: &[u64]| {
            references.iter().map(|one| state.find(*one, &history)).collect::<AllFound>()
        };
        state.add(&places(&[11, 12]), 1, None, 1);
        state.add(&places(&[12, 13]), 1, state.slots.find(12), 1);
        state.add(&places(&[12]), 2, None, 1);
        assert_eq!(state.of(12), Some(vec![0, 2, 1]));
        assert_eq!((state.of(11), state.of(14)), (Some(vec![0, 1, 0]), None));
        assert_eq!((totals(&state), state.references()), (vec![0, 4, 1], 3));
        let place = state.slots.find(12).unwrap();
        assert_eq!((state.take_decided(place), state.take_decided(place)), (1, 0));
    }

    #[test]
    fn the_state_holds_what_the_history_knows_of_references_that_led_to_aborts() {
        let (state, history) = (State::new(3, 1 << 16), History::new(1 << 16));
        history.note(&[11], 4);
        history.note(&[12], 0);
        let outcomes = |reference| state.find(reference, &history).outcomes;
        assert_eq!([11, 12, 13].map(outcomes), [(4, 1), (0, 0), (0, 0)].map(known));
        history.note(&[11, 13], 2);
        assert_eq!(outcomes(11), known((4, 1)), "it is a copy");
        state.learn(&history);
        assert_eq!([11, 12, 13].map(outcomes), [(6, 2), (0, 0), (2, 1)].map(known));
        state.remove(state.slots.find(11).unwrap());
        history.fill_apart();
        history.renew();
        assert_eq!(outcomes(11), known((0, 0)), "the fresh History knows nothing of it");
        assert_eq!(outcomes(13), known((2, 1)));
        state.learn(&history);
        assert_eq!(outcomes(13), known((0, 0)));
    }

    #[test]
    fn what_has_no_evidence_is_counted_by_weight_and_what_has_by_calls() {
        let (state, history) = (State::new(2, 1 << 20), History::new(1 << 16));
        history.note(&[11], 4);
        let call: AllFound = [11, 12].iter().map(|one| state.find(*one, &history)).collect();
        [1, 0, 16].into_iter().for_each(|others| state.add(&call, 1, None, others));
        assert_eq!((state.of(11), state.of(12)), (Some(vec![0, 3]), Some(vec![0, 17])));
        assert_eq!((totals(&state), state.calls(1)), (vec![0, 6], 3));
        assert_eq!(state.weight_of_others(), 1, "few are known");
        (1..10_000_u64).for_each(|number| {
            state.find(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1, &history);
        });
        let calls = 16_000;
        let weights: u32 = (0..calls).map(|_| state.weight_of_others()).sum();
        assert!((calls * 8 / 10..calls * 12 / 10).contains(&weights), "on average once each: {weights}");
    }

    #[test]
    fn calls_are_counted_for_each_queue() {
        let (state, history) = (State::new(3, 1 << 16), History::new(1 << 10));
        state.add(&AllFound::new(), 1, None, 1);
        state.add(&AllFound::from_elem(state.find(5, &history), 1), 1, None, 1);
        assert_eq!([0, 1, 2].map(|queue| state.calls(queue)), [0, 2, 0]);
    }

    #[test]
    fn totals_follow_what_is_removed_moved_and_halved() {
        let (state, history) = (State::new(3, 1 << 16), History::new(1 << 10));
        let (first, second) = (state.put(11, &[2, 1, 1], &history), state.put(12, &[0, 1, 7], &history));
        assert_eq!(totals(&state), [2, 2, 8]);
        state.move_to(first, 1);
        assert_eq!((state.of(11), totals(&state)), (Some(vec![0, 4, 0]), vec![0, 5, 7]));
        state.remove(second);
        assert_eq!((state.of(12), totals(&state), state.references()), (None, vec![0, 4, 0], 1));
        assert_eq!(state.owned().collect::<Vec<_>>(), [first]);
        state.put(11, &[HALVED_FROM, 0, 10], &history);
        state.keep_small(first);
        assert_eq!(state.of(11), Some(vec![HALVED_FROM / 2, 0, 5]));
        state.keep_small(first);
        assert_eq!(totals(&state), [u64::from(HALVED_FROM / 2), 0, 5]);
    }

    #[test]
    fn a_reference_that_finds_no_space_is_not_counted_and_memory_is_bounded() {
        let (state, history) = (State::new(20, 1 << 14), History::new(1 << 10));
        assert!(state.bytes() <= 1 << 14);
        let references = (1..10_000_u64).map(|number| number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1);
        let places: AllFound = references.map(|reference| state.find(reference, &history)).collect();
        assert!(places.iter().any(|found| found.place().is_none()));
        state.add(&places, 3, None, 1);
        let known: u32 = (0..state.places()).flat_map(|place| state.counts(place)).sum();
        assert_eq!((known as usize, state.references()), (state.places(), state.places()));
    }

    #[test]
    fn concurrent_placing_loses_nothing_of_what_has_evidence() {
        let (state, history) = (State::new(2, 1 << 14), History::new(1 << 10));
        history.note(&[7, 8], 1);
        std::thread::scope(|scope| {
            for queue in [0, 1, 0, 1] {
                let (state, history) = (&state, &history);
                scope.spawn(move || {
                    for _ in 0..1_000 {
                        state.add(
                            &[7, 8].iter().map(|one| state.find(*one, history)).collect(),
                            queue,
                            None,
                            1,
                        );
                    }
                });
            }
        });
        assert_eq!((state.of(7), totals(&state)), (Some(vec![2_000, 2_000]), vec![4_000, 4_000]));
    }
}
