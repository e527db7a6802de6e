//! The global epoch: nothing is added to a sealed epoch, and redo of two epochs never mixes.

use std::sync::Arc;
use std::thread;

use super::{MIDDLE, Model, SMALL};
use crate::base::atomics::{AtomicU64, Ordering};
use crate::storage::epoch::{Epochs, FIRST, Published};
use crate::storage::participant::Participants;

pub(super) const MODELS: &[Model] = &[
    Model::new("epoch::nothing_is_added_to_a_sealed_epoch", SMALL, nothing_is_added_to_a_sealed_epoch),
    Model::new("epoch::redo_of_two_epochs_never_mixes", MIDDLE, redo_of_two_epochs_never_mixes),
];

/// The words of a slot cannot be touched before it comes into use: for the random checker.
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

/// An entrant adds to the epoch that it shows, the earliest that it may stamp with; what the sealer finds there is final.
fn nothing_is_added_to_a_sealed_epoch() {
    let (epochs, published) = (epochs(), published());
    let added: Arc<[AtomicU64; 4]> = Arc::default();
    added.iter().for_each(|added| added.store(0, Ordering::Relaxed));
    let entrant = {
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
    entrant.join().expect("the entrant goes on");
    assert_eq!(added[epoch as usize].load(Ordering::Relaxed), sealed, "something came into a sealed epoch");
}

/// Two epochs are sealed and emptied while a participant appends; each buffer holds what its epoch got, and nothing
/// is lost.
fn redo_of_two_epochs_never_mixes() {
    let epochs = epochs();
    let participants = Arc::new(Participants::new(1));
    let seat = participants.take();
    seat.participant().published().leave();
    drop(seat);
    let appender = {
        let (epochs, participants) = (epochs.clone(), participants.clone());
        thread::spawn(move || {
            let seat = participants.take();
            let participant = seat.participant();
            for _ in 0..2 {
                epochs.enter(participant.published());
                let epoch = epochs.current();
                participant.redo(epoch).bytes.push(epoch as u8);
                participant.published().leave();
            }
        })
    };
    let collect = |epoch: u64| {
        epochs.seal(epoch, participants.all().map(|participant| participant.published()));
        let groups = participants.all().map(|participant| std::mem::take(&mut participant.redo(epoch).bytes));
        let group: Vec<u8> = groups.flatten().collect();
        assert!(group.iter().all(|&of| u64::from(of) == epoch), "epoch {epoch} holds {group:?}");
        group.len()
    };
    let early = collect(epochs.advance()) + collect(epochs.advance());
    appender.join().expect("the appender goes on");
    let late: usize = (0..2).map(|_| collect(epochs.advance())).sum();
    assert_eq!(early + late, 2, "an appended transaction is in no group");
}

/// A slot that nobody has had before: the sealer counts it, or its thread sees the new epoch.
fn a_slot_that_comes_into_use_is_not_missed() {
    let epochs = epochs();
    let participants = Arc::new(Participants::new(1));
    assert_eq!(participants.all().count(), 0);
    let newcomer = {
        let (epochs, participants) = (epochs.clone(), participants.clone());
        thread::spawn(move || {
            let seat = participants.take();
            let participant = seat.participant();
            epochs.enter(participant.published());
            let epoch = epochs.current();
            participant.redo(epoch).bytes.push(epoch as u8);
            participant.published().leave();
            epoch
        })
    };
    let sealed = epochs.advance();
    epochs.seal(sealed, participants.all().map(|participant| participant.published()));
    let found = participants.all().map(|participant| participant.redo(sealed).bytes.len()).sum::<usize>();
    let stamped = newcomer.join().expect("the newcomer goes on");
    assert_eq!(found, usize::from(stamped == sealed), "sealed {sealed}, stamped {stamped}");
}
