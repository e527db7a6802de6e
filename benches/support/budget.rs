//! The distribution of an operation's instructions: callgrind's counts, line by line, summed by part of the
//! engine.
//!
//! A line of the engine counts for the part that its file belongs to, also where the compiler has inlined it elsewhere. A
//! line of the standard library or of another crate counts for the file of the function that it was inlined into, because
//! that file has asked for it; a function of theirs that was not inlined counts as "library".
//!
//! The benches of the engine and of the workloads share this file.
//!
//! Invariants: each instruction counts for one part, so that the parts add up to the whole.

use std::collections::HashMap;

/// The parts of a transaction, and the beginnings of the files' names that belong to each. The first one that fits counts.
pub const PARTS: [(&str, &[&str]); 11] = [
    ("body", &["benches/", "crates/"]),
    (
        "slot, attempt, outcome",
        &[
            "src/pipeline/",
            "src/database",
            "src/worker.rs",
            "src/storage/work",
            "src/diagnostics/",
            CROSSBEAM,
        ],
    ),
    (
        "procedure",
        &["src/procedure", "src/types/args.rs", "src/types/values.rs", "src/protocol/footprint.rs"],
    ),
    ("key, hash", &["src/types/", "src/storage/routing.rs", "src/storage/index/hash/key.rs", "foldhash"]),
    ("index", &["src/storage/index/"]),
    ("access", &["src/protocol/attempt/", "src/transaction", "src/storage/read_set.rs"]),
    ("protocol", &["src/protocol/", "src/lock/"]),
    (
        "table, row",
        &["src/storage/record.rs", "src/storage/row", "src/storage/table", "src/row", "src/table.rs"],
    ),
    ("write set", &["src/storage/write_set"]),
    ("redo, log", &["src/storage/redo", "src/durability/"]),
    ("commit", &["src/storage/", "src/operation/", "src/base/"]),
];

const CROSSBEAM: &str = "crossbeam-epoch";

/// The name for instructions that belong to none of the parts.
pub const LIBRARY: &str = "library";

/// Instructions of each part, in the order of [`PARTS`], and of the library at the end.
pub type Budget = [u64; PARTS.len() + 1];

/// Callgrind's counts.
#[derive(Debug, Default)]
pub struct Profile {
    /// Instructions.
    pub parts: Budget,
    /// Reads and writes that the simulated first cache did not hold; 0 without a simulation.
    pub d1_misses: u64,
    /// Those that the last cache did not hold either.
    pub ll_misses: u64,
}

/// Sums up what callgrind has written.
///
/// # Errors
/// What cannot be read of it.
pub fn sum_up(profile: &str) -> Result<Profile, String> {
    let (mut sum, mut files) = (Profile::default(), HashMap::new());
    let mut events: Vec<&str> = vec!["Ir"];
    // The part of the present line's file, and of the file of the function around it.
    let (mut here, mut around) = (None, None);
    let mut is_call = false;
    for line in profile.lines() {
        if let Some(names) = line.strip_prefix("events:") {
            events = names.split_whitespace().collect();
            continue;
        }
        if let Some((key, value)) = line.split_once('=') {
            match key {
                "fl" | "fi" | "fe" => here = part_of(value, &mut files),
                "cfi" | "cfl" => {
                    part_of(value, &mut files);
                }
                "fn" => around = here,
                // The next line has the cost of all that is called, which counts where it is spent.
                "calls" => is_call = true,
                _ => {}
            }
            continue;
        }
        if !line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            continue;
        }
        if std::mem::take(&mut is_call) {
            continue;
        }
        for (event, count) in events.iter().zip(line.split_whitespace().skip(1)) {
            let count: u64 = count.parse().map_err(|_| format!("callgrind has written {line:?}"))?;
            match *event {
                "Ir" => sum.parts[here.or(around).unwrap_or(PARTS.len())] += count,
                "D1mr" | "D1mw" => sum.d1_misses += count,
                "DLmr" | "DLmw" => sum.ll_misses += count,
                _ => {}
            }
        }
    }
    Ok(sum)
}

/// The part of a file: `(12) name` where it is named for the first time, `(12)` from then on.
fn part_of(value: &str, files: &mut HashMap<String, Option<usize>>) -> Option<usize> {
    let (number, name) = value.split_once(' ').unwrap_or((value, ""));
    if name.is_empty() {
        return files.get(number).copied().flatten();
    }
    let folder = env!("CARGO_MANIFEST_DIR");
    let own = name
        .strip_prefix(folder.strip_suffix("/crates/workloads").unwrap_or(folder))
        .map(|name| name.trim_start_matches('/'));
    // Of another crate the folder's name says which it is.
    let known = own.or_else(|| name.rsplit('/').find(|folder| folder.starts_with(CROSSBEAM)));
    let known = known.or_else(|| name.rsplit('/').find(|folder| folder.starts_with("foldhash")));
    let part = known.and_then(|name| {
        PARTS
            .iter()
            .position(|(_, beginnings)| beginnings.iter().any(|&beginning| name.starts_with(beginning)))
    });
    files.insert(number.to_string(), part);
    part
}
