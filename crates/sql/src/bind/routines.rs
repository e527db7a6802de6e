//! Calls of routines: functions and procedures of users.
//!
//! A call is bound as a call of one of the entries below, with the routine's oid as the first argument; what runs it finds
//! the routine in the catalog that the plan belongs to.
//!
//! Source: PostgreSQL 15, `parse_func.c` (`FuncnameGetCandidates`, `func_get_detail`).

use std::sync::Arc;

use crate::bind::binder::{BindContext, Binder};
use crate::bind::from::plain_column;
use crate::bind::literals::LiteralUse;
use crate::bind::query::{plain_query, plain_select};
use crate::bind::scope::Clause;
use crate::bind::tree::{
    BoundColumn, BoundExpr, BoundStatement, BoundTarget, FunctionCall, QueryBody, RelationId, RelationKind,
    StatementKind,
};
use crate::bind::variables::{Names, Variables};
use crate::catalog::{ArgumentMode, Catalog, CatalogEnvironment, Routine, Stability, Table};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::resolve::{choose, choose_function, no_function, polymorphic};
use crate::functions::{Function, Volatility, functions_named};
use crate::parse::syntax::{At, Call, ExprKind, ObjectName};
use crate::parse::{TextEdit, parse_expression, qualified_name};
use crate::types::array::ArrayValue;
use crate::types::cast::{CastContext, can_coerce};
use crate::types::{Environment, Modifier, Type, Value};

/// The entry that calls a routine whose result depends on its arguments and the database alone.
pub(crate) const CALL_STABLE: &str = "heddle_call_stable";
/// The entry that calls any other routine.
pub(crate) const CALL_VOLATILE: &str = "heddle_call_volatile";
/// The entry that calls a routine for its rows.
pub(crate) const CALL_ROWS: &str = "heddle_call_rows";

/// A call of a routine, its arguments converted.
pub(crate) struct RoutineCall {
    pub routine: Arc<Routine>,
    pub args: Vec<BoundExpr>,
    /// The types to which the call's arguments are converted.
    types: Vec<Type>,
}

/// Assignment of a call's arguments to a routine's.
struct Candidate {
    routine: Arc<Routine>,
    /// The position of the call's argument for each input argument; `None` for its default.
    order: Vec<Option<usize>>,
    /// The types to which the call's arguments are to be converted.
    types: Vec<Type>,
    /// The first input argument from which on the call's are put into an array.
    packs_from: Option<usize>,
    /// The types of all arguments and of the result, if the call decides them.
    decided: Option<Vec<Type>>,
    /// True if another routine of its schema accepts the same arguments: the call does not decide which is meant.
    is_ambiguous: bool,
}

impl Candidate {
    fn of(routine: &Arc<Routine>, count: usize, names: &[String], is_variadic: bool) -> Option<Candidate> {
        let inputs: Vec<_> = routine.inputs().collect();
        let positional = count - names.len();
        let packs = routine.is_variadic() && !is_variadic && names.is_empty() && count >= inputs.len();
        if is_variadic && !(routine.is_variadic() && count == inputs.len())
            || positional > inputs.len() && !packs
        {
            return None;
        }
        let mut order: Vec<Option<usize>> =
            (0..inputs.len()).map(|at| (at < positional).then_some(at)).collect();
        for (at, name) in names.iter().enumerate() {
            let place = inputs.iter().position(|argument| argument.name == *name)?;
            if order[place].replace(positional + at).is_some() {
                return None;
            }
        }
        let is_complete =
            order.iter().zip(&inputs).all(|(it, argument)| it.is_some() || argument.default.is_some());
        if !is_complete {
            return None;
        }
        let mut types = vec![Type::Unknown; count];
        for (place, argument) in order.iter().zip(&inputs) {
            if let Some(at) = place {
                types[*at] = argument.ty;
            }
        }
        let packs_from = if packs { inputs.len().checked_sub(1) } else { None };
        if let Some(first) = packs_from {
            let element = inputs[first].ty.declared_element()?;
            types[first..].fill(element);
        }
        let routine = routine.clone();
        Some(Candidate { routine, order, types, packs_from, decided: None, is_ambiguous: false })
    }

    fn fits(&self, given: &[Type]) -> bool {
        given.iter().zip(&self.types).all(|(&from, &to)| can_coerce(from, to, CastContext::Implicit))
            && (!self.routine.is_polymorphic() || polymorphic(&self.types, given, Type::Void).is_some())
    }
}

/// The candidate that PostgreSQL prefers of those that accept the same arguments of the call: of the first schema of
/// the path, and one that does not pack them into an array. Where defaults make two of them equal, neither is.
fn preferred(candidates: impl Iterator<Item = Candidate>) -> Vec<Candidate> {
    let mut kept: Vec<Candidate> = Vec::new();
    for candidate in candidates {
        let Some(same) = kept.iter_mut().find(|known| known.types == candidate.types) else {
            kept.push(candidate);
            continue;
        };
        if same.routine.schema != candidate.routine.schema {
            continue;
        }
        match (same.packs_from, candidate.packs_from) {
            (None, Some(_)) => {}
            (Some(_), None) => *same = candidate,
            _ => same.is_ambiguous = true,
        }
    }
    kept
}

/// The entry by which a routine is called in an expression.
fn entry(name: &str) -> Result<&'static Function> {
    functions_named(name).next().ok_or_else(|| SqlError::internal("routines have no entry"))
}

/// The routine that a bound call is of.
pub(crate) fn routine_of<'c>(catalog: &'c Catalog, expr: &BoundExpr) -> Option<&'c Arc<Routine>> {
    let (BoundExpr::Call { function, args, .. } | BoundExpr::SetReturning { function, args, .. }) = expr
    else {
        return None;
    };
    match args.first() {
        Some(BoundExpr::Constant { value: Value::Oid(oid), .. }) if is_call(function) => {
            catalog.routine_by_oid(*oid)
        }
        _ => None,
    }
}

/// The routine that the arguments of a call are for, with the types that the call has decided.
pub(crate) fn instance_of(catalog: &Catalog, args: &[BoundExpr]) -> Option<Arc<Routine>> {
    let Some(BoundExpr::Constant { value: Value::Oid(oid), .. }) = args.first() else { return None };
    let routine = catalog.routine_by_oid(*oid)?;
    match args.last() {
        Some(BoundExpr::Constant { value, .. }) if routine.is_polymorphic() => {
            Some(Arc::new(routine.with_types(&Routine::types_of(value))))
        }
        _ => Some(routine.clone()),
    }
}

/// Returns true if a cast depends on the session's time zone or formats, on names, or on labels of an enum, which may
/// be renamed.
fn depends_on_session(from: Type, to: Type) -> bool {
    let is_text = |ty: Type| matches!(ty, Type::Text | Type::Varchar | Type::Bpchar | Type::Name);
    let is_day = |ty: Type| matches!(ty, Type::Date | Type::Timestamp);
    match (from, to) {
        (Type::Array(_), Type::Array(_)) => match (from.element(), to.element()) {
            (Some(from), Some(to)) => depends_on_session(from, to),
            _ => true,
        },
        (Type::Timestamptz, to) => to != Type::Timestamptz,
        (from, Type::Timestamptz) => is_day(from) || is_text(from),
        (Type::Time, Type::Timetz) => true,
        (from, Type::Time | Type::Timetz) if is_text(from) => true,
        (from, to) if is_text(from) => is_shown_by_session(to),
        (from, to) => is_text(to) && is_shown_by_session(from),
    }
}

/// Returns true if a type's text depends on the session's formats, on names or labels, or on what types of elements do.
fn is_shown_by_session(ty: Type) -> bool {
    use Type::{
        Array, Composite, Date, Enum, Interval, Record, Regclass, Regcollation, Regnamespace, Regoper,
        Regoperator, Regproc, Regprocedure, Regrole, Regtype, Timestamp,
    };
    matches!(
        ty,
        Array(_) | Composite(_) | Date | Enum(_) | Interval | Record | Regclass | Regcollation | Regnamespace
    ) || matches!(ty, Regoper | Regoperator | Regproc | Regprocedure | Regrole | Regtype | Timestamp)
}

/// Returns true if an expression's result depends on its operands alone: a built-in function, a cast, a routine that is
/// IMMUTABLE.
pub(crate) fn is_immutable(catalog: &Catalog, call: &BoundExpr) -> bool {
    match (routine_of(catalog, call), call) {
        (Some(routine), _) => routine.stability == Stability::Immutable,
        // PostgreSQL looks through these: what counts is how the value becomes a text.
        (None, BoundExpr::Operator { operator, args, .. })
            if operator.name == "||" && operator.arguments.contains(&Type::AnyNonArray) =>
        {
            args.iter().all(|arg| !depends_on_session(arg.ty(), Type::Text))
        }
        (None, BoundExpr::Call { function, .. } | BoundExpr::Operator { operator: function, .. }) => {
            function.volatility == Volatility::Immutable
        }
        (None, BoundExpr::Cast { operand, ty, .. }) => !depends_on_session(operand.ty(), *ty),
        (
            None,
            BoundExpr::IsDistinct { equals: operator, .. }
            | BoundExpr::NullIf { equals: operator, .. }
            | BoundExpr::InList { equals: operator, .. }
            | BoundExpr::Quantified { operator, .. },
        ) => operator.volatility == Volatility::Immutable,
        _ => true,
    }
}

/// Returns true if an entry calls routines.
pub(crate) fn is_call(function: &Function) -> bool {
    matches!(function.name, CALL_STABLE | CALL_VOLATILE | CALL_ROWS)
}

/// The routines that a text calls, with their positions; the conversions of their arguments; and the meanings of its
/// literals.
pub(crate) type CallsAndLiterals = (Vec<(At, Arc<Routine>)>, Vec<TextEdit>, Vec<LiteralUse>);

/// The calls of routines that an expression has: their positions in its text, and the routines; and the conversions of
/// their arguments.
///
/// # Errors
/// Class 42.
pub(crate) fn calls_in_condition(
    context: BindContext<'_>,
    environment: &mut dyn Environment,
    (text, names): (&str, &dyn Names),
    settled: bool,
) -> Result<CallsAndLiterals> {
    let mut binder = Binder::new(context, environment, &[]);
    binder.new_parameters = false;
    binder.variables = Some(Variables { names, used: Vec::new() });
    (binder.foreign_text, binder.settled, binder.called) = (true, settled, Some(Vec::new()));
    binder.literals = Some(Vec::new());
    binder.enter();
    binder.expr(&parse_expression(text)?)?;
    Ok((binder.called.unwrap_or_default(), binder.casts, binder.literals.unwrap_or_default()))
}

/// The kind of a text in the catalog: the names that it may use besides functions and types.
#[derive(Clone, Copy)]
pub(crate) enum TextOf<'t> {
    /// The columns of a table's rows.
    Row(&'t Arc<Table>),
    /// VALUE, in a domain over this type.
    Value(Type),
    /// OLD and NEW.
    Condition(&'t dyn Names),
    Query,
}

/// The routines that a catalog text calls.
///
/// # Errors
/// Class 42: an object that it names was dropped, or is not found along the path.
pub(crate) fn routines_called(
    catalog: &Catalog,
    path: &[String],
    text: &str,
    of: TextOf<'_>,
) -> Result<Vec<Arc<Routine>>> {
    let mut environment = CatalogEnvironment::new(catalog);
    let context = BindContext { catalog, path, text: "" };
    if let TextOf::Condition(names) = of {
        let (called, ..) = calls_in_condition(context, &mut environment, (text, names), true)?;
        return Ok(called.into_iter().map(|(_, routine)| routine).collect());
    }
    let mut binder = Binder::new(context, &mut environment, &[]);
    (binder.defines, binder.settled, binder.called) = (true, true, Some(Vec::new()));
    match of {
        TextOf::Row(table) => {
            let target = binder.new_relation();
            binder.row_expression(table, target, text, Clause::Check)?;
        }
        TextOf::Value(ty) => {
            let expr = parse_expression(text)?;
            binder.detached(|binder| {
                binder.add_value(ty);
                binder.expr(&expr)
            })?;
        }
        TextOf::Query | TextOf::Condition(_) => {
            let query = crate::parse::parse_query(text)?;
            binder.foreign_text = true;
            binder.query(&query)?;
        }
    }
    Ok(binder.called.unwrap_or_default().into_iter().map(|(_, routine)| routine).collect())
}

impl Binder<'_> {
    /// The call of a routine that a call means; `None` if it is one of a built-in function.
    pub fn routine_call(
        &mut self,
        name: &ObjectName,
        args: &[BoundExpr],
        names: &[String],
        is_variadic: bool,
        at: At,
    ) -> Result<Option<RoutineCall>> {
        self.check_named_schema(name)?;
        let routines = self.context.catalog.find_routines(name.schema(), name.last(), &self.path);
        if routines.is_empty() {
            return Ok(None);
        }
        let given: Vec<Type> = args.iter().map(BoundExpr::ty).collect();
        let spread = |routine| Candidate::of(routine, args.len(), names, is_variadic);
        let spread = routines.iter().filter_map(spread);
        let mut candidates = if self.is_stored_text() { spread.collect() } else { preferred(spread) };
        let is_exact = |(_, candidate): &(usize, &Candidate)| candidate.types == given;
        let mut exact = candidates.iter().enumerate().filter(is_exact);
        // A stored text means the routine that was there first.
        let exact = match self.is_stored_text() {
            true => exact.min_by_key(|(_, candidate)| candidate.routine.oid),
            false => exact.next(),
        };
        let exact = exact.map(|(position, _)| position);
        // The system's schema is first.
        let is_hidden = |function: &'static Function| function.arguments == given;
        if name.schema().is_none() && functions_named(name.last()).any(is_hidden) {
            return Ok(None);
        }
        if name.schema().is_none() && (exact.is_none() || self.settled) && names.is_empty() {
            let built_in = choose_function(name.last(), &given, is_variadic, functions_named(name.last()));
            if functions_named(name.last()).next().is_some() && matches!(built_in, Ok(Some(_))) {
                return Ok(None);
            }
        }
        let chosen = match exact {
            Some(exact) => candidates.swap_remove(exact),
            None => {
                candidates.retain(|candidate| candidate.fits(&given));
                let types: Vec<&[Type]> = candidates.iter().map(|candidate| &candidate.types[..]).collect();
                if types.is_empty() {
                    return Err(self.at(no_function(&name.to_string(), &given), at));
                }
                let Some(best) = choose(&types, &given) else {
                    return Err(self.not_unique(name, &given, at));
                };
                candidates.swap_remove(best)
            }
        };
        if chosen.is_ambiguous {
            return Err(self.not_unique(name, &given, at));
        }
        self.note_routine(name, &chosen.routine);
        let chosen = if chosen.routine.is_polymorphic() { self.decided(chosen, &given, at)? } else { chosen };
        self.finish_routine_call(chosen, args, at).map(Some)
    }

    /// A polymorphic routine with the types that a call decides.
    fn decided(&self, mut chosen: Candidate, given: &[Type], at: At) -> Result<Candidate> {
        let fails = |message: &str| Err(self.error(at, SqlState::DATATYPE_MISMATCH, message));
        let is_element = |ty: Type| ty.is_polymorphic() && !ty.is_any_compatible();
        let mut of_elements =
            given.iter().zip(&chosen.types).filter(|(_, declared)| is_element(**declared)).peekable();
        if of_elements.peek().is_some() && of_elements.all(|(given, _)| *given == Type::Unknown) {
            return fails("could not determine polymorphic type because input has type unknown");
        }
        let decide = |ty: Type| match ty.is_polymorphic() {
            true => polymorphic(&chosen.types, given, ty).map(|(_, decided)| decided),
            false => Some(ty),
        };
        let routine = &chosen.routine;
        let all = routine.arguments.iter().map(|argument| argument.ty).chain([routine.result]);
        let Some(types) = all.map(decide).collect::<Option<Vec<Type>>>() else {
            return fails("could not determine polymorphic type of a function's argument or result");
        };
        if let Some((arguments, _)) = polymorphic(&chosen.types, given, Type::Void) {
            chosen.types = arguments;
        }
        chosen.routine = Arc::new(chosen.routine.with_types(&types));
        chosen.decided = Some(types);
        Ok(chosen)
    }

    fn not_unique(&self, name: &ObjectName, given: &[Type], at: At) -> SqlError {
        let types: Vec<String> = given.iter().map(|&ty| self.type_text(ty)).collect();
        let message = format!("function {name}({}) is not unique", types.join(", "));
        let hint = "Could not choose a best candidate function. You might need to add explicit type casts.";
        self.error(at, SqlState::AMBIGUOUS_FUNCTION, message).with_hint(hint)
    }

    /// Notes a routine that is called, if that is requested.
    fn note_routine(&mut self, name: &ObjectName, routine: &Arc<Routine>) {
        if let Some(called) = &mut self.called {
            called.push((name.at(), routine.clone()));
        }
        if let Some(stars) = self.stars.as_mut().filter(|_| !self.foreign_text && name.schema().is_none())
            && !stars.names.iter().any(|(known, _)| *known == name.at())
        {
            stars.names.push((name.at(), qualified_name(&routine.schema, &routine.name)));
        }
    }

    fn finish_routine_call(&mut self, chosen: Candidate, args: &[BoundExpr], at: At) -> Result<RoutineCall> {
        let routine = chosen.routine;
        let mut converted = Vec::with_capacity(chosen.order.len());
        for (position, (place, argument)) in chosen.order.iter().zip(routine.inputs()).enumerate() {
            if chosen.packs_from == Some(position) {
                let elements = args[position..].iter().zip(&chosen.types[position..]);
                let elements = elements.map(|(arg, &ty)| self.implicit(arg.clone(), ty, at));
                let elements = elements.collect::<Result<Vec<_>>>()?;
                converted.push(BoundExpr::Array { elements, ty: argument.ty });
                continue;
            }
            let value = match (place, &argument.default) {
                (Some(_), _) if argument.mode == ArgumentMode::Out => BoundExpr::null(argument.ty),
                (Some(place), _) => self.implicit(args[*place].clone(), argument.ty, at)?,
                (None, Some(text)) => self.argument_default(text, argument.ty, at)?,
                (None, None) => BoundExpr::null(argument.ty),
            };
            let domain = argument.domain.filter(|_| argument.mode != ArgumentMode::Out);
            converted.push(match domain.and_then(|oid| self.context.catalog.domain_by_oid(oid)).cloned() {
                Some(domain) => self.checked(value, &domain, at)?,
                None => value,
            });
        }
        if let Some(types) = chosen.decided {
            let oids = types.iter().map(|ty| Value::Oid(ty.oid())).collect();
            let ty = Type::array_of(Type::Oid);
            converted.push(BoundExpr::constant(Value::array(ArrayValue::list(Type::Oid, oids)), ty));
        }
        Ok(RoutineCall { routine, args: converted, types: chosen.types })
    }

    /// A default from the catalog, as a value of a type.
    fn argument_default(&mut self, text: &str, ty: Type, at: At) -> Result<BoundExpr> {
        let expr = parse_expression(text)?;
        let bound = self.detached(|binder| binder.expr(&expr))?;
        self.coerce(bound, ty, Modifier::NONE, CastContext::Assignment, at)
    }

    /// A call of a routine in an expression.
    pub fn routine_expr(&mut self, call: RoutineCall, at: At) -> Result<BoundExpr> {
        let RoutineCall { routine, args, .. } = call;
        if routine.is_procedure {
            let message = format!("{} is a procedure", routine.signature(|ty| self.type_text(ty)));
            let error = self.error(at, SqlState::WRONG_OBJECT_TYPE, message);
            return Err(error.with_hint("To call a procedure, use CALL."));
        }
        if routine.result == Type::Trigger {
            let message = "trigger functions can only be called as triggers";
            return Err(self.error(at, SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let name = match (routine.is_set, routine.stability) {
            (true, _) => CALL_ROWS,
            (false, Stability::Volatile) => CALL_VOLATILE,
            (false, _) => CALL_STABLE,
        };
        let (function, ty) = (entry(name)?, routine.row_of.map_or(routine.result, Type::row_of));
        let args = with_oid(&routine, args);
        if !routine.is_set {
            return Ok(BoundExpr::Call { function, args, ty });
        }
        self.note_set_returning(at)?;
        Ok(BoundExpr::SetReturning { function, args, ty })
    }

    /// The call of a routine that a call is; `None` for one of a built-in function.
    pub fn routine_named(&mut self, call: &Call, at: At) -> Result<Option<RoutineCall>> {
        let name = &call.name;
        self.check_named_schema(name)?;
        if matches!(name.last(), CALL_STABLE | CALL_VOLATILE | CALL_ROWS) {
            // They call any routine by its oid: only a name needs USAGE of the routine's schema.
            return Err(self.at(no_function(&name.to_string(), &[]), at));
        }
        if self.context.catalog.find_routines(name.schema(), name.last(), &self.path).is_empty() {
            return Ok(None);
        }
        let is_aggregate = || functions_named(name.last()).any(Function::is_aggregate);
        match self.refuse_aggregate_syntax(call, at) {
            Err(_) if name.schema().is_none() && is_aggregate() => return Ok(None),
            checked => checked?,
        }
        let (args, names) = self.call_args(call)?;
        let found = self.routine_call(name, &args, &names, call.variadic, at)?;
        if let Some(found) = &found {
            self.note_casts(call, &args, &found.types);
        }
        Ok(found)
    }

    /// Notes the conversions of a call's arguments, if the text is going to be stored: with them it means the same routine
    /// when one is made that would fit better without.
    fn note_casts(&mut self, call: &Call, args: &[BoundExpr], types: &[Type]) {
        let is_stored = self.called.is_some() || self.stars.is_some() && !self.foreign_text;
        if !is_stored || call.variadic {
            return;
        }
        for ((arg, bound), ty) in call.args.iter().zip(args).zip(types) {
            let (start, end) = (arg.place.0 as usize, arg.place.1 as usize);
            let is_known = self.casts.iter().any(|(known, ..)| *known == start);
            if bound.ty() == *ty || start >= end || is_known || ty.is_polymorphic() || *ty == Type::Record {
                continue;
            }
            let is_literal = matches!(arg.value.kind, ExprKind::Text(_));
            let (open, close) = if is_literal { ("", "") } else { ("(", ")") };
            self.casts.push((start, start, open.to_string()));
            self.casts.push((end, end, format!("{close}::{}", self.cast_text(*ty))));
        }
    }

    /// A type as a cast of a stored text names it.
    fn cast_text(&self, ty: Type) -> String {
        let name = match ty.element().unwrap_or(ty) {
            Type::Enum(oid) => match self.context.catalog.user_type_by_oid(oid) {
                Some(found) => qualified_name(found.schema(), found.name()),
                None => ty.display_name(),
            },
            element => element.display_name(),
        };
        if ty.is_array() { format!("{name}[]") } else { name }
    }

    /// The call of the procedure that a CALL names.
    pub fn procedure_call(&mut self, call: &Call, at: At) -> Result<RoutineCall> {
        let (args, names) = self.call_args(call)?;
        let found = self.routine_call(&call.name, &args, &names, call.variadic, at)?;
        let types: Vec<Type> = args.iter().map(BoundExpr::ty).collect();
        let Some(found) = found else {
            let missing = no_function(&call.name.to_string(), &types);
            let message = missing.message().replacen("function", "procedure", 1);
            let hint = "No procedure matches the given name and argument types. You might need to add explicit type casts.";
            return Err(self.error(at, SqlState::UNDEFINED_FUNCTION, message).with_hint(hint));
        };
        if !found.routine.is_procedure {
            let message = format!("{} is not a procedure", found.routine.signature(|ty| self.type_text(ty)));
            let error = self.error(at, SqlState::WRONG_OBJECT_TYPE, message);
            return Err(error.with_hint("To call a function, use SELECT."));
        }
        Ok(found)
    }
}

impl Binder<'_> {
    /// CALL: a query of one row, the procedure's output arguments.
    pub fn call_of_procedure(&mut self, call: &Call, at: At) -> Result<BoundStatement> {
        let id = self.enter();
        let bound = self.procedure_rows(call, at, id);
        self.leave();
        bound
    }

    fn procedure_rows(&mut self, call: &Call, at: At, id: RelationId) -> Result<BoundStatement> {
        let RoutineCall { routine, args, .. } = self.procedure_call(call, at)?;
        let columns: Vec<BoundColumn> = self
            .context
            .catalog
            .result_columns(&routine)
            .into_iter()
            .map(|it| BoundColumn { name: it.name, ty: it.ty, modifier: it.modifier, source: None })
            .collect();
        // A relation has a column at least: one that is not read represents none.
        let mut shape = columns.clone();
        if shape.is_empty() {
            shape.push(plain_column(&routine.name, Type::Void));
        }
        let types = shape.iter().map(|column| column.ty).collect();
        let calls =
            vec![FunctionCall::Set { function: rows_entry()?, args: with_oid(&routine, args), types }];
        let kind = RelationKind::Function { calls, ordinality: false };
        let relation = self.add_relation(&routine.name, kind, shape.clone(), false);
        let targets = shape.iter().enumerate().map(|(column, it)| BoundTarget {
            expr: BoundExpr::Column { relation, column, ty: it.ty },
            name: it.name.clone(),
        });
        let targets = targets.collect();
        let select = plain_select(std::mem::take(&mut self.scope().relations), relation, targets);
        let query = plain_query(id, QueryBody::Select(Box::new(select)), shape);
        Ok(BoundStatement { kind: StatementKind::Query(Box::new(query)), parameters: Vec::new(), columns })
    }
}

/// The arguments of the entry that calls a routine.
pub(crate) fn with_oid(routine: &Routine, args: Vec<BoundExpr>) -> Vec<BoundExpr> {
    let oid = BoundExpr::constant(Value::Oid(routine.oid), Type::Oid);
    std::iter::once(oid).chain(args).collect()
}

/// The entry that returns a routine's rows.
pub(crate) fn rows_entry() -> Result<&'static Function> {
    entry(CALL_ROWS)
}
