//! SELECT of one row by its key, or by all columns of a unique index.

use heddledb::{Range, Row, ValueRef};
use smallvec::SmallVec;

use crate::compile::{PointKey, append, point_scan};
use crate::error::Result;
use crate::plan::decoder::Decoder;
use crate::plan::expression::Expr;
use crate::plan::node::{Node, Plan, ScanNode};
use crate::run::Run;
use crate::types::Value;

/// A query that reads one row by its key.
#[derive(Debug)]
pub(crate) struct PointRead {
    key: PointKey,
    /// The unique index whose key it is; `None` for the primary key.
    index: Option<String>,
    /// Reads the result's columns, or the columns that the filter and the expressions see.
    decoder: Decoder,
    filter: Option<Expr>,
    /// The result's expressions over the row; `None` if the columns are returned as they are read.
    expressions: Option<Vec<Expr>>,
}

impl PointRead {
    pub(super) fn of(plan: &Plan) -> Option<PointRead> {
        let (input, expressions) = match &plan.node {
            Node::Project { input, expressions } => (&**input, Some(expressions)),
            _ => (plan, None),
        };
        let (scan, key, index) = match point_scan(input) {
            Some((scan, key)) => (scan, PointKey::new(&scan.table, key), None),
            None => index_scan(input)?,
        };
        let slot = |expression: &Expr| match expression {
            Expr::Slot(slot) => Some(*slot),
            _ => None,
        };
        let slots: Option<Vec<usize>> = expressions.and_then(|all| all.iter().map(slot).collect());
        if let (Some(slots), None) = (slots, &scan.filter) {
            let decoder = scan.decoder.picked(&slots);
            return Some(PointRead { key, index, decoder, filter: None, expressions: None });
        }
        let (decoder, filter) = (scan.decoder.clone(), scan.filter.clone());
        Some(PointRead { key, index, decoder, filter, expressions: expressions.cloned() })
    }

    /// Appends the row to `into`, if it exists and meets the filter. Returns the number of rows.
    pub(super) fn run<'e>(&'e self, run: &mut Run<'e>, into: &mut Vec<Value>) -> Result<u64> {
        let found = self.key.with(run, |run, key| {
            if self.expressions.is_none() && self.filter.is_none() {
                // No spare capacity: a record then uses the row without a copy.
                into.reserve_exact(self.decoder.len());
                return self.row_of(run, key, &mut |row| self.decoder.each(row, |value| into.push(value)));
            }
            let mut values = SmallVec::<[Value; 8]>::new();
            if !self.row_of(run, key, &mut |row| self.decoder.each(row, |value| values.push(value)))? {
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

    /// Lends the row of a key to `each`. Returns true if there is one.
    fn row_of(
        &self,
        run: &Run<'_>,
        key: &[ValueRef<'_>],
        each: &mut dyn FnMut(&Row<'_>) -> Result<()>,
    ) -> Result<bool> {
        let table = &self.key.table.engine;
        let columns = Some(self.decoder.columns());
        let Some(index) = &self.index else { return run.rows.get(table, key, columns, each) };
        let mut scan = run.rows.scan(table, Some(index), Range::prefix(key), columns)?;
        let mut found = false;
        scan.read(&mut |row| {
            found = true;
            each(row).map(|()| false)
        })?;
        Ok(found)
    }
}

/// The scan of one row by a unique index that a plan is: the scan, the key, and the index.
fn index_scan(plan: &Plan) -> Option<(&ScanNode, PointKey, Option<String>)> {
    let Node::Scan(scan) = &plan.node else { return None };
    let (Some(at), prefix) = scan.path.lone_prefix()? else { return None };
    let index = &scan.table.indexes[at];
    let is_whole = prefix.len() == index.columns.len() && scan.output.len() == scan.decoder.len();
    if !is_whole || !index.is_unique_in_engine() {
        return None;
    }
    let columns = index.columns.iter().map(|column| column.column);
    let key = PointKey::of_columns(&scan.table, columns, prefix);
    Some((scan, key, Some(index.name.clone())))
}
