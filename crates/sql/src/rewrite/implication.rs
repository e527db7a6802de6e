//! Implication of conditions: it decides if a query reads only rows that a partial index holds.
//!
//! # Invariants
//! - The answer is yes only if each row for which all conditions are true is one for which the implied condition is true.
//!   It may be no although the implication holds.
//!
//! Source: PostgreSQL 15, `predtest.c`, of which this is the part that partial indexes meet in practice.

use std::cmp::Ordering;

use crate::bind::tree::{BoundExpr, Quantifier, TruthValue};
use crate::plan::comparison_of;
use crate::plan::expression::Comparison;
use crate::types::{Type, Value};

/// Returns true if these conditions, all of them true of a row, make another one true of it.
pub(crate) fn implies(conditions: &[&BoundExpr], implied: &BoundExpr) -> bool {
    if conditions.iter().any(|condition| implies_alone(condition, implied)) {
        return true;
    }
    match implied {
        BoundExpr::And(parts) => parts.iter().all(|part| implies(conditions, part)),
        BoundExpr::Or(parts) => parts.iter().any(|part| implies(conditions, part)),
        _ => false,
    }
}

fn implies_alone(condition: &BoundExpr, implied: &BoundExpr) -> bool {
    if condition == implied {
        return true;
    }
    match (condition, implied) {
        (BoundExpr::And(parts), _) => {
            let parts: Vec<&BoundExpr> = parts.iter().collect();
            implies(&parts, implied)
        }
        (BoundExpr::Or(parts), _) => parts.iter().all(|part| implies_alone(part, implied)),
        (_, BoundExpr::IsNull { operand, negated: true }) => is_false_of_null(condition, operand),
        _ => {
            let same_truth = truth_of(implied).is_some_and(|truth| truth_of(condition) == Some(truth));
            same_truth || values_imply(condition, implied)
        }
    }
}

/// The boolean expression that a condition is about, and the value for which it is true.
fn truth_of(condition: &BoundExpr) -> Option<(&BoundExpr, bool)> {
    match condition {
        BoundExpr::Not(operand) => truth_of(operand).map(|(of, value)| (of, !value)),
        BoundExpr::IsTruth { operand, value: TruthValue::True, negated: false } => Some((operand, true)),
        BoundExpr::IsTruth { operand, value: TruthValue::False, negated: false } => Some((operand, false)),
        BoundExpr::Operator { operator, args, .. } if operator.name == "=" => match &args[..] {
            [of, BoundExpr::Constant { value: Value::Bool(value), .. }]
            | [BoundExpr::Constant { value: Value::Bool(value), .. }, of] => Some((of, *value)),
            _ => None,
        },
        BoundExpr::Column { ty: Type::Bool, .. } => Some((condition, true)),
        _ => None,
    }
}

/// Returns true if a condition is not true where an expression is NULL.
fn is_false_of_null(condition: &BoundExpr, operand: &BoundExpr) -> bool {
    let is_it = |expr: &BoundExpr| is_null_with(expr, operand);
    match condition {
        BoundExpr::InList { operand, negated: false, .. }
        | BoundExpr::Quantified { operand, quantifier: Quantifier::Any, .. } => is_it(operand),
        _ => is_it(condition) || truth_of(condition).is_some_and(|(of, _)| is_it(of)),
    }
}

/// Returns true if an expression is NULL where another one is.
fn is_null_with(expr: &BoundExpr, operand: &BoundExpr) -> bool {
    match expr {
        _ if expr == operand => true,
        BoundExpr::Cast { operand: inner, .. } => is_null_with(inner, operand),
        BoundExpr::Operator { operator: function, args, .. } | BoundExpr::Call { function, args, .. } => {
            function.is_strict && args.iter().any(|arg| is_null_with(arg, operand))
        }
        _ => false,
    }
}

/// The values of an expression that satisfy a condition.
enum Values<'e> {
    /// It compares with a constant in this way.
    Compared(Comparison, &'e Value),
    /// It is one of these.
    OneOf(Vec<&'e Value>),
}

fn constant(expr: &BoundExpr) -> Option<(&Value, Type)> {
    match expr {
        BoundExpr::Constant { value, ty } if !value.is_null() => Some((value, *ty)),
        _ => None,
    }
}

/// The expression, the type of the constants, and the values that a condition allows.
fn values_of(condition: &BoundExpr) -> Option<(&BoundExpr, Type, Values<'_>)> {
    match condition {
        BoundExpr::Operator { operator, args, .. } => {
            let comparison = comparison_of(operator)?;
            let [left, right] = &args[..] else { return None };
            match (constant(left), constant(right)) {
                (None, Some((value, ty))) => Some((left, ty, Values::Compared(comparison, value))),
                (Some((value, ty)), None) => Some((right, ty, Values::Compared(comparison.swapped(), value))),
                _ => None,
            }
        }
        BoundExpr::InList { operand, list, equals, negated: false } => {
            comparison_of(equals)?;
            let constants = list.iter().map(constant).collect::<Option<Vec<_>>>()?;
            let (_, ty) = *constants.first()?;
            let values = constants.into_iter().map(|(value, _)| value).collect();
            Some((operand, ty, Values::OneOf(values)))
        }
        _ => None,
    }
}

/// Returns true if both conditions compare one expression with constants, and all values of the first are among the
/// second's.
fn values_imply(condition: &BoundExpr, implied: &BoundExpr) -> bool {
    let (Some((of, ty, given)), Some((implied_of, implied_ty, wanted))) =
        (values_of(condition), values_of(implied))
    else {
        return false;
    };
    let is_int = |ty| matches!(ty, Type::Int2 | Type::Int4 | Type::Int8);
    if of != implied_of || (ty != implied_ty && !(is_int(ty) && is_int(implied_ty))) {
        return false;
    }
    match (given, wanted) {
        (Values::Compared(Comparison::Equal, value), wanted) => accepts(&wanted, value),
        (Values::OneOf(values), wanted) => values.into_iter().all(|value| accepts(&wanted, value)),
        (Values::Compared(given, value), Values::Compared(wanted, bound)) => {
            range_implies(given, wanted, value.cmp(bound))
        }
        (Values::Compared(..), Values::OneOf(_)) => false,
    }
}

fn accepts(wanted: &Values<'_>, value: &Value) -> bool {
    match wanted {
        Values::Compared(comparison, bound) => comparison.holds(value.cmp(bound)),
        Values::OneOf(values) => values.contains(&value),
    }
}

/// Returns true if `x given a` implies `x wanted b`, where `order` is how `a` compares with `b`.
fn range_implies(given: Comparison, wanted: Comparison, order: Ordering) -> bool {
    use Comparison::{Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual};
    match (given, wanted) {
        (Less, Less | LessEqual | NotEqual) | (LessEqual, LessEqual) => order.is_le(),
        (LessEqual, Less | NotEqual) => order.is_lt(),
        (Greater, Greater | GreaterEqual | NotEqual) | (GreaterEqual, GreaterEqual) => order.is_ge(),
        (GreaterEqual, Greater | NotEqual) => order.is_gt(),
        (NotEqual, NotEqual) | (Equal, _) => order.is_eq() && given == wanted,
        _ => false,
    }
}
