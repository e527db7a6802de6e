//! Foreign keys that are checked at the end of a transaction, by all that it has written.

use super::{KeyValues, can_move, no_referenced_row, values_of};
use crate::error::Result;
use crate::protocol::attempt::Attempt;
use crate::storage::definition::ReferentialAction;
use crate::storage::foreign_keys::{Link, TableLinks};
use crate::storage::record::Record;
use crate::storage::table::TableCore;
use crate::storage::word::ABSENT;
use crate::storage::write_set::WriteView;
use crate::types::ValueRef;

/// The end of a transaction.
impl<'a> Attempt<'a> {
    /// Returns true if something was written whose foreign keys are checked at the end.
    #[inline]
    pub(crate) fn has_deferred(&self) -> bool {
        self.has_deferred.get()
    }

    /// Sets whether the end of the transaction looks for deferred checks.
    pub(crate) fn set_deferred(&self, has_deferred: bool) {
        self.has_deferred.set(has_deferred);
    }

    /// Checks what is deferred, by all that the transaction has written.
    ///
    /// # Errors
    /// [`Error::NoReferencedRow`], [`Error::StillReferenced`]; what the protocol answers a reader.
    #[cold]
    pub(crate) fn check_deferred(&self) -> Result<()> {
        self.has_deferred.set(false);
        let Some(schema) = self.schema_links() else { return Ok(()) };
        let mut written: Vec<(&'a TableCore, Record<'a>, &TableLinks)> = Vec::new();
        for touched in self.workspace.borrow().writes.touched() {
            let table = self.hold(touched.table())?;
            if let Some(links) =
                schema.table(table.id()).filter(|links| links.are_deferred() && !table.is_internal())
            {
                // SAFETY: the attempt is pinned, so every record that it has touched is alive.
                written.push((table, unsafe { touched.record.as_record() }, links));
            }
        }
        written.into_iter().try_for_each(|(table, record, links)| self.check_written(table, record, links))
    }

    fn check_written(&self, table: &'a TableCore, record: Record<'a>, links: &TableLinks) -> Result<()> {
        let row = self.arena.alloc_slice_fill_copy(table.layout().words(), 0);
        let is_there = self.read_row(table.layout(), record, row)? & ABSENT == 0;
        let before = is_there.then_some(&*row);
        let after = self.row_of_key(table, record.key())?;
        for link in links.incoming.iter().filter(|link| link.key.is_deferred) {
            let is_unsettled = match after {
                Some(_) => link.key.on_update == ReferentialAction::NoAction,
                // A row that is gone may have moved to another key.
                None => {
                    link.key.on_delete == ReferentialAction::NoAction
                        || link.key.on_update == ReferentialAction::NoAction && can_move(table, links)
                }
            };
            let Some(values) = before.and_then(|row| values_of(table, row, &link.referenced)) else {
                continue;
            };
            if is_unsettled {
                self.check_referred(link, &values)?;
            }
        }
        for link in links.outgoing.iter().filter(|link| link.key.is_deferred) {
            // Also where the value is what it was: the row that it refers to may have been deleted in between.
            if let Some(row) = after.filter(|_| self.has_written(record, &link.columns)) {
                self.check_reference(link, table, record.key(), row)?;
            }
        }
        Ok(())
    }

    /// Returns true if one of these columns was written, or the row was inserted.
    fn has_written(&self, record: Record<'a>, columns: &[usize]) -> bool {
        let writes = &self.workspace.borrow().writes;
        let Some(position) = writes.position(record.pointer()) else { return false };
        !writes.visit(position, |write| match write {
            WriteView::Insert => false,
            WriteView::Set { column } | WriteView::Operate { column, .. } => !columns.contains(&column),
            WriteView::Bound { .. } => true,
            WriteView::Delete => true,
        })
    }

    /// Checks that a row of these columns' values has its referenced row: for rows that are older than the foreign key.
    ///
    /// # Errors
    /// [`Error::NoReferencedRow`]; and the errors of a read under the protocol.
    pub(crate) fn check_row_refers(&self, link: &Link, key: &[u8], row: &[ValueRef<'_>]) -> Result<()> {
        let values: KeyValues<'_> = link.columns.iter().map(|&column| row[column]).collect();
        if values.iter().any(|value| value.is_null()) || self.is_there(link, &values)? {
            return Ok(());
        }
        Err(no_referenced_row(link, &link.child, key, &values))
    }
}
