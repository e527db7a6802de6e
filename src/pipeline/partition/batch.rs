//! Transactions on their way to the executors, alone or in batches, and where their results go.
//!
//! Consecutive transactions of a worker's group that belong to one executor enter its queue as one [`Batch`] and return
//! as one.
//!
//! # Invariants
//! - A batch keeps its transactions in the order of their group.
//! - Every transaction reports exactly one outcome to its [`Sink`].
//!
//! # Concurrency
//! A worker waits in [`GroupResults::wait`]; the executor that reports the last outcome unparks it. Batches travel in boxes
//! and are used again, so a batch costs one queue operation and at most one wake-up each way, and no allocation.

use std::mem::take;
use std::sync::Arc;
use std::thread::{self, Thread};

use parking_lot::Mutex;

use super::runnable_threads::RunnableThreads;
use crate::base::atomics::{AtomicBool, AtomicUsize, Ordering};
use crate::diagnostics::activity::Activity;
use crate::diagnostics::work_time::waiting;
use crate::pipeline::call::{Answer, Call, Output, Routine};
use crate::pipeline::execute::Outcome;
use crate::pipeline::worker_thread::Pending;
use crate::protocol::footprint::Footprint;
use crate::types::Args;

/// A transaction on its way to an executor.
pub(crate) struct Incoming {
    pub(crate) routine: Arc<dyn Routine>,
    pub(crate) args: Args,
    pub(crate) footprint: Footprint,
    pub(crate) sink: Sink,
}

/// The target of a transaction's outcome.
pub(crate) enum Sink {
    /// The outcome returns with the transaction's batch.
    Batch,
    /// The caller's answer, which is given once the outcome is durable.
    Answer(Arc<Answer>),
    /// A worker's group, at once, with the transaction's position in it.
    Group(Arc<GroupResults>, usize),
}

/// Transactions of a group that belong to one executor, in order.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) transactions: Vec<Incoming>,
    /// Their positions in the group.
    pub(super) positions: Vec<usize>,
    /// The outcomes so far, with the positions.
    pub(super) outcomes: Vec<(usize, Outcome, Output)>,
    /// The group that the batch returns to.
    pub(super) group: Option<Arc<GroupResults>>,
}

impl Batch {
    pub(super) fn push(&mut self, position: usize, transaction: Incoming) {
        self.transactions.push(transaction);
        self.positions.push(position);
    }

    /// Removes a transaction, which reports its outcome on its own from now on.
    pub(super) fn remove(&mut self, number: usize) -> Box<Incoming> {
        let (transaction, position) = (self.transactions.remove(number), self.positions.remove(number));
        detached(self.group.as_ref(), transaction, position)
    }

    /// Removes all transactions.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Box<Incoming>> {
        let Batch { transactions, positions, group, .. } = self;
        let all = transactions.drain(..).zip(positions.drain(..));
        all.map(|(transaction, position)| detached(group.as_ref(), transaction, position))
    }
}

fn detached(group: Option<&Arc<GroupResults>>, mut transaction: Incoming, position: usize) -> Box<Incoming> {
    if let Some(group) = group {
        transaction.sink = Sink::Group(group.clone(), position);
    }
    Box::new(transaction)
}

/// The results of a group that one worker waits for.
pub(crate) struct GroupResults {
    /// Transactions without an outcome.
    left: AtomicUsize,
    returned: Mutex<Returned>,
    waiter: Thread,
    /// True if the waiter is parked, or about to be: then it does not count as runnable, or only until the executor
    /// that has ended the group's last round continues.
    parked: AtomicBool,
    runnable: Arc<RunnableThreads>,
}

/// Outcomes that have returned to a worker.
#[derive(Default)]
pub(super) struct Returned {
    /// Outcomes with their positions in the group.
    pub(super) outcomes: Vec<(usize, Outcome, Output)>,
    #[expect(clippy::vec_box, reason = "batches travel in their boxes")]
    pub(super) batches: Vec<Box<Batch>>,
}

impl GroupResults {
    /// Makes the results for the calling thread; no transaction is expected yet.
    pub(crate) fn new(runnable: Arc<RunnableThreads>) -> Arc<GroupResults> {
        let (left, returned, parked) = (AtomicUsize::new(0), Mutex::default(), AtomicBool::new(false));
        Arc::new(GroupResults { left, returned, waiter: thread::current(), parked, runnable })
    }

    /// Expects the outcomes of this many more transactions, before they are admitted.
    pub(super) fn expect_outcomes(&self, transactions: usize) {
        // Relaxed: the admission orders it before their outcomes. If all earlier ones have ended by now, the waiter was
        // unparked unnecessarily, which does no harm.
        self.left.fetch_add(transactions, Ordering::Relaxed);
    }

    /// Stops expecting this many transactions, which were not admitted.
    pub(super) fn cancel(&self, transactions: usize) {
        // Relaxed: the waiter itself does it, and no outcome belongs to it.
        self.left.fetch_sub(transactions, Ordering::Relaxed);
    }

    /// Reports the outcome of one transaction.
    pub(super) fn report(&self, position: usize, outcome: Outcome, output: Output) {
        self.returned.lock().outcomes.push((position, outcome, output));
        self.count_down(1);
    }

    /// Returns a batch whose transactions have ended.
    pub(super) fn return_batch(&self, mut batch: Box<Batch>) {
        let transactions = batch.outcomes.len();
        let mut returned = self.returned.lock();
        returned.outcomes.append(&mut batch.outcomes);
        returned.batches.push(batch);
        drop(returned);
        self.count_down(transactions);
    }

    fn count_down(&self, transactions: usize) {
        // Release pairs with the acquire in `wait`; the mutex orders the outcomes as well.
        if self.left.fetch_sub(transactions, Ordering::Release) == transactions {
            self.end_parking();
            self.waiter.unpark();
        }
    }

    /// The waiter counts as runnable again: either the thread that wakes it says so, or the waiter itself.
    fn end_parking(&self) {
        if self.parked.swap(false, Ordering::Relaxed) {
            self.runnable.add();
        }
    }

    /// Spins or parks until all expected outcomes are there.
    pub(super) fn wait(&self) -> Returned {
        // The executors show what happens to the transactions.
        let _elsewhere = waiting(Activity::Elsewhere);
        let _wait = self.runnable.spin_until(|| self.left.load(Ordering::Relaxed) == 0);
        // Acquire, and below: pairs with the release in `count_down`.
        if self.left.load(Ordering::Acquire) > 0 {
            self.runnable.remove();
            self.parked.store(true, Ordering::Relaxed);
            while self.left.load(Ordering::Acquire) > 0 {
                thread::park();
            }
            self.end_parking();
        }
        take(&mut *self.returned.lock())
    }
}

impl From<Call> for Incoming {
    fn from(call: Call) -> Incoming {
        let Call { routine, args, footprint, answer, .. } = call;
        Incoming { routine, args, footprint, sink: Sink::Answer(answer) }
    }
}

impl Pending for Box<Incoming> {
    type Routine = dyn Routine;

    fn parts(&self) -> (&(dyn Routine + 'static), &Args, &Footprint) {
        (&*self.routine, &self.args, &self.footprint)
    }
}

impl Pending for Incoming {
    type Routine = dyn Routine;

    fn parts(&self) -> (&(dyn Routine + 'static), &Args, &Footprint) {
        (&*self.routine, &self.args, &self.footprint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(epoch: u64) -> Outcome {
        Outcome { epoch, attempts: 1, wrote: true, failure: None, stashed: false }
    }

    fn results() -> Arc<GroupResults> {
        GroupResults::new(Arc::new(RunnableThreads::new(1, 2)))
    }

    fn epochs(returned: &Returned) -> Vec<u64> {
        let mut outcomes: Vec<(usize, u64)> =
            returned.outcomes.iter().map(|(position, outcome, _)| (*position, outcome.epoch)).collect();
        outcomes.sort_unstable();
        assert!(outcomes.iter().all(|(position, epoch)| *position as u64 == epoch % 100));
        outcomes.into_iter().map(|(_, epoch)| epoch).collect()
    }

    #[test]
    fn a_worker_waits_for_every_outcome_of_its_group() {
        let group = results();
        group.expect_outcomes(50);
        thread::scope(|scope| {
            for half in 0..2 {
                let group = &group;
                scope.spawn(move || {
                    (0..50).rev().filter(|position| position % 2 == half).for_each(|position| {
                        group.report(position, outcome(position as u64), Output::default());
                    });
                });
            }
            assert_eq!(epochs(&group.wait()), (0..50).collect::<Vec<u64>>());
            group.expect_outcomes(1);
            scope.spawn(|| group.report(7, outcome(107), Output::default()));
            assert_eq!(epochs(&group.wait()), [107]);
        });
        assert!(results().wait().outcomes.is_empty());
    }

    #[test]
    fn a_batch_returns_at_once_and_keeps_its_memory() {
        let group = results();
        group.expect_outcomes(3);
        let mut batch: Box<Batch> = Box::default();
        batch.group = Some(group.clone());
        batch.outcomes.extend([2, 0].map(|position| (position, outcome(position as u64), Output::default())));
        let reporting = group.clone();
        let executor = thread::spawn(move || {
            reporting.return_batch(batch);
            reporting.report(1, outcome(1), Output::default());
        });
        let returned = group.wait();
        executor.join().expect("it ends");
        assert_eq!(epochs(&returned), [0, 1, 2]);
        assert_eq!(returned.batches.len(), 1);
        assert!(returned.batches[0].outcomes.is_empty() && returned.batches[0].outcomes.capacity() > 0);
    }

    #[test]
    fn transactions_that_were_not_admitted_are_not_waited_for() {
        let group = results();
        group.expect_outcomes(2);
        group.cancel(2);
        assert!(group.wait().outcomes.is_empty());
    }
}
