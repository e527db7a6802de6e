//! Client threads: each makes one call at a time and waits for its durable answer.

use std::time::Instant;

use super::recorder::{Outcome, Recorder, Release};
use super::{CallPath, Context, outcome};
use crate::Result;
use crate::calls::{Calls, Refused};
use crate::workload::Generator;

/// One client's loop.
pub(super) fn run(context: &Context<'_>, client: usize) -> Result<Recorder> {
    let mut generator = context.bound.generator(context.settings.seed, client)?;
    let mut recorder = Recorder::new(generator.procedures().len());
    let closures = matches!(context.settings.path, CallPath::Clients { closures: true, .. });
    let mut calls = Calls::default();
    let mut ended = false;
    while !ended && let Some(arrival) = next_arrival(context) {
        calls.begin(context.interval.since_measured(Instant::now()));
        ended = !generator.fill(&mut calls, 1)?;
        for refused in calls.refused() {
            recorder.record(&context.interval, refusal(*refused));
        }
        if !calls.made().is_empty() {
            let release = make(context, generator.as_ref(), &mut calls, arrival, closures)?;
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
    closures: bool,
) -> Result<Release> {
    let Context { db, bound, acknowledgements, .. } = context;
    let Some(call) = calls.get(0) else { unreachable!("the caller has checked that there is a call") };
    let (procedure, marks) = (call.procedure, call.marks);
    context.settings.work_input(1);
    let key = acknowledgements.as_ref().and_then(|_| bound.acknowledgement(call));
    let (result, retries) = if closures {
        // How many attempts a closure took only the engine's statistics tell.
        (bound.run_closure(db, call), 0)
    } else {
        db.call_counting(&generator.procedures()[procedure], calls.take_args(0))
    };
    let at = Instant::now();
    let outcome = outcome(*bound, result)?;
    if let (Some(acknowledgements), Some(mut line), Outcome::Committed) = (acknowledgements, key, &outcome) {
        line.push('\n');
        acknowledgements.write(&line)?;
    }
    let latency = Some(at.saturating_duration_since(arrival));
    Ok(Release { procedure, marks, outcome, retries, at, latency })
}
