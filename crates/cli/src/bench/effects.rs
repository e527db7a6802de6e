//! Refuses options that were given and would change nothing: the table of which option concerns which workload and way of running.
//!
//! # Invariants
//! - Only what was given on the command line is refused: a default never is.
//! - An option is refused by name, with what it is for; [`applicable`](super::applicable) does the same for what the engine's protocols,
//!   stages and durability decide.

use std::collections::{BTreeMap, BTreeSet};

use clap::ArgMatches;
use clap::parser::ValueSource;
use heddle_workloads::driver::CallPath;
use heddledb::{Durability, ScheduleKind};
use serde_json::Value;

use super::checkpoints::When;
use super::workloads::Plan;
use crate::failure::{Failure, Result};

/// The options that were given on the command line, without dashes in front.
#[derive(Clone, Debug, Default)]
pub struct Given(BTreeSet<String>);

impl Given {
    /// The given options of the innermost subcommand.
    pub fn of(matches: &ArgMatches) -> Given {
        match matches.subcommand() {
            Some((_, inner)) => Given::of(inner),
            None => {
                // Groups of options, which have the names of their structs, are given with any of theirs.
                let is_group = |id: &str| id.starts_with(|letter: char| letter.is_ascii_uppercase());
                let given =
                    |id: &&str| !is_group(id) && matches.value_source(id) == Some(ValueSource::CommandLine);
                Given(
                    matches
                        .ids()
                        .map(clap::Id::as_str)
                        .filter(given)
                        .map(|id| id.replace('_', "-"))
                        .collect(),
                )
            }
        }
    }

    /// Returns true if the option was given.
    pub fn has(&self, option: &str) -> bool {
        self.0.contains(option)
    }
}

/// The run that the options describe.
struct Run<'p> {
    plan: &'p Plan,
    parameters: BTreeMap<&'static str, Value>,
}

impl Run<'_> {
    fn number(&self, parameter: &str) -> f64 {
        self.parameters.get(parameter).and_then(Value::as_f64).unwrap_or(0.0)
    }

    /// Returns true if the workload makes this transaction: all are made unless `--only` names one.
    fn makes(&self, transaction: &str) -> bool {
        self.parameters.get("only").is_none_or(|only| only == transaction)
    }

    fn is_placed_by(&self, kind: ScheduleKind) -> bool {
        self.plan.options.schedule.kind() == kind
    }

    /// Returns true if calls pass through the engine's queues.
    fn has_queues(&self) -> bool {
        !matches!(self.plan.path, CallPath::OwnCalls { .. })
    }

    /// Returns true if checkpoints are made automatically: only those have time.
    fn has_automatic_checkpoints(&self) -> bool {
        let checkpoints = &self.plan.options.checkpoints;
        checkpoints.checkpoint != Some(When::Never) || checkpoints.checkpoint_seconds.is_some()
    }
}

/// An option of a workload's (empty: of all workloads), and when it has an effect.
type Rule = (&'static str, &'static str, fn(&Run<'_>) -> bool, &'static str);

/// The condition under which each option has an effect.
const RULES: &[Rule] = &[
    (
        "",
        "log-dir",
        |run| run.plan.options.is_durable(),
        "a database with a log: --durability group or async",
    ),
    ("", "input-threads", |run| run.has_queues(), "calls through the queues: --clients or --generators"),
    ("", "output-threads", |run| run.has_queues(), "calls through the queues: --clients or --generators"),
    (
        "",
        "checkpoint-spread",
        |run| run.has_automatic_checkpoints(),
        "checkpoints that are made automatically: --checkpoint auto or --checkpoint-seconds",
    ),
    (
        "flights",
        "seed",
        |run| run.plan.options.rate.is_some(),
        "random arrivals: --rate; flights come as in the file",
    ),
    (
        "probe",
        "through-pipeline",
        |run| !matches!(run.plan.path, CallPath::Connections { .. }),
        "procedures; calls of --interface sql go through their connections",
    ),
    (
        "incr1",
        "rotate-seconds",
        |run| {
            run.number("hot_percent") > 0.0
                || run.parameters.get("operation").is_some_and(|it| it == "all in turn")
        },
        "a hot key: --hot-percent above 0",
    ),
    (
        "ycsb",
        "rmw",
        |run| run.number("read_percent") < 100.0,
        "operations that write: --read-percent below 100",
    ),
    (
        "tatp",
        "probe-records",
        |run| run.parameters.get("only").is_some_and(|only| only == "update-by-number"),
        "--only update-by-number",
    ),
    ("tatp", "hot-percent", |run| run.number("hot") > 0.0, "a hot spot: --hot above 0"),
    ("smallbank", "hot-percent", |run| run.number("hot") > 0.0, "a hot spot: --hot above 0"),
    ("tpcc", "remote-percent", |run| run.makes("payment"), "payments: --only payment, or a mix"),
    ("tpcc", "shift-seconds", |run| run.number("alpha") > 0.0, "warehouses that differ: --alpha above 0"),
    ("bookings", "keys-only", |run| run.is_placed_by(ScheduleKind::Predict), "--schedule predict"),
    ("bookings", "guides", |run| run.number("tour_percent") > 0.0, "tours: --tour-percent above 0"),
    ("bookings", "longest-stay", |run| run.number("tour_percent") < 100.0, "stays: --tour-percent below 100"),
];

/// The options that a contender uses, which is no engine.
const OF_CONTENDERS: &[&str] = &[
    "contender",
    "keys",
    "hot-percent",
    "rotate-seconds",
    "threads",
    "processor",
    "in-flight",
    "seconds",
    "warmup",
    "transactions",
    "seed",
    "json",
];

/// Refuses the first option that was given and has no effect.
///
/// # Errors
/// Wrong usage, which names the option and what it is for.
pub fn check(given: &Given, plan: &Plan) -> Result {
    if plan.contender.is_some() {
        return check_contender(given, plan.options.durability);
    }
    let run = Run { plan, parameters: plan.workload.parameters().into_iter().collect() };
    let name = plan.workload.name();
    let concerns = |workload: &str| workload.is_empty() || workload == name;
    let unused = RULES
        .iter()
        .filter(|(workload, option, ..)| concerns(workload) && given.has(option))
        .find(|(_, _, has_effect, _)| !has_effect(&run));
    match unused {
        None => Ok(()),
        Some((_, option, _, belongs_to)) => {
            Err(Failure::Usage(format!("--{option} would have no effect: it is for {belongs_to}")))
        }
    }
}

/// A contender keeps nothing, so that `--durability none` says what is the case.
fn check_contender(given: &Given, durability: Durability) -> Result {
    let is_true = |option: &str| option == "durability" && durability == Durability::None;
    let of_engine =
        given.0.iter().find(|option| !OF_CONTENDERS.contains(&option.as_str()) && !is_true(option));
    match of_engine {
        None => Ok(()),
        Some(option) => Err(Failure::Usage(format!(
            "--{option} would have no effect: --contender is no engine; leave out one of them"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// All options of a workload's, as the parser knows them.
    fn options_of(workload: &str) -> BTreeSet<String> {
        let command = crate::Arguments::command();
        let bench = command.find_subcommand("bench").and_then(|bench| bench.find_subcommand(workload));
        let arguments = bench.unwrap_or_else(|| panic!("{workload} is a workload")).get_arguments();
        arguments.filter_map(|argument| argument.get_long().map(str::to_owned)).collect()
    }

    #[test]
    fn every_rule_is_about_an_option_that_there_is() {
        for (workload, option, ..) in RULES {
            let workload = if workload.is_empty() { "debit-credit" } else { workload };
            assert!(options_of(workload).contains(*option), "{workload} --{option}");
        }
        let of_incr1 = options_of("incr1");
        for option in OF_CONTENDERS {
            assert!(of_incr1.contains(*option), "{option}");
        }
    }

    #[test]
    fn only_what_stands_on_the_command_line_is_given() {
        let line = ["heddle", "bench", "tatp", "--probe-records", "100", "--json"];
        let given = Given::of(&crate::Arguments::command().get_matches_from(line));
        assert!(given.has("probe-records") && given.has("json"));
        assert!(!given.has("hot") && !given.has("protocol"));
    }
}
