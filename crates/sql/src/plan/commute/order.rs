//! Conditions that compare a column with a value that sees no row: `bid < $1` of a bid that must be higher than the highest.
//!
//! Whether such a statement has changed a row is read, so it is an ordinary one. But where the column is split for the greatest or the
//! least, one that loses against the value at the beginning of the phase has lost, and can be answered without waiting.

use std::collections::BTreeSet;

use super::guard::{Limit, limits};
use super::{Candidate, columns_of};
use crate::plan::expression::Expr;
use crate::plan::planner::Planner;
use crate::plan::walk::conjuncts;

/// A limit of a column in a condition.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// The column in the engine's table.
    pub(crate) handle: heddledb::Column,
    pub(crate) limit: Limit<Expr>,
}

impl Planner<'_> {
    /// The limits within which columns have to be for an update's condition to hold.
    pub(crate) fn orders(&mut self, update: &Candidate<'_>) -> Vec<Order> {
        let (table, target) = (&*update.rules.table, update.target);
        let mut parts = Vec::new();
        update.condition.into_iter().for_each(|condition| conjuncts(condition, &mut parts));
        let mut orders = Vec::new();
        for part in parts {
            let columns: BTreeSet<usize> = columns_of(&part, target);
            let found =
                if columns.len() == 1 { limits(table, target, &columns, (&part, true)) } else { None };
            for limit in found.into_iter().flatten().filter(|limit| limit.addend.is_none()) {
                let Limit { column, is_low, is_strict, is_of_old, .. } = limit;
                if let (Ok(handle), Ok(value)) =
                    (table.engine_column(column), self.expr(&limit.value, update.layout))
                    && !table.key.contains(&column)
                {
                    let limit = Limit { column, is_low, is_strict, value, addend: None, is_of_old };
                    orders.push(Order { handle, limit });
                }
            }
        }
        orders
    }
}
