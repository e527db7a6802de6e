//! Room in the log, handed out before it is needed.
//!
//! Commits append their redo to memory in their commit sections, where nobody may wait. So each participant reserves
//! room beforehand, some calls' worth at a time; what is reserved or waits to be written is bounded, and room comes
//! back when a group has been written. Where the disk has no room for another segment, no more is handed out: updates
//! are refused before they run, and what was handed out still fits into what is prepared.

use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};

/// Waiting for room looks up from time to time, in case that the log has failed meanwhile.
const PATIENCE: Duration = Duration::from_millis(20);

/// With less than this at a time, a participant would come back too often.
const LEAST_PORTION: usize = 1 << 10;

/// The room that is left to hand out.
pub(crate) struct LogSpace {
    state: Mutex<State>,
    changed: Condvar,
    capacity: i64,
    /// What one participant's part of a quarter of the room is.
    share: usize,
}

struct State {
    /// May be negative: one call may be larger than all of it.
    available: i64,
    refused: Option<Error>,
}

impl LogSpace {
    /// Room for so many bytes that are not durable yet, for so many participants.
    pub(crate) fn new(bytes: usize, participants: usize) -> LogSpace {
        let capacity = bytes as i64;
        LogSpace {
            state: Mutex::new(State { available: capacity, refused: None }),
            changed: Condvar::new(),
            capacity,
            share: bytes / 4 / participants.max(1),
        }
    }

    /// How much a participant takes at a time.
    pub(crate) fn portion(&self) -> usize {
        self.share.clamp(LEAST_PORTION, 1 << 18)
    }

    /// How much a participant may keep between its calls. It may be idle from then on, so all of them together keep
    /// at most half of the room: whoever asks for no more than the other half gets it when the log has been written.
    pub(crate) fn keep(&self) -> usize {
        if self.share < LEAST_PORTION { 0 } else { 2 * self.portion() }
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
    /// it takes beyond, others wait for.
    ///
    /// # Errors
    /// The disk has no room, or `failure` says that the log has failed.
    pub(crate) fn take(&self, bytes: usize, failure: impl Fn() -> Option<Error>) -> Result<()> {
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
        self.state.lock().refused = refused;
        self.changed.notify_all();
    }

    /// Why room is refused, if it is.
    pub(crate) fn refused(&self) -> Option<Error> {
        self.state.lock().refused.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_bounded_and_comes_back() {
        let space = LogSpace::new(1_000, 1);
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
    fn one_call_may_be_larger_than_all_room_and_others_wait_until_it_is_written() {
        let space = LogSpace::new(1_000, 1);
        assert_eq!(space.try_take(100), Ok(true));
        assert_eq!(space.try_take(50_000), Ok(true));
        assert_eq!(space.try_take(1), Ok(false));
        assert_eq!(space.try_take(50_000), Ok(false));
        space.give_back(50_000);
        assert_eq!(space.try_take(1), Ok(true));
    }

    #[test]
    fn what_idle_participants_keep_leaves_half_of_the_room() {
        for (bytes, participants) in [(4 << 10, 2), (4 << 10, 256), (1 << 20, 256), (16 << 20, 65_536), (1 << 30, 2)]
        {
            let space = LogSpace::new(bytes, participants);
            assert!(space.keep() * participants <= bytes / 2, "{bytes} bytes, {participants} participants");
            assert!(space.portion() > 0 && space.portion() <= bytes / 2);
        }
    }

    #[test]
    fn a_full_disk_refuses_at_once_and_recovers() {
        let space = LogSpace::new(1_000, 1);
        let full = Error::NoLogSpace { reason: "full".to_string() };
        space.set_refused(Some(full.clone()));
        assert_eq!(space.take(1, || None), Err(full));
        space.set_refused(None);
        assert_eq!(space.take(1, || None), Ok(()));
    }

    #[test]
    fn who_waits_learns_that_the_log_has_failed() {
        let space = LogSpace::new(10, 1);
        assert_eq!(space.try_take(10), Ok(true));
        let failure = Error::LogFailed { reason: "no disk".to_string() };
        assert_eq!(space.take(1, || Some(failure.clone())), Err(failure));
    }
}
