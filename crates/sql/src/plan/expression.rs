//! Expressions as the evaluator runs them: columns are slots of a row, functions are pointers.
//!
//! # Invariants
//! - An expression belongs to one node of one plan; its slots are those of the node's input.
//! - A subquery's plan names the values that it sees of the row around it by outer numbers, which its bindings set.

use std::sync::Arc;

use crate::bind::tree::{MinMax, Quantifier, TruthValue};
use crate::functions::{Function, ScalarFunction};
use crate::plan::node::{Binding, Plan};
use crate::types::record::RecordField;
use crate::types::{Type, Value};

/// The lower and the upper bound of a slice, where they are written.
pub(crate) type SliceLimits = (Option<Expr>, Option<Expr>);

/// An expression over a row.
#[derive(Debug, Clone)]
pub(crate) enum Expr {
    Constant(Value),
    Slot(usize),
    Parameter(usize),
    Outer(usize),
    /// The operand of the innermost CASE around.
    CaseOperand,
    Call(Box<Call>),
    /// A comparison of two values of one type by their order.
    Compare(Comparison, Box<[Expr; 2]>),
    Cast(Box<Cast>),
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull(Box<Expr>, bool),
    IsTruth(Box<Expr>, TruthValue, bool),
    IsDistinct(Box<[Expr; 2]>, Box<Call>, bool),
    Case(Box<Case>),
    Coalesce(Vec<Expr>),
    NullIf(Box<[Expr; 2]>, Box<Call>),
    MinMax(MinMax, Vec<Expr>),
    InList(Box<InList>),
    Quantified(Box<QuantifiedArray>),
    Array(Vec<Expr>, Type),
    /// A row's values; true if a row of NULLs only is NULL itself, since it may come from an outer join.
    Row(Vec<Expr>, Arc<[RecordField]>, bool),
    /// An array, and a subscript for each dimension.
    Subscript(Box<(Expr, Vec<Expr>)>),
    /// An array, and the bounds of its first dimensions.
    Slice(Box<(Expr, Vec<SliceLimits>)>),
    Field(Box<Expr>, usize),
    Subquery(Arc<SubPlan>),
}

/// A call of a function or an operator.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) function: &'static Function,
    pub(crate) code: ScalarFunction,
    pub(crate) arguments: Vec<Expr>,
    /// True if it compares two values of one type by their own order.
    pub(crate) is_comparison: bool,
    /// True if it calls a routine, whose oid is the first argument.
    pub(crate) is_routine: bool,
    /// The sum, difference or product of two integers that it is.
    pub(crate) integers: Option<IntegerOperation>,
    /// The arguments' types, where polymorphic ones are decided.
    pub(crate) types: Vec<Type>,
    pub(crate) result: Type,
}

/// An operator of two integers of one width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntegerOperation {
    Add,
    Subtract,
    Multiply,
}

impl IntegerOperation {
    /// The operation of an operator with arguments of these types.
    pub(crate) fn of(function: &Function, types: &[Type]) -> Option<IntegerOperation> {
        match types {
            [Type::Int4, Type::Int4] | [Type::Int8, Type::Int8] => {}
            _ => return None,
        }
        match function.name {
            "+" => Some(IntegerOperation::Add),
            "-" => Some(IntegerOperation::Subtract),
            "*" => Some(IntegerOperation::Multiply),
            _ => None,
        }
    }

    /// The result for two integers of one width. `None` if they are something else, or if the result is out of their
    /// range.
    #[inline]
    pub(crate) fn apply(self, left: &Value, right: &Value) -> Option<Value> {
        match (left, right) {
            (Value::Int8(left), Value::Int8(right)) => match self {
                IntegerOperation::Add => left.checked_add(*right),
                IntegerOperation::Subtract => left.checked_sub(*right),
                IntegerOperation::Multiply => left.checked_mul(*right),
            }
            .map(Value::Int8),
            (Value::Int4(left), Value::Int4(right)) => match self {
                IntegerOperation::Add => left.checked_add(*right),
                IntegerOperation::Subtract => left.checked_sub(*right),
                IntegerOperation::Multiply => left.checked_mul(*right),
            }
            .map(Value::Int4),
            _ => None,
        }
    }
}

/// The six comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl Comparison {
    /// Returns true if it holds of two values in this order.
    #[inline]
    pub(crate) fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            Comparison::Equal => ordering.is_eq(),
            Comparison::NotEqual => ordering.is_ne(),
            Comparison::Less => ordering.is_lt(),
            Comparison::LessEqual => ordering.is_le(),
            Comparison::Greater => ordering.is_gt(),
            Comparison::GreaterEqual => ordering.is_ge(),
        }
    }

    /// The equivalent comparison with its sides swapped.
    pub(crate) fn swapped(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessEqual => Comparison::GreaterEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterEqual => Comparison::LessEqual,
            other => other,
        }
    }

    /// The comparison of an operator's symbol.
    pub(crate) fn of_symbol(symbol: &str) -> Option<Comparison> {
        Some(match symbol {
            "=" => Comparison::Equal,
            "<>" | "!=" => Comparison::NotEqual,
            "<" => Comparison::Less,
            "<=" => Comparison::LessEqual,
            ">" => Comparison::Greater,
            ">=" => Comparison::GreaterEqual,
            _ => return None,
        })
    }
}

/// A conversion.
#[derive(Debug, Clone)]
pub(crate) struct Cast {
    pub(crate) operand: Expr,
    pub(crate) cast: crate::types::cast::Cast,
}

#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) operand: Option<Expr>,
    pub(crate) arms: Vec<(Expr, Expr)>,
    pub(crate) otherwise: Expr,
}

#[derive(Debug, Clone)]
pub(crate) struct InList {
    pub(crate) operand: Expr,
    pub(crate) list: Vec<Expr>,
    pub(crate) equals: Call,
    pub(crate) negated: bool,
    /// The list's values, if all of them are constants and compare by their order, sorted; and whether NULL is one.
    pub(crate) constants: Option<(Vec<Value>, bool)>,
}

#[derive(Debug, Clone)]
pub(crate) struct QuantifiedArray {
    pub(crate) operand: Expr,
    pub(crate) array: Expr,
    pub(crate) operator: Call,
    pub(crate) quantifier: Quantifier,
}

/// A query inside an expression.
#[derive(Debug)]
pub(crate) struct SubPlan {
    pub(crate) plan: Plan,
    pub(crate) kind: SubPlanKind,
    /// The values it sees of the row around it; if empty, it is run once.
    pub(crate) bindings: Vec<Binding>,
    /// The slot of the cache that keeps its results.
    pub(crate) cache: usize,
    /// True if the same bindings give the same rows: nothing in it is volatile.
    pub(crate) is_stable: bool,
    /// The plan that computes all of its answers at once, if there is one.
    pub(crate) keyed: Option<Keyed>,
}

impl SubPlan {
    /// Calls `each` for the expressions over the row around it.
    fn each_seen(&self, each: &mut dyn FnMut(&Expr)) {
        self.bindings.iter().for_each(|binding| each(&binding.value));
        self.keyed.iter().flat_map(|keyed| &keyed.keys).for_each(&mut *each);
        if let SubPlanKind::Quantified { left, .. } = &self.kind {
            left.iter().for_each(each);
        }
    }

    fn each_seen_mut(&mut self, each: &mut dyn FnMut(&mut Expr)) {
        self.bindings.iter_mut().for_each(|binding| each(&mut binding.value));
        self.keyed.iter_mut().flat_map(|keyed| &mut keyed.keys).for_each(&mut *each);
        if let SubPlanKind::Quantified { left, .. } = &mut self.kind {
            left.iter_mut().for_each(each);
        }
    }
}

/// All answers of a subquery, by the values that correlate it with the row around it.
#[derive(Debug)]
pub(crate) struct Keyed {
    /// The subquery without the equalities that correlate it; its columns are followed by the keys.
    pub(crate) plan: Plan,
    /// The values of the row around it that keys are equal to.
    pub(crate) keys: Vec<Expr>,
    /// The maximum number of rows of each key that count.
    pub(crate) limit: Option<usize>,
    /// Number of runs for single rows after which all of its answers are computed: by then the runs have cost as much.
    pub(crate) runs_before: usize,
}

/// The value made of a subquery's rows.
#[derive(Debug)]
pub(crate) enum SubPlanKind {
    Exists,
    /// The value of this column of the one row.
    Scalar(usize),
    /// The first column of all rows, as an array of this element type.
    Array(Type),
    /// `left operator ANY/ALL (query)`.
    Quantified {
        left: Vec<Expr>,
        operators: Vec<Call>,
        quantifier: Quantifier,
    },
}

impl Expr {
    /// The constant that it is.
    pub(crate) fn as_constant(&self) -> Option<&Value> {
        match self {
            Expr::Constant(value) => Some(value),
            _ => None,
        }
    }

    /// Calls `each` for its parts. False: it is of a kind that is not looked into.
    pub(crate) fn parts<'x>(&'x self, each: &mut dyn FnMut(&'x Expr)) -> bool {
        match self {
            Expr::Constant(_) | Expr::Parameter(_) | Expr::Slot(_) | Expr::CaseOperand | Expr::Outer(_) => {}
            Expr::Call(call) => call.arguments.iter().for_each(each),
            Expr::Compare(_, sides) | Expr::IsDistinct(sides, ..) | Expr::NullIf(sides, _) => {
                sides.iter().for_each(each);
            }
            Expr::Cast(cast) => each(&cast.operand),
            Expr::And(parts) | Expr::Or(parts) | Expr::Coalesce(parts) | Expr::MinMax(_, parts) => {
                parts.iter().for_each(each);
            }
            Expr::Not(part) | Expr::IsNull(part, _) | Expr::IsTruth(part, ..) => each(part),
            Expr::Case(case) => {
                case.operand.iter().chain([&case.otherwise]).for_each(&mut *each);
                case.arms.iter().flat_map(|(when, then)| [when, then]).for_each(each);
            }
            Expr::InList(list) => list.list.iter().chain([&list.operand]).for_each(each),
            _ => return false,
        }
        true
    }

    /// Returns true if it may see a value of the queries around its own.
    pub(crate) fn sees_outer(&self) -> bool {
        let mut sees = matches!(self, Expr::Outer(_));
        if let Expr::Subquery(subquery) = self {
            subquery.each_seen(&mut |part| sees |= part.sees_outer());
            return sees;
        }
        let is_known = self.parts(&mut |part| sees |= part.sees_outer());
        sees || !is_known
    }

    fn parts_mut(&mut self, each: &mut dyn FnMut(&mut Expr)) {
        match self {
            Expr::Call(call) => call.arguments.iter_mut().for_each(each),
            Expr::Compare(_, sides) | Expr::IsDistinct(sides, ..) | Expr::NullIf(sides, _) => {
                sides.iter_mut().for_each(each);
            }
            Expr::Cast(cast) => each(&mut cast.operand),
            Expr::And(parts) | Expr::Or(parts) | Expr::Coalesce(parts) | Expr::MinMax(_, parts) => {
                parts.iter_mut().for_each(each);
            }
            Expr::Not(part) | Expr::IsNull(part, _) | Expr::IsTruth(part, ..) => each(part),
            Expr::Case(case) => {
                case.operand.iter_mut().chain([&mut case.otherwise]).for_each(&mut *each);
                case.arms.iter_mut().flat_map(|(when, then)| [when, then]).for_each(each);
            }
            Expr::InList(list) => list.list.iter_mut().chain([&mut list.operand]).for_each(each),
            _ => {}
        }
    }

    /// Adds the slots that it sees. False: it is of a kind that is not looked into.
    pub(crate) fn slots(&self, into: &mut std::collections::BTreeSet<usize>) -> bool {
        let mut all = true;
        match self {
            Expr::Slot(slot) => _ = into.insert(*slot),
            Expr::Subquery(subquery) => {
                subquery.each_seen(&mut |part| all &= part.slots(into));
                // One that is shared cannot be renumbered.
                return all && Arc::strong_count(subquery) == 1;
            }
            _ => {}
        }
        let is_known = self.parts(&mut |part| all &= part.slots(into));
        is_known && all
    }

    /// Renames the slots of an expression that is looked into; the others see all slots, which keep their numbers.
    pub(crate) fn renumber(&mut self, number: &dyn Fn(usize) -> usize) {
        match self {
            Expr::Slot(slot) => *slot = number(*slot),
            Expr::Subquery(subquery) => {
                if let Some(subquery) = Arc::get_mut(subquery) {
                    subquery.each_seen_mut(&mut |part| part.renumber(number));
                }
            }
            other => other.parts_mut(&mut |part| part.renumber(number)),
        }
    }

    /// All of these hold.
    pub(crate) fn all(mut conditions: Vec<Expr>) -> Option<Expr> {
        match conditions.len() {
            0 => None,
            1 => conditions.pop(),
            _ => Some(Expr::And(conditions)),
        }
    }
}
