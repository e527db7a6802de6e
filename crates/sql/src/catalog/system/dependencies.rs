//! `pg_depend` and `pg_rewrite`: which objects need which. `pg_dump` orders by them what it writes.

use super::classes::{
    indexes_of, schema_oid, sequences as all_sequences, stored_queries, tables as all_tables,
};
use super::constraints::{Rule, constraints_of};
use super::definitions::{relations_of, routines_of, sequences_of};
use super::listings::{PG_CLASS, PG_EXTENSION, PG_NAMESPACE, PG_PROC, PG_TRIGGER};
use super::row::{Output, row};
use super::{SystemCatalog, derived_oid};
use crate::catalog::{Catalog, ColumnOrigin, PLPGSQL, UserType};

const PG_ATTRDEF: u32 = 2604;
const PG_CONSTRAINT: u32 = 2606;
const PG_REWRITE: u32 = 2618;
const PG_TYPE: u32 = 1247;

/// The name of the rule that every view has.
pub(super) const RULE: &str = "_RETURN";

/// The oid of the rule of a view.
pub(super) fn rule_oid(view: u32) -> u32 {
    derived_oid(view, 'r', RULE)
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
        for (at, column) in table.visible().iter().enumerate() {
            if matches!(column.origin, ColumnOrigin::Default(_) | ColumnOrigin::Generated(_)) {
                let oid = super::owners::default_oid(table.oid, &column.name);
                depend((PG_ATTRDEF, oid), (PG_CLASS, table.oid, at as i32 + 1), 'a');
                if let ColumnOrigin::Default(text) = &column.origin {
                    sequences_of(text)
                        .for_each(|sequence| depend((PG_ATTRDEF, oid), (PG_CLASS, sequence, 0), 'n'));
                }
            }
        }
        for constraint in constraints_of(table) {
            let columns = constraint.columns();
            for &column in &columns {
                depend((PG_CONSTRAINT, constraint.oid), (PG_CLASS, table.oid, column as i32 + 1), 'a');
            }
            match &constraint.rule {
                Rule::Key(index) => depend((PG_CLASS, index.oid), (PG_CONSTRAINT, constraint.oid, 0), 'i'),
                Rule::Foreign(key) => key.references.iter().for_each(|column| {
                    depend((PG_CONSTRAINT, constraint.oid), (PG_CLASS, key.table, *column as i32 + 1), 'n');
                }),
                Rule::Check(_) => columns.iter().for_each(|column| {
                    depend((PG_CONSTRAINT, constraint.oid), (PG_CLASS, table.oid, *column as i32 + 1), 'n');
                }),
            }
        }
        for index in indexes_of(table).into_iter().filter(|index| !index.constraint) {
            for column in index.columns.iter().map(|it| it.column).filter(|it| *it < table.visible().len()) {
                depend((PG_CLASS, index.oid), (PG_CLASS, table.oid, column as i32 + 1), 'a');
            }
        }
    }
    for table in all_tables(catalog) {
        for index in &table.nominal_indexes {
            depend((PG_CLASS, index.oid), (PG_CLASS, table.oid, 0), 'a');
        }
    }
    for (domain, routine) in calls_of_domains(catalog) {
        depend((PG_TYPE, domain), (PG_PROC, routine, 0), 'n');
    }
    for extension in catalog.extensions().filter(|it| it.oid != PLPGSQL) {
        depend((PG_EXTENSION, extension.oid), (PG_NAMESPACE, schema_oid(catalog, &extension.schema), 0), 'n');
        for routine in catalog.members(extension.oid) {
            depend((PG_PROC, routine.oid), (PG_EXTENSION, extension.oid, 0), 'e');
        }
    }
    for trigger in catalog.triggers() {
        depend((PG_TRIGGER, trigger.oid), (PG_CLASS, trigger.table, 0), 'a');
        depend((PG_TRIGGER, trigger.oid), (PG_PROC, trigger.function, 0), 'n');
    }
    for sequence in all_sequences(catalog) {
        let Some((table, column)) = sequence.owner else { continue };
        let kind = if is_identity(catalog, table, column) { 'i' } else { 'a' };
        depend((PG_CLASS, sequence.oid), (PG_CLASS, table, column as i32 + 1), kind);
    }
    for view in stored_queries(catalog) {
        let rule = (PG_REWRITE, rule_oid(view.oid));
        if catalog.table_by_oid(view.oid).is_none() {
            depend((PG_CLASS, view.oid), (PG_NAMESPACE, schema_oid(catalog, &view.schema), 0), 'n');
        }
        depend(rule, (PG_CLASS, view.oid, 0), 'i');
        for relation in relations_of(catalog, &view) {
            depend(rule, (PG_CLASS, relation, 0), 'n');
        }
    }
}

fn is_identity(catalog: &Catalog, table: u32, column: usize) -> bool {
    let column = catalog.table_by_oid(table).and_then(|table| table.columns.get(column));
    column.is_some_and(|it| matches!(it.origin, ColumnOrigin::Identity { .. }))
}

/// The domains whose rules call routines, with these.
fn calls_of_domains(catalog: &Catalog) -> Vec<(u32, u32)> {
    let mut calls = Vec::new();
    for ty in catalog.types() {
        let UserType::Domain(domain) = ty else { continue };
        let texts = domain.checks.iter().map(|check| &check.condition).chain(&domain.default);
        let routines = texts.flat_map(|text| routines_of(catalog, text));
        calls.extend(routines.map(|routine| (domain.oid, routine)));
    }
    calls
}

/// The rules of views: each says what the view reads.
pub(super) fn rules(system: &SystemCatalog<'_>, out: &mut Output) {
    for view in stored_queries(system.objects()) {
        row!(
            out,
            oid = rule_oid(view.oid),
            rulename = RULE,
            ev_class = view.oid,
            ev_type = '1',
            ev_enabled = 'O',
            is_instead = true,
        );
    }
}
