//! The layout of a row in memory: its columns as 8-byte words, its long values in immutable blocks.
//!
//! ```text
//! ┌ NULL bits, one a column ┬ column ┬ column ┬ … ┐     a text or byte column's word:
//! │ 1 word for 64 columns   │ 1 or 2 words each  │     low byte odd: the length ×2 +1, then up to 7 bytes
//! └─────────────────────────┴────────────────────┘     else: the address of a block (length, bytes), 8-aligned
//! ```
//!
//! The columns of a key of 64-bit integers come first, in the key's order, and each as its bytes in the encoded key: together they
//! are the record's key, which is not stored apart ([`RowLayout::size`]).
//!
//! Words, not bytes: every column can be read and written alone as one atomic word (decimals of more than 18
//! digits and UUIDs take two), which is what lets a reader race with an install without undefined behavior, and
//! what an addition to one column touches is one word. The words of a column that is NULL are zero, but in a reader's copy
//! of a row where the column is hidden ([`RowLayout::hide`]). What a block holds never changes; a row that gets another
//! value gets another block, and the old one is retired by epoch.

use bumpalo::Bump;
use smallvec::SmallVec;

use crate::base::atomics::{AtomicBool, Ordering};
use crate::error::{Error, Result};
use crate::storage::definition::{ColumnLimit, TableDefinition};
use crate::storage::record::RowSize;
use crate::types::key::{KeyKind, int_of_key_word, key_word_of};
use crate::types::memory::Refused;
use crate::types::{DataType, Date, Decimal, Timestamp, Uuid, Value, ValueRef, assignment};

mod added;
mod aside;
mod numeric_column;
mod value_block;
use added::Added;
pub(crate) use added::Extensions;
pub(crate) use numeric_column::Number;
pub(crate) use value_block::{block_bytes, free_block, is_block, prefetch_block, share_block};
use value_block::{bytes_of, in_arena, in_heap, word_of, word_of_block};

/// The most bytes that the values of one row may have together.
pub(crate) const MAXIMAL_ROW_BYTES: usize = if cfg!(test) { 1 << 15 } else { 16 << 20 };
/// Values of at most this many bytes lie in a word.
pub(crate) const INLINE_BYTES: usize = 7;

/// The places of one table's columns in its rows.
#[derive(Debug)]
pub(crate) struct RowLayout {
    columns: Box<[ColumnLayout]>,
    words: usize,
    /// The number of words behind the NULL bits that are the record's key; zero if the key is stored apart.
    key_words: usize,
    has_blocks: bool,
    /// For each word, whether it belongs to a variable column.
    variable: Box<[bool]>,
    /// The words of variable columns.
    variable_words: Box<[u32]>,
    /// The columns that were added to records which are there.
    added: Option<Box<Added>>,
}

/// The place and the type of one column.
#[derive(Debug)]
pub(crate) struct ColumnLayout {
    pub(crate) data_type: DataType,
    pub(crate) not_null: bool,
    /// The full name, for messages: `account.balance`.
    pub(crate) name: String,
    word: u32,
    shape: Shape,
    /// The least and the greatest number that the column's one word may hold, if it holds a number.
    bounds: (i64, i64),
    /// The limit that the table's checks put on it.
    pub(crate) limit: ColumnLimit,
}

/// The meaning of a column's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shape {
    Bool,
    Int,
    /// An integer of the key, as in the encoded key.
    KeyInt,
    Float,
    Decimal {
        scale: u8,
    },
    WideDecimal {
        scale: u8,
    },
    Text,
    Bytes,
    Date,
    Timestamp,
    Uuid,
    Tuple,
    TopK,
}

impl Shape {
    fn of(data_type: &DataType) -> Shape {
        match *data_type {
            DataType::Bool => Shape::Bool,
            DataType::Int32 | DataType::Int64 => Shape::Int,
            DataType::Float64 => Shape::Float,
            DataType::Decimal { precision, scale } if precision <= 18 => Shape::Decimal { scale },
            DataType::Decimal { scale, .. } => Shape::WideDecimal { scale },
            DataType::Text => Shape::Text,
            DataType::Bytes => Shape::Bytes,
            DataType::Date => Shape::Date,
            DataType::Timestamp => Shape::Timestamp,
            DataType::Uuid => Shape::Uuid,
            DataType::OrderedTuple(_) => Shape::Tuple,
            DataType::TopK { .. } => Shape::TopK,
        }
    }

    fn words(self) -> usize {
        if matches!(self, Shape::WideDecimal { .. } | Shape::Uuid) { 2 } else { 1 }
    }

    fn is_variable(self) -> bool {
        matches!(self, Shape::Text | Shape::Bytes | Shape::Tuple | Shape::TopK)
    }
}

impl RowLayout {
    /// The layout of a table's rows.
    pub(crate) fn new(definition: &TableDefinition) -> RowLayout {
        let (key, mut word) = (key_in_row(definition), definition.columns.len().div_ceil(64));
        let key_at = word;
        word += key.len();
        let columns: Box<[ColumnLayout]> = definition
            .columns
            .iter()
            .zip(definition.column_limits())
            .enumerate()
            .map(|(position, (column, limit))| {
                let in_key = key.iter().position(|&of_key| of_key == position);
                let shape = if in_key.is_some() { Shape::KeyInt } else { Shape::of(&column.data_type) };
                let is_added = position + definition.added.values().len() >= definition.columns.len();
                let layout = ColumnLayout {
                    data_type: column.data_type.clone(),
                    not_null: column.not_null,
                    name: format!("{}.{}", definition.name, column.name),
                    word: in_key.map_or(word, |place| key_at + place) as u32,
                    shape,
                    bounds: numeric_column::bounds(&column.data_type, limit),
                    // Its word need not be in the record: the ways that change one word in place leave it alone.
                    limit: if is_added { ColumnLimit::Checked } else { limit },
                };
                word += if in_key.is_some() { 0 } else { shape.words() };
                layout
            })
            .collect();
        let has_blocks = columns.iter().any(|column| column.shape.is_variable());
        let mut variable = vec![false; word].into_boxed_slice();
        let variable_columns = columns.iter().filter(|column| column.shape.is_variable());
        let variable_words: Box<[u32]> = variable_columns.map(|column| column.word).collect();
        for &at in &variable_words {
            variable[at as usize] = true;
        }
        RowLayout {
            columns,
            words: word,
            key_words: key.len(),
            has_blocks,
            variable,
            variable_words,
            added: None,
        }
    }

    /// The size of a record's row.
    #[inline]
    pub(crate) fn size(&self) -> RowSize {
        RowSize { words: self.words, key_words: self.key_words }
    }

    /// Returns true if the words of a row that are the record's key, if there are such, are those of this one.
    pub(crate) fn fits_key(&self, row: &[u64], key: &[u8]) -> bool {
        let Some(words) = row.get(1..=self.key_words).filter(|_| key.len() == self.key_words * 8) else {
            return true;
        };
        words.iter().zip(key.as_chunks().0).all(|(word, bytes)| word.to_ne_bytes() == *bytes)
    }

    /// The number of words of a row.
    #[inline]
    pub(crate) fn words(&self) -> usize {
        self.words
    }

    /// The number of columns of a row.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.columns.len()
    }

    /// A column's layout.
    #[inline]
    pub(crate) fn column(&self, position: usize) -> &ColumnLayout {
        &self.columns[position]
    }

    /// The words that hold this column, and the word with its NULL bit.
    #[inline]
    pub(crate) fn words_of(&self, position: usize) -> (std::ops::Range<usize>, usize) {
        let column = &self.columns[position];
        let start = column.word as usize;
        (start..start + column.shape.words(), position / 64)
    }

    /// Returns true if the column is NULL in this row.
    #[inline]
    pub(crate) fn is_null(&self, words: &[u64], position: usize) -> bool {
        words[position / 64] >> (position % 64) & 1 == 1
    }

    /// The first word of a column's value; `None` if it is NULL.
    #[inline]
    pub(crate) fn first_word(&self, words: &[u64], position: usize) -> Option<i64> {
        if self.is_null(words, position) {
            return None;
        }
        let column = &self.columns[position];
        let word = words[column.word as usize];
        Some(if column.shape == Shape::KeyInt { int_of_key_word(word) } else { word as i64 })
    }

    /// A column's value.
    ///
    /// # Safety
    /// `words` is a row of this layout, whose blocks stay alive for `'r`.
    #[inline]
    pub(crate) unsafe fn value<'r>(&self, words: &'r [u64], position: usize) -> ValueRef<'r> {
        if self.is_null(words, position) {
            return ValueRef::Null;
        }
        let column = &self.columns[position];
        let at = column.word as usize;
        let word = words[at];
        match column.shape {
            Shape::Bool => ValueRef::Bool(word != 0),
            Shape::Int => ValueRef::Int(word as i64),
            Shape::KeyInt => ValueRef::Int(int_of_key_word(word)),
            Shape::Float => ValueRef::Float(f64::from_bits(word)),
            Shape::Decimal { scale } => {
                ValueRef::Decimal(Decimal::from_stored(i128::from(word as i64), scale))
            }
            Shape::WideDecimal { scale } => ValueRef::Decimal(Decimal::from_stored(
                (u128::from(words[at + 1]) << 64 | u128::from(word)) as i128,
                scale,
            )),
            Shape::Date => ValueRef::Date(Date::from_stored(word as i32)),
            Shape::Timestamp => ValueRef::Timestamp(Timestamp::from_stored(word as i64)),
            Shape::Uuid => {
                let mut bytes = [0; 16];
                bytes[..8].copy_from_slice(&word.to_le_bytes());
                bytes[8..].copy_from_slice(&words[at + 1].to_le_bytes());
                ValueRef::Uuid(Uuid::from_bytes(bytes))
            }
            // SAFETY: the caller's promise; the word was made by `put` of this layout.
            Shape::Text => unsafe { ValueRef::Text(std::str::from_utf8_unchecked(bytes_of(&words[at]))) },
            // SAFETY: as above.
            Shape::Bytes => ValueRef::Bytes(unsafe { bytes_of(&words[at]) }),
            // SAFETY: as above.
            Shape::Tuple => ValueRef::Tuple(unsafe { bytes_of(&words[at]) }),
            // SAFETY: as above.
            Shape::TopK => ValueRef::TopK(unsafe { bytes_of(&words[at]) }),
        }
    }

    /// Appends a column's value as bytes, which are the same for the same value, and never the beginning of another value's.
    ///
    /// # Safety
    /// Same as [`value`](Self::value).
    pub(crate) unsafe fn append_value(&self, words: &[u64], position: usize, into: &mut Vec<u8>) {
        let is_null = self.is_null(words, position);
        into.push(u8::from(is_null));
        if is_null {
            return;
        }
        let column = &self.columns[position];
        let of_column = &words[self.words_of(position).0];
        if !column.shape.is_variable() {
            of_column.iter().for_each(|word| into.extend_from_slice(&word.to_ne_bytes()));
            return;
        }
        // SAFETY: the caller's promise; the word was made by `put` of this layout.
        let bytes = unsafe { bytes_of(&of_column[0]) };
        into.extend_from_slice(&bytes.len().to_ne_bytes());
        into.extend_from_slice(bytes);
    }

    /// Has all columns but these be NULL in a copy of a row.
    #[cfg(debug_assertions)]
    pub(crate) fn clear_others(&self, words: &mut [u64], is_kept: impl Fn(usize) -> bool) {
        for position in (0..self.len()).filter(|&position| !is_kept(position)) {
            words[position / 64] |= 1 << (position % 64);
            words[self.words_of(position).0].fill(0);
        }
    }

    /// Writes a value, which must have been checked ([`RowLayout::checked`]), into an image of a row.
    ///
    /// # Errors
    /// The system refuses the memory for a long value.
    pub(crate) fn put(
        &self,
        words: &mut [u64],
        position: usize,
        value: ValueRef<'_>,
        arena: &Bump,
    ) -> std::result::Result<(), Refused> {
        self.put_anyhow(words, position, value, |bytes| {
            word_of_block(bytes, |layout| in_arena(arena, layout))
        })
    }

    /// Same as `put`, but a long value gets a block on the heap, which the caller must free.
    ///
    /// # Errors
    /// Same errors as `put`.
    pub(crate) fn put_in_heap(
        &self,
        words: &mut [u64],
        position: usize,
        value: ValueRef<'_>,
    ) -> std::result::Result<(), Refused> {
        self.put_anyhow(words, position, value, |bytes| word_of_block(bytes, in_heap))
    }

    /// Same as `put`; `long` makes the word for bytes that don't fit into one.
    #[inline(always)]
    fn put_anyhow(
        &self,
        words: &mut [u64],
        position: usize,
        value: ValueRef<'_>,
        long: impl FnOnce(&[u8]) -> std::result::Result<u64, Refused>,
    ) -> std::result::Result<(), Refused> {
        let column = &self.columns[position];
        let at = column.word as usize;
        words[position / 64] &= !(1 << (position % 64));
        match value {
            ValueRef::Null => {
                words[position / 64] |= 1 << (position % 64);
                words[at..at + column.shape.words()].fill(0);
            }
            ValueRef::Bool(value) => words[at] = u64::from(value),
            ValueRef::Int(value) if column.shape == Shape::KeyInt => words[at] = key_word_of(value),
            ValueRef::Int(value) => words[at] = value as u64,
            ValueRef::Float(value) => words[at] = value.to_bits(),
            ValueRef::Decimal(value) => {
                let unscaled = value.unscaled();
                words[at] = unscaled as u64;
                if column.shape.words() == 2 {
                    words[at + 1] = (unscaled >> 64) as u64;
                }
            }
            ValueRef::Date(value) => words[at] = value.days() as u64,
            ValueRef::Timestamp(value) => words[at] = value.microseconds() as u64,
            ValueRef::Uuid(value) => {
                let bytes = value.bytes();
                let (low, high) = bytes.split_at(8);
                words[at] = u64::from_le_bytes(low.try_into().unwrap_or_default());
                words[at + 1] = u64::from_le_bytes(high.try_into().unwrap_or_default());
            }
            ValueRef::Text(text) => words[at] = word_of(text.as_bytes(), long)?,
            ValueRef::Bytes(bytes) | ValueRef::Tuple(bytes) | ValueRef::TopK(bytes) => {
                words[at] = word_of(bytes, long)?;
            }
        }
        Ok(())
    }

    /// The value in the form in which this column keeps it.
    ///
    /// # Errors
    /// Another type, out of range, NULL where none may be, too long.
    #[inline]
    pub(crate) fn checked<'v>(&self, position: usize, value: ValueRef<'v>) -> Result<ValueRef<'v>> {
        // The usual case first: it needs no look at names.
        if self.columns[position].takes(value) { Ok(value) } else { self.checked_closely(position, value) }
    }

    /// A whole row's values in the form in which its columns keep them: one for each column, in order. `coerced` has room
    /// for them, where they have another form.
    ///
    /// # Errors
    /// Same errors as [`checked`](Self::checked); or the values are too long together.
    pub(crate) fn checked_row<'s, 'v>(
        &self,
        values: &'s [ValueRef<'v>],
        coerced: &'s mut SmallVec<[ValueRef<'v>; 16]>,
    ) -> Result<&'s [ValueRef<'v>]> {
        let as_they_are = self.columns.iter().zip(values).all(|(column, &value)| column.takes(value));
        let checked = if as_they_are {
            values
        } else {
            for (column, &value) in values.iter().enumerate() {
                coerced.push(self.checked(column, value)?);
            }
            coerced
        };
        self.check_size(checked.iter().copied())?;
        Ok(checked)
    }

    fn checked_closely<'v>(&self, position: usize, value: ValueRef<'v>) -> Result<ValueRef<'v>> {
        let column = &self.columns[position];
        let value = assignment::coerce(value, &column.data_type, column.not_null, &column.name)?;
        let bytes = byte_length(value);
        if bytes > MAXIMAL_ROW_BYTES {
            return Err(Error::RowTooLarge { what: column.name.clone(), bytes, maximum: MAXIMAL_ROW_BYTES });
        }
        Ok(value)
    }

    /// Refuses a row whose values have too many bytes together.
    ///
    /// # Errors
    /// [`Error::RowTooLarge`].
    pub(crate) fn check_size<'v>(&self, values: impl Iterator<Item = ValueRef<'v>>) -> Result<()> {
        if !self.has_blocks {
            return Ok(());
        }
        self.check_length(values.map(byte_length).sum())
    }

    /// Refuses a row whose values have this many bytes together, if these are too many.
    ///
    /// # Errors
    /// [`Error::RowTooLarge`].
    pub(crate) fn check_length(&self, bytes: usize) -> Result<()> {
        if bytes > MAXIMAL_ROW_BYTES {
            let table = self.columns[0].name.split('.').next().unwrap_or_default();
            let what = format!("a row of {table}");
            return Err(Error::RowTooLarge { what, bytes, maximum: MAXIMAL_ROW_BYTES });
        }
        Ok(())
    }

    /// The number of bytes outside of words that a row's values have together.
    ///
    /// # Safety
    /// `image` is a row of this layout with live blocks.
    pub(crate) unsafe fn image_bytes(&self, image: &[u64]) -> usize {
        let variable = self.columns.iter().filter(|column| column.shape.is_variable());
        // SAFETY: the caller's promise.
        variable.map(|column| unsafe { bytes_of(&image[column.word as usize]) }.len()).sum()
    }

    /// The block words of a row, or of an earlier definition's: those of variable columns that hold an address.
    pub(crate) fn blocks<'w>(&'w self, words: &'w [u64]) -> impl Iterator<Item = u64> + 'w {
        let words = self.variable_words.iter().filter_map(|&at| words.get(at as usize).copied());
        words.filter(|&word| is_block(word))
    }

    /// Returns true if any value can need a block.
    #[inline]
    pub(crate) fn has_blocks(&self) -> bool {
        self.has_blocks
    }

    /// Returns true if this content of the row's word at `at` is the address of a block.
    pub(crate) fn is_block_at(&self, at: usize, word: u64) -> bool {
        self.variable[at] && is_block(word)
    }

    /// The number of bytes by which the blocks of a row's word change when it changes from `old` to `new`.
    ///
    /// # Safety
    /// Both are contents of the word at `at`, with live blocks.
    pub(crate) unsafe fn change_of_blocks(&self, at: usize, old: u64, new: u64) -> i64 {
        let bytes = |word| {
            // SAFETY: the caller's promise.
            if self.is_block_at(at, word) { unsafe { block_bytes(word) as i64 } } else { 0 }
        };
        bytes(new) - bytes(old)
    }

    /// Gives an image that is to be installed blocks of its own: every block that `installed`, the row that is there
    /// now, doesn't have is copied to the heap, and noted in `made`.
    ///
    /// # Errors
    /// The system refuses the memory.
    ///
    /// # Safety
    /// Both are rows of this layout with live blocks.
    pub(crate) unsafe fn move_blocks_to_heap(
        &self,
        image: &mut [u64],
        installed: &[u64],
        made: &mut impl Extend<u64>,
    ) -> std::result::Result<(), Refused> {
        if !self.has_blocks {
            return Ok(());
        }
        for column in self.columns.iter().filter(|column| column.shape.is_variable()) {
            let at = column.word as usize;
            if is_block(image[at]) && image[at] != installed[at] {
                let word = image[at];
                // SAFETY: the caller's promise.
                let bytes = unsafe { bytes_of(&word) };
                image[at] = word_of_block(bytes, in_heap)?;
                made.extend([image[at]]);
            }
        }
        Ok(())
    }

    /// Hides a column of a copied row: it is marked as NULL, and its word, which is zero where it really is, leads to the
    /// flag that says that it was read.
    pub(crate) fn hide(&self, words: &mut [u64], position: usize, met: &AtomicBool) {
        words[position / 64] |= 1 << (position % 64);
        words[self.columns[position].word as usize] = std::ptr::from_ref(met).expose_provenance() as u64;
    }

    /// Returns true if the column, which is marked as NULL in this copied row, is hidden; notes that it was read.
    ///
    /// # Safety
    /// The flag with which it was hidden is alive.
    #[cold]
    pub(crate) unsafe fn look_at_hidden(&self, words: &[u64], position: usize) -> bool {
        let address = words[self.columns[position].word as usize];
        if address == 0 {
            return false;
        }
        let met = std::ptr::with_exposed_provenance::<AtomicBool>(address as usize);
        // SAFETY: the word of a NULL is zero unless `hide` has marked it; the rest is the caller's promise. Relaxed: the
        // attempt looks when the body has ended, and has joined its threads.
        unsafe { (*met).store(true, Ordering::Relaxed) };
        true
    }

    /// Returns true if this column's values can be longer than a word.
    pub(crate) fn is_variable(&self, position: usize) -> bool {
        self.columns[position].shape.is_variable()
    }

    /// Every value of a row, owned.
    ///
    /// # Safety
    /// Same duties as for [`RowLayout::value`].
    pub(crate) unsafe fn values(&self, words: &[u64]) -> Vec<Value> {
        // SAFETY: the caller's promise.
        (0..self.columns.len()).map(|position| unsafe { self.value(words, position) }.to_value()).collect()
    }
}

impl ColumnLayout {
    /// Returns true if the column holds a signed integer in its one word, so that arithmetic can stay on the word.
    pub(crate) fn is_int(&self) -> bool {
        self.shape == Shape::Int
    }

    /// The place of that word.
    #[inline]
    pub(crate) fn int_word(&self) -> Option<usize> {
        self.is_int().then_some(self.word as usize)
    }
}

/// The columns of a key that lies in its rows: of 64-bit integers, behind one word of NULL bits. Such columns are encoded without a
/// mark for NULL, in eight bytes each.
fn key_in_row(definition: &TableDefinition) -> &[usize] {
    let is_in_row = |&position: &usize| {
        let column = &definition.columns[position];
        column.not_null && KeyKind::of(&column.data_type) == KeyKind::Int64
    };
    let fits = definition.columns.len() <= 64 && definition.key.iter().all(is_in_row);
    if fits { &definition.key } else { &[] }
}

/// The number of bytes of a value that don't lie in words.
pub(crate) fn byte_length(value: ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(text) => text.len(),
        ValueRef::Bytes(bytes) | ValueRef::Tuple(bytes) | ValueRef::TopK(bytes) => bytes.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::key::flip_64;

    fn layout() -> RowLayout {
        RowLayout::new(
            &TableDefinition::new("t")
                .column("a", DataType::Int64)
                .column("b", DataType::Text)
                .column("c", DataType::Decimal { precision: 30, scale: 2 })
                .column("d", DataType::Uuid)
                .column("e", DataType::Int32)
                .not_null()
                .column("f", DataType::Bool)
                .primary_key(["a"]),
        )
    }

    #[test]
    fn values_come_back_as_they_went_in() {
        let layout = layout();
        let arena = Bump::new();
        let mut words = vec![0; layout.words()];
        let wide = Decimal::from_stored(-12_345_678_901_234_567_890_123_456, 2);
        let values = [
            ValueRef::Int(-7),
            ValueRef::Text("a text that needs a block"),
            ValueRef::Decimal(wide),
            ValueRef::Uuid(Uuid::from_bytes([9; 16])),
            ValueRef::Int(5),
            ValueRef::Bool(true),
        ];
        for (position, value) in values.iter().enumerate() {
            layout.put(&mut words, position, *value, &arena).expect("memory");
        }
        for (position, value) in values.iter().enumerate() {
            // SAFETY: the arena outlives the words.
            assert_eq!(unsafe { layout.value(&words, position) }, *value);
        }
        layout.put(&mut words, 2, ValueRef::Null, &arena).expect("memory");
        assert!(layout.is_null(&words, 2) && !layout.is_null(&words, 1));
    }

    /// A table of these columns of integers, and a text, with this key.
    fn keyed(types: &[DataType], key: &[&str]) -> TableDefinition {
        let of = TableDefinition::new("t").column("text", DataType::Text);
        let names = ["a", "b", "c"];
        let columns = types.iter().zip(names);
        columns
            .fold(of, |of, (data_type, name)| of.column(name, data_type.clone()))
            .primary_key(key.iter().copied())
    }

    #[test]
    fn a_key_of_long_integers_lies_behind_the_null_bits_as_it_is_encoded() {
        let arena = Bump::new();
        let layout = RowLayout::new(&keyed(&[DataType::Int64, DataType::Int64], &["b", "a"]));
        assert_eq!((layout.size().words, layout.size().key_words), (4, 2));
        for (a, b) in [(0, 1), (-1, i64::MAX), (i64::MIN, -2)] {
            let values = [ValueRef::Null, ValueRef::Int(a), ValueRef::Int(b)];
            let (mut words, mut aside) = (vec![0; 4], Vec::new());
            for (position, value) in values.iter().enumerate() {
                layout.put(&mut words, position, *value, &arena).expect("memory");
            }
            let encoded = [flip_64(b), flip_64(a)].map(u64::from_ne_bytes);
            assert_eq!(words[1..3], encoded);
            let key = [flip_64(b), flip_64(a)].concat();
            assert!(layout.fits_key(&words, &key) && layout.fits_key(&words, &key[1..]));
            assert!(!layout.fits_key(&words, &[flip_64(a), flip_64(b)].concat()));
            let mut usual = vec![0; 4];
            assert!(layout.put_usual_row(&mut usual, &values, &mut aside));
            assert_eq!(usual, words);
            for (position, value) in values.iter().enumerate() {
                // SAFETY: the row has no blocks.
                assert_eq!(unsafe { layout.value(&words, position) }, *value);
            }
            assert_eq!([0, 1, 2].map(|position| layout.int(&words, position)), [None, Some(a), Some(b)]);
            assert_eq!([1, 2].map(|position| layout.first_word(&words, position)), [Some(a), Some(b)]);
            assert!((1..3).all(|position| layout.number(position).is_none()), "no operation changes a key");
        }
    }

    #[test]
    fn other_keys_are_stored_apart() {
        let long = || keyed(&[DataType::Int64], &["a"]);
        assert_eq!(RowLayout::new(&long()).size().key_words, 1);
        let wide = (0..62).fold(long(), |of, at| of.column(format!("c{at}"), DataType::Int64));
        assert_eq!(RowLayout::new(&wide).size().key_words, 1);
        let others = [
            wide.column("one more", DataType::Int64),
            keyed(&[DataType::Int32], &["a"]),
            keyed(&[DataType::Int64, DataType::Int32], &["a", "b"]),
            keyed(&[DataType::Int64], &["a", "text"]),
            TableDefinition::new("t").column("a", DataType::Int64),
        ];
        for definition in others {
            let layout = RowLayout::new(&definition);
            assert_eq!(layout.size().key_words, 0, "{definition:?}");
            let mut words = vec![0; layout.words()];
            layout.put(&mut words, 1.min(layout.len() - 1), ValueRef::Int(7), &Bump::new()).expect("memory");
            assert!(words.contains(&7));
        }
    }

    #[test]
    fn short_values_lie_in_the_word_and_long_ones_in_blocks() {
        let layout = layout();
        for text in ["", "x", "1234567", "12345678", "ünïcödé"] {
            let arena = Bump::new();
            let mut words = vec![0; layout.words()];
            let empty = words.clone();
            layout.put(&mut words, 1, ValueRef::Text(text), &arena).expect("memory");
            let mut made = Vec::new();
            // SAFETY: the arena is alive.
            unsafe { layout.move_blocks_to_heap(&mut words, &empty, &mut made).expect("memory") };
            drop(arena);
            assert_eq!(made.len(), usize::from(text.len() > INLINE_BYTES), "{text}");
            assert_eq!(layout.blocks(&words).collect::<Vec<_>>(), made);
            // SAFETY: the block, if any, is freed below only.
            assert_eq!(unsafe { layout.value(&words, 1) }, ValueRef::Text(text));
            let mut again = Vec::new();
            let installed = words.clone();
            // SAFETY: the block is alive.
            unsafe { layout.move_blocks_to_heap(&mut words, &installed, &mut again).expect("memory") };
            assert!(again.is_empty(), "a block that the installed row has stays");
            for block in made {
                // SAFETY: made above, used no more.
                unsafe { free_block(block) };
            }
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_with_the_columns_name() {
        let layout = layout();
        let message = |result: Result<ValueRef<'_>>| result.expect_err("refused").to_string();
        assert!(message(layout.checked(4, ValueRef::Int(1 << 40))).contains("t.e"));
        assert!(message(layout.checked(4, ValueRef::Null)).contains("t.e"));
        assert!(message(layout.checked(0, ValueRef::Text("x"))).contains("t.a"));
        let long = "x".repeat(MAXIMAL_ROW_BYTES + 1);
        assert!(layout.checked(1, ValueRef::Text(&long)).is_err());
    }
}
