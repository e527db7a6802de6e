//! The checks of a definition: their names, parsing and validation, and the limits that they put on columns.

use super::{CheckDefinition, TableDefinition};
use crate::error::{Error, Result};
use crate::expression::Expression;
use crate::expression::bind::bind;
use crate::expression::bounds::bounds;
use crate::expression::parse::parse;
use crate::types::DataType;

/// The limit that a table's checks put on one of its columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnLimit {
    /// Nothing.
    Free,
    /// A number must lie between these bounds, and that is all. A decimal's are in its last digit.
    Between(i64, i64),
    /// A check must be evaluated whenever it changes.
    Checked,
}

impl CheckDefinition {
    /// Its name, unique among the table's constraints.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its condition as text, in the engine's own spelling.
    pub fn condition(&self) -> String {
        self.condition.to_string()
    }
}

impl TableDefinition {
    /// Adds a check: a row for which the condition is false can be neither inserted nor the result of an
    /// update. NULL passes.
    ///
    /// Conditions consist of columns and constants with `=`, `<>`, `<`, `<=`, `>`, `>=`, `+`, `-`, `*`, `/`,
    /// `%`, `AND`, `OR`, `NOT`, `IS NULL`, `IN`, `BETWEEN`, `LIKE` and `length(…)`, as in SQL. Values of a
    /// column that are compared with constants only (`stock >= 0`) are its bounds: operations respect them
    /// exactly under every protocol, also while the column is split.
    ///
    /// ```
    /// use heddledb::{DataType, Database, Durability, Error, Options, TableDefinition, key, row};
    /// # let db = Database::in_memory()?;
    /// let items = db.create_table(
    ///     TableDefinition::new("item")
    ///         .column("id", DataType::Int64)
    ///         .column("stock", DataType::Int64).not_null()
    ///         .primary_key(["id"])
    ///         .check("item_in_stock", "stock >= 0"),
    /// )?;
    /// db.run(|tx| tx.insert(&items, row![1, 1]))?;
    /// let buy = || db.run(|tx| tx.add(&items, key![1], "stock", -1));
    /// buy()?;
    /// assert!(matches!(buy(), Err(Error::CheckViolation { constraint, .. }) if constraint == "item_in_stock"));
    /// # Ok::<(), Error>(())
    /// ```
    #[must_use]
    pub fn check(mut self, name: impl Into<String>, condition: &str) -> Self {
        let name = name.into();
        match parse(condition) {
            Ok(condition) => self.checks.push(CheckDefinition { name, condition }),
            Err(detail) => self.blame(format!("the check {name:?} cannot be read: {detail}")),
        }
        self
    }

    /// Its checks.
    pub fn checks(&self) -> &[CheckDefinition] {
        &self.checks
    }

    /// Checks that every check has a name of its own, and a condition on existing columns.
    pub(super) fn validate_checks(&self) -> Result<()> {
        let wrong = |detail: String| Err(Error::InvalidDefinition { table: self.name.clone(), detail });
        for (position, check) in self.checks.iter().enumerate() {
            if check.name.is_empty() {
                return wrong("a check has no name; give it one".to_string());
            }
            if self.checks[..position].iter().any(|other| other.name == check.name) {
                return wrong(format!("two checks are called {:?}; rename one", check.name));
            }
            if let Err(detail) = bind(&check.condition, &self.named_types()) {
                return wrong(format!("the check {:?}: {detail}", check.name));
            }
        }
        Ok(())
    }

    /// A check's condition with the positions of its columns; the definition has been validated.
    pub(crate) fn bound(&self, check: &CheckDefinition) -> Expression<usize> {
        match bind(&check.condition, &self.named_types()) {
            Ok(bound) => bound,
            Err(detail) => unreachable!("a table was made of a definition that is invalid: {detail}"),
        }
    }

    /// Returns true if this condition says no more than bounds of columns.
    pub(crate) fn says_only_bounds(&self, condition: &Expression<usize>) -> bool {
        bounds(condition, &self.types()).is_some()
    }

    /// The limit that the checks put on each column; the definition has been validated.
    pub(crate) fn column_limits(&self) -> Vec<ColumnLimit> {
        let mut limits = vec![ColumnLimit::Free; self.columns.len()];
        for check in &self.checks {
            let condition = self.bound(check);
            match bounds(&condition, &self.types()) {
                Some(bounds) => {
                    for bound in bounds {
                        let limit = &mut limits[bound.column];
                        *limit = limit.narrowed(bound.low, bound.high);
                    }
                }
                None => condition.columns(&mut |&column| limits[column] = ColumnLimit::Checked),
            }
        }
        limits
    }

    fn types(&self) -> Vec<&DataType> {
        self.columns.iter().map(|column| &column.data_type).collect()
    }

    fn named_types(&self) -> Vec<(&str, &DataType)> {
        self.columns.iter().map(|column| (column.name.as_str(), &column.data_type)).collect()
    }
}

impl ColumnLimit {
    fn narrowed(self, low: i64, high: i64) -> ColumnLimit {
        match self {
            ColumnLimit::Free => ColumnLimit::Between(low, high),
            ColumnLimit::Between(least, most) => ColumnLimit::Between(least.max(low), most.min(high)),
            ColumnLimit::Checked => ColumnLimit::Checked,
        }
    }
}
