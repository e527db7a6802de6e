//! `heddle export`: a table into a file.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use heddledb::Database;
use heddledb_transfer::{Error, Export};

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
        None => {
            table(&db, &arguments.table, &export, io::stdout())?;
        }
        Some(path) => {
            let file =
                File::create(path).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))?;
            let rows = table(&db, &arguments.table, &export, &file)?;
            file.sync_all()?;
            output::print(format_args!("{rows} rows exported"))?;
        }
    }
    Ok(db.close()?)
}

/// Writes a table, and says how many rows it has. A reader that stops early is no error.
pub fn table(db: &Database, table: &str, export: &Export, to: impl Write + Send) -> Result<u64> {
    let written = match sql_table::connection(db, table)? {
        Some(mut connection) => sql_table::export(&mut connection, table, export, to),
        None => export.run(db, &db.table(table)?, to).map(|report| report.rows),
    };
    match written {
        Err(Error::Io(reason)) if reason.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        other => Ok(other?),
    }
}
