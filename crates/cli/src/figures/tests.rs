//! Experiments from beginning to end, with runs that a function answers instead of a process.

use std::cell::RefCell;
use std::fs;
use std::path::Path;

use clap::Parser;
use serde_json::{Value, json};

use super::experiment::{Experiment, Size};
use super::outcome::Status;
use super::reproduce::{PageArguments, Reproduction};
use super::results::Machine;
use super::shape::Measured;

const RISE: &str = r#"
id = "own-rise"
paper = "own"
title = "One & two"
claim = "Two lines."
command = "like"
full = "--seconds 4"
quick = "--seconds 1"

[x]
label = "α"
options = "--alpha {x}"
values = [0, 1, 1.5, 2]
quick = [0, 2]

[y]
label = "per second"
value = "/throughput"

[[series]]
name = "one"
options = "--protocol phased"

[[series]]
name = "two"
options = "--protocol serial"

[[check]]
says = "One is ahead of two"
shape = { kind = "above", series = "one", than = "two", factor = 2.0 }
at = ["2"]
paper = "38 times"
why = "There is a reason"
"#;

/// The options of the command line.
#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: PageArguments,
}

fn arguments(out: &Path, more: &[&str]) -> PageArguments {
    let out = format!("--out={}", out.display());
    Line::parse_from(["figures", &out].into_iter().chain(more.iter().copied())).arguments
}

/// The outcome of one measurement with a runner, and the commands that it ran.
fn make(
    experiment: &Experiment,
    arguments: &PageArguments,
    run: impl Fn(&str) -> Result<Value, String>,
) -> (Status, Vec<String>) {
    let commands = RefCell::new(Vec::new());
    let machine = Machine { processors: 2, ..Machine::default() };
    let experiments = std::slice::from_ref(experiment);
    let reproduction = Reproduction { arguments, experiments, papers: &[], build: "a", machine };
    let outcomes = reproduction
        .make(&mut |words: &[String]| {
            commands.borrow_mut().push(words.join(" "));
            run(&words.join(" "))
        })
        .unwrap();
    (outcomes[0].status, commands.into_inner())
}

/// A machine on which `phased` does 300 and anything else 100.
fn fast(command: &str) -> Result<Value, String> {
    let throughput = if command.contains("phased") { 300.0 } else { 100.0 };
    Ok(json!({ "throughput": throughput, "check": "ok" }))
}

fn page(out: &Path) -> String {
    fs::read_to_string(out.join("index.html")).unwrap()
}

#[test]
fn an_experiment_agrees_if_its_shape_is_found() {
    let (experiment, out) = (Experiment::parse(RISE).unwrap(), tempfile::tempdir().unwrap());
    let (status, commands) = make(&experiment, &arguments(out.path(), &["--quick"]), fast);
    assert_eq!((status, commands.len()), (Status::Agrees, 4));
    assert!(
        commands.contains(&"bench like --alpha 2 --protocol phased --seconds 1 --json".to_owned()),
        "{commands:?}"
    );
    let page = page(out.path());
    for part in ["paper: 38 times; here: 3 times", "One &amp; two", "<svg", "heddle bench like --alpha 2"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(!page.contains("There is a reason"), "only a difference needs one");
    assert!(
        !page.contains("http")
            || page.matches("http").count() == page.matches("http://www.w3.org/2000/svg").count()
    );
    assert!(fs::read_to_string(out.path().join("own-rise.svg")).unwrap().contains("prefers-color-scheme"));
}

#[test]
fn it_differs_with_a_reason_if_the_shape_is_another() {
    let (experiment, out) = (Experiment::parse(RISE).unwrap(), tempfile::tempdir().unwrap());
    let slow = |_: &str| Ok(json!({ "throughput": 7.0, "check": "ok" }));
    let (status, _) = make(&experiment, &arguments(out.path(), &["--quick"]), slow);
    assert_eq!(status, Status::Differs);
    assert!(page(out.path()).contains("here: 1 times") && page(out.path()).contains("There is a reason"));
}

/// Tests that a wrong database cannot look right, however good its numbers are.
#[test]
fn a_wrong_check_breaks_the_figure() {
    let (experiment, out) = (Experiment::parse(RISE).unwrap(), tempfile::tempdir().unwrap());
    let arguments = arguments(out.path(), &["--quick"]);
    make(&experiment, &arguments, fast);
    assert!(page(out.path()).contains("<svg") && out.path().join("own-rise.svg").exists());
    let wrong = |command: &str| {
        let mut object = fast(command)?;
        if command.contains("--alpha 0 --protocol phased") {
            object["check"] = json!("page 3 has 4 likes, and 5 were made");
        }
        Ok(object)
    };
    let again = PageArguments { fresh: true, ..arguments };
    assert_eq!(make(&experiment, &again, wrong).0, Status::Broken);
    let page = page(out.path());
    assert!(page.contains("page 3 has 4 likes") && page.contains("broken"), "{page}");
    assert!(!page.contains("<svg") && !page.contains("38 times"), "neither drawn nor compared: {page}");
    assert!(!out.path().join("own-rise.svg").exists(), "the plot of an earlier run");
    // It stays broken until the user asks for other runs.
    let resumed = PageArguments { fresh: false, ..again };
    assert_eq!(make(&experiment, &resumed, fast), (Status::Broken, Vec::new()));
    assert_eq!(make(&experiment, &PageArguments { fresh: true, ..resumed }, fast).0, Status::Agrees);
}

#[test]
fn a_run_without_a_result_breaks_the_figure() {
    let (experiment, out) = (Experiment::parse(RISE).unwrap(), tempfile::tempdir().unwrap());
    let fails = |command: &str| {
        if command.contains("serial") { Err("no space left".to_owned()) } else { fast(command) }
    };
    let (status, commands) = make(&experiment, &arguments(out.path(), &["--quick"]), fails);
    assert_eq!((status, commands.len()), (Status::Broken, 4), "the other runs are made all the same");
    assert!(page(out.path()).contains("no space left"));
}

#[test]
fn a_value_that_no_run_reports_breaks_the_figure() {
    let (experiment, out) = (Experiment::parse(RISE).unwrap(), tempfile::tempdir().unwrap());
    let silent = |_: &str| Ok(json!({ "check": "ok" }));
    assert_eq!(make(&experiment, &arguments(out.path(), &["--quick"]), silent).0, Status::Broken);
}

#[test]
fn runs_that_are_there_are_not_repeated() {
    let (experiment, out) = (Experiment::parse(RISE).unwrap(), tempfile::tempdir().unwrap());
    let once = |rounds: &str| arguments(out.path(), &["--quick", "--rounds", rounds]);
    assert_eq!(make(&experiment, &once("1"), fast).1.len(), 4);
    assert_eq!(make(&experiment, &once("1"), fast).1.len(), 0);
    assert_eq!(make(&experiment, &once("3"), fast).1.len(), 8, "two more of each");
    assert_eq!(make(&experiment, &arguments(out.path(), &["--rounds", "1"]), fast).1.len(), 8, "longer runs");
    let fresh = arguments(out.path(), &["--quick", "--rounds", "1", "--fresh"]);
    assert_eq!(make(&experiment, &fresh, fast).1.len(), 4);
}

#[test]
fn rounds_have_a_median_and_a_spread() {
    let (experiment, out) = (Experiment::parse(RISE).unwrap(), tempfile::tempdir().unwrap());
    let count = RefCell::new(0.0);
    let drifting = |_: &str| {
        *count.borrow_mut() += 1.0;
        Ok(json!({ "throughput": *count.borrow(), "check": "ok" }))
    };
    let arguments = arguments(out.path(), &["--quick", "--rounds=3"]);
    make(&experiment, &arguments, drifting);
    let results: Value =
        serde_json::from_str(&fs::read_to_string(out.path().join("results.json")).unwrap()).unwrap();
    let points = results["experiments"][0]["plots"][0]["series"]["one"].as_array().unwrap().clone();
    assert_eq!(points.len(), 2);
    for point in points {
        let [least, median, most] = ["min", "value", "max"].map(|key| point[key].as_f64().unwrap());
        // Each round has each command once, in an order of its own.
        assert!(
            (1.0..=4.0).contains(&least) && (5.0..=8.0).contains(&median) && (9.0..=12.0).contains(&most),
            "{point}"
        );
    }
}

#[test]
fn an_experiment_for_more_processors_is_not_possible() {
    let text = RISE
        .replace("[x]\n", "[x]\nup-to-processors = true\n")
        .replace("[0, 1, 1.5, 2]", "[2, 40]")
        .replace("[0, 2]", "[2, 40]");
    let (experiment, out) = (Experiment::parse(&text).unwrap(), tempfile::tempdir().unwrap());
    let (status, commands) = make(&experiment, &arguments(out.path(), &["--quick"]), fast);
    assert_eq!((status, commands), (Status::NotPossible, Vec::new()));
    assert!(page(out.path()).contains("not possible here"));
}

#[test]
fn mistakes_in_a_file_are_found_when_it_is_read() {
    let wrong = |from: &str, to: &str| {
        assert!(RISE.contains(from));
        Experiment::parse(&RISE.replacen(from, to, 1)).unwrap_err()
    };
    assert!(wrong("than = \"two\"", "than = \"three\"").contains("no series three"));
    assert!(wrong("at = [\"2\"]", "at = [\"1\"]").contains("too few"), "a quick run has no such place");
    assert!(wrong("quick = [0, 2]", "quick = [0, 3]").contains("not among"));
    assert!(wrong("paper = \"38 times\"", "papers = \"38 times\"").contains("papers"));
    assert!(wrong("kind = \"above\"", "kind = \"over\"").contains("over"));
    assert!(wrong("at = [\"2\"]", "panel = \"a\"").contains("no panel a"));
}

/// A check of lines with these values at 0, 1, 2 ….
fn judged(shape: &str, lines: [&[f64]; 2]) -> Option<(bool, String)> {
    let text = RISE.replace(r#"{ kind = "above", series = "one", than = "two", factor = 2.0 }"#, shape);
    let text = text.replace("at = [\"2\"]\n", "").replace("[0, 1, 1.5, 2]", "[0, 1, 2]");
    let experiment = Experiment::parse(&text).unwrap();
    let points = |name: &str| {
        let values = if name == "one" { lines[0] } else { lines[1] };
        let point = |(at, &value): (usize, &f64)| Measured {
            place: at.to_string(),
            at: at as f64,
            value,
            min: value,
            max: value,
        };
        Some(values.iter().enumerate().map(point).collect())
    };
    let verdict = experiment.check[0].judge(points)?;
    Some((verdict.agrees, verdict.measured))
}

#[test]
fn shapes_are_judged_by_all_points() {
    let above = r#"{ kind = "above", series = "one", than = "two", factor = 1.5 }"#;
    assert_eq!(judged(above, [&[3.0, 4.0], &[1.0, 2.0]]), Some((true, "2 times at 1".to_owned())));
    assert_eq!(judged(above, [&[3.0, 2.0], &[1.0, 2.0]]), Some((false, "1 times at 1".to_owned())));
    assert_eq!(judged(above, [&[0.0], &[0.0]]), Some((false, "1 times".to_owned())), "two zeros are equal");
    assert_eq!(judged(above, [&[3.0], &[1.0, 2.0]]), None, "a point is missing");
    let close = r#"{ kind = "close", series = "one", to = "two", factor = 1.5 }"#;
    assert_eq!(judged(close, [&[1.0, 2.0], &[1.2, 1.6]]), Some((true, "1.25 times at 1".to_owned())));
    assert_eq!(judged(close, [&[1.0, 1.0], &[1.0, 2.0]]), Some((false, "0.5 times at 1".to_owned())));
    let rises = r#"{ kind = "rises", series = "one", factor = 2.0 }"#;
    assert_eq!(judged(rises, [&[1.0, 9.0, 2.0], &[]]), Some((true, "by a factor of 2".to_owned())));
    assert_eq!(judged(rises, [&[2.0, 1.0], &[]]), Some((false, "by a factor of 0.5".to_owned())));
    let falls = r#"{ kind = "falls", series = "one", factor = 2.0 }"#;
    assert_eq!(judged(falls, [&[4.0, 1.0], &[]]), Some((true, "by a factor of 4".to_owned())));
    assert_eq!(judged(falls, [&[1.0], &[]]), None, "one point shows no fall");
    let flat = r#"{ kind = "flat", series = "one", factor = 1.5 }"#;
    assert_eq!(judged(flat, [&[2.0, 3.0, 2.0], &[]]), Some((true, "between 2 and 3".to_owned())));
    assert!(judged(flat, [&[2.0, 9.0, 2.0], &[]]).is_some_and(|(agrees, _)| !agrees));
    let between = r#"{ kind = "between", series = "one", min = 0, max = 2 }"#;
    assert_eq!(judged(between, [&[0.0, 0.0], &[]]), Some((true, "0".to_owned())));
    assert!(judged(between, [&[0.0, 3.0], &[]]).is_some_and(|(agrees, _)| !agrees));
    let crosses = r#"{ kind = "crosses", series = "one", above = "two" }"#;
    assert_eq!(judged(crosses, [&[1.0, 3.0], &[2.0, 2.0]]), Some((true, "above from 1 on".to_owned())));
    assert!(judged(crosses, [&[3.0, 3.0], &[2.0, 2.0]]).is_some_and(|(agrees, _)| !agrees));
    assert!(judged(crosses, [&[1.0, 1.0], &[2.0, 2.0]]).is_some_and(|(agrees, _)| !agrees));
}

#[test]
fn a_value_over_time_has_a_point_for_each_second() {
    let text = RISE
        .replace("options = \"--alpha {x}\"\nvalues = [0, 1, 1.5, 2]\nquick = [0, 2]", "over-time = true")
        .replace("/throughput", "/throughput_over_time")
        .replace("at = [\"2\"]\n", "");
    let (experiment, out) = (Experiment::parse(&text).unwrap(), tempfile::tempdir().unwrap());
    let over_time = |command: &str| {
        let rate = if command.contains("phased") { 9.0 } else { 3.0 };
        Ok(json!({ "throughput_over_time": [[1.0, rate], [2.0, rate]], "check": "ok" }))
    };
    assert_eq!(make(&experiment, &arguments(out.path(), &["--quick"]), over_time).0, Status::Agrees);
    let size = Size { quick: true, processors: 2 };
    assert_eq!(experiment.commands(size).len(), 2);
}
