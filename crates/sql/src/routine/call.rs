//! From a call in a statement to the body that runs.

use std::sync::Arc;

use crate::bind::privileges::denied;
use crate::catalog::rights::{EXECUTE, RightsKind};
use crate::catalog::{Language, ResultColumn, Routine, Stability};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::Do;
use crate::routine::plpgsql;
use crate::routine::query::Execution;
use crate::routine::sql::SqlBody;
use crate::routine::{Body, Compiled};
use crate::run::Access;
use crate::session::SessionEnvironment;
use crate::types::{Type, Value};

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
    let routine = routine_of(environment, oid)?;
    if routine.is_strict && arguments.iter().any(Value::is_null) {
        return Ok(Value::Null);
    }
    let value = called(environment, &routine, arguments, access)?.into_iter().next();
    Ok(match value {
        None if routine.result == Type::Void => Value::Void,
        value => value.unwrap_or_default(),
    })
}

/// Calls a function for its rows; one that returns no set has one row.
///
/// # Errors
/// As [`value`].
pub(crate) fn rows(
    environment: &mut SessionEnvironment,
    oid: u32,
    arguments: &[Value],
    access: Access<'_>,
) -> Result<Vec<Value>> {
    let routine = routine_of(environment, oid)?;
    if routine.is_set {
        if routine.is_strict && arguments.iter().any(Value::is_null) {
            return Ok(Vec::new());
        }
        return called(environment, &routine, arguments, access);
    }
    value(environment, oid, arguments, access).map(|value| vec![value])
}

fn routine_of(environment: &SessionEnvironment, oid: u32) -> Result<Arc<Routine>> {
    environment.catalog.routine_by_oid(oid).cloned().ok_or_else(|| {
        SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function with OID {oid} does not exist"))
    })
}

fn called(
    environment: &mut SessionEnvironment,
    routine: &Arc<Routine>,
    arguments: &[Value],
    access: Access<'_>,
) -> Result<Vec<Value>> {
    let role = environment.role_oid();
    if !environment.catalog.may(role, &routine.rights, RightsKind::Function, EXECUTE) {
        return Err(denied(routine.kind(), &routine.name));
    }
    acting_for(environment, routine, |environment| run_body(environment, routine, arguments, access))
}

/// Does something with the privileges that a routine's body has: the session's role's, or its owner's.
pub(crate) fn acting_for<T>(
    environment: &mut SessionEnvironment,
    routine: &Routine,
    act: impl FnOnce(&mut SessionEnvironment) -> T,
) -> T {
    let outer = environment.acting_as.clone();
    if routine.is_definer {
        let owner = routine.rights.owner;
        environment.acting_as = Some((owner, environment.role_name(owner).into()));
    }
    let done = act(environment);
    environment.acting_as = outer;
    done
}

/// Runs a routine's body, with the privileges of the role that the session acts as.
fn run_body(
    environment: &mut SessionEnvironment,
    routine: &Arc<Routine>,
    arguments: &[Value],
    access: Access<'_>,
) -> Result<Vec<Value>> {
    let body = body_of(environment, routine)?;
    environment.routines.enter()?;
    let may_write = routine.stability == Stability::Volatile;
    let mut execution = Execution { environment, access, may_write };
    let done = crate::stack::grow(|| match &*body {
        Body::Sql(body) => body.run(&mut execution, routine, arguments),
        Body::Plpgsql(program) => plpgsql::run(program, &mut execution, routine, arguments),
    });
    environment.routines.leave();
    done
}

/// Calls a trigger's function with these variables; the row that it returns, as one of these columns, or none for NULL.
///
/// # Errors
/// The function's; 54001 where triggers fire each other too deeply.
pub(crate) fn trigger_program(
    environment: &mut SessionEnvironment,
    function: u32,
    variables: &[(&str, Value)],
    columns: &[ResultColumn],
    access: Access<'_>,
) -> Result<Option<Vec<Value>>> {
    let routine = routine_of(environment, function)?;
    let body = body_of(environment, &routine)?;
    let Body::Plpgsql(program) = &*body else {
        return Err(SqlError::internal("a trigger's function is not in PL/pgSQL"));
    };
    environment.routines.enter()?;
    let done = acting_for(environment, &routine, |environment| {
        let mut execution = Execution { environment, access, may_write: true };
        crate::stack::grow(|| plpgsql::run_trigger(program, &mut execution, &routine, variables, columns))
    });
    environment.routines.leave();
    done
}

/// A routine's body, compiled for the catalog as it is.
pub(crate) fn body_of(environment: &mut SessionEnvironment, routine: &Arc<Routine>) -> Result<Arc<Body>> {
    let (version, settings) = (environment.catalog.version, environment.settings.derived.binding.clone());
    let role = environment.role_oid();
    if let Some(compiled) = environment.routines.compiled.get(&routine.oid)
        && compiled.version == version
        && compiled.settings == settings
        && compiled.role == role
    {
        return Ok(compiled.body.clone());
    }
    let body = Arc::new(compile(environment, routine)?);
    let compiled = Compiled { body: body.clone(), version, settings, role };
    environment.routines.compiled.insert(routine.oid, compiled);
    Ok(body)
}

fn compile(environment: &mut SessionEnvironment, routine: &Arc<Routine>) -> Result<Body> {
    match routine.language {
        Language::Sql => SqlBody::compile(routine, &environment.catalog).map(Body::Sql),
        Language::Plpgsql => plpgsql::compile(environment, routine).map(Body::Plpgsql),
    }
}

/// Checks the body of a routine that is created.
///
/// # Errors
/// 42601 and other errors of class 42.
pub(crate) fn check(environment: &mut SessionEnvironment, routine: &Arc<Routine>) -> Result<()> {
    match compile(environment, routine)? {
        Body::Sql(body) => body.check(environment, routine),
        Body::Plpgsql(_) => Ok(()),
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
            is_strict: false,
            stability: Stability::Volatile,
            body: block.body.clone(),
            comment: None,
            rights: Default::default(),
            is_definer: false,
        };
        let program = plpgsql::compile(environment, &routine)?;
        Ok(Inline { routine, program })
    }

    /// Runs the body.
    ///
    /// # Errors
    /// The body's.
    pub(crate) fn run(&self, environment: &mut SessionEnvironment, access: Access<'_>) -> Result<()> {
        environment.routines.enter()?;
        let mut execution = Execution { environment, access, may_write: true };
        let done = crate::stack::grow(|| plpgsql::run(&self.program, &mut execution, &self.routine, &[]));
        environment.routines.leave();
        done.map(|_| ())
    }
}
