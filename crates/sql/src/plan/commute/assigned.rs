//! Classification of one assignment to a column: operations or a plain write.
//!
//! # Invariants
//! - A sum of the column's own integer type is checked at each step, as PostgreSQL checks it: one operation for each. A sum of
//!   a wider type, and of numerics, is checked where it is stored: one operation with the sum of all operands.
//! - No operation rounds: sums of floats, products of numerics and casts that lose something are reads.

use std::cell::Cell;

use crate::access::Commute;
use crate::bind::tree::{Arm, BoundExpr, MinMax, RelationId};
use crate::catalog::Table;
use crate::functions::{Function, TOP_K_INSERT, TOP_K_MERGE};
use crate::plan::commute::columns_of;
use crate::storage::{engine_type, is_one_word};
use crate::types::{Modifier, Type, Value};

/// The effect of an assignment.
pub(super) enum Assigned {
    /// The column gets this value.
    Plain(BoundExpr),
    /// Operations on the column, in order. `is_guarded`: it has to be proven that the result is a number of the
    /// column's type.
    Operations { operations: Vec<Operation>, is_guarded: bool },
}

/// One operation; see [`Commuting`](super::Commuting).
pub(super) struct Operation {
    pub(super) operation: Commute,
    pub(super) terms: Vec<(bool, BoundExpr)>,
    pub(super) skips_null: bool,
}

/// One step of an expression that begins with the column.
struct Step {
    kind: Commute,
    negated: bool,
    operand: BoundExpr,
    /// The type that it is computed in.
    ty: Type,
    skips_null: bool,
}

/// Classifies an assignment; an error says why it reads its own column.
pub(super) fn assigned(
    table: &Table,
    target: RelationId,
    column: usize,
    value: &BoundExpr,
) -> Result<Assigned, String> {
    let name = &table.columns[column].name;
    let taker = Taker::new(table, target, column);
    if taker.is_apart(value) {
        return Ok(Assigned::Plain(value.clone()));
    }
    let steps = taker.steps(taker.stored(value));
    taker.operations(steps.ok_or_else(|| format!("the new value of {name} is no operation on {name}"))?)
}

/// Takes an expression apart that begins with a column.
pub(super) struct Taker<'t> {
    table: &'t Table,
    target: RelationId,
    column: usize,
    /// COALESCE of the column was met: a NULL is another number.
    is_coalesced: Cell<bool>,
}

impl<'t> Taker<'t> {
    pub(super) fn new(table: &'t Table, target: RelationId, column: usize) -> Taker<'t> {
        Taker { table, target, column, is_coalesced: Cell::new(false) }
    }

    /// Returns true if an expression is the column itself, in a type that has all its values.
    pub(super) fn is_own(&self, expr: &BoundExpr) -> bool {
        self.is_column(expr) && !self.is_coalesced.get()
    }

    fn ty(&self) -> Type {
        self.table.columns[self.column].ty
    }

    fn modifier(&self) -> Modifier {
        self.table.columns[self.column].modifier
    }

    fn is_not_null(&self) -> bool {
        self.table.columns[self.column].not_null
    }

    /// Returns true if an expression does not name the column.
    fn is_apart(&self, expr: &BoundExpr) -> bool {
        !columns_of(expr, self.target).contains(&self.column)
    }

    /// The value before it is cast to the column's type: of integers the range is checked then, of numerics the digits.
    fn stored<'v>(&self, value: &'v BoundExpr) -> &'v BoundExpr {
        match value {
            BoundExpr::Cast { operand, ty, modifier, .. } => {
                let is_own =
                    *ty == self.ty() && (*modifier == self.modifier() || *modifier == Modifier::NONE);
                let is_exact = operand.ty() == *ty || is_integer(operand.ty()) && is_integer(*ty);
                if is_own && is_exact { self.stored(operand) } else { value }
            }
            _ => value,
        }
    }

    /// Returns true if an expression is the column itself, or COALESCE of it.
    fn is_column(&self, expr: &BoundExpr) -> bool {
        match expr {
            BoundExpr::Column { relation, column, .. } => *relation == self.target && *column == self.column,
            BoundExpr::Cast { operand, ty, modifier, .. } => {
                let is_own =
                    operand.ty() == *ty && (*modifier == self.modifier() || *modifier == Modifier::NONE);
                (is_own || widens(operand.ty(), *ty)) && self.is_column(operand)
            }
            BoundExpr::Coalesce { operands, .. } => {
                let is_it = operands.first().is_some_and(|first| self.is_column(first));
                self.is_coalesced.set(self.is_coalesced.get() || is_it && !self.is_not_null());
                is_it
            }
            _ => false,
        }
    }

    /// The steps from the column to the value, innermost first. `None` if it is no chain of operations.
    fn steps(&self, value: &BoundExpr) -> Option<Vec<Step>> {
        if self.is_column(value) {
            return Some(Vec::new());
        }
        match value {
            BoundExpr::Cast { operand, ty, modifier, .. }
                if widens(operand.ty(), *ty) || operand.ty() == *ty && *modifier == Modifier::NONE =>
            {
                self.steps(operand)
            }
            BoundExpr::Operator { operator, args, ty } => {
                let [left, right] = &args[..] else { return None };
                self.step_of_operator(operator.name, (left, right), *ty)
            }
            BoundExpr::MinMax { kind, operands, ty } => self.step_of_extreme(*kind, operands, *ty),
            BoundExpr::Call { function, args, ty } if *ty == Type::TopK => {
                self.step_of_top_k(function, args, *ty)
            }
            BoundExpr::Case { operand: None, arms, otherwise, ty } => {
                let [arm] = &arms[..] else { return None };
                self.step_of_case(arm, otherwise, *ty).map(|step| vec![step])
            }
            _ => None,
        }
    }

    fn step_of_operator(
        &self,
        name: &str,
        (left, right): (&BoundExpr, &BoundExpr),
        ty: Type,
    ) -> Option<Vec<Step>> {
        let (kind, negated) = match name {
            "+" => (Commute::Add, false),
            "-" => (Commute::Add, true),
            "*" => (Commute::Multiply, false),
            _ => return None,
        };
        let (inner, operand) = if self.is_apart(right) {
            (left, right)
        } else if self.is_apart(left) && !negated {
            (right, left)
        } else {
            return None;
        };
        let fits =
            if is_integer(ty) { is_integer(operand.ty()) } else { ty == operand.ty() && ty == self.ty() };
        let mut steps = self.steps(inner).filter(|_| fits)?;
        steps.push(Step { kind, negated, operand: operand.clone(), ty, skips_null: false });
        Some(steps)
    }

    /// GREATEST and LEAST of the column and others.
    fn step_of_extreme(&self, kind: MinMax, operands: &[BoundExpr], ty: Type) -> Option<Vec<Step>> {
        let (mine, others): (Vec<&BoundExpr>, Vec<&BoundExpr>) =
            operands.iter().partition(|operand| !self.is_apart(operand));
        let [mine] = mine[..] else { return None };
        let others: Vec<BoundExpr> = others.into_iter().cloned().collect();
        let operand = match <[BoundExpr; 1]>::try_from(others) {
            Ok([only]) => only,
            Err(operands) if operands.is_empty() => return self.steps(mine),
            Err(operands) => BoundExpr::MinMax { kind, operands, ty },
        };
        let kind = match kind {
            MinMax::Greatest => Commute::Max,
            // NULL is ignored by LEAST, and below everything to the engine.
            MinMax::Least if self.is_not_null() => Commute::Min,
            MinMax::Least => return None,
        };
        let mut steps = self.steps(mine)?;
        steps.push(Step { kind, negated: false, operand, ty, skips_null: true });
        Some(steps)
    }

    /// An insertion into the set that the column holds: the operand is the same insertion into no set.
    fn step_of_top_k(&self, function: &'static Function, args: &[BoundExpr], ty: Type) -> Option<Vec<Step>> {
        let at = args.iter().position(|arg| !self.is_apart(arg))?;
        let mut others = args.iter().enumerate().filter(|(other, _)| *other != at);
        let is_insertion = function.name == TOP_K_INSERT && at == 0 || function.name == TOP_K_MERGE;
        if !is_insertion || !others.all(|(_, arg)| self.is_apart(arg)) {
            return None;
        }
        let mut steps = self.steps(&args[at])?;
        let mut args = args.to_vec();
        args[at] = BoundExpr::constant(Value::Null, ty);
        let operand = BoundExpr::Call { function, args, ty };
        steps.push(Step { kind: Commute::TopK, negated: false, operand, ty, skips_null: true });
        Some(steps)
    }

    /// `CASE WHEN n < $1 THEN $1 ELSE n END` and the like: the greater or the less of the two.
    fn step_of_case(&self, arm: &Arm, otherwise: &BoundExpr, ty: Type) -> Option<Step> {
        let BoundExpr::Operator { operator, args, .. } = &arm.when else { return None };
        let [left, right] = &args[..] else { return None };
        // The comparison as `column comparison operand`.
        let (is_less, compared) = match (operator.name, self.is_column(left), self.is_column(right)) {
            ("<" | "<=", true, false) | (">" | ">=", false, true) => {
                (true, if self.is_column(left) { right } else { left })
            }
            (">" | ">=", true, false) | ("<" | "<=", false, true) => {
                (false, if self.is_column(left) { right } else { left })
            }
            _ => return None,
        };
        let takes_operand = self.is_column(otherwise);
        let operand = if takes_operand { &arm.then } else { otherwise };
        let has_column = takes_operand || self.is_column(&arm.then);
        // Where the comparison is NULL, it keeps the last alternative; a column that is never NULL decides which one
        // that is.
        if !has_column || !self.is_not_null() || !self.is_apart(operand) || !is_same(operand, compared) {
            return None;
        }
        let kind = if is_less == takes_operand { Commute::Max } else { Commute::Min };
        Some(Step { kind, negated: false, operand: operand.clone(), ty, skips_null: takes_operand })
    }

    /// The operations that steps are.
    fn operations(&self, steps: Vec<Step>) -> Result<Assigned, String> {
        let column = &self.table.columns[self.column];
        let name = &column.name;
        let Some(kind) = steps.first().map(|step| step.kind) else {
            // A column that keeps its value: nothing is added.
            return match self.is_coalesced.get() {
                true => Err(format!("{name} may be NULL")),
                false => Ok(Assigned::Operations { operations: Vec::new(), is_guarded: false }),
            };
        };
        if steps.iter().any(|step| step.kind != kind) {
            return Err(format!("the new value of {name} mixes operations"));
        }
        if !self.takes(kind) {
            return Err(format!("columns of type {} have no such operation", column.ty.display_name()));
        }
        let mut operations: Vec<Operation> = Vec::new();
        let mut is_summed = false;
        for step in steps {
            let term = (step.negated, step.operand);
            let is_own = step.ty == column.ty && is_integer(column.ty) || kind != Commute::Add;
            match operations.last_mut() {
                Some(last) if is_summed && !is_own => last.terms.push(term),
                _ => {
                    let (operation, skips_null) = (step.kind, step.skips_null);
                    operations.push(Operation { operation, terms: vec![term], skips_null });
                }
            }
            is_summed = !is_own;
            if kind == Commute::Multiply && step.ty != column.ty && operations.len() > 1 {
                return Err(format!("the factors of {name} are of a wider type"));
            }
        }
        // The engine's column is wider than a smallint.
        let is_narrow = kind != Commute::Max && kind != Commute::Min && column.ty == Type::Int2;
        if is_narrow && operations.len() > 1 || self.is_coalesced.get() && kind != Commute::Add {
            return Err(format!("{name} is a smallint, or may be NULL"));
        }
        if self.is_coalesced.get() && column.ty == Type::Numeric && !is_one_word(column.modifier) {
            return Err(format!("{name} may be NULL, and has more than 18 digits"));
        }
        Ok(Assigned::Operations { operations, is_guarded: is_narrow || self.is_coalesced.get() })
    }

    /// Returns true if the engine has this operation for the column's type, with the bounds of SQL.
    fn takes(&self, kind: Commute) -> bool {
        let is_decimal =
            || matches!(engine_type(self.ty(), self.modifier()), heddledb::DataType::Decimal { .. });
        match (self.ty(), kind) {
            (Type::TopK, _) => kind == Commute::TopK,
            (_, Commute::TopK) => false,
            (Type::Int4 | Type::Int8, _) => true,
            // A product is rounded: in another order it is another one.
            (Type::Numeric, Commute::Multiply) => false,
            (Type::Numeric, _) => is_decimal(),
            (Type::Int2, Commute::Add | Commute::Max | Commute::Min) => true,
            // A fraction of a second would be rounded.
            (Type::Date | Type::Timestamp | Type::Timestamptz, Commute::Max | Commute::Min) => {
                self.modifier() == Modifier::NONE || self.modifier() == Modifier::ENGINE_TIME
            }
            _ => false,
        }
    }
}

/// Returns true if two expressions have one value, whatever type it is cast to on the way.
fn is_same(one: &BoundExpr, other: &BoundExpr) -> bool {
    fn bare(expr: &BoundExpr) -> &BoundExpr {
        match expr {
            BoundExpr::Cast { operand, ty, .. } if widens(operand.ty(), *ty) => bare(operand),
            _ => expr,
        }
    }
    bare(one) == bare(other)
}

fn rank(ty: Type) -> Option<u8> {
    match ty {
        Type::Int2 => Some(2),
        Type::Int4 => Some(4),
        Type::Int8 => Some(8),
        _ => None,
    }
}

fn is_integer(ty: Type) -> bool {
    rank(ty).is_some()
}

/// Returns true if a cast from an integer to an integer keeps every value.
fn widens(from: Type, to: Type) -> bool {
    matches!((rank(from), rank(to)), (Some(from), Some(to)) if from <= to)
}
