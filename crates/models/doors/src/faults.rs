//! Faults on purpose: one access of the engine's made wrong, to see that the models would notice.
//!
//! A place is named by file, function and a piece of its line, so that it is found again when lines move, and missed
//! loudly when the code changes. The fault comes from the environment: `HEDDLE_MODEL_FAULT=kind|file|function|code`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::panic::Location;
use std::path::Path;
use std::sync::OnceLock;

use crate::atomics::Word;

/// The variable of the environment.
pub const VARIABLE: &str = "HEDDLE_MODEL_FAULT";

/// The way in which an access is made wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The ordering is relaxed; a fence is none.
    Weaken,
    /// A store, a fence, a read-modify-write or a waking does not happen.
    Skip,
    /// A read-modify-write is a load and a store, with a gap between; a lock is released as soon as it is taken.
    Tear,
    /// A compare-and-swap compares nothing.
    Blind,
    /// A load gives what this thread loaded there before.
    Stale,
}

const FAULTS: [(&str, Fault); 5] = [
    ("weaken", Fault::Weaken),
    ("skip", Fault::Skip),
    ("tear", Fault::Tear),
    ("blind", Fault::Blind),
    ("stale", Fault::Stale),
];

/// An access that is made wrong: the fault and its place.
struct Seeded {
    fault: Fault,
    file: String,
    line: u32,
}

fn seeded() -> Option<&'static Seeded> {
    static SEEDED: OnceLock<Option<Seeded>> = OnceLock::new();
    SEEDED.get_or_init(|| std::env::var(VARIABLE).ok().map(|text| parse(&text))).as_ref()
}

fn parse(text: &str) -> Seeded {
    let parts: Vec<&str> = text.splitn(4, '|').collect();
    let [kind, file, function, code] = parts[..] else {
        panic!("{VARIABLE}=kind|file|function|code: {text}")
    };
    let Some((_, fault)) = FAULTS.iter().find(|(name, _)| *name == kind) else {
        panic!("no such fault: {kind}")
    };
    Seeded { fault: *fault, file: file.to_string(), line: line_of(file, function, code) }
}

/// The line, from 1, of the first place in a function of this name that contains the code; `code@2`: of the second.
///
/// # Panics
/// There is none: the code has changed.
pub fn line_of(file: &str, function: &str, code: &str) -> u32 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (code, number) = match code.rsplit_once('@') {
        Some((code, number)) => (code, number.parse().unwrap_or(1)),
        None => (code, 1),
    };
    let mut name = "";
    let lines = text.lines().enumerate().filter(|(_, line)| {
        name = name_of_function(line).unwrap_or(name);
        name == function && line.contains(code)
    });
    match lines.map(|(line, _)| line as u32 + 1).nth(number - 1) {
        Some(line) => line,
        None => panic!("{file}: `{function}` has no `{code}` (any more): name the fault's new place"),
    }
}

/// The function that begins in this line.
fn name_of_function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let (before, rest) = line.split_once("fn ")?;
    let is_declared = ["", "pub ", "pub(crate) ", "pub(super) ", "pub(crate) unsafe "].contains(&before);
    is_declared.then(|| rest.split(['(', '<']).next().unwrap_or_default())
}

/// The fault of this access, if it is the one that is made wrong.
pub(crate) fn at(caller: &Location<'_>) -> Option<Fault> {
    let seeded = seeded()?;
    (seeded.line == caller.line() && caller.file().ends_with(&seeded.file)).then_some(seeded.fault)
}

thread_local! {
    /// The value that each thread of the model has loaded last from each word, where a fault asks for it.
    static SEEN: RefCell<HashMap<(String, usize), u64>> = RefCell::default();
}

fn key(word: &Word) -> (String, usize) {
    (format!("{:?}", crate::thread::current().id()), word.bits().addr())
}

pub(crate) fn see(word: &Word, value: u64) -> u64 {
    if seeded().is_some_and(|seeded| seeded.fault == Fault::Stale) {
        SEEN.with_borrow_mut(|seen| seen.insert(key(word), value));
    }
    value
}

pub(crate) fn last_seen(word: &Word) -> Option<u64> {
    SEEN.with_borrow(|seen| seen.get(&key(word)).copied())
}

pub(crate) fn forget() {
    SEEN.with_borrow_mut(HashMap::clear);
}
