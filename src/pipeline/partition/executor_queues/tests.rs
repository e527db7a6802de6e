//! The executors' queues: order, outdated routes, the close.

use super::*;
use smallvec::smallvec;
use std::sync::atomic::AtomicU32;
use std::thread;

/// The two queues that an item enters.
const ROUTES: [(usize, usize); 3] = [(0, 1), (0, 2), (1, 2)];

fn first_of(item: u64) -> usize {
    ROUTES[(item % 3) as usize].0
}

#[test]
fn work_for_two_queues_is_in_the_same_order_in_both() {
    let queues: ExecutorQueues<u64, ()> = ExecutorQueues::new(3, 0);
    const EACH: u64 = 2_000;
    let orders = thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|number| {
                let queues = &queues;
                scope.spawn(move || {
                    let (mut all, mut taken) = (Vec::new(), Taken::default());
                    while queues.take(number, &mut taken) {
                        queues.leave(taken.incoming.iter().filter(|item| first_of(**item) == number).count());
                        all.append(&mut taken.incoming);
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
                        let entries = ROUTES[(item % 3) as usize];
                        let entries = smallvec![(entries.0, item), (entries.1, item)];
                        assert!(queues.admit(0, entries).is_ok());
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
fn active_transactions_end_after_the_close_and_then_the_executors_end() {
    let (queues, served): (ExecutorQueues<u32, u32>, AtomicU32) =
        (ExecutorQueues::new(2, 0), AtomicU32::new(0));
    thread::scope(|scope| {
        assert!(queues.admit(0, smallvec![(0, 3)]).is_ok());
        for number in 0..2 {
            let (queues, served) = (&queues, &served);
            scope.spawn(move || {
                let mut taken = Taken::default();
                while queues.take(number, &mut taken) {
                    for left in taken.incoming.drain(..).chain(taken.notices.drain(..)) {
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
    assert!(matches!(queues.admit(0, smallvec![(0, 1), (1, 1)]), Err(Refused::Closed(_))));
    assert_eq!(queues.admit_batch(2, 0, 0, 7, |entry| entry), Err(Refused::Closed(7)));
    assert!(!queues.repartition(smallvec![(0, 1)], || unreachable!("nothing changes")));
    assert!(!queues.take(0, &mut Taken::default()));
}

#[test]
fn work_routed_by_an_outdated_map_enters_no_queue() {
    let queues: ExecutorQueues<u32, ()> = ExecutorQueues::new(3, 0);
    assert!(queues.admit(0, smallvec![(0, 1), (1, 2)]).is_ok());
    assert!(queues.repartition(smallvec![(1, 3), (2, 4)], || 1));
    assert!(queues.enter(0, smallvec![(0, 5)]), "these ranges have not changed");
    assert!(!queues.enter(0, smallvec![(0, 6), (1, 7)]));
    assert_eq!(queues.admit_batch(2, 2, 0, 8, |entry| entry), Err(Refused::Misrouted(8)));
    let entries = smallvec![(0, 9), (2, 9)];
    assert_eq!(queues.admit(0, entries), Err(Refused::Misrouted(smallvec![(0, 9), (2, 9)])));
    assert!(queues.enter(1, smallvec![(1, 10)]));
    let found = |number| {
        let mut taken = Taken::default();
        queues.take(number, &mut taken);
        taken.incoming
    };
    assert_eq!([found(0), found(1), found(2)], [vec![1, 5], vec![2, 3, 10], vec![4]]);
}

#[test]
fn a_repartitioning_is_not_counted_as_a_transaction() {
    let queues: ExecutorQueues<u32, ()> = ExecutorQueues::new(2, 0);
    assert!(queues.repartition(smallvec![(0, 1), (1, 1)], || 1));
    let mut taken = Taken::default();
    assert!(queues.take(0, &mut taken) && queues.take(1, &mut taken));
    assert_eq!(queues.batches(), (0, 0));
    assert!(queues.admit_batch(5, 1, 1, 2, |batch| batch).is_ok());
    assert!(queues.admit(1, smallvec![(0, 3), (1, 3)]).is_ok());
    assert!(queues.take(0, &mut taken) && queues.take(1, &mut taken));
    assert_eq!(queues.batches(), (2, 7), "a batch of five, and one transaction at both");
}

#[test]
fn a_group_enters_all_its_queues_in_order_or_none() {
    let queues: ExecutorQueues<u32, ()> = ExecutorQueues::new(3, 0);
    let group = |first: u32| {
        let mut entries: Vec<QueueEntries<u32>> = (0..3).map(|_| QueueEntries::default()).collect();
        (0..3).for_each(|number| entries[0].push(first + number, 1));
        entries[2].push(first + 3, 2);
        entries
    };
    assert!(queues.admit_group(5, 0, &mut group(10)).is_ok());
    assert!(queues.repartition(smallvec![(2, 0)], || 7));
    let mut outdated = group(20);
    assert_eq!(queues.admit_group(5, 6, &mut outdated), Err(Refused::Misrouted(())));
    assert_eq!(outdated.iter_mut().flat_map(QueueEntries::drain).collect::<Vec<_>>(), [20, 21, 22, 23]);
    assert!(queues.admit_group(5, 7, &mut group(30)).is_ok());
    let taken = |executor| {
        let mut taken = Taken::default();
        assert!(queues.take(executor, &mut taken));
        taken.incoming
    };
    assert_eq!((taken(0), taken(2)), (vec![10, 11, 12, 30, 31, 32], vec![13, 0, 33]));
    assert_eq!(queues.batches(), (2, 10));
    queues.close();
    assert_eq!(queues.admit_group(5, 7, &mut group(40)), Err(Refused::Closed(())));
}

#[test]
fn executors_count_as_runnable_unless_they_are_parked() {
    let queues: ExecutorQueues<u32, ()> = ExecutorQueues::new(2, 2);
    let becomes = |count: usize| {
        let start = Instant::now();
        while queues.runnable().count() != count {
            assert!(start.elapsed() < Duration::from_secs(30), "{} are counted", queues.runnable().count());
            thread::yield_now();
        }
    };
    assert_eq!(queues.runnable().count(), 2);
    thread::scope(|scope| {
        for number in 0..2 {
            let queues = &queues;
            scope.spawn(move || {
                let mut taken = Taken::default();
                while queues.take(number, &mut taken) {
                    queues.leave(taken.incoming.drain(..).count());
                }
            });
        }
        for round in 0..100 {
            becomes(0);
            assert!(queues.admit_batch(1, round % 2, 0, 7, |batch| batch).is_ok());
        }
        becomes(0);
        queues.close();
    });
    assert_eq!(queues.runnable().count(), 2, "both were woken");
}
