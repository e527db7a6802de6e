//! Access paths: how the rows of a table that meet conditions are found.
//!
//! Candidates are the primary key and each index, as far as equalities give values to their first columns and a range
//! bounds the next one; and a scan of everything. The one with the fewest rows to look at wins.
//!
//! # Invariants
//! - A path finds every row that meets the conditions, and perhaps more: conditions on integers that it uses
//!   for equality need not be looked at again, all others are.

use crate::bind::tree::{BoundExpr, Quantifier, RelationId};
use crate::catalog::Table;
use crate::plan::expression::Comparison;
use crate::plan::layout::{Key, Sorted};
use crate::plan::statistics::TableStatistics;
use crate::plan::translate::comparison_of;
use crate::plan::walk::{is_volatile, relations_of};
use crate::types::{Modifier, Type};

/// What it costs to begin a search, in rows looked at.
const SEARCH_COST: f64 = 3.0;
/// What a row costs that is found through a secondary index.
const INDEX_ROW_COST: f64 = 1.6;

/// What a condition says of one column.
#[derive(Clone, Debug)]
pub(crate) struct Restriction {
    pub(crate) column: usize,
    pub(crate) kind: RestrictionKind,
    /// The condition's position in the list that it comes from.
    pub(crate) condition: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum RestrictionKind {
    Equal(BoundExpr),
    /// It equals one of these.
    OneOf(Vec<BoundExpr>),
    /// It equals an element of this array.
    Element(BoundExpr),
    Lower(BoundExpr, bool),
    Upper(BoundExpr, bool),
}

/// One way to the rows. Numbers are positions in the list of restrictions.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// The secondary index; none: the primary key.
    pub(crate) index: Option<usize>,
    pub(crate) prefix: Vec<usize>,
    /// Several values for the column behind the prefix.
    pub(crate) last: Option<usize>,
    pub(crate) lower: Option<usize>,
    pub(crate) upper: Option<usize>,
    /// It names whole primary keys.
    pub(crate) is_point: bool,
    /// Nothing restricts it.
    pub(crate) is_full: bool,
    /// How many rows it looks at.
    pub(crate) rows: f64,
    pub(crate) cost: f64,
    /// The columns by which its rows come sorted; those of the prefix are fixed.
    pub(crate) order: Vec<(usize, bool)>,
}

/// The column of this relation that an expression is, but for casts that keep its order and its values.
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

/// Texts of all kinds but padded ones compare alike; a modifier could cut them.
fn keeps_order(from: Type, to: Type, modifier: Modifier) -> bool {
    let is_text = |ty| matches!(ty, Type::Text | Type::Varchar | Type::Name);
    modifier == Modifier::NONE && is_text(from) && matches!(to, Type::Text | Type::Varchar)
}

/// What a condition says of columns of a relation, by values that only `known` relations give.
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
        // A column of type boolean is a condition on its own.
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

fn boolean(column: usize, value: bool, condition: usize) -> Restriction {
    let value = BoundExpr::constant(crate::types::Value::Bool(value), Type::Bool);
    Restriction { column, kind: RestrictionKind::Equal(value), condition }
}

/// The comparison that an operator is, between integers of different widths, too.
fn any_comparison(operator: &'static crate::functions::Function, args: &[BoundExpr]) -> Option<Comparison> {
    let is_int = |ty| matches!(ty, Type::Int2 | Type::Int4 | Type::Int8);
    comparison_of(operator).or_else(|| {
        args.iter().all(|arg| is_int(arg.ty())).then(|| Comparison::of_symbol(operator.name)).flatten()
    })
}

/// The scan of everything.
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

/// The best way to the rows that meet those restrictions that are usable.
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

/// All ways but the scan of everything.
pub(crate) fn candidates<'r>(
    table: &'r Table,
    statistics: &'r TableStatistics,
    restrictions: &'r [Restriction],
    usable: &'r dyn Fn(&Restriction) -> bool,
) -> impl Iterator<Item = Candidate> + 'r {
    orders(table).filter_map(move |(index, columns)| {
        let search = Search { table, statistics, restrictions, usable };
        search.candidate(index, &columns)
    })
}

/// The primary key and the indexes, each with its columns up to the first one whose stored values do not compare as the
/// values do.
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

/// What a search for a way is given.
struct Search<'r> {
    table: &'r Table,
    statistics: &'r TableStatistics,
    restrictions: &'r [Restriction],
    usable: &'r dyn Fn(&Restriction) -> bool,
}

impl Search<'_> {
    /// How many different values a column has.
    fn distinct(&self, column: usize) -> f64 {
        distinct(self.table, self.statistics, column)
    }

    /// The first restriction of a column for which something holds.
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
                candidate.rows /= self.distinct(column);
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

    /// Takes the bounds of the column behind the prefix.
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
        let is_unique = candidate.index.is_none_or(|index| self.table.indexes[index].unique);
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

/// The conditions that hold of every row that a candidate finds: equalities with columns whose values are kept exactly.
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

/// How many different values a column has.
pub(crate) fn distinct(table: &Table, statistics: &TableStatistics, column: usize) -> f64 {
    if table.key[..] == [column] {
        return statistics.rows.max(1.0);
    }
    statistics.columns.get(column).map_or(200.0, |column| column.distinct).max(1.0)
}

impl Candidate {
    /// By which columns its rows come sorted, as far as no NULL is among them.
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
