//! Log space reservations: bounds the redo that is not durable yet.
//!
//! Commits append their redo to a buffer in memory inside their commit sections, where they may not block. So each worker
//! context reserves log space beforehand, enough for several transactions at a time, and the space is returned when the
//! group has been written.
//!
//! Invariants:
//! - Reserved and unwritten bytes together are bounded.
//! - If the disk has no space for another segment, further reservations are refused, so updates fail before they run;
//!   everything that was already reserved fits into the prepared segments.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::base::atomics::{AtomicBool, Ordering};
use crate::durability::{Segments, group_bytes_max};
use crate::error::{Error, Result};

/// Interval at which a waiter for log space checks for a failure of the log.
const PATIENCE: Duration = Duration::from_millis(20);

/// The log space that can still be reserved.
pub(crate) struct LogSpace {
    state: Mutex<State>,
    changed: Condvar,
    capacity: i64,
    /// True while reservations are refused: read by each transaction without the lock.
    refuses: AtomicBool,
    /// The segments of the log, if there is one.
    segments: OnceLock<Arc<Segments>>,
}

struct State {
    /// May be negative, because one transaction may be larger than the whole capacity.
    available: i64,
    refused: Option<Error>,
}

impl LogSpace {
    /// Allows at most `bytes` of redo that is not durable yet.
    pub(crate) fn new(bytes: usize, segments: Option<Arc<Segments>>) -> LogSpace {
        let capacity = bytes as i64;
        LogSpace {
            state: Mutex::new(State { available: capacity, refused: None }),
            changed: Condvar::new(),
            capacity,
            refuses: AtomicBool::new(false),
            segments: segments.map_or_else(OnceLock::new, OnceLock::from),
        }
    }

    /// Has a log whose segments are these, from now on.
    pub(crate) fn begin_to_log(&self, segments: Arc<Segments>) {
        let _ = self.segments.set(segments);
    }

    /// Bytes that a worker context reserves at a time.
    fn portion(&self) -> i64 {
        (self.capacity / 256).clamp(1 << 10, 1 << 18)
    }

    /// Reserves a portion for future transactions if more than half of the capacity is left; returns the reserved bytes,
    /// or 0.
    ///
    /// An idle worker context may hold the rest of a portion indefinitely. So half of the capacity is never reserved in
    /// portions: it is for transactions that request what they need, and use it or return it right away.
    ///
    /// # Errors
    /// The disk is full.
    pub(crate) fn try_take_portion(&self) -> Result<usize> {
        let portion = self.portion();
        let mut state = self.state.lock();
        if let Some(refused) = &state.refused {
            return Err(refused.clone());
        }
        if state.available - portion < self.capacity / 2 {
            return Ok(0);
        }
        state.available -= portion;
        Ok(portion as usize)
    }

    /// Reserves `bytes` if that is possible without waiting; returns whether it was.
    ///
    /// # Errors
    /// The disk is full.
    pub(crate) fn try_take(&self, bytes: usize) -> Result<bool> {
        let mut state = self.state.lock();
        if let Some(refused) = &state.refused {
            return Err(refused.clone());
        }
        let enough =
            state.available >= bytes as i64 || bytes as i64 > self.capacity / 2 && state.available > 0;
        if enough {
            state.available -= bytes as i64;
        }
        Ok(enough)
    }

    /// Reserves `bytes`, and waits for them if necessary. A request for more than half of the capacity is granted as soon
    /// as any space is left; the balance becomes negative, and later requests wait. The segments for so large a
    /// transaction are prepared on disk before it commits.
    ///
    /// # Errors
    /// The disk is full, or `failure` reports that the log has failed.
    pub(crate) fn take(&self, bytes: usize, failure: impl Fn() -> Option<Error>) -> Result<()> {
        if bytes as i64 > self.capacity / 2 {
            self.prepare_for(bytes)?;
        }
        loop {
            if self.try_take(bytes)? {
                return Ok(());
            }
            if let Some(failure) = failure() {
                return Err(failure);
            }
            let mut state = self.state.lock();
            if state.available < bytes as i64 && state.refused.is_none() {
                self.changed.wait_for(&mut state, PATIENCE);
            }
        }
    }

    /// Prepares segments for a transaction that is larger than the space that is always kept prepared.
    fn prepare_for(&self, bytes: usize) -> Result<()> {
        let Some(segments) = self.segments.get() else { return Ok(()) };
        let needed = group_bytes_max(bytes as u64) + group_bytes_max(self.capacity as u64);
        while segments.remaining_bytes() < needed {
            segments.prepare_next().map_err(|error| refusal(&error))?;
        }
        Ok(())
    }

    /// Returns true if more than half of the capacity is reserved.
    pub(crate) fn is_low(&self) -> bool {
        self.state.lock().available < self.capacity / 2
    }

    /// Returns reserved bytes.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.state.lock().available += bytes as i64;
        self.changed.notify_all();
    }

    /// Starts to refuse reservations with this error, or stops refusing them.
    pub(crate) fn set_refused(&self, refused: Option<Error>) {
        let mut state = self.state.lock();
        // Relaxed: a few transactions may still read the old value, which is harmless; the error is read under the lock.
        self.refuses.store(refused.is_some(), Ordering::Relaxed);
        state.refused = refused;
        drop(state);
        self.changed.notify_all();
    }

    /// The error with which reservations are refused, if they are.
    #[inline]
    pub(crate) fn refused(&self) -> Option<Error> {
        if self.refuses.load(Ordering::Relaxed) { self.reason() } else { None }
    }

    #[cold]
    fn reason(&self) -> Option<Error> {
        self.state.lock().refused.clone()
    }
}

/// Returns true if the error says that the disk is full, which may change later.
pub(crate) fn is_full(error: &Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let is_kind = matches!(error, Error::Io { kind: StorageFull | QuotaExceeded | FileTooLarge, .. });
    is_kind || matches!(error, Error::StorageFull { .. })
}

/// Returns true if a write that failed with this error has written nothing and may succeed later: the disk is full, or
/// read-only for now.
pub(crate) fn may_pass(error: &Error) -> bool {
    is_full(error) || matches!(error, Error::NotWritable { .. })
}

/// The error that updates receive while no segment can be prepared, with `error` as the cause.
pub(crate) fn refusal(error: &Error) -> Error {
    let reason = error.cause();
    if is_full(error) { Error::NoLogSpace { reason } } else { Error::LogNotExtended { reason } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_are_bounded_and_can_be_returned() {
        let space = LogSpace::new(1_000, None);
        assert_eq!(space.try_take(400), Ok(true));
        assert_eq!(space.try_take(400), Ok(true));
        assert_eq!(space.try_take(400), Ok(false));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| space.take(400, || None));
            std::thread::sleep(Duration::from_millis(5));
            assert!(!waiting.is_finished());
            space.give_back(400);
            assert_eq!(waiting.join().expect("no panic"), Ok(()));
        });
    }

    #[test]
    fn idle_worker_contexts_never_hold_more_than_half_of_the_space() {
        let space = LogSpace::new(8 << 10, None);
        let portions: Vec<usize> = (0..10).map(|_| space.try_take_portion().expect("no refusal")).collect();
        assert_eq!(portions, [1 << 10, 1 << 10, 1 << 10, 1 << 10, 0, 0, 0, 0, 0, 0]);
        assert_eq!(space.try_take(4 << 10), Ok(true));
    }

    #[test]
    fn one_transaction_may_exceed_the_capacity_and_others_wait_until_it_is_written() {
        let space = LogSpace::new(1_000, None);
        assert_eq!(space.try_take(100), Ok(true));
        assert_eq!(space.try_take(50_000), Ok(true));
        assert_eq!(space.try_take(1), Ok(false));
        assert_eq!(space.try_take(50_000), Ok(false));
        space.give_back(50_000);
        assert_eq!(space.try_take(1), Ok(true));
    }

    #[test]
    fn a_full_disk_refuses_at_once_and_recovers() {
        let space = LogSpace::new(1_000, None);
        let full = Error::NoLogSpace { reason: "full".to_string() };
        space.set_refused(Some(full.clone()));
        assert_eq!(space.take(1, || None), Err(full));
        space.set_refused(None);
        assert_eq!(space.take(1, || None), Ok(()));
    }

    #[test]
    fn a_waiter_receives_the_failure_of_the_log() {
        let space = LogSpace::new(10, None);
        assert_eq!(space.try_take(10), Ok(true));
        let failure = Error::LogFailed { reason: "no disk".to_string() };
        assert_eq!(space.take(1, || Some(failure.clone())), Err(failure));
    }
}
