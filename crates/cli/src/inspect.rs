//! `heddle inspect`: what is in a database directory.

use std::path::PathBuf;

use clap::Args;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use heddledb::{Database, Range};

use crate::failure::Result;

/// Show what is in a database directory.
#[derive(Args)]
#[command(after_help = "Example:\n  heddle inspect bank.heddle")]
pub struct Arguments {
    /// The database directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result {
    let db = crate::check::open(&arguments.directory)?;
    println!("{}", tables(&db)?);
    println!("{}", log(&db));
    Ok(db.close()?)
}

fn tables(db: &Database) -> Result<Table> {
    let mut shown = Table::new();
    shown.load_style(UTF8_FULL_CONDENSED).set_header(["table", "columns", "key", "rows"]);
    for table in db.tables() {
        let definition = table.definition();
        let names: Vec<&str> = definition.columns().iter().map(|column| column.name.as_str()).collect();
        let key: Vec<&str> = definition.key().iter().filter_map(|place| names.get(*place).copied()).collect();
        let rows = db.run(|tx| {
            let mut rows: u64 = 0;
            for row in tx.scan(&table, Range::all())? {
                row?;
                rows += 1;
            }
            Ok(rows)
        })?;
        shown.add_row([table.name(), &names.join(", "), &key.join(", "), &rows.to_string()]);
    }
    if let Some(rows) = shown.column_mut(3) {
        rows.set_cell_alignment(CellAlignment::Right);
    }
    Ok(shown)
}

fn log(db: &Database) -> Table {
    let recovery = db.recovery();
    let mut shown = Table::new();
    shown.load_style(UTF8_FULL_CONDENSED);
    let mut line = |what: &str, value: String| {
        shown.add_row([what, &value]);
    };
    line("log segments", recovery.segments.to_string());
    line("log groups", recovery.groups.to_string());
    line("transactions in the log", recovery.transactions.to_string());
    line("log bytes", recovery.bytes.to_string());
    line("last durable epoch", recovery.durable_epoch.to_string());
    if let Some(cut) = &recovery.cut {
        let file = cut.file.display();
        line("torn tail", format!("{} bytes at {} of {file} will be cut off", cut.bytes, cut.offset));
    }
    shown
}
