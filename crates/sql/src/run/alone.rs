//! Expressions evaluated without a statement: constants for the planner, and values that read no table.

use super::access::Access;
use super::{Run, Sizes};
use crate::access::Rows;
use crate::error::{Result, SqlError};
use crate::plan::expression::Expr;
use crate::plan::statement::Planned;
use crate::run::large_values::LARGE_BYTES;
use crate::run::memory::{MEMORY_BYTES_DEFAULT, Memory};
use crate::run::parameters::Parameters;
use crate::types::{Environment, PlainEnvironment, Value};

/// The value of a statement's one expression.
///
/// # Errors
/// The expression's.
pub(crate) fn evaluate_alone<'p>(
    expression: &Expr,
    planned: &Planned,
    access: Access<'_>,
    parameters: impl Into<Parameters<'p>>,
    environment: &mut dyn Environment,
) -> Result<Value> {
    let limit = Memory::new(MEMORY_BYTES_DEFAULT);
    let view = access.view(planned.has_routines);
    let mut run = Run::new(view.rows(), access.writes, environment, parameters.into(), planned.sizes, limit);
    (run.runs_in, run.is_ordinary) = (access.runs_in, access.is_ordinary);
    run.evaluate(expression, &[])
}

/// The environment of expressions that the planner evaluates: large values are computed by each execution, which counts
/// them.
fn planning_environment() -> PlainEnvironment {
    let mut environment = PlainEnvironment::new(0);
    environment.value_limit = LARGE_BYTES;
    environment
}

/// Evaluates a constant expression.
pub(crate) fn constant_value(expr: &Expr) -> Result<Value> {
    let mut environment = planning_environment();
    let mut run =
        Run::new(&NoRows, None, &mut environment, Parameters::Values(&[]), Sizes::default(), Memory::new(0));
    run.evaluate(expr, &[])
}

/// Evaluates an expression without subqueries and parameters for rows that the planner has at hand.
///
/// # Errors
/// The expression's.
pub(crate) fn evaluate_rows<'r>(
    expr: &Expr,
    rows: impl Iterator<Item = &'r [Value]>,
    each: &mut dyn FnMut(usize, Value),
) -> Result<()> {
    let mut environment = planning_environment();
    let mut run =
        Run::new(&NoRows, None, &mut environment, Parameters::Values(&[]), Sizes::default(), Memory::new(0));
    for (at, row) in rows.enumerate() {
        each(at, run.evaluate(expr, row)?);
    }
    Ok(())
}

/// Evaluates an expression that reads no table, where statements run.
///
/// # Errors
/// The expression's.
pub(crate) fn value_alone(expr: &Expr, environment: &mut dyn Environment) -> Result<Value> {
    let limit = Memory::new(MEMORY_BYTES_DEFAULT);
    let mut run = Run::new(&NoRows, None, environment, Parameters::Values(&[]), Sizes::default(), limit);
    run.evaluate(expr, &[])
}

/// The reads of a constant expression: there are no tables.
struct NoRows;

impl Rows for NoRows {
    fn get(
        &self,
        _table: &heddledb::Table,
        _key: &[heddledb::ValueRef<'_>],
        _columns: Option<&[heddledb::Column]>,
        _each: &mut dyn FnMut(&heddledb::Row<'_>) -> Result<()>,
    ) -> Result<bool> {
        Ok(false)
    }

    fn exists(&self, _table: &heddledb::Table, _key: &[heddledb::ValueRef<'_>]) -> Result<bool> {
        Ok(false)
    }

    fn scan<'s>(
        &'s self,
        _table: &heddledb::Table,
        _index: Option<&str>,
        _range: heddledb::Range,
        _columns: Option<&[heddledb::Column]>,
    ) -> Result<Box<dyn crate::access::RowScan + 's>> {
        Err(SqlError::internal("constants read no tables"))
    }
}
