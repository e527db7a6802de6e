//! The history of definitions: which things each schema change has changed, for transactions that have used them before.
//!
//! # Invariants
//! - A position is the number of changes so far. A catalog knows its own: a look-up in it sees all changes up to there.
//! - Changes are appended behind the engine's closed gate, together with their catalog.
//! - Of changes that are forgotten it is assumed that they have changed everything.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashSet;
use parking_lot::RwLock;

/// The limit of changes that are remembered.
const CHANGES_MAX: usize = 4_096;

/// The things that one schema change has changed, and whether statements that are under way may depend on one of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changed {
    /// Their numbers ([`Thing::number`](super::uses::Thing::number)).
    pub things: HashSet<u64>,
    /// False if all of them are new, and could not have been meant by a statement that succeeds.
    pub concerns_others: bool,
}

struct Change {
    position: u64,
    /// The epoch of the commit.
    epoch: u64,
    things: HashSet<u64>,
}

/// The last changes.
#[derive(Default)]
pub(crate) struct History {
    /// The number of changes, for a look without the lock.
    position: AtomicU64,
    changes: RwLock<VecDeque<Change>>,
}

impl History {
    /// The number of changes so far.
    pub(crate) fn position(&self) -> u64 {
        // Acquire pairs with the release in `append`: a thread that sees a position finds its change.
        self.position.load(Ordering::Acquire)
    }

    /// Appends a change of a commit of this epoch. Its position.
    pub(crate) fn append(&self, epoch: u64, things: HashSet<u64>) -> u64 {
        let mut changes = self.changes.write();
        if changes.len() >= CHANGES_MAX {
            changes.pop_front();
        }
        // Relaxed: changes are appended under the lock.
        let position = self.position.load(Ordering::Relaxed) + 1;
        changes.push_back(Change { position, epoch, things });
        // Release pairs with the acquire in `position`.
        self.position.store(position, Ordering::Release);
        position
    }

    /// Returns true if nothing has changed since it was looked up. `looked_up`: the position at which a thing was
    /// looked up, `None` if it was not; `first`: the least of these positions.
    pub(crate) fn are_unchanged(&self, first: u64, looked_up: impl Fn(u64) -> Option<u64>) -> bool {
        if self.position() == first {
            return true;
        }
        let changes = self.changes.read();
        // The change behind the first look-up must be known.
        if changes.front().is_none_or(|change| change.position > first + 1) {
            return false;
        }
        let later = changes.iter().rev().take_while(|change| change.position > first);
        let mut met = later.flat_map(|change| change.things.iter().map(|thing| (change.position, *thing)));
        !met.any(|(position, thing)| looked_up(thing).is_some_and(|looked_up| looked_up < position))
    }

    /// Returns true if each thing was looked up as it was at the end of an epoch: like
    /// [`are_unchanged`](Self::are_unchanged), for reads as of that moment.
    pub(crate) fn are_as_of(&self, epoch: u64, first: u64, looked_up: impl Fn(u64) -> Option<u64>) -> bool {
        let changes = self.changes.read();
        if changes.front().is_some_and(|change| change.position > first + 1 && change.epoch > epoch) {
            return false;
        }
        let may_matter = |change: &&Change| change.position > first || change.epoch > epoch;
        let differs = |change: &Change, thing: &u64| {
            looked_up(*thing).is_some_and(|at| (at >= change.position) != (change.epoch <= epoch))
        };
        let mut later = changes.iter().rev().take_while(may_matter);
        !later.any(|change| change.things.iter().any(|thing| differs(change, thing)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> History {
        let history = History::default();
        history.append(10, HashSet::from([1, 2]));
        history.append(20, HashSet::from([3]));
        history
    }

    #[test]
    fn a_thing_that_changed_after_its_look_up_is_found() {
        let history = history();
        let at = |position| move |thing| (thing == 3).then_some(position);
        assert!(!history.are_unchanged(0, at(0)));
        assert!(!history.are_unchanged(1, at(1)));
        assert!(history.are_unchanged(2, at(2)));
        assert!(history.are_unchanged(0, |thing| (thing == 4).then_some(0)));
    }

    #[test]
    fn a_snapshot_wants_definitions_of_its_moment() {
        let history = history();
        let at = |position| move |thing| (thing == 3).then_some(position);
        // The change at position 2 is of epoch 20.
        assert!(history.are_as_of(15, 1, at(1)));
        assert!(!history.are_as_of(15, 2, at(2)));
        assert!(!history.are_as_of(20, 1, at(1)));
        assert!(history.are_as_of(20, 2, at(2)));
    }

    #[test]
    fn what_is_forgotten_counts_as_changed() {
        let history = History::default();
        for epoch in 0..CHANGES_MAX as u64 + 2 {
            history.append(epoch, HashSet::from([1]));
        }
        assert!(!history.are_unchanged(1, |_| None));
        assert!(history.are_unchanged(2, |_| None));
    }
}
