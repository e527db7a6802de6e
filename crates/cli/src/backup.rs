//! `heddle backup` and `heddle restore`: copies of a database, and databases of copies.

use std::path::PathBuf;

use clap::Args;
use heddledb::{Database, FilesReport, Options};

use crate::bar::Bar;
use crate::failure::Result;
use crate::output;

/// Copy a database, while it runs.
#[derive(Args)]
#[command(after_help = BACKUP_EXAMPLES)]
pub struct BackupArguments {
    /// The database directory; another process may have it open
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Directory for the copy: new or empty
    #[arg(value_name = "TO")]
    to: PathBuf,
}

/// Make a database of a backup.
#[derive(Args)]
#[command(after_help = RESTORE_EXAMPLES)]
pub struct RestoreArguments {
    /// The backup's directory
    #[arg(value_name = "FROM")]
    from: PathBuf,
    /// Directory for the database: new or empty
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

const BACKUP_EXAMPLES: &str = "\
The copy holds everything that was durable when the backup began, and a beginning of what came later. It is a database
like any other: heddle check, inspect and dump read it.

Example:
  heddle backup bank.heddle bank-monday.heddle";

const RESTORE_EXAMPLES: &str = "\
The backup is verified first, as heddle check does; nothing is made of one that is damaged.

Example:
  heddle restore bank-monday.heddle bank.heddle";

/// Runs `heddle backup`.
pub fn back_up(arguments: &BackupArguments) -> Result {
    let bar = Bar::new("reading the log");
    let copied = Database::backup_directory(
        &arguments.directory,
        &arguments.to,
        &Options::default(),
        &mut |done, total| bar.show(true, done, total),
    )?;
    drop(bar);
    output::print(format_args!("backup: {}", described(&copied)))?;
    Ok(())
}

/// Runs `heddle restore`.
pub fn restore(arguments: &RestoreArguments) -> Result {
    let bar = Bar::new("verifying the backup");
    let (checked, copied) =
        Database::restore(&arguments.from, &arguments.directory, Options::default(), &mut |done, total| {
            bar.show(true, done, total)
        })?;
    drop(bar);
    output::print(format_args!("verified: {} rows in {} tables", checked.rows, checked.tables))?;
    output::print(format_args!("restored: {}", described(&copied)))?;
    Ok(())
}

/// Describes the files that were copied or inspected: their number, size and epoch.
pub fn described(files: &FilesReport) -> String {
    let FilesReport { checkpoint, epoch, files, bytes, .. } = files;
    let from = if *checkpoint > 0 { format!("checkpoint {checkpoint} and log") } else { "log".to_owned() };
    format!("{files} files, {bytes} bytes, {from} through epoch {epoch}")
}
