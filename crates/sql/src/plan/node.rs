//! Plans: what the operators of `run` execute, as one tree for each query.
//!
//! # Invariants
//! - Rows are flat: an expression names a column of its input by its slot. Sorts, joins, groupings and windows work on slots
//!   only; what has to be computed for them is computed by a [`Node::Project`] beneath them.
//! - A value from outside of a node's input (parameters, rows of an enclosing query or of the left side of a lateral
//!   join) is named by [`Expr::Outer`]: a number that is unique in the statement. A node's owner sets it before the
//!   node runs.

mod aggregate;
mod functions;
mod join;
mod scan;

use std::sync::Arc;

use crate::bind::tree::LockWait;
use crate::catalog::Table;
use crate::plan::expression::Expr;

pub(crate) use aggregate::{AggregateCall, AggregateNode, FrameEnd, FrameNode, WindowCall, WindowNode};
pub(crate) use functions::{FunctionItem, FunctionsNode, SetCall};
pub(crate) use join::{Binding, HashNode, JoinKind, LookupNode, LoopNode, Picked};
pub(crate) use scan::{Bound, IndexRanges, KeyRange, Path, Pattern, RangesKind, ScanNode, Several};

/// A node with the known properties of its result.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) node: Node,
    /// Number of values in a row.
    pub(crate) width: usize,
    /// Expected number of rows.
    pub(crate) rows: f64,
    /// Expected cost, in rows examined.
    pub(crate) cost: f64,
    /// Its number in the statement, under which its work is counted.
    pub(crate) id: usize,
}

impl Plan {
    /// The expressions of the one row that the plan returns, if it reads none.
    pub(crate) fn lone_row(&self) -> Option<&[Expr]> {
        match &self.node {
            Node::Values(rows) => match &rows[..] {
                [row] => Some(row),
                _ => None,
            },
            Node::Project { input, expressions } => match &input.node {
                Node::Values(rows) => matches!(&rows[..], [row] if row.is_empty()).then_some(expressions),
                _ => None,
            },
            _ => None,
        }
    }

    /// A placeholder for a plan while it is moved.
    pub(crate) fn nothing() -> Plan {
        Plan { node: Node::Values(Vec::new()), width: 0, rows: 0.0, cost: 0.0, id: 0 }
    }
}

/// The operation of a node.
#[derive(Debug)]
pub(crate) enum Node {
    /// Rows of expressions without input.
    Values(Vec<Vec<Expr>>),
    /// Rows of a table.
    Scan(Box<ScanNode>),
    /// Rows that functions return.
    Functions(Box<FunctionsNode>),
    /// The rows of a common table expression that is evaluated once.
    Cte(usize),
    /// The rows that the last round of a recursion has added.
    WorkTable(usize),
    /// Rows for which a condition holds.
    Filter {
        input: Box<Plan>,
        condition: Expr,
    },
    /// All rows or none: the condition names no column of the input.
    Gate {
        input: Box<Plan>,
        condition: Expr,
    },
    /// Computed rows.
    Project {
        input: Box<Plan>,
        expressions: Vec<Expr>,
    },
    /// Computed rows, where some expressions return sets.
    ProjectSet {
        input: Box<Plan>,
        items: Vec<ProjectItem>,
    },
    /// For each row of the left side, the rows of a table that its values name.
    Lookup(Box<LookupNode>),
    /// For each row of the left side, every row of the right side for which a condition holds.
    Loop(Box<LoopNode>),
    /// Rows of both sides whose keys are equal.
    Hash(Box<HashNode>),
    Aggregate(Box<AggregateNode>),
    Window(Box<WindowNode>),
    /// Sorted rows; with a limit, only the first.
    Sort {
        input: Box<Plan>,
        keys: Vec<SortKey>,
        limit: Option<Limit>,
        /// Number of leading keys by which the input is sorted already. With a limit, the rest of the input is not read.
        presorted: usize,
    },
    Limit {
        input: Box<Plan>,
        limit: Limit,
    },
    /// The rows of its input, reserved for this session.
    Lock(Box<LockNode>),
    /// One row of each group of rows that are equal in these slots.
    Distinct {
        input: Box<Plan>,
        slots: Vec<usize>,
    },
    /// The first row of each run of rows that are equal in these slots.
    DistinctOn {
        input: Box<Plan>,
        slots: Vec<usize>,
    },
    /// The rows of all inputs, one input after the other.
    Append(Vec<Plan>),
    SetOperation(Box<SetOperationNode>),
    Recursive(Box<RecursiveNode>),
    /// Its input, which may name these common table expressions.
    With {
        ctes: Vec<(usize, Plan)>,
        input: Box<Plan>,
    },
}

impl Node {
    /// The plans that a node reads from.
    pub(crate) fn inputs_mut(&mut self) -> Vec<&mut Plan> {
        match self {
            Node::Values(_) | Node::Scan(_) | Node::Functions(_) | Node::Cte(_) | Node::WorkTable(_) => {
                Vec::new()
            }
            Node::Filter { input, .. }
            | Node::Gate { input, .. }
            | Node::Project { input, .. }
            | Node::ProjectSet { input, .. }
            | Node::Sort { input, .. }
            | Node::Limit { input, .. }
            | Node::Distinct { input, .. }
            | Node::DistinctOn { input, .. } => vec![input],
            Node::Lock(node) => vec![&mut node.input],
            Node::Lookup(node) => vec![&mut node.left],
            Node::Loop(node) => vec![&mut node.left, &mut node.right],
            Node::Hash(node) => vec![&mut node.left, &mut node.right],
            Node::Aggregate(node) => vec![&mut node.input],
            Node::Window(node) => vec![&mut node.input],
            Node::Append(inputs) => inputs.iter_mut().collect(),
            Node::SetOperation(node) => vec![&mut node.left, &mut node.right],
            Node::Recursive(node) => vec![&mut node.first, &mut node.again],
            Node::With { ctes, input } => {
                ctes.iter_mut().map(|(_, plan)| plan).chain([&mut **input]).collect()
            }
        }
    }
}

/// Rows that are reserved: `FOR UPDATE` and the other row locks.
#[derive(Debug)]
pub(crate) struct LockNode {
    pub(crate) input: Plan,
    pub(crate) items: Vec<LockItem>,
    /// Number of rows wanted: no more are reserved.
    pub(crate) limit: Option<Limit>,
}

/// A table of which rows are reserved.
#[derive(Debug)]
pub(crate) struct LockItem {
    pub(crate) table: Arc<Table>,
    /// Slots of the rows' keys; NULL if there is no row of this table.
    pub(crate) key: Vec<usize>,
    pub(crate) wait: LockWait,
}

/// One column of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SortKey {
    pub(crate) slot: usize,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// The number of rows wanted. The expressions see no row.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) count: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    /// The slots by which further rows equal the last one (`WITH TIES`).
    pub(crate) ties: Option<Vec<usize>>,
}

/// `UNION`, `INTERSECT` and `EXCEPT`; whole rows are compared, and NULLs are equal.
#[derive(Debug)]
pub(crate) struct SetOperationNode {
    pub(crate) left: Plan,
    pub(crate) right: Plan,
    pub(crate) kind: SetOperation,
    pub(crate) all: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SetOperation {
    Intersect,
    Except,
}

/// `WITH RECURSIVE`: the first term's rows, then the second term's over what the last round added, until it adds nothing.
#[derive(Debug)]
pub(crate) struct RecursiveNode {
    pub(crate) first: Plan,
    pub(crate) again: Plan,
    pub(crate) work_table: usize,
    /// `UNION`: rows that are there already are not added again.
    pub(crate) distinct: bool,
}

/// A column of a projection whose expressions may return sets.
#[derive(Debug)]
pub(crate) enum ProjectItem {
    Value(Expr),
    Set(SetCall),
}
