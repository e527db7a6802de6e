//! The stars, names and natural joins of a view's query, written out: a view keeps the columns that its tables had when it
//! was created, and joins by those that they had in common.
//!
//! # Invariants
//! - A column is named so that it keeps its meaning when the tables get further columns: by the relation that it comes from,
//!   unless it is a joined column that belongs to none.
//! - Stars are only written out where every star of the query can be; names and natural joins are in any case.

use crate::bind::binder::Binder;
use crate::bind::scope::{Entry, Found, VisibleColumn};
use crate::catalog::store::TEMPORARY;
use crate::parse::syntax::{At, NOWHERE, Name, NaturalJoin, ObjectName, SelectItem};
use crate::parse::{qualified_name, quote_identifier};

/// The stars, names of columns and natural joins that were met.
#[derive(Debug, Default)]
pub(crate) struct Stars {
    /// The start of each item, and the columns that it expands to.
    pub found: Vec<(At, String)>,
    /// True if there is a star whose columns have no names of their own.
    pub is_incomplete: bool,
    /// Positions of unqualified names that a further column could make ambiguous, each with its qualified name.
    pub names: Vec<(At, String)>,
    pub joins: Vec<NaturalJoin>,
}

impl Binder<'_> {
    /// Notes a natural join by the columns of these names, if that is requested.
    pub fn note_natural_join(&mut self, at: At, end: At, names: &[Name]) {
        let Some(stars) = self.stars.as_mut().filter(|_| !self.foreign_text) else { return };
        if stars.joins.iter().any(|known| known.at == at) {
            return;
        }
        let names: Vec<String> = names.iter().map(|name| quote_identifier(&name.text).to_string()).collect();
        let condition = match names.is_empty() {
            true => "ON true".to_string(),
            false => format!("USING ({})", names.join(", ")),
        };
        stars.joins.push(NaturalJoin { at, end, condition });
    }

    /// Notes the relation that a name without a schema means, if that is requested: the view reads it, whatever is
    /// created in a schema of its path later.
    pub fn note_relation(&mut self, name: &ObjectName, oid: u32) {
        let Some((schema, own)) = self.context.catalog.relation_name(oid) else { return };
        let is_plain = name.schema().is_none() && !schema.starts_with(TEMPORARY);
        if let Some(stars) = self.stars.as_mut().filter(|_| is_plain && !self.foreign_text)
            && !stars.names.iter().any(|(known, _)| *known == name.at())
        {
            stars.names.push((name.at(), qualified_name(schema, own)));
        }
    }

    /// Notes an unqualified name, if that is requested.
    pub fn note_name(&mut self, parts: &[Name], found: &Found) {
        let [name] = parts else { return };
        let scope = &self.scopes[found.level];
        let is_alone = scope.entries.len() < 2 && found.level + 1 == self.scopes.len();
        if self.foreign_text || self.stars.is_none() || is_alone {
            return;
        }
        let Some(relation) = owner(&found.column, &scope.entries) else { return };
        let text = format!("{}.{}", quote_identifier(relation), quote_identifier(&name.text));
        let qualifier = Name { text: relation.to_string(), at: name.at };
        let is_found = self.entry(&[qualifier]).is_some_and(|(level, _)| level == found.level);
        if let Some(stars) = self.stars.as_mut().filter(|_| is_found)
            && !stars.names.iter().any(|(known, _)| *known == name.at)
        {
            stars.names.push((name.at, text));
        }
    }

    /// Notes an item with a star and the columns that it expands to, if that is requested.
    pub fn note_star(&mut self, item: &SelectItem, columns: &[VisibleColumn], at: At) {
        if self.foreign_text || self.stars.is_none() || at == NOWHERE {
            return;
        }
        let names: Option<Vec<String>> = match item {
            SelectItem::AllOf(qualifier) => {
                let relation: Vec<String> =
                    qualifier.iter().map(|name| quote_identifier(&name.text).to_string()).collect();
                let relation = relation.join(".");
                let is_twice = |column: &&VisibleColumn| {
                    columns.iter().filter(|other| other.name == column.name).count() > 1
                };
                let name = |column: &VisibleColumn| format!("{relation}.{}", quote_identifier(&column.name));
                (!columns.iter().any(|column| is_twice(&column))).then(|| columns.iter().map(name).collect())
            }
            _ => {
                let entries = &self.scope().entries;
                columns.iter().map(|column| name_of(column, columns, entries)).collect()
            }
        };
        let Some(stars) = &mut self.stars else { return };
        match names {
            Some(names) if !names.is_empty() => {
                if !stars.found.iter().any(|(known, _)| *known == at) {
                    stars.found.push((at, names.join(", ")));
                }
            }
            _ => stars.is_incomplete = true,
        }
    }
}

/// The name of the relation by which a column can be named.
fn owner<'e>(column: &VisibleColumn, entries: &'e [Entry]) -> Option<&'e str> {
    let owner = entries.iter().find(|entry| {
        let is_own = |own: &VisibleColumn| own.name == column.name && own.expr == column.expr;
        let is_alone =
            |name: &String| entries.iter().filter(|other| other.name.as_ref() == Some(name)).count() == 1;
        entry.name.as_ref().is_some_and(is_alone)
            && entry.columns.iter().filter(|own| own.name == column.name).count() == 1
            && entry.columns.iter().any(is_own)
    });
    owner.and_then(|entry| entry.name.as_deref())
}

/// A column's name, with that of its relation if it has one.
fn name_of(column: &VisibleColumn, all: &[VisibleColumn], entries: &[Entry]) -> Option<String> {
    let name = quote_identifier(&column.name);
    match owner(column, entries) {
        Some(relation) => Some(format!("{}.{name}", quote_identifier(relation))),
        None => {
            let is_alone = all.iter().filter(|other| other.name == column.name).count() == 1;
            is_alone.then(|| name.to_string())
        }
    }
}
