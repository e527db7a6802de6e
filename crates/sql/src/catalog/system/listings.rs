//! `pg_tables`, `pg_views`, `pg_indexes`, `pg_sequences`, `pg_description`.

use super::classes::{
    has_index, indexes_of, sequences as all_sequences, tables as all_tables, views as all_views,
};
use super::constraints::{constraints, key_comment};
use super::definitions::{index_definition, view_text};
use super::row::{Output, row};
use super::{PG_CATALOG_OID, SystemCatalog};
use crate::catalog::{Catalog, UserType};

/// The oids of the catalogs that dependencies and comments name.
pub(super) const PG_CLASS: u32 = 1259;
pub(super) const PG_TYPE: u32 = 1247;
/// The oid of `pg_proc`.
pub(super) const PG_PROC: u32 = 1255;
pub(super) const PG_NAMESPACE: u32 = 2615;
pub(super) const PG_CONSTRAINT: u32 = 2606;
/// The oid of `pg_extension`.
pub(super) const PG_EXTENSION: u32 = 3079;
/// The oid of `pg_trigger`.
pub(super) const PG_TRIGGER: u32 = 2620;

/// The oid of a catalog that comments name.
pub(super) fn commented_catalog(name: &str) -> Option<u32> {
    let named =
        ["pg_class", "pg_type", "pg_proc", "pg_namespace", "pg_constraint", "pg_trigger", "pg_extension"];
    let oids = [PG_CLASS, PG_TYPE, PG_PROC, PG_NAMESPACE, PG_CONSTRAINT, PG_TRIGGER, PG_EXTENSION];
    named.iter().position(|known| *known == name).map(|at| oids[at])
}

pub(super) fn tables(system: &SystemCatalog<'_>, out: &mut Output) {
    let catalog = system.objects();
    for relation in super::relations().iter().filter(|relation| relation.kind == 'r') {
        row!(
            out,
            schemaname = relation.schema,
            tablename = relation.name,
            tableowner = system.session.role_name(super::OWNER),
            hasindexes = false,
            hasrules = false,
            hastriggers = false,
            rowsecurity = false,
        );
    }
    for table in all_tables(catalog).into_iter().filter(|table| table.stored_query.is_none()) {
        row!(
            out,
            schemaname = &table.schema,
            tablename = &table.name,
            tableowner = system.session.role_name(table.rights.owner),
            hasindexes = has_index(table),
            hasrules = false,
            hastriggers = !table.foreign_keys.is_empty() || !catalog.triggers_of(table.oid).is_empty(),
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
            viewowner = system.session.role_name(view.rights.owner),
            definition = view_text(system, view),
        );
    }
}

pub(super) fn materialized_views(system: &SystemCatalog<'_>, out: &mut Output) {
    for table in all_tables(system.objects()) {
        let (Some(view), Some(stored)) = (table.as_view(), &table.stored_query) else { continue };
        row!(
            out,
            schemaname = &table.schema,
            matviewname = &table.name,
            matviewowner = system.session.role_name(table.rights.owner),
            hasindexes = has_index(table),
            ispopulated = stored.populated,
            definition = view_text(system, &view),
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
        for index in &table.nominal_indexes {
            row!(
                out,
                schemaname = &table.schema,
                tablename = &table.name,
                indexname = &index.name,
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
            sequenceowner = system.session.role_name(sequence.rights.owner),
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
    let mut comments = comments_of_tables(catalog);
    comments.push((PG_NAMESPACE, PG_CATALOG_OID, 0, Some("system catalog schema")));
    for schema in catalog.schemas() {
        comments.push((PG_NAMESPACE, schema.oid, 0, schema.comment.as_deref()));
    }
    for view in all_views(catalog) {
        comments.push((PG_CLASS, view.oid, 0, view.comment.as_deref()));
        for (at, text) in &view.column_comments {
            comments.push((PG_CLASS, view.oid, *at as i32 + 1, Some(text)));
        }
    }
    for sequence in all_sequences(catalog) {
        comments.push((PG_CLASS, sequence.oid, 0, sequence.comment.as_deref()));
    }
    for ty in catalog.types() {
        comments.push(match ty {
            UserType::Enum(ty) => (PG_TYPE, ty.oid, 0, ty.comment.as_deref()),
            UserType::Domain(domain) => (PG_TYPE, domain.oid, 0, domain.comment.as_deref()),
            UserType::Composite(ty) => (PG_TYPE, ty.oid, 0, ty.comment.as_deref()),
        });
    }
    for ty in catalog.composites() {
        for (at, attribute) in ty.attributes.iter().enumerate() {
            comments.push((PG_CLASS, ty.relation(), at as i32 + 1, attribute.comment.as_deref()));
        }
    }
    for routine in catalog.routines() {
        comments.push((PG_PROC, routine.oid, 0, routine.comment.as_deref()));
    }
    for constraint in constraints(catalog) {
        comments.push((PG_CONSTRAINT, constraint.oid, 0, constraint.comment));
    }
    for trigger in catalog.triggers() {
        comments.push((PG_TRIGGER, trigger.oid, 0, trigger.comment.as_deref()));
    }
    for extension in catalog.extensions() {
        comments.push((PG_EXTENSION, extension.oid, 0, extension.comment.as_deref()));
    }
    comments.into_iter().filter_map(|(class, oid, column, text)| Some((class, oid, column, text?))).collect()
}

/// The comments of tables, their columns and their indexes.
fn comments_of_tables(catalog: &Catalog) -> Vec<(u32, u32, i32, Option<&str>)> {
    let mut comments = Vec::new();
    for table in all_tables(catalog) {
        comments.push((PG_CLASS, table.oid, 0, table.comment.as_deref()));
        for (at, column) in table.visible().iter().enumerate() {
            comments.push((PG_CLASS, table.oid, at as i32 + 1, column.comment.as_deref()));
        }
        for index in indexes_of(table) {
            comments.push((PG_CLASS, index.oid, 0, key_comment(table, index.oid)));
        }
        for index in &table.nominal_indexes {
            comments.push((PG_CLASS, index.oid, 0, key_comment(table, index.oid)));
        }
    }
    comments
}

pub(super) fn descriptions(system: &SystemCatalog<'_>, out: &mut Output) {
    for (class, oid, column, text) in comments(system.objects()) {
        row!(out, objoid = oid, classoid = class, objsubid = column, description = text);
    }
}
