//! The schedules of a database: one is in force, and another one can take its place while calls are placed.
//!
//! Each schedule is one object, built when it is first needed and kept from then on, so that a thread that is placing a call by one
//! that has just been replaced needs no protection: its placement is advice.
//!
//! Invariants: a schedule that is put in force again has forgotten what it had learned, because the calls may be others by then.

use std::sync::OnceLock;

use super::{PredictSettings, Schedule, ScheduleKind};
use crate::base::atomics::{AtomicUsize, Ordering};

/// The number of kinds of schedules.
const KINDS: usize = 3;

/// The schedules of a database, each at the place of its kind.
pub(crate) struct Schedules {
    settings: PredictSettings,
    queues: usize,
    built: [OnceLock<Schedule>; KINDS],
    in_force: AtomicUsize,
}

impl Schedules {
    /// The schedules for this many queues, of which this one is in force.
    pub(crate) fn new(first: ScheduleKind, settings: PredictSettings, queues: usize) -> Schedules {
        let built = [const { OnceLock::new() }; KINDS];
        let schedules = Schedules { settings, queues, built, in_force: AtomicUsize::new(0) };
        schedules.put_in_force(first);
        schedules
    }

    /// The schedule in force.
    #[inline]
    pub(crate) fn get(&self) -> &Schedule {
        // Relaxed: `OnceLock` publishes what it holds, and a placement by the schedule before is as good.
        let place = self.in_force.load(Ordering::Relaxed) % KINDS;
        // It was built before it was put in force, so the function is not called.
        self.built[place].get_or_init(|| Schedule::new(ScheduleKind::default(), self.settings, self.queues))
    }

    /// Puts another schedule in force.
    pub(crate) fn put_in_force(&self, kind: ScheduleKind) {
        let place = kind as usize % KINDS;
        let build = || Schedule::new(kind, self.settings, self.queues);
        self.built[place].get_or_init(build).begin_again();
        // Relaxed: as in `get`.
        self.in_force.store(place, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::schedule::reference::{Attribute, Collector, Form, References, Scalar, Term};
    use crate::schedule::{Observation, Policy, StatePrune};

    fn settings(history: Duration) -> PredictSettings {
        PredictSettings {
            policy: Policy::default(),
            history,
            renew: Duration::from_secs(30),
            prune: StatePrune::Stable,
            memory_bytes: 1 << 20,
        }
    }

    #[test]
    fn every_kind_can_be_put_in_force_and_is_built_once() {
        let schedules = Schedules::new(ScheduleKind::Partition, settings(Duration::ZERO), 4);
        assert_eq!(schedules.get().kind(), ScheduleKind::Partition);
        let addresses: Vec<*const Schedule> = ScheduleKind::ALL
            .iter()
            .map(|kind| {
                schedules.put_in_force(*kind);
                assert_eq!(schedules.get().kind(), *kind);
                std::ptr::from_ref(schedules.get())
            })
            .collect();
        assert_eq!(addresses.len(), KINDS);
        for (kind, address) in ScheduleKind::ALL.iter().zip(addresses) {
            schedules.put_in_force(*kind);
            assert!(std::ptr::eq(schedules.get(), address));
        }
    }

    #[test]
    fn what_is_put_in_force_again_learns_from_the_beginning() {
        let schedules = Schedules::new(ScheduleKind::Predict, settings(Duration::from_secs(1)), 2);
        let form = Form { canonical: true, whole: false };
        let mut references = References::default();
        let mut collector = Collector::new(form, &mut references);
        collector.condition(Attribute::named(&["counter", "id"]), Term::Equal(Scalar::of_int(7)));
        collector.end_conjunction();
        let is_filling = || schedules.get().report().map(|report| report.is_filling);
        let see = |seconds| {
            let at = Duration::from_secs(seconds);
            schedules.get().maintain(Observation { at, committed: 0, aborted: 0 })
        };
        for begins in [1, 100] {
            schedules.put_in_force(ScheduleKind::Random);
            schedules.put_in_force(ScheduleKind::Predict);
            assert_eq!(is_filling(), Some(true), "what it knew is forgotten");
            for _ in 0..1_000 {
                let placement = schedules.get().place(&references).expect("a queue");
                assert!(placement.noted, "a call of the first History");
                schedules.get().ended(&references, 3);
            }
            assert!(!see(begins), "the time is not over");
            assert!(see(begins + 2), "the policy decides");
            assert_eq!(is_filling(), Some(false));
        }
    }
}
