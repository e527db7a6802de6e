//! Going down the tree without writing to it.
//!
//! Invariants: a node is visited only while the thread is pinned, and with a version at which the node was
//! not obsolete, hence in the tree; and the node's range holds what the descent looks for, since the parent was
//! validated after its slot was read and the range of a node never changes.

use crossbeam_epoch::Guard;

use super::latch::Restart;
use super::locked::Locked;
use super::node::{Node, Target};
use super::{DEFAULT_FAN_OUT, OrderedIndex};
use crate::base::atomics::Ordering;

/// A node, and the version that reads of it have to be validated against.
pub(super) struct Visit<'g, const FAN_OUT: usize> {
    pub(super) node: &'g Node<FAN_OUT>,
    pub(super) version: u64,
}

impl<const FAN_OUT: usize> Clone for Visit<'_, FAN_OUT> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<const FAN_OUT: usize> Copy for Visit<'_, FAN_OUT> {}

/// The leaf of one index that a thread reached last: as long as it is pinned, a thread that looks for a neighbor may
/// begin there. The leaf's range never changes, and its version tells whether it is current (the argument is in `mod.rs`).
pub(crate) struct Near<'g, const FAN_OUT: usize = DEFAULT_FAN_OUT>(
    Option<(&'g OrderedIndex<FAN_OUT>, &'g Node<FAN_OUT>)>,
);

impl<const FAN_OUT: usize> Near<'_, FAN_OUT> {
    /// The start of a thread that has not reached any leaf.
    pub(crate) const fn nowhere() -> Self {
        Near(None)
    }
}

impl<const FAN_OUT: usize> Clone for Near<'_, FAN_OUT> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<const FAN_OUT: usize> Copy for Near<'_, FAN_OUT> {}

impl<'g, const FAN_OUT: usize> Near<'g, FAN_OUT> {
    /// Notes that the thread has reached this leaf.
    #[inline]
    pub(super) fn set(&mut self, index: &'g OrderedIndex<FAN_OUT>, leaf: &'g Node<FAN_OUT>) {
        self.0 = Some((index, leaf));
    }

    /// Visits the leaf, if it is one of this index, holds the key, and is current.
    #[inline]
    pub(super) fn visit(&self, index: &OrderedIndex<FAN_OUT>, key: &[u8]) -> Option<Visit<'g, FAN_OUT>> {
        let (of, leaf) = self.0?;
        if !std::ptr::eq(of, index) || !leaf.holds(key) {
            return None;
        }
        Visit::begin(leaf).ok()
    }
}

/// The slot of a parent that led to a child.
#[derive(Clone, Copy)]
pub(super) struct Edge<'g, const FAN_OUT: usize> {
    pub(super) parent: Visit<'g, FAN_OUT>,
    pub(super) index: usize,
}

impl<'g, const FAN_OUT: usize> Visit<'g, FAN_OUT> {
    fn begin(node: &'g Node<FAN_OUT>) -> Result<Self, Restart> {
        Ok(Visit { node, version: node.latch.read()? })
    }

    /// Returns `Ok` if all that was read of the node since the visit began belongs together.
    pub(super) fn validate(&self) -> Result<(), Restart> {
        self.node.latch.validate(self.version)
    }

    /// Locks the node if it is still as it was when the visit began.
    pub(super) fn lock(&self) -> Result<Locked<'g, FAN_OUT>, Restart> {
        Locked::lock(self.node, self.version)
    }

    pub(super) fn is_full(&self) -> bool {
        self.node.count() >= FAN_OUT
    }

    /// Visits the child at `index`.
    pub(super) fn child(&self, index: usize) -> Result<Self, Restart> {
        let bits = self.node.slot(index)?;
        // The child is not waited for unless it is the right one.
        self.validate()?;
        let child = self.node.child(bits);
        child.prefetch();
        Visit::begin(child)
    }

    /// Visits the child that leads to `target`.
    pub(super) fn descend(self, target: Target<'_>) -> Result<(Edge<'g, FAN_OUT>, Self), Restart> {
        let index = self.node.child_index(target)?;
        Ok((Edge { parent: self, index }, self.child(index)?))
    }
}

impl<const FAN_OUT: usize> OrderedIndex<FAN_OUT> {
    /// Visits the root.
    pub(super) fn root<'g>(&'g self, _pinned: &'g Guard) -> Result<Visit<'g, FAN_OUT>, Restart> {
        // Acquire: pairs with the release stores of the root in `restructure.rs` (and the tree's making).
        let bits = self.root.load(Ordering::Acquire);
        // SAFETY: `root` holds what `into_bits` gave; a root is retired after another has taken its place, and
        // the guard shows that this thread was pinned before it read the address.
        Visit::begin(unsafe { Node::at(bits) })
    }

    /// Visits the leaf that holds `target`.
    pub(super) fn leaf<'g>(
        &'g self,
        target: Target<'_>,
        guard: &'g Guard,
    ) -> Result<Visit<'g, FAN_OUT>, Restart> {
        let mut visit = self.root(guard)?;
        while !visit.node.is_leaf() {
            (_, visit) = visit.descend(target)?;
        }
        Ok(visit)
    }
}
