//! The bound tree: the result of the binder, and the input of the planner and the executor.
//!
//! Invariants: every name is resolved (a column is a relation of the statement and a position in it), every expression
//! knows its type, every function and operator is an entry of the tables in `functions`, and every conversion between
//! types is written out. A [`RelationId`] is unique in its statement, so that a reference to a relation that the query
//! around it does not own is a correlated one; nothing counts query levels.

mod expression;
mod query;
mod statement;
pub(crate) mod walk;

pub(crate) use expression::{
    Arm, BoundExpr, CaseArms, MinMax, Quantifier, SliceBounds, Subquery, SubqueryKind, TruthValue,
};
pub(crate) use query::{
    BoundAggregate, BoundColumn, BoundCte, BoundFrom, BoundQuery, BoundRelation, BoundSelect, BoundSort,
    BoundTarget, BoundWindow, CteBody, CteId, Distinct, Frame, FrameBound, FrameExclusion, FrameUnit,
    FunctionCall, IndexExpression, JoinKind, LockStrength, LockWait, QueryBody, RelationId, RelationKind,
    RowLock, SetOperation, SortKey, ViewOfQuery, WindowFunction,
};
pub(crate) use statement::{
    BoundCheck, BoundDelete, BoundInsert, BoundMerge, BoundStatement, BoundUpdate, ConflictAction,
    ConflictTarget, MergeAction, MergeArm, OnConflict, StatementKind,
};
