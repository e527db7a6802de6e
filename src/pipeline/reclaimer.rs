//! Reclaims the memory of deleted rows soon after their deletes are durable, where memory is limited.
//!
//! Without a limit each worker context collects its own deletes in passing, some dozens at a time, and what it retires
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
use parking_lot::{Condvar, Mutex};

use crate::pipeline::engine::Engine;
use crate::storage::reclaim::collect_durable;
use crate::storage::workspace::Deleted;

/// How often it runs: a small part of the tenth of a second within which memory is to be available.
const INTERVAL: Duration = Duration::from_millis(20);
/// The most records that are removed while the thread is pinned.
const RECORDS_PER_PIN: usize = 256;
/// Retired memory is freed two advances of the collector's epoch later, which a transaction that is pinned may hold up.
const ADVANCES_WITHOUT_EFFECT_MAX: u32 = 4;
/// The most advances in one turn: others free and allocate meanwhile, so that the effect alone may never end.
const ADVANCES_MAX: u32 = 10_000;

/// Stops the thread that reclaims memory.
#[derive(Default)]
pub(crate) struct Reclaimer {
    stopped: Mutex<bool>,
    changed: Condvar,
}

impl Reclaimer {
    /// Ends the thread.
    pub(crate) fn stop(&self) {
        *self.stopped.lock() = true;
        self.changed.notify_all();
    }

    /// The life of the thread.
    pub(crate) fn run(&self, engine: &Engine) {
        let contexts = engine.store().worker_contexts();
        // For each worker context apart: its deletes are in the order of their stamps.
        let mut pending: Vec<VecDeque<Deleted>> = (0..contexts.len()).map(|_| VecDeque::new()).collect();
        while !self.sleep() {
            for context in contexts.all() {
                pending[context.number()].extend(context.take_deleted());
            }
            let (versions, durable) = (engine.store().versions(), engine.progress().durable());
            for deleted in &mut pending {
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
    }

    /// Whether the thread is to end.
    fn sleep(&self) -> bool {
        let mut stopped = self.stopped.lock();
        if !*stopped {
            self.changed.wait_for(&mut stopped, INTERVAL);
        }
        *stopped
    }
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
