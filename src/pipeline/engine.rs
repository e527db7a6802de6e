//! What all threads of a database share.

use std::sync::Arc;
use std::time::Duration;

use crate::base::atomics::{AtomicU64, Ordering};
use crate::durability::progress::Progress;
use crate::durability::space::LogSpace;
use crate::error::{Error, Result};
use crate::pipeline::bell::Bell;
use crate::pipeline::call::InFlight;
use crate::pipeline::output::Output;
use crate::pipeline::statistics::StageClocks;
use crate::protocol::{Held, Protocol};
use crate::storage::store::Store;

/// A participant with less room than this reserves more before its next call.
const LITTLE_ROOM: usize = 1 << 10;
/// What calls usually need: with less, a call that will write waits before it executes.
const LEAST_ROOM: usize = 1 << 8;

/// What all threads of a database share.
pub(crate) struct Engine {
    store: Store,
    protocol: Box<dyn Protocol>,
    progress: Progress,
    space: LogSpace,
    log_bell: Bell,
    output: Output,
    in_flight: InFlight,
    clocks: StageClocks,
    /// Why no update is taken at all, if so (opened read-only).
    updates_refused: Option<Error>,
}

impl Engine {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        store: Store,
        protocol: Box<dyn Protocol>,
        progress: Progress,
        space: LogSpace,
        output: Output,
        in_flight: InFlight,
        updates_refused: Option<Error>,
    ) -> Arc<Engine> {
        Arc::new(Engine {
            store,
            protocol,
            progress,
            space,
            log_bell: Bell::default(),
            output,
            in_flight,
            clocks: StageClocks::default(),
            updates_refused,
        })
    }

    /// The tables, the epoch, the participants.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// How calls are isolated.
    pub(crate) fn protocol(&self) -> &dyn Protocol {
        &*self.protocol
    }

    /// How far the log is durable.
    pub(crate) fn progress(&self) -> &Progress {
        &self.progress
    }

    /// The room in the log.
    pub(crate) fn space(&self) -> &LogSpace {
        &self.space
    }

    /// Where results wait for their epochs.
    pub(crate) fn output(&self) -> &Output {
        &self.output
    }

    /// The calls under way.
    pub(crate) fn in_flight(&self) -> &InFlight {
        &self.in_flight
    }

    /// Where the stages' time goes.
    pub(crate) fn clocks(&self) -> &StageClocks {
        &self.clocks
    }

    /// The log stage's bell.
    pub(crate) fn log_bell(&self) -> &Bell {
        &self.log_bell
    }

    /// Tells the log stage that there is something to make durable.
    pub(crate) fn ring_log(&self) {
        if self.store.is_logged() {
            self.log_bell.ring();
        }
    }

    /// Lets a call that may write in, or says why it may not: before it executes.
    pub(crate) fn admit(&self, log_credit: &mut usize) -> Result<()> {
        if let Some(refused) = &self.updates_refused {
            return Err(refused.clone());
        }
        if !self.store.is_logged() {
            return Ok(());
        }
        if let Some(failure) = self.progress.failure() {
            return Err(failure);
        }
        // Also with room in reserve: small groups take more of the disk than of the reserve.
        if let Some(refused) = self.space.refused() {
            return Err(refused);
        }
        if *log_credit >= LITTLE_ROOM {
            return Ok(());
        }
        // Too little room now is no reason to wait here: the call may turn out to be a reader, and if it is not, it
        // waits when it knows how much it needs (see `execute`).
        if self.space.try_take_portion()? {
            *log_credit += self.space.portion();
        }
        Ok(())
    }

    /// Reserves room for a call that will write and has next to none, so that it does not execute in vain; what is held
    /// of the protocol's is given up before. Whether it was reserved for this call alone.
    pub(crate) fn reserve_some(&self, held: &mut Held, log_credit: &mut usize) -> Result<bool> {
        if *log_credit >= LEAST_ROOM || !self.store.is_logged() {
            return Ok(false);
        }
        self.protocol.end_group(held);
        self.reserve(log_credit, LITTLE_ROOM)?;
        Ok(true)
    }

    /// Reserves room in the log for a call that needs more than it had: of that it keeps nothing while it waits, so
    /// that those who wait never wait for each other.
    pub(crate) fn reserve(&self, log_credit: &mut usize, bytes: usize) -> Result<()> {
        self.give_back(log_credit);
        self.ring_log();
        self.space.take(bytes, || self.progress.failure())?;
        *log_credit = bytes;
        Ok(())
    }

    /// Gives back what was reserved for one call, and not used by it.
    pub(crate) fn give_back(&self, log_credit: &mut usize) {
        self.space.give_back(std::mem::take(log_credit));
    }

    /// Why a commit of this epoch, made just now, must not be told as a success although nobody waits for the disk
    /// (`Async`), if so: the log has ended, and will not follow.
    pub(crate) fn lost(&self, epoch: u64) -> Option<Error> {
        let follows = !self.store.is_logged() || self.progress.waits() || !self.progress.is_ending();
        if follows || self.progress.durable() >= epoch {
            return None;
        }
        Some(self.progress.failure().unwrap_or(Error::Closed))
    }

    /// Whether the present group should be written although its time is not over.
    pub(crate) fn group_is_full(&self) -> bool {
        self.space.is_low() || self.store.epochs().is_full()
    }

    /// Waits for the next group where the present one is full, before a call that will write executes in vain; what is
    /// held of the protocol's is given up before.
    pub(crate) fn wait_while_full(&self, held: &mut Held) {
        let epoch = self.store.epochs().current();
        if self.store.epochs().is_full() {
            self.protocol.end_group(held);
            self.wait_for_epoch_after(epoch);
        }
    }

    /// Waits until commits are of a later epoch than now.
    pub(crate) fn wait_for_next_epoch(&self) {
        self.wait_for_epoch_after(self.store.epochs().current());
    }

    fn wait_for_epoch_after(&self, epoch: u64) {
        while self.store.epochs().current() <= epoch && self.progress.failure().is_none() {
            self.log_bell.ring();
            std::thread::sleep(Duration::from_micros(20));
        }
    }
}
