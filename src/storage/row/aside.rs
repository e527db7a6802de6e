//! Rows whose long values are put aside: the form in which the write set keeps an inserted row.
//!
//! Such a row has the words of any other, but where a long value's word would be the address of a block, it says where in
//! a buffer the value's bytes lie. So a row is put together once, when it is inserted; at the commit its words are
//! copied, and each long value once, into the block that it keeps.
//!
//! Gain of recognizing a row's values at once (`put_usual_row`), when it was introduced: an eighth of the instructions of an insert by
//! closure. `cargo bench --bench hot_path` counts what one takes now.

use std::num::NonZero;
use std::ptr::NonNull;

use bumpalo::Bump;

use super::numeric_column::{SHORT_TEXT, is_usual_text};
use super::value_block::{
    block_bytes, bytes_of, in_arena, in_heap, is_block, prefetch_block, word_of, word_of_block,
};
use super::{MAXIMAL_ROW_BYTES, RowLayout, Shape};
use crate::types::ValueRef;
use crate::types::key::key_word_of;
use crate::types::memory::{Refused, reserve};

/// The number of bits of the length: no value is longer (see [`MAXIMAL_ROW_BYTES`](super::MAXIMAL_ROW_BYTES)).
const LENGTH_BITS: u32 = 30;
const _: () = assert!(super::MAXIMAL_ROW_BYTES < 1 << LENGTH_BITS);

/// The word for bytes at this place of the buffer. It is even and not zero, as that of a block: long values have bytes.
fn word_of_place(start: usize, length: usize) -> u64 {
    debug_assert!(length > 0 && length < 1 << LENGTH_BITS && start < 1 << (63 - LENGTH_BITS));
    (start as u64) << (LENGTH_BITS + 1) | (length as u64) << 1
}

fn put_bytes_aside(bytes: &[u8], aside: &mut Vec<u8>) -> u64 {
    let start = aside.len();
    aside.extend_from_slice(bytes);
    word_of_place(start, bytes.len())
}

fn bytes_at(word: u64, aside: &[u8]) -> &[u8] {
    let start = (word >> (LENGTH_BITS + 1)) as usize;
    let length = (word >> 1 & ((1 << LENGTH_BITS) - 1)) as usize;
    &aside[start..start + length]
}

impl RowLayout {
    /// Same as [`put`](Self::put), but long bytes are appended to `aside`.
    #[inline]
    pub(crate) fn put_aside(
        &self,
        words: &mut [u64],
        position: usize,
        value: ValueRef<'_>,
        aside: &mut Vec<u8>,
    ) {
        // Refuses nothing: the room was reserved with the statement.
        let put = self.put_anyhow(words, position, value, |bytes| Ok(put_bytes_aside(bytes, aside)));
        debug_assert!(put.is_ok());
    }

    /// Puts a whole row into words that are zero, if all its values are recognized at once as valid for their columns
    /// ([`ColumnLayout::takes`]). Returns true if they were: if not, the words and what is aside hold a part of it.
    pub(crate) fn put_usual_row(
        &self,
        words: &mut [u64],
        values: &[ValueRef<'_>],
        aside: &mut Vec<u8>,
    ) -> bool {
        if self.columns.len() * SHORT_TEXT > MAXIMAL_ROW_BYTES {
            return false;
        }
        self.columns.iter().zip(values).enumerate().all(|(position, (column, &value))| {
            let word = match (value, column.shape) {
                (ValueRef::Int(int), Shape::Int) if column.is_within(int) => int as u64,
                (ValueRef::Int(int), Shape::KeyInt) if column.is_within(int) => key_word_of(int),
                (ValueRef::Decimal(decimal), Shape::Decimal { scale }) if decimal.scale() == scale => {
                    match i64::try_from(decimal.unscaled()) {
                        Ok(unscaled) if column.is_within(unscaled) => unscaled as u64,
                        _ => return false,
                    }
                }
                (ValueRef::Text(text), Shape::Text) if is_usual_text(text) => {
                    match word_of(text.as_bytes(), |bytes| Ok(put_bytes_aside(bytes, aside))) {
                        Ok(word) => word,
                        Err(_) => return false,
                    }
                }
                (ValueRef::Timestamp(time), Shape::Timestamp) => time.microseconds() as u64,
                (ValueRef::Null, _) if !column.not_null => {
                    words[position / 64] |= 1 << (position % 64);
                    return true;
                }
                _ => return false,
            };
            words[column.word as usize] = word;
            true
        })
    }

    /// Gives a copy of a row whose long values were put aside blocks in an arena.
    ///
    /// # Errors
    /// The system refuses the memory; here and below.
    pub(crate) fn settle_in_arena(
        &self,
        words: &mut [u64],
        aside: &[u8],
        arena: &Bump,
    ) -> Result<(), Refused> {
        self.settle(words, aside, |bytes| word_of_block(bytes, |layout| in_arena(arena, layout)))
    }

    /// Gives a copy of a row whose long values were put aside blocks on the heap, and notes them in `made`.
    pub(crate) fn settle_in_heap(
        &self,
        words: &mut [u64],
        aside: &[u8],
        made: &mut impl Extend<u64>,
    ) -> Result<(), Refused> {
        self.settle(words, aside, |bytes| {
            let word = word_of_block(bytes, in_heap)?;
            made.extend([word]);
            Ok(word)
        })
    }

    /// Gives copied rows copies of their blocks, all in one buffer, for readers that keep rows when they are pinned no
    /// more.
    ///
    /// # Errors
    /// The system refuses the memory: the rows are as they were.
    ///
    /// # Safety
    /// `words` are whole rows of this layout with live blocks.
    pub(crate) unsafe fn move_blocks_to_buffer(&self, words: &mut [u64]) -> Result<Vec<u64>, Refused> {
        let Some(rows) = NonZero::new(self.words).filter(|_| self.has_blocks) else { return Ok(Vec::new()) };
        let room = |word: u64| {
            // SAFETY: the caller's promise.
            if is_block(word) { unsafe { block_bytes(word) }.div_ceil(8) } else { 0 }
        };
        words.chunks_exact(rows.get()).flat_map(|row| self.blocks(row)).for_each(prefetch_block);
        let blocks = words.chunks_exact(rows.get()).flat_map(|row| self.blocks(row));
        let mut buffer: Vec<u64> = Vec::new();
        reserve(&mut buffer, blocks.map(room).sum())?;
        for row in words.chunks_exact_mut(rows.get()) {
            for &at in &self.variable_words {
                let word = row[at as usize];
                if is_block(word) {
                    let start = buffer.len();
                    // Within its capacity: the buffer does not move.
                    buffer.resize(start + room(word), 0);
                    // SAFETY: the place is inside of the buffer, and the block is the caller's promise.
                    let (place, bytes) =
                        unsafe { (buffer.as_mut_ptr().add(start).cast::<u8>(), bytes_of(&word)) };
                    row[at as usize] = match NonNull::new(place) {
                        Some(place) => word_of_block(bytes, |_| Ok(place))?,
                        None => 0,
                    };
                }
            }
        }
        Ok(buffer)
    }

    /// Moves a row's long values from one buffer into another one.
    pub(crate) fn move_aside(&self, words: &mut [u64], from: &[u8], to: &mut Vec<u8>) {
        let moved = self.settle(words, from, |bytes| Ok(put_bytes_aside(bytes, to)));
        debug_assert!(moved.is_ok());
    }

    /// The variable columns that are not among these: the word of each, and its position.
    pub(crate) fn variable_columns_except(&self, positions: &[usize]) -> Box<[(u32, u32)]> {
        let columns = self.columns.iter().enumerate();
        let is_left_out = |(position, column): &(usize, &super::ColumnLayout)| {
            column.shape.is_variable() && !positions.contains(position)
        };
        columns.filter(is_left_out).map(|(position, column)| (column.word, position as u32)).collect()
    }

    /// Makes these columns NULL in copied rows.
    pub(crate) fn forget(&self, words: &mut [u64], columns: &[(u32, u32)]) {
        let Some(rows) = NonZero::new(self.words).filter(|_| !columns.is_empty()) else { return };
        for row in words.chunks_exact_mut(rows.get()) {
            for &(at, position) in columns {
                row[at as usize] = 0;
                row[position as usize / 64] |= 1 << (position % 64);
            }
        }
    }

    /// Moves the row's references to long values in the buffer by this many bytes.
    pub(crate) fn shift_aside(&self, words: &mut [u64], bytes: usize) {
        for &at in &self.variable_words {
            let word = &mut words[at as usize];
            if is_block(*word) {
                *word += (bytes as u64) << (LENGTH_BITS + 1);
            }
        }
    }

    #[inline]
    fn settle(
        &self,
        words: &mut [u64],
        aside: &[u8],
        mut block: impl FnMut(&[u8]) -> Result<u64, Refused>,
    ) -> Result<(), Refused> {
        for &at in &self.variable_words {
            let word = &mut words[at as usize];
            if is_block(*word) {
                *word = block(bytes_at(*word, aside))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::definition::TableDefinition;
    use crate::storage::row::free_block;
    use crate::types::{DataType, Decimal, Timestamp};

    fn layout() -> RowLayout {
        RowLayout::new(
            &TableDefinition::new("t")
                .column("a", DataType::Int64)
                .column("b", DataType::Text)
                .column("c", DataType::Bytes)
                .column("d", DataType::Text),
        )
    }

    #[test]
    fn a_row_of_usual_values_is_put_as_they_are_put_one_by_one() {
        let decimal = DataType::Decimal { precision: 6, scale: 2 };
        let definition = TableDefinition::new("t").column("a", DataType::Int32).not_null();
        let definition = definition.column("b", DataType::Text).column("c", decimal);
        let layout = RowLayout::new(&definition.column("d", DataType::Timestamp));
        let money = |unscaled, scale| ValueRef::Decimal(Decimal::from_stored(unscaled, scale));
        let time = ValueRef::Timestamp(Timestamp::from_stored(-7));
        let usual = [ValueRef::Int(-3), ValueRef::Text("longer than a word"), money(-150, 2), time];
        let null = ValueRef::Null;
        for values in [usual, [usual[0], ValueRef::Text("short"), null, null], [usual[0], null, null, time]] {
            let (mut one, mut other) = (b"before".to_vec(), b"before".to_vec());
            let mut words = vec![0; layout.words()];
            assert!(layout.put_usual_row(&mut words, &values, &mut one), "{values:?}");
            assert_eq!(words, put_aside(&layout, &values, &mut other));
            assert_eq!(one, other);
        }
        let others = [
            (0, null),
            (0, ValueRef::Int(1 << 31)),
            (1, ValueRef::Text("a\0b")),
            (1, ValueRef::Bytes(b"bytes")),
            (2, money(15, 1)),
            (2, money(1_000_000, 2)),
            (2, money(1 << 70, 2)),
            (2, ValueRef::Int(1)),
            (3, ValueRef::Int(1)),
        ];
        for (column, value) in others {
            let mut values = usual;
            values[column] = value;
            let mut words = vec![0; layout.words()];
            assert!(!layout.put_usual_row(&mut words, &values, &mut Vec::new()), "{value:?}");
        }
    }

    fn row<'v>(text: &'v str, bytes: &'v [u8]) -> [ValueRef<'v>; 4] {
        [ValueRef::Int(-1), ValueRef::Text(text), ValueRef::Bytes(bytes), ValueRef::Null]
    }

    fn put_aside(layout: &RowLayout, values: &[ValueRef<'_>], aside: &mut Vec<u8>) -> Vec<u64> {
        let mut words = vec![0; layout.words()];
        for (position, &value) in values.iter().enumerate() {
            layout.put_aside(&mut words, position, value, aside);
        }
        words
    }

    #[test]
    fn a_row_put_aside_is_the_row_that_is_put_at_once() {
        let layout = layout();
        let long = "y".repeat(1_000);
        let mut aside = b"what others have put aside".to_vec();
        for (text, bytes) in
            [("", &b"long enough"[..]), ("short", b""), ("1234567", b"\0"), (&long, b"a long one")]
        {
            let values = row(text, bytes);
            let buffered = put_aside(&layout, &values, &mut aside);
            let arena = Bump::new();
            let mut settled = buffered.clone();
            layout.settle_in_arena(&mut settled, &aside, &arena).expect("memory");
            for (position, value) in values.iter().enumerate() {
                // SAFETY: the arena outlives the words.
                assert_eq!(unsafe { layout.value(&settled, position) }, *value);
            }
        }
    }

    #[test]
    fn blocks_on_the_heap_are_noted_and_outlive_what_was_put_aside() {
        let layout = layout();
        let mut aside = Vec::new();
        let mut words = put_aside(&layout, &row("a text that needs a block", b"bytes, too"), &mut aside);
        let mut made = Vec::new();
        layout.settle_in_heap(&mut words, &aside, &mut made).expect("memory");
        drop(aside);
        assert_eq!(layout.blocks(&words).collect::<Vec<_>>(), made);
        assert_eq!(made.len(), 2);
        // SAFETY: the blocks are freed below only.
        unsafe {
            assert_eq!(layout.value(&words, 1), ValueRef::Text("a text that needs a block"));
            assert_eq!(layout.value(&words, 2), ValueRef::Bytes(b"bytes, too"));
        }
        for block in made {
            // SAFETY: made above, used no more.
            unsafe { free_block(block) };
        }
    }

    #[test]
    fn what_was_put_aside_can_be_moved_on() {
        let layout = layout();
        let values = row("short", b"longer than a word");
        let mut aside = Vec::new();
        let mut words = put_aside(&layout, &values, &mut aside);
        aside.splice(0..0, *b"before it");
        layout.shift_aside(&mut words, 9);
        let arena = Bump::new();
        layout.settle_in_arena(&mut words, &aside, &arena).expect("memory");
        for (position, value) in values.iter().enumerate() {
            // SAFETY: the arena outlives the words.
            assert_eq!(unsafe { layout.value(&words, position) }, *value);
        }
    }

    #[test]
    fn the_largest_places_have_words_of_their_own() {
        let (start, length) = ((1 << 30) - 1, (1 << LENGTH_BITS) - 1);
        let word = word_of_place(start, length);
        assert!(is_block(word));
        assert_eq!(
            (word >> (LENGTH_BITS + 1), word >> 1 & ((1 << LENGTH_BITS) - 1)),
            (start as u64, length as u64)
        );
    }
}
