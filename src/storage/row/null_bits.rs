//! The NULL bits of rows: where they lie, and whether there are any.
//!
//! ```text
//! a table with a column that can be NULL   │ NULL bits │ key │ columns │
//! one in which no column can be NULL       │ key │ columns │
//! such a table, since a column is nullable │ key │ columns │ NULL bits │ columns added since │
//! ```
//!
//! # Invariants
//! - All definitions of the same records agree where the NULL bits lie. What a table's first definition says holds for as long as
//!   its records stay; a copy of a table, and recovery, which makes its records again, decide again.
//! - Records that were made without NULL bits lack them as they lack an added column ([`super::added`]): they are short, and no
//!   column of theirs is NULL until an extension says so.
//! - A row without NULL bits has no NULL. A reader's copy of such a row may have room for them behind its words
//!   ([`RowLayout::words_with_null_bits`]), where columns are marked that the reader does not see.

use super::RowLayout;
use crate::base::atomics::{AtomicU64, Ordering};
use crate::storage::definition::TableDefinition;

/// Where the rows of a table have NULL bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NullBits {
    /// In their first words.
    First,
    /// Nowhere: no column can be NULL.
    Nowhere,
    /// Behind this many words: the records were made without them.
    Behind(usize),
}

impl NullBits {
    /// Those of a table that has no records yet.
    pub(crate) fn of_new(definition: &TableDefinition) -> NullBits {
        if definition.can_hold_null() { NullBits::First } else { NullBits::Nowhere }
    }

    pub(super) fn is_behind(self) -> bool {
        matches!(self, NullBits::Behind(_))
    }
}

impl RowLayout {
    /// Where another definition of the same records has NULL bits.
    pub(crate) fn null_bits_of(&self, definition: &TableDefinition) -> NullBits {
        if definition.can_hold_null() { self.added_null_bits() } else { self.nulls }
    }

    /// Where a definition of the same records has NULL bits, whether or not a column can be NULL.
    pub(crate) fn added_null_bits(&self) -> NullBits {
        if self.has_null_bits() { self.nulls } else { NullBits::Behind(self.words) }
    }

    /// Whether rows have NULL bits.
    #[inline]
    pub(crate) fn has_null_bits(&self) -> bool {
        self.nulls != NullBits::Nowhere
    }

    /// How many words a reader's copy of a row has if it has room for NULL bits, whether or not rows have them.
    #[inline]
    pub(crate) fn words_with_null_bits(&self) -> usize {
        self.words + if self.has_null_bits() { 0 } else { self.columns.len().div_ceil(64) }
    }

    /// The word with a column's NULL bit, and the bit.
    #[inline]
    fn null_bit(&self, position: usize) -> (usize, u64) {
        (self.nulls_at + position / 64, 1 << (position % 64))
    }

    /// Whether the column is NULL in this row.
    #[inline]
    pub(crate) fn is_null(&self, words: &[u64], position: usize) -> bool {
        let (at, bit) = self.null_bit(position);
        words.get(at).is_some_and(|word| word & bit != 0)
    }

    /// Whether the column is NULL in the row of a record that is held and has the column's NULL bit, if rows have any.
    #[inline]
    pub(crate) fn is_null_in_record(&self, row: &[AtomicU64], position: usize) -> bool {
        let (at, bit) = self.null_bit(position);
        // Relaxed: the record is held, and its row was acquired with the word.
        row.get(at).is_some_and(|word| word.load(Ordering::Relaxed) & bit != 0)
    }

    /// Sets or clears a column's NULL bit. Whether the row has one; without it the column is not NULL.
    #[inline]
    pub(crate) fn set_null(&self, words: &mut [u64], position: usize, is_null: bool) -> bool {
        let (at, bit) = self.null_bit(position);
        let Some(word) = words.get_mut(at) else { return false };
        *word = if is_null { *word | bit } else { *word & !bit };
        true
    }

    /// Clears a column's NULL bit in the row of a record, as in `is_null_in_record`, which is marked as busy.
    #[inline]
    pub(crate) fn set_not_null_in_record(&self, row: &[AtomicU64], position: usize) {
        let (at, bit) = self.null_bit(position);
        let Some(nulls) = row.get(at) else { return };
        // Relaxed, twice: as of the other words of a held row.
        let before = nulls.load(Ordering::Relaxed);
        if before & bit != 0 {
            nulls.store(before & !bit, Ordering::Relaxed);
        }
    }

    /// The word with the last columns' NULL bits.
    pub(super) fn last_null_word(&self) -> Option<usize> {
        self.has_null_bits().then(|| self.nulls_at + (self.columns.len() - 1) / 64)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bumpalo::Bump;

    use super::*;
    use crate::storage::row::Extensions;
    use crate::types::{DataType, Value, ValueRef};

    /// A key and this many columns, none of which can be NULL.
    fn full(columns: usize) -> TableDefinition {
        let of = TableDefinition::new("t").column("id", DataType::Int64);
        let of = (0..columns).fold(of, |of, at| of.column(format!("c{at}"), DataType::Int64).not_null());
        of.primary_key(["id"])
    }

    fn later(before: &RowLayout, definition: &TableDefinition) -> RowLayout {
        let extensions: Arc<Extensions> = Arc::default();
        RowLayout::of_records(definition, (&extensions, before.null_bits_of(definition)))
    }

    fn put(layout: &RowLayout, words: &mut [u64], position: usize, value: ValueRef<'_>) {
        layout.put(words, position, value, &Bump::new()).expect("memory");
    }

    #[test]
    fn only_a_table_with_a_column_that_can_be_null_has_null_bits() {
        let layout = RowLayout::new(&full(2));
        assert_eq!((layout.size().words, layout.size().key_words), (3, 1));
        assert!(!layout.has_null_bits() && !layout.size().is_key_second);
        let nullable = RowLayout::new(&full(2).column("more", DataType::Int64));
        assert_eq!((nullable.size().words, nullable.size().key_words), (5, 1));
        assert!(nullable.has_null_bits() && nullable.size().is_key_second);
        let wide = RowLayout::new(&full(80));
        assert_eq!((wide.size().words, wide.size().key_words), (81, 1));
    }

    #[test]
    fn values_come_back_and_nothing_is_null_without_bits() {
        for columns in [1, 2, 63, 64, 80] {
            let layout = RowLayout::new(&full(columns));
            let mut words = vec![0; layout.words()];
            for position in 0..=columns {
                put(&layout, &mut words, position, ValueRef::Int(position as i64 - 1));
            }
            for position in 0..=columns {
                assert!(!layout.is_null(&words, position));
                assert_eq!(layout.int(&words, position), Some(position as i64 - 1));
            }
            assert!(!layout.set_null(&mut words, columns, true) && !layout.is_null(&words, columns));
            words.resize(layout.words_with_null_bits(), 0);
            assert!(layout.set_null(&mut words, columns, true) && layout.is_null(&words, columns));
            assert!((0..columns).all(|position| !layout.is_null(&words, position)));
        }
    }

    #[test]
    fn bits_that_come_later_lie_behind_the_row_and_before_columns_that_are_added_then() {
        for columns in [2, 70] {
            let first = RowLayout::new(&full(columns));
            let mut definition = full(columns);
            definition.columns[1].not_null = false;
            let second = later(&first, &definition);
            let null_words = (columns + 1).div_ceil(64);
            assert_eq!(second.words(), first.words() + null_words);
            let mut more = definition.column("more", DataType::Int64);
            more.added.push(Value::Null);
            let third = later(&second, &more);
            assert_eq!(third.words_of(columns + 1).start, second.words());
            assert_eq!(later(&third, &full(columns)).added_null_bits(), NullBits::Behind(first.words()));
            let mut row = vec![0; first.words()];
            for position in 0..=columns {
                put(&first, &mut row, position, ValueRef::Int(5));
            }
            // A copy of such a row, in words that were another's before.
            let present = row.len();
            row.resize(third.words(), u64::MAX);
            third.complete(&mut row, present);
            assert!((0..=columns).all(|position| third.int(&row, position) == Some(5)));
            assert!(third.is_null(&row, columns + 1));
            put(&third, &mut row, 1, ValueRef::Null);
            let present = second.words();
            row.resize(present, 0);
            row.resize(third.words(), u64::MAX);
            third.complete(&mut row, present);
            assert!(third.is_null(&row, 1) && third.is_null(&row, columns + 1) && !third.is_null(&row, 2));
        }
    }

    #[test]
    fn a_row_of_an_earlier_version_keeps_its_nulls_when_it_gets_the_columns_added_since() {
        let first = RowLayout::new(&full(2));
        let mut definition = full(2).column("more", DataType::Int64).not_null();
        definition.added.push(Value::Int(7));
        let extensions: Arc<Extensions> = Arc::default();
        let nulls = later(&first, &definition).added_null_bits();
        let forced = RowLayout::of_records(&definition, (&extensions, nulls));
        let mut row = vec![0; forced.words()];
        put(&forced, &mut row, 1, ValueRef::Null);
        forced.complete_columns(&mut row, 3);
        assert!(forced.is_null(&row, 1) && forced.int(&row, 3) == Some(7));
    }

    #[test]
    fn a_column_whose_bit_need_not_be_in_the_record_is_not_changed_in_place() {
        let first = RowLayout::new(&full(2));
        let mut definition = full(2);
        definition.columns[1].not_null = false;
        let second = later(&first, &definition);
        assert!(first.unchecked_number(1).is_some());
        assert!(second.unchecked_number(1).is_none() && second.unchecked_number(2).is_some());
    }
}
