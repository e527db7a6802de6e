//! The sequences of a database that are in use, and the thread that reserves their values.
//!
//! A sequence's record says where it resumes after a crash. The thread raises that ahead of the values given, in
//! transactions of its own, and lets values be given once they are durable: so a caller that takes a value neither
//! waits for the log nor commits anything, as long as the reservations last.
//!
//! Concurrency: a sequence's state has a lock of its own, which is never held while something is written.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::definition::SequenceDefinition;
use super::sequence_state::{Request, State, Taken};
use crate::error::{Error, Result};
use crate::pipeline::engine::Engine;
use crate::pipeline::execute::{Body, execute_here};
use crate::pipeline::nesting;
use crate::protocol::attempt::Attempt;
use crate::storage::catalog;
use crate::table::Table;
use crate::transaction::Tx;
use crate::types::ValueRef;

/// Into how many parts a cached sequence's values are divided: threads meet in one only by chance.
const SHARDS: usize = 32;

/// Interval at which the thread checks whether a reservation is durable.
const LOOK: Duration = Duration::from_micros(200);

/// The sequences of a database that are in use.
#[derive(Default)]
pub(crate) struct Sequences {
    pub(super) open: Mutex<HashMap<String, Arc<SequenceCore>>>,
    /// Held while a sequence is made, put in use or dropped: between its record and its entry in `open`, no other thread looks at one
    /// of the two alone.
    pub(super) change: Mutex<()>,
    work: Mutex<Work>,
    wanted: Condvar,
}

#[derive(Default)]
struct Work {
    queue: VecDeque<Arc<SequenceCore>>,
    is_running: bool,
    is_stopped: bool,
}

/// One sequence.
pub(super) struct SequenceCore {
    pub(super) definition: SequenceDefinition,
    state: Mutex<State>,
    changed: Condvar,
    /// Values that threads have taken ahead; empty if one value is taken at a time.
    shards: Box<[CachePadded<Mutex<Shard>>]>,
}

/// Values that threads have taken ahead.
#[derive(Default)]
struct Shard {
    next: i64,
    left: u64,
    /// Number of times that the sequence had been set when they were taken.
    sets: u64,
}

impl SequenceCore {
    pub(super) fn new(definition: SequenceDefinition, state: State) -> Arc<SequenceCore> {
        let shards = if definition.cached() > 1 { SHARDS } else { 0 };
        let shards = (0..shards).map(|_| CachePadded::default()).collect();
        Arc::new(SequenceCore { definition, state: Mutex::new(state), changed: Condvar::new(), shards })
    }

    /// The next value.
    pub(super) fn next(self: &Arc<Self>, sequences: &Sequences) -> Result<i64> {
        if self.shards.is_empty() {
            return self.take(sequences, 1).map(|(first, _, _)| first);
        }
        let mut shard = self.shards[thread_number() % SHARDS].lock();
        if shard.left == 0 || shard.sets != self.state.lock().sets {
            let (next, left, sets) = self.take(sequences, self.definition.cached().into())?;
            *shard = Shard { next, left, sets };
        }
        let value = shard.next;
        shard.left -= 1;
        if let Some(next) = self.definition.advance(value, 1).1 {
            shard.next = next;
        }
        Ok(value)
    }

    /// Takes values: the first one, how many, and how often the sequence had been set.
    fn take(self: &Arc<Self>, sequences: &Sequences, wanted: u64) -> Result<(i64, u64, u64)> {
        let mut state = self.state.lock();
        loop {
            if let Some(closed) = &state.closed {
                return Err(closed.clone());
            }
            match state.take(&self.definition, wanted) {
                Taken::Values { first, count } => {
                    if state.is_low() {
                        // These values are reserved; what cannot be asked for now is asked for when they are given.
                        let _ = self.request(sequences, &mut state, Request::Extend);
                    }
                    return Ok((first, count, state.sets));
                }
                Taken::Exhausted => {
                    let sequence = self.definition.name.clone();
                    return Err(Error::SequenceExhausted { sequence });
                }
                Taken::Empty => {
                    state.grow();
                    state = self.wait_for(sequences, state, Request::Extend)?;
                }
            }
        }
    }

    /// Sets the next value.
    pub(super) fn set(self: &Arc<Self>, sequences: &Sequences, value: i64) -> Result<()> {
        let mut state = self.state.lock();
        let before = state.sets;
        while !state.is_set_to(value) && (state.sets == before || state.last_set != Some(value)) {
            if let Some(closed) = &state.closed {
                return Err(closed.clone());
            }
            state = self.wait_for(sequences, state, Request::Set(value))?;
        }
        Ok(())
    }

    /// Makes a request, and waits until it is served or has failed. A body does not wait, because it may hold what the
    /// request needs: it is retried.
    fn wait_for<'c>(
        self: &'c Arc<Self>,
        sequences: &Sequences,
        mut state: MutexGuard<'c, State>,
        request: Request,
    ) -> Result<MutexGuard<'c, State>> {
        if let Some(error) = state.error.take() {
            return Err(error);
        }
        if state.request.is_none() && (!state.is_writing || request != Request::Extend) {
            self.request(sequences, &mut state, request)?;
        }
        if nesting::check("a wait").is_err() {
            return Err(nesting::conflict());
        }
        self.changed.wait(&mut state);
        Ok(state)
    }

    fn request(self: &Arc<Self>, sequences: &Sequences, state: &mut State, request: Request) -> Result<()> {
        let mut work = sequences.work.lock();
        if work.is_stopped {
            return Err(Error::Closed);
        }
        state.request = Some(request);
        work.queue.push_back(self.clone());
        sequences.wanted.notify_one();
        Ok(())
    }

    /// The value that would be given next, if there is one.
    pub(super) fn peek(&self) -> Option<i64> {
        self.state.lock().peek()
    }

    /// Gives nothing any more.
    pub(super) fn close(&self, why: Error) {
        self.state.lock().closed = Some(why);
        self.changed.notify_all();
    }

    /// Serves the request.
    fn serve(&self, sequences: &Sequences, engine: &Engine) {
        let mut state = self.state.lock();
        let Some(reservation) = state.reservation(&self.definition) else { return };
        state.is_writing = true;
        drop(state);
        let written = write(engine, &self.definition.name, reservation.resume)
            .and_then(|epoch| sequences.wait_until_durable(engine, epoch));
        let mut state = self.state.lock();
        state.is_writing = false;
        match written {
            Ok(()) => state.reserved(reservation),
            Err(error) => state.error = Some(error),
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Writes the next value, so that the sequence continues with it when the database is opened again.
    fn give_back(&self, engine: &Engine) {
        let mut state = self.state.lock();
        state.closed.get_or_insert(Error::Closed);
        let given_back = state.given_back();
        drop(state);
        self.changed.notify_all();
        if let Some(next) = given_back {
            // What cannot be written leaves a gap.
            let _ = write(engine, &self.definition.name, next);
        }
    }
}

impl Sequences {
    /// Starts the thread that reserves values, unless it runs or the database is being closed.
    ///
    /// # Errors
    /// Those of `start`.
    pub(crate) fn start(&self, start: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut work = self.work.lock();
        if !work.is_running && !work.is_stopped {
            start()?;
            work.is_running = true;
        }
        Ok(())
    }

    /// The life of that thread.
    pub(crate) fn run(&self, engine: &Engine) {
        loop {
            let mut work = self.work.lock();
            while work.queue.is_empty() && !work.is_stopped {
                self.wanted.wait(&mut work);
            }
            let Some(core) = work.queue.pop_front() else { break };
            drop(work);
            core.serve(self, engine);
        }
        let open: Vec<_> = self.open.lock().values().cloned().collect();
        open.iter().for_each(|core| core.give_back(engine));
    }

    /// Waits until an epoch is durable; not forever where the log waits for a disk that is full, and the database is
    /// being closed.
    fn wait_until_durable(&self, engine: &Engine, epoch: u64) -> Result<()> {
        let context = Context::from_waker(Waker::noop());
        loop {
            match engine.progress().poll(epoch, &context) {
                Poll::Ready(durable) => return durable,
                Poll::Pending if self.work.lock().is_stopped => return Err(Error::Closed),
                Poll::Pending => thread::sleep(LOOK),
            }
        }
    }

    /// Ends that thread, once it has done what is requested.
    pub(crate) fn close(&self) {
        self.work.lock().is_stopped = true;
        self.wanted.notify_all();
    }
}

/// A number of the running thread.
fn thread_number() -> usize {
    use std::cell::Cell;

    use crate::base::atomics::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    thread_local! {
        static NUMBER: Cell<usize> = const { Cell::new(0) };
    }
    if NUMBER.get() == 0 {
        // Relaxed: any number will do.
        NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

/// Writes where a sequence resumes.
struct Write<'w> {
    table: &'w Table,
    name: &'w str,
    resume: Option<i64>,
}

impl Body for Write<'_> {
    fn run(&mut self, attempt: &Attempt<'_>) -> Result<()> {
        let key = [ValueRef::from(self.name)];
        Tx::new(attempt).update(self.table, key, &[("resume_at", self.resume.into())])
    }

    fn code(&self) -> usize {
        <Self as Body>::run as *const () as usize
    }
}

/// Commits where a sequence resumes. The epoch that must be durable then.
fn write(engine: &Engine, name: &str, resume: Option<i64>) -> Result<u64> {
    let table = engine.store().table(catalog::SEQUENCES).ok_or(Error::Closed)?;
    let mut body = Write { table: &Table::new(table), name, resume };
    let outcome = execute_here(engine, &mut body, false);
    engine.notify_log();
    match outcome.failure {
        None => Ok(outcome.epoch),
        Some(error) => Err(*error),
    }
}
