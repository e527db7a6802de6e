//! Deferred constraints, looked at again: of values that did not satisfy one when a statement ended.
//!
//! # Invariants
//! - Values that no row has any more violate nothing, so that what was noted may be too much.

use hashbrown::HashSet;

use crate::catalog::{ForeignKey, Table};
use crate::error::Result;
use crate::run::access::Access;
use crate::run::memory::row_bytes;
use crate::run::parameters::Parameters;
use crate::run::write::foreign_key::{having, is_there, leads, referring};
use crate::run::write::rows::{each_by_index, each_row};
use crate::run::{Run, Sizes};
use crate::types::{Environment, KeySide, Value};

/// Looks at rows for constraints.
pub(crate) struct Recheck<'e> {
    run: Run<'e>,
}

impl<'e> Recheck<'e> {
    pub(crate) fn new(access: Access<'e>, environment: &'e mut dyn Environment) -> Recheck<'e> {
        let memory = environment.memory();
        let values = Parameters::Values(&[]);
        Recheck {
            run: Run::new(access.latest(), access.writes, environment, values, Sizes::default(), memory),
        }
    }

    /// The first of these values of an index that two rows have.
    pub(crate) fn repeated(
        &mut self,
        table: &Table,
        index: usize,
        noted: impl Iterator<Item = Vec<Value>>,
    ) -> Result<Option<Vec<Value>>> {
        for values in noted {
            let mut count = 0;
            each_by_index(&self.run, table, index, &values, &mut |_, _| {
                count += 1;
                Ok(count < 2)
            })?;
            if count > 1 {
                return Ok(Some(values));
            }
            self.run.check_interrupt()?;
        }
        Ok(None)
    }

    /// The first values of an index that two rows have.
    pub(crate) fn repeated_of_all(&mut self, table: &Table, index: usize) -> Result<Option<Vec<Value>>> {
        let (mut seen, mut found) = (HashSet::new(), None);
        let Recheck { run } = self;
        let mut bytes = 0;
        each_row(run, table, &mut |_, row| {
            if table.may_repeat(&table.indexes[index], &row) {
                return Ok(true);
            }
            let columns = table.indexes[index].columns.iter();
            let values: Vec<Value> = columns.map(|column| row[column.column].clone()).collect();
            bytes += row_bytes(&values) + 32;
            if !seen.insert(values.clone()) {
                found = Some(values);
            }
            Ok(found.is_none())
        })?;
        run.memory.charge(bytes)?;
        Ok(found)
    }

    /// The first of these values of a foreign key that rows have and that lead nowhere.
    pub(crate) fn orphan(
        &mut self,
        child: &Table,
        key: &ForeignKey,
        parent: &Table,
        noted: Vec<(Vec<Value>, KeySide)>,
    ) -> Result<Option<(Vec<Value>, KeySide)>> {
        for (values, side) in noted {
            if self.is_orphan(child, key, parent, &values, side)? {
                return Ok(Some((values, side)));
            }
            self.run.check_interrupt()?;
        }
        Ok(None)
    }

    /// Returns true if there are rows that refer to a row that is not there. The values are those of the side at which
    /// the violation was noted.
    fn is_orphan(
        &mut self,
        child: &Table,
        key: &ForeignKey,
        parent: &Table,
        values: &[Value],
        side: KeySide,
    ) -> Result<bool> {
        let run = &mut self.run;
        // Values with a NULL are noted for MATCH FULL alone, which does not allow it.
        if values.iter().any(Value::is_null) {
            return Ok(!having(run, child, key, values)?.is_empty());
        }
        match side {
            KeySide::Referencing => {
                Ok(!leads(run, child, key, parent, values)? && !having(run, child, key, values)?.is_empty())
            }
            KeySide::Referenced => Ok(!is_there(run, parent, &key.references, values)?
                && !referring(run, child, key, parent, values)?.is_empty()),
        }
    }

    /// The first values of a foreign key that lead nowhere.
    pub(crate) fn orphan_of_all(
        &mut self,
        child: &Table,
        key: &ForeignKey,
        parent: &Table,
    ) -> Result<Option<Vec<Value>>> {
        let mut all = HashSet::new();
        let mut bytes = 0;
        each_row(&self.run, child, &mut |_, row| {
            let values: Vec<Value> = key.columns.iter().map(|&column| row[column].clone()).collect();
            bytes += row_bytes(&values) + 32;
            all.insert(values);
            Ok(true)
        })?;
        self.run.memory.charge(bytes)?;
        for values in all {
            let nulls = values.iter().filter(|value| value.is_null()).count();
            let leads = match nulls {
                0 => leads(&mut self.run, child, key, parent, &values)?,
                nulls => !key.is_full || nulls == values.len(),
            };
            if !leads {
                return Ok(Some(values));
            }
        }
        Ok(None)
    }
}
