//! The planner: its state while a statement is planned, and the numbers that it assigns.
//!
//! # Invariants
//! - A column that no input holds belongs to a query around: it gets an outer number in the frame of the query that is
//!   being planned, and the code that runs that query sets the number from its own rows. Numbers are never shared
//!   between two owners, because operators take turns.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::bind::routines::{CALL_ROWS, CALL_VOLATILE, is_call};
use crate::bind::tree::{BoundExpr, BoundQuery, CteId, RelationId};
use crate::error::Result;
use crate::functions::Function;
use crate::plan::expression::Expr;
use crate::plan::layout::{Key, Layout};
use crate::plan::node::{Binding, Node, Plan};
use crate::plan::selectivity::Selectivity;
use crate::plan::statement::{Action, Known};

/// The values that a query sees of the queries around it.
#[derive(Debug, Default)]
pub(crate) struct Frame {
    pub(crate) outers: Vec<(Key, usize)>,
    /// It reads what may differ between two runs with equal outer values.
    pub(crate) changes: bool,
}

/// A common table expression, as its references see it.
#[derive(Debug, Clone)]
pub(crate) enum Cte {
    /// It is planned again where it is named.
    Inline(Arc<BoundQuery>),
    /// It is kept under this number; `depth`: in which frame it is evaluated. `once`: it is evaluated once in the statement.
    Kept { number: usize, width: usize, rows: f64, depth: usize, once: bool },
    /// It is being defined: a reference reads the last round's rows.
    Round { number: usize, width: usize, rows: f64, depth: usize },
}

pub(crate) struct Planner<'p> {
    pub(crate) known: &'p dyn Known,
    pub(crate) selectivity: Selectivity,
    /// The grouping sets of the query that is being planned.
    pub(crate) grouping_sets: Option<Vec<Vec<usize>>>,
    pub(crate) frames: Vec<Frame>,
    pub(crate) ctes: HashMap<CteId, Cte>,
    /// The columns of each relation that are named anywhere.
    pub(crate) used: HashMap<RelationId, BTreeSet<usize>>,
    /// Relations that were merged into the query around, with the expressions of their columns.
    pub(crate) merged: HashMap<RelationId, Vec<BoundExpr>>,
    /// Slots of set-returning functions' rows, by the calls.
    pub(crate) sets: HashMap<String, usize>,
    /// Statements in WITH, each with the number under which its rows are kept.
    pub(crate) first: Vec<(usize, Action)>,
    pub(crate) fresh: u32,
    pub(crate) outers: usize,
    pub(crate) caches: usize,
    pub(crate) nodes: usize,
    pub(crate) kept: usize,
    /// True if any query reserves rows.
    pub(crate) locks: bool,
    /// True if the choice of a partial index or of an index on an expression depends on the values of parameters.
    pub(crate) depends_on_values: bool,
    /// True if all rows that are read are named by whole keys.
    pub(crate) names_whole_keys: bool,
    /// Estimated number of rows of each node.
    pub(crate) estimates: Vec<f64>,
    /// True if it calls routines that may write.
    pub(crate) calls: bool,
    /// True if it calls any routine.
    pub(crate) has_routines: bool,
    /// Number of rows wanted of the scan that is planned next, if only the first are.
    pub(crate) wanted_rows: Option<f64>,
    /// True while a join is planned whose first rows are wanted: items are looked up, so that no item is read as a whole
    /// and the order of the first one is kept.
    pub(crate) streams: bool,
    /// Number of enclosing subqueries that are planned to see whether they are items to join.
    pub(crate) attempts: usize,
    /// Current nesting depth of queries.
    pub(crate) depth: usize,
    /// Number of enclosing terms of recursions, which are evaluated once in each round.
    pub(crate) rounds: usize,
    /// Number of enclosing subqueries of expressions.
    pub(crate) alternatives: usize,
}

/// Maximum nesting depth of queries: planning and execution recurse once for each level.
const DEPTH_MAX: usize = 200;

impl<'p> Planner<'p> {
    /// Notes a function that is called.
    pub(crate) fn note_call(&mut self, function: &Function) {
        self.has_routines |= is_call(function);
        self.calls |= matches!(function.name, CALL_VOLATILE | CALL_ROWS);
    }

    pub(crate) fn new(known: &'p dyn Known) -> Planner<'p> {
        Planner {
            known,
            selectivity: Selectivity::default(),
            grouping_sets: None,
            frames: vec![Frame::default()],
            ctes: HashMap::new(),
            used: HashMap::new(),
            merged: HashMap::new(),
            sets: HashMap::new(),
            first: Vec::new(),
            fresh: 0,
            outers: 0,
            caches: 0,
            nodes: 0,
            kept: 0,
            locks: false,
            depends_on_values: false,
            names_whole_keys: true,
            estimates: Vec::new(),
            calls: false,
            has_routines: false,
            wanted_rows: None,
            streams: false,
            attempts: 0,
            depth: 0,
            rounds: 0,
            alternatives: 0,
        }
    }

    /// Makes a node.
    pub(crate) fn plan(&mut self, node: Node, width: usize, rows: f64, cost: f64) -> Plan {
        self.nodes += 1;
        self.estimates.push(rows);
        Plan { node, width, rows: rows.max(0.0), cost, id: self.nodes - 1 }
    }

    /// The number under which the query that is being planned sees something of the queries around it.
    pub(crate) fn outer(&mut self, key: Key) -> usize {
        let next = self.outers;
        let Some(frame) = self.frames.last_mut() else { return next };
        if let Some((_, number)) = frame.outers.iter().find(|(known, _)| *known == key) {
            return *number;
        }
        frame.outers.push((key, next));
        self.outers += 1;
        next
    }

    /// Plans something in a frame of its own.
    pub(crate) fn framed<T>(&mut self, plan: impl FnOnce(&mut Self) -> Result<T>) -> Result<(T, Frame)> {
        if self.depth > DEPTH_MAX {
            return Err(crate::error::SqlError::new(
                crate::error::SqlState::STATEMENT_TOO_COMPLEX,
                "queries are nested too deeply",
            ));
        }
        self.depth += 1;
        self.frames.push(Frame::default());
        let planned = plan(self);
        let frame = self.frames.pop().unwrap_or_default();
        self.depth -= 1;
        if frame.changes
            && let Some(around) = self.frames.last_mut()
        {
            around.changes = true;
        }
        Ok((planned?, frame))
    }

    /// Notes that the frames inside of this one read something that is evaluated in it.
    pub(crate) fn depends_on_frame(&mut self, depth: usize) {
        self.frames.iter_mut().skip(depth + 1).for_each(|frame| frame.changes = true);
    }

    /// Binds the values that a query sees of its owner's rows.
    pub(crate) fn bindings(&mut self, frame: &Frame, layout: &Layout) -> Vec<Binding> {
        let bind = |(key, outer): &(Key, usize)| Binding { outer: *outer, value: self.key(*key, layout) };
        frame.outers.iter().map(bind).collect()
    }

    /// Returns the expression for a key, where rows have this layout.
    pub(crate) fn key(&mut self, key: Key, layout: &Layout) -> Expr {
        match layout.slot(key) {
            Some(slot) => Expr::Slot(slot),
            None => Expr::Outer(self.outer(key)),
        }
    }
}
