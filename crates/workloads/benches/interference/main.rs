//! The cost of one kind of work for another that runs alongside, and checks that both are right.
//!
//! `cargo bench -p heddle-workloads --bench interference -- MODE [--OPTION VALUE]...` prints a table and a line of JSON. Modes that
//! compare two rates alternate between them, in one process, and compare the medians.
//!
//! | mode | what it measures |
//! | --- | --- |
//! | `snapshot-scans` | debit-credit on one thread beside scans of all accounts, each on a new snapshot |
//! | `frequent-snapshots` | `like` beside 100 snapshots a second |
//! | `bank` | transfers on eight threads beside two that sum all accounts in snapshots |
//! | `idle-sessions` | the memory of 10,000 open transactions, and debit-credit beside them |
//! | `session-commit` | how long debit-credit waits while a session commits 100,000 rows |
//! | `create-index` | how long debit-credit waits while a million accounts get an index |
//! | `add-column` | how long it takes to add columns to a large table (`--rows 10000000`), and the longest update beside it |
//! | `sold-out` | refused orders of the only item, on eight threads: `phased` beside `optimistic` |
//! | `selling` | orders of the only item while stock lasts, on two threads: the same |
//! | `feed` | debit-credit beside a change feed of its history, and how far the feed lags |
//! | `slow-feed` | additions beside two feeds that are read too slowly: memory, and how they end |
//!
//! # Invariants
//! - Every mode verifies what it has read and what it has left in the database; if anything is wrong, it fails with a message, and
//!   prints no figures.
//! - A bound that is asked for is printed beside what was measured, and is never a reason to fail: that depends on the machine.

mod arguments;
mod bank;
mod feed;
mod figures;
mod flash_sale;
mod load;
mod schema;
mod sessions;
mod slow_feed;
mod snapshots;

use std::process::ExitCode;

use arguments::Arguments;
use figures::Figures;

/// The command line's allocator, so that figures agree with those of `heddle bench`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The error that ends a mode.
type Failure = Box<dyn std::error::Error + Send + Sync>;
type Result<T = ()> = std::result::Result<T, Failure>;

/// One mode: its name, and what it does.
type Mode = (&'static str, fn(&mut Arguments) -> Result<Figures>);

const MODES: [Mode; 11] = [
    ("snapshot-scans", snapshots::scans),
    ("frequent-snapshots", snapshots::frequent),
    ("bank", bank::run),
    ("idle-sessions", sessions::idle),
    ("session-commit", sessions::commit),
    ("create-index", schema::create_index),
    ("add-column", schema::add_column),
    ("sold-out", flash_sale::sold_out),
    ("selling", flash_sale::selling),
    ("feed", feed::run),
    ("slow-feed", slow_feed::run),
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result {
    let mut arguments = Arguments::of_process()?;
    let found = MODES.iter().find(|(name, _)| *name == arguments.mode());
    let Some((name, mode)) = found else {
        let names: Vec<&str> = MODES.iter().map(|(name, _)| *name).collect();
        return Err(format!("{:?}: not a mode; give one of {}", arguments.mode(), names.join(", ")).into());
    };
    mode(&mut arguments)?.print(name);
    Ok(())
}
