//! The desk: where who is no executor, a closure at its commit, locks what executors own.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Executors;
use super::executor::{Notice, Task};
use super::latch::Latch;
use super::queue::{Entries, Refused};
use crate::error::Error;
use crate::protocol::local::claim::Want;
use crate::protocol::local::{Denied, Desk, Grant, OwnerId};

impl Executors {
    /// Enters the queues of all who own this; none: the database is being closed.
    fn enter_latch(&self, owner: OwnerId, start_timestamp: u64, wants: Vec<Want>) -> Option<Arc<Latch>> {
        let wants: Arc<[Want]> = wants.into();
        loop {
            let version = self.routing.version();
            let owners = self.routing.owners(wants.iter().map(|want| want.place));
            let latch = Arc::new(Latch::new(owner, start_timestamp, wants.clone(), owners));
            let task = |&executor| (executor, Task::Latch(latch.clone()));
            let entries: Entries<Task> = latch.route().iter().map(task).collect();
            match self.queues.let_in(1, version, entries) {
                Ok(()) => return Some(latch),
                Err(Refused::Closed(_)) => return None,
                Err(Refused::Moved(_)) => {}
            }
        }
    }
}

impl Desk for Executors {
    fn start_timestamp(&self) -> u64 {
        self.start_timestamp_of_call()
    }

    fn lock(&self, wants: Vec<Want>, start_timestamp: u64, room: &mut usize) -> Result<Grant, Denied> {
        let Some(engine) = self.engine.upgrade() else { return Err(Denied::Refused(Error::Closed)) };
        let owner = OwnerId::new();
        let Some(latch) = self.enter_latch(owner, start_timestamp, wants) else {
            return Err(Denied::Refused(Error::Closed));
        };
        let needed = std::mem::take(room);
        if needed > 0 {
            engine.space().give_back(needed);
        }
        let granted = latch.wait();
        if latch.was_parked() {
            self.waits.end(owner);
        }
        let executors: SmallVec<[usize; 4]> = latch.route().clone();
        let mut grant = Grant { owner, executors, took_room: false };
        let denied = if !granted {
            Denied::Deadlock
        } else if needed == 0 {
            return Ok(grant);
        } else {
            match engine.reserve(needed) {
                Ok(()) => {
                    *room = needed;
                    grant.took_room = true;
                    return Ok(grant);
                }
                Err(error) => Denied::Refused(error),
            }
        };
        self.release(grant, room);
        Err(denied)
    }

    fn release(&self, grant: Grant, room: &mut usize) {
        if grant.took_room
            && let Some(engine) = self.engine.upgrade()
        {
            engine.space().give_back(std::mem::take(room));
        }
        for &executor in &grant.executors {
            self.queues.notify(executor, Notice::Ended(grant.owner));
        }
        self.queues.leave(1);
    }
}
