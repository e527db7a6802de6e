//! `pg_constraint`: primary keys, unique and CHECK constraints, foreign keys.

use std::sync::Arc;

use super::classes::{IndexOf, indexes_of, numbers, schema_oid, tables};
use super::row::{Output, row};
use super::{SystemCatalog, derived_oid};
use crate::catalog::{Catalog, Deferral, Domain, ForeignKey, KeyAction, Table, UserType};
use crate::parse::named_columns;
use crate::types::Value;

/// A constraint of a table or a domain.
pub(super) struct Constraint<'c> {
    pub oid: u32,
    pub name: &'c str,
    pub schema: &'c str,
    pub owner: Owner<'c>,
    pub rule: Rule<'c>,
    /// COMMENT ON CONSTRAINT.
    pub comment: Option<&'c str>,
}

/// The object to which a constraint belongs.
#[derive(Clone, Copy)]
pub(super) enum Owner<'c> {
    Table(&'c Table),
    Domain(&'c Domain),
}

/// The rule of a constraint.
pub(super) enum Rule<'c> {
    /// A primary key or a unique constraint.
    Key(IndexOf<'c>),
    Check(&'c str),
    Foreign(&'c ForeignKey),
}

impl Rule<'_> {
    /// `pg_constraint.contype`
    pub fn letter(&self) -> char {
        match self {
            Rule::Key(index) if index.primary => 'p',
            Rule::Key(_) => 'u',
            Rule::Check(_) => 'c',
            Rule::Foreign(_) => 'f',
        }
    }

    /// Returns two flags: DEFERRABLE, and INITIALLY DEFERRED.
    pub fn timing(&self) -> (bool, bool) {
        match self {
            Rule::Key(index) => {
                (index.deferral.is_some(), index.deferral == Some(Deferral::InitiallyDeferred))
            }
            Rule::Check(_) => (false, false),
            Rule::Foreign(key) => (key.deferrable || key.deferred, key.deferred),
        }
    }

    /// The columns of the key that it is; none of a CHECK.
    pub fn key_columns(&self) -> Vec<usize> {
        match self {
            Rule::Key(index) => index.columns.iter().map(|column| column.column).collect(),
            Rule::Check(_) => Vec::new(),
            Rule::Foreign(key) => key.columns.clone(),
        }
    }
}

impl Constraint<'_> {
    /// The columns of its table that it names: those of a CHECK in the order of its condition.
    pub fn columns(&self) -> Vec<usize> {
        match (&self.rule, self.owner) {
            (Rule::Check(condition), Owner::Table(table)) => {
                let columns: Vec<&str> = table.visible().iter().map(|column| column.name.as_str()).collect();
                named_columns(condition, &columns)
            }
            (rule, _) => rule.key_columns(),
        }
    }
}

/// The oid of the constraint that an index enforces: oids are even, so the one behind the index's is free.
pub(crate) fn key_constraint_oid(index: u32) -> u32 {
    index + 1
}

/// The comment on an index, or on the constraint of a key, with this oid.
pub(super) fn key_comment(table: &Table, oid: u32) -> Option<&str> {
    table.key_comments.iter().find(|(of, _)| *of == oid).map(|(_, text)| text.as_str())
}

/// The constraints of a table.
pub(super) fn constraints_of(table: &Table) -> Vec<Constraint<'_>> {
    let (schema, owner) = (table.schema.as_str(), Owner::Table(table));
    let constraint = |oid, name, rule, comment| Constraint { oid, name, schema, owner, rule, comment };
    let keys = indexes_of(table).into_iter().filter(|index| index.constraint);
    let keys = keys.map(|index| {
        let oid = key_constraint_oid(index.oid);
        constraint(oid, index.name, Rule::Key(index), key_comment(table, oid))
    });
    let checks = table.checks.iter().map(|check| {
        constraint(
            derived_oid(table.oid, 'c', &check.name),
            check.name.as_str(),
            Rule::Check(&check.condition),
            check.comment.as_deref(),
        )
    });
    let foreign = table.foreign_keys.iter().map(|key| {
        let oid = derived_oid(table.oid, 'f', &key.name);
        constraint(oid, key.name.as_str(), Rule::Foreign(key), key.comment.as_deref())
    });
    keys.chain(checks).chain(foreign).collect()
}

/// All constraints.
pub(super) fn constraints(catalog: &Catalog) -> Vec<Constraint<'_>> {
    let of_tables = tables(catalog).into_iter().map(Arc::as_ref).flat_map(constraints_of);
    let domains = catalog.types().filter_map(|ty| match ty {
        UserType::Domain(domain) => Some(domain),
        UserType::Enum(_) | UserType::Composite(_) => None,
    });
    of_tables.chain(domains.flat_map(|domain| domain_constraints(domain))).collect()
}

/// The constraints of a domain.
pub(super) fn domain_constraints(domain: &Domain) -> impl Iterator<Item = Constraint<'_>> {
    domain.checks.iter().map(move |check| Constraint {
        oid: derived_oid(domain.oid, 'c', &check.name),
        name: &check.name,
        schema: &domain.schema,
        owner: Owner::Domain(domain),
        rule: Rule::Check(&check.condition),
        comment: check.comment.as_deref(),
    })
}

/// The key of a table that a foreign key refers to.
pub(super) fn referenced_index<'c>(catalog: &'c Catalog, key: &ForeignKey) -> Option<IndexOf<'c>> {
    let table = catalog.table_by_oid(key.table)?;
    let matches = |index: &IndexOf<'_>| {
        index.unique
            && index.columns.len() == key.references.len()
            && index.columns.iter().all(|column| key.references.contains(&column.column))
    };
    indexes_of(table).into_iter().find(matches)
}

fn action(action: KeyAction) -> char {
    match action {
        KeyAction::NoAction => 'a',
        KeyAction::Restrict => 'r',
        KeyAction::Cascade => 'c',
        KeyAction::SetNull => 'n',
        KeyAction::SetDefault => 'd',
    }
}

pub(super) fn rows(system: &SystemCatalog<'_>, out: &mut Output) {
    let catalog = system.objects();
    for constraint in constraints(catalog) {
        let (table, domain) = match constraint.owner {
            Owner::Table(table) => (table.oid, 0),
            Owner::Domain(domain) => (0, domain.oid),
        };
        let foreign = match constraint.rule {
            Rule::Foreign(key) => Some(key),
            _ => None,
        };
        let index = match &constraint.rule {
            Rule::Key(index) => index.oid,
            Rule::Foreign(key) => referenced_index(catalog, key).map_or(0, |index| index.oid),
            Rule::Check(_) => 0,
        };
        let (deferrable, deferred) = constraint.rule.timing();
        let columns = constraint.columns();
        row!(
            out,
            oid = constraint.oid,
            conname = constraint.name,
            connamespace = schema_oid(catalog, constraint.schema),
            contype = constraint.rule.letter(),
            condeferrable = deferrable,
            condeferred = deferred,
            convalidated = true,
            conrelid = table,
            contypid = domain,
            conindid = index,
            confrelid = foreign.map_or(0, |key| key.table),
            confupdtype = foreign.map_or(' ', |key| action(key.on_update)),
            confdeltype = foreign.map_or(' ', |key| action(key.on_delete)),
            confmatchtype = foreign.map_or(' ', |key| if key.is_full { 'f' } else { 's' }),
            conislocal = true,
            connoinherit = !matches!(constraint.rule, Rule::Check(_)),
            conkey = if columns.is_empty() { Value::Null } else { numbers(&columns) },
            confkey = foreign.map_or(Value::Null, |key| numbers(&key.references)),
            conbin = match constraint.rule {
                Rule::Check(text) => Some(text),
                _ => None,
            },
        );
    }
}
