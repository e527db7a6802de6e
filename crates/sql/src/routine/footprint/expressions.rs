//! The expressions of keys: the variables they depend on, the reasons why they cannot be computed in advance, and their
//! texts.
//!
//! # Invariants
//! - An expression that passes [`depends_on`] has the same value whenever it is evaluated with the same variables.

use crate::functions::Volatility;
use crate::plan::expression::{Call, Expr, SubPlanKind};
use crate::plan::node::Plan;
use crate::routine::footprint::accesses::Reason;
use crate::types::Value;

/// The parts of an expression, those of a subquery's plan left out.
fn parts(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Constant(_) | Expr::Slot(_) | Expr::Parameter(_) | Expr::Outer(_) | Expr::CaseOperand => {
            Vec::new()
        }
        Expr::Call(call) => call.arguments.iter().collect(),
        Expr::Compare(_, sides) | Expr::IsDistinct(sides, ..) | Expr::NullIf(sides, _) => {
            sides.iter().collect()
        }
        Expr::Cast(cast) => vec![&cast.operand],
        Expr::And(parts)
        | Expr::Or(parts)
        | Expr::Coalesce(parts)
        | Expr::MinMax(_, parts)
        | Expr::Array(parts, _)
        | Expr::Row(parts, _, _) => parts.iter().collect(),
        Expr::Not(part) | Expr::IsNull(part, _) | Expr::IsTruth(part, ..) | Expr::Field(part, _) => {
            vec![part]
        }
        Expr::Subscript(parts) => [&parts.0].into_iter().chain(&parts.1).collect(),
        Expr::Case(case) => {
            let arms = case.arms.iter().flat_map(|(condition, value)| [condition, value]);
            case.operand.iter().chain(arms).chain([&case.otherwise]).collect()
        }
        Expr::InList(list) => [&list.operand].into_iter().chain(&list.list).collect(),
        Expr::Quantified(quantified) => vec![&quantified.operand, &quantified.array],
        Expr::Slice(parts) => {
            let bounds = parts.1.iter().flat_map(|(lower, upper)| lower.iter().chain(upper));
            [&parts.0].into_iter().chain(bounds).collect()
        }
        Expr::Subquery(query) => match &query.kind {
            SubPlanKind::Quantified { left, .. } => left.iter().collect(),
            _ => Vec::new(),
        },
    }
}

/// The plans of an expression's subqueries.
pub(crate) fn subqueries<'e>(expr: &'e Expr, into: &mut Vec<&'e Plan>) {
    if let Expr::Subquery(query) = expr {
        into.push(&query.plan);
    }
    parts(expr).into_iter().for_each(|part| subqueries(part, into));
}

/// Passes the calls of routines in an expression, those in subqueries left out.
pub(crate) fn calls_of<'e>(expr: &'e Expr, note: &mut dyn FnMut(&'e Call)) {
    if let Expr::Call(call) = expr
        && call.is_routine
    {
        note(call);
    }
    parts(expr).into_iter().for_each(|part| calls_of(part, note));
}

/// Passes the numbers of the parameters that an expression depends on.
///
/// # Errors
/// The reason for which it cannot be computed in advance.
pub(crate) fn depends_on(expr: &Expr, parameter: &mut dyn FnMut(usize)) -> Result<(), Reason> {
    match expr {
        Expr::Parameter(number) => parameter(*number),
        Expr::Slot(_) | Expr::Outer(_) => return Err("a column of another row of the statement".to_string()),
        Expr::Subquery(_) => return Err("a subquery".to_string()),
        Expr::Call(call) => check_call(call)?,
        Expr::IsDistinct(_, call, _) | Expr::NullIf(_, call) => check_call(call)?,
        Expr::InList(list) => check_call(&list.equals)?,
        Expr::Quantified(quantified) => check_call(&quantified.operator)?,
        _ => {}
    }
    parts(expr).into_iter().try_for_each(|part| depends_on(part, parameter))
}

fn check_call(call: &Call) -> Result<(), Reason> {
    match call.function.volatility {
        _ if call.is_routine => Err("the result of a routine".to_string()),
        Volatility::Immutable => Ok(()),
        Volatility::Stable | Volatility::Volatile => {
            Err(format!("{}(), which is not immutable", call.function.name))
        }
    }
}

/// An expression as text; parameters by the names that `name` gives them.
pub(crate) fn shown(expr: &Expr, name: &dyn Fn(usize) -> String) -> String {
    let list = |parts: &[Expr]| parts.iter().map(|part| shown(part, name)).collect::<Vec<_>>().join(", ");
    match expr {
        Expr::Constant(value) => constant(value),
        Expr::Parameter(number) => name(*number),
        Expr::Cast(cast) => shown(&cast.operand, name),
        Expr::Call(call) => match &call.arguments[..] {
            [left, right] if is_operator(call) => {
                format!("{} {} {}", shown(left, name), call.function.name, shown(right, name))
            }
            arguments => format!("{}({})", call.function.name, list(arguments)),
        },
        Expr::Subscript(parts) => format!("{}[{}]", shown(&parts.0, name), list(&parts.1)),
        Expr::Coalesce(parts) => format!("coalesce({})", list(parts)),
        Expr::Array(parts, _) => format!("array[{}]", list(parts)),
        _ => "(…)".to_string(),
    }
}

fn is_operator(call: &Call) -> bool {
    !call.function.name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
}

fn constant(value: &Value) -> String {
    match value {
        Value::Null => "null".to_string(),
        Value::Int2(value) => value.to_string(),
        Value::Int4(value) => value.to_string(),
        Value::Int8(value) => value.to_string(),
        Value::Bool(value) => value.to_string(),
        Value::Text(text) => format!("'{text}'"),
        _ => "(…)".to_string(),
    }
}
