//! Labels by hand and reports, for the phased protocol.

use std::fmt;
use std::str::FromStr;

use crate::database::Database;
use crate::error::{Error, Result};
use crate::operation::Operation;
use crate::protocol::attempt::show_key;
use crate::storage::reconcile::{Wanted, is_splittable};
use crate::storage::split_policy::SplitPolicy;
use crate::storage::table::TableCore;
use crate::table::{ColumnName, Table, position};
use crate::types::IntoKey;

/// An operation for which a column can be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SplitOperation(Operation);

impl SplitOperation {
    /// `add`.
    pub const ADD: SplitOperation = SplitOperation(Operation::Add);
    /// `max`.
    pub const MAX: SplitOperation = SplitOperation(Operation::Max);
    /// `min`.
    pub const MIN: SplitOperation = SplitOperation(Operation::Min);
    /// `ordered_put`.
    pub const ORDERED_PUT: SplitOperation = SplitOperation(Operation::OrderedPut);
    /// `top_k_insert`.
    pub const TOP_K_INSERT: SplitOperation = SplitOperation(Operation::TopKInsert);
    /// `multiply`.
    pub const MULTIPLY: SplitOperation = SplitOperation(Operation::Multiply);

    pub(crate) fn new(operation: Operation) -> SplitOperation {
        SplitOperation(operation)
    }

    pub(crate) fn operation(self) -> Operation {
        self.0
    }

    /// All operations.
    pub fn all() -> impl Iterator<Item = SplitOperation> {
        Operation::ALL.iter().copied().map(SplitOperation)
    }

    /// Its name on the command line: `ordered-put`.
    pub fn name(self) -> String {
        self.0.name().replace([' ', '_'], "-").to_lowercase()
    }
}

impl fmt::Display for SplitOperation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name())
    }
}

impl FromStr for SplitOperation {
    type Err = Error;

    fn from_str(text: &str) -> Result<SplitOperation> {
        SplitOperation::all().find(|operation| operation.name() == text).ok_or_else(|| Error::InvalidOption {
            option: "split",
            given: text.to_string(),
            expected: SplitOperation::all().map(SplitOperation::name).collect::<Vec<_>>().join(", "),
        })
    }
}

/// Statistics of the phased protocol's phases since the database was opened.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PhaseReport {
    /// Joined phases that have begun.
    pub joined: u64,
    /// Split phases that have begun.
    pub split: u64,
    /// Reconciliation phases, in which slices were merged.
    pub reconciliation: u64,
    /// Number of times that a call was stashed.
    pub stashed: u64,
    /// The most joined phases that a stashed call has missed, because it had not ended when columns were split again.
    pub missed: u64,
    /// Columns that were ever split, at most the first thousand.
    pub columns: Vec<SplitReport>,
}

/// A column of a record that was split.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct SplitReport {
    /// The table's name.
    pub table: String,
    /// The column's name.
    pub column: String,
    /// The record's key, as text.
    pub key: String,
    /// The operation that was split.
    pub operation: SplitOperation,
    /// Number of split phases in which it was split.
    pub phases: u64,
    /// True if it is split now.
    pub now: bool,
}

impl Database {
    /// Labels a column of a record by hand: under `phased` and `auto` it is split for this operation in every split
    /// phase from the next one on, whether it is contended or not. Under other protocols labels have no
    /// effect, but they are kept for [a change of the protocol](Database::set_protocol). The column is not split while the record is missing, or while the column is NULL and the
    /// operation is `add` or `multiply`, which leave NULL unchanged; the other operations treat NULL as less
    /// than everything.
    ///
    /// # Errors
    /// The key does not fit the table; the column cannot be split for this operation (it is part of a key, an index, or a
    /// check that is more than its bounds, or is of another type).
    pub fn split<'k>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        column: impl ColumnName,
        operation: SplitOperation,
    ) -> Result<()> {
        let wanted = self.wanted(table, key, column, operation)?;
        let core = table.core();
        let layout = core.layout().column(wanted.column);
        operation.0.accepts(&layout.data_type)?;
        if !is_splittable(core, wanted.column, operation.0) {
            let detail = match core.split_policies().of(wanted.column) {
                SplitPolicy::Never => "its policy is that it is never split",
                _ => {
                    "only columns outside of keys, indexes and checks between columns can be split; floats not for add, and \
                     columns with bounds not for multiply"
                }
            };
            return Err(Error::InvalidValue { what: layout.name.clone(), detail: detail.to_string() });
        }
        self.engine().protocols().label(&wanted, true);
        Ok(())
    }

    /// Removes a label.
    ///
    /// # Errors
    /// The key does not fit the table.
    pub fn unsplit<'k>(&self, table: &Table, key: impl IntoKey<'k>, column: impl ColumnName) -> Result<()> {
        let wanted = self.wanted(table, key, column, SplitOperation::ADD)?;
        self.engine().protocols().label(&wanted, false);
        Ok(())
    }

    fn wanted<'k>(
        &self,
        table: &Table,
        key: impl IntoKey<'k>,
        column: impl ColumnName,
        operation: SplitOperation,
    ) -> Result<Wanted> {
        let core = self.core_of_own(table)?;
        let key = core.encode_key(key.into_key().as_ref(), true)?;
        Ok(Wanted { table: core.id(), key, column: position(core, column)?, operation: operation.0 })
    }

    /// Sets the policy of a column for splitting under `phased` and `auto`, for all rows. It is forgotten when the database is closed, and
    /// when a schema change copies the rows into another table.
    ///
    /// ```
    /// # use heddledb::{DataType, Database, SplitPolicy, TableDefinition};
    /// let db = Database::in_memory()?;
    /// let page = TableDefinition::new("page").column("id", DataType::Int64).column("likes", DataType::Int64);
    /// let page = db.create_table(page.primary_key(["id"]))?;
    /// db.set_split_policy(&page, "likes", SplitPolicy::Always)?;
    /// assert_eq!(db.split_policy(&page, "likes")?, SplitPolicy::Always);
    /// # Ok::<(), heddledb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UnknownColumn`]; the table is another database's.
    pub fn set_split_policy(
        &self,
        table: &Table,
        column: impl ColumnName,
        policy: SplitPolicy,
    ) -> Result<()> {
        let core = self.core_of_own(table)?;
        core.split_policies().set(position(core, column)?, policy);
        if policy == SplitPolicy::Always {
            self.engine().store().splits().note_operations();
        }
        Ok(())
    }

    /// Returns the policy of a column for splitting.
    ///
    /// # Errors
    /// Same errors as [`set_split_policy`](Self::set_split_policy).
    pub fn split_policy(&self, table: &Table, column: impl ColumnName) -> Result<SplitPolicy> {
        let core = self.core_of_own(table)?;
        Ok(core.split_policies().of(position(core, column)?))
    }

    fn core_of_own<'t>(&self, table: &'t Table) -> Result<&'t TableCore> {
        let core = table.core();
        if core.store() == self.engine().store().identity() {
            return Ok(core);
        }
        Err(Error::ForeignTable { table: table.name().to_string() })
    }

    /// Returns statistics of the phases; `None` if the protocol has none.
    pub fn phases(&self) -> Option<PhaseReport> {
        let counts = self.engine().phases()?.report();
        let store = self.engine().store();
        let columns = counts.columns.into_iter().filter_map(|(wanted, phases, now)| {
            let table = store.table(wanted.table)?;
            Some(SplitReport {
                table: table.definition().name().to_string(),
                column: table.definition().columns().get(wanted.column)?.name.clone(),
                key: show_key(&table, &wanted.key),
                operation: SplitOperation(wanted.operation),
                phases,
                now,
            })
        });
        Some(PhaseReport {
            joined: counts.joined,
            split: counts.split,
            reconciliation: counts.reconciliation,
            stashed: self.engine().stash().stashed(),
            missed: self.engine().stash().missed(),
            columns: columns.collect(),
        })
    }
}
