//! The lock manager as a whole, with threads that wait.

mod deadlock;
mod gap_locks;
mod grant_order;
mod levels;
mod stress;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::*;

/// Longer than anything here takes on a busy machine: what is not done by then never will be.
const LONG: Duration = Duration::from_secs(60);

const TABLE: u64 = 7;

fn record(key: u64) -> LockName {
    LockName::Record { table: TABLE, key }
}

/// A transaction on a thread of its own, which performs the steps that it is sent.
struct Session {
    commands: Option<Sender<Command>>,
    thread: Option<JoinHandle<()>>,
    manager: Arc<LockManager>,
}

type Command = Box<dyn FnOnce(&LockManager, &mut Locks) + Send>;

/// A command under way.
struct Pending<T>(Receiver<T>);

impl<T> Pending<T> {
    /// What came of it.
    fn result(self) -> T {
        self.0.recv_timeout(LONG).expect("a thread waits for ever")
    }

    fn is_done(&self) -> Option<T> {
        self.0.try_recv().ok()
    }
}

impl Session {
    fn new(manager: &Arc<LockManager>) -> Session {
        let (commands, received) = channel::<Command>();
        let own = Arc::clone(manager);
        let thread = std::thread::spawn(move || {
            let mut locks = Locks::default();
            locks.begin(own.start_timestamp());
            for command in received {
                command(&own, &mut locks);
            }
            own.release(&mut locks);
        });
        let session =
            Session { commands: Some(commands), thread: Some(thread), manager: Arc::clone(manager) };
        // Its start timestamp is before those of sessions made later.
        session.run(|_, _| ());
        session
    }

    fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce(&LockManager, &mut Locks) -> T + Send + 'static,
    ) -> Pending<T> {
        let (done, result) = channel();
        let command: Command = Box::new(move |manager, locks| {
            let _ = done.send(work(manager, locks));
        });
        self.commands.as_ref().expect("it is open").send(command).expect("its thread is there");
        Pending(result)
    }

    fn run<T: Send + 'static>(&self, work: impl FnOnce(&LockManager, &mut Locks) -> T + Send + 'static) -> T {
        self.start(work).result()
    }

    fn lock(&self, name: LockName, mode: Mode) {
        assert_eq!(
            self.run(move |manager, locks| manager.acquire(locks, name, mode, OnConflict::Wait)),
            Ok(())
        );
    }

    /// Asks for what it has to wait for; back once it waits.
    fn wait(&self, name: LockName, mode: Mode) -> Pending<Result<(), Denied>> {
        self.waits(move |manager, locks| manager.acquire(locks, name, mode, OnConflict::Wait))
    }

    fn waits<T: Send + 'static>(
        &self,
        work: impl FnOnce(&LockManager, &mut Locks) -> T + Send + 'static,
    ) -> Pending<T> {
        let before = self.manager.detector.waiting();
        let pending = self.start(work);
        until(|| self.manager.detector.waiting() > before);
        pending
    }

    fn range(&self, low: u8, high: u8) {
        assert_eq!(self.run(range(low, high)), Ok(()));
    }

    fn point(&self, key: u8) {
        assert_eq!(self.run(point(key)), Ok(()));
    }

    fn release(&self) {
        self.run(|manager, locks| manager.release(locks));
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.commands.take();
        // A failed test must not hang here.
        if let Some(thread) = self.thread.take().filter(|_| !std::thread::panicking()) {
            thread.join().expect("the session ends well");
        }
    }
}

/// The claim of a range, both ends included.
fn range(low: u8, high: u8) -> impl FnOnce(&LockManager, &mut Locks) -> Result<(), Denied> + Send {
    move |manager, locks| {
        let bounds = (Bound::Included(&[low][..]), Bound::Included(&[high][..]));
        manager.acquire_range(locks, TABLE, bounds, OnConflict::Wait)
    }
}

/// The claim of a point.
fn point(key: u8) -> impl FnOnce(&LockManager, &mut Locks) -> Result<(), Denied> + Send {
    move |manager, locks| manager.acquire_point(locks, TABLE, &[key], OnConflict::Wait)
}

/// Waits until it is so.
fn until(so: impl Fn() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < LONG, "it never came to it");
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// Runs these on threads of their own, and fails if they don't end.
fn all_within_time(work: Vec<Box<dyn FnOnce() + Send>>) {
    let (done, ended) = channel();
    let threads: Vec<_> = work
        .into_iter()
        .map(|work| {
            let done = done.clone();
            std::thread::spawn(move || {
                work();
                let _ = done.send(());
            })
        })
        .collect();
    drop(done);
    for _ in 0..threads.len() {
        ended.recv_timeout(LONG).expect("a thread failed, or waits for ever");
    }
    threads.into_iter().for_each(|thread| thread.join().expect("it ended"));
}

/// Nothing is left of anything.
fn assert_empty(manager: &LockManager) {
    assert_eq!(manager.in_use(), (0, 0, 0));
}

fn setup(sessions: usize) -> (Arc<LockManager>, Vec<Session>) {
    let manager = Arc::new(LockManager::new());
    let sessions = (0..sessions).map(|_| Session::new(&manager)).collect();
    (manager, sessions)
}
