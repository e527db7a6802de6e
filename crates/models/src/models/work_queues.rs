//! The workers' queues: each entry is dequeued exactly once, by whichever thread; no worker sleeps while a call waits
//! that it could take; and closing wakes all threads. A worker or a maker that sleeps forever is a deadlock,
//! which the checker finds.

use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex};

use super::{MIDDLE, Model};
use crate::pipeline::work_queues::{Sharing, Work, WorkQueues};

pub(super) const MODELS: &[Model] = &[
    Model::new("work_queues::everything_comes_out_once", MIDDLE, everything_comes_out_once),
    Model::new(
        "work_queues::no_worker_sleeps_while_a_call_waits",
        MIDDLE,
        no_worker_sleeps_while_a_call_waits,
    ),
    Model::new("work_queues::together_or_one_by_one", MIDDLE, together_or_one_by_one),
    Model::new(
        "work_queues::rivals_wait_no_longer_than_they_must",
        MIDDLE,
        rivals_wait_no_longer_than_they_must,
    ),
    Model::new("work_queues::closing_lets_everybody_go", MIDDLE, closing_lets_everybody_go),
    Model::new("work_queues::sharing_leaves_no_call_behind", MIDDLE, sharing_leaves_no_call_behind),
];

impl Work for u32 {
    fn conflict_class(&self) -> u64 {
        u64::from(*self / 10)
    }

    fn waits_for_rivals(&self) -> bool {
        *self >= 100
    }
}

/// Queues of two workers, which share them.
fn queues(bound: usize) -> Arc<WorkQueues<u32>> {
    Arc::new(WorkQueues::new(2, Some(Sharing { bound })))
}

/// The life of a worker, until the queues are closed and emptied.
fn work(queues: Arc<WorkQueues<u32>>, worker: usize) -> thread::JoinHandle<Vec<u32>> {
    thread::spawn(move || {
        let mut all = Vec::new();
        loop {
            let before = all.len();
            queues.take(worker, usize::MAX, &mut all);
            if all.len() == before {
                return all;
            }
        }
    })
}

/// A worker that takes once, and is busy forever.
fn take_once(queues: Arc<WorkQueues<u32>>, worker: usize) -> thread::JoinHandle<Vec<u32>> {
    thread::spawn(move || {
        let mut taken = Vec::new();
        queues.take(worker, 1, &mut taken);
        taken
    })
}

fn gather(workers: impl IntoIterator<Item = thread::JoinHandle<Vec<u32>>>) -> Vec<u32> {
    let mut all: Vec<u32> =
        workers.into_iter().flat_map(|worker| worker.join().expect("the worker goes")).collect();
    all.sort_unstable();
    all
}

/// Makers that wait for room, calls that were let in before, thieves; then the queues are closed.
fn everything_comes_out_once() {
    let queues = queues(1);
    let workers = [0, 1].map(|worker| work(queues.clone(), worker));
    let maker = {
        let queues = queues.clone();
        thread::spawn(move || [1, 2, 11].into_iter().for_each(|item| assert!(queues.push(0, item))))
    };
    assert!(queues.append(0, &mut vec![3, 12]));
    assert!(queues.push(1, 4));
    maker.join().expect("there is room again");
    queues.close();
    assert_eq!(gather(workers), [1, 2, 3, 4, 11, 12]);
}

/// The queue's own worker never looks at it: the other one is woken for it.
fn no_worker_sleeps_while_a_call_waits() {
    let queues = queues(8);
    let thief = take_once(queues.clone(), 1);
    assert!(queues.push(0, 1));
    assert_eq!(gather([thief]), [1]);
}

/// Two calls for two workers, each of which takes one: neither is left to the worker that is busy with the other.
fn together_or_one_by_one() {
    for together in [true, false] {
        let queues = queues(8);
        let workers = [0, 1].map(|worker| take_once(queues.clone(), worker));
        if together {
            assert!(queues.append(0, &mut vec![1, 2]));
        } else {
            assert!(queues.push(0, 1) && queues.push(0, 2));
        }
        assert_eq!(gather(workers), [1, 2]);
    }
}

/// Calls that wait for their rivals, in the queues of both workers: all have been run before any thread closes the queues.
fn rivals_wait_no_longer_than_they_must() {
    let queues = queues(8);
    let taken = Arc::new((Mutex::new(0), Condvar::new()));
    let workers = [0, 1].map(|worker| {
        let (queues, taken) = (queues.clone(), taken.clone());
        thread::spawn(move || {
            let mut all = Vec::new();
            loop {
                let before = all.len();
                queues.take(worker, 1, &mut all);
                if all.len() == before {
                    return all;
                }
                *taken.0.lock() += 1;
                taken.1.notify_all();
            }
        })
    });
    assert!(queues.append(0, &mut vec![100, 101]) && queues.push(1, 102));
    let mut number = taken.0.lock();
    while *number < 3 {
        taken.1.wait(&mut number);
    }
    drop(number);
    queues.close();
    assert_eq!(gather(workers), [100, 101, 102]);
}

/// A call for a worker that never looks at it, enqueued while the queues begin to be shared: the other worker steals it, whether it was
/// enqueued by the old rules or the new ones.
fn sharing_leaves_no_call_behind() {
    let queues = Arc::new(WorkQueues::new(2, None));
    let thief = take_once(queues.clone(), 1);
    let maker = {
        let queues = queues.clone();
        thread::spawn(move || assert!(queues.push(0, 1)))
    };
    queues.share(Some(Sharing { bound: 8 }));
    maker.join().expect("it is enqueued");
    assert_eq!(gather([thief]), [1]);
}

/// Workers that sleep, and a maker that waits for room, when the queues are closed: the queued calls are
/// dequeued, and no other ones.
fn closing_lets_everybody_go() {
    let queues = queues(1);
    let worker = work(queues.clone(), 1);
    let maker = {
        let queues = queues.clone();
        thread::spawn(move || (1..=3).filter(|item| queues.push(0, *item)).collect::<Vec<u32>>())
    };
    queues.close();
    // What the first worker has left, the second takes: its own worker looks once more, as at the end of its life.
    let last = work(queues, 0);
    let entered = maker.join().expect("closing lets it go");
    assert_eq!(gather([worker, last]), entered);
}
