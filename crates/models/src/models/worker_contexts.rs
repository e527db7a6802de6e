//! Worker contexts: a slot is had by one thread at a time, a thread that blocks for one gets it once one is freed, and one
//! that could block forever is refused.

use std::sync::Arc;
use std::thread;

use super::{MIDDLE, Model};
use crate::base::atomics::{AtomicU64, Ordering};
use crate::error::Error;
use crate::storage::worker_context::{SlotUse, WorkerContexts};

pub(super) const MODELS: &[Model] = &[
    Model::new("worker_contexts::one_slot_serves_all_threads", MIDDLE, one_slot_serves_all_threads),
    Model::new("worker_contexts::two_slots_serve_three_threads", MIDDLE, two_slots_serve_three_threads),
    Model::new("worker_contexts::a_worker_and_transactions", MIDDLE, a_worker_and_transactions),
    Model::new(
        "worker_contexts::the_engines_own_thread_waits_beside_callers",
        MIDDLE,
        the_engines_own_thread_waits_beside_callers,
    ),
    Model::new(
        "worker_contexts::a_caller_never_waits_for_a_slot_that_is_kept",
        MIDDLE,
        a_caller_never_waits_for_a_slot_that_is_kept,
    ),
];

/// Touched, as every word that threads share must be before they start.
fn worker_contexts(slots: usize) -> Arc<WorkerContexts> {
    let worker_contexts = WorkerContexts::new(slots);
    let all = (0..slots).map(|_| worker_contexts.take_for(SlotUse::Worker).expect("it is free"));
    drop(all.collect::<Vec<_>>());
    Arc::new(worker_contexts)
}

/// A sum for each slot, touched as well.
fn sums(slots: usize) -> Arc<[AtomicU64]> {
    let sums: Arc<[AtomicU64]> = (0..slots).map(|_| AtomicU64::new(0)).collect();
    sums.iter().for_each(|sum| sum.store(0, Ordering::Relaxed));
    sums
}

/// Takes a slot for a transaction, and adds one to what is kept under the slot's number, in two steps.
fn run_transaction(worker_contexts: &WorkerContexts, sums: &[AtomicU64]) -> Result<(), Error> {
    let slot_guard = worker_contexts.take_for(SlotUse::Transaction).map_err(|error| *error)?;
    add_inside(&sums[slot_guard.worker_context().number()]);
    Ok(())
}

/// Relaxed, in both steps and everywhere here: whether it is seen is the slot's doing.
fn add_inside(sum: &AtomicU64) {
    sum.store(sum.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
}

/// Runs two transactions on each of this many threads; none is lost, and none waits forever.
fn serve(slots: usize, threads: u64) {
    let worker_contexts = worker_contexts(slots);
    let sums = sums(slots);
    let run = || {
        let (worker_contexts, sums) = (worker_contexts.clone(), sums.clone());
        move || (0..2).for_each(|_| run_transaction(&worker_contexts, &sums).expect("no slot is kept"))
    };
    let others: Vec<_> = (1..threads).map(|_| thread::spawn(run())).collect();
    run()();
    others.into_iter().for_each(|other| other.join().expect("it gets its slots"));
    let sum: u64 = sums.iter().map(|sum| sum.load(Ordering::Relaxed)).sum();
    assert_eq!(sum, 2 * threads, "two threads had one slot");
}

fn one_slot_serves_all_threads() {
    serve(1, 3);
}

fn two_slots_serve_three_threads() {
    serve(2, 3);
}

/// One thread keeps one of two slots as a worker and gives it back, while two run transactions.
fn a_worker_and_transactions() {
    let worker_contexts = worker_contexts(2);
    let sums = sums(2);
    let run = || {
        let (worker_contexts, sums) = (worker_contexts.clone(), sums.clone());
        move || run_transaction(&worker_contexts, &sums)
    };
    let other = thread::spawn(run());
    let worker = {
        let (worker_contexts, sums) = (worker_contexts.clone(), sums.clone());
        thread::spawn(move || {
            let kept = worker_contexts.take_for(SlotUse::Worker).map_err(|error| *error)?;
            add_inside(&sums[kept.worker_context().number()]);
            Ok::<(), Error>(())
        })
    };
    let own = run()();
    let results = [own, other.join().expect("it ends"), worker.join().expect("it ends")];
    assert_eq!(results, [Ok(()), Ok(()), Ok(())], "one slot is never kept");
    let sum: u64 = sums.iter().map(|sum| sum.load(Ordering::Relaxed)).sum();
    assert_eq!(sum, 3, "two threads had one slot");
}

/// One slot, which a thread of the engine's keeps for a while: a caller has its turn before or after, or is refused while
/// the slot is kept.
fn the_engines_own_thread_waits_beside_callers() {
    let worker_contexts = worker_contexts(1);
    let sums = sums(1);
    let callers: Vec<_> = (0..2)
        .map(|_| {
            let (worker_contexts, sums) = (worker_contexts.clone(), sums.clone());
            thread::spawn(move || run_transaction(&worker_contexts, &sums))
        })
        .collect();
    {
        let own = worker_contexts.take();
        add_inside(&sums[own.worker_context().number()]);
    }
    let mut done = 1;
    for caller in callers {
        match caller.join().expect("it ends") {
            Ok(()) => done += 1,
            Err(error) => assert_eq!(error, Error::NoFreeSlot { slots: 1 }),
        }
    }
    assert_eq!(sums[0].load(Ordering::Relaxed), done, "two threads had the slot");
    run_transaction(&worker_contexts, &sums).expect("the slot is free again");
}

/// A caller and a worker wait for the only slot. The worker keeps it until the caller has ended: so the caller has its turn
/// before the worker, or is refused.
fn a_caller_never_waits_for_a_slot_that_is_kept() {
    let worker_contexts = worker_contexts(1);
    let sums = sums(1);
    let slot_guard = worker_contexts.take_for(SlotUse::Transaction).expect("it is free");
    let caller = {
        let (worker_contexts, sums) = (worker_contexts.clone(), sums.clone());
        thread::spawn(move || run_transaction(&worker_contexts, &sums))
    };
    let worker = {
        let worker_contexts = worker_contexts.clone();
        thread::spawn(move || {
            let kept = worker_contexts.take_for(SlotUse::Worker).expect("no other thread keeps it");
            let called = caller.join().expect("it ends");
            drop(kept);
            called
        })
    };
    drop(slot_guard);
    let called = worker.join().expect("it ends");
    assert!(matches!(called, Ok(()) | Err(Error::NoFreeSlot { slots: 1 })), "{called:?}");
}
