//! Estimates of the share of a table's rows that parts of keys and bounds leave, by the distribution of the column's
//! values.
//!
//! # Invariants
//! - A value that is not known yet, a parameter's or another table's, leaves what values do on average.

use super::{AtomKind, KeyPart, Search};
use crate::bind::tree::BoundExpr;
use crate::plan::column_statistics::ColumnStatistics;
use crate::run::operator::prefixes;
use crate::types::Value;

/// Number of values that the array of `= ANY` is assumed to have.
const ELEMENTS_DEFAULT: f64 = 10.0;

impl Search<'_, '_> {
    /// The share of rows in which a column is NULL.
    fn nulls(&self, column: usize) -> f64 {
        self.statistics.columns.get(column).map_or(0.0, |column| column.nulls)
    }

    /// Estimates the share of the rows that has a part of a key, and the number of searches for it.
    pub(super) fn estimate(&self, column: usize, part: KeyPart<'_>) -> (f64, f64) {
        let known = 1.0 - self.nulls(column);
        let several = |count: f64| (count * known / self.distinct(column)).min(1.0);
        let of_list =
            |values: &[&Value]| self.statistics.columns.get(column)?.share_of_list(values.iter().copied());
        let of_exprs = |list: &[BoundExpr]| {
            let values: Option<Vec<&Value>> = list.iter().map(constant).collect();
            let share = values.and_then(|values| of_list(&values));
            (share.unwrap_or_else(|| several(list.len() as f64)), (list.len() as f64).max(1.0))
        };
        match part {
            KeyPart::Value(value) => of_exprs(std::slice::from_ref(value)),
            KeyPart::OneOf(list) => of_exprs(list),
            KeyPart::Element(array) => match constant(array) {
                Some(Value::Array(array)) => {
                    let count = array.values.len() as f64;
                    let share = of_list(&array.values.iter().collect::<Vec<_>>());
                    (share.unwrap_or_else(|| several(count)), count.max(1.0))
                }
                _ => (several(ELEMENTS_DEFAULT), ELEMENTS_DEFAULT),
            },
            KeyPart::Null => (self.nulls(column), 1.0),
            KeyPart::Each => (1.0, 1.0),
        }
    }

    /// Estimates the share of the rows within bounds of a column.
    pub(super) fn share_between(&self, column: usize, bounds: &[&AtomKind]) -> f64 {
        let known = self.statistics.columns.get(column).and_then(|column| column.share_of_bounds(bounds));
        if let Some(share) = known {
            return share;
        }
        let has = |wanted: fn(&AtomKind) -> bool| bounds.iter().any(|bound| wanted(bound));
        let lower = has(|bound| matches!(bound, AtomKind::Lower(..)));
        let upper = has(|bound| matches!(bound, AtomKind::Upper(..)));
        let pattern = has(|bound| matches!(bound, AtomKind::Matches(..)));
        match (lower, upper) {
            _ if pattern => 0.05,
            (true, true) => 0.05,
            (false, false) => 1.0 - self.nulls(column),
            _ => 0.35,
        }
    }
}

/// The value of a constant expression.
fn constant(expr: &BoundExpr) -> Option<&Value> {
    match expr {
        BoundExpr::Constant { value, .. } => Some(value),
        _ => None,
    }
}

impl ColumnStatistics {
    /// The share of rows within all of these bounds; `None` if one of them is not known yet.
    fn share_of_bounds(&self, bounds: &[&AtomKind]) -> Option<f64> {
        let (mut lower, mut upper, mut of_patterns): (Option<(&Value, bool)>, _, Option<f64>) =
            (None, None, None);
        for bound in bounds {
            match bound {
                AtomKind::Lower(value, inclusive) => {
                    let value = constant(value)?;
                    lower = lower.filter(|(known, _)| *known > value).or(Some((value, *inclusive)));
                }
                AtomKind::Upper(value, inclusive) => {
                    let value = constant(value)?;
                    upper = upper
                        .filter(|(known, _): &(&Value, bool)| *known < value)
                        .or(Some((value, *inclusive)));
                }
                AtomKind::Matches(pattern, kind) => {
                    let Value::Text(pattern) = constant(pattern)? else { return None };
                    let share = self.share_beginning(&prefixes::of(pattern, *kind))?;
                    of_patterns = Some(of_patterns.map_or(share, |known: f64| known.min(share)));
                }
                _ => {}
            }
        }
        let within = match (lower, upper) {
            (None, None) => of_patterns.is_some().then_some(1.0)?,
            _ => self.share_between(lower, upper)?,
        };
        Some(of_patterns.map_or(within, |share| share.min(within)))
    }
}
