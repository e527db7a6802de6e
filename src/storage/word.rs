//! The record word: the commit that wrote a record last, and a flag for a write in progress.
//!
//! ```text
//! 63            24 23          4   3       2     1 0
//! ┌───────────────┬─────────────┬──────┬────────┬─────┐
//! │ epoch, 40 bits│ sequence, 20│ busy │ absent │ own │
//! └───────────────┴─────────────┴──────┴────────┴─────┘
//! ```
//!
//! `busy`: an install is under way; the row must not be believed. `absent`: the record is not there (deleted, or an
//! insert's placeholder). `own`: two bits for the protocol in force, zero when it is quiescent. All words of a record
//! rise strictly in (epoch, sequence), whichever protocol made them. [`DEAD`] is the one word that no stamp can be:
//! the record is being taken out of the indexes, and a thread that meets it looks its key up again.

/// The number of bits of a word that hold the epoch.
pub(crate) const EPOCH_BITS: u32 = 40;
/// The number of bits of a word that hold the sequence number within the epoch.
pub(crate) const SEQUENCE_BITS: u32 = 20;
/// Set while the row behind the word is being written.
pub(crate) const BUSY: u64 = 1 << 3;
/// Set while the record is not there.
pub(crate) const ABSENT: u64 = 1 << 2;
/// The bits that belong to the protocol in force.
pub(crate) const PROTOCOL: u64 = 0b11;
/// One of them, under `phased`: columns of the record are split. It is set and cleared while the gate is closed.
pub(crate) const SPLIT: u64 = 1;
/// The distance of the stamp from the low end.
const STAMP_SHIFT: u32 = 4;
/// The word of a record that leaves its indexes: busy and absent, with a stamp that is never issued.
pub(crate) const DEAD: u64 = !PROTOCOL;
/// The word of a placeholder that has not been filled yet: absent, and older than every commit.
pub(crate) const PLACEHOLDER: u64 = ABSENT;

const _: () = assert!(EPOCH_BITS + SEQUENCE_BITS + STAMP_SHIFT == 64);
const _: () = assert!(BUSY | ABSENT | PROTOCOL == (1 << STAMP_SHIFT) - 1);
const _: () = assert!(BUSY & ABSENT == 0 && (BUSY | ABSENT) & PROTOCOL == 0);
const _: () = assert!(DEAD & BUSY != 0 && DEAD & ABSENT != 0 && DEAD & PROTOCOL == 0);

/// A commit timestamp: epoch and sequence, as one number that compares as they do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Stamp(u64);

impl Stamp {
    /// The stamp before all others: that of placeholders, and of nothing seen.
    pub(crate) const ZERO: Stamp = Stamp(0);
    const LAST_SEQUENCE: u64 = (1 << SEQUENCE_BITS) - 1;

    /// A stamp of this epoch and sequence number.
    pub(crate) fn new(epoch: u64, sequence: u64) -> Stamp {
        debug_assert!(epoch < 1 << EPOCH_BITS && sequence <= Self::LAST_SEQUENCE);
        Stamp(epoch << SEQUENCE_BITS | sequence)
    }

    /// The stamp in a record word.
    pub(crate) fn of(word: u64) -> Stamp {
        Stamp(word >> STAMP_SHIFT)
    }

    /// The stamp as a number, for the log.
    pub(crate) fn to_bits(self) -> u64 {
        self.0
    }

    /// The stamp that `to_bits` gave.
    pub(crate) fn from_bits(bits: u64) -> Stamp {
        Stamp(bits & (u64::MAX >> STAMP_SHIFT))
    }

    /// The epoch of the commit.
    pub(crate) fn epoch(self) -> u64 {
        self.0 >> SEQUENCE_BITS
    }

    /// The word of a present record that this commit wrote last.
    pub(crate) fn present(self) -> u64 {
        self.0 << STAMP_SHIFT
    }

    /// The word of a record that this commit deleted.
    pub(crate) fn absent(self) -> u64 {
        self.0 << STAMP_SHIFT | ABSENT
    }

    /// The one function that makes commit timestamps, for every protocol: the smallest stamp above `seen` (the
    /// highest that the commit read or overwrites, and its maker's own last) whose epoch is at least `epoch`, the
    /// global epoch. `None` when the epoch's sequence numbers are used up, but for the last two, which are kept for
    /// [`of_schema_change`](Self::of_schema_change) and [`of_merge`](Self::of_merge): the caller waits for the next epoch. `None`, too, where `seen` is of a later epoch:
    /// nothing that was overwritten is, because the global epoch was read while that was held; what was met later, in
    /// the validation, may be.
    #[inline]
    pub(crate) fn next(seen: Stamp, epoch: u64) -> Option<Stamp> {
        let before_first = Stamp::new(epoch, 0);
        if seen < before_first {
            return Some(Stamp::new(epoch, 1));
        }
        (seen.0 - before_first.0 < Self::LAST_SEQUENCE - 2).then_some(Stamp(seen.0 + 1))
    }

    /// The stamp of a schema change in this epoch: above those of all commits of the epoch, also of those that it has not met,
    /// so that whatever reads the log in the order of stamps finds no row of the old definition behind it. `None` where `seen`
    /// is of a later epoch, or of another schema change. The caller ends the commits of the epoch.
    pub(crate) fn of_schema_change(seen: Stamp, epoch: u64) -> Option<Stamp> {
        let stamp = Stamp::new(epoch, Self::LAST_SEQUENCE - 1);
        (seen < stamp).then_some(stamp)
    }

    /// The stamp of a merge of slices, in this epoch or at its end: above `seen`, the highest stamp of what it merges.
    /// There always is one, even where the epoch cannot end and its commits have used up all others, because no commit
    /// takes an epoch's last stamp, and an epoch has one merge at most.
    pub(crate) fn of_merge(seen: Stamp, epoch: u64) -> Stamp {
        let floor = seen.max(Stamp::new(epoch, 0));
        debug_assert!(floor.epoch() == epoch && floor.0 & Self::LAST_SEQUENCE < Self::LAST_SEQUENCE);
        Stamp(floor.0 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_keeps_epoch_sequence_and_flags_apart() {
        let stamp = Stamp::new((1 << EPOCH_BITS) - 2, 77);
        assert_eq!(Stamp::of(stamp.present()), stamp);
        assert_eq!(Stamp::of(stamp.absent() | BUSY | PROTOCOL), stamp);
        assert_eq!(stamp.present() & (BUSY | ABSENT | PROTOCOL), 0);
        assert_eq!(stamp.absent() & (BUSY | ABSENT | PROTOCOL), ABSENT);
        assert_eq!(Stamp::from_bits(stamp.to_bits()), stamp);
        assert_eq!(stamp.epoch(), (1 << EPOCH_BITS) - 2);
    }

    #[test]
    fn stamps_rise_within_an_epoch_and_jump_to_a_new_one() {
        let first = Stamp::next(Stamp::ZERO, 5).expect("room");
        assert_eq!(first, Stamp::new(5, 1));
        let second = Stamp::next(first, 5).expect("room");
        assert!(second > first && second.epoch() == 5);
        assert_eq!(Stamp::next(second, 9), Some(Stamp::new(9, 1)));
    }

    #[test]
    fn a_used_up_epoch_gives_no_stamp_instead_of_one_of_the_next() {
        for last in [(1 << SEQUENCE_BITS) - 2, (1 << SEQUENCE_BITS) - 1].map(|last| Stamp::new(5, last)) {
            assert_eq!(Stamp::next(last, 5), None);
            assert_eq!(Stamp::next(last, 6), Some(Stamp::new(6, 1)));
        }
    }

    #[test]
    fn no_stamp_is_of_an_earlier_epoch_than_what_was_seen() {
        assert_eq!(Stamp::next(Stamp::new(6, 1), 5), None);
        assert_eq!(Stamp::next(Stamp::new(5 + (1 << SEQUENCE_BITS), 0), 5), None);
    }

    #[test]
    fn an_epoch_that_commits_have_used_up_has_stamps_left_for_a_schema_change_and_a_merge() {
        let mut last = Stamp::new(5, (1 << SEQUENCE_BITS) - 4);
        while let Some(next) = Stamp::next(last, 5) {
            last = next;
        }
        let change = Stamp::of_schema_change(last, 5).expect("one is left");
        assert!(change > last && Stamp::next(change, 5).is_none());
        assert_eq!(Stamp::of_schema_change(change, 5), None);
        assert_eq!(Stamp::of_schema_change(Stamp::new(6, 1), 5), None);
        assert_eq!(Stamp::of_merge(change, 5), Stamp::new(5, (1 << SEQUENCE_BITS) - 1));
        assert_eq!(Stamp::of_merge(last, 6), Stamp::new(6, 1));
        assert_eq!(Stamp::of_merge(Stamp::ZERO, 5), Stamp::new(5, 1));
    }

    #[test]
    fn a_placeholder_is_older_than_every_commit_and_dead_is_no_commit() {
        assert_eq!(Stamp::of(PLACEHOLDER), Stamp::ZERO);
        assert!(Stamp::new((1 << EPOCH_BITS) - 2, (1 << SEQUENCE_BITS) - 1).absent() < DEAD);
    }
}
