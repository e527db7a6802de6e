//! Compiled statements: reads and writes of one row by its key, and rows of expressions, which run without plan
//! operators.
//!
//! ```text
//! key      a key from expressions, in the engine's form         read     SELECT of one row
//! update   UPDATE of one row, by operations if possible     insert   INSERT of one row     delete   DELETE of one row
//! row      SELECT without a table, such as the call of a function
//! ```
//!
//! A statement is compiled when it is planned. A compiled statement allocates no memory for values of one machine
//! word, and decodes only the columns that it needs.
//!
//! # Invariants
//! - A compiled statement returns the same result as the operators of the same plan. In a case that it does not handle
//!   (a row that violates a constraint, an operand out of range), it falls back to the operators before it has written
//!   anything, so the operators raise the error.

mod delete;
mod insert;
mod key;
mod read;
mod row;
mod update;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::catalog::Table;
use crate::error::Result;
use crate::plan::expression::Expr;
use crate::plan::node::{Node, Path, Plan, ScanNode};
use crate::plan::statement::{Action, RowRules};
use crate::run::Run;
use crate::types::Value;

pub(crate) use key::{PointKey, typed, with_key};

/// A compiled statement.
#[derive(Debug)]
pub(crate) enum Procedure {
    Row(row::OneRow),
    Read(read::PointRead),
    Insert(insert::OneInsert),
    /// Boxed, because it is much larger than the others.
    Update(Box<update::PointUpdate>),
    Delete(delete::PointDelete),
}

impl Procedure {
    /// The compiled form of a statement, if it has one.
    pub(crate) fn of(action: &Action) -> Option<Procedure> {
        // The operators fire triggers.
        let rules = match action {
            Action::Query(_) => None,
            Action::Insert(plan) => Some(&plan.rules),
            Action::Update(plan) => Some(&plan.rules),
            Action::Delete(plan) => Some(&plan.rules),
            Action::Merge(plan) => Some(&plan.rules),
        };
        if rules.is_some_and(|rules| !rules.triggers.is_empty()) {
            return None;
        }
        match action {
            Action::Query(plan) => match row::OneRow::of(plan) {
                Some(row) => Some(Procedure::Row(row)),
                None => read::PointRead::of(plan).map(Procedure::Read),
            },
            Action::Insert(plan) => insert::OneInsert::of(plan).map(Procedure::Insert),
            Action::Update(plan) => {
                update::PointUpdate::of(plan).map(|update| Procedure::Update(Box::new(update)))
            }
            Action::Delete(plan) => delete::PointDelete::of(plan).map(Procedure::Delete),
            Action::Merge(_) => None,
        }
    }

    /// Runs the statement, appends the row that it returns, if any, to `row`, and returns the number of rows returned
    /// or written. `None`: nothing was done, and the caller must run the operators instead.
    pub(crate) fn run<'e>(&'e self, run: &mut Run<'e>, row: &mut Vec<Value>) -> Result<Option<u64>> {
        match self {
            Procedure::Row(one) => one.run(run, row).map(Some),
            Procedure::Read(read) => read.run(run, row).map(Some),
            Procedure::Insert(insert) => insert.run(run, row),
            Procedure::Update(update) => update.run(run, row),
            Procedure::Delete(delete) => delete.run(run),
        }
    }
}

/// The scan of one row by its primary key that a plan is.
fn point_scan(plan: &Plan) -> Option<(&ScanNode, &[Expr])> {
    match &plan.node {
        Node::Scan(scan) => match &scan.path {
            Path::Point(key) => Some((scan, key)),
            _ => None,
        },
        _ => None,
    }
}

/// Returns true if columns of a table can change without reading other rows: no constraint between rows names them.
fn are_free(rules: &RowRules, mut columns: impl Iterator<Item = usize>) -> bool {
    let table = &*rules.table;
    let Some(keyed) = rules.keys.tables.get(&table.oid) else { return false };
    let is_free = |column: usize| {
        let in_unique = table
            .indexes
            .iter()
            .any(|index| index.unique && index.columns.iter().any(|at| at.column == column));
        let refers = keyed.foreign_keys.iter().any(|(key, _)| key.columns.contains(&column));
        !table.key.contains(&column) && !in_unique && !refers && keyed.referencing.is_empty()
    };
    columns.all(is_free)
}

/// Returns true if a value is NULL where the table allows none.
pub(crate) fn lacks_a_value(table: &Table, column: usize, value: &Value) -> bool {
    value.is_null() && (table.columns[column].not_null || table.key.contains(&column))
}

/// The columns of a table's row that expressions over it see; `None` if not all of them are known.
pub(crate) fn columns_seen<'x>(expressions: impl Iterator<Item = &'x Expr>) -> Option<BTreeSet<usize>> {
    let mut seen = BTreeSet::new();
    for expression in expressions {
        if !expression.slots(&mut seen) {
            return None;
        }
    }
    Some(seen)
}

/// Appends the values of expressions over a row.
fn append<'e>(run: &mut Run<'e>, values: &'e [Expr], row: &[Value], into: &mut Vec<Value>) -> Result<()> {
    for value in values {
        let value = run.evaluate(value, row)?;
        into.push(value);
    }
    Ok(())
}

/// Returns true if all checks of a row hold. One that fails is evaluated again in the usual way, which reports it.
fn holds_all<'e>(run: &mut Run<'e>, checks: &'e [(String, Expr)], row: &[Value]) -> Result<bool> {
    for (_, check) in checks {
        if matches!(run.evaluate(check, row), Ok(Value::Bool(false)) | Err(_)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The table and the checks that a compiled write needs to know.
#[derive(Debug)]
struct Rules {
    table: Arc<Table>,
    checks: Vec<(String, Expr)>,
}

impl Rules {
    fn of(rules: &RowRules) -> Rules {
        Rules { table: rules.table.clone(), checks: rules.checks.clone() }
    }
}
