//! A workload that is simulated, with the real schedule: no clock, no threads, and chance from a seed, so that each run of
//! a test is the same.
//!
//! Workers run calls from bounded queues, as the engine's do: an idle one steals, first calls without a running rival. Calls
//! come from one generator, which waits where the queue is full that a call is for. Two calls of one warehouse conflict as
//! under optimistic concurrency control: a call that overlapped with a rival which has committed aborts and is retried.

use std::collections::VecDeque;
use std::time::Duration;

use super::*;
use crate::schedule::reference::{Attribute, Collector, Scalar, Term};
use crate::schedule::{Schedule, ScheduleKind, StatePrune, Wanted};

/// Workers, and queues.
const WORKERS: usize = 20;
/// Calls that wait in a queue at most.
const BOUND: usize = 64;
/// Steps of a simulated second.
const SECOND: u64 = 500;

/// The distribution of calls over warehouses.
#[derive(Clone, Copy)]
enum Distribution {
    /// The k-th in proportion to 1 / k^alpha, of this many.
    Zipf(usize, f64),
    /// Each of this many calls about another one: nothing conflicts.
    Apart,
}

struct Call {
    warehouse: usize,
    length: u64,
    conflict_class: u64,
    apart: bool,
    noted: Option<References>,
    aborts: u32,
}

/// A call that runs.
struct Running {
    call: Call,
    begun: u64,
    ends: u64,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    committed: u64,
    aborted: u64,
    /// Calls that the schedule has examined.
    seen: u64,
}

impl Counts {
    fn abort_rate(self) -> f64 {
        self.aborted as f64 / (self.aborted + self.committed).max(1) as f64
    }
}

struct Simulation {
    schedule: Schedule,
    /// Cumulative probability of each warehouse; empty, where calls are apart.
    weights: Vec<f64>,
    step: u64,
    queues: Vec<VecDeque<Call>>,
    workers: Vec<Option<Running>>,
    /// The call that the generator has made for a queue that is full.
    blocked: Option<(usize, Call)>,
    /// Time of the last commit at each warehouse.
    committed_at: Vec<u64>,
    next: u64,
    counts: Counts,
}

impl Simulation {
    fn new(kind: ScheduleKind, prune: StatePrune, distribution: Distribution) -> Simulation {
        fastrand::seed(7);
        let settings = PredictSettings {
            policy: Policy::default(),
            history: Duration::from_secs(5),
            renew: Duration::from_secs(30),
            prune,
            memory_bytes: 4 << 20,
        };
        let mut simulation = Simulation {
            schedule: Schedule::new(kind, settings, WORKERS),
            weights: Vec::new(),
            step: 0,
            queues: (0..WORKERS).map(|_| VecDeque::new()).collect(),
            workers: (0..WORKERS).map(|_| None).collect(),
            blocked: None,
            committed_at: vec![0; 100],
            next: 0,
            counts: Counts::default(),
        };
        simulation.shift_to(distribution);
        simulation
    }

    /// Makes calls be about other warehouses from now on.
    fn shift_to(&mut self, distribution: Distribution) {
        let Distribution::Zipf(number, alpha) = distribution else { return self.weights.clear() };
        let mut sum = 0.0;
        let weights = (1..=number).map(|rank| {
            sum += (rank as f64).powf(-alpha);
            sum
        });
        self.weights = weights.collect();
    }

    /// Makes a call and has it placed.
    fn make(&mut self) -> (usize, Call) {
        self.next += 1;
        let point =
            f64::from(random::below(1 << 30)) / f64::from(1 << 30) * self.weights.last().unwrap_or(&0.0);
        let warehouse = self.weights.iter().position(|sum| *sum > point).unwrap_or(usize::MAX);
        let mut references = References::default();
        let (mut queue, mut noted) = (self.next as usize % WORKERS, None);
        let (mut conflict_class, mut apart) = (0, false);
        if let Wanted::References(form) = self.schedule.wanted() {
            self.counts.seen += 1;
            let mut collector = Collector::new(form, &mut references);
            // New values without end besides, as numbers of orders are.
            let order = 1_000_000 + self.next as i64;
            for (name, value) in
                [("warehouse", warehouse as i64), ("order", order), ("line", order), ("item", order % 997)]
            {
                collector.condition(Attribute::named(&[name]), Term::Equal(Scalar::of_int(value)));
                collector.end_conjunction();
            }
            if let Some(placement) = self.schedule.place(&references) {
                (queue, conflict_class, apart) = (placement.queue, placement.conflict_class, placement.apart);
                noted = placement.noted.then_some(references);
            }
        }
        let length = if random::below(2) == 0 { 1 } else { 5 };
        (queue, Call { warehouse, length, conflict_class, apart, noted, aborts: 0 })
    }

    /// Makes calls until one has no room.
    fn fill(&mut self) {
        loop {
            let (queue, call) = match self.blocked.take() {
                Some(blocked) => blocked,
                None => self.make(),
            };
            if self.queues[queue].len() >= BOUND {
                self.blocked = Some((queue, call));
                return;
            }
            self.queues[queue].push_back(call);
        }
    }

    /// The next call of a worker: from its own queue, or one of another's.
    fn take(&mut self, worker: usize) -> Option<Call> {
        let running: Vec<u64> =
            self.workers.iter().flatten().map(|running| running.call.conflict_class).collect();
        let free = |call: &Call| call.conflict_class == 0 || !running.contains(&call.conflict_class);
        let bold = |call: &Call| !call.apart;
        let own = &self.queues[worker];
        let own =
            own.iter().position(free).or_else(|| own.iter().position(bold)).map(|place| (worker, place));
        let mut others: Vec<usize> = (0..WORKERS).collect();
        others.sort_by_key(|other| std::cmp::Reverse(self.queues[*other].len()));
        let of_others =
            || others.iter().find_map(|queue| Some((*queue, self.queues[*queue].iter().position(free)?)));
        let crowded = |queue: &&usize| self.queues[**queue].len() > BOUND / 2;
        let of_a_crowd = || {
            others
                .iter()
                .filter(crowded)
                .find_map(|queue| Some((*queue, self.queues[*queue].iter().position(bold)?)))
        };
        let (queue, place) = own.or_else(of_others).or_else(of_a_crowd)?;
        self.queues[queue].remove(place)
    }

    /// Ends what a worker runs, if it is at its end: it commits, or begins again.
    fn end(&mut self, worker: usize) {
        let Some(running) = self.workers[worker].as_mut().filter(|running| running.ends <= self.step) else {
            return;
        };
        let last = self.committed_at.get_mut(running.call.warehouse);
        if last.as_ref().is_some_and(|last| **last > running.begun) {
            running.call.aborts += 1;
            (running.begun, running.ends) = (self.step, self.step + running.call.length);
            self.counts.aborted += 1;
            return;
        }
        if let Some(last) = last {
            *last = self.step;
        }
        self.counts.committed += 1;
        if let Some(Running { call, .. }) = self.workers[worker].take()
            && let Some(references) = call.noted
        {
            self.schedule.ended(&references, call.aborts);
        }
    }

    /// Runs one step of all workers.
    fn step(&mut self) {
        self.step += 1;
        self.fill();
        for worker in 0..WORKERS {
            self.end(worker);
            if self.workers[worker].is_none()
                && let Some(call) = self.take(worker)
            {
                let (begun, ends) = (self.step, self.step + call.length);
                self.workers[worker] = Some(Running { call, begun, ends });
            }
        }
        if self.step.is_multiple_of(SECOND / 10) {
            self.maintain();
        }
    }

    /// The work of the engine's maintenance thread.
    fn maintain(&mut self) {
        let Counts { committed, aborted, .. } = self.counts;
        let at = Duration::from_millis(self.step * 1_000 / SECOND);
        if !self.schedule.maintain(Observation { at, committed, aborted }) {
            return;
        }
        let mut waiting: Vec<(usize, Call)> = Vec::new();
        for (queue, calls) in self.queues.iter_mut().enumerate() {
            waiting.extend(calls.drain(..).map(|call| (queue, call)));
        }
        let place = |call: &Call| call.noted.as_ref().and_then(|references| self.schedule.place(references));
        waiting.iter().for_each(|(_, call)| {
            place(call);
        });
        self.schedule.distribute();
        for (queue, call) in &mut waiting {
            if let Some(placement) = place(call) {
                (*queue, call.conflict_class, call.apart) =
                    (placement.queue, placement.conflict_class, placement.apart);
                call.noted = call.noted.take().filter(|_| placement.noted);
            }
        }
        waiting.into_iter().for_each(|(queue, call)| self.queues[queue].push_back(call));
    }

    /// Lets this many seconds pass; returns what was counted in them.
    fn run(&mut self, seconds: u64) -> Counts {
        let before = self.counts;
        (0..seconds * SECOND).for_each(|_| self.step());
        Counts {
            committed: self.counts.committed - before.committed,
            aborted: self.counts.aborted - before.aborted,
            seen: self.counts.seen - before.seen,
        }
    }

    fn report(&self) -> ScheduleReport {
        self.schedule.report().expect("it learns")
    }
}

/// The results of both schedules in this many seconds after the first six.
fn compare(distribution: Distribution, seconds: u64) -> [Counts; 2] {
    [ScheduleKind::Random, ScheduleKind::Predict].map(|kind| {
        let mut simulation = Simulation::new(kind, StatePrune::Stable, distribution);
        simulation.run(6);
        simulation.run(seconds)
    })
}

#[test]
fn predict_aborts_a_small_part_of_what_random_does_and_commits_more() {
    for (warehouses, alpha, part) in [(20, 0.0, 4.0), (30, 0.0, 4.0), (20, 0.3, 2.0), (60, 0.5, 2.0)] {
        let [random, predict] = compare(Distribution::Zipf(warehouses, alpha), 20);
        let (most, rate) = (random.abort_rate() / part, predict.abort_rate());
        assert!(random.abort_rate() > 0.1, "{warehouses} {alpha}: rivals overlap: {}", random.abort_rate());
        assert!(rate < most, "{warehouses} {alpha}: {rate} against {}", random.abort_rate());
        assert!(
            predict.committed > random.committed,
            "{warehouses} {alpha}: {} {}",
            predict.committed,
            random.committed
        );
    }
}

#[test]
fn a_shift_of_the_distribution_costs_no_more_than_it_costs_random_and_is_over_when_it_returns() {
    let (uniform, skewed) = (Distribution::Zipf(20, 0.0), Distribution::Zipf(20, 0.3));
    let parts = |kind| {
        let mut simulation = Simulation::new(kind, StatePrune::Stable, uniform);
        simulation.run(6);
        let first = simulation.run(30);
        simulation.shift_to(skewed);
        let second = simulation.run(30);
        simulation.shift_to(uniform);
        [first, second, simulation.run(10), simulation.run(20)]
    };
    let (random, predict) = (parts(ScheduleKind::Random), parts(ScheduleKind::Predict));
    for (part, (random, predict)) in random.iter().zip(&predict).enumerate() {
        assert!(predict.committed >= random.committed, "part {part}");
        assert!(predict.abort_rate() < random.abort_rate() / 2.0, "part {part}: {}", predict.abort_rate());
    }
    let (first, back) = (predict[0].committed as f64 / 30.0, predict[2].committed as f64 / 10.0);
    assert!(back >= 0.9 * first, "{back} a second in the first ten seconds, {first} before");
}

#[test]
fn the_state_stays_as_large_under_a_stream_of_new_values() {
    let mut simulation =
        Simulation::new(ScheduleKind::Predict, StatePrune::Stable, Distribution::Zipf(20, 0.0));
    simulation.run(60);
    let sizes: Vec<ScheduleReport> = (0..9)
        .map(|_| {
            simulation.run(20);
            simulation.report()
        })
        .collect();
    let most = sizes.iter().map(|report| report.state_references).max();
    assert!(sizes.iter().all(|report| report.bytes == sizes[0].bytes && report.bytes <= 4 << 20));
    let (early, late) = (sizes[..3].iter(), sizes[6..].iter());
    let mean = |reports: std::slice::Iter<'_, ScheduleReport>| {
        reports.map(|one| one.state_references).sum::<u64>() / 3
    };
    assert!(mean(late) <= mean(early.clone()) * 3 / 2, "it is flat: {sizes:?}");
    assert!(most.is_some_and(|most| most < 20_000), "{sizes:?}");
    assert!(simulation.run(20).abort_rate() < 0.1, "and what is needed is still known");
}

#[test]
fn without_conflicts_hardly_any_call_is_looked_at_and_when_they_come_they_are_noticed() {
    let mut simulation = Simulation::new(ScheduleKind::Predict, StatePrune::Stable, Distribution::Apart);
    simulation.run(6);
    assert!(simulation.report().is_idle_mode);
    let idle = simulation.run(30);
    assert!(idle.seen > 0 && idle.seen < idle.committed / 100, "{} of {}", idle.seen, idle.committed);
    simulation.shift_to(Distribution::Zipf(20, 0.0));
    simulation.run(8);
    assert!(!simulation.report().is_idle_mode && !simulation.report().is_filling);
    let is_frequent = simulation.run(20);
    assert!(is_frequent.abort_rate() < 0.08, "{}", is_frequent.abort_rate());
    simulation.shift_to(Distribution::Apart);
    simulation.run(240);
    assert!(simulation.report().is_idle_mode);
}
