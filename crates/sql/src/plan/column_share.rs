//! Shares of a table's rows by the distribution of one column, or of the two that a join compares.
//!
//! A value that is among the common ones has its own share; the others share evenly what is left. A range has the common
//! values in it, and of the buckets those below its end, the last one in part.
//!
//! # Invariants
//! - Values of another kind than the column's have no share here: they are not comparable.
//!
//! # Source
//! PostgreSQL's `var_eq_const`, `ineq_histogram_selectivity` and `eqjoinsel_inner` (selfuncs.c).

use std::mem::discriminant;

use crate::plan::column_statistics::ColumnStatistics;
use crate::run::operator::prefixes::{self, Beginning};
use crate::types::Value;

/// Factor by which the most frequent value must be more frequent than others to influence plans.
const SKEWED_FACTOR: f64 = 5.0;

impl ColumnStatistics {
    /// The share of rows whose value is common.
    fn common_share(&self) -> f64 {
        self.common.iter().map(|(_, share)| share).sum()
    }

    /// The share of rows that are neither NULL nor have a common value.
    fn other_share(&self) -> f64 {
        (1.0 - self.nulls - self.common_share()).max(0.0)
    }

    /// The share of rows with one value that is not common, on average.
    fn other_value_share(&self) -> f64 {
        let others = (self.distinct - self.common.len() as f64).max(1.0);
        let least_common = self.common.last().map_or(1.0, |(_, share)| *share);
        (self.other_share() / others).min(least_common)
    }

    /// Returns true if some values are much more frequent than others.
    pub(crate) fn is_skewed(&self) -> bool {
        let least = self.common.last().map_or(0.0, |(_, share)| *share);
        let least = if self.distinct > self.common.len() as f64 { self.other_value_share() } else { least };
        self.common.first().is_some_and(|(_, most)| *most > least * SKEWED_FACTOR)
    }

    /// Returns true if a value can be compared with the column's values.
    fn is_comparable(&self, value: &Value) -> bool {
        let known = self.common.first().map(|(value, _)| value).or(self.bounds.first());
        known.is_some_and(|known| {
            discriminant(known) == discriminant(value)
                || (known.as_integer().is_some() && value.as_integer().is_some())
        })
    }

    /// The share of rows with this value; `None` if nothing is known of it.
    pub(crate) fn share_of(&self, value: &Value) -> Option<f64> {
        if value.is_null() {
            return Some(0.0);
        }
        if !self.is_comparable(value) {
            return None;
        }
        let common = self.common.iter().find(|(common, _)| common == value);
        Some(common.map_or_else(|| self.other_value_share(), |(_, share)| *share))
    }

    /// The share of rows with one of these values.
    pub(crate) fn share_of_list<'v>(&self, values: impl IntoIterator<Item = &'v Value>) -> Option<f64> {
        let mut different: Vec<&Value> = values.into_iter().collect();
        different.sort_unstable();
        different.dedup();
        let shares = different.into_iter().map(|value| self.share_of(value));
        shares.sum::<Option<f64>>().map(|share| share.min(1.0 - self.nulls))
    }

    /// The share of rows whose value is less than this one, or equal to it; `None` if nothing is known of it.
    pub(crate) fn share_below(&self, value: &Value, inclusive: bool) -> Option<f64> {
        if value.is_null() {
            return Some(0.0);
        }
        if !self.is_comparable(value) {
            return None;
        }
        let is_below = |common: &Value| common < value || (inclusive && common == value);
        let common: f64 =
            self.common.iter().filter(|(common, _)| is_below(common)).map(|(_, share)| share).sum();
        let mut others = self.other_share() * self.bucket_position(value);
        let is_common = || self.common.iter().any(|(common, _)| common == value);
        if inclusive && self.is_within(value) && !is_common() {
            others = (others + self.other_value_share()).min(self.other_share());
        }
        Some(common + others)
    }

    fn is_within(&self, value: &Value) -> bool {
        let (first, last) = (self.bounds.first(), self.bounds.last());
        first.is_some_and(|first| first <= value) && last.is_some_and(|last| value <= last)
    }

    /// The share of the values in the histogram that are less than this one.
    fn bucket_position(&self, value: &Value) -> f64 {
        let buckets = self.bounds.len().saturating_sub(1);
        if buckets == 0 {
            return 0.5;
        }
        let position = match self.bounds.partition_point(|bound| bound < value) {
            0 => 0.0,
            above if above > buckets => buckets as f64,
            above => {
                (above - 1) as f64 + position_between(&self.bounds[above - 1], &self.bounds[above], value)
            }
        };
        // The sample need not hold the least and the greatest value.
        let cutoff = 0.01 / buckets as f64;
        (position / buckets as f64).clamp(cutoff, 1.0 - cutoff)
    }

    /// The share of rows between two bounds, each with whether it is inclusive. `None`: nothing is known of one of them.
    pub(crate) fn share_between(
        &self,
        lower: Option<(&Value, bool)>,
        upper: Option<(&Value, bool)>,
    ) -> Option<f64> {
        let below = |value: &Value, inclusive| self.share_below(value, inclusive);
        let is_null = |bound: Option<(&Value, bool)>| bound.is_some_and(|(value, _)| value.is_null());
        if is_null(lower) || is_null(upper) {
            return Some(0.0);
        }
        let least = match lower {
            Some((value, inclusive)) => below(value, !inclusive)?,
            None => 0.0,
        };
        let most = match upper {
            Some((value, inclusive)) => below(value, inclusive)?,
            None => 1.0 - self.nulls,
        };
        Some((most - least).max(0.0))
    }

    /// The share of rows whose text begins like this; `None` if that is not known.
    pub(crate) fn share_beginning(&self, beginning: &Beginning) -> Option<f64> {
        match beginning {
            Beginning::Unknown => None,
            Beginning::Exactly(text) => self.share_of(&Value::text(text.as_str())),
            Beginning::With(text) => {
                let (least, end) = (Value::text(text.as_str()), prefixes::end_of(text).map(Value::text));
                let share = self.share_between(Some((&least, true)), end.as_ref().map(|end| (end, false)))?;
                // Texts with the same beginning are in one bucket more often than evenly spread ones.
                Some(share.max(self.other_value_share()))
            }
        }
    }

    /// The share of pairs of rows, one of each table, whose values are equal. `None` if the values cannot be compared.
    pub(crate) fn share_of_join(&self, other: &ColumnStatistics) -> Option<f64> {
        let first = self.common.first().map(|(value, _)| value)?;
        if !other.is_comparable(first) || other.common.is_empty() {
            return None;
        }
        let (mut matched, mut here, mut there, mut matches) = (0.0, 0.0, 0.0, 0_usize);
        for (value, share) in &self.common {
            if let Some((_, of_other)) = other.common.iter().find(|(known, _)| known == value) {
                matched += share * of_other;
                here += share;
                there += of_other;
                matches += 1;
            }
        }
        let total = |one: &ColumnStatistics, own: f64, two: &ColumnStatistics, of_two: f64| {
            let (unmatched, unmatched_of_two) = (one.common_share() - own, two.common_share() - of_two);
            let mut total = matched;
            if two.distinct > two.common.len() as f64 {
                total += unmatched * two.other_share() / (two.distinct - two.common.len() as f64);
            }
            if two.distinct > matches as f64 {
                total += one.other_share() * (two.other_share() + unmatched_of_two)
                    / (two.distinct - matches as f64);
            }
            total
        };
        Some(total(self, here, other, there).min(total(other, there, self, here)))
    }
}

/// The position of a value between two others, from 0 to 1.
fn position_between(low: &Value, high: &Value, value: &Value) -> f64 {
    let numbers = (number(low), number(high), number(value));
    let position = match (numbers, (bytes(low), bytes(high), bytes(value))) {
        ((Some(low), Some(high), Some(value)), _) => (value - low) / (high - low),
        (_, (Some(low), Some(high), Some(value))) => {
            let shared = low.iter().zip(high).take_while(|(one, other)| one == other).count();
            let fraction = |bytes: &[u8]| {
                let rest = bytes.iter().skip(shared).take(6);
                rest.fold((0.0, 1.0 / 256.0), |(sum, unit), byte| {
                    (sum + f64::from(*byte) * unit, unit / 256.0)
                })
                .0
            };
            (fraction(value) - fraction(low)) / (fraction(high) - fraction(low))
        }
        _ => 0.5,
    };
    if position.is_finite() { position.clamp(0.0, 1.0) } else { 0.5 }
}

/// A value as a number on a scale of its kind.
fn number(value: &Value) -> Option<f64> {
    if let Some(integer) = value.as_integer() {
        return Some(integer as f64);
    }
    Some(match value {
        Value::Float4(value) => f64::from(*value),
        Value::Float8(value) => *value,
        Value::Numeric(value) => value.to_f64(),
        Value::Date(days) => f64::from(*days),
        Value::Enum(place) => f64::from(*place),
        Value::Time(micros) | Value::Timestamp(micros) | Value::Timestamptz(micros) => *micros as f64,
        _ => return None,
    })
}

fn bytes(value: &Value) -> Option<&[u8]> {
    Some(match value {
        Value::Text(text) | Value::Bpchar(text) => text.as_bytes(),
        Value::Bytes(bytes) => bytes,
        Value::Uuid(bytes) => bytes,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::column_statistics::Sampled;
    use crate::plan::node::Pattern;
    use crate::types::Type;

    fn of(values: &[Value]) -> ColumnStatistics {
        let (ty, rows) = (Type::Int4, values.len() as f64);
        let sampled = Sampled { ty, rows, is_whole: true, target: 100, distinct: None };
        ColumnStatistics::of(&values.iter().collect::<Vec<_>>(), sampled)
    }

    /// Half of the rows are 7, the others are 1,000 to 1,999.
    fn skewed() -> ColumnStatistics {
        of(&(0..2_000)
            .map(|at| Value::Int4(if at % 2 == 0 { 7 } else { 1_000 + at / 2 }))
            .collect::<Vec<_>>())
    }

    fn near(found: Option<f64>, expected: f64) {
        let found = found.expect("it has a share");
        assert!((found - expected).abs() < 0.01, "{found} {expected}");
    }

    #[test]
    fn common_values_have_their_own_share() {
        let column = skewed();
        near(column.share_of(&Value::Int4(7)), 0.5);
        near(column.share_of(&Value::Int8(7)), 0.5);
        near(column.share_of(&Value::Int4(1_500)), 0.0005);
        near(column.share_of_list([&Value::Int4(7), &Value::Int4(7), &Value::Int4(1_001)]), 0.5);
        assert_eq!(column.share_of(&Value::Null), Some(0.0));
        assert_eq!(column.share_of(&Value::text("7")), None);
        assert_eq!(ColumnStatistics::unknown().share_of(&Value::Int4(7)), None);
    }

    #[test]
    fn values_are_skewed_where_some_are_much_more_frequent() {
        assert!(skewed().is_skewed());
        let even = |count: i32| of(&(0..1_000).map(|at| Value::Int4(at % count)).collect::<Vec<_>>());
        assert!(
            !even(10).is_skewed() && !even(1_000).is_skewed() && !ColumnStatistics::unknown().is_skewed()
        );
        let all_common = of(&(0..1_000).map(|at| Value::Int4((at % 100 == 0).into())).collect::<Vec<_>>());
        assert!(all_common.is_skewed());
    }

    #[test]
    fn ranges_have_the_common_values_and_the_buckets_in_them() {
        let column = skewed();
        for (below, inclusive, expected) in
            [(7, false, 0.0), (7, true, 0.5), (1_500, false, 0.75), (1_250, true, 0.625), (9_999, true, 1.0)]
        {
            near(column.share_below(&Value::Int4(below), inclusive), expected);
        }
        let (one, two) = (Value::Int4(1_100), Value::Int4(1_200));
        near(column.share_between(Some((&one, true)), Some((&two, false))), 0.05);
        near(column.share_between(Some((&two, true)), Some((&one, true))), 0.0);
        near(column.share_between(Some((&one, false)), None), 0.45);
        assert_eq!(column.share_between(Some((&Value::Null, true)), None), Some(0.0));
        assert_eq!(column.share_between(Some((&Value::Float8(1.0), true)), None), None);
    }

    #[test]
    fn texts_lie_in_buckets_by_their_bytes() {
        let values: Vec<Value> = (0..1_000).map(|at| Value::text(format!("user-{at:03}"))).collect();
        let column = of(&values);
        near(column.share_below(&Value::text("user-25"), false), 0.25);
        near(column.share_beginning(&prefixes::of("user-3%", Pattern::Like)), 0.1);
        near(column.share_beginning(&prefixes::of("user-777", Pattern::Like)), 0.001);
        near(column.share_beginning(&prefixes::of("z%", Pattern::Like)), 0.001);
        assert_eq!(column.share_beginning(&prefixes::of("%z", Pattern::Like)), None);
    }

    #[test]
    fn other_kinds_of_values_lie_in_buckets_by_their_distances() {
        let dates: Vec<Value> = (0..365).map(Value::Date).collect();
        near(of(&dates).share_below(&Value::Date(73), false), 0.2);
        let uuids: Vec<Value> = (0..=255_u8).map(|at| Value::Uuid([at; 16])).collect();
        near(of(&uuids).share_below(&Value::Uuid([64; 16]), false), 0.25);
        let numbers: Vec<Value> = (0..1_000).map(|at| Value::Float8(f64::from(at) / 10.0)).collect();
        near(of(&numbers).share_below(&Value::Float8(50.05), false), 0.5);
    }

    #[test]
    fn joins_match_common_values_with_each_other() {
        let (skewed, even) = (skewed(), of(&(0..1_000).map(|at| Value::Int4(at % 10)).collect::<Vec<_>>()));
        // 7 is half of the rows here, and a tenth there.
        near(skewed.share_of_join(&even), 0.05);
        near(even.share_of_join(&skewed), 0.05);
        near(skewed.share_of_join(&skewed), 0.25);
        assert_eq!(ColumnStatistics::unknown().share_of_join(&even), None);
    }
}
