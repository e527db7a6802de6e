//! Operators: the running nodes of a plan, each of which returns batches of rows when it is asked.
//!
//! This is the iterator model of Volcano, with batches of rows in place of single rows. Operators that hold many rows
//! charge them to the statement's memory; sorts, hash joins and aggregates write them to temporary files beyond its
//! limit (`run/spill`).
//!
//! # Invariants
//! - An operator asks its inputs for rows only when it needs more, so that a limit above ends the work below.
//! - After `None` an operator is not asked again. A batch that is given has at least one row.
//! - An operator borrows its plan and owns everything else: running a plan again means to build its operators again.

mod accumulate;
mod aggregate;
mod distinct;
mod functions;
mod hash_join;
mod join_index;
mod kept_sides;
mod limit;
mod lock;
mod lookup;
mod loop_join;
mod parallel;
pub(crate) mod prefixes;
mod project;
mod ranges;
mod recursive;
pub(crate) mod scan;
mod sort;
pub(super) mod sorted_rows;
mod spilled_join;
mod spilled_states;
mod window;
mod window_frame;
mod window_range;
mod window_rows;

pub(crate) use hash_join::{Build, KeyFilter};

use crate::error::Result;
use crate::plan::node::{Node, Plan};
use crate::run::Run;
use crate::run::batch::Batch;

/// A node of a running plan, which returns batches of rows.
pub(crate) trait Operator<'e> {
    /// The next rows; none if there are no more.
    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>>;

    /// Says before the first batch that no more rows than these may be wanted, so that the first one is no larger:
    /// computations on further rows could fail, or draw values from a sequence. An operator may ignore it: scans,
    /// filters and projections do not.
    fn expect_few(&mut self, _rows: usize) {}

    /// Lets the operator leave out rows that the filter rejects; it need not.
    fn drop_unmatched(&mut self, _filter: KeyFilter<'e>) {}
}

pub(crate) type Running<'e> = Box<dyn Operator<'e> + 'e>;

/// The operator of a plan.
pub(crate) fn operator<'e>(plan: &'e Plan, run: &mut Run<'e>) -> Result<Running<'e>> {
    let running: Running<'e> = match &plan.node {
        Node::Values(rows) => Box::new(project::ValueRows::new(rows, plan.width)),
        Node::Scan(node) => match run.part.take_if(|(id, _)| *id == plan.id) {
            Some((_, part)) => Box::new(scan::TableScan::of_part(node, part)),
            None => Box::new(scan::TableScan::new(node)),
        },
        Node::Functions(node) => Box::new(functions::FunctionRows::new(node, plan.id, plan.width)),
        Node::Cte(number) => Box::new(recursive::CteRows::new(*number)),
        Node::WorkTable(number) => Box::new(recursive::Kept::new(run.work_table(*number))),
        Node::Filter { input, condition } => {
            Box::new(project::Filter { input: operator(input, run)?, condition })
        }
        Node::Gate { input, condition } => match run.holds(condition, &[])? {
            true => operator(input, run)?,
            false => Box::new(project::ValueRows::new(&[], plan.width)),
        },
        Node::Project { input, expressions } => {
            Box::new(project::Project::new(operator(input, run)?, expressions))
        }
        Node::ProjectSet { input, items } => {
            Box::new(functions::ProjectSets::new(operator(input, run)?, items))
        }
        Node::Lock(node) => Box::new(lock::LockRows::new(node, operator(&node.input, run)?)),
        Node::Lookup(node) => Box::new(lookup::LookupJoin::new(node, operator(&node.left, run)?)),
        Node::Loop(node) => Box::new(loop_join::LoopJoin::new(node, operator(&node.left, run)?)),
        Node::Hash(node) => {
            let left = operator(&node.left, run)?;
            match run.builds.get(&plan.id).cloned() {
                Some(build) => Box::new(hash_join::HashJoin::with_build(node, left, build)),
                None => Box::new(hash_join::HashJoin::new(node, left, operator(&node.right, run)?)),
            }
        }
        Node::Aggregate(node) => Box::new(aggregate::Aggregate::new(node)),
        Node::Window(node) => Box::new(window::Windows::new(node)),
        Node::Sort { input, keys, limit, presorted } => {
            Box::new(sort::Sort::new(input, &keys[..], limit.as_ref()).presorted(*presorted))
        }
        Node::Limit { input, limit } => Box::new(limit::LimitRows::new(operator(input, run)?, limit)),
        Node::Distinct { input, slots } => {
            Box::new(distinct::DistinctRows::new(operator(input, run)?, plan.width, slots))
        }
        Node::DistinctOn { input, slots } => {
            Box::new(distinct::FirstOfEach { input: operator(input, run)?, slots, last: None })
        }
        Node::Append(inputs) => Box::new(project::Append::new(inputs)),
        Node::SetOperation(node) => {
            Box::new(distinct::SetRows::new(node, operator(&node.left, run)?, operator(&node.right, run)?))
        }
        Node::Recursive(node) => Box::new(recursive::Recursion::new(node, operator(&node.first, run)?)),
        Node::With { ctes, input } => {
            ctes.iter().for_each(|(number, cte)| run.define_cte(*number, cte));
            operator(input, run)?
        }
    };
    Ok(match run.counts {
        Some(_) => Box::new(Counted { id: plan.id, running, is_started: false }),
        None => running,
    })
}

/// Counts the rows that an operator gives, and its time.
struct Counted<'e> {
    id: usize,
    running: Running<'e>,
    is_started: bool,
}

impl<'e> Operator<'e> for Counted<'e> {
    fn expect_few(&mut self, rows: usize) {
        self.running.expect_few(rows);
    }

    fn drop_unmatched(&mut self, filter: KeyFilter<'e>) {
        self.running.drop_unmatched(filter);
    }

    fn next(&mut self, run: &mut Run<'e>) -> Result<Option<Batch>> {
        let start = std::time::Instant::now();
        let batch = self.running.next(run)?;
        if let Some(counts) = run.counts.as_mut().and_then(|counts| counts.get_mut(self.id)) {
            let is_first = !std::mem::replace(&mut self.is_started, true);
            counts.add(batch.as_ref().map_or(0, Batch::len), start.elapsed(), is_first);
        }
        Ok(batch)
    }
}
