//! Cursors: DECLARE, FETCH, MOVE, CLOSE.
//!
//! Invariants: a cursor's rows are those of the moment when it was declared, the transaction's own writes included; it may be
//! moved in both directions. Without HOLD it ends with its transaction.

use std::sync::Arc;

use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{DeclareCursor, Fetch, FetchDirection, Name, Statement};
use crate::session::connection::Connection;
use crate::session::result::{Field, ResultSink};
use crate::types::Value;

/// A cursor with its rows.
pub(crate) struct Cursor {
    fields: Arc<[Field]>,
    rows: Vec<Vec<Value>>,
    /// The row it is on, from 1; 0 is before the first, `rows.len() + 1` behind the last.
    position: usize,
    hold: bool,
    scroll: bool,
    /// Whether the transaction that declared it has committed.
    held: bool,
}

impl Cursor {
    pub fn fields(&self) -> Arc<[Field]> {
        self.fields.clone()
    }

    /// Whether the cursor outlives the end of a transaction.
    pub fn survives(&mut self, committed: bool) -> bool {
        if self.hold && committed {
            self.held = true;
        }
        self.held
    }

    /// Moves by a direction: the rows passed over, in order.
    fn travel(&mut self, direction: FetchDirection) -> Vec<usize> {
        let last = self.rows.len();
        match direction {
            FetchDirection::Forward(0) => self.current(),
            FetchDirection::Forward(count) if count > 0 => {
                let count = count.unsigned_abs() as usize;
                let first = self.position + 1;
                let available = last.saturating_sub(self.position);
                self.position = if count > available { last + 1 } else { self.position + count };
                (first..first + count.min(available)).collect()
            }
            FetchDirection::Forward(count) => {
                let count = count.unsigned_abs() as usize;
                let first = self.position.saturating_sub(1);
                let rows: Vec<usize> = (1..=first).rev().take(count).collect();
                self.position = if rows.len() < count { 0 } else { rows.last().copied().unwrap_or(0) };
                rows
            }
            FetchDirection::Absolute(place) => {
                let place = if place < 0 { last as i64 + 1 + place } else { place };
                self.place(place)
            }
            FetchDirection::Relative(offset) => self.place(self.position as i64 + offset),
        }
    }

    fn place(&mut self, place: i64) -> Vec<usize> {
        self.position = place.clamp(0, self.rows.len() as i64 + 1) as usize;
        self.current()
    }

    fn current(&self) -> Vec<usize> {
        if (1..=self.rows.len()).contains(&self.position) { vec![self.position] } else { Vec::new() }
    }
}

fn no_cursor(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}

impl Connection {
    pub(super) fn declare(&mut self, declare: &DeclareCursor) -> Result<&'static str> {
        if !declare.hold && !self.transaction.is_explicit() {
            let message = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
        }
        let name = declare.name.text.clone();
        if self.cursors.contains_key(&name) {
            let message = format!("cursor \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        let statement = Statement::Query(declare.query.clone());
        // Positions in the query's tree count from the beginning of the whole text, which is not at hand here.
        let plan = self.plan(&statement, "", &[]).map_err(SqlError::without_position)?;
        let mut rows = Vec::new();
        self.run_plan(&plan, &[], &mut |row| {
            rows.push(row.to_vec());
            Ok(())
        })?;
        let held = declare.hold && !self.transaction.is_explicit();
        let cursor = Cursor {
            fields: plan.fields.clone(),
            rows,
            position: 0,
            hold: declare.hold,
            scroll: declare.scroll != Some(false),
            held,
        };
        self.cursors.insert(name, cursor);
        Ok("DECLARE CURSOR")
    }

    pub(super) fn fetch(&mut self, fetch: &Fetch, sink: &mut dyn ResultSink) -> Result<()> {
        let printing = self.environment.printing();
        let Some(cursor) = self.cursors.get_mut(&fetch.cursor.text) else {
            return Err(no_cursor(&fetch.cursor.text));
        };
        let backward = match fetch.direction {
            FetchDirection::Forward(count) => count < 0,
            FetchDirection::Absolute(place) => place < cursor.position as i64,
            FetchDirection::Relative(offset) => offset < 0,
        };
        if backward && !cursor.scroll {
            let message = "cursor can only scan forward";
            let hint = "Declare it with SCROLL option to enable backward scan.";
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).with_hint(hint));
        }
        let rows = cursor.travel(fetch.direction);
        if fetch.moves {
            return sink.complete(&format!("MOVE {}", rows.len()));
        }
        sink.describe(&cursor.fields)?;
        for &row in &rows {
            sink.row(&cursor.rows[row - 1], &*printing)?;
        }
        sink.complete(&format!("FETCH {}", rows.len()))
    }

    pub(super) fn close(&mut self, name: Option<&Name>) -> Result<&'static str> {
        match name {
            None => {
                self.cursors.clear();
                Ok("CLOSE CURSOR ALL")
            }
            Some(name) if self.cursors.remove(&name.text).is_some() => Ok("CLOSE CURSOR"),
            Some(name) => Err(no_cursor(&name.text)),
        }
    }
}
