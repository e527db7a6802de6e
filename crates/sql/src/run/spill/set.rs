//! Different rows, found by their values: their hashes are in memory, the rows beyond the memory limit in a file.
//!
//! # Invariants
//! - NULL equals NULL. Of rows whose hashes are equal, the rows themselves decide.

use hashbrown::HashTable;

use super::KeptRows;
use crate::error::Result;
use crate::run::batch::Batch;
use crate::run::memory::{Held, Memory};
use crate::run::order::{Hashing, hash_slots, same_slots};
use crate::types::Value;

/// The memory of a row besides its values.
const ENTRY_BYTES: usize = 32;

/// The divisor of the memory that gives the part for rows, so that most of it is for their hashes.
pub(crate) const ROWS_PARTS: usize = 8;

/// Rows, each of which is there once.
pub(crate) struct KeptSet {
    rows: KeptRows,
    slots: Vec<usize>,
    /// The rows' hashes and numbers.
    table: HashTable<(u64, u32)>,
    held: Held,
}

impl KeptSet {
    /// An empty set.
    pub(crate) fn new(width: usize, memory: &Memory) -> KeptSet {
        let slots = (0..width).collect();
        KeptSet {
            rows: KeptRows::in_part(memory, ROWS_PARTS),
            slots,
            table: HashTable::new(),
            held: Held::default(),
        }
    }

    /// Adds a row unless there is an equal one; returns true if it is new.
    ///
    /// # Errors
    /// 53200: there is no room for its hash; those of the temporary file.
    pub(crate) fn add(&mut self, memory: &mut Memory, hashing: &Hashing, row: &[Value]) -> Result<bool> {
        let hash = hash_slots(hashing, row, &self.slots);
        if self.find(hash, row)? {
            return Ok(false);
        }
        if !self.held.admit(memory, ENTRY_BYTES) {
            self.held.charge(memory, ENTRY_BYTES)?;
        }
        let number = self.rows.len() as u32;
        let mut batch = Batch::new(row.len());
        batch.push_row(row);
        self.rows.push_batch(Some(memory), batch)?;
        self.table.insert_unique(hash, (hash, number), |entry| entry.0);
        Ok(true)
    }

    /// Returns true if an equal row is in the set.
    ///
    /// # Errors
    /// Those of the temporary file.
    pub(crate) fn contains(&mut self, hashing: &Hashing, row: &[Value]) -> Result<bool> {
        self.find(hash_slots(hashing, row, &self.slots), row)
    }

    fn find(&mut self, hash: u64, row: &[Value]) -> Result<bool> {
        for &(other, number) in self.table.iter_hash(hash) {
            if other == hash && same_slots(self.rows.row(number as usize)?, &self.slots, row, &self.slots) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if there is no row.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() == 0
    }

    /// The rows, in the order in which they were added.
    pub(crate) fn into_rows(self) -> KeptRows {
        self.rows
    }

    /// Returns true if some of the rows are in a file.
    pub(crate) fn has_file(&self) -> bool {
        self.rows.has_file()
    }

    /// Moves out what the rows and their hashes hold of the statement's memory.
    pub(crate) fn give_held(&mut self, to: &mut Held) {
        to.absorb(&mut self.held);
        to.absorb(self.rows.held());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::order::hashing;

    #[test]
    fn equal_rows_are_found_in_memory_and_in_a_file() {
        let hashing = hashing();
        for limit in [1_000_000_000, 400_000] {
            let mut memory = Memory::new(limit);
            let mut set = KeptSet::new(2, &memory);
            let row = |number: usize| [Value::Int8(number as i64 % 5_000), Value::text("v".repeat(100))];
            let added = (0..12_000).filter(|&number| set.add(&mut memory, &hashing, &row(number)).unwrap());
            assert_eq!(added.count(), 5_000);
            assert_eq!(set.has_file(), limit < 1_000_000, "{limit}");
            assert!(set.add(&mut memory, &hashing, &[Value::Null, Value::Null]).unwrap());
            assert!(!set.add(&mut memory, &hashing, &[Value::Null, Value::Null]).unwrap());
            assert!(set.contains(&hashing, &row(77)).unwrap());
            assert!(!set.contains(&hashing, &[Value::Int8(77), Value::Null]).unwrap());
            assert_eq!(set.into_rows().len(), 5_001);
            assert_eq!(memory.used(), 0);
        }
    }

    #[test]
    fn hashes_that_do_not_fit_are_an_error() {
        let (mut memory, hashing) = (Memory::new(1_000), hashing());
        let mut set = KeptSet::new(1, &memory);
        let done = (0..10_000)
            .try_for_each(|number| set.add(&mut memory, &hashing, &[Value::Int8(number)]).map(|_| ()));
        assert_eq!(done.map_err(|error| error.state().as_str().to_string()), Err("53200".to_string()));
    }
}
