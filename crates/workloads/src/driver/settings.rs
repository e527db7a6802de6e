//! Settings of a run: the source of calls, its length, and the rate.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::workload::in_range;
use crate::{Error, Result};

/// The source of calls, and their way into the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallPath {
    /// Each worker makes the calls that it runs, in groups of up to this many.
    OwnCalls {
        /// Calls per group.
        in_flight: usize,
    },
    /// Client threads, each of which waits for the durable answer to its call.
    Clients {
        /// Number of clients.
        clients: usize,
        /// True if the client's own thread runs the call as a closure, instead of the pipeline.
        closures: bool,
    },
    /// Threads, each with a connection that makes one call at a time and waits for its durable answer.
    Connections {
        /// Number of connections.
        connections: usize,
    },
    /// Threads that make calls and place them in the workers' queues, and do not wait for the answers.
    Generators {
        /// Number of generators.
        generators: usize,
    },
}

/// The settings of a run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Workers of the database; with [`CallPath::OwnCalls`] they are the callers too.
    pub threads: usize,
    /// The source of calls.
    pub path: CallPath,
    /// Length of the measured interval. Without effect on a workload that ends on its own.
    pub seconds: f64,
    /// Length of the warm-up before it.
    pub warmup: f64,
    /// Ends the run after this many calls, whatever the time.
    pub transactions: Option<u64>,
    /// Offered load in calls per second, with Poisson arrivals; without it callers call as fast as they can.
    pub rate: Option<f64>,
    /// Seed of all random choices.
    pub seed: u64,
    /// Processor time that a caller spends before each transaction, as the simulated terminal of TPK's input stage does.
    pub input_work: Duration,
    /// The file that takes one line for each released call.
    pub acknowledgements: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            threads: 1,
            path: CallPath::OwnCalls { in_flight: 32 },
            seconds: 5.0,
            warmup: 0.0,
            transactions: None,
            rate: None,
            seed: 1,
            input_work: Duration::ZERO,
            acknowledgements: None,
        }
    }
}

/// Longest run: a week, so that durations never overflow.
const LONGEST: f64 = 7.0 * 86_400.0;

impl Settings {
    /// The number of threads that make calls.
    pub fn callers(&self) -> usize {
        match self.path {
            CallPath::OwnCalls { .. } => self.threads,
            CallPath::Clients { clients, .. } => clients,
            CallPath::Connections { connections } => connections,
            CallPath::Generators { generators } => generators,
        }
    }

    /// Refuses values out of range, and what a workload that ends on its own can't do.
    pub fn check(&self, finite: bool) -> Result<()> {
        in_range("threads", self.threads, 1, 1_024)?;
        match self.path {
            CallPath::OwnCalls { in_flight } => in_range("in-flight", in_flight, 1, 65_536)?,
            CallPath::Clients { clients, .. } => in_range("clients", clients, 1, 10_000)?,
            CallPath::Connections { connections } => in_range("clients", connections, 1, 10_000)?,
            CallPath::Generators { generators } => in_range("generators", generators, 1, 256)?,
        }
        in_range("seconds", self.seconds, 0.001, LONGEST)?;
        in_range("warmup", self.warmup, 0.0, LONGEST)?;
        if let Some(rate) = self.rate {
            in_range("rate", rate, 0.001, 1e9)?;
        }
        if let Some(transactions) = self.transactions {
            in_range("transactions", transactions, 1, u64::MAX)?;
        }
        if finite && (self.warmup > 0.0 || self.transactions.is_some()) {
            return Err(Error::Unusable(
                "this workload runs its input once from beginning to end; leave out --warmup and --transactions"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Spends the processor time of the input of this many transactions.
    pub(super) fn work_input(&self, transactions: usize) {
        if self.input_work.is_zero() {
            return;
        }
        let (start, work) = (Instant::now(), self.input_work * transactions as u32);
        while start.elapsed() < work {
            std::hint::spin_loop();
        }
    }

    pub(super) fn warmup_duration(&self) -> Duration {
        Duration::from_secs_f64(self.warmup)
    }

    pub(super) fn measured_duration(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(settings: Settings) -> String {
        settings.check(false).unwrap_err().to_string()
    }

    #[test]
    fn usual_settings_are_accepted() {
        assert!(Settings::default().check(false).is_ok());
        assert!(Settings::default().check(true).is_ok());
    }

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        let usual = Settings::default;
        assert!(refused(Settings { threads: 0, ..usual() }).contains("--threads 0"));
        assert!(refused(Settings { seconds: 0.0, ..usual() }).contains("--seconds"));
        assert!(refused(Settings { seconds: f64::INFINITY, ..usual() }).contains("--seconds"));
        assert!(refused(Settings { warmup: -1.0, ..usual() }).contains("--warmup"));
        assert!(refused(Settings { rate: Some(0.0), ..usual() }).contains("--rate"));
        assert!(refused(Settings { transactions: Some(0), ..usual() }).contains("--transactions"));
        assert!(
            refused(Settings { path: CallPath::OwnCalls { in_flight: 0 }, ..usual() })
                .contains("--in-flight")
        );
        let generators = CallPath::Generators { generators: 0 };
        assert!(refused(Settings { path: generators, ..usual() }).contains("--generators"));
        let clients = CallPath::Clients { clients: 0, closures: false };
        assert!(refused(Settings { path: clients, ..usual() }).contains("--clients"));
    }

    #[test]
    fn input_takes_its_time_for_each_transaction() {
        let settings = Settings { input_work: Duration::from_micros(200), ..Settings::default() };
        let start = Instant::now();
        settings.work_input(5);
        assert!(start.elapsed() >= Duration::from_millis(1));
    }

    #[test]
    fn an_input_is_run_once_from_beginning_to_end() {
        assert!(Settings { warmup: 1.0, ..Settings::default() }.check(true).is_err());
        assert!(Settings { transactions: Some(5), ..Settings::default() }.check(true).is_err());
    }

    #[test]
    fn callers_are_workers_or_clients() {
        let own = Settings { threads: 3, ..Settings::default() };
        assert_eq!(own.callers(), 3);
        let clients = Settings { path: CallPath::Clients { clients: 7, closures: true }, ..own };
        assert_eq!(clients.callers(), 7);
    }
}
