//! Client threads: each makes one call at a time and waits for its durable answer.

use std::time::Instant;

use super::recorder::{Outcome, Recorder, Release};
use super::{CallPath, Context, outcome};
use crate::Result;
use crate::workload::{Call, Step};

/// One client's loop.
pub(super) fn run(context: &Context<'_>, client: usize) -> Result<Recorder> {
    let mut generator = context.bound.generator(context.settings.seed, client)?;
    let mut recorder = Recorder::new(context.transactions);
    let closures = matches!(context.settings.path, CallPath::Clients { closures: true, .. });
    while let Some(arrival) = next_arrival(context) {
        match generator.next()? {
            Step::Call(call) => {
                let release = make(context, call, arrival, closures)?;
                recorder.record(&context.interval, release);
            }
            Step::Refused { transaction, reason } => {
                recorder.record(&context.interval, refusal(transaction, reason));
            }
            Step::End => break,
        }
        context.interval.count_released(1);
    }
    Ok(recorder)
}

/// A call that the input did not allow to make.
pub(super) fn refusal(transaction: usize, reason: &'static str) -> Release {
    let outcome = Outcome::Failed(reason.into());
    Release { transaction, read_only: false, outcome, run_again: 0, at: Instant::now(), latency: None }
}

/// The time from which the next call's latency counts: now, or its planned arrival, which is waited for. `None` at
/// the end of the run.
fn next_arrival(context: &Context<'_>) -> Option<Instant> {
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

fn make(context: &Context<'_>, call: Call, arrival: Instant, closures: bool) -> Result<Release> {
    let Context { db, bound, acknowledgements, .. } = context;
    let key = acknowledgements.as_ref().and_then(|_| bound.acknowledgement(&call));
    let result = if closures { bound.run_closure(db, &call) } else { db.call(&call.procedure, call.args) };
    let at = Instant::now();
    let outcome = outcome(*bound, result)?;
    if let (Some(acknowledgements), Some(mut line), Outcome::Committed) = (acknowledgements, key, &outcome) {
        line.push('\n');
        acknowledgements.write(&line)?;
    }
    let latency = Some(at.saturating_duration_since(arrival));
    // How often the engine ran this call again is known only to its statistics.
    Ok(Release {
        transaction: call.transaction,
        read_only: call.read_only,
        outcome,
        run_again: 0,
        at,
        latency,
    })
}
