//! Sequences: numbers that are each given once.
//!
//! Invariants: a value is given at most once, also across crashes (unless the sequence cycles or is set); gaps are
//! allowed: a value that a transaction has taken is not given back when it is rolled back, and what was reserved when
//! the process died is skipped.

mod definition;
mod identity;
mod sequence_state;
mod service;

use std::fmt;
use std::sync::Arc;

pub use self::definition::SequenceDefinition;
pub(crate) use self::identity::{no_identity, serve_identities};
use self::sequence_state::{State, first_resume};
use self::service::SequenceCore;
pub(crate) use self::service::Sequences;
use crate::database::{Database, Shared};
use crate::error::{Error, Result, StandbyError};
use crate::pipeline::nesting;
use crate::range::Range;
use crate::row::Row;
use crate::storage::catalog::{self, RESERVED_PREFIX};
use crate::table::Table;
use crate::types::{Value, ValueRef};

/// A sequence of numbers, each of which is given once. Handles are cheap to clone and may be used from any
/// thread, inside transactions, too: but a value that was taken stays taken, even if the transaction is
/// rolled back.
///
/// ```
/// # use heddledb::{Database, Durability, Options, SequenceDefinition};
/// # let db = Database::in_memory()?;
/// let orders = db.create_sequence(SequenceDefinition::new("order_number"))?;
/// assert_eq!([orders.next()?, orders.next()?, orders.next()?], [1, 2, 3]);
/// # Ok::<(), heddledb::Error>(())
/// ```
#[derive(Clone)]
pub struct Sequence {
    core: Arc<SequenceCore>,
    sequences: Arc<Sequences>,
}

impl Sequence {
    /// The next value. It waits only if values are taken faster than the log reserves them.
    ///
    /// # Errors
    /// [`Error::SequenceExhausted`]; [`Error::UnknownSequence`] if it was dropped; [`Error::Closed`]; why no more
    /// values can be reserved. In a transaction's body [`Error::Conflict`]: pass it on, the body is retried (but a submitted call,
    /// or one of a [`Worker`](crate::Worker), under the partitioned protocol ends in it).
    // It is no iterator: it fails, and is shared.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&self) -> Result<i64> {
        self.core.next(&self.sequences)
    }

    /// Sets the next value, which is given next unless another thread takes it first.
    ///
    /// # Errors
    /// [`Error::InvalidSequence`] for a value out of bounds; those of [`next`](Self::next).
    pub fn set(&self, value: i64) -> Result<()> {
        let definition = &self.core.definition;
        if !definition.contains(value) {
            let (lower, upper) = (definition.lower(), definition.upper());
            let detail = format!("{value} is not between {lower} and {upper}");
            return Err(Error::InvalidSequence { sequence: definition.name.clone(), detail });
        }
        self.core.set(&self.sequences, value)
    }

    /// The value that would be given next, if there is one; threads that take several at a time may have
    /// taken earlier ones.
    pub fn peek(&self) -> Option<i64> {
        self.core.peek()
    }

    /// The sequence's definition.
    pub fn definition(&self) -> &SequenceDefinition {
        &self.core.definition
    }
}

impl fmt::Debug for Sequence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Sequence").field(&self.core.definition.name).finish()
    }
}

impl Database {
    /// Creates a sequence.
    ///
    /// # Errors
    /// [`Error::InvalidSequence`], [`Error::SequenceExists`]; inside a transaction [`Error::Nested`].
    pub fn create_sequence(&self, definition: SequenceDefinition) -> Result<Sequence> {
        nesting::check("making a sequence")?;
        definition.validate()?;
        check_own(&definition.name)?;
        self.add_sequence(definition)
    }

    /// The sequence of this name, which is created if it does not exist: the definition is for a new one, and
    /// does not change an existing one.
    ///
    /// ```
    /// # use heddledb::{Database, SequenceDefinition};
    /// # let db = Database::in_memory()?;
    /// let orders = db.open_sequence(SequenceDefinition::new("order").start(100))?;
    /// assert_eq!((orders.next()?, db.open_sequence(SequenceDefinition::new("order"))?.next()?), (100, 101));
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidSequence`]; inside a transaction [`Error::Nested`], unless it is in use in this process already.
    pub fn open_sequence(&self, definition: SequenceDefinition) -> Result<Sequence> {
        let name = definition.name.clone();
        match self.sequence(&name) {
            Err(Error::UnknownSequence { .. }) => {}
            found => return found,
        }
        match self.create_sequence(definition) {
            // Another thread was faster.
            Err(Error::SequenceExists { .. }) => self.sequence(&name),
            created => created,
        }
    }

    fn add_sequence(&self, definition: SequenceDefinition) -> Result<Sequence> {
        let table = self.sequence_table()?;
        let values = row_of(&definition);
        let values: Vec<ValueRef<'_>> = values.iter().map(ValueRef::from).collect();
        let _change = self.shared().sequences().change.lock();
        let inserted = self.run(|tx| tx.insert(&table, &values));
        if let Err(Error::DuplicateKey { .. }) = inserted {
            return Err(Error::SequenceExists { sequence: definition.name });
        }
        inserted?;
        let state = State::begun(&definition);
        self.in_use(SequenceCore::new(definition, state))
    }

    /// The sequence of this name. On a standby its handle gives no values, also after a promotion: then ask for another one.
    ///
    /// # Errors
    /// [`Error::UnknownSequence`]; inside a transaction [`Error::Nested`], unless the sequence is in use already.
    pub fn sequence(&self, name: &str) -> Result<Sequence> {
        let sequences = self.shared().sequences();
        if let Some(core) = sequences.open.lock().get(name).cloned() {
            return Ok(Sequence { core, sequences: sequences.clone() });
        }
        nesting::check("opening a sequence")?;
        let table = self.sequence_table()?;
        let _change = sequences.change.lock();
        let found =
            self.run(|tx| tx.get(&table, [ValueRef::from(name)])?.map(|row| read(&row)).transpose())?;
        let (definition, resume) = found.ok_or_else(|| self.unknown(name))?;
        self.in_use(SequenceCore::new(definition, State::resumed(resume)))
    }

    /// Drops a sequence. Its handles give no values from then on.
    ///
    /// # Errors
    /// [`Error::UnknownSequence`]; inside a transaction [`Error::Nested`].
    pub fn drop_sequence(&self, name: &str) -> Result<()> {
        nesting::check("dropping a sequence")?;
        check_own(name)?;
        self.remove_sequence(name)
    }

    fn remove_sequence(&self, name: &str) -> Result<()> {
        let table = self.sequence_table()?;
        let _change = self.shared().sequences().change.lock();
        if !self.run(|tx| tx.delete(&table, [ValueRef::from(name)]))? {
            return Err(self.unknown(name));
        }
        if let Some(core) = self.shared().sequences().open.lock().remove(name) {
            core.close(self.unknown(name));
        }
        Ok(())
    }

    /// Returns the definitions of all sequences, by name, except those of identity columns.
    ///
    /// # Errors
    /// Same errors as [`run`](Self::run).
    pub fn sequences(&self) -> Result<Vec<SequenceDefinition>> {
        let table = self.sequence_table()?;
        self.run(|tx| {
            tx.scan(&table, Range::all())?
                .map(|row| row.and_then(|row| read(&row)).map(|(of, _)| of))
                .filter(|of| of.as_ref().map_or(true, |of| !of.name.starts_with(RESERVED_PREFIX)))
                .collect()
        })
    }

    /// Puts a sequence among those in use, unless another thread has; and has its values reserved.
    fn in_use(&self, core: Arc<SequenceCore>) -> Result<Sequence> {
        let shared: &Arc<Shared> = self.shared();
        let sequences = shared.sequences().clone();
        if self.is_standby() {
            // The other database goes on reserving its values, and a promotion gives none of them again.
            core.close(Error::Standby(StandbyError::OnlyRead));
            return Ok(Sequence { core, sequences });
        }
        shared.start_sequences()?;
        let core = sequences.open.lock().entry(core.definition.name.clone()).or_insert(core).clone();
        Ok(Sequence { core, sequences })
    }

    fn sequence_table(&self) -> Result<Table> {
        self.engine().store().table(catalog::SEQUENCES).map(Table::new).ok_or(Error::Closed)
    }

    fn unknown(&self, name: &str) -> Error {
        Error::UnknownSequence { sequence: name.to_string() }
    }
}

/// Refuses the names of the engine's own sequences.
fn check_own(name: &str) -> Result<()> {
    if !name.starts_with(RESERVED_PREFIX) {
        return Ok(());
    }
    let detail = format!(
        "names that begin with {RESERVED_PREFIX:?} are those of identity columns, which have them as long as they exist; \
         choose another"
    );
    Err(Error::InvalidSequence { sequence: name.to_string(), detail })
}

/// A sequence's row in the catalog.
fn row_of(definition: &SequenceDefinition) -> [Value; 8] {
    [
        Value::Text(definition.name.clone()),
        Value::Int(definition.first()),
        Value::Int(definition.step()),
        Value::Int(definition.lower()),
        Value::Int(definition.upper()),
        Value::Bool(definition.cycle),
        Value::Int(definition.cache.into()),
        Value::from(first_resume(definition)),
    ]
}

/// The inverse of [`row_of`]: what the sequence is, and where it resumes.
fn read(row: &Row<'_>) -> Result<(SequenceDefinition, Option<i64>)> {
    let definition = SequenceDefinition {
        name: row.text("name")?.to_string(),
        start: Some(row.int("start")?),
        increment: row.int("increment")?,
        min: Some(row.int("min")?),
        max: Some(row.int("max")?),
        cycle: row.boolean("cycle")?,
        cache: u32::try_from(row.int("cache")?).unwrap_or(1),
    };
    let resume = if row.is_null("resume_at")? { None } else { Some(row.int("resume_at")?) };
    Ok((definition, resume))
}
