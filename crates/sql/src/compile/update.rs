//! UPDATE of one row by its key, of columns that no constraint between rows names.

use std::sync::Arc;

use heddledb::{Column, ValueRef};
use smallvec::SmallVec;

use crate::catalog::Table;
use crate::compile::{PointKey, append, are_free, columns_seen, lacks_a_value, point_scan};
use crate::error::{Result, SqlError};
use crate::plan::commute::{Commutation, Order};
use crate::plan::decoder::{Decoder, handle};
use crate::plan::expression::Expr;
use crate::plan::statement::UpdatePlan;
use crate::run::{Run, commute, has_lost};
use crate::storage::encode_ref;
use crate::types::Value;

/// An UPDATE that names one row by its key.
#[derive(Debug)]
pub(crate) struct PointUpdate {
    key: PointKey,
    table: Arc<Table>,
    /// The update without reading the row, with the expressions of RETURNING over the whole row.
    commuting: Option<(Commutation, Vec<Expr>)>,
    changes: Vec<Change>,
    /// The slots of the row that the expressions see: columns that are read, and new values that are read.
    width: usize,
    /// The slots that are read, with their columns' decoder; `None` if it can be written without being read.
    reads: Option<(Vec<usize>, Decoder)>,
    filter: Option<Expr>,
    /// Limits by which it may lose without reading the row.
    orders: Vec<Order>,
    checks: Vec<Expr>,
    returning: Vec<Expr>,
}

/// A column with its new value.
#[derive(Debug)]
struct Change {
    column: usize,
    /// Slot in which checks and RETURNING find the new value.
    slot: Option<usize>,
    handle: Column,
    value: Expr,
}

impl PointUpdate {
    pub(super) fn of(plan: &UpdatePlan) -> Option<PointUpdate> {
        let (scan, key) = point_scan(&plan.input)?;
        let rules = &plan.rules;
        let table = &*rules.table;
        // The values that are read are the row, column by column.
        let is_row = plan.row.iter().copied().eq(0..table.columns.len());
        let columns = plan.sets.iter().map(|(column, _)| *column);
        if !is_row || !rules.generated.is_empty() || !are_free(rules, columns) {
            return None;
        }
        let reads = columns_read(plan, scan.filter.as_ref());
        // A check or RETURNING sees the new values of the columns that are written.
        let mut slots = reads.clone();
        if !rules.checks.is_empty() || !plan.returning.is_empty() {
            slots.extend(plan.sets.iter().map(|(column, _)| *column));
        }
        slots.sort_unstable();
        slots.dedup();
        let slot = |column: usize| slots.iter().position(|&slot| slot == column);
        let renumbered = |expression: &Expr| {
            let mut expression = expression.clone();
            expression.renumber(&|column| slot(column).unwrap_or(column));
            expression
        };
        let change = |(column, value): &(usize, Expr)| {
            let handle = handle(table, table.columns[*column].engine).ok()?;
            Some(Change { column: *column, slot: slot(*column), handle, value: renumbered(value) })
        };
        let changes = plan.sets.iter().map(change).collect::<Option<Vec<_>>>()?;
        let decoder = Decoder::new(table, &reads).ok()?;
        let places: Vec<usize> = reads.iter().filter_map(|&column| slot(column)).collect();
        let returning: Vec<Expr> = plan.returning.iter().map(renumbered).collect();
        let filter = scan.filter.as_ref().map(renumbered);
        let checks: Vec<Expr> = rules.checks.iter().map(|(_, check)| renumbered(check)).collect();
        Some(PointUpdate {
            key: PointKey::new(&rules.table, key),
            table: rules.table.clone(),
            commuting: plan.commuting.as_ref().ok().map(|what| (what.clone(), plan.returning.clone())),
            width: slots.len(),
            reads: (!reads.is_empty()).then_some((places, decoder)),
            changes,
            filter,
            orders: plan.orders.clone(),
            checks,
            returning,
        })
    }

    pub(super) fn run<'e>(&'e self, run: &mut Run<'e>, into: &mut Vec<Value>) -> Result<Option<u64>> {
        let done = self.key.with(run, |run, key| {
            let commutes = self.commuting.as_ref().is_some_and(|(what, _)| what.only_operates());
            run.reserve_to_write((&self.key.table.engine, key), commutes)?;
            if let Some((what, returning)) = &self.commuting {
                let done = commute(run, (&*self.table, key), what, &[], returning)?;
                return Ok(done.map(|done| {
                    into.extend(done.returned);
                    done.count
                }));
            }
            if !self.orders.is_empty() && has_lost(run, (&*self.table, key), &self.orders, &[])? {
                return Ok(Some(0));
            }
            self.change(run, key, into)
        })?;
        Ok(done.unwrap_or(Some(0)))
    }

    /// Reads the needed columns of the row, and writes its columns. `None` if the operators are to run.
    fn change<'e>(
        &'e self,
        run: &mut Run<'e>,
        key: &[ValueRef<'_>],
        into: &mut Vec<Value>,
    ) -> Result<Option<u64>> {
        let table = &*self.table;
        let mut row = SmallVec::<[Value; 16]>::new();
        row.resize(self.width, Value::Null);
        if let Some((slots, decoder)) = &self.reads {
            let columns = Some(decoder.columns());
            let found = run
                .rows
                .get(&table.engine, key, columns, &mut |found| decoder.decode_into(found, slots, &mut row))?;
            if !found {
                return Ok(Some(0));
            }
            if let Some(filter) = &self.filter
                && !run.holds(filter, &row)?
            {
                return Ok(Some(0));
            }
        }
        let mut values = SmallVec::<[Value; 4]>::new();
        for change in &self.changes {
            let value = run.evaluate(&change.value, &row)?;
            if lacks_a_value(table, change.column, &value) {
                return Ok(None);
            }
            values.push(value);
        }
        for (change, value) in self.changes.iter().zip(&values) {
            if let Some(slot) = change.slot {
                row[slot] = value.clone();
            }
        }
        for check in &self.checks {
            if matches!(run.evaluate(check, &row), Ok(Value::Bool(false)) | Err(_)) {
                return Ok(None);
            }
        }
        if !self.write(run, key, &values)? {
            return Ok(Some(0));
        }
        append(run, &self.returning, &row, into)?;
        Ok(Some(1))
    }

    /// Writes the new values; returns true if the row exists.
    fn write(&self, run: &Run<'_>, key: &[ValueRef<'_>], values: &[Value]) -> Result<bool> {
        let Some(writes) = run.writes else {
            return Err(SqlError::internal("an update has nothing to write through"));
        };
        let table = &*self.table;
        let mut scratch: SmallVec<[Vec<u8>; 4]> = values.iter().map(|_| Vec::new()).collect();
        let mut changes = SmallVec::<[(Column, ValueRef<'_>); 4]>::new();
        for ((change, value), scratch) in self.changes.iter().zip(values).zip(&mut scratch) {
            let column = &table.columns[change.column];
            changes.push((change.handle, encode_ref(column.ty, column.modifier, value, scratch)?));
        }
        match writes.update(&table.engine, key, &changes) {
            Ok(()) => Ok(true),
            Err(error) if error.is_missing_key() => Ok(false),
            Err(error) => Err(error.with_table(&table.schema, &table.name)),
        }
    }
}

/// The columns of the row that an update reads; all of them, where that is not known.
fn columns_read(plan: &UpdatePlan, filter: Option<&Expr>) -> Vec<usize> {
    let sets = plan.sets.iter().map(|(_, value)| value);
    let checks = plan.rules.checks.iter().map(|(_, check)| check);
    let expressions = sets.chain(filter).chain(checks).chain(&plan.returning);
    let width = plan.rules.table.columns.len();
    match columns_seen(expressions) {
        Some(seen) => seen.into_iter().filter(|&column| column < width).collect(),
        // Then all slots keep their numbers.
        None => (0..width).collect(),
    }
}
