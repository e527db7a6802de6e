//! An executor's lock table, with the lock requests that are parked in it.
//!
//! A request names all its locks at once and gets all of them or is parked. The executor itself never blocks.
//!
//! # Invariants
//! - Two owners never hold conflicting locks.
//! - **First come, first served:** a request never overtakes a parked request that it conflicts with. The one exception
//!   keeps a transaction from waiting for itself: an owner that holds a lock that the parked request waits for does not
//!   queue behind that request.
//! - A parked request reports its *nearest* blockers to the deadlock detector. Behind an exclusive request for the same
//!   identifier that request alone is enough, because it waits for all before it (unless its owner holds a lock here and
//!   the exception may apply: then the search goes on). When a reported blocker ends, the next nearest are reported. So
//!   every transaction that the request waits for is reachable, no other is, and a request need not be examined again as
//!   long as one of its reported blockers is alive.
//! - A request of *instant* duration holds nothing: its task runs to its end as soon as it is granted, before the executor
//!   does anything else.
//!
//! # Concurrency
//! The table belongs to one thread; it has no latch.
//!
//! # Source
//! DORA (VLDB 2010), section 4.1.3; instant duration as in ARIES.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::local_lock::{Identifier, LocalLock};
use crate::lock::OwnerId;
use crate::storage::table::TableId;

/// A request for several locks.
pub(crate) struct LockRequest<T> {
    pub(crate) owner: OwnerId,
    /// The timestamp of its transaction's first attempt.
    pub(crate) start_timestamp: u64,
    pub(crate) locks: Vec<LocalLock>,
    /// True if its locks have instant duration: nothing is held, because the task runs at once.
    pub(crate) instant: bool,
    /// The task that the executor runs when the request is granted.
    pub(crate) task: T,
}

impl<T> LockRequest<T> {
    fn waiting_for(&self, blockers: &[OwnerId]) -> Waiting {
        Waiting { owner: self.owner, start_timestamp: self.start_timestamp, blockers: blockers.to_vec() }
    }
}

/// The answer to a request.
pub(crate) enum Acquired<T> {
    /// All locks are granted: the task can run.
    Granted(T),
    /// The request is parked.
    Parked(Waiting),
}

/// A parked owner and its nearest blockers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) owner: OwnerId,
    pub(crate) start_timestamp: u64,
    pub(crate) blockers: Vec<OwnerId>,
}

/// The grants and the new waits that a release causes.
pub(crate) struct Released<T> {
    /// The tasks that are granted now, with their owners, in the order of arrival.
    pub(crate) granted: Vec<(OwnerId, T)>,
    /// Requests that now wait for other owners.
    pub(crate) waiting: Vec<Waiting>,
}

/// The lock table of one executor; see the module's description.
pub(crate) struct LocalLockTable<T> {
    entries: BTreeMap<Identifier, Entry>,
    /// The number of entries that are no whole keys, by table and length.
    prefixes: BTreeMap<(Option<TableId>, usize), usize>,
    /// Parked requests by arrival.
    parked: BTreeMap<u64, Parked<T>>,
    /// The locks that each owner holds here.
    held: HashMap<OwnerId, Vec<LocalLock>, FixedState>,
    arrivals: u64,
    /// Locks that have had an entry, held or waited for, since [`take_entered`](Self::take_entered).
    entered: u64,
}

struct Parked<T> {
    request: LockRequest<T>,
    blockers: Vec<OwnerId>,
}

/// The claims on an identifier, held and waiting; the waiting ones in the order of arrival.
struct Entry {
    whole: bool,
    claims: SmallVec<[Claim; 2]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Claim {
    owner: OwnerId,
    exclusive: bool,
    /// The arrival of the parked request that it belongs to; `None` if it is held.
    arrival: Option<u64>,
}

impl<T> Default for LocalLockTable<T> {
    fn default() -> LocalLockTable<T> {
        LocalLockTable {
            entries: BTreeMap::new(),
            prefixes: BTreeMap::new(),
            parked: BTreeMap::new(),
            held: HashMap::default(),
            arrivals: 0,
            entered: 0,
        }
    }
}

impl<T> LocalLockTable<T> {
    /// Returns true if no lock is held or waited for: then every request would be granted.
    pub(crate) fn is_idle(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes the count of locks that have had an entry since the last time. A request that is granted for an instant at once has
    /// none: no lock is taken for it.
    pub(crate) fn take_entered(&mut self) -> u64 {
        std::mem::take(&mut self.entered)
    }

    /// Acquires locks, or parks the request.
    pub(crate) fn acquire(&mut self, request: LockRequest<T>) -> Acquired<T> {
        self.arrivals += 1;
        let arrival = self.arrivals;
        let blockers = self.blockers(&request, arrival);
        if blockers.is_empty() {
            return Acquired::Granted(self.grant(request));
        }
        for lock in &request.locks {
            self.insert_claim(lock, request.owner, Some(arrival));
        }
        if request.instant {
            // It is granted for an instant later; others are counted when they are granted.
            self.entered += request.locks.len() as u64;
        }
        let waiting = request.waiting_for(&blockers);
        self.parked.insert(arrival, Parked { request, blockers });
        Acquired::Parked(waiting)
    }

    /// Releases all locks of an owner.
    pub(crate) fn release(&mut self, owner: OwnerId) -> Released<T> {
        let locks = self.held.remove(&owner).unwrap_or_default();
        locks.iter().for_each(|lock| self.remove_claim(lock, owner, None));
        self.grant_waiters(owner, &locks)
    }

    /// Cancels an owner's parked request: its task, if there is one.
    pub(crate) fn cancel(&mut self, owner: OwnerId) -> (Option<T>, Released<T>) {
        let mut all = self.parked.iter();
        let arrival = all.find(|(_, parked)| parked.request.owner == owner).map(|(&arrival, _)| arrival);
        match arrival.and_then(|arrival| self.unpark(arrival)) {
            None => (None, Released { granted: Vec::new(), waiting: Vec::new() }),
            Some(request) => {
                let released = self.grant_waiters(owner, &request.locks);
                (Some(request.task), released)
            }
        }
    }

    /// The task of an owner's latest parked request.
    pub(crate) fn parked_task(&self, owner: OwnerId) -> Option<&T> {
        let mut requests = self.parked.values().rev().map(|parked| &parked.request);
        requests.find(|request| request.owner == owner).map(|request| &request.task)
    }

    /// The blockers of a parked owner.
    pub(crate) fn waiting(&self, owner: OwnerId) -> Option<Waiting> {
        let mut parked = self.parked.values().filter(|parked| parked.request.owner == owner);
        parked.next().map(|parked| parked.request.waiting_for(&parked.blockers))
    }

    fn grant(&mut self, request: LockRequest<T>) -> T {
        if !request.instant {
            self.entered += request.locks.len() as u64;
            request.locks.iter().for_each(|lock| self.insert_claim(lock, request.owner, None));
            self.held.entry(request.owner).or_default().extend(request.locks);
        }
        request.task
    }

    /// Grants the parked requests that can be granted now that an owner has released these locks.
    fn grant_waiters(&mut self, ended: OwnerId, released: &[LocalLock]) -> Released<T> {
        let (mut granted, mut waiting) = (Vec::new(), Vec::new());
        let mut ended_owners = vec![ended];
        let mut candidates = BTreeSet::new();
        self.add_candidates(released, &mut candidates);
        while let Some(arrival) = candidates.pop_first() {
            let Some(parked) = self.parked.get(&arrival) else { continue };
            if !parked.blockers.iter().any(|blocker| ended_owners.contains(blocker)) {
                continue;
            }
            let blockers = self.blockers(&parked.request, arrival);
            if !blockers.is_empty() {
                waiting.push(parked.request.waiting_for(&blockers));
                if let Some(parked) = self.parked.get_mut(&arrival) {
                    parked.blockers = blockers;
                }
                continue;
            }
            let Some(request) = self.unpark(arrival) else { continue };
            if request.instant {
                // An instant request is never released: requests behind it are examined now.
                ended_owners.push(request.owner);
                self.add_candidates(&request.locks, &mut candidates);
            }
            granted.push((request.owner, self.grant(request)));
        }
        Released { granted, waiting }
    }

    /// Adds the parked requests that overlap one of these locks.
    fn add_candidates(&self, released: &[LocalLock], candidates: &mut BTreeSet<u64>) {
        if self.parked.is_empty() {
            return;
        }
        for lock in released {
            self.for_each_overlapping(lock, |entry| {
                candidates.extend(entry.claims.iter().filter_map(|claim| claim.arrival))
            });
        }
    }

    fn unpark(&mut self, arrival: u64) -> Option<LockRequest<T>> {
        let request = self.parked.remove(&arrival)?.request;
        request.locks.iter().for_each(|lock| self.remove_claim(lock, request.owner, Some(arrival)));
        Some(request)
    }

    /// The nearest blockers of a request of this arrival.
    fn blockers(&self, request: &LockRequest<T>, arrival: u64) -> Vec<OwnerId> {
        let mut blockers = Vec::new();
        if self.entries.is_empty() {
            return blockers;
        }
        for lock in &request.locks {
            self.for_each_overlapping(lock, |entry| {
                self.add_blockers(entry, (request.owner, lock.exclusive), arrival, &mut blockers)
            });
        }
        blockers
    }

    fn add_blockers(
        &self,
        entry: &Entry,
        (owner, exclusive): (OwnerId, bool),
        arrival: u64,
        blockers: &mut Vec<OwnerId>,
    ) {
        let mut add = |claim: &Claim| {
            let conflicts = claim.owner != owner && (claim.exclusive || exclusive);
            if conflicts && !blockers.contains(&claim.owner) {
                blockers.push(claim.owner);
            }
            conflicts
        };
        let own = self.held.get(&owner);
        for claim in entry.claims.iter().rev() {
            let Some(other) = claim.arrival.filter(|other| *other < arrival) else { continue };
            if own.is_some_and(|own| self.waits_for(other, own)) {
                continue;
            }
            if add(claim) && claim.exclusive && !self.held.contains_key(&claim.owner) {
                // This request waits for all the others.
                return;
            }
        }
        entry.claims.iter().filter(|claim| claim.arrival.is_none()).for_each(|claim| _ = add(claim));
    }

    /// Returns true if the parked request of this arrival conflicts with one of these held locks.
    fn waits_for(&self, arrival: u64, held: &[LocalLock]) -> bool {
        let locks = self.parked.get(&arrival).map_or(&[][..], |parked| &parked.request.locks);
        locks.iter().any(|lock| held.iter().any(|held| held.conflicts(lock)))
    }

    /// Calls `look` for every entry that overlaps a lock.
    fn for_each_overlapping(&self, lock: &LocalLock, mut look: impl FnMut(&Entry)) {
        let identifier = &lock.identifier;
        if lock.whole {
            self.entries.get(identifier).into_iter().for_each(&mut look);
        } else {
            let covered = self.entries.range(identifier..).take_while(|(other, _)| identifier.covers(other));
            covered.for_each(|(_, entry)| look(entry));
        }
        for &(table, length) in self.prefixes.keys() {
            let is_prefix = match (table, identifier.table) {
                (None, Some(_)) => true,
                _ => table == identifier.table && length < identifier.key.len(),
            };
            if is_prefix {
                let key = identifier.key[..length].into();
                self.entries.get(&Identifier { table, key }).into_iter().for_each(&mut look);
            }
        }
    }

    fn insert_claim(&mut self, lock: &LocalLock, owner: OwnerId, arrival: Option<u64>) {
        let prefixes = &mut self.prefixes;
        let entry = self.entries.entry(lock.identifier.clone()).or_insert_with(|| {
            if !lock.whole {
                *prefixes.entry((lock.identifier.table, lock.identifier.key.len())).or_default() += 1;
            }
            Entry { whole: lock.whole, claims: SmallVec::new() }
        });
        entry.claims.push(Claim { owner, exclusive: lock.exclusive, arrival });
    }

    fn remove_claim(&mut self, lock: &LocalLock, owner: OwnerId, arrival: Option<u64>) {
        let Some(entry) = self.entries.get_mut(&lock.identifier) else { return };
        let removed = Claim { owner, exclusive: lock.exclusive, arrival };
        if let Some(at) = entry.claims.iter().position(|claim| *claim == removed) {
            entry.claims.remove(at);
        }
        if !entry.claims.is_empty() {
            return;
        }
        let whole = entry.whole;
        self.entries.remove(&lock.identifier);
        let kind = (lock.identifier.table, lock.identifier.key.len());
        if !whole && let Some(count) = self.prefixes.get_mut(&kind) {
            *count -= 1;
            if *count == 0 {
                self.prefixes.remove(&kind);
            }
        }
    }
}

#[cfg(test)]
mod tests;
