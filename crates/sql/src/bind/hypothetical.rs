//! Hypothetical-set aggregates: `rank`, `dense_rank`, `percent_rank` and `cume_dist` WITHIN GROUP.
//!
//! The rank that a row of the direct arguments would have follows from counts: of the rows that sort before it, and of all
//! rows. So a call becomes an expression over `count` with a FILTER, and no row is kept or sorted.
//!
//! # Invariants
//! - Direct arguments are parts of those filters, which are evaluated for each row; they name grouped columns only
//!   (42803), so they have one value in each group.
//! - A grouping set without such a column has NULL for it: it has counts of its own, among which GROUPING chooses.
//!
//! Source: PostgreSQL 15, `hypothetical_rank_common` in `orderedsetaggs.c`.

use crate::bind::binder::Binder;
use crate::bind::same::are_same;
use crate::bind::scope::Clause;
use crate::bind::tree::walk::{children, children_mut};
use crate::bind::tree::{Arm, BoundAggregate, BoundExpr, SortKey};
use crate::error::{Result, SqlState};
use crate::functions::resolve::no_function;
use crate::parse::syntax::{At, Call};
use crate::types::{Type, Value};

/// A call of a hypothetical-set aggregate.
#[derive(Clone, Debug)]
pub(crate) struct Hypothetical {
    /// The row that is looked for, of the sort keys' types.
    direct: Vec<BoundExpr>,
    keys: Vec<SortKey>,
    filter: Option<BoundExpr>,
    /// The level of the query that the counts belong to, if the keys and the filter decide it.
    owner: Option<usize>,
    /// True if the call is in the arguments of another aggregate.
    nested: bool,
    at: At,
}

/// A count of the rows that sort before a hypothetical one.
#[derive(Debug)]
pub(crate) struct CountBefore {
    /// The number of the aggregate.
    aggregate: usize,
    set: Hypothetical,
    or_equal: bool,
}

/// The counts that replace another one where some grouped expressions are NULL.
pub(crate) struct CountsBySet {
    aggregate: usize,
    ty: Type,
    /// The grouped expressions that the direct arguments name.
    named: Vec<usize>,
    /// The values of GROUPING for them, and the aggregate that counts there.
    counts: Vec<(i32, usize)>,
}

/// Returns true if a function is a hypothetical-set aggregate where WITHIN GROUP follows.
pub(super) fn is_hypothetical(name: &str) -> bool {
    matches!(name, "rank" | "dense_rank" | "percent_rank" | "cume_dist")
}

impl Binder<'_> {
    /// A call of a hypothetical-set aggregate.
    pub(super) fn hypothetical_call(&mut self, call: &Call, at: At) -> Result<BoundExpr> {
        let level = self.scopes.len().saturating_sub(1);
        let nested = std::mem::replace(&mut self.scope().in_aggregate, true);
        let set = self.hypothetical_set(call, nested, at);
        self.scopes[level].in_aggregate = nested;
        let set = set?;
        match call.name.last() {
            "rank" => {
                let before = self.rows_before(&set, false)?;
                self.plus_one(before, at)
            }
            "dense_rank" => {
                let fields = set.keys.iter().map(|key| key.expr.clone()).collect();
                let row = BoundExpr::Row { fields, names: None, is_nullable: false };
                let condition = self.sorts_before(&set, false)?;
                let before = self.count(&set, vec![row], Some(condition))?;
                self.note_count(&before, &set, false);
                self.plus_one(before, at)
            }
            "percent_rank" => {
                let (before, all) = (self.rows_before(&set, false)?, self.count(&set, Vec::new(), None)?);
                let none = BoundExpr::constant(Value::Int8(0), Type::Int8);
                let when = self.operator("=", all.clone(), none, at)?;
                let then = BoundExpr::constant(Value::Float8(0.0), Type::Float8);
                let otherwise = Box::new(self.quotient(before, all, at)?);
                Ok(BoundExpr::Case {
                    operand: None,
                    arms: vec![Arm { when, then }],
                    otherwise,
                    ty: Type::Float8,
                })
            }
            _ => {
                let (up_to, all) = (self.rows_before(&set, true)?, self.count(&set, Vec::new(), None)?);
                let (up_to, all) = (self.plus_one(up_to, at)?, self.plus_one(all, at)?);
                self.quotient(up_to, all, at)
            }
        }
    }

    fn hypothetical_set(&mut self, call: &Call, nested: bool, at: At) -> Result<Hypothetical> {
        let name = call.name.last();
        for (is_there, what) in [(call.distinct, "DISTINCT"), (call.variadic, "VARIADIC")] {
            if is_there {
                let message = format!("cannot use {what} with WITHIN GROUP");
                return Err(self.error(at, SqlState::SYNTAX_ERROR, message));
            }
        }
        let outer = std::mem::replace(&mut self.scope().in_direct_arguments, true);
        let args = self.call_args(call);
        self.scope().in_direct_arguments = outer;
        let (mut direct, _) = args?;
        let named = self.columns_named_outside();
        let mut keys = self.sort_keys(&call.order_by, true)?;
        if direct.len() != keys.len() {
            let types: Vec<Type> =
                direct.iter().chain(keys.iter().map(|key| &key.expr)).map(BoundExpr::ty).collect();
            let hint = format!(
                "To use the hypothetical-set aggregate {name}, the number of hypothetical direct arguments (here {}) \
                 must match the number of ordering columns (here {}).",
                direct.len(),
                keys.len()
            );
            return Err(self.at(no_function(name, &types), at).with_hint(hint));
        }
        for (direct, key) in direct.iter_mut().zip(&mut keys) {
            let (pair, _) = self.unify(vec![key.expr.clone(), direct.clone()], "WITHIN GROUP", at)?;
            if let Ok([expr, given]) = <[BoundExpr; 2]>::try_from(pair) {
                (key.expr, *direct) = (expr, given);
            }
        }
        let filter = call.filter.as_ref().map(|filter| self.clause_condition(filter, Clause::Filter));
        let filter = filter.transpose()?;
        let owner = self.owner_of(keys.iter().map(|key| &key.expr).chain(&filter));
        self.settle_arguments(owner, &direct, &named, at)?;
        Ok(Hypothetical { direct, keys, filter, owner, nested, at })
    }

    /// Builds the number of rows that sort before the hypothetical one, or equal it.
    fn rows_before(&mut self, set: &Hypothetical, or_equal: bool) -> Result<BoundExpr> {
        let condition = self.sorts_before(set, or_equal)?;
        let count = self.count(set, Vec::new(), Some(condition))?;
        self.note_count(&count, set, or_equal);
        Ok(count)
    }

    fn note_count(&mut self, count: &BoundExpr, set: &Hypothetical, or_equal: bool) {
        let BoundExpr::Aggregate { query, number, .. } = count else { return };
        if let Some(scope) = self.scopes.iter_mut().find(|scope| scope.id == *query) {
            scope.counts_before.push(CountBefore { aggregate: *number, set: set.clone(), or_equal });
        }
    }

    /// Adds the counts of grouping sets in which direct arguments name grouped expressions that are NULL there.
    pub(super) fn counts_by_set(
        &mut self,
        group_by: &[BoundExpr],
        sets: &[Vec<usize>],
    ) -> Result<Vec<CountsBySet>> {
        let mut found = Vec::new();
        for CountBefore { aggregate, set, or_equal } in std::mem::take(&mut self.scope().counts_before) {
            let mut named = Vec::new();
            for direct in &set.direct {
                name_grouped(direct, group_by, &mut named);
            }
            let mut counts: Vec<(i32, usize)> = Vec::new();
            for grouped in sets {
                let missing: Vec<usize> =
                    named.iter().copied().filter(|number| !grouped.contains(number)).collect();
                let bits =
                    named.iter().fold(0, |bits, number| 2 * bits + i32::from(missing.contains(number)));
                if bits == 0 || counts.iter().any(|(known, _)| *known == bits) {
                    continue;
                }
                let mut with_nulls = set.clone();
                with_nulls.direct.iter_mut().for_each(|direct| set_missing(direct, group_by, &missing));
                let condition = self.sorts_before(&with_nulls, or_equal)?;
                let Some(mut count) = self.scope().aggregates.get(aggregate).cloned() else { continue };
                let conditions = set.filter.iter().cloned().chain([condition]).collect();
                count.filter = Some(BoundExpr::And(conditions));
                self.scope().aggregates.push(count);
                counts.push((bits, self.scope().aggregates.len() - 1));
            }
            if !counts.is_empty() {
                found.push(CountsBySet { aggregate, ty: Type::Int8, named, counts });
            }
        }
        Ok(found)
    }

    /// The count that a grouping set has, in place of one for all sets.
    pub(super) fn count_of_set(
        &mut self,
        number: usize,
        counts: &[CountsBySet],
    ) -> Result<Option<BoundExpr>> {
        let Some(by_set) = counts.iter().find(|by_set| by_set.aggregate == number) else { return Ok(None) };
        let (query, ty) = (self.scope().id, by_set.ty);
        let mut arms = Vec::new();
        for (bits, count) in &by_set.counts {
            let which = BoundExpr::Grouping(by_set.named.clone());
            let bits = BoundExpr::constant(Value::Int4(*bits), Type::Int4);
            let when = self.operator("=", which, bits, 0)?;
            arms.push(Arm { when, then: BoundExpr::Aggregate { query, number: *count, ty } });
        }
        let otherwise = Box::new(BoundExpr::Aggregate { query, number, ty });
        Ok(Some(BoundExpr::Case { operand: None, arms, otherwise, ty }))
    }

    /// Builds the condition that a row sorts before the hypothetical one: the first sort key in which they differ
    /// decides.
    fn sorts_before(&mut self, set: &Hypothetical, or_equal: bool) -> Result<BoundExpr> {
        let (mut before, mut equal) = (Vec::new(), Vec::new());
        for (key, direct) in set.keys.iter().zip(&set.direct) {
            let mut parts: Vec<BoundExpr> = equal.clone();
            parts.push(self.key_before(key, direct, set.at)?);
            before.push(BoundExpr::And(parts));
            equal.push(self.distinct_values(key.expr.clone(), direct.clone(), true, set.at)?);
        }
        if or_equal {
            before.push(BoundExpr::And(equal));
        }
        Ok(BoundExpr::Or(before))
    }

    fn key_before(&mut self, key: &SortKey, direct: &BoundExpr, at: At) -> Result<BoundExpr> {
        let symbol = if key.descending { ">" } else { "<" };
        let precedes = self.operator(symbol, key.expr.clone(), direct.clone(), at)?;
        let is_null =
            |expr: &BoundExpr, negated: bool| BoundExpr::IsNull { operand: Box::new(expr.clone()), negated };
        let by_null = vec![is_null(&key.expr, !key.nulls_first), is_null(direct, key.nulls_first)];
        Ok(BoundExpr::Or(vec![precedes, BoundExpr::And(by_null)]))
    }

    /// `count(*)`, or `count(DISTINCT …)` of these arguments, over the rows of the call that satisfy a condition.
    fn count(
        &mut self,
        set: &Hypothetical,
        args: Vec<BoundExpr>,
        condition: Option<BoundExpr>,
    ) -> Result<BoundExpr> {
        let distinct = !args.is_empty();
        let resolved = match self.resolve("count", args, &[], false, set.at)? {
            Ok(resolved) => resolved,
            Err(cast) => return Ok(cast),
        };
        let conditions: Vec<BoundExpr> = set.filter.iter().cloned().chain(condition).collect();
        let aggregate = BoundAggregate {
            function: resolved.function,
            args: resolved.args,
            distinct,
            order_by: Vec::new(),
            filter: (!conditions.is_empty()).then_some(BoundExpr::And(conditions)),
            ty: resolved.result,
        };
        self.place_aggregate(aggregate, set.owner, set.nested, set.at)
    }

    fn plus_one(&mut self, count: BoundExpr, at: At) -> Result<BoundExpr> {
        self.operator("+", count, BoundExpr::constant(Value::Int8(1), Type::Int8), at)
    }

    fn quotient(&mut self, part: BoundExpr, whole: BoundExpr, at: At) -> Result<BoundExpr> {
        let part = self.implicit(part, Type::Float8, at)?;
        let whole = self.implicit(whole, Type::Float8, at)?;
        self.operator("/", part, whole, at)
    }
}

/// The grouped expressions that an expression names.
fn name_grouped(expr: &BoundExpr, group_by: &[BoundExpr], named: &mut Vec<usize>) {
    match group_by.iter().position(|known| are_same(known, expr)) {
        Some(number) if named.contains(&number) => {}
        Some(number) => named.push(number),
        None => children(expr, &mut |child| name_grouped(child, group_by, named)),
    }
}

/// Sets grouped expressions of an expression to NULL.
fn set_missing(expr: &mut BoundExpr, group_by: &[BoundExpr], missing: &[usize]) {
    match group_by.iter().position(|known| are_same(known, expr)) {
        Some(number) if missing.contains(&number) => *expr = BoundExpr::constant(Value::Null, expr.ty()),
        Some(_) => {}
        None => children_mut(expr, &mut |child| set_missing(child, group_by, missing)),
    }
}
