//! Scans: a table's rows by the best access path, and the columns that are read of them.
//!
//! The path is the cheapest one, or one in the order that the query wants, if that costs about as
//! much as the cheapest one with a sort. A condition that the path's ranges already guarantee is not evaluated again.

use std::sync::Arc;

use crate::bind::tree::{BoundExpr, BoundRelation, RelationId};
use crate::catalog::Table;
use crate::error::Result;
use crate::plan::expression::Expr;
use crate::plan::layout::{Key, Layout, Sorted, Stage};
use crate::plan::node::{Bound, IndexRanges, KeyRange, Node, Path, RangesKind, ScanNode, Several};
use crate::plan::path::{self, AtomKind, Candidate, KeyAtoms, KeyPart, Restriction};
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

    /// Reads the rows of a table that meet conditions, in this order if that costs little.
    pub(crate) fn scan(
        &mut self,
        relation: &BoundRelation,
        table: &Arc<Table>,
        statistics: &TableStatistics,
        conditions: Vec<BoundExpr>,
        wanted: &[Sorted],
    ) -> Result<Stage> {
        let restrictions = self.restrictions(relation, conditions.iter().enumerate(), conditions.len());
        let best = path::best(table, statistics, &restrictions, &|_| true);
        let share = self.selectivity.of_all(&conditions);
        let rows = (statistics.rows.max(1.0) * share).min(best.rows);
        let order = Order { relation: relation.id, table, statistics, restrictions: &restrictions, wanted };
        let few = self.wanted_rows.take().filter(|_| !wanted.is_empty());
        let sorted = order.best(&best, rows, few);
        let is_sorted = sorted.is_some() || !best.has_pattern();
        let (candidate, backward, order) = sorted.unwrap_or_else(|| {
            // A pattern may leave all rows, which are then read in the order of the primary key.
            let order =
                if is_sorted { best.sorted(table, relation.id, &restrictions, false) } else { Vec::new() };
            (best, false, order)
        });
        let path = self.path(&candidate, &Layout::default(), is_sorted)?;
        let columns = self.columns_of(relation);
        let layout = Layout::of_relation(relation.id, columns.iter().copied());
        let filter = conditions.iter().enumerate().filter(|(number, _)| !candidate.covered.contains(number));
        let filter = filter.map(|(_, condition)| self.expr(condition, &layout)).collect::<Result<_>>()?;
        let width = columns.len();
        let named = (table, relation.name.as_str());
        let node = ScanNode::new(named, path, columns, Expr::all(filter), candidate.rows)?;
        let node = ScanNode { backward, ..node };
        let plan = self.plan(Node::Scan(Box::new(node)), width, rows, candidate.cost);
        Ok(Stage { plan, layout, order })
    }

    /// The cost of reading a table in this order, the number of the keys in whose order it is read, and the number of their
    /// values. `None` if it is not worth it, or impossible.
    pub(crate) fn cost_in_order(
        &mut self,
        relation: &BoundRelation,
        (table, statistics): (&Table, &TableStatistics),
        own: &[BoundExpr],
        (wanted, few): (&[Sorted], f64),
    ) -> Option<(f64, usize, f64)> {
        let restrictions = self.restrictions(relation, own.iter().enumerate(), own.len());
        let best = path::best(table, statistics, &restrictions, &|_| true);
        let rows = (statistics.rows.max(1.0) * self.selectivity.of_all(own)).min(best.rows);
        let order = Order { relation: relation.id, table, statistics, restrictions: &restrictions, wanted };
        let (candidate, _, sorted) = order.best(&best, rows, Some(few))?;
        let keys = (1..=wanted.len()).rev().find(|keys| satisfies(&sorted, &wanted[..*keys]))?;
        Some((candidate.cost, keys, order.distinct(&wanted[..keys])))
    }

    /// A candidate's path, its values as expressions over rows of this layout.
    pub(crate) fn path(
        &mut self,
        candidate: &Candidate<'_>,
        layout: &Layout,
        is_sorted: bool,
    ) -> Result<Path> {
        self.names_whole_keys &= candidate.is_point;
        if candidate.parts.is_empty() {
            return Ok(Path::Full);
        }
        let mut parts = Vec::with_capacity(candidate.parts.len());
        for part in &candidate.parts {
            let ranges = part.ranges.iter().map(|range| self.key_range(range, layout));
            parts.push(IndexRanges { index: part.index, ranges: ranges.collect::<Result<_>>()? });
        }
        let kind = match () {
            () if candidate.is_union() => RangesKind::Union,
            () if candidate.is_point => RangesKind::Points,
            () if is_sorted => RangesKind::Ordered,
            () => RangesKind::Unordered,
        };
        match (kind, &mut parts[..]) {
            (RangesKind::Points, [IndexRanges { ranges, .. }]) if matches!(&ranges[..], [range] if range.more.is_empty()) => {
                Ok(Path::Point(std::mem::take(&mut ranges[0].prefix)))
            }
            _ => Ok(Path::Ranges { parts, kind }),
        }
    }

    fn key_range(&mut self, range: &KeyAtoms<'_>, layout: &Layout) -> Result<KeyRange> {
        let mut made = KeyRange::default();
        for part in &range.parts {
            let several = match part {
                KeyPart::Value(value) => Several::Value(self.expr(value, layout)?),
                KeyPart::OneOf(list) => {
                    Several::Elements(Expr::Array(self.exprs(list, layout)?, Type::Unknown))
                }
                KeyPart::Element(array) => Several::Elements(self.expr(array, layout)?),
                KeyPart::Null => Several::Null,
                KeyPart::Each => Several::Each,
            };
            match several {
                Several::Value(value) if made.more.is_empty() => made.prefix.push(value),
                several => made.more.push(several),
            }
        }
        for bound in &range.bounds {
            made.bounds.push(match bound {
                AtomKind::Lower(value, inclusive) => Bound::Lower(self.expr(value, layout)?, *inclusive),
                AtomKind::Upper(value, inclusive) => Bound::Upper(self.expr(value, layout)?, *inclusive),
                AtomKind::Matches(value, pattern) => Bound::Matches(self.expr(value, layout)?, *pattern),
                _ => Bound::NotNull,
            });
        }
        Ok(made)
    }
}

/// A candidate, whether it is read backward, and the order of its rows.
type InOrder<'r> = (Candidate<'r>, bool, Vec<Sorted>);

/// The search for a way to the rows of a table in a wanted order.
struct Order<'r, 's> {
    relation: RelationId,
    table: &'s Table,
    statistics: &'s TableStatistics,
    restrictions: &'r [Restriction],
    wanted: &'s [Sorted],
}

impl<'r> Order<'r, '_> {
    /// The cheapest way, if it costs little more than the best way in any order. If few rows are wanted, the first keys
    /// of the order may be enough. `rows`: how many there are expected to be; `few`: how many of them are wanted.
    fn best(&self, best: &Candidate<'r>, rows: f64, few: Option<f64>) -> Option<InOrder<'r>> {
        if best.is_point && best.rows <= 1.0 || self.wanted.is_empty() {
            return None;
        }
        self.cheapest(best, rows, few, self.wanted).or_else(|| {
            (1..self.wanted.len()).rev().find_map(|keys| {
                let wanted = &self.wanted[..keys];
                // All rows that equal the last one in these keys are read, too.
                let equal = rows / self.distinct(wanted);
                self.cheapest(best, rows, Some(few? + equal), wanted)
            })
        })
    }

    /// The estimated number of different values of these keys.
    fn distinct(&self, keys: &[Sorted]) -> f64 {
        let of_key = |sorted: &Sorted| match sorted.key {
            Key::Column(_, column) => path::distinct(self.table, self.statistics, column),
            _ => 1.0,
        };
        keys.iter().map(of_key).product()
    }

    /// The cheapest way to rows in the order of these keys.
    fn cheapest(
        &self,
        best: &Candidate<'r>,
        rows: f64,
        few: Option<f64>,
        wanted: &[Sorted],
    ) -> Option<InOrder<'r>> {
        // Only the wanted rows are read.
        let read = few.map_or(1.0, |few| (few / rows.max(1.0)).min(1.0));
        let sort_cost = 2.0 * best.rows.max(2.0) * best.rows.max(2.0).log2() * 0.2;
        let most = match few {
            Some(_) => best.cost + sort_cost / 2.0,
            None => best.cost + sort_cost.max(best.cost * 2.0),
        };
        let has_key_order = path::has_key_order(self.table);
        let indexes = path::orders(self.table).filter(|(index, _)| has_key_order || index.is_some());
        let whole = indexes.map(|index| path::in_order(self.statistics, index));
        let usable: &dyn Fn(&Restriction) -> bool = &|_| true;
        let candidates = path::candidates(self.table, self.statistics, self.restrictions, usable);
        let mut found: Option<(f64, InOrder<'r>)> = None;
        for candidate in candidates.into_iter().filter(|candidate| !candidate.is_union()).chain(whole) {
            let cost = candidate.cost * read + 1.0;
            if cost > most || found.as_ref().is_some_and(|(found, _)| *found <= cost) {
                continue;
            }
            if let Some(sorted) =
                [false, true].into_iter().find_map(|backward| self.sorted(&candidate, backward, wanted))
            {
                found = Some((cost, sorted));
            }
        }
        found.map(|(_, found)| found)
    }

    /// A candidate in a wanted order, if it is read in this direction.
    fn sorted(&self, candidate: &Candidate<'r>, backward: bool, wanted: &[Sorted]) -> Option<InOrder<'r>> {
        let mut order = candidate.sorted(self.table, self.relation, self.restrictions, backward);
        if satisfies(&order, wanted) {
            return Some((candidate.clone(), backward, order));
        }
        let first = order.iter_mut().find(|sorted| !sorted.is_fixed)?;
        first.nulls_first = first.nulls_first.map(|nulls_first| !nulls_first);
        if !satisfies(&order, wanted) {
            return None;
        }
        Some((candidate.with_nulls_at_other_end(backward)?, backward, order))
    }
}

/// Returns true if rows in the one order are in the other one, too.
pub(crate) fn satisfies(order: &[Sorted], wanted: &[Sorted]) -> bool {
    let is_fixed = |key: Key| order.iter().any(|sorted| sorted.key == key && sorted.is_fixed);
    let mut given = order.iter().filter(|sorted| !sorted.is_fixed);
    wanted.iter().filter(|wanted| !is_fixed(wanted.key)).all(|wanted| {
        given.next().is_some_and(|sorted| {
            let nulls = |given: bool| wanted.nulls_first.is_none_or(|wanted| given == wanted);
            sorted.key == wanted.key
                && sorted.descending == wanted.descending
                && sorted.nulls_first.is_none_or(nulls)
        })
    })
}
