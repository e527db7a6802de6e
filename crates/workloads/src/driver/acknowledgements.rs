//! Writes acknowledgements out of the process: one line for each released call, with the key by which it can be found.
//!
//! # Invariants
//! A line is written only after its call has been released. Whole lines are passed to the operating system in one
//! write, so that a process that is killed leaves at most one truncated line.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::{Error, Result};

/// The file or pipe that takes the lines.
pub(super) struct Acknowledgements {
    file: Mutex<File>,
    name: String,
}

impl Acknowledgements {
    /// Opens a file or a pipe to append to; makes the file.
    pub fn open(path: &Path) -> Result<Self> {
        let name = format!("writing acknowledgements to {}", path.display());
        let file = OpenOptions::new().append(true).create(true).open(path);
        let file = Mutex::new(file.map_err(|reason| Error::stream(&name, reason))?);
        Ok(Self { file, name })
    }

    /// Writes whole lines.
    pub fn write(&self, lines: &str) -> Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(lines.as_bytes()).map_err(|reason| Error::stream(&self.name, reason))
    }
}

/// Reads the keys that a run has acknowledged. A last line without its end was cut off by the end of the process
/// and says nothing.
pub fn read_acknowledgements(path: &Path) -> Result<Vec<String>> {
    let failed = |reason| Error::stream(format!("reading acknowledgements from {}", path.display()), reason);
    let mut reader = BufReader::new(File::open(path).map_err(failed)?);
    let (mut keys, mut line) = (Vec::new(), String::new());
    while reader.read_line(&mut line).map_err(failed)? > 0 {
        if line.pop() == Some('\n') {
            keys.push(std::mem::take(&mut line));
        }
        line.clear();
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_lines_are_read_back_and_a_truncated_one_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("acks");
        let acknowledgements = Acknowledgements::open(&path).unwrap();
        acknowledgements.write("1 2 3\n1 2 4\n").unwrap();
        acknowledgements.write("1 2 5\n1 2").unwrap();
        assert_eq!(read_acknowledgements(&path).unwrap(), ["1 2 3", "1 2 4", "1 2 5"]);
    }

    #[test]
    fn a_second_run_appends() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("acks");
        for key in ["a\n", "b\n"] {
            Acknowledgements::open(&path).unwrap().write(key).unwrap();
        }
        assert_eq!(read_acknowledgements(&path).unwrap(), ["a", "b"]);
    }

    #[test]
    fn errors_name_the_file() {
        let missing = Path::new("/nonexistent/acks");
        for error in [Acknowledgements::open(missing).err(), read_acknowledgements(missing).err()] {
            assert!(error.unwrap().to_string().contains("/nonexistent/acks"));
        }
    }
}
