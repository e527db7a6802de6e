//! The failure of a command, with its message and its exit code.

use std::fmt;
use std::process::ExitCode;

/// A failed command.
#[derive(Debug)]
pub enum Failure {
    /// A check found something wrong, or something broke on the way: exit code 1.
    Failed(String),
    /// The command can't be done as it was given: exit code 2.
    Usage(String),
}

/// The result of a command.
pub type Result<T = ()> = std::result::Result<T, Failure>;

impl Failure {
    /// The code with which the process ends.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Failure::Failed(_) => ExitCode::from(1),
            Failure::Usage(_) => ExitCode::from(2),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Failed(message) | Failure::Usage(message) => f.write_str(message),
        }
    }
}

impl From<heddledb::Error> for Failure {
    fn from(error: heddledb::Error) -> Self {
        use heddledb::Error::{InvalidOption, NotADatabase, NotEmpty, UnknownTable};
        match error {
            InvalidOption { option, given, expected } => {
                let named = name_here(option).map_or(option.to_owned(), |name| format!("{name} ({option})"));
                Failure::Usage(format!("option {named} cannot be {given}: it takes {expected}"))
            }
            NotADatabase { .. } | NotEmpty { .. } | UnknownTable { .. } => Failure::Usage(error.to_string()),
            other => Failure::Failed(other.to_string()),
        }
    }
}

/// The command-line name of an engine option.
fn name_here(option: &str) -> Option<&'static str> {
    Some(match option {
        "workers" => "--threads",
        "threads.input" => "--input-threads",
        "threads.output" => "--output-threads",
        "queues.max_in_flight" => "--max-in-flight",
        "log.group_size" => "--group-size",
        "log.group_milliseconds" => "--group-ms",
        "phased.phase_milliseconds" => "--phase-ms",
        "serial.partitions" => "--sites",
        "partitioned.executors" => "--executors",
        "checkpoints.threads" => "--checkpoint-threads",
        "checkpoints.seconds" => "--checkpoint-seconds",
        "diagnostics.time_samples" => "--time-samples",
        _ => return None,
    })
}

impl From<heddle_workloads::Error> for Failure {
    fn from(error: heddle_workloads::Error) -> Self {
        match error {
            heddle_workloads::Error::Engine(error) => error.into(),
            heddle_workloads::Error::Unusable(message) => Failure::Usage(message),
            other => Failure::Failed(other.to_string()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Failed(error.to_string())
    }
}
