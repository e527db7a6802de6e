//! Snapshots: read-only views of all tables as of one epoch.
//!
//! # Invariants
//!
//! - A snapshot contains every transaction that was acknowledged before it was asked for (strict serializability), and of every
//!   transaction either all or nothing.
//! - A result is returned once the log is durable through the epochs of the rows that were read.
//! - A snapshot holds no slot of a worker context, no lock, and between two calls no pin. No transaction
//!   conflicts with it or waits for it.

#[cfg(test)]
mod canary;
mod snapshot_scan;

use std::fmt;
use std::sync::Arc;

use crossbeam_epoch::pin;
use parking_lot::Mutex;

pub use self::snapshot_scan::SnapshotScan;
use crate::database::Database;
use crate::error::{Error, OwnError, Result};
use crate::pipeline::nesting;
use crate::pipeline::snapshots::Registered;
use crate::range::Range;
use crate::row::OwnedRow;
use crate::storage::index::Lookup;
use crate::storage::table::RangeScan;
use crate::storage::table::TableCore;
use crate::storage::versions::{Found, Met, Rows};
use crate::table::Table;
use crate::transaction::{check_unique_key, index_position};
use crate::typed::TableHandle;
use crate::types::IntoKey;

/// A read-only view of all tables as of one moment.
///
/// It contains everything that was acknowledged before it was requested, and nothing that commits later.
/// Reads in it never conflict with transactions, never wait for them, and never make them wait. Several
/// threads can read in it at once; clones are the same snapshot. Versions of rows that change while it is
/// open are kept for it, up to [`MemoryOptions::snapshot_limit`](crate::MemoryOptions::snapshot_limit): drop
/// it when it is no longer needed.
///
/// ```
/// # use heddledb::{DataType, Database, Durability, Options, Range, TableDefinition, key, row};
/// # let db = Database::in_memory()?;
/// # let accounts = db.create_table(TableDefinition::new("account").column("id", DataType::Int64)
/// #     .column("balance", DataType::Int64).primary_key(["id"]))?;
/// db.run(|tx| (1..=3).try_for_each(|id| tx.insert(&accounts, row![id, 100])))?;
/// let snapshot = db.snapshot()?;
/// db.run(|tx| tx.add(&accounts, key![1], "balance", -100))?;
/// let mut sum = 0;
/// for account in snapshot.scan(&accounts, Range::all())? {
///     sum += account?.int("balance")?;
/// }
/// assert_eq!(sum, 300);
/// let first = snapshot.get(&accounts, key![1])?.expect("it was there");
/// assert_eq!(first.int("balance")?, 100);
/// # Ok::<(), heddledb::Error>(())
/// ```
#[derive(Clone)]
pub struct Snapshot {
    view: Arc<View>,
}

/// State shared by clones of a snapshot and its scans.
struct View {
    registered: Arc<Registered>,
    /// The first error of a read: a body that ignores it has no result.
    fault: Mutex<Option<Error>>,
}

impl Database {
    /// Takes a snapshot of all tables. It waits at most for the group that is being written to the log;
    /// requests made meanwhile share it. It is available on a full disk and after the log has failed, too.
    ///
    /// # Errors
    /// [`Error::Nested`] inside a transaction; [`Error::Closed`].
    pub fn snapshot(&self) -> Result<Snapshot> {
        nesting::check("taking a snapshot")?;
        self.check_open()?;
        let registered = self.engine().snapshots().ask(self.engine())?;
        Ok(Snapshot { view: Arc::new(View { registered, fault: Mutex::new(None) }) })
    }

    /// Runs a closure with a snapshot: for reports of any length, which run once, concurrently with all
    /// transactions.
    ///
    /// ```
    /// # use heddledb::{DataType, Database, Durability, Options, Range, TableDefinition, key, row};
    /// # let db = Database::in_memory()?;
    /// # let accounts = db.create_table(TableDefinition::new("account").column("id", DataType::Int64).primary_key(["id"]))?;
    /// # db.run(|tx| tx.insert(&accounts, row![7]))?;
    /// let accounts = db.read(|snapshot| Ok(snapshot.scan(&accounts, Range::all())?.count()))?;
    /// assert_eq!(accounts, 1);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same errors as [`snapshot`](Self::snapshot); the closure's own; an error of a read in it, even if the
    /// closure ignores it (`scan.count()` counts an error, `scan.flatten()` skips it).
    pub fn read<T>(&self, body: impl FnOnce(&Snapshot) -> Result<T>) -> Result<T> {
        let snapshot = self.snapshot()?;
        let value = body(&snapshot)?;
        snapshot.view.fault.lock().take().map_or(Ok(value), Err)
    }
}

impl Database {
    /// Same as [`read`](Self::read), for closures with an error type of the application's own.
    ///
    /// # Errors
    /// The closure's own; those of [`read`](Self::read).
    pub fn try_read<T, E: From<Error>>(&self, body: impl FnOnce(&Snapshot) -> Result<T, E>) -> Result<T, E> {
        let mut own = OwnError::none();
        let result = self.read(|snapshot| own.keep(body(snapshot)));
        own.or_kept(result)
    }
}

impl Snapshot {
    /// The last epoch that it contains.
    pub fn epoch(&self) -> u64 {
        self.view.registered.epoch()
    }

    /// The row with this key.
    ///
    /// # Errors
    /// A key that does not fit the table; [`Error::SnapshotTooOld`]; [`Error::LogFailed`] if the row never
    /// became durable.
    pub fn get<'k, T: TableHandle>(&self, table: &T, key: impl IntoKey<'k>) -> Result<Option<T::OwnedRow>> {
        let core = self.core(table.as_table())?;
        let key = core.encode_key(key.into_key().as_ref(), true)?;
        let mut rows = Rows::new(core.clone());
        let met = {
            let guard = pin();
            match core.find(core.hash(&key), &key, &guard) {
                Lookup::Missing(_) => Met::default(),
                Lookup::Found(record) => {
                    let versions = self.view.registered.engine().store().versions();
                    rows.fill(versions, (&[record], None), self.epoch(), &guard)?
                }
            }
        };
        self.view.release(met)?;
        (rows.len() > 0).then(|| T::owned_row(OwnedRow::new(Arc::new(rows), 0))).transpose()
    }

    /// Returns true if there is a row with this key.
    ///
    /// # Errors
    /// Same errors as [`get`](Self::get).
    pub fn exists<'k>(&self, table: &Table, key: impl IntoKey<'k>) -> Result<bool> {
        let core = self.core(table)?;
        let key = core.encode_key(key.into_key().as_ref(), true)?;
        let guard = pin();
        let found = match core.find(core.hash(&key), &key, &guard) {
            Lookup::Missing(_) => Found::Nothing(0),
            Lookup::Found(record) => self.view.registered.engine().store().versions().read(
                core.layout(),
                record,
                self.epoch(),
                &mut [],
            ),
        };
        drop(guard);
        let (there, epoch) = match found {
            Found::Row(epoch) => (true, epoch),
            Found::Nothing(epoch) => (false, epoch),
        };
        self.view.release(Met { epoch, is_missing: false })?;
        Ok(there)
    }

    /// Reads a range of a table, in the order of its primary key.
    ///
    /// # Errors
    /// [`Error::NoOrderedIndex`], unless it is [`Range::all`]; values that do not fit the key.
    pub fn scan<T: TableHandle>(&self, table: &T, range: impl Into<Range>) -> Result<SnapshotScan<T>> {
        let (core, range) = (self.core(table.as_table())?, range.into());
        let scan = range_scan(core, &range)?;
        Ok(SnapshotScan::new(&self.view, core, None, scan, range.row_limit()))
    }

    /// Divides a range of a table into at most `parts` scans of about the same length, in their order, which
    /// several threads can read concurrently. A limit applies to each of them.
    ///
    /// # Errors
    /// Same errors as [`scan`](Self::scan).
    pub fn scan_parts<T: TableHandle>(
        &self,
        table: &T,
        range: impl Into<Range>,
        parts: usize,
    ) -> Result<Vec<SnapshotScan<T>>> {
        let (core, range) = (self.core(table.as_table())?, range.into());
        let scans = range_scan(core, &range)?.split(core, parts, &pin());
        let scan = |scan| SnapshotScan::new(&self.view, core, None, scan, range.row_limit());
        Ok(scans.into_iter().map(scan).collect())
    }

    /// The row with these values in the columns of a unique index, as [`Tx::get_by`](crate::Tx::get_by) finds
    /// it.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`], also if the index is not unique; [`Error::WrongKey`]: the number of values is
    /// not that of its columns.
    pub fn get_by<'k, T: TableHandle>(
        &self,
        table: &T,
        index: &str,
        key: impl IntoKey<'k>,
    ) -> Result<Option<T::OwnedRow>> {
        let key = key.into_key();
        check_unique_key(self.core(table.as_table())?, index, key.as_ref().len())?;
        self.scan_index(table, index, Range::prefix(key.as_ref()))?.next().transpose()
    }

    /// Reads a range of a secondary index, in its order. The range's keys are values of the indexed columns.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`]; values that do not fit the indexed columns.
    pub fn scan_index<T: TableHandle>(
        &self,
        table: &T,
        index: &str,
        range: impl Into<Range>,
    ) -> Result<SnapshotScan<T>> {
        let (core, range) = (self.core(table.as_table())?, range.into());
        let (number, scan) = index_scan(core, index, &range)?;
        Ok(SnapshotScan::new(&self.view, core, Some(number), scan, range.row_limit()))
    }

    /// Divides a range of a secondary index into scans, as [`scan_parts`](Self::scan_parts) does.
    ///
    /// # Errors
    /// Same errors as [`scan_index`](Self::scan_index).
    pub fn scan_index_parts<T: TableHandle>(
        &self,
        table: &T,
        index: &str,
        range: impl Into<Range>,
        parts: usize,
    ) -> Result<Vec<SnapshotScan<T>>> {
        let (core, range) = (self.core(table.as_table())?, range.into());
        let (number, scan) = index_scan(core, index, &range)?;
        let scans = scan.split(&core.secondary()[number].table, parts, &pin());
        let scan = |scan| SnapshotScan::new(&self.view, core, Some(number), scan, range.row_limit());
        Ok(scans.into_iter().map(scan).collect())
    }

    /// The table as its definition was at the snapshot's epoch.
    fn core<'t>(&self, table: &'t Table) -> Result<&'t Arc<TableCore>> {
        if table.core().store() != self.view.registered.engine().store().identity() {
            return Err(Error::ForeignTable { table: table.name().to_string() });
        }
        table.at(self.epoch())
    }
}

fn range_scan(core: &TableCore, range: &Range) -> Result<RangeScan> {
    let (_, lower, upper) = range.encode(|values| core.encode_key(values, false))?;
    RangeScan::new(core, lower, upper, range.is_backward())
}

fn index_scan(core: &TableCore, index: &str, range: &Range) -> Result<(usize, RangeScan)> {
    let number = index_position(core, index)?;
    let (_, lower, upper) = range.encode(|values| core.encode_index_prefix(number, values))?;
    Ok((number, RangeScan::new(&core.secondary()[number].table, lower, upper, range.is_backward())?))
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Snapshot").field("epoch", &self.epoch()).finish()
    }
}

impl View {
    /// Checks that values just read may be returned: the snapshot has the versions it needs, and the log is durable
    /// through the epochs met.
    ///
    /// # Errors
    /// [`Error::SnapshotTooOld`]; the log has failed before the epochs met became durable.
    fn release(&self, met: Met) -> Result<()> {
        let released = self.registered.check().and_then(|()| {
            if met.is_missing {
                let detail = "an entry of a secondary index leads to no row".to_string();
                return Err(Error::Inconsistent { detail });
            }
            self.registered.engine().progress().wait(met.epoch)
        });
        if let Err(error) = &released {
            self.fault.lock().get_or_insert_with(|| error.clone());
        }
        released.map(drop)
    }
}
