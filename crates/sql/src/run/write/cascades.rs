//! Triggers around the rows that foreign keys change.
//!
//! # Invariants
//! - Those after a row fire in the order in which rows were changed, behind all triggers of the statement itself.
//! - Those around statements fire once for each table and kind of change, also where no row refers to what is changed.
//!
//! Source: PostgreSQL 15, `ri_triggers.c`: an action is a statement whose triggers after rows wait in the queue of the statement
//! around it.

use crate::catalog::{Event, TriggerTime};
use crate::error::Result;
use crate::plan::statement::RowRules;
use crate::run::Run;
use crate::run::write::triggers::{Triggers, WrittenRow};

/// The triggers of tables whose rows foreign keys change in a statement.
#[derive(Default)]
pub(super) struct Cascades<'e> {
    of: Vec<Cascade<'e>>,
    /// The rows that were changed, with the numbers of their cascades; without a row: the end of a statement.
    queue: Vec<(usize, Option<WrittenRow>)>,
}

/// Changes of one kind of one table's rows.
struct Cascade<'e> {
    table: u32,
    event: Event,
    /// The columns of the foreign key.
    columns: Vec<usize>,
    triggers: Triggers<'e>,
}

impl<'e> Cascades<'e> {
    /// The number of changes of this kind; the first time it fires the triggers before the statement.
    pub(super) fn enter(
        &mut self,
        run: &mut Run<'e>,
        rules: &'e RowRules,
        event: Event,
        columns: &[usize],
    ) -> Result<usize> {
        let table = rules.table.oid;
        let is_kind = |it: &Cascade<'_>| (it.table, it.event) == (table, event);
        let is_same = |it: &Cascade<'_>| is_kind(it) && it.columns == columns;
        if let Some(known) = self.of.iter().position(is_same) {
            return Ok(known);
        }
        let is_first = !self.of.iter().any(is_kind);
        let mut triggers = Triggers::new(rules);
        triggers.sets(columns.iter().copied());
        if is_first {
            triggers.statement(run, TriggerTime::Before, event)?;
        }
        self.of.push(Cascade { table, event, columns: columns.to_vec(), triggers });
        Ok(self.of.len() - 1)
    }

    /// The triggers of this number.
    pub(super) fn triggers(&self, number: usize) -> &Triggers<'e> {
        &self.of[number].triggers
    }

    /// Notes a row that was changed.
    pub(super) fn wrote(
        &mut self,
        run: &mut Run<'e>,
        number: usize,
        old: &[crate::types::Value],
        new: Option<&[crate::types::Value]>,
    ) -> Result<()> {
        let triggers = &mut self.of[number].triggers;
        triggers.wrote(run, Some(old), new)?;
        self.queue.extend(triggers.take_rows().into_iter().map(|row| (number, Some(row))));
        Ok(())
    }

    /// Notes that an action's rows have been changed: the triggers after the statement fire behind the last of them.
    pub(super) fn leave(&mut self, number: usize) {
        let kind = |number: usize| (self.of[number].table, self.of[number].event);
        if self.of[number].triggers.is_empty() {
            return;
        }
        let is_before =
            |(other, row): &(usize, Option<WrittenRow>)| row.is_none() && kind(*other) == kind(number);
        // Looked for from the end, where it usually is.
        if let Some(at) = self.queue.iter().rposition(is_before) {
            self.queue.remove(at);
        }
        self.queue.push((number, None));
    }

    /// Fires the triggers after rows and statements.
    pub(super) fn after(&mut self, run: &mut Run<'e>) -> Result<()> {
        for (number, row) in std::mem::take(&mut self.queue) {
            let Cascade { event, triggers, .. } = &self.of[number];
            match row {
                Some(row) => triggers.after_row(run, row)?,
                None => triggers.statement(run, TriggerTime::After, *event)?,
            }
        }
        Ok(())
    }
}
