//! The results as a table for people.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use heddle_workloads::driver::{CallPath, Report};

use heddledb::{CheckpointStatus, Choice, PhaseReport, ScheduleKind};

use super::analysts::Analysis;
use super::format::{bytes, duration, grouped, nanoseconds, percent, rate};
use super::json::{peak_memory, subject};
use super::run::Findings;
use super::shift::Parts;
use super::stages::stages;

/// Length of a step of the throughput over time, in seconds.
const HALF_SECOND: f64 = 0.5;

/// Split columns that are shown, those split most often first; the JSON has all of them.
const MOST_SPLIT_SHOWN: usize = 8;

/// Choices that are shown, the latest; the JSON has all of them.
const MOST_CHOICES_SHOWN: usize = 8;

/// The whole text.
pub fn text(findings: &Findings<'_>) -> String {
    let mut parts = vec![heading(findings), results(findings).to_string()];
    if let Some(transactions) = transactions(&findings.report) {
        parts.push(transactions.to_string());
    }
    if let Some(stages) = stage_table(findings) {
        parts.push(stages.to_string());
    }
    if let Some(shares) = time_shares(&findings.report) {
        parts.push(shares.to_string());
    }
    if findings.plan.options.shows_time {
        parts.push(over_time(&findings.report));
    }
    parts.extend(Parts::of(findings).map(Parts::text));
    for rejected in findings.plan.workload.rejected() {
        let lines: Vec<String> = rejected.first_lines.iter().map(ToString::to_string).collect();
        let more = if rejected.count > lines.len() as u64 { ", …" } else { "" };
        let count = grouped(rejected.count);
        parts.push(format!(
            "rejected as {}: {count} rows, lines {}{more}",
            rejected.reason,
            lines.join(", ")
        ));
    }
    if let Some(analysis) = &findings.analysis {
        parts.push(analysis_table(analysis).to_string());
    }
    if let Some(audits) = &findings.audits {
        parts.push(format!("audits beside the run: {}", grouped(audits.count)));
    }
    parts.push(match &findings.check {
        Ok(()) if findings.recovery.is_some() => "check: ok, before and after recovery".to_owned(),
        Ok(()) => "check: ok".to_owned(),
        Err(wrong) => format!("check: {wrong}"),
    });
    parts.join("\n")
}

/// The analysts' queries and their response times.
fn analysis_table(analysis: &Analysis) -> Table {
    let mut table = new_table();
    table.set_header(["query", "asked", "mean ms", "max ms", ""]);
    for (query, times) in &analysis.queries {
        let max = times.max.as_secs_f64() * 1e3;
        table.add_row([
            format!("q{}", query.number),
            grouped(times.count),
            format!("{:.1}", times.mean_milliseconds()),
            format!("{max:.1}"),
            query.title.to_owned(),
        ]);
    }
    align_numbers(&mut table);
    if let Some(titles) = table.column_mut(4) {
        titles.set_cell_alignment(CellAlignment::Left);
    }
    table
}

/// Committed calls per second, two lines for each second.
fn over_time(report: &Report) -> String {
    let mut lines = vec!["second  per second".to_owned()];
    let series = report.throughput_in_steps(HALF_SECOND);
    lines.extend(series.into_iter().map(|(second, calls)| format!("{second:6.1}  {}", rate(calls))));
    lines.join("\n")
}

/// One line that says what was run.
fn heading(findings: &Findings<'_>) -> String {
    let Findings { plan, settings, report, .. } = findings;
    let callers = match settings.path {
        CallPath::OwnCalls { .. } => format!("{} workers making their own calls", settings.threads),
        CallPath::Clients { clients, closures: true } => format!("{clients} clients running closures"),
        CallPath::Clients { clients, .. } => format!("{clients} clients, {} workers", settings.threads),
        CallPath::Connections { connections } => format!("{connections} SQL connections"),
        CallPath::Generators { generators } => {
            let schedule = &plan.options.schedule;
            let policy = match schedule.kind() {
                ScheduleKind::Predict => format!(" ({})", schedule.policy.unwrap_or_default()),
                _ => String::new(),
            };
            let workers = settings.threads;
            format!("{generators} generators, schedule {}{policy}, {workers} workers", schedule.kind())
        }
    };
    let how = match &plan.contender {
        Some(contender) => format!("{}, outside of the engine: no transactions, no log", contender.name()),
        None => format!("{}, durability {}", plan.options.protocol, plan.options.durability),
    };
    format!("{}: {how}, {callers}, {:.1} s", plan.workload.name(), report.seconds)
}

fn new_table() -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table
}

fn align_numbers(table: &mut Table) {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
}

fn results(findings: &Findings<'_>) -> Table {
    let Findings { report, settings, .. } = findings;
    let mut table = new_table();
    let mut line = |what: &str, value: String| {
        table.add_row([what, &value]);
    };
    line("committed", grouped(report.committed));
    line("per second", rate(report.throughput()));
    if let Some(offered) = settings.rate {
        line("offered per second", rate(offered));
    }
    if findings.is_throttled() == Some(false) {
        line("target mean", "met at full load, unthrottled".to_owned());
    }
    if report.aborted > 0 {
        line("retried", format!("{} ({})", grouped(report.aborted), percent(report.abort_rate())));
    }
    let moves: u64 = findings.partitions.iter().map(|one| one.moves).sum();
    if moves > 0 {
        line("ranges changed", grouped(moves));
    }
    if let Some(limit) = findings.max_in_flight {
        line("calls in flight, limit found", grouped(limit as u64));
    }
    if report.statistics.stolen > 0 {
        line("run by another worker", grouped(report.statistics.stolen));
    }
    if let Some(schedule) = &findings.schedule {
        let (history, state) = (grouped(schedule.history_references), grouped(schedule.state_references));
        let mode = if schedule.is_idle_mode { "; idle mode: conflicts are rare" } else { "" };
        line("references known, placed", format!("{history}, {state}; {}{mode}", bytes(schedule.bytes)));
    }
    if report.failed > 0 {
        line("failed", grouped(report.failed));
    }
    latency_lines(report, &mut line);
    if findings.plan.options.is_durable() {
        log_lines(report, &mut line);
    }
    if report.statistics.readers_waited > 0 {
        line("readers that waited", grouped(report.statistics.readers_waited));
    }
    if let Some(phases) = &findings.phases {
        phase_lines(phases, &mut line);
    }
    choice_lines(&findings.choices, &mut line);
    line("loaded in", duration(findings.load_time));
    if let Some(recovery) = &findings.recovery {
        let transactions = grouped(recovery.transactions);
        line("recovered", format!("{transactions} transactions in {}", duration(recovery.time)));
        let parts = [recovery.load_time, recovery.replay_time, recovery.index_time].map(duration);
        line("checkpoint, log, indexes", parts.join(", "));
    }
    if let Some(checkpoints) = &findings.checkpoints {
        checkpoint_lines(checkpoints, &mut line);
    }
    if let Some(peak) = peak_memory() {
        line("peak memory", bytes(peak));
    }
    line("database", findings.place.clone());
    align_numbers(&mut table);
    table
}

fn checkpoint_lines(status: &CheckpointStatus, line: &mut impl FnMut(&str, String)) {
    if status.made + status.failed > 0 {
        let failures =
            if status.failed > 0 { format!(", {} failed", grouped(status.failed)) } else { String::new() };
        let (made, written, time) = (grouped(status.made), bytes(status.bytes), duration(status.time));
        line("checkpoints", format!("{made}, {written} in {time}{failures}"));
    }
    if let Some(failure) = &status.failure {
        line("the last one failed", failure.to_string());
    }
}

fn latency_lines(report: &Report, line: &mut impl FnMut(&str, String)) {
    let readers_and_writers = !report.read_latency.is_empty() && !report.write_latency.is_empty();
    let histograms = [
        ("response", &report.latency),
        ("readers' response", &report.read_latency),
        ("updaters' response", &report.write_latency),
    ];
    for (what, histogram) in histograms.into_iter().take(if readers_and_writers { 3 } else { 1 }) {
        if histogram.is_empty() {
            continue;
        }
        let at = |share| nanoseconds(histogram.value_at_quantile(share) as f64);
        line(&format!("{what}, mean"), nanoseconds(histogram.mean()));
        line(&format!("{what}, 50 / 95 / 99 %"), [at(0.5), at(0.95), at(0.99)].join(" / "));
        line(&format!("{what}, longest"), nanoseconds(histogram.max() as f64));
    }
    line("under 1 s", percent(report.share_under_a_second()));
}

fn log_lines(report: &Report, line: &mut impl FnMut(&str, String)) {
    let log = &report.statistics;
    let mean_group = log.log_transactions as f64 / log.log_groups.max(1) as f64;
    line("log groups", format!("{} of {mean_group:.1} transactions", grouped(log.log_groups)));
    line("log written", format!("{} in {} flushes", bytes(log.log_bytes), grouped(log.log_flushes)));
}

fn phase_lines(phases: &PhaseReport, line: &mut impl FnMut(&str, String)) {
    let counts = [phases.joined, phases.split, phases.reconciliation].map(grouped);
    line("phases joined / split / merged", counts.join(" / "));
    if phases.stashed > 0 {
        line("calls put off to a joined phase", grouped(phases.stashed));
    }
    let mut columns: Vec<_> = phases.columns.iter().collect();
    columns.sort_by_key(|column| std::cmp::Reverse(column.phases));
    for column in columns.iter().take(MOST_SPLIT_SHOWN) {
        let place = format!("split: {}.{} of {}", column.table, column.column, column.key);
        line(&place, format!("{} in {} phases", column.operation, grouped(column.phases)));
    }
    if columns.len() > MOST_SPLIT_SHOWN {
        line("split besides", format!("{} columns", grouped((columns.len() - MOST_SPLIT_SHOWN) as u64)));
    }
}

/// The latest choices. The first one is that of the protocol with which the database was opened.
fn choice_lines(choices: &[Choice], line: &mut impl FnMut(&str, String)) {
    for choice in choices.iter().skip(1).rev().take(MOST_CHOICES_SHOWN).rev() {
        let what = format!("chosen after {}: {}", duration(choice.at), subject(choice));
        line(&what, format!("{} instead of {}: {}", choice.to, choice.from, choice.why));
    }
}

/// Figures of each transaction, if there is more than one kind or something failed.
fn transactions(report: &Report) -> Option<Table> {
    if report.by_transaction.len() < 2 && report.failed == 0 {
        return None;
    }
    let columns = if report.failed > 0 { 5 } else { 4 };
    let mut table = new_table();
    table.set_header(&["transaction", "committed", "failed", "mean response", "why it failed"][..columns]);
    for transaction in &report.by_transaction {
        let reasons = transaction.failed_by_reason.iter();
        let reasons: Vec<String> =
            reasons.map(|(reason, calls)| format!("{reason}: {}", grouped(*calls))).collect();
        let cells = [
            transaction.name.to_owned(),
            grouped(transaction.committed),
            grouped(transaction.failed),
            transaction.mean_microseconds.map_or("-".to_owned(), |mean| nanoseconds(mean * 1e3)),
            reasons.join("\n"),
        ];
        table.add_row(&cells[..columns]);
    }
    align_numbers(&mut table);
    Some(table)
}

/// Activity of the executing threads, if it was sampled.
fn time_shares(report: &Report) -> Option<Table> {
    let time = report.statistics.time;
    if time.total() == 0 {
        return None;
    }
    let mut table = new_table();
    table.set_header(["executing threads were at", "share"]);
    for (name, share) in time.shares() {
        table.add_row([name.replace('_', " "), percent(share)]);
    }
    align_numbers(&mut table);
    Some(table)
}

/// Busy time of each stage, and the mean number of calls in a batch.
fn stage_table(findings: &Findings<'_>) -> Option<Table> {
    let stages = stages(findings);
    if stages.iter().all(|stage| stage.busy == 0.0) {
        return None;
    }
    let mut table = new_table();
    table.set_header(["stage", "busy", "in seconds", "calls per batch"]);
    for stage in stages {
        let mean = stage.handover_mean.map_or_else(String::new, |mean| format!("{mean:.1}"));
        table.add_row([stage.name.to_owned(), percent(stage.busy), format!("{:.3}", stage.seconds), mean]);
    }
    align_numbers(&mut table);
    Some(table)
}

#[cfg(test)]
mod tests {
    use heddledb::Error;

    use super::*;

    #[test]
    fn a_failed_checkpoint_is_reported_with_its_reason() {
        let (mut lines, mut status) = (Vec::new(), CheckpointStatus::default());
        checkpoint_lines(&status, &mut |name, value| lines.push(format!("{name}: {value}")));
        assert!(lines.is_empty(), "{lines:?}");
        let (path, detail) = ("/db/1.part".to_owned(), "No space left on device".to_owned());
        (status.failed, status.failure) = (1, Some(Error::StorageFull { path, detail }));
        checkpoint_lines(&status, &mut |name, value| lines.push(format!("{name}: {value}")));
        assert!(lines[0].starts_with("checkpoints: 0") && lines[0].ends_with(", 1 failed"), "{lines:?}");
        assert!(lines[1].contains("/db/1.part") && lines[1].contains("No space left"), "{lines:?}");
    }
}
