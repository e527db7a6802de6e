//! The follower of a benchmark's database: a process of its own, started and ended here.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use heddledb::Database;

use crate::failure::{Failure, Result};

/// Longest wait for it to connect, and for it to exit.
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(5);

/// A running follower; it is killed on drop unless it was waited for.
pub struct Follower {
    process: Child,
}

impl Follower {
    /// Starts a follower of the database in this directory, which waits for it there.
    pub fn start(directory: &Path, socket: &Path) -> Result<Follower> {
        let own = std::env::current_exe().map_err(|error| {
            Failure::Failed(format!("the system does not tell this program's path: {error}"))
        })?;
        let mut command = Command::new(own);
        command.arg("follow").arg(directory).arg("--socket").arg(socket).arg("--once");
        let process = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| Failure::Failed(format!("no follower could be started: {error}")))?;
        Ok(Follower { process })
    }

    /// Waits until the database serves it.
    pub fn wait_until_attached(&mut self, db: &Database) -> Result {
        let start = Instant::now();
        while !db.checkpoints().follower.is_some_and(|follower| follower.attached) {
            if start.elapsed() > PATIENCE || self.process.try_wait()?.is_some() {
                return Err(Failure::Failed("the follower did not come".to_owned()));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Waits for its end, after the database's.
    pub fn end(mut self) -> Result {
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            match self.process.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(Failure::Failed(format!("the follower has failed: {status}"))),
                None => thread::sleep(LOOK),
            }
        }
        Err(Failure::Failed("the follower did not end with its database".to_owned()))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

/// The socket at which a database in this directory waits for the follower of its benchmark.
pub fn socket_in(directory: &Path) -> PathBuf {
    crate::follow::usual_socket(directory)
}
