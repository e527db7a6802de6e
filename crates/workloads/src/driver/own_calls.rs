//! Workers that generate their own calls and execute them in groups, with no queue in between.
//!
//! A group is executed immediately, and released once the log is durable through the highest epoch of its calls; the
//! worker does not wait for that. Most calls simply commit: their results are counted in the group's tally and dropped.
//! Only the others are kept, that is failed calls and calls that the protocol has stashed;
//! [`waiting`](super::waiting) tracks them.
//!
//! If results wait for no log, small groups of calls that take less than a microsecond each are executed in
//! rounds: several in a row, counted together. The first group of a round of which no call is stashed is
//! timed, and represents the others (its caches are the coldest, since a round's calls are generated before
//! it). Stashed calls have timings of their own.
//!
//! # Invariants
//! - A round of calls costs one or two readings of the clock, and a call that simply commits costs a few additions. The engine
//!   executes a small call in less than 100 ns, and the benchmark must measure the engine rather than the driver.
//! - Never more than `in_flight` calls are given to the engine at once.

use std::ops::Range;
use std::time::{Duration, Instant};

use heddledb::{Executed, Worker};

use super::clients::refusal;
use super::recorder::{Recorder, Timing};
use super::waiting::{Group, Single, Waiting};
use super::{CallPath, Context};
use crate::Result;
use crate::calls::Calls;
use crate::workload::Generator;

/// Time for which an idle worker sleeps before it polls again.
const IDLE: Duration = Duration::from_micros(100);

/// Interval after which a worker adds its released calls to the shared counter, which is contended.
const TELL: Duration = Duration::from_millis(10);

/// The calls of a round where groups are smaller; a divisor of it is best.
const ROUND: usize = 32;

/// A call that takes less is executed in rounds. Timing each costs 100 ns.
const SHORT: Duration = Duration::from_micros(1);

/// The timed group of a round: where it starts, and from when to when it was executed.
#[derive(Clone, Copy)]
struct TimedGroup {
    start: usize,
    begun: Instant,
    ended: Instant,
}

/// One worker's loop.
struct Loop<'a> {
    context: &'a Context<'a>,
    worker: Worker<'a>,
    generator: Box<dyn Generator>,
    recorder: Recorder,
    in_flight: usize,
    /// True if results, except those of stashed calls, are released as soon as they are executed, because
    /// they wait for no log.
    waits_for_no_log: bool,
    /// The most calls of the next round: a multiple of `in_flight`.
    round: usize,
    /// Time at which the last round began.
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
        let worker = context.db.worker()?;
        let now = Instant::now();
        Ok(Loop {
            context,
            generator,
            waits_for_no_log: worker.durable_epoch() == u64::MAX,
            worker,
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
        let in_rounds = is_short && self.waits_for_no_log && self.context.arrivals.is_none();
        let groups = if in_rounds { ROUND / self.in_flight } else { 1 };
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
        let timed = self.execute();
        let mut group = self.waiting.new_group();
        self.count(&mut group);
        match timed {
            Some(timed) => self.time_group(timed, &mut group),
            None if self.context.arrivals.is_none() => group.tally.begin(now),
            None => {}
        }
        self.keep_special(now, timed, &mut group);
        self.results.clear();
        self.waiting.push(group);
        Ok(())
    }

    /// Executes the round's calls, group by group. Gives the timing of the first one of which no call is stashed, if there are
    /// several groups.
    fn execute(&mut self) -> Option<TimedGroup> {
        let (procedures, mut timed) = (self.generator.procedures(), None);
        let groups = self.calls.made().chunks(self.in_flight);
        let is_timed = groups.len() > 1;
        for group in groups {
            if !is_timed || timed.is_some() {
                self.worker.execute_group(procedures, group, &mut self.results);
                continue;
            }
            let (start, begun) = (self.results.len(), Instant::now());
            self.worker.execute_group(procedures, group, &mut self.results);
            let ended = Instant::now();
            let is_whole = !self.results[start..].iter().any(Executed::is_stashed);
            timed = is_whole.then_some(TimedGroup { start, begun, ended });
        }
        timed
    }

    /// Times the calls of the round's timed group, of those that simply committed.
    fn time_group(&self, timed: TimedGroup, group: &mut Group<Executed<'a>>) {
        for place in self.places_of(timed).filter(|place| !self.special.contains(place)) {
            if let Some(call) = self.calls.get(place) {
                group.tally.time(self.timing_of(timed, place), call.procedure, call.marks);
            }
        }
    }

    /// The places of a timed group.
    fn places_of(&self, timed: TimedGroup) -> Range<usize> {
        timed.start..(timed.start + self.in_flight).min(self.results.len())
    }

    /// The timing of a call of the timed group. It represents the calls at its place in all groups of the
    /// round; stashed ones have their own.
    fn timing_of(&self, timed: TimedGroup, place: usize) -> Timing {
        let in_group = place % self.in_flight;
        let alike = (self.results.len() - in_group).div_ceil(self.in_flight);
        let is_alike =
            |place: &&usize| **place % self.in_flight == in_group && self.results[**place].is_stashed();
        let stashed = self.special.iter().filter(is_alike).count();
        Timing { arrival: timed.begun, released: Some(timed.ended), weight: (alike - stashed) as u64 }
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

    /// The number of claimed calls that are due: all of them, or those whose planned arrival has passed.
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

    /// Keeps the group's result with the highest epoch, to wait for, and those that are recorded one by one. `timed`: of those
    /// that are not stashed, only the ones of this group are timed.
    fn keep_special(&mut self, now: Instant, timed: Option<TimedGroup>, group: &mut Group<Executed<'a>>) {
        if self.special.is_empty() {
            if group.newest_place < self.results.len() {
                group.newest = Some(self.results.swap_remove(group.newest_place));
            }
            return;
        }
        let timings: Vec<_> =
            self.special.iter().map(|place| self.timing_of_special(now, timed, *place)).collect();
        let mut results = std::mem::take(&mut self.results);
        let mut special = self.special.iter().zip(timings).peekable();
        for (place, executed) in results.drain(..).enumerate() {
            let Some((_, timing)) = special.next_if(|(next, _)| **next == place) else {
                if place == group.newest_place {
                    group.newest = Some(executed);
                }
                continue;
            };
            let Some(call) = self.calls.get(place) else { continue };
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

    /// The timing of a call that is recorded on its own. `None` if one of the timed group represents it.
    fn timing_of_special(&self, now: Instant, timed: Option<TimedGroup>, place: usize) -> Option<Timing> {
        match timed {
            Some(timed) if !self.results[place].is_stashed() => {
                self.places_of(timed).contains(&place).then(|| self.timing_of(timed, place))
            }
            _ => {
                let arrival = self.arrivals.get(place).copied().unwrap_or(now);
                Some(Timing { arrival, released: None, weight: 1 })
            }
        }
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
