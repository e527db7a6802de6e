//! Recovery: reads the log from its beginning, and puts everything back that was durable.
//!
//! Groups come in the order of their epochs. Within a group the participants' transactions are put in the order of
//! their stamps, which is an order in which they can have happened: of two that touched the same record, the later
//! has the higher stamp. What they have done to split columns comes first (see `storage::restore`).

use std::time::{Duration, Instant};

use bumpalo::Bump;
use crossbeam_epoch::pin;

use crate::durability::{Cut, LogReader};
use crate::error::Result;
use crate::storage::reclaim::collect_all;
use crate::storage::restore::{apply_group, derive_indexes};
use crate::storage::slab::Cutter;
use crate::storage::store::Store;

/// What was found when a database was opened.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Recovery {
    /// Log groups replayed.
    pub groups: u64,
    /// Transactions in them; what a participant has done to split columns in an epoch counts as one.
    pub transactions: u64,
    /// Bytes of redo in them.
    pub bytes: u64,
    /// The highest epoch that was durable; 0: the database was empty.
    pub durable_epoch: u64,
    /// What was cut off at the log's end: a group that was being written when the power went. `None`: nothing.
    pub cut: Option<String>,
    /// How long it took.
    pub time: Duration,
}

/// Replays the log into an empty store.
///
/// # Errors
/// The log cannot be read, or is damaged: with file and offset.
pub(crate) fn replay(store: &Store, log: &mut LogReader) -> Result<Recovery> {
    let start = Instant::now();
    let mut recovery = Recovery::default();
    let mut arena = Bump::new();
    let mut cutter = Cutter::default();
    while let Some(group) = log.next_group()? {
        recovery.groups += 1;
        recovery.transactions += apply_group(store, &group.payload, &mut arena, &mut cutter, &pin())?;
        recovery.bytes += group.payload.len() as u64;
        recovery.durable_epoch = group.epoch;
    }
    for table in store.all_tables() {
        let guard = pin();
        collect_all(&table, &guard);
        derive_indexes(&table, &mut cutter, &guard)?;
    }
    recovery.time = start.elapsed();
    Ok(recovery)
}

impl Recovery {
    /// Notes what was cut off.
    pub(crate) fn set_cut(&mut self, cut: Option<&Cut>) {
        self.cut = cut.map(ToString::to_string);
    }
}
