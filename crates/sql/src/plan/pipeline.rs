//! Joins whose first rows alone are wanted: rows of one table, in the wanted order if there is one, each of which looks up
//! its partners.
//!
//! `SELECT … FROM orders JOIN customer … ORDER BY orders.created DESC LIMIT 10` needs ten rows of each table if `orders` is
//! read backward along an index on `created`; a hash join reads both tables, and a sort all of its result. The cost of such
//! a pipeline is the share of its whole cost that gives the wanted rows.
//!
//! # Invariants
//! - Its joins keep the order of the first item: they are lookups, or run the right side for each row.

use crate::plan::join::Base;
use crate::plan::join_order::{Condition, Unit, pipelined};
use crate::plan::layout::{Key, Sorted};
use crate::plan::planner::Planner;

/// The factor by which a pipeline must be estimated to be cheaper: rows may be distributed less evenly than assumed.
const PIPELINE_FACTOR: f64 = 2.0;
/// Maximum number of items that a pipeline without order is tried to begin with.
const STARTS_MAX: usize = 8;

/// Number of rows that are wanted, and the cost of all of them in any order.
#[derive(Clone, Copy)]
pub(crate) struct Few {
    pub(crate) rows: f64,
    pub(crate) cost: f64,
}

/// An order of items, with how many rows are expected to be read, and the order of the first item's rows.
pub(crate) struct Pipeline {
    pub(crate) order: Vec<(usize, f64)>,
    pub(crate) wanted: Vec<Sorted>,
}

impl Planner<'_> {
    /// The cheapest pipeline, if it is much cheaper than all rows in any order.
    pub(crate) fn pipeline(
        &mut self,
        units: &[Unit],
        conditions: &[Condition],
        wanted: &[Sorted],
        few: Few,
    ) -> Option<Pipeline> {
        let mut best: Option<(f64, Pipeline)> = None;
        for start in starts(units, wanted) {
            let Some((mut order, join_cost)) = pipelined(start, units, conditions) else { continue };
            let rows = order.last().map_or(1.0, |(_, rows)| rows.max(1.0));
            let Base::Table { relation, table, statistics } = &units[start].side.base else { continue };
            let is_first = |sorted: &&Sorted| matches!(sorted.key, Key::Column(of, _) if of == relation.id);
            let first: Vec<Sorted> = wanted.iter().take_while(is_first).copied().collect();
            let share = (few.rows / rows).min(1.0);
            let (scan_cost, equal) = if wanted.is_empty() {
                (units[start].side.cost, 0.0)
            } else {
                let read = (first.as_slice(), units[start].side.rows * share);
                let own = &units[start].side.own;
                let found = self.cost_in_order(relation, (table, statistics), own, read);
                let Some((cost, keys, distinct)) = found else { continue };
                // Rows that equal the last one in the first keys are all read and sorted.
                (cost, if keys == wanted.len() { 0.0 } else { 1.0 / distinct })
            };
            let share = (share + equal).min(1.0);
            let cost = (scan_cost + join_cost) * share;
            let sort_cost = if wanted.is_empty() { 0.0 } else { rows * rows.max(2.0).log2() * 0.2 };
            let is_cheaper = best.as_ref().is_none_or(|(known, _)| cost < *known);
            if is_cheaper && cost * PIPELINE_FACTOR < few.cost + sort_cost {
                order.iter_mut().for_each(|(_, rows)| *rows *= share);
                best = Some((cost, Pipeline { order, wanted: first }));
            }
        }
        best.map(|(_, pipeline)| pipeline)
    }
}

/// The items that a pipeline may begin with.
fn starts(units: &[Unit], wanted: &[Sorted]) -> Vec<usize> {
    let is_table = |unit: &usize| {
        units[*unit].requires.is_empty() && matches!(units[*unit].side.base, Base::Table { .. })
    };
    let has_first_key = |unit: &usize| match wanted.first().map(|sorted| sorted.key) {
        Some(Key::Column(relation, _)) => units[*unit].relations.contains(&relation),
        _ => true,
    };
    (0..units.len()).filter(is_table).filter(has_first_key).take(STARTS_MAX).collect()
}
