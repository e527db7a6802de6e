//! The log stage: closes an epoch, seals it, writes its redo as one group, and says that it is durable.
//!
//! If a thread waits for results, a group closes as soon as the log is idle and anything was appended. While
//! one thread syncs it, if that takes long, a second one closes, writes and syncs the next, and whatever
//! arrives while both are synced makes up the one after; results are released in the order of epochs
//! ([`GroupsInFlight`](crate::durability::groups_in_flight)). Where no thread waits (`Async`), or a time is
//! given (`LogOptions::group_milliseconds`), a group closes when its time, counted from its first record, is
//! over, or its number is full.
//!
//! Usually all that is this stage's own thread's. Where execution, log and output share a thread ([`OwnLog`]), the worker
//! makes the same steps when its queue is empty, or the group is full or old enough; it never waits for room on a full
//! disk, nor for the log's thread: what it cannot do at once it leaves to that. So whatever a worker waits for inside a
//! call (a lock, room, the log), the log continues without it: a thread that waits notifies, and the log's thread looks
//! unprompted ten times a second.

mod close_epoch;
mod own_log;
mod preparation;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};

use self::close_epoch::{change_within_epoch, close_epoch};
use crate::base::atomics::{AtomicBool, Ordering};
use crate::diagnostics::work_time::WorkTime;
use crate::durability::group_bytes_max;
use crate::durability::log_store::{Append, LogStore};
use crate::error::Error;
use crate::pipeline::checkpoint::Checkpointer;
use crate::pipeline::engine::Engine;
use crate::pipeline::statistics::Stage;
use crate::pipeline::threads::Log;
use crate::storage::redo::RedoPart;
use crate::storage::worker_context::WorkerContext;

pub(crate) use own_log::OwnLog;
pub(crate) use preparation::Preparation;

/// Without a log, epochs still advance, so that deleted records can be freed.
const TICK: Duration = Duration::from_millis(10);
/// Longest sleep of the second log thread while no group is in flight.
const IDLE: Duration = Duration::from_secs(10);
/// Duration of a sync after which a second group is closed beside it. On a faster disk, one group at a time is faster:
/// what would be in the second group joins the next one, which takes as many transactions by half as many writes and
/// syncs.
const SLOW_SYNC: Duration = Duration::from_micros(500);
/// While a group's time runs, how often its other bounds are checked.
const SLICE: Duration = Duration::from_millis(1);

/// The log stage: closes epochs, writes and syncs their groups, and releases results.
pub(crate) struct LogStage {
    engine: Arc<Engine>,
    /// The state of group writing, locked by the one thread that closes and writes a group, which is synced without the
    /// lock.
    groups: Mutex<Groups>,
    /// Groups are written; else nothing is logged.
    is_logged: bool,
    /// `None` if nothing is logged, or not on a disk.
    preparation: Option<Arc<Preparation>>,
    /// Longest time for a group to grow where no thread waits for it.
    group_time: Option<Duration>,
    stop: Arc<AtomicBool>,
    /// True once another log stage takes the place of this one, which logs nothing.
    is_replaced: AtomicBool,
    checkpointer: Option<Arc<Checkpointer>>,
}

/// The means to write groups.
struct Groups {
    writer: Option<Box<dyn LogStore>>,
    /// Redo of the present group that worker contexts' slices were merged into.
    merged: Vec<u8>,
}

/// An epoch whose group was written.
struct Written {
    /// `None` if nothing was appended in the epoch, and nothing has to be synced.
    unsynced: Option<Box<dyn Append>>,
    /// The epoch through which everything is durable then, if no earlier group is in flight.
    durable: Option<u64>,
    /// The log space that the epoch's transactions have reserved.
    reserved: usize,
}

/// The next work of the log's thread after a wait.
enum Work {
    /// The present epoch, whichever it is.
    CloseAny,
    /// Close this epoch, unless another thread has closed it: the next one's group has a time of its own.
    Close(u64),
    /// Close the present epoch if nothing was appended to it, so that epochs advance.
    CloseEmpty,
}

impl LogStage {
    pub(crate) fn new(
        engine: Arc<Engine>,
        log: Option<Log>,
        group_time: Option<Duration>,
        stop: Arc<AtomicBool>,
        checkpointer: Option<Arc<Checkpointer>>,
    ) -> LogStage {
        let is_logged = log.is_some();
        let (writer, preparation) = log.unzip();
        let preparation = preparation.flatten();
        let groups = Mutex::new(Groups { writer, merged: Vec::new() });
        let is_replaced = AtomicBool::new(false);
        LogStage { engine, groups, is_logged, preparation, group_time, stop, is_replaced, checkpointer }
    }

    /// Returns true if a second thread is of use: where a group closes as soon as it can, and groups are written.
    pub(crate) fn has_second(&self) -> bool {
        self.is_logged && self.group_time.is_none()
    }

    /// Returns true if groups are written.
    pub(crate) fn is_logged(&self) -> bool {
        self.is_logged
    }

    /// Returns true if there is room for any group that can be under way.
    fn has_room(&self) -> bool {
        self.preparation.as_ref().is_none_or(|preparation| preparation.has_room())
    }

    /// Ends its thread, which logs nothing, so that another log stage takes its place: epochs stand still until then.
    pub(crate) fn replace(&self) {
        self.is_replaced.store(true, Ordering::SeqCst);
        self.engine.log_event_count().notify();
    }

    /// The life of the log thread: until it is stopped, and nothing is left to write.
    pub(crate) fn run(&self) {
        // Acquire pairs with the release of a thread that closes the database.
        while !self.stop.load(Ordering::Acquire) {
            if self.is_replaced.load(Ordering::SeqCst) {
                return;
            }
            let work = self.wait_for_work();
            self.write_and_release(work);
        }
        // Bodies may still run, on threads of the user's: from here on they commit nothing. A thread that was in a
        // commit section already has added to the present epoch or, if it was raised meanwhile, to the next: then
        // nothing is left.
        self.engine.store().epochs().close();
        self.write_and_release(Work::CloseAny);
        self.write_and_release(Work::CloseAny);
        let groups = self.groups.lock();
        groups.writer.iter().for_each(|writer| writer.in_flight().wait_for_all());
        if self.engine.progress().failure().is_some() {
            change_within_epoch(&self.engine);
        }
        drop(groups);
        self.engine.snapshots().close();
    }

    /// The life of the second log thread: while the first one syncs a group, and needs long for it, it writes and syncs the
    /// next. Where the disk is full it leaves everything to the first one, which waits for room.
    pub(crate) fn run_second(&self) {
        let syncs = self.engine.running_syncs();
        let is_wanted = || syncs.load(Ordering::SeqCst) == 1 && self.has_room() && self.something_appended();
        while !self.stop.load(Ordering::SeqCst) {
            let event_count = self.engine.second_log_event_count();
            event_count.sleep(IDLE, || self.stop.load(Ordering::SeqCst) || is_wanted());
            let before = self.engine.progress().durable();
            thread::sleep(SLOW_SYNC);
            if is_wanted() && self.engine.progress().durable() == before {
                self.write_and_release(Work::CloseAny);
            }
        }
    }

    fn write_and_release(&self, work: Work) {
        let groups = self.groups.lock();
        self.write_sync_and_release(groups, work);
    }

    /// Writes a group, syncs it while another thread may write the next, and releases results.
    fn write_sync_and_release(&self, mut groups: MutexGuard<'_, Groups>, work: Work) {
        groups.writer.iter().for_each(|writer| writer.in_flight().wait_for_room());
        // Only now: while this thread waits, the time of another one counts.
        let busy = WorkTime::begin();
        let written = self.write_group(&mut groups, work);
        drop(groups);
        if let Some(written) = written {
            self.make_durable(written);
        }
        self.engine.clocks().add(Stage::Log, busy);
        // What is released may close the database, which waits for the log's thread.
        self.release();
    }

    fn make_durable(&self, written: Written) {
        let engine = &self.engine;
        let durable = match written.unsynced {
            None => written.durable,
            Some(unsynced) => {
                engine.running_syncs().fetch_add(1, Ordering::SeqCst);
                // A commit before this has found no group in flight, and has notified no second thread.
                if self.has_second() && self.something_appended() {
                    engine.second_log_event_count().notify();
                }
                let synced = unsynced.finish();
                engine.running_syncs().fetch_sub(1, Ordering::SeqCst);
                match synced {
                    Ok(durable) => durable,
                    Err(error) => return self.fail(error),
                }
            }
        };
        durable.into_iter().for_each(|epoch| engine.progress().publish(epoch));
        if let Some(preparation) = self.preparation.as_ref().filter(|preparation| !preparation.has_enough()) {
            preparation.secure_room(engine);
            preparation.event_count.notify();
        }
        // Only now: what is admitted for it finds room on disk, or is refused.
        engine.space().give_back(written.reserved);
        if let Some(checkpointer) = &self.checkpointer {
            checkpointer.look();
        }
    }

    fn fail(&self, error: Error) {
        self.engine.progress().fail(error);
        // A transaction that was admitted before commits nothing: `Async` would report it as committed.
        self.engine.store().epochs().close();
    }

    /// Same as `write_and_release`, if no other thread is doing it and there is room for sure; returns true if it was
    /// done.
    fn try_write_and_release(&self, work: Work) -> bool {
        let has_room = |groups: &MutexGuard<'_, Groups>| {
            let may_write = groups.writer.as_ref().is_none_or(|writer| writer.in_flight().has_room());
            may_write && self.has_room()
        };
        let Some(groups) = self.groups.try_lock().filter(has_room) else { return false };
        self.write_sync_and_release(groups, work);
        true
    }

    fn release(&self) {
        let work = WorkTime::begin();
        self.engine.output().release(&self.engine);
        self.engine.clocks().add(Stage::Output, work);
    }

    fn wait_for_work(&self) -> Work {
        let change = || self.engine.phase_change().wanted().is_some() || self.engine.snapshots().is_wanted();
        let ends = || self.stop.load(Ordering::SeqCst) || self.is_replaced.load(Ordering::SeqCst);
        let early = || ends() || change();
        let event_count = self.engine.log_event_count();
        if self.engine.progress().failure().is_some() {
            // Nothing is committed any more; but a split phase must end, so that what is durable can be read. The other
            // thread may be at the end of an epoch yet.
            let groups = self.groups.lock();
            change_within_epoch(&self.engine);
            drop(groups);
            event_count.sleep(Duration::from_millis(100), early);
            return Work::CloseAny;
        }
        let Some(group_time) = self.group_time else {
            let idle = if self.is_logged { Duration::from_millis(100) } else { TICK };
            event_count.sleep(idle, || early() || self.is_logged && self.something_appended());
            return Work::CloseAny;
        };
        // Not because room is low: the end of an epoch without redo gives none back.
        let ends_empty = || early() || self.engine.epoch_must_end();
        if !self.something_appended() {
            event_count.sleep(Duration::from_millis(100), || ends_empty() || self.something_appended());
        }
        // Before the looks below: they are about this epoch, or a later one.
        let epoch = self.engine.store().epochs().current();
        if !self.something_appended() {
            return if ends_empty() { Work::Close(epoch) } else { Work::CloseEmpty };
        }
        let ends = || early() || self.engine.group_is_full();
        // From here on a commit notifies only if it fills the group, and its bounds are polled besides.
        self.engine.set_group_waiting(true);
        let first = Instant::now();
        while first.elapsed() < group_time && !ends() {
            event_count.sleep(group_time.saturating_sub(first.elapsed()).min(SLICE), ends);
        }
        self.engine.set_group_waiting(false);
        Work::Close(epoch)
    }

    fn something_appended(&self) -> bool {
        let store = self.engine.store();
        let epoch = store.epochs().current();
        store.worker_contexts().all().any(|worker_context| {
            worker_context.slices().is_filled(epoch) || !worker_context.redo(epoch).bytes.is_empty()
        })
    }

    /// The epoch that was closed; none, if what there was to do is done, or has become another group's.
    fn close_epoch_of(&self, work: &Work) -> Option<u64> {
        let epochs = self.engine.store().epochs();
        match *work {
            Work::Close(epoch) if epochs.current() != epoch => None,
            Work::CloseAny | Work::Close(_) => Some(close_epoch(&self.engine)),
            Work::CloseEmpty => {
                if !epochs.try_close_gate() {
                    return None;
                }
                epochs
                    .wait_for_all(self.engine.store().worker_contexts().all().map(WorkerContext::published));
                // No thread is inside, so none appends between this look and the end of the epoch.
                let epoch = (!self.something_appended()).then(|| epochs.advance());
                // SAFETY: closed above.
                unsafe { epochs.open_gate() };
                epoch
            }
        }
    }

    /// Closes the present epoch, if that is still the `work`, and writes its group; there is room for one in flight.
    fn write_group(&self, groups: &mut Groups, work: Work) -> Option<Written> {
        let engine = self.engine.clone();
        if engine.progress().failure().is_some() {
            // Nothing is taken any more, so nothing can be in it; epochs stand still.
            return None;
        }
        let worker_contexts = engine.store().worker_contexts();
        let epoch = self.close_epoch_of(&work)?;
        let Some(writer) = &mut groups.writer else {
            return Some(Written { unsynced: None, durable: Some(epoch), reserved: 0 });
        };
        let mut buffers: Vec<_> = worker_contexts
            .all()
            .map(|worker_context| worker_context.redo(epoch))
            .filter(|buffer| !buffer.bytes.is_empty())
            .collect();
        groups.merged.clear();
        let (mut charged, mut transactions) = (0, buffers.iter().map(|buffer| buffer.transactions).sum());
        for worker_context in worker_contexts.all() {
            // SAFETY: this is the log stage, alone while `groups` is locked, and the epoch is sealed.
            let (counted, room) = unsafe { worker_context.slices().drain(epoch, &mut groups.merged) };
            transactions += counted;
            charged += room;
        }
        let appended: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        let bytes = appended + groups.merged.len();
        let mut unsynced = None;
        if bytes > 0 {
            let merged = (!groups.merged.is_empty()).then_some(RedoPart::Bytes(&groups.merged));
            let parts: Vec<RedoPart<'_>> =
                buffers.iter().flat_map(|buffer| buffer.parts()).chain(merged).collect();
            let preparation = self.preparation.as_ref();
            let room = preparation.map_or(Ok(()), |preparation| {
                preparation.ensure_room(&engine, group_bytes_max(bytes as u64), &self.stop)
            });
            let mut waits = |error: &Error| {
                preparation.is_some_and(|preparation| preparation.wait_for_disk(&engine, error, &self.stop))
            };
            match room.and_then(|()| writer.append(epoch, &parts, &mut waits)) {
                Ok(written) => {
                    preparation.inspect(|preparation| preparation.disk_is_well(&engine));
                    engine.clocks().add_group(transactions, bytes as u64, written.flushes());
                    engine.progress().note_group(epoch);
                    unsynced = Some(written);
                }
                Err(error) => {
                    self.fail(error);
                    return None;
                }
            }
        }
        buffers.iter_mut().for_each(|buffer| buffer.clear(MAX_KEPT_REDO_BYTES));
        drop(buffers);
        let durable = if unsynced.is_none() { writer.in_flight().pass(epoch) } else { None };
        Some(Written { unsynced, durable, reserved: appended + charged })
    }
}

/// Memory for redo that a worker context keeps from one group to the next.
const MAX_KEPT_REDO_BYTES: usize = 16 << 20;
