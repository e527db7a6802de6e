//! Splits and merges: the replacement of nodes that are too full or too thin.
//!
//! Invariants: nodes are never split or merged in place. One or two neighbors are locked together with
//! their parent, new nodes with the same entries are made, the parent is led to these, and the old ones become
//! obsolete. The new ranges put together are the old ranges put together. Locks are tried, never waited for.

use crossbeam_epoch::Guard;

use super::OrderedIndex;
use super::descent::{Edge, Visit};
use super::latch::{NEW, Restart};
use super::locked::Locked;
use super::node::{Entry, Fence, Node, Target, common_prefix, head_of};
use crate::base::atomics::Ordering;
use crate::storage::index::LeafSplit;

/// The two parts of what was divided.
type Halves<const FAN_OUT: usize> = (Node<FAN_OUT>, Node<FAN_OUT>);

/// Makes two nodes of entries that together fill the range from `low` to `high`; `keep` of them go to the left.
///
/// `template` is a node of the same level. Between leaves, the new fence is the shortest key that separates them.
fn divide<const FAN_OUT: usize>(
    template: &Node<FAN_OUT>,
    low: Fence,
    high: Option<Fence>,
    entries: &[Entry],
    keep: usize,
) -> Halves<FAN_OUT> {
    let (left, right) = entries.split_at(keep);
    let fence: Fence = if template.is_leaf() {
        let (last, first) = (template.key_of(left[keep - 1].bits), template.key_of(right[0].bits));
        Fence::from(&first[..=common_prefix(last, first)])
    } else {
        Fence::clone(template.child(right[0].bits).low())
    };
    let level = template.level();
    (Node::build(level, low, Some(Fence::clone(&fence)), left), Node::build(level, fence, high, right))
}

impl<const FAN_OUT: usize> Node<FAN_OUT> {
    /// Returns true if a node has so few entries that it should be merged: a leaf without entries and an inner node
    /// with one child must, and others should when they can share a node with room to spare.
    fn is_thin(&self, sibling: &Self) -> bool {
        let count = self.count();
        let both_fit_well = count + sibling.count() <= FAN_OUT / 2;
        self.must_merge() || (count <= Self::THIN && both_fit_well)
    }

    fn must_merge(&self) -> bool {
        self.count() < if self.is_leaf() { 1 } else { 2 }
    }

    /// A node with at most this many entries may be thin.
    pub(super) const THIN: usize = FAN_OUT / 4;

    /// The number of a full node's entries that its left half gets. When keys arrive in ascending order (`at_end`), the
    /// left half is left almost full, since no more keys will be inserted there.
    fn keep_at_split(at_end: bool) -> usize {
        if at_end { FAN_OUT - (FAN_OUT / 8).max(2) } else { FAN_OUT / 2 }
    }
}

impl<const FAN_OUT: usize> OrderedIndex<FAN_OUT> {
    /// Splits a full node. `edge` led to it, from a parent with room; without one, it is the root, and gets a new
    /// root above it. `place` is where the entry that asks for room belongs (or leads to). Gives back the versions before
    /// and after: at both, the same entries were there.
    pub(super) fn split<'g>(
        &self,
        edge: Option<Edge<'g, FAN_OUT>>,
        visit: Visit<'g, FAN_OUT>,
        place: usize,
        guard: &'g Guard,
    ) -> Result<LeafSplit<'g>, Restart> {
        let parent = edge.map(|edge| edge.parent.lock().map(|lock| (lock, edge.index))).transpose()?;
        let old = visit.lock()?;
        let node = visit.node;
        let entries: Vec<Entry> = node.entries(0..node.count()).collect();
        let keep = Node::<FAN_OUT>::keep_at_split(place + 1 >= node.count());
        let (left, right) = divide(node, Fence::clone(node.low()), node.high().cloned(), &entries, keep);
        let fence = Fence::clone(right.low());
        let (left, right) = (left.into_bits(&self.pool), right.into_bits(&self.pool));
        match parent {
            Some((mut parent, index)) => {
                parent.replace(index, left);
                parent.insert(index + 1, &fence, right);
            }
            None => self.grow(node.level() + 1, left, (right, &fence)),
        }
        let whole = node.version(old.before());
        // SAFETY: they were just made; they may be out of the tree again, but not before this thread was pinned.
        let halves = [left, right].map(|bits| unsafe { Node::<FAN_OUT>::at(bits) }.version(NEW));
        old.retire(&self.pool, guard);
        Ok(LeafSplit { whole, halves })
    }

    /// Puts a new root above two nodes, the second with its low fence; the caller holds the old root's latch.
    fn grow(&self, level: u8, left: u64, (right, fence): (u64, &Fence)) {
        let entries = [
            Entry { head: 0, prefix: 0, bits: left },
            Entry { head: head_of(fence, 0), prefix: 0, bits: right },
        ];
        let root = Node::<FAN_OUT>::build(level, Fence::default(), None, &entries);
        // Release: publishes the new nodes; the partner is the acquire load in `root`.
        self.root.store(root.into_bits(&self.pool), Ordering::Release);
    }

    /// Merges whatever is thin on the way to `key`; called after a removal has left a leaf thin.
    pub(super) fn tidy(&self, key: &[u8], guard: &Guard) {
        while super::retry(|| self.tidy_once(key, guard)) {}
    }

    /// Goes down to `key`'s leaf and mends the first thing on the way that needs it; whether there was any.
    fn tidy_once(&self, key: &[u8], guard: &Guard) -> Result<bool, Restart> {
        let mut visit = self.root(guard)?;
        if !visit.node.is_leaf() && visit.node.count() == 1 {
            self.collapse(visit, guard)?;
            return Ok(true);
        }
        while !visit.node.is_leaf() {
            let (edge, child) = visit.descend(Target::At(key))?;
            // The left neighbor, or for the first child the right one.
            let left_index = edge.index.saturating_sub(1);
            let neighbour_index = if edge.index == 0 { 1 } else { left_index };
            if child.node.count() <= Node::<FAN_OUT>::THIN {
                // Without a neighbor the parent itself must merge, and a pass from the root on sees to it.
                let neighbour = visit.child(neighbour_index)?;
                if child.node.is_thin(neighbour.node) {
                    let (left, right) = if edge.index == 0 { (child, neighbour) } else { (neighbour, child) };
                    self.merge(visit, left_index, left, right, guard)?;
                    return Ok(true);
                }
            }
            visit = child;
        }
        Ok(false)
    }

    /// Makes the only child of the root the root.
    fn collapse<'g>(&self, root: Visit<'g, FAN_OUT>, guard: &Guard) -> Result<(), Restart> {
        let old = root.lock()?;
        let child = root.node.slot(0)?;
        // Release: as in `grow`. The child's range is the root's already, so that it can stay as it is; no thread
        // replaces it meanwhile, since that takes its parent's latch.
        self.root.store(child, Ordering::Release);
        old.retire(&self.pool, guard);
        Ok(())
    }

    /// Puts two neighbors, children `index` and `index + 1` of `parent`, into one node, or evenly into two.
    fn merge<'g>(
        &self,
        parent: Visit<'g, FAN_OUT>,
        index: usize,
        left: Visit<'g, FAN_OUT>,
        right: Visit<'g, FAN_OUT>,
        guard: &Guard,
    ) -> Result<(), Restart> {
        let mut parent = parent.lock()?;
        let locks: [Locked<'g, FAN_OUT>; 2] = [left.lock()?, right.lock()?];
        let (left, right) = (left.node, right.node);
        let entries: Vec<Entry> =
            left.entries(0..left.count()).chain(right.entries(0..right.count())).collect();
        let (low, high) = (Fence::clone(left.low()), right.high().cloned());
        if entries.len() <= FAN_OUT {
            let both = Node::<FAN_OUT>::build(left.level(), low, high, &entries);
            parent.replace(index, both.into_bits(&self.pool));
            parent.remove(index + 1);
        } else {
            let (left, right) = divide(left, low, high, &entries, entries.len() / 2);
            parent.replace(index, left.into_bits(&self.pool));
            parent.replace(index + 1, right.into_bits(&self.pool));
        }
        for lock in locks {
            lock.retire(&self.pool, guard);
        }
        Ok(())
    }
}
