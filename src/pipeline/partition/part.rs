//! What a part of a call has buffered and read: it goes from thread to thread while the call is suspended.
//!
//! An attempt lives on one thread; between two phases only this is left of it. It is put into the next attempt, on
//! whichever executor that is, and the parts of one call are joined for its commit. What it points to stays in memory,
//! because the executors that found it keep a pin for the call ([`pins`](super::pins)); and the parts of one call have
//! written different records, because each has written its own executor's.

use std::mem::swap;

use crate::error::Result;
use crate::protocol::attempt::Attempt;
use crate::storage::read_set::ReadSet;
use crate::storage::word::Stamp;
use crate::storage::workspace::{Placeholder, Workspace};
use crate::storage::write_set::WriteSet;

/// See the module's description.
#[derive(Default)]
pub(super) struct Part {
    writes: WriteSet,
    placeholders: Vec<Placeholder>,
    reads: ReadSet,
    seen: Stamp,
}

impl Part {
    /// Exchanges it with what a fresh attempt has, or gives it back what it has become.
    fn exchange(&mut self, attempt: &Attempt<'_>) {
        let mut workspace = attempt.workspace().borrow_mut();
        swap(&mut workspace.writes, &mut self.writes);
        swap(&mut workspace.placeholders, &mut self.placeholders);
        swap(&mut **attempt.reads().borrow_mut(), &mut self.reads);
    }

    /// Goes on in this fresh attempt.
    pub(super) fn put_into(mut self, attempt: &Attempt<'_>) -> Part {
        self.exchange(attempt);
        attempt.highest_seen().set(self.seen);
        // What the attempt's own memory was, for its turn.
        self
    }

    /// Is suspended: the attempt gets its own memory back.
    pub(super) fn take_from(mut self, attempt: &Attempt<'_>) -> Part {
        self.exchange(attempt);
        self.seen = attempt.seen();
        self
    }

    /// Its call has ended: leaves its placeholders to the workspace, where they are collected.
    pub(super) fn leave_placeholders(mut self, workspace: &mut Workspace) {
        workspace.placeholders.append(&mut self.placeholders);
    }

    /// Joins the parts of one call.
    ///
    /// # Errors
    /// Together they are too large for one transaction; they are joined all the same, as far as they can be.
    pub(super) fn join(parts: impl IntoIterator<Item = Part>) -> (Part, Result<()>) {
        let mut parts = parts.into_iter();
        let mut joined = parts.next().unwrap_or_default();
        let mut fits = Ok(());
        for mut part in parts {
            if fits.is_ok() {
                joined.writes.append(&part.writes);
                fits = joined.writes.check_size();
            }
            joined.placeholders.append(&mut part.placeholders);
            joined.reads.append(&mut part.reads);
            joined.seen = joined.seen.max(part.seen);
        }
        (joined, fits)
    }
}
