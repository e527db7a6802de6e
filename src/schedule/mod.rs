//! Schedules: which worker's queue a call goes to.
//!
//! A schedule sees references and nothing else: it knows neither records nor protocols, and works above any protocol
//! that runs calls side by side. What it decides is advice: wherever a call runs, it is isolated.
//!
//! | file | what is there |
//! | --- | --- |
//! | `reference` | what a call says about the data, as numbers to count by |
//! | `policy` | the sixteen ways to weigh that |
//! | `history`, `state`, `slots` | what has been counted, in lock-free tables of a fixed size |
//! | `hot_key_cache` | of all that was counted, what leads to the most aborts, in a table that stays in the cache |
//! | `predict` | the decision, and what lets it run forever |
//! | `admission` | how many calls are let in at once |

pub(crate) mod admission;
mod history;
mod hot_key_cache;
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

/// Which worker's queue a call goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScheduleKind {
    /// To one after the other.
    #[default]
    Random,
    /// By the value of a key: calls with the same value go to the same queue.
    Partition,
    /// To where those wait with which it would probably conflict, as earlier aborts tell.
    Predict,
}

/// When `predict` forgets in which queues a reference was placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatePrune {
    /// Once the abort rate is stable, what is rare.
    #[default]
    Stable,
    /// What is rare, from the beginning.
    Direct,
    /// Never: only the bound on memory holds.
    Off,
}

/// The settings of `predict`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PredictSettings {
    pub(crate) policy: Policy,
    /// How long calls are placed at random at first.
    pub(crate) history: Duration,
    /// How long a History is used at least, before a fresh one replaces it.
    pub(crate) renew: Duration,
    pub(crate) prune: StatePrune,
    /// The memory of History and State.
    pub(crate) memory_bytes: usize,
}

/// What the schedule `predict` knows at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleReport {
    /// References of which it knows how often they led to aborts.
    pub history_references: u64,
    /// References of which it knows in which queues they were placed.
    pub state_references: u64,
    /// The memory that both take: it does not grow.
    pub bytes: u64,
    /// Whether it still places every call at random, to see what conflicts.
    pub is_filling: bool,
    /// Whether conflicts are so rare that it lets calls go to one queue after the other, and looks at a sample only.
    pub is_idle_mode: bool,
}

/// What a schedule wants to know of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Nothing.
    Nothing,
    /// The value of the key.
    Key,
    /// Its references.
    References(Form),
}

/// Where a call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The queue.
    pub(crate) queue: usize,
    /// What the call conflicts about with those that have the same, if it overlaps with them; 0: probably about nothing.
    pub(crate) conflict_class: u64,
    /// Whether it had better wait than overlap with them.
    pub(crate) apart: bool,
    /// Whether the schedule needs the call's outcome.
    pub(crate) noted: bool,
}

/// The schedule of a database.
pub(crate) enum Schedule {
    /// Threads that place calls use the queues in turn.
    Random,
    /// By the value of a key, for this many queues.
    Partition(usize),
    /// By what is known of conflicts.
    Predict(Box<Predict>),
}

impl Schedule {
    /// The schedule of this kind for this many queues.
    pub(crate) fn new(kind: ScheduleKind, settings: PredictSettings, queues: usize) -> Schedule {
        match kind {
            ScheduleKind::Random => Schedule::Random,
            ScheduleKind::Partition => Schedule::Partition(queues),
            ScheduleKind::Predict => Schedule::Predict(Box::new(Predict::new(settings, queues))),
        }
    }

    /// What it wants to know of a call before it can place it.
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
        // An integer is its own number: neighbors go to neighboring queues, and N keys fill N queues.
        let queue = (key.0 % *queues as u64) as usize;
        Some(Placement { queue, conflict_class: key.0.wrapping_add(1), apart: false, noted: false })
    }

    /// The queue of a call with these references.
    #[inline]
    pub(crate) fn place(&self, references: &References) -> Option<Placement> {
        let Schedule::Predict(predict) = self else { return None };
        Some(predict.place(references))
    }

    /// A call that was to be noted has ended, after this many aborted attempts.
    pub(crate) fn ended(&self, references: &References, aborts: u32) {
        if let Schedule::Predict(predict) = self {
            predict.ended(references, aborts);
        }
    }

    /// Looks after what it knows; to be called every tenth of a second or so. Whether it has just begun to know something,
    /// so that the calls that wait had better be placed once more.
    pub(crate) fn keep_up(&self, observation: Observation) -> bool {
        match self {
            Schedule::Predict(predict) => predict.keep_up(observation),
            Schedule::Random | Schedule::Partition(_) => false,
        }
    }

    /// Deals what has placed calls until now out to the queues, so that each would have got about as many.
    pub(crate) fn deal_out(&self) {
        if let Schedule::Predict(predict) = self {
            predict.deal_out();
        }
    }

    /// Whether it has something to look after.
    pub(crate) fn needs_upkeep(&self) -> bool {
        matches!(self, Schedule::Predict(_))
    }

    /// What it knows, if it knows anything.
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
    fn each_schedule_wants_what_it_places_by() {
        let schedule = |kind| Schedule::new(kind, settings(), 4);
        assert_eq!(schedule(ScheduleKind::Random).wanted(), Wanted::Nothing);
        assert_eq!(schedule(ScheduleKind::Partition).wanted(), Wanted::Key);
        assert_eq!(schedule(ScheduleKind::Predict).wanted(), Wanted::References(Policy::default().form()));
        let (random, none) = (schedule(ScheduleKind::Random), References::default());
        assert_eq!(
            (random.place(&none), random.place_by_key(Scalar(7)), random.report()),
            (None, None, None)
        );
        assert!(!random.needs_upkeep() && schedule(ScheduleKind::Predict).needs_upkeep());
    }

    #[test]
    fn keys_are_dealt_to_the_queues_and_stay_there() {
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
