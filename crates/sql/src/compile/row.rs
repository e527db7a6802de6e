//! SELECT without a table: one row of expressions, as calls of functions are.

use crate::compile::append;
use crate::error::Result;
use crate::plan::expression::Expr;
use crate::plan::node::Plan;
use crate::routine::footprint::expressions::subqueries;
use crate::run::Run;
use crate::types::Value;

/// A query that computes one row of nothing but its parameters.
#[derive(Debug)]
pub(crate) struct OneRow {
    expressions: Vec<Expr>,
}

impl OneRow {
    pub(super) fn of(plan: &Plan) -> Option<OneRow> {
        let expressions = plan.lone_row()?;
        // Plans of subqueries are for the operators.
        let mut plans = Vec::new();
        expressions.iter().for_each(|expression| subqueries(expression, &mut plans));
        plans.is_empty().then(|| OneRow { expressions: expressions.to_vec() })
    }

    /// Appends the row to `into`.
    pub(super) fn run<'e>(&'e self, run: &mut Run<'e>, into: &mut Vec<Value>) -> Result<u64> {
        append(run, &self.expressions, &[], into).map(|()| 1)
    }
}
