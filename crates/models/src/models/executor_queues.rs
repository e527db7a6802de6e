//! The executors' queues: atomic entries are in one order in both queues, no wake-up is lost, and no executor ends while a
//! transaction is active. An executor that sleeps forever is a deadlock, which the checker finds.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use smallvec::smallvec;

use super::{MIDDLE, Model};
use crate::base::atomics::{AtomicU64, Ordering};
use crate::pipeline::partition::executor_queues::{ExecutorQueues, QueueEntries, Refused, Taken};

pub(super) const MODELS: &[Model] = &[
    Model::new("executor_queues::two_phases_enter_in_one_order", MIDDLE, two_phases_enter_in_one_order),
    Model::new("executor_queues::no_wake_up_is_lost", MIDDLE, no_wake_up_is_lost),
    Model::new("executor_queues::a_group_wakes_its_executors", MIDDLE, a_group_wakes_its_executors),
    Model::new(
        "executor_queues::closing_waits_for_active_transactions",
        MIDDLE,
        closing_waits_for_active_transactions,
    ),
    Model::new(
        "executor_queues::an_outdated_map_is_refused_at_every_queue_that_changes",
        MIDDLE,
        an_outdated_map_is_refused_at_every_queue_that_changes,
    ),
];

type Queues = Arc<ExecutorQueues<u32, u32>>;

fn queues() -> Queues {
    Arc::new(ExecutorQueues::new(2, 0))
}

/// An executor that ends when it has taken `most` entries and notices, or when the queues end. Returns what it has taken.
fn serve(queues: &Queues, executor: usize, most: usize) -> JoinHandle<Vec<u32>> {
    let queues = queues.clone();
    thread::spawn(move || {
        let (mut all, mut taken) = (Vec::new(), Taken::default());
        while all.len() < most && queues.take(executor, &mut taken) {
            all.append(&mut taken.notices);
            all.append(&mut taken.incoming);
        }
        all
    })
}

/// A group with this entry for each executor.
fn group(entry: u32) -> [QueueEntries<u32>; 2] {
    let mut group = [QueueEntries::default(), QueueEntries::default()];
    group.iter_mut().for_each(|entries| entries.push(entry, 1));
    group
}

/// Two phases with actions at the same two executors: the same one is first at both, so that they never wait for each other.
fn two_phases_enter_in_one_order() {
    let queues = queues();
    let phases = [1, 2].map(|phase| {
        let queues = queues.clone();
        thread::spawn(move || {
            if phase == 1 {
                return assert!(queues.admit(0, smallvec![(0, phase), (1, phase)]).is_ok());
            }
            assert!(queues.admit_group(1, 0, &mut group(phase)).is_ok());
        })
    });
    phases.into_iter().for_each(|phase| phase.join().expect("it enters"));
    // Only now: the model is about the order, not about wake-ups.
    let executors = [0, 1].map(|executor| serve(&queues, executor, 2));
    let [first, second] = executors.map(|executor| executor.join().expect("it has taken both"));
    assert_eq!(first, second);
}

/// A batch, a phase and a notice are enqueued while an executor parks, or is about to; the queues are not
/// closed.
fn no_wake_up_is_lost() {
    let queues = queues();
    let executors = [(0, 3), (1, 1)].map(|(executor, most)| serve(&queues, executor, most));
    let sender = {
        let queues = queues.clone();
        thread::spawn(move || {
            assert!(queues.admit_batch(2, 0, 0, 1, |batch| batch).is_ok());
            thread::yield_now();
            queues.notify(0, 2);
        })
    };
    assert!(queues.admit(0, smallvec![(0, 3), (1, 4)]).is_ok());
    sender.join().expect("it has sent both");
    let [mut first, second] = executors.map(|executor| executor.join().expect("it has taken all"));
    first.sort_unstable();
    assert_eq!((first, second), (vec![1, 2, 3], vec![4]));
}

/// A group enters both queues while their executors park, or are about to.
fn a_group_wakes_its_executors() {
    let queues = queues();
    let executors = [0, 1].map(|executor| serve(&queues, executor, 1));
    assert!(queues.admit_group(2, 0, &mut group(7)).is_ok());
    executors.into_iter().for_each(|executor| assert_eq!(executor.join().expect("it is woken"), [7]));
}

/// An active transaction enters the other executor's queue while the queues are closed.
fn closing_waits_for_active_transactions() {
    let queues = queues();
    assert!(queues.admit(0, smallvec![(0, 1)]).is_ok());
    let first = {
        let queues = queues.clone();
        thread::spawn(move || {
            let mut taken = Taken::default();
            while queues.take(0, &mut taken) {
                for item in taken.incoming.drain(..) {
                    assert!(queues.enter(0, smallvec![(1, item + 1)]));
                }
            }
        })
    };
    let second = {
        let queues = queues.clone();
        thread::spawn(move || {
            let (mut all, mut taken) = (Vec::new(), Taken::default());
            while queues.take(1, &mut taken) {
                let ended = taken.incoming.len();
                all.append(&mut taken.incoming);
                queues.leave(ended);
            }
            all
        })
    };
    queues.close();
    assert_eq!(second.join().expect("it ends"), [2]);
    first.join().expect("it ends");
    assert!(matches!(queues.admit_batch(1, 0, 0, 7, |batch| batch), Err(Refused::Closed(7))));
}

/// The map changes while work is enqueued: each queue has the old map's work before the repartitioning, and
/// none behind it.
fn an_outdated_map_is_refused_at_every_queue_that_changes() {
    const CHANGE: u32 = 9;
    let (queues, version) = (queues(), Arc::new(AtomicU64::new(0)));
    let senders = [0, 1].map(|executor| {
        let (queues, version) = (queues.clone(), version.clone());
        thread::spawn(move || {
            let known = version.load(Ordering::SeqCst);
            queues.admit(known, smallvec![(executor, known as u32)]).is_ok()
        })
    });
    let change = || version.fetch_add(1, Ordering::SeqCst) + 1;
    assert!(queues.repartition(smallvec![(0, CHANGE), (1, CHANGE)], change));
    let entered = senders.map(|sender| usize::from(sender.join().expect("it ends")));
    for (executor, entered) in entered.into_iter().enumerate() {
        let taken = serve(&queues, executor, 1 + entered).join().expect("it has taken all");
        let at = taken.iter().position(|item| *item == CHANGE).expect("the repartitioning is there");
        assert!(taken[..at].iter().all(|version| *version == 0), "{taken:?}");
        assert!(taken[at + 1..].iter().all(|version| *version == 1), "{taken:?}");
    }
    assert!(matches!(queues.admit(0, smallvec![(1, 5)]), Err(Refused::Misrouted(_))));
}
