//! The epoch through which the log is durable, and the waiter slots of threads that wait for it.
//!
//! SP keeps an array of mutexes, one per update transaction, used again modulo its length (section 4.3.2). Here it is
//! one waiter slot per epoch, in a ring. Invariants: a slot only says that something has happened;
//! whether an epoch is durable is asked of the one counter that only rises. Therefore a slot that serves a
//! later epoch already can wake a waiter too early, which then reads the counter and continues to wait; it
//! never releases one early.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;

use crossbeam_utils::CachePadded;

use crate::base::atomics::{AtomicU32, AtomicU64, Ordering};
use crate::error::{Error, Result};

/// Published where results do not wait for durability: every epoch counts as released.
const ALL: u64 = u64::MAX;

/// The results that may be released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Release {
    /// Results of durable epochs.
    Durable,
    /// All, until the log has failed; then those of durable epochs: what is in memory alone never reaches the disk.
    UntilFailure,
    /// All: nothing is logged.
    Always,
}

const DURABLE: u32 = Release::Durable as u32;
const UNTIL_FAILURE: u32 = Release::UntilFailure as u32;

/// The log's progress.
pub(crate) struct Progress {
    durable: CachePadded<AtomicU64>,
    /// Results are released up to this epoch: the durable one, or all where results do not wait for the disk.
    released: CachePadded<AtomicU64>,
    /// A [`Release`], which changes when a standby is promoted.
    release: AtomicU32,
    /// The epochs of groups that were appended and not published, in their order. Locked once for each group.
    appended: Mutex<VecDeque<u64>>,
    /// The epoch of the last group that was published; 0: none was.
    last_group: AtomicU64,
    places: Box<[CachePadded<WaiterSlot>]>,
    failure: Mutex<Option<Error>>,
    failed: AtomicU32,
    /// Tasks that wait, each for an epoch, and whether there are any.
    tasks: Mutex<Vec<Task>>,
    has_tasks: AtomicU32,
}

/// A task that waits for an epoch: until it is released, or until it is durable.
struct Task {
    epoch: u64,
    is_for_disk: bool,
    waker: Waker,
}

/// A waiter slot: a count of what has happened, and how many wait for it to change.
#[derive(Default)]
struct WaiterSlot {
    count: AtomicU32,
    waiting: AtomicU32,
}

impl Progress {
    /// Everything up to `durable` is durable.
    pub(crate) fn new(durable: u64, places: usize, release: Release) -> Progress {
        let released = if release == Release::Durable { durable } else { ALL };
        Progress {
            durable: CachePadded::new(AtomicU64::new(durable)),
            released: CachePadded::new(AtomicU64::new(released)),
            release: AtomicU32::new(release as u32),
            appended: Mutex::new(VecDeque::new()),
            last_group: AtomicU64::new(0),
            places: (0..places).map(|_| CachePadded::default()).collect(),
            failure: Mutex::new(None),
            failed: AtomicU32::new(0),
            tasks: Mutex::new(Vec::new()),
            has_tasks: AtomicU32::new(0),
        }
    }

    /// The highest durable epoch: it and all before it are on disk.
    ///
    /// Acquire pairs with the release in `publish`.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    /// Notes that the group of this epoch was appended: before the epoch is published.
    pub(crate) fn note_group(&self, epoch: u64) {
        self.appended.lock().push_back(epoch);
    }

    /// The epoch of the last durable group; 0: none was written. A thread that has a result of an epoch which was released because it is
    /// durable finds the epoch's group, or a later one.
    pub(crate) fn last_group(&self) -> u64 {
        self.last_group.load(Ordering::Acquire)
    }

    /// Returns true if a result is released when its epoch is durable.
    pub(crate) fn releases_what_is_durable(&self) -> bool {
        self.release() == Release::Durable
    }

    /// The results that may be released.
    fn release(&self) -> Release {
        // Relaxed: it changes while nothing is published.
        match self.release.load(Ordering::Relaxed) {
            DURABLE => Release::Durable,
            UNTIL_FAILURE => Release::UntilFailure,
            _ => Release::Always,
        }
    }

    /// From now on a log is written: all epochs up to this one are durable, and results of later ones are released by this
    /// rule. No log stage runs, and no thread commits.
    pub(crate) fn begin_to_log(&self, durable: u64, release: Release) {
        self.durable.fetch_max(durable, Ordering::SeqCst);
        if release == Release::Durable {
            self.released.store(durable, Ordering::SeqCst);
        }
        self.release.store(release as u32, Ordering::Relaxed);
        self.wake_tasks();
    }

    /// Returns true if a result that met nothing newer than `epoch` may be released.
    #[inline]
    pub(crate) fn is_released(&self, epoch: u64) -> bool {
        // SeqCst, as in `publish`: a waiter registers, then looks here; the log raises this, then looks for waiters.
        epoch <= self.released.load(Ordering::SeqCst)
    }

    /// Results up to this epoch may be released.
    pub(crate) fn released(&self) -> u64 {
        self.released.load(Ordering::SeqCst)
    }

    /// Waits until a result that met nothing newer than `epoch` may be released; returns true if it had to wait.
    ///
    /// # Errors
    /// The log has failed: whether the epoch is durable is unknown.
    #[inline]
    pub(crate) fn wait(&self, epoch: u64) -> Result<bool> {
        if self.is_released(epoch) { Ok(false) } else { self.wait_for_release(epoch) }
    }

    #[cold]
    fn wait_for_release(&self, epoch: u64) -> Result<bool> {
        let place = &self.places[(epoch % self.places.len() as u64) as usize];
        loop {
            let count = place.count.load(Ordering::SeqCst);
            place.waiting.fetch_add(1, Ordering::SeqCst);
            let done = self.is_released(epoch);
            let failure = self.failure();
            if !done && failure.is_none() {
                atomic_wait::wait(&place.count, count);
            }
            place.waiting.fetch_sub(1, Ordering::Relaxed);
            if self.is_released(epoch) {
                return Ok(true);
            }
            if let Some(failure) = failure {
                return Err(failure);
            }
        }
    }

    /// Same as [`wait`](Self::wait), for a task.
    ///
    /// # Errors
    /// Same errors as [`wait`](Self::wait).
    pub(crate) fn poll(&self, epoch: u64, context: &Context<'_>) -> Poll<Result<()>> {
        self.poll_for(epoch, false, context)
    }

    /// Polls for the durability of an epoch, also where results do not wait for that.
    ///
    /// # Errors
    /// The log has failed, or nothing is logged any more, and it is not.
    pub(crate) fn poll_durable(&self, epoch: u64, context: &Context<'_>) -> Poll<Result<()>> {
        self.poll_for(epoch, true, context)
    }

    fn has_come(&self, epoch: u64, is_for_disk: bool) -> bool {
        if is_for_disk { epoch <= self.durable.load(Ordering::SeqCst) } else { self.is_released(epoch) }
    }

    fn poll_for(&self, epoch: u64, is_for_disk: bool, context: &Context<'_>) -> Poll<Result<()>> {
        let outcome = || match self.failure() {
            _ if self.has_come(epoch, is_for_disk) => Some(Ok(())),
            failure => failure.map(Err),
        };
        if let Some(outcome) = outcome() {
            return Poll::Ready(outcome);
        }
        let mut tasks = self.tasks.lock();
        let is_same = |task: &Task| {
            (task.epoch, task.is_for_disk) == (epoch, is_for_disk) && task.waker.will_wake(context.waker())
        };
        if !tasks.iter().any(is_same) {
            tasks.push(Task { epoch, is_for_disk, waker: context.waker().clone() });
        }
        // SeqCst, as for threads: the task registers, then looks once more; the log raises what is released, or tells
        // its failure, and looks for tasks then.
        self.has_tasks.store(1, Ordering::SeqCst);
        drop(tasks);
        outcome().map_or(Poll::Pending, Poll::Ready)
    }

    /// Wakes the tasks whose epochs are released; all of them after a failure.
    fn wake_tasks(&self) {
        if self.has_tasks.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut tasks = self.tasks.lock();
        let has_failed = self.failed.load(Ordering::SeqCst) != 0;
        let woken: Vec<_> =
            tasks.extract_if(.., |task| has_failed || self.has_come(task.epoch, task.is_for_disk)).collect();
        self.has_tasks.store(u32::from(!tasks.is_empty()), Ordering::SeqCst);
        drop(tasks);
        woken.into_iter().for_each(|task| task.waker.wake());
    }

    /// Publishes that everything up to `epoch` is durable, and wakes its waiters. Only the log stage calls it; where two of its
    /// threads do, the later epoch stays.
    pub(crate) fn publish(&self, epoch: u64) {
        self.publish_groups(epoch);
        // SeqCst, as for what is released: a task that waits for the disk registers, then looks here.
        let before = self.durable.fetch_max(epoch, Ordering::SeqCst);
        if self.release() == Release::Durable {
            self.released.fetch_max(epoch, Ordering::SeqCst);
        }
        let count = epoch.saturating_sub(before).min(self.places.len() as u64);
        for epoch in epoch - count + 1..=epoch {
            self.wake((epoch % self.places.len() as u64) as usize);
        }
        self.wake_tasks();
    }

    /// Before what they hold is released.
    fn publish_groups(&self, epoch: u64) {
        let mut appended = self.appended.lock();
        while let Some(group) = appended.pop_front_if(|group| *group <= epoch) {
            self.last_group.store(group, Ordering::Release);
        }
    }

    fn wake(&self, place: usize) {
        let place = &self.places[place];
        place.count.fetch_add(1, Ordering::SeqCst);
        if place.waiting.load(Ordering::SeqCst) > 0 {
            atomic_wait::wake_all(&place.count);
        }
    }

    /// Says that the log has failed, for good.
    pub(crate) fn fail(&self, error: Error) {
        if self.release() == Release::UntilFailure {
            // SeqCst, and before the failure is shown: a waiter that has registered and finds its epoch not released
            // finds the failure, or is woken below.
            self.released.store(self.durable(), Ordering::SeqCst);
        }
        self.failure.lock().get_or_insert(error);
        self.failed.store(1, Ordering::SeqCst);
        (0..self.places.len()).for_each(|place| self.wake(place));
        self.wake_tasks();
    }

    /// The reason why the log accepts no more redo; `None` if it does.
    #[inline]
    pub(crate) fn failure(&self) -> Option<Error> {
        // SeqCst pairs with `fail`: a thread that registered at a place and sees no failure here is woken by it.
        if self.failed.load(Ordering::SeqCst) == 0 { None } else { self.reason() }
    }

    #[cold]
    fn reason(&self) -> Option<Error> {
        self.failure.lock().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    #[test]
    fn a_place_used_again_lets_nobody_go_early() {
        let progress = Progress::new(0, 2, Release::Durable);
        let gone = [const { AtomicBool::new(false) }; 8];
        std::thread::scope(|scope| {
            for epoch in 1..8 {
                let (progress, gone) = (&progress, &gone);
                scope.spawn(move || {
                    assert_eq!(progress.wait(epoch), Ok(true));
                    assert!(progress.durable() >= epoch);
                    gone[epoch as usize].store(true, Ordering::SeqCst);
                });
            }
            std::thread::sleep(Duration::from_millis(10));
            for epoch in 1..8 {
                assert!((epoch..8).all(|later| !gone[later as usize].load(Ordering::SeqCst)), "at {epoch}");
                progress.publish(epoch);
                while !gone[epoch as usize].load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
    }

    #[test]
    fn a_failure_wakes_all_and_what_is_durable_stays_readable() {
        let progress = Progress::new(3, 4, Release::Durable);
        let failure = Error::LogFailed { reason: "no disk".to_string() };
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| progress.wait(4));
            std::thread::sleep(Duration::from_millis(5));
            progress.fail(failure.clone());
            assert_eq!(waiting.join().expect("no panic"), Err(failure.clone()));
        });
        assert_eq!(progress.wait(3), Ok(false));
        assert_eq!(progress.wait(9), Err(failure));
    }

    #[test]
    fn async_results_are_released_at_once() {
        for release in [Release::UntilFailure, Release::Always] {
            let progress = Progress::new(0, 1, release);
            assert_eq!(progress.wait(1_000), Ok(false));
            progress.publish(5);
            assert_eq!(progress.durable(), 5);
            assert!(progress.is_released(6));
        }
    }

    #[test]
    fn after_a_failure_only_what_is_durable_is_released_to_those_who_did_not_wait_before() {
        let failure = Error::LogFailed { reason: "no disk".to_string() };
        let progress = Progress::new(0, 4, Release::UntilFailure);
        progress.publish(5);
        progress.fail(failure.clone());
        assert_eq!((progress.wait(5), progress.wait(6)), (Ok(false), Err(failure.clone())));
        assert!(progress.is_released(5) && !progress.is_released(6));
        let progress = Progress::new(0, 4, Release::Always);
        progress.fail(failure);
        assert_eq!(progress.wait(6), Ok(false), "there is no log that could lose it");
    }
}
