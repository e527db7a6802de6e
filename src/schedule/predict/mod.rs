//! `predict`: places a call in the queue where those wait with which it would probably conflict (Zhang, Tomasic, Pavlo).
//!
//! A call's references are looked up: the History says how much each leads to aborts, the State how often it was placed
//! in each queue. Evidence times placements, summed over the references that decide, is a queue's score; the queue with
//! the highest gets the call. Where nothing is known, and between equal scores, it is the queue with the smallest total
//! of references, and then the lowest (the paper's default). docs/decisions has what the paper leaves open.
//!
//! A call costs one look into each structure for each of its references. Nothing here waits: several threads place at
//! once, workers report what has ended, and [`upkeep`](Predict::keep_up) works beside them.

mod upkeep;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use smallvec::SmallVec;

use crate::base::atomics::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::base::random;
use crate::schedule::history::{History, Outcomes, may_be_chance};
use crate::schedule::policy::{Deciding, Evidence, Policy};
use crate::schedule::reference::{Reference, References};
use crate::schedule::state::{Places, State};
use crate::schedule::{Placement, PredictSettings, ScheduleReport};
pub(crate) use upkeep::Observation;
use upkeep::Upkeep;

/// One of so many calls is placed at random for the History, while the abort rate is stable.
const SHARE_WHILE_STABLE: u32 = 256;
/// And while it is not.
const SHARE_WHILE_CHANGING: u32 = 64;
/// All of them.
const SHARE_AT_FIRST: u32 = 1;
/// The History's part of the memory: one of so many.
const HISTORY_PART: usize = 4;

type Scores = SmallVec<[f64; 32]>;

/// The schedule.
pub(crate) struct Predict {
    policy: Policy,
    history: History,
    state: State,
    /// One of so many calls is placed at random.
    share: AtomicU32,
    /// Whether a call has come.
    begun: AtomicBool,
    /// For each queue, how many calls the policy has placed there.
    placed: Box<[CachePadded<AtomicU64>]>,
    upkeep: Mutex<Upkeep>,
}

impl Predict {
    /// For so many queues.
    pub(crate) fn new(settings: PredictSettings, queues: usize) -> Predict {
        let of_history = settings.memory_bytes / HISTORY_PART;
        let state = State::new(queues, settings.memory_bytes - of_history);
        let at_once = settings.history.is_zero();
        let history = History::new(of_history);
        if at_once {
            history.fill_apart();
        }
        Predict {
            policy: settings.policy,
            history,
            share: AtomicU32::new(if at_once { SHARE_WHILE_CHANGING } else { SHARE_AT_FIRST }),
            begun: AtomicBool::new(false),
            placed: (0..queues).map(|_| CachePadded::new(AtomicU64::new(0))).collect(),
            upkeep: Mutex::new(Upkeep::new(settings, state.places(), queues)),
            state,
        }
    }

    pub(crate) fn policy(&self) -> Policy {
        self.policy
    }

    /// Chooses a call's queue.
    #[inline]
    pub(crate) fn place(&self, references: &References) -> Placement {
        // Relaxed, here and below: the upkeep looks again and again; a later look is as good.
        if !self.begun.load(Ordering::Relaxed) {
            self.begun.store(true, Ordering::Relaxed);
        }
        let share = self.share.load(Ordering::Relaxed);
        if random::below(share) == 0 {
            let queue = random::below(self.state.queues() as u32) as usize;
            return Placement { queue, rivalry: 0, noted: true };
        }
        let (queue, rivalry) = self.decide(references);
        Placement { queue, rivalry, noted: false }
    }

    /// Chooses by the policy, and remembers it. Gives the queue, and the reference that has decided; 0, if none has alone.
    fn decide(&self, references: &References) -> (usize, Reference) {
        let places: Places =
            references.as_slice().iter().map(|reference| self.state.place(*reference)).collect();
        let (scores, decider) = self.score(references, &places);
        let queue = self.best(&scores);
        self.state.add(&places, queue, decider);
        self.placed[queue].fetch_add(1, Ordering::Relaxed);
        (queue, decider.and_then(|place| self.state.owner(place)).unwrap_or(0))
    }

    /// The score of each queue, and the place of the reference that decides if it is one alone.
    fn score(&self, references: &References, places: &Places) -> (Scores, Option<usize>) {
        let mut scores = Scores::from_elem(0.0, self.state.queues());
        let evidence = self.policy.evidence;
        let mut add = |place: usize, weight: f64| {
            for (score, count) in scores.iter_mut().zip(self.state.counts(place)) {
                *score += weight * f64::from(count);
            }
        };
        let decider = match self.policy.deciding {
            Deciding::Sum => {
                for (reference, place) in references.as_slice().iter().zip(places) {
                    if let (Some(outcomes), Some(place)) = (self.known(*reference), place) {
                        add(*place, outcomes.weight(evidence));
                    }
                }
                None
            }
            Deciding::Max => {
                let (outcomes, number) = self.strongest(references);
                let place = places.get(number).copied().flatten();
                place.into_iter().for_each(|place| add(place, outcomes.weight(evidence)));
                place.filter(|_| outcomes.aborts > 0)
            }
        };
        (scores, decider)
    }

    /// What is known of a reference that has led to aborts.
    #[inline]
    fn known(&self, reference: Reference) -> Option<Outcomes> {
        self.history.get(reference).filter(|outcomes| outcomes.aborts > 0)
    }

    /// The reference with the most evidence, and its number; nothing, if none has any.
    ///
    /// Counts that differ by no more than chance would have it are ties, which the paper breaks arbitrarily: here the
    /// reference wins that the call names most often. So a call that looks into one warehouse at the end goes to the
    /// one where it does the rest.
    fn strongest(&self, references: &References) -> (Outcomes, usize) {
        let known: SmallVec<[Option<Outcomes>; 32]> =
            references.as_slice().iter().map(|reference| self.known(*reference)).collect();
        let evidence = self.policy.evidence;
        let most = known.iter().flatten().map(|outcomes| outcomes.aborts).max().unwrap_or(0);
        let mut best = (Outcomes::default(), 0);
        let mut best_rank = (0, 0.0, 0.0);
        for (number, outcomes) in known.iter().enumerate() {
            let Some(outcomes) = outcomes else { continue };
            let times = match evidence {
                Evidence::Count if !may_be_chance(outcomes.aborts, most) => continue,
                Evidence::Count => references.times()[number],
                Evidence::Fraction => 0,
            };
            let rank = (times, outcomes.weight(evidence), outcomes.fraction());
            if rank > best_rank {
                (best, best_rank) = ((*outcomes, number), rank);
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

    /// A call that was placed at random has ended, after so many attempts were aborted.
    pub(crate) fn ended(&self, references: &References, aborts: u32) {
        self.history.note(references.as_slice(), aborts);
    }

    /// Looks after History and State: to be called every tenth of a second or so, from one thread.
    pub(crate) fn keep_up(&self, observation: Observation) {
        self.upkeep.lock().keep_up(self, observation);
    }

    /// What is there now.
    pub(crate) fn report(&self) -> ScheduleReport {
        ScheduleReport {
            history_references: self.history.references() as u64,
            state_references: self.state.references() as u64,
            bytes: (self.history.bytes() + self.state.bytes()) as u64,
            is_filling: self.share.load(Ordering::Relaxed) == SHARE_AT_FIRST,
        }
    }
}

#[cfg(test)]
mod paper;
#[cfg(test)]
mod tests;
