//! The expressions of keys: which variables they depend on, why they cannot be computed in advance, and how they are shown.
//!
//! # Invariants
//! - An expression that passes [`depends_on`] has the same value whenever it is evaluated with the same variables.

use crate::functions::Volatility;
use crate::plan::expression::{Call, Expr};
use crate::routine::footprint::accesses::Reason;
use crate::types::Value;

/// Passes the numbers of the parameters that an expression depends on.
///
/// # Errors
/// The reason for which it cannot be computed in advance.
pub(crate) fn depends_on(expr: &Expr, parameter: &mut dyn FnMut(usize)) -> Result<(), Reason> {
    let mut every = |parts: &[Expr]| parts.iter().try_for_each(|part| depends_on(part, parameter));
    match expr {
        Expr::Constant(_) => Ok(()),
        Expr::Parameter(number) => {
            parameter(*number);
            Ok(())
        }
        Expr::Slot(_) | Expr::Outer(_) => Err("a column of another row of the statement".to_string()),
        Expr::Call(call) => {
            check_call(call)?;
            every(&call.arguments)
        }
        Expr::Compare(_, sides) | Expr::IsDistinct(sides, ..) | Expr::NullIf(sides, _) => every(&sides[..]),
        Expr::Cast(cast) => depends_on(&cast.operand, parameter),
        Expr::And(parts)
        | Expr::Or(parts)
        | Expr::Coalesce(parts)
        | Expr::MinMax(_, parts)
        | Expr::Array(parts, _)
        | Expr::Row(parts, _) => every(parts),
        Expr::Not(part) | Expr::IsNull(part, _) | Expr::IsTruth(part, ..) | Expr::Field(part, _) => {
            depends_on(part, parameter)
        }
        Expr::Subscript(parts) => {
            every(std::slice::from_ref(&parts.0))?;
            every(&parts.1)
        }
        Expr::Case(case) => {
            case.operand.iter().try_for_each(|operand| depends_on(operand, parameter))?;
            for (condition, value) in &case.arms {
                depends_on(condition, parameter)?;
                depends_on(value, parameter)?;
            }
            depends_on(&case.otherwise, parameter)
        }
        Expr::CaseOperand => Ok(()),
        Expr::InList(list) => {
            check_call(&list.equals)?;
            every(std::slice::from_ref(&list.operand))?;
            every(&list.list)
        }
        Expr::Quantified(quantified) => {
            check_call(&quantified.operator)?;
            every(std::slice::from_ref(&quantified.operand))?;
            every(std::slice::from_ref(&quantified.array))
        }
        Expr::Slice(parts) => {
            every(std::slice::from_ref(&parts.0))?;
            every(parts.1.as_slice())?;
            every(parts.2.as_slice())
        }
        Expr::Subquery(_) => Err("a subquery".to_string()),
    }
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
