//! The distribution of a column's values: how many differ, the most frequent ones, and a histogram of the others.
//!
//! All of it is computed from one sorted sample. A value that is so frequent in the sample that its frequency is known better than the
//! average of the rare ones gets an entry of its own; the others fall into buckets of equally many rows.
//!
//! # Invariants
//! - `common` is in descending order of frequency, and no value of it is in `bounds` as one of the others.
//! - `bounds` is in ascending order, and has no or at least two values.
//!
//! # Source
//! PostgreSQL's `compute_scalar_stats` and `analyze_mcv_list` (analyze.c).

use crate::catalog::Column;
use crate::plan::sample::duj1;
use crate::types::{Type, Value};

/// Values of more bytes are counted, but neither compared nor kept.
const WIDTH_MAX: usize = 1_024;
/// Number of different values assumed of a column that was never sampled.
const DISTINCT_DEFAULT: f64 = 200.0;

/// The distribution of a column's values.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnStatistics {
    /// Number of different values.
    pub(crate) distinct: f64,
    /// The share of rows whose value is NULL.
    pub(crate) nulls: f64,
    /// The average number of bytes of a value, as PostgreSQL stores it.
    pub(crate) width: f64,
    /// The most frequent values, each with its share of all rows.
    pub(crate) common: Vec<(Value, f64)>,
    /// Bounds of buckets that hold equally many of the other values.
    pub(crate) bounds: Vec<Value>,
    /// Correlation of the values' order with the rows' order: 1 if they are the same, -1 if one is the reverse of the
    /// other.
    pub(crate) correlation: Option<f64>,
}

/// The column that sampled values belong to, and its table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampled {
    pub(crate) ty: Type,
    /// Number of rows of the table.
    pub(crate) rows: f64,
    /// True if the sample holds all of them.
    pub(crate) is_whole: bool,
    /// Number of common values and number of buckets that are kept.
    pub(crate) target: usize,
    /// Number of different values that the column's definition declares.
    pub(crate) distinct: Option<f64>,
}

impl Sampled {
    /// A column of a table with this many rows. `target`: of columns that do not say it themselves.
    pub(crate) fn new(column: &Column, rows: f64, is_whole: bool, target: usize) -> Sampled {
        let target = column.settings.statistics.map_or(target, |target| target.max(0) as usize);
        let distinct = declared_distinct(&column.settings.options, rows);
        Sampled { ty: column.ty, rows, is_whole, target, distinct }
    }
}

impl ColumnStatistics {
    /// The statistics assumed of a column that was never sampled.
    pub(crate) fn unknown() -> ColumnStatistics {
        ColumnStatistics {
            distinct: DISTINCT_DEFAULT,
            nulls: 0.01,
            width: 8.0,
            common: Vec::new(),
            bounds: Vec::new(),
            correlation: None,
        }
    }

    /// The distribution of a column with these sampled values, in the order of the rows.
    pub(crate) fn of(values: &[&Value], sampled: Sampled) -> ColumnStatistics {
        let count = values.len().max(1) as f64;
        let present: Vec<&Value> = values.iter().copied().filter(|value| !value.is_null()).collect();
        let nulls = (values.len() - present.len()) as f64 / count;
        let width = present.iter().map(|value| stored_width(sampled.ty, value)).sum::<f64>();
        let width = width / present.len().max(1) as f64;
        let narrow = present.iter().enumerate().filter(|(_, value)| value.heap_size() <= WIDTH_MAX);
        let mut sorted: Vec<(usize, &Value)> = narrow.map(|(at, value)| (at, *value)).collect();
        let too_wide = present.len() - sorted.len();
        let target = sampled.target;
        if sorted.is_empty() || !is_ordered(sorted[0].1) || target == 0 {
            let distinct = sampled.distinct.unwrap_or(DISTINCT_DEFAULT);
            let distinct = if present.is_empty() { 0.0 } else { distinct.min(sampled.rows.max(1.0)) };
            return ColumnStatistics { distinct, nulls, width, ..ColumnStatistics::unknown() };
        }
        // Ties stay in the order of the rows.
        sorted.sort_by(|(_, one), (_, other)| one.order(other));
        let groups = groups_of(&sorted);
        let once = groups.iter().filter(|group| group.count == 1).count() + too_wide;
        let (different, present_rows) = ((groups.len() + too_wide) as f64, sampled.rows * (1.0 - nulls));
        let estimated = duj1(different, once as f64, present.len() as f64, present_rows).round();
        let distinct = sampled.distinct.unwrap_or(estimated);
        let mut frequent = most_frequent(&groups, target);
        let all_are_common =
            frequent.len() == groups.len() && too_wide == 0 && distinct <= sampled.rows * SCALING_SHARE;
        if !all_are_common && !sampled.is_whole {
            let of = Frequencies { rows: sampled.rows, sampled: count, nulls, distinct };
            frequent.truncate(of.significant(&frequent));
        }
        let bounds = bounds_of(&sorted, &frequent, groups.len(), target);
        let correlation = correlation_of(&sorted);
        let share = |group: &Group<'_>| (group.value.clone(), group.count as f64 / count);
        let common = frequent.iter().map(share).collect();
        ColumnStatistics { distinct, nulls, width, common, bounds, correlation }
    }

    /// The number of different values as `pg_stats` has it: minus its share of the rows, where it grows with them.
    pub(crate) fn shown_distinct(&self, rows: f64) -> f64 {
        let grows = self.distinct > rows * SCALING_SHARE;
        if grows { -(self.distinct / rows.max(1.0)).min(1.0) } else { self.distinct }
    }
}

/// Share of the rows from which on the number of different values is assumed to grow with them.
const SCALING_SHARE: f64 = 0.1;

/// Equal values of a sorted sample.
#[derive(Clone, Copy, Debug)]
struct Group<'v> {
    value: &'v Value,
    count: usize,
}

fn groups_of<'v>(sorted: &[(usize, &'v Value)]) -> Vec<Group<'v>> {
    let mut groups: Vec<Group<'v>> = Vec::new();
    for (_, value) in sorted {
        match groups.last_mut() {
            Some(group) if group.value == *value => group.count += 1,
            _ => groups.push(Group { value, count: 1 }),
        }
    }
    groups
}

/// The most frequent values that occur more than once, at most `target`.
fn most_frequent<'v>(groups: &[Group<'v>], target: usize) -> Vec<Group<'v>> {
    let mut frequent: Vec<Group<'v>> = groups.iter().copied().filter(|group| group.count > 1).collect();
    frequent.sort_by_key(|group| std::cmp::Reverse(group.count));
    frequent.truncate(target);
    frequent
}

/// The numbers that decide whether a value's frequency in a sample says more than the average.
struct Frequencies {
    rows: f64,
    sampled: f64,
    nulls: f64,
    distinct: f64,
}

impl Frequencies {
    /// Returns how many of these values are more frequent than the others are on average, by more than chance explains.
    fn significant(&self, frequent: &[Group<'_>]) -> usize {
        let (rows, sampled) = (self.rows.max(2.0), self.sampled);
        let mut kept = frequent.len();
        let mut before: usize = frequent.iter().map(|group| group.count).sum();
        while kept > 0 {
            let count = frequent[kept - 1].count as f64;
            before -= frequent[kept - 1].count;
            let rest = (1.0 - before as f64 / sampled - self.nulls).clamp(0.0, 1.0);
            let average = rest / (self.distinct - (kept - 1) as f64).max(1.0);
            // The variance of a hypergeometric distribution.
            let of_table = rows * count / sampled;
            let variance =
                sampled * of_table * (rows - of_table) * (rows - sampled) / (rows * rows * (rows - 1.0));
            if count > average * sampled + 2.0 * variance.max(0.0).sqrt() + 0.5 {
                break;
            }
            kept -= 1;
        }
        kept
    }
}

/// Bounds of at most `target` buckets of the values that are not common.
fn bounds_of(
    sorted: &[(usize, &Value)],
    frequent: &[Group<'_>],
    different: usize,
    target: usize,
) -> Vec<Value> {
    let count = (different - frequent.len()).min(target + 1);
    if count < 2 {
        return Vec::new();
    }
    let is_common = |value: &Value| frequent.iter().any(|group| group.value == value);
    let mut others: Vec<&Value> = Vec::with_capacity(sorted.len());
    let mut last: Option<(&Value, bool)> = None;
    for (_, value) in sorted {
        let skipped = match last {
            Some((known, skipped)) if known == *value => skipped,
            _ => is_common(value),
        };
        last = Some((value, skipped));
        if !skipped {
            others.push(value);
        }
    }
    (0..count).map(|at| others[at * (others.len() - 1) / (count - 1)].clone()).collect()
}

/// The correlation of the order of the rows and that of their values.
fn correlation_of(sorted: &[(usize, &Value)]) -> Option<f64> {
    let count = sorted.len() as f64;
    if sorted.len() < 2 {
        return None;
    }
    let sum = count * (count - 1.0) / 2.0;
    let squares = (count - 1.0) * count * (2.0 * count - 1.0) / 6.0;
    let mut positions: Vec<usize> = sorted.iter().map(|(at, _)| *at).collect();
    // The places among the values that are compared.
    let mut order: Vec<usize> = (0..positions.len()).collect();
    order.sort_by_key(|at| positions[*at]);
    order.iter().enumerate().for_each(|(place, at)| positions[*at] = place);
    let products: f64 = positions.iter().enumerate().map(|(at, place)| at as f64 * *place as f64).sum();
    Some((count * products - sum * sum) / (count * squares - sum * sum))
}

/// Returns true if values of this kind have an order.
fn is_ordered(value: &Value) -> bool {
    !matches!(value, Value::Json(_) | Value::Void)
}

/// Number of bytes that PostgreSQL stores for a value.
fn stored_width(ty: Type, value: &Value) -> f64 {
    let length = ty.length();
    if length > 0 {
        return f64::from(length);
    }
    let bytes = match value {
        Value::Text(text) | Value::Bpchar(text) | Value::Json(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        other => other.heap_size(),
    };
    // A header of one byte, or of four for long values.
    (bytes + if bytes < 127 { 1 } else { 4 }) as f64
}

/// The number of different values declared by `ALTER COLUMN … SET (n_distinct = …)`: a count, or minus their share of
/// the rows.
fn declared_distinct(options: &[String], rows: f64) -> Option<f64> {
    let option = options.iter().find_map(|option| option.strip_prefix("n_distinct="))?;
    let declared: f64 = option.trim_matches('\'').parse().ok()?;
    match declared {
        share if share < 0.0 => Some((-share * rows).max(1.0)),
        count if count > 0.0 => Some(count),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[Value], sampled: Sampled) -> ColumnStatistics {
        ColumnStatistics::of(&values.iter().collect::<Vec<_>>(), sampled)
    }

    fn whole(rows: usize) -> Sampled {
        Sampled { ty: Type::Int4, rows: rows as f64, is_whole: true, target: 100, distinct: None }
    }

    fn part_of(rows: usize) -> Sampled {
        Sampled { is_whole: false, ..whole(rows) }
    }

    #[test]
    fn a_frequent_value_is_common_and_the_others_fill_buckets() {
        let values: Vec<Value> =
            (0..1_000).map(|at| Value::Int4(if at % 2 == 0 { -1 } else { at })).collect();
        let found = of(&values, whole(1_000));
        assert_eq!(found.common, [(Value::Int4(-1), 0.5)]);
        assert_eq!(found.distinct, 501.0);
        assert_eq!(found.bounds.len(), 101);
        assert_eq!((&found.bounds[0], &found.bounds[100]), (&Value::Int4(1), &Value::Int4(999)));
        assert!(found.bounds.is_sorted());
        assert!((found.shown_distinct(1_000.0) + 0.501).abs() < 1e-9);
    }

    #[test]
    fn few_values_are_all_common_and_need_no_buckets() {
        let values: Vec<Value> = (0..1_000).map(|at| Value::Int4(at % 10)).collect();
        let found = of(&values, part_of(1_000_000));
        assert_eq!(found.common.len(), 10);
        assert!(found.common.iter().all(|(_, share)| (share - 0.1).abs() < 1e-9) && found.bounds.is_empty());
        assert_eq!(found.shown_distinct(1e6), 10.0);
    }

    #[test]
    fn what_a_sample_holds_twice_by_chance_is_not_common() {
        let values: Vec<Value> = (0..1_000).map(|at| Value::Int4(if at == 500 { 499 } else { at })).collect();
        let found = of(&values, part_of(1_000_000));
        assert_eq!(found.common, []);
        assert!(found.distinct > 1e5, "{}", found.distinct);
    }

    #[test]
    fn the_correlation_is_of_the_rows_order() {
        let ascending: Vec<Value> = (0..100).map(Value::Int4).collect();
        assert_eq!(of(&ascending, whole(100)).correlation, Some(1.0));
        let descending: Vec<Value> = (0..100).rev().map(Value::Int4).collect();
        assert_eq!(of(&descending, whole(100)).correlation, Some(-1.0));
        let mixed: Vec<Value> = (0..1_000).map(|at| Value::Int4(at * 7_919 % 1_000)).collect();
        assert!(of(&mixed, whole(1_000)).correlation.expect("it has one").abs() < 0.1);
        assert_eq!(of(&[Value::Int4(1)], whole(1)).correlation, None);
    }

    #[test]
    fn columns_of_nulls_or_without_an_order_have_counts_alone() {
        let found = of(&[Value::Null, Value::Null], whole(2));
        assert_eq!((found.nulls, found.distinct, found.common.len()), (1.0, 0.0, 0));
        let found = of(&[], whole(0));
        assert!(found.distinct.is_finite() && found.nulls.is_finite() && found.width.is_finite());
        let json: Vec<Value> = (0..3).map(|_| Value::Json("1".into())).collect();
        let found = of(&json, Sampled { ty: Type::Json, ..whole(3) });
        assert!(found.common.is_empty() && found.bounds.is_empty() && found.width == 2.0);
    }

    #[test]
    fn a_column_decides_how_much_is_kept_and_how_many_values_it_has() {
        let values: Vec<Value> = (0..1_000).map(|at| Value::Int4(at / 2)).collect();
        let distinct = declared_distinct(&["n_distinct=-0.25".to_string()], 1_000.0);
        let found = of(&values, Sampled { target: 5, distinct, ..whole(1_000) });
        assert_eq!((found.common.len(), found.bounds.len(), found.distinct), (5, 6, 250.0));
        let found = of(&values, Sampled { target: 0, ..whole(1_000) });
        assert!(found.common.is_empty() && found.bounds.is_empty());
        for (option, expected) in
            [("n_distinct=50", Some(50.0)), ("n_distinct=0", None), ("n_distinct_inherited=5", None)]
        {
            assert_eq!(declared_distinct(&[option.to_string()], 1_000.0), expected, "{option}");
        }
    }

    #[test]
    fn long_values_are_counted_and_not_kept() {
        let long = Value::text("x".repeat(2_000));
        let values = [long.clone(), long, Value::text("a"), Value::text("a")];
        let found = of(&values, Sampled { ty: Type::Text, ..whole(4) });
        assert_eq!(found.common, [(Value::text("a"), 0.5)]);
        assert_eq!(found.width, (2_004.0 * 2.0 + 2.0 * 2.0) / 4.0);
    }
}
