//! The input stage: checks a call's arguments, works out its footprint, and chooses the worker's queue.

use std::sync::Arc;
use std::time::Instant;

use crate::base::atomics::{AtomicUsize, Ordering};
use crate::error::{Error, Result};
use crate::pipeline::call::{Answer, Call, Routine};
use crate::pipeline::engine::Engine;
use crate::pipeline::execute::work_out_footprint;
use crate::pipeline::partition::Executors;
use crate::pipeline::queue::HandoverQueue;
use crate::pipeline::statistics::Stage;
use crate::protocol::footprint::Footprint;
use crate::types::Args;

/// A call as it came in.
pub(crate) struct Arrived {
    pub(crate) routine: Arc<dyn Routine>,
    pub(crate) args: Args,
    pub(crate) answer: Arc<Answer>,
}

/// The way in: the workers' queues, and the input threads' if there are any.
pub(crate) struct Input {
    workers: Vec<Arc<HandoverQueue<Call>>>,
    /// Who runs calls instead of the workers, if the protocol wants it so.
    executors: Option<Arc<Executors>>,
    staged: Option<HandoverQueue<Arrived>>,
    next: AtomicUsize,
}

impl Input {
    /// `staged`: whether threads of their own prepare calls.
    pub(crate) fn new(workers: usize, staged: bool, executors: Option<Arc<Executors>>) -> Input {
        let workers = if executors.is_some() { 0 } else { workers };
        Input {
            workers: (0..workers).map(|_| Arc::new(HandoverQueue::new())).collect(),
            executors,
            staged: staged.then(HandoverQueue::new),
            next: AtomicUsize::new(0),
        }
    }

    /// The workers' queues.
    pub(crate) fn workers(&self) -> &[Arc<HandoverQueue<Call>>] {
        &self.workers
    }

    /// Who runs calls instead of the workers, if the protocol wants it so.
    pub(crate) fn executors(&self) -> Option<&Arc<Executors>> {
        self.executors.as_ref()
    }

    /// Takes a call in: on the caller's thread, or by the input threads.
    ///
    /// # Errors
    /// The arguments don't fit; or the database has been closed.
    pub(crate) fn submit(&self, arrived: Arrived) -> Result<()> {
        let open = match &self.staged {
            Some(queue) => queue.push(arrived),
            None => self.hand_over(prepare(arrived)?),
        };
        if open { Ok(()) } else { Err(Error::Closed) }
    }

    fn hand_over(&self, call: Call) -> bool {
        match &self.executors {
            Some(executors) => executors.submit(call.into()),
            None => self.next_queue().push(call),
        }
    }

    /// Calls go around the workers: every worker can run every call.
    fn next_queue(&self) -> &HandoverQueue<Call> {
        // Relaxed: only a fair share matters.
        let next = if self.workers.len() == 1 { 0 } else { self.next.fetch_add(1, Ordering::Relaxed) };
        &self.workers[next % self.workers.len()]
    }

    /// Gives calls that have been prepared already to the workers. If these take no more, because the database is being
    /// closed, that is the calls' answer.
    pub(crate) fn append_to_workers(&self, engine: &Engine, calls: &mut Vec<Call>) {
        let share = calls.len().div_ceil(self.workers.len()).max(1);
        while !calls.is_empty() {
            let mut part: Vec<Call> = calls.drain(..share.min(calls.len())).collect();
            if !self.next_queue().append(&mut part) {
                part.iter().for_each(|call| refuse(engine, &call.answer, Error::Closed));
            }
        }
    }

    /// No more calls come in; the input threads end when theirs are prepared.
    pub(crate) fn close(&self) {
        if let Some(queue) = &self.staged {
            queue.close();
        }
    }

    /// No more calls come to the workers.
    pub(crate) fn close_workers(&self) {
        self.workers.iter().for_each(|queue| queue.close());
        if let Some(executors) = &self.executors {
            executors.close();
        }
    }

    /// Hand-overs to the workers, and the calls handed over.
    pub(crate) fn handovers(&self) -> (u64, u64) {
        let workers = self.workers.iter().map(|queue| queue.handovers());
        let all = workers.chain(self.executors.iter().map(|executors| executors.handovers()));
        all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// The life of an input thread.
    pub(crate) fn run(&self, engine: &Engine) {
        let Some(queue) = &self.staged else { return };
        let mut group = Vec::new();
        let mut ready = Vec::new();
        loop {
            queue.take(usize::MAX, &mut group);
            if group.is_empty() {
                return;
            }
            let start = Instant::now();
            for arrived in group.drain(..) {
                let answer = arrived.answer.clone();
                match prepare(arrived) {
                    Ok(call) if self.executors.is_none() => ready.push(call),
                    Ok(call) => {
                        if !self.hand_over(call) {
                            refuse(engine, &answer, Error::Closed);
                        }
                    }
                    Err(error) => refuse(engine, &answer, error),
                }
            }
            if !ready.is_empty() {
                self.next_queue().append(&mut ready);
            }
            engine.clocks().add(Stage::Input, start);
        }
    }
}

/// Ends a call that was let in, and never came to a worker.
fn refuse(engine: &Engine, answer: &Answer, error: Error) {
    if let Some(waiting) = answer.give(Err(error)) {
        waiting.unpark();
    }
    engine.in_flight().leave();
}

fn prepare(arrived: Arrived) -> Result<Call> {
    let Arrived { routine, args, answer } = arrived;
    let mut footprint = Footprint::default();
    work_out_footprint(&*routine, &args, &mut footprint)?;
    Ok(Call { routine, args, footprint, answer, stashed: None })
}
