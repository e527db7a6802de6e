//! The one evaluator of expressions.
//!
//! # Invariants
//! - A strict function is never called with NULL: its result is NULL then.
//! - AND, OR, CASE and COALESCE evaluate no more than they need, in the order in which they are written.

use std::borrow::Cow;

use smallvec::SmallVec;

use crate::bind::tree::{MinMax, Quantifier, TruthValue};
use crate::error::{Result, SqlError, SqlState};
use crate::functions::FunctionContext;
use crate::plan::expression::{Call, Case, Comparison, Expr, InList, QuantifiedArray, SliceLimits};
use crate::plan::node::Picked;
use crate::run::Run;
use crate::run::subquery::array_of;
use crate::types::record::RecordValue;
use crate::types::{Type, Value};

/// The limit of arguments of a call without an allocation.
const FEW: usize = 4;

impl<'e> Run<'e> {
    /// An expression's value for a row.
    #[inline]
    pub(crate) fn evaluate(&mut self, expr: &'e Expr, row: &[Value]) -> Result<Value> {
        match expr {
            Expr::Constant(value) => Ok(value.clone()),
            Expr::Slot(slot) => Ok(row[*slot].clone()),
            Expr::Parameter(number) => self.parameter(*number).cloned(),
            other => self.compute(other, row),
        }
    }

    /// The value of an expression that is more than a name of one.
    #[inline(never)]
    fn compute(&mut self, expr: &'e Expr, row: &[Value]) -> Result<Value> {
        match expr {
            Expr::Outer(number) => Ok(self.outer(*number).clone()),
            Expr::CaseOperand => Ok(self.case_operand.clone()),
            Expr::Call(call) => self.call(call, row),
            Expr::Compare(comparison, sides) => self.compare(*comparison, sides, row),
            Expr::Cast(cast) => {
                let value = self.evaluate(&cast.operand, row)?;
                let value = cast.cast.apply(self.environment, &value)?;
                self.note(value)
            }
            Expr::And(parts) => self.connect(parts, row, false),
            Expr::Or(parts) => self.connect(parts, row, true),
            Expr::Not(operand) => Ok(match self.evaluate(operand, row)? {
                Value::Bool(value) => Value::Bool(!value),
                other => other,
            }),
            Expr::IsNull(operand, negated) => {
                let operand = self.operand(operand, row)?;
                Ok(Value::Bool(is_null(&operand, *negated)))
            }
            Expr::IsTruth(operand, truth, negated) => {
                let value = self.evaluate(operand, row)?;
                let is = match truth {
                    TruthValue::True => matches!(value, Value::Bool(true)),
                    TruthValue::False => matches!(value, Value::Bool(false)),
                    TruthValue::Unknown => value.is_null(),
                };
                Ok(Value::Bool(is != *negated))
            }
            Expr::IsDistinct(sides, equals, negated) => {
                let (left, right) = (self.evaluate(&sides[0], row)?, self.evaluate(&sides[1], row)?);
                let is_same = match (left.is_null(), right.is_null()) {
                    (false, false) => self.equals(equals, left, right)?,
                    (left, right) => left && right,
                };
                Ok(Value::Bool(is_same == *negated))
            }
            other => self.compound(other, row),
        }
    }

    fn compound(&mut self, expr: &'e Expr, row: &[Value]) -> Result<Value> {
        match expr {
            Expr::Case(case) => self.case(case, row),
            Expr::Coalesce(operands) => {
                for operand in operands {
                    let value = self.evaluate(operand, row)?;
                    if !value.is_null() {
                        return Ok(value);
                    }
                }
                Ok(Value::Null)
            }
            Expr::NullIf(sides, equals) => {
                let (left, right) = (self.evaluate(&sides[0], row)?, self.evaluate(&sides[1], row)?);
                let is_same =
                    !left.is_null() && !right.is_null() && self.equals(equals, left.clone(), right)?;
                Ok(if is_same { Value::Null } else { left })
            }
            Expr::MinMax(kind, operands) => self.min_max(*kind, operands, row),
            Expr::InList(list) => self.in_list(list, row),
            Expr::Quantified(quantified) => self.quantified_array(quantified, row),
            Expr::Array(elements, ty) => self.array(elements, *ty, row),
            Expr::Row(fields, described, is_nullable) => {
                let values =
                    fields.iter().map(|field| self.evaluate(field, row)).collect::<Result<Vec<_>>>()?;
                if *is_nullable && values.iter().all(Value::is_null) {
                    return Ok(Value::Null);
                }
                RecordValue { fields: described.clone(), values: values.into() }.composed()
            }
            Expr::Field(record, number) => Ok(match self.evaluate(record, row)? {
                Value::Record(record) => record.values.get(*number).cloned().unwrap_or_default(),
                _ => Value::Null,
            }),
            Expr::Subscript(parts) => self.subscript(parts, row),
            Expr::Slice(parts) => self.slice(parts, row),
            Expr::Subquery(subquery) => self.subquery(subquery, row),
            _ => Err(SqlError::internal("an expression has no evaluation")),
        }
    }

    /// Returns true if a condition is true for a row.
    #[inline]
    pub(crate) fn holds(&mut self, condition: &'e Expr, row: &[Value]) -> Result<bool> {
        // Conditions behind one that is not true are not evaluated, be it NULL or false.
        if let Expr::And(parts) = condition {
            for part in parts {
                if !self.holds(part, row)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        if let Expr::Compare(comparison, sides) = condition {
            if let (Expr::Slot(slot), Expr::Constant(right)) = (&sides[0], &sides[1]) {
                let left = &row[*slot];
                return Ok(!left.is_null() && !right.is_null() && comparison.holds(left.order(right)));
            }
            let (left, right) = (self.operand(&sides[0], row)?, self.operand(&sides[1], row)?);
            let has_null = left.is_null() || right.is_null();
            return Ok(!has_null && comparison.holds(left.order(&right)));
        }
        Ok(matches!(self.evaluate(condition, row)?, Value::Bool(true)))
    }

    /// Returns true if a join's condition is true for a row that consists of the slots of its two parts that the
    /// condition sees.
    pub(crate) fn holds_joined(
        &mut self,
        condition: &'e Expr,
        seen: Option<&Picked>,
        left: &[Value],
        right: &[Value],
    ) -> Result<bool> {
        let mut joined = std::mem::take(&mut self.joined);
        joined.clear();
        match seen {
            Some(seen) => {
                joined.extend(seen.left.iter().map(|&slot| left[slot].clone()));
                joined.extend(seen.right.iter().map(|&slot| right[slot].clone()));
            }
            None => {
                joined.extend_from_slice(left);
                joined.extend_from_slice(right);
            }
        }
        let holds = self.holds(condition, &joined);
        self.joined = joined;
        holds
    }

    #[inline]
    fn parameter(&self, number: usize) -> Result<&'e Value> {
        self.parameters.get(number).ok_or_else(|| no_parameter(number))
    }

    /// An expression's value, borrowed where it is in the row already.
    #[inline]
    pub(crate) fn operand<'v>(&mut self, expr: &'e Expr, row: &'v [Value]) -> Result<Cow<'v, Value>>
    where
        'e: 'v,
    {
        match self.lent(expr, row) {
            Some(value) => Ok(Cow::Borrowed(value)),
            None => self.evaluate(expr, row).map(Cow::Owned),
        }
    }

    /// The value of an expression that only names one.
    #[inline]
    pub(crate) fn lent<'v>(&self, expr: &'e Expr, row: &'v [Value]) -> Option<&'v Value>
    where
        'e: 'v,
    {
        match expr {
            Expr::Slot(slot) => Some(&row[*slot]),
            Expr::Constant(value) => Some(value),
            Expr::Parameter(number) => self.parameters.get(*number),
            _ => None,
        }
    }

    #[inline]
    fn compare(&mut self, comparison: Comparison, sides: &'e [Expr; 2], row: &[Value]) -> Result<Value> {
        // Both sides are evaluated, even if one is NULL: the other may fail.
        let (left, right) = (self.operand(&sides[0], row)?, self.operand(&sides[1], row)?);
        if left.is_null() || right.is_null() {
            return Ok(Value::Null);
        }
        Ok(Value::Bool(comparison.holds(left.order(&right))))
    }

    fn call(&mut self, call: &'e Call, row: &[Value]) -> Result<Value> {
        match &call.arguments[..] {
            [argument] => {
                let argument = [self.evaluate(argument, row)?];
                self.apply_unless_null(call, &argument)
            }
            [left, right] => {
                if let Some(operation) = call.integers {
                    let (left, right) = (self.operand(left, row)?, self.operand(right, row)?);
                    // An overflow is the function's to report.
                    if let Some(value) = operation.apply(&left, &right) {
                        return Ok(value);
                    }
                    return self.apply_unless_null(call, &[left.into_owned(), right.into_owned()]);
                }
                let arguments = [self.evaluate(left, row)?, self.evaluate(right, row)?];
                self.apply_unless_null(call, &arguments)
            }
            all => {
                let mut arguments = SmallVec::<[Value; FEW]>::with_capacity(all.len());
                for argument in all {
                    arguments.push(self.evaluate(argument, row)?);
                }
                self.apply_unless_null(call, &arguments)
            }
        }
    }

    fn apply_unless_null(&mut self, call: &'e Call, arguments: &[Value]) -> Result<Value> {
        if call.function.is_strict && arguments.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        self.apply(call, arguments)
    }

    /// Calls a function with values, none of them NULL if it is strict.
    pub(crate) fn apply(&mut self, call: &'e Call, arguments: &[Value]) -> Result<Value> {
        if call.is_routine {
            let access = self.access();
            return self.environment.call_routine(arguments[0].oid(), &arguments[1..], access);
        }
        let mut context = FunctionContext {
            environment: self.environment,
            argument_types: &call.types,
            result_type: call.result,
        };
        let value = (call.code)(&mut context, arguments)?;
        self.note(value)
    }

    /// A value that was computed: a large one counts in the session's memory.
    #[inline]
    fn note(&mut self, value: Value) -> Result<Value> {
        if value.may_be_large() {
            self.environment.note_value(&value)?;
        }
        Ok(value)
    }

    /// Returns true if two values that are not NULL are equal by an operator.
    fn equals(&mut self, equals: &'e Call, left: Value, right: Value) -> Result<bool> {
        if equals.is_comparison {
            return Ok(left == right);
        }
        Ok(matches!(self.apply(equals, &[left, right])?, Value::Bool(true)))
    }

    /// AND, where `decisive` is false; OR, where it is true.
    fn connect(&mut self, parts: &'e [Expr], row: &[Value], decisive: bool) -> Result<Value> {
        let mut result = Value::Bool(!decisive);
        for part in parts {
            match self.evaluate(part, row)? {
                Value::Bool(value) if value == decisive => return Ok(Value::Bool(decisive)),
                Value::Null => result = Value::Null,
                _ => {}
            }
        }
        Ok(result)
    }

    fn case(&mut self, case: &'e Case, row: &[Value]) -> Result<Value> {
        let Some(operand) = &case.operand else {
            let arm = self.arm(case, row)?;
            return self.evaluate(arm, row);
        };
        let operand = self.evaluate(operand, row)?;
        let outer = std::mem::replace(&mut self.case_operand, operand);
        // The ELSE of a cast to a domain is the operand, too.
        let result = self.arm(case, row).and_then(|arm| self.evaluate(arm, row));
        self.case_operand = outer;
        result
    }

    /// The first arm of a CASE whose condition is true, or its ELSE.
    fn arm(&mut self, case: &'e Case, row: &[Value]) -> Result<&'e Expr> {
        for (when, then) in &case.arms {
            if self.is_arm(when, row)? {
                return Ok(then);
            }
        }
        Ok(&case.otherwise)
    }

    #[inline]
    fn is_arm(&mut self, when: &'e Expr, row: &[Value]) -> Result<bool> {
        if let Expr::Compare(comparison, sides) = when
            && let [Expr::CaseOperand, Expr::Constant(value)] = &**sides
        {
            let is_known = !self.case_operand.is_null() && !value.is_null();
            return Ok(is_known && comparison.holds(self.case_operand.cmp(value)));
        }
        self.holds(when, row)
    }

    fn min_max(&mut self, kind: MinMax, operands: &'e [Expr], row: &[Value]) -> Result<Value> {
        let mut best = Value::Null;
        for operand in operands {
            let value = self.evaluate(operand, row)?;
            let is_better = !value.is_null()
                && (best.is_null()
                    || match kind {
                        MinMax::Greatest => value > best,
                        MinMax::Least => value < best,
                    });
            if is_better {
                best = value;
            }
        }
        Ok(best)
    }

    fn in_list(&mut self, list: &'e InList, row: &[Value]) -> Result<Value> {
        let operand = self.evaluate(&list.operand, row)?;
        let (mut found, mut has_null) = (false, operand.is_null() && !list.list.is_empty());
        if let Some((values, null_is_one)) = &list.constants {
            if !has_null {
                (found, has_null) = (values.binary_search(&operand).is_ok(), *null_is_one);
            }
        } else {
            // All items are evaluated, as those of an array are: each may fail.
            for item in &list.list {
                let item = self.evaluate(item, row)?;
                if item.is_null() || operand.is_null() {
                    has_null = true;
                } else if !found {
                    found = self.equals(&list.equals, operand.clone(), item)?;
                }
            }
        }
        Ok(match (found, has_null) {
            (true, _) => Value::Bool(!list.negated),
            (false, true) => Value::Null,
            (false, false) => Value::Bool(list.negated),
        })
    }

    fn quantified_array(&mut self, quantified: &'e QuantifiedArray, row: &[Value]) -> Result<Value> {
        let operand = self.evaluate(&quantified.operand, row)?;
        let Value::Array(array) = self.evaluate(&quantified.array, row)? else { return Ok(Value::Null) };
        let decisive = quantified.quantifier == Quantifier::Any;
        let mut result = Value::Bool(!decisive);
        for element in &array.values {
            let is_null = operand.is_null() || element.is_null();
            if is_null && quantified.operator.function.is_strict {
                result = Value::Null;
                continue;
            }
            match self.apply(&quantified.operator, &[operand.clone(), element.clone()])? {
                Value::Bool(value) if value == decisive => return Ok(Value::Bool(decisive)),
                Value::Null => result = Value::Null,
                _ => {}
            }
        }
        Ok(result)
    }

    fn array(&mut self, elements: &'e [Expr], ty: Type, row: &[Value]) -> Result<Value> {
        let values =
            elements.iter().map(|element| self.evaluate(element, row)).collect::<Result<Vec<_>>>()?;
        array_of(ty.element().unwrap_or(Type::Unknown), values)
    }

    /// `a[i]`, `a[i][j]`: of a value of several dimensions with fewer subscripts, nothing.
    fn subscript(&mut self, parts: &'e (Expr, Vec<Expr>), row: &[Value]) -> Result<Value> {
        let array = self.operand(&parts.0, row)?;
        let Value::Array(array) = &*array else { return Ok(Value::Null) };
        if let [subscript] = &parts.1[..] {
            let subscript = self.operand(subscript, row)?;
            return Ok(if subscript.is_null() {
                Value::Null
            } else {
                array.get(&[as_subscript(&subscript)])
            });
        }
        let mut subscripts = SmallVec::<[i32; 2]>::new();
        for subscript in &parts.1 {
            match self.evaluate(subscript, row)? {
                Value::Null => return Ok(Value::Null),
                value => subscripts.push(as_subscript(&value)),
            }
        }
        Ok(array.get(&subscripts))
    }

    fn slice(&mut self, parts: &'e (Expr, Vec<SliceLimits>), row: &[Value]) -> Result<Value> {
        let Value::Array(array) = self.evaluate(&parts.0, row)? else { return Ok(Value::Null) };
        let mut bounds = Vec::with_capacity(parts.1.len());
        for (lower, upper) in &parts.1 {
            let mut of_dimension = [None, None];
            for (bound, to) in [lower, upper].into_iter().zip(&mut of_dimension) {
                if let Some(bound) = bound {
                    match self.evaluate(bound, row)? {
                        Value::Null => return Ok(Value::Null),
                        value => *to = Some(as_subscript(&value)),
                    }
                }
            }
            bounds.push((of_dimension[0], of_dimension[1]));
        }
        Ok(Value::array(array.slice(&bounds)))
    }
}

fn as_subscript(value: &Value) -> i32 {
    i32::try_from(value.any_int()).unwrap_or(i32::MAX)
}

#[cold]
fn no_parameter(number: usize) -> SqlError {
    let message = format!("there is no value for parameter ${}", number + 1);
    SqlError::new(SqlState::UNDEFINED_PARAMETER, message)
}

/// `IS [NOT] NULL`: of a row, whether all (none) of its fields are NULL.
fn is_null(value: &Value, negated: bool) -> bool {
    match value {
        Value::Record(record) if negated => record.values.iter().all(|value| !value.is_null()),
        Value::Record(record) => record.values.iter().all(Value::is_null),
        value => value.is_null() != negated,
    }
}
