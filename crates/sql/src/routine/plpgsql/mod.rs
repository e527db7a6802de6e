//! PL/pgSQL: a body is compiled to a tree once, and interpreted; its expressions and statements are plans.
//!
//! The parser of this module knows the statements of PL/pgSQL alone. Expressions and statements of SQL are text for the
//! SQL parser, in which a name may mean a variable of the body. Such a variable is a parameter of the plan, so that one
//! plan is used for all of its values.
//!
//! ```text
//! compile, statements  text to tree
//! tree                 the tree of a body
//! interpret, loops     blocks and control flow; loops
//! assign               values into variables; assigned: the variables that a body assigns
//! queries, cursor      statements of SQL; cursors
//! conditions, raise    names of errors; RAISE and diagnostics
//! derive, origins      footprints; the origins of variables' values
//! ```

mod assign;
mod assigned;
mod compile;
mod conditions;
mod cursor;
pub(crate) mod derive;
mod interpret;
mod loops;
mod origins;
mod queries;
mod raise;
mod statements;
mod tree;

use crate::catalog::{ResultColumn, Routine};
use crate::error::{Result, SqlError, SqlState};
use crate::routine::Returned;
use crate::routine::plpgsql::interpret::Interpreter;
use crate::routine::query::Execution;
use crate::types::{Type, Value};

pub(crate) use compile::compile;
pub(crate) use interpret::fields_of;
pub(crate) use tree::Program;

/// Calls a routine: its rows, or its one value.
///
/// # Errors
/// The body's, with the function and the line in their context.
pub(crate) fn run(
    program: &Program,
    execution: &mut Execution<'_>,
    routine: &Routine,
    arguments: &[Value],
) -> Result<Returned> {
    let mut body = Interpreter::new(execution, program, routine);
    body.set_arguments(arguments);
    body.run()?;
    if routine.is_set {
        return Ok(std::mem::take(&mut body.rows).into());
    }
    if routine.outputs().next().is_some() {
        return Ok(one(body.output()));
    }
    match body.result.take() {
        Some(value) => Ok(one(value)),
        None if matches!(routine.result, Type::Void) => Ok(one(Value::Void)),
        None => {
            let message = "control reached end of function without RETURN";
            let error = SqlError::new(SqlState::new("2F005"), message);
            let name = routine.signature(|ty| execution.environment.catalog.type_display(ty));
            Err(error.with_context(format!("PL/pgSQL function {name}")))
        }
    }
}

/// One value.
fn one(value: Value) -> Returned {
    Returned::from_buf([value])
}

/// Calls a trigger's function; the row that it returns, as values of these columns, or none for NULL.
///
/// # Errors
/// The body's.
pub(crate) fn run_trigger(
    program: &Program,
    execution: &mut Execution<'_>,
    routine: &Routine,
    variables: &[(&str, Value)],
    columns: &[ResultColumn],
) -> Result<Option<Vec<Value>>> {
    let mut body = Interpreter::new(execution, program, routine);
    body.absent = Some(fields_of(columns));
    for (name, value) in variables {
        if let Some((_, slot)) = program.scopes[0].names.iter().find(|(known, _)| known == name) {
            body.values[*slot] = value.clone();
        }
    }
    body.run()?;
    match body.result.take() {
        Some(Value::Record(row)) => body.row_as(columns, Some(&row)).map(Some),
        Some(_) => Ok(None),
        None => {
            let message = "control reached end of trigger procedure without RETURN";
            Err(SqlError::new(SqlState::new("2F005"), message))
        }
    }
}
