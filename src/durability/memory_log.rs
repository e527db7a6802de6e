//! A log in memory, with seeded faults: the store under the databases that tests take over from each other.
//!
//! It is what a replicated log looks like from its client: one sequence of groups, a term that rises with each opening, and a
//! part at the end that is not durable yet. Legal faults, all drawn from the seed: an append takes any time; its answer is
//! lost, before or after it took effect, and the store reads back to find out; the connection is cut, and the append fails; at a
//! take-over any beginning of what was not durable stays.
//!
//! [`Defect`]s are what no store may do: the checks that a sound store passes must find each of them.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::groups_in_flight::GroupsInFlight;
use super::log_reader::{Group, Position};
use super::log_store::{Append, LogSource, LogStore};
use super::position::LogPosition;
use super::starts::GroupStart;
use crate::storage::redo::RedoPart;
use crate::{Error, Result};

/// How many answers are lost one after the other at most.
const LOST_ANSWERS_MAX: u32 = 3;

/// What a store must not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    /// It takes groups of a writer after a later one has opened the log.
    ForgetsFence,
    /// It says that a group is durable which a take-over may lose.
    AcknowledgesEarly,
    /// It puts a group before the one that was appended before it.
    Reorders,
    /// It takes a group twice when its answer was lost.
    Duplicates,
    /// A take-over loses the last group that was durable.
    LosesAcknowledgedTail,
}

impl Defect {
    pub(crate) const ALL: [Defect; 5] = [
        Defect::ForgetsFence,
        Defect::AcknowledgesEarly,
        Defect::Reorders,
        Defect::Duplicates,
        Defect::LosesAcknowledgedTail,
    ];
}

/// A log in memory; clones are the same log.
#[derive(Clone)]
pub(crate) struct MemoryLog {
    state: Arc<Mutex<State>>,
    /// How many appends it takes at a time.
    appends: usize,
    /// The longest time that an append takes.
    delay: Duration,
    defect: Option<Defect>,
}

struct State {
    random: fastrand::Rng,
    /// The last writer's term.
    term: u64,
    groups: Vec<(LogPosition, Vec<u8>)>,
    /// How many of the groups are durable.
    durable: usize,
    /// One of so many appends fails because the connection is cut; 0: none does.
    cuts: u32,
}

/// The groups that were there when the log was opened.
pub(crate) struct MemorySource {
    groups: Vec<(LogPosition, Vec<u8>)>,
    next: usize,
}

/// One writer of the log.
pub(crate) struct MemoryWriter {
    log: MemoryLog,
    term: u64,
    in_flight: Arc<GroupsInFlight>,
}

struct MemoryAppend {
    log: MemoryLog,
    position: LogPosition,
    in_flight: Arc<GroupsInFlight>,
}

impl MemoryLog {
    /// An empty log. Its faults come from the seed, so do the number of appends that it takes at a time and their delays.
    pub(crate) fn new(seed: u64) -> MemoryLog {
        let mut random = fastrand::Rng::with_seed(seed);
        let (appends, delay) = (random.usize(1..4), Duration::from_micros(random.u64(0..200)));
        let cuts = if random.bool() { 60 } else { 0 };
        let state = State { random, term: 0, groups: Vec::new(), durable: 0, cuts };
        MemoryLog { state: Arc::new(Mutex::new(state)), appends, delay, defect: None }
    }

    /// The same with a defect.
    pub(crate) fn with_defect(seed: u64, defect: Defect) -> MemoryLog {
        MemoryLog { defect: Some(defect), ..MemoryLog::new(seed) }
    }

    /// Opens the log as its only writer from now on: with the groups that are in it, and its next term.
    pub(crate) fn open(&self) -> (MemorySource, MemoryWriter) {
        let mut state = self.state.lock();
        state.term += 1;
        let undecided = state.groups.len() - state.durable;
        let mut kept = state.durable + state.random.usize(..=undecided);
        if self.defect == Some(Defect::LosesAcknowledgedTail) {
            kept = state.durable.saturating_sub(1);
        }
        state.groups.truncate(kept);
        state.durable = kept;
        let source = MemorySource { groups: state.groups.clone(), next: 0 };
        let in_flight = Arc::new(GroupsInFlight::new(self.appends));
        (source, MemoryWriter { log: self.clone(), term: state.term, in_flight })
    }
}

impl State {
    /// Returns true if appends may fail: those of the first writer, which makes what is needed, do not.
    fn has_faults(&self) -> bool {
        self.term > 1
    }

    /// The error of a writer that is not the last one any more.
    fn check_term(&self, term: u64, defect: Option<Defect>) -> Result<()> {
        if term == self.term || defect == Some(Defect::ForgetsFence) {
            return Ok(());
        }
        let reason = format!("fenced: the log of term {term} was opened again, in term {}", self.term);
        Err(Error::LogFailed { reason })
    }

    fn put(&mut self, group: (LogPosition, Vec<u8>), defect: Option<Defect>) {
        let is_twice = defect == Some(Defect::Duplicates) && self.random.u8(..4) == 0;
        let place = match defect {
            Some(Defect::Reorders) if self.groups.len() > self.durable => self.groups.len() - 1,
            _ => self.groups.len(),
        };
        self.groups.insert(place, group.clone());
        if is_twice {
            self.groups.push(group);
        }
    }

    /// A request of an append: it takes effect or is lost, and so is its answer. Returns false if no answer arrived.
    fn request(&mut self, append: &MemoryAppend) -> Result<bool> {
        let fate = if self.has_faults() { self.random.u8(..8) } else { 7 };
        if fate == 0 {
            return Ok(false);
        }
        self.check_term(append.position.term(), append.log.defect)?;
        if append.log.defect != Some(Defect::AcknowledgesEarly) {
            let end = self.groups.iter().rposition(|(position, _)| *position == append.position);
            self.durable = self.durable.max(end.map_or(0, |place| place + 1));
        }
        Ok(fate > 1)
    }
}

impl LogStore for MemoryWriter {
    fn in_flight(&self) -> &Arc<GroupsInFlight> {
        &self.in_flight
    }

    fn term(&self) -> u64 {
        self.term
    }

    fn append(
        &mut self,
        epoch: u64,
        payload: &[RedoPart<'_>],
        _waits: &mut dyn FnMut(&Error) -> bool,
    ) -> Result<Box<dyn Append>> {
        if let Some(failure) = self.in_flight.failure() {
            return Err(failure);
        }
        assert!(self.in_flight.has_room(), "more appends than the store takes at a time");
        let mut bytes = Vec::new();
        payload.iter().try_for_each(|part| part.read(0, part.len() as usize, &mut bytes))?;
        let position = LogPosition::new(self.term, epoch);
        let mut state = self.log.state.lock();
        state.check_term(self.term, self.log.defect).map_err(|error| self.in_flight.fail(&error))?;
        self.in_flight.begin(start_of(position), bytes.len() as u64);
        state.put((position, bytes), self.log.defect);
        drop(state);
        let (log, in_flight) = (self.log.clone(), self.in_flight.clone());
        Ok(Box::new(MemoryAppend { log, position, in_flight }))
    }
}

/// The name of a group among those in flight.
fn start_of(position: LogPosition) -> GroupStart {
    GroupStart { epoch: position.epoch(), segment: 0, offset: 0, sequence: position.epoch() }
}

impl Append for MemoryAppend {
    fn flushes(&self) -> u64 {
        1
    }

    fn finish(self: Box<Self>) -> Result<Option<u64>> {
        let (delay, is_cut) = {
            let mut state = self.log.state.lock();
            let longest = self.log.delay.as_micros() as u64;
            let cuts = if state.has_faults() { state.cuts } else { 0 };
            (state.random.u64(..=longest), cuts > 0 && state.random.u32(..cuts) == 0)
        };
        std::thread::sleep(Duration::from_micros(delay));
        if is_cut {
            let reason = "the connection to the log was cut".to_string();
            return Err(self.in_flight.fail(&Error::LogFailed { reason }));
        }
        let mut lost = 0;
        while !self.log.state.lock().request(&self).map_err(|error| self.in_flight.fail(&error))? {
            lost += 1;
            if lost == LOST_ANSWERS_MAX {
                let reason = "the log does not answer".to_string();
                return Err(self.in_flight.fail(&Error::LogFailed { reason }));
            }
        }
        self.in_flight.end(start_of(self.position), |_, _| ())
    }
}

impl MemorySource {
    /// The positions of all groups.
    pub(crate) fn positions(&self) -> Vec<LogPosition> {
        self.groups.iter().map(|(position, _)| *position).collect()
    }
}

impl LogSource for MemorySource {
    fn next_group(&mut self) -> Result<Option<Group>> {
        let Some((position, payload)) = self.groups.get(self.next) else { return Ok(None) };
        self.next += 1;
        Ok(Some(Group { epoch: position.epoch(), payload: payload.clone() }))
    }

    fn last_place(&self) -> Position {
        Position { index: 0, offset: self.next as u64 }
    }

    fn blame(&self, _place: Position, error: Error) -> Error {
        error
    }

    fn progress(&self) -> (u64, u64) {
        (self.next as u64, self.groups.len() as u64)
    }
}
