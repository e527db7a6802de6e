//! How much memory a statement's hash tables, sorts and stored rows take, and how much they may.
//!
//! # Invariants
//! - What is charged is an estimate: the values themselves and what they own on the heap.
//! - An operator that can write rows to a temporary file asks [`Memory::has_room`] and writes them; everyone else
//!   charges, and fails with 53200 beyond the limit. Nothing aborts the process.

use crate::error::{Result, SqlError, SqlState};
use crate::types::Value;

/// What a statement may take unless the settings say otherwise.
pub(crate) const MEMORY_BYTES_DEFAULT: usize = 256 << 20;

/// A statement's memory.
#[derive(Debug)]
pub(crate) struct Memory {
    used: usize,
    limit: usize,
}

impl Memory {
    pub(crate) fn new(limit: usize) -> Memory {
        Memory { used: 0, limit }
    }

    /// How much is left.
    pub(crate) fn left(&self) -> usize {
        self.limit.saturating_sub(self.used)
    }

    /// Whether this much more is within the limit.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.used.saturating_add(bytes) <= self.limit
    }

    /// Counts memory that is taken.
    ///
    /// # Errors
    /// 53200: it is more than the statement may take.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<()> {
        if !self.has_room(bytes) {
            return Err(SqlError::new(
                SqlState::OUT_OF_MEMORY,
                "the statement needs more memory than it may take",
            )
            .with_hint("raise work_mem, or ask for fewer rows"));
        }
        self.used += bytes;
        Ok(())
    }

    /// Counts memory that is given back.
    pub(crate) fn release(&mut self, bytes: usize) {
        self.used = self.used.saturating_sub(bytes);
    }
}

/// What a row takes.
pub(crate) fn row_bytes(row: &[Value]) -> usize {
    size_of_val(row) + row.iter().map(Value::heap_size).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_memory_can_be_charged_again() {
        let mut memory = Memory::new(100);
        assert!(memory.charge(80).is_ok());
        assert!(!memory.has_room(30));
        assert_eq!(memory.charge(30).map_err(|error| error.state()), Err(SqlState::OUT_OF_MEMORY));
        memory.release(50);
        assert!(memory.charge(70).is_ok());
    }

    #[test]
    fn no_amount_overflows() {
        let mut memory = Memory::new(100);
        assert!(memory.charge(10).is_ok());
        assert!(memory.charge(usize::MAX).is_err());
    }

    #[test]
    fn a_row_takes_its_values() {
        assert_eq!(row_bytes(&[Value::Null, Value::Int8(1)]), 2 * size_of::<Value>());
    }
}
