//! Look-ups of the row that a foreign key refers to, and of the rows that refer to one: by index where there is one,
//! else by a scan.

use std::ops::Bound;

use super::{KeyValues, value_of, values_of};
use crate::error::Result;
use crate::protocol::attempt::{Attempt, KeyRange, Target};
use crate::storage::foreign_keys::{Link, index_table};
use crate::storage::table::TableCore;
use crate::types::ValueRef;
use crate::types::key::prefix_end;

impl<'a> Attempt<'a> {
    /// Returns true if a row has these values in the referenced columns.
    pub(super) fn is_there(&self, link: &Link, values: &KeyValues<'_>) -> Result<bool> {
        let parent = self.hold(&link.parent)?;
        let Some((index, key)) = link.parent_key(values)? else {
            let mut rows = KeyRange::all_of(parent, Bound::Unbounded, Bound::Unbounded);
            return Ok(self.next_with(&mut rows, (parent, &link.referenced), values)?.is_some());
        };
        let table = index_table(parent, index);
        let hash = table.hash(&key);
        let target = Target { table, key: &key, hash, found: None, declared: false };
        #[cfg(test)]
        if let Some(believed) = self.is_believed(&target) {
            return Ok(believed);
        }
        self.is_present(&target)
    }

    /// The next row of a range of a table that has these values in these columns: for tables that lack an index of them.
    fn next_with(
        &self,
        range: &mut KeyRange<'a>,
        (table, columns): (&TableCore, &[usize]),
        values: &KeyValues<'_>,
    ) -> Result<Option<(&'a [u8], &'a [u64])>> {
        while let Some((key, row)) = self.next_row(range)? {
            if values_of(table, row, columns).is_some_and(|found| found[..] == values[..]) {
                return Ok(Some((key, row)));
            }
        }
        Ok(None)
    }

    /// The answer of a canary that does not look.
    #[cfg(test)]
    fn is_believed(&self, target: &Target<'_, 'a>) -> Option<bool> {
        use crate::storage::foreign_keys::Break;
        use crate::storage::index::Lookup;
        use crate::storage::word::ABSENT;
        let enforcement = self.store.foreign_keys();
        if enforcement.is_broken(Break::SkipsReferring) {
            return Some(true);
        }
        let found = target.table.find(target.hash, target.key, self.guard);
        match found {
            Lookup::Found(record) if enforcement.is_broken(Break::ForgetsExistence) => {
                // What the transaction has written is seen as always.
                let is_own = self.workspace.borrow().writes.position(record.pointer()).is_some();
                (!is_own).then(|| record.stable_word() & ABSENT == 0)
            }
            _ => None,
        }
    }

    /// The rows whose foreign key has these values: a range of an index, or of the table, some of whose rows have others. And
    /// whether it is of an index.
    fn referring(
        &self,
        link: &Link,
        child: &'a TableCore,
        values: &KeyValues<'_>,
    ) -> Result<(KeyRange<'a>, bool)> {
        let Some((index, lower)) = link.child_prefix(values)? else {
            return Ok((KeyRange::all_of(child, Bound::Unbounded, Bound::Unbounded), false));
        };
        let upper = prefix_end(&lower).map_or(Bound::Unbounded, Bound::Excluded);
        Ok((KeyRange::all_of(index_table(child, index), Bound::Included(lower), upper), true))
    }

    /// The next of them.
    fn next_referring(
        &self,
        link: &Link,
        child: &TableCore,
        (range, is_indexed): &mut (KeyRange<'a>, bool),
        values: &KeyValues<'_>,
    ) -> Result<Option<(&'a [u8], &'a [u64])>> {
        if *is_indexed { self.next_row(range) } else { self.next_with(range, (child, &link.columns), values) }
    }

    pub(super) fn is_referred_to(&self, link: &Link, values: &KeyValues<'_>) -> Result<bool> {
        let child = self.hold(&link.child)?;
        let mut referring = self.referring(link, child, values)?;
        Ok(self.next_referring(link, child, &mut referring, values)?.is_some())
    }

    /// The primary keys of all rows whose foreign key has these values.
    pub(super) fn referring_keys(&self, link: &Link, values: &KeyValues<'_>) -> Result<Vec<&'a [u8]>> {
        let child = self.hold(&link.child)?;
        let mut referring = self.referring(link, child, values)?;
        let mut keys = Vec::new();
        while let Some((key, row)) = self.next_referring(link, child, &mut referring, values)? {
            let index = referring.0.rows_of();
            match value_of(index, row, 0) {
                ValueRef::Bytes(primary_key) if index.is_internal() => keys.push(primary_key),
                _ => keys.push(key),
            }
        }
        Ok(keys)
    }

    pub(super) fn row_of_key(&self, table: &'a TableCore, key: &[u8]) -> Result<Option<&'a [u64]>> {
        self.row_of_target(&Target { table, key, hash: table.hash(key), found: None, declared: false })
    }
}
