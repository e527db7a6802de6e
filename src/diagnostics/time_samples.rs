//! The sampler: a thread that records, some hundred times a second, the activity of each thread that
//! executes.
//!
//! It is started only where time is sampled ([`DiagnosticOptions::time_samples`](crate::DiagnosticOptions::time_samples)), and reads one word
//! of each worker context's slot in use; no thread waits for it. A thread that could run and has no processor
//! still shows its activity at the time when it lost the processor, and is counted in that.
//!
//! A thread that has had nothing to do for [`IDLE_MAX`] is not counted as idle: therefore threads that
//! receive no calls at all, because other threads make and run their own, do not dilute the shares of those.

use std::ops::Sub;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::base::atomics::{AtomicU64, Ordering};
use crate::base::random;
use crate::diagnostics::activity::Activity;

/// Time without activity after which a thread no longer counts as executing.
const IDLE_MAX: Duration = Duration::from_secs(1);

/// Number of times that the sampler saw executing threads in each activity
/// ([`DiagnosticOptions::time_samples`](crate::DiagnosticOptions::time_samples)). These are workers, executors, and
/// callers' threads inside the engine. A thread that could run and has no processor is counted in its last activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TimeSamples {
    /// Footprints, bodies, look-ups, reads and writes, validation, installing; also of attempts that failed.
    pub work: u64,
    /// The lock manager, acquiring locks: those of `locking`, the partitions of `serial`, or an executor's
    /// own lock table (`partitioned`).
    pub lock_acquire: u64,
    /// Waits for a lock, for the lock manager's own mutexes, or before the retry of an attempt that failed.
    pub lock_acquire_wait: u64,
    /// The lock manager, releasing locks.
    pub lock_release: u64,
    /// Waits for the lock manager's own mutexes while locks are released.
    pub lock_release_wait: u64,
    /// Waits for a thread that needs only a few more instructions, at an index or a record, or at the gate.
    pub latch: u64,
    /// Appending redo to the log, waiting for room in it or for its next group, and writing it if the worker
    /// does that.
    pub log: u64,
    /// Dequeuing calls, sending them to executors, delivering results, waking other threads.
    pub handover: u64,
    /// Waits for calls; for a [`Worker`](crate::Worker), the time outside of the engine. Not counted are
    /// threads that wait for executors, which do their work, and threads that have been idle for more than a
    /// second.
    pub idle: u64,
}

impl TimeSamples {
    /// The sum of all samples.
    pub fn total(&self) -> u64 {
        self.counts().iter().map(|(_, count)| count).sum()
    }

    /// The share of each activity; they sum to 1, if there are any samples.
    pub fn shares(&self) -> [(&'static str, f64); 9] {
        let total = self.total().max(1) as f64;
        self.counts().map(|(name, count)| (name, count as f64 / total))
    }

    fn counts(&self) -> [(&'static str, u64); 9] {
        [
            ("work", self.work),
            ("lock_acquire", self.lock_acquire),
            ("lock_acquire_wait", self.lock_acquire_wait),
            ("lock_release", self.lock_release),
            ("lock_release_wait", self.lock_release_wait),
            ("latch", self.latch),
            ("log", self.log),
            ("handover", self.handover),
            ("idle", self.idle),
        ]
    }
}

impl Sub for TimeSamples {
    type Output = TimeSamples;

    fn sub(self, before: TimeSamples) -> TimeSamples {
        TimeSamples {
            work: self.work - before.work,
            lock_acquire: self.lock_acquire - before.lock_acquire,
            lock_acquire_wait: self.lock_acquire_wait - before.lock_acquire_wait,
            lock_release: self.lock_release - before.lock_release,
            lock_release_wait: self.lock_release_wait - before.lock_release_wait,
            latch: self.latch - before.latch,
            log: self.log - before.log,
            handover: self.handover - before.handover,
            idle: self.idle - before.idle,
        }
    }
}

/// The state of a slot when it is sampled.
pub(crate) struct SlotActivity {
    /// The slot's number.
    pub(crate) number: usize,
    pub(crate) activity: Activity,
    /// Number of transactions that have ended in this slot.
    pub(crate) ended: u64,
}

/// See the module's description.
pub(crate) struct Sampler {
    /// The mean time from one look to the next.
    period: Duration,
    seen: [AtomicU64; Activity::ALL.len()],
    stopped: Mutex<bool>,
    event_count: Condvar,
}

/// The sampler's memory of a slot.
#[derive(Clone, Copy, Default)]
struct Slot {
    /// Time at which its thread was last seen in any activity, or had ended a call since the look before.
    busy: Option<Instant>,
    /// Number of calls that had ended then.
    ended: u64,
}

impl Sampler {
    /// Makes a sampler that samples this many times a second.
    pub(crate) fn new(per_second: f64) -> Sampler {
        Sampler {
            period: Duration::from_secs_f64(1.0 / per_second),
            seen: Default::default(),
            stopped: Mutex::new(false),
            event_count: Condvar::new(),
        }
    }

    /// Its life.
    pub(crate) fn run<Slots: Iterator<Item = SlotActivity>>(&self, slots_in_use: impl Fn() -> Slots) {
        let mut slots = Vec::new();
        loop {
            // Out of step with everything else that the clock wakes.
            let pause = self.period / 2 + self.period.mul_f64(f64::from(random::below(1 << 16)) / 65_536.0);
            let mut stopped = self.stopped.lock();
            if !*stopped {
                self.event_count.wait_for(&mut stopped, pause);
            }
            if *stopped {
                return;
            }
            drop(stopped);
            self.look(slots_in_use(), &mut slots, Instant::now());
        }
    }

    /// Ends its life.
    pub(crate) fn stop(&self) {
        *self.stopped.lock() = true;
        self.event_count.notify_all();
    }

    /// Looks once.
    fn look(&self, in_use: impl Iterator<Item = SlotActivity>, slots: &mut Vec<Slot>, now: Instant) {
        for SlotActivity { number, activity, ended } in in_use {
            slots.resize(slots.len().max(number + 1), Slot::default());
            let slot = &mut slots[number];
            if activity > Activity::Idle || ended != slot.ended {
                *slot = Slot { busy: Some(now), ended };
            }
            let is_idle_for_long = slot.busy.is_none_or(|last| now - last > IDLE_MAX);
            if activity == Activity::Elsewhere || activity == Activity::Idle && is_idle_for_long {
                continue;
            }
            // Relaxed, here and below: statistics.
            self.seen[activity as usize].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The samples so far.
    pub(crate) fn samples(&self) -> TimeSamples {
        let seen = |activity: Activity| self.seen[activity as usize].load(Ordering::Relaxed);
        TimeSamples {
            work: seen(Activity::Work),
            lock_acquire: seen(Activity::LockAcquire),
            lock_acquire_wait: seen(Activity::LockAcquireWait),
            lock_release: seen(Activity::LockRelease),
            lock_release_wait: seen(Activity::LockReleaseWait),
            latch: seen(Activity::Latch),
            log: seen(Activity::Log),
            handover: seen(Activity::Handover),
            idle: seen(Activity::Idle),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::activity::{Shown, at};
    use crate::storage::worker_context::{Counters, WorkerContexts};

    #[test]
    fn slots_in_use_are_counted_by_what_their_threads_are_at() {
        let (sampler, worker_contexts) = (Sampler::new(100.0), WorkerContexts::new(4));
        let (mut slots, now) = (Vec::new(), Instant::now());
        let mut look = || sampler.look(worker_contexts.activities(), &mut slots, now);
        look();
        assert_eq!(sampler.samples(), TimeSamples::default(), "no slot is in use");
        let (slot_guard, _never_busy) = (worker_contexts.take(), worker_contexts.take());
        drop(worker_contexts.take());
        Shown::during(Some(slot_guard.worker_context().shown()), Activity::Handover, || {
            look();
            let work = at(Activity::Work);
            (0..3).for_each(|_| look());
            drop(work);
            let _elsewhere = at(Activity::Elsewhere);
            look();
        });
        look();
        let samples = sampler.samples();
        assert_eq!(samples, TimeSamples { handover: 1, work: 3, idle: 1, ..TimeSamples::default() });
        assert_eq!((samples.total(), samples.shares()[0]), (5, ("work", 0.6)));
        assert_eq!(samples.shares().iter().map(|(_, share)| share).sum::<f64>(), 1.0);
    }

    #[test]
    fn threads_idle_for_long_are_not_counted_until_they_work() {
        let (sampler, worker_contexts) = (Sampler::new(100.0), WorkerContexts::new(1));
        let (slot_guard, mut slots, start) = (worker_contexts.take(), Vec::new(), Instant::now());
        let mut look_at = |milliseconds| {
            sampler.look(
                worker_contexts.activities(),
                &mut slots,
                start + Duration::from_millis(milliseconds),
            );
            sampler.samples().total()
        };
        assert_eq!(look_at(0), 0);
        Shown::during(Some(slot_guard.worker_context().shown()), Activity::Log, || {
            assert_eq!(look_at(100), 1)
        });
        assert_eq!((look_at(200), look_at(1_100), look_at(1_101), look_at(90_000)), (2, 3, 3, 3));
        Shown::during(Some(slot_guard.worker_context().shown()), Activity::Log, || {
            assert_eq!(look_at(90_100), 4)
        });
        assert_eq!(look_at(90_200), 5);
        // Nor need it be seen at something, if it has ended a call since.
        assert_eq!(look_at(180_000), 5);
        Counters::count(&slot_guard.worker_context().counters.failed);
        assert_eq!((look_at(180_100), look_at(180_200), look_at(182_000)), (6, 7, 7));
    }

    #[test]
    fn it_looks_until_it_is_stopped() {
        let (sampler, worker_contexts) = (Sampler::new(500.0), WorkerContexts::new(1));
        let slot_guard = worker_contexts.take();
        Shown::during(Some(slot_guard.worker_context().shown()), Activity::Latch, || {
            std::thread::scope(|scope| {
                scope.spawn(|| sampler.run(|| worker_contexts.activities()));
                while sampler.samples().latch < 20 {
                    std::thread::sleep(Duration::from_millis(1));
                }
                sampler.stop();
            });
            let seen = sampler.samples();
            sampler.run(|| worker_contexts.activities());
            assert_eq!(sampler.samples(), seen);
        });
    }
}
