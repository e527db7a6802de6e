//! Scans: a table's rows by the best access path, and the columns that are read of them.

use std::sync::Arc;

use crate::bind::tree::{BoundExpr, BoundRelation};
use crate::catalog::Table;
use crate::error::{Result, SqlError};
use crate::plan::decoder::Decoder;
use crate::plan::expression::Expr;
use crate::plan::layout::{Key, Layout, Sorted, Stage};
use crate::plan::node::{Bound, Node, Path, ScanNode};
use crate::plan::path::{self, Candidate, Restriction, RestrictionKind};
use crate::plan::planner::Planner;
use crate::plan::statistics::TableStatistics;
use crate::types::Type;

/// The number of the column that holds the key of a table without a primary key.
pub(crate) const HIDDEN_KEY: usize = usize::MAX;

/// A row's identity: the columns of its primary key, or the hidden one.
pub(crate) fn key_columns(table: &Table) -> Vec<usize> {
    if table.key.is_empty() { vec![HIDDEN_KEY] } else { table.key.clone() }
}

impl Planner<'_> {
    /// The columns that are read of a relation.
    pub(crate) fn columns_of(&self, relation: &BoundRelation) -> Vec<usize> {
        self.used.get(&relation.id).map(|columns| columns.iter().copied().collect()).unwrap_or_default()
    }

    /// Reads the rows of a table that meet conditions, in this order if that is to be had for little.
    pub(crate) fn scan(
        &mut self,
        relation: &BoundRelation,
        table: &Arc<Table>,
        statistics: &TableStatistics,
        conditions: Vec<BoundExpr>,
        wanted: &[Sorted],
    ) -> Result<Stage> {
        let restrictions = self.restrictions(relation, conditions.iter().enumerate(), conditions.len());
        let mut candidate = path::best(table, statistics, &restrictions, &|_| true);
        let (mut backward, mut order) = (false, candidate.sorted(table, relation.id, false));
        if !wanted.is_empty()
            && let Some(sorted) = ordered(relation, table, statistics, &restrictions, &candidate, wanted)
        {
            (candidate, backward) = sorted;
            order = candidate.sorted(table, relation.id, backward);
        }
        let covered = path::covered(table, &restrictions, &candidate);
        let path = self.path(&restrictions, &candidate, &Layout::default())?;
        let path = match (path, candidate.index) {
            // An index that is only read for its order.
            (Path::Full, Some(index)) => {
                Path::Range { index: Some(index), prefix: Vec::new(), lower: None, upper: None }
            }
            (path, _) => path,
        };
        let columns = self.columns_of(relation);
        let layout = Layout::of_relation(relation.id, columns.iter().copied());
        let share = self.selectivity.of_all(&conditions);
        let filter = conditions.iter().enumerate().filter(|(number, _)| !covered.contains(number));
        let filter = filter.map(|(_, condition)| self.expr(condition, &layout)).collect::<Result<_>>()?;
        let rows = (statistics.rows.max(1.0) * share).min(candidate.rows);
        let width = columns.len();
        let decoder = Decoder::new(table, &columns)?;
        let estimated_rows = candidate.rows;
        let node = ScanNode::new(table.clone(), path, decoder, Expr::all(filter), estimated_rows);
        let node = ScanNode { backward, ..node };
        let plan = self.plan(Node::Scan(Box::new(node)), width, rows, candidate.cost);
        Ok(Stage { plan, layout, order })
    }

    /// A candidate's path, its values as expressions over rows of this layout.
    pub(crate) fn path(
        &mut self,
        restrictions: &[Restriction],
        candidate: &Candidate,
        layout: &Layout,
    ) -> Result<Path> {
        if candidate.is_full {
            return Ok(Path::Full);
        }
        let mut value = |number: usize| match &restrictions[number].kind {
            RestrictionKind::Equal(value)
            | RestrictionKind::Element(value)
            | RestrictionKind::Lower(value, _)
            | RestrictionKind::Upper(value, _) => self.expr(value, layout),
            RestrictionKind::OneOf(_) => Err(SqlError::internal("a list is no value")),
        };
        let prefix = candidate.prefix.iter().map(|number| value(*number)).collect::<Result<Vec<_>>>()?;
        let inclusive = |number: usize| {
            matches!(
                restrictions[number].kind,
                RestrictionKind::Lower(_, true) | RestrictionKind::Upper(_, true)
            )
        };
        let mut bound = |number: Option<usize>| {
            let bound = |number| -> Result<Bound> {
                Ok(Bound { value: value(number)?, inclusive: inclusive(number) })
            };
            number.map(bound).transpose()
        };
        let (lower, upper): (Option<Bound>, Option<Bound>) =
            (bound(candidate.lower)?, bound(candidate.upper)?);
        let index = candidate.index;
        let Some(last) = candidate.last else {
            return Ok(match candidate.is_point {
                true => Path::Point(prefix),
                false => Path::Range { index, prefix, lower, upper },
            });
        };
        let last = match &restrictions[last].kind {
            RestrictionKind::OneOf(list) => Expr::Array(self.exprs(list, layout)?, Type::Unknown),
            _ => value(last)?,
        };
        Ok(Path::Points { index, prefix, last: Box::new(last), whole: candidate.is_point })
    }
}

/// The way to the rows in a wanted order, and whether backward, if it costs little more than the best way.
fn ordered(
    relation: &BoundRelation,
    table: &Table,
    statistics: &TableStatistics,
    restrictions: &[Restriction],
    best: &Candidate,
    wanted: &[Sorted],
) -> Option<(Candidate, bool)> {
    if best.is_point {
        return None;
    }
    let has_key_order = path::has_key_order(table);
    let sorted = path::orders(table).filter(|(index, _)| has_key_order || index.is_some());
    let scans = sorted.map(|(index, columns)| {
        let mut all = path::full(statistics);
        all.index = index;
        all.cost *= if index.is_some() { 1.6 } else { 1.0 };
        all.order = columns.into_iter().map(|column| (column, false)).collect();
        all
    });
    let usable: &dyn Fn(&Restriction) -> bool = &|_| true;
    let candidates = path::candidates(table, statistics, restrictions, usable).chain(scans);
    let mut found: Option<(Candidate, bool)> = None;
    for candidate in candidates {
        let sort_cost = 2.0 * best.rows.max(2.0) * best.rows.max(2.0).log2() * 0.2;
        if candidate.cost > best.cost + sort_cost.max(best.cost * 2.0)
            || found.as_ref().is_some_and(|(found, _)| found.cost <= candidate.cost)
        {
            continue;
        }
        for backward in [false, true] {
            if satisfies(&candidate.sorted(table, relation.id, backward), wanted) {
                found = Some((candidate.clone(), backward));
                break;
            }
        }
    }
    found
}

/// Whether rows that come in one order are in the other one, too.
pub(crate) fn satisfies(order: &[Sorted], wanted: &[Sorted]) -> bool {
    let is_fixed = |key: Key| order.iter().any(|sorted| sorted.key == key && sorted.is_fixed);
    let mut given = order.iter().filter(|sorted| !sorted.is_fixed);
    wanted.iter().filter(|wanted| !is_fixed(wanted.key)).all(|wanted| {
        given.next().is_some_and(|sorted| sorted.key == wanted.key && sorted.descending == wanted.descending)
    })
}
