//! The queues to the log stage and back: the event count, the waiter slots, the queues. No wake-up is lost, and no
//! result is released before it is durable.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::{MIDDLE, Model, SMALL};
use crate::base::atomics::{AtomicU64, Ordering};
use crate::durability::progress::{Progress, Release};
use crate::error::Error;
use crate::pipeline::event_count::EventCount;
use crate::pipeline::handover_queue::HandoverQueue;

pub(super) const MODELS: &[Model] = &[
    Model::new("handover::no_ring_is_lost", SMALL, no_ring_is_lost),
    Model::new(
        "handover::a_waiter_goes_when_its_epoch_is_durable",
        SMALL,
        a_waiter_goes_when_its_epoch_is_durable,
    ),
    Model::new(
        "handover::a_place_used_again_lets_nobody_go_early",
        MIDDLE,
        a_place_used_again_lets_nobody_go_early,
    ),
    Model::new("handover::a_failure_wakes_who_waits", SMALL, a_failure_wakes_who_waits),
    Model::new("handover::from_append_to_waiter", MIDDLE, from_append_to_waiter),
    Model::new("handover::a_queue_gives_everything_out_once", MIDDLE, a_queue_gives_everything_out_once),
];

fn number(value: u64) -> Arc<AtomicU64> {
    let number = Arc::new(AtomicU64::new(value));
    number.store(value, Ordering::Relaxed);
    number
}

/// Touched, as every word that threads share must be before they start.
fn event_count() -> Arc<EventCount> {
    let event_count = EventCount::default();
    event_count.notify();
    Arc::new(event_count)
}

/// One place or two, so that epochs share them; every place is touched.
fn progress(places: usize) -> Arc<Progress> {
    let progress = Progress::new(0, places, Release::Durable);
    for epoch in 1..=places as u64 {
        progress.publish(epoch);
        assert_eq!(progress.wait(epoch), Ok(false));
    }
    progress.durable();
    assert_eq!(progress.failure(), None);
    Arc::new(progress)
}

/// A sleeper that has nothing to do is woken by the thread that makes something to do. No time passes: a lost ring is
/// a deadlock.
fn no_ring_is_lost() {
    let (event_count, made) = (event_count(), number(0));
    let sleeper = {
        let (event_count, made) = (event_count.clone(), made.clone());
        thread::spawn(move || {
            while made.load(Ordering::Relaxed) == 0 {
                event_count.sleep(Duration::from_secs(60), || made.load(Ordering::Relaxed) > 0);
            }
        })
    };
    made.store(1, Ordering::Relaxed);
    event_count.notify();
    sleeper.join().expect("the sleeper wakes");
}

/// A waiter that has waited sees what was made durable.
fn a_waiter_goes_when_its_epoch_is_durable() {
    let (progress, written) = (progress(1), number(0));
    let waiter = {
        let (progress, written) = (progress.clone(), written.clone());
        thread::spawn(move || {
            assert!(progress.wait(2).is_ok());
            assert_eq!(written.load(Ordering::Relaxed), 2, "reported before it was written");
        })
    };
    written.store(2, Ordering::Relaxed);
    progress.publish(2);
    waiter.join().expect("the waiter wakes");
}

/// Two waiters of different epochs share one place.
fn a_place_used_again_lets_nobody_go_early() {
    let (progress, written) = (progress(1), number(0));
    let waiters = [2, 3].map(|epoch| {
        let (progress, written) = (progress.clone(), written.clone());
        thread::spawn(move || {
            assert!(progress.wait(epoch).is_ok());
            assert!(written.load(Ordering::Relaxed) >= epoch, "reported before it was written");
        })
    });
    for epoch in [2, 3] {
        written.store(epoch, Ordering::Relaxed);
        progress.publish(epoch);
    }
    waiters.into_iter().for_each(|waiter| waiter.join().expect("every waiter wakes"));
}

fn a_failure_wakes_who_waits() {
    let progress = progress(1);
    let waiter = {
        let progress = progress.clone();
        thread::spawn(move || assert_eq!(progress.wait(2), Err(Error::Closed)))
    };
    progress.fail(Error::Closed);
    waiter.join().expect("the waiter wakes");
}

/// All the way: a worker context appends and rings; the log stage sleeps, wakes, writes and publishes; the worker context
/// waits and continues.
fn from_append_to_waiter() {
    let (event_count, progress) = (event_count(), progress(1));
    let (appended, written) = (number(0), number(0));
    let log = {
        let (event_count, progress) = (event_count.clone(), progress.clone());
        let (appended, written) = (appended.clone(), written.clone());
        thread::spawn(move || {
            while appended.load(Ordering::Relaxed) == 0 {
                event_count.sleep(Duration::from_secs(60), || appended.load(Ordering::Relaxed) > 0);
            }
            written.store(1, Ordering::Relaxed);
            progress.publish(2);
        })
    };
    appended.store(1, Ordering::Relaxed);
    event_count.notify();
    assert!(progress.wait(2).is_ok());
    assert_eq!(written.load(Ordering::Relaxed), 1, "reported before it was written");
    log.join().expect("the log stage wakes");
}

/// Two put in, one takes, and the queue is closed: nothing is lost, and a thread that takes does not sleep forever.
fn a_queue_gives_everything_out_once() {
    let queue = Arc::new(HandoverQueue::new());
    queue.batches();
    let taker = {
        let queue = queue.clone();
        thread::spawn(move || {
            let mut all = Vec::new();
            loop {
                let mut group = Vec::new();
                queue.take(1, &mut group);
                if group.is_empty() {
                    return all;
                }
                all.append(&mut group);
            }
        })
    };
    let putter = {
        let queue = queue.clone();
        thread::spawn(move || assert!(queue.push(1)))
    };
    assert!(queue.append(&mut vec![2, 3]));
    putter.join().expect("it goes on");
    queue.close();
    let mut all = taker.join().expect("the taker wakes");
    all.sort_unstable();
    assert_eq!(all, [1, 2, 3]);
}
