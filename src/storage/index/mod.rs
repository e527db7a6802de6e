//! The two indexes from a key to a record: hash for points, ordered for ranges and points.
//!
//! Both answer a miss with a version, so that a protocol can tell later whether it is still a miss.

pub(crate) mod hash;
pub(crate) mod ordered;
mod pool;

use crate::base::atomics::{AtomicU64, Ordering, fence};
use crate::storage::record::Record;

/// The version of the index node (hash bucket or tree leaf) in which a key or a range was looked for.
///
/// A miss, or the set of records found in a range, still holds while the node's version word is what it was:
/// every insert and removal of an entry, every split and every resize changes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeVersion<'g> {
    word: &'g AtomicU64,
    observed: u64,
}

impl<'g> NodeVersion<'g> {
    /// A version that was `observed` in `word`.
    pub(crate) fn new(word: &'g AtomicU64, observed: u64) -> Self {
        NodeVersion { word, observed }
    }

    /// Returns true if the node is as it was when this version was taken.
    ///
    /// The fence keeps the caller's earlier reads before the look at the word; it pairs with the release with
    /// which a writer of the node leaves it.
    pub(crate) fn is_current(&self) -> bool {
        fence(Ordering::Acquire);
        self.word.load(Ordering::Acquire) == self.observed
    }

    /// The version word, as an identity of the node.
    pub(crate) fn word(&self) -> &'g AtomicU64 {
        self.word
    }

    /// The version word that was observed.
    pub(crate) fn observed(&self) -> u64 {
        self.observed
    }
}

/// A leaf that was split: what it held as of one version, its halves held as of theirs. So a node set that contains
/// the whole contains both halves, whichever thread split it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeafSplit<'g> {
    pub(crate) whole: NodeVersion<'g>,
    pub(crate) halves: [NodeVersion<'g>; 2],
}

/// The answer to a point lookup.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Lookup<'g> {
    /// The index holds a record with this key (it may be absent: see its word).
    Found(Record<'g>),
    /// The index holds no such key, as of this version.
    Missing(NodeVersion<'g>),
}

/// The outcome of `get_or_insert`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Insertion<'g> {
    /// The key was there already.
    Found(Record<'g>),
    /// The new record was put in; the node's version went from `before` to what `after` holds.
    Inserted { record: Record<'g>, before: u64, after: NodeVersion<'g> },
}
