//! A database with a workload that runs in slices, alone or beside something else.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use heddle_workloads::debit_credit::DebitCredit;
use heddle_workloads::driver::{self, CallPath, Report, Settings};
use heddle_workloads::{Bound, Workload, catalog};
use heddledb::{Database, Durability, Options, ProtocolKind};

use crate::arguments::Arguments;
use crate::{Failure, Result};

/// Time that a slice runs before it is measured, in seconds.
const WARMUP: f64 = 0.2;

/// A workload on a database of its own.
pub struct Load {
    pub db: Database,
    workload: Box<dyn Workload>,
    bound: Box<dyn Bound>,
    pub settings: Settings,
    /// Marks of the calls of all slices in the database.
    marks: u64,
}

/// Options of most modes: how many slices of each kind, and how long each is.
pub struct Slices {
    pub rounds: usize,
    pub seconds: f64,
}

impl Slices {
    /// Reads `--rounds` and `--seconds`.
    pub fn read(arguments: &mut Arguments, rounds: usize, seconds: f64) -> Result<Self> {
        let (rounds, seconds) = (arguments.get("rounds", rounds)?, arguments.get("seconds", seconds)?);
        if rounds == 0 {
            return Err("--rounds 0: nothing is measured; give at least 1".into());
        }
        Ok(Self { rounds, seconds })
    }
}

/// Reads `--protocol`: options in memory, without a log, with workers for this many threads.
pub fn options(arguments: &mut Arguments, default: ProtocolKind, threads: usize) -> Result<Options> {
    let protocol: ProtocolKind = arguments.get("protocol", default)?;
    Ok(of_protocol(protocol, threads).durability(Durability::None))
}

/// Options with workers for this many threads.
pub fn of_protocol(protocol: ProtocolKind, threads: usize) -> Options {
    Options::default().protocol(protocol).workers(threads)
}

impl Load {
    /// Loads a workload into an empty database.
    pub fn new(db: Database, workload: impl Workload + 'static, threads: usize) -> Result<Self> {
        catalog::load(&workload, &db)?;
        let settings = Settings { threads, warmup: WARMUP, ..Settings::default() };
        let bound = workload.bind(&db, threads)?;
        Ok(Self { db, workload: Box::new(workload), bound, settings, marks: 0 })
    }

    /// A bank with one branch.
    pub fn bank(db: Database, accounts: u32, threads: usize) -> Result<Self> {
        Self::new(db, DebitCredit { accounts_per_branch: accounts, ..DebitCredit::default() }, threads)
    }

    /// Calls one by one instead of in groups, so that the time of each is measured; as closures, because a procedure has to be
    /// registered again when a table of its has changed.
    pub fn in_closures(mut self) -> Self {
        self.settings.path = CallPath::Clients { clients: self.settings.threads, closures: true };
        self
    }

    /// One slice of this many seconds.
    pub fn run(&mut self, seconds: f64) -> Result<Report> {
        self.settings.seconds = seconds;
        self.run_settings()
    }

    /// One slice of this many calls.
    pub fn run_calls(&mut self, calls: u64) -> Result<Report> {
        let settings = Settings { warmup: 0.0, transactions: Some(calls), ..self.settings.clone() };
        let timed = std::mem::replace(&mut self.settings, settings);
        let report = self.run_settings();
        self.settings = timed;
        report
    }

    fn run_settings(&mut self) -> Result<Report> {
        let (workload, bound) = (self.workload.as_ref(), self.bound.as_ref());
        let report = driver::run(&self.db, workload, bound, &self.settings, &|_| ())?;
        self.marks += report.marks;
        Ok(report)
    }

    /// One slice, while another thread does `companion`, which returns soon after the flag that it receives is set.
    pub fn run_beside<C: Send>(
        &mut self,
        seconds: f64,
        companion: impl FnOnce(&Database, &AtomicBool) -> Result<C> + Send,
    ) -> Result<(Report, C)> {
        let (db, over) = (self.db.clone(), AtomicBool::new(false));
        thread::scope(|scope| {
            let companion = scope.spawn(|| companion(&db, &over));
            let report = self.run(seconds);
            // Relaxed: nothing is read on the strength of it, and a late look costs one more round.
            over.store(true, Ordering::Relaxed);
            let result = companion.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Ok((report?, result?))
        })
    }

    /// Checks the workload's invariants over the whole database, and that it has the effects of every slice and nothing else.
    pub fn check(&self) -> Result {
        self.workload.check(&self.db, Some(self.marks)).map_err(Failure::from)
    }

    /// The database, and how many calls have left marks in it; whatever holds on to it is gone.
    pub fn into_database(self) -> (Database, u64) {
        (self.db, self.marks)
    }
}
