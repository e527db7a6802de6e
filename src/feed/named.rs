//! Named feeds: their positions are rows of the catalog, and the log is held back for them.
//!
//! A position is written by a transaction on `heddle_feed`, as an ordinary row: durable, recovered, and in checkpoints. The hold
//! on the log (`durability::log_holds`) moves once that transaction is durable, and not before.
//!
//! A table that does not change would leave its feed's position behind, and hold the log unnecessarily:
//! therefore a feed without anything left to acknowledge moves its position automatically, once for each
//! segment of the log.

use std::future::poll_fn;

use crossbeam_epoch::pin;

use super::decoder::Decoder;
use super::{Feed, check_reached, number_at};
use crate::base::atomics::Ordering;
use crate::database::Database;
use crate::durability::log_holds::{Hold, LogHolds};
use crate::error::{Error, Result};
use crate::pipeline::engine::Engine;
use crate::pipeline::execute::{Body, execute_here};
use crate::pipeline::nesting;
use crate::protocol::attempt::Attempt;
use crate::range::Range;
use crate::row::Row;
use crate::session::block_on_until;
use crate::storage::catalog;
use crate::storage::store::Store;
use crate::storage::table::TableId;
use crate::storage::word::ABSENT;
use crate::table::Table;
use crate::transaction::Tx;
use crate::typed::TableHandle;
use crate::types::{Value, ValueRef};

/// Name, limit and position of a named feed.
pub(super) struct Named {
    name: String,
    limit: u64,
    /// The epoch through which everything is acknowledged, durably.
    acknowledged: u64,
}

impl Named {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// Status of a named feed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FeedStatus {
    /// Its name.
    pub name: String,
    /// The name of its table.
    pub table: String,
    /// The epoch through which its reader has acknowledged the changes.
    pub epoch: u64,
    /// Number of epochs between that and the last durable one.
    pub lag: u64,
    /// Bytes of whole segments of the log between its position and the present segment.
    pub lag_bytes: u64,
    /// Most bytes of the log that are kept for it alone.
    pub log_bytes: u64,
    /// True if the log no longer reaches back to its position: it must begin again with a snapshot.
    pub has_failed: bool,
}

/// A feed's row in the catalog.
struct Position {
    name: String,
    table: TableId,
    epoch: u64,
    limit: u64,
}

impl Position {
    fn read(row: &Row<'_>) -> Result<Position> {
        let number = |column| row.int(column).map(|number| number as u64);
        Ok(Position {
            name: row.text("name")?.to_string(),
            table: number("table_id")? as TableId,
            epoch: number("epoch")?,
            limit: number("log_bytes")?,
        })
    }
}

/// Holds on the log of the feeds of a store that was just recovered.
pub(crate) fn log_holds(store: &Store) -> Result<LogHolds> {
    let mut holds = LogHolds::default();
    let Some(table) = store.table(catalog::FEEDS) else { return Ok(holds) };
    let (guard, mut words) = (pin(), vec![0; table.layout().words()]);
    let mut failure = None;
    table.for_each_record(&guard, |record| {
        // Relaxed: recovery is alone.
        if record.word().load(Ordering::Relaxed) & ABSENT != 0
            || record.read(table.layout(), &mut words) & ABSENT != 0
        {
            return;
        }
        match Position::read(&Row::new(&table, &words)) {
            Ok(feed) => holds.put(&feed.name, Hold { epoch: feed.epoch, limit: feed.limit }),
            Err(error) => failure = Some(error),
        }
    });
    failure.map_or(Ok(holds), Err)
}

/// Moves a feed's position.
struct Acknowledge<'a> {
    feeds: &'a Table,
    name: &'a str,
    number: TableId,
    epoch: u64,
}

impl Body for Acknowledge<'_> {
    fn run(&mut self, attempt: &Attempt<'_>) -> Result<()> {
        let tx = Tx::new(attempt);
        let key = [ValueRef::from(self.name)];
        let Some(row) = tx.get(self.feeds, key)? else {
            return Err(Error::UnknownFeed { feed: self.name.to_string() });
        };
        if row.int("epoch")? as u64 >= self.epoch {
            return Ok(());
        }
        let changes =
            [("table_id", ValueRef::Int(self.number.into())), ("epoch", ValueRef::Int(self.epoch as i64))];
        tx.update(self.feeds, key, &changes)
    }

    fn code(&self) -> usize {
        <Self as Body>::run as *const () as usize
    }
}

/// Commits that, and waits until it is durable.
fn write(engine: &Engine, mut body: Acknowledge<'_>) -> Result<()> {
    let outcome = execute_here(engine, &mut body, false);
    engine.notify_log();
    if let Some(error) = outcome.failure {
        return Err(*error);
    }
    let durable = poll_fn(|context| engine.progress().poll_durable(outcome.epoch, context));
    block_on_until(durable, None).unwrap_or(Ok(()))
}

impl Database {
    /// Creates a named feed of a table's changes from now on. The log is kept for it until its reader
    /// [acknowledges](Feed::acknowledge) the changes that it has processed, across restarts, too. At most
    /// `log_bytes` of the log are kept for it alone, rounded down to whole segments: a reader that is farther
    /// behind receives [`Error::FeedTooOld`] and begins again with a snapshot. A name is for one reader at a
    /// time.
    ///
    /// To copy the table first: create the feed, copy a snapshot, acknowledge the snapshot's epoch, read.
    ///
    /// ```no_run
    /// # use heddledb::{Database, Options, Range};
    /// # let db = Database::open("shop", Options::default())?;
    /// # let items = db.table("item")?;
    /// # let copy = |_: heddledb::OwnedRow| Ok::<(), heddledb::Error>(());
    /// let mut feed = db.create_feed("search", &items, 1 << 30)?;
    /// let snapshot = db.snapshot()?;
    /// for item in snapshot.scan(&items, Range::all())? {
    ///     copy(item?)?;
    /// }
    /// feed.acknowledge(snapshot.epoch())?;
    /// loop {
    ///     let batch = feed.next()?;
    ///     // ... change the copy, make that durable, and then:
    ///     feed.acknowledge(batch.epoch())?;
    /// }
    /// # #[allow(unreachable_code)]
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::FeedExists`]; those of [`watch`](Self::watch).
    pub fn create_feed<T: TableHandle>(&self, name: &str, table: &T, log_bytes: u64) -> Result<Feed> {
        let feeds = self.feed_table()?;
        // So that two feeds of one name are not made at once, and the table is not dropped meanwhile.
        let _one_at_a_time = self.shared().lock_schema()?;
        if self.run(|tx| tx.exists(&feeds, [ValueRef::from(name)]))? {
            return Err(Error::FeedExists { feed: name.to_string() });
        }
        let mut feed = loop {
            let feed = self.watch(table, self.engine().progress().durable())?;
            let hold = Hold { epoch: feed.epoch, limit: log_bytes };
            // Refused if a checkpoint has made that epoch useless in the meantime.
            if feed.segments.hold(name, hold).is_ok() {
                break feed;
            }
        };
        let clamped = i64::try_from(log_bytes).unwrap_or(i64::MAX);
        let row = [
            Value::from(name),
            Value::Int(feed.decoder.number.into()),
            Value::Int(feed.epoch as i64),
            Value::Int(clamped),
        ];
        let row: Vec<_> = row.iter().map(ValueRef::from).collect();
        if let Err(error) = self.run(|tx| tx.insert(&feeds, &row)) {
            feed.segments.release(name);
            return Err(error);
        }
        feed.named = Some(Named { name: name.to_string(), limit: log_bytes, acknowledged: feed.epoch });
        Ok(feed)
    }

    /// The named feed, from the last acknowledged epoch on.
    ///
    /// # Errors
    /// [`Error::UnknownFeed`]; [`Error::InvalidOption`] where nothing is logged; [`Error::Nested`] inside a transaction.
    pub fn feed(&self, name: &str) -> Result<Feed> {
        let segments = self.logged_segments()?;
        let feeds = self.feed_table()?;
        let found = self
            .run(|tx| tx.get(&feeds, [ValueRef::from(name)])?.map(|row| Position::read(&row)).transpose())?;
        let Some(position) = found else { return Err(Error::UnknownFeed { feed: name.to_string() }) };
        let store = self.engine().store();
        let table = store.table_ever(position.table);
        let (epoch, limit) = (position.epoch, position.limit);
        Ok(Feed {
            shared: self.shared().clone(),
            segments,
            named: Some(Named { name: position.name, limit, acknowledged: epoch }),
            table: table.map_or_else(String::new, |table| table.definition().name().to_string()),
            decoder: Decoder::new(position.table),
            log: None,
            epoch,
            given: epoch,
        })
    }

    /// Drops a named feed: the log is no longer kept for it.
    ///
    /// # Errors
    /// [`Error::UnknownFeed`]; [`Error::InvalidOption`] where nothing is logged; [`Error::Nested`] inside a transaction.
    pub fn drop_feed(&self, name: &str) -> Result<()> {
        let segments = self.logged_segments()?;
        let feeds = self.feed_table()?;
        let _one_at_a_time = self.shared().lock_schema()?;
        if !self.run(|tx| tx.delete(&feeds, [ValueRef::from(name)]))? {
            return Err(Error::UnknownFeed { feed: name.to_string() });
        }
        segments.release(name);
        Ok(())
    }

    /// All named feeds, by name.
    ///
    /// # Errors
    /// The log cannot be read; [`Error::InvalidOption`] where nothing is logged; [`Error::Nested`] inside a transaction.
    pub fn feeds(&self) -> Result<Vec<FeedStatus>> {
        let segments = self.logged_segments()?;
        let feeds = self.feed_table()?;
        let all = self.run(|tx| {
            let rows = tx.scan(&feeds, Range::all())?;
            rows.map(|row| row.and_then(|row| Position::read(&row))).collect::<Result<Vec<_>>>()
        })?;
        let (store, durable) = (self.engine().store(), self.engine().progress().durable());
        let status = |feed: Position| {
            let current = store.table_ever(number_at(store, feed.table, durable));
            Ok(FeedStatus {
                table: current.map_or_else(String::new, |table| table.definition().name().to_string()),
                epoch: feed.epoch,
                lag: durable.saturating_sub(feed.epoch),
                lag_bytes: segments.bytes_behind(feed.epoch)?,
                log_bytes: feed.limit,
                has_failed: segments.start_after(feed.epoch).is_err(),
                name: feed.name,
            })
        };
        all.into_iter().map(status).collect()
    }

    fn feed_table(&self) -> Result<Table> {
        nesting::check("a change feed")?;
        self.engine().store().table(catalog::FEEDS).map(Table::new).ok_or(Error::Closed)
    }
}

impl Feed {
    /// Reports that the reader has processed all changes through this epoch: a named feed continues behind it after a
    /// restart, and the log before it is no longer kept. Returns when that is durable. An epoch before the
    /// last acknowledged one changes nothing. One behind what the feed has given out moves the feed forward:
    /// for the epoch of a snapshot from which a copy was made.
    ///
    /// # Errors
    /// [`Error::UnknownFeed`]: it was dropped; [`Error::FeedNotReached`]; the reason for which nothing can be
    /// written; [`Error::Nested`] inside a transaction.
    pub fn acknowledge(&mut self, epoch: u64) -> Result<()> {
        nesting::check("a change feed")?;
        self.shared.check_open()?;
        check_reached(self.shared.engine().store(), epoch)?;
        if self.named.is_some() {
            self.write_position(epoch)?;
        }
        if epoch > self.epoch {
            let store = self.shared.engine().store();
            self.decoder = Decoder::new(number_at(store, self.decoder.number, epoch));
            let table = store.table_ever(self.decoder.number);
            self.decoder.is_dropped = table.is_none_or(|table| table.ends() <= epoch);
            (self.log, self.epoch) = (None, epoch);
        }
        Ok(())
    }

    fn write_position(&mut self, epoch: u64) -> Result<()> {
        let Some(named) = self.named.as_mut().filter(|named| named.acknowledged < epoch) else {
            return Ok(());
        };
        let engine = self.shared.engine();
        let feeds = Table::new(engine.store().table(catalog::FEEDS).ok_or(Error::Closed)?);
        let number = number_at(engine.store(), self.decoder.number, epoch);
        write(engine, Acknowledge { feeds: &feeds, name: &named.name, number, epoch })?;
        named.acknowledged = epoch;
        // Refused if the log does not reach back so far: then there is nothing to hold, and the next read says so.
        let _ = self.segments.hold(&named.name, Hold { epoch, limit: named.limit });
        Ok(())
    }

    /// Moves a named feed's position on where nothing is left to be acknowledged, once for each segment.
    pub(super) fn move_hold_over_nothing(&mut self) {
        let Some(named) = self.named.as_ref().filter(|named| self.given <= named.acknowledged) else {
            return;
        };
        let segment = |epoch| self.segments.start_after(epoch).map(|start| start.segment);
        if let (Ok(held), Ok(now)) = (segment(named.acknowledged), segment(self.epoch))
            && held < now
        {
            // If it cannot be written now, then later: the log is held back until then.
            let _ = self.write_position(self.epoch);
        }
    }
}
