//! Reservations of hot rows, which attempts under the optimistic protocols make before they read such rows.
//!
//! The queues are the lock manager's ([`HotRows`]), and the same as those of sessions. Here is which attempts take part: those whose code has
//! written hot rows that it had read, and those that are retried, where they read a row about which attempts have failed. They
//! wait inside their bodies, with nothing locked, and release the row when their commit section has ended. While there is no such row,
//! an attempt looks at one number.
//!
//! Invariants: an attempt that runs alone, whose rivals cannot commit, takes no part; nor does an access of a session's transaction
//! block, whose session reserves rows for longer.

use std::sync::Arc;
use std::time::Duration;

use super::attempt::{Access, Attempt, Claim, TRACKED};
use super::write_predictor::WritePredictor;
use super::{MAX_OPTIMISTIC_ATTEMPTS, Try};
use crate::base::atomics::{AtomicBool, Ordering};
use crate::diagnostics::recent_counts::interval_now;
use crate::error::Result;
use crate::lock::hot_rows::Owner;
pub(crate) use crate::lock::hot_rows::{HotRows, Kind};
use crate::storage::table::TableCore;

/// The longest time that an attempt waits for a row: many short bodies, but no transaction block that waits for its
/// client.
const PATIENCE: Duration = Duration::from_millis(100);
/// The number of attempts on a thread with hot rows after which the counters of all fall by one.
const AGED_AFTER: u32 = 1 << 16;

/// The hot rows of a database, and which code writes those that it reads.
pub(crate) struct HotRowQueues {
    rows: Arc<HotRows>,
    writers: WritePredictor,
    /// True if attempts reserve hot rows, and not only sessions.
    concerns_attempts: AtomicBool,
}

/// The reservations of a thread's attempts.
#[derive(Default)]
pub(crate) struct Reserving {
    owner: Option<Arc<Owner>>,
    /// The address of the running attempt's code.
    code: usize,
    /// True if it reserves the hot rows that it reads.
    reserves: bool,
    begun: u32,
}

impl std::fmt::Debug for Reserving {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Reserving").field("reserves", &self.reserves).finish_non_exhaustive()
    }
}

/// Accesses as [`TRACKED`], for an attempt that may have to reserve what it reads.
pub(super) static TRACKED_AND_RESERVED: Access = Access { claim: Some(reserve_hot), ..TRACKED };

impl HotRowQueues {
    /// `concerns_attempts`: whether attempts reserve rows, and not only sessions.
    pub(crate) fn new(concerns_attempts: bool) -> HotRowQueues {
        let concerns_attempts = AtomicBool::new(concerns_attempts);
        HotRowQueues { rows: Arc::default(), writers: WritePredictor::new(), concerns_attempts }
    }

    /// Has attempts reserve rows that become hot from now on, or only sessions.
    pub(crate) fn set_concerns_attempts(&self, concerns_attempts: bool) {
        // Relaxed: one conflict more or less.
        self.concerns_attempts.store(concerns_attempts, Ordering::Relaxed);
    }

    /// The rows.
    pub(crate) fn rows(&self) -> &Arc<HotRows> {
        &self.rows
    }

    /// Returns true if attempts of this number take part now.
    #[inline]
    pub(crate) fn concern(&self, attempted: Try) -> bool {
        !self.rows.is_empty(Kind::Attempt) && attempted.number <= MAX_OPTIMISTIC_ATTEMPTS
    }

    /// Begins an attempt that takes part.
    #[cold]
    pub(super) fn begin(&self, attempt: &Attempt<'_>, attempted: Try) {
        let mut held = attempt.held().borrow_mut();
        let reserving = &mut held.hot_rows;
        reserving.code = attempted.code;
        reserving.reserves = attempted.number > 1 || self.writers.writes(attempted.code);
        reserving.begun = reserving.begun.wrapping_add(1);
        if reserving.begun.is_multiple_of(AGED_AFTER) {
            self.rows.age();
        }
    }

    /// An attempt has failed because a rival has changed a row that it had read and would have written.
    #[cold]
    pub(crate) fn note_conflict(&self, table: &TableCore, key: &[u8]) {
        if self.concerns_attempts.load(Ordering::Relaxed) && !table.is_internal() {
            self.rows.note_conflict(Kind::Attempt, table.records_identity(), key);
        }
    }

    /// An attempt that took part has ended.
    #[cold]
    pub(super) fn end(&self, attempt: &Attempt<'_>) {
        let held = attempt.held().borrow();
        let Some(owner) = held.hot_rows.owner.as_ref().filter(|owner| owner.holds_any()) else { return };
        let (released, all_written) = self.rows.end(owner);
        released.wake();
        self.writers.note(held.hot_rows.code, all_written);
    }
}

/// Reserves a row that is about to be read, if it is hot; notes that one is written.
pub(super) fn reserve_hot<'a>(
    attempt: &Attempt<'a>,
    table: &'a TableCore,
    key: &[u8],
    what: Claim,
) -> Result<()> {
    let Some(queues) = attempt.hot_rows() else { return Ok(()) };
    let Some(row) = queues.rows.hot(table.records_identity(), key) else { return Ok(()) };
    let mut held = attempt.held().borrow_mut();
    let Reserving { owner, code, reserves, .. } = &mut held.hot_rows;
    let owner = owner.get_or_insert_with(Owner::of_attempts);
    match what {
        Claim::Read if *reserves => {
            if queues.rows.reserve_here(owner, row, PATIENCE) {
                attempt.store().recent_waits().report(interval_now(), table.records_identity(), key, 1);
            }
        }
        Claim::Write | Claim::Delete => {
            queues.rows.note_write(owner, row);
            queues.writers.note(*code, true);
        }
        Claim::Read | Claim::Presence | Claim::Insert => {}
    }
    Ok(())
}
