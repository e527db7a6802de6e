//! Whole statements as plans: a plan of the rows that are read, and the action on them.
//!
//! # Invariants
//! - A table's row is its columns in order, in slots 0, 1, …; the other values that an expression of a writing
//!   statement sees follow them.

mod aging;
mod merged_update;
mod planned;
mod writes;

use std::sync::Arc;

use crate::bind::tree::{BoundCheck, BoundExpr, BoundStatement, BoundTarget, RelationId, StatementKind};
use crate::catalog::{Routine, Table, Trigger};
use crate::compile::Procedure;
use crate::error::Result;
use crate::plan::expression::Expr;
use crate::plan::layout::Layout;
use crate::plan::node::Plan;
use crate::plan::planner::Planner;
use crate::plan::prune::prune;
use crate::plan::statistics::{Age, TableStatistics};
use crate::run::Sizes;

pub(crate) use aging::PlanAge;
pub(crate) use planned::{
    Action, BoundRowRules, ConflictPlan, ConflictUpdate, DeletePlan, InsertPlan, KeyGraph, KeyedTable,
    MergeActionPlan, MergeArmPlan, MergePlan, Planned, RowRules, UpdatePlan,
};

/// The facts about the database that a planner asks for.
pub(crate) trait Known {
    /// The table with this oid.
    fn table(&self, oid: u32) -> Option<Arc<Table>>;
    /// The tables with a foreign key to this one.
    fn referencing(&self, oid: u32) -> Vec<Arc<Table>>;
    /// Values computed and checks made for rows of a table that another table's foreign key changes.
    fn row_rules(&self, table: &Arc<Table>) -> Result<BoundRowRules>;
    /// The table's triggers.
    fn triggers(&self, _oid: u32) -> Vec<Arc<Trigger>> {
        Vec::new()
    }
    /// The routine with this oid.
    fn routine(&self, _oid: u32) -> Option<Arc<Routine>> {
        None
    }
    /// Returns the statistics of a table's rows.
    fn statistics(&self, table: &Table) -> Arc<TableStatistics>;
    /// The size of a table now; `None` where plans do not age.
    fn age(&self, _table: &Table) -> Option<Age> {
        None
    }
}

/// Minimum cost of a report, in rows examined.
const REPORT_COST_MIN: f64 = 2_000.0;

/// Plans a statement.
pub(crate) fn plan(statement: &BoundStatement, known: &dyn Known) -> Result<Planned> {
    let mut planner = Planner::new(known);
    planner.note_statement(statement);
    let (mut ctes, mut action) = planner.statement(statement)?;
    let sizes =
        Sizes { outers: planner.outers, caches: planner.caches, kept: planner.kept, nodes: planner.nodes };
    let first = std::mem::take(&mut planner.first);
    let writes = !first.is_empty() || !matches!(action, Action::Query(_));
    let (locks, depends_on_values) = (planner.locks, planner.depends_on_values);
    let is_report = match &action {
        Action::Query(plan) => {
            !writes
                && !locks
                && !planner.calls
                && plan.cost + ctes.iter().map(|(_, cte)| cte.cost).sum::<f64>() > REPORT_COST_MIN
        }
        _ => false,
    };
    if is_report {
        ctes.iter_mut().for_each(|(_, cte)| prune(cte));
        if let Action::Query(plan) = &mut action {
            prune(plan);
        }
    }
    let is_alone = ctes.is_empty() && first.is_empty();
    let procedure = if is_alone { Procedure::of(&action) } else { None };
    let (calls, has_routines) = (planner.calls, planner.has_routines);
    let estimates = std::mem::take(&mut planner.estimates);
    // A compiled statement names its row by a whole key, or reads none.
    let names_keys = procedure.is_some() || planner.names_whole_keys;
    let tables = planner.selectivity.tables().filter(|_| !names_keys);
    let aged = tables.filter_map(|table| Some((table.oid, table.engine.clone(), known.age(table)?)));
    let age = PlanAge::of(aged.collect(), estimates);
    let follows_values = !names_keys && planner.selectivity.follows_values();
    Ok(Planned {
        ctes,
        first,
        action,
        sizes,
        writes,
        is_report,
        locks,
        calls,
        has_routines,
        depends_on_values,
        follows_values,
        procedure,
        age,
    })
}

impl Planner<'_> {
    /// Notes which columns a statement names, those of statements in WITH included.
    pub(crate) fn note_statement(&mut self, statement: &BoundStatement) {
        let mut used = std::mem::take(&mut self.used);
        crate::plan::walk::walk_statement(statement, &mut |expr| {
            if let BoundExpr::Column { relation, column, .. } = expr {
                used.entry(*relation).or_default().insert(*column);
            }
        });
        self.used = used;
    }

    /// A statement, and the common table expressions that it keeps.
    pub(crate) fn statement(&mut self, statement: &BoundStatement) -> Result<(Vec<(usize, Plan)>, Action)> {
        Ok(match &statement.kind {
            StatementKind::Query(query) => {
                let ctes = self.ctes(&query.ctes)?;
                (ctes, Action::Query(self.query_body(query)?))
            }
            StatementKind::Insert(insert) => {
                let ctes = self.ctes(&insert.ctes)?;
                (ctes, Action::Insert(Box::new(self.insert(insert)?)))
            }
            StatementKind::Update(update) => {
                let ctes = self.ctes(&update.ctes)?;
                (ctes, Action::Update(Box::new(self.update(update)?)))
            }
            StatementKind::Delete(delete) => {
                let ctes = self.ctes(&delete.ctes)?;
                (ctes, Action::Delete(Box::new(self.delete(delete)?)))
            }
            StatementKind::Merge(merge) => {
                let ctes = self.ctes(&merge.ctes)?;
                (ctes, self.merge_or_update(merge)?)
            }
        })
    }

    /// The row of a table.
    fn row_layout(table: &Table, relation: RelationId) -> Layout {
        Layout::of_relation(relation, 0..table.columns.len())
    }

    fn rules(
        &mut self,
        table: &Arc<Table>,
        target: RelationId,
        generated: &[(usize, BoundExpr)],
        checks: &[BoundCheck],
    ) -> Result<RowRules> {
        let keys = self.key_graph(table)?;
        Ok(RowRules { keys, ..self.own_rules(table, target, generated, checks)? })
    }

    /// The rules without foreign keys.
    fn own_rules(
        &mut self,
        table: &Arc<Table>,
        target: RelationId,
        generated: &[(usize, BoundExpr)],
        checks: &[BoundCheck],
    ) -> Result<RowRules> {
        let layout = Self::row_layout(table, target);
        let generated = self.assignments(generated, &layout)?;
        let check = |check: &BoundCheck| Ok((check.name.clone(), self.expr(&check.condition, &layout)?));
        let checks = checks.iter().map(check).collect::<Result<_>>()?;
        let triggers = self.known.triggers(table.oid);
        let (table, defaults, keys) = (table.clone(), Vec::new(), KeyGraph::default());
        Ok(RowRules { table, generated, checks, defaults, keys, triggers })
    }

    /// The foreign keys of a table, and of those that refer to it, and so on.
    fn key_graph(&mut self, table: &Arc<Table>) -> Result<KeyGraph> {
        let mut graph = KeyGraph::default();
        let mut waiting = vec![table.clone()];
        while let Some(table) = waiting.pop() {
            if graph.tables.contains_key(&table.oid) {
                continue;
            }
            let outgoing = table.foreign_keys.iter();
            let foreign_keys =
                outgoing.filter_map(|key| Some((key.clone(), self.known.table(key.table)?))).collect();
            let mut referencing = Vec::new();
            for other in self.known.referencing(table.oid) {
                let keys = other.foreign_keys.iter().filter(|key| key.table == table.oid);
                referencing.extend(keys.map(|key| (key.clone(), other.clone())));
                waiting.push(other);
            }
            let bound = match table.foreign_keys.is_empty() {
                true => BoundRowRules::none(),
                false => self.known.row_rules(&table)?,
            };
            let mut rules = self.own_rules(&table, bound.relation, &bound.generated, &bound.checks)?;
            rules.defaults = self.assignments(&bound.defaults, &Layout::default())?;
            graph.tables.insert(table.oid, KeyedTable { rules, foreign_keys, referencing });
        }
        Ok(graph)
    }

    fn assignments(&mut self, sets: &[(usize, BoundExpr)], layout: &Layout) -> Result<Vec<(usize, Expr)>> {
        sets.iter().map(|(column, value)| Ok((*column, self.expr(value, layout)?))).collect()
    }

    fn returning(&mut self, targets: &[BoundTarget], layout: &Layout) -> Result<Vec<Expr>> {
        targets.iter().map(|target| self.expr(&target.expr, layout)).collect()
    }
}
