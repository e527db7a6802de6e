//! The driver: runs a workload's calls at a database, and measures what is released to the callers.
//!
//! What has to stay true:
//! - *Committed* means released to its caller, durable answer and all, within the measured interval. A call that
//!   was executed but not yet released when the interval ended counts for nothing, except for the check.
//! - Every call that was made is waited for before [`run`] returns, so that a check sees a quiet database.
//! - Under an offered rate, latency counts from the planned arrival: a call that had to wait for a free caller was
//!   late already when it was made.
//!
//! | file | what is there |
//! | --- | --- |
//! | `settings` | what to run: callers, time, rate |
//! | `interval` | when is warm-up, when is the measured interval, when to stop |
//! | `own_calls` | workers that make the calls which they run, in groups |
//! | `waiting` | what such a worker has executed and not yet released |
//! | `clients` | client threads, each waiting for its durable answer |
//! | `generators` | threads that make calls and place them, and wait for no answer |
//! | `contender_run` | the same calls at something outside of the engine |
//! | `arrivals` | planned arrivals of an open loop |
//! | `recorder` | one thread's counts and latencies |
//! | `acknowledgements` | one line out of the process for each released call |
//! | `report` | what all threads saw together |

mod acknowledgements;
mod arrivals;
mod clients;
mod contender_run;
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

use heddledb::{Database, Statistics};

use crate::workload::{Bound, Workload};
use crate::{Error, Result};
use acknowledgements::Acknowledgements;
use arrivals::Arrivals;
use interval::Interval;
use recorder::Recorder;

pub use acknowledgements::read_acknowledgements;
pub use contender_run::run_contender;
pub use report::{Report, TransactionReport};
pub use settings::{CallPath, Settings};

/// How often the watcher of a run receives its progress.
const TICK: Duration = Duration::from_millis(100);

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Tick {
    /// Time since the run began, warm-up and all.
    pub elapsed: Duration,
    /// Calls released so far.
    pub released: u64,
}

/// All that the callers of one run share.
struct Context<'a> {
    db: &'a Database,
    bound: &'a dyn Bound,
    settings: &'a Settings,
    interval: Interval,
    arrivals: Option<Arrivals>,
    acknowledgements: Option<Acknowledgements>,
}

/// Runs a bound workload, and tells `watch` every tenth of a second how far it is.
pub fn run(
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
        settings,
        arrivals: settings.rate.map(|rate| Arrivals::new(rate, settings.seed)),
        interval,
        acknowledgements,
    };
    let begin = || {
        // What was noted before the measured interval, while loading too, is none of its.
        drop(db.take_access_trace());
        db.statistics()
    };
    let before = (settings.warmup == 0.0).then(begin);
    let (recorders, statistics) = std::thread::scope(|scope| {
        let callers =
            start_callers(scope, &context.interval, settings.callers(), |caller| match settings.path {
                CallPath::OwnCalls { .. } => own_calls::run(&context, caller),
                CallPath::Clients { .. } => clients::run(&context, caller),
                CallPath::Generators { .. } => generators::run(&context, caller),
            })?;
        watch_callers(&context.interval, before, (&begin, &|| db.statistics()), callers, watch)
    })?;
    let mut report = Report::new(workload, settings, &context.interval, recorders, statistics);
    report.access_trace = db.take_access_trace();
    Ok(report)
}

/// Starts a thread for each caller. All callers stop if one of them fails, or if the system refuses one of the threads.
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

/// Waits for the callers, and takes the engine's counters at the beginning and at the end of the measured interval; at the
/// beginning, unless they were taken `before`.
fn watch_callers(
    interval: &Interval,
    mut before: Option<Statistics>,
    (begin, end): (&dyn Fn() -> Statistics, &dyn Fn() -> Statistics),
    callers: Vec<ScopedJoinHandle<'_, Result<Recorder>>>,
    watch: &dyn Fn(Tick),
) -> Result<(Vec<Recorder>, Statistics)> {
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
        // A panic of the driver's own thread: let it go on, so that its message and its place are not lost.
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Whether an error is the call's own, which is counted; every other one ends the run.
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

/// A failed call's reason, or the error that ends the run.
fn outcome(bound: &dyn Bound, result: heddledb::Result<heddledb::Output>) -> Result<recorder::Outcome> {
    match result {
        Ok(_) => Ok(recorder::Outcome::Committed),
        Err(error) if is_own_failure(&error) => Ok(recorder::Outcome::Failed(bound.reason(&error))),
        Err(error) => Err(Error::Engine(error)),
    }
}
