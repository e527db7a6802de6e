//! One executor's lock table, and the list of what is parked before it (DORA, section 4.1.3).
//!
//! Everything here belongs to one thread. A request asks for all that it wants at once, and gets all of it or is parked:
//! an executor never waits. What it keeps true:
//!
//! - Two owners never hold what conflicts.
//! - **First come, first served:** a later request never overtakes a parked one with which it conflicts. One exception,
//!   without which a call could wait for itself: who holds something that the parked one waits for need not queue
//!   behind it.
//! - Whom a parked request waits for is told for the search for deadlocks: the *nearest* of them. Behind an exclusive
//!   request for the same identifier, it is enough to name that one, which waits for all before it (but for one that
//!   holds something here, to which the exception may apply: then the look goes on). When one who was named has ended,
//!   the next nearest are told. So everybody whom it waits for can be reached, and nobody else; and as long as somebody
//!   who was named is there, there is nothing to reconsider.
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
    /// When its call was first tried.
    pub(crate) start_timestamp: u64,
    pub(crate) wants: Vec<Want>,
    /// Whether it is over when its task has run, so that it need not hold anything.
    pub(crate) brief: bool,
    /// What is to be done when it is granted.
    pub(crate) task: T,
}

impl<T> Request<T> {
    fn waiting_for(&self, blockers: &[OwnerId]) -> Waiting {
        Waiting { owner: self.owner, start_timestamp: self.start_timestamp, blockers: blockers.to_vec() }
    }
}

/// What becomes of a request.
pub(crate) enum Answer<T> {
    /// It is granted: do this.
    Granted(T),
    /// It is parked, and waits for somebody.
    Parked(Waiting),
}

/// Somebody who is parked, and the nearest of those for whom it waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) owner: OwnerId,
    pub(crate) start_timestamp: u64,
    pub(crate) blockers: Vec<OwnerId>,
}

/// What comes of somebody's end.
pub(crate) struct Freed<T> {
    /// What can be done now, in the order of arrival, and for whom.
    pub(crate) granted: Vec<(OwnerId, T)>,
    /// Who waits for others now.
    pub(crate) waiting: Vec<Waiting>,
}

/// See the module's description.
pub(crate) struct LocalLocks<T> {
    entries: BTreeMap<Identifier, Entry>,
    /// Of the entries that are no whole keys: how many there are of each table and length.
    beginnings: BTreeMap<(Option<TableId>, usize), usize>,
    /// What waits, by arrival.
    parked: BTreeMap<u64, Parked<T>>,
    /// What each owner holds here.
    held: HashMap<OwnerId, Vec<Want>, FixedState>,
    arrivals: u64,
}

struct Parked<T> {
    request: Request<T>,
    blockers: Vec<OwnerId>,
}

/// Who holds an identifier, or waits for it: those who wait, in the order of arrival.
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
        let waiting = request.waiting_for(&blockers);
        self.parked.insert(arrival, Parked { request, blockers });
        Answer::Parked(waiting)
    }

    /// Gives up what an owner holds.
    pub(crate) fn release(&mut self, owner: OwnerId) -> Freed<T> {
        let wants = self.held.remove(&owner).unwrap_or_default();
        wants.iter().for_each(|want| self.take_away(want, owner, None));
        self.reconsider(owner, &wants)
    }

    /// Takes what an owner has parked out: its task, if there is one.
    pub(crate) fn cancel(&mut self, owner: OwnerId) -> (Option<T>, Freed<T>) {
        let mut all = self.parked.iter();
        let arrival = all.find(|(_, parked)| parked.request.owner == owner).map(|(&arrival, _)| arrival);
        match arrival.and_then(|arrival| self.unpark(arrival)) {
            None => (None, Freed { granted: Vec::new(), waiting: Vec::new() }),
            Some(request) => {
                let freed = self.reconsider(owner, &request.wants);
                (Some(request.task), freed)
            }
        }
    }

    /// What an owner has parked last, and is parked still.
    pub(crate) fn parked_task(&self, owner: OwnerId) -> Option<&T> {
        let mut requests = self.parked.values().rev().map(|parked| &parked.request);
        requests.find(|request| request.owner == owner).map(|request| &request.task)
    }

    /// Whom an owner that is parked waits for.
    pub(crate) fn waiting(&self, owner: OwnerId) -> Option<Waiting> {
        let mut parked = self.parked.values().filter(|parked| parked.request.owner == owner);
        parked.next().map(|parked| parked.request.waiting_for(&parked.blockers))
    }

    fn grant(&mut self, request: Request<T>) -> T {
        if !request.brief {
            request.wants.iter().for_each(|want| self.put(want, request.owner, None));
            self.held.entry(request.owner).or_default().extend(request.wants);
        }
        request.task
    }

    /// Grants what can be granted, now that somebody has ended who had these.
    fn reconsider(&mut self, ended: OwnerId, freed: &[Want]) -> Freed<T> {
        let (mut granted, mut waiting) = (Vec::new(), Vec::new());
        let mut gone = vec![ended];
        let mut candidates = BTreeSet::new();
        self.add_candidates(freed, &mut candidates);
        while let Some(arrival) = candidates.pop_first() {
            let Some(parked) = self.parked.get(&arrival) else { continue };
            if !parked.blockers.iter().any(|blocker| gone.contains(blocker)) {
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
            if request.brief {
                // Nobody will release it: who queued behind it goes on now.
                gone.push(request.owner);
                self.add_candidates(&request.wants, &mut candidates);
            }
            granted.push((request.owner, self.grant(request)));
        }
        Freed { granted, waiting }
    }

    /// What is parked and wants something that one of these meets.
    fn add_candidates(&self, freed: &[Want], candidates: &mut BTreeSet<u64>) {
        if self.parked.is_empty() {
            return;
        }
        for want in freed {
            self.visit(want, |entry| {
                candidates.extend(entry.claims.iter().filter_map(|claim| claim.arrival))
            });
        }
    }

    fn unpark(&mut self, arrival: u64) -> Option<Request<T>> {
        let request = self.parked.remove(&arrival)?.request;
        request.wants.iter().for_each(|want| self.take_away(want, request.owner, Some(arrival)));
        Some(request)
    }

    /// The nearest of those for whom a request of this arrival has to wait.
    fn blockers(&self, request: &Request<T>, arrival: u64) -> Vec<OwnerId> {
        let mut blockers = Vec::new();
        if self.entries.is_empty() {
            return blockers;
        }
        for want in &request.wants {
            self.visit(want, |entry| {
                self.add_blockers(entry, (request.owner, want.exclusive), arrival, &mut blockers)
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
                // It waits for all the others.
                return;
            }
        }
        entry.claims.iter().filter(|claim| claim.arrival.is_none()).for_each(|claim| _ = add(claim));
    }

    /// Whether the parked request of this arrival waits for one of these.
    fn waits_for(&self, arrival: u64, held: &[Want]) -> bool {
        let wants = self.parked.get(&arrival).map_or(&[][..], |parked| &parked.request.wants);
        wants.iter().any(|want| held.iter().any(|held| held.conflicts(want)))
    }

    /// Looks at everything that meets what is wanted.
    fn visit(&self, want: &Want, mut look: impl FnMut(&Entry)) {
        let identifier = &want.identifier;
        if want.whole {
            self.entries.get(identifier).into_iter().for_each(&mut look);
        } else {
            let behind = self.entries.range(identifier..).take_while(|(other, _)| identifier.covers(other));
            behind.for_each(|(_, entry)| look(entry));
        }
        for &(table, length) in self.beginnings.keys() {
            let in_front = match (table, identifier.table) {
                (None, Some(_)) => true,
                _ => table == identifier.table && length < identifier.key.len(),
            };
            if in_front {
                let key = identifier.key[..length].into();
                self.entries.get(&Identifier { table, key }).into_iter().for_each(&mut look);
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
