//! Hypothetical-set aggregates: `rank`, `dense_rank`, `percent_rank` and `cume_dist` WITHIN GROUP.
//!
//! The rank that a row of the direct arguments would have follows from counts: of the rows that sort before it, and of all
//! rows. So a call becomes an expression over `count` with a FILTER, and no row is kept or sorted.
//!
//! # Invariants
//! - Direct arguments stand in those filters, which are evaluated for each row; they name grouped columns only (42803), so
//!   they have one value in each group.
//!
//! Source: PostgreSQL 15, `hypothetical_rank_common` in `orderedsetaggs.c`.

use crate::bind::binder::Binder;
use crate::bind::scope::Clause;
use crate::bind::tree::{Arm, BoundAggregate, BoundExpr, SortKey};
use crate::error::{Result, SqlState};
use crate::functions::resolve::no_function;
use crate::parse::syntax::{At, Call};
use crate::types::{Type, Value};

/// What a call says.
struct Hypothetical {
    /// The row that is looked for, of the sort keys' types.
    direct: Vec<BoundExpr>,
    keys: Vec<SortKey>,
    filter: Option<BoundExpr>,
    /// The level of the query that the counts belong to, if the keys and the filter say so.
    owner: Option<usize>,
    /// Whether the call stands in the arguments of another aggregate.
    nested: bool,
    at: At,
}

/// Whether a function is a hypothetical-set aggregate where WITHIN GROUP follows.
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

    /// How many rows sort before the hypothetical one, or equal it.
    fn rows_before(&mut self, set: &Hypothetical, or_equal: bool) -> Result<BoundExpr> {
        let condition = self.sorts_before(set, or_equal)?;
        self.count(set, Vec::new(), Some(condition))
    }

    /// Whether a row sorts before the hypothetical one: the first sort key in which they differ decides.
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
