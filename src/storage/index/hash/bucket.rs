//! One cache line of the index: a version word and seven slots for entries.
//!
//! A bucket that needs more room gets an overflow bucket, whose address takes the place of its last entry; that entry is in
//! the overflow bucket by then. No other entry moves inside a chain, an insert and a removal are one store each, and overflow
//! buckets stay linked until their segment is retired. So a thread that walks a chain without a lock, and loads each slot
//! once, meets every entry that is present throughout; the version word of the chain's first bucket, which every change
//! raises, tells whether the whole walk saw one state.
//!
//! The version word: bit 0 locked (a writer is in its few instructions), bit 1 frozen (the segment is being split:
//! writers wait, readers go on), bit 2 moved (the entries live elsewhere now, forever), the rest a counter.

use std::ptr::NonNull;

use crossbeam_epoch::Guard;
use crossbeam_utils::Backoff;

use super::entry;
use crate::base::atomics::{AtomicU64, Ordering, fence};
use crate::diagnostics::activity::snooze;
use crate::storage::index::NodeVersion;
use crate::storage::index::pool::Pool;
use crate::storage::record::{Record, RecordPointer};

const LOCKED: u64 = 1;
const FROZEN: u64 = 2;
const MOVED: u64 = 4;
/// One change of the bucket.
const STEP: u64 = 8;

/// The number of slots: with the version word they fill one cache line.
const SLOTS: usize = 7;

/// See the module's description.
#[repr(C, align(64))]
pub(super) struct Bucket {
    /// The version word, which is not used in overflow buckets.
    version: AtomicU64,
    /// Entries, but for the last one, which may be the link to a bucket that this one owns, in the index's memory.
    slots: [AtomicU64; SLOTS],
}

const _: () = assert!(size_of::<Bucket>() == 64);

/// The result of an optimistic lookup in a bucket.
#[derive(Debug)]
pub(super) enum BucketLookup<'g> {
    Found(Record<'g>),
    /// Not there, as of this version word.
    Missing(u64),
    /// The bucket's entries are in another segment now: ask the directory again.
    Moved,
}

impl Bucket {
    /// An empty bucket.
    pub(super) const fn new() -> Self {
        Bucket { version: AtomicU64::new(0), slots: [const { AtomicU64::new(entry::EMPTY) }; SLOTS] }
    }

    /// The version word, as the node that a lookup here depends on.
    pub(super) fn node_version(&self, observed: u64) -> NodeVersion<'_> {
        NodeVersion::new(&self.version, observed)
    }

    /// The overflow bucket to which this word of a last slot leads, if it is a link.
    #[inline(always)]
    fn linked(&self, word: u64) -> Option<&Bucket> {
        // SAFETY: an overflow bucket is linked whole, and freed only with the segment of the bucket that owns it, which
        // is borrowed here.
        entry::link(word).map(|bucket| unsafe { &*bucket })
    }

    /// The slots of the whole chain but for links, each with what it has; each is loaded once.
    ///
    /// Acquire pairs with the release with which a writer stores an entry or a link: the record's key, or the overflow bucket,
    /// is seen, and so is the locked version word under which it was stored.
    fn slots(&self) -> impl Iterator<Item = (&AtomicU64, u64)> {
        let mut at = Some((self, 0));
        std::iter::from_fn(move || {
            loop {
                let (bucket, number) = at?;
                let slot = &bucket.slots[number];
                let word = slot.load(Ordering::Acquire);
                if let Some(next) = self.linked(word) {
                    at = Some((next, 0));
                    continue;
                }
                at = (number + 1 < SLOTS).then_some((bucket, number + 1));
                return Some((slot, word));
            }
        })
    }

    /// The entries of the whole chain.
    pub(super) fn entries(&self) -> impl Iterator<Item = u64> {
        self.slots().map(|(_, word)| word).filter(|&word| word != entry::EMPTY)
    }

    /// The record with this key, in one walk without a look at the version.
    #[inline(always)]
    pub(super) fn find<'g>(&'g self, tag: u64, key: &[u8], _guard: &'g Guard) -> Option<Record<'g>> {
        let mut bucket = self;
        'chain: loop {
            for (number, slot) in bucket.slots.iter().enumerate() {
                // Acquire: as in `slots`.
                let found = slot.load(Ordering::Acquire);
                if number == SLOTS - 1
                    && let Some(next) = self.linked(found)
                {
                    bucket = next;
                    continue 'chain;
                }
                if !entry::has_tag(found, tag) {
                    continue;
                }
                let Some(pointer) = entry::record(found) else { continue };
                // SAFETY: a record leaves the index before it is retired, and the caller is pinned since before it
                // came to this bucket (argued in the folder's description).
                let record = unsafe { pointer.as_record() };
                if record.has_key(key) {
                    return Some(record);
                }
            }
            return None;
        }
    }

    /// Looks the key up without writing anything. A hit never waits; a miss waits while the bucket is locked.
    #[inline]
    pub(super) fn lookup<'g>(&'g self, tag: u64, key: &[u8], guard: &'g Guard) -> BucketLookup<'g> {
        let backoff = Backoff::new();
        loop {
            // Acquire pairs with the release in `BucketLock::drop`: the walk sees at least this version's entries.
            let before = self.version.load(Ordering::Acquire);
            if before & MOVED != 0 {
                return BucketLookup::Moved;
            }
            if let Some(record) = self.find(tag, key, guard) {
                return BucketLookup::Found(record);
            }
            if before & LOCKED == 0 && self.is_still(before) {
                return BucketLookup::Missing(before);
            }
            snooze(&backoff);
        }
    }

    /// Returns true if nothing changed between the load of `before` and the caller's latest reads of entries.
    fn is_still(&self, before: u64) -> bool {
        // The fence keeps the reads of the entries before this look at the word: a writer locks before it stores an
        // entry with release, so a thread that read its entry sees here that it locked.
        fence(Ordering::Acquire);
        self.version.load(Ordering::Relaxed) == before
    }

    /// Appends all records of the chain, as of the version answered; None (and nothing appended) once moved.
    pub(super) fn collect<'g>(&'g self, out: &mut Vec<Record<'g>>, _guard: &'g Guard) -> Option<u64> {
        let backoff = Backoff::new();
        let length = out.len();
        loop {
            // Acquire: as in `lookup`.
            let before = self.version.load(Ordering::Acquire);
            if before & MOVED != 0 {
                return None;
            }
            // SAFETY: as in `find`.
            out.extend(
                self.entries().filter_map(entry::record).map(|pointer| unsafe { pointer.as_record() }),
            );
            if before & LOCKED == 0 && self.is_still(before) {
                return Some(before);
            }
            out.truncate(length);
            snooze(&backoff);
        }
    }

    /// Locks the bucket for a change; None once its entries have moved.
    pub(super) fn lock(&self) -> Option<BucketLock<'_>> {
        let before = self.take(LOCKED)?;
        Some(BucketLock { bucket: self, before, changed: false })
    }

    /// Keeps writers out until the entries have moved.
    ///
    /// Only the splitter, of which there is one at a time, does this; so the bucket is not moved already.
    pub(super) fn freeze(&self) {
        let _ = self.take(FROZEN);
    }

    /// Sets the bit as soon as neither lock nor freeze is in the way; answers the word before.
    fn take(&self, bit: u64) -> Option<u64> {
        let backoff = Backoff::new();
        loop {
            // Relaxed: the exchange below acquires; a moved bit sends the caller to the directory, and pairs with
            // the release in `set_moved`, hence the fence there.
            let word = self.version.load(Ordering::Relaxed);
            if word & MOVED != 0 {
                fence(Ordering::Acquire);
                return None;
            }
            // Acquire pairs with the release in `BucketLock::drop` and `thaw`: the latest entries are seen.
            if word & (LOCKED | FROZEN) == 0
                && self
                    .version
                    .compare_exchange_weak(word, word | bit, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return Some(word);
            }
            snooze(&backoff);
        }
    }

    /// Says that the entries live elsewhere; for the splitter, after `freeze`.
    ///
    /// Release pairs with the acquire of a thread that finds the bit set: it then finds the new segments in the directory.
    pub(super) fn set_moved(&self) {
        let word = self.version.load(Ordering::Relaxed);
        self.version.store((word | MOVED) + STEP, Ordering::Release);
    }

    /// Lets writers in after `freeze`; for the splitter, which owns the new buckets until then.
    ///
    /// Release pairs with the acquire in `take`.
    pub(super) fn thaw(&self) {
        let word = self.version.load(Ordering::Relaxed);
        self.version.store((word & !FROZEN) + STEP, Ordering::Release);
    }

    /// Returns true if writers are kept out for a split.
    #[cfg(test)]
    pub(super) fn is_frozen(&self) -> bool {
        self.version.load(Ordering::Relaxed) & FROZEN != 0
    }

    /// Stores the entry in an empty place of the chain, if there is one; only while locked or not yet shared.
    fn put(&self, new: u64) -> bool {
        let Some((slot, _)) = self.slots().find(|&(_, word)| word == entry::EMPTY) else {
            return false;
        };
        // Release pairs with the acquire in `slots`.
        slot.store(new, Ordering::Release);
        true
    }

    /// Links one more overflow bucket, with the entry in it; only while locked or not yet shared, and after `put` has found no
    /// empty slot.
    fn put_in_overflow(&self, new: u64, pool: &Pool) {
        let Some((last, displaced)) = self.slots().last() else { return };
        let mut overflow = Bucket::new();
        *overflow.slots[0].get_mut() = displaced;
        *overflow.slots[1].get_mut() = new;
        // Release pairs with the acquire in `slots`: a thread that finds the link finds the displaced entry behind it.
        last.store(entry::link_to(pool.put(overflow)), Ordering::Release);
    }

    /// Stores the entry in a bucket that is not shared yet; says whether that took an overflow bucket.
    pub(super) fn put_unshared(&mut self, new: u64, pool: &Pool) -> bool {
        let fits = self.put(new);
        if !fits {
            self.put_in_overflow(new, pool);
        }
        !fits
    }

    /// Frees the overflow buckets, one after another: a long chain must not use up the stack.
    pub(super) fn free_overflow(&mut self, pool: &Pool) {
        let mut link = std::mem::replace(self.slots[SLOTS - 1].get_mut(), entry::EMPTY);
        while let Some(bucket) = entry::link(link).and_then(|bucket| NonNull::new(bucket.cast_mut())) {
            // SAFETY: `put_in_overflow` put it into the pool, and only its owner, which is borrowed exclusively, linked it.
            unsafe {
                // Relaxed: as above, no other thread uses it.
                link = bucket.as_ref().slots[SLOTS - 1].load(Ordering::Relaxed);
                pool.take_out(bucket);
            }
        }
    }
}

/// A locked bucket; dropping it unlocks, with a new version if something changed.
pub(super) struct BucketLock<'g> {
    bucket: &'g Bucket,
    before: u64,
    changed: bool,
}

impl BucketLock<'_> {
    /// The version word before the lock.
    pub(super) fn before(&self) -> u64 {
        self.before
    }

    /// The version word once a change has been unlocked.
    pub(super) fn after_change(&self) -> u64 {
        self.before + STEP
    }

    /// Puts the entry in an empty place, if there is one.
    pub(super) fn put(&mut self, new: u64) -> bool {
        let fits = self.bucket.put(new);
        self.changed |= fits;
        fits
    }

    /// Puts the entry in a new overflow bucket.
    pub(super) fn put_in_overflow(&mut self, new: u64, pool: &Pool) {
        self.bucket.put_in_overflow(new, pool);
        self.changed = true;
    }

    /// Takes out the entry of this record; says whether it was there.
    pub(super) fn remove(&mut self, record: RecordPointer) -> bool {
        let Some((slot, _)) = self.bucket.slots().find(|&(_, word)| entry::is_of(word, record)) else {
            return false;
        };
        // Release pairs with the acquire in `slots`: a thread that misses the entry sees the lock under which it went.
        slot.store(entry::EMPTY, Ordering::Release);
        self.changed = true;
        true
    }
}

impl Drop for BucketLock<'_> {
    fn drop(&mut self) {
        let word = if self.changed { self.after_change() } else { self.before };
        // Release pairs with the acquire loads and exchanges of the version word.
        self.bucket.version.store(word, Ordering::Release);
    }
}
