//! `information_schema`: privileges granted on tables, columns, sequences, domains and routines.
//!
//! # Invariants
//! - A role sees what it has granted, what was granted to it or to a role whose privileges it has, and what PUBLIC has.
//! - An owner's privileges are grantable, as those WITH GRANT OPTION.
//!
//! Source: PostgreSQL 15, `information_schema.sql`.

use super::classes::{sequences as all_sequences, tables as all_tables, view_columns, views as all_views};
use super::information::yes_or_no;
use super::procedures::each_routine;
use super::row::{Cell, Output};
use super::{PG_CATALOG, SystemCatalog, relations};
use crate::catalog::UserType;
use crate::catalog::rights::{
    AclItem, EXECUTE, NAMES, PUBLIC_ROLE, Privileges, Rights, RightsKind, SELECT, USAGE,
};
use crate::catalog::role::BOOTSTRAP;
use crate::types::Value;

type Cells = Vec<(&'static str, Value)>;

/// The grants that a view lists.
#[derive(Clone, Copy, PartialEq)]
enum Seen {
    /// The grants that the role may see.
    All,
    /// The grants that a role of the session has made or has.
    OfRoles,
}

/// One privilege of one grantee.
#[derive(Clone, Copy, PartialEq)]
struct Grant {
    grantee: u32,
    grantor: u32,
    privilege: Privileges,
    is_grantable: bool,
}

/// The privileges among `kind`'s in an object's access list that the session's role sees.
fn grants(system: &SystemCatalog<'_>, rights: &Rights, kind: RightsKind, seen: Seen) -> Vec<Grant> {
    let catalog = system.objects();
    let own = system.session.role_oid();
    let has = |role: u32| role != PUBLIC_ROLE && catalog.has_privileges_of(own, role);
    let is_seen = |item: &AclItem| {
        has(item.grantor) || has(item.grantee) || (seen == Seen::All && item.grantee == PUBLIC_ROLE)
    };
    let of_item = |item: AclItem| {
        let is_owner = item.grantee != PUBLIC_ROLE && catalog.has_privileges_of(item.grantee, rights.owner);
        let granted = NAMES.into_iter().filter(move |(_, bit, _)| item.privileges & kind.all() & bit != 0);
        granted.map(move |(_, privilege, _)| Grant {
            grantee: item.grantee,
            grantor: item.grantor,
            privilege,
            is_grantable: is_owner || item.grantable & privilege != 0,
        })
    };
    rights.items(kind).into_iter().filter(is_seen).flat_map(of_item).collect()
}

impl Grant {
    fn cells(self, system: &SystemCatalog<'_>, object: &[(&'static str, Value)]) -> Cells {
        let role = |oid| match oid {
            PUBLIC_ROLE => "PUBLIC".to_string(),
            oid => system.session.role_name(oid),
        };
        let name = NAMES.iter().find(|(_, bit, _)| *bit == self.privilege).map(|(name, ..)| *name);
        let mut cells =
            vec![("grantor", role(self.grantor).value()), ("grantee", role(self.grantee).value())];
        cells.extend_from_slice(object);
        cells.push(("privilege_type", name.value()));
        cells.push(("is_grantable", yes_or_no(self.is_grantable).value()));
        cells.push(("with_hierarchy", yes_or_no(self.privilege == SELECT).value()));
        cells
    }
}

fn add(
    system: &SystemCatalog<'_>,
    out: &mut Output,
    object: Cells,
    (rights, kind): (&Rights, RightsKind),
    seen: Seen,
) {
    for grant in grants(system, rights, kind, seen) {
        out.row(grant.cells(system, &object));
    }
}

/// The rights on the system's relations, which every role reads, but for those that show passwords.
fn system_rights(is_secret: bool) -> Rights {
    let item = |grantee, privileges| AclItem { grantee, grantor: BOOTSTRAP, privileges, grantable: 0 };
    let of_public = (!is_secret).then(|| item(PUBLIC_ROLE, SELECT));
    let items = std::iter::once(item(BOOTSTRAP, RightsKind::Table.all())).chain(of_public);
    Rights { owner: BOOTSTRAP, acl: Some(items.collect()) }
}

/// A table or view with its rights and its columns, each with its access list.
struct Securable<'c> {
    schema: &'c str,
    name: &'c str,
    rights: Rights,
    columns: Vec<(String, Vec<AclItem>)>,
}

/// The tables and views. Materialized views are not of the standard.
fn securables<'c>(system: &SystemCatalog<'c>) -> Vec<Securable<'c>> {
    let catalog = system.objects();
    let built_in = relations().iter().map(|relation| Securable {
        schema: relation.schema,
        name: relation.name,
        rights: system_rights(relation.is_secret()),
        columns: relation.columns.iter().map(|column| (column.name.to_string(), Vec::new())).collect(),
    });
    let tables = all_tables(catalog).into_iter().filter(|table| table.stored_query.is_none());
    let tables = tables.map(|table| Securable {
        schema: &table.schema,
        name: &table.name,
        rights: table.rights.clone(),
        columns: table
            .visible()
            .iter()
            .map(|column| (column.name.clone(), column.acl.clone().unwrap_or_default()))
            .collect(),
    });
    let views = all_views(catalog).into_iter().map(|view| {
        let relation = catalog.relation_by_oid(view.oid);
        let acl = |at: usize| relation.as_ref().map_or(Vec::new(), |it| it.column_acl(at).to_vec());
        let columns = view_columns(catalog, view).into_iter().enumerate();
        Securable {
            schema: &view.schema,
            name: &view.name,
            rights: view.rights.clone(),
            columns: columns.map(|(at, (name, ..))| (name, acl(at))).collect(),
        }
    });
    built_in.chain(tables).chain(views).collect()
}

fn table_cells(system: &SystemCatalog<'_>, schema: &str, name: &str) -> Cells {
    let catalog = system.session.database.as_str().value();
    vec![("table_catalog", catalog), ("table_schema", schema.value()), ("table_name", name.value())]
}

fn table_rows(system: &SystemCatalog<'_>, out: &mut Output, seen: Seen) {
    for it in securables(system) {
        let cells = table_cells(system, it.schema, it.name);
        add(system, out, cells, (&it.rights, RightsKind::Table), seen);
    }
}

pub(super) fn tables(system: &SystemCatalog<'_>, out: &mut Output) {
    table_rows(system, out, Seen::All);
}

pub(super) fn tables_of_roles(system: &SystemCatalog<'_>, out: &mut Output) {
    table_rows(system, out, Seen::OfRoles);
}

/// Lists the privileges granted on columns, and those granted on their tables.
fn column_rows(system: &SystemCatalog<'_>, out: &mut Output, seen: Seen) {
    for it in securables(system) {
        let of_table = grants(system, &it.rights, RightsKind::Table, seen);
        let on_columns = RightsKind::Column.all();
        for (column, acl) in it.columns {
            let rights = Rights { owner: it.rights.owner, acl: Some(acl) };
            let mut all = of_table.clone();
            all.retain(|grant| grant.privilege & on_columns != 0);
            for grant in grants(system, &rights, RightsKind::Column, seen) {
                if !all.contains(&grant) {
                    all.push(grant);
                }
            }
            let mut cells = table_cells(system, it.schema, it.name);
            cells.push(("column_name", column.value()));
            all.into_iter().for_each(|grant| out.row(grant.cells(system, &cells)));
        }
    }
}

pub(super) fn columns(system: &SystemCatalog<'_>, out: &mut Output) {
    column_rows(system, out, Seen::All);
}

pub(super) fn columns_of_roles(system: &SystemCatalog<'_>, out: &mut Output) {
    column_rows(system, out, Seen::OfRoles);
}

/// The standard's USAGE: of sequences, domains and collations, which every role may use.
fn usage_rows(system: &SystemCatalog<'_>, out: &mut Output, seen: Seen) {
    let catalog = system.objects();
    let object = |schema: &str, name: &str, kind: &str| {
        vec![
            ("object_catalog", system.session.database.as_str().value()),
            ("object_schema", schema.value()),
            ("object_name", name.value()),
            ("object_type", kind.value()),
        ]
    };
    if seen == Seen::All {
        let of_public =
            Grant { grantee: PUBLIC_ROLE, grantor: BOOTSTRAP, privilege: USAGE, is_grantable: false };
        for (_, name) in super::types::COLLATIONS {
            out.row(of_public.cells(system, &object(PG_CATALOG, name, "COLLATION")));
        }
    }
    for ty in catalog.types() {
        if let UserType::Domain(domain) = ty {
            let cells = object(&domain.schema, &domain.name, "DOMAIN");
            add(system, out, cells, (&domain.rights, RightsKind::Type), seen);
        }
    }
    // PostgreSQL takes a sequence without an access list for a table, on which there is no USAGE.
    for sequence in all_sequences(catalog).into_iter().filter(|it| it.rights.acl.is_some()) {
        let granted = grants(system, &sequence.rights, RightsKind::Sequence, seen);
        for grant in granted.into_iter().filter(|grant| grant.privilege == USAGE) {
            out.row(grant.cells(system, &object(&sequence.schema, &sequence.name, "SEQUENCE")));
        }
    }
}

pub(super) fn usage(system: &SystemCatalog<'_>, out: &mut Output) {
    usage_rows(system, out, Seen::All);
}

pub(super) fn usage_of_roles(system: &SystemCatalog<'_>, out: &mut Output) {
    usage_rows(system, out, Seen::OfRoles);
}

fn routine_rows(system: &SystemCatalog<'_>, out: &mut Output, seen: Seen) {
    debug_assert_eq!(RightsKind::Function.all(), EXECUTE);
    each_routine(system, |routine| {
        let database = system.session.database.as_str();
        let cells = vec![
            ("specific_catalog", database.value()),
            ("specific_schema", routine.schema.value()),
            ("specific_name", routine.specific_name().value()),
            ("routine_catalog", database.value()),
            ("routine_schema", routine.schema.value()),
            ("routine_name", routine.name.value()),
        ];
        add(system, out, cells, (&routine.rights, RightsKind::Function), seen);
    });
}

pub(super) fn routines(system: &SystemCatalog<'_>, out: &mut Output) {
    routine_rows(system, out, Seen::All);
}

pub(super) fn routines_of_roles(system: &SystemCatalog<'_>, out: &mut Output) {
    routine_rows(system, out, Seen::OfRoles);
}
