//! Selectivity: estimates of the share of rows that conditions let through.
//!
//! A condition on one column is estimated by the column's distribution, other conditions on one table by evaluating them
//! on its sample. A condition of which neither knows anything, such as one with a parameter, has a share by its form.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::bind::tree::{BoundExpr, Quantifier, RelationId};
use crate::catalog::Table;
use crate::functions::Function;
use crate::plan::column_statistics::ColumnStatistics;
use crate::plan::expression::Comparison;
use crate::plan::index_match::has_parameter;
use crate::plan::path;
use crate::plan::sample::Share;
use crate::plan::statistics::TableStatistics;
use crate::plan::walk::relations_of;
use crate::run::operator::prefixes::{self, Beginning};
use crate::types::Value;

/// Share that a condition lets through if nothing is known of it.
const UNKNOWN: f64 = 0.25;
/// Share of an outer join's rows that is assumed to have a partner, or none.
const PARTNERS: f64 = 0.5;
/// Share that a comparison by order lets through.
const RANGE: f64 = 0.35;
/// Share that a pattern lets through.
const PATTERN: f64 = 0.1;
/// Minimum share: no condition is assumed to let nothing through.
const SHARE_MIN: f64 = 1e-9;

/// The tables of a statement's relations, with their statistics.
#[derive(Debug, Default)]
pub(crate) struct Selectivity {
    tables: HashMap<RelationId, (Arc<Table>, Arc<TableStatistics>)>,
    /// Relations whose rows may be missing where an outer join has been planned.
    missing: HashSet<RelationId>,
    /// True if a share would change with other values of parameters.
    follows_values: Cell<bool>,
}

impl Selectivity {
    /// Learns of a relation.
    pub(crate) fn learn(
        &mut self,
        relation: RelationId,
        table: &Arc<Table>,
        statistics: Arc<TableStatistics>,
    ) {
        self.tables.insert(relation, (table.clone(), statistics));
    }

    /// Notes that rows of these relations may be missing from now on: columns of theirs are NULL then.
    pub(crate) fn note_missing(&mut self, relations: Vec<RelationId>) {
        self.missing.extend(relations);
    }

    /// Returns true if a condition says which rows of an outer join have a partner: the sample knows nothing of it.
    fn is_of_partners(&self, condition: &BoundExpr) -> bool {
        matches!(condition, BoundExpr::IsNull { operand, .. }
            if relations_of(operand).iter().any(|relation| self.missing.contains(relation)))
    }

    /// The tables that are known.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values().map(|(table, _)| table)
    }

    /// Returns true if an estimated share would change if the values of parameters were known.
    pub(crate) fn follows_values(&self) -> bool {
        self.follows_values.get()
    }

    /// Returns the statistics that were loaded for a relation.
    pub(crate) fn known(&self, relation: RelationId) -> Option<Arc<TableStatistics>> {
        self.tables.get(&relation).map(|(_, statistics)| statistics.clone())
    }

    /// Estimates the number of different values of an expression over a table's columns.
    pub(crate) fn distinct_of(&self, expr: &BoundExpr) -> Option<f64> {
        match expr {
            BoundExpr::Column { relation, column, .. } => {
                let (table, statistics) = self.tables.get(relation)?;
                Some(path::distinct(table, statistics, *column))
            }
            BoundExpr::Cast { operand, .. } => self.distinct_of(operand),
            other => {
                let statistics = self.statistics_of(other)?;
                statistics.sample.distinct(other, statistics.rows)
            }
        }
    }

    /// The statistics of the table whose columns an expression names, of the first if there are several.
    fn statistics_of(&self, expr: &BoundExpr) -> Option<&TableStatistics> {
        let relation = *relations_of(expr).first()?;
        self.tables.get(&relation).map(|(_, statistics)| &**statistics)
    }

    fn nulls(&self, expr: &BoundExpr) -> f64 {
        let BoundExpr::Column { relation, column, .. } = expr else { return 0.05 };
        let column = self.tables.get(relation).and_then(|(_, statistics)| statistics.columns.get(*column));
        column.map_or(0.05, |column| column.nulls)
    }

    /// Estimates the share of rows that meets all of these conditions.
    pub(crate) fn of_all(&self, conditions: &[BoundExpr]) -> f64 {
        if let [condition] = conditions {
            return self.of(condition);
        }
        if conditions.iter().any(|condition| self.is_of_partners(condition)) {
            return conditions.iter().map(|condition| self.of(condition)).product();
        }
        let all: Vec<&BoundExpr> = conditions.iter().collect();
        self.by_sample(&all, || self.of_each(&all))
    }

    /// Estimates the share of rows that meets all of these conditions, if those on different columns are independent.
    fn of_each(&self, conditions: &[&BoundExpr]) -> f64 {
        let mut ranges: Vec<((RelationId, usize), ColumnRange<'_>)> = Vec::new();
        let mut share = 1.0;
        for condition in conditions {
            match range_of(condition).filter(|(column, _)| self.column(*column).is_some()) {
                Some((column, range)) => match ranges.iter_mut().find(|(known, _)| *known == column) {
                    Some((_, known)) => known.narrow(range),
                    None => ranges.push((column, range)),
                },
                None => share *= self.of(condition),
            }
        }
        for (column, range) in ranges {
            share *= self.column(column).and_then(|column| range.share(column)).unwrap_or(RANGE);
        }
        share.clamp(SHARE_MIN, 1.0)
    }

    /// Estimates the share of rows that meets a condition.
    pub(crate) fn of(&self, expr: &BoundExpr) -> f64 {
        if self.is_of_partners(expr) {
            return PARTNERS;
        }
        match self.by_column(expr) {
            Some(share) => share.clamp(SHARE_MIN, 1.0),
            None if !self.follows_values.get() && self.has_telling_parameter(expr) => {
                self.follows_values.set(true);
                self.by_sample(&[expr], || self.by_shape(expr))
            }
            None => self.by_sample(&[expr], || self.by_shape(expr)),
        }
    }

    /// Returns the statistics of a column's values.
    fn column(&self, (relation, column): (RelationId, usize)) -> Option<&ColumnStatistics> {
        self.tables.get(&relation)?.1.columns.get(column)
    }

    fn column_of(&self, expr: &BoundExpr) -> Option<&ColumnStatistics> {
        self.column(path::named_column(expr)?)
    }

    /// Estimates a condition on a column alone, or on it and a column of another table, by the column's distribution.
    fn by_column(&self, expr: &BoundExpr) -> Option<f64> {
        match expr {
            BoundExpr::Operator { operator, args, .. } => {
                let [left, right] = &args[..] else { return None };
                let comparison = path::any_comparison(operator, args);
                if matches!(comparison, Some(Comparison::Equal | Comparison::NotEqual)) {
                    let share = self.of_equality(left, right)?;
                    let nulls = self.nulls(left).max(self.nulls(right));
                    let is_equal = comparison == Some(Comparison::Equal);
                    return Some(if is_equal { share } else { 1.0 - share - nulls });
                }
                if comparison.is_some() {
                    let (column, range) = range_of(expr)?;
                    return range.share(self.column(column)?);
                }
                let (pattern, Value::Text(text)) = (path::pattern_of(operator)?, constant(right)?) else {
                    return None;
                };
                match prefixes::of(text, pattern) {
                    Beginning::Exactly(text) => self.column_of(left)?.share_of(&Value::text(text)),
                    _ => None,
                }
            }
            BoundExpr::InList { operand, list, negated, .. } => {
                let column = self.column_of(operand)?;
                let values: Option<Vec<&Value>> = list.iter().map(constant).collect();
                let share = column.share_of_list(values?)?;
                Some(if *negated { 1.0 - share - column.nulls } else { share })
            }
            BoundExpr::Quantified { operand, array, operator, quantifier: Quantifier::Any }
                if path::any_comparison(operator, &[]) == Some(Comparison::Equal) =>
            {
                let Value::Array(array) = constant(array)? else { return None };
                self.column_of(operand)?.share_of_list(&array.values)
            }
            BoundExpr::IsNull { operand, negated } => {
                let column = self.column_of(operand)?;
                Some(if *negated { 1.0 - column.nulls } else { column.nulls })
            }
            _ => None,
        }
    }

    /// Returns true if a condition compares a column with parameters, and their values would tell how many rows it lets
    /// through.
    fn has_telling_parameter(&self, expr: &BoundExpr) -> bool {
        let (column, others, is_equality) = match expr {
            BoundExpr::Operator { operator, args, .. } => {
                let [left, right] = &args[..] else { return false };
                let comparison = path::any_comparison(operator, args);
                if comparison.is_none() && path::pattern_of(operator).is_none() {
                    return false;
                }
                let column = self.column_of(left).or_else(|| self.column_of(right));
                (column, &args[..], comparison == Some(Comparison::Equal))
            }
            BoundExpr::InList { operand, list, .. } => (self.column_of(operand), &list[..], true),
            BoundExpr::Quantified { operand, array, .. } => {
                (self.column_of(operand), std::slice::from_ref(&**array), true)
            }
            _ => return false,
        };
        let tells = |column: &ColumnStatistics| match is_equality {
            true => column.is_skewed(),
            false => !column.common.is_empty() || !column.bounds.is_empty(),
        };
        others.iter().any(has_parameter) && column.is_some_and(tells)
    }

    /// The share of rows, or of pairs of rows, for which two expressions are equal.
    fn of_equality(&self, left: &BoundExpr, right: &BoundExpr) -> Option<f64> {
        match (constant(left), constant(right)) {
            (None, Some(value)) => self.column_of(left)?.share_of(value),
            (Some(value), None) => self.column_of(right)?.share_of(value),
            _ => {
                let (one, other) = (path::named_column(left)?, path::named_column(right)?);
                if one.0 == other.0 {
                    return None;
                }
                self.column(one)?.share_of_join(self.column(other)?)
            }
        }
    }

    /// Estimates conditions on a table by its sample, or else by what is `assumed`.
    fn by_sample(&self, conditions: &[&BoundExpr], assumed: impl FnOnce() -> f64) -> f64 {
        let statistics = conditions.first().and_then(|condition| self.statistics_of(condition));
        match statistics.and_then(|statistics| statistics.sample.share(conditions)) {
            Some(Share::Of(share)) => share,
            Some(Share::AtMost(share)) => assumed().min(share),
            None => assumed(),
        }
    }

    /// Estimates the share of rows that meets a condition by the condition's form.
    fn by_shape(&self, expr: &BoundExpr) -> f64 {
        let share: f64 = match expr {
            BoundExpr::And(parts) => self.of_each(&parts.iter().collect::<Vec<_>>()),
            BoundExpr::Or(parts) => 1.0 - parts.iter().map(|part| 1.0 - self.of(part)).product::<f64>(),
            BoundExpr::Not(operand) => 1.0 - self.of(operand),
            BoundExpr::IsNull { operand, negated: false } => self.nulls(operand),
            BoundExpr::IsNull { operand, negated: true } => 1.0 - self.nulls(operand),
            BoundExpr::InList { operand, list, negated, .. } => {
                let share = (list.len() as f64 / self.distinct_of(operand).unwrap_or(50.0)).min(1.0);
                if *negated { 1.0 - share } else { share }
            }
            BoundExpr::Quantified { operand, .. } => {
                (10.0 / self.distinct_of(operand).unwrap_or(50.0)).min(1.0)
            }
            BoundExpr::Operator { operator, args, .. } => self.of_operator(operator, args),
            BoundExpr::Constant { value: Value::Bool(true), .. } => 1.0,
            BoundExpr::Constant { .. } => 0.0,
            _ => UNKNOWN,
        };
        share.clamp(SHARE_MIN, 1.0)
    }

    fn of_operator(&self, operator: &Function, args: &[BoundExpr]) -> f64 {
        let symbol = operator.name;
        let distinct =
            || args.iter().filter_map(|arg| self.distinct_of(arg)).reduce(f64::max).unwrap_or(100.0).max(1.0);
        match Comparison::of_symbol(symbol) {
            Some(Comparison::Equal) => 1.0 / distinct(),
            Some(Comparison::NotEqual) => 1.0 - 1.0 / distinct().max(2.0),
            Some(_) => RANGE,
            None if symbol.starts_with('~') => self.of_pattern(operator, args).unwrap_or(PATTERN),
            None => UNKNOWN,
        }
    }

    /// The share of rows whose texts begin as a pattern does.
    fn of_pattern(&self, operator: &Function, args: &[BoundExpr]) -> Option<f64> {
        let [left, right] = args else { return None };
        let (pattern, Value::Text(text)) = (path::pattern_of(operator)?, constant(right)?) else {
            return None;
        };
        self.column_of(left)?.share_beginning(&prefixes::of(text, pattern))
    }
}

/// The value of a constant expression.
fn constant(expr: &BoundExpr) -> Option<&Value> {
    match expr {
        BoundExpr::Constant { value, .. } => Some(value),
        _ => None,
    }
}

/// A range of a column's values: its bounds, each with a flag that it is inclusive.
#[derive(Clone, Copy, Debug)]
struct ColumnRange<'e> {
    lower: Option<(&'e Value, bool)>,
    upper: Option<(&'e Value, bool)>,
}

impl<'e> ColumnRange<'e> {
    /// Makes it as small as another range.
    fn narrow(&mut self, other: ColumnRange<'e>) {
        if let Some((value, _)) = other.lower
            && self.lower.is_none_or(|(known, _)| known < value)
        {
            self.lower = other.lower;
        }
        if let Some((value, _)) = other.upper
            && self.upper.is_none_or(|(known, _)| known > value)
        {
            self.upper = other.upper;
        }
    }

    fn share(self, column: &ColumnStatistics) -> Option<f64> {
        column.share_between(self.lower, self.upper)
    }
}

/// The column whose values a comparison with a constant bounds, and the bound.
fn range_of(expr: &BoundExpr) -> Option<((RelationId, usize), ColumnRange<'_>)> {
    let BoundExpr::Operator { operator, args, .. } = expr else { return None };
    let [left, right] = &args[..] else { return None };
    let comparison = path::any_comparison(operator, args)?;
    let (column, value, comparison) = match (constant(left), constant(right)) {
        (None, Some(value)) => (left, value, comparison),
        (Some(value), None) => (right, value, comparison.swapped()),
        _ => return None,
    };
    let bound = |inclusive| Some((value, inclusive));
    let (lower, upper) = match comparison {
        Comparison::Greater => (bound(false), None),
        Comparison::GreaterEqual => (bound(true), None),
        Comparison::Less => (None, bound(false)),
        Comparison::LessEqual => (None, bound(true)),
        Comparison::Equal | Comparison::NotEqual => return None,
    };
    Some((path::named_column(column)?, ColumnRange { lower, upper }))
}
