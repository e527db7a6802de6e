//! Protocols: how calls are isolated from each other.
//!
//! A protocol says what to acquire before a body runs, what to do at each access, and what to validate at commit;
//! how a commit takes effect is one contract for all ([`crate::storage::commit`]). A new protocol is a new folder and
//! a line in [`ProtocolKind`]; no `match` on a protocol stands anywhere else, and no protocol names another.

pub(crate) mod attempt;
#[cfg(test)]
mod canary;
pub(crate) mod footprint;
pub(crate) mod hot_rows;
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
use std::time::Duration;

use crossbeam_epoch::Guard;

use crate::error::{Error, Result};
use crate::protocol::attempt::Attempt;
use crate::protocol::footprint::Footprint;
use crate::protocol::local::ExternalLocks;
pub use crate::protocol::serial::SerialVariant;
use crate::storage::commit::CommitFailure;
use crate::storage::reconcile::Wanted;
use crate::storage::store::Store;
use crate::storage::word::Stamp;

/// How calls are isolated from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolKind {
    /// Almost serial (SP, 2002): updates run one at a time in each partition, without record locks; readers run beside
    /// each other; the log is written while the next ones run.
    Serial,
    /// Strict two-phase locking, with one lock manager for all: a thread that reads or writes a record or a range
    /// locks it until its end, and a thread that meets a rival's lock waits.
    Locking,
    /// Optimistic (Silo's commit, as in Doppel's joined phases): calls run side by side, note what they read, and check
    /// at commit that it still holds.
    #[default]
    Optimistic,
    /// Phase reconciliation (Doppel, 2014): optimistic, and contended columns are split over the threads for a while, for
    /// operations that return nothing.
    Phased,
    /// Thread-to-data (DORA, 2010): every executor owns a part of each table, runs what touches it, and locks it locally.
    Partitioned,
    /// One that is broken on purpose: for tests of the tests.
    #[cfg(test)]
    #[doc(hidden)]
    Canary(canary::Canary),
}

impl ProtocolKind {
    /// Every protocol.
    pub const ALL: &'static [ProtocolKind] = &[
        ProtocolKind::Serial,
        ProtocolKind::Locking,
        ProtocolKind::Optimistic,
        ProtocolKind::Phased,
        ProtocolKind::Partitioned,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ProtocolKind::Serial => "serial",
            ProtocolKind::Locking => "locking",
            ProtocolKind::Optimistic => "optimistic",
            ProtocolKind::Phased => "phased",
            ProtocolKind::Partitioned => "partitioned",
            #[cfg(test)]
            ProtocolKind::Canary(canary) => canary.name(),
        }
    }

    /// Whether it decides itself where a call runs, so that a schedule would decide to no effect.
    pub(crate) fn places_calls(self) -> bool {
        matches!(self, ProtocolKind::Serial | ProtocolKind::Partitioned)
    }

    /// Whether executors of its own run calls, instead of the workers.
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
            ProtocolKind::Phased => Box::new(phased::Phased::new(settings)),
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
    /// How many serial partitions there are.
    pub(crate) partitions: usize,
    /// Which way of serial execution.
    pub(crate) serial_variant: SerialVariant,
    /// What a blocked call does.
    pub(crate) lock_conflict: LockConflict,
    /// How long a split phase lasts at most.
    pub(crate) phase: Duration,
    /// How many worker contexts there can be.
    pub(crate) max_worker_contexts: usize,
}

/// What a call does that meets a lock of another call's, under `locking`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockConflict {
    /// It waits.
    #[default]
    Wait,
    /// It releases at once, and is retried; only after many attempts it waits, so that it does not starve.
    NoWait,
}

/// Attempts of a transaction that run concurrently with others, under protocols without locks; later ones run alone.
pub(crate) const MAX_OPTIMISTIC_ATTEMPTS: u32 = 24;

/// How a call can try to run: the first time as it comes, later with more force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Try {
    /// 1 for the first attempt.
    pub(crate) number: u32,
    /// Where the body's code is: runs of the same code mostly do the same.
    pub(crate) code: usize,
}

/// When what a call holds is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Once it has committed or failed.
    UntilCommit,
    /// Once its commit is durable: for comparison with the simplest way only.
    UntilDurable,
}

/// How calls are isolated. One object serves all worker contexts.
///
/// For each attempt: `begin`, then the body's accesses through [`attempt::Access`], then `commit` (or `confirm` where
/// the body failed), and `end` always, after a panic too.
pub(crate) trait Protocol: Send + Sync {
    /// How many workers it can keep busy.
    fn useful_workers(&self) -> usize {
        usize::MAX
    }

    /// Whether what a call declares changes how it runs.
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

    /// Whether the state that a failed body saw was a possible one, so that its error may be returned.
    fn validate_reads(&self, attempt: &Attempt<'_>) -> bool;

    /// The epoch that must be durable before the result is released, given the highest that the call has seen.
    fn release_epoch(&self, _attempt: &Attempt<'_>, highest_seen: u64) -> u64 {
        highest_seen
    }

    /// When what the attempt holds is released.
    fn hold(&self) -> Hold {
        Hold::UntilCommit
    }

    /// Whether the attempt, which has not committed, must wait for the end of the split phase.
    fn is_stashed(&self, _attempt: &Attempt<'_>) -> bool {
        false
    }

    /// If executors that own the data run its transactions: where it finds the local locks for other threads.
    fn external_locks(&self) -> Option<&OnceLock<Arc<dyn ExternalLocks>>> {
        None
    }

    /// Its phases, if it has any.
    fn phases(&self) -> Option<&dyn Phases> {
        None
    }

    /// Whether sessions forget something that they have read: a canary does.
    #[cfg(test)]
    fn forgets_session_reads(&self) -> bool {
        false
    }

    /// Gives up what the attempt holds. Within a group of calls the protocol may keep it for the next one.
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
    /// What was chosen is split.
    Split,
    /// The slices are merged, and what was chosen is split again at once.
    SplitAgain,
}

/// What a protocol that has phases decides and does; the pipeline says when.
pub(crate) trait Phases: Send + Sync {
    /// How long a split phase lasts at most.
    fn length(&self) -> Duration;

    /// Whether the joined phase follows a split one, so that it is short.
    fn has_just_joined(&self) -> bool;

    /// A turn of the joined phase ends: whether a split phase should follow.
    fn end_joined(&self, store: &Store, lasted: Duration) -> bool;

    /// Whether the split phase should end early, given how many transactions were stashed and how many committed in it,
    /// and whether every active caller waits for a stashed one.
    fn should_end_split_early(&self, stashed: u64, committed: u64, all_stashed: bool) -> bool;

    /// The split phase ends: whether another one may follow at once.
    fn end_split(&self, store: &Store, lasted: Duration, stashed: u64) -> bool;

    /// Changes the phase. The caller has closed the gate and waited for all. The epochs: the last that the present phase
    /// has commits of, and the first of the next one. Whether it was done: a joined phase can always begin.
    fn change(&self, store: &Store, phase: Phase, epochs: (u64, u64), guard: &Guard) -> bool;

    /// Merges what is split into its records and splits it again, so that the records are whole as of an epoch, and
    /// the phase goes on. As for [`change`](Self::change).
    fn merge(&self, store: &Store, epochs: (u64, u64), guard: &Guard);

    /// Splits a column of a record by hand, from the next phase on; or no longer.
    fn label(&self, wanted: Wanted, on: bool);

    /// What has been counted.
    fn report(&self) -> PhaseCounts;
}

/// What a protocol with phases has counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct PhaseCounts {
    pub(crate) joined: u64,
    pub(crate) split: u64,
    pub(crate) reconciliation: u64,
    /// What was ever split, and in how many phases; whether it is split now.
    pub(crate) columns: Vec<(Wanted, u64, bool)>,
}

/// What a thread holds of a protocol's shared things, kept between the calls of one group.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// For each thing held, its number and whether it is held alone.
    pub(crate) partitions: Vec<(usize, bool)>,
    /// Whether more calls of the same group follow.
    pub(crate) in_group: bool,
    /// Where the code of the running body is, if it has declared nothing.
    pub(crate) code: Option<usize>,
    /// Whether the thread has closed the gate: the call runs alone.
    pub(crate) alone: bool,
    /// Whether the running attempt was denied what it wanted to write.
    pub(crate) denied_write: bool,
    /// Whether the running attempt's values led to another key than key resolution found (`partitioned`).
    pub(crate) misrouted: bool,
    /// Whether the running attempt's body needs something that only another transaction can bring about: a sequence's values.
    pub(crate) needs_another: bool,
    /// What the session keeps that the running attempt is an access of.
    pub(crate) session: Option<Box<attempt::SessionAccess>>,
    /// How the running attempt reserves hot rows.
    pub(crate) hot_rows: hot_rows::Reserving,
    /// The locks of the running attempt.
    locking: locking::Holding,
    /// What a closure has locked that executors own.
    partitioned: partitioned::Holding,
}
