//! Statistics of statements by their normalized texts: `pg_stat_statements`.
//!
//! # Invariants
//! - Only statements that have succeeded count; their texts hold no constants.
//! - At most [`ENTRIES_MAX`] texts are kept; beyond that those with the fewest calls are forgotten.
//!
//! # Concurrency
//! Each connection counts in [`Counters`] of its own, which only its thread writes. A mutex guards the list of texts;
//! a connection takes it once for each text that is new to it, and a reader takes it to add up. A reset raises a text's
//! number of resets: counters with an older number count as empty, and their thread clears them with its next call.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::parse::normalize::normalize;
use crate::run::order::{Hashing, hashing};
use crate::session::connection::Connection;

/// The limit of texts kept: PostgreSQL's `pg_stat_statements.max`.
const ENTRIES_MAX: usize = 5_000;
/// The number of texts evicted together when the limit is reached.
const EVICTED: usize = ENTRIES_MAX / 20;
/// The limit of texts whose counters a connection remembers.
const KNOWN_MAX: usize = 512;

/// The sums over a statement's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub calls: u64,
    pub rows: u64,
    pub nanoseconds: u64,
    pub least: u64,
    pub most: u64,
}

impl Totals {
    fn add(&mut self, other: Totals) {
        if other.calls == 0 {
            return;
        }
        self.least = if self.calls == 0 { other.least } else { self.least.min(other.least) };
        self.most = self.most.max(other.most);
        self.calls += other.calls;
        self.rows += other.rows;
        self.nanoseconds += other.nanoseconds;
    }
}

/// The counts of one text by one connection.
pub(crate) struct Counters {
    calls: AtomicU64,
    rows: AtomicU64,
    nanoseconds: AtomicU64,
    least: AtomicU64,
    most: AtomicU64,
    /// The number of resets of the entry when these counters began to count.
    resets: AtomicU64,
    entry: Arc<Entry>,
}

impl Counters {
    /// Counts a call.
    fn add(&self, time: Duration, rows: u64) {
        let nanoseconds = time.as_nanos() as u64;
        self.clear_if_reset();
        // Relaxed, and no read-modify-write: one thread writes, readers want recent values. The count of calls comes
        // last, so that a reader that has seen a first call finds a least time.
        let change = |of: &AtomicU64, to: &dyn Fn(u64) -> u64| {
            of.store(to(of.load(Ordering::Relaxed)), Ordering::Relaxed)
        };
        change(&self.rows, &|sum| sum + rows);
        change(&self.nanoseconds, &|sum| sum + nanoseconds);
        change(&self.least, &|least| least.min(nanoseconds));
        change(&self.most, &|most| most.max(nanoseconds));
        change(&self.calls, &|calls| calls + 1);
    }

    /// Begins at zero again after a reset.
    fn clear_if_reset(&self) {
        // Relaxed: which of a call and a reset beside it comes first does not matter.
        let resets = self.entry.resets.load(Ordering::Relaxed);
        if self.resets.load(Ordering::Relaxed) == resets {
            return;
        }
        for counter in [&self.calls, &self.rows, &self.nanoseconds, &self.most] {
            counter.store(0, Ordering::Relaxed);
        }
        self.least.store(u64::MAX, Ordering::Relaxed);
        // Release pairs with the acquire in `totals`: what is read there is of this reset or later.
        self.resets.store(resets, Ordering::Release);
    }

    fn totals(&self) -> Totals {
        // Acquire pairs with the release in `clear_if_reset`. The entry's number may be older than the counters'.
        let counted = self.resets.load(Ordering::Acquire);
        if counted < self.entry.resets.load(Ordering::Relaxed) {
            return Totals::default();
        }
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Totals {
            calls: of(&self.calls),
            rows: of(&self.rows),
            nanoseconds: of(&self.nanoseconds),
            least: of(&self.least),
            most: of(&self.most),
        }
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        self.entry.counts.lock().ended.add(self.totals());
    }
}

/// A text of one user, with its counts.
pub(crate) struct Entry {
    user: String,
    text: String,
    /// The number of resets of its statistics.
    resets: AtomicU64,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    /// The sums of connections that have ended, or have forgotten the text.
    ended: Totals,
    counting: Vec<Weak<Counters>>,
}

impl Entry {
    fn reset(&self) {
        let mut counts = self.counts.lock();
        counts.ended = Totals::default();
        // Relaxed: counters compare the number only.
        self.resets.fetch_add(1, Ordering::Relaxed);
    }

    fn totals(&self) -> Totals {
        // Upgraded outside of the lock: dropping the last reference takes it.
        let (mut totals, counting) = {
            let counts = self.counts.lock();
            (counts.ended, counts.counting.iter().filter_map(Weak::upgrade).collect::<Vec<_>>())
        };
        counting.iter().for_each(|counters| totals.add(counters.totals()));
        totals
    }
}

/// A line of `pg_stat_statements`.
pub(crate) struct StatementReport {
    pub user: String,
    pub text: String,
    /// A number of the user and the text, the same for as long as the format of texts is.
    pub id: i64,
    pub totals: Totals,
}

/// The statistics of all statements of a database.
#[derive(Default)]
pub(crate) struct StatementStatistics {
    entries: Mutex<HashMap<(String, String), Arc<Entry>>>,
}

impl StatementStatistics {
    /// New counters for a connection and a text.
    pub fn counters(&self, user: &str, text: &str) -> Arc<Counters> {
        let entry = self.entry(user, normalize(text));
        let counters = Arc::new(Counters {
            calls: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
            least: AtomicU64::new(u64::MAX),
            most: AtomicU64::new(0),
            resets: AtomicU64::new(entry.resets.load(Ordering::Relaxed)),
            entry: entry.clone(),
        });
        let mut counts = entry.counts.lock();
        counts.counting.retain(|known| known.strong_count() > 0);
        counts.counting.push(Arc::downgrade(&counters));
        drop(counts);
        counters
    }

    fn entry(&self, user: &str, text: String) -> Arc<Entry> {
        let mut entries = self.entries.lock();
        let key = (user.to_string(), text);
        if let Some(known) = entries.get(&key) {
            return known.clone();
        }
        if entries.len() >= ENTRIES_MAX {
            let mut calls: Vec<_> =
                entries.iter().map(|(key, entry)| (entry.totals().calls, key.clone())).collect();
            calls.sort_unstable();
            calls.iter().take(EVICTED).for_each(|(_, key)| drop(entries.remove(key)));
        }
        let (user, text) = key.clone();
        let entry = Arc::new(Entry { user, text, resets: AtomicU64::new(0), counts: Mutex::default() });
        entries.insert(key, entry.clone());
        entry
    }

    /// Forgets what was counted of the texts that `which` names, by user and number.
    pub fn reset(&self, which: impl Fn(&str, i64) -> bool) {
        let entries: Vec<Arc<Entry>> = self.entries.lock().values().cloned().collect();
        let named = entries.iter().filter(|entry| which(&entry.user, id_of(&entry.user, &entry.text)));
        named.for_each(|entry| entry.reset());
    }

    /// All texts that were called.
    pub fn report(&self) -> Vec<StatementReport> {
        let entries: Vec<Arc<Entry>> = self.entries.lock().values().cloned().collect();
        let report = |entry: Arc<Entry>| {
            let totals = entry.totals();
            let id = id_of(&entry.user, &entry.text);
            (totals.calls > 0).then(|| StatementReport {
                user: entry.user.clone(),
                text: entry.text.clone(),
                id,
                totals,
            })
        };
        entries.into_iter().filter_map(report).collect()
    }
}

/// FNV-1a of the user and the text.
fn id_of(user: &str, text: &str) -> i64 {
    let bytes = user.bytes().chain([0]).chain(text.bytes());
    bytes
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
        as i64
}

/// The counters that a connection has in use, by the texts as they were sent.
#[derive(Default)]
pub(crate) struct KnownCounters {
    by_text: HashMap<u64, Arc<Counters>, Hashing>,
}

/// The counters of a prepared statement, once it was executed.
pub(crate) type PreparedCounters = OnceLock<Arc<Counters>>;

impl Connection {
    /// Counts a statement that has ended. `counters`: none, if it has failed.
    pub(super) fn count_statement(&mut self, started: Instant, counters: Option<&Counters>) {
        let time = started.elapsed();
        let rows = std::mem::take(&mut self.rows_of_statement);
        self.activity.latency.add(time);
        self.shared.slow_statements.look(time, &self.activity);
        if let Some(counters) = counters {
            counters.add(time, rows);
        }
    }

    /// The counters of a statement that came as a text.
    pub(super) fn counters_of_text(&mut self, text: &str) -> Arc<Counters> {
        let hash = hashing().hash_one((text, self.environment.user.as_str()));
        if let Some(known) = self.counters.by_text.get(&hash) {
            return known.clone();
        }
        if self.counters.by_text.len() >= KNOWN_MAX {
            self.counters.by_text.clear();
        }
        let counters = self.shared.statements.counters(&self.environment.user, text);
        self.counters.by_text.insert(hash, counters.clone());
        counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_connections_add_up_and_outlive_them() {
        let statistics = StatementStatistics::default();
        let (first, second) =
            (statistics.counters("ada", "SELECT 1"), statistics.counters("ada", "SELECT 2"));
        first.add(Duration::from_micros(30), 1);
        second.add(Duration::from_micros(10), 2);
        second.add(Duration::from_micros(50), 3);
        statistics.counters("bob", "SELECT 1").add(Duration::from_micros(1), 1);
        let totals = |user: &str| {
            let reports = statistics.report();
            let of_user: Vec<_> = reports.iter().filter(|report| report.user == user).collect();
            assert_eq!((of_user.len(), of_user[0].text.as_str()), (1, "SELECT $1"));
            of_user[0].totals
        };
        let expected = Totals { calls: 3, rows: 6, nanoseconds: 90_000, least: 10_000, most: 50_000 };
        assert_eq!(totals("ada"), expected);
        drop((first, second));
        assert_eq!(totals("ada"), expected);
        assert_eq!(totals("bob").calls, 1);
    }

    #[test]
    fn a_reset_forgets_what_open_and_ended_connections_have_counted() {
        let statistics = StatementStatistics::default();
        let open = statistics.counters("ada", "SELECT 1");
        open.add(Duration::from_micros(30), 1);
        statistics.counters("ada", "SELECT 1").add(Duration::from_micros(90), 1);
        statistics.counters("bob", "SELECT 1").add(Duration::from_micros(1), 1);
        let users = || {
            let mut users: Vec<_> =
                statistics.report().into_iter().map(|it| (it.user, it.totals.calls)).collect();
            users.sort();
            users
        };
        statistics.reset(|user, _| user == "ada");
        assert_eq!(users(), [("bob".to_string(), 1)]);
        open.add(Duration::from_micros(20), 3);
        assert_eq!(users(), [("ada".to_string(), 1), ("bob".to_string(), 1)]);
        let report = statistics.report();
        let of_ada = report.iter().find(|it| it.user == "ada").unwrap();
        let expected = Totals { calls: 1, rows: 3, nanoseconds: 20_000, least: 20_000, most: 20_000 };
        assert_eq!(of_ada.totals, expected);
        let id = of_ada.id;
        statistics.reset(|_, of| of == id);
        assert_eq!(users(), [("bob".to_string(), 1)]);
        drop(open);
        assert_eq!(users(), [("bob".to_string(), 1)]);
    }

    #[test]
    fn the_text_with_the_fewest_calls_makes_room() {
        let statistics = StatementStatistics::default();
        let often = statistics.counters("ada", "SELECT often");
        (0..2).for_each(|_| often.add(Duration::ZERO, 0));
        for number in 0..ENTRIES_MAX + 10 {
            statistics.counters("ada", &format!("SELECT c{number}")).add(Duration::ZERO, 0);
        }
        let report = statistics.report();
        assert!((ENTRIES_MAX - EVICTED..=ENTRIES_MAX).contains(&report.len()), "{}", report.len());
        assert!(report.iter().any(|report| report.text == "SELECT often" && report.totals.calls == 2));
    }

    #[test]
    fn concurrent_connections_lose_no_call() {
        let statistics = StatementStatistics::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        let counters = statistics.counters("ada", "SELECT 1");
                        (0..10).for_each(|_| counters.add(Duration::from_nanos(1), 1));
                    }
                });
            }
            scope.spawn(|| (0..100).for_each(|_| assert!(statistics.report().len() <= 1)));
        });
        let totals = statistics.report()[0].totals;
        assert_eq!((totals.calls, totals.rows, totals.nanoseconds), (4_000, 4_000, 4_000));
    }
}
