//! The data of the live page: one JSON object each second, as a server-sent event.
//!
//! # Invariants
//! Rates are differences of two readings divided by the time between them. Lists are cut to their first
//! [`LIST_MAX`] entries. Keys and texts of statements are left out unless the client may see them.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::{Duration, Instant};

use heddle_sql::{LatencyReport, Sql, Statistic};
use heddledb::ProtocolKind;
use serde_json::{Value, json};

use super::busiest::{BusyRow, Viewer};
use super::host;
use crate::server::Shared;

/// Interval between two events for the page.
const INTERVAL: Duration = Duration::from_secs(1);

/// Time that the first event measures: rates of less would say little, and an empty page for longer is a
/// nuisance.
const FIRST_INTERVAL: Duration = Duration::from_millis(250);

/// Most entries in a list.
const LIST_MAX: usize = 24;

/// Sends events until the client leaves or `wait` says that the server ends.
///
/// # Errors
/// The connection is gone.
pub(super) fn stream(
    stream: &mut (impl Write + ?Sized),
    shared: &Shared,
    shows_data: bool,
    wait: impl Fn(Duration) -> bool,
) -> io::Result<()> {
    let view = || shared.busiest.view(shared.served.get().map(|served| served.sql.database()));
    let mut viewer = view();
    let mut before = Reading::take(shared);
    let mut interval = FIRST_INTERVAL;
    while !wait(interval) {
        interval = INTERVAL;
        if !viewer.has_database() {
            viewer = view();
        }
        let now = Reading::take(shared);
        let event = match (&before, &now, shared.served.get()) {
            (Some(before), Some(now), Some(served)) => {
                let mut event = frame(before, now, &served.sql, shows_data);
                event["server"] = server(shared);
                event["busiest"] = busiest(&viewer, shows_data);
                event
            }
            _ => json!({ "ready": false }),
        };
        stream.write_all(format!("data: {event}\n\n").as_bytes())?;
        stream.flush()?;
        before = now.or(before);
    }
    Ok(())
}

/// The counters at one moment.
struct Reading {
    at: Instant,
    statistics: BTreeMap<&'static str, u64>,
    latency: LatencyReport,
    errors: BTreeMap<String, u64>,
}

impl Reading {
    fn take(shared: &Shared) -> Option<Reading> {
        let sql = &shared.served.get()?.sql;
        let named = |statistic: Statistic| (statistic.name, statistic.value);
        Some(Reading {
            at: Instant::now(),
            statistics: sql.statistics().into_iter().map(named).collect(),
            latency: sql.latency(),
            errors: sql.errors().into_iter().collect(),
        })
    }

    fn of(&self, name: &str) -> u64 {
        self.statistics.get(name).copied().unwrap_or(0)
    }
}

/// An event: what is the case now, and the rates since the reading before.
fn frame(before: &Reading, now: &Reading, sql: &Sql, shows_data: bool) -> Value {
    let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
    let rate = |name: &str| now.of(name).saturating_sub(before.of(name)) as f64 / seconds;
    let share = |name: &str| rate(name) / 1e6;
    let latency = now.latency.since(&before.latency);
    let quantile = |share: f64| latency.quantile(share).map(|time| time.as_micros() as u64);
    let failed = now.errors.iter().filter_map(|(state, count)| {
        let new = count - before.errors.get(state).copied().unwrap_or(0).min(*count);
        (new > 0).then(|| (state.clone(), json!(new as f64 / seconds)))
    });
    json!({
        "ready": true,
        "seconds": seconds,
        "rates": {
            "commits": rate("transactions_committed"),
            "statements": latency.count() as f64 / seconds,
            "log_bytes": rate("log_bytes"),
            "log_flushes": rate("log_flushes"),
        },
        "latency_us": { "p50": quantile(0.5), "p95": quantile(0.95), "p99": quantile(0.99) },
        "aborts": { "write": rate("aborts_write"), "read": rate("aborts_read") },
        "errors": failed.collect::<serde_json::Map<_, _>>(),
        "stages": {
            "input": share("input_busy"),
            "execute": share("execute_busy"),
            "log": share("log_busy"),
            "output": share("output_busy"),
            "checkpoint": share("checkpoint_busy"),
        },
        "executing": latency.total().as_secs_f64() / seconds,
        "memory": {
            "rows": now.of("row_bytes"),
            "work": now.of("work_memory_bytes"),
            "versions": now.of("snapshot_bytes"),
            "snapshots": now.of("snapshots_open"),
        },
        "phases": {
            "split": now.of("phases_split"),
            "columns": now.of("columns_split"),
            "reconciliations": rate("reconciliations"),
            "stashed": rate("stashed"),
        },
        "hot": hot(sql, shows_data),
        "choices": choices(sql, shows_data),
        "partitions": partitions(sql),
        "checkpoints": checkpoints(sql),
        "sessions": sessions(sql, shows_data),
    })
}

/// The server itself: what is wrong with it, if something is, and what it takes of its machine.
fn server(shared: &Shared) -> Value {
    let served = shared.served.get();
    let disk = served.and_then(|served| host::disk(&served.sql.database().log_directory()?));
    let settings = shared.current().settings;
    // What is in force may have been changed since the start; before there is a database, what it will be opened with.
    let protocol = match served {
        Some(served) => served.sql.database().protocol().to_string(),
        None => settings.protocol.clone().unwrap_or_else(|| ProtocolKind::default().to_string()),
    };
    json!({
        "trouble": shared.trouble(),
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_s": shared.started.elapsed().map_or(0, |time| time.as_secs()),
        "protocol": protocol,
        "durability": settings.durability,
        "resident_bytes": host::resident_memory(),
        "disk": disk.map(|disk| json!({ "free": disk.free, "size": disk.size })),
    })
}

/// The rows that are accessed most. Keys are left out unless the client may see them.
fn busiest(viewer: &Viewer<'_>, shows_data: bool) -> Value {
    let rows = viewer.rows();
    let row = |row: &BusyRow| json!({ "table": row.table, "key": shows_data.then_some(&row.key), "rate": row.rate });
    rows.iter().map(row).collect()
}

/// The rows that were written most in about the last minute, the hottest first, with conflicts and waits beside.
fn hot(sql: &Sql, shows_data: bool) -> Vec<Value> {
    // Not those of SQL's own definitions.
    let rows = sql.database().hot_rows().into_iter().filter(|row| !row.table.starts_with("sql."));
    let records = rows.take(LIST_MAX);
    let row = |record: heddledb::HotRecord| {
        let splits = record.splits.iter().map(|split| format!("{} ({})", split.column, split.operation));
        json!({
            "table": record.table,
            "key": shows_data.then_some(record.key),
            "writes": record.recent_writes,
            "conflicts": record.recent_conflicts,
            "waits": record.recent_waits,
            "waiting": record.waiting_sessions,
            "splits": splits.collect::<Vec<_>>(),
        })
    };
    records.map(row).collect()
}

/// The latest choices of the engine's, the newest first.
fn choices(sql: &Sql, shows_data: bool) -> Vec<Value> {
    let choices = sql.database().choices().into_iter().rev().take(LIST_MAX);
    let row = |choice: heddledb::Choice| {
        json!({
            "second": choice.at.as_secs_f64(),
            "what": choice.what,
            "key": choice.key.filter(|_| shows_data),
            "from": choice.from,
            "to": choice.to,
            "why": choice.why,
        })
    };
    choices.map(row).collect()
}

fn partitions(sql: &Sql) -> Vec<Value> {
    let partitions = sql.database().partitions().into_iter().take(LIST_MAX);
    let part = |it: heddledb::Partition| json!({ "from": it.from, "to": it.to, "share": it.share, "moves": it.moves });
    partitions.map(part).collect()
}

fn checkpoints(sql: &Sql) -> Value {
    let status = sql.database().checkpoints();
    json!({
        "running": status.running,
        "made": status.made,
        "failed": status.failed,
        "last_bytes": status.last.as_ref().map(|last| last.bytes),
        "last_seconds": status.last.as_ref().map(|last| last.time.as_secs_f64()),
        "failure": status.failure.map(|failure| failure.to_string()),
    })
}

fn sessions(sql: &Sql, shows_data: bool) -> Value {
    let sessions = sql.sessions();
    let mut states = BTreeMap::<&str, u64>::new();
    sessions.iter().for_each(|session| *states.entry(session.state).or_insert(0) += 1);
    let mut listed: Vec<_> = sessions.iter().collect();
    // Statements that run and transactions that are open are first, the longest time first.
    listed.sort_by_key(|session| (session.state == "idle", std::cmp::Reverse(session.for_time)));
    let line = |session: &&heddle_sql::SessionReport| {
        json!({
            "pid": session.process_id,
            "user": session.user,
            "application": session.application,
            "state": session.state,
            "seconds": session.for_time.as_secs_f64(),
            "statement": shows_data.then_some(&session.statement),
        })
    };
    let list: Vec<Value> = listed.iter().take(LIST_MAX).map(line).collect();
    json!({ "total": sessions.len(), "states": states, "list": list })
}
