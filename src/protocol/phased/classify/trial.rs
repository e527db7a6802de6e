//! Whether splitting pays: what was just split is on trial, and is given up if the engine commits less than before.
//!
//! Conflicts say what costs, but not how much: a cache line that two processors of one chip share is handed over in the
//! time of a hundred instructions, and a call that waits for the joined phase is run twice. So the samples only propose;
//! what decides is the number of calls that commit in a second.
//!
//! What it keeps true: a trial ends within [`TRIAL`] and some phases, and needs [`WINDOWS`] windows of whole phases that
//! agree, so that one burst of other work on the machine condemns nothing. An engine that commits as it is asked to, and
//! not as fast as it can, commits as much with what was split as without, and keeps it.

use std::time::Duration;

use super::super::sample::RecordKey;

/// How long what was just split is observed.
const TRIAL: Duration = Duration::from_millis(200);
/// In how many parts; each must say the same.
const WINDOWS: usize = 2;
/// What was split is given up where the engine commits less than this share of what it did before.
const SHARE_MIN: f64 = 0.95;
/// The rate from before counts half after so long.
const HALF_LIFE: Duration = Duration::from_millis(100);
/// There is nothing to compare with before so much time was observed.
const KNOWN_AFTER: Duration = Duration::from_millis(15);
/// With fewer calls in a window chance decides: nothing is given up.
const CALLS_MIN: u64 = 1_000;

/// Calls in some time.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    calls: f64,
    seconds: f64,
}

impl Tally {
    fn add(&mut self, length: Duration, committed: u64) {
        self.calls += committed as f64;
        self.seconds += length.as_secs_f64();
    }

    fn rate(&self) -> f64 {
        self.calls / self.seconds
    }
}

/// The trial that is on, if one is, and what the engine commits otherwise.
#[derive(Default)]
pub(super) struct Trial {
    /// Of the last tenths of a second in which nothing was on trial.
    usual: Tally,
    on: Option<OnTrial>,
}

struct OnTrial {
    records: Vec<RecordKey>,
    /// Calls a second before.
    before: f64,
    window: Tally,
    /// Windows in which fewer calls committed than before.
    slower: usize,
}

/// How a trial has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Worth(Vec<RecordKey>),
    /// The engine commits less with these split.
    Slower(Vec<RecordKey>),
}

impl Trial {
    /// These records have just been split. Where a trial is on already it begins anew, with all of them.
    pub(super) fn begin(&mut self, records: Vec<RecordKey>) {
        if let Some(on) = &mut self.on {
            on.records.extend(records);
            (on.window, on.slower) = (Tally::default(), 0);
        } else if self.usual.seconds >= KNOWN_AFTER.as_secs_f64() {
            let before = self.usual.rate();
            self.on = Some(OnTrial { records, before, window: Tally::default(), slower: 0 });
        }
    }

    /// A record is not split any more, for another reason.
    pub(super) fn forget(&mut self, record: &RecordKey) {
        if let Some(on) = &mut self.on {
            on.records.retain(|other| other != record);
            if on.records.is_empty() {
                self.on = None;
            }
        }
    }

    /// So many calls have committed in this time. `is_whole`: a joined phase ends here, or nobody waits for one, so that
    /// the calls of the time before are all counted.
    pub(super) fn observe(&mut self, length: Duration, committed: u64, is_whole: bool) -> Option<Verdict> {
        let Some(on) = &mut self.on else {
            let remaining = (-length.as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2();
            self.usual.calls *= remaining;
            self.usual.seconds *= remaining;
            self.usual.add(length, committed);
            return None;
        };
        on.window.add(length, committed);
        let is_over = is_whole && on.window.seconds >= (TRIAL / WINDOWS as u32).as_secs_f64();
        if !is_over {
            return None;
        }
        let window = std::mem::take(&mut on.window);
        let enough = window.calls >= CALLS_MIN as f64;
        if enough && window.rate() < SHARE_MIN * on.before {
            on.slower += 1;
            if on.slower < WINDOWS {
                return None;
            }
        } else {
            on.slower = 0;
        }
        let (slower, records) = (on.slower > 0, std::mem::take(&mut on.records));
        self.on = None;
        if slower {
            return Some(Verdict::Slower(records));
        }
        self.usual = window;
        Some(Verdict::Worth(records))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::key::EncodedKey;

    const PHASE: Duration = Duration::from_millis(20);

    fn record(number: u8) -> RecordKey {
        RecordKey { table: 1, key: EncodedKey::from([number].as_slice()) }
    }

    /// Phases with so many calls each, up to the first verdict.
    fn phases(trial: &mut Trial, calls: &[u64]) -> Option<Verdict> {
        calls.iter().find_map(|&calls| trial.observe(PHASE, calls, true))
    }

    /// A trial of two records, after a while with 10,000 calls a phase.
    fn on_trial() -> Trial {
        let mut trial = Trial::default();
        assert_eq!(phases(&mut trial, &[10_000; 20]), None);
        trial.begin(vec![record(1), record(2)]);
        trial
    }

    #[test]
    fn what_makes_the_engine_slower_is_given_up_and_what_does_not_is_kept() {
        for (calls, verdict) in [
            (5_000, Verdict::Slower(vec![record(1), record(2)])),
            (9_300, Verdict::Slower(vec![record(1), record(2)])),
            (9_700, Verdict::Worth(vec![record(1), record(2)])),
            (30_000, Verdict::Worth(vec![record(1), record(2)])),
        ] {
            assert_eq!(phases(&mut on_trial(), &[calls; 12]), Some(verdict), "{calls} calls a phase");
        }
    }

    #[test]
    fn one_slow_window_condemns_nothing() {
        let mut calls = vec![2_000; 5];
        calls.extend([10_000; 5]);
        assert!(matches!(phases(&mut on_trial(), &calls), Some(Verdict::Worth(_))));
    }

    #[test]
    fn a_window_ends_only_where_all_calls_are_counted() {
        let mut trial = on_trial();
        // In split phases half of the calls wait; in the joined phases between they are all made up for.
        for _ in 0..20 {
            assert_eq!(trial.observe(5 * PHASE, 25_000, false), None);
            match trial.observe(PHASE, 35_000, true) {
                None => {}
                Some(verdict) => return assert!(matches!(verdict, Verdict::Worth(_))),
            }
        }
        unreachable!("a trial ends");
    }

    #[test]
    fn too_little_is_no_evidence() {
        let mut trial = Trial::default();
        phases(&mut trial, &[100; 20]);
        trial.begin(vec![record(1)]);
        assert!(matches!(phases(&mut trial, &[10; 12]), Some(Verdict::Worth(_))), "few calls");

        let mut trial = Trial::default();
        trial.observe(Duration::from_millis(10), 10_000, true);
        trial.begin(vec![record(1)]);
        assert_eq!(phases(&mut trial, &[100; 40]), None, "nothing to compare with, so no trial");
    }

    #[test]
    fn what_comes_to_it_begins_it_anew_and_what_leaves_is_not_judged() {
        let mut trial = on_trial();
        assert_eq!(phases(&mut trial, &[5_000; 9]), None);
        trial.begin(vec![record(3)]);
        assert_eq!(phases(&mut trial, &[5_000; 9]), None);
        trial.forget(&record(1));
        assert_eq!(phases(&mut trial, &[5_000]), Some(Verdict::Slower(vec![record(2), record(3)])));

        let mut trial = on_trial();
        trial.forget(&record(1));
        trial.forget(&record(2));
        assert_eq!(phases(&mut trial, &[5_000; 40]), None);
    }

    #[test]
    fn the_next_trial_is_compared_with_what_the_last_one_came_to() {
        let mut trial = on_trial();
        assert!(matches!(phases(&mut trial, &[20_000; 12]), Some(Verdict::Worth(_))));
        trial.begin(vec![record(3)]);
        assert_eq!(phases(&mut trial, &[15_000; 12]), Some(Verdict::Slower(vec![record(3)])));
    }
}
