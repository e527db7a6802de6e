//! The NULL bits of rows: where they lie, and whether there are any.
//!
//! ```text
//! a table with a column that can be NULL   │ NULL bits │ key │ columns │
//! one in which no column can be NULL       │ key │ columns │
//! the latter, once a column can be         │ key │ columns │ NULL bits │ columns added since │
//! ```
//!
//! # Invariants
//! - All definitions of the same records agree where the NULL bits lie. What a table's first definition says holds for as long as
//!   its records stay; a table that is copied, or made again by recovery, begins anew.
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
        if can_hold_null(definition) { NullBits::First } else { NullBits::Nowhere }
    }

    pub(super) fn is_behind(self) -> bool {
        matches!(self, NullBits::Behind(_))
    }
}

fn can_hold_null(definition: &TableDefinition) -> bool {
    definition.columns.iter().any(|column| !column.not_null)
}

impl RowLayout {
    /// Where another definition of the same records has NULL bits.
    pub(crate) fn null_bits_of(&self, definition: &TableDefinition) -> NullBits {
        if can_hold_null(definition) { self.added_null_bits() } else { self.nulls }
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

    /// How many words a reader's copy of a row has that has NULL bits in any case.
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

    /// Sets a column's NULL bit, or takes it away. Whether the row has it; without it the column is not NULL.
    #[inline]
    pub(crate) fn set_null(&self, words: &mut [u64], position: usize, is_null: bool) -> bool {
        let (at, bit) = self.null_bit(position);
        let Some(word) = words.get_mut(at) else { return false };
        *word = if is_null { *word | bit } else { *word & !bit };
        true
    }

    /// Takes a column's NULL bit away in the row of a record, as in `is_null_in_record`, which is marked as busy.
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
