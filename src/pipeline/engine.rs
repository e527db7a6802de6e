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
const SEQUENCE_BITS: u32 = 24;

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
    group_limit: Option<GroupLimit>,
    /// Why no update is taken at all, if so (opened read-only).
    updates_refused: Option<Error>,
}

/// Bounds how many transactions an epoch may have: TPK's TransactionsPerGroup.
struct GroupLimit {
    transactions: u64,
    /// The epoch whose transactions are counted, above the count.
    counted: AtomicU64,
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
        group_size: Option<usize>,
        updates_refused: Option<Error>,
    ) -> Arc<Engine> {
        let group_limit = group_size
            .map(|transactions| GroupLimit { transactions: transactions as u64, counted: AtomicU64::new(0) });
        Arc::new(Engine {
            store,
            protocol,
            progress,
            space,
            log_bell: Bell::default(),
            output,
            in_flight,
            clocks: StageClocks::default(),
            group_limit,
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

    /// Lets a call that may write in, or says why it may not: before it executes. Waits for the next group where the
    /// present one is full; what is held of the protocol's is given up before a wait.
    pub(crate) fn admit(&self, held: &mut Held, log_credit: &mut usize) -> Result<()> {
        if let Some(refused) = &self.updates_refused {
            return Err(refused.clone());
        }
        if !self.store.is_logged() {
            return Ok(());
        }
        if let Some(failure) = self.progress.failure() {
            return Err(failure);
        }
        if let Some(limit) = &self.group_limit {
            self.count_into_group(limit, held);
        }
        if *log_credit >= LITTLE_ROOM {
            return Ok(());
        }
        // Too little room now is no reason to wait here: the call may turn out to be a reader, and if it is not, it
        // waits when it knows how much it needs (see `execute`).
        let portion = self.space.portion();
        if self.space.try_take(portion)? {
            *log_credit += portion;
        }
        Ok(())
    }

    /// Reserves room in the log for a call that needs more than it had; it holds nothing while it waits.
    pub(crate) fn reserve(&self, bytes: usize) -> Result<()> {
        self.ring_log();
        self.space.take(bytes, || self.progress.failure())
    }

    fn count_into_group(&self, limit: &GroupLimit, held: &mut Held) {
        loop {
            let epoch = self.store.epochs().current();
            // Relaxed: it bounds the group's size; what is in the group is decided by the epochs.
            let counted = limit.counted.load(Ordering::Relaxed);
            let in_group =
                if counted >> SEQUENCE_BITS == epoch { counted & ((1 << SEQUENCE_BITS) - 1) } else { 0 };
            if in_group < limit.transactions {
                let next = epoch << SEQUENCE_BITS | (in_group + 1);
                let swapped =
                    limit.counted.compare_exchange_weak(counted, next, Ordering::Relaxed, Ordering::Relaxed);
                if swapped.is_ok() {
                    return;
                }
                continue;
            }
            self.protocol.end_group(held);
            self.wait_for_epoch_after(epoch);
            if self.progress.failure().is_some() {
                return;
            }
        }
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
        let counted = |limit: &GroupLimit| limit.counted.load(Ordering::Relaxed);
        let full = |limit: &GroupLimit| {
            counted(limit) >> SEQUENCE_BITS == self.store.epochs().current()
                && counted(limit) & ((1 << SEQUENCE_BITS) - 1) >= limit.transactions
        };
        self.space.is_low() || self.group_limit.as_ref().is_some_and(full)
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
