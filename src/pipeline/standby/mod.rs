//! A standby: a database that replays the log of another one, which another process writes, and is read meanwhile.
//!
//! A thread reads the groups of the log and commits what they have changed by the engine's own commits: so secondary indexes
//! follow, snapshots keep the versions that they need, and the limit of memory holds, with nothing of its own for a standby. The
//! standby logs nothing. Its epochs are its own; a group of the log is named by its position.
//!
//! # Invariants
//! - Groups are replayed whole and in their order, each once.
//! - A snapshot contains whole groups: none is opened while one is replayed.
//! - Nothing else writes. A closure that reads in a transaction instead of a snapshot sees a group's transactions as one, unless a schema
//!   change is among them.
//!
//! # Concurrency
//! The thread holds [`Replaying`]'s lock from a group's first commit to its last. The log stage, which opens snapshots, opens none
//! without it; it never waits for it long, because a commit that waits for the next epoch waits for the log stage. Between two
//! groups the thread lets requests for snapshots through that have come meanwhile.

mod group;
mod rows;
mod schema;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};

use self::group::{GroupReport, replay_group};
use crate::base::atomics::{AtomicBool, Ordering};
use crate::durability::TermStart;
use crate::durability::log_tail::{LogTail, ReplayedLog};
use crate::durability::position::LogPosition;
use crate::error::{Error, Result, StandbyError};
use crate::pipeline::engine::Engine;
use crate::storage::table::TableId;
use crate::types::Timestamp;

/// The shortest and the longest time between two looks at a log that does not grow.
const LOOKS: (Duration, Duration) = (Duration::from_micros(200), Duration::from_millis(10));
/// A log that has not grown for this long is examined for damage, once.
const QUIET: Duration = Duration::from_secs(1);
/// The longest wait of the log stage for the end of a group, when it wants to open a snapshot.
const GROUP_WAIT: Duration = Duration::from_millis(1);
/// The pause in which the log stage opens the snapshots that were asked for.
const SNAPSHOT_PAUSE: Duration = Duration::from_micros(20);

/// The lock that keeps snapshots from being opened while a group is replayed.
#[derive(Default)]
pub(crate) struct Replaying {
    state: Mutex<Use>,
    /// Rung when it is given back.
    free: Condvar,
}

#[derive(Default)]
struct Use {
    is_taken: bool,
    /// The number of threads that wait for it.
    waiting: usize,
}

/// While it lives, no group is replayed, or this one is, and no snapshot is opened.
#[must_use]
pub(crate) struct Pause<'r>(&'r Replaying);

impl Replaying {
    /// Keeps the next group from being replayed; `None` if one is being replayed, and is not over soon.
    pub(crate) fn pause_soon(&self) -> Option<Pause<'_>> {
        let mut state = self.state.lock();
        if state.is_taken {
            self.free.wait_for(&mut state, GROUP_WAIT);
        }
        if std::mem::replace(&mut state.is_taken, true) { None } else { Some(Pause(self)) }
    }

    /// Keeps the next group from being replayed, when the present one is over.
    pub(crate) fn pause(&self) -> Pause<'_> {
        let mut state = self.state.lock();
        state.waiting += 1;
        while state.is_taken {
            self.free.wait(&mut state);
        }
        state.waiting -= 1;
        state.is_taken = true;
        Pause(self)
    }

    /// Returns true if a thread waits for it.
    fn is_wanted(&self) -> bool {
        self.state.lock().waiting > 0
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        self.0.state.lock().is_taken = false;
        self.0.free.notify_all();
    }
}

/// A crate above the engine that keeps definitions in rows of a table, on a standby: it learns when replay has changed them.
pub trait ReplayedDefinitions: Send + Sync {
    /// Reads the definitions again. It is called between two groups of the log, on the thread that replays them: no
    /// snapshot is opened meanwhile, so it must read in transactions. `epoch`: all that was replayed is of this epoch of the
    /// standby's own, or of an earlier one, and later groups are of later ones.
    ///
    /// # Errors
    /// They cannot be read: then nothing more is replayed.
    fn changed(&self, epoch: u64) -> Result<()>;
}

/// The state of a standby.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StandbyStatus {
    /// The directory of the database whose log it replays.
    pub source: PathBuf,
    /// The position of the last group that was replayed.
    pub position: LogPosition,
    /// The time of that group; `None` if it is from before log format 3.
    pub time: Option<Timestamp>,
    /// Groups that were replayed since the standby was opened.
    pub groups: u64,
    /// Transactions in them.
    pub transactions: u64,
    /// Bytes of redo in them.
    pub bytes: u64,
    /// True if all that was in the log was replayed when it was last looked at.
    pub has_caught_up: bool,
    /// The reason why nothing is replayed any more, if so. What was replayed can still be read.
    pub failure: Option<Error>,
}

/// See the [module](self).
pub(crate) struct Standby {
    source: PathBuf,
    state: Mutex<State>,
    /// Rung when a group was replayed, or replay has ended.
    changed: Condvar,
    stopped: AtomicBool,
    /// True once the database is no standby any more.
    is_promoted: AtomicBool,
    definitions: Mutex<Option<(TableId, Arc<dyn ReplayedDefinitions>)>>,
}

struct State {
    status: StandbyStatus,
    terms: Vec<TermStart>,
    /// True if the log has no writer any more, so that its end is final.
    is_fenced: bool,
    /// The log, if it is fenced and all of it was replayed.
    replayed: Option<ReplayedLog>,
}

impl Standby {
    pub(crate) fn new(source: &Path, tail: &LogTail) -> Arc<Standby> {
        let status = StandbyStatus {
            source: source.to_path_buf(),
            position: tail.position(),
            time: tail.time(),
            groups: 0,
            transactions: 0,
            bytes: 0,
            has_caught_up: false,
            failure: None,
        };
        let state = State { status, terms: tail.terms().to_vec(), is_fenced: false, replayed: None };
        Arc::new(Standby {
            source: source.to_path_buf(),
            state: Mutex::new(state),
            changed: Condvar::new(),
            stopped: AtomicBool::new(false),
            is_promoted: AtomicBool::new(false),
            definitions: Mutex::default(),
        })
    }

    /// The directory of the database whose log is replayed.
    pub(crate) fn source(&self) -> &Path {
        &self.source
    }

    /// Returns true if the database is no standby any more.
    pub(crate) fn is_promoted(&self) -> bool {
        // Acquire pairs with the release in `note_promotion`.
        self.is_promoted.load(Ordering::Acquire)
    }

    /// Notes that the database is no standby any more: its log is written, its term known.
    pub(crate) fn note_promotion(&self) {
        let _state = self.state.lock();
        // Release: a thread that sees it finds the log's writer.
        self.is_promoted.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    pub(crate) fn status(&self) -> StandbyStatus {
        self.state.lock().status.clone()
    }

    /// Has these definitions follow the rows of a table.
    pub(crate) fn follow_definitions(&self, table: TableId, definitions: Arc<dyn ReplayedDefinitions>) {
        *self.definitions.lock() = Some((table, definitions));
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        // Release pairs with the acquire in `is_stopped`.
        self.stopped.store(true, Ordering::Release);
        let _state = self.state.lock();
        self.changed.notify_all();
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Waits until the log was replayed up to this position; `None` as timeout: without limit. Returns false if the standby was
    /// promoted first.
    ///
    /// # Errors
    /// [`StandbyError::PositionLost`]; [`StandbyError::PositionNotReached`]; [`StandbyError::Stopped`]; [`Error::Closed`].
    pub(crate) fn wait_for(&self, position: LogPosition, timeout: Option<Duration>) -> Result<bool> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut state = self.state.lock();
        loop {
            match state.has(position) {
                Reached::Yes => return Ok(true),
                Reached::Never => {
                    return Err(Error::Standby(StandbyError::PositionLost {
                        position: position.to_string(),
                    }));
                }
                Reached::NotYet if self.is_promoted() => return Ok(false),
                Reached::NotYet => {}
            }
            if let Some(failure) = &state.status.failure {
                return Err(failure.clone());
            }
            if self.is_stopped() {
                return Err(Error::Closed);
            }
            let is_over = match deadline {
                Some(deadline) => self.changed.wait_until(&mut state, deadline).timed_out(),
                None => {
                    self.changed.wait(&mut state);
                    false
                }
            };
            if is_over && matches!(state.has(position), Reached::NotYet) {
                let (position, reached) = (position.to_string(), state.status.position.to_string());
                return Err(Error::Standby(StandbyError::PositionNotReached { position, reached }));
            }
        }
    }

    /// Returns true if the log was replayed up to this position.
    ///
    /// # Errors
    /// [`StandbyError::PositionLost`]; [`StandbyError::Stopped`]; [`Error::Closed`].
    pub(crate) fn has(&self, position: LogPosition) -> Result<bool> {
        match self.wait_for(position, Some(Duration::ZERO)) {
            Ok(is_there) => Ok(is_there),
            Err(Error::Standby(StandbyError::PositionNotReached { .. })) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Says that the log has no writer any more, and waits until it is replayed to its end. Replay goes on behind
    /// [`release`](Self::release).
    ///
    /// # Errors
    /// [`StandbyError::Stopped`]; [`Error::Closed`].
    pub(crate) fn replay_to_end(&self) -> Result<ReplayedLog> {
        let mut state = self.state.lock();
        state.is_fenced = true;
        self.changed.notify_all();
        loop {
            if let Some(replayed) = &state.replayed {
                return Ok(replayed.clone());
            }
            if let Some(failure) = &state.status.failure {
                return Err(failure.clone());
            }
            if self.is_stopped() {
                return Err(Error::Closed);
            }
            self.changed.wait(&mut state);
        }
    }

    /// Says that the log may have a writer again, unless the standby was promoted.
    pub(crate) fn release(&self) {
        let mut state = self.state.lock();
        (state.is_fenced, state.replayed) = (false, None);
        self.changed.notify_all();
    }

    /// Notes that nothing is replayed any more, and why.
    pub(crate) fn fail(&self, error: &Error) {
        let mut state = self.state.lock();
        let (position, reason) = (state.status.position.to_string(), error.cause());
        state.status.failure.get_or_insert(Error::Standby(StandbyError::Stopped { position, reason }));
        self.changed.notify_all();
    }

    /// The life of the thread that replays the log.
    pub(crate) fn run(&self, engine: &Engine, mut tail: LogTail) {
        if let Err(error) = self.follow(engine, &mut tail)
            && !self.is_stopped()
        {
            self.fail(&error);
        }
    }

    fn follow(&self, engine: &Engine, tail: &mut LogTail) -> Result<()> {
        let (mut pause, mut quiet_since) = (LOOKS.0, Some(Instant::now()));
        while !self.is_stopped() {
            // Before the look: all that a writer has written which is gone is found then.
            let is_fenced = self.state.lock().is_fenced;
            if let Some(group) = tail.next_group()? {
                self.replay(engine, tail, &group.payload)?;
                (pause, quiet_since) = (LOOKS.0, Some(Instant::now()));
                continue;
            }
            if is_fenced || quiet_since.is_some_and(|since| since.elapsed() > QUIET) {
                tail.check_end()?;
                quiet_since = None;
            }
            let mut state = self.state.lock();
            state.status.has_caught_up = true;
            if is_fenced && self.is_taken_over(&mut state, tail) {
                return Ok(());
            }
            if !state.is_fenced && !self.is_stopped() {
                self.changed.wait_for(&mut state, pause);
            }
            pause = (pause * 2).min(LOOKS.1);
        }
        Ok(())
    }

    /// All of a log that is fenced was replayed: waits until the standby is promoted, has failed or is closed, and returns true; or until
    /// another process may write the log again.
    fn is_taken_over(&self, state: &mut MutexGuard<'_, State>, tail: &LogTail) -> bool {
        if state.is_fenced {
            state.replayed = Some(tail.replayed());
            self.changed.notify_all();
        }
        loop {
            if self.is_promoted() || self.is_stopped() || state.status.failure.is_some() {
                return true;
            }
            if !state.is_fenced {
                return false;
            }
            self.changed.wait(state);
        }
    }

    fn replay(&self, engine: &Engine, tail: &LogTail, payload: &[u8]) -> Result<()> {
        let group = engine.replaying().map(Replaying::pause);
        let report = replay_group(engine, payload).map_err(|error| match error {
            error @ (Error::Malformed { .. } | Error::MissingKey { .. } | Error::DuplicateKey { .. }) => {
                tail.blame(error)
            }
            error => error,
        })?;
        self.tell_definitions(engine, &report)?;
        let mut state = self.state.lock();
        let status = &mut state.status;
        (status.position, status.time, status.has_caught_up) = (tail.position(), tail.time(), false);
        status.groups += 1;
        status.transactions += report.transactions;
        status.bytes += payload.len() as u64;
        if state.terms.len() != tail.terms().len() {
            state.terms = tail.terms().to_vec();
        }
        self.changed.notify_all();
        drop(state);
        drop(group);
        while (engine.snapshots().is_wanted() || engine.replaying().is_some_and(Replaying::is_wanted))
            && !self.is_stopped()
        {
            engine.log_event_count().notify();
            std::thread::sleep(SNAPSHOT_PAUSE);
        }
        Ok(())
    }

    fn tell_definitions(&self, engine: &Engine, report: &GroupReport) -> Result<()> {
        let definitions = self.definitions.lock().clone();
        if let Some((table, definitions)) = definitions
            && (report.changes_schema || report.tables.contains(&table))
        {
            definitions.changed(engine.store().epochs().current())?;
        }
        Ok(())
    }
}

/// The relation of a position to what was replayed.
enum Reached {
    Yes,
    NotYet,
    /// The log has gone on without it.
    Never,
}

impl State {
    fn has(&self, position: LogPosition) -> Reached {
        let now = self.status.position;
        if position.term() == now.term() || now.term() == 0 {
            return if position.epoch() <= now.epoch() { Reached::Yes } else { Reached::NotYet };
        }
        if position.term() > now.term() {
            return Reached::NotYet;
        }
        // The first group of a later term ends the position's.
        let Some(later) = self.terms.iter().find(|start| start.first.term() > position.term()) else {
            return Reached::NotYet;
        };
        let is_there = match later.before {
            Some(last) => position <= last,
            None => position.epoch() < later.first.epoch(),
        };
        if is_there { Reached::Yes } else { Reached::Never }
    }
}

#[cfg(test)]
mod tests;
