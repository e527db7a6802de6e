//! Updates that do not read their row: `n = n + $1` and the like, beside plain writes.
//!
//! An UPDATE is taken apart column by column. Each assignment is one of the engine's commutative operations on its own
//! column ([`assigned`]), or a plain write, whose value may read other columns. An update that reads nothing never
//! conflicts with another one of its kind; of one that reads other columns, these are validated. Either way the engine
//! can split the columns that operations change (Doppel, OSDI 2014).
//!
//! Whatever else a statement does with the row (its condition, checks, triggers, indexes, RETURNING) counts by the columns that
//! it names, so an index on another column does not hinder.
//!
//! # Invariants
//! - An operation changes its column as the expression does, NULLs and overflows included. Conditions that depend on
//!   the values are decided when the statement runs: if they fail, it runs as an ordinary update.
//! - Nothing reads a column that an operation changes.
//! - All of this is done once, when a statement is planned.

mod assigned;
mod guard;
mod order;
mod triggers;
mod unique;

use std::collections::BTreeSet;

use crate::access::Commute;
use crate::bind::tree::{BoundCheck, BoundExpr, RelationId};
use crate::catalog::Table;
use crate::compile::columns_seen;
use crate::plan::commute::assigned::{Assigned, assigned};
use crate::plan::commute::guard::limits;
use crate::plan::decoder::handle;
use crate::plan::expression::Expr;
use crate::plan::layout::Layout;
use crate::plan::node::{Node, Path, Plan, ScanNode};
use crate::plan::planner::Planner;
use crate::plan::statement::RowRules;
use crate::plan::walk::{conjuncts, has_subquery, is_volatile, walk};

pub(crate) use guard::{Guard, Limit};
pub(crate) use order::Order;
pub(crate) use unique::UniqueKey;

/// An update that does not read the columns that its operations change.
#[derive(Clone, Debug)]
pub(crate) struct Commutation {
    /// The key of the row; empty where an INSERT has it, or a unique index tells it.
    pub(crate) key: Vec<Expr>,
    /// The values of a unique index that name the row.
    pub(crate) unique: Option<UniqueKey>,
    /// Further conditions on the row as it was.
    pub(crate) filter: Option<Expr>,
    /// The operations in the order in which they are applied.
    pub(crate) operations: Vec<Commuting>,
    pub(crate) writes: Vec<PlainWrite>,
    /// Conditions that columns must meet after operations have changed them.
    pub(crate) guards: Vec<Guard>,
    /// The checks of plain writes, over the row as it will be.
    pub(crate) checks: Vec<Expr>,
    /// The columns that are read and validated: no operation changes them.
    pub(crate) reads: Vec<usize>,
    /// True if anything looks at the row: at columns that are read, at the key, or at what is written.
    pub(crate) sees_row: bool,
    /// True if triggers fire after the row, which see the columns that are read, the key, and what is written.
    pub(crate) fires_triggers: bool,
}

impl Commutation {
    /// Returns true if it does nothing but operations, so that any number of them may run at once.
    pub(crate) fn only_operates(&self) -> bool {
        self.writes.is_empty() && self.reads.is_empty()
    }
}

/// One operation.
#[derive(Clone, Debug)]
pub(crate) struct Commuting {
    pub(crate) column: usize,
    /// The column in the engine's table.
    pub(crate) handle: heddledb::Column,
    pub(crate) operation: Commute,
    /// The parts of the operand; of several, the sum.
    pub(crate) terms: Vec<Term>,
    /// True if NULL as an operand changes nothing; otherwise it makes an ordinary update.
    pub(crate) skips_null: bool,
}

/// A part of an operand.
#[derive(Clone, Debug)]
pub(crate) struct Term {
    /// Subtracted, not added.
    pub(crate) negated: bool,
    pub(crate) value: Expr,
}

/// A column that gets a value.
#[derive(Clone, Debug)]
pub(crate) struct PlainWrite {
    pub(crate) column: usize,
    pub(crate) handle: heddledb::Column,
    pub(crate) value: Expr,
}

/// An update that does not read its row, or the reason why it reads it.
pub(crate) type Recognition = Result<Commutation, Reads>;

/// The reason why an update reads its row. EXPLAIN shows the reason where an assignment names its own column.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reads(pub(crate) Option<String>);

fn because<T>(reason: impl Into<String>) -> Result<T, Reads> {
    Err(Reads(Some(reason.into())))
}

/// An update that may be one.
pub(crate) struct Candidate<'s> {
    pub(crate) rules: &'s RowRules,
    /// The checks that the rules were made of.
    pub(crate) checks: &'s [BoundCheck],
    pub(crate) generated: &'s [(usize, BoundExpr)],
    pub(crate) sets: &'s [(usize, BoundExpr)],
    pub(crate) target: RelationId,
    /// Layout of the rows that values see: the row as it was, and of an INSERT followed by the new row.
    pub(crate) layout: &'s Layout,
    /// The condition on the row, its key included.
    pub(crate) condition: Option<&'s BoundExpr>,
    /// Expressions over the new row.
    pub(crate) returning: &'s [Expr],
}

impl Planner<'_> {
    /// Takes an update apart. `scan`: the row that it names by its whole key, with what else it has to meet.
    pub(crate) fn commutation(&mut self, update: &Candidate<'_>, scan: Option<&ScanNode>) -> Recognition {
        let names_itself =
            |(column, value): &(usize, BoundExpr)| columns_of(value, update.target).contains(column);
        if !update.sets.iter().any(names_itself) {
            return Err(Reads(None));
        }
        match scan.map(|scan| (&scan.path, &scan.filter)) {
            Some((Path::Point(key), filter)) => {
                let condition = update.condition.filter(|_| filter.is_some());
                let made = self.take_apart(update, key.clone(), condition)?;
                if made.operations.is_empty() { Err(Reads(None)) } else { Ok(made) }
            }
            Some((Path::Ranges { parts, .. }, _)) if update.condition.is_some() => {
                let table = &update.rules.table;
                let Some(unique) = UniqueKey::of(table, parts) else {
                    return because("its condition does not name one row by its whole key");
                };
                let made = self.take_apart(update, Vec::new(), update.condition)?;
                let made = Commutation { unique: Some(unique), ..made };
                if made.operations.is_empty() { Err(Reads(None)) } else { Ok(made) }
            }
            _ => because("its condition does not name one row by its whole key"),
        }
    }

    /// Like [`commutation`](Self::commutation), for the update that an INSERT makes of the conflicting row.
    /// `is_by_key`: it is found by the table's key alone.
    pub(crate) fn commutation_of_conflict(&mut self, update: &Candidate<'_>, is_by_key: bool) -> Recognition {
        if !is_by_key {
            return because("the row in the way is not found by the table's key alone");
        }
        let made = self.take_apart(update, Vec::new(), update.condition)?;
        // Without an operation nothing is gained where the row is read.
        if made.operations.is_empty() && !made.reads.is_empty() { Err(Reads(None)) } else { Ok(made) }
    }

    fn take_apart(
        &mut self,
        update: &Candidate<'_>,
        key: Vec<Expr>,
        condition: Option<&BoundExpr>,
    ) -> Recognition {
        let Candidate { rules, sets, target, .. } = *update;
        let table = &*rules.table;
        let views = self.trigger_views(rules, sets)?;
        let set: BTreeSet<usize> = sets.iter().map(|(column, _)| *column).collect();
        // One that is set itself was set to DEFAULT: its value is computed, not the one that is assigned.
        let depends = |(column, value): &(usize, BoundExpr)| {
            set.contains(column) || !columns_of(value, target).is_disjoint(&set)
        };
        if update.generated.iter().any(depends) {
            return because("a generated column or an index depends on what it sets");
        }
        let (taken, why_not) = take_assignments(table, target, sets)?;
        let operated: BTreeSet<usize> = taken.iter().filter_map(Taken::operated).collect();
        if let (true, Some(reason)) = (operated.is_empty(), why_not) {
            return because(reason);
        }
        let mut seen = BTreeSet::new();
        views.add_reads(&operated, sets, &mut seen)?;
        let (checks, mut proven) = self.checks_of_writes(update, &operated, &mut seen)?;
        let filter = residual(update, condition, &operated, (&mut seen, &mut proven))?;
        seen.extend(proven.iter().flat_map(Limit::values).flat_map(|value| columns_of(value, target)));
        let mut made = Commutation {
            key,
            unique: None,
            filter: filter
                .map(|filter| self.expr(&filter, update.layout))
                .transpose()
                .map_err(|_| Reads(None))?,
            operations: Vec::new(),
            writes: Vec::new(),
            guards: self.guards(update, &taken, proven)?,
            checks,
            reads: Vec::new(),
            sees_row: views.fires,
            fires_triggers: views.fires,
        };
        for one in taken {
            for value in one.values() {
                seen.extend(columns_of(value, target));
            }
            self.add(update, one, &mut made)?;
        }
        let width = table.columns.len();
        match columns_seen(update.returning.iter()) {
            Some(columns) if columns.iter().all(|&column| column < width) => {
                let is_written = |column: &usize| made.writes.iter().any(|write| write.column == *column);
                made.sees_row |= !columns.is_empty();
                seen.extend(columns.into_iter().filter(|column| !is_written(column)));
            }
            _ => return because("RETURNING reads more than its columns"),
        }
        if let Some(column) = seen.iter().find(|column| operated.contains(column)) {
            return because(format!("{} is read", table.columns[*column].name));
        }
        let is_known = |column: &usize| table.key.contains(column);
        made.sees_row |= !seen.is_empty();
        made.reads = seen.into_iter().filter(|column| !is_known(column)).collect();
        Ok(made)
    }

    /// Adds an assignment to what an update does.
    fn add(&mut self, update: &Candidate<'_>, one: Taken, made: &mut Commutation) -> Result<(), Reads> {
        let table = &*update.rules.table;
        let column = one.column;
        let handle = handle(table, table.columns[column].engine).map_err(|_| Reads(None))?;
        let operations = match one.assigned {
            Assigned::Plain(value) => {
                let value = self.expr(&value, update.layout).map_err(|_| Reads(None))?;
                made.writes.push(PlainWrite { column, handle, value });
                return Ok(());
            }
            Assigned::Operations { operations, .. } => operations,
        };
        for operation in operations {
            let mut terms = Vec::with_capacity(operation.terms.len());
            for (negated, value) in operation.terms {
                let value = self.expr(&value, update.layout).map_err(|_| Reads(None))?;
                terms.push(Term { negated, value });
            }
            let (skips_null, operation) = (operation.skips_null, operation.operation);
            made.operations.push(Commuting { column, handle, operation, terms, skips_null });
        }
        Ok(())
    }
}

impl Planner<'_> {
    /// The guards of all columns that need one.
    fn guards(
        &mut self,
        update: &Candidate<'_>,
        taken: &[Taken],
        proven: Vec<Limit<BoundExpr>>,
    ) -> Result<Vec<Guard>, Reads> {
        let table = &*update.rules.table;
        let mut guards: Vec<Guard> = Vec::new();
        for one in taken {
            let Assigned::Operations { operations, is_guarded } = &one.assigned else { continue };
            let of_column = || proven.iter().filter(|limit| limit.column == one.column);
            if !is_guarded && of_column().next().is_none() {
                continue;
            }
            let adds = !operations.is_empty() && operations.iter().all(|one| one.operation == Commute::Add);
            let name = &table.columns[one.column].name;
            if !adds {
                return because(format!("only additions to {name} could be proven to be within its bounds"));
            }
            let handle = handle(table, table.columns[one.column].engine).map_err(|_| Reads(None))?;
            let mut limits = Vec::new();
            for limit in of_column() {
                let value = self.expr(&limit.value, update.layout).map_err(|_| Reads(None))?;
                let addend = match &limit.addend {
                    Some((negated, addend)) => {
                        Some((*negated, self.expr(addend, update.layout).map_err(|_| Reads(None))?))
                    }
                    None => None,
                };
                let Limit { column, is_low, is_strict, is_of_old, .. } = *limit;
                limits.push(Limit { column, is_low, is_strict, value, addend, is_of_old });
            }
            guards.push(Guard { column: one.column, handle, limits });
        }
        Ok(guards)
    }
}

/// Returns the rest of a condition that has to be evaluated: without what names the row, and without guards of columns
/// that operations change, which are added to `proven`.
fn residual(
    update: &Candidate<'_>,
    condition: Option<&BoundExpr>,
    operated: &BTreeSet<usize>,
    (seen, proven): (&mut BTreeSet<usize>, &mut Vec<Limit<BoundExpr>>),
) -> Result<Option<BoundExpr>, Reads> {
    let (table, target) = (&*update.rules.table, update.target);
    let mut parts = Vec::new();
    condition.into_iter().for_each(|condition| conjuncts(condition, &mut parts));
    let mut left = Vec::new();
    for part in parts {
        if has_subquery(&part) || is_volatile(&part) {
            return because("its condition is from a query or a volatile function");
        }
        let columns = columns_of(&part, target);
        let Some(column) = columns.iter().find(|column| operated.contains(column)) else {
            seen.extend(columns);
            left.push(part);
            continue;
        };
        match limits(table, target, operated, (&part, true)) {
            Some(limits) => proven.extend(limits),
            None => return because(format!("its condition reads {}", table.columns[*column].name)),
        }
    }
    // A condition that names the row by its key, and nothing else, holds of the row found.
    if left.iter().all(|part| is_key_equality(part, table, target)) && left.len() <= table.key.len() {
        return Ok(None);
    }
    Ok(Some(BoundExpr::And(left)))
}

/// Returns true if a condition is that a column of the key equals something.
fn is_key_equality(part: &BoundExpr, table: &Table, target: RelationId) -> bool {
    let columns = columns_of(part, target);
    columns.len() == 1
        && columns.iter().all(|column| table.key.contains(column))
        && match part {
            BoundExpr::Operator { operator, .. } => operator.name == "=",
            BoundExpr::InList { list, negated, .. } => list.len() == 1 && !negated,
            _ => false,
        }
}

/// An assignment that was taken apart.
struct Taken {
    column: usize,
    assigned: Assigned,
}

impl Taken {
    /// The column, if operations change it.
    fn operated(&self) -> Option<usize> {
        matches!(self.assigned, Assigned::Operations { .. }).then_some(self.column)
    }

    /// The expressions that have to be computed for it.
    fn values(&self) -> Vec<&BoundExpr> {
        match &self.assigned {
            Assigned::Plain(value) => vec![value],
            Assigned::Operations { operations, .. } => {
                operations.iter().flat_map(|one| one.terms.iter().map(|(_, value)| value)).collect()
            }
        }
    }
}

/// Takes all assignments apart. One that is no operation on its own column is a plain write, which may read; why the first one
/// that names its own column is none.
fn take_assignments(
    table: &Table,
    target: RelationId,
    sets: &[(usize, BoundExpr)],
) -> Result<(Vec<Taken>, Option<String>), Reads> {
    let (mut all, mut why_not) = (Vec::with_capacity(sets.len()), None);
    for (column, value) in sets {
        let of = &table.columns[*column];
        let is_constrained = is_indexed(table, *column)
            || table.foreign_keys.iter().any(|key| key.columns.contains(column))
            || table.key.contains(column);
        if is_constrained {
            return because(format!("a key or an index has column {}", of.name));
        }
        if has_subquery(value) || is_volatile(value) {
            return because(format!("the new value of {} is from a query or a volatile function", of.name));
        }
        let assigned = match assigned(table, target, *column, value) {
            Ok(assigned) => assigned,
            Err(reason) => {
                why_not.get_or_insert(reason);
                Assigned::Plain(value.clone())
            }
        };
        all.push(Taken { column: *column, assigned });
    }
    Ok((all, why_not))
}

/// The scan of one table that a plan is.
pub(crate) fn scan_of(plan: &Plan) -> Option<&ScanNode> {
    match &plan.node {
        Node::Scan(scan) => Some(scan),
        _ => None,
    }
}
/// The columns of the target's row that an expression names.
fn columns_of(expr: &BoundExpr, target: RelationId) -> BTreeSet<usize> {
    let mut columns = BTreeSet::new();
    walk(expr, &mut |part| {
        if let BoundExpr::Column { relation, column, .. } = part
            && *relation == target
        {
            columns.insert(*column);
        }
    });
    columns
}

fn is_indexed(table: &Table, column: usize) -> bool {
    table.indexes.iter().any(|index| index.columns.iter().any(|indexed| indexed.column == column))
}

impl Planner<'_> {
    /// The checks that plain writes decide, whose other columns are added to those seen; and what checks ask of columns that
    /// operations change. A check holds unless one of its parts is false.
    fn checks_of_writes(
        &mut self,
        update: &Candidate<'_>,
        operated: &BTreeSet<usize>,
        seen: &mut BTreeSet<usize>,
    ) -> Result<(Vec<Expr>, Vec<Limit<BoundExpr>>), Reads> {
        let set: BTreeSet<usize> = update.sets.iter().map(|(column, _)| *column).collect();
        let (mut decided, mut proven) = (Vec::new(), Vec::new());
        for check in update.checks {
            let mut parts = Vec::new();
            conjuncts(&check.condition, &mut parts);
            for part in parts {
                let columns = columns_of(&part, update.target);
                if columns.is_disjoint(&set) {
                    continue;
                }
                if columns.is_disjoint(operated) {
                    seen.extend(columns.difference(&set));
                    decided.push(self.expr(&part, update.layout).map_err(|_| Reads(None))?);
                    continue;
                }
                // It compares with an unchanged value, so nothing may change that.
                let is_fixed = columns.intersection(&set).all(|column| operated.contains(column));
                match limits(&update.rules.table, update.target, operated, (&part, false)) {
                    Some(limits) if is_fixed => proven.extend(limits),
                    _ => return because(format!("check {} reads what it changes", check.name)),
                }
            }
        }
        Ok((decided, proven))
    }
}
