//! Workers that generate their own calls and execute them in groups, with no queue in between.
//!
//! A group is executed immediately, and released once the log is durable through the highest epoch of its calls; the
//! worker does not wait for that. Most calls simply commit: their results are counted in the group's tally and dropped.
//! Only the others are kept, that is failed calls and calls that the protocol has stashed;
//! [`waiting`](super::waiting) tracks them.
//!
//! Small groups of calls that take less than a microsecond each are executed in rounds: several in a row, counted together. Of a
//! round whose results are released as soon as they are executed, the first group is timed, and stands for the others.
//!
//! # Invariants
//! - A round of calls costs one or two readings of the clock, and a call that simply commits costs a few additions. The engine
//!   executes a small call in less than 100 ns, and the benchmark must measure the engine rather than the driver.
//! - Never more than `in_flight` calls are given to the engine at once.

use std::time::{Duration, Instant};

use heddledb::{Executed, Worker};

use super::clients::refusal;
use super::recorder::{Recorder, Timing};
use super::waiting::{Group, Single, Waiting};
use super::{CallPath, Context};
use crate::Result;
use crate::calls::Calls;
use crate::workload::Generator;

/// How long an idle worker sleeps before it polls again.
const IDLE: Duration = Duration::from_micros(100);

/// How often a worker adds its released calls to the shared counter, which is contended.
const TELL: Duration = Duration::from_millis(10);

/// The calls of a round where groups are smaller; a divisor of it is best.
const ROUND: usize = 32;

/// A call that takes less is executed in rounds. Timing each costs 100 ns.
const SHORT: Duration = Duration::from_micros(1);

/// One worker's loop.
struct Loop<'a> {
    context: &'a Context<'a>,
    worker: Worker<'a>,
    generator: Box<dyn Generator>,
    recorder: Recorder,
    in_flight: usize,
    /// The most calls of the next round: a multiple of `in_flight`.
    round: usize,
    /// When the last round began.
    begun: Instant,
    calls: Calls,
    /// The calls' planned arrivals; empty without an offered rate.
    arrivals: Vec<Instant>,
    results: Vec<Executed<'a>>,
    /// Indexes of results that are recorded one by one.
    special: Vec<usize>,
    waiting: Waiting<'a, Executed<'a>>,
    reported: Instant,
    ended: bool,
}

/// Generates and executes calls until the run ends, then waits for all of their results.
pub(super) fn run(context: &Context<'_>, worker: usize) -> Result<Recorder> {
    let mut this = Loop::new(context, worker)?;
    loop {
        // Read the durable epoch before the clock: what it releases was released by that time.
        let durable = this.worker.durable_epoch();
        let now = Instant::now();
        this.waiting.take_released(durable, now, &mut this.recorder)?;
        if this.ended || context.interval.is_stopped(now) {
            break;
        }
        this.plan_round(now);
        this.turn(now)?;
    }
    this.finish()
}

impl<'a> Loop<'a> {
    fn new(context: &'a Context<'a>, worker: usize) -> Result<Self> {
        let CallPath::OwnCalls { in_flight } = context.settings.path else {
            unreachable!("the driver starts this loop for workers with their own calls only")
        };
        let generator = context.bound.generator(context.settings.seed, worker)?;
        let procedures = generator.procedures().len();
        let now = Instant::now();
        Ok(Loop {
            context,
            generator,
            worker: context.db.worker()?,
            recorder: Recorder::new(procedures),
            in_flight,
            round: in_flight,
            begun: now,
            calls: Calls::default(),
            arrivals: Vec::new(),
            results: Vec::new(),
            special: Vec::new(),
            waiting: Waiting::new(context, procedures),
            reported: now,
            ended: false,
        })
    }

    /// Sets the calls of the round that begins, by what each of the last one's took. Where arrivals are planned, a call is
    /// executed when it has arrived.
    fn plan_round(&mut self, now: Instant) {
        let took = now.saturating_duration_since(std::mem::replace(&mut self.begun, now));
        let is_short = took < SHORT * self.calls.made().len() as u32;
        let groups = if is_short && self.context.arrivals.is_none() { ROUND / self.in_flight } else { 1 };
        self.round = self.in_flight * groups.max(1);
    }

    /// Generates one round of calls, and executes it.
    fn turn(&mut self, now: Instant) -> Result<()> {
        if now.saturating_duration_since(self.reported) >= TELL {
            self.reported = now;
            self.report();
        }
        self.calls.begin(self.context.interval.since_measured(now));
        if self.waiting.has_room(&mut self.recorder)? {
            self.make(now)?;
        }
        if self.calls.made().is_empty() {
            if !self.ended {
                std::thread::sleep(IDLE);
            }
            return Ok(());
        }
        self.context.settings.work_input(self.calls.made().len());
        let first = self.execute();
        let mut group = self.waiting.new_group();
        self.count(&mut group);
        match first {
            Some(timing) => self.time_first(timing, &mut group),
            None if self.context.arrivals.is_none() => group.tally.begin(now),
            None => {}
        }
        self.keep_special(now, first, &mut group);
        self.results.clear();
        self.waiting.push(group);
        Ok(())
    }

    /// Executes the round's calls, group by group. Gives the timing of the first group, if there are more and its results were
    /// released at once.
    fn execute(&mut self) -> Option<Timing> {
        let (procedures, mut timing) = (self.generator.procedures(), None);
        let mut groups = self.calls.made().chunks(self.in_flight);
        if groups.len() > 1
            && let Some(first) = groups.next()
        {
            let arrival = Instant::now();
            self.worker.execute_group(procedures, first, &mut self.results);
            if self.results.iter().all(Executed::is_released) {
                let weight = self.calls.made().len().div_ceil(self.in_flight) as u64;
                timing = Some(Timing { arrival, released: Some(Instant::now()), weight });
            }
        }
        for group in groups {
            self.worker.execute_group(procedures, group, &mut self.results);
        }
        timing
    }

    /// Has the calls of the round's first group timed, of those that simply committed.
    fn time_first(&self, timing: Timing, group: &mut Group<Executed<'a>>) {
        for place in (0..self.in_flight).filter(|place| !self.special.contains(place)) {
            if let Some(call) = self.calls.get(place) {
                group.tally.time(timing, call.procedure, call.marks);
            }
        }
    }

    /// Generates calls up to the size of a round, or as many as have arrived.
    fn make(&mut self, now: Instant) -> Result<()> {
        let interval = &self.context.interval;
        let claimed = interval.claim(self.round);
        self.ended = claimed == 0;
        let wanted = self.arrived(now, claimed);
        if wanted > 0 && !self.generator.fill(&mut self.calls, wanted)? {
            self.ended = true;
        }
        interval.give_back(claimed - self.calls.len().min(claimed));
        for refused in self.calls.refused() {
            self.recorder.record(interval, refusal(*refused));
        }
        self.waiting.released += self.calls.refused().len() as u64;
        Ok(())
    }

    /// How many of the claimed calls are due: all of them, or those whose planned arrival has passed.
    fn arrived(&mut self, now: Instant, claimed: usize) -> usize {
        let Some(arrivals) = &self.context.arrivals else { return claimed };
        self.arrivals.clear();
        self.arrivals.extend(std::iter::from_fn(|| arrivals.take_due(now)).take(claimed));
        self.arrivals.len()
    }

    /// Tallies the results that simply committed, and notes the indexes of the others.
    fn count(&mut self, group: &mut Group<Executed<'a>>) {
        self.special.clear();
        let calls = self.calls.made().iter().zip(self.calls.marks());
        for (place, (executed, ((procedure, _), marks))) in self.results.iter().zip(calls).enumerate() {
            let epoch = executed.epoch();
            if executed.is_stashed() || executed.failed() {
                self.special.push(place);
                continue;
            }
            group.tally.add(*procedure, *marks, executed.attempts().saturating_sub(1));
            if epoch > group.epoch {
                group.epoch = epoch;
                group.newest_place = place;
            }
        }
        if self.context.arrivals.is_some() || self.context.acknowledgements.is_some() {
            self.note_arrivals_and_keys(group);
        }
    }

    /// Records arrivals and acknowledgement lines of calls that simply committed, for the runs that need them.
    fn note_arrivals_and_keys(&self, group: &mut Group<Executed<'a>>) {
        let mut special = self.special.iter().peekable();
        for place in 0..self.results.len() {
            let Some(call) = self.calls.get(place) else { continue };
            if special.next_if_eq(&&place).is_some() {
                continue;
            }
            if let Some(arrival) = self.arrivals.get(place) {
                let timing = Timing { arrival: *arrival, released: None, weight: 1 };
                group.tally.time(timing, call.procedure, call.marks);
            }
            group.lines.push_str(&self.line(place));
        }
    }

    /// The line that acknowledges a call; empty if the run writes none.
    fn line(&self, place: usize) -> String {
        let wanted = self.context.acknowledgements.as_ref();
        let key = wanted.and_then(|_| self.context.bound.acknowledgement(self.calls.get(place)?));
        key.map_or_else(String::new, |key| key + "\n")
    }

    /// Keeps the group's result with the highest epoch, to wait for, and those that are recorded one by one. `first`: only the
    /// first group of the round is timed, and so.
    fn keep_special(&mut self, now: Instant, first: Option<Timing>, group: &mut Group<Executed<'a>>) {
        if self.special.is_empty() {
            if group.newest_place < self.results.len() {
                group.newest = Some(self.results.swap_remove(group.newest_place));
            }
            return;
        }
        let mut results = std::mem::take(&mut self.results);
        let mut special = self.special.iter().peekable();
        for (place, executed) in results.drain(..).enumerate() {
            if special.next_if_eq(&&place).is_none() {
                if place == group.newest_place {
                    group.newest = Some(executed);
                }
                continue;
            }
            let Some(call) = self.calls.get(place) else { continue };
            let timing = match first {
                Some(timing) => (place < self.in_flight).then_some(timing),
                None => Some(Timing {
                    arrival: self.arrivals.get(place).copied().unwrap_or(now),
                    released: None,
                    weight: 1,
                }),
            };
            let (procedure, marks, line) = (call.procedure, call.marks, self.line(place));
            let call = Single { executed, procedure, marks, timing, line };
            if call.executed.is_stashed() {
                self.waiting.defer(call);
            } else {
                group.epoch = group.epoch.max(call.executed.epoch());
                group.special.push(call);
            }
        }
        self.results = results;
    }

    fn report(&mut self) {
        self.context.interval.count_released(std::mem::take(&mut self.waiting.released));
    }

    /// Waits for all calls that are still in flight.
    fn finish(mut self) -> Result<Recorder> {
        self.waiting.release_all(&mut self.recorder)?;
        while self.waiting.has_deferred() {
            self.waiting.look_at_deferred(&mut self.recorder)?;
            std::thread::sleep(IDLE);
        }
        self.report();
        Ok(self.recorder)
    }
}

#[cfg(test)]
mod tests;
