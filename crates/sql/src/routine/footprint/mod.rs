//! Derived footprints: the reads and writes of a routine, derived from its body before it runs.
//!
//! ```text
//! accesses     the accesses of a statement, by its plan
//! expressions  the dependencies of keys, and their texts
//! constraints  the rows that foreign keys lead to
//! nested       routines and triggers that a statement calls
//! collect      accesses as actions of a flow graph, or as the keys of one call
//! call         statements that are one call
//! explain      EXPLAIN FUNCTION
//! ```
//!
//! The bodies are walked by their languages (`routine/sql.rs`, `routine/plpgsql/derive.rs`). The same walk does two things:
//! without arguments it draws the flow graph, and with arguments it computes the keys of one call.
//!
//! # Invariants
//! - A key is declared as far as it follows from the arguments alone: constants, and immutable functions of parameters.
//!   A part that depends on earlier results ends it, and the rest of the key is any.
//! - Both sides of a condition are declared, unless the arguments decide it. Declaring more than is accessed is allowed.
//! - A footprint belongs to one generation of the catalog, as the compiled body does.
//!
//! # Source
//! DORA (VLDB 2010), section 4.1.2: flow graphs, actions and identifiers; their derivation was left as future work there.

pub(crate) mod accesses;
pub(crate) mod call;
pub(crate) mod collect;
mod constraints;
mod explain;
pub(crate) mod expressions;
mod nested;

use std::sync::Arc;

use crate::catalog::{Routine, Table};
use crate::error::Result;
use crate::routine::Body;
use crate::routine::call::{acting_for, body_of};
use crate::routine::footprint::accesses::{Mode, Reason};
use crate::routine::footprint::collect::{Collector, Origin};
use crate::routine::plpgsql::derive::derive;
use crate::routine::query::{Door, Execution};
use crate::run::Access;
use crate::session::SessionEnvironment;
use crate::types::Value;
use crate::types::record::RecordField;

/// The flow graph of a routine.
#[derive(Debug, Default)]
pub(crate) struct FlowGraph {
    /// The actions, in the order of the body.
    pub actions: Vec<GraphAction>,
    pub gaps: Vec<Gap>,
    /// True if a call reads single rows ahead, because keys depend on them.
    pub reads_ahead: bool,
}

impl FlowGraph {
    /// Returns true if a call can declare all that it reads and writes.
    pub(crate) fn is_derived(&self) -> bool {
        self.gaps.is_empty() && !self.actions.is_empty()
    }
}

/// An action of a flow graph.
#[derive(Debug)]
pub(crate) struct GraphAction {
    pub place: Place,
    /// The phase, counted from 1: its statement depends on results of earlier phases.
    pub phase: u32,
    pub table: Arc<Table>,
    pub mode: Mode,
    /// The first columns of the key, with the texts of their values.
    pub key: Vec<(usize, String)>,
    /// The secondary index by which the rows are found, with the values of its columns.
    pub index: Option<String>,
    /// The reason why the rest of the key is not declared.
    pub open: Option<Reason>,
    /// True if it is in a loop, or is repeated for the elements of an array.
    pub is_repeated: bool,
    /// The columns that commutative operations change.
    pub commutes: Vec<usize>,
    /// The foreign key that is the reason for it.
    pub foreign_key: Option<String>,
    /// True if a call reads it ahead.
    pub is_ahead: bool,
}

/// A part of the footprint that is not derived.
#[derive(Debug, PartialEq)]
pub(crate) struct Gap {
    pub place: Place,
    pub reason: Reason,
}

/// A line of the routine, or of one that it leads to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Place {
    /// The calls and triggers that lead there; empty: none.
    pub within: Arc<str>,
    pub line: u32,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}line {}", self.within, self.line)
    }
}

/// The knowledge with which the walk over a body starts.
#[derive(Default)]
pub(crate) struct Start<'s> {
    /// The arguments, with NULL for those that are not known.
    pub arguments: &'s [Value],
    /// The origins of the arguments; those behind the last one are of the call itself.
    pub origins: &'s [Origin],
    /// The variables of a trigger's function.
    pub variables: &'s [(&'s str, Value, RowOrigin)],
    /// The fields of a trigger's rows.
    pub absent: Option<Arc<[RecordField]>>,
    /// The level of the conditions around.
    pub control: u32,
    pub is_repeated: bool,
}

/// The origin of a variable: of a row, field by field.
#[derive(Clone, Debug)]
pub(crate) enum RowOrigin {
    Value(Origin),
    Fields(Vec<Origin>),
}

/// The flow graph of a routine, for the catalog as it is.
///
/// # Errors
/// The body does not compile.
pub(crate) fn flow_graph(environment: &mut SessionEnvironment, routine: &Arc<Routine>) -> Result<FlowGraph> {
    let graph = graph_with(environment, routine, false)?;
    if graph.gaps.is_empty() {
        return Ok(graph);
    }
    // Rows that are read ahead are read twice: this is done only if it closes all gaps.
    let ahead = graph_with(environment, routine, true)?;
    Ok(if ahead.is_derived() { ahead } else { graph })
}

fn graph_with(
    environment: &mut SessionEnvironment,
    routine: &Arc<Routine>,
    reads_ahead: bool,
) -> Result<FlowGraph> {
    let mut collector = Collector { reads_ahead, ..Collector::of_graph() };
    walk(environment, routine, &Start::default(), &mut collector)?;
    Ok(FlowGraph { reads_ahead, ..collector.graph })
}

/// Walks a routine's body with these arguments, with the privileges that it has.
fn walk(
    environment: &mut SessionEnvironment,
    routine: &Arc<Routine>,
    start: &Start<'_>,
    collector: &mut Collector,
) -> Result<()> {
    acting_for(environment, routine, |environment| {
        let body = body_of(environment, routine)?;
        let nowhere = crate::access::Nowhere;
        let mut execution =
            Execution { environment, door: Door::Attempt(Access::reads(&nowhere)), may_write: false };
        crate::stack::grow(|| match &*body {
            Body::Sql(body) => body.derive(&mut execution, routine, start, collector),
            Body::Plpgsql(program) => derive(program, &mut execution, routine, start, collector),
        })
    })
}
