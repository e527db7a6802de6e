//! The working memory of a worker context's thread while it runs a call; kept from call to call, so that a call
//! allocates nothing that the one before it has allocated.

use std::sync::Arc;

use crate::diagnostics::recent_counts::SampleGaps;
use crate::storage::record::RecordPointer;
use crate::storage::redo::LoadedRedo;
use crate::storage::schema::SchemaChange;
use crate::storage::slab::Cutter;
use crate::storage::table::TableCore;
use crate::storage::word::Stamp;
use crate::storage::write_set::WriteSet;
use crate::types::key::EncodedKey;

/// The buffers and the memory of one worker context.
#[derive(Default)]
pub(crate) struct Workspace {
    /// The buffered writes.
    pub(crate) writes: WriteSet,
    /// The schema changes of the transaction.
    pub(crate) schema: Vec<SchemaChange>,
    /// Redo of the call, before its stamp is known.
    pub(crate) redo: Vec<u8>,
    /// Redo of rows that it has loaded, which is behind that.
    pub(crate) loaded: Option<Arc<LoadedRedo>>,
    /// Memory for the records that it makes.
    pub(crate) cutter: Cutter,
    /// The stamp of the last commit made here.
    pub(crate) last_stamp: Stamp,
    /// Bytes of log space that are reserved for this worker context's commits.
    pub(crate) log_credit: usize,
    /// Placeholders that the call put into indexes. The call is pinned until they are dealt with.
    pub(crate) placeholders: Vec<Placeholder>,
    /// Deleted records that wait to be taken out of the indexes.
    pub(crate) deleted: Vec<Deleted>,
    /// The gaps between commits of which the written rows are noted.
    pub(crate) sample_gaps: SampleGaps,
}

/// A placeholder that the running call made.
#[derive(Clone, Copy)]
pub(crate) struct Placeholder {
    pub(crate) record: RecordPointer,
    /// Its table; the store keeps every table until the last worker context is gone.
    pub(crate) table: *const TableCore,
}

// SAFETY: the table pointer is only used while the store, which owns the table, is alive; a record belongs to no thread.
unsafe impl Send for Placeholder {}

/// A deleted record, by its key: the record itself may have been filled, deleted and freed again in the meantime.
pub(crate) struct Deleted {
    pub(crate) table: *const TableCore,
    pub(crate) key: EncodedKey,
    /// The word that made it absent: a record of that key with another word is no leftover of this delete.
    pub(crate) word: u64,
}

// SAFETY: as for a placeholder; the rest is plain data.
unsafe impl Send for Deleted {}

// SAFETY: the table pointers are only used while the store, which owns the tables, is alive; the rest is plain data.
unsafe impl Send for Workspace {}

impl Workspace {
    /// Frees the buffers that are empty between calls.
    pub(crate) fn free_buffers(&mut self) {
        self.writes.free();
        self.redo = Vec::new();
        self.placeholders.shrink_to_fit();
        self.deleted.shrink_to_fit();
    }

    /// Makes ready for the next call or attempt.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.writes.clear();
        self.redo.clear();
        self.loaded = None;
        if !self.schema.is_empty() {
            self.schema.clear();
        }
    }
}
