//! DELETE of one row by its key, where nothing refers to the table's rows.

use crate::compile::{PointKey, point_scan};
use crate::error::Result;
use crate::plan::statement::DeletePlan;
use crate::run::Run;

/// A DELETE that names one row by its key.
#[derive(Debug)]
pub(crate) struct PointDelete {
    key: PointKey,
}

impl PointDelete {
    pub(super) fn of(plan: &DeletePlan) -> Option<PointDelete> {
        let (scan, key) = point_scan(&plan.input)?;
        let keyed = plan.rules.keys.tables.get(&plan.rules.table.oid)?;
        let is_plain = scan.filter.is_none() && plan.returning.is_empty() && keyed.referencing.is_empty();
        is_plain.then(|| PointDelete { key: PointKey::new(&plan.rules.table, key) })
    }

    pub(super) fn run<'e>(&'e self, run: &mut Run<'e>) -> Result<Option<u64>> {
        let Some(writes) = run.writes else { return Ok(None) };
        let deleted = self.key.with(run, |run, key| {
            run.reserve_to_write((&self.key.table.engine, key), false)?;
            writes.delete(&self.key.table.engine, key)
        })?;
        Ok(Some(u64::from(deleted == Some(true))))
    }
}
