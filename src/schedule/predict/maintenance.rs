//! The maintenance of `predict`, so that it can run forever: the first History, fresh ones, a State that is pruned and
//! balanced.
//!
//! - The first calls are all placed at random, for as long as the options say. After that a share of them still is, and
//!   fills the next History; when that has seen enough, it replaces the old one.
//! - References are pruned from the State that have a low arrival rate, a small total, and a fullest queue that is full
//!   (the paper's R, T and Q, section 7.4): once the abort rate is stable, so that nothing is forgotten before the
//!   queues have found their order; or at once, where the options want to see why not (figure 15).
//! - A reference that decides is moved from a queue that gets too many calls to the one that gets the fewest. So no queue
//!   stays with two popular references because of the first few calls, while another one has none (section 7.5 leaves
//!   that open).
//! - Where conflicts are rare, all this rests ([`idle`](super::idle)); when conflicts return, everything starts over.
//!
//! The time is an argument, so that a test need not wait.

use std::time::Duration;

use super::idle::{IdleDecision, IdleMode};
use super::{Predict, SHARE_AT_FIRST, SHARE_WHILE_CHANGING, SHARE_WHILE_STABLE};
use crate::base::atomics::Ordering;
use crate::schedule::policy::Deciding;
use crate::schedule::state::State;
use crate::schedule::{PredictSettings, StatePrune};

/// Interval between two searches of the State for references that can be pruned.
const SWEEP: Duration = Duration::from_secs(1);
/// After this many consecutive sweeps with about the same abort rate, it is stable.
const STABLE_AFTER: u32 = 3;
/// About the same: within this much, or this share of it.
const TOLERANCE: f64 = 0.02;
const RELATIVE_TOLERANCE: f64 = 0.2;
/// Requirements of a new History: this many calls with this many aborts, or many more calls without.
const CALLS_ENOUGH: usize = 512;
const ABORTS_ENOUGH: usize = 256;
const CALLS_PLENTY: usize = 32 * CALLS_ENOUGH;
/// After idle mode, calls are placed at random for at least this long, whatever the options say of the first time.
const LEAST_FILLING: Duration = Duration::from_secs(1);
/// Queues are compared when they have received this many calls each, on average.
const CALLS_TO_COMPARE: u64 = 64;
/// A queue has too many calls with this many times the average.
const TOO_MANY: f64 = 1.25;
/// A move has to leave the fuller of both queues with at most this share of what the full one had.
const WORTH_A_MOVE: f64 = 0.9;

/// Counts of the engine, and their time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Observation {
    /// Time since the database was opened.
    pub(crate) at: Duration,
    /// Calls that have committed.
    pub(crate) committed: u64,
    /// Attempts that were aborted and retried.
    pub(crate) aborted: u64,
}

/// State that is kept from one observation to the next.
pub(crate) struct Maintenance {
    settings: PredictSettings,
    /// True if a call was seen.
    begun: bool,
    /// The time since which all calls are placed at random, and until when, if they are.
    filling: Option<Filling>,
    /// Time at which the History that is read was completed.
    renewed: Duration,
    idle_mode: IdleMode,
    /// True if the State is to learn once more from the History.
    learns_again: bool,
    swept: Observation,
    stability: Stability,
    /// Total of each place of the State at the last sweep.
    totals: Box<[u32]>,
    /// Number of calls of each queue when queues were last compared.
    placed: Box<[u64]>,
}

/// A time in which all calls are placed at random.
#[derive(Clone, Copy, Debug)]
struct Filling {
    since: Duration,
    lasts: Duration,
}

impl Maintenance {
    pub(crate) fn new(settings: PredictSettings, places: usize, queues: usize) -> Maintenance {
        Maintenance {
            begun: false,
            filling: None,
            renewed: Duration::ZERO,
            idle_mode: IdleMode::default(),
            settings,
            learns_again: false,
            swept: Observation::default(),
            stability: Stability::default(),
            totals: (0..places).map(|_| 0).collect(),
            placed: (0..queues).map(|_| 0).collect(),
        }
    }

    /// Returns true if a History has just been completed, by which the policy decides from now on.
    pub(crate) fn maintain(&mut self, predict: &Predict, observation: Observation) -> bool {
        // Relaxed: it is checked again and again.
        if !self.begun && predict.begun.load(Ordering::Relaxed) {
            self.begin(observation);
        }
        if !self.begun {
            return false;
        }
        if let Some(Filling { since, lasts }) = self.filling {
            return observation.at.saturating_sub(since) >= lasts
                && self.finish_history(predict, observation);
        }
        if predict.policy.deciding == Deciding::Max && !predict.is_idle_mode() {
            self.balance(predict);
        }
        if observation.at.saturating_sub(self.swept.at) >= SWEEP {
            self.examine(predict, observation);
        }
        false
    }

    /// The next call is as the first one: by then calls may be others.
    pub(crate) fn begin_again(&mut self, predict: &Predict) {
        self.begun = false;
        self.filling = None;
        self.learns_again = false;
        predict.history.refill();
        let share = if self.settings.history.is_zero() { SHARE_WHILE_CHANGING } else { SHARE_AT_FIRST };
        // Relaxed: a thread that still sees the old state places one more call by it.
        predict.share.store(share, Ordering::Relaxed);
        predict.idle.store(false, Ordering::Relaxed);
        predict.begun.store(false, Ordering::Relaxed);
    }

    /// The first call has come.
    fn begin(&mut self, observation: Observation) {
        self.begun = true;
        let (since, lasts) = (observation.at, self.settings.history);
        self.filling = (!lasts.is_zero()).then_some(Filling { since, lasts });
        self.idle_mode.begin(observation, (0, 0));
    }

    /// Once a second: sweeps the State, and renews the History if it is time; or checks whether idle mode ends.
    fn examine(&mut self, predict: &Predict, observation: Observation) {
        self.stability.see(self.swept, observation);
        let elapsed = observation.at.saturating_sub(self.swept.at);
        self.swept = observation;
        match self.idle_mode.see(predict.is_idle_mode(), observation, predict.history.noted()) {
            IdleDecision::Keep if predict.is_idle_mode() => return,
            IdleDecision::Keep => {}
            IdleDecision::Begin => return predict.idle.store(true, Ordering::Relaxed),
            IdleDecision::End => return self.fill_again(predict, observation),
        }
        let share = if self.stability.is_stable() { SHARE_WHILE_STABLE } else { SHARE_WHILE_CHANGING };
        predict.share.store(share, Ordering::Relaxed);
        if std::mem::take(&mut self.learns_again) {
            predict.learn();
        }
        self.sweep(&predict.state, elapsed);
        let (calls, aborts) = predict.history.noted();
        let enough = calls >= CALLS_ENOUGH && aborts >= ABORTS_ENOUGH || calls >= CALLS_PLENTY;
        if enough && observation.at.saturating_sub(self.renewed) >= self.settings.renew {
            predict.history.renew();
            predict.learn();
            self.renewed = observation.at;
            self.learns_again = true;
        }
    }

    /// Idle mode has ended, and what was known before it may be outdated.
    fn fill_again(&mut self, predict: &Predict, observation: Observation) {
        predict.history.refill();
        // Relaxed: a thread that still sees idle mode lets one more call go by.
        predict.share.store(SHARE_AT_FIRST, Ordering::Relaxed);
        predict.idle.store(false, Ordering::Relaxed);
        let lasts = self.settings.history.max(LEAST_FILLING);
        self.filling = Some(Filling { since: observation.at, lasts });
    }

    /// Lets the policy decide from now on, unless hardly anything conflicts; returns true if it does.
    fn finish_history(&mut self, predict: &Predict, observation: Observation) -> bool {
        self.filling = None;
        let noted = predict.history.noted();
        predict.history.complete();
        predict.learn();
        let idle = IdleMode::is_idle_mode(noted);
        predict.idle.store(idle, Ordering::Relaxed);
        // Relaxed: a thread that still sees the old share places one more call at random.
        let share = if idle { SHARE_WHILE_STABLE } else { SHARE_WHILE_CHANGING };
        predict.share.store(share, Ordering::Relaxed);
        self.renewed = observation.at;
        self.swept = observation;
        self.idle_mode.begin(observation, predict.history.noted());
        !idle
    }

    /// Looks at every reference of the State, and prunes those that the rule names.
    fn sweep(&mut self, state: &State, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64();
        let mut seen = Vec::with_capacity(state.references());
        for place in state.owned() {
            state.keep_small(place);
            let counts = state.counts(place);
            let (mut total, mut fullest, mut most) = (0_u32, 0, 0);
            for (queue, count) in counts.enumerate() {
                total = total.saturating_add(count);
                if count > most {
                    (fullest, most) = (queue, count);
                }
            }
            let arrived = total.saturating_sub(self.totals[place]);
            self.totals[place] = total;
            seen.push(Seen { place, total, rate: f64::from(arrived) / seconds, fullest });
        }
        if self.prunes(state) {
            for place in prunable(&seen, &totals(state)) {
                state.remove(place);
                self.totals[place] = 0;
            }
        }
    }

    fn prunes(&self, state: &State) -> bool {
        match self.settings.prune {
            StatePrune::Off => false,
            StatePrune::Direct => true,
            // A State that is nearly full takes no new references in, and that would be worse.
            StatePrune::Stable => {
                self.stability.is_stable() || state.references() > state.places() - state.places() / 8
            }
        }
    }

    /// Redistributes the references that have decided since the last comparison, so that each queue gets about as many
    /// calls.
    pub(crate) fn distribute(&mut self, predict: &Predict) {
        for decider in dealt_out(deciders(&predict.state), self.placed.len()) {
            predict.state.move_to(decider.place, decider.queue);
        }
        for (queue, placed) in self.placed.iter_mut().enumerate() {
            *placed = predict.state.calls(queue);
        }
    }

    /// Moves what decides out of queues that get too many calls.
    fn balance(&mut self, predict: &Predict) {
        let now: Vec<u64> = (0..self.placed.len()).map(|queue| predict.state.calls(queue)).collect();
        let fresh: Vec<u64> = now.iter().zip(&self.placed).map(|(now, before)| now - before).collect();
        let all: u64 = fresh.iter().sum();
        if all < CALLS_TO_COMPARE * fresh.len() as u64 {
            return;
        }
        self.placed.copy_from_slice(&now);
        let mut loads: Vec<f64> = fresh.iter().map(|calls| *calls as f64).collect();
        let mut deciders = deciders(&predict.state);
        for _ in 0..loads.len() {
            let Some(change) = best_move(&loads, &deciders) else { break };
            let decider = &mut deciders[change.decider];
            predict.state.move_to(decider.place, change.to);
            loads[decider.queue] -= decider.calls;
            loads[change.to] += decider.calls;
            decider.queue = change.to;
        }
    }
}

/// Moves each decider to its best queue: the one with the most calls first, each to the queue that has the fewest then.
fn dealt_out(mut deciders: Vec<Decider>, queues: usize) -> Vec<Decider> {
    deciders.sort_unstable_by(|left, right| right.calls.total_cmp(&left.calls));
    let mut loads = vec![0.0_f64; queues];
    for decider in &mut deciders {
        let emptiest = loads.iter().enumerate().min_by(|(_, left), (_, right)| left.total_cmp(right));
        decider.queue = emptiest.map_or(0, |(queue, _)| queue);
        loads[decider.queue] += decider.calls;
    }
    deciders
}

/// A reference of the State, as a sweep sees it.
struct Seen {
    place: usize,
    total: u32,
    rate: f64,
    fullest: usize,
}

fn totals(state: &State) -> Vec<u64> {
    (0..state.queues()).map(|queue| state.total(queue)).collect()
}

/// References that may be pruned: their rate is low, their total is low, and they weigh on a queue that has more than
/// its share.
fn prunable(seen: &[Seen], totals: &[u64]) -> Vec<usize> {
    let number = seen.len().max(1) as f64;
    let usual_rate = seen.iter().map(|one| one.rate).sum::<f64>() / number;
    let usual_total = seen.iter().map(|one| f64::from(one.total)).sum::<f64>() / number;
    let usual_queue = totals.iter().sum::<u64>() as f64 / totals.len().max(1) as f64;
    let seldom = |one: &&Seen| {
        one.rate < usual_rate
            && f64::from(one.total) < usual_total
            && totals[one.fullest] as f64 >= usual_queue
    };
    seen.iter().filter(seldom).map(|one| one.place).collect()
}

/// A reference that has placed calls alone.
#[derive(Clone, Copy, Debug)]
struct Decider {
    place: usize,
    queue: usize,
    calls: f64,
}

fn deciders(state: &State) -> Vec<Decider> {
    let of = |place: usize| {
        let calls = state.take_decided(place);
        let queue = (0..).zip(state.counts(place)).max_by_key(|(queue, count)| (*count, -queue))?.0;
        (calls > 0).then_some(Decider { place, queue: queue as usize, calls: f64::from(calls) })
    };
    state.owned().filter_map(of).collect()
}

/// A decider's way to another queue.
struct Move {
    decider: usize,
    to: usize,
}

/// The move out of the fullest queue, into the emptiest, that makes the fuller of both least full; if one is worth it.
fn best_move(loads: &[f64], deciders: &[Decider]) -> Option<Move> {
    let order = |(_, left): &(usize, &f64), (_, right): &(usize, &f64)| left.total_cmp(right);
    let (full, most) = loads.iter().enumerate().max_by(order)?;
    let (empty, least) = loads.iter().enumerate().min_by(order)?;
    let usual = loads.iter().sum::<f64>() / loads.len() as f64;
    if *most <= TOO_MANY * usual {
        return None;
    }
    let after = |decider: &Decider| (most - decider.calls).max(least + decider.calls);
    let candidates = deciders.iter().enumerate().filter(|(_, decider)| decider.queue == full);
    let best = candidates.min_by(|(_, left), (_, right)| after(left).total_cmp(&after(right)))?;
    (after(best.1) <= WORTH_A_MOVE * most).then_some(Move { decider: best.0, to: empty })
}

/// Detects whether the abort rate stays about the same.
#[derive(Default)]
struct Stability {
    usual: f64,
    in_a_row: u32,
}

impl Stability {
    fn see(&mut self, before: Observation, now: Observation) {
        let aborted = now.aborted.saturating_sub(before.aborted) as f64;
        let attempts = aborted + now.committed.saturating_sub(before.committed) as f64;
        if attempts == 0.0 {
            return;
        }
        let rate = aborted / attempts;
        let same = (rate - self.usual).abs() <= TOLERANCE.max(RELATIVE_TOLERANCE * self.usual);
        self.in_a_row = if same { self.in_a_row.saturating_add(1) } else { 0 };
        // Half of it is new: a level that lasts is soon the usual one.
        self.usual = 0.5 * (self.usual + rate);
    }

    fn is_stable(&self) -> bool {
        self.in_a_row >= STABLE_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(seconds: u64, committed: u64, aborted: u64) -> Observation {
        Observation { at: Duration::from_secs(seconds), committed, aborted }
    }

    #[test]
    fn a_rate_is_stable_when_it_has_been_the_same_for_a_while() {
        let mut stability = Stability::default();
        let mut seen = after(0, 0, 0);
        let mut next = |stability: &mut Stability, aborted: u64| {
            let now = Observation {
                committed: seen.committed + 1_000 - aborted,
                aborted: seen.aborted + aborted,
                ..seen
            };
            stability.see(seen, now);
            seen = now;
            stability.is_stable()
        };
        assert!(!next(&mut stability, 450));
        assert!((0..10).any(|_| next(&mut stability, 450)), "it settles");
        assert!(next(&mut stability, 460), "a little more is the same");
        assert!(!next(&mut stability, 50), "a shift is not");
        assert!((0..10).any(|_| next(&mut stability, 50)));
    }

    #[test]
    fn what_is_rare_old_and_in_a_full_queue_is_pruned() {
        let seen = |place, total, rate, fullest| Seen { place, total, rate, fullest };
        let all = [
            seen(0, 1_000, 100.0, 0),
            seen(1, 3, 0.0, 0),
            seen(2, 3, 0.0, 1),
            seen(3, 3, 90.0, 0),
            seen(4, 2_000, 0.0, 0),
        ];
        assert_eq!(prunable(&all, &[3_000, 100]), [1], "low rate, few in total, and its queue is full");
        assert!(prunable(&all[..1], &[1_000, 0]).is_empty() && prunable(&[], &[0, 0]).is_empty());
    }

    #[test]
    fn a_queue_with_two_popular_references_gives_one_away() {
        let decider = |place, queue, calls| Decider { place, queue, calls };
        let deciders = [decider(0, 0, 100.0), decider(1, 0, 90.0), decider(2, 0, 3.0), decider(3, 1, 100.0)];
        let change = best_move(&[193.0, 100.0, 0.0], &deciders).expect("it is worth it");
        assert_eq!((deciders[change.decider].place, change.to), (0, 2));
        assert!(best_move(&[100.0, 93.0, 100.0], &deciders).is_none(), "nothing is too full");
        let one = [decider(0, 0, 300.0), decider(1, 1, 40.0)];
        assert!(best_move(&[300.0, 40.0, 10.0], &one).is_none(), "one reference alone cannot be divided");
        assert!(best_move(&[300.0, 40.0, 10.0], &[]).is_none());
    }

    #[test]
    fn deciders_are_dealt_out_so_that_queues_get_about_as_many_calls() {
        let all =
            |calls: &[f64]| calls.iter().map(|calls| Decider { place: 0, queue: 0, calls: *calls }).collect();
        let loads = |calls: &[f64], queues| {
            let mut loads = vec![0.0; queues];
            dealt_out(all(calls), queues).iter().for_each(|decider| loads[decider.queue] += decider.calls);
            loads.sort_unstable_by(f64::total_cmp);
            loads
        };
        assert_eq!(loads(&[5.0; 6], 6), [5.0; 6]);
        assert_eq!(loads(&[1.0, 9.0, 3.0, 6.0, 2.0], 2), [10.0, 11.0]);
        assert_eq!(loads(&[4.0; 5], 3), [4.0, 8.0, 8.0]);
        assert_eq!(loads(&[], 2), [0.0, 0.0]);
    }
}
