//! Index from epochs to positions in the log, so that a checkpoint can say from where the log is to be read, and which
//! segments are obsolete.
//!
//! One place for each segment is enough: the first group that begins in it. Invariants: behind a place there
//! are only groups of its epoch and later ones, and before it only earlier ones.

use std::collections::VecDeque;

use super::PAGE_BYTES;

/// The position at which a group begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupStart {
    /// All groups before this place are of earlier epochs.
    pub(crate) epoch: u64,
    /// The number of the segment.
    pub(crate) segment: u32,
    /// The offset in that segment.
    pub(crate) offset: u64,
    /// The sequence number of the block there.
    pub(crate) sequence: u64,
}

impl GroupStart {
    /// The beginning of a log from which nothing was removed.
    pub(crate) const FIRST: GroupStart = GroupStart { epoch: 0, segment: 1, offset: PAGE_BYTES, sequence: 1 };
}

/// The first group of each segment; of the first one, where reading has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupStarts {
    starts: VecDeque<GroupStart>,
    /// The epoch of the last group; 0: there is none.
    last_epoch: u64,
    /// Bytes of all groups that were read and written.
    bytes: u64,
}

impl GroupStarts {
    /// Reading begins here.
    pub(super) fn new(first: GroupStart) -> GroupStarts {
        GroupStarts { starts: VecDeque::from([first]), last_epoch: 0, bytes: 0 }
    }

    /// Notes a group of this many bytes; it is durable.
    pub(super) fn note(&mut self, start: GroupStart, bytes: u64) {
        if self.starts.back().is_none_or(|last| last.segment != start.segment) {
            self.starts.push_back(start);
        }
        self.last_epoch = start.epoch;
        self.bytes += bytes;
    }

    /// The last place that has all groups of this epoch and later ones behind it.
    pub(super) fn before(&self, epoch: u64) -> GroupStart {
        let last = self.starts.iter().rev().find(|start| start.epoch <= epoch);
        // There is always the first; `drop_before` keeps it.
        last.or(self.starts.front()).copied().unwrap_or(GroupStart::FIRST)
    }

    /// The first place.
    pub(super) fn first(&self) -> GroupStart {
        // There is always one.
        self.starts.front().copied().unwrap_or(GroupStart::FIRST)
    }

    /// A place that has the last group behind it, and the one before that, if this is known.
    pub(super) fn before_last_two(&self) -> GroupStart {
        // The last group may be the first one that begins in its segment: then the other one begins in an earlier segment.
        let at = self.starts.len().saturating_sub(2);
        self.starts.get(at).copied().unwrap_or(GroupStart::FIRST)
    }

    /// Sets the number of bytes of all groups that count.
    pub(super) fn set_bytes(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// Notes the first group of a segment that lies before all others.
    pub(super) fn note_before(&mut self, start: GroupStart) {
        self.starts.push_front(start);
    }

    /// Forgets what lies in segments before this one.
    pub(super) fn drop_before(&mut self, segment: u32) {
        while self.starts.len() > 1 && self.starts[0].segment < segment {
            self.starts.pop_front();
        }
    }

    /// The epoch of the last group; 0: there is none.
    pub(super) fn last_epoch(&self) -> u64 {
        self.last_epoch
    }

    /// Bytes of all groups that were read and written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(epoch: u64, segment: u32) -> GroupStart {
        GroupStart { epoch, segment, offset: PAGE_BYTES * epoch, sequence: epoch * 10 }
    }

    #[test]
    fn each_segments_first_group_is_kept() {
        let mut starts = GroupStarts::new(GroupStart::FIRST);
        assert_eq!(
            (starts.before(0), starts.before(9), starts.last_epoch()),
            (GroupStart::FIRST, GroupStart::FIRST, 0)
        );
        for (epoch, segment) in [(1, 1), (3, 1), (4, 2), (5, 2), (9, 5)] {
            starts.note(start(epoch, segment), 100);
        }
        for (epoch, expected) in [(1, 0), (3, 0), (4, 4), (5, 4), (8, 4), (9, 9), (100, 9)] {
            assert_eq!(starts.before(epoch).epoch, expected, "before {epoch}");
        }
        assert_eq!((starts.last_epoch(), starts.bytes()), (9, 500));
    }

    #[test]
    fn earlier_segments_can_be_noted_later() {
        let mut starts = GroupStarts::new(start(7, 3));
        assert_eq!(starts.before(4), start(7, 3), "nothing earlier is known");
        starts.note_before(start(4, 2));
        assert_eq!(
            (starts.before(4), starts.before(6), starts.before(7)),
            (start(4, 2), start(4, 2), start(7, 3))
        );
        assert_eq!(starts.first(), start(4, 2));
    }

    #[test]
    fn the_last_two_groups_are_behind_a_place() {
        let mut starts = GroupStarts::new(GroupStart::FIRST);
        assert_eq!(starts.before_last_two(), GroupStart::FIRST);
        for (epoch, segment, place) in [(1, 1, 0), (3, 2, 0), (4, 2, 0), (5, 4, 3), (6, 4, 3)] {
            starts.note(start(epoch, segment), 100);
            assert_eq!(starts.before_last_two().epoch, place, "behind {epoch}");
        }
    }

    #[test]
    fn what_was_removed_is_forgotten_and_the_last_place_stays() {
        let mut starts = GroupStarts::new(GroupStart::FIRST);
        (2..6).for_each(|number| starts.note(start(u64::from(number), number), 1));
        starts.drop_before(4);
        assert_eq!(starts.before(5), start(5, 5));
        assert_eq!(starts.before(3), start(4, 4), "nothing earlier is known");
        starts.drop_before(100);
        assert_eq!(starts.before(1), start(5, 5));
    }
}
