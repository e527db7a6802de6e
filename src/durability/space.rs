//! Room in the log, handed out before it is needed.
//!
//! Commits append their redo to memory in their commit sections, where waiting is not allowed. So each worker context reserves
//! room beforehand, some calls' worth at a time; what is reserved or waits to be written is bounded, and room comes
//! back when a group has been written. Where the disk has no room for another segment, no more is handed out: updates
//! are refused before they run, and what was handed out still fits into what is prepared.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::base::atomics::{AtomicBool, Ordering};
use crate::durability::{Segments, group_bytes_max};
use crate::error::{Error, Result};

/// Waiting for room looks up from time to time, in case that the log has failed meanwhile.
const PATIENCE: Duration = Duration::from_millis(20);

/// The room that is left to hand out.
pub(crate) struct LogSpace {
    state: Mutex<State>,
    changed: Condvar,
    capacity: i64,
    /// Whether there is a refusal: read by each transaction.
    refuses: AtomicBool,
    /// Where the log is written; none: nothing is logged.
    segments: Option<Arc<Segments>>,
}

struct State {
    /// May be negative: one call may be larger than all of it.
    available: i64,
    refused: Option<Error>,
}

impl LogSpace {
    /// Room for this many bytes that are not durable yet.
    pub(crate) fn new(bytes: usize, segments: Option<Arc<Segments>>) -> LogSpace {
        let capacity = bytes as i64;
        LogSpace {
            state: Mutex::new(State { available: capacity, refused: None }),
            changed: Condvar::new(),
            capacity,
            refuses: AtomicBool::new(false),
            segments,
        }
    }

    /// How much a worker context takes at a time.
    fn portion(&self) -> i64 {
        (self.capacity / 256).clamp(1 << 10, 1 << 18)
    }

    /// Reserves a portion for calls to come, if there is plenty; gives back how much.
    ///
    /// Worker contexts may keep what is left of a portion for as long as they are idle. So half of the room is never
    /// given away like this: it is for calls that say what they need, and use it or give it back at once.
    ///
    /// # Errors
    /// The disk has no room.
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

    /// Reserves room, if there is some now.
    ///
    /// # Errors
    /// The disk has no room.
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

    /// Reserves room, waiting for it. A request for more than half of all of it waits only until some is left: what
    /// it takes beyond, others wait for. What is so large must have its place on disk before it is committed.
    ///
    /// # Errors
    /// The disk has no room, or `failure` says that the log has failed.
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

    /// Makes segments for a call that the room which is always kept prepared was not made for.
    fn prepare_for(&self, bytes: usize) -> Result<()> {
        let Some(segments) = &self.segments else { return Ok(()) };
        let needed = group_bytes_max(bytes as u64) + group_bytes_max(self.capacity as u64);
        while segments.remaining_bytes() < needed {
            segments.prepare_next().map_err(|error| refusal(&error))?;
        }
        Ok(())
    }

    /// Whether half of the room is handed out.
    pub(crate) fn is_low(&self) -> bool {
        self.state.lock().available < self.capacity / 2
    }

    /// Gives room back.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.state.lock().available += bytes as i64;
        self.changed.notify_all();
    }

    /// Refuses from here on, or no more.
    pub(crate) fn set_refused(&self, refused: Option<Error>) {
        let mut state = self.state.lock();
        // Relaxed: some calls more or fewer may slip through; the reason is read under the lock.
        self.refuses.store(refused.is_some(), Ordering::Relaxed);
        state.refused = refused;
        drop(state);
        self.changed.notify_all();
    }

    /// Why room is refused, if it is.
    #[inline]
    pub(crate) fn refused(&self) -> Option<Error> {
        if self.refuses.load(Ordering::Relaxed) { self.reason() } else { None }
    }

    #[cold]
    fn reason(&self) -> Option<Error> {
        self.state.lock().refused.clone()
    }
}

/// Whether a disk has no room, and may have some later.
pub(crate) fn is_full(error: &Error) -> bool {
    use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    let is_kind = matches!(error, Error::Io { kind: StorageFull | QuotaExceeded | FileTooLarge, .. });
    is_kind || matches!(error, Error::StorageFull { .. })
}

/// The error of updates while no segment can be made, for this reason.
pub(crate) fn refusal(error: &Error) -> Error {
    let reason = error.cause();
    if is_full(error) { Error::NoLogSpace { reason } } else { Error::LogNotExtended { reason } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_bounded_and_comes_back() {
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
    fn half_of_the_room_is_never_kept_by_the_idle() {
        let space = LogSpace::new(8 << 10, None);
        let portions: Vec<usize> = (0..10).map(|_| space.try_take_portion().expect("no refusal")).collect();
        assert_eq!(portions, [1 << 10, 1 << 10, 1 << 10, 1 << 10, 0, 0, 0, 0, 0, 0]);
        assert_eq!(space.try_take(4 << 10), Ok(true));
    }

    #[test]
    fn one_call_may_be_larger_than_all_room_and_others_wait_until_it_is_written() {
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
    fn who_waits_learns_that_the_log_has_failed() {
        let space = LogSpace::new(10, None);
        assert_eq!(space.try_take(10), Ok(true));
        let failure = Error::LogFailed { reason: "no disk".to_string() };
        assert_eq!(space.take(1, || Some(failure.clone())), Err(failure));
    }
}
