//! The input stage: checks a call's arguments, computes its footprint, and lets the schedule choose the worker's queue.
//!
//! All this precedes execution because the schedule needs the footprint, and because a call with wrong arguments must
//! not reach a worker. It is done on the caller's thread, or, if the stages are `Staged`, by input threads, which take
//! it off the callers. Where the protocol has executors, a call enters their queues instead of the workers'.

use std::sync::Arc;

use crate::base::atomics::{AtomicUsize, Ordering};
use crate::diagnostics::work_time::WorkTime;
use crate::error::{Error, Result};
use crate::pipeline::call::{Answer, Call, Output, Routine};
use crate::pipeline::caller_run::execute_call;
use crate::pipeline::engine::Engine;
use crate::pipeline::execute::{Outcome, compute_footprint, keep_panics_in};
use crate::pipeline::handover_queue::HandoverQueue;
use crate::pipeline::partition::Executors;
use crate::pipeline::statistics::Stage;
use crate::pipeline::work_queues::{Put, Sharing, WorkQueues};
use crate::protocol::footprint::Footprint;
use crate::schedule::in_force::Schedules;
use crate::schedule::reference::References;
use crate::schedule::{Placement, Schedule, ScheduleKind, Wanted};
use crate::types::Args;

/// A call as it came in.
pub(crate) struct Arrived {
    pub(crate) routine: Arc<dyn Routine>,
    pub(crate) args: Args,
    pub(crate) answer: Arc<Answer>,
}

/// The way in: the workers' queues, and the input threads' if there are any.
pub(crate) struct Input {
    workers: WorkQueues<Call>,
    /// Executors that run calls instead of the workers; `None` if the protocol has none.
    executors: Option<Arc<Executors>>,
    staged: Option<HandoverQueue<Arrived>>,
    /// True if a caller that waits may run its call in the place of an idle worker.
    callers_run: bool,
    schedules: Schedules,
    partition_key: Option<String>,
    next: AtomicUsize,
}

impl Input {
    /// `staged`: whether threads of their own prepare calls. `callers_run`: whether a caller that waits may run its call.
    pub(crate) fn new(
        workers: usize,
        (staged, callers_run): (bool, bool),
        sharing: Option<Sharing>,
        (schedules, partition_key): (Schedules, Option<String>),
        executors: Option<Arc<Executors>>,
    ) -> Input {
        let workers = if executors.is_some() { 0 } else { workers };
        Input {
            workers: WorkQueues::new(workers, sharing),
            executors,
            staged: staged.then(HandoverQueue::new),
            callers_run,
            schedules,
            partition_key,
            next: AtomicUsize::new(0),
        }
    }

    /// Returns true if dedicated threads prepare calls.
    pub(crate) fn is_staged(&self) -> bool {
        self.staged.is_some()
    }

    /// The workers' queues.
    pub(crate) fn workers(&self) -> &WorkQueues<Call> {
        &self.workers
    }

    /// Executors that run calls instead of the workers; `None` if the protocol has none.
    pub(crate) fn executors(&self) -> Option<&Arc<Executors>> {
        self.executors.as_ref()
    }

    /// The schedule in force, which chooses a call's queue.
    #[inline]
    pub(crate) fn schedule(&self) -> &Schedule {
        self.schedules.get()
    }

    /// The column by whose value the schedule `partition` places calls.
    pub(crate) fn partition_key(&self) -> Option<&str> {
        self.partition_key.as_deref()
    }

    /// Returns true if a call's footprint decides where it runs.
    pub(crate) fn uses_footprints(&self) -> bool {
        self.executors.is_some() || !matches!(self.schedule(), Schedule::Random)
    }

    /// Takes a call in: on the caller's thread, or by the input threads.
    ///
    /// # Errors
    /// The arguments don't fit; the database has been closed; the queue is full, and the caller does not wait.
    pub(crate) fn submit(&self, arrived: Arrived, waits: bool) -> Result<()> {
        let open = match &self.staged {
            Some(queue) => queue.push(arrived),
            None => self.hand_batch(arrived, waits)?,
        };
        if open { Ok(()) } else { Err(Error::Closed) }
    }

    /// Takes a call in from a thread that is going to wait for its result: runs it on that thread, if a worker is idle, and
    /// gives its outcome; otherwise as [`submit`](Self::submit) does, and the answer tells its result. `is_callers`: what it
    /// runs is the caller's own closure, which runs there in any case, unless the schedule or the protocol wants it elsewhere.
    ///
    /// # Errors
    /// Same errors as [`submit`](Self::submit).
    pub(crate) fn execute_or_submit(
        &self,
        engine: &Engine,
        arrived: Arrived,
        is_callers: bool,
    ) -> Result<Option<(Outcome, Output)>> {
        let may_run_here = is_callers || self.callers_run && self.workers.has_idle();
        if self.staged.is_some() && !may_run_here {
            return self.submit(arrived, true).map(|()| None);
        }
        let call = self.prepare(arrived)?;
        let is_free = call.queue.is_none() && call.noted.is_none() && self.executors.is_none();
        let stand_in = if is_free && !is_callers { self.workers.stand_in() } else { None };
        if is_free
            && (is_callers || stand_in.is_some())
            && let Ok((outcome, output)) = execute_call(engine, &call)
        {
            if !outcome.stashed {
                return Ok(Some((outcome, output)));
            }
            if let Some(call) = engine.stash().put(call) {
                // The split phase has ended in the meantime.
                self.append_to_workers(engine, &mut vec![call]);
            }
            return Ok(None);
        }
        if self.enqueue(call, true)? { Ok(None) } else { Err(Error::Closed) }
    }

    /// Makes a call ready, and enqueues it for execution. Returns whether calls are still accepted.
    fn hand_batch(&self, arrived: Arrived, waits: bool) -> Result<bool> {
        self.enqueue(self.prepare(arrived)?, waits)
    }

    /// Enqueues a call for execution. Returns whether calls are still accepted.
    fn enqueue(&self, call: Call, waits: bool) -> Result<bool> {
        if let Some(executors) = &self.executors {
            return Ok(executors.submit(call.into()));
        }
        let queue = call.queue.unwrap_or_else(|| self.next_queue());
        if waits {
            return Ok(self.workers.push(queue, call));
        }
        match self.workers.try_push(queue, call) {
            Put::In => Ok(true),
            Put::Closed => Ok(false),
            Put::Full(_) => Err(Error::Busy { in_flight: self.workers.waiting(queue) }),
        }
    }

    /// Calls go around the workers: every worker can run every call.
    fn next_queue(&self) -> usize {
        // Relaxed: only a fair share matters.
        let next = if self.workers.len() == 1 { 0 } else { self.next.fetch_add(1, Ordering::Relaxed) };
        next % self.workers.len()
    }

    /// Makes a call ready, and chooses its queue.
    fn prepare(&self, arrived: Arrived) -> Result<Call> {
        let Arrived { routine, args, answer } = arrived;
        let mut footprint = Footprint::default();
        compute_footprint(&*routine, &args, &mut footprint)?;
        let mut call = Call::unplaced(routine, args, footprint, answer);
        self.place_call(&mut call)?;
        Ok(call)
    }

    fn place_call(&self, call: &mut Call) -> Result<()> {
        let (placement, noted) = self.place(&*call.routine, &call.args, &call.footprint)?;
        call.queue = placement.map(|placement| placement.queue);
        call.conflict_class = placement.map_or(0, |placement| placement.conflict_class);
        call.apart = placement.is_some_and(|placement| placement.apart);
        call.noted = noted;
        Ok(())
    }

    /// Puts another schedule in force, by which workers share their queues from now on, and places the calls that wait once more.
    pub(crate) fn put_in_force(&self, engine: &Engine, kind: ScheduleKind, sharing: Option<Sharing>) {
        self.schedules.put_in_force(kind);
        self.workers.share(sharing);
        let mut calls = self.workers.take_out();
        for call in &mut calls {
            if self.place_call(call).is_err() {
                // A call that was accepted needs no value to run: any queue will do.
                (call.queue, call.conflict_class, call.apart, call.noted) = (None, 0, false, None);
            }
        }
        self.append_to_workers(engine, &mut calls);
    }

    /// Lets the schedule choose a queue; `None` if any will do. Also returns the references to report to it later.
    fn place(
        &self,
        routine: &dyn Routine,
        args: &Args,
        footprint: &Footprint,
    ) -> Result<(Option<Placement>, Option<Box<References>>)> {
        let mut references = References::default();
        let schedule = self.schedule();
        let placement = match schedule.wanted() {
            Wanted::Nothing => None,
            Wanted::Key => {
                let mut key = None;
                keep_panics_in(|| {
                    key = routine.partition_value(args, footprint)?;
                    Ok(())
                })?;
                key.and_then(|key| schedule.place_by_key(key))
            }
            Wanted::References(form) => {
                keep_panics_in(|| routine.references(args, footprint, form, &mut references))?;
                schedule.place(&references)
            }
        };
        let noted = placement.filter(|placement| placement.noted).map(|_| Box::new(references));
        Ok((placement, noted))
    }

    /// Gives calls that have been prepared already to the workers. If these take no more, because the database is being
    /// closed, that is the calls' answer.
    pub(crate) fn append_to_workers(&self, engine: &Engine, calls: &mut Vec<Call>) {
        let give = |queue, mut part: Vec<Call>| {
            if !self.workers.append(queue, &mut part) {
                part.iter().for_each(|call| refuse(engine, &call.answer, Error::Closed));
            }
        };
        // Calls that the schedule has placed return to their queues, and the rest is dealt out.
        let placed: Vec<Call> = calls.extract_if(.., |call| call.queue.is_some()).collect();
        placed.into_iter().for_each(|call| give(call.queue.unwrap_or(0), vec![call]));
        let share = calls.len().div_ceil(self.workers.len()).max(1);
        while !calls.is_empty() {
            give(self.next_queue(), calls.drain(..share.min(calls.len())).collect());
        }
    }

    /// Places the calls that wait once more, by what the schedule has learned since they came. Otherwise they would wait
    /// where they were placed at random, and overlap with their rivals for as long as it takes to run all that waits.
    ///
    /// They are placed twice: after the first time the schedule knows how they share out, and deals that out evenly.
    pub(crate) fn place_again(&self, engine: &Engine) {
        let mut calls = self.workers.take_out();
        let noted =
            |call: &Call| call.noted.as_deref().and_then(|references| self.schedule().place(references));
        calls.iter().for_each(|call| {
            noted(call);
        });
        self.schedule().distribute();
        for call in &mut calls {
            if let Some(placement) = noted(call) {
                (call.queue, call.conflict_class) = (Some(placement.queue), placement.conflict_class);
                call.apart = placement.apart;
                // Those that were placed by the policy say nothing about what chance brings together.
                call.noted = call.noted.take().filter(|_| placement.noted);
            }
        }
        self.append_to_workers(engine, &mut calls);
    }

    /// Refuses further calls; the input threads end when theirs are prepared.
    pub(crate) fn close(&self) {
        if let Some(queue) = &self.staged {
            queue.close();
        }
    }

    /// Closes the workers' queues: no more calls reach the workers.
    pub(crate) fn close_workers(&self) {
        self.workers.close();
        if let Some(executors) = &self.executors {
            executors.close();
        }
    }

    /// Batches enqueued for the workers, and the calls in them.
    pub(crate) fn batches(&self) -> (u64, u64) {
        let (workers, executors) = (self.workers.batches(), self.executors.as_ref().map(|all| all.batches()));
        let (batches, calls) = executors.unwrap_or_default();
        (workers.0 + batches, workers.1 + calls)
    }

    fn give_to_executors(&self, engine: &Engine, call: Call) {
        let answer = call.answer.clone();
        if !self.executors.as_ref().is_some_and(|executors| executors.submit(call.into())) {
            refuse(engine, &answer, Error::Closed);
        }
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
            let mut work = WorkTime::begin();
            for arrived in group.drain(..) {
                let answer = arrived.answer.clone();
                match self.prepare(arrived) {
                    Ok(call) if self.executors.is_some() => self.give_to_executors(engine, call),
                    Ok(call) if call.queue.is_some() || self.workers.are_shared() => {
                        let queue = call.queue.unwrap_or_else(|| self.next_queue());
                        if let Put::Full(call) = self.workers.try_push(queue, call) {
                            // To wait for room is no work.
                            engine.clocks().add(Stage::Input, work);
                            self.workers.push(queue, call);
                            work = WorkTime::begin();
                        }
                    }
                    Ok(call) => ready.push(call),
                    Err(error) => refuse(engine, &answer, error),
                }
            }
            if !ready.is_empty() {
                self.workers.append(self.next_queue(), &mut ready);
            }
            engine.clocks().add(Stage::Input, work);
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
