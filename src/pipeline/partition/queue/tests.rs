//! Tests of the executors' queues: order, boundaries, the close.

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
    assert_eq!(queues.batches().1, 2 * 4 * EACH);
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
