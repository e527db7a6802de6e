//! Large values: those that a session's expressions have computed and still hold count in the memory that all
//! statements share, so that one `repeat` in each of a thousand rows fails, and the server continues.
//!
//! # Invariants
//! - A value of at least [`LARGE_BYTES`] is charged from the function or cast that returns it until nothing but this list
//!   refers to it. Values that are not referred to any more may stay in memory until the next sweep; together they are no
//!   larger than [`SWEEP_BYTES`] or than those that live.
//! - Functions whose result can be much larger than their arguments ask for room before they allocate.
//!
//! # Concurrency
//! It belongs to the thread of its session; the memory that it charges is shared.

use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};
use crate::interrupt;
use crate::run::memory::Memory;
use crate::types::Value;

/// The least size of a value that is counted.
pub(crate) const LARGE_BYTES: usize = 64 << 10;
/// The longest value, in bytes: PostgreSQL's limit.
const VALUE_BYTES_MAX: usize = 1 << 30;
/// The bytes of values that are counted before the first sweep over them.
const SWEEP_BYTES: usize = 4 << 20;

/// The large values of a session.
#[derive(Debug)]
pub(crate) struct LargeValues {
    values: Vec<(Value, usize)>,
    bytes: usize,
    /// The number of bytes at which the next sweep is due.
    sweep_at: usize,
    memory: Memory,
}

impl LargeValues {
    /// An empty list; `memory` is charged for values that are added.
    pub(crate) fn new(memory: Memory) -> LargeValues {
        LargeValues { values: Vec::new(), bytes: 0, sweep_at: SWEEP_BYTES, memory }
    }

    /// Returns true if no value is counted.
    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Counts a value that was computed, if it is large.
    ///
    /// # Errors
    /// 53200: all statements together hold more than they may. 54000: the value is longer than any may be. 57014: rows of large
    /// values take long.
    pub(crate) fn note(&mut self, value: &Value) -> Result<()> {
        let bytes = value.heap_size();
        if bytes < LARGE_BYTES {
            return Ok(());
        }
        interrupt::check()?;
        self.require(bytes)?;
        self.memory.charge(bytes)?;
        self.bytes += bytes;
        self.values.push((value.clone(), bytes));
        Ok(())
    }

    /// Makes sure that there is room for a value of this many bytes.
    ///
    /// # Errors
    /// Same errors as [`LargeValues::note`].
    pub(crate) fn require(&mut self, bytes: usize) -> Result<()> {
        if bytes > VALUE_BYTES_MAX {
            let message =
                format!("a value of {bytes} bytes is longer than the {VALUE_BYTES_MAX} that it may have");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        if self.bytes + bytes > self.sweep_at || !self.memory.has_room(bytes) {
            self.sweep();
            self.memory.charge(bytes)?;
            self.memory.release(bytes);
        }
        Ok(())
    }

    /// Forgets the values that nothing else refers to.
    pub(crate) fn sweep(&mut self) {
        self.values.retain(|(value, _)| is_shared(value));
        let living = self.values.iter().map(|(_, bytes)| bytes).sum();
        self.memory.release(self.bytes - living);
        self.bytes = living;
        self.sweep_at = SWEEP_BYTES.max(2 * living);
    }
}

/// Returns true if more than one handle of a value's contents exists.
fn is_shared(value: &Value) -> bool {
    match value {
        Value::Text(text) | Value::Bpchar(text) | Value::Json(text) => Arc::strong_count(text) > 1,
        Value::Bytes(bytes) => Arc::strong_count(bytes) > 1,
        Value::Jsonb(value) => Arc::strong_count(value) > 1,
        Value::Array(value) => Arc::strong_count(value) > 1,
        Value::Record(value) => Arc::strong_count(value) > 1,
        // Each handle has its own contents.
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEGABYTE: usize = 1 << 20;

    fn text(bytes: usize) -> Value {
        Value::text("x".repeat(bytes))
    }

    #[test]
    fn values_count_as_long_as_they_are_held() {
        let mut large = LargeValues::new(Memory::new(10 * MEGABYTE));
        let held: Vec<Value> = (0..9).map(|_| text(MEGABYTE)).collect();
        held.iter().for_each(|value| large.note(value).expect("there is room"));
        assert_eq!(
            large.note(&text(2 * MEGABYTE)).map_err(|error| error.state()),
            Err(SqlState::OUT_OF_MEMORY)
        );
        drop(held);
        large.note(&text(9 * MEGABYTE)).expect("nothing is held any more");
        large.sweep();
        assert!(large.is_empty() && large.bytes == 0);
    }

    #[test]
    fn any_number_of_values_one_after_the_other_needs_the_memory_of_few() {
        let mut large = LargeValues::new(Memory::new(10 * MEGABYTE));
        for _ in 0..1_000 {
            large.note(&text(MEGABYTE)).expect("only one is held");
            assert!(large.bytes <= SWEEP_BYTES + MEGABYTE);
        }
        for _ in 0..1_000 {
            large.note(&text(100)).expect("small ones are not counted");
        }
        large.sweep();
        assert!(large.is_empty());
    }

    #[test]
    fn room_is_asked_for_before_a_value_is_made() {
        let mut large = LargeValues::new(Memory::new(10 * MEGABYTE));
        large.require(10 * MEGABYTE).expect("there is room");
        assert_eq!(large.require(11 * MEGABYTE).map_err(|error| error.state()), Err(SqlState::OUT_OF_MEMORY));
        let longer = large.require(VALUE_BYTES_MAX + 1).map_err(|error| error.state());
        assert_eq!(longer, Err(SqlState::PROGRAM_LIMIT_EXCEEDED));
        large.require(10 * MEGABYTE).expect("what was refused is not charged");
    }

    #[test]
    fn arrays_count_with_their_elements() {
        use crate::types::Type;
        use crate::types::array::ArrayValue;
        let mut large = LargeValues::new(Memory::new(MEGABYTE));
        let array =
            Value::array(ArrayValue::list(Type::Text, vec![text(LARGE_BYTES / 2), text(LARGE_BYTES)]));
        large.note(&array).expect("there is room");
        assert!(large.bytes > LARGE_BYTES);
        drop(array);
        large.sweep();
        assert_eq!(large.bytes, 0);
    }
}
