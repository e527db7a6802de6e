//! `predict`: places a call in the queue where those wait with which it would probably conflict (Zhang, Tomasic, Pavlo).
//!
//! A call's references are looked up: the History says how much each leads to aborts, the State how often it was placed
//! in each queue. Conflict counts times placements, summed over the references that decide, is a queue's score; the
//! queue with the highest gets the call. Where nothing is known, and between equal scores, it is the queue with the
//! smallest total of references, and then the lowest (the paper's default). docs/decisions has what the paper leaves open.
//!
//! A call costs a lookup in the hot-key cache for each of its references, and one into the State for what decides;
//! where the cache cannot decide, one into the State for each, beside which the History's conflict counts are copied.
//! Where conflicts are rare, it costs a read of a flag ([`idle`]). Nothing here waits: several threads place at once,
//! workers report what has ended, and [`maintenance`](Predict::keep_up) runs beside them.

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
pub(crate) use maintenance::Observation;
use maintenance::Upkeep;

/// One of this many calls is placed at random for the History, while the abort rate is stable.
const SHARE_WHILE_STABLE: u32 = 1_024;
/// And while it is not.
const SHARE_WHILE_CHANGING: u32 = 256;
/// All of them.
const SHARE_AT_FIRST: u32 = 1;
/// The History's part of the memory: one of this many.
const HISTORY_PART: usize = 4;
/// The hot-key cache's part.
const LEADERS_PART: usize = 16;

type Scores = SmallVec<[f64; 32]>;

/// The schedule.
pub(crate) struct Predict {
    policy: Policy,
    history: History,
    state: State,
    hot_key_cache: HotKeyCache,
    /// One of this many calls is placed at random.
    share: AtomicU32,
    /// Whether a call has come.
    begun: AtomicBool,
    /// Whether conflicts are so rare that calls are not looked at.
    idle: AtomicBool,
    upkeep: Mutex<Upkeep>,
}

impl Predict {
    /// For this many queues.
    pub(crate) fn new(settings: PredictSettings, queues: usize) -> Predict {
        let of_history = settings.memory_bytes / HISTORY_PART;
        let hot_key_cache = HotKeyCache::new(settings.memory_bytes / LEADERS_PART);
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
            upkeep: Mutex::new(Upkeep::new(settings, state.places(), queues)),
            state,
        }
    }

    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    /// Whether the next call had better be looked at: where conflicts are rare, only one of the sample is.
    #[inline]
    pub(crate) fn looks(&self) -> bool {
        !self.is_idle_mode() || random::below(SHARE_WHILE_STABLE) == 0
    }

    /// Whether conflicts are so rare that knowing them would cost more than it saves.
    #[inline]
    fn is_idle_mode(&self) -> bool {
        // Relaxed: a thread that still sees the old mode places a few calls more by it.
        self.idle.load(Ordering::Relaxed)
    }

    /// Chooses a call's queue.
    #[inline]
    pub(crate) fn place(&self, references: &References) -> Placement {
        // Relaxed, here and below: the upkeep looks again and again; a later look is as good.
        if !self.begun.load(Ordering::Relaxed) {
            self.begun.store(true, Ordering::Relaxed);
        }
        let share = self.share.load(Ordering::Relaxed);
        // In idle mode only what belongs to the sample comes here.
        if self.is_idle_mode() || random::below(share) == 0 {
            let queue = random::below(self.state.queues() as u32) as usize;
            return Placement { queue, conflict_class: 0, apart: false, noted: true };
        }
        self.decide(references)
    }

    /// Chooses by the policy, and remembers it. What the call conflicts about is the reference that has decided, if calls
    /// with it are rivals.
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

    /// What there is to know of a call's references: of the hot-key cache alone, if that is enough to decide, and all
    /// are not counted this time; or else of all.
    #[inline]
    fn find(&self, references: &References, others: u32) -> AllFound {
        let all = references.as_slice();
        let hot_key_cache = if self.policy.is_led() { self.hot_key_cache.look(all) } else { None };
        if others > 0 || hot_key_cache.is_none() {
            // All are asked for before the first is looked at, so that it is waited for memory once, not once for each.
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

    /// The score of each queue, where all references decide.
    fn sums(&self, all: &AllFound) -> Scores {
        let mut scores = Scores::from_elem(0.0, self.state.queues());
        all.iter().for_each(|found| self.weigh(found, &mut scores));
        scores
    }

    /// The score of each queue, where this reference decides.
    fn scores_of(&self, decider: &Found) -> Scores {
        let mut scores = Scores::from_elem(0.0, self.state.queues());
        self.weigh(decider, &mut scores);
        scores
    }

    /// Adds a reference's conflict count times its placements.
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
    /// Counts that differ by no more than chance would have it are ties, which the paper breaks arbitrarily: here the
    /// reference wins that the call names most often. So a call that looks into one warehouse at the end goes to the
    /// one where it does the rest.
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

    /// The queue with the highest score; of several, the one with the smallest total, and of these the lowest.
    fn best(&self, scores: &Scores) -> usize {
        let highest = scores.iter().copied().fold(0.0, f64::max);
        let highest = scores.iter().enumerate().filter(|(_, score)| **score >= highest);
        highest.map(|(queue, _)| queue).min_by_key(|queue| self.state.total(*queue)).unwrap_or(0)
    }

    /// The queue with the smallest total; of several, the lowest.
    fn emptiest(&self) -> usize {
        (0..self.state.queues()).min_by_key(|queue| self.state.total(*queue)).unwrap_or(0)
    }

    /// A call that was placed at random has ended, after this many aborted attempts.
    pub(crate) fn ended(&self, references: &References, aborts: u32) {
        self.history.note(references.as_slice(), aborts);
    }

    /// Copies into hot-key cache and State what the History knows now.
    fn learn(&self) {
        if self.policy.is_led() {
            self.hot_key_cache.learn(&self.history);
        }
        self.state.learn(&self.history);
    }

    /// Looks after History and State: to be called every tenth of a second or so, from one thread.
    /// Whether the policy decides from now on, and did not before.
    pub(crate) fn keep_up(&self, observation: Observation) -> bool {
        self.upkeep.lock().keep_up(self, observation)
    }

    /// Deals the references that have decided until now out to the queues.
    pub(crate) fn deal_out(&self) {
        if self.policy.deciding == Deciding::Max {
            self.upkeep.lock().deal_out(self);
        }
    }

    /// What is there now.
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
