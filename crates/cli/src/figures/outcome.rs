//! The outcome of an experiment: its points, the verdict on each check, and what follows from them.
//!
//! Invariant: an experiment with a run that failed, or whose check found a wrong database, is broken, whatever its points show.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};

use super::experiment::{Experiment, Line, Measure, Place, Plot, Size};
use super::number::median;
use super::results::{Results, Run};
use super::shape::{Check, Measured, Verdict};

/// The state of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    Agrees,
    Differs,
    Broken,
    NotMeasured,
    NotPossible,
}

impl Status {
    /// The status in words.
    pub fn words(self) -> &'static str {
        match self {
            Status::Agrees => "agrees",
            Status::Differs => "differs",
            Status::Broken => "broken",
            Status::NotMeasured => "not measured yet",
            Status::NotPossible => "not possible here",
        }
    }
}

/// An experiment with its points and verdicts.
pub struct Outcome<'e> {
    pub experiment: &'e Experiment,
    pub status: Status,
    /// The reasons of a status that the checks do not explain.
    pub reasons: Vec<String>,
    pub plots: Vec<Drawn<'e>>,
    pub checks: Vec<Checked<'e>>,
    pub commands: Vec<String>,
}

/// A plot with its points.
pub struct Drawn<'e> {
    pub name: &'e str,
    pub y: &'e Measure,
    pub lines: Vec<DrawnLine<'e>>,
}

/// A line with its points.
pub struct DrawnLine<'e> {
    pub name: &'e str,
    pub points: Vec<Measured>,
    /// The paper's numbers, by the name of their place.
    pub paper: Vec<(String, f64)>,
    /// False if a point is missing.
    is_complete: bool,
}

/// A check with its verdict, which is missing if a point is.
pub struct Checked<'e> {
    pub check: &'e Check,
    pub verdict: Option<Verdict>,
}

impl Outcome<'_> {
    /// The outcome for other programs.
    pub fn json(&self) -> Value {
        let plots: Vec<Value> = self
            .plots
            .iter()
            .map(|plot| {
                let lines = plot.lines.iter().map(|line| (line.name.to_owned(), json!(line.points)));
                let lines: serde_json::Map<String, Value> = lines.collect();
                json!({ "panel": plot.name, "value": plot.y.label, "series": lines })
            })
            .collect();
        let checks: Vec<Value> = self
            .checks
            .iter()
            .map(|Checked { check, verdict }| {
                json!({
                    "says": check.says,
                    "paper": check.paper,
                    "measured": verdict.as_ref().map(|verdict| &verdict.measured),
                    "agrees": verdict.as_ref().map(|verdict| verdict.agrees),
                })
            })
            .collect();
        json!({
            "id": self.experiment.id,
            "status": self.status,
            "reasons": self.reasons,
            "checks": checks,
            "plots": plots,
        })
    }
}

/// Evaluates an experiment.
pub fn evaluate<'e>(experiment: &'e Experiment, results: &Results, size: Size) -> Outcome<'e> {
    let commands = experiment.commands(size);
    let plots: Vec<Drawn> = experiment.plots(size).into_iter().map(|plot| drawn(plot, results)).collect();
    let checks: Vec<Checked> =
        experiment.check.iter().map(|check| Checked { check, verdict: verdict(check, &plots) }).collect();
    let (status, reasons) = status(experiment, &commands, &checks, results, size);
    Outcome { experiment, status, reasons, plots, checks, commands }
}

fn status(
    experiment: &Experiment,
    commands: &[String],
    checks: &[Checked<'_>],
    results: &Results,
    size: Size,
) -> (Status, Vec<String>) {
    if experiment.lacks_processors(size) {
        let reason =
            format!("it takes more than the machine's number of processors, which is {}", size.processors);
        return (Status::NotPossible, vec![reason]);
    }
    let failures: BTreeSet<String> = commands
        .iter()
        .flat_map(|command| results.runs(command).iter().map(move |run| (command, run)))
        .filter_map(|(command, run)| Some(format!("heddle bench {command}: {}", run.failure.as_ref()?)))
        .collect();
    if !failures.is_empty() {
        return (Status::Broken, failures.into_iter().collect());
    }
    let there = commands.iter().filter(|command| !results.runs(command).is_empty()).count();
    if there < commands.len() {
        return (Status::NotMeasured, vec![format!("{there} of {} points are there", commands.len())]);
    }
    if checks.iter().any(|checked| checked.verdict.is_none()) {
        return (Status::Broken, vec!["a run did not report the value that is drawn".to_owned()]);
    }
    let agrees = checks.iter().flat_map(|checked| &checked.verdict).all(|verdict| verdict.agrees);
    (if agrees { Status::Agrees } else { Status::Differs }, Vec::new())
}

/// The verdict on all panels that a check is about.
fn verdict(check: &Check, plots: &[Drawn<'_>]) -> Option<Verdict> {
    let wanted = plots.iter().filter(|plot| check.panel.as_deref().is_none_or(|panel| panel == plot.name));
    let verdicts = wanted.map(|plot| {
        let points = |name: &str| {
            let line = plot.lines.iter().find(|line| line.name == name)?;
            line.is_complete.then(|| line.points.clone())
        };
        Some((plot.name, check.judge(points)?))
    });
    let verdicts = verdicts.collect::<Option<Vec<_>>>()?;
    let measured = verdicts.iter().map(|(name, verdict)| match (name.is_empty(), verdicts.len()) {
        (true, _) | (_, 1) => verdict.measured.clone(),
        _ => format!("{name}: {}", verdict.measured),
    });
    let measured = measured.collect::<Vec<_>>().join("; ");
    Some(Verdict { agrees: verdicts.iter().all(|(_, verdict)| verdict.agrees), measured })
}

fn drawn<'e>(plot: Plot<'e>, results: &Results) -> Drawn<'e> {
    let line = |line: Line<'e>| {
        let mut drawn =
            DrawnLine { name: &line.series.name, points: Vec::new(), paper: Vec::new(), is_complete: true };
        for (place, command) in &line.cells {
            let measured = points(place, results.runs(command), line.value, plot.y);
            drawn.is_complete &= !measured.is_empty();
            drawn.points.extend(measured);
            let theirs = [place.name.clone(), format!("{}/{}", plot.name, place.name)];
            let theirs = theirs.iter().find_map(|key| line.series.paper.get(key));
            drawn.paper.extend(theirs.map(|&number| (place.name.clone(), number)));
        }
        drawn
    };
    Drawn { name: plot.name, y: plot.y, lines: plot.lines.into_iter().map(line).collect() }
}

/// The points of one command: one, or those over time. Runs that failed have none.
fn points(place: &Place, runs: &[Run], pointer: &str, y: &Measure) -> Vec<Measured> {
    let results: Vec<&Value> =
        runs.iter().filter(|run| run.failure.is_none()).filter_map(|run| run.result.as_ref()).collect();
    let over_time = |result: &&Value| Some(result.pointer(pointer)?.as_array()?.clone());
    let series: Vec<Vec<Value>> = results.iter().filter_map(over_time).collect();
    let is_over_time = series.iter().flatten().any(Value::is_array);
    if is_over_time {
        let seconds = series.iter().map(Vec::len).min().unwrap_or(0);
        return (0..seconds)
            .filter_map(|number| {
                let at = series.first()?[number][0].as_f64()?;
                let rates = series.iter().filter_map(|pairs| Some(pairs[number][1].as_f64()? * y.times));
                measured(at.to_string(), at, rates.collect())
            })
            .collect();
    }
    let values = results.iter().filter_map(|result| {
        let divisor = y.per.as_ref().map_or(Some(1.0), |per| number(result, per))?;
        Some(number(result, pointer)? * y.times / divisor)
    });
    measured(place.name.clone(), place.at, values.collect()).into_iter().collect()
}

/// A number of a run; of a list, its length.
fn number(result: &Value, pointer: &str) -> Option<f64> {
    match result.pointer(pointer)? {
        Value::Array(list) => Some(list.len() as f64),
        value => value.as_f64(),
    }
}

fn measured(place: String, at: f64, values: Vec<f64>) -> Option<Measured> {
    let min = values.iter().copied().fold(f64::INFINITY, f64::min);
    let max = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(Measured { place, at, value: median(values)?, min, max })
}
