//! The plan of a body's statement: bound with the body's variables, and without counting rows inside of a transaction.

use std::cell::RefCell;
use std::sync::Arc;

use super::execution::Frame;
use super::{Query, QueryPlan};
use crate::bind::routines::routine_of;
use crate::bind::tree::walk::walk_statement;
use crate::bind::tree::{
    BoundColumn, BoundExpr, BoundStatement, FunctionCall, QueryBody, RelationKind, StatementKind,
};
use crate::bind::{BindContext, Checks, bind_inside, definition_path};
use crate::catalog::uses::Kept;
use crate::catalog::{Argument, Catalog, Routine, Table, Trigger};
use crate::error::{Result, SqlError};
use crate::parse::syntax::{CallArg, Statement};
use crate::plan::expression::Expr;
use crate::plan::node::FunctionItem;
use crate::plan::statement::{Action, BoundRowRules};
use crate::plan::statistics::{Age, TableStatistics};
use crate::plan::{Known, Planned, is_volatile_call, plan};
use crate::rewrite::{Constants, fold_statement};
use crate::routine::footprint::accesses::row_functions;
use crate::routine::footprint::expressions::calls_of;
use crate::session::{KnownNow, SessionEnvironment};
use crate::types::Value;
use crate::types::record::RecordField;

pub(super) fn make_plan(
    query: &Query,
    environment: &mut SessionEnvironment,
    frame: &dyn Frame,
) -> Result<QueryPlan> {
    let statement = &query.statement;
    if !statement.is_planned() || statement.is_select_into() {
        return Err(SqlError::unsupported("statements of this kind are not supported in functions")
            .with_hint("Functions run queries, INSERT, UPDATE, DELETE, MERGE and CALL."));
    }
    let (catalog, mut path) = (environment.catalog.clone(), environment.path());
    if query.is_definition {
        path = definition_path(&path);
    }
    let context = BindContext { catalog: &catalog, path: &path, text: "" };
    // A body that is created is not going to run yet.
    let checks = if environment.routines.is_examined { Checks::Nothing } else { Checks::Privileges };
    let (mut bound, variables) =
        bind_inside(context, environment, statement, frame, (query.is_definition, checks))
            .map_err(SqlError::without_position)?;
    // An error in a constant is one of the execution that reaches it, and not of the definition.
    fold_statement(&mut bound, Constants::MayFail)?;
    let shared = environment.shared.clone();
    let now = KnownNow { shared: &shared, catalog: &catalog, path: &path, has_consequences: true };
    let known = KnownInside { now, uncounted: RefCell::default() };
    let planned = plan(&bound, &known)?;
    environment.routines.uncounted.extend(known.uncounted.into_inner());
    let command = match (&bound.kind, statement) {
        (_, Statement::Call(_)) => "CALL",
        (StatementKind::Query(_), _) => "SELECT",
        (StatementKind::Insert(_), _) => "INSERT",
        (StatementKind::Update(_), _) => "UPDATE",
        (StatementKind::Delete(_), _) => "DELETE",
        (StatementKind::Merge(_), _) => "MERGE",
    };
    let called = called_procedure(&bound.kind, &catalog);
    let mut slots: Vec<usize> =
        variables.iter().filter(|it| it.field.is_some()).map(|variable| variable.slot).collect();
    slots.sort_unstable();
    slots.dedup();
    let field = |it: &BoundColumn| RecordField { name: it.name.as_str().into(), kind: it.ty };
    let routines = routines_of(&bound, &catalog, &planned);
    Ok(QueryPlan {
        undeclared: undeclared(&bound, &planned),
        routines,
        is_volatile: is_volatile(&bound),
        outputs: called.map_or_else(Vec::new, |routine| output_positions(&routine, statement)),
        fields: bound.columns.iter().map(field).collect(),
        columns: bound.columns,
        planned,
        command,
        variables,
        shapes: slots.into_iter().map(|slot| (slot, frame.shape(slot))).collect(),
        version: catalog.version,
        kept: Kept::default(),
        settings: environment.settings.derived.binding.clone(),
    })
}

/// Returns true if a statement calls a function that may return another value each time.
pub(super) fn is_volatile(bound: &BoundStatement) -> bool {
    let mut found = false;
    walk_statement(bound, &mut |expr| found |= is_volatile_call(expr));
    found
}

/// The reason why a statement reads or writes more than the scans of its plan and the routines that it calls, if it
/// does.
pub(super) fn undeclared(bound: &BoundStatement, planned: &Planned) -> Option<String> {
    let mut found = None;
    // The subqueries of an expression that stands alone are looked into.
    let is_alone = planned.lone_expression().is_some();
    walk_statement(bound, &mut |expr| {
        if let BoundExpr::Call { function, .. } = expr
            && ["pg_sleep", "pg_advisory"].iter().any(|waits| function.name.starts_with(waits))
        {
            // The thread that the call leads to runs others' calls, too.
            found = Some(format!("{}() may wait", function.name));
        } else if !is_alone && matches!(expr, BoundExpr::Subquery(_)) && found.is_none() {
            found = Some("it has a subquery".to_string());
        }
    });
    found
}

/// The routines that a statement calls, and those of the rules of the rows that it writes.
fn routines_of(bound: &BoundStatement, catalog: &Catalog, planned: &Planned) -> Vec<u32> {
    let mut routines: Vec<u32> =
        row_functions(planned).into_iter().filter_map(FunctionItem::routine).collect();
    walk_statement(bound, &mut |expr| {
        routines.extend(routine_of(catalog, expr).map(|routine| routine.oid));
    });
    for expr in computed_columns(planned) {
        calls_of(expr, &mut |call| {
            routines.extend(call.arguments.first().and_then(Expr::as_constant).map(Value::oid));
        });
    }
    routines
}

/// The expressions that a statement evaluates for each row that it writes: generated columns and checks.
fn computed_columns(planned: &Planned) -> impl Iterator<Item = &Expr> {
    let rules = match &planned.action {
        Action::Insert(plan) => Some(&plan.rules),
        Action::Update(plan) => Some(&plan.rules),
        _ => None,
    };
    rules.into_iter().flat_map(|rules| {
        let generated = rules.generated.iter().map(|(_, expr)| expr);
        generated.chain(rules.checks.iter().map(|(_, expr)| expr))
    })
}

/// The procedure that a CALL calls.
fn called_procedure(kind: &StatementKind, catalog: &Catalog) -> Option<Arc<Routine>> {
    let StatementKind::Query(query) = kind else { return None };
    let QueryBody::Select(select) = &query.body else { return None };
    let [relation] = &select.relations[..] else { return None };
    let RelationKind::Function { calls, .. } = &relation.kind else { return None };
    let [FunctionCall::Set { args, .. }] = &calls[..] else { return None };
    match args.first() {
        Some(BoundExpr::Constant { value: Value::Oid(oid), .. }) => {
            catalog.routine_by_oid(*oid).filter(|routine| routine.is_procedure).cloned()
        }
        _ => None,
    }
}

/// The positions at which a CALL writes the arguments that are outputs; of one that it leaves out, a position behind
/// all.
fn output_positions(routine: &Routine, statement: &Statement) -> Vec<usize> {
    let Statement::Call(call) = statement else { return Vec::new() };
    let written = &call.call.args;
    let place = |(at, argument): (usize, &Argument)| {
        let is_named = |it: &CallArg| it.name.as_ref().is_some_and(|name| name.text == argument.name);
        let by_place = || written.get(at).filter(|it| it.name.is_none()).map(|_| at);
        written.iter().position(is_named).or_else(by_place).unwrap_or(written.len())
    };
    let inputs = routine.inputs().enumerate();
    inputs.filter(|(_, argument)| argument.mode.is_output()).map(place).collect()
}

/// The facts known about the database inside of a transaction.
struct KnownInside<'s> {
    now: KnownNow<'s>,
    /// Tables without statistics.
    uncounted: RefCell<Vec<u32>>,
}

impl Known for KnownInside<'_> {
    fn table(&self, oid: u32) -> Option<Arc<Table>> {
        self.now.table(oid)
    }

    fn referencing(&self, oid: u32) -> Vec<Arc<Table>> {
        self.now.referencing(oid)
    }

    fn triggers(&self, oid: u32) -> Vec<Arc<Trigger>> {
        self.now.triggers(oid)
    }

    fn routine(&self, oid: u32) -> Option<Arc<Routine>> {
        self.now.routine(oid)
    }

    fn row_rules(&self, table: &Arc<Table>) -> Result<BoundRowRules> {
        self.now.row_rules(table)
    }

    fn statistics(&self, table: &Table) -> Arc<TableStatistics> {
        let shared = self.now.shared;
        if shared.statistics.are_stale(&shared.database, table.oid, &table.engine) {
            self.uncounted.borrow_mut().push(table.oid);
        }
        shared.statistics.known(table).unwrap_or_else(|| {
            self.uncounted.borrow_mut().push(table.oid);
            Arc::new(TableStatistics::unknown(table.columns.len()))
        })
    }

    fn age(&self, table: &Table) -> Option<Age> {
        self.now.age(table)
    }
}
