//! Runs the calls of a workload at a contender: the same generator and the same recorder as for the engine, and
//! nothing between them.

use std::time::Instant;

use heddledb::Statistics;

use super::counted::Counted;
use super::interval::Interval;
use super::recorder::{Recorder, Tally};
use super::{CallPath, Report, Settings, Tick, start_callers, watch_callers};
use crate::calls::Calls;
use crate::contender::Contender;
use crate::workload::Workload;
use crate::{Error, Result};

/// Runs a workload's calls at a contender, and tells `watch` every tenth of a second how far it is.
pub fn run_contender(
    workload: &dyn Workload,
    contender: &dyn Contender,
    settings: &Settings,
    watch: &dyn Fn(Tick),
) -> Result<Report> {
    settings.check(workload.is_finite())?;
    let CallPath::OwnCalls { in_flight } = settings.path else {
        return Err(unusable(contender, "leave out --clients"));
    };
    if settings.rate.is_some() {
        return Err(unusable(contender, "leave out --rate"));
    }
    let transactions = workload.transactions().len();
    let interval = Interval::start(settings, workload.is_finite());
    let none = || Counted::now(Statistics::default());
    let (recorders, statistics) = std::thread::scope(|scope| {
        let callers = start_callers(scope, &interval, settings.callers(), |caller| {
            let (tally, recorder) = (Tally::new(transactions), Recorder::new(transactions));
            run(contender, &interval, tally, recorder, (settings.seed, caller, in_flight))
        })?;
        watch_callers(&interval, None, (&none, &none), callers, watch)
    })?;
    Ok(Report::new(workload, settings, &interval, recorders, statistics))
}

fn unusable(contender: &dyn Contender, what: &str) -> Error {
    Error::Unusable(format!(
        "{} is no engine: its threads only make their own calls; {what}",
        contender.name()
    ))
}

fn run(
    contender: &dyn Contender,
    interval: &Interval,
    mut tally: Tally,
    mut recorder: Recorder,
    (seed, caller, in_flight): (u64, usize, usize),
) -> Result<Recorder> {
    let mut generator = contender.generator(seed, caller);
    let mut calls = Calls::default();
    loop {
        let now = Instant::now();
        recorder.record_tally(interval, now, &mut tally);
        let claimed = if interval.is_stopped(now) { 0 } else { interval.claim(in_flight) };
        if claimed == 0 {
            return Ok(recorder);
        }
        calls.begin(interval.since_measured(now));
        generator.fill(&mut calls, claimed)?;
        contender.run(calls.made())?;
        tally.begin(now);
        for ((procedure, _), marks) in calls.made().iter().zip(calls.marks()) {
            tally.add(*procedure, *marks, 0);
        }
    }
}
