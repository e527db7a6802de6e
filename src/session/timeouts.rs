//! How long a session may wait, run a transaction, and pause inside one.

use std::time::Duration;

use super::Session;
use crate::error::Result;

/// How long a session may take.
#[derive(Clone, Copy, Default)]
pub(super) struct Timeouts {
    pub(super) wait: Option<Duration>,
    pub(super) transaction: Option<Duration>,
    pub(super) idle: Option<Duration>,
}

impl Session {
    /// How long an access waits for what another session has reserved; none, the default: as long as it takes.
    ///
    /// # Errors
    /// [`Error::ThreadRefused`](crate::Error::ThreadRefused): the thread that looks at timeouts cannot be started.
    pub fn set_wait_timeout(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.start_timer(timeout)?;
        self.timeouts.wait = timeout;
        Ok(())
    }

    /// How long a transaction may take, from its beginning; none, the default: as long as it likes. It applies to
    /// those that begin later.
    ///
    /// # Errors
    /// [`Error::ThreadRefused`](crate::Error::ThreadRefused): the thread that looks at timeouts cannot be started.
    pub fn set_transaction_timeout(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.start_timer(timeout)?;
        self.timeouts.transaction = timeout;
        Ok(())
    }

    /// How long the session may pause inside a transaction; none, the default: as long as it likes. It applies from
    /// the next call on.
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
