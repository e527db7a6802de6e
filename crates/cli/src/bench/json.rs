//! The results as one JSON object, with the keys of the command line's description.

use hdrhistogram::Histogram;
use heddle_workloads::driver::{CallPath, Report, TransactionReport};
use heddle_workloads::workload::Rejected;
use heddledb::{CheckpointStatus, Choice, PhaseReport, Recovery, ScheduleKind, ScheduleReport, TableMemory};
use serde_json::{Map, Value, json};

use super::partitions::{partitions, plans};
use super::run::Findings;
use super::shift::Parts;
use super::stages::stages;

/// The object.
pub fn object(findings: &Findings<'_>) -> Value {
    let mut object = Map::new();
    run(findings, &mut object);
    results(findings, &mut object);
    engine(findings, &mut object);
    Value::Object(object)
}

/// The run, and the number of its transactions.
fn run(findings: &Findings<'_>, object: &mut Map<String, Value>) {
    let Findings { plan, settings, report, .. } = findings;
    let options = &plan.options;
    let clients = match settings.path {
        CallPath::OwnCalls { .. } | CallPath::Generators { .. } => 0,
        CallPath::Clients { clients, .. } => clients,
        CallPath::Connections { .. } => options.clients,
    };
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("workload", plan.workload.name().into());
    put("protocol", plan.protocol().into());
    put("interface", options.interface.name().into());
    put("schedule", options.schedule.kind().to_string().into());
    if options.schedule.kind() == ScheduleKind::Predict {
        put("policy", options.schedule.policy.unwrap_or_default().to_string().into());
    }
    put("threads", settings.threads.into());
    put("clients", clients.into());
    put("seconds", report.seconds.into());
    put("durability", options.durability.to_string().into());
    put("params", parameters(findings));
    put("committed", report.committed.into());
    put("aborted", report.aborted.into());
    put("failed", report.failed.into());
    put("throughput", report.throughput().into());
    put("abort_rate", report.abort_rate().into());
    put("check", findings.check.as_ref().map_or_else(|wrong| wrong.clone(), |()| "ok".to_owned()).into());
    put("latency_us", latency(&report.latency));
    put("share_under_1s", report.share_under_a_second().into());
    if !report.read_latency.is_empty() && !report.write_latency.is_empty() {
        put("latency_us_read", latency(&report.read_latency));
        put("latency_us_write", latency(&report.write_latency));
    }
}

/// Results by kind of transaction and over time, and what the log, checkpoints and recovery did.
fn results(findings: &Findings<'_>, object: &mut Map<String, Value>) {
    let Findings { plan, report, .. } = findings;
    let options = &plan.options;
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    let rejected = plan.workload.rejected();
    if !rejected.is_empty() {
        put("rejected", rejected.iter().map(rejected_rows).collect::<Map<_, _>>().into());
    }
    put("by_transaction", report.by_transaction.iter().map(transaction).collect::<Map<_, _>>().into());
    put("aborts", aborts(report));
    put("throughput_over_time", json!(report.throughput_over_time));
    if options.is_durable() {
        put("log", log(report));
    }
    if let Some(checkpoints) = &findings.checkpoints {
        put("checkpoints", checkpoints_made(checkpoints));
    }
    if let Some(disk) = &findings.disk {
        put("disk", disk.json());
    }
    if let Some(recovery) = &findings.recovery {
        put("recovery", recovered(recovery));
    }
}

/// The work of the engine's parts.
fn engine(findings: &Findings<'_>, object: &mut Map<String, Value>) {
    let Findings { settings, report, .. } = findings;
    let mut put = |key: &str, value: Value| object.insert(key.to_owned(), value);
    put("handover_mean", handovers(findings));
    put("stage_busy", busy(findings));
    if let Some(phases) = &findings.phases {
        put("phased", phased(phases));
    }
    // The first one is that of the protocol with which the database was opened.
    if findings.plan.protocol() == "auto" || findings.choices.len() > 1 {
        put("choices", findings.choices.iter().map(choice).collect::<Vec<_>>().into());
    }
    if let Some(schedule) = &findings.schedule {
        put("schedule_state", schedule_state(schedule));
    }
    if let Some(analysis) = &findings.analysis {
        put("analysts", analysis.json());
    }
    if let Some(audits) = &findings.audits {
        put("audits", json!({ "count": audits.count, "wrong": audits.wrong }));
    }
    if let Some(limit) = findings.max_in_flight {
        put("max_in_flight", limit.into());
    }
    put("stolen", report.statistics.stolen.into());
    put("readers_waited", report.statistics.readers_waited.into());
    put("locks_per_100", locks(report));
    if !findings.partitions.is_empty() {
        let statistics = &report.statistics;
        let requests = 100.0 * ratio(statistics.lock_requests_local, statistics.committed);
        put("lock_requests_per_100", requests.into());
    }
    put("processor_load", json!(report.processor_load()));
    if report.statistics.time.total() > 0 {
        put("time_share", time_shares(report));
    }
    put("bytes_per_row", findings.memory.iter().map(bytes_per_row).collect::<Map<_, _>>().into());
    put("peak_rss_bytes", peak_memory().map_or(Value::Null, Into::into));
    if let Some(rate) = settings.rate {
        put("offered_rate", rate.into());
    }
    if findings.is_throttled().is_some_and(|throttled| !throttled) {
        put("unthrottled", true.into());
    }
    if !findings.partitions.is_empty() {
        owned(findings, object);
    }
}

/// Each executor's partitions, the plans of calls over several executors, and the throughput around a shift
/// of the load.
fn owned(findings: &Findings<'_>, object: &mut Map<String, Value>) {
    object.insert("partitions".to_owned(), partitions(&findings.partitions));
    object.insert("plans".to_owned(), plans(&findings.report.statistics));
    object.extend(Parts::of(findings).map(|parts| ("shift".to_owned(), parts.json())));
}

/// A histogram of nanoseconds in microseconds.
fn latency(histogram: &Histogram<u64>) -> Value {
    let at = |share| histogram.value_at_quantile(share) as f64 / 1e3;
    json!({
        "mean": if histogram.is_empty() { 0.0 } else { histogram.mean() / 1e3 },
        "p50": at(0.5),
        "p95": at(0.95),
        "p99": at(0.99),
        "p999": at(0.999),
        "max": histogram.max() as f64 / 1e3,
    })
}

fn parameters(findings: &Findings<'_>) -> Value {
    let own = findings.plan.workload.parameters();
    let common = findings.plan.options.parameters(findings.settings.path);
    let names = findings.plan.names.iter().map(|(name, value)| (*name, json!(value)));
    let all = own.into_iter().chain(names).chain(common);
    all.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into()
}

/// Lines of the input that were rejected for one reason.
fn rejected_rows(rejected: &Rejected) -> (String, Value) {
    (rejected.reason.to_owned(), json!({ "rows": rejected.count, "first_lines": rejected.first_lines }))
}

fn transaction(report: &TransactionReport) -> (String, Value) {
    let mut value = json!({
        "committed": report.committed,
        "failed": report.failed,
        "mean_us": report.mean_microseconds,
    });
    if let Some(aborted) = report.aborted {
        value["aborted"] = aborted.into();
    }
    if !report.failed_by_reason.is_empty() {
        value["failed_by_reason"] = json!(report.failed_by_reason);
    }
    (report.name.to_owned(), value)
}

fn log(report: &Report) -> Value {
    let statistics = &report.statistics;
    json!({
        "groups": statistics.log_groups,
        "mean_group": ratio(statistics.log_transactions, statistics.log_groups),
        "bytes": statistics.log_bytes,
        "flushes": statistics.log_flushes,
    })
}

/// Checkpoints since the database was opened: how many, and how long one was under way, all of them together.
fn checkpoints_made(status: &CheckpointStatus) -> Value {
    let mut made = json!({
        "made": status.made,
        "failed": status.failed,
        "bytes": status.bytes,
        "seconds": status.time.as_secs_f64(),
        "running": status.running,
    });
    if let Some(failure) = &status.failure {
        made["failure"] = failure.to_string().into();
    }
    if status.follower.is_some() {
        made["by_follower"] = status.by_follower.into();
    }
    made
}

/// The volume that recovery read, and the time of each of its parts.
fn recovered(recovery: &Recovery) -> Value {
    json!({
        "checkpoint_records": recovery.checkpoint_records,
        "checkpoint_bytes": recovery.checkpoint_bytes,
        "log_groups": recovery.groups,
        "log_transactions": recovery.transactions,
        "log_bytes": recovery.bytes,
        "seconds": recovery.time.as_secs_f64(),
        "load_seconds": recovery.load_time.as_secs_f64(),
        "replay_seconds": recovery.replay_time.as_secs_f64(),
        "index_seconds": recovery.index_time.as_secs_f64(),
    })
}

/// A choice of the engine's, and the reason.
fn choice(choice: &Choice) -> Value {
    json!({
        "second": choice.at.as_secs_f64(),
        "what": subject(choice),
        "from": choice.from,
        "to": choice.to,
        "why": choice.why,
    })
}

/// The thing that was chosen, with the row's key if it is about a row.
pub fn subject(choice: &Choice) -> String {
    let key = choice.key.iter().map(|key| format!(" {key}"));
    std::iter::once(choice.what.clone()).chain(key).collect()
}

/// Statistics of phases since the database was opened: phases of each kind, split columns, and calls that
/// waited for the end of a phase.
fn phased(phases: &PhaseReport) -> Value {
    let split: Vec<Value> = phases
        .columns
        .iter()
        .map(|column| {
            json!({
                "table": column.table,
                "column": column.column,
                "key": column.key,
                "operation": column.operation.to_string(),
                "phases": column.phases,
                "now": column.now,
            })
        })
        .collect();
    json!({
        "phases": {
            "joined": phases.joined,
            "split": phases.split,
            "reconciliation": phases.reconciliation,
        },
        "split": split,
        "stashed": phases.stashed,
    })
}

/// The state of the schedule at the end.
fn schedule_state(report: &ScheduleReport) -> Value {
    json!({
        "history_references": report.history_references,
        "state_references": report.state_references,
        "idle_mode": report.is_idle_mode,
        "bytes": report.bytes,
    })
}

/// Mean batch that each stage dequeued, for stages with a queue.
fn handovers(findings: &Findings<'_>) -> Value {
    let means = stages(findings)
        .into_iter()
        .filter_map(|stage| Some((stage.name.to_owned(), stage.handover_mean?.into())));
    means.collect::<Map<_, _>>().into()
}

/// Attempts that were retried because of what they would have written, and because of what they had read.
fn aborts(report: &Report) -> Value {
    json!({ "write": report.statistics.aborted_write, "read": report.statistics.aborted_read })
}

/// Locks taken for every hundred calls that committed in the interval; local ones are those in the lock tables of executors.
fn locks(report: &Report) -> Value {
    let statistics = &report.statistics;
    let per_hundred = |locks: u64| 100.0 * ratio(locks, statistics.committed);
    json!({
        "row": per_hundred(statistics.locks_row),
        "higher": per_hundred(statistics.locks_higher),
        "local": per_hundred(statistics.locks_local),
    })
}

/// Shares of the executing threads' time by activity, of all samples.
fn time_shares(report: &Report) -> Value {
    let shares = report.statistics.time.shares().into_iter();
    shares.map(|(name, share)| (name.to_owned(), share.into())).collect::<Map<_, _>>().into()
}

/// Memory of one row of a table, and of the indexes for each row; `null` for a table without rows.
fn bytes_per_row((table, memory): &(String, TableMemory)) -> (String, Value) {
    let per_row = |bytes: u64| (memory.rows > 0).then(|| memory.per_row(bytes));
    let value = json!({
        "row": per_row(memory.all_row_bytes()),
        "indexes": per_row(memory.index_bytes()),
    });
    (table.clone(), value)
}

/// The share of the interval that each stage was busy.
fn busy(findings: &Findings<'_>) -> Value {
    stages(findings)
        .into_iter()
        .map(|stage| (stage.name.to_owned(), stage.busy.into()))
        .collect::<Map<_, _>>()
        .into()
}

fn ratio(numerator: u64, denominator: u64) -> f64 {
    if denominator == 0 { 0.0 } else { numerator as f64 / denominator as f64 }
}

/// The most memory that the process has had, as Linux reports it.
pub fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

#[cfg(test)]
mod tests {
    use heddledb::{DataType, Database, Durability, Error, Options, TableDefinition, row};

    use super::*;

    #[test]
    fn bytes_per_row_are_those_of_rows_and_of_indexes() {
        let db = Database::in_memory_with(Options::default().durability(Durability::None)).unwrap();
        let definition = TableDefinition::new("t").column("id", DataType::Int64).primary_key(["id"]);
        let table = db.create_table(definition).unwrap();
        let of = || bytes_per_row(&("t".to_owned(), table.memory()));
        assert_eq!(of(), ("t".to_owned(), json!({ "row": null, "indexes": null })));
        db.run(|tx| tx.insert(&table, row![7])).unwrap();
        let (_, one) = of();
        assert!(one["row"].as_f64().is_some_and(|bytes| (24.0..100.0).contains(&bytes)), "{one}");
        assert!(one["indexes"].as_f64().is_some_and(|bytes| bytes > 16.0), "{one}");
    }

    #[test]
    fn a_failed_checkpoint_is_reported_with_its_reason() {
        let mut status = CheckpointStatus::default();
        assert!(checkpoints_made(&status).get("failure").is_none());
        let (path, detail) = ("/db/1.part".to_owned(), "No space left on device".to_owned());
        (status.failed, status.failure) = (1, Some(Error::StorageFull { path, detail }));
        let made = checkpoints_made(&status);
        assert_eq!(made["failed"], 1);
        assert!(made["failure"].as_str().is_some_and(|why| why.contains("/db/1.part")), "{made}");
    }
}
