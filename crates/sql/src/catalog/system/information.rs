//! `information_schema`: tables, columns, views, schemas, sequences, domains.
//!
//! Source: PostgreSQL 15, `information_schema.sql`.

use std::sync::Arc;

use super::classes::{
    composites, schemas as all_schemas, sequences as all_sequences, tables as all_tables, view_columns,
    views as all_views,
};
use super::definitions::{default_text, view_text};
use super::row::{Cell, Output, row};
use super::types::{collation_name, type_name};
use super::{PG_CATALOG, SystemCatalog};
use crate::bind::writable_columns;
use crate::catalog::rights::{CREATE, RightsKind, SELECT, UPDATE, USAGE};
use crate::catalog::{Catalog, Column, ColumnOrigin, Sequence, Table, UserType, View};
use crate::types::{Modifier, Type, Value};

pub(super) fn yes_or_no(yes: bool) -> &'static str {
    if yes { "YES" } else { "NO" }
}

pub(super) fn schemata(system: &SystemCatalog<'_>, out: &mut Output) {
    for (_, name) in all_schemas(system) {
        let schema = system.objects().schema(&name);
        if schema.is_some_and(|schema| !system.sees(RightsKind::Schema, &schema.rights, CREATE | USAGE)) {
            continue;
        }
        let owner = schema.map_or(super::OWNER, |schema| schema.rights.owner);
        row!(
            out,
            catalog_name = &system.session.database,
            schema_name = name,
            schema_owner = system.session.role_name(owner),
        );
    }
}

pub(super) fn enabled_roles(system: &SystemCatalog<'_>, out: &mut Output) {
    let own = system.session.role_oid();
    for role in system.objects().roles() {
        if system.objects().has_privileges_of(own, role.oid) {
            row!(out, role_name = system.session.role_name(role.oid));
        }
    }
}

pub(super) fn tables(system: &SystemCatalog<'_>, out: &mut Output) {
    let database = &system.session.database;
    let mut add = |schema: &str, name: &str, kind: &str, insertable: bool| {
        row!(
            out,
            table_catalog = database,
            table_schema = schema,
            table_name = name,
            table_type = kind,
            is_insertable_into = yes_or_no(insertable),
            is_typed = "NO",
        );
    };
    for relation in super::relations() {
        let kind = if relation.kind == 'r' { "BASE TABLE" } else { "VIEW" };
        add(relation.schema, relation.name, kind, false);
    }
    let is_plain = |table: &&Arc<Table>| table.stored_query.is_none();
    let is_seen = |table: &&Arc<Table>| is_plain(table) && system.sees_relation(table.oid);
    for table in all_tables(system.objects()).into_iter().filter(is_seen) {
        let temporary = table.persistence.is_temporary();
        let kind = if temporary { "LOCAL TEMPORARY" } else { "BASE TABLE" };
        add(&table.schema, &table.name, kind, true);
    }
    for view in all_views(system.objects()).into_iter().filter(|view| system.sees_relation(view.oid)) {
        add(&view.schema, &view.name, "VIEW", is_writable(system.objects(), view));
    }
}

/// Returns true if rows of a view can be written, rather than at most deleted.
fn is_writable(catalog: &Catalog, view: &Arc<View>) -> bool {
    writable_columns(catalog, view).is_some_and(|columns| columns.contains(&true))
}

pub(super) fn views(system: &SystemCatalog<'_>, out: &mut Output) {
    for view in all_views(system.objects()).into_iter().filter(|view| system.sees_relation(view.oid)) {
        let writable = yes_or_no(is_writable(system.objects(), view));
        row!(
            out,
            table_catalog = &system.session.database,
            table_schema = &view.schema,
            table_name = &view.name,
            view_definition = system.owns(&view.rights).then(|| view_text(system, view)),
            check_option =
                view.options.check_option.map_or("NONE".to_string(), |it| it.name().to_uppercase()),
            is_updatable = writable,
            is_insertable_into = writable,
            is_trigger_updatable = "NO",
            is_trigger_deletable = "NO",
            is_trigger_insertable_into = "NO",
        );
    }
}

/// A type's name as the standard has it: arrays and users' types by what they are.
pub(super) fn data_type(ty: Type) -> String {
    match ty {
        Type::Array(_) => "ARRAY".to_string(),
        Type::Enum(_) | Type::Composite(_) => "USER-DEFINED".to_string(),
        other => other.display_name(),
    }
}

/// The columns that describe a type.
fn type_cells(ty: Type, modifier: Modifier) -> Vec<(&'static str, Value)> {
    let characters = modifier.characters().filter(|_| matches!(ty, Type::Varchar | Type::Bpchar));
    let characters = match ty {
        Type::Bit | Type::Varbit if !modifier.is_none() => Some(modifier.0 as usize),
        _ => characters,
    };
    let octets = match ty {
        Type::Text | Type::Varchar => Some(characters.map_or(1 << 30, |characters| characters as i32 * 4)),
        Type::Bpchar => characters.map(|characters| characters as i32 * 4),
        _ => None,
    };
    let (precision, radix, scale) = match ty {
        Type::Int2 => (Some(16), Some(2), Some(0)),
        Type::Int4 => (Some(32), Some(2), Some(0)),
        Type::Int8 => (Some(64), Some(2), Some(0)),
        Type::Float4 => (Some(24), Some(2), None),
        Type::Float8 => (Some(53), Some(2), None),
        Type::Numeric => match modifier.numeric_parts() {
            Some((precision, scale)) => (Some(precision), Some(10), Some(scale)),
            None => (None, Some(10), None),
        },
        _ => (None, None, None),
    };
    let digits = match ty {
        Type::Date => Some(0),
        Type::Time | Type::Timetz | Type::Timestamp | Type::Timestamptz | Type::Interval => {
            let digits = modifier.0 & 0xffff;
            Some(if modifier.is_none() || digits > 6 { 6 } else { digits })
        }
        _ => None,
    };
    vec![
        ("data_type", data_type(ty).value()),
        ("character_maximum_length", characters.map(|it| it as i32).value()),
        ("character_octet_length", octets.value()),
        ("numeric_precision", precision.value()),
        ("numeric_precision_radix", radix.value()),
        ("numeric_scale", scale.value()),
        ("datetime_precision", digits.value()),
    ]
}

/// The columns that name a type.
fn type_names(system: &SystemCatalog<'_>, oid: u32, number: i32) -> Vec<(&'static str, Value)> {
    let (schema, name) = type_name(system, oid).unwrap_or_default();
    vec![
        ("udt_catalog", system.session.database.as_str().value()),
        ("udt_schema", schema.value()),
        ("udt_name", name.value()),
        ("dtd_identifier", number.to_string().value()),
    ]
}

/// One column of a relation.
struct Shown<'c> {
    schema: &'c str,
    table: &'c str,
    name: &'c str,
    number: usize,
    ty: Type,
    modifier: Modifier,
    not_null: bool,
    updatable: bool,
}

impl Shown<'_> {
    fn cells(&self, system: &SystemCatalog<'_>) -> Vec<(&'static str, Value)> {
        let number = self.number as i32 + 1;
        let mut cells = vec![
            ("table_catalog", system.session.database.as_str().value()),
            ("table_schema", self.schema.value()),
            ("table_name", self.table.value()),
            ("column_name", self.name.value()),
            ("ordinal_position", number.value()),
            ("is_nullable", yes_or_no(!self.not_null).value()),
        ];
        cells.extend(type_cells(self.ty, self.modifier));
        cells.extend(type_names(system, self.ty.oid(), number));
        cells.extend([
            ("is_self_referencing", "NO".value()),
            ("is_identity", "NO".value()),
            ("identity_cycle", "NO".value()),
            ("is_generated", "NEVER".value()),
            ("is_updatable", yes_or_no(self.updatable).value()),
        ]);
        cells
    }
}

pub(super) fn columns(system: &SystemCatalog<'_>, out: &mut Output) {
    let catalog = system.objects();
    for relation in super::relations() {
        for (number, column) in relation.columns.iter().enumerate() {
            let (schema, table, name) = (relation.schema, relation.name, column.name);
            let (ty, modifier, not_null) = (column.ty, Modifier::NONE, column.not_null);
            let shown = Shown { schema, table, name, number, ty, modifier, not_null, updatable: false };
            out.row(shown.cells(system));
        }
    }
    for table in all_tables(catalog).into_iter().filter(|table| table.stored_query.is_none()) {
        for (number, column) in table.visible().iter().enumerate() {
            if !system.sees_column(table.oid, number) {
                continue;
            }
            let shown = Shown {
                schema: &table.schema,
                table: &table.name,
                name: &column.name,
                number,
                ty: column.ty,
                modifier: column.modifier,
                not_null: column.not_null || table.key.contains(&number),
                updatable: true,
            };
            let mut cells = shown.cells(system);
            cells.extend(origin_cells(system, column));
            out.row(cells);
        }
    }
    for view in all_views(catalog) {
        let writable = writable_columns(catalog, view).unwrap_or_default();
        for (number, (name, ty, modifier)) in view_columns(catalog, view).into_iter().enumerate() {
            if !system.sees_column(view.oid, number) {
                continue;
            }
            let (schema, table) = (&view.schema, &view.name);
            let updatable = writable.get(number).copied().unwrap_or(false);
            let shown =
                Shown { schema, table, name: &name, number, ty, modifier, not_null: false, updatable };
            out.row(shown.cells(system));
        }
    }
}

/// The columns about the source of a column's values, and its domain.
fn origin_cells(system: &SystemCatalog<'_>, column: &Column) -> Vec<(&'static str, Value)> {
    let mut cells = Vec::new();
    match &column.origin {
        ColumnOrigin::Nothing | ColumnOrigin::IndexKey(_) | ColumnOrigin::IndexPredicate(_) => {}
        ColumnOrigin::Default(text) => {
            cells.push(("column_default", default_text(system, column.ty, text).value()))
        }
        ColumnOrigin::Generated(text) => {
            cells.push(("is_generated", "ALWAYS".value()));
            cells.push(("generation_expression", text.value()));
        }
        ColumnOrigin::Identity { always, sequence } => {
            cells.push(("is_identity", "YES".value()));
            cells.push(("identity_generation", if *always { "ALWAYS" } else { "BY DEFAULT" }.value()));
            if let Some(sequence) = sequence_by_oid(system.objects(), *sequence) {
                cells.push(("identity_start", sequence.start.to_string().value()));
                cells.push(("identity_increment", sequence.increment.to_string().value()));
                cells.push(("identity_maximum", sequence.maximum.to_string().value()));
                cells.push(("identity_minimum", sequence.minimum.to_string().value()));
                cells.push(("identity_cycle", yes_or_no(sequence.cycle).value()));
            }
        }
    }
    if let Some(collation) = column.collation {
        cells.push(("collation_catalog", system.session.database.as_str().value()));
        cells.push(("collation_schema", PG_CATALOG.value()));
        cells.push(("collation_name", collation_name(collation).value()));
    }
    if let Some(domain) = column.domain
        && let Some((schema, name)) = domain_name(system.objects(), domain)
    {
        cells.push(("domain_catalog", system.session.database.as_str().value()));
        cells.push(("domain_schema", schema.value()));
        cells.push(("domain_name", name.value()));
    }
    cells
}

fn sequence_by_oid(catalog: &Catalog, oid: u32) -> Option<&Sequence> {
    all_sequences(catalog).into_iter().find(|sequence| sequence.oid == oid).map(|sequence| &**sequence)
}

fn domain_name(catalog: &Catalog, oid: u32) -> Option<(&str, &str)> {
    match catalog.user_type_by_oid(oid)? {
        UserType::Domain(domain) => Some((&domain.schema, &domain.name)),
        UserType::Enum(_) | UserType::Composite(_) => None,
    }
}

/// Returns true if a sequence is an identity column's: the standard knows it as the column's alone.
fn is_identity(catalog: &Catalog, sequence: &Sequence) -> bool {
    let column = sequence.owner.and_then(|(table, at)| catalog.table_by_oid(table)?.columns.get(at));
    column.is_some_and(|column| matches!(column.origin, ColumnOrigin::Identity { .. }))
}

pub(super) fn sequences(system: &SystemCatalog<'_>, out: &mut Output) {
    for sequence in all_sequences(system.objects()) {
        let wanted = SELECT | UPDATE | USAGE;
        if is_identity(system.objects(), sequence)
            || !system.sees(RightsKind::Sequence, &sequence.rights, wanted)
        {
            continue;
        }
        let precision = i32::from(sequence.ty.length()) * 8;
        row!(
            out,
            sequence_catalog = &system.session.database,
            sequence_schema = &sequence.schema,
            sequence_name = &sequence.name,
            data_type = sequence.ty.display_name(),
            numeric_precision = precision,
            numeric_precision_radix = 2_i32,
            numeric_scale = 0_i32,
            start_value = sequence.start.to_string(),
            minimum_value = sequence.minimum.to_string(),
            maximum_value = sequence.maximum.to_string(),
            increment = sequence.increment.to_string(),
            cycle_option = yes_or_no(sequence.cycle),
        );
    }
}

pub(super) fn domains(system: &SystemCatalog<'_>, out: &mut Output) {
    for ty in system.objects().types() {
        let UserType::Domain(domain) = ty else { continue };
        if !system.sees(RightsKind::Type, &domain.rights, USAGE) {
            continue;
        }
        let mut cells = vec![
            ("domain_catalog", system.session.database.as_str().value()),
            ("domain_schema", domain.schema.as_str().value()),
            ("domain_name", domain.name.as_str().value()),
        ];
        cells.extend(type_cells(domain.ty, domain.modifier));
        let default = domain.default.as_ref().map(|text| default_text(system, domain.ty, text));
        cells.push(("domain_default", default.value()));
        cells.extend(type_names(system, domain.ty.oid(), 1));
        out.row(cells);
    }
}

/// The attributes of composite types.
pub(super) fn attributes(system: &SystemCatalog<'_>, out: &mut Output) {
    for ty in composites(system.objects()) {
        for (number, attribute) in ty.attributes.iter().enumerate() {
            let number = number as i32 + 1;
            let (of_schema, of_name) = type_name(system, attribute.ty.oid()).unwrap_or_default();
            let mut cells = vec![
                ("udt_catalog", system.session.database.as_str().value()),
                ("udt_schema", ty.schema.as_str().value()),
                ("udt_name", ty.name.as_str().value()),
                ("attribute_name", attribute.name.as_str().value()),
                ("ordinal_position", number.value()),
                ("is_nullable", "YES".value()),
                ("attribute_udt_catalog", system.session.database.as_str().value()),
                ("attribute_udt_schema", of_schema.value()),
                ("attribute_udt_name", of_name.value()),
                ("dtd_identifier", number.to_string().value()),
                ("is_derived_reference_attribute", "NO".value()),
            ];
            cells.extend(type_cells(attribute.ty, attribute.modifier));
            out.row(cells);
        }
    }
}

/// The composite types.
pub(super) fn user_defined_types(system: &SystemCatalog<'_>, out: &mut Output) {
    for ty in composites(system.objects()) {
        row!(
            out,
            user_defined_type_catalog = &system.session.database,
            user_defined_type_schema = &ty.schema,
            user_defined_type_name = &ty.name,
            user_defined_type_category = "STRUCTURED",
            is_instantiable = "YES",
        );
    }
}
