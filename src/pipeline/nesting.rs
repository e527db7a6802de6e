//! Knows whether this thread is inside a transaction's body, where calls, waits and schema changes are errors.

use std::cell::Cell;

use crate::error::{Error, Result};

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Says that this thread is inside a body, for as long as it lives.
pub(crate) struct Inside;

impl Inside {
    /// Enters a body.
    #[inline]
    pub(crate) fn enter() -> Inside {
        INSIDE.set(true);
        Inside
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        INSIDE.set(false);
    }
}

/// Refuses what cannot be done inside a body.
///
/// # Errors
/// [`Error::Nested`].
#[inline]
pub(crate) fn check(what: &'static str) -> Result<()> {
    if INSIDE.get() { Err(Error::Nested { what }) } else { Ok(()) }
}
