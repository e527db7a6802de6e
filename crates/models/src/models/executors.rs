//! The executors' queues: what enters two of them is in one order in both; a visitor is alone in its rooms, and what comes in during
//! a visit is served after it; nobody goes before a visitor has left, or who was let in has; who waits for a room holds up
//! nobody that it waits for. An executor that sleeps for ever is a deadlock, which the checker finds.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use smallvec::smallvec;

use super::{MIDDLE, Model};
use crate::base::atomics::{AtomicU64, Ordering};
use crate::pipeline::partition::queue::{Found, Queues, Unfree, rooms_of};

pub(super) const MODELS: &[Model] = &[
    Model::new("executors::two_phases_enter_in_one_order", MIDDLE, two_phases_enter_in_one_order),
    Model::new("executors::a_visit_loses_no_wake_up", MIDDLE, a_visit_loses_no_wake_up),
    Model::new("executors::closing_waits_for_who_was_let_in", MIDDLE, closing_waits_for_who_was_let_in),
    Model::new("executors::nobody_visits_by_old_boundaries", MIDDLE, nobody_visits_by_old_boundaries),
    Model::new(
        "executors::two_in_a_room_are_never_there_at_once",
        MIDDLE,
        two_in_a_room_are_never_there_at_once,
    ),
    Model::new("executors::who_waits_for_a_room_stops_nobody", MIDDLE, who_waits_for_a_room_stops_nobody),
    Model::new("executors::what_moves_has_one_visitor", MIDDLE, what_moves_has_one_visitor),
];

/// Two executors with two rooms each, and who is in each of these.
struct Stand {
    queues: Queues<u32, u32>,
    inside: [AtomicU64; 4],
}

impl Stand {
    fn new() -> Arc<Stand> {
        Arc::new(Stand { queues: Queues::new(2), inside: [const { AtomicU64::new(0) }; 4] })
    }

    fn come(&self, rooms: impl IntoIterator<Item = usize>) {
        for room in rooms {
            assert_eq!(self.inside[room].fetch_add(1, Ordering::SeqCst), 0, "two in one room");
        }
    }

    fn go(&self, rooms: impl IntoIterator<Item = usize>) {
        rooms.into_iter().for_each(|room| _ = self.inside[room].fetch_sub(1, Ordering::SeqCst));
    }

    /// The life of an executor: until it has got so much, or is told to go. What it has got.
    fn serve(self: &Arc<Stand>, number: usize, most: usize) -> JoinHandle<Vec<u32>> {
        let stand = self.clone();
        thread::spawn(move || {
            let (mut all, mut found) = (Vec::new(), Found::default());
            while all.len() < most && stand.queues.take(number, true, &mut found) {
                stand.come(rooms_of(number));
                let left = found.incoming.len();
                all.append(&mut found.incoming);
                stand.go(rooms_of(number));
                stand.queues.leave(left);
            }
            all
        })
    }

    /// Visits, if it can, so often.
    fn visit(self: &Arc<Stand>, rooms: &'static [usize], times: usize) -> JoinHandle<()> {
        let stand = self.clone();
        thread::spawn(move || {
            for _ in 0..times {
                if let Ok(visit) = stand.queues.visit(rooms, 0) {
                    stand.come(rooms.iter().copied());
                    thread::yield_now();
                    stand.go(rooms.iter().copied());
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
    let visitors = [stand.visit(&[0], 3), stand.visit(&[1], 2)];
    let sender = {
        let stand = stand.clone();
        thread::spawn(move || {
            for item in [1, 2] {
                assert!(stand.queues.let_in(1, 0, smallvec![(0, item)]).is_ok());
                thread::yield_now();
            }
        })
    };
    visitors.into_iter().for_each(|visitor| visitor.join().expect("it leaves"));
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
    assert!(stand.queues.visit(&[0], 0).is_err());
}

/// Boundaries move while somebody visits: who comes by the old ones after that moment is refused.
fn nobody_visits_by_old_boundaries() {
    let stand = Stand::new();
    let executors = [0, 1].map(|number| stand.serve(number, 1));
    let visitors = [stand.visit(&[0, 2], 2), stand.visit(&[2], 2)];
    let version = AtomicU64::new(0);
    assert!(stand.queues.change(smallvec![(0, 7), (1, 7)], || version.fetch_add(1, Ordering::SeqCst) + 1));
    assert_eq!(stand.queues.visit(&[0], 0).err(), Some(Unfree::Moved));
    assert_eq!(stand.queues.visit(&[1, 3], 0).err(), Some(Unfree::Moved));
    visitors.into_iter().for_each(|visitor| visitor.join().expect("it leaves"));
    for executor in executors {
        assert_eq!(executor.join().expect("it has got the move"), [7]);
    }
}

/// Data move from the first executor to the second one while visitors come, each to whom the boundaries that he finds name.
fn what_moves_has_one_visitor() {
    let stand = Stand::new();
    let (version, inside) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let executors = [0, 1].map(|number| {
        let stand = stand.clone();
        thread::spawn(move || {
            let (mut found, mut got) = (Found::default(), 0);
            // Who has got the move is at rest again when the other one has, too.
            while stand.queues.take(number, got != 1, &mut found) {
                let moves = found.incoming.drain(..).count();
                (0..moves).for_each(|_| stand.queues.notify(1 - number, 1));
                got += moves + found.notices.drain(..).count();
            }
        })
    });
    let visitors = [0, 1].map(|_| {
        let (stand, version, inside) = (stand.clone(), version.clone(), inside.clone());
        thread::spawn(move || {
            for _ in 0..2 {
                let known = version.load(Ordering::SeqCst);
                if let Ok(visit) = stand.queues.visit(&[if known == 0 { 0 } else { 2 }], known) {
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two with the same data");
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    drop(visit);
                }
                thread::yield_now();
            }
        })
    });
    assert!(stand.queues.change(smallvec![(0, 7), (1, 7)], || version.fetch_add(1, Ordering::SeqCst) + 1));
    visitors.into_iter().for_each(|visitor| visitor.join().expect("it leaves"));
    stand.queues.leave(1);
    stand.queues.close();
    executors.into_iter().for_each(|executor| executor.join().expect("it is told to go"));
}

/// Several come to the same rooms, of which one has a visitor that needs both.
fn two_in_a_room_are_never_there_at_once() {
    let stand = Stand::new();
    let executors = [0, 1].map(|number| stand.serve(number, 1));
    let visitors = [stand.visit(&[0], 2), stand.visit(&[0, 2], 2), stand.visit(&[2], 2)];
    visitors.into_iter().for_each(|visitor| visitor.join().expect("it leaves"));
    assert!(stand.queues.let_in(2, 0, smallvec![(0, 7), (1, 7)]).is_ok());
    for executor in executors {
        assert_eq!(executor.join().expect("it is woken"), [7]);
    }
}

/// Something that enters both executors is held by the second one until the first one has got it, too. Who visits
/// the first one, and waits for the second one's room, would be in its way if it stayed.
fn who_waits_for_a_room_stops_nobody() {
    let stand = Stand::new();
    let first = {
        let stand = stand.clone();
        thread::spawn(move || {
            let mut found = Found::default();
            assert!(stand.queues.take(0, true, &mut found));
            stand.queues.notify(1, 1);
        })
    };
    let second = {
        let stand = stand.clone();
        thread::spawn(move || {
            let (mut found, mut left) = (Found::default(), 2);
            while left > 0 {
                // While it holds what the other one has not got, it is not at rest.
                assert!(stand.queues.take(1, left == 2, &mut found));
                left -= found.incoming.drain(..).count() + found.notices.drain(..).count();
            }
        })
    };
    let visitor = stand.visit(&[2], 1);
    let waiting = {
        let stand = stand.clone();
        thread::spawn(move || {
            let mut visit = stand.queues.no_visit();
            while stand.queues.visit_more(&mut visit, &[0, 2], 0) == Err(Unfree::Visited) {
                thread::yield_now();
            }
        })
    };
    assert!(stand.queues.let_in(1, 0, smallvec![(0, 7), (1, 7)]).is_ok());
    for thread in [first, second, visitor, waiting] {
        thread.join().expect("it gets through");
    }
}
