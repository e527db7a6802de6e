//! The gate of the commit sections: no thread is inside while it is held, and all threads continue when it
//! opens.

use std::sync::Arc;
use std::thread;

use super::epoch::{epochs, published};
use super::{MIDDLE, Model, SMALL};
use crate::base::atomics::{AtomicU64, Ordering};
use crate::storage::epoch::{Epochs, FIRST, Published};

pub(super) const MODELS: &[Model] = &[
    Model::new(
        "gate::no_thread_is_inside_while_the_gate_is_closed",
        SMALL,
        no_thread_is_inside_while_the_gate_is_closed,
    ),
    Model::new(
        "gate::a_thread_that_enters_sees_what_was_done_behind_the_gate",
        SMALL,
        a_thread_that_enters_sees_what_was_done_behind_the_gate,
    ),
    Model::new("gate::two_who_close_it_take_turns", MIDDLE, two_who_close_it_take_turns),
    Model::new(
        "gate::the_log_seals_while_somebody_runs_alone",
        MIDDLE,
        the_log_seals_while_somebody_runs_alone,
    ),
];

/// Adds one in a commit section, in two steps.
fn add_inside(epochs: &Epochs, published: &Published, shared: &AtomicU64) {
    epochs.enter(published);
    // Relaxed, in both steps and everywhere here: whether it is seen is the gate's doing.
    shared.store(shared.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    published.leave();
}

fn shared() -> Arc<AtomicU64> {
    let shared = Arc::new(AtomicU64::new(0));
    shared.store(0, Ordering::Relaxed);
    shared
}

fn open(epochs: &Epochs) {
    // SAFETY: every caller here has closed it, and opens it once.
    unsafe { epochs.open_gate() };
}

/// One thread adds inside twice, the other changes the same number behind the gate: no addition is lost.
fn no_thread_is_inside_while_the_gate_is_closed() {
    let (epochs, inside, shared) = (epochs(), published(), shared());
    let entering = {
        let (epochs, inside, shared) = (epochs.clone(), inside.clone(), shared.clone());
        thread::spawn(move || (0..2).for_each(|_| add_inside(&epochs, &inside, &shared)))
    };
    epochs.close_gate();
    epochs.wait_for_all([&*inside].into_iter());
    let before = shared.load(Ordering::Relaxed);
    assert_eq!(shared.load(Ordering::Relaxed), before);
    shared.store(before + 10, Ordering::Relaxed);
    open(&epochs);
    entering.join().expect("the entering thread goes on");
    assert_eq!(shared.load(Ordering::Relaxed), 12, "a thread was inside while the gate was held");
}

/// The gate is closed before a thread enters: it waits (asleep, if it must), and sees what was done meanwhile.
fn a_thread_that_enters_sees_what_was_done_behind_the_gate() {
    let (epochs, inside, shared) = (epochs(), published(), shared());
    epochs.close_gate();
    let entering = {
        let (epochs, inside, shared) = (epochs.clone(), inside.clone(), shared.clone());
        thread::spawn(move || {
            epochs.enter(&inside);
            let seen = shared.load(Ordering::Relaxed);
            inside.leave();
            seen
        })
    };
    epochs.wait_for_all([&*inside].into_iter());
    shared.store(7, Ordering::Relaxed);
    open(&epochs);
    assert_eq!(entering.join().expect("the entering thread goes on"), 7);
}

/// Two threads close the gate, and enter alone while they hold it.
fn two_who_close_it_take_turns() {
    let (epochs, shared) = (epochs(), shared());
    let places = [published(), published()];
    let run_alone = |own: usize| {
        let (epochs, places, shared) = (epochs.clone(), places.clone(), shared.clone());
        move || {
            epochs.close_gate();
            epochs.wait_for_all(places.iter().map(|place| &**place));
            epochs.enter_exclusively(&places[own]);
            shared.store(shared.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            places[own].leave();
            open(&epochs);
        }
    };
    let other = thread::spawn(run_alone(1));
    run_alone(0)();
    other.join().expect("the other goes on");
    assert_eq!(shared.load(Ordering::Relaxed), 2);
}

/// One runs alone, one enters, and the log raises the epoch, with the gate if it can have it.
fn the_log_seals_while_somebody_runs_alone() {
    let (epochs, inside, alone, shared) = (epochs(), published(), published(), shared());
    let places = [inside.clone(), alone.clone()];
    let solitary = {
        let (epochs, places, shared) = (epochs.clone(), places.clone(), shared.clone());
        thread::spawn(move || {
            epochs.close_gate();
            epochs.wait_for_all(places.iter().map(|place| &**place));
            epochs.enter_exclusively(&places[1]);
            shared.store(shared.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            places[1].leave();
            open(&epochs);
        })
    };
    let entering = {
        let (epochs, inside, shared) = (epochs.clone(), inside.clone(), shared.clone());
        thread::spawn(move || add_inside(&epochs, &inside, &shared))
    };
    let places = || places.iter().map(|place| &**place);
    let sealed = if epochs.try_close_gate() {
        epochs.wait_for_all(places());
        let epoch = epochs.advance();
        shared.store(shared.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        open(&epochs);
        epoch
    } else {
        let epoch = epochs.advance();
        epochs.seal(epoch, places());
        epoch
    };
    assert_eq!((sealed, epochs.current()), (FIRST, FIRST + 1));
    solitary.join().expect("it goes on");
    entering.join().expect("it goes on");
    assert!(shared.load(Ordering::Relaxed) >= 2);
}
