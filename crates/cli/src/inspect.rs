//! `heddle inspect`: what is in a database directory.

use std::path::{Path, PathBuf};

use clap::Args;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use heddledb::Database;

use crate::failure::Result;
use crate::output;

/// Show what is in a database directory.
#[derive(Args)]
#[command(after_help = "Example:\n  heddle inspect bank.heddle")]
pub struct Arguments {
    /// The database directory; of one that another process has open, what is durable now
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result {
    let opened = crate::check::open_beside(&arguments.directory)?;
    output::print(tables(opened.database()))?;
    output::print(log(opened.database()))?;
    opened.close()
}

fn tables(db: &Database) -> Table {
    let mut shown = Table::new();
    shown.load_style(UTF8_FULL_CONDENSED).set_header([
        "table",
        "columns",
        "key",
        "rows",
        "bytes per row",
        "of indexes",
    ]);
    for table in db.tables() {
        let definition = table.definition();
        let names: Vec<&str> = definition.columns().iter().map(|column| column.name.as_str()).collect();
        let key: Vec<&str> = definition.key().iter().filter_map(|place| names.get(*place).copied()).collect();
        let memory = table.memory();
        let per_row = |bytes| format!("{:.0}", memory.per_row(bytes));
        shown.add_row([
            table.name(),
            &names.join(", "),
            &key.join(", "),
            &memory.rows.to_string(),
            &per_row(memory.all_row_bytes()),
            &per_row(memory.index_bytes()),
        ]);
    }
    for column in 3..=5 {
        if let Some(numbers) = shown.column_mut(column) {
            numbers.set_cell_alignment(CellAlignment::Right);
        }
    }
    shown
}

fn log(db: &Database) -> Table {
    let recovery = db.recovery();
    let mut shown = Table::new();
    shown.load_style(UTF8_FULL_CONDENSED);
    let mut line = |what: &str, value: String| {
        shown.add_row([what, &value]);
    };
    if recovery.checkpoint > 0 {
        line("checkpoint", recovery.checkpoint.to_string());
        let (records, bytes) = (recovery.checkpoint_records, recovery.checkpoint_bytes);
        line("its content", format!("{records} records, {bytes} bytes"));
    }
    if let Some(why) = &recovery.passed_over {
        line("passed over", why.clone());
    }
    if let Some((segments, bytes)) = db.log_directory().and_then(|log| segments(&log)) {
        line("log segments", format!("{segments} files, {bytes} bytes"));
    }
    line("log groups", recovery.groups.to_string());
    line("transactions in the log", recovery.transactions.to_string());
    line("redo bytes", recovery.bytes.to_string());
    line("recovery", recovery.to_string());
    line("last durable epoch", recovery.durable_epoch.to_string());
    if let Some(position) = recovery.last_position {
        line(
            "end of the log",
            format!("position {position}: term {}, epoch {}", position.term(), position.epoch()),
        );
        let time = recovery.last_time.map(|time| time.to_string());
        line(
            "time of its last group",
            time.unwrap_or_else(|| "none: it is from before log format 3".to_string()),
        );
    }
    if let Some(cut) = &recovery.cut {
        line("torn tail", cut.clone());
    }
    shown
}

/// The number of the log's segments and their total length. `None` if the directory can't be read (any more).
fn segments(log: &Path) -> Option<(u64, u64)> {
    let (mut segments, mut bytes) = (0, 0);
    for entry in std::fs::read_dir(log).ok()? {
        let entry = entry.ok()?;
        if entry.path().extension().is_some_and(|extension| extension == "log") {
            segments += 1;
            bytes += entry.metadata().ok()?.len();
        }
    }
    Some((segments, bytes))
}
