//! The list of a database's sessions: the activity of each one, its canceller, and its pending notifications.
//!
//! # Invariants
//! A session is listed for as long as it exists. A notification reaches the sessions that listen on its channel at the
//! time of its delivery, in delivery order: that of the commits, as far as transactions can tell ([`Ticket`]). A session whose client never reads its notifications is terminated when
//! more than [`INBOX_BYTES_MAX`] are pending.
//!
//! # Concurrency
//! One mutex guards the list; each session has two more, for its texts and its inbox. Only a delivery holds several at
//! a time: that of the tickets, then the list's, then an inbox's; what sessions leave behind is added up under the
//! list's. Atomics are for display only, except `has_notifications`, which is stored after the message has been queued
//! and before the session's thread is woken.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use hashbrown::HashSet;
use parking_lot::{Condvar, Mutex};

use crate::error::SqlState;
use crate::session::TransactionStatus;
use crate::session::connection::Canceller;
use crate::session::latency::{Latency, LatencyReport};

/// The limit of a statement's text in `pg_stat_activity`, in bytes.
const QUERY_BYTES_MAX: usize = 1024;

/// The limit of notifications pending for one listener, in bytes of channel names and payloads.
const INBOX_BYTES_MAX: usize = 64 << 20;

/// A notification, as a listener receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The process id of the session that sent it.
    pub process_id: i32,
    /// The channel on which it was sent.
    pub channel: Arc<str>,
    /// The payload; empty if NOTIFY gave none.
    pub payload: Arc<str>,
}

/// Callbacks by which other threads signal the thread that owns a connection.
pub struct Signals {
    /// Wakes the thread: a notification is pending for the client.
    pub wake: Box<dyn Fn() + Send + Sync>,
    /// Terminates the connection as soon as its current statement has ended.
    pub terminate: Box<dyn Fn() + Send + Sync>,
}

/// The activity of a session: it runs a statement, or rests between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Running,
    Resting(TransactionStatus),
}

impl Doing {
    /// The value of `pg_stat_activity.state`.
    pub fn name(self) -> &'static str {
        match self {
            Doing::Running => "active",
            Doing::Resting(TransactionStatus::Idle) => "idle",
            Doing::Resting(TransactionStatus::InTransaction) => "idle in transaction",
            Doing::Resting(TransactionStatus::Failed) => "idle in transaction (aborted)",
        }
    }

    const ALL: [Doing; 4] = [
        Doing::Resting(TransactionStatus::Idle),
        Doing::Resting(TransactionStatus::InTransaction),
        Doing::Resting(TransactionStatus::Failed),
        Doing::Running,
    ];
}

/// The encryption of a session's connection to its client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// The version of TLS, as OpenSSL names it: `TLSv1.3`.
    pub version: &'static str,
    /// The suite.
    pub cipher: String,
    /// The length of its key.
    pub bits: i32,
}

/// The part of a session that other sessions can see.
pub(crate) struct Activity {
    pub number: i32,
    pub user: String,
    pub database: String,
    pub started: i64,
    process_id: AtomicI32,
    encryption: OnceLock<Encryption>,
    canceller: Canceller,
    signals: OnceLock<Signals>,
    doing: AtomicU8,
    statement_start: AtomicI64,
    state_change: AtomicI64,
    texts: Mutex<Texts>,
    has_notifications: AtomicBool,
    inbox: Mutex<Inbox>,
    /// The times of its statements.
    pub latency: Latency,
    /// The engine's session, by its number.
    pub engine_session: u64,
}

#[derive(Default)]
struct Texts {
    query: String,
    application: String,
}

#[derive(Default)]
struct Inbox {
    channels: HashSet<Arc<str>>,
    mail: Vec<Notification>,
    bytes: usize,
}

impl Activity {
    pub fn new(number: i32, user: &str, database: &str, started: i64, canceller: Canceller) -> Activity {
        Activity {
            number,
            user: user.to_string(),
            database: database.to_string(),
            started,
            process_id: AtomicI32::new(number),
            encryption: OnceLock::new(),
            signals: OnceLock::new(),
            doing: AtomicU8::new(0),
            statement_start: AtomicI64::new(started),
            state_change: AtomicI64::new(started),
            texts: Mutex::default(),
            has_notifications: AtomicBool::new(false),
            inbox: Mutex::default(),
            latency: Latency::default(),
            engine_session: canceller.session(),
            canceller,
        }
    }

    // Relaxed throughout: each of these values is only displayed, and none guards other data.

    pub fn process_id(&self) -> i32 {
        self.process_id.load(Ordering::Relaxed)
    }

    pub fn set_process_id(&self, process_id: i32) {
        self.process_id.store(process_id, Ordering::Relaxed);
    }

    pub fn set_encryption(&self, encryption: Option<Encryption>) {
        // Each connection has one owner, which says once what encrypts it.
        let _ = encryption.map(|encryption| self.encryption.set(encryption));
    }

    pub fn encryption(&self) -> Option<&Encryption> {
        self.encryption.get()
    }

    pub fn set_signals(&self, signals: Signals) {
        // Each connection has one owner, which sets the callbacks once.
        let _ = self.signals.set(signals);
    }

    pub fn set_application(&self, name: &str) {
        let mut texts = self.texts.lock();
        if texts.application != name {
            texts.application = name.to_string();
        }
    }

    /// Records the start of a statement.
    pub fn begin(&self, query: &str, start: i64) {
        let end = query.floor_char_boundary(QUERY_BYTES_MAX);
        let mut texts = self.texts.lock();
        texts.query.clear();
        texts.query.push_str(&query[..end]);
        drop(texts);
        self.statement_start.store(start, Ordering::Relaxed);
        self.state_change.store(start, Ordering::Relaxed);
        self.doing.store(Doing::ALL.len() as u8 - 1, Ordering::Relaxed);
    }

    /// Records that the session is idle: it waits for its client.
    pub fn rest(&self, status: TransactionStatus, now: impl FnOnce() -> i64) {
        let doing = Doing::ALL.iter().position(|doing| *doing == Doing::Resting(status)).unwrap_or(0) as u8;
        if self.doing.swap(doing, Ordering::Relaxed) != doing {
            self.state_change.store(now(), Ordering::Relaxed);
        }
    }

    pub fn doing(&self) -> Doing {
        Doing::ALL[usize::from(self.doing.load(Ordering::Relaxed)) % Doing::ALL.len()]
    }

    pub fn statement_start(&self) -> i64 {
        self.statement_start.load(Ordering::Relaxed)
    }

    pub fn state_change(&self) -> i64 {
        self.state_change.load(Ordering::Relaxed)
    }

    /// The last statement's text, and `application_name`.
    pub fn texts(&self) -> (String, String) {
        let texts = self.texts.lock();
        (texts.query.clone(), texts.application.clone())
    }

    /// Cancels the statement in progress, or terminates the whole session.
    pub fn signal(&self, terminate: bool) {
        if let Some(signals) = self.signals.get().filter(|_| terminate) {
            (signals.terminate)();
        }
        self.canceller.cancel();
    }

    pub fn listen(&self, channel: &str) {
        self.inbox.lock().channels.insert(channel.into());
    }

    /// Stops listening on a channel, or on all channels if `None`.
    pub fn unlisten(&self, channel: Option<&str>) {
        let mut inbox = self.inbox.lock();
        match channel {
            Some(channel) => drop(inbox.channels.remove(channel)),
            None => inbox.channels.clear(),
        }
    }

    pub fn channels(&self) -> Vec<Arc<str>> {
        let mut channels: Vec<_> = self.inbox.lock().channels.iter().cloned().collect();
        channels.sort_unstable();
        channels
    }

    fn deliver(&self, notifications: &[Notification]) {
        let mut inbox = self.inbox.lock();
        let Inbox { channels, mail, bytes } = &mut *inbox;
        let before = mail.len();
        mail.extend(notifications.iter().filter(|it| channels.contains(&it.channel)).cloned());
        if mail.len() == before {
            return;
        }
        *bytes += mail[before..].iter().map(|it| it.channel.len() + it.payload.len()).sum::<usize>();
        let is_full = *bytes > INBOX_BYTES_MAX;
        if is_full {
            (*mail, *bytes) = (Vec::new(), 0);
        }
        drop(inbox);
        // Release: pairs with the swap in `take_mail`, after which the owner sees the message queued above.
        self.has_notifications.store(true, Ordering::Release);
        match self.signals.get() {
            Some(signals) if is_full => (signals.terminate)(),
            Some(signals) => (signals.wake)(),
            None => (),
        }
    }

    /// Removes and returns the notifications that have arrived since the last call.
    pub fn take_mail(&self) -> Vec<Notification> {
        // Acquire: pairs with the store in `deliver`. The plain load comes first because there is usually nothing to deliver.
        if !self.has_notifications.load(Ordering::Relaxed)
            || !self.has_notifications.swap(false, Ordering::Acquire)
        {
            return Vec::new();
        }
        let mut inbox = self.inbox.lock();
        inbox.bytes = 0;
        std::mem::take(&mut inbox.mail)
    }
}

/// The place of a committing transaction's notifications among those of others: they are delivered in the order of tickets.
///
/// A transaction has its ticket before it commits, and after its last read. So one that has read what another has
/// written has the later ticket, and a listener sees its notifications later. Dropped, it delivers nothing, and lets the
/// following ones pass.
pub(crate) struct Ticket {
    sessions: Arc<Sessions>,
    number: u64,
}

impl Ticket {
    pub fn new(sessions: &Arc<Sessions>) -> Ticket {
        let mut committing = sessions.committing.lock();
        // Relaxed: the mutex is held.
        let number = sessions.tickets.fetch_add(1, Ordering::Relaxed);
        committing.insert(number, None);
        Ticket { sessions: sessions.clone(), number }
    }

    /// The transaction has committed: returns once its notifications are delivered. Those ahead of it are about to be, since
    /// their transactions wait for nothing but the end of their commits.
    pub fn deliver(self, notifications: Vec<Notification>) {
        let sessions = self.sessions.clone();
        let mut committing = sessions.committing.lock();
        committing.insert(self.number, Some(notifications));
        sessions.deliver_ready(&mut committing);
        sessions.delivered.wait_while(&mut committing, |committing| committing.contains_key(&self.number));
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut committing = self.sessions.committing.lock();
        if committing.remove(&self.number).is_some() {
            self.sessions.deliver_ready(&mut committing);
        }
    }
}

/// All sessions of a database.
#[derive(Default)]
pub(crate) struct Sessions {
    all: Mutex<BTreeMap<i32, Arc<Activity>>>,
    /// The transactions with notifications that are committing, in order; each with its notifications once it has
    /// committed.
    committing: Mutex<BTreeMap<u64, Option<Vec<Notification>>>>,
    /// Notified when transactions have left `committing`.
    delivered: Condvar,
    /// The number of tickets given so far.
    tickets: AtomicU64,
    /// The statements of sessions that have ended.
    ended: Mutex<LatencyReport>,
    /// The number of failed statements by SQLSTATE.
    errors: Mutex<BTreeMap<SqlState, u64>>,
}

impl Sessions {
    pub fn enter(&self, activity: Arc<Activity>) {
        self.all.lock().insert(activity.number, activity);
    }

    pub fn leave(&self, number: i32) {
        let mut all = self.all.lock();
        if let Some(activity) = all.remove(&number) {
            activity.latency.add_to(&mut self.ended.lock());
        }
    }

    /// The times of all statements, those of sessions that have ended, too.
    pub fn latency(&self) -> LatencyReport {
        let all = self.all.lock();
        let mut sum = self.ended.lock().clone();
        all.values().for_each(|activity| activity.latency.add_to(&mut sum));
        sum
    }

    /// Counts a statement that has failed.
    pub fn count_error(&self, state: SqlState) {
        *self.errors.lock().entry(state).or_insert(0) += 1;
    }

    /// The number of failed statements by SQLSTATE.
    pub fn errors(&self) -> BTreeMap<SqlState, u64> {
        self.errors.lock().clone()
    }

    /// All sessions, the oldest first.
    pub fn list(&self) -> Vec<Arc<Activity>> {
        self.all.lock().values().cloned().collect()
    }

    /// The number of sessions of a user.
    pub fn count_of(&self, user: &str) -> usize {
        self.all.lock().values().filter(|activity| activity.user == user).count()
    }

    pub fn by_process(&self, process_id: i32) -> Option<Arc<Activity>> {
        self.all.lock().values().find(|activity| activity.process_id() == process_id).cloned()
    }

    /// Delivers, to all sessions that listen on their channels, what no earlier transaction precedes any more.
    fn deliver_ready(&self, committing: &mut BTreeMap<u64, Option<Vec<Notification>>>) {
        while let Some(first) = committing.first_entry()
            && first.get().is_some()
        {
            let notifications = first.remove().unwrap_or_default();
            for activity in self.all.lock().values() {
                activity.deliver(&notifications);
            }
        }
        self.delivered.notify_all();
    }
}
