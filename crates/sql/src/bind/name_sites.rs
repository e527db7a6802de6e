//! Renaming in a stored query: the positions at which it names a relation, or one of its columns, that is renamed, and
//! the edits that keep its meaning.
//!
//! The query is bound once before the change, and notes the names it finds. A relation's name is replaced, and the old
//! one becomes its alias, by which the rest of the query still names it. A column's name is replaced wherever the query
//! names it, and where a result's column was called by it, the old name is given by AS, so that whatever reads the
//! query finds its columns.
//!
//! # Invariants
//! - Only names that are found in the relation itself are noted: a subquery, a common table expression or an alias with names
//!   for columns hides it, and they keep theirs.
//! - Where a join by USING or a star names a column, it cannot be called otherwise there: that use of the relation gets the
//!   old names of its columns by its alias.

use crate::bind::binder::Binder;
use crate::bind::scope::{Entry, Found, VisibleColumn};
use crate::bind::tree::{BoundExpr, RelationId};
use crate::parse::syntax::{Alias, At, Expr, ExprKind, Name, ObjectName};
use crate::parse::{TextEdit, end_of_item, end_of_parentheses, end_of_token, quote_identifier};

/// The renamed object, and the positions at which a text names it.
#[derive(Debug)]
pub(crate) struct NameSites {
    oid: u32,
    /// The column that is renamed, and its old name; `None` if the relation is renamed.
    column: Option<(usize, String)>,
    relations: Vec<RelationSite>,
    columns: Vec<ColumnSite>,
    /// Names of columns with the relation's schema before them.
    qualifiers: Vec<Vec<Name>>,
    /// Positions of items in target lists that are named as the column.
    items: Vec<At>,
}

/// An item of FROM that is the relation.
#[derive(Debug)]
struct RelationSite {
    id: RelationId,
    name: ObjectName,
    /// Position of its alias, if it has one.
    alias: Option<At>,
    /// Number of its columns that the alias names.
    named: usize,
    /// The names of its columns.
    columns: Vec<String>,
    is_pinned: bool,
}

/// A place where the column is named.
#[derive(Debug)]
struct ColumnSite {
    relation: RelationId,
    at: At,
    /// The name of the relation, where the column's is unqualified and the new one could mean others.
    qualifier: Option<String>,
}

impl NameSites {
    pub fn new(oid: u32, column: Option<(usize, &str)>) -> NameSites {
        let column = column.map(|(position, name)| (position, name.to_string()));
        NameSites {
            oid,
            column,
            relations: Vec::new(),
            columns: Vec::new(),
            qualifiers: Vec::new(),
            items: Vec::new(),
        }
    }

    /// Returns true if the text does not name the renamed object.
    pub fn is_empty(&self) -> bool {
        self.relations.is_empty()
    }

    /// Notes a name that was found.
    fn note_column(&mut self, name: &Name, column: &VisibleColumn, qualifier: Option<String>) {
        let BoundExpr::Column { relation, column, .. } = column.expr else { return };
        let is_site = |site: &RelationSite| site.id == relation && column >= site.named;
        let is_meant = self.is_of(column) && self.column.as_ref().is_some_and(|(_, from)| *from == name.text);
        if is_meant
            && self.relations.iter().any(is_site)
            && !self.columns.iter().any(|known| known.at == name.at)
        {
            self.columns.push(ColumnSite { relation, at: name.at, qualifier });
        }
    }

    /// Returns true if a column of the relation is the renamed one.
    fn is_of(&self, position: usize) -> bool {
        self.column.as_ref().is_some_and(|(column, _)| *column == position)
    }

    /// A use of the relation keeps the names of its columns.
    fn pin(&mut self, column: &VisibleColumn) {
        let BoundExpr::Column { relation, column, .. } = column.expr else { return };
        if self.is_of(column) {
            let is_pinned = |site: &&mut RelationSite| site.id == relation;
            self.relations.iter_mut().filter(is_pinned).for_each(|site| site.is_pinned = true);
        }
    }

    /// All uses of the relation keep the names of its columns.
    pub fn pin_all(&mut self) {
        self.relations.iter_mut().for_each(|site| site.is_pinned = true);
    }

    /// The changes of a text after which it names the relation, or its column, by another name.
    pub fn edits(&self, text: &str, to: &str) -> Vec<TextEdit> {
        let mut edits = Vec::new();
        for site in &self.relations {
            match self.column {
                None => edits.extend(site.renamed(text, to)),
                Some(_) if site.is_pinned => edits.push(site.pinned(text)),
                Some(_) => {}
            }
        }
        for qualified in self.qualifiers.iter().filter(|_| self.column.is_none()) {
            if let [.., own, _] = &qualified[..] {
                edits.push((qualified[0].at as usize, own.at as usize, String::new()));
            }
        }
        let is_pinned = |id: RelationId| self.relations.iter().any(|site| site.id == id && site.is_pinned);
        let renamed: Vec<&ColumnSite> =
            self.columns.iter().filter(|site| !is_pinned(site.relation)).collect();
        for site in &renamed {
            let qualifier = site.qualifier.as_ref().map(|name| format!("{}.", quote_identifier(name)));
            let name = format!("{}{}", qualifier.unwrap_or_default(), quote_identifier(to));
            edits.push((site.at as usize, end_of_token(text, site.at), name));
        }
        let from = self.column.as_ref().map_or("", |(_, from)| from);
        for &at in &self.items {
            let end = end_of_item(text, at);
            if renamed.iter().any(|site| site.at >= at && (site.at as usize) < end) {
                edits.push((end, end, format!(" AS {}", quote_identifier(from))));
            }
        }
        edits
    }
}

impl RelationSite {
    /// The relation's name replaced by another, and the old one as its alias.
    fn renamed(&self, text: &str, to: &str) -> Vec<TextEdit> {
        let (from, last) = (self.name.at() as usize, self.name.parts.last().map_or(0, |name| name.at));
        let end = end_of_token(text, last);
        let alias = format!(" {}", quote_identifier(self.name.last()));
        let alias = if self.alias.is_none() { alias } else { String::new() };
        vec![(from, end, format!("{to}{alias}"))]
    }

    /// The names of the columns after the alias.
    fn pinned(&self, text: &str) -> TextEdit {
        let names: Vec<_> = self.columns.iter().map(|name| quote_identifier(name)).collect();
        let names = names.join(", ");
        let last = self.name.parts.last().map_or(0, |name| name.at);
        match self.alias {
            Some(at) => {
                let end = end_of_token(text, at);
                let close = if self.named == 0 { end } else { end_of_parentheses(text, at) };
                (end, close, format!("({names})"))
            }
            None => {
                let end = end_of_token(text, last);
                (end, end, format!(" {}({names})", quote_identifier(self.name.last())))
            }
        }
    }
}

impl Binder<'_> {
    /// Notes a relation in FROM, if it is the renamed one.
    pub fn note_site(&mut self, name: &ObjectName, oid: u32, alias: Option<&Alias>, id: RelationId) {
        let Some(sites) = self.sites.as_mut().filter(|sites| !self.foreign_text && sites.oid == oid) else {
            return;
        };
        // A part of a text that is bound twice has other ids the second time.
        if let Some(known) = sites.relations.iter_mut().find(|known| known.name.at() == name.at()) {
            let before = std::mem::replace(&mut known.id, id);
            let named = sites.columns.iter_mut().filter(|site| site.relation == before);
            named.for_each(|site| site.relation = id);
            return;
        }
        let entry = self.scopes.iter().flat_map(|scope| &scope.relations).find(|it| it.id == id);
        sites.relations.push(RelationSite {
            id,
            name: name.clone(),
            alias: alias.map(|alias| alias.name.at),
            named: alias.map_or(0, |alias| alias.columns.len()),
            columns: entry.map_or(Vec::new(), |it| it.columns.iter().map(|it| it.name.clone()).collect()),
            is_pinned: false,
        });
    }

    /// Notes a name of a column.
    pub fn note_column_site(&mut self, parts: &[Name], found: &Found) {
        if self.foreign_text || self.sites.is_none() {
            return;
        }
        let (Some(name), scope) = (parts.last(), &self.scopes[found.level]) else { return };
        let is_alone = scope.entries.len() < 2 && found.level + 1 == self.scopes.len();
        let qualifier = match parts {
            [_] if !is_alone => owner_of(&found.column, &scope.entries),
            _ => None,
        };
        let Some(sites) = &mut self.sites else { return };
        sites.note_column(name, &found.column, qualifier);
        let BoundExpr::Column { relation, .. } = found.column.expr else { return };
        let is_site = sites.relations.iter().any(|site| site.id == relation && site.alias.is_none());
        if parts.len() > 2 && is_site && !sites.qualifiers.iter().any(|known| known == parts) {
            sites.qualifiers.push(parts.to_vec());
        }
    }

    /// Notes an item of a target list that has no alias, if it is called as the column.
    pub fn note_item_site(&mut self, expr: &Expr, name: &str) {
        let Some(sites) = self.sites.as_mut().filter(|_| !self.foreign_text) else { return };
        let is_named = sites.column.as_ref().is_some_and(|(_, from)| from == name);
        if let Some(at) = start_of(expr).filter(|at| is_named && !sites.items.contains(at)) {
            sites.items.push(at);
        }
    }

    /// Notes columns that a star or a join by USING names.
    pub fn pin_columns(&mut self, columns: &[VisibleColumn]) {
        if let Some(sites) = self.sites.as_mut().filter(|_| !self.foreign_text) {
            columns.iter().for_each(|column| sites.pin(column));
        }
    }
}

/// The name of the relation that a column is of.
fn owner_of(column: &VisibleColumn, entries: &[Entry]) -> Option<String> {
    let BoundExpr::Column { relation, .. } = column.expr else { return None };
    entries.iter().find(|entry| entry.relation == Some(relation)).and_then(|entry| entry.name.clone())
}

/// The start of an expression whose result is named as a column in it; `None` for others, and for subqueries, whose own
/// items are noted.
fn start_of(expr: &Expr) -> Option<At> {
    match &expr.kind {
        ExprKind::Column(parts) => parts.first().map(|name| name.at),
        ExprKind::Cast { operand, .. }
        | ExprKind::Subscript { operand, .. }
        | ExprKind::Slice { operand, .. }
        | ExprKind::Collate { operand, .. } => start_of(operand).map(|at| at.min(expr.at)),
        ExprKind::Case { .. } => Some(expr.at),
        _ => None,
    }
}
