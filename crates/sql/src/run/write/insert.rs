//! INSERT, with ON CONFLICT.

use crate::bind::tree::ConflictTarget;
use crate::catalog::{Event, Table, TriggerTime};
use crate::error::Result;
use crate::plan::commute::Commutation;
use crate::plan::statement::{ConflictPlan, ConflictUpdate, InsertPlan};
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::operator::operator;
use crate::run::write::checks::{check, generate};
use crate::run::write::commuting::commute;
use crate::run::write::order::has_lost;
use crate::run::write::rows::{change, find_by_index, key_of, read, refs, store, stored_key};
use crate::run::write::{Writing, Written, second_time};
use crate::types::Value;

/// The `xmax` that RETURNING shows: PostgreSQL shows the transaction that locked the earlier row.
const XMAX_OF_INSERTED: Value = Value::Oid(0);
const XMAX_OF_UPDATED: Value = Value::Oid(1);

/// Runs an INSERT.
pub(crate) fn insert<'e>(run: &mut Run<'e>, plan: &'e InsertPlan) -> Result<Written> {
    let mut inserting = Inserting { plan, writing: Writing::new(run, &plan.rules, &plan.returning) };
    let update = plan.conflict.as_ref().and_then(|conflict| conflict.update.as_ref());
    let events = if update.is_some() { vec![Event::Insert, Event::Update] } else { vec![Event::Insert] };
    inserting
        .writing
        .triggers
        .sets(update.into_iter().flat_map(|update| &update.sets).map(|(column, _)| *column));
    for event in &events {
        inserting.writing.triggers.statement(run, TriggerTime::Before, *event)?;
    }
    if plan.reads && !run.interleaves {
        let mut rows = run.collect(&plan.input)?;
        for number in 0..rows.batches() {
            let batch = rows.batch(number)?;
            inserting.add(run, batch)?;
        }
    } else {
        let mut input = operator(&plan.input, run)?;
        while let Some(batch) = run.next_of(&mut input)? {
            inserting.add(run, &batch)?;
        }
    }
    Ok(inserting.writing.finish(run, events))
}

struct Inserting<'e> {
    plan: &'e InsertPlan,
    writing: Writing<'e>,
}

impl<'e> Inserting<'e> {
    fn add(&mut self, run: &mut Run<'e>, batch: &Batch) -> Result<()> {
        for source in batch.rows() {
            let mut row = Vec::with_capacity(self.plan.values.len());
            for value in &self.plan.values {
                row.push(run.evaluate(value, source)?);
            }
            if !self.writing.triggers.is_empty() {
                match self.writing.triggers.before_write(run, None, row)? {
                    Some(changed) => row = changed,
                    None => continue,
                }
            }
            generate(run, &self.plan.rules.generated, &mut row)?;
            self.add_row(run, row)?;
        }
        run.check_interrupt()
    }

    fn add_row(&mut self, run: &mut Run<'e>, mut row: Vec<Value>) -> Result<()> {
        let rules = &self.plan.rules;
        check(run, rules, &row)?;
        if let Some(conflict) = &self.plan.conflict {
            if let Some(update) = &conflict.update
                && let Ok(what) = &update.commuting
                && run.written.is_none()
                && self.commute(run, what, &row)?
            {
                return Ok(());
            }
            if let Some(update) = &conflict.update
                && !update.orders.is_empty()
                && self.loses(run, update, &row)?
            {
                return Ok(());
            }
            if let Some((key, old)) = self.conflicting(run, conflict, &row)? {
                return match &conflict.update {
                    None => Ok(()),
                    Some(update) => self.update(run, update, key, old, row),
                };
            }
        }
        let number = store(run, &rules.table, &row)?;
        if self.plan.conflict.as_ref().is_some_and(|conflict| conflict.update.is_some()) {
            let key = number.map_or_else(|| key_of(&rules.table, &row), |number| vec![Value::Int8(number)]);
            self.writing.is_first(run, &key)?;
        }
        self.writing.touched.stored(&rules.table, &row, None);
        self.writing.triggers.wrote(run, None, Some(&row))?;
        if self.plan.conflict.is_some() && !self.plan.returning.is_empty() {
            row.push(XMAX_OF_INSERTED);
        }
        self.writing.count(run, &row)
    }

    /// Updates the conflicting row without reading it; returns true if there is one, and that was done.
    fn commute(&mut self, run: &mut Run<'e>, what: &'e Commutation, row: &[Value]) -> Result<bool> {
        let table = &*self.plan.rules.table;
        let key = key_of(table, row);
        let stored = stored_key(table, &key)?;
        let Some(mut done) = commute(run, (table, &refs(&stored)), what, row, &self.plan.returning)? else {
            return Ok(false);
        };
        if done.count == 0 {
            return Ok(false);
        }
        if !self.writing.is_first(run, &key)? {
            return Err(second_time("ON CONFLICT DO UPDATE"));
        }
        self.writing.written.count += 1;
        if !self.plan.returning.is_empty() {
            self.writing.written.returned.push_moved(&mut run.memory, &mut done.returned)?;
        }
        if let Some((old, new)) = done.rows {
            self.writing.triggers.wrote(run, Some(&old), Some(&new))?;
        }
        Ok(true)
    }

    /// Returns true if there is a conflicting row, and it is certain without reading it that it is left as it is.
    fn loses(&mut self, run: &mut Run<'e>, update: &'e ConflictUpdate, row: &[Value]) -> Result<bool> {
        let table = &*self.plan.rules.table;
        if run.written.is_some() {
            return Ok(false);
        }
        let key = key_of(table, row);
        let stored = stored_key(table, &key)?;
        let mut both = vec![Value::Null; table.columns.len()];
        both.extend_from_slice(row);
        if !has_lost(run, (table, &refs(&stored)), &update.orders, &both)? {
            return Ok(false);
        }
        if !self.writing.is_first(run, &key)? {
            return Err(second_time("ON CONFLICT DO UPDATE"));
        }
        Ok(true)
    }

    /// The row that is in the way: its key and its columns.
    fn conflicting(
        &self,
        run: &mut Run<'e>,
        conflict: &ConflictPlan,
        row: &[Value],
    ) -> Result<Option<(Vec<Value>, Vec<Value>)>> {
        let table = &*self.plan.rules.table;
        let by_key = |run: &Run<'e>| -> Result<Option<(Vec<Value>, Vec<Value>)>> {
            if table.key.is_empty() {
                return Ok(None);
            }
            let key = key_of(table, row);
            Ok(read(run, table, &key)?.map(|old| (key, old)))
        };
        match conflict.target {
            ConflictTarget::PrimaryKey => by_key(run),
            ConflictTarget::Index(index) => by_unique_index(run, table, index, row),
            ConflictTarget::Any => {
                if let Some(found) = by_key(run)? {
                    return Ok(Some(found));
                }
                for index in (0..table.indexes.len()).filter(|index| table.indexes[*index].is_unique_always())
                {
                    if let Some(found) = by_unique_index(run, table, index, row)? {
                        return Ok(Some(found));
                    }
                }
                Ok(None)
            }
        }
    }

    fn update(
        &mut self,
        run: &mut Run<'e>,
        update: &'e ConflictUpdate,
        key: Vec<Value>,
        old: Vec<Value>,
        row: Vec<Value>,
    ) -> Result<()> {
        let rules = &self.plan.rules;
        if !self.writing.is_first(run, &key)? {
            return Err(second_time("ON CONFLICT DO UPDATE"));
        }
        let mut both = old.clone();
        both.extend(row);
        if let Some(filter) = &update.filter
            && !run.holds(filter, &both)?
        {
            return Ok(());
        }
        let mut new = old.clone();
        for (column, value) in &update.sets {
            new[*column] = run.evaluate(value, &both)?;
        }
        let Some(mut new) = self.writing.triggers.before_write(run, Some(&old), new)? else { return Ok(()) };
        if !self.writing.is_current(run, &key)? {
            return Ok(());
        }
        generate(run, &update.generated, &mut new)?;
        check(run, rules, &new)?;
        let has_triggers = !self.writing.triggers.is_empty();
        let all = has_triggers.then_some(0..new.len()).into_iter().flatten();
        let columns: Vec<usize> = update
            .sets
            .iter()
            .map(|(column, _)| *column)
            .chain(update.generated.iter().map(|(column, _)| *column))
            .filter(|_| !has_triggers)
            .chain(all)
            .collect();
        change(run, &rules.table, &key, &old, &new, &columns)?;
        self.writing.touched.stored(&rules.table, &new, Some(&old));
        self.writing.triggers.wrote(run, Some(&old), Some(&new))?;
        new.push(XMAX_OF_UPDATED);
        self.writing.count(run, &new)
    }
}

fn by_unique_index(
    run: &Run<'_>,
    table: &Table,
    index: usize,
    row: &[Value],
) -> Result<Option<(Vec<Value>, Vec<Value>)>> {
    if table.may_repeat(&table.indexes[index], row) {
        return Ok(None);
    }
    let columns = &table.indexes[index].columns;
    let values: Vec<Value> = columns.iter().map(|column| row[column.column].clone()).collect();
    find_by_index(run, table, index, &values)
}
