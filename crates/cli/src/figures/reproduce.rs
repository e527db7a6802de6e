//! `heddle figures` itself: measures experiments, and writes `results.json`, a plot for each, and `index.html`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use clap::Args;
use serde_json::{Value, json};

use super::catalog::{self, Paper};
use super::experiment::{Experiment, Size};
use super::measure::{self, Runner, Session};
use super::outcome::{Outcome, Status, evaluate};
use super::page::{self, Circumstances};
use super::plot;
use super::results::{Machine, Results, replace};
use super::runs::run_within;
use super::table;
use crate::failure::{Failure, Result};
use crate::output;

/// The rounds of a full measurement.
const ROUNDS: u16 = 3;
/// No quick run begins later, so that all is over within a quarter of an hour.
const QUICK_DEADLINE: Duration = Duration::from_secs(13 * 60);
/// Quick runs that are not at their end by then fail.
const QUICK_END: Duration = Duration::from_secs(14 * 60 + 30);
/// The longest time of one run that is not quick.
const RUN_MAX: Duration = Duration::from_secs(30 * 60);

/// Options of the page.
#[derive(Args)]
pub struct PageArguments {
    /// Measure only experiments with this text in their ids; repeatable [default: all]
    #[arg(long, value_name = "ID")]
    pub only: Vec<String>,
    /// One short run on little data for each point: every experiment in less than 15 minutes
    #[arg(long)]
    pub quick: bool,
    /// Runs of each point [default: 3; with --quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=99))]
    pub rounds: Option<u16>,
    /// Directory of results.json, the plots and index.html; runs that are in it are not repeated
    #[arg(long, value_name = "DIR", default_value = "figures")]
    pub out: PathBuf,
    /// Repeat the runs of these experiments, also those that are there
    #[arg(long)]
    pub fresh: bool,
    /// Print the outcomes as one JSON object on the last line of standard output
    #[arg(long)]
    pub json: bool,
}

impl PageArguments {
    fn rounds(&self) -> usize {
        usize::from(self.rounds.unwrap_or(if self.quick { 1 } else { ROUNDS }))
    }
}

/// Measures with processes of this program.
pub fn run(arguments: &PageArguments) -> Result {
    let experiments = catalog::experiments()?;
    let begun = Instant::now();
    let limit = || if arguments.quick { QUICK_END.saturating_sub(begun.elapsed()) } else { RUN_MAX };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let reproduction = Reproduction {
        arguments,
        experiments: &experiments,
        papers: &catalog::papers()?,
        build: &build()?,
        machine: Machine::here(processors),
    };
    let outcomes = reproduction.make(&mut |words| run_within(limit(), words))?;
    tell(arguments, &outcomes)?;
    let broken = outcomes.iter().filter(|outcome| outcome.status == Status::Broken).count();
    match broken {
        0 => Ok(()),
        _ => Err(Failure::Failed(format!("{broken} experiments are broken: see above"))),
    }
}

/// The build of this program.
fn build() -> Result<String> {
    let modified = fs::metadata(std::env::current_exe()?)?.modified()?;
    let seconds = modified.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Ok(format!("{} of {seconds}", env!("CARGO_PKG_VERSION")))
}

/// What is measured, where, and by which build.
pub struct Reproduction<'r> {
    pub arguments: &'r PageArguments,
    pub experiments: &'r [Experiment],
    pub papers: &'r [Paper],
    pub build: &'r str,
    pub machine: Machine,
}

impl<'r> Reproduction<'r> {
    /// Makes the missing runs, and writes all files. Returns the outcomes of the chosen experiments.
    pub fn make(&self, run: Runner<'_>) -> Result<Vec<Outcome<'r>>> {
        let arguments = self.arguments;
        let chosen = self.chosen()?;
        let size = Size { quick: arguments.quick, processors: self.machine.processors };
        fs::create_dir_all(&arguments.out)
            .map_err(|error| Failure::Usage(format!("--out {}: {error}", arguments.out.display())))?;
        let mut results = self.open(&chosen, size)?;
        let session = Session {
            experiments: &chosen,
            size,
            rounds: arguments.rounds(),
            deadline: arguments.quick.then_some(QUICK_DEADLINE),
        };
        let mut keys: Vec<String> = self.experiments.iter().flat_map(Experiment::keys).collect();
        keys.sort();
        keys.dedup();
        let left =
            measure::measure(&session, &keys, &mut results, run, |commands| fastrand::shuffle(commands))?;
        if left > 0 {
            output::report(format_args!("no time was left for {left} runs: the same command makes them"));
        }
        let outcomes: Vec<Outcome> =
            self.experiments.iter().map(|experiment| evaluate(experiment, &results, size)).collect();
        self.write(&outcomes, &mut results)?;
        let is_chosen =
            |outcome: &Outcome| chosen.iter().any(|experiment| experiment.id == outcome.experiment.id);
        Ok(outcomes.into_iter().filter(is_chosen).collect())
    }

    /// # Errors
    /// No experiment has one of the texts in its id.
    fn chosen(&self) -> Result<Vec<&'r Experiment>> {
        let only = &self.arguments.only;
        if let Some(text) =
            only.iter().find(|text| !self.experiments.iter().any(|one| one.id.contains(*text)))
        {
            let all: Vec<&str> = self.experiments.iter().map(|experiment| &*experiment.id).collect();
            let all = all.join(", ");
            return Err(Failure::Usage(format!(
                "--only {text}: no experiment has this in its id; there are {all}"
            )));
        }
        let wanted = |experiment: &&Experiment| {
            only.is_empty() || only.iter().any(|text| experiment.id.contains(text.as_str()))
        };
        // An id that is the beginning of another one means itself.
        let exact: Vec<_> = self.experiments.iter().filter(|one| only.contains(&one.id)).collect();
        let is_exact = !only.is_empty() && exact.len() == only.len();
        Ok(if is_exact { exact } else { self.experiments.iter().filter(wanted).collect() })
    }

    /// Opens the results, without those of runs that are to be repeated.
    fn open(&self, chosen: &[&Experiment], size: Size) -> Result<Results> {
        let path = self.arguments.out.join("results.json");
        if self.arguments.fresh && self.arguments.only.is_empty() {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        let mut results = Results::open(&path, self.build, self.machine.clone())?;
        if self.arguments.fresh {
            results.forget(&measure::commands(chosen, size));
        }
        Ok(results)
    }

    fn write(&self, outcomes: &[Outcome<'_>], results: &mut Results) -> Result {
        results.document.experiments = outcomes.iter().map(Outcome::json).collect();
        results.write()?;
        outcomes.iter().try_for_each(|outcome| pictures(&self.arguments.out, outcome))?;
        let circumstances = Circumstances {
            machine: &self.machine,
            time_span: results.time_span(),
            quick: self.arguments.quick,
            rounds: self.arguments.rounds(),
        };
        let page = page::page(outcomes, self.papers, &circumstances);
        replace(&self.arguments.out.join("index.html"), &page)
    }
}

/// Writes the plots of an experiment, each to a file of its own. A broken one has none, and loses those of earlier runs.
fn pictures(out: &Path, outcome: &Outcome<'_>) -> Result {
    let experiment = outcome.experiment;
    for drawn in &outcome.plots {
        let words = [experiment.id.as_str(), drawn.name].into_iter().filter(|word| !word.is_empty());
        let name = words.collect::<Vec<_>>().join("-").replace([' ', '%', '/', ','], "-");
        let path = out.join(format!("{name}.svg"));
        let has_points = drawn.lines.iter().any(|line| !line.points.is_empty());
        if has_points && outcome.status != Status::Broken {
            replace(&path, &plot::svg(drawn, &experiment.x, &experiment.title, true))?;
        } else if path.exists() {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

/// Prints the outcomes.
fn tell(arguments: &PageArguments, outcomes: &[Outcome<'_>]) -> Result {
    if arguments.json {
        let all: Vec<Value> = outcomes.iter().map(Outcome::json).collect();
        return output::print(json!({ "experiments": all }));
    }
    let rows: Vec<Value> = outcomes
        .iter()
        .map(|outcome| {
            let holds =
                outcome.checks.iter().flat_map(|checked| &checked.verdict).filter(|verdict| verdict.agrees);
            json!({
                "id": outcome.experiment.id,
                "title": outcome.experiment.title,
                "status": outcome.status.words(),
                "checks": format!("{} of {}", holds.count(), outcome.checks.len()),
                "reasons": outcome.reasons.join("; "),
            })
        })
        .collect();
    let columns = ["id", "title", "status", "checks", "reasons"];
    let cells = |row: &Value| columns.iter().map(|column| table::text_of(row, column)).collect();
    let heading = ["experiment", "", "shape", "checks that hold", ""].map(str::to_owned).to_vec();
    table::tell(false, "experiments", heading, &rows, cells)?;
    output::print(arguments.out.join("index.html").display())
}
