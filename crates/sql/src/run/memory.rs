//! The memory of a statement's hash tables, sorts and stored rows, and its limits.
//!
//! # Invariants
//! - What is charged is an estimate: the values themselves and what they own on the heap.
//! - An operator that can write rows to a temporary file asks [`Held::admit`] and writes them; every other part
//!   charges, and fails with 53200 beyond the limit. Nothing aborts the process.
//! - An operator's memory is released when it is dropped, also before its end: below a LIMIT that is reached, in a
//!   subquery that has its answer, after an error.
//! - An operator that can write rows to a temporary file may always hold [`LEAST_BYTES`] or one larger row, so that it makes
//!   progress however much the statement's other operators hold.
//! - What all statements of a database take together stays below their common limit, apart from
//!   [`FREE_BYTES`] for each: so small statements run however much memory large ones take.
//!
//! # Concurrency
//! A [`Memory`] belongs to one thread. It asks the [`WorkMemory`] that it shares with others for [`LEASE_BYTES`] at a
//! time, so that charges rarely touch shared memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::{Result, SqlError, SqlState};
use crate::types::Value;

/// The memory that a statement may use unless the settings say otherwise.
pub(crate) const MEMORY_BYTES_DEFAULT: usize = 256 << 20;

/// The memory that each statement may use without a lease.
const FREE_BYTES: usize = 256 << 10;

/// The memory that an operator that spills may hold even beyond the limits.
pub(crate) const LEAST_BYTES: usize = 64 << 10;

/// The size of the leases by which a statement acquires memory.
const LEASE_BYTES: usize = 1 << 20;

/// The number of parts into which the remaining memory is divided, of which one can be spared.
const SPARED_PARTS: usize = 4;

/// The memory that the statements of a database take together.
#[derive(Debug)]
pub(crate) struct WorkMemory {
    used: AtomicUsize,
    limit: AtomicUsize,
}

impl Default for WorkMemory {
    fn default() -> WorkMemory {
        WorkMemory { used: AtomicUsize::new(0), limit: AtomicUsize::new(usize::MAX) }
    }
}

impl WorkMemory {
    // Relaxed throughout: the counts guard no other data.

    /// Changes the limit; memory in use stays in use.
    pub(crate) fn set_limit(&self, bytes: usize) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    /// The memory leased to statements now.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn lease(&self, bytes: usize) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let grown = |used: usize| used.checked_add(bytes).filter(|&used| used <= limit);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, grown).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A session's way to the memory that statements share: each session has a copy of its own, whose reference count only
/// its own threads touch.
#[derive(Debug, Default)]
pub(crate) struct SessionMemory(pub(crate) Arc<WorkMemory>);

/// A statement's memory.
#[derive(Debug)]
pub struct Memory {
    /// The memory charged directly, without operators.
    charged: usize,
    /// The memory that operators hold; `None` before the first one holds any.
    held: Option<Arc<AtomicUsize>>,
    limit: usize,
    /// The part of the limit that may be used without another lease.
    leased: usize,
    session: Option<Arc<SessionMemory>>,
}

impl Memory {
    /// Memory of its own, shared with no other statement.
    pub(crate) fn new(limit: usize) -> Memory {
        Memory { charged: 0, held: None, limit, leased: limit, session: None }
    }

    /// Memory that counts among a session's.
    pub(crate) fn of_session(limit: usize, session: Arc<SessionMemory>) -> Memory {
        Memory { charged: 0, held: None, limit, leased: FREE_BYTES.min(limit), session: Some(session) }
    }

    /// The memory in use.
    pub(crate) fn used(&self) -> usize {
        self.charged + self.held.as_ref().map_or(0, |held| held.load(Ordering::Relaxed))
    }

    /// The memory that the statement may use.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Memory for a part of the statement that runs on a thread of its own: an equal share of what is left.
    pub(crate) fn share(&self, parts: usize) -> Memory {
        let limit = self.limit.saturating_sub(self.used()) / parts.max(1);
        match &self.session {
            Some(session) => Memory::of_session(limit, session.clone()),
            None => Memory::new(limit),
        }
    }

    /// Returns true if this much more is within the limits.
    pub(crate) fn has_room(&mut self, bytes: usize) -> bool {
        let needed = self.used().saturating_add(bytes);
        needed <= self.leased || needed <= self.limit && self.lease(needed)
    }

    /// Returns true if an operator that spills and holds `held` bytes may hold this much more.
    pub(crate) fn admits(&mut self, held: usize, bytes: usize) -> bool {
        held.saturating_add(bytes) <= LEAST_BYTES || self.has_room(bytes)
    }

    /// Returns true if this much more is within the limits and leaves the statement's other operators at least three
    /// times as much: for structures that are faster with more memory, and work without.
    pub(crate) fn can_spare(&mut self, bytes: usize) -> bool {
        let with_others = bytes.saturating_mul(SPARED_PARTS).saturating_add(self.used());
        with_others <= self.limit && self.has_room(bytes)
    }

    /// Leases memory until `needed` bytes may be used.
    fn lease(&mut self, needed: usize) -> bool {
        let Some(session) = &self.session else { return false };
        let Some(more) = (needed - self.leased).checked_next_multiple_of(LEASE_BYTES) else { return false };
        let leased = session.0.lease(more);
        if leased {
            self.leased += more;
        }
        leased
    }

    /// Counts memory that is used until the statement ends, or until it is [released](Self::release).
    ///
    /// # Errors
    /// 53200: it is more than the statement may use.
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<()> {
        self.require(bytes)?;
        self.charged += bytes;
        Ok(())
    }

    /// Checks that this much more is within the limits.
    ///
    /// # Errors
    /// Same errors as [`charge`](Self::charge).
    fn require(&mut self, bytes: usize) -> Result<()> {
        if !self.has_room(bytes) {
            let alone = self.used().saturating_add(bytes) > self.limit;
            let (message, hint) = if alone {
                ("the statement needs more memory than it may take", "raise work_mem, or ask for fewer rows")
            } else {
                (
                    "the statements in progress need more memory than they may take together",
                    "try again later, or raise the server's total_work_mem_bytes",
                )
            };
            return Err(SqlError::new(SqlState::OUT_OF_MEMORY, message).with_hint(hint));
        }
        Ok(())
    }

    /// Counts memory that was charged and is released.
    pub(crate) fn release(&mut self, bytes: usize) {
        self.charged = self.charged.saturating_sub(bytes);
    }
}

/// The memory that a part of a statement, such as an operator, holds: returned when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Held {
    bytes: usize,
    /// The memory that all parts of the statement hold; `None` before this part holds any.
    all: Option<Arc<AtomicUsize>>,
}

impl Held {
    /// The number of bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Holds more.
    ///
    /// # Errors
    /// Same errors as [`Memory::charge`].
    pub(crate) fn charge(&mut self, memory: &mut Memory, bytes: usize) -> Result<()> {
        memory.require(bytes)?;
        self.take(memory, bytes);
        Ok(())
    }

    /// Holds more for an operator that spills, if the memory admits it; returns true if it does.
    pub(crate) fn admit(&mut self, memory: &mut Memory, bytes: usize) -> bool {
        let is_admitted = memory.admits(self.bytes, bytes);
        if is_admitted {
            self.take(memory, bytes);
        }
        is_admitted
    }

    /// Admits memory as [`admit`](Self::admit) does, but admits the first bytes whatever the limits are: one row,
    /// however large, has to be in memory while it is looked at.
    pub(crate) fn admit_first(&mut self, memory: &mut Memory, bytes: usize) -> bool {
        let is_first = self.bytes == 0;
        if is_first {
            self.take(memory, bytes);
        }
        is_first || self.admit(memory, bytes)
    }

    /// Holds more whatever the limits are: rows that are in memory already, and are about to be written to a file.
    pub(crate) fn take(&mut self, memory: &mut Memory, bytes: usize) {
        let all = self.all.get_or_insert_with(|| memory.held.get_or_insert_default().clone());
        // Relaxed: a statement's memory is used by one thread at a time, and the count guards no other data.
        all.fetch_add(bytes, Ordering::Relaxed);
        self.bytes += bytes;
    }

    /// Adds the memory that another part of the same statement holds.
    pub(crate) fn absorb(&mut self, other: &mut Held) {
        self.bytes += std::mem::take(&mut other.bytes);
        self.all = self.all.take().or_else(|| other.all.take());
    }

    /// Releases all but this much.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let released = self.bytes.saturating_sub(bytes);
        if let (Some(all), 1..) = (&self.all, released) {
            // Relaxed: as in `take`.
            all.fetch_sub(released, Ordering::Relaxed);
            self.bytes -= released;
        }
    }

    /// Releases everything.
    pub(crate) fn clear(&mut self) {
        self.shrink_to(0);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            session.0.give_back(self.leased.saturating_sub(FREE_BYTES.min(self.limit)));
        }
    }
}

/// The memory that a row uses.
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
        let mut memory = Memory::of_session(usize::MAX, Arc::default());
        assert!(memory.charge(10).is_ok());
        assert!(memory.charge(usize::MAX - 10).is_err());
    }

    #[test]
    fn statements_share_their_common_limit_and_give_back_what_they_leased() {
        let shared = Arc::new(WorkMemory::default());
        shared.set_limit(3 * LEASE_BYTES);
        let statement = || Memory::of_session(100 * LEASE_BYTES, Arc::new(SessionMemory(shared.clone())));
        let (mut first, mut second) = (statement(), statement());
        assert!(first.charge(2 * LEASE_BYTES).is_ok());
        assert!(second.charge(FREE_BYTES).is_ok(), "a little is always there");
        assert_eq!(shared.used(), 2 * LEASE_BYTES);
        assert!(!second.has_room(2 * LEASE_BYTES));
        let error = second.charge(2 * LEASE_BYTES).expect_err("the other has it");
        assert_eq!(error.state(), SqlState::OUT_OF_MEMORY);
        assert!(error.hint().is_some_and(|hint| hint.contains("total_work_mem_bytes")));
        drop(first);
        assert!(second.charge(2 * LEASE_BYTES).is_ok());
        let mut part = second.share(2);
        assert!(part.charge(FREE_BYTES).is_ok() && !part.has_room(2 * LEASE_BYTES));
        drop((second, part));
        assert_eq!(shared.used(), 0);
    }

    #[test]
    fn an_operator_that_spills_is_admitted_a_little_beyond_the_limit() {
        let mut memory = Memory::of_session(10, Arc::default());
        let mut held = Held::default();
        assert!(held.admit(&mut memory, LEAST_BYTES) && !held.admit(&mut memory, 1));
        assert!(memory.charge(1).is_err());
        held.clear();
        assert!(memory.charge(10).is_ok());
        // One row, however large.
        assert!(held.admit_first(&mut memory, LEAST_BYTES + 1) && !held.admit_first(&mut memory, 1));
        assert_eq!(held.bytes(), LEAST_BYTES + 1);
    }

    #[test]
    fn a_quarter_of_what_is_left_can_be_spared() {
        let mut memory = Memory::new(100);
        assert!(memory.can_spare(25) && !memory.can_spare(26) && !memory.can_spare(usize::MAX));
        assert!(memory.charge(80).is_ok());
        assert!(memory.can_spare(5) && !memory.can_spare(6));
        let shared = Arc::new(WorkMemory::default());
        shared.set_limit(LEASE_BYTES);
        let mut memory = Memory::of_session(100 * LEASE_BYTES, Arc::new(SessionMemory(shared)));
        assert!(memory.can_spare(LEASE_BYTES) && !memory.can_spare(2 * LEASE_BYTES));
    }

    #[test]
    fn what_is_held_is_given_back_when_it_is_dropped() {
        let mut memory = Memory::new(100);
        let (mut first, mut second) = (Held::default(), Held::default());
        assert!(first.charge(&mut memory, 60).is_ok() && second.charge(&mut memory, 41).is_err());
        assert!(second.charge(&mut memory, 40).is_ok() && memory.charge(1).is_err());
        assert_eq!((memory.used(), first.bytes(), second.bytes()), (100, 60, 40));
        first.shrink_to(70);
        first.shrink_to(10);
        assert_eq!(memory.used(), 50);
        drop(second);
        assert!(memory.charge(90).is_ok());
        first.clear();
        memory.release(90);
        assert_eq!(memory.used(), 0);
        // It may outlive the statement.
        first.take(&mut memory, 5);
        drop(memory);
        drop(first);
    }

    #[test]
    fn a_lower_limit_stops_growth_only() {
        let shared = Arc::new(WorkMemory::default());
        let mut memory = Memory::of_session(usize::MAX, Arc::new(SessionMemory(shared.clone())));
        assert!(memory.charge(2 * LEASE_BYTES).is_ok());
        shared.set_limit(LEASE_BYTES);
        assert!(memory.charge(2 * LEASE_BYTES).is_err());
        drop(memory);
        assert_eq!(shared.used(), 0);
    }

    #[test]
    fn a_row_takes_its_values() {
        assert_eq!(row_bytes(&[Value::Null, Value::Int8(1)]), 2 * size_of::<Value>());
    }
}
