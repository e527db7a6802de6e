//! Foreign keys: a stored row must find the row that it refers to; the key's action is applied to the rows that refer
//! to a deleted or changed one.
//!
//! # Invariants
//! - A key with a NULL in it refers to nothing; with MATCH FULL, all of it is NULL or none.
//! - All keys are checked when the statement's rows have been written; rows changed by cascades are checked in turn,
//!   until none is left.
//! - A row that an action changes meets the checks and triggers of its table, as a row of a statement does.
//! - An action runs with the privileges of its table's owner: defaults, checks and triggers before rows call functions that
//!   the owner chose. Triggers after rows run with those of the statement's role.
//!
//! Source: PostgreSQL 15, `ri_PerformCheck` in `ri_triggers.c`.

use std::collections::VecDeque;

use crate::catalog::relation::MIXED_KEY;
use crate::catalog::{Event as WriteEvent, ForeignKey, KeyAction, Table};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::path::has_key_order;
use crate::plan::statement::{KeyedTable, RowRules};
use crate::run::Run;
use crate::run::memory::row_bytes;
use crate::run::write::cascades::Cascades;
use crate::run::write::checks::{check, generate};
use crate::run::write::deferrable::Unsure;
use crate::run::write::key_values::{cast, converted, fit, has_counterparts};
use crate::run::write::rows::{
    change, each_by_index, each_by_key, each_row, find_by_index, key_text, refs, remove, stored_key,
};
use crate::types::cast::apply_modifier;
use crate::types::{DeferrableKey, KeySide, Value};

/// Rows that a statement has written, as far as foreign keys care.
#[derive(Default)]
pub(super) struct Touched<'e> {
    /// True if no foreign key, and no constraint that the statement's end checks, concerns the table: no row is kept.
    is_unconcerned: bool,
    events: VecDeque<Event>,
    charged: usize,
    /// The triggers around rows that are changed here.
    pub(super) cascades: Cascades<'e>,
}

struct Event {
    table: u32,
    old: Option<Vec<Value>>,
    new: Option<Vec<Value>>,
}

impl<'e> Touched<'e> {
    /// Rows of a table with these rules.
    pub(super) fn of(rules: &RowRules) -> Touched<'e> {
        let concerns = |keyed: &KeyedTable| !keyed.foreign_keys.is_empty() || !keyed.referencing.is_empty();
        let is_concerned = rules.keys.tables.get(&rules.table.oid).is_some_and(concerns);
        Touched { is_unconcerned: !is_concerned && !rules.table.has_late_keys(), ..Touched::default() }
    }

    /// A row was inserted, or took the place of an old one.
    pub(super) fn stored(&mut self, table: &Table, new: &[Value], old: Option<&[Value]>) {
        if self.is_unconcerned {
            return;
        }
        self.note(Event { table: table.oid, old: old.map(<[Value]>::to_vec), new: Some(new.to_vec()) });
    }

    /// A row was removed.
    pub(super) fn removed(&mut self, table: &Table, old: &[Value]) {
        if self.is_unconcerned {
            return;
        }
        self.note(Event { table: table.oid, old: Some(old.to_vec()), new: None });
    }

    fn note(&mut self, event: Event) {
        self.events.push_back(event);
    }

    /// Looks at all foreign keys of rows that were written.
    /// Deferrable unique constraints follow, when all has cascaded.
    pub(super) fn check(&mut self, run: &mut Run<'e>, rules: &'e RowRules) -> Result<()> {
        let graph = &rules.keys.tables;
        if self.is_unconcerned {
            return Ok(());
        }
        let mut unsure = Unsure::default();
        while let Some(event) = self.events.pop_front() {
            let keyed = graph.get(&event.table);
            let table = if event.table == rules.table.oid {
                Some(&rules.table)
            } else {
                keyed.map(|it| &it.rules.table)
            };
            if let (Some(table), Some(new)) = (table, &event.new) {
                unsure.note(table, event.old.as_deref(), new);
            }
            let Some(keyed) = keyed else { continue };
            if let Some(old) = &event.old {
                for (key, child) in &keyed.referencing {
                    let Some(child) = graph.get(&child.oid) else { continue };
                    self.left(run, &keyed.rules.table, key, &child.rules, old, event.new.as_deref())?;
                }
            }
            if let Some(new) = &event.new {
                for (key, parent) in &keyed.foreign_keys {
                    let unchanged = event
                        .old
                        .as_ref()
                        .is_some_and(|old| key.columns.iter().all(|&column| old[column] == new[column]));
                    if !unchanged {
                        refers(run, &keyed.rules.table, key, parent, new)?;
                    }
                }
            }
            run.check_interrupt()?;
        }
        run.memory.release(std::mem::take(&mut self.charged));
        unsure.check(run)
    }

    /// Applies the actions to rows that refer to a row which was deleted, or has another key now.
    fn left(
        &mut self,
        run: &mut Run<'e>,
        table: &Table,
        key: &ForeignKey,
        child: &'e RowRules,
        old: &[Value],
        new: Option<&[Value]>,
    ) -> Result<()> {
        let values: Vec<Value> = key.references.iter().map(|&column| old[column].clone()).collect();
        if values.iter().any(Value::is_null)
            || new.is_some_and(|new| key.references.iter().all(|&column| new[column] == old[column]))
        {
            return Ok(());
        }
        let action = if new.is_some() { key.on_update } else { key.on_delete };
        if matches!(action, KeyAction::NoAction | KeyAction::Restrict) {
            let may_be_there = action == KeyAction::NoAction;
            return refuse_references(run, (table, key, &child.table), old, &values, may_be_there);
        }
        let before = run.environment.act_as_role(child.table.rights.owner);
        let done = self.act(run, table, (child, key, action), &values, new);
        run.environment.act_as(before);
        done?;
        match action {
            // Rows whose default is the key that is gone were not changed.
            KeyAction::SetDefault => refuse_references(run, (table, key, &child.table), old, &values, true),
            _ => Ok(()),
        }
    }

    /// Deletes or updates the rows that refer to these values.
    fn act(
        &mut self,
        run: &mut Run<'e>,
        table: &Table,
        (child, key, action): (&'e RowRules, &ForeignKey, KeyAction),
        values: &[Value],
        new: Option<&[Value]>,
    ) -> Result<()> {
        let event = match (action, new) {
            (KeyAction::Cascade, None) => WriteEvent::Delete,
            _ => WriteEvent::Update,
        };
        let cascade = self.cascades.enter(run, child, event, &key.columns)?;
        let rows = referring(run, &child.table, key, table, values)?;
        let bytes: usize = rows.iter().map(|(_, row)| row_bytes(row)).sum();
        run.memory.charge(bytes)?;
        self.charged += bytes;
        for (child_key, row) in rows {
            match event {
                WriteEvent::Delete => self.delete(run, child, cascade, (&child_key, row))?,
                _ => {
                    let new = new.map(|new| (table, new));
                    self.update(run, (child, key, action), cascade, (&child_key, row), new)?;
                }
            }
        }
        self.cascades.leave(cascade);
        Ok(())
    }

    /// Deletes a row that refers to one that is gone.
    fn delete(
        &mut self,
        run: &mut Run<'e>,
        child: &'e RowRules,
        cascade: usize,
        (child_key, row): (&[Value], Vec<Value>),
    ) -> Result<()> {
        if self.cascades.triggers(cascade).before_delete(run, &row)? && remove(run, &child.table, child_key)?
        {
            self.removed(&child.table, &row);
            self.cascades.wrote(run, cascade, &row, None)?;
        }
        Ok(())
    }

    /// Sets the columns of a foreign key to the values of its action.
    fn update(
        &mut self,
        run: &mut Run<'e>,
        (child, key, action): (&'e RowRules, &ForeignKey, KeyAction),
        cascade: usize,
        (child_key, row): (&[Value], Vec<Value>),
        new: Option<(&Table, &[Value])>,
    ) -> Result<()> {
        let table = &*child.table;
        let mut changed = row.clone();
        for (&column, &referenced) in key.columns.iter().zip(&key.references) {
            changed[column] = match (action, new) {
                (KeyAction::Cascade, Some((parent, new))) => {
                    let (from, to) = (&parent.columns[referenced], &table.columns[column]);
                    let value = cast(&mut *run.environment, &new[referenced], from.ty, to.ty)?;
                    apply_modifier(to.ty, to.modifier, value, false)?
                }
                (KeyAction::SetDefault, _) => {
                    match child.defaults.iter().find(|(defaulted, _)| *defaulted == column) {
                        Some((_, default)) => run.evaluate(default, &[])?,
                        None => Value::Null,
                    }
                }
                _ => Value::Null,
            };
        }
        let triggers = self.cascades.triggers(cascade);
        let Some(mut changed) = triggers.before_write(run, Some(&row), changed)? else { return Ok(()) };
        let columns: Vec<usize> = match triggers.is_empty() {
            true => {
                key.columns.iter().copied().chain(child.generated.iter().map(|(column, _)| *column)).collect()
            }
            // A trigger may change any column.
            false => (0..table.columns.len()).collect(),
        };
        generate(run, &child.generated, &mut changed)?;
        check(run, child, &changed)?;
        change(run, table, child_key, &row, &changed, &columns)?;
        self.stored(table, &changed, Some(&row));
        self.cascades.wrote(run, cascade, &row, Some(&changed))
    }
}

/// An error if rows of a table refer to these values of a row that is gone. `may_be_there`: another row may have taken the
/// key meanwhile.
fn refuse_references(
    run: &mut Run<'_>,
    (table, key, child): (&Table, &ForeignKey, &Table),
    old: &[Value],
    values: &[Value],
    may_be_there: bool,
) -> Result<()> {
    let is_well = referring(run, child, key, table, values)?.is_empty()
        || may_be_there
            && (is_there(run, table, &key.references, values)?
                || waits(run, child, key, values, KeySide::Referenced));
    if is_well { Ok(()) } else { Err(still_referenced(run, table, key, child, old)) }
}

/// The rows of a table that refer to these values of another table: keys and columns.
pub(super) fn referring(
    run: &mut Run<'_>,
    child: &Table,
    key: &ForeignKey,
    parent: &Table,
    values: &[Value],
) -> Result<Vec<(Vec<Value>, Vec<Value>)>> {
    if has_counterparts(child, key, parent) {
        let from = key.references.iter().map(|&column| &parent.columns[column]);
        let to = key.columns.iter().map(|&column| &child.columns[column]);
        let values = converted(run, values, from, to)?.filter(|values| fit(child, &key.columns, values));
        return values.map_or(Ok(Vec::new()), |values| having(run, child, key, &values));
    }
    let mut all = Vec::new();
    each_row(run, child, &mut |child_key, row| {
        all.push((child_key, row));
        Ok(true)
    })?;
    let mut found = Vec::new();
    for (child_key, row) in all {
        let own: Vec<Value> = key.columns.iter().map(|&column| row[column].clone()).collect();
        if !own.iter().any(Value::is_null)
            && as_referenced(run, child, key, parent, &own)?.as_deref() == Some(values)
        {
            found.push((child_key, row));
        }
    }
    Ok(found)
}

/// The values of a foreign key as values of the columns that it refers to; `None` if no row can have them.
fn as_referenced(
    run: &mut Run<'_>,
    child: &Table,
    key: &ForeignKey,
    parent: &Table,
    values: &[Value],
) -> Result<Option<Vec<Value>>> {
    let from = key.columns.iter().map(|&column| &child.columns[column]);
    let to = key.references.iter().map(|&column| &parent.columns[column]);
    converted(run, values, from, to)
}

/// Returns true if the values of a foreign key, none of which is NULL, lead to a row.
pub(super) fn leads(
    run: &mut Run<'_>,
    child: &Table,
    key: &ForeignKey,
    parent: &Table,
    values: &[Value],
) -> Result<bool> {
    match as_referenced(run, child, key, parent, values)? {
        Some(values) if fit(parent, &key.references, &values) => {
            is_there(run, parent, &key.references, &values)
        }
        _ => Ok(false),
    }
}

/// The rows of a table whose foreign key has these values: keys and columns.
pub(super) fn having(
    run: &Run<'_>,
    child: &Table,
    key: &ForeignKey,
    values: &[Value],
) -> Result<Vec<(Vec<Value>, Vec<Value>)>> {
    let mut found = Vec::new();
    let mut each = |child_key: Vec<Value>, row: Vec<Value>| {
        if key.columns.iter().zip(values).all(|(&column, value)| row[column] == *value) {
            found.push((child_key, row));
        }
        Ok(true)
    };
    let index = child.indexes.iter().position(|index| {
        index.columns.len() >= key.columns.len()
            && index.columns.iter().zip(&key.columns).all(|(indexed, column)| indexed.column == *column)
    });
    let of_column = |column: &usize| {
        let at = key.columns.iter().position(|referring| referring == column)?;
        Some(values[at].clone())
    };
    let prefix: Vec<Value> = child.key.iter().map_while(of_column).collect();
    match index {
        _ if prefix.len() == key.columns.len() && has_key_order(child) => {
            each_by_key(run, child, &prefix, &mut each)?;
        }
        Some(index) => each_by_index(run, child, index, values, &mut each)?,
        None if !prefix.is_empty() && has_key_order(child) => {
            each_by_key(run, child, &prefix, &mut each)?;
        }
        None => each_row(run, child, &mut each)?,
    }
    Ok(found)
}

/// Returns true if a table has a row with these values in these columns, which are its primary key or those of a unique
/// index.
pub(super) fn is_there(run: &Run<'_>, table: &Table, columns: &[usize], values: &[Value]) -> Result<bool> {
    let place = |wanted: usize| columns.iter().position(|column| *column == wanted);
    let ordered = |wanted: &[usize]| -> Option<Vec<Value>> {
        (wanted.len() == columns.len())
            .then(|| wanted.iter().map(|&column| place(column).map(|at| values[at].clone())).collect())
            .flatten()
    };
    if let Some(key) = ordered(&table.key).filter(|_| !table.key.is_empty()) {
        return run.latest().exists(&table.engine, &refs(&stored_key(table, &key)?));
    }
    for (number, index) in table.indexes.iter().enumerate().filter(|(_, index)| index.is_unique_always()) {
        let indexed: Vec<usize> = index.columns.iter().map(|column| column.column).collect();
        if let Some(key) = ordered(&indexed) {
            return Ok(find_by_index(run, table, number, &key)?.is_some());
        }
    }
    Err(SqlError::internal("a foreign key refers to columns without a unique index"))
}

/// Returns true if a foreign key that does not hold now is checked again later, at COMMIT at the latest.
fn waits(run: &mut Run<'_>, table: &Table, key: &ForeignKey, values: &[Value], side: KeySide) -> bool {
    let constraint = DeferrableKey { table: table.oid, name: &key.name, deferred: key.deferred };
    (key.deferrable || key.deferred) && run.environment.defer_check(constraint, values, side)
}

/// Checks that a row finds what it refers to.
fn refers(run: &mut Run<'_>, table: &Table, key: &ForeignKey, parent: &Table, row: &[Value]) -> Result<()> {
    let values: Vec<Value> = key.columns.iter().map(|&column| row[column].clone()).collect();
    let nulls = values.iter().filter(|value| value.is_null()).count();
    let is_mixed = key.is_full && (1..values.len()).contains(&nulls);
    let holds = match is_mixed {
        true => false,
        false => nulls > 0 || leads(run, table, key, parent, &values)?,
    };
    if holds || waits(run, table, key, &values, KeySide::Referencing) {
        return Ok(());
    }
    let message = format!(
        "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
        table.name, key.name
    );
    let detail = match is_mixed {
        true => MIXED_KEY.to_string(),
        false => {
            let shown = key_text(&*run.environment, table, &key.columns, row);
            format!("Key {shown} is not present in table \"{}\".", parent.name)
        }
    };
    Err(SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message)
        .with_detail(detail)
        .with_table(&table.schema, &table.name)
        .with_constraint(&key.name))
}

fn still_referenced(
    run: &Run<'_>,
    table: &Table,
    key: &ForeignKey,
    child: &Table,
    old: &[Value],
) -> SqlError {
    let message = format!(
        "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
        table.name, key.name, child.name
    );
    SqlError::new(SqlState::FOREIGN_KEY_VIOLATION, message)
        .with_detail(format!(
            "Key {} is still referenced from table \"{}\".",
            key_text(&*run.environment, table, &key.references, old),
            child.name
        ))
        .with_table(&child.schema, &child.name)
        .with_constraint(&key.name)
}
