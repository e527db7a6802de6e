//! The chain that the log's blocks form: which block may follow the one before.
//!
//! A block with a correct checksum was written by this database's engine; the chain says that it was written right behind
//! its predecessor. Invariants: sequence numbers rise by one; epochs rise from group to group; terms and times never go
//! back; each block of format 3 has the checksum of the header before it, wherever that is known. So a block that a fenced
//! writer left, or a segment of another history of the same database, does not pass for the next one.

use super::EPOCH_MAX;
use super::block::BlockHeader;
use super::position::LogPosition;

/// A place in the chain, right behind a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    /// The next block's sequence number.
    next_sequence: u64,
    /// The next block's place in its group.
    index: u32,
    /// Epoch, term and time of the last block's group; 0 before the first one.
    epoch: u64,
    term: u64,
    time: u64,
    /// The checksum of the last block's header; 0: not known.
    checksum: u32,
}

impl Chain {
    /// Right before the block of this sequence number, which begins a group. What is before it is not known.
    pub(crate) fn before(sequence: u64) -> Chain {
        Chain { next_sequence: sequence, ..Chain::default() }
    }

    /// Returns true if a block with this header may be the next one.
    pub(crate) fn may_continue_with(&self, header: &BlockHeader) -> bool {
        let of_group = match self.index {
            0 => {
                let rises = header.epoch > self.epoch && header.epoch <= EPOCH_MAX;
                rises && header.term >= self.term && header.time >= self.time
            }
            _ => (header.epoch, header.term, header.time) == (self.epoch, self.term, self.time),
        };
        let says_predecessor = header.term > 0 && header.predecessor != 0 && self.checksum != 0;
        header.sequence == self.next_sequence
            && header.index == self.index
            && of_group
            && (!says_predecessor || header.predecessor == self.checksum)
    }

    /// Goes on behind this block, whose header has this checksum.
    pub(crate) fn pass(&mut self, header: &BlockHeader, checksum: u32) {
        *self = Chain {
            next_sequence: header.sequence + 1,
            index: if header.last { 0 } else { header.index + 1 },
            epoch: header.epoch,
            term: header.term,
            time: header.time,
            checksum,
        };
    }

    /// The next block's sequence number.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next_sequence
    }

    /// Returns true if the last block was the last one of its group.
    pub(crate) fn is_between_groups(&self) -> bool {
        self.index == 0
    }

    /// The epoch of the last block's group; 0: there is none.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The position of the last block's group.
    pub(crate) fn position(&self) -> LogPosition {
        LogPosition::new(self.term, self.epoch)
    }

    /// The time of the last block's group in microseconds since 1970; 0: there is none, or it is from before log format 3.
    pub(crate) fn time(&self) -> u64 {
        self.time
    }

    /// The checksum of the last block's header; 0: not known.
    pub(crate) fn checksum(&self) -> u32 {
        self.checksum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> BlockHeader {
        BlockHeader {
            sequence: 12,
            epoch: 8,
            index: 0,
            last: true,
            predecessor: 77,
            term: 3,
            time: 500,
            ..BlockHeader::default()
        }
    }

    /// Behind a group of epoch 7, term 3 and time 500, whose last header has the checksum 77.
    fn chain() -> Chain {
        let mut chain = Chain::before(11);
        let before = BlockHeader { sequence: 11, epoch: 7, predecessor: 0, ..header() };
        assert!(chain.may_continue_with(&before));
        chain.pass(&before, 77);
        chain
    }

    #[test]
    fn the_next_group_is_one_later_and_never_of_an_earlier_term_or_time() {
        for next in [
            header(),
            BlockHeader { epoch: EPOCH_MAX, ..header() },
            BlockHeader { term: 9, ..header() },
            BlockHeader { time: 501, ..header() },
            BlockHeader { predecessor: 0, ..header() },
        ] {
            assert!(chain().may_continue_with(&next), "{next:?}");
        }
        for other in [
            BlockHeader { sequence: 11, ..header() },
            BlockHeader { sequence: 13, ..header() },
            BlockHeader { epoch: 7, ..header() },
            BlockHeader { epoch: EPOCH_MAX + 1, ..header() },
            BlockHeader { term: 2, ..header() },
            BlockHeader { term: 0, time: 0, ..header() },
            BlockHeader { time: 499, ..header() },
            BlockHeader { predecessor: 78, ..header() },
            BlockHeader { index: 1, ..header() },
        ] {
            assert!(!chain().may_continue_with(&other), "{other:?}");
        }
    }

    #[test]
    fn the_blocks_of_a_group_agree() {
        let mut chain = chain();
        let first = BlockHeader { last: false, ..header() };
        chain.pass(&first, 88);
        assert_eq!((chain.next_sequence(), chain.is_between_groups()), (13, false));
        let second = BlockHeader { sequence: 13, index: 1, predecessor: 88, ..header() };
        assert!(chain.may_continue_with(&second));
        for other in [
            BlockHeader { epoch: 9, ..second },
            BlockHeader { term: 4, ..second },
            BlockHeader { time: 501, ..second },
            BlockHeader { index: 0, ..second },
            BlockHeader { predecessor: 77, ..second },
        ] {
            assert!(!chain.may_continue_with(&other), "{other:?}");
        }
        chain.pass(&second, 99);
        assert!(chain.is_between_groups());
        assert_eq!((chain.position(), chain.time(), chain.checksum()), (LogPosition::new(3, 8), 500, 99));
    }

    #[test]
    fn groups_from_before_format_3_come_first() {
        let older = BlockHeader { term: 0, time: 0, predecessor: 0, ..header() };
        let mut chain = Chain::before(12);
        assert!(chain.may_continue_with(&older));
        chain.pass(&older, 55);
        let next = BlockHeader { sequence: 13, epoch: 9, ..header() };
        assert!(chain.may_continue_with(&BlockHeader { predecessor: 55, ..next }));
        assert!(!chain.may_continue_with(&next), "its predecessor is another block");
        assert!(chain.may_continue_with(&BlockHeader { sequence: 13, epoch: 9, ..older }));
    }
}
