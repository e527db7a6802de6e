//! Functions of `pg_temp` end with their session, so only objects that are temporary themselves may call them.

use crate::catalog::store::{Object, TEMPORARY};
use crate::catalog::{Catalog, Trigger};
use crate::error::{Result, SqlError};

/// An error if a definition that outlives its session calls a function of `pg_temp`.
///
/// # Errors
/// 0A000.
pub(super) fn refuse_calls(objects: &[Object], catalog: &Catalog) -> Result<()> {
    for object in objects {
        let (kind, name, texts) = match object {
            Object::Trigger(trigger) if is_of_permanent_table(trigger, catalog) => {
                let function = catalog.routine_by_oid(trigger.function);
                if let Some(function) = function.filter(|it| it.schema.starts_with(TEMPORARY)) {
                    return Err(refused("trigger", &trigger.name, &function.name));
                }
                ("trigger", trigger.name.as_str(), trigger.condition.iter().map(String::as_str).collect())
            }
            object => match object.expressions() {
                Some(found) => found,
                None => continue,
            },
        };
        let mut calls = texts.into_iter().flat_map(crate::parse::called_functions);
        let is_temporary = |schema: &str| schema == "pg_temp" || schema.starts_with(TEMPORARY);
        let found =
            calls.find(|(schema, _): &(Option<String>, String)| schema.as_deref().is_some_and(is_temporary));
        if let Some((_, function)) = found {
            return Err(refused(kind, name, &function));
        }
    }
    Ok(())
}

fn is_of_permanent_table(trigger: &Trigger, catalog: &Catalog) -> bool {
    catalog.table_by_oid(trigger.table).is_none_or(|table| !table.persistence.is_temporary())
}

fn refused(kind: &str, name: &str, function: &str) -> SqlError {
    let message = format!("{kind} {name} cannot call {function}, a function of the schema pg_temp");
    SqlError::unsupported(message)
        .with_detail("The function ends with the session, and what calls it does not.")
        .with_hint("Create the function in a permanent schema.")
}
