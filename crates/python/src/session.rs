//! The class Session: one connection to a database.
//!
//! # Invariants
//! - A statement asks for the GIL once, when it has ended; a text whose parameters' types are not known yet, once more.
//! - The lock of the connection is taken without the GIL, and nothing asks for the GIL while it is held.

use std::collections::HashMap;
use std::sync::Arc;

use heddle_sql::{Canceller, ConnectOptions, Connection, SqlError, SqlState, TransactionStatus, Type, Value};
use parking_lot::Mutex;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::arrow;
use crate::commits::Commits;
use crate::database::drop_without_gil;
use crate::errors::exception;
use crate::forks::Process;
use crate::interrupt::{Interruptible, see_signals};
use crate::opened::{Handle, inherited};
use crate::rows::{Collector, Rows, Table};
use crate::to_sql::{Parameter, hint, to_sql};

/// Texts whose parameter types a session keeps.
const TEXTS_MAX: usize = 256;
/// The longest text that is kept.
const TEXT_BYTES_MAX: usize = 16_384;

/// Types of parameters: what the values suggested, and what the statement decided.
#[derive(Clone)]
struct Known {
    hints: Vec<u32>,
    types: Arc<[Type]>,
}

/// The outcome of a statement.
enum Ran<T> {
    Done(T),
    /// Nothing was run: the statement's parameters have these types.
    TypesAre(Arc<[Type]>),
}

/// A connection; the field order is the order in which they are dropped.
pub struct Open {
    pub connection: Connection,
    handle: Handle,
}

/// One connection.
#[pyclass(frozen, module = "heddledb._heddledb")]
pub struct Session {
    /// `None` after `close`.
    open: Mutex<Option<Open>>,
    known: Mutex<HashMap<String, Known>>,
    canceller: Canceller,
    process: Process,
    /// The statement that opens a transaction block, for statements that need one; `None` in autocommit mode.
    block: Mutex<Option<Arc<str>>>,
}

impl Session {
    /// Connects.
    pub fn open(handle: Handle, user: Option<String>) -> Result<Session, SqlError> {
        let mut options = ConnectOptions::default();
        if let Some(user) = user {
            options.is_superuser = false;
            options.user = user;
        }
        let connection = handle.sql()?.connect(options)?;
        let canceller = connection.canceller();
        Ok(Session {
            open: Mutex::new(Some(Open { connection, handle })),
            known: Mutex::default(),
            canceller,
            process: Process::current(),
            block: Mutex::new(None),
        })
    }

    /// Runs this with the connection, without the GIL; Ctrl-C cancels it.
    pub fn with<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&mut Connection) -> Result<T, SqlError> + Send,
    ) -> PyResult<T> {
        see_signals(py)?;
        let done = py.detach(|| {
            // A thread that held the lock at a fork is not there to release it.
            if !self.process.is_current() {
                return Err(inherited());
            }
            let mut open = self.open.lock();
            let Some(open) = open.as_mut() else {
                return Err(SqlError::new(SqlState::new("08003"), "the connection is closed"));
            };
            let _interruptible = Interruptible::enter(&self.canceller);
            body(&mut open.connection)
        });
        done.map_err(|error| {
            if error.state() == SqlState::QUERY_CANCELED
                && let Err(interrupt) = py.check_signals()
            {
                return interrupt;
            }
            exception(py, &error)
        })
    }

    fn known_types(&self, text: &str, hints: &[u32]) -> Option<Arc<[Type]>> {
        let known = self.known.lock();
        known.get(text).filter(|known| known.hints == hints).map(|known| known.types.clone())
    }

    fn keep_types(&self, text: &str, hints: Vec<u32>, types: Arc<[Type]>) {
        if text.len() > TEXT_BYTES_MAX {
            return;
        }
        let mut known = self.known.lock();
        if known.len() >= TEXTS_MAX && !known.contains_key(text) {
            known.clear();
        }
        known.insert(text.to_string(), Known { hints, types });
    }

    /// The statement that opens the transaction block of a statement that needs one.
    fn block(&self, opens_block: bool) -> Option<Arc<str>> {
        if opens_block { self.block.lock().clone() } else { None }
    }

    /// Runs a statement with each of these rows of parameters; in a transaction block, unless the session is in autocommit
    /// mode or the statement needs none.
    pub fn run_rows(
        &self,
        py: Python<'_>,
        text: &str,
        rows: &[Vec<Bound<'_, PyAny>>],
        opens_block: bool,
    ) -> PyResult<Vec<Table>> {
        let block = self.block(opens_block);
        let hints = hints_of(rows)?;
        let mut types = match self.known_types(text, &hints) {
            Some(types) => types,
            None => {
                let types = self.with(py, |connection| {
                    open_block(connection, block.as_deref())?;
                    connection.prepare("", text, &hints)?;
                    connection.parameter_types("")
                })?;
                self.keep_types(text, hints.clone(), types.clone());
                types
            }
        };
        loop {
            let mut parameters = Vec::with_capacity(rows.len());
            for row in rows {
                parameters.push(parameters_of(py, row, &types)?);
            }
            let ran = self.with(py, |connection| {
                open_block(connection, block.as_deref())?;
                run_prepared(connection, text, &hints, &types, parameters)
            })?;
            match ran {
                Ran::Done(tables) => return Ok(tables),
                Ran::TypesAre(now) => {
                    self.keep_types(text, hints.clone(), now.clone());
                    types = now;
                }
            }
        }
    }
}

#[pymethods]
impl Session {
    /// Sets the statement that opens a transaction block before those that need one, unless one is open; `None`: autocommit.
    fn set_block(&self, begin: Option<&str>) {
        *self.block.lock() = begin.map(Arc::from);
    }

    /// Runs a text. `parameters`: those of one statement, in order; without them the text may have several statements.
    /// `opens_block`: in a transaction block, if the session has one.
    #[pyo3(signature = (text, parameters=None, opens_block=false))]
    fn execute(
        &self,
        py: Python<'_>,
        text: &str,
        parameters: Option<Vec<Bound<'_, PyAny>>>,
        opens_block: bool,
    ) -> PyResult<Vec<Rows>> {
        let tables = match parameters {
            Some(row) => self.run_rows(py, text, &[row], opens_block)?,
            None => {
                let block = self.block(opens_block);
                self.with(py, |connection| {
                    open_block(connection, block.as_deref())?;
                    let mut sink = Collector::default();
                    connection.simple_query(text, &mut sink)?;
                    Ok(sink.tables)
                })?
            }
        };
        Ok(tables.into_iter().map(Rows::new).collect())
    }

    /// Runs a statement once for each row of parameters.
    #[pyo3(signature = (text, rows, opens_block=false))]
    fn execute_rows(
        &self,
        py: Python<'_>,
        text: &str,
        rows: Vec<Vec<Bound<'_, PyAny>>>,
        opens_block: bool,
    ) -> PyResult<Vec<Rows>> {
        let tables = self.run_rows(py, text, &rows, opens_block)?;
        Ok(tables.into_iter().map(Rows::new).collect())
    }

    /// Runs COPY … FROM STDIN with this data.
    #[pyo3(signature = (text, data, opens_block=false))]
    fn copy_from(&self, py: Python<'_>, text: &str, data: &[u8], opens_block: bool) -> PyResult<Vec<Rows>> {
        let block = self.block(opens_block);
        let tables = self.with(py, |connection| {
            open_block(connection, block.as_deref())?;
            let mut rest = data;
            let mut input = |into: &mut Vec<u8>| {
                let (piece, left) = rest.split_at(rest.len().min(1 << 16));
                into.extend_from_slice(piece);
                rest = left;
                Ok(!piece.is_empty())
            };
            let mut sink = Collector::with_input(&mut input);
            connection.simple_query(text, &mut sink)?;
            Ok(sink.tables)
        })?;
        Ok(tables.into_iter().map(Rows::new).collect())
    }

    /// Loads the rows of an object with `__arrow_c_stream__` into a table, whose name is SQL.
    #[pyo3(signature = (table, rows, opens_block=false))]
    fn load(
        &self,
        py: Python<'_>,
        table: &str,
        rows: &Bound<'_, PyAny>,
        opens_block: bool,
    ) -> PyResult<Vec<Rows>> {
        let reader = arrow::from_object(rows)?;
        let text = arrow::copy_statement(table, &reader);
        let mut lines = arrow::CopyText::new(reader);
        let block = self.block(opens_block);
        let tables = self.with(py, |connection| {
            open_block(connection, block.as_deref())?;
            let mut input = |into: &mut Vec<u8>| lines.next(into);
            let mut sink = Collector::with_input(&mut input);
            connection.simple_query(&text, &mut sink)?;
            Ok(sink.tables)
        })?;
        Ok(tables.into_iter().map(Rows::new).collect())
    }

    /// Runs a query, and closes this session: its connection belongs to the stream of Arrow's that is returned.
    fn stream<'py>(&self, py: Python<'py>, text: String) -> PyResult<Bound<'py, PyCapsule>> {
        // Fails if the session is closed, or inherited by a fork.
        self.with(py, |_| Ok(()))?;
        let started = py.detach(|| {
            let open = self.open.lock().take();
            open.map(|open| arrow::start(open, text)).transpose()
        });
        match started.map_err(|error| exception(py, &error))? {
            Some(reader) => arrow::to_capsule(py, reader),
            None => Err(exception(py, &SqlError::new(SqlState::new("08003"), "the connection is closed"))),
        }
    }

    /// The state of the connection: `idle`, `in transaction`, `failed`, or `closed`.
    #[getter]
    fn status(&self, py: Python<'_>) -> &'static str {
        if !self.process.is_current() {
            return "closed";
        }
        py.detach(|| match self.open.lock().as_ref().map(|open| open.connection.status()) {
            Some(TransactionStatus::Idle) => "idle",
            Some(TransactionStatus::InTransaction) => "in transaction",
            Some(TransactionStatus::Failed) => "failed",
            None => "closed",
        })
    }

    /// Severity, SQLSTATE and message of each notice since the last call.
    fn take_notices(&self, py: Python<'_>) -> PyResult<Vec<(&'static str, String, String)>> {
        let notices = self.with(py, |connection| Ok(connection.take_notices()))?;
        let fields = |notice: heddle_sql::Notice| {
            (notice.severity.as_str(), notice.state.as_str().to_string(), notice.message)
        };
        Ok(notices.into_iter().map(fields).collect())
    }

    /// Ends the statement in progress with 57014, from any thread.
    fn cancel(&self, py: Python<'_>) {
        if self.process.is_current() {
            py.detach(|| self.canceller.cancel());
        }
    }

    /// Commits, and returns before the log has answered: false, or true if `commits` will say when this number's commit is
    /// durable.
    fn commit_early(&self, py: Python<'_>, commits: Bound<'_, Commits>, number: u64) -> PyResult<bool> {
        let commits = commits.get();
        self.with(py, |connection| {
            match connection.commit_early()?.map(|commit| commits.add(number, commit)) {
                Some(None) => Ok(true),
                Some(Some(outcome)) => Ok(outcome.map(|()| false)?),
                None => Ok(false),
            }
        })
    }

    /// Closes the connection: an open transaction is rolled back.
    fn close(&self, py: Python<'_>) {
        if self.process.is_current() {
            py.detach(|| {
                let open = self.open.lock().take();
                drop(open);
            });
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let Some(open) = self.open.get_mut().take() else { return };
        if open.handle.is_inherited() {
            // The engine's threads are the parent's.
            std::mem::forget(open);
        } else {
            drop_without_gil(open);
        }
    }
}

/// Opens a transaction block by this statement, unless one is open.
fn open_block(connection: &mut Connection, begin: Option<&str>) -> Result<(), SqlError> {
    match begin {
        Some(begin) if connection.status() == TransactionStatus::Idle => connection.query(begin).map(|_| ()),
        _ => Ok(()),
    }
}

/// The types that the values suggest: for each parameter the widest one that its rows suggest.
fn hints_of(rows: &[Vec<Bound<'_, PyAny>>]) -> PyResult<Vec<u32>> {
    let mut hints = vec![0; rows.first().map_or(0, Vec::len)];
    for row in rows {
        for (known, value) in hints.iter_mut().zip(row) {
            *known = wider(*known, hint(value)?);
        }
    }
    Ok(hints)
}

/// The type that includes both suggestions: of integers and numbers the wider one.
fn wider(left: u32, right: u32) -> u32 {
    let order = [Type::Int4.oid(), Type::Int8.oid(), Type::Numeric.oid(), Type::Float8.oid()];
    let rank = |oid| order.iter().position(|&known| known == oid);
    match (rank(left), rank(right)) {
        (Some(a), Some(b)) if b > a => right,
        _ if left == 0 => right,
        _ => left,
    }
}

fn parameters_of(py: Python<'_>, row: &[Bound<'_, PyAny>], types: &[Type]) -> PyResult<Vec<Parameter>> {
    if row.len() != types.len() {
        let message = format!("the statement has {} parameters, but {} were given", types.len(), row.len());
        return Err(exception(py, &SqlError::new(SqlState::PROTOCOL_VIOLATION, message)));
    }
    row.iter().zip(types).map(|(value, &kind)| to_sql(value, kind)).collect()
}

fn run_prepared(
    connection: &mut Connection,
    text: &str,
    hints: &[u32],
    types: &[Type],
    rows: Vec<Vec<Parameter>>,
) -> Result<Ran<Vec<Table>>, SqlError> {
    connection.prepare("", text, hints)?;
    let now = connection.parameter_types("")?;
    if *now != *types {
        return Ok(Ran::TypesAre(now));
    }
    let mut sink = Collector::default();
    for row in rows {
        let values = row.into_iter().zip(types).map(|(value, &kind)| value.decode(connection, kind));
        let values = values.collect::<Result<Vec<Value>, SqlError>>()?;
        connection.bind("", "", values)?;
        connection.execute("", 0, &mut sink)?;
    }
    Ok(Ran::Done(sink.tables))
}
