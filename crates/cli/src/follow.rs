//! `heddle follow`: writes the checkpoints of a database that another process has open.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use clap::Args;
use heddledb::{Database, Error, FollowerReport, Options};

use crate::failure::{Failure, Result};
use crate::output;

/// The socket's usual name, in the database's directory.
const SOCKET: &str = "follower.socket";
/// The file that every database directory has.
const MANIFEST: &str = "MANIFEST";
/// Interval between two checks for a database.
const LOOK: Duration = Duration::from_millis(50);

/// Write the checkpoints of a database that another process has open.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    /// The database directory
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Socket at which the database waits for a follower [default: follower.socket in its directory]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// End with the database, instead of waiting until it is opened again
    #[arg(long)]
    once: bool,
    /// Wait for a database that is created later, instead of refusing a directory without one
    #[arg(long)]
    wait: bool,
}

const EXAMPLES: &str = "\
A follower keeps a copy of all data in memory, gets the log from the database over the socket, and writes checkpoints in
its place. It runs on the same machine, and may be started, killed and started again at any time.

Example:
  heddle bench debit-credit --dir bank.heddle --follower-socket bank.heddle/follower.socket
  heddle follow bank.heddle";

/// The default socket at which the database in a directory waits for a follower.
pub fn usual_socket(directory: &Path) -> PathBuf {
    directory.join(SOCKET)
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result {
    let socket = arguments.socket.clone().unwrap_or_else(|| usual_socket(&arguments.directory));
    let options = Options::default().checkpoints(|checkpoints| checkpoints.follower_socket(&socket));
    require_database(arguments)?;
    loop {
        wait_for(&socket);
        match Database::follow(&arguments.directory, &options, &mut |_| true) {
            Ok(report) => tell(&report)?,
            // It was killed, perhaps, and is opened again.
            Err(error @ Error::DatabaseLost { .. }) => output::report(format_args!("heddle: {error}")),
            Err(error) if arguments.once => return Err(error.into()),
            Err(
                error @ (Error::Damaged { .. }
                | Error::MissingFile { .. }
                | Error::Io { .. }
                | Error::TooManyFiles { .. }),
            ) => {
                // What it was to load has been replaced meanwhile, perhaps.
                output::report(format_args!("heddle: {error}"));
            }
            Err(error) => return Err(error.into()),
        }
        if arguments.once {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
}

/// Refuses a path that is no database, unless one is waited for.
fn require_database(arguments: &Arguments) -> Result {
    let directory = &arguments.directory;
    if arguments.wait || directory.join(MANIFEST).exists() {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{} is not a database; give a database's directory, or --wait for one that is created later",
        directory.display()
    )))
}

/// Waits until a database listens.
fn wait_for(socket: &Path) {
    if !socket.exists() {
        output::report(format_args!("waiting for a database that listens at {}", socket.display()));
    }
    while !socket.exists() {
        thread::sleep(LOOK);
    }
}

fn tell(report: &FollowerReport) -> Result {
    let FollowerReport { checkpoints, epoch, redo_bytes, busy, .. } = report;
    let seconds = busy.as_secs_f64();
    output::print(format_args!(
        "followed: {checkpoints} checkpoints, {redo_bytes} bytes of log through epoch {epoch}, busy for {seconds:.3} s"
    ))
}
