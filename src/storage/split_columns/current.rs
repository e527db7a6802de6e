//! The set of split columns in force, which readers reach without a lock.

use std::ptr;
use std::sync::Arc;

use crossbeam_epoch::Guard;

use super::split_set::SplitSet;
use crate::base::atomics::{AtomicBool, AtomicPtr, Ordering};

/// The present set of split columns of a store; none in joined phases.
pub(crate) struct Splits {
    /// A box of the set; null: none.
    current: AtomicPtr<Arc<SplitSet>>,
    /// True if a column's policy has ever been that its rows are always split.
    notes_operations: AtomicBool,
}

impl Default for Splits {
    fn default() -> Splits {
        Splits { current: AtomicPtr::new(ptr::null_mut()), notes_operations: AtomicBool::new(false) }
    }
}

impl Splits {
    /// The present set.
    #[inline]
    pub(crate) fn current<'g>(&self, _guard: &'g Guard) -> Option<&'g Arc<SplitSet>> {
        // Acquire pairs with the release in `replace`.
        let current = self.current.load(Ordering::Acquire);
        // SAFETY: it is null or came from a box; one that is replaced is dropped only when every thread that was
        // pinned then has unpinned.
        unsafe { current.as_ref() }
    }

    /// Returns true if commits note operations on columns whose rows are always split.
    #[inline]
    pub(crate) fn notes_operations(&self) -> bool {
        // Relaxed, here and below: a commit that misses it notes nothing, and the next one does.
        self.notes_operations.load(Ordering::Relaxed)
    }

    /// Has commits note operations on columns whose rows are always split.
    pub(crate) fn note_operations(&self) {
        self.notes_operations.store(true, Ordering::Relaxed);
    }

    /// Puts another set in its place. The caller has closed the gate and waited for all.
    pub(crate) fn replace(&self, set: Option<Arc<SplitSet>>, guard: &Guard) {
        let new = set.map_or(ptr::null_mut(), |set| Box::into_raw(Box::new(set)));
        let old = self.current.swap(new, Ordering::AcqRel);
        if !old.is_null() {
            let old = Retired(old);
            // SAFETY: it came from a box, it has just been taken out by the only thread that may, and only threads
            // that are pinned now can still use it.
            unsafe { guard.defer_unchecked(move || old.free()) };
        }
    }
}

/// A set on its way out.
struct Retired(*mut Arc<SplitSet>);

// SAFETY: a set may be dropped by any thread: it is made of what may be sent.
unsafe impl Send for Retired {}

impl Retired {
    /// # Safety
    /// It came from a box, and no thread uses it any more.
    unsafe fn free(self) {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl Drop for Splits {
    fn drop(&mut self) {
        let current = *self.current.get_mut();
        if !current.is_null() {
            // SAFETY: it came from a box, and the store is not shared any more.
            unsafe { Retired(current).free() };
        }
    }
}
