//! Notices on their way to a session's client.
//!
//! Notices of statements are held until the server takes them for the client: before each result that it
//! sends. A statement that says much, or runs long, does not hold its notices: they are passed on at once,
//! where there is an [outlet](Notices::set_outlet).
//!
//! # Invariants
//! - Where there is an outlet, at most [`HELD_BYTES_MAX`] and one notice are held; where there is none, what is held counts in the
//!   session's memory.
//! - An attempt of a statement that is aborted takes its notices back, except those that were passed on already: their
//!   client gets them again from the next attempt.
//!
//! # Concurrency
//! The session's thread alone uses them. The mutex is there because two parts of the connection hold them: the session, and
//! what writes to the client. `has_held` (relaxed: the same thread stores it) spares the lock where nothing is held.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::error::Result;
use crate::run::memory::{Memory, SessionMemory};
use crate::session::environment::now;
use crate::session::result::Notice;

/// The limit of held bytes for a client to which notices can be passed at once.
const HELD_BYTES_MAX: usize = 32 << 10;

/// The running time after which a statement's notices are passed on at once, in microseconds.
const LONG_STATEMENT_US: i64 = 100_000;

/// A callback that passes notices to the client.
type Outlet = Box<dyn Fn(Vec<Notice>) + Send + Sync>;

/// The notices of a session that its client has not received.
pub struct Notices {
    held: Mutex<Held>,
    has_held: AtomicBool,
    outlet: OnceLock<Outlet>,
}

struct Held {
    notices: Vec<Notice>,
    /// The number of notices that are older than the statement: an attempt begins with those.
    before: usize,
    session: Arc<SessionMemory>,
    memory: Memory,
}

impl Notices {
    pub(crate) fn new(session: Arc<SessionMemory>) -> Arc<Notices> {
        let memory = Memory::of_session(usize::MAX, session.clone());
        let held = Held { notices: Vec::new(), before: 0, session, memory };
        Arc::new(Notices {
            held: Mutex::new(held),
            has_held: AtomicBool::new(false),
            outlet: OnceLock::new(),
        })
    }

    /// Sets what passes notices to the client while a statement is running. Set once.
    pub fn set_outlet(&self, outlet: impl Fn(Vec<Notice>) + Send + Sync + 'static) {
        // Each connection has one owner, which sets it once.
        let _ = self.outlet.set(Box::new(outlet));
    }

    /// Removes and returns what is held.
    pub fn take(&self) -> Vec<Notice> {
        if !self.has_held.load(Ordering::Relaxed) {
            return Vec::new();
        }
        self.has_held.store(false, Ordering::Relaxed);
        self.held.lock().take()
    }

    /// Adds one of a statement that began at this time.
    ///
    /// # Errors
    /// 53200: the notices need more memory than there is.
    pub(crate) fn push(&self, notice: Notice, statement_start: i64) -> Result<()> {
        let mut held = self.held.lock();
        held.memory.charge(notice.bytes())?;
        held.notices.push(notice);
        self.has_held.store(true, Ordering::Relaxed);
        let is_much = held.memory.used() >= HELD_BYTES_MAX;
        drop(held);
        if is_much {
            self.pass_on();
        } else {
            self.poll(statement_start);
        }
        Ok(())
    }

    /// Passes on what is held if the statement, which began at this time, runs long.
    #[inline]
    pub(crate) fn poll(&self, statement_start: i64) {
        if self.has_held.load(Ordering::Relaxed) && now() - statement_start >= LONG_STATEMENT_US {
            self.pass_on();
        }
    }

    fn pass_on(&self) {
        if let Some(outlet) = self.outlet.get() {
            outlet(self.take());
        }
    }

    /// A statement begins, of which several attempts may be made.
    pub(crate) fn begin_attempts(&self) {
        let mut held = self.held.lock();
        held.before = held.notices.len();
    }

    /// Forgets what the attempt before has said.
    pub(crate) fn begin_attempt(&self) {
        let mut held = self.held.lock();
        let before = held.before;
        let forgotten = held.notices.iter().skip(before).map(Notice::bytes).sum();
        held.notices.truncate(before);
        held.memory.release(forgotten);
    }
}

impl Held {
    fn take(&mut self) -> Vec<Notice> {
        let notices = std::mem::take(&mut self.notices);
        self.before = 0;
        if !notices.is_empty() {
            self.memory = Memory::of_session(usize::MAX, self.session.clone());
        }
        notices
    }
}

impl Notice {
    /// The memory that the notice uses.
    fn bytes(&self) -> usize {
        let texts = [self.detail.as_ref(), self.hint.as_ref()].into_iter().flatten().map(String::len);
        size_of::<Notice>() + self.message.len() + texts.sum::<usize>()
    }
}
