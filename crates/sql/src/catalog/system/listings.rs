//! `pg_tables`, `pg_views`, `pg_indexes`, `pg_sequences`, `pg_description`, `pg_depend`.

use super::classes::{
    indexes_of, schema_oid, sequences as all_sequences, tables as all_tables, views as all_views,
};
use super::constraints::{Rule, constraints_of};
use super::definitions::{index_definition, view_text};
use super::row::{Output, row};
use super::{SystemCatalog, derived_oid};
use crate::catalog::{Catalog, ColumnOrigin, Relation, UserType};

/// The oids of the catalogs that dependencies and comments name.
pub(super) const PG_CLASS: u32 = 1259;
pub(super) const PG_TYPE: u32 = 1247;
pub(super) const PG_NAMESPACE: u32 = 2615;
const PG_ATTRDEF: u32 = 2604;
const PG_CONSTRAINT: u32 = 2606;

pub(super) fn tables(system: &SystemCatalog<'_>, out: &mut Output) {
    let catalog = system.objects();
    let owner = &system.session.user;
    for relation in super::relations().iter().filter(|relation| relation.kind == 'r') {
        row!(
            out,
            schemaname = relation.schema,
            tablename = relation.name,
            tableowner = owner,
            hasindexes = false,
            hasrules = false,
            hastriggers = false,
            rowsecurity = false,
        );
    }
    for table in all_tables(catalog) {
        row!(
            out,
            schemaname = &table.schema,
            tablename = &table.name,
            tableowner = owner,
            hasindexes = !indexes_of(table).is_empty(),
            hasrules = false,
            hastriggers = !table.foreign_keys.is_empty(),
            rowsecurity = false,
        );
    }
}

pub(super) fn views(system: &SystemCatalog<'_>, out: &mut Output) {
    for view in all_views(system.objects()) {
        row!(
            out,
            schemaname = &view.schema,
            viewname = &view.name,
            viewowner = &system.session.user,
            definition = view_text(view),
        );
    }
}

pub(super) fn indexes(system: &SystemCatalog<'_>, out: &mut Output) {
    let catalog = system.objects();
    for table in all_tables(catalog) {
        for index in indexes_of(table) {
            row!(
                out,
                schemaname = &table.schema,
                tablename = &table.name,
                indexname = index.name,
                indexdef = index_definition(system, index.oid, 0, false),
            );
        }
    }
}

pub(super) fn sequences(system: &SystemCatalog<'_>, out: &mut Output) {
    for sequence in all_sequences(system.objects()) {
        row!(
            out,
            seqrelid = sequence.oid,
            seqtypid = sequence.ty.oid(),
            seqstart = sequence.start,
            seqincrement = sequence.increment,
            seqmax = sequence.maximum,
            seqmin = sequence.minimum,
            seqcache = sequence.cache,
            seqcycle = sequence.cycle,
        );
    }
}

pub(super) fn sequence_list(system: &SystemCatalog<'_>, out: &mut Output) {
    for sequence in all_sequences(system.objects()) {
        row!(
            out,
            schemaname = &sequence.schema,
            sequencename = &sequence.name,
            sequenceowner = &system.session.user,
            data_type = sequence.ty.oid(),
            start_value = sequence.start,
            min_value = sequence.minimum,
            max_value = sequence.maximum,
            increment_by = sequence.increment,
            cycle = sequence.cycle,
            cache_size = sequence.cache,
        );
    }
}

/// Every comment: the catalog that its object is in, the object, the column (0: the object itself).
pub(super) fn comments(catalog: &Catalog) -> Vec<(u32, u32, i32, &str)> {
    let mut comments = Vec::new();
    for schema in catalog.schemas() {
        comments.push((PG_NAMESPACE, schema.oid, 0, &schema.comment));
    }
    for table in all_tables(catalog) {
        comments.push((PG_CLASS, table.oid, 0, &table.comment));
        for (at, column) in table.columns.iter().enumerate() {
            comments.push((PG_CLASS, table.oid, at as i32 + 1, &column.comment));
        }
    }
    for view in all_views(catalog) {
        comments.push((PG_CLASS, view.oid, 0, &view.comment));
    }
    for ty in catalog.types() {
        comments.push(match ty {
            UserType::Enum(ty) => (PG_TYPE, ty.oid, 0, &ty.comment),
            UserType::Domain(domain) => (PG_TYPE, domain.oid, 0, &domain.comment),
        });
    }
    comments
        .into_iter()
        .filter_map(|(class, oid, column, text)| Some((class, oid, column, text.as_deref()?)))
        .collect()
}

pub(super) fn descriptions(system: &SystemCatalog<'_>, out: &mut Output) {
    for (class, oid, column, text) in comments(system.objects()) {
        row!(out, objoid = oid, classoid = class, objsubid = column, description = text);
    }
}

/// The sequences that a default names as `nextval('name')`; without a schema, that of the table or the public one.
fn sequences_of<'c>(catalog: &'c Catalog, schema: &'c str, text: &'c str) -> impl Iterator<Item = u32> + 'c {
    let names = text.split("nextval('").skip(1).filter_map(|rest| Some(rest.split_once('\'')?.0));
    names.filter_map(move |name| {
        let name = crate::parse::parse_name(name).ok()?;
        let path = [schema.to_string(), crate::catalog::PUBLIC.to_string()];
        match catalog.find(name.schema(), name.last(), &path)? {
            Relation::Sequence(sequence) => Some(sequence.oid),
            _ => None,
        }
    })
}

/// What is dropped with what: sequences with their columns, defaults with theirs, indexes with their constraints.
pub(super) fn dependencies(system: &SystemCatalog<'_>, out: &mut Output) {
    let catalog = system.objects();
    let mut depend = |(class, object): (u32, u32), (on_class, on, column): (u32, u32, i32), kind: char| {
        row!(
            out,
            classid = class,
            objid = object,
            refclassid = on_class,
            refobjid = on,
            refobjsubid = column,
            deptype = kind,
        );
    };
    for table in all_tables(catalog) {
        depend((PG_CLASS, table.oid), (PG_NAMESPACE, schema_oid(catalog, &table.schema), 0), 'n');
        for (at, column) in table.columns.iter().enumerate() {
            if matches!(column.origin, ColumnOrigin::Default(_) | ColumnOrigin::Generated(_)) {
                let oid = derived_oid(table.oid, 'd', &column.name);
                depend((PG_ATTRDEF, oid), (PG_CLASS, table.oid, at as i32 + 1), 'a');
                if let ColumnOrigin::Default(text) = &column.origin {
                    let sequences = sequences_of(catalog, &table.schema, text);
                    sequences.for_each(|sequence| depend((PG_ATTRDEF, oid), (PG_CLASS, sequence, 0), 'n'));
                }
            }
        }
        for constraint in constraints_of(table) {
            for column in constraint.rule.columns() {
                depend((PG_CONSTRAINT, constraint.oid), (PG_CLASS, table.oid, column as i32 + 1), 'a');
            }
            if let Rule::Key(index) = &constraint.rule {
                depend((PG_CLASS, index.oid), (PG_CONSTRAINT, constraint.oid, 0), 'i');
            }
        }
    }
    for sequence in all_sequences(catalog) {
        let Some((table, column)) = sequence.owner else { continue };
        let identity = catalog.table_by_oid(table).and_then(|table| table.columns.get(column));
        let identity = identity.is_some_and(|it| matches!(it.origin, ColumnOrigin::Identity { .. }));
        let kind = if identity { 'i' } else { 'a' };
        depend((PG_CLASS, sequence.oid), (PG_CLASS, table, column as i32 + 1), kind);
    }
}
