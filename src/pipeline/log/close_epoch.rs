//! The end of an epoch: sealed as it is, or with the gate closed where phases or split columns change.

use std::sync::Arc;
use std::time::Duration;

use crate::pipeline::engine::Engine;
use crate::pipeline::snapshots::Registered;
use crate::pipeline::standby::Replaying;
use crate::protocol::Phase;
use crate::storage::worker_context::WorkerContext;

/// Raises the global epoch, and waits until no thread adds to the one before. Where a change of phases is wanted, it
/// is made in between, while no thread is in a commit section: so the change is at the end of an epoch. A snapshot
/// that is wanted is opened at the end of the epoch, too; split columns are merged into their records for that, and
/// split again.
pub(super) fn close_epoch(engine: &Arc<Engine>) -> u64 {
    let epochs = engine.store().epochs();
    let (change, asked) = (engine.phase_change().wanted(), engine.snapshots().asked());
    // While a standby replays a group, a snapshot waits for a later epoch.
    let replaying = engine.replaying().filter(|_| asked.is_some());
    let pause = replaying.map(Replaying::pause_soon);
    let asked = asked.filter(|_| pause.as_ref().is_none_or(Option::is_some));
    if change.is_none() && (asked.is_none() || !is_split(engine)) {
        let opening = Opening::begin(engine, asked);
        let epoch = seal_next(engine);
        opening.finish();
        return epoch;
    }
    if !epochs.try_close_gate() {
        // The thread that runs alone has the gate: the change is made with another epoch, a little later.
        std::thread::sleep(Duration::from_micros(100));
        return seal_next(engine);
    }
    epochs.wait_for_all(engine.store().worker_contexts().all().map(WorkerContext::published));
    let opening = Opening::begin(engine, asked);
    // No thread is inside: all commits of this phase are of this epoch or an earlier one, and it is sealed.
    let epoch = epochs.advance();
    let (between, guard) = ((epoch, epoch + 1), crossbeam_epoch::pin());
    match (change, engine.protocol().phases()) {
        (Some(phase), _) => engine.phase_change().perform(engine, phase, between, &guard),
        (None, Some(phases)) => phases.merge(engine.store(), between, &guard),
        (None, None) => {}
    }
    // SAFETY: closed above.
    unsafe { epochs.open_gate() };
    opening.finish();
    epoch
}

/// A snapshot of the global epoch that is registered, and not sealed yet; or none, if none is wanted.
#[must_use]
struct Opening<'e> {
    engine: &'e Arc<Engine>,
    snapshot: Option<(u64, Arc<Registered>)>,
}

impl<'e> Opening<'e> {
    /// Before the global epoch rises.
    fn begin(engine: &'e Arc<Engine>, asked: Option<u64>) -> Opening<'e> {
        let open = || engine.store().versions().open(engine.store().epochs().current());
        Opening { engine, snapshot: asked.map(|asked| (asked, Registered::new(engine, open()))) }
    }

    /// Once the epoch is sealed.
    fn finish(self) {
        if let Some((asked, snapshot)) = self.snapshot {
            self.engine.snapshots().answer(asked, snapshot);
        }
    }
}

/// Returns true if any column is split now; only the log stage changes that.
fn is_split(engine: &Engine) -> bool {
    #[cfg(test)]
    if engine.store().versions().is_broken(crate::storage::versions::Break::LeavesSlices) {
        return false;
    }
    engine.store().splits().current(&crossbeam_epoch::pin()).is_some()
}

fn seal_next(engine: &Engine) -> u64 {
    let epochs = engine.store().epochs();
    let epoch = epochs.advance();
    epochs.seal(epoch, engine.store().worker_contexts().all().map(WorkerContext::published));
    epoch
}

/// Makes the changes wanted at the end of an epoch although the epoch cannot end, because the log cannot be written: so
/// that reads continue. A split phase ends; any other change of phases is refused. A snapshot is opened; commits
/// continue with the next epoch, which is not before the log is written again.
pub(super) fn change_within_epoch(engine: &Arc<Engine>) {
    let (change, asked) = (engine.phase_change().wanted(), engine.snapshots().asked());
    if matches!(change, Some(Phase::Split | Phase::SplitAgain)) {
        engine.phase_change().refuse();
    }
    let joins = change == Some(Phase::Joined);
    if !joins && asked.is_none() {
        return;
    }
    let epochs = engine.store().epochs();
    epochs.close_gate();
    epochs.wait_for_all(engine.store().worker_contexts().all().map(WorkerContext::published));
    let epoch = epochs.current();
    if asked.is_some() {
        epochs.end_commits_of(epoch);
    }
    let opening = Opening::begin(engine, asked);
    let guard = crossbeam_epoch::pin();
    if joins {
        engine.phase_change().perform(engine, Phase::Joined, (epoch, epoch), &guard);
    } else if let Some(phases) = engine.protocol().phases() {
        // Not split again: an epoch has one merge.
        phases.change(engine.store(), Phase::Joined, (epoch, epoch), &guard);
    }
    // SAFETY: closed above.
    unsafe { epochs.open_gate() };
    opening.finish();
}
