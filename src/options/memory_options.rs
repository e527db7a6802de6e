//! Options of memory: the limits on rows and their versions.

/// Options of memory, for [`Options::memory`](crate::Options::memory).
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    pub(crate) limit: Option<u64>,
    pub(crate) snapshot_limit: u64,
    pub(crate) counts_long_values: bool,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        MemoryOptions { limit: None, snapshot_limit: 1 << 30, counts_long_values: false }
    }
}

impl MemoryOptions {
    /// The limit on the memory of rows, in bytes: records, and their values of more than 7 bytes, but not indexes,
    /// buffers and threads, which are added to it. Beyond it inserts, and updates that write long values,
    /// fail with [`Error::MemoryFull`](crate::Error::MemoryFull); reads, deletes and all other updates
    /// succeed. Deleted rows make room within a tenth of a second of being durable, unless a transaction that
    /// is still running may read them. The limit is kept to within a few hundred kilobytes. A database that
    /// is larger can be opened. Default: no limit.
    #[must_use]
    pub fn limit(mut self, bytes: u64) -> Self {
        self.limit = Some(bytes);
        self
    }

    /// Includes values of more than 7 bytes in [`Statistics::memory_bytes`](crate::Statistics::memory_bytes) without a
    /// [`limit`](Self::limit), too; commits that write such values count them then. Default: no.
    #[must_use]
    pub fn count_long_values(mut self, counted: bool) -> Self {
        self.counts_long_values = counted;
        self
    }

    /// The limit on the memory of row versions that only open snapshots need
    /// ([`Database::snapshot`](crate::Database::snapshot)), in bytes, apart from [`limit`](Self::limit); a long value
    /// counts for each version that has it. Beyond it the oldest snapshot fails with
    /// [`Error::SnapshotTooOld`](crate::Error::SnapshotTooOld); transactions continue. Default: 1 GiB.
    #[must_use]
    pub fn snapshot_limit(mut self, bytes: u64) -> Self {
        self.snapshot_limit = bytes;
        self
    }
}
