//! Keys that cut a range into pieces, for threads that scan it beside each other, and about how many records there are.
//!
//! Any keys would do: they only say how evenly the pieces are filled, and the number is an estimate. So nothing that is read here is validated. What
//! is followed are slots, by the argument of the folder's `mod.rs`: an address found there was in the tree when the
//! thread was pinned already.

use std::ops::Bound;

use crossbeam_epoch::Guard;

use super::node::Node;
use super::{OrderedIndex, retry};
use crate::types::key::EncodedKey;

/// Oversampling factor: pieces collected for each one wanted, so that they can be merged evenly.
const FINER: usize = 8;

impl<const FAN_OUT: usize> OrderedIndex<FAN_OUT> {
    /// An estimate of the number of records: as many as if every node had as many entries as the one in the middle of its
    /// level.
    pub(crate) fn estimated_len(&self, guard: &Guard) -> u64 {
        retry(|| {
            let mut node = self.root(guard)?.node;
            let mut len = node.count() as u64;
            while !node.is_leaf() {
                node = node.child(node.slot(node.count() / 2)?);
                len *= node.count().max(1) as u64;
            }
            Ok(len)
        })
    }

    /// Keys inside of a range, ascending, between which lie about the same numbers of records: where the nodes of the
    /// highest level begin that cuts the range finely enough for this many pieces.
    pub(crate) fn separators(
        &self,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        pieces: usize,
        guard: &Guard,
    ) -> Vec<EncodedKey> {
        let Ok(root) = self.root(guard) else { return Vec::new() };
        let mut nodes: Vec<&Node<FAN_OUT>> = vec![root.node];
        while nodes.len() < pieces.saturating_mul(FINER) && nodes.iter().all(|node| !node.is_leaf()) {
            let below = nodes.iter().flat_map(|node| {
                (0..node.count()).filter_map(|index| Some(node.child(node.slot(index).ok()?)))
            });
            let below: Vec<_> = below.filter(|node| meets(node, lower, upper)).collect();
            if below.is_empty() {
                break;
            }
            nodes = below;
        }
        let inside = |key: &&[u8]| {
            let is_behind = match lower {
                Bound::Included(lower) | Bound::Excluded(lower) => *key > lower,
                Bound::Unbounded => !key.is_empty(),
            };
            is_behind && !ends_before(upper, key)
        };
        let mut keys: Vec<&[u8]> = nodes.iter().map(|node| &node.low()[..]).filter(inside).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.into_iter().map(EncodedKey::from).collect()
    }
}

/// Returns true if a range ends before this key, or at it.
fn ends_before(upper: Bound<&[u8]>, key: &[u8]) -> bool {
    match upper {
        Bound::Included(upper) | Bound::Excluded(upper) => key >= upper,
        Bound::Unbounded => false,
    }
}

/// Returns true if a node's range has keys in common with another range.
fn meets<const FAN_OUT: usize>(node: &Node<FAN_OUT>, lower: Bound<&[u8]>, upper: Bound<&[u8]>) -> bool {
    let begins_in_time = !node.low().is_empty() && ends_before(upper, node.low());
    let ends_in_time = match (node.high(), lower) {
        (Some(high), Bound::Included(lower) | Bound::Excluded(lower)) => &high[..] > lower,
        _ => true,
    };
    !begins_in_time && ends_in_time
}
