//! Judgements of columns that are split: whether each stays so, by its slices' operations in a split phase, and by the
//! calls that had to wait because of it.
//!
//! Split columns cause no conflicts, so writes have to tell whether they still would: a column whose writes are a
//! fair share of all calls is kept, whatever became of the contention (Doppel's write sampling).

use std::collections::BTreeMap;

use super::Reason;
use super::contention::OTHERS_PER_OPERATION_MAX;
use crate::operation::Operation;
use crate::protocol::phased::sample::Access;

/// A column with this share of the calls is written enough to be split. Two worker contexts conflict enough for being
/// split from twice to five times this share on: between the two, things stay as they are.
const WRITES_PER_CALL: f64 = 0.01;
/// The part of its first share down to which a column is kept: where more worker contexts meet, less popular columns
/// are worth splitting.
const PART_OF_FIRST_SHARE: f64 = 1.0 / 3.0;
/// The share below which nothing is kept.
const WRITES_PER_CALL_MIN: f64 = 0.001;
/// Fewer writes in a phase don't pay for merging the slices.
const WRITES_MIN: u64 = 32;
/// The number of phases in a row that must agree that there are few writes: splitting unnecessarily costs little, and a
/// phase may have been ended early, or its worker contexts kept from their processors.
const PHASES_OF_FEW_WRITES: u32 = 3;
/// The number of stashes of another operation for each write that is a reason to split for that one: more than equal
/// numbers, so that an even mixture doesn't change to and fro.
const STASHES_PER_WRITE_TO_CHANGE: f64 = 1.5;
/// This many stashes in one phase are clear evidence...
const STASHES_CLEAR: u64 = 8;
/// ... of fewer, but at least these, two phases in a row must tell the same. (With few callers, each of which waits for
/// its answer, there are never more stashes than callers.)
const STASHES_MIN: u64 = 2;

/// The cause of a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cause {
    /// Transactions conflicted about the column.
    Contention,
    /// A label, by hand.
    Label,
    /// The column's policy: operations have met the row.
    Policy,
}

/// The history of a column that is split.
pub(super) struct SplitColumn {
    pub(super) operation: Operation,
    pub(super) cause: Cause,
    /// Its share of the calls in the first split phase.
    first_share: Option<f64>,
    /// Phases in a row with few writes.
    phases_of_few_writes: u32,
    /// True if the last phase had some stashes too many.
    is_doubtful: bool,
}

/// The decision about a split column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    Keep,
    /// The column is split for this operation from now on.
    Change(Operation),
    Remove(Reason),
}

/// The calls that had to wait because of one column.
#[derive(Default)]
struct Waiting {
    /// The other operation that most of them needed, and their number: they would not have waited, if the column were
    /// split for it.
    rival: Option<(Operation, u64)>,
    /// Because of the column alone, the rival's included.
    of_column: u64,
    /// Because of the record as a whole.
    of_record: u64,
}

impl SplitColumn {
    pub(super) fn new(operation: Operation, cause: Cause) -> SplitColumn {
        SplitColumn { operation, cause, first_share: None, phases_of_few_writes: 0, is_doubtful: false }
    }

    /// Returns true if it was asked for, so that it is neither judged nor on trial.
    pub(super) fn is_asked_for(&self) -> bool {
        self.cause != Cause::Contention
    }

    /// Judges this column by a split phase: by the writes to each split column of its record, by what was stashed
    /// because of the record, and by how many calls committed.
    pub(super) fn judge(
        &mut self,
        column: u16,
        writes: &BTreeMap<u16, u64>,
        stashes: &BTreeMap<Access, u64>,
        committed: u64,
    ) -> Judgement {
        // A column that was not split in this phase can't be judged by it.
        let Some(&own) = writes.get(&column) else { return Judgement::Keep };
        let busiest = writes.values().copied().max().unwrap_or(own);
        let waiting = Waiting::because_of(column, self.operation, stashes);
        let by_stashes = waiting.judge(own, busiest);
        if by_stashes != Judgement::Keep {
            let is_clear = waiting.of_column + waiting.of_record >= STASHES_CLEAR;
            if is_clear || std::mem::replace(&mut self.is_doubtful, true) {
                return by_stashes;
            }
        } else {
            self.is_doubtful = false;
        }
        self.judge_writes(own, committed)
    }

    fn judge_writes(&mut self, writes: u64, committed: u64) -> Judgement {
        let share = writes as f64 / committed.max(1) as f64;
        let first = *self.first_share.get_or_insert(share);
        let least = WRITES_PER_CALL.min(PART_OF_FIRST_SHARE * first).max(WRITES_PER_CALL_MIN);
        if writes >= WRITES_MIN && share >= least {
            self.phases_of_few_writes = 0;
            return Judgement::Keep;
        }
        self.phases_of_few_writes += 1;
        if self.phases_of_few_writes < PHASES_OF_FEW_WRITES {
            return Judgement::Keep;
        }
        Judgement::Remove(Reason::FewWrites)
    }
}

impl Waiting {
    fn because_of(column: u16, selected: Operation, stashes: &BTreeMap<Access, u64>) -> Waiting {
        let mut waiting = Waiting::default();
        for (&access, &count) in stashes {
            match access {
                Access::Record => waiting.of_record += count,
                Access::Column(of) if of == column => waiting.of_column += count,
                Access::Operation { column: of, operation } if of == column => {
                    waiting.of_column += count;
                    // The selected operation itself waits where a slice has no room left: no other would help.
                    if operation != selected && waiting.rival.is_none_or(|(_, most)| count > most) {
                        waiting.rival = Some((operation, count));
                    }
                }
                Access::Column(_) | Access::Operation { .. } => {}
            }
        }
        waiting
    }

    /// Judges by the stashes: `own` are the column's writes, `busiest` those of the record's most written column, which
    /// must be worth the waiting that the record causes as a whole.
    fn judge(&self, own: u64, busiest: u64) -> Judgement {
        let outweigh = |waiting: u64, writes: u64| waiting as f64 > OTHERS_PER_OPERATION_MAX * writes as f64;
        if self.of_column + self.of_record < STASHES_MIN {
            return Judgement::Keep;
        }
        if let Some((operation, count)) = self.rival {
            let would_wait = self.of_column - count + own + self.of_record;
            let is_better = count as f64 > STASHES_PER_WRITE_TO_CHANGE * own as f64;
            if is_better && !outweigh(would_wait, count.max(busiest)) {
                return Judgement::Change(operation);
            }
        }
        if outweigh(self.of_column, own) || outweigh(self.of_column + self.of_record, busiest) {
            return Judgement::Remove(Reason::Stashes);
        }
        Judgement::Keep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALLS: u64 = 100_000;
    const MAX: Access = Access::Operation { column: 1, operation: Operation::Max };
    const MIN: Access = Access::Operation { column: 1, operation: Operation::Min };
    const SAME: Access = Access::Operation { column: 1, operation: Operation::Add };
    const REMOVED: Judgement = Judgement::Remove(Reason::Stashes);

    /// The judgement of column 1, split for Add, in its first phase.
    fn judged(writes: &[(u16, u64)], stashes: &[(Access, u64)]) -> Judgement {
        let writes = writes.iter().copied().collect();
        let stashes = stashes.iter().copied().collect();
        SplitColumn::new(Operation::Add, Cause::Contention).judge(1, &writes, &stashes, CALLS)
    }

    #[test]
    fn reads_are_suffered_up_to_three_for_a_write() {
        assert_eq!(judged(&[(1, 10_000)], &[(Access::Record, 29_000)]), Judgement::Keep);
        assert_eq!(judged(&[(1, 10_000)], &[(Access::Record, 31_000)]), REMOVED);
        assert_eq!(judged(&[(1, 10_000)], &[(Access::Column(1), 31_000)]), REMOVED);
        assert_eq!(judged(&[(1, 10_000)], &[(Access::Column(2), 31_000)]), Judgement::Keep);
        assert_eq!(judged(&[(1, 0)], &[(Access::Record, 8)]), REMOVED);
    }

    #[test]
    fn the_busiest_column_answers_for_the_record() {
        assert_eq!(judged(&[(1, 2_000), (2, 10_000)], &[(Access::Record, 20_000)]), Judgement::Keep);
        assert_eq!(judged(&[(1, 2_000), (2, 10_000)], &[(Access::Column(1), 20_000)]), REMOVED);
    }

    #[test]
    fn another_operation_takes_over_when_it_outnumbers_the_selected_one() {
        let max = Judgement::Change(Operation::Max);
        assert_eq!(judged(&[(1, 10_000)], &[(MAX, 14_000)]), Judgement::Keep);
        assert_eq!(judged(&[(1, 10_000)], &[(MAX, 16_000)]), max);
        assert_eq!(judged(&[(1, 0)], &[(MAX, 8)]), max);
        assert_eq!(judged(&[(1, 0)], &[(MAX, 800), (MIN, 700)]), max);
        assert_eq!(judged(&[(1, 0)], &[(MAX, 700), (MIN, 800)]), Judgement::Change(Operation::Min));
        // But not if it would suffer as much.
        assert_eq!(judged(&[(1, 100)], &[(MAX, 800), (Access::Record, 9_000)]), REMOVED);
    }

    #[test]
    fn an_operation_that_has_no_room_is_no_rival_of_itself() {
        assert_eq!(judged(&[(1, 10)], &[(SAME, 1_000)]), REMOVED);
        assert_eq!(judged(&[(1, 10_000)], &[(SAME, 1_000)]), Judgement::Keep);
    }

    #[test]
    fn few_stashes_must_be_confirmed_by_the_next_phase() {
        let nothing = BTreeMap::new();
        let writes = BTreeMap::from([(1, 0)]);
        let max = BTreeMap::from([(MAX, 2)]);
        let mut split = SplitColumn::new(Operation::Add, Cause::Contention);
        assert_eq!(split.judge(1, &writes, &max, CALLS), Judgement::Keep);
        assert_eq!(split.judge(1, &writes, &max, CALLS), Judgement::Change(Operation::Max));

        let mut split = SplitColumn::new(Operation::Add, Cause::Contention);
        let many = BTreeMap::from([(1, 1_000)]);
        for _ in 0..5 {
            assert_eq!(split.judge(1, &writes, &max, CALLS), Judgement::Keep);
            assert_eq!(split.judge(1, &many, &nothing, CALLS), Judgement::Keep);
        }
        let one = BTreeMap::from([(MAX, 1)]);
        assert_eq!(split.judge(1, &many, &one, CALLS), Judgement::Keep);
    }

    /// The number of phases with these writes that pass until a column is released, given the number of writes in its
    /// first one.
    fn phases_until_given_up(first: u64, then: u64) -> Option<u32> {
        let nothing = BTreeMap::new();
        let mut split = SplitColumn::new(Operation::Add, Cause::Contention);
        assert_eq!(split.judge(1, &BTreeMap::from([(1, first)]), &nothing, CALLS), Judgement::Keep);
        (1..100).find(|_| {
            let judgement = split.judge(1, &BTreeMap::from([(1, then)]), &nothing, CALLS);
            judgement == Judgement::Remove(Reason::FewWrites)
        })
    }

    #[test]
    fn three_phases_of_few_writes_end_it() {
        assert_eq!(phases_until_given_up(50_000, 20), Some(3));
        assert_eq!(phases_until_given_up(50_000, 900), Some(3));
        assert_eq!(phases_until_given_up(50_000, 1_100), None);
        assert_eq!(phases_until_given_up(0, 0), Some(2), "the first one counts");
    }

    #[test]
    fn a_column_split_at_a_small_share_stays_split_at_a_smaller_one() {
        assert_eq!(phases_until_given_up(600, 250), None);
        assert_eq!(phases_until_given_up(600, 150), Some(3));
        assert_eq!(phases_until_given_up(150, 110), None);
        assert_eq!(phases_until_given_up(150, 90), Some(3));
    }

    #[test]
    fn a_phase_with_writes_between_starts_the_count_anew() {
        let nothing = BTreeMap::new();
        let mut split = SplitColumn::new(Operation::Add, Cause::Contention);
        for round in 0..30 {
            let writes = BTreeMap::from([(1, if round % 3 == 2 { 5_000 } else { 0 })]);
            assert_eq!(split.judge(1, &writes, &nothing, CALLS), Judgement::Keep);
        }
    }

    #[test]
    fn a_column_that_was_not_split_in_the_phase_is_not_judged() {
        assert_eq!(judged(&[(2, 10_000)], &[(Access::Record, 90_000)]), Judgement::Keep);
    }

    #[test]
    fn in_a_quiet_engine_a_column_is_given_up_by_the_number_of_its_writes() {
        let nothing = BTreeMap::new();
        let mut split = SplitColumn::new(Operation::Add, Cause::Contention);
        let judgements: Vec<_> =
            (0..3).map(|_| split.judge(1, &BTreeMap::from([(1, 31)]), &nothing, 31)).collect();
        assert_eq!(judgements, [Judgement::Keep, Judgement::Keep, Judgement::Remove(Reason::FewWrites)]);
    }
}
