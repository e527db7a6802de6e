//! The order of the runs: in rounds, each of all commands in random order, so that what else the machine does meets all of
//! them, and an interrupted measurement has each point once before it has one twice.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::experiment::{Experiment, Size};
use super::results::{Results, Run};
use super::runs::Progress;
use crate::failure::Result;
use crate::output;

/// A way to run `heddle bench` with these arguments: its JSON, or the reason why there is none.
pub type Runner<'r> = &'r mut dyn FnMut(&[String]) -> std::result::Result<Value, String>;

/// The runs to make.
pub struct Session<'e> {
    pub experiments: &'e [&'e Experiment],
    pub size: Size,
    pub rounds: usize,
    /// No run begins later than this.
    pub deadline: Option<Duration>,
}

/// Makes the runs that `results` lacks, in the order that `shuffle` gives each round. Returns the number of runs for which no
/// time was left.
pub fn measure(
    session: &Session<'_>,
    keys: &[String],
    results: &mut Results,
    run: Runner<'_>,
    shuffle: impl FnMut(&mut Vec<String>),
) -> Result<usize> {
    let begun = Instant::now();
    let missing = missing(session, results, shuffle);
    let mut progress = Progress::new(missing.len());
    for (number, command) in missing.iter().enumerate() {
        if session.deadline.is_some_and(|deadline| begun.elapsed() >= deadline) {
            return Ok(missing.len() - number);
        }
        progress.next(&format!("bench {command}"));
        let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let started = Instant::now();
        let outcome = run(&arguments(command));
        let made = Run::new(at, started.elapsed().as_secs_f64(), outcome, keys);
        if let Some(failure) = &made.failure {
            output::report(format_args!("heddle bench {command} failed: {failure}"));
        }
        results.add(command, made)?;
    }
    Ok(0)
}

/// The commands of the rounds that are not there, round by round.
fn missing(
    session: &Session<'_>,
    results: &Results,
    mut shuffle: impl FnMut(&mut Vec<String>),
) -> Vec<String> {
    let all = commands(session.experiments, session.size);
    let of_round = |round: usize| {
        let lacks = |command: &&String| results.runs(command).len() <= round;
        let mut missing: Vec<String> = all.iter().filter(lacks).cloned().collect();
        shuffle(&mut missing);
        missing
    };
    (0..session.rounds).flat_map(of_round).collect()
}

/// The commands of these experiments, each once. One that lacks processors has none.
pub fn commands(experiments: &[&Experiment], size: Size) -> Vec<String> {
    let possible = experiments.iter().filter(|experiment| !experiment.lacks_processors(size));
    let mut commands: Vec<String> = possible.flat_map(|experiment| experiment.commands(size)).collect();
    commands.sort();
    commands.dedup();
    commands
}

/// The arguments of a process that runs a command.
fn arguments(command: &str) -> Vec<String> {
    let words = std::iter::once("bench").chain(command.split(' ')).chain(["--json"]);
    words.map(str::to_owned).collect()
}
