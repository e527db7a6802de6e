//! Protocols: the isolation of calls from each other.
//!
//! A protocol defines the locks that a call acquires before its body runs, the work of each access, and the
//! validation at commit; one contract for all defines how a commit takes effect ([`crate::storage::commit`]).
//! A new protocol is a new folder and a line in [`ProtocolKind`]; there is no `match` on a protocol anywhere
//! else, and no protocol names another.

pub(crate) mod attempt;
#[cfg(test)]
mod canary;
pub(crate) mod footprint;
pub(crate) mod hot_rows;
pub(crate) mod in_force;
pub(crate) mod local;
mod locking;
mod optimistic;
mod partitioned;
mod phased;
mod serial;
mod write_predictor;

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use crossbeam_epoch::Guard;

use crate::error::{Error, Result};
use crate::operation::Operation;
use crate::protocol::attempt::Attempt;
use crate::protocol::footprint::Footprint;
use crate::protocol::local::ExternalLocks;
pub use crate::protocol::serial::SerialVariant;
use crate::storage::commit::CommitFailure;
use crate::storage::reconcile::Wanted;
use crate::storage::store::Store;
use crate::storage::word::Stamp;

/// The protocol that isolates calls from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolKind {
    /// Almost serial (SP, 2002): updates run one at a time in each partition, without record locks; readers
    /// run concurrently; the log is written while the next ones run.
    Serial,
    /// Strict two-phase locking, with one lock manager for all: a transaction that reads or writes a record
    /// or a range locks it until its end, and waits for a rival's lock.
    Locking,
    /// Optimistic (Silo's commit, as in Doppel's joined phases): calls run concurrently, record their read
    /// sets, and validate them at commit.
    Optimistic,
    /// Phase reconciliation (Doppel, 2014): optimistic, and contended columns are split over the threads
    /// during split phases, for operations that return nothing.
    Phased,
    /// The engine chooses: optimistic, with contended columns split over the threads while that pays (`Phased`) and rivals for
    /// hot rows queued, each decided for single rows from what is counted ([`Database::choices`](crate::Database::choices)).
    #[default]
    Auto,
    /// Thread-to-data (DORA, 2010): every executor owns a part of each table, executes all actions on it, and
    /// locks its rows locally.
    Partitioned,
    /// One that is broken on purpose: for tests of the tests.
    #[cfg(test)]
    #[doc(hidden)]
    Canary(canary::Canary),
}

impl ProtocolKind {
    /// All protocols.
    pub const ALL: &'static [ProtocolKind] = &[
        ProtocolKind::Serial,
        ProtocolKind::Locking,
        ProtocolKind::Optimistic,
        ProtocolKind::Phased,
        ProtocolKind::Partitioned,
        ProtocolKind::Auto,
    ];

    /// The protocol of a standby, which one thread writes: nothing conflicts, and nothing is worth a split.
    pub(crate) const OF_ONE_WRITER: ProtocolKind = ProtocolKind::Optimistic;

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ProtocolKind::Serial => "serial",
            ProtocolKind::Locking => "locking",
            ProtocolKind::Optimistic => "optimistic",
            ProtocolKind::Phased => "phased",
            ProtocolKind::Partitioned => "partitioned",
            ProtocolKind::Auto => "auto",
            #[cfg(test)]
            ProtocolKind::Canary(canary) => canary.name(),
        }
    }

    /// Returns true if it can take another protocol's place, and another one its, while transactions run.
    pub(crate) fn is_changeable(self) -> bool {
        !self.has_executors()
    }

    /// Returns true if the protocol itself decides where a call runs, so that a schedule would have no effect.
    pub(crate) fn places_calls(self) -> bool {
        matches!(self, ProtocolKind::Serial | ProtocolKind::Partitioned)
    }

    /// Returns true if the protocol's own executors run calls, instead of the workers.
    pub(crate) fn has_executors(self) -> bool {
        self == ProtocolKind::Partitioned
    }

    /// The names of the protocols that leave that to the schedule.
    pub(crate) fn beside_each_other() -> String {
        let names = Self::ALL.iter().filter(|kind| !kind.places_calls()).map(|kind| kind.name());
        names.collect::<Vec<_>>().join(", ")
    }

    /// Builds the protocol.
    pub(crate) fn build(self, settings: &Settings) -> Box<dyn Protocol> {
        match self {
            ProtocolKind::Serial => Box::new(serial::Serial::new(settings)),
            ProtocolKind::Locking => Box::new(locking::Locking::new(settings)),
            ProtocolKind::Optimistic => Box::new(optimistic::Optimistic),
            // What `auto` chooses is chosen for single columns and rows, by the parts that count conflicts about them.
            ProtocolKind::Phased | ProtocolKind::Auto => Box::new(phased::Phased::new(settings)),
            ProtocolKind::Partitioned => Box::new(partitioned::Partitioned::default()),
            #[cfg(test)]
            ProtocolKind::Canary(canary) => Box::new(canary),
        }
    }
}

impl fmt::Display for ProtocolKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for ProtocolKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<ProtocolKind> {
        ProtocolKind::ALL.iter().copied().find(|kind| kind.name() == text).ok_or_else(|| {
            Error::InvalidOption {
                option: "protocol",
                given: text.to_string(),
                expected: ProtocolKind::ALL.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", "),
            }
        })
    }
}

/// The configuration of protocols.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The number of serial partitions.
    pub(crate) partitions: usize,
    /// The variant of serial execution.
    pub(crate) serial_variant: SerialVariant,
    /// The reaction of a blocked call.
    pub(crate) lock_conflict: LockConflict,
    /// The maximum length of a split phase.
    pub(crate) phase: Duration,
    /// The maximum number of worker contexts.
    pub(crate) max_worker_contexts: usize,
}

/// The reaction of a call to another call's lock, under `locking`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockConflict {
    /// The call waits.
    #[default]
    Wait,
    /// The call releases its locks at once, and is retried; it waits only after many attempts, so that it
    /// does not starve.
    NoWait,
}

/// Attempts of a transaction that run concurrently with others, under protocols without locks; later ones run alone.
pub(crate) const MAX_OPTIMISTIC_ATTEMPTS: u32 = 24;

/// The number and the code of an attempt: a call is attempted optimistically at first, and later with more force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Try {
    /// 1 for the first attempt.
    pub(crate) number: u32,
    /// The address of the body's code: executions of the same code mostly do the same.
    pub(crate) code: usize,
}

/// The moment at which a call's locks are released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Once it has committed or failed.
    UntilCommit,
    /// Once its commit is durable: for comparison with the simplest way only.
    UntilDurable,
}

/// Isolates calls from each other. One object serves all worker contexts.
///
/// For each attempt: `begin`, then the body's accesses through [`attempt::Access`], then `commit` (or `confirm` where
/// the body failed), and `end` always, after a panic too.
pub(crate) trait Protocol: Send + Sync {
    /// The number of workers that it can keep busy.
    fn useful_workers(&self) -> usize {
        usize::MAX
    }

    /// Returns true if the footprint of a call changes how it runs.
    fn uses_footprints(&self) -> bool {
        true
    }

    /// Acquires what must be had before the body runs, and chooses the attempt's table of functions.
    fn begin(&self, attempt: &Attempt<'_>, footprint: Option<&Footprint>, attempted: Try);

    /// Commits the attempt's writes. `Ok(None)`: there were none, and what was read was a possible state.
    ///
    /// # Errors
    /// See [`CommitFailure`]; nothing has been changed.
    fn commit(&self, attempt: &Attempt<'_>) -> Result<Option<Stamp>, CommitFailure>;

    /// Returns true if the state that a failed body saw was a possible one, so that its error may be returned.
    fn validate_reads(&self, attempt: &Attempt<'_>) -> bool;

    /// The epoch that must be durable before the result is released, given the highest that the call has seen.
    fn release_epoch(&self, _attempt: &Attempt<'_>, highest_seen: u64) -> u64 {
        highest_seen
    }

    /// The moment at which the attempt's locks are released.
    fn hold(&self) -> Hold {
        Hold::UntilCommit
    }

    /// Returns true if the attempt, which has not committed, must wait for the end of the split phase.
    fn is_stashed(&self, _attempt: &Attempt<'_>) -> bool {
        false
    }

    /// The local locks for other threads, if executors that own the data run the protocol's transactions.
    fn external_locks(&self) -> Option<&OnceLock<Arc<dyn ExternalLocks>>> {
        None
    }

    /// Returns true if it may keep what an attempt holds for the next call of a group.
    fn keeps_between_calls(&self) -> bool {
        false
    }

    /// Its phases, if it has any.
    fn phases(&self) -> Option<&dyn Phases> {
        None
    }

    /// Returns true if sessions forget something that they have read: a canary does.
    #[cfg(test)]
    fn forgets_session_reads(&self) -> bool {
        false
    }

    /// Releases everything that the attempt holds. Within a group of calls the protocol may keep it for the next one.
    fn end(&self, attempt: &Attempt<'_>);

    /// The end of a group of calls on this thread: nothing may be held after it.
    fn end_group(&self, held: &mut Held);
}

/// A phase that can be changed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Phase {
    /// Nothing is split.
    Joined,
    /// The chosen columns are split.
    Split,
    /// The slices are merged, and what was chosen is split again at once.
    SplitAgain,
}

/// The decisions and actions of a protocol that has phases; the pipeline says when.
pub(crate) trait Phases: Send + Sync {
    /// The maximum length of a split phase.
    fn length(&self) -> Duration;

    /// Returns true if the joined phase follows a split one, so that it is short.
    fn has_just_joined(&self) -> bool;

    /// Ends a turn of the joined phase; returns true if a split phase should follow.
    fn end_joined(&self, store: &Store, lasted: Duration) -> bool;

    /// Blocks while there is nothing to decide: nothing is split or labelled, nothing conflicts, and what did has been
    /// forgotten; until [`wake`](Self::wake). The caller is the coordinator, between two turns of a joined phase.
    fn rest(&self, store: &Store, is_stopped: &dyn Fn() -> bool);

    /// Ends a rest, so that the coordinator looks whether it is stopped.
    fn wake(&self);

    /// Returns true if the split phase should end early, given the numbers of transactions that were stashed and that
    /// committed in it, and whether every active caller waits for a stashed one.
    fn should_end_split_early(&self, stashed: u64, committed: u64, all_stashed: bool) -> bool;

    /// Ends the split phase; returns true if another one may follow at once.
    fn end_split(&self, store: &Store, lasted: Duration, stashed: u64) -> bool;

    /// Changes the phase. The caller has closed the gate and waited for all. The epochs: the last that the present phase
    /// has commits of, and the first of the next one. Returns true if the phase was changed: a joined phase can always
    /// begin.
    fn change(&self, store: &Store, phase: Phase, epochs: (u64, u64), guard: &Guard) -> bool;

    /// Merges what is split into its records and splits it again, so that the records are whole as of an epoch, and
    /// the phase goes on. The caller has the duties of one of [`change`](Self::change).
    fn merge(&self, store: &Store, epochs: (u64, u64), guard: &Guard);

    /// Splits a column of a record by hand, from the next phase on; or no longer.
    fn label(&self, wanted: Wanted, on: bool);

    /// The counts so far.
    fn report(&self) -> PhaseCounts;
}

/// The counts of a protocol with phases.
#[derive(Clone, Debug, Default)]
pub(crate) struct PhaseCounts {
    pub(crate) joined: u64,
    pub(crate) split: u64,
    pub(crate) reconciliation: u64,
    /// Every column that was ever split, with the number of its split phases, and true if it is split now.
    pub(crate) columns: Vec<(Wanted, u64, bool)>,
    /// The latest choices of what is split, the oldest first.
    pub(crate) choices: Vec<SplitChoice>,
}

/// A choice that a column is split from then on, or no longer.
#[derive(Clone, Debug)]
pub(crate) struct SplitChoice {
    pub(crate) at: Instant,
    pub(crate) wanted: Wanted,
    pub(crate) from: Treatment,
    pub(crate) to: Treatment,
    pub(crate) why: &'static str,
}

/// The treatment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Treatment {
    /// It is changed in its record.
    Joined,
    /// Each worker context changes a slice of its own by this operation.
    Split(Operation),
}

impl fmt::Display for Treatment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Treatment::Joined => formatter.write_str("joined"),
            Treatment::Split(operation) => write!(formatter, "split for {}", operation.name()),
        }
    }
}

/// A thread's locks and notes under a protocol, kept between the calls of one group.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// The generation in which the last attempt began.
    pub(crate) generation: u64,
    /// The number of each partition held, and true if it is held exclusively.
    pub(crate) partitions: Vec<(usize, bool)>,
    /// True if more calls of the same group follow.
    pub(crate) in_group: bool,
    /// The address of the running body's code, if the body has declared nothing.
    pub(crate) code: Option<usize>,
    /// True if the thread has closed the gate: the call runs alone.
    pub(crate) alone: bool,
    /// True if the running attempt was denied a write lock.
    pub(crate) denied_write: bool,
    /// True if the running attempt's values led to another key than key resolution found (`partitioned`).
    pub(crate) misrouted: bool,
    /// True if the running attempt's body needs something that only another transaction can provide: values of a
    /// sequence.
    pub(crate) needs_another: bool,
    /// The state of the session of which the running attempt is an access.
    pub(crate) session: Option<Box<attempt::SessionAccess>>,
    /// The running attempt's reservations of hot rows.
    pub(crate) hot_rows: hot_rows::Reserving,
    /// The locks of the running attempt.
    locking: locking::Holding,
    /// The closure's locks in the lock tables of executors.
    partitioned: partitioned::Holding,
}
