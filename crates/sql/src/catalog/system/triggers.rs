//! `pg_trigger`, and triggers as statements of SQL: the output of `pg_get_triggerdef`.

use super::SystemCatalog;
use super::definitions::{check_text, shown_relation};
use super::row::{Output, row, vector};
use crate::catalog::{Trigger, TriggerTime};
use crate::parse::{is_call, quote_identifier};
use crate::types::{Type, Value};

/// The bits of `pg_trigger.tgtype`.
const ROW: i16 = 1;
const BEFORE: i16 = 2;
const INSERT: i16 = 4;
const DELETE: i16 = 8;
const UPDATE: i16 = 16;
const TRUNCATE: i16 = 32;

fn bits(trigger: &Trigger) -> i16 {
    let parts = [
        (trigger.for_each_row, ROW),
        (trigger.time == TriggerTime::Before, BEFORE),
        (trigger.on_insert, INSERT),
        (trigger.on_delete, DELETE),
        (trigger.on_update, UPDATE),
        (trigger.on_truncate, TRUNCATE),
    ];
    parts.iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum()
}

/// The triggers of users. Those with which PostgreSQL enforces foreign keys are none here.
pub(super) fn rows(system: &SystemCatalog<'_>, out: &mut Output) {
    let catalog = system.objects();
    for trigger in catalog.triggers() {
        let Some(table) = catalog.table_by_oid(trigger.table) else { continue };
        let number = |name: &String| {
            table.visible().iter().position(|column| column.name == *name).map(|at| at as i16 + 1)
        };
        let arguments: Vec<u8> =
            trigger.arguments.iter().flat_map(|argument| argument.bytes().chain([0])).collect();
        row!(
            out,
            oid = trigger.oid,
            tgrelid = trigger.table,
            tgname = &trigger.name,
            tgfoid = trigger.function,
            tgtype = bits(trigger),
            tgenabled = if trigger.is_disabled { 'D' } else { 'O' },
            tgisinternal = false,
            tgdeferrable = trigger.is_deferrable,
            tginitdeferred = trigger.is_deferred,
            tgnargs = trigger.arguments.len() as i16,
            tgattr = vector(Type::Int2, trigger.columns.iter().filter_map(number)),
            tgargs = Value::bytes(&arguments),
            tgqual = trigger.condition.clone(),
            tgoldtable = trigger.old_table.as_deref(),
            tgnewtable = trigger.new_table.as_deref(),
        );
    }
}

/// `pg_get_triggerdef`; `is_short`: the table's schema is left out where it is visible, and parentheses that nothing needs.
pub(super) fn definition(system: &SystemCatalog<'_>, oid: u32, is_short: bool) -> Option<String> {
    let catalog = system.objects();
    let trigger = catalog.triggers().find(|trigger| trigger.oid == oid)?;
    let table = catalog.table_by_oid(trigger.table)?;
    let time = if trigger.time == TriggerTime::Before { "BEFORE" } else { "AFTER" };
    let columns: Vec<_> = trigger.columns.iter().map(|name| quote_identifier(name)).collect();
    let update =
        if columns.is_empty() { "UPDATE".to_string() } else { format!("UPDATE OF {}", columns.join(", ")) };
    let events = [
        (trigger.on_insert, "INSERT".to_string()),
        (trigger.on_delete, "DELETE".to_string()),
        (trigger.on_update, update),
        (trigger.on_truncate, "TRUNCATE".to_string()),
    ];
    let events: Vec<_> = events.into_iter().filter(|(is_set, _)| *is_set).map(|(_, event)| event).collect();
    let on = match shown_relation(system, table.oid) {
        Some(shown) if is_short => shown,
        _ => format!("{}.{}", quote_identifier(&table.schema), quote_identifier(&table.name)),
    };
    let each = if trigger.for_each_row { "ROW" } else { "STATEMENT" };
    let condition =
        condition(system, trigger, is_short).map_or_else(String::new, |text| format!(" WHEN ({text})"));
    Some(format!(
        "CREATE {}TRIGGER {} {time} {} ON {on}{} FOR EACH {each}{condition} {}",
        if trigger.is_constraint { "CONSTRAINT " } else { "" },
        quote_identifier(&trigger.name),
        events.join(" OR "),
        clauses(trigger),
        execution(system, trigger)?,
    ))
}

/// The clauses between a trigger's table and FOR EACH.
fn clauses(trigger: &Trigger) -> String {
    let timing = match (trigger.is_constraint, trigger.is_deferrable) {
        (true, true) if trigger.is_deferred => " DEFERRABLE INITIALLY DEFERRED",
        (true, true) => " DEFERRABLE INITIALLY IMMEDIATE",
        (true, false) => " NOT DEFERRABLE INITIALLY IMMEDIATE",
        (false, _) => "",
    };
    let table = |which: &str, name: &Option<String>| {
        name.as_ref().map_or(String::new(), |name| format!(" {which} TABLE AS {}", quote_identifier(name)))
    };
    let tables = format!("{}{}", table("OLD", &trigger.old_table), table("NEW", &trigger.new_table));
    if tables.is_empty() { timing.to_string() } else { format!("{timing} REFERENCING{tables}") }
}

/// The condition of WHEN without the parentheses that the statement demands; `is_short`: and without any other ones.
pub(super) fn condition(system: &SystemCatalog<'_>, trigger: &Trigger, is_short: bool) -> Option<String> {
    let text = check_text(system, trigger.condition.as_deref()?);
    Some(if is_short || is_call(&text) { text } else { format!("({text})") })
}

/// `EXECUTE FUNCTION f('argument')`
pub(super) fn execution(system: &SystemCatalog<'_>, trigger: &Trigger) -> Option<String> {
    let catalog = system.objects();
    let routine = catalog.routine_by_oid(trigger.function)?;
    let is_visible = catalog
        .find_routines(None, &routine.name, &system.session.path())
        .iter()
        .any(|it| it.oid == routine.oid);
    let schema = if is_visible { String::new() } else { format!("{}.", quote_identifier(&routine.schema)) };
    let quoted = |argument: &String| format!("'{}'", argument.replace('\'', "''"));
    let arguments: Vec<_> = trigger.arguments.iter().map(quoted).collect();
    Some(format!("EXECUTE FUNCTION {schema}{}({})", quote_identifier(&routine.name), arguments.join(", ")))
}
