//! The engine: the state shared by all threads of a database, one object for all stages of the pipeline.
//!
//! It owns the store, the protocol, and what the stages exchange: log space that transactions reserve, the progress of
//! the log, results that wait for it, stashed calls, and requests to the log stage for another phase or a snapshot.
//! Stages exchange work only through it and through their queues.

use std::sync::Arc;
use std::time::Duration;

use crate::base::atomics::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::diagnostics::activity::{Activity, Before, Shown};
use crate::diagnostics::time_samples::Sampler;
use crate::diagnostics::work_time::waiting;
use crate::durability::progress::Progress;
use crate::durability::space::LogSpace;
use crate::error::{Error, Result, StandbyError};
use crate::pipeline::call::InFlight;
use crate::pipeline::event_count::EventCount;
use crate::pipeline::hold_off::HoldOffs;
use crate::pipeline::loads::Loads;
use crate::pipeline::output::Output;
use crate::pipeline::phase_coordinator::PhaseChange;
use crate::pipeline::retry::Retry;
use crate::pipeline::snapshots::SnapshotRequests;
use crate::pipeline::standby::Replaying;
use crate::pipeline::stash::Stash;
use crate::pipeline::statistics::StageClocks;
use crate::protocol::attempt::Attempt;
use crate::protocol::hot_rows::HotRowQueues;
use crate::protocol::in_force::Protocols;
use crate::protocol::{Held, Phases, Protocol, ProtocolKind};
use crate::storage::epoch;
use crate::storage::store::Store;
use crate::storage::worker_context::WorkerContext;

/// A worker context with less room than this reserves more before its next call.
const LITTLE_ROOM: usize = 1 << 10;
/// Log space that calls usually need: with less, a call that will write waits before it executes.
const LEAST_ROOM: usize = 1 << 8;

/// State shared by all threads of a database.
pub(crate) struct Engine {
    store: Store,
    protocols: Protocols,
    /// Transactions that began under a protocol that has been replaced meanwhile, and have not ended.
    replaced: AtomicUsize,
    loads: Loads,
    progress: Progress,
    space: LogSpace,
    log_event_count: EventCount,
    second_log_event_count: EventCount,
    running_syncs: AtomicUsize,
    /// True while the log stage lets the present group grow until it is full or its time is over.
    group_is_waiting: AtomicBool,
    /// The last epoch whose end a thread waits for, however small its group is.
    awaited_epoch: AtomicU64,
    output: Output,
    in_flight: InFlight,
    clocks: StageClocks,
    /// The error with which every update is refused (opened read-only, or a standby); `None` if updates are accepted.
    updates_refused: Option<Error>,
    /// True once a standby has been promoted: from then on updates are accepted.
    is_promoted: AtomicBool,
    retry: Retry,
    stash: Stash,
    phase_change: PhaseChange,
    hold_offs: HoldOffs,
    snapshots: SnapshotRequests,
    /// `None` unless the database is a standby.
    replaying: Option<Replaying>,
    hot_rows: HotRowQueues,
    /// Samples the threads' activities; `None` if time is not sampled.
    sampler: Option<Sampler>,
}

impl Engine {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        store: Store,
        (protocols, first): (Protocols, ProtocolKind),
        progress: Progress,
        space: LogSpace,
        output: Output,
        in_flight: InFlight,
        updates_refused: Option<Error>,
        retry: Retry,
        hot_rows: HotRowQueues,
        sampler: Option<Sampler>,
    ) -> Arc<Engine> {
        store.epochs().put_in_force(protocols.build(first));
        let replaying =
            (updates_refused == Some(Error::Standby(StandbyError::OnlyRead))).then(Replaying::default);
        Arc::new(Engine {
            store,
            protocols,
            replaced: AtomicUsize::new(0),
            loads: Loads::default(),
            progress,
            space,
            log_event_count: EventCount::default(),
            second_log_event_count: EventCount::default(),
            running_syncs: AtomicUsize::new(0),
            group_is_waiting: AtomicBool::new(false),
            awaited_epoch: AtomicU64::new(0),
            output,
            in_flight,
            clocks: StageClocks::default(),
            updates_refused,
            is_promoted: AtomicBool::new(false),
            retry,
            stash: Stash::default(),
            phase_change: PhaseChange::default(),
            hold_offs: HoldOffs::default(),
            snapshots: SnapshotRequests::default(),
            replaying,
            hot_rows,
            sampler,
        })
    }

    /// The tables, the epoch, the worker contexts.
    #[inline]
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// The protocol in force. It may be replaced at any time: an attempt asks [`protocol_of`](Self::protocol_of).
    pub(crate) fn protocol(&self) -> &dyn Protocol {
        self.protocols.get(self.protocol_number())
    }

    /// The kind of the protocol in force.
    pub(crate) fn protocol_kind(&self) -> ProtocolKind {
        self.protocols.kind(self.protocol_number())
    }

    fn protocol_number(&self) -> usize {
        epoch::protocol_of(self.store.epochs().generation())
    }

    /// All protocols of the database.
    pub(crate) fn protocols(&self) -> &Protocols {
        &self.protocols
    }

    /// The phases of the protocol in force, or of another one that can take its place.
    pub(crate) fn phases(&self) -> Option<&dyn Phases> {
        self.protocol().phases().or_else(|| self.protocols.built().find_map(Protocol::phases))
    }

    /// The protocol of an attempt that begins.
    #[inline]
    pub(crate) fn protocol_of(&self, attempt: &Attempt<'_>) -> &dyn Protocol {
        self.protocols.get(epoch::protocol_of(attempt.generation()))
    }

    /// Returns true if the protocol was changed since the last attempt began, also if it is the same again by now.
    pub(crate) fn is_replaced(&self, held: &Held) -> bool {
        !epoch::is_of_one_protocol(held.generation, self.store.epochs().generation())
    }

    /// The transactions that began under a protocol that has been replaced meanwhile, and have not ended.
    pub(crate) fn replaced(&self) -> &AtomicUsize {
        &self.replaced
    }

    /// Running accesses of sessions that load rows, for which changes of the protocol wait.
    pub(crate) fn loads(&self) -> &Loads {
        &self.loads
    }

    /// Releases what a thread holds of any protocol's at the end of a group of calls.
    #[inline]
    pub(crate) fn end_group(&self, held: &mut Held) {
        if !held.partitions.is_empty() {
            self.release_group(held);
        }
    }

    #[inline(never)]
    fn release_group(&self, held: &mut Held) {
        self.protocols.built().for_each(|protocol| protocol.end_group(held));
    }

    /// Before an attempt: releases what a protocol keeps from one call of a group to the next, if it is no longer in force.
    #[inline]
    pub(crate) fn release_what_is_replaced(&self, held: &mut Held) {
        if !held.partitions.is_empty() && !self.protocol().keeps_between_calls() {
            self.release_group(held);
        }
    }

    /// The rows for which transactions that read and then write them queue.
    #[inline]
    pub(crate) fn hot_rows(&self) -> &HotRowQueues {
        &self.hot_rows
    }

    /// The pause of a call between two attempts.
    #[inline]
    pub(crate) fn retry(&self) -> Retry {
        self.retry
    }

    /// Calls that wait for the end of a split phase.
    pub(crate) fn stash(&self) -> &Stash {
        &self.stash
    }

    /// Hold-offs, during which attempts of other threads wait before they begin.
    #[inline]
    pub(crate) fn hold_offs(&self) -> &HoldOffs {
        &self.hold_offs
    }

    /// Requests for a change of phase, from the coordinator to the log stage.
    pub(crate) fn phase_change(&self) -> &PhaseChange {
        &self.phase_change
    }

    /// Requests for snapshots, from callers to the log stage, which opens them.
    pub(crate) fn snapshots(&self) -> &SnapshotRequests {
        &self.snapshots
    }

    /// The lock of the group that is being replayed, if the database is a standby.
    pub(crate) fn replaying(&self) -> Option<&Replaying> {
        self.replaying.as_ref()
    }

    /// Progress of the log: the epochs that are durable, and the results that may be released.
    #[inline]
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The room in the log.
    pub(crate) fn space(&self) -> &LogSpace {
        &self.space
    }

    /// Results that wait for their epochs.
    pub(crate) fn output(&self) -> &Output {
        &self.output
    }

    /// The calls under way.
    pub(crate) fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// Calls that have committed, and attempts that were retried.
    pub(crate) fn outcomes(&self) -> (u64, u64) {
        // Relaxed: statistics.
        let all = self.store.worker_contexts().all().map(|worker_context| {
            let counters = &worker_context.counters;
            let aborted = counters.aborted_write.load(Ordering::Relaxed)
                + counters.aborted_read.load(Ordering::Relaxed);
            (counters.committed.load(Ordering::Relaxed), aborted)
        });
        all.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// The sampler of the threads' activities, if there is one.
    pub(crate) fn sampler(&self) -> Option<&Sampler> {
        self.sampler.as_ref()
    }

    /// Runs something for a worker context, whose thread shows what it is at if time is sampled: this, to begin with.
    #[inline(always)]
    pub(crate) fn show<T>(
        &self,
        worker_context: &WorkerContext,
        activity: Activity,
        run: impl FnOnce() -> T,
    ) -> T {
        let shown = self.sampler.is_some().then(|| worker_context.shown());
        Shown::during(shown, activity, run)
    }

    /// Same as [`show`](Self::show), until the returned guard is dropped.
    #[inline(always)]
    pub(crate) fn begin_to_show<'w>(
        &self,
        worker_context: &'w WorkerContext,
        activity: Activity,
    ) -> Option<Before<'w>> {
        self.sampler.is_some().then(|| worker_context.shown().begin(activity))
    }

    /// Busy time of each stage.
    pub(crate) fn clocks(&self) -> &StageClocks {
        &self.clocks
    }

    /// The log stage's bell.
    pub(crate) fn log_event_count(&self) -> &EventCount {
        &self.log_event_count
    }

    /// Tells the log stage that there is something to make durable.
    #[inline]
    pub(crate) fn notify_log(&self) {
        // Relaxed: the log stage looks at the group's bounds itself, a thousand times a second.
        if self.store.is_logged() && (!self.group_is_waiting.load(Ordering::Relaxed) || self.group_is_full())
        {
            self.log_event_count.notify();
            // SeqCst pairs with `running_syncs`: either this finds the group, or the thread that syncs it finds the commit.
            if self.running_syncs.load(Ordering::SeqCst) == 1 {
                self.second_log_event_count.notify();
            }
        }
    }

    /// Number of syncs of groups that run now: not the groups in flight, one of which may be synced and wait for the
    /// one before it.
    pub(crate) fn running_syncs(&self) -> &AtomicUsize {
        &self.running_syncs
    }

    /// The event count of the log stage's second thread.
    pub(crate) fn second_log_event_count(&self) -> &EventCount {
        &self.second_log_event_count
    }

    /// Notes whether the log stage lets the present group grow until it is full or its time is over.
    pub(crate) fn set_group_waiting(&self, waiting: bool) {
        self.group_is_waiting.store(waiting, Ordering::Relaxed);
    }

    /// The error with which every update is refused; `None` if updates are accepted.
    pub(crate) fn updates_refused(&self) -> Option<Error> {
        self.refusal().cloned()
    }

    fn refusal(&self) -> Option<&Error> {
        // Acquire pairs with the release in `accept_updates`.
        self.updates_refused.as_ref().filter(|_| !self.is_promoted.load(Ordering::Acquire))
    }

    /// Accepts updates from now on: a standby was promoted, and its commits are logged.
    pub(crate) fn accept_updates(&self) {
        // Release: a thread whose update is accepted sees the log and all that belongs to it.
        self.is_promoted.store(true, Ordering::Release);
    }

    /// Lets a call that may write in, or says why it may not: before it executes.
    #[inline(always)]
    pub(crate) fn admit(&self, log_credit: &mut usize) -> Result<(), Box<Error>> {
        if self.updates_refused.is_none() && !self.store.is_logged() {
            return Ok(());
        }
        self.admit_to_log(log_credit)
    }

    #[inline(never)]
    fn admit_to_log(&self, log_credit: &mut usize) -> Result<(), Box<Error>> {
        if let Some(refused) = self.refusal() {
            return Err(Box::new(refused.clone()));
        }
        // Calls with reserved room are refused as well: groups take whole pages, so that many small ones would take more
        // of the disk than was reserved, and wait for it without an answer.
        if let Some(reason) = self.progress.failure().or_else(|| self.space.refused()) {
            return Err(Box::new(reason));
        }
        if *log_credit < LITTLE_ROOM {
            // Too little room now is no reason to wait here: the call may turn out to be a reader, and if it is not, it
            // waits when it knows how much it needs (see `execute`).
            *log_credit += self.space.try_take_portion().map_err(Box::new)?;
        }
        Ok(())
    }

    /// Reserves room in the log for a call that needs more than it had; it holds nothing while it waits. The call
    /// returns what it has not used when it ends: kept, it could be all the room there is.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<()> {
        let _log = waiting(Activity::Log);
        self.notify_log();
        self.space.take(bytes, || self.progress.failure())
    }

    /// Prepares for a call that will write, so that it does not execute only to fail: waits for the next group where
    /// the present one is full, and reserves room in the log where next to none is left; protocol resources are
    /// released before a wait. Returns true if room was reserved for this call alone.
    ///
    /// # Errors
    /// The log has failed, or the disk is full.
    #[inline(always)]
    pub(crate) fn make_way(&self, held: &mut Held, log_credit: &mut usize) -> Result<bool> {
        if !self.store.is_logged() {
            return Ok(false);
        }
        self.make_way_to_log(held, log_credit)
    }

    fn make_way_to_log(&self, held: &mut Held, log_credit: &mut usize) -> Result<bool> {
        let epoch = self.store.epochs().current();
        if self.store.epochs().is_full() {
            self.end_group(held);
            self.wait_for_epoch_after(epoch)?;
        }
        if *log_credit >= LEAST_ROOM {
            return Ok(false);
        }
        self.end_group(held);
        self.space.give_back(std::mem::take(log_credit));
        self.reserve(LITTLE_ROOM)?;
        *log_credit = LITTLE_ROOM;
        Ok(true)
    }

    /// Returns true if the present group should be written although its time is not over.
    pub(crate) fn group_is_full(&self) -> bool {
        self.space.is_low() || self.epoch_must_end()
    }

    /// Returns true if the present epoch should end even if no redo was appended in it.
    pub(crate) fn epoch_must_end(&self) -> bool {
        let epochs = self.store.epochs();
        // Relaxed: as for `group_is_waiting`.
        let is_awaited = || self.awaited_epoch.load(Ordering::Relaxed) >= epochs.current();
        epochs.is_full() || is_awaited()
    }

    /// Asks the log stage to end this epoch without waiting for its group to grow.
    pub(crate) fn end_epoch(&self, epoch: u64) {
        self.awaited_epoch.fetch_max(epoch, Ordering::Relaxed);
        self.log_event_count.notify();
    }

    /// Waits until commits are of a later epoch than now.
    ///
    /// # Errors
    /// The log has failed, or the disk is full: then no epoch ends.
    pub(crate) fn wait_for_next_epoch(&self) -> Result<()> {
        self.wait_for_epoch_after(self.store.epochs().current())
    }

    fn wait_for_epoch_after(&self, epoch: u64) -> Result<()> {
        let _log = waiting(Activity::Log);
        while self.store.epochs().current() <= epoch {
            if let Some(reason) = self.progress.failure().or_else(|| self.space.refused()) {
                return Err(reason);
            }
            self.end_epoch(epoch);
            std::thread::sleep(Duration::from_micros(20));
        }
        Ok(())
    }
}
