//! The statistics in Prometheus's text format, version 0.0.4.
//!
//! # Invariants
//! A metric is the statistic of the same name: counters end in `_total`, times are in seconds.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use heddle_sql::{LatencyReport, Sql, Statistic, StatisticKind};

use super::host;
use crate::server::Shared;

/// The bounds of the histogram: 1 µs to 134 s, each twice the one before.
const OCTAVES: std::ops::RangeInclusive<u32> = 0..=27;

/// All metrics. Before the database has recovered there are few.
pub(super) fn text(shared: &Shared) -> String {
    let mut text = String::new();
    let mut metrics = Metrics(&mut text);
    metrics.one(
        "heddle_ready",
        "gauge",
        "whether the server accepts statements",
        u8::from(shared.is_ready()),
    );
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    metrics.head("heddle_build_info", "gauge", "the server's version");
    metrics.line("heddle_build_info", &version, 1);
    metrics.one(
        "heddle_connections",
        "gauge",
        "connections, unauthenticated ones included",
        shared.registry.connections(),
    );
    metrics.of_process(shared);
    if let Some(served) = shared.served.get() {
        metrics.of_database(&served.sql);
    }
    text
}

struct Metrics<'t>(&'t mut String);

impl Metrics<'_> {
    // Writing to a text cannot fail.

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.head(name, kind, help);
        self.line(name, &[], value);
    }

    /// Writes the metrics that Prometheus's clients report of every process, under their names.
    fn of_process(&mut self, shared: &Shared) {
        let started = host::seconds(shared.started);
        self.one(
            "process_start_time_seconds",
            "gauge",
            "when the server was started, in seconds since 1970",
            started,
        );
        if let Some(bytes) = host::resident_memory() {
            self.one(
                "process_resident_memory_bytes",
                "gauge",
                "memory of the process that is resident",
                bytes,
            );
        }
    }

    /// Room on the disk that the log is on.
    fn disk(&mut self, sql: &Sql) {
        let directory = sql.database().log_directory();
        if let Some(disk) = directory.and_then(|directory| host::disk(&directory)) {
            self.one("heddle_disk_size_bytes", "gauge", "size of the disk that the log is on", disk.size);
            self.one(
                "heddle_disk_free_bytes",
                "gauge",
                "what may still be written to the disk that the log is on",
                disk.free,
            );
        }
    }

    fn of_database(&mut self, sql: &Sql) {
        self.disk(sql);
        let refuses = u8::from(sql.database().updates_refused().is_some());
        self.one(
            "heddle_updates_refused",
            "gauge",
            "whether commits are refused: the log has failed, or disk or memory is full",
            refuses,
        );
        self.archive(sql);
        self.standby(sql);
        sql.statistics().iter().filter(|it| !is_in_histogram(it)).for_each(|it| self.statistic(it));
        self.histogram("heddle_statement_seconds", &sql.latency());
        self.head("heddle_errors_total", "counter", "statements that have failed, by SQLSTATE");
        for (state, count) in sql.errors() {
            self.line("heddle_errors_total", &[("sqlstate", &state)], count);
        }
        let mut states = BTreeMap::<&str, u64>::new();
        sql.sessions().iter().for_each(|session| *states.entry(session.state).or_insert(0) += 1);
        self.head("heddle_sessions_by_state", "gauge", "sessions by what they do");
        for (state, count) in states {
            self.line("heddle_sessions_by_state", &[("state", state)], count);
        }
    }

    /// Progress and failures of replay, if the server is a standby.
    fn standby(&mut self, sql: &Sql) {
        let status = sql.database().standby_status();
        self.one("heddle_standby", "gauge", "whether the server is a standby", u8::from(status.is_some()));
        let Some(status) = status else { return };
        let stopped = u8::from(status.failure.is_some());
        self.one("heddle_standby_stopped", "gauge", "whether the log is replayed no more", stopped);
        let groups = "log groups that were replayed";
        self.one("heddle_standby_groups_total", "counter", groups, status.groups);
        let transactions = "transactions that were replayed";
        self.one("heddle_standby_transactions_total", "counter", transactions, status.transactions);
        let bytes = "bytes of redo that were replayed";
        self.one("heddle_standby_bytes_total", "counter", bytes, status.bytes);
    }

    /// Progress and failures of the archiver, if there is one.
    fn archive(&mut self, sql: &Sql) {
        let Some(status) = sql.database().archive_status() else { return };
        let reached = status.last_upload.map_or(0.0, host::seconds);
        let gauges: [(&str, &str, f64); 4] = [
            (
                "alarm",
                "whether the archive cannot be reached, and the log is beyond archive_hold_bytes",
                status.alarm.into(),
            ),
            ("failing", "whether the last attempt to archive has failed", status.failure.is_some().into()),
            (
                "bytes_behind",
                "bytes of whole segments of the log that are not archived",
                status.bytes_behind as f64,
            ),
            ("last_upload_seconds", "when the archive was reached last, in seconds since 1970", reached),
        ];
        for (name, help, value) in gauges {
            self.one(&format!("heddle_archive_{name}"), "gauge", help, value);
        }
        for (name, help, value) in [
            ("objects", "objects that were created in the archive", status.objects),
            ("bytes", "bytes of these objects", status.bytes),
            ("failures", "attempts to archive that have failed", status.failures),
        ] {
            self.one(&format!("heddle_archive_{name}_total"), "counter", help, value);
        }
    }

    fn statistic(&mut self, statistic: &Statistic) {
        let Statistic { name, value, unit, description, kind } = *statistic;
        let (kind, ending) = match kind {
            StatisticKind::Counter => ("counter", "_total"),
            StatisticKind::Gauge => ("gauge", ""),
        };
        if unit == "microseconds" {
            self.one(&format!("heddle_{name}_seconds{ending}"), kind, description, value as f64 / 1e6);
        } else {
            self.one(&format!("heddle_{name}{ending}"), kind, description, value);
        }
    }

    fn histogram(&mut self, name: &str, latency: &LatencyReport) {
        self.head(name, "histogram", "how long statements took, waits included, failed ones too");
        let bucket = format!("{name}_bucket");
        for octave in OCTAVES {
            let bound = (1_u64 << octave) as f64 / 1e6;
            self.line(&bucket, &[("le", &bound.to_string())], latency.below(octave));
        }
        self.line(&bucket, &[("le", "+Inf")], latency.count());
        self.line(&format!("{name}_sum"), &[], latency.total().as_secs_f64());
        self.line(&format!("{name}_count"), &[], latency.count());
    }
}

/// Returns true if the histogram contains the statistic already.
fn is_in_histogram(statistic: &Statistic) -> bool {
    ["statements", "statement_time"].contains(&statistic.name)
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped_and_each_metric_has_its_help_and_type() {
        let mut text = String::new();
        let mut metrics = Metrics(&mut text);
        metrics.one("a", "gauge", "help", 1);
        metrics.line("b", &[("x", "q\"\\\n"), ("y", "z")], 0.5);
        assert_eq!(text, "# HELP a help\n# TYPE a gauge\na 1\nb{x=\"q\\\"\\\\\\n\",y=\"z\"} 0.5\n");
    }
}
