//! The versions of one record, and the part of the side table behind one lock.
//!
//! # Invariants
//!
//! - The intervals of a record's versions are disjoint and not empty, and in the order of their epochs.
//! - Each version is listed once, under one snapshot of the shard's `listed`.

use std::collections::BTreeMap;

use crossbeam_epoch::Guard;
use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::storage::reclaim::retire_block;
use crate::storage::record::Record;
use crate::storage::row::{RowLayout, block_bytes, share_block};
use crate::storage::table::TableCore;
use crate::storage::workspace::Deleted;

/// The bytes of a version beside its words and blocks: its places in the tables, and the allocator's share.
const OVERHEAD_BYTES: u64 = 128;

/// A row as it was in the epochs `[begin, end)`.
pub(super) struct Version {
    begin: u64,
    end: u64,
    /// The row's words, whose blocks the version shares.
    words: Box<[u64]>,
    bytes: u64,
}

/// All versions of one record.
struct Chain {
    /// The record's table; the store keeps every table while there are versions of its records.
    table: *const TableCore,
    versions: SmallVec<[Version; 1]>,
    /// The deleted record, if it stays in its indexes only for the sake of its versions.
    deleted: Option<KeptRecord>,
}

/// A deleted record that is kept.
struct KeptRecord {
    deleted: Deleted,
    /// The bytes that it takes, which count as versions' memory and not as rows'.
    bytes: i64,
}

/// A part of the side table.
#[derive(Default)]
pub(super) struct Shard {
    /// The chains, by the addresses of their records.
    chains: HashMap<u64, Chain>,
    /// The versions that are listed under each snapshot: their records, and the ends of their intervals.
    listed: BTreeMap<u64, Vec<(u64, u64)>>,
}

// SAFETY: the table pointers are only used while the store, which owns the tables, is alive; the rest is plain data.
unsafe impl Send for Shard {}

/// The outcome for a version that was listed under a closed snapshot.
pub(super) enum Released {
    /// The version is needed no more; and the record, if it was kept for the sake of this last version of it.
    Version { version: Version, table: *const TableCore, deleted: Option<Deleted> },
    /// The version is needed by an older snapshot.
    Moved { to: u64, bytes: u64 },
}

impl Version {
    /// A copy of the record's row, which is held. Its blocks have one owner more.
    pub(super) fn of(table: &TableCore, record: Record<'_>, begin: u64, end: u64) -> Version {
        let words: Box<[u64]> = table.layout().held_row(record).into_vec().into_boxed_slice();
        let mut bytes = OVERHEAD_BYTES + 8 * words.len() as u64;
        for block in table.layout().blocks(&words) {
            // SAFETY: the row's blocks are alive while the record is held, and they are on the heap.
            bytes += unsafe {
                share_block(block);
                block_bytes(block) as u64
            };
        }
        Version { begin, end, words, bytes }
    }

    /// The number of its bytes: a long value counts for each version that has it.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Shard {
    /// Adds a record's newest version, and lists it under a snapshot.
    pub(super) fn push(&mut self, table: &TableCore, record: Record<'_>, version: Version, snapshot: u64) {
        let address = record.pointer().to_bits();
        self.listed.entry(snapshot).or_default().push((address, version.end));
        let chain = self.chains.entry(address).or_insert_with(|| Chain {
            table: std::ptr::from_ref(table),
            versions: SmallVec::new(),
            deleted: None,
        });
        // Its newest definition: it has the columns of all versions.
        chain.table = std::ptr::from_ref(table);
        debug_assert!(chain.versions.last().is_none_or(|last| last.end <= version.begin));
        chain.versions.push(version);
    }

    /// Returns true if there is a version of a record of these tables.
    pub(super) fn has_versions_of(&self, is_one: impl Fn(&TableCore) -> bool) -> bool {
        // SAFETY: the store keeps the table.
        self.chains.values().any(|chain| is_one(unsafe { &*chain.table }))
    }

    /// Copies the words of a record's version in this epoch, as this layout has them; returns the epoch in which it was written.
    pub(super) fn find(&self, layout: &RowLayout, record: u64, epoch: u64, copy: &mut [u64]) -> Option<u64> {
        let versions = &self.chains.get(&record)?.versions;
        let version = versions.iter().rev().find(|version| version.begin <= epoch && epoch < version.end)?;
        let words = version.words.len().min(copy.len());
        copy[..words].copy_from_slice(&version.words[..words]);
        layout.complete(copy, words);
        Some(version.begin)
    }

    /// Takes one version off the list of a closed snapshot, if there is one. `needed_by` names the newest open snapshot in an
    /// interval.
    pub(super) fn release_one(
        &mut self,
        snapshot: u64,
        needed_by: impl Fn(u64, u64) -> Option<u64>,
    ) -> Option<Released> {
        let list = self.listed.get_mut(&snapshot)?;
        let Some((record, end)) = list.pop() else {
            self.listed.remove(&snapshot);
            return None;
        };
        let chain = self.chains.get_mut(&record)?;
        let at = chain.versions.iter().position(|version| version.end == end)?;
        let Version { begin, bytes, .. } = chain.versions[at];
        if let Some(to) = needed_by(begin, end) {
            self.listed.entry(to).or_default().push((record, end));
            return Some(Released::Moved { to, bytes });
        }
        let (version, table) = (chain.versions.remove(at), chain.table);
        let mut deleted = None;
        if chain.versions.is_empty()
            && let Some(chain) = self.chains.remove(&record)
        {
            deleted = chain.deleted.map(|kept| kept.give_back());
        }
        Some(Released::Version { version, table, deleted })
    }

    /// Takes over a deleted record, if it has versions.
    pub(super) fn keep_deleted(&mut self, record: Record<'_>, deleted: Deleted) -> Option<Deleted> {
        let Some(chain) = self.chains.get_mut(&record.pointer().to_bits()) else { return Some(deleted) };
        // SAFETY: the store keeps the table.
        let bytes = counted_bytes(unsafe { &*deleted.table }, record);
        if let Some(before) = chain.deleted.replace(KeptRecord::new(deleted, bytes)) {
            // An earlier delete of a record that has been inserted again since: nothing is left of it.
            before.give_back();
        }
        None
    }
}

/// The bytes of a record that count towards the rows' memory limit. It has not been freed, and the caller is pinned.
fn counted_bytes(table: &TableCore, record: Record<'_>) -> i64 {
    // SAFETY: the record has not been freed.
    let mut bytes = unsafe { record.pointer().bytes() } as i64;
    if table.slabs().budget().is_limited() && table.layout().has_blocks() {
        // If the record is being inserted again, the number is not exact. It is only returned as it was charged.
        let blocks = table.layout().blocks_of(record).into_iter();
        // SAFETY: a block that leaves its row now is freed once the caller has unpinned.
        bytes += blocks.map(|block| unsafe { block_bytes(block) } as i64).sum::<i64>();
    }
    bytes
}

impl KeptRecord {
    fn new(deleted: Deleted, bytes: i64) -> KeptRecord {
        let kept = KeptRecord { deleted, bytes };
        kept.note(-bytes);
        kept
    }

    fn give_back(self) -> Deleted {
        self.note(self.bytes);
        self.deleted
    }

    /// Changes what the rows' memory limit counts: a record that only snapshots need must not make an insert fail.
    fn note(&self, bytes: i64) {
        // SAFETY: the store keeps the table.
        unsafe { &*self.deleted.table }.slabs().budget().note_records(bytes);
    }
}

impl Released {
    /// The number of the version's bytes.
    pub(super) fn bytes(&self) -> u64 {
        match self {
            Released::Version { version, .. } => version.bytes,
            Released::Moved { bytes, .. } => *bytes,
        }
    }

    /// Gives the version's blocks up, if it is needed no more; readers that are pinned now may still use them. Gives back the
    /// record that can be removed now.
    pub(super) fn free(self, guard: &Guard) -> Option<Deleted> {
        let Released::Version { version, table, deleted } = self else { return None };
        // SAFETY: the store keeps the table.
        for block in unsafe { &*table }.layout().blocks(&version.words) {
            retire_block(block, guard);
        }
        deleted
    }
}
