//! Visits: others stand in for executors that sleep.
//!
//! An executor's data lie in *rooms*, by their places. Who visits has some of them to itself; others may be in other rooms of the
//! same executor. So visitors are as far apart as if there were as many executors as rooms, and there need be no more threads.
//! To enter a room costs one compare-and-swap of a word that only its visitors write, and a look at the executor's *door*, which
//! changes only when the executor wakes or falls asleep.
//!
//! What it keeps true:
//!
//! - **Nobody is ever beside a visitor.** A room has one visitor at a time, who enters it first and looks at the door then; the
//!   executor, and whoever puts something into its queue, shuts the door first and looks at the rooms then. So one of them sees the
//!   other. The executor sleeps until all rooms are empty.
//! - **No wake-up is lost, and nothing that has come in is overtaken.** What comes in shuts the door. Who leaves a room and finds
//!   it shut looks into the queue, and the last one wakes the executor.
//! - **What moves has one owner.** Before boundaries change, the doors of all concerned are shut, and they stay so until all of
//!   these have drained. So nobody comes in by the new boundaries while somebody is there by the old ones.
//! - **Visitors never wait for each other in a circle.** Who visits several rooms takes them in their order, and keeps
//!   what it has only while the next one merely has another visitor, who leaves it without waiting for any room that comes
//!   before it. Where a door is shut, all is given up at once: what that executor waits for may be in the queue of one that is kept.

use std::time::Duration;

use crossbeam_utils::CachePadded;
use smallvec::SmallVec;

use super::Queues;
use crate::base::atomics::{AtomicU32, AtomicU64, Ordering};

/// So many rooms an executor has: so many that two workers seldom want the same one, so few that they are soon looked through.
const ROOMS: usize = if cfg!(heddle_model) { 2 } else { 16 };

/// Rooms, by their numbers, which go on from executor to executor; in ascending order.
pub(crate) type Route = SmallVec<[usize; 4]>;

/// The room of what lies at this place, at its owner.
#[inline]
pub(crate) fn room_of(executor: usize, place: u64) -> usize {
    // Not the upper bits: they say who owns it.
    executor * ROOMS + (place >> 24) as usize % ROOMS
}

/// All rooms of an executor.
pub(crate) fn rooms_of(executor: usize) -> std::ops::Range<usize> {
    executor * ROOMS..(executor + 1) * ROOMS
}

/// Whose room it is.
pub(crate) fn executor_of(room: usize) -> usize {
    room / ROOMS
}

/// Whose these rooms are, each executor once.
pub(crate) fn executors_of(rooms: &Route) -> impl Iterator<Item = usize> {
    let mut before = None;
    rooms
        .iter()
        .map(|room| executor_of(*room))
        .filter(move |executor| before.replace(*executor) != Some(*executor))
}

/// Why nobody was visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unfree {
    /// Somebody else is in one of the rooms, who will leave it by himself.
    Visited,
    /// One of the executors is at work, or has something locked or to do, or is about to go.
    Busy,
    /// The boundaries have moved.
    Moved,
}

/// Somebody is in the room.
const VISITED: u32 = 1;
/// Somebody who needs others besides waits for it: only such come in.
const WANTED: u32 = 2;

/// Whether an executor may be visited, and which is the first version of the boundaries that has its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Door {
    pub(super) is_open: bool,
    pub(super) range_since: u64,
}

impl Door {
    fn word(self) -> u64 {
        self.range_since << 1 | u64::from(self.is_open)
    }

    /// Why nobody comes in who was routed by this version of the boundaries, if so.
    #[inline]
    fn unfree(word: u64, version: u64) -> Option<Unfree> {
        if word >> 1 > version {
            Some(Unfree::Moved)
        } else if word & 1 == 0 {
            Some(Unfree::Busy)
        } else {
            None
        }
    }
}

/// An executor's door and rooms.
pub(super) struct Rooms {
    /// See [`Door`]; changed under the mutex of the executor's queue.
    door: CachePadded<AtomicU64>,
    visitors: [CachePadded<AtomicU32>; ROOMS],
}

impl Rooms {
    pub(super) fn new() -> Rooms {
        let door = Door { is_open: false, range_since: 0 };
        Rooms {
            door: CachePadded::new(AtomicU64::new(door.word())),
            visitors: std::array::from_fn(|_| CachePadded::new(AtomicU32::new(0))),
        }
    }

    /// Tells who may come; the mutex of the queue is held.
    pub(super) fn show(&self, door: Door) {
        // Relaxed: under the mutex nobody else changes it.
        if self.door.load(Ordering::Relaxed) != door.word() {
            // SeqCst: before who shuts it looks at the rooms, as visitors look at it after they have entered; opened, it
            // tells with release what the executor has done.
            self.door.store(door.word(), Ordering::SeqCst);
        }
    }

    /// Nobody comes in any more, until [`show`](Self::show) says so; the mutex of the queue is held.
    pub(super) fn shut(&self) {
        // SeqCst: as above. Who finds the boundaries changed that change after this finds the door shut.
        self.door.fetch_and(!1, Ordering::SeqCst);
    }

    /// Whether nobody is in any of the rooms, and who was is seen to have done all that he has.
    pub(super) fn are_left(&self) -> bool {
        // SeqCst: see `show`.
        self.visitors.iter().all(|room| room.load(Ordering::SeqCst) & VISITED == 0)
    }

    /// Enters a room. `several`: whether it is one of several.
    #[inline]
    fn enter(&self, room: usize, version: u64, several: bool) -> Result<(), Unfree> {
        // Relaxed: so that nobody comes in vain; it is looked at again.
        if let Some(unfree) = Door::unfree(self.door.load(Ordering::Relaxed), version) {
            return Err(unfree);
        }
        let room = &self.visitors[room % ROOMS];
        // SeqCst: before the look at the door; acquires what the last visitor has done.
        let entered = room.compare_exchange(0, VISITED, Ordering::SeqCst, Ordering::Relaxed).is_ok()
            || several && room.compare_exchange(WANTED, VISITED, Ordering::SeqCst, Ordering::Relaxed).is_ok();
        if !entered {
            return Err(Unfree::Visited);
        }
        Ok(())
    }

    /// Why nobody may stay in a room that has been entered, if so.
    #[inline]
    fn unfree(&self, version: u64) -> Option<Unfree> {
        // SeqCst: after the room is taken; acquires what the executor has done.
        Door::unfree(self.door.load(Ordering::SeqCst), version)
    }

    /// Leaves a room. Whether the executor may have to be woken.
    #[inline]
    fn leave(&self, room: usize) -> bool {
        // SeqCst: before the look at the door; releases what was done here.
        self.visitors[room % ROOMS].fetch_and(!VISITED, Ordering::SeqCst);
        // SeqCst: see `show`.
        self.door.load(Ordering::SeqCst) & 1 == 0
    }

    /// Says whether somebody waits for a room.
    fn want(&self, room: usize, wanted: bool) {
        let room = &self.visitors[room % ROOMS];
        // Relaxed: it only keeps others away for a while.
        if wanted {
            room.fetch_or(WANTED, Ordering::Relaxed);
        } else {
            room.fetch_and(!WANTED, Ordering::Relaxed);
        }
    }
}

/// Somebody who is in rooms: as long as it lives, their executors sleep.
pub(crate) struct Visit<'q, T, N> {
    queues: &'q Queues<T, N>,
    rooms: Route,
    /// The next room, which somebody else is in, and which is kept for this one.
    waits_for: Option<usize>,
}

impl<T, N> Visit<'_, T, N> {
    /// Says which room is waited for, if one is.
    fn wait_for(&mut self, room: Option<usize>) {
        let say = |room: usize, wanted| self.queues.boxes[executor_of(room)].rooms.want(room, wanted);
        let before = std::mem::replace(&mut self.waits_for, room).filter(|before| room != Some(*before));
        if let Some(before) = before {
            // If another one wants it, too, he says so again at his next look.
            say(before, false);
        }
        if let Some(next) = room {
            say(next, true);
        }
    }
}

impl<T, N> Drop for Visit<'_, T, N> {
    #[inline]
    fn drop(&mut self) {
        if self.waits_for.is_some() {
            self.wait_for(None);
        }
        for &room in &self.rooms {
            self.queues.leave_room(room);
        }
    }
}

impl<T, N> Queues<T, N> {
    /// Nobody is visited yet.
    #[inline]
    pub(crate) fn no_visit(&self) -> Visit<'_, T, N> {
        Visit { queues: self, rooms: Route::new(), waits_for: None }
    }

    /// Visits these rooms, which this version of the boundaries says: all or none.
    ///
    /// # Errors
    /// One of them is not free.
    #[inline]
    pub(crate) fn visit(&self, rooms: &[usize], version: u64) -> Result<Visit<'_, T, N>, Unfree> {
        let mut visit = self.no_visit();
        let several = rooms.len() > 1;
        for &room in rooms {
            self.enter_room(&mut visit, room, version, several)?;
        }
        Ok(visit)
    }

    /// Goes on to visit these rooms, of which it visits some of the first ones or none, and keeps those that it has got.
    ///
    /// # Errors
    /// The next one is not free. If it is [`Unfree::Visited`], the visit may be kept, and gone on with soon: nobody who needs but
    /// one room comes in before. Otherwise the visit has to end.
    pub(crate) fn visit_more(
        &self,
        visit: &mut Visit<'_, T, N>,
        rooms: &[usize],
        version: u64,
    ) -> Result<(), Unfree> {
        debug_assert!(rooms.is_sorted_by(|one, other| one < other) && rooms.starts_with(&visit.rooms));
        for &room in &rooms[visit.rooms.len()..] {
            let entered = self.enter_room(visit, room, version, true);
            visit.wait_for((entered == Err(Unfree::Visited)).then_some(room));
            entered?;
        }
        Ok(())
    }

    #[inline]
    fn enter_room(
        &self,
        visit: &mut Visit<'_, T, N>,
        room: usize,
        version: u64,
        several: bool,
    ) -> Result<(), Unfree> {
        let rooms = &self.boxes[executor_of(room)].rooms;
        rooms.enter(room, version, several)?;
        let unfree = rooms.unfree(version);
        match unfree {
            None => visit.rooms.push(room),
            // Somebody may have seen it taken, and left the executor asleep.
            Some(_) => self.leave_room(room),
        }
        unfree.map_or(Ok(()), Err)
    }

    #[inline]
    fn leave_room(&self, room: usize) {
        let number = executor_of(room);
        if self.boxes[number].rooms.leave(room) {
            self.look_after(number);
        }
    }

    /// The executor goes on with what has come in; and where the queues have been closed, it may have waited for this.
    #[cold]
    fn look_after(&self, number: usize) {
        let inbox = &self.boxes[number];
        let mut state = inbox.state.lock();
        let wake = (state.closed || !state.found.is_empty())
            && state.asleep
            && inbox.rooms.are_left()
            && std::mem::take(&mut state.asleep);
        drop(state);
        if wake {
            inbox.filled.notify_one();
        }
    }

    /// Tells what visitors have done at an executor: in how many groups, how many calls, and for how long.
    pub(crate) fn note_visits(&self, number: usize, groups: u64, calls: u64, busy: Duration) {
        let mut state = self.boxes[number].state.lock();
        state.takes += groups;
        state.taken += calls;
        state.busy += busy;
    }
}

#[cfg(test)]
mod tests;
