//! The executors' queues: what enters two of them is in one order in both; a visitor is alone, and what comes in during
//! a visit is served after it; nobody goes before a visitor has left, or who was let in has. An executor that sleeps for ever
//! is a deadlock, which the checker finds.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use smallvec::smallvec;

use super::{MIDDLE, Model};
use crate::base::atomics::{AtomicU64, Ordering};
use crate::pipeline::partition::queue::{Found, Queues, Unfree};

pub(super) const MODELS: &[Model] = &[
    Model::new("executors::two_phases_enter_in_one_order", MIDDLE, two_phases_enter_in_one_order),
    Model::new("executors::a_visit_loses_no_wake_up", MIDDLE, a_visit_loses_no_wake_up),
    Model::new("executors::closing_waits_for_who_was_let_in", MIDDLE, closing_waits_for_who_was_let_in),
    Model::new("executors::nobody_visits_by_old_boundaries", MIDDLE, nobody_visits_by_old_boundaries),
];

/// Two executors, and who is with each of them.
struct Stand {
    queues: Queues<u32, u32>,
    inside: [AtomicU64; 2],
}

impl Stand {
    fn new() -> Arc<Stand> {
        Arc::new(Stand { queues: Queues::new(2), inside: [AtomicU64::new(0), AtomicU64::new(0)] })
    }

    fn come(&self, executors: &[usize]) {
        for &executor in executors {
            assert_eq!(self.inside[executor].fetch_add(1, Ordering::SeqCst), 0, "two at one executor");
        }
    }

    fn go(&self, executors: &[usize]) {
        executors.iter().for_each(|&executor| _ = self.inside[executor].fetch_sub(1, Ordering::SeqCst));
    }

    /// The life of an executor: until it has got so much, or is told to go. What it has got.
    fn serve(self: &Arc<Stand>, number: usize, most: usize) -> JoinHandle<Vec<u32>> {
        let stand = self.clone();
        thread::spawn(move || {
            let (mut all, mut found) = (Vec::new(), Found::default());
            while all.len() < most && stand.queues.take(number, true, &mut found) {
                stand.come(&[number]);
                let left = found.incoming.len();
                all.append(&mut found.incoming);
                stand.go(&[number]);
                stand.queues.leave(left);
            }
            all
        })
    }

    /// Visits, if it can, so often.
    fn visit(self: &Arc<Stand>, executors: &'static [usize], times: usize) -> JoinHandle<()> {
        let stand = self.clone();
        thread::spawn(move || {
            for _ in 0..times {
                if let Ok(visit) = stand.queues.visit(executors, 0, 1) {
                    stand.come(executors);
                    thread::yield_now();
                    stand.go(executors);
                    drop(visit);
                }
                thread::yield_now();
            }
        })
    }
}

/// Two phases with actions at the same two executors: one of them is first at both, so that they never wait for each other.
fn two_phases_enter_in_one_order() {
    let stand = Stand::new();
    let phases = [1, 2].map(|phase| {
        let stand = stand.clone();
        thread::spawn(move || assert!(stand.queues.let_in(2, 0, smallvec![(0, phase), (1, phase)]).is_ok()))
    });
    phases.into_iter().for_each(|phase| phase.join().expect("it enters"));
    // Only now: what is looked at is the order, not who is woken.
    let executors = [0, 1].map(|number| stand.serve(number, 2));
    let [first, second] = executors.map(|executor| executor.join().expect("it has got both"));
    assert_eq!(first, second);
}

/// Something comes in while an executor sleeps, is about to, or is visited; nobody closes the queues.
fn a_visit_loses_no_wake_up() {
    let stand = Stand::new();
    let executor = stand.serve(0, 2);
    let visitor = stand.visit(&[0], 3);
    let sender = {
        let stand = stand.clone();
        thread::spawn(move || {
            for item in [1, 2] {
                assert!(stand.queues.let_in(1, 0, smallvec![(0, item)]).is_ok());
                thread::yield_now();
            }
        })
    };
    visitor.join().expect("it leaves");
    sender.join().expect("it goes");
    assert_eq!(executor.join().expect("it has got both"), [1, 2]);
}

/// Who was let in has something for the other executor later; and visitors are there when the queues are closed.
fn closing_waits_for_who_was_let_in() {
    let stand = Stand::new();
    assert!(stand.queues.let_in(1, 0, smallvec![(0, 1)]).is_ok());
    let first = {
        let stand = stand.clone();
        thread::spawn(move || {
            let mut found = Found::default();
            while stand.queues.take(0, true, &mut found) {
                for item in found.incoming.drain(..) {
                    assert!(stand.queues.enter(0, smallvec![(1, item + 1)]));
                }
            }
            assert_eq!(stand.inside[0].load(Ordering::SeqCst), 0, "it goes while a visitor is there");
        })
    };
    let second = stand.serve(1, 9);
    let visitor = stand.visit(&[0], 2);
    stand.queues.close();
    visitor.join().expect("it leaves");
    assert_eq!(second.join().expect("it is told to go"), [2]);
    first.join().expect("it is told to go");
    assert!(stand.queues.visit(&[0], 0, 1).is_err());
}

/// Boundaries move while somebody visits: who comes by the old ones after that moment is refused.
fn nobody_visits_by_old_boundaries() {
    let stand = Stand::new();
    let executors = [0, 1].map(|number| stand.serve(number, 1));
    let visitors = [stand.visit(&[0, 1], 2), stand.visit(&[1], 2)];
    let version = AtomicU64::new(0);
    assert!(stand.queues.change(smallvec![(0, 7), (1, 7)], || version.fetch_add(1, Ordering::SeqCst) + 1));
    assert_eq!(stand.queues.visit(&[0], 0, 1).err(), Some(Unfree::Moved));
    assert_eq!(stand.queues.visit(&[0, 1], 0, 1).err(), Some(Unfree::Moved));
    visitors.into_iter().for_each(|visitor| visitor.join().expect("it leaves"));
    for executor in executors {
        assert_eq!(executor.join().expect("it has got the move"), [7]);
    }
}
