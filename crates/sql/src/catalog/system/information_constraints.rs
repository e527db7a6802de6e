//! `information_schema`: constraints and the columns that they name.
//!
//! Source: PostgreSQL 15, `information_schema.sql`.

use super::SystemCatalog;
use super::classes::{relation_name, tables as all_tables};
use super::constraints::{Constraint, Owner, Rule, constraints as all_constraints, referenced_index};
use super::definitions::rule_word;
use super::information::yes_or_no;
use super::row::{Cell, Output, row};
use crate::catalog::Table;
use crate::types::Value;

/// The columns that name a constraint.
fn named(system: &SystemCatalog<'_>, schema: &str, name: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("constraint_catalog", system.session.database.as_str().value()),
        ("constraint_schema", schema.value()),
        ("constraint_name", name.value()),
    ]
}

/// The columns that name a table.
fn of_table(system: &SystemCatalog<'_>, table: &Table) -> Vec<(&'static str, Value)> {
    vec![
        ("table_catalog", system.session.database.as_str().value()),
        ("table_schema", table.schema.as_str().value()),
        ("table_name", table.name.as_str().value()),
    ]
}

pub(super) fn constraints(system: &SystemCatalog<'_>, out: &mut Output) {
    let mut add =
        |table: &Table, name: &str, (kind, distinct): (&str, Option<bool>), deferral: (bool, bool)| {
            let mut cells = named(system, &table.schema, name);
            cells.extend(of_table(system, table));
            cells.push(("constraint_type", kind.value()));
            cells.push(("is_deferrable", yes_or_no(deferral.0).value()));
            cells.push(("initially_deferred", yes_or_no(deferral.1).value()));
            cells.push(("enforced", "YES".value()));
            cells.push(("nulls_distinct", distinct.map(yes_or_no).value()));
            out.row(cells);
        };
    for constraint in all_constraints(system.objects()) {
        let Owner::Table(table) = constraint.owner else { continue };
        if !system.may_change(table) {
            continue;
        }
        let kind = match &constraint.rule {
            Rule::Key(index) if index.primary => ("PRIMARY KEY", None),
            Rule::Key(index) => ("UNIQUE", Some(!index.nulls_equal)),
            Rule::Check(_) => ("CHECK", None),
            Rule::Foreign(_) => ("FOREIGN KEY", None),
        };
        let deferral = constraint.rule.timing();
        add(table, constraint.name, kind, deferral);
    }
    for table in all_tables(system.objects()).into_iter().filter(|table| system.may_change(table)) {
        for (name, _) in not_null_checks(table) {
            add(table, &name, ("CHECK", None), (false, false));
        }
    }
}

/// NOT NULL as the standard has it: CHECK constraints whose names are made of oids.
fn not_null_checks(table: &Table) -> Vec<(String, String)> {
    let is_not_null = |at: usize| table.columns[at].not_null || table.key.contains(&at);
    let columns = (0..table.visible().len()).filter(|&at| is_not_null(at));
    let check = |at: usize| {
        let name = format!("2200_{}_{}_not_null", table.oid, at + 1);
        (name, format!("{} IS NOT NULL", table.columns[at].name))
    };
    columns.map(check).collect()
}

pub(super) fn checks(system: &SystemCatalog<'_>, out: &mut Output) {
    let mut add = |schema: &str, name: &str, clause: String| {
        let mut cells = named(system, schema, name);
        cells.push(("check_clause", clause.value()));
        out.row(cells);
    };
    for constraint in all_constraints(system.objects()) {
        let rights = match constraint.owner {
            Owner::Table(table) => &table.rights,
            Owner::Domain(domain) => &domain.rights,
        };
        if let Rule::Check(condition) = constraint.rule
            && system.owns(rights)
        {
            add(constraint.schema, constraint.name, format!("(({condition}))"));
        }
    }
    for table in all_tables(system.objects()).into_iter().filter(|table| system.owns(&table.rights)) {
        for (name, clause) in not_null_checks(table) {
            add(&table.schema, &name, clause);
        }
    }
}

pub(super) fn key_columns(system: &SystemCatalog<'_>, out: &mut Output) {
    for constraint in all_constraints(system.objects()) {
        let Owner::Table(table) = constraint.owner else { continue };
        for (number, &column) in constraint.rule.key_columns().iter().enumerate() {
            if !system.sees_column(table.oid, column) {
                continue;
            }
            let position = position_in_key(system, &constraint, number);
            let mut cells = named(system, constraint.schema, constraint.name);
            cells.extend(of_table(system, table));
            cells.push(("column_name", table.columns[column].name.as_str().value()));
            cells.push(("ordinal_position", (number as i32 + 1).value()));
            cells.push(("position_in_unique_constraint", position.value()));
            out.row(cells);
        }
    }
}

/// The position in the referenced key of the column that a foreign key's column refers to, from 1.
fn position_in_key(system: &SystemCatalog<'_>, constraint: &Constraint<'_>, number: usize) -> Option<i32> {
    let Rule::Foreign(key) = constraint.rule else { return None };
    let index = referenced_index(system.objects(), key)?;
    let referenced = key.references.get(number)?;
    let position = index.columns.iter().position(|column| column.column == *referenced)?;
    Some(position as i32 + 1)
}

/// The table and columns that a constraint speaks of: a foreign key's are those that it refers to.
fn used<'c>(system: &SystemCatalog<'c>, constraint: &Constraint<'c>) -> Option<(&'c Table, Vec<usize>)> {
    match (&constraint.rule, constraint.owner) {
        (Rule::Foreign(key), _) => Some((system.objects().table_by_oid(key.table)?, key.references.clone())),
        (_, Owner::Table(table)) => Some((table, constraint.columns())),
        (_, Owner::Domain(_)) => None,
    }
}

pub(super) fn column_usage(system: &SystemCatalog<'_>, out: &mut Output) {
    for constraint in all_constraints(system.objects()) {
        let Some((table, columns)) = used(system, &constraint) else { continue };
        if !system.owns(&table.rights) {
            continue;
        }
        for column in columns {
            let mut cells = of_table(system, table);
            cells.push(("column_name", table.columns[column].name.as_str().value()));
            cells.extend(named(system, constraint.schema, constraint.name));
            out.row(cells);
        }
    }
}

pub(super) fn table_usage(system: &SystemCatalog<'_>, out: &mut Output) {
    for constraint in all_constraints(system.objects()) {
        if matches!(constraint.rule, Rule::Check(_)) {
            continue;
        }
        let Some((table, _)) = used(system, &constraint) else { continue };
        if !system.owns(&table.rights) {
            continue;
        }
        let mut cells = of_table(system, table);
        cells.extend(named(system, constraint.schema, constraint.name));
        out.row(cells);
    }
}

pub(super) fn foreign_keys(system: &SystemCatalog<'_>, out: &mut Output) {
    let database = &system.session.database;
    for constraint in all_constraints(system.objects()) {
        let (Rule::Foreign(key), Owner::Table(table)) = (&constraint.rule, constraint.owner) else {
            continue;
        };
        if !system.may_change(table) {
            continue;
        }
        let index = referenced_index(system.objects(), key);
        let schema = relation_name(system.objects(), key.table).map(|(schema, _)| schema);
        row!(
            out,
            constraint_catalog = database,
            constraint_schema = constraint.schema,
            constraint_name = constraint.name,
            unique_constraint_catalog = database,
            unique_constraint_schema = schema,
            unique_constraint_name = index.map(|index| index.name),
            match_option = if key.is_full { "FULL" } else { "NONE" },
            update_rule = rule_word(key.on_update),
            delete_rule = rule_word(key.on_delete),
        );
    }
}
