//! `heddle figures policies` and `heddle figures aborts`: tables 3 and 4 of the conflict prediction paper.

use clap::Args;
use heddledb::Policy;
use serde_json::{Value, json};

use super::runs::{Progress, run_bench};
use super::table::{number, tell, text_of};
use crate::bench::think_range;
use crate::failure::{Failure, Result};

/// Options that all runs of a table share.
#[derive(Args, Clone)]
pub struct CommonArguments {
    /// Short runs on little data: shows that every run completes, and no more [default: for --seconds 0.3, --items 1000,
    /// --customers 30, --history-seconds 0.3]
    #[arg(long)]
    quick: bool,
    /// Measured seconds of each run [default: 3]
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// The only protocol of the table: optimistic, locking [default: both]
    #[arg(long, value_name = "NAME", value_parser = ["optimistic", "locking"])]
    protocol: Option<String>,
    /// Workers: this many transactions overlap
    #[arg(long, value_name = "N", default_value_t = 19)]
    threads: usize,
    /// A pause between a transaction's accesses, in microseconds, so that transactions overlap where cores are few
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = think_range())]
    think_us: u64,
    /// Reaction of locking to a rival's lock: wait, no-wait [default: no-wait]
    #[arg(long, value_name = "HOW", value_parser = ["wait", "no-wait"])]
    lock_conflict: Option<String>,
    /// Items of TPC-C; the paper has 10,000 [default: 100000]
    #[arg(long, value_name = "N")]
    items: Option<u32>,
    /// Customers of each of TPC-C's districts; the paper has 300 [default: 300]
    #[arg(long, value_name = "N")]
    customers: Option<u32>,
    /// Print one JSON object on the last line of standard output
    #[arg(long)]
    json: bool,
}

/// Options of `policies`.
#[derive(Args)]
pub struct PoliciesArguments {
    /// The mean response time at which they are compared
    #[arg(long, value_name = "M", default_value_t = 500.0)]
    target_mean_ms: f64,
    /// Seconds that predict learns first; the paper has 5 [default: 2]
    #[arg(long, value_name = "S")]
    history_seconds: Option<f64>,
    #[command(flatten)]
    common: CommonArguments,
}

/// The protocols, each with the warehouses that the paper gives it.
const PROTOCOLS: [(&str, u32); 2] = [("optimistic", 19), ("locking", 30)];

impl CommonArguments {
    /// # Errors
    /// An option would have no effect.
    fn check(&self) -> Result {
        if self.lock_conflict.is_some() && self.protocol.as_deref() == Some("optimistic") {
            let wrong = "--lock-conflict would have no effect: it is for the locking protocol; leave out --protocol optimistic";
            return Err(Failure::Usage(wrong.to_owned()));
        }
        Ok(())
    }

    /// The given value, or the default, which is small for a quick table.
    fn or_default<T>(&self, given: Option<T>, usual: T, quick: T) -> T {
        given.unwrap_or(if self.quick { quick } else { usual })
    }

    /// The protocols of the table.
    fn protocols(&self) -> Vec<(&'static str, u32)> {
        let wanted = |(name, _): &(&str, u32)| self.protocol.as_deref().is_none_or(|only| only == *name);
        PROTOCOLS.into_iter().filter(wanted).collect()
    }

    /// Runs a benchmark; `None` if it fails, which the table shows.
    fn bench(
        &self,
        progress: &mut Progress,
        workload: &str,
        protocol: &str,
        more: &[String],
    ) -> Result<Option<Value>> {
        let mut arguments: Vec<String> = ["bench", workload].map(ToString::to_string).to_vec();
        arguments.extend([
            format!("--seconds={}", self.or_default(self.seconds, 3.0, 0.3)),
            format!("--threads={}", self.threads),
            format!("--think-us={}", self.think_us),
            format!("--protocol={protocol}"),
            "--retry=immediate".to_owned(),
            "--generators=1".to_owned(),
            "--durability=none".to_owned(),
            "--json".to_owned(),
        ]);
        if protocol == "locking" {
            arguments.push(format!("--lock-conflict={}", self.lock_conflict.as_deref().unwrap_or("no-wait")));
        }
        arguments.extend_from_slice(more);
        run_bench(progress, &arguments)
    }

    fn tpcc(&self, warehouses: u32) -> Vec<String> {
        vec![
            "--mix=neworder-payment".to_owned(),
            format!("--warehouses={warehouses}"),
            format!("--items={}", self.or_default(self.items, 100_000, 1_000)),
            format!("--customers={}", self.or_default(self.customers, 300, 30)),
        ]
    }
}

/// Each schedule with its name and its options.
fn schedules(history_seconds: f64) -> Vec<(String, Vec<String>)> {
    let plain = |name: &str| (name.to_owned(), vec![format!("--schedule={name}")]);
    let of_policy = |policy: Policy| {
        let options = [
            "--schedule=predict".to_owned(),
            format!("--policy={policy}"),
            format!("--history-seconds={history_seconds}"),
        ];
        (policy.to_string(), options.to_vec())
    };
    [plain("random"), plain("partition")].into_iter().chain(Policy::ALL.map(of_policy)).collect()
}

/// Makes table 3: all policies at one mean response time.
pub fn policies(arguments: &PoliciesArguments) -> Result {
    arguments.common.check()?;
    let mut rows = Vec::new();
    let history = arguments.common.or_default(arguments.history_seconds, 2.0, 0.3);
    let (all, protocols) = (schedules(history), arguments.common.protocols());
    let mut progress = Progress::new(all.len() * protocols.len());
    for (name, schedule) in all {
        let mut row = json!({ "schedule": name });
        for &(protocol, warehouses) in &protocols {
            let target = format!("--target-mean-ms={}", arguments.target_mean_ms);
            let more = [arguments.common.tpcc(warehouses), schedule.clone(), vec![target]].concat();
            let object = arguments.common.bench(&mut progress, "tpcc", protocol, &more)?;
            row[protocol] = object.map_or_else(failed, |object| policy_figures(&object));
        }
        rows.push(row);
    }
    let heading = protocols.iter().flat_map(|(protocol, warehouses)| {
        [
            format!("{protocol}, {warehouses} warehouses: per second"),
            "abort rate".to_owned(),
            "mean ms".to_owned(),
        ]
    });
    let heading = ["schedule or policy".to_owned()].into_iter().chain(heading).collect();
    let cells = |row: &Value| {
        let of_protocol = |(protocol, _): &(&str, u32)| policy_cells(&row[*protocol]);
        [text_of(row, "schedule")].into_iter().chain(protocols.iter().flat_map(of_protocol)).collect()
    };
    tell(arguments.common.json, "policies", heading, &rows, cells)?;
    progress.outcome()
}

/// The figures of one run, or `none_committed` if none of its transactions committed in the interval.
fn policy_figures(object: &Value) -> Value {
    if number(object, "/committed") == 0.0 {
        return json!({ "none_committed": true, "seconds": object["seconds"] });
    }
    json!({
        "throughput": object["throughput"],
        "abort_rate": object["abort_rate"],
        "mean_ms": number(object, "/latency_us/mean") / 1e3,
        "unthrottled": object["unthrottled"] == true,
    })
}

/// Throughput, abort rate and mean response time of one run.
fn policy_cells(run: &Value) -> [String; 3] {
    if run["failed"] == true {
        return ["failed".to_owned(), String::new(), String::new()];
    }
    if run["none_committed"] == true {
        let seconds = number(run, "/seconds");
        return [format!("none committed in {seconds:.1} s"), "-".to_owned(), "-".to_owned()];
    }
    let note = if run["unthrottled"] == true { " (unthrottled)" } else { "" };
    [
        format!("{:.0}", number(run, "/throughput")),
        format!("{:.3}", number(run, "/abort_rate")),
        format!("{:.0}{note}", number(run, "/mean_ms")),
    ]
}

/// The row of a run that failed.
fn failed() -> Value {
    json!({ "failed": true })
}

/// The workloads of the paper's table 4, with their options.
fn workloads(arguments: &CommonArguments, warehouses: u32) -> [(&'static str, Vec<String>); 3] {
    let tatp = ["--mix=paper", "--subscribers=10000", "--hot=20", "--hot-percent=90"];
    [
        ("smallbank", vec![]),
        ("tatp", tatp.map(ToString::to_string).to_vec()),
        ("tpcc", arguments.tpcc(warehouses)),
    ]
}

/// Makes table 4: aborts in writes and in reads.
pub fn aborts(arguments: &CommonArguments) -> Result {
    arguments.check()?;
    let mut rows = Vec::new();
    let mut progress = Progress::new(3 * arguments.protocols().len());
    for place in 0..3 {
        for (protocol, warehouses) in arguments.protocols() {
            let (workload, options) = &workloads(arguments, warehouses)[place];
            let object = arguments.bench(&mut progress, workload, protocol, options)?;
            let mut row = object.map_or_else(failed, |object| abort_figures(&object));
            row["workload"] = json!(workload);
            row["protocol"] = json!(protocol);
            rows.push(row);
        }
    }
    let heading = ["benchmark", "protocol", "write aborts", "read aborts", "ratio", "abort rate"];
    let cells = |row: &Value| {
        let ratio = row["ratio"].as_f64().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        let mut cells = vec![text_of(row, "workload"), text_of(row, "protocol")];
        if row["failed"] == true {
            cells.extend(["failed", "", "", ""].map(str::to_owned));
        } else {
            let counts = ["/write", "/read"].map(|count| format!("{:.0}", number(row, count)));
            cells.extend(counts.into_iter().chain([ratio, format!("{:.3}", number(row, "/abort_rate"))]));
        }
        cells
    };
    tell(arguments.json, "aborts", heading.map(ToString::to_string).to_vec(), &rows, cells)?;
    progress.outcome()
}

fn abort_figures(object: &Value) -> Value {
    let (write, read) = (number(object, "/aborts/write"), number(object, "/aborts/read"));
    json!({
        "write": write,
        "read": read,
        "ratio": if read > 0.0 { json!(write / read) } else { Value::Null },
        "abort_rate": object["abort_rate"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_commits_is_marked_and_no_row_of_zeros() {
        let run = policy_figures(&json!({ "committed": 0, "throughput": 0.0, "seconds": 0.3 }));
        assert_eq!(run["throughput"], Value::Null);
        assert_eq!(policy_cells(&run), ["none committed in 0.3 s", "-", "-"]);
        let run =
            json!({ "committed": 3, "throughput": 10.0, "abort_rate": 0.0, "latency_us": { "mean": 2e3 } });
        assert_eq!(policy_cells(&policy_figures(&run)), ["10", "0.000", "2"]);
    }

    #[test]
    fn the_table_of_policies_has_the_two_to_compare_with_and_all_sixteen() {
        let all = schedules(2.0);
        assert_eq!(all.len(), 18);
        assert_eq!((all[0].0.as_str(), all[1].0.as_str()), ("random", "partition"));
        assert_eq!(all[0].1, ["--schedule=random"]);
        let best = all.iter().find(|(name, _)| name == "count-max-canonical-single").expect("it is there");
        assert_eq!(
            best.1,
            ["--schedule=predict", "--policy=count-max-canonical-single", "--history-seconds=2"]
        );
    }
}
