//! Calls of aggregates: the places that allow them, the query that they belong to, and their arguments and order.

use super::ResolvedCall;
use crate::bind::binder::Binder;
use crate::bind::grouping::contains;
use crate::bind::scope::Clause;
use crate::bind::tree::{BoundAggregate, BoundExpr, RelationId, SortKey, walk};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::{AggregateKind, FunctionKind};
use crate::parse::syntax::{At, Call};

impl Binder<'_> {
    /// An aggregate call: it is added to the list of the query that it belongs to.
    pub(super) fn aggregate_call(&mut self, call: &Call, at: At) -> Result<BoundExpr> {
        let level = self.scopes.len().saturating_sub(1);
        self.scope();
        let nested = std::mem::replace(&mut self.scopes[level].in_aggregate, true);
        let aggregate = self.aggregate(call, at);
        self.scopes[level].in_aggregate = nested;
        let (aggregate, owner) = aggregate?;
        self.place_aggregate(aggregate, owner, nested, at)
    }

    /// Puts an aggregate into the list of the query at a level, the innermost one unless its arguments decide
    /// otherwise. `nested`: true if the call is in the arguments of another aggregate.
    pub(in crate::bind) fn place_aggregate(
        &mut self,
        aggregate: BoundAggregate,
        owner: Option<usize>,
        nested: bool,
        at: At,
    ) -> Result<BoundExpr> {
        let level = owner.unwrap_or(self.scopes.len().saturating_sub(1));
        let scope = &self.scopes[level];
        if scope.in_aggregate || (level == self.scopes.len() - 1 && nested) {
            return Err(self.nested_aggregates(at));
        }
        if !scope.clause.allows_aggregates() && !scope.in_window {
            let message = format!("aggregate functions are not allowed in {}", scope.clause.name());
            return Err(self.error(at, SqlState::GROUPING_ERROR, message));
        }
        let (query, ty) = (scope.id, aggregate.ty);
        let is_own =
            |part: &BoundExpr| matches!(part, BoundExpr::Aggregate { query: of, .. } if *of == query);
        let keys = aggregate.order_by.iter().map(|key| &key.expr);
        if aggregate.args.iter().chain(keys).chain(&aggregate.filter).any(|part| contains(part, &is_own)) {
            return Err(self.nested_aggregates(at));
        }
        let known = scope.aggregates.iter().position(|it| *it == aggregate);
        let number = known.unwrap_or(scope.aggregates.len());
        if known.is_none() {
            self.scopes[level].aggregates.push(aggregate);
        }
        Ok(BoundExpr::Aggregate { query, number, ty })
    }

    fn nested_aggregates(&self, at: At) -> SqlError {
        self.error(at, SqlState::GROUPING_ERROR, "aggregate function calls cannot be nested")
    }

    /// The aggregate itself, and the level of the query that it belongs to, if its arguments decide it.
    fn aggregate(&mut self, call: &Call, at: At) -> Result<(BoundAggregate, Option<usize>)> {
        let name = call.name.last();
        if call.star && !call.args.is_empty() {
            return Err(self.error(at, SqlState::SYNTAX_ERROR, "arguments beside * are not allowed"));
        }
        let mut named = self.columns_named_outside();
        let outer = std::mem::replace(&mut self.scope().in_direct_arguments, call.within_group);
        let args = self.call_args(call);
        self.scope().in_direct_arguments = outer;
        let (args, names) = args?;
        if call.within_group {
            named = self.columns_named_outside();
        }
        if args.is_empty() && !call.star && name == "count" {
            let message = "count(*) must be used to call a parameterless aggregate function";
            return Err(self.error(at, SqlState::WRONG_OBJECT_TYPE, message));
        }
        let direct = args.len();
        let mut order_by = self.sort_keys(&call.order_by, call.within_group)?;
        let mut all = args;
        if call.within_group {
            all.extend(order_by.iter().map(|key| key.expr.clone()));
        }
        let mut resolved = match self.resolve(name, all, &names, call.variadic, at)? {
            Ok(resolved) if resolved.function.is_aggregate() => resolved,
            _ => {
                let message = format!("{name} is not an aggregate function");
                return Err(self.error(at, SqlState::WRONG_OBJECT_TYPE, message));
            }
        };
        self.check_aggregate_kind(&resolved, call, at)?;
        if call.within_group {
            let sorted = resolved.args.split_off(direct.min(resolved.args.len()));
            for (key, expr) in order_by.iter_mut().zip(sorted) {
                key.expr = expr;
            }
        }
        if call.distinct {
            name_arguments(&mut order_by, &resolved.args);
            self.check_distinct_aggregate(&resolved, &order_by, at)?;
        }
        let filter = match &call.filter {
            Some(filter) => Some(self.clause_condition(filter, Clause::Filter)?),
            None => None,
        };
        let aggregate = BoundAggregate {
            function: resolved.function,
            args: resolved.args,
            distinct: call.distinct,
            order_by,
            filter,
            ty: resolved.result,
        };
        let (direct, args) =
            aggregate.args.split_at(if call.within_group { aggregate.args.len() } else { 0 });
        let keys = aggregate.order_by.iter().map(|key| &key.expr);
        let owner = self.owner_of(args.iter().chain(keys).chain(&aggregate.filter));
        self.settle_arguments(owner, direct, &named, at)?;
        Ok((aggregate, owner))
    }

    /// Number of columns of each level that its subqueries have named and that must be grouped.
    pub(in crate::bind) fn columns_named_outside(&self) -> Vec<usize> {
        self.scopes.iter().map(|scope| scope.outer_columns.len()).collect()
    }

    /// Settles the grouping of the arguments of an aggregate that belongs to a level: direct arguments must be grouped
    /// there, and may name no column of a query inside it; the others, which were bound when the levels' subqueries had
    /// named `named` columns, need not be.
    pub(in crate::bind) fn settle_arguments(
        &mut self,
        owner: Option<usize>,
        direct: &[BoundExpr],
        named: &[usize],
        at: At,
    ) -> Result<()> {
        let innermost = self.scopes.len() - 1;
        let Some(owner) = owner.filter(|owner| *owner < innermost) else {
            self.scope().direct_arguments.extend(direct.iter().map(|arg| (arg.clone(), at)));
            return Ok(());
        };
        self.scopes[owner].outer_columns.truncate(named[owner]);
        self.scopes[owner].outer_direct_arguments.extend_from_slice(direct);
        let inside: Vec<RelationId> =
            self.scopes[owner + 1..].iter().flat_map(|scope| scope.owned.iter().copied()).collect();
        if direct.iter().flat_map(walk::relations_of).any(|relation| inside.contains(&relation)) {
            let message =
                "outer-level aggregate cannot contain a lower-level variable in its direct arguments";
            return Err(self.error(at, SqlState::GROUPING_ERROR, message));
        }
        Ok(())
    }

    fn check_aggregate_kind(&self, resolved: &ResolvedCall, call: &Call, at: At) -> Result<()> {
        let FunctionKind::Aggregate { kind, .. } = resolved.function.kind else { return Ok(()) };
        let name = call.name.last();
        if kind == AggregateKind::Plain && call.within_group {
            let message = format!("{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP");
            return Err(self.error(at, SqlState::WRONG_OBJECT_TYPE, message));
        }
        if kind != AggregateKind::Plain && !call.within_group {
            let message = format!("WITHIN GROUP is required for ordered-set aggregate {name}");
            return Err(self.error(at, SqlState::WRONG_OBJECT_TYPE, message));
        }
        Ok(())
    }

    fn check_distinct_aggregate(&self, resolved: &ResolvedCall, order_by: &[SortKey], at: At) -> Result<()> {
        if resolved.args.is_empty() {
            let message = "DISTINCT specified, but the aggregate has no arguments";
            return Err(self.error(at, SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        for arg in &resolved.args {
            self.check_equality(arg.ty(), at)?;
        }
        if order_by.iter().any(|key| !resolved.args.contains(&key.expr)) {
            let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list";
            return Err(self.error(at, SqlState::INVALID_COLUMN_REFERENCE, message));
        }
        Ok(())
    }

    /// The level of the innermost query whose columns an aggregate's arguments, but for the direct ones, name; none for
    /// constants.
    pub(in crate::bind) fn owner_of<'b>(
        &self,
        arguments: impl Iterator<Item = &'b BoundExpr>,
    ) -> Option<usize> {
        let relations: Vec<RelationId> = arguments.flat_map(walk::relations_of).collect();
        let levels = self.scopes.iter().enumerate().rev();
        levels
            .into_iter()
            .find(|(_, scope)| scope.owned.iter().any(|id| relations.contains(id)))
            .map(|(level, _)| level)
    }
}

/// Lets keys of ORDER BY name arguments that were converted implicitly: `string_agg(DISTINCT v, ',' ORDER BY v)`, where `v` is
/// a `varchar`.
fn name_arguments(order_by: &mut [SortKey], args: &[BoundExpr]) {
    for key in order_by {
        let is_converted = |arg: &&BoundExpr| match arg {
            BoundExpr::Cast { operand, explicit: false, .. } => **operand == key.expr,
            _ => false,
        };
        if let Some(arg) = args.iter().find(is_converted).filter(|_| !args.contains(&key.expr)) {
            key.expr = arg.clone();
        }
    }
}
