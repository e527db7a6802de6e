//! Options for checkpoints, and those that are made after this many calls.

use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::{Args, ValueEnum};
use heddledb::{Database, Options};
use serde_json::Value;

use super::beside::{Ended, beside};
use crate::failure::Result;

/// Interval between two checks of the number of calls.
const LOOK: Duration = Duration::from_millis(1);

/// Options of checkpoints: their times and their directories.
#[derive(Args, Clone, Debug, Default)]
pub struct CheckpointArguments {
    /// Make checkpoints when the log has grown enough, or only as --checkpoint-seconds says [default: auto]
    #[arg(long, value_name = "WHEN", value_enum, help_heading = "For experiments: engine")]
    pub checkpoint: Option<When>,
    /// Make a checkpoint every this many seconds, fractions allowed
    #[arg(long, value_name = "N", help_heading = "For experiments: engine")]
    pub checkpoint_seconds: Option<f64>,
    /// Spread a checkpoint over this share of the way to the next one, 0 to 1; 0: as fast as it can be made [default:
    /// 0.8]
    #[arg(long, value_name = "SHARE", help_heading = "For experiments: engine")]
    pub checkpoint_spread: Option<f64>,
    /// Make a checkpoint after every this many calls
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "For experiments: engine")]
    pub checkpoint_transactions: Option<u64>,
    /// Keep checkpoints in this directory [default: the database's]; repeatable: striped over all of them
    #[arg(long, value_name = "PATH", help_heading = "For experiments: engine")]
    pub checkpoint_dir: Vec<PathBuf>,
    /// Threads that write a checkpoint [default: 1 or 2, at least one for each --checkpoint-dir]
    #[arg(long, value_name = "N", help_heading = "For experiments: engine")]
    pub checkpoint_threads: Option<usize>,
    /// Start a follower, a process of its own, which writes the checkpoints
    #[arg(long, conflicts_with = "follower_socket", help_heading = "For experiments: engine")]
    pub follower: bool,
    /// Wait at this socket for a follower that is started separately
    #[arg(long, value_name = "PATH", help_heading = "For experiments: engine")]
    pub follower_socket: Option<PathBuf>,
}

/// Automatic checkpoints, by the size of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// A checkpoint once the log has grown enough.
    Auto,
    /// No checkpoint for that reason.
    Never,
}

impl When {
    fn name(self) -> &'static str {
        match self {
            When::Auto => "auto",
            When::Never => "never",
        }
    }
}

impl CheckpointArguments {
    /// The engine's options; what was left out is its own choice.
    pub fn apply(&self, mut options: Options) -> Options {
        if self.checkpoint == Some(When::Never) {
            options = options.checkpoints(|checkpoints| checkpoints.log_bytes(0));
        }
        if let Some(seconds) = self.checkpoint_seconds {
            options = options.checkpoints(|checkpoints| checkpoints.seconds(seconds));
        }
        if let Some(share) = self.checkpoint_spread {
            options = options.checkpoints(|checkpoints| checkpoints.spread(share));
        }
        if let Some(threads) = self.checkpoint_threads {
            options = options.checkpoints(|checkpoints| checkpoints.threads(threads));
        }
        if let Some(socket) = &self.follower_socket {
            options = options.checkpoints(|checkpoints| checkpoints.follower_socket(socket));
        }
        self.checkpoint_dir
            .iter()
            .fold(options, |options, path| options.checkpoints(|checkpoints| checkpoints.directory(path)))
    }

    /// Does something, and makes a checkpoint beside it after every this many calls. Those that are due at its end are
    /// made after it.
    pub fn beside<T>(&self, db: &Database, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let Some(calls) = self.checkpoint_transactions else { return work() };
        // Read before the work begins, which the other thread may see late.
        let first = db.statistics().committed;
        let (outcome, made) = beside("checkpoints", |ended| make_every(db, calls, first, ended), work)?;
        outcome.and_then(|outcome| Ok(made.map(|()| outcome)?))
    }

    /// The options that were given and belong to the results.
    pub fn parameters(&self) -> Vec<(&'static str, Value)> {
        let when = self.checkpoint.map(|when| ("checkpoint", when.name().into()));
        let seconds = self.checkpoint_seconds.map(|seconds| ("checkpoint_seconds", seconds.into()));
        let spread = self.checkpoint_spread.map(|share| ("checkpoint_spread", share.into()));
        let transactions = self.checkpoint_transactions;
        let transactions = transactions.map(|transactions| ("checkpoint_transactions", transactions.into()));
        let directories = self.checkpoint_dir.iter().map(|path| path.display().to_string());
        let directories = (!self.checkpoint_dir.is_empty())
            .then(|| ("checkpoint_dir", directories.collect::<Vec<_>>().into()));
        let threads = self.checkpoint_threads.map(|threads| ("checkpoint_threads", threads.into()));
        let follower = self.follower.then(|| ("follower", true.into()));
        [when, seconds, spread, transactions, directories, threads, follower].into_iter().flatten().collect()
    }
}

/// Makes a checkpoint after every this many calls beyond the first ones.
fn make_every(db: &Database, calls: u64, first: u64, ended: &Ended) -> heddledb::Result<()> {
    let mut made = 0;
    loop {
        // The counters are read after this: those of a run that is over are complete.
        let is_over = ended.is_set();
        if made < (db.statistics().committed - first) / calls {
            db.checkpoint()?;
            made += 1;
        } else if is_over {
            return Ok(());
        } else {
            thread::sleep(LOOK);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heddledb::{DataType, TableDefinition, row};

    #[test]
    fn a_checkpoint_is_made_after_every_n_calls_and_one_that_is_due_at_the_end_is_made() {
        let place = tempfile::tempdir().unwrap();
        let db = Database::open(
            place.path(),
            Options::default().checkpoints(|checkpoints| checkpoints.log_bytes(0)),
        )
        .unwrap();
        let definition = TableDefinition::new("t").column("id", DataType::Int64).primary_key(["id"]);
        let table = db.create_table(definition).unwrap();
        let options =
            CheckpointArguments { checkpoint_transactions: Some(10), ..CheckpointArguments::default() };
        let calls = |from: i64| {
            (from..from + 35).try_for_each(|id| db.run(|tx| tx.insert(&table, row![id])))?;
            Ok(())
        };
        options.beside(&db, || calls(0)).unwrap();
        assert_eq!(db.checkpoints().made, 3);
        CheckpointArguments::default().beside(&db, || calls(100)).unwrap();
        assert_eq!(db.checkpoints().made, 3);
    }
}
