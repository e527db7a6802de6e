//! Plans: what the operators of `run` execute, as one tree for each query.
//!
//! # Invariants
//! - Rows are flat: an expression names a column of its input by its slot. Sorts, joins, groupings and windows work on slots
//!   only; what has to be computed for them is computed by a [`Node::Project`] beneath them.
//! - What comes from outside of a node's input (parameters, rows of an enclosing query or of the left side of a lateral
//!   join) is named by [`Expr::Outer`]: a number that is unique in the statement. A node's owner sets it before the node runs.

use std::sync::Arc;

use crate::bind::routines::is_call;
use crate::bind::tree::{FrameExclusion, FrameUnit, LockWait};
use crate::catalog::Table;
use crate::functions::Function;
use crate::plan::decoder::Decoder;
use crate::plan::expression::Expr;
use crate::types::{Type, Value};

/// A node with what is known of its result.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) node: Node,
    /// How many values a row has.
    pub(crate) width: usize,
    /// How many rows are expected.
    pub(crate) rows: f64,
    /// What it is expected to cost, in rows looked at.
    pub(crate) cost: f64,
    /// Its number in the statement: where what it does is counted.
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

    /// What stands in for a plan while it is moved.
    pub(crate) fn nothing() -> Plan {
        Plan { node: Node::Values(Vec::new()), width: 0, rows: 0.0, cost: 0.0, id: 0 }
    }
}

/// What a node does.
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

/// Rows that are reserved: `FOR UPDATE` and its kin.
#[derive(Debug)]
pub(crate) struct LockNode {
    pub(crate) input: Plan,
    pub(crate) items: Vec<LockItem>,
    /// How many rows are wanted: more are not reserved.
    pub(crate) limit: Option<Limit>,
}

/// A table of which rows are reserved.
#[derive(Debug)]
pub(crate) struct LockItem {
    pub(crate) table: Arc<Table>,
    /// Where the rows' keys are; NULL: there is no row of this table.
    pub(crate) key: Vec<usize>,
    pub(crate) wait: LockWait,
}

/// A scan of a table.
#[derive(Debug)]
pub(crate) struct ScanNode {
    pub(crate) table: Arc<Table>,
    pub(crate) path: Path,
    /// Reads the columns that the slots hold.
    pub(crate) decoder: Decoder,
    /// What must hold of the slots.
    pub(crate) filter: Option<Expr>,
    /// The slots that the filter sees, and the others, which are read of rows that pass it.
    pub(crate) filtered: Vec<usize>,
    pub(crate) others: Vec<usize>,
    /// The slots that its rows consist of: what only the filter reads may be missing.
    pub(crate) output: Vec<usize>,
    pub(crate) backward: bool,
    /// How many rows it looks at.
    pub(crate) estimated_rows: f64,
}

impl ScanNode {
    /// A forward scan.
    pub(crate) fn new(
        table: Arc<Table>,
        path: Path,
        decoder: Decoder,
        filter: Option<Expr>,
        estimated_rows: f64,
    ) -> ScanNode {
        let mut seen = std::collections::BTreeSet::new();
        let is_known = filter.as_ref().is_none_or(|filter| filter.slots(&mut seen));
        let is_seen = |slot: &usize| !is_known || seen.contains(slot);
        let (filtered, others) = (0..decoder.len()).partition(is_seen);
        let output = (0..decoder.len()).collect();
        ScanNode { table, path, decoder, filter, filtered, others, output, backward: false, estimated_rows }
    }
}

/// How the rows of a table are found. The expressions see no row, except in a [`LookupNode`], where they see the left
/// side's.
#[derive(Clone, Debug)]
pub(crate) enum Path {
    /// All rows.
    Full,
    /// The row of this primary key.
    Point(Vec<Expr>),
    /// The rows of these keys or prefixes of keys: the last column has one of an array's values. `whole`: they are whole primary
    /// keys.
    Points { index: Option<usize>, prefix: Vec<Expr>, last: Box<Expr>, whole: bool },
    /// The rows within bounds of the primary key (`index` is none) or of a secondary index.
    Range { index: Option<usize>, prefix: Vec<Expr>, lower: Option<Bound>, upper: Option<Bound> },
}

impl Path {
    /// The expressions of a path.
    pub(crate) fn exprs(&self) -> Vec<&Expr> {
        match self {
            Path::Full => Vec::new(),
            Path::Point(key) => key.iter().collect(),
            Path::Points { prefix, last, .. } => prefix.iter().chain([&**last]).collect(),
            Path::Range { prefix, lower, upper, .. } => {
                prefix.iter().chain(lower.iter().chain(upper).map(|bound| &bound.value)).collect()
            }
        }
    }
}

/// One end of a range: a value of the column behind the prefix.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub(crate) value: Expr,
    pub(crate) inclusive: bool,
}

/// How rows of two sides come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    /// Rows of the left side that have a partner, once.
    Semi,
    /// Rows of the left side that have none.
    Anti,
}

impl JoinKind {
    /// Whether the right side's columns are in the result.
    pub(crate) fn shows_right(self) -> bool {
        !matches!(self, JoinKind::Semi | JoinKind::Anti)
    }
}

/// Some slots of a joined row, by the side that they come from, the left side's first.
#[derive(Debug)]
pub(crate) struct Picked {
    pub(crate) left: Vec<usize>,
    pub(crate) right: Vec<usize>,
}

impl Picked {
    /// These slots of a row whose left part has this width; they rise.
    pub(crate) fn of(slots: &[usize], left_width: usize) -> Picked {
        let (left, right) = slots.split_at(slots.partition_point(|slot| *slot < left_width));
        Picked { left: left.to_vec(), right: right.iter().map(|slot| slot - left_width).collect() }
    }

    pub(crate) fn width(&self) -> usize {
        self.left.len() + self.right.len()
    }
}

#[derive(Debug)]
pub(crate) struct LookupNode {
    pub(crate) left: Plan,
    pub(crate) scan: ScanNode,
    /// `Inner`, `Left`, `Semi` or `Anti`.
    pub(crate) kind: JoinKind,
    /// What must hold of a joined row besides.
    pub(crate) condition: Option<Expr>,
    /// The slots of a joined row that the condition sees; none: all.
    pub(crate) seen: Option<Picked>,
    /// The slots of a joined row that are in the result; none: all.
    pub(crate) output: Option<Picked>,
}

#[derive(Debug)]
pub(crate) struct LoopNode {
    pub(crate) left: Plan,
    pub(crate) right: Plan,
    pub(crate) kind: JoinKind,
    pub(crate) condition: Option<Expr>,
    /// What the right side sees of the left side's row; if it sees nothing, it runs once.
    pub(crate) bindings: Vec<Binding>,
    /// Whether the right side gives the same rows for the same values, and is worth keeping.
    pub(crate) keeps: bool,
}

/// Gives an outer number its value, from a row.
#[derive(Debug, Clone)]
pub(crate) struct Binding {
    pub(crate) outer: usize,
    pub(crate) value: Expr,
}

#[derive(Debug)]
pub(crate) struct HashNode {
    pub(crate) left: Plan,
    pub(crate) right: Plan,
    pub(crate) kind: JoinKind,
    pub(crate) left_keys: Vec<usize>,
    pub(crate) right_keys: Vec<usize>,
    /// What must hold of a joined row besides.
    pub(crate) condition: Option<Expr>,
    /// The slots of a joined row that the condition sees; none: all.
    pub(crate) seen: Option<Picked>,
    /// The slots of a joined row that are in the result; none: all.
    pub(crate) output: Option<Picked>,
    /// `NOT IN`: a NULL on the right side empties the result, and a NULL on the left finds no answer.
    pub(crate) null_aware: bool,
    /// Whether so many rows of the left side have no partner that a scan beneath had better not read them as a whole.
    pub(crate) drops_left: bool,
}

/// One column of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SortKey {
    pub(crate) slot: usize,
    pub(crate) descending: bool,
    pub(crate) nulls_first: bool,
}

/// How many rows are wanted. The expressions see no row.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    pub(crate) count: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    /// The slots by which further rows equal the last one (`WITH TIES`).
    pub(crate) ties: Option<Vec<usize>>,
}

/// Grouping and aggregates. A result row holds the groups' keys, then the aggregates, then, if there are several sets,
/// the number of the set.
#[derive(Debug)]
pub(crate) struct AggregateNode {
    pub(crate) input: Plan,
    /// The slots by which rows are grouped.
    pub(crate) keys: Vec<usize>,
    /// For each grouping set the keys (positions in `keys`) that it has; the others are NULL. One set with all keys: plain.
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

/// Functions in FROM, beside each other.
#[derive(Debug)]
pub(crate) struct FunctionsNode {
    pub(crate) calls: Vec<FunctionItem>,
    pub(crate) ordinality: bool,
}

/// One function in FROM.
#[derive(Debug)]
pub(crate) enum FunctionItem {
    /// A function that returns rows, of this many columns.
    Set { call: SetCall, columns: usize },
    /// One row.
    Scalar { value: Expr, columns: usize },
}

/// A call of a set-returning function.
#[derive(Debug)]
pub(crate) struct SetCall {
    pub(crate) function: &'static Function,
    pub(crate) arguments: Vec<Expr>,
    pub(crate) types: Vec<Type>,
    pub(crate) result: Type,
}

impl FunctionItem {
    /// The oid of the routine whose rows it is, if it is one.
    pub(crate) fn routine(&self) -> Option<u32> {
        match self {
            FunctionItem::Set { call, .. } if is_call(call.function) => call.routine(),
            _ => None,
        }
    }
}

impl SetCall {
    /// The oid of the routine that it calls, if it calls one.
    pub(crate) fn routine(&self) -> Option<u32> {
        self.arguments.first()?.as_constant().map(Value::oid)
    }
}

/// A column of a projection whose expressions may return sets.
#[derive(Debug)]
pub(crate) enum ProjectItem {
    Value(Expr),
    Set(SetCall),
}
