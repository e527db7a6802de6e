//! Portals: a prepared statement with its parameters, whose rows are fetched all at once or in parts.
//!
//! Invariant: a portal's rows are read once: those that a limit left over are kept.

use std::sync::Arc;
use std::time::Instant;

use hashbrown::HashMap;

use super::{Given, Prepared};
use crate::error::{Result, SqlError, SqlState};
use crate::parse::syntax::{Fetch, FetchDirection, Statement};
use crate::run::KeptRows;
use crate::session::connection::Connection;
use crate::session::cursor::no_cursor;
use crate::session::result::{Field, Fields, ResultSink};
use crate::session::run::Plan;
use crate::types::Environment;
use crate::types::Value;

/// A statement with its parameters.
#[derive(Clone)]
pub(crate) struct Portal {
    prepared: Arc<Prepared>,
    parameters: Arc<[Value]>,
    state: PortalState,
}

impl Portal {
    /// The statement; `None` if its text was empty.
    pub fn statement(&self) -> Option<&Statement> {
        self.prepared.statement.as_ref()
    }
}

/// Portals by their names; the one without a name costs no map entry.
#[derive(Clone, Default)]
pub(crate) struct Portals {
    unnamed: Option<Portal>,
    named: HashMap<String, Portal>,
}

impl Portals {
    pub fn get(&self, name: &str) -> Option<&Portal> {
        if name.is_empty() { self.unnamed.as_ref() } else { self.named.get(name) }
    }

    /// Removes one, with its name.
    pub fn take(&mut self, name: &str) -> Option<(String, Portal)> {
        match name {
            "" => self.unnamed.take().map(|portal| (String::new(), portal)),
            name => self.named.remove_entry(name),
        }
    }

    pub fn put(&mut self, name: String, portal: Portal) {
        if name.is_empty() {
            self.unnamed = Some(portal);
        } else {
            self.named.insert(name, portal);
        }
    }

    pub fn clear(&mut self) {
        self.unnamed = None;
        self.named.clear();
    }
}

#[derive(Clone)]
enum PortalState {
    New,
    /// The rows that a limit left over, and the number of rows given.
    Suspended {
        /// All rows: a copy of the portal reads the same ones.
        rows: Arc<parking_lot::Mutex<KeptRows>>,
        plan: Arc<Plan>,
        given: usize,
    },
    Done,
}

impl SqlError {
    /// `portal "p" does not exist` (34000).
    pub fn undefined_portal(name: &str) -> SqlError {
        SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("portal \"{name}\" does not exist"))
    }
}

impl Connection {
    /// Makes a portal of a prepared statement and its parameters.
    ///
    /// # Errors
    /// 26000; 08P01 for a wrong number of parameters; 42P03 if the name is taken.
    pub fn bind(&mut self, portal: &str, statement: &str, parameters: Vec<Value>) -> Result<()> {
        self.begin_message()?;
        self.bind_portal(portal, statement, parameters).map_err(|error| self.failed(error))
    }

    fn bind_portal(&mut self, portal: &str, statement: &str, parameters: Vec<Value>) -> Result<()> {
        let prepared = self.find_prepared(statement)?;
        if prepared.statement.as_ref().is_some_and(|statement| !statement.ends_block()) {
            self.check_not_failed()?;
        }
        let is_provisional = prepared.plan.lock().as_ref().is_some_and(|plan| plan.is_provisional);
        if is_provisional {
            self.current_plan(&prepared)?;
        }
        let expected = prepared.parameter_types().len();
        if parameters.len() != expected {
            let message = format!(
                "bind message supplies {} parameters, but prepared statement \"{statement}\" requires {expected}",
                parameters.len()
            );
            return Err(SqlError::new(SqlState::PROTOCOL_VIOLATION, message));
        }
        if !portal.is_empty() && self.portals.get(portal).is_some() {
            let message = format!("cursor \"{portal}\" already exists");
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        let bound = Portal { prepared, parameters: parameters.into(), state: PortalState::New };
        self.portals.put(portal.to_string(), bound);
        Ok(())
    }

    /// The columns of a portal's or a cursor's rows; none if it returns none.
    ///
    /// # Errors
    /// 34000; the errors of binding it again.
    pub fn describe_portal(&mut self, name: &str) -> Result<Option<Fields>> {
        self.begin_message()?;
        let Some(portal) = self.portals.get(name) else {
            let cursor =
                self.environment.cursors.get(name).ok_or_else(|| SqlError::undefined_portal(name))?;
            return Ok(Some(cursor.fields()));
        };
        let prepared = portal.prepared.clone();
        let plan = self.current_plan(&prepared).map_err(|error| self.failed(error))?;
        Ok(self.fields_of(&prepared, plan.as_deref()))
    }

    /// Returns true if there is a portal of this name.
    pub fn has_portal(&self, name: &str) -> bool {
        self.portals.get(name).is_some()
    }

    /// Runs a portal, or continues it: at most `max_rows` rows, zero for all.
    ///
    /// # Errors
    /// The statement's.
    pub fn execute(&mut self, name: &str, max_rows: u32, sink: &mut dyn ResultSink) -> Result<()> {
        self.begin_message()?;
        let _entered = self.enter_statement();
        self.enter_pipeline(name).map_err(|error| self.failed(error))?;
        let Some((name, mut portal)) = self.portals.take(name) else {
            return Err(self.failed(SqlError::undefined_portal(name)));
        };
        let text_bytes = portal.prepared.text.len();
        self.activity.begin(&portal.prepared.text, self.environment.statement_start);
        let started = Instant::now();
        let done = crate::stack::for_text(text_bytes, || {
            self.run_taken(&name, &mut portal, max_rows as usize, sink)
        });
        self.count_execution(started, &portal.prepared, done.is_ok());
        self.unit_started = None;
        if done.is_ok() {
            self.statement_done();
        }
        let ended = self.transaction.is_idle()
            && portal.prepared.statement.as_ref().is_some_and(Statement::ends_block);
        if !ended {
            self.portals.put(name, portal);
        }
        done.map_err(|error| self.failed(error))
    }

    fn run_taken(
        &mut self,
        name: &str,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let Some(statement) = &portal.prepared.statement else {
            sink.empty();
            return Ok(());
        };
        if let PortalState::Suspended { rows, plan, given } = &mut portal.state {
            sink.describe(&plan.fields)?;
            let printing = self.environment.printing();
            let mut rows = rows.lock();
            let left = rows.len() - *given;
            let count = if max_rows == 0 { left } else { max_rows.min(left) };
            for number in *given..*given + count {
                sink.row(rows.row(number)?, &*printing)?;
            }
            *given += count;
            self.rows_of_statement += count as u64;
            // A limit that is just reached suspends, as in PostgreSQL: the next call finds out if there is more.
            if *given < rows.len() || (max_rows > 0 && count == max_rows) {
                sink.suspended();
                return Ok(());
            }
            drop(rows);
            let tag = plan.tag(count as u64);
            portal.state = PortalState::Done;
            return sink.complete(&tag);
        }
        if matches!(portal.state, PortalState::Done) && !statement.ends_block() {
            let plan = portal.prepared.plan.lock().clone();
            if let Some(plan) = plan.filter(|plan| plan.returns) {
                // All of its rows were given.
                self.check_not_failed()?;
                sink.describe(&plan.fields)?;
                return sink.complete(&plan.tag(0));
            }
            let message = format!("portal \"{name}\" cannot be run");
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message));
        }
        let (prepared, parameters) = (portal.prepared.clone(), portal.parameters.clone());
        if !statement.is_planned() {
            portal.state = PortalState::Done;
            let given = Given { types: &prepared.inner_types, values: &parameters };
            return self.statement_with(statement, &prepared.text, given, sink);
        }
        let is_kept = self.with_plan(&mut |connection, is_empty| {
            let Some(plan) = connection.current_plan(&prepared)? else { return Ok(false) };
            connection.check_not_failed()?;
            let plan = connection.plan_for_values(&prepared, plan, &parameters)?;
            if max_rows == 0 || !plan.returns {
                portal.state = PortalState::Done;
                connection.run_to_sink(&plan, &parameters, is_empty, sink)?;
                return Ok(false);
            }
            connection.keep_rows(portal, plan).map(|()| true)
        })?;
        if is_kept { self.run_taken(name, portal, max_rows, sink) } else { Ok(()) }
    }

    /// Runs a portal's plan, and keeps its rows in the portal.
    fn keep_rows(&mut self, portal: &mut Portal, plan: Arc<Plan>) -> Result<()> {
        let mut rows = KeptRows::new(self.environment.memory()).packed();
        self.run_plan(&plan, &portal.parameters, &mut |row| rows.push(row))?;
        let rows = Arc::new(parking_lot::Mutex::new(rows));
        portal.state = PortalState::Suspended { rows, plan, given: 0 };
        Ok(())
    }

    /// FETCH and MOVE of a portal that the extended protocol made: forward only.
    pub(in crate::session) fn fetch_from_portal(
        &mut self,
        fetch: &Fetch,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let Some((name, mut portal)) = self.portals.take(&fetch.cursor.text) else {
            return Err(no_cursor(&fetch.cursor.text));
        };
        let done = self.fetch_rows(&mut portal, fetch, sink);
        self.portals.put(name, portal);
        done
    }

    fn fetch_rows(&mut self, portal: &mut Portal, fetch: &Fetch, sink: &mut dyn ResultSink) -> Result<()> {
        let FetchDirection::Forward(count @ 1..) = fetch.direction else {
            let message = "cursor can only scan forward";
            let hint = "Declare it with SCROLL option to enable backward scan.";
            return Err(SqlError::new(SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE, message).with_hint(hint));
        };
        if matches!(portal.state, PortalState::New) {
            let prepared = portal.prepared.clone();
            self.with_plan(&mut |connection, _| {
                let plan = connection.current_plan(&prepared)?.filter(|plan| plan.returns);
                let plan = plan.ok_or_else(|| no_cursor(&fetch.cursor.text))?;
                let plan = connection.plan_for_values(&prepared, plan, &portal.parameters)?;
                connection.keep_rows(portal, plan)
            })?;
        }
        let what = if fetch.moves { "MOVE" } else { "FETCH" };
        let PortalState::Suspended { rows, plan, given } = &mut portal.state else {
            return sink.complete(&format!("{what} 0"));
        };
        let printing = self.environment.printing();
        let mut rows = rows.lock();
        let count = (rows.len() - *given).min(count.unsigned_abs() as usize);
        if !fetch.moves {
            sink.describe(&plan.fields)?;
            for number in *given..*given + count {
                sink.row(rows.row(number)?, &*printing)?;
            }
        }
        *given += count;
        sink.complete(&format!("{what} {count}"))
    }

    /// The columns of the rows that FETCH returns from a portal; none if there is no such portal.
    pub(in crate::session) fn portal_fields(&self, name: &str) -> Option<Vec<Field>> {
        let portal = self.portals.get(name)?;
        let plan = portal.prepared.plan.lock().clone()?;
        plan.returns.then(|| plan.fields.to_vec())
    }

    /// Closes a portal or a cursor; nothing happens if there is none.
    pub fn close_portal(&mut self, name: &str) {
        if self.portals.take(name).is_none() {
            self.environment.cursors.remove(name);
        }
    }
}
