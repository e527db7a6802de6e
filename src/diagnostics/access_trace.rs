//! The access trace: which worker context touched which record, and when, as samples in bounded memory.
//!
//! Every worker context records its own accesses, for each table apart: every access at first; whenever it
//! has [`KEPT_MAX`] of a table, it discards every second one, and records half as many from there on.
//! Therefore the samples are spread evenly over all accesses since the trace was last taken, however many
//! they were.
//!
//! It exists only if it was requested
//! ([`DiagnosticOptions::access_trace`](crate::DiagnosticOptions::access_trace)).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::base::atomics::{AtomicBool, Ordering};

/// The most samples that a worker context keeps of a table.
const KEPT_MAX: usize = 4_096;

/// The thread of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TracedThread {
    /// The executor of this number (`partitioned`).
    Executor(usize),
    /// A worker, or a caller's thread. Its number is that of its slot.
    Worker(usize),
}

/// One access to a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TracedAccess {
    /// Time since the beginning of the trace.
    pub at: Duration,
    /// The record, as its place in [`TracedTable::keys`].
    pub key: usize,
    /// The worker context.
    pub thread: TracedThread,
}

/// Recorded accesses to a table.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct TracedTable {
    /// Its name.
    pub name: String,
    /// Number of accesses.
    pub accesses: u64,
    /// The primary keys of the records in `samples`, in their order.
    pub keys: Vec<String>,
    /// Some of the accesses, in the order of time.
    pub samples: Vec<TracedAccess>,
}

/// Accesses recorded since the trace was last taken: the tables that were touched, the one with most accesses first.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AccessTrace {
    /// The tables.
    pub tables: Vec<TracedTable>,
}

/// The trace of a database, while it is written.
pub(crate) struct Trace {
    /// True if accesses are recorded now.
    is_on: AtomicBool,
    /// The notes of each worker context.
    notes: Box<[Mutex<Notes>]>,
    start: Mutex<Instant>,
}

/// Accesses that one worker context has recorded.
#[derive(Default)]
struct Notes(BTreeMap<u32, Kept>);

/// Samples of one table.
struct Kept {
    accesses: u64,
    /// Sampling interval: one access in this many is kept.
    every: u64,
    samples: Vec<Noted>,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept { accesses: 0, every: 1, samples: Vec::new() }
    }
}

#[derive(Clone)]
struct Noted {
    at: Instant,
    key: Box<[u8]>,
    thread: TracedThread,
}

impl Kept {
    fn note(&mut self, noted: impl FnOnce() -> Noted) {
        self.accesses += 1;
        if !self.accesses.is_multiple_of(self.every) {
            return;
        }
        if self.samples.len() == KEPT_MAX {
            let mut number = 0;
            self.samples.retain(|_| {
                number += 1;
                number % 2 == 0
            });
            self.every *= 2;
            if !self.accesses.is_multiple_of(self.every) {
                return;
            }
        }
        self.samples.push(noted());
    }
}

impl Trace {
    /// Makes a trace for this many worker contexts.
    pub(crate) fn new(worker_contexts: usize) -> Trace {
        Trace {
            is_on: AtomicBool::new(true),
            notes: (0..worker_contexts).map(|_| Mutex::default()).collect(),
            start: Mutex::new(Instant::now()),
        }
    }

    /// Returns true if accesses are recorded now. Relaxed: sooner or later is enough.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    /// Has accesses noted from now on, or no longer.
    pub(crate) fn switch(&self, is_on: bool) {
        self.is_on.store(is_on, Ordering::Relaxed);
    }

    /// Notes an access by the thread of a slot to the record of this key. `executor`: its number, if it is one.
    #[cold]
    pub(crate) fn note(&self, slot: usize, executor: Option<usize>, table: u32, key: &[u8]) {
        let thread = executor.map_or(TracedThread::Worker(slot), TracedThread::Executor);
        let mut notes = self.notes[slot].lock();
        let kept = notes.0.entry(table).or_default();
        kept.note(|| Noted { at: Instant::now(), key: key.into(), thread });
    }

    /// Returns what was noted of these tables since the last time, and starts over. `describe` gives a table's number and
    /// name, `show` a key as text.
    pub(crate) fn take<Table>(
        &self,
        tables: &[Table],
        describe: impl Fn(&Table) -> (u32, String),
        show: impl Fn(&Table, &[u8]) -> String,
    ) -> AccessTrace {
        let start = std::mem::replace(&mut *self.start.lock(), Instant::now());
        let mut by_table: BTreeMap<u32, Vec<Kept>> = BTreeMap::new();
        for notes in &self.notes {
            for (id, kept) in std::mem::take(&mut *notes.lock()).0 {
                by_table.entry(id).or_default().push(kept);
            }
        }
        let touched = tables.iter().filter_map(|table| {
            let (id, name) = describe(table);
            Some((table, name, by_table.remove(&id)?))
        });
        let mut tables: Vec<TracedTable> =
            touched.map(|(table, name, kept)| join(name, kept, start, |key| show(table, key))).collect();
        tables.sort_by_key(|table| std::cmp::Reverse(table.accesses));
        AccessTrace { tables }
    }
}

/// Puts together what all worker contexts have noted of one table.
fn join(name: String, kept: Vec<Kept>, start: Instant, show: impl Fn(&[u8]) -> String) -> TracedTable {
    let accesses = kept.iter().map(|kept| kept.accesses).sum();
    // Worker contexts with few accesses sampled more of them: all samples are thinned to the same rate.
    let every = kept.iter().map(|kept| kept.every).max().unwrap_or(1);
    let thinned = kept.into_iter().flat_map(|kept| {
        let step = (every / kept.every) as usize;
        kept.samples.into_iter().skip(step - 1).step_by(step)
    });
    let mut noted: Vec<Noted> = thinned.collect();
    noted.sort_by_key(|noted| noted.at);
    let mut keys: Vec<&[u8]> = noted.iter().map(|noted| &*noted.key).collect();
    keys.sort_unstable();
    keys.dedup();
    let samples = noted
        .iter()
        .map(|noted| TracedAccess {
            at: noted.at.saturating_duration_since(start),
            key: keys.partition_point(|key| **key < *noted.key),
            thread: noted.thread,
        })
        .collect();
    TracedTable { name, accesses, keys: keys.into_iter().map(show).collect(), samples }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(key: u32, thread: TracedThread) -> Noted {
        Noted { at: Instant::now(), key: key.to_be_bytes().into(), thread }
    }

    fn kept(accesses: u32, thread: TracedThread) -> Kept {
        let mut kept = Kept::default();
        (0..accesses).for_each(|key| kept.note(|| noted(key, thread)));
        kept
    }

    fn number(key: &[u8]) -> String {
        u32::from_be_bytes(key.try_into().expect("it has four bytes")).to_string()
    }

    #[test]
    fn samples_are_spread_evenly_over_all_accesses_and_bounded() {
        for accesses in [0, 1, 100, 4_096, 4_097, 10_000, 1_000_000] {
            let kept = kept(accesses, TracedThread::Worker(0));
            assert_eq!(kept.accesses, u64::from(accesses));
            assert!(kept.samples.len() <= KEPT_MAX);
            assert!(kept.samples.len() as u64 >= (u64::from(accesses) / 2).min(KEPT_MAX as u64 / 2 - 1));
            let keys: Vec<u32> =
                kept.samples.iter().map(|noted| number(&noted.key).parse().unwrap()).collect();
            let steps = keys.windows(2).all(|pair| u64::from(pair[1] - pair[0]) == kept.every);
            assert!(steps, "{accesses} accesses, every {}", kept.every);
        }
    }

    #[test]
    fn samples_are_in_proportion_to_accesses() {
        let (busy, idle) = (TracedThread::Executor(0), TracedThread::Executor(1));
        let start = Instant::now();
        let table = join("t".into(), vec![kept(400_000, busy), kept(4_000, idle)], start, number);
        assert_eq!((table.accesses, table.name.as_str()), (404_000, "t"));
        let of = |thread| table.samples.iter().filter(|sample| sample.thread == thread).count();
        let ratio = of(busy) as f64 / of(idle) as f64;
        assert!((90.0..115.0).contains(&ratio), "{} to {}", of(busy), of(idle));
        assert!(table.samples.is_sorted_by_key(|sample| sample.at));
    }

    #[test]
    fn samples_name_their_keys_in_the_order_of_keys() {
        let mut kept = Kept::default();
        for key in [700, 5, 700, 41] {
            kept.note(|| noted(key, TracedThread::Worker(3)));
        }
        let table = join("t".into(), vec![kept], Instant::now(), number);
        assert_eq!(table.keys, ["5", "41", "700"]);
        assert!(table.samples.iter().map(|sample| sample.key).eq([2, 0, 2, 1]));
    }
}
