//! EXPLAIN: a plan as lines of text, or as JSON.
//!
//! A plan is first described: each node by its name, its properties, its estimated cost and its actual work. Both forms
//! are made from that description. The properties have PostgreSQL's names.

mod describe;
mod output;
mod scan;
mod text;

use crate::plan::node::{Node, Plan};
use crate::run::NodeCounts;
use crate::types::Environment;

pub(crate) use describe::startup;
pub(crate) use output::Explained;

/// Returns true if a plan reads tables.
pub(crate) fn reads_tables(plan: &Plan) -> bool {
    matches!(plan.node, Node::Scan(_) | Node::Lookup(_) | Node::Cte(_) | Node::WorkTable(_))
        || inputs(plan).into_iter().any(reads_tables)
}

/// The plans that a plan reads from.
pub(crate) fn inputs(plan: &Plan) -> Vec<&Plan> {
    match &plan.node {
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
        Node::Lock(node) => vec![&node.input],
        Node::Lookup(node) => vec![&node.left],
        Node::Loop(node) => vec![&node.left, &node.right],
        Node::Hash(node) => vec![&node.left, &node.right],
        Node::Aggregate(node) => vec![&node.input],
        Node::Window(node) => vec![&node.input],
        Node::Append(inputs) => inputs.iter().collect(),
        Node::SetOperation(node) => vec![&node.left, &node.right],
        Node::Recursive(node) => vec![&node.first, &node.again],
        Node::With { ctes, input } => ctes.iter().map(|(_, plan)| plan).chain([&**input]).collect(),
    }
}

/// The details shown of each node.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'c> {
    /// The estimates.
    pub(crate) costs: bool,
    /// The actual times.
    pub(crate) timing: bool,
    /// Counts of each node's execution.
    pub(crate) counts: Option<&'c [NodeCounts]>,
    /// Prints values.
    pub(crate) environment: &'c dyn Environment,
}
