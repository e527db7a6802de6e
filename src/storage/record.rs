//! The record: a stable address that holds a record word, a key and a row.
//!
//! ```text
//! ┌─ 8 bytes ──┬─ 2 ───────┬─ 2 ───────┬─ 4 ───────┬─ key, padded to 8 ─┬─ row: row_words × 8 bytes ─┐
//! │ record word│ key bytes │ row words │ extension │ never changes      │ atomic words               │
//! └────────────┴───────────┴───────────┴───────────┴────────────────────┴────────────────────────────┘
//! ```
//!
//! If the row's columns are the key as it is encoded (see [`RowLayout`]), the key is there, behind the row's
//! first word, and nothing lies between head and row. The highest bit of the key's length says so.
//!
//! Invariants: a record never moves, its key never changes (its words in the row are never stored again), and its row is read and written as atomic
//! words only, so that a reader that races with an install copies garbage at worst (which the record word then
//! shows it) and never has undefined behavior. A record is freed only after it left every index and every
//! thread that could have found it there has unpinned ([`crossbeam_epoch`]).

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::slice;

use bumpalo::Bump;
use crossbeam_utils::Backoff;

use crate::base::atomics::{AtomicU32, AtomicU64, Ordering, fence};
use crate::base::prefetch::prefetch_line;
use crate::diagnostics::activity::{Activity, at};
use crate::storage::definition::MAXIMAL_COLUMNS;
use crate::storage::row::{RowLayout, is_block, prefetch_block};
use crate::storage::table::MAXIMAL_KEY_BYTES;
use crate::storage::word::{ABSENT, BUSY, DEAD, PROTOCOL};

/// Records begin on such a boundary, as their words need it; allocators give more without being asked.
pub(crate) const ALIGNMENT: usize = 8;

/// The size of a record's row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowSize {
    /// The words of its row.
    pub(crate) words: usize,
    /// The number of words behind the first one that are its key; zero if the key is stored apart.
    pub(crate) key_words: usize,
}

impl RowSize {
    /// The form in which a record of this size keeps a key of this many bytes.
    fn key_bytes(self, bytes: usize) -> KeyBytes {
        assert!(bytes < usize::from(IN_ROW), "a key of {bytes} bytes");
        let in_row = self.key_words > 0 && bytes == self.key_words * 8;
        KeyBytes(bytes as u16 | if in_row { IN_ROW } else { 0 })
    }

    /// The number of bytes of a record with a key of this many bytes.
    pub(crate) fn record_bytes(self, key_bytes: usize) -> usize {
        HEAD_BYTES + self.key_bytes(key_bytes).apart() + self.words * 8
    }
}

impl From<usize> for RowSize {
    /// The size of a row with this many words, none of which is the key.
    fn from(words: usize) -> RowSize {
        RowSize { words, key_words: 0 }
    }
}

/// The number of bytes of a record's key, and their place.
#[derive(Clone, Copy)]
struct KeyBytes(u16);

/// The key lies in the row.
const IN_ROW: u16 = 1 << 15;

impl KeyBytes {
    #[inline(always)]
    fn length(self) -> usize {
        usize::from(self.0 & !IN_ROW)
    }

    /// The offset of the key in the record's bytes.
    #[inline(always)]
    fn start(self) -> usize {
        HEAD_BYTES + usize::from(self.0 >> 15) * 8
    }

    /// The number of bytes that the key takes between head and row.
    #[inline(always)]
    fn apart(self) -> usize {
        if self.0 & IN_ROW == 0 { usize::from(self.0).next_multiple_of(8) } else { 0 }
    }
}

/// The fixed head of a record; key and row follow it in the same allocation.
#[repr(C)]
struct Head {
    word: AtomicU64,
    key_bytes: KeyBytes,
    row_words: u16,
    /// The place of the words of columns that were added after the record was made (see `row::added`); zero if there is
    /// none yet.
    extension: AtomicU32,
}

/// A record's address. The code that turns it into a [`Record`] must argue why the record is still alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RecordPointer(NonNull<Head>);

// SAFETY: a record is made of atomics and of bytes that never change after it was made, so that it may be used
// from any thread; its lifetime is the holder's business, as for any pointer.
unsafe impl Send for RecordPointer {}
// SAFETY: as for Send.
unsafe impl Sync for RecordPointer {}

/// A record that is alive for as long as `'g`: a pointer whose every access stays inside one allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Record<'g> {
    head: NonNull<Head>,
    alive: PhantomData<&'g ()>,
}

// SAFETY: as for RecordPointer; the lifetime says that it is alive.
unsafe impl Send for Record<'_> {}
// SAFETY: as for Send.
unsafe impl Sync for Record<'_> {}

const HEAD_BYTES: usize = size_of::<Head>();
const _: () = assert!(MAXIMAL_KEY_BYTES < IN_ROW as usize);
const _: () = assert!(3 * MAXIMAL_COLUMNS <= u16::MAX as usize);
/// The number of bytes that the processor fetches at once.
const LINE_BYTES: usize = 64;
/// The number of lines that are fetched ahead; of longer records only the beginning is.
const PREFETCHED_LINES: usize = 6;

/// Copies words one by one, four in a turn, then two, then one. They are looked at relaxed: the caller finds out what the
/// copy is worth.
///
/// # Safety
/// There is room for as many words at `to`.
#[inline(always)]
unsafe fn copy_words(from: &[AtomicU64], to: *mut u64) {
    /// # Safety
    /// Same duties as for [`copy_words`].
    #[inline(always)]
    unsafe fn copy_turn<const TURN: usize>(words: &[AtomicU64; TURN], to: *mut u64) -> *mut u64 {
        for (at, word) in words.iter().enumerate() {
            // SAFETY: the caller's promise.
            unsafe { to.add(at).write(word.load(Ordering::Relaxed)) };
        }
        // SAFETY: as above: it is one behind the last of them at most.
        unsafe { to.add(TURN) }
    }
    let (turns, rest) = from.as_chunks::<4>();
    let (pair, last) = rest.as_chunks::<2>();
    // SAFETY: the caller's promise, for all words together.
    unsafe {
        let to = turns.iter().fold(to, |to, turn| copy_turn(turn, to));
        let to = pair.first().map_or(to, |pair| copy_turn(pair, to));
        if let [last] = last {
            to.write(last.load(Ordering::Relaxed));
        }
    }
}

/// The number of lines of a record that are fetched ahead; of a long one only the beginning is.
pub(crate) fn record_lines(key_bytes: usize, size: RowSize) -> usize {
    // Records begin anywhere in a line.
    (size.record_bytes(key_bytes) + LINE_BYTES - ALIGNMENT).div_ceil(LINE_BYTES).min(PREFETCHED_LINES)
}

fn layout(bytes: usize) -> Layout {
    match Layout::from_size_align(bytes, ALIGNMENT) {
        Ok(layout) => layout,
        Err(_) => panic!("a record of {bytes} bytes is larger than the address space"),
    }
}

impl<'g> Record<'g> {
    /// The record word: see [`crate::storage::word`].
    #[inline]
    pub(crate) fn word(self) -> &'g AtomicU64 {
        // SAFETY: the head is alive for 'g, and its word is only ever used as an atomic.
        unsafe { &(*self.head.as_ptr()).word }
    }

    /// The encoded primary key.
    #[inline(always)]
    pub(crate) fn key(self) -> &'g [u8] {
        // SAFETY: `write` put `key_bytes` bytes there, and no thread writes them afterwards.
        unsafe {
            let key = (*self.head.as_ptr()).key_bytes;
            slice::from_raw_parts(self.head.cast::<u8>().add(key.start()).as_ptr(), key.length())
        }
    }

    /// Returns true if this is its key.
    #[inline(always)]
    pub(crate) fn has_key(self, key: &[u8]) -> bool {
        let own = self.key();
        match (own.first_chunk::<8>(), key.first_chunk::<8>()) {
            // The usual key, one integer, is compared in place.
            (Some(own_word), Some(word)) if own.len() == 8 && key.len() == 8 => own_word == word,
            _ => own == key,
        }
    }

    /// The row's fixed part, as atomic words.
    #[inline(always)]
    pub(crate) fn row(self) -> &'g [AtomicU64] {
        // SAFETY: `write` put `row_words` words behind what lies of the key apart, eight-aligned; they are only ever
        // used as atomics, but for those of the key, which are only read.
        unsafe {
            let key = (*self.head.as_ptr()).key_bytes;
            let row_words = (*self.head.as_ptr()).row_words as usize;
            let start = self.head.cast::<u8>().add(HEAD_BYTES + key.apart());
            slice::from_raw_parts(start.cast::<AtomicU64>().as_ptr(), row_words)
        }
    }

    /// Copies the row and returns its word; the two belong together. A record whose word says that it is absent
    /// or dead is not copied.
    ///
    /// Optimistic: it copies between two reads of the word, and again if an install was under way. The first read
    /// acquires the install whose stamp it sees. The copy is relaxed; the fence behind it pairs with the fence in
    /// `commit::install`: if any copied word came from a later install, the second read sees that install's busy
    /// word, or a later one.
    #[inline]
    pub(crate) fn read(self, layout: &RowLayout, copy: &mut [u64]) -> u64 {
        loop {
            let word = self.stable_word();
            if word & ABSENT != 0 {
                return word;
            }
            self.copy(layout, copy);
            fence(Ordering::Acquire);
            if self.word().load(Ordering::Relaxed) == word {
                return word;
            }
        }
    }

    /// Same as [`read`](Self::read), but returns `None` if another thread has locked the record: for a caller that must
    /// not wait.
    pub(crate) fn read_unlocked(self, layout: &RowLayout, copy: &mut [u64]) -> Option<u64> {
        loop {
            // Acquire, the fence, and the second look: as in `read`.
            let word = self.word().load(Ordering::Acquire);
            if word & BUSY != 0 && word != DEAD {
                return None;
            }
            if word & ABSENT != 0 {
                return Some(word);
            }
            self.copy(layout, copy);
            fence(Ordering::Acquire);
            if self.word().load(Ordering::Relaxed) == word {
                return Some(word);
            }
        }
    }

    /// Copies the row's first words, whatever they are at this moment: the caller finds out what the copy is worth. What the
    /// record lacks of a row of this layout is filled in.
    #[inline]
    pub(crate) fn copy(self, layout: &RowLayout, copy: &mut [u64]) {
        let row = self.row();
        if row.len() != copy.len() {
            return self.copy_part(layout, copy);
        }
        // SAFETY: there is room for this many words.
        unsafe { copy_words(row, copy.as_mut_ptr()) };
    }

    #[cold]
    #[inline(never)]
    fn copy_part(self, layout: &RowLayout, copy: &mut [u64]) {
        let row = self.row();
        let words = row.len().min(copy.len());
        // SAFETY: there is room for this many words.
        unsafe { copy_words(&row[..words], copy.as_mut_ptr()) };
        if words < copy.len() {
            layout.complete_short(self, copy);
        }
    }

    /// Copies the row into an arena, and returns its word, if it can be had in one look: the record is unlocked, it is
    /// there with all of this many words, and shows no bit of the protocol's. The argument: as for [`read`](Self::read).
    #[inline(always)]
    pub(crate) fn read_at_once(self, row_words: usize, arena: &Bump) -> Option<(u64, &[u64])> {
        let word = self.word().load(Ordering::Acquire);
        if word & (BUSY | ABSENT | PROTOCOL) != 0 {
            return None;
        }
        let row = self.row();
        if row.len() != row_words {
            return None;
        }
        let copy = arena.alloc_layout(Layout::for_value(row)).cast::<u64>().as_ptr();
        // SAFETY: room for the row was just made, aligned as its words are; it belongs to the arena's owner, and all of it
        // is written before it is looked at.
        let copy = unsafe {
            copy_words(row, copy);
            slice::from_raw_parts(copy, row.len())
        };
        fence(Ordering::Acquire);
        (self.word().load(Ordering::Relaxed) == word).then_some((word, copy))
    }

    /// The word, if it says in one look that the record is absent: it is unlocked and not dead, and shows no bit of the
    /// protocol's.
    #[inline]
    pub(crate) fn absent_at_once(self) -> Option<u64> {
        // Acquire: as in `stable_word`.
        let word = self.word().load(Ordering::Acquire);
        (word & (BUSY | ABSENT | PROTOCOL) == ABSENT).then_some(word)
    }

    /// The word, once no install is under way; [`DEAD`] counts as such.
    #[inline]
    pub(crate) fn stable_word(self) -> u64 {
        // Acquire pairs with the release that ends an install.
        let word = self.word().load(Ordering::Acquire);
        if word & BUSY == 0 { word } else { self.word_once_stable() }
    }

    #[cold]
    fn word_once_stable(self) -> u64 {
        let _latch = at(Activity::Latch);
        let backoff = Backoff::new();
        loop {
            // Acquire: as above.
            let word = self.word().load(Ordering::Acquire);
            if word & BUSY == 0 || word == DEAD {
                return word;
            }
            if backoff.is_completed() {
                std::thread::yield_now();
            } else {
                backoff.snooze();
            }
        }
    }

    /// Prefetches this many cache lines, from the one with the record's beginning on.
    #[inline]
    pub(crate) fn prefetch(self, lines: usize) {
        let start = self.head.as_ptr().cast::<u8>();
        prefetch_line(start);
        if lines > 1 {
            prefetch_line(start.wrapping_add(LINE_BYTES));
        }
        if lines > 2 {
            self.prefetch_from_third(lines);
        }
    }

    /// Apart: unrolled where it is called, the loop was 20 instructions for the usual record of one or two lines.
    #[inline(never)]
    fn prefetch_from_third(self, lines: usize) {
        let start = self.head.as_ptr().cast::<u8>();
        (2..lines).for_each(|line| prefetch_line(start.wrapping_add(line * LINE_BYTES)));
    }

    /// Begins to bring the blocks into the cache that these words of the row lead to.
    #[inline]
    pub(crate) fn prefetch_blocks(self, words: &[usize]) {
        for word in words.iter().filter_map(|&at| self.row().get(at)) {
            // Relaxed: it need not be the word of a whole row, nor of a block that is still there.
            let word = word.load(Ordering::Relaxed);
            if is_block(word) {
                prefetch_block(word);
            }
        }
    }

    /// The place of the words of columns that were added after the record was made.
    #[inline]
    pub(crate) fn extension(self) -> &'g AtomicU32 {
        // SAFETY: the head is alive for 'g, and this is only ever used as an atomic.
        unsafe { &(*self.head.as_ptr()).extension }
    }

    /// This record's address.
    #[inline]
    pub(crate) fn pointer(self) -> RecordPointer {
        RecordPointer(self.head)
    }
}

impl RecordPointer {
    /// Makes a record with this word and key; every row word that is not the key's is zero.
    pub(crate) fn allocate(word: u64, key: &[u8], size: impl Into<RowSize>) -> RecordPointer {
        let size = size.into();
        let layout = layout(size.record_bytes(key.len()));
        // SAFETY: the layout is never empty (it holds the head).
        let Some(memory) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        // SAFETY: the memory was just made for this very record.
        unsafe { RecordPointer::write(memory, word, key, size) }
    }

    /// Makes a record in memory that is there already.
    ///
    /// # Safety
    /// The memory has [`RowSize::record_bytes`] bytes, is aligned to [`ALIGNMENT`], and no other thread has access to it.
    pub(crate) unsafe fn write(memory: NonNull<u8>, word: u64, key: &[u8], size: RowSize) -> RecordPointer {
        let head = memory.cast::<Head>();
        let key_bytes = size.key_bytes(key.len());
        // SAFETY: the caller's promise: the three parts, head, key padded to eight, row words, lie inside it; so does a key in
        // the row, which has a word before it. Each is written before the record is shared.
        unsafe {
            head.write(Head {
                word: AtomicU64::new(word),
                key_bytes,
                row_words: size.words as u16,
                extension: AtomicU32::new(0),
            });
            let row_start = memory.add(HEAD_BYTES + key_bytes.apart());
            row_start.cast::<u64>().write_bytes(0, size.words);
            let key_start = memory.add(key_bytes.start());
            key_start.copy_from_nonoverlapping(NonNull::from(key).cast::<u8>(), key.len());
        }
        RecordPointer(head)
    }

    /// The record whose memory, free or not, this is.
    pub(crate) fn of_memory(memory: NonNull<u8>) -> RecordPointer {
        RecordPointer(memory.cast())
    }

    /// The record's memory.
    pub(crate) fn memory(self) -> NonNull<u8> {
        self.0.cast()
    }

    /// The number of bytes that the record takes.
    ///
    /// # Safety
    /// The record has not been freed.
    pub(crate) unsafe fn bytes(self) -> usize {
        // SAFETY: the caller's promise.
        let (key, row_words) = unsafe { ((*self.0.as_ptr()).key_bytes, (*self.0.as_ptr()).row_words) };
        HEAD_BYTES + key.apart() + usize::from(row_words) * 8
    }

    /// The address as a number, for the indexes to store.
    pub(crate) fn to_bits(self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }

    /// The pointer that `to_bits` gave.
    ///
    /// # Safety
    /// `bits` came from `to_bits`.
    pub(crate) unsafe fn from_bits(bits: u64) -> RecordPointer {
        // SAFETY: the caller's promise; such an address is never null, and its provenance was exposed.
        RecordPointer(unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(bits as usize)) })
    }

    /// The record.
    ///
    /// # Safety
    /// The record is not freed for as long as `'g` lasts (the caller is pinned since before it found the record
    /// in an index, or owns the table).
    #[inline]
    pub(crate) unsafe fn as_record<'g>(self) -> Record<'g> {
        Record { head: self.0, alive: PhantomData }
    }

    /// Frees the record.
    ///
    /// # Safety
    /// No thread uses it any more, and no thread frees it twice. What the row points to is not freed here.
    pub(crate) unsafe fn free(self) {
        // SAFETY: the caller's promise; the layout is the one that `allocate` used.
        unsafe {
            dealloc(self.0.as_ptr().cast(), layout(self.bytes()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record, freed when it is dropped.
    struct Owned(RecordPointer);

    impl Owned {
        fn new(key: &[u8], size: RowSize) -> Owned {
            Owned(RecordPointer::allocate(7, key, size))
        }

        fn record(&self) -> Record<'_> {
            // SAFETY: it is freed when it is dropped.
            unsafe { self.0.as_record() }
        }
    }

    impl Drop for Owned {
        fn drop(&mut self) {
            // SAFETY: no other thread knows it.
            unsafe { self.0.free() };
        }
    }

    #[test]
    fn a_key_lies_in_the_row_where_its_length_is_that_of_the_words() {
        let size = RowSize { words: 4, key_words: 2 };
        let made = Owned::new(b"0123456789abcdef", size);
        let record = made.record();
        let row: Vec<u64> = record.row().iter().map(|word| word.load(Ordering::Relaxed)).collect();
        let word = |bytes: &[u8; 8]| u64::from_ne_bytes(*bytes);
        assert_eq!(row, [0, word(b"01234567"), word(b"89abcdef"), 0]);
        // SAFETY: it is freed below.
        assert_eq!(unsafe { made.0.bytes() }, HEAD_BYTES + 4 * 8);
        assert_eq!(size.record_bytes(16), HEAD_BYTES + 4 * 8);
        record.row()[0].store(1, Ordering::Relaxed);
        record.row()[3].store(3, Ordering::Relaxed);
        assert_eq!(record.key(), b"0123456789abcdef");
        assert!(record.has_key(b"0123456789abcdef") && !record.has_key(b"01234567"));
    }

    #[test]
    fn other_keys_lie_between_head_and_row() {
        for (key, key_words) in [(&b"01234567"[..], 0), (b"01234567", 2), (b"0123", 1), (b"", 1)] {
            let size = RowSize { words: 3, key_words };
            let made = Owned::new(key, size);
            let record = made.record();
            assert_eq!(record.key(), key);
            assert!(record.has_key(key) && !record.has_key(b"0123456!"));
            assert_eq!(record.row().len(), 3);
            assert!(record.row().iter().all(|word| word.load(Ordering::Relaxed) == 0));
            // SAFETY: it is freed below.
            assert_eq!(unsafe { made.0.bytes() }, HEAD_BYTES + key.len().next_multiple_of(8) + 3 * 8);
            record.row().iter().for_each(|word| word.store(u64::MAX, Ordering::Relaxed));
            assert_eq!(record.key(), key);
        }
    }

    #[test]
    fn a_key_of_one_word_in_the_row_is_found_by_its_bytes() {
        let made = Owned::new(b"01234567", RowSize { words: 2, key_words: 1 });
        let record = made.record();
        assert_eq!((record.key(), record.row().len()), (&b"01234567"[..], 2));
        for other in [&b"01234568"[..], b"0123456", b"012345670", b""] {
            assert!(record.has_key(b"01234567") && !record.has_key(other));
        }
    }
}
