//! A planned statement: its subqueries, and the action on the rows that are read.

use std::collections::HashMap;
use std::sync::Arc;

use crate::bind::routines::is_call;
use crate::bind::tree::{BoundCheck, BoundExpr, ConflictTarget, RelationId};
use crate::catalog::{ForeignKey, Table, Trigger};
use crate::compile::Procedure;
use crate::plan::commute::{Order, Recognition};
use crate::plan::expression::Expr;
use crate::plan::node::{FunctionItem, Node, Plan, SetCall};
use crate::plan::statement::aging::PlanAge;
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
    /// The rules of a table without any.
    pub(crate) fn none() -> BoundRowRules {
        BoundRowRules {
            relation: RelationId(0),
            generated: Vec::new(),
            checks: Vec::new(),
            defaults: Vec::new(),
        }
    }
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
    /// True if it writes.
    pub(crate) writes: bool,
    /// True if it reads so much that a snapshot is worthwhile: it waits for the log, but then conflicts with no
    /// transaction.
    pub(crate) is_report: bool,
    /// True if it reserves rows without writing them.
    pub(crate) locks: bool,
    /// True if another plan may be better for the values of its parameters.
    pub(crate) depends_on_values: bool,
    /// True if the estimates depend on the values of its parameters: some are more frequent than others, or bound a
    /// range.
    pub(crate) follows_values: bool,
    /// True if it calls routines that may write.
    pub(crate) calls: bool,
    /// True if it calls any routine: it may see the writes of functions that it calls.
    pub(crate) has_routines: bool,
    /// The statement in compiled form, if it has one.
    pub(crate) procedure: Option<Procedure>,
    /// Its age; of no tables where it reads by whole keys.
    pub(crate) age: PlanAge,
}

impl Planned {
    /// Returns true if it writes nothing, reserves nothing, and calls nothing that may.
    pub(crate) fn only_reads(&self) -> bool {
        !self.writes && !self.locks && !self.calls
    }

    /// Its estimated cost, in rows examined.
    pub(crate) fn cost(&self) -> f64 {
        let of_action = |action: &Action| match action {
            Action::Query(plan) => plan.cost,
            Action::Insert(insert) => insert.input.cost,
            Action::Update(update) => update.input.cost,
            Action::Delete(delete) => delete.input.cost,
            Action::Merge(merge) => merge.input.cost,
        };
        let ctes = self.ctes.iter().map(|(_, cte)| cte.cost).sum::<f64>();
        let first = self.first.iter().map(|(_, action)| of_action(action)).sum::<f64>();
        ctes + first + of_action(&self.action)
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

/// The action of a statement.
#[derive(Debug)]
pub(crate) enum Action {
    Query(Plan),
    Insert(Box<InsertPlan>),
    Update(Box<UpdatePlan>),
    Delete(Box<DeletePlan>),
    Merge(Box<MergePlan>),
}

/// Checks of every row that is stored, and values computed for it; over the row itself.
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
    /// Rules for rows that other tables' changes reach; without the graph itself.
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
    /// Expressions over the new row, followed, with ON CONFLICT DO UPDATE, by `xmax`.
    pub(crate) returning: Vec<Expr>,
    /// True if the input reads tables, so that it has to end before the first row is stored.
    pub(crate) reads: bool,
}

#[derive(Debug)]
pub(crate) struct ConflictPlan {
    pub(crate) target: ConflictTarget,
    pub(crate) update: Option<ConflictUpdate>,
}

/// The update of a conflicting row; over this row, followed by the row that was to be inserted.
#[derive(Debug)]
pub(crate) struct ConflictUpdate {
    pub(crate) sets: Vec<(usize, Expr)>,
    pub(crate) filter: Option<Expr>,
    pub(crate) generated: Vec<(usize, Expr)>,
    /// The update without reading the existing row, or the reason why it reads it.
    pub(crate) commuting: Recognition,
    /// Limits of columns by which a statement that reads may lose without reading, over the same row.
    pub(crate) orders: Vec<Order>,
}

#[derive(Debug)]
pub(crate) struct UpdatePlan {
    pub(crate) rules: RowRules,
    pub(crate) input: Plan,
    /// Slots of the table's columns in the input's rows, and of its key.
    pub(crate) row: Vec<usize>,
    pub(crate) key: Vec<usize>,
    /// True if the input joins the table with others, so that a row may occur several times.
    pub(crate) is_joined: bool,
    /// True if the statement is a MERGE that only updates the row.
    pub(crate) is_merge: bool,
    pub(crate) sets: Vec<(usize, Expr)>,
    /// Expressions over the new row, followed by the input's row.
    pub(crate) returning: Vec<Expr>,
    /// The update without reading the row, or the reason why it reads it.
    pub(crate) commuting: Recognition,
    /// Limits of columns by which a statement that reads may lose without reading; they see no row.
    pub(crate) orders: Vec<Order>,
}

#[derive(Debug)]
pub(crate) struct DeletePlan {
    pub(crate) rules: RowRules,
    pub(crate) input: Plan,
    pub(crate) row: Vec<usize>,
    pub(crate) key: Vec<usize>,
    /// True if the input joins the table with others, as for an UPDATE.
    pub(crate) is_joined: bool,
    /// Expressions over the deleted row, followed by the input's row.
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
