//! The one way to the engine: what statements read rows through, and write them through.
//!
//! Everything that runs a statement sees a [`Rows`] and, if it writes, a [`Writes`]; nothing outside this file names the
//! engine's transactions. A transaction of the engine (`Database::run`) is one implementation.
//!
//! # Invariants
//! - An error of the engine's that means "abort and retry" reaches the engine as it was: it is never replaced by the
//!   statement's own ([`run`]).
//! - Rows are lent, not given: values that are kept of one are copied into SQL values.

use heddledb::{
    Args, Column, Database, Error, Moment, Procedure, Range, Row, Scan, Session, SessionState, Snapshot,
    SnapshotScan, Table, Tx, ValueRef,
};

use crate::error::SqlError;
use crate::interrupt;
use crate::run::Access;

/// The executor of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunsIn {
    /// The engine, as a transaction of its own.
    Engine,
    /// A session, as a transaction of its own: it queues behind the reservations of other sessions.
    Autocommit,
    /// A session with an open transaction.
    Block,
}

/// One of the engine's commutative operations on a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Commute {
    Add,
    Multiply,
    Max,
    Min,
    TopK,
}

impl Commute {
    /// The operation's name, as EXPLAIN shows it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Commute::Add => "add",
            Commute::Multiply => "multiply",
            Commute::Max => "max",
            Commute::Min => "min",
            Commute::TopK => "top-k-insert",
        }
    }
}

/// Reads rows as of one moment; a transaction's own writes are seen.
pub(crate) trait Rows {
    /// Lends the row of this primary key to `each`. Returns true if there is one. Of the row only these columns are read, if
    /// some are given.
    fn get(
        &self,
        table: &Table,
        key: &[ValueRef<'_>],
        columns: Option<&[Column]>,
        each: &mut dyn FnMut(&Row<'_>) -> Result<(), SqlError>,
    ) -> Result<bool, SqlError>;

    /// Returns true if there is a row of this primary key: conflicts with inserts and deletes of it only.
    fn exists(&self, table: &Table, key: &[ValueRef<'_>]) -> Result<bool, SqlError>;

    /// Reads a range of the primary key, or of the index of this name. Of the rows only these columns are read, if some are
    /// given.
    fn scan<'s>(
        &'s self,
        table: &Table,
        index: Option<&str>,
        range: Range,
        columns: Option<&[Column]>,
    ) -> Result<Box<dyn RowScan + 's>, SqlError>;

    /// Reserves a row for the session's transaction; where another session has it, this one waits, and the statement runs
    /// again. Outside of sessions nothing is reserved.
    fn reserve(&self, _table: &Table, _key: &[ValueRef<'_>]) -> Result<(), SqlError> {
        Ok(())
    }

    /// Waits for the session that has reserved a row, and reserves none.
    fn await_free(&self, _table: &Table, _key: &[ValueRef<'_>]) -> Result<(), SqlError> {
        Ok(())
    }

    /// Reserves a row without waiting; returns false if another session has reserved it.
    fn try_reserve(&self, _table: &Table, _key: &[ValueRef<'_>]) -> Result<bool, SqlError> {
        Ok(true)
    }

    /// Runs reads on which the session's transaction does not depend.
    fn search(&self, look: &mut dyn FnMut()) {
        look();
    }

    /// A view of the rows for several threads at once, if they can be read so.
    fn shared(&self) -> Option<&(dyn SharedRows + Sync)> {
        None
    }
}

/// No rows: for expressions that are evaluated outside of any transaction.
pub(crate) struct Nowhere;

impl Nowhere {
    fn refused() -> SqlError {
        SqlError::internal("rows are read outside of a transaction")
    }
}

impl Rows for Nowhere {
    fn get(
        &self,
        _table: &Table,
        _key: &[ValueRef<'_>],
        _columns: Option<&[Column]>,
        _each: &mut dyn FnMut(&Row<'_>) -> Result<(), SqlError>,
    ) -> Result<bool, SqlError> {
        Err(Nowhere::refused())
    }

    fn exists(&self, _table: &Table, _key: &[ValueRef<'_>]) -> Result<bool, SqlError> {
        Err(Nowhere::refused())
    }

    fn scan<'s>(
        &'s self,
        _table: &Table,
        _index: Option<&str>,
        _range: Range,
        _columns: Option<&[Column]>,
    ) -> Result<Box<dyn RowScan + 's>, SqlError> {
        Err(Nowhere::refused())
    }
}

/// Reads rows as of one moment, by several threads at once.
pub(crate) trait SharedRows: Rows {
    /// Cuts a range into at most this many scans of about the same length, in their order. Of the
    /// rows only these columns are read, if some are given.
    fn parts(
        &self,
        table: &Table,
        index: Option<&str>,
        range: Range,
        columns: Option<&[Column]>,
        parts: usize,
    ) -> Result<Vec<Box<dyn RowScan + Send>>, SqlError>;

    /// The rows as they are read by one thread.
    fn as_rows(&self) -> &dyn Rows;
}

/// Writes rows. Later reads see the writes.
pub(crate) trait Writes: Rows {
    /// This moment of the transaction.
    fn moment(&self) -> Moment;
    /// Like [`Rows::get`], of the row as it was at a moment.
    fn get_as_of(
        &self,
        moment: &Moment,
        table: &Table,
        key: &[ValueRef<'_>],
        columns: Option<&[Column]>,
        each: &mut dyn FnMut(&Row<'_>) -> Result<(), SqlError>,
    ) -> Result<bool, SqlError>;
    /// Like [`Rows::exists`], of the row as it was at a moment.
    fn exists_as_of(&self, moment: &Moment, table: &Table, key: &[ValueRef<'_>]) -> Result<bool, SqlError>;
    /// Like [`Rows::scan`], of the rows as they were at a moment.
    fn scan_as_of<'s>(
        &'s self,
        moment: &Moment,
        table: &Table,
        index: Option<&str>,
        range: Range,
        columns: Option<&[Column]>,
    ) -> Result<Box<dyn RowScan + 's>, SqlError>;
    /// Returns true if the transaction has written to the row of a key since a moment.
    fn has_written_since(
        &self,
        table: &Table,
        key: &[ValueRef<'_>],
        moment: &Moment,
    ) -> Result<bool, SqlError>;

    /// A point to which writes can be rolled back.
    fn savepoint(&self) -> heddledb::Savepoint;
    /// Rolls back the writes since the savepoint.
    fn rollback_to(&self, savepoint: &heddledb::Savepoint);
    fn insert(&self, table: &Table, row: &[ValueRef<'_>]) -> Result<(), SqlError>;
    fn update(
        &self,
        table: &Table,
        key: &[ValueRef<'_>],
        changes: &[(Column, ValueRef<'_>)],
    ) -> Result<(), SqlError>;
    fn delete(&self, table: &Table, key: &[ValueRef<'_>]) -> Result<bool, SqlError>;
    fn commute(
        &self,
        table: &Table,
        key: &[ValueRef<'_>],
        column: Column,
        operation: Commute,
        operand: ValueRef<'_>,
    ) -> Result<(), SqlError>;
    /// Requires that a column of integers, or of decimals of one word, holds a number within these bounds, in its own
    /// unit, after the writes so far: the commit proves it.
    fn require_within(
        &self,
        table: &Table,
        key: &[ValueRef<'_>],
        column: Column,
        bounds: (i64, i64),
    ) -> Result<(), SqlError>;
    /// Returns true if it is certain, without a look at the value, that a column holds a number outside of these bounds.
    fn is_surely_outside(
        &self,
        table: &Table,
        key: &[ValueRef<'_>],
        column: Column,
        bounds: (i64, i64),
    ) -> Result<bool, SqlError>;
}

/// The rows as a statement sees them that begins at a moment: without what its functions and triggers, and it itself, write.
pub(crate) struct AsOf<'w> {
    writes: &'w dyn Writes,
    moment: Moment,
}

impl<'w> AsOf<'w> {
    /// The rows as they are now, from here on.
    pub(crate) fn now(writes: &'w dyn Writes) -> AsOf<'w> {
        AsOf { writes, moment: writes.moment() }
    }

    /// The moment.
    pub(crate) fn moment(&self) -> Moment {
        self.moment
    }
}

impl Rows for AsOf<'_> {
    fn get(
        &self,
        table: &Table,
        key: &[ValueRef<'_>],
        columns: Option<&[Column]>,
        each: &mut dyn FnMut(&Row<'_>) -> Result<(), SqlError>,
    ) -> Result<bool, SqlError> {
        self.writes.get_as_of(&self.moment, table, key, columns, each)
    }

    fn exists(&self, table: &Table, key: &[ValueRef<'_>]) -> Result<bool, SqlError> {
        self.writes.exists_as_of(&self.moment, table, key)
    }

    fn scan<'s>(
        &'s self,
        table: &Table,
        index: Option<&str>,
        range: Range,
        columns: Option<&[Column]>,
    ) -> Result<Box<dyn RowScan + 's>, SqlError> {
        self.writes.scan_as_of(&self.moment, table, index, range, columns)
    }

    fn reserve(&self, table: &Table, key: &[ValueRef<'_>]) -> Result<(), SqlError> {
        self.writes.reserve(table, key)
    }

    fn await_free(&self, table: &Table, key: &[ValueRef<'_>]) -> Result<(), SqlError> {
        self.writes.await_free(table, key)
    }

    fn try_reserve(&self, table: &Table, key: &[ValueRef<'_>]) -> Result<bool, SqlError> {
        self.writes.try_reserve(table, key)
    }

    fn search(&self, look: &mut dyn FnMut()) {
        self.writes.search(look);
    }
}

/// The rows of a range, one after the other.
pub(crate) trait RowScan {
    /// Lends the next rows to `each` until it returns `false`: it has enough. Returns true if there may be more.
    fn read(&mut self, each: &mut dyn FnMut(&Row<'_>) -> Result<bool, SqlError>) -> Result<bool, SqlError>;
}

impl RowScan for Scan<'_, '_> {
    fn read(&mut self, each: &mut dyn FnMut(&Row<'_>) -> Result<bool, SqlError>) -> Result<bool, SqlError> {
        for row in self {
            if !each(&row?)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Rows for Tx<'_, '_> {
    fn get(
        &self,
        table: &Table,
        key: &[ValueRef<'_>],
        columns: Option<&[Column]>,
        each: &mut dyn FnMut(&Row<'_>) -> Result<(), SqlError>,
    ) -> Result<bool, SqlError> {
        match get(self, table, key, columns)? {
            Some(row) => each(&row).map(|()| true),
            None => Ok(false),
        }
    }

    fn exists(&self, table: &Table, key: &[ValueRef<'_>]) -> Result<bool, SqlError> {
        Ok(Tx::exists(self, table, key)?)
    }

    fn scan<'s>(
        &'s self,
        table: &Table,
        index: Option<&str>,
        range: Range,
        columns: Option<&[Column]>,
    ) -> Result<Box<dyn RowScan + 's>, SqlError> {
        Ok(Box::new(scan(self, table, index, range, columns)?))
    }

    fn reserve(&self, table: &Table, key: &[ValueRef<'_>]) -> Result<(), SqlError> {
        Ok(Tx::reserve(self, table, key)?)
    }

    fn await_free(&self, table: &Table, key: &[ValueRef<'_>]) -> Result<(), SqlError> {
        Ok(Tx::await_free(self, table, key)?)
    }

    fn try_reserve(&self, table: &Table, key: &[ValueRef<'_>]) -> Result<bool, SqlError> {
        Ok(Tx::try_reserve(self, table, key)?)
    }

    fn search(&self, look: &mut dyn FnMut()) {
        Tx::search(self, look);
    }
}

impl Writes for Tx<'_, '_> {
    fn moment(&self) -> Moment {
        Tx::moment(self)
    }

    fn get_as_of(
        &self,
        moment: &Moment,
        table: &Table,
        key: &[ValueRef<'_>],
        columns: Option<&[Column]>,
        each: &mut dyn FnMut(&Row<'_>) -> Result<(), SqlError>,
    ) -> Result<bool, SqlError> {
        match self.as_of(moment, |tx| get(tx, table, key, columns))? {
            Some(row) => each(&row).map(|()| true),
            None => Ok(false),
        }
    }

    fn exists_as_of(&self, moment: &Moment, table: &Table, key: &[ValueRef<'_>]) -> Result<bool, SqlError> {
        Ok(self.as_of(moment, |tx| Tx::exists(tx, table, key))?)
    }

    fn scan_as_of<'s>(
        &'s self,
        moment: &Moment,
        table: &Table,
        index: Option<&str>,
        range: Range,
        columns: Option<&[Column]>,
    ) -> Result<Box<dyn RowScan + 's>, SqlError> {
        Ok(Box::new(scan(self, table, index, range, columns)?.as_of(moment)))
    }

    fn has_written_since(
        &self,
        table: &Table,
        key: &[ValueRef<'_>],
        moment: &Moment,
    ) -> Result<bool, SqlError> {
        Ok(Tx::has_written_since(self, table, key, moment)?)
    }

    fn savepoint(&self) -> heddledb::Savepoint {
        Tx::savepoint(self)
    }

    fn rollback_to(&self, savepoint: &heddledb::Savepoint) {
        Tx::rollback_to(self, savepoint);
    }

    fn insert(&self, table: &Table, row: &[ValueRef<'_>]) -> Result<(), SqlError> {
        Ok(Tx::insert(self, table, row)?)
    }

    fn update(
        &self,
        table: &Table,
        key: &[ValueRef<'_>],
        changes: &[(Column, ValueRef<'_>)],
    ) -> Result<(), SqlError> {
        Ok(Tx::update(self, table, key, changes)?)
    }

    fn delete(&self, table: &Table, key: &[ValueRef<'_>]) -> Result<bool, SqlError> {
        Ok(Tx::delete(self, table, key)?)
    }

    fn commute(
        &self,
        table: &Table,
        key: &[ValueRef<'_>],
        column: Column,
        operation: Commute,
        operand: ValueRef<'_>,
    ) -> Result<(), SqlError> {
        match operation {
            Commute::Add => self.add(table, key, column, operand)?,
            Commute::Multiply => self.multiply(table, key, column, operand)?,
            Commute::Max => self.max(table, key, column, operand)?,
            Commute::Min => self.min(table, key, column, operand)?,
            Commute::TopK => self.top_k_merge(table, key, column, operand)?,
        }
        Ok(())
    }

    fn require_within(
        &self,
        table: &Table,
        key: &[ValueRef<'_>],
        column: Column,
        (low, high): (i64, i64),
    ) -> Result<(), SqlError> {
        Ok(Tx::require_within(self, table, key, column, low..=high)?)
    }

    fn is_surely_outside(
        &self,
        table: &Table,
        key: &[ValueRef<'_>],
        column: Column,
        (low, high): (i64, i64),
    ) -> Result<bool, SqlError> {
        Ok(Tx::is_surely_outside(self, table, key, column, low..=high)?)
    }
}

/// The row of a key, of which only these columns are used, if some are given.
fn get<'a>(
    tx: &Tx<'_, 'a>,
    table: &Table,
    key: &[ValueRef<'_>],
    columns: Option<&[Column]>,
) -> heddledb::Result<Option<Row<'a>>> {
    match columns {
        Some(columns) => tx.get_columns(table, key, columns),
        None => tx.get(table, key),
    }
}

/// A scan of the primary key, or of the index of this name; only these columns of the rows are used, if some are given.
fn scan<'t, 'a>(
    tx: &Tx<'t, 'a>,
    table: &Table,
    index: Option<&str>,
    range: Range,
    columns: Option<&[Column]>,
) -> heddledb::Result<Scan<'t, 'a>> {
    let scan = match index {
        Some(index) => tx.scan_index(table, index, range),
        None => tx.scan(table, range),
    }?;
    match columns {
        Some(columns) => scan.of_columns(columns),
        None => Ok(scan),
    }
}

/// Runs statements as one transaction of the engine, which retries it after a conflict; durable when this returns.
///
/// # Errors
/// The body's own, once the engine has validated what the body read; the engine's.
pub(crate) fn run<T>(
    database: &Database,
    mut body: impl FnMut(Access<'_>) -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    match run_as(database, false, &mut body) {
        Err(error) if error.is_of_values_met() => run_as(database, true, &mut body),
        done => done,
    }
}

/// Like [`run`], after an operation did not fit the value that it met: updates read what they change.
///
/// # Errors
/// Same errors as [`run`].
pub(crate) fn run_ordinary<T>(
    database: &Database,
    mut body: impl FnMut(Access<'_>) -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    run_as(database, true, &mut body)
}

fn run_as<T>(
    database: &Database,
    is_ordinary: bool,
    body: &mut dyn FnMut(Access<'_>) -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    let mut failure = None;
    let outcome = database.run(|tx| attempt(tx, (RunsIn::Engine, is_ordinary), &mut failure, body));
    outcome.map_err(|error| reported(error, failure))
}

/// Like [`run`], within the footprint that a procedure declares for these arguments, and on the thread that the
/// footprint selects.
///
/// # Errors
/// Same errors as [`run`]; an access that is not declared; an operation that did not fit the value that it met.
pub(crate) fn run_declared<T: Send>(
    database: &Database,
    procedure: &Procedure,
    args: Args,
    mut body: impl FnMut(Access<'_>) -> Result<T, SqlError> + Send,
) -> Result<T, SqlError> {
    let mut failure = None;
    let interrupt = interrupt::current();
    let run = |tx: &Tx<'_, '_>| {
        let _entered = interrupt::enter(interrupt.clone());
        attempt(tx, (RunsIn::Engine, false), &mut failure, &mut body)
    };
    let outcome = database.run_declared(procedure, args, run);
    outcome.map_err(|error| reported(error, failure))
}

/// Runs a statement in a session: within its transaction if there is one open, else as one of its own. The engine
/// retries it where it can, and keeps nothing of a statement that fails.
///
/// # Errors
/// The body's own; the engine's.
pub(crate) fn run_in<T>(
    session: &mut Session,
    mut body: impl FnMut(Access<'_>) -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    let runs_in = runs_in(session);
    let mut run = |is_ordinary: bool| {
        let mut failure = None;
        let outcome = session.run(|tx| attempt(tx, (runs_in, is_ordinary), &mut failure, &mut body));
        outcome.map_err(|error| reported(error, failure))
    };
    match run(false) {
        Err(error) if error.is_of_values_met() => match run(true) {
            // It has no operation of its own: one of an earlier statement, or its guard, no longer fits the value.
            Err(error) if runs_in == RunsIn::Block && error.is_overflow() => Err(Error::Conflict.into()),
            done => done,
        },
        done => done,
    }
}

/// Like [`run_in`], for a body that inserts very many rows: those of a table that the open transaction has created are
/// not kept until its commit. If it fails, the transaction can only be rolled back.
///
/// # Errors
/// Same errors as [`run_in`].
pub(crate) fn load_in<T>(
    session: &mut Session,
    mut body: impl FnMut(Access<'_>) -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    let (mut failure, runs_in) = (None, runs_in(session));
    let outcome = session.load(|tx| attempt(tx, (runs_in, false), &mut failure, &mut body));
    outcome.map_err(|error| reported(error, failure))
}

fn runs_in(session: &Session) -> RunsIn {
    if session.state() == SessionState::Idle { RunsIn::Autocommit } else { RunsIn::Block }
}

/// One attempt of a body, its failure kept aside.
fn attempt<T>(
    tx: &Tx<'_, '_>,
    (runs_in, is_ordinary): (RunsIn, bool),
    failure: &mut Option<SqlError>,
    body: &mut dyn FnMut(Access<'_>) -> Result<T, SqlError>,
) -> heddledb::Result<T> {
    *failure = None;
    // Statements evaluate all rules of the rows that they write.
    tx.set_evaluated();
    body(Access::writes(tx, tx, runs_in).ordinary(is_ordinary)).map_err(|error| {
        if error.is_retryable() {
            return Error::Conflict;
        }
        *failure = Some(error);
        heddledb::fail("a statement failed")
    })
}

/// The error to report for an engine error: the statement's own, if there is one.
fn reported(error: Error, failure: Option<SqlError>) -> SqlError {
    match (error, failure) {
        (Error::Failed { .. }, Some(failure)) => failure,
        (error, _) => SqlError::from(error),
    }
}

/// Runs a statement that only reads on a snapshot: once, beside all transactions.
///
/// # Errors
/// The body's own; the engine's.
pub(crate) fn read<T>(
    database: &Database,
    body: impl FnOnce(Access<'_>) -> Result<T, SqlError>,
) -> Result<T, SqlError> {
    let snapshot = database.snapshot()?;
    body(Access::reads(&snapshot))
}

impl Rows for Snapshot {
    fn get(
        &self,
        table: &Table,
        key: &[ValueRef<'_>],
        columns: Option<&[Column]>,
        each: &mut dyn FnMut(&Row<'_>) -> Result<(), SqlError>,
    ) -> Result<bool, SqlError> {
        // A snapshot never conflicts.
        let _ = columns;
        match Snapshot::get(self, table, key)? {
            Some(row) => each(&row.row()).map(|()| true),
            None => Ok(false),
        }
    }

    fn exists(&self, table: &Table, key: &[ValueRef<'_>]) -> Result<bool, SqlError> {
        Ok(Snapshot::exists(self, table, key)?)
    }

    fn scan<'s>(
        &'s self,
        table: &Table,
        index: Option<&str>,
        range: Range,
        columns: Option<&[Column]>,
    ) -> Result<Box<dyn RowScan + 's>, SqlError> {
        let scan = match index {
            Some(index) => self.scan_index(table, index, range),
            None => Snapshot::scan(self, table, range),
        };
        Ok(Box::new(narrowed(scan?, columns)?))
    }

    fn shared(&self) -> Option<&(dyn SharedRows + Sync)> {
        Some(self)
    }
}

/// A scan that reads only these columns, if some are given.
fn narrowed(scan: SnapshotScan, columns: Option<&[Column]>) -> Result<SnapshotScan, SqlError> {
    match columns {
        Some(columns) => Ok(scan.with_columns(columns.iter().copied())?),
        None => Ok(scan),
    }
}

impl SharedRows for Snapshot {
    fn parts(
        &self,
        table: &Table,
        index: Option<&str>,
        range: Range,
        columns: Option<&[Column]>,
        parts: usize,
    ) -> Result<Vec<Box<dyn RowScan + Send>>, SqlError> {
        let scans = match index {
            Some(index) => self.scan_index_parts(table, index, range, parts),
            None => self.scan_parts(table, range, parts),
        };
        let boxed = |scan| Ok(Box::new(narrowed(scan, columns)?) as Box<dyn RowScan + Send>);
        scans?.into_iter().map(boxed).collect()
    }

    fn as_rows(&self) -> &dyn Rows {
        self
    }
}

impl RowScan for SnapshotScan {
    fn read(&mut self, each: &mut dyn FnMut(&Row<'_>) -> Result<bool, SqlError>) -> Result<bool, SqlError> {
        self.read_while(each)
    }
}
