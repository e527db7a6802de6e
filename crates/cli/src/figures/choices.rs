//! `heddle figures choices`: `auto` beside every fixed protocol, on the workloads of the bench.
//!
//! In each round every protocol has one run, so that what else the machine does meets all of them; the table has the medians.

use clap::Args;
use heddledb::ProtocolKind;
use serde_json::{Value, json};

use super::number::median;
use super::runs::{Progress, run_bench};
use super::table::{number, tell, text_of};
use crate::failure::{Failure, Result};

/// Options of `choices`.
#[derive(Args)]
pub struct Arguments {
    /// Short runs on little data: shows that every run completes, and no more [default: for --seconds 0.2, --warmup 0.1, --rounds 1]
    #[arg(long)]
    quick: bool,
    /// Measured seconds of each run [default: 3]
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Seconds before those, in which auto chooses [default: 2]
    #[arg(long, value_name = "S")]
    warmup: Option<f64>,
    /// Rounds: each protocol has one run in each [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=99))]
    rounds: Option<u16>,
    /// Workers of each run
    #[arg(long, value_name = "N", default_value_t = 2)]
    threads: usize,
    /// Only the workloads with this text in their names; repeatable
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Print one JSON object on the last line of standard output
    #[arg(long)]
    json: bool,
}

/// A workload: its options, and those that make it small.
struct Workload {
    options: &'static str,
    quick: &'static str,
}

/// From those in which nothing conflicts to those in which everything does.
const WORKLOADS: [Workload; 14] = [
    Workload { options: "incr1 --hot-percent 0", quick: "--keys 1000" },
    Workload { options: "incr1 --hot-percent 10", quick: "--keys 1000" },
    Workload { options: "incr1 --hot-percent 100", quick: "--keys 1000" },
    Workload { options: "incr1 --rmw --hot-percent 100", quick: "--keys 1000" },
    Workload { options: "incrz --alpha 1.4", quick: "--keys 1000" },
    Workload { options: "like --alpha 1.4", quick: "--users 1000 --pages 100" },
    Workload { options: "ycsb --alpha 0", quick: "--records 1000" },
    Workload { options: "ycsb --rmw --alpha 0.99", quick: "--records 1000" },
    Workload { options: "flash-sale --items 1", quick: "--stock 1000" },
    Workload { options: "probe", quick: "--records 1000" },
    Workload { options: "debit-credit", quick: "--accounts-per-branch 500" },
    Workload { options: "tatp", quick: "--subscribers 1000" },
    Workload { options: "smallbank", quick: "--accounts 1000" },
    Workload { options: "tpcc", quick: "--items 1000 --customers 30" },
];

impl Arguments {
    fn or_default<T>(&self, given: Option<T>, usual: T, quick: T) -> T {
        given.unwrap_or(if self.quick { quick } else { usual })
    }

    /// # Errors
    /// No workload has any of the texts in its name.
    fn workloads(&self) -> Result<Vec<&'static Workload>> {
        let wanted = |workload: &&Workload| {
            self.only.is_empty() || self.only.iter().any(|text| workload.options.contains(text.as_str()))
        };
        let found: Vec<_> = WORKLOADS.iter().filter(wanted).collect();
        if found.is_empty() {
            let all = WORKLOADS.map(|workload| workload.options).join("; ");
            return Err(Failure::Usage(format!(
                "--only: no workload has this text in its name; there are: {all}"
            )));
        }
        Ok(found)
    }

    fn run_of(&self, workload: &Workload, protocol: ProtocolKind) -> Vec<String> {
        let mut run = vec!["bench".to_owned()];
        run.extend(workload.options.split(' ').map(str::to_owned));
        if self.quick {
            run.extend(workload.quick.split(' ').map(str::to_owned));
        }
        run.extend([
            format!("--protocol={protocol}"),
            format!("--threads={}", self.threads),
            format!("--seconds={}", self.or_default(self.seconds, 3.0, 0.2)),
            format!("--warmup={}", self.or_default(self.warmup, 2.0, 0.1)),
            "--durability=none".to_owned(),
            "--json".to_owned(),
        ]);
        run
    }
}

/// Makes the table.
pub fn run(arguments: &Arguments) -> Result {
    let workloads = arguments.workloads()?;
    let rounds = usize::from(arguments.or_default(arguments.rounds, 5, 1));
    let mut progress = Progress::new(workloads.len() * ProtocolKind::ALL.len() * rounds);
    let mut rows = Vec::new();
    for workload in workloads {
        let mut rates = vec![Vec::new(); ProtocolKind::ALL.len()];
        for _ in 0..rounds {
            for (protocol, rates) in ProtocolKind::ALL.iter().zip(&mut rates) {
                let object = run_bench(&mut progress, &arguments.run_of(workload, *protocol))?;
                rates.extend(object.map(|object| number(&object, "/throughput")));
            }
        }
        let medians =
            ProtocolKind::ALL.iter().copied().zip(rates.into_iter().map(median)).collect::<Vec<_>>();
        rows.push(row(workload.options, &medians));
    }
    let protocols = || ProtocolKind::ALL.iter().map(|protocol| protocol.name().to_owned());
    let more = ["best fixed", "auto / best"].map(str::to_owned);
    let heading = ["workload".to_owned()].into_iter().chain(protocols()).chain(more).collect();
    let cells = |row: &Value| {
        let rates = protocols().map(|protocol| match row["per_second"][&protocol].as_f64() {
            Some(rate) => format!("{rate:.0}"),
            None => "failed".to_owned(),
        });
        let ratio = row["ratio"].as_f64().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        [text_of(row, "workload")].into_iter().chain(rates).chain([text_of(row, "best"), ratio]).collect()
    };
    tell(arguments.json, "choices", heading, &rows, cells)?;
    progress.outcome()
}

/// The row of a workload. A protocol whose runs have all failed has no rate.
fn row(workload: &str, medians: &[(ProtocolKind, Option<f64>)]) -> Value {
    let is_auto = |protocol: ProtocolKind| protocol == ProtocolKind::Auto;
    let auto = medians.iter().find(|(protocol, _)| is_auto(*protocol)).and_then(|(_, rate)| *rate);
    let fixed = medians.iter().filter(|(protocol, _)| !is_auto(*protocol));
    let fixed = fixed.filter_map(|&(protocol, rate)| Some((protocol, rate?)));
    let best = fixed.max_by(|one, other| one.1.total_cmp(&other.1));
    let rates: serde_json::Map<_, _> =
        medians.iter().map(|(protocol, rate)| (protocol.name().to_owned(), json!(rate))).collect();
    let ratio = auto.zip(best).map(|(auto, (_, best))| auto / best).filter(|ratio| ratio.is_finite());
    json!({
        "workload": workload,
        "per_second": rates,
        "best": best.map(|(protocol, _)| protocol.name()),
        "ratio": ratio,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_is_compared_with_the_best_fixed_protocol() {
        let of = |auto| {
            row(
                "incr1",
                &[
                    (ProtocolKind::Serial, Some(50.0)),
                    (ProtocolKind::Locking, None),
                    (ProtocolKind::Optimistic, Some(80.0)),
                    (ProtocolKind::Auto, auto),
                ],
            )
        };
        let compared = of(Some(120.0));
        assert_eq!((&compared["best"], &compared["ratio"]), (&json!("optimistic"), &json!(1.5)));
        assert_eq!(
            (&compared["per_second"]["locking"], &compared["per_second"]["auto"]),
            (&Value::Null, &json!(120.0))
        );
        assert_eq!(of(None)["ratio"], Value::Null);
        assert_eq!(row("incr1", &[(ProtocolKind::Auto, Some(1.0))])["best"], Value::Null);
    }
}
