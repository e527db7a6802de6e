//! Identity columns of a definition: the column whose value a sequence gives if an insert does not.
//!
//! Invariants: a table has at most one. It holds integers, refuses NULL and has no default. Its sequence belongs to it: it is
//! created and dropped with the column's identity, and stays when the table is renamed, changed or truncated.

use super::TableDefinition;
use crate::error::{Error, Result};
use crate::types::DataType;

/// The kind of an identity column: it decides if an insert may give its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// An insert may give the value; the sequence gives it if the insert has NULL there. Values that inserts
    /// give do not advance the sequence.
    ByDefault,
    /// Only `Tx::insert_overriding` may give the value. No update changes it.
    Always,
}

/// The name of a table's sequence. It is no part of what a user writes down, so that it does not tell definitions apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdentitySequence(pub(crate) Option<String>);

impl PartialEq for IdentitySequence {
    fn eq(&self, _: &IdentitySequence) -> bool {
        true
    }
}

/// The identity column of a table, as inserts look at it.
#[derive(Debug)]
pub(crate) struct IdentityColumn {
    pub(crate) position: usize,
    pub(crate) kind: Identity,
    pub(crate) sequence: String,
}

impl TableDefinition {
    /// Makes the column named last, an integer, an identity column: if an insert does not give its value, a
    /// sequence that belongs to the column does: 1, 2, 3 and so on, in the order of the inserts, each once;
    /// values of transactions that fail are skipped. `Database::identity` returns the sequence.
    ///
    /// ```
    /// use heddledb::{DataType, Database, Identity, TableDefinition, row};
    /// # let db = Database::in_memory()?;
    /// let orders = db.create_table(
    ///     TableDefinition::new("order")
    ///         .column("id", DataType::Int64).identity(Identity::ByDefault)
    ///         .column("customer", DataType::Text)
    ///         .primary_key(["id"]),
    /// )?;
    /// let id = db.run(|tx| tx.insert_new(&orders, row![None::<i64>, "Ada"]))?;
    /// assert_eq!(id, 1);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    #[must_use]
    pub fn identity(self, kind: Identity) -> Self {
        self.change_last("identity", |column| {
            column.identity = Some(kind);
            column.not_null = true;
        })
    }

    /// The identity column, once its sequence is known.
    pub(crate) fn identity_column(&self) -> Option<IdentityColumn> {
        let position = self.identity_position()?;
        let sequence = self.identity_sequence.0.clone()?;
        Some(IdentityColumn { position, kind: self.columns[position].identity?, sequence })
    }

    /// The position of the identity column.
    pub(crate) fn identity_position(&self) -> Option<usize> {
        self.columns.iter().position(|column| column.identity.is_some())
    }

    /// Checks that the identity column, if there is one, can be one.
    pub(super) fn validate_identity(&self) -> Result<()> {
        let wrong = |detail: String| Err(Error::InvalidDefinition { table: self.name.clone(), detail });
        let mut columns = self.columns.iter().filter(|column| column.identity.is_some());
        let Some(column) = columns.next() else { return Ok(()) };
        let name = &column.name;
        if let Some(second) = columns.next() {
            return wrong(format!("{name:?} and {:?} are identity columns; keep one", second.name));
        }
        if !matches!(column.data_type, DataType::Int32 | DataType::Int64) {
            let kind = &column.data_type;
            return wrong(format!("identity column {name:?} is of type {kind}; give it int64 or int32"));
        }
        if !column.default.is_null() {
            return wrong(format!("identity column {name:?} has a default; drop one of the two"));
        }
        if !column.not_null {
            return wrong(format!("identity column {name:?} refuses NULL; drop its identity first"));
        }
        Ok(())
    }
}
