//! Transactions over several executors: the phases of the flow graph and what meets at their rendezvous points.
//!
//! There are two plans with the same result:
//!
//! - **Parallel:** each executor runs its actions of a phase at the same time as others. The last one to report is at the
//!   rendezvous point: it computes the keys that depend on values and starts the next phase, or after the last phase joins the
//!   fragments and commits.
//! - **Serial:** the actions of a phase run one after another in *steps*: the transaction goes from executor to executor with
//!   one fragment. No action starts behind one that has failed.
//!
//! A transaction enters the queues of its executors once, with all locks whose partition is known, those of later phases
//! included; locks whose partition depends on values are *deferred* to their phase. Transactions without deferred locks never
//! deadlock, keep their order in the queues, and retry with their locks held: so an executor acquires its locks even if the attempt
//! has failed elsewhere before.
//!
//! A phase is serial regardless of the plan, and so are those after it, if its actions have to see each other's writes
//! across executors: an action on rows of several executors, and one that writes a table with secondary indexes (whose
//! records belong to no executor) if a later phase, or another executor's action of this phase, accesses the same table.
//!
//! # Invariants
//! - A transaction returns what its actions, run in order, would have returned: rows and values are put into the order of
//!   the actions, and of several errors the first action's is reported. An action is skipped only if one before it has failed.
//! - An attempt beyond [`MAX_OPTIMISTIC_ATTEMPTS`] locks everything at all executors, and so runs alone: no transaction starves.
//!
//! # Source
//! DORA (VLDB 2010), sections 4.1.2 (transaction flow graphs), 4.2.4 (aborted transactions) and 5.4 (serial plans).

mod countdown;
mod results;
mod steps;

use std::mem::take;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::batch::Incoming;
use super::executor::Work;
use super::executor_queues::Entries;
use crate::base::atomics::AtomicUsize;
use crate::pipeline::execute::keep_panics_in;
use crate::protocol::MAX_OPTIMISTIC_ATTEMPTS;
use crate::protocol::footprint::Footprint;
use crate::protocol::local::OwnerId;
use crate::protocol::local::local_lock::{LocalLock, is_index_read, partition_hash_of};
use crate::protocol::local::partition_map::{PartitionMap, Route};
use crate::storage::foreign_keys::Reach;
use crate::types::Value;
use crate::types::values::Values;

pub(super) use countdown::Countdown;
pub(super) use results::Failure;
use results::PhaseResults;
use steps::{Step, accesses_table_of, last_step, shares_an_index, steps, writes_indexes};

/// A transaction over several executors.
pub(super) struct Flow {
    pub(super) incoming: Incoming,
    /// Time of the first attempt: of two in a deadlock the younger is the victim.
    pub(super) start_timestamp: u64,
}

/// The locks with which an attempt enters.
struct EntryLocks {
    /// The owner of each reference at the entry; `None` if there are several executors, or it is not known yet.
    owners: Box<[Option<usize>]>,
    /// True for each reference whose lock is requested in its phase.
    deferred: Box<[bool]>,
    /// The executors of the locks that are not deferred.
    route: Route,
}

impl EntryLocks {
    /// `is_alone`: the attempt locks everything at all executors.
    fn new(flow: &Flow, is_alone: bool, map: &PartitionMap) -> EntryLocks {
        let footprint = &flow.incoming.footprint;
        let parts = flow.incoming.routine.parts();
        let is_deferred = |number: usize| {
            let reference = &footprint.references[number];
            partition_hash_of(reference).is_none() && parts.is_led(footprint, number)
        };
        let deferred: Box<[bool]> =
            (0..footprint.references.len()).map(|number| !is_alone && is_deferred(number)).collect();
        let hashes: Vec<Option<u64>> = footprint.references.iter().map(partition_hash_of).collect();
        let owners = hashes.iter().map(|hash| hash.map(|hash| map.owner(hash))).collect();
        let known = footprint.references.iter().zip(&hashes).zip(&deferred);
        let locked = known.filter(|((one, _), deferred)| !**deferred && !is_index_read(one));
        let locked = locked.map(|((_, hash), _)| *hash);
        let mut route = if is_alone { map.route([None].into_iter()) } else { map.route(locked) };
        if route.is_empty() {
            // It only reads by indexes at first, which belong to no executor.
            route.push(map.round_robin(flow.start_timestamp));
        }
        EntryLocks { owners, deferred, route }
    }
}

/// The locks that a phase requests of its executors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Requests {
    /// The locks of the entry.
    Entry,
    /// The deferred locks of its actions.
    Deferred,
    /// None: its locks are held.
    Nothing,
}

/// One phase of one attempt.
pub(super) struct Phase {
    pub(super) flow: Arc<Flow>,
    pub(super) owner: OwnerId,
    /// 1 for the first attempt.
    pub(super) attempt: u32,
    /// The version of the partition map when the attempt began. If a range changes that a later phase needs, the attempt is
    /// aborted and retried.
    pub(super) version: u64,
    number: usize,
    entry: Arc<EntryLocks>,
    /// True if the locks of the entry are held or requested.
    has_entered: bool,
    pub(super) requests: Requests,
    /// The footprint as far as its keys are known.
    pub(super) footprint: Arc<Footprint>,
    pub(super) values: Arc<Values>,
    /// The references of this phase.
    range: Range<usize>,
    /// The owner of each of them; `None` if there are several executors.
    owners: Vec<Option<usize>>,
    /// The executors of this phase, and those of this phase and all before it.
    pub(super) route: Route,
    pub(super) involved: Route,
    /// True if its actions run one after another, on one fragment.
    pub(super) is_serial: bool,
    steps: Vec<Step>,
    /// True if the attempt has locked everything at all executors: the last resort against starvation, and where
    /// foreign keys change rows that are not declared.
    pub(super) runs_alone: bool,
    /// True if the attempt was parked in an earlier phase.
    was_parked: bool,
    pub(super) countdown: Countdown,
    /// The first action that has failed.
    failed_at: AtomicUsize,
    results: Mutex<PhaseResults>,
}

/// The successor of a phase.
pub(super) enum AfterPhase {
    /// The next phase.
    Next(Arc<Phase>),
    /// The end of the attempt: its failure, if it has one, and the rows that it returns.
    Conclude(Option<Failure>, Vec<Vec<Value>>),
}

impl Phase {
    /// The first phase of an attempt. `version`: of the map, read before.
    pub(super) fn first(
        flow: Arc<Flow>,
        attempt: u32,
        is_serial: bool,
        version: u64,
        map: &PartitionMap,
    ) -> Arc<Phase> {
        let reach = flow.incoming.footprint.reach();
        let runs_alone = attempt > MAX_OPTIMISTIC_ATTEMPTS || reach == Reach::Writes;
        let entry = Arc::new(EntryLocks::new(&flow, runs_alone, map));
        // Foreign keys are followed by one fragment, which has all that the transaction has written.
        let is_one = reach != Reach::Nothing || flow.incoming.routine.parts().is_one_body();
        let is_serial = is_serial || runs_alone || is_one;
        let mut before = Phase::before(flow, OwnerId::new(), attempt, is_serial, version, entry);
        before.runs_alone = runs_alone;
        before.begin(map)
    }

    /// The first phase of another attempt, with all locks held; `None` if some were deferred, or it is time to run
    /// alone.
    pub(super) fn again(&self, map: &PartitionMap) -> Option<Arc<Phase>> {
        let has_deferred = self.entry.deferred.contains(&true);
        if has_deferred || self.attempt >= MAX_OPTIMISTIC_ATTEMPTS {
            return None;
        }
        let (flow, entry, attempt) = (self.flow.clone(), self.entry.clone(), self.attempt + 1);
        let mut before = Phase::before(flow, self.owner, attempt, self.is_serial, self.version, entry);
        before.has_entered = true;
        before.runs_alone = self.runs_alone;
        before.involved = self.involved.clone();
        before.was_parked = self.was_parked();
        Some(before.begin(map))
    }

    /// The state before the first phase.
    fn before(
        flow: Arc<Flow>,
        owner: OwnerId,
        attempt: u32,
        is_serial: bool,
        version: u64,
        entry: Arc<EntryLocks>,
    ) -> Phase {
        Phase {
            footprint: Arc::new(flow.incoming.footprint.clone()),
            flow,
            owner,
            attempt,
            version,
            number: 0,
            entry,
            has_entered: false,
            requests: Requests::Entry,
            values: Arc::default(),
            range: 0..0,
            owners: Vec::new(),
            route: Route::new(),
            involved: Route::new(),
            is_serial,
            steps: Vec::new(),
            runs_alone: false,
            was_parked: false,
            countdown: Countdown::new(1),
            failed_at: AtomicUsize::new(usize::MAX),
            results: Mutex::default(),
        }
    }

    fn begin(mut self, map: &PartitionMap) -> Arc<Phase> {
        match self.enter(0, &mut PhaseResults::default(), map) {
            AfterPhase::Next(phase) => phase,
            AfterPhase::Conclude(failure, _) => {
                // There is nothing to run: one executor concludes the transaction.
                self.number = self.flow.incoming.routine.parts().phases();
                self.requests = if self.has_entered { Requests::Nothing } else { Requests::Entry };
                self.route = if self.has_entered {
                    Route::from_slice(&[self.entry.route[0]])
                } else {
                    self.entry.route.clone()
                };
                self.involved = self.entry.route.clone();
                self.countdown = Countdown::new(self.route.len());
                self.results.get_mut().failure = failure.map(|failure| (0, failure));
                Arc::new(self)
            }
        }
    }

    /// The first phase from `number` on that has actions.
    fn enter(&self, mut number: usize, results: &mut PhaseResults, map: &PartitionMap) -> AfterPhase {
        let parts = self.flow.incoming.routine.parts();
        let mut values = self.values.clone();
        for (_, gathered) in &mut results.gathered {
            if !gathered.fresh.is_empty() {
                Arc::make_mut(&mut values).take(&mut gathered.fresh);
            }
            results.rows.append(&mut gathered.rows);
        }
        results.gathered.clear();
        let mut range = 0..0;
        while number < parts.phases() {
            range = parts.references(&self.footprint, number);
            if !range.is_empty() {
                break;
            }
            number += 1;
        }
        if number >= parts.phases() {
            return AfterPhase::Conclude(None, take(&mut results.rows));
        }
        let mut footprint = self.footprint.clone();
        let is_led = |reference: &usize| parts.is_led(&self.footprint, *reference);
        if range.clone().any(|reference| is_led(&reference)) {
            let footprint = Arc::make_mut(&mut footprint);
            let args = &self.flow.incoming.args;
            let resolved = keep_panics_in(|| {
                let mut all = range.clone().filter(is_led);
                all.try_for_each(|reference| parts.lead(args, &values, reference, footprint))
            });
            if let Err(error) = resolved {
                return AfterPhase::Conclude(Some(error.into()), Vec::new());
            }
        }
        AfterPhase::Next(Arc::new(self.next(number, (footprint, values, range), results, map)))
    }

    fn next(
        &self,
        number: usize,
        (footprint, values, range): (Arc<Footprint>, Arc<Values>, Range<usize>),
        results: &mut PhaseResults,
        map: &PartitionMap,
    ) -> Phase {
        let references = &footprint.references[range.clone()];
        let any = self.entry.route[0];
        let owner = |number: usize| match &footprint.references[number] {
            reference if is_index_read(reference) => Some(any),
            _ if !self.entry.deferred[number] => self.entry.owners[number],
            reference => partition_hash_of(reference).map(|hash| map.owner(hash)),
        };
        let owners: Vec<_> = range.clone().map(owner).collect();
        let requests = match self.entry.deferred[range.clone()].contains(&true) {
            _ if !self.has_entered => Requests::Entry,
            true => Requests::Deferred,
            false => Requests::Nothing,
        };
        let route = self.route_of(requests, &owners, map);
        let later = &footprint.references[range.end..];
        let is_serial = self.is_serial
            || owners.contains(&None)
            || shares_an_index(references, &owners)
            || references.iter().any(|one| writes_indexes(one) && accesses_table_of(later, one));
        let mut involved = self.involved.clone();
        involved.extend(route.iter().copied());
        involved.sort_unstable();
        involved.dedup();
        Phase {
            flow: self.flow.clone(),
            owner: self.owner,
            attempt: self.attempt,
            version: self.version,
            number,
            entry: self.entry.clone(),
            has_entered: true,
            requests,
            is_serial,
            steps: match () {
                () if self.flow.incoming.routine.parts().is_one_body() => {
                    last_step(range.clone(), &owners, any)
                }
                () if is_serial => steps(range.start, &owners, any),
                () => Vec::new(),
            },
            runs_alone: self.runs_alone,
            was_parked: self.was_parked(),
            countdown: Countdown::new(route.len()),
            footprint,
            values,
            range,
            owners,
            route,
            involved,
            failed_at: AtomicUsize::new(usize::MAX),
            results: Mutex::new(take(results)),
        }
    }

    /// The executors of a phase whose actions have these owners.
    fn route_of(&self, requests: Requests, owners: &[Option<usize>], map: &PartitionMap) -> Route {
        let mut route = match requests {
            Requests::Entry => return self.entry.route.clone(),
            // An action without one owner locks at all executors.
            Requests::Deferred if owners.contains(&None) => return map.route([None].into_iter()),
            Requests::Deferred | Requests::Nothing => Route::new(),
        };
        route.extend(owners.iter().map(|owner| owner.unwrap_or(self.entry.route[0])));
        route.sort_unstable();
        route.dedup();
        route
    }

    /// Returns true if it holds locks of an earlier entry.
    pub(super) fn is_later(&self) -> bool {
        self.requests != Requests::Entry
    }

    /// The entries for its executors' queues.
    pub(super) fn entries(self: &Arc<Phase>) -> Entries<Work> {
        self.route.iter().map(|&executor| (executor, Work::Phase(self.clone()))).collect()
    }

    /// The locks that it requests of an executor.
    pub(super) fn locks_at(&self, executor: usize) -> Vec<LocalLock> {
        if self.runs_alone {
            return vec![LocalLock::on_everything()];
        }
        let all = &self.footprint.references;
        let is_here = |owner: Option<usize>| owner.is_none_or(|owner| owner == executor);
        let numbers: Vec<usize> = match self.requests {
            Requests::Nothing => return Vec::new(),
            Requests::Entry => (0..all.len())
                .filter(|&number| !self.entry.deferred[number] && is_here(self.entry.owners[number]))
                .collect(),
            Requests::Deferred => {
                self.actions_at(executor).filter(|&number| self.entry.deferred[number]).collect()
            }
        };
        let locked = numbers.into_iter().map(|number| &all[number]).filter(|one| !is_index_read(one));
        locked.map(LocalLock::of_reference).collect()
    }

    /// The references that an executor owns, or has a part of.
    pub(super) fn actions_at(&self, executor: usize) -> impl Iterator<Item = usize> + '_ {
        let owned = self.range.clone().zip(&self.owners);
        owned.filter(move |(_, owner)| owner.is_none_or(|owner| owner == executor)).map(|(number, _)| number)
    }

    /// The executor and the actions of a step; `None` if there are no more, or an action has failed.
    pub(super) fn step(&self, number: usize) -> Option<(usize, Range<usize>)> {
        let step = self.steps.get(number)?;
        (!self.is_aborted_before(step.actions.start)).then(|| (step.executor, step.actions.clone()))
    }

    /// Returns true if the attempt was ever parked.
    pub(super) fn was_parked(&self) -> bool {
        self.was_parked || self.countdown.was_parked()
    }

    /// The successor of this phase, whose actions have all run.
    pub(super) fn after(&self, map: &PartitionMap) -> AfterPhase {
        let mut results = self.results.lock();
        results.gathered.sort_by_key(|(action, _)| *action);
        if let Some((_, failure)) = results.failure.take() {
            return AfterPhase::Conclude(Some(failure), Vec::new());
        }
        self.enter(self.number + 1, &mut results, map)
    }
}
