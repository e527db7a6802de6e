//! `.import`: CSV files into tables, in batches; of a batch that is refused, row by row.

use std::path::Path;

use heddledb_transfer::{Format, Header, Import};

use crate::output;
use crate::sql::shell::Shell;
use crate::transfer::sql_table::{self, Sink};

/// Most rejected rows that are reported one by one.
const REPORTED_MAX: u64 = 20;

/// The outcome of an import.
#[derive(Debug, Default)]
pub struct Imported {
    pub rows: u64,
    pub rejected: u64,
}

/// Imports a file with a heading into the columns that the heading names. `table`: as SQL writes it.
///
/// # Errors
/// The file cannot be read, or is no CSV; what the heading names is not there.
pub fn csv(shell: &mut Shell, file: &Path, table: &str) -> Result<Imported, String> {
    let columns = sql_table::columns(&mut shell.connection, table).map_err(|error| error.to_string())?;
    let names: Vec<String> = columns.into_iter().map(|column| column.name).collect();
    let import = Import::new(Format::Csv).header(Header::Yes);
    let mut records = import.records_of_file(table, &names, file).map_err(|error| error.to_string())?;
    let mut sink = Sink::new(&mut shell.connection, table, &names);
    let mut rejected_rows = 0;
    loop {
        let record = records.next_record().map_err(|error| error.to_string())?;
        let at_end = record.is_none();
        let rejected = match record {
            Some(Ok(record)) => sink.push(record),
            Some(Err(rejected)) => sink.flush().map(|mut before| {
                before.push(rejected);
                before
            }),
            None => sink.flush(),
        };
        for rejected in rejected.map_err(|error| error.to_string())? {
            rejected_rows += 1;
            if rejected_rows <= REPORTED_MAX {
                output::report(rejected);
            }
        }
        if at_end {
            return Ok(Imported { rows: sink.rows, rejected: rejected_rows });
        }
    }
}
