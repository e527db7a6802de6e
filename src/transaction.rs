//! What a transaction's body works with.

mod identity;

use std::marker::PhantomData;

use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::evaluator;
use crate::operation::Operation;
use crate::protocol::attempt::{Attempt, KeyRange, Target};
use crate::protocol::footprint::Reference;
use crate::range::Range;
use crate::row::Row;
use crate::storage::foreign_keys::Link;
use crate::storage::record::Record;
use crate::storage::schema::SchemaChange;
use crate::storage::table::TableCore;
use crate::storage::write_set::{IntChange, Mark};
use crate::table::{ColumnName, Table, position};
use crate::typed::{IntoRow, TableHandle, TableOf, TableRow};
use crate::types::IntoKey;
use crate::types::key::EncodedKey;
use crate::types::{DataType, OrderedTuple, TupleType, ValueRef};

/// New values by their columns' positions.
type Changes<'v> = SmallVec<[(usize, ValueRef<'v>); 8]>;

/// How many of many keys are looked up at a time.
const AT_ONCE: usize = 16;

/// A key of many, and its record if it was found ahead.
struct Wanted<'a> {
    key: EncodedKey,
    hash: u64,
    found: Option<Record<'a>>,
}

/// A transaction, as its body sees it.
///
/// Bodies read and buffer writes; nothing is changed before the body has returned. So an error, a panic or a savepoint
/// leaves no trace, and a body may be retried when it met a concurrent change.
///
/// Operations ([`add`](Self::add), [`max`](Self::max), …) return nothing: so they never conflict with each other.
pub struct Tx<'t, 'a> {
    attempt: &'t Attempt<'a>,
}

/// A point in a transaction to which it can go back.
#[derive(Clone, Copy, Debug)]
pub struct Savepoint {
    mark: Mark,
}

/// The error by which a transaction fails with a message of its own: it leaves no trace.
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

    /// Says that what evaluates the rules of tables which the engine cannot ([`TableDefinition::evaluator`](crate::TableDefinition::evaluator))
    /// runs this body: from here on its writes to such tables are taken as they are. It is for crates that are such an evaluator.
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

    /// Has a column changed by an operation.
    #[inline]
    fn operate<'k>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        column: impl ColumnName,
        operation: Operation,
        operand: &ValueRef<'_>,
    ) -> Result<()> {
        let table = self.attempt.hold(table.core())?;
        let column = position(table, column)?;
        operate_by_key(self.attempt, (table, key.into_key().as_ref()), column, operation, operand)
    }

    /// The row of this key.
    ///
    /// # Errors
    /// A key that does not fit the table; [`Error::Conflict`] (pass it on: the body is retried).
    pub fn get<'k, T: TableHandle>(&self, table: &T, key: impl IntoKey<'k>) -> Result<Option<T::Row<'a>>> {
        let row = get_by_key(self.attempt, table.as_table(), key.into_key().as_ref())?;
        row.map(T::row).transpose()
    }

    /// As [`get`](Self::get), for a thread that is going to change the row. In a session ([`crate::Session`]) the row
    /// is reserved first: other sessions that want it, or have read it and change it, wait until this one's
    /// transaction has ended. Where another session has it, this one waits, and the body is retried. Elsewhere it is a
    /// `get`.
    ///
    /// # Errors
    /// As [`get`](Self::get).
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

    /// Reserves a row for a thread that is going to change it, as [`get_for_update`](Self::get_for_update) does, without a
    /// look at it.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn reserve<'k>(&self, table: &Table, key: impl IntoKey<'k>) -> Result<()> {
        self.at(table, key, |target| self.attempt.reserve(target))
    }

    /// As [`reserve`](Self::reserve), but does not wait: whether the row is reserved now. Outside of sessions nothing is
    /// ever reserved, and the answer is yes.
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
    /// As [`get`](Self::get).
    pub fn try_reserve<'k>(&self, table: &Table, key: impl IntoKey<'k>) -> Result<bool> {
        self.at(table, key, |target| self.attempt.try_reserve(target))
    }

    /// Looks for rows to reserve: what `look` reads is of one state, but the commit of the session's transaction does not
    /// compare it again, so that it does not conflict with changes of rows that were only passed by. What was passed by
    /// is therefore no part of what is serializable. Outside of sessions it is a plain call.
    pub fn search<T>(&self, look: impl FnOnce() -> T) -> T {
        self.attempt.pause_notes(true);
        let found = look();
        self.attempt.pause_notes(false);
        found
    }

    /// The rows of many keys, one after the other: `each` is called for every key in its order, with `None` where
    /// there is no row. The keys are looked up several at a time, so that the processor fetches their rows beside each
    /// other.
    ///
    /// ```
    /// # use heddledb::{DataType, Database, Durability, Options, TableDefinition, key, row};
    /// # let db = Database::in_memory()?;
    /// # let stock = db.create_table(
    /// #     TableDefinition::new("stock").column("item", DataType::Int64).column("n", DataType::Int64).primary_key(["item"]),
    /// # )?;
    /// # db.run(|tx| (1..=9).try_for_each(|item| tx.insert(&stock, row![item, item * 10])))?;
    /// let low = db.run(|tx| {
    ///     let mut low = 0;
    ///     tx.get_each(&stock, [3, 7, 8].map(|item| key![item]), |row| {
    ///         low += i64::from(row.is_some_and(|row| row.int("n").is_ok_and(|n| n < 75)));
    ///         Ok(())
    ///     })?;
    ///     Ok(low)
    /// })?;
    /// assert_eq!(low, 2);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`get`](Self::get); what `each` fails with.
    pub fn get_each<'k, T: TableHandle, K: IntoKey<'k>>(
        &self,
        table: &T,
        keys: impl IntoIterator<Item = K>,
        mut each: impl FnMut(Option<T::Row<'a>>) -> Result<()>,
    ) -> Result<()> {
        let core = self.attempt.hold(table.as_table().core())?;
        let mut keys = keys.into_iter();
        let mut wanted = SmallVec::<[Wanted<'a>; AT_ONCE]>::new();
        loop {
            for key in keys.by_ref().take(AT_ONCE) {
                let key = core.encode_key(key.into_key().as_ref(), true)?;
                let hash = core.hash(&key);
                core.prefetch(hash, self.attempt.guard());
                wanted.push(Wanted { key, hash, found: None });
            }
            for one in &mut wanted {
                one.found = core.find_ahead(one.hash, &one.key, self.attempt.guard());
                one.found.into_iter().for_each(|record| core.prefetch_record(record));
            }
            let is_last = wanted.len() < AT_ONCE;
            for Wanted { key, hash, found } in wanted.drain(..) {
                let target = Target { table: core, key: &key, hash, found, declared: false };
                each(get(self.attempt, &target)?.map(T::row).transpose()?)?;
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Whether there is a row of this key: conflicts with inserts and deletes of it only, not with updates.
    ///
    /// # Errors
    /// As [`get`](Self::get).
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
    /// [`TableDefinition::identity`](crate::TableDefinition::identity)). The value.
    ///
    /// A footprint does not know it beforehand: a procedure inserts such a row by an action on the whole table, or on the
    /// first columns of its key; or draws the value in an earlier phase, and declares the key with
    /// [`Action::key_from`](crate::Action::key_from).
    ///
    /// # Errors
    /// As [`insert`](Self::insert); [`Error::InvalidDefinition`]: the table has no identity column; [`Error::SequenceExhausted`];
    /// [`Error::Conflict`] (pass it on: the values are being reserved, and the body is retried).
    pub fn insert_new<'k, T: TableHandle>(&self, table: &T, row: impl IntoRow<'k, T>) -> Result<i64> {
        let table = table.as_table();
        identity::insert_new(self.attempt, table.core(), row.into_row(table)?.as_ref())
    }

    /// As [`insert`](Self::insert), also of a value in an identity column that the sequence always gives: to copy rows from
    /// elsewhere. The sequence is not advanced.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn insert_overriding<'k, T: TableHandle>(&self, table: &T, row: impl IntoRow<'k, T>) -> Result<()> {
        let table = table.as_table();
        insert_as_given(self.attempt, table.core(), row.into_row(table)?.as_ref(), None)
    }

    /// Gives all columns of a row, but those of its primary key, the values of this struct.
    ///
    /// # Errors
    /// As [`update`](Self::update).
    pub fn update_row<R: TableRow>(&self, table: &TableOf<R>, row: &R) -> Result<()> {
        self.update_values(table, IntoRow::<TableOf<R>>::into_row(row, table)?.as_ref())
    }

    /// Inserts a row, or gives the row with its key the values of this struct. Whether it was inserted.
    ///
    /// # Errors
    /// As [`insert`](Self::insert) and [`update`](Self::update).
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
    /// As [`insert`](Self::insert).
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

    /// Gives columns of a row new values.
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

    /// Deletes a row. Whether there was one.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn delete<'k>(&self, table: &Table, key: impl IntoKey<'k>) -> Result<bool> {
        self.at(table, key, |target| delete(self.attempt, target))
    }

    /// Adds a number to a column. NULL stays NULL.
    ///
    /// # Errors
    /// [`Error::MissingKey`]; [`Error::Overflow`], here or when the transaction commits: never a wrap.
    pub fn add<'k, 'v>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        column: impl ColumnName,
        amount: impl Into<ValueRef<'v>>,
    ) -> Result<()> {
        self.operate(table, key, column, Operation::Add, &amount.into())
    }

    /// Raises a column to a value, unless it is as high already.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn max<'k, 'v>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        column: impl ColumnName,
        value: impl Into<ValueRef<'v>>,
    ) -> Result<()> {
        self.operate(table, key, column, Operation::Max, &value.into())
    }

    /// Lowers a column to a value, unless it is as low already.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn min<'k, 'v>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        column: impl ColumnName,
        value: impl Into<ValueRef<'v>>,
    ) -> Result<()> {
        self.operate(table, key, column, Operation::Min, &value.into())
    }

    /// Multiplies an integer column by a number. NULL stays NULL.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn multiply<'k, 'v>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        column: impl ColumnName,
        factor: impl Into<ValueRef<'v>>,
    ) -> Result<()> {
        self.operate(table, key, column, Operation::Multiply, &factor.into())
    }

    /// Puts a tuple into an ordered-tuple column, unless the one there is as high in (order, payload).
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn ordered_put<'k>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        column: impl ColumnName,
        order: &[ValueRef<'_>],
        payload: &[ValueRef<'_>],
    ) -> Result<()> {
        self.at(table, key, |target| {
            put_tuple(self.attempt, target, column, Operation::OrderedPut, order, payload)
        })
    }

    /// Inserts an entry into a top-K column: it stays if it is among the K highest in (order, payload).
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn top_k_insert<'k>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        column: impl ColumnName,
        order: &[ValueRef<'_>],
        payload: &[ValueRef<'_>],
    ) -> Result<()> {
        self.at(table, key, |target| {
            put_tuple(self.attempt, target, column, Operation::TopKInsert, order, payload)
        })
    }

    /// Reads a range of a table, in the order of its primary key. It shows what the transaction has written, but not
    /// the rows that it inserts once the first row was asked for.
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

    /// Reads a range of a secondary index, in its order. The range's keys are values of the indexed columns. A row
    /// that the transaction moves within the index meanwhile is not shown again.
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

    /// A point to which [`rollback_to`](Self::rollback_to) can go back.
    pub fn savepoint(&self) -> Savepoint {
        self.attempt.stop_loading();
        Savepoint { mark: self.attempt.mark() }
    }

    /// Takes back what was written since the savepoint. Later savepoints are void: a transaction that goes back to one
    /// of them fails.
    pub fn rollback_to(&self, savepoint: &Savepoint) {
        self.attempt.roll_back(savepoint.mark);
    }
}

pub(crate) fn index_position(table: &TableCore, index: &str) -> Result<usize> {
    let indexes = table.definition().indexes();
    indexes.iter().position(|candidate| candidate.name == index).ok_or_else(|| Error::UnknownIndex {
        table: table.definition().name().to_string(),
        index: index.to_string(),
        known: indexes.iter().map(|index| index.name.as_str()).collect::<Vec<_>>().join(", "),
    })
}

/// The rows of a range, one after the other.
///
/// An error ends the scan, and the transaction with it: it is raised again when the transaction would commit, so that a
/// body which ignores it (`scan.count()` counts it, `scan.flatten()` skips it) commits nothing.
#[must_use = "a scan reads rows as they are asked for, and does nothing by itself"]
pub struct Scan<'t, 'a, T = Table> {
    attempt: &'t Attempt<'a>,
    key_range: KeyRange<'a>,
    left: usize,
    rows: PhantomData<fn() -> T>,
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
                Some(T::row(Row::new(self.key_range.rows_of(), row)))
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

/// Runs something on the record that a key, of which these are the values, names.
#[inline(always)]
fn at<'a, T>(
    table: &'a TableCore,
    values: &[ValueRef<'_>],
    access: impl FnOnce(&Target<'_, 'a>) -> Result<T>,
) -> Result<T> {
    let (word, encoded);
    let key = match table.key_word(values) {
        Some(usual) => {
            word = usual;
            word.as_slice()
        }
        None => {
            encoded = table.encode_key(values, true)?;
            encoded.as_slice()
        }
    };
    access(&Target { table, key, hash: table.hash(key), found: None, declared: false })
}

/// The row of the key of which these are the values. Apart from [`Tx::get`], which is generic: so the compiler makes one function of
/// all of it, here; and likewise below.
fn get_by_key<'a>(attempt: &Attempt<'a>, table: &Table, values: &[ValueRef<'_>]) -> Result<Option<Row<'a>>> {
    at(attempt.hold(table.core())?, values, |target| get(attempt, target))
}

/// Buffers an operation on a column of the row with this key.
fn operate_by_key<'a>(
    attempt: &Attempt<'a>,
    (table, values): (&'a TableCore, &[ValueRef<'_>]),
    column: usize,
    operation: Operation,
    operand: &ValueRef<'_>,
) -> Result<()> {
    at(table, values, |target| match *operand {
        ValueRef::Int(int) if attempt.change_int_of(target, column, IntChange::Operate(operation, int)) => {
            Ok(())
        }
        // A copy: so the target need not be in memory where this is not reached.
        operand => operate_at(attempt, &{ *target }, column, operation, operand),
    })
}

/// Buffers new values of columns of the row with this key.
fn update_by_key<'a>(
    attempt: &Attempt<'a>,
    (table, values): (&'a TableCore, &[ValueRef<'_>]),
    changes: &[(usize, ValueRef<'_>)],
) -> Result<()> {
    at(table, values, |target| update_at(attempt, target, changes))
}

#[inline(always)]
pub(crate) fn get<'a>(attempt: &Attempt<'a>, target: &Target<'_, 'a>) -> Result<Option<Row<'a>>> {
    Ok(attempt.get(target)?.map(|row| Row::new(target.table, row)))
}

/// Inserts a row; `declared`: the whole key that was declared, whose hash is known if it is the row's.
pub(crate) fn insert(
    attempt: &Attempt<'_>,
    table: &TableCore,
    row: &[ValueRef<'_>],
    declared: Option<&Reference>,
) -> Result<()> {
    match table.identity_column() {
        None => insert_as_given(attempt, table, row, declared),
        Some(identity) => identity::insert(attempt, table, identity, row, declared),
    }
}

/// As `insert`, whatever the table's identity column says.
pub(crate) fn insert_as_given(
    attempt: &Attempt<'_>,
    table: &TableCore,
    row: &[ValueRef<'_>],
    declared: Option<&Reference>,
) -> Result<()> {
    let table = attempt.hold(table)?;
    let key = table.encode_key_of_row(row)?;
    let (hash, declared) = match declared {
        Some(declared) if declared.key == key => (declared.hash, true),
        _ => (table.hash(&key), false),
    };
    let target = Target { table, key: &key, hash, found: None, declared };
    attempt.insert(&target, row).or_else(|refused| evaluator::insert(attempt, &target, row, refused))
}

#[inline]
pub(crate) fn update<'a, N: ColumnName>(
    attempt: &Attempt<'a>,
    target: &Target<'_, 'a>,
    changes: &[(N, ValueRef<'_>)],
) -> Result<()> {
    let mut positions = Changes::new();
    put_positions(target.table, changes, &mut positions)?;
    update_at(attempt, target, &positions)
}

/// As `update`, by the columns' positions.
fn update_at<'a>(
    attempt: &Attempt<'a>,
    target: &Target<'_, 'a>,
    changes: &[(usize, ValueRef<'_>)],
) -> Result<()> {
    if attempt.set_ints(target, changes) {
        return Ok(());
    }
    attempt.update(target, changes).or_else(|refused| evaluator::update(attempt, target, changes, refused))
}

#[inline]
pub(crate) fn delete<'a>(attempt: &Attempt<'a>, target: &Target<'_, 'a>) -> Result<bool> {
    attempt.delete(target).or_else(|refused| evaluator::delete(attempt, target, refused))
}

/// Puts new values there, which is empty, by their columns' positions.
#[inline]
fn put_positions<'v, N: ColumnName>(
    table: &TableCore,
    changes: &[(N, ValueRef<'v>)],
    into: &mut Changes<'v>,
) -> Result<()> {
    // In a loop: collecting results would move the list twice.
    for (name, value) in changes {
        into.push((position(table, name)?, *value));
    }
    Ok(())
}

/// Buffers an operation on the column at this position.
#[inline]
pub(crate) fn operate_at<'a>(
    attempt: &Attempt<'a>,
    target: &Target<'_, 'a>,
    column: usize,
    operation: Operation,
    operand: ValueRef<'_>,
) -> Result<()> {
    attempt
        .operate(target, column, operation, operand)
        .or_else(|refused| evaluator::operate(attempt, target, (column, operation, operand), refused))
}

pub(crate) fn put_tuple<'a>(
    attempt: &Attempt<'a>,
    target: &Target<'_, 'a>,
    column: impl ColumnName,
    operation: Operation,
    order: &[ValueRef<'_>],
    payload: &[ValueRef<'_>],
) -> Result<()> {
    let column = position(target.table, column)?;
    let layout = target.table.layout().column(column);
    let of: &TupleType = match &layout.data_type {
        DataType::OrderedTuple(of) | DataType::TopK { of, .. } => of,
        other => {
            operation.accepts(other)?;
            return Err(Error::InvalidValue {
                what: layout.name.clone(),
                detail: "it holds no tuples".to_string(),
            });
        }
    };
    let tuple = OrderedTuple::new(of, order, payload)?;
    operate_at(attempt, target, column, operation, ValueRef::Tuple(tuple.as_bytes()))
}
