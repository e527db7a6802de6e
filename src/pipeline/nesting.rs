//! Knows whether this thread is inside a transaction's body, where calls, waits and schema changes are errors.

use std::cell::Cell;

use crate::error::{Error, Result};

thread_local! {
    static INSIDE: Cell<Nesting> = const { Cell::new(Nesting::Outside) };
}

#[derive(Clone, Copy, PartialEq)]
enum Nesting {
    Outside,
    Inside,
    /// Inside, and something that the body has called needs it to be retried.
    InsideConflict,
}

/// Says that this thread is inside a body, for as long as it lives.
pub(crate) struct Inside;

impl Inside {
    /// Enters a body.
    #[inline]
    pub(crate) fn enter() -> Inside {
        INSIDE.set(Nesting::Inside);
        Inside
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        INSIDE.set(Nesting::Outside);
    }
}

/// Refuses what cannot be done inside a body.
///
/// # Errors
/// [`Error::Nested`].
#[inline]
pub(crate) fn check(what: &'static str) -> Result<()> {
    if INSIDE.get() == Nesting::Outside { Ok(()) } else { Err(Error::Nested { what }) }
}

/// The error by which a body is retried, from what has no attempt at hand. It is remembered: a body with an error type of its own
/// may not show it.
#[cold]
pub(crate) fn conflict() -> Error {
    INSIDE.set(Nesting::InsideConflict);
    Error::Conflict
}

/// Returns true if the running body has met a [`conflict`].
pub(crate) fn has_met_conflict() -> bool {
    INSIDE.get() == Nesting::InsideConflict
}
