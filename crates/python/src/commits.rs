//! Commits that the coroutines of an event loop wait for: one thread for each loop waits for the log, however many they are,
//! and wakes the loop by a pipe.
//!
//! # Invariants
//! - Neither the log's threads nor this one ask for the GIL: the loop itself takes what has ended.
//! - A byte is in the pipe whenever something that has ended was not taken.

use std::fs::File;
use std::future::Future;
use std::io::{Read, Write, pipe};
use std::os::fd::{AsRawFd, OwnedFd};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use heddle_sql::SqlError;
use heddledb::PendingCommit;
use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::errors::exception;

/// The commits that one event loop waits for.
#[pyclass(frozen, module = "heddledb._heddledb")]
pub struct Commits {
    shared: Arc<Shared>,
    reader: File,
}

struct Shared {
    state: Mutex<State>,
    writer: File,
    thread: OnceLock<Thread>,
    is_closed: AtomicBool,
}

#[derive(Default)]
struct State {
    waiting: Vec<(u64, PendingCommit)>,
    /// Numbers and outcomes of the commits that have ended.
    ended: Vec<(u64, heddledb::Result<()>)>,
}

impl Wake for Shared {
    fn wake(self: Arc<Self>) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

impl Commits {
    /// Adds a commit, unless it has ended: then the result is its outcome.
    pub fn add(&self, number: u64, mut commit: PendingCommit) -> Option<heddledb::Result<()>> {
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(outcome) = Pin::new(&mut commit).poll(&mut context) {
            return Some(outcome);
        }
        self.shared.state.lock().waiting.push((number, commit));
        self.shared.clone().wake();
        None
    }
}

impl Shared {
    /// Waits for commits until the loop is gone.
    fn serve(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut context = Context::from_waker(&waker);
        loop {
            // Relaxed: who stores it unparks this thread afterwards.
            if self.is_closed.load(Ordering::Relaxed) {
                return;
            }
            {
                let state = &mut *self.state.lock();
                let before = state.ended.len();
                state.waiting.retain_mut(|(number, commit)| match Pin::new(commit).poll(&mut context) {
                    Poll::Ready(outcome) => {
                        state.ended.push((*number, outcome));
                        false
                    }
                    Poll::Pending => true,
                });
                if before == 0 && !state.ended.is_empty() {
                    // The pipe is empty, or the loop is just about to take: one byte always fits.
                    let _ = (&self.writer).write(&[0]);
                }
            }
            // A commit that was added meanwhile, or has ended, has left its token: this returns at once.
            thread::park();
        }
    }
}

#[pymethods]
impl Commits {
    #[new]
    fn new() -> PyResult<Commits> {
        let (reader, writer) = pipe()?;
        let [reader, writer] = [OwnedFd::from(reader), OwnedFd::from(writer)].map(File::from);
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            writer,
            thread: OnceLock::new(),
            is_closed: AtomicBool::new(false),
        });
        let served = shared.clone();
        let started =
            thread::Builder::new().name("heddle-commits".to_string()).spawn(move || served.serve())?;
        shared.thread.get_or_init(|| started.thread().clone());
        Ok(Commits { shared, reader })
    }

    /// The descriptor that is readable while something has ended.
    fn fileno(&self) -> i32 {
        self.reader.as_raw_fd()
    }

    /// Takes what has ended: the number of each commit, and its error if its durability is unknown. Call it when the
    /// descriptor is readable.
    fn take(&self, py: Python<'_>) -> Vec<(u64, Option<PyErr>)> {
        let ended = py.detach(|| {
            let mut state = self.shared.state.lock();
            if !state.ended.is_empty() {
                let _ = (&self.reader).read(&mut [0; 16]);
            }
            std::mem::take(&mut state.ended)
        });
        let error =
            |outcome: heddledb::Result<()>| outcome.err().map(|error| exception(py, &SqlError::from(error)));
        ended.into_iter().map(|(number, outcome)| (number, error(outcome))).collect()
    }
}

impl Drop for Commits {
    fn drop(&mut self) {
        // Relaxed: see `serve`.
        self.shared.is_closed.store(true, Ordering::Relaxed);
        self.shared.clone().wake();
    }
}
