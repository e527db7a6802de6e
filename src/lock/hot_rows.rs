//! Hot rows: transactions that read a row and then write it queue for the rows about which such transactions have failed.
//!
//! Under an optimistic protocol a transaction that reads a row and writes it later fails if a rival has changed the row in
//! between. Such rows are remembered here. From then on a transaction that is predicted to write such a row reserves it when it
//! reads it, until its end, and rivals wait instead of failing. Two kinds of transactions take part, each with its own
//! predictions: those of sessions, whose failure reaches the client, and attempts of the engine, which are retried.
//!
//! ```text
//! tags   [u64; ROWS]      a row's hash, 0: free; sets of four, so that a look at one cache line finds a row or its absence
//! rows   [Mutex<Row>]     the row's counters, its holder, its queue: a mutex for each row, none for all
//! Owner                   a transaction that may reserve rows: those that it holds, the one that it waits for
//! ```
//!
//! A row is known by the hash of its table and key: two rows of one hash would share a queue, which costs time and nothing else.
//!
//! Invariants:
//! - No error is raised here: a request is granted, waits for a bounded time (its caller's business), or is denied, and
//!   the transaction continues without. Validation at commit does not depend on it.
//! - A wait that would close a cycle of waits is denied. Of two waits that close a cycle together at least one sees the other,
//!   because each is entered before its thread searches, under the owners' mutexes.
//! - Each row has a saturating counter for each kind, as a branch predictor has: it rises with a conflict, and with a reservation
//!   that a write has followed; it falls with one that was of no use, and with a wait that has timed out. At zero for both kinds
//!   the row is forgotten.
//! - A session is granted a row in turn. Of attempts the running one may take a free row before the first waiter has woken; a
//!   waiter of [`FAIR_AFTER`] is granted it.
//!
//! Rows that sessions have waited for in a cycle are *joined*: they have one queue from then on, that of one of them, so that
//! whichever of them a transaction reads first excludes its rivals from all.
//!
//! Mutexes: a row's, then an owner's; never two rows' or two owners'.

mod owner;
mod row;
#[cfg(test)]
mod tests;

use std::hash::BuildHasher;
use std::sync::Arc;
use std::time::{Duration, Instant};

use foldhash::fast::FixedState;
use parking_lot::{Mutex, MutexGuard};
use smallvec::SmallVec;

pub(crate) use self::owner::{Kind, Owner, Proceed, ToProceed};
use self::row::{CONFIDENT, Row};
use crate::base::atomics::{AtomicU64, AtomicUsize, Ordering};

/// Most rows that are remembered, and most places that a row may have.
const ROWS: usize = if cfg!(heddle_model) { 8 } else { 1024 };
const WAYS: usize = 4;
/// A waiting attempt is granted the row after this time, whichever attempt asks before it.
const FAIR_AFTER: Duration = Duration::from_micros(500);
/// Longest chain of joined rows to the one whose queue they have, and longest chain of waits to a cycle.
const MAX_STEPS: usize = 64;

/// The consequence of the predictions for a row that is about to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prediction {
    /// No change, or the row was reserved before.
    None,
    /// The row is reserved from here on.
    Reserved,
    /// The transaction must wait first, because another one has reserved it.
    Wait,
}

/// A row that is remembered, for a report.
#[derive(Debug)]
pub(crate) struct HotRow {
    /// Its table and its key.
    pub(crate) row: (u64, Arc<[u8]>),
    /// Sessions' transactions that have failed because of it.
    pub(crate) failed_sessions: u64,
    /// For each kind, sessions and attempts: true if those that read the row reserve it.
    pub(crate) is_predicted: [bool; 2],
    /// Number of reservations, and of waits.
    pub(crate) reserved: u64,
    pub(crate) waits: u64,
    /// Sessions that wait for it now.
    pub(crate) waiting_sessions: usize,
}

/// The rows that are remembered, and which transactions have reserved them.
pub(crate) struct HotRows {
    tags: Box<[AtomicU64]>,
    rows: Box<[Mutex<Row>]>,
    /// Number of rows that transactions of each kind reserve.
    predicted: [AtomicUsize; 2],
}

impl Default for HotRows {
    fn default() -> HotRows {
        HotRows {
            tags: (0..ROWS).map(|_| AtomicU64::new(0)).collect(),
            rows: (0..ROWS).map(|_| Mutex::default()).collect(),
            predicted: Default::default(),
        }
    }
}

/// A row: the hash of its table and key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tag(u64);

impl Tag {
    pub(crate) fn of(table: u64, key: &[u8]) -> Tag {
        Tag(FixedState::default().hash_one((table, key)).max(1))
    }

    /// The tag of no row.
    const NONE: Tag = Tag(0);
}

impl HotRows {
    /// Returns true if no transaction of a kind reserves anything; the answer may be slightly outdated.
    #[inline]
    pub(crate) fn is_empty(&self, kind: Kind) -> bool {
        // Relaxed: the number carries no data; a transaction that misses a prediction may conflict.
        self.predicted[kind as usize].load(Ordering::Relaxed) == 0
    }

    /// The rows that are remembered.
    pub(crate) fn all(&self) -> Vec<HotRow> {
        self.rows.iter().filter_map(|row| row.lock().report()).collect()
    }

    /// The place of a row, if it is remembered.
    fn find(&self, tag: Tag) -> Option<usize> {
        let set = Self::set(tag);
        // Relaxed: the tag is compared again under the row's mutex.
        set.into_iter().find(|&place| self.tags[place].load(Ordering::Relaxed) == tag.0)
    }

    fn set(tag: Tag) -> std::ops::Range<usize> {
        let first = tag.0 as usize % (ROWS / WAYS) * WAYS;
        first..first + WAYS
    }

    /// The row that has the queue of this one, locked, and its place: itself, or the one that it is joined to.
    fn queue_of(&self, tag: Tag) -> Option<(usize, MutexGuard<'_, Row>)> {
        let mut place = self.find(tag)?;
        let mut expected = tag;
        for _ in 0..MAX_STEPS {
            let mut row = self.rows[place].lock();
            if row.tag != expected {
                // It was forgotten meanwhile.
                return None;
            }
            match row.joined_to {
                // What it was joined to was forgotten: it has a queue of its own again.
                Some((to, tag)) if self.tags[to].load(Ordering::Relaxed) != tag.0 => row.joined_to = None,
                Some((to, tag)) => {
                    (place, expected) = (to, tag);
                    continue;
                }
                None => {}
            }
            return Some((place, row));
        }
        None
    }

    /// A transaction of a kind has failed because of a row that it had read and would have written.
    #[cold]
    pub(crate) fn note_conflict(&self, kind: Kind, table: u64, key: &[u8]) {
        self.remember(kind, table, key, u64::from(kind == Kind::Session));
    }

    fn remember(&self, kind: Kind, table: u64, key: &[u8], failed_sessions: u64) {
        let tag = Tag::of(table, key);
        let place = self.find(tag).or_else(|| self.claim_place(tag, table, key));
        let Some(place) = place else { return };
        let mut row = self.rows[place].lock();
        if row.tag == tag {
            row.failed_sessions += failed_sessions;
            let raised = row.confidence[kind as usize] + row::raised_by_conflict(kind);
            self.set_confidence(&mut row, kind, raised);
        }
    }

    /// A place for a row that is not remembered yet. If there is none, the counters of those in its places fall (the frequent algorithm: Misra
    /// and Gries, 1982).
    fn claim_place(&self, tag: Tag, table: u64, key: &[u8]) -> Option<usize> {
        for place in Self::set(tag) {
            let mut row = self.rows[place].lock();
            if row.tag == Tag::NONE {
                *row = Row::of(tag, table, key);
                // Relaxed: see `find`.
                self.tags[place].store(tag.0, Ordering::Relaxed);
                return Some(place);
            }
        }
        Self::set(tag).for_each(|place| self.lower(place, 1));
        None
    }

    /// Lowers the counters of a row that is not held, and forgets it at zero.
    fn lower(&self, place: usize, by: u8) {
        let mut row = self.rows[place].lock();
        if row.tag == Tag::NONE || row.holder.is_some() || !row.waiting.is_empty() {
            return;
        }
        for kind in [Kind::Session, Kind::Attempt] {
            let lowered = row.confidence[kind as usize].saturating_sub(by);
            self.set_confidence(&mut row, kind, lowered);
        }
        if row.confidence == [0, 0] {
            let _nothing_waits = self.forget(place, &mut row);
        }
    }

    /// Lowers the counters of all rows a little, so that those without conflicts are forgotten some time.
    #[cold]
    pub(crate) fn age(&self) {
        (0..ROWS).for_each(|place| self.lower(place, 1));
    }

    fn set_confidence(&self, row: &mut Row, kind: Kind, to: u8) {
        let confidence = &mut row.confidence[kind as usize];
        let was = *confidence >= CONFIDENT;
        *confidence = to.min(row::CONFIDENCE_MAX);
        // Relaxed: see `is_empty`.
        match (was, *confidence >= CONFIDENT) {
            (false, true) => self.predicted[kind as usize].fetch_add(1, Ordering::Relaxed),
            (true, false) => self.predicted[kind as usize].fetch_sub(1, Ordering::Relaxed),
            _ => 0,
        };
    }

    /// Forgets a row, and lets all that wait for it continue.
    fn forget(&self, place: usize, row: &mut Row) -> ToProceed {
        [Kind::Session, Kind::Attempt].into_iter().for_each(|kind| self.set_confidence(row, kind, 0));
        let waiting = std::mem::take(&mut row.waiting);
        // Relaxed: see `find`.
        self.tags[place].store(0, Ordering::Relaxed);
        *row = Row::default();
        waiting.into_iter().map(|waiter| waiter.owner.stop_waiting()).collect()
    }

    /// A row, if it is remembered: a look without a lock.
    #[inline]
    pub(crate) fn hot(&self, table: u64, key: &[u8]) -> Option<Tag> {
        let tag = Tag::of(table, key);
        self.find(tag).map(|_| tag)
    }

    /// Returns true if a row shares its queue with others.
    pub(crate) fn is_joined(&self, tag: Tag) -> bool {
        self.queue_of(tag).is_some_and(|(_, row)| row.is_joined)
    }

    /// Reserves a row that is about to be read, if it is predicted that transactions of the owner's kind write it, and free.
    pub(crate) fn try_reserve(&self, owner: &Arc<Owner>, tag: Tag) -> Prediction {
        let Some((place, mut row)) = self.queue_of(tag) else { return Prediction::None };
        match &row.holder {
            Some(holder) if Arc::ptr_eq(holder, owner) => Prediction::None,
            _ if row.confidence[owner.kind() as usize] < CONFIDENT => Prediction::None,
            None => {
                row.grant(owner.clone(), place);
                Prediction::Reserved
            }
            Some(_) if owner.waits_no_more() => Prediction::None,
            Some(_) => Prediction::Wait,
        }
    }

    /// Joins the queue for a row. Returns false if there is nothing to wait for, or if the wait would close a cycle: then the transaction
    /// waits no more until its end.
    pub(crate) fn wait(&self, owner: &Arc<Owner>, tag: Tag) -> bool {
        let Some((place, mut row)) = self.queue_of(tag) else { return false };
        if row.holder.as_ref().is_none_or(|holder| Arc::ptr_eq(holder, owner)) {
            return false;
        }
        // A wait that was dropped in the middle may have left it in the queue.
        row.remove(owner);
        row.enqueue(owner.clone(), place);
        drop(row);
        let cycle = self.cycle_through(owner, place);
        if cycle.is_empty() {
            return true;
        }
        if owner.kind() == Kind::Session {
            self.join(&cycle);
        }
        !self.stop_waiting(owner)
    }

    /// The places of the rows of a cycle of waits; empty: there is none.
    fn cycle_through(&self, owner: &Arc<Owner>, place: usize) -> SmallVec<[usize; 4]> {
        let mut places: SmallVec<[usize; 4]> = SmallVec::from_iter([place]);
        for _ in 0..MAX_STEPS {
            let Some(&last) = places.last() else { break };
            let Some(holder) = self.rows[last].lock().holder.clone() else { break };
            if Arc::ptr_eq(&holder, owner) {
                // One place: it was granted the row just now.
                return if places.len() > 1 { places } else { SmallVec::new() };
            }
            let Some(next) = holder.waits_for() else { break };
            places.push(next);
        }
        SmallVec::new()
    }

    /// Takes a transaction out of the queue in which it waits: it waits no more until its end. Returns whether it did, and was not granted
    /// the row in this moment.
    fn stop_waiting(&self, owner: &Arc<Owner>) -> bool {
        let Some(place) = owner.waits_for() else { return false };
        let mut row = self.rows[place].lock();
        let has_waited = row.remove(owner);
        if has_waited {
            owner.give_up();
        }
        has_waited
    }

    /// Handles a wait that has timed out: the transaction continues without the reservation, and so do all that wait
    /// for the row, if there is no confidence in it left. Returns those that continue; none if the transaction did not
    /// wait.
    pub(crate) fn time_out(&self, owner: &Arc<Owner>) -> ToProceed {
        let Some(place) = owner.waits_for() else { return ToProceed::default() };
        let mut row = self.rows[place].lock();
        if !row.remove(owner) {
            return ToProceed::default();
        }
        owner.give_up();
        let mut released = ToProceed::one(owner.clone());
        // It is the holder whose reservation was too long.
        let Some(kind) = row.holder.as_ref().map(|holder| holder.kind()) else { return released };
        let lowered = row.confidence[kind as usize].saturating_sub(row::LOST_TIMED_OUT);
        self.set_confidence(&mut row, kind, lowered);
        if row.confidence[kind as usize] == 0 {
            released.extend(row.waiting.drain(..).map(|waiter| {
                waiter.owner.give_up();
                waiter.owner
            }));
        }
        released
    }

    /// A transaction is going to write a row.
    pub(crate) fn note_write(&self, owner: &Arc<Owner>, tag: Tag) {
        if !owner.holds_any() {
            return;
        }
        let note = |mut row: MutexGuard<'_, Row>| {
            row.is_written |= row.holder.as_ref().is_some_and(|holder| Arc::ptr_eq(holder, owner));
        };
        // Its own queue too: it may have been joined to another since it was reserved.
        if let Some(place) = self.find(tag) {
            note(self.rows[place].lock());
        }
        if let Some((_, row)) = self.queue_of(tag) {
            note(row);
        }
    }

    /// Releases the reservations of a transaction that has ended. Returns the transactions that may continue, and
    /// whether each row that it had reserved was written.
    pub(crate) fn end(&self, owner: &Arc<Owner>) -> (ToProceed, bool) {
        self.stop_waiting(owner);
        let mut released = ToProceed::default();
        let mut all_written = true;
        for place in owner.end() {
            let mut row = self.rows[place].lock();
            if row.holder.as_ref().is_none_or(|holder| !Arc::ptr_eq(holder, owner)) {
                continue;
            }
            all_written &= row.is_written;
            released.append(self.pass_on(place, &mut row, owner.kind()));
        }
        (released, all_written)
    }

    /// Releases a row that a transaction of this kind has had.
    fn pass_on(&self, place: usize, row: &mut Row, kind: Kind) -> ToProceed {
        row.holder = None;
        let confidence = row.confidence[kind as usize];
        let next = match std::mem::take(&mut row.is_written) {
            true => confidence + 1,
            false => confidence.saturating_sub(row::LOST_UNWRITTEN),
        };
        self.set_confidence(row, kind, next);
        if row.confidence == [0, 0] {
            return self.forget(place, row);
        }
        match row.next_holder(Instant::now, FAIR_AFTER) {
            Some(next) => {
                row.grant(next.clone(), place);
                ToProceed::one(next)
            }
            // An attempt may take it, and waits on if a running one is faster.
            None => row
                .waiting
                .front()
                .map_or_else(ToProceed::default, |first| ToProceed::one(first.owner.clone())),
        }
    }

    /// Checks again for a waiting attempt; returns true if it no longer waits, because it has the row, or continues
    /// without.
    fn take_if_free(&self, owner: &Arc<Owner>) -> bool {
        let Some(place) = owner.waits_for() else { return true };
        let mut row = self.rows[place].lock();
        if owner.waits_for() != Some(place) {
            return true;
        }
        if row.holder.is_some() {
            return false;
        }
        row.remove(owner);
        row.grant(owner.clone(), place);
        true
    }

    /// Reserves a row for an attempt, which waits on this thread for that time at most, with nothing locked.
    /// Returns true if it has waited.
    pub(crate) fn reserve_here(&self, owner: &Arc<Owner>, tag: Tag, patience: Duration) -> bool {
        if self.try_reserve(owner, tag) != Prediction::Wait || !self.wait(owner, tag) {
            return false;
        }
        let deadline = Instant::now() + patience;
        while !self.take_if_free(owner) {
            if !owner.sleep_until(deadline) {
                self.time_out(owner).wake();
                break;
            }
        }
        true
    }

    /// Joins rows that are to have one queue from now on, given by table and key. Those that are not remembered are.
    #[cold]
    pub(crate) fn join_keys(&self, keys: &[(u64, Arc<[u8]>)]) {
        keys.iter().for_each(|(table, key)| self.remember(Kind::Session, *table, key, 0));
        let place = |(table, key): &(u64, Arc<[u8]>)| Some(self.queue_of(Tag::of(*table, key))?.0);
        self.join(&keys.iter().filter_map(place).collect::<SmallVec<[usize; 4]>>());
    }

    /// Joins rows that have queues of their own.
    fn join(&self, places: &[usize]) {
        // The lowest place has the queue, whichever threads join: so no two rows are joined to each other.
        let Some(&root) = places.iter().min() else { return };
        let mut row = self.rows[root].lock();
        row.is_joined = true;
        let (tag, to) = (row.tag, row.joined_to);
        drop(row);
        if tag == Tag::NONE || to.is_some() {
            return;
        }
        for &place in places.iter().filter(|&&place| place > root) {
            let mut row = self.rows[place].lock();
            if row.tag != Tag::NONE && row.joined_to.is_none() {
                row.joined_to = Some((root, tag));
            }
        }
    }
}
