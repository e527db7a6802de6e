//! Random transactions on several threads: what they have seen must be possible one after another.
//!
//! Each history prints its seed if it fails; `HEDDLE_SEED=<n>` runs that one alone. Which transactions meet depends on
//! the machine, so a seed says what they do, not when.

pub mod family;
mod graph;
pub mod race;
pub mod stock;
mod work;

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use heddledb::testing::SimulatedDisk;
use heddledb::{Database, Options};

use self::work::{KEYS, Step, World};
use super::{Subject, seeds};

/// Far longer than a history takes: what needs it hangs.
const LIMIT: Duration = Duration::from_secs(120);

/// Pairs of numbers: of threads, and of transactions that each runs.
const CROWDS: [(u64, usize); 3] = [(1, 20), (2, 45), (8, 12)];

/// Random histories on 1, 2 and 8 threads, in memory and with group commit.
pub fn random(subject: &Subject) {
    for seed in seeds(12) {
        for (threads, each) in CROWDS {
            let logged = seed % 4 == 3;
            let options = subject.options.clone();
            let db = if logged { on_simulated_disk(options) } else { subject.database() };
            let _mover = subject.disturb(&db);
            if let Err(what) = judge(db, subject.labels, seed, threads, each) {
                panic!("HEDDLE_SEED={seed} {}, {threads} threads: {what}", subject.name);
            }
        }
    }
}

fn on_simulated_disk(options: Options) -> Database {
    let disk = Arc::new(SimulatedDisk::new());
    let options =
        options.log(|log| log.buffer_bytes(1 << 18).segment_bytes(1 << 20).waiter_slots(2)).disk(disk);
    Database::open("/db", options).expect("a database")
}

/// Runs one history, and checks it.
///
/// # Errors
/// The impossible thing that was found.
pub fn judge(db: Database, labels: bool, seed: u64, threads: u64, each: usize) -> Result<(), String> {
    let world = Arc::new(World::new(db, labels));
    let (done, finished) = mpsc::channel();
    let workers: Vec<_> = (0..threads)
        .map(|thread| {
            let (world, done) = (world.clone(), done.clone());
            // Not scoped: a thread that finds that it hangs must be able to say so.
            thread::spawn(move || {
                world.work(fastrand::Rng::with_seed(seed << 8 | thread), each);
                let _ = done.send(());
            })
        })
        .collect();
    drop(done);
    for _ in 0..threads {
        match finished.recv_timeout(LIMIT) {
            Ok(()) => {}
            Err(mpsc::RecvTimeoutError::Timeout) => return Err("it hangs".to_string()),
            // A thread panicked: joining tells.
            Err(mpsc::RecvTimeoutError::Disconnected) => break,
        }
    }
    for worker in workers {
        if let Err(panic) = worker.join() {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            return Err(text.unwrap_or_default());
        }
    }
    // A last look at everything, so that what was written last was seen.
    let everything = [Step::Scan(0, KEYS, false), Step::ScanIndex(false)];
    let everything: Vec<_> = everything.into_iter().chain(work::counters().map(Step::Count)).collect();
    world.closure(&everything, false);
    world.snapshot(&everything);
    world.database().check().map_err(|error| error.to_string())?;
    graph::check(&world.events())
}
