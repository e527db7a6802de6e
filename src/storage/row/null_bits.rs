//! NULL bits: which columns of a row are NULL.
//!
//! There is one for each column, in a word in front of all columns; 65 columns have two such words, and so on. A table of whose
//! columns none can be NULL has none: each row is 8 bytes shorter. If such a table gets a column that can be NULL, or one of its
//! columns becomes such, then the word with the bits of all columns lies behind the words that records have until then, as the
//! words of an added column do (see `added`): where a record lacks it, no column of the record is NULL, but for added ones that
//! were NULL in the past.
//!
//! # Invariants
//! - In a layout without NULL bits no column can be NULL, and there are at most 64.
//! - A later definition of the same records has the NULL bits where an earlier one has them, whatever has become of its columns: a
//!   layout is made from the one before ([`RowLayout::nulls_of_next`]). How the table was described when its first record was made is
//!   of no consequence: recovery may find NULL where the catalog, which it replays first, says NOT NULL, and the other way round. It
//!   gives the table NULL bits then ([`Store::give_null_bits`](crate::storage::store::Store::give_null_bits)).
//! - Where they do not lie in front, commits do not change columns in place that can be NULL: their limit is `Checked`.
//! - Where a column is NULL in a copy of a row that has no NULL bits, because it is hidden or left out, the copy has them behind the
//!   row's words. So no longer slice is given for a row otherwise.

use super::RowLayout;
use crate::base::atomics::{AtomicBool, Ordering};
use crate::storage::definition::TableDefinition;
use crate::types::Value;

/// Whether a column can be NULL, or could when it was added.
fn can_be_null(definition: &TableDefinition) -> bool {
    definition.columns.iter().any(|column| !column.not_null)
        || definition.added.values().iter().any(Value::is_null)
}

impl RowLayout {
    /// Before which column NULL bits lie in the first records of a table; none: they have none.
    pub(crate) fn nulls_of_first(definition: &TableDefinition) -> Option<usize> {
        (can_be_null(definition) || definition.columns.len() > 64).then_some(0)
    }

    /// Before which column NULL bits lie under another definition of the same records.
    pub(crate) fn nulls_of_next(&self, definition: &TableDefinition) -> Option<usize> {
        let before = self.nulls.or_else(|| can_be_null(definition).then_some(self.columns.len()));
        before.map(|before| before.min(definition.columns.len()))
    }

    /// The same, where records are to have them in any case.
    pub(crate) fn nulls_in_any_case(&self, definition: &TableDefinition) -> Option<usize> {
        Some(self.nulls.unwrap_or(self.columns.len()).min(definition.columns.len()))
    }

    /// Whether rows have NULL bits.
    #[inline]
    pub(crate) fn has_null_bits(&self) -> bool {
        self.nulls.is_some()
    }

    /// How many words a copy of a row has in which columns may be hidden or left out.
    #[inline]
    pub(crate) fn words_with_null_bits(&self) -> usize {
        self.words + usize::from(self.nulls.is_none())
    }

    /// The word with a column's NULL bit.
    #[inline]
    pub(super) fn null_word(&self, position: usize) -> usize {
        self.nulls_at + position / 64
    }

    /// The word with the last column's NULL bit, if rows have such.
    pub(super) fn last_null_word(&self) -> Option<usize> {
        self.nulls.map(|_| self.null_word(self.columns.len().saturating_sub(1)))
    }

    /// Whether the column is NULL in this row.
    #[inline]
    pub(crate) fn is_null(&self, words: &[u64], position: usize) -> bool {
        words.get(self.null_word(position)).is_some_and(|bits| bits >> (position % 64) & 1 == 1)
    }

    /// Says whether a column is NULL. Without NULL bits it never is; recovery asks beforehand, nothing else comes with NULL.
    #[inline]
    pub(super) fn set_null(&self, words: &mut [u64], position: usize, is_null: bool) {
        if self.has_null_bits() {
            let (bits, bit) = (&mut words[self.null_word(position)], 1 << (position % 64));
            *bits = if is_null { *bits | bit } else { *bits & !bit };
        }
    }

    /// Hides a column of a copied row, which has NULL bits in any case: it is marked as NULL, and its word, which is zero where it
    /// really is, leads to the flag that says that it was read.
    pub(crate) fn hide(&self, words: &mut [u64], position: usize, met: &AtomicBool) {
        words[self.null_word(position)] |= 1 << (position % 64);
        words[self.columns[position].word as usize] = std::ptr::from_ref(met).expose_provenance() as u64;
    }

    /// Whether the column, which is marked as NULL in this copied row, is hidden; notes that it was read.
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

    /// Makes these columns NULL in copied rows, each of which has [`words_with_null_bits`](Self::words_with_null_bits).
    pub(crate) fn forget(&self, words: &mut [u64], columns: &[(u32, u32)]) {
        if columns.is_empty() {
            return;
        }
        for row in words.chunks_exact_mut(self.words_with_null_bits()) {
            if !self.has_null_bits() {
                row[self.nulls_at] = 0;
            }
            for &(at, position) in columns {
                row[at as usize] = 0;
                row[self.null_word(position as usize)] |= 1 << (position % 64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::key::key_word_of;
    use crate::types::{DataType, ValueRef};

    /// A table of a key and two columns, a text and an integer.
    fn definition(not_null: bool) -> TableDefinition {
        let of = TableDefinition::new("t").column("id", DataType::Int64).column("text", DataType::Text);
        let of = if not_null { of.not_null() } else { of };
        of.column("n", DataType::Int64).not_null().primary_key(["id"])
    }

    fn row(layout: &RowLayout, values: [ValueRef<'_>; 3], words: usize) -> Vec<u64> {
        let mut row = vec![0; words];
        for (position, value) in values.into_iter().enumerate() {
            layout.put_in_heap(&mut row[..layout.words()], position, value).expect("memory");
        }
        row
    }

    const VALUES: [ValueRef<'_>; 3] = [ValueRef::Int(7), ValueRef::Text("short"), ValueRef::Int(8)];

    #[test]
    fn rows_have_null_bits_only_if_a_column_can_be_null_or_there_are_too_many() {
        let (none, some) = (RowLayout::new(&definition(true)), RowLayout::new(&definition(false)));
        assert_eq!((none.words(), none.words_with_null_bits(), none.size().key_at), (3, 4, 0));
        assert_eq!((some.words(), some.words_with_null_bits(), some.size().key_at), (4, 4, 1));
        assert_eq!(row(&none, VALUES, 3), row(&some, VALUES, 4)[1..]);
        assert_eq!(row(&none, VALUES, 3)[0], key_word_of(7));
        let wide = |columns| {
            (3..columns)
                .fold(definition(true), |of, at| of.column(format!("c{at}"), DataType::Int64).not_null())
        };
        assert_eq!(RowLayout::new(&wide(64)).words(), 64);
        assert_eq!(RowLayout::new(&wide(65)).words(), 2 + 65);
    }

    #[test]
    fn later_definitions_of_the_same_records_have_null_bits_where_they_came_first() {
        let of_records = |definition: &TableDefinition, nulls| {
            RowLayout::of_records(definition, nulls, &std::sync::Arc::default())
        };
        let first = RowLayout::new(&definition(true));
        assert_eq!(first.nulls_of_next(&definition(true)), None);
        let second = of_records(&definition(false), first.nulls_of_next(&definition(false)));
        assert_eq!((second.words(), second.nulls_at, second.size().key_at), (4, 3, 0));
        let null = [VALUES[0], ValueRef::Null, VALUES[2]];
        assert_eq!(row(&second, null, 4), [key_word_of(7), 0, 8, 0b10]);
        assert_eq!(row(&second, VALUES, 4)[..3], row(&first, VALUES, 3));
        let longer = definition(true).column("more", DataType::Int64).not_null();
        let third = of_records(&longer, second.nulls_of_next(&longer));
        assert_eq!((third.words(), third.nulls_at, third.word_of(3)), (5, 3, 4), "NULL bits stay");
        let back = of_records(&definition(true), third.nulls_of_next(&definition(true)));
        assert_eq!((back.words(), back.nulls_at), (4, 3));
        assert!(of_records(&definition(true), first.nulls_in_any_case(&definition(true))).has_null_bits());
    }

    #[test]
    fn a_copy_hides_and_leaves_out_columns_also_if_the_row_has_no_null_bits() {
        for not_null in [true, false] {
            let layout = RowLayout::new(&definition(not_null));
            let words = layout.words_with_null_bits();
            let mut copy = row(&layout, VALUES, words);
            assert!((0..3).all(|position| !layout.is_null(&copy, position)));
            let met = AtomicBool::new(false);
            layout.hide(&mut copy, 2, &met);
            assert!(layout.is_null(&copy, 2) && layout.int(&copy, 2).is_none());
            assert_eq!(layout.int(&copy, 0), Some(7));
            // SAFETY: the flag is alive.
            assert!(unsafe { layout.look_at_hidden(&copy, 2) } && met.load(Ordering::Relaxed));
            let mut rows = [row(&layout, VALUES, words), row(&layout, VALUES, words)].concat();
            // What an earlier row has left there.
            if not_null {
                rows[words - 1] = u64::MAX;
            }
            layout.forget(&mut rows, &[(layout.word_of(1) as u32, 1)]);
            for row in rows.chunks_exact(words) {
                let nulls = [0, 1, 2].map(|position| layout.is_null(row, position));
                assert_eq!(nulls, [false, true, false]);
            }
            // SAFETY: as above; nothing is hidden.
            assert!(!unsafe { layout.look_at_hidden(&rows, 1) });
        }
    }
}
