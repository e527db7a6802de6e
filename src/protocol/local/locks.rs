//! One executor's lock table, and the list of what is parked before it (DORA, section 4.1.3).
//!
//! Everything here belongs to one thread. A request asks for all that it wants at once, and gets all of it or is parked:
//! an executor never waits. What it keeps true:
//!
//! - Two owners never hold what conflicts.
//! - **First come, first served:** a later request never overtakes a parked one with which it conflicts. One exception,
//!   without which a call could wait for itself: who holds something that the parked one waits for need not queue
//!   behind it.
//! - So whom a parked request waits for is known when it is parked: everybody who then holds, or waits for, what
//!   conflicts with it. Nobody comes to them later, and who leaves them has ended.
//!
//! A *brief* request holds nothing: it runs to its end as soon as it is granted, before the executor does anything else.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use smallvec::SmallVec;

use super::claim::{Identifier, Want};
use crate::lock::OwnerId;
use crate::storage::table::TableId;

/// What asks for locks.
pub(crate) struct Request<T> {
    pub(crate) owner: OwnerId,
    pub(crate) wants: Vec<Want>,
    /// Whether it is over when its task has run, so that it need not hold anything.
    pub(crate) brief: bool,
    /// What is to be done when it is granted.
    pub(crate) task: T,
}

/// What becomes of a request.
pub(crate) enum Answer<T> {
    /// It is granted: do this.
    Granted(T),
    /// It is parked, and waits for these.
    Parked(Vec<OwnerId>),
}

/// See the module's description.
pub(crate) struct LocalLocks<T> {
    entries: BTreeMap<Identifier, Entry>,
    /// Of the entries that are no whole keys: how many there are of each table and length.
    beginnings: BTreeMap<(Option<TableId>, usize), usize>,
    /// What waits, by arrival.
    parked: BTreeMap<u64, Request<T>>,
    /// What each owner holds here.
    held: HashMap<OwnerId, Vec<Want>, FixedState>,
    arrivals: u64,
}

/// Who holds an identifier, or waits for it.
struct Entry {
    whole: bool,
    claims: SmallVec<[Claim; 2]>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Claim {
    owner: OwnerId,
    exclusive: bool,
    /// Of the parked request that it belongs to; none: it is held.
    arrival: Option<u64>,
}

impl<T> Default for LocalLocks<T> {
    fn default() -> LocalLocks<T> {
        LocalLocks {
            entries: BTreeMap::new(),
            beginnings: BTreeMap::new(),
            parked: BTreeMap::new(),
            held: HashMap::default(),
            arrivals: 0,
        }
    }
}

impl<T> LocalLocks<T> {
    /// Whether nobody holds anything or waits: then every request is granted.
    pub(crate) fn is_idle(&self) -> bool {
        self.entries.is_empty()
    }

    /// Asks for locks.
    pub(crate) fn ask(&mut self, request: Request<T>) -> Answer<T> {
        self.arrivals += 1;
        let arrival = self.arrivals;
        let blockers = self.blockers(&request, arrival);
        if blockers.is_empty() {
            return Answer::Granted(self.grant(request));
        }
        for want in &request.wants {
            self.put(want, request.owner, Some(arrival));
        }
        self.parked.insert(arrival, request);
        Answer::Parked(blockers)
    }

    /// Gives up what an owner holds. What can be done now, in the order of arrival, and for whom.
    pub(crate) fn release(&mut self, owner: OwnerId) -> Vec<(OwnerId, T)> {
        let Some(wants) = self.held.remove(&owner) else { return Vec::new() };
        wants.iter().for_each(|want| self.take_away(want, owner, None));
        self.reconsider(&wants)
    }

    /// Takes what an owner has parked out: its task, if there is one, and what can be done now.
    pub(crate) fn cancel(&mut self, owner: OwnerId) -> (Option<T>, Vec<(OwnerId, T)>) {
        let arrival =
            self.parked.iter().find(|(_, request)| request.owner == owner).map(|(&arrival, _)| arrival);
        let Some(request) = arrival.and_then(|arrival| self.unpark(arrival)) else {
            return (None, Vec::new());
        };
        let granted = self.reconsider(&request.wants);
        (Some(request.task), granted)
    }

    /// What an owner has parked last, and is parked still.
    pub(crate) fn parked_task(&self, owner: OwnerId) -> Option<&T> {
        self.parked.values().rev().find(|request| request.owner == owner).map(|request| &request.task)
    }

    fn grant(&mut self, request: Request<T>) -> T {
        if !request.brief {
            request.wants.iter().for_each(|want| self.put(want, request.owner, None));
            self.held.entry(request.owner).or_default().extend(request.wants);
        }
        request.task
    }

    /// Grants what can be granted of what waits for something that one of these met.
    fn reconsider(&mut self, freed: &[Want]) -> Vec<(OwnerId, T)> {
        let mut granted = Vec::new();
        if self.parked.is_empty() {
            return granted;
        }
        let mut candidates = BTreeSet::new();
        self.add_candidates(freed, &mut candidates);
        while let Some(arrival) = candidates.pop_first() {
            let request = &self.parked[&arrival];
            if !self.blockers(request, arrival).is_empty() {
                continue;
            }
            let Some(request) = self.unpark(arrival) else { continue };
            if request.brief {
                // Nobody will release it: who queued behind it goes on now.
                self.add_candidates(&request.wants, &mut candidates);
            }
            granted.push((request.owner, self.grant(request)));
        }
        granted
    }

    /// What is parked and wants something that one of these meets.
    fn add_candidates(&self, freed: &[Want], candidates: &mut BTreeSet<u64>) {
        for want in freed {
            self.visit(want, |claim| candidates.extend(claim.arrival));
        }
    }

    fn unpark(&mut self, arrival: u64) -> Option<Request<T>> {
        let request = self.parked.remove(&arrival)?;
        request.wants.iter().for_each(|want| self.take_away(want, request.owner, Some(arrival)));
        Some(request)
    }

    /// Whom a request of this arrival has to wait for.
    fn blockers(&self, request: &Request<T>, arrival: u64) -> Vec<OwnerId> {
        let mut blockers = Vec::new();
        if self.entries.is_empty() {
            return blockers;
        }
        let own = self.held.get(&request.owner);
        for want in &request.wants {
            self.visit(want, |claim| {
                let conflicts = claim.owner != request.owner && (claim.exclusive || want.exclusive);
                let is_first = claim.arrival.is_none_or(|other| {
                    other < arrival && !own.is_some_and(|own| self.waits_for(other, own))
                });
                if conflicts && is_first && !blockers.contains(&claim.owner) {
                    blockers.push(claim.owner);
                }
            });
        }
        blockers
    }

    /// Whether the parked request of this arrival waits for one of these.
    fn waits_for(&self, arrival: u64, held: &[Want]) -> bool {
        let wants = self.parked.get(&arrival).map_or(&[][..], |request| &request.wants);
        wants.iter().any(|want| held.iter().any(|held| held.conflicts(want)))
    }

    /// Looks at every claim on something that meets what is wanted.
    fn visit(&self, want: &Want, mut look: impl FnMut(&Claim)) {
        let identifier = &want.identifier;
        if want.whole {
            self.entries.get(identifier).into_iter().flat_map(|entry| &entry.claims).for_each(&mut look);
        } else {
            let behind = self.entries.range(identifier..).take_while(|(other, _)| identifier.covers(other));
            behind.flat_map(|(_, entry)| &entry.claims).for_each(&mut look);
        }
        for &(table, length) in self.beginnings.keys() {
            let in_front = match (table, identifier.table) {
                (None, Some(_)) => true,
                _ => table == identifier.table && length < identifier.key.len(),
            };
            if in_front {
                let key = identifier.key[..length].into();
                let entry = self.entries.get(&Identifier { table, key });
                entry.into_iter().flat_map(|entry| &entry.claims).for_each(&mut look);
            }
        }
    }

    fn put(&mut self, want: &Want, owner: OwnerId, arrival: Option<u64>) {
        let beginnings = &mut self.beginnings;
        let entry = self.entries.entry(want.identifier.clone()).or_insert_with(|| {
            if !want.whole {
                *beginnings.entry((want.identifier.table, want.identifier.key.len())).or_default() += 1;
            }
            Entry { whole: want.whole, claims: SmallVec::new() }
        });
        entry.claims.push(Claim { owner, exclusive: want.exclusive, arrival });
    }

    fn take_away(&mut self, want: &Want, owner: OwnerId, arrival: Option<u64>) {
        let Some(entry) = self.entries.get_mut(&want.identifier) else { return };
        let gone = Claim { owner, exclusive: want.exclusive, arrival };
        if let Some(at) = entry.claims.iter().position(|claim| *claim == gone) {
            entry.claims.remove(at);
        }
        if !entry.claims.is_empty() {
            return;
        }
        let whole = entry.whole;
        self.entries.remove(&want.identifier);
        let kind = (want.identifier.table, want.identifier.key.len());
        if !whole && let Some(count) = self.beginnings.get_mut(&kind) {
            *count -= 1;
            if *count == 0 {
                self.beginnings.remove(&kind);
            }
        }
    }
}

#[cfg(test)]
mod tests;
