//! The driver: runs a workload's calls against a database, and measures their throughput and latency.
//!
//! # Invariants
//! - A call counts as *committed* if its result, durable if the run asks for that, was released to its caller within
//!   the measured interval. A call that was executed but not released by the end of the interval counts for the check
//!   only.
//! - [`run`] waits for every call before it returns, so that the check sees a quiescent database.
//! - Under an offered rate, latency is measured from the planned arrival, and so includes the time that a call waited
//!   for a free caller (no coordinated omission).
//!
//! | file | what is there |
//! | --- | --- |
//! | `settings` | what to run: callers, time, rate |
//! | `interval` | the warm-up, the measured interval, and when to stop |
//! | `own_calls` | workers that generate their own calls and execute them in groups |
//! | `waiting` | the results that such a worker has executed but not yet released |
//! | `clients` | client threads, each waiting for its durable answer |
//! | `generators` | threads that generate calls and enqueue them, without waiting for results |
//! | `contender_run` | the same calls against another system |
//! | `arrivals` | planned arrivals of an open loop |
//! | `recorder` | one thread's counts and latencies |
//! | `acknowledgements` | writes one line for each released call to a file or pipe |
//! | `report` | the totals of all threads |

mod acknowledgements;
mod arrivals;
mod clients;
mod contender_run;
mod counted;
mod generators;
mod interval;
mod own_calls;
mod recorder;
mod report;
mod settings;
#[cfg(test)]
mod tests;
mod waiting;

use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::{Duration, Instant};

use heddledb::Database;

use crate::interface::Interface;
use crate::workload::{Bound, Workload};
use crate::{Error, Result};
use acknowledgements::Acknowledgements;
use arrivals::Arrivals;
use counted::Counted;
use interval::Interval;
use recorder::Recorder;

pub use acknowledgements::read_acknowledgements;
pub use contender_run::run_contender;
pub use report::{Report, TransactionReport};
pub use settings::{CallPath, Settings};

/// Interval between a run's reports of its progress.
const TICK: Duration = Duration::from_millis(100);

/// The progress of a run.
#[derive(Clone, Copy, Debug)]
pub struct Tick {
    /// Time since the run began, including warm-up.
    pub elapsed: Duration,
    /// Calls released so far.
    pub released: u64,
}

/// State that all callers of one run share.
struct Context<'a> {
    db: &'a Database,
    bound: &'a dyn Bound,
    interface: Option<&'a dyn Interface>,
    settings: &'a Settings,
    interval: Interval,
    arrivals: Option<Arrivals>,
    acknowledgements: Option<Acknowledgements>,
}

/// Runs a bound workload, and reports its progress to `watch` every 100 ms.
///
/// # Errors
/// Settings that do not fit; an error of the engine's that is no call's own.
pub fn run(
    db: &Database,
    workload: &dyn Workload,
    bound: &dyn Bound,
    settings: &Settings,
    watch: &dyn Fn(Tick),
) -> Result<Report> {
    run_through(None, db, workload, bound, settings, watch)
}

/// Runs a bound workload through connections of an interface, if there is one: [`CallPath::Connections`]
/// needs it.
///
/// # Errors
/// Same errors as [`run`].
pub fn run_through(
    interface: Option<&dyn Interface>,
    db: &Database,
    workload: &dyn Workload,
    bound: &dyn Bound,
    settings: &Settings,
    watch: &dyn Fn(Tick),
) -> Result<Report> {
    settings.check(workload.is_finite())?;
    let acknowledgements = settings.acknowledgements.as_deref().map(Acknowledgements::open).transpose()?;
    let interval = Interval::start(settings, workload.is_finite());
    let context = Context {
        db,
        bound,
        interface,
        settings,
        arrivals: settings.rate.map(|rate| Arrivals::new(rate, settings.seed)),
        interval,
        acknowledgements,
    };
    let begin = || {
        // Discard accesses traced before the measured interval, such as those of loading.
        drop(db.take_access_trace());
        Counted::now(db.statistics())
    };
    let before = (settings.warmup == 0.0).then(begin);
    let (recorders, statistics) = std::thread::scope(|scope| {
        let callers =
            start_callers(scope, &context.interval, settings.callers(), |caller| match settings.path {
                CallPath::OwnCalls { .. } => own_calls::run(&context, caller),
                CallPath::Clients { .. } | CallPath::Connections { .. } => clients::run(&context, caller),
                CallPath::Generators { .. } => generators::run(&context, caller),
            })?;
        watch_callers(&context.interval, before, (&begin, &|| Counted::now(db.statistics())), callers, watch)
    })?;
    let mut report = Report::new(workload, settings, &context.interval, recorders, statistics);
    report.access_trace = db.take_access_trace();
    Ok(report)
}

/// Starts a thread for each caller. All callers stop if one of them fails, or if a thread cannot be created.
fn start_callers<'scope>(
    scope: &'scope Scope<'scope, '_>,
    interval: &'scope Interval,
    callers: usize,
    body: impl Fn(usize) -> Result<Recorder> + Clone + Send + 'scope,
) -> Result<Vec<ScopedJoinHandle<'scope, Result<Recorder>>>> {
    let start = |caller: usize| {
        let body = body.clone();
        let thread =
            Builder::new().spawn_scoped(scope, move || body(caller).inspect_err(|_| interval.stop()));
        thread.map_err(|reason| {
            interval.stop();
            Error::Thread { number: caller + 1, callers, reason }
        })
    };
    (0..callers).map(start).collect()
}

/// Waits for the callers, and samples the engine's counters at the end of the measured interval, and at its start
/// unless `before` already has them.
fn watch_callers(
    interval: &Interval,
    mut before: Option<Counted>,
    (begin, end): (&dyn Fn() -> Counted, &dyn Fn() -> Counted),
    callers: Vec<ScopedJoinHandle<'_, Result<Recorder>>>,
    watch: &dyn Fn(Tick),
) -> Result<(Vec<Recorder>, Counted)> {
    let mut after = None;
    while !callers.iter().all(ScopedJoinHandle::is_finished) {
        let now = Instant::now();
        if before.is_none() && now >= interval.measured_from() {
            before = Some(begin());
        }
        if after.is_none() && interval.is_over(now) {
            after = Some(end());
        }
        watch(Tick { elapsed: interval.elapsed(now), released: interval.released() });
        std::thread::sleep(interval.next_event(now).min(TICK));
    }
    let recorders = callers.into_iter().map(join).collect::<Result<Vec<_>>>()?;
    let after = after.unwrap_or_else(end);
    let before = before.unwrap_or(after);
    Ok((recorders, after - before))
}

fn join(caller: ScopedJoinHandle<'_, Result<Recorder>>) -> Result<Recorder> {
    match caller.join() {
        Ok(result) => result,
        // A caller panicked: propagate the panic, so that its message and location are not lost.
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Returns true if an error is the call's own, which is counted. Any other error ends the run.
fn is_own_failure(error: &heddledb::Error) -> bool {
    use heddledb::Error::{CheckViolation, DuplicateKey, Failed, MissingKey, NullValue, Overflow};
    matches!(
        error,
        Failed { .. }
            | CheckViolation { .. }
            | DuplicateKey { .. }
            | MissingKey { .. }
            | Overflow { .. }
            | NullValue { .. }
    )
}

/// The outcome of a call, with the reason if it failed; or the error that ends the run.
fn outcome<T>(bound: &dyn Bound, result: heddledb::Result<T>) -> Result<recorder::Outcome> {
    match result {
        Ok(_) => Ok(recorder::Outcome::Committed),
        Err(error) if is_own_failure(&error) => Ok(recorder::Outcome::Failed(bound.reason(&error))),
        Err(error) => Err(Error::Engine(error)),
    }
}
