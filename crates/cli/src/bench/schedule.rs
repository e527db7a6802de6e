//! Options for the placing of calls.

use clap::Args;
use heddle_workloads::driver::CallPath;
use heddledb::{Options, Policy, PredictOptions, ScheduleKind, ScheduleOptions, StatePrune};
use serde_json::Value;

use crate::failure::{Failure, Result};

/// Options of the schedule: the queue of a call, the threads that make the calls, and what the schedule
/// learns from them.
#[derive(Args, Clone, Debug)]
pub struct ScheduleArguments {
    /// Choice of the worker queue for a call: random, partition (by a key), predict (to probable rivals)
    /// [default: random]
    #[arg(long, value_name = "NAME", help_heading = "For experiments: schedule")]
    schedule: Option<ScheduleKind>,
    /// Weights of predict: {count|fraction}-{max|sum}-{canonical|literal}-{single|all} [default:
    /// count-max-canonical-single]
    #[arg(long, value_name = "NAME", help_heading = "For experiments: schedule")]
    pub policy: Option<Policy>,
    /// The column by whose value partition places calls: its name, or TABLE.COLUMN [default: the workload's, if it has
    /// one]
    #[arg(long, value_name = "COLUMN", help_heading = "For experiments: schedule")]
    pub partition_key: Option<String>,
    /// Threads that make and place the calls [default: 1 where a --schedule is given, else none: see --clients]
    #[arg(long, value_name = "N", help_heading = "For experiments: schedule")]
    pub generators: Option<usize>,
    /// Seconds in which predict places calls at random at first, to observe conflicts; before the measured
    /// interval [default: 5]
    #[arg(long, value_name = "S", help_heading = "For experiments: schedule")]
    pub history_seconds: Option<f64>,
    /// Least number of seconds before predict replaces what it has learned [default: 30]
    #[arg(long, value_name = "S", help_heading = "For experiments: schedule")]
    pub history_renewal_seconds: Option<f64>,
    /// Times at which predict forgets where references were placed: stable, direct, off [default: stable]
    #[arg(long, value_name = "WHEN", help_heading = "For experiments: schedule")]
    pub state_prune: Option<StatePrune>,
    /// The memory that predict takes, in MiB [default: 32]
    #[arg(long, value_name = "N", help_heading = "For experiments: schedule")]
    pub schedule_memory_mib: Option<usize>,
    /// Most calls that wait in a worker's queue, where calls are placed by generators [default: 256]
    #[arg(long, value_name = "N", help_heading = "For experiments: schedule")]
    pub queue_calls: Option<usize>,
}

/// The default of `--history-seconds`.
const HISTORY_SECONDS: f64 = 5.0;
/// Delay after which the History is certainly complete: the engine reads the clock ten times a second, both
/// for the first call and for the end of the History.
const LATE_SECONDS: f64 = 0.3;

impl ScheduleArguments {
    /// The kind of schedule.
    pub fn kind(&self) -> ScheduleKind {
        self.schedule.unwrap_or_default()
    }

    /// Returns true if `--schedule` was given, even if it names the default.
    pub fn is_given(&self) -> bool {
        self.schedule.is_some()
    }

    /// The number of generator threads, if there are any. The default is one with `--schedule`, even with `random`, so
    /// that schedules are compared on the same pipeline.
    pub fn generators(&self) -> Option<usize> {
        self.generators.or(self.is_given().then_some(1))
    }

    /// Returns true if `--generators` was given.
    pub fn has_generators(&self) -> bool {
        self.generators.is_some()
    }

    /// The source of calls, if it is generators rather than workers or clients.
    pub fn path(&self, clients: usize, in_flight: Option<usize>) -> Result<Option<CallPath>> {
        if clients > 0 {
            return match self.generators {
                None => Ok(None),
                Some(_) => Err(Failure::Usage(
                    "--generators make calls without waiting, and --clients wait for each; give one of them"
                        .to_owned(),
                )),
            };
        }
        if self.generators().is_some() && in_flight.is_some() {
            return Err(Failure::Usage(
                "--in-flight is for workers that make their own calls; limit generators with --max-in-flight"
                    .to_owned(),
            ));
        }
        Ok(self.generators().map(|generators| CallPath::Generators { generators }))
    }

    /// Rejects options that contradict each other. `usual_key`: the workload's default partition key.
    pub fn check(&self, usual_key: Option<&str>) -> Result {
        let predict = self.kind() == ScheduleKind::Predict;
        let given = [
            ("--policy", self.policy.is_some()),
            ("--history-seconds", self.history_seconds.is_some()),
            ("--history-renewal-seconds", self.history_renewal_seconds.is_some()),
            ("--state-prune", self.state_prune.is_some()),
            ("--schedule-memory-mib", self.schedule_memory_mib.is_some()),
        ];
        if let (false, Some((option, _))) = (predict, given.iter().find(|(_, given)| *given)) {
            return Err(Failure::Usage(format!("{option} is for --schedule predict; give both, or neither")));
        }
        match (self.kind() == ScheduleKind::Partition, self.partition_key.as_deref().or(usual_key)) {
            (true, None) => Err(Failure::Usage(
                "--schedule partition needs a key here: give --partition-key COLUMN".to_owned(),
            )),
            (false, _) if self.partition_key.is_some() => Err(Failure::Usage(
                "--partition-key is for --schedule partition; give both, or neither".to_owned(),
            )),
            _ => Ok(()),
        }
    }

    /// Length of the random placement at the start, in seconds.
    pub fn history(&self) -> f64 {
        match self.kind() {
            ScheduleKind::Predict => self.history_seconds.unwrap_or(HISTORY_SECONDS),
            _ => 0.0,
        }
    }

    /// Seconds to run before the measured interval, so that the policy is in effect throughout it.
    pub fn settling(&self) -> f64 {
        match self.kind() {
            ScheduleKind::Predict => self.history() + LATE_SECONDS,
            _ => 0.0,
        }
    }

    /// The options of `predict`.
    fn predict(&self) -> PredictOptions {
        let mut options = PredictOptions::default().history_seconds(self.history());
        if let Some(policy) = self.policy {
            options = options.policy(policy);
        }
        if let Some(seconds) = self.history_renewal_seconds {
            options = options.history_renewal_seconds(seconds);
        }
        if let Some(prune) = self.state_prune {
            options = options.state_prune(prune);
        }
        if let Some(mebibytes) = self.schedule_memory_mib {
            options = options.memory_bytes(mebibytes.saturating_mul(1 << 20));
        }
        options
    }

    /// Applies the arguments to the engine's options; the engine's defaults hold for arguments that were not
    /// given.
    pub fn apply(&self, options: Options, usual_key: Option<&str>) -> Options {
        let schedule = match (self.kind(), self.partition_key.as_deref().or(usual_key)) {
            (ScheduleKind::Predict, _) => self.predict().into(),
            (ScheduleKind::Partition, Some(key)) => ScheduleOptions::partition_by(key),
            (kind, _) => kind.into(),
        };
        let mut options = options.schedule(schedule);
        if let Some(calls) = self.queue_calls {
            options = options.queues(|queues| queues.capacity(calls));
        }
        // Work stealing is on under every schedule, so that schedules differ only in where they place calls.
        if self.generators().is_some() {
            options.queues(|queues| queues.work_stealing(true))
        } else {
            options
        }
    }

    /// The arguments that belong in the report.
    pub fn parameters(&self) -> Vec<(&'static str, Value)> {
        let mut parameters: Vec<(&'static str, Value)> = Vec::new();
        let mut given = |name, value: Option<Value>| parameters.extend(value.map(|value| (name, value)));
        given("partition_key", self.partition_key.as_deref().map(Into::into));
        if self.kind() == ScheduleKind::Predict {
            given("history_seconds", Some(self.history().into()));
            given("state_prune", Some(self.state_prune.unwrap_or_default().to_string().into()));
        }
        given("history_renewal_seconds", self.history_renewal_seconds.map(Into::into));
        given("schedule_memory_mib", self.schedule_memory_mib.map(Into::into));
        given("queue_calls", self.queue_calls.map(Into::into));
        parameters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: ScheduleArguments,
    }

    fn parse(line: &str) -> ScheduleArguments {
        Line::try_parse_from(line.split(' '))
            .map(|line| line.options)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    fn refused(line: &str, key: Option<&str>) -> String {
        parse(line).check(key).expect_err("it does not go together").to_string()
    }

    #[test]
    fn workers_make_their_own_calls_unless_generators_or_clients_do() {
        assert!(matches!(parse("x").path(0, Some(8)), Ok(None)));
        assert!(matches!(
            parse("x --schedule random").path(0, None),
            Ok(Some(CallPath::Generators { generators: 1 }))
        ));
        assert!(matches!(
            parse("x --schedule predict").path(0, None),
            Ok(Some(CallPath::Generators { generators: 1 }))
        ));
        assert!(matches!(
            parse("x --generators 3").path(0, None),
            Ok(Some(CallPath::Generators { generators: 3 }))
        ));
        assert!(
            matches!(parse("x --schedule predict").path(8, None), Ok(None)),
            "clients call through the queues"
        );
        assert!(parse("x --generators 3").path(8, None).is_err());
        assert!(parse("x --generators 3").path(0, Some(8)).is_err());
    }

    #[test]
    fn contradictory_options_are_refused_by_name() {
        assert!(refused("x --policy count-max-canonical-single", None).contains("--policy"));
        assert!(refused("x --state-prune off --schedule partition", Some("id")).contains("--state-prune"));
        assert!(refused("x --schedule partition", None).contains("--partition-key"));
        assert!(refused("x --partition-key id", None).contains("--schedule partition"));
        assert!(parse("x --schedule partition").check(Some("id")).is_ok());
        assert!(parse("x --schedule predict --policy fraction-sum-literal-all").check(None).is_ok());
    }

    #[test]
    fn only_predict_has_a_history_to_fill() {
        assert_eq!((parse("x").history(), parse("x --schedule predict").history()), (0.0, 5.0));
        let half = parse("x --schedule predict --history-seconds 0.5");
        assert_eq!((half.history(), parse("x").settling()), (0.5, 0.0));
        assert!(half.settling() > 0.5, "not before the policy decides");
    }
}
