//! Calls: functions, aggregates, window functions, set-returning functions.
//!
//! Source: PostgreSQL 15, `parse_func.c`, `parse_agg.c`.

mod aggregates;
mod window_calls;

use crate::bind::binder::Binder;
use crate::bind::hypothetical::is_hypothetical;
use crate::bind::json_rows::makes_records;
use crate::bind::operator_functions::is_operator_function;
use crate::bind::tree::{BoundExpr, SortKey};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::resolve::{Called, Resolved, choose_function, no_function, order_named};
use crate::functions::{Function, FunctionKind, functions_named, spreading};
use crate::parse::syntax::{At, Call, OrderItem};
use crate::types::cast::CastContext;
use crate::types::{Modifier, Type};

/// A call whose function is chosen and whose arguments are converted.
pub(crate) struct ResolvedCall {
    pub function: &'static Function,
    pub args: Vec<BoundExpr>,
    pub result: Type,
}

/// The columns of a function's rows; one of `anyelement` has the type of the elements of the first argument.
pub(crate) fn columns_of(
    function: &'static Function,
    args: &[BoundExpr],
) -> impl Iterator<Item = (&'static str, Type)> {
    let element = args.first().and_then(|arg| arg.ty().element());
    function.columns.iter().map(move |(name, ty)| match element {
        Some(element) if *ty == Type::AnyElement => (*name, element),
        _ => (*name, *ty),
    })
}

/// Refuses a call whose literals leave the type of `anyelement` and the like open.
///
/// # Errors
/// 42804.
fn refuse_undecided(function: &Function, args: &[BoundExpr]) -> Result<()> {
    let is_deciding =
        |kind: Type| matches!(kind, Type::AnyElement | Type::AnyArray | Type::AnyNonArray | Type::AnyEnum);
    let deciding = function.arguments.iter().zip(args).filter(|(kind, _)| is_deciding(**kind));
    let is_undecided = |arg: &BoundExpr| matches!(arg, BoundExpr::Constant { ty: Type::Unknown, .. });
    if deciding.clone().next().is_none() || deciding.clone().any(|(_, arg)| !is_undecided(arg)) {
        return Ok(());
    }
    let message = "could not determine polymorphic type because input has type unknown";
    Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
}

impl Binder<'_> {
    /// A call of a function of the tables, with arguments that are bound already.
    pub fn call_named(&mut self, name: &str, args: Vec<BoundExpr>, at: At) -> Result<BoundExpr> {
        match self.resolve(name, args, &[], false, at)? {
            Ok(call) => Ok(BoundExpr::Call { function: call.function, args: call.args, ty: call.result }),
            Err(cast) => Ok(cast),
        }
    }

    /// A call as an expression.
    pub fn call(&mut self, call: &Call, at: At) -> Result<BoundExpr> {
        let name = call.name.last();
        if let Some(found) = self.routine_named(call, at)? {
            return self.routine_expr(found, at);
        }
        if !matches!(call.name.schema(), None | Some("pg_catalog" | "information_schema")) {
            let types: Vec<Type> = self.call_args(call)?.0.iter().map(BoundExpr::ty).collect();
            return Err(self.at(no_function(&call.name.to_string(), &types), at));
        }
        let is_aggregate = functions_named(name).any(Function::is_aggregate);
        let is_window = functions_named(name).any(|it| matches!(it.kind, FunctionKind::Window(_)));
        if call.over.is_some() {
            return self.window_call(call, at);
        }
        if call.within_group && is_hypothetical(name) {
            return self.hypothetical_call(call, at);
        }
        if is_aggregate && (call.star || !is_window || call.within_group) {
            return self.aggregate_call(call, at);
        }
        if is_window {
            let message = format!("window function {name} requires an OVER clause");
            return Err(self.error(at, SqlState::WRONG_OBJECT_TYPE, message));
        }
        if functions_named(name).next().is_none() && is_operator_function(name, call.args.len()) {
            let (args, _) = self.call_args(call)?;
            return self.operator_call(name, args, at);
        }
        self.refuse_aggregate_syntax(call, at)?;
        if makes_records(name) {
            return Err(self.unsupported(at, &format!("{name} is supported in FROM only")));
        }
        let (args, names) = self.call_args(call)?;
        if let ("pg_typeof", [arg], [given]) = (name, &args[..], &call.args[..])
            && let Some(stated) = self.stated_type(&given.value, arg)
        {
            return Ok(stated);
        }
        match self.resolve(name, args, &names, call.variadic, at)? {
            Err(cast) => Ok(cast),
            Ok(resolved) if matches!(resolved.function.kind, FunctionKind::Set(_)) => {
                self.set_returning_call(resolved, at)
            }
            Ok(resolved) => {
                Ok(BoundExpr::Call { function: resolved.function, args: resolved.args, ty: resolved.result })
            }
        }
    }

    pub fn refuse_aggregate_syntax(&self, call: &Call, at: At) -> Result<()> {
        let name = call.name.last();
        if functions_named(name).next().is_none() {
            return Ok(());
        }
        let what = match () {
            () if call.star => format!("{name}(*) specified, but {name} is not an aggregate function"),
            () if call.distinct => format!("DISTINCT specified, but {name} is not an aggregate function"),
            () if call.within_group => {
                format!("WITHIN GROUP specified, but {name} is not an aggregate function")
            }
            () if !call.order_by.is_empty() => {
                format!("ORDER BY specified, but {name} is not an aggregate function")
            }
            () if call.filter.is_some() => {
                format!("FILTER specified, but {name} is not an aggregate function")
            }
            () => return Ok(()),
        };
        Err(self.error(at, SqlState::WRONG_OBJECT_TYPE, what))
    }

    /// The arguments of a call, and the names of the last ones.
    pub fn call_args(&mut self, call: &Call) -> Result<(Vec<BoundExpr>, Vec<String>)> {
        let mut args = Vec::with_capacity(call.args.len());
        let mut names = Vec::new();
        for arg in &call.args {
            match &arg.name {
                Some(name) => names.push(name.text.clone()),
                None if !names.is_empty() => {
                    let message = "positional argument cannot follow named argument";
                    return Err(self.error(arg.value.at, SqlState::SYNTAX_ERROR, message));
                }
                None => {}
            }
            let value = self.expr(&arg.value)?;
            // The driver of JDBC sends the place of an output argument as a parameter of type void.
            if !matches!(value, BoundExpr::Parameter { ty: Type::Void, .. }) {
                args.push(value);
            }
        }
        Ok((args, names))
    }

    /// The entry that a call means, with its arguments converted; or the cast that it is.
    pub(super) fn resolve(
        &mut self,
        name: &str,
        args: Vec<BoundExpr>,
        names: &[String],
        variadic: bool,
        at: At,
    ) -> Result<std::result::Result<ResolvedCall, BoundExpr>> {
        let types: Vec<Type> = args.iter().map(BoundExpr::ty).collect();
        if !names.is_empty() {
            return self.resolve_named(name, args, names, at).map(Ok);
        }
        let called = if variadic && spreading(name).next().is_some() {
            if types.last().is_none_or(|ty| ty.element().is_none()) {
                let message = "VARIADIC argument must be an array";
                return Err(self.error(at, SqlState::DATATYPE_MISMATCH, message));
            }
            choose_function(name, &types, false, spreading(name))
        } else {
            choose_function(name, &types, variadic, functions_named(name))
        };
        let called = called.map_err(|error| self.at(error, at))?;
        match called {
            Some(Called::Function(resolved)) => {
                if !variadic {
                    refuse_undecided(resolved.function, &args)?;
                }
                self.finish_call(resolved, args, variadic, at).map(Ok)
            }
            Some(Called::Cast(ty)) => {
                let Some(arg) = args.into_iter().next() else {
                    return Err(self.at(no_function(name, &types), at));
                };
                self.coerce(arg, ty, Modifier::NONE, CastContext::Explicit, at).map(Err)
            }
            None => Err(self.at(no_function(name, &types), at)),
        }
    }

    fn resolve_named(
        &mut self,
        name: &str,
        args: Vec<BoundExpr>,
        names: &[String],
        at: At,
    ) -> Result<ResolvedCall> {
        let types: Vec<Type> = args.iter().map(BoundExpr::ty).collect();
        let positional = args.len() - names.len();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for function in functions_named(name) {
            let Some(order) = order_named(function, positional, &names) else { continue };
            // Arguments that are skipped have their defaults; those at the end are added when the call is finished.
            let last = order.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
            let ordered: Vec<BoundExpr> = order[..last]
                .iter()
                .enumerate()
                .map(|(position, arg)| match arg {
                    Some(arg) => Ok(args[*arg].clone()),
                    None => self.default_argument(function, position),
                })
                .collect::<Result<_>>()?;
            let given: Vec<Type> = ordered.iter().map(BoundExpr::ty).collect();
            let chosen = choose_function(name, &given, false, std::iter::once(function))
                .map_err(|error| self.at(error, at))?;
            if let Some(Called::Function(resolved)) = chosen {
                return self.finish_call(resolved, ordered, false, at);
            }
        }
        Err(self.at(no_function(name, &types), at))
    }

    /// The default of a function's argument.
    fn default_argument(&self, function: &Function, position: usize) -> Result<BoundExpr> {
        let required = function.arguments.len() - function.defaults.len();
        let (ty, text) = (function.arguments[position], function.defaults[position - required]);
        let value =
            crate::types::text::from_text(self.environment, ty, Modifier::NONE, text.trim_matches('\''))?;
        Ok(BoundExpr::constant(value, ty))
    }

    /// Converts the arguments, adds defaults, packs variadic ones into an array.
    fn finish_call(
        &mut self,
        resolved: Resolved,
        args: Vec<BoundExpr>,
        variadic: bool,
        at: At,
    ) -> Result<ResolvedCall> {
        let mut converted = Vec::with_capacity(args.len());
        for (arg, &ty) in args.into_iter().zip(&resolved.arguments) {
            converted.push(if ty == Type::Any { self.known(arg, at)? } else { self.implicit(arg, ty, at)? });
        }
        let function = resolved.function;
        let missing = function.defaults.len() - resolved.defaults;
        let required = function.arguments.len() - function.defaults.len();
        for position in missing..function.defaults.len() {
            converted.push(self.default_argument(function, required + position)?);
        }
        if let Some(first) = resolved.packs_from
            && !variadic
        {
            let elements = converted.split_off(first.min(converted.len()));
            let ty = match function.arguments.last() {
                Some(&ty) if !ty.is_polymorphic() => ty,
                _ => elements
                    .first()
                    .and_then(|element| element.ty().array())
                    .unwrap_or(Type::array_of(Type::Text)),
            };
            converted.push(BoundExpr::Array { elements, ty });
        }
        Ok(ResolvedCall { function, args: converted, result: resolved.result })
    }

    fn set_returning_call(&mut self, call: ResolvedCall, at: At) -> Result<BoundExpr> {
        self.note_set_returning(at)?;
        Ok(BoundExpr::SetReturning { function: call.function, args: call.args, ty: call.result })
    }

    /// Notes that the query calls a set-returning function, where it may.
    pub(super) fn note_set_returning(&mut self, at: At) -> Result<()> {
        let scope = self.scope();
        let place = match scope.refuses_sets {
            _ if !scope.clause.allows_sets() => scope.clause.name(),
            Some(place) => place,
            None => {
                scope.set_returning = true;
                return Ok(());
            }
        };
        let message = format!("set-returning functions are not allowed in {place}");
        Err(self.error(at, SqlState::FEATURE_NOT_SUPPORTED, message))
    }

    /// Binds a part of a query where no set-returning function is allowed.
    pub(super) fn without_sets<T>(
        &mut self,
        place: &'static str,
        bind: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let outer = self.scope().refuses_sets.replace(place);
        let result = bind(self);
        self.scope().refuses_sets = outer;
        result
    }

    /// A call in FROM: its function and arguments.
    pub fn call_in_from(
        &mut self,
        call: &Call,
        at: At,
    ) -> Result<std::result::Result<ResolvedCall, BoundExpr>> {
        self.refuse_aggregate_syntax(call, at)?;
        let (args, names) = self.call_args(call)?;
        self.resolve(call.name.last(), args, &names, call.variadic, at)
    }

    /// The keys of an ORDER BY inside a call or a window.
    pub fn sort_keys(&mut self, items: &[OrderItem], as_arguments: bool) -> Result<Vec<SortKey>> {
        let mut keys = Vec::with_capacity(items.len());
        for item in items {
            let mut expr = self.expr(&item.expr)?;
            if !as_arguments {
                expr = self.known(expr, item.expr.at)?;
            }
            self.check_ordering(expr.ty(), item.expr.at)?;
            keys.push(SortKey { expr, descending: item.descending, nulls_first: item.nulls_first });
        }
        Ok(keys)
    }
}
