//! A database as a script of SQL, of one snapshot: what `psql` and `heddle sql -f` run to create it again.
//!
//! Invariants: every name in the script is qualified, so that it means the same whatever the search path is. All of it is
//! read in one transaction.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use heddle_sql::{
    Connection, CopyFormat, CopySource, Environment, Field, ResultSink, Sql, SqlError, SqlState, Value,
};
use heddledb::{Database, Options};

use crate::dump::catalog::{self, Script};
use crate::failure::{Failure, Result};
use crate::output;

/// Head of the script. With its empty search path, every name is looked up in the schema that the script
/// writes.
const HEAD: &str = "\
-- A HeddleDB database.

SET statement_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SET check_function_bodies = false;
SELECT pg_catalog.set_config('search_path', '', false);
SET client_min_messages = warning;
";

/// Prints the database in a directory.
pub(super) fn run(directory: &Path) -> Result {
    if !directory.is_dir() {
        return Err(Failure::Usage(format!("{}: not a directory", directory.display())));
    }
    let db = Database::open(directory, Options::default())?;
    let outcome = print(&db);
    db.close()?;
    outcome
}

fn print(db: &Database) -> Result {
    let sql = Sql::new(db).map_err(reported)?;
    let mut connection = sql.connect(Default::default()).map_err(reported)?;
    connection
        .query(
            "select pg_catalog.set_config('search_path', '', false);
             set datestyle to 'ISO, MDY'; set intervalstyle to postgres; set timezone to 'UTC';
             begin transaction read only",
        )
        .map_err(reported)?;
    let script = catalog::read(&mut connection)?;
    let mut out = Output { to: BufWriter::new(io::stdout().lock()), failure: None };
    let written = write(&mut connection, &script, &mut out);
    match (out.failure.take(), written) {
        (Some(reason), _) => output::written(Err(reason)),
        (None, written) => written,
    }
}

fn write(connection: &mut Connection, script: &Script, out: &mut Output<impl Write>) -> Result {
    out.line(HEAD).map_err(reported)?;
    for statement in &script.before {
        out.line(statement).map_err(reported)?;
    }
    for (table, columns) in &script.tables {
        let columns = columns.join(", ");
        if columns.is_empty() {
            continue;
        }
        out.line(&format!("COPY {table} ({columns}) FROM stdin;")).map_err(reported)?;
        connection.simple_query(&format!("copy {table} ({columns}) to stdout"), out).map_err(reported)?;
        out.line("\\.\n").map_err(reported)?;
    }
    for statement in &script.after {
        out.line(statement).map_err(reported)?;
    }
    out.to.flush().map_err(|error| out.stop(error)).map_err(reported)
}

fn reported(error: SqlError) -> Failure {
    Failure::Failed(error.to_string())
}

/// Destination of the script.
struct Output<W> {
    to: W,
    /// The error after which nothing can be written.
    failure: Option<io::Error>,
}

impl<W: Write> Output<W> {
    fn line(&mut self, text: &str) -> std::result::Result<(), SqlError> {
        writeln!(self.to, "{text}").map_err(|error| self.stop(error))
    }

    fn stop(&mut self, error: io::Error) -> SqlError {
        let stopped = SqlError::new(SqlState::IO_ERROR, format!("cannot write the script: {error}"));
        self.failure = Some(error);
        stopped
    }
}

impl<W: Write> ResultSink for Output<W> {
    fn describe(&mut self, _: &[Field]) -> std::result::Result<(), SqlError> {
        Ok(())
    }

    fn row(&mut self, _: &[Value], _: &dyn Environment) -> std::result::Result<(), SqlError> {
        Ok(())
    }

    fn complete(&mut self, _: &str) -> std::result::Result<(), SqlError> {
        Ok(())
    }

    fn empty(&mut self) {}

    fn suspended(&mut self) {}

    fn copy_in(&mut self, _: CopyFormat, _: usize) -> std::result::Result<&mut dyn CopySource, SqlError> {
        Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "a dump reads no data"))
    }

    fn copy_out(&mut self, _: CopyFormat, _: usize) -> std::result::Result<(), SqlError> {
        Ok(())
    }

    fn copy_data(&mut self, data: &[u8]) -> std::result::Result<(), SqlError> {
        self.to.write_all(data).map_err(|error| self.stop(error))
    }

    fn copy_done(&mut self) -> std::result::Result<(), SqlError> {
        Ok(())
    }
}
