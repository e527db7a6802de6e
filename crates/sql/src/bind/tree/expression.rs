//! Bound expressions.
//!
//! Invariants: [`BoundExpr::ty`] is the type of the value that the expression evaluates to, whatever the row; the
//! arguments of a call have exactly the types of the function's entry, because the binder inserts the casts.

use std::sync::Arc;

use crate::bind::tree::{BoundQuery, RelationId};
use crate::functions::Function;
use crate::types::{Modifier, Type, Value};

/// The lower and the upper bound of a slice, where they are written.
pub(crate) type SliceBounds = (Option<BoundExpr>, Option<BoundExpr>);

/// An expression whose names are resolved and whose type is known.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BoundExpr {
    /// A value that is known when the statement is bound.
    Constant { value: Value, ty: Type },
    /// The parameter `$number + 1` of a prepared statement.
    Parameter { number: usize, ty: Type },
    /// A column of a relation of this statement, of this query's or of a query around it.
    Column { relation: RelationId, column: usize, ty: Type },
    /// An entry of the query's `group_by`; above the grouping only.
    Group { number: usize, ty: Type },
    /// An entry of the `aggregates` of `query`, the query that owns the list: a subquery may name an outer query's
    /// aggregate.
    Aggregate { query: RelationId, number: usize, ty: Type },
    /// An entry of the query's `windows`; in targets only.
    Window { number: usize, ty: Type },
    /// `GROUPING(…)`: one bit for each of the entries of `group_by`, the last argument's the lowest.
    Grouping(Vec<usize>),
    /// A function of the function tables.
    Call { function: &'static Function, args: Vec<BoundExpr>, ty: Type },
    /// An operator of the operator tables, with one argument (prefix) or two.
    Operator { operator: &'static Function, args: Vec<BoundExpr>, ty: Type },
    /// A function that returns several rows, in the target list.
    SetReturning { function: &'static Function, args: Vec<BoundExpr>, ty: Type },
    /// A conversion to another type and modifier; from the same type, only the modifier is applied. `explicit`: by
    /// CAST, which truncates where an assignment fails.
    Cast { operand: Box<BoundExpr>, ty: Type, modifier: Modifier, explicit: bool },
    /// True when all are; false when one is; else NULL.
    And(Vec<BoundExpr>),
    /// True when one is; false when all are; else NULL.
    Or(Vec<BoundExpr>),
    /// Three-valued negation.
    Not(Box<BoundExpr>),
    /// `IS [NOT] NULL`. For a row value: whether every field is NULL (IS NULL), whether none is (IS NOT NULL).
    IsNull { operand: Box<BoundExpr>, negated: bool },
    /// `IS [NOT] TRUE`, `FALSE`, `UNKNOWN`.
    IsTruth { operand: Box<BoundExpr>, value: TruthValue, negated: bool },
    /// `IS [NOT] DISTINCT FROM`, with the equality operator of the common type.
    IsDistinct { operands: Box<[BoundExpr; 2]>, equals: &'static Function, negated: bool },
    /// `CASE`. With an operand, the arms' conditions name it as [`BoundExpr::CaseOperand`]; so does the ELSE of a cast to
    /// a domain.
    Case { operand: Option<Box<BoundExpr>>, arms: Vec<Arm>, otherwise: Box<BoundExpr>, ty: Type },
    /// The value of the operand of the innermost `CASE` around that has one.
    CaseOperand { ty: Type },
    /// The first operand that is not NULL.
    Coalesce { operands: Vec<BoundExpr>, ty: Type },
    /// NULL if the operands are equal, else the first.
    NullIf { operands: Box<[BoundExpr; 2]>, equals: &'static Function, ty: Type },
    /// `GREATEST` or `LEAST`: NULL operands are ignored.
    MinMax { kind: MinMax, operands: Vec<BoundExpr>, ty: Type },
    /// `operand [NOT] IN (list)`, all of one type.
    InList { operand: Box<BoundExpr>, list: Vec<BoundExpr>, equals: &'static Function, negated: bool },
    /// `operand operator ANY (array)` or `ALL (array)`.
    Quantified {
        operand: Box<BoundExpr>,
        array: Box<BoundExpr>,
        operator: &'static Function,
        quantifier: Quantifier,
    },
    /// `ARRAY[…]`; `ty` is the array's type. Elements of an array type make the array one dimension deeper.
    Array { elements: Vec<BoundExpr>, ty: Type },
    /// `ROW(…)`, or a relation's whole row, whose fields have the columns' names. The whole row of a relation that an
    /// outer join may leave without a row is NULL where all its fields are.
    Row { fields: Vec<BoundExpr>, names: Option<Arc<[Arc<str>]>>, is_nullable: bool },
    /// `array[index]…`: one index for each dimension; NULL where there are too few, too many, or no such element.
    Subscript { array: Box<BoundExpr>, indexes: Vec<BoundExpr>, ty: Type },
    /// `array[lower:upper]…`: of the first dimensions.
    Slice { array: Box<BoundExpr>, bounds: Vec<SliceBounds>, ty: Type },
    /// A field of a row value, counted from zero.
    Field { row: Box<BoundExpr>, number: usize, ty: Type },
    /// A query inside an expression.
    Subquery(Box<Subquery>),
}

/// One `WHEN … THEN …`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arm {
    /// A condition of type boolean.
    pub when: BoundExpr,
    /// The result.
    pub then: BoundExpr,
}

/// The truth values of three-valued logic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TruthValue {
    True,
    False,
    Unknown,
}

/// `GREATEST` or `LEAST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MinMax {
    Greatest,
    Least,
}

/// `ANY` (also `SOME`, `IN`) or `ALL`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantifier {
    Any,
    All,
}

/// A query inside an expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Subquery {
    /// The value made of its rows.
    pub kind: SubqueryKind,
    /// The query; it may name columns of the queries around it.
    pub query: BoundQuery,
}

/// The value that an expression makes of a query's rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SubqueryKind {
    /// True if there is a row.
    Exists,
    /// The one column of the one row, or NULL if there is none; an error (21000) if there are more.
    Scalar { ty: Type },
    /// The column `number` of the one row, NULL if there is none: one of the columns of `SET (a, b) = (SELECT …)`.
    ScalarField { number: usize, ty: Type },
    /// The one column of all rows as an array.
    Array { ty: Type },
    /// `left operator ANY/ALL (query)`; one operator for each column of the query, whose columns already have the
    /// operators' types. With several columns the comparison of a row is true when all operators return true (`=`, as
    /// in `(a, b) IN (SELECT …)`).
    Quantified { left: Vec<BoundExpr>, operators: Vec<&'static Function>, quantifier: Quantifier },
}

impl BoundExpr {
    /// A constant of this type.
    pub fn constant(value: Value, ty: Type) -> BoundExpr {
        BoundExpr::Constant { value, ty }
    }

    /// NULL of this type.
    pub fn null(ty: Type) -> BoundExpr {
        BoundExpr::Constant { value: Value::Null, ty }
    }

    /// The type of the values that it evaluates to.
    pub fn ty(&self) -> Type {
        match self {
            BoundExpr::Constant { ty, .. }
            | BoundExpr::Parameter { ty, .. }
            | BoundExpr::Column { ty, .. }
            | BoundExpr::Group { ty, .. }
            | BoundExpr::Aggregate { ty, .. }
            | BoundExpr::Window { ty, .. }
            | BoundExpr::Call { ty, .. }
            | BoundExpr::Operator { ty, .. }
            | BoundExpr::SetReturning { ty, .. }
            | BoundExpr::Cast { ty, .. }
            | BoundExpr::Case { ty, .. }
            | BoundExpr::CaseOperand { ty }
            | BoundExpr::Coalesce { ty, .. }
            | BoundExpr::NullIf { ty, .. }
            | BoundExpr::MinMax { ty, .. }
            | BoundExpr::Array { ty, .. }
            | BoundExpr::Subscript { ty, .. }
            | BoundExpr::Slice { ty, .. }
            | BoundExpr::Field { ty, .. } => *ty,
            BoundExpr::Grouping(_) => Type::Int4,
            BoundExpr::Row { .. } => Type::Record,
            BoundExpr::Subquery(subquery) => match &subquery.kind {
                SubqueryKind::Scalar { ty }
                | SubqueryKind::ScalarField { ty, .. }
                | SubqueryKind::Array { ty } => *ty,
                SubqueryKind::Exists | SubqueryKind::Quantified { .. } => Type::Bool,
            },
            BoundExpr::And(_)
            | BoundExpr::Or(_)
            | BoundExpr::Not(_)
            | BoundExpr::IsNull { .. }
            | BoundExpr::IsTruth { .. }
            | BoundExpr::IsDistinct { .. }
            | BoundExpr::InList { .. }
            | BoundExpr::Quantified { .. } => Type::Bool,
        }
    }
}

/// The arms of a CASE.
pub(crate) type CaseArms = Vec<Arm>;
