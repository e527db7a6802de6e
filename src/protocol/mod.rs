//! Protocols: how calls are isolated from each other.
//!
//! A protocol says what to acquire before a body runs, what to do at each access, and what to validate at commit;
//! how a commit takes effect is one contract for all ([`crate::storage::commit`]). A new protocol is a new folder and
//! a line in [`ProtocolKind`]; no `match` on a protocol stands anywhere else, and no protocol names another.

pub(crate) mod attempt;
#[cfg(test)]
mod canary;
pub(crate) mod footprint;
mod optimistic;
mod serial;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::protocol::attempt::Attempt;
use crate::protocol::footprint::Footprint;
pub use crate::protocol::serial::SerialVariant;
use crate::storage::commit::CommitFailure;
use crate::storage::word::Stamp;

/// How calls are isolated from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProtocolKind {
    /// Almost serial (SP, 2002): updates run one at a time in each site, without record locks; readers run beside
    /// each other; the log is written while the next ones run.
    Serial,
    /// Optimistic (Silo's commit, as in Doppel's joined phases): calls run side by side, note what they read, and check
    /// at commit that it still holds.
    #[default]
    Optimistic,
    /// One that is broken on purpose: for tests of the tests.
    #[cfg(test)]
    #[doc(hidden)]
    Canary(canary::Canary),
}

impl ProtocolKind {
    /// Every protocol.
    pub const ALL: &'static [ProtocolKind] = &[ProtocolKind::Serial, ProtocolKind::Optimistic];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ProtocolKind::Serial => "serial",
            ProtocolKind::Optimistic => "optimistic",
            #[cfg(test)]
            ProtocolKind::Canary(canary) => canary.name(),
        }
    }

    /// Builds the protocol.
    pub(crate) fn build(self, settings: &Settings) -> Box<dyn Protocol> {
        match self {
            ProtocolKind::Serial => Box::new(serial::Serial::new(settings)),
            ProtocolKind::Optimistic => Box::new(optimistic::Optimistic),
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

/// What protocols can be told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// How many serial sites there are.
    pub(crate) sites: usize,
    /// Which way of serial execution.
    pub(crate) serial_variant: SerialVariant,
    /// What a blocked call does.
    pub(crate) lock_conflict: LockConflict,
    /// How long a phase lasts.
    pub(crate) phase: Duration,
}

/// What a call does that meets a lock of another call's, under `locking`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockConflict {
    /// It waits.
    #[default]
    Wait,
    /// It gives up at once, and is run again.
    NoWait,
}

/// How a call can try to run: the first time as it comes, later with more force.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Try {
    /// 1 for the first attempt.
    pub(crate) number: u32,
}

/// When what a call holds is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Once it has committed or failed.
    UntilCommit,
    /// Once its commit is durable: for comparison with the simplest way only.
    UntilDurable,
}

/// How calls are isolated. One object serves all participants.
///
/// For each attempt: `begin`, then the body's accesses through [`attempt::Access`], then `commit` (or `confirm` where
/// the body failed), and `end` always, after a panic too.
pub(crate) trait Protocol: Send + Sync {
    /// How many workers it can keep busy.
    fn useful_workers(&self) -> usize {
        usize::MAX
    }

    /// Acquires what must be had before the body runs, and chooses the attempt's table of functions.
    fn begin(&self, attempt: &Attempt<'_>, footprint: Option<&Footprint>, attempted: Try);

    /// Commits the attempt's writes. `Ok(None)`: there were none, and what was read was a possible state.
    ///
    /// # Errors
    /// See [`CommitFailure`]; nothing has been changed.
    fn commit(&self, attempt: &Attempt<'_>) -> Result<Option<Stamp>, CommitFailure>;

    /// Whether the state that a failed body saw was a possible one, so that its error may be told.
    fn confirm(&self, attempt: &Attempt<'_>) -> bool;

    /// The epoch that must be durable before the result is released, given the highest that the call has seen.
    fn release_epoch(&self, _attempt: &Attempt<'_>, highest_seen: u64) -> u64 {
        highest_seen
    }

    /// When what the attempt holds is given up.
    fn hold(&self) -> Hold {
        Hold::UntilCommit
    }

    /// Gives up what the attempt holds. Within a group of calls the protocol may keep it for the next one.
    fn end(&self, attempt: &Attempt<'_>);

    /// The end of a group of calls on this thread: nothing may be held after it.
    fn end_group(&self, held: &mut Held);
}

/// What a thread holds of a protocol's shared things, kept between the calls of one group.
#[derive(Debug, Default)]
pub(crate) struct Held {
    /// For each thing held, its number and whether it is held alone.
    pub(crate) sites: smallvec::SmallVec<[(usize, bool); 4]>,
    /// Whether more calls of the same group follow.
    pub(crate) in_group: bool,
    /// Whether the thread has closed the gate: the call runs alone.
    pub(crate) alone: bool,
}
