//! The rows that foreign keys lead to from a changed row: those that it refers to, and those that refer to it.
//!
//! # Invariants
//! - Cascades are followed to their end; a circle of them is an error with the reason.

use std::sync::Arc;

use crate::catalog::{Event, ForeignKey, KeyAction, Table};
use crate::plan::expression::Expr;
use crate::plan::path::has_key_order;
use crate::plan::scan::key_columns;
use crate::plan::statement::{KeyGraph, RowRules};
use crate::routine::footprint::accesses::{Access, Accesses, Mode, Reason, Row};
use crate::routine::footprint::expressions::calls_of;
use crate::types::Value;

/// The change of a row that others may refer to.
#[derive(Clone, Copy)]
pub(super) enum Touch<'c> {
    Delete,
    /// These columns are set.
    Update(&'c [usize]),
}

/// The limit of cascades that are followed.
const CASCADES_MAX: usize = 16;

/// The rows that foreign keys look up for a row with these values, of which some are set.
pub(super) fn referenced<'p>(
    rules: &'p RowRules,
    row: &Row<'p>,
    is_set: &dyn Fn(usize) -> bool,
    into: &mut Vec<Access<'p>>,
) -> Result<(), Reason> {
    let Some(keyed) = rules.keys.tables.get(&rules.table.oid) else { return Ok(()) };
    for (key, target) in &keyed.foreign_keys {
        if !key.columns.iter().any(|&column| is_set(column)) {
            continue;
        }
        let of_column = |wanted: &usize| {
            let at = key.references.iter().position(|column| column == wanted)?;
            row[key.columns[at]]
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

/// The rows that refer to a row which is changed so, and what happens to them.
pub(super) fn referencing<'p>(
    rules: &'p RowRules,
    row: &Row<'p>,
    touch: Touch<'_>,
    into: &mut Accesses<'p>,
) -> Result<(), Reason> {
    let follow = Follow { graph: &rules.keys, depth: 0 };
    follow.referencing(&rules.table, row, touch, into)
}

#[derive(Clone, Copy)]
struct Follow<'p> {
    graph: &'p KeyGraph,
    depth: usize,
}

impl<'p> Follow<'p> {
    fn referencing(
        self,
        table: &Table,
        row: &Row<'p>,
        touch: Touch<'_>,
        into: &mut Accesses<'p>,
    ) -> Result<(), Reason> {
        let Some(keyed) = self.graph.tables.get(&table.oid) else { return Ok(()) };
        for (key, child) in &keyed.referencing {
            let action = match touch {
                Touch::Delete => key.on_delete,
                Touch::Update(columns) if columns.iter().any(|it| key.references.contains(it)) => {
                    key.on_update
                }
                Touch::Update(_) => continue,
            };
            let mut found: Row<'p> = vec![None; child.columns.len()];
            for (&column, &reference) in key.columns.iter().zip(&key.references) {
                found[column] = row[reference];
            }
            let mode = match action {
                KeyAction::NoAction | KeyAction::Restrict => Mode::Read,
                KeyAction::Cascade | KeyAction::SetNull | KeyAction::SetDefault => Mode::Write,
            };
            let access = self.found_by(child, &found, mode, &key.name)?;
            into.all.push(access);
            if let (Mode::Write, Some(keyed)) = (mode, self.graph.tables.get(&child.oid)) {
                let is_set = |(column, default): &(usize, Expr)| {
                    key.columns.contains(column) && !default.as_constant().is_some_and(Value::is_null)
                };
                if action == KeyAction::SetDefault && keyed.rules.defaults.iter().any(is_set) {
                    return Err(format!("rows of {} refer to other rows by default", child.name));
                }
                self.fires(&keyed.rules, key, action, &found, touch, into)?;
            }
            match (action, touch) {
                (KeyAction::NoAction | KeyAction::Restrict, _) => {}
                (KeyAction::Cascade, Touch::Delete) => {
                    self.deeper(child)?.referencing(child, &found, Touch::Delete, into)?;
                }
                _ => self.changed(child, &key.columns, &found, into)?,
            }
        }
        Ok(())
    }

    /// Notes the triggers that a foreign key's change of a row fires.
    fn fires(
        self,
        rules: &'p RowRules,
        key: &ForeignKey,
        action: KeyAction,
        old: &Row<'p>,
        touch: Touch<'_>,
        into: &mut Accesses<'p>,
    ) -> Result<(), Reason> {
        if let (KeyAction::Cascade, Touch::Delete) = (action, touch) {
            into.change_of(rules, Event::Delete, (Some(old.clone()), None), Vec::new());
            return Ok(());
        }
        self.check_routines(rules)?;
        let mut new = old.clone();
        key.columns.iter().for_each(|&column| new[column] = None);
        into.change_of(rules, Event::Update, (Some(old.clone()), Some(new)), key.columns.clone());
        Ok(())
    }

    /// Refuses tables of which routines check or compute the rows that a foreign key changes.
    fn check_routines(self, rules: &RowRules) -> Result<(), Reason> {
        let generated = rules.generated.iter().map(|(_, value)| value);
        let mut calls = false;
        for value in generated.chain(rules.checks.iter().map(|(_, check)| check)) {
            calls_of(value, &mut |_| calls = true);
        }
        match calls {
            true => Err(format!("routines check rows of {} that a foreign key changes", rules.table.name)),
            false => Ok(()),
        }
    }

    /// The columns of a foreign key change: of what refers to them, that is derived which stays within the same rows.
    fn changed(
        self,
        child: &Table,
        columns: &[usize],
        found: &Row<'p>,
        into: &mut Accesses<'p>,
    ) -> Result<(), Reason> {
        if columns.iter().any(|column| child.key.contains(column)) {
            return Err(format!("the primary key of {} is changed by a foreign key", child.name));
        }
        self.deeper(child)?.referencing(child, found, Touch::Update(columns), into)
    }

    fn deeper(self, child: &Table) -> Result<Follow<'p>, Reason> {
        match self.depth < CASCADES_MAX {
            true => Ok(Follow { depth: self.depth + 1, ..self }),
            false => Err(format!("foreign keys lead from {} to itself", child.name)),
        }
    }

    /// The rows of a table in which these columns have these values.
    fn found_by(
        self,
        child: &'p Arc<Table>,
        found: &Row<'p>,
        mode: Mode,
        name: &'p str,
    ) -> Result<Access<'p>, Reason> {
        let key: Vec<&Expr> =
            key_columns(child).into_iter().map_while(|column| *found.get(column)?).collect();
        if key.is_empty() || !has_key_order(child) {
            let name = &child.name;
            return Err(format!("rows of {name} may refer to what is changed, by no part of their key"));
        }
        Ok(Access { foreign_key: Some(name), ..Access::new(child, mode, key) })
    }
}
