//! The sequences of identity columns: made, drawn from and dropped with their columns.
//!
//! Such a sequence is an ordinary one, whose name is the engine's. It is created by a transaction of its own before the column's,
//! and dropped by one of its own after it. So a crash in between leaves at most a sequence that no table has, whose name is not used
//! again: nothing is drawn from it.
//!
//! # Concurrency
//! Inserts draw inside of bodies, where no transaction can begin. A sequence that is not in use yet is put in use by a look at its
//! record: no thread changes that before the sequence is in use, and of several threads that look at it one puts it in use.

use std::sync::Arc;

use super::Sequence;
use super::sequence_state::State;
use super::service::{SequenceCore, Sequences};
use crate::database::{Database, Shared};
use crate::error::{Error, Result};
use crate::pipeline::nesting;
use crate::row::Row;
use crate::storage::catalog::{self, RESERVED_PREFIX};
use crate::storage::definition::{IdentitySequence, TableDefinition};
use crate::storage::identity::IdentityValues;
use crate::storage::store::Store;
use crate::storage::table::TableId;
use crate::table::Table;
use crate::types::{DataType, ValueRef};

use super::SequenceDefinition;

impl IdentityValues for Sequences {
    fn next(self: Arc<Self>, store: &Store, name: &str) -> Result<i64> {
        let core = self.open.lock().get(name).cloned();
        let core = core.map_or_else(|| self.put_in_use(store, name), Ok)?;
        core.next(&self)
    }
}

impl Sequences {
    #[cold]
    fn put_in_use(&self, store: &Store, name: &str) -> Result<Arc<SequenceCore>> {
        let unknown = || Error::UnknownSequence { sequence: name.to_string() };
        let table = store.table(catalog::SEQUENCES).ok_or(Error::Closed)?;
        let key = table.encode_key(&[ValueRef::Text(name)], true)?;
        let guard = crossbeam_epoch::pin();
        let words = table.present_row(&key, &guard).ok_or_else(unknown)?;
        let (definition, resume) = super::read(&Row::new(&table, &words))?;
        let core = SequenceCore::new(definition, State::resumed(resume));
        Ok(self.open.lock().entry(name.to_string()).or_insert(core).clone())
    }
}

impl Database {
    /// The sequence of a table's identity column: to set its next value, or to draw a value before the insert, so that
    /// a procedure's later phase can declare the key (`Action::key_from`).
    ///
    /// ```
    /// use heddledb::{DataType, Database, Identity, TableDefinition, row};
    /// # let db = Database::in_memory()?;
    /// let orders = db.create_table(
    ///     TableDefinition::new("order").column("id", DataType::Int64).identity(Identity::ByDefault).primary_key(["id"]),
    /// )?;
    /// db.identity(&orders)?.set(1_000)?;
    /// assert_eq!(db.run(|tx| tx.insert_new(&orders, row![None::<i64>]))?, 1_000);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidDefinition`]: the table has no identity column; those of [`sequence`](Self::sequence).
    pub fn identity(&self, table: &Table) -> Result<Sequence> {
        let core = table.core();
        match core.identity_column() {
            Some(identity) => self.sequence(&identity.sequence),
            None => Err(no_identity(core.definition())),
        }
    }

    /// Makes the sequence of a definition's identity column, unless it has one or there is none.
    pub(crate) fn make_identity(&self, id: TableId, definition: &mut TableDefinition) -> Result<()> {
        let Some(position) = definition.identity_position() else { return Ok(()) };
        if definition.identity_sequence.0.is_some() {
            return Ok(());
        }
        let most = match definition.columns[position].data_type {
            DataType::Int32 => i64::from(i32::MAX),
            _ => i64::MAX,
        };
        let mut number = 0;
        let name = loop {
            // Names of sequences that a crash has left are passed by.
            let name = format!("{RESERVED_PREFIX}identity_{id}_{number}");
            match self.add_sequence(SequenceDefinition::new(name.clone()).max(most)) {
                Err(Error::SequenceExists { .. }) => number += 1,
                made => break made.map(|_| name)?,
            }
        };
        definition.identity_sequence = IdentitySequence(Some(name));
        Ok(())
    }

    /// Drops the sequences of these names that no table has: those made for a table whose creation has failed, or of a
    /// table that was dropped. A sequence that cannot be dropped now stays, without a use.
    pub(crate) fn drop_unused_identities(&self, names: impl IntoIterator<Item = String>) {
        let mut names = names.into_iter().peekable();
        if names.peek().is_none() || nesting::check("dropping a sequence").is_err() {
            return;
        }
        let tables = self.engine().store().user_tables();
        let is_used = |name: &String| {
            tables
                .iter()
                .any(|table| table.identity_column().is_some_and(|identity| identity.sequence == *name))
        };
        for name in names.filter(|name| !is_used(name)) {
            let _ = self.remove_sequence(&name);
        }
    }
}

/// Makes inserts draw from the sequences of identity columns, in a database that was opened.
pub(crate) fn serve_identities(shared: &Shared) -> Result<()> {
    let store = shared.engine().store();
    store.set_identity_values(shared.sequences().clone());
    let has_identity = store.user_tables().iter().any(|table| table.identity_column().is_some());
    if has_identity { shared.start_sequences() } else { Ok(()) }
}

#[cold]
pub(crate) fn no_identity(definition: &TableDefinition) -> Error {
    let detail = "it has no identity column; add one with TableChange::identity".to_string();
    Error::InvalidDefinition { table: definition.name().to_string(), detail }
}
