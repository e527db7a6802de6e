//! Comparisons of a column with a value of another type, as bounds in the column's own type.
//!
//! `created >= date '2024-06-10'` compares a timestamp with a date, and `created > now() - interval '7 days'` one without a
//! zone with one that has a zone. Keys hold the column's type: the value is converted to it, and days are added to either
//! side where the conversion depends on a time zone, because local times jump.
//!
//! # Invariants
//! - Every row for which the comparison is true is within the bounds; others may be, so that they settle no condition.

use super::AtomKind;
use crate::bind::tree::BoundExpr;
use crate::functions::operators_named;
use crate::plan::expression::Comparison;
use crate::plan::translate::constant_value;
use crate::types::interval::Interval;
use crate::types::{Modifier, Type, Value};

/// Maximum difference between two offsets of one time zone, rounded up: a zone that crosses the date line skips a day.
const ZONE_JUMP: Interval = Interval::new(0, 2, 0);

/// The bounds that a comparison with a value of another type puts on a column of this type; `None` if there are none.
pub(super) fn converted(comparison: Comparison, column: Type, value: &BoundExpr) -> Option<Vec<AtomKind>> {
    let lower = || Some(AtomKind::Lower(bound(column, value, "-")?, true));
    let upper = || Some(AtomKind::Upper(bound(column, value, "+")?, true));
    match comparison {
        Comparison::Equal => Some(vec![lower()?, upper()?]),
        Comparison::Greater | Comparison::GreaterEqual => Some(vec![lower()?]),
        Comparison::Less | Comparison::LessEqual => Some(vec![upper()?]),
        Comparison::NotEqual => None,
    }
}

/// A value as one of the column's type. `outward`: the operator that moves it away from the rows that are wanted.
fn bound(column: Type, value: &BoundExpr, outward: &str) -> Option<BoundExpr> {
    let cast = |operand: BoundExpr| BoundExpr::Cast {
        operand: Box::new(operand),
        ty: column,
        modifier: Modifier::NONE,
        explicit: true,
    };
    match (column, value.ty()) {
        (Type::Timestamp, Type::Date) | (Type::Date, Type::Timestamp) | (Type::Float8, Type::Float4) => {
            let cast = cast(value.clone());
            let folded = matches!(value, BoundExpr::Constant { .. }).then(|| constant_value(&cast).ok());
            Some(folded.flatten().map_or(cast, |value| BoundExpr::constant(value, column)))
        }
        (Type::Timestamptz, Type::Date | Type::Timestamp) => Some(cast(value.clone())),
        (Type::Timestamp | Type::Date, Type::Timestamptz) => {
            let types = [Type::Timestamptz, Type::Interval];
            let operator = operators_named(outward).find(|operator| operator.arguments[..] == types)?;
            let days = BoundExpr::constant(Value::Interval(ZONE_JUMP), Type::Interval);
            let args = vec![value.clone(), days];
            Some(cast(BoundExpr::Operator { operator, args, ty: Type::Timestamptz }))
        }
        _ => None,
    }
}
