//! Access paths: how a scan finds the rows of a table that satisfy its conditions.
//!
//! The candidates are a full scan, and the primary key and each index with the longest usable prefix: equality
//! conditions on the leading columns, then at most one range or list of values on the next column. The cheapest
//! candidate wins; its cost is mostly the number of rows that it examines.
//!
//! # Invariants
//! - A path returns every row that satisfies the conditions, and possibly others. The filter rechecks all conditions
//!   except those that [`covered`] names.

use crate::bind::tree::{BoundExpr, Quantifier, RelationId};
use crate::catalog::Table;
use crate::plan::expression::Comparison;
use crate::plan::layout::{Key, Sorted};
use crate::plan::statistics::TableStatistics;
use crate::plan::translate::comparison_of;
use crate::plan::walk::{is_volatile, relations_of};
use crate::types::{Modifier, Type};
use heddledb::PrimaryIndex;

/// The cost of descending an index, in units of one scanned row.
const SEARCH_COST: f64 = 3.0;
/// The cost of fetching a row through a secondary index, in units of one scanned row.
const INDEX_ROW_COST: f64 = 1.6;

/// How a condition restricts one column.
#[derive(Clone, Debug)]
pub(crate) struct Restriction {
    pub(crate) column: usize,
    pub(crate) kind: RestrictionKind,
    /// The condition's position in the scan's list of conditions.
    pub(crate) condition: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum RestrictionKind {
    Equal(BoundExpr),
    /// It equals one of these values (`IN`).
    OneOf(Vec<BoundExpr>),
    /// It equals an element of this array (`= ANY`).
    Element(BoundExpr),
    Lower(BoundExpr, bool),
    Upper(BoundExpr, bool),
}

/// One possible access path. Numbers are positions in the list of restrictions.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// The secondary index; none: the primary key.
    pub(crate) index: Option<usize>,
    pub(crate) prefix: Vec<usize>,
    /// A restriction of the column after the prefix to several values.
    pub(crate) last: Option<usize>,
    pub(crate) lower: Option<usize>,
    pub(crate) upper: Option<usize>,
    /// The path looks up complete primary keys.
    pub(crate) is_point: bool,
    /// The path is a full scan.
    pub(crate) is_full: bool,
    /// How many rows the path is estimated to examine.
    pub(crate) rows: f64,
    pub(crate) cost: f64,
    /// The columns by which the rows are sorted. `true`: an equality in the prefix makes the column constant.
    pub(crate) order: Vec<(usize, bool)>,
}

/// The column of this relation that an expression refers to, seen through casts that preserve its values and order.
pub(crate) fn column_of(expr: &BoundExpr, relation: RelationId) -> Option<usize> {
    match expr {
        BoundExpr::Column { relation: of, column, .. } if *of == relation => Some(*column),
        BoundExpr::Cast { operand, ty, modifier, .. } if keeps_order(operand.ty(), *ty, *modifier) => {
            column_of(operand, relation)
        }
        BoundExpr::Cast { operand, ty, .. } if widens(operand.ty(), *ty) => column_of(operand, relation),
        _ => None,
    }
}

fn widens(from: Type, to: Type) -> bool {
    matches!((from, to), (Type::Int2, Type::Int4 | Type::Int8) | (Type::Int4, Type::Int8))
}

/// All text types except the blank-padded one compare alike, and so do both types of networks; a type modifier could
/// truncate a value.
fn keeps_order(from: Type, to: Type, modifier: Modifier) -> bool {
    let is_text = |ty| matches!(ty, Type::Text | Type::Varchar | Type::Name);
    let is_kept = is_text(from) && matches!(to, Type::Text | Type::Varchar);
    modifier == Modifier::NONE && (is_kept || (from, to) == (Type::Cidr, Type::Inet))
}

/// Collects how a condition restricts the columns of a relation, by values that depend on `known` relations only.
pub(crate) fn restrictions(
    expr: &BoundExpr,
    condition: usize,
    relation: RelationId,
    known: &dyn Fn(RelationId) -> bool,
    into: &mut Vec<Restriction>,
) {
    let gives = |value: &BoundExpr| {
        relations_of(value).into_iter().all(|of| of != relation && known(of)) && !is_volatile(value)
    };
    match expr {
        BoundExpr::Operator { operator, args, .. } => {
            let (Some(comparison), [left, right]) = (any_comparison(operator, args), &args[..]) else {
                return;
            };
            for (side, value, comparison) in [(left, right, comparison), (right, left, comparison.swapped())]
            {
                let Some(column) = column_of(side, relation) else { continue };
                if !gives(value) {
                    continue;
                }
                let value = value.clone();
                let kind = match comparison {
                    Comparison::Equal => RestrictionKind::Equal(value),
                    Comparison::Greater => RestrictionKind::Lower(value, false),
                    Comparison::GreaterEqual => RestrictionKind::Lower(value, true),
                    Comparison::Less => RestrictionKind::Upper(value, false),
                    Comparison::LessEqual => RestrictionKind::Upper(value, true),
                    Comparison::NotEqual => continue,
                };
                into.push(Restriction { column, kind, condition });
            }
        }
        BoundExpr::InList { operand, list, equals, negated: false } if comparison_of(equals).is_some() => {
            if let Some(column) = column_of(operand, relation)
                && list.iter().all(gives)
            {
                into.push(Restriction { column, kind: RestrictionKind::OneOf(list.clone()), condition });
            }
        }
        BoundExpr::Quantified { operand, array, operator, quantifier: Quantifier::Any }
            if comparison_of(operator) == Some(Comparison::Equal) =>
        {
            if let Some(column) = column_of(operand, relation)
                && gives(array)
            {
                into.push(Restriction {
                    column,
                    kind: RestrictionKind::Element((**array).clone()),
                    condition,
                });
            }
        }
        // A boolean column alone is a condition.
        BoundExpr::Column { relation: of, column, ty: Type::Bool } if *of == relation => {
            into.push(boolean(*column, true, condition));
        }
        BoundExpr::Not(operand) => {
            if let BoundExpr::Column { relation: of, column, ty: Type::Bool } = &**operand
                && *of == relation
            {
                into.push(boolean(*column, false, condition));
            }
        }
        _ => {}
    }
}

pub(crate) fn boolean(column: usize, value: bool, condition: usize) -> Restriction {
    let value = BoundExpr::constant(crate::types::Value::Bool(value), Type::Bool);
    Restriction { column, kind: RestrictionKind::Equal(value), condition }
}

/// The comparison that an operator performs, also between integers of different widths.
fn any_comparison(operator: &'static crate::functions::Function, args: &[BoundExpr]) -> Option<Comparison> {
    let is_int = |ty| matches!(ty, Type::Int2 | Type::Int4 | Type::Int8);
    comparison_of(operator).or_else(|| {
        args.iter().all(|arg| is_int(arg.ty())).then(|| Comparison::of_symbol(operator.name)).flatten()
    })
}

/// The full scan.
pub(crate) fn full(statistics: &TableStatistics) -> Candidate {
    let rows = statistics.rows.max(1.0);
    Candidate {
        index: None,
        prefix: Vec::new(),
        last: None,
        lower: None,
        upper: None,
        is_point: false,
        is_full: true,
        rows,
        cost: rows + SEARCH_COST,
        order: Vec::new(),
    }
}

/// The cheapest path that relies on usable restrictions only.
pub(crate) fn best(
    table: &Table,
    statistics: &TableStatistics,
    restrictions: &[Restriction],
    usable: &dyn Fn(&Restriction) -> bool,
) -> Candidate {
    let mut best = full(statistics);
    for candidate in candidates(table, statistics, restrictions, usable) {
        if candidate.cost < best.cost || (candidate.is_point && !best.is_point) {
            best = candidate;
        }
    }
    best
}

/// All paths except the full scan.
pub(crate) fn candidates<'r>(
    table: &'r Table,
    statistics: &'r TableStatistics,
    restrictions: &'r [Restriction],
    usable: &'r dyn Fn(&Restriction) -> bool,
) -> impl Iterator<Item = Candidate> + 'r {
    let has_ranges = has_key_order(table);
    orders(table).filter_map(move |(index, columns)| {
        let search = Search { table, statistics, restrictions, usable };
        search.candidate(index, &columns).filter(|found| has_ranges || index.is_some() || found.is_point)
    })
}

/// Whether ranges of the primary key can be read, and rows in its order: a table that a program has made may have a hash index
/// alone.
pub(crate) fn has_key_order(table: &Table) -> bool {
    table.engine.definition().kind_of_primary_index() != PrimaryIndex::Hash
}

/// The primary key and the indexes, each with its leading columns up to the first one whose stored form does not sort
/// as its values do.
pub(crate) fn orders(table: &Table) -> impl Iterator<Item = (Option<usize>, Vec<usize>)> + '_ {
    let keeps_order = |column: &usize| {
        let column = &table.columns[*column];
        crate::storage::keeps_order(column.ty, column.modifier)
    };
    let primary = (None, table.key.iter().copied().take_while(keeps_order).collect());
    let filled = table.indexes.iter().enumerate().filter(|(number, _)| table.is_filled(*number));
    let secondary = filled.map(move |(number, index)| {
        let columns = index.columns.iter().map(|column| column.column);
        (Some(number), columns.take_while(keeps_order).collect())
    });
    std::iter::once(primary).chain(secondary).filter(|(_, columns): &(_, Vec<usize>)| !columns.is_empty())
}

fn order_of(columns: &[usize], fixed: usize) -> Vec<(usize, bool)> {
    columns.iter().enumerate().map(|(at, column)| (*column, at < fixed)).collect()
}

/// The inputs of a search for access paths.
struct Search<'r> {
    table: &'r Table,
    statistics: &'r TableStatistics,
    restrictions: &'r [Restriction],
    usable: &'r dyn Fn(&Restriction) -> bool,
}

impl Search<'_> {
    /// The estimated number of distinct values in a column.
    fn distinct(&self, column: usize) -> f64 {
        distinct(self.table, self.statistics, column)
    }

    /// The share of rows in which a column is not NULL.
    fn known_share(&self, column: usize) -> f64 {
        1.0 - self.statistics.columns.get(column).map_or(0.0, |column| column.nulls)
    }

    /// The first usable restriction of a column that `of` accepts.
    fn find<T>(&self, column: usize, of: impl Fn(&RestrictionKind) -> Option<T>) -> Option<(usize, T)> {
        self.restrictions.iter().enumerate().find_map(|(number, restriction)| {
            let fits = restriction.column == column && (self.usable)(restriction);
            if fits { of(&restriction.kind).map(|found| (number, found)) } else { None }
        })
    }

    fn candidate(&self, index: Option<usize>, columns: &[usize]) -> Option<Candidate> {
        let mut candidate = Candidate { index, is_full: false, ..full(self.statistics) };
        let mut searches: f64 = 1.0;
        for (at, &column) in columns.iter().enumerate() {
            let is_equal = |kind: &RestrictionKind| matches!(kind, RestrictionKind::Equal(_)).then_some(());
            if let Some((number, ())) = self.find(column, is_equal) {
                candidate.prefix.push(number);
                candidate.rows *= self.known_share(column) / self.distinct(column);
                continue;
            }
            let several = |kind: &RestrictionKind| match kind {
                RestrictionKind::OneOf(list) => Some(list.len() as f64),
                RestrictionKind::Element(_) => Some(10.0),
                _ => None,
            };
            if let Some((number, count)) = self.find(column, several) {
                candidate.last = Some(number);
                candidate.rows *= (count / self.distinct(column)).min(1.0);
                searches = count.max(1.0);
                candidate.is_point = index.is_none() && at + 1 == self.table.key.len();
                break;
            }
            self.bound(&mut candidate, column);
            break;
        }
        let is_bounded = candidate.lower.is_some() || candidate.upper.is_some();
        if candidate.prefix.is_empty() && candidate.last.is_none() && !is_bounded {
            return None;
        }
        self.settle(&mut candidate, columns, searches);
        Some(candidate)
    }

    /// Adds the lower and upper bounds of the column after the prefix.
    fn bound(&self, candidate: &mut Candidate, column: usize) {
        let is_lower = |kind: &RestrictionKind| matches!(kind, RestrictionKind::Lower(..)).then_some(());
        let is_upper = |kind: &RestrictionKind| matches!(kind, RestrictionKind::Upper(..)).then_some(());
        candidate.lower = self.find(column, is_lower).map(|(number, ())| number);
        candidate.upper = self.find(column, is_upper).map(|(number, ())| number);
        candidate.rows *= match (candidate.lower, candidate.upper) {
            (Some(_), Some(_)) => 0.05,
            (None, None) => 1.0,
            _ => 0.35,
        };
    }

    fn settle(&self, candidate: &mut Candidate, columns: &[usize], searches: f64) {
        let all = match candidate.index {
            None => self.table.key.len(),
            Some(index) => self.table.indexes[index].columns.len(),
        };
        let is_whole = candidate.prefix.len() == all;
        let is_unique = candidate.index.is_none_or(|index| self.table.indexes[index].is_unique_always());
        candidate.is_point |= is_whole && candidate.index.is_none();
        if is_whole && is_unique {
            candidate.rows = candidate.rows.min(1.0);
        } else if candidate.is_point {
            candidate.rows = candidate.rows.min(searches);
        }
        candidate.order = match candidate.last {
            Some(_) => Vec::new(),
            None => order_of(columns, candidate.prefix.len()),
        };
        let row_cost = if candidate.index.is_some() { INDEX_ROW_COST } else { 1.0 };
        candidate.cost = match candidate.is_point {
            true => searches,
            false => searches * SEARCH_COST + candidate.rows * row_cost,
        };
    }
}

/// The conditions that every row of a candidate satisfies, and that need no recheck: equalities on columns whose stored
/// form is exact.
pub(crate) fn covered(table: &Table, restrictions: &[Restriction], candidate: &Candidate) -> Vec<usize> {
    let is_exact = |column: usize| {
        let ty = table.columns[column].ty;
        matches!(
            ty,
            Type::Int2 | Type::Int4 | Type::Int8 | Type::Text | Type::Varchar | Type::Uuid | Type::Date
        )
    };
    let used = candidate.prefix.iter().chain(&candidate.last).map(|number| &restrictions[*number]);
    used.filter(|restriction| is_exact(restriction.column)).map(|restriction| restriction.condition).collect()
}

/// The estimated number of distinct values in a column.
pub(crate) fn distinct(table: &Table, statistics: &TableStatistics, column: usize) -> f64 {
    if table.key[..] == [column] {
        return statistics.rows.max(1.0);
    }
    statistics.columns.get(column).map_or(200.0, |column| column.distinct).max(1.0)
}

impl Candidate {
    /// The columns by which the rows are sorted, up to the first one that may contain NULLs and is not constant.
    pub(crate) fn sorted(&self, table: &Table, relation: RelationId, backward: bool) -> Vec<Sorted> {
        let sorted = self.order.iter().map_while(|(column, is_fixed)| {
            let has_nulls = !table.columns[*column].not_null && !table.key.contains(column);
            (*is_fixed || !has_nulls).then_some(Sorted {
                key: Key::Column(relation, *column),
                descending: backward,
                is_fixed: *is_fixed,
            })
        });
        sorted.collect()
    }
}
