//! Repartitioning: ranges of partition hashes move between executors while transactions run.
//!
//! A repartitioning stops only the executors whose ranges change, and those only until what they have begun has ended. It
//! enters all their queues at one moment, as a transaction over several executors does, and requests an exclusive lock on
//! everything there; at that moment, under the mutexes of these queues, the partition map changes. In each of these queues,
//! everything before the repartitioning was routed by the old map, and everything behind it by the new one: a transaction
//! with an older route is refused at the entry and routed again ([`executor_queues`](super::executor_queues)).
//!
//! # Invariants
//! - **No transaction runs at an executor that does not own its rows.** Work behind the repartitioning waits for it, as behind
//!   every exclusive request, at the losing executor and at the gaining one. It is granted at an executor when no lock is held
//!   there and all work before it is done, and ends when all executors concerned have granted it. Work before it is locked
//!   and run by the owners of that time: an attempt keeps its owners from its entry on (`Owners`, `Phase`).
//! - **No work is lost or doubled.** What is refused has entered no queue and still belongs to its sender; what has entered a
//!   queue is never forwarded.
//! - *Transactions between two phases* hold locks that the repartitioning waits for. One that began before it, and enters a
//!   queue concerned after it, is refused there, aborts and is retried: it neither waits for the repartitioning that waits
//!   for it nor overtakes it.
//! - *Transactions with resolved keys* are routed again with the others; if their keys belong to several executors now, the
//!   resolved keys are dropped.
//! - *Closures* are refused at the entry and request their locks again, before they hold any.
//! - *Deadlocks:* a repartitioning is a waiter like others, known to the detector, and never the victim: every cycle has a
//!   member that holds locks of an earlier entry, and is younger than every repartitioning.
//!
//! # Source
//! DORA (VLDB 2010), appendix A.2.1.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::Executors;
use super::executor::Work;
use super::flow_graph::Countdown;
use super::resource_manager::ResourceManager;
use super::row_counts::RowCounter;
use crate::base::atomics::{AtomicU64, Ordering};
use crate::error::{Error, Result};
use crate::protocol::local::OwnerId;
use crate::protocol::local::local_lock::LocalLock;
use crate::protocol::local::lock_table::LockRequest;
use crate::protocol::local::partition_map::{Route, executors_that_change, range_of};

/// One change of the partition map.
pub(super) struct Repartitioning {
    pub(super) owner: OwnerId,
    pub(super) route: Route,
    /// New starts of the ranges of all executors but the first.
    starts: Vec<u64>,
    pub(super) countdown: Countdown,
    ended: Mutex<bool>,
    changed: Condvar,
}

impl Repartitioning {
    fn new(route: Route, starts: Vec<u64>) -> Arc<Repartitioning> {
        let countdown = Countdown::new(route.len());
        let (ended, changed) = (Mutex::new(false), Condvar::new());
        Arc::new(Repartitioning { owner: OwnerId::new(), countdown, route, starts, ended, changed })
    }

    /// Its lock request at an executor. It is older than every transaction.
    pub(super) fn request(self: Arc<Repartitioning>) -> LockRequest<Work> {
        let (owner, locks) = (self.owner, vec![LocalLock::on_everything()]);
        let task = Work::Repartitioning(self);
        LockRequest { owner, start_timestamp: 0, locks, instant: false, task }
    }

    /// The hashes that an executor owns from now on.
    pub(super) fn range_of(&self, executor: usize) -> RangeInclusive<u64> {
        range_of(&self.starts, executor)
    }

    /// All executors concerned have drained.
    pub(super) fn end(&self) {
        *self.ended.lock() = true;
        self.changed.notify_all();
    }

    fn has_ended(&self) -> bool {
        *self.ended.lock()
    }

    fn wait(&self) {
        let mut ended = self.ended.lock();
        while !*ended {
            self.changed.wait(&mut ended);
        }
    }
}

/// The repartitionings so far.
pub(super) struct Repartitionings {
    /// The last one; locked while another one begins.
    last: Mutex<Option<Arc<Repartitioning>>>,
    /// Number of repartitionings that have changed the range of each executor.
    counts: Box<[AtomicU64]>,
}

impl Repartitionings {
    pub(super) fn new(executors: usize) -> Repartitionings {
        let counts = (0..executors).map(|_| AtomicU64::new(0)).collect();
        Repartitionings { last: Mutex::new(None), counts }
    }

    /// Number of repartitionings that have changed the range of this executor.
    pub(super) fn of(&self, executor: usize) -> u64 {
        // Relaxed: statistics.
        self.counts[executor].load(Ordering::Relaxed)
    }
}

/// The resource manager and what it observes.
pub(super) struct Rebalancing {
    manager: ResourceManager,
    rows: RowCounter,
    observed: Instant,
}

impl Rebalancing {
    pub(super) fn new(executors: usize, chooses_number: bool) -> Rebalancing {
        let manager = ResourceManager::new(executors, chooses_number);
        Rebalancing { manager, rows: RowCounter::default(), observed: Instant::now() }
    }

    /// Adds what has happened since the last observation.
    fn observe(&mut self, executors: &Executors) {
        let elapsed = std::mem::replace(&mut self.observed, Instant::now()).elapsed();
        let of = |executor: usize| (&*executors.requests[executor], executors.queues.busy(executor));
        self.manager.collect(elapsed, (0..executors.len()).map(of));
        if !executors.is_balanced || !self.manager.is_idle() {
            return;
        }
        if let Some(engine) = executors.engine.upgrade() {
            match self.rows.observe(engine.store()) {
                Some(rows) => self.manager.set_rows(rows),
                None => self.manager.set_rows_at_least(self.rows.seen()),
            }
        }
    }
}

impl Executors {
    /// Changes the partition map to what `choose` returns. The repartitioning, which has not ended.
    fn begin_repartitioning(
        &self,
        choose: impl FnOnce(&[u64]) -> Option<Vec<u64>>,
    ) -> Result<Option<Arc<Repartitioning>>> {
        let mut last = self.repartitionings.last.lock();
        let present = self.map.starts();
        let Some(starts) = choose(&present) else { return Ok(None) };
        let route = executors_that_change(&present, &starts);
        if route.is_empty() {
            return Ok(None);
        }
        let change = Repartitioning::new(route, starts);
        let work = |&executor| (executor, Work::Repartitioning(change.clone()));
        let entries = change.route.iter().map(work).collect();
        if !self.queues.repartition(entries, || self.map.change(&change.starts)) {
            return Err(Error::Closed);
        }
        for &executor in &change.route {
            // Relaxed: statistics.
            self.repartitionings.counts[executor].fetch_add(1, Ordering::Relaxed);
        }
        *last = Some(change.clone());
        Ok(Some(change))
    }

    /// Changes the partition map such that the ranges of all executors but the first begin at these hashes, which ascend.
    /// Returns when the executors concerned have drained.
    ///
    /// # Errors
    /// The database is being closed.
    pub(crate) fn repartition(&self, starts: &[u64]) -> Result<()> {
        if let Some(change) = self.begin_repartitioning(|_| Some(starts.to_vec()))? {
            change.wait();
        }
        Ok(())
    }

    /// Begins a repartitioning that balances the load, if it is uneven and no other repartitioning is active.
    pub(crate) fn balance(&self) {
        let mut rebalancing = self.rebalancing.lock();
        rebalancing.observe(self);
        let is_active = self.repartitionings.last.lock().as_ref().is_some_and(|last| !last.has_ended());
        if self.is_balanced && !is_active {
            // While the database is being closed, the map stays as it is.
            let _ = self.begin_repartitioning(|present| rebalancing.manager.plan(present));
        }
    }

    /// The starts of the ranges of all executors but the first; each executor's share of the recent requests; the
    /// number of changes of each executor's range.
    pub(crate) fn partitions(&self) -> (Vec<u64>, Vec<f64>, Vec<u64>) {
        let starts = self.map.starts();
        let mut shares = self.rebalancing.lock().manager.shares(&starts);
        let all = shares.iter().sum::<f64>().max(1.0);
        shares.iter_mut().for_each(|share| *share /= all);
        (starts, shares, (0..self.len()).map(|executor| self.repartitionings.of(executor)).collect())
    }
}
