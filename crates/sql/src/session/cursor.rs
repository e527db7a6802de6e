//! Cursors: DECLARE, FETCH, MOVE, CLOSE.
//!
//! Invariants: a cursor's rows are those of the moment when it was declared, the transaction's own writes included; it may be
//! moved in both directions. Without HOLD it ends with its transaction.

use std::sync::Arc;

use crate::bind::tree::BoundColumn;
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{DeclareCursor, Fetch, FetchDirection, Name};
use crate::run::KeptRows;
use crate::session::connection::Connection;
use crate::session::prepared::Given;
use crate::session::result::{Field, ResultSink};
use crate::types::Environment;

/// A cursor with its rows.
pub(crate) struct Cursor {
    /// The text that declared it, and when.
    pub text: String,
    pub declared_at: i64,
    fields: Arc<[Field]>,
    rows: KeptRows,
    /// The row it is on, from 1; 0 is before the first, `rows.len() + 1` behind the last.
    position: usize,
    pub hold: bool,
    pub scroll: bool,
    /// True once the transaction that declared the cursor has committed.
    held: bool,
}

impl Cursor {
    /// One that a function has opened and not closed.
    pub fn left(columns: &[BoundColumn], rows: KeptRows, position: i64) -> Cursor {
        let position = usize::try_from(position).unwrap_or(0);
        Cursor {
            text: String::new(),
            declared_at: crate::session::environment::now(),
            fields: columns.iter().map(Field::of).collect(),
            rows,
            position,
            hold: false,
            scroll: true,
            held: false,
        }
    }

    pub fn fields(&self) -> Arc<[Field]> {
        self.fields.clone()
    }

    /// Returns true if the cursor survives the end of a transaction, which has committed or not.
    pub fn survives(&mut self, committed: bool) -> bool {
        if self.hold && committed {
            self.held = true;
        }
        self.held
    }

    /// Moves by a direction: the rows passed over, in order.
    fn travel(&mut self, direction: FetchDirection) -> Passed {
        let last = self.rows.len();
        match direction {
            FetchDirection::Forward(0) => self.current(),
            FetchDirection::Forward(count) if count > 0 => {
                let wanted = count.unsigned_abs() as usize;
                let first = self.position + 1;
                let count = wanted.min((last + 1).saturating_sub(first));
                self.position = if count < wanted { last + 1 } else { first + count - 1 };
                Passed { first, count, is_backward: false }
            }
            FetchDirection::Forward(count) => {
                let wanted = count.unsigned_abs() as usize;
                let first = self.position.saturating_sub(1);
                let count = wanted.min(first);
                self.position = if count < wanted { 0 } else { first + 1 - count };
                Passed { first, count, is_backward: true }
            }
            FetchDirection::Absolute(place) => {
                let place = if place < 0 { last as i64 + 1 + place } else { place };
                self.place(place)
            }
            FetchDirection::Relative(offset) => self.place(self.position as i64 + offset),
        }
    }

    fn place(&mut self, place: i64) -> Passed {
        self.position = place.clamp(0, self.rows.len() as i64 + 1) as usize;
        self.current()
    }

    fn current(&self) -> Passed {
        let count = usize::from((1..=self.rows.len()).contains(&self.position));
        Passed { first: self.position, count, is_backward: false }
    }
}

/// Rows that a cursor has passed over.
struct Passed {
    /// The number of the first, from 1.
    first: usize,
    count: usize,
    is_backward: bool,
}

impl Passed {
    /// Their numbers, from 0, in order.
    fn numbers(&self) -> impl Iterator<Item = usize> {
        let (first, is_backward) = (self.first, self.is_backward);
        (0..self.count).map(move |step| if is_backward { first - 1 - step } else { first - 1 + step })
    }
}

pub(super) fn no_cursor(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}

impl Connection {
    /// DECLARE, whose own text this is.
    pub(super) fn declare(
        &mut self,
        declare: &DeclareCursor,
        text: &str,
        given: Given<'_>,
    ) -> Result<&'static str> {
        if !declare.hold && !self.transaction.is_explicit() {
            let message = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
        }
        let name = declare.name.text.clone();
        if self.environment.cursors.contains_key(&name) {
            let message = format!("cursor \"{name}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        // Positions in the query's tree count from the beginning of the whole text, which is not at hand here.
        let (plan, rows) = self.with_plan(&mut |connection, _| {
            let plan = connection.plan(&declare.query, "", &given.known_types());
            let plan = plan.map_err(SqlError::without_position)?;
            if plan.planned.writes {
                let message = "DECLARE CURSOR must not contain data-modifying statements in WITH";
                return Err(SqlError::unsupported(message));
            }
            let mut rows = KeptRows::new(connection.environment.memory()).packed();
            connection.run_plan(&plan, given.values, &mut |row| rows.push(row))?;
            Ok((plan, rows))
        })?;
        let held = declare.hold && !self.transaction.is_explicit();
        let cursor = Cursor {
            text: self.source.as_deref().unwrap_or(text).to_string(),
            declared_at: self.environment.statement_start,
            fields: plan.fields.clone(),
            rows,
            position: 0,
            hold: declare.hold,
            scroll: declare.scroll != Some(false),
            held,
        };
        self.environment.cursors.insert(name, cursor);
        Ok("DECLARE CURSOR")
    }

    pub(super) fn fetch(&mut self, fetch: &Fetch, sink: &mut dyn ResultSink) -> Result<()> {
        let printing = self.environment.printing();
        let Some(cursor) = self.environment.cursors.get_mut(&fetch.cursor.text) else {
            return self.fetch_from_portal(fetch, sink);
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
            return sink.complete(&format!("MOVE {}", rows.count));
        }
        sink.describe(&cursor.fields)?;
        for number in rows.numbers() {
            sink.row(cursor.rows.row(number)?, &*printing)?;
        }
        sink.complete(&format!("FETCH {}", rows.count))
    }

    pub(super) fn close(&mut self, name: Option<&Name>) -> Result<&'static str> {
        match name {
            None => {
                self.environment.cursors.clear();
                Ok("CLOSE CURSOR ALL")
            }
            Some(name) if self.environment.cursors.remove(&name.text).is_some() => Ok("CLOSE CURSOR"),
            Some(name) => Err(no_cursor(&name.text)),
        }
    }
}
