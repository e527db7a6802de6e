//! The classifier: which columns of which records are split in the next split phase, and for which operation.
//!
//! ```text
//! joined phase: conflicts ───────────► contention ──► added      (not before two intervals agree)
//! split phase:  conflicts (the rest) ─────┘  ▲
//!               writes, stashes ─► judged ───┤──────► kept, or split for another operation
//!                                            └ backoff factor ◄─ removed (the next time it takes more conflicts)
//! both:         calls that commit ─► trial: what was added is removed if they are more without ─┘
//! ```
//!
//! It is pure logic: it receives how long an interval was and what was counted in it, and has neither clock nor thread.
//! Only the coordinator calls it. The same reports always lead to the same decisions.
//!
//! Invariants: at most [`SPLIT_COLUMNS_MAX`] columns are split, one operation for each; columns of one record
//! that are used together are split together, or not at all; what was labelled by hand stays split. Splitting the
//! wrong record costs time, never correctness.

mod backoff;
mod contention;
mod judgement;
mod met;
mod policies;
mod trial;

use std::collections::BTreeMap;
use std::time::Duration;

use self::backoff::BackoffFactors;
use self::contention::Contention;
use self::judgement::{Cause, Judgement, SplitColumn};
use self::met::Met;
use self::trial::{Trial, Verdict};
use super::super::Treatment;
use super::sample::{Access, Candidate, Counts, RecordKey, Samples};
use crate::operation::Operation;

/// The most columns that are split at once: each costs memory in every worker context, and a merge for each of them at
/// every phase change. Doppel never splits more than 20 records.
pub(crate) const SPLIT_COLUMNS_MAX: usize = 64;
/// At least this many transactions must be stashed before their share ends a split phase early: fewer are a sample too
/// small to tell.
const EARLY_END_STASHED_MIN: u64 = 64;
/// The most joined intervals that pass between two tries whether labelled columns are used again.
const LABEL_PAUSE_MAX: u32 = 16;

/// The events of a joined phase, or of a part of one.
#[derive(Debug, Default)]
pub(crate) struct JoinedReport {
    pub(crate) length: Duration,
    /// Calls that committed.
    pub(crate) committed: u64,
    pub(crate) samples: Samples,
}

/// The events of a split phase.
#[derive(Debug, Default)]
pub(crate) struct SplitReport {
    pub(crate) length: Duration,
    /// Calls that committed.
    pub(crate) committed: u64,
    /// Calls that wait for the joined phase, for whatever reason.
    pub(crate) stashed: u64,
    pub(crate) samples: Samples,
    /// The number of operations that the slices of each split column took.
    pub(crate) writes: Vec<(Candidate, u64)>,
}

/// The reason why a column is split from now on, or isn't any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Split: calls conflicted about it.
    Contended,
    /// Split: by hand.
    Labelled,
    /// Split as before, but for another operation; this is the one before.
    OtherOperation(Operation),
    /// Not split any more: hardly any call wrote it.
    FewWrites,
    /// Not split any more: too many calls had to wait because of it.
    Stashes,
    /// Not split any more: more calls commit without.
    Slower,
    /// Not split any more: its label was taken away.
    LabelRemoved,
    /// Not split any more: labels took its place.
    NoRoom,
    /// Split: its policy is that it is always split.
    Policy,
    /// Not split any more: its policy is another one, or operations no longer meet the row.
    PolicyEnded,
    /// Not split any more: it cannot be, or may not.
    Refused,
}

impl Reason {
    /// The reason in words, for reports.
    pub(crate) fn why(self) -> &'static str {
        match self {
            Reason::Contended => "transactions conflicted about it",
            Reason::Labelled => "it was labelled",
            Reason::OtherOperation(_) => "another operation is more frequent",
            Reason::FewWrites => "few transactions wrote it",
            Reason::Stashes => "too many transactions waited for the end of split phases",
            Reason::Slower => "more transactions committed without the split",
            Reason::LabelRemoved => "its label was removed",
            Reason::NoRoom => "labels took its place",
            Reason::Policy => "it is set to be always split",
            Reason::PolicyEnded => "hotter rows are split, or it is no longer set to be always split",
            Reason::Refused => "it is set never to be split, or cannot be any more",
        }
    }

    /// The treatment before and after a change about this operation.
    pub(crate) fn treatments(self, operation: Operation) -> (Treatment, Treatment) {
        match self {
            Reason::Contended | Reason::Labelled | Reason::Policy => {
                (Treatment::Joined, Treatment::Split(operation))
            }
            Reason::OtherOperation(before) => (Treatment::Split(before), Treatment::Split(operation)),
            _ => (Treatment::Split(operation), Treatment::Joined),
        }
    }
}

/// A column that was added, removed, or given another operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) candidate: Candidate,
    pub(crate) reason: Reason,
}

/// The next phase, and the columns that it splits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decision {
    /// The columns that a split phase splits, by record; those that are in no change stay as they are, or are suspended
    /// by a trial.
    pub(crate) split: Vec<Candidate>,
    /// The differences from the last decision.
    pub(crate) changes: Vec<Change>,
    /// True if there should be a split phase next.
    pub(crate) worth_splitting: bool,
    /// True if the next split phase may follow the last one without a joined phase between them: no thread waits for
    /// one.
    pub(crate) may_skip_joined: bool,
}

/// Chooses what to split.
#[derive(Default)]
pub(crate) struct Classifier {
    split: BTreeMap<RecordKey, BTreeMap<u16, SplitColumn>>,
    contention: Contention,
    met: Met,
    backoff_factors: BackoffFactors,
    trial: Trial,
    /// Joined intervals that pass before labelled columns alone are worth a split phase again.
    label_pause: u32,
    /// The value of `label_pause` the last time.
    label_pause_before: u32,
    /// Changes that the next decision tells.
    changes: Vec<Change>,
}

impl Classifier {
    /// A classifier that knows nothing.
    pub(crate) fn new() -> Classifier {
        Classifier::default()
    }

    /// Says what is split by hand, instead of all earlier labels. Of two labels of one column the first counts, and no
    /// more than [`SPLIT_COLUMNS_MAX`] do.
    pub(crate) fn set_labels(&mut self, labels: Vec<Candidate>) {
        let mut wanted: Vec<Candidate> = Vec::new();
        for label in labels {
            let is_known =
                wanted.iter().any(|known| known.record == label.record && known.column == label.column);
            if !is_known && wanted.len() < SPLIT_COLUMNS_MAX {
                wanted.push(label);
            }
        }
        for candidate in self.candidates(|split| split.cause == Cause::Label) {
            if !wanted.contains(&candidate) {
                self.remove(&candidate.record, candidate.column, Reason::LabelRemoved);
            }
        }
        for candidate in wanted {
            self.add_asked_for(candidate, Cause::Label);
        }
        self.make_room();
        self.label_pause = 0;
        self.label_pause_before = 0;
    }

    /// A joined phase, or an interval of one, is over.
    pub(crate) fn end_of_joined(&mut self, report: &JoinedReport) -> Decision {
        self.observe(report.length, report.committed, &report.samples.conflicts);
        self.label_pause = self.label_pause.saturating_sub(1);
        self.follow_policies(report.length, &report.samples, &[]);
        let samples = &report.samples;
        if self.has_labelled_in(&samples.conflicts) || self.has_labelled_in(&samples.operations) {
            self.label_pause = 0;
        }
        self.end_trial(report.length, report.committed, true);
        self.add_contended();
        self.decide(report.committed > 0, false)
    }

    /// Decides at the end of a split phase.
    pub(crate) fn end_of_split(&mut self, report: &SplitReport) -> Decision {
        self.observe(report.length, report.committed, &report.samples.conflicts);
        self.note_use_of_labels(report);
        self.judge(report);
        self.follow_policies(report.length, &report.samples, &report.writes);
        self.end_trial(report.length, report.committed, report.stashed == 0);
        self.add_contended();
        self.decide(report.committed > 0, report.stashed == 0)
    }

    /// Returns true if there is nothing to decide before the next conflict or label: nothing is split, and nothing has to fade.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.split.is_empty()
            && self.changes.is_empty()
            && !self.trial.is_on()
            && self.contention.is_empty()
            && self.met.is_empty()
            && self.backoff_factors.is_empty()
    }

    /// Returns true if a split phase should end before its time: more transactions are stashed than have committed, or
    /// every active caller waits for a stashed one (`all_stashed`), so that the rest of the phase would pass idle.
    pub(crate) fn should_end_split_early(stashed_now: u64, committed_now: u64, all_stashed: bool) -> bool {
        let idle = all_stashed && stashed_now > 0;
        idle || stashed_now >= EARLY_END_STASHED_MIN && stashed_now > committed_now
    }

    fn observe(&mut self, length: Duration, committed: u64, conflicts: &Counts) {
        self.backoff_factors.fade(length);
        let (split, backoff_factors) = (&self.split, &self.backoff_factors);
        let is_settled = |record: &RecordKey, access: Access| match access {
            Access::Record => false,
            Access::Column(column) | Access::Operation { column, .. } => {
                split.get(record).is_some_and(|columns| columns.contains_key(&column))
            }
        };
        self.contention
            .observe(length, committed, conflicts, is_settled, |record| backoff_factors.factor(record));
    }

    /// Ends the split of recently added columns, if it has made the engine slower.
    fn end_trial(&mut self, length: Duration, committed: u64, is_whole: bool) {
        let records = match self.trial.observe(length, committed, is_whole) {
            None => return self.try_again(),
            Some(Verdict::Worth(records)) => return self.backoff_factors.forget(&records),
            Some(Verdict::Slower(records)) => records,
        };
        for record in &records {
            let is_of_record = |candidate: &Candidate| candidate.record == *record;
            let given_up = self.candidates(|split| !split.is_asked_for()).into_iter().filter(is_of_record);
            for candidate in given_up.collect::<Vec<_>>() {
                self.remove(&candidate.record, candidate.column, Reason::Slower);
            }
            self.contention.forget(record);
        }
        self.backoff_factors.was_slower(&records);
    }

    /// Puts everything on trial, if it is time for that.
    fn try_again(&mut self) {
        if self.trial.is_due() {
            let mut records: Vec<RecordKey> = self
                .candidates(|split| !split.is_asked_for())
                .into_iter()
                .map(|candidate| candidate.record)
                .collect();
            records.dedup();
            self.trial.begin(records);
        }
    }

    /// Splits columns that have become contended, as far as there is room: those that are split already have priority.
    fn add_contended(&mut self) {
        let mut records = Vec::new();
        let backoff_factors = &self.backoff_factors;
        for contended in self.contention.contended(|record| backoff_factors.factor(record)) {
            let mut columns = contended.columns;
            columns.retain(|candidate| self.find(&candidate.record, candidate.column).is_none());
            if self.count() + columns.len() > SPLIT_COLUMNS_MAX {
                continue;
            }
            for candidate in columns {
                self.contention.forget(&candidate.record);
                records.push(candidate.record.clone());
                self.add(candidate, Reason::Contended);
            }
        }
        records.dedup();
        if !records.is_empty() {
            self.trial.begin(records);
        }
    }

    /// Decides for each split column whether it stays so.
    fn judge(&mut self, report: &SplitReport) {
        let mut writes: BTreeMap<&RecordKey, BTreeMap<u16, u64>> = BTreeMap::new();
        for (candidate, count) in &report.writes {
            *writes.entry(&candidate.record).or_default().entry(candidate.column).or_insert(0) += count;
        }
        let nothing = BTreeMap::new();
        let mut removed = Vec::new();
        for (record, columns) in &mut self.split {
            // A record that was not split in this phase can't be judged by it.
            let Some(writes) = writes.get(record) else { continue };
            let stashes = report.samples.stashes.get(record).unwrap_or(&nothing);
            for (&column, split) in columns.iter_mut().filter(|(_, split)| !split.is_asked_for()) {
                match split.judge(column, writes, stashes, report.committed) {
                    Judgement::Keep => {}
                    Judgement::Change(operation) => {
                        let reason = Reason::OtherOperation(split.operation);
                        *split = SplitColumn::new(operation, Cause::Contention);
                        let candidate = Candidate { record: record.clone(), column, operation };
                        self.changes.push(Change { candidate, reason });
                    }
                    Judgement::Remove(reason) => removed.push((record.clone(), column, reason)),
                }
            }
        }
        for (record, column, reason) in removed {
            match reason {
                Reason::Stashes => self.backoff_factors.stashed_without_gain(&record),
                _ => self.backoff_factors.hardly_written(&record),
            }
            self.contention.forget(&record);
            self.trial.forget(&record);
            self.remove(&record, column, reason);
        }
    }

    /// Notes whether labelled columns are used: those that no thread writes are tried less and less often.
    fn note_use_of_labels(&mut self, report: &SplitReport) {
        let is_used = report.writes.iter().any(|(candidate, writes)| {
            *writes > 0
                && self.find(&candidate.record, candidate.column).is_some_and(SplitColumn::is_asked_for)
        });
        let pause = if is_used { 0 } else { (2 * self.label_pause_before).clamp(1, LABEL_PAUSE_MAX) };
        (self.label_pause, self.label_pause_before) = (pause, pause);
    }

    fn has_labelled_in(&self, conflicts: &Counts) -> bool {
        conflicts.iter().any(|(record, _)| {
            self.split.get(record).is_some_and(|columns| columns.values().any(SplitColumn::is_asked_for))
        })
    }

    fn decide(&mut self, has_calls: bool, nobody_waits: bool) -> Decision {
        let mut split = self.candidates(|split| !split.is_asked_for());
        split.retain(|candidate| !self.trial.suspends(&candidate.record));
        let is_contended = !split.is_empty();
        split.extend(self.candidates(SplitColumn::is_asked_for));
        split.sort_by(|one, other| (&one.record, one.column).cmp(&(&other.record, other.column)));
        let by_label = !split.is_empty() && has_calls && self.label_pause == 0;
        let worth_splitting = is_contended || by_label;
        Decision {
            split,
            changes: std::mem::take(&mut self.changes),
            worth_splitting,
            may_skip_joined: worth_splitting && nobody_waits,
        }
    }

    fn find(&self, record: &RecordKey, column: u16) -> Option<&SplitColumn> {
        self.split.get(record)?.get(&column)
    }

    fn count(&self) -> usize {
        self.split.values().map(BTreeMap::len).sum()
    }

    fn candidates(&self, which: impl Fn(&SplitColumn) -> bool) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for (record, columns) in &self.split {
            let wanted = columns.iter().filter(|(_, split)| which(split));
            candidates.extend(wanted.map(|(&column, split)| Candidate {
                record: record.clone(),
                column,
                operation: split.operation,
            }));
        }
        candidates
    }

    fn add(&mut self, candidate: Candidate, reason: Reason) {
        let cause = match reason {
            Reason::Labelled => Cause::Label,
            Reason::Policy => Cause::Policy,
            _ => Cause::Contention,
        };
        let split = SplitColumn::new(candidate.operation, cause);
        self.split.entry(candidate.record.clone()).or_default().insert(candidate.column, split);
        self.changes.push(Change { candidate, reason });
    }

    fn remove(&mut self, record: &RecordKey, column: u16, reason: Reason) {
        let Some(columns) = self.split.get_mut(record) else { return };
        if let Some(split) = columns.remove(&column) {
            let candidate = Candidate { record: record.clone(), column, operation: split.operation };
            self.changes.push(Change { candidate, reason });
        }
        if columns.is_empty() {
            self.split.remove(record);
        }
    }

    /// Labels go before what was found contended.
    fn make_room(&mut self) {
        let surplus = self.count().saturating_sub(SPLIT_COLUMNS_MAX);
        for candidate in self.candidates(|split| !split.is_asked_for()).into_iter().take(surplus) {
            self.remove(&candidate.record, candidate.column, Reason::NoRoom);
        }
    }
}

#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
