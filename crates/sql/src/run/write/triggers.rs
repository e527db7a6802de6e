//! Triggers around the rows that a statement writes.
//!
//! # Invariants
//! - Triggers before a row see and change it before it is checked and stored; those after rows fire when the whole statement
//!   has written, behind the look at foreign keys.

use std::sync::Arc;

use crate::catalog::{Event, TriggerTime};
use crate::error::Result;
use crate::plan::statement::RowRules;
use crate::routine::trigger::{ChangedRows, Firing};
use crate::routine::value::record;
use crate::run::Run;
use crate::types::Value;
use crate::types::record::RecordField;

/// A row that was written, for the triggers after it.
pub(super) struct WrittenRow {
    event: Event,
    old: Option<Vec<Value>>,
    new: Option<Vec<Value>>,
}

/// The triggers of a statement that writes, and the rows that those after rows are to see.
pub(super) struct Triggers<'e> {
    rules: &'e RowRules,
    rows: Vec<WrittenRow>,
    /// The columns that UPDATE sets.
    set: Vec<usize>,
    /// Rows for transition tables, as records, by their event.
    changed: Vec<(Event, ChangedRows)>,
    /// The fields of these records.
    fields: Option<Arc<[RecordField]>>,
}

impl<'e> Triggers<'e> {
    pub(super) fn new(rules: &'e RowRules) -> Triggers<'e> {
        let has_tables = rules.triggers.iter().any(|trigger| trigger.has_transition_tables());
        let fields = has_tables.then(|| crate::routine::trigger::fields_of(&rules.table));
        Triggers { rules, rows: Vec::new(), set: Vec::new(), changed: Vec::new(), fields }
    }

    /// Notes which columns an UPDATE sets.
    pub(super) fn sets(&mut self, columns: impl Iterator<Item = usize>) {
        self.set.extend(columns);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rules.triggers.is_empty()
    }

    fn fire(
        &self,
        run: &mut Run<'e>,
        (time, for_each_row, event): (TriggerTime, bool, Event),
        old: Option<&[Value]>,
        mut new: Option<Vec<Value>>,
    ) -> Result<Option<Option<Vec<Value>>>> {
        let columns = &self.rules.table.columns;
        let is_set = |name: &str| self.set.iter().any(|&column| columns[column].name == *name);
        for trigger in &self.rules.triggers {
            let is_meant = trigger.time == time
                && trigger.for_each_row == for_each_row
                && trigger.fires_on(event, is_set);
            if !is_meant {
                continue;
            }
            let none = ChangedRows::default();
            let changed = self.changed.iter().find(|(of, _)| *of == event).map_or(&none, |(_, rows)| rows);
            let changed = Some(changed).filter(|_| trigger.has_transition_tables());
            let firing =
                Firing { trigger, table: &self.rules.table, event, old, new: new.as_deref(), changed };
            if trigger.is_deferrable && run.environment.defer_trigger(&firing)? {
                continue;
            }
            let access = run.access();
            match run.environment.fire_trigger(&firing, access)? {
                Some(row) if new.is_some() => new = Some(row),
                Some(_) => {}
                None => return Ok(None),
            }
        }
        Ok(Some(new))
    }

    /// Fires the triggers before a row is inserted or updated, and returns the row to write; `None` if it is left out.
    pub(super) fn before_write(
        &self,
        run: &mut Run<'e>,
        old: Option<&[Value]>,
        new: Vec<Value>,
    ) -> Result<Option<Vec<Value>>> {
        if self.is_empty() {
            return Ok(Some(new));
        }
        let event = if old.is_some() { Event::Update } else { Event::Insert };
        Ok(self.fire(run, (TriggerTime::Before, true, event), old, Some(new))?.flatten())
    }

    /// Fires the triggers before a row is deleted; returns true if it is to be deleted.
    pub(super) fn before_delete(&self, run: &mut Run<'e>, old: &[Value]) -> Result<bool> {
        let when = (TriggerTime::Before, true, Event::Delete);
        Ok(self.is_empty() || self.fire(run, when, Some(old), None)?.is_some())
    }

    /// The triggers before and after a statement.
    pub(super) fn statement(&self, run: &mut Run<'e>, time: TriggerTime, event: Event) -> Result<()> {
        if !self.is_empty() {
            self.fire(run, (time, false, event), None, None)?;
        }
        Ok(())
    }

    /// Notes a row that was written.
    pub(super) fn wrote(
        &mut self,
        run: &mut Run<'e>,
        old: Option<&[Value]>,
        new: Option<&[Value]>,
    ) -> Result<()> {
        let event = match (old, new) {
            (None, _) => Event::Insert,
            (Some(_), Some(_)) => Event::Update,
            (Some(_), None) => Event::Delete,
        };
        self.note_changed(run, event, (old, new))?;
        let is_meant = |trigger: &Arc<crate::catalog::Trigger>| {
            trigger.time == TriggerTime::After && trigger.for_each_row && trigger.fires_on(event, |_| true)
        };
        if self.rules.triggers.iter().any(is_meant) {
            let bytes = |row: Option<&[Value]>| row.map_or(0, crate::run::memory::row_bytes);
            run.memory.charge(bytes(old) + bytes(new))?;
            self.rows.push(WrittenRow {
                event,
                old: old.map(<[Value]>::to_vec),
                new: new.map(<[Value]>::to_vec),
            });
        }
        Ok(())
    }

    /// Keeps a row for the transition tables of its event.
    fn note_changed(
        &mut self,
        run: &mut Run<'e>,
        event: Event,
        (old, new): (Option<&[Value]>, Option<&[Value]>),
    ) -> Result<()> {
        let Some(fields) = &self.fields else { return Ok(()) };
        let at = match self.changed.iter().position(|(of, _)| *of == event) {
            Some(at) => at,
            None => {
                self.changed.push((event, ChangedRows::default()));
                self.changed.len() - 1
            }
        };
        let tables = &mut self.changed[at].1;
        for (row, table) in [(old, &mut tables.old), (new, &mut tables.new)] {
            let Some(row) = row else { continue };
            run.memory.charge(crate::run::memory::row_bytes(row))?;
            // No trigger has it yet.
            Arc::make_mut(table).push(record(fields, row[..fields.len()].to_vec()));
        }
        Ok(())
    }

    /// Removes and returns the rows that were written.
    pub(super) fn take_rows(&mut self) -> Vec<WrittenRow> {
        std::mem::take(&mut self.rows)
    }

    /// The triggers after a row that was written.
    pub(super) fn after_row(&self, run: &mut Run<'e>, row: WrittenRow) -> Result<()> {
        self.fire(run, (TriggerTime::After, true, row.event), row.old.as_deref(), row.new)?;
        Ok(())
    }

    /// The triggers after the rows that were written.
    pub(super) fn after_rows(&mut self, run: &mut Run<'e>) -> Result<()> {
        self.take_rows().into_iter().try_for_each(|row| self.after_row(run, row))
    }
}
