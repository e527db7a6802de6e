//! Why a command failed, and the exit code that says so.

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

/// What a command gives.
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
            InvalidOption { .. } | NotADatabase { .. } | NotEmpty { .. } | UnknownTable { .. } => {
                Failure::Usage(error.to_string())
            }
            other => Failure::Failed(other.to_string()),
        }
    }
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
