//! Statements that write: their reads decide which rows change, then these change one by one.
//!
//! ```text
//! insert, update, delete, merge  the statements
//! rows                           a row of SQL as a row of the engine
//! checks                         generated columns, NOT NULL, CHECK
//! commuting                      updates that do not read their row
//! foreign_key                    the rows that refer to a row, and those that it refers to
//! key_values                     foreign keys of another type than their key
//! recheck                        deferred constraints
//! triggers                       around statements and rows; cascades: around rows that foreign keys change
//! ```
//!
//! # Invariants
//! - A statement reads the rows as they were when it began: it never meets its own rows, nor those of the other statements in
//!   its WITH.
//! - Foreign keys are looked at when all rows of the statement have been written, those of statements in WITH included.

mod bounds;
mod cascades;
mod checks;
mod commuting;
mod deferrable;
mod delete;
mod foreign_key;
mod insert;
mod key_values;
mod merge;
mod order;
mod recheck;
mod row_number;
mod rows;
mod triggers;
mod unique;
mod update;

use hashbrown::HashSet;

use crate::catalog::{Event, TriggerTime};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::expression::Expr;
use crate::plan::node::Plan;
use crate::plan::statement::RowRules;
use crate::run::Run;
use crate::run::batch::Batch;
use crate::run::memory::row_bytes;
use crate::run::operator::operator;
use crate::run::spill::KeptRows;
use crate::run::write::foreign_key::Touched;
use crate::run::write::triggers::Triggers;
use crate::types::Value;

pub(crate) use commuting::commute;
pub(crate) use delete::delete;
pub(crate) use insert::insert;
pub(crate) use key_values::may_refer;
pub(crate) use merge::merge;
pub(crate) use order::has_lost;
pub(crate) use recheck::Recheck;
pub(crate) use row_number::next as next_row_number;
pub(crate) use update::update;

/// The effect of a statement that writes.
pub(crate) struct Written {
    pub(crate) count: u64,
    pub(crate) returned: KeptRows,
}

/// A statement that writes, while it runs.
struct Writing<'e> {
    rules: &'e RowRules,
    returning: &'e [Expr],
    written: Written,
    touched: Touched<'e>,
    triggers: Triggers<'e>,
    /// The keys of rows that were written, where none may be written twice.
    keys: HashSet<Vec<Value>>,
    /// True if rows are deleted.
    deletes: bool,
}

impl<'e> Writing<'e> {
    fn new(run: &Run<'_>, rules: &'e RowRules, returning: &'e [Expr]) -> Writing<'e> {
        Writing {
            rules,
            returning,
            written: Written { count: 0, returned: KeptRows::in_half(&run.memory) },
            touched: Touched::of(rules),
            triggers: Triggers::new(rules),
            keys: HashSet::new(),
            deletes: false,
        }
    }

    /// Counts a row, and keeps what RETURNING makes of it.
    fn count(&mut self, run: &mut Run<'e>, row: &[Value]) -> Result<()> {
        self.written.count += 1;
        if self.returning.is_empty() {
            return Ok(());
        }
        let values = self.returning.iter().map(|value| run.evaluate(value, row));
        let mut values = values.collect::<Result<Vec<_>>>()?;
        self.written.returned.push_moved(&mut run.memory, &mut values)
    }

    /// Notes that a row was written; returns true the first time.
    fn is_first(&mut self, run: &mut Run<'e>, key: &[Value]) -> Result<bool> {
        run.memory.charge(row_bytes(key) + 32)?;
        Ok(self.keys.insert(key.to_vec()))
    }

    /// Schedules the checks of foreign keys, and the triggers after rows and after the statement, for when all parts of
    /// the statement have written.
    fn finish(self, run: &mut Run<'e>, events: Vec<Event>) -> Written {
        let Writing { rules, written, touched, triggers, .. } = self;
        run.endings.push(Ending { rules, touched, triggers, events });
        written
    }

    /// Returns true if a row that a part of the statement read may still be changed: a row that the statement itself
    /// has written since is left as it is.
    ///
    /// # Errors
    /// 27000: a trigger or a function has written it.
    fn is_current(&self, run: &mut Run<'e>, key: &[Value]) -> Result<bool> {
        let table = &*self.rules.table;
        let (Some(moment), Some(writes)) = (&run.moment, run.writes) else { return Ok(true) };
        if !run.interleaves && self.triggers.is_empty() && run.written.is_none() {
            return Ok(true);
        }
        if !writes.has_written_since(&table.engine, &rows::refs(&rows::stored_key(table, key)?), moment)? {
            return Ok(true);
        }
        if run.written.as_ref().is_some_and(|written| written.contains(&(table.oid, key.to_vec()))) {
            return Ok(false);
        }
        let verb = if self.deletes { "deleted" } else { "updated" };
        let message = format!(
            "tuple to be {verb} was already modified by an operation triggered by the current command"
        );
        Err(SqlError::new(SqlState::TRIGGERED_DATA_CHANGE_VIOLATION, message).with_hint(
            "Consider using an AFTER trigger instead of a BEFORE trigger to propagate changes to other rows.",
        ))
    }

    /// Notes that the statement itself has written a row.
    fn wrote(&self, run: &mut Run<'e>, key: &[Value]) -> Result<()> {
        if let Some(written) = &mut run.written {
            run.memory.charge(row_bytes(key) + 32)?;
            written.insert((self.rules.table.oid, key.to_vec()));
        }
        Ok(())
    }
}

/// The remaining work of a part of a statement that has written.
pub(crate) struct Ending<'e> {
    rules: &'e RowRules,
    touched: Touched<'e>,
    triggers: Triggers<'e>,
    events: Vec<Event>,
}

/// Looks at foreign keys, fires the triggers after rows and after statements: all parts have written.
pub(crate) fn end<'e>(run: &mut Run<'e>) -> Result<()> {
    let mut endings = std::mem::take(&mut run.endings);
    for ending in &mut endings {
        ending.touched.check(run, ending.rules)?;
    }
    for ending in &mut endings {
        ending.triggers.after_rows(run)?;
        for event in &ending.events {
            ending.triggers.statement(run, TriggerTime::After, *event)?;
        }
        ending.touched.cascades.after(run)?;
    }
    Ok(())
}

/// Reads what a statement writes to, and writes: when all is read, or row by row between the functions that it calls.
fn read_and_write<'e>(
    run: &mut Run<'e>,
    input: &'e Plan,
    mut write: impl FnMut(&mut Run<'e>, &Batch) -> Result<()>,
) -> Result<()> {
    if run.interleaves {
        let mut rows = operator(input, run)?;
        while let Some(batch) = run.next_of(&mut rows)? {
            write(run, &batch)?;
        }
        return Ok(());
    }
    let mut rows = run.collect(input)?;
    for number in 0..rows.batches() {
        let batch = rows.batch(number)?;
        write(run, batch)?;
    }
    Ok(())
}

/// The values in these slots of a row.
fn pick(row: &[Value], slots: &[usize]) -> Vec<Value> {
    slots.iter().map(|&slot| row[slot].clone()).collect()
}

fn second_time(command: &str) -> SqlError {
    SqlError::new(SqlState::CARDINALITY_VIOLATION, format!("{command} command cannot affect row a second time"))
        .with_hint("Ensure that no rows proposed for insertion within the same command have duplicate constrained values.")
}
