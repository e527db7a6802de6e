//! Change feeds: the committed changes of a table, in commit order, read from the log.
//!
//! A feed reads the segments of the log, on its reader's thread, as a follower does: commits do nothing for it, and it takes
//! the memory of one log group, however far behind it is.
//!
//! # Invariants
//!
//! - Only durable changes are returned, each epoch at most once and whole, and epochs in their order.
//! - A copy of the table as of epoch e, changed by every batch behind e, is the table as of the last batch:
//!   therefore a snapshot and the feed from its epoch on make a copy.
//! - A named feed's position moves forward only when it is durable, and the log is held back for that position: so a crash
//!   repeats what was not acknowledged, and loses nothing.
//!
//! # Concurrency
//!
//! A feed belongs to one reader. It waits for the log's progress as tasks do, and reads segments beside their
//! writer: it opens a block only after the log stage has noted that a group is durable which lies there or
//! later.

mod change;
mod decoder;
mod named;

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_epoch::pin;

pub use self::change::{Change, ChangeBatch, ChangedColumns, ColumnChange};
use self::decoder::Decoder;
pub use self::named::FeedStatus;
use self::named::Named;
pub(crate) use self::named::log_holds;
use crate::database::{Database, Shared};
use crate::durability::{BlockReader, Segments};
use crate::error::{Error, Result};
use crate::pipeline::follower::BlockChain;
use crate::pipeline::nesting;
use crate::session::block_on_until;
use crate::storage::catalog;
use crate::storage::store::Store;
use crate::storage::table::TableId;
use crate::typed::TableHandle;

/// The changes of one table, in commit order: see [`Database::watch`].
///
/// It keeps its database open. [`next`](Self::next), [`next_timeout`](Self::next_timeout), [`try_next`](Self::try_next) and
/// [`next_async`](Self::next_async) return the same batches.
pub struct Feed {
    shared: Arc<Shared>,
    segments: Arc<Segments>,
    named: Option<Named>,
    /// The table's name when the feed was made: for messages.
    table: String,
    decoder: Decoder,
    /// The position at which the log is being read; `None`: at the place of `epoch`.
    log: Option<LogCursor>,
    /// Everything through this epoch was returned, or was there before.
    epoch: u64,
    /// The epoch of the last batch.
    given: u64,
}

/// A place in the log between two groups, or within one that is being read.
struct LogCursor {
    blocks: BlockReader,
    chain: BlockChain,
}

impl Database {
    /// The changes of a table that were committed after an epoch, from the log: for caches, search indexes, and other copies
    /// that are kept current. Whatever the protocol, changes are in commit order, one [`ChangeBatch`] for each epoch,
    /// once they are durable; foreign keys' cascades are among them. While a column is split (`phased`), its changes in
    /// an epoch are one merged operation for each row.
    ///
    /// The epoch is that of a [`Snapshot`](crate::Snapshot::epoch) of this process, from which the copy was
    /// made, or the result of [`Feed::epoch`], kept beside the copy, also across restarts. Zero is the
    /// beginning. A copy that is to outlive the process keeps `Feed::epoch` and not the snapshot's: epochs in
    /// which nothing was written leave no trace in the log, and their numbers are assigned again after a
    /// restart.
    ///
    /// ```no_run
    /// # use std::collections::HashMap;
    /// # use heddledb::{Change, Database, Options, Range};
    /// # let db = Database::open("shop", Options::default())?;
    /// # let items = db.table("item")?;
    /// let snapshot = db.snapshot()?;
    /// let mut prices = HashMap::new();
    /// for item in snapshot.scan(&items, Range::all())? {
    ///     let item = item?;
    ///     prices.insert(item.int("id")?, item.int("price")?);
    /// }
    /// let mut feed = db.watch(&items, snapshot.epoch())?;
    /// drop(snapshot);
    /// loop {
    ///     for change in feed.next()? {
    ///         match change {
    ///             Change::Insert { row, .. } => _ = prices.insert(row.int("id")?, row.int("price")?),
    ///             Change::Update { key, .. } | Change::Delete { key } => _ = prices.remove(&i64::try_from(key[0].as_value_ref())?),
    ///             _ => prices.clear(),
    ///         }
    ///     }
    /// }
    /// # #[allow(unreachable_code)]
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// The feed waits until its epoch is durable. It does not keep the log from being shortened by
    /// checkpoints: a reader that is too slow, or begins with an epoch that is too old, receives
    /// [`Error::FeedTooOld`]. A [named feed](Self::create_feed) keeps the log that it needs.
    ///
    /// Under [`Durability::Async`](crate::Durability::Async) a snapshot may contain commits that a crash
    /// loses: a copy is certain to survive a crash only from the first batch after its snapshot on.
    ///
    /// # Errors
    /// [`Error::FeedTooOld`]; [`Error::FeedNotReached`] for an epoch that has not begun;
    /// [`Error::InvalidOption`] if nothing is logged: with [`Durability::None`](crate::Durability::None), in
    /// memory, or opened for reading only; [`Error::TableDropped`], [`Error::ForeignTable`];
    /// [`Error::LogFailed`]; [`Error::Nested`] inside a transaction.
    pub fn watch<T: TableHandle>(&self, table: &T, from_epoch: u64) -> Result<Feed> {
        nesting::check("a change feed")?;
        let segments = self.logged_segments()?;
        let core = table.as_table().core();
        let (name, store) = (core.definition().name().to_string(), self.engine().store());
        if core.store() != store.identity() {
            return Err(Error::ForeignTable { table: name });
        }
        check_reached(store, from_epoch)?;
        if core.ends() <= from_epoch {
            return Err(Error::TableDropped { table: name });
        }
        let number = number_at(store, core.id(), from_epoch);
        let feed = Feed {
            shared: self.shared().clone(),
            segments,
            named: None,
            table: name,
            decoder: Decoder::new(number),
            log: None,
            epoch: from_epoch,
            given: from_epoch,
        };
        feed.segments.start_after(from_epoch).map_err(|oldest| feed.too_old(oldest))?;
        let progress = feed.shared.engine().progress();
        block_on_until(poll_fn(|context| progress.poll_durable(from_epoch, context)), None)
            .unwrap_or(Ok(()))?;
        Ok(feed)
    }

    /// The log, for feeds.
    fn logged_segments(&self) -> Result<Arc<Segments>> {
        self.check_open()?;
        let Some(checkpointer) = self.shared().checkpointer() else {
            return Err(Error::InvalidOption {
                option: "durability",
                given: "none, or read-only".to_string(),
                expected: "async or group, for a change feed: nothing is logged, so there is nothing to read"
                    .to_string(),
            });
        };
        Ok(checkpointer.segments().clone())
    }
}

/// Refuses an epoch that has not begun.
fn check_reached(store: &Store, epoch: u64) -> Result<()> {
    let current = store.epochs().current();
    if epoch <= current { Ok(()) } else { Err(Error::FeedNotReached { epoch, current }) }
}

/// The number that a table had at the end of an epoch, of which this is a later or earlier one.
fn number_at(store: &Store, mut number: TableId, epoch: u64) -> TableId {
    let Some(table) = store.table(catalog::SUCCESSORS) else { return number };
    let changes = catalog::successors(&table, &pin());
    while let Some((_, new, _)) = changes.iter().find(|(old, _, change)| *old == number && *change <= epoch) {
        number = *new;
    }
    while let Some((old, ..)) = changes.iter().find(|(_, new, change)| *new == number && *change > epoch) {
        number = *old;
    }
    number
}

impl Feed {
    /// The next batch of changes; waits for it.
    ///
    /// # Errors
    /// [`Error::FeedTooOld`]: the log was removed before it was read; [`Error::TableDropped`] behind a [`Change::Drop`];
    /// [`Error::LogFailed`] once everything durable was returned; [`Error::Closed`]; the log cannot be read;
    /// [`Error::Nested`] inside a transaction. After an error the feed is where it was, and can be asked
    /// again.
    // It is no iterator: it fails, and waits.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<ChangeBatch> {
        loop {
            if let Some(batch) = self.next_until(None)? {
                return Ok(batch);
            }
        }
    }

    /// Same as [`next`](Self::next); returns `None` if there is no batch within this time.
    ///
    /// # Errors
    /// Same errors as [`next`](Self::next).
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Option<ChangeBatch>> {
        match Instant::now().checked_add(timeout) {
            Some(deadline) => self.next_until(Some(deadline)),
            None => self.next().map(Some),
        }
    }

    /// Same as [`next`](Self::next); returns `None` if everything durable was returned.
    ///
    /// # Errors
    /// Same errors as [`next`](Self::next).
    pub fn try_next(&mut self) -> Result<Option<ChangeBatch>> {
        nesting::check("a change feed")?;
        self.advance(None)
    }

    /// Same as [`next`](Self::next), for tasks: the thread is not blocked while it waits for changes, but by
    /// reads of the log's files.
    ///
    /// # Errors
    /// Same errors as [`next`](Self::next).
    pub async fn next_async(&mut self) -> Result<ChangeBatch> {
        nesting::check("a change feed")?;
        loop {
            if let Some(batch) = self.advance(None)? {
                return Ok(batch);
            }
            let (shared, after) = (self.shared.clone(), self.epoch.saturating_add(1));
            poll_fn(|context| shared.engine().progress().poll_durable(after, context)).await?;
        }
    }

    /// The epoch from which a copy that has all batches so far continues, also after a restart: [`Database::watch`]. It
    /// is the epoch of the last batch or, if there was nothing to return, that of a later entry in the log
    /// which is not a change of this table.
    pub fn epoch(&self) -> u64 {
        // First: groups of epochs up to this one are noted already.
        let durable = self.shared.engine().progress().durable();
        let last = self.segments.last_epoch();
        // Epochs without a group leave nothing on disk, and a database that is opened again gives their numbers once more.
        if last < self.epoch && self.epoch <= durable { last } else { self.epoch }
    }

    /// Returns true if all changes through this epoch were returned: for example, if a copy has caught up
    /// with a snapshot.
    pub fn has_given(&self, epoch: u64) -> bool {
        self.epoch >= epoch
    }

    fn next_until(&mut self, deadline: Option<Instant>) -> Result<Option<ChangeBatch>> {
        nesting::check("a change feed")?;
        loop {
            if let Some(batch) = self.advance(deadline)? {
                return Ok(Some(batch));
            }
            let after = self.epoch.saturating_add(1);
            let progress = self.shared.engine().progress();
            match block_on_until(poll_fn(|context| progress.poll_durable(after, context)), deadline) {
                Some(durable) => durable?,
                None => return Ok(None),
            }
        }
    }

    /// Reads on to the next group with changes, or through everything that is durable, or until the deadline is over.
    fn advance(&mut self, deadline: Option<Instant>) -> Result<Option<ChangeBatch>> {
        self.shared.check_open()?;
        if self.decoder.is_dropped {
            return Err(Error::TableDropped { table: self.table.clone() });
        }
        // First: groups of epochs up to this one are noted already.
        let durable = self.shared.engine().progress().durable();
        while let Some((epoch, payload)) = self.next_group()? {
            if epoch <= self.epoch {
                // Of the segment's beginning, before the place where the feed is.
                continue;
            }
            let batch = match self.decoder.decode(self.shared.engine().store(), epoch, &payload) {
                Ok(batch) => batch,
                Err(error) => {
                    self.log = None;
                    return Err(error);
                }
            };
            self.epoch = epoch;
            if !batch.changes.is_empty() {
                self.given = epoch;
                return Ok(Some(batch));
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(None);
            }
        }
        self.epoch = self.epoch.max(durable);
        self.move_hold_over_nothing();
        Ok(None)
    }

    /// The next group that is durable, if there is one.
    fn next_group(&mut self) -> Result<Option<(u64, Vec<u8>)>> {
        if self.segments.last_epoch() <= self.epoch {
            return Ok(None);
        }
        let cursor = match self.log.take() {
            Some(cursor) => cursor,
            None => self.open_log()?,
        };
        let read = self.read_group(cursor);
        // What was read by half is read again from the beginning, if it is there.
        read.map_err(|error| match self.segments.start_after(self.epoch) {
            Ok(_) => error,
            Err(oldest) => self.too_old(oldest),
        })
    }

    fn open_log(&self) -> Result<LogCursor> {
        let start = self.segments.start_after(self.epoch).map_err(|oldest| self.too_old(oldest))?;
        let chain = BlockChain::new(self.segments.uuid(), start);
        Ok(LogCursor { blocks: self.segments.block_reader(start), chain })
    }

    fn read_group(&mut self, mut cursor: LogCursor) -> Result<Option<(u64, Vec<u8>)>> {
        // The log has a later group than the last one read.
        while self.segments.last_epoch() > cursor.blocks.last_epoch() {
            let block = cursor.blocks.next_block()?;
            if let Some(group) = cursor.chain.take(&block)? {
                self.log = Some(cursor);
                return Ok(Some(group));
            }
        }
        self.log = Some(cursor);
        Ok(None)
    }

    fn too_old(&self, oldest: u64) -> Error {
        let (epoch, durable) = (self.epoch, self.shared.engine().progress().durable());
        Error::FeedTooOld { table: self.table.clone(), epoch, lag: durable.saturating_sub(epoch), oldest }
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.named.as_ref().map(Named::name);
        let mut debug = formatter.debug_struct("Feed");
        debug.field("table", &self.table).field("name", &name).field("epoch", &self.epoch).finish()
    }
}
