//! The positions of records in a write set: a table with open addressing, for sets with too many records for a linear
//! search.
//!
//! Invariants: records are noted in the order of their places and forgotten in the reverse order, so that the table is at
//! any moment as if only those that are noted had ever been: a slot can be emptied without a look at those behind it.
//! At most half of the slots are taken, so that every search reaches an empty one.

use super::Touched;
use crate::storage::record::RecordPointer;

/// A slot that no record has. The others hold a place, counted from one.
const EMPTY: u32 = 0;
/// The fewest slots.
const FEWEST: usize = 32;
/// Room for more is not kept for the next call: the time to empty the table is proportional to its room.
const KEPT: usize = 1024;

/// See the top of the file.
#[derive(Default)]
pub(super) struct Places {
    /// A power of two, or none.
    slots: Vec<u32>,
    /// The number of records that are noted: those at the first places.
    noted: usize,
}

impl Places {
    /// Notes the records that are not noted yet.
    #[inline(never)]
    pub(super) fn note(&mut self, touched: &[Touched]) {
        if touched.len() * 2 > self.slots.len() {
            let slots = (touched.len() * 2).next_power_of_two().max(FEWEST);
            self.slots.clear();
            self.slots.resize(slots, EMPTY);
            self.noted = 0;
        }
        while let Some(next) = touched.get(self.noted) {
            let mut at = self.home(next.record);
            while self.slots[at] != EMPTY {
                at = self.behind(at);
            }
            self.noted += 1;
            self.slots[at] = self.noted as u32;
        }
    }

    /// The place of a record, if it is one of those, all of which are noted.
    #[inline]
    pub(super) fn find(&self, record: RecordPointer, touched: &[Touched]) -> Option<usize> {
        self.slot(record, touched).map(|(_, place)| place)
    }

    /// Forgets the record at the last of these places, which is about to be removed.
    pub(super) fn forget_last(&mut self, touched: &[Touched]) {
        if touched.len() != self.noted {
            return;
        }
        if let Some(last) = touched.last()
            && let Some((slot, _)) = self.slot(last.record, touched)
        {
            self.slots[slot] = EMPTY;
            self.noted -= 1;
        }
    }

    /// Forgets all records.
    #[inline]
    pub(super) fn clear(&mut self) {
        if self.noted > 0 {
            self.empty();
        }
    }

    fn empty(&mut self) {
        self.noted = 0;
        if self.slots.len() > KEPT {
            self.slots = Vec::new();
        }
        self.slots.fill(EMPTY);
    }

    /// The slot and the place of a record.
    #[inline]
    fn slot(&self, record: RecordPointer, touched: &[Touched]) -> Option<(usize, usize)> {
        let mut at = self.home(record);
        loop {
            let place = match self.slots.get(at) {
                None | Some(&EMPTY) => return None,
                Some(&place) => place as usize - 1,
            };
            if touched[place].record == record {
                return Some((at, place));
            }
            at = self.behind(at);
        }
    }

    /// The slot at which the search for a record begins. Records lie at regular distances; the upper half of a product
    /// with the golden ratio spreads them.
    #[inline]
    fn home(&self, record: RecordPointer) -> usize {
        let product = (record.memory().addr().get() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (product >> 32) as usize & self.slots.len().wrapping_sub(1)
    }

    #[inline]
    fn behind(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::definition::TableDefinition;
    use crate::storage::table::TableCore;
    use crate::types::DataType;

    /// Records with their places, which are freed at the end.
    struct Made(Vec<Touched>);

    impl Made {
        fn new(count: usize, row_words: usize) -> Made {
            let definition = TableDefinition::new("t").column("id", DataType::Int64).primary_key(["id"]);
            let table = TableCore::new(1, &std::sync::Arc::default(), 16, definition);
            let touched = |_| {
                let record = RecordPointer::allocate(0, b"key", row_words);
                Touched { record, table: &raw const table, first: 0, last: 0 }
            };
            Made((0..count).map(touched).collect())
        }
    }

    impl Drop for Made {
        fn drop(&mut self) {
            for touched in &self.0 {
                // SAFETY: made by `new`, and no other thread has access to it.
                unsafe { touched.record.free() };
            }
        }
    }

    #[test]
    fn every_record_that_is_noted_is_found_at_its_place_and_no_other_one() {
        for (count, row_words) in [(1, 0), (13, 11), (40, 18), (3_000, 6)] {
            let (made, strangers, mut places) =
                (Made::new(count, row_words), Made::new(20, row_words), Places::default());
            for noted in 1..=count {
                let touched = &made.0[..noted];
                places.note(touched);
                let looked_at = if noted < 50 || noted == count { 0..noted } else { noted - 1..noted };
                for place in looked_at {
                    assert_eq!(places.find(made.0[place].record, touched), Some(place));
                }
                assert!(strangers.0.iter().all(|other| places.find(other.record, touched).is_none()));
            }
            assert!(places.slots.len() >= count * 2);
            places.clear();
            assert!(places.slots.len() <= KEPT && places.find(made.0[0].record, &[]).is_none());
        }
    }

    /// Records are noted and forgotten as statements are made and taken back; a list says what is noted.
    #[test]
    fn what_is_forgotten_is_as_if_it_had_never_been_noted() {
        let seed = fastrand::u64(..);
        let (made, mut random, mut places, mut count) =
            (Made::new(600, 3), fastrand::Rng::with_seed(seed), Places::default(), 0);
        for _ in 0..400 {
            if random.bool() {
                count = random.usize(count..=(count + 40).min(600));
                places.note(&made.0[..count]);
            } else {
                for _ in 0..random.usize(0..=count.min(30)) {
                    places.forget_last(&made.0[..count]);
                    count -= 1;
                }
            }
            for (place, touched) in made.0.iter().enumerate() {
                let expected = (place < count).then_some(place);
                assert_eq!(places.find(touched.record, &made.0), expected, "seed {seed}");
            }
        }
    }

    #[test]
    fn a_record_that_was_not_noted_need_not_be_forgotten() {
        let (made, mut places) = (Made::new(40, 1), Places::default());
        places.note(&made.0[..20]);
        places.forget_last(&made.0[..30]);
        assert_eq!(places.find(made.0[19].record, &made.0), Some(19));
        places.forget_last(&made.0[..20]);
        assert_eq!(places.find(made.0[19].record, &made.0), None);
        places.note(&made.0);
        assert!((0..40).all(|place| places.find(made.0[place].record, &made.0) == Some(place)));
    }
}
