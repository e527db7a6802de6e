//! Calls of routines: from a call in a statement to the body that runs.
//!
//! A body is compiled at its first call, and kept by the session for as long as the catalog, the role and the settings
//! that binding depends on are the same. It runs with the privileges of the session's role or, with SECURITY DEFINER,
//! of its owner.

use std::sync::Arc;

use crate::bind::privileges::denied;
use crate::catalog::rights::{EXECUTE, RightsKind};
use crate::catalog::uses::{self, is_noting};
use crate::catalog::{Language, ResultColumn, Routine, Stability};
use crate::error::{Result, SqlError, SqlState};
use crate::extension;
use crate::functions::{Function, FunctionContext, FunctionKind};
use crate::parse::syntax::Do;
use crate::plan::Planned;
use crate::routine::plpgsql;
use crate::routine::query::{Door, Execution};
use crate::routine::sql::SqlBody;
use crate::routine::{Body, Compiled, Returned};
use crate::run::parameters::Parameters;
use crate::run::{Access, evaluate_alone};
use crate::session::SessionEnvironment;
use crate::types::environment::Acting;
use crate::types::{Environment, Type, Value};

/// The first number of instances of polymorphic routines, which have bodies of their own: above all oids of objects.
const FIRST_INSTANCE: u32 = 1 << 30;

/// Calls a function for its value.
///
/// # Errors
/// The function's; 54001 where calls nest too deeply.
pub(crate) fn value(
    environment: &mut SessionEnvironment,
    oid: u32,
    arguments: &[Value],
    access: Access<'_>,
) -> Result<Value> {
    let (routine, arguments) = instance(environment, oid, arguments)?;
    if routine.is_strict && arguments.iter().any(Value::is_null) {
        return Ok(Value::Null);
    }
    Ok(called(environment, &routine, arguments, access)?.into_iter().next().unwrap_or_default())
}

/// Calls a function for its rows; one that returns no set has one row.
///
/// # Errors
/// Same errors as [`value`].
pub(crate) fn rows(
    environment: &mut SessionEnvironment,
    oid: u32,
    arguments: &[Value],
    access: Access<'_>,
) -> Result<Vec<Value>> {
    let routine = routine_of(environment, oid)?;
    if routine.is_set {
        let (routine, arguments) = instance(environment, oid, arguments)?;
        if routine.is_strict && arguments.iter().any(Value::is_null) {
            return Ok(Vec::new());
        }
        return called(environment, &routine, arguments, access).map(Returned::into_vec);
    }
    value(environment, oid, arguments, access).map(|value| vec![value])
}

fn routine_of(environment: &SessionEnvironment, oid: u32) -> Result<Arc<Routine>> {
    environment.catalog.routine_by_oid(oid).cloned().ok_or_else(|| {
        SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function with OID {oid} does not exist"))
    })
}

/// The routine of a call and its arguments; one that is polymorphic with the types that the call has decided, which are its
/// last argument.
fn instance<'a>(
    environment: &mut SessionEnvironment,
    oid: u32,
    arguments: &'a [Value],
) -> Result<(Arc<Routine>, &'a [Value])> {
    let routine = routine_of(environment, oid)?;
    if !routine.is_polymorphic() {
        return Ok((routine, arguments));
    }
    let Some((types, arguments)) = arguments.split_last() else {
        return Err(SqlError::internal("a call has not decided the types of its arguments"));
    };
    let types = Routine::types_of(types);
    let version = environment.catalog.version;
    let instances = &mut environment.routines.instances;
    let next = FIRST_INSTANCE + instances.len() as u32;
    let (known, made) = instances
        .entry((oid, types.clone()))
        .or_insert_with(|| (0, Arc::new(Routine { oid: next, ..routine.with_types(&types) })));
    if *known != version {
        *made = Arc::new(Routine { oid: made.oid, ..routine.with_types(&types) });
        *known = version;
    }
    Ok((made.clone(), arguments))
}

fn called(
    environment: &mut SessionEnvironment,
    routine: &Arc<Routine>,
    arguments: &[Value],
    access: Access<'_>,
) -> Result<Returned> {
    check_callable(environment, routine)?;
    acting_for(environment, routine, |environment| run_body(environment, routine, arguments, access))
}

/// Checks that the session's role may call a routine.
pub(crate) fn check_callable(environment: &mut SessionEnvironment, routine: &Routine) -> Result<()> {
    environment.note_role();
    let role = environment.role_oid();
    let now = (environment.catalog.version, role);
    // A transaction notes the privilege that it needs.
    if environment.routines.callable.get(&routine.oid) == Some(&now) && !is_noting() {
        return Ok(());
    }
    if !environment.catalog.may(role, &routine.rights, RightsKind::Function, EXECUTE) {
        return Err(denied(routine.kind(), &routine.name));
    }
    environment.routines.callable.insert(routine.oid, now);
    Ok(())
}

/// Runs `act` with the privileges of a routine's body, the session's role's or its owner's, and with its settings.
///
/// # Errors
/// Those of `act`; 42501 and 22023 of the settings.
pub(crate) fn acting_for<T>(
    environment: &mut SessionEnvironment,
    routine: &Routine,
    act: impl FnOnce(&mut SessionEnvironment) -> Result<T>,
) -> Result<T> {
    let outer = take_on_rights(environment, routine);
    let done = match environment.begin_scope(&routine.settings) {
        Ok(scope) => {
            let done = act(environment);
            environment.settings.end_scope(scope);
            done
        }
        Err(error) => Err(error),
    };
    environment.acting_as = outer;
    done
}

/// Makes the session act as a routine's owner, if its body has the owner's privileges. Returns the previous role.
fn take_on_rights(environment: &mut SessionEnvironment, routine: &Routine) -> Option<Acting> {
    match routine.is_definer {
        true => environment.act_as_role(routine.rights.owner),
        false => environment.acting_as.clone(),
    }
}

/// Runs a routine's body, with the privileges of the role that the session acts as.
fn run_body(
    environment: &mut SessionEnvironment,
    routine: &Arc<Routine>,
    arguments: &[Value],
    access: Access<'_>,
) -> Result<Returned> {
    if routine.language == Language::C {
        return code(environment, routine, arguments);
    }
    let body = body_of(environment, routine)?;
    environment.routines.enter()?;
    // Transition tables are seen by the trigger's own function only.
    let transitions = std::mem::take(&mut environment.transitions);
    let may_write = routine.stability == Stability::Volatile;
    let access = access.of_function(!may_write);
    let mut execution = Execution { environment, door: Door::Attempt(access), may_write };
    let done = crate::stack::grow(|| match &*body {
        Body::Sql(body) => body.run(&mut execution, routine, arguments),
        Body::Plpgsql(program) => plpgsql::run(program, &mut execution, routine, arguments),
    });
    environment.transitions = transitions;
    environment.routines.leave();
    done
}

/// Runs the code of an extension's function.
fn code(environment: &mut SessionEnvironment, routine: &Routine, arguments: &[Value]) -> Result<Returned> {
    let function = code_of(routine)?;
    let types = routine.input_types();
    let mut context = FunctionContext { environment, argument_types: &types, result_type: function.result };
    match function.kind {
        FunctionKind::Scalar(run) => Ok(smallvec::smallvec![run(&mut context, arguments)?]),
        FunctionKind::Set(run) => {
            let (mut rows, mut found) = (run(&mut context, arguments)?, Returned::new());
            while let Some(row) = rows.next()? {
                found.push(row);
            }
            Ok(found)
        }
        FunctionKind::Aggregate { .. } | FunctionKind::Window(_) => {
            Err(SqlError::internal("an extension's function is an aggregate"))
        }
    }
}

fn code_of(routine: &Routine) -> Result<&'static Function> {
    extension::function(&routine.body).ok_or_else(|| {
        let message = format!("could not find function \"{}\"", routine.body);
        SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
            .with_hint("A newer version of the program has installed it.")
    })
}

/// Calls the procedure of a CALL as a part of what runs now: it may end transactions if that may. The row of its output
/// arguments, of this many columns.
///
/// # Errors
/// Same errors as [`value`].
pub(crate) fn procedure(
    execution: &mut Execution<'_>,
    planned: &Planned,
    parameters: Parameters<'_>,
    columns: usize,
) -> Result<Vec<Value>> {
    let call = planned.procedure_call().ok_or_else(|| SqlError::internal("a CALL calls no procedure"))?;
    let mut arguments = Vec::with_capacity(call.arguments.len());
    for argument in &call.arguments {
        arguments.push(execution.with_access(|access, environment| {
            evaluate_alone(argument, planned, access, parameters, environment)
        })?);
    }
    let (routine, arguments) = instance(execution.environment, arguments[0].oid(), &arguments[1..])?;
    let returned = run_procedure(execution, &routine, arguments)?.into_iter().next();
    Ok(match returned {
        Some(Value::Record(record)) if columns > 1 => record.values.to_vec(),
        Some(value) if columns > 0 => vec![value],
        _ => Vec::new(),
    })
}

fn run_procedure(
    execution: &mut Execution<'_>,
    routine: &Arc<Routine>,
    arguments: &[Value],
) -> Result<Returned> {
    let environment = &mut *execution.environment;
    check_callable(environment, routine)?;
    let outer = take_on_rights(environment, routine);
    let done = match environment.begin_scope(&routine.settings) {
        Ok(scope) => {
            let done = run_procedure_body(execution, routine, arguments);
            execution.environment.settings.end_scope(scope);
            done
        }
        Err(error) => Err(error),
    };
    execution.environment.acting_as = outer;
    done
}

fn run_procedure_body(
    execution: &mut Execution<'_>,
    routine: &Arc<Routine>,
    arguments: &[Value],
) -> Result<Returned> {
    let body = body_of(execution.environment, routine)?;
    let environment = &mut *execution.environment;
    // The rights of a definer, and settings of a routine's own, end with its transaction: it can end none.
    let is_plain = !routine.is_definer && routine.settings.is_empty();
    let is_direct = environment.routines.direct == environment.routines.depth && is_plain;
    environment.routines.enter()?;
    environment.routines.direct += usize::from(is_direct);
    let done = crate::stack::grow(|| match &*body {
        Body::Sql(body) => body.run(execution, routine, arguments),
        Body::Plpgsql(program) => plpgsql::run(program, execution, routine, arguments),
    });
    execution.environment.routines.direct -= usize::from(is_direct);
    execution.environment.routines.leave();
    done
}

/// Calls a trigger's function with these variables; the row that it returns, as one of these columns, or none for NULL.
///
/// # Errors
/// The function's; 54001 where triggers fire each other too deeply.
pub(crate) fn trigger_program(
    environment: &mut SessionEnvironment,
    (function, trigger): (u32, u32),
    variables: &[(&str, Value)],
    columns: &[ResultColumn],
    access: Access<'_>,
) -> Result<Option<Vec<Value>>> {
    let routine = routine_of(environment, function)?;
    // Statements that name transition tables are planned for the trigger's.
    let key = if environment.transitions.is_empty() { function } else { trigger };
    environment.routines.enter()?;
    environment.trigger_depth += 1;
    let done = acting_for(environment, &routine, |environment| {
        let body = body_for(environment, &routine, key)?;
        let Body::Plpgsql(program) = &*body else {
            return Err(SqlError::internal("a trigger's function is not in PL/pgSQL"));
        };
        let mut execution = Execution { environment, door: Door::Attempt(access), may_write: true };
        crate::stack::grow(|| plpgsql::run_trigger(program, &mut execution, &routine, variables, columns))
    });
    environment.trigger_depth -= 1;
    environment.routines.leave();
    done
}

/// A routine's body, compiled for the catalog as it is.
pub(crate) fn body_of(environment: &mut SessionEnvironment, routine: &Arc<Routine>) -> Result<Arc<Body>> {
    body_for(environment, routine, routine.oid)
}

/// A routine's body, compiled and kept under this oid: the routine's, or that of a trigger for which it is compiled.
fn body_for(environment: &mut SessionEnvironment, routine: &Arc<Routine>, key: u32) -> Result<Arc<Body>> {
    let role = environment.role_oid();
    let version = environment.catalog.version;
    let settings = &environment.settings.derived.binding;
    if let Some(compiled) = environment.routines.compiled.get(&key)
        && compiled.version == version
        && (Arc::ptr_eq(&compiled.settings, settings) || compiled.settings == *settings)
        && compiled.role == role
    {
        uses::note_kept(&compiled.kept);
        return Ok(compiled.body.clone());
    }
    let settings = settings.clone();
    let position = environment.catalog.position;
    let (body, kept) = uses::record(position, || compile(environment, routine));
    let body = Arc::new(body?);
    let compiled = Compiled { body: body.clone(), version, kept, settings, role };
    environment.routines.compiled.insert(key, compiled);
    Ok(body)
}

fn compile(environment: &mut SessionEnvironment, routine: &Arc<Routine>) -> Result<Body> {
    match routine.language {
        Language::Sql => SqlBody::compile(routine, &environment.catalog).map(Body::Sql),
        Language::C => Err(SqlError::internal("an extension's function has no body")),
        Language::Plpgsql => {
            plpgsql::compile(environment, routine).map(|program| Body::Plpgsql(Box::new(program)))
        }
    }
}

/// Checks the body of a routine that is created.
///
/// # Errors
/// 42601 and other errors of class 42.
pub(crate) fn check(environment: &mut SessionEnvironment, routine: &Arc<Routine>) -> Result<()> {
    let checked;
    let routine = match routine.is_polymorphic() {
        // Its statements have no types yet.
        true if routine.language == Language::Sql => return compile(environment, routine).map(|_| ()),
        true => {
            let all = routine.arguments.iter().map(|argument| argument.ty).chain([routine.result]);
            checked = Arc::new(routine.with_types(&all.map(example).collect::<Vec<_>>()));
            &checked
        }
        false => routine,
    };
    let scope = environment.begin_scope(&routine.settings)?;
    let checked = match compile(environment, routine) {
        Ok(Body::Sql(body)) => {
            environment.routines.is_examined = true;
            let checked = body.check(environment, routine);
            environment.routines.is_examined = false;
            checked
        }
        compiled => compiled.map(|_| ()),
    };
    environment.settings.end_scope(scope);
    checked
}

/// A type in place of a polymorphic one, for the check of a body.
fn example(ty: Type) -> Type {
    match ty {
        Type::AnyArray | Type::AnyCompatibleArray => Type::array_of(Type::Int4),
        ty if ty.is_polymorphic() => Type::Int4,
        ty => ty,
    }
}

/// A body of DO.
pub(crate) struct Inline {
    routine: Routine,
    program: plpgsql::Program,
}

impl Inline {
    /// Compiles a body.
    ///
    /// # Errors
    /// 42601 and other errors of class 42; 0A000 for a language without such bodies.
    pub(crate) fn compile(environment: &mut SessionEnvironment, block: &Do) -> Result<Inline> {
        if block.language != Language::Plpgsql {
            let message =
                format!("language \"{}\" does not support inline code execution", block.language.name());
            return Err(SqlError::unsupported(message));
        }
        let routine = Routine {
            oid: 0,
            schema: String::new(),
            name: "inline_code_block".to_string(),
            is_procedure: false,
            language: block.language,
            arguments: Vec::new(),
            result: Type::Void,
            is_set: false,
            row_of: None,
            result_domain: None,
            is_strict: false,
            stability: Stability::Volatile,
            body: block.body.clone(),
            is_settled: false,
            comment: None,
            rights: Default::default(),
            is_definer: false,
            is_leakproof: false,
            settings: Vec::new(),
            extension: None,
        };
        let program = plpgsql::compile(environment, &routine)?;
        Ok(Inline { routine, program })
    }

    /// Runs the body.
    ///
    /// # Errors
    /// The body's.
    pub(crate) fn run(&self, environment: &mut SessionEnvironment, door: Door<'_>) -> Result<()> {
        environment.routines.enter()?;
        let mut execution = Execution { environment: &mut *environment, door, may_write: true };
        let done = crate::stack::grow(|| plpgsql::run(&self.program, &mut execution, &self.routine, &[]));
        environment.routines.leave();
        done.map(|_| ())
    }
}
