//! The contended records, and the accesses that contend: the conflicts of the last few intervals, older ones fading.
//!
//! Invariants: how fast a record is found does not depend on the phase length, because fading and weights depend on
//! time; and one burst of conflicts never makes a record contended. A thread that loses its processor in the middle of a
//! commit gives its rivals thousands of conflicts about a record that no other thread uses otherwise; so an interval
//! counts for less than what is needed, and the others must agree with it.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::sample::{Access, Candidate, Counts, RecordKey};
use crate::operation::Operation;

/// Conflicts per committed call from which on a record is contended. With two worker contexts, a record that every tenth
/// call writes gives three to fifteen times as many, one that every fiftieth writes (the most popular of a million at
/// Zipf 0.8) a third at most.
const CONFLICTS_PER_CALL: f64 = 0.000_3;
/// The fewest conflicts, so that an engine with little to do isn't judged by chance.
const CONFLICTS_MIN: f64 = 16.0;
/// Time after which conflicts and calls count half: long enough for short phases to gather evidence, short enough that
/// a record which has become hot outweighs its past within some phases.
const HALF_LIFE: Duration = Duration::from_millis(40);
/// The most half-lives that one interval is worth: with long phases two of them must still overlap.
const HALF_LIVES_MAX: f64 = 0.5;
/// The largest part of the needed conflicts that one interval of [`FULL_INTERVAL`] may contribute: less than all of it,
/// and more than half, so that two suffice.
const CONTRIBUTION_MAX: f64 = 0.75;
/// The length from which on an interval may contribute that much; a shorter one contributes a part of it.
const FULL_INTERVAL: Duration = Duration::from_millis(20);
/// Counts that have faded below this are forgotten.
const FORGOTTEN: f64 = 0.5;
/// Other conflicts about the column for each one by the operation, up to which splitting it is worth while. A conflict
/// that is one of three has to wait: Doppel splits `like` at 30 % writes, and not at 20 %.
pub(super) const OTHERS_PER_OPERATION_MAX: f64 = 3.0;
/// Columns of one record are split together if they have this share of the conflicts of the most contended one: they
/// are used by the same calls, which contend until the last of their columns is split.
const COMPANION_SHARE: f64 = 0.25;

/// The columns of one record that are worth splitting together.
pub(super) struct Contended {
    /// The conflicts about the most contended column.
    pub(super) conflicts: f64,
    pub(super) columns: Vec<Candidate>,
}

/// The recent conflicts, by record and access.
#[derive(Default)]
pub(super) struct Contention {
    records: BTreeMap<RecordKey, BTreeMap<Access, f64>>,
    committed: f64,
}

impl Contention {
    /// Adds an interval. `is_settled` says which accesses need no decision any more, because the column is split;
    /// `backoff factor` how many times more conflicts than usual a record needs.
    pub(super) fn observe(
        &mut self,
        length: Duration,
        committed: u64,
        conflicts: &Counts,
        is_settled: impl Fn(&RecordKey, Access) -> bool,
        backoff_factors: impl Fn(&RecordKey) -> f64,
    ) {
        self.fade(length);
        self.committed += committed as f64;
        let share = (length.as_secs_f64() / FULL_INTERVAL.as_secs_f64()).min(1.0);
        for (record, accesses) in conflicts.iter() {
            let open = || accesses.iter().filter(|(access, _)| !is_settled(record, **access));
            let most = open()
                .filter(|(access, _)| matches!(access, Access::Operation { .. }))
                .map(|(_, &count)| count as f64)
                .fold(0.0, f64::max);
            let limit = CONTRIBUTION_MAX * share * self.needed() * backoff_factors(record);
            // All accesses are scaled alike, so that their proportions stay.
            let scale = if most > limit { limit / most } else { 1.0 };
            for (&access, &count) in open() {
                let sums = self.records.entry(record.clone()).or_default();
                *sums.entry(access).or_insert(0.0) += scale * count as f64;
            }
        }
    }

    fn fade(&mut self, length: Duration) {
        let half_lives = (length.as_secs_f64() / HALF_LIFE.as_secs_f64()).min(HALF_LIVES_MAX);
        let remaining = (-half_lives).exp2();
        self.committed *= remaining;
        self.records.retain(|_, accesses| {
            accesses.retain(|_, sum| {
                *sum *= remaining;
                *sum >= FORGOTTEN
            });
            !accesses.is_empty()
        });
    }

    /// Returns true if it remembers no conflict.
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Forgets a record, whose columns are split now or have just been.
    pub(super) fn forget(&mut self, record: &RecordKey) {
        self.records.remove(record);
    }

    /// The number of conflicts that make a record contended.
    fn needed(&self) -> f64 {
        (self.committed * CONFLICTS_PER_CALL).max(CONFLICTS_MIN)
    }

    /// Every record that is worth splitting, the most contended first.
    pub(super) fn contended(&self, backoff_factors: impl Fn(&RecordKey) -> f64) -> Vec<Contended> {
        let mut found: Vec<Contended> = self
            .records
            .iter()
            .filter_map(|(record, accesses)| {
                contended(record, accesses, self.needed() * backoff_factors(record))
            })
            .collect();
        // Stable: of equals, the smaller key comes first.
        found.sort_by(|one, other| other.conflicts.total_cmp(&one.conflicts));
        found
    }
}

/// The conflicts about one column.
#[derive(Default)]
struct Column {
    /// The operation with most of them.
    best: Option<(Operation, f64)>,
    /// All of them.
    total: f64,
}

fn contended(record: &RecordKey, accesses: &BTreeMap<Access, f64>, needed: f64) -> Option<Contended> {
    let of_record = accesses.get(&Access::Record).copied().unwrap_or(0.0);
    let mut columns: BTreeMap<u16, Column> = BTreeMap::new();
    for (&access, &sum) in accesses {
        match access {
            Access::Record => {}
            Access::Column(column) => columns.entry(column).or_default().total += sum,
            Access::Operation { column, operation } => {
                let entry = columns.entry(column).or_default();
                entry.total += sum;
                if entry.best.is_none_or(|(_, best)| sum > best) {
                    entry.best = Some((operation, sum));
                }
            }
        }
    }
    let worth: Vec<(u16, Operation, f64)> = columns
        .into_iter()
        .filter_map(|(number, column)| {
            let (operation, sum) = column.best?;
            let others = column.total - sum + of_record;
            (others <= OTHERS_PER_OPERATION_MAX * sum).then_some((number, operation, sum))
        })
        .collect();
    let conflicts = worth.iter().map(|&(_, _, sum)| sum).fold(0.0, f64::max);
    if conflicts < needed {
        return None;
    }
    let columns = worth
        .into_iter()
        .filter(|&(_, _, sum)| sum >= COMPANION_SHARE * conflicts)
        .map(|(column, operation, _)| Candidate { record: record.clone(), column, operation })
        .collect();
    Some(Contended { conflicts, columns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::key::EncodedKey;

    const PHASE: Duration = Duration::from_millis(20);
    const ADD: Access = Access::Operation { column: 1, operation: Operation::Add };
    const MAX: Access = Access::Operation { column: 1, operation: Operation::Max };
    const MAX_OF_2: Access = Access::Operation { column: 2, operation: Operation::Max };

    fn record(number: u8) -> RecordKey {
        RecordKey { table: 1, key: EncodedKey::from([number].as_slice()) }
    }

    fn counts(all: &[(u8, Access, u64)]) -> Counts {
        let mut counts = Counts::default();
        all.iter().for_each(|&(number, access, count)| counts.add(record(number), access, count));
        counts
    }

    fn observe(contention: &mut Contention, length: Duration, committed: u64, all: &[(u8, Access, u64)]) {
        contention.observe(length, committed, &counts(all), |_, _| false, |_| 1.0);
    }

    /// The records that are found after this many equal intervals.
    fn after(intervals: u32, length: Duration, committed: u64, all: &[(u8, Access, u64)]) -> Vec<Contended> {
        let mut contention = Contention::default();
        (0..intervals).for_each(|_| observe(&mut contention, length, committed, all));
        contention.contended(|_| 1.0)
    }

    #[test]
    fn a_contended_record_is_found_in_the_second_interval_and_a_burst_never() {
        for (length, committed) in [(20, 100_000), (50, 250_000), (100, 500_000)] {
            let length = Duration::from_millis(length);
            let hot = [(1, ADD, committed / 500)];
            assert!(after(1, length, committed, &hot).is_empty());
            assert_eq!(after(2, length, committed, &hot).len(), 1);

            let mut contention = Contention::default();
            (0..10).for_each(|_| observe(&mut contention, length, committed, &[]));
            observe(&mut contention, length, committed, &[(1, ADD, committed / 10)]);
            for _ in 0..10 {
                assert!(contention.contended(|_| 1.0).is_empty());
                observe(&mut contention, length, committed, &[]);
            }
        }
    }

    #[test]
    fn short_phases_find_it_in_the_same_time() {
        let found_after = |length_ms: u64| {
            let hot = [(1, ADD, 10 * length_ms)];
            let mut contention = Contention::default();
            // A second without conflicts came before.
            (0..1000 / length_ms).for_each(|_| {
                observe(&mut contention, Duration::from_millis(length_ms), 5_000 * length_ms, &[]);
            });
            let intervals = (1..)
                .find(|_| {
                    observe(&mut contention, Duration::from_millis(length_ms), 5_000 * length_ms, &hot);
                    !contention.contended(|_| 1.0).is_empty()
                })
                .unwrap_or(u64::MAX);
            intervals * length_ms
        };
        for length_ms in [1, 2, 5, 10, 20, 50, 100] {
            let time = found_after(length_ms);
            assert!(time <= 45.max(2 * length_ms), "{length_ms} ms: found after {time} ms");
        }
        assert!(found_after(1) > 20, "a burst of a few milliseconds is not enough");
    }

    #[test]
    fn too_few_conflicts_make_nothing_contended() {
        // 0.01 % of the calls.
        assert!(after(50, PHASE, 100_000, &[(1, ADD, 10)]).is_empty());
        // A fair share, but two conflicts a phase.
        assert!(after(50, PHASE, 100, &[(1, ADD, 2)]).is_empty());
        assert_eq!(after(50, PHASE, 100, &[(1, ADD, 20)]).len(), 1);
    }

    #[test]
    fn conflicts_of_others_count_against_the_operation() {
        let found = |all: &[(u8, Access, u64)]| {
            after(5, PHASE, 100_000, all).iter().map(|contended| contended.columns.len()).sum::<usize>()
        };
        assert_eq!(found(&[(1, ADD, 300), (1, Access::Record, 800)]), 1);
        assert_eq!(found(&[(1, ADD, 300), (1, Access::Record, 1_000)]), 0);
        assert_eq!(found(&[(1, ADD, 300), (1, Access::Column(1), 1_000)]), 0);
        assert_eq!(found(&[(1, ADD, 300), (1, Access::Column(3), 1_000)]), 1, "another column's reads");
        assert_eq!(found(&[(1, Access::Record, 5_000), (1, Access::Column(1), 5_000)]), 0);
    }

    #[test]
    fn of_several_operations_on_a_column_the_most_frequent_is_chosen() {
        let found = after(3, PHASE, 100_000, &[(1, ADD, 200), (1, MAX, 300)]);
        let candidate = Candidate { record: record(1), column: 1, operation: Operation::Max };
        assert_eq!(found[0].columns, [candidate]);
    }

    #[test]
    fn columns_that_are_used_together_are_found_together() {
        let columns = |of_second: u64| {
            let found = after(3, PHASE, 100_000, &[(1, ADD, 300), (1, MAX_OF_2, of_second)]);
            found[0].columns.iter().map(|candidate| candidate.column).collect::<Vec<_>>()
        };
        assert_eq!(columns(300), [1, 2]);
        assert_eq!(columns(100), [1, 2]);
        assert_eq!(columns(20), [1]);
    }

    #[test]
    fn the_most_contended_comes_first_and_caution_asks_for_more() {
        let all = [(1, ADD, 60), (2, ADD, 90), (3, ADD, 70)];
        let order: Vec<_> =
            after(9, PHASE, 100_000, &all).iter().map(|found| found.columns[0].record.clone()).collect();
        assert_eq!(order, [record(2), record(3), record(1)]);

        let mut contention = Contention::default();
        let backoff_factors = |of: &RecordKey| if *of == record(2) { 8.0 } else { 1.0 };
        for _ in 0..9 {
            contention.observe(PHASE, 100_000, &counts(&all), |_, _| false, backoff_factors);
        }
        let found = contention.contended(backoff_factors);
        assert!(found.iter().all(|found| found.columns[0].record != record(2)));
        assert_eq!(found.len(), 2);
    }

    #[test]
    fn what_is_settled_or_forgotten_does_not_count() {
        let mut contention = Contention::default();
        for _ in 0..5 {
            let all = counts(&[(1, ADD, 300), (1, MAX_OF_2, 300), (2, ADD, 300)]);
            let settled = |of: &RecordKey, access: Access| *of == record(1) && access == ADD;
            contention.observe(PHASE, 100_000, &all, settled, |_| 1.0);
        }
        let found = contention.contended(|_| 1.0);
        assert_eq!(found.iter().map(|found| found.columns.len()).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(found[0].columns[0].column, 2);
        contention.forget(&record(1));
        assert_eq!(contention.contended(|_| 1.0).len(), 1);
        (0..40).for_each(|_| observe(&mut contention, PHASE, 100_000, &[]));
        assert!(contention.records.is_empty(), "conflicts fade");
    }
}
