//! Continuous changes of the protocol and of the schedule while a database is tested.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use heddledb::{Database, ProtocolKind, ScheduleKind};

/// Puts one protocol, or one schedule, after the other in force, until it is dropped.
pub struct Changer {
    stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Changer {
    /// For this database, whose protocol must not be `partitioned`, and which has a partition key.
    pub fn of(db: &Database) -> Changer {
        let stopped = Arc::new(AtomicBool::new(false));
        let (db, is_stopped) = (db.clone(), stopped.clone());
        let life = move || {
            let kinds: Vec<ProtocolKind> =
                ProtocolKind::ALL.iter().copied().filter(|kind| *kind != ProtocolKind::Partitioned).collect();
            let mut random = fastrand::Rng::with_seed(7);
            // At least once, also where the test is over before this thread has run.
            loop {
                let kind = kinds[random.usize(0..kinds.len())];
                db.set_protocol(kind).expect("a protocol that can be changed");
                assert_eq!(db.protocol(), kind, "nothing else changes it");
                let schedule = ScheduleKind::ALL[random.usize(0..ScheduleKind::ALL.len())];
                db.set_schedule(schedule).expect("a schedule that can be changed");
                assert_eq!(db.schedule_kind(), schedule, "nothing else changes it");
                if is_stopped.load(Ordering::SeqCst) {
                    return;
                }
                thread::sleep(Duration::from_micros(random.u64(0..4_000)));
            }
        };
        Changer { stopped, thread: Some(thread::spawn(life)) }
    }
}

impl Drop for Changer {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        // A test that panics because a transaction hangs must not wait for this thread.
        if let Some(thread) = self.thread.take().filter(|_| !thread::panicking()) {
            thread.join().expect("every change was made");
        }
    }
}
