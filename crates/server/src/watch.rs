//! Looks after the database beside its clients: what an operator must know is logged when it happens, without a request.
//!
//! Logged are checkpoints that fail (and the first one that succeeds again), and that commits are refused or accepted again.
//!
//! Concurrency: one thread, `heddle-watch`, which holds no reference to the server between two looks and ends within a look of it.

use std::io;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use heddledb::Database;

use crate::server::Shared;

/// Interval between two looks.
const INTERVAL: Duration = Duration::from_millis(500);

/// State at the last look.
#[derive(Default)]
struct Seen {
    failed: u64,
    made: u64,
    has_failed: bool,
    refused: Option<String>,
}

impl Seen {
    /// Logs what has changed since.
    fn look(&mut self, database: &Database) {
        let checkpoints = database.checkpoints();
        if checkpoints.failed > self.failed {
            let reason = checkpoints.failure.map_or_else(String::new, |failure| failure.to_string());
            tracing::error!(
                failed = checkpoints.failed,
                reason,
                "a checkpoint failed: the older one and all of the log behind it stay in use, and it is tried again"
            );
            self.has_failed = true;
        } else if self.has_failed && checkpoints.made > self.made {
            tracing::info!("a checkpoint has succeeded again");
            self.has_failed = false;
        }
        (self.failed, self.made) = (checkpoints.failed, checkpoints.made);
        // That a standby refuses them is no trouble.
        let refused = database.updates_refused().filter(|_| !database.is_standby());
        let refused = refused.map(|reason| reason.to_string());
        match (&self.refused, &refused) {
            (None, Some(reason)) => tracing::error!(reason, "commits are refused"),
            (Some(_), None) => tracing::info!("commits are accepted again"),
            _ => {}
        }
        self.refused = refused;
    }
}

/// Starts to watch the database that is served.
///
/// # Errors
/// The system refuses the thread.
pub(crate) fn start(shared: &Arc<Shared>) -> io::Result<()> {
    let shared: Weak<Shared> = Arc::downgrade(shared);
    let life = move || {
        let mut seen = Seen::default();
        while let Some(shared) = shared.upgrade().filter(|shared| !shared.has_ended()) {
            if let Some(served) = shared.served.get() {
                seen.look(served.sql.database());
            }
            drop(shared);
            thread::sleep(INTERVAL);
        }
    };
    thread::Builder::new().name("heddle-watch".to_owned()).spawn(life).map(drop)
}
