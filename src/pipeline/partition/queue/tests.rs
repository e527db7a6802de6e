//! Tests of the executors' queues: order, boundaries, the close, and visits.

use super::*;
use smallvec::smallvec;
use std::sync::atomic::AtomicU32;
use std::thread;

#[test]
fn what_enters_two_queues_is_in_the_same_order_in_both() {
    let queues: Queues<u64, ()> = Queues::new(3);
    const EACH: u64 = 2_000;
    let orders = thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|number| {
                let queues = &queues;
                scope.spawn(move || {
                    let (mut all, mut found) = (Vec::new(), Found::default());
                    while queues.take(number, true, &mut found) {
                        queues.leave(found.incoming.len());
                        all.append(&mut found.incoming);
                    }
                    all
                })
            })
            .collect();
        let writers: Vec<_> = (0..4_u64)
            .map(|writer| {
                let queues = &queues;
                scope.spawn(move || {
                    for round in 0..EACH {
                        let item = writer * EACH + round;
                        let entries = [(0, 1), (0, 2), (1, 2)][(item % 3) as usize];
                        let entries = smallvec![(entries.0, item), (entries.1, item)];
                        assert!(queues.let_in(2, 0, entries).is_ok());
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().expect("it ends"));
        queues.close();
        readers.into_iter().map(|reader| reader.join().expect("it ends")).collect::<Vec<Vec<u64>>>()
    });
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        let common = |order: &Vec<u64>, with: &Vec<u64>| {
            let with: std::collections::HashSet<_> = with.iter().copied().collect();
            order.iter().copied().filter(|item| with.contains(item)).collect::<Vec<_>>()
        };
        let (left, right) = (common(&orders[one], &orders[other]), common(&orders[other], &orders[one]));
        assert!(!left.is_empty());
        assert_eq!(left, right);
    }
    assert_eq!(queues.handovers().1, 2 * 4 * EACH);
}

#[test]
fn who_is_under_way_is_served_after_the_close_and_then_everybody_goes() {
    let (queues, served): (Queues<u32, u32>, AtomicU32) = (Queues::new(2), AtomicU32::new(0));
    thread::scope(|scope| {
        assert!(queues.let_in(1, 0, smallvec![(0, 3)]).is_ok());
        for number in 0..2 {
            let (queues, served) = (&queues, &served);
            scope.spawn(move || {
                let mut found = Found::default();
                while queues.take(number, true, &mut found) {
                    for left in found.incoming.drain(..).chain(found.notices.drain(..)) {
                        served.fetch_add(1, Ordering::SeqCst);
                        match left {
                            0 => queues.leave(1),
                            left if left % 2 == 0 => {
                                assert!(queues.enter(0, smallvec![(1 - number, left - 1)]))
                            }
                            left => queues.notify(1 - number, left - 1),
                        }
                    }
                }
            });
        }
        queues.close();
    });
    assert_eq!(served.load(Ordering::SeqCst), 4);
    assert!(matches!(queues.let_in(1, 0, smallvec![(0, 1), (1, 1)]), Err(Refused::Closed(_))));
    assert_eq!(queues.let_many_in(2, 0, 0, 7, |entry| entry), Err(Refused::Closed(7)));
    assert!(!queues.change(smallvec![(0, 1)], || unreachable!("nothing changes")));
    assert!(!queues.take(0, true, &mut Found::default()));
}

#[test]
fn what_was_routed_by_boundaries_that_have_moved_enters_nowhere() {
    let queues: Queues<u32, ()> = Queues::new(3);
    assert!(queues.let_in(1, 0, smallvec![(0, 1), (1, 2)]).is_ok());
    assert!(queues.change(smallvec![(1, 3), (2, 4)], || 1));
    assert!(queues.enter(0, smallvec![(0, 5)]), "nothing has changed there");
    assert!(!queues.enter(0, smallvec![(0, 6), (1, 7)]));
    assert_eq!(queues.let_many_in(2, 2, 0, 8, |entry| entry), Err(Refused::Moved(8)));
    let entries = smallvec![(0, 9), (2, 9)];
    assert_eq!(queues.let_in(1, 0, entries), Err(Refused::Moved(smallvec![(0, 9), (2, 9)])));
    assert!(queues.enter(1, smallvec![(1, 10)]));
    let found = |number| {
        let mut found = Found::default();
        queues.take(number, true, &mut found);
        found.incoming
    };
    assert_eq!([found(0), found(1), found(2)], [vec![1, 5], vec![2, 3, 10], vec![4]]);
}

/// The life of an executor, who finds nobody beside it.
fn serve(queues: &Queues<u32, u32>, number: usize, at_rest: bool, inside: &AtomicU32, served: &AtomicU32) {
    let mut found = Found::default();
    while queues.take(number, at_rest, &mut found) {
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "beside a visitor");
        let many = found.incoming.drain(..).chain(found.notices.drain(..)).count() as u32;
        served.fetch_add(many, Ordering::SeqCst);
        inside.fetch_sub(1, Ordering::SeqCst);
        queues.leave(many as usize);
    }
}

fn visit_when_free<'q>(queues: &'q Queues<u32, u32>, executors: &[usize]) -> Visit<'q, u32, u32> {
    loop {
        match queues.visit(executors, 0, 1) {
            Ok(visit) => return visit,
            Err(_) => thread::yield_now(),
        }
    }
}

#[test]
fn nobody_is_beside_a_visitor_and_what_comes_in_meanwhile_is_served() {
    const ROUNDS: u32 = 3_000;
    let queues: Queues<u32, u32> = Queues::new(2);
    let (inside, served): ([AtomicU32; 2], AtomicU32) = Default::default();
    thread::scope(|scope| {
        for number in 0..2 {
            let (queues, inside, served) = (&queues, &inside[number], &served);
            scope.spawn(move || serve(queues, number, true, inside, served));
        }
        let visitors: Vec<_> = [&[0][..], &[1], &[0, 1]]
            .into_iter()
            .map(|executors| {
                let (queues, inside) = (&queues, &inside);
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        let visit = visit_when_free(queues, executors);
                        for &number in executors {
                            assert_eq!(inside[number].fetch_add(1, Ordering::SeqCst), 0);
                        }
                        if round % 3 == 0 {
                            // It comes in during the visit; nobody else would wake the executor for it.
                            assert!(queues.let_in(1, 0, smallvec![(executors[0], round)]).is_ok());
                        }
                        for &number in executors {
                            inside[number].fetch_sub(1, Ordering::SeqCst);
                        }
                        drop(visit);
                    }
                })
            })
            .collect();
        visitors.into_iter().for_each(|visitor| visitor.join().expect("it ends"));
        queues.close();
    });
    assert_eq!(served.load(Ordering::SeqCst), 3 * ROUNDS / 3);
    assert_eq!(queues.handovers().1, u64::from(ROUNDS + 4 * ROUNDS));
}

#[test]
fn nobody_visits_an_executor_that_is_awake_or_holds_something_or_has_something_to_do_or_is_visited() {
    for at_rest in [false, true] {
        let queues: Queues<u32, u32> = Queues::new(2);
        assert!(queues.visit(&[0], 0, 1).is_err(), "nobody sleeps yet");
        let (inside, served) = Default::default();
        thread::scope(|scope| {
            scope.spawn(|| serve(&queues, 1, at_rest, &inside, &served));
            while !queues.boxes[1].state.lock().asleep {
                thread::yield_now();
            }
            assert!(queues.visit(&[0, 1], 0, 1).is_err(), "one of two is not asleep");
            assert!(!queues.boxes[1].state.lock().visited, "all or none");
            let visit = queues.visit(&[1], 0, 5);
            assert_eq!(visit.is_ok(), at_rest);
            if let Ok(visit) = visit {
                assert!(queues.visit(&[1], 0, 1).is_err(), "one at a time");
                assert!(queues.let_in(1, 0, smallvec![(1, 7)]).is_ok());
                queues.close();
                assert_eq!(served.load(Ordering::SeqCst), 0, "it sleeps until the visitor has left");
                drop(visit);
            } else {
                queues.close();
            }
        });
        assert_eq!(served.load(Ordering::SeqCst), u32::from(at_rest));
        assert!(queues.visit(&[1], 0, 1).is_err(), "the queues are closed");
    }
}

#[test]
fn nobody_visits_by_boundaries_that_have_moved() {
    let queues: Queues<u32, u32> = Queues::new(2);
    let (inside, served): ([AtomicU32; 2], AtomicU32) = Default::default();
    thread::scope(|scope| {
        for number in 0..2 {
            let (queues, inside, served) = (&queues, &inside[number], &served);
            scope.spawn(move || serve(queues, number, true, inside, served));
        }
        drop(visit_when_free(&queues, &[0, 1]));
        let visit = visit_when_free(&queues, &[1]);
        // A move does not wait for the visitor; what it has put in does.
        assert!(queues.change(smallvec![(1, 1)], || 1));
        assert_eq!(served.load(Ordering::SeqCst), 0);
        assert_eq!(queues.visit(&[1], 0, 1).err(), Some(Unfree::Moved));
        drop(visit);
        drop(visit_when_free(&queues, &[0]));
        while queues.visit(&[1], 1, 1).is_err() {
            thread::yield_now();
        }
        assert_eq!(queues.visit(&[0, 1], 0, 1).err(), Some(Unfree::Moved));
        queues.close();
    });
    assert_eq!(served.load(Ordering::SeqCst), 1);
}
