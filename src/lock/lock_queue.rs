//! One lock: its holders and its waiters. Logic only: the caller holds the mutex around it.
//!
//! First come, first served: a newcomer waits behind all waiters, even where its mode is compatible with what is held;
//! so no waiter starves. A holder that wants a stronger mode (an *upgrade*) is placed before all newcomers, which could
//! not be let in before it anyway without making it wait for longer; upgrades don't wait for each other's places, only
//! for holders.
//!
//! Invariants: every two owners in `granted` have compatible modes; an owner is there at most once;
//! in `waiting` upgrades are first; and no waiter remains that could be granted its request.

use std::sync::Arc;

use smallvec::SmallVec;

use super::mode::Mode;
use super::name::OwnerId;
use super::signal::{Outcome, Signal, ToWake, Waiter};

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The lock is held.
    Granted,
    /// The request waits in the queue.
    Queued,
    /// The request would have to wait, and must not.
    Refused,
}

/// The request of a waiter of this queue.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    mode: Mode,
    upgrade: bool,
}

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct Queue {
    granted: SmallVec<[(OwnerId, Mode); 2]>,
    waiting: Vec<Waiter<Wanted>>,
}

impl Queue {
    /// Returns true if there is no holder and no waiter.
    pub(super) fn is_empty(&self) -> bool {
        self.granted.is_empty() && self.waiting.is_empty()
    }

    /// Asks for a mode: what the owner holds becomes the supremum of both. With a signal it may wait.
    pub(super) fn request(&mut self, owner: OwnerId, mode: Mode, signal: Option<&Arc<Signal>>) -> Answer {
        let held = self.granted.iter_mut().find(|(holder, _)| *holder == owner).map(|(_, held)| *held);
        let mode = held.map_or(mode, |held| held.supremum(mode));
        let upgrade = held.is_some();
        if (upgrade || self.waiting.is_empty()) && self.goes_with_holders(owner, mode) {
            self.grant(owner, mode);
            return Answer::Granted;
        }
        let Some(signal) = signal else { return Answer::Refused };
        let place = if upgrade { self.first_newcomer() } else { self.waiting.len() };
        let request = Wanted { mode, upgrade };
        self.waiting.insert(place, Waiter { owner, request, signal: Arc::clone(signal) });
        Answer::Queued
    }

    /// Releases what the owner holds, and grants requests that are compatible now.
    pub(super) fn release(&mut self, owner: OwnerId) -> ToWake {
        if let Some(at) = self.granted.iter().position(|(holder, _)| *holder == owner) {
            self.granted.swap_remove(at);
        }
        self.let_in()
    }

    /// Takes a victim's request out of the queue, if it waits; what it holds already stays.
    pub(super) fn mark_for_abort(&mut self, owner: OwnerId) -> ToWake {
        let Some(at) = self.waiting.iter().position(|waiter| waiter.owner == owner) else {
            return ToWake::default();
        };
        let victim = self.waiting.remove(at);
        let mut to_wake = self.let_in();
        to_wake.settle(victim, Outcome::MarkedForAbort);
        to_wake
    }

    /// The waits-for edges that concern this waiter: see `WaitPlace::edges`.
    pub(super) fn edges(&self, waiter: OwnerId, report: &mut dyn FnMut(OwnerId, OwnerId)) {
        let Some(last) = self.waiting.iter().position(|other| other.owner == waiter) else { return };
        let first_newcomer = self.first_newcomer();
        if last < first_newcomer {
            return self.edges_to_holders(&self.waiting[last], report);
        }
        // No request is granted before those in front of it. All of them are named, not only the next one: an owner that has not
        // registered yet is left out of a search, and when it leaves as a victim, no search looks behind it.
        self.waiting[..last].iter().rev().for_each(|front| report(waiter, front.owner));
        for at in (first_newcomer..=last).rev() {
            let newcomer = &self.waiting[at];
            self.edges_to_holders(newcomer, report);
            // One is enough for the others, as this waiter leads to all that they lead to.
            if let Some(next) = at.checked_sub(1).filter(|_| at < last) {
                report(newcomer.owner, self.waiting[next].owner);
            }
        }
        let upgrades = &self.waiting[..first_newcomer];
        upgrades.iter().for_each(|upgrade| self.edges_to_holders(upgrade, report));
    }

    fn edges_to_holders(&self, waiter: &Waiter<Wanted>, report: &mut dyn FnMut(OwnerId, OwnerId)) {
        for &(holder, held) in &self.granted {
            if holder != waiter.owner && !held.is_compatible(waiter.request.mode) {
                report(waiter.owner, holder);
            }
        }
    }

    fn first_newcomer(&self) -> usize {
        self.waiting.partition_point(|waiter| waiter.request.upgrade)
    }

    fn goes_with_holders(&self, owner: OwnerId, mode: Mode) -> bool {
        self.granted.iter().all(|&(holder, held)| holder == owner || held.is_compatible(mode))
    }

    fn grant(&mut self, owner: OwnerId, mode: Mode) {
        match self.granted.iter_mut().find(|(holder, _)| *holder == owner) {
            Some((_, held)) => *held = mode,
            None => self.granted.push((owner, mode)),
        }
    }

    /// Every upgrade that is compatible with the holders; then newcomers, up to the first one that has to wait.
    fn let_in(&mut self) -> ToWake {
        let mut to_wake = ToWake::default();
        let mut at = 0;
        while at < self.waiting.len() {
            let Waiter { owner, request, .. } = self.waiting[at];
            if self.goes_with_holders(owner, request.mode) && (request.upgrade || at == 0) {
                self.grant(owner, request.mode);
                to_wake.settle(self.waiting.remove(at), Outcome::Granted);
            } else if request.upgrade {
                at += 1;
            } else {
                break;
            }
        }
        to_wake
    }
}

#[cfg(test)]
mod tests;
