//! Client threads: each makes one call at a time, directly or through a connection of its own, and waits for
//! its durable answer.

use std::time::Instant;

use super::recorder::{Outcome, Recorder, Release};
use super::{CallPath, Context, outcome};
use crate::calls::{Calls, Refused};
use crate::interface::Connection;
use crate::workload::Generator;
use crate::{Error, Result};

/// The way of a client's calls into the engine.
enum Way {
    /// Through the pipeline.
    Pipeline,
    /// Executed as closures on the client's own thread.
    Closures,
    Connection(Box<dyn Connection>),
}

impl Way {
    fn of(context: &Context<'_>) -> Result<Way> {
        match (context.settings.path, context.interface) {
            (CallPath::Connections { .. }, Some(interface)) => interface.connect().map(Way::Connection),
            (CallPath::Connections { .. }, None) => {
                Err(Error::Unusable("connections need an interface; none was given".to_owned()))
            }
            (CallPath::Clients { closures: true, .. }, _) => Ok(Way::Closures),
            _ => Ok(Way::Pipeline),
        }
    }
}

/// One client's loop.
pub(super) fn run(context: &Context<'_>, client: usize) -> Result<Recorder> {
    let mut generator = context.bound.generator(context.settings.seed, client)?;
    let mut recorder = Recorder::new(generator.procedures().len());
    let mut way = Way::of(context)?;
    let mut calls = Calls::default();
    let mut ended = false;
    while !ended && let Some(arrival) = next_arrival(context) {
        calls.begin(context.interval.since_measured(arrival));
        ended = !generator.fill(&mut calls, 1)?;
        for refused in calls.refused() {
            recorder.record(&context.interval, refusal(*refused));
        }
        if !calls.made().is_empty() {
            let release = make(context, generator.as_ref(), &mut calls, arrival, &mut way)?;
            recorder.record(&context.interval, release);
        }
        context.interval.count_released(calls.len() as u64);
    }
    Ok(recorder)
}

/// A call that the input did not allow to make.
pub(super) fn refusal(refused: Refused) -> Release {
    let outcome = Outcome::Failed(refused.reason.into());
    let Refused { procedure, .. } = refused;
    Release { procedure, marks: 1, outcome, retries: 0, at: Instant::now(), latency: None }
}

/// The time from which the next call's latency counts: now, or its planned arrival, which is waited for. `None` at
/// the end of the run.
pub(super) fn next_arrival(context: &Context<'_>) -> Option<Instant> {
    let now = Instant::now();
    if context.interval.is_stopped(now) || context.interval.claim(1) == 0 {
        return None;
    }
    let Some(arrivals) = &context.arrivals else { return Some(now) };
    let planned = arrivals.take();
    if context.interval.is_over(planned) {
        return None;
    }
    std::thread::sleep(planned.saturating_duration_since(now));
    Some(planned)
}

/// Makes the one call that there is, and waits for its answer.
fn make(
    context: &Context<'_>,
    generator: &dyn Generator,
    calls: &mut Calls,
    arrival: Instant,
    way: &mut Way,
) -> Result<Release> {
    let Context { db, bound, acknowledgements, .. } = context;
    let Some(call) = calls.get(0) else { unreachable!("the caller has checked that there is a call") };
    let (procedure, marks) = (call.procedure, call.marks);
    context.settings.work_input(1);
    let key = acknowledgements.as_ref().and_then(|_| bound.acknowledgement(call));
    // How many attempts a closure or a connection's call took only the engine's statistics tell.
    let (result, retries) = match way {
        Way::Closures => (bound.run_closure(db, call).map(drop), 0),
        Way::Connection(connection) => (connection.call(call)?, 0),
        Way::Pipeline => {
            let (result, retries) = db.call_counting(&generator.procedures()[procedure], calls.take_args(0));
            (result.map(drop), retries)
        }
    };
    let at = Instant::now();
    let outcome = outcome(*bound, result)?;
    if let (Some(acknowledgements), Some(mut line), Outcome::Committed) = (acknowledgements, key, &outcome) {
        line.push('\n');
        acknowledgements.write(&line)?;
    }
    let latency = Some((at.saturating_duration_since(arrival), 1));
    Ok(Release { procedure, marks, outcome, retries, at, latency })
}
