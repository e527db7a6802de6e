//! A row that is remembered: its counters, its holder and its queue.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::owner::{Kind, Owner};
use super::{HotRow, Tag};

/// Confidence in a row at which transactions that read it reserve it.
pub(super) const CONFIDENT: u8 = 4;
/// The highest confidence.
pub(super) const CONFIDENCE_MAX: u8 = 16;
/// Confidence lost with a reservation that no write has followed: it has delayed others, which costs less than a
/// conflict, but happens at each transaction that only reads.
pub(super) const LOST_UNWRITTEN: u8 = 2;
/// Confidence lost with a wait that has timed out.
pub(super) const LOST_TIMED_OUT: u8 = 4;

/// Confidence gained with a conflict: that of a session reaches the client, and is not to happen again; that of an
/// attempt is retried, and one alone says little.
pub(super) fn raised_by_conflict(kind: Kind) -> u8 {
    match kind {
        Kind::Session => CONFIDENT,
        Kind::Attempt => CONFIDENT / 2,
    }
}

/// A transaction that waits for a row.
pub(super) struct Waiter {
    pub(super) owner: Arc<Owner>,
    since: Instant,
}

/// A row that transactions are predicted to write after reading it.
#[derive(Default)]
pub(super) struct Row {
    /// The tag of the row, if one is remembered here.
    pub(super) tag: Tag,
    name: Option<(u64, Arc<[u8]>)>,
    pub(super) confidence: [u8; 2],
    pub(super) failed_sessions: u64,
    reserved: u64,
    waits: u64,
    pub(super) holder: Option<Arc<Owner>>,
    /// True if the holder has written the row.
    pub(super) is_written: bool,
    pub(super) waiting: VecDeque<Waiter>,
    /// The place and the tag of the row whose queue it has.
    pub(super) joined_to: Option<(usize, Tag)>,
    /// True if other rows have this one's queue.
    pub(super) is_joined: bool,
}

impl Row {
    pub(super) fn of(tag: Tag, table: u64, key: &[u8]) -> Row {
        Row { tag, name: Some((table, key.into())), ..Row::default() }
    }

    /// Gives the row to a transaction, which does not wait for it any more.
    pub(super) fn grant(&mut self, owner: Arc<Owner>, place: usize) {
        self.reserved += 1;
        self.is_written = false;
        owner.has_got(place);
        self.holder = Some(owner);
    }

    /// Makes a transaction wait.
    pub(super) fn enqueue(&mut self, owner: Arc<Owner>, place: usize) {
        self.waits += 1;
        owner.begin_to_wait(place);
        self.waiting.push_back(Waiter { owner, since: Instant::now() });
    }

    /// Takes a transaction out of the queue. Returns whether it was there.
    pub(super) fn remove(&mut self, owner: &Arc<Owner>) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiter| !Arc::ptr_eq(&waiter.owner, owner));
        self.waiting.len() < before
    }

    /// Takes the first waiter out of the queue if the row is to be granted to it, whichever transaction asks before it.
    pub(super) fn next_holder(
        &mut self,
        now: impl FnOnce() -> Instant,
        fair_after: Duration,
    ) -> Option<Arc<Owner>> {
        let first = self.waiting.front()?;
        let is_next = first.owner.kind() == Kind::Session || now().duration_since(first.since) >= fair_after;
        if is_next { self.waiting.pop_front().map(|waiter| waiter.owner) } else { None }
    }

    /// The row's entry in a report.
    pub(super) fn report(&self) -> Option<HotRow> {
        let sessions = self.waiting.iter().filter(|waiter| waiter.owner.kind() == Kind::Session);
        let is_predicted = self.confidence.map(|confidence| confidence >= CONFIDENT);
        if is_predicted == [false, false] && self.failed_sessions == 0 {
            return None;
        }
        Some(HotRow {
            row: self.name.clone()?,
            failed_sessions: self.failed_sessions,
            is_predicted,
            reserved: self.reserved,
            waits: self.waits,
            waiting_sessions: sessions.count(),
        })
    }
}
