//! Selectivity: which share of the rows conditions let through.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::bind::tree::{BoundExpr, RelationId};
use crate::catalog::Table;
use crate::plan::expression::Comparison;
use crate::plan::path;
use crate::plan::sample::Share;
use crate::plan::statistics::TableStatistics;
use crate::plan::walk::relations_of;

/// What a condition lets through of which nothing is known.
const UNKNOWN: f64 = 0.25;
/// Which share of an outer join's rows is assumed to have a partner, or none.
const PARTNERS: f64 = 0.5;
/// What a comparison by order lets through.
const RANGE: f64 = 0.35;
/// What a pattern lets through.
const PATTERN: f64 = 0.1;

/// The tables of a statement's relations, with what is known of them.
#[derive(Debug, Default)]
pub(crate) struct Selectivity {
    tables: HashMap<RelationId, (Arc<Table>, Arc<TableStatistics>)>,
    /// Relations whose rows may be missing where an outer join has been planned.
    missing: HashSet<RelationId>,
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

    /// Whether a condition says which rows of an outer join have a partner: the sample knows nothing of it.
    fn is_of_partners(&self, condition: &BoundExpr) -> bool {
        matches!(condition, BoundExpr::IsNull { operand, .. }
            if relations_of(operand).iter().any(|relation| self.missing.contains(relation)))
    }

    /// The tables that are known.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values().map(|(table, _)| table)
    }

    /// What was learned of a relation.
    pub(crate) fn known(&self, relation: RelationId) -> Option<Arc<TableStatistics>> {
        self.tables.get(&relation).map(|(_, statistics)| statistics.clone())
    }

    /// How many different values an expression over a table's columns has.
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

    /// Which share of rows meets all of these conditions.
    pub(crate) fn of_all(&self, conditions: &[BoundExpr]) -> f64 {
        if let [condition] = conditions {
            return self.of(condition);
        }
        if conditions.iter().any(|condition| self.is_of_partners(condition)) {
            return conditions.iter().map(|condition| self.of(condition)).product();
        }
        let all: Vec<&BoundExpr> = conditions.iter().collect();
        self.by_sample(&all, || conditions.iter().map(|condition| self.of(condition)).product())
    }

    /// Which share of rows meets a condition.
    pub(crate) fn of(&self, expr: &BoundExpr) -> f64 {
        if self.is_of_partners(expr) {
            return PARTNERS;
        }
        self.by_sample(&[expr], || self.by_shape(expr))
    }

    /// What the table's sample says of conditions on it, or else what is `assumed`.
    fn by_sample(&self, conditions: &[&BoundExpr], assumed: impl FnOnce() -> f64) -> f64 {
        let statistics = conditions.first().and_then(|condition| self.statistics_of(condition));
        match statistics.and_then(|statistics| statistics.sample.share(conditions)) {
            Some(Share::Of(share)) => share,
            Some(Share::AtMost(share)) => assumed().min(share),
            None => assumed(),
        }
    }

    /// Which share of rows meets a condition of this form.
    fn by_shape(&self, expr: &BoundExpr) -> f64 {
        let share: f64 = match expr {
            BoundExpr::And(parts) => parts.iter().map(|part| self.of(part)).product(),
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
            BoundExpr::Operator { operator, args, .. } => self.of_operator(operator.name, args),
            BoundExpr::Constant { value: crate::types::Value::Bool(true), .. } => 1.0,
            BoundExpr::Constant { .. } => 0.0,
            _ => UNKNOWN,
        };
        share.clamp(1e-9, 1.0)
    }

    fn of_operator(&self, symbol: &str, args: &[BoundExpr]) -> f64 {
        let distinct =
            || args.iter().filter_map(|arg| self.distinct_of(arg)).reduce(f64::max).unwrap_or(100.0).max(1.0);
        match Comparison::of_symbol(symbol) {
            Some(Comparison::Equal) => 1.0 / distinct(),
            Some(Comparison::NotEqual) => 1.0 - 1.0 / distinct().max(2.0),
            Some(_) => RANGE,
            None if symbol.starts_with('~') => PATTERN,
            None => UNKNOWN,
        }
    }
}
