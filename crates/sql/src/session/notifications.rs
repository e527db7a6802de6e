//! LISTEN, UNLISTEN, NOTIFY and `pg_notify`: effects that take place when the transaction commits.
//!
//! # Invariants
//! Nothing of a transaction, or of a part of it that was rolled back to a savepoint, is delivered unless it commits. Equal
//! notifications of one transaction are delivered once. An attempt of a statement begins without what the attempt
//! before has notified. What transactions notify is delivered in the order in which they commit ([`Ticket`]). What is gathered
//! until the commit counts in the session's memory.

use std::sync::Arc;

use hashbrown::HashSet;

use crate::error::{Result, SqlError, SqlState};
use crate::run::memory::Memory;
use crate::session::SessionEnvironment;
use crate::session::connection::Connection;
use crate::session::sessions::{Notification, Signals, Ticket};
use crate::session::standby::check_no_standby;

/// The longest payload, in bytes, as in PostgreSQL.
const PAYLOAD_BYTES_MAX: usize = 7999;

/// The longest name of a channel, in bytes.
const CHANNEL_BYTES_MAX: usize = 63;

/// The approximate memory of a notification beside its texts.
const NOTIFICATION_BYTES: usize = 128;

enum Effect {
    Listen(Arc<str>),
    Unlisten(Option<Arc<str>>),
    Notify(Arc<str>, Arc<str>),
}

/// The effects that the open transaction will have once it commits.
#[derive(Default)]
pub(crate) struct Pending {
    effects: Vec<Effect>,
    /// The notifications among the effects: channels and payloads.
    notified: HashSet<(Arc<str>, Arc<str>)>,
    /// The number of effects when the statement began.
    of_statement: usize,
    /// The number of effects when each savepoint was set.
    of_savepoints: Vec<usize>,
}

impl Pending {
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// Returns true if the transaction notifies others.
    pub fn notifies(&self) -> bool {
        !self.notified.is_empty()
    }

    pub fn begin_statement(&mut self) {
        self.of_statement = self.effects.len();
    }

    /// Begins another attempt of the statement.
    pub fn begin_attempt(&mut self) {
        self.truncate(self.of_statement);
    }

    /// Forgets all effects but the first `length`.
    fn truncate(&mut self, length: usize) {
        for effect in self.effects.drain(length.min(self.effects.len())..) {
            if let Effect::Notify(channel, payload) = effect {
                self.notified.remove(&(channel, payload));
            }
        }
    }

    pub fn savepoint(&mut self) {
        self.of_savepoints.push(self.effects.len());
    }

    /// Returns to the savepoint at this place, which stays.
    pub fn rollback_to(&mut self, place: usize) {
        self.of_savepoints.truncate(place + 1);
        self.truncate(self.of_savepoints.last().copied().unwrap_or(0));
    }

    pub fn release(&mut self, place: usize) {
        self.of_savepoints.truncate(place);
    }

    /// Adds a notification and returns the memory that it uses, which is 0 if there is an equal one.
    ///
    /// # Errors
    /// 22023 for a channel without a name, or a text that is too long.
    fn notify(&mut self, channel: &str, payload: &str) -> Result<usize> {
        let refused = |message| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        if channel.is_empty() {
            return refused("channel name cannot be empty");
        }
        if channel.len() > CHANNEL_BYTES_MAX {
            return refused("channel name too long");
        }
        if payload.len() > PAYLOAD_BYTES_MAX {
            return refused("payload string too long");
        }
        let (channel, payload): (Arc<str>, Arc<str>) = (channel.into(), payload.into());
        if !self.notified.insert((channel.clone(), payload.clone())) {
            return Ok(0);
        }
        let bytes = channel.len() + payload.len() + NOTIFICATION_BYTES;
        self.effects.push(Effect::Notify(channel, payload));
        Ok(bytes)
    }
}

impl SessionEnvironment {
    /// Releases what ends with a transaction, and delivers what it has notified.
    pub(super) fn transaction_ended(&mut self, committed: bool) {
        self.acquired.clear();
        self.deferred.clear();
        self.restarted.clear();
        self.transaction_number = None;
        self.shared.advisory.release_all(self.number, true);
        self.end_notifications(committed);
        self.settings.end_transaction(committed);
    }

    /// Adds a notification, which is delivered when the transaction commits.
    ///
    /// # Errors
    /// 22023 for a channel without a name, or a text that is too long; 53200.
    pub(super) fn notify_at_commit(&mut self, channel: &str, payload: &str) -> Result<()> {
        check_no_standby(&self.shared, "NOTIFY")?;
        let bytes = self.pending.notify(channel, payload)?;
        self.gathered.charge(bytes)
    }

    /// The transaction is about to commit: its notifications have their place behind those of transactions that it may depend
    /// on, and ahead of those that may depend on it.
    pub(super) fn order_notifications(&mut self) {
        if self.pending.notifies() {
            self.ticket = Some(Ticket::new(&self.shared.sessions));
        }
    }

    /// Carries out what was to take effect with a commit.
    pub(super) fn end_notifications(&mut self, committed: bool) {
        let ticket = self.ticket.take();
        if self.gathered.used() > 0 {
            self.gathered = Memory::of_session(usize::MAX, self.memory.clone());
            // An own setting stays; one that was set for the transaction has been restored, or is about to be.
            let _ = self.gathered.charge(self.settings.own_bytes());
        }
        if self.pending.is_empty() {
            return;
        }
        let pending = std::mem::take(&mut self.pending);
        let mut notifications = Vec::new();
        let process_id = self.process_id;
        for effect in pending.effects.into_iter().filter(|_| committed) {
            match effect {
                Effect::Listen(channel) => self.activity.listen(&channel),
                Effect::Unlisten(channel) => self.activity.unlisten(channel.as_deref()),
                Effect::Notify(channel, payload) => {
                    notifications.push(Notification { process_id, channel, payload });
                }
            }
        }
        if !notifications.is_empty() {
            ticket.unwrap_or_else(|| Ticket::new(&self.shared.sessions)).deliver(notifications);
        }
    }
}

impl Connection {
    pub(super) fn listen(&mut self, channel: &str) -> Result<&'static str> {
        self.check_no_standby("LISTEN")?;
        self.environment.pending.effects.push(Effect::Listen(channel.into()));
        Ok("LISTEN")
    }

    pub(super) fn unlisten(&mut self, channel: Option<&str>) -> &'static str {
        self.environment.pending.effects.push(Effect::Unlisten(channel.map(Arc::from)));
        "UNLISTEN"
    }

    /// The notifications that the client is to receive: none inside of a block, since clients expect them between
    /// transactions.
    pub fn take_notifications(&mut self) -> Vec<Notification> {
        if self.is_idle() { self.activity.take_mail() } else { Vec::new() }
    }

    /// Sets the callbacks by which other sessions reach the thread that owns this connection: for notifications, and
    /// for `pg_terminate_backend`. Set once.
    pub fn set_signals(&mut self, signals: Signals) {
        self.activity.set_signals(signals);
    }

    /// The connection waits for its client.
    pub fn rest(&mut self) {
        self.environment.forget_large_values();
        self.activity.rest(self.status(), crate::session::environment::now);
    }
}
