//! The allocator of the models: freed memory is marked, and not used again before the run ends.
//!
//! So a word that is used after its memory was freed is met with the mark, and the doors say so.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};

/// The mark in every word of freed memory.
pub const FREED: u64 = 0xDEAD_BEEF_DEAD_BEEF;

/// To be a binary's `#[global_allocator]`.
#[derive(Debug)]
pub struct Quarantine;

thread_local! {
    static ON: Cell<bool> = const { Cell::new(false) };
    static FREED_BLOCKS: RefCell<Vec<(*mut u8, Layout)>> = const { RefCell::new(Vec::new()) };
}

/// From here on freed memory is kept; what was kept before goes.
pub(crate) fn begin() {
    ON.set(false);
    for (block, layout) in FREED_BLOCKS.take() {
        // SAFETY: it came from `dealloc`, which kept it.
        unsafe { System.dealloc(block, layout) };
    }
    ON.set(true);
}

/// Freed memory goes at once.
pub(crate) fn end() {
    ON.set(false);
}

// SAFETY: memory comes from the system's allocator and goes back to it, once.
unsafe impl GlobalAlloc for Quarantine {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !ON.try_with(Cell::get).unwrap_or(false) {
            // SAFETY: the caller's promise.
            return unsafe { System.dealloc(block, layout) };
        }
        for at in (0..layout.size() / 8 * 8).step_by(8) {
            // SAFETY: inside the block, which no thread may use any more.
            unsafe { block.add(at).cast::<u64>().write_unaligned(FREED) };
        }
        // The list's own memory is not to be kept. Where the thread is outcome, there is no list: the block is lost.
        ON.set(false);
        let _ = FREED_BLOCKS.try_with(|blocks| blocks.borrow_mut().push((block, layout)));
        ON.set(true);
    }
}
