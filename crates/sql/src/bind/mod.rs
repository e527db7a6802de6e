//! Binding: the syntax tree becomes the bound tree, in which names are resolved and every expression knows its type.
//!
//! The binder walks the syntax tree once, with a stack of scopes that hold the names visible at that point. It chooses
//! functions and operators by PostgreSQL's rules, and writes implicit conversions out as casts, so that all later passes
//! see exact types and look no name up.
//!
//! ```text
//! binder      the state: catalog, parameters, scopes     scope       the names visible at a point
//! query       WITH, set operations, VALUES, LIMIT        select      a SELECT's clauses
//! from        FROM and joins                             grouping    GROUP BY, and the check of grouped queries
//! expression, operators, calls, windows, coerce, types   expressions and their types
//! insert, update, rows                                   statements that write
//! routines, variables                                    calls of user-defined functions, and names in their bodies
//! same                                                   equality of expressions with subqueries
//! stars                                                  the stars of views, written out
//! privileges                                             the privileges that a statement needs, and their check
//! tree        the bound tree
//! ```

mod binder;
mod calls;
mod coerce;
mod domains;
mod expression;
mod from;
mod grouping;
mod hypothetical;
mod insert;
mod json_rows;
mod literals;
mod name_sites;
mod operator_functions;
mod operators;
mod parts;
pub(crate) mod privileges;
mod query;
pub(crate) mod routines;
mod rows;
mod same;
mod scope;
mod select;
mod stars;
mod subscripts;
#[cfg(test)]
mod tests;
pub(crate) mod tree;
mod types;
mod update;
mod variables;
mod view;
mod windows;

pub(crate) use scope::XMAX;

use crate::bind::coerce::indeterminate;
use crate::bind::tree::BoundStatement;
use crate::bind::variables::Variables;
use crate::error::Result;
use crate::parse::syntax::Statement;
use crate::types::{Environment, Type};

pub(crate) use binder::{BindContext, Binder};
pub(crate) use literals::{LiteralUse, fixed_literals};
pub(crate) use name_sites::NameSites;
pub(crate) use privileges::columns_read;
pub(crate) use query::plain_query;
pub(crate) use rows::{definition_path, predicate_value};
pub(crate) use scope::Clause;
pub(crate) use stars::Stars;
pub(crate) use types::NamedType;
pub(crate) use variables::{NameConflict, Names, VariableRef};
pub(crate) use view::{names_of_query, writable_columns};

/// Binds a statement inside of a routine's body. Also returns the variables that its parameters represent.
///
/// # Errors
/// Same errors as [`bind`].
pub(crate) fn bind_inside(
    context: BindContext<'_>,
    environment: &mut dyn Environment,
    statement: &Statement,
    names: &dyn Names,
    (settled, checks): (bool, Checks),
) -> Result<(BoundStatement, Vec<VariableRef>)> {
    let mut binder = Binder::new(context, environment, &[]);
    binder.new_parameters = false;
    binder.settled = settled;
    binder.variables = Some(Variables { names, used: Vec::new() });
    let mut bound = binder.data_statement(statement)?;
    if checks == Checks::Privileges {
        binder.check_statement(&bound)?;
    }
    bound.parameters = binder.parameters.iter().map(|ty| ty.unwrap_or(Type::Text)).collect();
    let used = binder.variables.map_or_else(Vec::new, |variables| variables.used);
    Ok((bound, used))
}

/// The checks that binding a statement makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Checks {
    /// The current role must have the privileges that the statement needs.
    Privileges,
    /// Nothing: the statement is internal, or it is not going to run.
    Nothing,
}

/// Binds a query or a statement that writes rows. `parameters`: the types that the client gave.
///
/// # Errors
/// Class 42 for mistakes in the statement, with the position.
pub(crate) fn bind(
    context: BindContext<'_>,
    environment: &mut dyn Environment,
    statement: &Statement,
    parameters: &[Option<Type>],
    checks: Checks,
) -> Result<BoundStatement> {
    let mut binder = Binder::new(context, environment, parameters);
    binder.is_own = checks == Checks::Nothing;
    let mut bound = binder.data_statement(statement)?;
    if checks == Checks::Privileges {
        binder.check_statement(&bound)?;
    }
    for (number, ty) in binder.parameters.iter().enumerate() {
        bound.parameters.push(ty.ok_or_else(|| indeterminate(number))?);
    }
    Ok(bound)
}

/// Returns the literals of a statement whose meaning the session's settings decide.
///
/// # Errors
/// Same errors as [`bind`].
pub(crate) fn literals_of(
    context: BindContext<'_>,
    environment: &mut dyn Environment,
    statement: &Statement,
    parameters: &[Option<Type>],
) -> Result<Vec<LiteralUse>> {
    let mut binder = Binder::new(context, environment, parameters);
    binder.literals = Some(Vec::new());
    binder.data_statement(statement)?;
    Ok(binder.literals.unwrap_or_default())
}
