//! Runs of the benchmark, each a process of its own, so that none warms the memory for the next one.

use std::fs;
use std::io::{Read, Seek};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::failure::{Failure, Result};
use crate::output;

/// Pause between two looks at a process.
const LOOK: Duration = Duration::from_millis(5);

/// Tells how far it has come.
pub struct Progress {
    done: usize,
    failed: usize,
    runs: usize,
    begun: Instant,
}

impl Progress {
    pub fn new(runs: usize) -> Progress {
        Progress { done: 0, failed: 0, runs, begun: Instant::now() }
    }

    /// The next run begins.
    pub fn next(&mut self, command: &str) {
        let elapsed = self.begun.elapsed().as_secs_f64();
        let left = match self.done {
            0 => String::new(),
            done => {
                format!(", {} to go", duration(elapsed / done as f64 * (self.runs - done) as f64))
            }
        };
        self.done += 1;
        output::report(format_args!("{} of {}{left}: heddle {command}", self.done, self.runs));
    }

    /// The run has failed.
    pub fn fail(&mut self) {
        self.failed += 1;
    }

    /// Fails if a run has failed; the table is complete all the same.
    pub fn outcome(&self) -> Result {
        let Progress { failed, runs, .. } = *self;
        if failed == 0 { Ok(()) } else { Err(Failure::Failed(format!("{failed} of {runs} runs failed"))) }
    }
}

/// A time in words.
fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    if seconds < 90 { format!("{seconds} s") } else { format!("{} min", seconds.div_ceil(60)) }
}

/// Runs a benchmark; `None` if it fails, which the table shows.
pub fn run_bench(progress: &mut Progress, arguments: &[String]) -> Result<Option<Value>> {
    let command = arguments.join(" ");
    progress.next(&command);
    let output = Command::new(std::env::current_exe()?).args(arguments).stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let object = serde_json::from_str(text.lines().last().unwrap_or_default()).ok();
    let object = object.filter(|_| output.status.success());
    if object.is_none() {
        progress.fail();
        output::report(format_args!("heddle {command} failed: see above"));
    }
    Ok(object)
}

/// Runs a process of this program to its end, or for as long as it may take, and gives the object on the last line of its
/// output.
///
/// # Errors
/// The reason in words: what it reported last, or that it took too long.
pub fn run_within(limit: Duration, arguments: &[String]) -> std::result::Result<Value, String> {
    let failed = |error: std::io::Error| error.to_string();
    let [mut output, mut errors] =
        [tempfile::tempfile().map_err(failed)?, tempfile::tempfile().map_err(failed)?];
    let mut child = Command::new(std::env::current_exe().map_err(failed)?)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output.try_clone().map_err(failed)?)
        .stderr(errors.try_clone().map_err(failed)?)
        .spawn()
        .map_err(failed)?;
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) => break status,
            None if begun.elapsed() < limit => thread::sleep(LOOK),
            None => {
                child.kill().and_then(|()| child.wait()).map_err(failed)?;
                return Err(format!("not at its end after {}", duration(limit.as_secs_f64())));
            }
        }
    };
    let object =
        text_of(&mut output)?.lines().last().and_then(|line| serde_json::from_str::<Value>(line).ok());
    // A run whose check failed ends with an error and an object: the object says more.
    let object = object.filter(|object| status.success() || object["check"] != "ok");
    object.ok_or_else(|| {
        let errors = text_of(&mut errors).unwrap_or_default();
        let last = errors.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("it reported nothing");
        format!("{last} ({status})")
    })
}

fn text_of(file: &mut fs::File) -> std::result::Result<String, String> {
    let mut bytes = Vec::new();
    file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map_err(|error| error.to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_to_go_are_reported_in_seconds_and_then_in_minutes() {
        assert_eq!([0.4, 89.4, 91.0, 601.0].map(duration), ["0 s", "89 s", "2 min", "11 min"]);
    }
}
