//! Access paths: how a scan finds the rows of a table that satisfy its conditions.
//!
//! The candidates are a full scan, and the primary key and each index with the ranges of keys that the conditions leave of it:
//! for each alternative that they allow the values of the leading columns, then at most one interval of the next column. Where
//! the alternatives of one condition fit different indexes, each may be found by its own. The cheapest candidate wins; its
//! cost is mostly the number of rows that it examines.
//!
//! # Invariants
//! - A path returns every row that satisfies the conditions, and possibly others. The filter rechecks all conditions
//!   except those that [`Candidate::covered`] names.

mod converted;
mod restriction;
mod share;

use heddledb::PrimaryIndex;

use crate::bind::tree::{BoundExpr, RelationId};
use crate::catalog::{ColumnOrigin, Table};
use crate::plan::layout::{Key, Sorted};
use crate::plan::statistics::TableStatistics;
use crate::types::Type;

pub(crate) use restriction::{
    Atom, AtomKind, Restriction, any_comparison, named_column, pattern_of, restriction,
};

/// The cost of descending an index, in units of one scanned row.
const SEARCH_COST: f64 = 3.0;
/// The cost of fetching a row through a secondary index, in units of one scanned row.
const INDEX_ROW_COST: f64 = 1.6;
/// The cost of looking whether a row of a union has been found already.
const UNION_ROW_COST: f64 = 0.3;
/// Maximum number of searches that one alternative may lead to.
const SEARCHES_MAX: f64 = 10_000.0;
/// Maximum number of values of a leading column that is skipped.
const SKIPPED_VALUES_MAX: f64 = 100.0;

/// One possible access path.
#[derive(Clone, Debug)]
pub(crate) struct Candidate<'r> {
    /// The ranges of keys that are read: none for a full scan, or several for the union of their rows.
    pub(crate) parts: Vec<IndexPart<'r>>,
    /// The path looks up complete primary keys.
    pub(crate) is_point: bool,
    /// Estimated number of rows that the path examines.
    pub(crate) rows: f64,
    pub(crate) cost: f64,
    /// The columns by which the rows are sorted. `true`: an equality makes the column constant.
    order: Vec<(usize, bool)>,
    /// The conditions that every row satisfies, and that need no recheck.
    pub(crate) covered: Vec<usize>,
    /// True if several parts may find the same row.
    is_union: bool,
}

/// Ranges of the keys of one index.
#[derive(Clone, Debug)]
pub(crate) struct IndexPart<'r> {
    /// The secondary index; `None` for the primary key.
    pub(crate) index: Option<usize>,
    pub(crate) ranges: Vec<KeyAtoms<'r>>,
}

/// A range of keys: the leading columns, and bounds of the next one.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyAtoms<'r> {
    pub(crate) parts: Vec<KeyPart<'r>>,
    pub(crate) bounds: Vec<&'r AtomKind>,
}

/// One column's part of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyPart<'r> {
    Value(&'r BoundExpr),
    /// One of a list.
    OneOf(&'r [BoundExpr]),
    /// An element of an array.
    Element(&'r BoundExpr),
    Null,
    /// Each value that there is, one after the other.
    Each,
}

/// An atom of an alternative, and the number of its restriction.
type Given<'r> = (usize, &'r Atom);

/// The full scan.
pub(crate) fn full<'r>(statistics: &TableStatistics) -> Candidate<'r> {
    let rows = statistics.rows.max(1.0);
    Candidate {
        parts: Vec::new(),
        is_point: false,
        rows,
        cost: rows + SEARCH_COST,
        order: Vec::new(),
        covered: Vec::new(),
        is_union: false,
    }
}

/// The cheapest path that relies on usable restrictions only.
pub(crate) fn best<'r>(
    table: &Table,
    statistics: &TableStatistics,
    restrictions: &'r [Restriction],
    usable: &dyn Fn(&Restriction) -> bool,
) -> Candidate<'r> {
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
    table: &Table,
    statistics: &TableStatistics,
    restrictions: &'r [Restriction],
    usable: &dyn Fn(&Restriction) -> bool,
) -> Vec<Candidate<'r>> {
    let indexes: Vec<(Option<usize>, Vec<usize>)> = orders(table).collect();
    let usable: Vec<usize> = (0..restrictions.len()).filter(|at| usable(&restrictions[*at])).collect();
    let (single, several): (Vec<usize>, Vec<usize>) =
        usable.into_iter().partition(|at| restrictions[*at].alternatives.len() == 1);
    let given = |at: usize| restrictions[at].alternatives[0].iter().map(move |atom| (at, atom));
    let common: Vec<Given<'r>> = single.into_iter().flat_map(given).collect();
    let search = Search { table, statistics, restrictions, indexes: &indexes, common, several };
    let mut found: Vec<Candidate<'r>> =
        indexes.iter().filter_map(|(index, columns)| search.by_index(*index, columns)).collect();
    found.extend(search.several.iter().filter_map(|at| search.union(*at)));
    found
}

/// The candidate that reads a whole index, in its order.
pub(crate) fn in_order<'r>(
    statistics: &TableStatistics,
    (index, columns): (Option<usize>, Vec<usize>),
) -> Candidate<'r> {
    let all = full(statistics);
    let row_cost = if index.is_some() { INDEX_ROW_COST } else { 1.0 };
    let part = IndexPart { index, ranges: vec![KeyAtoms::default()] };
    let order = columns.into_iter().map(|column| (column, false)).collect();
    Candidate { parts: vec![part], cost: all.cost * row_cost, order, ..all }
}

/// Returns true if ranges of the primary key can be read, and rows in its order: a table that a program has made may
/// have a hash index alone.
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

/// Returns true if the engine allows NULL in this column of a key.
pub(crate) fn holds_nulls(table: &Table, column: usize) -> bool {
    let stored =
        table.columns.get(column).and_then(|column| table.engine.definition().columns().get(column.engine));
    stored.is_some_and(|column| !column.not_null)
}

/// Ranges under construction, for one index.
struct Shape<'r> {
    ranges: Vec<KeyAtoms<'r>>,
    rows: f64,
    searches: f64,
    /// All ranges are whole keys.
    is_whole: bool,
    /// The restrictions that give each range a column's values.
    exact: Option<Vec<usize>>,
}

/// One range, and the estimate of its rows.
struct KeyShape<'r> {
    atoms: KeyAtoms<'r>,
    rows: f64,
    searches: f64,
    exact: Vec<usize>,
}

/// The inputs of a search for access paths.
struct Search<'r, 's> {
    table: &'s Table,
    statistics: &'s TableStatistics,
    restrictions: &'r [Restriction],
    indexes: &'s [(Option<usize>, Vec<usize>)],
    /// The atoms that all rows satisfy.
    common: Vec<Given<'r>>,
    /// The restrictions with several alternatives.
    several: Vec<usize>,
}

impl<'r> Search<'r, '_> {
    /// The number of columns of an index, or of the primary key.
    fn width(&self, index: Option<usize>) -> usize {
        index.map_or(self.table.key.len(), |index| self.table.indexes[index].columns.len())
    }

    /// The ranges of an index, by the conditions that make them smaller.
    fn by_index(&self, index: Option<usize>, columns: &[usize]) -> Option<Candidate<'r>> {
        let mut alternatives = vec![self.common.clone()];
        let mut shape = self.shape(index, columns, &alternatives);
        for &at in &self.several {
            let more = &self.restrictions[at].alternatives;
            let names = |atoms: &Vec<Atom>| atoms.iter().any(|atom| columns.contains(&atom.column));
            let is_small =
                alternatives.len() == 1 || alternatives.len() * more.len() <= restriction::PRODUCT_MAX;
            if !is_small || !more.iter().all(names) {
                continue;
            }
            let both = |one: &Vec<Given<'r>>, other: &'r Vec<Atom>| -> Vec<Given<'r>> {
                one.iter().copied().chain(other.iter().map(|atom| (at, atom))).collect()
            };
            let product: Vec<Vec<Given<'r>>> =
                alternatives.iter().flat_map(|one| more.iter().map(move |other| both(one, other))).collect();
            let narrower = self.shape(index, columns, &product);
            let cost = |shape: &Shape<'_>| self.cost(index, shape);
            if narrower.as_ref().is_some_and(|new| shape.as_ref().is_none_or(|old| cost(new) < cost(old))) {
                (alternatives, shape) = (product, narrower);
            }
        }
        let shape = shape?;
        let is_point = index.is_none() && shape.is_whole;
        if index.is_none() && !is_point && !has_key_order(self.table) {
            return None;
        }
        let fixed = self.fixed(&shape);
        let order = columns.iter().enumerate().map(|(at, column)| (*column, at < fixed)).collect();
        let settled = shape.exact.iter().flatten().flat_map(|at| &self.restrictions[*at].settles);
        let covered = settled.copied().collect();
        let (rows, cost) = (shape.rows, self.cost(index, &shape));
        let parts = vec![IndexPart { index, ranges: shape.ranges }];
        Some(Candidate { parts, is_point, rows, cost, order, covered, is_union: false })
    }

    /// Number of leading columns that are the same in all rows of the ranges.
    fn fixed(&self, shape: &Shape<'r>) -> usize {
        match &shape.ranges[..] {
            [range] => range
                .parts
                .iter()
                .take_while(|part| matches!(part, KeyPart::Value(_) | KeyPart::Null))
                .count(),
            _ => 0,
        }
    }

    fn cost(&self, index: Option<usize>, shape: &Shape<'_>) -> f64 {
        let row_cost = if index.is_some() { INDEX_ROW_COST } else { 1.0 };
        match index.is_none() && shape.is_whole {
            true => shape.searches,
            false => shape.searches * SEARCH_COST + shape.rows * row_cost,
        }
    }

    /// The union of what each alternative of a restriction finds by the index that fits it best.
    fn union(&self, at: usize) -> Option<Candidate<'r>> {
        let (mut parts, mut rows, mut cost) = (Vec::<IndexPart<'r>>::new(), 0.0, 0.0);
        for alternative in &self.restrictions[at].alternatives {
            let atoms = self.common.iter().copied().chain(alternative.iter().map(|atom| (at, atom)));
            let atoms = [atoms.collect::<Vec<Given<'r>>>()];
            let shapes = self.indexes.iter().filter_map(|(index, columns)| {
                let shape = self.shape(*index, columns, &atoms)?;
                let is_readable = index.is_some() || shape.is_whole || has_key_order(self.table);
                is_readable.then(|| (*index, self.cost(*index, &shape), shape))
            });
            let (index, part_cost, shape) = shapes.min_by(|one, other| one.1.total_cmp(&other.1))?;
            rows += shape.rows;
            cost += part_cost + shape.rows * UNION_ROW_COST;
            match parts.iter_mut().find(|part| part.index == index) {
                Some(part) => part.ranges.extend(shape.ranges),
                None => parts.push(IndexPart { index, ranges: shape.ranges }),
            }
        }
        // Ranges of one index are a candidate of that index.
        let is_union = parts.len() > 1;
        is_union.then(|| Candidate { parts, rows, cost, is_union, ..full(self.statistics) })
    }

    /// The ranges of an index for alternatives; `None` if one of them may be anywhere.
    fn shape(
        &self,
        index: Option<usize>,
        columns: &[usize],
        alternatives: &[Vec<Given<'r>>],
    ) -> Option<Shape<'r>> {
        let width = self.width(index);
        let mut shape = Shape { ranges: Vec::new(), rows: 0.0, searches: 0.0, is_whole: true, exact: None };
        for atoms in alternatives {
            let found = self.key(index, columns, atoms, alternatives.len() == 1)?;
            shape.is_whole &= found.atoms.parts.len() == width
                && !found.atoms.parts.iter().any(|part| matches!(part, KeyPart::Each));
            shape.rows += found.rows;
            shape.searches += found.searches;
            shape.exact = Some(match shape.exact.take() {
                None => found.exact,
                Some(before) => before.into_iter().filter(|at| found.exact.contains(at)).collect(),
            });
            shape.ranges.push(found.atoms);
        }
        shape.rows = shape.rows.min(self.statistics.rows.max(1.0));
        Some(shape)
    }

    /// The range of an index for one alternative. `skips`: a leading column without a restriction may be skipped.
    fn key(
        &self,
        index: Option<usize>,
        columns: &[usize],
        atoms: &[Given<'r>],
        skips: bool,
    ) -> Option<KeyShape<'r>> {
        let mut key = KeyShape {
            atoms: KeyAtoms::default(),
            rows: self.statistics.rows.max(1.0),
            searches: 1.0,
            exact: Vec::new(),
        };
        let mut has_list = false;
        for (at, &column) in columns.iter().enumerate() {
            let of_column = |(_, atom): &&Given<'r>| atom.column == column;
            let part = atoms.iter().filter(of_column).find_map(|given| {
                let part = part_of(&given.1.kind)?;
                Some((given.0, part, self.estimate(column, part)))
            });
            if let Some((restriction, part, (share, searches))) = part
                && key.searches * searches <= SEARCHES_MAX
            {
                let is_list = matches!(part, KeyPart::OneOf(_) | KeyPart::Element(_));
                if !(has_list && is_list) && self.is_exact(column, part) {
                    key.exact.push(restriction);
                }
                has_list |= is_list;
                key.rows *= share;
                key.searches *= searches;
                key.atoms.parts.push(part);
                continue;
            }
            key.atoms.bounds =
                atoms.iter().filter(of_column).filter_map(|given| bound_of(&given.1.kind)).collect();
            if !key.atoms.bounds.is_empty() {
                key.rows *= self.share_between(column, &key.atoms.bounds);
                break;
            }
            let is_next = |(_, atom): &Given<'r>| {
                columns.get(1) == Some(&atom.column)
                    && (part_of(&atom.kind).is_some()
                        || matches!(atom.kind, AtomKind::Lower(..) | AtomKind::Upper(..)))
            };
            let values = self.distinct(column);
            let is_predicate = matches!(self.table.columns[column].origin, ColumnOrigin::IndexPredicate(_));
            let is_skipped = at == 0 && skips && values <= SKIPPED_VALUES_MAX && !is_predicate;
            if !is_skipped || !atoms.iter().any(is_next) {
                break;
            }
            key.searches *= values * 2.0 + 1.0;
            key.atoms.parts.push(KeyPart::Each);
        }
        let is_bounded = key.atoms.parts.iter().any(|part| !matches!(part, KeyPart::Each));
        if !is_bounded && key.atoms.bounds.is_empty() {
            return None;
        }
        if key.atoms.parts.iter().any(|part| matches!(part, KeyPart::Each)) {
            // Where there are too many values to skip, the range is read as a whole.
            key.exact.clear();
        }
        let is_unique = index.is_none_or(|index| self.table.indexes[index].is_unique_always());
        if is_unique && key.atoms.parts.len() == self.width(index) {
            key.rows = key.rows.min(key.searches);
        }
        Some(key)
    }

    /// Returns true if the rows with this part of a key are exactly those that satisfy the restriction.
    fn is_exact(&self, column: usize, part: KeyPart<'_>) -> bool {
        let ty = self.table.columns[column].ty;
        let is_stored = matches!(
            ty,
            Type::Bool
                | Type::Int2
                | Type::Int4
                | Type::Int8
                | Type::Text
                | Type::Varchar
                | Type::Uuid
                | Type::Date
                | Type::Bytea
                | Type::Inet
                | Type::Cidr
                | Type::Macaddr
        );
        let is_value = matches!(part, KeyPart::Value(_) | KeyPart::OneOf(_) | KeyPart::Element(_));
        is_stored && is_value
    }

    /// The estimated number of distinct values in a column.
    fn distinct(&self, column: usize) -> f64 {
        distinct(self.table, self.statistics, column)
    }
}

/// The part of a key that an atom fixes; `None` if it bounds one, or does not restrict it.
fn part_of(kind: &AtomKind) -> Option<KeyPart<'_>> {
    Some(match kind {
        AtomKind::Equal(value) => KeyPart::Value(value),
        AtomKind::OneOf(list) => KeyPart::OneOf(list),
        AtomKind::Element(array) => KeyPart::Element(array),
        AtomKind::Null => KeyPart::Null,
        _ => return None,
    })
}

fn bound_of(kind: &AtomKind) -> Option<&AtomKind> {
    let is_bound =
        matches!(kind, AtomKind::Lower(..) | AtomKind::Upper(..) | AtomKind::Matches(..) | AtomKind::NotNull);
    is_bound.then_some(kind)
}

/// The estimated number of distinct values in a column.
pub(crate) fn distinct(table: &Table, statistics: &TableStatistics, column: usize) -> f64 {
    if table.key[..] == [column] {
        return statistics.rows.max(1.0);
    }
    statistics.columns.get(column).map_or(200.0, |column| column.distinct).max(1.0)
}

impl<'r> Candidate<'r> {
    /// Returns true if it reads the whole table.
    pub(crate) fn is_full(&self) -> bool {
        self.parts.iter().all(|part| part.ranges.iter().all(KeyAtoms::is_all))
    }

    /// Returns true if a range is bounded by a pattern.
    pub(crate) fn has_pattern(&self) -> bool {
        let mut bounds = self.parts.iter().flat_map(|part| &part.ranges).flat_map(|range| &range.bounds);
        bounds.any(|bound| matches!(bound, AtomKind::Matches(..)))
    }

    /// Returns true if several parts may find the same row.
    pub(crate) fn is_union(&self) -> bool {
        self.is_union
    }

    /// The columns by which the rows are sorted in one direction. NULLs are the least of a column's keys.
    pub(crate) fn sorted(
        &self,
        table: &Table,
        relation: RelationId,
        restrictions: &[Restriction],
        backward: bool,
    ) -> Vec<Sorted> {
        let sorted = self.order.iter().map(|&(column, is_fixed)| {
            let has_nulls = !is_fixed
                && holds_nulls(table, column)
                && !restrictions.iter().any(|restriction| restriction.rejects_null(column));
            Sorted {
                key: Key::Column(relation, column),
                descending: backward,
                is_fixed,
                nulls_first: has_nulls.then_some(!backward),
            }
        });
        sorted.collect()
    }

    /// Returns the same rows with the NULLs of the first column that is not constant at the other end; `None` if the
    /// NULLs are not apart.
    pub(crate) fn with_nulls_at_other_end(&self, backward: bool) -> Option<Candidate<'r>> {
        let [IndexPart { index, ranges }] = &self.parts[..] else { return None };
        let [range] = &ranges[..] else { return None };
        let fixed = self.order.iter().take_while(|(_, is_fixed)| *is_fixed).count();
        if range.parts.len() != fixed || !range.bounds.is_empty() {
            return None;
        }
        let mut nulls = range.clone();
        nulls.parts.push(KeyPart::Null);
        let others = KeyAtoms { bounds: vec![&AtomKind::NotNull], ..range.clone() };
        let part = |range| IndexPart { index: *index, ranges: vec![range] };
        let parts = if backward { [nulls, others] } else { [others, nulls] };
        Some(Candidate { parts: parts.map(part).into(), ..self.clone() })
    }
}

impl KeyAtoms<'_> {
    /// Returns true if all keys are in the range.
    fn is_all(&self) -> bool {
        self.parts.is_empty() && self.bounds.is_empty()
    }
}
