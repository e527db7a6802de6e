//! Versions of records that open snapshots need: a side table, keyed by the address of the record.
//!
//! A snapshot is an epoch: it contains every commit of that epoch and of earlier ones, and none of a later one. It is
//! registered before the global epoch rises above its own ([`Versions::open`]), and may be read once its epoch is sealed.
//! From its registration on, a commit that overwrites or deletes a row that an open snapshot contains preserves that row
//! first ([`Versions::preserve`]). Without an open snapshot, a commit pays one look at one word for each written record.
//!
//! # Invariants
//!
//! - A version is a row image with the epochs [begin, end) in which it was current: `begin` is the epoch of its stamp,
//!   `end` that of the commit that overwrote it. Every row with an open snapshot in that interval is either the record's
//!   current row, or in the table. So **absence is never stored**: a record whose word is above the snapshot's epoch, and
//!   which has no version of that epoch, was absent in it (or the snapshot has failed, which is looked at afterwards).
//! - A record with versions is in its indexes: the collector of deleted records leaves it to the side table, which
//!   removes it with its last version. So an address in the table is that of a live record.
//! - Each version is listed under the newest open snapshot that needs it, and moves to the next older one that needs
//!   it when that is closed. So closing a snapshot costs time for what it alone was the newest to need.
//! - Long values are shared with the record's row by a count in their blocks ([`share_block`]).
//!
//! # Concurrency
//!
//! **No commit misses a snapshot.** A commit reads `bound` after the global epoch. `open` raises `bound` before the
//! global epoch rises above the snapshot's: a commit whose stamp is of a later epoch has seen that epoch, and so the bound.
//!
//! **No reader misses a version.** It is in the table before the first word of the row changes; a reader that has copied a
//! changed word finds it by the argument at [`Versions::read`].
//!
//! **No version outlives the snapshots that need it.** `preserve` decides under the lock of the record's shard. A
//! snapshot is removed from the list before its versions are released, shard by shard: a commit that has the shard's
//! lock first leaves a version that the release finds; one that has it later no longer finds the snapshot.
//!
//! Locks are acquired in this order: `failed`, one shard, `open`, `builds`. None is held for longer than the release of
//! [`RELEASED_AT_ONCE`] versions takes.
//!
//! # Source
//!
//! Silo's snapshot epochs (Tu, Zheng, Kohler, Liskov, Madden, SOSP 2013, section 4.9), with the before-images in a table of
//! their own as in HyPer's version chains (Neumann, Mühlbauer, Kemper, SIGMOD 2015, section 2), since records must not
//! grow.

#[cfg(test)]
mod broken;
mod chain;
mod logged_rows;
mod rows;
mod version_read;
mod watch;

use std::sync::Arc;

use crossbeam_epoch::{Guard, pin};
use crossbeam_utils::CachePadded;
use parking_lot::{Mutex, RwLock};

#[cfg(test)]
pub(crate) use self::broken::Break;
use self::chain::{Released, Shard, Version};
pub(crate) use self::logged_rows::LoggedRows;
pub(crate) use self::rows::{Met, Rows};
pub(crate) use self::version_read::Found;
pub(crate) use self::watch::{IndexKey, Note, Watch};
use crate::base::atomics::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::storage::index_build::IndexBuild;
use crate::storage::reclaim::collect_deleted_record;
use crate::storage::record::Record;
use crate::storage::table::TableCore;
use crate::storage::word::{ABSENT, Stamp};
use crate::storage::workspace::Deleted;

/// The number of locks of the table; a power of two.
const SHARDS: usize = if cfg!(any(test, heddle_model)) { 4 } else { 256 };
/// The most versions that are released while a lock is held.
const RELEASED_AT_ONCE: usize = 64;
/// While a failed snapshot's versions are being released, a commit that preserves one releases this many: memory shrinks.
const RELEASED_PER_PRESERVED: usize = 2;

/// The versions of one store's records, and the snapshots that need them.
pub(crate) struct Versions {
    /// The least record word of the first epoch behind the newest open snapshot; zero while none is open; above every word
    /// while there is a watch.
    bound: CachePadded<AtomicU64>,
    /// Indexes that are being built.
    builds: RwLock<Vec<Arc<IndexBuild>>>,
    /// Open snapshots in the order of their epochs, each with the number of its handles.
    open: RwLock<Vec<(Arc<OpenSnapshot>, usize)>>,
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    /// Snapshots that have failed, and whose versions are being released.
    failed: Mutex<Vec<Arc<OpenSnapshot>>>,
    has_failed: AtomicBool,
    limit_bytes: AtomicU64,
    counts: CachePadded<Counts>,
    #[cfg(test)]
    broken: AtomicUsize,
}

/// Relaxed throughout: numbers through which nothing else is seen.
#[derive(Default)]
struct Counts {
    versions: AtomicU64,
    bytes: AtomicU64,
    failures: AtomicU64,
}

/// A registered snapshot.
#[derive(Debug)]
pub(crate) struct OpenSnapshot {
    epoch: u64,
    /// Set before any version that the snapshot needs is released early.
    failed: AtomicBool,
    /// The bytes of the versions that are listed under it.
    bytes: AtomicU64,
    /// Once it is open no more: the first shard that may have versions listed under it. Relaxed: one thread at a time
    /// releases.
    next_shard: AtomicUsize,
}

impl OpenSnapshot {
    fn new(epoch: u64) -> OpenSnapshot {
        OpenSnapshot {
            epoch,
            failed: AtomicBool::new(false),
            bytes: AtomicU64::new(0),
            next_shard: AtomicUsize::new(0),
        }
    }

    /// The last epoch that the snapshot contains.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns true if versions that it needs have been released, because all versions together exceeded their limit.
    ///
    /// A reader asks after it has looked for a version. Acquire pairs with the release in `fail_oldest`; the lock of the
    /// shard orders a missing version behind it.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }
}

/// The present size of the side table, and the number of snapshots that have failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VersionCounts {
    pub(crate) snapshots: u64,
    pub(crate) versions: u64,
    pub(crate) bytes: u64,
    pub(crate) failures: u64,
}

impl Default for Versions {
    fn default() -> Versions {
        Versions {
            bound: CachePadded::new(AtomicU64::new(0)),
            builds: RwLock::default(),
            open: RwLock::new(Vec::new()),
            shards: (0..SHARDS).map(|_| CachePadded::default()).collect(),
            failed: Mutex::new(Vec::new()),
            has_failed: AtomicBool::new(false),
            limit_bytes: AtomicU64::new(u64::MAX),
            counts: CachePadded::default(),
            #[cfg(test)]
            broken: AtomicUsize::new(Break::Nothing as usize),
        }
    }
}

/// The newest snapshot in `[begin, end)`: the one that a version of that interval is listed under.
fn newest_within(open: &[(Arc<OpenSnapshot>, usize)], begin: u64, end: u64) -> Option<&Arc<OpenSnapshot>> {
    let older = open.partition_point(|(snapshot, _)| snapshot.epoch < end);
    let (newest, _) = open[..older].last()?;
    (newest.epoch >= begin).then_some(newest)
}

impl Versions {
    /// Sets how many bytes versions may take: once, before there are any.
    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    /// The limit in bytes.
    pub(crate) fn limit(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    /// The word below which a record may have to be preserved, or noted for a watch, before it changes.
    ///
    /// Relaxed: a commit asks after it has read the global epoch, which acquires what led to it (see the module's
    /// argument).
    #[inline]
    pub(crate) fn bound(&self) -> u64 {
        self.bound.load(Ordering::Relaxed)
    }

    /// Registers a snapshot of this epoch, which must be the global one: before that rises, or while no commit section
    /// can be entered with it any more. Only the log stage calls it, with epochs that do not fall.
    pub(crate) fn open(&self, epoch: u64) -> Arc<OpenSnapshot> {
        #[cfg(test)]
        let epoch = epoch - u64::from(self.is_broken(Break::IsTooEarly));
        let mut open = self.open.write();
        if let Some((newest, handles)) = open.last_mut()
            && newest.epoch == epoch
        {
            *handles += 1;
            return newest.clone();
        }
        let snapshot = Arc::new(OpenSnapshot::new(epoch));
        open.push((snapshot.clone(), 1));
        self.renew_bound(&open);
        snapshot
    }

    /// Closes one handle of a snapshot; with the last one, releases the versions that no other snapshot needs.
    pub(crate) fn close(&self, snapshot: &OpenSnapshot) {
        {
            let mut open = self.open.write();
            let found = open.iter().position(|(other, _)| std::ptr::eq(&raw const **other, snapshot));
            if let Some(found) = found {
                open[found].1 -= 1;
                if open[found].1 > 0 {
                    return;
                }
                open.remove(found);
                self.renew_bound(&open);
            }
        }
        if snapshot.has_failed() {
            while self.has_failed.load(Ordering::Relaxed) {
                self.release_failed(&mut self.failed.lock(), RELEASED_AT_ONCE, &pin());
            }
            return;
        }
        while self.release(snapshot, RELEASED_AT_ONCE, &pin()) {}
    }

    /// Release: pairs with the acquire of the global epoch, which rises afterwards.
    fn renew_bound(&self, open: &[(Arc<OpenSnapshot>, usize)]) {
        let snapshots = open.last().map_or(0, |(newest, _)| Stamp::new(newest.epoch + 1, 0).present());
        let bound = if self.builds.read().is_empty() { snapshots } else { u64::MAX };
        self.bound.store(bound, Ordering::Release);
    }

    /// Returns true if a snapshot is open that does not contain this epoch.
    pub(crate) fn has_snapshot_before(&self, epoch: u64) -> bool {
        self.open.read().first().is_some_and(|(oldest, _)| oldest.epoch < epoch)
    }

    /// Returns true if there is a version of a record of these tables.
    pub(crate) fn has_versions_of(&self, is_one: impl Fn(&TableCore) -> bool) -> bool {
        // Relaxed: no version of a table's records is added once transactions do not use it any more.
        self.counts.versions.load(Ordering::Relaxed) > 0
            && self.shards.iter().any(|shard| shard.lock().has_versions_of(&is_one))
    }

    /// The counts of the table.
    pub(crate) fn counts(&self) -> VersionCounts {
        VersionCounts {
            snapshots: self.open.read().len() as u64,
            versions: self.counts.versions.load(Ordering::Relaxed),
            bytes: self.counts.bytes.load(Ordering::Relaxed),
            failures: self.counts.failures.load(Ordering::Relaxed),
        }
    }

    #[inline]
    fn shard(&self, record: u64) -> &Mutex<Shard> {
        // Records lie at regular distances; the upper half of a product with the golden ratio spreads them.
        let spread = (record >> 3).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.shards[spread as usize & (SHARDS - 1)]
    }

    /// Keeps the row that a commit with this stamp will overwrite or delete, if an open snapshot needs it. The record
    /// is held, its word was `word`, and its row has not been changed yet.
    #[cold]
    #[inline(never)]
    pub(crate) fn preserve(
        &self,
        table: &TableCore,
        record: Record<'_>,
        word: u64,
        stamp: Stamp,
        guard: &Guard,
    ) {
        // The rest is for open snapshots, and this may be asked for a watch only.
        if word & ABSENT != 0 || self.open.read().is_empty() {
            return;
        }
        let (begin, end) = (Stamp::of(word).epoch(), stamp.epoch());
        #[cfg(test)]
        if self.loses_one() {
            return;
        }
        {
            let mut shard = self.shard(record.pointer().to_bits()).lock();
            let open = self.open.read();
            let Some(needed_by) = newest_within(&open, begin, end) else { return };
            let version = Version::of(table, record, begin, end);
            needed_by.bytes.fetch_add(version.bytes(), Ordering::Relaxed);
            self.counts.versions.fetch_add(1, Ordering::Relaxed);
            self.counts.bytes.fetch_add(version.bytes(), Ordering::Relaxed);
            shard.push(table, record, version, needed_by.epoch);
        }
        if self.counts.bytes.load(Ordering::Relaxed) > self.limit() {
            self.fail_oldest();
        }
        if self.has_failed.load(Ordering::Relaxed)
            && let Some(mut failed) = self.failed.try_lock()
        {
            self.release_failed(&mut failed, RELEASED_PER_PRESERVED, guard);
        }
    }

    /// Fails the oldest snapshots until what the others need is within the limit. A commit calls it, so it does not block:
    /// while another thread is at it, or releases versions, that is enough.
    fn fail_oldest(&self) {
        let Some(mut failed) = self.failed.try_lock() else { return };
        let released: u64 = failed.iter().map(|snapshot| snapshot.bytes.load(Ordering::Relaxed)).sum();
        let mut kept = self.counts.bytes.load(Ordering::Relaxed).saturating_sub(released);
        let mut open = self.open.write();
        while kept > self.limit() && !open.is_empty() {
            let (oldest, _) = open.remove(0);
            // Release pairs with the acquire in `OpenSnapshot::has_failed`.
            oldest.failed.store(true, Ordering::Release);
            kept = kept.saturating_sub(oldest.bytes.load(Ordering::Relaxed));
            failed.push(oldest);
            self.counts.failures.fetch_add(1, Ordering::Relaxed);
            self.has_failed.store(true, Ordering::Relaxed);
        }
        self.renew_bound(&open);
    }

    /// Releases some versions of snapshots that have failed.
    fn release_failed(&self, failed: &mut Vec<Arc<OpenSnapshot>>, most: usize, guard: &Guard) {
        if let Some(snapshot) = failed.last().cloned()
            && !self.release(&snapshot, most, guard)
        {
            failed.pop();
        }
        self.has_failed.store(!failed.is_empty(), Ordering::Relaxed);
    }

    /// Releases at most this many of the versions listed under a snapshot, which is in the list of open ones no more.
    /// Whether there may be others.
    fn release(&self, snapshot: &OpenSnapshot, most: usize, guard: &Guard) -> bool {
        let mut left = most;
        let mut deleted = Vec::new();
        let mut at = snapshot.next_shard.load(Ordering::Relaxed);
        while at < SHARDS && left > 0 {
            let mut shard = self.shards[at].lock();
            let open = self.open.read();
            let needed_by = |begin, end| newest_within(&open, begin, end).map(|newest| newest.epoch);
            let mut is_empty = false;
            while left > 0 && !is_empty {
                match shard.release_one(snapshot.epoch, needed_by) {
                    Some(released) => {
                        left -= 1;
                        self.account(snapshot, &open, &released);
                        deleted.extend(released.free(guard));
                    }
                    None => is_empty = true,
                }
            }
            at += usize::from(is_empty);
        }
        snapshot.next_shard.store(at, Ordering::Relaxed);
        deleted.iter().for_each(|deleted| collect_deleted_record(deleted, guard));
        // What was retired does not wait for this thread's next transactions.
        guard.flush();
        at < SHARDS
    }

    /// Accounts for a version that has left the list of a snapshot.
    fn account(&self, from: &OpenSnapshot, open: &[(Arc<OpenSnapshot>, usize)], released: &Released) {
        let bytes = released.bytes();
        match released {
            Released::Version { .. } => {
                self.counts.versions.fetch_sub(1, Ordering::Relaxed);
                self.counts.bytes.fetch_sub(bytes, Ordering::Relaxed);
            }
            Released::Moved { to, .. } => {
                let at = open.partition_point(|(snapshot, _)| snapshot.epoch < *to);
                if let Some((to, _)) = open.get(at) {
                    to.bytes.fetch_add(bytes, Ordering::Relaxed);
                }
            }
        }
        from.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Takes over a deleted record whose delete is durable, if a snapshot needs a version of it: it stays in its
    /// indexes until the last version is released. Gives it back if it can be removed now.
    pub(crate) fn keep_deleted(&self, record: Record<'_>, deleted: Deleted) -> Option<Deleted> {
        // Relaxed: the thread that deleted the record has counted its version, and is this one.
        if self.counts.versions.load(Ordering::Relaxed) == 0 {
            return Some(deleted);
        }
        self.shard(record.pointer().to_bits()).lock().keep_deleted(record, deleted)
    }
}

#[cfg(test)]
mod tests;
