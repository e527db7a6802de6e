//! `pg_depend` and `pg_rewrite`: the dependencies between objects, by which `pg_dump` orders its output.

use super::classes::{
    indexes_of, schema_oid, sequences as all_sequences, stored_queries, tables as all_tables,
};
use super::constraints::{Rule, constraints_of};
use super::definitions::{relations_of, routines_of, sequences_of};
use super::listings::{PG_CLASS, PG_EXTENSION, PG_NAMESPACE, PG_PROC, PG_TRIGGER};
use super::row::{Output, row};
use super::{SystemCatalog, derived_oid};
use crate::catalog::{Catalog, ColumnOrigin, PLPGSQL, Table, UserType, View};

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

/// Rows of `pg_depend`: sequences with their columns, defaults with theirs, indexes with their constraints.
pub(super) fn dependencies(system: &SystemCatalog<'_>, out: &mut Output) {
    let catalog = system.objects();
    for table in all_tables(catalog) {
        dependencies_of_table(catalog, table, out);
    }
    for table in all_tables(catalog) {
        for index in &table.nominal_indexes {
            depend(out, (PG_CLASS, index.oid), (PG_CLASS, table.oid, 0), 'a');
        }
    }
    for (domain, routine) in calls_of_domains(catalog) {
        depend(out, (PG_TYPE, domain), (PG_PROC, routine, 0), 'n');
    }
    for (domain, ty) in types_beneath(catalog) {
        depend(out, (PG_TYPE, domain), (PG_TYPE, ty, 0), 'n');
    }
    for extension in catalog.extensions().filter(|it| it.oid != PLPGSQL) {
        depend(
            out,
            (PG_EXTENSION, extension.oid),
            (PG_NAMESPACE, schema_oid(catalog, &extension.schema), 0),
            'n',
        );
        for routine in catalog.members(extension.oid) {
            depend(out, (PG_PROC, routine.oid), (PG_EXTENSION, extension.oid, 0), 'e');
        }
    }
    for trigger in catalog.triggers() {
        depend(out, (PG_TRIGGER, trigger.oid), (PG_CLASS, trigger.table, 0), 'a');
        depend(out, (PG_TRIGGER, trigger.oid), (PG_PROC, trigger.function, 0), 'n');
    }
    for sequence in all_sequences(catalog) {
        let Some((table, column)) = sequence.owner else { continue };
        let kind = if is_identity(catalog, table, column) { 'i' } else { 'a' };
        depend(out, (PG_CLASS, sequence.oid), (PG_CLASS, table, column as i32 + 1), kind);
    }
    for view in stored_queries(catalog) {
        dependencies_of_view(catalog, &view, out);
    }
}

/// Dependencies of a table on its schema, and of its defaults, constraints and indexes on its columns.
fn dependencies_of_table(catalog: &Catalog, table: &Table, out: &mut Output) {
    depend(out, (PG_CLASS, table.oid), (PG_NAMESPACE, schema_oid(catalog, &table.schema), 0), 'n');
    for (at, column) in table.visible().iter().enumerate() {
        if matches!(column.origin, ColumnOrigin::Default(_) | ColumnOrigin::Generated(_)) {
            let oid = super::owners::default_oid(table.oid, &column.name);
            depend(out, (PG_ATTRDEF, oid), (PG_CLASS, table.oid, at as i32 + 1), 'a');
            if let ColumnOrigin::Default(text) = &column.origin {
                sequences_of(text)
                    .for_each(|sequence| depend(out, (PG_ATTRDEF, oid), (PG_CLASS, sequence, 0), 'n'));
            }
        }
    }
    dependencies_of_constraints(table, out);
    for index in indexes_of(table).into_iter().filter(|index| !index.constraint) {
        for column in index.columns.iter().map(|it| it.column).filter(|it| *it < table.visible().len()) {
            depend(out, (PG_CLASS, index.oid), (PG_CLASS, table.oid, column as i32 + 1), 'a');
        }
    }
}

/// Dependencies of constraints on columns, and of indexes on the constraints that they implement.
fn dependencies_of_constraints(table: &Table, out: &mut Output) {
    for constraint in constraints_of(table) {
        let columns = constraint.columns();
        for &column in &columns {
            depend(out, (PG_CONSTRAINT, constraint.oid), (PG_CLASS, table.oid, column as i32 + 1), 'a');
        }
        match &constraint.rule {
            Rule::Key(index) => depend(out, (PG_CLASS, index.oid), (PG_CONSTRAINT, constraint.oid, 0), 'i'),
            Rule::Foreign(key) => key.references.iter().for_each(|column| {
                depend(out, (PG_CONSTRAINT, constraint.oid), (PG_CLASS, key.table, *column as i32 + 1), 'n');
            }),
            Rule::Check(_) => columns.iter().for_each(|column| {
                depend(out, (PG_CONSTRAINT, constraint.oid), (PG_CLASS, table.oid, *column as i32 + 1), 'n');
            }),
        }
    }
}

/// Dependencies of a view on its schema, and of its rule on what the view reads.
fn dependencies_of_view(catalog: &Catalog, view: &View, out: &mut Output) {
    let rule = (PG_REWRITE, rule_oid(view.oid));
    if catalog.table_by_oid(view.oid).is_none() {
        depend(out, (PG_CLASS, view.oid), (PG_NAMESPACE, schema_oid(catalog, &view.schema), 0), 'n');
    }
    depend(out, rule, (PG_CLASS, view.oid, 0), 'i');
    for relation in relations_of(catalog, view) {
        depend(out, rule, (PG_CLASS, relation, 0), 'n');
    }
}

/// Adds the row of one object that depends on another one, or on a column of it.
fn depend(
    out: &mut Output,
    (class, object): (u32, u32),
    (on_class, on, column): (u32, u32, i32),
    kind: char,
) {
    row!(
        out,
        classid = class,
        objid = object,
        refclassid = on_class,
        refobjid = on,
        refobjsubid = column,
        deptype = kind,
    );
}

fn is_identity(catalog: &Catalog, table: u32, column: usize) -> bool {
    let column = catalog.table_by_oid(table).and_then(|table| table.columns.get(column));
    column.is_some_and(|it| matches!(it.origin, ColumnOrigin::Identity { .. }))
}

/// The domains over types of users, with these.
fn types_beneath(catalog: &Catalog) -> Vec<(u32, u32)> {
    let beneath = |ty: &UserType| match ty {
        UserType::Domain(domain) => {
            let of_user = domain.ty.user_oid().map(|_| domain.ty.oid());
            domain.base.or(of_user).map(|beneath| (domain.oid, beneath))
        }
        _ => None,
    };
    catalog.types().filter_map(beneath).collect()
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
