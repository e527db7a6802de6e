//! Bound statements: queries and the statements that write.
//!
//! Invariants: expressions over a row that is to be stored (generated columns, checks, ON CONFLICT … SET, RETURNING)
//! name it as columns of the statement's `target` relation; every value that is stored is already cast to its column's
//! type and modifier.

use std::sync::Arc;

use crate::bind::tree::{
    BoundColumn, BoundCte, BoundExpr, BoundFrom, BoundQuery, BoundRelation, BoundTarget, RelationId,
};
use crate::catalog::Table;
use crate::types::Type;

/// A statement that reads or writes rows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BoundStatement {
    /// Its action.
    pub kind: StatementKind,
    /// The types of its parameters.
    pub parameters: Vec<Type>,
    /// The columns of the rows that it returns; empty if it returns none.
    pub columns: Vec<BoundColumn>,
}

/// The action of a statement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StatementKind {
    Query(Box<BoundQuery>),
    Insert(Box<BoundInsert>),
    Update(Box<BoundUpdate>),
    Delete(Box<BoundDelete>),
    Merge(Box<BoundMerge>),
}

/// A condition that every stored row meets.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BoundCheck {
    /// The constraint's name.
    pub name: String,
    /// Fails when it is false; NULL passes. A domain's reports the violation itself.
    pub condition: BoundExpr,
}

/// INSERT.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BoundInsert {
    /// Common table expressions around.
    pub ctes: Vec<BoundCte>,
    /// The table.
    pub table: Arc<Table>,
    /// The row to be stored; in ON CONFLICT DO UPDATE the row that is there.
    pub target: RelationId,
    /// The source of the rows: the query's columns are columns of the relation `source`. `None`: one row.
    pub query: Option<BoundQuery>,
    /// The relation by which `values` names the query's columns.
    pub source: RelationId,
    /// The value of each column of the table, over `source`: a column of the query, a default, a constant. A cell
    /// DEFAULT of a VALUES list is already the default's expression.
    pub values: Vec<BoundExpr>,
    /// Generated columns, over `target`, in the order in which they can be computed.
    pub generated: Vec<(usize, BoundExpr)>,
    /// The table's checks, over `target`.
    pub checks: Vec<BoundCheck>,
    /// ON CONFLICT.
    pub on_conflict: Option<OnConflict>,
    /// RETURNING, over `target`.
    pub returning: Vec<BoundTarget>,
}

/// ON CONFLICT.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OnConflict {
    /// The constraints whose conflicts are meant.
    pub target: ConflictTarget,
    /// The action taken instead.
    pub action: ConflictAction,
}

/// The conflicts that ON CONFLICT means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConflictTarget {
    /// Any unique constraint (DO NOTHING only).
    Any,
    /// The primary key.
    PrimaryKey,
    /// The unique index at this position of the table's `indexes`.
    Index(usize),
}

/// The action of ON CONFLICT.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ConflictAction {
    /// The row is left out.
    Nothing,
    /// The row that is there is updated, if the filter is true. `excluded` is the row that was to be inserted.
    Update {
        excluded: RelationId,
        sets: Vec<(usize, BoundExpr)>,
        filter: Option<BoundExpr>,
        /// Generated columns that depend on what is set, as in [`BoundUpdate::generated`].
        generated: Vec<(usize, BoundExpr)>,
    },
}

/// UPDATE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BoundUpdate {
    /// Common table expressions around.
    pub ctes: Vec<BoundCte>,
    /// The table.
    pub table: Arc<Table>,
    /// The row as it was in `sets` and `filter`; as it will be in `generated`, `checks` and RETURNING.
    pub target: RelationId,
    /// The target (as a table, first) and the relations of FROM.
    pub relations: Vec<BoundRelation>,
    /// The items of FROM, without the target.
    pub from: Vec<BoundFrom>,
    /// WHERE.
    pub filter: Option<BoundExpr>,
    /// Columns and their new values, over all relations.
    pub sets: Vec<(usize, BoundExpr)>,
    /// Generated columns that depend on what is set, over `target`.
    pub generated: Vec<(usize, BoundExpr)>,
    /// The table's checks that depend on what is set or generated, over `target`.
    pub checks: Vec<BoundCheck>,
    /// RETURNING, over all relations.
    pub returning: Vec<BoundTarget>,
}

/// DELETE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BoundDelete {
    /// Common table expressions around.
    pub ctes: Vec<BoundCte>,
    /// The table.
    pub table: Arc<Table>,
    /// The row to be deleted.
    pub target: RelationId,
    /// The target (as a table, first) and the relations of USING.
    pub relations: Vec<BoundRelation>,
    /// The items of USING, without the target.
    pub from: Vec<BoundFrom>,
    /// WHERE.
    pub filter: Option<BoundExpr>,
    /// RETURNING, over all relations.
    pub returning: Vec<BoundTarget>,
}

/// MERGE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BoundMerge {
    /// Common table expressions around.
    pub ctes: Vec<BoundCte>,
    /// The table.
    pub table: Arc<Table>,
    /// The row of the table, as in [`BoundUpdate::target`].
    pub target: RelationId,
    /// The target (as a table, first) and the relations of the source.
    pub relations: Vec<BoundRelation>,
    /// The source.
    pub source: BoundFrom,
    /// The join condition of the source's rows with the table's.
    pub on: BoundExpr,
    /// The WHEN clauses in order; the first whose condition is true acts.
    pub arms: Vec<MergeArm>,
    /// Generated columns, over `target`.
    pub generated: Vec<(usize, BoundExpr)>,
    /// The table's checks, over `target`.
    pub checks: Vec<BoundCheck>,
}

/// A WHEN clause of MERGE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MergeArm {
    /// True if it is for source rows that match a row of the table.
    pub matched: bool,
    /// Its further condition.
    pub condition: Option<BoundExpr>,
    /// Its action.
    pub action: MergeAction,
}

/// The action of a WHEN clause of MERGE.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MergeAction {
    Nothing,
    Delete,
    Update(Vec<(usize, BoundExpr)>),
    /// The value of each column of the table, over the source's relations.
    Insert(Vec<BoundExpr>),
}
