//! Memory that pinned threads may still use: retired to the collector, and collected in step with new garbage.
//!
//! The collector (crossbeam-epoch) frees a bounded number of objects in every 128th pin of a thread. A transaction that
//! inserts a thousand rows, or a group of transactions under one pin, retires more than that: its garbage would grow for as
//! long as the load lasts (measured: half as much memory as the ordered index, with a thousand inserts in a transaction). So
//! each thread counts what it retires, and has as much collected when a transaction, or a group of them, ends, with nothing locked.

use std::cell::Cell;

use crossbeam_epoch::Guard;

/// The number of retired objects below which nothing is collected: a bag of the collector's holds as many.
const MANY: u32 = 64;
/// The most objects that one advance of the collector frees.
const FREED_AT_ONCE: u32 = 8 * MANY;

thread_local! {
    /// The number of objects that this thread has retired since it last had some collected.
    static RETIRED: Cell<u32> = const { Cell::new(0) };
}

/// Calls `free` when every thread that is pinned now has unpinned.
///
/// # Safety
/// What `free` frees can be found by no thread that pins from now on, and may be freed on any thread.
#[inline]
pub(crate) unsafe fn retire(guard: &Guard, free: impl FnOnce()) {
    RETIRED.with(|retired| retired.set(retired.get().saturating_add(1)));
    // SAFETY: the caller's promise.
    unsafe { guard.defer_unchecked(free) };
}

/// Frees what pinned threads have let go, as much as this thread has retired since the last time, if that is a lot. For a
/// thread that has locked nothing.
#[inline]
pub(crate) fn collect(guard: &Guard) {
    if RETIRED.with(Cell::get) >= MANY {
        collect_some(guard);
    }
}

#[cold]
fn collect_some(guard: &Guard) {
    let retired = RETIRED.with(|retired| retired.replace(0));
    (0..retired.div_ceil(FREED_AT_ONCE)).for_each(|_| guard.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_objects_wait_for_more() {
        let guard = crossbeam_epoch::pin();
        collect(&guard);
        // SAFETY: nothing is freed.
        (0..MANY - 1).for_each(|_| unsafe { retire(&guard, || ()) });
        collect(&guard);
        assert_eq!(RETIRED.get(), MANY - 1);
        // SAFETY: as above.
        unsafe { retire(&guard, || ()) };
        collect(&guard);
        assert_eq!(RETIRED.get(), 0);
    }
}
