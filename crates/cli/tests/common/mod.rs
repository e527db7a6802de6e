//! Starts the real binary.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The binary, with its arguments.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heddle"));
    command.args(arguments).stdin(Stdio::null());
    // What sets up the tests is no setting of a server's.
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(b"HEDDLE_") {
            command.env_remove(name);
        }
    }
    command
}

/// Runs the binary to its end.
pub fn heddle(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the binary starts")
}

/// Standard output of a run that has to succeed.
#[allow(dead_code, reason = "not every test file reads results")]
pub fn succeed(arguments: &[&str]) -> String {
    let output = heddle(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", errors(&output));
    String::from_utf8(output.stdout).expect("results are UTF-8")
}

/// The object on the last line of a run that has to succeed.
#[allow(dead_code, reason = "not every test file reads results")]
pub fn json(arguments: &[&str]) -> Value {
    let text = succeed(arguments);
    let last = text.lines().last().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {last}"))
}

/// The object of a run that shows something: the run is repeated, longer each time, until it does. How much happens within
/// a second depends on the machine and its load, and no test does.
#[allow(dead_code, reason = "not every test file reads results")]
pub fn json_once(arguments: &[&str], shows: impl Fn(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    for seconds in ["--seconds=0.4", "--seconds=1", "--seconds=3", "--seconds=10", "--seconds=30"] {
        last = json(&[arguments, &[seconds, "--json"]].concat());
        if shows(&last) {
            return last;
        }
    }
    panic!("{arguments:?} never shows it: {last}")
}

/// Standard error as text.
pub fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A file of the workloads' own data.
#[allow(dead_code, reason = "not every test file reads data")]
pub fn data(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../workloads/data").join(file)
}

/// A path as an argument.
#[allow(dead_code, reason = "not every test file names paths")]
pub fn text(path: &Path) -> &str {
    path.to_str().expect("test paths are UTF-8")
}

/// A number from the environment, or the usual one.
#[allow(dead_code, reason = "not every test file has such numbers")]
pub fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(usual)
}
