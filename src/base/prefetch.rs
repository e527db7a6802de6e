//! Asking for a cache line before it is needed.

/// Begins to bring the line at this address into the cache. A hint: any address is allowed, and where the machine
/// has no such instruction (or the interpreter runs), it does nothing.
#[inline]
pub(crate) fn prefetch_line<T>(address: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program sees, and never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
