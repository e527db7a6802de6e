//! Local locks for threads that are no executors: a closure at its commit.
//!
//! # Concurrency
//! The request enters the queues of all executors concerned at once, and the thread parks until the last of them has
//! granted it. It returns its log space before that, because executors may wait for log space.

use std::mem::take;
use std::sync::Arc;
use std::thread::{self, Thread};

use smallvec::SmallVec;

use super::Executors;
use super::executor::{Notice, Work};
use super::executor_queues::{Entries, Refused};
use crate::base::atomics::{AtomicBool, AtomicUsize, Ordering};
use crate::diagnostics::activity::Activity;
use crate::diagnostics::work_time::waiting;
use crate::error::Error;
use crate::protocol::local::local_lock::LocalLock;
use crate::protocol::local::partition_map::{Owners, Route};
use crate::protocol::local::{Denied, ExternalLocks, Grant, OwnerId};

/// A request of a thread that is no executor.
pub(super) struct ExternalRequest {
    pub(super) owner: OwnerId,
    pub(super) start_timestamp: u64,
    locks: Arc<[LocalLock]>,
    owners: Owners,
    /// Executors that have not answered.
    left: AtomicUsize,
    marked_for_abort: AtomicBool,
    parked: AtomicBool,
    waiter: Thread,
}

impl ExternalRequest {
    /// A request of the calling thread.
    fn new(owner: OwnerId, start_timestamp: u64, locks: Arc<[LocalLock]>, owners: Owners) -> ExternalRequest {
        ExternalRequest {
            owner,
            start_timestamp,
            locks,
            left: AtomicUsize::new(owners.route.len()),
            owners,
            marked_for_abort: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            waiter: thread::current(),
        }
    }

    /// The locks that it requests of an executor.
    pub(super) fn locks_at(&self, executor: usize) -> Vec<LocalLock> {
        self.owners.at(executor).map(|number| self.locks[number].clone()).collect()
    }

    fn route(&self) -> &Route {
        &self.owners.route
    }

    /// An executor has granted it.
    pub(super) fn grant(&self) {
        // AcqRel: what the last holders did, on all executors, is before what the waiter does.
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waiter.unpark();
        }
    }

    /// Marks it as the victim of a deadlock, not granted at this executor.
    pub(super) fn mark_for_abort(&self) {
        self.marked_for_abort.store(true, Ordering::Release);
        self.grant();
    }

    /// Notes that it was parked at an executor.
    pub(super) fn note_parked(&self) {
        // Relaxed: it is read when all executors have answered, which orders it.
        self.parked.store(true, Ordering::Relaxed);
    }

    fn was_parked(&self) -> bool {
        self.parked.load(Ordering::Relaxed)
    }

    /// Parks until all executors have answered; returns true if all have granted it.
    fn wait(&self) -> bool {
        let _wait = waiting(Activity::LockAcquireWait);
        // Acquire: see `grant`.
        while self.left.load(Ordering::Acquire) > 0 {
            thread::park();
        }
        !self.marked_for_abort.load(Ordering::Acquire)
    }
}

impl Executors {
    /// Enters the queues of all owners of these locks; returns `None` if the database is being closed.
    fn enter_external(
        &self,
        owner: OwnerId,
        start_timestamp: u64,
        locks: Vec<LocalLock>,
    ) -> Option<Arc<ExternalRequest>> {
        let locks: Arc<[LocalLock]> = locks.into();
        loop {
            let version = self.map.version();
            let owners = self.map.owners(locks.iter().map(|lock| lock.partition_hash));
            let request = Arc::new(ExternalRequest::new(owner, start_timestamp, locks.clone(), owners));
            let work = |&executor| (executor, Work::External(request.clone()));
            let entries: Entries<Work> = request.route().iter().map(work).collect();
            match self.queues.admit(version, entries) {
                Ok(()) => return Some(request),
                Err(Refused::Closed(_)) => return None,
                Err(Refused::Misrouted(_)) => {}
            }
        }
    }
}

impl ExternalLocks for Executors {
    fn start_timestamp(&self) -> u64 {
        self.next_start_timestamp()
    }

    fn acquire(
        &self,
        locks: Vec<LocalLock>,
        start_timestamp: u64,
        log_credit: &mut usize,
    ) -> Result<Grant, Denied> {
        let Some(engine) = self.engine.upgrade() else { return Err(Denied::Refused(Error::Closed)) };
        let owner = OwnerId::new();
        let Some(request) = self.enter_external(owner, start_timestamp, locks) else {
            return Err(Denied::Refused(Error::Closed));
        };
        let needed = take(log_credit);
        if needed > 0 {
            engine.space().give_back(needed);
        }
        let granted = request.wait();
        if request.was_parked() {
            self.waits.end(owner);
        }
        let executors: SmallVec<[usize; 4]> = request.route().clone();
        let mut grant = Grant { owner, executors, reserved_log_space: false };
        let denied = if !granted {
            Denied::Deadlock
        } else if needed == 0 {
            return Ok(grant);
        } else {
            match engine.reserve(needed) {
                Ok(()) => {
                    *log_credit = needed;
                    grant.reserved_log_space = true;
                    return Ok(grant);
                }
                Err(error) => Denied::Refused(error),
            }
        };
        self.release(grant, log_credit);
        Err(denied)
    }

    fn release(&self, grant: Grant, log_credit: &mut usize) {
        if grant.reserved_log_space
            && let Some(engine) = self.engine.upgrade()
        {
            engine.space().give_back(take(log_credit));
        }
        for &executor in &grant.executors {
            self.queues.notify(executor, Notice::Ended(grant.owner));
        }
        self.queues.leave(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::local::partition_map::PartitionMap;

    fn request(locks: Vec<LocalLock>) -> ExternalRequest {
        let owners = PartitionMap::new(3).owners(locks.iter().map(|lock| lock.partition_hash));
        ExternalRequest::new(OwnerId::new(), 1, locks.into(), owners)
    }

    fn is_granted(has_victim: bool) -> bool {
        let request = Arc::new(request(vec![LocalLock::on_everything()]));
        for executor in 0..3 {
            let request = request.clone();
            thread::spawn(move || {
                if has_victim && executor == 1 { request.mark_for_abort() } else { request.grant() }
            });
        }
        request.wait()
    }

    #[test]
    fn a_request_is_granted_when_all_executors_have_granted_it() {
        for _ in 0..50 {
            assert!(is_granted(false));
            assert!(!is_granted(true));
        }
        assert!(request(Vec::new()).wait() && !request(Vec::new()).was_parked());
    }

    #[test]
    fn each_executor_locks_what_it_owns_and_what_belongs_to_all() {
        let at = |hash| LocalLock { partition_hash: Some(hash), ..LocalLock::on_everything() };
        let request = request(vec![at(0), LocalLock::on_everything(), at(u64::MAX)]);
        assert_eq!(request.route().as_slice(), [0, 1, 2]);
        assert_eq!(request.locks_at(0), [at(0), LocalLock::on_everything()]);
        assert_eq!(request.locks_at(1), [LocalLock::on_everything()]);
    }
}
