//! Described plans as lines of text and as JSON.

use serde_json::{Value as Json, json};

use super::Shown;
use super::describe::{Described, Property, describe};
use crate::plan::statement::Planned;
use crate::run::NodeCounts;

/// A plan that is shown.
pub(crate) struct Explained {
    root: Described,
    timing: bool,
}

impl Explained {
    pub(crate) fn new(planned: &Planned, shown: Shown<'_>) -> Explained {
        Explained { root: describe(planned, shown), timing: shown.timing }
    }

    /// A line for each node, and one for each of its properties.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let (first, inputs): (Vec<&Described>, Vec<&Described>) =
            self.root.inputs.iter().partition(|input| input.subplan.is_some());
        for cte in first {
            lines.extend(cte.subplan.map(|number| format!("CTE {number}")));
            self.node(cte, 1, &mut lines);
        }
        self.own_lines(&self.root, 0, &mut lines);
        inputs.into_iter().for_each(|input| self.node(input, 1, &mut lines));
        lines
    }

    fn node(&self, node: &Described, depth: usize, lines: &mut Vec<String>) {
        self.own_lines(node, depth, lines);
        node.inputs.iter().for_each(|input| self.node(input, depth + 1, lines));
    }

    fn own_lines(&self, node: &Described, depth: usize, lines: &mut Vec<String>) {
        let arrow = match depth {
            0 => String::new(),
            depth => format!("{}->  ", " ".repeat(6 * depth - 4)),
        };
        let mut line = format!("{arrow}{}", node.title);
        if let Some((startup, total, rows, width)) = node.estimate {
            line += &format!("  (cost={startup:.2}..{total:.2} rows={:.0} width={width})", rows.ceil());
        }
        if let Some(counts) = &node.counts {
            line += &self.actual(counts);
        }
        lines.push(line);
        let indent = " ".repeat(6 * depth + 2);
        // A part of the node has properties of its own.
        let inner = node.inner.iter().flat_map(|inner| &inner.properties);
        for (name, property) in inner.chain(&node.properties) {
            match property {
                Property::Text(text) => lines.push(format!("{indent}{name}: {text}")),
                Property::List(list) => lines.push(format!("{indent}{name}: {}", list.join(", "))),
                Property::InName(_) => {}
            }
        }
    }

    fn actual(&self, counts: &NodeCounts) -> String {
        if counts.loops == 0 {
            return " (never executed)".to_string();
        }
        let (startup, total) = counts.milliseconds();
        let (rows, loops) = (counts.rows_each(), counts.loops);
        match self.timing {
            true => format!(" (actual time={startup:.3}..{total:.3} rows={rows:.0} loops={loops})"),
            false => format!(" (actual rows={rows:.0} loops={loops})"),
        }
    }

    /// The plan in the shape that PostgreSQL gives it.
    pub(crate) fn json(&self) -> Json {
        self.node_json(&self.root)
    }

    fn node_json(&self, node: &Described) -> Json {
        let mut made = serde_json::Map::new();
        made.insert("Node Type".to_string(), json!(node.kind));
        if !node.relationship.is_empty() {
            made.insert("Parent Relationship".to_string(), json!(node.relationship));
        }
        if let Some(number) = node.subplan {
            made.insert("Subplan Name".to_string(), json!(format!("CTE {number}")));
        }
        made.insert("Parallel Aware".to_string(), json!(false));
        made.insert("Async Capable".to_string(), json!(false));
        for (name, property) in &node.properties {
            let value = match property {
                Property::Text(text) | Property::InName(text) => json!(text),
                Property::List(list) => json!(list),
            };
            made.insert((*name).to_string(), value);
        }
        let rounded = |number: f64, digits: i32| {
            let factor = 10_f64.powi(digits);
            json!((number * factor).round() / factor)
        };
        if let Some((startup, total, rows, width)) = node.estimate {
            made.insert("Startup Cost".to_string(), rounded(startup, 2));
            made.insert("Total Cost".to_string(), rounded(total, 2));
            made.insert("Plan Rows".to_string(), json!(rows.ceil() as u64));
            made.insert("Plan Width".to_string(), json!(width));
        }
        if let Some(counts) = &node.counts {
            let (startup, total) = counts.milliseconds();
            if self.timing {
                made.insert("Actual Startup Time".to_string(), rounded(startup, 3));
                made.insert("Actual Total Time".to_string(), rounded(total, 3));
            }
            made.insert("Actual Rows".to_string(), json!(counts.rows_each().round() as u64));
            made.insert("Actual Loops".to_string(), json!(counts.loops));
        }
        let mut plans: Vec<Json> = node.inputs.iter().map(|input| self.node_json(input)).collect();
        plans.extend(node.inner.iter().map(|inner| self.node_json(inner)));
        if !plans.is_empty() {
            made.insert("Plans".to_string(), Json::Array(plans));
        }
        Json::Object(made)
    }
}
