//! Plans of INSERT, UPDATE, DELETE and MERGE.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::merged_update::as_update;
use super::planned::{
    Action, ConflictPlan, ConflictUpdate, DeletePlan, InsertPlan, MergeActionPlan, MergeArmPlan, MergePlan,
    UpdatePlan,
};
use crate::bind::XMAX;
use crate::bind::tree::{
    BoundDelete, BoundExpr, BoundFrom, BoundInsert, BoundMerge, BoundRelation, BoundSelect, BoundUpdate,
    ConflictAction, ConflictTarget, Distinct, JoinKind, MergeAction, RelationId,
};
use crate::catalog::Table;
use crate::error::Result;
use crate::plan::commute::{Candidate, scan_of};
use crate::plan::expression::Expr;
use crate::plan::layout::{Key, Layout, Stage};
use crate::plan::node::{Node, Path};
use crate::plan::planner::Planner;
use crate::plan::scan::{HIDDEN_KEY, key_columns};
use crate::plan::walk::has_subquery;

impl Planner<'_> {
    pub(super) fn insert(&mut self, insert: &BoundInsert) -> Result<InsertPlan> {
        let table = &insert.table;
        let (input, layout) = match &insert.query {
            Some(query) => {
                let plan = self.query(query)?;
                let layout = Layout::of_relation(insert.source, 0..plan.width);
                (plan, layout)
            }
            None => {
                (self.plan(crate::plan::node::Node::Values(vec![Vec::new()]), 0, 1.0, 0.0), Layout::default())
            }
        };
        let values = self.exprs(&insert.values, &layout)?;
        let rules = self.rules(table, insert.target, &insert.generated, &insert.checks)?;
        let row = Self::row_layout(table, insert.target);
        let mut returned = row.clone();
        returned.set(Key::Column(insert.target, XMAX), table.columns.len());
        let returning = self.returning(&insert.returning, &returned)?;
        let conflict = match &insert.on_conflict {
            None => None,
            Some(conflict) => {
                let update = match &conflict.action {
                    ConflictAction::Nothing => None,
                    ConflictAction::Update { excluded, sets, filter, generated } => {
                        let both = row.joined(table.columns.len(), &Self::row_layout(table, *excluded));
                        let is_key = conflict.target == ConflictTarget::PrimaryKey;
                        let candidate = Candidate {
                            rules: &rules,
                            checks: &insert.checks,
                            generated,
                            sets,
                            target: insert.target,
                            layout: &both,
                            condition: filter.as_ref(),
                            returning: &returning,
                        };
                        let commuting = self.commutation_of_conflict(&candidate, is_key);
                        let orders =
                            if commuting.is_err() && is_key { self.orders(&candidate) } else { Vec::new() };
                        Some(ConflictUpdate {
                            sets: self.assignments(sets, &both)?,
                            filter: filter.as_ref().map(|filter| self.expr(filter, &both)).transpose()?,
                            generated: self.assignments(generated, &row)?,
                            commuting,
                            orders,
                        })
                    }
                };
                Some(ConflictPlan { target: conflict.target.clone(), update })
            }
        };
        let reads = crate::plan::explain::reads_tables(&input);
        Ok(InsertPlan { rules, input, values, conflict, returning, reads })
    }

    /// Plans the rows that a changing statement reads: all columns of its target, with whatever it is joined with.
    fn target_rows(
        &mut self,
        table: &Arc<Table>,
        target: RelationId,
        relations: &[BoundRelation],
        from: &[BoundFrom],
        filter: Option<&BoundExpr>,
    ) -> Result<Stage> {
        let all: BTreeSet<usize> = (0..table.columns.len()).chain(key_columns(table)).collect();
        self.used.insert(target, all);
        let from: Vec<BoundFrom> =
            std::iter::once(BoundFrom::Relation(target)).chain(from.iter().cloned()).collect();
        let select = BoundSelect {
            relations: relations.to_vec(),
            from: Vec::new(),
            filter: filter.cloned(),
            group_by: Vec::new(),
            grouping_sets: None,
            aggregates: Vec::new(),
            having: None,
            windows: Vec::new(),
            targets: Vec::new(),
            distinct: Distinct::No,
            set_returning: false,
        };
        let tree = self.join_tree(&select, &from, true);
        self.join(tree, &[])
    }

    /// Slots of the target's columns in a stage's rows, and of its key.
    fn slots_of(table: &Table, target: RelationId, stage: &Stage) -> (Vec<usize>, Vec<usize>) {
        let slot = |column| stage.layout.slot(Key::Column(target, column)).unwrap_or_default();
        ((0..table.columns.len()).map(slot).collect(), key_columns(table).into_iter().map(slot).collect())
    }

    /// The target's row as it will be, followed by the input's row, which gives the other relations.
    fn changed_layout(table: &Table, target: RelationId, stage: &Stage) -> Layout {
        let width = table.columns.len();
        let mut layout = Layout::default().joined(0, &Self::row_layout(table, target));
        for (key, slot) in stage.layout.entries() {
            if !matches!(key, Key::Column(relation, _) if relation == target) {
                layout.set(key, width + slot);
            }
        }
        if let Some(slot) = stage.layout.slot(Key::Column(target, HIDDEN_KEY)) {
            layout.set(Key::Column(target, HIDDEN_KEY), width + slot);
        }
        layout
    }

    /// The assignments of an UPDATE. Those with subqueries are computed with the rows that are read, before the first one is
    /// written: a subquery must not see what the statement has written.
    fn assignments_before_writes(
        &mut self,
        sets: &[(usize, BoundExpr)],
        stage: &mut Stage,
    ) -> Result<Vec<(usize, Expr)>> {
        let mut assignments = self.assignments(sets, &stage.layout)?;
        for ((_, value), (_, bound)) in assignments.iter_mut().zip(sets) {
            if has_subquery(bound) {
                let computed = std::mem::replace(value, Expr::Constant(crate::types::Value::Null));
                *value = Expr::Slot(self.slots(stage, vec![computed])[0]);
            }
        }
        Ok(assignments)
    }

    pub(super) fn update(&mut self, update: &BoundUpdate) -> Result<UpdatePlan> {
        let (table, target) = (&update.table, update.target);
        let mut stage =
            self.target_rows(table, target, &update.relations, &update.from, update.filter.as_ref())?;
        let (row, key) = Self::slots_of(table, target, &stage);
        let is_one_row = matches!(&stage.plan.node, Node::Scan(scan) if matches!(scan.path, Path::Point(_)));
        let sets = match is_one_row {
            true => self.assignments(&update.sets, &stage.layout)?,
            false => self.assignments_before_writes(&update.sets, &mut stage)?,
        };
        let rules = self.rules(table, target, &update.generated, &update.checks)?;
        let returning = self.returning(&update.returning, &Self::changed_layout(table, target, &stage))?;
        let candidate = Candidate {
            rules: &rules,
            checks: &update.checks,
            generated: &update.generated,
            sets: &update.sets,
            target,
            layout: &Self::row_layout(table, target),
            condition: update.filter.as_ref(),
            returning: &returning,
        };
        let is_row = row.iter().copied().eq(0..table.columns.len()) && update.from.is_empty();
        let scan = scan_of(&stage.plan).filter(|_| is_row);
        let commuting = self.commutation(&candidate, scan);
        let orders = if commuting.is_err() && scan.is_some() { self.orders(&candidate) } else { Vec::new() };
        let is_joined = !update.from.is_empty();
        let input = stage.plan;
        let is_merge = false;
        Ok(UpdatePlan { rules, input, row, key, is_joined, is_merge, sets, returning, commuting, orders })
    }

    pub(super) fn delete(&mut self, delete: &BoundDelete) -> Result<DeletePlan> {
        let (table, target) = (&delete.table, delete.target);
        let stage =
            self.target_rows(table, target, &delete.relations, &delete.from, delete.filter.as_ref())?;
        let (row, key) = Self::slots_of(table, target, &stage);
        let rules = self.rules(table, target, &[], &[])?;
        let returning = self.returning(&delete.returning, &Self::changed_layout(table, target, &stage))?;
        let is_joined = !delete.from.is_empty();
        Ok(DeletePlan { rules, input: stage.plan, row, key, is_joined, returning })
    }

    /// Plans a MERGE; one that is an UPDATE which does not read its row, as that.
    pub(super) fn merge_or_update(&mut self, merge: &BoundMerge) -> Result<Action> {
        if let Some(update) = as_update(merge) {
            let plan = self.update(&update)?;
            if plan.commuting.is_ok() {
                return Ok(Action::Update(Box::new(UpdatePlan { is_merge: true, ..plan })));
            }
        }
        Ok(Action::Merge(Box::new(self.merge(merge)?)))
    }

    fn merge(&mut self, merge: &BoundMerge) -> Result<MergePlan> {
        let (table, target) = (&merge.table, merge.target);
        let all: BTreeSet<usize> = (0..table.columns.len()).chain(key_columns(table)).collect();
        self.used.insert(target, all);
        let join = BoundFrom::Join {
            kind: JoinKind::Left,
            left: Box::new(merge.source.clone()),
            right: Box::new(BoundFrom::Relation(target)),
            on: Some(merge.on.clone()),
        };
        let select = BoundSelect {
            relations: merge.relations.clone(),
            from: Vec::new(),
            filter: None,
            group_by: Vec::new(),
            grouping_sets: None,
            aggregates: Vec::new(),
            having: None,
            windows: Vec::new(),
            targets: Vec::new(),
            distinct: Distinct::No,
            set_returning: false,
        };
        let tree = self.join_tree(&select, &[join], true);
        let stage = self.join(tree, &[])?;
        let (row, key) = Self::slots_of(table, target, &stage);
        let rules = self.rules(table, target, &merge.generated, &merge.checks)?;
        let mut arms = Vec::new();
        for arm in &merge.arms {
            let condition = arm.condition.as_ref().map(|condition| self.expr(condition, &stage.layout));
            let action = match &arm.action {
                MergeAction::Nothing => MergeActionPlan::Nothing,
                MergeAction::Delete => MergeActionPlan::Delete,
                MergeAction::Update(sets) => MergeActionPlan::Update(self.assignments(sets, &stage.layout)?),
                MergeAction::Insert(values) => MergeActionPlan::Insert(self.exprs(values, &stage.layout)?),
            };
            arms.push(MergeArmPlan { matched: arm.matched, condition: condition.transpose()?, action });
        }
        Ok(MergePlan { rules, input: stage.plan, row, key, arms })
    }
}
