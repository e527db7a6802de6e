//! Bound expressions to expressions over a row's slots.
//!
//! # Invariants
//! - A subquery is planned in a frame of its own; the values that it sees of the row around it become bindings over
//!   that row.

use std::sync::Arc;

use crate::Environment;
use crate::bind::tree::walk::walk;
use crate::bind::tree::{BoundExpr, RelationId, Subquery, SubqueryKind};
use crate::catalog::Table;
use crate::error::{Result, SqlError};
use crate::functions::Function;
use crate::plan::expression::{
    Call, Case, Cast, Comparison, Expr, InList, IntegerOperation, QuantifiedArray, SubPlan, SubPlanKind,
};
use crate::plan::layout::{Key, Layout};
use crate::plan::planner::Planner;
use crate::plan::prune::prune;
use crate::plan::statement::{BoundRowRules, Known};
use crate::plan::statistics::TableStatistics;
use crate::plan::walk::{is_volatile_call, walk_query};
use crate::types::cast::{CastContext, no_cast};
use crate::types::record::RecordField;
use crate::types::{Modifier, Type, Value};

/// The comparison that an operator is, if values of its arguments' type compare by [`Value`]'s own order.
pub(crate) fn comparison_of(operator: &Function) -> Option<Comparison> {
    let [left, right] = operator.arguments[..] else { return None };
    let is_int = |ty| matches!(ty, Type::Int2 | Type::Int4 | Type::Int8);
    ((left == right && orders_by_value(left)) || (is_int(left) && is_int(right)))
        .then(|| Comparison::of_symbol(operator.name))
        .flatten()
}

/// Returns true if the order of values of this type is [`Value`]'s own.
pub(crate) fn orders_by_value(ty: Type) -> bool {
    !matches!(
        ty,
        Type::Record
            | Type::Json
            | Type::TopK
            | Type::Unknown
            | Type::Any
            | Type::AnyElement
            | Type::AnyArray
    )
}

impl Planner<'_> {
    /// An expression over rows of this layout.
    pub(crate) fn expr(&mut self, expr: &BoundExpr, layout: &Layout) -> Result<Expr> {
        Ok(match expr {
            BoundExpr::Constant { value, .. } => Expr::Constant(value.clone()),
            BoundExpr::Parameter { number, .. } => Expr::Parameter(*number),
            BoundExpr::Column { relation, column, .. } => return self.column(*relation, *column, layout),
            BoundExpr::Group { number, .. } => self.key(Key::Group(*number), layout),
            BoundExpr::Aggregate { query, number, .. } => self.key(Key::Aggregate(*query, *number), layout),
            BoundExpr::Window { number, .. } => self.key(Key::Window(*number), layout),
            BoundExpr::Grouping(groups) => self.grouping(groups, layout)?,
            BoundExpr::Call { function, args, .. } => {
                self.note_call(function);
                let types = args.iter().map(BoundExpr::ty).collect();
                fold(call(function, self.exprs(args, layout)?, types, expr.ty())?)
            }
            BoundExpr::Operator { operator, args, .. } => {
                let arguments = self.exprs(args, layout)?;
                match (comparison_of(operator), arguments.len()) {
                    (Some(comparison), 2) => compare(comparison, arguments),
                    _ => {
                        let types = args.iter().map(BoundExpr::ty).collect();
                        fold(call(operator, arguments, types, expr.ty())?)
                    }
                }
            }
            BoundExpr::SetReturning { .. } => match self.sets.get(&format!("{expr:?}")) {
                Some(slot) => Expr::Slot(*slot),
                None => {
                    return Err(SqlError::unsupported(
                        "set-returning functions are not allowed in this place",
                    ));
                }
            },
            BoundExpr::Cast { operand, ty, modifier, explicit } => {
                let from = operand.ty();
                let operand = self.expr(operand, layout)?;
                fold(cast(operand, from, *ty, *modifier, *explicit)?)
            }
            BoundExpr::And(parts) => Expr::And(self.exprs(parts, layout)?),
            BoundExpr::Or(parts) => Expr::Or(self.exprs(parts, layout)?),
            BoundExpr::Not(operand) => Expr::Not(Box::new(self.expr(operand, layout)?)),
            BoundExpr::IsNull { operand, negated } => {
                Expr::IsNull(Box::new(self.expr(operand, layout)?), *negated)
            }
            BoundExpr::IsTruth { operand, value, negated } => {
                Expr::IsTruth(Box::new(self.expr(operand, layout)?), *value, *negated)
            }
            BoundExpr::IsDistinct { operands, equals, negated } => {
                Expr::IsDistinct(self.pair(operands, layout)?, Box::new(operator_call(equals)?), *negated)
            }
            BoundExpr::NullIf { operands, equals, .. } => {
                Expr::NullIf(self.pair(operands, layout)?, Box::new(operator_call(equals)?))
            }
            BoundExpr::CaseOperand { .. } => Expr::CaseOperand,
            other => return self.compound(other, layout),
        })
    }

    fn compound(&mut self, expr: &BoundExpr, layout: &Layout) -> Result<Expr> {
        Ok(match expr {
            BoundExpr::Case { operand, arms, otherwise, .. } => {
                let operand = operand.as_ref().map(|operand| self.expr(operand, layout)).transpose()?;
                let arm = |arm: &crate::bind::tree::Arm| {
                    Ok((self.expr(&arm.when, layout)?, self.expr(&arm.then, layout)?))
                };
                let arms = arms.iter().map(arm).collect::<Result<_>>()?;
                Expr::Case(Box::new(Case { operand, arms, otherwise: self.expr(otherwise, layout)? }))
            }
            BoundExpr::Coalesce { operands, .. } => Expr::Coalesce(self.exprs(operands, layout)?),
            BoundExpr::MinMax { kind, operands, .. } => Expr::MinMax(*kind, self.exprs(operands, layout)?),
            BoundExpr::InList { operand, list, equals, negated } => {
                let operand = self.expr(operand, layout)?;
                let list = self.exprs(list, layout)?;
                let constants = constants_of(&list, equals);
                let equals = operator_call(equals)?;
                Expr::InList(Box::new(InList { operand, list, equals, negated: *negated, constants }))
            }
            BoundExpr::Quantified { operand, array, operator, quantifier } => {
                let (operand, array) = (self.expr(operand, layout)?, self.expr(array, layout)?);
                let operator = operator_call(operator)?;
                Expr::Quantified(Box::new(QuantifiedArray {
                    operand,
                    array,
                    operator,
                    quantifier: *quantifier,
                }))
            }
            BoundExpr::Array { elements, ty } => Expr::Array(self.exprs(elements, layout)?, *ty),
            BoundExpr::Row { fields, names, is_nullable } => {
                let described = record_fields(fields, names.as_deref());
                Expr::Row(self.exprs(fields, layout)?, described, *is_nullable)
            }
            BoundExpr::Subscript { .. } => self.subscript(expr, layout)?,
            BoundExpr::Slice { array, bounds, .. } => {
                let mut bound = |bound: &Option<BoundExpr>| {
                    bound.as_ref().map(|bound| self.expr(bound, layout)).transpose()
                };
                let of_dimension = |(lower, upper): &_| Ok((bound(lower)?, bound(upper)?));
                let bounds = bounds.iter().map(of_dimension).collect::<Result<_>>()?;
                Expr::Slice(Box::new((self.expr(array, layout)?, bounds)))
            }
            BoundExpr::Field { row, number, .. } => Expr::Field(Box::new(self.expr(row, layout)?), *number),
            BoundExpr::Subquery(subquery) => self.subquery(subquery, layout)?,
            _ => return Err(SqlError::internal("an expression was not expected here")),
        })
    }

    pub(crate) fn exprs(&mut self, exprs: &[BoundExpr], layout: &Layout) -> Result<Vec<Expr>> {
        exprs.iter().map(|expr| self.expr(expr, layout)).collect()
    }

    fn pair(&mut self, pair: &[BoundExpr; 2], layout: &Layout) -> Result<Box<[Expr; 2]>> {
        Ok(Box::new([self.expr(&pair[0], layout)?, self.expr(&pair[1], layout)?]))
    }

    fn column(&mut self, relation: RelationId, column: usize, layout: &Layout) -> Result<Expr> {
        if let Some(slot) = layout.slot(Key::Column(relation, column)) {
            return Ok(Expr::Slot(slot));
        }
        match self.merged.get(&relation).and_then(|columns| columns.get(column)).cloned() {
            Some(expr) => self.expr(&expr, layout),
            None => Ok(Expr::Outer(self.outer(Key::Column(relation, column)))),
        }
    }

    /// `GROUPING(…)`: the number of the grouping set decides.
    fn grouping(&mut self, groups: &[usize], layout: &Layout) -> Result<Expr> {
        let Some(sets) = self.grouping_sets.clone() else {
            return Err(SqlError::internal("GROUPING outside of a grouped query"));
        };
        let bits = |set: &Vec<usize>| {
            groups.iter().fold(0, |bits, group| (bits << 1) | i32::from(!set.contains(group)))
        };
        if sets.len() == 1 {
            return Ok(Expr::Constant(Value::Int4(bits(&sets[0]))));
        }
        let arms = sets.iter().enumerate().map(|(number, set)| {
            let is_set = [Expr::CaseOperand, Expr::Constant(Value::Int4(number as i32))];
            (Expr::Compare(Comparison::Equal, Box::new(is_set)), Expr::Constant(Value::Int4(bits(set))))
        });
        let operand = Some(self.key(Key::GroupingSet, layout));
        Ok(Expr::Case(Box::new(Case {
            operand,
            arms: arms.collect(),
            otherwise: Expr::Constant(Value::Null),
        })))
    }

    fn subquery(&mut self, subquery: &Subquery, layout: &Layout) -> Result<Expr> {
        self.alternatives += 1;
        let planned = self.subplan(subquery, layout);
        self.alternatives -= 1;
        Ok(Expr::Subquery(Arc::new(planned?)))
    }

    fn subplan(&mut self, subquery: &Subquery, layout: &Layout) -> Result<SubPlan> {
        let (mut plan, frame) = self.framed(|planner| planner.query(&subquery.query))?;
        prune(&mut plan);
        let kind = match &subquery.kind {
            SubqueryKind::Exists => SubPlanKind::Exists,
            SubqueryKind::Scalar { .. } => SubPlanKind::Scalar(0),
            SubqueryKind::ScalarField { number, .. } => SubPlanKind::Scalar(*number),
            SubqueryKind::Array { ty } => SubPlanKind::Array(ty.element().unwrap_or(Type::Unknown)),
            SubqueryKind::Quantified { left, operators, quantifier } => SubPlanKind::Quantified {
                left: self.exprs(left, layout)?,
                operators: operators.iter().map(|operator| operator_call(operator)).collect::<Result<_>>()?,
                quantifier: *quantifier,
            },
        };
        let bindings = self.bindings(&frame, layout);
        let mut is_volatile = false;
        walk_query(&subquery.query, &mut |expr| is_volatile |= is_volatile_call(expr));
        // A subquery that sees nothing of the row is run once, even if it is volatile.
        let is_stable = !frame.changes && (bindings.is_empty() || !is_volatile);
        let keyed = match is_stable && !bindings.is_empty() {
            true => self.keyed(subquery, &plan, layout)?,
            false => None,
        };
        self.caches += 1;
        Ok(SubPlan { plan, kind, bindings, cache: self.caches - 1, is_stable, keyed })
    }
}

impl Planner<'_> {
    /// A subscript: one index for each dimension.
    fn subscript(&mut self, expr: &BoundExpr, layout: &Layout) -> Result<Expr> {
        let BoundExpr::Subscript { array, indexes, .. } = expr else { return self.expr(expr, layout) };
        let subscripts = indexes.iter().map(|index| self.expr(index, layout)).collect::<Result<Vec<_>>>()?;
        Ok(Expr::Subscript(Box::new((self.expr(array, layout)?, subscripts))))
    }
}

fn call_of(
    function: &'static Function,
    arguments: Vec<Expr>,
    types: Vec<Type>,
    result: Type,
) -> Result<Call> {
    let Some(code) = function.scalar() else {
        return Err(SqlError::internal(format!("{} is not a scalar function", function.name)));
    };
    let is_comparison = comparison_of(function).is_some();
    let is_routine = crate::bind::routines::is_call(function);
    let integers = IntegerOperation::of(function, &types);
    Ok(Call { function, code, arguments, is_comparison, is_routine, integers, types, result })
}

fn call(function: &'static Function, arguments: Vec<Expr>, types: Vec<Type>, result: Type) -> Result<Expr> {
    Ok(Expr::Call(Box::new(call_of(function, arguments, types, result)?)))
}

/// An operator to be applied to values.
pub(crate) fn operator_call(operator: &'static Function) -> Result<Call> {
    call_of(operator, Vec::new(), operator.arguments.clone(), Type::Bool)
}

fn compare(comparison: Comparison, arguments: Vec<Expr>) -> Expr {
    match <[Expr; 2]>::try_from(arguments) {
        Ok(sides) => Expr::Compare(comparison, Box::new(sides)),
        Err(_) => Expr::Constant(Value::Null),
    }
}

/// A conversion.
pub(crate) fn cast(operand: Expr, from: Type, to: Type, modifier: Modifier, explicit: bool) -> Result<Expr> {
    let context = if explicit { CastContext::Explicit } else { CastContext::Assignment };
    let Some(cast) = crate::types::cast::Cast::find(from, to, modifier, context) else {
        return Err(no_cast(from, to));
    };
    let is_relabel = modifier.is_none() && crate::types::cast::is_relabel(from, to);
    if cast.is_identity() || (is_relabel && is_same_value(from, to)) {
        return Ok(operand);
    }
    Ok(Expr::Cast(Box::new(Cast { operand, cast })))
}

/// Returns true if values of two types have the same representation.
fn is_same_value(from: Type, to: Type) -> bool {
    let is_text = |ty| matches!(ty, Type::Text | Type::Varchar);
    from == to || (is_text(from) && is_text(to)) || (from, to) == (Type::Cidr, Type::Inet)
}

/// An expression whose operands are constants, as its value; one that fails stays, and fails when it is evaluated.
fn fold(expr: Expr) -> Expr {
    let is_constant = match &expr {
        Expr::Call(call) => {
            call.function.is_foldable()
                && call.arguments.iter().all(|argument| argument.as_constant().is_some())
        }
        Expr::Cast(cast) => {
            cast.operand.as_constant().is_some() && is_fixed_cast(cast.cast.from, cast.cast.to)
        }
        _ => false,
    };
    if !is_constant {
        return expr;
    }
    crate::run::constant_value(&expr).map_or(expr, Expr::Constant)
}

/// An expression over rows of this layout, outside of any statement.
pub(crate) fn alone(expr: &BoundExpr, layout: &Layout) -> Result<Expr> {
    Planner::new(&NoTables).expr(expr, layout)
}

/// The value of an expression that names nothing but constants.
pub(crate) fn constant_value(expr: &BoundExpr) -> Result<Value> {
    let mut planner = Planner::new(&NoTables);
    let expr = planner.expr(expr, &Layout::default())?;
    crate::run::constant_value(&expr)
}

/// The value of an expression that reads no table, where statements run: a default's. `None` if it may have another
/// value for each row.
///
/// # Errors
/// The expression's.
pub(crate) fn value_for_all_rows(
    expr: &BoundExpr,
    environment: &mut dyn Environment,
) -> Result<Option<Value>> {
    let mut is_one = true;
    walk(expr, &mut |part| {
        is_one &= !is_volatile_call(part) && !matches!(part, BoundExpr::Subquery(_));
    });
    if !is_one {
        return Ok(None);
    }
    let mut planner = Planner::new(&NoTables);
    let expr = planner.expr(expr, &Layout::default())?;
    crate::run::value_alone(&expr, environment).map(Some)
}

/// An implementation of [`Known`] without any table.
struct NoTables;

impl Known for NoTables {
    fn table(&self, _oid: u32) -> Option<Arc<Table>> {
        None
    }

    fn referencing(&self, _oid: u32) -> Vec<Arc<Table>> {
        Vec::new()
    }

    fn row_rules(&self, _: &Arc<Table>) -> Result<BoundRowRules> {
        Ok(BoundRowRules::none())
    }

    fn statistics(&self, _table: &Table) -> Arc<TableStatistics> {
        Arc::new(TableStatistics::unknown(0))
    }
}

/// Returns true if a cast between two types depends on nothing but the value.
pub(crate) fn is_fixed_cast(from: Type, to: Type) -> bool {
    let plain = |ty: Type| {
        matches!(
            ty,
            Type::Bool | Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric | Type::Float8 | Type::Float4
        )
    };
    // Texts of moments depend on settings.
    let is_text = |ty: Type| matches!(ty, Type::Text | Type::Varchar);
    let is_exact = |ty: Type| matches!(ty, Type::Bool | Type::Int2 | Type::Int4 | Type::Int8 | Type::Numeric);
    (plain(from) && plain(to))
        || (is_text(from) && (plain(to) || matches!(to, Type::Uuid | Type::Jsonb)))
        || (is_exact(from) && is_text(to))
}

/// The sorted values of a list of constants, and whether NULL is among them.
fn constants_of(list: &[Expr], equals: &Function) -> Option<(Vec<Value>, bool)> {
    comparison_of(equals)?;
    let mut values: Vec<Value> =
        list.iter().map(|item| item.as_constant().cloned()).collect::<Option<_>>()?;
    let count = values.len();
    values.retain(|value| !value.is_null());
    let has_null = values.len() < count;
    values.sort();
    values.dedup();
    Some((values, has_null))
}

/// The fields of a row: called as they are named, or `f1`, `f2`, …
fn record_fields(fields: &[BoundExpr], names: Option<&[Arc<str>]>) -> Arc<[RecordField]> {
    let name = |at: usize| match names.and_then(|names| names.get(at)) {
        Some(name) => name.clone(),
        None => format!("f{}", at + 1).into(),
    };
    fields.iter().enumerate().map(|(at, field)| RecordField { name: name(at), kind: field.ty() }).collect()
}
