//! `heddle dump`: a table as CSV, or the whole database as SQL, on standard output.
//!
//! ```text
//! script   the database as a script of SQL     catalog   what the script is made of, read from the system catalogs
//! rights   roles, owners and privileges
//! ```

mod catalog;
mod rights;
mod script;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use heddledb::{Database, Range, Table, Value};

use crate::failure::Result;
use crate::output;

/// Print a table as CSV, or the whole database as SQL.
#[derive(Args)]
#[command(after_help = "\
Examples:
  heddle dump bank.heddle account > account.csv
  heddle dump --sql bank.heddle > bank.sql        psql, and heddle sql -f, run it")]
pub struct Arguments {
    /// The database directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The table
    #[arg(value_name = "TABLE", required_unless_present = "sql", conflicts_with = "sql")]
    table: Option<String>,
    /// A script that creates everything that SQL knows in the database: roles, types, tables with their rows, views
    #[arg(long)]
    sql: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result {
    let Some(table) = &arguments.table else { return script::run(&arguments.directory) };
    let db = crate::check::open(&arguments.directory)?;
    let table = db.table(table)?;
    match write(&db, &table, io::stdout().lock()) {
        Ok(()) => Ok(db.close()?),
        Err(Stopped::Reader(reason)) => output::written(Err(reason)),
        Err(Stopped::Engine(error)) => Err(error.into()),
    }
}

/// Why not all rows were written.
enum Stopped {
    Engine(heddledb::Error),
    Reader(io::Error),
}

impl From<csv::Error> for Stopped {
    fn from(error: csv::Error) -> Self {
        let text = error.to_string();
        match error.into_kind() {
            // The conversion that csv itself offers would hide what kind of error it was.
            csv::ErrorKind::Io(reason) => Stopped::Reader(reason),
            _ => Stopped::Reader(io::Error::other(text)),
        }
    }
}

/// Writes a heading and all rows; NULL is an empty field.
fn write(db: &Database, table: &Table, to: impl Write) -> std::result::Result<(), Stopped> {
    let mut writer = csv::Writer::from_writer(to);
    writer.write_record(table.definition().columns().iter().map(|column| column.name.as_str()))?;
    let snapshot = db.snapshot().map_err(Stopped::Engine)?;
    for row in snapshot.scan(table, Range::all()).map_err(Stopped::Engine)? {
        let row = row.map_err(Stopped::Engine)?;
        writer.write_record(row.to_values().into_iter().map(field))?;
    }
    writer.flush().map_err(Stopped::Reader)
}

fn field(value: Value) -> String {
    match value {
        Value::Null => String::new(),
        other => other.to_string(),
    }
}
