//! Transactions that enter executors' queues while ranges move between executors: small executors with the engine's queues,
//! partition map and lock tables, and without a deadlock detector. A transaction that waits forever is found by the
//! checker.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::{MIDDLE, Model};
use crate::base::atomics::{AtomicU64, AtomicUsize, Ordering};
use crate::pipeline::partition::executor_queues::{Entries, ExecutorQueues, Refused, Taken};
use crate::protocol::local::OwnerId;
use crate::protocol::local::local_lock::{Identifier, LocalLock};
use crate::protocol::local::lock_table::{Acquired, LocalLockTable, LockRequest, Released};
use crate::protocol::local::partition_map::{PartitionMap, Route, executors_that_change};

pub(super) const MODELS: &[Model] = &[
    Model::new(
        "repartitioning::no_transaction_runs_at_another_executor",
        MIDDLE,
        no_transaction_runs_at_another_executor,
    ),
    Model::new(
        "repartitioning::work_before_a_repartitioning_ends_first",
        MIDDLE,
        work_before_a_repartitioning_ends_first,
    ),
    Model::new("repartitioning::equal_flow_graphs_never_deadlock", MIDDLE, equal_flow_graphs_never_deadlock),
];

/// The partition hashes of the rows. At first the first executor owns the first two.
const HASHES: [u64; 3] = [1 << 61, 1 << 62, 3 << 62];
/// Start of the second executor's range: at first, and after the repartitioning, by which it gains the second
/// row.
const STARTS: [u64; 2] = [1 << 63, (1 << 61) + 1];

/// Two executors and what they share.
struct Stand {
    queues: ExecutorQueues<Arc<Job>, OwnerId>,
    map: PartitionMap,
    /// Transactions that run at each row.
    inside: [AtomicU64; 3],
    /// Number of completions of each job, by its number.
    ended: [AtomicU64; 4],
}

/// A lock request: a phase of a transaction, or a repartitioning.
struct Job {
    owner: OwnerId,
    number: usize,
    /// The rows that it locks, with their owners at its entry; empty for a repartitioning, which locks
    /// everything.
    rows: Vec<(usize, usize)>,
    route: Route,
    /// Executors that have not granted it.
    left: AtomicUsize,
    /// The next phase of its transaction, with other rows.
    next: Option<Arc<Job>>,
}

impl Job {
    fn new(map: &PartitionMap, number: usize, rows: &[usize], next: Option<Arc<Job>>) -> Arc<Job> {
        let owner = next.as_ref().map_or_else(OwnerId::new, |next| next.owner);
        let rows: Vec<_> = rows.iter().map(|&row| (row, map.owner(HASHES[row]))).collect();
        let owners: BTreeSet<usize> = rows.iter().map(|(_, owner)| *owner).collect();
        let route: Route = owners.into_iter().collect();
        Arc::new(Job { owner, number, rows, left: AtomicUsize::new(route.len()), route, next })
    }

    fn of_repartitioning(number: usize, route: Route) -> Arc<Job> {
        let (owner, left) = (OwnerId::new(), AtomicUsize::new(route.len()));
        Arc::new(Job { owner, number, rows: Vec::new(), route, left, next: None })
    }

    fn entries(self: &Arc<Job>) -> Entries<Arc<Job>> {
        self.route.iter().map(|&executor| (executor, self.clone())).collect()
    }

    fn request(self: Arc<Job>, executor: usize) -> LockRequest<Arc<Job>> {
        let of_row = |row: usize| LocalLock {
            identifier: Identifier { table: Some(16), key: [row as u8][..].into() },
            whole: true,
            exclusive: true,
            partition_hash: Some(HASHES[row]),
        };
        let own = self.rows.iter().filter(|(_, owner)| *owner == executor).map(|(row, _)| of_row(*row));
        let locks = if self.rows.is_empty() { vec![LocalLock::on_everything()] } else { own.collect() };
        LockRequest { owner: self.owner, start_timestamp: 0, locks, instant: false, task: self }
    }
}

impl Stand {
    fn new() -> Arc<Stand> {
        Arc::new(Stand {
            queues: ExecutorQueues::new(2, 0),
            map: PartitionMap::new(2),
            inside: [(); 3].map(|()| AtomicU64::new(0)),
            ended: [(); 4].map(|()| AtomicU64::new(0)),
        })
    }

    /// A caller: enters transactions over these rows, and routes them again if they are refused.
    fn call(
        self: &Arc<Stand>,
        calls: &'static [(usize, &'static [usize], &'static [usize])],
    ) -> JoinHandle<()> {
        let stand = self.clone();
        thread::spawn(move || {
            for (number, first, second) in calls {
                loop {
                    let version = stand.map.version();
                    let next = (!second.is_empty()).then(|| Job::new(&stand.map, *number, second, None));
                    let job = Job::new(&stand.map, *number, first, next);
                    match stand.queues.admit(version, job.entries()) {
                        Ok(()) => break,
                        Err(Refused::Misrouted(_)) => thread::yield_now(),
                        Err(Refused::Closed(_)) => panic!("they are not closed"),
                    }
                }
            }
        })
    }

    /// Moves the second row to the second executor.
    fn change(self: &Arc<Stand>, number: usize) -> JoinHandle<()> {
        let stand = self.clone();
        thread::spawn(move || {
            let job = Job::of_repartitioning(number, executors_that_change(&STARTS[..1], &STARTS[1..]));
            assert!(stand.queues.repartition(job.entries(), || stand.map.change(&STARTS[1..])));
        })
    }

    /// Serves both queues until these callers have ended.
    fn serve_until(self: &Arc<Stand>, callers: Vec<JoinHandle<()>>) {
        let executors = [0, 1].map(|number| {
            let stand = self.clone();
            thread::spawn(move || Executor::new(&stand, number).live())
        });
        callers.into_iter().for_each(|caller| caller.join().expect("it ends"));
        self.queues.close();
        executors.into_iter().for_each(|executor| executor.join().expect("it ends on request"));
    }

    /// Runs a job that has locked all its rows.
    fn run(&self, job: &Job) {
        for (row, _) in &job.rows {
            assert_eq!(self.inside[*row].fetch_add(1, Ordering::SeqCst), 0, "two at one row");
        }
        thread::yield_now();
        job.rows.iter().for_each(|(row, _)| _ = self.inside[*row].fetch_sub(1, Ordering::SeqCst));
    }

    fn has_ended(&self, number: usize) -> u64 {
        self.ended[number].load(Ordering::SeqCst)
    }
}

/// An executor at work.
struct Executor<'s> {
    stand: &'s Stand,
    number: usize,
    locks: LocalLockTable<Arc<Job>>,
    /// Start of the second executor's range for work that is taken now.
    start: u64,
}

impl<'s> Executor<'s> {
    fn new(stand: &'s Stand, number: usize) -> Executor<'s> {
        Executor { stand, number, locks: LocalLockTable::default(), start: STARTS[0] }
    }

    fn live(mut self) {
        let mut taken = Taken::default();
        while self.stand.queues.take(self.number, &mut taken) {
            for owner in taken.notices.drain(..) {
                let Released { granted, .. } = self.locks.release(owner);
                granted.into_iter().for_each(|(_, job)| self.grant(&job));
            }
            for job in taken.incoming.drain(..) {
                self.take_in(job);
            }
        }
        assert!(self.locks.is_idle(), "locks are left");
    }

    fn take_in(&mut self, job: Arc<Job>) {
        if job.rows.is_empty() {
            self.start = STARTS[1];
        }
        for (row, owner) in job.rows.iter().filter(|(_, owner)| *owner == self.number) {
            let is_second = HASHES[*row] >= self.start;
            assert_eq!(*owner, usize::from(is_second), "row {row} belongs to another executor");
        }
        if let Acquired::Granted(job) = self.locks.acquire(job.request(self.number)) {
            self.grant(&job);
        }
    }

    /// The last executor to grant a job runs it.
    fn grant(&mut self, job: &Arc<Job>) {
        if job.left.fetch_sub(1, Ordering::SeqCst) > 1 {
            return;
        }
        self.stand.run(job);
        if let Some(next) = &job.next {
            assert!(
                self.stand.queues.enter(0, next.entries()),
                "the map does not change where there are phases"
            );
            return;
        }
        self.stand.ended[job.number].fetch_add(1, Ordering::SeqCst);
        (0..2).for_each(|executor| self.stand.queues.notify(executor, job.owner));
        self.stand.queues.leave(1);
    }
}

/// Transactions of the row that changes its owner enter before, at and after that moment: each runs once, at the owner of
/// its entry.
fn no_transaction_runs_at_another_executor() {
    let stand = Stand::new();
    let callers = vec![stand.call(&[(0, &[1], &[]), (1, &[1], &[])]), stand.change(2)];
    stand.serve_until(callers);
    assert_eq!([0, 1, 2].map(|number| stand.has_ended(number)), [1, 1, 1]);
    assert_eq!(stand.map.owner(HASHES[1]), 1);
}

/// One transaction holds the row at its old owner and another row at the other executor; a second one is sent
/// to the new owner: they are never at the row together.
fn work_before_a_repartitioning_ends_first() {
    let stand = Stand::new();
    let callers = vec![stand.call(&[(0, &[1, 2], &[])]), stand.call(&[(1, &[1], &[])]), stand.change(2)];
    stand.serve_until(callers);
    assert_eq!([0, 1, 2].map(|number| stand.has_ended(number)), [1, 1, 1]);
}

/// Two transactions of one flow graph: each phase has the same rows at both executors.
fn equal_flow_graphs_never_deadlock() {
    let stand = Stand::new();
    let callers = vec![stand.call(&[(0, &[0, 2], &[1])]), stand.call(&[(1, &[0, 2], &[1])])];
    stand.serve_until(callers);
    assert_eq!([0, 1].map(|number| stand.has_ended(number)), [1, 1]);
}
