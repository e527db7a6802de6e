//! Cursors of PL/pgSQL: a query's rows, read when the cursor is opened.
//!
//! # Invariants
//! - A cursor belongs to the call that opened it. When the body has ended, it is one of the session's under the name that its variable
//!   has, so that a client to which the name is returned can FETCH from it until the transaction ends.

use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};
use crate::routine::plpgsql::interpret::Interpreter;
use crate::routine::plpgsql::queries::Several;
use crate::routine::plpgsql::tree::{Direction, Fragment, Into, Source, VariableKind};
use crate::routine::query::QueryPlan;
use crate::routine::value::record;
use crate::run::KeptRows;
use crate::session::Cursor;
use crate::types::{Type, Value};

/// An open cursor.
pub(super) struct OpenCursor {
    plan: Arc<QueryPlan>,
    rows: KeptRows,
    /// The row that it stands on, from 1; zero is in front of the first.
    position: i64,
}

impl OpenCursor {
    fn row(&mut self) -> Result<Option<Vec<Value>>> {
        let count = self.rows.len() as i64;
        if self.position < 1 || self.position > count {
            self.position = self.position.clamp(0, count + 1);
            return Ok(None);
        }
        Ok(Some(self.rows.row(self.position as usize - 1)?.to_vec()))
    }
}

impl Interpreter<'_, '_> {
    pub(super) fn open(
        &mut self,
        cursor: usize,
        source: Option<&Source>,
        arguments: &[Fragment],
    ) -> Result<()> {
        let variable = &self.program.variables[cursor];
        // Set to NULL, the variable names no cursor: the open one is left to the end of the body.
        if self.cursors.contains_key(&cursor) && !self.values[cursor].is_null() {
            let message = format!("cursor \"{}\" already in use", variable.name);
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        let VariableKind::Cursor { query, arguments: declared } = &variable.kind else {
            return Err(SqlError::internal("a cursor is no cursor variable"));
        };
        if arguments.len() != declared.len() {
            let what = if arguments.len() < declared.len() { "not enough" } else { "too many" };
            let message = format!("{what} arguments for cursor \"{}\"", variable.name);
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
        }
        for (argument, &slot) in arguments.iter().zip(declared) {
            let (value, ty) = self.evaluate(argument)?;
            self.assign_variable(slot, value, ty)?;
        }
        let (plan, rows) = match (source, query) {
            (Some(source), _) => self.rows_of(source, Several::Refused)?,
            (None, Some(query)) => self.rows_of_query(query)?,
            (None, None) => {
                let message = format!("cursor \"{}\" has no query", variable.name);
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).with_hint("Use OPEN … FOR."));
            }
        };
        let name = match &self.values[cursor] {
            Value::Null if query.is_some() && !self.cursors.contains_key(&cursor) => variable.name.clone(),
            Value::Null => self.execution.environment.unnamed_portal(),
            named => named.str().to_string(),
        };
        let environment = &self.execution.environment;
        if environment.cursors.contains_key(&name)
            || environment.left_cursors.iter().any(|(it, _)| *it == name)
        {
            let message = format!("cursor \"{name}\" already in use");
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        self.values[cursor] = Value::text(name);
        self.cursors.insert(cursor, OpenCursor { plan, rows, position: 0 });
        Ok(())
    }

    fn opened(&mut self, cursor: usize) -> Result<&mut OpenCursor> {
        let name = &self.program.variables[cursor].name;
        if self.values[cursor].is_null() {
            let message = format!("cursor variable \"{name}\" is null");
            return Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message));
        }
        self.cursors.get_mut(&cursor).ok_or_else(|| {
            SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
        })
    }

    /// The next row of a cursor, as a row value.
    pub(super) fn next_of_cursor(&mut self, cursor: usize) -> Result<Option<Value>> {
        let open = self.opened(cursor)?;
        open.position += 1;
        let fields = open.plan.fields.clone();
        Ok(open.row()?.map(|row| record(&fields, row)))
    }

    pub(super) fn fetch(&mut self, cursor: usize, direction: &Direction, into: Option<&Into>) -> Result<()> {
        let number = |fragment: &Fragment, of: &mut Self| -> Result<i64> {
            match of.evaluate_as(fragment, Type::Int8)? {
                Value::Int8(number) => Ok(number),
                _ => {
                    let message = "relative or absolute cursor position is null";
                    Err(SqlError::new(SqlState::NULL_VALUE_NOT_ALLOWED, message))
                }
            }
        };
        let count = match direction {
            Direction::By { count: Some(count), .. }
            | Direction::Absolute(count)
            | Direction::Relative(count) => number(count, self)?,
            _ => 1,
        };
        let open = self.opened(cursor)?;
        let (before, all) = (open.position, open.rows.len() as i64);
        open.position = match direction {
            Direction::By { is_backward: true, .. } => before.saturating_sub(count),
            Direction::By { .. } | Direction::Relative(_) => before.saturating_add(count),
            Direction::Absolute(_) if count < 0 => all + 1 + count,
            Direction::Absolute(_) => count,
            Direction::First => 1,
            Direction::Last => all,
            Direction::All { is_backward: true } => 0,
            Direction::All { .. } => all + 1,
        };
        let mut row = open.row()?;
        let plan = open.plan.clone();
        let moved = (open.position - before).unsigned_abs();
        let found = match direction {
            Direction::All { .. } => moved > 1,
            _ => row.is_some(),
        };
        match into {
            Some(into) => {
                self.row_count = u64::from(found);
                self.assign_row(into, &plan, row.as_mut())?;
            }
            None => self.row_count = if found { moved.max(1) } else { 0 },
        }
        self.set_found(found);
        Ok(())
    }

    /// The body has ended: its open cursors are left to the session.
    pub(super) fn leave_cursors(&mut self) {
        for (slot, open) in std::mem::take(&mut self.cursors) {
            // A variable that was set to NULL or to another name leads to it no more.
            if let Value::Text(name) = &self.values[slot] {
                let cursor = Cursor::left(&open.plan.columns, open.rows, open.position);
                self.execution.environment.left_cursors.push((name.to_string(), cursor));
            }
        }
    }

    pub(super) fn close(&mut self, cursor: usize) -> Result<()> {
        self.opened(cursor)?;
        self.cursors.remove(&cursor);
        Ok(())
    }
}
