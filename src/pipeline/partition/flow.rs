//! A call over several executors: which way it goes, its phases, and where they meet (DORA, section 4.1.2).
//!
//! There are two ways, and the call's result is the same:
//!
//! - **In parallel** ([`Phase`]): the actions of a phase enter their executors' queues, all at once; each executor runs its
//!   own when it has locked what they declare. Who reports last is at the rendezvous point: it works out where the values
//!   lead, and enters the next phase; after the last one it joins the parts and commits.
//! - **One after the other** ([`Serial`]): everything that the call declares is locked at all executors concerned, at
//!   once, and who grants last runs the whole call.
//!
//! A call goes in parallel where each action belongs to one executor, or to none (it reads by a secondary index), or values
//! lead to it. What runs at its phase's rendezvous point instead, with all others of the phase, in their order: an action
//! over several executors' data that values lead to; and one that writes a table with secondary indexes, whose records
//! belong to no executor: if a later phase or another executor's action of this one might read or write the same. The parts
//! are joined then, and stay so.
//!
//! What it keeps true: what a call gives back is what its actions, run in order, would have given: rows and values are put
//! into the order of the actions, and of several errors the first action's is told: an action is left out only if one
//! before it has failed.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::entrant::Entrant;
use super::executor::Task;
use super::part::Part;
use super::queue::Entries;
use crate::base::atomics::{AtomicBool, AtomicUsize, Ordering};
use crate::error::{Error, Result};
use crate::pipeline::call::Gathered;
use crate::pipeline::execute::keep_panics_in;
use crate::protocol::footprint::{Footprint, Mode, Reference};
use crate::protocol::local::OwnerId;
use crate::protocol::local::claim::{Want, is_floating, place_of_reference};
use crate::protocol::local::routing::{Owners, Route, Routing};
use crate::protocol::local::waits::Entry;
use crate::types::Value;
use crate::types::values::Values;

/// A call over several executors.
pub(super) struct Flow {
    pub(super) entrant: Entrant,
    /// When it was first tried: of two in a deadlock the younger gives way.
    pub(super) start_timestamp: u64,
}

impl Flow {
    /// Whether its arguments tell where everything lies that it touches.
    pub(super) fn has_places(&self) -> bool {
        self.entrant.footprint.references.iter().all(|one| place_of_reference(one).is_some())
    }

    /// Whether its actions may run beside each other.
    pub(super) fn is_parallel(&self) -> bool {
        let footprint = &self.entrant.footprint;
        let parts = self.entrant.routine.parts();
        footprint.references.iter().enumerate().all(|(number, reference)| {
            place_of_reference(reference).is_some()
                || is_floating(reference)
                || parts.is_led(footprint, number)
        })
    }
}

/// One attempt of a call whose actions run one after the other.
pub(super) struct Serial {
    pub(super) flow: Arc<Flow>,
    pub(super) owner: OwnerId,
    /// Whose each of its references is.
    owners: Owners,
    pub(super) turn: Turn,
}

impl Serial {
    /// Routed by the boundaries as they are.
    pub(super) fn new(flow: Arc<Flow>, routing: &Routing) -> Serial {
        let mut owners = routing.owners(flow.entrant.footprint.references.iter().map(place_of_reference));
        if owners.route.is_empty() {
            // It touches nothing.
            owners.route.push(0);
        }
        Serial { flow, owner: OwnerId::new(), turn: Turn::new(owners.route.len()), owners }
    }

    /// The executors of everything that it declares.
    pub(super) fn route(&self) -> &Route {
        &self.owners.route
    }

    /// What it locks at an executor.
    pub(super) fn wants(&self, executor: usize) -> Vec<Want> {
        let references = &self.flow.entrant.footprint.references;
        self.owners.at(executor).map(|number| Want::of_reference(&references[number])).collect()
    }

    /// What it has for the queues.
    pub(super) fn entries(self) -> Entries<Task> {
        let serial = Arc::new(self);
        serial.route().iter().map(|&executor| (executor, Task::Serial(serial.clone()))).collect()
    }
}

/// What the executors of one step tell each other.
pub(super) struct Turn {
    /// So many have not reported yet.
    left: AtomicUsize,
    /// Whether the attempt was a deadlock's victim.
    marked_for_abort: AtomicBool,
    parked: AtomicBool,
}

impl Turn {
    pub(super) fn new(executors: usize) -> Turn {
        Turn {
            left: AtomicUsize::new(executors),
            marked_for_abort: AtomicBool::new(false),
            parked: AtomicBool::new(false),
        }
    }

    /// An executor has done its part. Whether it was the last.
    pub(super) fn report(&self) -> bool {
        // AcqRel: what the others have done is before what the last one does next.
        self.left.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// It is a deadlock's victim. Relaxed, as in all these: `report` orders it.
    pub(super) fn mark_for_abort(&self) {
        self.marked_for_abort.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_marked_for_abort(&self) -> bool {
        self.marked_for_abort.load(Ordering::Relaxed)
    }

    /// It is parked at one of these, to which it has come by its first entry.
    pub(super) fn note_parked(&self, route: &Route) -> Entry {
        self.parked.store(true, Ordering::Relaxed);
        if route.len() == 1 { Entry::Alone } else { Entry::First }
    }

    pub(super) fn was_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed)
    }
}

/// One attempt of a call whose actions run beside each other, in one of its phases.
pub(super) struct Phase {
    pub(super) flow: Arc<Flow>,
    pub(super) owner: OwnerId,
    /// 1 for the first attempt.
    pub(super) attempt: u32,
    /// Of the boundaries when the attempt began: if they move where it goes later, it comes to nothing.
    pub(super) version: u64,
    number: usize,
    /// What is touched, as far as values have led.
    pub(super) footprint: Arc<Footprint>,
    pub(super) values: Arc<Values>,
    /// The references of this phase.
    range: Range<usize>,
    /// Whose each of them is; none: several executors'.
    owners: Vec<Option<usize>>,
    /// The executors of this phase, and those of this phase and all before it.
    pub(super) route: Route,
    pub(super) involved: Route,
    /// Whether its actions run at its rendezvous point.
    pub(super) is_gathered: bool,
    /// Whether the attempt was parked before this phase.
    was_parked: bool,
    pub(super) turn: Turn,
    /// The first action that has failed.
    failed_at: AtomicUsize,
    met: Mutex<Met>,
}

/// What the parts of a phase bring to its rendezvous point.
#[derive(Default)]
pub(super) struct Met {
    /// What each executor has of the call; that of a joined one is nobody's.
    pub(super) parts: Vec<(Option<usize>, Part)>,
    /// What each action has gathered.
    gathered: Vec<(usize, Gathered)>,
    /// Rows of the phases before.
    rows: Vec<Vec<Value>>,
    /// The first action that has failed, and how.
    failure: Option<(usize, Box<Error>)>,
    /// Why nothing is executed now, if so.
    pub(super) refused: Option<Box<Error>>,
}

/// How a phase has ended.
pub(super) enum Meeting {
    /// The next one begins.
    Next(Arc<Phase>),
    /// The call is to be concluded: what it ended in, if not well, and what it gives back.
    Conclude(Option<Box<Error>>, Vec<Vec<Value>>),
}

impl Phase {
    /// The beginning of an attempt. `version`: of the boundaries, read before.
    pub(super) fn first(flow: Arc<Flow>, attempt: u32, version: u64, routing: &Routing) -> Meeting {
        let footprint = Arc::new(flow.entrant.footprint.clone());
        let before = Phase {
            flow,
            owner: OwnerId::new(),
            attempt,
            version,
            number: 0,
            footprint,
            values: Arc::default(),
            range: 0..0,
            owners: Vec::new(),
            route: Route::new(),
            involved: Route::new(),
            is_gathered: false,
            was_parked: false,
            turn: Turn::new(0),
            failed_at: AtomicUsize::new(usize::MAX),
            met: Mutex::default(),
        };
        before.enter(0, &mut Met::default(), routing)
    }

    /// The first phase from `number` on that has something to do; `met`: what the phases before have brought.
    fn enter(&self, mut number: usize, met: &mut Met, routing: &Routing) -> Meeting {
        let parts = self.flow.entrant.routine.parts();
        let mut values = self.values.clone();
        for (_, gathered) in &mut met.gathered {
            if !gathered.fresh.is_empty() {
                Arc::make_mut(&mut values).take(&mut gathered.fresh);
            }
            met.rows.append(&mut gathered.rows);
        }
        met.gathered.clear();
        let mut range = 0..0;
        while number < parts.phases() {
            range = parts.references(&self.footprint, number);
            if !range.is_empty() {
                break;
            }
            number += 1;
        }
        if number == parts.phases() {
            return Meeting::Conclude(None, std::mem::take(&mut met.rows));
        }
        let mut footprint = self.footprint.clone();
        let led = |reference: &usize| parts.is_led(&self.footprint, *reference);
        if range.clone().any(|reference| led(&reference)) {
            let footprint = Arc::make_mut(&mut footprint);
            let args = &self.flow.entrant.args;
            let computed = keep_panics_in(|| {
                let mut all = range.clone().filter(led);
                all.try_for_each(|reference| parts.lead(args, &values, reference, footprint))
            });
            if let Err(error) = computed {
                return Meeting::Conclude(Some(Box::new(error)), Vec::new());
            }
        }
        Meeting::Next(Arc::new(self.next(number, (footprint, values, range), met, routing)))
    }

    fn next(
        &self,
        number: usize,
        (footprint, values, range): (Arc<Footprint>, Arc<Values>, Range<usize>),
        met: &mut Met,
        routing: &Routing,
    ) -> Phase {
        let references = &footprint.references[range.clone()];
        let placed = references.iter().filter(|reference| !is_floating(reference));
        let mut route = routing.route(placed.map(place_of_reference));
        if route.is_empty() {
            // Nobody owns what it reads: calls take turns.
            route.push(routing.turn(self.flow.start_timestamp));
        }
        let owner = |reference: &Reference| match place_of_reference(reference) {
            None if is_floating(reference) => route.first().copied(),
            place => place.map(|place| routing.owner(place)),
        };
        let owners: Vec<_> = references.iter().map(owner).collect();
        let is_last = number + 1 == self.flow.entrant.routine.parts().phases();
        let writes_index = references.iter().any(writes_an_index);
        let needs_all = writes_index && (!is_last || shares_an_index(references, &owners));
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
            is_gathered: self.is_gathered || needs_all || owners.contains(&None),
            was_parked: self.was_parked(),
            turn: Turn::new(route.len()),
            footprint,
            values,
            range,
            owners,
            route,
            involved,
            failed_at: AtomicUsize::new(usize::MAX),
            met: Mutex::new(std::mem::take(met)),
        }
    }

    /// Whether phases before it may have locked something.
    pub(super) fn is_later(&self) -> bool {
        self.number > 0
    }

    /// What it has for the queues.
    pub(super) fn entries(self: &Arc<Phase>) -> Entries<Task> {
        self.route.iter().map(|&executor| (executor, Task::Phase(self.clone()))).collect()
    }

    /// Whether nothing is left to do at this executor, because the call has failed elsewhere before all that it has here.
    pub(super) fn is_in_vain(&self, executor: usize) -> bool {
        !self.is_gathered && self.here(executor).all(|number| self.leaves_out(number))
    }

    /// What it locks at an executor.
    pub(super) fn wants(&self, executor: usize) -> Vec<Want> {
        let here = self.here(executor).map(|number| &self.footprint.references[number]);
        here.filter(|reference| !is_floating(reference)).map(Want::of_reference).collect()
    }

    /// The references that an executor has a part of.
    fn here(&self, executor: usize) -> impl Iterator<Item = usize> + '_ {
        let owned = self.range.clone().zip(&self.owners);
        owned.filter(move |(_, owner)| owner.is_none_or(|owner| owner == executor)).map(|(number, _)| number)
    }

    /// The actions that run at an executor; at the rendezvous point (`None`): all of them.
    pub(super) fn actions(&self, executor: Option<usize>) -> Vec<usize> {
        match executor {
            Some(executor) => self.here(executor).collect(),
            None => self.range.clone().collect(),
        }
    }

    /// What the phases before have left at this executor; of a joined call: all.
    pub(super) fn take_part(&self, executor: Option<usize>) -> Part {
        let mut met = self.met.lock();
        if executor.is_none() {
            let (part, fits) = Part::join(met.parts.drain(..).map(|(_, part)| part));
            if let Err(error) = fits {
                met.fail(self.range.start, Box::new(error));
                self.failed_at.fetch_min(self.range.start, Ordering::Relaxed);
            }
            return part;
        }
        let at = met.parts.iter().position(|(owner, _)| *owner == executor);
        at.map_or_else(Part::default, |at| met.parts.swap_remove(at).1)
    }

    /// Whether an action is left out, because one before it has failed. Relaxed: who sees it late has worked in vain.
    pub(super) fn leaves_out(&self, number: usize) -> bool {
        self.failed_at.load(Ordering::Relaxed) < number
    }

    /// A part has run.
    pub(super) fn bring(
        &self,
        executor: Option<usize>,
        part: Part,
        mut gathered: Vec<(usize, Gathered)>,
        failure: Option<(usize, Box<Error>)>,
    ) {
        let mut met = self.met.lock();
        met.parts.push((executor, part));
        met.gathered.append(&mut gathered);
        if let Some((number, error)) = failure {
            self.failed_at.fetch_min(number, Ordering::Relaxed);
            met.fail(number, error);
        }
    }

    /// It may not be executed now.
    pub(super) fn refuse(&self, error: Error) {
        self.met.lock().refused = Some(Box::new(error));
        self.failed_at.store(0, Ordering::Relaxed);
    }

    /// Whether the attempt was ever parked.
    pub(super) fn was_parked(&self) -> bool {
        self.was_parked || self.turn.was_parked()
    }

    /// All have reported: what comes next.
    pub(super) fn meet(&self, routing: &Routing) -> Meeting {
        let mut met = self.met.lock();
        met.gathered.sort_by_key(|(number, _)| *number);
        if let Some((_, error)) = met.failure.take() {
            return Meeting::Conclude(Some(error), Vec::new());
        }
        self.enter(self.number + 1, &mut met, routing)
    }

    /// All that the attempt has buffered and read.
    pub(super) fn all_parts(&self) -> (Part, Result<()>) {
        Part::join(self.met.lock().parts.drain(..).map(|(_, part)| part))
    }

    /// Why it was refused.
    pub(super) fn take_refusal(&self) -> Option<Box<Error>> {
        self.met.lock().refused.take()
    }
}

/// Whether records of secondary indexes may be written, which belong to no executor.
fn writes_an_index(one: &Reference) -> bool {
    one.unrouted && one.mode != Mode::Read
}

/// Whether one executor would write records of a table's indexes, and another one touch the table beside it.
fn shares_an_index(references: &[Reference], owners: &[Option<usize>]) -> bool {
    let all = || references.iter().zip(owners);
    all().filter(|(one, _)| writes_an_index(one)).any(|(written, owner)| {
        all().any(|(other, its_owner)| other.table == written.table && its_owner != owner)
    })
}

impl Met {
    /// An action has failed; the first one counts.
    fn fail(&mut self, number: usize, error: Box<Error>) {
        if self.failure.as_ref().is_none_or(|(first, _)| number < *first) {
            self.failure = Some((number, error));
        }
    }
}
