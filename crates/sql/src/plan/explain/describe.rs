//! Descriptions of a plan's nodes: their names, their properties, and their inputs.

use super::text::Names;
use super::{Shown, inputs, scan};
use crate::catalog::Table;
use crate::plan::commute::{Reads, Recognition};
use crate::plan::expression::Expr;
use crate::plan::node::{
    AggregateNode, HashNode, JoinKind, LookupNode, Node, Path, Picked, Plan, RangesKind, ScanNode, SortKey,
};
use crate::plan::statement::{Action, Planned};
use crate::run::NodeCounts;

/// A property of a node.
#[derive(Debug)]
pub(super) enum Property {
    Text(String),
    List(Vec<String>),
    /// It is part of the node's line of text, and a property of its own in JSON only.
    InName(String),
}

/// A node as it is shown.
#[derive(Debug, Default)]
pub(super) struct Described {
    /// Its line of text.
    pub(super) title: String,
    /// PostgreSQL's name for such a node.
    pub(super) kind: &'static str,
    pub(super) properties: Vec<(&'static str, Property)>,
    /// Startup cost, total cost, rows, width.
    pub(super) estimate: Option<(f64, f64, f64, usize)>,
    pub(super) counts: Option<NodeCounts>,
    /// Its relationship to the node above.
    pub(super) relationship: &'static str,
    /// The title of a node that is a part of this one, in JSON.
    pub(super) inner: Option<Box<Described>>,
    pub(super) inputs: Vec<Described>,
    /// The common table expression that it defines.
    pub(super) subplan: Option<usize>,
}

/// A statement's plans: those that are evaluated first, each with its number, and the statement's own.
pub(super) fn describe(planned: &Planned, shown: Shown<'_>) -> Described {
    let is_qualified = count_scans(planned) > 1;
    let describer = Describer { shown, is_qualified };
    let first = planned.ctes.iter().map(|(number, plan)| (*number, describer.node(plan).0));
    let first = first.chain(planned.first.iter().map(|(number, action)| (*number, describer.action(action))));
    let first: Vec<Described> = first
        .map(|(number, described)| Described { subplan: Some(number), relationship: "InitPlan", ..described })
        .collect();
    let mut described = describer.action(&planned.action);
    described.inputs.splice(0..0, first);
    described
}

fn count_scans(planned: &Planned) -> usize {
    fn of(plan: &Plan) -> usize {
        let own = usize::from(matches!(plan.node, Node::Scan(_) | Node::Lookup(_)));
        own + inputs(plan).into_iter().map(of).sum::<usize>()
    }
    let first = planned.first.iter().map(|(_, action)| action).chain([&planned.action]);
    let actions = first.map(|action| match action {
        Action::Query(plan) => of(plan),
        Action::Insert(insert) => of(&insert.input),
        Action::Update(update) => of(&update.input),
        Action::Delete(delete) => of(&delete.input),
        Action::Merge(merge) => of(&merge.input),
    });
    actions.sum::<usize>() + planned.ctes.iter().map(|(_, plan)| of(plan)).sum::<usize>()
}

struct Describer<'c> {
    shown: Shown<'c>,
    /// True if columns are shown with their table's name.
    is_qualified: bool,
}

fn join_name(method: &str, kind: JoinKind) -> String {
    match kind {
        JoinKind::Inner => method.to_string(),
        kind => format!("{method} {kind:?} Join"),
    }
}

fn suffix(commutes: bool) -> &'static str {
    if commutes { " (commutes)" } else { "" }
}

/// Describes the operations that an update does without reading its columns, and the columns it does read; or why it
/// reads them.
fn effects(table: &Table, recognition: &Recognition) -> Vec<(&'static str, Property)> {
    let name = |column: usize| table.columns[column].name.as_str();
    let what = match recognition {
        Ok(what) => what,
        Err(Reads(None)) => return Vec::new(),
        Err(Reads(Some(reason))) => return vec![("Reads", Property::Text(reason.clone()))],
    };
    let operations =
        what.operations.iter().map(|one| format!("{} {}", one.operation.name(), name(one.column)));
    let writes = what.writes.iter().map(|one| format!("set {}", name(one.column)));
    let mut effects: Vec<String> = operations.chain(writes).collect();
    effects.dedup();
    let mut properties = vec![("Effects", Property::List(effects))];
    if !what.guards.is_empty() {
        let guarded = what.guards.iter().map(|guard| name(guard.column).to_owned());
        properties.push(("Guarded", Property::List(guarded.collect())));
    }
    if !what.reads.is_empty() {
        let reads = what.reads.iter().map(|&column| name(column).to_owned());
        properties.push(("Validated", Property::List(reads.collect())));
    }
    properties
}

impl Describer<'_> {
    fn action(&self, action: &Action) -> Described {
        let (operation, table, recognition, input) = match action {
            Action::Query(plan) => return self.node(plan).0,
            Action::Insert(insert) => {
                let update = insert.conflict.as_ref().and_then(|conflict| conflict.update.as_ref());
                let recognition = update.map(|update| &update.commuting);
                ("Insert", &insert.rules.table, recognition, &insert.input)
            }
            Action::Update(update) => {
                let operation = if update.is_merge { "Merge" } else { "Update" };
                (operation, &update.rules.table, Some(&update.commuting), &update.input)
            }
            Action::Delete(delete) => ("Delete", &delete.rules.table, None, &delete.input),
            Action::Merge(merge) => ("Merge", &merge.rules.table, None, &merge.input),
        };
        let mut properties = vec![
            ("Operation", Property::InName(operation.to_string())),
            ("Relation Name", Property::InName(table.name.clone())),
        ];
        properties.extend(recognition.into_iter().flat_map(|recognition| effects(table, recognition)));
        let commutes = matches!(recognition, Some(Ok(_)));
        let title = format!("{operation} on {}{}", table.name, suffix(commutes));
        let inputs = vec![Described { relationship: "Outer", ..self.node(input).0 }];
        Described { title, kind: "ModifyTable", properties, inputs, ..Described::default() }
    }

    fn names<'n>(&'n self, slots: &'n [String]) -> Names<'n> {
        Names { slots, environment: self.shown.environment }
    }

    /// A node, and the names of its rows' slots.
    fn node(&self, plan: &Plan) -> (Described, Vec<String>) {
        let (mut below, mut slots): (Vec<Described>, Vec<Vec<String>>) =
            inputs(plan).into_iter().map(|input| self.node(input)).unzip();
        let relationships = match &plan.node {
            Node::Append(_) | Node::SetOperation(_) | Node::Recursive(_) => ["Member"; 2],
            _ => ["Outer", "Inner"],
        };
        for (at, input) in below.iter_mut().enumerate() {
            input.relationship = relationships[at.min(1)];
        }
        if let Node::With { ctes, .. } = &plan.node {
            for (input, (number, _)) in below.iter_mut().zip(ctes) {
                (input.subplan, input.relationship) = (Some(*number), "InitPlan");
            }
        }
        let mut described = self.of_node(plan, &slots);
        described.inputs.extend(below);
        if self.shown.costs {
            described.estimate = Some((startup(plan), plan.cost, plan.rows, plan.width));
        }
        described.counts = self.shown.counts.and_then(|counts| counts.get(plan.id)).copied();
        let names = self.slot_names(plan, &mut slots);
        (described, names)
    }

    /// Describes a node without its inputs, whose slots have these names.
    fn of_node(&self, plan: &Plan, slots: &[Vec<String>]) -> Described {
        let below: &[String] = slots.first().map_or(&[], Vec::as_slice);
        let shown = |expr: &Expr| Property::Text(self.names(below).shown(expr));
        let plain = |title: &str, kind: &'static str, properties: Vec<(&'static str, Property)>| Described {
            title: title.to_string(),
            kind,
            properties,
            ..Described::default()
        };
        match &plan.node {
            Node::Values(rows) if rows.len() == 1 => plain("Result", "Result", Vec::new()),
            Node::Values(_) => plain("Values Scan", "Values Scan", Vec::new()),
            Node::Scan(scan) => self.scan(scan, &[]),
            Node::Functions(_) => plain("Function Scan", "Function Scan", Vec::new()),
            Node::Cte(number) => plain(&format!("CTE Scan {number}"), "CTE Scan", Vec::new()),
            Node::WorkTable(number) => {
                plain(&format!("WorkTable Scan {number}"), "WorkTable Scan", Vec::new())
            }
            Node::Filter { condition, .. } => plain("Filter", "Result", vec![("Filter", shown(condition))]),
            Node::Gate { condition, .. } => {
                plain("Result", "Result", vec![("One-Time Filter", shown(condition))])
            }
            Node::Project { .. } => plain("Project", "Result", Vec::new()),
            Node::ProjectSet { .. } => plain("ProjectSet", "ProjectSet", Vec::new()),
            Node::Lookup(node) => self.lookup(node, below),
            Node::Loop(node) => {
                let memoized = if node.keeps { " (memoized)" } else { "" };
                let title = join_name("Nested Loop", node.kind) + memoized;
                let both = slots.concat();
                let condition = node.condition.iter().map(|it| ("Join Filter", self.names(&both).shown(it)));
                self.join(&title, "Nested Loop", node.kind, condition.collect())
            }
            Node::Hash(node) => self.hash_join(node, slots),
            Node::Aggregate(node) => aggregate(node, below),
            Node::Window(_) => plain("WindowAgg", "WindowAgg", Vec::new()),
            Node::Sort { keys, limit, presorted, .. } => {
                let kind = if *presorted > 0 { "Incremental Sort" } else { "Sort" };
                let title = format!("{kind}{}", if limit.is_some() { " (top N)" } else { "" });
                let mut properties = vec![("Sort Key", Property::List(sort_keys(keys, below)))];
                if *presorted > 0 {
                    let keys = sort_keys(&keys[..*presorted], below);
                    properties.push(("Presorted Key", Property::List(keys)));
                }
                plain(&title, kind, properties)
            }
            Node::Limit { .. } => plain("Limit", "Limit", Vec::new()),
            Node::Distinct { .. } => plain("Unique (hashed)", "Aggregate", Vec::new()),
            Node::Lock(_) => plain("LockRows", "LockRows", Vec::new()),
            Node::DistinctOn { .. } => plain("Unique", "Unique", Vec::new()),
            Node::Append(_) => plain("Append", "Append", Vec::new()),
            Node::SetOperation(_) => plain("SetOp", "SetOp", Vec::new()),
            Node::Recursive(_) => plain("Recursive Union", "Recursive Union", Vec::new()),
            Node::With { .. } => plain("With", "Result", Vec::new()),
        }
    }

    fn lookup(&self, node: &LookupNode, below: &[String]) -> Described {
        let inner = self.scan(&node.scan, below);
        let title = format!("{}: {}", join_name("Lookup", node.kind), inner.title);
        let both = [below, &scan::slot_names(&node.scan, self.is_qualified)].concat();
        let condition = self.seen_condition(&node.condition, node.seen.as_ref(), &both, below.len());
        let join = [("Join Type", Property::InName(format!("{:?}", node.kind)))];
        let properties = join.into_iter().chain(condition.map(|text| ("Join Filter", text)));
        let inner = Described { relationship: "Inner", ..inner };
        let properties = properties.collect();
        Described {
            title,
            kind: "Nested Loop",
            properties,
            inner: Some(Box::new(inner)),
            ..Described::default()
        }
    }

    fn hash_join(&self, node: &HashNode, slots: &[Vec<String>]) -> Described {
        let title = join_name("Hash Join", node.kind).replace("Join Left Join", "Left Join");
        let keys = node
            .left_keys
            .iter()
            .zip(&node.right_keys)
            .map(|(left, right)| format!("({} = {})", name(&slots[0], *left), name(&slots[1], *right)));
        let mut keys: Vec<String> = keys.collect();
        let keys = if keys.len() == 1 { keys.remove(0) } else { format!("({})", keys.join(" AND ")) };
        let mut conditions = vec![("Hash Cond", keys)];
        let both = slots.concat();
        let condition = self.seen_condition(&node.condition, node.seen.as_ref(), &both, slots[0].len());
        if let Some(Property::Text(condition)) = condition {
            conditions.push(("Join Filter", condition));
        }
        self.join(&title, "Hash Join", node.kind, conditions)
    }

    fn join(
        &self,
        title: &str,
        kind: &'static str,
        join: JoinKind,
        conditions: Vec<(&'static str, String)>,
    ) -> Described {
        let conditions = conditions.into_iter().map(|(name, text)| (name, Property::Text(text)));
        let properties = [("Join Type", Property::InName(format!("{join:?}")))].into_iter().chain(conditions);
        let (title, properties) = (title.to_string(), properties.collect());
        Described { title, kind, properties, ..Described::default() }
    }

    /// The condition of a join that sees some slots of the joined row.
    fn seen_condition(
        &self,
        condition: &Option<Expr>,
        seen: Option<&Picked>,
        both: &[String],
        left: usize,
    ) -> Option<Property> {
        let slots: Vec<String> = match seen {
            None => both.to_vec(),
            Some(seen) => picked(seen, both, left),
        };
        condition.as_ref().map(|condition| Property::Text(self.names(&slots).shown(condition)))
    }

    /// A scan, whose path sees slots of these names.
    fn scan(&self, node: &ScanNode, seen: &[String]) -> Described {
        let table = &node.table.name;
        let direction = if node.backward { " Backward" } else { "" };
        let indexes = scan::index_names(node).join(", ");
        let named = if node.alias == *table { table.clone() } else { format!("{table} {}", node.alias) };
        let title = match &node.path {
            Path::Full => format!("Seq Scan{direction} on {named}"),
            Path::Point(_) => format!("Key Lookup using {indexes} on {named}"),
            Path::Ranges { kind: RangesKind::Points, .. } => {
                format!("Key Lookups using {indexes} on {named}")
            }
            Path::Ranges { .. } => format!("Index Scan{direction} using {indexes} on {named}"),
        };
        let is_full = matches!(node.path, Path::Full);
        let mut properties = vec![
            ("Relation Name", Property::InName(table.clone())),
            ("Alias", Property::InName(node.alias.clone())),
        ];
        if !is_full {
            let direction = if node.backward { "Backward" } else { "Forward" };
            properties.push(("Scan Direction", Property::InName(direction.to_string())));
            properties.push(("Index Name", Property::InName(indexes)));
            let condition = scan::index_condition(node, &self.names(seen));
            properties.extend(condition.map(|text| ("Index Cond", Property::Text(text))));
        }
        if let Some(filter) = &node.filter {
            let slots = scan::slot_names(node, self.is_qualified);
            properties.push(("Filter", Property::Text(self.names(&slots).shown(filter))));
        }
        let kind = if is_full { "Seq Scan" } else { "Index Scan" };
        Described { title, kind, properties, ..Described::default() }
    }

    /// The names of the slots of a node's rows, derived from those of its inputs.
    fn slot_names(&self, plan: &Plan, below: &mut Vec<Vec<String>>) -> Vec<String> {
        let first = below.first().cloned().unwrap_or_default();
        let mut names = match &plan.node {
            Node::Scan(node) => {
                let all = scan::slot_names(node, self.is_qualified);
                node.output.iter().map(|slot| name(&all, *slot)).collect()
            }
            Node::Project { expressions, .. } => {
                expressions.iter().map(|expr| self.names(&first).shown(expr)).collect()
            }
            Node::Lookup(node) => {
                let both = [&first[..], &scan::slot_names(&node.scan, self.is_qualified)].concat();
                node.output.as_ref().map_or(both.clone(), |output| picked(output, &both, first.len()))
            }
            Node::Hash(node) => {
                let both = below.concat();
                node.output.as_ref().map_or(both.clone(), |output| picked(output, &both, first.len()))
            }
            Node::Loop(_) => below.concat(),
            Node::Aggregate(node) => {
                let keys = node.keys.iter().map(|slot| name(&first, *slot));
                let calls = node.calls.iter().map(|call| {
                    let arguments: Vec<String> = call.arguments.iter().map(|at| name(&first, *at)).collect();
                    let arguments = if arguments.is_empty() { "*".to_string() } else { arguments.join(", ") };
                    format!("{}({arguments})", call.function.name)
                });
                keys.chain(calls).collect()
            }
            Node::With { .. } => below.pop().unwrap_or_default(),
            _ => first,
        };
        names.truncate(plan.width);
        (names.len()..plan.width).for_each(|slot| names.push(format!("column{}", slot + 1)));
        names
    }
}

fn name(slots: &[String], slot: usize) -> String {
    slots.get(slot).cloned().unwrap_or_else(|| format!("column{}", slot + 1))
}

fn picked(slots: &Picked, both: &[String], left: usize) -> Vec<String> {
    let right = slots.right.iter().map(|slot| slot + left);
    slots.left.iter().copied().chain(right).map(|slot| name(both, slot)).collect()
}

fn aggregate(node: &AggregateNode, below: &[String]) -> Described {
    let (title, strategy) =
        if node.keys.is_empty() { ("Aggregate", "Plain") } else { ("HashAggregate", "Hashed") };
    let mut properties = vec![("Strategy", Property::InName(strategy.to_string()))];
    if !node.keys.is_empty() {
        let keys = node.keys.iter().map(|slot| name(below, *slot)).collect();
        properties.push(("Group Key", Property::List(keys)));
    }
    Described { title: title.to_string(), kind: "Aggregate", properties, ..Described::default() }
}

fn sort_keys(keys: &[SortKey], below: &[String]) -> Vec<String> {
    let key = |key: &SortKey| {
        let direction = if key.descending { " DESC" } else { "" };
        let nulls = match (key.descending, key.nulls_first) {
            (false, true) => " NULLS FIRST",
            (true, false) => " NULLS LAST",
            _ => "",
        };
        format!("{}{direction}{nulls}", name(below, key.slot))
    };
    keys.iter().map(key).collect()
}

/// The cost until the first row: all of the input's where it is read as a whole before.
pub(crate) fn startup(plan: &Plan) -> f64 {
    match &plan.node {
        Node::Sort { .. } | Node::Aggregate(_) | Node::Window(_) | Node::SetOperation(_) => plan.cost,
        Node::Hash(node) => node.right.cost + startup(&node.left),
        _ => inputs(plan).first().map_or(0.0, |input| startup(input)),
    }
    .min(plan.cost)
}
