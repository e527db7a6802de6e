//! The conformance suite: the behavior that every protocol must have.
//!
//! It knows databases by their public interface only, so it is compiled twice: into the crate's own tests, where
//! deliberately broken protocols prove that it catches them, and into `tests/integration/conformance.rs`, where each protocol
//! enters it with one line. Its parts:
//!
//! 1. [`semantics`]: on one thread, every step of the golden scripts in `tests/scripts/semantics` answers as it is
//!    written there, and random scripts answer as the [`model`] does, and as under the reference.
//! 2. [`anomalies`]: the schedules in `tests/scripts/anomalies`, each of which shows one isolation anomaly where it is
//!    possible, and random schedules: what is seen must have a serial order ([`oracle`]).
//! 3. [`histories`]: many random transactions on several threads, checked by their precedence graph; and transactions on
//!    parents and children, which a foreign key keeps together.
//!
//! Invariants: nothing is judged by time. How fast a thread runs decides which interleaving happens; every
//! interleaving must be right.
//!
//! `HEDDLE_SEED=<n>` runs one random script or history again, `HEDDLE_ROUNDS=<n>` this many times as many of them. A seed
//! says what is done; on several threads, which calls meet is the machine's choice.

pub mod anomalies;
pub mod changer;
pub mod generator;
pub mod histories;
pub mod model;
pub mod mover;
pub mod oracle;
pub mod perform;
pub mod script;
pub mod script_run;
pub mod script_thread;
pub mod semantics;
pub mod step;

use self::changer::Changer;
use self::mover::Mover;
use heddledb::{Database, Durability, Options};

/// The subject of a test: a protocol, with options.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The name, for messages.
    pub name: String,
    pub options: Options,
    /// True if columns are labelled to be split: under protocols that split nothing it makes no difference.
    pub labels: bool,
    /// True if boundaries between executors move all the time.
    pub moves: bool,
    /// True if the protocol changes all the time.
    pub changes: bool,
}

impl Subject {
    /// A database without files and without tables.
    pub fn database(&self) -> Database {
        Database::in_memory_with(self.options.clone().durability(Durability::None)).expect("options")
    }

    /// Starts the disturbance of the test, which lasts as long as the returned mover is kept.
    pub fn disturb(&self, db: &Database) -> (Option<Mover>, Option<Changer>) {
        (self.moves.then(|| Mover::of(db)), self.changes.then(|| Changer::of(db)))
    }
}

/// The seeds to run: `count` of them, `HEDDLE_ROUNDS` times as many, or the one that `HEDDLE_SEED` names.
pub fn seeds(count: u64) -> Vec<u64> {
    match number_from("HEDDLE_SEED") {
        Some(seed) => vec![seed],
        None => (0..count * number_from("HEDDLE_ROUNDS").unwrap_or(1)).collect(),
    }
}

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}
