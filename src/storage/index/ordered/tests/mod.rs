//! Tests of the ordered index: against a model, with rival threads, and of versions.

mod concurrent;
mod near;
mod ordered_model;
mod reclaim;
mod shape;
mod version;

use std::cell::RefCell;
use std::ops::Bound;

use crossbeam_epoch::Guard;

use super::node::{Node, common_prefix, head_of};
use super::*;
use crate::storage::record::RecordPointer;

/// Records that live as long as the test, whether in an index or not.
#[derive(Default)]
struct Records(RefCell<Vec<RecordPointer>>);

impl Records {
    fn make(&self, key: &[u8]) -> Record<'_> {
        let pointer = RecordPointer::allocate(0, key, 0);
        self.0.borrow_mut().push(pointer);
        // SAFETY: freed when `self`, which the record borrows, is dropped.
        unsafe { pointer.as_record() }
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        for pointer in self.0.borrow().iter() {
            // SAFETY: every record borrowed `self`, so none is left; each is in the list once.
            unsafe { pointer.free() };
        }
    }
}

fn was_inserted(insertion: &Insertion<'_>) -> bool {
    matches!(insertion, Insertion::Inserted { .. })
}

fn is_found(lookup: &Lookup<'_>) -> bool {
    matches!(lookup, Lookup::Found(_))
}

/// All records from `from` on, and the versions of the pages.
fn scan_forward<'g, const F: usize>(
    index: &'g OrderedIndex<F>,
    from: Bound<&[u8]>,
    guard: &'g Guard,
) -> (Vec<Record<'g>>, Vec<NodeVersion<'g>>) {
    let (mut records, mut versions) = (Vec::new(), Vec::new());
    let mut page = index.page_forward(from, &mut records, guard);
    versions.push(page.version);
    while let Some(next) = page.next {
        assert!(records.last().is_none_or(|record| record.key() < next));
        let already = records.len();
        page = index.page_forward(Bound::Included(next), &mut records, guard);
        assert!(records.get(already).is_none_or(|record| record.key() >= next));
        versions.push(page.version);
    }
    (records, versions)
}

/// All records below `to`, descending, and the versions of the pages.
fn scan_backward<'g, const F: usize>(
    index: &'g OrderedIndex<F>,
    to: Bound<&[u8]>,
    guard: &'g Guard,
) -> (Vec<Record<'g>>, Vec<NodeVersion<'g>>) {
    let (mut records, mut versions) = (Vec::new(), Vec::new());
    let mut page = index.page_backward(to, &mut records, guard);
    versions.push(page.version);
    while let Some(next) = page.next {
        assert!(records.last().is_none_or(|record| record.key() >= next));
        let already = records.len();
        page = index.page_backward(Bound::Excluded(next), &mut records, guard);
        assert!(records.get(already).is_none_or(|record| record.key() < next));
        versions.push(page.version);
    }
    (records, versions)
}

fn keys<'g>(records: &[Record<'g>]) -> Vec<&'g [u8]> {
    records.iter().map(|record| record.key()).collect()
}

/// The structure of a tree that is not being changed.
#[derive(Debug, Default, PartialEq)]
struct Shape {
    levels: usize,
    leaves: usize,
    entries: usize,
}

/// Checks every invariant of a tree that is not being changed.
fn shape_of<const F: usize>(index: &OrderedIndex<F>, guard: &Guard) -> Shape {
    let root = index.root(guard).expect("no root is obsolete").node;
    assert!(root.low().is_empty() && root.high().is_none(), "the root has the whole key space");
    assert!(root.is_leaf() || root.count() > 1, "a root with one child should have given way");
    let mut shape = Shape { levels: usize::from(root.level()) + 1, ..Shape::default() };
    check_node(root, true, &mut shape);
    shape
}

fn check_node<const F: usize>(node: &Node<F>, is_root: bool, shape: &mut Shape) {
    node.latch.read().expect("no current node is obsolete");
    assert_eq!(node.prefix(), node.high().map_or(0, |high| common_prefix(node.low(), high)));
    assert!(node.high().is_none_or(|high| node.low() < high));
    let count = node.count();
    for empty in count..F {
        assert_eq!(node.slots[empty].load(Ordering::Relaxed), 0, "slots behind the count are zero");
    }
    let entries: Vec<_> = node.entries(0..count).collect();
    for entry in &entries {
        let key = node.key_of(entry.bits);
        assert_eq!(entry.head, head_of(key, node.prefix()));
        assert!(&node.low()[..] <= key && node.high().is_none_or(|high| key < high));
    }
    assert!(entries.is_sorted_by(|left, right| node.key_of(left.bits) < node.key_of(right.bits)));
    if node.is_leaf() {
        assert!(count > 0 || is_root, "an empty leaf should have been merged");
        shape.leaves += 1;
        shape.entries += count;
        return;
    }
    assert!(count > 1, "an inner node with one child should have been merged");
    let children: Vec<_> = entries.iter().map(|entry| node.child(entry.bits)).collect();
    assert_eq!(children[0].low(), node.low());
    assert_eq!(children[count - 1].high(), node.high());
    for pair in children.windows(2) {
        assert_eq!(pair[0].high(), Some(pair[1].low()), "ranges meet");
    }
    for child in children {
        assert_eq!(child.level() + 1, node.level());
        check_node(child, false, shape);
    }
}
