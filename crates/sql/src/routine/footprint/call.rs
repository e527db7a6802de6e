//! Statements that are one call of a routine: run as one call of the engine, with the footprint that follows from the
//! arguments.
//!
//! For each routine a procedure of the engine is registered, with one repeated action for each table and mode of its flow graph.
//! The arguments of its calls are the keys.
//!
//! # Invariants
//! - What runs is the statement, as without a footprint: only the way to the engine differs. An access that is not declared fails
//!   the call before it has changed anything, and the statement runs as a closure.
//! - A registered procedure belongs to one connection and one version of the catalog.

use std::sync::Arc;

use heddledb::{Action as EngineAction, Args, Procedure, ProcedureDefinition, Value as Stored, ValueRef};

use crate::access::Nowhere;
use crate::bind::routines::is_call;
use crate::catalog::Routine;
use crate::catalog::rights::{EXECUTE, RightsKind};
use crate::error::Result;
use crate::plan::expression::Expr;
use crate::plan::node::{FunctionItem, Node, Plan, ProjectItem};
use crate::plan::statement::{Action, Planned};
use crate::routine::Routines;
use crate::routine::footprint::accesses::Mode;
use crate::routine::footprint::collect::{Collector, Declared};
use crate::routine::footprint::expressions::depends_on;
use crate::routine::footprint::{Start, flow_graph, walk};
use crate::run::{Access, evaluate_alone};
use crate::session::SessionEnvironment;
use crate::types::Value;

/// The footprint registered for a routine.
pub(crate) struct Footprint {
    version: u64,
    settings: Arc<str>,
    role: u32,
    /// `None` if it is not derived.
    derived: Option<Arc<Derived>>,
    /// The number of calls that have accessed something that they had not declared.
    misses: u32,
}

/// The number of such calls after which the routine runs as a closure.
const MISSES_MAX: u32 = 8;

/// A routine's procedure in the engine.
struct Derived {
    procedure: Procedure,
    /// The table and the mode of each action.
    actions: Vec<(u32, Mode)>,
    reads_ahead: bool,
}

/// A call that declares its keys.
pub(crate) struct DeclaredCall {
    pub routine: u32,
    pub procedure: Procedure,
    pub args: Args,
}

/// The call that a statement is, if it is one whose keys are derived.
pub(crate) fn declared_call(
    environment: &mut SessionEnvironment,
    planned: &Planned,
    parameters: &[Value],
) -> Option<DeclaredCall> {
    let (oid, values) = lone_call(planned)?;
    let routine = environment.catalog.routine_by_oid(oid).filter(|it| !it.is_polymorphic())?.clone();
    let role = environment.role_oid();
    if !environment.catalog.may(role, &routine.rights, RightsKind::Function, EXECUTE) {
        return None;
    }
    let derived = derived(environment, &routine)?;
    let arguments = arguments(environment, planned, values, parameters).ok()?;
    if routine.is_strict && arguments.iter().any(Value::is_null) {
        return None;
    }
    let mut collector = Collector { reads_ahead: derived.reads_ahead, ..Collector::of_call() };
    walk(environment, &routine, &Start { arguments: &arguments, ..Start::default() }, &mut collector).ok()?;
    let args = args_of(&derived.actions, collector.call?)?;
    Some(DeclaredCall { routine: oid, procedure: derived.procedure.clone(), args })
}

impl Routines {
    /// Notes that a call of this routine has met something that it had not declared.
    pub(crate) fn note_miss(&mut self, routine: u32) {
        if let Some(footprint) = self.footprints.get_mut(&routine) {
            footprint.misses += 1;
            if footprint.misses >= MISSES_MAX {
                footprint.derived = None;
            }
        }
    }
}

/// The routine that a statement calls once and does nothing else, and the arguments.
fn lone_call(planned: &Planned) -> Option<(u32, &[Expr])> {
    if !planned.ctes.is_empty() || !planned.first.is_empty() {
        return None;
    }
    let Action::Query(plan) = &planned.action else { return None };
    let arguments = match planned.lone_expression() {
        Some(expression) => of_routine(expression)?,
        None => of_rows(plan)?,
    };
    let (oid, values) = arguments.split_first()?;
    let is_known = |value: &Expr| depends_on(value, &mut |_| {}).is_ok();
    match oid.as_constant() {
        Some(Value::Oid(oid)) if values.iter().all(is_known) => Some((*oid, values)),
        _ => None,
    }
}

fn of_routine(expression: &Expr) -> Option<&[Expr]> {
    match expression {
        Expr::Call(call) if call.is_routine => Some(&call.arguments),
        _ => None,
    }
}

/// The arguments of the routine whose rows a plan returns.
fn of_rows(plan: &Plan) -> Option<&[Expr]> {
    match &plan.node {
        Node::Project { input, expressions } if expressions.iter().all(is_column) => of_rows(input),
        // A set in the list of targets: of a statement without a table there is one row.
        Node::ProjectSet { input, items } => match (&input.node, &items[..]) {
            (Node::Values(rows), [ProjectItem::Set(call)]) if rows.len() == 1 && is_call(call.function) => {
                Some(&call.arguments)
            }
            _ => None,
        },
        Node::Functions(node) => match &node.calls[..] {
            [FunctionItem::Set { call, .. }] if is_call(call.function) => Some(&call.arguments),
            [FunctionItem::Scalar { value, .. }] => of_routine(value),
            _ => None,
        },
        _ => None,
    }
}

fn is_column(expression: &Expr) -> bool {
    match expression {
        Expr::Slot(_) => true,
        Expr::Field(row, _) => is_column(row),
        _ => false,
    }
}

fn arguments(
    environment: &mut SessionEnvironment,
    planned: &Planned,
    values: &[Expr],
    parameters: &[Value],
) -> Result<Vec<Value>> {
    let access = Access::reads(&Nowhere);
    values.iter().map(|value| evaluate_alone(value, planned, access, parameters, &mut *environment)).collect()
}

/// The routine's procedure, for the catalog as it is.
fn derived(environment: &mut SessionEnvironment, routine: &Arc<Routine>) -> Option<Arc<Derived>> {
    let (version, settings) = (environment.catalog.version, environment.settings.derived.binding.clone());
    let role = environment.role_oid();
    if let Some(known) = environment.routines.footprints.get(&routine.oid)
        && (known.version, &known.settings, known.role) == (version, &settings, role)
    {
        return known.derived.clone();
    }
    let derived = register(environment, routine).map(Arc::new);
    let footprint = Footprint { version, settings, role, derived: derived.clone(), misses: 0 };
    environment.routines.footprints.insert(routine.oid, footprint);
    derived
}

fn register(environment: &mut SessionEnvironment, routine: &Arc<Routine>) -> Option<Derived> {
    let graph = flow_graph(environment, routine).ok()?;
    if !graph.is_derived() {
        return None;
    }
    let (mut actions, mut declared) = (Vec::new(), Vec::new());
    for action in &graph.actions {
        let name = (action.table.oid, action.mode);
        if actions.contains(&name) {
            continue;
        }
        let number = actions.len();
        let engine = &action.table.engine;
        let of_mode = match action.mode {
            Mode::Read => EngineAction::read(engine),
            Mode::Write => EngineAction::write(engine),
            Mode::Commute => EngineAction::commute(engine),
        };
        let count = move |args: &Args| Ok(args.int(number)? as usize);
        let each = of_mode.each(count, move |args, instance, key| {
            key_of(args, number, instance)?.iter().try_for_each(|value| key.push(ValueRef::from(value)))
        });
        declared.push(each.body(|_, _| Ok(())));
        actions.push(name);
    }
    let definition = ProcedureDefinition::new(routine.name.clone()).any_arguments().phase(declared);
    // Each connection derives its own, and functions may share a name.
    let procedure = environment.shared.database.register_anonymous(definition).ok()?;
    Some(Derived { procedure, actions, reads_ahead: graph.reads_ahead })
}

/// The arguments of a call with these keys: for each action how many keys it has; for each key, in the order of the actions, where
/// it ends; the keys' values; the number of actions.
fn args_of(actions: &[(u32, Mode)], declared: Vec<Declared>) -> Option<Args> {
    let mut keys: Vec<Vec<Vec<Stored>>> = vec![Vec::new(); actions.len()];
    for one in declared {
        let action = actions.iter().position(|(table, mode)| (*table, *mode) == (one.table.oid, one.mode))?;
        keys[action].push(one.key);
    }
    let mut args: Vec<Stored> = keys.iter().map(|keys| Stored::Int(keys.len() as i64)).collect();
    let all = || keys.iter().flatten();
    let mut end = args.len() + all().count();
    args.extend(all().map(|key| {
        end += key.len();
        Stored::Int(end as i64)
    }));
    args.extend(all().flatten().cloned());
    args.push(Stored::Int(actions.len() as i64));
    Some(Args::from(args))
}

/// The values of an action's key, in the arguments that [`args_of`] makes.
fn key_of(args: &Args, action: usize, instance: usize) -> heddledb::Result<&[Stored]> {
    let at = |position: usize| args.int(position).map(|value| value as usize);
    let actions = at(args.len().saturating_sub(1))?;
    let (mut before, mut all) = (0, 0);
    for other in 0..actions {
        let count = at(other)?;
        before += if other < action { count } else { 0 };
        all += count;
    }
    let number = before + instance;
    let start = if number == 0 { actions + all } else { at(actions + number - 1)? };
    Ok(args[..].get(start..at(actions + number)?).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_again_among_the_arguments() {
        // Two actions: the first has keys of one and two values, the second one key without values.
        let ints = |values: &[i64]| values.iter().map(|&value| Stored::Int(value)).collect::<Vec<_>>();
        let args = Args::from(ints(&[2, 1, 6, 8, 8, 70, 71, 72, 2]));
        assert_eq!(key_of(&args, 0, 0).expect("a key"), ints(&[70]));
        assert_eq!(key_of(&args, 0, 1).expect("a key"), ints(&[71, 72]));
        assert_eq!(key_of(&args, 1, 0).expect("a key"), ints(&[]));
    }
}
