//! EXPLAIN FUNCTION: a flow graph as lines of text.

use crate::catalog::{Routine, Table};
use crate::routine::footprint::accesses::Mode;
use crate::routine::footprint::{FlowGraph, Gap, GraphAction};

impl FlowGraph {
    /// The lines of EXPLAIN FUNCTION.
    pub(crate) fn explain(&self, routine: &Routine, signature: &str, generation: u64) -> Vec<String> {
        let kind = if routine.is_procedure { "Procedure" } else { "Function" };
        let mut lines = vec![format!("{kind} {signature}"), self.verdict(generation)];
        let mut phases: Vec<u32> = self.actions.iter().map(|action| action.phase).collect();
        phases.sort_unstable();
        phases.dedup();
        for (number, phase) in phases.into_iter().enumerate() {
            lines.push(format!("Phase {}", number + 1));
            let actions = self.actions.iter().filter(|action| action.phase == phase);
            lines.extend(actions.map(|action| format!("  {}", action_line(action))));
        }
        if !self.gaps.is_empty() {
            lines.push("Not derived".to_string());
            lines.extend(self.gaps.iter().map(|Gap { place, reason }| format!("  {place}: {reason}")));
        }
        lines
    }

    fn verdict(&self, generation: u64) -> String {
        match (self.is_derived(), self.actions.is_empty() && self.gaps.is_empty()) {
            (true, _) => format!("Footprint: derived, for generation {generation} of the catalog"),
            (_, true) => "Footprint: empty, so it runs as a closure".to_string(),
            _ => "Footprint: not derived, so it runs as a closure".to_string(),
        }
    }
}

fn action_line(action: &GraphAction) -> String {
    let table = &*action.table;
    let mode = match action.mode {
        Mode::Read => "read",
        Mode::Write => "write",
        Mode::Commute => "commute",
    };
    let names =
        |columns: &[usize]| columns.iter().map(|&at| column(table, at)).collect::<Vec<_>>().join(", ");
    let key: Vec<String> =
        action.key.iter().map(|(at, value)| format!("{} = {value}", column(table, *at))).collect();
    let mut line = format!("{}: {mode} {}", action.place, table.name);
    if !key.is_empty() {
        line.push_str(&format!(" ({})", key.join(", ")));
    }
    if let Some(index) = &action.index {
        line.push_str(&format!(" by index {index}"));
    }
    if !action.commutes.is_empty() {
        line.push_str(&format!(", changing {}", names(&action.commutes)));
    }
    if action.is_repeated {
        line.push_str(", repeated");
    }
    if action.is_ahead {
        line.push_str(", read ahead");
    }
    if let Some(name) = &action.foreign_key {
        line.push_str(&format!(", for foreign key {name}"));
    }
    if let Some(reason) = &action.open {
        line.push_str(&format!("; the rest of the key: {reason}"));
    }
    line
}

fn column(table: &Table, at: usize) -> &str {
    table.columns.get(at).map_or("(hidden)", |column| column.name.as_str())
}
