//! A worker's group of transactions: batches for each executor, with transactions over several executors between them.
//!
//! The worker computes the footprints, routes the transactions in order and collects them by executor. It sends them when
//! the group is complete, into all queues at one moment, and waits until all results have returned. Behind a transaction over
//! several executors that may not keep its order ([`keeps_order`]), it sends the next ones only when that has ended.
//!
//! # Invariants
//! - The worker runs no action: all it does itself is to resolve keys by index reads
//!   ([`key_resolution`](super::key_resolution)).
//! - **Order.** Transactions of a group that belong to one executor take effect in the order of the group, and so do
//!   transactions of which one reads without a lock a table that another one writes: a new *round* begins where they meet.
//!   Tables are distinguished by 64 bits; if two share a bit, a round begins unnecessarily. Key resolution and the
//!   uniqueness of indexes are outside of this order (`Worker::execute_group`).
//! - If the partition map has changed, all transactions that have not been admitted are routed again.
//!
//! # Concurrency
//! The worker blocks only in [`GroupResults::wait`] and, before it has sent anything, for [`credits`](super::credits),
//! without a pin.

use std::mem::take;
use std::sync::Arc;

use super::Executors;
use super::batch::{Batch, GroupResults, Incoming, Returned};
use super::key_resolution::{KeyResolver, can_resolve, forget};
use super::outgoing::{Misrouted, Outgoing};
use crate::error::{Error, Result};
use crate::pipeline::call::{Output, Routine};
use crate::pipeline::execute::Outcome;
use crate::protocol::footprint::{Footprint, Mode, Reference};
use crate::protocol::local::local_lock::{is_locked, partition_hash_of};
use crate::storage::foreign_keys::Reach;
use crate::types::Args;

/// A transaction of a worker's group.
pub(crate) trait GroupMember {
    /// The procedure and the arguments, and the footprint as it was computed.
    fn parts_mut(&mut self) -> (&(dyn Routine + 'static), &Args, &mut Footprint);

    /// The transaction for an executor's queue, with the footprint.
    fn send(&mut self) -> Incoming;

    /// Returns the footprint of a transaction that was not admitted.
    fn take_back(&mut self, incoming: Incoming);
}

/// The memory that a worker keeps from group to group.
#[derive(Default)]
pub(crate) struct GroupMemory {
    /// Positions of transactions that are not routed yet, in order.
    unrouted: Vec<usize>,
    outgoing: Outgoing,
    /// Footprints of transactions that have ended.
    pub(crate) spare_footprints: Vec<Footprint>,
    /// The outcomes of the group's transactions, in order.
    pub(crate) outcomes: Vec<Option<(Outcome, Output)>>,
}

impl GroupMemory {
    fn begin(&mut self, transactions: usize, executors: usize) {
        self.outcomes.clear();
        self.outcomes.resize_with(transactions, || None);
        self.outgoing.resize(executors);
        self.unrouted.clear();
        self.unrouted.extend(0..transactions);
    }

    /// Keeps what has returned.
    fn keep(&mut self, returned: Returned) {
        for (position, outcome, output) in returned.outcomes {
            self.outcomes[position] = Some((outcome, output));
        }
        returned.batches.into_iter().for_each(|batch| self.reuse(batch));
    }

    /// Empties a batch whose transactions have ended.
    fn reuse(&mut self, mut batch: Box<Batch>) {
        let footprints = batch.transactions.drain(..).map(|transaction| transaction.footprint);
        self.spare_footprints.extend(footprints);
        batch.positions.clear();
        batch.group = None;
        self.outgoing.keep_spare(batch);
    }
}

/// The outcome of a transaction that was not admitted because the database is being closed.
pub(crate) fn closed() -> (Outcome, Output) {
    (Outcome::refused(1, Error::Closed), Output::default())
}

/// The tables that transactions write, and that they read without locks: one bit for each, or for several.
#[derive(Clone, Copy, Debug, Default)]
struct TableSets {
    written: u64,
    read_unlocked: u64,
}

impl TableSets {
    /// The sets of a transaction. Reads of key resolution do not count: the executor checks them again.
    fn of(footprint: &Footprint) -> TableSets {
        let mut sets = TableSets::default();
        if footprint.reach() != Reach::Nothing {
            // What its foreign keys read is not declared: it may be any table.
            sets.read_unlocked = u64::MAX;
        }
        let is_resolved = footprint.references.iter().any(|reference| reference.resolved_ahead);
        for reference in &footprint.references {
            let table = 1 << (reference.table % u64::BITS);
            if reference.mode != Mode::Read {
                sets.written |= table;
            } else if reference.validated || !is_locked(reference) && !is_resolved {
                sets.read_unlocked |= table;
            }
        }
        sets
    }

    /// Returns true if the order of transactions with these sets matters beyond their local locks.
    fn meets(self, other: TableSets) -> bool {
        self.written & other.read_unlocked | self.read_unlocked & other.written != 0
    }

    fn add(&mut self, other: TableSets) {
        self.written |= other.written;
        self.read_unlocked |= other.read_unlocked;
    }
}

/// Returns true if a transaction over several executors takes effect before those that enter behind it: it enters with
/// all its locks and has no reads to validate, and so only its own bodies can abort an attempt (`Error::Conflict`). It
/// keeps its locks meanwhile; one whose bodies do so
/// [`MAX_OPTIMISTIC_ATTEMPTS`](crate::protocol::MAX_OPTIMISTIC_ATTEMPTS) times enters again, behind the others.
fn keeps_order(routine: &dyn Routine, footprint: &Footprint) -> bool {
    let mut references = footprint.references.iter().enumerate();
    let is_deferred = |number, one: &Reference| {
        partition_hash_of(one).is_none() && routine.parts().is_led(footprint, number)
    };
    references.all(|(number, one)| {
        is_locked(one)
            && !one.has_secondary_indexes
            && one.reach == Reach::Nothing
            && !is_deferred(number, one)
    })
}

/// One group on its way through the executors.
struct GroupRun<'r, 's, 'p, M> {
    executors: &'r Executors,
    resolver: KeyResolver<'s, 'p>,
    memory: &'r mut GroupMemory,
    members: &'r mut [M],
    /// The version of the partition map by which the open batches are routed.
    version: u64,
    /// The tables of the present round, and whether it has no transactions yet.
    round: TableSets,
    is_idle: bool,
    /// The target of the results, once something was sent.
    results: Option<Arc<GroupResults>>,
}

impl Executors {
    /// Runs a group's transactions on the executors, and waits for all results, which are put into `memory`.
    pub(crate) fn execute_group<M: GroupMember>(
        &self,
        resolver: KeyResolver<'_, '_>,
        memory: &mut GroupMemory,
        members: &mut [M],
    ) {
        let _credits = self.credits.take(members.len());
        memory.begin(members.len(), self.len());
        let mut run = GroupRun {
            executors: self,
            resolver,
            memory,
            members,
            version: 0,
            round: TableSets::default(),
            is_idle: true,
            results: None,
        };
        let _runnable = self.queues.runnable().enter();
        while !run.memory.unrouted.is_empty() {
            run.route_all();
        }
    }
}

impl<M: GroupMember> GroupRun<'_, '_, '_, M> {
    /// Routes what is not routed and waits for the results. If the partition map changes, some are unrouted afterwards.
    fn route_all(&mut self) {
        self.version = self.executors.map.version();
        let positions = take(&mut self.memory.unrouted);
        let mut left = positions.iter();
        let sent = left.by_ref().try_for_each(|&position| self.route(position));
        _ = sent.and_then(|()| self.finish_round());
        self.memory.unrouted.extend(left);
        self.memory.unrouted.sort_unstable();
    }

    /// Puts a transaction into its executor's batch, or into the queues of several.
    fn route(&mut self, position: usize) -> std::result::Result<(), Misrouted> {
        let executor = match self.executor_of(position) {
            Ok(executor) => executor,
            Err(error) => {
                self.memory.outcomes[position] = Some((Outcome::refused(1, error), Output::default()));
                return Ok(());
            }
        };
        let (routine, _, footprint) = self.members[position].parts_mut();
        let sets = TableSets::of(footprint);
        // An index may lead to one executor once the transactions before this one have ended.
        let may_resolve_later = executor.is_none() && !self.is_idle && can_resolve(routine, footprint);
        if may_resolve_later || self.round.meets(sets) {
            if let Err(misrouted) = self.finish_round() {
                self.memory.unrouted.push(position);
                return Err(misrouted);
            }
            return self.route(position);
        }
        self.round.add(sets);
        self.is_idle = false;
        let keeps_order = executor.is_some() || keeps_order(routine, footprint);
        let transaction = self.members[position].send();
        match executor {
            Some(executor) => self.memory.outgoing.push(executor, position, transaction),
            None => {
                let results = self.results().clone();
                let transaction = (position, transaction);
                self.memory.outgoing.push_flow(self.executors, self.version, transaction, &results);
            }
        }
        if keeps_order { Ok(()) } else { self.finish_round() }
    }

    /// The one executor that a transaction belongs to, if it belongs to one.
    ///
    /// # Errors
    /// The procedure's own, when it computes its keys again.
    fn executor_of(&mut self, position: usize) -> Result<Option<usize>> {
        let executors = self.executors;
        let (routine, args, footprint) = self.members[position].parts_mut();
        if footprint.references.iter().any(|reference| reference.resolved_ahead) {
            // They were resolved before the round has ended, or before the partition map has changed.
            forget(routine, args, footprint)?;
        }
        let executor = executors.executor_of_all(footprint);
        Ok(executor.or_else(|| executors.resolve_executor(&mut self.resolver, (routine, args), footprint)))
    }

    fn results(&mut self) -> &Arc<GroupResults> {
        let runnable = self.executors.queues.runnable();
        self.results.get_or_insert_with(|| GroupResults::new(runnable.clone()))
    }

    /// Sends the round and waits for it.
    fn finish_round(&mut self) -> std::result::Result<(), Misrouted> {
        let results = self.results().clone();
        let GroupRun { executors, memory, members, version, .. } = self;
        let GroupMemory { outgoing, unrouted, spare_footprints, .. } = &mut **memory;
        let refused = |position: usize, transaction: Incoming, is_closed: bool| {
            if is_closed {
                spare_footprints.push(transaction.footprint);
            } else {
                members[position].take_back(transaction);
                unrouted.push(position);
            }
        };
        let sent = outgoing.send(executors, *version, &results, refused);
        self.wait();
        sent
    }

    /// Waits for everything that was sent.
    fn wait(&mut self) {
        if let Some(results) = &self.results {
            self.memory.keep(results.wait());
        }
        self.round = TableSets::default();
        self.is_idle = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::footprint::Routed;

    fn key_of(table: u32, mode: Mode) -> Reference {
        Reference { table, mode, routing: Routed::Hash(7), ..Reference::default() }
    }

    fn sets(references: &[Reference]) -> TableSets {
        let writes = references.iter().any(|one| one.mode != Mode::Read);
        TableSets::of(&Footprint { references: references.to_vec(), writes, ..Footprint::default() })
    }

    #[test]
    fn transactions_meet_where_one_reads_unlocked_what_another_writes() {
        let writes = sets(&[key_of(2, Mode::Write)]);
        let commutes = sets(&[key_of(2, Mode::Commute)]);
        let reads = sets(&[key_of(2, Mode::Read)]);
        let by_index = Reference { table: 2, has_secondary_indexes: true, ..Reference::default() };
        let validated = Reference { validated: true, ..key_of(2, Mode::Read) };
        for unlocked in [by_index, validated] {
            let unlocked = sets(&[unlocked, key_of(9, Mode::Write)]);
            for written in [writes, commutes] {
                assert!(unlocked.meets(written) && written.meets(unlocked));
            }
            assert!(!unlocked.meets(reads) && !reads.meets(unlocked) && !writes.meets(reads));
            let mut round = reads;
            round.add(unlocked);
            assert!(writes.meets(round));
            assert!(!sets(&[key_of(3, Mode::Write)]).meets(round), "another table");
        }
    }

    #[test]
    fn what_follows_foreign_keys_meets_everything_that_writes() {
        let follows = sets(&[Reference { reach: Reach::Reads, ..key_of(2, Mode::Write) }]);
        assert!(
            follows.meets(sets(&[key_of(7, Mode::Write)]))
                && sets(&[key_of(7, Mode::Commute)]).meets(follows)
        );
        assert!(!follows.meets(sets(&[key_of(7, Mode::Read)])));
    }

    #[test]
    fn keys_that_were_resolved_ahead_keep_no_transaction_back() {
        let by_index = Reference { table: 2, has_secondary_indexes: true, ..Reference::default() };
        let resolved = Reference { resolved_ahead: true, ..key_of(3, Mode::Write) };
        assert!(!sets(&[by_index, resolved]).meets(sets(&[key_of(2, Mode::Write)])));
    }
}
