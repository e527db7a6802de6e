//! Samples of tables' rows: the planner evaluates conditions and expressions on them to estimate how many rows pass, and how
//! many different values there are.
//!
//! A sample estimates any expression over a table's columns, where a histogram estimates one column, and several
//! conditions together, so that the shares of conditions that depend on each other are not multiplied.
//!
//! # Invariants
//! - Only expressions that have the same value every time are evaluated: no volatile or stable function, no subquery,
//!   no parameter. An expression that fails has no estimate.
//! - The kept rows are bounded in number and in bytes.

use std::collections::BTreeSet;

use crate::bind::routines::is_call;
use crate::bind::tree::{BoundExpr, RelationId};
use crate::functions::Volatility;
use crate::plan::layout::Layout;
use crate::plan::walk::walk;
use crate::run::memory::row_bytes;
use crate::types::Value;

/// Maximum number of examined rows that are kept.
const ROWS_MAX: usize = 300;
/// Approximate maximum memory.
const BYTES_MAX: usize = 256 << 10;
/// Minimum number of rows of a useful sample, unless it is the whole table.
const ROWS_MIN: usize = 50;
/// Minimum number of matching rows for a sample's share to be used as it is.
const MATCHES_MIN: usize = 4;

/// Some rows of a table, all columns of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    rows: Vec<Vec<Value>>,
    /// True if these are all of the table's rows.
    is_whole: bool,
}

/// An estimate by a sample: the share of rows that meet conditions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Share {
    /// This share of the rows passes.
    Of(f64),
    /// So few rows of the sample pass that the share is only known to be at most this.
    AtMost(f64),
}

impl Sample {
    /// Keeps some of the rows that were examined, one of each of equally many neighbors: not at even distances, by
    /// which columns that repeat would have few of their values.
    pub(crate) fn of(rows: Vec<Vec<Value>>, is_whole: bool) -> Sample {
        let (count, bytes) = (rows.len(), rows.iter().map(|row| row_bytes(row)).sum::<usize>());
        // Fewer wide rows are kept, but from the whole table, too.
        let most = ROWS_MAX.min((BYTES_MAX * count).checked_div(bytes).unwrap_or(ROWS_MAX));
        if count <= most {
            return Sample { rows, is_whole };
        }
        let place = |number: usize| {
            let (start, end) = (number * count / most, (number + 1) * count / most);
            start + scattered(number) % (end - start).max(1)
        };
        let mut wanted = (0..most).map(place).peekable();
        let is_kept = |(at, row)| wanted.next_if_eq(&at).map(|_| row);
        Sample { rows: rows.into_iter().enumerate().filter_map(is_kept).collect(), is_whole: false }
    }

    /// The share of rows for which all of these conditions on one relation hold.
    pub(crate) fn share(&self, conditions: &[&BoundExpr]) -> Option<Share> {
        let (relation, count) = (self.one_relation(conditions)?, self.len()?);
        let mut passing = vec![true; count];
        for condition in conditions {
            self.each_value(condition, relation, &mut |at, value| {
                passing[at] &= matches!(value, Value::Bool(true));
            })?;
        }
        let matches = passing.into_iter().filter(|passes| *passes).count();
        Some(if self.is_whole || matches >= MATCHES_MIN {
            Share::Of(matches.max(1) as f64 / count as f64)
        } else {
            Share::AtMost((matches + 1) as f64 / count as f64)
        })
    }

    /// Estimates the number of different values of an expression over one relation of this many rows.
    pub(crate) fn distinct(&self, expr: &BoundExpr, rows: f64) -> Option<f64> {
        let (relation, count) = (self.one_relation(&[expr])?, self.len()?);
        let mut values: hashbrown::HashMap<Value, usize> = hashbrown::HashMap::new();
        self.each_value(expr, relation, &mut |_, value| *values.entry(value).or_default() += 1)?;
        let once = values.values().filter(|count| **count == 1).count();
        let rows = if self.is_whole { count as f64 } else { rows };
        Some(duj1(values.len() as f64, once as f64, count as f64, rows))
    }

    /// The relation whose columns these expressions name, if it is one, and if they can be evaluated on a sample.
    fn one_relation(&self, exprs: &[&BoundExpr]) -> Option<RelationId> {
        // A table may have more columns than it had when the sample was read.
        let width = self.rows.first().map_or(0, Vec::len);
        let (mut relations, mut is_fixed) = (BTreeSet::new(), true);
        for expr in exprs {
            walk(expr, &mut |part| match part {
                BoundExpr::Column { relation, column, .. } => {
                    is_fixed &= *column < width;
                    relations.insert(*relation);
                }
                BoundExpr::Call { function, .. } | BoundExpr::Operator { operator: function, .. } => {
                    is_fixed &= function.volatility == Volatility::Immutable && !is_call(function);
                }
                BoundExpr::Parameter { .. }
                | BoundExpr::Subquery(_)
                | BoundExpr::SetReturning { .. }
                | BoundExpr::Group { .. }
                | BoundExpr::Aggregate { .. }
                | BoundExpr::Window { .. }
                | BoundExpr::Grouping(_) => is_fixed = false,
                _ => {}
            });
        }
        let mut relations = relations.into_iter();
        match (relations.next(), relations.next()) {
            (Some(relation), None) if is_fixed => Some(relation),
            _ => None,
        }
    }

    /// The number of its rows, if they are enough for an estimate.
    fn len(&self) -> Option<usize> {
        let is_enough = self.rows.len() >= ROWS_MIN || (self.is_whole && !self.rows.is_empty());
        is_enough.then_some(self.rows.len())
    }

    /// Evaluates an expression for each row.
    fn each_value(
        &self,
        expr: &BoundExpr,
        relation: RelationId,
        each: &mut dyn FnMut(usize, Value),
    ) -> Option<()> {
        let layout = Layout::of_relation(relation, 0..self.rows.first()?.len());
        let expr = crate::plan::translate::alone(expr, &layout).ok()?;
        let rows = self.rows.iter().map(Vec::as_slice);
        crate::run::evaluate_rows(&expr, rows, each).ok()
    }
}

/// A number that depends on another one and looks like chance.
///
/// # Source
/// Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014: the finalizer of SplitMix.
pub(crate) fn scattered(number: usize) -> usize {
    let mut mixed = (number as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) as usize
}

/// Estimates the number of different values in a table, where a sample has `distinct` ones, `once` of them in one row
/// only.
///
/// Source: Haas and Stokes, "Estimating the number of classes in a finite population", 1998: the estimator Duj1, as ANALYZE
/// of PostgreSQL uses it.
pub(crate) fn duj1(distinct: f64, once: f64, sampled: f64, rows: f64) -> f64 {
    let (sampled, rows) = (sampled.max(1.0), rows.max(1.0).max(sampled));
    let estimate = sampled * distinct / (sampled - once + once * sampled / rows);
    estimate.clamp(distinct.max(1.0), rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::resolve::{Called, resolve_function, resolve_operator};
    use crate::types::{Modifier, Type};

    const RELATION: RelationId = RelationId(7);

    /// Rows of a number and whether it is even.
    fn numbers(count: i32) -> Vec<Vec<Value>> {
        (0..count).map(|number| vec![Value::Int4(number), Value::Bool(number % 2 == 0)]).collect()
    }

    fn column(column: usize, ty: Type) -> BoundExpr {
        BoundExpr::Column { relation: RELATION, column, ty }
    }

    fn compare(symbol: &str, value: i32) -> BoundExpr {
        let operator = resolve_operator(symbol, Type::Int4, Type::Int4).unwrap().function;
        let args = vec![column(0, Type::Int4), BoundExpr::constant(Value::Int4(value), Type::Int4)];
        BoundExpr::Operator { operator, args, ty: Type::Bool }
    }

    fn share(sample: &Sample, conditions: &[BoundExpr]) -> Option<Share> {
        sample.share(&conditions.iter().collect::<Vec<_>>())
    }

    #[test]
    fn columns_that_repeat_have_all_of_their_values_in_a_sample() {
        for period in [100, 200, 64, 7] {
            let rows = (0..20_000).map(|at| vec![Value::Int4(at % period), Value::Null]).collect();
            let sample = Sample::of(rows, false);
            let Some(Share::Of(share)) = share(&sample, &[compare("<", period / 2)]) else {
                panic!("{period} has a share")
            };
            assert!((0.4..0.6).contains(&share), "{period} {share}");
        }
    }

    #[test]
    fn the_share_of_a_large_table_is_that_of_rows_from_all_of_it() {
        let sample = Sample::of(numbers(3_000), false);
        assert_eq!(sample.rows.len(), ROWS_MAX);
        let Some(Share::Of(share)) = share(&sample, &[compare("<", 600)]) else { panic!("it has a share") };
        assert!((share - 0.2).abs() < 0.01, "{share}");
    }

    #[test]
    fn conditions_that_depend_on_each_other_are_not_multiplied() {
        let sample = Sample::of(numbers(200), true);
        let both = [compare("<", 100), compare("<", 120)];
        assert_eq!(share(&sample, &both), Some(Share::Of(0.5)));
        assert_eq!(
            share(&sample, &[compare("<", 100), BoundExpr::Not(Box::new(column(1, Type::Bool)))]),
            Some(Share::Of(0.25))
        );
    }

    #[test]
    fn what_hardly_any_row_of_a_sample_passes_is_bounded() {
        let sample = Sample::of(numbers(3_000), false);
        assert_eq!(share(&sample, &[compare("<", -1)]), Some(Share::AtMost(1.0 / 300.0)));
        // All rows of a small table are known.
        let whole = Sample::of(numbers(10), true);
        assert_eq!(share(&whole, &[compare("=", 3)]), Some(Share::Of(0.1)));
    }

    #[test]
    fn what_cannot_be_evaluated_has_no_share() {
        let sample = Sample::of(numbers(100), true);
        let parameter = BoundExpr::Parameter { number: 0, ty: Type::Bool };
        assert_eq!(share(&sample, &[parameter]), None);
        assert_eq!(share(&sample, &[]), None);
        assert_eq!(share(&Sample::default(), &[compare("<", 1)]), None);
        assert_eq!(share(&Sample::of(numbers(20), false), &[compare("<", 1)]), None, "too few rows");
        let operator = resolve_operator("/", Type::Int4, Type::Int4).unwrap().function;
        let args = vec![BoundExpr::constant(Value::Int4(1), Type::Int4), column(0, Type::Int4)];
        let quotient = BoundExpr::Operator { operator, args, ty: Type::Int4 };
        assert_eq!(sample.distinct(&quotient, 100.0), None, "it divides by zero");
        let Ok(Called::Function(repeat)) = resolve_function("repeat", &[Type::Text, Type::Int4], false)
        else {
            panic!("it is a function")
        };
        let args = vec![
            BoundExpr::Cast {
                operand: Box::new(column(0, Type::Int4)),
                ty: Type::Text,
                modifier: Modifier::NONE,
                explicit: true,
            },
            BoundExpr::constant(Value::Int4(100_000), Type::Int4),
        ];
        let large = BoundExpr::Call { function: repeat.function, args, ty: Type::Text };
        assert_eq!(sample.distinct(&large, 100.0), None, "its values are large");
    }

    #[test]
    fn a_column_that_was_added_since_has_no_share() {
        let sample = Sample::of(numbers(100), true);
        assert_eq!(share(&sample, &[column(2, Type::Bool)]), None);
        assert_eq!(share(&sample, &[column(crate::plan::scan::HIDDEN_KEY, Type::Bool)]), None);
    }

    #[test]
    fn different_values_of_an_expression_are_estimated_for_the_whole_table() {
        let operator = resolve_operator("%", Type::Int4, Type::Int4).unwrap().function;
        let args = vec![column(0, Type::Int4), BoundExpr::constant(Value::Int4(7), Type::Int4)];
        let remainder = BoundExpr::Operator { operator, args, ty: Type::Int4 };
        let sample = Sample::of(numbers(3_000), false);
        assert_eq!(sample.distinct(&remainder, 1e6), Some(7.0));
        assert!(sample.distinct(&column(0, Type::Int4), 1e6).unwrap() > 9e5);
        assert_eq!(Sample::of(numbers(20), true).distinct(&column(0, Type::Int4), 1e6), Some(20.0));
    }

    #[test]
    fn large_rows_are_kept_up_to_a_bound() {
        let rows = (0..100).map(|_| vec![Value::text("x".repeat(10_000))]).collect();
        let sample = Sample::of(rows, true);
        assert!(sample.rows.len() < 30 && !sample.is_whole);
    }
}
