//! The engine's reports about itself: `heddle_stats`, `heddle_choices`, `heddle_hot_rows`, `heddle_split_columns`,
//! `heddle_schedule`, `heddle_partitions`, `heddle_checkpoints`, `heddle_archive`, `heddle_replication`, and
//! `pg_stat_statements`.
//!
//! # Invariants
//! Keys of rows and other users' statements are NULL for users that may not see them
//! ([`SessionEnvironment::sees_all`](crate::session::SessionEnvironment::sees_all)).

use heddledb::{HotRecord, StandbyStatus};

use super::row::{Output, list, row};
use super::{DATABASE, OWNER, SystemCatalog};
use crate::session::POSTGRES_EPOCH;
use crate::session::report::statistics as all_statistics;
use crate::types::{Type, Value};

pub(super) fn statistics(system: &SystemCatalog<'_>, out: &mut Output) {
    for statistic in all_statistics(system.session.shared()) {
        row!(
            out,
            name = statistic.name,
            value = statistic.value as i64,
            unit = statistic.unit,
            description = statistic.description,
        );
    }
}

/// The engine's treatment of a row.
fn treatment(record: &HotRecord) -> &'static str {
    match record {
        record if !record.splits.is_empty() => "split",
        record if record.waiting_sessions > 0 => "queue",
        record if record.is_predicted => "reserve",
        record if record.write_conflicts + record.recent_conflicts > 0 => "retry",
        _ => "none",
    }
}

/// The prefix of the names of the engine's tables that hold SQL's own definitions.
const OWN_TABLES: &str = "sql.";

pub(super) fn hot_rows(system: &SystemCatalog<'_>, out: &mut Output) {
    let sees_all = system.session.sees_all();
    let rows = system.session.shared().database.hot_rows().into_iter();
    for record in rows.filter(|record| !record.table.starts_with(OWN_TABLES)) {
        let columns = record.splits.iter().map(|split| split.column.as_str());
        row!(
            out,
            table_name = &record.table,
            row_key = sees_all.then_some(&record.key),
            sampled_writes = record.recent_writes as i64,
            conflicts = record.recent_conflicts as i64,
            waits = record.recent_waits as i64,
            waiting_sessions = record.waiting_sessions as i32,
            treatment = treatment(&record),
            split_columns = list(Type::Text, columns),
        );
    }
}

pub(super) fn choices(system: &SystemCatalog<'_>, out: &mut Output) {
    let sees_all = system.session.sees_all();
    for choice in system.session.shared().database.choices() {
        row!(
            out,
            second = choice.at.as_secs_f64(),
            what = &choice.what,
            row_key = choice.key.as_ref().filter(|_| sees_all),
            old_choice = &choice.from,
            new_choice = &choice.to,
            why = &choice.why,
        );
    }
}

pub(super) fn split_columns(system: &SystemCatalog<'_>, out: &mut Output) {
    let sees_all = system.session.sees_all();
    let columns = system.session.shared().database.phases().map_or_else(Vec::new, |phases| phases.columns);
    for split in columns {
        row!(
            out,
            table_name = &split.table,
            row_key = sees_all.then_some(&split.key),
            column_name = &split.column,
            operation = split.operation.name(),
            phases = split.phases as i64,
            is_split = split.now,
        );
    }
}

pub(super) fn schedule(system: &SystemCatalog<'_>, out: &mut Output) {
    let Some(report) = system.session.shared().database.schedule() else { return };
    row!(
        out,
        history_references = report.history_references as i64,
        state_references = report.state_references as i64,
        memory_bytes = report.bytes as i64,
        is_filling = report.is_filling,
        is_idle_mode = report.is_idle_mode,
    );
}

pub(super) fn partitions(system: &SystemCatalog<'_>, out: &mut Output) {
    for (executor, partition) in system.session.shared().database.partitions().into_iter().enumerate() {
        row!(
            out,
            executor = executor as i32,
            range_start = partition.from,
            range_end = partition.to,
            request_share = partition.share,
            moves = partition.moves as i64,
        );
    }
}

pub(super) fn checkpoints(system: &SystemCatalog<'_>, out: &mut Output) {
    let status = system.session.shared().database.checkpoints();
    let last = status.last.as_ref();
    row!(
        out,
        is_running = status.running,
        made = status.made as i64,
        made_by_follower = status.by_follower as i64,
        failed = status.failed as i64,
        bytes = status.bytes as i64,
        seconds = status.time.as_secs_f64(),
        last_number = last.map(|last| i64::from(last.number)),
        last_epoch = last.map(|last| last.epoch as i64),
        last_records = last.map(|last| last.records as i64),
        last_bytes = last.map(|last| last.bytes as i64),
        last_seconds = last.map(|last| last.time.as_secs_f64()),
        failure = status.failure.map(|failure| failure.to_string()),
    );
}

pub(super) fn archive(system: &SystemCatalog<'_>, out: &mut Output) {
    let Some(status) = system.session.shared().database.archive_status() else { return };
    let reached = status.last_upload.and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
    row!(
        out,
        timeline = i64::from(status.timeline),
        archived_epoch = status.archived_epoch as i64,
        durable_epoch = status.durable_epoch as i64,
        bytes_behind = status.bytes_behind as i64,
        checkpoint = i64::from(status.checkpoint),
        objects = status.objects as i64,
        bytes = status.bytes as i64,
        failures = status.failures as i64,
        failure = status.failure,
        alarm = status.alarm,
        last_upload_seconds = reached.map(|reached| reached.as_secs_f64()),
    );
}

pub(super) fn replication(system: &SystemCatalog<'_>, out: &mut Output) {
    let database = &system.session.shared().database;
    // Where nothing is logged there is nothing to replicate.
    let Ok(position) = database.durable_position() else { return };
    let standby = database.standby_status();
    let of_standby = |number: fn(&StandbyStatus) -> u64| standby.as_ref().map(|it| number(it) as i64);
    let time = standby.as_ref().and_then(|standby| standby.time);
    row!(
        out,
        role = if standby.is_some() { "standby" } else { "primary" },
        position = position.to_string(),
        source = standby.as_ref().map(|standby| standby.source.display().to_string()),
        group_time = time.map(|time| Value::Timestamptz(time.microseconds() - POSTGRES_EPOCH)),
        groups = of_standby(|standby| standby.groups),
        transactions = of_standby(|standby| standby.transactions),
        bytes = of_standby(|standby| standby.bytes),
        has_caught_up = standby.as_ref().map(|standby| standby.has_caught_up),
        failure = standby.as_ref().and_then(|standby| standby.failure.as_ref()).map(ToString::to_string),
    );
}

pub(super) fn statements(system: &SystemCatalog<'_>, out: &mut Output) {
    let session = system.session;
    let milliseconds = |nanoseconds: u64| nanoseconds as f64 / 1e6;
    for statement in session.shared().statements.report() {
        let is_visible = session.sees_all() || statement.user == *session.settings.derived.session_user;
        let totals = statement.totals;
        row!(
            out,
            userid = session.oid_of(&statement.user).unwrap_or(OWNER),
            usename = &statement.user,
            dbid = DATABASE,
            queryid = is_visible.then_some(statement.id),
            query = if is_visible { statement.text.as_str() } else { "<insufficient privilege>" },
            calls = totals.calls as i64,
            total_exec_time = milliseconds(totals.nanoseconds),
            min_exec_time = milliseconds(totals.least),
            max_exec_time = milliseconds(totals.most),
            mean_exec_time = milliseconds(totals.nanoseconds) / totals.calls as f64,
            rows = totals.rows as i64,
        );
    }
}
