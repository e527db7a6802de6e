//! Puts the log's blocks together to groups, as they arrive.
//!
//! Invariants: a group is given out only if all its blocks came, each as it was written, in the order in which
//! they were written; after a block that is out of place nothing more is.

use crate::durability::{BlockHeader, Chain, GroupStart, Uuid, header_checksum};
use crate::error::{Error, Result};

/// A position in the log, for a reader that gets one block after the other.
pub(crate) struct BlockChain {
    uuid: Uuid,
    chain: Chain,
    /// The part of the present group's payload that has arrived.
    payload: Vec<u8>,
}

impl BlockChain {
    /// The first block to come is the one there.
    pub(crate) fn new(uuid: Uuid, start: GroupStart) -> BlockChain {
        BlockChain { uuid, chain: Chain::before(start.sequence), payload: Vec::new() }
    }

    /// Takes the next block; epoch and payload of the group whose last one it is.
    ///
    /// # Errors
    /// It is not the next block of this database's log.
    pub(crate) fn take(&mut self, block: &[u8]) -> Result<Option<(u64, Vec<u8>)>> {
        let out_of_place = |detail: &str| Error::Malformed { what: "log", detail: detail.to_string() };
        let header = BlockHeader::decode(block, self.uuid)
            .ok_or_else(|| out_of_place("a block has no header of this database's"))?;
        let payload = &block[header.bytes()..];
        if !header.vouches_for(payload, self.uuid) {
            return Err(out_of_place("a block's checksum does not fit its content"));
        }
        if !self.chain.may_continue_with(&header) {
            return Err(out_of_place("a block came out of its order"));
        }
        self.chain.pass(&header, header_checksum(block));
        self.payload.extend_from_slice(payload);
        Ok(header.last.then(|| (header.epoch, std::mem::take(&mut self.payload))))
    }

    /// Returns true if no group is only partly there.
    pub(crate) fn is_between_groups(&self) -> bool {
        self.chain.is_between_groups()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durability::{EPOCH_MAX, checksum};

    const UUID: Uuid = Uuid([3; 16]);
    const START: GroupStart = GroupStart { epoch: 4, segment: 2, offset: 8192, sequence: 11 };

    /// A block, with its place in the chain, its group's epoch, its place in the group, and whether it is the last.
    fn block(sequence: u64, epoch: u64, index: u32, last: bool) -> Vec<u8> {
        let payload = format!("{sequence},").into_bytes();
        let (payload_checksum, payload_bytes) = (checksum(UUID, &payload), payload.len() as u32);
        let header = BlockHeader {
            payload_checksum,
            payload_bytes,
            sequence,
            epoch,
            segment: 2,
            index,
            last,
            term: 1,
            ..BlockHeader::default()
        };
        [&header.encode(UUID)[..], &payload].concat()
    }

    #[test]
    fn groups_come_out_when_their_last_block_is_there() {
        let mut chain = BlockChain::new(UUID, START);
        assert_eq!(chain.take(&block(11, 4, 0, true)), Ok(Some((4, b"11,".to_vec()))));
        assert_eq!(chain.take(&block(12, 9, 0, false)), Ok(None));
        assert!(!chain.is_between_groups());
        assert_eq!(chain.take(&block(13, 9, 1, true)), Ok(Some((9, b"12,13,".to_vec()))));
        assert!(chain.is_between_groups());
    }

    #[test]
    fn what_is_out_of_place_or_damaged_is_refused() {
        let begun = || {
            let mut chain = BlockChain::new(UUID, START);
            chain.take(&block(11, 4, 0, true)).unwrap();
            chain.take(&block(12, 5, 0, false)).unwrap();
            chain
        };
        assert_eq!(begun().take(&block(13, 5, 1, true)), Ok(Some((5, b"12,13,".to_vec()))));
        for wrong in [
            block(14, 5, 1, true),
            block(12, 5, 1, true),
            block(13, 6, 1, true),
            block(13, 5, 0, true),
            block(13, 5, 2, true),
            vec![],
            vec![0; 100],
        ] {
            assert!(matches!(begun().take(&wrong), Err(Error::Malformed { .. })));
        }
        let good = block(13, 5, 1, true);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(begun().take(&bad).is_err(), "bit {bit}");
        }
        for length in 0..good.len() {
            assert!(begun().take(&good[..length]).is_err(), "length {length}");
        }
        let mut fresh = BlockChain::new(UUID, START);
        fresh.take(&block(11, 4, 0, true)).unwrap();
        assert!(fresh.take(&block(12, 4, 0, true)).is_err(), "epochs rise from group to group");
        assert!(BlockChain::new(UUID, START).take(&block(11, EPOCH_MAX + 1, 0, true)).is_err());
    }
}
