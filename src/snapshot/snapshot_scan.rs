//! Scans in a snapshot: a page of an index at a time is copied, and handed out row by row.
//!
//! Between two pages nothing is pinned, so a scan holds no memory back, however long its user takes for a row; and it can go from
//! thread to thread.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crossbeam_epoch::pin;

use super::View;
use crate::error::Result;
use crate::row::OwnedRow;
use crate::storage::table::{RangeScan, TableCore};
use crate::storage::versions::Rows;
use crate::table::Table;
use crate::typed::TableHandle;

/// The rows of a range in a snapshot, one after the other.
#[must_use = "a scan reads rows as they are asked for, and does nothing by itself"]
pub struct SnapshotScan<T = Table> {
    view: Arc<View>,
    table: Arc<TableCore>,
    /// Which secondary index is read, if one is.
    index: Option<usize>,
    scan: RangeScan,
    has_more: bool,
    /// The rows of the last page, and which of them comes next.
    rows: Arc<Rows>,
    next: usize,
    /// How many rows may still come.
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

    /// Reads the next page.
    fn turn_page(&mut self) -> Result<()> {
        self.next = 0;
        if Arc::get_mut(&mut self.rows).is_none() {
            // Rows of the page before are still in use.
            self.rows = Arc::new(Rows::new(self.table.clone()));
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
