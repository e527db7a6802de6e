//! Tests whose tool is missing: each says so beside what the test harness captures, and is counted.
//!
//! - `HEDDLE_REQUIRED`: names of tools that a run must have, separated by commas, or `all`. A test that misses one fails.
//! - `HEDDLE_SKIPPED`: a file to which each skipped test adds a line, so that a run of many programs can count them.
//!
//! Invariant: every test that returns early for the lack of a tool goes through [`skip`].

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of tests of this program that were skipped.
static SKIPPED: AtomicUsize = AtomicUsize::new(0);

/// Notes that the running test is skipped, because a tool is missing for this reason.
///
/// # Panics
/// The tool is required.
pub fn skip(tool: &str, why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    assert!(!is_required(tool), "{test} needs {tool}, which HEDDLE_REQUIRED names: {why}");
    // Relaxed: only a number for the reader.
    let count = SKIPPED.fetch_add(1, Ordering::Relaxed) + 1;
    // Written directly: what print macros write of a test that passes is never shown.
    let _ = writeln!(std::io::stderr(), "skipped: {test}: {why} ({count} of this program)");
    if let Some(path) = std::env::var_os("HEDDLE_SKIPPED") {
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.and_then(|mut file| writeln!(file, "{tool}\t{test}\t{why}"))
            .expect("HEDDLE_SKIPPED can be written");
    }
}

fn is_required(tool: &str) -> bool {
    let required = std::env::var("HEDDLE_REQUIRED").unwrap_or_default();
    required.split(',').any(|name| name == "all" || name == tool)
}
