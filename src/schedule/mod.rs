//! Schedules: the choice of the worker's queue in which a call is placed.
//!
//! A schedule sees only references: it knows neither records nor protocols, and works with any protocol that runs
//! transactions concurrently. Its placement affects performance only: a call is isolated in any queue.
//!
//! | file | what is there |
//! | --- | --- |
//! | `reference` | references: the column values that a call names, hashed to integers |
//! | `policy` | the sixteen scoring policies |
//! | `history`, `state`, `slots` | aborts and placements of each reference, in lock-free tables of a fixed size |
//! | `hot_key_cache` | the references with the most aborts, in a table small enough for the CPU cache |
//! | `predict` | the placement decision, and its periodic maintenance |
//! | `in_force` | the schedule in force, which another one can replace |
//! | `admission` | how many calls are admitted at once |

pub(crate) mod admission;
mod history;
mod hot_key_cache;
pub(crate) mod in_force;
mod policy;
mod predict;
pub(crate) mod reference;
mod slots;
mod state;

use std::time::Duration;

pub use policy::{ConflictCounts, Deciding, Naming, Policy, Slicing};
pub(crate) use predict::Observation;
use predict::Predict;
use reference::{Form, References, Scalar};

/// The schedule, which chooses the worker's queue for a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScheduleKind {
    /// Queues take turns (round robin).
    #[default]
    Random,
    /// Calls with the same value of a key are placed in the same queue.
    Partition,
    /// A call is placed in the queue of the calls with which it would probably conflict, as predicted from earlier
    /// aborts.
    Predict,
}

impl ScheduleKind {
    /// Returns true if it learns from the calls that have ended, which takes upkeep.
    pub(crate) fn learns(self) -> bool {
        self == ScheduleKind::Predict
    }
}

/// The time at which `predict` forgets in which queues a reference was placed (the paper's State pruning).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatePrune {
    /// Rare references are pruned once the abort rate is stable.
    #[default]
    Stable,
    /// Rare references are pruned from the beginning.
    Direct,
    /// Never: only the memory limit applies.
    Off,
}

/// The settings of `predict`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PredictSettings {
    pub(crate) policy: Policy,
    /// Time after the first call in which calls are placed at random, to fill the first History.
    pub(crate) history: Duration,
    /// The minimum time before a new History replaces the current one.
    pub(crate) renew: Duration,
    pub(crate) prune: StatePrune,
    /// The memory for History, State and hot-key cache.
    pub(crate) memory_bytes: usize,
}

/// The state of the schedule `predict` at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleReport {
    /// The number of references in the History, with counts of aborts.
    pub history_references: u64,
    /// The number of references in the State, with counts of placements.
    pub state_references: u64,
    /// The memory of the schedule's tables, in bytes: it does not grow.
    pub bytes: u64,
    /// True while it still places every call at random, to learn which references conflict.
    pub is_filling: bool,
    /// True while conflicts are so rare that queues take turns, and only a sample of calls is examined.
    pub is_idle_mode: bool,
}

/// The part of a call that a schedule needs to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Nothing.
    Nothing,
    /// The value of its partition key.
    Key,
    /// Its references.
    References(Form),
}

/// The placement of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The queue.
    pub(crate) queue: usize,
    /// Calls of one class probably conflict with each other if they overlap; 0: probably no conflict.
    pub(crate) conflict_class: u64,
    /// True if the call should wait rather than overlap with calls of its class.
    pub(crate) apart: bool,
    /// True if the outcome must be reported to [`Schedule::ended`].
    pub(crate) noted: bool,
}

/// The schedule of a database.
pub(crate) enum Schedule {
    /// Queues take turns (round robin).
    Random,
    /// Placement by the value of a key, over this many queues.
    Partition(usize),
    /// Placement by predicted conflicts.
    Predict(Box<Predict>),
}

impl Schedule {
    /// Makes a schedule of this kind for this many queues.
    pub(crate) fn new(kind: ScheduleKind, settings: PredictSettings, queues: usize) -> Schedule {
        match kind {
            ScheduleKind::Random => Schedule::Random,
            ScheduleKind::Partition => Schedule::Partition(queues),
            ScheduleKind::Predict => Schedule::Predict(Box::new(Predict::new(settings, queues))),
        }
    }

    /// Its kind.
    pub(crate) fn kind(&self) -> ScheduleKind {
        match self {
            Schedule::Random => ScheduleKind::Random,
            Schedule::Partition(_) => ScheduleKind::Partition,
            Schedule::Predict(_) => ScheduleKind::Predict,
        }
    }

    /// Forgets what it has learned: it is put in force.
    fn begin_again(&self) {
        if let Schedule::Predict(predict) = self {
            predict.begin_again();
        }
    }

    /// The part of a call that it needs to place it.
    #[inline]
    pub(crate) fn wanted(&self) -> Wanted {
        match self {
            Schedule::Random => Wanted::Nothing,
            Schedule::Partition(_) => Wanted::Key,
            Schedule::Predict(predict) if !predict.looks() => Wanted::Nothing,
            Schedule::Predict(predict) => Wanted::References(predict.policy().form()),
        }
    }

    /// The queue of a call whose key has this value.
    pub(crate) fn place_by_key(&self, key: Scalar) -> Option<Placement> {
        let Schedule::Partition(queues) = self else { return None };
        // Integers are not hashed: adjacent keys go to adjacent queues, so N consecutive keys fill N queues evenly.
        let queue = (key.0 % *queues as u64) as usize;
        Some(Placement { queue, conflict_class: key.0.wrapping_add(1), apart: false, noted: false })
    }

    /// The queue of a call with these references.
    #[inline]
    pub(crate) fn place(&self, references: &References) -> Option<Placement> {
        let Schedule::Predict(predict) = self else { return None };
        Some(predict.place(references))
    }

    /// Reports that a call whose placement is `noted` has ended, after this many aborted attempts.
    pub(crate) fn ended(&self, references: &References, aborts: u32) {
        if let Schedule::Predict(predict) = self {
            predict.ended(references, aborts);
        }
    }

    /// Runs periodic maintenance; called about ten times a second. Returns true when the policy starts to decide, so that
    /// waiting calls should be placed again.
    pub(crate) fn maintain(&self, observation: Observation) -> bool {
        match self {
            Schedule::Predict(predict) => predict.maintain(observation),
            Schedule::Random | Schedule::Partition(_) => false,
        }
    }

    /// Redistributes the references that have decided placements, so that all queues receive about equally many calls.
    pub(crate) fn distribute(&self) {
        if let Schedule::Predict(predict) = self {
            predict.distribute();
        }
    }

    /// The state of `predict`; `None` for other schedules.
    pub(crate) fn report(&self) -> Option<ScheduleReport> {
        match self {
            Schedule::Predict(predict) => Some(predict.report()),
            Schedule::Random | Schedule::Partition(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> PredictSettings {
        PredictSettings {
            policy: Policy::default(),
            history: Duration::ZERO,
            renew: Duration::from_secs(30),
            prune: StatePrune::Stable,
            memory_bytes: 1 << 20,
        }
    }

    #[test]
    fn each_schedule_asks_for_what_it_places_by() {
        let schedule = |kind| Schedule::new(kind, settings(), 4);
        assert_eq!(schedule(ScheduleKind::Random).wanted(), Wanted::Nothing);
        assert_eq!(schedule(ScheduleKind::Partition).wanted(), Wanted::Key);
        assert_eq!(schedule(ScheduleKind::Predict).wanted(), Wanted::References(Policy::default().form()));
        let (random, none) = (schedule(ScheduleKind::Random), References::default());
        assert_eq!(
            (random.place(&none), random.place_by_key(Scalar(7)), random.report()),
            (None, None, None)
        );
    }

    #[test]
    fn a_key_is_always_placed_in_the_same_queue() {
        let schedule = Schedule::new(ScheduleKind::Partition, settings(), 19);
        let queue = |key| schedule.place_by_key(Scalar::of_int(key)).map(|placement| placement.queue);
        let mut all: Vec<_> = (1..=19).map(queue).collect();
        assert_eq!(queue(7), all[6]);
        all.sort_unstable();
        assert!(all.into_iter().eq((0..19).map(Some)), "as many keys as queues: one each");
        assert!(queue(-5).is_some_and(|queue| queue < 19));
    }

    #[test]
    fn predict_reports_memory_within_its_bound() {
        let schedule = Schedule::new(ScheduleKind::Predict, settings(), 4);
        let report = schedule.report().expect("it knows something");
        assert!(report.bytes > 0 && report.bytes <= 1 << 20, "{report:?}");
        assert_eq!((report.history_references, report.state_references), (0, 0));
    }
}
