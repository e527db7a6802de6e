//! The memory of a table: its records, its long values, its indexes.
//!
//! Concurrency: a walk over the records that keeps no thread pinned for more than a page, so that it stops neither
//! transactions nor the reclamation of memory. Concurrent changes are counted as the walk meets them.

use crossbeam_epoch::pin;

use super::{ScanPlace, TableCore};
use crate::storage::row::block_bytes;
use crate::storage::word::ABSENT;

/// The memory that a table takes, in bytes.
///
/// Allocators and the system add to it: [`row_bytes`](Self::row_bytes) and the indexes are counted as they lie in memory,
/// long values without what the allocator puts before each of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TableMemory {
    /// Rows that are there.
    pub rows: u64,
    /// Records: head, key, and the row's fixed part. Also those of rows that were deleted and are not reclaimed yet.
    pub row_bytes: u64,
    /// Values that are longer than 7 bytes.
    pub long_value_bytes: u64,
    /// The hash index of the primary key.
    pub hash_index_bytes: u64,
    /// The ordered index of the primary key.
    pub ordered_index_bytes: u64,
    /// Secondary indexes, with the records that they consist of.
    pub secondary_index_bytes: u64,
}

impl TableMemory {
    /// Records and long values.
    pub fn all_row_bytes(&self) -> u64 {
        self.row_bytes + self.long_value_bytes
    }

    /// All indexes.
    pub fn index_bytes(&self) -> u64 {
        self.hash_index_bytes + self.ordered_index_bytes + self.secondary_index_bytes
    }

    /// This many bytes of the table for each of its rows; 0 without rows.
    pub fn per_row(&self, bytes: u64) -> f64 {
        if self.rows == 0 { 0.0 } else { bytes as f64 / self.rows as f64 }
    }
}

impl TableCore {
    /// Walks over the table and adds up what it takes.
    pub(crate) fn memory(&self) -> TableMemory {
        let mut memory = TableMemory {
            hash_index_bytes: self.hash.as_ref().map_or(0, |index| index.bytes()),
            ordered_index_bytes: self.ordered.as_ref().map_or(0, |index| index.bytes()),
            ..TableMemory::default()
        };
        self.add_records(&mut memory);
        for index in &self.secondary {
            memory.secondary_index_bytes += index.table.bytes();
        }
        memory
    }

    /// Bytes that the secondary index of this name takes.
    pub(crate) fn index_memory(&self, name: &str) -> Option<u64> {
        let position = self.definition().indexes().iter().position(|index| index.name == name)?;
        Some(self.secondary.get(position)?.table.bytes())
    }

    /// All that it takes: rows and indexes.
    fn bytes(&self) -> u64 {
        let memory = self.memory();
        memory.all_row_bytes() + memory.index_bytes()
    }

    /// Bytes of memory that its indexes' nodes take, without the records of secondary indexes.
    pub(crate) fn node_bytes(&self) -> u64 {
        self.own_node_bytes() + self.secondary.iter().map(|index| index.table.node_bytes()).sum::<u64>()
    }

    /// Bytes of memory that the nodes of its primary indexes take.
    pub(crate) fn own_node_bytes(&self) -> u64 {
        self.hash.as_ref().map_or(0, |index| index.bytes())
            + self.ordered.as_ref().map_or(0, |index| index.bytes())
    }

    fn add_records(&self, memory: &mut TableMemory) {
        let mut words = vec![0; self.layout.words()];
        let (mut place, mut left) = (ScanPlace::Start, true);
        while left {
            let guard = pin();
            let mut records = Vec::new();
            let next = self.page_at(&place, &mut records, &guard);
            for record in records {
                // SAFETY: the thread is pinned since before it found the record.
                memory.row_bytes += unsafe { record.pointer().bytes() } as u64;
                memory.row_bytes += self.layout.extension_bytes(record) as u64;
                if record.read(&self.layout, &mut words) & ABSENT == 0 {
                    memory.rows += 1;
                    // SAFETY: the row was read whole, and its blocks are retired by epoch.
                    memory.long_value_bytes += self
                        .layout
                        .blocks_of(record)
                        .into_iter()
                        .map(|block| unsafe { block_bytes(block) as u64 })
                        .sum::<u64>();
                }
            }
            left = next.is_some();
            place = next.unwrap_or(ScanPlace::Start);
        }
    }
}
