//! The output stage: holds results until their epochs are durable, and gives them to their callers.
//!
//! Invariants: a result is released only once the log is durable through the highest epoch that its call met, and
//! every result is eventually released: either the log stage finds it here when it has made an epoch durable, or the
//! thread that puts it here finds that its epoch has become durable in the meantime. After a failed log, results of
//! durable data are released, and all others are "unknown".

use std::sync::Arc;

use parking_lot::Mutex;

use crate::diagnostics::work_time::WorkTime;
use crate::error::Result;
use crate::pipeline::call;
use crate::pipeline::call::{Answer, wake};
use crate::pipeline::engine::Engine;
use crate::pipeline::handover_queue::HandoverQueue;
use crate::pipeline::statistics::Stage;

/// A call that has ended, and whose result is not released yet.
pub(crate) struct Finished {
    pub(crate) answer: Arc<Answer>,
    pub(crate) epoch: u64,
    pub(crate) result: Result<call::Output>,
}

/// Results that wait, and those that are on their way to the output threads.
pub(crate) struct Output {
    pending: Mutex<Vec<Finished>>,
    /// The queue of output threads; `None`: a thread that releases also delivers.
    staged: Option<HandoverQueue<Finished>>,
}

impl Output {
    /// `staged`: whether threads of their own deliver.
    pub(crate) fn new(staged: bool) -> Output {
        Output { pending: Mutex::new(Vec::new()), staged: staged.then(HandoverQueue::new) }
    }

    /// The output threads' queue.
    pub(crate) fn queue(&self) -> Option<&HandoverQueue<Finished>> {
        self.staged.as_ref()
    }

    /// Takes over a group's results.
    pub(crate) fn put(&self, engine: &Engine, finished: &mut Vec<Finished>) {
        let mut reported: Vec<Finished> = Vec::new();
        let waiting = finished.extract_if(.., |one| !engine.progress().is_released(one.epoch));
        let mut waiting: Vec<Finished> = waiting.collect();
        reported.append(finished);
        if !waiting.is_empty() {
            let lowest = waiting.iter().map(|one| one.epoch).min().unwrap_or(0);
            self.pending.lock().append(&mut waiting);
            // The log may have published between our first look and the append: then no other thread releases these.
            if engine.progress().is_released(lowest) || engine.progress().failure().is_some() {
                self.release(engine);
            }
        }
        self.report(engine, reported);
    }

    /// Tells every result whose epoch is durable; all of them, if the log has failed.
    pub(crate) fn release(&self, engine: &Engine) {
        let failure = engine.progress().failure();
        let mut pending = self.pending.lock();
        let mut reported: Vec<Finished> = pending
            .extract_if(.., |one| failure.is_some() || engine.progress().is_released(one.epoch))
            .collect();
        drop(pending);
        if let Some(failure) = failure {
            for one in reported.iter_mut().filter(|one| !engine.progress().is_released(one.epoch)) {
                one.result = Err(failure.clone());
            }
        }
        self.report(engine, reported);
    }

    fn report(&self, engine: &Engine, mut reported: Vec<Finished>) {
        if reported.is_empty() {
            return;
        }
        match &self.staged {
            Some(queue) if queue.append(&mut reported) => {}
            _ => deliver(engine, reported.drain(..)),
        }
    }
}

/// Gives results to their callers.
fn deliver(engine: &Engine, finished: impl Iterator<Item = Finished>) {
    let mut sleepers = Vec::new();
    for one in finished {
        if let Some(thread) = one.answer.give(one.result) {
            sleepers.push((one.answer, thread));
        }
        engine.in_flight().leave();
    }
    wake(sleepers);
}

/// The life of an output thread.
pub(crate) fn run(engine: &Engine) {
    let Some(queue) = engine.output().queue() else { return };
    let mut group = Vec::new();
    loop {
        queue.take(usize::MAX, &mut group);
        if group.is_empty() {
            return;
        }
        let work = WorkTime::begin();
        deliver(engine, group.drain(..));
        engine.clocks().add(Stage::Output, work);
    }
}
