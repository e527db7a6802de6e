//! Asking the system for memory in large pages, and giving pages back.
//!
//! When a program touches fresh memory of hundreds of megabytes, the system's work for each page of 4 KiB,
//! and later the processor's walks through its tables, cost more than what the program does with the memory.
//! Large pages (Linux: transparent huge pages of 2 MiB) are five hundred times fewer. It is a hint: where the
//! system has none, or none left, everything stays as it was.

use std::ptr::NonNull;

/// Large pages begin on such boundaries.
pub(crate) const LARGE_PAGE_BYTES: usize = 2 << 20;

/// Says that this memory, of whole large pages, had best be made of them.
///
/// # Safety
/// The memory is the caller's.
#[cfg(all(target_os = "linux", not(any(miri, heddle_model))))]
pub(crate) unsafe fn prefer_large_pages(start: NonNull<u8>, bytes: usize) {
    use rustix::mm::{Advice, madvise};
    debug_assert!(
        start.addr().get().is_multiple_of(LARGE_PAGE_BYTES) && bytes.is_multiple_of(LARGE_PAGE_BYTES)
    );
    // SAFETY: this advice changes no content, and the memory is the caller's, as it promises. A refusal is one of a hint.
    let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxHugepage) };
}

/// Does nothing, where there is no such hint.
///
/// # Safety
/// As above.
#[cfg(not(all(target_os = "linux", not(any(miri, heddle_model)))))]
pub(crate) unsafe fn prefer_large_pages(_: NonNull<u8>, _: usize) {}

/// Has the system clear fresh pages now, so that no thread that touches them has to wait for that. Their contents stay
/// as they are, and other threads may use them meanwhile.
///
/// # Safety
/// The memory is the caller's for as long as the call lasts.
#[cfg(all(target_os = "linux", not(any(miri, heddle_model))))]
pub(crate) unsafe fn clear_pages_now(start: NonNull<u8>, bytes: usize) {
    use rustix::mm::{Advice, madvise};
    // SAFETY: this advice changes no content, and the memory is the caller's, as it promises. Systems before Linux 5.14 refuse
    // it, and clear each page when it is touched.
    let _ = unsafe { madvise(start.as_ptr().cast(), bytes, Advice::LinuxPopulateWrite) };
}

/// Does nothing, where the system has no such request.
///
/// # Safety
/// As above.
#[cfg(not(all(target_os = "linux", not(any(miri, heddle_model)))))]
pub(crate) unsafe fn clear_pages_now(_: NonNull<u8>, _: usize) {}

/// Bound on the size of the system's pages, apart from large ones.
#[cfg(all(target_os = "linux", not(any(miri, heddle_model))))]
const PAGE_BYTES: usize = 64 << 10;

/// Gives the whole pages of free memory back to the system: the memory stays the caller's, and is zero when it is next touched.
///
/// # Safety
/// The memory is the caller's, and nothing that it contains is needed.
#[cfg(all(target_os = "linux", not(any(miri, heddle_model))))]
pub(crate) unsafe fn give_pages_back(start: NonNull<u8>, bytes: usize) {
    use rustix::mm::{Advice, madvise};
    let before = start.addr().get().next_multiple_of(PAGE_BYTES) - start.addr().get();
    let whole = bytes.saturating_sub(before) / PAGE_BYTES * PAGE_BYTES;
    if whole > 0 {
        // SAFETY: the pages are the caller's, which does not need their content, as it promises. A refusal leaves it as it is.
        let _ = unsafe { madvise(start.as_ptr().add(before).cast(), whole, Advice::LinuxDontNeed) };
    }
}

/// Does nothing, where the system has no such request.
///
/// # Safety
/// As above.
#[cfg(not(all(target_os = "linux", not(any(miri, heddle_model)))))]
pub(crate) unsafe fn give_pages_back(_: NonNull<u8>, _: usize) {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    #[test]
    fn memory_keeps_its_content_whatever_the_system_makes_of_the_hint() {
        let layout = Layout::from_size_align(2 * LARGE_PAGE_BYTES, LARGE_PAGE_BYTES).expect("constants");
        // SAFETY: the layout is not empty; each access is inside of it, and it is freed once, at the end.
        unsafe {
            let start = NonNull::new(alloc_zeroed(layout)).expect("memory");
            start.add(5).write(7);
            prefer_large_pages(start, 2 * LARGE_PAGE_BYTES);
            start.add(LARGE_PAGE_BYTES).write(8);
            clear_pages_now(start, 2 * LARGE_PAGE_BYTES);
            let found = [0, 5, LARGE_PAGE_BYTES, 2 * LARGE_PAGE_BYTES - 1].map(|at| start.add(at).read());
            assert_eq!(found, [0, 7, 8, 0]);
            dealloc(start.as_ptr(), layout);
        }
    }

    #[test]
    fn what_lies_around_pages_that_are_given_back_stays() {
        let layout = Layout::from_size_align(LARGE_PAGE_BYTES, 8).expect("constants");
        // SAFETY: the layout is not empty; each access is inside of it, and it is freed once, at the end.
        unsafe {
            let start = NonNull::new(alloc_zeroed(layout)).expect("memory");
            start.add(8).write(5);
            start.add(LARGE_PAGE_BYTES - 9).write(6);
            give_pages_back(start.add(9), LARGE_PAGE_BYTES - 18);
            give_pages_back(start.add(LARGE_PAGE_BYTES / 2), 1);
            start.add(LARGE_PAGE_BYTES / 2).write(7);
            let found = [8, LARGE_PAGE_BYTES / 2, LARGE_PAGE_BYTES - 9].map(|at| start.add(at).read());
            assert_eq!(found, [5, 7, 6]);
            dealloc(start.as_ptr(), layout);
        }
    }
}
