//! Queries.

use crate::parse::syntax::{At, Call, Expr, Name, ObjectName, Statement, TypeName, WindowDefinition};

/// A query with WITH, ORDER BY, LIMIT and locks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Query {
    pub with: Option<With>,
    pub body: QueryBodySyntax,
    pub order_by: Vec<OrderItem>,
    pub limit: Option<Expr>,
    pub with_ties: bool,
    pub offset: Option<Expr>,
    pub locks: Vec<LockClause>,
    pub at: At,
}

/// The source of a query's rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum QueryBodySyntax {
    Select(Box<Select>),
    Values(Vec<Vec<Expr>>),
    /// A query in parentheses with clauses of its own.
    Query(Box<Query>),
    Set {
        operator: SetOperator,
        all: bool,
        left: Box<QueryBodySyntax>,
        right: Box<QueryBodySyntax>,
        at: At,
    },
}

/// UNION, INTERSECT, EXCEPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetOperator {
    Union,
    Intersect,
    Except,
}

/// A SELECT's core.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Select {
    pub distinct: DistinctClause,
    pub targets: Vec<SelectItem>,
    /// `SELECT … INTO table`.
    pub into: Option<ObjectName>,
    pub from: Vec<TableRef>,
    pub filter: Option<Expr>,
    pub group_by: Vec<GroupItem>,
    /// `GROUP BY DISTINCT`.
    pub group_distinct: bool,
    pub having: Option<Expr>,
    pub windows: Vec<(Name, WindowDefinition)>,
    pub at: At,
}

/// DISTINCT.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum DistinctClause {
    No,
    All,
    On(Vec<Expr>),
}

/// An item of a target list or of RETURNING.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum SelectItem {
    /// `*`
    All(At),
    /// `relation.*`
    AllOf(Vec<Name>),
    /// An expression, perhaps with a name.
    Expr { expr: Expr, alias: Option<Name> },
}

/// An item of GROUP BY.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum GroupItem {
    Expr(Expr),
    /// `(a, b)`: one item of several expressions; `()` is the empty set.
    Set(Vec<Expr>),
    Rollup(Vec<GroupItem>),
    Cube(Vec<GroupItem>),
    Sets(Vec<GroupItem>),
}

/// An item of ORDER BY.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OrderItem {
    pub expr: Expr,
    pub descending: bool,
    pub nulls_first: bool,
}

/// An item of FROM.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TableRef {
    Table {
        name: ObjectName,
        alias: Option<Alias>,
    },
    Query {
        query: Box<Query>,
        alias: Option<Alias>,
        lateral: bool,
        at: At,
    },
    Function {
        calls: Vec<(Call, Vec<ColumnOfFunction>)>,
        ordinality: bool,
        alias: Option<Alias>,
        /// `AS (name type, …)`.
        columns: Vec<ColumnOfFunction>,
        lateral: bool,
        at: At,
    },
    Join {
        left: Box<TableRef>,
        right: Box<TableRef>,
        kind: JoinType,
        condition: JoinCondition,
        alias: Option<Alias>,
        at: At,
    },
}

/// A column of a function's result, as declared in FROM.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ColumnOfFunction {
    pub name: Name,
    pub ty: TypeName,
}

/// An alias with names for columns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Alias {
    pub name: Name,
    pub columns: Vec<Name>,
}

/// The kinds of joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JoinType {
    Cross,
    Inner,
    Left,
    Right,
    Full,
}

/// The condition of a join.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum JoinCondition {
    None,
    On(Expr),
    /// USING, with the alias of the joined columns.
    Using(Vec<Name>, Option<Name>),
    /// NATURAL, with the byte at which the join ends; it begins with NATURAL.
    Natural(At),
}

/// A natural join, and the condition that it implies.
#[derive(Debug)]
pub(crate) struct NaturalJoin {
    /// Position of NATURAL.
    pub at: At,
    /// End of the join.
    pub end: At,
    pub condition: String,
}

/// WITH.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct With {
    pub recursive: bool,
    pub ctes: Vec<Cte>,
}

/// A common table expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cte {
    pub name: Name,
    pub columns: Vec<Name>,
    pub materialized: Option<bool>,
    pub statement: Box<Statement>,
    pub search: Option<SearchClause>,
    pub cycle: Option<CycleClause>,
    /// The names in the statement that may be those of other expressions of a WITH RECURSIVE.
    pub words: Vec<String>,
}

/// SEARCH of a recursive query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SearchClause {
    /// BREADTH FIRST instead of DEPTH FIRST.
    pub is_breadth: bool,
    pub columns: Vec<Name>,
    /// The column by which rows are sorted then.
    pub sequence: Name,
    pub at: At,
}

/// CYCLE of a recursive query.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CycleClause {
    pub columns: Vec<Name>,
    pub mark: Name,
    /// The marks of a row that closes a cycle, and of others.
    pub values: (Expr, Expr),
    pub path: Name,
    pub at: At,
}

/// FOR UPDATE and the other row locks.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LockClause {
    pub strength: LockStrengthName,
    pub of: Vec<Name>,
    pub wait: LockWaitName,
    pub at: At,
}

/// The strengths of row locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockStrengthName {
    KeyShare,
    Share,
    NoKeyUpdate,
    Update,
}

/// The reaction to locked rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LockWaitName {
    Wait,
    NoWait,
    SkipLocked,
}
