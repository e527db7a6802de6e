//! Where a commit that needs more of the log than its worker context has reserved gets the rest: from the log, which is above the
//! storage.

/// The room in the log that can still be reserved.
pub(crate) trait LogRoom: Send + Sync {
    /// Reserves so many bytes if that is possible at once: commits ask inside of their sections, where they may not wait.
    fn try_reserve(&self, bytes: usize) -> bool;

    /// Returns what was reserved.
    fn give_back(&self, bytes: usize);
}
