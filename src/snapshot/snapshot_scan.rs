//! Scans in a snapshot: a page of an index at a time is copied, and returned row by row.
//!
//! Between two pages nothing is pinned, so a scan keeps no memory from being freed, however long its user
//! takes for a row; and it can be sent from thread to thread.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crossbeam_epoch::pin;

use super::View;
use crate::error::{Error, Result};
use crate::row::{OwnedRow, Row};
use crate::storage::table::{RangeScan, TableCore};
use crate::storage::versions::Rows;
use crate::table::{ColumnName, Table, position};
use crate::typed::TableHandle;

/// The rows of a range in a snapshot, one after the other.
#[must_use = "a scan reads rows as they are asked for, and does nothing by itself"]
pub struct SnapshotScan<T = Table> {
    view: Arc<View>,
    table: Arc<TableCore>,
    /// Position of the secondary index that is read, if one is.
    index: Option<usize>,
    scan: RangeScan,
    has_more: bool,
    /// The rows of the last page, and the position of the next one.
    rows: Arc<Rows>,
    next: usize,
    /// Number of rows that the scan may still return.
    left: usize,
    handle: PhantomData<fn() -> T>,
}

impl<T> SnapshotScan<T> {
    pub(super) fn new(
        view: &Arc<View>,
        table: &Arc<TableCore>,
        index: Option<usize>,
        scan: RangeScan,
        limit: usize,
    ) -> SnapshotScan<T> {
        SnapshotScan {
            view: view.clone(),
            table: table.clone(),
            index,
            scan,
            has_more: true,
            rows: Arc::new(Rows::new(table.clone())),
            next: 0,
            left: limit,
            handle: PhantomData,
        }
    }

    /// Restricts the scan to these columns of its rows: all other text and byte columns are NULL, because
    /// their values are not copied.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`](crate::Error::UnknownColumn).
    pub fn with_columns<C: ColumnName>(
        mut self,
        columns: impl IntoIterator<Item = C>,
    ) -> Result<SnapshotScan<T>> {
        let positions = columns.into_iter().map(|column| position(&self.table, column));
        self.rows = Arc::new(Rows::of_columns(self.table.clone(), &positions.collect::<Result<Vec<_>>>()?));
        Ok(self)
    }

    /// Lends the next rows to `each` until that returns false; returns true if there may be more rows.
    /// Cheaper than the iterator, whose rows own their memory.
    ///
    /// # Errors
    /// The scan's errors, and those of `each`.
    pub fn read_while<E: From<Error>>(
        &mut self,
        mut each: impl FnMut(&Row<'_>) -> std::result::Result<bool, E>,
    ) -> std::result::Result<bool, E> {
        while self.left > 0 {
            if self.next == self.rows.len() {
                if !self.has_more {
                    return Ok(false);
                }
                self.turn_page().inspect_err(|_| self.left = 0)?;
                continue;
            }
            self.left -= 1;
            self.next += 1;
            if !each(&Row::new(self.rows.table(), self.rows.row(self.next - 1)))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reads the next page.
    fn turn_page(&mut self) -> Result<()> {
        self.next = 0;
        if Arc::get_mut(&mut self.rows).is_none() {
            // Rows of the page before are still in use.
            self.rows = Arc::new(self.rows.emptied());
        }
        let Some(rows) = Arc::get_mut(&mut self.rows) else { return Ok(()) };
        let index = self.index.map(|number| &*self.table.secondary()[number].table);
        let met = {
            let (guard, mut records) = (pin(), Vec::new());
            self.has_more = self.scan.page(index.unwrap_or(&self.table), &mut records, &guard);
            let versions = self.view.registered.engine().store().versions();
            rows.fill(versions, (&records, index), self.view.registered.epoch(), &guard)?
        };
        self.view.release(met)
    }
}

impl<T: TableHandle> Iterator for SnapshotScan<T> {
    type Item = Result<T::OwnedRow>;

    fn next(&mut self) -> Option<Result<T::OwnedRow>> {
        if self.left == 0 {
            return None;
        }
        while self.next == self.rows.len() {
            if !self.has_more {
                return None;
            }
            if let Err(error) = self.turn_page() {
                self.left = 0;
                return Some(Err(error));
            }
        }
        self.left -= 1;
        self.next += 1;
        Some(T::owned_row(OwnedRow::new(self.rows.clone(), self.next - 1)))
    }
}

impl<T> fmt::Debug for SnapshotScan<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SnapshotScan").field("table", &self.table.definition().name()).finish()
    }
}
