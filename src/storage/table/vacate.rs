//! Frees a table's records and index nodes while the table, as an object, lives on.
//!
//! Handles, procedures, and what is left of transactions lead to a table for as long as its database is open. So a table that
//! has been dropped is not freed: it is made empty, and what it contained is freed
//! ([`crate::storage::retired_tables`] decides when).
//!
//! # Invariants
//! A record is freed by one of three: the thread that has taken it out of its indexes ([`crate::storage::reclaim`]), the one that
//! frees what a table contained, or the last share in a table that was never made empty. The first leaves the records of a retired table alone.

use std::ops::Bound;
use std::sync::Arc;

use crossbeam_epoch::{Guard, unprotected};

use super::TableCore;
use crate::base::atomics::Ordering;
use crate::storage::index::hash::HashIndex;
use crate::storage::index::ordered::OrderedIndex;
use crate::storage::record::RecordPointer;
use crate::storage::row::{RowLayout, block_bytes, free_block};
use crate::storage::slab::Slabs;

/// The former content of a table. Dropping it frees its records and its nodes.
pub(crate) struct Vacated {
    layout: Arc<RowLayout>,
    slabs: Arc<Slabs>,
    hash: Option<HashIndex>,
    ordered: Option<OrderedIndex>,
}

impl TableCore {
    /// Says that its records are those of a table that is gone, whichever of its definitions leads to them.
    pub(crate) fn retire(&self) {
        // Release: with the table's `is_over`. A thread that pins once all threads have unpinned that are pinned now sees it.
        self.of_records.is_retired.store(true, Ordering::Release);
    }

    /// Returns true if its records are those of a table that is gone.
    #[inline]
    pub(crate) fn is_retired(&self) -> bool {
        // Acquire pairs with the release in `retire`.
        self.of_records.is_retired.load(Ordering::Acquire)
    }

    /// Makes the table empty for good, and every other definition of its records with it.
    ///
    /// # Safety No thread changes its indexes, now or later, nor frees records of them. The returned content is dropped
    /// only when every thread has unpinned that was pinned at this moment.
    pub(crate) unsafe fn vacate(&self) -> Vacated {
        Vacated {
            layout: self.shared_layout(),
            slabs: self.slabs().clone(),
            // SAFETY: the caller's promise.
            hash: self.hash.as_ref().map(|index| unsafe { index.vacate() }),
            // SAFETY: the caller's promise.
            ordered: self.ordered.as_ref().map(|index| unsafe { index.vacate() }),
        }
    }
}

impl Drop for Vacated {
    fn drop(&mut self) {
        // SAFETY: only this has the indexes (the promise of the thread that made the table empty), and so the records in them.
        unsafe { free_records((&self.layout, &self.slabs), self.hash.as_ref(), self.ordered.as_ref()) };
    }
}

impl Drop for TableCore {
    fn drop(&mut self) {
        // Those that left the indexes earlier were retired by `reclaim`, or were freed when the table was made empty.
        if !self.has_moved() {
            // SAFETY: no thread uses the table any more, so the records in its indexes, and the blocks of their rows, are its
            // own to free.
            unsafe {
                free_records((&self.layout, &self.slabs), self.hash.as_deref(), self.ordered.as_deref())
            };
        }
    }
}

/// Frees the records in these indexes, of one table.
///
/// # Safety
/// No other thread uses the indexes or the records, and the indexes are not used any more.
unsafe fn free_records(
    (layout, slabs): (&RowLayout, &Slabs),
    hash: Option<&HashIndex>,
    ordered: Option<&OrderedIndex>,
) {
    // The memory of the others is freed with their chunks, when the store is gone.
    let is_closed = slabs.is_closed();
    let mut freed = Vec::new();
    let mut free = |pointer: RecordPointer| {
        // SAFETY: the record is in an index, so it has not been freed, and no other thread uses it.
        unsafe { free_blocks(layout, slabs, pointer) };
        // SAFETY: as above.
        if !is_closed || !Slabs::is_cut(unsafe { pointer.bytes() }) {
            freed.push(pointer);
        }
    };
    // SAFETY: no other thread uses the indexes, so nothing in them is freed meanwhile.
    let guard: &Guard = unsafe { unprotected() };
    let mut page = Vec::new();
    if let Some(index) = ordered {
        let mut from = Some(&[][..]);
        while let Some(key) = from {
            from = index.page_forward(Bound::Included(key), &mut page, guard).next;
            page.drain(..).for_each(|record| free(record.pointer()));
        }
    } else if let Some(index) = hash {
        let (mut cursor, mut versions, mut is_left) = (None, Vec::new(), true);
        while is_left {
            cursor = index.page(cursor, &mut page, &mut versions, guard);
            is_left = cursor.is_some();
            versions.clear();
            page.drain(..).for_each(|record| free(record.pointer()));
        }
    }
    // SAFETY: each record is in the index that was walked exactly once; the rest is the caller's promise.
    unsafe { slabs.free_all(freed) };
}

/// Frees a record and its row's blocks.
///
/// # Safety
/// The record is of these slabs and of this layout; no thread uses either any more, and no thread frees them twice.
pub(crate) unsafe fn free_record(layout: &RowLayout, slabs: &Slabs, pointer: RecordPointer) {
    // SAFETY: the caller's promise.
    unsafe {
        free_blocks(layout, slabs, pointer);
        slabs.free(pointer);
    }
}

/// Frees the blocks of a record's row.
///
/// # Safety
/// Same duties as for [`free_record`].
unsafe fn free_blocks(layout: &RowLayout, slabs: &Slabs, pointer: RecordPointer) {
    // SAFETY: the caller's promise.
    let record = unsafe { pointer.as_record() };
    let extension = layout.extension_bytes(record) as i64;
    slabs.budget().note_blocks(-extension, pointer.to_bits() as usize);
    if !layout.has_blocks() {
        // SAFETY: the caller's promise.
        return unsafe { layout.free_extension(record) };
    }
    // On the stack: any caller's unpinning may come by here, a reader's too.
    for block in layout.blocks_of(record) {
        // SAFETY: the block is alive until it is freed below.
        let bytes = unsafe { block_bytes(block) };
        slabs.budget().note_blocks(-(bytes as i64), pointer.to_bits() as usize);
        // SAFETY: a row's blocks belong to it alone.
        unsafe { free_block(block) };
    }
    // SAFETY: the caller's promise.
    unsafe { layout.free_extension(record) };
}
