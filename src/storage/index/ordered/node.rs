//! A node of the tree, as readers see it: leaves and inner nodes have one layout and one search.
//!
//! ```text
//! ┌ one cache line ───────────────────────────────────────────┬──────────────────┬──────────────────┐
//! │ version word, count, prefix length, level, low, high fence│ heads: F × 8 B   │ slots: F × 8 B   │
//! └───────────────────────────────────────────────────────────┴──────────────────┴──────────────────┘
//! ```
//!
//! A slot of a leaf holds a record, and its key is the record's. A slot of an inner node holds a child, and its key
//! is the child's low fence: separators are stored nowhere else. Entries are sorted by key. An entry's head is the
//! eight bytes of its key behind the node's prefix, big-endian and padded with zeros, so that most comparisons
//! need the heads alone; equal heads (longer keys, or a key and the same key with zero bytes behind) are distinguished
//! by the keys themselves.
//!
//! Invariants:
//! - level, fences and prefix never change: readers use them without a latch;
//! - a key k lies in the node's range when low ≤ k < high (no high fence: no upper bound); all such keys begin with
//!   the common prefix of the two fences, and so does the high fence itself;
//! - count, heads and slots are atomics that only the holder of the latch writes; a reader trusts them once it has
//!   validated the version, and may follow a slot before (the argument is in the folder's `mod.rs`): slots behind
//!   `count` are zero, so that no slot ever shows what was taken out before the reader came.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use super::latch::{Latch, Restart};
use crate::base::atomics::{AtomicU64, AtomicUsize, Ordering};
use crate::storage::index::NodeVersion;
use crate::storage::index::pool::Pool;
use crate::storage::record::{Record, RecordPointer};

/// A bound of a node's range; a split makes one, and both its sides share it.
pub(super) type Fence = Arc<[u8]>;

/// The goal of a descent.
#[derive(Clone, Copy)]
pub(super) enum Target<'k> {
    /// The leaf whose range holds this key.
    At(&'k [u8]),
    /// The leaf that holds the greatest keys below this one (the first leaf if there can be none).
    Below(&'k [u8]),
    /// The last leaf.
    Last,
}

/// The position of a key among a node's entries.
pub(super) struct Position {
    /// The number of entries with a smaller key.
    pub(super) index: usize,
    /// The slot at `index`, if its key is the one looked for.
    pub(super) found: Option<u64>,
}

/// An entry on its way to another node, with the length of the prefix that its head leaves out.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    pub(super) head: u64,
    pub(super) prefix: usize,
    pub(super) bits: u64,
}

#[cfg(target_arch = "x86_64")]
const HEADS_PER_CACHE_LINE: usize = 8;

/// See the top of the file.
#[repr(C, align(64))]
pub(super) struct Node<const FAN_OUT: usize> {
    pub(super) latch: Latch,
    pub(super) count: AtomicUsize,
    prefix: usize,
    low: Fence,
    high: Option<Fence>,
    level: u8,
    pub(super) heads: [AtomicU64; FAN_OUT],
    pub(super) slots: [AtomicU64; FAN_OUT],
}

/// The eight bytes of `key` behind its first `prefix` ones, in an order that agrees with the order of keys.
pub(super) fn head_of(key: &[u8], prefix: usize) -> u64 {
    let rest = key.get(prefix..).unwrap_or_default();
    if let Some(bytes) = rest.first_chunk::<8>() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(bytes)
}

/// The number of bytes that two keys have in common at their beginning.
pub(super) fn common_prefix(left: &[u8], right: &[u8]) -> usize {
    left.iter().zip(right).take_while(|(left, right)| left == right).count()
}

impl<const FAN_OUT: usize> Node<FAN_OUT> {
    /// Makes a node with these entries, which are in order and lie in its range.
    pub(super) fn build(level: u8, low: Fence, high: Option<Fence>, entries: &[Entry]) -> Self {
        let prefix = high.as_deref().map_or(0, |high| common_prefix(&low, high));
        let node = Node {
            latch: Latch::new(),
            count: AtomicUsize::new(entries.len()),
            prefix,
            low,
            high,
            level,
            heads: [const { AtomicU64::new(0) }; FAN_OUT],
            slots: [const { AtomicU64::new(0) }; FAN_OUT],
        };
        for (index, entry) in entries.iter().enumerate() {
            // Only a change of the prefix makes it necessary to go to the key, which is a cache miss.
            let head =
                if entry.prefix == prefix { entry.head } else { head_of(node.key_of(entry.bits), prefix) };
            // Relaxed: no other thread sees the node yet; the release store of its address publishes these.
            node.heads[index].store(head, Ordering::Relaxed);
            node.slots[index].store(entry.bits, Ordering::Relaxed);
        }
        node
    }

    /// Puts the node into the index's memory: its address as a slot holds it; the slot owns the node from now on.
    pub(super) fn into_bits(self, pool: &Pool) -> u64 {
        pool.put(self).as_ptr().expose_provenance() as u64
    }

    /// Frees the node at an address.
    ///
    /// # Safety
    /// `bits` came from `into_bits` with this pool, and no thread uses the node any more or will free it again.
    pub(super) unsafe fn free(bits: u64, pool: &Pool) {
        let node = std::ptr::with_exposed_provenance_mut::<Self>(bits as usize);
        // SAFETY: the caller's promise; such an address is never null, and its provenance was exposed.
        unsafe { pool.take_out(NonNull::new_unchecked(node)) };
    }

    /// The node at an address.
    ///
    /// # Safety
    /// `bits` came from `into_bits`, was read with acquire (or made by this thread), and the node is not freed
    /// while `'g` lasts.
    pub(super) unsafe fn at<'g>(bits: u64) -> &'g Self {
        // SAFETY: the caller's promise. All that changes in a shared node are its atomics.
        unsafe { &*std::ptr::with_exposed_provenance(bits as usize) }
    }

    /// Asks for all cache lines of the heads at once, since the search would wait for one after another.
    ///
    /// Measured with a million random keys: a lookup takes an eighth less time.
    pub(super) fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        for line in self.heads.chunks(HEADS_PER_CACHE_LINE) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: every x86-64 processor has the instruction; it is a hint that any address will do for.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
        }
    }

    pub(super) fn is_leaf(&self) -> bool {
        self.level == 0
    }

    pub(super) fn level(&self) -> u8 {
        self.level
    }

    pub(super) fn prefix(&self) -> usize {
        self.prefix
    }

    pub(super) fn low(&self) -> &Fence {
        &self.low
    }

    pub(super) fn high(&self) -> Option<&Fence> {
        self.high.as_ref()
    }

    /// Returns true if the key lies in the node's range.
    pub(super) fn holds(&self, key: &[u8]) -> bool {
        &self.low[..] <= key && self.high().is_none_or(|high| key < &high[..])
    }

    /// The number of entries. Relaxed: validated by the caller, or read under the latch; never out of bounds.
    pub(super) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed).min(FAN_OUT)
    }

    /// The version, for a transaction to watch.
    pub(super) fn version(&self, observed: u64) -> NodeVersion<'_> {
        NodeVersion::new(self.latch.word(), observed)
    }

    /// The content of slot `index`; fails where there is no entry (any more).
    ///
    /// Acquire: pairs with the release with which writers store slots, so that the object at the address (a record's
    /// key, a child's fences) is seen whole even before the version is validated.
    pub(super) fn slot(&self, index: usize) -> Result<u64, Restart> {
        match self.slots.get(index).map(|slot| slot.load(Ordering::Acquire)) {
            None | Some(0) => Err(Restart),
            Some(bits) => Ok(bits),
        }
    }

    /// The key of an entry of this node.
    pub(super) fn key_of(&self, bits: u64) -> &[u8] {
        if self.is_leaf() { self.record(bits).key() } else { self.child(bits).low() }
    }

    /// The record that a slot of this leaf holds.
    pub(super) fn record(&self, bits: u64) -> Record<'_> {
        debug_assert!(self.is_leaf());
        // SAFETY: leaves get their slots from `RecordPointer::to_bits` only. The borrow of the node shows that the
        // thread is pinned since before it read the slot, and a record is retired after it left the slot.
        unsafe { RecordPointer::from_bits(bits).as_record() }
    }

    /// The child that a slot of this inner node holds.
    pub(super) fn child(&self, bits: u64) -> &Self {
        debug_assert!(!self.is_leaf());
        // SAFETY: inner nodes get their slots from `into_bits` only, and `slot` reads with acquire. The borrow of
        // this node shows that the thread is pinned since before it read the slot, and a child is retired after
        // it left the slot.
        unsafe { Node::at(bits) }
    }

    /// Finds the place of `key`, which lies in the node's range or is its high fence.
    ///
    /// The heads are read relaxed: if a writer interferes, the place is anywhere inside the node, and the caller's
    /// validation fails.
    pub(super) fn search(&self, key: &[u8]) -> Result<Position, Restart> {
        let head = head_of(key, self.prefix);
        let heads = &self.heads[..self.count()];
        let head_at = |at: usize| heads.get(at).map(|other| other.load(Ordering::Relaxed));
        // Behind all heads that are not greater. Keys that grow are last: one comparison detects that.
        let end = match heads.len().checked_sub(1).and_then(head_at) {
            Some(last) if last > head => heads.partition_point(|other| other.load(Ordering::Relaxed) <= head),
            _ => heads.len(),
        };
        let Some(last) = end.checked_sub(1).filter(|&last| head_at(last) == Some(head)) else {
            return Ok(Position { index: end, found: None });
        };
        // One look at the last of the equal heads, most often the only one, instead of a search among them.
        let bits = self.slot(last)?;
        match self.key_of(bits).cmp(key) {
            std::cmp::Ordering::Less => return Ok(Position { index: end, found: None }),
            std::cmp::Ordering::Equal => return Ok(Position { index: last, found: Some(bits) }),
            std::cmp::Ordering::Greater => {}
        }
        let (mut from, mut to) =
            (heads[..last].partition_point(|other| other.load(Ordering::Relaxed) < head), last);
        while from < to {
            let middle = from.midpoint(to);
            let bits = self.slot(middle)?;
            match self.key_of(bits).cmp(key) {
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Equal => return Ok(Position { index: middle, found: Some(bits) }),
                std::cmp::Ordering::Greater => to = middle,
            }
        }
        Ok(Position { index: from, found: None })
    }

    /// The position of the child of this inner node that leads to `target`.
    pub(super) fn child_index(&self, target: Target<'_>) -> Result<usize, Restart> {
        // The first child's key is the node's own low fence, so that index 0 is reached only for that very key
        // (or below the lowest key of all), and nothing is lost by saturating.
        Ok(match target {
            Target::At(key) => {
                let place = self.search(key)?;
                if place.found.is_some() { place.index } else { place.index.saturating_sub(1) }
            }
            Target::Below(key) => self.search(key)?.index.saturating_sub(1),
            Target::Last => self.count().saturating_sub(1),
        })
    }

    /// The entries of `range`, to be put into another node; the caller holds the latch.
    pub(super) fn entries(&self, range: Range<usize>) -> impl Iterator<Item = Entry> + '_ {
        // Relaxed: the latch's acquire has made the last writer's stores visible.
        self.heads[range.clone()].iter().zip(&self.slots[range]).map(|(head, slot)| Entry {
            head: head.load(Ordering::Relaxed),
            prefix: self.prefix,
            bits: slot.load(Ordering::Relaxed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type SmallNode = Node<4>;

    #[test]
    fn heads_order_as_keys_do_or_are_equal() {
        let keys: [&[u8]; 8] = [b"", b"\0", b"\0\0", b"\0\x01", b"a", b"a\0", b"aaaaaaaa", b"aaaaaaaab"];
        for pair in keys.windows(2) {
            assert!(pair[0] < pair[1]);
            assert!(head_of(pair[0], 0) <= head_of(pair[1], 0), "{pair:?}");
        }
        assert_eq!(head_of(b"abc", 1), u64::from_be_bytes(*b"bc\0\0\0\0\0\0"));
        assert_eq!(head_of(b"abc", 3), 0);
        assert_eq!(head_of(b"abc", 9), 0);
    }

    #[test]
    fn common_prefixes() {
        assert_eq!(common_prefix(b"", b"a"), 0);
        assert_eq!(common_prefix(b"abc", b"abd"), 2);
        assert_eq!(common_prefix(b"ab", b"abd"), 2);
    }

    #[test]
    fn the_fixed_fields_fill_one_cache_line() {
        assert_eq!(std::mem::offset_of!(Node<64>, heads), 64);
        assert_eq!(size_of::<Node<64>>(), 64 + 2 * 512);
    }

    #[test]
    fn search_tells_equal_heads_apart_by_key() {
        let keys: [&[u8]; 4] = [b"pq", b"pq\0", b"pq\0\0\0\0\0\0\0\0", b"pq\0\0\0\0\0\0\0\0\0"];
        let records = keys.map(|key| RecordPointer::allocate(0, key, 0));
        let entries = records.map(|record| Entry { head: 0, prefix: usize::MAX, bits: record.to_bits() });
        let node = SmallNode::build(0, Arc::from(&b"pq"[..]), Some(Arc::from(&b"pr"[..])), &entries);
        assert_eq!(node.prefix(), 1);
        for (index, key) in keys.iter().enumerate() {
            let place = node.search(key).unwrap();
            assert_eq!((place.index, place.found), (index, Some(records[index].to_bits())));
        }
        let between = node.search(b"pq\0\0").unwrap();
        assert_eq!((between.index, between.found), (2, None));
        assert_eq!(node.search(b"pr").unwrap().index, 4, "the high fence itself");
        for record in records {
            // SAFETY: the node is not used any more, and the records are not shared.
            unsafe { record.free() };
        }
    }
}
