//! `heddle export`: a table into a file.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use heddledb::Database;
use heddledb_transfer::{Error, Export, write_file};

use super::{FormatName, file_of, format_of, sql_table};
use crate::failure::{Failure, Result};
use crate::output;

/// Write a table as a CSV, JSON or Parquet file.
#[derive(Args)]
#[command(after_help = "\
Examples:
  heddle export shop.heddle item items.parquet
  heddle export shop.heddle item --format json | head")]
pub struct Arguments {
    /// The database directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The table
    #[arg(value_name = "TABLE")]
    table: String,
    /// The file [default: standard output]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The file's format [default: what its name ends in; on standard output csv]
    #[arg(long, value_enum)]
    format: Option<FormatName>,
    /// Leave the names of the columns out of CSV
    #[arg(long)]
    no_header: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result {
    let file = arguments.file.as_deref().and_then(file_of);
    let export = Export::new(format_of(arguments.format, file)?).header(!arguments.no_header);
    let db = crate::check::open(&arguments.directory)?;
    match file {
        None => to_output(&db, &arguments.table, &export)?,
        Some(path) => {
            let mut is_open = false;
            let written = write_file(path, |file| {
                is_open = true;
                Ok(write(&db, &arguments.table, &export, file)??)
            });
            // A file that cannot even be opened was the wrong path.
            let rows = written.map_err(|failure: Failure| match is_open {
                true => failure,
                false => Failure::Usage(failure.to_string()),
            })?;
            output::print(format_args!("{rows} rows exported"))?;
        }
    }
    Ok(db.close()?)
}

/// Writes a table to standard output. A reader that stops early is no error.
pub fn to_output(db: &Database, table: &str, export: &Export) -> Result {
    match write(db, table, export, io::stdout())? {
        Err(Error::Io(reason)) => output::written(Err(reason)),
        other => Ok(other.map(drop)?),
    }
}

/// Writes a table, and says how many rows it has.
fn write(
    db: &Database,
    table: &str,
    export: &Export,
    to: impl Write + Send,
) -> Result<heddledb_transfer::Result<u64>> {
    Ok(match sql_table::connection(db, table)? {
        Some(mut connection) => sql_table::export(&mut connection, table, export, to),
        None => export.run(db, &db.table(table)?, to).map(|report| report.rows),
    })
}
