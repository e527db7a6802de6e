//! Statements that lose against a value that only rises, or only falls: they change nothing, whatever the value is by now.

use heddledb::ValueRef;

use crate::access::RunsIn;
use crate::catalog::Table;
use crate::error::Result;
use crate::plan::commute::Order;
use crate::run::Run;
use crate::run::write::bounds::limit_of;
use crate::run::write::commuting::is_moot;
use crate::run::write::rows::writes;
use crate::types::Value;

/// Returns true if it is certain, without the values of the row, that a condition does not hold of it. `row`: what the limits see.
pub(crate) fn has_lost<'e>(
    run: &mut Run<'e>,
    (table, key): (&Table, &[ValueRef<'_>]),
    orders: &'e [Order],
    row: &[Value],
) -> Result<bool> {
    if run.runs_in != RunsIn::Engine {
        return Ok(false);
    }
    for order in orders {
        let limit = match limit_of(run, &table.columns[order.limit.column], &order.limit, row) {
            Err(error) if is_moot(&error) => return Ok(false),
            limit => limit?.and_then(|limit| i64::try_from(limit).ok()),
        };
        let Some(limit) = limit else { continue };
        let bounds = if order.limit.is_low { (limit, i64::MAX) } else { (i64::MIN, limit) };
        if writes(run)?.is_surely_outside(&table.engine, key, order.handle, bounds)? {
            return Ok(true);
        }
    }
    Ok(false)
}
