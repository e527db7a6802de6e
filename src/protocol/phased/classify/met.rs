//! The rows that operations meet on columns whose policy is that they are always split: how often, recently.
//!
//! There is no trial and no comparison with other transactions: what is asked for is done, for the hottest rows, as far as there is room.
//!
//! Invariant: a row that operations no longer meet is forgotten after some seconds, so its place is free for another one.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::sample::{Access, Candidate, Counts, RecordKey};
use crate::operation::Operation;

/// Time after which operations count half.
const HALF_LIFE: Duration = Duration::from_secs(1);
/// The heat below which a row is forgotten: one that was met once is remembered for some seconds.
const FORGOTTEN: f64 = 0.02;
/// The most columns of rows that are remembered; the coldest make room.
const COLUMNS_MAX: usize = 1_024;

/// The heat of each operation on a column of a row.
type Heat = Vec<(Operation, f64)>;

/// The columns of rows that operations have met.
#[derive(Default)]
pub(super) struct Met(BTreeMap<(RecordKey, u16), Heat>);

impl Met {
    /// Adds what an interval of this length has seen: operations that were noted, and those that slices took. Of what was stashed the
    /// operations count, too, of columns that are known.
    pub(super) fn observe(
        &mut self,
        length: Duration,
        operations: &Counts,
        taken: &[(Candidate, u64)],
        stashes: &Counts,
    ) {
        self.fade(length);
        for (record, access, count) in flat(operations) {
            if let Access::Operation { column, operation } = access {
                add(self.0.entry((record.clone(), column)).or_default(), operation, count);
            }
        }
        for (candidate, count) in taken {
            if let Some(heat) = self.0.get_mut(&(candidate.record.clone(), candidate.column)) {
                add(heat, candidate.operation, *count);
            }
        }
        for (record, access, count) in flat(stashes) {
            if let Access::Operation { column, operation } = access
                && let Some(heat) = self.0.get_mut(&(record.clone(), column))
            {
                add(heat, operation, count);
            }
        }
        self.bound();
    }

    fn fade(&mut self, length: Duration) {
        let remaining = (-length.as_secs_f64() / HALF_LIFE.as_secs_f64()).exp2();
        self.0.retain(|_, heat| {
            heat.retain_mut(|(_, heat)| {
                *heat *= remaining;
                *heat >= FORGOTTEN
            });
            !heat.is_empty()
        });
    }

    fn bound(&mut self) {
        if self.0.len() <= COLUMNS_MAX {
            return;
        }
        let kept = self.hottest(COLUMNS_MAX / 2);
        self.0.retain(|(record, column), _| {
            kept.iter().any(|one| one.column == *column && one.record == *record)
        });
    }

    /// Returns true if it remembers no row.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Forgets columns.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&RecordKey, u16) -> bool) {
        self.0.retain(|(record, column), _| is_kept(record, *column));
    }

    /// The hottest columns, at most this many, each for its most frequent operation.
    pub(super) fn hottest(&self, most: usize) -> Vec<Candidate> {
        let mut all: Vec<(f64, Candidate)> = Vec::new();
        for ((record, column), heat) in &self.0 {
            let best = heat.iter().copied().reduce(|one, other| if other.1 > one.1 { other } else { one });
            if let Some((operation, heat)) = best {
                all.push((heat, Candidate { record: record.clone(), column: *column, operation }));
            }
        }
        // Stable: of equals, the smaller key comes first.
        all.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        all.into_iter().take(most).map(|(_, candidate)| candidate).collect()
    }
}

fn add(heat: &mut Heat, operation: Operation, count: u64) {
    match heat.iter_mut().find(|(known, _)| *known == operation) {
        Some((_, sum)) => *sum += count as f64,
        None => heat.push((operation, count as f64)),
    }
}

fn flat(counts: &Counts) -> impl Iterator<Item = (&RecordKey, Access, u64)> {
    counts
        .iter()
        .flat_map(|(record, accesses)| accesses.iter().map(move |(&access, &count)| (record, access, count)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::key::EncodedKey;

    const PHASE: Duration = Duration::from_millis(20);
    const ADD: Access = Access::Operation { column: 1, operation: Operation::Add };
    const MAX: Access = Access::Operation { column: 1, operation: Operation::Max };

    fn record(number: u16) -> RecordKey {
        RecordKey { table: 1, key: EncodedKey::from(number.to_be_bytes().as_slice()) }
    }

    fn counts(all: &[(u16, Access, u64)]) -> Counts {
        let mut counts = Counts::default();
        all.iter().for_each(|&(number, access, count)| counts.add(record(number), access, count));
        counts
    }

    fn observe(met: &mut Met, operations: &[(u16, Access, u64)]) {
        met.observe(PHASE, &counts(operations), &[], &Counts::default());
    }

    #[test]
    fn the_hottest_come_first_each_for_its_most_frequent_operation() {
        let mut met = Met::default();
        observe(&mut met, &[(1, ADD, 1), (2, ADD, 5), (2, MAX, 7), (3, Access::Record, 90)]);
        let of = |number, operation| Candidate { record: record(number), column: 1, operation };
        assert_eq!(met.hottest(9), [of(2, Operation::Max), of(1, Operation::Add)]);
        assert_eq!(met.hottest(1), [of(2, Operation::Max)]);
    }

    #[test]
    fn what_slices_take_and_what_is_stashed_counts_for_known_columns_only() {
        let mut met = Met::default();
        observe(&mut met, &[(1, ADD, 4), (2, ADD, 5)]);
        let taken = |number| (Candidate { record: record(number), column: 1, operation: Operation::Add }, 50);
        met.observe(
            PHASE,
            &Counts::default(),
            &[taken(1), taken(8)],
            &counts(&[(2, MAX, 100), (9, ADD, 100)]),
        );
        let found: Vec<_> = met.hottest(9).into_iter().map(|one| (one.record, one.operation)).collect();
        assert_eq!(found, [(record(2), Operation::Max), (record(1), Operation::Add)]);
    }

    #[test]
    fn rows_without_operations_are_forgotten_after_seconds_and_many_rows_are_bounded() {
        let mut met = Met::default();
        observe(&mut met, &[(1, ADD, 1)]);
        (0..100).for_each(|_| observe(&mut met, &[]));
        assert_eq!(met.hottest(9).len(), 1);
        (0..200).for_each(|_| observe(&mut met, &[]));
        assert!(met.hottest(9).is_empty());
        for number in 0..5_000 {
            observe(&mut met, &[(number, ADD, 1), (7, ADD, 1)]);
        }
        assert!(met.0.len() <= COLUMNS_MAX);
        assert_eq!(met.hottest(1)[0].record, record(7));
        met.retain(|of, _| *of == record(7));
        assert_eq!(met.hottest(9).len(), 1);
    }
}
