//! A call on its way through the pipeline, and the handle by which its caller gets the result.

use std::cell::RefCell;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::thread::{self, Thread};

use parking_lot::{Condvar, Mutex};

use crate::base::atomics::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::error::{Error, Result};
use crate::pipeline::execute::Body;
use crate::pipeline::nesting;
use crate::pipeline::partition::plan::Failures;
use crate::pipeline::stash::Since;
use crate::pipeline::work_queues::Work;
use crate::protocol::attempt::Attempt;
use crate::protocol::footprint::Footprint;
use crate::schedule::reference::{Form, References, Scalar};
use crate::storage::record::RecordPointer;
use crate::types::values::{PhaseValue, Values};
use crate::types::{Args, Value};

/// The output of a procedure: its rows.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Output {
    /// The rows that its bodies returned, in the order in which they did.
    pub rows: Vec<Vec<Value>>,
}

/// A registered procedure, as the pipeline sees it.
pub(crate) trait Routine: Send + Sync {
    /// Adds the references that a call with these arguments declares.
    ///
    /// # Errors
    /// The arguments don't fit.
    fn footprint(&self, args: &Args, into: &mut Footprint) -> Result<()>;

    /// Adds the references by which the schedule counts a call with these arguments and this footprint.
    ///
    /// # Errors
    /// Those of the functions that the procedure declares for it.
    fn references(&self, args: &Args, footprint: &Footprint, form: Form, into: &mut References)
    -> Result<()>;

    /// The value of the column by which calls are placed, if this one has it.
    ///
    /// # Errors
    /// Same errors as [`references`](Self::references).
    fn partition_value(&self, args: &Args, footprint: &Footprint) -> Result<Option<Scalar>>;

    /// Asks for the index lines of a footprint's keys to be fetched.
    fn prefetch(&self, footprint: &Footprint, guard: &crossbeam_epoch::Guard);

    /// Looks the footprint's keys up together, and asks for their records to be fetched. Puts one entry for each key
    /// behind those that are there.
    fn find(&self, footprint: &Footprint, found: &mut Vec<Found>, guard: &crossbeam_epoch::Guard);

    /// Asks for what the bodies will read besides the records themselves: these, which were found and fetched before.
    fn fetch_long_values(&self, args: &Args, footprint: &Footprint, found: &[Found]);

    /// Runs the bodies in this attempt; `found` has one entry for each of the footprint's keys, and `gathered` is empty.
    ///
    /// # Errors
    /// The procedure's own, or a conflict.
    fn run(
        &self,
        attempt: &Attempt<'_>,
        args: &Args,
        footprint: &Footprint,
        found: &[Found],
        gathered: &RefCell<Gathered>,
    ) -> Result<()>;

    /// Recent outcomes of its calls over several executors.
    fn failures(&self) -> &Failures;

    /// The procedure as phases of actions.
    fn parts(&self) -> &dyn Parts;
}

/// A procedure whose actions can run on different threads: phase by phase, action by action.
pub(crate) trait Parts: Send + Sync {
    /// Number of phases.
    fn phases(&self) -> usize;

    /// Range of the footprint's references that belong to this phase.
    fn references(&self, footprint: &Footprint, phase: usize) -> Range<usize>;

    /// Returns true if the body of the last reference does all of the work, when everything declared is locked.
    fn is_one_body(&self) -> bool {
        false
    }

    /// Returns true if values of earlier phases lead to this reference: the arguments tell only the beginning of its
    /// key.
    fn is_led(&self, footprint: &Footprint, number: usize) -> bool;

    /// Puts what earlier phases' values lead to into this reference.
    ///
    /// # Errors
    /// The procedure's own; it does not begin as declared.
    fn lead(&self, args: &Args, values: &Values, number: usize, footprint: &mut Footprint) -> Result<()>;

    /// Looks the key of this reference up, and asks for its record to be fetched.
    fn find(&self, footprint: &Footprint, number: usize, guard: &crossbeam_epoch::Guard) -> Found;

    /// Runs the body of this reference, which has been led to, if it is.
    ///
    /// # Errors
    /// The procedure's own, or a conflict.
    fn run(
        &self,
        attempt: &Attempt<'_>,
        call: (&Args, &Values, &Footprint),
        number: usize,
        found: Found,
        gathered: &RefCell<Gathered>,
    ) -> Result<()>;
}

/// Number of entries for which memory is kept from group to group.
const KEPT: usize = 1_024;

/// Values and rows that a running call has gathered; its memory is kept from call to call.
#[derive(Default)]
pub(crate) struct Gathered {
    /// Values set in the running phase, which the next ones will see.
    pub(crate) fresh: Vec<(usize, PhaseValue)>,
    /// Rows for the caller.
    pub(crate) rows: Vec<Vec<Value>>,
    /// Memory for the values of earlier phases, between calls: empty.
    pub(crate) values: Values,
}

impl Gathered {
    /// Clears the rows and values of an attempt that has failed.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        if !self.fresh.is_empty() || !self.rows.is_empty() {
            self.fresh.clear();
            self.rows.clear();
        }
    }

    /// Same as [`clear`](Self::clear), and frees the memory of unusually large calls.
    pub(crate) fn clear_and_free_unusual(&mut self) {
        self.clear();
        if self.fresh.capacity().max(self.rows.capacity()).max(self.values.capacity()) > KEPT {
            *self = Gathered::default();
        }
    }
}

/// One run of a procedure, as a body.
pub(crate) struct Run<'a, R: ?Sized> {
    pub(crate) routine: &'a R,
    pub(crate) args: &'a Args,
    pub(crate) footprint: &'a Footprint,
    pub(crate) found: &'a [Found],
    pub(crate) gathered: &'a RefCell<Gathered>,
}

impl<R: Routine + ?Sized> Run<'_, R> {
    /// The call's output, once it has ended.
    #[inline]
    pub(crate) fn output(&self) -> Output {
        let mut gathered = self.gathered.borrow_mut();
        Output {
            rows: if gathered.rows.is_empty() { Vec::new() } else { std::mem::take(&mut gathered.rows) },
        }
    }
}

impl<R: Routine + ?Sized> Body for Run<'_, R> {
    #[inline]
    fn run(&mut self, attempt: &Attempt<'_>) -> Result<()> {
        self.gathered.borrow_mut().clear();
        self.routine.run(attempt, self.args, self.footprint, self.found, self.gathered)
    }

    #[inline]
    fn code(&self) -> usize {
        // What it does is declared.
        0
    }
}

/// The record of a footprint's key, if it was found before the bodies run.
pub(crate) type Found = Option<RecordPointer>;

/// A call under way.
pub(crate) struct Call {
    pub(crate) routine: Arc<dyn Routine>,
    pub(crate) args: Args,
    pub(crate) footprint: Footprint,
    pub(crate) answer: Arc<Answer>,
    /// The queue that the schedule chose, if it did.
    pub(crate) queue: Option<usize>,
    /// The conflict class of the call; 0 if the schedule gives none.
    pub(crate) conflict_class: u64,
    /// True if the call should wait rather than overlap with calls of its conflict class.
    pub(crate) apart: bool,
    /// References to report to the schedule when the call ends; `None` if it learns nothing.
    pub(crate) noted: Option<Box<References>>,
    /// The time since which it is stashed, if it was.
    pub(crate) stashed: Option<Since>,
}

impl Call {
    /// A call that may wait in any queue.
    pub(crate) fn unplaced(
        routine: Arc<dyn Routine>,
        args: Args,
        footprint: Footprint,
        answer: Arc<Answer>,
    ) -> Call {
        let (queue, conflict_class, apart, noted, stashed) = (None, 0, false, None, None);
        Call { routine, args, footprint, answer, queue, conflict_class, apart, noted, stashed }
    }
}

impl Work for Call {
    fn conflict_class(&self) -> u64 {
        self.conflict_class
    }

    fn waits_for_rivals(&self) -> bool {
        self.apart
    }
}

/// The place of a call's result, in which its caller waits for it.
pub(crate) struct Answer {
    state: Mutex<State>,
    /// Number of aborted attempts of the call.
    aborted: AtomicU32,
}

struct State {
    result: Option<Result<Output>>,
    waiter: Waiter,
    taken: bool,
    /// Threads that the thread waiting here wakes.
    relay: Vec<Thread>,
}

enum Waiter {
    Nobody,
    Thread(Thread),
    Task(Waker),
}

impl Answer {
    pub(crate) fn new() -> Arc<Answer> {
        Arc::new(Answer {
            state: Mutex::new(State {
                result: None,
                waiter: Waiter::Nobody,
                taken: false,
                relay: Vec::new(),
            }),
            aborted: AtomicU32::new(0),
        })
    }

    /// Counts aborted attempts of the call. Relaxed: `give`, which follows, publishes the count with the result.
    pub(crate) fn count_aborted(&self, attempts: u32) {
        self.aborted.fetch_add(attempts, Ordering::Relaxed);
    }

    /// Tells the result, and wakes the task that waits for it; a thread that sleeps for it is given back, to be woken.
    #[must_use]
    pub(crate) fn give(&self, result: Result<Output>) -> Option<Thread> {
        let mut state = self.state.lock();
        state.result = Some(result);
        let waiter = std::mem::replace(&mut state.waiter, Waiter::Nobody);
        drop(state);
        match waiter {
            Waiter::Nobody => None,
            Waiter::Thread(thread) => Some(thread),
            Waiter::Task(waker) => {
                waker.wake();
                None
            }
        }
    }

    /// Asks the thread that sleeps for this result to wake others when it wakes. If it has gone meanwhile, the
    /// others are given back.
    fn relay(&self, others: Vec<Thread>) -> Option<Vec<Thread>> {
        let mut state = self.state.lock();
        if state.taken {
            return Some(others);
        }
        state.relay = others;
        None
    }
}

/// Number of threads that are woken by one that has been woken itself.
const RELAYED: usize = 7;

/// Wakes threads that sleep for their results. Waking costs the waker several microseconds a thread: so it wakes one in
/// eight, and that one wakes the others before it returns to its caller.
pub(crate) fn wake(mut sleepers: Vec<(Arc<Answer>, Thread)>) {
    while let Some((answer, first)) = sleepers.pop() {
        let others = sleepers.len() - sleepers.len().min(RELAYED);
        let others: Vec<Thread> = sleepers.drain(others..).map(|(_, thread)| thread).collect();
        if let Some(others) = answer.relay(others) {
            others.iter().for_each(Thread::unpark);
        }
        first.unpark();
    }
}

/// A submitted call: a handle for its result, and a future of it.
///
/// Dropping the handle does not cancel the call.
#[must_use = "the result, and whether it is durable, is known once it was waited for"]
pub struct Submitted {
    answer: Arc<Answer>,
}

impl Submitted {
    pub(crate) fn new(answer: Arc<Answer>) -> Submitted {
        Submitted { answer }
    }

    /// Returns true if the result is available.
    pub fn is_done(&self) -> bool {
        let state = self.answer.state.lock();
        state.result.is_some() || state.taken
    }

    /// The number of aborted attempts of the call, once its result is available.
    pub fn aborted(&self) -> u32 {
        // Relaxed: see `Answer::count_aborted`.
        self.answer.aborted.load(Ordering::Relaxed)
    }

    /// Waits for the result, as [`wait`](Self::wait) does, and also returns the number of aborted attempts.
    pub fn wait_counting(self) -> (Result<Output>, u32) {
        let answer = self.answer.clone();
        (self.wait(), Submitted { answer }.aborted())
    }

    /// Waits for the result: it is released when everything that the call wrote and read is durable.
    ///
    /// # Errors
    /// The call's own error; [`Error::LogFailed`] if its outcome is unknown; [`Error::Nested`] inside a transaction.
    pub fn wait(self) -> Result<Output> {
        nesting::check("waiting for a call")?;
        loop {
            let mut state = self.answer.state.lock();
            if let Some(result) = state.result.take() {
                state.taken = true;
                let others = std::mem::take(&mut state.relay);
                drop(state);
                others.iter().for_each(Thread::unpark);
                return result;
            }
            if state.taken {
                return Err(Error::Closed);
            }
            state.waiter = Waiter::Thread(thread::current());
            drop(state);
            thread::park();
        }
    }
}

impl Future for Submitted {
    type Output = Result<Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // A poll inside a body would wait there for a call that may need what the body holds.
        if let Err(error) = nesting::check("waiting for a call") {
            return Poll::Ready(Err(error));
        }
        let mut state = self.answer.state.lock();
        if let Some(result) = state.result.take() {
            state.taken = true;
            return Poll::Ready(result);
        }
        state.waiter = Waiter::Task(context.waker().clone());
        Poll::Pending
    }
}

/// Bounds how many calls are under way.
pub(crate) struct InFlight {
    count: AtomicUsize,
    limit: AtomicUsize,
    /// Number of times that a call found no room.
    turned_away: AtomicU64,
    waiting: AtomicUsize,
    lock: Mutex<()>,
    left: Condvar,
}

impl InFlight {
    pub(crate) fn new(limit: usize) -> InFlight {
        InFlight {
            count: AtomicUsize::new(0),
            limit: AtomicUsize::new(limit),
            turned_away: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            lock: Mutex::new(()),
            left: Condvar::new(),
        }
    }

    /// Lets one more in, if there is room.
    ///
    /// # Errors
    /// [`Error::Busy`].
    pub(crate) fn try_enter(&self) -> Result<()> {
        // SeqCst throughout: a thread that waits registers, then tries once more; a call that leaves counts down, then
        // looks for a thread that waits.
        let limit = self.limit();
        if self.count.fetch_add(1, Ordering::SeqCst) < limit {
            return Ok(());
        }
        self.leave();
        // Relaxed: a statistic.
        self.turned_away.fetch_add(1, Ordering::Relaxed);
        Err(Error::Busy { in_flight: limit })
    }

    /// Number of calls that are in flight.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// The most calls under way.
    pub(crate) fn limit(&self) -> usize {
        // Relaxed: not every thread sees at once a limit that has changed.
        self.limit.load(Ordering::Relaxed)
    }

    /// Sets the most calls under way; a thread that waits learns it when a call leaves, or soon.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Number of times that a call found no room.
    pub(crate) fn turned_away(&self) -> u64 {
        self.turned_away.load(Ordering::Relaxed)
    }

    /// Waits until there is room.
    pub(crate) fn enter(&self) {
        if self.try_enter().is_ok() {
            return;
        }
        let mut guard = self.lock.lock();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        while self.count.fetch_add(1, Ordering::SeqCst) >= self.limit() {
            self.count.fetch_sub(1, Ordering::SeqCst);
            self.left.wait_for(&mut guard, std::time::Duration::from_millis(10));
        }
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Counts a call, whatever the limit: it was admitted in another way already.
    pub(crate) fn add(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts a call that has left.
    pub(crate) fn leave(&self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            drop(self.lock.lock());
            self.left.notify_one();
        }
    }
}
