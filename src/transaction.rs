//! The context of a transaction's body.

mod accesses;
mod identity;
mod many_keys;
mod operations;
mod scan;

use std::sync::Arc;

use self::accesses::{Changes, at, get_by_key, put_positions, update_at, update_by_key};
use crate::error::{Error, Result};
use crate::protocol::attempt::{Attempt, Target};
use crate::row::Row;
use crate::storage::dependency::Dependency;
use crate::storage::foreign_keys::Link;
use crate::storage::schema::SchemaChange;
use crate::storage::write_set::Mark;
use crate::table::{Column, ColumnName, Table, position};
use crate::typed::{IntoRow, TableHandle, TableOf, TableRow};
use crate::types::IntoKey;
use crate::types::ValueRef;

pub(crate) use accesses::{delete, get, insert, insert_as_given, operate_at, put_tuple, update};
pub use scan::Scan;
use scan::column_set;
pub(crate) use scan::{check_unique_key, index_position};

/// A transaction, as its body sees it.
///
/// Bodies read and buffer writes; nothing is changed before the body has returned. Therefore an error, a
/// panic or a rollback to a savepoint leaves no trace, and a body can be retried after a conflict with a
/// concurrent change.
///
/// Operations ([`add`](Self::add), [`max`](Self::max), …) return nothing, so that they never conflict with
/// each other.
pub struct Tx<'t, 'a> {
    attempt: &'t Attempt<'a>,
}

/// A point in a transaction to which it can be rolled back.
#[derive(Clone, Copy, Debug)]
pub struct Savepoint {
    mark: Mark,
}

/// A moment of a transaction, as of which it can read its own writes: without those that it has made since.
///
/// ```
/// # use heddledb::{DataType, Database, Range, TableDefinition, key, row};
/// # let db = Database::in_memory()?;
/// # let stock = db.create_table(
/// #     TableDefinition::new("stock").column("item", DataType::Int64).column("n", DataType::Int64).primary_key(["item"]),
/// # )?;
/// db.run(|tx| {
///     tx.insert(&stock, row![1, 10])?;
///     let moment = tx.moment();
///     tx.insert(&stock, row![2, 20])?;
///     tx.delete(&stock, key![1])?;
///     assert!(tx.as_of(&moment, |tx| tx.exists(&stock, key![1]))?);
///     assert_eq!(tx.scan(&stock, Range::all())?.as_of(&moment).count(), 1);
///     assert!(!tx.exists(&stock, key![1])?);
///     assert!(tx.has_written_since(&stock, key![1], &moment)?);
///     Ok(())
/// })?;
/// # Ok::<(), heddledb::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    mark: Mark,
}

/// The error with which a transaction fails with a message of its own: it leaves no trace.
pub fn fail(message: impl Into<String>) -> Error {
    Error::Failed { message: message.into() }
}

impl<'t, 'a> Tx<'t, 'a> {
    pub(crate) fn new(attempt: &'t Attempt<'a>) -> Tx<'t, 'a> {
        Tx { attempt }
    }

    /// Refuses a row, with this key and these values, whose foreign key leads nowhere.
    pub(crate) fn check_row_refers(&self, link: &Link, key: &[u8], row: &[ValueRef<'_>]) -> Result<()> {
        self.attempt.check_row_refers(link, key, row)
    }

    /// Declares that this body is executed by an evaluator of the rules of tables which the engine cannot
    /// evaluate itself ([`TableDefinition::evaluator`](crate::TableDefinition::evaluator)): from here on its
    /// writes to such tables are accepted unchecked. It is for crates that are such an evaluator.
    pub fn set_evaluated(&self) {
        self.attempt.set_evaluated();
    }

    /// Changes the schema when the transaction commits.
    pub(crate) fn change_schema(&self, change: SchemaChange) {
        self.attempt.change_schema(change);
    }

    /// Runs something on the record that a key names.
    #[inline]
    fn at<'k, T>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        access: impl FnOnce(&Target<'_, 'a>) -> Result<T>,
    ) -> Result<T> {
        at(self.attempt.hold(table.core())?, key.into_key().as_ref(), access)
    }

    /// The row with this key.
    ///
    /// # Errors
    /// A key that does not fit the table; [`Error::Conflict`] (pass it on: the body is retried).
    pub fn get<'k, T: TableHandle>(&self, table: &T, key: impl IntoKey<'k>) -> Result<Option<T::Row<'a>>> {
        let row = get_by_key(self.attempt, table.as_table(), key.into_key().as_ref())?;
        row.map(T::row).transpose()
    }

    /// Same as [`get`](Self::get), for a caller that uses only these columns of the row; what it finds in others means nothing. In a
    /// session ([`crate::Session`]) it is no conflict then if others change the other columns before the commit. For SQL.
    ///
    /// # Errors
    /// Same errors as [`get`](Self::get).
    #[doc(hidden)]
    pub fn get_columns<'k>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        columns: &[Column],
    ) -> Result<Option<Row<'a>>> {
        if !self.attempt.is_in_session() {
            return get_by_key(self.attempt, table, key.into_key().as_ref());
        }
        let columns = column_set(self.attempt.hold(table.core())?, columns)?;
        let found = self
            .attempt
            .using_columns(columns, || get_by_key(self.attempt, table, key.into_key().as_ref()))?;
        Ok(found.map(|row| row.only(self.attempt, columns)))
    }

    /// Same as [`get`](Self::get), for a body that is going to change the row. In a session
    /// ([`crate::Session`]) the row is reserved first: other sessions that request it, or have read it and
    /// change it, wait until this one's transaction has ended. If another session has reserved it, this one
    /// waits, and the body is retried. Outside of sessions it is a `get`.
    ///
    /// # Errors
    /// Same errors as [`get`](Self::get).
    pub fn get_for_update<'k, T: TableHandle>(
        &self,
        table: &T,
        key: impl IntoKey<'k>,
    ) -> Result<Option<T::Row<'a>>> {
        let row = self.at(table.as_table(), key, |target| {
            self.attempt.reserve(target)?;
            get(self.attempt, target)
        })?;
        row.map(T::row).transpose()
    }

    /// Reserves a row for a body that is going to change it, as [`get_for_update`](Self::get_for_update)
    /// does, without reading it.
    ///
    /// # Errors
    /// Same errors as [`get`](Self::get).
    pub fn reserve<'k>(&self, table: &Table, key: impl IntoKey<'k>) -> Result<()> {
        self.at(table, key, |target| self.attempt.reserve(target))
    }

    /// Waits for the session that has reserved a row, if one has, before an operation on it that commutes: such operations need
    /// no reservation of their own. Outside of sessions nothing is ever reserved.
    ///
    /// ```
    /// # use heddledb::{DataType, Database, TableDefinition, key, row};
    /// # let db = Database::in_memory()?;
    /// # let table = TableDefinition::new("counter").column("id", DataType::Int64).column("n", DataType::Int64);
    /// # let counters = db.create_table(table.primary_key(["id"]))?;
    /// # db.run(|tx| tx.insert(&counters, row![1, 0]))?;
    /// let (mut first, mut second) = (db.session()?, db.session()?);
    /// for session in [&mut first, &mut second] {
    ///     session.begin()?;
    ///     session.run(|tx| {
    ///         tx.await_free(&counters, key![1])?;
    ///         tx.add(&counters, key![1], "n", 1)
    ///     })?;
    /// }
    /// first.commit()?;
    /// second.commit()?;
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same errors as [`get`](Self::get).
    pub fn await_free<'k>(&self, table: &Table, key: impl IntoKey<'k>) -> Result<()> {
        self.at(table, key, |target| self.attempt.await_free(target))
    }

    /// Same as [`reserve`](Self::reserve), but does not wait: returns true if the row is reserved now. Outside of
    /// sessions nothing is ever reserved, and the answer is true.
    ///
    /// ```
    /// # use heddledb::{DataType, Database, Durability, Options, TableDefinition, key, row};
    /// # let db = Database::in_memory()?;
    /// # let jobs = db.create_table(TableDefinition::new("job").column("id", DataType::Int64).primary_key(["id"]))?;
    /// # db.run(|tx| (1..=2).try_for_each(|id| tx.insert(&jobs, row![id])))?;
    /// let (mut first, mut second) = (db.session()?, db.session()?);
    /// first.begin()?;
    /// assert!(first.run(|tx| tx.try_reserve(&jobs, key![1]))?);
    /// second.begin()?;
    /// assert!(!second.run(|tx| tx.try_reserve(&jobs, key![1]))?);
    /// assert!(second.run(|tx| tx.try_reserve(&jobs, key![2]))?);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// Same errors as [`get`](Self::get).
    pub fn try_reserve<'k>(&self, table: &Table, key: impl IntoKey<'k>) -> Result<bool> {
        self.at(table, key, |target| self.attempt.try_reserve(target))
    }

    /// Searches rows to reserve: all reads of `look` are of one state, but the commit of the session's
    /// transaction does not validate them, so that it does not conflict with changes of rows that were only
    /// passed by. Rows passed by are therefore not covered by serializability. Outside of sessions it is a
    /// plain call.
    pub fn search<T>(&self, look: impl FnOnce() -> T) -> T {
        self.attempt.pause_notes(true);
        let found = look();
        self.attempt.pause_notes(false);
        found
    }

    /// Makes the session's transaction depend on a definition that a crate above the engine knows: it commits
    /// only if the definition is current then. Outside of a session's transaction nothing is recorded: an
    /// attempt during which definitions change ([`DefinitionChange`](crate::DefinitionChange)) is retried.
    pub fn depend_on(&self, dependency: &Arc<dyn Dependency>) {
        self.attempt.depend_on(dependency);
    }

    /// Returns true if there is a row with this key. The transaction then conflicts with inserts and deletes
    /// of it only, not with updates.
    ///
    /// # Errors
    /// Same errors as [`get`](Self::get).
    pub fn exists<'k>(&self, table: &Table, key: impl IntoKey<'k>) -> Result<bool> {
        self.at(table, key, |target| self.attempt.exists(target))
    }

    /// Inserts a row: one value for each column, in order.
    ///
    /// # Errors
    /// [`Error::DuplicateKey`]; a value that does not fit its column.
    pub fn insert<'k, T: TableHandle>(&self, table: &T, row: impl IntoRow<'k, T>) -> Result<()> {
        let table = table.as_table();
        insert(self.attempt, table.core(), row.into_row(table)?.as_ref(), None)
    }

    /// Inserts a row with a new value in its identity column, whatever the row has there (see
    /// [`TableDefinition::identity`](crate::TableDefinition::identity)); returns the value.
    ///
    /// A footprint cannot contain the value: a procedure inserts such a row by an action on the whole table,
    /// or on the first columns of its key; or draws the value in an earlier phase, and declares the key with
    /// [`Action::key_from`](crate::Action::key_from).
    ///
    /// # Errors
    /// Same errors as [`insert`](Self::insert); [`Error::InvalidDefinition`]: the table has no identity column;
    /// [`Error::SequenceExhausted`]; [`Error::Conflict`] (pass it on: the values are being reserved, and the body is
    /// retried).
    pub fn insert_new<'k, T: TableHandle>(&self, table: &T, row: impl IntoRow<'k, T>) -> Result<i64> {
        let table = table.as_table();
        identity::insert_new(self.attempt, table.core(), row.into_row(table)?.as_ref())
    }

    /// Same as [`insert`](Self::insert), also of a value in an identity column that the sequence always gives: to copy
    /// rows from elsewhere. The sequence is not advanced.
    ///
    /// # Errors
    /// Same errors as [`insert`](Self::insert).
    pub fn insert_overriding<'k, T: TableHandle>(&self, table: &T, row: impl IntoRow<'k, T>) -> Result<()> {
        let table = table.as_table();
        insert_as_given(self.attempt, table.core(), row.into_row(table)?.as_ref(), None)
    }

    /// Sets all columns of a row, except those of its primary key, to the values of this struct.
    ///
    /// # Errors
    /// Same errors as [`update`](Self::update).
    pub fn update_row<R: TableRow>(&self, table: &TableOf<R>, row: &R) -> Result<()> {
        self.update_values(table, IntoRow::<TableOf<R>>::into_row(row, table)?.as_ref())
    }

    /// Inserts a row, or sets the row with its key to the values of this struct; returns true if it was
    /// inserted.
    ///
    /// # Errors
    /// Same errors as [`insert`](Self::insert) and [`update`](Self::update).
    #[doc(alias = "upsert")]
    pub fn put<R: TableRow>(&self, table: &TableOf<R>, row: &R) -> Result<bool> {
        let values = IntoRow::<TableOf<R>>::into_row(row, table)?;
        let (core, values) = (table.core(), values.as_ref());
        if identity::is_drawn(core, values) {
            return insert(self.attempt, core, values, None).map(|()| true);
        }
        let key = core.encode_key_of_row(values)?;
        let (hash, core) = (core.hash(&key), self.attempt.hold(core)?);
        let target = Target { table: core, key: &key, hash, found: None, declared: false };
        if self.attempt.exists(&target)? {
            return self.update_values(table, values).map(|()| false);
        }
        insert(self.attempt, core, values, None).map(|()| true)
    }

    fn update_values(&self, table: &Table, values: &[ValueRef<'_>]) -> Result<()> {
        let core = self.attempt.hold(table.core())?;
        let key = core.encode_key_of_row(values)?;
        let of_key = core.definition().key();
        let changes: Changes<'_> = values
            .iter()
            .copied()
            .enumerate()
            .filter(|(position, _)| !of_key.contains(position) && !core.is_fixed(*position))
            .collect();
        let target = Target { table: core, key: &key, hash: core.hash(&key), found: None, declared: false };
        update_at(self.attempt, &target, &changes)
    }

    /// Inserts a row by its columns' names; columns that are not named get their defaults.
    ///
    /// # Errors
    /// Same errors as [`insert`](Self::insert).
    pub fn insert_columns<'k, N: ColumnName>(
        &self,
        table: &Table,
        values: &[(N, ValueRef<'k>)],
    ) -> Result<()> {
        let core = table.core();
        let mut row: Vec<ValueRef<'_>> =
            core.definition().columns().iter().map(|column| ValueRef::from(&column.default)).collect();
        for (name, value) in values {
            row[position(core, name)?] = *value;
        }
        insert(self.attempt, core, &row, None)
    }

    /// Sets columns of a row to new values.
    ///
    /// # Errors
    /// [`Error::MissingKey`]; a value that does not fit its column.
    pub fn update<'k, 'v, N: ColumnName>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        changes: &[(N, ValueRef<'v>)],
    ) -> Result<()> {
        let table = self.attempt.hold(table.core())?;
        let mut positions = Changes::new();
        put_positions(table, changes, &mut positions)?;
        update_by_key(self.attempt, (table, key.into_key().as_ref()), &positions)
    }

    /// Deletes a row; returns false if there was none.
    ///
    /// # Errors
    /// Same errors as [`get`](Self::get).
    pub fn delete<'k>(&self, table: &Table, key: impl IntoKey<'k>) -> Result<bool> {
        self.at(table, key, |target| delete(self.attempt, target))
    }

    /// The present moment of the transaction. It is void once the transaction is rolled back to a savepoint
    /// before it.
    pub fn moment(&self) -> Moment {
        Moment { mark: self.attempt.mark() }
    }

    /// Reads by key as of a moment: as the transaction had written the rows until then. For scans see
    /// [`Scan::as_of`].
    pub fn as_of<T>(&self, moment: &Moment, read: impl FnOnce(&Self) -> T) -> T {
        self.attempt.read_as_of(Some(moment.mark), || read(self))
    }

    /// Returns true if the transaction has written to the row of a key since a moment.
    ///
    /// # Errors
    /// A key that does not fit the table.
    pub fn has_written_since<'k>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        moment: &Moment,
    ) -> Result<bool> {
        self.at(table, key, |target| Ok(self.attempt.has_written_since(target, moment.mark)))
    }

    /// A point to which [`rollback_to`](Self::rollback_to) can roll back.
    pub fn savepoint(&self) -> Savepoint {
        self.attempt.stop_loading();
        Savepoint { mark: self.attempt.mark() }
    }

    /// Undoes the writes since the savepoint. Later savepoints are void: a transaction that is rolled back to
    /// one of them fails.
    pub fn rollback_to(&self, savepoint: &Savepoint) {
        self.attempt.roll_back(savepoint.mark);
    }
}
