//! Expressions, names and types.

use crate::parse::syntax::{OrderItem, Query};

/// A byte offset into the statement's text.
pub(crate) type At = u32;

/// The position of what no text has.
pub(crate) const NOWHERE: At = At::MAX;

/// An identifier.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Name {
    /// Folded to lower case, or as it was quoted.
    pub text: String,
    /// Its position.
    pub at: At,
}

/// A name that may be qualified: `table`, `schema.table`, `database.schema.table`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ObjectName {
    /// The parts, the object's own name last. Never empty.
    pub parts: Vec<Name>,
}

impl ObjectName {
    /// The object's own name.
    pub fn last(&self) -> &str {
        self.parts.last().map_or("", |name| name.text.as_str())
    }

    /// The schema, if one was given.
    pub fn schema(&self) -> Option<&str> {
        self.parts.len().checked_sub(2).map(|position| self.parts[position].text.as_str())
    }

    /// The database, if one was given.
    pub fn database(&self) -> Option<&str> {
        self.parts.len().checked_sub(3).map(|position| self.parts[position].text.as_str())
    }

    /// Returns its position.
    pub fn at(&self) -> At {
        self.parts.first().map_or(0, |name| name.at)
    }
}

impl std::fmt::Display for ObjectName {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (position, part) in self.parts.iter().enumerate() {
            let point = if position > 0 { "." } else { "" };
            write!(formatter, "{point}{}", part.text)?;
        }
        Ok(())
    }
}

/// An expression and its position.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expr {
    /// Its kind.
    pub kind: ExprKind,
    /// Position of its characteristic token: the operator, the function's name, the literal.
    pub at: At,
    /// Number of levels of expressions beneath it, at most `parse::HEIGHT_MAX`.
    pub height: u32,
}

/// The kinds of expressions.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExprKind {
    Null,
    Bool(bool),
    /// A whole number, which may exceed every integer type.
    Integer(String),
    /// A number with a point or an exponent.
    Decimal(String),
    /// A string, whose type is not known.
    Text(String),
    /// `B'…'`: the digits.
    Bits(String),
    /// `$n`, from 1.
    Parameter(u32),
    /// A column, perhaps qualified; or a whole row of a relation.
    Column(Vec<Name>),
    /// A prefix operator.
    Unary {
        operator: OperatorName,
        operand: Box<Expr>,
    },
    /// An infix operator, comparisons included.
    Binary {
        operator: OperatorName,
        left: Box<Expr>,
        right: Box<Expr>,
    },
    And(Vec<Expr>),
    Or(Vec<Expr>),
    Not(Box<Expr>),
    IsNull {
        operand: Box<Expr>,
        negated: bool,
    },
    /// `IS [NOT] TRUE/FALSE/UNKNOWN`; `None` is UNKNOWN.
    IsTruth {
        operand: Box<Expr>,
        value: Option<bool>,
        negated: bool,
    },
    IsDistinct {
        left: Box<Expr>,
        right: Box<Expr>,
        negated: bool,
    },
    Between {
        operand: Box<Expr>,
        low: Box<Expr>,
        high: Box<Expr>,
        symmetric: bool,
        negated: bool,
    },
    InList {
        operand: Box<Expr>,
        list: Vec<Expr>,
        negated: bool,
    },
    InQuery {
        operand: Box<Expr>,
        query: Box<Query>,
        negated: bool,
    },
    Like {
        kind: LikeKind,
        operand: Box<Expr>,
        pattern: Box<Expr>,
        escape: Option<Box<Expr>>,
        negated: bool,
    },
    Case {
        operand: Option<Box<Expr>>,
        arms: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
    },
    Call(Box<Call>),
    Cast {
        operand: Box<Expr>,
        ty: TypeName,
    },
    Coalesce(Vec<Expr>),
    NullIf(Box<Expr>, Box<Expr>),
    Greatest(Vec<Expr>),
    Least(Vec<Expr>),
    Grouping(Vec<Expr>),
    Array(Vec<Expr>),
    ArrayQuery(Box<Query>),
    /// `ROW(…)` or `(a, b, …)`.
    Row(Vec<Expr>),
    Subscript {
        operand: Box<Expr>,
        index: Box<Expr>,
    },
    Slice {
        operand: Box<Expr>,
        lower: Option<Box<Expr>>,
        upper: Option<Box<Expr>>,
    },
    /// `(expression).field`
    Field {
        operand: Box<Expr>,
        name: Name,
    },
    /// `(expression).*`, in target lists.
    AllFields(Box<Expr>),
    Exists(Box<Query>),
    Subquery(Box<Query>),
    /// `operand operator ANY/ALL (array)`
    QuantifiedArray {
        operand: Box<Expr>,
        operator: OperatorName,
        array: Box<Expr>,
        all: bool,
    },
    /// `operand operator ANY/ALL (query)`
    QuantifiedQuery {
        operand: Box<Expr>,
        operator: OperatorName,
        query: Box<Query>,
        all: bool,
    },
    Collate {
        operand: Box<Expr>,
        collation: ObjectName,
    },
    /// DEFAULT in VALUES and SET.
    Default,
    /// WHERE CURRENT OF cursor.
    CurrentOf(Name),
}

/// LIKE and similar operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LikeKind {
    Like,
    ILike,
    SimilarTo,
}

/// An operator's symbol, perhaps qualified with `OPERATOR(schema.symbol)`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OperatorName {
    /// The schema.
    pub schema: Option<String>,
    /// The symbol; `!=` is written `<>`.
    pub symbol: String,
}

/// A function call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Call {
    /// The function.
    pub name: ObjectName,
    /// Its arguments.
    pub args: Vec<CallArg>,
    /// True if it was `f(*)`.
    pub star: bool,
    /// True if the last argument is `VARIADIC array`.
    pub variadic: bool,
    /// `f(DISTINCT …)`.
    pub distinct: bool,
    /// `f(… ORDER BY …)`, or WITHIN GROUP (ORDER BY …).
    pub order_by: Vec<OrderItem>,
    /// True if the order was given by WITHIN GROUP.
    pub within_group: bool,
    /// FILTER (WHERE …).
    pub filter: Option<Expr>,
    /// OVER.
    pub over: Option<Over>,
}

/// An argument of a function call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CallArg {
    /// `name => value`.
    pub name: Option<Name>,
    /// The value.
    pub value: Expr,
    /// Start and end of its text; an empty range, if it was not written so.
    pub place: (At, At),
}

/// The window after OVER.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Over {
    /// A window of the WINDOW clause, as it is.
    Name(Name),
    /// A window in parentheses.
    Window(Box<WindowDefinition>),
}

/// A window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WindowDefinition {
    /// The window that it starts from.
    pub base: Option<Name>,
    pub partition_by: Vec<Expr>,
    pub order_by: Vec<OrderItem>,
    pub frame: Option<FrameClause>,
    pub at: At,
}

/// A frame clause.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FrameClause {
    pub unit: FrameUnitName,
    pub start: FrameLimit,
    pub end: Option<FrameLimit>,
    pub exclusion: ExclusionName,
    pub at: At,
}

/// ROWS, RANGE, GROUPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameUnitName {
    Rows,
    Range,
    Groups,
}

/// One end of a frame.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FrameLimit {
    UnboundedPreceding,
    Preceding(Expr),
    CurrentRow,
    Following(Expr),
    UnboundedFollowing,
}

/// EXCLUDE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExclusionName {
    NoOthers,
    CurrentRow,
    Group,
    Ties,
}

/// A type as it was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TypeName {
    /// Its name; SQL's spellings are already PostgreSQL's (`integer` is `int4`).
    pub name: ObjectName,
    /// Numbers in parentheses after it.
    pub modifiers: Vec<i64>,
    /// The fields of an interval (`interval day to second`), as a bit mask of PostgreSQL's modifiers.
    pub interval_fields: Option<i32>,
    /// Number of dimensions that were written; any number above zero means an array.
    pub dimensions: u32,
    /// `SETOF`.
    pub set_of: bool,
    /// Its position.
    pub at: At,
}

/// An expression with its text, for the catalog.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TextExpr {
    /// The expression.
    pub expr: Expr,
    /// The text as it was written.
    pub text: String,
}
