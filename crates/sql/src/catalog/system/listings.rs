//! `pg_tables`, `pg_views`, `pg_indexes`, `pg_sequences`, `pg_description`.

use super::SystemCatalog;
use super::classes::{indexes_of, sequences as all_sequences, tables as all_tables, views as all_views};
use super::definitions::{index_definition, view_text};
use super::row::{Output, row};
use crate::catalog::{Catalog, UserType};

/// The oids of the catalogs that dependencies and comments name.
pub(super) const PG_CLASS: u32 = 1259;
pub(super) const PG_TYPE: u32 = 1247;
/// The oid of `pg_proc`.
pub(super) const PG_PROC: u32 = 1255;
pub(super) const PG_NAMESPACE: u32 = 2615;

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
            hasindexes = !indexes_of(table).is_empty(),
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
            hasindexes = !indexes_of(table).is_empty(),
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
    let mut comments = Vec::new();
    for schema in catalog.schemas() {
        comments.push((PG_NAMESPACE, schema.oid, 0, &schema.comment));
    }
    for table in all_tables(catalog) {
        comments.push((PG_CLASS, table.oid, 0, &table.comment));
        for (at, column) in table.visible().iter().enumerate() {
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
    for routine in catalog.routines() {
        comments.push((PG_PROC, routine.oid, 0, &routine.comment));
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
