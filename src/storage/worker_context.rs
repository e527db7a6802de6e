//! Worker contexts: what runs transactions, a worker or a caller's thread while it is inside the engine.
//!
//! A worker context is a slot with its published epoch and its part of the log: two redo buffers, one for even epochs
//! and one for odd. Invariants: only one thread has a slot at a time. While epoch `e` is written, commits go
//! to `e + 1`, and the global epoch rises to `e + 2` only when `e` has been written and its buffer emptied: so two
//! buffers are enough, and redo of two epochs never mixes.
//!
//! Concurrency: a thread acquires a slot by one compare-and-swap of the slot's state, usually of the slot that it had
//! last, and releases it by one swap; what its thread works with stays in the slot. Only a thread that finds that slot
//! taken locks `counts`, looks at all slots, and may block. No wake-up is lost: the waiter counts itself in `waiting`
//! and then looks at the states; the releaser frees the state and then looks at `waiting`; all four accesses are SeqCst,
//! so one of the two sees the other. The releaser notifies under the lock that the waiter holds from its look to its
//! sleep.

use std::cell::{Cell, UnsafeCell};
use std::sync::Arc;

use bumpalo::Bump;
use crossbeam_utils::CachePadded;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::base::atomics::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::diagnostics::activity::{Activity, Shown};
use crate::diagnostics::conflict_counts::ConflictCounts;
use crate::diagnostics::recent_counts::RecentCounts;
use crate::diagnostics::time_samples::SlotActivity;
use crate::error::{Error, Result};
use crate::storage::epoch::Published;
use crate::storage::read_set::ReadSet;
use crate::storage::redo::{LoadedRedo, RedoPart};
use crate::storage::row_changes::RowChanges;
use crate::storage::split_columns::Slices;
use crate::storage::workspace::{Deleted, Workspace};

thread_local! {
    /// The slot that this thread had last, of whichever database: it looks there first.
    static LAST: Cell<usize> = const { Cell::new(0) };
}

/// A slot's state: any thread may take it.
const FREE: u32 = 0;
/// Only the engine's own threads may take it.
const RESERVED: u32 = 1;
/// A thread has it.
const TAKEN: u32 = 2;

/// The approximate maximum of one worker context's deletes that wait for the thread that reclaims memory.
const HANDED_OVER_MAX: usize = 1 << 16;

/// Redo of one worker context and one epoch.
#[derive(Default)]
pub(crate) struct RedoBuffer {
    /// Transactions, as `redo` writes them, in the order of their stamps.
    pub(crate) bytes: Vec<u8>,
    /// The parts of them that are elsewhere, each with the number of the bytes before it.
    pub(crate) loaded: Vec<(usize, Arc<LoadedRedo>)>,
    /// The number of transactions.
    pub(crate) transactions: u64,
}

impl RedoBuffer {
    /// The number of its bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.loaded.iter().map(|(_, loaded)| loaded.len()).sum::<usize>()
    }

    /// All of it, in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = RedoPart<'_>> {
        let ends = self.loaded.iter().map(|(end, loaded)| (*end, Some(loaded)));
        let mut start = 0;
        ends.chain([(self.bytes.len(), None)]).flat_map(move |(end, loaded)| {
            let before = RedoPart::Bytes(&self.bytes[std::mem::replace(&mut start, end)..end]);
            [Some(before), loaded.map(|loaded| RedoPart::Loaded(loaded))].into_iter().flatten()
        })
    }

    /// Forgets all of it, and keeps at most this much memory.
    pub(crate) fn clear(&mut self, bytes_max: usize) {
        self.bytes.clear();
        self.bytes.shrink_to(bytes_max);
        self.loaded.clear();
        self.transactions = 0;
    }
}

/// Counters of one worker context, read by all threads, written by it alone.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) committed: AtomicU64,
    /// Attempts that were retried because of a write conflict, and because of a read conflict.
    pub(crate) aborted_write: AtomicU64,
    pub(crate) aborted_read: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) readers_waited: AtomicU64,
    pub(crate) locks_row: AtomicU64,
    pub(crate) locks_higher: AtomicU64,
    pub(crate) locks_local: AtomicU64,
    pub(crate) lock_requests_local: AtomicU64,
    /// Calls over several executors, by the way they have gone.
    pub(crate) went_parallel: AtomicU64,
    pub(crate) went_serial: AtomicU64,
}

impl Counters {
    /// The number of calls that have ended. Relaxed: as in `count`.
    pub(crate) fn ended(&self) -> u64 {
        self.committed.load(Ordering::Relaxed) + self.failed.load(Ordering::Relaxed)
    }

    /// Adds one. Relaxed, and no read-modify-write: one thread writes it, readers want a recent sum only.
    #[inline]
    pub(crate) fn count(counter: &AtomicU64) {
        Counters::add(counter, 1);
    }

    /// Adds a number; as [`count`](Self::count).
    #[inline]
    pub(crate) fn add(counter: &AtomicU64, number: u64) {
        counter.store(counter.load(Ordering::Relaxed) + number, Ordering::Relaxed);
    }
}

/// One slot.
#[derive(Default)]
pub(crate) struct WorkerContext {
    published: Published,
    redo: [Mutex<RedoBuffer>; 2],
    pub(crate) counters: Counters,
    pub(crate) row_changes: RowChanges,
    pub(crate) conflicts: ConflictCounts,
    /// The conflicts of the last minute.
    pub(crate) recent_conflicts: RecentCounts,
    /// The rows that its commits have written in the last minute.
    pub(crate) recent_writes: RecentCounts,
    slices: Slices,
    shown: Shown,
    /// The number of the executor that its thread is, plus one; 0 if it is none.
    executor: AtomicUsize,
    /// True if a body has looked at a column that is split.
    pub(crate) met_hidden: AtomicBool,
    /// True while a caller's thread executes a transaction in this slot.
    executing: AtomicBool,
    /// Deletes that the thread which reclaims memory has not taken yet.
    deleted: Mutex<Vec<Deleted>>,
    number: usize,
    /// The state of the slot: [`FREE`], [`RESERVED`] or [`TAKEN`].
    state: AtomicU32,
    memory: OwnMemory,
}

/// The working memory of the thread that has the slot; no other thread has access to it.
#[derive(Default)]
struct OwnMemory(UnsafeCell<Memory>);

// SAFETY: only the holder of the slot's one `SlotGuard` reaches the memory, which may be sent from thread to thread.
unsafe impl Sync for OwnMemory where Memory: Send {}

/// The working memory of a worker context's thread.
#[derive(Default)]
pub(crate) struct Memory {
    /// Buffers that keep their memory from call to call.
    pub(crate) workspace: Workspace,
    /// The read set of the running call.
    pub(crate) reads: ReadSet,
    /// Rows that the running call has read, and images of those that it will write.
    pub(crate) arena: Bump,
}

/// A call that writes more records than this, or reads and computes more bytes of rows, leaves none of its memory to the next
/// one.
const MAX_KEPT_RECORDS: usize = 16 * 1024;
const MAX_KEPT_BYTES: usize = 16 << 20;

impl Memory {
    /// Frees the memory of an unusually large call, which few others would use.
    #[inline]
    pub(crate) fn free_unusual(&mut self) {
        if self.workspace.writes.room() > MAX_KEPT_RECORDS || self.arena.allocated_bytes() > MAX_KEPT_BYTES {
            self.free();
        }
    }

    #[cold]
    fn free(&mut self) {
        self.workspace.free_buffers();
        (self.reads, self.arena) = (ReadSet::default(), Bump::new());
    }
}

impl WorkerContext {
    /// The place where the epoch that it commits in is published.
    #[inline]
    pub(crate) fn published(&self) -> &Published {
        &self.published
    }

    /// Its slot's number, from 0.
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    /// The place where its thread shows its activity, if time is sampled.
    pub(crate) fn shown(&self) -> &Shown {
        &self.shown
    }

    /// Makes its thread this executor, until it releases the slot.
    pub(crate) fn be_executor(&self, number: usize) {
        // Relaxed, here and below: it is read by the slot's own thread only.
        self.executor.store(number + 1, Ordering::Relaxed);
    }

    /// The number of the executor that its thread is, if it is one.
    pub(crate) fn executor(&self) -> Option<usize> {
        self.executor.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Notes whether a thread of the caller's executes a transaction in this slot.
    #[inline]
    pub(crate) fn set_executing(&self, executing: bool) {
        // Relaxed, here and below: the coordinator of the phases polls it, and reads nothing else on the strength of it.
        self.executing.store(executing, Ordering::Relaxed);
    }

    /// Returns true while a caller's thread executes a transaction in this slot.
    pub(crate) fn is_executing(&self) -> bool {
        self.executing.load(Ordering::Relaxed)
    }

    /// Passes deletes to the thread that reclaims memory; if that is far behind, they stay, and this worker context's
    /// own thread collects them.
    pub(crate) fn hand_over_deleted(&self, deleted: &mut Vec<Deleted>) {
        let mut handed_over = self.deleted.lock();
        if handed_over.len() < HANDED_OVER_MAX {
            handed_over.append(deleted);
        }
    }

    /// Takes the deletes that were queued, in the order of their stamps.
    pub(crate) fn take_deleted(&self) -> Vec<Deleted> {
        std::mem::take(&mut *self.deleted.lock())
    }

    /// Changes the slot's state from one to another. Returns true if it was in that one.
    #[inline]
    fn change_state(&self, from: u32, to: u32) -> bool {
        // SeqCst, where it fails, too: a waiter looks at all states after it has counted itself (see the module's
        // argument). It acquires what the thread that had the slot before has done with its memory.
        self.state.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Its slices of split columns.
    pub(crate) fn slices(&self) -> &Slices {
        &self.slices
    }

    /// The redo buffer of this epoch. Only its worker context appends, and it is emptied only once the epoch is sealed
    /// (see the module's argument); the log stage takes the lock besides for a look whether anything was appended.
    pub(crate) fn redo(&self, epoch: u64) -> MutexGuard<'_, RedoBuffer> {
        self.redo[(epoch & 1) as usize].lock()
    }
}

/// All slots of a database.
pub(crate) struct WorkerContexts {
    slots: Box<[CachePadded<WorkerContext>]>,
    /// Slots from here on were never used, so that the sealer need not look at them.
    used: AtomicUsize,
    counts: Mutex<Counts>,
    /// The number of threads that look for a free slot with `counts` locked, or sleep until one is freed.
    waiting: AtomicUsize,
    freed: Condvar,
}

/// The number of slots that are not for callers' transactions.
struct Counts {
    /// Free slots that only the engine's own threads may take.
    reserved: usize,
    /// Slots whose threads keep them between transactions: while they have them, waiting for one is futile.
    kept: usize,
}

/// The purpose for which a caller acquires a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotUse {
    /// One transaction.
    Transaction,
    /// The lifetime of its `Worker`.
    Worker,
}

/// A slot that a thread has now. Invariants: there is at most one guard of a slot, and the slot is [`TAKEN`] meanwhile.
pub(crate) struct SlotGuard<'p> {
    worker_contexts: &'p WorkerContexts,
    worker_context: &'p WorkerContext,
    /// True if its thread keeps it between transactions.
    is_kept: bool,
}

impl WorkerContexts {
    /// Worker contexts with that many slots.
    pub(crate) fn new(slots: usize) -> WorkerContexts {
        WorkerContexts {
            slots: (0..slots)
                .map(|number| CachePadded::new(WorkerContext { number, ..WorkerContext::default() }))
                .collect(),
            used: AtomicUsize::new(0),
            counts: Mutex::new(Counts { reserved: 0, kept: 0 }),
            waiting: AtomicUsize::new(0),
            freed: Condvar::new(),
        }
    }

    /// Reserves slots for threads of the engine's, before any caller takes one.
    pub(crate) fn reserve(&self, slots: usize) {
        let mut counts = self.counts.lock();
        let free = self.slots.iter().filter(|slot| slot.change_state(FREE, RESERVED));
        counts.reserved += free.take(slots).count();
    }

    /// The number of slots.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Every slot that was ever used, as of the moment at which the first is asked for.
    pub(crate) fn all(&self) -> impl Iterator<Item = &WorkerContext> {
        // Acquire pairs with the release in `guard`: a slot counted here is fully there. A thread that waits for worker
        // contexts asks for the first behind its side of the barrier (`Epochs::wait_for`): a slot that comes into use
        // later has its thread's look at the global epoch behind it, too, and shows the new epoch, or sees the gate.
        let used = || self.slots[..self.used.load(Ordering::SeqCst)].iter();
        std::iter::once_with(used).flatten().map(|slot| &**slot)
    }

    /// The activities of the threads of all slots in use, for the sampler.
    pub(crate) fn activities(&self) -> impl Iterator<Item = SlotActivity> {
        self.all().map(|context| SlotActivity {
            number: context.number(),
            activity: context.shown().get(),
            ended: context.counters.ended(),
        })
    }

    /// Takes a slot for a thread of the engine's, which keeps it; waits while all are taken, which they are not where
    /// one was reserved.
    pub(crate) fn take(&self) -> SlotGuard<'_> {
        let mut counts = self.counts.lock();
        let (number, was_reserved) = self.look_until(&mut counts, |_| {
            let reserved = self.first(RESERVED).map(|number| (number, true));
            reserved.or_else(|| Some((self.first(FREE)?, false)))
        });
        counts.reserved -= usize::from(was_reserved);
        self.keep(&mut counts);
        self.guard(&self.slots[number], true)
    }

    /// Takes a slot for a caller; blocks while other callers have theirs for a transaction.
    ///
    /// # Errors
    /// [`Error::NoFreeSlot`]: every slot is kept between transactions, so that the caller could block forever.
    #[inline]
    pub(crate) fn take_for(&self, used_for: SlotUse) -> Result<SlotGuard<'_>, Box<Error>> {
        let slot = match self.slots.get(LAST.get()) {
            Some(last) if used_for == SlotUse::Transaction && last.change_state(FREE, TAKEN) => last,
            _ => self.take_another(used_for)?,
        };
        Ok(self.guard(slot, used_for == SlotUse::Worker))
    }

    #[cold]
    fn take_another(&self, used_for: SlotUse) -> Result<&WorkerContext, Box<Error>> {
        let mut counts = self.counts.lock();
        let number = self.look_until(&mut counts, |counts| {
            let all_kept = counts.kept + counts.reserved >= self.slots.len();
            let refused = || all_kept.then(|| Err(Box::new(Error::NoFreeSlot { slots: self.slots.len() })));
            self.first(FREE).map(Ok).or_else(refused)
        })?;
        if used_for == SlotUse::Worker {
            self.keep(&mut counts);
        }
        LAST.set(number);
        Ok(&self.slots[number])
    }

    /// Looks at the slots until there is an answer; sleeps in between until one is freed.
    fn look_until<T>(
        &self,
        counts: &mut MutexGuard<'_, Counts>,
        mut look: impl FnMut(&Counts) -> Option<T>,
    ) -> T {
        // SeqCst, and before the first look at a state: see the module's argument.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let found = loop {
            match look(counts) {
                Some(found) => break found,
                None => self.freed.wait(counts),
            }
        };
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        found
    }

    /// Takes the first slot that is in this state.
    fn first(&self, state: u32) -> Option<usize> {
        self.slots.iter().position(|slot| slot.change_state(state, TAKEN))
    }

    /// Counts a slot as kept. Where all are, the callers that block learn that none of these slots will be freed by the
    /// end of a transaction.
    fn keep(&self, counts: &mut Counts) {
        counts.kept += 1;
        if counts.kept + counts.reserved >= self.slots.len() {
            self.freed.notify_all();
        }
    }

    #[inline]
    fn guard<'p>(&'p self, worker_context: &'p WorkerContext, is_kept: bool) -> SlotGuard<'p> {
        // SeqCst: ordered before the slot's publishing of an epoch and its barrier, as the sealer's count is after
        // its own; so the sealer either counts the slot or the slot sees the new epoch. Relaxed is enough to see that
        // the slot is counted already: what this thread has read before its barrier, the sealer reads behind its own.
        if self.used.load(Ordering::Relaxed) <= worker_context.number {
            self.used.fetch_max(worker_context.number + 1, Ordering::SeqCst);
        }
        worker_context.shown.set(Activity::Idle);
        SlotGuard { worker_contexts: self, worker_context, is_kept }
    }

    #[cold]
    fn notify_waiting(&self) {
        let _counts = self.counts.lock();
        self.freed.notify_one();
    }
}

impl<'p> SlotGuard<'p> {
    /// The slot.
    #[inline]
    pub(crate) fn worker_context(&self) -> &'p WorkerContext {
        self.worker_context
    }

    /// The slot and what its thread works with.
    #[inline]
    pub(crate) fn parts(&mut self) -> (&'p WorkerContext, &mut Memory) {
        // SAFETY: the slot is this guard's alone, and the guard is borrowed for as long as the memory is.
        (self.worker_context, unsafe { &mut *self.worker_context.memory.0.get() })
    }
}

impl Drop for SlotGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.worker_context.shown.set(Activity::Elsewhere);
        self.worker_context.set_executing(false);
        if self.is_kept {
            self.worker_context.executor.store(0, Ordering::Relaxed);
            self.worker_contexts.counts.lock().kept -= 1;
        }
        // SeqCst, and before the look at `waiting`: see the module's argument. It releases what was done with the memory
        // to the thread that takes the slot next.
        self.worker_context.state.swap(FREE, Ordering::SeqCst);
        if self.worker_contexts.waiting.load(Ordering::SeqCst) > 0 {
            self.worker_contexts.notify_waiting();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    #[test]
    fn a_slot_is_had_by_one_thread_at_a_time_and_others_wait_for_it() {
        let worker_contexts = WorkerContexts::new(2);
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let _seat = worker_contexts.take();
                        most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_micros(50));
                        inside.fetch_sub(1, Ordering::SeqCst);
                    }
                });
            }
        });
        assert!(most.load(Ordering::SeqCst) <= 2);
        assert_eq!(worker_contexts.all().count(), 2);
    }

    #[test]
    fn callers_that_find_no_free_slot_get_one_when_another_caller_is_done() {
        const ROUNDS: usize = 2_000;
        let worker_contexts = WorkerContexts::new(3);
        worker_contexts.reserve(1);
        let mut done = [0; 6];
        std::thread::scope(|scope| {
            for done in &mut done {
                scope.spawn(|| {
                    for round in 0..ROUNDS {
                        let mut slot_guard = worker_contexts.take_for(SlotUse::Transaction).expect("a slot");
                        let (_, memory) = slot_guard.parts();
                        // Another thread with the same memory would see what this one has put there.
                        assert_eq!(std::mem::replace(&mut memory.workspace.log_credit, round + 1), 0);
                        if round % 16 == 0 {
                            std::thread::yield_now();
                        }
                        memory.workspace.log_credit = 0;
                        *done += 1;
                    }
                });
            }
        });
        assert_eq!(done, [ROUNDS; 6]);
        assert_eq!(worker_contexts.all().count(), 3, "the first is reserved, and callers had both others");
    }

    #[test]
    fn a_thread_gets_the_slot_that_it_had_last_unless_that_is_taken() {
        let worker_contexts = WorkerContexts::new(4);
        let number =
            || worker_contexts.take_for(SlotUse::Transaction).map(|one| one.worker_context().number());
        let first = worker_contexts.take_for(SlotUse::Worker).expect("a slot");
        let second = number().expect("a slot");
        assert_ne!(first.worker_context().number(), second);
        drop(first);
        assert_eq!(number(), Ok(second), "the first is free again, but its memory is not as warm");
        let _taken = worker_contexts.take_for(SlotUse::Transaction).expect("a slot");
        assert_ne!(number(), Ok(second));
    }

    #[test]
    fn reserved_slots_are_for_the_engines_own_threads_and_kept_ones_are_not_waited_for() {
        let worker_contexts = WorkerContexts::new(3);
        worker_contexts.reserve(2);
        let kept = worker_contexts.take_for(SlotUse::Worker).expect("a slot");
        let refused = |used_for| worker_contexts.take_for(used_for).err().map(|error| *error);
        assert_eq!(refused(SlotUse::Transaction), Some(Error::NoFreeSlot { slots: 3 }));
        assert_eq!(refused(SlotUse::Worker), Some(Error::NoFreeSlot { slots: 3 }));
        let own = [worker_contexts.take(), worker_contexts.take()];
        assert_eq!(refused(SlotUse::Transaction), Some(Error::NoFreeSlot { slots: 3 }));
        drop(kept);
        assert_eq!(refused(SlotUse::Transaction), None);
        drop(own);
        let all = [(); 3].map(|()| worker_contexts.take_for(SlotUse::Worker).expect("no longer reserved"));
        assert_eq!(all.map(|one| one.worker_context().number()), [0, 1, 2]);
    }

    #[test]
    fn epochs_next_to_each_other_have_buffers_of_their_own() {
        let worker_contexts = WorkerContexts::new(1);
        let slot_guard = worker_contexts.take();
        slot_guard.worker_context().redo(4).bytes.push(1);
        slot_guard.worker_context().redo(5).bytes.extend([2, 2]);
        assert_eq!(slot_guard.worker_context().redo(4).bytes.len(), 1);
        assert_eq!(slot_guard.worker_context().redo(5).bytes.len(), 2);
    }
}
