//! Trials of splits: a column that was just split is released if the engine commits more without the split.
//!
//! Conflicts say what costs, but not how much: a cache line that two processors of one chip share is transferred in the
//! time of a hundred instructions, and a call that waits for the joined phase is run twice. So the samples only propose;
//! what decides is the number of calls that commit in a second, with and without, in turns:
//!
//! ```text
//! split ─► as before ─► split ─► as before ─► … ─► most rounds say the same: released, or on trial again some day
//! ```
//!
//! Invariants: parts end only where all calls of the time before are counted; and one burst of other work on the
//! machine decides nothing. An engine that commits as it is asked to, and not as fast as it can, commits as much with
//! what was split as without, and keeps it.

use std::time::Duration;

use super::super::sample::RecordKey;

/// The length of the part of a round with the records split.
const SPLIT_PART: Duration = Duration::from_millis(60);
/// The length of the part without: hardly noticed where splitting doubles the rate.
const CONTROL_PART: Duration = Duration::from_millis(30);
/// The number of rounds with one result that decide.
const ROUNDS: u32 = 3;
/// The share of the rate without the split below which the split is released.
const SHARE_MIN: f64 = 0.95;
/// The number of calls in a part below which chance decides: such a round speaks for the split.
const CALLS_MIN: u64 = 300;
/// Time after which a record that has passed its trial is put on trial again: rivals change.
const AGAIN_AFTER: Duration = Duration::from_secs(10);

/// The trial that is on, if one is.
#[derive(Default)]
pub(super) struct Trial {
    on: Option<OnTrial>,
    /// The time since the last one.
    quiet: Duration,
}

#[derive(Default)]
struct OnTrial {
    records: Vec<RecordKey>,
    /// Calls per second in the round's first part, if that is over.
    split: Option<f64>,
    /// The length of the part that is on.
    length: Duration,
    committed: u64,
    /// Rounds that spoke against what is split, and for it.
    slower: u32,
    worth: u32,
}

/// The outcome of a trial.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Worth(Vec<RecordKey>),
    /// The engine commits more without these split.
    Slower(Vec<RecordKey>),
}

impl Trial {
    /// Begins a trial of these records, which have just been split. Where a trial is on already it begins again, with
    /// all of them.
    pub(super) fn begin(&mut self, mut records: Vec<RecordKey>) {
        if let Some(on) = self.on.take() {
            records.extend(on.records);
        }
        self.on = (!records.is_empty()).then(|| OnTrial { records, ..OnTrial::default() });
        self.quiet = Duration::ZERO;
    }

    /// Returns true if something is on trial.
    pub(super) fn is_on(&self) -> bool {
        self.on.is_some()
    }

    /// Returns true if everything that is split should be on trial again.
    pub(super) fn is_due(&self) -> bool {
        self.on.is_none() && self.quiet >= AGAIN_AFTER
    }

    /// Returns true if this record is not split for the moment, to see how the engine does without.
    pub(super) fn suspends(&self, record: &RecordKey) -> bool {
        self.on.as_ref().is_some_and(|on| on.split.is_some() && on.records.contains(record))
    }

    /// Forgets a record that is not split any more, for another reason.
    pub(super) fn forget(&mut self, record: &RecordKey) {
        if let Some(on) = &mut self.on {
            on.records.retain(|other| other != record);
            if on.records.is_empty() {
                self.on = None;
            }
        }
    }

    /// Notes that this many calls have committed in this time. `is_whole`: a joined phase ends here, or no thread waits
    /// for one, so that the calls of the time before are all counted.
    pub(super) fn observe(&mut self, length: Duration, committed: u64, is_whole: bool) -> Option<Verdict> {
        let Some(on) = &mut self.on else {
            self.quiet += length;
            return None;
        };
        on.length += length;
        on.committed += committed;
        let wanted = if on.split.is_some() { CONTROL_PART } else { SPLIT_PART };
        if !is_whole || on.length < wanted {
            return None;
        }
        let (length, calls) = (std::mem::take(&mut on.length), std::mem::take(&mut on.committed));
        let rate = calls as f64 / length.as_secs_f64();
        let Some(split) = on.split.take() else {
            on.split = Some(rate);
            return None;
        };
        let is_slower = calls >= CALLS_MIN && split < SHARE_MIN * rate;
        *(if is_slower { &mut on.slower } else { &mut on.worth }) += 1;
        let verdict = match (on.slower >= ROUNDS, on.worth >= ROUNDS) {
            (false, false) => return None,
            (true, _) => Verdict::Slower,
            (_, true) => Verdict::Worth,
        };
        self.on.take().map(|on| verdict(on.records))
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

    fn on_trial() -> Trial {
        let mut trial = Trial::default();
        trial.begin(vec![record(1), record(2)]);
        trial
    }

    /// Rounds with this many calls in each phase of their two parts, up to a verdict.
    fn tried(trial: &mut Trial, rounds: &[(u64, u64)]) -> Option<Verdict> {
        for &(with, without) in rounds {
            for (part, calls, phases) in [(0, with, 3), (1, without, 2)] {
                for _ in 0..phases {
                    assert_eq!(trial.suspends(&record(2)), part == 1);
                    assert!(!trial.suspends(&record(7)), "it was split before");
                    if let Some(verdict) = trial.observe(PHASE, calls, true) {
                        return Some(verdict);
                    }
                }
            }
        }
        None
    }

    #[test]
    fn a_split_that_makes_the_engine_slower_is_undone_and_others_are_kept() {
        for (calls, slower) in [(5_000, true), (9_300, true), (9_700, false), (30_000, false)] {
            let records = vec![record(1), record(2)];
            let expected = if slower { Verdict::Slower(records) } else { Verdict::Worth(records) };
            assert_eq!(
                tried(&mut on_trial(), &[(calls, 10_000); 3]),
                Some(expected),
                "{calls} calls a phase"
            );
        }
    }

    #[test]
    fn most_rounds_decide() {
        let (slow, fast) = ((5_000, 10_000), (20_000, 10_000));
        let worth = |rounds: &[(u64, u64)]| {
            tried(&mut on_trial(), rounds).map(|verdict| matches!(verdict, Verdict::Worth(_)))
        };
        assert_eq!(worth(&[slow, fast, slow, fast]), None);
        assert_eq!(worth(&[slow, fast, slow, fast, fast]), Some(true));
        assert_eq!(worth(&[slow, fast, slow, fast, slow]), Some(false));
    }

    #[test]
    fn few_calls_are_no_evidence() {
        assert!(matches!(tried(&mut on_trial(), &[(10, 100); 3]), Some(Verdict::Worth(_))));
    }

    #[test]
    fn a_part_ends_only_where_all_calls_are_counted() {
        let mut trial = on_trial();
        let mut verdict = None;
        for _ in 0..3 {
            // Half of the calls wait in split phases; in the joined phases between they are all made up for.
            for _ in 0..4 {
                assert_eq!(trial.observe(PHASE, 5_000, false), None);
                assert!(!trial.suspends(&record(1)));
            }
            assert_eq!(trial.observe(PHASE, 30_000, true), None);
            assert!(trial.suspends(&record(1)));
            verdict = trial.observe(2 * PHASE, 20_000, true);
        }
        assert_eq!(verdict, Some(Verdict::Worth(vec![record(1), record(2)])));
    }

    #[test]
    fn a_column_that_joins_restarts_the_trial_and_one_that_leaves_is_not_judged() {
        let mut trial = on_trial();
        assert_eq!(tried(&mut trial, &[(5_000, 10_000); 2]), None);
        trial.begin(vec![record(3)]);
        trial.forget(&record(1));
        assert_eq!(tried(&mut trial, &[(5_000, 10_000); 2]), None);
        let verdict = tried(&mut trial, &[(5_000, 10_000)]);
        assert_eq!(verdict, Some(Verdict::Slower(vec![record(3), record(2)])));

        let mut trial = on_trial();
        trial.forget(&record(1));
        trial.forget(&record(2));
        (0..40).for_each(|_| assert_eq!(trial.observe(PHASE, 5_000, true), None));
    }

    #[test]
    fn after_some_time_it_is_due_again() {
        let mut trial = on_trial();
        assert!(tried(&mut trial, &[(10_000, 10_000); 3]).is_some());
        (0..499).for_each(|_| assert_eq!(trial.observe(PHASE, 10_000, true), None));
        assert!(!trial.is_due());
        trial.observe(PHASE, 10_000, true);
        assert!(trial.is_due());
        trial.begin(Vec::new());
        assert!(!trial.is_due(), "nothing is split: later");
    }
}
