//! Constant folding: expressions that depend on no row are computed when the statement is planned.
//!
//! The rules are PostgreSQL's (`eval_const_expressions`, `canonicalize_qual`), because they decide which statements fail: a
//! division by zero among constants is an error even if no row would reach it, and a strict operator with a NULL is NULL
//! even if its other side would fail.
//!
//! # Invariants
//! - An expression keeps its type.
//! - Only immutable functions are evaluated; parameters stay.

use crate::bind::tree::walk::{children_mut, names_columns, walk};
use crate::bind::tree::{Arm, BoundExpr, Quantifier, SubqueryKind};
use crate::error::{Result, SqlState};
use crate::functions::Volatility;
use crate::plan::{constant_value, is_fixed_cast};
use crate::rewrite::statement::{Constants, Folding, drop_targets};
use crate::types::{Type, Value};

pub(super) fn boolean(value: bool) -> BoundExpr {
    BoundExpr::constant(Value::Bool(value), Type::Bool)
}

/// `x = ANY (ARRAY[y])` as `x = y`, if it is of that form.
fn comparison_with_only(expr: &mut BoundExpr) -> Option<BoundExpr> {
    let BoundExpr::Quantified { operand, array, operator, quantifier: Quantifier::Any } = expr else {
        return None;
    };
    let BoundExpr::Array { elements, .. } = &mut **array else { return None };
    let [only] = &mut elements[..] else { return None };
    // An array as an element makes the array one of several dimensions, whose elements are compared.
    if operator.name != "=" || only.ty().is_array() {
        return None;
    }
    let take = |expr: &mut BoundExpr| std::mem::replace(expr, boolean(true));
    Some(BoundExpr::Operator { operator, args: vec![take(operand), take(only)], ty: Type::Bool })
}

/// The value of a constant of type boolean; `None` for anything else.
pub(super) fn truth(expr: &BoundExpr) -> Option<Option<bool>> {
    match expr {
        BoundExpr::Constant { value: Value::Bool(value), .. } => Some(Some(*value)),
        BoundExpr::Constant { value: Value::Null, .. } => Some(None),
        _ => None,
    }
}

fn is_constant(expr: &BoundExpr) -> bool {
    matches!(expr, BoundExpr::Constant { .. })
}

fn is_null(expr: &BoundExpr) -> bool {
    matches!(expr, BoundExpr::Constant { value: Value::Null, .. })
}

impl Folding<'_> {
    /// Folds an expression.
    pub(super) fn fold(&mut self, expr: &mut BoundExpr) -> Result<()> {
        crate::stack::grow(|| match expr {
            BoundExpr::Constant { .. } | BoundExpr::Column { .. } => Ok(()),
            BoundExpr::Parameter { number, ty } => {
                if let Some(value) = self.parameters.get(*number) {
                    *expr = BoundExpr::constant(value.clone(), *ty);
                }
                Ok(())
            }
            BoundExpr::Aggregate { query, number, .. } => {
                self.met.insert((*query, *number));
                Ok(())
            }
            BoundExpr::And(_) => self.fold_connective(expr, false),
            BoundExpr::Or(_) => self.fold_connective(expr, true),
            BoundExpr::Not(operand) => {
                self.fold(operand)?;
                let operand = std::mem::replace(&mut **operand, boolean(true));
                *expr = negated(operand);
                Ok(())
            }
            BoundExpr::Case { .. } => self.fold_case(expr),
            BoundExpr::Coalesce { .. } => self.fold_coalesce(expr),
            BoundExpr::Subquery(subquery) => {
                if matches!(subquery.kind, SubqueryKind::Exists) {
                    drop_targets(&mut subquery.query);
                }
                self.fold_query(&mut subquery.query)?;
                self.fold_children(expr)
            }
            BoundExpr::InList { .. } => {
                let Some((parts, is_negated)) = alternatives(expr) else {
                    self.fold_children(expr)?;
                    return self.reduce(expr);
                };
                *expr = BoundExpr::Or(parts);
                self.fold_connective(expr, true)?;
                if is_negated {
                    *expr = negated(std::mem::replace(expr, boolean(true)));
                }
                Ok(())
            }
            BoundExpr::Quantified { .. } => {
                self.fold_children(expr)?;
                if let Some(comparison) = comparison_with_only(expr) {
                    *expr = comparison;
                }
                self.reduce(expr)
            }
            _ => {
                self.fold_children(expr)?;
                self.reduce(expr)
            }
        })
    }

    fn reduce(&mut self, expr: &mut BoundExpr) -> Result<()> {
        match reduce(expr) {
            Err(_) if self.constants == Constants::MayFail => {
                self.has_failed = true;
                Ok(())
            }
            done => done,
        }
    }

    fn fold_children(&mut self, expr: &mut BoundExpr) -> Result<()> {
        let mut done = Ok(());
        children_mut(expr, &mut |child| {
            if done.is_ok() {
                done = self.fold(child);
            }
        });
        done
    }

    /// Folds AND or OR: constants are dropped, and one that decides it ends it; the parts after that are not folded.
    fn fold_connective(&mut self, expr: &mut BoundExpr, is_or: bool) -> Result<()> {
        let (BoundExpr::And(parts) | BoundExpr::Or(parts)) = expr else { return Ok(()) };
        let (mut kept, mut has_null) = (Vec::with_capacity(parts.len()), false);
        for mut part in std::mem::take(parts) {
            self.fold(&mut part)?;
            match truth(&part) {
                Some(Some(value)) if value == is_or => {
                    *expr = boolean(is_or);
                    return Ok(());
                }
                Some(Some(_)) => {}
                Some(None) => has_null = true,
                None => kept.push(part),
            }
        }
        if has_null {
            kept.push(BoundExpr::null(Type::Bool));
        }
        flatten(&mut kept, is_or);
        *expr = match (kept.len(), is_or) {
            (0, _) => boolean(!is_or),
            (1, _) => kept.remove(0),
            (_, true) => BoundExpr::Or(kept),
            (_, false) => BoundExpr::And(kept),
        };
        Ok(())
    }

    fn fold_case(&mut self, expr: &mut BoundExpr) -> Result<()> {
        let BoundExpr::Case { operand, arms, otherwise, .. } = expr else { return Ok(()) };
        if let Some(value) = operand {
            self.fold(value)?;
            if is_constant(value) {
                arms.iter_mut().for_each(|arm| name_operand(&mut arm.when, value));
                name_operand(otherwise, value);
                *operand = None;
            }
        }
        let mut kept = Vec::with_capacity(arms.len());
        for Arm { mut when, mut then } in std::mem::take(arms) {
            self.fold(&mut when)?;
            match truth(&when) {
                Some(Some(true)) => {
                    self.fold(&mut then)?;
                    **otherwise = then;
                    *arms = kept;
                    settle_case(expr);
                    return Ok(());
                }
                Some(_) => {}
                None => {
                    self.fold(&mut then)?;
                    kept.push(Arm { when, then });
                }
            }
        }
        *arms = kept;
        self.fold(otherwise)?;
        settle_case(expr);
        Ok(())
    }

    fn fold_coalesce(&mut self, expr: &mut BoundExpr) -> Result<()> {
        let BoundExpr::Coalesce { operands, ty } = expr else { return Ok(()) };
        let mut kept = Vec::with_capacity(operands.len());
        for mut operand in std::mem::take(operands) {
            self.fold(&mut operand)?;
            if is_null(&operand) {
                continue;
            }
            let ends = is_constant(&operand);
            kept.push(operand);
            if ends {
                break;
            }
        }
        *expr = match kept.len() {
            0 => BoundExpr::null(*ty),
            1 => kept.remove(0),
            _ => BoundExpr::Coalesce { operands: kept, ty: *ty },
        };
        Ok(())
    }
}

/// A list in which some items depend on rows, as alternatives: the others as a list, and an equality for each of these; and
/// true if they are to be negated. `None` if no item depends on rows.
fn alternatives(expr: &BoundExpr) -> Option<(Vec<BoundExpr>, bool)> {
    let BoundExpr::InList { operand, list, equals, negated } = expr else { return None };
    let depends = |item: &&BoundExpr| names_columns(item) || names_group(item);
    let (variable, fixed): (Vec<&BoundExpr>, Vec<&BoundExpr>) = list.iter().partition(depends);
    if variable.is_empty() || is_volatile(operand) {
        return None;
    }
    let equal = |item: &BoundExpr| BoundExpr::Operator {
        operator: equals,
        args: vec![(**operand).clone(), item.clone()],
        ty: Type::Bool,
    };
    let mut parts = Vec::with_capacity(list.len());
    if fixed.len() > 1 {
        let list = fixed.into_iter().cloned().collect();
        parts.push(BoundExpr::InList { operand: operand.clone(), list, equals, negated: false });
        parts.extend(variable.into_iter().map(equal));
    } else {
        parts.extend(list.iter().map(equal));
    }
    Some((parts, *negated))
}

pub(super) fn is_volatile(expr: &BoundExpr) -> bool {
    let mut is_volatile = false;
    walk(expr, &mut |part| {
        is_volatile |=
            matches!(part, BoundExpr::Call { function, .. } if function.volatility == Volatility::Volatile);
    });
    is_volatile
}

fn names_group(expr: &BoundExpr) -> bool {
    let mut names = false;
    walk(expr, &mut |part| names |= matches!(part, BoundExpr::Group { .. } | BoundExpr::Aggregate { .. }));
    names
}

/// Puts the parts of alternatives into the alternatives around them, or of conjunctions.
pub(super) fn flatten(parts: &mut Vec<BoundExpr>, is_or: bool) {
    let is_same = |part: &BoundExpr| match part {
        BoundExpr::Or(_) => is_or,
        BoundExpr::And(_) => !is_or,
        _ => false,
    };
    if !parts.iter().any(is_same) {
        return;
    }
    for part in std::mem::take(parts) {
        match part {
            BoundExpr::Or(inner) if is_or => parts.extend(inner),
            BoundExpr::And(inner) if !is_or => parts.extend(inner),
            other => parts.push(other),
        }
    }
}

/// The negation of a folded condition, pushed inwards.
fn negated(expr: BoundExpr) -> BoundExpr {
    match expr {
        BoundExpr::Constant { value: Value::Bool(value), .. } => boolean(!value),
        BoundExpr::Constant { value: Value::Null, .. } => BoundExpr::null(Type::Bool),
        BoundExpr::Not(operand) => *operand,
        BoundExpr::And(parts) => BoundExpr::Or(parts.into_iter().map(negated).collect()),
        BoundExpr::Or(parts) => BoundExpr::And(parts.into_iter().map(negated).collect()),
        BoundExpr::IsNull { operand, negated } if !matches!(*operand, BoundExpr::Row { .. }) => {
            BoundExpr::IsNull { operand, negated: !negated }
        }
        BoundExpr::IsTruth { operand, value, negated } => {
            BoundExpr::IsTruth { operand, value, negated: !negated }
        }
        BoundExpr::InList { operand, list, equals, negated } => {
            BoundExpr::InList { operand, list, equals, negated: !negated }
        }
        other => BoundExpr::Not(Box::new(other)),
    }
}

/// A CASE without arms is its ELSE.
fn settle_case(expr: &mut BoundExpr) {
    if let BoundExpr::Case { operand, arms, otherwise, .. } = expr
        && arms.is_empty()
    {
        if let (Some(operand), BoundExpr::CaseOperand { .. }) = (operand, &**otherwise) {
            *expr = std::mem::replace(&mut **operand, boolean(true));
            return;
        }
        *expr = std::mem::replace(&mut **otherwise, boolean(true));
    }
}

/// Puts the constant operand of a CASE where its conditions name it, or its ELSE.
fn name_operand(expr: &mut BoundExpr, value: &BoundExpr) {
    match expr {
        BoundExpr::CaseOperand { .. } => *expr = value.clone(),
        BoundExpr::Case { operand: Some(_), .. } => {}
        other => children_mut(other, &mut |child| name_operand(child, value)),
    }
}

/// An expression whose parts are folded, as its value if that is known.
fn reduce(expr: &mut BoundExpr) -> Result<()> {
    let is_known = match expr {
        BoundExpr::Call { function, args, ty } | BoundExpr::Operator { operator: function, args, ty } => {
            if function.is_strict && args.iter().any(is_null) {
                *expr = BoundExpr::null(*ty);
                return Ok(());
            }
            function.is_foldable() && args.iter().all(is_constant)
        }
        BoundExpr::Cast { operand, ty, .. } if is_null(operand) => {
            *expr = BoundExpr::null(*ty);
            return Ok(());
        }
        BoundExpr::Cast { operand, ty, .. } => is_constant(operand) && is_fixed_cast(operand.ty(), *ty),
        BoundExpr::IsNull { operand, .. } | BoundExpr::IsTruth { operand, .. } => is_constant(operand),
        BoundExpr::IsDistinct { operands, equals, .. } => {
            equals.is_foldable() && operands.iter().all(is_constant)
        }
        BoundExpr::NullIf { operands, .. } if operands.iter().any(is_null) => {
            let [first, _] = &mut **operands;
            *expr = std::mem::replace(first, boolean(true));
            return Ok(());
        }
        BoundExpr::NullIf { operands, equals, .. } => {
            equals.is_foldable() && operands.iter().all(is_constant)
        }
        BoundExpr::Array { elements, .. } => elements.iter().all(is_constant),
        BoundExpr::MinMax { operands, .. } => operands.iter().all(is_constant),
        BoundExpr::InList { list, .. } if matches!(&list[..], [item] if is_null(item)) => {
            *expr = BoundExpr::null(Type::Bool);
            return Ok(());
        }
        BoundExpr::InList { operand, list, equals, .. } => {
            equals.is_foldable() && is_constant(operand) && list.iter().all(is_constant)
        }
        _ => false,
    };
    if is_known {
        match constant_value(expr) {
            // A plan keeps no large constants: each execution computes the value.
            Err(error) if error.state() == SqlState::OUT_OF_MEMORY => {}
            value => *expr = BoundExpr::constant(value?, expr.ty()),
        }
    }
    Ok(())
}
