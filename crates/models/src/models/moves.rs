//! Calls that enter executors' queues while boundaries move, and while others of their kind do: small executors with the engine's
//! queues, boundaries and local locks, and no search for deadlocks. Who waits for ever is found by the checker.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::{MIDDLE, Model};
use crate::base::atomics::{AtomicU64, AtomicUsize, Ordering};
use crate::pipeline::partition::queue::{Entries, Found, Queues, Refused};
use crate::protocol::local::OwnerId;
use crate::protocol::local::claim::{Identifier, Want};
use crate::protocol::local::locks::{Answer, Freed, LocalLocks, Request};
use crate::protocol::local::routing::{Route, Routing, concerned};

pub(super) const MODELS: &[Model] = &[
    Model::new("moves::nobody_comes_to_who_is_not_the_owner", MIDDLE, nobody_comes_to_who_is_not_the_owner),
    Model::new(
        "moves::what_is_there_before_a_move_ends_first",
        MIDDLE,
        what_is_there_before_a_move_ends_first,
    ),
    Model::new("moves::equal_flows_never_wait_in_a_circle", MIDDLE, equal_flows_never_wait_in_a_circle),
];

/// Rows: where they lie. At first the first two are the first executor's.
const PLACES: [u64; 3] = [1 << 61, 1 << 62, 3 << 62];
/// Where the second executor's range begins: at first, and after the move, by which it gets the second row.
const STARTS: [u64; 2] = [1 << 63, (1 << 61) + 1];

/// Two executors and what they share.
struct Stand {
    queues: Queues<Arc<Job>, OwnerId>,
    routing: Routing,
    /// Who is at each row.
    inside: [AtomicU64; 3],
    /// What has run to its end, by its number: each once.
    ended: [AtomicU64; 4],
}

/// What asks executors for locks: a phase of a call, or a move.
struct Job {
    owner: OwnerId,
    number: usize,
    /// Which rows it has alone, and whose each was when it entered; none: it is a move, and asks for everything.
    rows: Vec<(usize, usize)>,
    route: Route,
    /// Executors that have not granted it.
    left: AtomicUsize,
    /// Its call's next phase, which has other rows.
    next: Option<Arc<Job>>,
}

impl Job {
    fn new(routing: &Routing, number: usize, rows: &[usize], next: Option<Arc<Job>>) -> Arc<Job> {
        let owner = next.as_ref().map_or_else(OwnerId::new, |next| next.owner);
        let rows: Vec<_> = rows.iter().map(|&row| (row, routing.owner(PLACES[row]))).collect();
        let owners: BTreeSet<usize> = rows.iter().map(|(_, owner)| *owner).collect();
        let route: Route = owners.into_iter().collect();
        Arc::new(Job { owner, number, rows, left: AtomicUsize::new(route.len()), route, next })
    }

    fn of_move(number: usize, route: Route) -> Arc<Job> {
        let (owner, left) = (OwnerId::new(), AtomicUsize::new(route.len()));
        Arc::new(Job { owner, number, rows: Vec::new(), route, left, next: None })
    }

    fn entries(self: &Arc<Job>) -> Entries<Arc<Job>> {
        self.route.iter().map(|&executor| (executor, self.clone())).collect()
    }

    fn request(self: Arc<Job>, executor: usize) -> Request<Arc<Job>> {
        let of_row = |row: usize| Want {
            identifier: Identifier { table: Some(16), key: [row as u8][..].into() },
            whole: true,
            exclusive: true,
            place: Some(PLACES[row]),
        };
        let own = self.rows.iter().filter(|(_, owner)| *owner == executor).map(|(row, _)| of_row(*row));
        let wants = if self.rows.is_empty() { vec![Want::of_everything()] } else { own.collect() };
        Request { owner: self.owner, start_timestamp: 0, wants, brief: false, task: self }
    }
}

impl Stand {
    fn new() -> Arc<Stand> {
        Arc::new(Stand {
            queues: Queues::new(2),
            routing: Routing::new(2),
            inside: [(); 3].map(|()| AtomicU64::new(0)),
            ended: [(); 4].map(|()| AtomicU64::new(0)),
        })
    }

    /// A caller: enters a call over these rows, by boundaries that it looks up again where it is refused.
    fn call(
        self: &Arc<Stand>,
        calls: &'static [(usize, &'static [usize], &'static [usize])],
    ) -> JoinHandle<()> {
        let stand = self.clone();
        thread::spawn(move || {
            for (number, first, second) in calls {
                loop {
                    let version = stand.routing.version();
                    let next = (!second.is_empty()).then(|| Job::new(&stand.routing, *number, second, None));
                    let job = Job::new(&stand.routing, *number, first, next);
                    match stand.queues.let_in(1, version, job.entries()) {
                        Ok(()) => break,
                        Err(Refused::Moved(_)) => thread::yield_now(),
                        Err(Refused::Closed(_)) => panic!("nobody has closed them"),
                    }
                }
            }
        })
    }

    /// Moves the boundary.
    fn change(self: &Arc<Stand>, number: usize) -> JoinHandle<()> {
        let stand = self.clone();
        thread::spawn(move || {
            let job = Job::of_move(number, concerned(&STARTS[..1], &STARTS[1..]));
            assert!(stand.queues.change(job.entries(), || stand.routing.change(&STARTS[1..])));
        })
    }

    /// Serves both queues until they are closed, when these have come to an end.
    fn serve_until(self: &Arc<Stand>, callers: Vec<JoinHandle<()>>) {
        let executors = [0, 1].map(|number| {
            let stand = self.clone();
            thread::spawn(move || Executor::new(&stand, number).live())
        });
        callers.into_iter().for_each(|caller| caller.join().expect("it ends"));
        self.queues.close();
        executors.into_iter().for_each(|executor| executor.join().expect("it is told to go"));
    }

    /// Somebody has all the rows of a job, and does what is to be done.
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
    locks: LocalLocks<Arc<Job>>,
    /// Where the boundary is for what comes out of the queue now.
    start: u64,
}

impl<'s> Executor<'s> {
    fn new(stand: &'s Stand, number: usize) -> Executor<'s> {
        Executor { stand, number, locks: LocalLocks::default(), start: STARTS[0] }
    }

    fn live(mut self) {
        let mut found = Found::default();
        while self.stand.queues.take(self.number, self.locks.is_idle(), &mut found) {
            for owner in found.notices.drain(..) {
                let Freed { granted, .. } = self.locks.release(owner);
                granted.into_iter().for_each(|(_, job)| self.grant(&job));
            }
            for job in found.incoming.drain(..) {
                self.take_in(job);
            }
        }
        assert!(self.locks.is_idle(), "somebody has kept something");
    }

    fn take_in(&mut self, job: Arc<Job>) {
        if job.rows.is_empty() {
            self.start = STARTS[1];
        }
        for (row, owner) in job.rows.iter().filter(|(_, owner)| *owner == self.number) {
            let is_second = PLACES[*row] >= self.start;
            assert_eq!(*owner, usize::from(is_second), "row {row} is somebody else's here");
        }
        if let Answer::Granted(job) = self.locks.ask(job.request(self.number)) {
            self.grant(&job);
        }
    }

    /// Who grants last goes on.
    fn grant(&mut self, job: &Arc<Job>) {
        if job.left.fetch_sub(1, Ordering::SeqCst) > 1 {
            return;
        }
        self.stand.run(job);
        if let Some(next) = &job.next {
            assert!(self.stand.queues.enter(0, next.entries()), "boundaries stay where there are phases");
            return;
        }
        self.stand.ended[job.number].fetch_add(1, Ordering::SeqCst);
        (0..2).for_each(|executor| self.stand.queues.notify(executor, job.owner));
        self.stand.queues.leave(1);
    }
}

/// Calls of the row that changes its owner come in before, at and after that moment: each runs once, and at who owned the
/// row when it came in.
fn nobody_comes_to_who_is_not_the_owner() {
    let stand = Stand::new();
    let callers = vec![stand.call(&[(0, &[1], &[]), (1, &[1], &[])]), stand.change(2)];
    stand.serve_until(callers);
    assert_eq!([0, 1, 2].map(|number| stand.has_ended(number)), [1, 1, 1]);
    assert_eq!(stand.routing.owner(PLACES[1]), 1);
}

/// One call holds the row at its old owner, and at the other one something else; another comes to the new owner: they are
/// never at it together.
fn what_is_there_before_a_move_ends_first() {
    let stand = Stand::new();
    let callers = vec![stand.call(&[(0, &[1, 2], &[])]), stand.call(&[(1, &[1], &[])]), stand.change(2)];
    stand.serve_until(callers);
    assert_eq!([0, 1, 2].map(|number| stand.has_ended(number)), [1, 1, 1]);
}

/// Two flows of one graph: each phase has the same rows at both executors, and no two phases have one in common.
fn equal_flows_never_wait_in_a_circle() {
    let stand = Stand::new();
    let callers = vec![stand.call(&[(0, &[0, 2], &[1])]), stand.call(&[(1, &[0, 2], &[1])])];
    stand.serve_until(callers);
    assert_eq!([0, 1].map(|number| stand.has_ended(number)), [1, 1]);
}
