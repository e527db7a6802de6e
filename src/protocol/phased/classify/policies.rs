//! Columns whose policy is not that the classifier decides: those that are always split, and those that never are.
//!
//! Invariants: of what is split by policy the hottest rows have the places that labels leave; what conflicts proposed makes room for
//! them. A column that may not be split, or cannot be any more, leaves the classifier at the next decision, for whatever reason it was split; a label
//! stays, and has no effect meanwhile.

use std::time::Duration;

use super::super::sample::{Candidate, RecordKey, Samples};
use super::judgement::{Cause, SplitColumn};
use super::{Change, Classifier, Reason, SPLIT_COLUMNS_MAX};
use crate::operation::Operation;
use crate::storage::split_policy::SplitPolicy;

impl Classifier {
    /// Follows changes of what may be split: `policy_of` says by which policy a column of a record is split for an operation;
    /// `None`: it cannot be.
    pub(crate) fn follow_changes(
        &mut self,
        policy_of: impl Fn(&RecordKey, u16, Option<Operation>) -> Option<SplitPolicy>,
    ) {
        let is_always =
            |record: &RecordKey, column: u16| policy_of(record, column, None) == Some(SplitPolicy::Always);
        self.met.retain(is_always);
        for candidate in self.candidates(|split| split.cause != Cause::Label) {
            let policy = policy_of(&candidate.record, candidate.column, Some(candidate.operation));
            let of_policy = self
                .find(&candidate.record, candidate.column)
                .is_some_and(|split| split.cause == Cause::Policy);
            let reason = match policy {
                None | Some(SplitPolicy::Never) => Reason::Refused,
                Some(SplitPolicy::Auto) if of_policy => Reason::PolicyEnded,
                Some(_) => continue,
            };
            self.contention.forget(&candidate.record);
            self.trial.forget(&candidate.record);
            self.remove(&candidate.record, candidate.column, reason);
        }
    }

    /// Splits the hottest of the rows that operations meet on columns that are always split, as far as labels leave room.
    pub(super) fn follow_policies(
        &mut self,
        length: Duration,
        samples: &Samples,
        taken: &[(Candidate, u64)],
    ) {
        self.met.observe(length, &samples.operations, taken, &samples.stashes);
        let labels = self.candidates(|split| split.cause == Cause::Label).len();
        let wanted = self.met.hottest(SPLIT_COLUMNS_MAX - labels.min(SPLIT_COLUMNS_MAX));
        for candidate in self.candidates(|split| split.cause == Cause::Policy) {
            let is_wanted =
                |one: &Candidate| one.record == candidate.record && one.column == candidate.column;
            if !wanted.iter().any(is_wanted) {
                self.remove(&candidate.record, candidate.column, Reason::PolicyEnded);
            }
        }
        for candidate in wanted {
            if self.find(&candidate.record, candidate.column).is_none() {
                (self.label_pause, self.label_pause_before) = (0, 0);
            }
            self.add_asked_for(candidate, Cause::Policy);
        }
        self.make_room();
    }

    /// Adds a column that a label or a policy asks for. A label outranks a policy.
    pub(super) fn add_asked_for(&mut self, candidate: Candidate, cause: Cause) {
        let columns = self.split.entry(candidate.record.clone()).or_default();
        let reason = if cause == Cause::Label { Reason::Labelled } else { Reason::Policy };
        match columns.get_mut(&candidate.column) {
            Some(split) if split.cause == Cause::Label && cause == Cause::Policy => {}
            // Nothing changes now, but the classifier leaves it alone from now on.
            Some(split) if split.operation == candidate.operation => split.cause = cause,
            Some(split) if split.cause == cause => {
                let reason = Reason::OtherOperation(split.operation);
                *split = SplitColumn::new(candidate.operation, cause);
                self.changes.push(Change { candidate, reason });
            }
            _ => self.add(candidate, reason),
        }
    }
}
