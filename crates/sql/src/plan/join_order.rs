//! Join order: the choice of the next item to join.
//!
//! Greedy: from each of a few starting points, the item that is connected by an equality and leaves the fewest rows is
//! joined next; the cheapest of these orders is chosen. Items without a connection are joined last.
//!
//! # Invariants
//! - An item that sees others (LATERAL) is joined after them.
//! - The time is bounded by starts × items², whatever the conditions; nothing is enumerated.

use crate::bind::tree::{BoundExpr, RelationId};
use crate::plan::join::{Base, Side, equality, estimated_cost};
use crate::plan::optional::OuterUnit;
use crate::plan::path::{self, Restriction};
use crate::plan::planner::Planner;
use crate::plan::walk::relations_of;

/// Maximum number of items from which an order is tried.
const STARTS_MAX: usize = 8;

/// A set of items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ItemSet(Vec<u64>);

impl ItemSet {
    pub(crate) fn new(items: usize) -> ItemSet {
        ItemSet(vec![0; items.div_ceil(64)])
    }

    pub(crate) fn insert(&mut self, item: usize) {
        self.0[item / 64] |= 1 << (item % 64);
    }

    pub(crate) fn contains(&self, item: usize) -> bool {
        self.0[item / 64] & (1 << (item % 64)) != 0
    }

    pub(crate) fn is_subset(&self, other: &ItemSet) -> bool {
        self.0.iter().zip(&other.0).all(|(mine, theirs)| mine & !theirs == 0)
    }

    /// Returns true if all of its items but this one are in the other set.
    fn is_subset_but(&self, item: usize, other: &ItemSet) -> bool {
        let left_out = |word: usize| if word == item / 64 { 1 << (item % 64) } else { 0 };
        self.0
            .iter()
            .zip(&other.0)
            .enumerate()
            .all(|(at, (mine, theirs))| mine & !theirs & !left_out(at) == 0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

/// A condition between items.
pub(crate) struct Condition {
    pub(crate) expr: BoundExpr,
    pub(crate) items: ItemSet,
    /// The share of pairs that it lets through.
    share: f64,
    /// The items of the two sides of an equality.
    sides: Option<(ItemSet, ItemSet)>,
    /// The two columns of an equality between columns.
    columns: Option<[(RelationId, usize); 2]>,
}

/// An item to be joined.
pub(crate) struct Unit {
    pub(crate) side: Side,
    pub(crate) relations: Vec<RelationId>,
    pub(crate) requires: ItemSet,
    /// The conditions on a table's columns, and the items that give their values.
    restrictions: Vec<Restriction>,
    needs: Vec<ItemSet>,
    /// The conditions between items that name this one.
    conditions: Vec<usize>,
    /// How it is joined, if its rows may be missing.
    pub(crate) outer: Option<OuterUnit>,
}

impl Unit {
    pub(crate) fn new(side: Side, relations: Vec<RelationId>, requires: ItemSet) -> Unit {
        Unit {
            side,
            relations,
            requires,
            restrictions: Vec::new(),
            needs: Vec::new(),
            conditions: Vec::new(),
            outer: None,
        }
    }
}

impl Planner<'_> {
    /// A condition, and the items that it names. `implied`: which share of the rows the conditions on single items that follow
    /// from it let through.
    pub(crate) fn condition(&self, expr: BoundExpr, units: &[Unit], implied: f64) -> Condition {
        let items_of = |expr: &BoundExpr| {
            let mut items = ItemSet::new(units.len());
            for relation in self.all_relations(relations_of(expr)) {
                if let Some(item) = units.iter().position(|unit| unit.relations.contains(&relation)) {
                    items.insert(item);
                }
            }
            items
        };
        let items = items_of(&expr);
        let sides = equality(&expr).map(|(left, right)| (items_of(left), items_of(right)));
        let sides = sides.filter(|(left, right)| !left.is_empty() && !right.is_empty());
        let share = (self.selectivity.of(&expr) / implied).min(1.0);
        let columns = equality(&expr)
            .filter(|_| sides.is_some())
            .and_then(|(left, right)| Some([path::named_column(left)?, path::named_column(right)?]));
        Condition { expr, items, share, sides, columns }
    }

    /// Notes the restrictions that conditions put on tables' columns.
    pub(crate) fn note_restrictions(&mut self, units: &mut [Unit], conditions: &[Condition]) {
        for number in 0..units.len() {
            let is_between = |at: &usize| {
                let items = &conditions[*at].items;
                items.contains(number) && items.len() > 1
            };
            units[number].conditions = (0..conditions.len()).filter(is_between).collect();
            let Base::Table { relation, .. } = &units[number].side.base else { continue };
            let own = units[number].side.own.len();
            if let Some(outer) = &units[number].outer {
                let all = units[number].side.own.iter().chain(&outer.on).enumerate();
                let restrictions = self.restrictions(relation, all, own);
                units[number].needs = vec![ItemSet::new(units.len()); restrictions.len()];
                units[number].restrictions = restrictions;
                continue;
            }
            let joining =
                conditions.iter().enumerate().filter(|(_, condition)| condition.items.contains(number));
            let joining = joining.map(|(at, condition)| (own + at, &condition.expr));
            let all = units[number].side.own.iter().enumerate().chain(joining);
            let restrictions = self.restrictions(relation, all, own);
            let none = ItemSet::new(units.len());
            let needs = restrictions.iter().map(|restriction| {
                match restriction.condition.and_then(|at| at.checked_sub(own)) {
                    Some(at) => conditions[at].items.clone(),
                    None => none.clone(),
                }
            });
            let needs = needs.map(|mut needs| {
                needs.0[number / 64] &= !(1 << (number % 64));
                needs
            });
            units[number].needs = needs.collect();
            units[number].restrictions = restrictions;
        }
    }
}

/// The order in which items are joined, with how many rows there are expected to be after each, and its cost.
pub(crate) fn order(units: &[Unit], conditions: &[Condition]) -> (Vec<(usize, f64)>, f64) {
    let mut starts: Vec<usize> = (0..units.len()).filter(|unit| units[*unit].requires.is_empty()).collect();
    starts.sort_by(|left, right| units[*left].side.rows.total_cmp(&units[*right].side.rows));
    starts.truncate(STARTS_MAX);
    let orders = starts.into_iter().map(|start| from(start, units, conditions));
    orders.min_by(|left, right| left.1.total_cmp(&right.1)).unwrap_or_default()
}

/// The order that begins with this item and finds the rows of all others row by row, and what this costs beside the
/// first item. `None` if some item has to be read as a whole.
pub(crate) fn pipelined(
    start: usize,
    units: &[Unit],
    conditions: &[Condition],
) -> Option<(Vec<(usize, f64)>, f64)> {
    let mut joined = ItemSet::new(units.len());
    joined.insert(start);
    let mut rows = units[start].side.rows;
    let mut order = vec![(start, rows)];
    let mut total = 0.0;
    while order.len() < units.len() {
        let steps = (0..units.len())
            .filter(|unit| !joined.contains(*unit) && units[*unit].requires.is_subset(&joined))
            .map(|unit| step(unit, rows, &joined, units, conditions));
        let with_cost = steps.filter_map(|step| Some((rows * step.row_cost? + step.rows, step)));
        let (cost, next) = with_cost.min_by(|left, right| left.0.total_cmp(&right.0))?;
        joined.insert(next.unit);
        rows = next.rows;
        total += cost;
        order.push((next.unit, rows));
    }
    Some((order, total))
}

/// The order that begins with this item, and its cost.
fn from(start: usize, units: &[Unit], conditions: &[Condition]) -> (Vec<(usize, f64)>, f64) {
    let mut joined = ItemSet::new(units.len());
    joined.insert(start);
    let mut rows = units[start].side.rows;
    let mut order = vec![(start, rows)];
    let mut total = units[start].side.cost;
    while order.len() < units.len() {
        let next = (0..units.len())
            .filter(|unit| !joined.contains(*unit) && units[*unit].requires.is_subset(&joined))
            .map(|unit| step(unit, rows, &joined, units, conditions))
            .min_by(|left, right| left.rank().total_cmp(&right.rank()));
        // The binder refuses circular requirements.
        let Some(next) = next else { break };
        joined.insert(next.unit);
        rows = next.rows;
        total += next.cost + next.rows;
        order.push((next.unit, rows));
    }
    (order, total)
}

/// The effect of joining an item next.
struct Step {
    unit: usize,
    rows: f64,
    cost: f64,
    /// The cost of the partners of one row, if they can be found without reading the whole item.
    row_cost: Option<f64>,
    is_connected: bool,
}

impl Step {
    fn rank(&self) -> f64 {
        let rank = self.cost + self.rows;
        if self.is_connected { rank } else { 1e12 + rank * 1e3 }
    }
}

fn step(unit: usize, rows: f64, joined: &ItemSet, units: &[Unit], conditions: &[Condition]) -> Step {
    let (mut share, mut has_keys, mut is_connected) = (1.0, false, false);
    let mut equated = Vec::new();
    for condition in units[unit].conditions.iter().map(|at| &conditions[*at]) {
        if !condition.items.is_subset_but(unit, joined) {
            continue;
        }
        share *= condition.share;
        equated.extend(condition.columns.map(|columns| (columns, condition.share)));
        if let Some((left, right)) = &condition.sides {
            let is_key = |mine: &ItemSet, other: &ItemSet| {
                mine.contains(unit) && mine.len() == 1 && other.is_subset(joined)
            };
            has_keys |= is_key(left, right) || is_key(right, left);
            is_connected = true;
        }
    }
    let of = &units[unit];
    let is_lateral = matches!(&of.side.base, Base::Stage(_, frame) if !frame.outers.is_empty());
    if let Some(outer) = &of.outer {
        let lookup = lookup_cost_of(of, joined);
        let cost = match is_lateral {
            true => rows * of.side.cost.max(1.0),
            false => estimated_cost(rows, &of.side, lookup, outer.has_keys),
        };
        let row_cost = if is_lateral { Some(of.side.cost.max(1.0)) } else { lookup.map(|cost| cost + 1.0) };
        return Step { unit, rows: (outer.rows(rows) * share).max(1e-3), cost, row_cost, is_connected: true };
    }
    let known = units.iter().enumerate().filter(|(at, _)| *at == unit || joined.contains(*at));
    share *= known.map(|(_, unit)| factor_of_keys(unit, &equated)).fold(1.0, f64::max);
    let lookup = if is_connected { lookup_cost_of(of, joined) } else { None };
    is_connected |= !of.requires.is_empty();
    let cost = if of.requires.is_empty() {
        estimated_cost(rows, &of.side, lookup, has_keys)
    } else {
        rows * of.side.cost.max(1.0)
    };
    let row_cost = if is_lateral { Some(of.side.cost.max(1.0)) } else { lookup.map(|cost| cost + 1.0) };
    Step { unit, rows: (rows * of.side.rows * share).max(1e-3), cost, row_cost, is_connected }
}

/// The cost of looking up an item's rows by values of the items that are joined; `None` if it has to be read as a whole.
fn lookup_cost_of(of: &Unit, joined: &ItemSet) -> Option<f64> {
    let Base::Table { table, statistics, .. } = &of.side.base else { return None };
    let usable = |restriction: &Restriction| {
        let at = of.restrictions.iter().position(|other| std::ptr::eq(other, restriction));
        at.is_some_and(|at| of.needs[at].is_subset(joined))
    };
    let best = path::best(table, statistics, &of.restrictions, &usable);
    (!best.is_full()).then_some(best.cost)
}

/// The factor by which the product of the shares of equalities is too small, because they name all columns of a key of this item:
/// the columns of a key are not independent, and each row of the other side has at most one partner. It is assumed to have that one.
fn factor_of_keys(unit: &Unit, equated: &[([(RelationId, usize); 2], f64)]) -> f64 {
    let Base::Table { relation, table, statistics } = &unit.side.base else { return 1.0 };
    if equated.len() < 2 {
        return 1.0;
    }
    let share_of = |column: &usize| {
        let of_column =
            |(columns, _): &&([(RelationId, usize); 2], f64)| columns.contains(&(relation.id, *column));
        equated.iter().find(of_column).map(|(_, share)| *share)
    };
    let indexes = table.indexes.iter().filter(|index| index.is_unique_in_engine());
    let of_index = indexes.map(|index| index.columns.iter().map(|column| column.column).collect());
    let keys = of_index.chain([table.key.clone()]).filter(|key: &Vec<usize>| key.len() > 1);
    let factor = |key: Vec<usize>| {
        let share: f64 = key.iter().map(share_of).product::<Option<f64>>()?;
        Some(1.0 / (statistics.rows.max(1.0) * share.max(1e-30)))
    };
    keys.filter_map(factor).fold(1.0, f64::max)
}
