//! Scans of a transaction: the rows of a range of a table or of an index, one after the other.

use std::marker::PhantomData;

use super::{Moment, Tx};
use crate::error::{Error, Result};
use crate::protocol::attempt::{Attempt, KeyRange};
use crate::range::Range;
use crate::row::Row;
use crate::storage::session_buffer::ColumnSet;
use crate::storage::table::TableCore;
use crate::table::{Column, Table, position};
use crate::typed::TableHandle;
use crate::types::IntoKey;

impl<'t, 'a> Tx<'t, 'a> {
    /// Reads a range of a table, in the order of its primary key. It includes what the transaction has
    /// written, except the rows that it inserts once the first row was requested.
    ///
    /// # Errors
    /// [`Error::NoOrderedIndex`], unless it is [`Range::all`].
    pub fn scan<T: TableHandle>(&self, table: &T, range: impl Into<Range>) -> Result<Scan<'t, 'a, T>> {
        let (core, range) = (self.attempt.hold(table.as_table().core())?, range.into());
        let (prefix, lower, upper) = range.encode(|values| core.encode_key(values, false))?;
        self.attempt.check_range(core, &prefix, false)?;
        let key_range = KeyRange::primary(core, lower, upper, range.is_backward())?;
        Ok(Scan { attempt: self.attempt, key_range, left: range.row_limit(), rows: PhantomData })
    }

    /// The row with these values in the columns of a unique index.
    ///
    /// ```
    /// # use heddledb::{DataType, Database, TableDefinition, key, row};
    /// # let db = Database::in_memory()?;
    /// let definition = TableDefinition::new("user").column("id", DataType::Int64).column("mail", DataType::Text);
    /// let users = db.create_table(definition.primary_key(["id"]).unique_index("by_mail", ["mail"]))?;
    /// db.run(|tx| tx.insert(&users, row![7, "ada@example.org"]))?;
    /// let id = db.run(|tx| tx.get_by(&users, "by_mail", key!["ada@example.org"])?.map(|row| row.int("id")).transpose())?;
    /// assert_eq!(id, Some(7));
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownIndex`], also if the index is not unique; [`Error::WrongKey`]: the number of values is
    /// not that of its columns.
    pub fn get_by<'k, T: TableHandle>(
        &self,
        table: &T,
        index: &str,
        key: impl IntoKey<'k>,
    ) -> Result<Option<T::Row<'a>>> {
        let key = key.into_key();
        check_unique_key(self.attempt.hold(table.as_table().core())?, index, key.as_ref().len())?;
        self.scan_index(table, index, Range::prefix(key.as_ref()))?.next().transpose()
    }

    /// Reads a range of a secondary index, in its order. The range's keys are values of the indexed columns.
    /// A row that the transaction moves within the index meanwhile is not returned again.
    ///
    /// In a procedure the scan finds rows of the action's table and key only; a row outside of them is an error of the
    /// scan ([`Error::OutsideFootprint`]). An action without a key finds all rows.
    ///
    /// # Errors
    /// [`Error::UnknownIndex`].
    pub fn scan_index<T: TableHandle>(
        &self,
        table: &T,
        index: &str,
        range: impl Into<Range>,
    ) -> Result<Scan<'t, 'a, T>> {
        let (core, range) = (self.attempt.hold(table.as_table().core())?, range.into());
        let number = index_position(core, index)?;
        let (prefix, lower, upper) = range.encode(|values| core.encode_index_prefix(number, values))?;
        self.attempt.check_range(core, &prefix, true)?;
        let key_range = KeyRange::secondary(core, number, lower, upper, range.is_backward());
        Ok(Scan { attempt: self.attempt, key_range, left: range.row_limit(), rows: PhantomData })
    }
}

/// The positions of these columns in a table.
///
/// # Errors
/// [`Error::UnknownColumn`]: one is another table's.
pub(crate) fn column_set(table: &TableCore, columns: &[Column]) -> Result<ColumnSet> {
    columns
        .iter()
        .try_fold(ColumnSet::NONE, |set, column| Ok(set.union(ColumnSet::one(position(table, column)?))))
}

pub(crate) fn index_position(table: &TableCore, index: &str) -> Result<usize> {
    let indexes = table.definition().indexes();
    indexes.iter().position(|candidate| candidate.name == index).ok_or_else(|| Error::UnknownIndex {
        table: table.definition().name().to_string(),
        index: index.to_string(),
        known: indexes.iter().map(|index| index.name.as_str()).collect::<Vec<_>>().join(", "),
    })
}

/// The place of a unique index, whose key has this many values.
///
/// # Errors
/// [`Error::UnknownIndex`], also where the index is not unique; [`Error::WrongKey`].
pub(crate) fn check_unique_key(table: &TableCore, index: &str, given: usize) -> Result<()> {
    let definition = &table.definition().indexes()[index_position(table, index)?];
    if !definition.unique {
        let unique = table.definition().indexes().iter().filter(|index| index.unique);
        return Err(Error::UnknownIndex {
            table: table.definition().name().to_string(),
            index: format!("{index} that is unique"),
            known: unique.map(|index| index.name.as_str()).collect::<Vec<_>>().join(", "),
        });
    }
    if given == definition.columns.len() {
        return Ok(());
    }
    let columns = table.definition().columns();
    let names: Vec<&str> = definition.columns.iter().map(|place| columns[*place].name.as_str()).collect();
    Err(Error::WrongKey { table: format!("index {index}"), expected: names.join(", "), given })
}

/// The rows of a range, one after the other.
///
/// An error ends the scan, and the transaction with it: the commit returns it again, so that a body which
/// ignores it (`scan.count()` counts it, `scan.flatten()` skips it) commits nothing.
#[must_use = "a scan reads rows as they are asked for, and does nothing by itself"]
pub struct Scan<'t, 'a, T = Table> {
    attempt: &'t Attempt<'a>,
    key_range: KeyRange<'a>,
    left: usize,
    rows: PhantomData<fn() -> T>,
}

impl<T: TableHandle> Scan<'_, '_, T> {
    /// Returns the rows as the transaction had written them at a moment, without its writes since.
    pub fn as_of(mut self, moment: &Moment) -> Self {
        self.key_range.set_moment(moment.mark);
        self
    }

    /// Says that only these columns of the rows are used; what is found in others means nothing. In a session
    /// ([`crate::Session`]) it is no conflict then if others change the other columns before the commit. For SQL.
    ///
    /// # Errors
    /// [`Error::UnknownColumn`](crate::Error::UnknownColumn).
    #[doc(hidden)]
    pub fn of_columns(mut self, columns: &[Column]) -> Result<Self> {
        if self.attempt.is_in_session() {
            self.key_range.set_columns(column_set(self.key_range.rows_of(), columns)?);
        }
        Ok(self)
    }
}

impl<'a, T: TableHandle> Iterator for Scan<'_, 'a, T> {
    type Item = Result<T::Row<'a>>;

    fn next(&mut self) -> Option<Result<T::Row<'a>>> {
        if self.left == 0 {
            return None;
        }
        match self.attempt.next_row(&mut self.key_range) {
            Ok(Some((_, row))) => {
                self.left -= 1;
                let row = Row::new(self.key_range.rows_of(), row);
                Some(T::row(row.only(self.attempt, self.key_range.columns())))
            }
            Ok(None) => None,
            Err(error) => {
                self.left = 0;
                self.attempt.keep_fault(&error);
                Some(Err(error))
            }
        }
    }
}
