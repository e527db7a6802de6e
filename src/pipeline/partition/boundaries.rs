//! Boundaries between executors move while calls run (DORA, appendix A.2.1).
//!
//! A move stops only the executors whose ranges change, and those only until what they have begun has ended. It *enters*
//! all their queues at one moment, as a call over several executors does, and asks for everything there, alone; and at that
//! very moment, under the mutexes of these queues, the boundaries become the new ones. So in each of these queues all that
//! stands before the move was routed by the old boundaries, and all that stands behind it by the new ones:
//! whoever comes with a route from before is refused at the entrance, and routed anew ([`queue`](super::queue)).
//!
//! **Nobody runs at one who is not the owner.** What stands behind the move waits for it, as behind every exclusive request
//! (first come, first served), at the giving executor and at the taking one. The move is granted at an executor when nobody
//! holds anything there and all that came before is done; it ends when all concerned have granted it, which the
//! last of them tells the others. So a row's new owner begins when its old one has ended. What was asked for before the move
//! is locked and run by those who owned it then: an attempt knows its owners from its entrance on (`Owners`, `Phase`,
//! `Reference::elsewhere`), and asks nobody again.
//!
//! - *Flows between their phases* hold locks at executors that the move waits for. One that began before the move and would
//!   enter a concerned queue after it is refused there, gives its locks up, and begins anew: so it neither waits for the move
//!   that waits for it, nor overtakes it by what it holds already. One that goes elsewhere goes on.
//! - *Calls that were looked ahead* are routed anew with the others; where they lead to several executors now, what was
//!   looked up is forgotten, because only a whole call finds out that it was misled.
//! - *Closures at the desk* are refused at the entrance and asked for anew, before they hold anything.
//! - *Deadlocks*: a move is a waiter like others, which the detector knows. It never gives way: a circle has a member that
//!   holds what an earlier entry has got, and is younger than every move.
//!
//! **Nothing is lost or doubled**: what is refused has entered no queue, and is still its sender's; what has entered one is
//! never sent on. A call is refused again only where somebody has moved boundaries again.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use super::Executors;
use super::executor::Task;
use super::flow::Turn;
use super::manager::Manager;
use super::survey::Survey;
use crate::base::atomics::{AtomicU64, Ordering};
use crate::error::{Error, Result};
use crate::protocol::local::OwnerId;
use crate::protocol::local::claim::Want;
use crate::protocol::local::locks::Request;
use crate::protocol::local::routing::{Route, concerned};

/// A move of boundaries that these executors have to make true.
pub(super) struct Move {
    pub(super) owner: OwnerId,
    pub(super) route: Route,
    pub(super) turn: Turn,
    ended: Mutex<bool>,
    event_count: Condvar,
}

impl Move {
    fn new(route: Route) -> Arc<Move> {
        let turn = Turn::new(route.len());
        Arc::new(Move {
            owner: OwnerId::new(),
            turn,
            route,
            ended: Mutex::new(false),
            event_count: Condvar::new(),
        })
    }

    /// What it asks of an executor. It is older than every call.
    pub(super) fn request(self: Arc<Move>) -> Request<Task> {
        let wants = vec![Want::of_everything()];
        Request { owner: self.owner, start_timestamp: 0, wants, brief: false, task: Task::Move(self) }
    }

    /// All executors concerned have drained.
    pub(super) fn end(&self) {
        *self.ended.lock() = true;
        self.event_count.notify_all();
    }

    fn has_ended(&self) -> bool {
        *self.ended.lock()
    }

    fn wait(&self) {
        let mut ended = self.ended.lock();
        while !*ended {
            self.event_count.wait(&mut ended);
        }
    }
}

/// Moves so far.
pub(super) struct Moves {
    /// The last one. Whoever begins another one keeps this locked meanwhile.
    last: Mutex<Option<Arc<Move>>>,
    /// How many have concerned each executor.
    counts: Box<[AtomicU64]>,
}

impl Moves {
    pub(super) fn new(executors: usize) -> Moves {
        Moves { last: Mutex::new(None), counts: (0..executors).map(|_| AtomicU64::new(0)).collect() }
    }

    /// How many have changed this executor's range.
    pub(super) fn of(&self, executor: usize) -> u64 {
        // Relaxed: statistics.
        self.counts[executor].load(Ordering::Relaxed)
    }
}

/// What the keeper keeps from look to look.
pub(super) struct Upkeep {
    manager: Manager,
    survey: Survey,
    looked: Instant,
}

impl Upkeep {
    pub(super) fn new(executors: usize, chooses_number: bool) -> Upkeep {
        let manager = Manager::new(executors, chooses_number);
        Upkeep { manager, survey: Survey::default(), looked: Instant::now() }
    }

    /// Takes in what has happened since the last look.
    fn look(&mut self, executors: &Executors) {
        let elapsed = std::mem::replace(&mut self.looked, Instant::now()).elapsed();
        let of = |executor: usize| (&*executors.loads[executor], executors.queues.busy(executor));
        self.manager.collect(elapsed, (0..executors.len()).map(of));
        if !executors.is_balanced || !self.manager.is_idle() {
            return;
        }
        if let Some(engine) = executors.engine.upgrade() {
            match self.survey.look(engine.store()) {
                Some(rows) => self.manager.note_rows(rows),
                None => self.manager.note_rows_at_least(self.survey.seen()),
            }
        }
    }
}

impl Executors {
    /// Moves the boundaries to where `choose` says, if anywhere. The move, which is not done yet.
    fn begin_move(&self, choose: impl FnOnce(&[u64]) -> Option<Vec<u64>>) -> Result<Option<Arc<Move>>> {
        let mut last = self.moves.last.lock();
        let present = self.routing.starts();
        let Some(starts) = choose(&present) else { return Ok(None) };
        let route = concerned(&present, &starts);
        if route.is_empty() {
            return Ok(None);
        }
        let movement = Move::new(route);
        let entries = movement.route.iter().map(|&executor| (executor, Task::Move(movement.clone())));
        if !self.queues.change(entries.collect(), || self.routing.change(&starts)) {
            return Err(Error::Closed);
        }
        for &executor in &movement.route {
            // Relaxed: statistics.
            self.moves.counts[executor].fetch_add(1, Ordering::Relaxed);
        }
        *last = Some(movement.clone());
        Ok(Some(movement))
    }

    /// Moves the boundaries to these places, which ascend: where each executor's range but the first one's begins. It
    /// returns when the executors concerned have gone over to them.
    ///
    /// # Errors
    /// The database is being closed.
    pub(crate) fn move_boundaries(&self, starts: &[u64]) -> Result<()> {
        if let Some(movement) = self.begin_move(|_| Some(starts.to_vec()))? {
            movement.wait();
        }
        Ok(())
    }

    /// Moves boundaries to where the load is even, if it is not, and no other move is under way.
    pub(crate) fn balance(&self) {
        let mut upkeep = self.upkeep.lock();
        upkeep.look(self);
        let is_moving = self.moves.last.lock().as_ref().is_some_and(|last| !last.has_ended());
        if self.is_balanced && !is_moving {
            // While the database is being closed, boundaries stay where they are.
            let _ = self.begin_move(|present| upkeep.manager.plan(present));
        }
    }

    /// Where the ranges of all executors but the first begin; each one's share of what was asked for lately; how often
    /// each one's range has changed.
    pub(crate) fn picture(&self) -> (Vec<u64>, Vec<f64>, Vec<u64>) {
        let starts = self.routing.starts();
        let mut shares = self.upkeep.lock().manager.shares(&starts);
        let all = shares.iter().sum::<f64>().max(1.0);
        shares.iter_mut().for_each(|share| *share /= all);
        (starts, shares, (0..self.len()).map(|executor| self.moves.of(executor)).collect())
    }
}
