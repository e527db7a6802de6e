//! The experiments and the papers, embedded in the program.

use serde::Deserialize;

use super::experiment::Experiment;
use crate::failure::{Failure, Result};

/// Embeds the file of each experiment, in the order of the page.
macro_rules! experiments {
    ($($id:literal),* $(,)?) => { &[$(include_str!(concat!("experiments/", $id, ".toml"))),*] };
}

const EXPERIMENTS: &[&str] = experiments![
    "doppel-8",
    "doppel-9",
    "doppel-10",
    "doppel-11",
    "doppel-table-2",
    "doppel-12",
    "doppel-table-3",
    "doppel-13",
    "doppel-14",
    "doppel-table-4",
    "doppel-15",
    "sp-3",
    "sp-4",
    "sp-5",
    "tpk-table-1",
    "tpk-table-2",
    "prediction-1",
    "prediction-5",
    "prediction-6",
    "prediction-7",
    "prediction-8",
    "prediction-table-3",
    "prediction-9",
    "prediction-10",
    "prediction-11",
    "prediction-12",
    "prediction-table-4",
    "dora-1",
    "dora-3",
    "dora-4",
    "dora-7",
    "dora-8",
    "dora-10",
    "dora-11",
    "own-choices",
    "own-flash-sale",
    "own-sql",
];

const PAPERS: &str = include_str!("experiments/papers.toml");

/// A paper, and what of it is not measured.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    pub id: String,
    /// The name of its system.
    pub system: String,
    pub title: String,
    pub authors: String,
    pub year: u32,
    /// The numbers of its figures and tables.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test counts them"))]
    figures: u32,
    #[cfg_attr(not(test), expect(dead_code, reason = "a test counts them"))]
    tables: u32,
    #[serde(default)]
    pub absent: Vec<Absent>,
}

/// A figure that is not measured.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Absent {
    pub figure: String,
    pub reason: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Papers {
    paper: Vec<Paper>,
}

/// All experiments, in the order of the page.
pub fn experiments() -> Result<Vec<Experiment>> {
    EXPERIMENTS.iter().map(|text| Experiment::parse(text).map_err(Failure::Failed)).collect()
}

/// All papers, in the order of the page.
pub fn papers() -> Result<Vec<Paper>> {
    let papers: Papers = toml::from_str(PAPERS).map_err(|error| Failure::Failed(error.to_string()))?;
    Ok(papers.paper)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::{CommandFactory, FromArgMatches, Parser};

    use super::super::experiment::Size;
    use super::*;
    use crate::bench;

    #[test]
    fn each_figure_of_the_papers_is_measured_or_has_a_reason() {
        let experiments = experiments().unwrap();
        for paper in papers().unwrap() {
            let numbered =
                |kind: &'static str, last| (1..=last).map(move |number| format!("{kind} {number}"));
            let all: BTreeSet<String> =
                numbered("Figure", paper.figures).chain(numbered("Table", paper.tables)).collect();
            let measured: BTreeSet<String> = experiments
                .iter()
                .filter(|experiment| experiment.paper == paper.id)
                .flat_map(|experiment| experiment.figures.clone())
                .collect();
            let absent: BTreeSet<String> = paper.absent.iter().map(|absent| absent.figure.clone()).collect();
            assert_eq!(&measured | &absent, all, "{}", paper.id);
            assert!(measured.is_disjoint(&absent), "{}: {:?}", paper.id, &measured & &absent);
        }
    }

    #[test]
    fn each_experiment_has_an_id_and_a_paper_of_its_own() {
        let (experiments, papers) = (experiments().unwrap(), papers().unwrap());
        let ids: BTreeSet<&str> = experiments.iter().map(|experiment| &*experiment.id).collect();
        assert_eq!(ids.len(), experiments.len());
        for experiment in &experiments {
            let is_own = experiment.paper == "own" && experiment.figures.is_empty();
            let is_theirs = papers.iter().any(|paper| paper.id == experiment.paper);
            assert!(is_own || is_theirs && !experiment.figures.is_empty(), "{}", experiment.id);
            assert!(experiment.id.starts_with(&format!("{}-", experiment.paper)), "{}", experiment.id);
        }
    }

    /// A benchmark on a command line, without running it.
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        bench: bench::Arguments,
    }

    fn check(command: &str) -> std::result::Result<(), String> {
        let words = ["bench"].into_iter().chain(command.split(' ')).chain(["--json"]);
        let matches = Line::command().try_get_matches_from(words).map_err(|error| error.to_string())?;
        let line = Line::from_arg_matches(&matches).map_err(|error| error.to_string())?;
        bench::check(&line.bench, &bench::Given::of(&matches)).map_err(|refused| refused.to_string())
    }

    #[test]
    fn each_command_is_one_that_the_benchmark_understands() {
        for experiment in experiments().unwrap() {
            for quick in [true, false] {
                for command in experiment.commands(Size { quick, processors: 80 }) {
                    if let Err(refused) = check(&command) {
                        panic!("{}: heddle bench {command}: {refused}", experiment.id);
                    }
                }
            }
        }
    }
}
