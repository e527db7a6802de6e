//! Reclaims the memory of dropped tables and indexes; and that of deleted rows soon after their deletes are durable, where memory
//! is limited.
//!
//! Tables that schema changes have left are freed when no transaction can see them ([`crate::storage::retired_tables`]): the thread
//! waits for the first one, and then looks again and again, less and less often, until the last is freed.
//!
//! Deleted rows: without a limit each worker context collects its own deletes in passing, some dozens at a time, and what it retires
//! waits in its thread for the next transactions. A database at its limit may have no next transactions: inserts are
//! refused. So this thread takes the deletes over, removes the records whose deletes are durable from the indexes, and
//! advances the collector of retired memory, fifty times a second.
//!
//! # Invariants
//!
//! - A delete is collected by one thread: the worker context's, or, once queued, this one.
//! - The thread is pinned for a bounded number of records at a time, so that it never holds up the collector itself.
//!
//! # Concurrency
//!
//! Transactions never wait for it. A record is removed by compare-and-swap on its word, as everywhere
//! (`storage/reclaim.rs`), so a transaction that fills the record again wins or loses cleanly.

use std::collections::VecDeque;
use std::time::Duration;

use crossbeam_epoch::pin;

use crate::pipeline::engine::Engine;
use crate::storage::reclaim::collect_durable;
use crate::storage::workspace::Deleted;

/// Interval between two runs where memory is limited: a small part of the tenth of a second within which memory is to
/// be available.
const INTERVAL: Duration = Duration::from_millis(20);
/// The most records that are removed while the thread is pinned.
const RECORDS_PER_PIN: usize = 256;
/// Retired memory is freed two advances of the collector's epoch later, which a transaction that is pinned may hold up.
const ADVANCES_WITHOUT_EFFECT_MAX: u32 = 4;
/// The most advances in one turn: others free and allocate meanwhile, so that the effect alone may never end.
const ADVANCES_MAX: u32 = 10_000;

/// The longest time between two looks at tables that could not be freed.
const PAUSE_MAX: Duration = Duration::from_millis(640);

/// The life of the thread: until [`RetiredTables::stop`](crate::storage::retired_tables::RetiredTables::stop).
pub(crate) fn run(engine: &Engine) {
    let (store, tables) = (engine.store(), engine.store().retired_tables());
    let contexts = store.worker_contexts();
    // For each worker context apart: its deletes are in the order of their stamps.
    let mut pending: Vec<VecDeque<Deleted>> = (0..contexts.len()).map(|_| VecDeque::new()).collect();
    let is_limited = store.slabs().budget().is_limited();
    let mut pause = INTERVAL;
    loop {
        let time = match is_limited {
            true => Some(INTERVAL),
            false => tables.is_pending().then_some(pause),
        };
        if tables.wait(time) {
            return;
        }
        if is_limited {
            collect_deleted(engine, &mut pending);
        }
        let mut has_changed = false;
        while tables.free_some(store) {
            has_changed = true;
        }
        pause = if has_changed { INTERVAL } else { (2 * pause).min(PAUSE_MAX) };
    }
}

/// Takes the deletes over, and removes the records whose deletes are durable.
fn collect_deleted(engine: &Engine, pending: &mut [VecDeque<Deleted>]) {
    for context in engine.store().worker_contexts().all() {
        pending[context.number()].extend(context.take_deleted());
    }
    let (versions, durable) = (engine.store().versions(), engine.progress().durable());
    for deleted in pending {
        loop {
            let guard = pin();
            if !collect_durable(deleted, versions, RECORDS_PER_PIN, durable, &guard) {
                break;
            }
            guard.flush();
        }
    }
    free_retired(engine);
}

/// Advances the collector for as long as that frees memory.
fn free_retired(engine: &Engine) {
    let budget = engine.store().slabs().budget();
    let (mut used, mut without_effect) = (budget.used(), 0);
    for _ in 0..ADVANCES_MAX {
        pin().flush();
        let now = budget.used();
        without_effect = if now < used { 0 } else { without_effect + 1 };
        used = now;
        if without_effect > ADVANCES_WITHOUT_EFFECT_MAX {
            return;
        }
    }
}
