//! Segments prepared ahead of the log, and the room that it needs on the disk.
//!
//! To make a segment takes long, and may fail. A thread of its own does it before the room is needed, so the log finds
//! a segment ready. While less room is prepared than the transactions in flight may need, updates are refused before
//! they execute: a full disk is an error of new calls, not of those that were admitted. A full disk also requests a
//! checkpoint, which frees segments.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::close_epoch::change_within_epoch;
use crate::base::atomics::{AtomicBool, Ordering};
use crate::durability::Segments;
use crate::durability::space::{is_full, refusal};
use crate::error::{Error, Result};
use crate::pipeline::checkpoint::Checkpointer;
use crate::pipeline::engine::Engine;
use crate::pipeline::event_count::EventCount;

/// Time before the log tries again to get room on a full disk.
const RETRY: Duration = Duration::from_millis(50);
/// Number of consecutive failures to make a segment, for another reason than a full disk, after which the log has
/// failed.
const FAILURES_MAX: u32 = 10;

/// Segments made ahead, by a thread of their own.
pub(crate) struct Preparation {
    segments: Arc<Segments>,
    pub(super) event_count: EventCount,
    /// Room that must be prepared; with less, updates wait or are refused.
    least_bytes: u64,
    /// Asked for a checkpoint where the disk is full: it frees the log before it.
    checkpointer: Arc<Checkpointer>,
    /// The reason why the last attempt to make a segment failed, if it did.
    failure: Mutex<Option<Error>>,
    /// The log waits until the disk takes what it has to write.
    is_blocked: AtomicBool,
    stop: AtomicBool,
}

impl Preparation {
    /// Room of `least_bytes` is kept prepared.
    pub(crate) fn new(
        segments: Arc<Segments>,
        checkpointer: Arc<Checkpointer>,
        least_bytes: u64,
    ) -> Arc<Preparation> {
        Arc::new(Preparation {
            segments,
            event_count: EventCount::default(),
            least_bytes,
            checkpointer,
            failure: Mutex::new(None),
            is_blocked: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        })
    }

    /// Prepares the next segment; a full disk requests a checkpoint.
    fn prepare_next(&self) -> Result<()> {
        let prepared = self.segments.prepare_next();
        self.checkpointer.log_cannot_grow(prepared.as_ref().is_err_and(is_full));
        prepared
    }

    /// Makes room for a group before it is written: usually it is there. Where the disk is full it waits: nothing is
    /// lost, and nothing is released.
    ///
    /// # Errors
    /// [`Error::LogFailed`]: it fails in another way for long.
    pub(super) fn ensure_room(&self, engine: &Arc<Engine>, bytes: u64, stop: &AtomicBool) -> Result<()> {
        let mut failures = 0;
        while self.segments.remaining_bytes() < bytes {
            if let Err(error) = self.prepare_next() {
                engine.space().set_refused(Some(refusal(&error)));
                failures += u32::from(!is_full(&error));
                if failures > FAILURES_MAX {
                    return Err(Error::LogFailed { reason: error.cause() });
                }
                if stop.load(Ordering::SeqCst) {
                    return Ok(());
                }
                change_within_epoch(engine);
                let wanted = || stop.load(Ordering::SeqCst) || engine.snapshots().is_wanted();
                engine.log_event_count().sleep(RETRY, wanted);
            }
        }
        Ok(())
    }

    /// Waits a little because the disk does not take a group now, though the segment is there, and refuses updates until it does.
    /// Whether the group is to be written again. Nothing is lost meanwhile, and nothing is released.
    pub(super) fn wait_for_disk(&self, engine: &Arc<Engine>, error: &Error, stop: &AtomicBool) -> bool {
        self.is_blocked.store(true, Ordering::SeqCst);
        engine.space().set_refused(Some(refusal(error)));
        self.checkpointer.log_cannot_grow(is_full(error));
        if stop.load(Ordering::SeqCst) {
            return false;
        }
        change_within_epoch(engine);
        std::thread::sleep(RETRY);
        true
    }

    /// A group was written: updates are accepted again, if they were refused because it could not be.
    pub(super) fn disk_is_well(&self, engine: &Engine) {
        if self.is_blocked.load(Ordering::Relaxed) {
            self.is_blocked.store(false, Ordering::SeqCst);
            self.checkpointer.log_cannot_grow(false);
            engine.space().set_refused(None);
            self.refuse_if_low(engine);
        }
    }

    /// The log's segments.
    pub(crate) fn segments(&self) -> &Arc<Segments> {
        &self.segments
    }

    /// A first attempt to have enough room, before the first call; returns the reason why updates must be refused, if
    /// so.
    pub(crate) fn begin(&self) -> Option<Error> {
        if self.segments.remaining_bytes() >= self.least_bytes {
            return None;
        }
        self.prepare_next().err().map(|error| refusal(&error))
    }

    pub(super) fn has_enough(&self) -> bool {
        self.has_room() && self.segments.prepared() > 0
    }

    /// Returns true if there is room for any group that can be under way.
    pub(super) fn has_room(&self) -> bool {
        self.segments.remaining_bytes() >= self.least_bytes
    }

    /// Prepares a segment after a group, if there is too little room and it is not known that none can be made, and
    /// refuses updates if that fails. Otherwise the groups until the next attempt could use up the room that is kept
    /// for transactions which have been admitted; the log would wait for room then, and the checkpoint that frees some
    /// for the log.
    pub(super) fn secure_room(&self, engine: &Engine) {
        if self.has_room() {
            return;
        }
        if self.failure.lock().is_none() {
            let prepared = self.prepare_next();
            *self.failure.lock() = prepared.err();
        }
        self.refuse_if_low(engine);
    }

    /// Refuses updates if there is too little room and no segment could be made.
    fn refuse_if_low(&self, engine: &Engine) {
        // Held while it refuses: a thread that makes a segment after all finds the refusal, and ends it.
        let failure = self.failure.lock();
        if let Some(error) = &*failure
            && self.segments.remaining_bytes() < self.least_bytes
        {
            engine.space().set_refused(Some(refusal(error)));
        }
    }

    /// The life of the thread that prepares segments.
    pub(crate) fn run(&self, engine: &Engine) {
        while !self.stop.load(Ordering::SeqCst) {
            if self.has_enough() {
                if engine.space().refused().is_some() && !self.is_blocked.load(Ordering::SeqCst) {
                    engine.space().set_refused(None);
                }
                self.event_count
                    .sleep(Duration::from_secs(1), || self.stop.load(Ordering::SeqCst) || !self.has_enough());
                continue;
            }
            if let Err(error) = self.prepare_next() {
                *self.failure.lock() = Some(error);
                self.refuse_if_low(engine);
                self.event_count.sleep(RETRY, || self.stop.load(Ordering::SeqCst));
            } else {
                *self.failure.lock() = None;
            }
        }
    }

    /// Ends that thread.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.event_count.notify();
    }
}
