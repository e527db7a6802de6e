//! The global epoch: nothing is added to a sealed epoch, and redo of two epochs never mixes.

use std::sync::Arc;
use std::thread;

use super::{MIDDLE, Model, SMALL};
use crate::base::atomics::{AtomicU64, Ordering};
use crate::storage::epoch::{Epochs, FIRST, Published};
use crate::storage::worker_context::WorkerContexts;

pub(super) const MODELS: &[Model] = &[
    Model::new("epoch::nothing_is_added_to_a_sealed_epoch", SMALL, nothing_is_added_to_a_sealed_epoch),
    Model::new("epoch::redo_of_two_epochs_never_mixes", MIDDLE, redo_of_two_epochs_never_mixes),
];

/// The words of a slot cannot be touched before it is in use: for the random checker.
pub(super) const RANDOM: &[Model] = &[Model::new(
    "epoch::a_slot_that_comes_into_use_is_not_missed",
    SMALL,
    a_slot_that_comes_into_use_is_not_missed,
)];

/// Touched, as every word that threads share must be before they start.
pub(super) fn epochs() -> Arc<Epochs> {
    let epochs = Epochs::new(FIRST);
    assert_eq!((epochs.current(), epochs.is_closed()), (FIRST, false));
    Arc::new(epochs)
}

pub(super) fn published() -> Arc<Published> {
    let published = Published::default();
    published.leave();
    Arc::new(published)
}

/// A thread that enters adds to the epoch that it shows, the earliest that it may stamp with; what the sealer finds
/// there is final.
fn nothing_is_added_to_a_sealed_epoch() {
    let (epochs, published) = (epochs(), published());
    let added: Arc<[AtomicU64; 4]> = Arc::default();
    added.iter().for_each(|added| added.store(0, Ordering::Relaxed));
    let entering = {
        let (epochs, published, added) = (epochs.clone(), published.clone(), added.clone());
        thread::spawn(move || {
            for _ in 0..2 {
                let shown = &added[epochs.enter(&published) as usize];
                // Relaxed: that the sealer sees it is the epoch's doing, which is what is checked.
                shown.store(shown.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                published.leave();
            }
        })
    };
    let epoch = epochs.advance();
    epochs.seal(epoch, [&*published].into_iter());
    let sealed = added[epoch as usize].load(Ordering::Relaxed);
    entering.join().expect("the entering thread goes on");
    assert_eq!(added[epoch as usize].load(Ordering::Relaxed), sealed, "something came into a sealed epoch");
}

/// Two epochs are sealed and emptied while a worker context appends; each buffer holds what its epoch got, and nothing
/// is lost.
fn redo_of_two_epochs_never_mixes() {
    let epochs = epochs();
    let worker_contexts = Arc::new(WorkerContexts::new(1));
    let slot_guard = worker_contexts.take();
    slot_guard.worker_context().published().leave();
    drop(slot_guard);
    let appender = {
        let (epochs, worker_contexts) = (epochs.clone(), worker_contexts.clone());
        thread::spawn(move || {
            let slot_guard = worker_contexts.take();
            let worker_context = slot_guard.worker_context();
            for _ in 0..2 {
                epochs.enter(worker_context.published());
                let epoch = epochs.current();
                worker_context.redo(epoch).bytes.push(epoch as u8);
                worker_context.published().leave();
            }
        })
    };
    let collect = |epoch: u64| {
        epochs.seal(epoch, worker_contexts.all().map(|worker_context| worker_context.published()));
        let groups =
            worker_contexts.all().map(|worker_context| std::mem::take(&mut worker_context.redo(epoch).bytes));
        let group: Vec<u8> = groups.flatten().collect();
        assert!(group.iter().all(|&of| u64::from(of) == epoch), "epoch {epoch} holds {group:?}");
        group.len()
    };
    let early = collect(epochs.advance()) + collect(epochs.advance());
    appender.join().expect("the appender goes on");
    let late: usize = (0..2).map(|_| collect(epochs.advance())).sum();
    assert_eq!(early + late, 2, "an appended transaction is in no group");
}

/// A slot that is used for the first time: the sealer counts it, or its thread sees the new epoch.
fn a_slot_that_comes_into_use_is_not_missed() {
    let epochs = epochs();
    let worker_contexts = Arc::new(WorkerContexts::new(1));
    assert_eq!(worker_contexts.all().count(), 0);
    let newcomer = {
        let (epochs, worker_contexts) = (epochs.clone(), worker_contexts.clone());
        thread::spawn(move || {
            let slot_guard = worker_contexts.take();
            let worker_context = slot_guard.worker_context();
            epochs.enter(worker_context.published());
            let epoch = epochs.current();
            worker_context.redo(epoch).bytes.push(epoch as u8);
            worker_context.published().leave();
            epoch
        })
    };
    let sealed = epochs.advance();
    epochs.seal(sealed, worker_contexts.all().map(|worker_context| worker_context.published()));
    let found =
        worker_contexts.all().map(|worker_context| worker_context.redo(sealed).bytes.len()).sum::<usize>();
    let stamped = newcomer.join().expect("the newcomer goes on");
    assert_eq!(found, usize::from(stamped == sealed), "sealed {sealed}, stamped {stamped}");
}
