//! Read sets, for protocols that validate at commit that what a call has read still holds: records with their words,
//! and index nodes with their versions. Kept from call to call for its memory.
//!
//! Invariants: entries are addresses, which are only followed while the call that noted them is still pinned;
//! the set is emptied before the next call.

use std::cell::Cell;

use foldhash::fast::FixedState;
use hashbrown::HashMap;

use crate::base::atomics::{AtomicU64, Ordering, fence};
use crate::storage::index::{LeafSplit, NodeVersion};
use crate::storage::record::{Record, RecordPointer};
use crate::storage::table::NodeChanges;
use crate::storage::word::{ABSENT, BUSY, DEAD, Stamp};

/// The part of a record that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The row.
    Row,
    /// Only whether it is there: conflicts with inserts and deletes, not with updates.
    Existence,
}

/// A record that was read, with the word it had then.
#[derive(Clone, Copy, Debug)]
struct ReadEntry {
    record: RecordPointer,
    word: u64,
    part: Part,
}

/// The records and index nodes that a call has read.
#[derive(Default)]
pub(crate) struct ReadSet {
    records: Vec<ReadEntry>,
    nodes: Vec<NodeVersion<'static>>,
    /// The call's own inserts into nodes, in order: the version before, and the one after.
    own_inserts: Vec<(u64, NodeVersion<'static>)>,
    /// The leaves that the call itself has split.
    splits: Vec<LeafSplit<'static>>,
    /// The number of the split phase in which rows of split records were read; [`NEVER`]: of none that is known, or of
    /// several; 0: there were no such rows.
    phase: u64,
}

/// A phase that there never is: what was read in it does not hold.
const NEVER: u64 = u64::MAX;

/// A version that outlives the pin under which it was observed.
fn keep(version: NodeVersion<'_>) -> NodeVersion<'static> {
    // SAFETY: a node's version word is looked at by `ReadSet::still_holds` only, before the call that has noted it
    // unpins: until then no node is freed that it has met.
    unsafe { std::mem::transmute::<NodeVersion<'_>, NodeVersion<'static>>(version) }
}

impl ReadSet {
    /// Forgets everything.
    #[inline]
    pub(crate) fn clear(&mut self) {
        self.records.clear();
        self.nodes.clear();
        self.own_inserts.clear();
        self.splits.clear();
        self.phase = 0;
    }

    /// Returns true if nothing was noted.
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty() && self.nodes.is_empty() && self.phase == 0
    }

    /// Notes that the row of a split record was read, and the split phase in which its columns are hidden; `None` if that
    /// was over, or had not quite begun. A record's word does not tell split phases apart in which it was not changed.
    pub(crate) fn note_phase(&mut self, phase: Option<u64>) {
        let phase = phase.unwrap_or(NEVER);
        self.phase = if self.phase == 0 || self.phase == phase { phase } else { NEVER };
    }

    /// Returns true if rows of split records, if any were read, were read in this split phase.
    #[inline]
    pub(crate) fn is_of_phase(&self, now: impl FnOnce() -> Option<u64>) -> bool {
        self.phase == 0 || now() == Some(self.phase)
    }

    /// Notes that this part of a record was read, when its word was this.
    #[inline]
    pub(crate) fn note(&mut self, record: Record<'_>, word: u64, part: Part) {
        self.records.push(ReadEntry { record: record.pointer(), word, part });
    }

    /// The word that was noted last, if it is this record's: a thread that reads a row and then changes it asks a
    /// second time whether it is there, and what was noted of the row covers that.
    #[inline]
    pub(crate) fn word_noted_last(&self, record: Record<'_>) -> Option<u64> {
        self.records.last().filter(|entry| entry.record == record.pointer()).map(|entry| entry.word)
    }

    /// Notes that a key or a range was looked for where this version was found.
    pub(crate) fn note_node(&mut self, version: NodeVersion<'_>) {
        self.nodes.push(keep(version));
    }

    /// Takes what another part of the call has read, on another thread, which was pinned as this one is.
    pub(crate) fn append(&mut self, other: &mut ReadSet) {
        self.records.append(&mut other.records);
        self.nodes.append(&mut other.nodes);
        self.own_inserts.append(&mut other.own_inserts);
        self.splits.append(&mut other.splits);
        if other.phase != 0 {
            self.note_phase(Some(other.phase));
        }
        other.phase = 0;
    }

    /// Returns true if everything that was read is unchanged. `own` returns true for a record that the caller itself
    /// has made busy. The call is still pinned. `seen`, the highest stamp that the call has met, rises where the
    /// validity rests on others' later commits.
    #[inline(always)]
    pub(crate) fn still_holds(&self, own: impl Fn(Record<'_>) -> bool, seen: &Cell<Stamp>) -> bool {
        (self.records.iter().all(|entry| entry.still_holds(&own)) || self.records_hold_together(&own, seen))
            && (self.nodes.is_empty() || self.nodes_still_hold())
    }

    /// Same as the look at all records in `still_holds`, where others have changed records of which only the existence
    /// was read.
    ///
    /// That such a record is there says nothing about a moment before the look: it may have been deleted and put in
    /// again since. So it is looked at before all others and once more with them: if its word is the same both times, it
    /// was there at the moment between, at which all others were as they were read. Its presence may be due to the last
    /// writer, whose commit is not durable with what the body met: so its stamp is met now.
    #[cold]
    #[inline(never)]
    fn records_hold_together(&self, own: &dyn Fn(Record<'_>) -> bool, seen: &Cell<Stamp>) -> bool {
        let mut changed = Vec::new();
        for (number, entry) in self.records.iter().enumerate().filter(|(_, entry)| !entry.still_holds(own)) {
            match entry.word_if_there() {
                Some(word) => {
                    seen.set(seen.get().max(Stamp::of(word)));
                    changed.push((number, word));
                }
                None => return false,
            }
        }
        let mut changed = changed.into_iter().peekable();
        self.records.iter().enumerate().all(|(number, entry)| {
            match changed.next_if(|(changed, _)| *changed == number) {
                Some((_, word)) => entry.look().1 == word,
                None => entry.still_holds(own),
            }
        })
    }

    /// Waits while a record is locked that may turn out to be as it was read; false if it is certain that something has
    /// changed. The call is still pinned, and holds no lock that another commit could wait for.
    #[cold]
    #[inline(never)]
    pub(crate) fn wait_for_locked_records(&self) -> bool {
        let is_possible = |entry: &ReadEntry| {
            let word = entry.look().0.stable_word();
            word == entry.word || entry.part == Part::Existence && (word | entry.word) & ABSENT == 0
        };
        self.records.iter().all(is_possible) && (self.nodes.is_empty() || self.nodes_still_hold())
    }

    /// The first record that is not as it was read, if there is one, and whether its row was read; a thread that is
    /// busy with one may be the caller itself. The call is still pinned.
    #[cold]
    pub(crate) fn first_changed(&self) -> Option<(RecordPointer, Part)> {
        let changed = self.records.iter().find(|entry| !entry.still_holds(|_| false));
        changed.map(|entry| (entry.record, entry.part))
    }

    /// Own inserts and splits are followed here, for all nodes at once: looking through the nodes at each insert would take
    /// the square of their number.
    fn nodes_still_hold(&self) -> bool {
        // Own inserts come before the looks at other nodes, in one order with those of all threads: of two calls that
        // each have inserted what the other has missed, one sees the other's. What made a node's version is no access
        // of that order (in `storage/index`), so it takes a fence; its partner is the same fence in the other call.
        fence(Ordering::SeqCst);
        if self.own_inserts.is_empty() && self.splits.is_empty() {
            return self.nodes.iter().all(NodeVersion::is_current);
        }
        let mut changes = self.own_changes();
        let mut open = self.nodes.clone();
        while let Some(node) = open.pop() {
            match changes.get_mut(&place(&node, node.observed())) {
                None if !node.is_current() => return false,
                None => {}
                // What several nodes have led to is looked at once.
                Some(next) => {
                    if let Some((one, other)) = next.take() {
                        open.push(one);
                        open.extend(other);
                    }
                }
            }
        }
        true
    }

    /// A map from each version of a node that the call itself has ended to its successor: the node's next version, or
    /// those of its halves.
    fn own_changes(&self) -> HashMap<ObservedNode, Option<Next>, FixedState> {
        let inserts = self.own_inserts.iter().map(|(before, after)| (place(after, *before), (*after, None)));
        let splits = self.splits.iter().map(|LeafSplit { whole, halves: [left, right] }| {
            (place(whole, whole.observed()), (*left, Some(*right)))
        });
        inserts.chain(splits).map(|(place, next)| (place, Some(next))).collect()
    }
}

/// The call's own changes.
impl<'g> NodeChanges<'g> for ReadSet {
    /// Keeps the notes about the node before valid.
    fn inserted(&mut self, before: u64, after: NodeVersion<'g>) {
        self.own_inserts.push((before, keep(after)));
    }

    /// Keeps the notes about the leaf valid for its halves.
    #[cold]
    fn split(&mut self, split: LeafSplit<'g>) {
        self.splits.push(LeafSplit { whole: keep(split.whole), halves: split.halves.map(keep) });
    }
}

/// A node, by its version word, and a version of it.
type ObservedNode = (*const AtomicU64, u64);
/// The successors of a version: one, or two.
type Next = (NodeVersion<'static>, Option<NodeVersion<'static>>);

fn place(node: &NodeVersion<'static>, version: u64) -> ObservedNode {
    (std::ptr::from_ref(node.word()), version)
}

impl ReadEntry {
    /// The record, and its word now.
    #[inline(always)]
    fn look(&self) -> (Record<'_>, u64) {
        // SAFETY: the call that noted it is still pinned, so that the record is alive.
        let record = unsafe { self.record.as_record() };
        // SeqCst, as the taking of records is: of two commits of which each has read what the other writes, one sees
        // the other's busy word here. It acquires the last install: the validator goes on from what it sees.
        (record, record.word().load(Ordering::SeqCst))
    }

    #[inline(always)]
    fn still_holds(&self, own: impl Fn(Record<'_>) -> bool) -> bool {
        let (record, word) = self.look();
        word == self.word || own(record) && self.holds_in_own_hands(word)
    }

    /// Returns true if a record that the caller holds, and no thread can change meanwhile, is unchanged.
    fn holds_in_own_hands(&self, word: u64) -> bool {
        match self.part {
            Part::Row => word & !BUSY == self.word & !BUSY,
            // A deleted and again inserted record counts as there; the thread that locked it has seen its stamp.
            Part::Existence => {
                word & ABSENT == self.word & ABSENT && (word | BUSY == DEAD) == (self.word | BUSY == DEAD)
            }
        }
    }

    /// The word of a record of which only the existence was read, if it was there and is there, unlocked. One
    /// that was absent has the same word as long as it is.
    fn word_if_there(&self) -> Option<u64> {
        let word = self.look().1;
        (self.part == Part::Existence && (word | self.word) & (ABSENT | BUSY) == 0).then_some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::word::Stamp;

    /// A record with this word.
    struct Made(RecordPointer);

    impl Made {
        fn new(word: u64) -> Made {
            Made(RecordPointer::allocate(word, b"key", 0))
        }

        fn record(&self) -> Record<'_> {
            // SAFETY: it is freed when `self` is dropped.
            unsafe { self.0.as_record() }
        }

        fn set(&self, word: u64) {
            self.record().word().store(word, Ordering::Relaxed);
        }
    }

    impl Drop for Made {
        fn drop(&mut self) {
            // SAFETY: made by `new`, and no thread uses it any more.
            unsafe { self.0.free() }
        }
    }

    fn word(sequence: u64) -> u64 {
        Stamp::new(5, sequence).present()
    }

    fn holds(reads: &ReadSet, own: impl Fn(Record<'_>) -> bool) -> bool {
        reads.still_holds(own, &Cell::default())
    }

    #[test]
    fn a_row_holds_while_its_word_is_the_same_and_busy_by_nobody_else() {
        let (made, mut reads) = (Made::new(word(1)), ReadSet::default());
        reads.note(made.record(), word(1), Part::Row);
        assert!(holds(&reads, |_| false));
        made.set(word(1) | BUSY);
        assert!(!holds(&reads, |_| false), "a rival has it");
        assert!(holds(&reads, |record| record == made.record()), "its own");
        made.set(word(2));
        assert!(!holds(&reads, |_| true));
        assert_eq!(reads.first_changed(), Some((made.0, Part::Row)));
        reads.clear();
        assert!(reads.first_changed().is_none());
        assert!(holds(&reads, |_| false));
    }

    #[test]
    fn existence_holds_through_updates_and_through_no_delete() {
        let (made, mut reads) = (Made::new(word(1)), ReadSet::default());
        reads.note(made.record(), word(1), Part::Existence);
        made.set(word(7));
        assert!(holds(&reads, |_| false));
        made.set(Stamp::new(5, 8).absent());
        assert!(!holds(&reads, |_| false));
        made.set(DEAD);
        assert!(!holds(&reads, |_| true));
        made.set(word(9));
        assert!(holds(&reads, |_| false), "deleted and put in again: it is there");
    }

    /// It was put in and deleted since: at the moment at which everything else was as it was read, it may have been there.
    #[test]
    fn absence_holds_only_while_nothing_has_come_and_gone() {
        let absent = |sequence| Stamp::new(5, sequence).absent();
        let (made, mut reads) = (Made::new(absent(1)), ReadSet::default());
        reads.note(made.record(), absent(1), Part::Existence);
        assert!(holds(&reads, |_| false));
        made.set(absent(1) | BUSY);
        assert!(holds(&reads, |record| record == made.record()) && !holds(&reads, |_| false));
        made.set(absent(3));
        assert!(!holds(&reads, |_| false));
        assert!(holds(&reads, |_| true), "in its own hands it cannot have come meanwhile");
    }

    #[test]
    fn existence_is_looked_at_twice_where_others_have_changed_the_record() {
        let (first, second, mut reads) = (Made::new(word(1)), Made::new(word(1)), ReadSet::default());
        reads.note(first.record(), word(1), Part::Existence);
        reads.note(second.record(), word(1), Part::Existence);
        first.set(word(2));
        second.set(word(2));
        assert!(holds(&reads, |_| false));
        let others_change_it = |record: Record<'_>| {
            if record == second.record() {
                first.set(word(3));
            }
            false
        };
        assert!(!holds(&reads, others_change_it), "it may have gone and come back between the looks");
        assert!(holds(&reads, |_| false), "and stands still now");
        second.set(word(4) | BUSY);
        assert!(!holds(&reads, |_| false));
    }

    #[test]
    fn a_locked_record_is_waited_for_and_a_changed_one_is_not() {
        let (existence, row, mut reads) = (Made::new(word(1)), Made::new(word(1)), ReadSet::default());
        reads.note(existence.record(), word(1), Part::Existence);
        reads.note(row.record(), word(1), Part::Row);
        existence.set(word(1) | BUSY);
        row.set(word(1) | BUSY);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                existence.set(word(2));
                row.set(word(1));
            });
            assert!(reads.wait_for_locked_records());
        });
        assert!(holds(&reads, |_| false), "no thread locks them any more");
        row.set(word(3));
        assert!(!reads.wait_for_locked_records(), "the row has changed");
        row.set(word(1));
        existence.set(Stamp::new(5, 4).absent());
        assert!(!reads.wait_for_locked_records(), "the record was deleted");
        existence.set(DEAD);
        assert!(!reads.wait_for_locked_records());
    }

    /// A record that was there when it was read is there at the validation because another transaction inserted it
    /// again: the result must not be released before that insert is durable.
    #[test]
    fn the_last_writer_of_an_existing_record_counts_as_met() {
        let (made, mut reads, seen) = (Made::new(word(1)), ReadSet::default(), Cell::new(Stamp::new(5, 1)));
        reads.note(made.record(), word(1), Part::Existence);
        assert!(reads.still_holds(|_| false, &seen));
        assert_eq!(seen.get(), Stamp::new(5, 1), "it is as it was");
        let again = Stamp::new(7, 2);
        made.set(again.present());
        assert!(reads.still_holds(|_| false, &seen));
        assert_eq!(seen.get(), again);
        seen.set(Stamp::new(9, 1));
        assert!(reads.still_holds(|_| false, &seen));
        assert_eq!(seen.get(), Stamp::new(9, 1), "it never falls");
    }

    #[test]
    fn rows_of_split_records_hold_in_the_phase_in_which_they_were_read() {
        let mut reads = ReadSet::default();
        assert!(reads.is_of_phase(|| None) && reads.is_of_phase(|| Some(7)), "there were none");
        reads.note_phase(Some(7));
        reads.note_phase(Some(7));
        assert!(
            reads.is_of_phase(|| Some(7)) && !reads.is_of_phase(|| Some(8)) && !reads.is_of_phase(|| None)
        );
        reads.note_phase(Some(8));
        assert!(![None, Some(7), Some(8)].into_iter().any(|now| reads.is_of_phase(|| now)), "of two phases");
        reads.clear();
        reads.note_phase(None);
        assert!(![None, Some(7)].into_iter().any(|now| reads.is_of_phase(|| now)), "between two phases");
    }

    #[test]
    fn what_two_parts_have_read_holds_only_together() {
        let (first, second) = (Made::new(word(1)), Made::new(word(2)));
        let (mut reads, mut others) = (ReadSet::default(), ReadSet::default());
        reads.note(first.record(), word(1), Part::Row);
        others.note(second.record(), word(2), Part::Row);
        others.note_phase(Some(7));
        reads.append(&mut others);
        assert!(others.first_changed().is_none() && others.is_of_phase(|| None));
        assert!(holds(&reads, |_| false) && reads.is_of_phase(|| Some(7)) && !reads.is_of_phase(|| None));
        second.set(word(3));
        assert!(!holds(&reads, |_| false));
    }

    #[test]
    fn the_last_word_is_only_of_the_record_that_was_noted_last() {
        let (first, second, mut reads) = (Made::new(word(1)), Made::new(word(2)), ReadSet::default());
        assert_eq!(reads.word_noted_last(first.record()), None);
        reads.note(first.record(), word(1), Part::Row);
        assert_eq!(reads.word_noted_last(first.record()), Some(word(1)));
        assert_eq!(reads.word_noted_last(second.record()), None);
        reads.note(second.record(), word(2), Part::Existence);
        assert_eq!(reads.word_noted_last(first.record()), None);
        assert_eq!(reads.word_noted_last(second.record()), Some(word(2)));
    }

    #[test]
    fn a_node_holds_through_own_inserts_only() {
        let (node, mut reads) = (AtomicU64::new(10), ReadSet::default());
        reads.note_node(NodeVersion::new(&node, 10));
        assert!(holds(&reads, |_| false));
        for own in [11, 12] {
            node.store(own, Ordering::Relaxed);
            assert!(!holds(&reads, |_| false));
            reads.inserted(own - 1, NodeVersion::new(&node, own));
            assert!(holds(&reads, |_| false), "what it has put in itself");
        }
        node.store(13, Ordering::Relaxed);
        assert!(!holds(&reads, |_| true), "what a rival has put in");
    }
    #[test]
    fn a_leaf_that_the_call_has_split_holds_while_both_halves_do() {
        let [whole, left, right] = [const { AtomicU64::new(0) }; 3];
        let mut reads = ReadSet::default();
        reads.note_node(NodeVersion::new(&whole, 4));
        whole.store(6, Ordering::Relaxed);
        assert!(!holds(&reads, |_| false));
        let halves = [NodeVersion::new(&left, 0), NodeVersion::new(&right, 0)];
        reads.split(LeafSplit { whole: NodeVersion::new(&whole, 4), halves });
        assert!(holds(&reads, |_| false));
        right.store(4, Ordering::Relaxed);
        assert!(!holds(&reads, |_| false), "a rival has changed a half");
        reads.inserted(0, NodeVersion::new(&right, 4));
        assert!(holds(&reads, |_| false), "it was the call itself");
        left.store(4, Ordering::Relaxed);
        assert!(!holds(&reads, |_| false));
    }

    #[test]
    fn a_version_that_was_read_after_a_split_says_nothing_about_the_leaf_before_it() {
        let [whole, left, right] = [const { AtomicU64::new(0) }; 3];
        let mut reads = ReadSet::default();
        let halves = [NodeVersion::new(&left, 0), NodeVersion::new(&right, 0)];
        reads.split(LeafSplit { whole: NodeVersion::new(&whole, 4), halves });
        whole.store(6, Ordering::Relaxed);
        reads.note_node(NodeVersion::new(&left, 0));
        right.store(4, Ordering::Relaxed);
        assert!(holds(&reads, |_| false), "only the left half was read");
        reads.note_node(NodeVersion::new(&whole, 0));
        assert!(!holds(&reads, |_| false), "what was read of the whole was older than what has been split");
    }
}
