//! EXPLAIN: a plan as lines of text, or as JSON.

use crate::plan::node::{JoinKind, Node, Path, Plan, ScanNode};
use crate::plan::statement::{Action, Planned};

/// Whether a plan reads tables.
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

fn join_name(method: &str, kind: JoinKind) -> String {
    match kind {
        JoinKind::Inner => method.to_string(),
        JoinKind::Left => format!("{method} Left Join"),
        JoinKind::Right => format!("{method} Right Join"),
        JoinKind::Full => format!("{method} Full Join"),
        JoinKind::Semi => format!("{method} Semi Join"),
        JoinKind::Anti => format!("{method} Anti Join"),
    }
}

fn scan_name(scan: &ScanNode) -> String {
    let table = &scan.table.name;
    let direction = if scan.backward { " Backward" } else { "" };
    let primary = || scan.table.key_name.clone().unwrap_or_else(|| "the hidden key".to_string());
    let name = |index: &Option<usize>| match index {
        Some(index) => scan.table.indexes[*index].name.clone(),
        None => primary(),
    };
    match &scan.path {
        Path::Full => format!("Seq Scan{direction} on {table}"),
        Path::Point(_) => format!("Key Lookup using {} on {table}", primary()),
        Path::Points { index, whole: true, .. } => format!("Key Lookups using {} on {table}", name(index)),
        Path::Points { index, .. } | Path::Range { index, .. } => {
            format!("Index Scan{direction} using {} on {table}", name(index))
        }
    }
}

/// What a node is called.
fn name(plan: &Plan) -> String {
    match &plan.node {
        Node::Values(rows) if rows.len() == 1 => "Result".to_string(),
        Node::Values(_) => "Values Scan".to_string(),
        Node::Scan(scan) => scan_name(scan),
        Node::Functions(_) => "Function Scan".to_string(),
        Node::Cte(number) => format!("CTE Scan {number}"),
        Node::WorkTable(number) => format!("WorkTable Scan {number}"),
        Node::Filter { .. } => "Filter".to_string(),
        Node::Gate { .. } => "Result (One-Time Filter)".to_string(),
        Node::Project { .. } => "Project".to_string(),
        Node::ProjectSet { .. } => "ProjectSet".to_string(),
        Node::Lookup(node) => format!("{}: {}", join_name("Lookup", node.kind), scan_name(&node.scan)),
        Node::Loop(node) if node.keeps => join_name("Nested Loop", node.kind) + " (memoized)",
        Node::Loop(node) => join_name("Nested Loop", node.kind),
        Node::Hash(node) => join_name("Hash Join", node.kind).replace("Join Left Join", "Left Join"),
        Node::Aggregate(node) if node.keys.is_empty() => "Aggregate".to_string(),
        Node::Aggregate(_) => "HashAggregate".to_string(),
        Node::Window(_) => "WindowAgg".to_string(),
        Node::Sort { limit: Some(_), .. } => "Sort (top N)".to_string(),
        Node::Sort { .. } => "Sort".to_string(),
        Node::Limit { .. } => "Limit".to_string(),
        Node::Distinct { .. } => "Unique (hashed)".to_string(),
        Node::Lock(_) => "LockRows".to_string(),
        Node::DistinctOn { .. } => "Unique".to_string(),
        Node::Append(_) => "Append".to_string(),
        Node::SetOperation(_) => "SetOp".to_string(),
        Node::Recursive(_) => "Recursive Union".to_string(),
        Node::With { .. } => "With".to_string(),
    }
}

/// What is shown of each node.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'c> {
    /// The estimates.
    pub(crate) costs: bool,
    /// How many rows each node has given.
    pub(crate) counts: Option<&'c [u64]>,
}

impl Planned {
    /// The plan, a line for each node.
    pub(crate) fn explain(&self, shown: Shown<'_>) -> Vec<String> {
        let mut lines = Vec::new();
        for (number, plan) in &self.ctes {
            lines.push(format!("CTE {number}"));
            explain(plan, 1, shown, &mut lines);
        }
        for (number, action) in &self.first {
            lines.push(format!("CTE {number}"));
            explain_action(action, 1, shown, &mut lines);
        }
        explain_action(&self.action, 0, shown, &mut lines);
        lines
    }
}

fn explain_action(action: &Action, depth: usize, shown: Shown<'_>, lines: &mut Vec<String>) {
    let (head, input) = match action {
        Action::Query(plan) => return explain(plan, depth, shown, lines),
        Action::Insert(insert) => {
            let commutes = insert.conflict.as_ref().and_then(|conflict| conflict.update.as_ref());
            let commutes = commutes.is_some_and(|update| update.commuting.is_some());
            (format!("Insert on {}{}", insert.rules.table.name, suffix(commutes)), &insert.input)
        }
        Action::Update(update) => (
            format!("Update on {}{}", update.rules.table.name, suffix(update.commuting.is_some())),
            &update.input,
        ),
        Action::Delete(delete) => (format!("Delete on {}", delete.rules.table.name), &delete.input),
        Action::Merge(merge) => (format!("Merge on {}", merge.rules.table.name), &merge.input),
    };
    lines.push(format!("{}{head}", indent(depth)));
    explain(input, depth + 1, shown, lines);
}

fn suffix(commutes: bool) -> &'static str {
    if commutes { " (commutes)" } else { "" }
}

fn indent(depth: usize) -> String {
    match depth {
        0 => String::new(),
        depth => format!("{}->  ", " ".repeat(6 * depth - 4)),
    }
}

fn explain(plan: &Plan, depth: usize, shown: Shown<'_>, lines: &mut Vec<String>) {
    let mut line = format!("{}{}", indent(depth), name(plan));
    if shown.costs {
        let rows = plan.rows.ceil() as u64;
        line += &format!("  (cost={:.2} rows={rows} width={})", plan.cost, plan.width);
    }
    if let Some(rows) = shown.counts.and_then(|counts| counts.get(plan.id)) {
        line += &format!(" (actual rows={rows})");
    }
    lines.push(line);
    inputs(plan).into_iter().for_each(|input| explain(input, depth + 1, shown, lines));
}
