//! INSERT of one row of values, into a table whose rows have a key and refer to no others.

use heddledb::ValueRef;
use smallvec::SmallVec;

use crate::compile::{Rules, append, holds_all, lacks_a_value};
use crate::error::{Result, SqlState};
use crate::plan::expression::Expr;
use crate::plan::node::Node;
use crate::plan::statement::InsertPlan;
use crate::run::Run;
use crate::storage::encode_ref;
use crate::types::Value;

/// An INSERT of one row.
#[derive(Debug)]
pub(crate) struct OneInsert {
    rules: Rules,
    /// The columns' values, in order.
    values: Vec<Expr>,
    returning: Vec<Expr>,
}

impl OneInsert {
    pub(super) fn of(plan: &InsertPlan) -> Option<OneInsert> {
        let table = &*plan.rules.table;
        let keyed = plan.rules.keys.tables.get(&table.oid)?;
        let is_plain = plan.conflict.is_none() && plan.rules.generated.is_empty() && !table.key.is_empty();
        // The engine's columns are the table's, in order.
        let is_aligned = table.engine.definition().columns().len() == table.columns.len()
            && table.columns.iter().enumerate().all(|(number, column)| column.engine == number);
        if !is_plain || !is_aligned || table.has_late_keys() || !keyed.foreign_keys.is_empty() {
            return None;
        }
        let values = match &plan.input.node {
            Node::Values(rows) => match &rows[..] {
                [row] => substituted(&plan.values, row)?,
                _ => return None,
            },
            _ => return None,
        };
        Some(OneInsert { rules: Rules::of(&plan.rules), values, returning: plan.returning.clone() })
    }

    pub(super) fn run<'e>(&'e self, run: &mut Run<'e>, into: &mut Vec<Value>) -> Result<Option<u64>> {
        let (Some(writes), table) = (run.writes, &*self.rules.table) else { return Ok(None) };
        let mut row = SmallVec::<[Value; 12]>::new();
        for value in &self.values {
            row.push(run.evaluate(value, &[])?);
        }
        let is_incomplete = row.iter().enumerate().any(|(column, value)| lacks_a_value(table, column, value));
        if is_incomplete || !holds_all(run, &self.rules.checks, &row)? {
            return Ok(None);
        }
        let mut scratch: SmallVec<[Vec<u8>; 12]> = row.iter().map(|_| Vec::new()).collect();
        let mut stored = SmallVec::<[ValueRef<'_>; 12]>::new();
        for ((column, value), scratch) in table.columns.iter().zip(&row).zip(&mut scratch) {
            stored.push(encode_ref(column.ty, column.modifier, value, scratch)?);
        }
        match writes.insert(&table.engine, &stored) {
            Ok(()) => {}
            Err(error) if error.state() == SqlState::UNIQUE_VIOLATION => return Ok(None),
            Err(error) => return Err(error.with_table(&table.schema, &table.name)),
        }
        append(run, &self.returning, &row, into)?;
        Ok(Some(1))
    }
}

/// The values over one row of expressions; `None` if one is more than a column of it.
fn substituted(values: &[Expr], row: &[Expr]) -> Option<Vec<Expr>> {
    let one = |value: &Expr| match value {
        Expr::Slot(slot) => row.get(*slot).cloned(),
        Expr::Constant(_) | Expr::Parameter(_) => Some(value.clone()),
        Expr::Cast(cast) => match &cast.operand {
            Expr::Slot(slot) => {
                let operand = row.get(*slot)?.clone();
                Some(Expr::Cast(Box::new(crate::plan::expression::Cast { operand, cast: cast.cast })))
            }
            _ => None,
        },
        other if row.is_empty() => Some(other.clone()),
        _ => None,
    };
    values.iter().map(one).collect()
}
