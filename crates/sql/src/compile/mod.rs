//! OLTP statements that name one row by its key: they run without operators.
//!
//! # Invariants
//! - The result is what the operators of the same plan give.

use heddledb::{Value as Stored, ValueRef};
use smallvec::SmallVec;

use crate::error::Result;
use crate::plan::expression::Expr;
use crate::plan::node::{Node, Path, Plan, ScanNode};
use crate::plan::scan::key_columns;
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::operator::scan::stored_key;
use crate::types::Value;

/// A plan that reads one row by its key.
pub(crate) struct PointRead<'e> {
    scan: &'e ScanNode,
    key: &'e [Expr],
    /// What is made of the row; none: the row as it is read.
    expressions: Option<&'e [Expr]>,
}

/// The point read that a plan is.
pub(crate) fn point_read(plan: &Plan) -> Option<PointRead<'_>> {
    let (scan, expressions) = match &plan.node {
        Node::Scan(scan) => (scan, None),
        Node::Project { input, expressions } => match &input.node {
            Node::Scan(scan) => (scan, Some(&expressions[..])),
            _ => return None,
        },
        _ => return None,
    };
    match &scan.path {
        Path::Point(key) => Some(PointRead { scan, key, expressions }),
        _ => None,
    }
}

impl<'e> PointRead<'e> {
    /// The row, if it is there and meets the filter.
    pub(crate) fn run(&self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        let mut key = SmallVec::<[Stored; 4]>::new();
        for (column, value) in key_columns(&self.scan.table).into_iter().zip(self.key) {
            let value = run.evaluate(value, &[])?;
            match stored_key(&self.scan.table, column, &value) {
                Some(stored) => key.push(stored),
                None => return Ok(None),
            }
        }
        let key: SmallVec<[ValueRef<'_>; 4]> = key.iter().map(ValueRef::from).collect();
        let mut batch = Batch::with_capacity(self.scan.decoder.len(), 1);
        let decoder = &self.scan.decoder;
        if !run.rows.get(&self.scan.table.engine, &key, &mut |row| decoder.decode(row, batch.push_nulls()))? {
            return Ok(None);
        }
        if let Some(filter) = &self.scan.filter
            && !run.holds(filter, batch.row(0))?
        {
            return Ok(None);
        }
        let Some(expressions) = self.expressions else { return Ok(Some(batch)) };
        let mut result = Batch::with_capacity(expressions.len(), 1);
        let values = expressions.iter().map(|expression| run.evaluate(expression, batch.row(0)));
        let values: SmallVec<[Value; 8]> = values.collect::<Result<_>>()?;
        result.push(values);
        Ok(Some(result))
    }
}
