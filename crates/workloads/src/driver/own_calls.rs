//! Workers that make the calls which they run, in groups, without a queue between.
//!
//! A group is executed at once and released later, when the log is durable through the highest epoch that any of its
//! calls saw. Meanwhile the worker goes on, and keeps the unreleased groups in a queue.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use heddledb::{Args, Executed, Procedure, Worker};

use super::clients::refusal;
use super::recorder::{Outcome, Recorder, Release};
use super::{CallPath, Context, outcome};
use crate::Result;
use crate::workload::{Generator, Step};

/// One call of so many is timed: reading the clock costs more than a tenth of a call.
const SAMPLE: usize = 64;

/// Unreleased groups that a worker keeps before it waits for the oldest.
const MOST_PENDING: usize = 2_048;

/// How long an idle worker sleeps at most before it looks for releases again.
const IDLE: Duration = Duration::from_micros(100);

/// A group of executed calls that waits for its release.
#[derive(Default)]
struct Group<'a> {
    epoch: u64,
    tags: Vec<Tag>,
    results: Vec<Executed<'a>>,
    /// Keys to acknowledge, in the order of `tags`; empty where nobody wants them.
    keys: Vec<Option<String>>,
}

/// What has to be remembered of a call until its release.
struct Tag {
    transaction: usize,
    read_only: bool,
    /// When it arrived, where its latency is wanted.
    arrival: Option<Instant>,
}

/// One worker's loop.
struct Loop<'a> {
    context: &'a Context<'a>,
    worker: Worker<'a>,
    generator: Box<dyn Generator>,
    recorder: Recorder,
    in_flight: usize,
    pending: VecDeque<Group<'a>>,
    /// Emptied groups, whose memory is used again.
    spare: Vec<Group<'a>>,
    /// Memory for one group's outcomes.
    outcomes: Vec<(Outcome, u32)>,
    calls: Vec<(Procedure, Args)>,
    since_sample: usize,
    ended: bool,
}

/// Makes calls until the run ends, and waits for all of them.
pub(super) fn run(context: &Context<'_>, worker: usize) -> Result<Recorder> {
    let CallPath::OwnCalls { in_flight } = context.settings.path else {
        unreachable!("the driver starts this loop for workers with their own calls only")
    };
    let mut this = Loop {
        context,
        generator: context.bound.generator(context.settings.seed, worker)?,
        worker: context.db.worker()?,
        recorder: Recorder::new(context.transactions),
        in_flight,
        pending: VecDeque::new(),
        spare: Vec::new(),
        outcomes: Vec::new(),
        calls: Vec::with_capacity(in_flight),
        since_sample: 0,
        ended: false,
    };
    while !this.ended && !context.interval.is_stopped(Instant::now()) {
        this.turn()?;
    }
    while let Some(group) = this.pending.pop_front() {
        this.release(group)?;
    }
    Ok(this.recorder)
}

impl<'a> Loop<'a> {
    /// Makes one group, executes it, and takes in what has been released meanwhile.
    fn turn(&mut self) -> Result<()> {
        let mut group = self.spare.pop().unwrap_or_default();
        self.fill(&mut group)?;
        if group.tags.is_empty() {
            self.spare.push(group);
            if !self.ended {
                std::thread::sleep(IDLE);
            }
        } else {
            self.worker.execute_group(&mut self.calls, &mut group.results);
            group.epoch = group.results.iter().map(|executed| executed.epoch()).max().unwrap_or(0);
            self.pending.push_back(group);
        }
        self.take_released()
    }

    /// Generates calls up to the size of a group, or as many as have arrived.
    fn fill(&mut self, group: &mut Group<'a>) -> Result<()> {
        let now = Instant::now();
        let claimed = self.context.interval.claim(self.in_flight);
        self.ended = claimed == 0;
        for made in 0..claimed {
            let arrival = match &self.context.arrivals {
                None => self.sampled(now),
                Some(arrivals) => match arrivals.take_due(now) {
                    Some(planned) => Some(planned),
                    None => {
                        self.context.interval.give_back(claimed - made);
                        break;
                    }
                },
            };
            self.add_call(group, arrival)?;
            if self.ended {
                break;
            }
        }
        Ok(())
    }

    /// The arrival of one call in [`SAMPLE`].
    fn sampled(&mut self, now: Instant) -> Option<Instant> {
        self.since_sample += 1;
        if self.since_sample < SAMPLE {
            return None;
        }
        self.since_sample = 0;
        Some(now)
    }

    fn add_call(&mut self, group: &mut Group<'a>, arrival: Option<Instant>) -> Result<()> {
        match self.generator.next()? {
            Step::Call(call) => {
                if self.context.acknowledgements.is_some() {
                    group.keys.push(self.context.bound.acknowledgement(&call));
                }
                group.tags.push(Tag { transaction: call.transaction, read_only: call.read_only, arrival });
                self.calls.push((call.procedure, call.args));
            }
            Step::Refused { transaction, reason } => {
                self.recorder.record(&self.context.interval, refusal(transaction, reason));
                self.context.interval.count_released(1);
            }
            Step::End => self.ended = true,
        }
        Ok(())
    }

    /// Counts the groups at the front of the queue that have been released, and waits for one if there are too many.
    fn take_released(&mut self) -> Result<()> {
        let durable = self.worker.durable_epoch();
        while let Some(group) = self.pending.front()
            && (group.epoch <= durable || self.pending.len() > MOST_PENDING)
            && let Some(group) = self.pending.pop_front()
        {
            self.release(group)?;
        }
        Ok(())
    }

    /// Takes every result of a group, waiting where it has to, and counts them.
    fn release(&mut self, mut group: Group<'a>) -> Result<()> {
        let mut outcomes = std::mem::take(&mut self.outcomes);
        for executed in group.results.drain(..) {
            let run_again = executed.attempts().saturating_sub(1);
            outcomes.push((outcome(self.context.bound, executed.wait())?, run_again));
        }
        let at = Instant::now();
        self.acknowledge(&mut group, &outcomes)?;
        self.context.interval.count_released(outcomes.len() as u64);
        for (tag, (outcome, run_again)) in group.tags.drain(..).zip(outcomes.drain(..)) {
            let latency = tag.arrival.map(|arrival| at.saturating_duration_since(arrival));
            let Tag { transaction, read_only, .. } = tag;
            self.recorder.record(
                &self.context.interval,
                Release { transaction, read_only, outcome, run_again, at, latency },
            );
        }
        self.outcomes = outcomes;
        self.spare.push(group);
        Ok(())
    }

    fn acknowledge(&self, group: &mut Group<'a>, outcomes: &[(Outcome, u32)]) -> Result<()> {
        let Some(acknowledgements) = &self.context.acknowledgements else { return Ok(()) };
        let mut lines = String::new();
        for (key, (outcome, _)) in group.keys.drain(..).zip(outcomes) {
            if let (Some(key), Outcome::Committed) = (key, outcome) {
                lines.push_str(&key);
                lines.push('\n');
            }
        }
        acknowledgements.write(&lines)
    }
}
