//! Statements that write: what was read decides which rows change, then they change one by one.
//!
//! ```text
//! insert, update, delete, merge   the statements       rows          a row of SQL as a row of the engine
//! checks                          NOT NULL, CHECK      foreign_key   what refers to rows, and what they refer to
//! triggers                        around statements and rows    cascades   around rows that foreign keys change
//! postponed                       writes of statements in WITH
//! ```
//!
//! # Invariants
//! - A statement that reads tables reads to its end before it writes: it never meets its own rows.
//! - Foreign keys are looked at when all rows of the statement have been written.

mod cascades;
mod checks;
mod deferrable;
mod delete;
mod foreign_key;
mod insert;
mod merge;
mod postponed;
mod row_number;
mod rows;
mod triggers;
mod update;

use hashbrown::HashSet;

use crate::catalog::{Event, TriggerTime};
use crate::error::{Result, SqlError, SqlState};
use crate::plan::expression::Expr;
use crate::plan::statement::RowRules;
use crate::run::Run;
use crate::run::memory::row_bytes;
use crate::run::spill::KeptRows;
use crate::run::write::foreign_key::Touched;
use crate::run::write::triggers::Triggers;
use crate::types::Value;

pub(crate) use delete::delete;
pub(crate) use insert::insert;
pub(crate) use merge::merge;
pub(crate) use postponed::Postponed;
pub(crate) use row_number::next as next_row_number;
pub(crate) use update::{commute, update};

/// What a statement has done.
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

    /// Notes that a row was written. Whether it is the first time.
    fn is_first(&mut self, run: &mut Run<'e>, key: &[Value]) -> Result<bool> {
        run.memory.charge(row_bytes(key) + 32)?;
        Ok(self.keys.insert(key.to_vec()))
    }

    /// Looks at foreign keys, fires the triggers after rows and after the statement, and ends.
    fn finish(mut self, run: &mut Run<'e>, events: &[Event]) -> Result<Written> {
        self.touched.check(run, self.rules)?;
        self.triggers.after_rows(run)?;
        for event in events {
            self.triggers.statement(run, TriggerTime::After, *event)?;
        }
        self.touched.cascades.after(run)?;
        Ok(self.written)
    }
}

/// The values in these slots of a row.
fn pick(row: &[Value], slots: &[usize]) -> Vec<Value> {
    slots.iter().map(|&slot| row[slot].clone()).collect()
}

fn second_time(command: &str) -> SqlError {
    SqlError::new(SqlState::CARDINALITY_VIOLATION, format!("{command} command cannot affect row a second time"))
        .with_hint("Ensure that no rows proposed for insertion within the same command have duplicate constrained values.")
}
