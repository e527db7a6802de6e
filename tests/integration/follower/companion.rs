//! A database and a follower of it in one process, on one simulated disk, joined by a real socket.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use heddledb::testing::Disk;
use heddledb::{Database, Error, FollowerReport, Options};

use crate::checkpoint::journal::DIRECTORY;
use crate::support::split::wait_until;

/// The directory of sockets, as long as this exists.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Place {
        Place(tempfile::tempdir().expect("a directory"))
    }

    pub fn socket(&self) -> PathBuf {
        self.0.path().join("follower.socket")
    }

    /// With this socket.
    pub fn with(&self, options: Options) -> Options {
        options.checkpoints(|checkpoints| checkpoints.follower_socket(self.socket()))
    }

    /// Starts a follower of the usual directory.
    pub fn follow(&self, disk: impl Disk + 'static) -> Companion {
        self.follow_in(DIRECTORY, disk)
    }

    /// Starts a follower that comes again and again, until it is ended.
    pub fn follow_in(&self, directory: &'static str, disk: impl Disk + 'static) -> Companion {
        let goes_on = Arc::new(AtomicBool::new(true));
        let errors: Arc<Mutex<Vec<Error>>> = Arc::default();
        let lives: Arc<Mutex<Vec<FollowerReport>>> = Arc::default();
        let options = self.with(Options::default()).disk(Arc::new(disk));
        let (own, wrong, well) = (goes_on.clone(), errors.clone(), lives.clone());
        let life = move || {
            while own.load(Ordering::SeqCst) {
                match Database::follow(directory, &options, &mut |_| own.load(Ordering::SeqCst)) {
                    Ok(report) => well.lock().expect("no panic").push(report),
                    Err(Error::DatabaseLost { .. }) => {}
                    Err(error) => wrong.lock().expect("no panic").push(error),
                }
                thread::sleep(Duration::from_millis(2));
            }
        };
        Companion { goes_on, errors, lives, thread: thread::spawn(life) }
    }
}

/// A running follower.
pub struct Companion {
    goes_on: Arc<AtomicBool>,
    /// Errors that it has found, apart from a database that did not exist.
    errors: Arc<Mutex<Vec<Error>>>,
    lives: Arc<Mutex<Vec<FollowerReport>>>,
    thread: JoinHandle<()>,
}

impl Companion {
    /// Ends it; what each of its lives has come to that did not end in an error.
    pub fn end(self) -> Vec<FollowerReport> {
        self.goes_on.store(false, Ordering::SeqCst);
        self.thread.join().expect("no panic");
        self.lives.lock().expect("no panic").clone()
    }

    /// The reports of its lives that have ended well.
    pub fn lives(&self) -> Vec<FollowerReport> {
        self.lives.lock().expect("no panic").clone()
    }

    pub fn errors(&self) -> Vec<Error> {
        self.errors.lock().expect("no panic").clone()
    }
}

/// Waits until a follower is there.
pub fn wait_for_follower(db: &Database) {
    wait_until("a follower", || db.checkpoints().follower.is_some_and(|follower| follower.attached));
}

/// Waits until none is there.
pub fn wait_for_its_end(db: &Database) {
    wait_until("no follower", || db.checkpoints().follower.is_some_and(|follower| !follower.attached));
}
