//! Thread-to-data execution (DORA): executors own the data and run what touches it.
//!
//! ```text
//! worker's group ─► batches and phases ──────► all queues at once; each batch runs as one and returns as one
//! submit ─► route ─┬─ one executor's data ───► its queue ─► its local locks ─► actions, commit ─► output stage
//!                  └─ several executors' ────► their queues at once; the actions of a phase run at their executors;
//!                                              the last one to report enters the next phase, or commits
//! closure's commit ─► external locks ────────► as above; the caller's thread commits when all executors have granted
//! ```
//!
//! Each executor is a thread with a queue and a lock table (`protocol/local`). Only it accesses that table, so a lock
//! costs no latch; and it never blocks on a lock: a request that conflicts is parked.
//!
//! | file | content |
//! | --- | --- |
//! | [`executor`], [`executor_queues`] | an executor's thread; the executors' queues |
//! | [`batch`], [`worker_group`], [`outgoing`] | entries of the queues; groups of workers, sent in batches |
//! | [`credits`] | the bound on transactions of groups in flight |
//! | [`key_resolution`] | keys that depend on an index, found before routing |
//! | [`flow_graph`], [`rendezvous`] | the phases of a transaction over several executors; their execution and commit |
//! | [`external_locks`] | local locks of closures |
//! | [`repartitioning`], [`resource_manager`] | ranges that move between executors; when they do |
//!
//! # Invariants
//! No thread but its executor runs actions on a partition's rows ([`executor`]).
//!
//! # Source
//! DORA (VLDB 2010); docs/partitioned.md lists its parts.

pub(crate) mod batch;
mod credits;
pub(crate) mod executor;
pub(crate) mod executor_queues;
mod external_locks;
mod flow_graph;
mod fragment;
pub(crate) mod key_resolution;
mod outgoing;
mod pins;
pub(crate) mod plan;
mod rendezvous;
mod repartitioning;
mod resource_manager;
mod row_counts;
mod runnable_threads;
pub(crate) mod worker_group;

use std::sync::{Arc, Weak};
use std::thread;

use crossbeam_utils::CachePadded;
use parking_lot::Mutex;

use self::batch::Incoming;
use self::credits::Credits;
use self::executor::{Notice, Work};
use self::executor_queues::{ExecutorQueues, Refused};
use self::flow_graph::{Flow, Phase};
use self::key_resolution::KeyResolver;
use self::plan::Plan;
use self::repartitioning::{Rebalancing, Repartitionings};
use self::resource_manager::RequestCounts;
use crate::base::atomics::{AtomicU64, Ordering};
use crate::error::Error;
use crate::pipeline::call::Routine;
use crate::pipeline::engine::Engine;
use crate::protocol::footprint::{Footprint, Mode, Reference};
use crate::protocol::local::local_lock::{is_index_read, partition_hash_of};
use crate::protocol::local::partition_map::PartitionMap;
use crate::protocol::local::wait_edges::LocalWaits;
use crate::storage::foreign_keys::Reach;
use crate::types::Args;

/// Transactions of workers' groups in flight, for each executor: four groups of 32, one that runs and some that wait.
const CREDITS_EACH: usize = 128;

/// State shared by all executors.
pub(crate) struct Executors {
    engine: Weak<Engine>,
    queues: ExecutorQueues<Work, Notice>,
    map: PartitionMap,
    waits: LocalWaits,
    start_timestamps: AtomicU64,
    repartitionings: Repartitionings,
    /// The requests of each executor.
    requests: Box<[CachePadded<RequestCounts>]>,
    rebalancing: Mutex<Rebalancing>,
    /// Bounds the groups in flight.
    credits: Credits,
    /// True if the resource manager balances the load.
    is_balanced: bool,
    plan: Plan,
}

impl Executors {
    /// Makes this many executors of the engine, or fewer if `chooses_number`. `is_balanced`: the resource manager
    /// balances the load.
    pub(crate) fn new(
        engine: &Arc<Engine>,
        executors: usize,
        (is_balanced, chooses_number): (bool, bool),
        plan: Plan,
    ) -> Executors {
        // In models no thread spins: whether it would depends on the machine and the clock, and a schedule has to be repeatable.
        let available = || thread::available_parallelism().map_or(1, usize::from);
        let processors = if cfg!(heddle_model) { 0 } else { available() };
        Executors {
            engine: Arc::downgrade(engine),
            queues: ExecutorQueues::new(executors, processors),
            map: PartitionMap::new(executors),
            waits: LocalWaits::default(),
            start_timestamps: AtomicU64::new(0),
            repartitionings: Repartitionings::new(executors),
            requests: (0..executors).map(|_| CachePadded::default()).collect(),
            rebalancing: Mutex::new(Rebalancing::new(executors, chooses_number)),
            credits: Credits::new(CREDITS_EACH * executors),
            is_balanced,
            plan,
        }
    }

    /// The number of executors.
    pub(crate) fn len(&self) -> usize {
        self.queues.len()
    }

    /// The executor that owns this partition hash.
    pub(crate) fn owner_of(&self, hash: u64) -> usize {
        self.map.owner(hash)
    }

    /// The executor that owns everything that a transaction locks, if it is one. If the transaction writes at one executor
    /// only, rows of other executors that it reads by their whole keys are marked to be validated instead of locked, so that
    /// it need not wait for those executors.
    fn executor_of_all(&self, footprint: &mut Footprint) -> Option<usize> {
        let reach = footprint.reach();
        let references = &mut footprint.references;
        references.iter_mut().for_each(|one| one.validated = false);
        if reach == Reach::Writes {
            return None;
        }
        if let Some(executor) = self.common_owner(references) {
            return Some(executor);
        }
        let written = references.iter().find(|one| one.mode != Mode::Read);
        let writes = written.is_some();
        let home = match written.or_else(|| references.iter().find(|one| !is_index_read(one))) {
            Some(first) => self.owner_of_reference(first)?,
            None => self.map.round_robin(self.next_start_timestamp()),
        };
        let is_foreign = |one: &Reference| self.owner_of_reference(one) != Some(home) && !is_index_read(one);
        let can_validate = |one: &Reference| writes && one.mode == Mode::Read && one.whole;
        if references.iter().any(|one| is_foreign(one) && !can_validate(one)) {
            return None;
        }
        references.iter_mut().filter(|one| is_foreign(one)).for_each(|one| one.validated = true);
        Some(home)
    }

    /// The owner of all references, if they have one: the usual case, without index reads.
    #[inline]
    fn common_owner(&self, references: &[Reference]) -> Option<usize> {
        let mut hashes = references.iter().map(partition_hash_of);
        let Some(first) = hashes.next() else { return Some(0) };
        let owner = match first {
            Some(hash) => self.map.owner(hash),
            None if self.len() == 1 => 0,
            None => return None,
        };
        hashes
            .all(|hash| hash == first || hash.map_or(self.len() == 1, |hash| self.map.owner(hash) == owner))
            .then_some(owner)
    }

    fn owner_of_reference(&self, reference: &Reference) -> Option<usize> {
        partition_hash_of(reference).map(|hash| self.map.owner(hash))
    }

    /// Admits a transaction. False: the database is being closed.
    pub(crate) fn submit(&self, incoming: Incoming) -> bool {
        let mut incoming = Box::new(incoming);
        loop {
            let version = self.map.version();
            let Some(executor) = self.executor_of_all(&mut incoming.footprint) else {
                return self.submit_to_several(*incoming);
            };
            match self.queues.admit_batch(1, executor, version, incoming, Work::Whole) {
                Ok(()) => return true,
                Err(Refused::Closed(_)) => return false,
                Err(Refused::Misrouted(back)) => incoming = back,
            }
        }
    }

    /// Admits a transaction over several executors. False: the database is being closed.
    fn submit_to_several(&self, incoming: Incoming) -> bool {
        let is_open = self.queues.admit_without_entry();
        if is_open {
            self.enter_flow(Arc::new(self.new_flow(incoming)), 1);
        }
        is_open
    }

    fn new_flow(&self, incoming: Incoming) -> Flow {
        Flow { incoming, start_timestamp: self.next_start_timestamp() }
    }

    /// The first phase of an attempt, routed by the present map. `version`: of the map, read before.
    fn first_phase(&self, flow: Arc<Flow>, attempt: u32, version: u64) -> Arc<Phase> {
        let is_serial = self.plan.is_serial(flow.incoming.routine.failures());
        Phase::first(flow, attempt, is_serial, version, &self.map)
    }

    /// Enters an attempt of an active transaction over several executors. If the partition map changes meanwhile, the
    /// attempt is routed again.
    fn enter_flow(&self, flow: Arc<Flow>, attempt: u32) {
        loop {
            let version = self.map.version();
            let phase = self.first_phase(flow.clone(), attempt, version);
            if self.enter_phase(&phase) {
                return;
            }
        }
    }

    /// False: a range that concerns the phase has changed since the attempt began.
    fn enter_phase(&self, phase: &Arc<Phase>) -> bool {
        self.queues.enter(phase.version, phase.entries())
    }

    /// Resolves the keys of a transaction: the one executor that they lead to, if it is one; the footprint has the keys then.
    fn resolve_executor(
        &self,
        resolver: &mut KeyResolver<'_, '_>,
        (routine, args): (&dyn Routine, &Args),
        footprint: &mut Footprint,
    ) -> Option<usize> {
        if !resolver.resolve(routine, args, footprint) {
            return None;
        }
        let executor = self.executor_of_all(footprint);
        if executor.is_none() {
            // It has computed its keys before, from the same arguments.
            _ = key_resolution::forget(routine, args, footprint);
        }
        executor
    }

    /// Routes an active transaction phase by phase: one that was misrouted by key resolution, or was a deadlock's victim.
    ///
    /// # Errors
    /// The procedure's own, when it computes its keys again.
    fn route_again(&self, mut incoming: Box<Incoming>) -> Result<(), (Box<Incoming>, Error)> {
        let Incoming { routine, args, footprint, .. } = &mut *incoming;
        if let Err(error) = key_resolution::forget(&**routine, args, footprint) {
            return Err((incoming, error));
        }
        self.enter_flow(Arc::new(self.new_flow(*incoming)), 1);
        Ok(())
    }

    /// Admits no transactions any more; the executors end when the active ones have ended.
    pub(crate) fn close(&self) {
        self.queues.close();
    }

    /// Number of batch dequeues of transactions by executors, and of transactions dequeued.
    pub(crate) fn batches(&self) -> (u64, u64) {
        self.queues.batches()
    }

    fn next_start_timestamp(&self) -> u64 {
        // Relaxed: only uniqueness matters.
        self.start_timestamps.fetch_add(1, Ordering::Relaxed) + 1
    }
}
