//! Entries that a worker's group sends to the executors: for each of them batches, and phases of transactions over
//! several executors, in the order of the group.
//!
//! # Invariants
//! - The entries of one executor have the order of the group.
//! - All entries enter their queues at the same moment, or none does: then every transaction is given back.

use std::sync::Arc;

use super::Executors;
use super::batch::{Batch, GroupResults, Incoming, Sink};
use super::executor::Work;
use super::executor_queues::{QueueEntries, Refused};
use super::flow_graph::{Flow, Phase};

/// The partition map has changed: what is not admitted is routed again.
pub(super) struct Misrouted;

/// Entries that have not been sent, and spare memory for them.
#[derive(Default)]
pub(super) struct Outgoing {
    queues: Vec<QueueEntries<Work>>,
    /// The batch of each executor behind its entries.
    #[expect(clippy::vec_box, reason = "batches travel in their boxes")]
    open: Vec<Box<Batch>>,
    #[expect(clippy::vec_box, reason = "batches travel in their boxes")]
    spare_batches: Vec<Box<Batch>>,
    transactions: usize,
}

impl Outgoing {
    /// Makes room for this many executors.
    pub(super) fn resize(&mut self, executors: usize) {
        self.queues.resize_with(executors, QueueEntries::default);
        self.open.resize_with(executors, Box::default);
    }

    /// Keeps an empty batch.
    pub(super) fn keep_spare(&mut self, batch: Box<Batch>) {
        self.spare_batches.push(batch);
    }

    /// Adds a transaction of one executor.
    pub(super) fn push(&mut self, executor: usize, position: usize, transaction: Incoming) {
        self.transactions += 1;
        self.open[executor].push(position, transaction);
    }

    /// Adds a transaction over several executors, routed by this version of the map.
    pub(super) fn push_flow(
        &mut self,
        executors: &Executors,
        version: u64,
        (position, mut transaction): (usize, Incoming),
        results: &Arc<GroupResults>,
    ) {
        transaction.sink = Sink::Group(results.clone(), position);
        let phase = executors.first_phase(Arc::new(executors.new_flow(transaction)), 1, version);
        self.transactions += 1;
        for &executor in &phase.route {
            self.close_batch(executor, results);
            self.queues[executor].push(Work::Phase(phase.clone()), 1);
        }
    }

    fn close_batch(&mut self, executor: usize, results: &Arc<GroupResults>) {
        let transactions = self.open[executor].transactions.len();
        if transactions > 0 {
            let spare = self.spare_batches.pop().unwrap_or_default();
            let mut batch = std::mem::replace(&mut self.open[executor], spare);
            batch.group = Some(results.clone());
            self.queues[executor].push(Work::Batch(batch), transactions);
        }
    }

    /// Sends all entries, which report to `results`. If they are refused, `refused` gets every transaction with its position, and
    /// whether the database is being closed.
    ///
    /// # Errors
    /// They are to be routed again.
    pub(super) fn send(
        &mut self,
        executors: &Executors,
        version: u64,
        results: &Arc<GroupResults>,
        mut refused: impl FnMut(usize, Incoming, bool),
    ) -> Result<(), Misrouted> {
        (0..self.open.len()).for_each(|executor| self.close_batch(executor, results));
        let transactions = std::mem::take(&mut self.transactions);
        results.expect_outcomes(transactions);
        let is_closed = match executors.queues.admit_group(transactions, version, &mut self.queues) {
            Ok(()) => return Ok(()),
            Err(Refused::Closed(())) => true,
            Err(Refused::Misrouted(())) => false,
        };
        results.cancel(transactions);
        for entries in &mut self.queues {
            for work in entries.drain() {
                match work {
                    Work::Batch(mut batch) => {
                        let Batch { transactions, positions, .. } = &mut *batch;
                        let all = positions.drain(..).zip(transactions.drain(..));
                        all.for_each(|(position, transaction)| refused(position, transaction, is_closed));
                        batch.group = None;
                        self.spare_batches.push(batch);
                    }
                    Work::Phase(phase) => {
                        if let Some((position, transaction)) = take_back(phase) {
                            refused(position, transaction, is_closed);
                        }
                    }
                    Work::Whole(_) | Work::External(_) | Work::Repartitioning(_) => {}
                }
            }
        }
        if is_closed { Ok(()) } else { Err(Misrouted) }
    }
}

/// The transaction of a phase that was not admitted, from the last one of its entries.
fn take_back(phase: Arc<Phase>) -> Option<(usize, Incoming)> {
    let flow = Arc::into_inner(phase)?.flow;
    let Flow { mut incoming, .. } = Arc::into_inner(flow)?;
    match std::mem::replace(&mut incoming.sink, Sink::Batch) {
        Sink::Group(_, position) => Some((position, incoming)),
        Sink::Batch | Sink::Answer(_) => None,
    }
}
