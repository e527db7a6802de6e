//! The ordered index: a main-memory B+-tree from byte-string keys to records, with optimistic lock coupling.
//!
//! Readers write nothing that is shared: they note a node's version word, read, and look whether the word is still
//! the same. Writers lock the few nodes that they change. (Leis, Scheibner, Kemper, Neumann: "The ART of practical
//! synchronization", 2016.) Keys are of any length, the empty one included, and may be prefixes of each other.
//!
//! - `latch.rs`: the version word, and the memory orderings;
//! - `node.rs`: nodes, and the search in one; `locked.rs`: changing it;
//! - `descent.rs`: going down; `restructure.rs`: splits, merges, the root; `separators.rs`: keys that cut a range into
//!   pieces.
//!
//! # Why it is right
//!
//! **Ranges.** A node's level and fences are fixed when it is made; what would change them (a split, a merge)
//! replaces the node instead. A node is *current* from when the tree leads to it until it is marked obsolete. The
//! ranges of the current nodes of a level cut up the whole key space: at first there is one leaf with all of it,
//! and each replacement takes place under the latches of the parent and of all nodes replaced, and puts nodes in
//! the place of others whose ranges together are the same. So **a current leaf is the one place where a key of its
//! range can be**, however a thread came to it.
//!
//! **The root** is replaced only by a thread that holds the latch of the current one: a node that was once read as the
//! root, and is not obsolete, is still the root.
//!
//! **Reads.** A slot of an inner node is followed after the node has been validated, so that the child's range
//! holds the key; that the child's own version is not obsolete shows that it is current. At the leaf, the answer
//! is formed and then validated: it held at one moment, that of the validation. There is no need to look at the
//! parent again: nothing that happens above changes the meaning of a current leaf.
//!
//! **What a torn read may follow.** Before a node is validated, a reader may see any mixture of its states since
//! the version that it noted. It follows slots nevertheless, when heads are equal. A slot shows what it held at
//! that version or later, and slots behind the count hold zero; thus an address found there was in the tree at
//! some moment when the reader was pinned already. Records and nodes are retired after they left the tree, so the
//! epoch keeps them. The object at the address is seen whole, since slots are stored with release and loaded
//! with acquire. Everything else that writers change is a relaxed atomic. So there is no undefined behavior, and
//! what a torn read concludes is thrown away.
//!
//! **Writes.** An insert or removal locks the leaf at the very version at which it searched, so what it found still
//! holds, and the leaf is current. An insert splits full nodes on its way down: the parent of a full node has room,
//! for it was looked at first, and is locked at the version at which it had. A thread that cannot acquire a latch at once
//! releases those it has and begins again, so there is no deadlock; it can only be kept from its goal by others
//! reaching theirs.
//!
//! **Thin nodes.** A removal that leaves a leaf empty (or down to a quarter) goes down once more and merges what is
//! thin on the way, from the root on: a root with one child gives way to it, and an inner node with one child gets
//! company before its child is looked at. So an empty leaf always finds a neighbor under its parent, and never
//! stays, unless it is the whole tree.
//!
//! **Reclamation.** An obsolete node is freed by the epoch: threads that are pinned may still be in it, and read
//! its version word, fences and (frozen) entries. An obsolete word equals no version ever noted.
//!
//! **Phantoms.** Every insert and removal changes the version of the one current leaf whose range holds the key,
//! and every split or merge that of the leaves replaced, from before the new ones can be reached. A [`Page`] covers
//! the whole range from its bound to `next`, as of its version; the next page begins where it ended. So if all
//! versions of a scan are current at some moment, no key has entered or left the scanned range between the taking
//! of each version and that moment. A missing key is the same with a range of one key. A split changes no key: so what a
//! version said of the leaf, the two of its halves say once it is split ([`LeafSplit`]).
//!
//! There are no links between leaves: a scan goes on by a new descent to the fence, which costs a descent per leaf
//! and spares every split the latch of a leaf elsewhere in the tree.

mod descent;
mod latch;
mod locked;
mod node;
mod restructure;
mod separators;

#[cfg(test)]
mod tests;

use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use crossbeam_epoch::Guard;
use crossbeam_utils::Backoff;

pub(crate) use self::descent::Near;
use self::latch::Restart;
use self::node::{Fence, Node, Target};
use super::pool::Pool;
use super::{Insertion, LeafSplit, Lookup, NodeVersion};
use crate::base::atomics::{AtomicU64, Ordering};
use crate::diagnostics::activity::snooze;
use crate::storage::record::Record;

/// The number of entries that a node holds. Tests and models have small nodes, so that splits and merges are common.
const DEFAULT_FAN_OUT: usize = if cfg!(any(test, heddle_model)) { 4 } else { 64 };

/// An ordered index; the entries' records belong to the table.
///
/// Every guard that is passed in is one of crossbeam's default collector ([`crossbeam_epoch::pin`]); a thread that removes
/// a record frees it by that collector too, after it has left all indexes.
pub(crate) struct OrderedIndex<const FAN_OUT: usize = DEFAULT_FAN_OUT> {
    /// The address of the root node.
    root: AtomicU64,
    /// Its nodes' memory.
    pool: Arc<Pool>,
}

/// The part of a scanned range that is in one leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'g> {
    /// While this is current, the range that the page covers holds the same entries.
    pub version: NodeVersion<'g>,
    /// The key at which the scan continues: forward inclusive, backward exclusive; `None` at the end.
    pub next: Option<&'g [u8]>,
}

/// Tries until an attempt holds together: spins a little at first, then yields.
fn retry<T>(mut attempt: impl FnMut() -> Result<T, Restart>) -> T {
    let backoff = Backoff::new();
    loop {
        if let Ok(answer) = attempt() {
            return answer;
        }
        snooze(&backoff);
    }
}

impl OrderedIndex {
    /// An empty index.
    pub(crate) fn new() -> Self {
        Self::with_fan_out()
    }

    /// Makes it empty permanently; its content is now in the returned index.
    ///
    /// # Safety
    /// No thread inserts into it or removes from it, now or later. The returned index is dropped only when every thread
    /// has unpinned that was pinned at this moment: until then such a thread may read what it has.
    pub(crate) unsafe fn vacate(&self) -> OrderedIndex {
        // AcqRel: a thread that finds the new root finds it made; the caller sees what was put into the old one.
        let root = self.root.swap(vacant_root(), Ordering::AcqRel);
        OrderedIndex { root: AtomicU64::new(root), pool: self.pool.clone() }
    }
}

/// The root of all indexes that were made empty for good, in this process: a leaf that nothing is put into.
static VACANT_ROOT: OnceLock<u64> = OnceLock::new();

fn vacant_root() -> u64 {
    *VACANT_ROOT.get_or_init(|| {
        let pool: &'static Pool = Box::leak(Box::default());
        Node::<DEFAULT_FAN_OUT>::build(0, Fence::default(), None, &[]).into_bits(pool)
    })
}

impl<const FAN_OUT: usize> OrderedIndex<FAN_OUT> {
    /// An empty index with nodes of this size.
    fn with_fan_out() -> Self {
        const { assert!(FAN_OUT >= 4, "a split must leave two entries on each side") };
        let pool = Arc::<Pool>::default();
        let root = Node::<FAN_OUT>::build(0, Fence::default(), None, &[]).into_bits(&pool);
        OrderedIndex { root: AtomicU64::new(root), pool }
    }

    /// Bytes of memory that its nodes take, without their fences.
    pub(crate) fn bytes(&self) -> u64 {
        self.pool.bytes()
    }

    /// The record with this key.
    pub(crate) fn get<'g>(&'g self, key: &[u8], guard: &'g Guard) -> Lookup<'g> {
        retry(|| {
            let leaf = self.leaf(Target::At(key), guard)?;
            let place = leaf.node.search(key)?;
            leaf.validate()?;
            Ok(match place.found {
                Some(bits) => Lookup::Found(leaf.node.record(bits)),
                None => Lookup::Missing(leaf.node.version(leaf.version)),
            })
        })
    }

    /// Inserts `record` under its own key, unless the key is present. Leaf splits are reported to `split`.
    #[cfg(any(test, heddle_model))]
    pub(crate) fn insert<'g>(
        &'g self,
        record: Record<'g>,
        split: impl FnMut(LeafSplit<'g>),
        guard: &'g Guard,
    ) -> Insertion<'g> {
        self.insert_near(record, &mut Near::nowhere(), split, guard)
    }

    /// Same as [`insert`](Self::insert), for a thread that may have come near already, and comes nearer now.
    pub(crate) fn insert_near<'g>(
        &'g self,
        record: Record<'g>,
        near: &mut Near<'g, FAN_OUT>,
        mut split: impl FnMut(LeafSplit<'g>),
        guard: &'g Guard,
    ) -> Insertion<'g> {
        retry(|| self.try_insert(record, near, &mut split, guard))
    }

    fn try_insert<'g>(
        &'g self,
        record: Record<'g>,
        near: &mut Near<'g, FAN_OUT>,
        split: &mut impl FnMut(LeafSplit<'g>),
        guard: &'g Guard,
    ) -> Result<Insertion<'g>, Restart> {
        let key = record.key();
        let mut edge = None;
        // A full leaf is split from above.
        let mut visit = match near.visit(self, key).filter(|leaf| !leaf.is_full()) {
            Some(leaf) => leaf,
            None => self.root(guard)?,
        };
        while !visit.node.is_leaf() {
            if visit.is_full() {
                let place = visit.node.child_index(Target::At(key))?;
                self.split(edge, visit, place, guard)?;
                return Err(Restart);
            }
            let (next, child) = visit.descend(Target::At(key))?;
            (edge, visit) = (Some(next), child);
        }
        near.set(self, visit.node);
        let place = visit.node.search(key)?;
        if let Some(bits) = place.found {
            visit.validate()?;
            return Ok(Insertion::Found(visit.node.record(bits)));
        }
        if visit.is_full() {
            split(self.split(edge, visit, place.index, guard)?);
            return Err(Restart);
        }
        let mut leaf = visit.lock()?;
        let after = leaf.insert(place.index, key, record.pointer().to_bits());
        let before = leaf.before();
        Ok(Insertion::Inserted { record, before, after: visit.node.version(after) })
    }

    /// Takes out the entry of this very record (not of another with the same key); whether it was there.
    pub(crate) fn remove(&self, record: Record<'_>, guard: &Guard) -> bool {
        let key = record.key();
        let left = retry(|| {
            let visit = self.leaf(Target::At(key), guard)?;
            let place = visit.node.search(key)?;
            if place.found != Some(record.pointer().to_bits()) {
                visit.validate()?;
                return Ok(None);
            }
            Ok(Some(visit.lock()?.remove(place.index)))
        });
        // Only at these two counts, so that a leaf whose neighbors are full is not looked at again and again.
        if left == Some(0) || left == Some(Node::<FAN_OUT>::THIN) {
            self.tidy(key, guard);
        }
        left.is_some()
    }

    /// Appends to `out`, ascending, the records of one leaf from `from` on. `next` is where the following leaf
    /// begins (inclusive).
    pub(crate) fn page_forward<'g>(
        &'g self,
        from: Bound<&[u8]>,
        out: &mut Vec<Record<'g>>,
        guard: &'g Guard,
    ) -> Page<'g> {
        self.page_within(from, Bound::Unbounded, out, guard)
    }

    /// Same as [`page_forward`](Self::page_forward), but for records behind `to`, some of which may be left out.
    pub(crate) fn page_within<'g>(
        &'g self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        out: &mut Vec<Record<'g>>,
        guard: &'g Guard,
    ) -> Page<'g> {
        let (Bound::Included(key) | Bound::Excluded(key)) = from else {
            return self.page_within(Bound::Included(&[]), to, out, guard);
        };
        let skips_equal = matches!(from, Bound::Excluded(_));
        self.page(out, |found| {
            let leaf = self.leaf(Target::At(key), guard)?;
            let place = leaf.node.search(key)?;
            let start = place.index + usize::from(skips_equal && place.found.is_some());
            let end = match to {
                // Where the range ends before the leaf does, and has not ended before it began.
                Bound::Included(to) | Bound::Excluded(to)
                    if to > key && leaf.node.high().is_none_or(|high| to < &high[..]) =>
                {
                    let place = leaf.node.search(to)?;
                    place.index + usize::from(place.found.is_some())
                }
                _ => leaf.node.count(),
            };
            found.reserve(end.saturating_sub(start));
            for index in start..end {
                found.push(leaf.node.record(leaf.node.slot(index)?));
            }
            leaf.validate()?;
            Ok(Page {
                version: leaf.node.version(leaf.version),
                next: leaf.node.high().map(|high| &high[..]),
            })
        })
    }

    /// Appends to `out`, descending, the records of one leaf below `to`. `next` is the exclusive upper bound of
    /// the preceding leaf.
    pub(crate) fn page_backward<'g>(
        &'g self,
        to: Bound<&[u8]>,
        out: &mut Vec<Record<'g>>,
        guard: &'g Guard,
    ) -> Page<'g> {
        let target = match to {
            Bound::Included(key) => Target::At(key),
            Bound::Excluded(key) => Target::Below(key),
            Bound::Unbounded => Target::Last,
        };
        self.page(out, |found| {
            let leaf = self.leaf(target, guard)?;
            let end = match target {
                Target::At(key) => {
                    let place = leaf.node.search(key)?;
                    place.index + usize::from(place.found.is_some())
                }
                Target::Below(key) => leaf.node.search(key)?.index,
                Target::Last => leaf.node.count(),
            };
            for index in (0..end).rev() {
                found.push(leaf.node.record(leaf.node.slot(index)?));
            }
            leaf.validate()?;
            let low = &leaf.node.low()[..];
            Ok(Page { version: leaf.node.version(leaf.version), next: (!low.is_empty()).then_some(low) })
        })
    }

    /// Tries to fill a page until an attempt holds together; what a failed one found is dropped.
    fn page<'g>(
        &self,
        out: &mut Vec<Record<'g>>,
        mut attempt: impl FnMut(&mut Vec<Record<'g>>) -> Result<Page<'g>, Restart>,
    ) -> Page<'g> {
        let already = out.len();
        retry(|| {
            out.truncate(already);
            attempt(out)
        })
    }

    /// Frees a node and all below it.
    ///
    /// # Safety
    /// `bits` is the address of a node of this tree, which no thread uses any more or will free again.
    unsafe fn free(&self, bits: u64) {
        // SAFETY: the caller's promise.
        let node = unsafe { Node::<FAN_OUT>::at(bits) };
        if !node.is_leaf() {
            for child in node.entries(0..node.count()) {
                // SAFETY: each current node is the child of one parent, which is freed once, below.
                unsafe { self.free(child.bits) };
            }
        }
        // SAFETY: the caller's promise.
        unsafe { Node::<FAN_OUT>::free(bits, &self.pool) };
    }
}

impl<const FAN_OUT: usize> Drop for OrderedIndex<FAN_OUT> {
    fn drop(&mut self) {
        // Relaxed: exclusive access came with its own synchronization.
        let root = self.root.load(Ordering::Relaxed);
        if VACANT_ROOT.get() != Some(&root) {
            // SAFETY: the index is not used any more, and nodes that were taken out of the tree are not reached.
            unsafe { self.free(root) };
        }
        // One that was made empty outlives this one, and its pool has nothing more to keep memory for.
        self.pool.trim();
    }
}
