//! `heddle backup` and `heddle restore`: copies of a database, and databases of copies and of archives.

use std::path::PathBuf;

use clap::Args;
use heddledb::{Database, FilesReport, Options};

use crate::bar::Bar;
use crate::failure::{Failure, Result};
use crate::{archive, output};

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

/// Make a database of a backup, or of an archive.
#[derive(Args)]
#[command(after_help = RESTORE_EXAMPLES, override_usage = RESTORE_USAGE)]
pub struct RestoreArguments {
    /// The backup's directory, unless --from names an archive; and the directory for the database: new or empty
    #[arg(value_names = ["FROM", "DIR"], num_args = 1..=2, required = true)]
    directories: Vec<PathBuf>,
    #[command(flatten)]
    archive: archive::Source,
}

const RESTORE_USAGE: &str = "\
heddle restore FROM DIR
       heddle restore --from URL [--to-time TIME | --to-position POSITION] DIR";

const BACKUP_EXAMPLES: &str = "\
The copy holds everything that was durable when the backup began, and a beginning of what came later. It is a database
like any other: heddle check, inspect and dump read it.

Example:
  heddle backup bank.heddle bank-monday.heddle";

const RESTORE_EXAMPLES: &str = "\
A backup is verified first, as heddle check does; nothing is made of one that is damaged. All that is read of an archive is
verified, too; what is damaged or missing is named. heddle archive --help says what an archive's URL may be.

Examples:
  heddle restore bank-monday.heddle bank.heddle
  heddle restore --from /backup/bank bank.heddle
  heddle restore --from s3://backup/bank --to-position 3/117 bank.heddle";

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
    let (from, to) = match (arguments.archive.url(), arguments.directories.as_slice()) {
        (Some(url), [directory]) => return archive::restore(&arguments.archive, url, directory),
        (None, [from, to]) => (from, to),
        _ => {
            let expected =
                "heddle restore takes a backup and a new directory, or --from URL and a new directory";
            return Err(Failure::Usage(expected.to_owned()));
        }
    };
    let bar = Bar::new("verifying the backup");
    let (checked, copied) =
        Database::restore(from, to, Options::default(), &mut |done, total| bar.show(true, done, total))?;
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
