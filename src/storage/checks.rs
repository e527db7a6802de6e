//! A table's checks in the form in which they are evaluated: on every row that is inserted or changes.
//!
//! Invariants: no row is installed that a check refuses. What a check of bounds says is in the columns' layouts, too, so that
//! the usual writes are decided there; whatever those do not take is evaluated here, on the row that would be installed,
//! while its record is locked ([`super::commit`]).

use crate::error::{Error, Result};
use crate::expression::Expression;
use crate::storage::definition::TableDefinition;
use crate::types::{Value, ValueRef};

/// All checks of a table.
#[derive(Debug)]
pub(crate) struct Checks {
    table: String,
    checks: Box<[Check]>,
    columns: usize,
    only_bounds: bool,
}

/// One check.
#[derive(Debug)]
struct Check {
    name: String,
    condition: Expression<usize>,
    columns: Box<[usize]>,
}

impl Checks {
    /// The checks of a definition that has been validated; `None` if it has none.
    pub(crate) fn of(definition: &TableDefinition) -> Option<Checks> {
        let mut only_bounds = true;
        let check = |check: &crate::storage::definition::CheckDefinition| {
            let condition = definition.bound(check);
            only_bounds &= definition.says_only_bounds(&condition);
            let mut columns = Vec::new();
            condition.columns(&mut |&column| columns.push(column));
            columns.sort_unstable();
            columns.dedup();
            Check { name: check.name.clone(), condition, columns: columns.into() }
        };
        let checks: Box<[Check]> = definition.checks.iter().map(check).collect();
        let (table, columns) = (definition.name().to_string(), definition.columns().len());
        (!checks.is_empty()).then_some(Checks { table, checks, columns, only_bounds })
    }

    /// Returns true if all of them are bounds of columns.
    pub(crate) fn are_bounds(&self) -> bool {
        self.only_bounds
    }

    /// Returns true if every row passes in which the columns from `first` on have these values, whatever it has in the
    /// others.
    pub(crate) fn pass_alike(&self, first: usize, values: &[Value]) -> bool {
        self.checks.iter().all(|check| {
            check.columns.iter().all(|&column| column >= first)
                && check
                    .condition
                    .passes(&|column| ValueRef::from(&values[column - first]))
                    .is_ok_and(|passes| passes)
        })
    }

    /// The checks of a definition that another one of the table does not have; `None` if it has all.
    pub(crate) fn of_new(definition: &TableDefinition, before: &TableDefinition) -> Option<Checks> {
        let mut new = definition.clone();
        new.checks.retain(|check| !before.checks.contains(check));
        Checks::of(&new)
    }

    /// Refuses a row that does not pass. `value`: the row's value in each column.
    ///
    /// # Errors
    /// [`Error::CheckViolation`], which names the first check that is false; what its arithmetic fails with.
    pub(crate) fn check_row<'v>(&'v self, value: &impl Fn(usize) -> ValueRef<'v>) -> Result<()> {
        self.check(|_| true, value)
    }

    /// Same as [`check_row`](Self::check_row), for those checks that contain a column for which `has_changed` returns
    /// true.
    ///
    /// # Errors
    /// Same errors as [`check_row`](Self::check_row).
    pub(crate) fn check_changed<'v>(
        &'v self,
        has_changed: impl Fn(usize) -> bool,
        value: &impl Fn(usize) -> ValueRef<'v>,
    ) -> Result<()> {
        self.check(|check| check.columns.iter().any(|&column| has_changed(column)), value)
    }

    /// Returns true if a check needs other columns besides those that have changed.
    pub(crate) fn need_others(&self, has_changed: impl Fn(usize) -> bool) -> bool {
        self.checks.iter().any(|check| {
            let changed = check.columns.iter().filter(|&&column| has_changed(column)).count();
            changed > 0 && changed < check.columns.len()
        })
    }

    fn check<'v>(
        &'v self,
        is_wanted: impl Fn(&Check) -> bool,
        value: &impl Fn(usize) -> ValueRef<'v>,
    ) -> Result<()> {
        for check in self.checks.iter().filter(|check| is_wanted(check)) {
            if !check.condition.passes(value)? {
                return Err(self.violation(check, value));
            }
        }
        Ok(())
    }

    #[cold]
    fn violation<'v>(&self, check: &Check, value: &impl Fn(usize) -> ValueRef<'v>) -> Error {
        let show = |column: usize| match value(column) {
            ValueRef::Null => "NULL".to_string(),
            value => value.to_string(),
        };
        let row = (0..self.columns).map(show).collect::<Vec<_>>().join(", ");
        Error::CheckViolation { table: self.table.clone(), constraint: check.name.clone(), row }
    }
}
