//! Dequeuing, stealing, blocking on full queues, and wakeups.

use super::*;
use std::thread;
use std::time::{Duration, Instant};

/// Numbers with the same hundreds form a conflict class; large ones never overlap with their class.
impl Work for i32 {
    fn conflict_class(&self) -> u64 {
        *self as u64 / 100
    }

    fn waits_for_rivals(&self) -> bool {
        *self >= 10_000
    }
}

const SHARED: Option<Sharing> = Some(Sharing { bound: 8 });

fn take(queues: &WorkQueues<i32>, worker: usize) -> Vec<i32> {
    let mut taken = Vec::new();
    queues.take(worker, 64, &mut taken);
    taken
}

#[test]
fn without_sharing_a_worker_dequeues_all_of_its_own_calls_in_order() {
    let queues = WorkQueues::new(2, None);
    (0..100).for_each(|item| assert!(queues.push(0, item)));
    assert!(queues.append(1, &mut vec![7]));
    assert!(take(&queues, 0).into_iter().eq(0..64) && take(&queues, 0).into_iter().eq(64..100));
    assert_eq!((take(&queues, 1), queues.stolen(), queues.batches()), (vec![7], 0, (3, 101)));
    queues.close();
    assert!(!queues.push(0, 1) && !queues.append(0, &mut vec![1]));
    assert_eq!(queues.try_push(0, 1), Put::Closed);
    assert_eq!(take(&queues, 0), [], "closed and empty");
}

/// Blocks until this many workers sleep.
fn wait_for_sleepers(queues: &WorkQueues<i32>, workers: usize) {
    while queues.idle.load(Ordering::SeqCst) < workers {
        thread::yield_now();
    }
}

#[test]
fn callers_stand_in_for_as_many_workers_as_sleep() {
    let queues = WorkQueues::new(3, None);
    assert!(queues.stand_in().is_none(), "every worker is awake");
    thread::scope(|scope| {
        let sleepers = [0, 1].map(|worker| scope.spawn(move_take(&queues, worker)));
        wait_for_sleepers(&queues, 2);
        let (first, second) = (queues.stand_in(), queues.stand_in());
        assert!(first.is_some() && second.is_some());
        assert!(queues.stand_in().is_none() && queues.stand_in().is_none());
        drop(first);
        assert!(queues.stand_in().is_some());
        drop(second);
        assert_eq!(queues.batches(), (3, 3), "each that stands in is a batch of one call");
        assert!(queues.push(0, 7) && queues.push(1, 8));
        assert_eq!(sleepers.map(|sleeper| sleeper.join().expect("no panic")), [vec![7], vec![8]]);
    });
    assert!(queues.stand_in().is_none(), "every worker is awake again");
}

/// A thread's work: to dequeue as this worker.
fn move_take(queues: &WorkQueues<i32>, worker: usize) -> impl FnOnce() -> Vec<i32> + Send {
    move || take(queues, worker)
}

#[test]
fn with_sharing_a_worker_dequeues_half_and_steals_one_call_of_the_longest_queue() {
    let queues = WorkQueues::new(3, SHARED);
    (0..8).for_each(|item| assert!(queues.push(0, item)));
    assert!(queues.push(1, 100));
    assert_eq!(queues.try_push(0, 9), Put::Full(9));
    assert_eq!(take(&queues, 2), [0]);
    assert_eq!(take(&queues, 0), [1, 2, 3, 4]);
    assert_eq!((take(&queues, 1), take(&queues, 1)), (vec![100], vec![5]));
    assert_eq!(queues.stolen(), 2);
}

#[test]
fn a_thief_steals_a_call_whose_conflict_class_no_worker_is_running() {
    let queues = WorkQueues::new(4, Some(Sharing { bound: 64 }));
    [501, 502, 701, 503].into_iter().for_each(|item| assert!(queues.push(0, item)));
    [801, 504].into_iter().for_each(|item| assert!(queues.push(1, item)));
    assert_eq!(take(&queues, 0), [501, 502]);
    assert_eq!(take(&queues, 2), [701], "of the longer queue, but not the first");
    assert_eq!(take(&queues, 3), [801], "of the other queue");
    assert_eq!(take(&queues, 1), [504], "its own it runs in any case");
    assert_eq!(take(&queues, 0), [503], "and so does this one");
}

#[test]
fn a_worker_dequeues_one_conflict_class_and_skips_those_that_another_is_running() {
    let queues = WorkQueues::new(2, Some(Sharing { bound: 64 }));
    [501, 601, 502, 602, 603, 5, 503, 6].into_iter().for_each(|item| assert!(queues.push(0, item)));
    assert_eq!(take(&queues, 1), [501]);
    assert_eq!(take(&queues, 0), [601, 602, 603], "rivals of each other");
    assert_eq!(take(&queues, 1), [502]);
    assert_eq!(take(&queues, 0), [5, 6], "of those without a known conflict class");
    assert_eq!(take(&queues, 0), [503], "there is nothing else");
}

#[test]
fn calls_of_a_running_class_are_stolen_only_from_a_crowded_queue() {
    let queues = WorkQueues::new(2, SHARED);
    (500..505).for_each(|item| assert!(queues.push(0, item)));
    assert_eq!(take(&queues, 0), [500, 501, 502]);
    (505..508).for_each(|item| assert!(queues.push(0, item)));
    assert_eq!(take(&queues, 1), [503], "five of eight");
    thread::scope(|scope| {
        let thief = scope.spawn(|| take(&queues, 1));
        thread::sleep(Duration::from_millis(20));
        assert!(!thief.is_finished(), "four are no crowd");
        assert_eq!(take(&queues, 0), [504, 505]);
        assert!(queues.push(0, 900));
        assert_eq!(thief.join().expect("no panic"), [900], "it was woken for what is no rival");
    });
}

#[test]
fn a_thief_is_woken_when_the_call_it_must_not_overlap_with_has_ended() {
    let queues = WorkQueues::new(3, Some(Sharing { bound: 64 }));
    [501, 502, 700].into_iter().for_each(|item| assert!(queues.push(0, item)));
    assert_eq!(take(&queues, 1), [501]);
    // Its own worker is busy forever with something else.
    assert_eq!(take(&queues, 0), [700]);
    thread::scope(|scope| {
        let thief = scope.spawn(|| take(&queues, 2));
        thread::sleep(Duration::from_millis(20));
        assert!(!thief.is_finished());
        // The worker that ran the rival has something of its own to do next, which the thief must not take either.
        assert!(queues.push(1, 701));
        assert_eq!(take(&queues, 1), [701]);
        assert_eq!(thief.join().expect("no panic"), [502]);
    });
}

#[test]
fn no_worker_runs_a_call_that_must_not_overlap_until_its_class_is_free() {
    let queues = WorkQueues::new(3, SHARED);
    (10_000..10_007).for_each(|item| assert!(queues.push(0, item)));
    assert_eq!(take(&queues, 1), [10_000]);
    thread::scope(|scope| {
        let start = |worker| {
            let queues = &queues;
            scope.spawn(move || take(queues, worker).len())
        };
        let mut workers = vec![start(0), start(2)];
        thread::sleep(Duration::from_millis(20));
        let finished = |workers: &[thread::ScopedJoinHandle<'_, usize>]| {
            workers.iter().filter(|worker| worker.is_finished()).count()
        };
        let before = finished(&workers);
        // What it has run has ended now.
        workers.push(start(1));
        let begin = Instant::now();
        while finished(&workers) == 0 && begin.elapsed().as_secs() < 10 {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(20));
        let after = finished(&workers);
        queues.close();
        let taken: usize = workers.into_iter().map(|worker| worker.join().expect("no panic")).sum();
        assert_eq!(before, 0, "neither its own worker, nor a thief, although six of eight are a crowd");
        assert_eq!(after, 1, "one runs them now, and the others wait for it");
        assert!(taken >= 2, "nothing waits any longer than calls come");
    });
}

#[test]
fn a_worker_skips_calls_that_wait_for_their_class_and_steals_meanwhile() {
    let queues = WorkQueues::new(3, Some(Sharing { bound: 64 }));
    [10_001, 10_002, 10_101].into_iter().for_each(|item| assert!(queues.push(0, item)));
    assert_eq!(take(&queues, 1), [10_001]);
    assert_eq!(take(&queues, 0), [10_101], "of its own, what need not wait");
    assert!(queues.push(2, 900));
    assert_eq!(take(&queues, 0), [900], "of another's");
    assert_eq!(queues.waiting(0), 1);
    queues.close();
    assert_eq!((take(&queues, 2), take(&queues, 0)), (vec![], vec![10_002]));
}

#[test]
fn calls_without_a_conflict_class_are_dequeued_in_large_groups_unless_a_worker_is_idle() {
    let queues = WorkQueues::new(2, Some(Sharing { bound: 256 }));
    (0..200).for_each(|item| assert!(queues.push(0, item % 100)));
    assert_eq!(take(&queues, 0).len(), 64);
    (0..100).for_each(|item| assert!(queues.push(1, 500 + item)));
    assert_eq!(take(&queues, 1).len(), 8, "these are rivals");
    let queues = WorkQueues::new(2, Some(Sharing { bound: 256 }));
    thread::scope(|scope| {
        let idle = scope.spawn(|| take(&queues, 1));
        thread::sleep(Duration::from_millis(20));
        assert!(queues.append(0, &mut (0..99).collect()));
        assert_eq!(idle.join().expect("no panic"), [0]);
    });
    assert_eq!(take(&queues, 0).len(), 49, "half of what waits is left to be stolen");
}

#[test]
fn removed_calls_can_be_enqueued_elsewhere() {
    let queues = WorkQueues::new(2, SHARED);
    (0..8).for_each(|item| assert!(queues.push(0, item)));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| queues.push(0, 8));
        thread::sleep(Duration::from_millis(20));
        let mut out = queues.take_out();
        assert!(waiting.join().expect("no panic"), "there is room again");
        assert!(out.iter().copied().eq(0..8) && queues.append(1, &mut out));
    });
    assert_eq!((queues.waiting(0), queues.waiting(1)), (1, 8));
    assert_eq!((take(&queues, 0), take(&queues, 1)), (vec![8], vec![0, 1, 2, 3]));
}

#[test]
fn a_producer_blocks_while_the_queue_is_full() {
    let queues = WorkQueues::new(1, SHARED);
    (0..8).for_each(|item| assert!(queues.push(0, item)));
    thread::scope(|scope| {
        let waiting = scope.spawn(|| queues.push(0, 8));
        thread::sleep(Duration::from_millis(20));
        assert!(!waiting.is_finished());
        assert_eq!(take(&queues, 0), [0, 1, 2, 3]);
        assert!(waiting.join().expect("no panic"));
        (9..12).for_each(|item| assert!(queues.push(0, item)));
        let waiting = scope.spawn(|| queues.push(0, 12));
        thread::sleep(Duration::from_millis(20));
        queues.close();
        assert!(!waiting.join().expect("no panic"), "closing lets it go");
        assert!(queues.append(0, &mut Vec::new()));
    });
    assert_eq!(take(&queues, 0), [4, 5, 6, 7]);
}

#[test]
fn an_idle_worker_is_woken_to_steal_from_a_busy_one() {
    let queues = WorkQueues::new(2, SHARED);
    thread::scope(|scope| {
        // Worker 0 is busy: it never comes.
        let thief = scope.spawn(|| take(&queues, 1));
        thread::sleep(Duration::from_millis(20));
        let start = Instant::now();
        assert!(queues.push(0, 5));
        assert_eq!(thief.join().expect("no panic"), [5]);
        assert!(start.elapsed() < Duration::from_secs(5));
    });
}

#[test]
fn calls_enqueued_together_do_not_wait_for_the_worker_that_runs_the_first() {
    let queues = WorkQueues::new(3, SHARED);
    thread::scope(|scope| {
        // Each takes once, and is busy forever.
        let workers: Vec<_> = (0..3)
            .map(|worker| {
                let queues = &queues;
                scope.spawn(move || queues.take(worker, 1, &mut Vec::new()))
            })
            .collect();
        thread::sleep(Duration::from_millis(20));
        assert!(queues.append(0, &mut vec![1, 2, 3]));
        let start = Instant::now();
        while !workers.iter().all(|worker| worker.is_finished()) && start.elapsed().as_secs() < 10 {
            thread::sleep(Duration::from_millis(1));
        }
        let all_woke = workers.iter().all(|worker| worker.is_finished());
        queues.close();
        assert!(all_woke, "a worker slept while a call waited");
    });
}

#[test]
fn every_call_is_dequeued_exactly_once_with_many_producers_and_workers() {
    for sharing in [None, SHARED] {
        let queues = WorkQueues::new(3, sharing);
        let mut all: Vec<i32> = thread::scope(|scope| {
            let workers: Vec<_> = (0..3)
                .map(|worker| {
                    let queues = &queues;
                    scope.spawn(move || {
                        let mut all = Vec::new();
                        loop {
                            let mut group = take(queues, worker);
                            if group.is_empty() {
                                return all;
                            }
                            all.append(&mut group);
                        }
                    })
                })
                .collect();
            let makers: Vec<_> = (0..2)
                .map(|maker| {
                    let queues = &queues;
                    // One queue gets nearly everything.
                    scope.spawn(move || {
                        for item in 0..10_000 {
                            assert!(queues.push(if item % 50 == 0 { 1 } else { 0 }, 10_000 * maker + item));
                        }
                    })
                })
                .collect();
            makers.into_iter().for_each(|maker| maker.join().expect("no panic"));
            queues.close();
            workers.into_iter().flat_map(|worker| worker.join().expect("no panic")).collect()
        });
        all.sort_unstable();
        assert!(all.into_iter().eq(0..20_000));
        assert_eq!(queues.stolen() > 0, sharing.is_some());
    }
}

#[test]
fn a_change_of_sharing_wakes_all_that_it_concerns() {
    let queues = WorkQueues::new(2, None);
    thread::scope(|scope| {
        let thief = scope.spawn(move_take(&queues, 1));
        wait_for_sleepers(&queues, 1);
        assert!(queues.push(0, 7));
        queues.share(SHARED);
        assert_eq!(thief.join().expect("no panic"), [7], "a call that no thief was woken for");
    });
    let queues = WorkQueues::new(2, Some(Sharing { bound: 1 }));
    assert!(queues.push(0, 1));
    thread::scope(|scope| {
        let maker = scope.spawn(|| queues.push(0, 2));
        while queues.queues[0].state.lock().blocked == 0 {
            thread::yield_now();
        }
        queues.share(None);
        assert!(maker.join().expect("no panic"), "there is room without a bound");
    });
    assert_eq!(take(&queues, 0), [1, 2]);
    let queues = WorkQueues::new(2, SHARED);
    assert!(queues.push(0, 10_000));
    assert_eq!(take(&queues, 0), [10_000]);
    assert!(queues.push(1, 10_001));
    thread::scope(|scope| {
        let other = scope.spawn(move_take(&queues, 1));
        wait_for_sleepers(&queues, 1);
        queues.share(None);
        assert_eq!(other.join().expect("no panic"), [10_001], "rivals do not wait for each other any more");
    });
}
