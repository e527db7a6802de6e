//! `results.json`: every run by its command, so that an interrupted measurement continues.
//!
//! Invariants:
//! - The file is replaced as a whole after each run: an interruption costs the run that is under way.
//! - Runs of two builds are never mixed.
//! - A failed run stays, as does one whose check found something: to repeat them is the user's decision (`--fresh`).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::failure::{Failure, Result};

/// The layout of the file.
const FORMAT: u32 = 1;

/// All runs, and the file in which they are.
pub struct Results {
    path: PathBuf,
    pub document: Document,
}

/// The content of the file.
#[derive(Debug, Serialize, Deserialize)]
pub struct Document {
    format: u32,
    /// The build that was measured.
    build: String,
    pub machine: Machine,
    /// Runs by command, after `heddle bench`.
    runs: BTreeMap<String, Vec<Run>>,
    /// The outcomes of the experiments, for other programs; they are computed from the runs.
    #[serde(default)]
    pub experiments: Vec<Value>,
}

/// The machine of the runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub processors: usize,
    pub model: String,
    pub memory_gib: f64,
    pub system: String,
}

/// One run of a command.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Seconds since 1970 at which it began.
    pub at: u64,
    /// The duration of the whole process, in seconds.
    pub took: f64,
    /// The parts of the run's JSON that figures use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// The reason for which its numbers do not count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl Run {
    /// A run, from its process's outcome. One whose check is not ok has failed, whatever its numbers are.
    pub fn new(at: u64, took: f64, outcome: std::result::Result<Value, String>, keys: &[String]) -> Run {
        let object = match outcome {
            Ok(object) => object,
            Err(failure) => return Run { at, took, result: None, failure: Some(failure) },
        };
        let failure = match object["check"].as_str() {
            Some("ok") => None,
            Some(wrong) => Some(format!("the check of its database failed: {wrong}")),
            None => Some("it does not say whether its database is right".to_owned()),
        };
        let kept: Map<String, Value> = keys
            .iter()
            .filter_map(|key| Some((key.clone(), object.get(key)?.clone())))
            .chain([("check".to_owned(), object["check"].clone())])
            .collect();
        Run { at, took, result: Some(kept.into()), failure }
    }
}

impl Results {
    /// Reads the file, or begins a new one.
    ///
    /// # Errors
    /// The file cannot be read, is none of these, or is of another build.
    pub fn open(path: &Path, build: &str, machine: Machine) -> Result<Results> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let document = Document {
                    format: FORMAT,
                    build: build.to_owned(),
                    machine,
                    runs: BTreeMap::new(),
                    experiments: Vec::new(),
                };
                return Ok(Results { path: path.to_owned(), document });
            }
            Err(error) => return Err(Failure::Failed(format!("{}: {error}", path.display()))),
        };
        let refused = |why: String| {
            Failure::Usage(format!("{}: {why}; give --fresh, or another --out", path.display()))
        };
        let document: Document = serde_json::from_str(&text)
            .map_err(|error| refused(format!("not the results of heddle figures ({error})")))?;
        if (document.format, document.build.as_str()) != (FORMAT, build) {
            let theirs = &document.build;
            return Err(refused(format!("runs of another build ({theirs}, and this is {build})")));
        }
        if document.machine != machine {
            return Err(refused("runs of another machine".to_owned()));
        }
        Ok(Results { path: path.to_owned(), document })
    }

    /// Drops the runs of these commands.
    pub fn forget(&mut self, commands: &[String]) {
        self.document.runs.retain(|command, _| !commands.contains(command));
    }

    /// The runs of a command.
    pub fn runs(&self, command: &str) -> &[Run] {
        self.document.runs.get(command).map_or(&[], Vec::as_slice)
    }

    /// The first and last second since 1970 at which a run began.
    pub fn time_span(&self) -> Option<(u64, u64)> {
        let times = || self.document.runs.values().flatten().map(|run| run.at);
        Some((times().min()?, times().max()?))
    }

    /// Adds a run, and writes the file.
    pub fn add(&mut self, command: &str, run: Run) -> Result {
        self.document.runs.entry(command.to_owned()).or_default().push(run);
        self.write()
    }

    /// Replaces the file.
    pub fn write(&self) -> Result {
        let text = serde_json::to_string_pretty(&self.document)
            .map_err(|error| Failure::Failed(format!("results: {error}")))?;
        replace(&self.path, &text)
    }
}

/// Replaces a file, so that a reader finds the old content or the new.
pub fn replace(path: &Path, text: &str) -> Result {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    fs::write(&new, text)
        .and_then(|()| fs::rename(&new, path))
        .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))
}

impl Machine {
    /// This machine, as far as Linux describes it.
    pub fn here(processors: usize) -> Machine {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let field = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let kibibytes = field(&read("/proc/meminfo"), "MemTotal")
            .and_then(|value| value.split_whitespace().next()?.parse::<f64>().ok());
        Machine {
            processors,
            model: field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".to_owned()),
            memory_gib: (kibibytes.unwrap_or(0.0) / 1024.0 / 1024.0).round(),
            system: format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn here() -> Machine {
        Machine { processors: 2, ..Machine::default() }
    }

    fn open(path: &Path, build: &str) -> Result<Results> {
        Results::open(path, build, here())
    }

    fn run(outcome: std::result::Result<Value, String>) -> Run {
        Run::new(7, 0.5, outcome, &["throughput".to_owned()])
    }

    #[test]
    fn runs_are_there_when_the_file_is_opened_again() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results.json");
        let mut results = open(&path, "a").unwrap();
        results.add("like", run(Ok(json!({ "throughput": 3.0, "check": "ok", "other": 1 })))).unwrap();
        results.add("probe", run(Err("killed".to_owned()))).unwrap();
        let mut again = open(&path, "a").unwrap();
        assert_eq!(again.runs("like")[0].result, Some(json!({ "throughput": 3.0, "check": "ok" })));
        assert_eq!(again.runs("probe")[0].failure.as_deref(), Some("killed"));
        assert!(again.runs("ycsb").is_empty());
        again.forget(&["like".to_owned()]);
        assert!(again.runs("like").is_empty() && again.runs("probe").len() == 1);
    }

    #[test]
    fn runs_of_another_build_or_machine_and_foreign_files_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("results.json");
        open(&path, "a").unwrap().write().unwrap();
        let refused = |outcome: Result<Results>| outcome.err().map(|failure| failure.to_string()).unwrap();
        assert!(refused(open(&path, "b")).contains("another build"));
        let other = Machine { processors: 80, ..here() };
        assert!(refused(Results::open(&path, "a", other)).contains("another machine"));
        fs::write(&path, "{}").unwrap();
        assert!(refused(open(&path, "a")).contains("--fresh"));
    }

    #[test]
    fn a_run_whose_check_is_not_ok_has_failed() {
        let of = |check: Value| run(Ok(json!({ "throughput": 9e9, "check": check }))).failure;
        assert_eq!(of(json!("ok")), None);
        assert!(of(json!("the sum is 3, not 4")).is_some_and(|why| why.contains("3, not 4")));
        assert!(of(Value::Null).is_some(), "a run without a check");
    }
}
