//! The gap locks of one table: which key ranges are read, at which keys rows are inserted, and the waiters. Logic only: the
//! caller holds the mutex around it.
//!
//! First come, first served where it matters: a claim waits for conflicting ones that are held *or wait before it*, and
//! passes by all others. So a range that waits for a point is not overtaken by ever more points in it, and
//! claims in different places don't meet. Nor does an owner wait behind a waiter that waits for that owner: that would
//! be a deadlock of our own making, each time that a scan returns to where an insert already waits for its end.
//!
//! Points are ordered, so a range costs what lies in it; ranges are a list, of which a point looks at each: few
//! are held at one time, unless a transaction reads very many.
//!
//! Invariants: of two owners no conflicting claims are held; and no waiter remains that could be granted its claim.

use std::collections::BTreeSet;
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;

use super::key_range::{Claim, Key, KeyRange};
use super::lock_queue::Answer;
use super::name::OwnerId;
use super::signal::{Outcome, Signal, ToWake, Waiter};

/// See the module's description.
#[derive(Debug, Default)]
pub(super) struct RangeLocks {
    ranges: Vec<(OwnerId, KeyRange)>,
    points: BTreeSet<(Key, OwnerId)>,
    waiting: Vec<Waiter<Claim>>,
}

impl RangeLocks {
    /// Returns true if nothing is held and there is no waiter.
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty() && self.points.is_empty() && self.waiting.is_empty()
    }

    /// Asks for a claim. With a signal it may wait.
    pub(super) fn request(&mut self, owner: OwnerId, claim: Claim, signal: Option<&Arc<Signal>>) -> Answer {
        if !self.is_blocked(owner, &claim, self.waiting.len()) {
            self.grant(owner, claim);
            return Answer::Granted;
        }
        let Some(signal) = signal else { return Answer::Refused };
        self.waiting.push(Waiter { owner, request: claim, signal: Arc::clone(signal) });
        Answer::Queued
    }

    /// Releases these insert intentions of the owner, and grants claims that are compatible now.
    pub(super) fn release_points(&mut self, owner: OwnerId, keys: impl Iterator<Item = Key>) -> ToWake {
        for key in keys {
            self.points.remove(&(key, owner));
        }
        self.let_in()
    }

    /// Releases all ranges of the owner, and grants claims that are compatible now.
    pub(super) fn release_ranges(&mut self, owner: OwnerId) -> ToWake {
        self.ranges.retain(|(holder, _)| *holder != owner);
        self.let_in()
    }

    /// Takes a victim's claim out of the queue, if it waits.
    pub(super) fn mark_for_abort(&mut self, owner: OwnerId) -> ToWake {
        let Some(at) = self.waiting.iter().position(|waiter| waiter.owner == owner) else {
            return ToWake::default();
        };
        let victim = self.waiting.remove(at);
        let mut to_wake = self.let_in();
        to_wake.settle(victim, Outcome::MarkedForAbort);
        to_wake
    }

    /// Whom this waiter waits for: see `WaitPlace::edges`.
    pub(super) fn edges(&self, waiter: OwnerId, report: &mut dyn FnMut(OwnerId, OwnerId)) {
        let Some(at) = self.waiting.iter().position(|other| other.owner == waiter) else { return };
        let _ = self.each_blocker(waiter, &self.waiting[at].request, at, &mut |blocker| {
            report(waiter, blocker);
            ControlFlow::Continue(())
        });
    }

    fn is_blocked(&self, owner: OwnerId, claim: &Claim, ahead: usize) -> bool {
        self.each_blocker(owner, claim, ahead, &mut |_| ControlFlow::Break(())).is_break()
    }

    /// Returns true if the owner holds something that this claim of another one has to wait for.
    fn blocks(&self, owner: OwnerId, claim: &Claim) -> bool {
        match claim {
            Claim::InsertIntention(key) => {
                self.ranges.iter().any(|(holder, key_range)| *holder == owner && key_range.contains(key))
            }
            Claim::Range(key_range) => self.points.range(ends(key_range)).any(|(_, holder)| *holder == owner),
        }
    }

    /// Other owners whose claim conflicts and is held, or is one of the first `ahead` that wait.
    fn each_blocker(
        &self,
        owner: OwnerId,
        claim: &Claim,
        ahead: usize,
        found: &mut dyn FnMut(OwnerId) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match claim {
            Claim::InsertIntention(key) => {
                for (holder, key_range) in &self.ranges {
                    if *holder != owner && key_range.contains(key) {
                        found(*holder)?;
                    }
                }
            }
            Claim::Range(key_range) => {
                for (_, holder) in self.points.range(ends(key_range)) {
                    if *holder != owner {
                        found(*holder)?;
                    }
                }
            }
        }
        for other in &self.waiting[..ahead] {
            let conflicts = other.owner != owner && other.request.conflicts(claim);
            if conflicts && !self.blocks(owner, &other.request) {
                found(other.owner)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn grant(&mut self, owner: OwnerId, claim: Claim) {
        match claim {
            Claim::Range(key_range) => self.ranges.push((owner, key_range)),
            Claim::InsertIntention(key) => {
                self.points.insert((key, owner));
            }
        }
    }

    /// Grants all waiters without a blocker, in their order.
    fn let_in(&mut self) -> ToWake {
        let mut to_wake = ToWake::default();
        let mut at = 0;
        while at < self.waiting.len() {
            let Waiter { owner, request, .. } = &self.waiting[at];
            if self.is_blocked(*owner, request, at) {
                at += 1;
                continue;
            }
            let waiter = self.waiting.remove(at);
            self.grant(waiter.owner, waiter.request.clone());
            to_wake.settle(waiter, Outcome::Granted);
        }
        to_wake
    }
}

/// An end of a range among points.
type End = Bound<(Key, OwnerId)>;

/// The ends of a span among points of all owners.
fn ends(key_range: &KeyRange) -> (End, End) {
    let (low, high) = key_range.bounds();
    let low = match low {
        Bound::Included(key) => Bound::Included((key.clone(), OwnerId::LEAST)),
        Bound::Excluded(key) => Bound::Excluded((key.clone(), OwnerId::GREATEST)),
        Bound::Unbounded => Bound::Unbounded,
    };
    let high = match high {
        Bound::Included(key) => Bound::Included((key.clone(), OwnerId::GREATEST)),
        Bound::Excluded(key) => Bound::Excluded((key.clone(), OwnerId::LEAST)),
        Bound::Unbounded => Bound::Unbounded,
    };
    (low, high)
}

#[cfg(test)]
mod tests;
