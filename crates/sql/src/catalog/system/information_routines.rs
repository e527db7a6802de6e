//! `information_schema`: functions, procedures, their parameters, and triggers.
//!
//! # Invariants
//! A role sees the routines that it may execute, and the triggers of tables on which it may do more than read.
//!
//! Source: PostgreSQL 15, `information_schema.sql`.

use super::SystemCatalog;
use super::information::{data_type, yes_or_no};
use super::procedures::{Listed, Origin, each_routine};
use super::routines::source;
use super::row::{Cell, Output};
use super::triggers::{condition, execution};
use super::types::type_name;
use crate::catalog::rights::{EXECUTE, RightsKind};
use crate::catalog::{ArgumentMode, Language, Stability, Table, Trigger, TriggerTime};
use crate::functions::{FunctionKind, Volatility};
use crate::types::{Type, Value};

type Cells = Vec<(&'static str, Value)>;

/// Returns true if the session's role may call a routine.
fn may_execute(system: &SystemCatalog<'_>, routine: &Listed<'_>) -> bool {
    let catalog = system.objects();
    let role = system.session.role_oid();
    catalog.is_owner(role, &routine.rights)
        || catalog.may(role, &routine.rights, RightsKind::Function, EXECUTE)
}

fn specific(system: &SystemCatalog<'_>, routine: &Listed<'_>) -> Cells {
    vec![
        ("specific_catalog", system.session.database.as_str().value()),
        ("specific_schema", routine.schema.value()),
        ("specific_name", routine.specific_name().value()),
    ]
}

/// The facts that differ between user-defined routines and the system's.
struct Facts<'c> {
    /// `None` for an aggregate or a window function, which the standard does not know.
    kind: Option<&'static str>,
    result: Option<Type>,
    language: &'static str,
    body: &'c str,
    is_deterministic: bool,
    is_strict: bool,
    is_definer: bool,
}

fn facts<'c>(origin: &Origin<'c>) -> Facts<'c> {
    match *origin {
        Origin::User(routine) => Facts {
            kind: Some(if routine.is_procedure { "PROCEDURE" } else { "FUNCTION" }),
            result: (!routine.is_procedure).then_some(routine.result),
            language: match routine.language {
                Language::Sql => "SQL",
                Language::Plpgsql => "PLPGSQL",
                Language::C => "C",
            },
            body: source(routine),
            is_deterministic: routine.stability == Stability::Immutable,
            is_strict: routine.is_strict,
            is_definer: routine.is_definer,
        },
        Origin::BuiltIn(function) => Facts {
            kind: match function.kind {
                FunctionKind::Scalar(_) | FunctionKind::Set(_) => Some("FUNCTION"),
                FunctionKind::Aggregate { .. } | FunctionKind::Window(_) => None,
            },
            result: Some(function.result),
            language: "INTERNAL",
            body: function.name,
            is_deterministic: matches!(function.volatility, Volatility::Immutable),
            is_strict: function.is_strict,
            is_definer: false,
        },
    }
}

fn type_cells(system: &SystemCatalog<'_>, ty: Type, prefix: [&'static str; 3]) -> Cells {
    let (schema, name) = type_name(system, ty.oid()).unwrap_or_default();
    let [in_catalog, in_schema, named] = prefix;
    vec![
        ("data_type", data_type(ty).value()),
        (in_catalog, system.session.database.as_str().value()),
        (in_schema, schema.value()),
        (named, name.value()),
    ]
}

pub(super) fn routines(system: &SystemCatalog<'_>, out: &mut Output) {
    each_routine(system, |routine| {
        if !may_execute(system, &routine) {
            return;
        }
        let facts = facts(&routine.origin);
        let is_procedure = facts.result.is_none();
        let is_owner = system.objects().is_owner(system.session.role_oid(), &routine.rights);
        let mut cells = specific(system, &routine);
        cells.extend([
            ("routine_catalog", system.session.database.as_str().value()),
            ("routine_schema", routine.schema.value()),
            ("routine_name", routine.name.value()),
            ("routine_type", facts.kind.value()),
        ]);
        if let Some(result) = facts.result {
            cells.extend(type_cells(
                system,
                result,
                ["type_udt_catalog", "type_udt_schema", "type_udt_name"],
            ));
        }
        cells.extend([
            ("dtd_identifier", (!is_procedure).then_some("0").value()),
            ("routine_body", if facts.language == "SQL" { "SQL" } else { "EXTERNAL" }.value()),
            ("routine_definition", is_owner.then_some(facts.body).value()),
            ("external_language", facts.language.value()),
            ("parameter_style", "GENERAL".value()),
            ("is_deterministic", yes_or_no(facts.is_deterministic).value()),
            ("sql_data_access", "MODIFIES".value()),
            ("is_null_call", (!is_procedure).then(|| yes_or_no(facts.is_strict)).value()),
            ("schema_level_routine", "YES".value()),
            ("max_dynamic_result_sets", 0_i32.value()),
            ("security_type", if facts.is_definer { "DEFINER" } else { "INVOKER" }.value()),
            ("as_locator", "NO".value()),
            ("is_udt_dependent", "NO".value()),
        ]);
        out.row(cells);
    });
}

/// A parameter: its mode, name, type and default.
type Parameter<'c> = (&'static str, &'c str, Type, Option<&'c str>);

fn parameters_of<'c>(origin: &Origin<'c>) -> Vec<Parameter<'c>> {
    match *origin {
        Origin::User(routine) => {
            let shown = routine.arguments.iter().map(|argument| {
                let mode = match argument.mode {
                    ArgumentMode::In | ArgumentMode::Variadic => "IN",
                    ArgumentMode::InOut => "INOUT",
                    ArgumentMode::Out | ArgumentMode::Table => "OUT",
                };
                (mode, argument.name.as_str(), argument.ty, argument.default.as_deref())
            });
            shown.collect()
        }
        Origin::BuiltIn(function) => {
            let first_default = function.arguments.len() - function.defaults.len();
            let shown = function.arguments.iter().enumerate().map(|(at, ty)| {
                let name = function.argument_names.get(at).copied().unwrap_or_default();
                let default = at.checked_sub(first_default).map(|at| function.defaults[at]);
                ("IN", name, *ty, default)
            });
            shown.collect()
        }
    }
}

pub(super) fn parameters(system: &SystemCatalog<'_>, out: &mut Output) {
    each_routine(system, |routine| {
        if !may_execute(system, &routine) {
            return;
        }
        let is_owner = system.objects().is_owner(system.session.role_oid(), &routine.rights);
        for (at, (mode, name, ty, default)) in parameters_of(&routine.origin).into_iter().enumerate() {
            let number = at as i32 + 1;
            let mut cells = specific(system, &routine);
            cells.extend([
                ("ordinal_position", number.value()),
                ("parameter_mode", mode.value()),
                ("is_result", "NO".value()),
                ("as_locator", "NO".value()),
                ("parameter_name", Some(name).filter(|name| !name.is_empty()).value()),
            ]);
            cells.extend(type_cells(system, ty, ["udt_catalog", "udt_schema", "udt_name"]));
            cells.push(("dtd_identifier", number.to_string().value()));
            cells.push(("parameter_default", default.filter(|_| is_owner).value()));
            out.row(cells);
        }
    });
}

/// The events of a trigger, in PostgreSQL's order.
fn events(trigger: &Trigger) -> impl Iterator<Item = &'static str> {
    let events =
        [(trigger.on_insert, "INSERT"), (trigger.on_delete, "DELETE"), (trigger.on_update, "UPDATE")];
    events.into_iter().filter(|(is_set, _)| *is_set).map(|(_, event)| event)
}

/// The place of a trigger among those that fire at the same time for the same event: they fire by their names.
fn order(system: &SystemCatalog<'_>, trigger: &Trigger, event: &str) -> i32 {
    let is_before = |other: &Trigger| {
        other.table == trigger.table
            && other.time == trigger.time
            && other.for_each_row == trigger.for_each_row
            && other.name < trigger.name
            && events(other).any(|it| it == event)
    };
    system.objects().triggers().filter(|other| is_before(other)).count() as i32 + 1
}

/// The columns that name a trigger and its table.
fn named(system: &SystemCatalog<'_>, trigger: &Trigger, table: &Table) -> Cells {
    let database = system.session.database.as_str();
    vec![
        ("trigger_catalog", database.value()),
        ("trigger_schema", table.schema.as_str().value()),
        ("trigger_name", trigger.name.as_str().value()),
        ("event_object_catalog", database.value()),
        ("event_object_schema", table.schema.as_str().value()),
        ("event_object_table", table.name.as_str().value()),
    ]
}

pub(super) fn triggers(system: &SystemCatalog<'_>, out: &mut Output) {
    let catalog = system.objects();
    for trigger in catalog.triggers() {
        let Some(table) = catalog.table_by_oid(trigger.table).filter(|table| system.may_change(table)) else {
            continue;
        };
        let is_owner = catalog.is_owner(system.session.role_oid(), &table.rights);
        for event in events(trigger) {
            let mut cells = named(system, trigger, table);
            cells.extend([
                ("event_manipulation", event.value()),
                ("action_order", order(system, trigger, event).value()),
                ("action_condition", condition(system, trigger, false).filter(|_| is_owner).value()),
                ("action_statement", execution(system, trigger).value()),
                ("action_orientation", if trigger.for_each_row { "ROW" } else { "STATEMENT" }.value()),
                (
                    "action_timing",
                    if trigger.time == TriggerTime::Before { "BEFORE" } else { "AFTER" }.value(),
                ),
            ]);
            out.row(cells);
        }
    }
}

/// The columns of UPDATE OF, of tables of which the session's role sees more than it may read.
pub(super) fn triggered_columns(system: &SystemCatalog<'_>, out: &mut Output) {
    let catalog = system.objects();
    for trigger in catalog.triggers() {
        let Some(table) = catalog.table_by_oid(trigger.table).filter(|table| system.may_change(table)) else {
            continue;
        };
        for column in &trigger.columns {
            let mut cells = named(system, trigger, table);
            cells.push(("event_object_column", column.as_str().value()));
            out.row(cells);
        }
    }
}
