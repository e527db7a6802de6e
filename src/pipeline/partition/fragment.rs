//! A fragment of a transaction: what the actions at one executor have buffered and read.
//!
//! An attempt object lives on one thread; between two phases only the fragment is left of it. The fragment is put into the
//! next attempt object, and the fragments of a transaction are joined for its commit.
//!
//! # Invariants
//! - What a fragment points to stays in memory, because the executors that found it keep a pin for the transaction
//!   ([`pins`](super::pins)).
//! - A transaction commits in the generation of the schema in which all of it ran.
//! - The fragments of a transaction have written different records, because each executor has written its own.

use std::mem::swap;

use crate::error::Result;
use crate::protocol::attempt::Attempt;
use crate::storage::read_set::ReadSet;
use crate::storage::word::Stamp;
use crate::storage::workspace::{Placeholder, Workspace};
use crate::storage::write_set::WriteSet;

/// The fragment; see the module's description.
#[derive(Default)]
pub(super) struct Fragment {
    writes: WriteSet,
    placeholders: Vec<Placeholder>,
    reads: ReadSet,
    seen: Stamp,
    /// The oldest generation of the schema in which a part of it ran, if any.
    generation: Option<u64>,
}

impl Fragment {
    fn exchange(&mut self, attempt: &Attempt<'_>) {
        let mut workspace = attempt.workspace().borrow_mut();
        swap(&mut workspace.writes, &mut self.writes);
        swap(&mut workspace.placeholders, &mut self.placeholders);
        swap(&mut **attempt.reads().borrow_mut(), &mut self.reads);
    }

    /// Puts the fragment into a new attempt. Returns the attempt's own, empty memory.
    pub(super) fn put_into(mut self, attempt: &Attempt<'_>) -> Fragment {
        self.exchange(attempt);
        attempt.highest_seen().set(self.seen);
        attempt.age(self.generation.take());
        self
    }

    /// Takes the fragment out of an attempt; `self` is the attempt's own memory.
    pub(super) fn take_from(mut self, attempt: &Attempt<'_>) -> Fragment {
        self.exchange(attempt);
        self.seen = attempt.seen();
        self.generation = Some(attempt.generation());
        self
    }

    /// Moves the placeholders of a transaction that has ended to the workspace, which collects them.
    pub(super) fn leave_placeholders(mut self, workspace: &mut Workspace) {
        workspace.placeholders.append(&mut self.placeholders);
    }

    /// Joins the fragments of a transaction.
    ///
    /// # Errors
    /// Together they are too large for one transaction; they are joined all the same, as far as possible.
    pub(super) fn join(fragments: impl IntoIterator<Item = Fragment>) -> (Fragment, Result<()>) {
        let mut fragments = fragments.into_iter();
        let mut joined = fragments.next().unwrap_or_default();
        let mut fits = Ok(());
        for mut fragment in fragments {
            if fits.is_ok() {
                joined.writes.append(&fragment.writes);
                fits = joined.writes.check_size();
            }
            joined.placeholders.append(&mut fragment.placeholders);
            joined.reads.append(&mut fragment.reads);
            joined.seen = joined.seen.max(fragment.seen);
            joined.generation = older(joined.generation, fragment.generation);
        }
        (joined, fits)
    }
}

/// The older one of two generations, if there are any. That of a part that must not commit is the oldest, as in [`Attempt::age`].
fn older(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min_by_key(|generation| generation % u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_fragments_are_as_old_as_the_oldest_and_must_not_commit_if_one_must_not() {
        let joined = |generations: [Option<u64>; 2]| {
            let fragments = generations.map(|generation| Fragment { generation, ..Fragment::default() });
            Fragment::join(fragments).0.generation
        };
        assert_eq!(joined([None, None]), None);
        assert_eq!(joined([Some(7), Some(6)]), Some(6));
        assert_eq!(joined([None, Some(6)]), Some(6));
        let never = Some(u64::MAX);
        assert_eq!((joined([never, Some(6)]), joined([Some(6), never])), (never, never));
    }
}
