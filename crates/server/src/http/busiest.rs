//! The rows that are accessed most, whether transactions conflict about them or not.
//!
//! The engine notes a sample of all accesses while that is switched on, which costs something at each of them: so it is on only while a
//! page is open. All open pages share what was found, since the samples can be taken once.
//!
//! Invariants: accesses are noted exactly while a [`Viewer`] lives; a list is of the second before, and empty before the first one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use heddledb::{AccessTrace, Database};
use parking_lot::Mutex;

/// Age at which a list is replaced.
const INTERVAL: Duration = Duration::from_millis(900);

/// Most rows in a list.
const ROWS_MAX: usize = 12;

/// A row, and how often it was accessed.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BusyRow {
    pub(super) table: String,
    pub(super) key: String,
    /// Accesses per second, reads and writes, estimated from a sample.
    pub(super) rate: f64,
}

/// State that all pages share.
#[derive(Default)]
pub(crate) struct Busiest(Mutex<State>);

#[derive(Default)]
struct State {
    viewers: usize,
    /// The last time at which accesses were taken.
    taken: Option<Instant>,
    rows: Arc<[BusyRow]>,
}

/// An open page.
pub(super) struct Viewer<'b> {
    busiest: &'b Busiest,
    database: Option<Database>,
}

impl Busiest {
    /// Records accesses as long as the viewer lives. Before the database has recovered there are none.
    pub(super) fn view(&self, database: Option<&Database>) -> Viewer<'_> {
        let mut state = self.0.lock();
        if let Some(database) = database {
            state.viewers += 1;
            if state.viewers == 1 {
                drop(database.take_access_trace());
                state.taken = Some(Instant::now());
                database.trace_accesses(true);
            }
        }
        Viewer { busiest: self, database: database.cloned() }
    }
}

impl Viewer<'_> {
    /// Returns true if there was a database when the page was opened.
    pub(super) fn has_database(&self) -> bool {
        self.database.is_some()
    }

    /// The busiest rows of about the last second, the busiest one first.
    pub(super) fn rows(&self) -> Arc<[BusyRow]> {
        let Some(database) = &self.database else { return Arc::default() };
        let mut state = self.busiest.0.lock();
        let since = state.taken.map_or(INTERVAL, |taken| taken.elapsed());
        if since >= INTERVAL {
            state.taken = Some(Instant::now());
            state.rows =
                database.take_access_trace().map_or_else(Default::default, |trace| busiest(&trace, since));
        }
        state.rows.clone()
    }
}

impl Drop for Viewer<'_> {
    fn drop(&mut self) {
        if let Some(database) = &self.database {
            let mut state = self.busiest.0.lock();
            state.viewers -= 1;
            if state.viewers == 0 {
                database.trace_accesses(false);
                state.rows = Arc::default();
            }
        }
    }
}

/// The rows with most samples, scaled to all accesses.
fn busiest(trace: &AccessTrace, time: Duration) -> Arc<[BusyRow]> {
    let mut rows = Vec::new();
    for table in &trace.tables {
        let each = table.accesses as f64 / (table.samples.len().max(1) as f64 * time.as_secs_f64().max(1e-3));
        let mut counts: HashMap<usize, u32> = HashMap::new();
        table.samples.iter().for_each(|sample| *counts.entry(sample.key).or_default() += 1);
        let row = |(key, count): (usize, u32)| {
            let key = table.keys.get(key).cloned().unwrap_or_default();
            BusyRow { table: table.name.clone(), key, rate: f64::from(count) * each }
        };
        rows.extend(counts.into_iter().map(row));
    }
    rows.sort_by(|one: &BusyRow, other| {
        other.rate.total_cmp(&one.rate).then_with(|| (&one.table, &one.key).cmp(&(&other.table, &other.key)))
    });
    rows.truncate(ROWS_MAX);
    rows.into()
}
