//! Standard output and standard error.
//!
//! Invariants:
//! - A reader that stops early, as `head` does, is no error: the rest of the output is dropped, and the
//!   command continues to its exit code.
//! - Any other failure to write results ends the command with exit code 1, and never with a panic.

use std::fmt::Display;
use std::io::{self, Write};

use crate::failure::{Failure, Result};

/// Prints a line of results.
pub fn print(line: impl Display) -> Result {
    let mut output = io::stdout().lock();
    written(writeln!(output, "{line}").and_then(|()| output.flush()))
}

/// The outcome of writing results.
pub fn written(outcome: io::Result<()>) -> Result {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(|error| Failure::Failed(format!("cannot write to standard output: {error}"))),
    }
}

/// Prints a message on standard error. It is lost where that cannot be written.
pub fn report(message: impl Display) {
    let _ = writeln!(io::stderr(), "{message}");
}
