//! The thread that archives a database while it is open.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::archiver::{Archiver, Step};
use crate::error::{ArchiveError, Result};

/// Interval at which the thread checks whether something is due.
const LOOK: Duration = Duration::from_millis(100);
/// After a failure the next attempt waits this long, then twice as long, and so on.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(200);
/// But not longer.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(10);
/// Limit of the time for which [`Uploader::stop`] uploads what is left.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// The thread `heddle-archive`. It ends when this is stopped or dropped.
#[derive(Debug)]
pub struct Uploader {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Stop {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Uploader {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(mut archiver: Archiver) -> Result<Uploader> {
        let stop = Arc::new(Stop::default());
        let seen = stop.clone();
        let run = move || run(&mut archiver, &seen);
        let thread = thread::Builder::new().name("heddle-archive".to_owned()).spawn(run);
        let thread =
            thread.map_err(|error| ArchiveError::Refused(format!("no thread for the archive: {error}")))?;
        Ok(Uploader { stop, thread: Some(thread) })
    }

    /// Uploads what is durable and not archived, if that is possible, and ends the thread.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        *self.stop.stopped.lock() = true;
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that archives the database has panicked");
        }
    }
}

impl Drop for Uploader {
    fn drop(&mut self) {
        self.end();
    }
}

fn run(archiver: &mut Archiver, stop: &Stop) {
    let mut delay = RETRY_DELAY_MIN;
    let mut was_alarm = false;
    loop {
        let before = archiver.status().failure.is_some();
        let wait = match archiver.step(false) {
            Ok(step) => {
                delay = RETRY_DELAY_MIN;
                if before {
                    tracing::info!("the database is archived again");
                }
                if step == Step::Uploaded { Duration::ZERO } else { LOOK }
            }
            Err(error) => {
                if !before {
                    tracing::warn!(%error, "the database is not archived; it is tried again, and commits go on");
                }
                let wait = delay;
                delay = (delay * 2).min(RETRY_DELAY_MAX);
                wait
            }
        };
        let status = archiver.status();
        if status.alarm && !was_alarm {
            tracing::error!(
                bytes_behind = status.bytes_behind,
                "the archive cannot be reached, and the log is beyond archive_hold_bytes: what is archived will begin again with a \
                 checkpoint"
            );
        }
        was_alarm = status.alarm;
        let mut stopped = stop.stopped.lock();
        if !*stopped && !wait.is_zero() {
            stop.changed.wait_for(&mut stopped, wait);
        }
        if *stopped {
            break;
        }
    }
    flush(archiver);
}

/// Uploads what is left.
fn flush(archiver: &mut Archiver) {
    let deadline = Instant::now() + STOP_TIMEOUT;
    while Instant::now() < deadline {
        match archiver.step(true) {
            Ok(Step::Uploaded) => {}
            Ok(Step::Idle) => return,
            Err(error) => {
                tracing::warn!(%error, "the database ends, and its last commits are not archived");
                return;
            }
        }
    }
    tracing::warn!("the database ends, and its last commits are not archived: there are too many");
}
