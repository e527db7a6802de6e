//! Change feeds that are read too slowly: they take little memory, and end with an error that says how far they lag.
//!
//! The table does not grow, so that what the process's memory grows by is the feeds'. One feed has a name, and holds the log back
//! up to its limit; the other has none.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use heddle_workloads::incr::Increment;
use heddledb::{Change, ChangeBatch, ColumnChange, Database, Error, Feed, ProtocolKind, Value};

use crate::Result;
use crate::arguments::Arguments;
use crate::figures::{Asked, Figures, Rates, resident};
use crate::load::{Load, of_protocol};

/// Growth of the log before a checkpoint shortens it, and the part of it that the named feed may hold back.
const LOG_BYTES: u64 = 32 << 20;
/// Memory that both feeds may take.
const MEGABYTES: f64 = 64.0;
const PAUSE: Duration = Duration::from_millis(100);
/// A named feed fails at a checkpoint; this many slices are enough for one on any machine.
const MOST_SLICES: usize = 100;

pub fn run(arguments: &mut Arguments) -> Result<Figures> {
    let seconds: f64 = arguments.get("seconds", 4.0)?;
    let keys: u32 = arguments.get("keys", 10_000)?;
    let threads = arguments.get("threads", 2)?;
    arguments.finish()?;
    let directory = tempfile::tempdir()?;
    let options = of_protocol(ProtocolKind::Optimistic, threads)
        .checkpoints(|checkpoints| checkpoints.log_bytes(LOG_BYTES).spread(0.0))
        .log(|log| log.segment_bytes(8 << 20));
    let db = Database::open(directory.path(), options)?;
    let mut load = Load::new(db, Increment { keys, ..Increment::one_hot() }, threads)?;
    let mut rates = Rates::default();
    // Without a feed first: what the log, checkpoints and buffers take.
    let start = resident();
    let (report, most_without) = load.run_beside(seconds, |_, over| read_slowly(&mut [], over))?;
    rates.push(0, report.throughput());
    let table = load.db.table("incr1")?;
    let now = load.db.snapshot()?.epoch();
    let mut readers = [
        Reader::new("unnamed", load.db.watch(&table, now)?),
        Reader::new("named", load.db.create_feed("slow", &table, LOG_BYTES)?),
    ];
    let (mut largest, mut slices) = (0, 0);
    while !readers.iter().all(|reader| reader.ended.is_some()) {
        if slices == MOST_SLICES {
            return Err(format!("a slow feed has not ended after {slices} slices of {seconds} s").into());
        }
        let (report, most) = load.run_beside(seconds, |_, over| read_slowly(&mut readers, over))?;
        rates.push(1, report.throughput());
        largest = largest.max(most);
        slices += 1;
        // As fast as they can, a lagging feed gives what is left, and then its error.
        readers.iter_mut().try_for_each(Reader::read_rest)?;
    }
    load.check()?;
    let [without, with] = rates.medians();
    let mut figures = Figures::default();
    let megabytes = |bytes: u64| bytes as f64 / 1e6;
    figures.add("additions without feeds, per second", without);
    figures.add("additions beside slow feeds, per second", with);
    figures.add("memory grown without feeds, MB", megabytes(most_without.saturating_sub(start)));
    let grown = megabytes(largest.saturating_sub(most_without));
    figures.add_asked("memory grown further beside slow feeds, MB", grown, Asked::AtMost(MEGABYTES));
    for Reader { name, ended, rows, .. } in &readers {
        let (lag, oldest) = ended.unwrap_or_default();
        figures.add(format!("{name}: changes given, in order"), *rows as f64);
        figures.add(format!("{name}: lag when it failed, epochs"), lag as f64);
        figures.add(format!("{name}: oldest epoch left"), oldest as f64);
    }
    Ok(figures)
}

/// One feed, and what it has given.
struct Reader {
    name: &'static str,
    feed: Feed,
    values: HashMap<i64, i64>,
    rows: u64,
    /// Its lag when it failed, and the oldest epoch that was left.
    ended: Option<(u64, u64)>,
}

impl Reader {
    fn new(name: &'static str, feed: Feed) -> Self {
        Self { name, feed, values: HashMap::new(), rows: 0, ended: None }
    }

    /// One batch, if there is one; false: there is none, or the feed has ended.
    fn read(&mut self) -> Result<bool> {
        if self.ended.is_some() {
            return Ok(false);
        }
        match self.feed.try_next() {
            Ok(Some(batch)) => self.add(&batch).map(|()| true),
            Ok(None) => Ok(false),
            Err(Error::FeedTooOld { epoch, lag, oldest, .. }) => {
                if lag == 0 || oldest <= epoch {
                    return Err(
                        format!("{}: epoch {epoch} lags {lag} behind, from {oldest}", self.name).into()
                    );
                }
                self.ended = Some((lag, oldest));
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Everything that is left. A feed that has caught up goes on.
    fn read_rest(&mut self) -> Result {
        while self.read()? {}
        Ok(())
    }

    /// Every addition of `optimistic` is in the log with its result: a row's values rise by at least 1.
    fn add(&mut self, batch: &ChangeBatch) -> Result {
        for change in batch.changes() {
            let Change::Update { key, columns } = change else {
                return Err(format!("{}: {change:?}", self.name).into());
            };
            let (Some(Value::Int(id)), Some(ColumnChange::Set(Value::Int(value)))) =
                (key.first(), columns.get("value"))
            else {
                return Err(format!("{}: {change:?}", self.name).into());
            };
            if let Some(before) = self.values.insert(*id, *value)
                && before + 1 != *value
            {
                return Err(format!("{}: row {id} has {value} after {before}", self.name).into());
            }
            self.rows += 1;
        }
        Ok(())
    }
}

/// Reads a batch of each feed now and then; gives the largest memory of the process.
fn read_slowly(readers: &mut [Reader], over: &AtomicBool) -> Result<u64> {
    let mut largest = 0;
    // Relaxed: a late look costs one more batch.
    while !over.load(Ordering::Relaxed) {
        for reader in readers.iter_mut() {
            reader.read()?;
        }
        largest = largest.max(resident());
        thread::sleep(PAUSE);
    }
    Ok(largest)
}
