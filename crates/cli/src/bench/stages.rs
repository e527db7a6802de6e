//! The stages of the pipeline, as the engine's counters show them.

use std::time::Duration;

use super::run::Findings;

/// One stage over the measured interval.
pub struct Stage {
    /// Its name.
    pub name: &'static str,
    /// Its threads' working time as a share of the interval; several threads may add up to more than 1.
    pub busy: f64,
    /// Busy time in seconds.
    pub seconds: f64,
    /// Calls per batch dequeued by it; `None` for the first stage, and where there was no batch.
    pub handover_mean: Option<f64>,
}

/// All stages, in the order in which a transaction passes them, and last the follower, if the run has one.
pub fn stages(findings: &Findings<'_>) -> Vec<Stage> {
    let report = &findings.report;
    let counters = &report.statistics;
    let stage = |name, busy: Duration, (handovers, calls): (u64, u64)| Stage {
        name,
        seconds: busy.as_secs_f64(),
        busy: busy.as_secs_f64() / report.seconds.max(f64::MIN_POSITIVE),
        handover_mean: (handovers > 0).then(|| calls as f64 / handovers as f64),
    };
    let checkpoints = &findings.plan.options.checkpoints;
    let has_follower = checkpoints.follower || checkpoints.follower_socket.is_some();
    let follower = has_follower.then(|| stage("follower", counters.follower_busy, (0, 0)));
    let own = [
        stage("input", counters.input_busy, (0, 0)),
        stage("execute", counters.execute_busy, counters.execute_batches),
        stage("log", counters.log_busy, counters.log_batches),
        stage("output", counters.output_busy, counters.output_batches),
        stage("checkpoint", counters.checkpoint_busy, (0, 0)),
    ];
    own.into_iter().chain(follower).collect()
}
