//! The accesses of a statement, derived from its plan: for each the table, the mode, and the expressions that make up
//! the key.
//!
//! # Invariants
//! - The accesses of a plan are all that running it reads and writes, foreign keys included; a plan of which that cannot be said is
//!   an error with the reason.
//! - An access of a prefix covers all rows whose keys begin with it.
//! - What triggers do is not among them: [`Change`] tells which fire.

use std::sync::Arc;

use crate::bind::tree::ConflictTarget;
use crate::catalog::{Event, Table};
use crate::plan::explain::inputs;
use crate::plan::expression::Expr;
use crate::plan::node::{FunctionItem, Node, Path, Plan, ScanNode, Several};
use crate::plan::scan::key_columns;
use crate::plan::statement::{Action, DeletePlan, InsertPlan, Planned, RowRules, UpdatePlan};
use crate::routine::footprint::constraints::{Touch, referenced, referencing};
use crate::routine::footprint::expressions::subqueries;

/// The reason why something is not declared.
pub(crate) type Reason = String;

/// The mode of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mode {
    Read,
    /// Writes by commutative operations only.
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
    pub(super) fn new(table: &'p Arc<Table>, mode: Mode, key: Vec<&'p Expr>) -> Access<'p> {
        Access { table, mode, key, each: None, index: None, commutes: Vec::new(), foreign_key: None }
    }
}

/// The values of a row's columns, as far as a statement tells them; a column of the row as it is stored is a slot.
pub(crate) type Row<'p> = Vec<Option<&'p Expr>>;

/// Rows that a statement changes, of a table with triggers.
#[derive(Debug)]
pub(crate) struct Change<'p> {
    pub rules: &'p RowRules,
    pub event: Event,
    pub old: Option<Row<'p>>,
    pub new: Option<Row<'p>>,
    /// The columns that an update sets.
    pub sets: Vec<usize>,
}

/// The accesses of a statement itself, and the changes for which triggers fire.
#[derive(Debug, Default)]
pub(crate) struct Accesses<'p> {
    pub all: Vec<Access<'p>>,
    pub changes: Vec<Change<'p>>,
}

impl<'p> Accesses<'p> {
    fn change(&mut self, rules: &'p RowRules, event: Event, (old, new): (Option<Row<'p>>, Option<Row<'p>>)) {
        self.change_of(rules, event, (old, new), Vec::new());
    }

    pub(super) fn change_of(
        &mut self,
        rules: &'p RowRules,
        event: Event,
        (old, new): (Option<Row<'p>>, Option<Row<'p>>),
        sets: Vec<usize>,
    ) {
        if !rules.triggers.is_empty() {
            self.changes.push(Change { rules, event, old, new, sets });
        }
    }
}

/// The accesses of a statement.
///
/// # Errors
/// The reason for which they are not known.
pub(crate) fn accesses(planned: &Planned) -> Result<Accesses<'_>, Reason> {
    if !planned.first.is_empty() {
        return Err("a statement in WITH writes".to_string());
    }
    let mut found = Accesses::default();
    for (_, cte) in &planned.ctes {
        scans(cte, None, &mut found.all);
    }
    match &planned.action {
        Action::Query(_) if planned.lone_expression().is_some() => {
            let mut plans = Vec::new();
            planned.lone_expression().into_iter().for_each(|it| subqueries(it, &mut plans));
            plans.into_iter().for_each(|plan| scans(plan, None, &mut found.all));
        }
        Action::Query(plan) => scans(plan, None, &mut found.all),
        Action::Insert(plan) => insert(plan, &mut found)?,
        Action::Update(plan) => update(plan, &mut found)?,
        Action::Delete(plan) => delete(plan, &mut found)?,
        Action::Merge(_) => return Err("MERGE is not looked into".to_string()),
    }
    Ok(found)
}

/// The calls of functions whose rows a statement reads.
pub(crate) fn row_functions(planned: &Planned) -> Vec<&FunctionItem> {
    let mut plans: Vec<&Plan> = planned.ctes.iter().map(|(_, plan)| plan).collect();
    planned.lone_expression().into_iter().for_each(|it| subqueries(it, &mut plans));
    plans.extend(match &planned.action {
        Action::Query(plan) => [plan],
        Action::Insert(plan) => [&plan.input],
        Action::Update(plan) => [&plan.input],
        Action::Delete(plan) => [&plan.input],
        Action::Merge(plan) => [&plan.input],
    });
    let mut calls = Vec::new();
    while let Some(plan) = plans.pop() {
        if let Node::Functions(node) = &plan.node {
            calls.extend(&node.calls);
        }
        plans.extend(inputs(plan));
    }
    calls
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
    let parts = match &node.path {
        Path::Full => return into.push(Access::new(&node.table, mode, Vec::new())),
        Path::Point(key) => return into.push(Access::new(&node.table, mode, key.iter().collect())),
        Path::Ranges { parts, .. } => parts,
    };
    for part in parts {
        for range in &part.ranges {
            let prefix = &range.prefix[..];
            let access = match part.index {
                None => {
                    let each = match range.more.first() {
                        Some(Several::Elements(array)) => Some(array),
                        _ => None,
                    };
                    Access { each, ..Access::new(&node.table, mode, prefix.iter().collect()) }
                }
                Some(at) => {
                    let index = Some((node.table.indexes[at].name.as_str(), prefix));
                    Access { index, ..Access::new(&node.table, mode, key_in_index(&node.table, at, prefix)) }
                }
            };
            into.push(access);
        }
    }
}

/// The first columns of the primary key that an index's first columns tell.
fn key_in_index<'p>(table: &Table, index: usize, prefix: &'p [Expr]) -> Vec<&'p Expr> {
    let columns = &table.indexes[index].columns;
    let value = |wanted: usize| columns.iter().zip(prefix).find(|(column, _)| column.column == wanted);
    key_columns(table).into_iter().map_while(|column| value(column).map(|(_, value)| value)).collect()
}

/// The values of a table's columns that the scans of it compare with.
fn row_found<'p>(table: &Table, accesses: &[Access<'p>]) -> Row<'p> {
    let mut row = vec![None; table.columns.len()];
    let mut scans = accesses.iter().filter(|access| access.table.oid == table.oid);
    if let (Some(access), None) = (scans.next(), scans.next()) {
        for (&column, &value) in key_columns(table).iter().zip(&access.key) {
            if let Some(place) = row.get_mut(column) {
                *place = Some(value);
            }
        }
    }
    row
}

/// Refuses tables whose writes look for equal rows later than at the write.
fn check_keys(rules: &RowRules) -> Result<(), Reason> {
    match rules.table.has_late_keys() {
        false => Ok(()),
        true => Err(format!(
            "table {} has unique constraints that are checked when statements end",
            rules.table.name
        )),
    }
}

fn insert<'p>(plan: &'p InsertPlan, into: &mut Accesses<'p>) -> Result<(), Reason> {
    check_keys(&plan.rules)?;
    let table = &plan.rules.table;
    if table.key.is_empty() {
        return Err(format!("table {} has no primary key", table.name));
    }
    let has_unique = table.indexes.iter().any(|index| index.unique);
    if let Some(conflict) = &plan.conflict
        && has_unique
        && conflict.target != ConflictTarget::PrimaryKey
    {
        return Err("ON CONFLICT looks for rows by a unique index".to_string());
    }
    scans(&plan.input, None, &mut into.all);
    let rows: &[Vec<Expr>] = match &plan.input.node {
        Node::Values(rows) => rows,
        _ => &[],
    };
    if rows.is_empty() {
        let row = (0..table.columns.len()).map(|column| plan.values.get(column)).collect();
        return insert_row(plan, row, into);
    }
    rows.iter().try_for_each(|row| {
        let value = |column: usize| plan.values.get(column).and_then(|value| of_row(value, row));
        insert_row(plan, (0..table.columns.len()).map(value).collect(), into)
    })
}

/// One row that is inserted, or updated where it conflicts.
fn insert_row<'p>(plan: &'p InsertPlan, row: Row<'p>, into: &mut Accesses<'p>) -> Result<(), Reason> {
    let rules = &plan.rules;
    let table = &rules.table;
    let key = table.key.iter().map_while(|&column| row[column]).collect();
    into.all.push(Access::new(table, Mode::Write, key));
    referenced(rules, &row, &|_| true, &mut into.all)?;
    if let Some(update) = plan.conflict.as_ref().and_then(|conflict| conflict.update.as_ref()) {
        let mut old: Row<'p> = vec![None; row.len()];
        table.key.iter().for_each(|&column| old[column] = row[column]);
        let sets: Vec<(usize, &Expr)> = update.sets.iter().map(|(column, value)| (*column, value)).collect();
        updated_row(rules, old, &sets, into)?;
    }
    into.change(rules, Event::Insert, (None, Some(row)));
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

fn update<'p>(plan: &'p UpdatePlan, into: &mut Accesses<'p>) -> Result<(), Reason> {
    check_keys(&plan.rules)?;
    let table = &plan.rules.table;
    let before = into.all.len();
    match &plan.commuting {
        Ok(what) if what.only_operates() => {
            let mut commutes: Vec<usize> = what.operations.iter().map(|operation| operation.column).collect();
            commutes.dedup();
            into.all
                .push(Access { commutes, ..Access::new(table, Mode::Commute, what.key.iter().collect()) });
        }
        _ => scans(&plan.input, Some(table), &mut into.all),
    }
    let old = row_found(table, &into.all[before..]);
    let sets: Vec<(usize, &Expr)> = plan.sets.iter().map(|(column, value)| (*column, value)).collect();
    updated_row(&plan.rules, old, &sets, into)
}

/// Adds the accesses that follow from an update of a row: its new key, the rows that it refers to, and those that refer
/// to it.
fn updated_row<'p>(
    rules: &'p RowRules,
    old: Row<'p>,
    sets: &[(usize, &'p Expr)],
    into: &mut Accesses<'p>,
) -> Result<(), Reason> {
    let table = &rules.table;
    let columns: Vec<usize> = sets.iter().map(|(column, _)| *column).collect();
    let mut new = old.clone();
    for (column, value) in sets {
        new[*column] = Some(value);
    }
    if columns.iter().any(|column| table.key.contains(column)) {
        let key = table.key.iter().map_while(|&column| new[column]).collect();
        into.all.push(Access::new(table, Mode::Write, key));
    }
    referenced(rules, &new, &|column| columns.contains(&column), &mut into.all)?;
    referencing(rules, &old, Touch::Update(&columns), into)?;
    into.change_of(rules, Event::Update, (Some(old), Some(new)), columns);
    Ok(())
}

fn delete<'p>(plan: &'p DeletePlan, into: &mut Accesses<'p>) -> Result<(), Reason> {
    let rules = &plan.rules;
    let before = into.all.len();
    scans(&plan.input, Some(&rules.table), &mut into.all);
    let old = row_found(&rules.table, &into.all[before..]);
    referencing(rules, &old, Touch::Delete, into)?;
    into.change(rules, Event::Delete, (Some(old), None));
    Ok(())
}
