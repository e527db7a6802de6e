//! Evaluators, which a crate above the engine registers to write rows of tables whose rules the engine cannot express.
//!
//! A table's definition names the evaluator that its rows need ([`TableDefinition::evaluator`]). The engine
//! refuses to write such a table itself. If the evaluator is registered, it receives each write instead,
//! inside of the same transaction: it evaluates the rules, and performs the writes that follow from them.
//!
//! # Invariants
//! - While an evaluator writes, its own writes to such tables are taken as they are; afterwards they are refused again.
//! - A write that an evaluator refuses leaves no trace.
//! - The database does not keep an evaluator alive: it is registered as long as its owner keeps it.
//!
//! [`TableDefinition::evaluator`]: crate::TableDefinition::evaluator

use std::any::Any;
use std::sync::{Arc, Weak};

use parking_lot::RwLock;

use crate::database::Database;
use crate::error::{Error, Result};
use crate::operation::Operation;
use crate::protocol::attempt::{Attempt, Target, decode_primary_key, missing};
use crate::storage::table::TableCore;
use crate::table::Table;
use crate::transaction::Tx;
use crate::types::{Value, ValueRef};

/// A write to a row of a table with rules that an evaluator knows.
#[derive(Clone, Copy, Debug)]
pub enum RowWrite<'v> {
    /// A row is inserted: one value for each column, in order. Values of computed columns are ignored.
    Insert {
        /// The values.
        row: &'v [ValueRef<'v>],
    },
    /// Columns of a row are set to new values. The row exists.
    Update {
        /// The row's primary key.
        key: &'v [ValueRef<'v>],
        /// The columns' names and their values; never of the primary key.
        changes: &'v [(&'v str, ValueRef<'v>)],
    },
    /// A row is deleted. It exists.
    Delete {
        /// The row's primary key.
        key: &'v [ValueRef<'v>],
    },
}

/// Evaluates the rules of tables that the engine cannot: checks in a richer language, computed columns, triggers.
///
/// ```
/// use std::sync::Arc;
/// use heddledb::{DataType, Database, Error, Result, RowEvaluator, RowWrite, Table, TableDefinition, Tx, ValueRef, row};
///
/// /// Keeps a word and its length.
/// struct Words;
///
/// impl RowEvaluator for Words {
///     fn write(&self, tx: &Tx<'_, '_>, table: &Table, write: &RowWrite<'_>) -> Result<()> {
///         match *write {
///             RowWrite::Insert { row: [ValueRef::Text(word), _] } => tx.insert(table, row![*word, word.len()]),
///             RowWrite::Delete { key } => tx.delete(table, key).map(|_| ()),
///             _ => Err(heddledb::fail("a word never changes")),
///         }
///     }
/// }
///
/// let db = Database::in_memory()?;
/// let definition = TableDefinition::new("word")
///     .column("word", DataType::Text)
///     .column("length", DataType::Int64)
///     .primary_key(["word"])
///     .evaluator("words");
/// let table = db.create_table(definition)?;
/// let insert = || db.run(|tx| tx.insert(&table, row!["heddle", 0]));
/// assert!(matches!(insert(), Err(Error::NeedsEvaluator { .. })));
///
/// let words = Arc::new(Words);
/// db.register_evaluator("words", &words);
/// insert()?;
/// let length = db.read(|snapshot| snapshot.get(&table, "heddle")?.unwrap().row().int("length"))?;
/// assert_eq!(length, 6);
///
/// drop(words);
/// assert!(matches!(db.run(|tx| tx.delete(&table, "heddle")), Err(Error::NeedsEvaluator { .. })));
/// # Ok::<(), Error>(())
/// ```
pub trait RowEvaluator: Send + Sync {
    /// Makes the write through `tx`, with all that the table's rules lead to, or refuses it. It may be called several times for
    /// one write: a transaction is retried after a conflict.
    ///
    /// # Errors
    /// A rule is violated: [`Error::RuleViolation`] and its kin name the rule and the row. Errors of accesses through `tx` that
    /// are retryable must be passed on as they are.
    fn write(&self, tx: &Tx<'_, '_>, table: &Table, write: &RowWrite<'_>) -> Result<()>;
}

/// The evaluators of a database, by name; kept with its store.
#[derive(Default)]
struct Evaluators(RwLock<Vec<(String, Weak<dyn RowEvaluator>)>>);

impl Evaluators {
    /// The evaluators kept with a store.
    fn of(kept: &(dyn Any + Send + Sync)) -> Option<&Evaluators> {
        kept.downcast_ref()
    }

    fn find(&self, name: &str) -> Option<Arc<dyn RowEvaluator>> {
        let known = self.0.read();
        known.iter().rev().filter(|(of, _)| of == name).find_map(|(_, evaluator)| evaluator.upgrade())
    }
}

impl Database {
    /// Registers the evaluator for the rules of tables that name it
    /// ([`TableDefinition::evaluator`](crate::TableDefinition::evaluator)): from here on transactions can
    /// write them. It stays registered as long as the caller keeps it; of several of the same name the last
    /// one counts.
    ///
    /// A write to a table that the same session transaction has created or changed is still refused.
    pub fn register_evaluator<E: RowEvaluator + 'static>(&self, name: &str, evaluator: &Arc<E>) {
        let weak = Arc::downgrade(evaluator);
        let kept = self.engine().store().kept_for_evaluators(|| Arc::new(Evaluators::default()));
        if let Some(evaluators) = Evaluators::of(kept) {
            let mut known = evaluators.0.write();
            known.retain(|(_, evaluator)| evaluator.strong_count() > 0);
            known.push((name.to_string(), weak));
        }
    }
}

/// Finds the evaluator that writes a table's rows in the engine's place, if it is registered.
///
/// # Errors
/// [`Error::Conflict`]: a schema change has taken the table's place since the attempt found it.
fn registered(attempt: &Attempt<'_>, table: &TableCore) -> Result<Option<(Arc<dyn RowEvaluator>, Table)>> {
    let Some(name) = table.definition().needed_evaluator().filter(|_| !attempt.is_evaluated()) else {
        return Ok(None);
    };
    let evaluators = attempt.store().evaluators().and_then(Evaluators::of);
    let Some(evaluator) = evaluators.and_then(|evaluators| evaluators.find(name)) else { return Ok(None) };
    match attempt.store().table(table.id()) {
        Some(table) => Ok(Some((evaluator, Table::new(table)))),
        None if table.is_private() => Ok(None),
        None => Err(Error::Conflict),
    }
}

/// Passes a write that the engine has refused to the evaluator, if this error says that the table needs one.
#[cold]
fn evaluated<'a, T>(
    attempt: &Attempt<'a>,
    table: &TableCore,
    refused: Error,
    write: impl FnOnce(&dyn Fn(&RowWrite<'_>) -> Result<()>) -> Result<T>,
) -> Result<T> {
    if !matches!(refused, Error::NeedsEvaluator { .. }) {
        return Err(refused);
    }
    let Some((evaluator, table)) = registered(attempt, table)? else { return Err(refused) };
    let within = |write: &RowWrite<'_>| {
        let _evaluating = attempt.evaluate();
        let before = attempt.take_fault();
        let done = evaluator.write(&Tx::new(attempt), &table, write);
        // Its error replaces those of scans that it has made to find it.
        let own = attempt.take_fault().filter(|_| done.is_ok());
        if let Some(fault) = before.or(own) {
            attempt.keep_fault(&fault);
        }
        done.map_err(|error| in_footprint(error, &refused))
    };
    attempt.all_or_nothing(|| write(&within))
}

/// The error of an evaluator that has accessed what the running action does not declare.
fn in_footprint(error: Error, refused: &Error) -> Error {
    match (error, refused) {
        (Error::OutsideFootprint { .. }, Error::NeedsEvaluator { table, evaluator }) => {
            let what = format!(
                "the rules of table {table:?} that {evaluator} evaluates lead to other rows than the action's own"
            );
            Error::OutsideFootprint { what }
        }
        (error, _) => error,
    }
}

/// Inserts a row that the engine has refused to.
#[cold]
pub(crate) fn insert(
    attempt: &Attempt<'_>,
    target: &Target<'_, '_>,
    row: &[ValueRef<'_>],
    refused: Error,
) -> Result<()> {
    let layout = target.table.layout();
    evaluated(attempt, target.table, refused, |write| {
        if row.len() != layout.len() {
            let table = target.table.definition().name().to_string();
            return Err(Error::WrongRow { table, expected: layout.len(), given: row.len() });
        }
        let row = row.iter().copied().enumerate().map(|(column, value)| checked(target.table, column, value));
        write(&RowWrite::Insert { row: &row.collect::<Result<Vec<_>>>()? })
    })
}

/// Gives columns of a row values that the engine has refused to.
#[cold]
pub(crate) fn update<'a>(
    attempt: &Attempt<'a>,
    target: &Target<'_, 'a>,
    changes: &[(usize, ValueRef<'_>)],
    refused: Error,
) -> Result<()> {
    evaluated(attempt, target.table, refused, |write| {
        if attempt.get(target)?.is_none() {
            return Err(missing(target.table, target.key));
        }
        let key = decode_primary_key(target.table, target.key)?;
        let named = changes
            .iter()
            .map(|&(column, value)| Ok((name(target.table, column), checked(target.table, column, value)?)));
        let changes = named.collect::<Result<Vec<_>>>()?;
        write(&RowWrite::Update { key: &refs(&key), changes: &changes })
    })
}

/// Deletes a row that the engine has refused to delete; returns false if there was none.
#[cold]
pub(crate) fn delete<'a>(attempt: &Attempt<'a>, target: &Target<'_, 'a>, refused: Error) -> Result<bool> {
    evaluated(attempt, target.table, refused, |write| {
        if attempt.get(target)?.is_none() {
            return Ok(false);
        }
        let key = decode_primary_key(target.table, target.key)?;
        write(&RowWrite::Delete { key: &refs(&key) }).map(|()| true)
    })
}

/// Applies an operation that the engine has refused to, as a read and an update.
#[cold]
pub(crate) fn operate<'a>(
    attempt: &Attempt<'a>,
    target: &Target<'_, 'a>,
    (column, operation, operand): (usize, Operation, ValueRef<'_>),
    refused: Error,
) -> Result<()> {
    evaluated(attempt, target.table, refused, |write| {
        if attempt.get(target)?.is_none() {
            return Err(missing(target.table, target.key));
        }
        let value = attempt.value_after(target, column, operation, operand)?;
        let key = decode_primary_key(target.table, target.key)?;
        let changes = [(name(target.table, column), ValueRef::from(&value))];
        write(&RowWrite::Update { key: &refs(&key), changes: &changes })
    })
}

fn name(table: &TableCore, column: usize) -> &str {
    &table.definition().columns()[column].name
}

/// A value as its column stores it. NULL may stand where a value is computed, whether the column may be NULL or not.
fn checked<'v>(table: &TableCore, column: usize, value: ValueRef<'v>) -> Result<ValueRef<'v>> {
    if matches!(value, ValueRef::Null) { Ok(value) } else { table.layout().checked(column, value) }
}

fn refs(values: &[Value]) -> Vec<ValueRef<'_>> {
    values.iter().map(ValueRef::from).collect()
}
