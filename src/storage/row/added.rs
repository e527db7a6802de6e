//! Columns that were added to a table whose records stay as they are: the places of such a column's words in a record that
//! is older than the column.
//!
//! ```text
//! record that is older           extension                           the layout
//! ┌──────┬───────┬──────────┐    ┌───────┬───────────┬───────┐       ┌────────────────────┐
//! │ head │ key   │ words    │ ─> │ words │ NULL bits │ words │       │ values of the past │
//! └──────┴───────┴──────────┘    └───────┴───────────┴───────┘       └────────────────────┘
//!                  0 … n - 1         words n … m - 1                    words m …
//! ```
//! A record is made with all words that its table has then. What such a *short* record lacks is in its extension, once
//! something else than the column's value of the past was written; before that it is in the layout, for all records together.
//! The record's head has the number of the extension, by which a directory of the table leads to it.
//!
//! # Invariants
//! - Added columns are the last ones, and their NULL bits are in the word that had the last column's before. So a row of an earlier
//!   definition is the beginning of the same row of a later one, but for bits that the earlier one does not look at.
//! - An extension is made for a record that is held, with what the record has already: making one changes nothing. It stays until
//!   the record is freed, or a longer one replaces it.
//! - A word that no extension has is the layout's.
//!
//! # Concurrency
//! The words of an extension are read and written as those of the record: by a reader that looks at the record's word before and
//! after, and by the one thread that holds the record.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::{NonNull, null_mut, slice_from_raw_parts_mut};
use std::sync::{Arc, LazyLock};

use crossbeam_epoch::Guard;
use smallvec::SmallVec;

use super::{RowLayout, block_bytes, free_block, is_block, share_block};
use crate::base::atomics::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use crate::storage::budget::Budget;
use crate::storage::definition::TableDefinition;
use crate::storage::garbage;
use crate::storage::record::Record;
use crate::types::ValueRef;
use crate::types::memory::{Refused, reserve};

/// The words of an extension before its row's: the number of words of the row that it has, and the NULL bits of their
/// columns.
const HEAD_WORDS: usize = 2;
/// Each segment of the directory is twice as long as the one before.
const SEGMENTS: usize = 32;

/// The extensions of a table's records; all definitions of the same records share it.
#[derive(Debug)]
pub(crate) struct Extensions {
    /// The number of numbers that were given.
    count: AtomicU32,
    segments: [AtomicPtr<AtomicPtr<AtomicU64>>; SEGMENTS],
}

/// The added columns of a layout.
#[derive(Debug)]
pub(super) struct Added {
    /// The first of them.
    first: usize,
    /// A row with their values of the past; the other words are zero, and so are the other NULL bits.
    past: Box<[u64]>,
    extensions: Arc<Extensions>,
}

/// A number's segment, and its place in there.
fn place_of(number: u32) -> (usize, usize) {
    let segment = number.ilog2();
    (segment as usize, (number - (1 << segment)) as usize)
}

fn segment_layout(segment: usize) -> Layout {
    match Layout::array::<AtomicPtr<AtomicU64>>(1 << segment) {
        Ok(layout) => layout,
        Err(_) => unreachable!("a segment has at most 2^31 places"),
    }
}

impl Default for Extensions {
    fn default() -> Extensions {
        let segments = std::array::from_fn(|_| AtomicPtr::new(null_mut()));
        Extensions { count: AtomicU32::new(0), segments }
    }
}

impl Extensions {
    /// The place of a number that was given, if its segment is there.
    fn place(&self, number: u32) -> Option<&AtomicPtr<AtomicU64>> {
        let (segment, at) = place_of(number);
        // Acquire pairs with the release in `give_number`: the segment's places are zero, or were written since.
        let start = NonNull::new(self.segments[segment].load(Ordering::Acquire))?;
        // SAFETY: a segment has this many places, all of which were made with it, and stays until the directory is dropped.
        Some(unsafe { &*start.as_ptr().add(at) })
    }

    /// A number that no other record has.
    fn give_number(&self) -> Result<u32, Refused> {
        // Relaxed: only that it is unique matters.
        let given =
            self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_add(1));
        let number = given.map_err(|_| Refused::of(usize::MAX))? + 1;
        let (segment, layout) = (place_of(number).0, segment_layout(place_of(number).0));
        if self.segments[segment].load(Ordering::Relaxed).is_null() {
            // SAFETY: a segment has at least one place. Null pointers are zeros.
            let made =
                NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(|| Refused::of(layout.size()))?;
            let new = made.as_ptr().cast();
            // Release: a thread that finds the segment finds its zeros.
            let put = self.segments[segment].compare_exchange(
                null_mut(),
                new,
                Ordering::Release,
                Ordering::Relaxed,
            );
            if put.is_err() {
                // SAFETY: made above, and another thread's is there.
                unsafe { dealloc(made.as_ptr(), layout) };
            }
        }
        Ok(number)
    }

    /// The words of a record's extension, if it has one.
    fn of<'g>(&'g self, record: Record<'g>) -> Option<&'g [AtomicU64]> {
        // Acquire pairs with the release in `put`: the place, and the extension's words, are there.
        let number = record.extension().load(Ordering::Acquire);
        if number == 0 {
            return None;
        }
        let start = NonNull::new(self.place(number)?.load(Ordering::Acquire))?;
        // SAFETY: `put` put it there, as long as it says itself. It is freed when the record is, or when each thread has
        // unpinned that could have found it here.
        unsafe { Some(std::slice::from_raw_parts(start.as_ptr(), length_of(start))) }
    }

    /// Gives a record, which is held, this extension.
    fn put(&self, record: Record<'_>, words: Vec<AtomicU64>, guard: &Guard) -> Result<(), Refused> {
        // Relaxed: the record is held.
        let number = record.extension().load(Ordering::Relaxed);
        let place = if number == 0 { self.give_number()? } else { number };
        let Some(at) = self.place(place) else { return Err(Refused::of(size_of::<usize>())) };
        let new = Box::into_raw(words.into_boxed_slice()).cast::<AtomicU64>();
        // Release, twice: as said in `of`.
        let before = at.swap(new, Ordering::AcqRel);
        if number == 0 {
            record.extension().store(place, Ordering::Release);
        }
        if let Some(before) = NonNull::new(before) {
            let before = Owned(before);
            // SAFETY: the next look finds the new one.
            unsafe { garbage::retire(guard, move || before.free()) };
        }
        Ok(())
    }

    /// Frees the extension of a record.
    ///
    /// # Safety
    /// No thread uses the record any more.
    unsafe fn free(&self, record: Record<'_>) {
        let number = record.extension().load(Ordering::Acquire);
        let found = if number == 0 { None } else { self.place(number) };
        let found = found.and_then(|place| NonNull::new(place.swap(null_mut(), Ordering::AcqRel)));
        if let Some(start) = found {
            // SAFETY: the caller's promise.
            unsafe { Owned(start).free() };
        }
    }
}

impl Drop for Extensions {
    fn drop(&mut self) {
        for (segment, start) in self.segments.iter().enumerate() {
            let Some(start) = NonNull::new(start.load(Ordering::Relaxed)) else { continue };
            for at in 0..1 << segment {
                // SAFETY: a segment has this many places; the table is gone, and its records with it.
                unsafe {
                    let extension = NonNull::new((*start.as_ptr().add(at)).load(Ordering::Relaxed));
                    extension.into_iter().for_each(|extension| Owned(extension).free());
                }
            }
            // SAFETY: `give_number` made it with this layout.
            unsafe { dealloc(start.as_ptr().cast(), segment_layout(segment)) };
        }
    }
}

/// # Safety
/// It is the beginning of an extension that is alive.
unsafe fn length_of(start: NonNull<AtomicU64>) -> usize {
    // SAFETY: the caller's promise. Relaxed: it never changes, and came with the address.
    HEAD_WORDS + unsafe { start.as_ref() }.load(Ordering::Relaxed) as usize
}

/// An extension that is to be freed.
struct Owned(NonNull<AtomicU64>);

// SAFETY: it is plain memory; a thread that owns the pointer owns the memory.
unsafe impl Send for Owned {}

impl Owned {
    /// # Safety
    /// No thread uses it any more.
    unsafe fn free(self) {
        // SAFETY: the caller's promise; it was a box of as many words.
        unsafe { drop(Box::from_raw(slice_from_raw_parts_mut(self.0.as_ptr(), length_of(self.0)))) };
    }
}

impl RowLayout {
    /// The layout of no table's rows, for a look at a record that copies nothing of its row.
    pub(crate) fn empty() -> &'static RowLayout {
        static EMPTY: LazyLock<RowLayout> = LazyLock::new(|| RowLayout::new(&TableDefinition::new("")));
        &EMPTY
    }

    /// Same as [`new`](Self::new), for the records that have these extensions.
    pub(crate) fn of_records(definition: &TableDefinition, extensions: &Arc<Extensions>) -> RowLayout {
        let mut layout = RowLayout::new(definition);
        let past = definition.added.values();
        if past.is_empty() {
            return layout;
        }
        let first = definition.columns.len() - past.len();
        let mut words = vec![0; layout.words].into_boxed_slice();
        for (at, value) in past.iter().enumerate() {
            let put = layout.put_in_heap(&mut words, first + at, ValueRef::from(value));
            // As any table's definition: without memory for it nothing goes on.
            put.unwrap_or_else(|refused| refused.abort());
        }
        layout.added = Some(Box::new(Added { first, past: words, extensions: extensions.clone() }));
        layout
    }

    /// The value that rows have in an added column which were written before it was added.
    pub(crate) fn past_value(&self, position: usize) -> Option<ValueRef<'_>> {
        let added = self.added.as_ref().filter(|added| position >= added.first)?;
        // SAFETY: the blocks are the layout's.
        Some(unsafe { self.value(&added.past, position) })
    }

    /// Returns true if the record is older than a column of this layout.
    #[inline]
    pub(crate) fn is_short(&self, record: Record<'_>) -> bool {
        record.row().len() < self.words
    }

    /// The first column of which a row of this many words has nothing.
    fn first_missing(&self, added: &Added, words: usize) -> usize {
        let columns = self.columns[added.first..].iter();
        added.first + columns.take_while(|column| (column.word as usize) < words).count()
    }

    /// The NULL bits of this column and those behind it.
    fn bits_from(&self, column: usize) -> u64 {
        if column < self.columns.len() { !0 << (column % 64) } else { 0 }
    }

    /// The word with the last columns' NULL bits.
    fn last_bits(&self) -> usize {
        (self.columns.len() - 1) / 64
    }

    /// Fills a row's copy that has this many words of an earlier definition's row with the added columns' values of the past.
    pub(crate) fn complete(&self, copy: &mut [u64], present: usize) {
        let Some(added) = self.added.as_ref().filter(|_| present < copy.len()) else { return };
        let bits = self.bits_from(self.first_missing(added, present));
        let end = copy.len().min(self.words);
        copy[present..end].copy_from_slice(&added.past[present..end]);
        let at = self.last_bits();
        copy[at] = copy[at] & !bits | added.past[at] & bits;
    }

    /// Same as `complete`, for a row that has this many columns.
    pub(crate) fn complete_columns(&self, row: &mut [u64], columns: usize) {
        if columns < self.columns.len() {
            self.complete(row, self.columns[columns].word as usize);
        }
    }

    /// Same as `complete_columns`, for a row whose long values are aside.
    pub(crate) fn complete_aside(&self, row: &mut [u64], columns: usize, aside: &mut Vec<u8>) {
        for position in columns..self.columns.len() {
            self.put_aside(row, position, self.past_value(position).unwrap_or(ValueRef::Null), aside);
        }
    }

    /// Fills a copy of a short record's words with what the record lacks. As the copy itself, it may be worth nothing: the
    /// caller looks at the record's word again.
    #[cold]
    #[inline(never)]
    pub(crate) fn complete_short(&self, record: Record<'_>, copy: &mut [u64]) {
        let present = record.row().len();
        self.complete(copy, present);
        let Some(added) = self.added.as_ref().filter(|_| present < copy.len()) else { return };
        let Some(extension) = added.extensions.of(record) else { return };
        let (head, words) = extension.split_at(HEAD_WORDS);
        let words = &words[..words.len().min(copy.len() - present)];
        for (copied, word) in copy[present..].iter_mut().zip(words) {
            *copied = word.load(Ordering::Relaxed);
        }
        let from = self.bits_from(self.first_missing(added, present));
        let bits = from & !self.bits_from(self.first_missing(added, present + words.len()));
        let at = self.last_bits();
        copy[at] = copy[at] & !bits | head[1].load(Ordering::Relaxed) & bits;
    }

    /// The row of a record that is held, or that no other thread uses.
    pub(crate) fn held_row(&self, record: Record<'_>) -> SmallVec<[u64; 32]> {
        // Relaxed: the record is held, and its row was acquired with its word.
        let mut words: SmallVec<[u64; 32]> =
            record.row().iter().map(|word| word.load(Ordering::Relaxed)).collect();
        if self.is_short(record) {
            words.resize(self.words, 0);
            self.complete_short(record, &mut words);
        }
        words
    }

    /// The place of a word of a short record's row; `None` if it is as it was in the past.
    pub(crate) fn word_of_short<'g>(&'g self, record: Record<'g>, at: usize) -> Option<&'g AtomicU64> {
        let row = record.row();
        match row.get(at) {
            Some(word) => Some(word),
            None => self.added.as_ref()?.extensions.of(record)?.get(HEAD_WORDS + at - row.len()),
        }
    }

    /// Sets the NULL bits of a short record's added columns. It is held, and marked as busy.
    pub(crate) fn store_bits_of_short(&self, record: Record<'_>, image: &[u64]) {
        if let Some(extension) = self.added.as_ref().and_then(|added| added.extensions.of(record)) {
            // Relaxed: as of the other words of a held row.
            extension[1].store(image[self.last_bits()], Ordering::Relaxed);
        }
    }

    /// Makes room in a short record, which is held, for this row.
    ///
    /// # Errors
    /// The system refuses the memory.
    #[cold]
    #[inline(never)]
    pub(crate) fn make_room(
        &self,
        record: Record<'_>,
        image: &[u64],
        budget: &Budget,
        guard: &Guard,
    ) -> Result<(), Refused> {
        let Some(added) = &self.added else { return Ok(()) };
        let present = record.row().len();
        let before = added.extensions.of(record);
        let known = present + before.map_or(0, |extension| extension.len() - HEAD_WORDS);
        let (bits, at) = (self.bits_from(self.first_missing(added, known)), self.last_bits());
        if known >= self.words
            || image[known..] == added.past[known..] && (image[at] ^ added.past[at]) & bits == 0
        {
            return Ok(());
        }
        let row = self.held_row(record);
        let mut words = Vec::new();
        reserve(&mut words, HEAD_WORDS + self.words - present)?;
        words.extend([(self.words - present) as u64, row[at]].map(AtomicU64::new));
        words.extend(row[present..].iter().copied().map(AtomicU64::new));
        let shared = self.variable_words.iter().filter(|&&word| word as usize >= known);
        let shared: SmallVec<[u64; 8]> =
            shared.map(|&word| row[word as usize]).filter(|&word| is_block(word)).collect();
        let bytes_before = self.extension_bytes(record) as i64;
        added.extensions.put(record, words, guard)?;
        let of_record = record.pointer().to_bits() as usize;
        budget.note_blocks(self.extension_bytes(record) as i64 - bytes_before, of_record);
        for block in shared {
            // SAFETY: the layout is an owner of the block, and the record becomes one.
            let bytes = unsafe {
                share_block(block);
                block_bytes(block)
            };
            budget.note_blocks(bytes as i64, of_record);
        }
        Ok(())
    }

    /// The number of bytes of a short record's extension; zero if it has none.
    pub(crate) fn extension_bytes(&self, record: Record<'_>) -> usize {
        let extension = self.added.as_ref().and_then(|added| added.extensions.of(record));
        extension.map_or(0, size_of_val)
    }

    /// Frees the extension of a short record.
    ///
    /// # Safety
    /// No thread uses the record any more.
    pub(crate) unsafe fn free_extension(&self, record: Record<'_>) {
        if let Some(added) = &self.added {
            // SAFETY: the caller's promise.
            unsafe { added.extensions.free(record) };
        }
    }

    /// The blocks that a record owns: those of its words, and of its extension's.
    pub(crate) fn blocks_of(&self, record: Record<'_>) -> SmallVec<[u64; 8]> {
        let words = self.variable_words.iter().filter_map(|&at| self.word_of_short(record, at as usize));
        words.map(|word| word.load(Ordering::Relaxed)).filter(|&word| is_block(word)).collect()
    }
}

impl Drop for RowLayout {
    fn drop(&mut self) {
        if let Some(added) = self.added.take() {
            for block in self.blocks(&added.past) {
                // SAFETY: the layout made them, and releases its share.
                unsafe { free_block(block) };
            }
        }
    }
}
