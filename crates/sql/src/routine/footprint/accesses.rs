//! The accesses of a statement, as its plan tells: for each the table, the mode, and the expressions that make up the key.
//!
//! # Invariants
//! - The accesses of a plan are all that running it reads and writes, foreign keys included; a plan of which that cannot be said is
//!   an error with the reason.
//! - An access of a prefix stands for all rows whose keys begin so.

use std::sync::Arc;

use crate::bind::tree::ConflictTarget;
use crate::catalog::{ForeignKey, Table};
use crate::plan::explain::inputs;
use crate::plan::expression::Expr;
use crate::plan::node::{Node, Path, Plan, ScanNode};
use crate::plan::scan::key_columns;
use crate::plan::statement::{Action, InsertPlan, Planned, RowRules, UpdatePlan};
use crate::routine::footprint::expressions::subqueries;

/// Why something is not declared.
pub(crate) type Reason = String;

/// What an access does to its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    Read,
    /// By commutative operations only.
    Commute,
    Write,
}

/// One access.
#[derive(Debug)]
pub(crate) struct Access<'p> {
    pub table: &'p Arc<Table>,
    pub mode: Mode,
    /// The values of the first columns of the primary key.
    pub key: Vec<&'p Expr>,
    /// An array: the access is repeated for each of its elements, which is the value of the column behind `key`.
    pub each: Option<&'p Expr>,
    /// The secondary index by which the rows are found, with the values of its first columns.
    pub index: Option<(&'p str, &'p [Expr])>,
    /// The columns that commutative operations change.
    pub commutes: Vec<usize>,
    /// The foreign key that is the reason for it.
    pub foreign_key: Option<&'p str>,
}

impl<'p> Access<'p> {
    fn new(table: &'p Arc<Table>, mode: Mode, key: Vec<&'p Expr>) -> Access<'p> {
        Access { table, mode, key, each: None, index: None, commutes: Vec::new(), foreign_key: None }
    }
}

/// The accesses of a statement.
///
/// # Errors
/// The reason for which they are not known.
pub(crate) fn accesses(planned: &Planned) -> Result<Vec<Access<'_>>, Reason> {
    if !planned.first.is_empty() {
        return Err("a statement in WITH writes".to_string());
    }
    let mut found = Vec::new();
    for (_, cte) in &planned.ctes {
        scans(cte, None, &mut found);
    }
    match &planned.action {
        Action::Query(_) if planned.lone_expression().is_some() => {
            let mut plans = Vec::new();
            planned.lone_expression().into_iter().for_each(|it| subqueries(it, &mut plans));
            plans.into_iter().for_each(|plan| scans(plan, None, &mut found));
        }
        Action::Query(plan) => scans(plan, None, &mut found),
        Action::Insert(plan) => insert(plan, &mut found)?,
        Action::Update(plan) => update(plan, &mut found)?,
        Action::Delete(plan) => {
            check_rules(&plan.rules)?;
            scans(&plan.input, Some(&plan.rules.table), &mut found);
            check_referenced(&plan.rules, None)?;
        }
        Action::Merge(_) => return Err("MERGE is not looked into".to_string()),
    }
    Ok(found)
}

/// The scans beneath a plan; those of `written` and of rows that FOR UPDATE reserves are writes.
fn scans<'p>(plan: &'p Plan, written: Option<&Table>, into: &mut Vec<Access<'p>>) {
    match &plan.node {
        Node::Scan(node) => scan(node, written, into),
        Node::Lookup(node) => scan(&node.scan, written, into),
        _ => {}
    }
    let reserved = match &plan.node {
        Node::Lock(node) => node.items.first().map(|item| &*item.table),
        _ => None,
    };
    for input in inputs(plan) {
        scans(input, written.or(reserved), into);
    }
}

fn scan<'p>(node: &'p ScanNode, written: Option<&Table>, into: &mut Vec<Access<'p>>) {
    let is_written = written.is_some_and(|table| table.oid == node.table.oid);
    let mode = if is_written { Mode::Write } else { Mode::Read };
    let (key, each, index) = match &node.path {
        Path::Full => (Vec::new(), None, None),
        Path::Point(key) => (key.iter().collect(), None, None),
        Path::Points { index: None, prefix, last, .. } => (prefix.iter().collect(), Some(&**last), None),
        Path::Range { index: None, prefix, .. } => (prefix.iter().collect(), None, None),
        Path::Points { index: Some(at), prefix, .. } | Path::Range { index: Some(at), prefix, .. } => {
            let index = (node.table.indexes[*at].name.as_str(), &prefix[..]);
            (key_in_index(&node.table, *at, prefix), None, Some(index))
        }
    };
    into.push(Access { each, index, ..Access::new(&node.table, mode, key) });
}

/// The first columns of the primary key that an index's first columns tell.
fn key_in_index<'p>(table: &Table, index: usize, prefix: &'p [Expr]) -> Vec<&'p Expr> {
    let columns = &table.indexes[index].columns;
    let value = |wanted: usize| columns.iter().zip(prefix).find(|(column, _)| column.column == wanted);
    key_columns(table).into_iter().map_while(|column| value(column).map(|(_, value)| value)).collect()
}

fn check_rules(rules: &RowRules) -> Result<(), Reason> {
    match rules.triggers.is_empty() {
        true => Ok(()),
        false => Err(format!("table {} has triggers", rules.table.name)),
    }
}

/// Refuses a change of rows that other rows may refer to: of these columns, or of whole rows.
fn check_referenced(rules: &RowRules, columns: Option<&[usize]>) -> Result<(), Reason> {
    let Some(keyed) = rules.keys.tables.get(&rules.table.oid) else { return Ok(()) };
    let concerns = |key: &ForeignKey| {
        columns.is_none_or(|columns| columns.iter().any(|column| key.references.contains(column)))
    };
    match keyed.referencing.iter().find(|(key, _)| concerns(key)) {
        Some((_, table)) => Err(format!("rows of {} may refer to what is changed", table.name)),
        None => Ok(()),
    }
}

/// The rows that foreign keys look up for a row with these values.
fn referenced<'p>(
    rules: &'p RowRules,
    is_set: impl Fn(usize) -> bool,
    value: impl Fn(usize) -> Option<&'p Expr>,
    into: &mut Vec<Access<'p>>,
) -> Result<(), Reason> {
    let Some(keyed) = rules.keys.tables.get(&rules.table.oid) else { return Ok(()) };
    for (key, target) in &keyed.foreign_keys {
        if !key.columns.iter().any(|&column| is_set(column)) {
            continue;
        }
        let of_column = |wanted: &usize| {
            let at = key.references.iter().position(|column| column == wanted)?;
            value(key.columns[at])
        };
        let values: Option<Vec<&Expr>> = target.key.iter().map(of_column).collect();
        match values {
            Some(values) if !values.is_empty() && values.len() == key.columns.len() => {
                let foreign_key = Some(key.name.as_str());
                into.push(Access { foreign_key, ..Access::new(target, Mode::Read, values) });
            }
            _ => return Err(format!("foreign key {} needs a row that no key names", key.name)),
        }
    }
    Ok(())
}

fn insert<'p>(plan: &'p InsertPlan, into: &mut Vec<Access<'p>>) -> Result<(), Reason> {
    let table = &plan.rules.table;
    check_rules(&plan.rules)?;
    if table.key.is_empty() {
        return Err(format!("table {} has no primary key", table.name));
    }
    let has_unique = table.indexes.iter().any(|index| index.unique);
    match &plan.conflict {
        Some(conflict) if has_unique && conflict.target != ConflictTarget::PrimaryKey => {
            return Err("ON CONFLICT looks for rows by a unique index".to_string());
        }
        Some(conflict) => {
            let sets = conflict.update.iter().flat_map(|update| &update.sets);
            let columns: Vec<usize> = sets.map(|(column, _)| *column).collect();
            check_referenced(&plan.rules, Some(&columns))?;
        }
        None => {}
    }
    scans(&plan.input, None, into);
    let rows: &[Vec<Expr>] = match &plan.input.node {
        Node::Values(rows) => rows,
        _ => &[],
    };
    let mode = Mode::Write;
    if rows.is_empty() {
        let value = |column: usize| plan.values.get(column);
        let key = table.key.iter().map_while(|&column| value(column)).collect();
        into.push(Access::new(table, mode, key));
        return referenced(&plan.rules, |_| true, value, into);
    }
    for row in rows {
        let value = |column: usize| plan.values.get(column).and_then(|value| of_row(value, row));
        let key = table.key.iter().map_while(|&column| value(column)).collect();
        into.push(Access::new(table, mode, key));
        referenced(&plan.rules, |_| true, value, into)?;
    }
    Ok(())
}

/// The expression that a value over a row of expressions is; conversions are left out, as keys are converted anyway.
fn of_row<'p>(value: &'p Expr, row: &'p [Expr]) -> Option<&'p Expr> {
    match value {
        Expr::Slot(slot) => row.get(*slot),
        Expr::Cast(cast) => match &cast.operand {
            Expr::Slot(slot) => row.get(*slot),
            _ => Some(value),
        },
        _ => Some(value),
    }
}

fn update<'p>(plan: &'p UpdatePlan, into: &mut Vec<Access<'p>>) -> Result<(), Reason> {
    let table = &plan.rules.table;
    check_rules(&plan.rules)?;
    let columns: Vec<usize> = plan.sets.iter().map(|(column, _)| *column).collect();
    if columns.iter().any(|column| table.key.contains(column)) {
        return Err("the primary key is changed".to_string());
    }
    check_referenced(&plan.rules, Some(&columns))?;
    match &plan.commuting {
        Some((key, operations)) => {
            let commutes = operations.iter().map(|operation| operation.column).collect();
            into.push(Access { commutes, ..Access::new(table, Mode::Commute, key.iter().collect()) });
        }
        None => scans(&plan.input, Some(table), into),
    }
    let value = |column: usize| plan.sets.iter().find(|(set, _)| *set == column).map(|(_, value)| value);
    referenced(&plan.rules, |column| columns.contains(&column), value, into)
}
