//! Bound queries: SELECT, VALUES, set operations, WITH.
//!
//! Invariants: a query's first `columns.len()` targets are its result; targets after them exist only for ORDER BY and
//! DISTINCT ON, which name targets by position. Where a SELECT groups, its targets, HAVING and window calls name
//! grouped expressions as [`BoundExpr::Group`] and [`BoundExpr::Aggregate`] only; the arguments of aggregates and
//! `group_by` name the relations' columns.

use std::sync::Arc;

use crate::bind::tree::{BoundExpr, BoundStatement};
use crate::catalog::Table;
use crate::catalog::relation::CheckOption;
use crate::functions::Function;
use crate::types::{Modifier, Type};

/// A relation of a statement's FROM clauses, its target table, or a query's own identity. Unique in the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RelationId(pub u32);

/// A common table expression. Unique in the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CteId(pub u32);

/// A column that a relation or a query has.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BoundColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// The type's modifier.
    pub modifier: Modifier,
    /// The table and the column (from zero) that it is an unchanged copy of, for the result's description.
    pub source: Option<(u32, usize)>,
}

/// A query with everything around its rows: WITH, ORDER BY, LIMIT, locks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BoundQuery {
    /// Its identity, by which correlated aggregates name it.
    pub id: RelationId,
    /// Common table expressions in the order of their definition; a later one may name an earlier one.
    pub ctes: Vec<BoundCte>,
    /// The source of the rows.
    pub body: QueryBody,
    /// The targets by which rows are sorted.
    pub order_by: Vec<BoundSort>,
    /// Maximum number of rows, a bigint; NULL: all.
    pub limit: Option<BoundExpr>,
    /// True if rows equal to the last one in the order follow it beyond the limit.
    pub with_ties: bool,
    /// Number of rows that are skipped, a bigint; NULL: none.
    pub offset: Option<BoundExpr>,
    /// The tables whose rows are locked, and the modes.
    pub locks: Vec<RowLock>,
    /// The result's columns.
    pub columns: Vec<BoundColumn>,
    /// True if it is the query of a view with `security_barrier`.
    pub is_barrier: bool,
    /// The view whose query it is.
    pub view: Option<ViewOfQuery>,
}

/// The source of a query's rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum QueryBody {
    /// A SELECT.
    Select(Box<BoundSelect>),
    /// `left UNION/INTERSECT/EXCEPT [ALL] right`; both sides have the result's types.
    Set { operation: SetOperation, all: bool, left: Box<BoundQuery>, right: Box<BoundQuery> },
    /// Rows of expressions.
    Values(Vec<Vec<BoundExpr>>),
}

/// A set operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetOperation {
    Union,
    Intersect,
    Except,
}

/// A SELECT's core.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BoundSelect {
    /// The relations that `from` names.
    pub relations: Vec<BoundRelation>,
    /// The comma list of FROM; empty: one row without columns.
    pub from: Vec<BoundFrom>,
    /// WHERE.
    pub filter: Option<BoundExpr>,
    /// The grouping expressions.
    pub group_by: Vec<BoundExpr>,
    /// The grouped expressions, one entry for each grouping set. `None`: the SELECT does not group. Without GROUP BY
    /// but with aggregates or HAVING there is one empty set, which yields a row even where there is none to aggregate.
    pub grouping_sets: Option<Vec<Vec<usize>>>,
    /// The aggregates of the targets, HAVING, and the window calls.
    pub aggregates: Vec<BoundAggregate>,
    /// HAVING.
    pub having: Option<BoundExpr>,
    /// Window calls of the targets.
    pub windows: Vec<BoundWindow>,
    /// The targets: first the result's columns, then those that are only sorted by.
    pub targets: Vec<BoundTarget>,
    /// DISTINCT.
    pub distinct: Distinct,
    /// True if a target calls a set-returning function.
    pub set_returning: bool,
}

/// One target of a SELECT.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BoundTarget {
    /// Its value.
    pub expr: BoundExpr,
    /// Its name.
    pub name: String,
}

/// The rows of a SELECT that are left out as duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Distinct {
    /// None.
    No,
    /// Rows equal to another in all result columns.
    All,
    /// All but the first, in the order of the query, of those equal in these targets.
    On(Vec<usize>),
}

/// One item of a query's ORDER BY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BoundSort {
    /// The position of the target.
    pub target: usize,
    /// True if the largest is first.
    pub descending: bool,
    /// True if NULLs are first.
    pub nulls_first: bool,
}

/// One item of the ORDER BY of an aggregate or of a window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SortKey {
    /// The value that is compared.
    pub expr: BoundExpr,
    /// True if the largest is first.
    pub descending: bool,
    /// True if NULLs are first.
    pub nulls_first: bool,
}

/// A relation and its properties.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BoundRelation {
    /// The id by which columns name it.
    pub id: RelationId,
    /// Its name in the statement, for EXPLAIN and messages.
    pub name: String,
    /// Its kind.
    pub kind: RelationKind,
    /// Its columns.
    pub columns: Vec<BoundColumn>,
    /// True if it may name columns of relations to its left (LATERAL, and every function).
    pub lateral: bool,
    /// The values of a table's hidden columns.
    pub indexed: Vec<IndexExpression>,
}

/// The value that a hidden column of a table stores for an index.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IndexExpression {
    /// The hidden column.
    pub column: usize,
    /// The index's expression or predicate, over the relation's rows.
    pub expr: BoundExpr,
    /// True if the column is true where the predicate `expr` holds, and NULL elsewhere.
    pub is_predicate: bool,
}

/// The kind of a relation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RelationKind {
    /// A table; its columns are the table's, in order.
    Table(Arc<Table>),
    /// A query in FROM, or a view.
    Query(Box<BoundQuery>),
    /// A common table expression of a query around.
    Cte(CteId),
    /// `ROWS FROM (f(…), …) [WITH ORDINALITY]`: the columns of each function beside each other, padded with NULLs to
    /// the longest, then the ordinal number from 1 as a bigint.
    Function { calls: Vec<FunctionCall>, ordinality: bool },
}

/// A function in FROM.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FunctionCall {
    /// A function that returns rows. `types`: its columns'; with several columns each row is a record.
    Set { function: &'static Function, args: Vec<BoundExpr>, types: Vec<Type> },
    /// An expression that yields one value: one row of one column (of its fields, if it is a row).
    Scalar(BoundExpr),
}

/// An item of FROM.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BoundFrom {
    /// A relation of the query's `relations`.
    Relation(RelationId),
    /// A join.
    Join { kind: JoinKind, left: Box<BoundFrom>, right: Box<BoundFrom>, on: Option<BoundExpr> },
}

/// The kinds of joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinKind {
    Cross,
    Inner,
    Left,
    Right,
    Full,
}

/// A common table expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BoundCte {
    /// The id by which relations name it.
    pub id: CteId,
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: Vec<BoundColumn>,
    /// The source of its rows.
    pub body: CteBody,
    /// `MATERIALIZED` (true), `NOT MATERIALIZED` (false), or nothing said.
    pub materialized: Option<bool>,
    /// Number of relations that name it.
    pub references: usize,
}

/// The source of a common table expression's rows.
#[expect(clippy::large_enum_variant, reason = "a statement has few of them")]
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CteBody {
    /// A query.
    Query(BoundQuery),
    /// `initial UNION [ALL] step`; the step names the expression itself as a relation of kind `Cte`, which then holds
    /// the rows that the round before added.
    Recursive { initial: BoundQuery, step: BoundQuery, all: bool },
    /// A statement that writes, with RETURNING (else no columns). It runs once, to its end.
    Statement(Box<BoundStatement>),
}

/// An aggregate call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BoundAggregate {
    /// The function.
    pub function: &'static Function,
    /// Its arguments; none for `count(*)`.
    pub args: Vec<BoundExpr>,
    /// True if equal arguments count once.
    pub distinct: bool,
    /// The order in which rows are fed; for ordered-set aggregates the WITHIN GROUP clause.
    pub order_by: Vec<SortKey>,
    /// The condition on rows that are fed.
    pub filter: Option<BoundExpr>,
    /// Its result's type.
    pub ty: Type,
}

/// A window call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BoundWindow {
    /// The function.
    pub function: WindowFunction,
    /// Its arguments.
    pub args: Vec<BoundExpr>,
    /// The condition on rows that an aggregate is fed.
    pub filter: Option<BoundExpr>,
    /// PARTITION BY.
    pub partition_by: Vec<BoundExpr>,
    /// ORDER BY.
    pub order_by: Vec<SortKey>,
    /// The frame.
    pub frame: Frame,
    /// Its result's type.
    pub ty: Type,
}

/// The function of a window call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum WindowFunction {
    /// An aggregate over the frame.
    Aggregate(&'static Function),
    /// A window function proper.
    Window(&'static Function),
}

/// A window's frame.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Frame {
    /// The unit in which offsets are counted.
    pub unit: FrameUnit,
    /// Its start.
    pub start: FrameBound,
    /// Its end.
    pub end: FrameBound,
    /// The rows around the current one that are left out.
    pub exclusion: FrameExclusion,
}

/// The unit in which a frame's offsets are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameUnit {
    Rows,
    Range,
    Groups,
}

/// One end of a frame.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FrameBound {
    UnboundedPreceding,
    /// This much before: a bigint for ROWS and GROUPS; for RANGE, the value to subtract from the sort key.
    Preceding(BoundExpr),
    CurrentRow,
    Following(BoundExpr),
    UnboundedFollowing,
}

/// The rows around the current one that a frame leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameExclusion {
    NoOthers,
    CurrentRow,
    Group,
    Ties,
}

/// `FOR UPDATE` and the other row locks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RowLock {
    /// The lock's strength.
    pub strength: LockStrength,
    /// The reaction to rows that others have locked.
    pub wait: LockWait,
    /// The tables' relations; those of this query and of its subqueries in FROM.
    pub relations: Vec<RelationId>,
}

/// The strengths of row locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LockStrength {
    KeyShare,
    Share,
    NoKeyUpdate,
    Update,
}

/// The reaction to rows that others have locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockWait {
    Wait,
    NoWait,
    SkipLocked,
}

/// The view whose query is bound.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ViewOfQuery {
    pub name: String,
    pub check_option: Option<CheckOption>,
}
