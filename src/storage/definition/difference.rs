//! Compares two definitions of a table, for the message that tells a user how they differ.
//!
//! Invariant: two settled definitions have no difference exactly if they are equal, so that a definition never passes
//! for another one.

use super::{ColumnDefinition, ForeignKey, Identity, IndexDefinition, TableDefinition};

impl TableDefinition {
    /// The differences of this definition, a stored one, from another one of the same name; `None` if they are equal.
    /// Both are settled.
    pub(crate) fn difference(&self, given: &TableDefinition) -> Option<String> {
        if self == given {
            return None;
        }
        let mut differences = Vec::new();
        let mut differs = |what: &str, stored: &str, given: &str| {
            if stored != given {
                differences.push(format!("{what} is {stored}, not {given}"));
            }
        };
        for position in 0..self.columns.len().max(given.columns.len()) {
            let describe = |of: &TableDefinition| {
                of.columns.get(position).map_or("absent".to_string(), ColumnDefinition::describe)
            };
            differs(&format!("column {}", position + 1), &describe(self), &describe(given));
        }
        let key = |of: &TableDefinition| of.names(&of.key);
        differs("the primary key", &key(self), &key(given));
        differs("the primary index", self.primary_index.name(), given.primary_index.name());
        let routing = |of: &TableDefinition| of.names(of.routing_columns());
        differs("the routing", &routing(self), &routing(given));
        for position in 0..self.indexes.len().max(given.indexes.len()) {
            let describe = |of: &TableDefinition| {
                let index = of.indexes.get(position);
                index.map_or("absent".to_string(), |index| index.describe(of))
            };
            differs(&format!("index {}", position + 1), &describe(self), &describe(given));
        }
        for position in 0..self.checks.len().max(given.checks.len()) {
            let describe = |of: &TableDefinition| {
                let check = of.checks.get(position);
                check.map_or("absent".to_string(), |check| format!("{:?} ({})", check.name, check.condition))
            };
            differs(&format!("check {}", position + 1), &describe(self), &describe(given));
        }
        for position in 0..self.foreign_keys.len().max(given.foreign_keys.len()) {
            let describe = |of: &TableDefinition| {
                of.foreign_keys.get(position).map_or("absent".to_string(), ForeignKey::describe)
            };
            differs(&format!("foreign key {}", position + 1), &describe(self), &describe(given));
        }
        let evaluator = |of: &TableDefinition| of.evaluator.clone().unwrap_or_else(|| "absent".to_string());
        differs("the evaluator", &evaluator(self), &evaluator(given));
        if differences.is_empty() {
            // A property that has no description here still distinguishes the definitions.
            differences.push(format!("it is {self:?}, not {given:?}"));
        }
        Some(differences.join("; "))
    }

    fn names(&self, positions: &[usize]) -> String {
        let names = positions.iter().map(|&position| self.columns[position].name.as_str());
        format!("({})", names.collect::<Vec<_>>().join(", "))
    }
}

impl ColumnDefinition {
    fn describe(&self) -> String {
        let mut text = format!("{:?} {}", self.name, self.data_type);
        if self.not_null {
            text.push_str(" not null");
        }
        if !self.default.is_null() {
            text.push_str(&format!(" default {:?}", self.default));
        }
        match self.identity {
            Some(Identity::ByDefault) => text.push_str(" identity by default"),
            Some(Identity::Always) => text.push_str(" identity always"),
            None => {}
        }
        if let Some(table) = &self.references {
            text.push_str(&format!(" references {table:?}"));
        }
        if let Some(domain) = &self.domain {
            text.push_str(&format!(" domain {domain:?}"));
        }
        text
    }
}

impl IndexDefinition {
    fn describe(&self, of: &TableDefinition) -> String {
        let unique = if self.unique { "unique " } else { "" };
        format!("{unique}{:?} {}", self.name, of.names(&self.columns))
    }
}
