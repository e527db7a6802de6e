//! Reports for operators: statistics by name, sessions, statements.
//!
//! # Invariants
//! A statistic is exactly what its description says. Those that only rise count from when the database was opened.

use std::time::Duration;

use heddledb::Statistics;

use crate::session::latency::LatencyReport;
use crate::session::{Shared, Sql};

/// The kind of a statistic: one that only rises, or a present value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatisticKind {
    /// A count that only rises.
    Counter,
    /// A present value.
    Gauge,
}

/// A number that the database reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statistic {
    /// Its name, in lower case with underscores.
    pub name: &'static str,
    /// Its value now.
    pub value: u64,
    /// `count`, `bytes` or `microseconds`.
    pub unit: &'static str,
    /// The statistic's description.
    pub description: &'static str,
    /// The statistic's kind: one that only rises, or a present value.
    pub kind: StatisticKind,
}

/// A session, as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionReport {
    /// Its process ID.
    pub process_id: i32,
    /// Its user.
    pub user: String,
    /// Its `application_name`.
    pub application: String,
    /// The session's state: `active`, `idle`, `idle in transaction`, `idle in transaction (aborted)`.
    pub state: &'static str,
    /// The statement that it executes, or has executed last, without its constants.
    pub statement: String,
    /// The time that it has been in this state.
    pub for_time: Duration,
}

impl Sql {
    /// All statistics of the database.
    pub fn statistics(&self) -> Vec<Statistic> {
        statistics(&self.shared)
    }

    /// All sessions, the oldest first.
    pub fn sessions(&self) -> Vec<SessionReport> {
        let now = crate::session::environment::now();
        let report = |activity: &crate::session::sessions::Activity| {
            let (statement, application) = activity.texts();
            SessionReport {
                process_id: activity.process_id(),
                user: activity.user.clone(),
                application,
                state: activity.doing().name(),
                statement: crate::parse::normalize::normalize_cut(&statement),
                for_time: Duration::from_micros((now - activity.state_change()).max(0) as u64),
            }
        };
        self.shared.sessions.list().iter().map(|activity| report(activity)).collect()
    }

    /// The histogram of statements' times, from the protocol or as texts, failed ones too.
    pub fn latency(&self) -> LatencyReport {
        self.shared.sessions.latency()
    }

    /// The number of failed statements by SQLSTATE. Those of a pipeline that the server repeats count each time.
    pub fn errors(&self) -> Vec<(String, u64)> {
        let errors = self.shared.sessions.errors();
        errors.into_iter().map(|(state, count)| (state.as_str().to_owned(), count)).collect()
    }
}

pub(crate) fn statistics(shared: &Shared) -> Vec<Statistic> {
    let engine = shared.database.statistics();
    let mut all = transactions(&engine);
    all.extend(memory(&engine, shared));
    all.extend(log_and_stages(&engine));
    all.extend(background(shared));
    all
}

fn counter(name: &'static str, value: u64, description: &'static str) -> Statistic {
    Statistic { name, value, unit: "count", description, kind: StatisticKind::Counter }
}

fn gauge(name: &'static str, value: u64, unit: &'static str, description: &'static str) -> Statistic {
    Statistic { name, value, unit, description, kind: StatisticKind::Gauge }
}

fn busy(name: &'static str, time: Duration, description: &'static str) -> Statistic {
    let value = time.as_micros() as u64;
    Statistic { name, value, unit: "microseconds", description, kind: StatisticKind::Counter }
}

/// Transactions of the engine: statements of their own, commits of sessions, and what the catalog needs.
fn transactions(engine: &Statistics) -> Vec<Statistic> {
    vec![
        counter(
            "transactions_committed",
            engine.committed,
            "transactions of the engine that have committed or read",
        ),
        counter(
            "transactions_failed",
            engine.failed,
            "transactions of the engine that ended in an error of their own",
        ),
        counter(
            "aborts_write",
            engine.aborted_write,
            "attempts retried because a row that they wrote had changed",
        ),
        counter(
            "aborts_read",
            engine.aborted_read,
            "attempts retried because what they had only read had changed",
        ),
        counter(
            "readers_waited",
            engine.readers_waited,
            "readers that waited for the log because of what they had read",
        ),
        counter("locks_row", engine.locks_row, "locks acquired on rows, key ranges and insertion points"),
        counter("locks_higher", engine.locks_higher, "locks acquired on tables and the database"),
        counter("locks_local", engine.locks_local, "locks entered in the lock tables of executors"),
        counter("lock_requests_local", engine.lock_requests_local, "locks requested from executors"),
        counter(
            "flows_parallel",
            engine.went_parallel,
            "transactions whose actions ran in parallel on several executors",
        ),
        counter(
            "flows_serial",
            engine.went_serial,
            "transactions whose actions ran one after the other on several executors",
        ),
        counter("calls_stolen", engine.stolen, "calls that an idle worker took from another worker's queue"),
    ]
}

fn memory(engine: &Statistics, shared: &Shared) -> Vec<Statistic> {
    vec![
        gauge("row_bytes", engine.memory_bytes, "bytes", "memory of rows, long values included; indexes not"),
        gauge(
            "work_memory_bytes",
            shared.memory.used() as u64,
            "bytes",
            "memory leased to sorts, hash tables and stored rows",
        ),
        counter(
            "snapshots_opened",
            engine.snapshots_opened,
            "snapshots that were opened; one may serve several callers",
        ),
        gauge("snapshots_open", engine.snapshots_open, "count", "snapshots that are open"),
        counter(
            "snapshots_failed",
            engine.snapshots_failed,
            "snapshots dropped because versions exceeded their limit",
        ),
        gauge(
            "snapshot_versions",
            engine.snapshot_versions,
            "count",
            "old versions of rows that open snapshots need",
        ),
        gauge("snapshot_bytes", engine.snapshot_bytes, "bytes", "memory of these versions"),
    ]
}

fn log_and_stages(engine: &Statistics) -> Vec<Statistic> {
    vec![
        counter("log_groups", engine.log_groups, "groups written to the log"),
        counter("log_transactions", engine.log_transactions, "transactions in these groups"),
        Statistic { unit: "bytes", ..counter("log_bytes", engine.log_bytes, "redo written to the log") },
        counter("log_flushes", engine.log_flushes, "flushes of the log to disk"),
        busy("input_busy", engine.input_busy, "time that the input stage worked, all its threads together"),
        busy(
            "execute_busy",
            engine.execute_busy,
            "time that the execute stage worked, without waits; sessions execute on their own threads",
        ),
        busy("log_busy", engine.log_busy, "time that the log stage worked or waited for the disk"),
        busy("output_busy", engine.output_busy, "time that the output stage worked"),
        busy("checkpoint_busy", engine.checkpoint_busy, "time that checkpoints were copied and written"),
        busy("follower_busy", engine.follower_busy, "time that a follower worked, in its own process"),
    ]
}

/// Phases, checkpoints, sessions.
fn background(shared: &Shared) -> Vec<Statistic> {
    let phases = shared.database.phases().unwrap_or_default();
    let checkpoints = shared.database.checkpoints();
    let latency = shared.sessions.latency();
    let splits = phases.columns.iter().filter(|column| column.now).count() as u64;
    vec![
        counter("phases_joined", phases.joined, "joined phases that have begun"),
        counter("phases_split", phases.split, "split phases that have begun"),
        counter("reconciliations", phases.reconciliation, "times that slices were merged"),
        counter("stashed", phases.stashed, "calls that were stashed until a joined phase"),
        gauge("columns_split", splits, "count", "columns of single rows that are split now"),
        counter(
            "partition_moves",
            shared.database.partitions().iter().map(|it| it.moves).sum(),
            "changes of executors' ranges",
        ),
        counter("checkpoints_made", checkpoints.made, "checkpoints that are whole"),
        counter("checkpoints_failed", checkpoints.failed, "checkpoints that have failed"),
        Statistic {
            unit: "bytes",
            ..counter("checkpoint_bytes", checkpoints.bytes, "bytes of all checkpoints")
        },
        gauge(
            "durable_epoch",
            shared.database.durable_epoch(),
            "count",
            "the epoch through which everything is durable",
        ),
        gauge("sessions", shared.sessions.list().len() as u64, "count", "sessions that are open"),
        counter("statements", latency.count(), "statements that have ended, failed ones too"),
        busy("statement_time", latency.total(), "time of these statements, waits included"),
    ]
}
