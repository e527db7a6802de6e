//! Limits on the time that a session may wait, run a transaction, and pause inside one.

use std::time::Duration;

use super::Session;
use crate::error::Result;

/// The limits on a session's time.
#[derive(Clone, Copy, Default)]
pub(super) struct Timeouts {
    pub(super) wait: Option<Duration>,
    pub(super) transaction: Option<Duration>,
    pub(super) idle: Option<Duration>,
}

impl Session {
    /// Limits the wait of an access for a row that another session has reserved; `None`, the default: no limit.
    ///
    /// # Errors
    /// [`Error::ThreadRefused`](crate::Error::ThreadRefused): the thread that looks at timeouts cannot be started.
    pub fn set_wait_timeout(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.start_timer(timeout)?;
        self.timeouts.wait = timeout;
        Ok(())
    }

    /// Limits the time of a transaction, from its beginning; `None`, the default: no limit. It applies to
    /// transactions that begin later.
    ///
    /// # Errors
    /// [`Error::ThreadRefused`](crate::Error::ThreadRefused): the thread that looks at timeouts cannot be started.
    pub fn set_transaction_timeout(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.start_timer(timeout)?;
        self.timeouts.transaction = timeout;
        Ok(())
    }

    /// Limits the pause of the session inside a transaction; `None`, the default: no limit. It applies from the next
    /// call on.
    ///
    /// # Errors
    /// [`Error::ThreadRefused`](crate::Error::ThreadRefused): the thread that looks at timeouts cannot be started.
    pub fn set_idle_timeout(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.start_timer(timeout)?;
        self.timeouts.idle = timeout;
        Ok(())
    }

    fn start_timer(&self, timeout: Option<Duration>) -> Result<()> {
        if timeout.is_some() { self.shared.start_session_timer() } else { Ok(()) }
    }
}
