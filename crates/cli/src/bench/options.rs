//! Options that all workloads share.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use heddle_workloads::driver::{CallPath, Settings};
use heddledb::{
    Durability, LockConflict, LockingOptions, Options, PhasedOptions, ProtocolKind, ProtocolOptions, Retry,
    SerialOptions, SerialVariant, Stages,
};

use super::checkpoints::CheckpointArguments;
use super::partitions::PartitionArguments;
use super::schedule::ScheduleArguments;
use super::split_label::SplitLabel;
use crate::failure::{Failure, Result};

/// Calls per group of a worker that makes its own.
const IN_FLIGHT: usize = 32;

/// Default length of the measured interval, in seconds.
const SECONDS: f64 = 5.0;

/// Worker contexts beside those of workers and callers: for checks, sessions and the like.
const SPARE_CONTEXTS: usize = 16;

/// Worker contexts that there are in any case, and the most that the engine allows.
const USUAL_CONTEXTS: usize = 256;
const MOST_CONTEXTS: usize = 1 << 16;

/// Options of every workload.
#[derive(Args, Clone)]
pub struct CommonOptions {
    // The engine's own list, so that the help names every protocol that there is.
    #[arg(
        long,
        value_name = "NAME",
        default_value_t = ProtocolKind::default(),
        help = protocol_help(),
        help_heading = "Main options"
    )]
    pub protocol: ProtocolKind,
    /// Moment at which a call counts as durable: none, async, group
    #[arg(long, value_name = "WHEN", default_value_t = Durability::Group, help_heading = "Main options")]
    pub durability: Durability,
    /// Most transactions in a log group
    #[arg(long, value_name = "N", help_heading = "For experiments: engine")]
    pub group_size: Option<usize>,
    /// Longest time that a log group stays open, from its first record, in milliseconds
    #[arg(long, value_name = "M", help_heading = "For experiments: engine")]
    pub group_ms: Option<f64>,
    /// Workers [default: as many as there are processors]
    #[arg(long, value_name = "N", help_heading = "Main options")]
    pub threads: Option<usize>,
    /// Threads of the pipeline's stages: folded, staged, single [default: the layout that fits the
    /// processors]
    #[arg(long, value_name = "HOW", help_heading = "For experiments: engine")]
    pub stages: Option<Stages>,
    /// Threads of the input stage
    #[arg(long, value_name = "N", help_heading = "For experiments: engine")]
    pub input_threads: Option<usize>,
    /// Threads of the output stage
    #[arg(long, value_name = "N", help_heading = "For experiments: engine")]
    pub output_threads: Option<usize>,
    /// Most calls in the engine at once: a number, or auto, which finds out what gives the most throughput [default: 4096]
    #[arg(long, value_name = "N|auto", value_parser = parse_limit, help_heading = "For experiments: engine")]
    pub max_in_flight: Option<Limit>,
    /// Partitions of the serial protocol [default: 1]
    #[arg(long, value_name = "N", help_heading = "For experiments: engine")]
    pub sites: Option<usize>,
    /// Variant of the serial protocol: naive, precommit, sp [default: sp]
    #[arg(long, value_name = "NAME", help_heading = "For experiments: engine")]
    pub variant: Option<SerialVariant>,
    /// Reaction to a conflict with a rival's change or lock, before the retry: backoff, immediate
    #[arg(long, value_name = "HOW", default_value_t = Retry::default(), help_heading = "For experiments: engine")]
    pub retry: Retry,
    /// Reaction to another call's lock: wait, no-wait (the locking protocol) [default: wait]
    #[arg(long, value_name = "HOW", help_heading = "For experiments: engine")]
    pub lock_conflict: Option<LockConflict>,
    /// Longest split phase of the phased protocol, in milliseconds, fractions allowed: about this long readers of a split
    /// record wait [default: 20]
    #[arg(long, value_name = "M", help_heading = "For experiments: engine")]
    pub phase_ms: Option<f64>,
    /// Split this column of this record for this operation, by hand (the phased protocol); repeatable
    #[arg(long, value_name = "TABLE.COLUMN:KEY:OPERATION", help_heading = "For experiments: engine")]
    pub split: Vec<SplitLabel>,
    #[command(flatten)]
    pub schedule: ScheduleArguments,
    #[command(flatten)]
    pub partitions: PartitionArguments,
    #[command(flatten)]
    pub checkpoints: CheckpointArguments,
    /// Keep the database in this directory [default: a temporary directory on disk, removed at the end]
    #[arg(long, value_name = "PATH", help_heading = "Main options")]
    pub dir: Option<PathBuf>,
    /// Keep a new database's log in this directory, on another disk perhaps; of a temporary database in a directory
    /// below it
    #[arg(long, value_name = "PATH", help_heading = "For experiments: engine")]
    pub log_dir: Option<PathBuf>,
    /// Run everything, callers too, on this one processor, numbered from 0
    #[arg(long, value_name = "N", help_heading = "For experiments: engine")]
    pub processor: Option<usize>,

    /// Implementation of calls; rust: procedures in Rust; sql: functions in PL/pgSQL, each call through the
    /// caller's own SQL connection
    #[arg(long, value_enum, default_value_t, help_heading = "For experiments: load")]
    pub interface: Interface,
    /// 0: each worker makes the calls that it runs; N: N client threads wait for their durable answers
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Main options")]
    pub clients: usize,
    /// Calls that a worker makes as one group, with --clients 0 [default: 32]
    #[arg(long, value_name = "N", help_heading = "For experiments: load")]
    pub in_flight: Option<usize>,
    /// Offered load in calls per second, Poisson arrivals; latency counts from the planned arrival
    #[arg(long, value_name = "R", help_heading = "Main options")]
    pub rate: Option<f64>,
    /// Search the rate at which the mean response time is this many milliseconds, and measure at it
    #[arg(long, value_name = "M", conflicts_with_all = ["rate", "transactions"], help_heading = "For experiments: load")]
    pub target_mean_ms: Option<f64>,
    /// A pause between a transaction's accesses, in microseconds
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = think_range(), help_heading = "For experiments: load")]
    pub think_us: u64,
    /// Processor time that a caller spends before each transaction, in microseconds, as TPK's simulated terminal does
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = think_range(), help_heading = "For experiments: load")]
    pub input_us: u64,
    /// Measured seconds, fractions allowed [default: 5]
    #[arg(long, value_name = "S", help_heading = "Main options")]
    pub seconds: Option<f64>,
    /// Seconds to run before measuring
    #[arg(long, value_name = "S", default_value_t = 0.0, help_heading = "For experiments: load")]
    pub warmup: f64,
    /// End after this many calls, whatever the time
    #[arg(long, value_name = "N", conflicts_with = "seconds", help_heading = "Main options")]
    pub transactions: Option<u64>,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Main options")]
    pub seed: u64,

    /// Append one line for each released call: the key under which it can be found (a FIFO works)
    #[arg(long, value_name = "PATH", help_heading = "For experiments: output")]
    pub acks: Option<PathBuf>,
    /// Close the database after the run, recover it, and verify it again
    #[arg(long, help_heading = "For experiments: output")]
    pub verify_recovery: bool,
    /// Draw which thread touches which record of a table when, into this file
    #[arg(long, value_name = "FILE.svg", help_heading = "For experiments: output")]
    pub access_trace: Option<PathBuf>,
    /// The table whose accesses are drawn [default: the one with most accesses]
    #[arg(long, value_name = "TABLE", requires = "access_trace", help_heading = "For experiments: output")]
    pub access_trace_table: Option<String>,
    /// Looks a second at what the executing threads are at, for time_share; 0: none
    #[arg(long, value_name = "N", default_value_t = 200, help_heading = "For experiments: output")]
    pub time_samples: usize,
    /// Print one JSON object on the last line of standard output
    #[arg(long, help_heading = "Main options")]
    pub json: bool,
    /// True if the table shows the throughput over time, which the workload's own options ask for.
    #[arg(skip)]
    pub shows_time: bool,
    /// Seconds from the beginning of the warm-up after which the load shifts for good, which the workload's
    /// own options say.
    #[arg(skip)]
    pub shifts_after: Option<f64>,
}

/// The pauses that `--think-us` allows: up to ten seconds.
pub fn think_range() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(0..=10_000_000)
}

/// The implementation of a workload's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Interface {
    #[default]
    Rust,
    Sql,
}

impl Interface {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Interface::Rust => "rust",
            Interface::Sql => "sql",
        }
    }
}

/// A limit, or the engine's own choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The engine chooses.
    Auto,
    /// A limit of this number.
    Most(usize),
}

/// The protocols that there are.
fn protocol_help() -> String {
    let names: Vec<&str> = ProtocolKind::ALL.iter().map(|protocol| protocol.name()).collect();
    format!("How calls are isolated: {}", names.join(", "))
}

fn parse_limit(text: &str) -> std::result::Result<Limit, String> {
    match text {
        "auto" => Ok(Limit::Auto),
        number => number.parse().map(Limit::Most).map_err(|_| "give a number, or auto".to_owned()),
    }
}

impl CommonOptions {
    /// Returns true if there is a log to recover from.
    pub fn is_durable(&self) -> bool {
        self.durability != Durability::None
    }

    /// Workers of the run.
    pub fn workers(&self) -> usize {
        self.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// Refuses acknowledgements, for a workload whose calls leave nothing to find.
    pub fn refuse_acknowledgements(&self, workload: &str) -> Result {
        match self.acks {
            None => Ok(()),
            Some(_) => {
                Err(Failure::Usage(format!("{workload} leaves no key to acknowledge; leave out --acks")))
            }
        }
    }

    /// The source of calls; client threads run closures where the workload would have it so.
    pub fn path(&self, closures: bool) -> Result<CallPath> {
        if self.interface == Interface::Sql {
            return self.path_of_connections();
        }
        if let Some(path) = self.schedule.path(self.clients, self.in_flight)? {
            return Ok(path);
        }
        match (self.clients, self.in_flight) {
            (0, in_flight) => Ok(CallPath::OwnCalls { in_flight: in_flight.unwrap_or(IN_FLIGHT) }),
            (clients, None) => Ok(CallPath::Clients { clients, closures }),
            (_, Some(_)) => Err(Failure::Usage(
                "--in-flight is for workers that make their own calls; a client waits for each of its calls"
                    .to_owned(),
            )),
        }
    }

    /// A connection for each client, or for each worker. Its calls run on its own thread, or where the protocol or the schedule
    /// sends what they declare.
    fn path_of_connections(&self) -> Result<CallPath> {
        let unfit = if self.in_flight.is_some() {
            "--in-flight"
        } else if self.schedule.has_generators() {
            "--generators"
        } else if self.think_us > 0 {
            "--think-us"
        } else {
            let connections = if self.clients > 0 { self.clients } else { self.workers() };
            return Ok(CallPath::Connections { connections });
        };
        Err(Failure::Usage(format!(
            "{unfit} is for procedures; with --interface sql each connection makes one call at a time, and waits for it"
        )))
    }

    /// The driver's settings.
    pub fn settings(&self, path: CallPath) -> Settings {
        Settings {
            threads: self.workers(),
            path,
            seconds: self.seconds.unwrap_or(SECONDS),
            warmup: self.warmup + self.schedule.settling(),
            transactions: self.transactions,
            rate: self.rate,
            seed: self.seed,
            input_work: Duration::from_micros(self.input_us),
            acknowledgements: self.acks.clone(),
        }
    }

    /// The engine's options: what was left out is the engine's choice.
    /// `partition_key`: the workload's usual one.
    pub fn engine(&self, partition_key: Option<&str>) -> Options {
        let mut options = Options::default()
            .protocol(self.protocol_options())
            .durability(self.durability)
            .retry(self.retry)
            .diagnostics(|diagnostics| {
                diagnostics.time_samples(self.time_samples).access_trace(self.access_trace.is_some())
            });
        if let Some(threads) = self.threads {
            // The engine's workers, as many callers of their own, and clients that run closures.
            let contexts =
                threads.saturating_mul(2).saturating_add(self.clients).saturating_add(SPARE_CONTEXTS);
            let contexts = contexts.clamp(USUAL_CONTEXTS, MOST_CONTEXTS);
            options = options.workers(threads).threads(|threads| threads.max_worker_contexts(contexts));
        }
        if let Some(size) = self.group_size {
            options = options.log(|log| log.group_size(size));
        }
        if let Some(milliseconds) = self.group_ms {
            options = options.log(|log| log.group_milliseconds(milliseconds));
        }
        if let Some(stages) = self.stages {
            options = options.threads(|threads| threads.stages(stages));
        }
        if let Some(input) = self.input_threads {
            options = options.threads(|threads| threads.input(input));
        }
        if let Some(output) = self.output_threads {
            options = options.threads(|threads| threads.output(output));
        }
        match self.max_in_flight {
            None => {}
            Some(Limit::Auto) => options = options.queues(|queues| queues.automatic_admission(true)),
            Some(Limit::Most(calls)) => options = options.queues(|queues| queues.max_in_flight(calls)),
        }
        self.checkpoints.apply(self.schedule.apply(options, partition_key))
    }

    /// The protocol with its options: those of other protocols have been refused.
    fn protocol_options(&self) -> ProtocolOptions {
        let mut serial = SerialOptions::default().variant(self.variant.unwrap_or_default());
        if let Some(partitions) = self.sites {
            serial = serial.partitions(partitions);
        }
        let mut phased = PhasedOptions::default();
        if let Some(milliseconds) = self.phase_ms {
            phased = phased.phase_milliseconds(milliseconds);
        }
        ProtocolOptions::from(self.protocol)
            .serial(serial)
            .locking(LockingOptions::default().conflict(self.lock_conflict.unwrap_or_default()))
            .phased(phased)
            .partitioned(self.partitions.engine())
    }

    /// Options that were given and belong with the results, beside the workload's own.
    pub fn parameters(&self, path: CallPath) -> Vec<(&'static str, serde_json::Value)> {
        let mut parameters = vec![
            ("seed", self.seed.into()),
            ("warmup", self.warmup.into()),
            ("retry", self.retry.to_string().into()),
        ];
        if let CallPath::OwnCalls { in_flight } = path {
            parameters.push(("in_flight", in_flight.into()));
        }
        if let CallPath::Clients { closures, .. } = path {
            parameters.push(("closures", closures.into()));
        }
        if let CallPath::Generators { generators } = path {
            parameters.push(("generators", generators.into()));
        }
        let mut given =
            |name, value: Option<serde_json::Value>| parameters.extend(value.map(|value| (name, value)));
        given("transactions", self.transactions.map(Into::into));
        given("input_us", (self.input_us > 0).then(|| self.input_us.into()));
        given("group_size", self.group_size.map(Into::into));
        given("group_ms", self.group_ms.map(Into::into));
        given("stages", self.stages.map(|stages| stages.to_string().into()));
        given("input_threads", self.input_threads.map(Into::into));
        given("output_threads", self.output_threads.map(Into::into));
        given("lock_conflict", self.lock_conflict.map(|how| how.to_string().into()));
        given("sites", self.sites.map(Into::into));
        given("processor", self.processor.map(Into::into));
        given("log_dir", self.log_dir.as_ref().map(|path| path.display().to_string().into()));
        given("phase_ms", self.phase_ms.map(Into::into));
        given("variant", self.variant.map(|variant| variant.to_string().into()));
        parameters.extend(self.partitions.parameters());
        parameters.extend(self.checkpoints.parameters());
        if !self.split.is_empty() {
            let labels: Vec<String> = self.split.iter().map(ToString::to_string).collect();
            parameters.push(("split", labels.into()));
        }
        parameters.extend(self.schedule.parameters());
        parameters.extend(self.target_mean_ms.map(|target| ("target_mean_ms", target.into())));
        match self.max_in_flight {
            None => {}
            Some(Limit::Auto) => parameters.push(("max_in_flight", "auto".into())),
            Some(Limit::Most(calls)) => parameters.push(("max_in_flight", calls.into())),
        }
        parameters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_numbers_or_auto() {
        assert_eq!(parse_limit("auto"), Ok(Limit::Auto));
        assert_eq!(parse_limit("12"), Ok(Limit::Most(12)));
        assert!(parse_limit("many").unwrap_err().contains("auto"));
        assert!(parse_limit("-1").is_err());
    }
}
