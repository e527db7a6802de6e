//! The sessions of a database: what each is doing, how to end it, and the notifications that wait for it.
//!
//! # Invariants
//! A session is listed from its beginning to its end. Notifications reach the sessions that listen when they are
//! delivered, in the order of delivery; a session whose client never takes them is ended at [`INBOX_BYTES_MAX`].
//!
//! # Concurrency
//! One mutex guards the list, one each session's texts; neither is held while the other is acquired, but for a
//! delivery, which acquires the list's first. Atomics are read for display only, except `has_mail`, whose store follows
//! the message and precedes the wake-up.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use hashbrown::HashSet;
use parking_lot::Mutex;

use crate::session::TransactionStatus;
use crate::session::connection::Canceller;

/// The longest text of a statement that `pg_stat_activity` shows, in bytes.
const QUERY_BYTES_MAX: usize = 1024;

/// The most that waits for a listener, in bytes of channels and payloads.
const INBOX_BYTES_MAX: usize = 64 << 20;

/// A notification, as a listener receives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The process id of the session that sent it.
    pub process_id: i32,
    /// The channel that it came by.
    pub channel: Arc<str>,
    /// Its text; empty if it has none.
    pub payload: Arc<str>,
}

/// How the owner of a connection is reached from other threads.
pub struct Signals {
    /// Something waits for the client: a notification.
    pub wake: Box<dyn Fn() + Send + Sync>,
    /// The connection is to end as soon as its statement has.
    pub terminate: Box<dyn Fn() + Send + Sync>,
}

/// What a session is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Running,
    Resting(TransactionStatus),
}

impl Doing {
    /// As `pg_stat_activity.state` names it.
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

/// A session, as others see it.
pub(crate) struct Activity {
    pub number: i32,
    pub user: String,
    pub database: String,
    pub started: i64,
    process_id: AtomicI32,
    canceller: Canceller,
    signals: OnceLock<Signals>,
    doing: AtomicU8,
    statement_start: AtomicI64,
    state_change: AtomicI64,
    texts: Mutex<Texts>,
    has_mail: AtomicBool,
    inbox: Mutex<Inbox>,
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
            canceller,
            signals: OnceLock::new(),
            doing: AtomicU8::new(0),
            statement_start: AtomicI64::new(started),
            state_change: AtomicI64::new(started),
            texts: Mutex::default(),
            has_mail: AtomicBool::new(false),
            inbox: Mutex::default(),
        }
    }

    // Relaxed throughout: each of these values is shown by itself, and guards no other.

    pub fn process_id(&self) -> i32 {
        self.process_id.load(Ordering::Relaxed)
    }

    pub fn set_process_id(&self, process_id: i32) {
        self.process_id.store(process_id, Ordering::Relaxed);
    }

    pub fn set_signals(&self, signals: Signals) {
        // A connection has one owner, which sets them once.
        let _ = self.signals.set(signals);
    }

    pub fn set_application(&self, name: &str) {
        let mut texts = self.texts.lock();
        if texts.application != name {
            texts.application = name.to_string();
        }
    }

    /// A statement begins.
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

    /// The session waits for its client.
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

    /// Ends the statement in progress, or the whole session.
    pub fn signal(&self, terminate: bool) {
        if let Some(signals) = self.signals.get().filter(|_| terminate) {
            (signals.terminate)();
        }
        self.canceller.cancel();
    }

    pub fn listen(&self, channel: &str) {
        self.inbox.lock().channels.insert(channel.into());
    }

    /// None: all channels.
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

    fn post(&self, notifications: &[Notification]) {
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
        // Release: partner of the swap in `take_mail`, by which the owner sees the message above.
        self.has_mail.store(true, Ordering::Release);
        match self.signals.get() {
            Some(signals) if is_full => (signals.terminate)(),
            Some(signals) => (signals.wake)(),
            None => (),
        }
    }

    /// The notifications that have come since the last call.
    pub fn take_mail(&self) -> Vec<Notification> {
        // Acquire: partner of the store in `post`. Looked at first, since there is none as a rule.
        if !self.has_mail.load(Ordering::Relaxed) || !self.has_mail.swap(false, Ordering::Acquire) {
            return Vec::new();
        }
        let mut inbox = self.inbox.lock();
        inbox.bytes = 0;
        std::mem::take(&mut inbox.mail)
    }
}

/// All sessions of a database.
#[derive(Default)]
pub(crate) struct Sessions {
    all: Mutex<BTreeMap<i32, Arc<Activity>>>,
    /// Held by a commit with notifications until these are delivered: their order is that of the commits.
    pub order: Mutex<()>,
}

impl Sessions {
    pub fn enter(&self, activity: Arc<Activity>) {
        self.all.lock().insert(activity.number, activity);
    }

    pub fn leave(&self, number: i32) {
        self.all.lock().remove(&number);
    }

    /// Those there are, the oldest first.
    pub fn list(&self) -> Vec<Arc<Activity>> {
        self.all.lock().values().cloned().collect()
    }

    pub fn by_process(&self, process_id: i32) -> Option<Arc<Activity>> {
        self.all.lock().values().find(|activity| activity.process_id() == process_id).cloned()
    }

    /// Gives notifications to all sessions that listen.
    pub fn deliver(&self, notifications: &[Notification]) {
        for activity in self.all.lock().values() {
            activity.post(notifications);
        }
    }
}
