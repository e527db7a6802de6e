//! Memory for records: cut from large chunks, so that making one costs a few instructions, neighbors in time are
//! neighbors in memory, and fresh pages can be touched before a commit needs them.
//!
//! A store's first chunks are ordinary memory. Once there are more, chunks are cut from regions of large pages: so a
//! small database takes little, and a large one is not slowed down by the system's work for each small page. When the first chunk is
//! cut from a large page, a dedicated thread clears the next one (`upkeep.rs`).
//!
//! Invariants: a chunk is freed only when the slabs are, with the last table; memory of a freed record serves
//! the next record of the same size. What a dropped table has left, and what many deletes have, is joined to spans (`spans.rs`), which
//! serve records of any size, and whose pages the system gets back. Records larger than a quarter of a chunk come from the
//! allocator, one by one.

mod spans;
mod upkeep;

use std::alloc::{Layout, alloc, dealloc};
use std::ptr::NonNull;

use hashbrown::{HashMap, HashSet};
use parking_lot::Mutex;

use self::spans::{Piece, Span, Spans, join};
use self::upkeep::{Task, Upkeep};
use crate::base::atomics::{AtomicBool, AtomicUsize, Ordering};
use crate::base::large_pages::{LARGE_PAGE_BYTES, clear_pages_now, give_pages_back, prefer_large_pages};
use crate::storage::budget::Budget;
use crate::storage::record::{ALIGNMENT, RecordPointer, RowSize};
use crate::types::memory::{Refused, reserve};

/// The size of a chunk.
const CHUNK_BYTES: usize = if cfg!(any(test, heddle_model)) { 4 << 10 } else { 256 << 10 };
/// The bytes below which the next chunk is fetched when there is time for it.
const LITTLE: usize = CHUNK_BYTES / 8;
/// Free memory of this length is a span: each record that is cut from a chunk has room in it.
const SPAN_BYTES_MIN: usize = CHUNK_BYTES / 4;
/// Free memory is joined when tables have left this part of all free records since the last time: each time takes as long as
/// there are free records, however few were added.
const UNJOINED_PART: usize = 16;
/// The number of free records below which free memory is joined for a dropped table only.
const JOINED_RECORDS_MIN: usize = if cfg!(any(test, heddle_model)) { 1 << 10 } else { 1 << 16 };
const PAGE_BYTES: usize = 4 << 10;
/// The number of chunks that are ordinary memory.
const SINGLE_CHUNKS: usize = 8;
/// The size of a region. Only what has been touched takes memory.
const REGION_BYTES: usize = if cfg!(any(test, heddle_model)) { 4 * CHUNK_BYTES } else { 32 << 20 };
const REGION_ALIGNMENT: usize = if cfg!(any(test, heddle_model)) { PAGE_BYTES } else { LARGE_PAGE_BYTES };

/// All chunks of a store's records, and the records that can be used again.
#[derive(Default)]
pub(crate) struct Slabs {
    chunks: Mutex<Chunks>,
    /// Freed records.
    free: Mutex<FreeRecords>,
    /// The number of free records, so that a thread that finds none need not lock.
    free_count: AtomicUsize,
    /// The number of free records at which free memory is joined: twice as many as could not be joined the last time,
    /// so that the work is in proportion to what was freed since.
    joined_at: JoinedAt,
    /// The number of records that tables have left since free memory was last joined.
    unjoined: AtomicUsize,
    /// True once the store is gone, so that all memory is freed with the last table.
    is_closed: AtomicBool,
    upkeep: Upkeep,
    budget: Budget,
}

/// Records that can be used again, by their size.
type FreeRecords = HashMap<usize, Vec<RecordPointer>>;

/// A number of free records.
struct JoinedAt(AtomicUsize);

impl Default for JoinedAt {
    fn default() -> JoinedAt {
        JoinedAt(AtomicUsize::new(JOINED_RECORDS_MIN))
    }
}

/// All memory that was fetched.
#[derive(Default)]
struct Chunks {
    singles: Vec<Memory>,
    regions: Vec<Memory>,
    /// The bytes that are left of the last region.
    left: usize,
    /// The memory in them that is free again.
    spans: Spans,
}

/// Memory from the allocator: a chunk's, or a region's.
struct Memory(NonNull<u8>);

// SAFETY: it is plain memory; a thread that owns the pointer owns the memory.
unsafe impl Send for Memory {}

/// The memory that one worker context cuts records from.
#[derive(Default)]
pub(crate) struct Cutter {
    /// The rest of the present chunk.
    rest: Option<Span>,
    /// A chunk, or a part of one, that has been fetched ahead.
    next: Option<Span>,
}

// SAFETY: the memory is cut by one worker context at a time, and lives as long as the slabs.
unsafe impl Send for Cutter {}

const CHUNK: Layout = layout_of(CHUNK_BYTES, PAGE_BYTES);
const REGION: Layout = layout_of(REGION_BYTES, REGION_ALIGNMENT);

const fn layout_of(bytes: usize, alignment: usize) -> Layout {
    match Layout::from_size_align(bytes, alignment) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    }
}

fn allocate(layout: Layout) -> Result<NonNull<u8>, Refused> {
    // SAFETY: the layouts above are not empty.
    NonNull::new(unsafe { alloc(layout) }).ok_or_else(|| Refused::of(layout.size()))
}

impl Chunks {
    /// Free memory: a span, or a fresh chunk; and the large page behind it, if the chunk is the first on it.
    fn fetch(&mut self) -> Result<(Span, Option<NonNull<u8>>), Refused> {
        match self.spans.take() {
            Some(span) => Ok((span, None)),
            None => {
                let chunk = self.fetch_chunk()?;
                Ok(((chunk, CHUNK_BYTES), self.page_behind(chunk)))
            }
        }
    }

    /// The large page behind that of a chunk that was just cut from a region, if the chunk is the first one of its page, and the
    /// page not the last one of the region.
    fn page_behind(&self, chunk: NonNull<u8>) -> Option<NonNull<u8>> {
        let begun = self.left + CHUNK_BYTES;
        let is_behind = begun.is_multiple_of(REGION_ALIGNMENT) && begun > REGION_ALIGNMENT;
        // SAFETY: the region has at least another large page behind the one that begins with the chunk.
        (is_behind && !self.regions.is_empty()).then(|| unsafe { chunk.add(REGION_ALIGNMENT) })
    }

    fn fetch_chunk(&mut self) -> Result<NonNull<u8>, Refused> {
        if self.singles.len() < SINGLE_CHUNKS {
            return self.fetch_single();
        }
        if self.left == 0 {
            let Ok(region) = allocate(REGION) else { return self.fetch_single() };
            if REGION_ALIGNMENT == LARGE_PAGE_BYTES {
                // SAFETY: the region was just made, of whole large pages.
                unsafe { prefer_large_pages(region, REGION_BYTES) };
            }
            self.regions.push(Memory(region));
            self.left = REGION_BYTES;
        }
        let Some(Memory(region)) = self.regions.last() else { unreachable!("one was made") };
        self.left -= CHUNK_BYTES;
        // SAFETY: what is left of the region, whole chunks, is at its end; so this chunk lies in it.
        Ok(unsafe { region.add(REGION_BYTES - self.left - CHUNK_BYTES) })
    }

    fn fetch_single(&mut self) -> Result<NonNull<u8>, Refused> {
        let chunk = allocate(CHUNK)?;
        self.singles.push(Memory(chunk));
        Ok(chunk)
    }

    /// The addresses at which allocations begin.
    fn starts(&self) -> HashSet<usize> {
        self.singles.iter().chain(&self.regions).map(|memory| memory.0.addr().get()).collect()
    }
}

impl Drop for Chunks {
    fn drop(&mut self) {
        let Chunks { singles, regions, .. } = self;
        for (memory, layout) in [(singles, CHUNK), (regions, REGION)] {
            for Memory(start) in memory.drain(..) {
                // SAFETY: made by `fetch` with this layout; no table and no retired record is left that could use it,
                // for each of them has a share in the slabs.
                unsafe { dealloc(start.as_ptr(), layout) };
            }
        }
    }
}

impl Slabs {
    /// The memory budget of rows.
    #[inline]
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Makes a record with this word and key; every row word that is not the key's is zero.
    pub(crate) fn make(
        &self,
        cutter: &mut Cutter,
        word: u64,
        key: &[u8],
        size: impl Into<RowSize>,
    ) -> RecordPointer {
        let size = size.into();
        let bytes = size.record_bytes(key.len());
        if bytes > CHUNK_BYTES / 4 {
            self.budget.note_records(bytes as i64);
            return RecordPointer::allocate(word, key, size);
        }
        let memory = match self.reuse(bytes) {
            Some(record) => record.memory(),
            None => self.cut(cutter, bytes),
        };
        // SAFETY: the memory has room for the record, is aligned for it, and no other thread has access to it.
        unsafe { RecordPointer::write(memory, word, key, size) }
    }

    fn reuse(&self, bytes: usize) -> Option<RecordPointer> {
        // Relaxed: a record that is missed now is found the next time.
        if self.free_count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let record = self.free.lock().get_mut(&bytes)?.pop()?;
        self.free_count.fetch_sub(1, Ordering::Relaxed);
        self.budget.note_records(bytes as i64);
        Some(record)
    }

    fn cut(&self, cutter: &mut Cutter, bytes: usize) -> NonNull<u8> {
        let (start, left) = match cutter.rest {
            Some((start, left)) if left >= bytes => (start, left),
            _ => {
                let next = cutter.next.take().unwrap_or_else(|| self.fetch_or_abort());
                self.put_back(cutter.rest.replace(next));
                next
            }
        };
        // SAFETY: `left`, at least `bytes`, bytes behind `start` belong to the chunk, or the span.
        cutter.rest = Some((unsafe { start.add(bytes) }, left - bytes));
        start
    }

    fn fetch(&self) -> Result<Span, Refused> {
        let (span, page_behind) = self.chunks.lock().fetch()?;
        self.budget.note_records(span.1 as i64);
        page_behind.into_iter().for_each(|page| self.upkeep.want_cleared(page));
        Ok(span)
    }

    /// Takes memory back from which no record was cut.
    fn put_back(&self, span: Option<Span>) {
        if let Some(span) = span {
            self.budget.note_records(-(span.1 as i64));
            self.chunks.lock().spans.put(span);
        }
    }

    /// Takes back what a cutter has left, which is not used any more.
    pub(crate) fn give_back(&self, cutter: &mut Cutter) {
        self.put_back(cutter.rest.take());
        self.put_back(cutter.next.take());
    }

    /// Same as [`fetch`](Self::fetch), where no call can fail instead: recovery, and a call that was admitted and has
    /// cut more than a chunk since.
    #[cold]
    fn fetch_or_abort(&self) -> Span {
        self.fetch().unwrap_or_else(|refused| refused.abort())
    }

    /// Makes sure that the next record can be made.
    ///
    /// # Errors
    /// The system refuses the memory.
    #[inline]
    pub(crate) fn admit(&self, cutter: &mut Cutter) -> Result<(), Refused> {
        // With as little left the next chunk is fetched ahead, as a rule before this call began.
        if cutter.next.is_none() && cutter.rest.is_none_or(|(_, left)| left <= LITTLE) {
            cutter.next = Some(self.fetch()?);
        }
        Ok(())
    }

    /// Fetches the next chunk if the present one is nearly used up, and touches its pages: when nothing is held, so
    /// that the system's work for fresh pages is not done while others wait.
    pub(crate) fn fetch_ahead(&self, cutter: &mut Cutter) {
        if cutter.next.is_some() || cutter.rest.is_some_and(|(_, left)| left > LITTLE) {
            return;
        }
        // Refused: a call that needs it will fail.
        let Ok((start, bytes)) = self.fetch() else { return };
        for page in (0..bytes).step_by(PAGE_BYTES) {
            // SAFETY: inside the chunk, or the span, which is not shared yet. Volatile, so that it is really done.
            unsafe { start.add(page).write_volatile(0) };
        }
        cutter.next = Some((start, bytes));
    }

    /// The life of the thread that clears memory ahead and joins free memory: until [`stop_upkeep`](Self::stop_upkeep).
    pub(crate) fn keep_up(&self) {
        while let Some(task) = self.upkeep.next() {
            match task {
                // SAFETY: the page is of a region, which is there as long as the slabs are.
                Task::Clear(page) => unsafe { clear_pages_now(page, REGION_ALIGNMENT) },
                Task::Join => self.join_free(),
            }
        }
    }

    /// Ends that thread.
    pub(crate) fn stop_upkeep(&self) {
        self.upkeep.stop();
    }

    /// Takes a record's memory back.
    ///
    /// # Safety
    /// The record was made by these slabs, and no thread uses it any more.
    pub(crate) unsafe fn free(&self, record: RecordPointer) {
        // SAFETY: the caller's promise; the record is still there to tell its size.
        let bytes = unsafe { record.bytes() };
        self.budget.note_records(-(bytes as i64));
        if bytes > CHUNK_BYTES / 4 {
            // SAFETY: the caller's promise; it came from the allocator.
            unsafe { record.free() };
            return;
        }
        let mut free = self.free.lock();
        let of_size = free.entry(bytes).or_default();
        if reserve(of_size, 1).is_err() {
            // It is not used again, and is freed with its chunk.
            return;
        }
        of_size.push(record);
        let count = self.free_count.fetch_add(1, Ordering::Relaxed) + 1;
        drop(free);
        // Relaxed: recent numbers are enough. Of the threads that find it due one asks for it.
        let due = self.joined_at.0.load(Ordering::Relaxed);
        if count >= due
            && self
                .joined_at
                .0
                .compare_exchange(due, usize::MAX, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.upkeep.want_joined();
        }
    }

    /// Joins free memory: what is long enough becomes spans, whose pages go back to the system.
    fn join_free(&self) {
        let left = self.join(Vec::new());
        self.joined_at.0.store((2 * left).max(JOINED_RECORDS_MIN), Ordering::Relaxed);
    }

    /// Takes back the memory of many records, a table's. Once there are enough, they become spans with all neighbors that are
    /// free, too, and the pages of these go back to the system.
    ///
    /// # Safety
    /// Same duties as for [`free`](Self::free), of each record.
    pub(crate) unsafe fn free_all(&self, records: Vec<RecordPointer>) {
        // Relaxed: recent numbers are enough.
        let unjoined = self.unjoined.fetch_add(records.len(), Ordering::Relaxed) + records.len();
        if records.is_empty() || unjoined < self.free_count.load(Ordering::Relaxed) / UNJOINED_PART {
            // SAFETY: the caller's promise.
            return records.into_iter().for_each(|record| unsafe { self.free(record) });
        }
        self.unjoined.store(0, Ordering::Relaxed);
        let mut pieces = Vec::new();
        let has_room = reserve(&mut pieces, records.len()).is_ok();
        let mut freed = 0;
        for record in records {
            // SAFETY: the caller's promise; the record is still there to tell its size.
            let bytes = unsafe { record.bytes() };
            if has_room && Slabs::is_cut(bytes) {
                freed += bytes;
                pieces.push(Piece { start: record.memory(), bytes: bytes as u32, is_record: true });
            } else {
                // SAFETY: the caller's promise.
                unsafe { self.free(record) };
            }
        }
        self.budget.note_records(-(freed as i64));
        self.join(pieces);
    }

    /// Joins these pieces of free memory, which are in no list, and those that are. How many pieces are too short for a span.
    fn join(&self, mut pieces: Vec<Piece>) -> usize {
        self.gather_free(&mut pieces);
        let starts = self.chunks.lock().starts();
        let (mut spans, mut others) = (Vec::new(), Vec::new());
        join(
            &mut pieces,
            |start| starts.contains(&start),
            |run, span| match span.1 {
                SPAN_BYTES_MIN.. => {
                    if run.iter().any(|piece| piece.is_record) {
                        // SAFETY: all of it is free, and in no list now.
                        unsafe { give_pages_back(span.0, span.1) };
                    }
                    spans.push(span);
                }
                _ => others.extend_from_slice(run),
            },
        );
        self.keep_free(spans, &others);
        others.len()
    }

    /// Moves all free memory to these pieces, if the system gives them room.
    fn gather_free(&self, pieces: &mut Vec<Piece>) {
        // The lists as they are: transactions wait for the lock.
        let lists = std::mem::take(&mut *self.free.lock());
        let count = lists.values().map(Vec::len).sum();
        self.free_count.fetch_sub(count, Ordering::Relaxed);
        if reserve(pieces, count).is_ok() {
            for (bytes, of_size) in lists {
                let bytes = bytes as u32;
                let piece = |record: RecordPointer| Piece { start: record.memory(), bytes, is_record: true };
                pieces.extend(of_size.into_iter().map(piece));
            }
        } else {
            self.keep_records(lists);
        }
        let mut chunks = self.chunks.lock();
        if reserve(pieces, chunks.spans.len()).is_ok() {
            chunks.spans.move_to(pieces);
        }
    }

    /// Puts free memory into the lists: these spans, and what is too short for one.
    fn keep_free(&self, spans: Vec<Span>, others: &[Piece]) {
        let (records, short): (Vec<&Piece>, Vec<&Piece>) = others.iter().partition(|piece| piece.is_record);
        let mut chunks = self.chunks.lock();
        let short = short.into_iter().map(|piece| (piece.start, piece.bytes as usize));
        spans.into_iter().chain(short).for_each(|span| chunks.spans.put(span));
        drop(chunks);
        let mut lists: FreeRecords = HashMap::new();
        for piece in records {
            let of_size = lists.entry(piece.bytes as usize).or_default();
            // Otherwise it is not used again, and is freed with its chunk.
            if reserve(of_size, 1).is_ok() {
                of_size.push(RecordPointer::of_memory(piece.start));
            }
        }
        self.keep_records(lists);
    }

    /// Puts records into the lists.
    fn keep_records(&self, lists: FreeRecords) {
        let (mut free, mut added) = (self.free.lock(), 0);
        for (bytes, mut records) in lists {
            let of_size = free.entry(bytes).or_default();
            let before = of_size.len();
            if of_size.len() < records.len() {
                std::mem::swap(of_size, &mut records);
            }
            // Otherwise they are not used again, and go with their chunks.
            if reserve(of_size, records.len()).is_ok() {
                of_size.append(&mut records);
            }
            added += of_size.len() - before;
        }
        self.free_count.fetch_add(added, Ordering::Relaxed);
    }

    /// Notes that the store is gone: from here on a table leaves its records to the last one, with which all memory is
    /// freed.
    pub(crate) fn close(&self) {
        // Relaxed: a table that misses it frees its records one by one.
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Returns true if the store is gone.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Returns true if records of this size lie in chunks, and are freed with them.
    pub(crate) fn is_cut(bytes: usize) -> bool {
        bytes <= CHUNK_BYTES / 4
    }
}

const _: () = assert!(ALIGNMENT <= PAGE_BYTES && CHUNK_BYTES.is_multiple_of(PAGE_BYTES));
const _: () =
    assert!(REGION_BYTES.is_multiple_of(CHUNK_BYTES) && REGION_BYTES.is_multiple_of(REGION_ALIGNMENT));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::word::PLACEHOLDER;

    #[test]
    fn records_do_not_overlap_and_are_as_they_were_made() {
        let slabs = Slabs::default();
        let mut cutter = Cutter::default();
        let made: Vec<_> = (0..500_usize)
            .map(|number| {
                slabs.fetch_ahead(&mut cutter);
                let key = vec![number as u8; number % 40];
                (slabs.make(&mut cutter, PLACEHOLDER, &key, number % 9), key, number)
            })
            .collect();
        for (record, key, number) in &made {
            // SAFETY: the slabs are alive.
            let record = unsafe { record.as_record() };
            assert_eq!(record.key(), key);
            assert_eq!(record.row().len(), number % 9);
            record.row().iter().for_each(|word| word.store(*number as u64, Ordering::Relaxed));
        }
        for (record, key, number) in &made {
            // SAFETY: the slabs are alive.
            let record = unsafe { record.as_record() };
            assert_eq!(record.key(), key);
            assert!(record.row().iter().all(|word| word.load(Ordering::Relaxed) == *number as u64));
            assert_eq!(record.word().load(Ordering::Relaxed), PLACEHOLDER);
        }
    }

    #[test]
    fn chunks_are_apart_whether_they_are_single_or_of_regions() {
        let slabs = Slabs::default();
        const COUNT: usize = SINGLE_CHUNKS + 3 * (REGION_BYTES / CHUNK_BYTES) + 1;
        let mut starts: Vec<usize> =
            (0..COUNT).map(|_| slabs.fetch().expect("memory").0.addr().get()).collect();
        assert_eq!(slabs.budget().used(), (COUNT * CHUNK_BYTES) as u64);
        starts.sort_unstable();
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= CHUNK_BYTES), "{starts:x?}");
        assert!(starts.iter().all(|start| start.is_multiple_of(PAGE_BYTES)));
        let chunks = slabs.chunks.lock();
        assert_eq!((chunks.singles.len(), chunks.regions.len()), (SINGLE_CHUNKS, 4));
    }

    #[test]
    fn a_freed_records_memory_serves_the_next_of_its_size() {
        let slabs = Slabs::default();
        let mut cutter = Cutter::default();
        let first = slabs.make(&mut cutter, PLACEHOLDER, b"key", 3);
        // SAFETY: no other thread has access to it.
        unsafe { slabs.free(first) };
        let larger = slabs.make(&mut cutter, PLACEHOLDER, b"key", 4);
        assert_ne!(larger, first);
        assert_eq!(slabs.make(&mut cutter, PLACEHOLDER, b"other", 3), first);
        let huge = slabs.make(&mut cutter, PLACEHOLDER, &[1; CHUNK_BYTES], 4);
        // SAFETY: no other thread has access to it.
        unsafe { slabs.free(huge) };
    }

    #[test]
    fn what_a_table_leaves_serves_records_of_any_size() {
        let slabs = Slabs::default();
        let mut cutter = Cutter::default();
        let empty = slabs.budget().used();
        let mut most = 0;
        for round in 0..50_usize {
            // Sizes that leave something over at the end of each chunk.
            let (key, words) = (vec![7; round % 13], 3 + round % 11);
            let mut made: Vec<_> =
                (0..2000).map(|_| slabs.make(&mut cutter, PLACEHOLDER, &key, words)).collect();
            made.push(slabs.make(&mut cutter, PLACEHOLDER, &[1; CHUNK_BYTES], 1));
            // Some have been freed one by one.
            made.drain(..500).for_each(|record| {
                // SAFETY: no other thread has access to it, and it is in `made` no more.
                unsafe { slabs.free(record) };
            });
            most = most.max(slabs.budget().used());
            // SAFETY: as above.
            unsafe { slabs.free_all(made) };
            let left = slabs.budget().used() - empty;
            assert!(left <= 2 * CHUNK_BYTES as u64, "round {round}: {left}");
        }
        let chunks = slabs.chunks.lock();
        let fetched = chunks.singles.len() * CHUNK_BYTES + chunks.regions.len() * REGION_BYTES - chunks.left;
        assert!(fetched < most as usize * 2, "{fetched} bytes were fetched for {most}");
        drop(chunks);
        slabs.give_back(&mut cutter);
        assert_eq!(slabs.budget().used(), empty);
    }

    #[test]
    fn few_records_of_a_table_are_joined_once_enough_have_come() {
        let slabs = Slabs::default();
        let mut cutter = Cutter::default();
        let mut made: Vec<_> = (0..3000).map(|_| slabs.make(&mut cutter, PLACEHOLDER, b"key", 3)).collect();
        let few: Vec<Vec<_>> = (0..20).map(|_| made.split_off(made.len() - 10)).collect();
        for record in made {
            // SAFETY: no other thread has access to it.
            unsafe { slabs.free(record) };
        }
        let joined = |few: Vec<RecordPointer>| {
            let before = slabs.free_count.load(Ordering::Relaxed);
            let count = few.len();
            // SAFETY: as above.
            unsafe { slabs.free_all(few) };
            slabs.free_count.load(Ordering::Relaxed) != before + count
        };
        assert!(!joined(Vec::new()), "nothing has come");
        let joined: Vec<bool> = few.into_iter().map(joined).collect();
        assert!(!joined[0] && joined.contains(&true), "{joined:?}");
        slabs.give_back(&mut cutter);
        assert_eq!(slabs.budget().used(), 0);
    }

    #[test]
    fn what_a_cutter_gives_back_is_cut_again() {
        let slabs = Slabs::default();
        let mut cutter = Cutter::default();
        let first = slabs.make(&mut cutter, PLACEHOLDER, b"key", 3);
        slabs.give_back(&mut cutter);
        let second = slabs.make(&mut cutter, PLACEHOLDER, b"key", 3);
        // SAFETY: the slabs are alive.
        let bytes = unsafe { first.bytes() };
        assert_eq!(second.memory().addr().get(), first.memory().addr().get() + bytes);
        slabs.give_back(&mut cutter);
        // SAFETY: no other thread has access to them.
        unsafe { slabs.free_all(vec![second, first]) };
        assert_eq!(slabs.budget().used(), 0);
        assert_eq!(slabs.fetch().map(|span| span.1), Ok(CHUNK_BYTES), "the chunk is whole again");
    }
}
