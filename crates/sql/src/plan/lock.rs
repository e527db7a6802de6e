//! `FOR UPDATE` and the other row locks: the keys of the rows that are reserved, as targets that are not shown.
//!
//! # Invariants
//! - Rows are reserved above the sort and below the limit, as many as the limit asks for.
//! - `FOR KEY SHARE` reserves nothing: the action that it prevents, a change of the key, conflicts with the read of the
//!   row.

use std::borrow::Cow;

use crate::bind::tree::{
    BoundExpr, BoundQuery, BoundSelect, BoundTarget, LockStrength, QueryBody, RelationId, RelationKind,
};
use crate::error::Result;
use crate::plan::node::{Limit, LockItem, LockNode, Node, Plan};
use crate::plan::planner::Planner;
use crate::plan::scan::{HIDDEN_KEY, key_columns};
use crate::types::Type;

impl Planner<'_> {
    /// The query with the keys of the rows that it reserves among its targets, and the reserved items.
    pub(crate) fn with_keys<'q>(&mut self, query: &'q BoundQuery) -> (Cow<'q, BoundQuery>, Vec<LockItem>) {
        let reserves = query.locks.iter().any(|lock| lock.strength != LockStrength::KeyShare);
        if !reserves || !matches!(query.body, QueryBody::Select(_)) {
            return (Cow::Borrowed(query), Vec::new());
        }
        let mut query = query.clone();
        let mut items = Vec::new();
        let locks = std::mem::take(&mut query.locks);
        let QueryBody::Select(select) = &mut query.body else { return (Cow::Owned(query), items) };
        for lock in locks.iter().filter(|lock| lock.strength != LockStrength::KeyShare) {
            for relation in &mut select.relations {
                if let RelationKind::Query(inner) = &mut relation.kind
                    && names_one_of(inner, &lock.relations)
                {
                    inner.locks.push(lock.clone());
                }
            }
            for id in &lock.relations {
                items.extend(self.lock_item(select, *id, lock.wait));
            }
        }
        self.locks = true;
        (Cow::Owned(query), items)
    }

    /// Adds the key of a relation's rows to the targets, if it is a table of this query.
    fn lock_item(
        &mut self,
        select: &mut BoundSelect,
        id: RelationId,
        wait: crate::bind::tree::LockWait,
    ) -> Option<LockItem> {
        let relation = select.relations.iter().find(|relation| relation.id == id)?;
        let RelationKind::Table(table) = &relation.kind else { return None };
        let table = table.clone();
        let first = select.targets.len();
        let columns = key_columns(&table);
        for &column in &columns {
            let ty = if column == HIDDEN_KEY { Type::Int8 } else { table.columns[column].ty };
            let expr = BoundExpr::Column { relation: id, column, ty };
            select.targets.push(BoundTarget { expr, name: String::new() });
            self.used.entry(id).or_default().insert(column);
        }
        Some(LockItem { table, key: (first..first + columns.len()).collect(), wait })
    }

    /// Reserves a plan's rows, as many as a limit asks for.
    pub(crate) fn lock(&mut self, input: Plan, items: Vec<LockItem>, limit: Option<Limit>) -> Result<Plan> {
        if items.is_empty() {
            return Ok(input);
        }
        let (width, rows, cost) = (input.width, input.rows, input.cost);
        let node = Node::Lock(Box::new(LockNode { input, items, limit }));
        Ok(self.plan(node, width, rows, cost + rows))
    }
}

/// Returns true if a query or one in its FROM has one of these relations.
fn names_one_of(query: &BoundQuery, ids: &[RelationId]) -> bool {
    let QueryBody::Select(select) = &query.body else { return false };
    select.relations.iter().any(|relation| match &relation.kind {
        RelationKind::Query(inner) => names_one_of(inner, ids),
        _ => ids.contains(&relation.id),
    })
}
