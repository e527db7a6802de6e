//! Aggregates and windows.

use super::{Plan, SortKey};
use crate::bind::tree::{FrameExclusion, FrameUnit};
use crate::functions::Function;
use crate::plan::expression::Expr;
use crate::types::Type;

/// Grouping and aggregates. A result row holds the groups' keys, then the aggregates, then, if there are several sets,
/// the number of the set.
#[derive(Debug)]
pub(crate) struct AggregateNode {
    pub(crate) input: Plan,
    /// The slots by which rows are grouped.
    pub(crate) keys: Vec<usize>,
    /// The keys (positions in `keys`) of each grouping set; the others are NULL. One set with all keys is plain
    /// grouping.
    pub(crate) sets: Vec<Vec<usize>>,
    pub(crate) calls: Vec<AggregateCall>,
}

/// A call of an aggregate.
#[derive(Debug)]
pub(crate) struct AggregateCall {
    pub(crate) function: &'static Function,
    pub(crate) types: Vec<Type>,
    pub(crate) result: Type,
    /// The direct arguments of an ordered-set aggregate; they see the group's row.
    pub(crate) direct: Vec<Expr>,
    /// The slots of its arguments.
    pub(crate) arguments: Vec<usize>,
    pub(crate) distinct: bool,
    /// The slot of its FILTER condition.
    pub(crate) filter: Option<usize>,
    /// The order in which it sees its rows.
    pub(crate) order: Vec<SortKey>,
}

/// Window functions over one partitioning and order. A result row is the input's row, then the functions' results.
#[derive(Debug)]
pub(crate) struct WindowNode {
    pub(crate) input: Plan,
    pub(crate) partition: Vec<usize>,
    pub(crate) order: Vec<SortKey>,
    pub(crate) calls: Vec<WindowCall>,
}

/// A window function's call.
#[derive(Debug)]
pub(crate) struct WindowCall {
    pub(crate) function: &'static Function,
    pub(crate) types: Vec<Type>,
    pub(crate) result: Type,
    pub(crate) arguments: Vec<usize>,
    pub(crate) filter: Option<usize>,
    pub(crate) frame: FrameNode,
}

/// A window's frame; the offsets see no row.
#[derive(Debug)]
pub(crate) struct FrameNode {
    pub(crate) unit: FrameUnit,
    pub(crate) start: FrameEnd,
    pub(crate) end: FrameEnd,
    pub(crate) exclusion: FrameExclusion,
}

/// One end of a frame.
#[derive(Debug)]
pub(crate) enum FrameEnd {
    UnboundedPreceding,
    Preceding(Expr),
    CurrentRow,
    Following(Expr),
    UnboundedFollowing,
}
