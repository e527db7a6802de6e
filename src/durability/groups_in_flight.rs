//! The groups that are in flight: written, and not known to be durable.
//!
//! While one group is synced the next may be written and synced, by another thread. Invariants:
//! - At most as many groups are in flight as the store takes: on the local disk [`GROUPS_IN_FLIGHT_MAX`].
//! - Groups become durable in the order of their epochs: one whose sync is over waits here for the one before it.
//! - Once a write or a sync has failed, nothing becomes durable any more.
//!
//! Concurrency: the thread that writes a group calls [`begin`](GroupsInFlight::begin), one thread at a time; any thread ends
//! what it has synced. The mutex is held for a few instructions, never during a disk operation.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::failure::writing;
use super::prepare::Segments;
use super::segment::OpenSegment;
use super::starts::GroupStart;
use crate::base::disk::has_bug;
use crate::{Error, Result};

/// Largest number of groups that are written and not durable on the local disk.
pub(crate) const GROUPS_IN_FLIGHT_MAX: usize = 2;

/// See the [module](self).
pub(crate) struct GroupsInFlight {
    /// At most this many groups are in flight.
    limit: usize,
    state: Mutex<State>,
    /// Signaled when a group has become durable, or the log has failed.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// The oldest first.
    flights: VecDeque<Flight>,
    failure: Option<Error>,
}

struct Flight {
    start: GroupStart,
    bytes: u64,
    /// The last epoch before the next group: that of the group, or a later one without a logged transaction.
    through: u64,
    is_synced: bool,
}

/// An epoch whose group was written, and has to be synced.
#[must_use]
pub(crate) struct Unsynced {
    pub(super) start: GroupStart,
    /// Its segments, and which of their files it was written through.
    pub(super) files: Vec<Arc<OpenSegment>>,
    pub(super) lane: usize,
    pub(super) segments: Arc<Segments>,
    pub(super) in_flight: Arc<GroupsInFlight>,
}

impl GroupsInFlight {
    /// No group is in flight, and at most `limit` may be.
    pub(super) fn new(limit: usize) -> GroupsInFlight {
        GroupsInFlight { limit, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until another group may be written, or the log has failed.
    pub(crate) fn wait_for_room(&self) {
        let mut state = self.state.lock();
        while state.flights.len() >= self.limit && state.failure.is_none() {
            self.changed.wait(&mut state);
        }
    }

    /// Waits until no group is in flight, or the log has failed.
    pub(crate) fn wait_for_all(&self) {
        let mut state = self.state.lock();
        while !state.flights.is_empty() && state.failure.is_none() {
            self.changed.wait(&mut state);
        }
    }

    /// Returns true if another group may be written now.
    pub(crate) fn has_room(&self) -> bool {
        self.state.lock().flights.len() < self.limit
    }

    /// The sequence number of the first block that is not durable, if any is in flight.
    pub(super) fn first_sequence(&self) -> Option<u64> {
        self.state.lock().flights.front().map(|flight| flight.start.sequence)
    }

    /// Registers a group that was written.
    pub(super) fn begin(&self, start: GroupStart, bytes: u64) {
        let flight = Flight { start, bytes, through: start.epoch, is_synced: false };
        self.state.lock().flights.push_back(flight);
    }

    /// Passes an epoch of which no transaction is logged: it is durable as soon as those before it are. Returns the
    /// epoch through which everything is durable now, if that has changed.
    pub(crate) fn pass(&self, epoch: u64) -> Option<u64> {
        let mut state = self.state.lock();
        let has_failed = state.failure.is_some();
        match state.flights.back_mut() {
            None => (!has_failed).then_some(epoch),
            Some(last) => {
                last.through = epoch;
                None
            }
        }
    }

    /// The group that begins here was synced. The epoch through which everything is durable by that, if it is later than before.
    ///
    /// # Errors
    /// Nothing becomes durable any more.
    pub(super) fn end(
        &self,
        start: GroupStart,
        mut note: impl FnMut(GroupStart, u64),
    ) -> Result<Option<u64>> {
        let mut state = self.state.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        state
            .flights
            .iter_mut()
            .filter(|flight| flight.start == start)
            .for_each(|flight| flight.is_synced = true);
        let mut durable = None;
        while let Some(flight) = state.flights.pop_front_if(|flight| flight.is_synced) {
            note(flight.start, flight.bytes);
            durable = Some(flight.through);
        }
        self.changed.notify_all();
        Ok(durable)
    }

    /// Closes the log for this reason: nothing more becomes durable; the first reason counts.
    pub(super) fn fail(&self, error: &Error) -> Error {
        let mut state = self.state.lock();
        let failure = state.failure.get_or_insert_with(|| Error::LogFailed { reason: error.cause() }).clone();
        self.changed.notify_all();
        failure
    }

    /// The reason why no further group becomes durable; `None` if there is none.
    pub(super) fn failure(&self) -> Option<Error> {
        self.state.lock().failure.clone()
    }
}

impl Unsynced {
    /// Number of files that are synced.
    pub(crate) fn flushes(&self) -> u64 {
        self.files.len() as u64
    }

    /// Makes the group durable. The epoch through which everything is durable by that; none, if a group before it is
    /// not durable yet: then the thread that syncs that one learns of both.
    ///
    /// # Errors
    /// Of this group and all later ones it is unknown, until the log is read again, whether they are durable.
    pub(crate) fn sync(self) -> Result<Option<u64>> {
        let is_skipped = has_bug!(self.segments.disk(), SyncSkipped)
            || has_bug!(self.segments.disk(), AcknowledgedBeforeSync);
        for open in self.files.iter().filter(|_| !is_skipped) {
            let synced = open.files[self.lane].sync_data().map_err(writing(&open.segment.path));
            synced.map_err(|error| self.in_flight.fail(&error))?;
        }
        let durable =
            self.in_flight.end(self.start, |start, bytes| self.segments.note_group(start, bytes))?;
        let is_early = has_bug!(self.segments.disk(), AcknowledgedOutOfOrder);
        Ok(if is_early { durable.max(Some(self.start.epoch)) } else { durable })
    }
}
