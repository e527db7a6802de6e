//! The hash index: from a key to its record, for point access, in two cache misses (the bucket, the record).
//!
//! Extendible hashing. The first bits of the hash name a segment, through the directory, which is small and hot;
//! the last bits name one of the segment's buckets, each of one cache line:
//!
//! ```text
//!  directory            segment: 128 buckets         bucket: 64 bytes
//! ┌─────────┐          ┌────────┐     ┌─────────┬──────────────────────────┬─────────────────────────┐
//! │ 00 ─────┼────────► │ 0      │ ──► │ version │ 6 × (16-bit tag, record) │ one more, or a link     │
//! │ 01 ─────┼──┐       │ …      │     └─────────┴──────────────────────────┴────────┬────────────────┘
//! │ 10 ─────┼┐ └─────► │ 127    │                                                   └──► one more such line
//! │ 11 ─────┼┘         └────────┘
//! └─────────┘
//! ```
//!
//! A segment whose buckets overflow too often splits in two, and its bits' place in the directory with it. Overflow
//! buckets, rather than places in neighbor buckets: hardly an entry moves, a version covers exactly the keys of one
//! bucket, and keys whose hashes are equal need no special case. At the largest load (five entries in a bucket on
//! average) one lookup in ten reads a second line.
//!
//! # Why it is right **Readers** write nothing and take no lock. A *hit* is an entry that was in the key's bucket when
//! it was read, and an entry's word carries both tag and address; so it needs no validation. A *miss* is a walk over the
//! chain between two equal looks at the version word, unlocked. Every writer locks the bucket before its one store, and
//! stores a raised version after it; so an equal word means that no entry was inserted or removed between, and the key
//! was missing as of that version. It stays missing while the word is the same: the key can only be inserted through
//! this bucket, or, after a split, through another one, and then the moved bit came first (see `segment_split`).
//! Counters are 61 bits: they don't wrap.
//!
//! **One record per key.** An insert looks for the key again under the bucket's lock. Of several inserters of one key,
//! one therefore puts its record in, and the others find it.
//!
//! **Memory.** Directories and segments are retired through the epoch after the directory (or its place) points
//! elsewhere, so a pinned thread may use what it found. A *record* found in an entry is alive too: its owner removes
//! it from the index first and retires it afterwards. A thread that pins after the removal can find the entry
//! neither in the segment where it was taken out, nor in an older copy of the segment: the removal waited for the
//! thaw, which came after the directory had forgotten the older copy. A thread that was pinned before is waited for.
//!
//! **What is left to the caller.** The order between its own insert and its later look at another node's version (two
//! callers that each insert what the other missed) needs a sequentially consistent fence between them: the commit
//! section has it, once for all that it validates.

mod bucket;
mod entry;
mod full_scan;
mod hash_directory;
mod hash_segment;
mod key_hash;
mod segment_split;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use crossbeam_epoch::Guard;
use parking_lot::Mutex;

use self::bucket::{Bucket, BucketLookup};
pub(crate) use self::full_scan::HashCursor;
use self::hash_directory::{Directory, Located};
use self::hash_segment::Segment;
use self::key_hash::KeyHasher;
pub(crate) use self::key_hash::hash_key;
use self::segment_split::Structure;
use crate::base::atomics::{AtomicPtr, Ordering};
use crate::base::prefetch::prefetch_line;
use crate::storage::index::pool::Pool;
use crate::storage::index::{Insertion, Lookup};
use crate::storage::record::{Record, RecordPointer};

/// A concurrent map from keys to records. It does not own the records.
///
/// Wherever a hash is asked for, it is [`hash_key`] of the key.
pub(crate) struct HashIndex {
    directory: AtomicPtr<Directory>,
    structure: Mutex<Structure>,
    hasher: KeyHasher,
    /// Its segments' and buckets' memory.
    pool: Arc<Pool>,
}

impl HashIndex {
    /// An empty index.
    pub(crate) fn new() -> Self {
        let pool = Arc::<Pool>::default();
        HashIndex {
            directory: AtomicPtr::new(Box::into_raw(Directory::new(Segment::new(&pool)))),
            structure: Mutex::new(Structure { segments: 1 }),
            hasher: KeyHasher::new(),
            pool,
        }
    }

    /// Makes it empty permanently; its content is now in the returned index.
    ///
    /// # Safety
    /// No thread inserts into it or removes from it, now or later. The returned index is dropped only when every thread
    /// has unpinned that was pinned at this moment: until then such a thread may read what it has.
    pub(crate) unsafe fn vacate(&self) -> HashIndex {
        let mut structure = self.structure.lock();
        // AcqRel: a thread that finds the new directory finds it made; the caller sees what was put into the old one.
        let directory = self.directory.swap(vacant_directory(), Ordering::AcqRel);
        let segments = std::mem::replace(&mut structure.segments, 1);
        HashIndex {
            directory: AtomicPtr::new(directory),
            structure: Mutex::new(Structure { segments }),
            hasher: KeyHasher::new(),
            pool: self.pool.clone(),
        }
    }

    /// Bytes of memory that its segments and buckets take.
    pub(crate) fn bytes(&self) -> u64 {
        self.pool.bytes()
    }

    /// An estimate of the number of records: the segments, each between just split and about to be.
    pub(crate) fn estimated_len(&self) -> u64 {
        let segments = self.structure.lock().segments as u64;
        segments * hash_segment::ENTRIES_USUAL as u64
    }

    #[inline(always)]
    fn directory<'g>(&'g self, _guard: &'g Guard) -> &'g Directory {
        // Acquire pairs with the release with which a doubled directory is put in.
        let directory = self.directory.load(Ordering::Acquire);
        // SAFETY: there is always one; it is retired after it was replaced, and the caller is pinned since before
        // this load.
        unsafe { &*directory }
    }

    #[inline(always)]
    fn locate<'g>(&'g self, hash: u64, guard: &'g Guard) -> Located<'g> {
        self.directory(guard).locate(hash)
    }

    /// The bucket of this hash, and what the hash's tag is there.
    #[inline(always)]
    fn bucket<'g>(&'g self, hash: u64, guard: &'g Guard) -> (&'g Bucket, u64) {
        let Located { segment, depth } = self.locate(hash, guard);
        (segment.bucket(hash), entry::tag(hash, depth))
    }

    /// The hash of a key: [`hash_key`].
    #[inline(always)]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash(key)
    }

    /// Brings the bucket's line into the cache.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64, guard: &Guard) {
        let (bucket, _) = self.bucket(hash, guard);
        prefetch_line(bucket);
    }

    /// The record with this key, if it is found in one walk: a hit needs no look at the version. For callers that
    /// tolerate a false miss.
    #[inline(always)]
    pub(crate) fn get_at_once<'g>(&'g self, hash: u64, key: &[u8], guard: &'g Guard) -> Option<Record<'g>> {
        let (bucket, tag) = self.bucket(hash, guard);
        bucket.find(tag, key, guard)
    }

    /// The record with this key, or the version of the bucket in which it is missing.
    #[inline]
    pub(crate) fn get<'g>(&'g self, hash: u64, key: &[u8], guard: &'g Guard) -> Lookup<'g> {
        loop {
            let (bucket, tag) = self.bucket(hash, guard);
            match bucket.lookup(tag, key, guard) {
                BucketLookup::Found(record) => return Lookup::Found(record),
                BucketLookup::Missing(observed) => return Lookup::Missing(bucket.node_version(observed)),
                BucketLookup::Moved => {}
            }
        }
    }

    /// The record with this key, or else the one that `make` gives, which is then in the index.
    ///
    /// `make` is called at most once, while nothing is locked. If another thread inserts the key meanwhile, the
    /// record that was made is passed to `discard`.
    pub(crate) fn get_or_insert<'g>(
        &'g self,
        hash: u64,
        key: &[u8],
        make: impl FnOnce() -> RecordPointer,
        discard: impl FnOnce(RecordPointer),
        guard: &'g Guard,
    ) -> Insertion<'g> {
        if let Lookup::Found(record) = self.get(hash, key, guard) {
            return Insertion::Found(record);
        }
        let made = make();
        let mut may_split = true;
        loop {
            let Located { segment, depth } = self.locate(hash, guard);
            let (bucket, tag) = (segment.bucket(hash), entry::tag(hash, depth));
            let Some(mut lock) = bucket.lock() else { continue };
            if let Some(record) = bucket.find(tag, key, guard) {
                discard(made);
                return Insertion::Found(record);
            }
            let new = entry::entry(tag, made);
            if !lock.put(new) {
                if may_split && segment.is_crowded() {
                    drop(lock);
                    may_split = self.split(hash, segment, guard);
                    continue;
                }
                lock.put_in_overflow(new, &self.pool);
                segment.note_overflow();
            }
            let (before, after) = (lock.before(), bucket.node_version(lock.after_change()));
            drop(lock);
            // SAFETY: the index holds it from here on, so it is freed only after this thread has unpinned.
            return Insertion::Inserted { record: unsafe { made.as_record() }, before, after };
        }
    }

    /// Takes this very record out; says whether it was in. `hash` is its key's.
    pub(crate) fn remove(&self, hash: u64, record: Record<'_>, guard: &Guard) -> bool {
        loop {
            let (bucket, _) = self.bucket(hash, guard);
            if let Some(mut lock) = bucket.lock() {
                return lock.remove(record.pointer());
            }
        }
    }
}

/// The directory of all indexes that were made empty for good, in this process: nothing is put into its segment.
static VACANT_DIRECTORY: OnceLock<VacantDirectory> = OnceLock::new();

struct VacantDirectory(*mut Directory);

// SAFETY: the directory is shared by all threads, as that of any index is, and lives as long as the process.
unsafe impl Send for VacantDirectory {}
// SAFETY: as above.
unsafe impl Sync for VacantDirectory {}

fn vacant_directory() -> *mut Directory {
    let vacant = VACANT_DIRECTORY.get_or_init(|| {
        let pool: &'static Pool = Box::leak(Box::default());
        VacantDirectory(Box::into_raw(Directory::new(Segment::new(pool))))
    });
    vacant.0
}

impl Drop for HashIndex {
    fn drop(&mut self) {
        let directory = *self.directory.get_mut();
        if VACANT_DIRECTORY.get().is_some_and(|vacant| vacant.0 == directory) {
            return;
        }
        // SAFETY: the index is ours alone, and so are the directory and the segments that it still points to; those
        // that it doesn't point to any more are the epoch's.
        unsafe {
            let mut directory = Box::from_raw(directory);
            directory.free_segments(&self.pool);
        }
        // As for the ordered index: one that was made empty outlives this one.
        self.pool.trim();
    }
}
