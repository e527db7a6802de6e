//! SELECT of one row by its key.

use smallvec::SmallVec;

use crate::compile::{PointKey, append, point_scan};
use crate::error::Result;
use crate::plan::decoder::Decoder;
use crate::plan::expression::Expr;
use crate::plan::node::{Node, Plan};
use crate::run::Run;
use crate::types::Value;

/// A query that reads one row by its key.
#[derive(Debug)]
pub(crate) struct PointRead {
    key: PointKey,
    /// Reads the result's columns, or what the filter and the expressions see.
    decoder: Decoder,
    filter: Option<Expr>,
    /// What is made of the row; none: the columns as they are read.
    expressions: Option<Vec<Expr>>,
}

impl PointRead {
    pub(super) fn of(plan: &Plan) -> Option<PointRead> {
        let (input, expressions) = match &plan.node {
            Node::Project { input, expressions } => (&**input, Some(expressions)),
            _ => (plan, None),
        };
        let (scan, key) = point_scan(input)?;
        let key = PointKey::new(&scan.table, key);
        let slot = |expression: &Expr| match expression {
            Expr::Slot(slot) => Some(*slot),
            _ => None,
        };
        let slots: Option<Vec<usize>> = expressions.and_then(|all| all.iter().map(slot).collect());
        if let (Some(slots), None) = (slots, &scan.filter) {
            let decoder = scan.decoder.picked(&slots);
            return Some(PointRead { key, decoder, filter: None, expressions: None });
        }
        let (decoder, filter) = (scan.decoder.clone(), scan.filter.clone());
        Some(PointRead { key, decoder, filter, expressions: expressions.cloned() })
    }

    /// The row, if it is there and meets the filter, is appended to `into`. How many rows there are.
    pub(super) fn run<'e>(&'e self, run: &mut Run<'e>, into: &mut Vec<Value>) -> Result<u64> {
        let found = self.key.with(run, |run, key| {
            let table = &self.key.table.engine;
            if self.expressions.is_none() && self.filter.is_none() {
                return run.rows.get(table, key, &mut |row| self.decoder.each(row, |value| into.push(value)));
            }
            let mut values = SmallVec::<[Value; 8]>::new();
            if !run.rows.get(table, key, &mut |row| self.decoder.each(row, |value| values.push(value)))? {
                return Ok(false);
            }
            if let Some(filter) = &self.filter
                && !run.holds(filter, &values)?
            {
                return Ok(false);
            }
            match &self.expressions {
                Some(expressions) => append(run, expressions, &values, into)?,
                None => into.extend(values),
            }
            Ok(true)
        })?;
        Ok(u64::from(found == Some(true)))
    }
}
