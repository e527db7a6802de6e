//! `predict`: places a call in the queue that holds the calls with which it would probably conflict, so that they run one
//! after the other (Zhang, Tomasic, Pavlo, "Intelligent Transaction Scheduling via Conflict Prediction in OLTP DBMS").
//!
//! For each of a call's references, the History counts aborts, and the State counts placements in each queue. A queue's
//! score is the conflict count times the placements, summed over the deciding references; the queue with the highest score
//! receives the call. If nothing is known, or scores tie, the queue with the smallest total of references wins, then the
//! one with the lowest number (the paper's default). `docs/decisions/2026-11-21-predicted-conflicts.md` covers what the
//! paper leaves open.
//!
//! Cost: one lookup in the hot-key cache for each reference, and one in the State for the deciding reference. If the cache
//! cannot decide, one lookup in the State for each reference; the State also holds a copy of the History's conflict counts.
//! In idle mode ([`idle`]), where conflicts are rare, a call costs the load of one flag.
//!
//! Concurrency: placing a call does not block. Several threads place calls while workers report outcomes and
//! [maintenance](Predict::maintain) runs.

mod idle;
mod maintenance;

use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::base::atomics::{AtomicBool, AtomicU32, Ordering};
use crate::base::random;
use crate::schedule::history::{History, Outcomes, Rivals, may_be_chance};
use crate::schedule::hot_key_cache::HotKeyCache;
use crate::schedule::policy::{ConflictCounts, Deciding, Policy};
use crate::schedule::reference::{Reference, References};
use crate::schedule::state::{AllFound, Found, State};
use crate::schedule::{Placement, PredictSettings, ScheduleReport};
use maintenance::Maintenance;
pub(crate) use maintenance::Observation;

/// Share of calls that are placed at random to fill the next History, one in this many, while the abort rate is stable.
const SHARE_WHILE_STABLE: u32 = 1_024;
/// Same share while the abort rate is changing.
const SHARE_WHILE_CHANGING: u32 = 256;
/// Same share until the first History is complete: all calls.
const SHARE_AT_FIRST: u32 = 1;
/// The History gets one part in this many of the memory.
const HISTORY_PART: usize = 4;
/// The hot-key cache gets one part in this many of the memory.
const HOT_KEY_CACHE_SHARE: usize = 16;

type Scores = SmallVec<[f64; 32]>;

/// The schedule.
pub(crate) struct Predict {
    policy: Policy,
    history: History,
    state: State,
    hot_key_cache: HotKeyCache,
    /// Share of calls that are placed at random: one in this many.
    share: AtomicU32,
    /// True once any call was placed.
    begun: AtomicBool,
    /// True while conflicts are so rare that calls are placed without examining them.
    idle: AtomicBool,
    maintenance: Mutex<Maintenance>,
}

impl Predict {
    /// Makes the schedule for this many queues.
    pub(crate) fn new(settings: PredictSettings, queues: usize) -> Predict {
        let of_history = settings.memory_bytes / HISTORY_PART;
        let hot_key_cache = HotKeyCache::new(settings.memory_bytes / HOT_KEY_CACHE_SHARE);
        let state = State::new(queues, settings.memory_bytes - of_history - hot_key_cache.bytes());
        let at_once = settings.history.is_zero();
        let history = History::new(of_history);
        if at_once {
            history.fill_apart();
        }
        Predict {
            policy: settings.policy,
            history,
            hot_key_cache,
            share: AtomicU32::new(if at_once { SHARE_WHILE_CHANGING } else { SHARE_AT_FIRST }),
            begun: AtomicBool::new(false),
            idle: AtomicBool::new(false),
            maintenance: Mutex::new(Maintenance::new(settings, state.places(), queues)),
            state,
        }
    }

    /// Forgets what it has learned, as far as that decides placements: the next call is as the first one.
    pub(crate) fn begin_again(&self) {
        self.maintenance.lock().begin_again(self);
    }

    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    /// Returns true if the next call's references are to be examined: in idle mode only a sample of calls is.
    #[inline]
    pub(crate) fn looks(&self) -> bool {
        !self.is_idle_mode() || random::below(SHARE_WHILE_STABLE) == 0
    }

    /// Returns true if conflicts are so rare that predicting them costs more than it saves.
    #[inline]
    fn is_idle_mode(&self) -> bool {
        // Relaxed: a thread that reads the old mode places only a few more calls by it.
        self.idle.load(Ordering::Relaxed)
    }

    /// Chooses a call's queue.
    #[inline]
    pub(crate) fn place(&self, references: &References) -> Placement {
        // Relaxed, here and below: maintenance polls, so a delayed store is seen at its next pass.
        if !self.begun.load(Ordering::Relaxed) {
            self.begun.store(true, Ordering::Relaxed);
        }
        let share = self.share.load(Ordering::Relaxed);
        // In idle mode only calls of the sample reach this function.
        if self.is_idle_mode() || random::below(share) == 0 {
            let queue = random::below(self.state.queues() as u32) as usize;
            return Placement { queue, conflict_class: 0, apart: false, noted: true };
        }
        self.decide(references)
    }

    /// Chooses a queue by the policy and records the placement. The conflict class is the deciding reference, if calls that
    /// share it conflict often enough.
    fn decide(&self, references: &References) -> Placement {
        let others = self.state.weight_of_others();
        let found = self.find(references, others);
        let (queue, decider) = match self.policy.deciding {
            Deciding::Sum => (self.best(&self.sums(&found)), None),
            Deciding::Max => match self.strongest(references, &found) {
                Some(number) => (self.best(&self.scores_of(&found[number])), Some(number)),
                None => (self.emptiest(), None),
            },
        };
        self.state.add(&found, queue, decider.and_then(|number| found[number].place()), others);
        let rivals = decider.map_or(Rivals::No, |number| {
            found[number].outcomes.rivals(self.history.calls(), self.state.queues())
        });
        let about = decider.filter(|_| rivals > Rivals::No);
        let conflict_class = about.map_or(0, |number| references.as_slice()[number]);
        Placement { queue, conflict_class, apart: rivals == Rivals::Mostly, noted: false }
    }

    /// Looks up a call's references. If the hot-key cache is enough to decide, and references without conflicts are not
    /// counted this time, only those with conflicts are looked up in the State; otherwise all are.
    #[inline]
    fn find(&self, references: &References, others: u32) -> AllFound {
        let all = references.as_slice();
        let hot_key_cache = if self.policy.is_led() { self.hot_key_cache.look(all) } else { None };
        if others > 0 || hot_key_cache.is_none() {
            // Prefetch all before the first lookup, so that the cache misses overlap.
            all.iter().for_each(|reference| self.state.prefetch(*reference));
        }
        let Some(hot_key_cache) = hot_key_cache else {
            return all.iter().map(|reference| self.state.find(*reference, &self.history)).collect();
        };
        let one = |(reference, outcomes): (&Reference, Outcomes)| match outcomes.aborts {
            0 if others == 0 => Found::NOTHING,
            _ => self.state.find(*reference, &self.history).with(outcomes),
        };
        all.iter().zip(hot_key_cache).map(one).collect()
    }

    /// The score of each queue, if all references decide.
    fn sums(&self, all: &AllFound) -> Scores {
        let mut scores = Scores::from_elem(0.0, self.state.queues());
        all.iter().for_each(|found| self.weigh(found, &mut scores));
        scores
    }

    /// The score of each queue, if only this reference decides.
    fn scores_of(&self, decider: &Found) -> Scores {
        let mut scores = Scores::from_elem(0.0, self.state.queues());
        self.weigh(decider, &mut scores);
        scores
    }

    /// Adds a reference's conflict count times its placements to each queue's score.
    #[inline]
    fn weigh(&self, found: &Found, scores: &mut Scores) {
        if let (Some(place), true) = (found.place(), found.outcomes.aborts > 0) {
            let weight = found.outcomes.weight(self.policy.conflict_counts);
            for (score, count) in scores.iter_mut().zip(self.state.counts(place)) {
                *score += weight * f64::from(count);
            }
        }
    }

    /// The number of the reference with the most conflicts, if one has any.
    ///
    /// Counts whose difference is not statistically significant are ties, which the paper breaks arbitrarily. Here the
    /// reference that the call names most often wins: a call that does most of its work in one warehouse and reads once
    /// from another is placed in the queue of the first.
    fn strongest(&self, references: &References, all: &AllFound) -> Option<usize> {
        let most = all.iter().map(|found| found.outcomes.aborts).max().unwrap_or(0);
        if most == 0 {
            return None;
        }
        let conflict_counts = self.policy.conflict_counts;
        let (mut best, mut best_rank) = (None, (0, 0.0, 0.0));
        for (number, Found { outcomes, .. }) in all.iter().enumerate() {
            let times = match conflict_counts {
                _ if outcomes.aborts == 0 => continue,
                ConflictCounts::Count if !may_be_chance(outcomes.aborts, most) => continue,
                ConflictCounts::Count => references.times()[number],
                ConflictCounts::Fraction => 0,
            };
            let rank = (times, outcomes.weight(conflict_counts), outcomes.fraction());
            if rank > best_rank {
                (best, best_rank) = (Some(number), rank);
            }
        }
        best
    }

    /// The queue with the highest score; ties go to the smallest total of references, then to the lowest number.
    fn best(&self, scores: &Scores) -> usize {
        let highest = scores.iter().copied().fold(0.0, f64::max);
        let highest = scores.iter().enumerate().filter(|(_, score)| **score >= highest);
        highest.map(|(queue, _)| queue).min_by_key(|queue| self.state.total(*queue)).unwrap_or(0)
    }

    /// The queue with the smallest total of references; ties go to the lowest number.
    fn emptiest(&self) -> usize {
        (0..self.state.queues()).min_by_key(|queue| self.state.total(*queue)).unwrap_or(0)
    }

    /// Reports that a call that was placed at random has ended, after this many aborted attempts.
    pub(crate) fn ended(&self, references: &References, aborts: u32) {
        self.history.note(references.as_slice(), aborts);
    }

    /// Copies the History's counts into the hot-key cache and the State.
    fn learn(&self) {
        if self.policy.is_led() {
            self.hot_key_cache.learn(&self.history);
        }
        self.state.learn(&self.history);
    }

    /// Maintains History and State; called about ten times a second, from one thread. Returns true when a History is complete
    /// and the policy starts to decide.
    pub(crate) fn maintain(&self, observation: Observation) -> bool {
        self.maintenance.lock().maintain(self, observation)
    }

    /// Redistributes the references that have decided placements over the queues.
    pub(crate) fn distribute(&self) {
        if self.policy.deciding == Deciding::Max {
            self.maintenance.lock().distribute(self);
        }
    }

    /// The current state, for statistics.
    pub(crate) fn report(&self) -> ScheduleReport {
        ScheduleReport {
            history_references: self.history.references() as u64,
            state_references: self.state.references() as u64,
            bytes: (self.history.bytes() + self.state.bytes() + self.hot_key_cache.bytes()) as u64,
            is_filling: self.share.load(Ordering::Relaxed) == SHARE_AT_FIRST,
            is_idle_mode: self.is_idle_mode(),
        }
    }
}

#[cfg(test)]
mod paper;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
