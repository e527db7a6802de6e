//! Continuous repartitioning while a database is tested.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use heddledb::Database;

/// Moves ranges between executors until it is dropped.
pub struct Mover {
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Mover {
    /// A mover for this database, if it has several executors.
    pub fn of(db: &Database) -> Mover {
        let boundaries = db.partitions().len().saturating_sub(1);
        let stopped = Arc::new(AtomicBool::new(false));
        let (db, is_stopped) = (db.clone(), stopped.clone());
        let life = move || {
            let mut random = fastrand::Rng::with_seed(7);
            while !is_stopped.load(Ordering::SeqCst) {
                // Often at one of the ends: then some executors own nothing.
                let mut start = || [0.0, 0.5, 1.0, random.f64()][random.usize(0..4)];
                let mut starts: Vec<f64> = (0..boundaries).map(|_| start()).collect();
                starts.sort_unstable_by(f64::total_cmp);
                db.repartition(&starts).expect("the map changes");
                thread::sleep(Duration::from_micros(random.u64(0..200)));
            }
        };
        let thread = (boundaries > 0).then(|| thread::spawn(life));
        Mover { stopped, thread }
    }
}

impl Drop for Mover {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        let thread = self.thread.take();
        // A test that panics because a transaction hangs must not wait for this thread.
        if let Some(thread) = thread.filter(|_| !thread::panicking()) {
            assert!(thread.join().is_ok(), "the mover has died");
        }
    }
}
