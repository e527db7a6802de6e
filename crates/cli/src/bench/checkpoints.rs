//! Options for checkpoints.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use heddledb::Options;
use serde_json::Value;

/// When checkpoints are made, and where they are.
#[derive(Args, Clone, Debug, Default)]
pub struct CheckpointOptions {
    /// Make checkpoints when the log has grown enough, or only as --checkpoint-seconds says [default: auto]
    #[arg(long, value_name = "WHEN", value_enum, help_heading = "Engine")]
    pub checkpoint: Option<When>,
    /// Make a checkpoint every so many seconds, fractions allowed
    #[arg(long, value_name = "N", help_heading = "Engine")]
    pub checkpoint_seconds: Option<f64>,
    /// Keep checkpoints in this directory [default: the database's]; repeatable: striped over all of them
    #[arg(long, value_name = "PATH", help_heading = "Engine")]
    pub checkpoint_dir: Vec<PathBuf>,
}

/// Whether checkpoints are made by the log's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// When the log has grown enough.
    Auto,
    /// Not for that reason.
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

impl CheckpointOptions {
    /// What the engine is told; what was left out is its own choice.
    pub fn apply(&self, mut options: Options) -> Options {
        if self.checkpoint == Some(When::Never) {
            options = options.checkpoint_log_bytes(0);
        }
        if let Some(seconds) = self.checkpoint_seconds {
            options = options.checkpoint_seconds(seconds);
        }
        self.checkpoint_dir.iter().fold(options, Options::checkpoint_directory)
    }

    /// What was given and belongs with the results.
    pub fn parameters(&self) -> Vec<(&'static str, Value)> {
        let when = self.checkpoint.map(|when| ("checkpoint", when.name().into()));
        let seconds = self.checkpoint_seconds.map(|seconds| ("checkpoint_seconds", seconds.into()));
        let directories = self.checkpoint_dir.iter().map(|path| path.display().to_string());
        let directories = (!self.checkpoint_dir.is_empty())
            .then(|| ("checkpoint_dir", directories.collect::<Vec<_>>().into()));
        [when, seconds, directories].into_iter().flatten().collect()
    }
}
