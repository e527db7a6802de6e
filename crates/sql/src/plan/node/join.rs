//! Joins: by look-ups, in loops and by hashing.

use super::Plan;
use super::scan::ScanNode;
use crate::plan::expression::Expr;

/// The kind of a join.
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
    /// Returns true if the right side's columns are in the result.
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
    /// Further conditions on a joined row.
    pub(crate) condition: Option<Expr>,
    /// The slots of a joined row that the condition sees; `None` if it sees all.
    pub(crate) seen: Option<Picked>,
    /// The slots of a joined row that are in the result; `None` if all are.
    pub(crate) output: Option<Picked>,
}

#[derive(Debug)]
pub(crate) struct LoopNode {
    pub(crate) left: Plan,
    pub(crate) right: Plan,
    pub(crate) kind: JoinKind,
    pub(crate) condition: Option<Expr>,
    /// Values that the right side sees of the left side's row; if there are none, it runs once.
    pub(crate) bindings: Vec<Binding>,
    /// True if the right side gives the same rows for the same values, and is worth keeping.
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
    /// Further conditions on a joined row.
    pub(crate) condition: Option<Expr>,
    /// The slots of a joined row that the condition sees; `None` if it sees all.
    pub(crate) seen: Option<Picked>,
    /// The slots of a joined row that are in the result; `None` if all are.
    pub(crate) output: Option<Picked>,
    /// `NOT IN`: a NULL on the right side empties the result, and a NULL on the left finds no answer.
    pub(crate) null_aware: bool,
    /// True if so many rows of the left side have no partner that a scan beneath should look for one before it reads
    /// whole rows.
    pub(crate) drops_left: bool,
}
