//! Whole statements as plans: what reads, and what is done with what was read.
//!
//! # Invariants
//! - A table's row is its columns in order, in slots 0, 1, …; what else an expression of a statement that writes sees lies behind
//!   them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::bind::XMAX;
use crate::bind::routines::is_call;
use crate::bind::tree::{
    BoundCheck, BoundDelete, BoundExpr, BoundFrom, BoundInsert, BoundMerge, BoundRelation, BoundSelect,
    BoundStatement, BoundTarget, BoundUpdate, ConflictAction, ConflictTarget, Distinct, JoinKind,
    MergeAction, RelationId, StatementKind,
};
use crate::catalog::{ForeignKey, Table, Trigger};
use crate::compile::Procedure;
use crate::error::Result;
use crate::plan::commute::Commuting;
use crate::plan::expression::Expr;
use crate::plan::layout::{Key, Layout, Stage};
use crate::plan::node::{FunctionItem, Node, Path, Plan, SetCall};
use crate::plan::planner::Planner;
use crate::plan::prune::prune;
use crate::plan::scan::{HIDDEN_KEY, key_columns};
use crate::plan::statistics::TableStatistics;
use crate::plan::walk::has_subquery;
use crate::run::Sizes;

/// A table's generated columns, those of its indexes included, and its checks, over the rows of the relation; and the
/// defaults that its foreign keys set.
pub(crate) struct BoundRowRules {
    pub(crate) relation: RelationId,
    pub(crate) generated: Vec<(usize, BoundExpr)>,
    pub(crate) checks: Vec<BoundCheck>,
    pub(crate) defaults: Vec<(usize, BoundExpr)>,
}

impl BoundRowRules {
    /// Of a table without any.
    pub(crate) fn none() -> BoundRowRules {
        BoundRowRules {
            relation: RelationId(0),
            generated: Vec::new(),
            checks: Vec::new(),
            defaults: Vec::new(),
        }
    }
}

/// What a planner asks about the database.
pub(crate) trait Known {
    /// The table with this oid.
    fn table(&self, oid: u32) -> Option<Arc<Table>>;
    /// The tables with a foreign key to this one.
    fn referencing(&self, oid: u32) -> Vec<Arc<Table>>;
    /// What is computed and checked of rows of a table that another table's foreign key changes.
    fn row_rules(&self, table: &Arc<Table>) -> Result<BoundRowRules>;
    /// The table's triggers.
    fn triggers(&self, _oid: u32) -> Vec<Arc<Trigger>> {
        Vec::new()
    }
    /// What is known of a table's rows.
    fn statistics(&self, table: &Table) -> Arc<TableStatistics>;
}

/// A statement that is ready to run.
#[derive(Debug)]
pub(crate) struct Planned {
    /// Common table expressions of the statement itself.
    pub(crate) ctes: Vec<(usize, Plan)>,
    /// Statements in WITH, each with the number under which its rows are kept.
    pub(crate) first: Vec<(usize, Action)>,
    pub(crate) action: Action,
    pub(crate) sizes: Sizes,
    /// Whether it writes.
    pub(crate) writes: bool,
    /// Whether it reads so much that a snapshot is worth taking: it waits for the log, but then meets no transaction.
    pub(crate) is_report: bool,
    /// Whether it reserves rows without writing them.
    pub(crate) locks: bool,
    /// Whether another plan may be better for the values of its parameters.
    pub(crate) depends_on_values: bool,
    /// Whether it calls routines that may write.
    pub(crate) calls: bool,
    /// The statement in compiled form, if it has one.
    pub(crate) procedure: Option<Procedure>,
}

impl Planned {
    /// Whether it writes nothing, reserves nothing, and calls nothing that may.
    pub(crate) fn only_reads(&self) -> bool {
        !self.writes && !self.locks && !self.calls
    }

    /// The call that CALL consists of; none for other statements.
    pub(crate) fn procedure_call(&self) -> Option<&SetCall> {
        let Action::Query(plan) = &self.action else { return None };
        let mut plan = plan;
        loop {
            match &plan.node {
                Node::Project { input, .. } => plan = input,
                Node::Functions(node) => match &node.calls[..] {
                    [FunctionItem::Set { call, .. }] if is_call(call.function) => return Some(call),
                    _ => return None,
                },
                _ => return None,
            }
        }
    }

    /// The oid of the procedure that CALL calls.
    pub(crate) fn called_procedure(&self) -> Option<u32> {
        self.procedure_call()?.routine()
    }

    /// The expression that the statement computes, if it is one without a table.
    pub(crate) fn lone_expression(&self) -> Option<&Expr> {
        let Action::Query(plan) = &self.action else { return None };
        match plan.lone_row()? {
            [expression] if self.ctes.is_empty() && self.first.is_empty() => Some(expression),
            _ => None,
        }
    }
}

/// What a statement does.
#[derive(Debug)]
pub(crate) enum Action {
    Query(Plan),
    Insert(Box<InsertPlan>),
    Update(Box<UpdatePlan>),
    Delete(Box<DeletePlan>),
    Merge(Box<MergePlan>),
}

/// What is checked of every row that is stored, and computed for it; over the row itself.
#[derive(Debug)]
pub(crate) struct RowRules {
    pub(crate) table: Arc<Table>,
    pub(crate) generated: Vec<(usize, Expr)>,
    pub(crate) checks: Vec<(String, Expr)>,
    /// The defaults of columns that a foreign key sets to them, in tables that another table's changes reach.
    pub(crate) defaults: Vec<(usize, Expr)>,
    pub(crate) keys: KeyGraph,
    /// The table's triggers, in the order in which they fire.
    pub(crate) triggers: Vec<Arc<Trigger>>,
}

/// The foreign keys of a table, and of all tables that its deletes and updates can reach.
#[derive(Debug, Default)]
pub(crate) struct KeyGraph {
    pub(crate) tables: HashMap<u32, KeyedTable>,
}

/// A table's foreign keys, and those that refer to it.
#[derive(Debug)]
pub(crate) struct KeyedTable {
    /// What other tables' changes of its rows meet; without the graph itself.
    pub(crate) rules: RowRules,
    /// Each with the table that it refers to.
    pub(crate) foreign_keys: Vec<(ForeignKey, Arc<Table>)>,
    /// Each with the table that it is of.
    pub(crate) referencing: Vec<(ForeignKey, Arc<Table>)>,
}

#[derive(Debug)]
pub(crate) struct InsertPlan {
    pub(crate) rules: RowRules,
    pub(crate) input: Plan,
    /// The columns' values, over a row of the input.
    pub(crate) values: Vec<Expr>,
    pub(crate) conflict: Option<ConflictPlan>,
    /// Over the new row, and behind it, with ON CONFLICT DO UPDATE, `xmax`.
    pub(crate) returning: Vec<Expr>,
    /// Whether the input reads tables, so that it has to end before the first row is stored.
    pub(crate) reads: bool,
}

#[derive(Debug)]
pub(crate) struct ConflictPlan {
    pub(crate) target: ConflictTarget,
    pub(crate) update: Option<ConflictUpdate>,
}

/// Over the row that is there, and behind it the row that was to be inserted.
#[derive(Debug)]
pub(crate) struct ConflictUpdate {
    pub(crate) sets: Vec<(usize, Expr)>,
    pub(crate) filter: Option<Expr>,
    pub(crate) generated: Vec<(usize, Expr)>,
    /// The same as operations, if it is that.
    pub(crate) commuting: Option<Vec<Commuting>>,
}

#[derive(Debug)]
pub(crate) struct UpdatePlan {
    pub(crate) rules: RowRules,
    pub(crate) input: Plan,
    /// Where in the input's rows the table's columns are, and its key.
    pub(crate) row: Vec<usize>,
    pub(crate) key: Vec<usize>,
    /// Whether the input joins the table with others, so that a row may come several times.
    pub(crate) is_joined: bool,
    pub(crate) sets: Vec<(usize, Expr)>,
    /// Over the new row, and behind it the input's row.
    pub(crate) returning: Vec<Expr>,
    /// The same as operations on the row that this key names, if it is that.
    pub(crate) commuting: Option<(Vec<Expr>, Vec<Commuting>)>,
}

#[derive(Debug)]
pub(crate) struct DeletePlan {
    pub(crate) rules: RowRules,
    pub(crate) input: Plan,
    pub(crate) row: Vec<usize>,
    pub(crate) key: Vec<usize>,
    /// As for an UPDATE.
    pub(crate) is_joined: bool,
    /// Over the deleted row, and behind it the input's row.
    pub(crate) returning: Vec<Expr>,
}

#[derive(Debug)]
pub(crate) struct MergePlan {
    pub(crate) rules: RowRules,
    /// Rows of the source, each with the row of the table that it matches, if there is one.
    pub(crate) input: Plan,
    pub(crate) row: Vec<usize>,
    pub(crate) key: Vec<usize>,
    pub(crate) arms: Vec<MergeArmPlan>,
}

#[derive(Debug)]
pub(crate) struct MergeArmPlan {
    pub(crate) matched: bool,
    pub(crate) condition: Option<Expr>,
    pub(crate) action: MergeActionPlan,
}

#[derive(Debug)]
pub(crate) enum MergeActionPlan {
    Nothing,
    Delete,
    Update(Vec<(usize, Expr)>),
    Insert(Vec<Expr>),
}

/// From which cost on, in rows looked at, a query is a report.
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
    let calls = planner.calls;
    Ok(Planned { ctes, first, action, sizes, writes, is_report, locks, calls, depends_on_values, procedure })
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
                (ctes, Action::Merge(Box::new(self.merge(merge)?)))
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

    fn insert(&mut self, insert: &BoundInsert) -> Result<InsertPlan> {
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
                        let commuting =
                            (is_key && filter.is_none() && generated.is_empty() && returning.is_empty())
                                .then(|| self.commuting(&rules, sets, insert.target, &both))
                                .flatten();
                        Some(ConflictUpdate {
                            sets: self.assignments(sets, &both)?,
                            filter: filter.as_ref().map(|filter| self.expr(filter, &both)).transpose()?,
                            generated: self.assignments(generated, &row)?,
                            commuting,
                        })
                    }
                };
                Some(ConflictPlan { target: conflict.target.clone(), update })
            }
        };
        let reads = crate::plan::explain::reads_tables(&input);
        Ok(InsertPlan { rules, input, values, conflict, returning, reads })
    }

    /// What a statement that changes rows reads: all columns of its target, with whatever it is joined with.
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

    /// Where in a stage's rows the target's columns are, and its key.
    fn slots_of(table: &Table, target: RelationId, stage: &Stage) -> (Vec<usize>, Vec<usize>) {
        let slot = |column| stage.layout.slot(Key::Column(target, column)).unwrap_or_default();
        ((0..table.columns.len()).map(slot).collect(), key_columns(table).into_iter().map(slot).collect())
    }

    /// The target's row as it will be, and behind it the input's row, which gives the other relations.
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

    fn update(&mut self, update: &BoundUpdate) -> Result<UpdatePlan> {
        let (table, target) = (&update.table, update.target);
        let mut stage =
            self.target_rows(table, target, &update.relations, &update.from, update.filter.as_ref())?;
        let (row, key) = Self::slots_of(table, target, &stage);
        let point = self.point_of(&stage.plan);
        let is_one_row = matches!(&stage.plan.node, Node::Scan(scan) if matches!(scan.path, Path::Point(_)));
        let sets = match is_one_row {
            true => self.assignments(&update.sets, &stage.layout)?,
            false => self.assignments_before_writes(&update.sets, &mut stage)?,
        };
        let rules = self.rules(table, target, &update.generated, &update.checks)?;
        let returning = self.returning(&update.returning, &Self::changed_layout(table, target, &stage))?;
        let is_plain = update.from.is_empty() && returning.is_empty() && update.generated.is_empty();
        let commuting = match point {
            Some(point) if is_plain => {
                let none = Layout::default();
                self.commuting(&rules, &update.sets, target, &none).map(|operations| (point, operations))
            }
            _ => None,
        };
        let is_joined = !update.from.is_empty();
        Ok(UpdatePlan { rules, input: stage.plan, row, key, is_joined, sets, returning, commuting })
    }

    fn delete(&mut self, delete: &BoundDelete) -> Result<DeletePlan> {
        let (table, target) = (&delete.table, delete.target);
        let stage =
            self.target_rows(table, target, &delete.relations, &delete.from, delete.filter.as_ref())?;
        let (row, key) = Self::slots_of(table, target, &stage);
        let rules = self.rules(table, target, &[], &[])?;
        let returning = self.returning(&delete.returning, &Self::changed_layout(table, target, &stage))?;
        let is_joined = !delete.from.is_empty();
        Ok(DeletePlan { rules, input: stage.plan, row, key, is_joined, returning })
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
