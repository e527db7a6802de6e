//! INSERT, UPDATE, DELETE, MERGE, COPY.

use crate::parse::syntax::{At, Expr, Name, ObjectName, Query, SelectItem, TableRef, With};

/// INSERT.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Insert {
    pub with: Option<With>,
    pub table: ObjectName,
    pub alias: Option<Name>,
    pub columns: Vec<InsertColumn>,
    /// `OVERRIDING SYSTEM VALUE` (true) or `USER VALUE` (false).
    pub overriding: Option<bool>,
    /// `None`: DEFAULT VALUES.
    pub source: Option<Box<Query>>,
    pub on_conflict: Option<ConflictClause>,
    pub returning: Vec<SelectItem>,
}

/// A column that INSERT names.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct InsertColumn {
    pub name: Name,
    /// `column[…]…`, where an element or a slice is given.
    pub part: Option<Expr>,
}

/// ON CONFLICT.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConflictClause {
    pub target: ConflictTargetSyntax,
    /// `None`: DO NOTHING.
    pub update: Option<(Vec<Assignment>, Option<Expr>)>,
    pub at: At,
}

/// The constraint whose conflicts are meant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ConflictTargetSyntax {
    None,
    Columns(Vec<Expr>, Option<Expr>),
    Constraint(Name),
}

/// `column = value` or `(a, b) = row`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Assignment {
    /// One column, or several for a row.
    pub columns: Vec<Name>,
    /// True if they were in parentheses.
    pub row: bool,
    /// `column[…]…`, where an element or a slice is assigned.
    pub part: Option<Expr>,
    pub value: Expr,
    pub at: At,
}

/// UPDATE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Update {
    pub with: Option<With>,
    pub table: ObjectName,
    pub alias: Option<Name>,
    pub sets: Vec<Assignment>,
    pub from: Vec<TableRef>,
    pub filter: Option<Expr>,
    pub returning: Vec<SelectItem>,
}

/// DELETE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Delete {
    pub with: Option<With>,
    pub table: ObjectName,
    pub alias: Option<Name>,
    pub using: Vec<TableRef>,
    pub filter: Option<Expr>,
    pub returning: Vec<SelectItem>,
}

/// MERGE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Merge {
    pub with: Option<With>,
    pub table: ObjectName,
    pub alias: Option<Name>,
    pub source: TableRef,
    pub on: Expr,
    pub arms: Vec<MergeWhen>,
}

/// A WHEN clause of MERGE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MergeWhen {
    pub matched: bool,
    pub condition: Option<Expr>,
    pub action: MergeActionSyntax,
    pub at: At,
}

/// The action of a WHEN clause of MERGE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MergeActionSyntax {
    Nothing,
    Delete,
    Update(Vec<Assignment>),
    /// Columns and values; no values: DEFAULT VALUES.
    Insert {
        columns: Vec<Name>,
        overriding: Option<bool>,
        values: Option<Vec<Expr>>,
    },
}

/// COPY.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Copy {
    pub source: CopySource,
    pub direction: CopyDirection,
    /// The name of a file, or `None` for the client.
    pub file: Option<String>,
    pub options: Vec<CopyOption>,
    pub filter: Option<Expr>,
}

/// The table or the query of a COPY.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CopySource {
    Table { name: ObjectName, columns: Vec<Name> },
    Query(Box<Query>),
}

/// COPY … FROM or COPY … TO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyDirection {
    From,
    To,
}

/// An option of COPY.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CopyOption {
    pub name: String,
    pub value: CopyValue,
    pub at: At,
}

/// The value of an option of COPY.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CopyValue {
    None,
    Text(String),
    Columns(Vec<Name>),
    All,
}
