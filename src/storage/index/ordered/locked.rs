//! A node as the holder of its latch sees it: the only code that changes a shared node.
//!
//! Invariants: entries stay sorted, slots behind the count are zero, and every change is announced to the
//! latch, so that unlocking publishes a new version. Slots are stored with release (the partner is the acquire in
//! `Node::slot`); heads and the count relaxed, for the latch's fences order them.

use std::sync::Arc;

use crossbeam_epoch::Guard;

use super::latch::{Exclusive, Restart};
use super::node::{Node, head_of};
use crate::base::atomics::Ordering;
use crate::storage::garbage;
use crate::storage::index::pool::Pool;

/// A node whose latch this thread holds; dropping it unlocks.
pub(super) struct Locked<'g, const FAN_OUT: usize> {
    node: &'g Node<FAN_OUT>,
    exclusive: Exclusive<'g>,
}

impl<'g, const FAN_OUT: usize> Locked<'g, FAN_OUT> {
    /// Locks `node` if it is still at `version`.
    pub(super) fn lock(node: &'g Node<FAN_OUT>, version: u64) -> Result<Self, Restart> {
        Ok(Locked { node, exclusive: node.latch.lock(version)? })
    }

    /// The version that was locked.
    pub(super) fn before(&self) -> u64 {
        self.exclusive.before()
    }

    /// Puts an entry in at `index`; there is room. Returns the version that unlocking publishes.
    ///
    /// Entries move from the end on, so that at any moment every slot holds an entry of before or of after.
    pub(super) fn insert(&mut self, index: usize, key: &[u8], bits: u64) -> u64 {
        let version = self.exclusive.change();
        let Node { heads, slots, count, .. } = self.node;
        let entries = count.load(Ordering::Relaxed);
        for at in (index..entries).rev() {
            heads[at + 1].store(heads[at].load(Ordering::Relaxed), Ordering::Relaxed);
            slots[at + 1].store(slots[at].load(Ordering::Relaxed), Ordering::Release);
        }
        heads[index].store(head_of(key, self.node.prefix()), Ordering::Relaxed);
        slots[index].store(bits, Ordering::Release);
        count.store(entries + 1, Ordering::Relaxed);
        version
    }

    /// Takes the entry at `index` out; returns how many are left.
    pub(super) fn remove(&mut self, index: usize) -> usize {
        self.exclusive.change();
        let Node { heads, slots, count, .. } = self.node;
        let left = count.load(Ordering::Relaxed) - 1;
        for at in index..left {
            heads[at].store(heads[at + 1].load(Ordering::Relaxed), Ordering::Relaxed);
            slots[at].store(slots[at + 1].load(Ordering::Relaxed), Ordering::Release);
        }
        // A later reader must not find here what may be freed by then.
        slots[left].store(0, Ordering::Release);
        count.store(left, Ordering::Relaxed);
        left
    }

    /// Replaces the child at `index` by one that is not yet shared.
    pub(super) fn replace(&mut self, index: usize, child: u64) {
        self.exclusive.change();
        let head = head_of(self.node.key_of(child), self.node.prefix());
        self.node.heads[index].store(head, Ordering::Relaxed);
        self.node.slots[index].store(child, Ordering::Release);
    }

    /// Gives the node up, after another has taken its place in the tree: marks it obsolete, and frees it when no
    /// pinned thread can have it any more. What its slots hold lives on elsewhere.
    pub(super) fn retire(mut self, pool: &Arc<Pool>, guard: &Guard) {
        self.exclusive.make_obsolete();
        let bits = std::ptr::from_ref(self.node).expose_provenance() as u64;
        drop(self);
        let pool = pool.clone();
        // SAFETY: the node came from `into_bits` (all shared nodes do), nothing in the tree leads to it any more,
        // and it is retired once: only the holder of its latch retires it, and an obsolete node is never locked.
        // The closure owns what it touches, and a node may be freed on any thread.
        unsafe { garbage::retire(guard, move || Node::<FAN_OUT>::free(bits, &pool)) };
    }
}
