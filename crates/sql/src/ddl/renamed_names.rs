//! Names in the catalog's texts follow the types and functions that are renamed, moved, or in a renamed schema.
//!
//! # Invariants
//! - Bodies of routines that are strings are not looked at, as in PostgreSQL.

use std::sync::Arc;

use crate::bind::definition_path;
use crate::catalog::store::Object;
use crate::catalog::{Catalog, Domain, Relation, Routine, Table, Trigger, UserType, View};
use crate::ddl::settled_bodies::rename_in_body;
use crate::error::{Result, SqlError, SqlState};
use crate::functions::functions_named;
use crate::parse::syntax::ObjectName;
use crate::parse::{Reference, qualified_name, with_names};

/// The new form of a name in a text, if it means something that is renamed; the third argument is the schemas in which
/// it is looked up.
pub(super) type Renaming<'r> = dyn Fn(Reference, &ObjectName, &[String]) -> Option<String> + 'r;

/// The renaming of a type, from a schema and a name to others.
pub(super) fn renaming_of_type<'r>(
    catalog: &'r Catalog,
    from: (&'r str, &'r str),
    to: (&'r str, &'r str),
) -> impl Fn(Reference, &ObjectName, &[String]) -> Option<String> + 'r {
    move |kind, name, path| {
        let is_named = kind == Reference::Type && name.last() == from.1;
        let found = is_named.then(|| catalog.find_type(name.schema(), name.last(), path)).flatten()?;
        (found.schema() == from.0).then(|| qualified_name(to.0, to.1))
    }
}

/// Returns true if a name in a text of the catalog's may mean a user-defined routine: without a schema it means a
/// built-in function of the name, if there is one.
pub(super) fn may_mean_routine(name: &ObjectName) -> bool {
    name.schema().is_some() || functions_named(name.last()).next().is_none()
}

/// The renaming of a routine.
///
/// # Errors
/// 2BP01: a text calls a function of the name, and there are several.
pub(super) fn rename_routine(catalog: &mut Catalog, known: &Routine, to: &Routine) -> Result<Vec<Object>> {
    let before = catalog.clone();
    let is_meant = |kind: Reference, name: &ObjectName, path: &[String]| {
        let found = || before.find_routines(name.schema(), name.last(), path);
        kind == Reference::Function
            && name.last() == known.name
            && may_mean_routine(name)
            && found().first().is_some_and(|it| it.schema == known.schema)
    };
    let renamed = rename_in_texts(catalog, &|kind, name, path| {
        is_meant(kind, name, path).then(|| qualified_name(&to.schema, &to.name))
    });
    if renamed.is_empty() || before.routines_of(&known.schema, &known.name).len() < 2 {
        return Ok(renamed);
    }
    let message = format!("cannot rename function {} because a definition calls it by name", known.name);
    Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
        .with_detail("There are several functions of this name.")
        .with_hint("Drop what calls it first, and create it again."))
}

/// Renames in all texts of a catalog: definitions and stored queries. The objects that are changed by it.
pub(super) fn rename_in_texts(catalog: &mut Catalog, renaming: &Renaming<'_>) -> Vec<Object> {
    let path = definition_path(&[]);
    let in_definition = |text: &mut String| replace(text, &path, renaming);
    let mut changed = Vec::new();
    for table in catalog.tables().cloned().collect::<Vec<_>>() {
        let mut table = table.as_ref().clone();
        if rename_in_table(&mut table, &in_definition, renaming) {
            let table = Arc::new(table);
            catalog.put_table(table.clone());
            changed.push(Object::table(&table));
        }
    }
    for view in catalog.views().cloned().collect::<Vec<_>>() {
        let mut view: View = view.as_ref().clone();
        if replace(&mut view.query, &view.search_path.clone(), renaming) {
            catalog.put_relation(&view.schema, &view.name, Relation::View(Arc::new(view.clone())));
            changed.push(Object::View(view));
        }
    }
    for ty in catalog.types().cloned().collect::<Vec<_>>() {
        let UserType::Domain(domain) = ty else { continue };
        let mut domain: Domain = domain.as_ref().clone();
        let texts = domain.checks.iter_mut().map(|check| &mut check.condition).chain(&mut domain.default);
        if rename_each(texts, &in_definition) {
            catalog.put_type(UserType::Domain(Arc::new(domain.clone())));
            changed.push(Object::Domain(domain));
        }
    }
    for routine in catalog.routines().cloned().collect::<Vec<_>>() {
        let mut routine: Routine = routine.as_ref().clone();
        let texts = routine.arguments.iter_mut().filter_map(|argument| argument.default.as_mut());
        let in_arguments = rename_each(texts, &in_definition);
        if rename_in_body(&mut routine, &|kind, name| renaming(kind, name, &path)) || in_arguments {
            catalog.put_routine(Arc::new(routine.clone()));
            changed.push(Object::Routine(routine));
        }
    }
    for trigger in catalog.triggers().cloned().collect::<Vec<_>>() {
        let mut trigger: Trigger = trigger.as_ref().clone();
        if trigger.condition.as_mut().is_some_and(&in_definition) {
            catalog.put_trigger(Arc::new(trigger.clone()));
            changed.push(Object::Trigger(trigger));
        }
    }
    changed
}

/// Renames in each of the texts; returns true if one of them changes.
fn rename_each<'t>(
    texts: impl Iterator<Item = &'t mut String>,
    in_definition: &dyn Fn(&mut String) -> bool,
) -> bool {
    let mut is_changed = false;
    texts.for_each(|text| is_changed |= in_definition(text));
    is_changed
}

fn rename_in_table(
    table: &mut Table,
    in_definition: &dyn Fn(&mut String) -> bool,
    renaming: &Renaming<'_>,
) -> bool {
    let columns = table.columns.iter_mut().filter_map(|column| column.origin.text_mut());
    let checks = table.checks.iter_mut().map(|check| &mut check.condition);
    let is_changed = rename_each(columns.chain(checks), in_definition);
    let in_query = table
        .stored_query
        .as_mut()
        .is_some_and(|stored| replace(&mut stored.query, &stored.search_path, renaming));
    is_changed || in_query
}

/// Renames in a text; returns true if it changes.
fn replace(text: &mut String, path: &[String], renaming: &Renaming<'_>) -> bool {
    let renamed = with_names(text, |kind, name| renaming(kind, name, path));
    let is_changed = renamed != *text;
    *text = renamed;
    is_changed
}
