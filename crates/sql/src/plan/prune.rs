//! Pruning: operators hand on only the slots that something above them reads.
//!
//! The planner joins whole rows of what is read. This pass walks a finished report from the top down: slots that only a
//! join's keys or conditions have read are not copied into its result, slots that only a filter has read do not leave
//! the scan, and a projection that has become the identity is removed.
//!
//! # Invariants
//! - The columns of the whole plan stay as they are. Slots that are kept stay in their order.
//! - Expressions that are computed are computed still: one may fail, or be volatile.
//! - Where an expression is of a kind that [`Expr::slots`] does not look into, everything beneath it is kept.

use std::collections::BTreeSet;

use crate::plan::expression::Expr;
use crate::plan::node::{AggregateNode, HashNode, LookupNode, Node, Picked, Plan, ScanNode};

type Slots = BTreeSet<usize>;

/// Prunes a plan all of whose columns are wanted.
pub(crate) fn prune(plan: &mut Plan) {
    let all = whole(plan.width);
    narrow(plan, &all);
}

fn whole(width: usize) -> Slots {
    (0..width).collect()
}

/// The slots that expressions read of rows of this width.
fn read_by<'e>(exprs: impl IntoIterator<Item = &'e Expr>, width: usize) -> Slots {
    let mut seen = Slots::new();
    match exprs.into_iter().all(|expr| expr.slots(&mut seen)) {
        true => seen,
        false => whole(width),
    }
}

/// Position of a slot in rows that hold these slots only.
fn place(kept: &[usize], slot: usize) -> usize {
    kept.binary_search(&slot).unwrap_or(slot)
}

fn renumber(expr: &mut Expr, kept: &[usize]) {
    expr.renumber(&|slot| place(kept, slot));
}

/// Leaves out the slots of a plan's rows that are not needed. Returns the slots that are kept, among them all needed
/// ones.
fn narrow(plan: &mut Plan, needed: &Slots) -> Vec<usize> {
    crate::stack::grow(|| {
        let kept = narrow_node(plan, needed);
        plan.width = kept.len();
        kept
    })
}

fn narrow_node(plan: &mut Plan, needed: &Slots) -> Vec<usize> {
    let width = plan.width;
    match &mut plan.node {
        Node::Scan(scan) => narrow_scan(scan, needed),
        Node::Filter { input, condition } => {
            let wanted = needed | &read_by([&*condition], input.width);
            let kept = narrow(input, &wanted);
            renumber(condition, &kept);
            kept
        }
        Node::Gate { input, .. } => narrow(input, needed),
        Node::Project { input, expressions } => {
            let kept = narrow_projection(input, expressions, needed);
            if is_identity(input, expressions) {
                let input = std::mem::replace(&mut **input, Plan::nothing());
                *plan = Plan { rows: plan.rows, cost: plan.cost, ..input };
            }
            kept
        }
        Node::Lookup(node) => narrow_lookup(node, needed),
        Node::Hash(node) => narrow_hash(node, needed),
        Node::Aggregate(node) => {
            narrow_aggregate(node);
            (0..width).collect()
        }
        Node::Sort { input, keys, limit, .. } => {
            let mut wanted = needed.clone();
            wanted.extend(keys.iter().map(|key| key.slot));
            let ties = limit.iter_mut().filter_map(|limit| limit.ties.as_mut()).flatten();
            let ties: Vec<&mut usize> = ties.collect();
            wanted.extend(ties.iter().map(|slot| **slot));
            let kept = narrow(input, &wanted);
            keys.iter_mut().for_each(|key| key.slot = place(&kept, key.slot));
            ties.into_iter().for_each(|slot| *slot = place(&kept, *slot));
            kept
        }
        other => {
            other.inputs_mut().into_iter().for_each(prune);
            (0..width).collect()
        }
    }
}

fn narrow_scan(scan: &mut ScanNode, needed: &Slots) -> Vec<usize> {
    let kept: Vec<usize> = needed.iter().copied().collect();
    if kept.len() == scan.output.len() {
        return kept;
    }
    if scan.filter.is_none() {
        scan.decoder = scan.decoder.picked(&kept);
        scan.filtered.clear();
        scan.others = (0..kept.len()).collect();
        scan.output = scan.others.clone();
    } else {
        scan.output.clone_from(&kept);
        scan.others.retain(|slot| needed.contains(slot));
    }
    kept
}

/// Leaves out columns of a projection that are mere slots or constants.
fn narrow_projection(input: &mut Plan, expressions: &mut Vec<Expr>, needed: &Slots) -> Vec<usize> {
    let is_kept = |(slot, expr): &(usize, &Expr)| {
        needed.contains(slot) || !matches!(expr, Expr::Slot(_) | Expr::Constant(_))
    };
    let kept: Vec<usize> = expressions.iter().enumerate().filter(is_kept).map(|(slot, _)| slot).collect();
    let mut slot = 0;
    expressions.retain(|_| {
        slot += 1;
        kept.binary_search(&(slot - 1)).is_ok()
    });
    let wanted = read_by(&*expressions, input.width);
    let below = narrow(input, &wanted);
    expressions.iter_mut().for_each(|expr| renumber(expr, &below));
    kept
}

fn is_identity(input: &Plan, expressions: &[Expr]) -> bool {
    let is_same = |(slot, expr): (usize, &Expr)| matches!(expr, Expr::Slot(of) if *of == slot);
    input.width == expressions.len() && expressions.iter().enumerate().all(is_same)
}

/// The sides of a join's row: the slots wanted of each.
fn sides(wanted: &Slots, left_width: usize) -> (Slots, Slots) {
    let left = wanted.range(..left_width).copied().collect();
    let right = wanted.range(left_width..).map(|slot| slot - left_width).collect();
    (left, right)
}

/// The slots of a joined row, by those of its sides that are kept.
fn joined(left: &[usize], right: &[usize], left_width: usize) -> Vec<usize> {
    left.iter().copied().chain(right.iter().map(|slot| slot + left_width)).collect()
}

/// Makes a join's condition read a row of the slots that it names only, and tells which these are.
fn narrow_condition(condition: &mut Option<Expr>, kept: &[usize], left_width: usize) -> Option<Picked> {
    let condition = condition.as_mut()?;
    renumber(condition, kept);
    let seen: Vec<usize> = read_by([&*condition], kept.len()).into_iter().collect();
    renumber(condition, &seen);
    Some(Picked::of(&seen, left_width))
}

fn narrow_hash(node: &mut HashNode, needed: &Slots) -> Vec<usize> {
    let width = node.left.width;
    let wanted = needed | &read_by(&node.condition, width + node.right.width);
    let (mut left, mut right) = sides(&wanted, width);
    left.extend(&node.left_keys);
    right.extend(&node.right_keys);
    let (left, right) = (narrow(&mut node.left, &left), narrow(&mut node.right, &right));
    node.left_keys.iter_mut().for_each(|slot| *slot = place(&left, *slot));
    node.right_keys.iter_mut().for_each(|slot| *slot = place(&right, *slot));
    let kept = joined(&left, &right, width);
    node.seen = narrow_condition(&mut node.condition, &kept, left.len());
    let output: Vec<usize> = needed.iter().map(|&slot| place(&kept, slot)).collect();
    node.output = Some(Picked::of(&output, left.len()));
    needed.iter().copied().collect()
}

fn narrow_lookup(node: &mut LookupNode, needed: &Slots) -> Vec<usize> {
    let (width, scanned) = (node.left.width, node.scan.decoder.len());
    let wanted = needed | &read_by(&node.condition, width + scanned);
    let (mut left, _) = sides(&wanted, width);
    left.extend(read_by(node.scan.path.exprs(), width));
    let left = narrow(&mut node.left, &left);
    node.scan.path.each_expr(&mut |expr| renumber(expr, &left));
    let kept = joined(&left, &(0..scanned).collect::<Vec<_>>(), width);
    node.seen = narrow_condition(&mut node.condition, &kept, left.len());
    let output: Vec<usize> = needed.iter().map(|&slot| place(&kept, slot)).collect();
    node.output = Some(Picked::of(&output, left.len()));
    needed.iter().copied().collect()
}

fn narrow_aggregate(node: &mut AggregateNode) {
    let mut slots: Vec<&mut usize> = node.keys.iter_mut().collect();
    for call in &mut node.calls {
        slots.extend(call.arguments.iter_mut().chain(&mut call.filter));
        slots.extend(call.order.iter_mut().map(|key| &mut key.slot));
    }
    let wanted = slots.iter().map(|slot| **slot).collect();
    let kept = narrow(&mut node.input, &wanted);
    slots.into_iter().for_each(|slot| *slot = place(&kept, *slot));
}
