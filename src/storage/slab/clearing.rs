//! Clearing fresh memory ahead: the system clears a large page (2 MiB on Linux) when it is first touched, which takes it a few hundred
//! microseconds. A thread of its own has that done for the page that transactions will need next, beside them.
//!
//! # Invariants
//! At most one page is cleared ahead of those in use, and only while records are being made: what is idle takes nothing.
//!
//! # Concurrency
//! Whichever thread cuts the first chunk of a page asks for the next one. If it is not cleared when it is needed, whichever thread
//! touches it first clears it, or waits for the part that is being cleared: the system serializes both.

use std::ptr::NonNull;

use parking_lot::{Condvar, Mutex};

use super::REGION_ALIGNMENT;
use crate::base::large_pages::clear_pages_now;

/// The page that is to be cleared.
#[derive(Default)]
pub(super) struct Clearing {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// None: the last one is cleared, or being cleared.
    page: Option<Page>,
    is_stopped: bool,
    /// How many were cleared: for tests.
    #[cfg(test)]
    cleared: usize,
}

struct Page(NonNull<u8>);

// SAFETY: it is an address; what is done with the memory there, the system does.
unsafe impl Send for Page {}

impl Clearing {
    /// This page is needed next; a page that was to be cleared, and is not, has been needed meanwhile.
    pub(super) fn want(&self, page: NonNull<u8>) {
        self.state.lock().page = Some(Page(page));
        self.changed.notify_one();
    }

    /// Has pages cleared, until it is stopped.
    ///
    /// # Safety
    /// Every page that was wanted is there until this returns.
    pub(super) unsafe fn run(&self) {
        let mut state = self.state.lock();
        while !state.is_stopped {
            match state.page.take() {
                None => self.changed.wait(&mut state),
                Some(Page(page)) => {
                    drop(state);
                    // SAFETY: the caller's promise.
                    unsafe { clear_pages_now(page, REGION_ALIGNMENT) };
                    state = self.state.lock();
                    #[cfg(test)]
                    {
                        state.cleared += 1;
                        self.changed.notify_all();
                    }
                }
            }
        }
    }

    /// Ends [`run`](Self::run), also before it has begun.
    pub(super) fn stop(&self) {
        self.state.lock().is_stopped = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::super::{Cutter, SINGLE_CHUNKS, Slabs};
    use crate::storage::word::PLACEHOLDER;

    #[test]
    fn a_page_is_cleared_for_each_that_is_begun_and_records_stay_as_they_are() {
        let slabs = Arc::new(Slabs::default());
        let mut cutter = Cutter::default();
        thread::scope(|scope| {
            scope.spawn(|| slabs.clear_ahead());
            let mut made = Vec::new();
            // Records, until some pages were cleared beside them.
            while slabs.clearing.state.lock().cleared < 5 {
                let key = made.len().to_be_bytes();
                made.push((slabs.make(&mut cutter, PLACEHOLDER, &key, 5), key));
            }
            for (record, key) in &made {
                // SAFETY: the slabs are alive.
                assert_eq!(unsafe { record.as_record() }.key(), key);
            }
            slabs.stop_clearing();
        });
        assert!(slabs.chunks.lock().regions.len() > 1 || slabs.chunks.lock().singles.len() == SINGLE_CHUNKS);
    }

    #[test]
    fn a_small_store_has_nothing_cleared_and_the_thread_ends_also_if_it_begins_late() {
        let slabs = Slabs::default();
        let mut cutter = Cutter::default();
        slabs.make(&mut cutter, PLACEHOLDER, b"key", 3);
        assert!(slabs.clearing.state.lock().page.is_none());
        slabs.stop_clearing();
        slabs.clear_ahead();
        assert_eq!(slabs.clearing.state.lock().cleared, 0);
    }
}
