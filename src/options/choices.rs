//! Choices with names, which the command line and the options spell alike.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};
use crate::pipeline::retry::Retry;
use crate::protocol::LockConflict;
use crate::schedule::{ScheduleKind, StatePrune};

/// The time at which a result is released, relative to its durability.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// Nothing is logged: the data lives as long as the process.
    None,
    /// Results are released at once; the log follows by at most the group's time. A crash may lose the last of them, and
    /// never leaves one half done. Once the log has failed, only results of durable data are released.
    Async,
    /// Results are released when all that they wrote and read is durable (group commit).
    #[default]
    Group,
}

/// The assignment of the pipeline's stages to threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stages {
    /// Input on the caller's thread, execution on workers, log and output on one thread: for few processors. A caller that
    /// waits for its call runs it itself while a worker is idle, here and where stages are `Staged`.
    #[default]
    Folded,
    /// Input, execution, log and output on threads of their own.
    Staged,
    /// Input on threads of its own; execution, log and output on the one worker's: for one processor. Work that
    /// bypasses the worker (closures, `Async`, a full disk) is logged by the log's own thread, which sleeps otherwise.
    Single,
}

macro_rules! named {
    ($type:ty, $option:literal, $($variant:path => $name:literal),+) => {
        impl $type {
            /// All choices.
            pub const ALL: &'static [$type] = &[$($variant),+];

            /// Its name on the command line.
            pub fn name(self) -> &'static str {
                match self { $($variant => $name),+ }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(self.name())
            }
        }

        impl FromStr for $type {
            type Err = Error;

            fn from_str(text: &str) -> Result<$type> {
                Self::ALL.iter().copied().find(|choice| choice.name() == text).ok_or_else(|| Error::InvalidOption {
                    option: $option,
                    given: text.to_string(),
                    expected: [$($name),+].join(", "),
                })
            }
        }
    };
}

named!(Durability, "durability", Durability::None => "none", Durability::Async => "async", Durability::Group => "group");
named!(Retry, "retry", Retry::Backoff => "backoff", Retry::Immediate => "immediate");
named!(LockConflict, "lock-conflict", LockConflict::Wait => "wait", LockConflict::NoWait => "no-wait");
named!(ScheduleKind, "schedule", ScheduleKind::Random => "random", ScheduleKind::Partition => "partition", ScheduleKind::Predict => "predict");
named!(StatePrune, "state-prune", StatePrune::Stable => "stable", StatePrune::Direct => "direct", StatePrune::Off => "off");
named!(Stages, "stages", Stages::Folded => "folded", Stages::Staged => "staged", Stages::Single => "single");
