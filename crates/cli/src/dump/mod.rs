//! `heddle dump`: a table as CSV, or the whole database as SQL, on standard output.
//!
//! ```text
//! script   the database as a script of SQL     catalog   what the script is made of, read from the system catalogs
//! rights   roles, owners and privileges     settings   options of relations and columns
//! ```

mod catalog;
mod rights;
mod script;
mod settings;

use std::path::PathBuf;

use clap::Args;
use heddledb_transfer::{Export, Format};

use crate::failure::Result;
use crate::transfer;

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
    transfer::export::to_output(&db, table, &Export::new(Format::Csv))?;
    Ok(db.close()?)
}
